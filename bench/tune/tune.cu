/* Instances of the tile kernel to choose from, for f32 by default: see tune.cpp. */
#include "tile.h"

#include "tune_list.h"

TS_DEFINE_PAIR(max, plus, 1, f32)

#define X(n, bm, bn, bk, tm, tn, threads, stages, track, blocks)                                                        \
    TS_KERNEL_BLOCKS(ts_tune_##n, ts_cuda_contract, threads, blocks)                                                    \
    {                                                                                                                   \
        ts_tile<pair_f32, ts_micro_of<pair_f32, 1>, bm, bn, bk, tm, tn, threads, stages, track>::run(p);                \
    }                                                                                                                   \
    extern "C" __constant__ int ts_tune_shared_##n = ts_tile<pair_f32, ts_micro_of<pair_f32, 1>, bm, bn, bk, tm, tn, threads, stages, track>::SHARED;
TUNE_LIST(X)
