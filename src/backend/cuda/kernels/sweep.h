/* Long sums of one operand, read once and along memory: see "reduce_row" in abi.h. */
#ifndef TS_CUDA_SWEEP_H
#define TS_CUDA_SWEEP_H

#include "direct.h"
#include "vector.h"

/* What a thread holds of one result: a running sum, or the best term and at which of the thread's steps it was met. */
template <typename P, bool Winners> struct ts_sweeper {
    ts_running<P> sum;
    TS_DEVICE void start(ts_sweeper &s) { ts_running<P>::start(s.sum); }
    TS_DEVICE void term(ts_sweeper &s, typename P::value x, int32_t, const ts_context &context) { ts_running<P>::term(s.sum, x, context); }
    TS_DEVICE typename P::value result(const ts_sweeper &s, const ts_context &context) { return ts_running<P>::result(s.sum, context); }
    TS_DEVICE int32_t when(const ts_sweeper &) { return -1; }
};
template <typename P> struct ts_sweeper<P, true> {
    typename P::value best;
    int32_t step;
    TS_DEVICE void start(ts_sweeper &s)
    {
        s.best = P::zero();
        s.step = -1;
    }
    TS_DEVICE void term(ts_sweeper &s, typename P::value x, int32_t step, const ts_context &)
    {
        if (s.step < 0 || P::better(x, s.best)) {
            s.best = x;
            s.step = step;
        }
    }
    TS_DEVICE typename P::value result(const ts_sweeper &s, const ts_context &) { return s.best; }
    TS_DEVICE int32_t when(const ts_sweeper &s) { return s.step; }
};

template <typename P> struct ts_sweep {
    typedef typename P::storage storage;
    typedef typename P::value value;
    static const bool Winners = P::selective;
    static const int W = sizeof(storage) >= 16 ? 1 : 16 / (int)sizeof(storage);
    typedef ts_sweeper<P, Winners> sweeper;

    /* Two partial results become one. */
    TS_DEVICE void merge(value &x, int64_t &x_at, value y, int64_t y_at, const ts_context &context)
    {
        if constexpr (Winners) {
            ts_leader<P> leader;
            leader.best = x;
            leader.index = x_at;
            ts_leader<P>::merge(leader, y, y_at);
            x = leader.best;
            x_at = leader.index;
        } else {
            x = P::add(x, y, context.modulus);
        }
    }
    template <int V> TS_DEVICE void run(const ts_cuda_reduce &p)
    {
        const int AHEAD = V > 8 ? 1 : 4; /* more spill: a result takes two registers */
        const ts_cuda_mode *modes = ts_mode_table(p.modes), *sum_modes = modes + p.kept_count;
        const ts_context context = ts_make_context(p.modulus);
        const storage *a = reinterpret_cast<const storage *>(ts_address(p.a));
        const bool accumulate = ts_switched_on(p.accumulate), along_sum = p.along == TS_CUDA_ALONG_SUM;
        const bool apart = ((uintptr_t)a & 15u) != 0;
        const int32_t thread = ts_thread(), lanes = p.lanes, rows = ts_threads() / lanes, lane = thread % lanes, row = thread / lanes;
        const ts_cuda_mode &x_mode = along_sum ? sum_modes[p.sum_count - 1] : modes[p.kept_count - 1];
        const int64_t reach = x_mode.extent, stride = x_mode.a;
        const int32_t pieces = (int32_t)((reach + lanes * V - 1) / (lanes * V)); /* of the mode along which neighbours lie */
        const int32_t width = along_sum ? rows : lanes * V, parts = along_sum ? lanes : rows; /* results; partial results of each */
        value *values = reinterpret_cast<value *>(ts_shared());
        int64_t *indices = reinterpret_cast<int64_t *>(ts_shared() + (uint32_t)(width * parts) * sizeof(value));
        for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
            const int64_t tile = p.splits == 1 ? item : ts_cuda_divide_wide(item, p.splits), split = item - tile * p.splits;
            const int32_t first = (int32_t)(split * p.split_terms);
            const int32_t last = first + p.split_terms < p.steps ? (int32_t)(first + p.split_terms) : p.steps;
            const int64_t others = along_sum ? tile * rows : ts_cuda_divide_wide(tile, pieces); /* of kept positions */
            const int64_t x_first = along_sum ? 0 : (tile - others * pieces) * lanes * V;
            const bool here = along_sum ? others + row < p.kept : x_first + lane * V < reach;
            const storage *from = a;
            if (along_sum) {
                from += ts_offsets_of(modes, p.kept_count, p.modes.wide, here ? others + row : 0).a;
            } else {
                from += ts_offsets_of(modes, p.kept_count - 1, p.modes.wide, others).a + (here ? (x_first + lane * V) * stride : 0);
            }
            const int64_t per_step = along_sum ? lanes * V : rows, place = along_sum ? lane * V : row; /* in a sum of one mode */
            sweeper held[V];
#pragma unroll
            for (int e = 0; e < V; e++) {
                sweeper::start(held[e]);
            }
#pragma unroll 1
            for (int32_t step = first; step < last; step += AHEAD) {
                storage x[AHEAD][V];
                bool in[AHEAD];
                int64_t at[AHEAD];
                if (p.sum_count == 1) {
#pragma unroll
                    for (int u = 0; u < AHEAD; u++) {
                        const int64_t term = (int64_t)(step + u) * per_step + place;
                        in[u] = here && step + u < last && term < p.sum;
                        at[u] = term * sum_modes[0].a;
                    }
                } else {
#pragma unroll
                    for (int u = 0; u < AHEAD; u++) {
                        in[u] = here && step + u < last;
                        if (along_sum) {
                            const int32_t outer = (step + u) / pieces;
                            const int64_t position = ((int64_t)(step + u - outer * pieces) * lanes + lane) * V;
                            in[u] = in[u] && position < reach;
                            at[u] = position * stride + ts_offsets_of(sum_modes, p.sum_count - 1, p.modes.wide, outer).a;
                        } else {
                            const int64_t term = (int64_t)(step + u) * rows + row;
                            in[u] = in[u] && term < p.sum;
                            at[u] = ts_offsets_of(sum_modes, p.sum_count, p.modes.wide, in[u] ? term : 0).a;
                        }
                    }
                }
                /* All under way before the first is looked at: one branch for all of them, not one each. */
                if (V == 1 || apart) {
#pragma unroll
                    for (int u = 0; u < AHEAD; u++) {
#pragma unroll
                        for (int e = 0; e < V; e++) {
                            if (in[u]) {
                                x[u][e] = from[at[u] + e];
                            }
                        }
                    }
                } else {
#pragma unroll
                    for (int u = 0; u < AHEAD; u++) {
                        if (in[u]) {
                            const ts_vector<uint32_t, 4> bits = *reinterpret_cast<const ts_vector<uint32_t, 4> *>(from + at[u]);
                            memcpy(x[u], &bits, 16);
                        }
                    }
                }
#pragma unroll
                for (int u = 0; u < AHEAD; u++) {
                    if (in[u]) {
#pragma unroll
                        for (int e = 0; e < V; e++) {
                            sweeper::term(held[e], P::load(x[u][e]), step + u, context);
                        }
                    }
                }
            }
            /* A thread's results, then those of all threads. */
            value result = P::zero();
            int64_t index = -1;
#pragma unroll
            for (int e = 0; e < V; e++) {
                const int32_t when = sweeper::when(held[e]);
                const value one = sweeper::result(held[e], context);
                int64_t one_at = -1;
                if (Winners && when >= 0) {
                    const int32_t outer = along_sum ? when / pieces : 0;
                    one_at = along_sum ? outer * reach + ((int64_t)(when - outer * pieces) * lanes + lane) * V + e
                                       : (int64_t)when * rows + row;
                }
                if (along_sum) {
                    if (e == 0) {
                        result = one;
                        index = one_at;
                    } else {
                        merge(result, index, one, one_at, context);
                    }
                } else {
                    values[row * width + lane * V + e] = one;
                    if (Winners) {
                        indices[row * width + lane * V + e] = one_at;
                    }
                }
            }
            if (along_sum) {
                values[lane * width + row] = result;
                if (Winners) {
                    indices[lane * width + row] = index;
                }
            }
            ts_sync();
#pragma unroll 1
            for (int32_t left = parts; left > 1;) {
                const int32_t half = (left + 1) / 2;
                for (int32_t i = thread; i < (left - half) * width; i += ts_threads()) {
                    value x = values[i];
                    int64_t x_at = Winners ? indices[i] : -1;
                    merge(x, x_at, values[i + half * width], Winners ? indices[i + half * width] : -1, context);
                    values[i] = x;
                    if (Winners) {
                        indices[i] = x_at;
                    }
                }
                ts_sync();
                left = half;
            }
            for (int32_t i = thread; i < width; i += ts_threads()) {
                const int64_t number = along_sum ? others + i : others * reach + x_first + i;
                if (along_sum ? number < p.kept : x_first + i < reach) {
                    put(p, modes, split, number, values[i], Winners ? indices[i] : -1, accumulate, context);
                }
            }
            ts_sync();
        }
    }
    TS_DEVICE void put(const ts_cuda_reduce &p, const ts_cuda_mode *modes, int64_t split, int64_t number, value result, int64_t index,
                       bool accumulate, const ts_context &context)
    {
        if (p.splits > 1) {
            reinterpret_cast<value *>((uintptr_t)p.partial)[split * p.kept + number] = result;
            if (Winners && p.winner_bytes != 0) {
                reinterpret_cast<int64_t *>((uintptr_t)p.partial_w)[split * p.kept + number] = index;
            }
        } else {
            const ts_cuda_offsets at = ts_offsets_of(modes, p.kept_count, p.modes.wide, number);
            ts_put<P>(reinterpret_cast<storage *>(ts_address(p.c)) + at.c, result, accumulate, context);
            if (Winners && p.winner_bytes != 0) {
                ts_put_winner(ts_address(p.w), at.w, ts_settled_winner<P>(P::finish(result), index), p.winner_bytes);
            }
        }
    }
};

template <typename P> TS_DEVICE void ts_reduce_row(const ts_cuda_reduce &p)
{
    if (ts_sweep<P>::W > 1 && p.vector > 1) {
        ts_sweep<P>::template run<ts_sweep<P>::W>(p);
    } else {
        ts_sweep<P>::template run<1>(p);
    }
}

#endif
