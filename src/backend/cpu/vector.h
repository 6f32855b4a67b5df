/* Vectors of the packed types, as compiler vector types: +, *, & and | are the language's, the rest is here.
 *
 * For a packed type p (f32, f64, i16, i32, i64, u64):
 *   ts_c_<p>, ts_v_<p>               one element, one vector of TS_VECTOR_BYTES
 *   ts_vmul_<m>_<p>(x, y)            products, not rounded to storage
 *   ts_vadd_<a>_<p>(best, term)      sums; for floats a NaN term is dropped, which packing flags have ruled out
 */
#ifndef TS_CPU_VECTOR_H
#define TS_CPU_VECTOR_H

#include "algebra/element.h"
#include "backend/cpu/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef uint64_t ts_c_u64;

#define VECTOR_INLINE static inline __attribute__((always_inline, unused))
#define VECTOR_TYPE(p, mask_element)                                                     \
    typedef ts_c_##p ts_v_##p __attribute__((vector_size(TS_VECTOR_BYTES), may_alias)); \
    typedef mask_element ts_b_##p; /* numbers of blocks: as wide as an element */         \
    typedef mask_element ts_m_##p __attribute__((vector_size(TS_VECTOR_BYTES), may_alias)); \
    VECTOR_INLINE ts_v_##p ts_vselect_##p(ts_m_##p mask, ts_v_##p x, ts_v_##p y)        \
    {                                                                                    \
        return (ts_v_##p)((mask & (ts_m_##p)x) | (~mask & (ts_m_##p)y));                \
    }
VECTOR_TYPE(f32, int32_t)
VECTOR_TYPE(f64, int64_t)
VECTOR_TYPE(i16, int16_t)
VECTOR_TYPE(i32, int32_t)
VECTOR_TYPE(i64, int64_t)
VECTOR_TYPE(u64, int64_t)

/* MAX(p, f): native instruction f; SELECT(p): compare and select. */
#define NATIVE(p, operation, function, type) \
    VECTOR_INLINE ts_v_##p ts_v##operation##_##p(ts_v_##p best, ts_v_##p term) { return (ts_v_##p)function((type)term, (type)best); }
#define SELECT(p)                                                                                                   \
    VECTOR_INLINE ts_v_##p ts_vmax_##p(ts_v_##p best, ts_v_##p term) { return ts_vselect_##p(term > best, term, best); } \
    VECTOR_INLINE ts_v_##p ts_vmin_##p(ts_v_##p best, ts_v_##p term) { return ts_vselect_##p(term < best, term, best); }
#if defined(TS_ISA_AVX512)
NATIVE(f32, max, _mm512_max_ps, __m512)
NATIVE(f32, min, _mm512_min_ps, __m512)
NATIVE(f64, max, _mm512_max_pd, __m512d)
NATIVE(f64, min, _mm512_min_pd, __m512d)
NATIVE(i16, max, _mm512_max_epi16, __m512i)
NATIVE(i16, min, _mm512_min_epi16, __m512i)
NATIVE(i32, max, _mm512_max_epi32, __m512i)
NATIVE(i32, min, _mm512_min_epi32, __m512i)
NATIVE(i64, max, _mm512_max_epi64, __m512i)
NATIVE(i64, min, _mm512_min_epi64, __m512i)
#elif defined(TS_ISA_AVX2)
NATIVE(f32, max, _mm256_max_ps, __m256)
NATIVE(f32, min, _mm256_min_ps, __m256)
NATIVE(f64, max, _mm256_max_pd, __m256d)
NATIVE(f64, min, _mm256_min_pd, __m256d)
NATIVE(i16, max, _mm256_max_epi16, __m256i)
NATIVE(i16, min, _mm256_min_epi16, __m256i)
NATIVE(i32, max, _mm256_max_epi32, __m256i)
NATIVE(i32, min, _mm256_min_epi32, __m256i)
SELECT(i64)
#elif defined(__SSE2__)
NATIVE(f32, max, _mm_max_ps, __m128)
NATIVE(f32, min, _mm_min_ps, __m128)
NATIVE(f64, max, _mm_max_pd, __m128d)
NATIVE(f64, min, _mm_min_pd, __m128d)
NATIVE(i16, max, _mm_max_epi16, __m128i)
NATIVE(i16, min, _mm_min_epi16, __m128i)
SELECT(i32)
SELECT(i64)
#else
SELECT(f32)
SELECT(f64)
SELECT(i16)
SELECT(i32)
SELECT(i64)
#endif

/* ---- sums of selective semirings ---- */
#define VECTOR_ORDERED(p)                                                                                      \
    VECTOR_INLINE ts_v_##p ts_vadd_max_##p(ts_v_##p best, ts_v_##p term) { return ts_vmax_##p(best, term); } \
    VECTOR_INLINE ts_v_##p ts_vadd_min_##p(ts_v_##p best, ts_v_##p term) { return ts_vmin_##p(best, term); } \
    VECTOR_INLINE ts_v_##p ts_vmul_max_##p(ts_v_##p x, ts_v_##p y) { return ts_vmax_##p(x, y); }             \
    VECTOR_INLINE ts_v_##p ts_vmul_min_##p(ts_v_##p x, ts_v_##p y) { return ts_vmin_##p(x, y); }
VECTOR_ORDERED(f32)
VECTOR_ORDERED(f64)
VECTOR_ORDERED(i16)
VECTOR_ORDERED(i32)
VECTOR_ORDERED(i64)

/* ---- products. Integers go through unsigned vectors, so that unchecked operands wrap. ---- */
#define VECTOR_FLOAT(p)                                                                                  \
    VECTOR_INLINE ts_v_##p ts_vmul_plus_##p(ts_v_##p x, ts_v_##p y) { return x + y; }                   \
    VECTOR_INLINE ts_v_##p ts_vmul_times_##p(ts_v_##p x, ts_v_##p y) { return x * y; }                  \
    VECTOR_INLINE ts_v_##p ts_vmul_ntimes_##p(ts_v_##p x, ts_v_##p y) { return x * y; }                 \
    VECTOR_INLINE ts_v_##p ts_vadd_sum_##p(ts_v_##p x, ts_v_##p y) { return x + y; }
VECTOR_FLOAT(f32)
VECTOR_FLOAT(f64)
#define VECTOR_INTEGER(p, unsigned_element)                                                               \
    typedef unsigned_element ts_w_##p __attribute__((vector_size(TS_VECTOR_BYTES)));                     \
    VECTOR_INLINE ts_v_##p ts_vmul_plus_##p(ts_v_##p x, ts_v_##p y) { return (ts_v_##p)((ts_w_##p)x + (ts_w_##p)y); } \
    VECTOR_INLINE ts_v_##p ts_vmul_times_##p(ts_v_##p x, ts_v_##p y) { return (ts_v_##p)((ts_w_##p)x * (ts_w_##p)y); } \
    VECTOR_INLINE ts_v_##p ts_vadd_sum_##p(ts_v_##p x, ts_v_##p y) { return (ts_v_##p)((ts_w_##p)x + (ts_w_##p)y); }
VECTOR_INTEGER(i16, uint16_t)
VECTOR_INTEGER(i32, uint32_t)
VECTOR_INTEGER(i64, uint64_t)

/* x (*) y added into a sum of products. Only here may products and sums fuse: sum_product promises a bound, not bits. */
#if defined(TS_ISA_AVX512)
VECTOR_INLINE ts_v_f32 ts_vfma_f32(ts_v_f32 s, ts_v_f32 x, ts_v_f32 y) { return (ts_v_f32)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)s); }
VECTOR_INLINE ts_v_f64 ts_vfma_f64(ts_v_f64 s, ts_v_f64 x, ts_v_f64 y) { return (ts_v_f64)_mm512_fmadd_pd((__m512d)x, (__m512d)y, (__m512d)s); }
VECTOR_INLINE ts_v_f32 ts_vfnma_f32(ts_v_f32 s, ts_v_f32 x, ts_v_f32 y) { return (ts_v_f32)_mm512_fnmadd_ps((__m512)x, (__m512)y, (__m512)s); }
VECTOR_INLINE ts_v_f64 ts_vfnma_f64(ts_v_f64 s, ts_v_f64 x, ts_v_f64 y) { return (ts_v_f64)_mm512_fnmadd_pd((__m512d)x, (__m512d)y, (__m512d)s); }
#elif defined(TS_ISA_AVX2)
VECTOR_INLINE ts_v_f32 ts_vfma_f32(ts_v_f32 s, ts_v_f32 x, ts_v_f32 y) { return (ts_v_f32)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)s); }
VECTOR_INLINE ts_v_f64 ts_vfma_f64(ts_v_f64 s, ts_v_f64 x, ts_v_f64 y) { return (ts_v_f64)_mm256_fmadd_pd((__m256d)x, (__m256d)y, (__m256d)s); }
VECTOR_INLINE ts_v_f32 ts_vfnma_f32(ts_v_f32 s, ts_v_f32 x, ts_v_f32 y) { return (ts_v_f32)_mm256_fnmadd_ps((__m256)x, (__m256)y, (__m256)s); }
VECTOR_INLINE ts_v_f64 ts_vfnma_f64(ts_v_f64 s, ts_v_f64 x, ts_v_f64 y) { return (ts_v_f64)_mm256_fnmadd_pd((__m256d)x, (__m256d)y, (__m256d)s); }
#else
VECTOR_INLINE ts_v_f32 ts_vfma_f32(ts_v_f32 s, ts_v_f32 x, ts_v_f32 y) { return s + x * y; }
VECTOR_INLINE ts_v_f64 ts_vfma_f64(ts_v_f64 s, ts_v_f64 x, ts_v_f64 y) { return s + x * y; }
VECTOR_INLINE ts_v_f32 ts_vfnma_f32(ts_v_f32 s, ts_v_f32 x, ts_v_f32 y) { return s - x * y; }
VECTOR_INLINE ts_v_f64 ts_vfnma_f64(ts_v_f64 s, ts_v_f64 x, ts_v_f64 y) { return s - x * y; }
#endif

/* Products of numbers that fit into 32 bits, in 64-bit lanes: signed for saturating integers, unsigned for residues. */
#if defined(TS_ISA_AVX512)
VECTOR_INLINE ts_v_i64 ts_vmul_ntimes_i64(ts_v_i64 x, ts_v_i64 y) { return (ts_v_i64)_mm512_mul_epi32((__m512i)x, (__m512i)y); }
VECTOR_INLINE ts_v_u64 ts_vmul_wide_u64(ts_v_u64 x, ts_v_u64 y) { return (ts_v_u64)_mm512_mul_epu32((__m512i)x, (__m512i)y); }
#elif defined(TS_ISA_AVX2)
VECTOR_INLINE ts_v_i64 ts_vmul_ntimes_i64(ts_v_i64 x, ts_v_i64 y) { return (ts_v_i64)_mm256_mul_epi32((__m256i)x, (__m256i)y); }
VECTOR_INLINE ts_v_u64 ts_vmul_wide_u64(ts_v_u64 x, ts_v_u64 y) { return (ts_v_u64)_mm256_mul_epu32((__m256i)x, (__m256i)y); }
#else
VECTOR_INLINE ts_v_i64 ts_vmul_ntimes_i64(ts_v_i64 x, ts_v_i64 y) { return ts_vmul_times_i64(x, y); }
VECTOR_INLINE ts_v_u64 ts_vmul_wide_u64(ts_v_u64 x, ts_v_u64 y) { return x * y; }
#endif
VECTOR_INLINE ts_v_i32 ts_vmul_ntimes_i32(ts_v_i32 x, ts_v_i32 y) { return ts_vmul_times_i32(x, y); }

/* ---- equality: a bit mask, ts_match_bits_<p> bits per lane, lane 0 lowest ---- */
#if defined(TS_ISA_AVX512)
#define TS_HAS_MATCH 1
VECTOR_INLINE uint64_t ts_vmatch_f32(ts_v_f32 x, ts_v_f32 y) { return _mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_EQ_OQ); }
VECTOR_INLINE uint64_t ts_vmatch_f64(ts_v_f64 x, ts_v_f64 y) { return _mm512_cmp_pd_mask((__m512d)x, (__m512d)y, _CMP_EQ_OQ); }
VECTOR_INLINE uint64_t ts_vmatch_i16(ts_v_i16 x, ts_v_i16 y) { return _mm512_cmpeq_epi16_mask((__m512i)x, (__m512i)y); }
VECTOR_INLINE uint64_t ts_vmatch_i32(ts_v_i32 x, ts_v_i32 y) { return _mm512_cmpeq_epi32_mask((__m512i)x, (__m512i)y); }
VECTOR_INLINE uint64_t ts_vmatch_i64(ts_v_i64 x, ts_v_i64 y) { return _mm512_cmpeq_epi64_mask((__m512i)x, (__m512i)y); }
enum { ts_match_bits_f32 = 1, ts_match_bits_f64 = 1, ts_match_bits_i16 = 1, ts_match_bits_i32 = 1, ts_match_bits_i64 = 1 };
#elif defined(TS_ISA_AVX2)
#define TS_HAS_MATCH 1
VECTOR_INLINE uint64_t ts_vmatch_f32(ts_v_f32 x, ts_v_f32 y) { return (uint32_t)_mm256_movemask_ps((__m256)(x == y)); }
VECTOR_INLINE uint64_t ts_vmatch_f64(ts_v_f64 x, ts_v_f64 y) { return (uint32_t)_mm256_movemask_pd((__m256d)(x == y)); }
VECTOR_INLINE uint64_t ts_vmatch_i16(ts_v_i16 x, ts_v_i16 y) { return (uint32_t)_mm256_movemask_epi8((__m256i)(x == y)); }
VECTOR_INLINE uint64_t ts_vmatch_i32(ts_v_i32 x, ts_v_i32 y) { return (uint32_t)_mm256_movemask_ps((__m256)(x == y)); }
VECTOR_INLINE uint64_t ts_vmatch_i64(ts_v_i64 x, ts_v_i64 y) { return (uint32_t)_mm256_movemask_pd((__m256d)(x == y)); }
enum { ts_match_bits_f32 = 1, ts_match_bits_f64 = 1, ts_match_bits_i16 = 2, ts_match_bits_i32 = 1, ts_match_bits_i64 = 1 };
#else
#define TS_HAS_MATCH 0
#endif

/* ---- bits: 64 booleans of the sum per lane ---- */
VECTOR_INLINE ts_v_u64 ts_vmul_and_u64(ts_v_u64 x, ts_v_u64 y) { return x & y; }
VECTOR_INLINE ts_v_u64 ts_vadd_or_u64(ts_v_u64 x, ts_v_u64 y) { return x | y; }
VECTOR_INLINE ts_v_u64 ts_vadd_xor_u64(ts_v_u64 x, ts_v_u64 y) { return x ^ y; }

#endif
