#include "order/optimizer.h"

#include <stdlib.h>

static const char *const what = "simplified network";

typedef struct signature {
    uint64_t key; /* of the tensors that hold the label, and of its being an output */
    int32_t label;
} signature;

static int compare_signatures(const void *a, const void *b)
{
    const signature *x = a, *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return (x->label > y->label) - (x->label < y->label);
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Labels with the same holders become the first of them, with the sum of their weights: two sums of 64-bit hashes
 * stand for the set of holders. */
static tensum_status merge_labels(ts_hypergraph *core, double *log2_extents, int64_t *offsets, int32_t *labels)
{
    signature *signatures = NULL;
    int32_t *becomes = NULL;
    uint64_t *second = NULL;
    tensum_status status;
    size_t count = (size_t)core->label_count;
    TRY(ts_allocate(count, sizeof *signatures, what, &signatures));
    TRY(ts_allocate(count, sizeof *becomes, what, &becomes));
    TRY(ts_allocate_zero(count, sizeof *second, what, &second));
    for (int32_t l = 0; l < core->label_count; l++) {
        signatures[l] = (signature){core->is_output[l] ? UINT64_C(0x9e3779b97f4a7c15) : 0, l};
        becomes[l] = l;
    }
    for (int32_t t = 0; t < core->tensor_count; t++) {
        for (int64_t i = offsets[t]; i < offsets[t + 1]; i++) {
            signatures[labels[i]].key += mix((uint64_t)t + 1);
            second[labels[i]] += mix(((uint64_t)t + 1) * UINT64_C(0x2545f4914f6cdd1d));
        }
    }
    qsort(signatures, count, sizeof *signatures, compare_signatures);
    for (size_t i = 1; i < count; i++) {
        int32_t l = signatures[i].label, first = becomes[signatures[i - 1].label];
        if (signatures[i].key == signatures[i - 1].key && second[l] == second[first] && second[l] != 0) {
            becomes[l] = first;
            log2_extents[first] += log2_extents[l];
        }
    }
    int64_t used = 0;
    for (int32_t t = 0; t < core->tensor_count; t++) {
        int64_t first = offsets[t];
        offsets[t] = used;
        for (int64_t i = first; i < offsets[t + 1]; i++) {
            if (becomes[labels[i]] == labels[i]) {
                labels[used++] = labels[i];
            }
        }
    }
    offsets[core->tensor_count] = used;
done:
    ts_free(signatures);
    ts_free(becomes);
    ts_free(second);
    return status;
}

tensum_status ts_simplify(const ts_hypergraph *graph, ts_simplified *s)
{
    int64_t *offsets = NULL;
    int32_t *labels = NULL;
    double *log2_extents = NULL;
    uint8_t *is_output = NULL;
    tensum_status status;
    size_t n = (size_t)graph->tensor_count, count = (size_t)graph->label_count;
    *s = (ts_simplified){.tensor_count = graph->tensor_count};
    TRY(ts_allocate(2 * n, sizeof *s->pairs, what, &s->pairs));
    TRY(ts_allocate(n, sizeof *s->ids, what, &s->ids));
    TRY(ts_allocate(n + 1, sizeof *offsets, what, &offsets));
    s->core.tensor_offsets = offsets;
    TRY(ts_allocate(count, sizeof *log2_extents, what, &log2_extents));
    s->core.log2_extents = log2_extents;
    TRY(ts_allocate(count, 1, what, &is_output));
    s->core.is_output = is_output;
    memcpy(log2_extents, graph->log2_extents, count * sizeof *log2_extents);
    memcpy(is_output, graph->is_output, count);
    TRY(ts_absorb(graph, s->pairs, &s->step_count, s->ids, offsets, &labels));
    s->core.tensor_labels = labels;
    s->core.tensor_count = graph->tensor_count - s->step_count;
    s->core.label_count = graph->label_count;
    TRY(merge_labels(&s->core, log2_extents, offsets, labels));
done:
    return status;
}

void ts_simplified_free(ts_simplified *s)
{
    ts_hypergraph_free(&s->core);
    ts_free(s->pairs);
    ts_free(s->ids);
    *s = (ts_simplified){0};
}

void ts_simplified_expand(const ts_simplified *s, const int32_t *core_pairs, int32_t *pairs)
{
    int32_t core = s->core.tensor_count, base = s->tensor_count + s->step_count;
    memcpy(pairs, s->pairs, 2 * (size_t)s->step_count * sizeof *pairs);
    for (int32_t i = 0; i < 2 * (core - 1); i++) {
        int32_t id = core_pairs[i];
        pairs[2 * s->step_count + i] = id < core ? s->ids[id] : base + (id - core);
    }
}
