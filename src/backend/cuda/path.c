/* Decoding as one launch: see ts_cuda_path. */
#include "backend/cuda/chain.h"
#include "backend/cuda/path.h"

enum { LONG_ROW = 1024, MOST_VALUE_BYTES = 49152 };

/* What stage k of a chain (0: what it reads, k: the result of its k-th step) has to be known for: the labels that it has and
 * that are summed later, in its own order. Returns how many. */
static int32_t free_labels(const tensum_plan *plan, const int32_t *steps, int32_t count, int32_t k, int32_t *labels)
{
    const ts_value *v = &plan->values[k == 0 ? ts_chain_big_of(plan, &plan->steps[steps[0]]) : plan->steps[steps[k - 1]].c];
    int32_t found = 0;
    for (int32_t i = 0; i < v->rank; i++) {
        for (int32_t s = k; s < count; s++) {
            if (ts_chain_has_label(plan->steps[steps[s]].sum, plan->steps[steps[s]].sum_count, v->labels[i])) {
                labels[found++] = v->labels[i];
                break;
            }
        }
    }
    return found;
}

static int64_t positions_of(const tensum_plan *plan, const int32_t *labels, int32_t count)
{
    int64_t size = 1;
    for (int32_t i = 0; i < count && size <= MOST_VALUE_BYTES; i++) {
        size *= ts_plan_extent(plan, labels[i]);
    }
    return size;
}

/* Elements of all stages inside a chain that are worked out again; -1: too many. */
static int64_t values_of(const tensum_plan *plan, const int32_t *steps, int32_t count)
{
    int64_t total = 0;
    int32_t labels[64];
    for (int32_t k = 1; k < count; k++) {
        if (plan->steps[steps[k - 1]].sum_size > TS_CUDA_PATH_TERMS) {
            return -1;
        }
        total += positions_of(plan, labels, free_labels(plan, steps, count, k, labels));
        if (total * (int64_t)tensum_dtype_bytes(plan->algebra.dtype) > MOST_VALUE_BYTES) {
            return -1;
        }
    }
    return total;
}

bool ts_cuda_path_fits(const tensum_plan *plan, const int32_t *steps, int32_t count) { return values_of(plan, steps, count) >= 0; }

typedef struct builder {
    const ts_cuda_emission *emission;
    ts_cuda_path_item *items; /* in any order */
    int32_t *level_of, *level; /* of items; of steps */
    ts_cuda_decode_label *labels;
    int32_t item_count, label_count, levels, clock; /* clock: when the last chain is done with its values */
    int64_t most_values;
} builder;

/* The stride of a label where a chain's stage k lies, of which the decode knows `count` labels; count < 0: in memory. */
static int64_t stage_stride(const builder *b, int32_t value, const int32_t *known, int32_t count, int32_t label)
{
    const tensum_plan *plan = b->emission->program->plan;
    int64_t stride = 1;
    if (count < 0) {
        return ts_stride_of(plan, b->emission->strides, value, label);
    }
    for (int32_t i = count - 1; i >= 0; i--) {
        if (known[i] == label) {
            return stride;
        }
        stride *= ts_plan_extent(plan, known[i]);
    }
    return 0;
}

static void put_label(builder *b, int32_t label, int64_t a_stride, int64_t b_stride)
{
    ts_cuda_decode_label *to = &b->labels[b->label_count++];
    *to = (ts_cuda_decode_label){.extent = ts_plan_extent(b->emission->program->plan, label), .a = a_stride, .b = b_stride, .label = label};
    ts_cuda_magic(to->extent, &to->magic, &to->shift);
}

static ts_cuda_path_item *put_item(builder *b, int32_t level)
{
    ts_cuda_path_item *item = &b->items[b->item_count];
    *item = (ts_cuda_path_item){.first_label = b->label_count, .before = -1};
    b->level_of[b->item_count++] = level;
    b->levels = level + 1 > b->levels ? level + 1 : b->levels;
    return item;
}

/* The row of a step, with its first operand at `before` in the block's values, of which `count` labels are known. */
static void put_row(builder *b, const ts_step *step, int32_t level, int32_t first, int32_t second, int32_t before,
                    const int32_t *known, int32_t count)
{
    const tensum_plan *plan = b->emission->program->plan;
    const int32_t *lists[4] = {step->batch, step->left, step->right, step->sum};
    const int32_t counts[4] = {step->batch_count, step->left_count, step->right_count, step->sum_count};
    ts_cuda_path_item *item;

    if (step->sum_count == 0) {
        return;
    }
    item = put_item(b, level);
    item->kind = step->sum_size > LONG_ROW ? TS_CUDA_PATH_LONG_ROW : TS_CUDA_PATH_ROW;
    item->before = before;
    if (before < 0) {
        item->a = ts_cuda_value_pointer(b->emission, first);
    }
    item->two = second >= 0;
    if (second >= 0) {
        item->b = ts_cuda_value_pointer(b->emission, second);
    }
    item->sum = step->sum_size;
    item->wide = step->sum_size >= (int64_t)1 << 31;
    for (int class = 0; class < 4; class++) {
        for (int32_t i = 0; i < counts[class]; i++) {
            const int32_t label = lists[class][i];
            put_label(b, label, stage_stride(b, first, known, before < 0 ? -1 : count, label),
                      second >= 0 ? ts_stride_of(plan, b->emission->strides, second, label) : 0);
        }
        item->kept_count += class < 3 ? counts[class] : 0;
    }
    item->sum_count = step->sum_count;
}

/* A chain whose inside is not kept: what the path may go through is worked out, first step first, then its rows, last step
 * first. Chains take their turns with the block's values. */
static void put_chain(builder *b, const ts_cuda_chain_group *group, int32_t level)
{
    const tensum_plan *plan = b->emission->program->plan;
    int32_t known[TS_CUDA_CHAIN_STEPS + 1][64], count[TS_CUDA_CHAIN_STEPS + 1], place[TS_CUDA_CHAIN_STEPS + 1], total = 0;

    level = level > b->clock ? level : b->clock;
    for (int32_t k = 0; k <= group->count; k++) {
        count[k] = free_labels(plan, group->steps, group->count, k, known[k]);
        place[k] = k == 0 ? -1 : total;
        total += k == 0 || k == group->count ? 0 : (int32_t)positions_of(plan, known[k], count[k]);
    }
    b->most_values = ts_max64(b->most_values, total);
    for (int32_t k = 1; k < group->count; k++, level++) {
        const ts_step *step = &plan->steps[group->steps[k - 1]];
        const int32_t big = ts_chain_big_of(plan, step), tiny = ts_chain_tiny_of(plan, step);
        const int32_t *lists[3] = {step->batch, step->left, step->right};
        const int32_t counts[3] = {step->batch_count, step->left_count, step->right_count};
        ts_cuda_path_item *item = put_item(b, level);
        item->kind = TS_CUDA_PATH_RESULTS;
        item->before = place[k - 1];
        if (item->before < 0) {
            item->a = ts_cuda_value_pointer(b->emission, big);
        }
        item->b = ts_cuda_value_pointer(b->emission, tiny);
        item->two = 1;
        item->sum = step->sum_size;
        item->results = (int32_t)positions_of(plan, known[k], count[k]);
        item->place = place[k];
        item->free_count = count[k];
        item->sum_count = step->sum_count;
        for (int class = 0; class < 3; class++) {
            for (int32_t i = 0; i < counts[class]; i++) {
                const int32_t label = lists[class][i];
                if (!ts_chain_has_label(known[k], count[k], label)) {
                    put_label(b, label, stage_stride(b, big, known[k - 1], k == 1 ? -1 : count[k - 1], label),
                              ts_stride_of(plan, b->emission->strides, tiny, label));
                    item->kept_count++;
                }
            }
        }
        for (int32_t i = 0; i < count[k] + step->sum_count; i++) {
            const int32_t label = i < count[k] ? known[k][i] : step->sum[i - count[k]];
            put_label(b, label, stage_stride(b, big, known[k - 1], k == 1 ? -1 : count[k - 1], label),
                      ts_stride_of(plan, b->emission->strides, tiny, label));
        }
    }
    for (int32_t k = group->count - 1; k >= 0; k--, level++) {
        const ts_step *step = &plan->steps[group->steps[k]];
        put_row(b, step, level, ts_chain_big_of(plan, step), ts_chain_tiny_of(plan, step), place[k], known[k], count[k]);
        b->level[group->steps[k]] = level;
    }
    b->clock = level;
}

static const ts_cuda_chain_group *chain_of(const ts_cuda_program *program, int32_t step)
{
    return program->lean && program->chain_of != NULL && program->chain_of[step] >= 0 &&
                   program->chains[program->chain_of[step]].count > 1
               ? &program->chains[program->chain_of[step]]
               : NULL;
}

static void build(builder *b)
{
    const ts_cuda_program *program = b->emission->program;
    const tensum_plan *plan = program->plan;

    for (int32_t s = plan->step_count - 1; s >= 0; s--) {
        const ts_step *step = &plan->steps[s];
        const int32_t consumer = plan->values[step->c].consumer;
        const ts_cuda_chain_group *group = chain_of(program, s);
        const int32_t level = consumer < 0 ? 0 : b->level[consumer] + 1;
        if (group != NULL) {
            if (group->steps[group->count - 1] == s) {
                put_chain(b, group, level);
            }
            continue;
        }
        if (step->kind == TS_STEP_ONE || step->sum_count == 0 || ts_cuda_is_empty(plan, step)) {
            b->level[s] = level - 1; /* nothing to wait for */
            continue;
        }
        b->level[s] = level;
        put_row(b, step, level, step->a, step->b, -1, NULL, 0);
    }
}

tensum_status ts_cuda_emit_path(const ts_cuda_emission *emission, int64_t positions)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    builder b = {.emission = emission};
    ts_cuda_path p = {0};
    ts_cuda_path_item *items;
    ts_cuda_decode_label *labels;
    int32_t *levels, *next = NULL;
    size_t most_labels = 0;

    if (plan->slice_total == 0) { /* the output is 0 of the semiring everywhere */
        return TENSUM_OK;
    }
    for (int32_t s = 0; s < plan->step_count; s++) {
        most_labels += 2 * (size_t)ts_step_modes(&plan->steps[s]); /* a chain's steps have two items each */
    }
    TRY(ts_allocate(2 * (size_t)plan->step_count, sizeof *b.items, "a decode", &b.items));
    TRY(ts_allocate(2 * (size_t)plan->step_count, sizeof *b.level_of, "a decode", &b.level_of));
    TRY(ts_allocate((size_t)plan->step_count, sizeof *b.level, "a decode", &b.level));
    TRY(ts_allocate(most_labels, sizeof *b.labels, "a decode", &b.labels));
    build(&b);
    if (b.item_count == 0) {
        goto done;
    }
    ts_cuda_add_table(emission->list, ((size_t)b.levels + 1) * sizeof *levels, &levels, &p.levels);
    ts_cuda_add_table(emission->list, (size_t)b.item_count * sizeof *items, &items, &p.items);
    ts_cuda_add_table(emission->list, (size_t)b.label_count * sizeof *labels, &labels, &p.labels);
    if (!emission->list->measure) {
        TRY(ts_allocate_zero((size_t)b.levels + 1, sizeof *next, "a decode", &next));
        for (int32_t i = 0; i < b.item_count; i++) {
            next[b.level_of[i] + 1]++;
        }
        for (int32_t level = 0; level < b.levels; level++) {
            next[level + 1] += next[level];
        }
        memcpy(levels, next, ((size_t)b.levels + 1) * sizeof *levels);
        for (int32_t i = 0; i < b.item_count; i++) {
            items[next[b.level_of[i]]++] = b.items[i];
        }
        memcpy(labels, b.labels, (size_t)b.label_count * sizeof *labels);
    }
    p.assignments = emission->memory + program->decode_offset;
    p.assignment_count = plan->network->label_count;
    p.tile_count = positions;
    p.level_count = b.levels;
    TRY(ts_cuda_add_launch(emission->list, &program->pair, TS_CUDA_KERNEL_DECODE, ts_cuda_grid(positions), TS_CUDA_THREADS,
                           (uint32_t)(TS_CUDA_REDUCE_SHARED + TS_CUDA_PATH_TERMS * 16 +
                                      (size_t)b.most_values * tensum_dtype_bytes(plan->algebra.dtype)),
                           &p, sizeof p));
done:
    ts_free(b.items);
    ts_free(b.level_of);
    ts_free(b.level);
    ts_free(b.labels);
    ts_free(next);
    return status;
}
