/* Packing of every storage dtype, and what panels of floats hold. */
#include "backend/cpu/kernel.h"
#include "backend/cpu/vector.h"

/* Four rows of four elements, transposed: the memory pattern of one operand of every row-major product. */
typedef int32_t four32 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int64_t two64 __attribute__((vector_size(16), aligned(8), may_alias));
static inline __attribute__((always_inline)) void transpose32(const void *a, const void *b, const void *c, const void *d,
                                                              void *to, int64_t step)
{
    const four32 x = *(const four32 *)a, y = *(const four32 *)b, z = *(const four32 *)c, w = *(const four32 *)d;
    const four32 p = __builtin_shufflevector(x, y, 0, 4, 1, 5), q = __builtin_shufflevector(z, w, 0, 4, 1, 5);
    const four32 r = __builtin_shufflevector(x, y, 2, 6, 3, 7), s = __builtin_shufflevector(z, w, 2, 6, 3, 7);
    int32_t *out = to;
    *(four32 *)(void *)out = __builtin_shufflevector(p, q, 0, 1, 4, 5);
    *(four32 *)(void *)(out + step) = __builtin_shufflevector(p, q, 2, 3, 6, 7);
    *(four32 *)(void *)(out + 2 * step) = __builtin_shufflevector(r, s, 0, 1, 4, 5);
    *(four32 *)(void *)(out + 3 * step) = __builtin_shufflevector(r, s, 2, 3, 6, 7);
}
static inline __attribute__((always_inline)) void transpose64(const void *a, const void *b, const void *c, const void *d,
                                                              void *to, int64_t step)
{
    const int64_t *rows[4] = {a, b, c, d};
    int64_t *out = to;
    for (int half = 0; half < 4; half += 2) { /* columns half and half + 1 */
        const two64 x = *(const two64 *)(rows[0] + half), y = *(const two64 *)(rows[1] + half);
        const two64 z = *(const two64 *)(rows[2] + half), w = *(const two64 *)(rows[3] + half);
        *(two64 *)(out + half * step) = __builtin_shufflevector(x, y, 0, 2);
        *(two64 *)(out + half * step + 2) = __builtin_shufflevector(z, w, 0, 2);
        *(two64 *)(out + (half + 1) * step) = __builtin_shufflevector(x, y, 1, 3);
        *(two64 *)(out + (half + 1) * step + 2) = __builtin_shufflevector(z, w, 1, 3);
    }
}

#define TS_D f32
#define TS_P f32
#define TS_PACK_CONVERT(x, panel) (x)
#define TS_PACK_TRANSPOSES 1
#define TS_PACK_TRANSPOSE transpose32
#include "backend/cpu/pack.inc"
#define TS_D f64
#define TS_P f64
#define TS_PACK_CONVERT(x, panel) (x)
#define TS_PACK_TRANSPOSES 1
#define TS_PACK_TRANSPOSE transpose64
#include "backend/cpu/pack.inc"
#define TS_D f16
#define TS_P f32
#define TS_PACK_CONVERT(x, panel) ts_load_f16(x)
#include "backend/cpu/pack.inc"
#define TS_D bf16
#define TS_P f32
#define TS_PACK_CONVERT(x, panel) ts_load_bf16(x)
#include "backend/cpu/pack.inc"
#define TS_D i16
#define TS_P i16
#define TS_PACK_CONVERT(x, panel) (x)
#include "backend/cpu/pack.inc"
#define TS_D i16
#define TS_P i32
#define TS_PACK_CONVERT(x, panel) (x)
#include "backend/cpu/pack.inc"
#define TS_D i32
#define TS_P i32
#define TS_PACK_CONVERT(x, panel) (x)
#define TS_PACK_TRANSPOSES 1
#define TS_PACK_TRANSPOSE transpose32
#include "backend/cpu/pack.inc"
#define TS_D i32
#define TS_P i64
#define TS_PACK_CONVERT(x, panel) (x)
#include "backend/cpu/pack.inc"
#define TS_D i64
#define TS_P i64
#define TS_PACK_CONVERT(x, panel) (x)
#define TS_PACK_TRANSPOSES 1
#define TS_PACK_TRANSPOSE transpose64
#include "backend/cpu/pack.inc"
/* Residues: operands outside [0, modulus) are allowed where checking is off, and brought into it here. */
#define TS_D i64
#define TS_P u64
#define TS_PACK_CONVERT(x, panel)                                                                               \
    ((uint64_t)(x) < (uint64_t)(panel)->modulus ? (uint64_t)(x)                                                \
                                                 : (uint64_t)(((x) % (panel)->modulus + (panel)->modulus) % (panel)->modulus))
#include "backend/cpu/pack.inc"

/* ---- a panel of columns turned into cells: in each 16 bytes of vectors a square, by rounds of zips ---- */
#if defined(TS_ISA_AVX512)
typedef __m512i zipped;
#define ZIP(bits)                                                                                          \
    VECTOR_INLINE zipped zip_low_##bits(zipped x, zipped y) { return _mm512_unpacklo_epi##bits(x, y); }   \
    VECTOR_INLINE zipped zip_high_##bits(zipped x, zipped y) { return _mm512_unpackhi_epi##bits(x, y); }
VECTOR_INLINE zipped load_parts(const char *from, int64_t step) /* 16 bytes of every step */
{
    const __m128i *parts[4] = {(const __m128i *)(const void *)from, (const __m128i *)(const void *)(from + step),
                               (const __m128i *)(const void *)(from + 2 * step), (const __m128i *)(const void *)(from + 3 * step)};
    const __m512i two = _mm512_inserti32x4(_mm512_castsi128_si512(_mm_load_si128(parts[0])), _mm_load_si128(parts[1]), 1);
    return _mm512_inserti32x4(_mm512_inserti32x4(two, _mm_load_si128(parts[2]), 2), _mm_load_si128(parts[3]), 3);
}
#elif defined(TS_ISA_AVX2)
typedef __m256i zipped;
#define ZIP(bits)                                                                                          \
    VECTOR_INLINE zipped zip_low_##bits(zipped x, zipped y) { return _mm256_unpacklo_epi##bits(x, y); }   \
    VECTOR_INLINE zipped zip_high_##bits(zipped x, zipped y) { return _mm256_unpackhi_epi##bits(x, y); }
VECTOR_INLINE zipped load_parts(const char *from, int64_t step)
{
    const __m128i *low = (const __m128i *)(const void *)from, *high = (const __m128i *)(const void *)(from + step);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_load_si128(low)), _mm_load_si128(high), 1);
}
#else
typedef int8_t zipped __attribute__((vector_size(16), may_alias));
VECTOR_INLINE zipped load_parts(const char *from, int64_t step)
{
    (void)step;
    return *(const zipped *)(const void *)from;
}
#define ZIP_OF(bits, low, high)                                                                  \
    typedef int##bits##_t zipped_##bits __attribute__((vector_size(16), may_alias));             \
    VECTOR_INLINE zipped zip_low_##bits(zipped x, zipped y)                                      \
    {                                                                                            \
        return (zipped)SHUFFLE((zipped_##bits)x, (zipped_##bits)y, UNPACK low);  \
    }                                                                                            \
    VECTOR_INLINE zipped zip_high_##bits(zipped x, zipped y)                                     \
    {                                                                                            \
        return (zipped)SHUFFLE((zipped_##bits)x, (zipped_##bits)y, UNPACK high); \
    }
#define UNPACK(...) __VA_ARGS__
#define SHUFFLE(...) __builtin_shufflevector(__VA_ARGS__)
ZIP_OF(16, (0, 8, 1, 9, 2, 10, 3, 11), (4, 12, 5, 13, 6, 14, 7, 15))
ZIP_OF(32, (0, 4, 1, 5), (2, 6, 3, 7))
ZIP_OF(64, (0, 2), (1, 3))
#define ZIP(bits)
#endif
ZIP(16)
ZIP(32)
ZIP(64)

#define COLUMN_CELLS(p, bits)                                                                                           \
    void TS_CPU_NAME3(ts_cpu_column_cells, p, TS_ISA)(int64_t depth, const void *packed, int64_t line, void *cells);    \
    void TS_CPU_NAME3(ts_cpu_column_cells, p, TS_ISA)(int64_t depth, const void *packed, int64_t line, void *cells)     \
    {                                                                                                                   \
        enum { SIDE = TS_CELL_COLUMNS(ts_c_##p), STEP = TS_VECTOR_BYTES * 8 / bits, COLUMNS = TS_TILE_VECTORS * STEP }; \
        enum { BLOCK = TS_WINNER_BLOCK };                                                                               \
        const ts_c_##p *panel = packed;                                                                                 \
        int64_t k = 0;                                                                                                  \
        for (; k + STEP <= depth; k += STEP, panel += STEP * COLUMNS) {                                                 \
            for (int column = 0; column < COLUMNS; column += SIDE) {                                                    \
                ts_c_##p *to = (ts_c_##p *)cells + column * line +                                                      \
                               k / BLOCK * BLOCK * SIDE + k % BLOCK;                                                    \
                zipped r[SIDE], t[SIDE];                                                                                \
                _Pragma("GCC unroll 8") for (int i = 0; i < SIDE; i++)                                                  \
                {                                                                                                       \
                    r[i] = load_parts((const char *)(panel + i * COLUMNS + column), SIDE * COLUMNS * bits / 8);         \
                }                                                                                                       \
                _Pragma("GCC unroll 3") for (int n = 1; n < SIDE; n *= 2)                                               \
                {                                                                                                       \
                    _Pragma("GCC unroll 4") for (int i = 0; i < SIDE / 2; i++)                                          \
                    {                                                                                                   \
                        t[2 * i] = zip_low_##bits(r[i], r[i + SIDE / 2]);                                               \
                        t[2 * i + 1] = zip_high_##bits(r[i], r[i + SIDE / 2]);                                          \
                    }                                                                                                   \
                    _Pragma("GCC unroll 8") for (int i = 0; i < SIDE; i++) { r[i] = t[i]; }                             \
                }                                                                                                       \
                _Pragma("GCC unroll 8") for (int i = 0; i < SIDE; i++)                                                  \
                {                                                                                                       \
                    memcpy(to + i * BLOCK, &r[i], sizeof r[i]);                                                         \
                }                                                                                                       \
            }                                                                                                           \
        }                                                                                                               \
        for (; k < depth; k++, panel += COLUMNS) {                                                                      \
            for (int i = 0; i < COLUMNS; i++) {                                                                         \
                ts_c_##p *to = (ts_c_##p *)cells + i / SIDE * SIDE * line;                                              \
                to[(k / BLOCK * SIDE + i % SIDE) * BLOCK + k % BLOCK] = panel[i];                                       \
            }                                                                                                           \
        }                                                                                                               \
    }
COLUMN_CELLS(i16, 16)
COLUMN_CELLS(i32, 32)
COLUMN_CELLS(f32, 32)
COLUMN_CELLS(i64, 64)
COLUMN_CELLS(f64, 64)

#define SEEN(p, infinity)                                                                  \
    unsigned TS_CPU_NAME3(ts_cpu_seen, p, TS_ISA)(const ts_c_##p *x, int64_t count);      \
    unsigned TS_CPU_NAME3(ts_cpu_seen, p, TS_ISA)(const ts_c_##p *x, int64_t count)       \
    {                                                                                      \
        int nan = 0, plus = 0, minus = 0, zero = 0;                                        \
        for (int64_t i = 0; i < count; i++) {                                              \
            nan |= x[i] != x[i];                                                           \
            plus |= x[i] == infinity;                                                      \
            minus |= x[i] == -infinity;                                                    \
            zero |= x[i] == 0;                                                             \
        }                                                                                  \
        return (unsigned)(nan * TS_SEEN_NAN | plus * TS_SEEN_PLUS_INFINITY | minus * TS_SEEN_MINUS_INFINITY | \
                          zero * TS_SEEN_ZERO);                                            \
    }
SEEN(f32, TS_INFINITY_F32)
SEEN(f64, TS_INFINITY_F64)
unsigned TS_CPU_NAME3(ts_cpu_seen, i64, TS_ISA)(const int64_t *x, int64_t count);
unsigned TS_CPU_NAME3(ts_cpu_seen, i64, TS_ISA)(const int64_t *x, int64_t count)
{
    int64_t wide = 0;
    for (int64_t i = 0; i < count; i++) {
        wide |= (int64_t)(((uint64_t)x[i] + 0x80000000u) >> 32);
    }
    return wide != 0 ? TS_SEEN_WIDE : 0;
}

/* 64 bytes side by side, not 0 or 0, as bits: eight at a time by a multiplication that gathers their lowest bits. */
static inline __attribute__((always_inline)) uint64_t bits_of_bytes(const uint8_t *from)
{
#if defined(TS_ISA_AVX512)
    const __m512i bytes = _mm512_loadu_si512(from);
    return _mm512_test_epi8_mask(bytes, bytes);
#elif defined(TS_ISA_AVX2)
    const __m256i zero = _mm256_setzero_si256(), low = _mm256_loadu_si256((const __m256i *)(const void *)from);
    const __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(from + 32));
    const uint32_t low_zeros = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, zero));
    const uint32_t high_zeros = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, zero));
    return ~((uint64_t)high_zeros << 32 | low_zeros);
#else
    uint64_t word = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t bytes;
        memcpy(&bytes, from + 8 * i, 8);
        bytes |= bytes >> 4;
        bytes |= bytes >> 2;
        bytes |= bytes >> 1;
        bytes &= UINT64_C(0x0101010101010101);
        word |= (bytes * UINT64_C(0x0102040810204080)) >> 56 << (8 * i);
    }
    return word;
#endif
}

#if defined(TS_ISA_AVX512)
/* Words of 16 neighbouring rows: 64 depths of them turned into lines, whose bytes become bits at once. */
static void words_of_rows(const uint8_t *from, const int64_t *depths, uint64_t *to)
{
    zipped r[16], t[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        const __m128i *parts[4];
        for (int m = 0; m < 4; m++) {
            parts[m] = (const __m128i *)(const void *)(from + depths[i + 16 * m]);
        }
        const __m512i two = _mm512_inserti32x4(_mm512_castsi128_si512(_mm_loadu_si128(parts[0])), _mm_loadu_si128(parts[1]), 1);
        r[i] = _mm512_inserti32x4(_mm512_inserti32x4(two, _mm_loadu_si128(parts[2]), 2), _mm_loadu_si128(parts[3]), 3);
    }
#pragma GCC unroll 4
    for (int n = 1; n < 16; n *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            t[2 * i] = _mm512_unpacklo_epi8(r[i], r[i + 8]);
            t[2 * i + 1] = _mm512_unpackhi_epi8(r[i], r[i + 8]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            r[i] = t[i];
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        to[i] = _mm512_test_epi8_mask(r[i], r[i]);
    }
}
#define WORD_ROWS 16
#elif defined(TS_ISA_AVX2)
/* Words of 8 neighbouring rows: 32 depths of them, eight to 64 bits, turned so that two rows' bytes lie in a vector. */
static void words_of_rows(const uint8_t *from, const int64_t *depths, uint64_t *to)
{
    uint32_t zeros[2][8]; /* a bit where there is none */
    for (int half = 0; half < 2; half++, depths += 32) {
        zipped r[8], t[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) { /* depths i and 8 + i, and 16 on from both */
            __m128i parts[2];
#pragma GCC unroll 2
            for (int m = 0; m < 2; m++) {
                const __m128i low = _mm_loadl_epi64((const __m128i *)(const void *)(from + depths[16 * m + i]));
                const __m128i high = _mm_loadl_epi64((const __m128i *)(const void *)(from + depths[16 * m + 8 + i]));
                parts[m] = _mm_unpacklo_epi8(low, high);
            }
            r[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(parts[0]), parts[1], 1);
        }
#pragma GCC unroll 3
        for (int n = 1; n < 8; n *= 2) {
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                t[2 * i] = _mm256_unpacklo_epi8(r[i], r[i + 4]);
                t[2 * i + 1] = _mm256_unpackhi_epi8(r[i], r[i + 4]);
            }
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) {
                r[i] = t[i];
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            zeros[half][i] = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(r[i], _mm256_setzero_si256()));
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        to[i] = ~((uint64_t)zeros[1][i] << 32 | zeros[0][i]);
    }
}
#define WORD_ROWS 8
#endif

/* Booleans: 64 depths per word. */
static void words(const ts_cpu_panel *panel, uint64_t *to)
{
    const uint8_t *source = panel->source;
    const int64_t word_count = (panel->depth + 63) / 64;
    for (int64_t w = 0; w < word_count; w++) {
        const int64_t end = panel->depth - w * 64 < 64 ? panel->depth - w * 64 : 64;
        const int64_t *depths = panel->depths + w * 64;
        uint64_t *out = to + w * panel->width;
#ifdef WORD_ROWS
        if (panel->rows_unit && panel->count == WORD_ROWS && end == 64) {
            words_of_rows(source + panel->rows[0], depths, out);
            continue;
        }
#endif
        if (panel->rows_unit) { /* one depth of all rows at a time; eight depths make a byte of each row's word */
            uint8_t bytes[8][TS_MAX_TILE_COLUMNS] = {{0}};
            for (int64_t k = 0; k < end; k++) {
                const uint8_t *from = source + panel->rows[0] + depths[k];
                uint8_t *to_bytes = bytes[k / 8];
                for (int64_t i = 0; i < panel->count; i++) {
                    to_bytes[i] = (uint8_t)(to_bytes[i] | (from[i] != 0) << (k % 8));
                }
            }
            for (int64_t i = 0; i < panel->count; i++) {
                uint64_t word = 0;
                for (int byte = 0; byte < 8; byte++) {
                    word |= (uint64_t)bytes[byte][i] << (8 * byte);
                }
                out[i] = word;
            }
            continue;
        }
        for (int64_t i = 0; i < panel->count; i++) {
            const uint8_t *from = source + panel->rows[i];
            uint64_t word = 0;
            if (panel->depth_unit && end == 64) {
                word = bits_of_bytes(from + depths[0]);
            } else {
                for (int64_t k = 0; k < end; k++) {
                    word |= (uint64_t)(from[depths[k]] != 0) << k;
                }
            }
            out[i] = word;
        }
    }
}
unsigned TS_CPU_NAME3(ts_cpu_pack, words, TS_ISA)(const ts_cpu_panel *panel, void *packed);
unsigned TS_CPU_NAME3(ts_cpu_pack, words, TS_ISA)(const ts_cpu_panel *panel, void *packed)
{
    if (panel->count < panel->width) {
        memset(packed, 0, (size_t)(panel->width * ((panel->depth + 63) / 64)) * 8);
    }
    words(panel, packed);
    return 0;
}

/* Two planes per depth: real and imaginary parts, or values and counts. */
#define PLANES(d, p, first, second, flip)                                                                 \
    unsigned TS_CPU_NAME3(ts_cpu_pack, d, TS_ISA)(const ts_cpu_panel *panel, void *packed);              \
    unsigned TS_CPU_NAME3(ts_cpu_pack, d, TS_ISA)(const ts_cpu_panel *panel, void *packed)               \
    {                                                                                                     \
        const ts_s_##d *source = panel->source;                                                           \
        ts_c_##p *to = packed;                                                                            \
        const int64_t width = panel->width;                                                               \
        const ts_c_##p sign = flip && panel->conjugate ? -1 : 1;                                          \
        if (panel->count < width) {                                                                       \
            memset(to, 0, (size_t)(2 * width * panel->depth) * sizeof *to);                               \
        }                                                                                                 \
        for (int64_t k = 0; k < panel->depth; k++) {                                                      \
            const ts_s_##d *from = source + panel->depths[k];                                             \
            for (int64_t i = 0; i < panel->count; i++) {                                                  \
                to[2 * k * width + i] = from[panel->rows[i]].first;                                       \
                to[(2 * k + 1) * width + i] = sign * from[panel->rows[i]].second;                         \
            }                                                                                             \
        }                                                                                                 \
        return TS_CPU_NAME3(ts_cpu_seen, p, TS_ISA)(to, 2 * width * panel->depth);                        \
    }
PLANES(c64, f32, re, im, 1)
PLANES(c128, f64, re, im, 1)
PLANES(vc64, f32, value, count, 0)
PLANES(vc128, f64, value, count, 0)
