#include "order/anneal.h"

#define LUCK 1024 /* prepared random thresholds; a power of two */

static const char *const what = "annealing of a contraction order";

/* Seconds that one trial takes: what a unit of work is measured in. */
static double trial_work(const ts_state *state)
{
    return 7e-8 + 1e-9 * state->layout.words + 4e-9 * (state->layout.class_count - 1);
}

double ts_state_price(const ts_state *state, const ts_price *price)
{
    /* Relative to the largest step and intermediate, which keeps all terms in range. */
    double reference = -INFINITY, total = 0.0;
    for (int32_t node = state->leaves; node < 2 * state->leaves - 1; node++) {
        reference = fmax(reference, state->step[node] + price->pairs);
        reference = fmax(reference, price->power * state->size[node] + price->moved);
        if (state->size[node] > price->limit) {
            reference = fmax(reference, price->penalty + 2.0 * (state->size[node] - price->limit));
        }
    }
    for (int32_t node = state->leaves; node < 2 * state->leaves - 1; node++) {
        total += ts_step_price(price, state->step[node], reference);
        total += node != state->root ? ts_size_price(price, state->size[node], reference) : 0.0;
    }
    return reference + log2(total);
}

typedef struct annealer {
    ts_state *state;
    const ts_price *price;
    double reference; /* log2 of the unit of the linear prices below */
    double *step_price, *size_price; /* [2 n - 1] */
    double luck[LUCK]; /* log2 of 1 / u of uniform u, whose power T is what a price may grow by */
    double allowed[LUCK];
} annealer;

static double price_all(annealer *a)
{
    double total = 0.0;
    ts_state *state = a->state;
    for (int32_t node = state->leaves; node < 2 * state->leaves - 1; node++) {
        a->step_price[node] = ts_step_price(a->price, state->step[node], a->reference);
        a->size_price[node] = node != state->root ? ts_size_price(a->price, state->size[node], a->reference) : 0.0;
        total += a->step_price[node] + a->size_price[node];
    }
    return total;
}

/* Put (p, y) in place of x = (p, q) below v = (x, y). */
static void rotate(ts_state *state, int32_t v, int32_t x, int32_t y, int32_t p, int32_t q)
{
    state->left[x] = p;
    state->right[x] = y;
    state->parent[y] = x;
    state->left[v] = x;
    state->right[v] = q;
    state->parent[q] = v;
    uint64_t *bits_x = ts_state_bits(state, x);
    const uint64_t *bits_p = ts_state_bits(state, p), *bits_y = ts_state_bits(state, y);
    const uint64_t *bits_q = ts_state_bits(state, q), *bits_v = ts_state_bits(state, v);
    for (int32_t w = 0; w < state->layout.words; w++) {
        bits_x[w] = (bits_p[w] | bits_y[w]) & (bits_q[w] | bits_v[w]);
    }
}

static double sweep(annealer *a, ts_random *random)
{
    ts_state *state = a->state;
    int32_t n = state->leaves;
    double change = 0.0;
    for (int32_t v = n; v < 2 * n - 1; v++) {
        uint64_t dice = ts_random_next(random);
        int32_t x = state->left[v], y = state->right[v];
        if (x < n || (y >= n && (dice & 1) != 0)) {
            int32_t swap = x;
            x = y;
            y = swap;
            if (x < n) {
                continue;
            }
        }
        int32_t p = state->left[x], q = state->right[x];
        if ((dice & 2) != 0) {
            int32_t swap = p;
            p = q;
            q = swap;
        }
        ts_trial trial;
        state->trial(&state->layout, ts_state_bits(state, p), ts_state_bits(state, y), ts_state_bits(state, q),
                     ts_state_bits(state, v), &trial);
        double inner = ts_step_price(a->price, trial.inner, a->reference);
        double outer = ts_step_price(a->price, trial.outer, a->reference);
        double size = ts_size_price(a->price, trial.size, a->reference);
        double old = a->step_price[v] + a->step_price[x] + a->size_price[x];
        double new = inner + outer + size;
        if (new <= old * a->allowed[(dice >> 2) % LUCK]) {
            rotate(state, v, x, y, p, q);
            state->step[x] = trial.inner;
            state->size[x] = trial.size;
            state->step[v] = trial.outer;
            a->step_price[x] = inner;
            a->size_price[x] = size;
            a->step_price[v] = outer;
            change += new - old;
        }
    }
    return change;
}

static void keep_links(const ts_state *state, int32_t *links)
{
    size_t nodes = 2 * (size_t)state->leaves - 1;
    memcpy(links, state->left, nodes * sizeof *links);
    memcpy(links + nodes, state->right, nodes * sizeof *links);
    memcpy(links + 2 * nodes, state->parent, nodes * sizeof *links);
}

tensum_status ts_anneal(ts_state *state, const ts_price *price, double hot, double cold, ts_random *random,
                        ts_budget *budget, double *best)
{
    annealer a = {.state = state, .price = price};
    int32_t *links = NULL, *scratch = NULL;
    tensum_status status;
    size_t n = (size_t)state->leaves, nodes = 2 * n - 1;
    TRY(ts_allocate(nodes, sizeof *a.step_price, what, &a.step_price));
    TRY(ts_allocate(nodes, sizeof *a.size_price, what, &a.size_price));
    TRY(ts_allocate(3 * nodes, sizeof *links, what, &links));
    TRY(ts_allocate(nodes, sizeof *scratch, what, &scratch));
    a.reference = ts_state_price(state, price);
    for (int i = 0; i < LUCK; i++) {
        a.luck[i] = -log2(ts_random_unit(random) + 1e-300);
    }
    double total = price_all(&a), lowest = total;
    bool more = true;
    double work = trial_work(state) * (double)n;
    keep_links(state, links);
    /* The temperature changes about 60 times, but not so often that preparing it would count. */
    double preparing = 8e-9 * LUCK + 1e-8 * (double)n, rare = preparing / (0.2 * work);
    int64_t every = (int64_t)fmax(fmax(1.0, rare), fmin(budget->left / work / 60.0, 16.0 + 1e5 / (double)n));
    for (int64_t s = 0; more; s++) {
        if (s % every == 0) {
            double temperature = hot * pow(cold / hot, ts_budget_used(budget));
            for (int i = 0; i < LUCK; i++) {
                a.allowed[i] = exp2(a.luck[i] * temperature);
            }
            budget->left -= preparing;
            total = price_all(&a); /* rounding errors do not pile up */
        }
        total += sweep(&a, random);
        more = ts_budget_spend(budget, work);
        if (total < lowest * (1.0 - 1e-9)) {
            lowest = total;
            keep_links(state, links);
        }
    }
    memcpy(state->left, links, nodes * sizeof *links);
    memcpy(state->right, links + nodes, nodes * sizeof *links);
    memcpy(state->parent, links + 2 * nodes, nodes * sizeof *links);
    ts_state_refresh(state, scratch);
    *best = ts_state_price(state, price);
done:
    ts_free(a.step_price);
    ts_free(a.size_price);
    ts_free(links);
    ts_free(scratch);
    return status;
}
