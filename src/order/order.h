/* Contraction orders: the hypergraph they work on, the tree they give, and the table of optimizers. */
#ifndef TS_ORDER_ORDER_H
#define TS_ORDER_ORDER_H

#include <stdatomic.h>

#include "core/core.h"
#include "core/pool.h"
#include "network/network.h"

struct tensum_tree {
    atomic_int references;
    int64_t leaf_count, step_count;
    int64_t *offsets;  /* [step_count + 1] */
    int64_t *children; /* SSA ids */
    int64_t slice_count;
    int64_t *slices; /* public labels */
};

/* The hypergraph of a network for the optimizers: distinct effective labels (extent > 1; extent 0 counts as 1). */
typedef struct ts_hypergraph {
    int32_t tensor_count, label_count;
    const int64_t *tensor_offsets; /* [tensor_count + 1] */
    const int32_t *tensor_labels;  /* ascending within a tensor */
    const double *log2_extents;    /* [label_count] */
    const uint8_t *is_output;      /* [label_count] */
} ts_hypergraph;

/* Binary SSA tree: pairs[2 s], pairs[2 s + 1] are contracted into id tensor_count + s. tensor_count - 1 steps. */
typedef struct ts_pairs {
    int32_t tensor_count;
    int32_t *pairs; /* [2 (tensor_count - 1)], ts_free */
    int32_t slice_count;
    int32_t *slices; /* label numbers, ts_free */
} ts_pairs;

/* tc, sc, rw (log2) of a binary tree: the plan's own words (see docs). */
typedef struct ts_order_cost {
    double tc, sc, rw;
} ts_order_cost;
void ts_pairs_free(ts_pairs *pairs);
/* The public tree of a binary one, sliced labels included; `network` gives their public names. */
tensum_status ts_pairs_to_tree(const tensum_network *network, const ts_pairs *pairs, tensum_tree **tree);
tensum_status ts_order_cost_of(const ts_hypergraph *graph, const ts_pairs *pairs, ts_order_cost *cost);

/* Split every step of more than two operands into binary steps (exact for few, greedy for many); unary steps vanish. */
tensum_status ts_tree_binarize(const tensum_network *network, const tensum_tree *tree, ts_pairs *pairs);

/* What a limit on memory bounds. Of a tree's intermediates in its best sequence, `held` times those that are held at
 * once and `kept` times all together: values are freed when they have been used (1, 0), unless a backward pass or
 * decoding needs them again (0, 1), and cotangents and winners come to that. */
typedef struct ts_memory {
    double most;   /* elements; 0: no limit */
    double held, kept;
    double search; /* bytes that the search itself may take; 0: as many as it likes */
    double needed; /* result, where slicing cannot meet the limit: what `most` would have to be; else 0 */
} ts_memory;
#define TS_MEMORY_INIT {0.0, 1.0, 0.0, 0.0, 0.0}

/* tensum_order with that; options->memory_limit is not looked at. */
tensum_status ts_order_within(const tensum_network *network, const tensum_order_options *options, ts_memory *memory,
                              tensum_context *context, tensum_tree **tree);

/* Build the hypergraph of a network; release with ts_hypergraph_free. */
tensum_status ts_hypergraph_create(const tensum_network *network, ts_hypergraph *graph);
void ts_hypergraph_free(ts_hypergraph *graph);

#endif
