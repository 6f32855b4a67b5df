/* sum_product of real numbers and wrapping integers, and the two Boolean semirings on words of 64 depths. */
#include "backend/cpu/kernel.h"
#include "backend/cpu/vector.h"

/* The dtype's name is pasted into names of functions, so it must not be a macro here. */
#undef bool
typedef _Bool bool;

#define TS_SR sum_product
#define TS_ADD sum
#define TS_MUL times
#define TS_D f32
#define TS_P f32
#define TS_SELECTIVE 0
#define TS_CAREFUL 0
#define TS_WORDS 1
#define TS_TROUBLE TS_TROUBLE_NEVER
#define TS_START 0
#define TS_START_P 0
#define TS_FROM_P(x) (x)
#define TS_VSTEP(s, x, y) TS_CPU_NAME2(ts_vfma, TS_P)(s, x, y)
#include "backend/cpu/kernel.inc"

#define TS_SR sum_product
#define TS_ADD sum
#define TS_MUL times
#define TS_D f64
#define TS_P f64
#define TS_SELECTIVE 0
#define TS_CAREFUL 0
#define TS_WORDS 1
#define TS_TROUBLE TS_TROUBLE_NEVER
#define TS_START 0
#define TS_START_P 0
#define TS_FROM_P(x) (x)
#define TS_VSTEP(s, x, y) TS_CPU_NAME2(ts_vfma, TS_P)(s, x, y)
#include "backend/cpu/kernel.inc"

#define TS_SR sum_product
#define TS_ADD sum
#define TS_MUL times
#define TS_D f16
#define TS_P f32
#define TS_SELECTIVE 0
#define TS_CAREFUL 0
#define TS_WORDS 1
#define TS_TROUBLE TS_TROUBLE_NEVER
#define TS_START 0
#define TS_START_P 0
#define TS_FROM_P(x) (x)
#define TS_VSTEP(s, x, y) TS_CPU_NAME2(ts_vfma, TS_P)(s, x, y)
#include "backend/cpu/kernel.inc"

#define TS_SR sum_product
#define TS_ADD sum
#define TS_MUL times
#define TS_D bf16
#define TS_P f32
#define TS_SELECTIVE 0
#define TS_CAREFUL 0
#define TS_WORDS 1
#define TS_TROUBLE TS_TROUBLE_NEVER
#define TS_START 0
#define TS_START_P 0
#define TS_FROM_P(x) (x)
#define TS_VSTEP(s, x, y) TS_CPU_NAME2(ts_vfma, TS_P)(s, x, y)
#include "backend/cpu/kernel.inc"

#define TS_SR sum_product
#define TS_ADD sum
#define TS_MUL times
#define TS_D i16
#define TS_P i16
#define TS_SELECTIVE 0
#define TS_CAREFUL 0
#define TS_WORDS 1
#define TS_TROUBLE TS_TROUBLE_NEVER
#define TS_START 0
#define TS_START_P 0
#define TS_FROM_P(x) (x)
#define TS_VSTEP(s, x, y) TS_CPU_NAME2(ts_vadd_sum, TS_P)(s, TS_CPU_NAME2(ts_vmul_times, TS_P)(x, y))
#include "backend/cpu/kernel.inc"

#define TS_SR sum_product
#define TS_ADD sum
#define TS_MUL times
#define TS_D i32
#define TS_P i32
#define TS_SELECTIVE 0
#define TS_CAREFUL 0
#define TS_WORDS 1
#define TS_TROUBLE TS_TROUBLE_NEVER
#define TS_START 0
#define TS_START_P 0
#define TS_FROM_P(x) (x)
#define TS_VSTEP(s, x, y) TS_CPU_NAME2(ts_vadd_sum, TS_P)(s, TS_CPU_NAME2(ts_vmul_times, TS_P)(x, y))
#include "backend/cpu/kernel.inc"

#define TS_SR sum_product
#define TS_ADD sum
#define TS_MUL times
#define TS_D i64
#define TS_P i64
#define TS_SELECTIVE 0
#define TS_CAREFUL 0
#define TS_WORDS 1
#define TS_TROUBLE TS_TROUBLE_NEVER
#define TS_START 0
#define TS_START_P 0
#define TS_FROM_P(x) (x)
#define TS_VSTEP(s, x, y) TS_CPU_NAME2(ts_vadd_sum, TS_P)(s, TS_CPU_NAME2(ts_vmul_times, TS_P)(x, y))
#include "backend/cpu/kernel.inc"

/* The first depth whose bit is set in both lines. */
static void find_bit(const ts_cpu_find *f)
{
    const uint64_t *a = f->a, *b = f->b, *found = f->accumulators;
    const int32_t columns = TS_TILE_VECTORS * TS_VECTOR_BYTES / 8;
    for (int32_t i = 0; i < f->row_count; i++) {
        for (int32_t j = 0; j < f->column_count; j++) {
            if (f->winners[i * columns + j] != 0 || found[i * columns + j] == 0) {
                continue; /* found in an earlier group (depth 0 is found again), or not there */
            }
            for (int64_t w = 0; w * 64 < f->depth; w++) {
                uint64_t both = a[i * f->line + w] & b[j * f->line + w];
                if (both != 0) {
                    f->winners[i * columns + j] = f->base + w * 64 + __builtin_ctzll(both);
                    break;
                }
            }
        }
    }
}
unsigned TS_CPU_NAME3(ts_cpu_pack, words, TS_ISA)(const ts_cpu_panel *panel, void *packed);
void TS_CPU_NAME3(ts_cpu_lines, words, TS_ISA)(const ts_cpu_panel *panel, int64_t line, void *lines);

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
#define TS_LINES TS_CPU_NAME3(ts_cpu_lines, words, TS_ISA)
#define TS_FIND find_bit
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
#define TS_LINES TS_CPU_NAME3(ts_cpu_lines, words, TS_ISA)
#define TS_FIND find_bit
#include "backend/cpu/kernel.inc"
