/* Cutting a step into tiles for the stream kernel. For the host. */
#ifndef TS_CUDA_STREAM_PLAN_H
#define TS_CUDA_STREAM_PLAN_H

#include <stdbool.h>
#include <string.h>

#include "abi.h"

#define TS_CUDA_STREAM_MODES 64

static inline int64_t ts_cuda_stream_step(int64_t stride) { return stride < 0 ? -stride : stride; }

/* Modes: a the huge operand, b the tiny one (two: there is one), c the result; kept, then sum. `bytes` of an element.
 * Fills in everything but pointers, accumulate, modulus and conjugates. False: not for this kernel. */
static inline bool ts_cuda_stream_plan(const ts_cuda_mode *modes, int32_t kept_count, int32_t sum_count, bool two,
                                       uint32_t bytes, ts_cuda_stream *p)
{
    const int64_t most = bytes <= 8 || TS_CUDA_STREAM_SHARE <= 4 ? TS_CUDA_STREAM_THREADS * TS_CUDA_STREAM_SHARE : 1024; /* elements or results of a tile */
    const int64_t run = bytes >= 8 ? 16 : bytes == 4 ? 32 : 64;        /* elements that should be read or written in a row */
    int64_t tile[TS_CUDA_STREAM_MODES], q[TS_CUDA_STREAM_MODES], elements = 1, results = 1, terms = 1, tiles = 1, step;
    int32_t order[TS_CUDA_STREAM_MODES], count = kept_count + sum_count, partial[2] = {-1, -1}, rows = 1, row_of_mode;
    int64_t span_a = 0, span_c = 0;

    if (count > TS_CUDA_STREAM_MODES || sum_count > TS_CUDA_STREAM_SUM) {
        return false;
    }
    memset(p, 0, sizeof *p);
    for (int32_t i = 0; i < count; i++) {
        if (modes[i].extent <= 0) {
            return false;
        }
        tile[i] = 1;
        if (i >= kept_count) { /* the sum is in the tile, whole */
            if (modes[i].extent > 64 || (terms *= modes[i].extent) > 64) {
                return false;
            }
            tile[i] = modes[i].extent;
            elements *= modes[i].extent;
        } else if (modes[i].a == 0 && modes[i].extent * results <= 64) { /* only in b or nowhere: as far as it is small */
            tile[i] = modes[i].extent;
            results *= modes[i].extent;
        }
    }
    /* Grow the tile along a, then along c, until both have rows of `run`; then along a again, to a decent size. */
    for (int32_t pass = 0; pass < 3; pass++) {
        const bool along_c = pass == 1;
        const int64_t target = pass == 2 ? most : run;
        int64_t length = 1;
        int32_t ordered = 0;
        for (int32_t i = 0; i < count; i++) {
            const int64_t key = ts_cuda_stream_step(along_c ? modes[i].c : modes[i].a);
            int32_t at = ordered;
            if (key == 0 || modes[i].extent == 1) {
                continue;
            }
            while (at > 0 && ts_cuda_stream_step(along_c ? modes[order[at - 1]].c : modes[order[at - 1]].a) > key) {
                order[at] = order[at - 1];
                at--;
            }
            order[at] = i;
            ordered++;
        }
        for (int32_t k = 0; k < ordered && (pass == 2 ? elements : length) < target; k++) {
            const int32_t i = order[k];
            const int64_t most_more = most / (elements > results ? elements : results); /* factor left */
            int64_t wanted = pass == 2 ? (target + elements - 1) / elements * tile[i] : (target + length - 1) / length, next;
            if (i < kept_count && modes[i].a != 0) {
                next = wanted < modes[i].extent ? wanted : modes[i].extent;
                if (next > tile[i] * most_more) {
                    next = tile[i] * most_more;
                }
                if (next > tile[i]) {
                    const bool cut = next < modes[i].extent;
                    if (cut && partial[0] != i && partial[1] != i) {
                        if (partial[0] >= 0 && partial[1] >= 0) {
                            break;
                        }
                        partial[partial[0] < 0 ? 0 : 1] = i;
                    }
                    if (next > 32767) {
                        break;
                    }
                    elements = elements / tile[i] * next;
                    results = results / tile[i] * next;
                    tile[i] = next;
                }
            }
            length *= tile[i];
            if (tile[i] < modes[i].extent) {
                break;
            }
        }
    }
    if (elements > most || results > most) {
        return false;
    }
    /* Load order. */
    step = 1;
    for (int32_t left = count; left > 0; left--) {
        int32_t least = -1;
        for (int32_t i = 0; i < count; i++) {
            if (tile[i] > 1 && (modes[i].a != 0 || i >= kept_count)) {
                bool taken = false;
                for (int32_t k = 0; k < p->load_count; k++) {
                    taken = taken || order[k] == i;
                }
                if (!taken && (least < 0 || ts_cuda_stream_step(modes[i].a) < ts_cuda_stream_step(modes[least].a))) {
                    least = i;
                }
            }
        }
        if (least < 0) {
            break;
        }
        if (p->load_count == TS_CUDA_STREAM_LOAD) {
            return false;
        }
        order[p->load_count] = least;
        q[least] = step;
        step *= tile[least];
        if (step >= 32 && q[least] < 32) { /* from one bank to the next */
            step++;
        }
        p->load[p->load_count].extent = (int32_t)tile[least];
        p->load[p->load_count].a = modes[least].a;
        p->load[p->load_count].partial = least == partial[0] ? 1 : least == partial[1] ? 2 : 0;
        p->load[p->load_count].q = (int32_t)q[least];
        p->load_count++;
    }
    for (int32_t i = 0; i < count; i++) {
        if (tile[i] == 1 || (modes[i].a == 0 && i < kept_count)) {
            q[i] = 0;
        }
    }
    p->slots = (int32_t)step;
    p->elements = (int32_t)elements;
    p->results = (int32_t)results;
    /* Store order. */
    for (int32_t left = kept_count; left > 0; left--) {
        int32_t least = -1;
        for (int32_t i = 0; i < kept_count; i++) {
            bool taken = tile[i] == 1;
            for (int32_t k = 0; k < p->store_count; k++) {
                taken = taken || order[k] == i;
            }
            if (!taken && (least < 0 || ts_cuda_stream_step(modes[i].c) < ts_cuda_stream_step(modes[least].c))) {
                least = i;
            }
        }
        if (least < 0) {
            break;
        }
        if (p->store_count == TS_CUDA_STREAM_STORE) {
            return false;
        }
        order[p->store_count] = least;
        row_of_mode = 0;
        if (two && modes[least].b != 0) {
            row_of_mode = rows;
            rows *= (int32_t)tile[least];
        }
        p->store[p->store_count].extent = (int32_t)tile[least];
        p->store[p->store_count].partial = least == partial[0] ? 1 : least == partial[1] ? 2 : 0;
        p->store[p->store_count].q = (int32_t)q[least];
        p->store[p->store_count].row = row_of_mode;
        p->store[p->store_count].b = modes[least].b;
        p->store[p->store_count].c = modes[least].c;
        p->store_count++;
    }
    for (int32_t i = 0; i < count; i++) { /* places in a tile are 32-bit numbers of elements */
        span_a += (tile[i] - 1) * ts_cuda_stream_step(modes[i].a);
        span_c += i < kept_count ? (tile[i] - 1) * ts_cuda_stream_step(modes[i].c) : 0;
        if (span_a >= (int64_t)1 << 31 || span_c >= (int64_t)1 << 31) {
            return false;
        }
    }
    p->terms = (int32_t)terms;
    p->rows = two ? rows : 0;
    if ((int64_t)p->rows * terms > 1024 || (two && partial[0] >= 0 && modes[partial[0]].b != 0) ||
        (two && partial[1] >= 0 && modes[partial[1]].b != 0)) {
        return false;
    }
    for (int32_t i = kept_count; i < count; i++) {
        p->sum[p->sum_count].extent = (int32_t)modes[i].extent;
        p->sum[p->sum_count].q = (int32_t)q[i];
        p->sum[p->sum_count].b = modes[i].b;
        p->sum_count++;
    }
    for (int32_t i = 0; i < kept_count; i++) {
        ts_cuda_stream_outer *outer = &p->outer[p->outer_count];
        const int64_t pieces = (modes[i].extent + tile[i] - 1) / tile[i];
        if (pieces == 1) {
            continue;
        }
        if (p->outer_count == TS_CUDA_STREAM_OUTER) {
            return false;
        }
        outer->extent = pieces;
        outer->a = modes[i].a * tile[i];
        outer->b = modes[i].b * tile[i];
        outer->c = modes[i].c * tile[i];
        ts_cuda_magic(pieces, &outer->magic, &outer->shift);
        outer->partial = i == partial[0] ? 1 : i == partial[1] ? 2 : 0;
        if (outer->partial != 0) {
            p->partial_extent[outer->partial - 1] = modes[i].extent;
            p->partial_tile[outer->partial - 1] = (int32_t)tile[i];
        }
        if (two && modes[i].b != 0) {
            p->b_moves = 1;
        }
        tiles *= pieces;
        p->outer_count++;
    }
    /* A mode that a pass cut and a later one took whole is no longer partial. */
    for (int32_t k = 0; k < 2; k++) {
        if (partial[k] >= 0 && tile[partial[k]] == modes[partial[k]].extent) {
            p->partial_extent[k] = p->partial_tile[k] = (int32_t)tile[partial[k]];
        }
    }
    p->tile_count = tiles;
    p->wide = tiles >= ((int64_t)1 << 31);
    return true;
}

#endif
