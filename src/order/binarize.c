/* A tree with steps of any arity becomes a binary one: each wide step is a small network of its own. */
#include "order/optimizer.h"

static const char *const what = "binary contraction tree";

static tensum_status find_slices(const tensum_network *network, const tensum_tree *tree, int32_t *slices)
{
    for (int64_t i = 0; i < tree->slice_count; i++) {
        int32_t l = 0;
        while (l < network->label_count && network->label_names[l] != tree->slices[i]) {
            l++;
        }
        if (l == network->label_count) {
            return ts_fail(TENSUM_STATUS_INVALID_PATH, "sliced label %lld is not in the network",
                           (long long)tree->slices[i]);
        }
        slices[i] = l;
    }
    return TENSUM_OK;
}

/* Order the operands of one wide step. Their labels are in the walk; local labels are numbered as they come. */
static tensum_status split(const ts_walk *walk, const int64_t *ids, int32_t count, int32_t *numbers, int32_t *pairs)
{
    const ts_hypergraph *graph = walk->graph;
    int64_t *offsets = NULL;
    int32_t *labels = NULL, *globals = NULL, *holders = NULL;
    double *extents = NULL;
    uint8_t *is_output = NULL;
    tensum_status status;
    size_t total = 0;
    for (int32_t k = 0; k < count; k++) {
        total += (size_t)walk->lengths[ids[k]];
    }
    TRY(ts_allocate((size_t)count + 1, sizeof *offsets, what, &offsets));
    TRY(ts_allocate(total, sizeof *labels, what, &labels));
    TRY(ts_allocate(total, sizeof *globals, what, &globals));
    TRY(ts_allocate_zero(total, sizeof *holders, what, &holders));
    TRY(ts_allocate(total, sizeof *extents, what, &extents));
    TRY(ts_allocate(total, 1, what, &is_output));
    int32_t used = 0;
    int64_t filled = 0;
    for (int32_t k = 0; k < count; k++) {
        offsets[k] = filled;
        for (int32_t i = 0; i < walk->lengths[ids[k]]; i++) {
            int32_t l = walk->lists[ids[k]][i];
            if (numbers[l] < 0) {
                numbers[l] = used;
                globals[used] = l;
                extents[used] = graph->log2_extents[l];
                used++;
            }
            holders[numbers[l]]++;
            /* Keep the list ascending in local numbers: insertion into a short list. */
            int64_t at = filled++;
            while (at > offsets[k] && labels[at - 1] > numbers[l]) {
                labels[at] = labels[at - 1];
                at--;
            }
            labels[at] = numbers[l];
        }
    }
    offsets[count] = filled;
    for (int32_t l = 0; l < used; l++) {
        is_output[l] = graph->is_output[globals[l]] || walk->counts[globals[l]] > holders[l];
        numbers[globals[l]] = -1;
    }
    ts_hypergraph local = {count, used, offsets, labels, extents, is_output};
    TRY(ts_best_small(&local, pairs));
done:
    ts_free(offsets);
    ts_free(labels);
    ts_free(globals);
    ts_free(holders);
    ts_free(extents);
    ts_free(is_output);
    return status;
}

tensum_status ts_tree_binarize(const tensum_network *network, const tensum_tree *tree, ts_pairs *out)
{
    ts_hypergraph graph = {0};
    ts_walk walk = {0};
    ts_pairs made = {0};
    int64_t *ids = NULL;   /* binary id of each id of the tree */
    int64_t *wide = NULL;  /* binary ids of the operands of a step */
    int32_t *numbers = NULL, *local = NULL;
    tensum_status status;
    if (tree->leaf_count != network->operand_count) {
        return ts_fail(TENSUM_STATUS_INVALID_PATH, "the tree has %lld leaves, the network %lld operands",
                       (long long)tree->leaf_count, (long long)network->operand_count);
    }
    TRY(ts_hypergraph_create(network, &graph));
    int32_t n = graph.tensor_count;
    size_t steps = n > 0 ? (size_t)n - 1 : 0;
    walk.graph = &graph;
    made.tensor_count = n;
    made.slice_count = (int32_t)tree->slice_count;
    TRY(ts_allocate(2 * steps, sizeof *made.pairs, what, &made.pairs));
    TRY(ts_allocate((size_t)tree->slice_count, sizeof *made.slices, what, &made.slices));
    TRY(find_slices(network, tree, made.slices));
    TRY(ts_allocate((size_t)(tree->leaf_count + tree->step_count), sizeof *ids, what, &ids));
    TRY(ts_allocate((size_t)n, sizeof *wide, what, &wide));
    TRY(ts_allocate(2 * steps, sizeof *local, what, &local));
    TRY(ts_allocate((size_t)graph.label_count, sizeof *numbers, what, &numbers));
    for (int32_t l = 0; l < graph.label_count; l++) {
        numbers[l] = -1;
    }
    TRY(ts_walk_start(&walk, &graph));
    for (int32_t t = 0; t < n; t++) {
        ids[t] = t;
    }
    int32_t next = n;
    for (int64_t s = 0; s < tree->step_count; s++) {
        int32_t count = (int32_t)(tree->offsets[s + 1] - tree->offsets[s]);
        for (int32_t k = 0; k < count; k++) {
            wide[k] = ids[tree->children[tree->offsets[s] + k]];
        }
        if (count == 1) {
            ids[n + s] = wide[0];
            continue;
        }
        if (count == 2) {
            local[0] = 0;
            local[1] = 1;
        } else {
            TRY(split(&walk, wide, count, numbers, local));
        }
        int32_t base = next;
        for (int32_t k = 0; k < count - 1; k++) {
            int32_t *pair = made.pairs + 2 * (next - n);
            for (int i = 0; i < 2; i++) {
                int32_t id = local[2 * k + i];
                pair[i] = id < count ? (int32_t)wide[id] : base + (id - count);
            }
            TRY(ts_walk_step(&walk, pair[0], pair[1], next));
            next++;
        }
        ids[n + s] = next - 1;
    }
    if (next != n + (int32_t)steps) {
        status = ts_fail(TENSUM_STATUS_INVALID_PATH, "the tree leaves %lld tensors, expected 1",
                         (long long)(n + (int32_t)steps - next + 1));
        goto done;
    }
    *out = made;
    made = (ts_pairs){0};
done:
    ts_walk_free(&walk);
    ts_hypergraph_free(&graph);
    ts_pairs_free(&made);
    ts_free(ids);
    ts_free(wide);
    ts_free(numbers);
    ts_free(local);
    return status;
}
