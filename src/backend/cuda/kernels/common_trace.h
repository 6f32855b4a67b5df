/* Kernels of the common module that read and write tensors at assignments. */
#ifndef TS_CUDA_COMMON_TRACE_H
#define TS_CUDA_COMMON_TRACE_H

#include "move.h"

template <typename T> TS_DEVICE void ts_gather(const ts_cuda_gather &p)
{
    const ts_cuda_decode_label *labels =
        p.more != 0 ? reinterpret_cast<const ts_cuda_decode_label *>((uintptr_t)p.more) : p.table;
    const T *a = reinterpret_cast<const T *>(ts_address(p.a));
    for (int64_t tile = ts_block(); tile < p.tile_count; tile += ts_blocks()) {
        int64_t position = tile * ts_threads() + ts_thread(), at = 0;
        if (position < p.positions) {
            const int64_t *assignment = reinterpret_cast<const int64_t *>((uintptr_t)p.assignments) +
                                        position * p.assignment_count;
            for (int32_t i = 0; i < p.label_count; i++) {
                at += assignment[labels[i].label] * labels[i].a;
            }
            *reinterpret_cast<T *>((uintptr_t)p.result + (uintptr_t)position * 16) = a[at];
        }
    }
}

template <typename T> TS_DEVICE void ts_one_hot(const ts_cuda_one_hot &p)
{
    const ts_cuda_one_hot_item *items = reinterpret_cast<const ts_cuda_one_hot_item *>((uintptr_t)p.items);
    const ts_cuda_one_hot_mode *modes = reinterpret_cast<const ts_cuda_one_hot_mode *>((uintptr_t)p.modes);
    const int64_t *assignment = reinterpret_cast<const int64_t *>((uintptr_t)p.assignment);
    const T *cotangents = reinterpret_cast<const T *>((uintptr_t)p.cotangents);
    for (int64_t tile = ts_block(); tile < p.tile_count; tile += ts_blocks()) {
        int32_t low = 0, high = p.item_count; /* the last item whose first tile is not beyond this one */
        while (high - low > 1) {
            int32_t middle = low + (high - low) / 2;
            if (items[middle].first_tile <= tile) {
                low = middle;
            } else {
                high = middle;
            }
        }
        const ts_cuda_one_hot_item &item = items[low];
        int64_t index = (tile - item.first_tile) * ts_threads() + ts_thread();
        if (index < item.elements) {
            int64_t offset = 0;
            bool here = true;
            for (int32_t i = item.mode_count - 1; i >= 0; i--) {
                const ts_cuda_one_hot_mode &mode = modes[item.first_mode + i];
                int64_t next = item.wide ? index / mode.extent
                                         : (int64_t)(((uint64_t)(uint32_t)index * mode.magic) >> mode.shift);
                int64_t place = index - next * mode.extent;
                here = here && (mode.label < 0 || assignment[mode.label] == place);
                offset += place * mode.stride;
                index = next;
            }
            T *d = reinterpret_cast<T *>(ts_address(item.d)) + offset;
            if (here) {
                *d = cotangents[item.value];
            } else {
                memset(d, 0, sizeof *d);
            }
        }
    }
}

TS_KERNEL(ts_common_gather_1, ts_cuda_gather, TS_CUDA_THREADS) { ts_gather<uint8_t>(p); }
TS_KERNEL(ts_common_gather_2, ts_cuda_gather, TS_CUDA_THREADS) { ts_gather<uint16_t>(p); }
TS_KERNEL(ts_common_gather_4, ts_cuda_gather, TS_CUDA_THREADS) { ts_gather<uint32_t>(p); }
TS_KERNEL(ts_common_gather_8, ts_cuda_gather, TS_CUDA_THREADS) { ts_gather<uint64_t>(p); }
TS_KERNEL(ts_common_gather_16, ts_cuda_gather, TS_CUDA_THREADS) { ts_gather<ts_block_of_16>(p); }
TS_KERNEL(ts_common_one_hot_4, ts_cuda_one_hot, TS_CUDA_THREADS) { ts_one_hot<uint32_t>(p); }
TS_KERNEL(ts_common_one_hot_8, ts_cuda_one_hot, TS_CUDA_THREADS) { ts_one_hot<uint64_t>(p); }
TS_KERNEL(ts_common_one_hot_16, ts_cuda_one_hot, TS_CUDA_THREADS) { ts_one_hot<ts_block_of_16>(p); }

#endif
