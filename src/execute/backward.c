#include "execute/workspace.h"

void ts_bind_gradients(ts_running *running)
{
    tensum_workspace *workspace = running->workspace;
    const tensum_plan *plan = running->plan;
    int64_t n = plan->network->operand_count;
    int32_t labels = plan->slice_label_count;
    for (int64_t i = 0; i < n; i++) {
        const tensum_tensor *gradient = &running->arguments->gradients[i];
        workspace->wanted[i] = gradient->data != NULL;
        if (gradient->data != NULL) {
            (void)ts_strides_bind(plan, &workspace->gradient, i, gradient->strides, workspace->gradient_slices + i * labels);
        }
    }
    for (int32_t v = (int32_t)n; v < plan->value_count; v++) {
        workspace->wanted[v] = 0;
    }
    for (int32_t s = 0; s < plan->step_count; s++) { /* operands come before results */
        const ts_step *step = &plan->steps[s];
        workspace->wanted[step->c] = (uint8_t)((step->a >= 0 && workspace->wanted[step->a]) ||
                                               (step->b >= 0 && workspace->wanted[step->b]));
    }
}

/* Where the gradient of a value goes in the current slice. */
static void *derivative_of(const ts_running *running, int32_t value)
{
    const tensum_plan *plan = running->plan;
    tensum_workspace *workspace = running->workspace;
    if (plan->values[value].place == TS_PLACE_ARENA) {
        return workspace->memory + plan->values[value].cotangent_offset;
    }
    const tensum_tensor *gradient = &running->arguments->gradients[value];
    int64_t offset = 0;
    for (int32_t k = 0; k < plan->slice_label_count; k++) {
        offset += workspace->coordinates[k] * workspace->gradient_slices[(int64_t)value * plan->slice_label_count + k];
    }
    return (char *)gradient->data + offset * (int64_t)tensum_dtype_bytes(gradient->dtype);
}

static tensum_status backward_step(ts_running *running, int32_t s)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = running->plan;
    tensum_workspace *workspace = running->workspace;
    const ts_backend *backend = running->program->backend;
    const ts_compiled *compiled = running->compiled;
    const ts_step *step = &plan->steps[s];
    int32_t n = (int32_t)plan->network->operand_count;
    const ts_value *c = &plan->values[step->c];
    int64_t real_bytes = (int64_t)tensum_dtype_bytes(tensum_dtype_gradient(plan->algebra.dtype));
    bool selective = tensum_semiring_selective(plan->algebra.semiring) != 0;
    ts_mode *modes = workspace->spare_modes;
    int64_t own[64], stride = 1;
    ts_extra_strides seed = {c->labels, c->rank, workspace->compact_strides};
    ts_extra_strides kept = {c->labels, c->rank, own}, user = {c->labels, c->rank, workspace->winner_strides};
    const ts_extra_strides *g_strides = NULL, *w_strides = NULL;
    const void *g = workspace->memory + c->cotangent_offset, *winners = NULL;
    uint8_t winner_bytes = step->winner_bytes;
    if (selective && step->winner_offset >= 0) {
        winners = workspace->memory + step->winner_offset;
    }
    if (step->c == n) {
        g = ts_output_base(running, workspace->memory + compiled->seed_offset, workspace->compact_slices, real_bytes);
        g_strides = &seed;
        for (int32_t i = c->rank - 1; i >= 0; i--) {
            own[i] = stride;
            stride *= ts_max64(1, ts_plan_extent(plan, c->labels[i]));
        }
        w_strides = &kept;
        if (workspace->winners_bound) {
            winners = running->arguments->winners->data;
            winner_bytes = (uint8_t)tensum_dtype_bytes(running->arguments->winners->dtype);
            w_strides = &user;
        }
    }
    const void *x = step->a >= 0 ? workspace->base[step->a] : NULL;
    const void *y = step->b >= 0 ? workspace->base[step->b] : NULL;
    const void *z = workspace->base[step->c];
    for (int side = 0; side < 2; side++) {
        int32_t operand = side == 0 ? step->a : step->b;
        if (operand < 0 || !workspace->wanted[operand] || plan->values[operand].elements == 0) {
            continue; /* with no elements strides mean nothing, not even that a mode is there */
        }
        bool input = plan->values[operand].place == TS_PLACE_INPUT;
        ts_extra_strides d = {plan->values[operand].labels, plan->values[operand].rank,
                              workspace->gradient.strides + workspace->gradient.first[operand]};
        bool accumulate = input && plan->slice_total > 1;
        void *target = derivative_of(running, operand);
        if (step->kind == TS_STEP_REDUCE) {
            ts_reduce_adjoint_spec spec;
            ts_reduce_adjoint_spec_build(plan, &workspace->strides, step, w_strides, g_strides, &d, modes, &spec);
            spec.accumulate = accumulate;
            spec.winner_bytes = winners != NULL ? winner_bytes : 0;
            TRY(backend->reduce_adjoint(&spec, x, z, winners, g, target, &running->step));
        } else if (ts_adjoint_is_contraction(plan->algebra)) {
            ts_contract_spec spec;
            const void *other = side == 0 ? y : x;
            ts_adjoint_contract_build(plan, &workspace->strides, step, side, g_strides, &d, modes, &spec);
            spec.accumulate = accumulate;
            TRY(backend->contract(&spec, g, other, target, NULL, &running->step));
        } else {
            ts_adjoint_spec spec;
            ts_adjoint_spec_build(plan, &workspace->strides, step, side, w_strides, g_strides, &d, modes, &spec);
            spec.accumulate = accumulate;
            spec.winner_bytes = winners != NULL ? winner_bytes : 0;
            TRY(backend->adjoint(&spec, x, y, z, winners, g, target, &running->step));
        }
    }
done:
    return status;
}

tensum_status ts_backward_slice(ts_running *running)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = running->plan;
    for (int32_t s = plan->step_count - 1; s >= 0; s--) {
        const ts_step *step = &plan->steps[s];
        if (step->kind == TS_STEP_ONE || !running->workspace->wanted[step->c]) {
            continue;
        }
        TRY(ts_poll(running, "gradient", 0.7 + 0.3 * (double)(plan->step_count - s) / (double)plan->step_count));
        TRY(backward_step(running, s));
    }
done:
    return status;
}
