/* What the optimizers share: walking a tree, adding numbers given by their logarithms, and their entry points. */
#ifndef TS_ORDER_OPTIMIZER_H
#define TS_ORDER_OPTIMIZER_H

#include <math.h>

#include "order/order.h"

/* ---- a sum of powers of two that cannot overflow: sum * 2^peak ---- */
typedef struct ts_log_sum {
    double peak, sum;
} ts_log_sum;
#define TS_LOG_SUM_INIT {0.0, 0.0}

static inline void ts_log_sum_add(ts_log_sum *total, double log2_term)
{
    if (total->sum == 0.0) {
        total->peak = log2_term;
        total->sum = 1.0;
    } else if (log2_term <= total->peak) {
        total->sum += exp2(log2_term - total->peak);
    } else {
        total->sum = total->sum * exp2(total->peak - log2_term) + 1.0;
        total->peak = log2_term;
    }
}
/* log2 of the sum; 0 for an empty one, as a network without work costs nothing that counts. */
static inline double ts_log_sum_value(const ts_log_sum *total)
{
    return total->sum > 0.0 ? total->peak + log2(total->sum) : 0.0;
}

/* ---- labels of every tensor of a tree, step by step ---- */
typedef struct ts_walk {
    const ts_hypergraph *graph;
    int32_t *counts;  /* [label_count] living tensors that hold the label */
    int32_t **lists;  /* [2 n - 1] ascending labels of a living id; NULL otherwise */
    int32_t *lengths; /* [2 n - 1] */
    int32_t *joined;  /* [label_count] union of the operands of the last step */
    int32_t joined_count;
} ts_walk;

/* Start with the leaves, less the labels that nothing else needs. Release with ts_walk_free, also on failure. */
tensum_status ts_walk_start(ts_walk *walk, const ts_hypergraph *graph);
/* Contract a and b into `result`; their lists are freed. */
tensum_status ts_walk_step(ts_walk *walk, int32_t a, int32_t b, int32_t result);
void ts_walk_free(ts_walk *walk);

/* ---- optimizers: write 2 (n - 1) SSA ids to `pairs` ---- */

/* Cheapest pair first, by |result| - alpha (|a| + |b|) in a signed logarithm less temperature * Gumbel noise.
 * Near-linear; leftovers of different components are joined smallest first. */
tensum_status ts_greedy(const ts_hypergraph *graph, double alpha, double temperature, uint64_t seed, int32_t *pairs);

/* ---- the table ---- */

typedef enum ts_objective { TS_MINIMIZE_TIME, TS_MINIMIZE_FLOPS, TS_MINIMIZE_SIZE, TS_MINIMIZE_WRITE } ts_objective;

typedef struct ts_search {
    ts_objective objective;
    uint64_t seed;
    ts_pool *pool; /* may be NULL */
} ts_search;

typedef struct ts_optimizer {
    const char *name;
    /* pairs->pairs has room for all steps. */
    tensum_status (*run)(const ts_hypergraph *graph, const ts_search *search, ts_pairs *pairs);
    const char *summary;
} ts_optimizer;
const ts_optimizer *ts_optimizer_at(int index);

tensum_status ts_method_greedy(const ts_hypergraph *graph, const ts_search *search, ts_pairs *pairs);

/* For a network of few tensors: the best order where that is quickly found, else greedy. */
tensum_status ts_best_small(const ts_hypergraph *graph, int32_t *pairs);

#endif
