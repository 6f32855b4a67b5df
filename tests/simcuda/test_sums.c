/* Long sums of one operand on the CUDA backend, along memory and across it, where lanes, vectors, steps and parts end:
 * compared with loops over the definition (docs/semantics.md). */
#include <math.h>

#include "machine.h"

/* An operand of four modes "abcd", of which those not in the output are summed. */
typedef struct sum_case {
    const char *expression;
    int64_t extents[4];
    int offset; /* elements between an aligned address and the first */
} sum_case;

static double get(tensum_dtype dtype, const void *data, int64_t i)
{
    return dtype == TENSUM_F32   ? (double)((const float *)data)[i]
           : dtype == TENSUM_F64 ? ((const double *)data)[i]
           : dtype == TENSUM_I16 ? ((const int16_t *)data)[i]
                                 : ((const uint8_t *)data)[i];
}
static void put(tensum_dtype dtype, void *data, int64_t i, double x)
{
    switch (dtype) {
    case TENSUM_F32: ((float *)data)[i] = (float)x; break;
    case TENSUM_F64: ((double *)data)[i] = x; break;
    case TENSUM_I16: ((int16_t *)data)[i] = (int16_t)x; break;
    default: ((uint8_t *)data)[i] = (uint8_t)x; break;
    }
}

static void check(const sum_case *test, tensum_semiring semiring, tensum_dtype dtype, bool with_winners)
{
    const bool selective = semiring != TENSUM_SUM_PRODUCT;
    const size_t bytes = tensum_dtype_bytes(dtype);
    const int64_t *const e = test->extents, size = e[0] * e[1] * e[2] * e[3], strides[] = {e[1] * e[2] * e[3], e[2] * e[3], e[3], 1};
    const char *const kept_labels = strchr(test->expression, '>') + 1;
    int64_t kept[4] = {0}, kept_strides[4], sum[4], sum_strides[4], results = 1, terms = 1;
    int32_t kept_count = 0, sum_count = 0, rank = 4;
    uint32_t state = (uint32_t)size;
    char *data = malloc((size_t)size * bytes);
    const uint64_t block = device_allocate(0, (size_t)(size + test->offset) * bytes), address = block + (size_t)test->offset * bytes;
    void *values;
    int64_t *winners;

    for (const char *label = kept_labels; *label != '\0'; label++) {
        kept[kept_count] = e[*label - 'a'];
        kept_strides[kept_count++] = strides[*label - 'a'];
        results *= e[*label - 'a'];
    }
    for (int i = 0; i < 4; i++) {
        if (strchr(kept_labels, "abcd"[i]) == NULL) {
            sum[sum_count] = e[i];
            sum_strides[sum_count++] = strides[i];
            terms *= e[i];
        }
    }
    for (int64_t i = 0; i < size; i++) { /* ties are frequent, the rare large ones anywhere */
        state = state * 1664525u + 1013904223u;
        double x = (double)((state >> 16) % 5) - 2;
        x = semiring == TENSUM_OR_AND ? (state >> 20) % 500 == 1 : (state >> 20) % 911 == 0 ? 7 : x;
        put(dtype, data, i, dtype != TENSUM_I16 && semiring == TENSUM_MAX_PLUS && (state >> 18) % 4001 == 0 ? (double)NAN : x);
    }
    device_write(address, data, (size_t)size * bytes);
    values = calloc((size_t)results, bytes);
    winners = malloc((size_t)results * sizeof *winners);
    {
        const tensum_tensor input = {(void *)(uintptr_t)address, dtype, 4, e, NULL, cuda0}, output = {values, dtype, kept_count, kept, NULL, cpu};
        const tensum_tensor found = {winners, TENSUM_I64, kept_count, kept, NULL, cpu};
        const int64_t *extents = e, offsets[] = {0, 1}, children[] = {0};
        tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
        tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
        tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
        tensum_network *network = NULL;
        tensum_tree *tree = NULL;
        tensum_plan *plan = NULL;
        tensum_program *program = NULL;
        tensum_workspace *workspace = NULL;

        succeeds(tensum_network_parse(test->expression, 1, &rank, &extents, 0, NULL, NULL, &network));
        succeeds(tensum_tree_from_ssa(1, 1, offsets, children, &tree));
        plan_options.semiring = semiring;
        plan_options.dtype = dtype;
        succeeds(tensum_plan_create(network, tree, &plan_options, &plan));
        options.modes = with_winners ? TENSUM_VALUE | TENSUM_WINNERS : TENSUM_VALUE;
        options.device = cuda0;
        succeeds(tensum_program_create(plan, NULL, &options, &program));
        succeeds(tensum_workspace_create(program, NULL, &workspace));
        run.inputs = &input;
        run.output = &output;
        run.winners = with_winners ? &found : NULL;
        succeeds(tensum_run(program, workspace, &run));
        tensum_workspace_release(workspace);
        tensum_program_release(program);
        tensum_plan_release(plan);
        tensum_tree_release(tree);
        tensum_network_release(network);
    }
    for (int64_t i = 0; i < results; i++) {
        double best = semiring == TENSUM_MAX_PLUS ? -(double)INFINITY : 0, value = get(dtype, values, i), bound = 0;
        int64_t at = 0, rest = i, winner = 0;
        for (int32_t m = kept_count - 1; m >= 0; rest /= kept[m], m--) {
            at += rest % kept[m] * kept_strides[m];
        }
        for (int64_t k = 0; k < terms; k++) {
            int64_t from = at;
            rest = k;
            for (int32_t m = sum_count - 1; m >= 0; rest /= sum[m], m--) {
                from += rest % sum[m] * sum_strides[m];
            }
            const double x = get(dtype, data, from);
            if (!selective) {
                best += x;
                bound += fabs(x) * (double)terms * (dtype == TENSUM_F32 ? 6e-8 : 2e-16);
            } else if (x > best || (isnan(x) && !isnan(best))) {
                best = x;
                winner = k;
            }
        }
        if (!(fabs(value - best) <= bound || (isnan(value) && isnan(best))) || (with_winners && winners[i] != winner)) {
            fail_msg("%s of %d x %d x %d x %d, offset %d, %s %s: %g at %d, not %g at %d (result %d)", test->expression, (int)e[0],
                     (int)e[1], (int)e[2], (int)e[3], test->offset, tensum_semiring_name(semiring), tensum_dtype_name(dtype), value,
                     with_winners ? (int)winners[i] : -1, best, (int)winner, (int)i);
        }
    }
    device_release(0, block);
    free(data);
    free(values);
    free(winners);
}

static void along_and_across(void **unused)
{
    static const sum_case cases[] = {
        {"abcd->a", {3, 1, 1, 4096}, 0},     {"abcd->a", {70, 1, 1, 1000}, 1},   {"abcd->a", {2, 3, 5, 333}, 0},   {"abcd->", {1, 1, 1, 70001}, 0},
        {"abcd->", {7, 11, 13, 64}, 3},      {"abcd->d", {1, 1, 5000, 8}, 0},    {"abcd->d", {1, 700, 9, 33}, 0},  {"abcd->cd", {900, 1, 3, 16}, 1},
        {"abcd->acd", {3, 300, 2, 64}, 0},   {"abcd->ad", {5, 17, 31, 40}, 2},   {"abcd->ac", {4, 60, 3, 100}, 0}, {"abcd->bc", {64, 3, 5, 64}, 0},
        {"abcd->cba", {2, 3, 5, 2048}, 0},   {"abcd->dc", {2000, 1, 4, 12}, 0},  {"abcd->b", {40, 1, 30, 50}, 5},  {"abcd->c", {300, 1, 1, 300}, 0},
        {"abcd->ab", {300, 3, 1, 129}, 0},   {"abcd->d", {2, 3, 4097, 2}, 0},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int with_winners = 0; with_winners < 2; with_winners++) {
            check(&cases[i], TENSUM_MAX_PLUS, TENSUM_F32, with_winners);
            check(&cases[i], TENSUM_MAX_PLUS, TENSUM_I16, with_winners);
            check(&cases[i], TENSUM_MAX_PLUS, TENSUM_F64, with_winners);
            check(&cases[i], TENSUM_OR_AND, TENSUM_BOOL, with_winners);
        }
        check(&cases[i], TENSUM_SUM_PRODUCT, TENSUM_F32, false);
        check(&cases[i], TENSUM_SUM_PRODUCT, TENSUM_F64, false);
    }
    no_fault();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(along_and_across)};
    const int answer = machine_open();
    return answer != 0 ? answer : cmocka_run_group_tests(tests, NULL, NULL);
}
