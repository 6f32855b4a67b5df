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
/* Numbers of blocks, see ts_vfollow: bytes, of which less has to be stored than of elements, or as wide as an element. */
#if defined(TS_ISA_AVX512) || defined(TS_ISA_AVX2)
#define BLOCK_TYPE(p, mask_element) typedef uint8_t ts_b_##p
#else
#define BLOCK_TYPE(p, mask_element) typedef mask_element ts_b_##p
#endif
#define VECTOR_TYPE(p, mask_element)                                                     \
    typedef ts_c_##p ts_v_##p __attribute__((vector_size(TS_VECTOR_BYTES), may_alias)); \
    BLOCK_TYPE(p, mask_element);                                                          \
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

/* ---- the block in which running maxima or minima last improved: its number where s is no longer what it was. s[2] are
 * neighbours. Of two equal terms the older one stays, so zeros of different sign count as the same; and NaN, which earlier terms
 * have left, stays what it was. ---- */
#if defined(TS_ISA_AVX512)
#define FOLLOW(p, family, type, not_equal, mask, join, load, select, store, set)                       \
    VECTOR_INLINE void ts_vfollow_##p(ts_b_##p *blocks, ts_b_##p number, const ts_v_##p s[2], const ts_v_##p old[2]) \
    {                                                                                                              \
        const mask low = _mm512_cmp_##family##_mask((type)s[0], (type)old[0], not_equal);                          \
        const mask high = _mm512_cmp_##family##_mask((type)s[1], (type)old[1], not_equal);                         \
        store(blocks, select(load(blocks), join(high, low), set((char)number)));                                   \
    }
#define LOAD16(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define LOAD32(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define LOAD64(p) _mm512_loadu_si512((const void *)(p))
#define STORE16(p, x) _mm_storeu_si128((__m128i *)(void *)(p), x)
#define STORE32(p, x) _mm256_storeu_si256((__m256i *)(void *)(p), x)
#define STORE64(p, x) _mm512_storeu_si512((void *)(p), x)
FOLLOW(f32, ps, __m512, _CMP_NEQ_OQ, __mmask16, _mm512_kunpackw, LOAD32, _mm256_mask_mov_epi8, STORE32, _mm256_set1_epi8)
FOLLOW(f64, pd, __m512d, _CMP_NEQ_OQ, __mmask8, _mm512_kunpackb, LOAD16, _mm_mask_mov_epi8, STORE16, _mm_set1_epi8)
FOLLOW(i16, epi16, __m512i, _MM_CMPINT_NE, __mmask32, _mm512_kunpackd, LOAD64, _mm512_mask_mov_epi8, STORE64, _mm512_set1_epi8)
FOLLOW(i32, epi32, __m512i, _MM_CMPINT_NE, __mmask16, _mm512_kunpackw, LOAD32, _mm256_mask_mov_epi8, STORE32, _mm256_set1_epi8)
FOLLOW(i64, epi64, __m512i, _MM_CMPINT_NE, __mmask8, _mm512_kunpackb, LOAD16, _mm_mask_mov_epi8, STORE16, _mm_set1_epi8)
#elif defined(TS_ISA_AVX2)
/* Two vectors of comparisons, each 32 bits of them made one byte. */
VECTOR_INLINE __m128i ts_pack_same(__m256i low, __m256i high)
{
    const __m256i words = _mm256_packs_epi32(low, high); /* halves: the first of both, the second of both */
    return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}
#define SAME_NUMBERS(x, y) (__m256i)((x) == (y))
#define SAME_F32(x, y) (__m256i)_mm256_cmp_ps((__m256)(x), (__m256)(y), _CMP_EQ_UQ)
#define SAME_F64(x, y) (__m256i)_mm256_cmp_pd((__m256d)(x), (__m256d)(y), _CMP_EQ_UQ)
#define FOLLOW4(p, same_as)                                                                                        \
    VECTOR_INLINE void ts_vfollow_##p(ts_b_##p *blocks, ts_b_##p number, const ts_v_##p s[2], const ts_v_##p old[2]) \
    {                                                                                                              \
        const __m128i same = ts_pack_same(same_as(s[0], old[0]), same_as(s[1], old[1]));                           \
        __m128i *to = (__m128i *)(void *)blocks;                                                                   \
        _mm_storeu_si128(to, _mm_blendv_epi8(_mm_set1_epi8((char)number), _mm_loadu_si128(to), _mm_shuffle_epi32(same, 0xd8))); \
    }
#define FOLLOW8(p, same_as)                                                                                        \
    VECTOR_INLINE void ts_vfollow_##p(ts_b_##p *blocks, ts_b_##p number, const ts_v_##p s[2], const ts_v_##p old[2]) \
    {                                                                                                              \
        const __m128i order = _mm_setr_epi8(0, 2, 8, 10, 4, 6, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0);                    \
        const __m128i same = ts_pack_same(same_as(s[0], old[0]), same_as(s[1], old[1]));                           \
        __m128i *to = (__m128i *)(void *)blocks;                                                                   \
        _mm_storel_epi64(to, _mm_blendv_epi8(_mm_set1_epi8((char)number), _mm_loadl_epi64(to), _mm_shuffle_epi8(same, order))); \
    }
VECTOR_INLINE void ts_vfollow_i16(ts_b_i16 *blocks, ts_b_i16 number, const ts_v_i16 s[2], const ts_v_i16 old[2])
{
    const __m256i same = _mm256_packs_epi16((__m256i)(s[0] == old[0]), (__m256i)(s[1] == old[1]));
    __m256i *to = (__m256i *)(void *)blocks;
    _mm256_storeu_si256(to, _mm256_blendv_epi8(_mm256_set1_epi8((char)number), _mm256_loadu_si256(to), _mm256_permute4x64_epi64(same, 0xd8)));
}
FOLLOW4(f32, SAME_F32)
FOLLOW4(i32, SAME_NUMBERS)
FOLLOW8(f64, SAME_F64)
FOLLOW8(i64, SAME_NUMBERS)
#else
#define FOLLOW(p)                                                                                                  \
    VECTOR_INLINE void ts_vfollow_##p(ts_b_##p *blocks, ts_b_##p number, const ts_v_##p s[2], const ts_v_##p old[2]) \
    {                                                                                                              \
        ts_m_##p *to = (ts_m_##p *)blocks;                                                                         \
        for (int j = 0; j < 2; j++) {                                                                              \
            const ts_m_##p same = (ts_m_##p)(s[j] == old[j]) | (ts_m_##p)(s[j] != s[j]);                           \
            to[j] = (to[j] & same) | ((number - (ts_m_##p){0}) & ~same);                                           \
        }                                                                                                          \
    }
FOLLOW(f32)
FOLLOW(f64)
FOLLOW(i16)
FOLLOW(i32)
FOLLOW(i64)
#endif

/* ---- floats in half vectors: some machines take maxima of those at twice the rate, with all 32 registers ---- */
#if defined(TS_ISA_AVX512)
#define TS_HAS_HALVES 1
#define HALF(p, suffix, type, join)                                                              \
    typedef ts_c_##p ts_h_##p __attribute__((vector_size(32), may_alias));                                          \
    VECTOR_INLINE ts_h_##p ts_hadd_max_##p(ts_h_##p best, ts_h_##p term)                                            \
    {                                                                                                                \
        return (ts_h_##p)_mm256_max_##suffix((type)term, (type)best);                                               \
    }                                                                                                                \
    VECTOR_INLINE ts_h_##p ts_hadd_min_##p(ts_h_##p best, ts_h_##p term)                                            \
    {                                                                                                                \
        return (ts_h_##p)_mm256_min_##suffix((type)term, (type)best);                                               \
    }                                                                                                                \
    VECTOR_INLINE ts_h_##p ts_hfma_##p(ts_h_##p s, ts_h_##p x, ts_h_##p y)                                          \
    {                                                                                                                \
        return (ts_h_##p)_mm256_fmadd_##suffix((type)x, (type)y, (type)s);                                          \
    }                                                                                                                \
    VECTOR_INLINE void ts_hfollow_##p(ts_b_##p *blocks, ts_b_##p number, const ts_h_##p s[2], const ts_h_##p old[2]) \
    {                                                                                                                \
        const __mmask8 low = _mm256_cmp_##suffix##_mask((type)s[0], (type)old[0], _CMP_NEQ_OQ);                      \
        const __mmask8 high = _mm256_cmp_##suffix##_mask((type)s[1], (type)old[1], _CMP_NEQ_OQ);                     \
        const __mmask16 changed = join; /* masks stay where they are: by way of integers it takes thrice as long */  \
        _mm_mask_storeu_epi8(blocks, changed, _mm_set1_epi8((char)number));                                          \
    }
HALF(f32, ps, __m256, _mm512_kunpackb(high, low))
HALF(f64, pd, __m256d, _kor_mask8(low, _kshiftli_mask8(high, 4)))
#else
#define TS_HAS_HALVES 0
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

#if defined(TS_ISA_AVX512) || defined(TS_ISA_AVX2)
#define TS_HAS_FMA 1
#else
#define TS_HAS_FMA 0
#endif

/* ts_store_f16 of a row, count a multiple of 16: the instruction keeps what a NaN carries. */
#if defined(TS_ISA_AVX512)
#define TS_STORES_ROWS_f16 1
VECTOR_INLINE void ts_store_row_f16(uint16_t *to, const float *from, int count)
{
    for (int i = 0; i < count; i += 16) {
        const __m512 x = _mm512_loadu_ps(from + i);
        const __m256i half = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
        const __m256i nan = _mm256_or_si256(_mm256_and_si256(half, _mm256_set1_epi16(INT16_MIN)), _mm256_set1_epi16(0x7e00));
        _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_mask_mov_epi16(half, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan));
    }
}
#elif defined(TS_ISA_AVX2)
#define TS_STORES_ROWS_f16 1
VECTOR_INLINE void ts_store_row_f16(uint16_t *to, const float *from, int count)
{
    for (int i = 0; i < count; i += 8) {
        const __m256 x = _mm256_loadu_ps(from + i);
        const __m256i unordered = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
        const __m128i half = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
        const __m128i nan = _mm_or_si128(_mm_and_si128(half, _mm_set1_epi16(INT16_MIN)), _mm_set1_epi16(0x7e00));
        const __m128i mask = _mm_packs_epi32(_mm256_castsi256_si128(unordered), _mm256_extracti128_si256(unordered, 1));
        _mm_storeu_si128((__m128i *)(void *)(to + i), _mm_blendv_epi8(half, nan, mask));
    }
}
#endif

/* Keeps the compiler from seeing what a vector holds, as it would turn fma(x, 1, y) into the addition it stands for. */
#if defined(TS_ISA_AVX512)
#define HIDE(v) __asm__("" : "+v"(v))
#elif defined(TS_ISA_AVX2)
#define HIDE(v) __asm__("" : "+x"(v))
#else
#define HIDE(v) ((void)0)
#endif

/* Keeps the compiler from knowing that memory read through the pointer has been read before. */
#define HIDE_POINTER(p) __asm__("" : "+r"(p))

/* ---- rounding to storage; NaN does not matter ---- */
#define ROUND_LANES(p, d)                                                      \
    VECTOR_INLINE ts_v_##p ts_vround_##d(ts_v_##p x)                           \
    {                                                                          \
        for (int i = 0; i < TS_VECTOR_BYTES / (int)sizeof(ts_c_##p); i++) {   \
            x[i] = ts_round_##d(x[i]);                                         \
        }                                                                      \
        return x;                                                              \
    }
#if defined(TS_ISA_AVX512)
VECTOR_INLINE ts_v_f32 ts_vround_f16(ts_v_f32 x)
{
    return (ts_v_f32)_mm512_cvtph_ps(_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif defined(TS_ISA_AVX2)
VECTOR_INLINE ts_v_f32 ts_vround_f16(ts_v_f32 x)
{
    return (ts_v_f32)_mm256_cvtph_ps(_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#else
ROUND_LANES(f32, f16)
#endif
#if TS_HAS_HALVES
VECTOR_INLINE ts_h_f32 ts_hround_f16(ts_h_f32 x)
{
    return (ts_h_f32)_mm256_cvtph_ps(_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VECTOR_INLINE ts_h_f32 ts_hround_bf16(ts_h_f32 x)
{
    typedef uint32_t bits __attribute__((vector_size(32)));
    const bits b = (bits)x;
    return (ts_h_f32)((b + 0x7fffu + ((b >> 16) & 1u)) & 0xffff0000u);
}
#endif
VECTOR_INLINE ts_v_f32 ts_vround_bf16(ts_v_f32 x) /* to nearest, ties to even */
{
    typedef uint32_t bits __attribute__((vector_size(TS_VECTOR_BYTES)));
    const bits b = (bits)x;
    return (ts_v_f32)((b + 0x7fffu + ((b >> 16) & 1u)) & 0xffff0000u);
}
VECTOR_INLINE ts_v_i32 ts_vround_i16(ts_v_i32 x)
{
    return ts_vmax_i32(ts_vmin_i32(x, INT16_MAX - (ts_v_i32){0}), INT16_MIN - (ts_v_i32){0});
}
VECTOR_INLINE ts_v_i64 ts_vround_i32(ts_v_i64 x)
{
    return ts_vmax_i64(ts_vmin_i64(x, INT32_MAX - (ts_v_i64){0}), INT32_MIN - (ts_v_i64){0});
}

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

/* Products of integers that are not negative, saturated. A product seen in double precision to be below 2^64 is exact. */
#if defined(TS_ISA_AVX512)
VECTOR_INLINE ts_v_i64 ts_vsaturate_i64(ts_v_i64 x, ts_v_i64 y)
{
    const __m512i product = _mm512_mullo_epi64((__m512i)x, (__m512i)y);
    const __m512d estimate = _mm512_mul_pd(_mm512_cvtepi64_pd((__m512i)x), _mm512_cvtepi64_pd((__m512i)y));
    const __mmask8 over = _mm512_cmp_pd_mask(estimate, _mm512_set1_pd(1.2e19), _CMP_GE_OQ) | _mm512_movepi64_mask(product);
    return (ts_v_i64)_mm512_mask_mov_epi64(product, over, _mm512_set1_epi64(INT64_MAX));
}
#else
VECTOR_INLINE ts_v_i64 ts_vsaturate_i64(ts_v_i64 x, ts_v_i64 y)
{
    for (int i = 0; i < TS_VECTOR_BYTES / 8; i++) {
        x[i] = ts_ntimes_i64(x[i], y[i], 0);
    }
    return x;
}
#endif

/* ---- element i of 16 bytes in all lanes ---- */
#if defined(TS_ISA_AVX512) /* loaded once: loads are what a search in the first-level cache waits for */
typedef __m512i ts_few;
VECTOR_INLINE ts_few ts_load_few(const void *from) { return _mm512_castsi128_si512(_mm_load_si128(from)); }
#define SPREAD(p, bits)                                                            \
    VECTOR_INLINE ts_v_##p ts_vspread_##p(ts_few few, int i)                       \
    {                                                                              \
        return (ts_v_##p)_mm512_permutexvar_epi##bits(_mm512_set1_epi##bits((int##bits##_t)i), few); \
    }
SPREAD(f32, 32)
SPREAD(f64, 64)
SPREAD(i16, 16)
SPREAD(i32, 32)
SPREAD(i64, 64)
#else
typedef const void *ts_few;
VECTOR_INLINE ts_few ts_load_few(const void *from) { return from; }
#define SPREAD(p) \
    VECTOR_INLINE ts_v_##p ts_vspread_##p(ts_few few, int i) { return ((const ts_c_##p *)few)[i] - (ts_v_##p){0}; }
SPREAD(f32)
SPREAD(f64)
SPREAD(i16)
SPREAD(i32)
SPREAD(i64)
#endif

/* ---- equality: a bit mask, ts_match_bits_<p> bits per lane, lane 0 lowest ---- */
#if defined(TS_ISA_AVX512)
VECTOR_INLINE uint64_t ts_vmatch_f32(ts_v_f32 x, ts_v_f32 y) { return _mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_EQ_OQ); }
VECTOR_INLINE uint64_t ts_vmatch_f64(ts_v_f64 x, ts_v_f64 y) { return _mm512_cmp_pd_mask((__m512d)x, (__m512d)y, _CMP_EQ_OQ); }
VECTOR_INLINE uint64_t ts_vmatch_i16(ts_v_i16 x, ts_v_i16 y) { return _mm512_cmpeq_epi16_mask((__m512i)x, (__m512i)y); }
VECTOR_INLINE uint64_t ts_vmatch_i32(ts_v_i32 x, ts_v_i32 y) { return _mm512_cmpeq_epi32_mask((__m512i)x, (__m512i)y); }
VECTOR_INLINE uint64_t ts_vmatch_i64(ts_v_i64 x, ts_v_i64 y) { return _mm512_cmpeq_epi64_mask((__m512i)x, (__m512i)y); }
enum { ts_match_bits_f32 = 1, ts_match_bits_f64 = 1, ts_match_bits_i16 = 1, ts_match_bits_i32 = 1, ts_match_bits_i64 = 1 };
#define JOIN2(p)                                                                                                   \
    VECTOR_INLINE uint64_t ts_vmatches_##p(const ts_v_##p t[2], ts_v_##p y)                                        \
    {                                                                                                              \
        return _mm512_kunpackw((__mmask16)ts_vmatch_##p(t[1], y), (__mmask16)ts_vmatch_##p(t[0], y)); \
    }
#define JOIN4(p)                                                                                                   \
    VECTOR_INLINE uint64_t ts_vmatches_##p(const ts_v_##p t[4], ts_v_##p y)                                        \
    {                                                                                                              \
        const __mmask16 low = _mm512_kunpackb((__mmask8)ts_vmatch_##p(t[1], y), (__mmask8)ts_vmatch_##p(t[0], y)); \
        const __mmask16 high = _mm512_kunpackb((__mmask8)ts_vmatch_##p(t[3], y), (__mmask8)ts_vmatch_##p(t[2], y)); \
        return _mm512_kunpackw(high, low); \
    }
JOIN2(f32)
JOIN4(f64)
JOIN2(i32)
JOIN4(i64)
VECTOR_INLINE uint64_t ts_vmatches_i16(const ts_v_i16 t[1], ts_v_i16 y) { return ts_vmatch_i16(t[0], y); }
#elif defined(TS_ISA_AVX2)
VECTOR_INLINE uint64_t ts_vmatch_f32(ts_v_f32 x, ts_v_f32 y) { return (uint32_t)_mm256_movemask_ps((__m256)(x == y)); }
VECTOR_INLINE uint64_t ts_vmatch_f64(ts_v_f64 x, ts_v_f64 y) { return (uint32_t)_mm256_movemask_pd((__m256d)(x == y)); }
VECTOR_INLINE uint64_t ts_vmatch_i16(ts_v_i16 x, ts_v_i16 y) { return (uint32_t)_mm256_movemask_epi8((__m256i)(x == y)); }
VECTOR_INLINE uint64_t ts_vmatch_i32(ts_v_i32 x, ts_v_i32 y) { return (uint32_t)_mm256_movemask_ps((__m256)(x == y)); }
VECTOR_INLINE uint64_t ts_vmatch_i64(ts_v_i64 x, ts_v_i64 y) { return (uint32_t)_mm256_movemask_pd((__m256d)(x == y)); }
enum { ts_match_bits_f32 = 1, ts_match_bits_f64 = 1, ts_match_bits_i16 = 2, ts_match_bits_i32 = 1, ts_match_bits_i64 = 1 };
#elif defined(__SSE2__)
VECTOR_INLINE uint64_t ts_vmatch_f32(ts_v_f32 x, ts_v_f32 y) { return (uint32_t)_mm_movemask_ps((__m128)(x == y)); }
VECTOR_INLINE uint64_t ts_vmatch_f64(ts_v_f64 x, ts_v_f64 y) { return (uint32_t)_mm_movemask_pd((__m128d)(x == y)); }
VECTOR_INLINE uint64_t ts_vmatch_i16(ts_v_i16 x, ts_v_i16 y) { return (uint32_t)_mm_movemask_epi8((__m128i)(x == y)); }
VECTOR_INLINE uint64_t ts_vmatch_i32(ts_v_i32 x, ts_v_i32 y) { return (uint32_t)_mm_movemask_ps((__m128)(x == y)); }
VECTOR_INLINE uint64_t ts_vmatch_i64(ts_v_i64 x, ts_v_i64 y) { return (uint32_t)_mm_movemask_pd((__m128d)(x == y)); }
enum { ts_match_bits_f32 = 1, ts_match_bits_f64 = 1, ts_match_bits_i16 = 2, ts_match_bits_i32 = 1, ts_match_bits_i64 = 1 };
#else
#define MATCH(p)                                                                    \
    enum { ts_match_bits_##p = 1 };                                                 \
    VECTOR_INLINE uint64_t ts_vmatch_##p(ts_v_##p x, ts_v_##p y)                   \
    {                                                                               \
        uint64_t hits = 0;                                                          \
        for (int i = 0; i < TS_VECTOR_BYTES / (int)sizeof(ts_c_##p); i++) {        \
            hits |= (uint64_t)(x[i] == y[i]) << i;                                  \
        }                                                                           \
        return hits;                                                                \
    }
MATCH(f32)
MATCH(f64)
MATCH(i16)
MATCH(i32)
MATCH(i64)
#endif
/* The same for all vectors of a cell, at most 32 bits. */
#if !defined(TS_ISA_AVX512)
#define MATCHES(p)                                                                                        \
    VECTOR_INLINE uint64_t ts_vmatches_##p(const ts_v_##p *t, ts_v_##p y)                                 \
    {                                                                                                     \
        const int lanes = TS_VECTOR_BYTES / (int)sizeof(ts_c_##p);                                        \
        uint64_t hits = 0;                                                                                \
        for (int v = 0; v < TS_WINNER_BLOCK / lanes; v++) {                                               \
            hits |= ts_vmatch_##p(t[v], y) << (v * lanes * ts_match_bits_##p);                            \
        }                                                                                                 \
        return hits;                                                                                      \
    }
MATCHES(f32)
MATCHES(f64)
MATCHES(i16)
MATCHES(i32)
MATCHES(i64)
#endif
/* The lowest of these bits; where there is none, 32 or more. */
#if defined(__BMI__)
VECTOR_INLINE int ts_lowest_bit(uint64_t hits) { return (int)_tzcnt_u64(hits); }
#else
VECTOR_INLINE int ts_lowest_bit(uint64_t hits) { return __builtin_ctzll(hits | UINT64_C(1) << 32); }
#endif

/* ---- bits: 64 booleans of the sum per lane ---- */
VECTOR_INLINE ts_v_u64 ts_vmul_and_u64(ts_v_u64 x, ts_v_u64 y) { return x & y; }
VECTOR_INLINE ts_v_u64 ts_vadd_or_u64(ts_v_u64 x, ts_v_u64 y) { return x | y; }
VECTOR_INLINE ts_v_u64 ts_vadd_xor_u64(ts_v_u64 x, ts_v_u64 y) { return x ^ y; }

#endif
