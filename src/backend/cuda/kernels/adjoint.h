/* Gradients by winners (selective semirings) or by weights (log_sum_exp).
 *
 * A sum of cotangents starts at +0 and runs over canonical positions as a positional tree: blocks of 512 in ascending
 * order, then the sums of those blocks by the same rule. Skipping a position adds nothing, so it is exact. */
#ifndef TS_CUDA_ADJOINT_H
#define TS_CUDA_ADJOINT_H

#include "locate.h"
#include "pair.h"

/* Results per thread where a block takes a row of the gradient. */
#define TS_ADJOINT_SHARE TS_CUDA_ADJOINT_SHARE
#define TS_TREE TS_CUDA_TREE

TS_DEVICE void ts_gradient_add(float &sum, float x) { sum += x; }
TS_DEVICE void ts_gradient_add(double &sum, double x) { sum += x; }
TS_DEVICE void ts_gradient_add(ts_c64 &sum, ts_c64 x)
{
    sum.re += x.re;
    sum.im += x.im;
}
TS_DEVICE void ts_gradient_add(ts_c128 &sum, ts_c128 x)
{
    sum.re += x.re;
    sum.im += x.im;
}
template <typename G> TS_DEVICE G ts_gradient_zero(void)
{
    G zero;
    memset(&zero, 0, sizeof zero);
    return zero;
}

/* The sums of finished blocks, level by level; LEVELS levels hold 512^(LEVELS + 1) positions. */
template <typename G, int LEVELS> struct ts_tree {
    G level[LEVELS];
    TS_DEVICE void start(ts_tree &t)
    {
        for (int i = 0; i < LEVELS; i++) {
            t.level[i] = ts_gradient_zero<G>();
        }
    }
    /* `sum` is that of block number `number` (from 0), which is full. */
    TS_DEVICE void close(ts_tree &t, G sum, int64_t number)
    {
        bool full = true;
        number++;
#pragma unroll
        for (int i = 0; i < LEVELS; i++) {
            if (full) {
                ts_gradient_add(t.level[i], sum);
                full = number % TS_TREE == 0 && i + 1 < LEVELS;
                number /= TS_TREE;
                if (full) {
                    sum = t.level[i];
                    t.level[i] = ts_gradient_zero<G>();
                }
            }
        }
    }
    /* The whole; `sum` is that of the last, unfinished block. */
    TS_DEVICE G total(const ts_tree &t, G sum)
    {
        for (int i = 0; i < LEVELS; i++) {
            G below = sum;
            sum = t.level[i];
            ts_gradient_add(sum, below);
        }
        return sum;
    }
};

template <typename P> struct ts_adjoint_operands {
    const typename P::storage *mine, *other, *c;
    const char *w;
    const typename P::gradient *g;
    typename P::gradient *d;
    bool needs_other;
};
template <typename P> TS_DEVICE ts_adjoint_operands<P> ts_adjoint_open(const ts_cuda_adjoint &p)
{
    ts_adjoint_operands<P> o;
    o.mine = reinterpret_cast<const typename P::storage *>(ts_address(p.side == 0 ? p.a : p.b));
    o.other = reinterpret_cast<const typename P::storage *>(ts_address(p.side == 0 ? p.b : p.a));
    o.c = reinterpret_cast<const typename P::storage *>(ts_address(p.c));
    o.w = ts_address(p.w);
    o.g = reinterpret_cast<const typename P::gradient *>(ts_address(p.g));
    o.d = reinterpret_cast<typename P::gradient *>(ts_address(p.d));
    o.needs_other = !P::selective || P::mul_op != ts_op_plus;
    return o;
}

/* What cotangent g gives to this operand from a term that won (selective), or from any term (log_sum_exp). */
template <typename P>
TS_DEVICE typename P::gradient ts_share_of(typename P::gradient g, typename P::value mine, typename P::value other,
                                           typename P::value c, int32_t tie_here)
{
    typedef typename P::gradient G;
    if constexpr (P::add_op == ts_op_lse) {
        return c == P::zero() ? G(0) : g * (G)ts_exp(mine + other - c);
    } else if constexpr (P::mul_op == ts_op_ntimes && P::kind == ts_kind_i32) {
        return (G)((double)g * (double)other); /* the factor as it is, and one rounding */
    } else if constexpr (P::mul_op == ts_op_ntimes) {
        return g * (G)other;
    } else if constexpr (P::mul_op == ts_op_plus) {
        return g;
    } else {
        bool odd_mine = ts_is_not_a_number(mine), odd_other = ts_is_not_a_number(other);
        bool tie = mine == other || (odd_mine && odd_other);
        bool here = tie ? tie_here != 0
                        : odd_mine || (!odd_other && (P::mul_op == ts_op_max ? mine > other : mine < other));
        return here ? g : G(0);
    }
}

/* The modes of the three roles: rows (batch and this side's class), the summed class, the sum of the step. */
struct ts_adjoint_modes {
    const ts_cuda_mode *batch, *row, *other, *sum;
    int32_t batch_count, row_count, other_count, sum_count, wide;
    int64_t rows, others, sums; /* rows: of one batch */
};
TS_DEVICE ts_adjoint_modes ts_adjoint_modes_of(const ts_cuda_adjoint &p)
{
    ts_adjoint_modes m;
    const ts_cuda_mode *modes = ts_mode_table(p.modes), *left = modes + p.batch_count, *right = left + p.left_count;
    m.batch = modes;
    m.batch_count = p.batch_count;
    m.row = p.side == 0 ? left : right;
    m.row_count = p.side == 0 ? p.left_count : p.right_count;
    m.other = p.side == 0 ? right : left;
    m.other_count = p.side == 0 ? p.right_count : p.left_count;
    m.sum = right + p.right_count;
    m.sum_count = p.sum_count;
    m.wide = p.modes.wide;
    m.rows = p.side == 0 ? p.left : p.right;
    m.others = p.side == 0 ? p.right : p.left;
    m.sums = p.sum;
    return m;
}
TS_DEVICE void ts_join(ts_cuda_offsets &to, const ts_cuda_offsets &from)
{
    to.a += from.a;
    to.b += from.b;
    to.c += from.c;
    to.w += from.w;
    to.g += from.g;
    to.d += from.d;
}
TS_DEVICE ts_cuda_offsets ts_adjoint_row_offsets(const ts_adjoint_modes &m, int64_t row)
{
    ts_cuda_offsets base = ts_offsets_of(m.batch, m.batch_count, m.wide, row / m.rows);
    ts_join(base, ts_offsets_of(m.row, m.row_count, m.wide, row % m.rows));
    return base;
}
template <typename P>
TS_DEVICE void ts_adjoint_put(const ts_adjoint_operands<P> &o, int64_t offset, typename P::gradient sum, bool accumulate)
{
    if (accumulate) {
        typename P::gradient before = o.d[offset];
        ts_gradient_add(before, sum);
        sum = before;
    }
    o.d[offset] = sum;
}

/* A thread per element of d; the block keeps the offsets of 512 positions in a table. */
template <typename P> TS_DEVICE void ts_adjoint_each(const ts_cuda_adjoint &p)
{
    typedef typename P::gradient G;
    const ts_adjoint_modes m = ts_adjoint_modes_of(p);
    const ts_adjoint_operands<P> o = ts_adjoint_open<P>(p);
    const bool accumulate = ts_switched_on(p.accumulate);
    const int64_t elements = p.batch * m.rows * m.sums;
    int64_t *other_at = reinterpret_cast<int64_t *>(ts_shared()), *c_at = other_at + TS_TREE, *w_at = c_at + TS_TREE,
            *g_at = w_at + TS_TREE;
    for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
        const int64_t number = item * ts_threads() + ts_thread();
        const bool here = number < elements;
        const int64_t place = here ? number % m.sums : 0;
        ts_cuda_offsets base = ts_adjoint_row_offsets(m, here ? number / m.sums : 0);
        ts_join(base, ts_offsets_of(m.sum, m.sum_count, m.wide, place));
        const int64_t mine_at = p.side == 0 ? base.a : base.b, other_base = p.side == 0 ? base.b : base.a;
        const typename P::value mine = here ? P::load(o.mine[mine_at]) : P::zero();
        ts_tree<G, 6> tree;
        G sum = ts_gradient_zero<G>();
        ts_tree<G, 6>::start(tree);
        for (int64_t first = 0; first < m.others; first += TS_TREE) {
            const int32_t count = (int32_t)(m.others - first < TS_TREE ? m.others - first : TS_TREE);
            ts_sync();
            for (int32_t i = ts_thread(); i < count; i += ts_threads()) {
                ts_cuda_offsets offsets = ts_offsets_of(m.other, m.other_count, m.wide, first + i);
                other_at[i] = p.side == 0 ? offsets.b : offsets.a;
                c_at[i] = offsets.c;
                w_at[i] = offsets.w;
                g_at[i] = offsets.g;
            }
            ts_sync();
            if (here) {
                for (int32_t i = 0; i < count; i++) {
                    if (!P::selective || ts_get_winner(o.w, base.w + w_at[i], p.winner_bytes) == place) {
                        typename P::value other = o.needs_other ? P::load(o.other[other_base + other_at[i]]) : P::zero();
                        typename P::value c = P::selective ? P::zero() : P::load(o.c[base.c + c_at[i]]);
                        ts_gradient_add(sum, ts_share_of<P>(o.g[base.g + g_at[i]], mine, other, c, p.tie_here));
                    }
                }
                if (count == TS_TREE) {
                    ts_tree<G, 6>::close(tree, sum, first / TS_TREE);
                    sum = ts_gradient_zero<G>();
                }
            }
        }
        if (here) {
            ts_adjoint_put<P>(o, base.d, ts_tree<G, 6>::total(tree, sum), accumulate);
        }
    }
}

/* A block per row and run of sum positions: 512 values and cotangents at a time are staged for all threads.
 * By weights only. */
template <typename P> TS_DEVICE void ts_adjoint_row(const ts_cuda_adjoint &p)
{
    typedef typename P::gradient G;
    typedef typename P::value value;
    const ts_adjoint_modes m = ts_adjoint_modes_of(p);
    const ts_adjoint_operands<P> o = ts_adjoint_open<P>(p);
    const bool accumulate = ts_switched_on(p.accumulate);
    const int64_t run = (int64_t)TS_CUDA_THREADS * TS_ADJOINT_SHARE, runs = (m.sums + run - 1) / run;
    int64_t *other_at = reinterpret_cast<int64_t *>(ts_shared());
    G *g = reinterpret_cast<G *>(other_at + TS_TREE);
    value *c = reinterpret_cast<value *>(g + TS_TREE);
    const int32_t thread = ts_thread();
    for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
        const int64_t row = item / runs, start = (item - row * runs) * run;
        const ts_cuda_offsets base = ts_adjoint_row_offsets(m, row);
        ts_tree<G, 2> tree[TS_ADJOINT_SHARE];
        G sum[TS_ADJOINT_SHARE];
        int64_t other_sum[TS_ADJOINT_SHARE];
        value mine[TS_ADJOINT_SHARE];
        for (int k = 0; k < TS_ADJOINT_SHARE; k++) {
            int64_t place = start + k * TS_CUDA_THREADS + thread;
            ts_cuda_offsets at = ts_offsets_of(m.sum, m.sum_count, m.wide, place < m.sums ? place : 0);
            ts_join(at, base);
            mine[k] = P::load(o.mine[p.side == 0 ? at.a : at.b]);
            other_sum[k] = p.side == 0 ? at.b : at.a;
            sum[k] = ts_gradient_zero<G>();
            ts_tree<G, 2>::start(tree[k]);
        }
        for (int64_t first = 0; first < m.others; first += TS_TREE) {
            const int32_t count = (int32_t)(m.others - first < TS_TREE ? m.others - first : TS_TREE);
            ts_sync();
            for (int32_t i = thread; i < count; i += TS_CUDA_THREADS) {
                ts_cuda_offsets offsets = ts_offsets_of(m.other, m.other_count, m.wide, first + i);
                other_at[i] = p.side == 0 ? offsets.b : offsets.a;
                g[i] = o.g[base.g + offsets.g];
                c[i] = P::load(o.c[base.c + offsets.c]);
            }
            ts_sync();
#pragma unroll 4
            for (int32_t i = 0; i < count; i++) {
                for (int k = 0; k < TS_ADJOINT_SHARE; k++) {
                    if (start + k * TS_CUDA_THREADS + thread < m.sums) {
                        value other = P::load(o.other[other_sum[k] + other_at[i]]);
                        ts_gradient_add(sum[k], ts_share_of<P>(g[i], mine[k], other, c[i], p.tie_here));
                    }
                }
            }
            if (count == TS_TREE) {
                for (int k = 0; k < TS_ADJOINT_SHARE; k++) {
                    ts_tree<G, 2>::close(tree[k], sum[k], first / TS_TREE);
                    sum[k] = ts_gradient_zero<G>();
                }
            }
        }
        for (int k = 0; k < TS_ADJOINT_SHARE; k++) {
            int64_t place = start + k * TS_CUDA_THREADS + thread;
            if (place < m.sums) {
                ts_adjoint_put<P>(o, base.d + ts_offsets_of(m.sum, m.sum_count, m.wide, place).d,
                                  ts_tree<G, 2>::total(tree[k], sum[k]), accumulate);
            }
        }
    }
}

/* A block per row and TS_ADJOINT_SHARE sum positions, where there are few results and many positions: a thread sums
 * one block of 512 positions, then one thread per result adds up 512 such sums. */
template <typename P> TS_DEVICE void ts_adjoint_long(const ts_cuda_adjoint &p)
{
    typedef typename P::gradient G;
    typedef typename P::value value;
    const ts_adjoint_modes m = ts_adjoint_modes_of(p);
    const ts_adjoint_operands<P> o = ts_adjoint_open<P>(p);
    const bool accumulate = ts_switched_on(p.accumulate);
    const int64_t runs = (m.sums + TS_ADJOINT_SHARE - 1) / TS_ADJOINT_SHARE, blocks = (m.others + TS_TREE - 1) / TS_TREE;
    G *block_sums = reinterpret_cast<G *>(ts_shared()); /* [share][512] */
    const int32_t thread = ts_thread();
    for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
        const int64_t row = item / runs, start = (item - row * runs) * TS_ADJOINT_SHARE;
        const ts_cuda_offsets base = ts_adjoint_row_offsets(m, row);
        int64_t other_sum[TS_ADJOINT_SHARE];
        value mine[TS_ADJOINT_SHARE];
        for (int k = 0; k < TS_ADJOINT_SHARE; k++) {
            ts_cuda_offsets at = ts_offsets_of(m.sum, m.sum_count, m.wide, start + k < m.sums ? start + k : 0);
            ts_join(at, base);
            mine[k] = P::load(o.mine[p.side == 0 ? at.a : at.b]);
            other_sum[k] = p.side == 0 ? at.b : at.a;
        }
        ts_tree<G, 5> tree; /* of blocks of blocks */
        ts_tree<G, 5>::start(tree);
        G rest = ts_gradient_zero<G>();
        for (int64_t group = 0; group < blocks; group += TS_TREE) {
            const int32_t inside = (int32_t)(blocks - group < TS_TREE ? blocks - group : TS_TREE);
            ts_sync();
            for (int32_t block = thread; block < inside; block += TS_CUDA_THREADS) {
                const int64_t first = (group + block) * TS_TREE;
                const int64_t last = first + TS_TREE < m.others ? first + TS_TREE : m.others;
                G sum[TS_ADJOINT_SHARE];
                for (int k = 0; k < TS_ADJOINT_SHARE; k++) {
                    sum[k] = ts_gradient_zero<G>();
                }
                for (int64_t i = first; i < last; i++) {
                    ts_cuda_offsets offsets = ts_offsets_of(m.other, m.other_count, m.wide, i);
                    const G g = o.g[base.g + offsets.g];
                    const int64_t other_at = p.side == 0 ? offsets.b : offsets.a;
                    int64_t winner = -1;
                    value c = P::zero();
                    if (P::selective) {
                        winner = ts_get_winner(o.w, base.w + offsets.w, p.winner_bytes) - start;
                    } else {
                        c = P::load(o.c[base.c + offsets.c]);
                    }
                    for (int k = 0; k < TS_ADJOINT_SHARE; k++) {
                        if (start + k < m.sums && (!P::selective || winner == k)) {
                            value other = o.needs_other ? P::load(o.other[other_sum[k] + other_at]) : P::zero();
                            ts_gradient_add(sum[k], ts_share_of<P>(g, mine[k], other, c, p.tie_here));
                        }
                    }
                }
                for (int k = 0; k < TS_ADJOINT_SHARE; k++) {
                    block_sums[k * TS_TREE + block] = sum[k];
                }
            }
            ts_sync();
            if (thread < TS_ADJOINT_SHARE) {
                G sum = ts_gradient_zero<G>();
                for (int32_t block = 0; block < inside; block++) {
                    ts_gradient_add(sum, block_sums[thread * TS_TREE + block]);
                }
                if (inside == TS_TREE) {
                    ts_tree<G, 5>::close(tree, sum, group / TS_TREE);
                } else {
                    rest = sum;
                }
            }
        }
        if (thread < TS_ADJOINT_SHARE && start + thread < m.sums) {
            ts_adjoint_put<P>(o, base.d + ts_offsets_of(m.sum, m.sum_count, m.wide, start + thread).d,
                              ts_tree<G, 5>::total(tree, rest), accumulate);
        }
    }
}

/* A warp per row, eight rows to a block, and a run of sum positions whose sums lie in shared memory: 64 winners and
 * cotangents of each row are staged at a time, and lanes whose winners agree take turns, lowest position first. */
template <typename P> TS_DEVICE void ts_adjoint_scatter(const ts_cuda_adjoint &p)
{
    typedef typename P::gradient G;
    typedef typename P::value value;
    constexpr int32_t per_block = TS_CUDA_ADJOINT_ROWS, chunk = 64;
    const ts_adjoint_modes m = ts_adjoint_modes_of(p);
    const ts_adjoint_operands<P> o = ts_adjoint_open<P>(p);
    const bool accumulate = ts_switched_on(p.accumulate);
    const int32_t levels = ts_cuda_adjoint_levels(m.others), run = ts_cuda_adjoint_run(m.others);
    const int64_t rows = p.batch * m.rows, runs = (m.sums + run - 1) / run;
    unsigned char *shared = ts_shared();
    G *sums = reinterpret_cast<G *>(shared); /* [levels][rows of the block][run] */
    int64_t *sum_mine = reinterpret_cast<int64_t *>(shared + 16384), *sum_other = sum_mine + 256;
    int64_t *other_at = sum_other + 256; /* [chunk] */
    G *g = reinterpret_cast<G *>(other_at + chunk); /* [rows of the block][chunk], as are the places that won; -1: elsewhere */
    int32_t *won = reinterpret_cast<int32_t *>(shared + 16384 + 4096 + 512 + 4096);
    ts_cuda_offsets *bases = reinterpret_cast<ts_cuda_offsets *>(shared + 16384 + 4096 + 6656);
    const int32_t thread = ts_thread(), warp = thread / 32, lane = thread % 32, level_size = per_block * run;
    G *mine_sums = sums + warp * run;
    for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
        const int64_t group = item / runs, start = (item - group * runs) * run, first_row = group * per_block;
        const int32_t here = (int32_t)(rows - first_row < per_block ? rows - first_row : per_block);
        const int32_t places = (int32_t)(m.sums - start < run ? m.sums - start : run);
        ts_sync();
        if (thread < per_block) {
            bases[thread] = ts_adjoint_row_offsets(m, first_row + (thread < here ? thread : 0));
        }
        if (o.needs_other) {
            for (int32_t k = thread; k < places; k += TS_CUDA_THREADS) {
                const ts_cuda_offsets at = ts_offsets_of(m.sum, m.sum_count, m.wide, start + k);
                sum_mine[k] = p.side == 0 ? at.a : at.b;
                sum_other[k] = p.side == 0 ? at.b : at.a;
            }
        }
        for (int32_t k = thread; k < levels * level_size; k += TS_CUDA_THREADS) {
            sums[k] = ts_gradient_zero<G>();
        }
        ts_sync();
        /* Neighbouring threads read what lies closer: the next row's winner, or the next position's. */
        bool by_rows = false;
        if (here > 1 && m.others > 1) {
            const int64_t next_row = bases[1].w - bases[0].w, next = ts_offsets_of(m.other, m.other_count, m.wide, 1).w;
            by_rows = (next_row < 0 ? -next_row : next_row) < (next < 0 ? -next : next);
        }
        for (int64_t first = 0; first < m.others; first += chunk) {
            const int32_t count = (int32_t)(m.others - first < chunk ? m.others - first : chunk);
            for (int32_t t = thread; t < per_block * chunk; t += TS_CUDA_THREADS) {
                const int32_t row = by_rows ? t % per_block : t / chunk, at = by_rows ? t / per_block : t % chunk;
                int32_t place = -1;
                if (row < here && at < count) {
                    const ts_cuda_offsets offsets = ts_offsets_of(m.other, m.other_count, m.wide, first + at);
                    const int64_t winner = ts_get_winner(o.w, bases[row].w + offsets.w, p.winner_bytes) - start;
                    if (winner >= 0 && winner < places) {
                        place = (int32_t)winner;
                        g[row * chunk + at] = o.g[bases[row].g + offsets.g];
                    }
                    if (o.needs_other && row == 0) {
                        other_at[at] = p.side == 0 ? offsets.b : offsets.a;
                    }
                }
                won[row * chunk + at] = place;
            }
            ts_sync();
            for (int32_t half = 0; half < chunk; half += 32) {
                const int32_t at = warp * chunk + half + lane, place = won[at];
                if (ts_ballot(place >= 0) != 0) {
                    const uint32_t equal = ts_match_any((uint32_t)place);
                    const int32_t turn = place < 0 ? -1 : ts_count_lanes(equal & ((1u << lane) - 1u));
                    G share = ts_gradient_zero<G>();
                    if (place >= 0) {
                        value mine = P::zero(), other = P::zero();
                        if (o.needs_other) {
                            const ts_cuda_offsets &base = bases[warp];
                            mine = P::load(o.mine[(p.side == 0 ? base.a : base.b) + sum_mine[place]]);
                            other = P::load(o.other[(p.side == 0 ? base.b : base.a) + sum_other[place] + other_at[half + lane]]);
                        }
                        share = ts_share_of<P>(g[at], mine, other, P::zero(), p.tie_here);
                    }
                    for (int32_t now = 0; ts_ballot(turn >= now) != 0; now++) {
                        if (turn == now) {
                            ts_gradient_add(mine_sums[place], share);
                        }
                        ts_sync_warp();
                    }
                }
            }
            if (levels > 1 && (first + chunk) % TS_TREE == 0 && count == chunk) {
                const bool full = levels > 2 && (first + chunk) % ((int64_t)TS_TREE * TS_TREE) == 0;
                for (int32_t k = lane; k < places; k += 32) {
                    G *sum = mine_sums + k;
                    ts_gradient_add(sum[level_size], sum[0]);
                    sum[0] = ts_gradient_zero<G>();
                    if (full) {
                        ts_gradient_add(sum[2 * level_size], sum[level_size]);
                        sum[level_size] = ts_gradient_zero<G>();
                    }
                }
                ts_sync_warp();
            }
            ts_sync();
        }
        if (warp < here) {
            for (int32_t k = lane; k < places; k += 32) {
                G sum = mine_sums[k];
                for (int32_t level = 1; level < levels; level++) {
                    G total = mine_sums[level * level_size + k];
                    ts_gradient_add(total, sum);
                    sum = total;
                }
                ts_adjoint_put<P>(o, bases[warp].d + ts_offsets_of(m.sum, m.sum_count, m.wide, start + k).d, sum, accumulate);
            }
        }
    }
}

template <typename P> TS_DEVICE void ts_adjoint(const ts_cuda_adjoint &p)
{
    switch (ts_cuda_adjoint_way(P::selective, p.batch, p.side == 0 ? p.left : p.right, p.side == 0 ? p.right : p.left, p.sum)) {
    case TS_CUDA_ADJOINT_EACH: ts_adjoint_each<P>(p); break;
    case TS_CUDA_ADJOINT_SCATTER:
        if constexpr (P::selective) {
            ts_adjoint_scatter<P>(p);
        }
        break;
    case TS_CUDA_ADJOINT_ROW:
        if constexpr (!P::selective) {
            ts_adjoint_row<P>(p);
        }
        break;
    default: ts_adjoint_long<P>(p); break;
    }
}

/* d[kept, sum] from g[kept]: a thread per element of d. Kept modes that a lacks (broadcast) are the positions summed. */
template <typename P> TS_DEVICE void ts_reduce_adjoint(const ts_cuda_reduce_adjoint &p)
{
    typedef typename P::gradient G;
    const ts_cuda_mode *modes = ts_mode_table(p.modes);
    const int32_t count = p.kept_count + p.sum_count;
    const typename P::storage *a = reinterpret_cast<const typename P::storage *>(ts_address(p.a));
    const typename P::storage *c = reinterpret_cast<const typename P::storage *>(ts_address(p.c));
    const char *w = ts_address(p.w);
    const G *g = reinterpret_cast<const G *>(ts_address(p.g));
    G *d = reinterpret_cast<G *>(ts_address(p.d));
    const bool accumulate = ts_switched_on(p.accumulate);
    int64_t elements = 1, positions = 1;
    for (int32_t i = 0; i < count; i++) {
        if (i < p.kept_count && modes[i].d == 0) { /* a broadcast; an operand's own stride may be 0 too */
            positions *= modes[i].extent;
        } else {
            elements *= modes[i].extent;
        }
    }
    for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
        const int64_t number = item * ts_threads() + ts_thread();
        if (number < elements) {
            /* Where this element lies, and its place in the sum (row-major over the sum modes). */
            ts_cuda_offsets base = {0, 0, 0, 0, 0, 0};
            int64_t rest = number, place = 0, weight = 1;
            for (int32_t i = count - 1; i >= 0; i--) {
                if (i >= p.kept_count || modes[i].d != 0) {
                    int64_t at = rest % modes[i].extent;
                    rest /= modes[i].extent;
                    base.a += at * modes[i].a;
                    base.c += at * modes[i].c;
                    base.w += at * modes[i].w;
                    base.g += at * modes[i].g;
                    base.d += at * modes[i].d;
                    if (i >= p.kept_count) {
                        place += at * weight;
                        weight *= modes[i].extent;
                    }
                }
            }
            ts_tree<G, 6> tree;
            ts_tree<G, 6>::start(tree);
            G sum = ts_gradient_zero<G>();
            for (int64_t position = 0; position < positions; position++) {
                int64_t c_at = base.c, w_at = base.w, g_at = base.g, left = position;
                for (int32_t i = p.kept_count - 1; i >= 0; i--) {
                    if (modes[i].d == 0) {
                        int64_t at = left % modes[i].extent;
                        left /= modes[i].extent;
                        c_at += at * modes[i].c;
                        w_at += at * modes[i].w;
                        g_at += at * modes[i].g;
                    }
                }
                if constexpr (P::selective) {
                    if (p.winner_bytes == 0 || ts_get_winner(w, w_at, p.winner_bytes) == place) {
                        ts_gradient_add(sum, g[g_at]);
                    }
                } else if constexpr (P::add_op == ts_op_lse) {
                    typename P::value x = P::load(a[base.a]), total = P::load(c[c_at]);
                    G weighted = total == P::zero() ? G(0) : g[g_at] * (G)ts_exp(x - total);
                    ts_gradient_add(sum, weighted);
                } else {
                    ts_gradient_add(sum, g[g_at]);
                }
                if ((position + 1) % TS_TREE == 0) {
                    ts_tree<G, 6>::close(tree, sum, position / TS_TREE);
                    sum = ts_gradient_zero<G>();
                }
            }
            sum = ts_tree<G, 6>::total(tree, sum);
            if (accumulate) {
                G before = d[base.d];
                ts_gradient_add(before, sum);
                sum = before;
            }
            d[base.d] = sum;
        }
    }
}

#endif
