#include "plan/arena.h"
#include "plan/build.h"

static int64_t saturating_bytes(int64_t elements, size_t element_bytes)
{
    int64_t bytes;
    return ts_multiply(elements, (int64_t)element_bytes, &bytes) && bytes < (INT64_MAX >> 6) ? bytes : INT64_MAX >> 6;
}

static uint64_t add_bytes(uint64_t total, int64_t bytes)
{
    uint64_t aligned = ((uint64_t)bytes + TS_ARENA_ALIGNMENT - 1) / TS_ARENA_ALIGNMENT * TS_ARENA_ALIGNMENT;
    return total + aligned < total || total + aligned > (UINT64_MAX >> 2) ? UINT64_MAX >> 2 : total + aligned;
}

/* TENSUM_VALUE: first fit over the time from producer to consumer. What persists has its place from the start: every
 * later slice goes through all steps again, also through those before its producer. */
static tensum_status place_values(tensum_plan *plan, size_t element_bytes)
{
    tensum_status status = TENSUM_OK;
    ts_arena arena = {0};
    for (int32_t i = 0; i < plan->value_count; i++) {
        ts_value *value = &plan->values[i];
        if (value->place == TS_PLACE_ARENA && ts_plan_persists(plan, value)) {
            TRY(ts_arena_take(&arena, saturating_bytes(value->elements, element_bytes), &value->value_offset));
        }
    }
    for (int32_t s = 0; s < plan->step_count; s++) {
        const ts_step *step = &plan->steps[s];
        ts_value *c = &plan->values[step->c];
        if (c->place == TS_PLACE_ARENA && !ts_plan_persists(plan, c)) {
            TRY(ts_arena_take(&arena, saturating_bytes(c->elements, element_bytes), &c->value_offset));
        }
        const int32_t operands[2] = {step->a, step->b};
        for (int k = 0; k < 2; k++) {
            if (operands[k] >= 0 && plan->values[operands[k]].place == TS_PLACE_ARENA &&
                !ts_plan_persists(plan, &plan->values[operands[k]])) {
                ts_arena_give(&arena, plan->values[operands[k]].value_offset);
            }
        }
    }
    plan->value_bytes = (uint64_t)arena.bytes;
done:
    ts_arena_free(&arena);
    return status;
}

/* GRADIENT, DECODE: every intermediate has its own place. */
static void place_kept(tensum_plan *plan, size_t element_bytes)
{
    uint64_t offset = 0;
    for (int32_t i = 0; i < plan->value_count; i++) {
        ts_value *value = &plan->values[i];
        if (value->place == TS_PLACE_ARENA) {
            value->keep_offset = (int64_t)offset;
            offset = add_bytes(offset, saturating_bytes(value->elements, element_bytes));
        }
    }
    plan->keep_bytes = offset;
}

/* GRADIENT that does not trace: winners of every step that selects, behind the kept values, and cotangents, which
 * live in the backward pass from their consumer's turn to their producer's. */
static tensum_status place_gradient(tensum_plan *plan)
{
    tensum_status status = TENSUM_OK;
    ts_arena arena = {0};
    uint64_t offset = plan->keep_bytes;
    size_t gradient_bytes = tensum_dtype_bytes(tensum_dtype_gradient(plan->algebra.dtype));
    plan->gradient_bytes = plan->keep_bytes;
    if (ts_plan_traces(plan)) {
        return TENSUM_OK;
    }
    if (tensum_semiring_selective(plan->algebra.semiring)) {
        for (int32_t s = 0; s < plan->step_count; s++) {
            ts_step *step = &plan->steps[s];
            if (step->kind != TS_STEP_ONE && step->sum_count > 0) {
                step->winner_offset = (int64_t)offset;
                offset = add_bytes(offset, saturating_bytes(plan->values[step->c].elements, step->winner_bytes));
            }
        }
    }
    for (int32_t s = plan->step_count - 1; s >= 0; s--) {
        const ts_step *step = &plan->steps[s];
        const int32_t operands[2] = {step->a, step->b};
        for (int k = 0; k < 2; k++) {
            ts_value *value = operands[k] >= 0 ? &plan->values[operands[k]] : NULL;
            if (value != NULL && value->place == TS_PLACE_ARENA) {
                TRY(ts_arena_take(&arena, saturating_bytes(value->elements, gradient_bytes), &value->cotangent_offset));
                value->cotangent_offset += (int64_t)offset;
            }
        }
        if (plan->values[step->c].place == TS_PLACE_ARENA) {
            ts_arena_give(&arena, plan->values[step->c].cotangent_offset - (int64_t)offset);
        }
    }
    plan->gradient_bytes = add_bytes(offset, arena.bytes);
done:
    ts_arena_free(&arena);
    return status;
}

tensum_status ts_build_memory(tensum_plan *plan)
{
    tensum_status status = TENSUM_OK;
    size_t element_bytes = tensum_dtype_bytes(plan->algebra.dtype);
    TRY(place_values(plan, element_bytes));
    place_kept(plan, element_bytes);
    TRY(place_gradient(plan));
    for (int32_t s = 0; s < plan->step_count; s++) {
        ts_step *step = &plan->steps[s];
        int64_t bytes = plan->values[step->c].place == TS_PLACE_ARENA
                            ? saturating_bytes(plan->values[step->c].elements, element_bytes)
                            : 0;
        const int32_t operands[2] = {step->a, step->b};
        for (int k = 0; k < 2; k++) {
            if (operands[k] >= 0 && plan->values[operands[k]].producer >= 0) {
                int64_t below = plan->steps[plan->values[operands[k]].producer].subtree_bytes;
                bytes = bytes > INT64_MAX / 2 - below ? INT64_MAX / 2 : bytes + below;
            }
        }
        step->subtree_bytes = bytes;
    }
    if (plan->value_bytes > (uint64_t)1 << 60 || plan->gradient_bytes > (uint64_t)1 << 60) {
        plan->too_large = true;
    }
done:
    return status;
}
