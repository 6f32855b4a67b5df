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

/* Order the operands of one wide step, whose labels are in the walk. */
static tensum_status split(const ts_walk *walk, ts_part_maker *maker, const int64_t *ids, int32_t count, int32_t *pairs)
{
    ts_hypergraph part = {0};
    const int32_t **lists = NULL;
    int32_t *lengths = NULL;
    tensum_status status;
    TRY(ts_allocate((size_t)count, sizeof *lists, what, &lists));
    TRY(ts_allocate((size_t)count, sizeof *lengths, what, &lengths));
    for (int32_t k = 0; k < count; k++) {
        lists[k] = walk->lists[ids[k]];
        lengths[k] = walk->lengths[ids[k]];
    }
    TRY(ts_part_make(maker, walk->graph, walk->counts, count, lists, lengths, &part));
    TRY(ts_best_small(&part, pairs));
done:
    ts_hypergraph_free(&part);
    ts_free(lists);
    ts_free(lengths);
    return status;
}

tensum_status ts_tree_binarize(const tensum_network *network, const tensum_tree *tree, ts_pairs *out)
{
    ts_hypergraph graph = {0};
    ts_walk walk = {0};
    ts_pairs made = {0};
    int64_t *ids = NULL;   /* binary id of each id of the tree */
    int64_t *wide = NULL;  /* binary ids of the operands of a step */
    int32_t *local = NULL;
    ts_part_maker maker = {0};
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
    TRY(ts_part_maker_create(graph.label_count, &maker));
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
            TRY(split(&walk, &maker, wide, count, local));
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
    ts_part_maker_free(&maker);
    ts_free(local);
    return status;
}
