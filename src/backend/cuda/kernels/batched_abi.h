/* Many small products by one launch: see batched.h. For host and kernels. */
#ifndef TS_CUDA_BATCHED_ABI_H
#define TS_CUDA_BATCHED_ABI_H

#include "team_abi.h"

/* From bench/tune/batched.sh, on an H200. */
#define TS_CUDA_BATCHED_TILE 64  /* rows and columns of results, and terms at most */
#define TS_CUDA_BATCHED_DEPTH 32 /* terms of a panel */
#define TS_CUDA_BATCHED_THREADS 128
#define TS_CUDA_BATCHED_BLOCKS 4 /* at a time on a multiprocessor */

/* c[batch, left, right] = (+) over sum of a[batch, left, sum] (*) b[batch, right, sum], and winners, elements of 4 bytes; sum is a
 * multiple of 4 and at most a tile. Operands as in ts_cuda_team. Item = (batch * tiles of a + tile of a) * tiles of b + tile of b,
 * less than 2^31 of them. */
typedef struct ts_cuda_batched {
    ts_cuda_team_side side[2];
    ts_cuda_pointer c, w;
    ts_cuda_switch accumulate;
    int64_t c_batch, w_batch; /* elements */
    int32_t c_row, c_column, w_row, w_column;
    int32_t sum, winner_bytes, tiles[2], tile_count, pad;
} ts_cuda_batched;

/* Dynamic shared bytes: two stages of two panels, whose rows are padded by 16 bytes. */
TS_CUDA_SHARED TS_CUDA_CONSTEXPR uint32_t ts_cuda_batched_shared(void)
{
    return 2u * 2u * TS_CUDA_BATCHED_TILE * (TS_CUDA_BATCHED_DEPTH + 4u) * 4u;
}

#endif
