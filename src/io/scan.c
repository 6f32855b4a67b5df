#define _GNU_SOURCE
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/text.h"

#define SHOWN 40 /* bytes of a token that messages repeat */

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f'; }

void ts_scanner_start(ts_scanner *scanner, const ts_input *input)
{
    *scanner = (ts_scanner){.input = input};
}

static bool take_token(ts_scanner *scanner)
{
    const char *bytes = scanner->input->bytes;
    size_t end = scanner->position;
    while (end < scanner->input->length && !is_blank(bytes[end])) {
        end++;
    }
    scanner->token = scanner->position;
    scanner->length = end - scanner->position;
    scanner->position = end;
    return scanner->length != 0;
}

bool ts_scan(ts_scanner *scanner)
{
    while (scanner->position < scanner->input->length && is_blank(scanner->input->bytes[scanner->position])) {
        scanner->position++;
    }
    return take_token(scanner);
}

bool ts_scan_in_line(ts_scanner *scanner)
{
    const char *bytes = scanner->input->bytes;
    while (scanner->position < scanner->input->length && bytes[scanner->position] != '\n' &&
           is_blank(bytes[scanner->position])) {
        scanner->position++;
    }
    if (scanner->position < scanner->input->length && bytes[scanner->position] == '\n') {
        scanner->token = scanner->position;
        scanner->length = 0;
        return false;
    }
    return take_token(scanner);
}

bool ts_scan_next_line(ts_scanner *scanner)
{
    const char *rest = scanner->input->bytes + scanner->position;
    const char *end = memchr(rest, '\n', scanner->input->length - scanner->position);
    scanner->position = end != NULL ? scanner->position + (size_t)(end - rest) + 1 : scanner->input->length;
    return scanner->position < scanner->input->length;
}

bool ts_token_is(const ts_scanner *scanner, const char *text)
{
    return scanner->length == strlen(text) &&
           memcmp(scanner->input->bytes + scanner->token, text, scanner->length) == 0;
}

size_t ts_scan_remaining(const ts_scanner *scanner) { return scanner->input->length - scanner->position; }

tensum_status ts_scan_fail(const ts_scanner *scanner, const char *expected)
{
    char shown[SHOWN + 1];
    size_t used = 0;
    if (scanner->length == 0) {
        return ts_input_fail(scanner->input, scanner->token, "expected %s, found the end of the %s", expected,
                             scanner->token >= scanner->input->length ? "file" : "line");
    }
    for (; used < scanner->length && used < SHOWN; used++) {
        char c = scanner->input->bytes[scanner->token + used];
        shown[used] = c >= 0x20 && c < 0x7f ? c : '?';
    }
    shown[used] = 0;
    return ts_input_fail(scanner->input, scanner->token, "expected %s, found '%s%s'", expected, shown,
                         scanner->length > SHOWN ? "..." : "");
}

bool ts_parse_integer(const char *text, size_t length, int64_t *value)
{
    size_t i = 0;
    bool negative = false;
    uint64_t magnitude = 0;
    if (length != 0 && (text[0] == '-' || text[0] == '+')) {
        negative = text[0] == '-';
        i = 1;
    }
    if (i == length) {
        return false;
    }
    for (; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(magnitude, 10u, &magnitude) ||
            __builtin_add_overflow(magnitude, (uint64_t)(text[i] - '0'), &magnitude)) {
            return false;
        }
    }
    if (magnitude > (uint64_t)INT64_MAX) { /* INT64_MIN is given up: no file needs it */
        return false;
    }
    *value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return true;
}

/* A double from digits and a power of ten is exact if the digits fit 53 bits and the power is exact itself
 * (Clinger 1990); everything else goes to the C library, in the C locale. */
bool ts_parse_real(const char *text, size_t length, double *value)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    size_t i = 0, digits = 0;
    uint64_t mantissa = 0;
    int64_t exponent = 0, written = 0;
    bool negative = false, exact = true;
    if (i < length && (text[i] == '-' || text[i] == '+')) {
        negative = text[i++] == '-';
    }
    bool point = false;
    for (; i < length; i++) {
        char c = text[i];
        if (c == '.' && !point) {
            point = true;
        } else if (c >= '0' && c <= '9') {
            digits++;
            if (mantissa < (UINT64_C(1) << 53) / 10) {
                mantissa = mantissa * 10 + (uint64_t)(c - '0');
                exponent -= point;
            } else {
                exact = false;
            }
        } else {
            break;
        }
    }
    if (digits == 0) {
        return false;
    }
    if (i < length && (text[i] == 'e' || text[i] == 'E')) {
        bool minus = false;
        size_t first = ++i;
        if (i < length && (text[i] == '-' || text[i] == '+')) {
            minus = text[i++] == '-';
            first = i;
        }
        for (; i < length && text[i] >= '0' && text[i] <= '9'; i++) {
            written = written < 100000 ? written * 10 + (text[i] - '0') : written;
        }
        if (i == first) {
            return false;
        }
        exponent += minus ? -written : written;
    }
    if (i != length) {
        return false;
    }
    if (exact && exponent >= -22 && exponent <= 22) {
        double result = (double)mantissa;
        result = exponent < 0 ? result / powers[-exponent] : result * powers[exponent];
        *value = negative ? -result : result;
        return true;
    }
    char copy[1024]; /* longer tokens keep their first digits: far below the last place */
    if (length >= sizeof copy) {
        return false;
    }
    memcpy(copy, text, length);
    copy[length] = 0;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0) {
        return false;
    }
    char *end;
    double result = strtod_l(copy, &end, c_locale);
    freelocale(c_locale);
    if (end != copy + length || isinf(result)) {
        return false;
    }
    *value = result;
    return true;
}

tensum_status ts_token_integer(const ts_scanner *scanner, const char *what, int64_t lowest, int64_t highest,
                               int64_t *value)
{
    char expected[200];
    int64_t number;
    if (scanner->length == 0 || !ts_parse_integer(scanner->input->bytes + scanner->token, scanner->length, &number) ||
        number < lowest || number > highest) {
        if (highest == INT64_MAX && lowest == -INT64_MAX) {
            snprintf(expected, sizeof expected, "%s (an integer)", what);
        } else if (highest == INT64_MAX) {
            snprintf(expected, sizeof expected, "%s (an integer, %lld or more)", what, (long long)lowest);
        } else if (highest < lowest) {
            snprintf(expected, sizeof expected, "%s, of which there are none", what);
        } else {
            snprintf(expected, sizeof expected, "%s (an integer from %lld to %lld)", what, (long long)lowest,
                     (long long)highest);
        }
        return ts_scan_fail(scanner, expected);
    }
    *value = number;
    return TENSUM_OK;
}

tensum_status ts_token_real(const ts_scanner *scanner, const char *what, double *value)
{
    char expected[200];
    if (scanner->length == 0 || !ts_parse_real(scanner->input->bytes + scanner->token, scanner->length, value)) {
        snprintf(expected, sizeof expected, "%s (a finite number)", what);
        return ts_scan_fail(scanner, expected);
    }
    return TENSUM_OK;
}

tensum_status ts_scan_integer(ts_scanner *scanner, const char *what, int64_t lowest, int64_t highest, int64_t *value)
{
    ts_scan(scanner);
    return ts_token_integer(scanner, what, lowest, highest, value);
}

tensum_status ts_scan_real(ts_scanner *scanner, const char *what, double *value)
{
    ts_scan(scanner);
    return ts_token_real(scanner, what, value);
}

tensum_status ts_scan_count(ts_scanner *scanner, const char *what, int64_t bytes_each, int64_t *value)
{
    int64_t count;
    tensum_status status = ts_scan_integer(scanner, what, 0, INT64_MAX, &count);
    if (status != TENSUM_OK) {
        return status;
    }
    size_t remaining = ts_scan_remaining(scanner);
    if (count > (int64_t)remaining / bytes_each + 1) {
        return ts_input_fail(scanner->input, scanner->token,
                             "expected %s, found %lld, but the file ends %zu bytes later", what, (long long)count,
                             remaining);
    }
    *value = count;
    return TENSUM_OK;
}

tensum_status ts_scan_end(ts_scanner *scanner)
{
    return ts_scan(scanner) ? ts_scan_fail(scanner, "the end of the file") : TENSUM_OK;
}
