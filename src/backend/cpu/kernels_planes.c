/* Pairs with two accumulator planes: complex numbers, value and count, residues. */
#include "backend/cpu/kernel.h"
#include "backend/cpu/vector.h"
unsigned TS_CPU_NAME3(ts_cpu_pack, c64, TS_ISA)(const ts_cpu_panel *panel, void *packed);
unsigned TS_CPU_NAME3(ts_cpu_pack, c128, TS_ISA)(const ts_cpu_panel *panel, void *packed);
unsigned TS_CPU_NAME3(ts_cpu_pack, vc64, TS_ISA)(const ts_cpu_panel *panel, void *packed);
unsigned TS_CPU_NAME3(ts_cpu_pack, vc128, TS_ISA)(const ts_cpu_panel *panel, void *packed);
void TS_CPU_NAME4(ts_cpu_pack, i64, u64, TS_ISA)(const ts_cpu_panel *panel, void *packed);
static unsigned pack_residues(const ts_cpu_panel *panel, void *packed)
{
    TS_CPU_NAME4(ts_cpu_pack, i64, u64, TS_ISA)(panel, packed);
    return 0;
}

#define TS_SR sum_product
#define TS_ADD sum
#define TS_MUL times
#define TS_D c64
#define TS_P f32
#define TS_PLANES 2
#define TS_CAREFUL 0
#define TS_TROUBLE TS_TROUBLE_NEVER
#define TS_START ((NUMBER){0, 0})
#define TS_START_0 0
#define TS_START_1 0
#define TS_CONJUGATE(flag, x) ((flag) ? TS_CPU_NAME2(ts_conjugate, TS_D)(x) : (x))
#define TS_VSTEP(s, t, x, u, y, v)                                                            \
    do {                                                                                      \
        s = TS_CPU_NAME2(ts_vfnma, TS_P)(TS_CPU_NAME2(ts_vfma, TS_P)(s, x, y), u, v);        \
        t = TS_CPU_NAME2(ts_vfma, TS_P)(TS_CPU_NAME2(ts_vfma, TS_P)(t, x, v), u, y);         \
    } while (0)
#define TS_FROM_2(p, q) ((NUMBER){p, q})
#define TS_VJOIN(s, t, p, q) (s += (p), t += (q))
#define TS_PACK TS_CPU_NAME3(ts_cpu_pack, c64, TS_ISA)
#include "backend/cpu/kernel2.inc"

#define TS_SR sum_product
#define TS_ADD sum
#define TS_MUL times
#define TS_D c128
#define TS_P f64
#define TS_PLANES 2
#define TS_CAREFUL 0
#define TS_TROUBLE TS_TROUBLE_NEVER
#define TS_START ((NUMBER){0, 0})
#define TS_START_0 0
#define TS_START_1 0
#define TS_CONJUGATE(flag, x) ((flag) ? TS_CPU_NAME2(ts_conjugate, TS_D)(x) : (x))
#define TS_VSTEP(s, t, x, u, y, v)                                                            \
    do {                                                                                      \
        s = TS_CPU_NAME2(ts_vfnma, TS_P)(TS_CPU_NAME2(ts_vfma, TS_P)(s, x, y), u, v);        \
        t = TS_CPU_NAME2(ts_vfma, TS_P)(TS_CPU_NAME2(ts_vfma, TS_P)(t, x, v), u, y);         \
    } while (0)
#define TS_FROM_2(p, q) ((NUMBER){p, q})
#define TS_VJOIN(s, t, p, q) (s += (p), t += (q))
#define TS_PACK TS_CPU_NAME3(ts_cpu_pack, c128, TS_ISA)
#include "backend/cpu/kernel2.inc"

#define TS_SR max_plus_count
#define TS_ADD maxcount
#define TS_MUL pluscount
#define TS_D vc64
#define TS_P f32
#define TS_PLANES 2
#define TS_CAREFUL 1
#define TS_TROUBLE TS_TROUBLE_OPPOSITE
#define TS_START ((NUMBER){-TS_INFINITY_F32, 0})
#define TS_START_0 (-TS_INFINITY_F32)
#define TS_START_1 0
#define TS_CONJUGATE(flag, x) (x)
/* A count larger by an equal value, replaced by a larger one. */
#define TS_VSTEP(s, t, x, u, y, v)                                                                    \
    do {                                                                                              \
        const vector value = x + y, count = u * v;                                                    \
        const vector zero = {0};                                                                      \
        const TS_CPU_NAME2(ts_m, TS_P) more = value > s, same = value == s;                           \
        t = TS_CPU_NAME2(ts_vselect, TS_P)(more, zero, t) + TS_CPU_NAME2(ts_vselect, TS_P)(more | same, count, zero); \
        s = TS_CPU_NAME2(ts_vmax, TS_P)(s, value);                                                    \
    } while (0)
#define TS_FROM_2(p, q) ((NUMBER){p, q})
#define TS_SPLIT(z, p, q) (p = (z).value, q = (z).count)
#define TS_VJOIN(s, t, p, q) TS_VSTEP(s, t, p, q, (vector){0}, (1 - (vector){0}))
#define TS_PACK TS_CPU_NAME3(ts_cpu_pack, vc64, TS_ISA)
#include "backend/cpu/kernel2.inc"

#define TS_SR max_plus_count
#define TS_ADD maxcount
#define TS_MUL pluscount
#define TS_D vc128
#define TS_P f64
#define TS_PLANES 2
#define TS_CAREFUL 1
#define TS_TROUBLE TS_TROUBLE_OPPOSITE
#define TS_START ((NUMBER){-TS_INFINITY_F64, 0})
#define TS_START_0 (-TS_INFINITY_F64)
#define TS_START_1 0
#define TS_CONJUGATE(flag, x) (x)
/* A count larger by an equal value, replaced by a larger one. */
#define TS_VSTEP(s, t, x, u, y, v)                                                                    \
    do {                                                                                              \
        const vector value = x + y, count = u * v;                                                    \
        const vector zero = {0};                                                                      \
        const TS_CPU_NAME2(ts_m, TS_P) more = value > s, same = value == s;                           \
        t = TS_CPU_NAME2(ts_vselect, TS_P)(more, zero, t) + TS_CPU_NAME2(ts_vselect, TS_P)(more | same, count, zero); \
        s = TS_CPU_NAME2(ts_vmax, TS_P)(s, value);                                                    \
    } while (0)
#define TS_FROM_2(p, q) ((NUMBER){p, q})
#define TS_SPLIT(z, p, q) (p = (z).value, q = (z).count)
#define TS_VJOIN(s, t, p, q) TS_VSTEP(s, t, p, q, (vector){0}, (1 - (vector){0}))
#define TS_PACK TS_CPU_NAME3(ts_cpu_pack, vc128, TS_ISA)
#include "backend/cpu/kernel2.inc"

/* Products of residues below 2^31 are below 2^62: the two halves are summed apart and reduced once, at the end. */
static int64_t residue(uint64_t low, uint64_t high, int64_t modulus)
{
    const uint64_t m = (uint64_t)modulus;
    return (int64_t)(((high % m) * (((uint64_t)1 << 32) % m) + low % m) % m);
}
#define TS_SR sum_product_mod
#define TS_ADD modsum
#define TS_MUL modtimes
#define TS_D i64
#define TS_P u64
#define TS_PLANES 1
#define TS_CAREFUL 0
#define TS_TROUBLE TS_TROUBLE_NEVER
#define TS_START 0
#define TS_START_0 0
#define TS_START_1 0
#define TS_CONJUGATE(flag, x) (x)
#define TS_VSTEP(s, t, x, u, y, v)                        \
    do {                                                  \
        const vector product = ts_vmul_wide_u64(x, y);    \
        s += product & 0xffffffffu;                       \
        t += product >> 32;                               \
    } while (0)
#define TS_FROM_2(p, q) residue(p, q, modulus)
#define TS_VJOIN(s, t, p, q) (s += (p), t += (q))
#define TS_PACK pack_residues
#include "backend/cpu/kernel2.inc"
