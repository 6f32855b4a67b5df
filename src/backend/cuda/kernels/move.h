/* Pure data movement and the like: what depends on the size of an element only. */
#ifndef TS_CUDA_MOVE_H
#define TS_CUDA_MOVE_H

#include "locate.h"
#include "pair.h"
#include "vector.h"

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

/* See ts_cuda_move in abi.h. */
struct ts_move_base {
    uint64_t a, c; /* addresses */
    uint32_t limits; /* of the two partial modes, how many positions there are, in 16 bits each */
    int32_t pad;
};
static const uint32_t TS_MOVE_UNLIMITED = 0x7fff7fffu;

/* So many bytes in one access. */
template <int Bytes> struct ts_move_bits {
    typedef ts_vector<uint32_t, Bytes / 4> type;
};
template <> struct ts_move_bits<1> {
    typedef uint8_t type;
};
template <> struct ts_move_bits<2> {
    typedef uint16_t type;
};

/* Wide: all accesses are of 16 bytes, if addresses allow. */
template <typename T, bool Wide> struct ts_mover {
    static const int W = 16 / (int)sizeof(T); /* elements of the widest access */

    TS_DEVICE void enter(const ts_cuda_move &p, const ts_cuda_move_outer &outer, int64_t position, ts_move_base &base)
    {
        base.a += (uint64_t)(position * outer.a);
        base.c += (uint64_t)(position * outer.c);
        if (outer.partial != 0) {
            const int64_t left = p.partial_extent[outer.partial - 1] - position * outer.tile;
            if (left < outer.tile) {
                base.limits = outer.partial == 1 ? (base.limits & 0xffff0000u) | (uint32_t)left
                                                 : (base.limits & 0xffffu) | (uint32_t)left << 16;
            }
        }
    }
    TS_DEVICE ts_move_base base_of(const ts_cuda_move &p, int64_t tile)
    {
        ts_move_base base = {(uint64_t)(uintptr_t)ts_address(p.a) + (uint64_t)p.from, (uint64_t)(uintptr_t)ts_address(p.c) + (uint64_t)p.to,
                             TS_MOVE_UNLIMITED, 0};
        if (p.wide) {
#pragma unroll 1
            for (int32_t k = p.outer_count - 1; k >= 0; k--) {
                const int64_t next = ts_cuda_divide_wide(tile, p.outer[k].extent);
                enter(p, p.outer[k], tile - next * p.outer[k].extent, base);
                tile = next;
            }
        } else {
            uint32_t rest = (uint32_t)tile;
#pragma unroll 4
            for (int32_t k = p.outer_count - 1; k >= 0; k--) {
                const ts_cuda_move_outer &outer = p.outer[k];
                const uint32_t next = (uint32_t)(((uint64_t)rest * outer.magic) >> outer.shift);
                enter(p, outer, (int64_t)(rest - next * (uint32_t)outer.extent), base);
                rest = next;
            }
        }
        return base;
    }
    TS_DEVICE bool inside(uint32_t at, uint32_t limits)
    {
        return (at & 0xffffu) < (limits & 0xffffu) && at >> 16 < limits >> 16;
    }
    /* This thread's place: added to what an access adds. */
    TS_DEVICE ts_cuda_move_step place_of(const ts_cuda_move_side &side)
    {
        ts_cuda_move_step place = {0, 0, 0};
        uint32_t rest = (uint32_t)ts_thread();
#pragma unroll 4
        for (int32_t k = 0; k < side.digits; k++) {
            const ts_cuda_move_digit &digit = side.digit[k];
            const uint32_t next = (rest * digit.magic) >> 20;
            const int32_t position = (int32_t)(rest - next * (uint32_t)digit.extent);
            place.stride += position * digit.stride;
            place.q += position * digit.q;
            place.at += position * digit.at;
            rest = next;
        }
        return place;
    }

    /* 4, 8 or 16 bytes to shared memory. */
    template <int Bytes> TS_DEVICE void fetch(unsigned char *to, const unsigned char *from)
    {
        if (Bytes == 16) {
            ts_copy_16(to, from);
        } else if (Bytes == 8) {
            ts_copy_8(to, from);
        } else {
            ts_copy_4(to, from);
        }
    }
    template <int V> TS_DEVICE void load(const ts_cuda_move &p, const ts_cuda_move_step &place, const unsigned char *from, uint32_t limits, unsigned char *to)
    {
        const bool all = limits == TS_MOVE_UNLIMITED;
        const int32_t steps = p.load.steps;
        from += place.stride;
        to += place.q;
        if constexpr (V * (int)sizeof(T) >= 4) {
#pragma unroll 4
            for (int32_t k = 0; k < steps; k++) {
                const ts_cuda_move_step &step = p.load.step[k];
                if (all || inside((uint32_t)(place.at + step.at), limits)) {
                    fetch<V * (int)sizeof(T)>(to + step.q, from + step.stride);
                }
            }
        } else { /* no asynchronous copies of so few bytes */
            typedef typename ts_move_bits<V * (int)sizeof(T)>::type some;
#pragma unroll 1
            for (int32_t first = 0; first < steps; first += 8) {
                some held[8];
#pragma unroll
                for (int u = 0; u < 8; u++) {
                    const int32_t k = first + u;
                    if (k < steps && (all || inside((uint32_t)(place.at + p.load.step[k].at), limits))) {
                        held[u] = *reinterpret_cast<const some *>(from + p.load.step[k].stride);
                    }
                }
#pragma unroll
                for (int u = 0; u < 8; u++) {
                    if (first + u < steps) {
                        *reinterpret_cast<some *>(to + p.load.step[first + u].q) = held[u];
                    }
                }
            }
        }
    }
    /* As load, from an address that does not suit vectors. */
    TS_DEVICE void load_apart(const ts_cuda_move &p, const ts_cuda_move_step &place, const unsigned char *from, uint32_t limits, unsigned char *to)
    {
#pragma unroll 1
        for (int32_t k = 0; k < p.load.steps; k++) {
            const ts_cuda_move_step &step = p.load.step[k];
            if (inside((uint32_t)(place.at + step.at), limits)) {
#pragma unroll 1
                for (int e = 0; e < p.load.width; e++) {
                    reinterpret_cast<T *>(to + place.q + step.q)[e] = reinterpret_cast<const T *>(from + place.stride + step.stride)[e];
                }
            }
        }
    }

    /* An access of V elements, each `q` further. */
    template <int V, bool Whole>
    TS_DEVICE typename ts_move_bits<V * (int)sizeof(T)>::type gather(const unsigned char *from, const int32_t *q)
    {
        typedef typename ts_move_bits<V * (int)sizeof(T)>::type bits;
        if constexpr (Whole || V == 1) {
            return *reinterpret_cast<const bits *>(from);
        } else if constexpr (sizeof(T) < 4) {
            const int some = V * (int)sizeof(T) < 4 ? V : 4 / (int)sizeof(T); /* elements to a word */
            uint32_t words[V / some];
#pragma unroll
            for (int e = 0; e < V; e += some) {
                uint32_t word = 0;
#pragma unroll
                for (int k = 0; k < some; k++) {
                    word |= (uint32_t) * reinterpret_cast<const T *>(from + q[e + k]) << (8 * (int)sizeof(T) * k);
                }
                words[e / some] = word;
            }
            bits result;
            if constexpr (V * (int)sizeof(T) < 4) {
                result = (bits)words[0];
            } else {
#pragma unroll
                for (int e = 0; e < V / some; e++) {
                    result.at[e] = words[e];
                }
            }
            return result;
        } else {
            bits result;
#pragma unroll
            for (int e = 0; e < V; e++) {
                const ts_vector<uint32_t, (int)sizeof(T) / 4> element =
                    *reinterpret_cast<const ts_vector<uint32_t, (int)sizeof(T) / 4> *>(from + q[e]);
#pragma unroll
                for (int k = 0; k < (int)sizeof(T) / 4; k++) {
                    result.at[e * ((int)sizeof(T) / 4) + k] = element.at[k];
                }
            }
            return result;
        }
    }
    template <int V, bool Whole>
    TS_DEVICE void store(const ts_cuda_move &p, const ts_cuda_move_step &place, unsigned char *to, uint32_t limits, const unsigned char *from)
    {
        typedef typename ts_move_bits<V * (int)sizeof(T)>::type bits;
        const int AT_ONCE = V >= 8 ? 1 : V * (int)sizeof(T) <= 4 ? 8 : 32 / (V * (int)sizeof(T));
        const bool all = limits == TS_MOVE_UNLIMITED;
        const int32_t steps = p.store.steps;
        int32_t q[V];
#pragma unroll
        for (int e = 0; e < V; e++) {
            q[e] = p.element_q[e];
        }
        from += place.q;
        to += place.stride;
#pragma unroll 1
        for (int32_t first = 0; first < steps; first += AT_ONCE) {
            bits held[AT_ONCE];
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                if (first + u < steps) {
                    held[u] = gather<V, Whole>(from + p.store.step[first + u].q, q);
                }
            }
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                if (first + u < steps && (all || inside((uint32_t)(place.at + p.store.step[first + u].at), limits))) {
                    *reinterpret_cast<bits *>(to + p.store.step[first + u].stride) = held[u];
                }
            }
        }
    }
    TS_DEVICE void store_apart(const ts_cuda_move &p, const ts_cuda_move_step &place, unsigned char *to, uint32_t limits, const unsigned char *from)
    {
#pragma unroll 1
        for (int32_t k = 0; k < p.store.steps; k++) {
            const ts_cuda_move_step &step = p.store.step[k];
            if (inside((uint32_t)(place.at + step.at), limits)) {
#pragma unroll 1
                for (int e = 0; e < p.store.width; e++) {
                    reinterpret_cast<T *>(to + place.stride + step.stride)[e] = *reinterpret_cast<const T *>(from + place.q + step.q + p.element_q[e]);
                }
            }
        }
    }
    /* Vectors that stay what they are, in rows long enough on both sides. */
    TS_DEVICE void pass(const ts_cuda_move &p, const ts_cuda_move_step &load, const ts_cuda_move_step &store,
                        const unsigned char *from, unsigned char *to, uint32_t limits)
    {
        typedef ts_move_bits<16>::type bits;
        const int AT_ONCE = 4;
        const bool all = limits == TS_MOVE_UNLIMITED;
        const int32_t steps = p.store.steps;
        from += load.stride;
        to += store.stride;
#pragma unroll 1
        for (int32_t first = 0; first < steps; first += AT_ONCE) {
            bits held[AT_ONCE];
            bool here[AT_ONCE];
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                here[u] = first + u < steps && (all || inside((uint32_t)(store.at + p.store.step[first + u].at), limits));
                if (here[u]) {
                    held[u] = *reinterpret_cast<const bits *>(from + p.load.step[first + u].stride);
                }
            }
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                if (here[u]) {
                    *reinterpret_cast<bits *>(to + p.store.step[first + u].stride) = held[u];
                }
            }
        }
    }
    TS_DEVICE void pass_apart(const ts_cuda_move &p, const ts_cuda_move_step &load, const ts_cuda_move_step &store,
                              const unsigned char *from, unsigned char *to, uint32_t limits)
    {
#pragma unroll 1
        for (int32_t k = 0; k < p.store.steps; k++) {
            if (inside((uint32_t)(store.at + p.store.step[k].at), limits)) {
#pragma unroll 1
                for (int e = 0; e < W; e++) {
                    reinterpret_cast<T *>(to + store.stride + p.store.step[k].stride)[e] =
                        reinterpret_cast<const T *>(from + load.stride + p.load.step[k].stride)[e];
                }
            }
        }
    }

    TS_DEVICE void load_tile(const ts_cuda_move &p, const ts_cuda_move_step &place, const unsigned char *from, uint32_t limits, unsigned char *to, bool apart)
    {
        if (ts_thread() < p.load.lanes) {
            if (apart) {
                load_apart(p, place, from, limits, to);
            } else if (Wide || p.load.width == W) {
                load<W>(p, place, from, limits, to);
            } else if (p.load.width == W / 2) {
                load<(W > 2 ? W / 2 : 1)>(p, place, from, limits, to);
            } else if (p.load.width == W / 4) {
                load<(W > 4 ? W / 4 : 1)>(p, place, from, limits, to);
            } else if (p.load.width == W / 8) {
                load<(W > 8 ? W / 8 : 1)>(p, place, from, limits, to);
            } else {
                load<1>(p, place, from, limits, to);
            }
        }
        ts_copy_commit();
    }
    TS_DEVICE void store_tile(const ts_cuda_move &p, const ts_cuda_move_step &place, unsigned char *to, uint32_t limits, const unsigned char *from, bool apart)
    {
        if (ts_thread() < p.store.lanes) {
            if (apart) {
                store_apart(p, place, to, limits, from);
            } else if (Wide && p.whole) {
                store<W, true>(p, place, to, limits, from);
            } else if (Wide || p.store.width == W) {
                store<W, false>(p, place, to, limits, from);
            } else if (p.store.width == W / 2) {
                store<(W > 2 ? W / 2 : 1), false>(p, place, to, limits, from);
            } else if (p.store.width == W / 4) {
                store<(W > 4 ? W / 4 : 1), false>(p, place, to, limits, from);
            } else if (p.store.width == W / 8) {
                store<(W > 8 ? W / 8 : 1), false>(p, place, to, limits, from);
            } else {
                store<1, false>(p, place, to, limits, from);
            }
        }
    }

    TS_DEVICE const unsigned char *source(const ts_move_base &base) { return reinterpret_cast<const unsigned char *>((uintptr_t)base.a); }
    TS_DEVICE unsigned char *target(const ts_move_base &base) { return reinterpret_cast<unsigned char *>((uintptr_t)base.c); }

    TS_DEVICE void run(const ts_cuda_move &p)
    {
        const int STAGES = TS_CUDA_MOVE_STAGES;
        const int32_t thread = ts_thread();
        ts_move_base *bases = reinterpret_cast<ts_move_base *>(ts_shared()); /* of 64 tiles, by halves */
        unsigned char *tile = ts_shared() + 64 * sizeof(ts_move_base);
        const int32_t tiles = p.tile_count <= ts_block() ? 0 : (int32_t)((p.tile_count - ts_block() + ts_blocks() - 1) / ts_blocks()); /* of this block */

        if (thread < 32 && thread < tiles) {
            bases[thread] = base_of(p, ts_block() + thread * ts_blocks());
        }
        const ts_cuda_move_step load_place = place_of(p.load);
        ts_sync();
        if (tiles == 0) {
            return;
        }
        /* All tiles begin at multiples of the widths if the first one does. */
        const bool apart_a = (bases[0].a & (uint64_t)(p.load.width * (int)sizeof(T) - 1)) != 0;
        const bool apart_c = (bases[0].c & (uint64_t)(p.store.width * (int)sizeof(T) - 1)) != 0;
        if (!Wide || !p.direct) {
            for (int stage = 0; stage < STAGES - 1; stage++) {
                if (stage < tiles) {
                    load_tile(p, load_place, source(bases[stage]), bases[stage].limits, tile + stage * p.slots, apart_a);
                } else {
                    ts_copy_commit();
                }
            }
        }
        const ts_cuda_move_step store_place = place_of(p.store);
        int32_t here = 0, next = (STAGES - 1) * p.slots;
#pragma unroll 1
        for (int32_t number = 0; number < tiles; number++) {
            const ts_move_base &base = bases[number & 63];
            if (Wide && p.direct) {
                if (number % 32 == 0) {
                    ts_sync();
                }
            } else {
                if (STAGES == 1) {
                    ts_sync();
                    load_tile(p, load_place, source(base), base.limits, tile, apart_a);
                }
                ts_copy_wait<(STAGES > 2 ? STAGES - 2 : 0)>();
                ts_sync(); /* this tile is there; nobody needs the one before */
            }
            if (number % 32 == 0 && thread < 32 && number + 32 + thread < tiles) {
                bases[(number + 32 + thread) & 63] = base_of(p, ts_block() + (number + 32 + thread) * ts_blocks());
            }
            if (Wide && p.direct) {
                if (thread < p.store.lanes) {
                    if (apart_a || apart_c) {
                        pass_apart(p, load_place, store_place, source(base), target(base), base.limits);
                    } else {
                        pass(p, load_place, store_place, source(base), target(base), base.limits);
                    }
                }
                continue;
            }
            if (STAGES > 1) {
                if (number + STAGES - 1 < tiles) {
                    const ts_move_base &later = bases[(number + STAGES - 1) & 63];
                    load_tile(p, load_place, source(later), later.limits, tile + next, apart_a);
                } else {
                    ts_copy_commit();
                }
            }
            store_tile(p, store_place, target(base), base.limits, tile + here, apart_c);
            next = here;
            here = here + p.slots == STAGES * p.slots ? 0 : here + p.slots;
        }
    }
};

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
