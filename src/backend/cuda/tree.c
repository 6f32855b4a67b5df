#include "backend/cuda/tree.h"

#include "backend/cuda/fuse.h"

/* Tuned by bench/tune/networks.sh. */
#ifndef TS_TREE_MOST_RESULTS
#define TS_TREE_MOST_RESULTS 1024 /* of a step, as a block has 128 threads */
#endif
#ifndef TS_TREE_MOST_PAIRS
#define TS_TREE_MOST_PAIRS 16384
#endif
#ifndef TS_TREE_MOST_BYTES
#define TS_TREE_MOST_BYTES 65536 /* operands and results of a subtree */
#endif

enum {
    MOST_TERMS = 128,
    MOST_LEAF = 4096, /* elements of an operand */
    MOST_STEPS = 512
};

/* ---- which steps ---- */

static bool is_small(const ts_cuda_program *program, const ts_step *step)
{
    const tensum_plan *plan = program->plan;
    const ts_value *c = &plan->values[step->c];
    const int32_t operands[2] = {step->a, step->b};

    if (step->kind == TS_STEP_ONE || c->place != TS_PLACE_ARENA || c->elements < 1 || c->elements > TS_TREE_MOST_RESULTS ||
        step->sum_size < 1 || step->sum_size > MOST_TERMS || c->elements * step->sum_size > TS_TREE_MOST_PAIRS ||
        ((program->modes & TENSUM_GRADIENT) != 0 && step->winner_offset >= 0)) {
        return false;
    }
    for (int k = 0; k < 2; k++) {
        if (operands[k] >= 0 && (plan->values[operands[k]].elements < 1 || plan->values[operands[k]].elements > MOST_LEAF)) {
            return false;
        }
    }
    return step->a != step->b;
}

/* The step that makes an operand, if it may be in the same subtree. */
static int32_t below(const tensum_plan *plan, const uint8_t *small, const ts_step *step, int32_t operand)
{
    int32_t producer = operand >= 0 ? plan->values[operand].producer : -1;
    return producer >= 0 && small[producer] && plan->steps[producer].invariant == step->invariant &&
                   !ts_plan_persists(plan, &plan->values[operand])
               ? producer
               : -1;
}

/* Steps below `root`, in the order of execution: a step's number is larger than those of the steps it needs. */
static int32_t collect(const tensum_plan *plan, const uint8_t *small, const uint8_t *linked, int32_t root, int32_t *steps)
{
    int32_t count = 1;
    steps[0] = root;
    for (int32_t i = 0; i < count; i++) {
        const ts_step *step = &plan->steps[steps[i]];
        const int32_t operands[2] = {step->a, step->b};
        for (int k = 0; k < 2; k++) {
            int32_t producer = below(plan, small, step, operands[k]);
            if (producer >= 0 && linked[producer]) {
                steps[count++] = producer;
            }
        }
    }
    for (int32_t i = 1; i < count; i++) { /* a few hundred at most */
        int32_t step = steps[i], j = i;
        for (; j > 0 && steps[j - 1] > step; j--) {
            steps[j] = steps[j - 1];
        }
        steps[j] = step;
    }
    return count;
}

tensum_status ts_cuda_trees_find(ts_cuda_program *program)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    const size_t count = (size_t)plan->step_count;
    const int64_t most = TS_TREE_MOST_BYTES / (int64_t)tensum_dtype_bytes(plan->algebra.dtype);
    uint8_t *small = NULL, *linked = NULL, *pure = NULL;
    int64_t *size = NULL;
    int32_t *steps_of = NULL, next = 0;

    if (!program->pair.has[TS_CUDA_KERNEL_TREE] || plan->too_large || count < 2) {
        return TENSUM_OK;
    }
    TRY(ts_allocate_zero(count, 1, "the subtrees of a program", &small));
    TRY(ts_allocate_zero(count, 1, "the subtrees of a program", &linked));
    TRY(ts_allocate_zero(count, 1, "the subtrees of a program", &pure));
    TRY(ts_allocate_zero(count, sizeof *size, "the subtrees of a program", &size));
    TRY(ts_allocate_zero(count, sizeof *steps_of, "the subtrees of a program", &steps_of));
    TRY(ts_allocate(count, sizeof *program->trees, "the subtrees of a program", &program->trees));
    TRY(ts_allocate(count, sizeof *program->tree_of, "the subtrees of a program", &program->tree_of));
    TRY(ts_allocate(count, sizeof *program->tree_steps, "the subtrees of a program", &program->tree_steps));
    for (int32_t s = 0; s < plan->step_count; s++) {
        const ts_step *step = &plan->steps[s];
        const int32_t operands[2] = {step->a, step->b};
        int64_t all = plan->values[step->c].elements, alone = all;
        int32_t steps = 1;

        program->tree_of[s] = -1;
        small[s] = is_small(program, step);
        if (!small[s]) {
            continue;
        }
        for (int k = 0; k < 2; k++) {
            int32_t producer = below(plan, small, step, operands[k]);
            int64_t leaf = operands[k] >= 0 ? plan->values[operands[k]].elements : 0;
            all += producer >= 0 ? size[producer] : leaf;
            alone += leaf;
            steps += producer >= 0 ? steps_of[producer] : 0;
        }
        if (alone > most) {
            small[s] = 0;
            continue;
        }
        pure[s] = 1;
        for (int k = 0; k < 2; k++) { /* one subtree with what is below, or leave that to subtrees of its own */
            int32_t producer = below(plan, small, step, operands[k]);
            if (producer >= 0 && all <= most && steps <= MOST_STEPS) {
                linked[producer] = 1;
                pure[s] = pure[s] && pure[producer];
            } else if (operands[k] >= 0 && plan->values[operands[k]].producer >= 0) {
                pure[s] = 0;
            }
        }
        size[s] = all <= most && steps <= MOST_STEPS ? all : alone;
        steps_of[s] = all <= most && steps <= MOST_STEPS ? steps : 1;
    }
    for (int32_t s = 0; s < plan->step_count; s++) {
        ts_cuda_tree_group *tree = &program->trees[program->tree_count];
        if (!small[s] || linked[s] || (!pure[s] && steps_of[s] < 2)) {
            continue;
        }
        *tree = (ts_cuda_tree_group){s, next, collect(plan, small, linked, s, program->tree_steps + next), pure[s] != 0, false};
        for (int32_t i = 0; i < tree->count; i++) {
            program->tree_of[program->tree_steps[next + i]] = program->tree_count;
        }
        next += tree->count;
        program->tree_count++;
    }
done:
    ts_free(small);
    ts_free(linked);
    ts_free(pure);
    ts_free(size);
    ts_free(steps_of);
    return status;
}

/* ---- tables ---- */

static size_t up(size_t bytes) { return (bytes + 15) / 16 * 16; }
size_t ts_tree_step_bytes(int64_t results, int64_t terms, bool scattered)
{
    return up(sizeof(ts_cuda_tree_step) + (size_t)results * sizeof(ts_cuda_tree_result) + (size_t)terms * sizeof(ts_cuda_tree_term) +
              (scattered ? (size_t)results * sizeof(int64_t) : 0));
}
static size_t step_bytes(const tensum_plan *plan, const ts_step *step)
{
    return ts_tree_step_bytes(plan->values[step->c].elements, step->sum_size, false);
}
/* Operand k of step i of a tree, if it comes from outside: -1 otherwise. */
static int32_t leaf_of(const ts_cuda_program *program, int32_t tree, const ts_step *step, int k)
{
    int32_t value = k == 0 ? step->a : step->b;
    return value >= 0 && !ts_tree_has(program, tree, value) ? value : -1;
}

typedef struct tree_size {
    size_t leaves, steps; /* elements; bytes of tables */
    size_t values, buffer; /* elements in shared memory; bytes of the largest step's table */
} tree_size;
static tree_size measure(const ts_cuda_program *program, int32_t number)
{
    const tensum_plan *plan = program->plan;
    const ts_cuda_tree_group *tree = &program->trees[number];
    tree_size size = {0};
    for (int32_t i = 0; i < tree->count; i++) {
        const ts_step *step = &plan->steps[program->tree_steps[tree->first + i]];
        const size_t bytes = step_bytes(plan, step);
        for (int k = 0; k < 2; k++) {
            int32_t leaf = leaf_of(program, number, step, k);
            size.leaves += leaf >= 0 ? (size_t)plan->values[leaf].elements : 0;
        }
        size.values += (size_t)plan->values[step->c].elements;
        size.steps += bytes;
        size.buffer = bytes > size.buffer ? bytes : size.buffer;
    }
    size.values += size.leaves;
    return size;
}

/* Step of a label in a tensor that lies row-major in shared memory. */
static int32_t compact_stride(const tensum_plan *plan, int32_t value, int32_t label)
{
    const ts_value *v = &plan->values[value];
    int32_t stride = 1;
    for (int32_t i = v->rank - 1; i >= 0; i--) {
        if (v->labels[i] == label) {
            return stride;
        }
        stride *= (int32_t)ts_plan_extent(plan, v->labels[i]);
    }
    return 0;
}

int64_t ts_tree_place(const tensum_plan *plan, int32_t value, const int64_t *strides, int64_t element)
{
    const ts_value *v = &plan->values[value];
    int64_t place = 0;
    for (int32_t n = v->rank - 1; n >= 0; n--) {
        const int64_t extent = ts_plan_extent(plan, v->labels[n]);
        place += element % extent * strides[n];
        element /= extent;
    }
    return place;
}
void ts_tree_write_leaf(const tensum_plan *plan, int32_t value, ts_cuda_pointer from, const int64_t *strides, ts_cuda_tree_leaf *leaf)
{
    for (int64_t i = 0; i < plan->values[value].elements; i++) {
        leaf[i].from = from;
        leaf[i].place = ts_tree_place(plan, value, strides, i);
    }
}

void ts_tree_write_places(const tensum_plan *plan, int32_t first, int32_t second, int32_t result, const int32_t *sum, int32_t sum_count,
                          ts_cuda_tree_step *made)
{
    const ts_value *c = &plan->values[result];
    ts_cuda_tree_result *results = (ts_cuda_tree_result *)(void *)(made + 1);
    ts_cuda_tree_term *terms = (ts_cuda_tree_term *)(void *)(results + c->elements);
    int32_t a[TS_CUDA_MOST_MODES], b[TS_CUDA_MOST_MODES];

    made->conjugate = made->scattered = 0;
    made->results = (int32_t)c->elements;
    made->terms = 1;
    for (int32_t n = 0; n < sum_count; n++) {
        made->terms *= (int32_t)ts_plan_extent(plan, sum[n]);
    }
    for (int pass = 0; pass < 2; pass++) {
        const int32_t *labels = pass == 0 ? c->labels : sum;
        const int32_t rank = pass == 0 ? c->rank : sum_count;
        for (int32_t n = 0; n < rank; n++) {
            a[n] = compact_stride(plan, first, labels[n]);
            b[n] = second >= 0 ? compact_stride(plan, second, labels[n]) : 0;
        }
        for (int32_t i = 0; i < (pass == 0 ? made->results : made->terms); i++) {
            int32_t rest = i, x = 0, y = 0;
            for (int32_t n = rank - 1; n >= 0; n--) {
                const int32_t extent = (int32_t)ts_plan_extent(plan, labels[n]);
                x += rest % extent * a[n];
                y += rest % extent * b[n];
                rest /= extent;
            }
            if (pass == 0) {
                results[i] = (ts_cuda_tree_result){x, y};
            } else {
                terms[i] = (ts_cuda_tree_term){x, y};
            }
        }
    }
}

static void write_step(const tensum_plan *plan, const ts_step *step, const int32_t *place, ts_cuda_tree_step *made)
{
    made->a = place[step->a];
    made->b = step->b >= 0 ? place[step->b] : -1;
    made->result = place[step->c];
    made->moves = step->kind == TS_STEP_REDUCE && step->sum_size == 1;
    ts_tree_write_places(plan, step->a, step->b, step->c, step->sum, step->sum_count, made);
}

/* One launch for trees list[0 .. count). */
static tensum_status add(const ts_cuda_emission *emission, const int32_t *list, int32_t count)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    size_t bytes = up((size_t)count * sizeof(ts_cuda_tree_item)), values = 0, buffer = 0;
    unsigned char *table;
    int32_t *place = NULL;
    ts_cu_address address;
    ts_cuda_tree p = {0};

    TRY(ts_allocate((size_t)plan->value_count, sizeof *place, "the subtrees of a program", &place));
    for (int32_t i = 0; i < count; i++) {
        const tree_size size = measure(program, list[i]);
        bytes += up((size_t)program->trees[list[i]].count * 4) + up(size.leaves * sizeof(ts_cuda_tree_leaf)) + size.steps;
        values = size.values > values ? size.values : values;
        buffer = size.buffer > buffer ? size.buffer : buffer;
    }
    ts_cuda_add_table(emission->list, bytes, &table, &address);
    for (int32_t i = 0; i < count && table != NULL; i++) {
        const ts_cuda_tree_group *tree = &program->trees[list[i]];
        ts_cuda_tree_item *item = (ts_cuda_tree_item *)(void *)table + i;
        const tree_size size = measure(program, list[i]);
        size_t at = i == 0 ? up((size_t)count * sizeof *item) : item[-1].steps;
        int32_t next = 0;

        if (i > 0) { /* behind the tables of the tree before */
            at += measure(program, list[i - 1]).steps;
        }
        item->sizes = (uint32_t)at;
        at += up((size_t)tree->count * 4);
        item->leaves = (uint32_t)at;
        at += up(size.leaves * sizeof(ts_cuda_tree_leaf));
        item->steps = (uint32_t)at;
        item->step_count = tree->count;
        item->leaf_count = (int32_t)size.leaves;
        for (int32_t s = 0; s < tree->count; s++) {
            const ts_step *step = &plan->steps[program->tree_steps[tree->first + s]];
            for (int k = 0; k < 2; k++) {
                int32_t leaf = leaf_of(program, list[i], step, k);
                if (leaf >= 0) {
                    place[leaf] = next;
                    ts_tree_write_leaf(plan, leaf, ts_cuda_value_pointer(emission, leaf),
                                       emission->strides->strides + emission->strides->first[leaf],
                                       (ts_cuda_tree_leaf *)(void *)(table + item->leaves) + next);
                    next += (int32_t)plan->values[leaf].elements;
                }
            }
        }
        for (int32_t s = 0; s < tree->count; s++) {
            const ts_step *step = &plan->steps[program->tree_steps[tree->first + s]];
            ts_cuda_tree_step *made = (ts_cuda_tree_step *)(void *)(table + at);
            place[step->c] = next;
            next += (int32_t)plan->values[step->c].elements;
            made->c = emission->keep || s + 1 == tree->count ? ts_cuda_value_pointer(emission, step->c) : ts_cuda_at(0);
            write_step(plan, step, place, made);
            ((uint32_t *)(void *)(table + item->sizes))[s] = (uint32_t)step_bytes(plan, step);
            at += step_bytes(plan, step);
        }
    }
    p.table = address;
    p.tile_count = count;
    p.modulus = plan->algebra.modulus;
    p.buffer = (uint32_t)up(buffer);
    /* What it reads and writes is not told, so it comes after all before it and before all after it. */
    TRY(ts_cuda_add_launch(emission->list, &program->pair, TS_CUDA_KERNEL_TREE, ts_cuda_grid(count), TS_CUDA_TREE_THREADS,
                           (uint32_t)(2 * up(buffer) + values * tensum_dtype_bytes(plan->algebra.dtype)), &p, sizeof p));
done:
    ts_free(place);
    return status;
}

tensum_status ts_cuda_emit_pure_trees(const ts_cuda_emission *emission, bool invariant)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    int32_t *list = NULL, count = 0;

    if (program->tree_count == 0) {
        return TENSUM_OK;
    }
    TRY(ts_allocate((size_t)program->tree_count, sizeof *list, "the subtrees of a program", &list));
    for (int32_t i = 0; i < program->tree_count; i++) {
        if (program->trees[i].pure && program->plan->steps[program->trees[i].root].invariant == invariant) {
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

tensum_status ts_cuda_emit_tree(const ts_cuda_emission *emission, int32_t step, bool *done)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    int32_t number = program->tree_of != NULL ? program->tree_of[step] : -1;

    *done = false;
    if (number >= 0) {
        if (!program->trees[number].pure && program->trees[number].root == step) {
            TRY(add(emission, &number, 1));
        }
        *done = !emission->list->measure;
    }
done:
    return status;
}
