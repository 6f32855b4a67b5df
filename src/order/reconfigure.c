/* Subtree reconfiguration: the best subtree over a handful of neighbouring nodes, node after node. */
#include "order/exact.h"

static const char *const what = "reconfiguration of a contraction order";

typedef struct window {
    ts_state *state;
    const ts_price *price;
    ts_exact exact;
    uint32_t *sets;    /* [bits] which frontier nodes hold a label; zero between uses */
    int32_t *touched;  /* [bits] */
    int32_t frontier[TS_EXACT_MOST], inside[TS_EXACT_MOST]; /* nodes below the window, nodes of it (top first) */
    int32_t frontier_count, inside_count;
} window;

/* Grow the window from `top` by opening its largest, sometimes a random, frontier node. */
static void open_window(window *w, int32_t top, int32_t width, ts_random *random)
{
    const ts_state *state = w->state;
    w->inside[0] = top;
    w->inside_count = 1;
    w->frontier[0] = state->left[top];
    w->frontier[1] = state->right[top];
    w->frontier_count = 2;
    bool at_random = (ts_random_next(random) & 3) == 0;
    while (w->frontier_count < width) {
        int32_t chosen = -1;
        double best = -1.0;
        for (int32_t i = 0; i < w->frontier_count; i++) {
            int32_t node = w->frontier[i];
            if (node >= state->leaves) {
                double score = at_random ? ts_random_unit(random) : state->size[node];
                if (score > best) {
                    best = score;
                    chosen = i;
                }
            }
        }
        if (chosen < 0) {
            return;
        }
        int32_t node = w->frontier[chosen];
        w->inside[w->inside_count++] = node;
        w->frontier[chosen] = state->left[node];
        w->frontier[w->frontier_count++] = state->right[node];
    }
}

static void fill(window *w, int32_t top)
{
    const ts_state *state = w->state;
    const uint64_t *needed = ts_state_bits(state, top);
    int32_t touched = 0;
    ts_exact_start(&w->exact, w->frontier_count);
    for (int32_t i = 0; i < w->frontier_count; i++) {
        const uint64_t *bits = ts_state_bits(state, w->frontier[i]);
        for (int32_t word = 0; word < state->layout.words; word++) {
            for (uint64_t left = bits[word]; left != 0; left &= left - 1) {
                int32_t bit = 64 * word + __builtin_ctzll(left);
                if (w->sets[bit] == 0) {
                    w->touched[touched++] = bit;
                }
                w->sets[bit] |= 1u << i;
            }
        }
    }
    for (int32_t i = 0; i < touched; i++) {
        int32_t bit = w->touched[i];
        double weight = state->layout.word_weight[bit / 64];
        bool outer = (needed[bit / 64] >> (bit % 64) & 1) != 0;
        (outer ? w->exact.outer : w->exact.inner)[w->sets[bit]] += weight;
        w->sets[bit] = 0;
    }
}

/* Link the window's nodes to the tree that was found, the top one keeping its place. */
static void rebuild(window *w)
{
    ts_state *state = w->state;
    uint32_t set_of[TS_EXACT_MOST];
    bool is_inside[TS_EXACT_MOST][2];
    int32_t used = 1, words = state->layout.words;
    set_of[0] = (1u << w->frontier_count) - 1;
    for (int32_t i = 0; i < w->inside_count; i++) {
        int32_t node = w->inside[i], children[2];
        uint32_t halves[2] = {w->exact.split[set_of[i]], set_of[i] ^ w->exact.split[set_of[i]]};
        for (int k = 0; k < 2; k++) {
            is_inside[i][k] = (halves[k] & (halves[k] - 1)) != 0;
            if (is_inside[i][k]) {
                set_of[used] = halves[k];
                children[k] = w->inside[used++];
            } else {
                children[k] = w->frontier[__builtin_ctz(halves[k])];
            }
            state->parent[children[k]] = node;
        }
        state->left[node] = children[0];
        state->right[node] = children[1];
    }
    /* inside[] is parents first: unions from the back, then what is needed outside from the front. */
    for (int32_t i = w->inside_count - 1; i > 0; i--) {
        uint64_t *bits = ts_state_bits(state, w->inside[i]);
        const uint64_t *x = ts_state_bits(state, state->left[w->inside[i]]);
        const uint64_t *y = ts_state_bits(state, state->right[w->inside[i]]);
        for (int32_t k = 0; k < words; k++) {
            bits[k] = x[k] | y[k];
        }
    }
    for (int32_t i = 0; i < w->inside_count; i++) {
        ts_state_settle(state, w->inside[i], is_inside[i][0], is_inside[i][1]);
    }
}

/* true if the subtree over the window at `top` was replaced by a cheaper one */
static bool improve(window *w, int32_t top, int32_t width, ts_random *random)
{
    const ts_state *state = w->state;
    double reference = -INFINITY, old = 0.0;
    open_window(w, top, width, random);
    if (w->frontier_count < 3) {
        return false;
    }
    for (int32_t i = 0; i < w->inside_count; i++) {
        int32_t node = w->inside[i];
        reference = fmax(reference, state->step[node] + w->price->pairs);
        reference = fmax(reference, i > 0 ? w->price->power * state->size[node] + w->price->moved : reference);
    }
    for (int32_t i = 0; i < w->inside_count; i++) {
        int32_t node = w->inside[i];
        old += ts_step_price(w->price, state->step[node], reference);
        old += i > 0 ? ts_size_price(w->price, state->size[node], reference) : 0.0;
    }
    double bound = reference + log2(old * (1.0 - 1e-9));
    fill(w, top);
    if (!isfinite(ts_exact_solve(&w->exact, w->price, bound))) {
        return false;
    }
    rebuild(w);
    return true;
}

/* Windows that may reach into the one just changed: its nodes, those below, and a few above. */
static void unsettle(const window *w, uint8_t *settled)
{
    for (int32_t i = 0; i < w->inside_count; i++) {
        settled[w->inside[i]] = 0;
    }
    for (int32_t i = 0; i < w->frontier_count; i++) {
        settled[w->frontier[i]] = 0;
    }
    int32_t node = w->inside[0];
    for (int32_t up = 0; up < 5 && node >= 0; up++) {
        settled[node] = 0;
        node = w->state->parent[node];
    }
}

tensum_status ts_reconfigure(ts_state *state, const ts_price *price, int32_t width, ts_random *random,
                             ts_budget *budget, bool *changed)
{
    window w = {.state = state, .price = price};
    int32_t *order = NULL;
    uint8_t *settled = NULL; /* nothing near changed since the window at this node was tried */
    tensum_status status;
    size_t bits = 64 * (size_t)state->layout.words;
    *changed = false;
    TRY(ts_exact_create(&w.exact, width));
    TRY(ts_allocate_zero(bits, sizeof *w.sets, what, &w.sets));
    TRY(ts_allocate(bits, sizeof *w.touched, what, &w.touched));
    TRY(ts_allocate(2 * (size_t)state->leaves - 1, sizeof *order, what, &order));
    TRY(ts_allocate_zero(2 * (size_t)state->leaves - 1, 1, what, &settled));
    bool again = true;
    while (again) {
        again = false;
        int32_t count = ts_state_post_order(state, state->root, order);
        for (int32_t i = count - 1; i >= 0; i--) {
            int32_t top = order[i];
            if (settled[top]) {
                continue;
            }
            settled[top] = 1;
            if (improve(&w, top, width, random)) {
                again = *changed = true;
                unsettle(&w, settled);
            }
            double work = ts_exact_work(w.frontier_count) + 8e-8 * state->layout.words;
            if (!ts_budget_spend(budget, work)) {
                goto done;
            }
        }
    }
done:
    ts_exact_free(&w.exact);
    ts_free(w.sets);
    ts_free(w.touched);
    ts_free(order);
    ts_free(settled);
    return status;
}
