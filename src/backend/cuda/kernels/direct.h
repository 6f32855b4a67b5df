/* Kernels without panels: a thread or a block per result, for contract, reduce, combine and decode. */
#ifndef TS_CUDA_DIRECT_H
#define TS_CUDA_DIRECT_H

#include "locate.h"
#include "pair.h"

/* ---- a thread sums the terms of one result, whose offsets the block keeps in a table ---- */

#define TS_DIRECT_TERMS 256
#define TS_DIRECT_SHARED (2 * TS_DIRECT_TERMS * 8)

/* What a thread holds of its result: a running sum, or the leader where winners are wanted. */
template <typename P, bool Winners> struct ts_holder {
    ts_running<P> sum;
    TS_DEVICE void start(ts_holder &h) { ts_running<P>::start(h.sum); }
    TS_DEVICE void term(ts_holder &h, typename P::value x, int64_t, const ts_context &context)
    {
        ts_running<P>::term(h.sum, x, context);
    }
    TS_DEVICE void pair(ts_holder &h, typename P::value x, typename P::value y, int64_t, const ts_context &context)
    {
        ts_running<P>::pair(h.sum, x, y, context);
    }
    TS_DEVICE typename P::value result(const ts_holder &h, const ts_context &context)
    {
        return ts_running<P>::result(h.sum, context);
    }
    TS_DEVICE int64_t index(const ts_holder &) { return -1; }
};
template <typename P> struct ts_holder<P, true> {
    ts_leader<P> leader;
    TS_DEVICE void start(ts_holder &h) { ts_leader<P>::start(h.leader); }
    TS_DEVICE void term(ts_holder &h, typename P::value x, int64_t index, const ts_context &)
    {
        ts_leader<P>::term(h.leader, x, index);
    }
    TS_DEVICE void pair(ts_holder &h, typename P::value x, typename P::value y, int64_t index, const ts_context &context)
    {
        ts_leader<P>::term(h.leader, P::product(x, y, context.modulus), index);
    }
    TS_DEVICE typename P::value result(const ts_holder &h, const ts_context &) { return h.leader.best; }
    TS_DEVICE int64_t index(const ts_holder &h) { return h.leader.index; }
};

template <typename P, bool Winners, bool Two>
TS_DEVICE void ts_sum_terms(ts_holder<P, Winners> &h, const typename P::storage *a, const typename P::storage *b,
                            bool here, int64_t first, int64_t last, const ts_cuda_mode *sum_modes, int32_t sum_count,
                            int32_t wide, int32_t conjugate_a, int32_t conjugate_b, const ts_context &context)
{
    int64_t *a_term = reinterpret_cast<int64_t *>(ts_shared()), *b_term = a_term + TS_DIRECT_TERMS;
    ts_holder<P, Winners>::start(h);
    for (int64_t from = first; from < last; from += TS_DIRECT_TERMS) {
        int32_t count = (int32_t)(last - from < TS_DIRECT_TERMS ? last - from : TS_DIRECT_TERMS);
        ts_sync();
        ts_fill_terms<Two>(sum_modes, sum_count, wide, from, count, a_term, b_term);
        ts_sync();
        if (here) {
#pragma unroll 4
            for (int32_t i = 0; i < count; i++) {
                typename P::value x = ts_conjugated(P::load(a[a_term[i]]), conjugate_a);
                if (Two) {
                    typename P::value y = ts_conjugated(P::load(b[b_term[i]]), conjugate_b);
                    ts_holder<P, Winners>::pair(h, x, y, from + i, context);
                } else {
                    ts_holder<P, Winners>::term(h, x, from + i, context);
                }
            }
        }
    }
}

/* 1 x 128 results: for outputs with one narrow class. */
template <typename P, bool Winners> TS_DEVICE void ts_contract_skinny(const ts_cuda_contract &p)
{
    typedef typename P::storage storage;
    const ts_cuda_mode *modes = ts_mode_table(p.modes);
    const ts_cuda_mode *left_modes = modes + p.batch_count, *right_modes = left_modes + p.left_count;
    const ts_context context = ts_make_context(p.modulus);
    const storage *a = reinterpret_cast<const storage *>(ts_address(p.a));
    const storage *b = reinterpret_cast<const storage *>(ts_address(p.b));
    const bool accumulate = ts_switched_on(p.accumulate);
    for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
        const ts_contract_item place = ts_contract_item_of(p, item);
        const int64_t right = place.right_tile * ts_threads() + ts_thread();
        const bool here = right < p.right;
        const ts_cuda_offsets base = ts_offsets_of(modes, p.batch_count, p.modes.wide, place.batch);
        const ts_cuda_offsets row = ts_offsets_of(left_modes, p.left_count, p.modes.wide, place.left_tile);
        const ts_cuda_offsets column = ts_offsets_of(right_modes, p.right_count, p.modes.wide, here ? right : 0);
        ts_holder<P, Winners> h;
        ts_sum_terms<P, Winners, true>(h, a + (base.a + row.a), b + (base.b + column.b), here, place.first, place.last,
                                       right_modes + p.right_count, p.sum_count, p.modes.wide, p.conjugate_a,
                                       p.conjugate_b, context);
        if (here) {
            typename P::value result = ts_holder<P, Winners>::result(h, context);
            int64_t index = ts_holder<P, Winners>::index(h);
            if (p.splits > 1) {
                int64_t at = place.split * (p.batch * p.left * p.right) +
                             (place.batch * p.left + place.left_tile) * p.right + right;
                reinterpret_cast<typename P::value *>((uintptr_t)p.partial)[at] = result;
                if (Winners) {
                    reinterpret_cast<int64_t *>((uintptr_t)p.partial_w)[at] = index;
                }
            } else {
                ts_put<P>(reinterpret_cast<storage *>(ts_address(p.c)) + (base.c + row.c + column.c), result, accumulate,
                          context);
                if (Winners) {
                    ts_put_winner(ts_address(p.w), base.w + row.w + column.w,
                                  ts_settled_winner<P>(P::finish(result), index), p.winner_bytes);
                }
            }
        }
    }
}

/* reduce: a thread per result. Bound by loads, so selective pairs follow the winner whether it is wanted or not. */
template <typename P> TS_DEVICE void ts_reduce_each(const ts_cuda_reduce &p)
{
    const bool Winners = P::selective;
    typedef typename P::storage storage;
    const ts_cuda_mode *modes = ts_mode_table(p.modes);
    const ts_context context = ts_make_context(p.modulus);
    const storage *a = reinterpret_cast<const storage *>(ts_address(p.a));
    const bool accumulate = ts_switched_on(p.accumulate);
    for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
        const int64_t number = item * ts_threads() + ts_thread();
        const bool here = number < p.kept;
        const ts_cuda_offsets base = ts_offsets_of(modes, p.kept_count, p.modes.wide, here ? number : 0);
        ts_holder<P, Winners> h;
        ts_sum_terms<P, Winners, false>(h, a + base.a, nullptr, here, 0, p.sum, modes + p.kept_count, p.sum_count,
                                        p.modes.wide, 0, 0, context);
        if (here) {
            typename P::value result = ts_holder<P, Winners>::result(h, context);
            storage *c = reinterpret_cast<storage *>(ts_address(p.c)) + base.c;
            if (p.sum_count == 0 && p.sum == 1 && !accumulate) {
                *c = a[base.a]; /* data movement keeps bits, also where winners are wanted */
            } else {
                ts_put<P>(c, result, accumulate, context);
            }
            if (Winners && p.winner_bytes != 0) {
                ts_put_winner(ts_address(p.w), base.w,
                              ts_settled_winner<P>(P::finish(result), ts_holder<P, Winners>::index(h)), p.winner_bytes);
            }
        }
    }
}

/* ---- a block sums the terms of one result ---- */

#define TS_ROW_SHARED (TS_CUDA_THREADS * (16 + 8))

/* The threads' results become thread 0's. Any order would do for selective pairs; for sums it is a fixed one. */
template <typename P, bool Winners>
TS_DEVICE void ts_merge_block(typename P::value &result, int64_t &index, const ts_context &context)
{
    typedef typename P::value value;
    value *values = reinterpret_cast<value *>(ts_shared());
    int64_t *indices = reinterpret_cast<int64_t *>(ts_shared() + TS_CUDA_THREADS * 16);
    const int32_t thread = ts_thread();
    values[thread] = result;
    indices[thread] = index;
    ts_sync();
    for (int32_t half = ts_threads() / 2; half > 0; half /= 2) {
        if (thread < half) {
            if constexpr (Winners) {
                ts_leader<P> leader;
                leader.best = values[thread];
                leader.index = indices[thread];
                ts_leader<P>::merge(leader, values[thread + half], indices[thread + half]);
                values[thread] = leader.best;
                indices[thread] = leader.index;
            } else {
                values[thread] = P::add(values[thread], values[thread + half], context.modulus);
            }
        }
        ts_sync();
    }
    result = values[0];
    index = indices[0];
    ts_sync();
}

/* Terms first, first + threads, ... of one result, by each thread. */
template <typename P, bool Winners, bool Two>
TS_DEVICE void ts_sum_row(ts_holder<P, Winners> &h, const typename P::storage *a, const typename P::storage *b,
                          int64_t first, int64_t last, const ts_cuda_mode *sum_modes, int32_t sum_count, int32_t wide,
                          int32_t conjugate_a, int32_t conjugate_b, const ts_context &context)
{
    ts_holder<P, Winners>::start(h);
#pragma unroll 4
    for (int64_t term = first + ts_thread(); term < last; term += ts_threads()) {
        ts_cuda_offsets offsets = ts_offsets_of(sum_modes, sum_count, wide, term);
        typename P::value x = ts_conjugated(P::load(a[offsets.a]), conjugate_a);
        if (Two) {
            typename P::value y = ts_conjugated(P::load(b[offsets.b]), conjugate_b);
            ts_holder<P, Winners>::pair(h, x, y, term, context);
        } else {
            ts_holder<P, Winners>::term(h, x, term, context);
        }
    }
}

template <typename P, bool Winners> TS_DEVICE void ts_contract_row(const ts_cuda_contract &p)
{
    typedef typename P::storage storage;
    const ts_cuda_mode *modes = ts_mode_table(p.modes);
    const ts_cuda_mode *left_modes = modes + p.batch_count, *right_modes = left_modes + p.left_count;
    const ts_context context = ts_make_context(p.modulus);
    const storage *a = reinterpret_cast<const storage *>(ts_address(p.a));
    const storage *b = reinterpret_cast<const storage *>(ts_address(p.b));
    const bool accumulate = ts_switched_on(p.accumulate);
    for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
        const ts_contract_item place = ts_contract_item_of(p, item);
        const ts_cuda_offsets base = ts_offsets_of(modes, p.batch_count, p.modes.wide, place.batch);
        const ts_cuda_offsets row = ts_offsets_of(left_modes, p.left_count, p.modes.wide, place.left_tile);
        const ts_cuda_offsets column = ts_offsets_of(right_modes, p.right_count, p.modes.wide, place.right_tile);
        ts_holder<P, Winners> h;
        ts_sum_row<P, Winners, true>(h, a + (base.a + row.a), b + (base.b + column.b), place.first, place.last,
                                     right_modes + p.right_count, p.sum_count, p.modes.wide, p.conjugate_a,
                                     p.conjugate_b, context);
        typename P::value result = ts_holder<P, Winners>::result(h, context);
        int64_t index = ts_holder<P, Winners>::index(h);
        ts_merge_block<P, Winners>(result, index, context);
        if (ts_thread() == 0) {
            if (p.splits > 1) {
                int64_t at = place.split * (p.batch * p.left * p.right) +
                             (place.batch * p.left + place.left_tile) * p.right + place.right_tile;
                reinterpret_cast<typename P::value *>((uintptr_t)p.partial)[at] = result;
                if (Winners) {
                    reinterpret_cast<int64_t *>((uintptr_t)p.partial_w)[at] = index;
                }
            } else {
                ts_put<P>(reinterpret_cast<storage *>(ts_address(p.c)) + (base.c + row.c + column.c), result, accumulate,
                          context);
                if (Winners) {
                    ts_put_winner(ts_address(p.w), base.w + row.w + column.w,
                                  ts_settled_winner<P>(P::finish(result), index), p.winner_bytes);
                }
            }
        }
    }
}

/* ---- after a split ---- */
template <typename P, bool Winners> TS_DEVICE void ts_combine(const ts_cuda_combine &p)
{
    typedef typename P::value value;
    const ts_cuda_mode *modes = ts_mode_table(p.modes);
    const ts_context context = ts_make_context(p.modulus);
    const value *partial = reinterpret_cast<const value *>((uintptr_t)p.partial);
    const int64_t *partial_w = reinterpret_cast<const int64_t *>((uintptr_t)p.partial_w);
    const bool accumulate = ts_switched_on(p.accumulate);
    const int64_t first = p.tall ? ts_thread() : 0, step = p.tall ? ts_threads() : 1; /* of the splits, by this thread */
    for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
        const int64_t number = p.tall ? item : item * ts_threads() + ts_thread();
        value result = P::zero();
        int64_t index = -1;
        if (number < p.results) {
            if (Winners && p.winner_bytes != 0) {
                ts_leader<P> leader;
                ts_leader<P>::start(leader);
#pragma unroll 4
                for (int64_t split = first; split < p.splits; split += step) {
                    int64_t at = split * p.results + number;
                    ts_leader<P>::merge(leader, partial[at], partial_w[at]);
                }
                result = leader.best;
                index = leader.index;
            } else {
#pragma unroll 4
                for (int64_t split = first; split < p.splits; split += step) {
                    result = P::add(result, partial[split * p.results + number], context.modulus);
                }
            }
        }
        if (p.tall && Winners && p.winner_bytes != 0) {
            ts_merge_block<P, Winners>(result, index, context);
        } else if (p.tall) { /* what has no index is nothing to the winners' merge */
            ts_merge_block<P, false>(result, index, context);
        }
        if (number < p.results && (!p.tall || ts_thread() == 0)) {
            const ts_cuda_offsets base = ts_offsets_of(modes, p.modes.count, p.modes.wide, number);
            ts_put<P>(reinterpret_cast<typename P::storage *>(ts_address(p.c)) + base.c, result, accumulate, context);
            if (Winners && p.winner_bytes != 0) {
                ts_put_winner(ts_address(p.w), base.w, ts_settled_winner<P>(P::finish(result), index), p.winner_bytes);
            }
        }
    }
}

/* ---- domain ---- */
template <typename P> TS_DEVICE bool ts_in_domain(typename P::value x, int64_t modulus)
{
    if constexpr (P::add_op == ts_op_modsum) {
        return x >= 0 && x < modulus;
    } else if constexpr (P::mul_op == ts_op_ntimes) {
        return !(x < 0);
    } else if constexpr (P::mul_op == ts_op_plus && P::kind >= ts_kind_i16 && P::kind <= ts_kind_i64) {
        typename P::value zero = P::zero(), range = (P::add_op == ts_op_max ? -zero : zero) / 3 - 1;
        return x == zero || (x >= -range && x <= range);
    } else {
        return true;
    }
}
template <typename P> TS_DEVICE void ts_check(const ts_cuda_check &p)
{
    typedef typename P::storage storage;
    const ts_cuda_check_item *items = reinterpret_cast<const ts_cuda_check_item *>((uintptr_t)p.items);
    const ts_cuda_mode *modes = reinterpret_cast<const ts_cuda_mode *>((uintptr_t)p.modes);
    for (int64_t tile = ts_block(); tile < p.tile_count; tile += ts_blocks()) {
        int32_t low = 0, high = p.item_count; /* the last item whose first tile is not beyond this one */
        while (high - low > 1) {
            int32_t middle = low + (high - low) / 2;
            if (items[middle].first_tile <= tile) {
                low = middle;
            } else {
                high = middle;
            }
        }
        const ts_cuda_check_item &item = items[low];
        const int64_t index = (tile - item.first_tile) * ts_threads() + ts_thread();
        if (index < item.elements) {
            int64_t offset = ts_offsets_of(modes + item.first_mode, item.mode_count, item.wide, index).a;
            if (!ts_in_domain<P>(P::load(reinterpret_cast<const storage *>(ts_address(item.a))[offset]), p.modulus)) {
                const int64_t most = ((int64_t)1 << 40) - 1;
                uint64_t key = (uint64_t)item.operand << 40 | (uint64_t)(index < most ? index : most);
                ts_atomic_min(&reinterpret_cast<ts_cuda_verdict *>((uintptr_t)p.verdict)->key, key);
            }
        }
    }
}

#endif
