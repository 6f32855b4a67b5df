/* Steps of a huge tensor against tiny ones that the backend runs in one pass. */
#include "execute/workspace.h"
#include "plan/chains.h"

#define LEAST_BYTES ((int64_t)2 << 20) /* of the larger tensor: smaller ones stay in a cache anyway */
#define MOST_TINY 4096                 /* elements */
#define MOST_SIDE 128                  /* positions of the sum, and of what the tiny operand adds to the result */
#define MOST_TERMS 512                 /* of both together: beyond that packed panels are faster */
#define MOST_ELEMENTS ((int64_t)1 << 38)
#define PASS_ELEMENTS 1e5              /* that could be moved in the time a pass takes besides */

typedef struct finding {
    const tensum_program *program;
    ts_compiled *compiled;
    int64_t positions;
} finding;

static bool all_powers(const tensum_plan *plan, const ts_value *value)
{
    for (int32_t i = 0; i < value->rank; i++) {
        const int64_t extent = ts_plan_extent(plan, value->labels[i]);
        if (extent < 1 || (extent & (extent - 1)) != 0) {
            return false;
        }
    }
    return true;
}

static bool suits(const void *user, int32_t number)
{
    const finding *f = user;
    const tensum_plan *plan = f->program->plan;
    const ts_step *step = &plan->steps[number];
    if (step->kind != TS_STEP_CONTRACT || step->a == step->b || step->fill_zero) {
        return false;
    }
    const ts_value *huge = &plan->values[ts_chain_big_of(plan, step)], *tiny = &plan->values[ts_chain_tiny_of(plan, step)];
    const ts_value *c = &plan->values[step->c];
    const int64_t added = ts_chain_size_of_new(plan, step);
    return ts_max64(huge->elements, c->elements) * (int64_t)tensum_dtype_bytes(plan->algebra.dtype) >= LEAST_BYTES &&
           ts_max64(huge->elements, c->elements) <= MOST_ELEMENTS && tiny->elements <= MOST_TINY &&
           tiny->elements <= huge->elements / 16 && step->sum_size <= MOST_SIDE && added <= MOST_SIDE &&
           step->sum_size * added <= MOST_TERMS && all_powers(plan, huge) && all_powers(plan, tiny) &&
           all_powers(plan, c);
}

static bool fits(const void *user, const int32_t *list, int32_t count)
{
    const finding *f = user;
    ts_label_set set;
    return ts_chain_positions(f->program->plan, list, count, &set) <= f->positions;
}

static tensum_status add(void *user, const int32_t *list, int32_t count)
{
    tensum_status status = TENSUM_OK;
    const finding *f = user;
    ts_compiled *compiled = f->compiled;
    const size_t steps = (size_t)f->program->plan->step_count;
    if (count == 1) {
        return TENSUM_OK;
    }
    if (compiled->chains == NULL) {
        TRY(ts_allocate(steps, sizeof *compiled->chains, "program", &compiled->chains));
        TRY(ts_allocate(steps, sizeof *compiled->chain_of, "program", &compiled->chain_of));
        for (size_t s = 0; s < steps; s++) {
            compiled->chain_of[s] = -1;
        }
    }
    ts_chain_group *group = &compiled->chains[compiled->chain_count];
    group->count = count;
    for (int32_t k = 0; k < count; k++) {
        group->steps[k] = list[k];
        compiled->chain_of[list[k]] = compiled->chain_count;
    }
    compiled->chain_count++;
done:
    return status;
}

void ts_chains_free(ts_compiled *compiled)
{
    ts_free(compiled->chains);
    ts_free(compiled->chain_of);
    ts_free(compiled->value_offsets);
    compiled->chains = NULL;
    compiled->chain_of = NULL;
    compiled->value_offsets = NULL;
    compiled->chain_count = 0;
}

static tensum_status place(const tensum_program *program, ts_compiled *compiled)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    int32_t *previous = NULL;
    uint8_t *is_last = NULL;
    uint64_t bytes;
    TRY(ts_allocate((size_t)plan->step_count, sizeof *previous, "program", &previous));
    TRY(ts_allocate((size_t)plan->step_count, 1, "program", &is_last));
    TRY(ts_allocate((size_t)plan->value_count, sizeof *compiled->value_offsets, "program", &compiled->value_offsets));
    for (int32_t s = 0; s < plan->step_count; s++) {
        previous[s] = -1;
        is_last[s] = 1;
    }
    for (int32_t i = 0; i < compiled->chain_count; i++) {
        const ts_chain_group *group = &compiled->chains[i];
        for (int32_t k = 1; k < group->count; k++) {
            previous[group->steps[k]] = group->steps[k - 1];
            is_last[group->steps[k - 1]] = 0;
        }
    }
    TRY(ts_plan_place_groups(plan, previous, is_last, compiled->value_offsets, &bytes));
    /* The plan has promised how much memory a run takes. */
    if (plan->memory_limit != 0 && bytes > plan->value_bytes) {
        ts_chains_free(compiled);
    } else {
        compiled->arena_bytes = bytes;
    }
done:
    ts_free(previous);
    ts_free(is_last);
    return status;
}

tensum_status ts_chains_find(const tensum_program *program, ts_compiled *compiled)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    const ts_backend *backend = program->backend;
    finding f = {.program = program, .compiled = compiled};
    const ts_chain_rules rules = {.user = &f, .suits = suits, .fits = fits, .add = add, .most = TS_CHAIN_STEPS, .pass = PASS_ELEMENTS};
    f.positions = backend->chain_positions != NULL ? backend->chain_positions(plan->algebra) : 0;
    if (f.positions == 0 || program->modes != TENSUM_VALUE || plan->too_large || plan->step_count < 2) {
        return TENSUM_OK;
    }
    TRY(ts_plan_chains(plan, &rules));
    if (compiled->chain_count > 0) {
        TRY(place(program, compiled));
    }
    if (compiled->chain_count > 0) {
        const size_t bytes = backend->chain_scratch(plan->algebra, tensum_context_threads(program->context));
        compiled->scratch_bytes = bytes > compiled->scratch_bytes ? bytes : compiled->scratch_bytes;
    }
done:
    return status;
}

void ts_chain_run(const ts_running *running, int32_t step)
{
    const tensum_plan *plan = running->plan;
    const tensum_workspace *workspace = running->workspace;
    const ts_compiled *compiled = running->compiled;
    const ts_chain_group *group = &compiled->chains[compiled->chain_of[step]];
    ts_chain_spec chain = {.count = group->count};
    if (group->steps[group->count - 1] != step) {
        return; /* the last one does it */
    }
    for (int32_t k = 0; k < group->count; k++) {
        const ts_step *at = &plan->steps[group->steps[k]];
        chain.steps[k] = &workspace->forward[group->steps[k]].contract;
        chain.huge_is_b[k] = ts_chain_big_is_b(plan, at);
        chain.tiny[k] = workspace->base[ts_chain_tiny_of(plan, at)];
    }
    chain.huge = workspace->base[ts_chain_big_of(plan, &plan->steps[group->steps[0]])];
    chain.c = workspace->base[plan->steps[step].c];
    running->program->backend->chain(&chain, &running->step);
}
