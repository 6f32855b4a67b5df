/* What tensum_einsum says to degenerate and to wrong expressions: the status, and the words that name the culprit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include <tensum/tensum.h>

static const int64_t three[] = {3}, none[] = {0}, square[] = {2, 2};
static double a = 3, b = 4, vector[] = {1, 2, 3}, matrix[] = {1, 2, 3, 4};

static tensum_tensor f64(double *data, int32_t rank, const int64_t *extents)
{
    return (tensum_tensor){data, TENSUM_F64, rank, extents, NULL, {TENSUM_CPU, 0}};
}

static double value_of(const char *expression, tensum_semiring semiring, int64_t count, const tensum_tensor *operands)
{
    double value = 99;
    tensum_tensor output = f64(&value, 0, NULL);
    if (tensum_einsum(NULL, semiring, expression, count, operands, &output) != TENSUM_OK) {
        fail_msg("%s: %s", expression, tensum_last_error());
    }
    return value;
}

/* The call fails with `status`, all words occur in the message, and the output stays as it was. */
static void refused(const char *expression, tensum_semiring semiring, int64_t count, const tensum_tensor *operands,
                    tensum_status status, const char *word, const char *other)
{
    double value = 99;
    tensum_tensor output = f64(&value, 0, NULL);
    assert_int_equal(tensum_einsum(NULL, semiring, expression, count, operands, &output), status);
    if (strstr(tensum_last_error(), word) == NULL || strstr(tensum_last_error(), other) == NULL) {
        fail_msg("'%s' lacks '%s' or '%s'", tensum_last_error(), word, other);
    }
    assert_true(value == 99);
}

static void expressions_of_nothing_have_values(void **state)
{
    (void)state;
    const tensum_tensor scalars[] = {f64(&a, 0, NULL), f64(&b, 0, NULL)};
    assert_true(value_of(",", TENSUM_SUM_PRODUCT, 2, scalars) == 12);
    assert_true(value_of(",->", TENSUM_MAX_PLUS, 2, scalars) == 7);
    assert_true(value_of("", TENSUM_SUM_PRODUCT, 1, scalars) == 3);
    assert_true(value_of("", TENSUM_SUM_PRODUCT, 0, NULL) == 1);
    assert_true(value_of("->", TENSUM_MAX_PLUS, 0, NULL) == 0);
    const tensum_tensor empty = f64(vector, 1, none);
    assert_true(value_of("i->", TENSUM_SUM_PRODUCT, 1, &empty) == 0);
    assert_true(value_of("i->", TENSUM_MAX_PLUS, 1, &empty) == (double)-INFINITY);
    const tensum_tensor square_matrix = f64(matrix, 2, square);
    assert_true(value_of("ii", TENSUM_SUM_PRODUCT, 1, &square_matrix) == 5);
    assert_true(value_of("...->", TENSUM_SUM_PRODUCT, 1, &square_matrix) == 10);
}

static void wrong_expressions_are_named(void **state)
{
    (void)state;
    const tensum_tensor v = f64(vector, 1, three), m = f64(matrix, 2, square);
    const tensum_tensor pair[] = {v, m};
    refused("ij->", TENSUM_MAX_PLUS, 1, &v, TENSUM_STATUS_INVALID_EXPRESSION, "operand 0", "rank 1");
    refused("i->j", TENSUM_MAX_PLUS, 1, &v, TENSUM_STATUS_SHAPE_MISMATCH, "'j'", "extent");
    refused("ij->x.", TENSUM_MAX_PLUS, 1, &m, TENSUM_STATUS_INVALID_EXPRESSION, "byte 5", "'.'");
    refused("i,ij->", TENSUM_MAX_PLUS, 2, pair, TENSUM_STATUS_SHAPE_MISMATCH, "'i'", "3");
    refused("i,ij->", TENSUM_MAX_PLUS, 1, pair, TENSUM_STATUS_INVALID_EXPRESSION, "2", "1 operand");
    refused("i->->", TENSUM_MAX_PLUS, 1, &v, TENSUM_STATUS_INVALID_EXPRESSION, "byte", "->");
    refused("i\xff->", TENSUM_MAX_PLUS, 1, &v, TENSUM_STATUS_INVALID_EXPRESSION, "byte 1", "UTF-8");
    refused(NULL, TENSUM_MAX_PLUS, 1, &v, TENSUM_STATUS_INVALID_ARGUMENT, "NULL", "tensum_einsum");
}

static void wrong_algebra_is_named(void **state)
{
    (void)state;
    double negative[] = {1, -2, 3};
    const tensum_tensor v = f64(vector, 1, three), n = f64(negative, 1, three);
    refused("i->", (tensum_semiring)77, 1, &v, TENSUM_STATUS_INVALID_ARGUMENT, "77", "semiring");
    refused("i->", TENSUM_OR_AND, 1, &v, TENSUM_STATUS_UNSUPPORTED, "or_and", "f64");
    refused("i->", TENSUM_MAX_TIMES, 1, &n, TENSUM_STATUS_DOMAIN, "element 1", "-2");
    tensum_tensor mixed[] = {v, v};
    mixed[0].dtype = TENSUM_F32;
    refused("i,i->", TENSUM_MAX_PLUS, 2, mixed, TENSUM_STATUS_DTYPE_MISMATCH, "f32", "f64");
}

static void outputs_may_not_overlap_inputs(void **state)
{
    (void)state;
    tensum_tensor v = f64(vector, 1, three);
    assert_int_equal(tensum_einsum(NULL, TENSUM_MAX_PLUS, "i->i", 1, &v, &v), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tensum_last_error(), "overlaps"));
    assert_true(vector[0] == 1 && vector[1] == 2 && vector[2] == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_of_nothing_have_values),
        cmocka_unit_test(wrong_expressions_are_named),
        cmocka_unit_test(wrong_algebra_is_named),
        cmocka_unit_test(outputs_may_not_overlap_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
