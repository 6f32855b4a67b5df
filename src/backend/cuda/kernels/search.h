/* Winners of a tile (tile.h, Track 2), for nearly the price of values.
 *
 * While terms are summed, a thread notes every few panels (an interval) which of its results have risen: a byte per
 * result in shared memory says in which interval it last rose. What the results were before is kept in local memory,
 * which is touched once per interval, for shared memory and registers are full. Afterwards results are sorted by
 * interval, each interval that has any is loaded once more, and a thread looks in it for the first of the best terms of
 * one result. The interval in which a result last rose has its winner: it is the first that attains the value. */
#ifndef TS_CUDA_SEARCH_H
#define TS_CUDA_SEARCH_H

#include "locate.h"
#include "micro.h"
#include "vector.h"

/* ts_better_..., with a comparison less. */
template <typename P> TS_DEVICE bool ts_ahead(typename P::value x, typename P::value best)
{
    if constexpr (P::kind <= ts_kind_f64 && P::add_op == ts_op_max) {
        return !(x <= best) && best == best;
    } else if constexpr (P::kind <= ts_kind_f64 && P::add_op == ts_op_min) {
        return !(x >= best) && best == best;
    } else {
        return P::better(x, best);
    }
}

/* Tile: a ts_tile. P, M: its pair and its innermost operation. */
template <typename Tile, typename P, typename M, int TM, int TN, int THREADS> struct ts_search {
    typedef typename P::value value;
    static const int RESULTS = TM * TN, WORDS = RESULTS / M::pack, V = TN / M::pack < 4 ? TN / M::pack : 4;
    static const int STEP = 4;     /* panels that are searched at a time */
    static const int MOST = 256;   /* intervals */
    static const int BYTES = RESULTS * THREADS * 2 + MOST * 4; /* of shared memory */

    /* The numbers of intervals lie by fours in words, thread by thread; the sorted list takes their place. */
    TS_DEVICE unsigned char *intervals(void) { return Tile::search_at(); }
    TS_DEVICE uint16_t *sorted(void) { return reinterpret_cast<uint16_t *>(Tile::search_at()); }
    TS_DEVICE uint32_t *ends(void) { return reinterpret_cast<uint32_t *>(Tile::search_at() + RESULTS * THREADS * 2); }

    /* What a thread's results were at the last note. Registers have no room for them, so they are found through `zero`,
     * which is 0, but not so that the compiler knows. */
    struct before {
        alignas(16) uint32_t word[WORDS];
    };
    TS_DEVICE int32_t panels_per_interval(int32_t panels)
    {
        const int32_t steps = (panels + STEP - 1) / STEP;
        return (steps + MOST - 1) / MOST * STEP;
    }
    TS_DEVICE void start(before &old, int32_t zero)
    {
        static_assert(RESULTS % 4 == 0 && RESULTS * THREADS <= 65536, "numbers of results are 16 bits");
        typename M::sum nothing;
        M::start(nothing);
#pragma unroll 1
        for (int i = 0; i < WORDS; i++) {
            old.word[i + zero] = M::word(nothing);
        }
#pragma unroll 1
        for (int i = 0; i < RESULTS / 4; i++) {
            reinterpret_cast<uint32_t *>(intervals())[i * THREADS + ts_thread()] = 0;
        }
    }
    template <typename Sums> TS_DEVICE void note(const Sums &s, before &old, int32_t interval, int32_t zero)
    {
        unsigned char *mine = intervals() + ts_thread() * 4;
#pragma unroll
        for (int i = 0; i < TM; i++) {
#pragma unroll
            for (int j = 0; j < TN / M::pack; j += V) {
                const int at = i * (TN / M::pack) + j;
                uint32_t was[V];
                ts_vector<uint32_t, V> now;
                ts_read_vector<uint32_t, V>(old.word + (at + zero), was);
#pragma unroll
                for (int v = 0; v < V; v++) {
                    now.at[v] = M::word(s.at[i][j + v]);
#pragma unroll
                    for (int k = 0; k < M::pack; k++) {
                        const int result = (at + v) * M::pack + k;
                        if (M::differs(now.at[v], was[v], k)) {
                            mine[result / 4 * (4 * THREADS) + result % 4] = (unsigned char)interval;
                        }
                    }
                }
                *reinterpret_cast<ts_vector<uint32_t, V> *>(old.word + (at + zero)) = now;
            }
        }
    }

    /* Sort the results by interval; ends()[i] becomes the end of interval i. */
    TS_DEVICE void sort(int32_t zero)
    {
        const int32_t thread = ts_thread();
        uint32_t mine[RESULTS / 4];
#pragma unroll
        for (int i = 0; i < RESULTS / 4; i++) {
            mine[i] = reinterpret_cast<const uint32_t *>(intervals())[i * THREADS + thread];
        }
        for (int i = thread; i < MOST; i += THREADS) {
            ends()[i] = 0;
        }
        ts_sync();
#pragma unroll
        for (int result = 0; result < RESULTS; result++) {
            if (Tile::is_here(Tile::row_of(result / TN) + zero, Tile::column_of(result % TN) + zero)) {
                ts_atomic_add_shared(ends() + (mine[result / 4] >> (result % 4 * 8) & 0xffu), 1u);
            }
        }
        ts_sync();
        if (thread < 32) { /* counts to beginnings */
            const int SHARE = MOST / 32;
            uint32_t sum = 0, before_me = 0;
            for (int i = 0; i < SHARE; i++) {
                sum += ends()[thread * SHARE + i];
            }
            for (int lane = 0; lane < 31; lane++) {
                const uint32_t other = ts_shuffle(sum, lane);
                before_me += lane < thread ? other : 0u;
            }
            for (int i = 0; i < SHARE; i++) {
                const uint32_t count = ends()[thread * SHARE + i];
                ends()[thread * SHARE + i] = before_me;
                before_me += count;
            }
        }
        ts_sync();
#pragma unroll
        for (int result = 0; result < RESULTS; result++) {
            const int row = Tile::row_of(result / TN) + zero, column = Tile::column_of(result % TN) + zero;
            if (Tile::is_here(row, column)) {
                const uint32_t at = ts_atomic_add_shared(ends() + (mine[result / 4] >> (result % 4 * 8) & 0xffu), 1u);
                sorted()[at] = (uint16_t)(row * Tile::COLUMNS + column);
            }
        }
        ts_sync();
    }

    struct leader {
        value best;
        int32_t term;
    };
    TS_DEVICE void look(leader &l, int row, int column, int32_t first, int32_t count, const ts_context &context)
    {
#pragma unroll 1
        for (int stage = 0; stage < STEP; stage++) {
            const typename M::left *pa = Tile::panel_a(stage) + row;
            const typename M::right *pb = Tile::panel_b(stage) + column;
            const int32_t from = stage * Tile::DEPTH;
            if (from + Tile::DEPTH <= count) {
#pragma unroll
                for (int i = 0; i < Tile::DEPTH; i++) {
                    offer(l, pa[i * Tile::PITCH_A], pb[i * Tile::PITCH_B], first + from + i, context);
                }
            } else {
#pragma unroll 1
                for (int i = 0; from + i < count; i++) {
                    offer(l, pa[i * Tile::PITCH_A], pb[i * Tile::PITCH_B], first + from + i, context);
                }
            }
        }
    }
    TS_DEVICE void offer(leader &l, typename M::left x, typename M::right y, int32_t term, const ts_context &context)
    {
        const value product = P::product(M::left_value(x), M::right_value(y), context.modulus);
        const bool ahead = ts_ahead<P>(product, l.best);
        l.best = ahead ? product : l.best;
        l.term = ahead ? term : l.term;
    }

    TS_DEVICE void put(const ts_cuda_contract &p, const ts_contract_item &place, char *w, int row, int column, int64_t index,
                       value best)
    {
        if (p.splits > 1) {
            const int64_t result =
                (place.batch * p.left + place.left_tile * Tile::ROWS + row) * p.right + place.right_tile * Tile::COLUMNS + column;
            reinterpret_cast<int64_t *>((uintptr_t)p.partial_w)[place.split * (p.batch * p.left * p.right) + result] = index;
        } else {
            ts_put_winner(w, Tile::w_row()[row] + Tile::w_column()[column], ts_settled_winner<P>(P::finish(best), index),
                          p.winner_bytes);
        }
    }
    /* All threads of the block; nobody needs the panels any more. */
    TS_DEVICE void run(const Tile &t, const ts_cuda_contract &p, const ts_contract_item &place, int32_t panels,
                       int32_t zero, const ts_context &context)
    {
        char *w = ts_address(p.w);
        const int32_t per = panels_per_interval(panels), thread = ts_thread();
        int32_t loaded = -1; /* first panel */
        uint32_t begin = 0;
        if (panels == 0) {
            for (int at = thread; at < Tile::ROWS * Tile::COLUMNS; at += THREADS) {
                if (Tile::is_here(at / Tile::COLUMNS, at % Tile::COLUMNS)) {
                    put(p, place, w, at / Tile::COLUMNS, at % Tile::COLUMNS, -1, P::zero());
                }
            }
            return;
        }
        sort(zero);
#pragma unroll 1
        for (int32_t first = 0, interval = 0; first < panels; first += per, interval++) {
            const uint32_t end = ends()[interval];
#pragma unroll 1
            for (; begin < end; begin = begin + THREADS < end ? begin + THREADS : end) {
                const bool here = begin + (uint32_t)thread < end;
                const int at = sorted()[here ? begin + (uint32_t)thread : begin];
                const int row = at / Tile::COLUMNS, column = at % Tile::COLUMNS;
                leader l;
                l.best = P::zero();
                l.term = 0;
#pragma unroll 1
                for (int32_t panel = first; panel < first + per && panel < panels; panel += STEP) {
                    if (loaded != panel) {
                        Tile::load_again(t, panel, panels);
                        loaded = panel;
                    }
                    if (here) {
                        const int64_t left_over = place.last - place.first - (int64_t)panel * Tile::DEPTH;
                        look(l, row, column, (panel - first) * Tile::DEPTH,
                             left_over < STEP * Tile::DEPTH ? (int32_t)left_over : STEP * Tile::DEPTH, context);
                    }
                }
                if (here) {
                    put(p, place, w, row, column, place.first + (int64_t)first * Tile::DEPTH + l.term, l.best);
                }
            }
        }
    }
};

#endif
