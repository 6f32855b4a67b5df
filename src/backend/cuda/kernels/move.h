/* Pure data movement and the like: what depends on the size of an element only. */
#ifndef TS_CUDA_MOVE_H
#define TS_CUDA_MOVE_H

#include "locate.h"
#include "pair.h"

/* Complex numbers need not be aligned to more than their parts. */
struct ts_block_of_16 {
    uint64_t low, high;
};

template <typename T> TS_DEVICE void ts_copy(const ts_cuda_reduce &p)
{
    const ts_cuda_mode *modes = ts_mode_table(p.modes);
    const T *a = reinterpret_cast<const T *>(ts_address(p.a));
    T *c = reinterpret_cast<T *>(ts_address(p.c));
    for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
        const int64_t number = item * ts_threads() + ts_thread();
        if (number < p.kept) {
            const ts_cuda_offsets at = ts_offsets_of(modes, p.kept_count, p.modes.wide, number);
            c[at.c] = a[at.a];
        }
    }
}

/* Tiles of TS_CUDA_COPY_TILE^2 over modes fast_a (read along) and fast_c (written along). */
template <typename T> TS_DEVICE void ts_copy_tile(const ts_cuda_reduce &p)
{
    const int side = TS_CUDA_COPY_TILE, lines = TS_CUDA_THREADS / TS_CUDA_COPY_TILE;
    const ts_cuda_mode *modes = ts_mode_table(p.modes);
    const ts_cuda_mode along_a = modes[p.fast_a], along_c = modes[p.fast_c];
    const int64_t tiles_a = (along_a.extent + side - 1) / side, tiles_c = (along_c.extent + side - 1) / side;
    const T *a = reinterpret_cast<const T *>(ts_address(p.a));
    T *c = reinterpret_cast<T *>(ts_address(p.c));
    T *tile = reinterpret_cast<T *>(ts_shared()); /* [side][side + 1] */
    const int32_t lane = ts_thread() % side, line = ts_thread() / side;
    for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
        int64_t rest = ts_cuda_divide_wide(item, tiles_c);
        const int64_t tile_c = item - rest * tiles_c;
        int64_t from = 0, to = 0, n = ts_cuda_divide_wide(rest, tiles_a);
        const int64_t tile_a = rest - n * tiles_a;
        for (int32_t i = p.kept_count - 1; i >= 0; i--) {
            if (i != p.fast_a && i != p.fast_c) {
                int64_t position;
                n = ts_cuda_divide(n, &modes[i], p.modes.wide, &position);
                from += position * modes[i].a;
                to += position * modes[i].c;
            }
        }
        ts_sync();
        for (int32_t i = line; i < side; i += lines) {
            int64_t at_a = tile_a * side + lane, at_c = tile_c * side + i;
            if (at_a < along_a.extent && at_c < along_c.extent) {
                tile[i * (side + 1) + lane] = a[from + at_a * along_a.a + at_c * along_c.a];
            }
        }
        ts_sync();
        for (int32_t i = line; i < side; i += lines) {
            int64_t at_c = tile_c * side + lane, at_a = tile_a * side + i;
            if (at_a < along_a.extent && at_c < along_c.extent) {
                c[to + at_a * along_a.c + at_c * along_c.c] = tile[lane * (side + 1) + i];
            }
        }
    }
}

template <typename T> TS_DEVICE void ts_fill(const ts_cuda_fill &p)
{
    const ts_cuda_mode *modes = ts_mode_table(p.modes);
    T *c = reinterpret_cast<T *>(ts_address(p.c)), value;
    memcpy(&value, p.value, sizeof value);
    for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
        const int64_t number = item * ts_threads() + ts_thread();
        if (number < p.elements) {
            c[ts_offsets_of(modes, p.modes.count, p.modes.wide, number).c] = value;
        }
    }
}

/* Values as cotangents: an element of a storage dtype as one of its gradient dtype. */
TS_DEVICE float ts_converted(float x) { return x; }
TS_DEVICE double ts_converted(double x) { return x; }
TS_DEVICE ts_c64 ts_converted(ts_c64 x) { return x; }
TS_DEVICE ts_c128 ts_converted(ts_c128 x) { return x; }
TS_DEVICE float ts_converted(int16_t x) { return (float)x; }
TS_DEVICE float ts_converted(int32_t x) { return (float)x; }
TS_DEVICE double ts_converted(int64_t x) { return (double)x; }
TS_DEVICE float ts_converted(uint8_t x) { return x != 0 ? 1.0f : 0.0f; }
#define TS_CONVERT(from, to)                                                                       \
    TS_KERNEL(ts_common_convert_##from##_##to, ts_cuda_reduce, TS_CUDA_THREADS)                    \
    {                                                                                              \
        const ts_cuda_mode *modes = ts_mode_table(p.modes);                                        \
        const ts_s_##from *a = reinterpret_cast<const ts_s_##from *>(ts_address(p.a));             \
        ts_s_##to *c = reinterpret_cast<ts_s_##to *>(ts_address(p.c));                             \
        for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {                \
            const int64_t number = item * ts_threads() + ts_thread();                              \
            if (number < p.kept) {                                                                 \
                const ts_cuda_offsets at = ts_offsets_of(modes, p.kept_count, p.modes.wide, number); \
                c[at.c] = ts_converted(TS_LOAD_##from(a[at.a]));                                   \
            }                                                                                      \
        }                                                                                          \
    }

#endif
