/* contract by tiles: a block computes BM x BN results, walking the sum in panels of BK terms that are gathered into
 * shared memory through offset tables (any strides), STAGES panels deep.
 *
 * A warp computes 4*TM x 8*TN results, a thread TM x TN of them in groups of 16 bytes, so that a thread's fragments are
 * 16-byte reads without bank conflicts. Panels are stored [term][row]. Edges: rows past the end read the last row again
 * and are not stored; the last panel runs over the terms it has. */
#ifndef TS_CUDA_TILE_H
#define TS_CUDA_TILE_H

#include "follow.h"
#include "locate.h"
#include "micro.h"
#include "search.h"
#include "vector.h"

#ifndef TS_UNROLL
#define TS_UNROLL 2 /* terms per turn of the innermost loop: it should fit into the instruction cache */
#endif
#define TS_TERMS 128 /* terms per table of sum offsets; two tables take turns */

/* ---- fragments ---- */
constexpr int ts_least(int x, int y) { return x < y ? x : y; }
TS_DEVICE int32_t ts_most(int32_t x, int32_t y) { return x > y ? x : y; }

/* May 16 bytes of consecutive rows (or columns) be read at once? `own` is the class whose last mode would be walked. */
template <bool Left>
TS_DEVICE bool ts_wide_rows(const ts_cuda_contract &p, const ts_cuda_mode *modes, const char *base, int32_t own_first,
                            int32_t own_count, int32_t sum_first, int32_t bytes)
{
    int64_t per = 16 / bytes, odd = (int64_t)((uintptr_t)base & 15u);
    if (own_count == 0) {
        return false;
    }
    const ts_cuda_mode &last = modes[own_first + own_count - 1];
    if ((Left ? last.a : last.b) != 1 || last.extent % per != 0) {
        return false;
    }
    for (int32_t i = 0; i < p.batch_count; i++) {
        odd |= (Left ? modes[i].a : modes[i].b) % per;
    }
    for (int32_t i = own_first; i < own_first + own_count - 1; i++) {
        odd |= (Left ? modes[i].a : modes[i].b) % per;
    }
    for (int32_t i = sum_first; i < sum_first + p.sum_count; i++) {
        odd |= (Left ? modes[i].a : modes[i].b) % per;
    }
    return odd == 0;
}

/* The same of consecutive terms of one row. */
template <bool Left>
TS_DEVICE bool ts_steep(const ts_cuda_contract &p, const ts_cuda_mode *modes, const char *base, int32_t own_first,
                        int32_t own_count, int32_t sum_first, int32_t bytes)
{
    int64_t per = 16 / bytes, odd = (int64_t)((uintptr_t)base & 15u);
    if (p.sum_count != 1 || (Left ? modes[sum_first].a : modes[sum_first].b) != 1) {
        return false;
    }
    for (int32_t i = 0; i < p.batch_count; i++) {
        odd |= (Left ? modes[i].a : modes[i].b) % per;
    }
    for (int32_t i = own_first; i < own_first + own_count; i++) {
        odd |= (Left ? modes[i].a : modes[i].b) % per;
    }
    return odd == 0;
}

TS_DEVICE int64_t ts_magnitude(int64_t x) { return x < 0 ? -x : x; }

template <int Pack, typename R> struct ts_piece_of {
    typedef uint32_t type;
};
template <typename R> struct ts_piece_of<1, R> {
    typedef R type;
};

/* Track: 0 values, 1 winners beside each accumulator (follow.h), 2 winners found afterwards (search.h). */
template <typename P, typename M, int BM, int BN, int BK, int TM, int TN, int THREADS, int STAGES, int Track>
struct ts_tile {
    typedef typename P::storage storage;
    typedef typename P::value value;
    typedef typename M::left left_type;
    typedef typename M::right right_type;
    static const int VA = ts_least(TM, 16 / (int)sizeof(left_type)), GA = TM / VA;
    static const int VB = ts_least(TN, 16 / (int)sizeof(right_type)), GB = TN / VB;
    static const int WARPS_M = BM / (4 * TM), WARPS_N = BN / (8 * TN);
    static const int PITCH_A = BM + 16 / (int)sizeof(left_type), PITCH_B = BN + 16 / (int)sizeof(right_type);
    static const int PANEL_A = PITCH_A * BK * (int)sizeof(left_type), PANEL_B = PITCH_B * BK * (int)sizeof(right_type);
    static const int PANELS = M::raw ? STAGES : 3;
    static const int ROWS = BM, COLUMNS = BN, DEPTH = BK;
    typedef ts_search<ts_tile, P, M, TM, TN, THREADS> search;
    typedef ts_follow<ts_tile, P, M, TM, TN> follow;
    static const int TABLES = (3 * BM + 3 * BN + 4 * TS_TERMS) * 8;
    /* Results are stored through the panels' memory, PART of the BM rows per pass, in as few passes as fit; with Track 1
     * through memory of their own, for panels may still be looked at. */
    static const int PART_BYTES = BM * BN * ((int)sizeof(value) + (Track == 1 ? 4 : 0));
    static const int LEAST = Track == 1 ? 0 : PART_BYTES / (TM < 8 ? TM : 8);
    static const int ROOM_ = (Track == 2 && PANELS < search::STEP ? search::STEP : PANELS) * (PANEL_A + PANEL_B);
    static const int ROOM = ROOM_ > LEAST ? ROOM_ : LEAST;
    static const int PASSES = Track == 1                ? ts_least(TM, 4)
                              : PART_BYTES <= ROOM     ? 1
                              : PART_BYTES <= 2 * ROOM ? 2
                              : PART_BYTES <= 4 * ROOM ? 4
                                                       : 8;
    static const int FOUND = Track == 2 ? search::BYTES : Track == 1 ? PART_BYTES / PASSES : 0;
    static const int PART = BM / PASSES;
    static const int SLACK = PITCH_B * (int)sizeof(right_type); /* read past the last panel, see compute */
    static const int BARRIERS = (STAGES * 16 + 127) / 128 * 128; /* at the end */
    static const int SHARED = TABLES + ROOM + SLACK / 16 * 16 + 16 + FOUND + BARRIERS;
    static const int AHEAD = STAGES - 2; /* panels on their way while one is worked on and one is left behind */
    static const int PER_TABLE = TS_TERMS / BK;
    static const int UNROLL = TM * TN >= 64 ? TS_UNROLL : TM * TN >= 32 && BK % 8 == 0 ? 8 : 4;
    static const int NA = BM * BK / THREADS, NB = BN * BK / THREADS;
    static_assert(WARPS_M * WARPS_N * 32 == THREADS && THREADS % 32 == 0, "a warp computes 4*TM x 8*TN");
    static_assert(TN % M::pack == 0 && BM * BK % THREADS == 0 && BN * BK % THREADS == 0, "panels are shared evenly");
    static_assert(PANEL_A % 16 == 0 && PANEL_B % 16 == 0 && TABLES % 16 == 0, "16-byte reads");
    static_assert(Track != 1 || M::pack == 1, "winners beside accumulators need one result per accumulator");

    /* Where things lie in shared memory: constants of the kernel, so that they take no registers. a_row, b_row: addresses;
     * a_term, b_term: bytes to add; c_row ...: elements. */
    TS_DEVICE int64_t *a_row(void) { return reinterpret_cast<int64_t *>(ts_shared()); }
    TS_DEVICE int64_t *c_row(void) { return a_row() + BM; }
    TS_DEVICE int64_t *w_row(void) { return a_row() + 2 * BM; }
    TS_DEVICE int64_t *b_row(void) { return a_row() + 3 * BM; }
    TS_DEVICE int64_t *c_column(void) { return b_row() + BN; }
    TS_DEVICE int64_t *w_column(void) { return b_row() + 2 * BN; }
    TS_DEVICE int64_t *a_term(void) { return b_row() + 3 * BN; }
    TS_DEVICE int64_t *b_term(void) { return a_term() + 2 * TS_TERMS; }
    TS_DEVICE unsigned char *panels_at(void) { return ts_shared() + TABLES; }
    TS_DEVICE uint64_t *stage_at(int stage) { return reinterpret_cast<uint64_t *>(ts_shared() + (SHARED - BARRIERS)) + 2 * stage; }

    const ts_cuda_mode *sum_modes;
    int32_t sum_count, wide;
    int64_t first, last;          /* terms */
    int32_t terms;                /* last - first, where affine */
    int32_t conjugate_a, conjugate_b;
    bool a_by_term, b_by_term;    /* neighbouring threads load neighbouring terms instead of rows */
    bool a_wide, b_wide;          /* 16 bytes of rows at once */
    bool a_steep, b_steep;        /* not raw: 16 bytes of terms at once */
    bool affine;                  /* the sum is one mode: term * step instead of a table */
    int32_t a_step, b_step;       /* bytes */
    int32_t walks;

    TS_DEVICE left_type *panel_a(int stage)
    {
        return reinterpret_cast<left_type *>(panels_at() + stage * (PANEL_A + PANEL_B));
    }
    TS_DEVICE right_type *panel_b(int stage)
    {
        return reinterpret_cast<right_type *>(panels_at() + stage * (PANEL_A + PANEL_B) + PANEL_A);
    }
    /* Offsets of the terms of table `number`, into the table that is not in use. */
    TS_DEVICE void fill(const ts_tile &t, int32_t number)
    {
        int32_t at = (number & 1) * TS_TERMS;
        for (int i = ts_thread(); i < TS_TERMS; i += THREADS) {
            int64_t term = t.first + (int64_t)number * TS_TERMS + i;
            ts_cuda_offsets offsets = ts_offsets_of(t.sum_modes, t.sum_count, t.wide, term < t.last ? term : t.last - 1);
            a_term()[at + i] = offsets.a * (int64_t)sizeof(storage);
            b_term()[at + i] = offsets.b * (int64_t)sizeof(storage);
        }
    }
    TS_DEVICE void fill_next(const ts_tile &t, int32_t panel)
    {
        if (!t.affine && (panel + 1) % PER_TABLE == 0) {
            fill(t, (panel + 1) / PER_TABLE);
        }
    }

    /* Bytes from a row's address to term `term` of a panel. Past the end of the sum: the last term again. */
    template <bool Affine> TS_DEVICE int64_t term_bytes(const ts_tile &t, int32_t panel, int32_t term, const int64_t *terms, int32_t step)
    {
        if (Affine) {
            int32_t number = panel * BK + term;
            return ts_multiply_wide(number < t.terms ? number : t.terms - 1, step);
        }
        return terms[(panel / PER_TABLE & 1) * TS_TERMS + panel % PER_TABLE * BK + term];
    }
    template <bool Affine, int ROWS, int PITCH, typename T>
    TS_DEVICE void copy_raw(const ts_tile &t, int32_t panel, T *to, const int64_t *rows, const int64_t *terms, int32_t step,
                            bool by_term, bool wide_rows)
    {
        const uint32_t per = 16 / sizeof(storage), thread = (uint32_t)ts_thread();
        if (wide_rows) {
#pragma unroll
            for (uint32_t i = 0; i < (ROWS * BK / per + THREADS - 1) / THREADS; i++) {
                const uint32_t e = i * THREADS + thread;
                if (ROWS * BK / per % THREADS == 0 || e < ROWS * BK / per) {
                    const uint32_t row = e % (ROWS / per) * per, term = e / (ROWS / per);
                    ts_copy_16(to + term * PITCH + row, source<Affine>(t, panel, row, term, rows, terms, step));
                }
            }
        } else if (by_term) {
#pragma unroll
            for (uint32_t i = 0; i < ROWS * BK / THREADS; i++) {
                const uint32_t e = i * THREADS + thread, row = e / BK, term = e % BK;
                copy_one(to + term * PITCH + row, source<Affine>(t, panel, row, term, rows, terms, step));
            }
        } else {
#pragma unroll
            for (uint32_t i = 0; i < ROWS * BK / THREADS; i++) {
                const uint32_t e = i * THREADS + thread, row = e % ROWS, term = e / ROWS;
                copy_one(to + term * PITCH + row, source<Affine>(t, panel, row, term, rows, terms, step));
            }
        }
    }
    template <bool Affine>
    TS_DEVICE const void *source(const ts_tile &t, int32_t panel, uint32_t row, uint32_t term, const int64_t *rows,
                                 const int64_t *terms, int32_t step)
    {
        return reinterpret_cast<const void *>((uintptr_t)(rows[row] + term_bytes<Affine>(t, panel, (int32_t)term, terms, step)));
    }
    template <typename T> TS_DEVICE void copy_one(T *to, const void *from)
    {
        if (sizeof(storage) == 4) {
            ts_copy_4(to, from);
        } else if (sizeof(storage) == 8) {
            ts_copy_8(to, from);
        } else {
            ts_copy_16(to, from);
        }
    }
    TS_DEVICE void issue(const ts_tile &t, int32_t panel, int stage)
    {
        if (t.affine) {
            copy_raw<true, BM, PITCH_A>(t, panel, panel_a(stage), a_row(), a_term(), t.a_step, t.a_by_term, t.a_wide);
            copy_raw<true, BN, PITCH_B>(t, panel, panel_b(stage), b_row(), b_term(), t.b_step, t.b_by_term, t.b_wide);
        } else {
            copy_raw<false, BM, PITCH_A>(t, panel, panel_a(stage), a_row(), a_term(), t.a_step, t.a_by_term, t.a_wide);
            copy_raw<false, BN, PITCH_B>(t, panel, panel_b(stage), b_row(), b_term(), t.b_step, t.b_by_term, t.b_wide);
        }
    }

    /* Panels that go through registers. Where memory allows, an access has W elements: of consecutive rows (`wide`), or
     * consecutive terms of one row (`steep`). */
    static const int WA = ts_least(16 / (int)sizeof(storage), NA), WB = ts_least(16 / (int)sizeof(storage), NB);
    struct held {
        storage a[NA], b[NB];
    };
    template <bool Steep, int W, int ROWS> TS_DEVICE void spot(int i, int &row, int &term)
    {
        const uint32_t e = (uint32_t)(i * THREADS + ts_thread());
        row = (int)(Steep ? e / (BK / W) : e % (ROWS / W) * W);
        term = (int)(Steep ? e % (BK / W) * W : e / (ROWS / W));
    }
    TS_DEVICE bool is_full(const ts_tile &t, int32_t panel) { return (panel + 1) * BK <= t.terms; }
    TS_DEVICE int64_t bytes_to(const ts_tile &t, int32_t panel, int term, const int64_t *terms, int32_t step)
    {
        return t.affine ? term_bytes<true>(t, panel, term, terms, step) : term_bytes<false>(t, panel, term, terms, step);
    }
    template <bool Steep, int W, int N, int ROWS>
    TS_DEVICE void fetch_side(const ts_tile &t, int32_t panel, storage *h, const int64_t *rows, const int64_t *terms, int32_t step)
    {
#pragma unroll
        for (int i = 0; i < N / W; i++) {
            int row, term;
            spot<Steep, W, ROWS>(i, row, term);
            ts_read_vector<storage, W>(reinterpret_cast<const storage *>((uintptr_t)(rows[row] + bytes_to(t, panel, term, terms, step))), h + i * W);
        }
    }
    TS_DEVICE void fetch(const ts_tile &t, int32_t panel, held &h)
    {
        const bool full = is_full(t, panel);
        if (t.a_wide) {
            fetch_side<false, WA, NA, BM>(t, panel, h.a, a_row(), a_term(), t.a_step);
        } else if (t.a_steep && full) {
            fetch_side<true, WA, NA, BM>(t, panel, h.a, a_row(), a_term(), t.a_step);
        } else if (t.a_by_term) {
            fetch_side<true, 1, NA, BM>(t, panel, h.a, a_row(), a_term(), t.a_step);
        } else {
            fetch_side<false, 1, NA, BM>(t, panel, h.a, a_row(), a_term(), t.a_step);
        }
        if (t.b_wide) {
            fetch_side<false, WB, NB, BN>(t, panel, h.b, b_row(), b_term(), t.b_step);
        } else if (t.b_steep && full) {
            fetch_side<true, WB, NB, BN>(t, panel, h.b, b_row(), b_term(), t.b_step);
        } else if (t.b_by_term) {
            fetch_side<true, 1, NB, BN>(t, panel, h.b, b_row(), b_term(), t.b_step);
        } else {
            fetch_side<false, 1, NB, BN>(t, panel, h.b, b_row(), b_term(), t.b_step);
        }
    }
    template <bool Steep, int W> TS_DEVICE void place_left(const ts_tile &t, int stage, const storage *h)
    {
#pragma unroll
        for (int i = 0; i < NA / W; i++) {
            int row, term;
            spot<Steep, W, BM>(i, row, term);
            left_type *to = panel_a(stage) + term * PITCH_A + row;
            if (Steep) {
#pragma unroll
                for (int k = 0; k < W; k++) {
                    to[k * PITCH_A] = M::stage_left(h[i * W + k], t.conjugate_a);
                }
            } else {
                const int V = W < 16 / (int)sizeof(left_type) ? W : 16 / (int)sizeof(left_type);
#pragma unroll
                for (int k = 0; k < W; k += V) {
                    ts_vector<left_type, V> vector;
#pragma unroll
                    for (int v = 0; v < V; v++) {
                        vector.at[v] = M::stage_left(h[i * W + k + v], t.conjugate_a);
                    }
                    *reinterpret_cast<ts_vector<left_type, V> *>(to + k) = vector;
                }
            }
        }
    }
    template <bool Steep, int W> TS_DEVICE void place_right(const ts_tile &t, int stage, const storage *h)
    {
#pragma unroll
        for (int i = 0; i < NB / W; i++) {
            int row, term;
            spot<Steep, W, BN>(i, row, term);
            right_type *to = panel_b(stage) + term * PITCH_B + row;
            if (Steep) {
#pragma unroll
                for (int k = 0; k < W; k++) {
                    to[k * PITCH_B] = M::stage_right(h[i * W + k], t.conjugate_b);
                }
            } else {
                const int V = W < 16 / (int)sizeof(right_type) ? W : 16 / (int)sizeof(right_type);
#pragma unroll
                for (int k = 0; k < W; k += V) {
                    ts_vector<right_type, V> vector;
#pragma unroll
                    for (int v = 0; v < V; v++) {
                        vector.at[v] = M::stage_right(h[i * W + k + v], t.conjugate_b);
                    }
                    *reinterpret_cast<ts_vector<right_type, V> *>(to + k) = vector;
                }
            }
        }
    }
    TS_DEVICE void place(const ts_tile &t, int32_t panel, int stage, const held &h)
    {
        const bool full = is_full(t, panel);
        if (t.a_wide) {
            place_left<false, WA>(t, stage, h.a);
        } else if (t.a_steep && full) {
            place_left<true, WA>(t, stage, h.a);
        } else if (t.a_by_term) {
            place_left<true, 1>(t, stage, h.a);
        } else {
            place_left<false, 1>(t, stage, h.a);
        }
        if (t.b_wide) {
            place_right<false, WB>(t, stage, h.b);
        } else if (t.b_steep && full) {
            place_right<true, WB>(t, stage, h.b);
        } else if (t.b_by_term) {
            place_right<true, 1>(t, stage, h.b);
        } else {
            place_right<false, 1>(t, stage, h.b);
        }
    }

    static_assert(TM % PASSES == 0 && (Track == 1 || PART_BYTES <= PASSES * ROOM), "a part fits");
    /* Row of accumulator i within its part, and back: parts take TM / PASSES consecutive accumulators of every thread. */
    TS_DEVICE int part_row_of(int i)
    {
        const uint32_t warp = (uint32_t)ts_thread() / 32, lane = (uint32_t)ts_thread() % 32;
        return (int)((warp % WARPS_M * 4 + lane / 8) * (TM / PASSES)) + i % (TM / PASSES);
    }
    TS_DEVICE int row_of_part(int part_row, int pass)
    {
        int i = pass * (TM / PASSES) + part_row % (TM / PASSES), rest = part_row / (TM / PASSES);
        return rest / 4 * (4 * TM) + i / VA * (4 * VA) + rest % 4 * VA + i % VA;
    }
    /* Rows and columns of this thread's accumulator (i, j). */
    TS_DEVICE int row_of(int i)
    {
        const uint32_t warp = (uint32_t)ts_thread() / 32, lane = (uint32_t)ts_thread() % 32;
        return (int)(warp % WARPS_M * (4 * TM) + lane / 8 * VA) + i / VA * (4 * VA) + i % VA;
    }
    TS_DEVICE int column_of(int j)
    {
        const uint32_t warp = (uint32_t)ts_thread() / 32, lane = (uint32_t)ts_thread() % 32;
        return (int)(warp / WARPS_M * (8 * TN) + lane % 8 * VB) + j / VB * (8 * VB) + j % VB;
    }

    struct sums {
        typename M::sum at[TM][TN / M::pack];
        uint32_t index[Track == 1 ? TM : 1][Track == 1 ? TN : 1];
    };
    typedef typename ts_piece_of<M::pack, right_type>::type piece; /* right elements in words, as they are worked on */
    struct fragment {
        left_type a[TM];
        piece b[TN / M::pack];
    };
    /* pa, pb: where this thread's rows and columns begin. */
    TS_DEVICE void read(fragment &f, const left_type *pa, const right_type *pb, int term)
    {
#pragma unroll
        for (int g = 0; g < GA; g++) {
            ts_read_vector<left_type, VA>(pa + term * PITCH_A + g * (4 * VA), f.a + g * VA);
        }
#pragma unroll
        for (int g = 0; g < GB; g++) {
            ts_read_vector<piece, VB / M::pack>(reinterpret_cast<const piece *>(pb + term * PITCH_B + g * (8 * VB)),
                                                f.b + g * (VB / M::pack));
        }
    }
    TS_DEVICE void multiply(sums &s, const fragment &f, const ts_context &context)
    {
#pragma unroll
        for (int i = 0; i < TM; i++) {
#pragma unroll
            for (int j = 0; j < TN / M::pack; j++) {
                M::pair(s.at[i][j], f.a[i], f.b[j], context);
            }
        }
    }
    static const bool RISES = M::rises && Track != 1 && BK % 2 == 0 && TM * TN >= 32;
    static const bool FOLLOWS_RISEN = M::rises && Track == 1 && TM * TN >= 16;
    /* Have all sums of the warp risen above -0? Once they have, they stay there. */
    TS_DEVICE bool risen(const sums &s)
    {
        int32_t least = 0;
#pragma unroll
        for (int i = 0; i < TM; i++) {
#pragma unroll
            for (int j = 0; j < TN / M::pack; j++) {
                least = ts_min_i32(least, M::height(s.at[i][j]));
            }
        }
        return ts_ballot(least >= 0) == 0xffffffffu;
    }
    TS_DEVICE void compute_risen(sums &s, int stage)
    {
        const left_type *pa = panel_a(stage) + row_of(0);
        const right_type *pb = panel_b(stage) + column_of(0);
        fragment f[2];
#pragma unroll 1
        for (int part = 0; part < BK; part += 2) {
            read(f[0], pa, pb, 0);
            read(f[1], pa, pb, 1);
#pragma unroll
            for (int i = 0; i < TM; i++) {
#pragma unroll
                for (int j = 0; j < TN / M::pack; j++) {
                    M::two_pairs(s.at[i][j], f[0].a[i], f[0].b[j], f[1].a[i], f[1].b[j]);
                }
            }
            pa += 2 * PITCH_A;
            pb += 2 * PITCH_B;
        }
    }
    /* Fragments are read one term ahead of their use. */
    TS_DEVICE void compute(sums &s, int stage, int32_t terms, const ts_context &context)
    {
        const left_type *pa = panel_a(stage) + row_of(0);
        const right_type *pb = panel_b(stage) + column_of(0);
        fragment f[2];
        if (terms == BK) {
            read(f[0], pa, pb, 0);
#pragma unroll 1
            for (int part = 0; part < BK; part += UNROLL) {
#pragma unroll
                for (int term = 0; term < UNROLL; term++) {
                    /* The read past the last term is of other shared memory, and not used; racecheck cannot know that. */
#ifdef TS_RACECHECK
                    if (part + term + 1 < BK) {
#else
                    if (UNROLL < BK || term + 1 < BK) {
#endif
                        read(f[(term + 1) & 1], pa, pb, term + 1);
                    }
                    multiply(s, f[term & 1], context);
                }
                pa += UNROLL * PITCH_A;
                pb += UNROLL * PITCH_B;
            }
        } else {
#pragma unroll 1
            for (int term = 0; term < terms; term++) {
                read(f[0], pa, pb, term);
                multiply(s, f[0], context);
            }
        }
    }

    /* For the search of winners: its shared memory; is there such a result?; panels once more, into the first stages. */
    TS_DEVICE unsigned char *search_at(void) { return panels_at() + ROOM + SLACK / 16 * 16 + 16; }
    TS_DEVICE unsigned char *notes_at(void) { return search_at(); }
    TS_DEVICE unsigned char *ends_at(void) { return search_at() + BM * BN * 2; }
    TS_DEVICE bool is_here(int row, int column) { return c_row()[row] != INT64_MIN && c_column()[column] != INT64_MIN; }
    /* A product once more, from memory. */
    TS_DEVICE value term_of(const ts_tile &t, int row, int column, int64_t term, const ts_context &context)
    {
        const ts_cuda_offsets offsets = ts_offsets_of(t.sum_modes, t.sum_count, t.wide, (t.affine ? 0 : t.first) + term);
        const storage *x = reinterpret_cast<const storage *>((uintptr_t)a_row()[row]) + offsets.a;
        const storage *y = reinterpret_cast<const storage *>((uintptr_t)b_row()[column]) + offsets.b;
        return P::product(P::load(*x), P::load(*y), context.modulus);
    }
    /* Panels once more, for the search, into the first stages. */
    TS_APART void load_again(const ts_tile t, int32_t first, int32_t panels)
    {
        static_assert(PER_TABLE % search::STEP == 0, "a table has all terms of a step");
        ts_sync();
        if (!t.affine) {
            fill(t, first / PER_TABLE);
            ts_sync();
        }
        for (int i = 0; i < search::STEP && first + i < panels; i++) {
            if constexpr (M::raw) {
                issue(t, first + i, i);
            } else {
                held h;
                fetch(t, first + i, h);
                place(t, first + i, i, h);
            }
        }
        ts_copy_commit();
        ts_copy_wait<0>();
        ts_sync();
    }

    /* What is read in place of a row past the end: a valid one, and for wide reads one at the same place in its group. */
    TS_DEVICE int64_t spare_row(bool wide, int row) { return wide ? row % (16 / (int)sizeof(storage)) : 0; }

    template <typename Step> TS_DEVICE void walk(ts_tile &t, int32_t panels, const Step &step)
    {
        if (!t.affine) {
            fill(t, 0);
        }
        ts_stages_init(stage_at(0), PANELS, THREADS, t.walks++ == 0);
        ts_sync();
        if constexpr (M::raw) {
            /* Where tables of offsets take turns, so do all threads; else only stages hold them back. */
            for (int i = 0; i < AHEAD; i++) {
                if (i < panels) {
                    issue(t, i, i);
                    fill_next(t, i);
                }
                ts_stage_commit(stage_at(i));
                ts_copy_commit();
            }
            int stage = 0, next = AHEAD;
            uint32_t parity = 0, next_parity = 0; /* how often the stage has been used before, odd or even */
#pragma unroll 1
            for (int32_t panel = 0; panel < panels; panel++) {
                if (panel + AHEAD < panels) {
                    ts_stage_reuse(stage_at(next), next_parity);
                    issue(t, panel + AHEAD, next);
                    fill_next(t, panel + AHEAD);
                    ts_stage_commit(stage_at(next));
                }
                ts_copy_commit();
                if (t.affine) {
                    ts_stage_wait<AHEAD>(stage_at(stage), parity);
                } else {
                    ts_copy_wait<AHEAD>();
                    ts_sync();
                }
                step(panel, stage);
                ts_stage_release(stage_at(stage));
                parity ^= stage + 1 == STAGES ? 1u : 0u;
                stage = stage + 1 == STAGES ? 0 : stage + 1;
                next_parity ^= next + 1 == STAGES ? 1u : 0u;
                next = next + 1 == STAGES ? 0 : next + 1;
            }
            ts_copy_wait<0>(); /* nothing arrives late */
        } else {
            /* Through registers, for elements are converted: what is placed for the next panel was fetched a panel ago. */
            held h;
            int stage = 0, next = 1;
            uint32_t parity = 0, next_parity = 0;
            fetch(t, 0, h);
            place(t, 0, 0, h);
            ts_stage_stored(stage_at(0));
            fill_next(t, 0);
            if (!t.affine) {
                ts_sync();
            }
            if (panels > 1) {
                fetch(t, 1, h);
                fill_next(t, 1);
            }
#pragma unroll 1
            for (int32_t panel = 0; panel < panels; panel++) {
                if (!t.affine) {
                    ts_sync(); /* the table that the fetch goes by */
                }
                if (panel + 1 < panels) {
                    ts_stage_reuse(stage_at(next), next_parity);
                    place(t, panel + 1, next, h);
                    ts_stage_stored(stage_at(next));
                    if (panel + 2 < panels) {
                        fetch(t, panel + 2, h);
                        fill_next(t, panel + 2);
                    }
                }
                ts_stage_wait<0>(stage_at(stage), parity);
                step(panel, stage);
                ts_stage_release(stage_at(stage));
                parity ^= stage + 1 == PANELS ? 1u : 0u;
                stage = stage + 1 == PANELS ? 0 : stage + 1;
                next_parity ^= next + 1 == PANELS ? 1u : 0u;
                next = next + 1 == PANELS ? 0 : next + 1;
            }
        }
    }

    /* Results of a row that are staged at once; results of a thread in a part, and how many of them are found together. */
    static const int STAGED = Track == 1 ? ts_least(VB, 16 / (int)sizeof(value)) : 1;
    static const int EACH = PART * BN / THREADS, TOGETHER = EACH % 4 == 0 ? 4 : 1, ROWS_APART = THREADS / BN;
    static_assert(Track != 1 || THREADS % BN == 0, "a thread stores results of one column");
    /* A part of a whole tile, with winners that are found in the panels: several results of a thread at a time, so that
     * their reads wait together. Rows are sums of what a thread and what its n-th result adds, for extents are powers of two. */
    TS_DEVICE void finish_plain(const ts_cuda_contract &p, int pass, const value *results, const uint32_t *indices,
                                const ts_context &context)
    {
        const uint32_t thread = (uint32_t)ts_thread(), low = thread / BN, column = thread % BN;
        const int row = row_of_part((int)low, pass);
        storage *c = reinterpret_cast<storage *>(ts_address(p.c)) + c_column()[column];
        char *w = ts_address(p.w) + w_column()[column] * p.winner_bytes;
        results += low * BN + column;
        indices += low * BN + column;
#pragma unroll
        for (int first = 0; first < EACH; first += TOGETHER) {
            int32_t term[TOGETHER];
            value best[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                const int n = first + i;
                best[i] = P::finish(results[n * ROWS_APART * BN]);
                term[i] = follow::nearby(row + row_of_part(n * ROWS_APART, 0), (int)column, indices[n * ROWS_APART * BN], context);
                term[i] = (int32_t)ts_settled_winner<P>(best[i], term[i]);
            }
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                c[c_row()[row + row_of_part((first + i) * ROWS_APART, 0)]] = P::store(best[i]);
            }
            if (p.winner_bytes == 4) {
#pragma unroll
                for (int i = 0; i < TOGETHER; i++) {
                    ts_put_winner(w, w_row()[row + row_of_part((first + i) * ROWS_APART, 0)], term[i], 4);
                }
            } else {
#pragma unroll
                for (int i = 0; i < TOGETHER; i++) {
                    ts_put_winner(w, w_row()[row + row_of_part((first + i) * ROWS_APART, 0)], term[i], 8);
                }
            }
        }
    }

    /* Store the values, and winners that were followed beside them. */
    TS_DEVICE void finish(const sums &s, const ts_tile &t, const ts_cuda_contract &p, const ts_contract_item &place, int32_t nothing,
                          const ts_context &context)
    {
        const bool accumulate = ts_switched_on(p.accumulate);
        storage *c = reinterpret_cast<storage *>(ts_address(p.c));
        char *w = Track == 1 ? ts_address(p.w) : nullptr;
        /* Through shared memory, a part of the rows at a time, so that neighbouring threads store neighbouring
         * columns and the code that stores is there once. */
        value *results = reinterpret_cast<value *>(Track == 1 ? search_at() : panels_at());
        uint32_t *indices = reinterpret_cast<uint32_t *>(search_at() + PART * BN * (int)sizeof(value));
        /* A whole tile whose sum is whole and still in the panels. */
        const bool plain = Track == 1 && p.splits == 1 && !accumulate && p.sum != 0 && p.sum <= PANELS * BK &&
                           p.sum % follow::GROUP == 0 && place.left_tile * BM + BM <= p.left && place.right_tile * BN + BN <= p.right;
        for (int pass = 0; pass < PASSES; pass++) {
            ts_sync();
#pragma unroll
            for (int i = 0; i < TM; i++) {
#pragma unroll
                for (int j = 0; j < TN; j += STAGED) {
                    if (i / (TM / PASSES) == pass) {
                        int at = part_row_of(i) * BN + column_of(j) + nothing;
                        ts_vector<value, STAGED> staged;
#pragma unroll
                        for (int k = 0; k < STAGED; k++) {
                            staged.at[k] = M::result(s.at[i][(j + k) / M::pack], (j + k) % M::pack, context);
                        }
                        *reinterpret_cast<ts_vector<value, STAGED> *>(results + at) = staged;
                        if constexpr (Track == 1) {
                            ts_vector<uint32_t, STAGED> numbers;
#pragma unroll
                            for (int k = 0; k < STAGED; k++) {
                                numbers.at[k] = s.index[i][j + k];
                            }
                            *reinterpret_cast<ts_vector<uint32_t, STAGED> *>(indices + at) = numbers;
                        }
                    }
                }
            }
            ts_sync();
            if constexpr (Track == 1) {
                if (plain) {
                    finish_plain(p, pass, results, indices, context);
                    continue;
                }
            }
#pragma unroll 1
            for (int at = ts_thread(); at < PART * BN; at += THREADS) {
                int row = row_of_part(at / BN, pass), column = at % BN;
                if (c_row()[row] != INT64_MIN && c_column()[column] != INT64_MIN) {
                    int64_t index = -1;
                    if constexpr (Track == 1) {
                        if (p.sum != 0) {
                            index = place.first + follow::winner(t, row, column, indices[at], place.last - place.first, context);
                        }
                    }
                    if (p.splits > 1) {
                        int64_t number = (place.batch * p.left + place.left_tile * BM + row) * p.right +
                                         place.right_tile * BN + column;
                        int64_t to = place.split * (p.batch * p.left * p.right) + number;
                        reinterpret_cast<value *>((uintptr_t)p.partial)[to] = results[at];
                        if constexpr (Track == 1) {
                            reinterpret_cast<int64_t *>((uintptr_t)p.partial_w)[to] = index;
                        }
                    } else {
                        ts_put<P>(c + (c_row()[row] + c_column()[column]), results[at], accumulate, context);
                        if constexpr (Track == 1) {
                            ts_put_winner(w, w_row()[row] + w_column()[column], ts_settled_winner<P>(P::finish(results[at]), index),
                                          p.winner_bytes);
                        }
                    }
                }
            }
        }
    }

    TS_DEVICE void run(const ts_cuda_contract &p)
    {
        ts_tile t;
        const ts_cuda_mode *modes = ts_mode_table(p.modes);
        const ts_cuda_mode *left_modes = modes + p.batch_count, *right_modes = left_modes + p.left_count;
        const ts_context context = ts_make_context(p.modulus);
        t.sum_modes = right_modes + p.right_count;
        t.sum_count = p.sum_count;
        t.wide = p.modes.wide;
        t.conjugate_a = p.conjugate_a;
        t.conjugate_b = p.conjugate_b;
        t.walks = 0;
        t.a_by_term = p.sum_count > 0 && (p.left_count == 0 || ts_magnitude(t.sum_modes[p.sum_count - 1].a) <
                                                                   ts_magnitude(left_modes[p.left_count - 1].a));
        t.b_by_term = p.sum_count > 0 && (p.right_count == 0 || ts_magnitude(t.sum_modes[p.sum_count - 1].b) <
                                                                    ts_magnitude(right_modes[p.right_count - 1].b));
        t.a_wide = sizeof(storage) < 16 && (M::raw || NA % WA == 0) &&
                   ts_wide_rows<true>(p, modes, ts_address(p.a), p.batch_count, p.left_count,
                                      p.batch_count + p.left_count + p.right_count, (int32_t)sizeof(storage));
        t.b_wide = sizeof(storage) < 16 && (M::raw || NB % WB == 0) &&
                   ts_wide_rows<false>(p, modes, ts_address(p.b), p.batch_count + p.left_count, p.right_count,
                                       p.batch_count + p.left_count + p.right_count, (int32_t)sizeof(storage));
        const bool steep_a = !M::raw && NA % WA == 0 &&
                             ts_steep<true>(p, modes, ts_address(p.a), p.batch_count, p.left_count,
                                            p.batch_count + p.left_count + p.right_count, (int32_t)sizeof(storage));
        const bool steep_b = !M::raw && NB % WB == 0 &&
                             ts_steep<false>(p, modes, ts_address(p.b), p.batch_count + p.left_count, p.right_count,
                                             p.batch_count + p.left_count + p.right_count, (int32_t)sizeof(storage));
        for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
            if (p.only != 0 && reinterpret_cast<const uint8_t *>((uintptr_t)p.only)[item] == 0) {
                continue;
            }
            const ts_contract_item place = ts_contract_item_of(p, item);
            /* 0, which the compiler does not know: what depends on it is neither worked out before its time nor kept. */
            const int32_t nothing = (int32_t)(item >> 62);
            const int32_t panels = (int32_t)((place.last - place.first + BK - 1) / BK); /* 2^31 of them are years of work */
            const ts_cuda_offsets base = ts_offsets_of(modes, p.batch_count, p.modes.wide, place.batch);
            t.first = place.first;
            t.last = place.last;
            t.terms = (int32_t)(place.last - place.first);
            t.affine = p.sum_count == 1 && place.last < ((int64_t)1 << 30) &&
                       ts_magnitude(t.sum_modes[0].a) < ((int64_t)1 << 27) && ts_magnitude(t.sum_modes[0].b) < ((int64_t)1 << 27);
            const bool even = place.first * (int64_t)sizeof(storage) % 16 == 0;
            t.a_steep = steep_a && t.affine && even;
            t.b_steep = steep_b && t.affine && even;
            t.a_step = t.affine ? (int32_t)t.sum_modes[0].a * (int32_t)sizeof(storage) : 0;
            t.b_step = t.affine ? (int32_t)t.sum_modes[0].b * (int32_t)sizeof(storage) : 0;
            const int64_t skipped = t.affine ? place.first : 0; /* of the terms: tables of offsets count from the first of all */
            const int64_t a = (int64_t)(uintptr_t)ts_address(p.a) + skipped * t.a_step;
            const int64_t b = (int64_t)(uintptr_t)ts_address(p.b) + skipped * t.b_step;
            ts_sync(); /* the tables of the item before are no longer read */
            for (int i = ts_thread(); i < BM; i += THREADS) {
                int64_t row = place.left_tile * BM + i;
                ts_cuda_offsets offsets = ts_offsets_of(left_modes, p.left_count, p.modes.wide, row < p.left ? row : spare_row(t.a_wide, i));
                a_row()[i] = a + (base.a + offsets.a) * (int64_t)sizeof(storage);
                c_row()[i] = row < p.left ? base.c + offsets.c : INT64_MIN;
                w_row()[i] = base.w + offsets.w;
            }
            for (int i = ts_thread(); i < BN; i += THREADS) {
                int64_t column = place.right_tile * BN + i;
                ts_cuda_offsets offsets =
                    ts_offsets_of(right_modes, p.right_count, p.modes.wide, column < p.right ? column : spare_row(t.b_wide, i));
                b_row()[i] = b + (base.b + offsets.b) * (int64_t)sizeof(storage);
                c_column()[i] = column < p.right ? offsets.c : INT64_MIN;
                w_column()[i] = offsets.w;
            }
            sums s;
#pragma unroll
            for (int i = 0; i < TM; i++) {
#pragma unroll
                for (int j = 0; j < TN / M::pack; j++) {
                    M::start(s.at[i][j]);
                    if constexpr (Track == 1) {
                        s.index[i][j] = 0;
                    }
                }
            }
            if (panels > 0) {
                const int32_t tail = (int32_t)(place.last - place.first - (int64_t)(panels - 1) * BK);
                int32_t next = search::panels_per_interval(panels) - 1;
                typename search::notes::before old;
                if constexpr (Track == 2) {
                    search::notes::start(old, nothing);
                }
                bool high = false;
                walk(t, panels, [&](int32_t panel, int stage) {
                    const int32_t terms = panel + 1 == panels ? tail : BK;
                    if constexpr (Track == 1) {
                        static_assert(BK % follow::GROUP == 0, "groups do not cross panels");
                        const left_type *pa = panel_a(stage) + row_of(0);
                        const right_type *pb = panel_b(stage) + column_of(0);
                        if (FOLLOWS_RISEN && high && terms == BK) {
                            follow::panel_risen(s, pa, pb, (uint32_t)panel * (BK / follow::GROUP));
                        } else {
                            follow::panel(s, pa, pb, (uint32_t)panel * (BK / follow::GROUP), terms, context);
                            high = FOLLOWS_RISEN && (panel < 4 || panel % 16 == 0) && risen(s);
                        }
                    } else if (RISES && high && terms == BK) {
                        compute_risen(s, stage);
                    } else {
                        compute(s, stage, terms, context);
                        high = RISES && (panel < 4 || panel % 16 == 0) && risen(s);
                    }
                    if constexpr (Track == 2) {
                        if (panel == next || panel + 1 == panels) {
                            const int32_t per = search::panels_per_interval(panels);
                            search::notes::note(s, old, panel / per, nothing);
                            next += per;
                        }
                    }
                });
            } else {
                ts_sync();
            }
            finish(s, t, p, ts_contract_item_of(p, item + nothing), nothing, context);
            if constexpr (Track == 2) {
                search::run(t, p, ts_contract_item_of(p, item + nothing), panels, nothing, context);
            }
        }
    }
};

#endif
