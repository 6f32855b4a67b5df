/* A huge operand, read once, against a tiny one or none: see ts_cuda_stream in abi.h. */
#ifndef TS_CUDA_STREAM_H
#define TS_CUDA_STREAM_H

#include "direct.h"

/* What becomes of the elements of results: a thread has SHARE of them, `here` tells which it really has. */
template <typename P> struct ts_stream_sum {
    typedef typename P::storage storage;
    TS_DEVICE void put(const ts_cuda_stream &p, storage *c, const int32_t *c_at, uint32_t here, const storage *tile,
                       const int32_t *q, const int32_t *term_q, const storage *rows, const int32_t *row, bool accumulate,
                       const ts_context &context)
    {
        ts_running<P> sum[TS_CUDA_STREAM_SHARE];
#pragma unroll
        for (int u = 0; u < TS_CUDA_STREAM_SHARE; u++) {
            ts_running<P>::start(sum[u]);
        }
#pragma unroll 1
        for (int32_t i = 0; i < p.terms; i++) {
            const storage *term = tile + term_q[i];
            if (p.rows > 0) {
#pragma unroll
                for (int u = 0; u < TS_CUDA_STREAM_SHARE; u++) {
                    ts_running<P>::pair(sum[u], ts_conjugated(P::load(term[q[u]]), p.conjugate_a),
                                        ts_conjugated(P::load(rows[row[u] + i]), p.conjugate_b), context);
                }
            } else {
#pragma unroll
                for (int u = 0; u < TS_CUDA_STREAM_SHARE; u++) {
                    ts_running<P>::term(sum[u], P::load(term[q[u]]), context);
                }
            }
        }
#pragma unroll
        for (int u = 0; u < TS_CUDA_STREAM_SHARE; u++) {
            if ((here >> u & 1u) != 0) {
                ts_put<P>(c + c_at[u], ts_running<P>::result(sum[u], context), accumulate, context);
            }
        }
    }
};
/* Where a tile begins. place: of partial modes, how many positions there are, in 16 bits each. */
struct ts_stream_base {
    int64_t a, b, c;
    uint32_t limits;
    int32_t pad;
};
TS_DEVICE ts_stream_base ts_stream_base_of(const ts_cuda_stream &p, int64_t item)
{
    ts_stream_base base = {0, 0, 0, 0x7fff7fffu, 0};
#pragma unroll 1
    for (int32_t k = p.outer_count - 1; k >= 0; k--) {
        const ts_cuda_stream_outer &outer = p.outer[k];
        const int64_t next = p.wide ? ts_cuda_divide_wide(item, outer.extent)
                                    : (int64_t)(((uint64_t)(uint32_t)item * outer.magic) >> outer.shift);
        const int64_t position = item - next * outer.extent;
        base.a += position * outer.a;
        base.b += position * outer.b;
        base.c += position * outer.c;
        if (outer.partial != 0) {
            const int32_t which = outer.partial - 1;
            const int64_t left = p.partial_extent[which] - position * p.partial_tile[which];
            if (left < p.partial_tile[which]) {
                base.limits = which == 0 ? (base.limits & 0xffff0000u) | (uint32_t)left
                                         : (base.limits & 0xffffu) | (uint32_t)left << 16;
            }
        }
        item = next;
    }
    return base;
}

/* Which of a thread's elements (results) lie before the ends of partial modes. Only for tiles at an edge. */
template <bool Results> TS_DEVICE uint32_t ts_stream_inside(const ts_cuda_stream &p, uint32_t limits, int32_t thread)
{
    uint32_t mask = 0;
#pragma unroll 1
    for (int u = 0; u < TS_CUDA_STREAM_SHARE; u++) {
        int32_t rest = u * TS_CUDA_STREAM_THREADS + thread;
        bool in = true;
#pragma unroll 1
        for (int32_t k = 0; k < (Results ? p.store_count : p.load_count); k++) {
            const int32_t extent = Results ? p.store[k].extent : p.load[k].extent;
            const int32_t partial = Results ? p.store[k].partial : p.load[k].partial;
            const int32_t next = rest / extent, position = rest - next * extent;
            in = in && (partial == 0 || position < (int32_t)(partial == 1 ? limits & 0xffffu : limits >> 16));
            rest = next;
        }
        mask |= (in ? 1u : 0u) << u;
    }
    return mask;
}

template <typename Way> TS_DEVICE void ts_stream(const ts_cuda_stream &p)
{
    typedef typename Way::storage storage;
    const int SHARE = TS_CUDA_STREAM_SHARE, THREADS = TS_CUDA_STREAM_THREADS;
    const int32_t thread = ts_thread();
    const bool accumulate = ts_switched_on(p.accumulate);
    const ts_context context = ts_make_context(p.modulus);
    const storage *a = reinterpret_cast<const storage *>(ts_address(p.a));
    const storage *b = p.rows > 0 ? reinterpret_cast<const storage *>(ts_address(p.b)) : nullptr;
    storage *c = reinterpret_cast<storage *>(ts_address(p.c));
    ts_stream_base *bases = reinterpret_cast<ts_stream_base *>(ts_shared()); /* of 64 tiles, by halves */
    int64_t *term_b = reinterpret_cast<int64_t *>(bases + 64);
    int64_t *row_b = term_b + p.terms;
    int32_t *term_q = reinterpret_cast<int32_t *>(row_b + p.rows);
    storage *tile = reinterpret_cast<storage *>(reinterpret_cast<unsigned char *>(bases) + 64 * 32 +
                                                ((p.terms * 12 + p.rows * 8) + 15) / 16 * 16);
    storage *rows = tile + p.slots;
    const int64_t tiles = (p.tile_count - ts_block() + ts_blocks() - 1) / ts_blocks(); /* of this block */

    /* This thread's elements: a_at, where they go; its results: q, row, c_at. Places along partial modes: 16 bits each. */
    int32_t a_at[SHARE], to[SHARE], c_at[SHARE], q[SHARE], row[SHARE];
    uint32_t loads = 0, stores = 0;
#pragma unroll
    for (int u = 0; u < SHARE; u++) {
        int32_t rest = u * THREADS + thread;
        loads |= (rest < p.elements ? 1u : 0u) << u;
        a_at[u] = 0;
        to[u] = 0;
#pragma unroll 1
        for (int32_t k = 0; k < p.load_count; k++) {
            const int32_t next = rest / p.load[k].extent, position = rest - next * p.load[k].extent;
            a_at[u] += position * (int32_t)p.load[k].a;
            to[u] += position * p.load[k].q;
            rest = next;
        }
        rest = u * THREADS + thread;
        stores |= (rest < p.results ? 1u : 0u) << u;
        c_at[u] = 0;
        q[u] = 0;
        row[u] = 0;
#pragma unroll 1
        for (int32_t k = 0; k < p.store_count; k++) {
            const int32_t next = rest / p.store[k].extent, position = rest - next * p.store[k].extent;
            c_at[u] += position * (int32_t)p.store[k].c;
            q[u] += position * p.store[k].q;
            row[u] += position * p.store[k].row * p.terms;
            rest = next;
        }
    }
    for (int32_t i = thread; i < p.terms; i += THREADS) {
        int64_t b_offset = 0;
        int32_t at = 0, rest = i;
        for (int32_t k = p.sum_count - 1; k >= 0; k--) {
            const int32_t next = rest / p.sum[k].extent, position = rest - next * p.sum[k].extent;
            at += position * p.sum[k].q;
            b_offset += position * p.sum[k].b;
            rest = next;
        }
        term_q[i] = at;
        term_b[i] = b_offset;
    }
    for (int32_t i = thread; i < p.rows; i += THREADS) {
        int64_t b_offset = 0;
        for (int32_t k = 0; k < p.store_count; k++) {
            if (p.store[k].row != 0) { /* rows are numbered by mixed radix, the extents from the first such mode up */
                b_offset += i / p.store[k].row % p.store[k].extent * p.store[k].b;
            }
        }
        row_b[i] = b_offset;
    }
    if (thread < 32 && thread < tiles) {
        bases[thread] = ts_stream_base_of(p, ts_block() + thread * ts_blocks());
    }
    ts_sync();

    storage held[SHARE];
    for (int64_t number = 0; number <= tiles; number++) {
        /* In turn: what was loaded goes to shared memory; the next tile's loads start; results are made. */
        uint32_t can = 0;
        if (number > 0) {
            const ts_stream_base &base = bases[(number - 1) & 63];
            if (p.rows > 0 && (number == 1 || p.b_moves)) {
                for (int32_t i = thread; i < p.rows * p.terms; i += THREADS) {
                    rows[i] = b[base.b + row_b[i / p.terms] + term_b[i % p.terms]];
                }
            }
#pragma unroll
            for (int u = 0; u < SHARE; u++) {
                if ((loads >> u & 1u) != 0) { /* an element past a partial mode's end is not used */
                    tile[to[u]] = held[u];
                }
            }
            can = base.limits == 0x7fff7fffu ? stores : stores & ts_stream_inside<true>(p, base.limits, thread);
            ts_sync();
            if ((number - 1) % 32 == 0 && thread < 32 && number - 1 + 32 + thread < tiles) {
                bases[(number - 1 + 32 + thread) & 63] = ts_stream_base_of(p, ts_block() + (number - 1 + 32 + thread) * ts_blocks());
            }
        }
        if (number < tiles) {
            const ts_stream_base &base = bases[number & 63];
            const storage *from = a + base.a;
            const uint32_t may = base.limits == 0x7fff7fffu ? loads : loads & ts_stream_inside<false>(p, base.limits, thread);
#pragma unroll
            for (int u = 0; u < SHARE; u++) {
                if ((may >> u & 1u) != 0) {
                    held[u] = from[a_at[u]];
                }
            }
        }
        if (number > 0) {
            Way::put(p, c + bases[(number - 1) & 63].c, c_at, can, tile, q, term_q, rows, row, accumulate, context);
            ts_sync();
        }
    }
}

#endif
