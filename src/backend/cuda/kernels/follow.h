/* Winners of a tile (tile.h, Track 1) beside its accumulators: for short sums, and for types of any size.
 *
 * The best of every four terms is compared with the best so far, so a term costs an addition, a maximum and a fourth of
 * a comparison and two selections. What is kept is the number of the four; which of them it is shows afterwards. */
#ifndef TS_CUDA_FOLLOW_H
#define TS_CUDA_FOLLOW_H

#include "search.h"

template <typename Tile, typename P, typename M, int TM, int TN> struct ts_follow {
    typedef typename P::value value;
    static const int GROUP = 4;

    template <typename Sum> TS_DEVICE void take(Sum &sum, uint32_t &index, value x, uint32_t group)
    {
        const bool ahead = ts_ahead<P>(x, sum.best);
        sum.best = ahead ? x : sum.best;
        index = ahead ? group : index;
    }
    /* The terms of one panel; pa, pb: where this thread's rows and columns begin. */
    template <typename Sums>
    TS_DEVICE void panel(Sums &s, const typename M::left *pa, const typename M::right *pb, uint32_t group, int32_t terms,
                         const ts_context &context)
    {
        int32_t term = 0;
#pragma unroll 1
        for (; term + GROUP <= terms; term += GROUP, group++) {
            typename Tile::fragment f[GROUP];
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                Tile::read(f[k], pa, pb, term + k);
            }
#pragma unroll
            for (int i = 0; i < TM; i++) {
#pragma unroll
                for (int j = 0; j < TN; j++) {
                    typename M::sum most;
                    most.best = P::product(f[0].a[i], f[0].b[j], context.modulus);
#pragma unroll
                    for (int k = 1; k < GROUP; k++) {
                        M::pair(most, f[k].a[i], f[k].b[j], context);
                    }
                    take(s.at[i][j], s.index[i][j], most.best, group);
                }
            }
        }
#pragma unroll 1
        for (; term < terms; term++) {
            typename Tile::fragment f;
            Tile::read(f, pa, pb, term);
#pragma unroll
            for (int i = 0; i < TM; i++) {
#pragma unroll
                for (int j = 0; j < TN; j++) {
                    take(s.at[i][j], s.index[i][j], P::product(f.a[i], f.b[j], context.modulus), group);
                }
            }
        }
    }
    /* A whole panel where all sums of the warp have risen (Tile::risen): maxima as integers, two terms at a time. */
    template <typename Sums>
    TS_DEVICE void panel_risen(Sums &s, const typename M::left *pa, const typename M::right *pb, uint32_t group)
    {
#pragma unroll 1
        for (int32_t term = 0; term < Tile::DEPTH; term += GROUP, group++) {
            typename Tile::fragment f[GROUP];
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                Tile::read(f[k], pa, pb, term + k);
            }
#pragma unroll
            for (int i = 0; i < TM; i++) {
#pragma unroll
                for (int j = 0; j < TN; j++) {
                    const int32_t before = M::height(s.at[i][j]);
#pragma unroll
                    for (int k = 0; k < GROUP; k += 2) {
                        M::two_pairs(s.at[i][j], f[k].a[i], f[k].b[j], f[k + 1].a[i], f[k + 1].b[j]);
                    }
                    s.index[i][j] = M::height(s.at[i][j]) != before ? group : s.index[i][j];
                }
            }
        }
    }
    /* The first of the best terms of a group, from the panels, where all are still there. */
    TS_DEVICE int32_t nearby(int row, int column, uint32_t group, const ts_context &context)
    {
        const int first = (int)group * GROUP, within = first % Tile::DEPTH;
        const typename M::left *pa = Tile::panel_a(first / Tile::DEPTH) + (within * Tile::PITCH_A + row);
        const typename M::right *pb = Tile::panel_b(first / Tile::DEPTH) + (within * Tile::PITCH_B + column);
        value best = P::zero();
        int32_t which = 0;
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            offer(best, which, P::product(pa[k * Tile::PITCH_A], pb[k * Tile::PITCH_B], context.modulus), k);
        }
        return first + which;
    }
    /* The same: from the panels where all are still there, else from memory. */
    TS_DEVICE int64_t winner(const Tile &t, int row, int column, uint32_t group, int64_t terms, const ts_context &context)
    {
        const int64_t first = (int64_t)group * GROUP;
        value best = P::zero();
        int32_t which = 0;
        if (terms <= Tile::PANELS * Tile::DEPTH && first + GROUP <= terms) {
            return nearby(row, column, group, context);
        }
#pragma unroll 1
        for (int k = 0; k < GROUP && first + k < terms; k++) {
            offer(best, which, Tile::term_of(t, row, column, first + k, context), k);
        }
        return first + which;
    }
    TS_DEVICE void offer(value &best, int32_t &which, value x, int32_t k)
    {
        const bool ahead = ts_ahead<P>(x, best);
        best = ahead ? x : best;
        which = ahead ? k : which;
    }
};

#endif
