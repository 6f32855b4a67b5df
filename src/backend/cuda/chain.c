/* Which steps are chained, and where intermediates lie then. */
#include "backend/cuda/chain.h"

#include "plan/arena.h"

/* ---- which steps ---- */

/* Do steps list[0 .. count) fit a tile, and their tables shared memory, whatever the strides? */
static bool fits(const ts_cuda_program *program, const int32_t *list, int32_t count)
{
    const tensum_plan *plan = program->plan;
    const int64_t most = ts_chain_tile_elements(plan) / ts_chain_run_elements(plan);
    int64_t largest = ts_chain_run_elements(plan), coefficients = 0, places = 0, bytes;
    ts_label_set set = {.count = 0};

    for (int32_t i = 0; i < count; i++) {
        const ts_step *step = &plan->steps[list[i]];
        if (!ts_chain_put_touched(plan, step, &set)) {
            return false;
        }
        coefficients += ts_chain_coefficients_of(plan, step);
        places += step->sum_size + ts_chain_size_of_new(plan, step) + 8;
    }
    if (ts_chain_live_size(plan, &set, ts_chain_big_of(plan, &plan->steps[list[0]])) > most) {
        return false;
    }
    for (int32_t i = 0; i < count; i++) {
        if (ts_chain_live_size(plan, &set, plan->steps[list[i]].c) > most) {
            return false;
        }
    }
    for (int32_t i = 0; i < set.count; i++) {
        largest = ts_max64(largest, ts_plan_extent(plan, set.labels[i]));
    }
    bytes = (1 + 2 * count) * 16 * (ts_chain_tile_elements(plan) / (TS_CUDA_CHAIN_THREADS / largest)) + places * 4 +
            coefficients * (int64_t)ts_cuda_arithmetic_bytes(plan->algebra.dtype) + 3 * TS_CHAIN_TILE_BYTES + 64 * 80 +
            TS_CUDA_CHAIN_BASES * (2 + TS_CUDA_CHAIN_STEPS) * 8 + (int64_t)sizeof(ts_cuda_chain_table) + 1024;
    return bytes <= (int64_t)program->device->shared_limit;
}

static bool suits(const ts_cuda_program *program, int32_t number)
{
    const tensum_plan *plan = program->plan;
    const ts_step *step = &plan->steps[number];
    const ts_value *c = &plan->values[step->c], *big, *tiny;

    if (step->kind != TS_STEP_CONTRACT || step->a == step->b || step->sum_size < 1 || c->elements < 1 ||
        (c->place == TS_PLACE_OUTPUT && ((program->modes & TENSUM_WINNERS) != 0 || step->fill_zero)) ||
        ((program->modes & TENSUM_GRADIENT) != 0 && step->winner_offset >= 0)) {
        return false;
    }
    big = &plan->values[ts_chain_big_of(plan, step)];
    tiny = &plan->values[ts_chain_tiny_of(plan, step)];
    if (big->elements < 256 * (int64_t)program->device->units || tiny->elements < 1 || tiny->elements > TS_CHAIN_MOST_TINY ||
        tiny->elements > big->elements / 16 ||
        step->sum_size * ts_chain_size_of_new(plan, step) > 12 * (step->sum_size + ts_chain_size_of_new(plan, step))) {
        return false;
    }
    for (int32_t i = 0; i < tiny->rank; i++) {
        if (ts_plan_extent(plan, tiny->labels[i]) > TS_CHAIN_MOST_EXTENT) {
            return false;
        }
    }
    return fits(program, &number, 1);
}

/* A value that a later slice reads again stays where it is. */
static bool persists(const tensum_plan *plan, const ts_value *value)
{
    return plan->slice_total > 1 && !value->varies && value->consumer >= 0 && !plan->steps[value->consumer].invariant;
}

/* The step that takes the result of `number` further in the same pass, or -1. */
static int32_t next_of(const ts_cuda_program *program, const uint8_t *suitable, int32_t number)
{
    const tensum_plan *plan = program->plan;
    const ts_value *c = &plan->values[plan->steps[number].c];
    if (c->place != TS_PLACE_ARENA || c->consumer < 0 || !suitable[c->consumer] || persists(plan, c) ||
        plan->steps[c->consumer].invariant != plan->steps[number].invariant ||
        ts_chain_big_of(plan, &plan->steps[c->consumer]) != plan->steps[number].c) {
        return -1;
    }
    return c->consumer;
}

/* Cut a path of steps where that moves the fewest elements. best[i]: the least for the first i steps; from[i]: where the
 * last group of them begins. */
static tensum_status cut_path(ts_cuda_program *program, const int32_t *path, int32_t count)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    const bool keep = (program->modes & (TENSUM_GRADIENT | TENSUM_DECODE)) != 0;
    const double launch = 2e6; /* elements that could be moved in the time of one */
    double *best = NULL;
    int32_t *from = NULL;

    TRY(ts_allocate((size_t)count + 1, sizeof *best, "the chains of a program", &best));
    TRY(ts_allocate((size_t)count + 1, sizeof *from, "the chains of a program", &from));
    best[0] = 0.0;
    for (int32_t j = 1; j <= count; j++) {
        best[j] = -1.0;
        for (int32_t i = j - 1; i >= 0 && j - i <= TS_CUDA_CHAIN_STEPS; i--) {
            double cost = best[i] + launch + (double)plan->values[ts_chain_big_of(plan, &plan->steps[path[i]])].elements;
            if (j - i > 1 && !fits(program, path + i, j - i)) {
                break;
            }
            for (int32_t k = i; k < j; k++) {
                cost += keep || k + 1 == j ? (double)plan->values[plan->steps[path[k]].c].elements : 0.0;
            }
            if (best[j] < 0.0 || cost < best[j]) {
                best[j] = cost;
                from[j] = i;
            }
        }
    }
    for (int32_t j = count; j > 0; j = from[j]) {
        ts_cuda_chain_group *group = &program->chains[program->chain_count];
        group->count = j - from[j];
        for (int32_t k = 0; k < group->count; k++) {
            group->steps[k] = path[from[j] + k];
            program->chain_of[group->steps[k]] = program->chain_count;
        }
        program->chain_count++;
    }
done:
    ts_free(best);
    ts_free(from);
    return status;
}

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
    if (v != NULL && v->place == TS_PLACE_ARENA && !persists(program->plan, v) && program->value_offsets[value] >= 0) {
        ts_arena_give(arena, program->value_offsets[value]);
    }
}

/* As the plan does it, but the operands of a chain live until its last step, and what is between its steps is nowhere. */
static tensum_status place_values(ts_cuda_program *program)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    ts_arena arena = {0};

    TRY(ts_allocate((size_t)plan->value_count, sizeof *program->value_offsets, "the chains of a program",
                    &program->value_offsets));
    for (int32_t v = 0; v < plan->value_count; v++) {
        program->value_offsets[v] = -1;
        if (plan->values[v].place == TS_PLACE_ARENA && persists(plan, &plan->values[v])) {
            TRY(take(program, &arena, v));
        }
    }
    for (int32_t s = 0; s < plan->step_count; s++) {
        const ts_cuda_chain_group *group = program->chain_of[s] >= 0 ? &program->chains[program->chain_of[s]] : NULL;
        const ts_value *c = &plan->values[plan->steps[s].c];
        if (group != NULL && group->steps[group->count - 1] != s) {
            continue;
        }
        if (c->place == TS_PLACE_ARENA && !persists(plan, c)) {
            TRY(take(program, &arena, plan->steps[s].c));
        }
        for (int32_t k = 0; k < (group != NULL ? group->count : 1); k++) {
            const ts_step *step = &plan->steps[group != NULL ? group->steps[k] : s];
            give(program, &arena, step->a);
            give(program, &arena, step->b);
        }
    }
    program->value_bytes = (size_t)arena.bytes;
done:
    ts_arena_free(&arena);
    return status;
}

void ts_cuda_chains_free(ts_cuda_program *program)
{
    ts_free(program->chains);
    ts_free(program->chain_of);
    ts_free(program->value_offsets);
    program->chains = NULL;
    program->chain_of = NULL;
    program->value_offsets = NULL;
    program->chain_count = 0;
}

tensum_status ts_cuda_chains_find(ts_cuda_program *program)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    uint8_t *suitable = NULL, *follows = NULL;
    int32_t *path = NULL;
    size_t count = (size_t)plan->step_count;
    bool any = false;

    if (!program->pair.has[TS_CUDA_KERNEL_CHAIN] || plan->too_large || plan->step_count == 0) {
        return TENSUM_OK;
    }
    TRY(ts_allocate_zero(count, 1, "the chains of a program", &suitable));
    TRY(ts_allocate_zero(count, 1, "the chains of a program", &follows));
    for (int32_t s = 0; s < plan->step_count; s++) {
        suitable[s] = suits(program, s);
        any = any || suitable[s];
    }
    if (!any) {
        goto done;
    }
    TRY(ts_allocate(count, sizeof *path, "the chains of a program", &path));
    TRY(ts_allocate(count, sizeof *program->chains, "the chains of a program", &program->chains));
    TRY(ts_allocate(count, sizeof *program->chain_of, "the chains of a program", &program->chain_of));
    for (int32_t s = 0; s < plan->step_count; s++) {
        int32_t next = suitable[s] ? next_of(program, suitable, s) : -1;
        program->chain_of[s] = -1;
        if (next >= 0) {
            follows[next] = 1;
        }
    }
    for (int32_t s = 0; s < plan->step_count; s++) {
        int32_t length = 0;
        if (!suitable[s] || follows[s]) {
            continue;
        }
        for (int32_t at = s; at >= 0; at = next_of(program, suitable, at)) {
            path[length++] = at;
        }
        TRY(cut_path(program, path, length));
    }
    if ((program->modes & (TENSUM_GRADIENT | TENSUM_DECODE)) == 0) {
        TRY(place_values(program));
        /* The plan has promised how much memory a run takes; small operands that live longer do not matter. */
        if (plan->memory_limit != 0 && program->value_bytes > plan->value_bytes) {
            ts_cuda_chains_free(program);
        }
    }
done:
    if (status != TENSUM_OK) {
        ts_cuda_chains_free(program);
    }
    ts_free(suitable);
    ts_free(follows);
    ts_free(path);
    return status;
}
