#ifndef TS_ORDER_EXACT_H
#define TS_ORDER_EXACT_H

#include "order/state.h"

/* Dynamic programming over all subsets of up to TS_EXACT_MOST tensors, outer products included. For a subset S let
 * I[S] be the weight of the inner labels (not needed outside the problem) that lie within S, and size[S] that of its
 * open labels. The step that joins A and B to S has size[S] + I[S] - I[A] - I[B] as log2 of its pairs, so that
 * its price is a product of three numbers from tables: 3^count / 2 multiplications in all. */
enum { TS_EXACT_MOST = 20 };

typedef struct ts_exact {
    int32_t most, count;   /* room for, tensors of the problem */
    double *inner, *outer; /* [2^count] weights of labels by the exact set of tensors that hold them; see ts_exact_set */
    double *size, *joint, *part, *cost; /* tables */
    uint32_t *split;       /* [2^count] best A of each S */
} ts_exact;

tensum_status ts_exact_create(ts_exact *exact, int32_t most);
void ts_exact_free(ts_exact *exact);
/* Start a problem of `count` tensors: clears the weights. Then add weights to inner[set] or outer[set]. */
void ts_exact_start(ts_exact *exact, int32_t count);
/* Best price (log2) of contracting all; INFINITY if none is below `bound` (log2). Destroys the weights.
 * split[] then tells the tree: S is joined from split[S] and S - split[S]. */
double ts_exact_solve(ts_exact *exact, const ts_price *price, double bound);
/* Work of solving, as budgets count it. */
double ts_exact_work(int32_t count);

/* The best order of a whole network; false in *solved if it has more than TS_EXACT_MOST tensors. */
tensum_status ts_exact_order(const ts_hypergraph *graph, const ts_price *price, double bound, int32_t *pairs,
                             double *best);

/* Replace, below every inner node, the subtree of up to `width` near nodes by the best one, until nothing improves
 * or the budget ends. *changed tells if anything did. */
tensum_status ts_reconfigure(ts_state *state, const ts_price *price, int32_t width, ts_random *random,
                             ts_budget *budget, bool *changed);

/* Make the cut at the largest intermediate lighter, and small subtrees optimal after that, for as long as the price falls:
 * see waist.c. */
tensum_status ts_refine_waist(ts_state *state, const ts_price *price, int32_t width, ts_random *random, ts_budget *budget,
                              bool *changed);

#endif
