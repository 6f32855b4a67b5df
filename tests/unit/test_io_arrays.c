/* .npy, .npz and conversion between dtypes. The bytes of the files are written out here by hand. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the above */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/arrays.h"

/* A .npy file of a given version in `out`; returns its length. */
static size_t make_npy(int version, const char *dict, const void *data, size_t bytes, unsigned char *out)
{
    size_t length = strlen(dict), prefix = version == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)version;
    out[7] = 0;
    out[8] = (unsigned char)(length & 0xff);
    out[9] = (unsigned char)(length >> 8);
    if (version > 1) {
        out[10] = out[11] = 0;
    }
    memcpy(out + prefix, dict, length);
    if (bytes != 0) {
        memcpy(out + prefix + length, data, bytes);
    }
    return prefix + length + bytes;
}

static tensum_status parse(int version, const char *dict, const void *data, size_t bytes, ts_array **array)
{
    unsigned char file[2048];
    size_t length = make_npy(version, dict, data, bytes, file);
    return ts_npy_read("file.npy", "file", 4, file, length, array);
}

/* Element (i, j) of a matrix as double. */
static double at(const ts_array *array, int64_t i, int64_t j)
{
    double value;
    const tensum_tensor *t = &array->tensor;
    tensum_tensor from = {(char *)t->data + (i * t->strides[0] + j * t->strides[1]) * (int64_t)tensum_dtype_bytes(t->dtype),
                          t->dtype, 0, NULL, NULL, {TENSUM_CPU, 0}};
    tensum_tensor to = {&value, TENSUM_F64, 0, NULL, NULL, {TENSUM_CPU, 0}};
    assert_int_equal(tensum_convert(&from, &to), TENSUM_OK);
    return value;
}

static void versions_and_orders(void **state)
{
    static const double c_order[] = {1, 2, 3, 4, 5, 6}, fortran[] = {1, 4, 2, 5, 3, 6};
    (void)state;
    for (int version = 1; version <= 3; version++) {
        ts_array *array;
        assert_int_equal(parse(version, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }     \n", c_order,
                               sizeof c_order, &array), TENSUM_OK);
        assert_int_equal(array->tensor.rank, 2);
        for (int i = 0; i < 6; i++) {
            assert_true(at(array, i / 3, i % 3) == i + 1);
        }
        ts_array_free(array);
        assert_int_equal(parse(version, "{\"shape\": (2, 3), 'fortran_order': True, 'descr': '=f8'}", fortran,
                               sizeof fortran, &array), TENSUM_OK);
        for (int i = 0; i < 6; i++) {
            assert_true(at(array, i / 3, i % 3) == i + 1);
        }
        ts_array_free(array);
    }
}

static void stored_types(void **state)
{
    static const struct {
        const char *descr;
        unsigned char bytes[16];
        size_t size;
        tensum_dtype dtype;
        double value;
    } cases[] = {
        {">f4", {0x3f, 0xc0, 0, 0}, 4, TENSUM_F32, 1.5},
        {"<f2", {0x00, 0x3e}, 2, TENSUM_F16, 1.5},
        {">f2", {0x3e, 0x00}, 2, TENSUM_F16, 1.5},
        {">f8", {0xbf, 0xf8}, 8, TENSUM_F64, -1.5},
        {"|b1", {7}, 1, TENSUM_BOOL, 1},
        {"|i1", {0xfe}, 1, TENSUM_I16, -2},
        {"|u1", {0xfe}, 1, TENSUM_I16, 254},
        {">i2", {0xff, 0xfe}, 2, TENSUM_I16, -2},
        {"<u2", {0xfe, 0xff}, 2, TENSUM_I32, 65534},
        {">u2", {0xff, 0xfe}, 2, TENSUM_I32, 65534},
        {"<u4", {0xfe, 0xff, 0xff, 0xff}, 4, TENSUM_I64, 4294967294.0},
        {"<i4", {0xfe, 0xff, 0xff, 0xff}, 4, TENSUM_I32, -2},
        {"<i8", {3}, 8, TENSUM_I64, 3},
        {">u8", {0, 0, 0, 0, 0, 0, 1, 0}, 8, TENSUM_I64, 256},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char dict[100];
        ts_array *array;
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (1, 1)}", cases[i].descr);
        assert_int_equal(parse(1, dict, cases[i].bytes, cases[i].size, &array), TENSUM_OK);
        assert_int_equal(array->tensor.dtype, cases[i].dtype);
        assert_true(at(array, 0, 0) == cases[i].value);
        ts_array_free(array);
    }
    unsigned char complex_bytes[16] = {0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0, 0};
    ts_array *array;
    assert_int_equal(parse(1, "{'descr': '>c16', 'fortran_order': False, 'shape': ()}", complex_bytes, 16, &array),
                     TENSUM_OK);
    assert_int_equal(array->tensor.dtype, TENSUM_C128);
    assert_true(((double *)array->data)[0] == 1.0 && ((double *)array->data)[1] == -2.0);
    ts_array_free(array);
}

static void refusals(void **state)
{
    static const struct {
        const char *dict;
        tensum_status status;
    } cases[] = {
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", TENSUM_STATUS_UNSUPPORTED},
        {"{'descr': '<U4', 'fortran_order': False, 'shape': (1,)}", TENSUM_STATUS_UNSUPPORTED},
        {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,)}", TENSUM_STATUS_UNSUPPORTED},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", TENSUM_STATUS_MALFORMED},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", TENSUM_STATUS_MALFORMED},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", TENSUM_STATUS_SIZE_OVERFLOW},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}", TENSUM_STATUS_MALFORMED},
        {"{'descr': '<f8', 'fortran_order': Maybe, 'shape': (1,)}", TENSUM_STATUS_MALFORMED},
        {"{'descr': '<f8', 'shape': (1,)}", TENSUM_STATUS_MALFORMED},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'x': 1}", TENSUM_STATUS_MALFORMED},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1", TENSUM_STATUS_MALFORMED},
        {"{'descr': [('value', '<f4'), ('count', '<f8')], 'fortran_order': False, 'shape': (1,)}", TENSUM_STATUS_MALFORMED},
        {"", TENSUM_STATUS_MALFORMED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double data = 1;
        ts_array *array;
        tensum_status status = parse(1, cases[i].dict, &data, sizeof data, &array);
        if (status != cases[i].status) {
            fail_msg("%s: status %s", cases[i].dict, tensum_status_name(status));
        }
        assert_non_null(strstr(tensum_last_error(), "file.npy"));
    }
}

static void truncation_at_every_byte(void **state)
{
    unsigned char file[256];
    double data[4] = {1, 2, 3, 4};
    ts_array *array;
    (void)state;
    size_t length = make_npy(2, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }", data, sizeof data, file);
    for (size_t cut = 0; cut < length; cut++) {
        assert_int_equal(ts_npy_read("x", "x", 1, file, cut, &array), TENSUM_STATUS_MALFORMED);
    }
    assert_int_equal(ts_npy_read("x", "x", 1, file, length, &array), TENSUM_OK);
    ts_array_free(array);
}

/* Strided tensors of all dtypes survive a round trip through a file. */
static void round_trip(void **state)
{
    static const tensum_dtype dtypes[] = {TENSUM_F16, TENSUM_F32, TENSUM_F64, TENSUM_C64,  TENSUM_C128, TENSUM_I16,
                                          TENSUM_I32, TENSUM_I64, TENSUM_BOOL, TENSUM_VC64, TENSUM_VC128};
    int64_t extents[2] = {3, 2}, strides[2] = {1, 3}; /* a transposed view */
    char folder[] = "/tmp/tensum-test-XXXXXX", path[64];
    const char *names[] = {"arr_2", "arr_10"};
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.npz", folder);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        unsigned char data[6 * 16];
        size_t bytes = tensum_dtype_bytes(dtypes[d]);
        tensum_arrays *arrays;
        for (size_t i = 0; i < sizeof data; i++) {
            data[i] = dtypes[d] == TENSUM_BOOL ? i % 3 == 0 : (unsigned char)(1 + i * 7 % 60);
        }
        tensum_tensor tensors[2] = {{data, dtypes[d], 2, extents, strides, {TENSUM_CPU, 0}},
                                    {data, dtypes[d], 0, NULL, NULL, {TENSUM_CPU, 0}}};
        assert_int_equal(tensum_arrays_write(path, 2, names, tensors), TENSUM_OK);
        assert_int_equal(tensum_arrays_read(path, &arrays), TENSUM_OK);
        assert_true(tensum_arrays_count(arrays) == 2);
        assert_string_equal(tensum_arrays_name(arrays, 0), "arr_2");
        assert_string_equal(tensum_arrays_name(arrays, 1), "arr_10");
        const tensum_tensor *back = tensum_arrays_tensor(arrays, 0);
        assert_int_equal(back->dtype, dtypes[d]);
        assert_true(back->rank == 2 && back->extents[0] == 3 && back->extents[1] == 2);
        for (int64_t i = 0; i < 3; i++) {
            for (int64_t j = 0; j < 2; j++) {
                const char *got = (const char *)back->data + (size_t)(i * back->strides[0] + j * back->strides[1]) * bytes;
                assert_memory_equal(got, data + (size_t)(i + 3 * j) * bytes, bytes);
            }
        }
        assert_int_equal(tensum_arrays_tensor(arrays, 1)->rank, 0);
        tensum_arrays_release(arrays);
    }
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

static void conversions(void **state)
{
    (void)state;
    double x[3] = {1.5, -2.0, 3e9};
    int64_t three = 3, one = 1;
    int32_t i32[3];
    float f32[3];
    double counted[6];
    int64_t big = INT64_C(9007199254740993), back;
    tensum_tensor from = {x, TENSUM_F64, 1, &three, NULL, {TENSUM_CPU, 0}};
    tensum_tensor to = {f32, TENSUM_F32, 1, &three, NULL, {TENSUM_CPU, 0}};
    assert_int_equal(tensum_convert(&from, &to), TENSUM_OK);
    assert_true(f32[0] == 1.5f && f32[1] == -2.0f && f32[2] == 3e9f);
    to = (tensum_tensor){i32, TENSUM_I32, 1, &three, NULL, {TENSUM_CPU, 0}};
    assert_int_equal(tensum_convert(&from, &to), TENSUM_STATUS_DOMAIN);
    assert_non_null(strstr(tensum_last_error(), "element 2"));
    to = (tensum_tensor){counted, TENSUM_VC128, 1, &three, NULL, {TENSUM_CPU, 0}};
    assert_int_equal(tensum_convert(&from, &to), TENSUM_OK);
    assert_true(counted[0] == 1.5 && counted[1] == 1.0 && counted[2] == -2.0 && counted[3] == 1.0);
    assert_int_equal(tensum_convert(&to, &from), TENSUM_STATUS_UNSUPPORTED);
    from = (tensum_tensor){&big, TENSUM_I64, 1, &one, NULL, {TENSUM_CPU, 0}};
    to = (tensum_tensor){&back, TENSUM_I64, 1, &one, NULL, {TENSUM_CPU, 0}};
    assert_int_equal(tensum_convert(&from, &to), TENSUM_OK);
    assert_true(back == big);
    to = (tensum_tensor){&back, TENSUM_I64, 1, &three, NULL, {TENSUM_CPU, 0}};
    assert_int_equal(tensum_convert(&from, &to), TENSUM_STATUS_SHAPE_MISMATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_and_orders), cmocka_unit_test(stored_types), cmocka_unit_test(refusals),
        cmocka_unit_test(truncation_at_every_byte), cmocka_unit_test(round_trip), cmocka_unit_test(conversions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
