/* Gradients of contractions and reductions by the CPU backend against plain loops. */
#include "cpu_cases.h"

/* The positional tree: sums of blocks of 512, then the same over the sums. */
static double tree(double *x, int64_t count, bool narrow)
{
    do {
        int64_t blocks = 0;
        for (int64_t first = 0; first < count || blocks == 0; first += 512) {
            double sum = 0;
            for (int64_t i = first; i < first + 512 && i < count; i++) {
                sum = narrow ? (double)((float)sum + (float)x[i]) : sum + x[i];
            }
            x[blocks++] = sum;
        }
        count = blocks;
    } while (count > 1);
    return x[0];
}

static double cotangent(const tensor *t, int64_t at, bool narrow)
{
    return narrow ? ((const float *)t->data)[at] : ((const double *)t->data)[at];
}
static void fill_cotangent(tensor *t, bool narrow)
{
    for (int64_t i = 0; i < t->count; i++) {
        const double x = ts_random_unit(&generator) * 2 - 1;
        if (narrow) {
            ((float *)(void *)t->block)[i] = (float)x;
        } else {
            ((double *)(void *)t->block)[i] = x;
        }
    }
}
static double plain_number(tensum_dtype dtype, const void *data, int64_t at)
{
    switch (dtype) {
    case TENSUM_I16: return ((const int16_t *)data)[at];
    case TENSUM_I32: return ((const int32_t *)data)[at];
    case TENSUM_I64: return (double)((const int64_t *)data)[at];
    case TENSUM_BOOL: return ((const uint8_t *)data)[at];
    default: return as_number(dtype, (const uint8_t *)data + at * (int64_t)tensum_dtype_bytes(dtype), 0);
    }
}

static void put_number(tensum_dtype dtype, void *data, int64_t at, double x)
{
    switch (dtype) {
    case TENSUM_F16: ((uint16_t *)data)[at] = ts_store_f16((float)x); break;
    case TENSUM_BF16: ((uint16_t *)data)[at] = ts_store_bf16((float)x); break;
    case TENSUM_F32: ((float *)data)[at] = (float)x; break;
    default: ((double *)data)[at] = x; break;
    }
}

/* c = log of the sums that it stands for; some factors become 0, so that whole sums do. */
static void fill_log_sums(tensum_dtype dtype, const ts_mode *modes, const int32_t counts[4], const int64_t sizes[4], tensor *a,
                          tensor *b, tensor *c)
{
    const int32_t first[4] = {0, counts[0], counts[0] + counts[1], counts[0] + counts[1] + counts[2]};
#define AT(class, field, position) offset_of(modes + first[class], counts[class], offsetof(ts_mode, field), position)
    for (int64_t n = 0; n < sizes[0]; n++) {
        for (int64_t k = 0; k < sizes[3]; k++) {
            put_number(dtype, a->data, AT(0, a, n) + AT(1, a, sizes[1] / 2) + AT(3, a, k), -(double)INFINITY);
        }
        for (int64_t l = 0; l < sizes[1]; l++) {
            for (int64_t r = 0; r < sizes[2]; r++) {
                double high = -(double)INFINITY, sum = 0, term[64];
                for (int64_t k = 0; k < sizes[3]; k++) {
                    term[k] = plain_number(dtype, a->data, AT(0, a, n) + AT(1, a, l) + AT(3, a, k)) +
                               plain_number(dtype, b->data, AT(0, b, n) + AT(2, b, r) + AT(3, b, k));
                    high = term[k] > high ? term[k] : high;
                }
                for (int64_t k = 0; k < sizes[3] && isfinite(high); k++) {
                    sum += exp(term[k] - high);
                }
                put_number(dtype, c->data, AT(0, c, n) + AT(1, c, l) + AT(2, c, r), isfinite(high) ? high + log(sum) : high);
            }
        }
    }
#undef AT
}

/* What a winner gets of its result's cotangent: here and other are the two factors. */
static double contribution(tensum_semiring s, double weight, double here, double other, bool tie_here, bool narrow)
{
    if (s == TENSUM_MAX_TIMES || s == TENSUM_MIN_TIMES) {
        return narrow ? (double)(float)(weight * other) : weight * other;
    }
    if (s != TENSUM_MAX_MIN && s != TENSUM_MIN_MAX) {
        return weight;
    }
    if (isnan(here) != isnan(other)) {
        return isnan(here) ? weight : 0.0;
    }
    const bool tie = isnan(here) || here == other;
    return (tie ? tie_here : s == TENSUM_MAX_MIN ? here < other : here > other) ? weight : 0.0;
}

/* from is added to `to` and cleared. */
static void add_sums(double *to, double *from, int64_t count, bool narrow)
{
    for (int64_t i = 0; i < count; i++) {
        to[i] = narrow ? (double)((float)to[i] + (float)from[i]) : to[i] + from[i];
        from[i] = 0;
    }
}

/* Extents at the edges of groups of rows, blocks of positions and what is kept of a sum. */
static void grouped_sizes(int side, int64_t sizes[4])
{
    static const int64_t rows[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 50}, others[] = {1, 2, 16, 17, 511, 512, 513, 1024, 1025, 1100};
    static const int64_t sums[] = {1, 2, 3, 16, 63, 255, 512, 513, 1024, 1025, 2048, 2049, 2500};
    sizes[0] = 1 + below(2);
    sizes[1 + side] = rows[below(10)];
    sizes[2 - side] = others[below(10)];
    sizes[3] = sums[below(13)];
    if (below(40) == 0) { /* blocks of blocks */
        sizes[0] = 1;
        sizes[1 + side] = 1 + below(3);
        sizes[2 - side] = 262144 + below(2000);
        sizes[3] = 1 + below(3);
    }
}

/* grouped: of sizes that rows go in groups for. */
static void contraction_adjoint(ts_algebra algebra, bool grouped)
{
    const bool selective = tensum_semiring_selective(algebra.semiring) != 0, shares = algebra.semiring == TENSUM_LOG_SUM_EXP;
    if (!selective && !shares) {
        return;
    }
    const bool narrow = tensum_dtype_bytes(tensum_dtype_gradient(algebra.dtype)) == 4;
    const tensum_semiring s = algebra.semiring;
    ts_mode modes[32] = {{0}};
    int32_t counts[4], total = 0;
    int64_t sizes[4] = {1 + below(3), 1 + below(30), 1 + below(30), 1 + below(20)};
    const int side = (int)below(2);
    if (below(3) == 0) {
        sizes[2 - side] = selective && below(12) == 0 ? 262144 + below(2000) : 500 + below(1200);
        sizes[1 + side] = 1 + below(3);
        sizes[0] = 1;
        sizes[3] = below(3) == 0 && sizes[2 - side] < 2000 ? 600 : 1 + below(5);
    }
    if (grouped) {
        grouped_sizes(side, sizes);
    }
    const bool panels = shares && below(4) == 0; /* exponentials by panels, of which several per task and several tasks */
    if (panels) {
        sizes[0] = 1 + below(2);
        sizes[2 - side] = below(2) == 0 ? 24 + below(30) : 500 + below(40);
        sizes[1 + side] = below(2) == 0 ? 24 + below(30) : 180 + below(30);
        sizes[3] = 24 + below(30);
    }
    bool has[4][32] = {{false}}; /* a, b, c, w and g like c, d */
    for (int class = 0; class < 4; class++) {
        counts[class] = split(sizes[class], modes + total);
        for (int32_t m = total; m < total + counts[class]; m++) {
            has[0][m] = class != 2;
            has[1][m] = class != 1;
            has[2][m] = class != 3;
            has[3][m] = has[side][m];
        }
        total += counts[class];
    }
    const ts_adjoint_spec spec = {
        .algebra = algebra, .batch_count = counts[0], .left_count = counts[1], .right_count = counts[2],
        .sum_count = counts[3], .modes = modes, .batch = sizes[0], .left = sizes[1], .right = sizes[2], .sum = sizes[3],
        .side = side, .tie_here = below(2) == 0, .accumulate = below(3) == 0, .winner_bytes = shares ? 0 : below(2) == 0 ? 4 : 8,
    };
    const size_t element = tensum_dtype_bytes(algebra.dtype), cotangent_bytes = narrow ? 4 : 8;
    tensor a = make_tensor(modes, has[0], total, offsetof(ts_mode, a), true, element);
    tensor b = make_tensor(modes, has[1], total, offsetof(ts_mode, b), true, element);
    tensor c = make_tensor(modes, has[2], total, offsetof(ts_mode, c), false, element);
    tensor w = make_tensor(modes, has[2], total, offsetof(ts_mode, w), false, shares ? 1 : spec.winner_bytes);
    tensor g = make_tensor(modes, has[2], total, offsetof(ts_mode, g), true, cotangent_bytes);
    tensor d = make_tensor(modes, has[3], total, offsetof(ts_mode, d), false, cotangent_bytes);
    tensor old = d;
    const int spread = panels && below(3) != 0    ? SPECIAL_WIDE /* weights out of any range, too */
                       : selective && below(2) == 0 ? SPECIAL_NAN
                                                    : SPECIAL_TIES;
    fill_random(&a, algebra, spread);
    fill_random(&b, algebra, spread);
    fill_random(&c, algebra, SPECIAL_NONE); /* any value does for the check of the formula */
    fill_cotangent(&g, narrow);
    fill_cotangent(&d, narrow);
    if (panels) {
        fill_log_sums(algebra.dtype, modes, counts, sizes, &a, &b, &c);
    }
    if (!shares) {
        for (int64_t i = 0; i < w.count; i++) {
            const int64_t winner = below(50) == 0 ? -1 : below(sizes[3]);
            if (spec.winner_bytes == 4) {
                ((int32_t *)(void *)w.block)[i] = (int32_t)winner;
            } else {
                ((int64_t *)(void *)w.block)[i] = winner;
            }
        }
    }
    assert_int_equal(ts_allocate((size_t)d.count, cotangent_bytes, "test", &old.block), TENSUM_OK);
    memcpy(old.block, d.block, (size_t)d.count * cotangent_bytes);
    old.data = old.block + ((uint8_t *)d.data - d.block);
    ts_pool *pool = random_pool();
    ts_run run = make_run(ts_cpu_adjoint_scratch(&spec, ts_pool_threads(pool)), pool);
    EXPECT(ts_cpu_adjoint(&spec, a.data, b.data, c.data, shares ? NULL : w.data, g.data, d.data, &run) == TENSUM_OK, "%s",
           tensum_last_error());

    const int32_t first[4] = {0, counts[0], counts[0] + counts[1], counts[0] + counts[1] + counts[2]};
    const int64_t others = sizes[2 - side];
    double *x = NULL, *levels = NULL; /* levels: sums of a block of positions, of a block of blocks, and of those */
    assert_int_equal(ts_allocate((size_t)others + 1, sizeof *x, "test", &x), TENSUM_OK);
    assert_int_equal(ts_allocate((size_t)sizes[3] * 3, sizeof *levels, "test", &levels), TENSUM_OK);
    double *blocks = levels + sizes[3], *sums = blocks + sizes[3];
#define AT(class, field, position) offset_of(modes + first[class], counts[class], offsetof(ts_mode, field), position)
    for (int64_t n = 0; n < sizes[0]; n++) {
        for (int64_t h = 0; h < sizes[1 + side]; h++) {
            memset(levels, 0, (size_t)sizes[3] * 3 * sizeof *levels);
            for (int64_t o = 0; selective && o < others; o++) {
                const int64_t l = side == 0 ? h : o, r = side == 0 ? o : h;
                const int64_t at = AT(0, w, n) + AT(1, w, l) + AT(2, w, r);
                const int64_t k = spec.winner_bytes == 4 ? ((const int32_t *)w.data)[at] : ((const int64_t *)w.data)[at];
                if (k >= 0) {
                    const double weight = cotangent(&g, AT(0, g, n) + AT(1, g, l) + AT(2, g, r), narrow);
                    const double from_a = plain_number(algebra.dtype, a.data, AT(0, a, n) + AT(1, a, l) + AT(3, a, k));
                    const double from_b = plain_number(algebra.dtype, b.data, AT(0, b, n) + AT(2, b, r) + AT(3, b, k));
                    double term = contribution(s, weight, side == 0 ? from_a : from_b, side == 0 ? from_b : from_a, spec.tie_here,
                                               narrow);
                    add_sums(&levels[k], &term, 1, narrow);
                }
                if (o % 512 == 511) {
                    add_sums(blocks, levels, sizes[3], narrow);
                }
                if (o % 262144 == 262143) {
                    add_sums(sums, blocks, sizes[3], narrow);
                }
            }
            add_sums(blocks, levels, sizes[3], narrow);
            add_sums(sums, blocks, sizes[3], narrow);
            for (int64_t k = 0; k < sizes[3]; k++) {
                double bound = 1e-30;
                for (int64_t o = 0; shares && o < others; o++) {
                    const int64_t l = side == 0 ? h : o, r = side == 0 ? o : h;
                    const double weight = cotangent(&g, AT(0, g, n) + AT(1, g, l) + AT(2, g, r), narrow);
                    const double from_a = plain_number(algebra.dtype, a.data, AT(0, a, n) + AT(1, a, l) + AT(3, a, k));
                    const double from_b = plain_number(algebra.dtype, b.data, AT(0, b, n) + AT(2, b, r) + AT(3, b, k));
                    const double from_c = plain_number(algebra.dtype, c.data, AT(0, c, n) + AT(1, c, l) + AT(2, c, r));
                    x[o] = isinf(from_c) ? 0.0 : weight * exp(from_a + from_b - from_c);
                    bound += x[o] == 0 ? 0 : fabs(x[o]) * (1 + fabs(from_a) + fabs(from_b)); /* exponents are rounded */
                }
                const double sum = shares ? tree(x, others, false) : sums[k];
                const int64_t at = AT(0, d, n) + (side == 0 ? AT(1, d, h) : AT(2, d, h)) + AT(3, d, k);
                double expected = sum, was = cotangent(&old, at, narrow), got = cotangent(&d, at, narrow);
                if (spec.accumulate) {
                    expected = narrow ? (double)((float)was + (float)sum) : was + sum;
                }
                EXPECT(shares ? fabs(got - expected) <= (narrow ? 1e-6 : 1e-14) * (bound + fabs(expected))
                              : (got == expected && signbit(got) == signbit(expected)) || (isnan(got) && isnan(expected)),
                       "%s %s adjoint side %d [%lld %lld %lld %lld]: d[%lld,%lld,%lld] is %.17g, expected %.17g",
                       tensum_semiring_name(s), tensum_dtype_name(algebra.dtype), side, (long long)sizes[0], (long long)sizes[1],
                       (long long)sizes[2], (long long)sizes[3], (long long)n, (long long)h, (long long)k, got, expected);
            }
        }
    }
    ts_free(x);
    ts_free(levels);
    ts_free(old.block);
    ts_free(run.scratch);
    ts_free(a.block);
    ts_free(b.block);
    ts_free(c.block);
    ts_free(w.block);
    ts_free(g.block);
    ts_free(d.block);
}

static void adjoint_case(ts_algebra algebra) { contraction_adjoint(algebra, false); }

static void reduce_adjoint_case(ts_algebra algebra)
{
    const bool selective = tensum_semiring_selective(algebra.semiring) != 0, shares = algebra.semiring == TENSUM_LOG_SUM_EXP;
    if (!selective && !shares) {
        return;
    }
    const bool narrow = tensum_dtype_bytes(tensum_dtype_gradient(algebra.dtype)) == 4;
    ts_mode modes[32] = {{0}}, own[32], wide[32];
    int32_t own_count = 0, wide_count = 0;
    bool has[3][32] = {{false}};
    int64_t sizes[2] = {1 + below(60), 1 + below(40)}, wide_size = 1, own_size = 1;
    if (below(3) == 0) {
        sizes[0] = 512 * (1 + below(3)) * (1 + below(2)) * 5;
        sizes[1] = 1 + below(3);
    }
    const int32_t kept = split(sizes[0], modes), sum = split(sizes[1], modes + kept);
    for (int32_t m = 0; m < kept + sum; m++) {
        has[0][m] = m >= kept || below(3) != 0; /* a and d */
        has[1][m] = m < kept;                   /* c, w, g */
    }
    const size_t element = tensum_dtype_bytes(algebra.dtype), cotangent_bytes = narrow ? 4 : 8;
    tensor a = make_tensor(modes, has[0], kept + sum, offsetof(ts_mode, a), false, element);
    tensor d = make_tensor(modes, has[0], kept + sum, offsetof(ts_mode, d), false, cotangent_bytes);
    tensor c = make_tensor(modes, has[1], kept, offsetof(ts_mode, c), false, element);
    tensor g = make_tensor(modes, has[1], kept, offsetof(ts_mode, g), true, cotangent_bytes);
    tensor w = make_tensor(modes, has[1], kept, offsetof(ts_mode, w), false, 4);
    const ts_reduce_adjoint_spec spec = {
        .algebra = algebra, .kept_count = kept, .sum_count = sum, .modes = modes, .kept = sizes[0], .sum = sizes[1],
        .accumulate = below(3) == 0, .winner_bytes = shares ? 0 : 4,
    };
    fill_random(&a, algebra, SPECIAL_TIES);
    fill_random(&c, algebra, SPECIAL_NONE);
    fill_cotangent(&g, narrow);
    fill_cotangent(&d, narrow);
    for (int64_t i = 0; i < w.count; i++) {
        ((int32_t *)(void *)w.block)[i] = (int32_t)(below(30) == 0 ? -1 : below(sizes[1]));
    }
    tensor old = d;
    assert_int_equal(ts_allocate((size_t)d.count, cotangent_bytes, "test", &old.block), TENSUM_OK);
    memcpy(old.block, d.block, (size_t)d.count * cotangent_bytes);
    old.data = old.block + ((uint8_t *)d.data - d.block);
    ts_run run = {.pool = random_pool()};
    EXPECT(ts_cpu_reduce_adjoint(&spec, a.data, c.data, shares ? NULL : w.data, g.data, d.data, &run) == TENSUM_OK, "%s",
           tensum_last_error());
    for (int32_t m = 0; m < kept; m++) {
        if (has[0][m] || modes[m].extent == 1) {
            own[own_count++] = modes[m];
            own_size *= modes[m].extent;
        } else {
            wide[wide_count++] = modes[m];
            wide_size *= modes[m].extent;
        }
    }
    double *x = NULL;
    assert_int_equal(ts_allocate((size_t)wide_size + 1, sizeof *x, "test", &x), TENSUM_OK);
#define BOTH(field, n, o)     (offset_of(own, own_count, offsetof(ts_mode, field), n) + offset_of(wide, wide_count, offsetof(ts_mode, field), o))
    for (int64_t n = 0; n < own_size; n++) {
        for (int64_t k = 0; k < sizes[1]; k++) {
            double bound = 1e-30;
            for (int64_t o = 0; o < wide_size; o++) {
                const double weight = cotangent(&g, BOTH(g, n, o), narrow);
                if (shares) {
                    const double from_a = plain_number(algebra.dtype, a.data, BOTH(a, n, o) +
                                                       offset_of(modes + kept, sum, offsetof(ts_mode, a), k));
                    x[o] = weight * exp(from_a - plain_number(algebra.dtype, c.data, BOTH(c, n, o)));
                    bound += fabs(x[o]);
                } else {
                    x[o] = ((const int32_t *)w.data)[BOTH(w, n, o)] == k ? weight : 0.0;
                }
            }
            const double total = tree(x, wide_size, narrow && !shares);
            const int64_t at = BOTH(d, n, 0) + offset_of(modes + kept, sum, offsetof(ts_mode, d), k);
            const double was = cotangent(&old, at, narrow), got = cotangent(&d, at, narrow);
            double expected = total;
            if (spec.accumulate) {
                expected = narrow ? (double)((float)was + (float)total) : was + total;
            }
            EXPECT(shares ? fabs(got - expected) <= (narrow ? 1e-5 : 1e-14) * (bound + fabs(expected)) : got == expected,
                   "%s %s reduce adjoint [%lld x %lld, %lld]: d[%lld,%lld] is %.17g, expected %.17g",
                   tensum_semiring_name(algebra.semiring), tensum_dtype_name(algebra.dtype), (long long)own_size,
                   (long long)wide_size, (long long)sizes[1], (long long)n, (long long)k, got, expected);
        }
    }
    ts_free(x);
    ts_free(old.block);
    ts_free(a.block);
    ts_free(c.block);
    ts_free(d.block);
    ts_free(g.block);
    ts_free(w.block);
}

static void adjoints(void **state)
{
    (void)state;
    for_all_pairs(adjoint_case);
}
/* The semirings and dtypes whose rows go in groups, each with layouts of its own. */
static void groups_of_rows(void **state)
{
    static const ts_algebra algebras[] = {
        {TENSUM_MAX_PLUS, TENSUM_F32, 0}, {TENSUM_MIN_PLUS, TENSUM_F64, 0}, {TENSUM_MAX_PLUS, TENSUM_I32, 0},
        {TENSUM_MAX_TIMES, TENSUM_F32, 0}, {TENSUM_MIN_TIMES, TENSUM_F64, 0}, {TENSUM_MAX_TIMES, TENSUM_BF16, 0},
        {TENSUM_MAX_MIN, TENSUM_F32, 0}, {TENSUM_MAX_MIN, TENSUM_F64, 0}, {TENSUM_MIN_MAX, TENSUM_F32, 0},
        {TENSUM_MIN_MAX, TENSUM_F64, 0}, {TENSUM_MAX_MIN, TENSUM_F16, 0},
    };
    const int count = (int)(sizeof algebras / sizeof *algebras), rounds = 3 * cases_per_pair();
    (void)state;
    for (int i = 0; i < rounds * count; i++) {
        case_seed = (uint64_t)i;
        ts_random_seed(&generator, case_seed);
        contraction_adjoint(algebras[i % count], true);
    }
}

static void reduction_adjoints(void **state)
{
    (void)state;
    for_all_pairs(reduce_adjoint_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(adjoints), cmocka_unit_test(groups_of_rows), cmocka_unit_test(reduction_adjoints)};
    return cmocka_run_group_tests(tests, make_pools, end_pools);
}
