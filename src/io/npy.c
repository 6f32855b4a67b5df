/* NumPy's .npy: "\x93NUMPY", version, header length (u16; u32 from version 2.0), a Python literal
 * {'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), } padded to 64 bytes, then the data. */
#include <stdio.h>

#include "io/arrays.h"

#define MAGIC "\x93NUMPY"
#define LONGEST_HEADER ((size_t)1 << 20)

/* Stored element types and the dtype they become. `wide`: read with a conversion. */
typedef struct stored_type {
    const char *code; /* kind and bytes, without byte order */
    size_t bytes;
    size_t word; /* unit of byte order */
    tensum_dtype dtype;
} stored_type;

static const stored_type stored_types[] = {
    {"f2", 2, 2, TENSUM_F16},  {"f4", 4, 4, TENSUM_F32},  {"f8", 8, 8, TENSUM_F64}, {"c8", 8, 4, TENSUM_C64},
    {"c16", 16, 8, TENSUM_C128}, {"b1", 1, 1, TENSUM_BOOL}, {"i1", 1, 1, TENSUM_I16}, {"u1", 1, 1, TENSUM_I16},
    {"i2", 2, 2, TENSUM_I16},  {"u2", 2, 2, TENSUM_I32},  {"i4", 4, 4, TENSUM_I32}, {"u4", 4, 4, TENSUM_I64},
    {"i8", 8, 8, TENSUM_I64},  {"u8", 8, 8, TENSUM_I64},
};
static const stored_type value_and_count[] = {{"f4", 8, 4, TENSUM_VC64}, {"f8", 16, 8, TENSUM_VC128}};

typedef struct header {
    const stored_type *type;
    bool big_endian, fortran_order;
    int32_t rank;
    int64_t extents[TS_ARRAY_RANK];
} header;

typedef struct literal { /* reader of the Python literal */
    const char *place, *text;
    size_t length, position;
} literal;

static tensum_status expected(const literal *l, const char *what)
{
    return ts_fail(TENSUM_STATUS_MALFORMED, "%.300s: byte %zu of the .npy header: expected %s", l->place, l->position,
                   what);
}

static void blanks(literal *l)
{
    while (l->position < l->length && strchr(" \t\r\n", l->text[l->position]) != NULL && l->text[l->position] != 0) {
        l->position++;
    }
}

static bool take(literal *l, char c)
{
    blanks(l);
    if (l->position < l->length && l->text[l->position] == c) {
        l->position++;
        return true;
    }
    return false;
}

static tensum_status string(literal *l, char *out, size_t room)
{
    blanks(l);
    char quote = l->position < l->length ? l->text[l->position] : 0;
    if (quote != '\'' && quote != '"') {
        return expected(l, "a string in quotes");
    }
    size_t start = ++l->position;
    while (l->position < l->length && l->text[l->position] != quote) {
        l->position++;
    }
    size_t length = l->position - start;
    if (l->position >= l->length || length >= room) {
        return expected(l, "a short string in quotes");
    }
    memcpy(out, l->text + start, length);
    out[length] = 0;
    l->position++;
    return TENSUM_OK;
}

static tensum_status find_type(const literal *l, const char *descr, const stored_type *types, size_t count, header *h)
{
    const char *code = descr;
    bool big = *code == '>';
    if (*code == '<' || *code == '>' || *code == '|' || *code == '=') {
        code++;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(code, types[i].code) == 0) {
            h->type = &types[i];
            h->big_endian = big;
            return TENSUM_OK;
        }
    }
    return ts_fail(TENSUM_STATUS_UNSUPPORTED, "%.300s: arrays of '%s'%s are not supported", l->place, descr,
                   *code == 'O' ? " (Python objects)" : "");
}

/* '<f8', or [('value', '<f4'), ('count', '<f4')]. */
static tensum_status read_descr(literal *l, header *h)
{
    static const char *const fields[] = {"value", "count"};
    tensum_status status = TENSUM_OK;
    char text[32];
    if (!take(l, '[')) {
        TRY(string(l, text, sizeof text));
        return find_type(l, text, stored_types, sizeof stored_types / sizeof *stored_types, h);
    }
    for (int i = 0; i < 2; i++) {
        const stored_type *before = h->type;
        if ((i == 1 && !take(l, ',')) || !take(l, '(')) {
            return expected(l, "a record of the fields 'value' and 'count'");
        }
        TRY(string(l, text, sizeof text));
        if (strcmp(text, fields[i]) != 0 || !take(l, ',')) {
            return expected(l, "a record of the fields 'value' and 'count'");
        }
        TRY(string(l, text, sizeof text));
        TRY(find_type(l, text, value_and_count, 2, h));
        take(l, ',');
        if (!take(l, ')') || (i == 1 && h->type != before)) {
            return expected(l, "two fields of one type");
        }
    }
    take(l, ',');
    if (!take(l, ']')) {
        return expected(l, "']'");
    }
done:
    return status;
}

static tensum_status read_shape(literal *l, header *h)
{
    if (!take(l, '(')) {
        return expected(l, "the shape in parentheses");
    }
    while (!take(l, ')')) {
        int64_t extent;
        blanks(l);
        size_t start = l->position;
        while (l->position < l->length && ((l->text[l->position] >= '0' && l->text[l->position] <= '9') ||
                                           l->text[l->position] == '-')) {
            l->position++;
        }
        size_t length = l->position - start;
        if (!ts_parse_integer(l->text + start, length, &extent) || extent < 0) {
            return expected(l, "an extent, 0 or more");
        }
        take(l, 'L'); /* Python 2 */
        if (h->rank == TS_ARRAY_RANK) {
            return ts_fail(TENSUM_STATUS_UNSUPPORTED, "%.300s: more than %d modes", l->place, TS_ARRAY_RANK);
        }
        h->extents[h->rank++] = extent;
        if (!take(l, ',') && (l->position >= l->length || l->text[l->position] != ')')) {
            return expected(l, "',' or ')'");
        }
    }
    return TENSUM_OK;
}

static tensum_status read_header(const char *place, const char *text, size_t length, header *h)
{
    tensum_status status = TENSUM_OK;
    literal l = {place, text, length, 0};
    unsigned found = 0;
    char key[32];
    if (!take(&l, '{')) {
        return expected(&l, "'{'");
    }
    while (!take(&l, '}')) {
        TRY(string(&l, key, sizeof key));
        if (!take(&l, ':')) {
            return expected(&l, "':'");
        }
        if (strcmp(key, "descr") == 0) {
            TRY(read_descr(&l, h));
            found |= 1;
        } else if (strcmp(key, "shape") == 0) {
            h->rank = 0;
            TRY(read_shape(&l, h));
            found |= 2;
        } else if (strcmp(key, "fortran_order") == 0) {
            blanks(&l);
            h->fortran_order = l.length - l.position >= 4 && memcmp(text + l.position, "True", 4) == 0;
            if (!h->fortran_order && (l.length - l.position < 5 || memcmp(text + l.position, "False", 5) != 0)) {
                return expected(&l, "True or False");
            }
            l.position += h->fortran_order ? 4 : 5;
            found |= 4;
        } else {
            return expected(&l, "the key 'descr', 'fortran_order' or 'shape'");
        }
        if (!take(&l, ',')) {
            blanks(&l);
            if (l.position >= l.length || l.text[l.position] != '}') {
                return expected(&l, "',' or '}'");
            }
        }
    }
    if (found != 7) {
        return expected(&l, "the keys 'descr', 'fortran_order' and 'shape'");
    }
done:
    return status;
}

/* Bring one stored element into the dtype's form. */
static bool convert_element(const header *h, const unsigned char *from, unsigned char *to)
{
    unsigned char swapped[16];
    const stored_type *type = h->type;
    memcpy(swapped, from, type->bytes);
    if (h->big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)) {
        for (size_t word = 0; word < type->bytes; word += type->word) {
            for (size_t i = 0; i < type->word; i++) {
                swapped[word + i] = from[word + type->word - 1 - i];
            }
        }
    }
    if (type->code[0] == 'b') {
        to[0] = swapped[0] != 0;
    } else if (strcmp(type->code, "i1") == 0 || strcmp(type->code, "u1") == 0) {
        int16_t value = type->code[0] == 'i' ? (int16_t)(int8_t)swapped[0] : (int16_t)swapped[0];
        memcpy(to, &value, sizeof value);
    } else if (strcmp(type->code, "u2") == 0) {
        uint16_t value;
        memcpy(&value, swapped, sizeof value);
        int32_t wide = value;
        memcpy(to, &wide, sizeof wide);
    } else if (strcmp(type->code, "u4") == 0) {
        uint32_t value;
        memcpy(&value, swapped, sizeof value);
        int64_t wide = value;
        memcpy(to, &wide, sizeof wide);
    } else {
        memcpy(to, swapped, type->bytes);
        int64_t value;
        if (type->code[0] == 'u') { /* u8 */
            memcpy(&value, swapped, sizeof value);
            return value >= 0;
        }
    }
    return true;
}

static tensum_status read_data(const char *place, const header *h, const unsigned char *bytes, size_t length,
                               ts_array *array)
{
    tensum_status status = TENSUM_OK;
    int64_t count, needed;
    size_t element = tensum_dtype_bytes(h->type->dtype);
    TRY(ts_element_count(place, h->rank, h->extents, &count));
    if (!ts_multiply(count, (int64_t)h->type->bytes, &needed) || (size_t)needed != length) {
        status = ts_fail(TENSUM_STATUS_MALFORMED, "%.300s: the shape asks for %lld elements of %zu bytes, found %zu bytes",
                         place, (long long)count, h->type->bytes, length);
        goto done;
    }
    TRY(ts_allocate_aligned((size_t)count * element, "an array", &array->data));
    if (element == h->type->bytes && h->big_endian == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) &&
        h->type->code[0] != 'u' && h->type->code[0] != 'b') {
        if (count != 0) {
            memcpy(array->data, bytes, (size_t)needed);
        }
    } else {
        for (int64_t i = 0; i < count; i++) {
            if (!convert_element(h, bytes + (size_t)i * h->type->bytes,
                                 (unsigned char *)array->data + (size_t)i * element)) {
                status = ts_fail(TENSUM_STATUS_UNSUPPORTED, "%.300s: element %lld does not fit into i64", place,
                                 (long long)i);
                goto done;
            }
        }
    }
    int64_t stride = 1;
    for (int32_t i = 0; i < h->rank; i++) {
        int32_t mode = h->fortran_order ? i : h->rank - 1 - i;
        array->extents[mode] = h->extents[mode];
        array->strides[mode] = stride;
        stride *= h->extents[mode] != 0 ? h->extents[mode] : 1; /* below the checked product or 0 elements */
    }
    array->tensor = (tensum_tensor){array->data,    h->type->dtype, h->rank,
                                    array->extents, array->strides, {TENSUM_CPU, 0}};
done:
    return status;
}

tensum_status ts_npy_read(const char *place, const char *name, size_t name_length, const void *bytes, size_t length,
                          ts_array **out)
{
    tensum_status status = TENSUM_OK;
    const unsigned char *b = bytes;
    ts_array *array = NULL;
    header h = {0};
    if (length < 10 || memcmp(b, MAGIC, 6) != 0) {
        return ts_fail(TENSUM_STATUS_MALFORMED, "%.300s: expected a .npy file, which begins with \\x93NUMPY", place);
    }
    if (b[6] < 1 || b[6] > 3) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "%.300s: .npy version %d.%d", place, (int)b[6], (int)b[7]);
    }
    size_t start = b[6] == 1 ? 10 : 12;
    size_t header_length = (size_t)b[8] | (size_t)b[9] << 8;
    if (b[6] > 1) {
        if (length < 12) {
            return ts_fail(TENSUM_STATUS_MALFORMED, "%.300s: the .npy header is truncated", place);
        }
        header_length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    }
    if (header_length > length - start || header_length > LONGEST_HEADER) {
        return ts_fail(TENSUM_STATUS_MALFORMED, "%.300s: a .npy header of %zu bytes does not fit into the file", place,
                       header_length);
    }
    TRY(read_header(place, (const char *)b + start, header_length, &h));
    TRY(ts_allocate_zero(1, sizeof *array, "an array", &array));
    TRY(ts_allocate(name_length + 1, 1, "a name", &array->name));
    memcpy(array->name, name, name_length);
    array->name[name_length] = 0;
    TRY(read_data(place, &h, b + start + header_length, length - start - header_length, array));
    *out = array;
    array = NULL;
done:
    ts_array_free(array);
    return status;
}

static const char *descr_of(tensum_dtype dtype)
{
    switch (dtype) {
    case TENSUM_F16:
        return "'<f2'";
    case TENSUM_BF16: /* NumPy has none: f32 holds every value */
    case TENSUM_F32:
        return "'<f4'";
    case TENSUM_F64:
        return "'<f8'";
    case TENSUM_C64:
        return "'<c8'";
    case TENSUM_C128:
        return "'<c16'";
    case TENSUM_I16:
        return "'<i2'";
    case TENSUM_I32:
        return "'<i4'";
    case TENSUM_I64:
        return "'<i8'";
    case TENSUM_BOOL:
        return "'|b1'";
    case TENSUM_VC64:
        return "[('value', '<f4'), ('count', '<f4')]";
    case TENSUM_VC128:
        return "[('value', '<f8'), ('count', '<f8')]";
    default:
        return NULL;
    }
}

tensum_status ts_npy_write(const tensum_tensor *tensor, ts_text *out)
{
    tensum_status status = TENSUM_OK;
    ts_walker walker;
    ts_text dict = {0};
    int64_t count;
    const char *descr = descr_of(tensor->dtype);
    if (descr == NULL || __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "this dtype or machine cannot write .npy files");
    }
    TRY(ts_walker_start(&walker, tensor));
    TRY(ts_element_count("output", tensor->rank, tensor->extents, &count));
    ts_text_add(&dict, "{'descr': %s, 'fortran_order': False, 'shape': (", descr);
    for (int32_t i = 0; i < tensor->rank; i++) {
        ts_text_add(&dict, i == 0 ? "%lld" : ", %lld", (long long)tensor->extents[i]);
    }
    ts_text_add(&dict, tensor->rank == 1 ? ",), }" : "), }");
    while (dict.status == TENSUM_OK && (dict.length + 11) % 64 != 0) {
        ts_text_add_bytes(&dict, " ", 1);
    }
    ts_text_add_bytes(&dict, "\n", 1);
    TRY(dict.status);
    unsigned char prefix[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    prefix[8] = (unsigned char)(dict.length & 0xff);
    prefix[9] = (unsigned char)(dict.length >> 8);
    ts_text_add_bytes(out, prefix, sizeof prefix);
    ts_text_add_bytes(out, dict.bytes, dict.length);
    size_t element = tensor->dtype == TENSUM_BF16 ? 4 : walker.bytes;
    TRY(out->status);
    TRY(ts_reserve(out->length + (size_t)count * element + 1, 1, "a .npy file", &out->capacity, &out->bytes));
    for (int64_t i = 0; i < count; i++) {
        if (tensor->dtype == TENSUM_BF16) {
            unsigned char wide[4] = {0, 0, 0, 0};
            memcpy(wide + 2, walker.pointer, 2);
            memcpy(out->bytes + out->length, wide, 4);
        } else {
            memcpy(out->bytes + out->length, walker.pointer, element);
        }
        out->length += element;
        ts_walker_step(&walker);
    }
    out->bytes[out->length] = 0;
done:
    ts_text_free(&dict);
    return status;
}
