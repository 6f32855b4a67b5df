#ifndef TS_ORDER_ELIMINATE_H
#define TS_ORDER_ELIMINATE_H

#include "order/optimizer.h"

/* Orders by eliminating labels: contracting all tensors that hold a label, smallest first, and summing it.
 * The label graph joins labels that meet in a tensor. */
typedef enum ts_elimination { TS_MINIMUM_DEGREE, TS_MINIMUM_FILL } ts_elimination;

/* A label that vanishes along with another is not listed. Gives up when the work (see ts_budget) goes beyond `work`: *width is INFINITY then. Eliminate by the rule; scores are blurred by a factor up to 1 + noise. `order` [label_count], `count` may be NULL:
 * the labels eliminated, in order. *width: log2 of the elements of the largest clique, eliminated label included. */
tensum_status ts_eliminate(const ts_hypergraph *graph, ts_elimination rule, double noise, uint64_t seed,
                           double work, int32_t *pairs, int32_t *order, int32_t *count, double *width);
/* Eliminate labels in the order given; labels that are missing come last, as they are numbered. */
tensum_status ts_eliminate_in_order(const ts_hypergraph *graph, const int32_t *order, int32_t count, int32_t *pairs,
                                    double *width);
/* Bounds of the treewidth of the label graph, outputs summed too: the upper one from both rules, the lower one by
 * contracting edges. At most 4096 labels, else UNSUPPORTED. */
tensum_status ts_treewidth_bounds(const ts_hypergraph *graph, int32_t *lower, int32_t *upper);

#endif
