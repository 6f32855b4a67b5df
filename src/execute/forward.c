#include "execute/workspace.h"

tensum_status ts_poll(ts_running *running, const char *stage, double done)
{
    const tensum_run_arguments *arguments = running->arguments;
    if (arguments->progress == NULL) {
        return TENSUM_OK;
    }
    double now = ts_seconds();
    if (now - running->last_poll < 0.1) {
        return TENSUM_OK;
    }
    running->last_poll = now;
    if (arguments->progress(arguments->progress_user, stage, done) != 0) {
        return ts_fail(TENSUM_STATUS_CANCELLED, "cancelled by the caller in %s", stage);
    }
    return TENSUM_OK;
}

/* Coordinates of a slice: the first sliced label varies slowest. Then where inputs and output begin in it. */
void ts_set_slice(ts_running *running, int64_t slice)
{
    tensum_workspace *workspace = running->workspace;
    const tensum_plan *plan = running->plan;
    int64_t n = plan->network->operand_count;
    int32_t labels = plan->slice_label_count;
    int64_t bytes = (int64_t)tensum_dtype_bytes(plan->algebra.dtype);
    running->slice = slice;
    for (int32_t i = labels - 1; i >= 0; i--) {
        int64_t extent = ts_plan_extent(plan, plan->slice_labels[i]);
        workspace->coordinates[i] = slice % extent;
        slice /= extent;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = 0;
        for (int32_t k = 0; k < labels; k++) {
            offset += workspace->coordinates[k] * workspace->slice_strides[i * labels + k];
        }
        workspace->base[i] = (char *)running->arguments->inputs[i].data + offset * bytes;
    }
}

char *ts_output_base(const ts_running *running, void *data, const int64_t *slice_strides, int64_t bytes)
{
    int64_t offset = 0;
    for (int32_t k = 0; k < running->plan->slice_label_count; k++) {
        offset += running->workspace->coordinates[k] * slice_strides[k];
    }
    return (char *)data + offset * bytes;
}

/* Choose what the last step writes: the caller's output, or the partial/total buffer. Builds the forward specs where
 * strides, winners or accumulation differ from those of the last run. */
void ts_bind_output(ts_running *running, bool caller)
{
    tensum_workspace *workspace = running->workspace;
    const tensum_plan *plan = running->plan;
    const tensum_run_arguments *arguments = running->arguments;
    int64_t n = plan->network->operand_count;
    int32_t labels = plan->slice_label_count;
    bool changed = !workspace->bound, output_changed = false;
    for (int64_t i = 0; i <= n && !(running->same && workspace->bound); i++) {
        const int64_t *raw = i < n ? arguments->inputs[i].strides : caller ? arguments->output->strides : NULL;
        bool differs = ts_strides_bind(plan, &workspace->strides, i, raw, workspace->slice_strides + i * labels);
        if (i == n) {
            output_changed = differs;
        }
        changed = changed || differs;
    }
    bool winners = arguments->winners != NULL;
    bool accumulate = (caller && arguments->accumulate) || (caller && plan->slice_total > 1);
    const ts_value *output = &plan->values[n];
    ts_extra_strides user = {output->labels, output->rank, workspace->winner_strides};
    if (winners) {
        int64_t none[64];
        ts_label_strides(plan, n, arguments->winners->strides, workspace->winner_strides, none);
        changed = true; /* one step only */
    }
    if (!changed && !output_changed && winners == workspace->winners_bound && accumulate == workspace->accumulate_bound) {
        return;
    }
    bool keeps_winners = (running->program->modes & TENSUM_GRADIENT) != 0;
    int64_t *prepared = workspace->prepared_memory;
    for (int32_t s = 0; s < plan->step_count; s++) {
        const ts_step *step = &plan->steps[s];
        ts_mode *modes = workspace->modes + workspace->first_mode[s];
        ts_forward_spec *spec = &workspace->forward[s];
        bool last = step->c == n;
        /* kept winners of the last step are compact over the output's own labels */
        int64_t own[64];
        ts_extra_strides kept = {output->labels, output->rank, own};
        const ts_extra_strides *extra = NULL;
        if (last && winners) {
            extra = &user;
        } else if (last && step->winner_offset >= 0) {
            int64_t stride = 1;
            for (int32_t i = output->rank - 1; i >= 0; i--) {
                own[i] = stride;
                stride *= ts_max64(1, ts_plan_extent(plan, output->labels[i]));
            }
            extra = &kept;
        }
        uint8_t winner_bytes = last && winners ? (uint8_t)tensum_dtype_bytes(arguments->winners->dtype)
                               : keeps_winners && step->winner_offset >= 0 ? step->winner_bytes
                                                                            : 0;
        if (step->kind == TS_STEP_CONTRACT) {
            ts_contract_spec_build(plan, &workspace->strides, step, extra, modes, &spec->contract);
            spec->contract.accumulate = last && accumulate;
            spec->contract.winner_bytes = winner_bytes;
            size_t bytes = ts_prepared_bytes(running->program, s);
            if (bytes > 0) {
                workspace->prepared[s] = running->program->backend->prepare(&spec->contract, prepared);
                prepared += bytes / 8;
            }
        } else if (step->kind == TS_STEP_REDUCE) {
            ts_reduce_spec_build(plan, &workspace->strides, step, extra, modes, &spec->reduce);
            spec->reduce.accumulate = last && accumulate;
            spec->reduce.winner_bytes = winner_bytes;
        }
    }
    workspace->bound = true;
    workspace->winners_bound = winners;
    workspace->accumulate_bound = accumulate;
}

static tensum_status fill_ones(ts_running *running, const ts_step *step, bool accumulate)
{
    const tensum_plan *plan = running->plan;
    tensum_workspace *workspace = running->workspace;
    ts_element one = ts_identity(plan->algebra, true);
    ts_mode *modes = workspace->spare_modes;
    for (int32_t i = 0; i < step->left_count; i++) {
        int64_t stride = ts_stride_of(plan, &workspace->strides, step->c, step->left[i]);
        ts_mode mode = {ts_plan_extent(plan, step->left[i]), 0, 0, stride, 0, 0, 0};
        modes[i] = mode;
    }
    if (accumulate) { /* the empty product, broadcast */
        ts_reduce_spec spec = {plan->algebra, step->left_count, 0, modes, step->left_size, 1, true, 0};
        return running->program->backend->reduce(&spec, &one, workspace->base[step->c], NULL, &running->step);
    }
    return running->program->backend->fill(modes, step->left_count, tensum_dtype_bytes(plan->algebra.dtype), &one,
                                           workspace->base[step->c], &running->step);
}

tensum_status ts_forward_slice(ts_running *running, int64_t slice, bool first, double progress_base, double progress_share)
{
    tensum_status status = TENSUM_OK;
    tensum_workspace *workspace = running->workspace;
    const tensum_plan *plan = running->plan;
    const ts_backend *backend = running->program->backend;
    const tensum_run_arguments *arguments = running->arguments;
    bool keeps_winners = (running->program->modes & TENSUM_GRADIENT) != 0;
    int64_t n = plan->network->operand_count;
    (void)slice;
    for (int32_t s = 0; s < plan->step_count; s++) {
        const ts_step *step = &plan->steps[s];
        if (step->invariant && !first) {
            continue;
        }
        if (arguments->progress != NULL) {
            TRY(ts_poll(running, "contraction", progress_base + progress_share * s / plan->step_count));
        }
        void *winners = NULL;
        if (step->c == n && workspace->winners_bound) {
            winners = arguments->winners->data;
        } else if (keeps_winners && step->winner_offset >= 0) {
            winners = workspace->memory + step->winner_offset;
        }
        if (running->compiled->chain_count > 0 && running->compiled->chain_of[s] >= 0) {
            ts_chain_run(running, s);
        } else if (workspace->prepared[s] != NULL) {
            workspace->prepared[s]->run(workspace->prepared[s], workspace->base[step->a], workspace->base[step->b],
                                        workspace->base[step->c], winners);
        } else if (step->kind == TS_STEP_CONTRACT) {
            TRY(backend->contract(&workspace->forward[s].contract, workspace->base[step->a], workspace->base[step->b],
                                  workspace->base[step->c], winners, &running->step));
        } else if (step->kind == TS_STEP_REDUCE) {
            TRY(backend->reduce(&workspace->forward[s].reduce, workspace->base[step->a], workspace->base[step->c], winners,
                                &running->step));
        } else {
            TRY(fill_ones(running, step, workspace->accumulate_bound));
        }
    }
done:
    return status;
}
