#include <math.h>

#include "plan/build.h"

static tensum_status append(ts_node_labels *nodes, int32_t label)
{
    tensum_status status = ts_reserve(nodes->length + 1, sizeof *nodes->labels, "plan labels", &nodes->capacity, &nodes->labels);
    if (status == TENSUM_OK) {
        nodes->labels[nodes->length++] = label;
    }
    return status;
}

static double node_log2_size(const ts_builder *builder, int32_t node)
{
    const ts_node_labels *nodes = &builder->nodes;
    double size = 0;
    for (int32_t i = 0; i < nodes->count[node]; i++) {
        size += log2((double)ts_max64(1, ts_plan_extent(builder->plan, nodes->labels[nodes->first[node] + i])));
    }
    return size;
}

/* Labels of the result of step s: the union of its operands' labels less those that have had all their uses.
 * `seen` counts, per label, the leaves below the node that have it: it is kept beside each label. */
static tensum_status join(ts_builder *builder, int32_t s, int32_t **uses, size_t *uses_capacity)
{
    tensum_status status = TENSUM_OK;
    ts_node_labels *nodes = &builder->nodes;
    int32_t a = builder->pairs.pairs[2 * s], b = builder->pairs.pairs[2 * s + 1];
    int32_t node = builder->pairs.tensor_count + s;
    int64_t i = nodes->first[a], i_end = i + nodes->count[a], j = nodes->first[b], j_end = j + nodes->count[b];
    nodes->first[node] = (int64_t)nodes->length;
    nodes->count[node] = 0;
    while (i < i_end || j < j_end) {
        int32_t label, count = 0;
        if (j == j_end || (i < i_end && nodes->labels[i] <= nodes->labels[j])) {
            label = nodes->labels[i];
        } else {
            label = nodes->labels[j];
        }
        if (i < i_end && nodes->labels[i] == label) {
            count += (*uses)[i++];
        }
        if (j < j_end && nodes->labels[j] == label) {
            count += (*uses)[j++];
        }
        if (count == builder->leaf_uses[label] && !builder->in_output[label]) {
            continue;
        }
        TRY(append(nodes, label));
        TRY(ts_reserve(nodes->length, sizeof **uses, "plan labels", uses_capacity, uses));
        (*uses)[nodes->length - 1] = count;
        nodes->count[node]++;
    }
done:
    return status;
}

/* Order of execution: operands before results, and of two operands first the one that needs more memory beyond its
 * result (Sethi, Ullman 1970); steps that no slice changes come before the others. */
static tensum_status execution_order(ts_builder *builder)
{
    tensum_status status = TENSUM_OK;
    int32_t n = builder->pairs.tensor_count, steps = n - 1;
    double *peak = NULL;
    int32_t *stack = NULL, *plain = NULL;
    uint8_t *opened = NULL;
    int32_t depth = 0, done_count = 0;
    TRY(ts_allocate_zero((size_t)n + (size_t)steps, sizeof *peak, "plan order", &peak));
    TRY(ts_allocate((size_t)steps + 1, sizeof *stack, "plan order", &stack));
    TRY(ts_allocate((size_t)steps, sizeof *plain, "plan order", &plain));
    TRY(ts_allocate_zero((size_t)steps, 1, "plan order", &opened));
    for (int32_t s = 0; s < steps; s++) {
        int32_t a = builder->pairs.pairs[2 * s], b = builder->pairs.pairs[2 * s + 1];
        double size_a = a < n ? 0 : exp2(builder->log2_size[a]), size_b = b < n ? 0 : exp2(builder->log2_size[b]);
        double a_first = fmax(peak[a], size_a + peak[b]), b_first = fmax(peak[b], size_b + peak[a]);
        peak[n + s] = fmax(fmin(a_first, b_first), size_a + size_b + exp2(builder->log2_size[n + s]));
    }
    stack[depth++] = steps - 1;
    while (depth > 0) {
        int32_t s = stack[depth - 1];
        int32_t a = builder->pairs.pairs[2 * s], b = builder->pairs.pairs[2 * s + 1];
        if (opened[s]) {
            plain[done_count++] = s;
            depth--;
            continue;
        }
        opened[s] = 1;
        double size_a = a < n ? 0 : exp2(builder->log2_size[a]), size_b = b < n ? 0 : exp2(builder->log2_size[b]);
        bool b_first = fmax(peak[b], size_b + peak[a]) < fmax(peak[a], size_a + peak[b]);
        int32_t first = b_first ? b : a, second = b_first ? a : b;
        if (second >= n) {
            stack[depth++] = second - n;
        }
        if (first >= n) {
            stack[depth++] = first - n;
        }
    }
    int32_t place = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < steps; i++) {
            if ((builder->node_varies[n + plain[i]] != 0) == (pass == 1)) {
                builder->order[place++] = plain[i];
            }
        }
    }
done:
    ts_free(peak);
    ts_free(stack);
    ts_free(plain);
    ts_free(opened);
    return status;
}

tensum_status ts_build_nodes(ts_builder *builder)
{
    tensum_status status = TENSUM_OK;
    const tensum_network *network = builder->plan->network;
    ts_node_labels *nodes = &builder->nodes;
    int32_t n = builder->pairs.tensor_count, total = n > 0 ? 2 * n - 1 : 0;
    int32_t *uses = NULL;
    size_t uses_capacity = 0;
    TRY(ts_reserve(1, sizeof *nodes->labels, "plan labels", &nodes->capacity, &nodes->labels)); /* never NULL: of scalars too */
    TRY(ts_allocate((size_t)total, sizeof *nodes->first, "plan labels", &nodes->first));
    TRY(ts_allocate((size_t)total, sizeof *nodes->count, "plan labels", &nodes->count));
    TRY(ts_allocate_zero((size_t)total, 1, "plan labels", &builder->node_varies));
    TRY(ts_allocate((size_t)total, sizeof *builder->log2_size, "plan sizes", &builder->log2_size));
    TRY(ts_allocate((size_t)(n > 0 ? n - 1 : 0), sizeof *builder->order, "plan order", &builder->order));
    for (int32_t i = 0; i < n; i++) {
        nodes->first[i] = (int64_t)nodes->length;
        nodes->count[i] = 0;
        for (int64_t m = network->effective_offsets[i]; m < network->effective_offsets[i + 1]; m++) {
            int32_t label = network->effective[m];
            if (builder->sliced[label]) {
                builder->node_varies[i] = 1;
                continue;
            }
            if (n > 1 && builder->leaf_uses[label] == 1 && !builder->in_output[label]) {
                continue; /* summed out by the leaf's own reduce step */
            }
            TRY(append(nodes, label));
            TRY(ts_reserve(nodes->length, sizeof *uses, "plan labels", &uses_capacity, &uses));
            uses[nodes->length - 1] = 1;
            nodes->count[i]++;
        }
        builder->log2_size[i] = node_log2_size(builder, i);
    }
    for (int32_t s = 0; s + 1 < n; s++) {
        TRY(join(builder, s, &uses, &uses_capacity));
        int32_t a = builder->pairs.pairs[2 * s], b = builder->pairs.pairs[2 * s + 1];
        builder->node_varies[n + s] = builder->node_varies[a] | builder->node_varies[b];
        builder->log2_size[n + s] = node_log2_size(builder, n + s);
    }
    if (n > 1) {
        TRY(execution_order(builder));
    }
done:
    ts_free(uses);
    return status;
}
