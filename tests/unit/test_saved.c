/* Gradients from saved results: without a forward pass, equal to those that a whole run gives. Layouts, dtypes and semirings
 * at random are for the conformance suite; here the numbers are worked out by hand, and what is refused is named. */
#include "support.h"

typedef struct pass {
    prepared first;
    tensum_program *program;
    tensum_workspace *workspace;
} pass;

/* The value and winners of a job by one program, and a second program for its gradients. */
static tensum_status prepare_pass(const contraction *job, tensum_device device, unsigned modes, pass *made)
{
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    memset(made, 0, sizeof *made);
    tensum_status status = job_prepare(job, device, &made->first);
    if (status != TENSUM_OK) {
        return status;
    }
    options.modes = modes;
    options.device = device;
    options.saved = 1;
    status = tensum_program_create(made->first.plan, NULL, &options, &made->program);
    return status == TENSUM_OK ? tensum_workspace_create(made->program, NULL, &made->workspace) : status;
}

static void release_pass(pass *made)
{
    tensum_workspace_release(made->workspace);
    tensum_program_release(made->program);
    prepared_release(&made->first);
}

static void max_plus_goes_where_the_winners_say(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        const float a[] = {1, 7, 3, 4}, b[] = {0, 5, 2, -1}, weights[] = {1, 10, 100, 1000};
        float c[4], da[4], db[4];
        int32_t winners[4];
        const tensum_tensor operands[] = {TENSOR(TENSUM_F32, a, 2, 2), TENSOR(TENSUM_F32, b, 2, 2)};
        const tensum_tensor output = TENSOR(TENSUM_F32, c, 2, 2), chosen = TENSOR(TENSUM_I32, winners, 2, 2);
        const tensum_tensor cotangent = TENSOR(TENSUM_F32, weights, 2, 2);
        const tensum_tensor gradients[] = {TENSOR(TENSUM_F32, da, 2, 2), TENSOR(TENSUM_F32, db, 2, 2)};
        contraction job = {.expression = "ij,jk->ik", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operand_count = 2,
                           .operands = operands, .output = &output, .winners = &chosen};
        pass made;
        tensum_run_arguments run;
        assert_int_equal(prepare_pass(&job, device, TENSUM_GRADIENT, &made), TENSUM_OK);
        job_arguments(&job, &run);
        assert_int_equal(tensum_run(made.first.program, made.first.workspace, &run), TENSUM_OK);
        run.output = NULL;
        run.cotangent = &cotangent;
        run.gradients = gradients;
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_OK);
        ASSERT_F32(da, {10, 1, 1000, 100});
        ASSERT_F32(db, {0, 1010, 101, 0});
        /* The winners alone decide: no forward pass looks at the operands again. */
        winners[0] = 0;
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_OK);
        ASSERT_F32(da, {11, 0, 1000, 100});
        ASSERT_F32(db, {1, 1010, 100, 0});
        winners[0] = -1; /* an empty sum drops its cotangent */
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_OK);
        ASSERT_F32(da, {10, 0, 1000, 100});
        release_pass(&made);
    }
}

static void log_sum_exp_reads_the_output(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        const double a[] = {0.5, -1, 2, 0.25}, ones[] = {2};
        double c[1], da[4];
        const tensum_tensor operands[] = {TENSOR(TENSUM_F64, a, 1, 4)}, output = TENSOR(TENSUM_F64, c, 1);
        const tensum_tensor gradients[] = {TENSOR(TENSUM_F64, da, 1, 4)}, cotangent = TENSOR(TENSUM_F64, ones, 1);
        contraction job = {.expression = "ij->i", .semiring = TENSUM_LOG_SUM_EXP, .dtype = TENSUM_F64, .operand_count = 1,
                           .operands = operands, .output = &output};
        pass made;
        tensum_run_arguments run;
        double total = 0;
        assert_int_equal(prepare_pass(&job, device, TENSUM_GRADIENT, &made), TENSUM_OK);
        job_arguments(&job, &run);
        assert_int_equal(tensum_run(made.first.program, made.first.workspace, &run), TENSUM_OK);
        run.gradients = gradients;
        run.cotangent = &cotangent;
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_OK);
        for (int i = 0; i < 4; i++) {
            total += exp(a[i]);
        }
        for (int i = 0; i < 4; i++) {
            assert_true(fabs(da[i] - 2 * exp(a[i]) / total) < 1e-14);
        }
        run.output = NULL;
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(tensum_last_error(), "output"));
        release_pass(&made);
    }
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        const float a[] = {1, 7, 3, 4}, b[] = {0, 5, 2, -1};
        float c[4], da[4];
        int64_t winners[4] = {0};
        const tensum_tensor operands[] = {TENSOR(TENSUM_F32, a, 2, 2), TENSOR(TENSUM_F32, b, 2, 2), TENSOR(TENSUM_F32, b, 2, 2)};
        const tensum_tensor output = TENSOR(TENSUM_F32, c, 2, 2), chosen = TENSOR(TENSUM_I64, winners, 2, 2);
        tensum_tensor gradients[] = {TENSOR(TENSUM_F32, da, 2, 2), TENSOR(TENSUM_F32, NULL, 2, 2)};
        contraction job = {.expression = "ij,jk->ik", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operand_count = 2,
                           .operands = operands, .output = &output};
        pass made;
        tensum_run_arguments run;
        assert_int_equal(prepare_pass(&job, device, TENSUM_GRADIENT, &made), TENSUM_OK);
        job_arguments(&job, &run);
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(tensum_last_error(), "gradients"));
        run.gradients = gradients;
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(tensum_last_error(), "winners"));
        gradients[0].data = winners; /* on top of what is read */
        run.winners = &chosen;
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(tensum_last_error(), "winners"));
        release_pass(&made);
        /* other modes, more steps, slices */
        assert_int_equal(prepare_pass(&job, device, TENSUM_GRADIENT | TENSUM_DECODE, &made), TENSUM_STATUS_UNSUPPORTED);
        release_pass(&made);
        job.expression = "ij,jk,kl->il";
        job.operand_count = 3;
        assert_int_equal(prepare_pass(&job, device, TENSUM_GRADIENT, &made), TENSUM_STATUS_UNSUPPORTED);
        assert_non_null(strstr(tensum_last_error(), "steps"));
        release_pass(&made);
        job.expression = "ij,jk->ik";
        job.operand_count = 2;
        job.slice_count = 1;
        job.slices = EXTENTS('j');
        assert_int_equal(prepare_pass(&job, device, TENSUM_GRADIENT, &made), TENSUM_STATUS_UNSUPPORTED);
        release_pass(&made);
    }
}

static void there_is_no_room_for_a_forward_pass(void **state)
{
    (void)state;
    enum { SIDE = 256 };
    float *data = calloc(SIDE * SIDE, sizeof *data), *result = malloc(SIDE * SIDE * sizeof *result);
    assert_non_null(data);
    assert_non_null(result);
    const tensum_tensor operands[] = {TENSOR(TENSUM_F32, data, SIDE, SIDE), TENSOR(TENSUM_F32, data, SIDE, SIDE)};
    const tensum_tensor output = TENSOR(TENSUM_F32, result, SIDE, SIDE);
    contraction job = {.expression = "ij,jk->ik", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operand_count = 2,
                       .operands = operands, .output = &output};
    pass made;
    tensum_program *whole;
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    assert_int_equal(prepare_pass(&job, test_devices[0], TENSUM_GRADIENT, &made), TENSUM_OK);
    options.modes = TENSUM_GRADIENT;
    options.device = test_devices[0];
    assert_int_equal(tensum_program_create(made.first.plan, NULL, &options, &whole), TENSUM_OK);
    /* the value and its winners */
    assert_true(tensum_program_workspace_bytes(made.program) + 2 * sizeof(float) * SIDE * SIDE <= tensum_program_workspace_bytes(whole));
    tensum_program_release(whole);
    release_pass(&made);
    free(data);
    free(result);
}

/* a of two rows, b between two labels, c: the best way for row 0 is 0 -> (1, 1) of 8, for row 1 (0, 0) of 16. */
static void a_network_keeps_what_its_gradients_need(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        const float a[] = {0, 1, 9, 0}, b[] = {5, 0, 1, 7}, c[] = {2, 0}, other[] = {9, 9}, weights[] = {10, 100}, halves[] = {0.5f, 0.25f};
        float value[2], da[4], db[4], dc[2];
        tensum_tensor operands[] = {TENSOR(TENSUM_F32, a, 2, 2), TENSOR(TENSUM_F32, b, 2, 2), TENSOR(TENSUM_F32, c, 2)};
        const tensum_tensor output = TENSOR(TENSUM_F32, value, 2);
        tensum_tensor cotangent = TENSOR(TENSUM_F32, weights, 2);
        const tensum_tensor gradients[] = {TENSOR(TENSUM_F32, da, 2, 2), TENSOR(TENSUM_F32, db, 2, 2), TENSOR(TENSUM_F32, dc, 2)};
        contraction job = {.expression = "ri,ij,j->r", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operand_count = 3,
                           .operands = operands, .output = &output, .cotangent = &cotangent, .gradients = gradients};
        prepared made;
        tensum_run_arguments run;
        assert_int_equal(job_prepare(&job, device, &made), TENSUM_OK);
        job_arguments(&job, &run);
        run.kept = 1;
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT); /* there was no run */
        assert_non_null(strstr(tensum_last_error(), "none"));
        run.kept = 0;
        run.gradients = NULL;
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_OK);
        ASSERT_F32(value, {8, 16});
        run.kept = 1;
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(tensum_last_error(), "gradients"));
        run.gradients = gradients;
        run.output = NULL; /* nothing needs it */
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_OK);
        ASSERT_F32(da, {0, 10, 100, 0});
        ASSERT_F32(db, {100, 0, 0, 10});
        ASSERT_F32(dc, {100, 10});
        /* Once more with another cotangent; and what was kept decides, not the operands. */
        cotangent.data = (void *)(uintptr_t)halves;
        operands[2].data = (void *)(uintptr_t)other;
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_OK);
        ASSERT_F32(da, {0, 0.5f, 0.25f, 0});
        ASSERT_F32(dc, {0.25f, 0.5f});
        run.winners = &output;
        assert_int_not_equal(tensum_run(made.program, made.workspace, &run), TENSUM_OK);
        prepared_release(&made);
        /* not with slices, and not where an earlier program's results are taken */
        job.slice_count = 1;
        job.slices = EXTENTS('i');
        assert_int_equal(job_prepare(&job, device, &made), TENSUM_OK);
        job_arguments(&job, &run);
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_OK);
        ASSERT_F32(dc, {0.25f, 0.5f});
        run.kept = 1;
        assert_int_equal(tensum_run(made.program, made.workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(tensum_last_error(), "slices"));
        prepared_release(&made);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(max_plus_goes_where_the_winners_say),
        cmocka_unit_test(log_sum_exp_reads_the_output),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(there_is_no_room_for_a_forward_pass),
        cmocka_unit_test(a_network_keeps_what_its_gradients_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
