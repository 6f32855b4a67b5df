/* Subtrees of small steps, a block to each, from shared memory: see ts_cuda_tree in abi.h. */
#ifndef TS_CUDA_TREE_H
#define TS_CUDA_TREE_H

#include "pair.h"
#include "vector.h"

template <typename P> struct ts_subtree {
    typedef typename P::storage storage;
    typedef typename P::value value;

    /* The next step's tables, on their way to shared memory. */
    TS_DEVICE void fetch(const unsigned char *from, unsigned char *to, uint32_t bytes)
    {
        for (uint32_t i = (uint32_t)ts_thread() * 16; i < bytes; i += (uint32_t)ts_threads() * 16) {
            ts_copy_16(to + i, from + i);
        }
    }
    TS_DEVICE void step(const unsigned char *tables, storage *values, const ts_context &context)
    {
        const ts_cuda_tree_step &s = *reinterpret_cast<const ts_cuda_tree_step *>(tables);
        const ts_cuda_tree_result *results = reinterpret_cast<const ts_cuda_tree_result *>(tables + sizeof s);
        const ts_cuda_tree_term *terms = reinterpret_cast<const ts_cuda_tree_term *>(results + s.results);
        const bool two = s.b >= 0, stored = s.c.slot != 0 || s.c.offset != 0;
        const storage *a = values + s.a, *b = values + (two ? s.b : 0);
        const int64_t *scatter = reinterpret_cast<const int64_t *>(terms + s.terms);
        storage *c = values + s.result, *global = stored ? reinterpret_cast<storage *>(ts_address(s.c)) : nullptr;
        for (int32_t i = ts_thread(); i < s.results; i += ts_threads()) {
            const ts_cuda_tree_result place = results[i];
            storage finished;
            if (!two && s.moves) {
                finished = a[place.a + terms[0].a]; /* data movement keeps bits */
            } else {
                ts_running<P> sum;
                ts_running<P>::start(sum);
#pragma unroll 2
                for (int32_t k = 0; k < s.terms; k++) {
                    const ts_cuda_tree_term term = terms[k];
                    if (two) {
                        ts_running<P>::pair(sum, P::load(a[place.a + term.a]),
                                            ts_conjugated(P::load(b[place.b + term.b]), s.conjugate), context);
                    } else {
                        ts_running<P>::term(sum, P::load(a[place.a + term.a]), context);
                    }
                }
                finished = P::store(P::finish(ts_running<P>::result(sum, context)));
            }
            c[i] = finished;
            if (stored) {
                global[s.scattered ? scatter[i] : i] = finished;
            }
        }
    }

    TS_DEVICE void run(const ts_cuda_tree &p)
    {
        const unsigned char *table = reinterpret_cast<const unsigned char *>((uintptr_t)p.table);
        const ts_context context = ts_make_context(p.modulus);
        unsigned char *buffer[2] = {ts_shared(), ts_shared() + p.buffer};
        storage *values = reinterpret_cast<storage *>(ts_shared() + 2 * p.buffer);
        for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
            const ts_cuda_tree_item tree = reinterpret_cast<const ts_cuda_tree_item *>(table)[item];
            const ts_cuda_tree_leaf *leaves = reinterpret_cast<const ts_cuda_tree_leaf *>(table + tree.leaves);
            const uint32_t *sizes = reinterpret_cast<const uint32_t *>(table + tree.sizes);
            const unsigned char *from = table + tree.steps;
            ts_sync(); /* what was there is no longer read */
            fetch(from, buffer[0], sizes[0]);
            ts_copy_commit();
            for (int32_t i = ts_thread(); i < tree.leaf_count; i += ts_threads()) {
                const ts_cuda_tree_leaf leaf = leaves[i];
                values[i] = reinterpret_cast<const storage *>(ts_address(leaf.from))[leaf.place];
            }
#pragma unroll 1
            for (int32_t k = 0; k < tree.step_count; k++) {
                ts_copy_wait<0>();
                ts_sync();
                from += sizes[k];
                if (k + 1 < tree.step_count) {
                    fetch(from, buffer[(k + 1) & 1], sizes[k + 1]);
                }
                ts_copy_commit();
                step(buffer[k & 1], values, context);
            }
        }
    }
};

#endif
