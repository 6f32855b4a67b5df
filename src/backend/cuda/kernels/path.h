/* Decoding: see ts_cuda_path in abi.h. */
#ifndef TS_CUDA_PATH_H
#define TS_CUDA_PATH_H

#include "direct.h"

template <typename P> struct ts_path {
    typedef typename P::storage storage;
    typedef typename P::value value;

    /* Where the assignment is in both operands; found by all warps alike. */
    TS_DEVICE void base_of(const ts_cuda_decode_label *labels, int32_t count, const int64_t *assignment, int64_t *a, int64_t *b)
    {
        int64_t at_a = 0, at_b = 0;
        for (int32_t i = ts_thread() % 32; i < count; i += 32) {
            const int64_t position = assignment[labels[i].label];
            at_a += position * labels[i].a;
            at_b += position * labels[i].b;
        }
#pragma unroll
        for (int32_t mask = 16; mask > 0; mask /= 2) {
            at_a += ts_shuffle_xor(at_a, mask);
            at_b += ts_shuffle_xor(at_b, mask);
        }
        *a = at_a;
        *b = at_b;
    }
    TS_DEVICE void add_place(const ts_cuda_decode_label *labels, int32_t count, int32_t wide, int64_t rest, int64_t *a, int64_t *b)
    {
        for (int32_t i = count - 1; i >= 0; i--) {
            const int64_t next = wide ? ts_cuda_divide_wide(rest, labels[i].extent)
                                      : (int64_t)(((uint64_t)(uint32_t)rest * labels[i].magic) >> labels[i].shift);
            const int64_t place = rest - next * labels[i].extent;
            *a += place * labels[i].a;
            *b += place * labels[i].b;
            rest = next;
        }
    }

    /* A row by `threads` threads, a warp or the block, of which this is number `thread`. */
    TS_DEVICE void row(const ts_cuda_path_item &p, const ts_cuda_decode_label *labels, const storage *values, int32_t thread,
                       int32_t threads, int64_t *assignment)
    {
        const ts_cuda_decode_label *sum_labels = labels + p.kept_count;
        const storage *a = p.before >= 0 ? values + p.before : reinterpret_cast<const storage *>(ts_address(p.a));
        const storage *b = p.two ? reinterpret_cast<const storage *>(ts_address(p.b)) : nullptr;
        int64_t base_a, base_b;
        ts_leader<P> leader;
        base_of(labels, p.kept_count, assignment, &base_a, &base_b);
        ts_leader<P>::start(leader);
        for (int64_t term = thread; term < p.sum; term += threads) {
            int64_t at_a = base_a, at_b = base_b;
            add_place(sum_labels, p.sum_count, p.wide, term, &at_a, &at_b);
            value x = P::load(a[at_a]);
            ts_leader<P>::term(leader, p.two ? P::product(x, P::load(b[at_b]), 0) : x, term);
        }
        value best = leader.best;
        int64_t index = leader.index;
        if (threads > 32) {
            ts_merge_block<P, true>(best, index, ts_make_context(0));
        } else {
            merge_warp(best, index);
        }
        index = ts_settled_winner<P>(P::finish(best), index);
        if (thread == 0 && index >= 0) {
            for (int32_t i = p.sum_count - 1; i >= 0; i--) {
                assignment[sum_labels[i].label] = index % sum_labels[i].extent;
                index /= sum_labels[i].extent;
            }
        }
    }
    TS_DEVICE void merge_warp(value &best, int64_t &index)
    {
        value *values = reinterpret_cast<value *>(ts_shared());
        int64_t *indices = reinterpret_cast<int64_t *>(ts_shared() + TS_CUDA_THREADS * 16);
        const int32_t thread = ts_thread(), lane = thread % 32;
        values[thread] = best;
        indices[thread] = index;
        ts_sync_warp();
        for (int32_t half = 16; half > 0; half /= 2) {
            if (lane < half) {
                ts_leader<P> leader;
                leader.best = values[thread];
                leader.index = indices[thread];
                ts_leader<P>::merge(leader, values[thread + half], indices[thread + half]);
                values[thread] = leader.best;
                indices[thread] = leader.index;
            }
            ts_sync_warp();
        }
        best = values[thread - lane];
        index = indices[thread - lane];
        ts_sync_warp();
    }

    /* Results of a chain's step that nobody has kept, those that the path may go through, by the whole block. */
    TS_DEVICE void results(const ts_cuda_path_item &p, const ts_cuda_decode_label *labels, storage *values, const int64_t *assignment)
    {
        const ts_cuda_decode_label *free_labels = labels + p.kept_count, *sum_labels = free_labels + p.free_count;
        const ts_context context = ts_make_context(0);
        const storage *a = p.before >= 0 ? values + p.before : reinterpret_cast<const storage *>(ts_address(p.a));
        const storage *b = reinterpret_cast<const storage *>(ts_address(p.b));
        int64_t *terms = reinterpret_cast<int64_t *>(ts_shared() + TS_CUDA_REDUCE_SHARED), base_a, base_b;
        base_of(labels, p.kept_count, assignment, &base_a, &base_b);
        for (int32_t term = ts_thread(); term < p.sum; term += ts_threads()) {
            int64_t at_a = 0, at_b = 0;
            add_place(sum_labels, p.sum_count, 0, term, &at_a, &at_b);
            terms[2 * term] = at_a;
            terms[2 * term + 1] = at_b;
        }
        ts_sync();
        for (int32_t result = ts_thread(); result < p.results; result += ts_threads()) {
            int64_t at_a = base_a, at_b = base_b;
            ts_running<P> sum;
            add_place(free_labels, p.free_count, 0, result, &at_a, &at_b);
            ts_running<P>::start(sum);
#pragma unroll 4
            for (int32_t term = 0; term < p.sum; term++) {
                ts_running<P>::pair(sum, P::load(a[at_a + terms[2 * term]]), P::load(b[at_b + terms[2 * term + 1]]), context);
            }
            values[p.place + result] = P::store(P::finish(ts_running<P>::result(sum, context)));
        }
    }

    TS_DEVICE void run(const ts_cuda_path &p)
    {
        const int32_t *levels = reinterpret_cast<const int32_t *>((uintptr_t)p.levels);
        const ts_cuda_path_item *items = reinterpret_cast<const ts_cuda_path_item *>((uintptr_t)p.items);
        const ts_cuda_decode_label *labels = reinterpret_cast<const ts_cuda_decode_label *>((uintptr_t)p.labels);
        storage *values = reinterpret_cast<storage *>(ts_shared() + TS_CUDA_REDUCE_SHARED + TS_CUDA_PATH_TERMS * 16);
        for (int64_t position = ts_block(); position < p.tile_count; position += ts_blocks()) {
            int64_t *assignment = reinterpret_cast<int64_t *>((uintptr_t)p.assignments) + position * p.assignment_count;
            for (int32_t level = 0; level < p.level_count; level++) {
                const int32_t first = levels[level], past = levels[level + 1];
                for (int32_t i = first; i < past; i++) { /* what takes the whole block */
                    if (items[i].kind == TS_CUDA_PATH_RESULTS) {
                        results(items[i], labels + items[i].first_label, values, assignment);
                    } else if (items[i].kind == TS_CUDA_PATH_LONG_ROW) {
                        row(items[i], labels + items[i].first_label, values, ts_thread(), ts_threads(), assignment);
                    }
                    if (items[i].kind != TS_CUDA_PATH_ROW) {
                        ts_sync();
                    }
                }
                for (int32_t i = first + ts_thread() / 32; i < past; i += ts_threads() / 32) {
                    if (items[i].kind == TS_CUDA_PATH_ROW) {
                        row(items[i], labels + items[i].first_label, values, ts_thread() % 32, 32, assignment);
                    }
                }
                ts_sync();
            }
        }
    }
};

#endif
