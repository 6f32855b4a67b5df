/* Few results of two huge operands, each read once: see ts_cuda_fold in abi.h. */
#ifndef TS_CUDA_FOLD_H
#define TS_CUDA_FOLD_H

#include "locate.h"
#include "pair.h"
#include "vector.h"

template <typename P> struct ts_fold {
    typedef typename P::storage storage;
    typedef typename P::value value;
    static const int TERMS = TS_CUDA_FOLD_TERMS, THREADS = TS_CUDA_FOLD_THREADS, SHARE = TS_CUDA_FOLD_SHARE;
    static const int PITCH = TERMS + 16 / (int)sizeof(storage);
    static const int V = sizeof(storage) >= 16 ? 1 : sizeof(storage) >= 8 ? 2 : 4;

    TS_DEVICE void copy_one(storage *to, const storage *from)
    {
        if constexpr (sizeof(storage) == 4) {
            ts_copy_4(to, from);
        } else if constexpr (sizeof(storage) == 8) {
            ts_copy_8(to, from);
        } else {
            *to = *from;
        }
    }
    /* Where the terms of a tile are; by the first TERMS threads. */
    TS_DEVICE void place_terms(const ts_cuda_fold &p, const ts_cuda_mode *sum_modes, int64_t tile, int64_t *terms)
    {
        if (ts_thread() < TERMS && tile < p.tile_count) {
            const int64_t term = tile * TERMS + ts_thread();
            const ts_cuda_offsets at = ts_offsets_of(sum_modes, p.sum_count, p.modes.wide, term < p.sum ? term : 0);
            terms[ts_thread()] = at.a;
            terms[TERMS + ts_thread()] = at.b;
        }
    }
    TS_DEVICE void load(const storage *a, const storage *b, const int64_t *rows, int32_t rows_a, int32_t rows_b,
                        const int64_t *terms, int32_t count, storage *to)
    {
        const int32_t term = ts_thread() % TERMS;
#pragma unroll 4
        for (int32_t row = ts_thread() / TERMS; row < rows_a + rows_b; row += THREADS / TERMS) {
            const bool left = row < rows_a;
            if (term < count) {
                copy_one(to + row * PITCH + term, (left ? a : b) + (rows[row] + terms[left ? term : TERMS + term]));
            }
        }
        ts_copy_commit();
    }

    TS_DEVICE void run(const ts_cuda_fold &p)
    {
        const ts_cuda_mode *modes = ts_mode_table(p.modes);
        const ts_cuda_mode *left_modes = modes + p.batch_count, *right_modes = left_modes + p.left_count;
        const ts_cuda_mode *sum_modes = right_modes + p.right_count;
        const ts_context context = ts_make_context(p.modulus);
        const storage *a = reinterpret_cast<const storage *>(ts_address(p.a));
        const storage *b = reinterpret_cast<const storage *>(ts_address(p.b));
        const int32_t rows_a = p.batch * p.left, rows_b = p.batch * p.right, rows_all = rows_a + rows_b;
        const int32_t results = p.batch * p.left * p.right, thread = ts_thread();
        int64_t *rows = reinterpret_cast<int64_t *>(ts_shared());
        int64_t *terms = rows + (rows_all + 1) / 2 * 2; /* of two tiles */
        storage *tile = reinterpret_cast<storage *>(terms + 4 * TERMS);
        value *sums = reinterpret_cast<value *>(tile + 2 * rows_all * PITCH);
        /* Where there are fewer results than threads, threads share the terms of a result. */
        const int32_t parts = results >= THREADS ? 1 : THREADS / results, part = results >= THREADS ? 0 : thread / results;
        int32_t row_a[SHARE], row_b[SHARE];
        ts_running<P> sum[SHARE];

        for (int32_t i = thread; i < rows_all; i += THREADS) {
            const bool left = i < rows_a;
            const int32_t row = left ? i : i - rows_a, own = left ? p.left : p.right;
            const ts_cuda_offsets outer = ts_offsets_of(modes, p.batch_count, p.modes.wide, row / own);
            const ts_cuda_offsets inner = ts_offsets_of(left ? left_modes : right_modes, left ? p.left_count : p.right_count,
                                                        p.modes.wide, row % own);
            rows[i] = left ? outer.a + inner.a : outer.b + inner.b;
        }
#pragma unroll
        for (int u = 0; u < SHARE; u++) {
            const int32_t result = (parts > 1 ? thread % results : thread) + u * THREADS;
            const int32_t batch = result / (p.left * p.right), rest = result - batch * (p.left * p.right);
            row_a[u] = result < results ? (batch * p.left + rest / p.right) * PITCH : 0;
            row_b[u] = result < results ? (rows_a + batch * p.right + rest % p.right) * PITCH : 0;
            ts_running<P>::start(sum[u]);
        }
        place_terms(p, sum_modes, ts_block(), terms);
        ts_sync();
        if (ts_block() < p.tile_count) {
            load(a, b, rows, rows_a, rows_b, terms, count_of(p, ts_block()), tile);
        }
        int32_t side = 0;
        for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
            place_terms(p, sum_modes, item + ts_blocks(), terms + (side ^ 1) * 2 * TERMS);
            ts_copy_wait<0>();
            ts_sync();
            if (item + ts_blocks() < p.tile_count) {
                load(a, b, rows, rows_a, rows_b, terms + (side ^ 1) * 2 * TERMS, count_of(p, item + ts_blocks()),
                     tile + (side ^ 1) * rows_all * PITCH);
            }
            const storage *here = tile + side * rows_all * PITCH;
            const int32_t count = count_of(p, item), whole = count / V * V;
            if (part < parts) {
#pragma unroll 1
                for (int32_t term = part * V; term < whole; term += parts * V) {
#pragma unroll
                    for (int u = 0; u < SHARE; u++) {
                        if (u == 0 || u * THREADS < results) {
                            storage x[V], y[V];
                            ts_read_vector<storage, V>(here + row_a[u] + term, x);
                            ts_read_vector<storage, V>(here + row_b[u] + term, y);
#pragma unroll
                            for (int v = 0; v < V; v++) {
                                ts_running<P>::pair(sum[u], ts_conjugated(P::load(x[v]), p.conjugate_a),
                                                    ts_conjugated(P::load(y[v]), p.conjugate_b), context);
                            }
                        }
                    }
                }
                for (int32_t term = whole; term < count && part == 0; term++) {
#pragma unroll
                    for (int u = 0; u < SHARE; u++) {
                        if (u == 0 || u * THREADS < results) {
                            ts_running<P>::pair(sum[u], ts_conjugated(P::load(here[row_a[u] + term]), p.conjugate_a),
                                                ts_conjugated(P::load(here[row_b[u] + term]), p.conjugate_b), context);
                        }
                    }
                }
            }
            side ^= 1;
            ts_sync(); /* what has been read may be loaded over */
        }
        value *partial = reinterpret_cast<value *>((uintptr_t)p.partial) + ts_block() * results;
        if (parts == 1) {
#pragma unroll
            for (int u = 0; u < SHARE; u++) {
                if (thread + u * THREADS < results) {
                    partial[thread + u * THREADS] = ts_running<P>::result(sum[u], context);
                }
            }
        } else {
            sums[thread] = ts_running<P>::result(sum[0], context);
            ts_sync();
            if (thread < results) {
                value all = sums[thread];
                for (int32_t i = 1; i < parts; i++) {
                    all = P::add(all, sums[thread + i * results], context.modulus);
                }
                partial[thread] = all;
            }
        }
    }
    TS_DEVICE int32_t count_of(const ts_cuda_fold &p, int64_t item)
    {
        const int64_t left = p.sum - item * TERMS;
        return left < TERMS ? (int32_t)left : TERMS;
    }
};

#endif
