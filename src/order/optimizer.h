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

/* ---- what a tree costs the search ---- */

/* The sum over steps of pairs * 2^pairs + the sum over intermediates of elements^power * 2^moved, and, for those above
 * 2^limit elements, 2^penalty * (elements / 2^limit)^2. Leaves and the result cost the same in every tree and are not
 * counted. */
typedef struct ts_price {
    double pairs, moved, power;
    double limit, penalty; /* limit INFINITY: none */
} ts_price;
#define TS_PRICE_FLOPS ((ts_price){0.0, -INFINITY, 1.0, INFINITY, 0.0})

/* Prices of a step and of an intermediate, over 2^reference. */
static inline double ts_step_price(const ts_price *price, double step, double reference)
{
    return exp2(step + price->pairs - reference);
}
static inline double ts_size_price(const ts_price *price, double size, double reference)
{
    double value = exp2(price->power * size + price->moved - reference);
    return size > price->limit ? value + exp2(price->penalty + 2.0 * (size - price->limit) - reference) : value;
}

/* ---- budgets: work is counted, in units of about one second of one core, so that results can be repeated ---- */

typedef struct ts_control ts_control; /* of a search: cancellation and progress */
/* Polls the caller's progress function where it is time to; false if the search shall end. */
bool ts_control_continue(ts_control *control, bool caller);

typedef struct ts_budget {
    double total, left; /* work */
    double start, deadline; /* of ts_seconds(); deadline 0: work counts, else the clock */
    ts_control *control;    /* may be NULL */
    bool caller;            /* on the thread that called the library */
} ts_budget;

/* Take `work` off; false when the budget is used up. */
static inline bool ts_budget_spend(ts_budget *budget, double work)
{
    budget->left -= work;
    bool more = budget->deadline > 0.0 ? ts_seconds() < budget->deadline : budget->left > 0.0;
    return more && (budget->control == NULL || ts_control_continue(budget->control, budget->caller));
}
/* The share of the budget that is used, 0 to 1. */
static inline double ts_budget_used(const ts_budget *budget)
{
    double used = budget->deadline > 0.0 ? (ts_seconds() - budget->start) / (budget->deadline - budget->start)
                                         : 1.0 - budget->left / budget->total;
    return used < 0.0 ? 0.0 : used > 1.0 ? 1.0 : used;
}

/* ---- optimizers: write 2 (n - 1) SSA ids to `pairs` ---- */

/* Cheapest pair first, by |result| - alpha (|a| + |b|) in a signed logarithm less temperature * Gumbel noise.
 * Near-linear; leftovers of different components are joined smallest first. */
tensum_status ts_greedy(const ts_hypergraph *graph, double alpha, double temperature, uint64_t seed, int32_t *pairs);

/* One tensor that absorbs the others, from the rim on: always the one that leaves it lightest. See sweep.c. */
tensum_status ts_sweep(const ts_hypergraph *graph, uint64_t seed, int32_t *pairs);

/* ---- the table ---- */

typedef struct ts_search {
    ts_price price;
    uint64_t seed;
    ts_pool *pool;       /* may be NULL */
    double work;         /* budget */
    double deadline;     /* of ts_seconds(): takes the place of the budget; 0: none */
    double enough;       /* stop once the predicted seconds of a run are below this share of the work done; 0: never */
    tensum_progress progress; /* may be NULL */
    void *progress_user;
    double started;      /* ts_seconds() */
    double keep;         /* share of budget and time that is left to slicing */
    const int32_t *given; /* steps of a tree that slicing starts from too; may be NULL */
    double memory;       /* bytes that search states may take together; 0: as many as there are threads */
} ts_search;

struct ts_recipe;
typedef struct ts_optimizer {
    const char *name;
    const struct ts_recipe *recipe;
    const char *summary;
} ts_optimizer;
/* NULL past the end. */
const ts_optimizer *ts_optimizer_at(int index);

/* The price for an objective of the public options: "time" (NULL), "flops", "size", "write". */
tensum_status ts_order_price(const char *minimize, size_t element_bytes, ts_price *price);

/* Choose labels to slice, and better the tree for it, until intermediates are within the limit: see slice.c. MEMORY_LIMIT says what would be needed. pairs->slices is made. *overhead: log2 of the pairs of all slices
 * over those before. */
tensum_status ts_slice(const ts_hypergraph *graph, const ts_search *search, ts_memory *memory, ts_pairs *pairs,
                       double *overhead);

/* Put the steps of a tree into the sequence with the lowest peak of memory; *peak: elements of intermediates that are
 * held at once, inputs and output not counted; *all (may be NULL): of all intermediates together. */
tensum_status ts_schedule(const ts_hypergraph *graph, ts_pairs *pairs, double *peak, double *all);
/* The same by the weights of a limit. */
static inline tensum_status ts_schedule_within(const ts_hypergraph *graph, const ts_memory *memory, ts_pairs *pairs,
                                               double *peak)
{
    double held, all;
    tensum_status status = ts_schedule(graph, pairs, &held, &all);
    if (status == TENSUM_OK) {
        *peak = memory->held * held + memory->kept * all;
    }
    return status;
}

/* How many search states of this network may be in memory at once, `threads` at most; at least 1. */
int32_t ts_states_at_once(const ts_hypergraph *graph, const ts_search *search, int32_t threads);

/* Contractions that make nothing larger: subsets, vectors, matrices into their neighbours, smallest result first.
 * Steps go to pairs; left[] gets the ids that remain, their labels offsets[] and *labels (ts_free). At least 1 tensor. */
tensum_status ts_absorb(const ts_hypergraph *graph, int32_t *pairs, int32_t *step_count, int32_t *left,
                        int64_t *offsets, int32_t **labels);

/* A network after simplification: absorbed tensors gone, labels that occur in the same tensors made one. */
typedef struct ts_simplified {
    ts_hypergraph core;
    int32_t tensor_count, step_count; /* of the network; steps done */
    int32_t *pairs; /* the steps */
    int32_t *ids;   /* [core.tensor_count] SSA id of each core tensor */
} ts_simplified;
/* At least 1 tensor. Release with ts_simplified_free, also on failure. */
tensum_status ts_simplify(const ts_hypergraph *graph, ts_simplified *simplified);
void ts_simplified_free(ts_simplified *simplified);
/* The tree of the network from one of the core. */
void ts_simplified_expand(const ts_simplified *simplified, const int32_t *core_pairs, int32_t *pairs);

/* ---- parts of a network ---- */

/* Scratch for taking parts out of one network. */
typedef struct ts_part_maker {
    int32_t label_count;
    int32_t *number;  /* [label_count] label of the part, or -1; -1 between uses */
    int32_t *globals; /* [label_count] label of the network by label of the part: of the last part made */
    int32_t *holders; /* [label_count] tensors of the part that hold it, by label of the part */
} ts_part_maker;
tensum_status ts_part_maker_create(int32_t label_count, ts_part_maker *maker);
void ts_part_maker_free(ts_part_maker *maker);
/* The network of `count` tensors given by label lists. Labels that fewer of these tensors hold than `counts` says,
 * and outputs, are outputs of the part. Release with ts_hypergraph_free. */
tensum_status ts_part_make(ts_part_maker *maker, const ts_hypergraph *whole, const int32_t *counts, int32_t count,
                           const int32_t *const *lists, const int32_t *lengths, ts_hypergraph *part);
/* Component of every tensor, numbered as they come; returns the number of components. `scratch` [label_count]. */
int32_t ts_components(const ts_hypergraph *graph, int32_t *scratch, int32_t *component);

/* The best order (fewest pairs) of few tensors, else a greedy one. */
tensum_status ts_best_small(const ts_hypergraph *graph, int32_t *pairs);

#endif
