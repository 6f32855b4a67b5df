/* A binary tree in the form that local search works on: links between nodes, and the labels of every node as bits.
 *
 * Labels are dealt into words so that all labels of a word have the same extent: the weight (log2 elements) of a set is
 * a sum of popcounts times weights. Labels that are open in a subtree are those of its root node. If v = (x, y) and
 * x = (p, q), the labels of a node (p, y) put in x's place are (p | y) & (q | v): what p or y hold and what q or the
 * rest of the network still needs. So a rotation needs no counts, hyperedges and outputs included. */
#ifndef TS_ORDER_STATE_H
#define TS_ORDER_STATE_H

#include "order/optimizer.h"

typedef struct ts_bit_layout {
    int32_t words, class_count;
    int32_t *class_words; /* [class_count + 1] first word of each class */
    double *class_weight; /* [class_count] log2 extent of its labels */
    double *word_weight;  /* [words] the same by word */
    int32_t *place;       /* [label_count] bit of each label */
} ts_bit_layout;

/* Weights of the three sets that decide a rotation. */
typedef struct ts_trial {
    double inner; /* p | y: pairs of the new inner step */
    double size;  /* (p | y) & (q | v): its result */
    double outer; /* the result | q: pairs of the outer step */
} ts_trial;

typedef void (*ts_trial_function)(const ts_bit_layout *layout, const uint64_t *p, const uint64_t *y, const uint64_t *q,
                                  const uint64_t *v, ts_trial *trial);

typedef struct ts_state {
    const ts_hypergraph *graph;
    ts_bit_layout layout;
    int32_t leaves, root;          /* nodes: leaves 0..n-1, inner nodes n..2n-2 */
    int32_t *left, *right, *parent; /* [2 n - 1]; -1 where there is none */
    uint64_t *bits;                /* [2 n - 1][words] */
    double *size, *step;           /* [2 n - 1] log2 elements; log2 pairs (inner nodes) */
    ts_trial_function trial;
} ts_state;

/* Leaves get their labels, less those nothing else needs. At least 2 tensors. Free with ts_state_free, also on failure. */
tensum_status ts_state_create(ts_state *state, const ts_hypergraph *graph);
void ts_state_free(ts_state *state);
void ts_state_load(ts_state *state, const int32_t *pairs);
/* Steps in depth-first order. `scratch` [2 n - 1]. */
void ts_state_store(const ts_state *state, int32_t *scratch, int32_t *pairs);
/* Recompute bits, sizes and steps of all inner nodes from the links. `scratch` [2 n - 1]. */
void ts_state_refresh(ts_state *state, int32_t *scratch);
/* Size and step of `node`, whose own bits are right. With filter_x (filter_y) its left (right) child holds all labels
 * below it, and is reduced to those that are needed outside of it. */
void ts_state_settle(ts_state *state, int32_t node, bool filter_x, bool filter_y);
/* Inner nodes below and with `top`, children before parents, at the front of order [2 n - 1]; returns their number. */
int32_t ts_state_post_order(const ts_state *state, int32_t top, int32_t *order);
/* The same for links without a state: n leaves, children of inner nodes n..2n-2. */
int32_t ts_links_post_order(int32_t n, const int32_t *left, const int32_t *right, int32_t top, int32_t *order);
void ts_links_to_pairs(int32_t n, const int32_t *left, const int32_t *right, int32_t root, int32_t *scratch,
                       int32_t *pairs);
/* Bytes a state of this network takes. */
double ts_state_bytes(const ts_hypergraph *graph);

static inline uint64_t *ts_state_bits(const ts_state *state, int32_t node)
{
    return state->bits + (size_t)node * (size_t)state->layout.words;
}
double ts_bits_weight(const ts_bit_layout *layout, const uint64_t *bits);

#endif
