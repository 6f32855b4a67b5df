#include <stdio.h>

#include "io/json.h"

/* State of the parser: the open containers, innermost last, with the last child of each. */
typedef struct parser {
    ts_json *json;
    const char *bytes;
    size_t length, position;
    size_t capacity; /* of json->values */
    int64_t *open;
    size_t depth, open_capacity;
    int64_t *last; /* last child of each open container, -1: none */
    size_t last_capacity;
} parser;

static tensum_status expected(const parser *p, const char *what)
{
    if (p->position >= p->length) {
        return ts_input_fail(p->json->input, p->position, "expected %s, found the end of the file", what);
    }
    char c = p->bytes[p->position];
    return ts_input_fail(p->json->input, p->position, "expected %s, found '%c'", what, c >= 0x20 && c < 0x7f ? c : '?');
}

static void skip_blanks(parser *p)
{
    while (p->position < p->length) {
        char c = p->bytes[p->position];
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
            return;
        }
        p->position++;
    }
}

static bool hex4(const parser *p, size_t at, unsigned *value)
{
    *value = 0;
    for (size_t i = at; i < at + 4; i++) {
        char c = i < p->length ? p->bytes[i] : 0;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit == 16) {
            return false;
        }
        *value = *value * 16 + digit;
    }
    return true;
}

static size_t encode_utf8(unsigned code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | (code >> 6));
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | (code >> 12));
        out[1] = (char)(0x80 | ((code >> 6) & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | (code >> 18));
    out[1] = (char)(0x80 | ((code >> 12) & 0x3f));
    out[2] = (char)(0x80 | ((code >> 6) & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* One escape; the position is at the backslash. */
static tensum_status parse_escape(parser *p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = p->position + 1 < p->length ? p->bytes[p->position + 1] : 0;
    const char *found = c != 0 ? strchr(from, c) : NULL;
    if (found != NULL) {
        ts_text_add_bytes(&p->json->text, &to[found - from], 1);
        p->position += 2;
        return TENSUM_OK;
    }
    unsigned code, low;
    if (c != 'u' || !hex4(p, p->position + 2, &code)) {
        return ts_input_fail(p->json->input, p->position, "expected an escape such as \\n or \\u00e9");
    }
    size_t used = 6;
    if (code >= 0xd800 && code < 0xdc00 && p->position + 7 < p->length && p->bytes[p->position + 6] == '\\' &&
        p->bytes[p->position + 7] == 'u' && hex4(p, p->position + 8, &low) && low >= 0xdc00 && low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        used = 12;
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000)) {
        return ts_input_fail(p->json->input, p->position, "expected a character, found half a surrogate pair or NUL");
    }
    char bytes[4];
    ts_text_add_bytes(&p->json->text, bytes, encode_utf8(code, bytes));
    p->position += used;
    return TENSUM_OK;
}

static tensum_status parse_string(parser *p, size_t *text, size_t *length)
{
    if (p->position >= p->length || p->bytes[p->position] != '"') {
        return expected(p, "a string");
    }
    size_t start = p->position++;
    *text = p->json->text.length;
    for (;;) {
        size_t run = p->position;
        while (run < p->length && p->bytes[run] != '"' && p->bytes[run] != '\\' &&
               (unsigned char)p->bytes[run] >= 0x20) {
            run++;
        }
        ts_text_add_bytes(&p->json->text, p->bytes + p->position, run - p->position);
        p->position = run;
        if (run >= p->length) {
            return ts_input_fail(p->json->input, start, "this string has no closing quote");
        }
        if (p->bytes[run] == '"') {
            break;
        }
        if (p->bytes[run] != '\\') {
            return ts_input_fail(p->json->input, run, "expected an escape, found a control character in a string");
        }
        tensum_status status = parse_escape(p);
        if (status != TENSUM_OK) {
            return status;
        }
    }
    p->position++;
    *length = p->json->text.length - *text;
    ts_text_add_bytes(&p->json->text, "", 1);
    return p->json->text.status;
}

static bool parse_number(parser *p, size_t *length)
{
    const char *b = p->bytes;
    size_t i = p->position;
#define DIGITS(at)                                    \
    do {                                              \
        if (b[at] < '0' || b[at] > '9') return false; \
        while (b[at] >= '0' && b[at] <= '9') at++;    \
    } while (0)
    /* The file is followed by a 0 byte, so looking one ahead is safe. */
    if (b[i] == '-') {
        i++;
    }
    if (b[i] == '0') { /* stands alone */
        i++;
    } else {
        DIGITS(i);
    }
    if (b[i] == '.') {
        i++;
        DIGITS(i);
    }
    if (b[i] == 'e' || b[i] == 'E') {
        i++;
        if (b[i] == '+' || b[i] == '-') {
            i++;
        }
        DIGITS(i);
    }
#undef DIGITS
    *length = i - p->position;
    p->position = i;
    return true;
}

static bool parse_word(parser *p, const char *word)
{
    size_t length = strlen(word);
    if (p->length - p->position < length || memcmp(p->bytes + p->position, word, length) != 0) {
        return false;
    }
    p->position += length;
    return true;
}

/* Read one value without its children and hang it into the innermost container. */
static tensum_status parse_value(parser *p, size_t key, size_t key_length)
{
    tensum_status status = TENSUM_OK;
    ts_json_value value = {.offset = p->position, .key = key, .key_length = key_length, .first = -1, .next = -1};
    char c = p->position < p->length ? p->bytes[p->position] : 0;
    if (c == '"') {
        value.kind = TS_JSON_STRING;
        TRY(parse_string(p, &value.text, &value.length));
    } else if (c == '[' || c == '{') {
        value.kind = c == '[' ? TS_JSON_ARRAY : TS_JSON_OBJECT;
        p->position++;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        value.kind = TS_JSON_NUMBER;
        if (!parse_number(p, &value.length)) {
            status = ts_input_fail(p->json->input, p->position, "expected a number with digits");
            goto done;
        }
    } else if (parse_word(p, "true")) {
        value.kind = TS_JSON_TRUE;
    } else if (parse_word(p, "false")) {
        value.kind = TS_JSON_FALSE;
    } else if (!parse_word(p, "null")) {
        status = expected(p, "a JSON value");
        goto done;
    }
    int64_t index = p->json->count;
    TRY(ts_reserve((size_t)index + 1, sizeof value, "JSON values", &p->capacity, &p->json->values));
    p->json->values[index] = value;
    p->json->count++;
    if (p->depth != 0) {
        int64_t parent = p->open[p->depth - 1], last = p->last[p->depth - 1];
        if (last < 0) {
            p->json->values[parent].first = index;
        } else {
            p->json->values[last].next = index;
        }
        p->last[p->depth - 1] = index;
        p->json->values[parent].count++;
    }
    if (value.kind == TS_JSON_ARRAY || value.kind == TS_JSON_OBJECT) {
        TRY(ts_reserve(p->depth + 1, sizeof *p->open, "JSON nesting", &p->open_capacity, &p->open));
        TRY(ts_reserve(p->depth + 1, sizeof *p->last, "JSON nesting", &p->last_capacity, &p->last));
        p->open[p->depth] = index;
        p->last[p->depth++] = -1;
    }
done:
    return status;
}

static tensum_status parse_key(parser *p, size_t *key, size_t *length)
{
    tensum_status status = TENSUM_OK;
    if (p->position >= p->length || p->bytes[p->position] != '"') {
        return expected(p, "a key in quotes");
    }
    TRY(parse_string(p, key, length));
    skip_blanks(p);
    if (p->position >= p->length || p->bytes[p->position] != ':') {
        return expected(p, "':' after the key");
    }
    p->position++;
    skip_blanks(p);
done:
    return status;
}

static tensum_status parse_document(parser *p)
{
    tensum_status status = TENSUM_OK;
    if (p->length >= 3 && memcmp(p->bytes, "\xef\xbb\xbf", 3) == 0) {
        p->position = 3;
    }
    skip_blanks(p);
    TRY(parse_value(p, 0, 0));
    while (p->depth != 0) {
        const ts_json_value *container = &p->json->values[p->open[p->depth - 1]];
        bool object = container->kind == TS_JSON_OBJECT;
        char closing = object ? '}' : ']';
        size_t key = 0, key_length = 0;
        skip_blanks(p);
        char c = p->position < p->length ? p->bytes[p->position] : 0;
        if (c == closing) {
            p->position++;
            p->depth--;
            continue;
        }
        if (p->last[p->depth - 1] >= 0) {
            if (c != ',') {
                return expected(p, object ? "',' or '}'" : "',' or ']'");
            }
            p->position++;
            skip_blanks(p);
        }
        if (object) {
            TRY(parse_key(p, &key, &key_length));
        }
        TRY(parse_value(p, key, key_length));
    }
    skip_blanks(p);
    if (p->position != p->length) {
        return expected(p, "the end of the file");
    }
done:
    return status;
}

tensum_status ts_json_parse(const ts_input *input, ts_json *json)
{
    ts_json parsed = {.input = input};
    parser p = {.json = &parsed, .bytes = input->bytes, .length = input->length};
    tensum_status status = parse_document(&p);
    ts_free(p.open);
    ts_free(p.last);
    if (status != TENSUM_OK) {
        ts_json_free(&parsed);
        return status;
    }
    *json = parsed;
    return TENSUM_OK;
}

void ts_json_free(ts_json *json)
{
    ts_free(json->values);
    ts_text_free(&json->text);
    *json = (ts_json){0};
}

const ts_json_value *ts_json_first(const ts_json *json, const ts_json_value *container)
{
    return container->first < 0 ? NULL : &json->values[container->first];
}

const ts_json_value *ts_json_next(const ts_json *json, const ts_json_value *value)
{
    return value->next < 0 ? NULL : &json->values[value->next];
}

const ts_json_value *ts_json_member(const ts_json *json, const ts_json_value *object, const char *key)
{
    size_t length = strlen(key);
    if (object == NULL || object->kind != TS_JSON_OBJECT) {
        return NULL;
    }
    for (const ts_json_value *v = ts_json_first(json, object); v != NULL; v = ts_json_next(json, v)) {
        if (v->key_length == length && memcmp(json->text.bytes + v->key, key, length) == 0) {
            return v;
        }
    }
    return NULL;
}

const char *ts_json_string(const ts_json *json, const ts_json_value *value) { return json->text.bytes + value->text; }

const char *ts_json_key(const ts_json *json, const ts_json_value *value) { return json->text.bytes + value->key; }

tensum_status ts_json_fail(const ts_json *json, const ts_json_value *value, const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return ts_input_fail(json->input, value->offset, "%s", text);
}

tensum_status ts_json_expect(const ts_json *json, const ts_json_value *value, ts_json_kind kind, const char *what)
{
    static const char *const names[] = {"null", "false", "true", "a number", "a string", "an array", "an object"};
    if (value->kind == kind) {
        return TENSUM_OK;
    }
    return ts_json_fail(json, value, "expected %s (%s), found %s", what, names[kind], names[value->kind]);
}

tensum_status ts_json_need(const ts_json *json, const ts_json_value *object, const char *key, ts_json_kind kind,
                           const ts_json_value **value)
{
    const ts_json_value *found = ts_json_member(json, object, key);
    if (found == NULL) {
        return ts_json_fail(json, object, "expected an object with the key \"%s\"", key);
    }
    tensum_status status = ts_json_expect(json, found, kind, key);
    if (status == TENSUM_OK) {
        *value = found;
    }
    return status;
}

tensum_status ts_json_integer(const ts_json *json, const ts_json_value *value, const char *what, int64_t lowest,
                              int64_t highest, int64_t *number)
{
    int64_t result;
    tensum_status status = ts_json_expect(json, value, TS_JSON_NUMBER, what);
    if (status != TENSUM_OK) {
        return status;
    }
    const char *text = json->input->bytes + value->offset;
    if (!ts_parse_integer(text, value->length, &result) || result < lowest || result > highest) {
        int shown = value->length < 40 ? (int)value->length : 40;
        if (highest == INT64_MAX) {
            return ts_json_fail(json, value, "expected %s (an integer, %lld or more), found %.*s", what,
                                (long long)lowest, shown, text);
        }
        return ts_json_fail(json, value, "expected %s (an integer from %lld to %lld), found %.*s", what,
                            (long long)lowest, (long long)highest, shown, text);
    }
    *number = result;
    return TENSUM_OK;
}

tensum_status ts_json_real(const ts_json *json, const ts_json_value *value, const char *what, double *number)
{
    tensum_status status = ts_json_expect(json, value, TS_JSON_NUMBER, what);
    if (status == TENSUM_OK && !ts_parse_real(json->input->bytes + value->offset, value->length, number)) {
        status = ts_json_fail(json, value, "expected %s (a finite number)", what);
    }
    return status;
}
