/* What tests of the CPU backend's step slots share: loops written straight from the meaning (algebra/element.h), random specs
 * of sizes around tile and panel edges, with any strides (negative, zero, padded, permuted), ties, infinities and NaN.
 * Environment TENSUM_TEST_SEED repeats a run; TENSUM_CPU_ISA chooses the kernels. */
#ifndef TENSUM_TESTS_CPU_CASES_H
#define TENSUM_TESTS_CPU_CASES_H

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
static inline int64_t below(int64_t bound) { return (int64_t)ts_random_below(&generator, (uint64_t)bound); }

enum { SPECIAL_NONE, SPECIAL_TIES, SPECIAL_INFINITE, SPECIAL_NAN, SPECIAL_WIDE };

static inline double random_number(tensum_semiring semiring, int special)
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

static inline void random_element(ts_algebra algebra, int special, void *element)
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

static inline tensor make_tensor(ts_mode *modes, const bool *has, int32_t count, size_t stride_at, bool zero_strides, size_t element)
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

static inline void fill_random(tensor *t, ts_algebra algebra, int special)
{
    for (int64_t i = 0; i < t->count; i++) {
        random_element(algebra, special, t->block + (size_t)i * t->element);
    }
}

enum { POOLS = 4 };
static const int32_t pool_threads[POOLS] = {1, 2, 3, 11}; /* few, whose tasks are shared out one by one, and more */
static ts_pool *pools[POOLS];
static inline ts_pool *random_pool(void) { return pools[below(POOLS)]; }

static inline ts_run make_run(size_t bytes, ts_pool *pool)
{
    ts_run run = {.pool = pool, .scratch = NULL, .scratch_bytes = bytes};
    if (bytes > 0) {
        assert_int_equal(ts_allocate_aligned(bytes, "scratch", &run.scratch), TENSUM_OK);
        memset(run.scratch, 0xff, bytes);
    }
    return run;
}

/* Offset of one position: one at a time, not the backend's way. */
static inline int64_t offset_of(const ts_mode *modes, int32_t count, size_t stride_at, int64_t position)
{
    int64_t offset = 0;
    for (int32_t m = count - 1; m >= 0; m--) {
        offset += position % modes[m].extent * *(const int64_t *)(const void *)((const uint8_t *)&modes[m] + stride_at);
        position /= modes[m].extent;
    }
    return offset;
}

/* Split `size` into modes; returns their number. */
static inline int32_t split(int64_t size, ts_mode *modes)
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
static inline double as_number(tensum_dtype dtype, const void *x, int part)
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
static inline bool same(ts_algebra algebra, const void *x, const void *y, double scale)
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
static inline int64_t edge(void) { return edges[below((int64_t)(sizeof edges / sizeof *edges))]; }

static inline ts_algebra algebra_of(int s, int d)
{
    static const int64_t moduli[] = {2, 3, 7, 65537, 2147483647};
    return (ts_algebra){(tensum_semiring)s, (tensum_dtype)d, s == TENSUM_SUM_PRODUCT_MOD ? moduli[below(5)] : 0};
}

static inline int cases_per_pair(void)
{
    const char *text = getenv("TENSUM_TEST_CASES_PER_PAIR");
    return text != NULL ? atoi(text) : 12;
}

static inline void for_all_pairs(void (*one)(ts_algebra))
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

/* Fixtures of a group of tests. */
static inline int make_pools(void **state)
{
    (void)state;
    for (int i = 1; i < POOLS; i++) {
        if (ts_pool_create(pool_threads[i], &pools[i]) != TENSUM_OK) {
            return 1;
        }
    }
    return 0;
}
static inline int end_pools(void **state)
{
    (void)state;
    for (int i = 0; i < POOLS; i++) {
        ts_pool_destroy(pools[i]);
    }
    return 0;
}

#endif
