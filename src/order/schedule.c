/* The sequence of a tree's steps: of two subtrees, that one first which leaves the lower peak. */
#include "order/optimizer.h"

#include "order/state.h"

static const char *const what = "sequence of contraction steps";

typedef struct node_memory {
    double held; /* elements of the arena that its value takes */
    double peak; /* most elements held at once while it is made */
    bool varies; /* with the slice */
} node_memory;

static double sliced_weight(const ts_hypergraph *graph, const uint8_t *sliced, const int32_t *labels, int64_t count)
{
    double weight = 0.0;
    for (int64_t i = 0; i < count; i++) {
        weight += sliced[labels[i]] ? 0.0 : graph->log2_extents[labels[i]];
    }
    return weight;
}

tensum_status ts_schedule(const ts_hypergraph *graph, ts_pairs *pairs, double *peak, double *all)
{
    ts_walk walk = {.graph = graph};
    node_memory *memory = NULL;
    uint8_t *sliced = NULL;
    int32_t *links = NULL, *scratch = NULL;
    tensum_status status;
    int32_t n = graph->tensor_count;
    double kept = 0.0, once = 0.0; /* values that all slices use; the peak of making them */
    double together = 0.0;
    *peak = 0.0;
    if (all != NULL) {
        *all = 0.0;
    }
    if (n < 1) {
        return TENSUM_OK;
    }
    size_t nodes = 2 * (size_t)n - 1;
    TRY(ts_allocate(nodes, sizeof *memory, what, &memory));
    TRY(ts_allocate_zero((size_t)graph->label_count, 1, what, &sliced));
    TRY(ts_allocate(2 * nodes, sizeof *links, what, &links));
    TRY(ts_allocate(nodes, sizeof *scratch, what, &scratch));
    int32_t *left = links, *right = links + nodes;
    for (int32_t i = 0; i < pairs->slice_count; i++) {
        sliced[pairs->slices[i]] = 1;
    }
    TRY(ts_walk_start(&walk, graph));
    for (int32_t t = 0; t < n; t++) {
        /* A leaf is an input and takes no arena, unless labels are summed out of it first. */
        bool reduced = walk.lengths[t] != graph->tensor_offsets[t + 1] - graph->tensor_offsets[t];
        double size = reduced ? exp2(sliced_weight(graph, sliced, walk.lists[t], walk.lengths[t])) : 0.0;
        memory[t] = (node_memory){size, size, pairs->slice_count == 0};
        together += size;
        for (int64_t i = graph->tensor_offsets[t]; i < graph->tensor_offsets[t + 1]; i++) {
            memory[t].varies = memory[t].varies || sliced[graph->tensor_labels[i]];
        }
    }
    for (int32_t s = 0; s < n - 1; s++) {
        int32_t node = n + s, a = pairs->pairs[2 * s], b = pairs->pairs[2 * s + 1];
        TRY(ts_walk_step(&walk, a, b, node));
        double size = exp2(sliced_weight(graph, sliced, walk.lists[node], walk.lengths[node]));
        if (s == n - 2) {
            size = 0.0; /* the output is the caller's */
        }
        together += size;
        bool varies = memory[a].varies || memory[b].varies;
        for (int i = 0; i < 2; i++) {
            node_memory *child = &memory[i == 0 ? a : b];
            if (varies && !child->varies) {
                kept += child->held;
                once = fmax(once, child->peak);
                child->held = child->peak = 0.0;
            }
        }
        double first_a = fmax(memory[a].peak, memory[a].held + memory[b].peak);
        double first_b = fmax(memory[b].peak, memory[b].held + memory[a].peak);
        left[node] = first_a <= first_b ? a : b;
        right[node] = first_a <= first_b ? b : a;
        double during = memory[a].held + memory[b].held + size;
        memory[node] = (node_memory){size, fmax(fmin(first_a, first_b), during), varies};
    }
    if (n > 1) {
        ts_links_to_pairs(n, left, right, 2 * n - 2, scratch, pairs->pairs);
    }
    *peak = kept + fmax(once, memory[2 * n - 2].peak);
    if (all != NULL) {
        *all = together;
    }
done:
    ts_walk_free(&walk);
    ts_free(memory);
    ts_free(sliced);
    ts_free(links);
    ts_free(scratch);
    return status;
}
