#include "order/optimizer.h"

void ts_pairs_free(ts_pairs *pairs)
{
    ts_free(pairs->pairs);
    ts_free(pairs->slices);
    *pairs = (ts_pairs){0, NULL, 0, NULL};
}

tensum_status ts_pairs_to_tree(const tensum_network *network, const ts_pairs *pairs, tensum_tree **out)
{
    static const char *const what = "contraction tree";
    int64_t *offsets = NULL, *children = NULL, *labels = NULL;
    tensum_tree *tree = NULL, *sliced = NULL;
    tensum_status status;
    int64_t steps = pairs->tensor_count > 0 ? pairs->tensor_count - 1 : 0;
    TRY(ts_allocate((size_t)steps + 1, sizeof *offsets, what, &offsets));
    TRY(ts_allocate(2 * (size_t)steps, sizeof *children, what, &children));
    for (int64_t s = 0; s <= steps; s++) {
        offsets[s] = 2 * s;
    }
    for (int64_t i = 0; i < 2 * steps; i++) {
        children[i] = pairs->pairs[i];
    }
    TRY(tensum_tree_from_ssa(pairs->tensor_count, steps, offsets, children, &tree));
    if (pairs->slice_count > 0) {
        TRY(ts_allocate((size_t)pairs->slice_count, sizeof *labels, what, &labels));
        for (int32_t i = 0; i < pairs->slice_count; i++) {
            labels[i] = network->label_names[pairs->slices[i]];
        }
        TRY(tensum_tree_with_slices(tree, pairs->slice_count, labels, &sliced));
        tensum_tree_release(tree);
        tree = sliced;
    }
    *out = tree;
    tree = NULL;
done:
    tensum_tree_release(tree);
    ts_free(offsets);
    ts_free(children);
    ts_free(labels);
    return status;
}
