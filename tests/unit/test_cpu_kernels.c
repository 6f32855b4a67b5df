/* Contractions and reductions of the CPU backend against plain loops: winners, accumulation, threads. */
#include "cpu_cases.h"

/* sizes: of batch, left, right and sum modes. */
static void contract_sizes(ts_algebra algebra, const int64_t sizes[4])
{
    ts_mode modes[32] = {{0}};
    int32_t counts[4];
    int32_t total = 0;
    bool has[3][32] = {{false}};
    for (int class = 0; class < 4; class++) {
        counts[class] = split(sizes[class], modes + total);
        for (int32_t m = total; m < total + counts[class]; m++) {
            has[0][m] = class != 2;
            has[1][m] = class != 1;
            has[2][m] = class != 3;
        }
        total += counts[class];
    }
    const size_t element = tensum_dtype_bytes(algebra.dtype);
    const bool selective = tensum_semiring_selective(algebra.semiring) != 0;
    const bool winners = selective && below(2) == 0;
    ts_contract_spec spec = {
        .algebra = algebra, .batch_count = counts[0], .left_count = counts[1], .right_count = counts[2],
        .sum_count = counts[3], .modes = modes, .batch = sizes[0], .left = sizes[1], .right = sizes[2], .sum = sizes[3],
        .accumulate = !winners && below(4) == 0, .winner_bytes = winners ? (below(2) == 0 ? 4 : 8) : 0,
    };
    spec.conjugate_a = (algebra.dtype == TENSUM_C64 || algebra.dtype == TENSUM_C128) && below(2) == 0;
    spec.conjugate_b = (algebra.dtype == TENSUM_C64 || algebra.dtype == TENSUM_C128) && below(2) == 0;
    tensor a = make_tensor(modes, has[0], total, offsetof(ts_mode, a), true, element);
    tensor b = make_tensor(modes, has[1], total, offsetof(ts_mode, b), true, element);
    tensor c = make_tensor(modes, has[2], total, offsetof(ts_mode, c), false, element);
    tensor w = make_tensor(modes, has[2], total, offsetof(ts_mode, w), false, winners ? spec.winner_bytes : 1);
    const int special = (int)below(5);
    fill_random(&a, algebra, special);
    fill_random(&b, algebra, special);
    fill_random(&c, algebra, special == SPECIAL_NAN ? SPECIAL_NONE : special);
    uint8_t *before = NULL;
    assert_int_equal(ts_allocate((size_t)c.count, element, "test", &before), TENSUM_OK);
    memcpy(before, c.block, (size_t)c.count * element);

    ts_pool *pool = random_pool();
    ts_run run = make_run(ts_cpu_contract_scratch(&spec, ts_pool_threads(pool)), pool);
    EXPECT(ts_cpu_contract(&spec, a.data, b.data, c.data, winners ? w.data : NULL, &run) == TENSUM_OK, "%s",
           tensum_last_error());

    const int64_t first[5] = {0, counts[0], counts[0] + counts[1], counts[0] + counts[1] + counts[2], total};
    const size_t strides[4] = {offsetof(ts_mode, a), offsetof(ts_mode, b), offsetof(ts_mode, c), offsetof(ts_mode, w)};
    int64_t *tables[4][4];
    for (int class = 0; class < 4; class++) {
        for (int t = 0; t < 4; t++) {
            assert_int_equal(ts_allocate((size_t)sizes[class] + 1, 8, "test", &tables[class][t]), TENSUM_OK);
            for (int64_t i = 0; i < sizes[class]; i++) {
                tables[class][t][i] = offset_of(modes + first[class], counts[class], strides[t], i);
            }
        }
    }
    for (int64_t n = 0; n < sizes[0]; n++) {
        for (int64_t l = 0; l < sizes[1]; l++) {
            for (int64_t r = 0; r < sizes[2]; r++) {
                const terms t = {
                    .a = (const uint8_t *)a.data + (tables[0][0][n] + tables[1][0][l]) * (int64_t)element,
                    .b = (const uint8_t *)b.data + (tables[0][1][n] + tables[2][1][r]) * (int64_t)element,
                    .a_at = tables[3][0], .b_at = tables[3][1], .count = sizes[3], .conjugate_a = spec.conjugate_a,
                    .conjugate_b = spec.conjugate_b, .modulus = algebra.modulus,
                };
                const int64_t offset = tables[0][2][n] + tables[1][2][l] + tables[2][2][r];
                const uint8_t *got = (const uint8_t *)c.data + offset * (int64_t)element;
                ts_element expected;
                memcpy(&expected, before + (got - c.block), element);
                const int64_t winner = plains[algebra.semiring][algebra.dtype](&t, spec.accumulate, &expected);
                char text[2][80];
                EXPECT(same(algebra, got, &expected, 16.0 * (double)(sizes[3] + 64) * (special == SPECIAL_WIDE ? 10000 : 1)),
                       "%s %s contract [%lld %lld %lld %lld] special %d accumulate %d: c[%lld,%lld,%lld] is %s, expected %s",
                       tensum_semiring_name(algebra.semiring), tensum_dtype_name(algebra.dtype), (long long)sizes[0],
                       (long long)sizes[1], (long long)sizes[2], (long long)sizes[3], special, spec.accumulate,
                       (long long)n, (long long)l, (long long)r,
                       ts_format_element(algebra.dtype, got, text[0], sizeof text[0]),
                       ts_format_element(algebra.dtype, &expected, text[1], sizeof text[1]));
                if (winners) {
                    const int64_t where = tables[0][3][n] + tables[1][3][l] + tables[2][3][r];
                    const int64_t found = spec.winner_bytes == 4 ? ((const int32_t *)w.data)[where]
                                                                 : ((const int64_t *)w.data)[where];
                    EXPECT(found == winner, "%s %s contract [%lld %lld %lld %lld] special %d: winner[%lld,%lld,%lld] is %lld, expected %lld",
                           tensum_semiring_name(algebra.semiring), tensum_dtype_name(algebra.dtype), (long long)sizes[0],
                           (long long)sizes[1], (long long)sizes[2], (long long)sizes[3], special, (long long)n,
                           (long long)l, (long long)r, (long long)found, (long long)winner);
                }
            }
        }
    }
    for (int class = 0; class < 4; class++) {
        for (int t = 0; t < 4; t++) {
            ts_free(tables[class][t]);
        }
    }
    ts_free(before);
    ts_free(run.scratch);
    ts_free(a.block);
    ts_free(b.block);
    ts_free(c.block);
    ts_free(w.block);
}

static void contract_case(ts_algebra algebra)
{
    int64_t sizes[4] = {below(4) == 0 ? edge() : 1 + (below(3) == 0 ? below(4) : 0), edge(), edge(), edge()};
    if (below(6) == 0) {
        sizes[3] = 400 + below(3000);
        sizes[1] = 1 + below(20);
        sizes[2] = 1 + below(40);
    }
    if (below(60) == 0) {
        sizes[below(4)] = 0;
    }
    while (sizes[0] * sizes[1] * sizes[2] * sizes[3] > 300000) {
        sizes[below(3)] = 1 + below(9);
    }
    contract_sizes(algebra, sizes);
}

/* From 2^21 pairs on all workers share the packed columns, whose panels have several chunks and groups of them, the last ones shorter. */
static void large_contract_case(ts_algebra algebra)
{
    const bool deep = case_seed % 8 == 2;
    int64_t sizes[4] = {1 + below(2), 13 + below(deep ? 30 : 200), 33 + below(deep ? 60 : 300), 0};
    if (case_seed % 4 != 2) { /* they take long */
        return;
    }
    sizes[3] = (((int64_t)1 << 21) + below(1 << 19)) / (sizes[1] * sizes[2]) + 1;
    contract_sizes(algebra, sizes);
}

/* Columns that are too large to be packed all at once. */
static void columns_in_ranges(void **state)
{
    const ts_algebra algebra = algebra_of(TENSUM_SUM_PRODUCT, TENSUM_C128);
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* half a billion pairs; what threads share is the same in large_contract_case() */
#endif
    for (case_seed = 1; case_seed <= 4; case_seed++) {
        const int64_t sizes[4] = {1, 30, 500 + (int64_t)case_seed, 9001}; /* 72 MB */
        ts_random_seed(&generator, case_seed);
        contract_sizes(algebra, sizes);
    }
}

static void reduce_sizes(ts_algebra algebra, bool long_sum)
{
    ts_mode modes[32] = {{0}};
    bool has[2][32] = {{false}};
    int64_t sizes[2] = {below(3) == 0 ? edge() * (1 + below(20)) : edge(), below(3) == 0 ? 1 : edge()};
    if (long_sum) { /* few results: the sum is cut into parts */
        sizes[0] = 1 + below(3);
        sizes[1] = 60000 + below(60000);
    } else if (below(8) == 0) {
        sizes[1] = 1000 + below(3000);
        sizes[0] = 1 + below(60);
    }
    if (below(40) == 0) {
        sizes[below(2)] = 0;
    }
    const int32_t kept = split(sizes[0], modes), sum = split(sizes[1], modes + kept);
    for (int32_t m = 0; m < kept + sum; m++) {
        has[0][m] = m >= kept || below(8) != 0; /* the others broadcast */
        has[1][m] = m < kept;
    }
    const size_t element = tensum_dtype_bytes(algebra.dtype);
    const bool winners = tensum_semiring_selective(algebra.semiring) && below(2) == 0;
    const ts_reduce_spec spec = {
        .algebra = algebra, .kept_count = kept, .sum_count = sum, .modes = modes, .kept = sizes[0], .sum = sizes[1],
        .accumulate = !winners && below(4) == 0, .winner_bytes = winners ? (below(2) == 0 ? 4 : 8) : 0,
    };
    tensor a = make_tensor(modes, has[0], kept + sum, offsetof(ts_mode, a), true, element);
    tensor c = make_tensor(modes, has[1], kept, offsetof(ts_mode, c), false, element);
    tensor w = make_tensor(modes, has[1], kept, offsetof(ts_mode, w), false, winners ? spec.winner_bytes : 1);
    const int special = (int)below(5);
    fill_random(&a, algebra, special);
    fill_random(&c, algebra, SPECIAL_NONE);
    uint8_t *before = NULL;
    int64_t *sum_at = NULL;
    assert_int_equal(ts_allocate((size_t)c.count, element, "test", &before), TENSUM_OK);
    assert_int_equal(ts_allocate((size_t)sizes[1] + 1, 8, "test", &sum_at), TENSUM_OK);
    memcpy(before, c.block, (size_t)c.count * element);
    ts_pool *pool = random_pool();
    ts_run run = make_run(ts_cpu_reduce_scratch(&spec, ts_pool_threads(pool)), pool);
    EXPECT(ts_cpu_reduce_step(&spec, a.data, c.data, winners ? w.data : NULL, &run) == TENSUM_OK, "%s", tensum_last_error());
    for (int64_t s = 0; s < sizes[1]; s++) {
        sum_at[s] = offset_of(modes + kept, sum, offsetof(ts_mode, a), s);
    }
    for (int64_t n = 0; n < sizes[0]; n++) {
        const terms t = {.a = (const uint8_t *)a.data + offset_of(modes, kept, offsetof(ts_mode, a), n) * (int64_t)element,
                         .a_at = sum_at, .count = sizes[1], .modulus = algebra.modulus};
        const uint8_t *got = (const uint8_t *)c.data + offset_of(modes, kept, offsetof(ts_mode, c), n) * (int64_t)element;
        ts_element expected;
        memcpy(&expected, before + (got - c.block), element);
        int64_t winner = 0;
        if (sizes[1] == 1 && !spec.accumulate) {
            memcpy(&expected, (const uint8_t *)t.a + sum_at[0] * (int64_t)element, element);
            EXPECT(memcmp(got, &expected, element) == 0, "%s moved element %lld has other bits",
                   tensum_dtype_name(algebra.dtype), (long long)n);
        } else {
            winner = plains[algebra.semiring][algebra.dtype](&t, spec.accumulate, &expected);
        }
        double scale = 16.0 * (double)(sizes[1] + 64) * (special == SPECIAL_WIDE ? 100 : 1);
        if (long_sum && algebra.semiring == TENSUM_SUM_PRODUCT && algebra.dtype >= TENSUM_F32 && algebra.dtype <= TENSUM_C128) {
            /* A hundred thousand equal terms (a stride may be 0) make a large sum that rounds alike at every step; terms of
             * either sign do not. The bound of both ways of adding is (K + 1) u times the sum (docs/semantics.md, point 9). */
            for (int part = 0; part < (algebra.dtype >= TENSUM_C64 ? 2 : 1); part++) {
                scale = fmax(scale, fabs(as_number(algebra.dtype, &expected, part)) * (double)(sizes[1] + 1) / 4);
            }
        }
        char text[2][80];
        EXPECT(same(algebra, got, &expected, scale),
               "%s %s reduce [%lld %lld] special %d: c[%lld] is %s, expected %s", tensum_semiring_name(algebra.semiring),
               tensum_dtype_name(algebra.dtype), (long long)sizes[0], (long long)sizes[1], special, (long long)n,
               ts_format_element(algebra.dtype, got, text[0], sizeof text[0]),
               ts_format_element(algebra.dtype, &expected, text[1], sizeof text[1]));
        if (winners) {
            const int64_t where = offset_of(modes, kept, offsetof(ts_mode, w), n);
            const int64_t found = spec.winner_bytes == 4 ? ((const int32_t *)w.data)[where] : ((const int64_t *)w.data)[where];
            EXPECT(found == winner, "%s %s reduce [%lld %lld] special %d: winner[%lld] is %lld, expected %lld",
                   tensum_semiring_name(algebra.semiring), tensum_dtype_name(algebra.dtype), (long long)sizes[0],
                   (long long)sizes[1], special, (long long)n, (long long)found, (long long)winner);
        }
    }
    ts_free(before);
    ts_free(sum_at);
    ts_free(run.scratch);
    ts_free(a.block);
    ts_free(c.block);
    ts_free(w.block);
}

static void reduce_case(ts_algebra algebra) { reduce_sizes(algebra, false); }
static void long_reduce_case(ts_algebra algebra)
{
    if (case_seed % 4 == 1) { /* they take long */
        reduce_sizes(algebra, true);
    }
}

static void contractions(void **state)
{
    (void)state;
    for_all_pairs(contract_case);
    for_all_pairs(large_contract_case);
}

/* A program asks for what a run with winners takes; a run that does not want them must not take more. */
static void scratch_for_values(void **state)
{
    (void)state;
    for (int64_t size = 64; size <= 4096; size *= 2) {
        for (int dtype = TENSUM_F16; dtype <= TENSUM_I64; dtype++) {
            ts_mode modes[3] = {{.extent = size, .a = size, .c = size}, {.extent = size, .b = 1, .c = 1}, {.extent = size, .a = 1, .b = size}};
            ts_contract_spec spec = {.algebra = {TENSUM_MAX_PLUS, (tensum_dtype)dtype, 0}, .left_count = 1, .right_count = 1,
                                     .sum_count = 1, .modes = modes, .batch = 1, .left = size, .right = size, .sum = size};
            if (ts_cpu_kernel_find(TENSUM_MAX_PLUS, (tensum_dtype)dtype) == NULL) {
                continue;
            }
            for (int32_t threads = 1; threads <= 8; threads++) {
                spec.winner_bytes = 0;
                const size_t values = ts_cpu_contract_scratch(&spec, threads);
                spec.winner_bytes = 4;
                assert_true(ts_cpu_contract_scratch(&spec, threads) >= values);
            }
        }
    }
}

static void reductions(void **state)
{
    (void)state;
    for_all_pairs(reduce_case);
    for_all_pairs(long_reduce_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(contractions), cmocka_unit_test(columns_in_ranges), cmocka_unit_test(reductions),
                                       cmocka_unit_test(scratch_for_values)};
    return cmocka_run_group_tests(tests, make_pools, end_pools);
}
