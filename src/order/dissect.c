#include "order/dissect.h"

#include "order/exact.h"
#include "order/metis.h"
#include "order/state.h"

static const char *const what = "nested dissection";

enum { SMALL = 8 }; /* tensors of a part whose best order is found by trying all */

typedef struct piece {
    int32_t node, first, count; /* its inner node; its tensors are members[first .. first + count) */
} piece;

typedef struct dissector {
    const ts_hypergraph *graph;
    ts_price price;
    double imbalance, outer;
    bool metis;
    ts_random random;
    int32_t *counts;  /* [label_count] tensors that hold a label */
    int32_t *members; /* [n] tensors, piece by piece */
    int32_t *swap;    /* [n] */
    int32_t *left, *right, made;
    ts_part_maker maker;
    const int32_t **lists;
    int32_t *lengths;
    uint8_t *side;
    int64_t *offsets; /* nets of the piece at hand */
    int32_t *pins;
    double *net_weights, *vertex_weights;
} dissector;

static tensum_status make_part(dissector *d, const piece *p, ts_hypergraph *part)
{
    for (int32_t i = 0; i < p->count; i++) {
        int32_t t = d->members[p->first + i];
        d->lists[i] = d->graph->tensor_labels + d->graph->tensor_offsets[t];
        d->lengths[i] = (int32_t)(d->graph->tensor_offsets[t + 1] - d->graph->tensor_offsets[t]);
    }
    return ts_part_make(&d->maker, d->graph, d->counts, p->count, d->lists, d->lengths, part);
}

/* The best order of a small part, under the part's own node. */
static tensum_status solve_small(dissector *d, const piece *p, const ts_hypergraph *part)
{
    int32_t pairs[2 * SMALL], nodes[SMALL], n = d->graph->tensor_count;
    double best;
    tensum_status status;
    TRY(ts_exact_order(part, &d->price, INFINITY, pairs, &best));
    for (int32_t s = 0; s < p->count - 1; s++) {
        nodes[s] = s == p->count - 2 ? p->node : n + d->made++;
        int32_t children[2];
        for (int i = 0; i < 2; i++) {
            int32_t id = pairs[2 * s + i];
            children[i] = id < p->count ? d->members[p->first + id] : nodes[id - p->count];
        }
        d->left[nodes[s]] = children[0];
        d->right[nodes[s]] = children[1];
    }
done:
    return status;
}

static tensum_status cut(dissector *d, const piece *p, const ts_hypergraph *part, int32_t *left_count)
{
    double weight;
    tensum_status status;
    int64_t total = part->tensor_offsets[part->tensor_count];
    /* Nets are labels: count, then place from the back of each. */
    memset(d->offsets, 0, ((size_t)part->label_count + 1) * sizeof *d->offsets);
    for (int64_t i = 0; i < total; i++) {
        d->offsets[part->tensor_labels[i]]++;
    }
    for (int32_t l = 1; l <= part->label_count; l++) {
        d->offsets[l] += d->offsets[l - 1];
    }
    for (int32_t t = part->tensor_count - 1; t >= 0; t--) {
        d->vertex_weights[t] = 1.0;
        for (int64_t i = part->tensor_offsets[t]; i < part->tensor_offsets[t + 1]; i++) {
            d->pins[--d->offsets[part->tensor_labels[i]]] = t;
        }
    }
    for (int32_t l = 0; l < part->label_count; l++) {
        d->net_weights[l] = part->log2_extents[l] * (part->is_output[l] ? d->outer : 1.0);
    }
    ts_nets nets = {part->tensor_count, part->label_count, d->offsets, d->pins, d->net_weights, d->vertex_weights};
    double imbalance = d->imbalance * (0.5 + ts_random_unit(&d->random));
    if (d->metis) {
        TRY(ts_metis_bisect(&nets, imbalance, ts_random_next(&d->random), d->side));
    } else {
        TRY(ts_bisect(&nets, imbalance, &d->random, d->side, &weight));
    }
    int32_t low = 0, high = p->count;
    for (int32_t i = 0; i < p->count; i++) {
        d->swap[d->side[i] == 0 ? low++ : --high] = d->members[p->first + i];
    }
    if (low == 0 || low == p->count) {
        low = p->count / 2; /* nothing to go by: halve */
    }
    memcpy(d->members + p->first, d->swap, (size_t)p->count * sizeof *d->swap);
    *left_count = low;
done:
    return status;
}

static tensum_status create(dissector *d)
{
    const ts_hypergraph *graph = d->graph;
    tensum_status status;
    size_t n = (size_t)graph->tensor_count, labels = (size_t)graph->label_count;
    int64_t total = graph->tensor_offsets[n];
    TRY(ts_part_maker_create(graph->label_count, &d->maker));
    TRY(ts_allocate_zero(labels, sizeof *d->counts, what, &d->counts));
    TRY(ts_allocate(n, sizeof *d->members, what, &d->members));
    TRY(ts_allocate(n, sizeof *d->swap, what, &d->swap));
    TRY(ts_allocate(2 * n, sizeof *d->left, what, &d->left));
    TRY(ts_allocate(2 * n, sizeof *d->right, what, &d->right));
    TRY(ts_allocate(n, sizeof *d->lists, what, &d->lists));
    TRY(ts_allocate(n, sizeof *d->lengths, what, &d->lengths));
    TRY(ts_allocate(n, 1, what, &d->side));
    TRY(ts_allocate(labels + 1, sizeof *d->offsets, what, &d->offsets));
    TRY(ts_allocate((size_t)total, sizeof *d->pins, what, &d->pins));
    TRY(ts_allocate(labels, sizeof *d->net_weights, what, &d->net_weights));
    TRY(ts_allocate(n, sizeof *d->vertex_weights, what, &d->vertex_weights));
    for (int64_t i = 0; i < total; i++) {
        d->counts[graph->tensor_labels[i]]++;
    }
    for (size_t t = 0; t < n; t++) {
        d->members[t] = (int32_t)t;
    }
done:
    return status;
}

static void release(dissector *d)
{
    ts_part_maker_free(&d->maker);
    ts_free(d->counts);
    ts_free(d->members);
    ts_free(d->swap);
    ts_free(d->left);
    ts_free(d->right);
    ts_free(d->lists);
    ts_free(d->lengths);
    ts_free(d->side);
    ts_free(d->offsets);
    ts_free(d->pins);
    ts_free(d->net_weights);
    ts_free(d->vertex_weights);
}

tensum_status ts_dissect(const ts_hypergraph *graph, double imbalance, double outer, bool metis, uint64_t seed,
                         ts_budget *budget, int32_t *pairs, bool *found)
{
    dissector d = {.graph = graph, .price = TS_PRICE_FLOPS, .imbalance = imbalance, .outer = outer, .metis = metis};
    ts_hypergraph part = {0};
    piece *stack = NULL;
    int32_t *scratch = NULL, depth = 0, n = graph->tensor_count;
    tensum_status status;
    *found = true;
    if (n < 2) {
        return TENSUM_OK;
    }
    ts_random_seed(&d.random, seed);
    TRY(create(&d));
    TRY(ts_allocate((size_t)n, sizeof *stack, what, &stack));
    stack[depth++] = (piece){n + d.made++, 0, n};
    while (depth > 0) {
        piece p = stack[--depth];
        TRY(make_part(&d, &p, &part));
        double pins = (double)part.tensor_offsets[part.tensor_count];
        if (p.count <= SMALL) {
            TRY(solve_small(&d, &p, &part));
        } else {
            int32_t low;
            TRY(cut(&d, &p, &part, &low));
            piece halves[2] = {{0, p.first, low}, {0, p.first + low, p.count - low}};
            int32_t *links[2] = {&d.left[p.node], &d.right[p.node]};
            for (int i = 0; i < 2; i++) {
                if (halves[i].count == 1) {
                    *links[i] = d.members[halves[i].first];
                } else {
                    *links[i] = halves[i].node = n + d.made++;
                    stack[depth++] = halves[i];
                }
            }
        }
        ts_hypergraph_free(&part);
        if (!ts_budget_spend(budget, 1.4e-6 * pins)) {
            *found = false;
            goto done;
        }
    }
    TRY(ts_allocate(2 * (size_t)n - 1, sizeof *scratch, what, &scratch));
    ts_links_to_pairs(n, d.left, d.right, n, scratch, pairs);
done:
    ts_hypergraph_free(&part);
    release(&d);
    ts_free(stack);
    ts_free(scratch);
    return status;
}
