/* Gradients of the operands of a subtree of small steps, by the kernel that runs it forwards. */
#include "backend/cuda/tree.h"

#include "backend/cuda/fuse.h"

static size_t up(size_t bytes) { return (bytes + 15) / 16 * 16; }

/* The gradient of one operand of a step. */
typedef struct tree_adjoint {
    int32_t operand, other; /* -1: the step has one operand */
    const int32_t *sum;     /* labels of the result that the operand lacks */
    int32_t sum_count;
    int64_t terms;
    bool inside, scattered; /* the operand is made in the same tree; its gradient may have strides of its own */
    size_t bytes;           /* of the table */
} tree_adjoint;

/* False: there is no such operand, or its gradient is not wanted (NULL: all are). */
static bool adjoint_of(const ts_cuda_program *program, int32_t tree, int32_t number, int side, const uint8_t *wanted, tree_adjoint *adjoint)
{
    const tensum_plan *plan = program->plan;
    const ts_step *step = &plan->steps[number];
    const bool two = step->kind != TS_STEP_REDUCE;
    *adjoint = (tree_adjoint){.operand = side == 0 ? step->a : step->b, .other = !two ? -1 : side == 0 ? step->b : step->a, .terms = 1};
    if (adjoint->operand < 0 || (wanted != NULL && !wanted[adjoint->operand])) {
        return false;
    }
    if (two) {
        adjoint->sum = side == 0 ? step->right : step->left;
        adjoint->sum_count = side == 0 ? step->right_count : step->left_count;
        adjoint->terms = side == 0 ? step->right_size : step->left_size;
    }
    adjoint->inside = ts_tree_has(program, tree, adjoint->operand);
    adjoint->scattered = plan->values[adjoint->operand].place != TS_PLACE_ARENA;
    adjoint->bytes = ts_tree_step_bytes(plan->values[adjoint->operand].elements, adjoint->terms, adjoint->scattered);
    return true;
}

typedef struct tree_size {
    int32_t steps;
    size_t leaves, values, tables, buffer; /* elements; elements, leaves among them; bytes; bytes of the largest table */
} tree_size;

/* Leaves: the cotangent of the tree's result, and what its steps read. */
static tree_size measure(const ts_cuda_program *program, int32_t number, const uint8_t *wanted)
{
    const tensum_plan *plan = program->plan;
    const ts_cuda_tree_group *tree = &program->trees[number];
    tree_size size = {.leaves = (size_t)plan->values[plan->steps[tree->root].c].elements};
    for (int32_t i = 0; i < tree->count; i++) {
        for (int side = 0; side < 2; side++) {
            tree_adjoint adjoint;
            if (adjoint_of(program, number, program->tree_steps[tree->first + i], side, wanted, &adjoint)) {
                size.leaves += adjoint.other >= 0 ? (size_t)plan->values[adjoint.other].elements : 0;
                size.values += (size_t)plan->values[adjoint.operand].elements;
                size.tables += adjoint.bytes;
                size.buffer = adjoint.bytes > size.buffer ? adjoint.bytes : size.buffer;
                size.steps++;
            }
        }
    }
    size.values += size.leaves;
    return size;
}

void ts_cuda_trees_go_back(ts_cuda_program *program)
{
    const bool adds = (program->modes & TENSUM_GRADIENT) != 0 && program->pair.has[TS_CUDA_KERNEL_CHAIN_BACK];
    const size_t bytes = tensum_dtype_bytes(program->plan->algebra.dtype), limit = (size_t)program->device->shared_limit;
    size_t buffer = 0, values = 0; /* pure trees share a launch */

    for (int32_t i = 0; i < program->tree_count; i++) {
        ts_cuda_tree_group *tree = &program->trees[i];
        const tree_size size = measure(program, i, NULL);
        const size_t most_buffer = !tree->pure || up(size.buffer) > buffer ? up(size.buffer) : buffer;
        const size_t most_values = !tree->pure || size.values > values ? size.values : values;
        tree->back = adds && program->plan->slice_total == 1 && 2 * most_buffer + most_values * bytes <= limit;
        if (tree->back && tree->pure) {
            buffer = most_buffer;
            values = most_values;
        }
    }
}

/* What one tree has in the table of a launch. */
static void write_item(const ts_cuda_emission *emission, int32_t number, const tree_size *size, unsigned char *table, size_t at,
                       int32_t *value_at, int32_t *cotangent_at, ts_cuda_tree_item *item)
{
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    const ts_cuda_tree_group *tree = &program->trees[number];
    const int32_t result = plan->steps[tree->root].c;
    int64_t storage[64];
    ts_extra_strides extra;
    ts_cuda_tree_leaf *leaves;
    ts_cuda_pointer g;
    int32_t next, made_count = 0;

    item->sizes = (uint32_t)at;
    at += up((size_t)size->steps * 4);
    item->leaves = (uint32_t)at;
    leaves = (ts_cuda_tree_leaf *)(void *)(table + at);
    at += up(size->leaves * sizeof *leaves);
    item->steps = (uint32_t)at;
    item->step_count = size->steps;
    item->leaf_count = (int32_t)size->leaves;
    g = ts_cuda_cotangent_of(emission, result, storage, &extra);
    ts_tree_write_leaf(plan, result, g, extra.strides, leaves);
    cotangent_at[result] = 0;
    next = (int32_t)plan->values[result].elements;
    for (int pass = 0; pass < 2; pass++) { /* leaves, steps */
        for (int32_t i = tree->count - 1; i >= 0; i--) {
            const ts_step *step = &plan->steps[program->tree_steps[tree->first + i]];
            for (int side = 0; side < 2; side++) {
                tree_adjoint adjoint;
                if (!adjoint_of(program, number, (int32_t)(step - plan->steps), side, emission->wanted, &adjoint)) {
                    continue;
                }
                if (pass == 0 && adjoint.other >= 0) {
                    ts_tree_write_leaf(plan, adjoint.other, ts_cuda_value_pointer(emission, adjoint.other),
                                       emission->strides->strides + emission->strides->first[adjoint.other], leaves + next);
                    value_at[adjoint.other] = next;
                    next += (int32_t)plan->values[adjoint.other].elements;
                } else if (pass == 1) {
                    ts_cuda_tree_step *made = (ts_cuda_tree_step *)(void *)(table + at);
                    made->a = cotangent_at[step->c];
                    made->b = adjoint.other >= 0 ? value_at[adjoint.other] : -1;
                    made->result = cotangent_at[adjoint.operand] = next;
                    made->moves = adjoint.other < 0;
                    made->c = ts_cuda_at(0);
                    ts_tree_write_places(plan, step->c, adjoint.other, adjoint.operand, adjoint.sum, adjoint.sum_count, made);
                    made->conjugate = 1;
                    if (!adjoint.inside) {
                        made->c = ts_cuda_gradient_of(emission, adjoint.operand, storage, &extra);
                        made->scattered = adjoint.scattered;
                    }
                    if (made->scattered) {
                        ts_cuda_tree_term *terms = (ts_cuda_tree_term *)(void *)((ts_cuda_tree_result *)(void *)(made + 1) + made->results);
                        int64_t *places = (int64_t *)(void *)(terms + made->terms);
                        for (int32_t n = 0; n < made->results; n++) {
                            places[n] = ts_tree_place(plan, adjoint.operand, extra.strides, n);
                        }
                    }
                    ((uint32_t *)(void *)(table + item->sizes))[made_count++] = (uint32_t)adjoint.bytes;
                    next += made->results;
                    at += adjoint.bytes;
                }
            }
        }
    }
}

/* One launch for trees list[0 .. count). */
static tensum_status add(const ts_cuda_emission *emission, const int32_t *list, int32_t count)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const size_t value_count = (size_t)program->plan->value_count;
    size_t bytes = up((size_t)count * sizeof(ts_cuda_tree_item)), at = bytes, shared = 0, buffer = 0;
    unsigned char *table;
    int32_t *places = NULL;
    ts_cu_address address;
    ts_cuda_tree p = {0};

    TRY(ts_allocate(2 * value_count, sizeof *places, "the subtrees of a program", &places));
    for (int32_t i = 0; i < count; i++) {
        const tree_size size = measure(program, list[i], emission->wanted);
        bytes += up((size_t)size.steps * 4) + up(size.leaves * sizeof(ts_cuda_tree_leaf)) + size.tables;
        buffer = up(size.buffer) > buffer ? up(size.buffer) : buffer;
    }
    ts_cuda_add_table(emission->list, bytes, &table, &address);
    for (int32_t i = 0; i < count; i++) {
        const tree_size size = measure(program, list[i], emission->wanted);
        const size_t needed = 2 * buffer + size.values * tensum_dtype_bytes(program->plan->algebra.dtype);
        shared = needed > shared ? needed : shared;
        if (table != NULL) {
            write_item(emission, list[i], &size, table, at, places, places + value_count, (ts_cuda_tree_item *)(void *)table + i);
        }
        at += up((size_t)size.steps * 4) + up(size.leaves * sizeof(ts_cuda_tree_leaf)) + size.tables;
    }
    p.table = address;
    p.tile_count = count;
    p.buffer = (uint32_t)buffer;
    /* What it reads and writes is not told, so it comes after all before it and before all after it. */
    TRY(ts_cuda_add_launch(emission->list, &program->pair, TS_CUDA_KERNEL_TREE, ts_cuda_grid(count), TS_CUDA_TREE_THREADS,
                           (uint32_t)shared, &p, sizeof p));
done:
    ts_free(places);
    return status;
}

tensum_status ts_cuda_emit_tree_back(const ts_cuda_emission *emission, int32_t step, bool *done)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;

    *done = ts_cuda_goes_back_in_a_tree(program, step);
    if (*done) {
        const int32_t number = program->tree_of[step];
        const ts_cuda_tree_group *tree = &program->trees[number];
        if (!tree->pure && tree->root == step && emission->wanted[program->plan->steps[step].c]) {
            TRY(add(emission, &number, 1));
        }
    }
done:
    return status;
}

tensum_status ts_cuda_emit_pure_trees_back(const ts_cuda_emission *emission)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    int32_t *list = NULL, count = 0;

    if (program->tree_count == 0) {
        return TENSUM_OK;
    }
    TRY(ts_allocate((size_t)program->tree_count, sizeof *list, "the subtrees of a program", &list));
    for (int32_t i = 0; i < program->tree_count; i++) {
        const ts_cuda_tree_group *tree = &program->trees[i];
        if (tree->back && tree->pure && emission->wanted[program->plan->steps[tree->root].c]) {
            list[count++] = i;
        }
    }
    if (count > 0) {
        TRY(add(emission, list, count));
    }
done:
    ts_free(list);
    return status;
}
