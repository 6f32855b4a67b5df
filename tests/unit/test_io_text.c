/* Input in memory, scanning, JSON, text and output: src/io without any format. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the above */
#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "io/json.h"

static ts_input input_of(const char *text)
{
    ts_input input;
    assert_int_equal(ts_input_from_memory("file", text, strlen(text), &input), TENSUM_OK);
    return input;
}

static void reals_agree_with_the_c_library(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0",     "-0",      "1",      "0.1",    "1e22",    "1e23",   "9007199254740993", "123456789012345678901234567890",
        "1e-22", "1e-23",   "5e-324", "2.5",    "1.7976931348623157e308", ".5", "5.", "1e+5", "3.14159265358979323846",
        "1e-400", "4.9406564584124654e-324", "0.30000000000000004", "179769313486231580793e288"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double value, expected = strtod(texts[i], NULL);
        assert_true(ts_parse_real(texts[i], strlen(texts[i]), &value));
        assert_memory_equal(&value, &expected, sizeof value);
    }
    ts_random random;
    ts_random_seed(&random, 1);
    for (int i = 0; i < 20000; i++) { /* random bits, printed in full and shortened */
        uint64_t bits = ts_random_next(&random);
        double x, back;
        char text[64];
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x)) {
            continue;
        }
        snprintf(text, sizeof text, "%.*g", i % 2 == 0 ? 17 : 1 + i % 15, x);
        assert_true(ts_parse_real(text, strlen(text), &back));
        double expected = strtod(text, NULL);
        assert_memory_equal(&back, &expected, sizeof back);
    }
    static const char *const wrong[] = {"", "-", ".", "e5", "1e", "1e+", "0x10", "inf", "nan", "1 ", "1,5", "1e999", "--1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        double value;
        assert_false(ts_parse_real(wrong[i], strlen(wrong[i]), &value));
    }
}

static void integers(void **state)
{
    int64_t value;
    (void)state;
    assert_true(ts_parse_integer("9223372036854775807", 19, &value));
    assert_true(value == INT64_MAX);
    assert_true(ts_parse_integer("-12", 3, &value));
    assert_true(value == -12);
    assert_false(ts_parse_integer("9223372036854775808", 19, &value));
    assert_false(ts_parse_integer("99999999999999999999999", 23, &value));
    assert_false(ts_parse_integer("-", 1, &value));
    assert_false(ts_parse_integer("", 0, &value));
    assert_false(ts_parse_integer("1.0", 3, &value));
}

static void scanner_knows_where_it_is(void **state)
{
    ts_scanner scanner;
    int64_t value;
    (void)state;
    ts_input input = input_of("12 \r\n\t x7\n");
    ts_scanner_start(&scanner, &input);
    assert_int_equal(ts_scan_integer(&scanner, "a number", 0, 100, &value), TENSUM_OK);
    assert_true(value == 12);
    assert_int_equal(ts_scan_integer(&scanner, "a number", 0, 100, &value), TENSUM_STATUS_MALFORMED);
    assert_string_equal(tensum_last_error(), "file:2:3: expected a number (an integer from 0 to 100), found 'x7'");
    assert_int_equal(ts_scan_integer(&scanner, "a number", 0, 100, &value), TENSUM_STATUS_MALFORMED);
    assert_string_equal(tensum_last_error(),
                        "file:3:1: expected a number (an integer from 0 to 100), found the end of the file");
    ts_input_free(&input);
}

static void a_count_cannot_exceed_the_file(void **state)
{
    ts_scanner scanner;
    int64_t value;
    (void)state;
    ts_input input = input_of("1000000000000 1 2 3");
    ts_scanner_start(&scanner, &input);
    assert_int_equal(ts_scan_count(&scanner, "the number of things", 2, &value), TENSUM_STATUS_MALFORMED);
    assert_non_null(strstr(tensum_last_error(), "file:1:1"));
    ts_input_free(&input);
}

static void gzip_is_expanded_and_checked(void **state)
{
    char text[5000];
    unsigned char packed[6000];
    ts_input input;
    z_stream stream = {0};
    (void)state;
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)('a' + i * i % 7);
    }
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (Bytef *)text;
    stream.avail_in = sizeof text;
    stream.next_out = packed;
    stream.avail_out = sizeof packed;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t length = sizeof packed - stream.avail_out;
    deflateEnd(&stream);
    assert_int_equal(ts_input_from_memory("x.gz", packed, length, &input), TENSUM_OK);
    assert_int_equal(input.length, sizeof text);
    assert_memory_equal(input.bytes, text, sizeof text);
    ts_input_free(&input);
    for (size_t cut = 2; cut < length; cut++) {
        assert_int_equal(ts_input_from_memory("x.gz", packed, cut, &input), TENSUM_STATUS_MALFORMED);
    }
    packed[length / 2] ^= 0x55;
    assert_int_equal(ts_input_from_memory("x.gz", packed, length, &input), TENSUM_STATUS_MALFORMED);
}

static void json_values(void **state)
{
    ts_json json;
    double real;
    int64_t integer;
    (void)state;
    ts_input input = input_of("\xef\xbb\xbf {\"a\": [1, -2.5e3, \"x\\u00e9\\ud83d\\ude00\\n\"], \"b\": {}, \"c\": true, \"d\": null}\n");
    assert_int_equal(ts_json_parse(&input, &json), TENSUM_OK);
    const ts_json_value *a = ts_json_member(&json, json.values, "a");
    assert_true(a != NULL && a->kind == TS_JSON_ARRAY && a->count == 3);
    const ts_json_value *v = ts_json_first(&json, a);
    assert_int_equal(ts_json_integer(&json, v, "x", 0, 9, &integer), TENSUM_OK);
    assert_true(integer == 1);
    v = ts_json_next(&json, v);
    assert_int_equal(ts_json_real(&json, v, "x", &real), TENSUM_OK);
    assert_true(real == -2500.0);
    assert_int_equal(ts_json_integer(&json, v, "x", 0, 9, &integer), TENSUM_STATUS_MALFORMED);
    v = ts_json_next(&json, v);
    assert_string_equal(ts_json_string(&json, v), "x\xc3\xa9\xf0\x9f\x98\x80\n");
    assert_null(ts_json_next(&json, v));
    assert_true(ts_json_member(&json, json.values, "c")->kind == TS_JSON_TRUE);
    assert_true(ts_json_member(&json, json.values, "d")->kind == TS_JSON_NULL);
    assert_null(ts_json_member(&json, json.values, "e"));
    ts_json_free(&json);
    ts_input_free(&input);
}

static void json_errors_have_places(void **state)
{
    static const struct {
        const char *text, *place;
    } cases[] = {
        {"", "file:1:1: expected a JSON value"},
        {"[1,\n 2,]", "file:2:4: expected a JSON value"},
        {"[1 2]", "file:1:4: expected ',' or ']'"},
        {"{\"a\" 1}", "file:1:6: expected ':'"},
        {"{a: 1}", "file:1:2: expected a key"},
        {"[\"abc", "file:1:2: this string has no closing quote"},
        {"[01]", "file:1:3: expected ',' or ']'"},
        {"[1.]", "file:1:2: expected a number"},
        {"[\"\\ud800\"]", "file:1:3: expected a character"},
        {"[\"\\q\"]", "file:1:3: expected an escape"},
        {"[1] x", "file:1:5: expected the end"},
        {"[nul]", "file:1:2: expected a JSON value"},
        {"[", "file:1:2: expected a JSON value, found the end of the file"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ts_json json;
        ts_input input = input_of(cases[i].text);
        assert_int_equal(ts_json_parse(&input, &json), TENSUM_STATUS_MALFORMED);
        if (strncmp(tensum_last_error(), cases[i].place, strlen(cases[i].place)) != 0) {
            fail_msg("%s: found '%s', expected '%s'", cases[i].text, tensum_last_error(), cases[i].place);
        }
        ts_input_free(&input);
    }
}

static void json_nests_without_end(void **state)
{
    enum { DEPTH = 1000000 };
    ts_json json;
    ts_input input;
    (void)state;
    char *text = malloc(2 * DEPTH);
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    assert_int_equal(ts_input_from_memory("deep", text, 2 * DEPTH, &input), TENSUM_OK);
    assert_int_equal(ts_json_parse(&input, &json), TENSUM_OK);
    assert_true(json.count == DEPTH);
    ts_json_free(&json);
    ts_input_free(&input);
    assert_int_equal(ts_input_from_memory("deep", text, DEPTH, &input), TENSUM_OK);
    assert_int_equal(ts_json_parse(&input, &json), TENSUM_STATUS_MALFORMED);
    ts_input_free(&input);
    free(text);
}

static void reals_print_shortest(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.1, "0.1"}, {1.0, "1"}, {1.0 / 3, "0.3333333333333333"}, {0x1p-1074, "4.94065645841247e-324"},
                 {-1e300, "-1e+300"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ts_text text = {0};
        char *string;
        ts_text_add_real(&text, cases[i].value);
        assert_int_equal(ts_text_take(&text, &string), TENSUM_OK);
        assert_string_equal(string, cases[i].text);
        ts_free(string);
    }
}

static void output_appears_by_rename(void **state)
{
    char folder[] = "/tmp/tensum-test-XXXXXX", path[64], again[16] = {0};
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/out", folder);
    struct ts_output output;
    assert_int_equal(ts_output_open(path, &output), TENSUM_OK);
    assert_int_equal(ts_output_bytes(&output, "half", 4), TENSUM_OK);
    assert_int_equal(access(path, F_OK), -1); /* not there before the end */
    ts_output_discard(&output);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(tensum_text_write(path, "whole"), TENSUM_OK);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(again, 1, sizeof again - 1, file), 5);
    fclose(file);
    assert_string_equal(again, "whole");
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* nothing else was left behind */
    assert_int_equal(tensum_text_write("/nonexistent/folder/x", "y"), TENSUM_STATUS_IO);
    assert_int_equal(tensum_text_write("/dev/null", "y"), TENSUM_OK); /* a device is not replaced */
    struct stat information;
    assert_int_equal(stat("/dev/null", &information), 0);
    assert_true(S_ISCHR(information.st_mode));
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    long live = ts_test_live_allocations();
    for (long n = 1;; n++) {
        ts_json json;
        ts_input input;
        ts_test_fail_allocation(n);
        tensum_status status = ts_input_from_memory("x", "{\"a\": [[1, \"two\"], {\"three\": 3}]}", 33, &input);
        if (status == TENSUM_OK) {
            status = ts_json_parse(&input, &json);
            if (status == TENSUM_OK) {
                ts_json_free(&json);
            }
            ts_input_free(&input);
        }
        ts_test_fail_allocation(0);
        assert_true(ts_test_live_allocations() == live);
        if (status == TENSUM_OK) {
            assert_true(n > 4);
            return;
        }
        assert_int_equal(status, TENSUM_STATUS_OUT_OF_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reals_agree_with_the_c_library),
        cmocka_unit_test(integers),
        cmocka_unit_test(scanner_knows_where_it_is),
        cmocka_unit_test(a_count_cannot_exceed_the_file),
        cmocka_unit_test(gzip_is_expanded_and_checked),
        cmocka_unit_test(json_values),
        cmocka_unit_test(json_errors_have_places),
        cmocka_unit_test(json_nests_without_end),
        cmocka_unit_test(reals_print_shortest),
        cmocka_unit_test(output_appears_by_rename),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
