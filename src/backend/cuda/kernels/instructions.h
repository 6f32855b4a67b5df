/* Arithmetic that C cannot say, or that nvcc does not find by itself; with what it means, for the host simulator.
 *
 * Selection instructions take NaN (max.NaN): nvcc turns a comparison and a selection into two instructions, this into
 * one. Packed ones work on two 16-bit elements of a word, or on four bytes. */
#ifndef TS_CUDA_INSTRUCTIONS_H
#define TS_CUDA_INSTRUCTIONS_H

#include "target.h"

#include "algebra/element.h"

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

TS_DEVICE float ts_max_nan(float x, float y)
{
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}
TS_DEVICE float ts_min_nan(float x, float y)
{
    float z;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}
/* The largest of three where the first is not negative: then their order is that of their bits. NaN (of the device's own
 * arithmetic, so with its sign clear) is above infinity, so it stays. */
TS_DEVICE float ts_max_risen(float best, float x, float y)
{
    return __int_as_float(__vimax3_s32(__float_as_int(best), __float_as_int(x), __float_as_int(y)));
}
/* The largest of three, none of which is above -0: their order is the reverse of that of their bits, and NaN is below them. */
TS_DEVICE float ts_max_low(float best, float x, float y)
{
    return __uint_as_float(__vimin3_u32(__float_as_uint(best), __float_as_uint(x), __float_as_uint(y)));
}
/* The same as ts_max_risen for two 16-bit floats in a word. */
TS_DEVICE uint32_t ts_max_risen_x2(uint32_t best, uint32_t x, uint32_t y) { return __vimax3_s16x2(best, x, y); }
TS_DEVICE int32_t ts_float_bits(float x) { return __float_as_int(x); }
/* number = value where x and y differ. A selection goes to the unit that comparisons and maxima go to; a multiplication by 0 and an
 * addition, left out where they are equal, do not. The assembler must not know that it is 0: the grid has one dimension. */
TS_DEVICE void ts_note_change(uint32_t &number, uint32_t value, int32_t x, int32_t y)
{
    asm("{\n.reg .pred p;\nsetp.ne.s32 p, %1, %2;\n@p mad.lo.u32 %0, %0, %4, %3;\n}" : "+r"(number) : "r"(x), "r"(y), "r"(value), "r"(blockIdx.y));
}
/* Equal, or both NaN of the device's own arithmetic; -0 is +0. */
TS_DEVICE bool ts_same_float(float x, float y) { return __float_as_int(x + 0.0f) == __float_as_int(y + 0.0f); }
TS_DEVICE int32_t ts_min_i32(int32_t x, int32_t y) { return min(x, y); }
TS_DEVICE float ts_half_load(uint16_t x)
{
    float z;
    asm("cvt.f32.f16 %0, %1;" : "=f"(z) : "h"(x));
    return z;
}
TS_DEVICE uint16_t ts_half_store(float x)
{
    uint16_t z;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(z) : "f"(x));
    return z;
}
TS_DEVICE uint16_t ts_bfloat_store(float x)
{
    uint16_t z;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(z) : "f"(x));
    return z;
}
#define TS_PACKED(name, text)                                            \
    TS_DEVICE uint32_t name(uint32_t x, uint32_t y)                      \
    {                                                                    \
        uint32_t z;                                                      \
        asm(text " %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));             \
        return z;                                                        \
    }
TS_PACKED(ts_plus_f16x2, "add.rn.f16x2")
TS_PACKED(ts_ntimes_f16x2, "mul.rn.f16x2")
TS_PACKED(ts_max_f16x2, "max.NaN.f16x2")
TS_PACKED(ts_min_f16x2, "min.NaN.f16x2")
#if __CUDA_ARCH__ >= 900
TS_PACKED(ts_plus_bf16x2, "add.rn.bf16x2")
TS_PACKED(ts_ntimes_bf16x2, "mul.rn.bf16x2")
#else /* by multiply-adds, with 1 or with -0: the same bits */
TS_DEVICE uint32_t ts_fma_bf16x2(uint32_t x, uint32_t y, uint32_t s)
{
    uint32_t z;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(z) : "r"(x), "r"(y), "r"(s));
    return z;
}
TS_DEVICE uint32_t ts_plus_bf16x2(uint32_t x, uint32_t y) { return ts_fma_bf16x2(x, 0x3f803f80u, y); }
TS_DEVICE uint32_t ts_ntimes_bf16x2(uint32_t x, uint32_t y) { return ts_fma_bf16x2(x, y, 0x80008000u); }
#endif
TS_PACKED(ts_max_bf16x2, "max.NaN.bf16x2")
TS_PACKED(ts_min_bf16x2, "min.NaN.bf16x2")
#undef TS_PACKED
TS_DEVICE uint32_t ts_plus_i16x2(uint32_t x, uint32_t y) { return __vadd2(x, y); }
TS_DEVICE uint32_t ts_max_i16x2(uint32_t x, uint32_t y) { return __vmaxs2(x, y); }
TS_DEVICE uint32_t ts_min_i16x2(uint32_t x, uint32_t y) { return __vmins2(x, y); }
TS_DEVICE uint32_t ts_plus_max_i16x2(uint32_t x, uint32_t y, uint32_t best) { return __viaddmax_s16x2(x, y, best); }
TS_DEVICE uint32_t ts_plus_min_i16x2(uint32_t x, uint32_t y, uint32_t best) { return __viaddmin_s16x2(x, y, best); }
TS_DEVICE int32_t ts_plus_max_i32(int32_t x, int32_t y, int32_t best) { return __viaddmax_s32(x, y, best); }
TS_DEVICE int32_t ts_plus_min_i32(int32_t x, int32_t y, int32_t best) { return __viaddmin_s32(x, y, best); }
/* e^x for x <= 0, to about 2^-22 of the result where it matters; e^-inf = 0. */
TS_DEVICE float ts_exp_fast(float x)
{
    float z;
    asm("ex2.approx.f32 %0, %1;" : "=f"(z) : "f"(x * 1.44269504088896340736f));
    return z;
}
/* A multiply-add with one rounding. */
TS_DEVICE float ts_fma(float x, float y, float z) { return __fmaf_rn(x, y, z); }
TS_DEVICE double ts_fma(double x, double y, double z) { return __fma_rn(x, y, z); }
TS_DEVICE int64_t ts_multiply_wide(int32_t x, int32_t y)
{
    int64_t z;
    asm("mul.wide.s32 %0, %1, %2;" : "=l"(z) : "r"(x), "r"(y));
    return z;
}
/* A 16x8 block of sums += 16x16 by 16x8, by a warp. Lane 4 g + t has sums (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1),
 * of the left factor terms (2 t, 2 t + 1) of rows g and g + 8, then the same 8 terms on, and of the right factor, for column
 * g, terms (2 t, 2 t + 1) (low) and 8 on (high). Products are exact; sums are those of f32, but truncated. */
#define TS_MATRIX(name, type)                                                                                              \
    TS_DEVICE void name(float &s, float &t, float &u, float &v, const uint32_t *x, uint32_t low, uint32_t high)            \
    {                                                                                                                      \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "    \
                     "{%8, %9}, {%0, %1, %2, %3};"                                                                         \
                     : "+f"(s), "+f"(t), "+f"(u), "+f"(v)                                                                  \
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(low), "r"(high));                                   \
    }
TS_MATRIX(ts_matrix_f16, "f16")
TS_MATRIX(ts_matrix_bf16, "bf16")
#undef TS_MATRIX
TS_DEVICE int32_t ts_first_lane(uint32_t mask) { return __ffs((int)mask) - 1; }
TS_DEVICE int32_t ts_count_lanes(uint32_t mask) { return __popc(mask); }
/* 0xff in each byte where x and y agree. */
TS_DEVICE uint32_t ts_equal_bytes(uint32_t x, uint32_t y) { return __vcmpeq4(x, y); }

#else

TS_DEVICE float ts_max_nan(float x, float y) { return ts_better_max_f32(y, x) ? y : x; }
TS_DEVICE float ts_min_nan(float x, float y) { return ts_better_min_f32(y, x) ? y : x; }
TS_DEVICE float ts_max_risen(float best, float x, float y) { return ts_max_nan(ts_max_nan(best, x), y); }
TS_DEVICE float ts_max_low(float best, float x, float y) { return ts_max_risen(best, x, y); }
TS_DEVICE int32_t ts_float_bits(float x)
{
    int32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
TS_DEVICE void ts_note_change(uint32_t &number, uint32_t value, int32_t x, int32_t y) { number = x != y ? value : number; }
TS_DEVICE bool ts_same_float(float x, float y) { return x == y || (x != x && y != y); }
TS_DEVICE int32_t ts_min_i32(int32_t x, int32_t y) { return x < y ? x : y; }
TS_DEVICE float ts_half_load(uint16_t x) { return ts_load_f16(x); }
TS_DEVICE uint16_t ts_half_store(float x) { return ts_store_f16(x); }
TS_DEVICE uint16_t ts_bfloat_store(float x) { return ts_store_bf16(x); }
#define TS_PACKED(name, d, expression)                                   \
    TS_DEVICE uint16_t name##_one(uint16_t s, uint16_t t)                \
    {                                                                    \
        float x = ts_load_##d(s), y = ts_load_##d(t);                    \
        return ts_store_##d(expression);                                 \
    }                                                                    \
    TS_DEVICE uint32_t name(uint32_t x, uint32_t y)                      \
    {                                                                    \
        uint32_t low = name##_one((uint16_t)x, (uint16_t)y);             \
        uint32_t high = name##_one((uint16_t)(x >> 16), (uint16_t)(y >> 16)); \
        return high << 16 | low;                                         \
    }
TS_PACKED(ts_plus_f16x2, f16, x + y)
TS_PACKED(ts_ntimes_f16x2, f16, x * y)
TS_PACKED(ts_max_f16x2, f16, ts_max_nan(x, y))
TS_PACKED(ts_min_f16x2, f16, ts_min_nan(x, y))
TS_PACKED(ts_plus_bf16x2, bf16, x + y)
TS_PACKED(ts_ntimes_bf16x2, bf16, x * y)
TS_PACKED(ts_max_bf16x2, bf16, ts_max_nan(x, y))
TS_PACKED(ts_min_bf16x2, bf16, ts_min_nan(x, y))
#undef TS_PACKED
#define TS_PACKED(name, expression)                                      \
    TS_DEVICE uint16_t name##_one(int16_t x, int16_t y) { return (uint16_t)(expression); } \
    TS_DEVICE uint32_t name(uint32_t x, uint32_t y)                      \
    {                                                                    \
        uint32_t low = name##_one((int16_t)x, (int16_t)y);               \
        uint32_t high = name##_one((int16_t)(x >> 16), (int16_t)(y >> 16)); \
        return high << 16 | low;                                         \
    }
TS_PACKED(ts_plus_i16x2, x + y)
TS_PACKED(ts_max_i16x2, x > y ? x : y)
TS_PACKED(ts_min_i16x2, x < y ? x : y)
#undef TS_PACKED
TS_DEVICE uint32_t ts_plus_max_i16x2(uint32_t x, uint32_t y, uint32_t best) { return ts_max_i16x2(ts_plus_i16x2(x, y), best); }
TS_DEVICE uint32_t ts_plus_min_i16x2(uint32_t x, uint32_t y, uint32_t best) { return ts_min_i16x2(ts_plus_i16x2(x, y), best); }
TS_DEVICE uint32_t ts_max_risen_x2(uint32_t best, uint32_t x, uint32_t y) { return ts_max_i16x2(ts_max_i16x2(best, x), y); }
TS_DEVICE int32_t ts_plus_max_i32(int32_t x, int32_t y, int32_t best)
{
    int32_t sum = ts_plus_i32(x, y, 0);
    return sum > best ? sum : best;
}
TS_DEVICE int32_t ts_plus_min_i32(int32_t x, int32_t y, int32_t best)
{
    int32_t sum = ts_plus_i32(x, y, 0);
    return sum < best ? sum : best;
}
TS_DEVICE float ts_exp_fast(float x) { return expf(x); }
TS_DEVICE float ts_fma(float x, float y, float z) { return fmaf(x, y, z); }
TS_DEVICE double ts_fma(double x, double y, double z) { return fma(x, y, z); }
TS_DEVICE int64_t ts_multiply_wide(int32_t x, int32_t y) { return (int64_t)x * y; }
/* See above. Every lane learns of the others' words and adds up its own four sums. */
template <float (*Load)(uint16_t)>
TS_DEVICE void ts_matrix(float &s, float &t, float &u, float &v, const uint32_t *x, uint32_t low, uint32_t high)
{
    const uint32_t right[2] = {low, high};
    uint32_t left_low[64], left_high[64], all_right[64], present; /* two words of each lane */
    float *const sums[4] = {&s, &t, &u, &v};
    const int32_t group = ts_thread() % 32 / 4, place = ts_thread() % 4;
    ts_sim_exchange(x, 8, reinterpret_cast<unsigned char *>(left_low), &present);
    ts_sim_exchange(x + 2, 8, reinterpret_cast<unsigned char *>(left_high), &present);
    ts_sim_exchange(right, 8, reinterpret_cast<unsigned char *>(all_right), &present);
    for (int32_t i = 0; i < 4; i++) {
        const int32_t column = 2 * place + i % 2;
        for (int32_t term = 0; term < 16; term++) {
            const uint32_t word = (term < 8 ? left_low : left_high)[(group * 4 + term % 8 / 2) * 2 + i / 2];
            const uint32_t other = all_right[(column * 4 + term % 8 / 2) * 2 + term / 8];
            *sums[i] += Load((uint16_t)(word >> term % 2 * 16)) * Load((uint16_t)(other >> term % 2 * 16));
        }
    }
}
TS_DEVICE void ts_matrix_f16(float &s, float &t, float &u, float &v, const uint32_t *x, uint32_t low, uint32_t high)
{
    ts_matrix<ts_load_f16>(s, t, u, v, x, low, high);
}
TS_DEVICE void ts_matrix_bf16(float &s, float &t, float &u, float &v, const uint32_t *x, uint32_t low, uint32_t high)
{
    ts_matrix<ts_load_bf16>(s, t, u, v, x, low, high);
}
TS_DEVICE int32_t ts_first_lane(uint32_t mask) { return __builtin_ffs((int)mask) - 1; }
TS_DEVICE int32_t ts_count_lanes(uint32_t mask) { return __builtin_popcount(mask); }
TS_DEVICE uint32_t ts_equal_bytes(uint32_t x, uint32_t y)
{
    uint32_t result = 0;
    for (int shift = 0; shift < 32; shift += 8) {
        result |= (((x ^ y) >> shift) & 0xffu) == 0 ? 0xffu << shift : 0u;
    }
    return result;
}

#endif
#endif
