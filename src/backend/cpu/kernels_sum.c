/* sum_product of real numbers and wrapping integers, and the two Boolean semirings on words of 64 depths. */
#include "backend/cpu/kernel.h"
#include "backend/cpu/vector.h"

/* The dtype's name is pasted into names of functions, so it must not be a macro here. */
#undef bool
typedef _Bool bool;

#define FUSED(s, x, y) TS_CPU_NAME2(ts_vfma, SUM_P)(s, x, y)
#define WRAPPED(s, x, y) TS_CPU_NAME2(ts_vadd_sum, SUM_P)(s, TS_CPU_NAME2(ts_vmul_times, SUM_P)(x, y))
#define SUM_D f32
#define SUM_P f32
#define SUM_STEP FUSED
#include "backend/cpu/sum_product.inc"
#define SUM_D f64
#define SUM_P f64
#define SUM_STEP FUSED
#include "backend/cpu/sum_product.inc"
#define SUM_D f16
#define SUM_P f32
#define SUM_STEP FUSED
#include "backend/cpu/sum_product.inc"
#define SUM_D bf16
#define SUM_P f32
#define SUM_STEP FUSED
#include "backend/cpu/sum_product.inc"
#define SUM_D i16
#define SUM_P i16
#define SUM_STEP WRAPPED
#include "backend/cpu/sum_product.inc"
#define SUM_D i32
#define SUM_P i32
#define SUM_STEP WRAPPED
#include "backend/cpu/sum_product.inc"
#define SUM_D i64
#define SUM_P i64
#define SUM_STEP WRAPPED
#include "backend/cpu/sum_product.inc"

/* or_and with winners: accumulators keep the first word that has a bit, and its number. */
#define WORD_ROWS 2
static void first_words(int64_t depth, const void *packed_a, const void *packed_b, void *accumulators, void *block_numbers,
                        int64_t block)
{
    enum { LANES = TS_VECTOR_BYTES / 8, COLUMNS = TS_TILE_VECTORS * LANES };
    for (int row = 0; row < TS_TILE_ROWS; row += WORD_ROWS) {
        const uint64_t *a = (const uint64_t *)packed_a + row, *b = packed_b;
        ts_v_u64 *to = (ts_v_u64 *)accumulators + row * TS_TILE_VECTORS, s[WORD_ROWS][TS_TILE_VECTORS];
        ts_m_u64 *numbers = (ts_m_u64 *)block_numbers + row * TS_TILE_VECTORS, n[WORD_ROWS][TS_TILE_VECTORS];
        memcpy(s, to, sizeof s);
        memcpy(n, numbers, sizeof n);
        for (int64_t w = 0; w < depth; w++, a += TS_TILE_ROWS, b += COLUMNS) {
#pragma GCC unroll 2
            for (int i = 0; i < WORD_ROWS; i++) {
#pragma GCC unroll 2
                for (int j = 0; j < TS_TILE_VECTORS; j++) {
                    const ts_m_u64 none = (ts_m_u64)(s[i][j] == 0);
                    s[i][j] |= a[i] & *(const ts_v_u64 *)(b + j * LANES) & (ts_v_u64)none;
                    n[i][j] = (n[i][j] & ~none) | ((block + w) & none);
                }
            }
        }
        memcpy(to, s, sizeof s);
        memcpy(numbers, n, sizeof n);
    }
}
#undef WORD_ROWS

static void find_bit(const ts_cpu_find *f)
{
    enum { COLUMNS = TS_TILE_VECTORS * TS_VECTOR_BYTES / 8 };
    const uint64_t *words = f->accumulators;
    const int64_t *numbers = f->blocks;
    int32_t found[COLUMNS];
    for (int32_t i = 0; i < f->row_count; i++, words += COLUMNS, numbers += COLUMNS) {
        for (int j = 0; j < COLUMNS; j++) {
            const bool here = numbers[j] >= 0 && words[j] != 0; /* otherwise in an earlier group, or not there */
            found[j] = here ? (int32_t)(numbers[j] * 64 + __builtin_ctzll(words[j])) : TS_FOUND_NONE;
        }
        ts_cpu_put_found(f, i, found, COLUMNS);
    }
}
unsigned TS_CPU_NAME3(ts_cpu_pack, words, TS_ISA)(const ts_cpu_panel *panel, void *packed);

#define TS_SR or_and
#define TS_ADD or
#define TS_MUL and
#define TS_D bool
#define TS_P u64
#define TS_SELECTIVE 1
#define TS_CAREFUL 0
#define TS_WORDS 64
#define TS_TROUBLE TS_TROUBLE_NEVER
#define TS_START 0
#define TS_START_P 0
#define TS_FROM_P(x) ((uint8_t)((x) != 0))
#define TS_VSTEP(s, x, y) TS_CPU_NAME3(ts_vadd, TS_ADD, u64)(s, (x) & (y))
#define TS_PACK TS_CPU_NAME3(ts_cpu_pack, words, TS_ISA)
#define TS_FIND find_bit
#define TS_FOLLOW_WORDS first_words
#include "backend/cpu/kernel.inc"

#define TS_SR xor_and
#define TS_ADD xor
#define TS_MUL and
#define TS_D bool
#define TS_P u64
#define TS_SELECTIVE 0
#define TS_CAREFUL 0
#define TS_WORDS 64
#define TS_TROUBLE TS_TROUBLE_NEVER
#define TS_START 0
#define TS_START_P 0
#define TS_FROM_P(x) ((uint8_t)(__builtin_popcountll(x) & 1))
#define TS_VSTEP(s, x, y) TS_CPU_NAME3(ts_vadd, TS_ADD, u64)(s, (x) & (y))
#define TS_PACK TS_CPU_NAME3(ts_cpu_pack, words, TS_ISA)
#include "backend/cpu/kernel.inc"
