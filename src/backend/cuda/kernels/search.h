/* Winners of a tile (tile.h, Track 2), for nearly the price of values: results are sorted by the interval in which they last rose
 * (notes.h), each interval that has any is loaded once more, and a thread looks in it for the first of the best terms of one
 * result. */
#ifndef TS_CUDA_SEARCH_H
#define TS_CUDA_SEARCH_H

#include "locate.h"
#include "micro.h"
#include "notes.h"

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

/* Of a tile's sums. */
template <typename M> struct ts_noted_micro {
    static const int pack = M::pack;
    TS_DEVICE uint32_t nothing(void)
    {
        typename M::sum s;
        M::start(s);
        return M::word(s);
    }
    TS_DEVICE uint32_t word(const typename M::sum &s) { return M::word(s); }
    TS_DEVICE bool differs(uint32_t now, uint32_t old, int32_t k) { return M::differs(now, old, k); }
};

/* Tile: a ts_tile. P, M: its pair and its innermost operation. */
template <typename Tile, typename P, typename M, int TM, int TN, int THREADS> struct ts_search {
    typedef typename P::value value;
    typedef ts_notes<Tile, ts_noted_micro<M>, TM, TN / M::pack, THREADS> notes;
    static const int RESULTS = TM * TN, MOST = TS_CUDA_INTERVALS;
    static const int STEP = 4; /* panels that are searched at a time */
    static const int BYTES = RESULTS * THREADS * 2 + MOST * 4; /* of shared memory */

    /* The sorted list takes the place of the numbers of intervals. */
    TS_DEVICE uint16_t *sorted(void) { return reinterpret_cast<uint16_t *>(Tile::notes_at()); }
    TS_DEVICE uint32_t *ends(void) { return notes::ends(); }
    TS_DEVICE int32_t panels_per_interval(int32_t panels)
    {
        const int32_t steps = (panels + STEP - 1) / STEP;
        return (steps + MOST - 1) / MOST * STEP;
    }
    TS_DEVICE void sort(int32_t zero)
    {
        static_assert(RESULTS * THREADS <= 65536, "numbers of results are 16 bits");
        const auto row = [&](int i) { return Tile::row_of(i) + zero; };
        const auto column = [&](int j, int k) { return Tile::column_of(j * M::pack + k) + zero; };
        notes::template sort<true>([&](int i, int j, int k) { return Tile::is_here(row(i), column(j, k)); },
                                   [&](uint32_t at, int i, int j, int k) { sorted()[at] = (uint16_t)(row(i) * Tile::COLUMNS + column(j, k)); });
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
