/* log_sum_exp of every float dtype. */
#include "backend/cpu/kernel.h"
#include "backend/cpu/transcendental.h"
#include "backend/cpu/vector.h"

/* Tiles are multiplied by the kernels of sum_product. */
#define TILE_OF(p)                                                                                             \
    extern const ts_cpu_kernel TS_CPU_NAME4(ts_cpu_kernel, sum_product, p, TS_ISA);                            \
    static void start_tile_##p(void *accumulators)                                                             \
    {                                                                                                          \
        TS_CPU_NAME4(ts_cpu_kernel, sum_product, p, TS_ISA).start(accumulators);                               \
    }                                                                                                          \
    static void multiply_tile_##p(int64_t depth, const void *a, const void *b, void *accumulators)             \
    {                                                                                                          \
        TS_CPU_NAME4(ts_cpu_kernel, sum_product, p, TS_ISA).multiply(depth, a, b, accumulators);               \
    }
TILE_OF(f32)
TILE_OF(f64)

/* Exponents of weights that leave room: what underflows beside the largest share of a term is below 2^-300. */
#define TS_WEIGHT_BELOW 400.0

/* Terms below the smallest normal number are lost; beside a sum of 2^-60 (2^-500) that is nothing. */
#define TS_D f16
#define TS_P f32
#define TS_EXACT_BELOW 8.6736174e-19f
#include "backend/cpu/kernel_lse.inc"
#define TS_D bf16
#define TS_P f32
#define TS_EXACT_BELOW 8.6736174e-19f
#include "backend/cpu/kernel_lse.inc"
#define TS_D f32
#define TS_P f32
#define TS_EXACT_BELOW 8.6736174e-19f
#include "backend/cpu/kernel_lse.inc"
#define TS_D f64
#define TS_P f64
#define TS_EXACT_BELOW 3.0549363634996047e-151
#include "backend/cpu/kernel_lse.inc"
