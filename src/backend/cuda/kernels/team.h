/* contract where a product has too few tiles to fill the device by the dozen: one tile to a block of all warps that a
 * multiprocessor runs, and to a launch. A warp computes 32 x 64 results, 8 x 8 to a lane; where a tile takes fewer warps than there
 * are, teams of them share the terms of each panel, and add up through shared memory at the end.
 *
 * What a launch costs besides its pairs is what this is about: plain strides instead of tables of modes, every copy 16 bytes,
 * and panels that lie as the operand does: by terms where terms are neighbours (steep), then fragments of two terms are read at
 * once. */
#ifndef TS_CUDA_TEAM_H
#define TS_CUDA_TEAM_H

#include "micro.h"
#include "team_abi.h"
#include "vector.h"

template <typename P, int BM, int BN, int BK, int THREADS, int STAGES> struct ts_team {
    typedef typename P::storage storage;
    typedef typename P::value value;
    typedef ts_micro_plain<P> M;
    static const int WARPS_M = BM / 32, WARPS_N = BN / 64, TEAMS = THREADS / (32 * WARPS_M * WARPS_N), SHARE = BK / TEAMS;
    static const int PITCH = BK + 4; /* of steep panels: the rows that a warp reads at a time lie in different banks */
    static const int PANEL_A = BM * PITCH * 4, PANEL_B = BN * PITCH * 4;
    static const int LINE = BN + 8; /* of results */
    static const int PANELS = STAGES * (PANEL_A + PANEL_B), RESULTS = TEAMS * BM * LINE * 4;
    static const int SHARED = (PANELS > RESULTS ? PANELS : RESULTS) + 128;
    static const int AHEAD = STAGES - 2;
    static_assert(sizeof(storage) == 4 && sizeof(value) == 4, "elements of 4 bytes");
    static_assert(SHARE * TEAMS == BK && SHARE % 2 == 0 && STAGES * 16 <= 128, "teams have the same terms to add");
    static_assert(BM * BK % (4 * THREADS) == 0 && BN * BK % (4 * THREADS) == 0, "panels are shared evenly");

    TS_DEVICE char *panel_a(int stage) { return reinterpret_cast<char *>(ts_shared()) + stage * (PANEL_A + PANEL_B); }
    TS_DEVICE char *panel_b(int stage) { return panel_a(stage) + PANEL_A; }
    TS_DEVICE uint64_t *stage_at(int stage) { return reinterpret_cast<uint64_t *>(ts_shared() + (SHARED - 128)) + 2 * stage; }
    TS_DEVICE uint32_t warp_of(void) { return (uint32_t)ts_thread() / 32 % (WARPS_M * WARPS_N); }
    TS_DEVICE int team_of(void) { return ts_thread() / (32 * WARPS_M * WARPS_N); }
    TS_DEVICE int group_of(void) { return ts_thread() % 32 / 8; }
    TS_DEVICE int lane_of(void) { return ts_thread() % 8; }
    /* Rows and columns of this thread's sum (i, j). */
    TS_DEVICE int row_of(int i, bool steep)
    {
        return (int)(warp_of() % WARPS_M * 32) + (steep ? i * 4 + group_of() : i / 4 * 16 + group_of() * 4 + i % 4);
    }
    TS_DEVICE int column_of(int j, bool steep)
    {
        return (int)(warp_of() / WARPS_M * 64) + (steep ? j * 8 + lane_of() : j / 4 * 32 + lane_of() * 4 + j % 4);
    }

    /* One operand in a block: the panel's first term and the operand's first row are at `at`. */
    struct source {
        const char *at;
        uint32_t row_step, term_step;
        int32_t first, rows;
        bool steep, aligned;
    };
    TS_DEVICE source source_of(const ts_cuda_team_side &side, int32_t batch, int32_t first)
    {
        source s;
        s.at = ts_address(side.from) + batch * side.batch_step * 4;
        s.row_step = side.row_step;
        s.term_step = side.term_step;
        s.first = first;
        s.rows = side.rows;
        s.steep = side.steep != 0;
        s.aligned = ((uintptr_t)s.at & 15u) == 0;
        return s;
    }
    TS_DEVICE void copy_four(char *to, const char *from, bool aligned)
    {
        if (aligned) {
            ts_copy_16(to, from);
        } else {
#pragma unroll
            for (int i = 0; i < 16; i += 4) {
                ts_copy_4(to + i, from + i);
            }
        }
    }
    /* Rows past the end stand for the last ones. */
    template <int ROWS> TS_DEVICE void copy(const source &s, char *to, int32_t terms)
    {
        const uint32_t thread = (uint32_t)ts_thread();
        if (s.steep) {
#pragma unroll
            for (uint32_t i = 0; i < ROWS * BK / (4 * THREADS); i++) {
                const uint32_t e = i * THREADS + thread, row = e / (BK / 4), term = e % (BK / 4) * 4;
                const int32_t place = s.first + (int32_t)row < s.rows ? s.first + (int32_t)row : s.rows - 1;
                if ((int32_t)term < terms) {
                    copy_four(to + (row * PITCH + term) * 4, s.at + ((uint32_t)place * s.row_step + term * 4), s.aligned);
                }
            }
        } else {
#pragma unroll
            for (uint32_t i = 0; i < ROWS * BK / (4 * THREADS); i++) {
                const uint32_t e = i * THREADS + thread, row = e % (ROWS / 4) * 4, term = e / (ROWS / 4);
                const int32_t place = s.first + (int32_t)row < s.rows ? s.first + (int32_t)row : s.rows - 4;
                if ((int32_t)term < terms) {
                    copy_four(to + (term * ROWS + row) * 4, s.at + ((uint32_t)place * 4 + term * s.term_step), s.aligned);
                }
            }
        }
    }
    TS_DEVICE void issue(source &a, source &b, int stage, int32_t terms)
    {
        copy<BM>(a, panel_a(stage), terms);
        copy<BN>(b, panel_b(stage), terms);
        a.at += (uint64_t)a.term_step * BK;
        b.at += (uint64_t)b.term_step * BK;
    }

    struct sums {
        typename M::sum at[8][8];
    };
    /* Two terms. */
    struct fragment {
        value a[2][8], b[2][8];
    };
    template <bool Steep, int ROWS, int APART> TS_DEVICE void read_side(value (&f)[2][8], const value *from, int term)
    {
        if (Steep) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                value two[2];
                ts_read_vector<value, 2>(from + i * (APART * PITCH) + term, two);
                f[0][i] = two[0];
                f[1][i] = two[1];
            }
        } else {
#pragma unroll
            for (int k = 0; k < 2; k++) {
                ts_read_vector<value, 4>(from + (term + k) * ROWS, f[k]);
                ts_read_vector<value, 4>(from + (term + k) * ROWS + APART * 4, f[k] + 4);
            }
        }
    }
    /* Have all sums of the warp risen? (See tile.h.) */
    TS_DEVICE bool risen(const sums &s)
    {
        int32_t least = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
#pragma unroll
            for (int j = 0; j < 8; j++) {
                least = ts_min_i32(least, M::height(s.at[i][j]));
            }
        }
        return ts_ballot(least >= 0) == 0xffffffffu;
    }
    /* This team's share of a panel of `terms`; past: terms of the panels before. */
    template <bool SteepA, bool SteepB> TS_DEVICE void compute(sums &s, int stage, int32_t terms, int32_t past, bool &high)
    {
        const ts_context context = ts_make_context(0);
        const value *pa = reinterpret_cast<const value *>(panel_a(stage)) + row_of(0, SteepA) * (SteepA ? PITCH : 1);
        const value *pb = reinterpret_cast<const value *>(panel_b(stage)) + column_of(0, SteepB) * (SteepB ? PITCH : 1);
        const int32_t first = team_of() * SHARE, last = first + SHARE < terms ? first + SHARE : terms;
        int32_t term = first;
        fragment f;
#pragma unroll 1
        for (; !high && term + 1 < last; term += 2) {
            read_side<SteepA, BM, 4>(f.a, pa, term);
            read_side<SteepB, BN, 8>(f.b, pb, term);
#pragma unroll
            for (int k = 0; k < 2; k++) {
#pragma unroll
                for (int i = 0; i < 8; i++) {
#pragma unroll
                    for (int j = 0; j < 8; j++) {
                        M::pair(s.at[i][j], f.a[k][i], f.b[k][j], context);
                    }
                }
            }
            const int32_t done = past + term - first;
            high = M::rises && (done < 4 || done % 32 == 0) && risen(s);
        }
        if constexpr (M::rises) {
#pragma unroll 1
            for (; term + 1 < last; term += 2) {
                read_side<SteepA, BM, 4>(f.a, pa, term);
                read_side<SteepB, BN, 8>(f.b, pb, term);
#pragma unroll
                for (int i = 0; i < 8; i++) {
#pragma unroll
                    for (int j = 0; j < 8; j++) {
                        M::two_pairs(s.at[i][j], f.a[0][i], f.b[0][j], f.a[1][i], f.b[1][j]);
                    }
                }
            }
        }
        if (term < last) { /* one is left; what is read beside it is not used */
            read_side<SteepA, BM, 4>(f.a, pa, term);
            read_side<SteepB, BN, 8>(f.b, pb, term);
#pragma unroll
            for (int i = 0; i < 8; i++) {
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    M::pair(s.at[i][j], f.a[0][i], f.b[0][j], context);
                }
            }
        }
    }
    TS_DEVICE void walk(sums &s, source a, source b, int32_t sum)
    {
        const int32_t panels = (sum + BK - 1) / BK;
        bool high = false;
#pragma unroll 1
        for (int i = 0; i < AHEAD; i++) {
            if (i < panels) {
                issue(a, b, i, sum - i * BK);
            }
            ts_stage_commit(stage_at(i));
            ts_copy_commit();
        }
        int stage = 0, next = AHEAD;
        uint32_t parity = 0, next_parity = 0;
#pragma unroll 1
        for (int32_t panel = 0; panel < panels; panel++) {
            if (panel + AHEAD < panels) {
                ts_stage_reuse(stage_at(next), next_parity);
                issue(a, b, next, sum - (panel + AHEAD) * BK);
                ts_stage_commit(stage_at(next));
            }
            ts_copy_commit();
            ts_stage_wait<AHEAD>(stage_at(stage), parity);
            const int32_t terms = sum - panel * BK < BK ? sum - panel * BK : BK;
            if (a.steep) {
                if (b.steep) {
                    compute<true, true>(s, stage, terms, panel * SHARE, high);
                } else {
                    compute<true, false>(s, stage, terms, panel * SHARE, high);
                }
            } else if (b.steep) {
                compute<false, true>(s, stage, terms, panel * SHARE, high);
            } else {
                compute<false, false>(s, stage, terms, panel * SHARE, high);
            }
            ts_stage_release(stage_at(stage));
            parity ^= stage + 1 == STAGES ? 1u : 0u;
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            next_parity ^= next + 1 == STAGES ? 1u : 0u;
            next = next + 1 == STAGES ? 0 : next + 1;
        }
        ts_copy_wait<0>();
    }
    /* Every team's results side by side, then one after the other of a tile added up and stored. */
    TS_DEVICE void finish(const sums &s, const ts_cuda_team &p, int32_t batch, int32_t row, int32_t column)
    {
        const ts_context context = ts_make_context(0);
        const bool steep_a = p.side[0].steep != 0, steep_b = p.side[1].steep != 0, accumulate = ts_switched_on(p.accumulate);
        value *results = reinterpret_cast<value *>(ts_shared());
        storage *c = reinterpret_cast<storage *>(ts_address(p.c)) + batch * p.c_batch + row * p.c_row + column * p.c_column;
        ts_sync();
#pragma unroll
        for (int i = 0; i < 8; i++) {
            value *to = results + (team_of() * BM + row_of(i, steep_a)) * LINE;
#pragma unroll
            for (int j = 0; j < 8; j += 4) {
                ts_vector<value, 4> four;
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    four.at[k] = M::result(s.at[i][j + k], 0, context);
                }
                if (steep_b) {
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        to[column_of(j + k, true)] = four.at[k];
                    }
                } else {
                    *reinterpret_cast<ts_vector<value, 4> *>(to + column_of(j, false)) = four;
                }
            }
        }
        ts_sync();
#pragma unroll 1
        for (int at = ts_thread(); at < BM * BN; at += THREADS) {
            const int32_t i = at / BN, j = at % BN;
            if (row + i < p.side[0].rows && column + j < p.side[1].rows) {
                ts_running<P> whole;
                whole.best = results[i * LINE + j];
#pragma unroll
                for (int team = 1; team < TEAMS; team++) {
                    ts_running<P>::term(whole, results[(team * BM + i) * LINE + j], context);
                }
                ts_put<P>(c + (i * p.c_row + j * p.c_column), whole.best, accumulate, context);
            }
        }
    }

    TS_DEVICE void run(const ts_cuda_team &p)
    {
        bool first_walk = true;
        for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
            const uint32_t rest = (uint32_t)item / (uint32_t)p.tiles[1], batch = rest / (uint32_t)p.tiles[0];
            const int32_t column = (int32_t)((uint32_t)item - rest * (uint32_t)p.tiles[1]) * BN;
            const int32_t row = (int32_t)(rest - batch * (uint32_t)p.tiles[0]) * BM;
            sums s;
            ts_sync(); /* the item before has been stored */
            ts_stages_init(stage_at(0), STAGES, THREADS, first_walk);
            first_walk = false;
#pragma unroll
            for (int i = 0; i < 8; i++) {
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    M::start(s.at[i][j]);
                }
            }
            ts_sync();
            walk(s, source_of(p.side[0], (int32_t)batch, row), source_of(p.side[1], (int32_t)batch, column), p.sum);
            finish(s, p, (int32_t)batch, row, column);
        }
    }
};

/* The shapes of team_abi.h as types. */
template <int Shape> struct ts_team_shape;
#define TS_TEAM_SHAPE(id, name, rows, columns, terms, threads_, stages)                                                  \
    template <> struct ts_team_shape<TS_CUDA_SHAPE_##id> {                                                               \
        static const int threads = threads_;                                                                             \
        template <typename P> struct of {                                                                                \
            typedef ts_team<P, rows, columns, terms, threads_, stages> type;                                             \
            static_assert(type::SHARED == (int)ts_cuda_team_shared(rows, columns, terms, threads_, stages), "as the host has it"); \
        };                                                                                                               \
    };
TS_CUDA_TEAM_SHAPES(TS_TEAM_SHAPE)
#undef TS_TEAM_SHAPE

#endif
