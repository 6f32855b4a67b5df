#include "order/eliminate.h"

#include <stdlib.h>

static const char *const what = "elimination order";

typedef struct entry {
    double score;
    int32_t label;
} entry;

typedef struct eliminator {
    const ts_hypergraph *graph;
    ts_elimination rule;
    double noise;
    ts_random random;
    int32_t **lists; /* [2 n - 1] labels of living tensors, ascending */
    int32_t *lengths;
    int32_t **holders; /* [label_count] ids of living tensors */
    int32_t *holder_counts;
    int32_t *holder_storage;
    double *blur;      /* [label_count] */
    uint64_t *adjacent; /* [label_count][words], for minimum fill */
    size_t words;
    int32_t *mark; /* [label_count] last visit */
    int32_t visit;
    int32_t *near; /* [label_count] neighbours found by the last visit */
    int32_t near_count;
    entry *heap;
    int32_t heap_count;
    int32_t *where; /* [label_count] place in the heap, -1 outside */
    int32_t made;
    int32_t *pairs;
    double work; /* done */
} eliminator;

/* ---- a heap whose entries can move ---- */

static bool before(const entry *x, const entry *y)
{
    return x->score != y->score ? x->score < y->score : x->label < y->label;
}

static void sift(eliminator *e, int32_t i)
{
    entry moved = e->heap[i];
    while (i > 0 && before(&moved, &e->heap[(i - 1) / 2])) {
        e->heap[i] = e->heap[(i - 1) / 2];
        e->where[e->heap[i].label] = i;
        i = (i - 1) / 2;
    }
    for (;;) {
        int32_t child = 2 * i + 1;
        if (child >= e->heap_count) {
            break;
        }
        child += child + 1 < e->heap_count && before(&e->heap[child + 1], &e->heap[child]);
        if (!before(&e->heap[child], &moved)) {
            break;
        }
        e->heap[i] = e->heap[child];
        e->where[e->heap[i].label] = i;
        i = child;
    }
    e->heap[i] = moved;
    e->where[moved.label] = i;
}

static void set_score(eliminator *e, int32_t label, double score)
{
    int32_t i = e->where[label];
    if (i < 0) {
        i = e->heap_count++;
    }
    e->heap[i] = (entry){score, label};
    e->where[label] = i;
    sift(e, i);
}

static void take_out(eliminator *e, int32_t label)
{
    int32_t i = e->where[label];
    if (i < 0) {
        return;
    }
    e->where[label] = -1;
    if (i != --e->heap_count) {
        e->heap[i] = e->heap[e->heap_count];
        e->where[e->heap[i].label] = i;
        sift(e, i);
    }
}

/* ---- scores ---- */

/* Collects the labels that meet `label`, itself included; returns their weight. */
static double neighbours(eliminator *e, int32_t label)
{
    double weight = 0.0;
    e->visit++;
    e->near_count = 0;
    for (int32_t k = 0; k < e->holder_counts[label]; k++) {
        int32_t id = e->holders[label][k];
        for (int32_t i = 0; i < e->lengths[id]; i++) {
            int32_t l = e->lists[id][i];
            if (e->mark[l] != e->visit) {
                e->mark[l] = e->visit;
                e->near[e->near_count++] = l;
                weight += e->graph->log2_extents[l];
            }
        }
        e->work += 4e-9 * e->lengths[id];
    }
    return weight;
}

static double score_of(eliminator *e, int32_t label)
{
    double score = neighbours(e, label);
    if (e->rule == TS_MINIMUM_FILL) {
        /* Pairs of neighbours that do not meet yet, ordered pairs, each weighed by one end. */
        uint64_t *set = e->adjacent + (size_t)e->graph->label_count * e->words; /* one spare row */
        double fill = 0.0;
        memset(set, 0, e->words * sizeof *set);
        for (int32_t i = 0; i < e->near_count; i++) {
            set[e->near[i] / 64] |= UINT64_C(1) << (e->near[i] % 64);
        }
        for (int32_t i = 0; i < e->near_count; i++) {
            const uint64_t *row = e->adjacent + (size_t)e->near[i] * e->words;
            int32_t missing = 0;
            for (size_t w = 0; w < e->words; w++) {
                missing += __builtin_popcountll(set[w] & ~row[w]);
            }
            fill += (missing - 1) * e->graph->log2_extents[e->near[i]]; /* a label does not meet itself */
        }
        score = fill + 1e-3 * score;
        e->work += 1e-9 * (double)e->words * e->near_count;
    }
    return score * e->blur[label];
}

/* ---- contraction ---- */

static void unhold(eliminator *e, int32_t label, int32_t id)
{
    int32_t *list = e->holders[label], k = 0;
    while (list[k] != id) {
        k++;
    }
    list[k] = list[--e->holder_counts[label]];
}

static tensum_status join(eliminator *e, int32_t a, int32_t b, int32_t *result)
{
    int32_t n = e->lengths[a], m = e->lengths[b], count = 0, id = e->made;
    const int32_t *x = e->lists[a], *y = e->lists[b];
    tensum_status status = ts_allocate((size_t)(n + m), sizeof **e->lists, what, &e->lists[id]);
    if (status != TENSUM_OK) {
        return status;
    }
    for (int32_t i = 0; i < n; i++) {
        unhold(e, x[i], a);
    }
    for (int32_t i = 0; i < m; i++) {
        unhold(e, y[i], b);
    }
    for (int32_t i = 0, j = 0; i < n || j < m;) {
        int32_t l;
        if (j == m || (i < n && x[i] < y[j])) {
            l = x[i++];
        } else {
            l = y[j];
            i += i < n && x[i] == y[j];
            j++;
        }
        if (e->holder_counts[l] > 0 || e->graph->is_output[l]) {
            e->lists[id][count++] = l;
            e->holders[l][e->holder_counts[l]++] = id;
        } else {
            take_out(e, l);
        }
    }
    e->lengths[id] = count;
    ts_free(e->lists[a]);
    ts_free(e->lists[b]);
    e->lists[a] = e->lists[b] = NULL;
    e->pairs[2 * (id - e->graph->tensor_count)] = a;
    e->pairs[2 * (id - e->graph->tensor_count) + 1] = b;
    e->made++;
    *result = id;
    return TENSUM_OK;
}

/* Contract all holders of a label, the two with the fewest labels first; *result is what is made, or -1. */
static tensum_status contract_bucket(eliminator *e, int32_t label, int32_t *result)
{
    *result = -1;
    while (e->holder_counts[label] > 1) {
        const int32_t *list = e->holders[label];
        int32_t a = list[0], b = list[1];
        if (e->lengths[b] < e->lengths[a]) {
            a = list[1];
            b = list[0];
        }
        for (int32_t k = 2; k < e->holder_counts[label]; k++) {
            if (e->lengths[list[k]] < e->lengths[a]) {
                b = a;
                a = list[k];
            } else if (e->lengths[list[k]] < e->lengths[b]) {
                b = list[k];
            }
        }
        tensum_status status = join(e, a, b, result);
        if (status != TENSUM_OK) {
            return status;
        }
    }
    return TENSUM_OK;
}

static tensum_status start(eliminator *e, const ts_hypergraph *graph, int32_t *pairs)
{
    tensum_status status;
    size_t ids = 2 * (size_t)graph->tensor_count, labels = (size_t)graph->label_count;
    e->graph = graph;
    e->pairs = pairs;
    e->made = graph->tensor_count;
    TRY(ts_allocate_zero(ids, sizeof *e->lists, what, &e->lists));
    TRY(ts_allocate_zero(ids, sizeof *e->lengths, what, &e->lengths));
    TRY(ts_allocate(labels, sizeof *e->holders, what, &e->holders));
    TRY(ts_allocate_zero(labels, sizeof *e->holder_counts, what, &e->holder_counts));
    TRY(ts_allocate((size_t)graph->tensor_offsets[graph->tensor_count], sizeof *e->holder_storage, what,
                    &e->holder_storage));
    TRY(ts_allocate(labels, sizeof *e->blur, what, &e->blur));
    TRY(ts_allocate_zero(labels, sizeof *e->mark, what, &e->mark));
    TRY(ts_allocate(labels, sizeof *e->near, what, &e->near));
    TRY(ts_allocate(labels, sizeof *e->heap, what, &e->heap));
    TRY(ts_allocate(labels, sizeof *e->where, what, &e->where));
    for (int64_t i = 0; i < graph->tensor_offsets[graph->tensor_count]; i++) {
        e->holder_counts[graph->tensor_labels[i]]++;
    }
    int32_t *room = e->holder_storage;
    for (size_t l = 0; l < labels; l++) {
        e->holders[l] = room;
        room += e->holder_counts[l];
        e->where[l] = -1;
        e->blur[l] = 1.0 + e->noise * ts_random_unit(&e->random);
    }
    for (int32_t t = 0; t < graph->tensor_count; t++) {
        int64_t first = graph->tensor_offsets[t], count = graph->tensor_offsets[t + 1] - first;
        TRY(ts_allocate((size_t)count, sizeof **e->lists, what, &e->lists[t]));
        for (int64_t i = 0; i < count; i++) {
            int32_t l = graph->tensor_labels[first + i];
            if (e->holder_counts[l] > 1 || graph->is_output[l]) {
                e->lists[t][e->lengths[t]++] = l;
            }
        }
    }
    memset(e->holder_counts, 0, labels * sizeof *e->holder_counts);
    for (int32_t t = 0; t < graph->tensor_count; t++) {
        for (int32_t i = 0; i < e->lengths[t]; i++) {
            int32_t l = e->lists[t][i];
            e->holders[l][e->holder_counts[l]++] = t;
        }
    }
    if (e->rule == TS_MINIMUM_FILL) {
        e->words = (labels + 63) / 64;
        TRY(ts_allocate_zero((labels + 1) * e->words, sizeof *e->adjacent, what, &e->adjacent));
        for (int32_t t = 0; t < graph->tensor_count; t++) {
            for (int32_t i = 0; i < e->lengths[t]; i++) {
                for (int32_t k = 0; k < e->lengths[t]; k++) {
                    int32_t x = e->lists[t][i], y = e->lists[t][k];
                    if (x != y) {
                        e->adjacent[(size_t)x * e->words + (size_t)y / 64] |= UINT64_C(1) << (y % 64);
                    }
                }
            }
        }
    }
done:
    return status;
}

static void release(eliminator *e)
{
    if (e->lists != NULL) {
        for (int32_t id = 0; id < 2 * e->graph->tensor_count; id++) {
            ts_free(e->lists[id]);
        }
    }
    ts_free(e->lists);
    ts_free(e->lengths);
    ts_free(e->holders);
    ts_free(e->holder_counts);
    ts_free(e->holder_storage);
    ts_free(e->blur);
    ts_free(e->adjacent);
    ts_free(e->mark);
    ts_free(e->near);
    ts_free(e->heap);
    ts_free(e->where);
}

typedef struct remainder_entry {
    double weight;
    int32_t id;
} remainder_entry;

static int compare_remainders(const void *a, const void *b)
{
    const remainder_entry *x = a, *y = b;
    if (x->weight != y->weight) {
        return x->weight < y->weight ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

/* Join what is left, which shares at most output labels, from the smallest on. */
static tensum_status finish(eliminator *e)
{
    int32_t n = e->graph->tensor_count, count = 0, last = e->made;
    remainder_entry *left = NULL;
    tensum_status status;
    TRY(ts_allocate((size_t)last, sizeof *left, what, &left));
    for (int32_t id = 0; id < last; id++) {
        if (e->lists[id] != NULL) {
            double weight = 0.0;
            for (int32_t i = 0; i < e->lengths[id]; i++) {
                weight += e->graph->log2_extents[e->lists[id][i]];
            }
            left[count++] = (remainder_entry){weight, id};
        }
    }
    qsort(left, (size_t)count, sizeof *left, compare_remainders);
    int32_t whole = count > 0 ? left[0].id : -1;
    for (int32_t i = 1; i < count; i++) {
        /* The labels of the result do not matter any more: link the ids only. */
        e->pairs[2 * (e->made - n)] = whole;
        e->pairs[2 * (e->made - n) + 1] = left[i].id;
        whole = e->made++;
    }
done:
    ts_free(left);
    return status;
}

static tensum_status eliminate_label(eliminator *e, int32_t label, double *width, int32_t *made)
{
    *width = fmax(*width, neighbours(e, label));
    if (e->rule == TS_MINIMUM_FILL && e->words > 0) {
        for (int32_t i = 0; i < e->near_count; i++) {
            uint64_t *row = e->adjacent + (size_t)e->near[i] * e->words;
            for (int32_t k = 0; k < e->near_count; k++) {
                if (i != k) {
                    row[e->near[k] / 64] |= UINT64_C(1) << (e->near[k] % 64);
                }
            }
            row[label / 64] &= ~(UINT64_C(1) << (label % 64));
        }
    }
    take_out(e, label);
    return contract_bucket(e, label, made);
}

tensum_status ts_eliminate(const ts_hypergraph *graph, ts_elimination rule, double noise, uint64_t seed,
                           double work, int32_t *pairs, int32_t *order, int32_t *count, double *width)
{
    eliminator e = {.rule = rule, .noise = noise};
    int32_t *fresh = NULL;
    int32_t eliminated = 0;
    tensum_status status;
    ts_random_seed(&e.random, seed);
    TRY(start(&e, graph, pairs));
    TRY(ts_allocate((size_t)graph->label_count, sizeof *fresh, what, &fresh));
    *width = 0.0;
    for (int32_t l = 0; l < graph->label_count; l++) {
        if (!graph->is_output[l] && e.holder_counts[l] > 0) {
            set_score(&e, l, score_of(&e, l));
        }
    }
    if (rule == TS_MINIMUM_FILL && (double)graph->label_count * (double)graph->label_count * 1e-9 > work) {
        *width = INFINITY;
        goto done;
    }
    while (e.heap_count > 0) {
        int32_t label = e.heap[0].label, made;
        TRY(eliminate_label(&e, label, width, &made));
        if (order != NULL) {
            order[eliminated] = label;
        }
        eliminated++;
        if (e.work > work) {
            *width = INFINITY;
            goto done;
        }
        if (made < 0) {
            continue;
        }
        /* Fill of labels two steps away may have fallen; they keep their old scores until they are met again. */
        int32_t touched = e.lengths[made];
        memcpy(fresh, e.lists[made], (size_t)touched * sizeof *fresh);
        for (int32_t i = 0; i < touched; i++) {
            if (!graph->is_output[fresh[i]]) {
                set_score(&e, fresh[i], score_of(&e, fresh[i]));
            }
        }
    }
    TRY(finish(&e));
    if (count != NULL) {
        *count = eliminated;
    }
done:
    ts_free(fresh);
    release(&e);
    return status;
}

tensum_status ts_eliminate_in_order(const ts_hypergraph *graph, const int32_t *order, int32_t count, int32_t *pairs,
                                    double *width)
{
    eliminator e = {.rule = TS_MINIMUM_DEGREE};
    tensum_status status;
    int32_t made;
    TRY(start(&e, graph, pairs));
    *width = 0.0;
    for (int32_t i = 0; i < count + graph->label_count; i++) {
        int32_t label = i < count ? order[i] : i - count;
        if (!graph->is_output[label] && e.holder_counts[label] > 0) {
            TRY(eliminate_label(&e, label, width, &made));
        }
    }
    TRY(finish(&e));
done:
    release(&e);
    return status;
}
