/* Gradients of products with many positions and long sums, which the CUDA kernels scatter by winners: compared bit for
 * bit with loops over the definition (docs/semantics.md, points 8 and 10). */
#include "machine.h"

static uint32_t state;
static uint32_t next(void) { return state = state * 1664525u + 1013904223u; }

/* The sum of terms: blocks of 512 in ascending order, then the block sums by the same rule. */
static float tree_sum(const float *terms, int64_t count)
{
    float sum = 0, *blocks;
    int64_t block_count = (count + 511) / 512;
    if (count <= 512) {
        for (int64_t i = 0; i < count; i++) {
            sum += terms[i];
        }
        return sum;
    }
    blocks = calloc((size_t)block_count, sizeof *blocks);
    for (int64_t b = 0; b < block_count; b++) {
        blocks[b] = tree_sum(terms + b * 512, count - b * 512 < 512 ? count - b * 512 : 512);
    }
    sum = tree_sum(blocks, block_count);
    free(blocks);
    return sum;
}

/* Small numbers, so that ties are common and every operation is exact in f32. */
static float number(tensum_semiring semiring) { return (float)((next() >> 20) % 7) - (semiring == TENSUM_MAX_TIMES ? 0 : 3); }

static float times(tensum_semiring semiring, float x, float y)
{
    return semiring == TENSUM_MAX_TIMES ? x * y : semiring == TENSUM_MAX_MIN ? (x < y ? x : y) : x + y;
}
/* What the cotangent g of a term gives to x, the factor of the first input (`first`) or of the second. */
static float share(tensum_semiring semiring, float g, float x, float y, int first)
{
    switch (semiring) {
    case TENSUM_MAX_TIMES: return g * y;
    case TENSUM_MAX_MIN: return x < y || (x == y && first) ? g : 0;
    default: return g;
    }
}

static void check(tensum_semiring semiring, int64_t left, int64_t right, int64_t sum, int transposed)
{
    const char *expression = transposed ? "ik,kj->ji" : "ik,kj->ij";
    const int64_t a_extents[] = {left, sum}, b_extents[] = {sum, right}, c_extents[] = {left, right};
    const int64_t transposed_extents[] = {right, left}, *extents[] = {a_extents, b_extents};
    const int32_t ranks[] = {2, 2};
    const int64_t offsets[] = {0, 2}, children[] = {0, 1};
    const int64_t longest = left > right ? left : right;
    float *a = malloc((size_t)(left * sum) * sizeof *a), *b = malloc((size_t)(sum * right) * sizeof *b);
    float *g = malloc((size_t)(left * right) * sizeof *g), *c = malloc((size_t)(left * right) * sizeof *c);
    float *da = malloc((size_t)(left * sum) * sizeof *da), *db = malloc((size_t)(sum * right) * sizeof *db);
    float *terms = malloc((size_t)longest * sizeof *terms);
    int64_t *winner = malloc((size_t)(left * right) * sizeof *winner);
    const tensum_tensor inputs[] = {{a, TENSUM_F32, 2, a_extents, NULL, cpu}, {b, TENSUM_F32, 2, b_extents, NULL, cpu}};
    const tensum_tensor gradients[] = {{da, TENSUM_F32, 2, a_extents, NULL, cpu}, {db, TENSUM_F32, 2, b_extents, NULL, cpu}};
    const tensum_tensor output = {c, TENSUM_F32, 2, transposed ? transposed_extents : c_extents, NULL, cpu};
    const tensum_tensor cotangent = {g, TENSUM_F32, 2, transposed ? transposed_extents : c_extents, NULL, cpu};
    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    tensum_plan *plan = NULL;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;

    state = (uint32_t)(left * 31 + right * 7 + sum);
    for (int64_t i = 0; i < left * sum; i++) {
        a[i] = number(semiring);
    }
    for (int64_t i = 0; i < sum * right; i++) {
        b[i] = number(semiring);
    }
    for (int64_t i = 0; i < left * right; i++) {
        g[i] = (float)(next() >> 8) / 16777216.0f - 0.5f; /* their sums depend on the order */
    }
    succeeds(tensum_network_parse(expression, 2, ranks, extents, 0, NULL, NULL, &network));
    succeeds(tensum_tree_from_ssa(2, 1, offsets, children, &tree));
    plan_options.semiring = semiring;
    plan_options.dtype = TENSUM_F32;
    succeeds(tensum_plan_create(network, tree, &plan_options, &plan));
    options.modes = TENSUM_VALUE | TENSUM_GRADIENT;
    options.device = (tensum_device){TENSUM_CUDA, 0};
    succeeds(tensum_program_create(plan, NULL, &options, &program));
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    run.inputs = inputs;
    run.output = &output;
    run.cotangent = &cotangent;
    run.gradients = gradients;
    succeeds(tensum_run(program, workspace, &run));

    for (int64_t i = 0; i < left; i++) {
        for (int64_t j = 0; j < right; j++) {
            int64_t best = 0;
            for (int64_t k = 1; k < sum; k++) {
                if (times(semiring, a[i * sum + k], b[k * right + j]) > times(semiring, a[i * sum + best], b[best * right + j])) {
                    best = k;
                }
            }
            winner[i * right + j] = best;
            assert_true(c[transposed ? j * left + i : i * right + j] == times(semiring, a[i * sum + best], b[best * right + j]));
        }
    }
    for (int64_t k = 0; k < sum; k++) {
        for (int64_t i = 0; i < left; i++) {
            for (int64_t j = 0; j < right; j++) {
                terms[j] = winner[i * right + j] != k ? 0
                           : share(semiring, g[transposed ? j * left + i : i * right + j], a[i * sum + k], b[k * right + j], 1);
            }
            if (da[i * sum + k] != tree_sum(terms, right)) {
                fail_msg("%s %s: gradient of a at %d, %d is %.9g, not %.9g", tensum_semiring_name(semiring), expression, (int)i,
                         (int)k, (double)da[i * sum + k], (double)tree_sum(terms, right));
            }
        }
        for (int64_t j = 0; j < right; j++) {
            for (int64_t i = 0; i < left; i++) {
                terms[i] = winner[i * right + j] != k ? 0
                           : share(semiring, g[transposed ? j * left + i : i * right + j], b[k * right + j], a[i * sum + k], 0);
            }
            if (db[k * right + j] != tree_sum(terms, left)) {
                fail_msg("%s %s: gradient of b at %d, %d is %.9g, not %.9g", tensum_semiring_name(semiring), expression, (int)k,
                         (int)j, (double)db[k * right + j], (double)tree_sum(terms, left));
            }
        }
    }
    no_fault();
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    tensum_plan_release(plan);
    tensum_tree_release(tree);
    tensum_network_release(network);
    free(a);
    free(b);
    free(c);
    free(g);
    free(da);
    free(db);
    free(terms);
    free(winner);
}

static void gradients_are_sums_by_definition(void **unused)
{
    const tensum_semiring semirings[] = {TENSUM_MAX_PLUS, TENSUM_MAX_TIMES, TENSUM_MAX_MIN};
    (void)unused;
    for (int s = 0; s < 3; s++) {
        for (int transposed = 0; transposed < 2; transposed++) {
            check(semirings[s], 5, 20, 70, transposed);    /* one level, a run that is not full, rows that do not fill a block */
            check(semirings[s], 17, 512, 300, transposed); /* two runs; just one block of 512 */
            check(semirings[s], 3, 1100, 200, transposed); /* two levels */
        }
    }
    check(TENSUM_MAX_PLUS, 1, 512 * 512 + 700, 65, 0); /* three levels */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_sums_by_definition)};
    const int unable = machine_open();
    return unable != 0 ? unable : cmocka_run_group_tests(tests, NULL, NULL);
}
