/* Along one assignment: handing a cotangent down a tree of a selective semiring. */
#ifndef TS_CUDA_TRACE_H
#define TS_CUDA_TRACE_H

#include "adjoint.h"

/* Operands are read by all threads at once, as they only depend on the assignment; the cotangents then go down the tree
 * one by one. */
template <typename P> TS_DEVICE void ts_route(const ts_cuda_route &p)
{
    typedef typename P::gradient G;
    typedef typename P::storage storage;
    const ts_cuda_route_step *steps = reinterpret_cast<const ts_cuda_route_step *>((uintptr_t)p.steps);
    const ts_cuda_decode_label *labels = reinterpret_cast<const ts_cuda_decode_label *>((uintptr_t)p.labels);
    const int64_t *assignment = reinterpret_cast<const int64_t *>((uintptr_t)p.assignment);
    G *cotangents = reinterpret_cast<G *>((uintptr_t)p.cotangents);
    char *operands = reinterpret_cast<char *>((uintptr_t)p.operands);
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
    ts_sync();
    if (ts_thread() == 0) {
        cotangents[p.root] = *reinterpret_cast<const G *>(ts_address(p.seed));
        for (int32_t s = 0; s < p.step_count; s++) {
            const ts_cuda_route_step &step = steps[s];
            G g = cotangents[step.value_c];
            if (step.value_b < 0) {
                cotangents[step.value_a] = step.empty != 0 ? G(0) : G(0) + g;
                continue;
            }
            G share_a = G(0), share_b = G(0);
            if (step.empty == 0) {
                const storage *pair = reinterpret_cast<const storage *>(operands + (int64_t)s * 16);
                typename P::value a = P::load(pair[0]), b = P::load(pair[1]);
                share_a = G(0) + ts_share_of<P>(g, a, b, P::zero(), step.tie_a);
                share_b = G(0) + ts_share_of<P>(g, b, a, P::zero(), step.tie_a == 0);
            }
            cotangents[step.value_a] = share_a;
            cotangents[step.value_b] = share_b;
        }
    }
}

#endif
