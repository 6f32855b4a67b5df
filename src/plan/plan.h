/* The plan: steps with mode classes, layouts, liveness and memory. Immutable after creation. */
#ifndef TS_PLAN_PLAN_H
#define TS_PLAN_PLAN_H

#include "algebra/algebra.h"
#include "network/network.h"
#include "order/order.h"
#include "tensor/spec.h"

typedef enum ts_place { TS_PLACE_INPUT, TS_PLACE_ARENA, TS_PLACE_OUTPUT } ts_place;

/* A tensor of the plan. Values 0..operand_count-1 are the inputs (as strided diagonal views), value
 * operand_count is the output, the rest are intermediates (compact, row-major in `labels` order). */
typedef struct ts_value {
    ts_place place;
    int32_t rank;
    const int32_t *labels;  /* distinct effective unsliced label numbers; memory order for intermediates */
    int64_t elements;       /* of one slice */
    int32_t producer;       /* step, -1 for inputs */
    int32_t consumer;       /* step, -1 for the output */
    int32_t lowest_input;   /* lowest operand number below this value */
    bool varies;            /* depends on the slice */
    /* Byte offsets in the arena, 128-byte aligned; -1 for inputs and output. */
    int64_t value_offset;   /* TENSUM_VALUE: memory is reused */
    int64_t keep_offset;    /* GRADIENT, DECODE: every intermediate is kept */
    int64_t cotangent_offset; /* GRADIENT: -1 where no cotangent is needed */
} ts_value;

typedef enum ts_step_kind { TS_STEP_REDUCE, TS_STEP_CONTRACT, TS_STEP_ONE } ts_step_kind;

/* One step. Label lists are canonical (ascending label numbers) and lie in one array.
 * REDUCE: c[kept] from a[kept, sum]; kept labels absent from a broadcast. CONTRACT: see ts_contract_spec.
 * ONE: c is filled with 1 of the semiring (a network with no operands). */
typedef struct ts_step {
    ts_step_kind kind;
    int32_t a, b, c;            /* values; b is -1 for a reduce */
    const int32_t *batch, *left, *right, *sum; /* reduce: left = kept */
    int32_t batch_count, left_count, right_count, sum_count;
    int64_t batch_size, left_size, right_size, sum_size;
    bool fill_zero;             /* c is the output and has a repeated label: fill with 0 first */
    bool invariant;             /* does not depend on the slice: run once */
    int64_t subtree_bytes;      /* bytes of all intermediates in the subtree that ends here */
    int64_t winner_offset;      /* GRADIENT with several outputs: byte offset of int32/int64 winners; -1: none */
    uint8_t winner_bytes;       /* 4, or 8 where sum_size exceeds INT32_MAX */
} ts_step;

struct tensum_plan {
    atomic_int references;
    tensum_network *network;
    tensum_tree *tree;
    ts_algebra algebra;
    int32_t value_count, step_count;
    ts_value *values;
    ts_step *steps;          /* in execution order */
    int32_t *label_storage;
    int64_t *public_labels;  /* label_storage in public labels */
    int32_t slice_label_count;
    int32_t *slice_labels;   /* label numbers; the first varies slowest */
    int64_t slice_total;     /* number of slices */
    bool scalar_output;      /* the output has exactly one element */
    bool too_large;          /* sizes exceed 2^62 bytes: costs are right, no program can be made */
    double tc, sc, rw;
    double overhead;         /* log2 of the pairs of all slices over those of the tree unsliced */
    uint64_t memory_limit;   /* bytes for a run, 0: none */
    uint64_t memory_taken;   /* of them, what the caller holds */
    uint64_t value_bytes, keep_bytes, gradient_bytes; /* arena sizes; gradient includes kept values, cotangents, winners */
};

/* Bytes of intermediates, winners and cotangents for a set of modes. */
static inline uint64_t ts_plan_arena_bytes(const tensum_plan *plan, unsigned modes)
{
    return (modes & TENSUM_GRADIENT) != 0 ? plan->gradient_bytes
           : (modes & TENSUM_DECODE) != 0 ? plan->keep_bytes
                                          : plan->value_bytes;
}

/* The extent of a label as an operand of the plan sees it. */
static inline int64_t ts_plan_extent(const tensum_plan *plan, int32_t label)
{
    return plan->network->label_extents[label];
}

/* A value must outlive its consumer if a later slice will read it again. */
static inline bool ts_plan_persists(const tensum_plan *plan, const ts_value *value)
{
    return plan->slice_total > 1 && !value->varies && value->consumer >= 0 && !plan->steps[value->consumer].invariant;
}

/* Does backward of this plan trace one path instead of keeping winners and cotangents? */
static inline bool ts_plan_traces(const tensum_plan *plan)
{
    return plan->scalar_output && tensum_semiring_selective(plan->algebra.semiring) != 0;
}

#endif
