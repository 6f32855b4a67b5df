/* Which kernel runs a step and how it is cut up. Depends on sizes alone, never on strides or addresses of a run, so that
 * a program knows its scratch before it runs. */
#ifndef TS_CUDA_CHOOSE_H
#define TS_CUDA_CHOOSE_H

#include "backend/cuda/device.h"
#include "tensor/spec.h"

typedef struct ts_cuda_choice {
    ts_cuda_kernel kernel;
    uint32_t threads, grid, shared_bytes;
    int64_t left_tiles, right_tiles; /* contract */
    bool swap; /* contract: the kernel's left is the step's right */
    int64_t splits, split_terms, tile_count;
    size_t partial_bytes; /* scratch for values and, with winners, for them: both parts 128-byte aligned */
    size_t partial_w_offset;
    double seconds; /* contract: a guess */
} ts_cuda_choice;

/* `has` tells which kernels the module has for the dtype: index by ts_cuda_kernel. */
void ts_cuda_choose_contract(const ts_contract_spec *spec, int units, const bool *has, ts_cuda_choice *choice);
/* Sums, broadcasts, and combining copies; pure data movement is for ts_cuda_choose_copy. */
void ts_cuda_choose_reduce(const ts_reduce_spec *spec, int units, const bool *has, ts_cuda_choice *choice);

/* Blocks for `tile_count` items: all of them, or what a grid can hold. */
uint32_t ts_cuda_grid(int64_t tile_count);
/* Bytes of the type of arithmetic of a dtype (f16 -> 4). */
size_t ts_cuda_arithmetic_bytes(tensum_dtype dtype);

#endif
