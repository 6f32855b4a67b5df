/* Rearranging lines with two-source permutations: of any parts of whole cache lines by AVX-512, of 4-byte parts of 32 bytes
 * or bytes of 16 by AVX2, of bytes of 16 by NEON. */
#include <stddef.h>
#include <string.h>

#include "backend/cpu/shuffle.h"
#include "backend/cpu/isa.h"

extern const ts_cpu_shuffler TS_CPU_NAME2(ts_cpu_shufflers, TS_ISA)[TS_SHUFFLERS];

extern ts_cpu_stream_lines TS_CPU_NAME2(ts_cpu_stream_lines, TS_ISA);

#define SHUFFLE_BYTES_AHEAD 4096 /* prefetched before they are needed */

#if defined(TS_ISA_AVX512) || defined(TS_ISA_AVX2)
#include <immintrin.h>
#elif defined(__x86_64__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

void TS_CPU_NAME2(ts_cpu_stream_lines, TS_ISA)(char *to, const char *from, int64_t lines)
{
#if defined(__x86_64__)
    if (lines == 0) {
        _mm_sfence();
    }
#endif
    for (int64_t i = 0; i < lines; i++, to += TS_LINE_BYTES, from += TS_LINE_BYTES) {
#if defined(TS_ISA_AVX512)
        _mm512_stream_si512((__m512i *)(void *)to, _mm512_loadu_si512(from));
#elif defined(TS_ISA_AVX2)
        const __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)from);
        const __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(from + 32));
        _mm256_stream_si256((__m256i *)(void *)to, low);
        _mm256_stream_si256((__m256i *)(void *)(to + 32), high);
#elif defined(__x86_64__)
        for (int j = 0; j < TS_LINE_BYTES; j += 16) {
            _mm_stream_si128((__m128i *)(void *)(to + j), _mm_loadu_si128((const __m128i *)(const void *)(from + j)));
        }
#else
        memcpy(to, from, TS_LINE_BYTES);
#endif
    }
}

#if defined(TS_ISA_AVX512) || defined(TS_ISA_AVX2)
/* Bytes of two vectors of 16: an index from 16 on is of the second. */
static inline __attribute__((always_inline)) __m128i pick_bytes(__m128i x, __m128i order, __m128i y)
{
    const __m128i first = _mm_adds_epu8(order, _mm_set1_epi8(0x70)), second = _mm_sub_epi8(order, _mm_set1_epi8(16));
    return _mm_or_si128(_mm_shuffle_epi8(x, first), _mm_shuffle_epi8(y, second)); /* those with the highest bit give 0 */
}
#define SHUFFLE_NAME bytes16
#define SHUFFLE_TARGET
#define SHUFFLE_VECTOR __m128i
#define SHUFFLE_LOAD(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define SHUFFLE_STORE(p, x) _mm_storeu_si128((__m128i *)(void *)(p), x)
#define SHUFFLE_PICK(x, order, y) pick_bytes(x, order, y)
#define SHUFFLE_HELD 3
#include "backend/cpu/shuffle.inc"
#endif

#if defined(TS_ISA_AVX512)
#define LOAD512(p) _mm512_loadu_si512(p)
#define STORE512(p, x) _mm512_storeu_si512(p, x)

#define SHUFFLE_NAME lines2
#define SHUFFLE_TARGET
#define SHUFFLE_VECTOR __m512i
#define SHUFFLE_LOAD(p) LOAD512(p)
#define SHUFFLE_STORE(p, x) STORE512(p, x)
#define SHUFFLE_PICK(x, order, y) _mm512_permutex2var_epi16(x, order, y)
#define SHUFFLE_HELD 4
#include "backend/cpu/shuffle.inc"

#define SHUFFLE_NAME lines4
#define SHUFFLE_TARGET
#define SHUFFLE_VECTOR __m512i
#define SHUFFLE_LOAD(p) LOAD512(p)
#define SHUFFLE_STORE(p, x) STORE512(p, x)
#define SHUFFLE_PICK(x, order, y) _mm512_permutex2var_epi32(x, order, y)
#define SHUFFLE_HELD 4
#include "backend/cpu/shuffle.inc"

#define SHUFFLE_NAME lines8
#define SHUFFLE_TARGET
#define SHUFFLE_VECTOR __m512i
#define SHUFFLE_LOAD(p) LOAD512(p)
#define SHUFFLE_STORE(p, x) STORE512(p, x)
#define SHUFFLE_PICK(x, order, y) _mm512_permutex2var_epi64(x, order, y)
#define SHUFFLE_HELD 4
#include "backend/cpu/shuffle.inc"

const ts_cpu_shuffler ts_cpu_shufflers_avx512[TS_SHUFFLERS] = {
    {bytes16, 16, 1, NULL}, {lines2, 64, 2, NULL}, {lines4, 64, 4, NULL}, {lines8, 64, 8, NULL}};

/* Permutations of bytes came later (VBMI). */
#define SHUFFLE_NAME lines1
#define SHUFFLE_TARGET __attribute__((target("avx512vbmi")))
#define SHUFFLE_VECTOR __m512i
#define SHUFFLE_LOAD(p) LOAD512(p)
#define SHUFFLE_STORE(p, x) STORE512(p, x)
#define SHUFFLE_PICK(x, order, y) _mm512_permutex2var_epi8(x, order, y)
#define SHUFFLE_HELD 4
#include "backend/cpu/shuffle.inc"

extern const ts_cpu_shuffler ts_cpu_shufflers_avx512vbmi[TS_SHUFFLERS];
const ts_cpu_shuffler ts_cpu_shufflers_avx512vbmi[TS_SHUFFLERS] = {
    {lines1, 64, 1, NULL}, {lines2, 64, 2, NULL}, {lines4, 64, 4, NULL}, {lines8, 64, 8, NULL}};
#elif defined(TS_ISA_AVX2)
/* Parts of 4 bytes of two vectors of 32: an index from 8 on is of the second. */
static inline __attribute__((always_inline)) __m256i pick_parts(__m256i x, __m256i order, __m256i y)
{
    const __m256i second = _mm256_slli_epi32(order, 28);
    return _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(_mm256_permutevar8x32_epi32(x, order)),
                                                _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(y, order)),
                                                _mm256_castsi256_ps(second)));
}
#define SHUFFLE_NAME parts32
#define SHUFFLE_TARGET
#define SHUFFLE_VECTOR __m256i
#define SHUFFLE_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define SHUFFLE_STORE(p, x) _mm256_storeu_si256((__m256i *)(void *)(p), x)
#define SHUFFLE_PICK(x, order, y) pick_parts(x, order, y)
#define SHUFFLE_HELD 3
#include "backend/cpu/shuffle.inc"

#define SQUARE_BITS 8
#include "backend/cpu/square.inc"
#define SQUARE_BITS 16
#include "backend/cpu/square.inc"

const ts_cpu_shuffler ts_cpu_shufflers_avx2[TS_SHUFFLERS] = {
    {bytes16, 16, 1, square_8}, {bytes16, 16, 1, square_16}, {parts32, 32, 4, NULL}, {parts32, 32, 4, NULL}};
#elif defined(__aarch64__)
static inline __attribute__((always_inline)) uint8x16_t pick_bytes(uint8x16_t x, uint8x16_t order, uint8x16_t y)
{
    const uint8x16x2_t both = {{x, y}};
    return vqtbl2q_u8(both, order);
}
#define SHUFFLE_NAME bytes16
#define SHUFFLE_TARGET
#define SHUFFLE_VECTOR uint8x16_t
#define SHUFFLE_LOAD(p) vld1q_u8((const uint8_t *)(p))
#define SHUFFLE_STORE(p, x) vst1q_u8((uint8_t *)(p), x)
#define SHUFFLE_PICK(x, order, y) pick_bytes(x, order, y)
#define SHUFFLE_HELD 4
#include "backend/cpu/shuffle.inc"

const ts_cpu_shuffler ts_cpu_shufflers_generic[TS_SHUFFLERS] = {
    {bytes16, 16, 1, NULL}, {bytes16, 16, 1, NULL}, {bytes16, 16, 1, NULL}, {bytes16, 16, 1, NULL}};
#else
const ts_cpu_shuffler TS_CPU_NAME2(ts_cpu_shufflers, TS_ISA)[TS_SHUFFLERS] = {{NULL, 0, 0, NULL}};
#endif
