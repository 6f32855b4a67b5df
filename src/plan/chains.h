/* Steps of a huge tensor against tiny ones, one after the other, that a backend may run in one pass: which ones go together,
 * and where values lie then. */
#ifndef TS_PLAN_CHAINS_H
#define TS_PLAN_CHAINS_H

#include "plan/plan.h"

/* The larger operand of a contraction, and what the other one adds to the result. */
static inline bool ts_chain_big_is_b(const tensum_plan *plan, const ts_step *step)
{
    return plan->values[step->b].elements > plan->values[step->a].elements;
}
static inline int32_t ts_chain_big_of(const tensum_plan *plan, const ts_step *step) { return ts_chain_big_is_b(plan, step) ? step->b : step->a; }
static inline int32_t ts_chain_tiny_of(const tensum_plan *plan, const ts_step *step) { return ts_chain_big_is_b(plan, step) ? step->a : step->b; }
static inline int64_t ts_chain_size_of_new(const tensum_plan *plan, const ts_step *step)
{
    return ts_chain_big_is_b(plan, step) ? step->left_size : step->right_size;
}

static inline bool ts_chain_has_label(const int32_t *labels, int32_t count, int32_t label)
{
    for (int32_t i = 0; i < count; i++) {
        if (labels[i] == label) {
            return true;
        }
    }
    return false;
}

/* A set of labels, small enough to be searched. False: it is full. */
enum { TS_CHAIN_MOST_LIVE = 48 /* labels of a tile, at any time: extents of 2 or more, so tables are short */ };
typedef struct ts_label_set {
    int32_t labels[TS_CHAIN_MOST_LIVE], count;
} ts_label_set;
static inline bool ts_chain_put_label(ts_label_set *set, int32_t label)
{
    if (ts_chain_has_label(set->labels, set->count, label)) {
        return true;
    }
    if (set->count == TS_CHAIN_MOST_LIVE) {
        return false;
    }
    set->labels[set->count++] = label;
    return true;
}
/* The labels of a step's tiny operand that mean something. */
static inline bool ts_chain_put_touched(const tensum_plan *plan, const ts_step *step, ts_label_set *set)
{
    const ts_value *tiny = &plan->values[ts_chain_tiny_of(plan, step)];
    for (int32_t i = 0; i < tiny->rank; i++) {
        if (ts_plan_extent(plan, tiny->labels[i]) > 1 && !ts_chain_put_label(set, tiny->labels[i])) {
            return false;
        }
    }
    return true;
}

/* Positions of the labels of a value that are in a set; any number above TS_CHAIN_MOST_POSITIONS where there are more. */
enum { TS_CHAIN_MOST_POSITIONS = 1 << 20 };
static inline int64_t ts_chain_live_size(const tensum_plan *plan, const ts_label_set *set, int32_t value)
{
    const ts_value *v = &plan->values[value];
    int64_t size = 1;
    for (int32_t i = 0; i < v->rank; i++) {
        if (ts_chain_has_label(set->labels, set->count, v->labels[i])) {
            size *= ts_plan_extent(plan, v->labels[i]);
            if (size > TS_CHAIN_MOST_POSITIONS) {
                return size;
            }
        }
    }
    return size;
}

/* What a backend can chain. list: steps of which each takes the result of the one before. */
typedef struct ts_chain_rules {
    void *user;
    bool (*suits)(const void *user, int32_t step);                          /* may it be part of a chain, or one alone? */
    bool (*fits)(const void *user, const int32_t *list, int32_t count);     /* may these be one pass? count > 1 */
    tensum_status (*add)(void *user, const int32_t *list, int32_t count);   /* these are: called once for every suitable step */
    int32_t most;    /* steps of a chain */
    double pass;     /* elements that could be moved in the time a pass costs besides */
    bool stores_all; /* results between the steps are wanted, too */
} ts_chain_rules;

/* Cut every path of suitable steps where that moves the fewest elements. */
tensum_status ts_plan_chains(const tensum_plan *plan, const ts_chain_rules *rules);

/* The labels of all tiny operands of a chain, and the most positions that these have in one of its huge tensors; too many
 * labels count as more than TS_CHAIN_MOST_POSITIONS. */
int64_t ts_chain_positions(const tensum_plan *plan, const int32_t *list, int32_t count, ts_label_set *set);

/* Where values lie if steps run in groups, each with its last step, and what lies between the steps of one is nowhere:
 * offsets [value_count] in an arena of *bytes, -1 for what is not there. previous [step_count]: the step before in its group,
 * or -1; is_last [step_count]. */
tensum_status ts_plan_place_groups(const tensum_plan *plan, const int32_t *previous, const uint8_t *is_last, int64_t *offsets,
                                   uint64_t *bytes);

#endif
