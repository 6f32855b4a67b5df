/* How the threads of a block share a long sum: see "reduce_row" in abi.h. For the host. */
#ifndef TS_CUDA_SWEEP_PLAN_H
#define TS_CUDA_SWEEP_PLAN_H

#include <stdbool.h>

#include "abi.h"

/* Modes: kept, then sum. Fills in how work is shared (along to steps, splits, split_terms, tile_count); most_splits: parts
 * that there is room for. Returns the mode that the caller has to make the last of its class, or -1: too long. `bytes` of an
 * element; winners need the sum's modes in their order. */
static inline int32_t ts_cuda_sweep_plan(const ts_cuda_mode *modes, int32_t kept_count, int32_t sum_count, int64_t kept, int64_t sum,
                                         bool winners, uint32_t bytes, int32_t units, int64_t most_splits, ts_cuda_reduce *p)
{
    const int32_t count = kept_count + sum_count, wide = bytes >= 16 ? 1 : (int32_t)(16 / bytes);
    int32_t x = -1, rows;
    int64_t steps, tiles, wanted, pieces;

    for (int32_t i = 0; i < count; i++) { /* the smallest step; of equals the last, which is the sum's */
        const int64_t step = modes[i].a < 0 ? -modes[i].a : modes[i].a, least = x < 0 ? 0 : modes[x].a < 0 ? -modes[x].a : modes[x].a;
        if (step != 0 && modes[i].extent > 1 && (x < 0 || step <= least)) {
            x = i;
        }
    }
    if (x < 0 || (x >= kept_count && winners)) {
        x = count - 1;
    }
    p->along = x >= kept_count ? TS_CUDA_ALONG_SUM : TS_CUDA_ALONG_KEPT;
    p->vector = modes[x].a == 1 && modes[x].extent % wide == 0 ? wide : 1;
    for (int32_t i = 0; i < count; i++) {
        p->vector = i != x && modes[i].a % p->vector != 0 ? 1 : p->vector;
    }
    pieces = (modes[x].extent + p->vector - 1) / p->vector;
    p->lanes = 1;
    while (p->lanes < pieces && p->lanes < (p->along == TS_CUDA_ALONG_SUM ? TS_CUDA_THREADS : p->vector > 1 ? 16 : 32)) {
        p->lanes *= 2;
    }
    if (p->along == TS_CUDA_ALONG_SUM) {
        const int64_t outer = sum / modes[x].extent;
        while (p->lanes > 32 && kept / TS_CUDA_THREADS * p->lanes > 8 * (int64_t)units) { /* blocks enough without so many */
            p->lanes /= 2;
        }
        while (p->lanes > 4 && (kept > 64 || p->lanes > 32) && (pieces + p->lanes - 1) / p->lanes < (4 + outer - 1) / outer) { /* several loads each */
            p->lanes /= 2;
        }
        rows = TS_CUDA_THREADS / p->lanes;
        pieces = (pieces + p->lanes - 1) / p->lanes;
        steps = outer * pieces;
        tiles = (kept + rows - 1) / rows;
    } else {
        rows = TS_CUDA_THREADS / p->lanes;
        pieces = (pieces + p->lanes - 1) / p->lanes;
        steps = (sum + rows - 1) / rows;
        tiles = kept / modes[x].extent * pieces;
    }
    if (steps >= (int64_t)1 << 30 || pieces >= (int64_t)1 << 30) {
        return -1;
    }
    wanted = 4 * (int64_t)units / tiles; /* another launch puts the parts together */
    wanted = wanted < steps / 8 ? wanted : steps / 8;
    wanted = wanted < most_splits ? wanted : most_splits;
    wanted = wanted < 1 ? 1 : wanted;
    p->steps = (int32_t)steps;
    p->split_terms = (steps + wanted - 1) / wanted;
    p->splits = (steps + p->split_terms - 1) / p->split_terms;
    p->tile_count = tiles * p->splits;
    return x;
}

/* Dynamic shared bytes: partial results and their winners. */
static inline uint32_t ts_cuda_sweep_shared(const ts_cuda_reduce *p, uint32_t value_bytes)
{
    return (uint32_t)TS_CUDA_THREADS * (uint32_t)(p->along == TS_CUDA_ALONG_SUM ? 1 : p->vector) * (value_bytes + 8u);
}

#endif
