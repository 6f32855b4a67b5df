/* Winners of large products through packed panels (packed_abi.h), in a launch of their own: a thread looks for the first term that
 * is equal to its result in the interval that has it (notes.h). */
#ifndef TS_CUDA_WINNERS_H
#define TS_CUDA_WINNERS_H

#include "dense.h"
#include "locate.h"
#include "notes.h"

/* Of sums of packed products. */
template <typename D> struct ts_noted_dense {
    static const int pack = D::across;
    TS_DEVICE uint32_t nothing(void) { return D::word(D::start()); }
    TS_DEVICE uint32_t word(const typename D::sum &s) { return D::word(s); }
    TS_DEVICE bool differs(uint32_t now, uint32_t old, int32_t k) { return D::differs(now, old, k); }
};

/* One warp fetches the panels of one interval after the other, the others look at 32 results at a time. A lane reads terms by
 * 16 bytes, in an order of its own, so that eight lanes read eight different groups of banks whatever their rows are. */
template <typename P, int BM, int BN, int THREADS> struct ts_winners {
    typedef typename P::storage storage;
    typedef typename P::value value;
    static const int TERMS = TS_CUDA_INTERVAL, V = 16 / (int)sizeof(storage);
    static const int LINE = TERMS * (int)sizeof(storage), PARTS = LINE / 16, PANEL_A = BM * LINE, PANEL_B = BN * LINE;
    static const int TOGETHER = 12; /* rows of tiles */
    static const int STAGES = 2, WORKERS = THREADS / 32 - 1;
    static const int SHARED = STAGES * (PANEL_A + PANEL_B) + (BM + BN) * 8 + TS_CUDA_INTERVALS * 4 + 128;
    static_assert(SHARED == (int)ts_cuda_winners_shared(BM, BN, sizeof(storage)), "host and kernel agree");
    static_assert(PANEL_A % 512 == 0 && PANEL_B % 512 == 0, "what a warp copies at a time");

    TS_DEVICE unsigned char *panel_at(int stage) { return ts_shared() + stage * (PANEL_A + PANEL_B); }
    TS_DEVICE int64_t *w_row(void) { return reinterpret_cast<int64_t *>(panel_at(STAGES)); }
    TS_DEVICE int64_t *w_column(void) { return w_row() + BM; }
    TS_DEVICE uint32_t *ends(void) { return reinterpret_cast<uint32_t *>(w_column() + BN); }
    TS_DEVICE uint64_t *stage_at(int stage) { return reinterpret_cast<uint64_t *>(ts_shared() + (SHARED - 128)) + 2 * stage; }

    /* By the loading warp. */
    TS_DEVICE void issue(const char *a, const char *b, int stage)
    {
        ts_copy_block(panel_at(stage), a, PANEL_A, stage_at(stage));
        ts_copy_block(panel_at(stage) + PANEL_A, b, PANEL_B, stage_at(stage));
    }

    template <bool Nan> TS_DEVICE bool is_best(storage x, storage y, value best, const ts_context &context)
    {
        const value term = P::product(P::load(x), P::load(y), context.modulus);
        return term == best || (Nan && ts_is_not_a_number(term) && ts_is_not_a_number(best));
    }
    /* The first term that is equal to `best`, or 0: first the 16 bytes that have it. */
    template <bool Nan> TS_DEVICE int32_t first_of(int stage, int row, int column, value best, const ts_context &context)
    {
        const int32_t rotation = ts_thread() % PARTS * 16;
        const unsigned char *a = panel_at(stage) + row * LINE, *b = panel_at(stage) + PANEL_A + column * LINE;
        storage x[V], y[V];
        int32_t first = LINE, term = 0;
#pragma unroll (Nan ? 1 : PARTS)
        for (int32_t part = 0; part < LINE; part += 16) {
            const int32_t at = part ^ rotation;
            bool here = false;
            ts_read_vector<storage, V>(reinterpret_cast<const storage *>(a + at), x);
            ts_read_vector<storage, V>(reinterpret_cast<const storage *>(b + at), y);
#pragma unroll
            for (int i = 0; i < V; i++) {
                here |= is_best<Nan>(x[i], y[i], best, context);
            }
            first = here ? ts_min_i32(first, at) : first;
        }
        first = first < LINE ? first : 0;
        ts_read_vector<storage, V>(reinterpret_cast<const storage *>(a + first), x);
        ts_read_vector<storage, V>(reinterpret_cast<const storage *>(b + first), y);
#pragma unroll
        for (int i = V - 1; i >= 0; i--) {
            term = is_best<Nan>(x[i], y[i], best, context) ? i : term;
        }
        return first / (int)sizeof(storage) + term;
    }
    struct found {
        value best;
        int32_t row, column;
    };
    TS_DEVICE found read(const ts_vector<uint32_t, 2> *from)
    {
        const ts_vector<uint32_t, 2> one = *from;
        found f;
        memcpy(&f.best, &one.at[0], sizeof f.best);
        f.row = (int32_t)(one.at[1] / BN);
        f.column = (int32_t)(one.at[1] % BN);
        return f;
    }
    TS_DEVICE void look(const ts_cuda_winners &p, char *w, const found &f, bool here, int stage, int32_t interval, const ts_context &context)
    {
        const int32_t term = ts_ballot(ts_is_not_a_number(f.best)) == 0 ? first_of<false>(stage, f.row, f.column, f.best, context)
                                                                      : first_of<true>(stage, f.row, f.column, f.best, context);
        if (here) {
            /* Where no term is equal, the result is zero of the semiring, and its winner the first term. */
            const int64_t index = (int64_t)interval * TERMS + term;
            ts_put_winner(w, w_row()[f.row] + w_column()[f.column], ts_settled_winner<P>(P::finish(f.best), index), p.winner_bytes);
        }
    }

    TS_DEVICE void walk(const ts_cuda_winners &p, const char *a, const char *b, const ts_vector<uint32_t, 2> *results, char *w,
                        const ts_context &context)
    {
        const int32_t warp = ts_thread() / 32, lane = ts_thread() % 32, intervals = (int32_t)p.intervals;
        const bool loads = warp == WORKERS;
        int stage = 0, next = 1;
        uint32_t parity = 0, next_parity = 0, begin = 0, turn = 0;
        if (loads) {
            issue(a, b, 0);
        }
        ts_stage_commit(stage_at(0));
        ts_copy_commit();
#pragma unroll 1
        for (int32_t interval = 0; interval < intervals; interval++) {
            const uint32_t end = ends()[interval], pieces = (end - begin + 31) / 32;
            /* Warps take turns, so that those which have nothing to do here go on to the next interval. */
            uint32_t piece = loads ? pieces : (uint32_t)warp >= turn ? (uint32_t)warp - turn : (uint32_t)warp + WORKERS - turn;
            found f = {};
            if (interval + 1 < intervals) {
                ts_stage_reuse_by(stage_at(next), next_parity, loads);
                a += PANEL_A;
                b += PANEL_B;
                if (loads) {
                    issue(a, b, next);
                }
                ts_stage_commit(stage_at(next));
            }
            ts_copy_commit();
            if (piece < pieces) { /* on its way before the panels are there */
                const uint32_t at = begin + piece * 32 + (uint32_t)lane;
                f = read(results + (at < end ? at : begin));
            }
            ts_stage_wait<1>(stage_at(stage), parity);
#pragma unroll 1
            while (piece < pieces) {
                look(p, w, f, begin + piece * 32 + (uint32_t)lane < end, stage, interval, context);
                piece += WORKERS;
                if (piece < pieces) {
                    const uint32_t at = begin + piece * 32 + (uint32_t)lane;
                    f = read(results + (at < end ? at : begin));
                }
            }
            ts_stage_release(stage_at(stage));
            turn = (turn + pieces) % WORKERS;
            begin = end;
            parity ^= (uint32_t)stage;
            next_parity ^= (uint32_t)next;
            stage ^= 1;
            next ^= 1;
        }
        ts_copy_wait<0>();
    }

    /* Blocks that run at the same time look at a square of results, so that they share panels in the second-level cache. */
    TS_DEVICE int64_t tile_of(const ts_cuda_winners &p, int64_t item, int64_t &left_tile, int64_t &right_tile)
    {
        const int64_t batch = ts_cuda_divide_wide(item, p.left_tiles * p.right_tiles), place = item - batch * p.left_tiles * p.right_tiles;
        const int64_t first = ts_cuda_divide_wide(place, TOGETHER * p.right_tiles) * TOGETHER, within = place - first * p.right_tiles;
        const int64_t height = first + TOGETHER < p.left_tiles ? TOGETHER : p.left_tiles - first;
        right_tile = ts_cuda_divide_wide(within, height);
        left_tile = first + (within - right_tile * height);
        return batch;
    }
    TS_DEVICE void run(const ts_cuda_winners &p)
    {
        const ts_cuda_mode *modes = ts_mode_table(p.modes);
        const ts_context context = ts_make_context(p.modulus);
        char *w = ts_address(p.w);
        bool first_walk = true;
        for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
            int64_t left_tile, right_tile;
            const int64_t batch = tile_of(p, item, left_tile, right_tile), tile = (batch * p.left_tiles + left_tile) * p.right_tiles + right_tile;
            const int64_t base = ts_offsets_of(modes, p.batch_count, p.modes.wide, batch).w;
            ts_sync(); /* the tables of the item before */
            for (int i = ts_thread(); i < BM; i += THREADS) {
                const int64_t row = left_tile * BM + i;
                w_row()[i] = base + ts_offsets_of(modes + p.batch_count, p.left_count, p.modes.wide, row < p.left ? row : 0).w;
            }
            for (int i = ts_thread(); i < BN; i += THREADS) {
                const int64_t column = right_tile * BN + i;
                w_column()[i] = ts_offsets_of(modes + p.batch_count + p.left_count, p.right_count, p.modes.wide, column < p.right ? column : 0).w;
            }
            for (int i = ts_thread(); i < TS_CUDA_INTERVALS; i += THREADS) {
                ends()[i] = reinterpret_cast<const uint32_t *>((uintptr_t)p.ends)[tile * TS_CUDA_INTERVALS + i];
            }
            ts_stages_init(stage_at(0), STAGES, THREADS, first_walk);
            first_walk = false;
            ts_sync();
            walk(p, reinterpret_cast<const char *>((uintptr_t)p.a) + (batch * p.left_tiles + left_tile) * p.intervals * PANEL_A,
                 reinterpret_cast<const char *>((uintptr_t)p.b) + (batch * p.right_tiles + right_tile) * p.intervals * PANEL_B,
                 reinterpret_cast<const ts_vector<uint32_t, 2> *>((uintptr_t)p.found) + tile * (BM * BN), w, context);
        }
    }
};

#endif
