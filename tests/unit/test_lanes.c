/* Slices side by side: every number of threads and every range of slices gives the brute-force value. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/core.h"

enum { B = 3, C = 4, D = 5, A = 2, E = 3 };

static double x[A][B], y[B][C], z[C][D], w[D][E], expected[A][E];

static void fill(void)
{
    uint32_t seed = 12345;
    double *all[4] = {&x[0][0], &y[0][0], &z[0][0], &w[0][0]};
    size_t counts[4] = {A * B, B * C, C * D, D * E};
    for (int t = 0; t < 4; t++) {
        for (size_t i = 0; i < counts[t]; i++) {
            seed = seed * 1664525u + 1013904223u;
            all[t][i] = (double)(seed >> 28) - 7; /* small integers: every order of sums is exact */
        }
    }
}

static void brute_force(tensum_semiring semiring)
{
    for (int a = 0; a < A; a++) {
        for (int e = 0; e < E; e++) {
            double best = semiring == TENSUM_MAX_PLUS ? -INFINITY : 0;
            for (int b = 0; b < B; b++) {
                for (int c = 0; c < C; c++) {
                    for (int d = 0; d < D; d++) {
                        double sum = x[a][b] + y[b][c] + z[c][d] + w[d][e];
                        double product = x[a][b] * y[b][c] * z[c][d] * w[d][e];
                        best = semiring == TENSUM_MAX_PLUS ? (sum > best ? sum : best) : best + product;
                    }
                }
            }
            expected[a][e] = best;
        }
    }
}

static void check(tensum_context *context, tensum_semiring semiring, int64_t label_count, const int64_t *labels, int64_t parts)
{
    static const int32_t ranks[4] = {2, 2, 2, 2};
    static const int64_t ex[2] = {A, B}, ey[2] = {B, C}, ez[2] = {C, D}, ew[2] = {D, E}, eo[2] = {A, E};
    const int64_t *const extents[4] = {ex, ey, ez, ew};
    const tensum_device device = {TENSUM_REFERENCE, 0};
    const tensum_tensor inputs[4] = {{x, TENSUM_F64, 2, ex, NULL, device},
                                     {y, TENSUM_F64, 2, ey, NULL, device},
                                     {z, TENSUM_F64, 2, ez, NULL, device},
                                     {w, TENSUM_F64, 2, ew, NULL, device}};
    static const int64_t strides[2] = {1, A}; /* column-major */
    double result[A * E];
    tensum_tensor output = {result, TENSUM_F64, 2, eo, strides, device};
    tensum_network *network = NULL;
    tensum_tree *tree = NULL, *sliced = NULL;
    tensum_plan *plan = NULL;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    assert_int_equal(tensum_network_parse("ab,bc,cd,de->ae", 4, ranks, extents, 0, NULL, NULL, &network), TENSUM_OK);
    assert_int_equal(tensum_order(network, NULL, NULL, &tree), TENSUM_OK);
    assert_int_equal(tensum_tree_with_slices(tree, label_count, labels, &sliced), TENSUM_OK);
    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    plan_options.semiring = semiring;
    plan_options.dtype = TENSUM_F64;
    assert_int_equal(tensum_plan_create(network, sliced, &plan_options, &plan), TENSUM_OK);
    tensum_cost cost = TENSUM_COST_INIT;
    assert_int_equal(tensum_plan_cost(plan, &cost), TENSUM_OK);
    tensum_program_options program_options = TENSUM_PROGRAM_OPTIONS_INIT;
    program_options.device = device;
    assert_int_equal(tensum_program_create(plan, context, &program_options, &program), TENSUM_OK);
    assert_int_equal(tensum_workspace_create(program, NULL, &workspace), TENSUM_OK);
    for (int64_t p = 0; p < parts; p++) {
        tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
        arguments.inputs = inputs;
        arguments.output = &output;
        arguments.slice_first = cost.slices * p / parts;
        arguments.slice_count = cost.slices * (p + 1) / parts - arguments.slice_first;
        arguments.accumulate = p > 0;
        assert_int_equal(tensum_run(program, workspace, &arguments), TENSUM_OK);
    }
    for (int a = 0; a < A; a++) {
        for (int e = 0; e < E; e++) {
            assert_true(result[a + A * e] == expected[a][e]);
        }
    }
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    tensum_plan_release(plan);
    tensum_tree_release(sliced);
    tensum_tree_release(tree);
    tensum_network_release(network);
}

static void every_split(void **state)
{
    static const int64_t cases[5][2] = {{'c', 0}, {'b', 'd'}, {'d', 'c'}, {'a', 'c'}, {'e', 'a'}};
    (void)state;
    fill();
    for (int threads = 1; threads <= 4; threads++) {
        tensum_context_options options = TENSUM_CONTEXT_OPTIONS_INIT;
        tensum_context *context = NULL;
        options.threads = threads;
        assert_int_equal(tensum_context_create(&options, &context), TENSUM_OK);
        for (int s = 0; s < 2; s++) {
            tensum_semiring semiring = s == 0 ? TENSUM_SUM_PRODUCT : TENSUM_MAX_PLUS;
            brute_force(semiring);
            for (int i = 0; i < 5; i++) {
                for (int64_t parts = 1; parts <= 3; parts++) {
                    check(context, semiring, cases[i][1] == 0 ? 1 : 2, cases[i], parts);
                }
            }
        }
        tensum_context_release(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_split)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
