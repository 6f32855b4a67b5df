/* Rearranging cache lines with two-source permutations (AVX-512). */
#include <stddef.h>

#include "backend/cpu/shuffle.h"
#include "backend/cpu/isa.h"

#if defined(TS_ISA_AVX512)
#include <immintrin.h>

#define AHEAD 32 /* lines fetched before they are needed, where nothing else fetches them */

#define INLINE static inline __attribute__((always_inline))

INLINE __m512i pick(__m512i x, const ts_cpu_shuffle_order *indices, __m512i y, int bytes)
{
    const __m512i order = _mm512_loadu_si512(indices);
    return bytes == 4 ? _mm512_permutex2var_epi32(x, order, y) : _mm512_permutex2var_epi64(x, order, y);
}

INLINE void shuffle_lines(const ts_cpu_shuffle *s, const char *a, char *c, const int64_t *sources, const int64_t *targets,
                          int64_t count, const char *next, int stages, int bytes)
{
    const int lines = 1 << stages;
    const int64_t ahead = AHEAD >> stages;
    for (int64_t i = 0; i < count; i++) {
        __m512i x[TS_SHUFFLE_LINES];
        const char *coming = next == NULL ? NULL : i + ahead < count ? a + sources[i + ahead] : next + sources[(i + ahead) % count];
#pragma GCC unroll 16
        for (int r = 0; r < lines; r++) {
            x[r] = _mm512_loadu_si512(a + sources[i] + s->source[r]);
            if (next != NULL) {
                _mm_prefetch(coming + s->source[r], _MM_HINT_T0);
            }
        }
        if (stages == 0) {
            x[0] = pick(x[0], &s->low[0], x[0], bytes);
        }
#pragma GCC unroll 4
        for (int t = 0; t < stages; t++) {
#pragma GCC unroll 16
            for (int r = 0; r < lines; r++) {
                if ((r >> t & 1) == 0) {
                    const __m512i u = x[r], v = x[r | 1 << t];
                    x[r] = pick(u, &s->low[t], v, bytes);
                    x[r | 1 << t] = pick(u, &s->high[t], v, bytes);
                }
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < lines; r++) {
            _mm512_storeu_si512(c + targets[i] + s->target[r], x[r]);
        }
    }
}

#define BY_STAGES(bytes)                                                                                              \
    switch (s->stages) {                                                                                              \
    case 0: shuffle_lines(s, a, c, sources, targets, count, next, 0, bytes); break;                                         \
    case 1: shuffle_lines(s, a, c, sources, targets, count, next, 1, bytes); break;                                         \
    case 2: shuffle_lines(s, a, c, sources, targets, count, next, 2, bytes); break;                                         \
    case 3: shuffle_lines(s, a, c, sources, targets, count, next, 3, bytes); break;                                         \
    default: shuffle_lines(s, a, c, sources, targets, count, next, 4, bytes); break;                                        \
    }

static void lines4(const ts_cpu_shuffle *s, const char *a, char *c, const int64_t *sources, const int64_t *targets,
                   int64_t count, const char *next)
{
    BY_STAGES(4)
}

static void lines8(const ts_cpu_shuffle *s, const char *a, char *c, const int64_t *sources, const int64_t *targets,
                   int64_t count, const char *next)
{
    BY_STAGES(8)
}

extern const ts_cpu_shuffler ts_cpu_shuffler_avx512;
const ts_cpu_shuffler ts_cpu_shuffler_avx512 = {lines4, lines8};
#else
extern const ts_cpu_shuffler TS_CPU_NAME2(ts_cpu_shuffler, TS_ISA);
const ts_cpu_shuffler TS_CPU_NAME2(ts_cpu_shuffler, TS_ISA) = {0};
#endif
