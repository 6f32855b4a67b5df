#ifndef TS_ORDER_DISSECT_H
#define TS_ORDER_DISSECT_H

#include "order/optimizer.h"

/* A hypergraph to be cut in two. Nets with fewer than 2 pins are allowed and never cut. */
typedef struct ts_nets {
    int32_t vertex_count, net_count;
    const int64_t *net_offsets; /* [net_count + 1] */
    const int32_t *pins;        /* vertices of each net */
    const double *net_weights, *vertex_weights;
} ts_nets;

/* Multilevel bisection: heavy-edge coarsening, grown first cuts, Fiduccia-Mattheyses refinement on every level. Both
 * sides weigh at most 0.5 + imbalance of the whole (or one vertex more). Writes side[vertex] 0 or 1; *cut: the weight
 * of nets with pins on both sides. */
tensum_status ts_bisect(const ts_nets *nets, double imbalance, ts_random *random, uint8_t *side, double *cut);

/* Better a cut by moves of vertices; the heavier side grows by at most `slack` of the whole, and leaves 2 to the other. */
tensum_status ts_bisect_refine(const ts_nets *nets, double slack, uint8_t *side, double *cut);

/* Nested dissection: tensors are cut in two so that the labels between the halves weigh least, and so on in each half.
 * Labels that leave a part are in the last step of that part however it is cut: they count by `outer` (0 to 1) only.
 * Small parts get their best order. `metis`: cut by METIS in place of ts_bisect. false in *found if the budget ended before. */
tensum_status ts_dissect(const ts_hypergraph *graph, double imbalance, double outer, bool metis, uint64_t seed,
                         ts_budget *budget, int32_t *pairs, bool *found);

#endif
