/* Greedy contraction: a heap of candidate pairs. A pair's score never changes while both tensors live: a label that
 * both hold is summed in their step exactly if they are its only holders, and other holders can only vanish into
 * tensors that hold it too. So dead entries are skipped and nothing is ever re-scored. */
#include "order/optimizer.h"

#define NEAR 64 /* holders of one label that a new tensor is paired with: bounds the work of wide hyperedges */

static const char *const what = "greedy contraction order";

typedef struct candidate {
    double score;
    int32_t a, b;
} candidate;

typedef struct greedy {
    const ts_hypergraph *graph;
    double alpha, temperature;
    bool absorb; /* only pairs whose result is no larger than the larger one, by a subset or a tensor of rank <= 2 */
    ts_random random;
    int32_t **lists;   /* [2 n - 1] ascending labels of a living tensor, else NULL */
    int32_t **places;  /* [2 n - 1] where the tensor stands in holders[label], for each of its labels */
    int32_t *lengths;  /* [2 n - 1] */
    double *weights;   /* [2 n - 1] log2 elements */
    int32_t **holders; /* [label_count] living tensors that hold the label */
    int32_t *holder_counts;
    int32_t *holder_storage;
    int32_t *seen; /* [2 n - 1] the last tensor that was paired with this one */
    candidate *heap;
    size_t heap_count, heap_capacity;
} greedy;

static bool before(const candidate *x, const candidate *y)
{
    if (x->score != y->score) {
        return x->score < y->score;
    }
    return x->a != y->a ? x->a < y->a : x->b < y->b;
}

static tensum_status push(greedy *g, candidate entry)
{
    tensum_status status = ts_reserve(g->heap_count + 1, sizeof *g->heap, what, &g->heap_capacity, &g->heap);
    if (status != TENSUM_OK) {
        return status;
    }
    size_t i = g->heap_count++;
    while (i > 0 && before(&entry, &g->heap[(i - 1) / 2])) {
        g->heap[i] = g->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    g->heap[i] = entry;
    return TENSUM_OK;
}

static candidate pop(greedy *g)
{
    candidate top = g->heap[0], last = g->heap[--g->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= g->heap_count) {
            break;
        }
        if (child + 1 < g->heap_count && before(&g->heap[child + 1], &g->heap[child])) {
            child++;
        }
        if (!before(&g->heap[child], &last)) {
            break;
        }
        g->heap[i] = g->heap[child];
        i = child;
    }
    g->heap[i] = last;
    return top;
}

/* log2 elements of the result of contracting a and b, and the number of labels that both hold. */
static double result_weight(const greedy *g, int32_t a, int32_t b, int32_t *common)
{
    const int32_t *x = g->lists[a], *y = g->lists[b];
    const double *extents = g->graph->log2_extents;
    int32_t i = 0, j = 0, n = g->lengths[a], m = g->lengths[b];
    double weight = g->weights[a] + g->weights[b];
    *common = 0;
    while (i < n && j < m) {
        if (x[i] < y[j]) {
            i++;
        } else if (x[i] > y[j]) {
            j++;
        } else {
            int32_t l = x[i];
            bool summed = g->holder_counts[l] == 2 && !g->graph->is_output[l];
            weight -= extents[l] * (summed ? 2.0 : 1.0);
            ++*common;
            i++;
            j++;
        }
    }
    return weight;
}

static tensum_status consider(greedy *g, int32_t a, int32_t b)
{
    int32_t common, smaller = g->lengths[a] < g->lengths[b] ? g->lengths[a] : g->lengths[b];
    double result = result_weight(g, a, b, &common);
    if (g->absorb) {
        bool small = result <= fmax(g->weights[a], g->weights[b]) + 1e-9 && (common == smaller || smaller <= 2);
        return small ? push(g, (candidate){result, a, b}) : TENSUM_OK;
    }
    double top = fmax(result, fmax(g->weights[a], g->weights[b]));
    double growth = exp2(result - top) - g->alpha * (exp2(g->weights[a] - top) + exp2(g->weights[b] - top));
    double score = 0.0;
    if (growth > 0.0) {
        score = 1.0 + fmax(0.0, top + log2(growth));
    } else if (growth < 0.0) {
        score = -1.0 - fmax(0.0, top + log2(-growth));
    }
    if (g->temperature > 0.0) {
        double u = ts_random_unit(&g->random);
        score += g->temperature * log(-log(u + 1e-300) + 1e-300);
    }
    return push(g, (candidate){score, a, b});
}

/* Pair `id` with the tensors that share a label with it; with `older` only with those of smaller id. */
static tensum_status consider_neighbours(greedy *g, int32_t id, bool older)
{
    g->seen[id] = id;
    for (int32_t i = 0; i < g->lengths[id]; i++) {
        int32_t l = g->lists[id][i];
        int32_t count = g->holder_counts[l];
        for (int32_t k = 0; k < count; k++) {
            if (count > NEAR && k == NEAR / 2) {
                k = count - NEAR / 2;
            }
            int32_t other = g->holders[l][k];
            if (g->seen[other] != id && (!older || other < id)) {
                g->seen[other] = id;
                tensum_status status = consider(g, other, id);
                if (status != TENSUM_OK) {
                    return status;
                }
            }
        }
    }
    return TENSUM_OK;
}

static void hold(greedy *g, int32_t id)
{
    for (int32_t i = 0; i < g->lengths[id]; i++) {
        int32_t l = g->lists[id][i];
        g->places[id][i] = g->holder_counts[l];
        g->holders[l][g->holder_counts[l]++] = id;
    }
}

static int32_t find(const int32_t *sorted, int32_t count, int32_t value)
{
    int32_t low = 0;
    while (count > 1) {
        int32_t half = count / 2;
        if (sorted[low + half] <= value) {
            low += half;
            count -= half;
        } else {
            count = half;
        }
    }
    return low;
}

static void let_go(greedy *g, int32_t id)
{
    for (int32_t i = 0; i < g->lengths[id]; i++) {
        int32_t l = g->lists[id][i];
        int32_t last = g->holders[l][--g->holder_counts[l]];
        int32_t place = g->places[id][i];
        if (last != id) {
            g->holders[l][place] = last;
            g->places[last][find(g->lists[last], g->lengths[last], l)] = place;
        }
    }
    ts_free(g->lists[id]);
    ts_free(g->places[id]);
    g->lists[id] = NULL;
    g->places[id] = NULL;
}

static tensum_status contract(greedy *g, int32_t a, int32_t b, int32_t result)
{
    tensum_status status;
    int32_t n = g->lengths[a], m = g->lengths[b], count = 0;
    const int32_t *x = g->lists[a], *y = g->lists[b];
    TRY(ts_allocate((size_t)(n + m), sizeof **g->lists, what, &g->lists[result]));
    int32_t *joined = g->lists[result];
    double weight = 0.0;
    for (int32_t i = 0, j = 0; i < n || j < m;) {
        int32_t l;
        if (j == m || (i < n && x[i] < y[j])) {
            l = x[i++];
        } else if (i == n || y[j] < x[i]) {
            l = y[j++];
        } else {
            l = x[i++];
            j++;
            if (g->holder_counts[l] == 2 && !g->graph->is_output[l]) {
                continue;
            }
        }
        joined[count++] = l;
        weight += g->graph->log2_extents[l];
    }
    g->lengths[result] = count;
    g->weights[result] = weight;
    TRY(ts_allocate((size_t)count, sizeof **g->places, what, &g->places[result]));
    let_go(g, a);
    let_go(g, b);
    hold(g, result);
done:
    return status;
}

static tensum_status start(greedy *g)
{
    const ts_hypergraph *graph = g->graph;
    tensum_status status;
    size_t ids = 2 * (size_t)graph->tensor_count - 1, labels = (size_t)graph->label_count;
    int64_t total = graph->tensor_offsets[graph->tensor_count];
    TRY(ts_allocate_zero(ids, sizeof *g->lists, what, &g->lists));
    TRY(ts_allocate_zero(ids, sizeof *g->places, what, &g->places));
    TRY(ts_allocate_zero(ids, sizeof *g->lengths, what, &g->lengths));
    TRY(ts_allocate(ids, sizeof *g->weights, what, &g->weights));
    TRY(ts_allocate(ids, sizeof *g->seen, what, &g->seen));
    TRY(ts_allocate(labels, sizeof *g->holders, what, &g->holders));
    TRY(ts_allocate_zero(labels, sizeof *g->holder_counts, what, &g->holder_counts));
    TRY(ts_allocate((size_t)total, sizeof *g->holder_storage, what, &g->holder_storage));
    for (size_t id = 0; id < ids; id++) {
        g->seen[id] = -1;
    }
    for (int64_t i = 0; i < total; i++) {
        g->holder_counts[graph->tensor_labels[i]]++;
    }
    int32_t *room = g->holder_storage;
    for (size_t l = 0; l < labels; l++) {
        g->holders[l] = room;
        room += g->holder_counts[l];
    }
    for (int32_t t = 0; t < graph->tensor_count; t++) {
        int64_t first = graph->tensor_offsets[t], count = graph->tensor_offsets[t + 1] - first;
        TRY(ts_allocate((size_t)count, sizeof **g->lists, what, &g->lists[t]));
        TRY(ts_allocate((size_t)count, sizeof **g->places, what, &g->places[t]));
        g->weights[t] = 0.0;
        for (int64_t i = 0; i < count; i++) {
            int32_t l = graph->tensor_labels[first + i];
            if (g->holder_counts[l] > 1 || graph->is_output[l]) {
                g->lists[t][g->lengths[t]++] = l;
                g->weights[t] += graph->log2_extents[l];
            }
        }
    }
    for (size_t l = 0; l < labels; l++) {
        g->holder_counts[l] = 0;
    }
    for (int32_t t = 0; t < graph->tensor_count; t++) {
        hold(g, t);
    }
    for (int32_t t = 0; t < graph->tensor_count; t++) {
        TRY(consider_neighbours(g, t, true));
    }
done:
    return status;
}

static void release(greedy *g)
{
    for (int32_t id = 0; id < 2 * g->graph->tensor_count - 1; id++) {
        if (g->lists != NULL) {
            ts_free(g->lists[id]);
        }
        if (g->places != NULL) {
            ts_free(g->places[id]);
        }
    }
    ts_free(g->lists);
    ts_free(g->places);
    ts_free(g->lengths);
    ts_free(g->weights);
    ts_free(g->seen);
    ts_free(g->holders);
    ts_free(g->holder_counts);
    ts_free(g->holder_storage);
    ts_free(g->heap);
}

/* Contract candidates while there are any; *made becomes the number of ids. */
static tensum_status exhaust(greedy *g, int32_t *pairs, int32_t *made)
{
    int32_t n = g->graph->tensor_count;
    tensum_status status = TENSUM_OK;
    while (g->heap_count > 0) {
        candidate best = pop(g);
        if (g->lists[best.a] == NULL || g->lists[best.b] == NULL) {
            continue;
        }
        TRY(contract(g, best.a, best.b, *made));
        pairs[2 * (*made - n)] = best.a;
        pairs[2 * (*made - n) + 1] = best.b;
        TRY(consider_neighbours(g, *made, false));
        ++*made;
    }
done:
    return status;
}

tensum_status ts_greedy(const ts_hypergraph *graph, double alpha, double temperature, uint64_t seed, int32_t *pairs)
{
    greedy g = {.graph = graph, .alpha = alpha, .temperature = temperature};
    tensum_status status;
    int32_t n = graph->tensor_count, made = n;
    if (n < 2) {
        return TENSUM_OK;
    }
    ts_random_seed(&g.random, seed);
    TRY(start(&g));
    TRY(exhaust(&g, pairs, &made));
    /* What is left shares no label: join the two smallest until one remains. */
    for (int32_t id = 0; id < made; id++) {
        if (g.lists[id] != NULL) {
            TRY(push(&g, (candidate){g.weights[id], id, id}));
        }
    }
    while (g.heap_count > 1) {
        candidate x = pop(&g), y = pop(&g);
        TRY(contract(&g, x.a, y.a, made));
        pairs[2 * (made - n)] = x.a;
        pairs[2 * (made - n) + 1] = y.a;
        TRY(push(&g, (candidate){g.weights[made], made, made}));
        made++;
    }
done:
    release(&g);
    return status;
}

tensum_status ts_absorb(const ts_hypergraph *graph, int32_t *pairs, int32_t *step_count, int32_t *left,
                        int64_t *offsets, int32_t **labels)
{
    greedy g = {.graph = graph, .absorb = true};
    int32_t *kept = NULL, n = graph->tensor_count, made = n;
    tensum_status status;
    TRY(start(&g));
    TRY(exhaust(&g, pairs, &made));
    int64_t total = 0;
    int32_t count = 0;
    for (int32_t id = 0; id < made; id++) {
        total += g.lists[id] != NULL ? g.lengths[id] : 0;
    }
    TRY(ts_allocate((size_t)total, sizeof *kept, what, &kept));
    total = 0;
    for (int32_t id = 0; id < made; id++) {
        if (g.lists[id] != NULL) {
            left[count] = id;
            offsets[count++] = total;
            memcpy(kept + total, g.lists[id], (size_t)g.lengths[id] * sizeof *kept);
            total += g.lengths[id];
        }
    }
    offsets[count] = total;
    *step_count = made - n;
    *labels = kept;
done:
    release(&g);
    return status;
}
