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
    if (v != NULL && v->place == TS_PLACE_ARENA && !ts_cuda_persists(program->plan, v) && program->value_offsets[value] >= 0) {
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
        if (value->place == TS_PLACE_ARENA && (first || ts_cuda_persists(plan, value))) {
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

void ts_cuda_fuse_free(ts_cuda_program *program)
{
    ts_free(program->chains);
    ts_free(program->chain_of);
    ts_free(program->trees);
    ts_free(program->tree_of);
    ts_free(program->tree_steps);
    ts_free(program->value_offsets);
    program->chains = NULL;
    program->trees = NULL;
    program->chain_of = program->tree_of = program->tree_steps = NULL;
    program->value_offsets = NULL;
    program->chain_count = program->tree_count = 0;
}

tensum_status ts_cuda_fuse(ts_cuda_program *program)
{
    tensum_status status = TENSUM_OK;

    if (program->saved || (program->plan->algebra.semiring == TENSUM_SUM_PRODUCT &&
                           atomic_load(&program->device->cutensor.choice) == TENSUM_CUTENSOR_ALWAYS)) {
        return TENSUM_OK; /* no forward pass; or all steps are asked to be the vendor's */
    }
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
    }
done:
    if (status != TENSUM_OK) {
        ts_cuda_fuse_free(program);
    }
    return status;
}
