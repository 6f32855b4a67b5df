/* Element operations of every dtype and semiring, for C and for CUDA C++.
 *
 * For a dtype d:
 *   ts_s_<d>                 storage type; ts_c_<d> the type of arithmetic
 *   ts_load_<d>(s) -> c      ts_store_<d>(c) -> s (rounds to nearest even)
 *   ts_round_<d>(c) -> c     what store followed by load gives (16-bit floats; otherwise the identity)
 * For a multiplication m, an addition a:
 *   ts_<m>_<d>(x, y, modulus)            x (*) y, not rounded to storage
 *   ts_better_<a>_<d>(x, best)           selective only: does x replace best? NaN replaces all but NaN, so
 *                                        the first of several equal terms or NaNs is kept
 *   ts_add_<a>_<d>(x, y, modulus)        x (+) y
 *   ts_finish_<a>_<m>_<d>(x)             what is stored: +0 for -0, also for what rounds to it; integer tropical
 *                                        ranges restored
 *   ts_zero_<a>_<m>_<d>(), ts_one_<a>_<m>_<d>()
 *
 * Selective semirings apply ts_round to the product before they compare (semantics, point 7).
 * `modulus` is 0 except for modsum and modtimes.
 */
#ifndef TS_ALGEBRA_ELEMENT_H
#define TS_ALGEBRA_ELEMENT_H

#if defined(__CUDACC_RTC__)
/* fixed-width types and math come from the including kernel source */
#else
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define TS_ELEMENT_INLINE static __host__ __device__ __forceinline__
#else
#define TS_ELEMENT_INLINE static inline __attribute__((always_inline, unused))
#endif

#define TS_INFINITY_F32 (__builtin_huge_valf())
#define TS_INFINITY_F64 (__builtin_huge_val())

/* ---- storage and arithmetic types ---- */
typedef struct ts_c64 {
    float re, im;
} ts_c64;
typedef struct ts_c128 {
    double re, im;
} ts_c128;
typedef struct ts_vc64 {
    float value, count;
} ts_vc64;
typedef struct ts_vc128 {
    double value, count;
} ts_vc128;

typedef uint16_t ts_s_f16;
typedef uint16_t ts_s_bf16;
typedef float ts_s_f32;
typedef double ts_s_f64;
typedef ts_c64 ts_s_c64;
typedef ts_c128 ts_s_c128;
typedef int16_t ts_s_i16;
typedef int32_t ts_s_i32;
typedef int64_t ts_s_i64;
typedef uint8_t ts_s_bool;
typedef ts_vc64 ts_s_vc64;
typedef ts_vc128 ts_s_vc128;

typedef float ts_c_f16;
typedef float ts_c_bf16;
typedef float ts_c_f32;
typedef double ts_c_f64;
typedef ts_c64 ts_c_c64;
typedef ts_c128 ts_c_c128;
typedef int16_t ts_c_i16;
typedef int32_t ts_c_i32;
typedef int64_t ts_c_i64;
typedef uint8_t ts_c_bool;
typedef ts_vc64 ts_c_vc64;
typedef ts_vc128 ts_c_vc128;

TS_ELEMENT_INLINE uint32_t ts_bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
TS_ELEMENT_INLINE float ts_float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

TS_ELEMENT_INLINE float ts_load_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7fffu;
    if (magnitude >= 0x7c00u) { /* infinity, NaN */
        return ts_float_of_bits(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
    }
    if (magnitude < 0x400u) { /* zero, subnormal: exact in f32 */
        float value = (float)magnitude * 5.9604644775390625e-8f; /* 2^-24 */
        return ts_float_of_bits(ts_bits_of_float(value) | sign);
    }
    return ts_float_of_bits(sign | ((magnitude << 13) + 0x38000000u));
}
TS_ELEMENT_INLINE uint16_t ts_store_f16(float x)
{
    uint32_t bits = ts_bits_of_float(x);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u);
    }
    if (magnitude >= 0x477ff000u) { /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { /* below 2^-14: adding 0.5 leaves the rounded subnormal in the low bits */
        float shifted = ts_float_of_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (ts_bits_of_float(shifted) - 0x3f000000u));
    }
    {
        uint32_t odd = (magnitude >> 13) & 1u;
        return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
    }
}
TS_ELEMENT_INLINE float ts_load_bf16(uint16_t half) { return ts_float_of_bits((uint32_t)half << 16); }
TS_ELEMENT_INLINE uint16_t ts_store_bf16(float x)
{
    uint32_t bits = ts_bits_of_float(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((bits >> 16) | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
TS_ELEMENT_INLINE float ts_round_f16(float x) { return ts_load_f16(ts_store_f16(x)); }
TS_ELEMENT_INLINE float ts_round_bf16(float x) { return ts_load_bf16(ts_store_bf16(x)); }

#define TS_PLAIN_DTYPE(d)                                                   \
    TS_ELEMENT_INLINE ts_c_##d ts_load_##d(ts_s_##d x) { return x; }        \
    TS_ELEMENT_INLINE ts_s_##d ts_store_##d(ts_c_##d x) { return x; }       \
    TS_ELEMENT_INLINE ts_c_##d ts_round_##d(ts_c_##d x) { return x; }
TS_PLAIN_DTYPE(f32)
TS_PLAIN_DTYPE(f64)
TS_PLAIN_DTYPE(c64)
TS_PLAIN_DTYPE(c128)
TS_PLAIN_DTYPE(i16)
TS_PLAIN_DTYPE(i32)
TS_PLAIN_DTYPE(i64)
TS_PLAIN_DTYPE(vc64)
TS_PLAIN_DTYPE(vc128)
TS_ELEMENT_INLINE uint8_t ts_load_bool(uint8_t x) { return (uint8_t)(x != 0); }
TS_ELEMENT_INLINE uint8_t ts_store_bool(uint8_t x) { return x; }
TS_ELEMENT_INLINE uint8_t ts_round_bool(uint8_t x) { return x; }

/* ---- floats ---- */
#define TS_FLOAT_OPERATIONS(d, T, INF, EXP, LOG)                                                               \
    TS_ELEMENT_INLINE T ts_plus_##d(T x, T y, int64_t m) { (void)m; return x + y; }                           \
    TS_ELEMENT_INLINE T ts_times_##d(T x, T y, int64_t m) { (void)m; return x * y; }                          \
    TS_ELEMENT_INLINE T ts_ntimes_##d(T x, T y, int64_t m) { (void)m; return x * y; }                         \
    TS_ELEMENT_INLINE T ts_min_##d(T x, T y, int64_t m) { (void)m; return x < y || x != x ? x : y; }          \
    TS_ELEMENT_INLINE T ts_max_##d(T x, T y, int64_t m) { (void)m; return x > y || x != x ? x : y; }          \
    TS_ELEMENT_INLINE int ts_better_max_##d(T x, T best) { return x > best || (x != x && best == best); }     \
    TS_ELEMENT_INLINE int ts_better_min_##d(T x, T best) { return x < best || (x != x && best == best); }     \
    TS_ELEMENT_INLINE T ts_add_sum_##d(T x, T y, int64_t m) { (void)m; return x + y; }                        \
    TS_ELEMENT_INLINE T ts_add_max_##d(T x, T y, int64_t m) { (void)m; return ts_better_max_##d(y, x) ? y : x; } \
    TS_ELEMENT_INLINE T ts_add_min_##d(T x, T y, int64_t m) { (void)m; return ts_better_min_##d(y, x) ? y : x; } \
    TS_ELEMENT_INLINE T ts_add_lse_##d(T x, T y, int64_t m)                                                    \
    {                                                                                                          \
        T high = x > y || x != x ? x : y, low = x > y || x != x ? y : x;                                       \
        (void)m;                                                                                               \
        if (low != low || low == -INF || high == INF) return low != low ? low : high;                          \
        return high + LOG(EXP(low - high));                                                                    \
    }                                                                                                          \
    TS_ELEMENT_INLINE T ts_finish_sum_times_##d(T x) { return ts_round_##d(x) + (T)0; }                       \
    TS_ELEMENT_INLINE T ts_finish_max_plus_##d(T x) { return x + (T)0; }                                      \
    TS_ELEMENT_INLINE T ts_finish_min_plus_##d(T x) { return x + (T)0; }                                      \
    TS_ELEMENT_INLINE T ts_finish_max_ntimes_##d(T x) { return x + (T)0; }                                    \
    TS_ELEMENT_INLINE T ts_finish_min_ntimes_##d(T x) { return x + (T)0; }                                    \
    TS_ELEMENT_INLINE T ts_finish_max_min_##d(T x) { return x + (T)0; }                                       \
    TS_ELEMENT_INLINE T ts_finish_min_max_##d(T x) { return x + (T)0; }                                       \
    TS_ELEMENT_INLINE T ts_finish_lse_plus_##d(T x) { return ts_round_##d(x) + (T)0; }                        \
    TS_ELEMENT_INLINE T ts_zero_sum_times_##d(void) { return (T)0; }                                          \
    TS_ELEMENT_INLINE T ts_zero_max_plus_##d(void) { return -INF; }                                           \
    TS_ELEMENT_INLINE T ts_zero_min_plus_##d(void) { return INF; }                                            \
    TS_ELEMENT_INLINE T ts_zero_max_ntimes_##d(void) { return (T)0; }                                         \
    TS_ELEMENT_INLINE T ts_zero_min_ntimes_##d(void) { return INF; }                                          \
    TS_ELEMENT_INLINE T ts_zero_max_min_##d(void) { return -INF; }                                            \
    TS_ELEMENT_INLINE T ts_zero_min_max_##d(void) { return INF; }                                             \
    TS_ELEMENT_INLINE T ts_zero_lse_plus_##d(void) { return -INF; }                                           \
    TS_ELEMENT_INLINE T ts_one_sum_times_##d(void) { return (T)1; }                                           \
    TS_ELEMENT_INLINE T ts_one_max_plus_##d(void) { return (T)0; }                                            \
    TS_ELEMENT_INLINE T ts_one_min_plus_##d(void) { return (T)0; }                                            \
    TS_ELEMENT_INLINE T ts_one_max_ntimes_##d(void) { return (T)1; }                                          \
    TS_ELEMENT_INLINE T ts_one_min_ntimes_##d(void) { return (T)1; }                                          \
    TS_ELEMENT_INLINE T ts_one_max_min_##d(void) { return INF; }                                              \
    TS_ELEMENT_INLINE T ts_one_min_max_##d(void) { return -INF; }                                             \
    TS_ELEMENT_INLINE T ts_one_lse_plus_##d(void) { return (T)0; }
TS_FLOAT_OPERATIONS(f16, float, TS_INFINITY_F32, expf, log1pf)
TS_FLOAT_OPERATIONS(bf16, float, TS_INFINITY_F32, expf, log1pf)
TS_FLOAT_OPERATIONS(f32, float, TS_INFINITY_F32, expf, log1pf)
TS_FLOAT_OPERATIONS(f64, double, TS_INFINITY_F64, exp, log1p)

/* ---- integers. Tropical: zero is -+Z with Z = 2^(bits-2) - 1, operands are zero or |x| <= R = Z / 3 - 1, so that
 * zero + x is below -2R and no sum overflows; arithmetic wraps, so that unchecked operands are not undefined. ---- */
#define TS_TROPICAL_Z_i16 16383
#define TS_TROPICAL_R_i16 5460
#define TS_TROPICAL_Z_i32 1073741823
#define TS_TROPICAL_R_i32 357913940
#define TS_TROPICAL_Z_i64 INT64_C(4611686018427387903)
#define TS_TROPICAL_R_i64 INT64_C(1537228672809129300)

TS_ELEMENT_INLINE int16_t ts_ntimes_i16(int16_t x, int16_t y, int64_t m)
{
    int32_t product = (int32_t)x * y;
    (void)m;
    return (int16_t)(product > 32767 ? 32767 : product < -32768 ? -32768 : product);
}
TS_ELEMENT_INLINE int32_t ts_ntimes_i32(int32_t x, int32_t y, int64_t m)
{
    int64_t product = (int64_t)x * y;
    (void)m;
    return (int32_t)(product > INT32_MAX ? INT32_MAX : product < INT32_MIN ? INT32_MIN : product);
}
TS_ELEMENT_INLINE int64_t ts_ntimes_i64(int64_t x, int64_t y, int64_t m)
{
    /* operands are not negative where checking is on; the double is exact enough to see an overflow */
    double estimate = (double)x * (double)y;
    (void)m;
    if (estimate >= 9.3e18) return INT64_MAX;
    if (estimate <= -9.3e18) return INT64_MIN;
    {
        uint64_t product = (uint64_t)x * (uint64_t)y;
        int negative = (x < 0) != (y < 0) && x != 0 && y != 0;
        if (!negative && product > (uint64_t)INT64_MAX) return INT64_MAX;
        if (negative && product < (uint64_t)INT64_MAX + 1u) return INT64_MIN;
        return (int64_t)product;
    }
}

#define TS_INTEGER_OPERATIONS(d, T, U, LOWEST, HIGHEST)                                                        \
    TS_ELEMENT_INLINE T ts_plus_##d(T x, T y, int64_t m) { (void)m; return (T)(U)((U)x + (U)y); }             \
    TS_ELEMENT_INLINE T ts_times_##d(T x, T y, int64_t m) { (void)m; return (T)(U)(1u * (U)x * (U)y); }       \
    TS_ELEMENT_INLINE T ts_min_##d(T x, T y, int64_t m) { (void)m; return x < y ? x : y; }                    \
    TS_ELEMENT_INLINE T ts_max_##d(T x, T y, int64_t m) { (void)m; return x > y ? x : y; }                    \
    TS_ELEMENT_INLINE int ts_better_max_##d(T x, T best) { return x > best; }                                 \
    TS_ELEMENT_INLINE int ts_better_min_##d(T x, T best) { return x < best; }                                 \
    TS_ELEMENT_INLINE T ts_add_sum_##d(T x, T y, int64_t m) { (void)m; return (T)(U)((U)x + (U)y); }          \
    TS_ELEMENT_INLINE T ts_add_max_##d(T x, T y, int64_t m) { (void)m; return y > x ? y : x; }                \
    TS_ELEMENT_INLINE T ts_add_min_##d(T x, T y, int64_t m) { (void)m; return y < x ? y : x; }                \
    TS_ELEMENT_INLINE T ts_finish_sum_times_##d(T x) { return x; }                                            \
    TS_ELEMENT_INLINE T ts_finish_max_ntimes_##d(T x) { return x; }                                           \
    TS_ELEMENT_INLINE T ts_finish_max_min_##d(T x) { return x; }                                              \
    TS_ELEMENT_INLINE T ts_finish_min_max_##d(T x) { return x; }                                              \
    TS_ELEMENT_INLINE T ts_finish_max_plus_##d(T x)                                                           \
    {                                                                                                          \
        return (T)(x < -2 * TS_TROPICAL_R_##d  ? -TS_TROPICAL_Z_##d                                           \
                   : x < -TS_TROPICAL_R_##d    ? -TS_TROPICAL_R_##d                                           \
                   : x > TS_TROPICAL_R_##d     ? TS_TROPICAL_R_##d                                            \
                                               : x);                                                          \
    }                                                                                                          \
    TS_ELEMENT_INLINE T ts_finish_min_plus_##d(T x)                                                           \
    {                                                                                                          \
        return (T)(x > 2 * TS_TROPICAL_R_##d   ? TS_TROPICAL_Z_##d                                            \
                   : x > TS_TROPICAL_R_##d     ? TS_TROPICAL_R_##d                                            \
                   : x < -TS_TROPICAL_R_##d    ? -TS_TROPICAL_R_##d                                           \
                                               : x);                                                          \
    }                                                                                                          \
    TS_ELEMENT_INLINE T ts_zero_sum_times_##d(void) { return 0; }                                             \
    TS_ELEMENT_INLINE T ts_zero_max_plus_##d(void) { return -TS_TROPICAL_Z_##d; }                             \
    TS_ELEMENT_INLINE T ts_zero_min_plus_##d(void) { return TS_TROPICAL_Z_##d; }                              \
    TS_ELEMENT_INLINE T ts_zero_max_ntimes_##d(void) { return 0; }                                            \
    TS_ELEMENT_INLINE T ts_zero_max_min_##d(void) { return LOWEST; }                                          \
    TS_ELEMENT_INLINE T ts_zero_min_max_##d(void) { return HIGHEST; }                                         \
    TS_ELEMENT_INLINE T ts_one_sum_times_##d(void) { return 1; }                                              \
    TS_ELEMENT_INLINE T ts_one_max_plus_##d(void) { return 0; }                                               \
    TS_ELEMENT_INLINE T ts_one_min_plus_##d(void) { return 0; }                                               \
    TS_ELEMENT_INLINE T ts_one_max_ntimes_##d(void) { return 1; }                                             \
    TS_ELEMENT_INLINE T ts_one_max_min_##d(void) { return HIGHEST; }                                          \
    TS_ELEMENT_INLINE T ts_one_min_max_##d(void) { return LOWEST; }
TS_INTEGER_OPERATIONS(i16, int16_t, uint16_t, INT16_MIN, INT16_MAX)
TS_INTEGER_OPERATIONS(i32, int32_t, uint32_t, INT32_MIN, INT32_MAX)
TS_INTEGER_OPERATIONS(i64, int64_t, uint64_t, INT64_MIN, INT64_MAX)

/* ---- complex ---- */
#define TS_COMPLEX_OPERATIONS(d, C, T)                                                                         \
    TS_ELEMENT_INLINE C ts_times_##d(C x, C y, int64_t m)                                                     \
    {                                                                                                          \
        C z;                                                                                                   \
        (void)m;                                                                                               \
        z.re = x.re * y.re - x.im * y.im;                                                                      \
        z.im = x.re * y.im + x.im * y.re;                                                                      \
        return z;                                                                                              \
    }                                                                                                          \
    TS_ELEMENT_INLINE C ts_add_sum_##d(C x, C y, int64_t m)                                                   \
    {                                                                                                          \
        C z;                                                                                                   \
        (void)m;                                                                                               \
        z.re = x.re + y.re;                                                                                    \
        z.im = x.im + y.im;                                                                                    \
        return z;                                                                                              \
    }                                                                                                          \
    TS_ELEMENT_INLINE C ts_finish_sum_times_##d(C x)                                                          \
    {                                                                                                          \
        x.re += (T)0;                                                                                          \
        x.im += (T)0;                                                                                          \
        return x;                                                                                              \
    }                                                                                                          \
    TS_ELEMENT_INLINE C ts_conjugate_##d(C x)                                                                 \
    {                                                                                                          \
        x.im = -x.im;                                                                                          \
        return x;                                                                                              \
    }                                                                                                          \
    TS_ELEMENT_INLINE C ts_zero_sum_times_##d(void)                                                           \
    {                                                                                                          \
        C z;                                                                                                   \
        z.re = z.im = (T)0;                                                                                    \
        return z;                                                                                              \
    }                                                                                                          \
    TS_ELEMENT_INLINE C ts_one_sum_times_##d(void)                                                            \
    {                                                                                                          \
        C z;                                                                                                   \
        z.re = (T)1;                                                                                           \
        z.im = (T)0;                                                                                           \
        return z;                                                                                              \
    }
TS_COMPLEX_OPERATIONS(c64, ts_c64, float)
TS_COMPLEX_OPERATIONS(c128, ts_c128, double)

/* ---- booleans ---- */
TS_ELEMENT_INLINE uint8_t ts_and_bool(uint8_t x, uint8_t y, int64_t m) { (void)m; return (uint8_t)(x & y); }
TS_ELEMENT_INLINE int ts_better_or_bool(uint8_t x, uint8_t best) { return x > best; }
TS_ELEMENT_INLINE uint8_t ts_add_or_bool(uint8_t x, uint8_t y, int64_t m) { (void)m; return (uint8_t)(x | y); }
TS_ELEMENT_INLINE uint8_t ts_add_xor_bool(uint8_t x, uint8_t y, int64_t m) { (void)m; return (uint8_t)(x ^ y); }
TS_ELEMENT_INLINE uint8_t ts_finish_or_and_bool(uint8_t x) { return x; }
TS_ELEMENT_INLINE uint8_t ts_finish_xor_and_bool(uint8_t x) { return x; }
TS_ELEMENT_INLINE uint8_t ts_zero_or_and_bool(void) { return 0; }
TS_ELEMENT_INLINE uint8_t ts_zero_xor_and_bool(void) { return 0; }
TS_ELEMENT_INLINE uint8_t ts_one_or_and_bool(void) { return 1; }
TS_ELEMENT_INLINE uint8_t ts_one_xor_and_bool(void) { return 1; }

/* ---- value and count: the larger value wins, equal values add their counts; zero always has count 0 ---- */
#define TS_COUNT_OPERATIONS(d, C, T, INF)                                                                      \
    TS_ELEMENT_INLINE C ts_pluscount_##d(C x, C y, int64_t m)                                                 \
    {                                                                                                          \
        C z;                                                                                                   \
        (void)m;                                                                                               \
        z.value = x.value + y.value;                                                                           \
        z.count = x.count * y.count;                                                                           \
        return z;                                                                                              \
    }                                                                                                          \
    TS_ELEMENT_INLINE C ts_add_maxcount_##d(C x, C y, int64_t m)                                              \
    {                                                                                                          \
        (void)m;                                                                                               \
        if (x.value == y.value) x.count += y.count;                                                            \
        else if (y.value > x.value || (y.value != y.value && x.value == x.value)) x = y;                       \
        return x;                                                                                              \
    }                                                                                                          \
    TS_ELEMENT_INLINE C ts_finish_maxcount_pluscount_##d(C x)                                                 \
    {                                                                                                          \
        x.count = x.value == -INF ? (T)0 : x.value != x.value ? x.value : x.count + (T)0;                      \
        x.value += (T)0;                                                                                       \
        return x;                                                                                              \
    }                                                                                                          \
    TS_ELEMENT_INLINE C ts_zero_maxcount_pluscount_##d(void)                                                  \
    {                                                                                                          \
        C z;                                                                                                   \
        z.value = -INF;                                                                                        \
        z.count = (T)0;                                                                                        \
        return z;                                                                                              \
    }                                                                                                          \
    TS_ELEMENT_INLINE C ts_one_maxcount_pluscount_##d(void)                                                   \
    {                                                                                                          \
        C z;                                                                                                   \
        z.value = (T)0;                                                                                        \
        z.count = (T)1;                                                                                        \
        return z;                                                                                              \
    }
TS_COUNT_OPERATIONS(vc64, ts_vc64, float, TS_INFINITY_F32)
TS_COUNT_OPERATIONS(vc128, ts_vc128, double, TS_INFINITY_F64)

/* ---- residues: operands in [0, modulus), modulus < 2^31 ---- */
TS_ELEMENT_INLINE int64_t ts_modtimes_i64(int64_t x, int64_t y, int64_t m) { return x * y % m; }
TS_ELEMENT_INLINE int64_t ts_add_modsum_i64(int64_t x, int64_t y, int64_t m)
{
    int64_t sum = x + y;
    return sum >= m ? sum - m : sum;
}
TS_ELEMENT_INLINE int64_t ts_finish_modsum_modtimes_i64(int64_t x) { return x; }
TS_ELEMENT_INLINE int64_t ts_zero_modsum_modtimes_i64(void) { return 0; }
TS_ELEMENT_INLINE int64_t ts_one_modsum_modtimes_i64(void) { return 1; }

#endif
