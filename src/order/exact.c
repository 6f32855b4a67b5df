#include "order/exact.h"

static const char *const what = "exact contraction order";

tensum_status ts_exact_create(ts_exact *exact, int32_t most)
{
    tensum_status status;
    size_t sets = (size_t)1 << most;
    *exact = (ts_exact){.most = most};
    TRY(ts_allocate(sets, sizeof *exact->inner, what, &exact->inner));
    TRY(ts_allocate(sets, sizeof *exact->outer, what, &exact->outer));
    TRY(ts_allocate(sets, sizeof *exact->size, what, &exact->size));
    TRY(ts_allocate(sets, sizeof *exact->joint, what, &exact->joint));
    TRY(ts_allocate(sets, sizeof *exact->part, what, &exact->part));
    TRY(ts_allocate(sets, sizeof *exact->cost, what, &exact->cost));
    TRY(ts_allocate(sets, sizeof *exact->split, what, &exact->split));
done:
    return status;
}

void ts_exact_free(ts_exact *exact)
{
    ts_free(exact->inner);
    ts_free(exact->outer);
    ts_free(exact->size);
    ts_free(exact->joint);
    ts_free(exact->part);
    ts_free(exact->cost);
    ts_free(exact->split);
    *exact = (ts_exact){0};
}

void ts_exact_start(ts_exact *exact, int32_t count)
{
    exact->count = count;
    memset(exact->inner, 0, sizeof *exact->inner << count);
    memset(exact->outer, 0, sizeof *exact->outer << count);
}

double ts_exact_work(int32_t count) { return 2e-6 + 1.5e-9 * pow(3.0, count); }

/* table[S] becomes the sum over subsets of S. */
static void sum_subsets(double *table, int32_t count)
{
    for (uint32_t bit = 1; bit < 1u << count; bit *= 2) {
        for (uint32_t set = 0; set < 1u << count; set++) {
            if (set & bit) {
                table[set] += table[set ^ bit];
            }
        }
    }
}

double ts_exact_solve(ts_exact *exact, const ts_price *price, double bound)
{
    int32_t count = exact->count;
    uint32_t all = (1u << count) - 1;
    double *inner = exact->inner, *outer = exact->outer;
    sum_subsets(inner, count);
    sum_subsets(outer, count);
    /* Prices are taken relative to the bound, or to the biggest step there can be. */
    double reference = isfinite(bound) ? bound : inner[all] + outer[all] + price->pairs;
    bool wide = inner[all] > 900.0; /* the factors would leave the range of a double: take powers step by step */
    for (uint32_t set = 1; set <= all; set++) {
        exact->size[set] = inner[all] - inner[all & ~set] - inner[set] + outer[all] - outer[all & ~set];
        exact->joint[set] = exact->size[set] + inner[set] + price->pairs - reference;
        exact->part[set] = -inner[set];
        if (!wide) {
            exact->joint[set] = exp2(exact->joint[set]);
            exact->part[set] = exp2(exact->part[set]);
        }
    }
    double limit = isfinite(bound) ? 1.0 : INFINITY;
    for (uint32_t set = 1; set <= all; set++) {
        if ((set & (set - 1)) == 0) {
            exact->cost[set] = 0.0;
            continue;
        }
        double own = set != all ? ts_size_price(price, exact->size[set], reference) : 0.0;
        exact->cost[set] = INFINITY;
        if (own > limit || exp2(exact->size[set] + price->pairs - reference) > limit) {
            continue; /* a step is never smaller than its result */
        }
        double best = INFINITY;
        uint32_t chosen = 0, low = set & (0 - set), rest = set ^ low;
        if (wide) {
            for (uint32_t b = rest; b != 0; b = (b - 1) & rest) {
                uint32_t a = set ^ b;
                double cost = exact->cost[a] + exact->cost[b];
                if (cost < best) {
                    cost += exp2(exact->joint[set] + exact->part[a] + exact->part[b]);
                    if (cost < best) {
                        best = cost;
                        chosen = a;
                    }
                }
            }
        } else {
            const double *cost_of = exact->cost, *part = exact->part;
            double joint = exact->joint[set];
            for (uint32_t b = rest; b != 0; b = (b - 1) & rest) {
                uint32_t a = set ^ b;
                double cost = cost_of[a] + cost_of[b] + joint * part[a] * part[b];
                if (cost < best) {
                    best = cost;
                    chosen = a;
                }
            }
        }
        if (best + own <= limit) {
            exact->cost[set] = best + own;
            exact->split[set] = chosen;
        }
    }
    return isfinite(exact->cost[all]) ? reference + log2(exact->cost[all]) : INFINITY;
}

tensum_status ts_exact_order(const ts_hypergraph *graph, const ts_price *price, double bound, int32_t *pairs,
                             double *best)
{
    ts_exact exact = {0};
    uint32_t *sets = NULL;
    int32_t n = graph->tensor_count;
    tensum_status status;
    if (n > TS_EXACT_MOST) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "the exact order of %d tensors cannot be had, at most %d", n,
                       (int)TS_EXACT_MOST);
    }
    *best = 0.0;
    if (n < 2) {
        return TENSUM_OK;
    }
    TRY(ts_exact_create(&exact, n));
    TRY(ts_allocate_zero((size_t)graph->label_count, sizeof *sets, what, &sets));
    ts_exact_start(&exact, n);
    for (int32_t t = 0; t < n; t++) {
        for (int64_t i = graph->tensor_offsets[t]; i < graph->tensor_offsets[t + 1]; i++) {
            sets[graph->tensor_labels[i]] |= 1u << t;
        }
    }
    for (int32_t l = 0; l < graph->label_count; l++) {
        if (graph->is_output[l]) {
            exact.outer[sets[l]] += graph->log2_extents[l];
        } else if ((sets[l] & (sets[l] - 1)) != 0) { /* the others are summed before any step */
            exact.inner[sets[l]] += graph->log2_extents[l];
        }
    }
    exact.outer[0] = 0.0;
    double found = ts_exact_solve(&exact, price, bound);
    *best = found;
    if (!isfinite(found)) {
        goto done;
    }
    /* Children get higher step numbers first, then all are turned round: parents come last in SSA form. */
    uint32_t stack[TS_EXACT_MOST], order[TS_EXACT_MOST];
    int32_t depth = 0, steps = 0;
    stack[depth++] = (1u << n) - 1;
    while (depth > 0) {
        uint32_t set = stack[--depth];
        if ((set & (set - 1)) != 0) {
            order[steps++] = set;
            stack[depth++] = exact.split[set];
            stack[depth++] = set ^ exact.split[set];
        }
    }
    for (int32_t s = 0; s < steps; s++) {
        uint32_t set = order[steps - 1 - s];
        uint32_t halves[2] = {exact.split[set], set ^ exact.split[set]};
        for (int i = 0; i < 2; i++) {
            int32_t id = __builtin_ctz(halves[i]);
            for (int32_t k = 0; (halves[i] & (halves[i] - 1)) != 0 && k < s; k++) {
                if (order[steps - 1 - k] == halves[i]) {
                    id = n + k;
                }
            }
            pairs[2 * s + i] = id;
        }
    }
done:
    ts_exact_free(&exact);
    ts_free(sets);
    return status;
}
