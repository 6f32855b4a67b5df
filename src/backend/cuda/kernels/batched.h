/* contract where many small products are asked for, with winners or without: a block to a tile, whose whole sum lies in shared memory,
 * so what is kept of a winner is the number of the four terms among which it is; which of them it is shows afterwards. The other blocks of
 * a multiprocessor hide what one waits for: blocks that stay, with the next operands on their way, are slower.
 *
 * A warp computes 32 x 32 results, 8 x 4 to a lane. Panels lie as the operand does: by terms where terms are neighbours (steep), else
 * by rows (flat). */
#ifndef TS_CUDA_BATCHED_H
#define TS_CUDA_BATCHED_H

#include "batched_abi.h"
#include "dense.h"
#include "vector.h"

/* How terms are taken in. Where sums rise, two terms take three instructions (see dense.h) in either of two ways, and the sum shows
 * afterwards whether it was the right one:
 *     up: it starts at +0, and ended above it, whatever the signs of its terms;
 *     down: it starts at zero of the semiring, and ended below +0 (or NaN), for a term above that would have been taken, if not the
 *     largest. */
enum ts_batched_way { ts_batched_plainly, ts_batched_up, ts_batched_down };
template <typename P, bool Float> struct ts_batched_sum {
    typedef ts_running<P> sum;
    typedef typename P::value value;
    static const bool rises = false, exact = false;
    TS_DEVICE void start(sum &s) { sum::start(s); }
    TS_DEVICE void pair(sum &s, value x, value y) { sum::pair(s, x, y, ts_make_context(0)); }
    TS_DEVICE bool changed(const sum &now, const sum &before) { return now.best != before.best; }
    TS_DEVICE value term(value x, value y) { return P::product(x, y, 0); }
    TS_DEVICE bool same(value x, const sum &s) { return x == s.best; }
    TS_DEVICE value result(const sum &s) { return sum::result(s, ts_make_context(0)); }
};
template <typename P> struct ts_batched_sum<P, true> {
    typedef ts_dense<P> D;
    struct sum {
        float best;
    };
    /* exact: nothing is below +0, which is zero of the semiring */
    static const bool rises = D::rises, exact = rises && P::mul_op == ts_op_ntimes;
    TS_DEVICE void start(sum &s) { s.best = D::start(); }
    TS_DEVICE void pair(sum &s, float x, float y)
    {
        x = D::mirror(x);
        y = D::mirror(y);
        D::step(s.best, &x, &y);
    }
    TS_DEVICE bool changed(const sum &now, const sum &before) { return now.best != before.best && before.best == before.best; }
    template <int Way> TS_DEVICE void start_for(sum &s) { s.best = Way == ts_batched_up ? 0 : D::start(); }
    template <int Way> TS_DEVICE void two_pairs(sum &s, float x, float y, float x2, float y2)
    {
        D::template two_steps<Way == ts_batched_down>(s.best, D::mirror(x), D::mirror(y), D::mirror(x2), D::mirror(y2));
    }
    TS_DEVICE int32_t height(const sum &s) { return ts_float_bits(s.best); }
    /* Above 0: this was the right way. The device's NaN has all bits but its sign set, and counts as negative, too. */
    template <int Way> TS_DEVICE int32_t rightness(const sum &s)
    {
        return Way == ts_batched_up ? height(s) : (int32_t)~((uint32_t)height(s) + 1u);
    }
    TS_DEVICE float term(float x, float y) { return D::term(D::mirror(x), D::mirror(y)); }
    TS_DEVICE bool same(float x, const sum &s) { return ts_same_float(x, s.best); }
    TS_DEVICE float result(const sum &s) { return D::value_of(s.best, 0); }
};

template <typename P, bool Winners, bool SteepA, bool SteepB> struct ts_batched {
    typedef typename P::storage storage;
    typedef typename P::value value;
    typedef ts_batched_sum<P, P::kind == ts_kind_f32 && P::selective> S;
    typedef typename S::sum sum;
    static const int TILE = TS_CUDA_BATCHED_TILE, DEPTH = TS_CUDA_BATCHED_DEPTH, THREADS = TS_CUDA_BATCHED_THREADS;
    static const int ROWS = 8, COLUMNS = 4, GROUP = 4, STAGES = 2;
    static const int PITCH = DEPTH + 4; /* of steep panels: neighbouring rows lie in different banks */
    static const int PANEL = TILE * PITCH * 4, STAGE = 2 * PANEL;
    static_assert(sizeof(storage) == 4 && sizeof(value) == 4, "elements of 4 bytes");
    static_assert(THREADS == 32 * (TILE / 32) * (TILE / 32) && STAGES * STAGE == (int)ts_cuda_batched_shared(), "warps make the tile");

    struct sums {
        sum at[ROWS][COLUMNS];
        uint32_t mark[Winners ? ROWS : 1][Winners ? COLUMNS : 1]; /* of the four that a sum was last raised by */
    };
    /* A mark says where four terms lie: 12 bits for either panel, in 16 bytes from where a row's terms begin in the first stage, and the
     * number of the first of them. */
    template <bool Steep> TS_DEVICE uint32_t step_of(void) { return Steep ? GROUP * 4 : GROUP * TILE * 4; }
    TS_DEVICE uint32_t mark_of(int stage, int32_t term)
    {
        static_assert(STAGES * STAGE / 16 < 1 << 12 && TILE <= 256, "as marks have it");
        return (uint32_t)term << 24 | (uint32_t)(stage * STAGE / 16) << 12 | (uint32_t)(stage * STAGE / 16);
    }
    TS_DEVICE uint32_t mark_step(void) { return (uint32_t)GROUP << 24 | step_of<SteepB>() / 16 << 12 | step_of<SteepA>() / 16; }
    TS_DEVICE uint32_t place_a(uint32_t mark) { return (mark & 0xfffu) << 4; }
    TS_DEVICE uint32_t place_b(uint32_t mark) { return (mark & 0xfff000u) >> 8; }
    TS_DEVICE int32_t term_of(uint32_t mark) { return (int32_t)(mark >> 24); }

    TS_DEVICE char *panel_a(int stage) { return reinterpret_cast<char *>(ts_shared()) + stage * STAGE; }
    TS_DEVICE char *panel_b(int stage) { return panel_a(stage) + PANEL; }
    TS_DEVICE int group_of(void) { return ts_thread() % 32 / 8; }
    TS_DEVICE int lane_of(void) { return ts_thread() % 8; }
    /* Rows and columns of this thread's sum (i, j), and bytes from the first of them in a panel. */
    TS_DEVICE int row_of(int i)
    {
        return (int)((uint32_t)ts_thread() / 32 % 2) * 32 + (SteepA ? i * 4 + group_of() : i / 4 * 16 + group_of() * 4 + i % 4);
    }
    TS_DEVICE int column_of(int j)
    {
        return (int)((uint32_t)ts_thread() / 64) * 32 + (SteepB ? j * 8 + lane_of() : lane_of() * 4 + j);
    }
    TS_DEVICE int row_bytes(int i) { return (SteepA ? i * 4 * PITCH : i / 4 * 16 + i % 4) * 4; }
    TS_DEVICE int column_bytes(int j) { return (SteepB ? j * 8 * PITCH : j) * 4; }
    TS_DEVICE const char *first_row(void) { return panel_a(0) + row_of(0) * (SteepA ? PITCH : 1) * 4; }
    TS_DEVICE const char *first_column(void) { return panel_b(0) + column_of(0) * (SteepB ? PITCH : 1) * 4; }

    /* ---- copying ---- */
    /* Which four elements this thread copies at its i-th turn: of so many rows on and terms on. */
    template <bool Steep> struct turns {
        static const int FOURS = (Steep ? DEPTH : TILE) / 4, LINES = THREADS / FOURS, COUNT = (Steep ? TILE : DEPTH) / LINES;
    };
    template <bool Steep> TS_DEVICE void spot(int i, int32_t &row, int32_t &term)
    {
        typedef turns<Steep> T;
        const uint32_t thread = (uint32_t)ts_thread();
        const int32_t line = (int32_t)(thread / T::FOURS) + i * T::LINES, four = (int32_t)(thread % T::FOURS * 4);
        row = Steep ? line : four;
        term = Steep ? four : line;
    }
    template <bool Steep> TS_DEVICE char *target(char *panel, int32_t row, int32_t term)
    {
        return panel + (Steep ? row * PITCH + term : term * TILE + row) * 4;
    }
    /* A panel of so many terms, from row `first` on. Rows past the end stand for the last ones. */
    template <bool Steep> TS_DEVICE void copy(const ts_cuda_team_side &side, const char *at, int32_t first, int32_t terms, char *panel)
    {
        typedef turns<Steep> T;
        int32_t row, term;
        at += (uint64_t)(uint32_t)first * side.row_step;
        const bool aligned = ((uintptr_t)at & 15u) == 0;
        spot<Steep>(0, row, term);
        if (aligned && side.rows - first >= TILE && (Steep || terms == DEPTH)) {
            if (term < terms) {
                const uint64_t jump = (uint64_t)(Steep ? side.row_step : side.term_step) * T::LINES;
                char *to = target<Steep>(panel, row, term);
                at += (uint32_t)row * side.row_step + (uint32_t)term * side.term_step;
#pragma unroll
                for (int i = 0; i < T::COUNT; i++) {
                    ts_copy_16(to + i * (T::LINES * (Steep ? PITCH : TILE) * 4), at);
                    at += jump;
                }
            }
            return;
        }
#pragma unroll 1
        for (int i = 0; i < T::COUNT; i++) {
            spot<Steep>(i, row, term);
            const uint32_t valid = (uint32_t)ts_min_i32(row, side.rows - first - (Steep ? 1 : 4));
            const char *from = at + (valid * side.row_step + (uint32_t)term * side.term_step);
            char *to = target<Steep>(panel, row, term);
            if (term < terms && aligned) {
                ts_copy_16(to, from);
            } else if (term < terms) {
                for (int e = 0; e < 16; e += 4) {
                    ts_copy_4(to + e, from + e);
                }
            }
        }
    }
    struct place {
        int64_t batch;
        int32_t row, column;
    };
    TS_DEVICE place place_of_item(const ts_cuda_batched &p, uint32_t item)
    {
        place at = {item, 0, 0};
        if (p.tiles[0] > 1 || p.tiles[1] > 1) {
            const uint32_t rest = item / (uint32_t)p.tiles[1], batch = rest / (uint32_t)p.tiles[0];
            at.batch = batch;
            at.row = (int32_t)(rest - batch * (uint32_t)p.tiles[0]) * TILE;
            at.column = (int32_t)(item - rest * (uint32_t)p.tiles[1]) * TILE;
        }
        return at;
    }
    /* Panels of the terms from those of `stage` on. */
    TS_DEVICE void issue(const ts_cuda_batched &p, const place &at, const char *a, const char *b, int stage)
    {
        const int32_t term = stage * DEPTH, terms = ts_min_i32(p.sum - term, DEPTH);
        if (terms > 0) {
            a += at.batch * p.side[0].batch_step * 4 + (uint64_t)(uint32_t)term * p.side[0].term_step;
            b += at.batch * p.side[1].batch_step * 4 + (uint64_t)(uint32_t)term * p.side[1].term_step;
            copy<SteepA>(p.side[0], a, at.row, terms, panel_a(stage));
            copy<SteepB>(p.side[1], b, at.column, terms, panel_b(stage));
        }
        ts_copy_commit();
    }

    /* ---- sums ---- */
    /* Four terms of all rows, or of all columns, [term][i]. */
    template <bool Steep, int N> TS_DEVICE void read(value (&f)[GROUP][N], const char *from, int apart)
    {
        if (Steep) {
#pragma unroll
            for (int i = 0; i < N; i++) {
                value terms[4];
                ts_read_vector<value, 4>(reinterpret_cast<const value *>(from + i * apart), terms);
#pragma unroll
                for (int k = 0; k < GROUP; k++) {
                    f[k][i] = terms[k];
                }
            }
        } else {
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
#pragma unroll
                for (int i = 0; i < N; i += 4) {
                    ts_read_vector<value, 4>(reinterpret_cast<const value *>(from + k * (TILE * 4) + i * 16), f[k] + i);
                }
            }
        }
    }
    template <int Way> TS_DEVICE void take(sum &s, const value (&x)[GROUP][ROWS], const value (&y)[GROUP][COLUMNS], int i, int j)
    {
        if constexpr (Way != ts_batched_plainly) {
#pragma unroll
            for (int k = 0; k < GROUP; k += 2) {
                S::template two_pairs<Way>(s, x[k][i], y[k][j], x[k + 1][i], y[k + 1][j]);
            }
        } else {
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                S::pair(s, x[k][i], y[k][j]);
            }
        }
    }
    template <int Way> TS_DEVICE void note(uint32_t &mark, uint32_t value, const sum &now, const sum &before)
    {
        if constexpr (Way != ts_batched_plainly) {
            ts_note_change(mark, value, S::height(now), S::height(before));
        } else {
            mark = S::changed(now, before) ? value : mark;
        }
    }
    /* arriving: the second stage's panels are not there yet. */
    template <int Way> TS_DEVICE void add_up(sums &s, int32_t sum_terms, bool arriving)
    {
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                if constexpr (Way != ts_batched_plainly) {
                    S::template start_for<Way>(s.at[i][j]);
                } else {
                    S::start(s.at[i][j]);
                }
                if constexpr (Winners) {
                    s.mark[i][j] = mark_of(0, 0);
                }
            }
        }
#pragma unroll 1
        for (int32_t first = 0, stage = 0; first < sum_terms; first += DEPTH, stage++) {
            const char *pa = first_row() + stage * STAGE, *pb = first_column() + stage * STAGE;
            uint32_t mark = mark_of(stage, first);
            if (arriving && first != 0) {
                ts_copy_wait<0>();
                ts_sync();
            }
#pragma unroll 1
            for (int32_t term = first; term < ts_min_i32(first + DEPTH, sum_terms); term += GROUP, mark += mark_step()) {
                value x[GROUP][ROWS], y[GROUP][COLUMNS];
                read<SteepB, COLUMNS>(y, pb, 8 * PITCH * 4);
                read<SteepA, ROWS>(x, pa, 4 * PITCH * 4);
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
#pragma unroll
                    for (int j = 0; j < COLUMNS; j++) {
                        const sum before = s.at[i][j];
                        take<Way>(s.at[i][j], x, y, i, j);
                        if constexpr (Winners) {
                            note<Way>(s.mark[i][j], mark, s.at[i][j], before);
                        }
                    }
                }
                pa += step_of<SteepA>();
                pb += step_of<SteepB>();
            }
        }
    }
    /* Was it the right way for all sums of the warp? */
    template <int Way> TS_DEVICE bool is_right(const sums &s)
    {
        int32_t least = 1;
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                least = ts_min_i32(least, S::template rightness<Way>(s.at[i][j]));
            }
        }
        return ts_ballot(least > 0) == 0xffffffffu;
    }
    /* Which way should be right? Down, where the first four terms of one result of every lane are below +0. */
    TS_DEVICE bool goes_down(void)
    {
        value x[GROUP][ROWS], y[GROUP][COLUMNS];
        sum s;
        read<SteepA, ROWS>(x, first_row(), 4 * PITCH * 4);
        read<SteepB, COLUMNS>(y, first_column(), 8 * PITCH * 4);
        S::start(s);
        take<ts_batched_plainly>(s, x, y, 0, 0);
        return ts_ballot(S::height(s) < 0) == 0xffffffffu;
    }
    /* Waits for the panels. */
    TS_DEVICE void compute(sums &s, int32_t terms)
    {
        ts_copy_wait<1>();
        ts_sync();
        if constexpr (S::exact) {
            add_up<ts_batched_up>(s, terms, true);
        } else if constexpr (S::rises) {
            bool right;
            if (goes_down()) {
                add_up<ts_batched_down>(s, terms, true);
                right = is_right<ts_batched_down>(s);
            } else {
                add_up<ts_batched_up>(s, terms, true);
                right = is_right<ts_batched_up>(s);
            }
            if (!right) {
                add_up<ts_batched_plainly>(s, terms, false);
            }
        } else {
            add_up<ts_batched_plainly>(s, terms, true);
        }
    }

    /* ---- winners and results ---- */
    /* x[j] = x[(j + by) % 4], and back. */
    template <typename T> TS_DEVICE void rotate(T (&x)[COLUMNS], int by)
    {
        T y[COLUMNS];
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            y[j] = (by & 1) != 0 ? x[(j + 1) % 4] : x[j];
        }
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            x[j] = (by & 2) != 0 ? y[(j + 2) % 4] : y[j];
        }
    }
    /* The first of the four terms at `mark` that makes the sum; pa, pb: the row's and the column's first term. */
    TS_DEVICE int32_t winner(const sum &s, uint32_t mark, const char *pa, const char *pb)
    {
        value x[GROUP], y[GROUP];
        pa += place_a(mark);
        pb += place_b(mark);
        if (SteepA) {
            ts_read_vector<value, 4>(reinterpret_cast<const value *>(pa), x);
        }
        if (SteepB) {
            ts_read_vector<value, 4>(reinterpret_cast<const value *>(pb), y);
        }
        int32_t which = GROUP - 1;
#pragma unroll
        for (int k = GROUP - 2; k >= 0; k--) {
            const value left = SteepA ? x[k] : *reinterpret_cast<const value *>(pa + k * (TILE * 4));
            const value right = SteepB ? y[k] : *reinterpret_cast<const value *>(pb + k * (TILE * 4));
            which = S::same(S::term(left, right), s) ? k : which;
        }
        which += term_of(mark);
        /* Products below zero of the semiring make it, too. */
        return P::kind == ts_kind_f32 && !S::exact ? which : (int32_t)ts_settled_winner<P>(P::finish(S::result(s)), which);
    }
    /* Winners in place of marks. Lanes of different rows take columns of different numbers, so that flat ones lie in different banks. */
    TS_DEVICE void find_winners(sums &s)
    {
        const int by = SteepB ? 0 : group_of();
        const char *pa = first_row(), *pb = first_column();
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            sum best[COLUMNS];
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                best[j] = s.at[i][j];
            }
            rotate(best, by);
            rotate(s.mark[i], by);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                s.mark[i][j] = (uint32_t)winner(best[j], s.mark[i][j], pa + row_bytes(i), pb + (SteepB ? column_bytes(j) : (j + by) % 4 * 4));
            }
            rotate(s.mark[i], 4 - by);
        }
    }
    /* What sum (i, j) is away from sum (0, 0). */
    TS_DEVICE int rows_on(int i) { return row_of(i) - row_of(0); }
    TS_DEVICE int columns_on(int j) { return column_of(j) - column_of(0); }
    /* A row's results, or winners, where columns are neighbours; `columns` are left from the first one on. */
    template <typename T, typename U> TS_DEVICE void put_row(char *to, const U (&x)[COLUMNS], int32_t columns)
    {
        if (SteepB) {
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                if (columns_on(j) < columns) {
                    reinterpret_cast<T *>(to)[columns_on(j)] = (T)x[j];
                }
            }
        } else if (columns > 0) { /* all four of them */
            const int N = 16 / (int)sizeof(T);
#pragma unroll
            for (int j = 0; j < COLUMNS; j += N) {
                ts_vector<T, N> vector;
#pragma unroll
                for (int k = 0; k < N; k++) {
                    vector.at[k] = (T)x[j + k];
                }
                *reinterpret_cast<ts_vector<T, N> *>(to + j * sizeof(T)) = vector;
            }
        }
    }
    /* c, w: where sum (0, 0) and its winner go. */
    TS_DEVICE void put_rows(const ts_cuda_batched &p, char *c, char *w, int32_t rows, int32_t columns, const sums &s)
    {
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            if (rows_on(i) < rows) {
                storage results[COLUMNS];
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) {
                    results[j] = P::store(P::finish(S::result(s.at[i][j])));
                }
                put_row<storage>(c + ts_multiply_wide(rows_on(i), p.c_row * 4), results, columns);
            }
        }
        if constexpr (Winners) {
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                char *to = w + ts_multiply_wide(rows_on(i), p.w_row * p.winner_bytes);
                if (rows_on(i) < rows && p.winner_bytes == 4) {
                    put_row<int32_t>(to, s.mark[i], columns);
                } else if (rows_on(i) < rows) {
                    put_row<int64_t>(to, s.mark[i], columns);
                }
            }
        }
    }
    TS_DEVICE void put_each(const ts_cuda_batched &p, char *c, char *w, int32_t rows, int32_t columns, const sums &s, bool accumulate)
    {
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                if (rows_on(i) < rows && columns_on(j) < columns) {
                    char *to = c + (ts_multiply_wide(rows_on(i), p.c_row * 4) + ts_multiply_wide(columns_on(j), p.c_column * 4));
                    ts_put<P>(reinterpret_cast<storage *>(to), S::result(s.at[i][j]), accumulate, ts_make_context(0));
                    if constexpr (Winners) {
                        ts_put_winner(w, ts_multiply_wide(rows_on(i), p.w_row) + ts_multiply_wide(columns_on(j), p.w_column),
                                      (int64_t)s.mark[i][j], p.winner_bytes);
                    }
                }
            }
        }
    }
    /* Are columns neighbours, and four of them in 16 bytes? */
    TS_DEVICE bool in_rows(const ts_cuda_batched &p, const char *c, const char *w, bool accumulate)
    {
        const int64_t odd = ((p.c_batch | p.c_row) & 3) | (Winners ? (p.w_batch | p.w_row) & (16 / p.winner_bytes - 1) : 0);
        const bool aligned = odd == 0 && (((uintptr_t)c | (uintptr_t)w) & 15u) == 0;
        return !accumulate && p.c_column == 1 && (!Winners || p.w_column == 1) && (SteepB || aligned);
    }

    TS_DEVICE void run(const ts_cuda_batched &p)
    {
        const char *a = ts_address(p.side[0].from), *b = ts_address(p.side[1].from);
        char *c = ts_address(p.c), *w = Winners ? ts_address(p.w) : nullptr;
        const bool accumulate = ts_switched_on(p.accumulate), by_rows = in_rows(p, c, w, accumulate);
        for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
            const place at = place_of_item(p, (uint32_t)item);
            sums s;
            ts_sync(); /* all are done with the panels of the item before */
            issue(p, at, a, b, 0);
            issue(p, at, a, b, 1);
            compute(s, p.sum);
            if constexpr (Winners) {
                find_winners(s);
            }
            const int32_t row = at.row + row_of(0), column = at.column + column_of(0), rows = p.side[0].rows - row, columns = p.side[1].rows - column;
            char *c_at = c + (at.batch * p.c_batch + (int64_t)row * p.c_row + (int64_t)column * p.c_column) * 4;
            char *w_at = w + (at.batch * p.w_batch + (int64_t)row * p.w_row + (int64_t)column * p.w_column) * p.winner_bytes;
            if (by_rows) {
                put_rows(p, c_at, w_at, rows, columns, s);
            } else {
                put_each(p, c_at, w_at, rows, columns, s, accumulate);
            }
        }
    }
};

template <typename P, bool Winners> TS_DEVICE void ts_batched_run(const ts_cuda_batched &p)
{
    if (p.side[0].steep) {
        if (p.side[1].steep) {
            ts_batched<P, Winners, true, true>::run(p);
        } else {
            ts_batched<P, Winners, true, false>::run(p);
        }
    } else if (p.side[1].steep) {
        ts_batched<P, Winners, false, true>::run(p);
    } else {
        ts_batched<P, Winners, false, false>::run(p);
    }
}

#endif
