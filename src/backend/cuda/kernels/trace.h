/* Along one assignment: handing a cotangent down a tree of a selective semiring. */
#ifndef TS_CUDA_TRACE_H
#define TS_CUDA_TRACE_H

#include "adjoint.h"

/* Operands are read by all threads at once, as they only depend on the assignment; the cotangents then go down the tree
 * level by level. */
template <typename P> TS_DEVICE void ts_route(const ts_cuda_route &p)
{
    typedef typename P::gradient G;
    typedef typename P::storage storage;
    const ts_cuda_route_step *steps = reinterpret_cast<const ts_cuda_route_step *>((uintptr_t)p.steps);
    const int32_t *levels = reinterpret_cast<const int32_t *>((uintptr_t)p.levels);
    const ts_cuda_decode_label *labels = reinterpret_cast<const ts_cuda_decode_label *>((uintptr_t)p.labels);
    const int64_t *assignment = reinterpret_cast<const int64_t *>((uintptr_t)p.assignment);
    G *cotangents = reinterpret_cast<G *>((uintptr_t)p.cotangents);
    char *operands = reinterpret_cast<char *>((uintptr_t)p.operands);
    uint8_t *carries = reinterpret_cast<uint8_t *>((uintptr_t)p.carries);
    if constexpr (P::mul_op != ts_op_plus) { /* where it is addition, values mean nothing */
        for (int32_t s = ts_thread(); s < p.step_count; s += ts_threads()) {
            const ts_cuda_route_step &step = steps[s];
            storage *pair = reinterpret_cast<storage *>(operands + (int64_t)s * 16);
            int64_t at_a = 0, at_b = 0;
            for (int32_t i = 0; i < step.label_count; i++) {
                const ts_cuda_decode_label &label = labels[step.first_label + i];
                at_a += assignment[label.label] * label.a;
                at_b += assignment[label.label] * label.b;
            }
            if (step.empty == 0 && step.value_b >= 0) {
                pair[0] = reinterpret_cast<const storage *>(ts_address(step.a))[at_a];
                pair[1] = reinterpret_cast<const storage *>(ts_address(step.b))[at_b];
            }
        }
    }
    if (ts_thread() == 0) {
        cotangents[p.root] = *reinterpret_cast<const G *>(ts_address(p.seed));
        carries[p.root] = 1;
    }
    for (int32_t level = 0; level < p.level_count; level++) {
        ts_sync();
        for (int32_t s = levels[level] + ts_thread(); s < levels[level + 1]; s += ts_threads()) {
            const ts_cuda_route_step &step = steps[s];
            const bool goes_on = step.empty == 0 && carries[step.value_c] != 0; /* else not even 0 times infinity */
            G g = cotangents[step.value_c];
            carries[step.value_a] = goes_on;
            if (step.value_b < 0) {
                cotangents[step.value_a] = goes_on ? G(0) + g : G(0);
                continue;
            }
            carries[step.value_b] = goes_on;
            G share_a = G(0), share_b = G(0);
            if (goes_on) {
                typename P::value a = P::zero(), b = P::zero();
                if constexpr (P::mul_op != ts_op_plus) {
                    const storage *pair = reinterpret_cast<const storage *>(operands + (int64_t)s * 16);
                    a = P::load(pair[0]);
                    b = P::load(pair[1]);
                }
                share_a = G(0) + ts_share_of<P>(g, a, b, P::zero(), step.tie_a);
                share_b = G(0) + ts_share_of<P>(g, b, a, P::zero(), step.tie_a == 0);
                if (P::mul_op == ts_op_min || P::mul_op == ts_op_max) { /* one of them attains the value */
                    bool odd_a = ts_is_not_a_number(a), odd_b = ts_is_not_a_number(b);
                    bool to_a = a == b || (odd_a && odd_b) ? step.tie_a != 0
                                                           : odd_a || (!odd_b && (P::mul_op == ts_op_max ? a > b : a < b));
                    carries[step.value_a] = to_a;
                    carries[step.value_b] = !to_a;
                }
            }
            cotangents[step.value_a] = share_a;
            cotangents[step.value_b] = share_b;
        }
    }
}

template <typename P> TS_DEVICE void ts_absorb(const ts_cuda_slices &p)
{
    typedef typename P::storage storage;
    const ts_cuda_mode *modes = ts_mode_table(p.modes);
    const storage *partial = reinterpret_cast<const storage *>(ts_address(p.a));
    storage *total = reinterpret_cast<storage *>(ts_address(p.c));
    int64_t *won = reinterpret_cast<int64_t *>(ts_address(p.w));
    const int64_t slice = *reinterpret_cast<const int64_t *>((uintptr_t)p.slice_slot);
    for (int64_t tile = ts_block(); tile < p.tile_count; tile += ts_blocks()) {
        int64_t element = tile * ts_threads() + ts_thread();
        if (element < p.elements) {
            ts_cuda_offsets at = ts_offsets_of(modes, p.modes.count, p.modes.wide, element);
            if (won[at.w] < 0) {
                total[at.c] = P::store(P::finish(P::load(partial[at.a]))); /* a sum of one term */
                won[at.w] = slice;
                continue;
            }
            typename P::value before = P::load(total[at.c]), x = P::load(partial[at.a]);
            if constexpr (P::selective) {
                if (P::better(x, before)) {
                    total[at.c] = P::store(P::finish(P::load(partial[at.a]))); /* a sum of one term */
                    won[at.w] = slice;
                }
            } else {
                total[at.c] = P::store(P::finish(P::add(before, x, 0)));
            }
        }
    }
}

template <typename P> TS_DEVICE void ts_seed(const ts_cuda_slices &p)
{
    typedef typename P::storage storage;
    typedef typename P::gradient G;
    const ts_cuda_mode *modes = ts_mode_table(p.modes);
    const int64_t slice = *reinterpret_cast<const int64_t *>((uintptr_t)p.slice_slot);
    const G *given = reinterpret_cast<const G *>(ts_address(p.g));
    G *seed = reinterpret_cast<G *>(ts_address(p.d));
    for (int64_t tile = ts_block(); tile < p.tile_count; tile += ts_blocks()) {
        int64_t element = tile * ts_threads() + ts_thread();
        if (element < p.elements) {
            ts_cuda_offsets at = ts_offsets_of(modes, p.modes.count, p.modes.wide, element);
            G share = given[at.g];
            if constexpr (P::selective) {
                if (reinterpret_cast<const int64_t *>(ts_address(p.w))[at.w] != slice) {
                    share = G(0);
                }
            } else {
                typename P::value whole = P::load(reinterpret_cast<const storage *>(ts_address(p.c))[at.c]);
                typename P::value part = P::load(reinterpret_cast<const storage *>(ts_address(p.a))[at.a]);
                share = share * (whole == P::zero() ? G(0) : (G)ts_exp(part - whole));
            }
            seed[at.d] = share;
        }
    }
}

#endif
