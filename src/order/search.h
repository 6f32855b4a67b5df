/* The search for an order of one connected, simplified network. */
#ifndef TS_ORDER_SEARCH_H
#define TS_ORDER_SEARCH_H

#include "order/optimizer.h"

enum { TS_MOST_CANDIDATES = 24, TS_CHAINS = 4, TS_SMALL = 10 /* tensors: exact at once */, TS_WINDOW = 1000 /* nodes */ };

/* Networks whose search state is larger are searched in windows. */
#define TS_STATE_BYTES 2.5e8

/* Where a first tree comes from. */
typedef enum ts_source {
    TS_FROM_GREEDY,
    TS_FROM_DEGREE,
    TS_FROM_FILL,
    TS_FROM_DISSECTION,
    TS_FROM_METIS, /* the same with cuts by METIS */
    TS_FROM_SWEEP
} ts_source;
typedef struct ts_candidate {
    ts_source source;
    double parameter; /* greedy: temperature; elimination: noise; dissection: imbalance */
    double outer;     /* dissection: weight of labels that leave a part */
} ts_candidate;

/* What an optimizer does: first trees, then rounds of annealing from the best, and subtrees made optimal. */
typedef struct ts_recipe {
    int32_t candidate_count;
    ts_candidate candidates[TS_MOST_CANDIDATES];
    bool anneal;
    bool exact;    /* nothing but the best order will do */
    int32_t width; /* of subtrees that are made optimal; 0: none */
    double hot, cold; /* temperatures of the first round */
} ts_recipe;

/* The search as a whole: shared by the tasks of all its parts. */
struct ts_control {
    const ts_search *search;
    atomic_bool stop, cancelled;
    double polled;
};

/* Best tree for a connected network of at least 2 tensors. *work: what may be done, then what is left. */
tensum_status ts_search_connected(const ts_hypergraph *graph, const ts_search *search, const ts_recipe *recipe,
                                  ts_control *control, double *work, int32_t *pairs);

/* The most that one search state may take. */
static inline double ts_state_room(const ts_search *search)
{
    return search->memory > 0.0 ? fmin(search->memory, TS_STATE_BYTES) : TS_STATE_BYTES;
}

/* Better a given tree within `share` of the budget; *price is log2. */
tensum_status ts_better_start(const ts_hypergraph *graph, const ts_search *search, double share, int32_t *pairs,
                              double *price);

/* The same for any network; pairs->pairs has room for all steps. */
tensum_status ts_search_network(const ts_hypergraph *graph, const ts_search *search, const ts_recipe *recipe,
                                ts_pairs *pairs);

#endif
