/* From linear indices to offsets, the few members that a kernel needs at a time. */
#ifndef TS_CUDA_LOCATE_H
#define TS_CUDA_LOCATE_H

#include "target.h"

/* Offsets of row-major linear index n over modes[0 .. count). */
TS_DEVICE ts_cuda_offsets ts_offsets_of(const ts_cuda_mode *modes, int32_t count, int32_t wide, int64_t n)
{
    ts_cuda_offsets offsets = {0, 0, 0, 0, 0, 0};
#pragma unroll 1
    for (int32_t i = count - 1; i >= 0; i--) {
        int64_t position = n;
        if (i > 0) {
            n = ts_cuda_divide(n, &modes[i], wide, &position);
        }
        offsets.a += position * modes[i].a;
        offsets.b += position * modes[i].b;
        offsets.c += position * modes[i].c;
        offsets.w += position * modes[i].w;
        offsets.g += position * modes[i].g;
        offsets.d += position * modes[i].d;
    }
    return offsets;
}

/* Threads of the block fill the offsets of `count` consecutive terms of a sum, from `first`. */
template <bool Two>
TS_DEVICE void ts_fill_terms(const ts_cuda_mode *modes, int32_t mode_count, int32_t wide, int64_t first, int32_t count,
                             int64_t *a, int64_t *b)
{
    for (int32_t i = ts_thread(); i < count; i += ts_threads()) {
        ts_cuda_offsets offsets = ts_offsets_of(modes, mode_count, wide, first + i);
        a[i] = offsets.a;
        if (Two) {
            b[i] = offsets.b;
        }
    }
}

/* Item of a contract kernel. */
struct ts_contract_item {
    int64_t batch, split, left_tile, right_tile;
    int64_t first, last; /* terms of the sum */
};
TS_DEVICE ts_contract_item ts_contract_item_of(const ts_cuda_contract &p, int64_t item)
{
    ts_contract_item place;
    if (p.tile_count < ((int64_t)1 << 31)) { /* 32-bit divisions are several times cheaper */
        uint32_t n = (uint32_t)item, q = n / (uint32_t)p.right_tiles;
        place.right_tile = n - q * (uint32_t)p.right_tiles;
        n = q / (uint32_t)p.left_tiles;
        place.left_tile = q - n * (uint32_t)p.left_tiles;
        q = n / (uint32_t)p.splits;
        place.split = n - q * (uint32_t)p.splits;
        place.batch = q;
    } else {
        int64_t n = ts_cuda_divide_wide(item, p.right_tiles), q;
        place.right_tile = item - n * p.right_tiles;
        q = ts_cuda_divide_wide(n, p.left_tiles);
        place.left_tile = n - q * p.left_tiles;
        place.batch = ts_cuda_divide_wide(q, p.splits);
        place.split = q - place.batch * p.splits;
    }
    place.first = place.split * p.split_terms;
    place.last = place.first + p.split_terms < p.sum ? place.first + p.split_terms : p.sum;
    return place;
}

#endif
