/* Long sums on the CPU: errors of sums of one operand, against exact sums, stay within the bound of blocks (docs/semantics.md,
 * point 9), in every layout, which no chain of additions would; products count more terms than a float can. */
#include "support.h"

#include "backend/cpu/cpu.h"

static const int64_t sizes_of[][2] = {{1, 3000000}, {3, 400000}, {20, 200000}, {300, 20000}, {700, 9000}}; /* kept, summed */

static void check(int64_t kept, int64_t terms, bool sum_inside, tensum_dtype dtype, bool equal, ts_pool *pool)
{
    const size_t element = tensum_dtype_bytes(dtype);
    const int64_t reals = (int64_t)element / 4;
    ts_mode modes[2] = {{.extent = kept, .a = sum_inside ? terms : 1, .c = 1}, {.extent = terms, .a = sum_inside ? 1 : kept}};
    float *a = malloc((size_t)(kept * terms) * element), *c = malloc((size_t)kept * element);
    double *exact = calloc((size_t)(kept * reals), sizeof *exact), *sizes = calloc((size_t)(kept * reals), sizeof *sizes);
    ts_random random;
    ts_random_seed(&random, 3);
    for (int64_t n = 0; n < kept; n++) {
        for (int64_t s = 0; s < terms; s++) {
            for (int64_t i = 0; i < reals; i++) {
                const float x = equal ? 0.1f * (float)(1 + n) : (float)ts_random_below(&random, 1000000) * 1e-6f;
                a[(n * modes[0].a + s * modes[1].a) * reals + i] = x;
                exact[n * reals + i] += x; /* 29 bits to spare */
                sizes[n * reals + i] += fabs((double)x);
            }
        }
    }
    const ts_reduce_spec spec = {.algebra = {TENSUM_SUM_PRODUCT, dtype, 0}, .kept_count = 1, .sum_count = 1, .modes = modes,
                                 .kept = kept, .sum = terms};
    ts_run run = {pool, NULL, ts_cpu_reduce_scratch(&spec, 2)};
    assert_int_equal(ts_allocate_aligned(run.scratch_bytes, "test", &run.scratch), TENSUM_OK);
    assert_int_equal(ts_cpu_reduce_step(&spec, a, c, NULL, &run), TENSUM_OK);
    const double bound = fmin((double)terms + 1, (double)terms / 65536 + 800) * 0x1p-24;
    for (int64_t n = 0; n < kept * reals; n++) {
        if (fabs(c[n] - exact[n]) > bound * sizes[n]) {
            fail_msg("%lld of %lld terms, %s: result %lld is %.9g, expected %.9g", (long long)kept, (long long)terms,
                     tensum_dtype_name(dtype), (long long)n, (double)c[n], exact[n]);
        }
    }
    ts_free(run.scratch);
    free(a);
    free(c);
    free(exact);
    free(sizes);
}

static void test_bound(void **state)
{
    ts_pool *pool = NULL;
    (void)state;
    assert_int_equal(ts_pool_create(2, &pool), TENSUM_OK);
    for (size_t i = 0; i < sizeof sizes_of / sizeof *sizes_of; i++) {
        for (int way = 0; way < 8; way++) {
            check(sizes_of[i][0], sizes_of[i][1], (way & 1) != 0, (way & 2) != 0 ? TENSUM_C64 : TENSUM_F32, (way & 4) != 0,
                  way % 3 == 0 ? NULL : pool);
        }
    }
    ts_pool_destroy(pool);
}

/* ---- products with more terms than a float can count ---- */

#define MANY ((int64_t)1 << 25) /* a chain of additions would stop at half of it */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define TAKES_LONG() skip() /* about values, not memory */
#else
#define TAKES_LONG()
#endif

/* Operands are one row of elements, read MANY times over by a stride of 0. */
static void check_many(const char *expression, tensum_semiring semiring, tensum_dtype dtype, const void *element, double expected)
{
    const char *const comma = strchr(expression, ','), *const arrow = strchr(expression, '>'), *const starts[] = {expression, comma + 1};
    const size_t bytes = tensum_dtype_bytes(dtype);
    unsigned char row[3 * 16], results[9 * 16] = {0};
    int64_t extents[3][2], strides[2][2];
    int32_t ranks[3] = {0, 0, 0};
    for (size_t i = 0; i < 3; i++) {
        memcpy(row + i * bytes, element, bytes);
    }
    for (int t = 0; t < 3; t++) {
        for (const char *label = t < 2 ? starts[t] : arrow + 1; *label >= 'a' && *label <= 'z'; label++) {
            if (t < 2) {
                strides[t][ranks[t]] = *label == 'k' ? 0 : 1;
            }
            extents[t][ranks[t]++] = *label == 'k' ? MANY : 3;
        }
    }
    const tensum_tensor operands[] = {{row, dtype, ranks[0], extents[0], strides[0], {TENSUM_CPU, 0}},
                                      {row, dtype, ranks[1], extents[1], strides[1], {TENSUM_CPU, 0}}};
    const tensum_tensor output = {results, dtype, ranks[2], extents[2], NULL, {TENSUM_CPU, 0}};
    const contraction job = {.expression = expression, .semiring = semiring, .dtype = dtype, .operand_count = 2, .operands = operands,
                             .output = &output};
    RUN(&job, ((tensum_device){TENSUM_CPU, 0}));
    for (size_t i = 0; i < (ranks[2] == 0 ? 1 : ranks[2] == 1 ? 3 : 9); i++) {
        float found[2] = {0};
        memcpy(found, results + i * bytes, bytes < sizeof found ? bytes : sizeof found);
        const float value = dtype == TENSUM_VC64 ? found[1] : found[0];
        if (!(fabs((double)value - expected) <= 1e-4 * expected)) {
            fail_msg("%s, %s over %s: result %d is %.9g, expected %.9g", expression, tensum_semiring_name(semiring), tensum_dtype_name(dtype),
                     (int)i, (double)value, expected);
        }
    }
}

static void test_many_terms(void **state)
{
    static const char *const expressions[] = {"ka,kb->ab", "ak,bk->ba", "k,k->", "ak,k->a", "k,ka->a"};
    static const float one[2] = {1, 0}, nothing = 0, counted[2] = {0, 1};
    (void)state;
    TAKES_LONG();
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
        check_many(expressions[i], TENSUM_SUM_PRODUCT, TENSUM_F32, one, (double)MANY);
    }
    check_many("ka,kb->ab", TENSUM_SUM_PRODUCT, TENSUM_C64, one, (double)MANY);
    check_many("k,k->", TENSUM_LOG_SUM_EXP, TENSUM_F32, &nothing, log((double)MANY));
    check_many("k,k->", TENSUM_MAX_PLUS_COUNT, TENSUM_VC64, counted, (double)MANY);
}

/* The gradient of a tiny operand is such a sum. */
static void test_gradient_of_many_terms(void **state)
{
    static const float one = 1;
    TAKES_LONG();
    float *values = malloc((size_t)MANY * 2 * sizeof *values), *first = malloc((size_t)MANY * 2 * sizeof *first), second[4];
    const int64_t extents[3][2] = {{MANY, 2}, {2, 2}, {MANY, 2}}, strides[2] = {0, 0};
    (void)state;
    assert_true(values != NULL && first != NULL);
    const tensum_tensor operands[] = {{(void *)(uintptr_t)&one, TENSUM_F32, 2, extents[0], strides, {TENSUM_CPU, 0}},
                                      {(void *)(uintptr_t)&one, TENSUM_F32, 2, extents[1], strides, {TENSUM_CPU, 0}}};
    const tensum_tensor output = {values, TENSUM_F32, 2, extents[2], NULL, {TENSUM_CPU, 0}};
    const tensum_tensor cotangent = {(void *)(uintptr_t)&one, TENSUM_F32, 2, extents[2], strides, {TENSUM_CPU, 0}};
    const tensum_tensor gradients[] = {{first, TENSUM_F32, 2, extents[0], NULL, {TENSUM_CPU, 0}},
                                       {second, TENSUM_F32, 2, extents[1], NULL, {TENSUM_CPU, 0}}};
    const contraction job = {.expression = "kb,bc->kc", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F32, .operand_count = 2,
                             .operands = operands, .output = &output, .cotangent = &cotangent, .gradients = gradients};
    RUN(&job, ((tensum_device){TENSUM_CPU, 0}));
    for (int i = 0; i < 4; i++) {
        assert_true(fabs((double)second[i] - (double)MANY) <= 1e-4 * (double)MANY);
    }
    assert_true(first[0] == 2 && values[2 * MANY - 1] == 2);
    free(values);
    free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound), cmocka_unit_test(test_many_terms),
                                       cmocka_unit_test(test_gradient_of_many_terms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
