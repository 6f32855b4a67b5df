#include "order/optimizer.h"

static const char *const what = "part of a network";

tensum_status ts_part_maker_create(int32_t label_count, ts_part_maker *maker)
{
    tensum_status status;
    size_t labels = (size_t)label_count;
    *maker = (ts_part_maker){.label_count = label_count};
    TRY(ts_allocate(labels, sizeof *maker->number, what, &maker->number));
    TRY(ts_allocate(labels, sizeof *maker->globals, what, &maker->globals));
    TRY(ts_allocate(labels, sizeof *maker->holders, what, &maker->holders));
    for (size_t l = 0; l < labels; l++) {
        maker->number[l] = -1;
    }
done:
    return status;
}

void ts_part_maker_free(ts_part_maker *maker)
{
    ts_free(maker->number);
    ts_free(maker->globals);
    ts_free(maker->holders);
    *maker = (ts_part_maker){0};
}

tensum_status ts_part_make(ts_part_maker *maker, const ts_hypergraph *whole, const int32_t *counts, int32_t count,
                           const int32_t *const *lists, const int32_t *lengths, ts_hypergraph *part)
{
    int64_t *offsets = NULL;
    int32_t *labels = NULL;
    double *log2_extents = NULL;
    uint8_t *is_output = NULL;
    tensum_status status;
    size_t total = 0;
    int32_t used = 0;
    for (int32_t t = 0; t < count; t++) {
        total += (size_t)lengths[t];
    }
    TRY(ts_allocate((size_t)count + 1, sizeof *offsets, what, &offsets));
    TRY(ts_allocate(total, sizeof *labels, what, &labels));
    int64_t filled = 0;
    for (int32_t t = 0; t < count; t++) {
        offsets[t] = filled;
        for (int32_t i = 0; i < lengths[t]; i++) {
            int32_t l = lists[t][i];
            if (maker->number[l] < 0) {
                maker->number[l] = used;
                maker->globals[used] = l;
                maker->holders[used++] = 0;
            }
            int32_t number = maker->number[l];
            maker->holders[number]++;
            /* Lists must ascend in the new numbers: insertion, as most of a list is new and already in order. */
            int64_t at = filled++;
            while (at > offsets[t] && labels[at - 1] > number) {
                labels[at] = labels[at - 1];
                at--;
            }
            labels[at] = number;
        }
    }
    offsets[count] = filled;
    status = ts_allocate((size_t)used, sizeof *log2_extents, what, &log2_extents);
    if (status == TENSUM_OK) {
        status = ts_allocate((size_t)used, 1, what, &is_output);
    }
    for (int32_t l = 0; l < used; l++) {
        int32_t global = maker->globals[l];
        maker->number[global] = -1;
        if (status == TENSUM_OK) {
            log2_extents[l] = whole->log2_extents[global];
            is_output[l] = whole->is_output[global] || counts[global] > maker->holders[l];
        }
    }
    TRY(status);
    *part = (ts_hypergraph){count, used, offsets, labels, log2_extents, is_output};
    return TENSUM_OK;
done:
    ts_free(offsets);
    ts_free(labels);
    ts_free(log2_extents);
    ts_free(is_output);
    return status;
}

static int32_t find_root(int32_t *parent, int32_t node)
{
    while (parent[node] != node) {
        parent[node] = parent[parent[node]];
        node = parent[node];
    }
    return node;
}

int32_t ts_components(const ts_hypergraph *graph, int32_t *scratch, int32_t *component)
{
    for (int32_t l = 0; l < graph->label_count; l++) {
        scratch[l] = -1;
    }
    for (int32_t t = 0; t < graph->tensor_count; t++) {
        component[t] = t;
        for (int64_t i = graph->tensor_offsets[t]; i < graph->tensor_offsets[t + 1]; i++) {
            int32_t l = graph->tensor_labels[i];
            if (scratch[l] < 0) {
                scratch[l] = t;
            } else {
                /* The smaller number becomes the root, so that roots come before what they hold. */
                int32_t x = find_root(component, scratch[l]), y = find_root(component, t);
                component[x > y ? x : y] = x < y ? x : y;
            }
        }
    }
    int32_t count = 0;
    for (int32_t t = 0; t < graph->tensor_count; t++) {
        component[t] = component[t] == t ? count++ : component[component[t]]; /* parents come first */
    }
    return count;
}
