/* Decoding (docs/semantics.md, point 11): assignments by hand. */
#include "support.h"

static void one_optimum(void **state)
{
    (void)state;
    /* a chain of three labels: max over i, j, k of a[i] + b[i][j] + c[j][k] is 2 + 9 + 4, at i = 1, j = 0, k = 2 */
    const float a[] = {1, 2}, b[] = {3, 5, 9, 0}, c[] = {1, 0, 4, 2, 2, 5};
    const int64_t trees[2][4] = {{0, 1, 3, 2}, {2, 1, 0, 3}};
    FOR_EACH_DEVICE (device) {
        for (int t = 0; t < 2; t++) {
            for (int sliced = 0; sliced < 3; sliced++) {
                float value = 0;
                int64_t assignment[3] = {-9, -9, -9};
                const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, a, 2), TENSOR(TENSUM_F32, b, 2, 2), TENSOR(TENSUM_F32, c, 2, 3)}, out = SCALAR(TENSUM_F32, &value);
                contraction job = {.expression = "i,ij,jk->", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 3, .output = &out,
                                   .assignments = assignment, .step_count = 2, .children = trees[t], .slice_count = sliced, .slices = EXTENTS('j', 'i')};
                RUN(&job, device);
                assert_true(value == 15);
                ASSERT_I64(assignment, {1, 0, 2});
                job.output = NULL; /* the assignment alone */
                memset(assignment, 0x7f, sizeof assignment);
                RUN(&job, device);
                ASSERT_I64(assignment, {1, 0, 2});
            }
        }
    }
}

static void chosen_elements(void **state)
{
    (void)state;
    /* max over j of a[i][j] + b[j][k] for i, k = 0, 1 */
    const float a[] = {1, 7, 3, 4}, b[] = {0, 5, 2, -1};
    FOR_EACH_DEVICE (device) {
        float value[4];
        int64_t assignments[4][3];
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, a, 2, 2), TENSOR(TENSUM_F32, b, 2, 2)}, out = TENSOR(TENSUM_F32, value, 2, 2);
        contraction job = {.expression = "ij,jk->ik", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 2, .output = &out,
                           .assignments = &assignments[0][0], .position_count = 4};
        RUN(&job, device);
        ASSERT_F32(value, {9, 6, 6, 8});
        /* labels i, j, k; a tie at [0][1] goes to j = 0 */
        ASSERT_I64(&assignments[0][0], {0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0, 1});
        job.position_count = 2;
        job.positions = EXTENTS(3, 0);
        RUN(&job, device);
        ASSERT_I64(&assignments[0][0], {1, 0, 1, 0, 1, 0});
        job.positions = EXTENTS(4, 0);
        REFUSE(&job, device, TENSUM_STATUS_INVALID_ARGUMENT, "4");
    }
}

static void infeasible_and_nan(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        const float none[] = {-INFINITY, -INFINITY}, nans[] = {1, NAN}, some[] = {-INFINITY, 3, -INFINITY, -INFINITY};
        float value[2] = {5, 5};
        int64_t assignments[4] = {0};
        const tensum_tensor zero[] = {TENSOR(TENSUM_F32, none, 2)}, nan[] = {TENSOR(TENSUM_F32, nans, 2)}, rows[] = {TENSOR(TENSUM_F32, some, 2, 2)};
        const tensum_tensor out = SCALAR(TENSUM_F32, value), two = TENSOR(TENSUM_F32, value, 2);
        contraction job = {.expression = "i->", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operands = zero, .operand_count = 1, .output = &out, .assignments = assignments};
        REFUSE(&job, device, TENSUM_STATUS_INFEASIBLE, NULL);
        assert_true(value[0] == -INFINITY); /* the value is there all the same */
        job.operands = nan;
        REFUSE(&job, device, TENSUM_STATUS_NOT_A_NUMBER, NULL);
        assert_true(value[0] != value[0]);
        job.expression = "ij->i";
        job.operands = rows;
        job.output = &two;
        job.position_count = 1;
        job.positions = EXTENTS(1);
        REFUSE(&job, device, TENSUM_STATUS_INFEASIBLE, "1");
        job.positions = EXTENTS(0);
        RUN(&job, device);
        ASSERT_I64(assignments, {0, 1});
        const uint8_t bits[] = {0, 0, 1, 0};
        uint8_t any = 9;
        const tensum_tensor boolean[] = {TENSOR(TENSUM_BOOL, bits, 4)}, no[] = {TENSOR(TENSUM_BOOL, bits, 2)}, bit = SCALAR(TENSUM_BOOL, &any);
        job = (contraction){.expression = "i->", .semiring = TENSUM_OR_AND, .dtype = TENSUM_BOOL, .operands = boolean, .operand_count = 1, .output = &bit, .assignments = assignments};
        RUN(&job, device);
        assert_int_equal(any, 1);
        assert_int_equal(assignments[0], 2);
        job.operands = no;
        REFUSE(&job, device, TENSUM_STATUS_INFEASIBLE, NULL);
        assert_int_equal(any, 0);
    }
}

/* Diagonals, broadcasts, output-only labels and labels of extent 1 all get their value. */
static void every_label_has_a_value(void **state)
{
    (void)state;
    const float a[] = {1, 9, 9, 4}, b[] = {7, 0}, c[] = {0, 1, 2};
    FOR_EACH_DEVICE (device) {
        float value[2];
        int64_t assignments[2][5];
        /* "iil,kl,j->bk": i the diagonal of a, l of extent 1, k broadcast from size 2, j summed alone, b only in the output */
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, a, 2, 2, 1), TENSOR(TENSUM_F32, b, 2, 1), TENSOR(TENSUM_F32, c, 3)}, out = TENSOR(TENSUM_F32, value, 1, 2);
        contraction job = {.expression = "iil,kl,j->bk", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 3, .output = &out,
                           .assignments = &assignments[0][0], .position_count = 2, .size_count = 1, .size_labels = EXTENTS('b'), .size_extents = EXTENTS(1)};
        RUN(&job, device);
        ASSERT_F32(value, {13, 6});
        ASSERT_I64(&assignments[0][0], {1, 0, 0, 2, 0, 1, 0, 1, 2, 0}); /* i, l, k, j, b */
    }
}

/* A path of 300 vertices with weights: the best independent set by dynamic programming, its score by the decoded labels. */
static void a_long_chain(void **state)
{
    (void)state;
    enum { N = 300 };
    int32_t weights[N], best_in = 0, best_out = 0, value = 0;
    int32_t factors[2 * N - 1][4];
    int32_t ranks[2 * N - 1];
    int64_t labels[2 * N - 1][2], extents[2] = {2, 2}, assignment[N];
    const int64_t *label_lists[2 * N - 1], *extent_lists[2 * N - 1];
    tensum_tensor inputs[2 * N - 1];
    for (int v = 0; v < N; v++) {
        weights[v] = 1 + (v * 7919) % 31;
        int32_t in = best_out + weights[v], out = best_in > best_out ? best_in : best_out;
        best_in = in;
        best_out = out;
        factors[v][0] = 0;
        factors[v][1] = weights[v];
        ranks[v] = 1;
        labels[v][0] = v;
    }
    for (int e = 0; e < N - 1; e++) {
        static const int32_t edge[4] = {0, 0, 0, -1073741823};
        memcpy(factors[N + e], edge, sizeof edge);
        ranks[N + e] = 2;
        labels[N + e][0] = e;
        labels[N + e][1] = e + 1;
    }
    for (int t = 0; t < 2 * N - 1; t++) {
        label_lists[t] = labels[t];
        extent_lists[t] = extents;
        inputs[t] = (tensum_tensor){factors[t], TENSUM_I32, ranks[t], extents, NULL, {TENSUM_CPU, 0}};
    }
    FOR_EACH_DEVICE (device) {
        tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
        prepared made;
        memset(&made, 0, sizeof made);
        spec.operand_count = 2 * N - 1;
        spec.ranks = ranks;
        spec.labels = label_lists;
        spec.extents = extent_lists;
        tensum_plan_options plan = TENSUM_PLAN_OPTIONS_INIT;
        plan.semiring = TENSUM_MAX_PLUS;
        plan.dtype = TENSUM_I32;
        tensum_program_options program = TENSUM_PROGRAM_OPTIONS_INIT;
        program.modes = TENSUM_VALUE | TENSUM_DECODE;
        program.device = device;
        assert_int_equal(tensum_network_create(&spec, &made.network), TENSUM_OK);
        assert_int_equal(tensum_order(made.network, NULL, NULL, &made.tree), TENSUM_OK);
        assert_int_equal(tensum_plan_create(made.network, made.tree, &plan, &made.plan), TENSUM_OK);
        assert_int_equal(tensum_program_create(made.plan, NULL, &program, &made.program), TENSUM_OK);
        assert_int_equal(tensum_workspace_create(made.program, NULL, &made.workspace), TENSUM_OK);
        tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
        const tensum_tensor out = SCALAR(TENSUM_I32, &value);
        arguments.inputs = inputs;
        arguments.output = &out;
        arguments.position_count = 1;
        arguments.assignments = assignment;
        assert_int_equal(tensum_run(made.program, made.workspace, &arguments), TENSUM_OK);
        int32_t score = 0;
        for (int v = 0; v < N; v++) {
            assert_true(assignment[v] == 0 || assignment[v] == 1);
            assert_false(v > 0 && assignment[v] == 1 && assignment[v - 1] == 1);
            score += assignment[v] == 1 ? weights[v] : 0;
        }
        assert_int_equal(value, best_in > best_out ? best_in : best_out);
        assert_int_equal(score, value);
        prepared_release(&made);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_optimum),
        cmocka_unit_test(chosen_elements),
        cmocka_unit_test(infeasible_and_nan),
        cmocka_unit_test(every_label_has_a_value),
        cmocka_unit_test(a_long_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
