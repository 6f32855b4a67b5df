#include <inttypes.h>
#include <stdio.h>

#include "plan/build.h"

/* Label lists are offsets into builder->storage until it has stopped growing; an offset travels in the pointer. */
static const int32_t *as_pointer(size_t offset) { return (const int32_t *)(uintptr_t)(offset * sizeof(int32_t)); }
static size_t as_offset(const int32_t *pointer) { return (size_t)(uintptr_t)pointer / sizeof(int32_t); }

static tensum_status store(ts_builder *builder, const int32_t *labels, int32_t count, const int32_t **list)
{
    size_t offset = builder->storage_length;
    tensum_status status = ts_reserve(offset + (size_t)count + 1, sizeof *builder->storage, "plan labels",
                                      &builder->storage_capacity, &builder->storage);
    if (status == TENSUM_OK) {
        if (count > 0) {
            memcpy(builder->storage + offset, labels, (size_t)count * sizeof *labels);
        }
        builder->storage_length += (size_t)count;
        *list = as_pointer(offset);
    }
    return status;
}

static int64_t saturating_size(tensum_plan *plan, const int32_t *labels, int32_t count)
{
    int64_t size = 1;
    bool overflow = false;
    for (int32_t i = 0; i < count; i++) {
        int64_t extent = ts_plan_extent(plan, labels[i]);
        if (extent == 0) {
            return 0;
        }
        overflow = overflow || !ts_multiply(size, extent, &size) || size > (INT64_MAX >> 6);
    }
    if (overflow) {
        plan->too_large = true;
        return INT64_MAX >> 6;
    }
    return size;
}

enum { MOST_SLICE_LABELS = 64 };
enum { MOST_LABELS = 4096 }; /* of one node: past this even the costs mean nothing */

static tensum_status too_many(void)
{
    return ts_fail(TENSUM_STATUS_UNSUPPORTED, "the order makes an intermediate of more than %d labels", MOST_LABELS);
}

/* The unsliced effective labels of operand `index`; returns their number. */
static int32_t operand_labels(const ts_builder *builder, int64_t index, int32_t *labels)
{
    const tensum_network *network = builder->plan->network;
    int32_t count = 0;
    for (int64_t m = network->effective_offsets[index]; m < network->effective_offsets[index + 1]; m++) {
        if (!builder->sliced[network->effective[m]]) {
            labels[count++] = network->effective[m];
        }
    }
    return count;
}

static bool contains(const int32_t *labels, int32_t count, int32_t label)
{
    int32_t low = 0, high = count;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (labels[middle] < label) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && labels[low] == label;
}

static tensum_status new_value(ts_builder *builder, ts_place place, const int32_t *labels, int32_t count, int32_t *number)
{
    tensum_plan *plan = builder->plan;
    ts_value *value = &plan->values[plan->value_count];
    memset(value, 0, sizeof *value);
    value->place = place;
    value->rank = count;
    value->producer = value->consumer = -1;
    value->value_offset = value->keep_offset = value->cotangent_offset = -1;
    value->elements = saturating_size(plan, labels, count);
    *number = plan->value_count++;
    return store(builder, labels, count, &value->labels);
}

static ts_step *new_step(ts_builder *builder, ts_step_kind kind, int32_t a, int32_t b, int32_t c, bool varies)
{
    tensum_plan *plan = builder->plan;
    int32_t number = plan->step_count++;
    ts_step *step = &plan->steps[number];
    memset(step, 0, sizeof *step);
    step->kind = kind;
    step->a = a;
    step->b = b;
    step->c = c;
    step->winner_offset = -1;
    step->invariant = !varies && plan->slice_total > 1;
    plan->values[c].producer = number;
    plan->values[c].varies = varies;
    plan->values[c].lowest_input = INT32_MAX;
    if (a >= 0) {
        plan->values[a].consumer = number;
        plan->values[c].lowest_input = plan->values[a].lowest_input;
    }
    if (b >= 0) {
        plan->values[b].consumer = number;
        if (plan->values[b].lowest_input < plan->values[c].lowest_input) {
            plan->values[c].lowest_input = plan->values[b].lowest_input;
        }
    }
    return step;
}

static void set_sizes(tensum_plan *plan, ts_step *step, const int32_t *labels)
{
    step->batch_size = saturating_size(plan, labels, step->batch_count);
    labels += step->batch_count;
    step->left_size = saturating_size(plan, labels, step->left_count);
    labels += step->left_count;
    step->right_size = saturating_size(plan, labels, step->right_count);
    labels += step->right_count;
    step->sum_size = saturating_size(plan, labels, step->sum_count);
    step->winner_bytes = step->sum_size > INT32_MAX ? 8 : 4;
}

/* c[kept] from a: kept are c's labels, sum what only a has. All lists ascending. */
static tensum_status reduce_step(ts_builder *builder, int32_t a, int32_t c, const int32_t *a_labels, int32_t a_count,
                                 const int32_t *c_labels, int32_t c_count, bool varies)
{
    tensum_status status = TENSUM_OK;
    int32_t lists[2 * MOST_LABELS], sum = 0;
    ts_step *step = new_step(builder, a < 0 ? TS_STEP_ONE : TS_STEP_REDUCE, a, -1, c, varies);
    for (int32_t i = 0; i < c_count; i++) {
        lists[i] = c_labels[i];
    }
    for (int32_t i = 0; i < a_count; i++) {
        if (!contains(c_labels, c_count, a_labels[i])) {
            lists[c_count + sum++] = a_labels[i];
        }
    }
    step->left_count = c_count;
    step->sum_count = sum;
    set_sizes(builder->plan, step, lists);
    TRY(store(builder, lists, c_count, &step->left));
    TRY(store(builder, lists + c_count, sum, &step->sum));
    step->batch = step->right = step->sum;
done:
    return status;
}

static tensum_status contract_step(ts_builder *builder, int32_t a, int32_t b, int32_t c, const int32_t *a_labels,
                                   int32_t a_count, const int32_t *b_labels, int32_t b_count, const int32_t *c_labels,
                                   int32_t c_count, bool varies)
{
    tensum_status status = TENSUM_OK;
    int32_t batch[MOST_LABELS], left[MOST_LABELS], right[MOST_LABELS], sum[MOST_LABELS], all[2 * MOST_LABELS];
    ts_step *step = new_step(builder, TS_STEP_CONTRACT, a, b, c, varies);
    for (int32_t i = 0; i < a_count; i++) {
        int32_t label = a_labels[i];
        if (!contains(b_labels, b_count, label)) {
            left[step->left_count++] = label;
        } else if (contains(c_labels, c_count, label)) {
            batch[step->batch_count++] = label;
        } else {
            sum[step->sum_count++] = label;
        }
    }
    for (int32_t i = 0; i < b_count; i++) {
        if (!contains(a_labels, a_count, b_labels[i])) {
            right[step->right_count++] = b_labels[i];
        }
    }
    int32_t *next = all;
    memcpy(next, batch, (size_t)step->batch_count * sizeof *next);
    next += step->batch_count;
    memcpy(next, left, (size_t)step->left_count * sizeof *next);
    next += step->left_count;
    memcpy(next, right, (size_t)step->right_count * sizeof *next);
    next += step->right_count;
    memcpy(next, sum, (size_t)step->sum_count * sizeof *next);
    set_sizes(builder->plan, step, all);
    TRY(store(builder, batch, step->batch_count, &step->batch));
    TRY(store(builder, left, step->left_count, &step->left));
    TRY(store(builder, right, step->right_count, &step->right));
    TRY(store(builder, sum, step->sum_count, &step->sum));
done:
    return status;
}

/* The value that stands for a tree node: an input, its own reduction, or an intermediate. */
static tensum_status leaf_value(ts_builder *builder, int32_t leaf, int32_t *value)
{
    tensum_status status = TENSUM_OK;
    const ts_node_labels *nodes = &builder->nodes;
    int32_t given[MOST_LABELS], count = operand_labels(builder, leaf, given), reduced;
    *value = leaf;
    if (count != nodes->count[leaf]) {
        const int32_t *kept = nodes->labels + nodes->first[leaf];
        TRY(new_value(builder, TS_PLACE_ARENA, kept, nodes->count[leaf], &reduced));
        TRY(reduce_step(builder, leaf, reduced, given, count, kept, nodes->count[leaf], builder->node_varies[leaf]));
        *value = reduced;
    }
done:
    return status;
}

static tensum_status build_steps(ts_builder *builder)
{
    tensum_status status = TENSUM_OK;
    tensum_plan *plan = builder->plan;
    const tensum_network *network = plan->network;
    const ts_node_labels *nodes = &builder->nodes;
    int32_t n = builder->pairs.tensor_count, number;
    int32_t *value_of = NULL;
    int32_t labels[MOST_LABELS], output[MOST_LABELS];
    for (int32_t i = 0; i < n; i++) {
        int32_t count = operand_labels(builder, i, labels);
        TRY(new_value(builder, TS_PLACE_INPUT, labels, count, &number));
        plan->values[i].lowest_input = i;
        plan->values[i].varies = builder->node_varies[i];
    }
    int32_t output_count = operand_labels(builder, n, output);
    bool output_varies = plan->slice_total != 1;
    TRY(new_value(builder, TS_PLACE_OUTPUT, output, output_count, &number));
    if (n < 2) {
        int32_t count = n == 1 ? operand_labels(builder, 0, labels) : 0;
        TRY(reduce_step(builder, n - 1, n, labels, count, output, output_count, output_varies));
        goto done;
    }
    TRY(ts_allocate((size_t)(2 * n - 1), sizeof *value_of, "plan values", &value_of));
    for (int32_t i = 0; i < 2 * n - 1; i++) {
        value_of[i] = -1;
    }
    for (int32_t i = 0; i + 1 < n; i++) {
        int32_t s = builder->order[i], node = n + s;
        int32_t child[2] = {builder->pairs.pairs[2 * s], builder->pairs.pairs[2 * s + 1]};
        for (int k = 0; k < 2; k++) {
            if (child[k] < n) {
                TRY(leaf_value(builder, child[k], &value_of[child[k]]));
            }
        }
        const int32_t *c_labels = nodes->labels + nodes->first[node];
        int32_t c_count = nodes->count[node];
        bool root = s == n - 2, direct = root && c_count == output_count;
        if (direct) {
            number = n;
        } else {
            TRY(new_value(builder, TS_PLACE_ARENA, c_labels, c_count, &number));
        }
        value_of[node] = number;
        TRY(contract_step(builder, value_of[child[0]], value_of[child[1]], number,
                          nodes->labels + nodes->first[child[0]], nodes->count[child[0]],
                          nodes->labels + nodes->first[child[1]], nodes->count[child[1]], c_labels, c_count,
                          direct ? output_varies : builder->node_varies[node] != 0));
        if (root && !direct) {
            TRY(reduce_step(builder, number, n, c_labels, c_count, output, output_count, output_varies));
        }
    }
done:
    ts_free(value_of);
    (void)network;
    return status;
}

/* Memory order of intermediates, from the output down: an operand is laid out as batch labels, sum labels, then its
 * own labels, each in the order of the result, so that kernels stream along the result's innermost labels. */
static void choose_layouts(tensum_plan *plan, int32_t *position)
{
    int32_t ordered[MOST_LABELS];
    for (int32_t s = plan->step_count - 1; s >= 0; s--) {
        const ts_step *step = &plan->steps[s];
        const ts_value *c = &plan->values[step->c];
        for (int32_t i = 0; i < c->rank; i++) {
            position[c->labels[i]] = i;
        }
        for (int side = 0; side < 2; side++) {
            int32_t number = side == 0 ? step->a : step->b;
            if (number < 0 || plan->values[number].place != TS_PLACE_ARENA) {
                continue;
            }
            ts_value *value = &plan->values[number];
            const int32_t *own = side == 0 ? step->left : step->right;
            int32_t own_count = side == 0 ? step->left_count : step->right_count, count = 0;
            const int32_t *lists[3] = {step->batch, step->sum, own};
            int32_t counts[3] = {step->batch_count, step->sum_count, own_count};
            if (step->kind == TS_STEP_REDUCE) { /* kept labels that c broadcasts are not a's */
                counts[0] = 0;
            }
            for (int k = 0; k < 3; k++) {
                int32_t start = count;
                for (int32_t i = 0; i < counts[k]; i++) {
                    int32_t label = lists[k][i], j = count;
                    if (step->kind == TS_STEP_REDUCE && k == 2) {
                        bool has = false;
                        for (int32_t m = 0; m < value->rank && !has; m++) {
                            has = value->labels[m] == label;
                        }
                        if (!has) {
                            continue;
                        }
                    }
                    for (; k != 1 && j > start && position[ordered[j - 1]] > position[label]; j--) {
                        ordered[j] = ordered[j - 1];
                    }
                    ordered[j] = label;
                    count++;
                }
            }
            memcpy((int32_t *)(uintptr_t)value->labels, ordered, (size_t)count * sizeof *ordered);
        }
    }
}

/* The output's labels in the order of its modes (first occurrences), for the layout of what is written into it. */
static void order_output(ts_builder *builder)
{
    tensum_plan *plan = builder->plan;
    const tensum_network *network = plan->network;
    int64_t index = network->operand_count;
    ts_value *value = &plan->values[index];
    int32_t *labels = (int32_t *)(uintptr_t)value->labels, count = 0;
    for (int64_t m = network->offsets[index]; m < network->offsets[index + 1]; m++) {
        int32_t label = network->raw_labels[m];
        if (!builder->in_output[label]) {
            continue;
        }
        bool repeated = false;
        for (int32_t i = 0; i < count && !repeated; i++) {
            repeated = labels[i] == label;
        }
        if (!repeated) {
            labels[count++] = label;
        }
    }
}

/* Turn offsets into pointers; the storage moves to the plan. */
static void settle_storage(ts_builder *builder)
{
    tensum_plan *plan = builder->plan;
    plan->label_storage = builder->storage;
    builder->storage = NULL;
    for (int32_t i = 0; i < plan->value_count; i++) {
        plan->values[i].labels = plan->label_storage + as_offset(plan->values[i].labels);
    }
    for (int32_t i = 0; i < plan->step_count; i++) {
        ts_step *step = &plan->steps[i];
        step->batch = plan->label_storage + as_offset(step->batch);
        step->left = plan->label_storage + as_offset(step->left);
        step->right = plan->label_storage + as_offset(step->right);
        step->sum = plan->label_storage + as_offset(step->sum);
    }
}

static tensum_status set_slices(ts_builder *builder)
{
    tensum_plan *plan = builder->plan;
    tensum_status status = TENSUM_OK;
    TRY(ts_allocate((size_t)builder->pairs.slice_count, sizeof(int32_t), "plan slices", &plan->slice_labels));
    plan->slice_total = 1;
    for (int32_t i = 0; i < builder->pairs.slice_count; i++) {
        int32_t label = builder->pairs.slices[i];
        if (builder->sliced[label] || ts_plan_extent(plan, label) == 1) {
            continue;
        }
        if (plan->slice_label_count == MOST_SLICE_LABELS) {
            status = ts_fail(TENSUM_STATUS_UNSUPPORTED, "more than %d labels are sliced", MOST_SLICE_LABELS);
            goto done;
        }
        builder->sliced[label] = 1;
        plan->slice_labels[plan->slice_label_count++] = label;
        if (!ts_multiply(plan->slice_total, ts_plan_extent(plan, label), &plan->slice_total)) {
            status = ts_fail(TENSUM_STATUS_SIZE_OVERFLOW, "the sliced labels make more than 2^63 slices");
            goto done;
        }
    }
done:
    return status;
}

/* public_labels runs parallel to label_storage. */
static tensum_status set_public_labels(tensum_plan *plan, size_t length)
{
    tensum_status status = ts_allocate(length, sizeof(int64_t), "plan labels", &plan->public_labels);
    for (size_t i = 0; status == TENSUM_OK && i < length; i++) {
        plan->public_labels[i] = plan->network->label_names[plan->label_storage[i]];
    }
    return status;
}

/* Does a label of extent other than 1 occur twice in the output? */
static bool output_repeats(const tensum_network *network)
{
    int64_t index = network->operand_count, modes = 0;
    for (int64_t m = network->offsets[index]; m < network->offsets[index + 1]; m++) {
        modes += network->raw_extents[m] != 1;
    }
    return modes != network->effective_offsets[index + 1] - network->effective_offsets[index];
}

static tensum_status check_limit(const tensum_plan *plan, const tensum_plan_options *options)
{
    unsigned modes = options->memory_modes != 0 ? options->memory_modes : TENSUM_VALUE;
    uint64_t needed = ts_plan_arena_bytes(plan, modes), taken = options->memory_taken;
    if (options->memory_limit != 0 && (taken > options->memory_limit || needed > options->memory_limit - taken)) {
        char held[80] = "";
        if (taken != 0) {
            snprintf(held, sizeof held, " besides the %" PRIu64 " that are taken", taken);
        }
        return ts_fail(TENSUM_STATUS_MEMORY_LIMIT,
                       "this order needs %" PRIu64 " bytes for intermediates%s, the limit is %" PRIu64
                       "; slice labels or choose another order",
                       needed, held, options->memory_limit);
    }
    return TENSUM_OK;
}

static tensum_status check_arguments(const tensum_network *network, const tensum_tree *tree, const tensum_plan_options *options,
                                     tensum_plan **out)
{
    if (network == NULL || tree == NULL || options == NULL || out == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_plan_create: network, tree, options and plan must not be NULL");
    }
    if (options->size < sizeof *options) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "plan options: size is %zu, expected %zu", options->size, sizeof *options);
    }
    if (options->semiring == TENSUM_SUM_PRODUCT_MOD && (options->modulus < 2 || options->modulus >= INT64_C(1) << 31)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "modulus is %" PRId64 ", expected 2 .. 2^31 - 1", options->modulus);
    }
    if (tree->leaf_count != network->operand_count) {
        return ts_fail(TENSUM_STATUS_INVALID_PATH, "the tree has %" PRId64 " leaves, the network %" PRId64 " operands",
                       tree->leaf_count, network->operand_count);
    }
    return ts_pair_check(options->semiring, options->dtype);
}

tensum_status tensum_plan_create(tensum_network *network, tensum_tree *tree, const tensum_plan_options *options,
                                 tensum_plan **out)
{
    tensum_status status = check_arguments(network, tree, options, out);
    ts_builder builder;
    tensum_plan *plan = NULL;
    int32_t *position = NULL;
    if (status != TENSUM_OK) {
        return status;
    }
    memset(&builder, 0, sizeof builder);
    size_t label_count = (size_t)network->label_count;
    TRY(ts_allocate_zero(1, sizeof *plan, "plan", &plan));
    builder.plan = plan;
    atomic_init(&plan->references, 1);
    plan->network = tensum_network_retain(network);
    plan->tree = tensum_tree_retain(tree);
    plan->memory_limit = options->memory_limit;
    plan->memory_taken = options->memory_taken;
    plan->algebra.semiring = options->semiring;
    plan->algebra.dtype = options->dtype;
    plan->algebra.modulus = options->semiring == TENSUM_SUM_PRODUCT_MOD ? options->modulus : 0;
    TRY(ts_tree_binarize(network, tree, &builder.pairs));
    int32_t n = builder.pairs.tensor_count;
    TRY(ts_allocate_zero(label_count, 1, "plan labels", &builder.sliced));
    TRY(ts_allocate_zero(label_count, 1, "plan labels", &builder.in_output));
    TRY(ts_allocate_zero(label_count, sizeof *builder.leaf_uses, "plan labels", &builder.leaf_uses));
    TRY(set_slices(&builder));
    for (int64_t m = 0; m < network->effective_offsets[n]; m++) {
        builder.leaf_uses[network->effective[m]]++;
    }
    for (int64_t m = network->effective_offsets[n]; m < network->effective_offsets[n + 1]; m++) {
        builder.in_output[network->effective[m]] = !builder.sliced[network->effective[m]];
    }
    TRY(ts_build_nodes(&builder));
    for (int32_t i = 0; i < 2 * n - 1; i++) {
        if (builder.nodes.count[i] > MOST_LABELS) {
            status = too_many();
            goto done;
        }
    }
    /* at most: inputs, their reductions, inner nodes, the output */
    TRY(ts_allocate((size_t)n * 3 + 2, sizeof *plan->values, "plan values", &plan->values));
    TRY(ts_allocate((size_t)n * 2 + 2, sizeof *plan->steps, "plan steps", &plan->steps));
    TRY(build_steps(&builder));
    settle_storage(&builder);
    order_output(&builder);
    TRY(ts_allocate_zero(label_count, sizeof *position, "plan labels", &position));
    choose_layouts(plan, position);
    plan->steps[plan->step_count - 1].fill_zero = output_repeats(network);
    TRY(set_public_labels(plan, builder.storage_length));
    plan->scalar_output = true;
    for (int64_t m = network->offsets[n]; m < network->offsets[n + 1]; m++) {
        plan->scalar_output = plan->scalar_output && network->raw_extents[m] == 1;
    }
    TRY(ts_build_memory(plan));
    TRY(ts_build_costs(plan));
    TRY(check_limit(plan, options));
    *out = plan;
    plan = NULL;
done:
    ts_pairs_free(&builder.pairs);
    ts_free(builder.sliced);
    ts_free(builder.in_output);
    ts_free(builder.leaf_uses);
    ts_free(builder.nodes.first);
    ts_free(builder.nodes.count);
    ts_free(builder.nodes.labels);
    ts_free(builder.node_varies);
    ts_free(builder.log2_size);
    ts_free(builder.order);
    ts_free(builder.storage);
    ts_free(position);
    tensum_plan_release(plan);
    return status;
}

tensum_plan *tensum_plan_retain(tensum_plan *plan)
{
    if (plan != NULL) {
        atomic_fetch_add(&plan->references, 1);
    }
    return plan;
}

void tensum_plan_release(tensum_plan *plan)
{
    if (plan == NULL || atomic_fetch_sub(&plan->references, 1) != 1) {
        return;
    }
    tensum_network_release(plan->network);
    tensum_tree_release(plan->tree);
    ts_free(plan->values);
    ts_free(plan->steps);
    ts_free(plan->label_storage);
    ts_free(plan->public_labels);
    ts_free(plan->slice_labels);
    ts_free(plan);
}

tensum_network *tensum_plan_network(const tensum_plan *plan) { return plan->network; }
tensum_tree *tensum_plan_tree(const tensum_plan *plan) { return plan->tree; }
