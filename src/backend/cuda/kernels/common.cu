/* Kernels that do not depend on a semiring; see abi.h. */
#include "common_trace.h"
#include "move.h"

#define TS_MOVES(bytes, type)                                                                                        \
    TS_KERNEL(ts_common_copy_##bytes, ts_cuda_reduce, TS_CUDA_THREADS) { ts_copy<type>(p); }                         \
    TS_KERNEL_BLOCKS(ts_common_move_##bytes, ts_cuda_move, TS_CUDA_MOVE_THREADS, TS_CUDA_MOVE_BLOCKS)                \
    {                                                                                                                \
        ts_mover<type, true>::run(p);                                                                                \
    }                                                                                                                \
    TS_KERNEL_BLOCKS(ts_common_move_##bytes##_narrow, ts_cuda_move, TS_CUDA_MOVE_THREADS, TS_CUDA_MOVE_BLOCKS)       \
    {                                                                                                                \
        ts_mover<type, false>::run(p);                                                                               \
    }                                                                                                                \
    TS_KERNEL(ts_common_fill_##bytes, ts_cuda_fill, TS_CUDA_THREADS) { ts_fill<type>(p); }
TS_MOVES(1, uint8_t)
TS_MOVES(2, uint16_t)
TS_MOVES(4, uint32_t)
TS_MOVES(8, uint64_t)
TS_MOVES(16, ts_block_of_16)

TS_CONVERT(f16, f32)
TS_CONVERT(bf16, f32)
TS_CONVERT(f32, f32)
TS_CONVERT(f64, f64)
TS_CONVERT(c64, c64)
TS_CONVERT(c128, c128)
TS_CONVERT(i16, f32)
TS_CONVERT(i32, f32)
TS_CONVERT(i64, f64)
TS_CONVERT(bool, f32)

TS_KERNEL(ts_common_refresh, ts_cuda_refresh, TS_CUDA_THREADS)
{
    uint64_t *table = reinterpret_cast<uint64_t *>((uintptr_t)p.table);
    for (int32_t i = ts_thread(); i < p.count; i += ts_threads()) {
        table[p.first + i] = p.values[i];
    }
}
