/* The public tree: validation, conversions between SSA and linear paths. */
#include "order/order.h"

#include <stdlib.h>

static const char *const tree_memory = "contraction tree";

static tensum_status create(int64_t leaf_count, int64_t step_count, int64_t child_count, tensum_tree **out)
{
    tensum_tree *tree = NULL;
    tensum_status status;
    TRY(ts_allocate_zero(1, sizeof *tree, tree_memory, &tree));
    atomic_init(&tree->references, 1);
    tree->leaf_count = leaf_count;
    tree->step_count = step_count;
    TRY(ts_allocate_zero((size_t)step_count + 1, sizeof *tree->offsets, tree_memory, &tree->offsets));
    TRY(ts_allocate((size_t)child_count, sizeof *tree->children, tree_memory, &tree->children));
    *out = tree;
    tree = NULL;
done:
    tensum_tree_release(tree);
    return status;
}

static tensum_status check_shape(int64_t leaf_count, int64_t step_count, const int64_t *offsets, const int64_t *items)
{
    if (leaf_count < 0 || step_count < 0) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%lld leaves and %lld steps, expected 0 or more of each",
                       (long long)leaf_count, (long long)step_count);
    }
    if (leaf_count > INT32_MAX / 4 || step_count > INT32_MAX / 4) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "%lld leaves and %lld steps, at most %d of each are supported",
                       (long long)leaf_count, (long long)step_count, INT32_MAX / 4);
    }
    if (step_count > 0 && offsets == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "offsets of a path with %lld steps is NULL",
                       (long long)step_count);
    }
    if (step_count > 0 && offsets[0] != 0) {
        return ts_fail(TENSUM_STATUS_INVALID_PATH, "offset 0 of the path is %lld, expected 0", (long long)offsets[0]);
    }
    for (int64_t s = 0; s < step_count; s++) {
        if (offsets[s + 1] <= offsets[s]) {
            return ts_fail(TENSUM_STATUS_INVALID_PATH, "step %lld has %lld operands, expected at least 1",
                           (long long)s, (long long)(offsets[s + 1] - offsets[s]));
        }
        /* Bounds the array reads below: every id is used once, so no path has more operands than ids. */
        if (offsets[s + 1] > leaf_count + step_count) {
            return ts_fail(TENSUM_STATUS_INVALID_PATH, "step %lld: the path has more operands than tensors",
                           (long long)s);
        }
    }
    if (step_count > 0 && items == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "operands of a path with %lld steps is NULL",
                       (long long)step_count);
    }
    return TENSUM_OK;
}

static tensum_status check_left(int64_t leaf_count, int64_t step_count, int64_t child_count)
{
    int64_t left = leaf_count + step_count - child_count;
    if (left > 1) {
        return ts_fail(TENSUM_STATUS_INVALID_PATH,
                       "after the last step, %lld, %lld tensors are left, expected 1", (long long)(step_count - 1),
                       (long long)left);
    }
    return TENSUM_OK;
}

tensum_status tensum_tree_from_ssa(int64_t leaf_count, int64_t step_count, const int64_t *offsets,
                                   const int64_t *children, tensum_tree **out)
{
    tensum_tree *tree = NULL;
    uint8_t *used = NULL;
    tensum_status status;
    if (out == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tree is NULL");
    }
    TRY(check_shape(leaf_count, step_count, offsets, children));
    int64_t child_count = step_count > 0 ? offsets[step_count] : 0;
    TRY(create(leaf_count, step_count, child_count, &tree));
    TRY(ts_allocate_zero((size_t)(leaf_count + step_count), 1, tree_memory, &used));
    for (int64_t s = 0; s < step_count; s++) {
        for (int64_t i = offsets[s]; i < offsets[s + 1]; i++) {
            int64_t id = children[i];
            if (id < 0 || id >= leaf_count + s) {
                status = ts_fail(TENSUM_STATUS_INVALID_PATH, "step %lld uses id %lld, expected 0 to %lld", (long long)s,
                                 (long long)id, (long long)(leaf_count + s - 1));
                goto done;
            }
            if (used[id]) {
                status = ts_fail(TENSUM_STATUS_INVALID_PATH, "step %lld uses id %lld, which was used before",
                                 (long long)s, (long long)id);
                goto done;
            }
            used[id] = 1;
            tree->children[i] = id;
        }
        tree->offsets[s + 1] = offsets[s + 1];
    }
    TRY(check_left(leaf_count, step_count, child_count));
    *out = tree;
    tree = NULL;
done:
    ts_free(used);
    tensum_tree_release(tree);
    return status;
}

/* ---- order statistics over the ids that are still in the list: a Fenwick tree ---- */

typedef struct live_list {
    int64_t size;  /* ids it has room for */
    int64_t power; /* the largest power of two <= size */
    int32_t *sums; /* [size + 1] */
} live_list;

static void live_change(live_list *list, int64_t id, int32_t change)
{
    for (int64_t i = id + 1; i <= list->size; i += i & -i) {
        list->sums[i] += change;
    }
}

static int64_t live_before(const live_list *list, int64_t id)
{
    int64_t sum = 0;
    for (int64_t i = id; i > 0; i -= i & -i) {
        sum += list->sums[i];
    }
    return sum;
}

/* The id at `position` of the list; the caller has checked that there is one. */
static int64_t live_at(const live_list *list, int64_t position)
{
    int64_t id = 0;
    for (int64_t step = list->power; step > 0; step /= 2) {
        if (id + step <= list->size && list->sums[id + step] <= position) {
            id += step;
            position -= list->sums[id];
        }
    }
    return id;
}

/* The first `filled` of `size` ids are in the list. */
static tensum_status live_create(int64_t size, int64_t filled, live_list *list)
{
    tensum_status status = ts_allocate_zero((size_t)size + 1, sizeof *list->sums, tree_memory, &list->sums);
    if (status != TENSUM_OK) {
        return status;
    }
    list->size = size;
    list->power = 1;
    while (list->power * 2 <= size) {
        list->power *= 2;
    }
    for (int64_t i = 1; i <= size; i++) {
        list->sums[i] += i <= filled;
        int64_t parent = i + (i & -i);
        if (parent <= size) {
            list->sums[parent] += list->sums[i];
        }
    }
    return TENSUM_OK;
}

tensum_status tensum_tree_from_path(int64_t leaf_count, int64_t step_count, const int64_t *offsets,
                                    const int64_t *positions, tensum_tree **out)
{
    tensum_tree *tree = NULL;
    live_list list = {0, 0, NULL};
    tensum_status status;
    if (out == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tree is NULL");
    }
    TRY(check_shape(leaf_count, step_count, offsets, positions));
    int64_t child_count = step_count > 0 ? offsets[step_count] : 0;
    TRY(create(leaf_count, step_count, child_count, &tree));
    TRY(live_create(leaf_count + step_count, leaf_count, &list));
    int64_t left = leaf_count;
    for (int64_t s = 0; s < step_count; s++) {
        int64_t count = offsets[s + 1] - offsets[s];
        int64_t *ids = tree->children + offsets[s];
        const int64_t *wanted = positions + offsets[s];
        for (int64_t i = 0; i < count; i++) {
            if (wanted[i] < 0 || wanted[i] >= left) {
                status = ts_fail(TENSUM_STATUS_INVALID_PATH, "step %lld uses position %lld of a list of %lld",
                                 (long long)s, (long long)wanted[i], (long long)left);
                goto done;
            }
            ids[i] = live_at(&list, wanted[i]);
        }
        /* Positions refer to the list before the step: remove only after all are looked up. */
        for (int64_t i = 0; i < count; i++) {
            if (live_before(&list, ids[i] + 1) == live_before(&list, ids[i])) {
                status = ts_fail(TENSUM_STATUS_INVALID_PATH, "step %lld uses position %lld twice", (long long)s,
                                 (long long)wanted[i]);
                goto done;
            }
            live_change(&list, ids[i], -1);
        }
        live_change(&list, leaf_count + s, 1);
        left += 1 - count;
        tree->offsets[s + 1] = offsets[s + 1];
    }
    TRY(check_left(leaf_count, step_count, child_count));
    *out = tree;
    tree = NULL;
done:
    ts_free(list.sums);
    tensum_tree_release(tree);
    return status;
}

tensum_status ts_tree_path(const tensum_tree *tree, int64_t *positions)
{
    live_list list = {0, 0, NULL};
    tensum_status status;
    TRY(live_create(tree->leaf_count + tree->step_count, tree->leaf_count, &list));
    for (int64_t s = 0; s < tree->step_count; s++) {
        for (int64_t i = tree->offsets[s]; i < tree->offsets[s + 1]; i++) {
            positions[i] = live_before(&list, tree->children[i]);
        }
        for (int64_t i = tree->offsets[s]; i < tree->offsets[s + 1]; i++) {
            live_change(&list, tree->children[i], -1);
        }
        live_change(&list, tree->leaf_count + s, 1);
    }
done:
    ts_free(list.sums);
    return status;
}

void tensum_tree_path(const tensum_tree *tree, int64_t *positions)
{
    if (ts_tree_path(tree, positions) == TENSUM_OK) {
        return;
    }
    /* No memory for the index, and no way to say so here: count instead, in quadratic time. */
    for (int64_t s = 0; s < tree->step_count; s++) {
        for (int64_t i = tree->offsets[s]; i < tree->offsets[s + 1]; i++) {
            int64_t position = tree->children[i];
            for (int64_t j = 0; j < tree->offsets[s]; j++) {
                position -= tree->children[j] < tree->children[i];
            }
            positions[i] = position;
        }
    }
}

tensum_tree *tensum_tree_retain(tensum_tree *tree)
{
    if (tree != NULL) {
        atomic_fetch_add_explicit(&tree->references, 1, memory_order_relaxed);
    }
    return tree;
}

void tensum_tree_release(tensum_tree *tree)
{
    if (tree == NULL || atomic_fetch_sub_explicit(&tree->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    ts_free(tree->offsets);
    ts_free(tree->children);
    ts_free(tree->slices);
    ts_free(tree);
}

int64_t tensum_tree_leaf_count(const tensum_tree *tree) { return tree->leaf_count; }
int64_t tensum_tree_step_count(const tensum_tree *tree) { return tree->step_count; }

void tensum_tree_steps(const tensum_tree *tree, const int64_t **offsets, const int64_t **children)
{
    if (offsets != NULL) {
        *offsets = tree->offsets;
    }
    if (children != NULL) {
        *children = tree->children;
    }
}

int64_t tensum_tree_slices(const tensum_tree *tree, const int64_t **labels)
{
    if (labels != NULL) {
        *labels = tree->slices;
    }
    return tree->slice_count;
}

static int compare_labels(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

tensum_status tensum_tree_with_slices(const tensum_tree *tree, int64_t label_count, const int64_t *labels,
                                      tensum_tree **out)
{
    tensum_tree *sliced = NULL;
    int64_t *sorted = NULL;
    tensum_status status;
    if (tree == NULL || out == NULL || label_count < 0 || (label_count > 0 && labels == NULL)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s",
                       tree == NULL || out == NULL ? "tree is NULL" : "labels to slice are missing");
    }
    TRY(ts_allocate((size_t)label_count, sizeof *sorted, tree_memory, &sorted));
    for (int64_t i = 0; i < label_count; i++) {
        sorted[i] = labels[i];
    }
    qsort(sorted, (size_t)label_count, sizeof *sorted, compare_labels);
    for (int64_t i = 1; i < label_count; i++) {
        if (sorted[i] == sorted[i - 1]) {
            status = ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "label %lld is sliced twice", (long long)sorted[i]);
            goto done;
        }
    }
    int64_t child_count = tree->offsets[tree->step_count];
    TRY(create(tree->leaf_count, tree->step_count, child_count, &sliced));
    TRY(ts_allocate((size_t)label_count, sizeof *sliced->slices, tree_memory, &sliced->slices));
    memcpy(sliced->offsets, tree->offsets, ((size_t)tree->step_count + 1) * sizeof *tree->offsets);
    memcpy(sliced->children, tree->children, (size_t)child_count * sizeof *tree->children);
    for (int64_t i = 0; i < label_count; i++) {
        sliced->slices[i] = labels[i];
    }
    sliced->slice_count = label_count;
    *out = sliced;
    sliced = NULL;
done:
    ts_free(sorted);
    tensum_tree_release(sliced);
    return status;
}
