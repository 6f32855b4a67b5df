/* A huge operand, read once, against a tiny one or none: see ts_cuda_stream in abi.h. */
#ifndef TS_CUDA_STREAM_H
#define TS_CUDA_STREAM_H

#include "direct.h"

/* What becomes of the elements of a result. */
template <typename P> struct ts_stream_sum {
    typedef typename P::storage storage;
    TS_DEVICE void put(const ts_cuda_stream &p, storage *c, const storage *tile, int32_t q, const int32_t *term_q,
                       const storage *row, bool accumulate, const ts_context &context)
    {
        ts_running<P> sum;
        ts_running<P>::start(sum);
        if (row != nullptr) {
            for (int32_t i = 0; i < p.terms; i++) {
                int32_t at = q + term_q[i];
                ts_running<P>::pair(sum, ts_conjugated(P::load(tile[at + at / 32]), p.conjugate_a),
                                    ts_conjugated(P::load(row[i]), p.conjugate_b), context);
            }
        } else {
            for (int32_t i = 0; i < p.terms; i++) {
                int32_t at = q + term_q[i];
                ts_running<P>::term(sum, P::load(tile[at + at / 32]), context);
            }
        }
        ts_put<P>(c, ts_running<P>::result(sum, context), accumulate, context);
    }
};
/* Bits are moved. */
template <typename T> struct ts_stream_move {
    typedef T storage;
    TS_DEVICE void put(const ts_cuda_stream &, storage *c, const storage *tile, int32_t q, const int32_t *, const storage *,
                       bool, const ts_context &)
    {
        *c = tile[q + q / 32];
    }
};

template <typename Way> TS_DEVICE void ts_stream(const ts_cuda_stream &p)
{
    typedef typename Way::storage storage;
    const int32_t thread = ts_thread(), threads = TS_CUDA_STREAM_THREADS;
    const int32_t elements = p.load_low * p.load_high, results = p.store_low * p.store_high;
    const bool accumulate = ts_switched_on(p.accumulate);
    const ts_context context = ts_make_context(p.modulus);
    const storage *a = reinterpret_cast<const storage *>(ts_address(p.a));
    const storage *b = p.rows > 0 ? reinterpret_cast<const storage *>(ts_address(p.b)) : nullptr;
    storage *c = reinterpret_cast<storage *>(ts_address(p.c));
    /* Tables: 8-byte things first. Places along partial modes are two 16-bit numbers in a word. */
    int64_t *load_a = reinterpret_cast<int64_t *>(ts_shared());                  /* low, high */
    int64_t *store_c = load_a + p.load_low + p.load_high;                        /* low, high */
    int64_t *term_b = store_c + p.store_low + p.store_high;
    int64_t *row_b = term_b + p.terms;
    int32_t *load_place = reinterpret_cast<int32_t *>(row_b + p.rows);
    int32_t *store_place = load_place + p.load_low + p.load_high;
    int32_t *store_q = store_place + p.store_low + p.store_high;
    int32_t *store_row = store_q + p.store_low + p.store_high;
    int32_t *term_q = store_row + p.store_low + p.store_high;
    storage *tile = reinterpret_cast<storage *>(
        ts_shared() + (reinterpret_cast<unsigned char *>(term_q + p.terms) - ts_shared() + 15) / 16 * 16);
    storage *rows = tile + elements + elements / 32 + 1;

    for (int32_t part = 0; part < 2; part++) {
        const int32_t count = part == 0 ? p.load_low : p.load_high, at = part == 0 ? 0 : p.load_low;
        for (int32_t i = thread; i < count; i += threads) {
            int64_t offset = 0;
            int32_t place = 0, rest = part == 0 ? i : i * p.load_low;
            for (int32_t k = 0; k < p.load_count; k++) {
                const int32_t next = rest / p.load[k].extent, position = rest - next * p.load[k].extent;
                offset += position * p.load[k].a;
                place += p.load[k].partial == 1 ? position : p.load[k].partial == 2 ? position << 16 : 0;
                rest = next;
            }
            load_a[at + i] = offset;
            load_place[at + i] = place;
        }
    }
    for (int32_t part = 0; part < 2; part++) {
        const int32_t count = part == 0 ? p.store_low : p.store_high, at = part == 0 ? 0 : p.store_low;
        for (int32_t i = thread; i < count; i += threads) {
            int64_t offset = 0;
            int32_t place = 0, q = 0, row = 0, rest = part == 0 ? i : i * p.store_low;
            for (int32_t k = 0; k < p.store_count; k++) {
                const int32_t next = rest / p.store[k].extent, position = rest - next * p.store[k].extent;
                offset += position * p.store[k].c;
                place += p.store[k].partial == 1 ? position : p.store[k].partial == 2 ? position << 16 : 0;
                q += position * p.store[k].q;
                row += position * p.store[k].row;
                rest = next;
            }
            store_c[at + i] = offset;
            store_place[at + i] = place;
            store_q[at + i] = q;
            store_row[at + i] = row;
        }
    }
    for (int32_t i = thread; i < p.terms; i += threads) {
        int64_t b_offset = 0;
        int32_t q = 0, rest = i;
        for (int32_t k = p.sum_count - 1; k >= 0; k--) {
            const int32_t next = rest / p.sum[k].extent, position = rest - next * p.sum[k].extent;
            q += position * p.sum[k].q;
            b_offset += position * p.sum[k].b;
            rest = next;
        }
        term_q[i] = q;
        term_b[i] = b_offset;
    }
    for (int32_t i = thread; i < p.rows; i += threads) {
        int64_t b_offset = 0;
        for (int32_t k = 0; k < p.store_count; k++) {
            if (p.store[k].row != 0) { /* rows are numbered by mixed radix, the extents from the first such mode up */
                b_offset += i / p.store[k].row % p.store[k].extent * p.store[k].b;
            }
        }
        row_b[i] = b_offset;
    }
    /* How a thread's place moves on by `threads` elements or results. */
    const int32_t load_step_high = threads / p.load_low, load_step_low = threads - load_step_high * p.load_low;
    const int32_t store_step_high = threads / p.store_low, store_step_low = threads - store_step_high * p.store_low;
    bool b_there = false;
    ts_sync();

    for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
        int64_t a_base = 0, b_base = 0, c_base = 0, rest = item;
        int32_t limits[2] = {INT32_MAX, INT32_MAX};
        for (int32_t k = p.outer_count - 1; k >= 0; k--) {
            const ts_cuda_stream_outer &outer = p.outer[k];
            const int64_t next = p.wide ? ts_cuda_divide_wide(rest, outer.extent)
                                        : (int64_t)(((uint64_t)(uint32_t)rest * outer.magic) >> outer.shift);
            const int64_t position = rest - next * outer.extent;
            a_base += position * outer.a;
            b_base += position * outer.b;
            c_base += position * outer.c;
            if (outer.partial != 0) {
                const int32_t which = outer.partial - 1;
                const int64_t left = p.partial_extent[which] - position * p.partial_tile[which];
                limits[which] = (int32_t)(left < p.partial_tile[which] ? left : p.partial_tile[which]);
            }
            rest = next;
        }
        const bool whole = (limits[0] == INT32_MAX || limits[0] == p.partial_tile[0]) &&
                           (limits[1] == INT32_MAX || limits[1] == p.partial_tile[1]);
        if (p.rows > 0 && (!b_there || p.b_moves)) {
            for (int32_t i = thread; i < p.rows * p.terms; i += threads) {
                rows[i] = b[b_base + row_b[i / p.terms] + term_b[i % p.terms]];
            }
            b_there = true;
        }
        {
            const storage *from = a + a_base;
            int32_t high = thread / p.load_low, low = thread - high * p.load_low;
#pragma unroll 4
            for (int32_t e = thread; e < elements; e += threads) {
                const int32_t place = load_place[low] + load_place[p.load_low + high];
                if (whole || ((place & 0xffff) < limits[0] && (place >> 16) < limits[1])) {
                    tile[e + e / 32] = from[load_a[low] + load_a[p.load_low + high]];
                }
                low += load_step_low;
                high += load_step_high;
                if (low >= p.load_low) {
                    low -= p.load_low;
                    high++;
                }
            }
        }
        ts_sync();
        {
            storage *to = c + c_base;
            int32_t high = thread / p.store_low, low = thread - high * p.store_low;
            for (int32_t e = thread; e < results; e += threads) {
                const int32_t place = store_place[low] + store_place[p.store_low + high];
                if (whole || ((place & 0xffff) < limits[0] && (place >> 16) < limits[1])) {
                    Way::put(p, to + (store_c[low] + store_c[p.store_low + high]), tile,
                             store_q[low] + store_q[p.store_low + high], term_q,
                             p.rows > 0 ? rows + (store_row[low] + store_row[p.store_low + high]) * p.terms : nullptr,
                             accumulate, context);
                }
                low += store_step_low;
                high += store_step_high;
                if (low >= p.store_low) {
                    low -= p.store_low;
                    high++;
                }
            }
        }
        ts_sync();
    }
}

#endif
