/* The CPU backend's step slots against loops written straight from the meaning (algebra/element.h), over random
 * specs: sizes around tile and panel edges, any strides (negative, zero, padded, permuted), ties, infinities, NaN,
 * winners, accumulation, threads. Environment TENSUM_TEST_SEED repeats a run; TENSUM_CPU_ISA chooses the kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "algebra/element.h"
#include "backend/cpu/cpu.h"

/* The dtype's name is pasted into names of functions, so it must not be a macro here. */
#undef bool
typedef _Bool bool;

/* ---- one pair by plain loops ---- */

typedef struct terms {
    const void *a, *b; /* b NULL: a reduction */
    const int64_t *a_at, *b_at;
    int64_t count;
    bool conjugate_a, conjugate_b;
    int64_t modulus;
} terms;

#define CONJUGATE_c64(flag, x) ((flag) ? ts_conjugate_c64(x) : (x))
#define CONJUGATE_c128(flag, x) ((flag) ? ts_conjugate_c128(x) : (x))
#define CONJUGATE_f16(flag, x) ((void)(flag), (x))
#define CONJUGATE_bf16 CONJUGATE_f16
#define CONJUGATE_f32 CONJUGATE_f16
#define CONJUGATE_f64 CONJUGATE_f16
#define CONJUGATE_i16 CONJUGATE_f16
#define CONJUGATE_i32 CONJUGATE_f16
#define CONJUGATE_i64 CONJUGATE_f16
#define CONJUGATE_bool CONJUGATE_f16
#define CONJUGATE_vc64 CONJUGATE_f16
#define CONJUGATE_vc128 CONJUGATE_f16
#define BETTER_0(add, d, x, best) (0)
#define BETTER_1(add, d, x, best) ts_better_##add##_##d(x, best)
#define IS_ZERO_0(add, mul, d, x) (0)
#define IS_ZERO_1(add, mul, d, x) ((x) == ts_zero_##add##_##mul##_##d())
#define ROUND_0(d, x) (x)
#define ROUND_1(d, x) ts_round_##d(x)

#define TS_PAIR(s, add, mul, sel, d)                                                                               \
    static int64_t plain_##s##_##d(const terms *t, bool accumulate, void *c)                                       \
    {                                                                                                              \
        ts_c_##d best = ts_zero_##add##_##mul##_##d();                                                             \
        int64_t winner = t->count > 0 ? 0 : -1;                                                                    \
        for (int64_t k = 0; k < t->count; k++) {                                                                   \
            ts_c_##d x = CONJUGATE_##d(t->conjugate_a, ts_load_##d(((const ts_s_##d *)t->a)[t->a_at[k]]));         \
            if (t->b != NULL) {                                                                                    \
                ts_c_##d y = CONJUGATE_##d(t->conjugate_b, ts_load_##d(((const ts_s_##d *)t->b)[t->b_at[k]]));     \
                x = ROUND_##sel(d, ts_##mul##_##d(x, y, t->modulus));                                              \
            }                                                                                                      \
            if (k == 0) {                                                                                          \
                best = x;                                                                                          \
            } else if (sel) {                                                                                      \
                if (BETTER_##sel(add, d, x, best)) {                                                               \
                    best = x;                                                                                      \
                    winner = k;                                                                                    \
                }                                                                                                  \
            } else {                                                                                               \
                best = ts_add_##add##_##d(best, x, t->modulus);                                                    \
            }                                                                                                      \
        }                                                                                                          \
        best = ts_finish_##add##_##mul##_##d(best);                                                                \
        if (sel && t->count > 0 && IS_ZERO_##sel(add, mul, d, best)) {                                             \
            winner = 0;                                                                                            \
        }                                                                                                          \
        if (accumulate) {                                                                                          \
            best = ts_finish_##add##_##mul##_##d(                                                                  \
                ts_add_##add##_##d(ts_load_##d(*(const ts_s_##d *)c), best, t->modulus));                          \
        }                                                                                                          \
        *(ts_s_##d *)c = ts_store_##d(best);                                                                       \
        return winner;                                                                                             \
    }
#include "algebra/pairs.def"

enum {
#define TENSUM_DTYPE(ID, name, bytes, gradient, summary) NUMBER_OF_##name = TENSUM_##ID,
#include <tensum/dtypes.def>
#undef TENSUM_DTYPE
    NUMBER_OF_NONE = -1
};
typedef int64_t (*plain)(const terms *, bool, void *);
#define TENSUM_SEMIRING(ID, name, alias, add, mul, dtypes, selective, summary) \
    [TENSUM_##ID] = {TS_DTYPES_##dtypes(name, add, mul, selective)},
#define TS_PAIR(s, add, mul, sel, d) [NUMBER_OF_##d] = plain_##s##_##d,
static const plain plains[TENSUM_SEMIRING_COUNT][TENSUM_DTYPE_COUNT] = {
#include <tensum/semirings.def>
};
#undef TENSUM_SEMIRING
#undef TS_PAIR

/* ---- random operands ---- */

static ts_random generator;
static int64_t below(int64_t bound) { return (int64_t)ts_random_below(&generator, (uint64_t)bound); }

enum { SPECIAL_NONE, SPECIAL_TIES, SPECIAL_INFINITE, SPECIAL_NAN, SPECIAL_WIDE };

static double random_number(tensum_semiring semiring, int special)
{
    const bool times = semiring == TENSUM_MAX_TIMES || semiring == TENSUM_MIN_TIMES;
    if ((special == SPECIAL_INFINITE || special == SPECIAL_NAN) && below(40) == 0) {
        static const double values[] = {-HUGE_VAL, HUGE_VAL, 0.0, -0.0, HUGE_VAL - HUGE_VAL};
        double value = values[below(special == SPECIAL_NAN ? 5 : 4)];
        return times && value < 0 ? HUGE_VAL : value;
    }
    if (special == SPECIAL_TIES) {
        return (double)(below(4) + (times ? 0 : -2));
    }
    double value = ts_random_unit(&generator) * 4 - (times ? 0 : 2);
    return special == SPECIAL_WIDE ? value * 100 : value;
}

static void random_element(ts_algebra algebra, int special, void *element)
{
    const tensum_semiring s = algebra.semiring;
    const double x = random_number(s, special);
    const bool tropical = s == TENSUM_MAX_PLUS || s == TENSUM_MIN_PLUS, times = s == TENSUM_MAX_TIMES;
    const bool zero = special == SPECIAL_INFINITE && tropical && below(3) == 0;
    const int sign = s == TENSUM_MAX_PLUS ? -1 : 1;
    switch (algebra.dtype) {
    case TENSUM_F16: *(uint16_t *)element = ts_store_f16((float)x); break;
    case TENSUM_BF16: *(uint16_t *)element = ts_store_bf16((float)x); break;
    case TENSUM_F32: *(float *)element = (float)x; break;
    case TENSUM_F64: *(double *)element = x; break;
    case TENSUM_C64: *(ts_c64 *)element = (ts_c64){(float)random_number(s, 0), (float)random_number(s, 0)}; break;
    case TENSUM_C128: *(ts_c128 *)element = (ts_c128){random_number(s, 0), random_number(s, 0)}; break;
    case TENSUM_I16: {
        int64_t range = special == SPECIAL_TIES ? 3 : tropical ? TS_TROPICAL_R_i16 : 32000;
        *(int16_t *)element = (int16_t)(zero ? sign * TS_TROPICAL_Z_i16 : times ? below(range) : below(2 * range + 1) - range);
        break;
    }
    case TENSUM_I32: {
        int64_t range = special == SPECIAL_TIES ? 3 : tropical ? TS_TROPICAL_R_i32 : INT32_MAX;
        *(int32_t *)element = (int32_t)(zero ? sign * TS_TROPICAL_Z_i32 : times ? below(range) : below(2 * range + 1) - range);
        break;
    }
    case TENSUM_I64: {
        int64_t range = special == SPECIAL_TIES ? 3 : tropical ? TS_TROPICAL_R_i64 : special == SPECIAL_WIDE ? INT64_C(1) << 60 : 100000;
        int64_t value = zero ? sign * TS_TROPICAL_Z_i64 : times ? below(range) : below(2 * range + 1) - range;
        *(int64_t *)element = s == TENSUM_SUM_PRODUCT_MOD ? below(algebra.modulus) : value;
        break;
    }
    case TENSUM_BOOL: *(uint8_t *)element = below(special == SPECIAL_TIES ? 2 : 20) == 0; break;
    case TENSUM_VC64: *(ts_vc64 *)element = (ts_vc64){(float)(int)x, (float)below(3)}; break;
    case TENSUM_VC128: *(ts_vc128 *)element = (ts_vc128){special == SPECIAL_INFINITE ? x : (double)(int)x, (double)below(3)}; break;
    default: break;
    }
}

/* A tensor over some of the modes: random memory order, padding, signs; zero strides where allowed. */
typedef struct tensor {
    uint8_t *block;
    void *data;
    int64_t count;
    size_t element;
} tensor;

static tensor make_tensor(ts_mode *modes, const bool *has, int32_t count, size_t stride_at, bool zero_strides, size_t element)
{
    int32_t order[64], used = 0;
    int64_t span = 1, first = 0;
    const int layout = (int)below(4);
    for (int32_t m = 0; m < count; m++) {
        if (has[m]) {
            order[used++] = m;
        }
    }
    for (int32_t i = used - 1; i > 0 && layout != 0; i--) {
        int32_t j = (int32_t)below(i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (int32_t i = used - 1; i >= 0; i--) {
        ts_mode *mode = &modes[order[i]];
        int64_t *stride = (int64_t *)(void *)((uint8_t *)mode + stride_at);
        if (zero_strides && below(12) == 0) {
            *stride = 0;
            continue;
        }
        *stride = span;
        span *= ts_max64(1, mode->extent);
        if (layout == 3) {
            span += below(3);
        }
        if (layout == 2 && below(3) == 0) {
            first += *stride * (mode->extent - 1);
            *stride = -*stride;
        }
    }
    tensor t = {.count = span + 8, .element = element};
    assert_int_equal(ts_allocate((size_t)t.count, element, "test", &t.block), TENSUM_OK);
    memset(t.block, 0x5a, (size_t)t.count * element);
    t.data = t.block + (size_t)ts_max64(0, first) * element;
    return t;
}

static void fill_random(tensor *t, ts_algebra algebra, int special)
{
    for (int64_t i = 0; i < t->count; i++) {
        random_element(algebra, special, t->block + (size_t)i * t->element);
    }
}

static ts_pool *pools[3];
static ts_pool *random_pool(void) { return pools[below(3)]; }

static ts_run make_run(size_t bytes)
{
    ts_run run = {.pool = NULL, .scratch = NULL, .scratch_bytes = bytes};
    if (bytes > 0) {
        assert_int_equal(ts_allocate_aligned(bytes, "scratch", &run.scratch), TENSUM_OK);
        memset(run.scratch, 0xff, bytes);
    }
    return run;
}

/* Offset of one position: one at a time, not the backend's way. */
static int64_t offset_of(const ts_mode *modes, int32_t count, size_t stride_at, int64_t position)
{
    int64_t offset = 0;
    for (int32_t m = count - 1; m >= 0; m--) {
        offset += position % modes[m].extent * *(const int64_t *)(const void *)((const uint8_t *)&modes[m] + stride_at);
        position /= modes[m].extent;
    }
    return offset;
}

/* Split `size` into modes; returns their number. */
static int32_t split(int64_t size, ts_mode *modes)
{
    int32_t count = 0;
    while (size > 1 && count < 3 && below(3) != 0) {
        int64_t factor = 2 + below(5);
        if (size % factor == 0) {
            modes[count++].extent = factor;
            size /= factor;
        } else {
            break;
        }
    }
    if (size != 1 || below(2) == 0) {
        modes[count++].extent = size;
    }
    return count;
}

/* Equal bits, or NaN both; sums within `tolerance` units times `scale`. */
static double as_number(tensum_dtype dtype, const void *x, int part)
{
    switch (dtype) {
    case TENSUM_F16: return ts_load_f16(*(const uint16_t *)x);
    case TENSUM_BF16: return ts_load_bf16(*(const uint16_t *)x);
    case TENSUM_F32: return *(const float *)x;
    case TENSUM_F64: return *(const double *)x;
    case TENSUM_C64:
    case TENSUM_VC64: return ((const float *)x)[part];
    case TENSUM_C128:
    case TENSUM_VC128: return ((const double *)x)[part];
    default: return 0;
    }
}
static bool same(ts_algebra algebra, const void *x, const void *y, double scale)
{
    const size_t bytes = tensum_dtype_bytes(algebra.dtype);
    if (memcmp(x, y, bytes) == 0) {
        return true;
    }
    double epsilon = 0;
    switch (algebra.dtype) {
    case TENSUM_F16: epsilon = 1.0 / 1024; break;
    case TENSUM_BF16: epsilon = 1.0 / 128; break;
    case TENSUM_F32:
    case TENSUM_C64:
    case TENSUM_VC64: epsilon = 1.2e-7; break;
    case TENSUM_F64:
    case TENSUM_C128:
    case TENSUM_VC128: epsilon = 2.3e-16; break;
    default: return false;
    }
    const bool exact = tensum_semiring_selective(algebra.semiring) || algebra.semiring == TENSUM_MAX_PLUS_COUNT;
    for (int part = 0; part < (algebra.dtype >= TENSUM_C64 ? 2 : 1); part++) {
        double u = as_number(algebra.dtype, x, part), v = as_number(algebra.dtype, y, part);
        if (!(u == v && signbit(u) == signbit(v)) && !(u != u && v != v) &&
            (exact || !(fabs(u - v) <= epsilon * scale * 4))) {
            return false;
        }
        if (algebra.dtype <= TENSUM_F64) {
            break;
        }
    }
    return true;
}

static uint64_t case_seed;
#define EXPECT(condition, ...)                                                                    \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            printf("seed %llu, %s: ", (unsigned long long)case_seed, ts_cpu_isa_name());          \
            printf(__VA_ARGS__);                                                                  \
            printf("\n");                                                                         \
            fail();                                                                               \
        }                                                                                         \
    } while (0)

static const int64_t edges[] = {1, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 15, 16, 17, 24, 25, 31, 32, 33, 47, 48, 63, 64, 65, 95, 97, 129, 200, 257, 300};
static int64_t edge(void) { return edges[below((int64_t)(sizeof edges / sizeof *edges))]; }

static void contract_case(ts_algebra algebra)
{
    ts_mode modes[32] = {{0}};
    int32_t counts[4];
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

    ts_run run = make_run(ts_cpu_contract_scratch(&spec, 3));
    run.pool = random_pool();
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
    ts_run run = make_run(ts_cpu_reduce_scratch(&spec, 3));
    run.pool = random_pool();
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

/* ---- gradients ---- */

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

static void adjoint_case(ts_algebra algebra)
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
    const int spread = panels && below(3) != 0 ? SPECIAL_WIDE : SPECIAL_TIES; /* wide: weights out of any range, too */
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
    ts_run run = make_run(ts_cpu_adjoint_scratch(&spec, 3));
    run.pool = random_pool();
    EXPECT(ts_cpu_adjoint(&spec, a.data, b.data, c.data, shares ? NULL : w.data, g.data, d.data, &run) == TENSUM_OK, "%s",
           tensum_last_error());

    const int32_t first[4] = {0, counts[0], counts[0] + counts[1], counts[0] + counts[1] + counts[2]};
    const int64_t others = sizes[2 - side];
    double *x = NULL;
    assert_int_equal(ts_allocate((size_t)others + 1, sizeof *x, "test", &x), TENSUM_OK);
#define AT(class, field, position) offset_of(modes + first[class], counts[class], offsetof(ts_mode, field), position)
    for (int64_t n = 0; n < sizes[0]; n++) {
        for (int64_t h = 0; h < sizes[1 + side]; h++) {
            for (int64_t k = 0; k < sizes[3]; k++) {
                double bound = 1e-30;
                for (int64_t o = 0; o < others; o++) {
                    const int64_t l = side == 0 ? h : o, r = side == 0 ? o : h;
                    const double weight = cotangent(&g, AT(0, g, n) + AT(1, g, l) + AT(2, g, r), narrow);
                    const double from_a = plain_number(algebra.dtype, a.data, AT(0, a, n) + AT(1, a, l) + AT(3, a, k));
                    const double from_b = plain_number(algebra.dtype, b.data, AT(0, b, n) + AT(2, b, r) + AT(3, b, k));
                    if (shares) {
                        const double from_c = plain_number(algebra.dtype, c.data, AT(0, c, n) + AT(1, c, l) + AT(2, c, r));
                        x[o] = isinf(from_c) ? 0.0 : weight * exp(from_a + from_b - from_c);
                        bound += x[o] == 0 ? 0 : fabs(x[o]) * (1 + fabs(from_a) + fabs(from_b)); /* exponents are rounded */
                        continue;
                    }
                    const int64_t at = AT(0, w, n) + AT(1, w, l) + AT(2, w, r);
                    const int64_t winner = spec.winner_bytes == 4 ? ((const int32_t *)w.data)[at] : ((const int64_t *)w.data)[at];
                    const double here = side == 0 ? from_a : from_b, other = side == 0 ? from_b : from_a;
                    x[o] = winner == k ? weight : 0.0;
                    if (s == TENSUM_MAX_TIMES || s == TENSUM_MIN_TIMES) {
                        x[o] = winner != k ? 0.0 : narrow ? (double)(float)(weight * other) : weight * other;
                    } else if (s == TENSUM_MAX_MIN || s == TENSUM_MIN_MAX) {
                        const bool attains = here == other ? spec.tie_here : s == TENSUM_MAX_MIN ? here < other : here > other;
                        x[o] = attains ? x[o] : 0.0;
                    }
                }
                const double sum = tree(x, others, narrow && !shares);
                const int64_t at = AT(0, d, n) + (side == 0 ? AT(1, d, h) : AT(2, d, h)) + AT(3, d, k);
                double expected = sum, was = cotangent(&old, at, narrow), got = cotangent(&d, at, narrow);
                if (spec.accumulate) {
                    expected = narrow ? (double)((float)was + (float)sum) : was + sum;
                }
                EXPECT(shares ? fabs(got - expected) <= (narrow ? 1e-6 : 1e-14) * (bound + fabs(expected)) : got == expected,
                       "%s %s adjoint side %d [%lld %lld %lld %lld]: d[%lld,%lld,%lld] is %.17g, expected %.17g",
                       tensum_semiring_name(s), tensum_dtype_name(algebra.dtype), side, (long long)sizes[0], (long long)sizes[1],
                       (long long)sizes[2], (long long)sizes[3], (long long)n, (long long)h, (long long)k, got, expected);
            }
        }
    }
    ts_free(x);
    ts_free(old.block);
    ts_free(run.scratch);
    ts_free(a.block);
    ts_free(b.block);
    ts_free(c.block);
    ts_free(w.block);
    ts_free(g.block);
    ts_free(d.block);
}

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

static ts_algebra algebra_of(int s, int d)
{
    static const int64_t moduli[] = {2, 3, 7, 65537, 2147483647};
    return (ts_algebra){(tensum_semiring)s, (tensum_dtype)d, s == TENSUM_SUM_PRODUCT_MOD ? moduli[below(5)] : 0};
}

static int cases_per_pair(void)
{
    const char *text = getenv("TENSUM_TEST_CASES_PER_PAIR");
    return text != NULL ? atoi(text) : 12;
}

static void for_all_pairs(void (*one)(ts_algebra))
{
    const char *text = getenv("TENSUM_TEST_SEED");
    const uint64_t start = text != NULL ? strtoull(text, NULL, 10) : 1;
    printf("seeds from %llu, kernels for %s\n", (unsigned long long)start, ts_cpu_isa_name());
    for (int s = 0; s < TENSUM_SEMIRING_COUNT; s++) {
        for (int d = 0; d < TENSUM_DTYPE_COUNT; d++) {
            if (plains[s][d] == NULL) {
                continue;
            }
            for (int i = 0; i < cases_per_pair(); i++) {
                case_seed = start + (uint64_t)i;
                ts_random_seed(&generator, case_seed);
                one(algebra_of(s, d));
            }
        }
    }
}

static void contractions(void **state)
{
    (void)state;
    for_all_pairs(contract_case);
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
static void adjoints(void **state)
{
    (void)state;
    for_all_pairs(adjoint_case);
}
static void reduction_adjoints(void **state)
{
    (void)state;
    for_all_pairs(reduce_adjoint_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(contractions), cmocka_unit_test(reductions), cmocka_unit_test(scratch_for_values),
                                       cmocka_unit_test(adjoints), cmocka_unit_test(reduction_adjoints)};
    for (int32_t i = 1; i < 3; i++) {
        if (ts_pool_create(i + 1, &pools[i]) != TENSUM_OK) {
            return 1;
        }
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        ts_pool_destroy(pools[i]);
    }
    return failed;
}
