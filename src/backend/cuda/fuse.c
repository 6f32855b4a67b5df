#include "backend/cuda/fuse.h"

#include "backend/cuda/chain.h"
#include "backend/cuda/tree.h"
#include "plan/arena.h"

/* ---- where intermediates lie ---- */

static tensum_status take(ts_cuda_program *program, ts_arena *arena, int32_t value)
{
    const tensum_plan *plan = program->plan;
    return ts_arena_take(arena, plan->values[value].elements * (int64_t)tensum_dtype_bytes(plan->algebra.dtype),
                         &program->value_offsets[value]);
}
static void give(ts_cuda_program *program, ts_arena *arena, int32_t value)
{
    const ts_value *v = value >= 0 ? &program->plan->values[value] : NULL;
    if (v != NULL && v->place == TS_PLACE_ARENA && !ts_plan_persists(program->plan, v) && program->value_offsets[value] >= 0) {
        ts_arena_give(arena, program->value_offsets[value]);
    }
}

/* As the plan does it, but: what is inside a chain or a tree is nowhere; their operands live until their last step; the
 * results of trees that are run before anything else are there from the start. */
static tensum_status place_values(ts_cuda_program *program)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    ts_arena arena = {0};

    TRY(ts_allocate((size_t)plan->value_count, sizeof *program->value_offsets, "the places of a program",
                    &program->value_offsets));
    for (int32_t v = 0; v < plan->value_count; v++) {
        const ts_value *value = &plan->values[v];
        const int32_t tree = value->producer >= 0 && program->tree_of != NULL ? program->tree_of[value->producer] : -1;
        const bool first = tree >= 0 && program->trees[tree].pure && program->trees[tree].root == value->producer;
        program->value_offsets[v] = -1;
        if (value->place == TS_PLACE_ARENA && (first || ts_plan_persists(plan, value))) {
            TRY(take(program, &arena, v));
        }
    }
    for (int32_t s = 0; s < plan->step_count; s++) {
        const int32_t chain = program->chain_of != NULL ? program->chain_of[s] : -1;
        const int32_t tree = program->tree_of != NULL ? program->tree_of[s] : -1;
        const int32_t *steps = chain >= 0  ? program->chains[chain].steps
                               : tree >= 0 ? program->tree_steps + program->trees[tree].first
                                           : &s;
        const int32_t count = chain >= 0 ? program->chains[chain].count : tree >= 0 ? program->trees[tree].count : 1;
        const int32_t c = plan->steps[s].c;
        if (steps[count - 1] != s) {
            continue;
        }
        if (plan->values[c].place == TS_PLACE_ARENA && program->value_offsets[c] < 0) {
            TRY(take(program, &arena, c));
        }
        for (int32_t k = 0; k < count; k++) {
            give(program, &arena, plan->steps[steps[k]].a);
            give(program, &arena, plan->steps[steps[k]].b);
        }
    }
    program->value_bytes = (size_t)arena.bytes;
done:
    ts_arena_free(&arena);
    return status;
}

/* ---- where intermediates are kept, and cotangents ---- */

static bool is_inside_chain(const ts_cuda_program *program, int32_t value)
{
    const ts_value *v = &program->plan->values[value];
    return program->chain_of != NULL && v->producer >= 0 && v->consumer >= 0 && program->chain_of[v->producer] >= 0 &&
           program->chain_of[v->producer] == program->chain_of[v->consumer];
}

/* Every intermediate has its own place, but for those inside a chain. */
static tensum_status keep_values(ts_cuda_program *program)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;

    TRY(ts_allocate((size_t)plan->value_count, sizeof *program->value_offsets, "the places of a program",
                    &program->value_offsets));
    program->value_bytes = 0;
    for (int32_t v = 0; v < plan->value_count; v++) {
        const ts_value *value = &plan->values[v];
        program->value_offsets[v] = -1;
        if (value->place == TS_PLACE_ARENA && !is_inside_chain(program, v)) {
            const size_t bytes = (size_t)value->elements * tensum_dtype_bytes(plan->algebra.dtype);
            program->value_offsets[v] = (int64_t)program->value_bytes;
            program->value_bytes += (bytes + TS_ARENA_ALIGNMENT - 1) / TS_ARENA_ALIGNMENT * TS_ARENA_ALIGNMENT;
        }
    }
done:
    return status;
}

/* Cotangents live from the launch that makes them to the one that reads them, which is that of the last step of a chain or a
 * tree for all that it reads and makes. Those inside are nowhere; pure trees are done at the end. */
static tensum_status place_cotangents(ts_cuda_program *program)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    const size_t bytes = tensum_dtype_bytes(program->gradient), kept = program->value_bytes;
    ts_arena arena = {0};

    TRY(ts_allocate((size_t)plan->value_count, sizeof *program->cotangent_offsets, "the places of a program",
                    &program->cotangent_offsets));
    for (int32_t v = 0; v < plan->value_count; v++) {
        program->cotangent_offsets[v] = -1;
    }
    for (int32_t s = plan->step_count - 1; s >= 0; s--) {
        const ts_cuda_chain_group *group = ts_cuda_goes_back(program, s) ? &program->chains[program->chain_of[s]] : NULL;
        const int32_t number = ts_cuda_goes_back_in_a_tree(program, s) ? program->tree_of[s] : -1;
        const ts_cuda_tree_group *tree = number >= 0 ? &program->trees[number] : NULL;
        const int32_t *steps = group != NULL ? group->steps : tree != NULL ? program->tree_steps + tree->first : &s;
        const int32_t count = group != NULL ? group->count : tree != NULL ? tree->count : 1, result = plan->steps[steps[count - 1]].c;
        if (steps[count - 1] != s) {
            continue;
        }
        for (int32_t k = 0; k < 2 * count; k++) {
            const int32_t operand = k % 2 == 0 ? plan->steps[steps[k / 2]].a : plan->steps[steps[k / 2]].b;
            if (operand >= 0 && plan->values[operand].place == TS_PLACE_ARENA && program->value_offsets[operand] >= 0 &&
                (tree == NULL || !ts_tree_has(program, number, operand))) {
                TRY(ts_arena_take(&arena, plan->values[operand].elements * (int64_t)bytes, &program->cotangent_offsets[operand]));
            }
        }
        if (plan->values[result].place == TS_PLACE_ARENA && (tree == NULL || !tree->pure)) {
            ts_arena_give(&arena, program->cotangent_offsets[result]);
        }
    }
    for (int32_t v = 0; v < plan->value_count; v++) {
        program->cotangent_offsets[v] += program->cotangent_offsets[v] >= 0 ? (int64_t)kept : 0;
    }
    program->value_bytes = kept + (size_t)arena.bytes;
done:
    ts_arena_free(&arena);
    return status;
}

void ts_cuda_fuse_free(ts_cuda_program *program)
{
    ts_free(program->chains);
    ts_free(program->chain_of);
    ts_free(program->trees);
    ts_free(program->tree_of);
    ts_free(program->tree_steps);
    ts_free(program->value_offsets);
    ts_free(program->cotangent_offsets);
    program->chains = NULL;
    program->trees = NULL;
    program->chain_of = program->tree_of = program->tree_steps = NULL;
    program->value_offsets = program->cotangent_offsets = NULL;
    program->lean = false;
    program->chain_count = program->tree_count = 0;
}

/* Can what is inside a chain be found again? By adjoints of sum_product, and by decoding; but a gradient along one path takes
 * operands' values from memory, unless multiplication is addition, where it needs none. */
static bool can_be_lean(const ts_cuda_program *program)
{
    const tensum_semiring semiring = program->plan->algebra.semiring;
    if ((program->modes & TENSUM_GRADIENT) != 0 && program->pair.has[TS_CUDA_KERNEL_CHAIN_BACK]) {
        return true;
    }
    return (program->modes & (TENSUM_GRADIENT | TENSUM_DECODE)) != 0 && program->pair.has[TS_CUDA_KERNEL_DECODE] &&
           ((program->modes & TENSUM_GRADIENT) == 0 ||
            (program->traces && (semiring == TENSUM_MAX_PLUS || semiring == TENSUM_MIN_PLUS)));
}

tensum_status ts_cuda_fuse(ts_cuda_program *program)
{
    tensum_status status = TENSUM_OK;

    if (program->saved || (program->plan->algebra.semiring == TENSUM_SUM_PRODUCT &&
                           atomic_load(&program->device->cutensor.choice) == TENSUM_CUTENSOR_ALWAYS)) {
        return TENSUM_OK; /* no forward pass; or all steps are asked to be the vendor's */
    }
    program->lean = can_be_lean(program);
    TRY(ts_cuda_trees_find(program));
    TRY(ts_cuda_chains_find(program));
    if (program->chain_count == 0 && program->tree_count == 0) {
        ts_cuda_fuse_free(program);
    } else if ((program->modes & (TENSUM_GRADIENT | TENSUM_DECODE)) == 0) {
        TRY(place_values(program));
        /* The plan has promised how much memory a run takes. */
        if (program->plan->memory_limit != 0 && program->value_bytes > program->plan->value_bytes) {
            ts_cuda_fuse_free(program);
        }
    } else if (program->lean) {
        TRY(keep_values(program));
        if ((program->modes & TENSUM_GRADIENT) != 0 && !program->traces) {
            ts_cuda_trees_go_back(program);
            TRY(place_cotangents(program));
        }
        if (program->plan->memory_limit != 0 && program->value_bytes > ts_plan_arena_bytes(program->plan, program->modes)) {
            ts_cuda_fuse_free(program);
        }
    }
done:
    if (status != TENSUM_OK) {
        ts_cuda_fuse_free(program);
    }
    return status;
}
