/* Waist refinement: the largest intermediate of a tree is a cut between the tensors below it and the others. Vertex moves
 * (Fiduccia-Mattheyses) make that cut lighter; the tensors that change sides are taken out of the tree and put back beside
 * the tensor of the other side that they share most with. Local search hardly finds this: a tensor would have to travel all
 * the way up and down through trees that are worse. */
#include "order/anneal.h"
#include "order/dissect.h"
#include "order/exact.h"

static const char *const what = "waist of a contraction tree";

typedef struct surgeon {
    ts_state *state;
    int64_t *offsets; /* [label_count + 1] tensors that hold a label */
    int32_t *pins;
    double *net_weights, *vertex_weights;
    uint8_t *below, *side; /* [n] now; wanted */
    double *shared;        /* [n] weight that a tensor shares with the one that moves; 0 between uses */
    int32_t *links, *scratch; /* [3 (2 n - 1)]; [2 n - 1] */
} surgeon;

static void release(surgeon *s)
{
    ts_free(s->offsets);
    ts_free(s->pins);
    ts_free(s->net_weights);
    ts_free(s->vertex_weights);
    ts_free(s->below);
    ts_free(s->side);
    ts_free(s->shared);
    ts_free(s->links);
    ts_free(s->scratch);
}

static tensum_status create(surgeon *s, ts_state *state)
{
    const ts_hypergraph *graph = state->graph;
    tensum_status status;
    size_t n = (size_t)graph->tensor_count, labels = (size_t)graph->label_count;
    int64_t total = graph->tensor_offsets[n];
    s->state = state;
    TRY(ts_allocate_zero(labels + 1, sizeof *s->offsets, what, &s->offsets));
    TRY(ts_allocate((size_t)total, sizeof *s->pins, what, &s->pins));
    TRY(ts_allocate(labels, sizeof *s->net_weights, what, &s->net_weights));
    TRY(ts_allocate(n, sizeof *s->vertex_weights, what, &s->vertex_weights));
    TRY(ts_allocate_zero(n, 1, what, &s->below));
    TRY(ts_allocate_zero(n, 1, what, &s->side));
    TRY(ts_allocate_zero(n, sizeof *s->shared, what, &s->shared));
    TRY(ts_allocate(3 * (2 * n - 1), sizeof *s->links, what, &s->links));
    TRY(ts_allocate(2 * n - 1, sizeof *s->scratch, what, &s->scratch));
    for (int64_t i = 0; i < total; i++) {
        s->offsets[graph->tensor_labels[i]]++;
    }
    for (size_t l = 1; l <= labels; l++) {
        s->offsets[l] += s->offsets[l - 1];
    }
    for (int32_t t = graph->tensor_count - 1; t >= 0; t--) {
        s->vertex_weights[t] = 1.0;
        for (int64_t i = graph->tensor_offsets[t]; i < graph->tensor_offsets[t + 1]; i++) {
            s->pins[--s->offsets[graph->tensor_labels[i]]] = t;
        }
    }
    for (size_t l = 0; l < labels; l++) {
        s->net_weights[l] = graph->is_output[l] ? 0.0 : graph->log2_extents[l]; /* outputs are open on any side */
    }
done:
    return status;
}

static void copy_links(const surgeon *s, bool back)
{
    size_t nodes = 2 * (size_t)s->state->leaves - 1;
    int32_t *all[3] = {s->state->left, s->state->right, s->state->parent};
    for (size_t i = 0; i < 3; i++) {
        memcpy(back ? all[i] : s->links + i * nodes, back ? s->links + i * nodes : all[i], nodes * sizeof **all);
    }
}

/* The largest intermediate that is neither an input nor the result; -1 if there is none. */
static int32_t find_waist(const ts_state *state)
{
    int32_t waist = -1;
    for (int32_t node = state->leaves; node < 2 * state->leaves - 1; node++) {
        if (node != state->root && (waist < 0 || state->size[node] > state->size[waist])) {
            waist = node;
        }
    }
    return waist;
}

/* The tensor on the side that `leaf` wants to be on which shares most with it; -1 if none shares anything. */
static int32_t best_neighbour(surgeon *s, int32_t leaf)
{
    const ts_hypergraph *graph = s->state->graph;
    int32_t best = -1;
    for (int pass = 0; pass < 2; pass++) { /* add up, then clear */
        for (int64_t i = graph->tensor_offsets[leaf]; i < graph->tensor_offsets[leaf + 1]; i++) {
            int32_t l = graph->tensor_labels[i];
            for (int64_t j = s->offsets[l]; j < s->offsets[l + 1]; j++) {
                int32_t other = s->pins[j];
                if (pass == 1) {
                    s->shared[other] = 0.0;
                } else if (other != leaf && s->below[other] == s->side[leaf]) {
                    s->shared[other] += graph->log2_extents[l];
                    if (best < 0 || s->shared[other] > s->shared[best]) {
                        best = other;
                    }
                }
            }
        }
    }
    return best;
}

static void put_child(ts_state *state, int32_t parent, int32_t old, int32_t new)
{
    if (parent < 0) {
        state->root = new;
    } else if (state->left[parent] == old) {
        state->left[parent] = new;
    } else {
        state->right[parent] = new;
    }
    state->parent[new] = parent;
}

/* Take a leaf out and put it back as the sibling of another. */
static void move_leaf(ts_state *state, int32_t leaf, int32_t beside)
{
    int32_t p = state->parent[leaf], sibling = state->left[p] == leaf ? state->right[p] : state->left[p];
    if (sibling == beside) {
        return;
    }
    put_child(state, state->parent[p], p, sibling);
    put_child(state, state->parent[beside], beside, p);
    state->left[p] = leaf;
    state->right[p] = beside;
    state->parent[leaf] = state->parent[beside] = p;
}

/* One attempt; false in *better if the tree stays as it was. */
static tensum_status attempt(surgeon *s, const ts_price *price, int32_t width, ts_random *random, ts_budget *budget,
                             bool *better)
{
    ts_state *state = s->state;
    const ts_hypergraph *graph = state->graph;
    tensum_status status;
    int32_t waist = find_waist(state), root = state->root, moved = 0;
    double before = ts_state_price(state, price), cut;
    bool changed;
    *better = false;
    if (waist < 0) {
        return TENSUM_OK;
    }
    memset(s->below, 0, (size_t)state->leaves);
    int32_t inner = ts_state_post_order(state, waist, s->scratch);
    for (int32_t i = 0; i < inner; i++) {
        const int32_t children[2] = {state->left[s->scratch[i]], state->right[s->scratch[i]]};
        for (int k = 0; k < 2; k++) {
            if (children[k] < state->leaves) {
                s->below[children[k]] = 1;
            }
        }
    }
    memcpy(s->side, s->below, (size_t)state->leaves);
    ts_nets nets = {graph->tensor_count, graph->label_count, s->offsets, s->pins, s->net_weights, s->vertex_weights};
    TRY(ts_bisect_refine(&nets, 0.05, s->side, &cut));
    budget->left -= 1.4e-6 * (double)graph->tensor_offsets[graph->tensor_count];
    copy_links(s, false);
    for (int32_t t = 0; t < state->leaves; t++) {
        if (s->side[t] != s->below[t]) {
            int32_t beside = best_neighbour(s, t);
            if (beside >= 0) {
                move_leaf(state, t, beside);
                s->below[t] = s->side[t];
                moved++;
            }
        }
    }
    if (moved == 0) {
        return TENSUM_OK;
    }
    ts_state_refresh(state, s->scratch);
    TRY(ts_reconfigure(state, price, width, random, budget, &changed));
    *better = ts_state_price(state, price) < before - 1e-9;
    if (!*better) {
        copy_links(s, true);
        state->root = root;
        ts_state_refresh(state, s->scratch);
    }
done:
    return status;
}

tensum_status ts_refine_waist(ts_state *state, const ts_price *price, int32_t width, ts_random *random, ts_budget *budget,
                              bool *changed)
{
    enum { MOST = 6 };
    surgeon s = {0};
    bool better = true;
    tensum_status status;
    *changed = false;
    TRY(create(&s, state));
    for (int i = 0; i < MOST && better && state->leaves > 3; i++) {
        TRY(attempt(&s, price, width, random, budget, &better));
        *changed = *changed || better;
        if (!ts_budget_spend(budget, 0.0)) {
            break;
        }
    }
done:
    release(&s);
    return status;
}
