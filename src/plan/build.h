/* Plan construction, between the files of this folder. */
#ifndef TS_PLAN_BUILD_H
#define TS_PLAN_BUILD_H

#include "plan/plan.h"

/* Labels of tree nodes: node i has labels[first[i] .. first[i] + count[i]), ascending. */
typedef struct ts_node_labels {
    int64_t *first;
    int32_t *count;
    int32_t *labels;
    size_t length, capacity;
} ts_node_labels;

typedef struct ts_builder {
    tensum_plan *plan;
    ts_pairs pairs;
    uint8_t *sliced;        /* [label_count] */
    uint8_t *in_output;     /* [label_count] effective and unsliced */
    int32_t *leaf_uses;     /* [label_count] in how many operands a label is effective */
    ts_node_labels nodes;   /* leaves hold their labels as given, inner nodes what remains */
    uint8_t *node_varies;
    double *log2_size;      /* of a node's result */
    int32_t *order;         /* inner nodes in execution order, as step numbers */
    int32_t *storage;       /* label lists of steps and values, as offsets until the end */
    size_t storage_length, storage_capacity;
} ts_builder;

/* Label sets of every node, and the order of execution. */
tensum_status ts_build_nodes(ts_builder *builder);
/* Offsets for all modes, peak bytes. */
tensum_status ts_build_memory(tensum_plan *plan);
tensum_status ts_build_costs(tensum_plan *plan);

#endif
