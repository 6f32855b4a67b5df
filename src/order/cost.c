#include "order/optimizer.h"

static const char *const what = "contraction cost";

tensum_status ts_walk_start(ts_walk *walk, const ts_hypergraph *graph)
{
    tensum_status status;
    size_t ids = graph->tensor_count > 0 ? 2 * (size_t)graph->tensor_count - 1 : 0;
    *walk = (ts_walk){graph, NULL, NULL, NULL, NULL, 0};
    TRY(ts_allocate_zero((size_t)graph->label_count, sizeof *walk->counts, what, &walk->counts));
    TRY(ts_allocate((size_t)graph->label_count, sizeof *walk->joined, what, &walk->joined));
    TRY(ts_allocate_zero(ids, sizeof *walk->lists, what, &walk->lists));
    TRY(ts_allocate_zero(ids, sizeof *walk->lengths, what, &walk->lengths));
    int64_t total = graph->tensor_offsets[graph->tensor_count];
    for (int64_t i = 0; i < total; i++) {
        walk->counts[graph->tensor_labels[i]]++;
    }
    for (int32_t t = 0; t < graph->tensor_count; t++) {
        int64_t first = graph->tensor_offsets[t], end = graph->tensor_offsets[t + 1];
        TRY(ts_allocate((size_t)(end - first), sizeof **walk->lists, what, &walk->lists[t]));
        int32_t length = 0;
        for (int64_t i = first; i < end; i++) {
            int32_t l = graph->tensor_labels[i];
            if (walk->counts[l] > 1 || graph->is_output[l]) {
                walk->lists[t][length++] = l;
            }
        }
        walk->lengths[t] = length;
    }
done:
    return status;
}

void ts_walk_free(ts_walk *walk)
{
    if (walk->lists != NULL) {
        for (int32_t id = 0; id < 2 * walk->graph->tensor_count - 1; id++) {
            ts_free(walk->lists[id]);
        }
    }
    ts_free(walk->lists);
    ts_free(walk->lengths);
    ts_free(walk->counts);
    ts_free(walk->joined);
}

static void drop(ts_walk *walk, int32_t id)
{
    ts_free(walk->lists[id]);
    walk->lists[id] = NULL;
    walk->lengths[id] = 0;
}

/* The result keeps those joined labels that another tensor or the output needs. */
static tensum_status keep(ts_walk *walk, int32_t result)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < walk->joined_count; i++) {
        int32_t l = walk->joined[i];
        kept += walk->counts[l] > 1 || walk->graph->is_output[l];
    }
    tensum_status status = ts_allocate((size_t)kept, sizeof **walk->lists, what, &walk->lists[result]);
    if (status != TENSUM_OK) {
        return status;
    }
    kept = 0;
    for (int32_t i = 0; i < walk->joined_count; i++) {
        int32_t l = walk->joined[i];
        if (walk->counts[l] > 1 || walk->graph->is_output[l]) {
            walk->lists[result][kept++] = l;
        }
    }
    walk->lengths[result] = kept;
    return TENSUM_OK;
}

tensum_status ts_walk_step(ts_walk *walk, int32_t a, int32_t b, int32_t result)
{
    const int32_t *x = walk->lists[a], *y = walk->lists[b];
    int32_t i = 0, j = 0, n = walk->lengths[a], m = walk->lengths[b], count = 0;
    while (i < n || j < m) {
        if (j == m || (i < n && x[i] < y[j])) {
            walk->joined[count++] = x[i++];
        } else if (i == n || y[j] < x[i]) {
            walk->joined[count++] = y[j++];
        } else {
            walk->counts[x[i]]--;
            walk->joined[count++] = x[i++];
            j++;
        }
    }
    walk->joined_count = count;
    drop(walk, a);
    drop(walk, b);
    return keep(walk, result);
}

/* log2 of the elements of a tensor, sliced labels not counted; *varies tells whether there were any. */
static double weigh(const ts_hypergraph *graph, const uint8_t *sliced, const int32_t *labels, int64_t count,
                    bool *varies)
{
    double weight = 0.0;
    for (int64_t i = 0; i < count; i++) {
        if (sliced[labels[i]]) {
            *varies = true;
        } else {
            weight += graph->log2_extents[labels[i]];
        }
    }
    return weight;
}

tensum_status ts_order_cost_of(const ts_hypergraph *graph, const ts_pairs *pairs, ts_order_cost *cost)
{
    ts_walk walk = {0};
    uint8_t *sliced = NULL, *varies = NULL;
    double *weights = NULL;
    ts_log_sum multiply = TS_LOG_SUM_INIT, moved = TS_LOG_SUM_INIT;
    double largest = 0.0, slices = 0.0;
    tensum_status status;
    int32_t n = graph->tensor_count;
    size_t ids = n > 0 ? 2 * (size_t)n - 1 : 0;
    walk.graph = graph;
    TRY(ts_allocate_zero((size_t)graph->label_count, 1, what, &sliced));
    TRY(ts_allocate_zero(ids, 1, what, &varies));
    TRY(ts_allocate(ids, sizeof *weights, what, &weights));
    for (int32_t i = 0; i < pairs->slice_count; i++) {
        slices += graph->log2_extents[pairs->slices[i]];
        sliced[pairs->slices[i]] = 1;
    }
    TRY(ts_walk_start(&walk, graph));
    for (int32_t t = 0; t < n; t++) {
        const int32_t *labels = graph->tensor_labels + graph->tensor_offsets[t];
        int64_t count = graph->tensor_offsets[t + 1] - graph->tensor_offsets[t];
        bool leaf_varies = false, ignored = false;
        double whole = weigh(graph, sliced, labels, count, &leaf_varies);
        largest = fmax(largest, whole);
        varies[t] = leaf_varies;
        weights[t] = whole;
        if (walk.lengths[t] != count) {
            double times = leaf_varies ? slices : 0.0;
            weights[t] = weigh(graph, sliced, walk.lists[t], walk.lengths[t], &ignored);
            ts_log_sum_add(&multiply, whole + times);
            ts_log_sum_add(&moved, whole + times);
            ts_log_sum_add(&moved, weights[t] + times);
        }
    }
    for (int32_t s = 0; s < n - 1; s++) {
        int32_t a = pairs->pairs[2 * s], b = pairs->pairs[2 * s + 1];
        bool ignored = false;
        TRY(ts_walk_step(&walk, a, b, n + s));
        varies[n + s] = varies[a] | varies[b];
        double times = varies[n + s] ? slices : 0.0;
        weights[n + s] = weigh(graph, sliced, walk.lists[n + s], walk.lengths[n + s], &ignored);
        largest = fmax(largest, weights[n + s]);
        ts_log_sum_add(&multiply, weigh(graph, sliced, walk.joined, walk.joined_count, &ignored) + times);
        ts_log_sum_add(&moved, weights[a] + times);
        ts_log_sum_add(&moved, weights[b] + times);
        ts_log_sum_add(&moved, weights[n + s] + times);
    }
    cost->tc = ts_log_sum_value(&multiply);
    cost->sc = largest;
    cost->rw = ts_log_sum_value(&moved);
done:
    ts_walk_free(&walk);
    ts_free(sliced);
    ts_free(varies);
    ts_free(weights);
    return status;
}
