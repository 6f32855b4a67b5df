#include "algebra/sums.h"

#undef bool /* the dtype of that name must survive macro expansion; the type is _Bool here */

#define LOAD(d, pointer) ts_load_##d(*(const ts_s_##d *)(pointer))
#define M_bool b
#define M_f16 f16
#define M_bf16 bf16
#define M_f32 f32
#define M_f64 f64
#define M_i16 i16
#define M_i32 i32
#define M_i64 i64
#define M_vc64 vc64
#define M_vc128 vc128

/* ---- selective: the first best term ---- */
#define SELECTIVE(s, a, m, d)                                                                            \
    static void feed_##s##_##d(ts_sum *sum, const void *x, const void *y)                      \
    {                                                                                                    \
        ts_c_##d term = LOAD(d, x);                                                                      \
        if (y != NULL) {                                                                                 \
            term = ts_round_##d(ts_##m##_##d(term, LOAD(d, y), 0));                                      \
        }                                                                                                \
        if (sum->terms == 0 || ts_better_##a##_##d(term, sum->as.M_##d)) {                               \
            sum->as.M_##d = term;                                                                        \
            sum->winner = sum->terms;                                                                    \
        }                                                                                                \
        sum->terms++;                                                                                    \
    }                                                                                                    \
    static void end_##s##_##d(ts_sum *sum, void *c, _Bool accumulate)                           \
    {                                                                                                    \
        ts_c_##d zero = ts_zero_##a##_##m##_##d();                                                       \
        ts_c_##d value = sum->terms == 0 ? zero : ts_finish_##a##_##m##_##d(sum->as.M_##d);              \
        sum->winner = sum->terms == 0 ? -1 : value == zero ? 0 : sum->winner;                            \
        if (accumulate) {                                                                                \
            value = ts_finish_##a##_##m##_##d(ts_add_##a##_##d(LOAD(d, c), value, 0));                   \
        }                                                                                                \
        *(ts_s_##d *)c = ts_store_##d(value);                                                            \
    }

/* ---- sums ---- */
static ts_c128 widen_c64(ts_c64 x) { return (ts_c128){(double)x.re, (double)x.im}; }
static ts_c128 widen_c128(ts_c128 x) { return x; }
static ts_c64 narrow_c64(ts_c128 x) { return (ts_c64){(float)x.re, (float)x.im}; }
static ts_c128 narrow_c128(ts_c128 x) { return x; }

#define FLOAT_SUM(s, a, m, d)                                                                            \
    static void feed_##s##_##d(ts_sum *sum, const void *x, const void *y)                      \
    {                                                                                                    \
        sum->as.f64 += (double)LOAD(d, x) * (y != NULL ? (double)LOAD(d, y) : 1.0);                      \
        sum->terms++;                                                                                    \
    }                                                                                                    \
    static void end_##s##_##d(ts_sum *sum, void *c, _Bool accumulate)                           \
    {                                                                                                    \
        double value = sum->as.f64 + (accumulate ? (double)LOAD(d, c) : 0.0);                            \
        *(ts_s_##d *)c = ts_store_##d(ts_finish_##a##_##m##_##d((ts_c_##d)value));                        \
    }
#define COMPLEX_SUM(s, a, m, d)                                                                          \
    static void feed_##s##_##d(ts_sum *sum, const void *x, const void *y)                      \
    {                                                                                                    \
        ts_c128 term = widen_##d(LOAD(d, x));                                                            \
        term = sum->conjugate_a ? ts_conjugate_c128(term) : term;                                        \
        if (y != NULL) {                                                                                 \
            ts_c128 other = widen_##d(LOAD(d, y));                                                       \
            term = ts_times_c128(term, sum->conjugate_b ? ts_conjugate_c128(other) : other, 0);          \
        }                                                                                                \
        sum->as.c128 = ts_add_sum_c128(sum->as.c128, term, 0);                                           \
        sum->terms++;                                                                                    \
    }                                                                                                    \
    static void end_##s##_##d(ts_sum *sum, void *c, _Bool accumulate)                           \
    {                                                                                                    \
        ts_c128 value = sum->as.c128;                                                                    \
        if (accumulate) {                                                                                \
            value = ts_add_sum_c128(value, widen_##d(LOAD(d, c)), 0);                                    \
        }                                                                                                \
        *(ts_s_##d *)c = ts_finish_sum_times_##d(narrow_##d(value));                                     \
    }
/* Exact additions in the type itself: integers, residues, parities; value and count. */
#define EXACT_SUM(s, a, m, d)                                                                            \
    static void feed_##s##_##d(ts_sum *sum, const void *x, const void *y)                      \
    {                                                                                                    \
        ts_c_##d term = LOAD(d, x);                                                                      \
        if (y != NULL) {                                                                                 \
            term = ts_##m##_##d(term, LOAD(d, y), sum->modulus);                                         \
        }                                                                                                \
        sum->as.M_##d = sum->terms == 0 ? term : ts_add_##a##_##d(sum->as.M_##d, term, sum->modulus);    \
        sum->terms++;                                                                                    \
    }                                                                                                    \
    static void end_##s##_##d(ts_sum *sum, void *c, _Bool accumulate)                           \
    {                                                                                                    \
        ts_c_##d value = sum->terms == 0 ? ts_zero_##a##_##m##_##d() : sum->as.M_##d;                    \
        if (accumulate) {                                                                                \
            value = ts_add_##a##_##d(LOAD(d, c), value, sum->modulus);                                   \
        }                                                                                                \
        *(ts_s_##d *)c = ts_store_##d(ts_finish_##a##_##m##_##d(value));                                 \
    }

/* ---- log of a sum of exponentials, by the running maximum ---- */
static void feed_exponential(ts_sum *sum, double term)
{
    double high = sum->as.lse.high;
    if (sum->terms++ == 0) {
        sum->as.lse.high = term;
        sum->as.lse.sum = 1;
    } else if (high != high) {
        return; /* NaN stays */
    } else if (term > high || term != term) {
        sum->as.lse.sum = high == -TS_INFINITY_F64 ? 1 : sum->as.lse.sum * exp(high - term) + 1;
        sum->as.lse.high = term;
    } else if (term == high) {
        sum->as.lse.sum += 1;
    } else if (term != -TS_INFINITY_F64) {
        sum->as.lse.sum += exp(term - high);
    }
}
static double end_exponential(const ts_sum *sum)
{
    double high = sum->as.lse.high;
    if (sum->terms == 0) {
        return -TS_INFINITY_F64;
    }
    return high != high || high == TS_INFINITY_F64 || high == -TS_INFINITY_F64 ? high : high + log(sum->as.lse.sum);
}
#define LSE_SUM(s, a, m, d)                                                                              \
    static void feed_##s##_##d(ts_sum *sum, const void *x, const void *y)                      \
    {                                                                                                    \
        feed_exponential(sum, (double)LOAD(d, x) + (y != NULL ? (double)LOAD(d, y) : 0.0));              \
    }                                                                                                    \
    static void end_##s##_##d(ts_sum *sum, void *c, _Bool accumulate)                           \
    {                                                                                                    \
        if (accumulate) {                                                                                \
            ts_sum both = {0};                                                                 \
            feed_exponential(&both, end_exponential(sum));                                               \
            feed_exponential(&both, (double)LOAD(d, c));                                                 \
            *sum = both;                                                                                 \
        }                                                                                                \
        *(ts_s_##d *)c = ts_store_##d(ts_finish_##a##_##m##_##d((ts_c_##d)end_exponential(sum)));         \
    }

#define SUM_f16 FLOAT_SUM
#define SUM_bf16 FLOAT_SUM
#define SUM_f32 FLOAT_SUM
#define SUM_f64 FLOAT_SUM
#define SUM_c64 COMPLEX_SUM
#define SUM_c128 COMPLEX_SUM
#define SUM_i16 EXACT_SUM
#define SUM_i32 EXACT_SUM
#define SUM_i64 EXACT_SUM
#define DEFINE_max(s, a, m, d) SELECTIVE(s, a, m, d)
#define DEFINE_min(s, a, m, d) SELECTIVE(s, a, m, d)
#define DEFINE_or(s, a, m, d) SELECTIVE(s, a, m, d)
#define DEFINE_sum(s, a, m, d) SUM_##d(s, a, m, d)
#define DEFINE_xor(s, a, m, d) EXACT_SUM(s, a, m, d)
#define DEFINE_maxcount(s, a, m, d) EXACT_SUM(s, a, m, d)
#define DEFINE_modsum(s, a, m, d) EXACT_SUM(s, a, m, d)
#define DEFINE_lse(s, a, m, d) LSE_SUM(s, a, m, d)

#define TS_PAIR(s, a, m, sel, d) DEFINE_##a(s, a, m, d)
#include "algebra/pairs.def"

#define REAL(d) \
    static double real_##d(const void *element) { return (double)LOAD(d, element); }
REAL(f16)
REAL(bf16)
REAL(f32)
REAL(f64)
REAL(i16)
REAL(i32)
REAL(i64)
REAL(bool)
static double real_c64(const void *element) { return (double)LOAD(c64, element).re; }
static double real_c128(const void *element) { return LOAD(c128, element).re; }
static double real_vc64(const void *element) { return (double)LOAD(vc64, element).value; }
static double real_vc128(const void *element) { return LOAD(vc128, element).value; }

enum {
#define TENSUM_DTYPE(ID, name, bytes, gradient, summary) DTYPE_##name,
#include <tensum/dtypes.def>
#undef TENSUM_DTYPE
};
enum {
#define TENSUM_SEMIRING(ID, name, alias, add, mul, dtypes, selective, summary) SEMIRING_##name,
#include <tensum/semirings.def>
#undef TENSUM_SEMIRING
};

static const ts_pair pairs[TENSUM_SEMIRING_COUNT][TENSUM_DTYPE_COUNT] = {
#define TS_PAIR(s, a, m, sel, d) [SEMIRING_##s][DTYPE_##d] = {feed_##s##_##d, end_##s##_##d, real_##d},
#include "algebra/pairs.def"
};

const ts_pair *ts_pair_of(tensum_semiring semiring, tensum_dtype dtype)
{
    const ts_pair *pair = &pairs[semiring][dtype];
    return pair->feed != NULL ? pair : NULL;
}
