/* One workspace, many runs: what was found out about the tensors of one run holds for the next one only while it is true. */
#include "support.h"

static const float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {10, 20, 30, 40, 50, 60};

static contraction product(const tensum_tensor *operands, const tensum_tensor *output)
{
    contraction job = {.expression = "ij,jk->ik", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F32, .operand_count = 2,
                       .operands = operands, .output = output};
    return job;
}

static tensum_status again(prepared *made, const tensum_tensor *inputs, const tensum_tensor *output, int accumulate)
{
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    run.inputs = inputs;
    run.output = output;
    run.accumulate = accumulate;
    return tensum_run(made->program, made->workspace, &run);
}

static void check(const float *c, float a00, float a01, float a10, float a11)
{
    assert_float_equal(c[0], a00, 0);
    assert_float_equal(c[1], a01, 0);
    assert_float_equal(c[2], a10, 0);
    assert_float_equal(c[3], a11, 0);
}

/* Strides, extents, addresses and dtypes change between runs in every order. */
static void test_changing_tensors(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(device) {
        float c[4], both[16];
        static const int64_t columns[2] = {1, 2}, wide[2] = {3, 1}, shape[2] = {2, 3}, wrong[2] = {3, 3};
        tensum_tensor inputs[2] = {TENSOR(TENSUM_F32, x, 2, 3), TENSOR(TENSUM_F32, y, 3, 2)};
        tensum_tensor output = TENSOR(TENSUM_F32, c, 2, 2), moved = TENSOR(TENSUM_F32, both, 2, 2);
        inputs[0].device = inputs[1].device = output.device = moved.device = device;
        contraction job = product(inputs, &output);
        prepared made;
        assert_int_equal(job_prepare(&job, device, &made), TENSUM_OK);
        for (int round = 0; round < 3; round++) {
            assert_int_equal(again(&made, inputs, &output, 0), TENSUM_OK);
            check(c, 220, 280, 490, 640);
            assert_int_equal(again(&made, inputs, &output, 1), TENSUM_OK);
            check(c, 440, 560, 980, 1280);
            inputs[0].strides = columns; /* x read as {{1, 3, 5}, {2, 4, 6}} */
            assert_int_equal(again(&made, inputs, &output, 0), TENSUM_OK);
            check(c, 350, 440, 440, 560);
            assert_int_equal(again(&made, inputs, &output, 0), TENSUM_OK);
            check(c, 350, 440, 440, 560);
            output.strides = columns;
            assert_int_equal(again(&made, inputs, &output, 0), TENSUM_OK);
            check(c, 350, 440, 440, 560); /* its transpose: the middle two are alike */
            inputs[0].strides = wide;
            assert_int_equal(again(&made, inputs, &output, 0), TENSUM_OK);
            check(c, 220, 490, 280, 640);
            /* What is not valid is refused, and the next run is right. */
            inputs[0].extents = wrong;
            assert_int_equal(again(&made, inputs, &output, 0), TENSUM_STATUS_SHAPE_MISMATCH);
            inputs[0].extents = shape;
            assert_int_equal(again(&made, inputs, &output, 0), TENSUM_OK);
            check(c, 220, 490, 280, 640);
            inputs[1].dtype = TENSUM_I32;
            assert_int_equal(again(&made, inputs, &output, 0), TENSUM_STATUS_DTYPE_MISMATCH);
            inputs[1].dtype = TENSUM_F32;
            memcpy(both + 4, x, sizeof x);
            inputs[0].data = both + 3; /* overlaps the moved result */
            assert_int_equal(again(&made, inputs, &output, 0), TENSUM_OK);
            assert_int_equal(again(&made, inputs, &moved, 0), TENSUM_STATUS_INVALID_ARGUMENT);
            inputs[0].data = both + 4;
            assert_int_equal(again(&made, inputs, &moved, 0), TENSUM_OK);
            check(both, 220, 280, 490, 640);
            inputs[0].data = (char *)both + 2;
            assert_int_equal(again(&made, inputs, &output, 0), TENSUM_STATUS_INVALID_ARGUMENT);
            inputs[0].data = NULL;
            assert_int_equal(again(&made, inputs, &output, 0), TENSUM_STATUS_INVALID_ARGUMENT);
            inputs[0].data = (void *)(uintptr_t)x;
            inputs[0].strides = NULL;
            output.strides = NULL;
        }
        prepared_release(&made);
    }
}

/* A run that the domain check ends has validated its strides without binding them. */
static void test_domain_in_between(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(device) {
        float good[4] = {1, 2, 3, 4}, bad[4] = {1, -2, 3, 4}, c[4];
        static const int64_t columns[2] = {1, 2};
        tensum_tensor inputs[2] = {TENSOR(TENSUM_F32, good, 2, 2), TENSOR(TENSUM_F32, good, 2, 2)};
        tensum_tensor output = TENSOR(TENSUM_F32, c, 2, 2);
        inputs[0].device = inputs[1].device = output.device = device;
        contraction job = product(inputs, &output);
        job.semiring = TENSUM_MAX_TIMES;
        prepared made;
        assert_int_equal(job_prepare(&job, device, &made), TENSUM_OK);
        assert_int_equal(again(&made, inputs, &output, 0), TENSUM_OK);
        check(c, 6, 8, 12, 16);
        inputs[0].strides = columns;
        inputs[0].data = bad;
        assert_int_equal(again(&made, inputs, &output, 0), TENSUM_STATUS_DOMAIN);
        inputs[0].data = good; /* {{1, 3}, {2, 4}} */
        assert_int_equal(again(&made, inputs, &output, 0), TENSUM_OK);
        check(c, 9, 12, 12, 16);
        prepared_release(&made);
    }
}

/* Every pair of tensors of which one is a gradient, in every order of addresses. */
static void test_overlapping_gradients(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(device) {
        float memory[64] = {0};
        /* operands, gradients, output, cotangent: four floats each */
        for (int first = 0; first < 6; first++) {
            for (int second = 0; second < 6; second++) {
                for (int shift = -3; first != second && shift <= 3; shift += 3) {
                    float *at[6];
                    for (int i = 0; i < 6; i++) {
                        at[i] = memory + 4 + 8 * ((i + second) % 6);
                    }
                    at[first] = at[second] + shift;
                    const tensum_tensor inputs[2] = {TENSOR(TENSUM_F32, at[0], 2, 2), TENSOR(TENSUM_F32, at[1], 2, 2)};
                    const tensum_tensor gradients[2] = {TENSOR(TENSUM_F32, at[2], 2, 2), TENSOR(TENSUM_F32, at[3], 2, 2)};
                    const tensum_tensor output = TENSOR(TENSUM_F32, at[4], 2, 2), seed = TENSOR(TENSUM_F32, at[5], 2, 2);
                    contraction job = product(inputs, &output);
                    prepared made;
                    tensum_run_arguments run;
                    job.gradients = gradients;
                    job.cotangent = &seed;
                    assert_int_equal(job_prepare(&job, device, &made), TENSUM_OK);
                    job_arguments(&job, &run);
                    const bool gradient = first == 2 || first == 3 || second == 2 || second == 3;
                    const bool written = gradient || (first == 4 && second < 2) || (second == 4 && first < 2);
                    const tensum_status status = tensum_run(made.program, made.workspace, &run);
                    assert_int_equal(status, written ? TENSUM_STATUS_INVALID_ARGUMENT : TENSUM_OK);
                    if (written) {
                        assert_non_null(strstr(tensum_last_error(), gradient ? "the gradient of operand" : "the output"));
                    }
                    prepared_release(&made);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changing_tensors),
        cmocka_unit_test(test_domain_in_between),
        cmocka_unit_test(test_overlapping_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
