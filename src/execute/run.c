#include "execute/workspace.h"

/* Modes of the raw output of the caller (c) for a fill. */
static int32_t raw_modes(const tensum_network *network, int64_t operand, const int64_t *strides, ts_mode *modes)
{
    int64_t first = network->offsets[operand], compact = 1;
    int32_t rank = (int32_t)(network->offsets[operand + 1] - first), count = 0;
    for (int32_t i = rank - 1; i >= 0; i--) {
        int64_t extent = network->raw_extents[first + i];
        int64_t stride = strides != NULL ? strides[i] : compact;
        compact *= extent;
        if (extent != 1 && count < 64) {
            ts_mode mode = {extent, 0, 0, stride, 0, 0, 0};
            modes[count++] = mode;
        }
    }
    for (int32_t i = 0; i < count / 2; i++) {
        ts_mode mode = modes[i];
        modes[i] = modes[count - 1 - i];
        modes[count - 1 - i] = mode;
    }
    return ts_modes_fuse(modes, count);
}

static tensum_status fill_tensor(ts_running *running, int64_t operand, const int64_t *strides, void *data, size_t bytes,
                                 const void *value)
{
    ts_mode modes[64];
    int32_t count = raw_modes(running->plan->network, operand, strides, modes);
    if (ts_modes_size(modes, count) == 0) {
        return TENSUM_OK;
    }
    return running->program->backend->fill(modes, count, bytes, value, data, &running->step);
}

tensum_status ts_zero_gradients(ts_running *running, bool always)
{
    tensum_status status = TENSUM_OK;
    const tensum_network *network = running->plan->network;
    double zero[2] = {0, 0};
    for (int64_t i = 0; i < network->operand_count; i++) {
        const tensum_tensor *gradient = &running->arguments->gradients[i];
        int64_t modes = 0;
        if (gradient->data == NULL) {
            continue;
        }
        for (int64_t m = network->offsets[i]; m < network->offsets[i + 1]; m++) {
            modes += network->raw_extents[m] != 1;
        }
        if (always || modes != network->effective_offsets[i + 1] - network->effective_offsets[i]) {
            TRY(fill_tensor(running, i, gradient->strides, gradient->data, tensum_dtype_bytes(gradient->dtype), zero));
        }
    }
done:
    return status;
}

static tensum_status fill_winners(ts_running *running)
{
    const tensum_tensor *winners = running->arguments->winners;
    int64_t none = -1;
    int32_t none32 = -1;
    size_t bytes = tensum_dtype_bytes(winners->dtype);
    return fill_tensor(running, running->plan->network->operand_count, winners->strides, winners->data, bytes,
                       bytes == 8 ? (const void *)&none : (const void *)&none32);
}

/* VALUE and WINNERS of a range of slices. */
static tensum_status run_values(ts_running *running)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = running->plan;
    const tensum_run_arguments *arguments = running->arguments;
    tensum_workspace *workspace = running->workspace;
    int64_t n = plan->network->operand_count;
    int64_t bytes = (int64_t)tensum_dtype_bytes(plan->algebra.dtype);
    int64_t count = arguments->slice_count < 0 ? plan->slice_total - arguments->slice_first : arguments->slice_count;
    ts_bind_output(running, true);
    workspace->seen_valid = arguments->winners == NULL;
    bool repeats = plan->steps[plan->step_count - 1].fill_zero;
    if (!arguments->accumulate && (plan->slice_total != 1 || count == 0 || repeats)) {
        ts_element zero = ts_identity(plan->algebra, false);
        TRY(fill_tensor(running, n, arguments->output->strides, arguments->output->data, (size_t)bytes, &zero));
    }
    if (arguments->winners != NULL && repeats) {
        TRY(fill_winners(running));
    }
    if (workspace->lanes != NULL && running->compiled->lanes > 1 && count > 1) {
        TRY(ts_run_lanes(running, arguments->slice_first, count));
        goto done;
    }
    for (int64_t i = 0; i < count; i++) {
        ts_set_slice(running, arguments->slice_first + i);
        workspace->base[n] = ts_output_base(running, arguments->output->data, workspace->slice_strides + n * plan->slice_label_count, bytes);
        TRY(ts_forward_slice(running, arguments->slice_first + i, i == 0, (double)i / (double)count, 1.0 / (double)count));
    }
done:
    return status;
}

/* Decode the positions whose winning slice is the current one (or all, unsliced). */
static tensum_status decode_positions(ts_running *running, const char *total, const int64_t *total_raw, const int64_t *slice_of,
                                      tensum_status *verdict)
{
    tensum_status status = TENSUM_OK;
    const tensum_run_arguments *arguments = running->arguments;
    const tensum_plan *plan = running->plan;
    const tensum_network *network = plan->network;
    int64_t labels = network->label_count, n = network->operand_count, first = network->offsets[n];
    int32_t rank = (int32_t)(network->offsets[n + 1] - first);
    int64_t bytes = (int64_t)tensum_dtype_bytes(plan->algebra.dtype);
    for (int64_t i = 0; i < arguments->position_count; i++) {
        int64_t position = arguments->positions != NULL ? arguments->positions[i] : i;
        int64_t *row = arguments->assignments + i * labels, rest = position, offset = 0, compact = 1;
        if (position < 0 || position >= running->compiled->output_elements) {
            return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "position %lld: the output has %lld elements", (long long)position,
                           (long long)running->compiled->output_elements);
        }
        for (int32_t m = rank - 1; m >= 0; m--) {
            int64_t extent = network->raw_extents[first + m];
            offset += rest % extent * (total_raw != NULL ? total_raw[m] : compact);
            compact *= extent;
            rest /= extent;
        }
        const char *element = total + offset * bytes;
        if (ts_is_nan(plan->algebra.dtype, element) || ts_is_zero(plan->algebra, element)) {
            bool nan = ts_is_nan(plan->algebra.dtype, element);
            *verdict = ts_fail(nan ? TENSUM_STATUS_NOT_A_NUMBER : TENSUM_STATUS_INFEASIBLE,
                               nan ? "output element %lld is not a number" : "output element %lld is zero of the semiring: no assignment",
                               (long long)position);
            for (int64_t l = 0; l < labels; l++) {
                row[l] = -1;
            }
            continue;
        }
        if (slice_of != NULL && slice_of[position] != running->slice) {
            continue;
        }
        TRY(ts_trace(running, position, NULL));
        memcpy(row, running->workspace->assignment, (size_t)labels * sizeof *row);
    }
done:
    return status;
}

/* GRADIENT from the results of an earlier run, or from what it has left in the workspace. */
static tensum_status run_saved(ts_running *running)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = running->plan;
    const tensum_run_arguments *arguments = running->arguments;
    tensum_workspace *workspace = running->workspace;
    int64_t n = plan->network->operand_count;
    bool given = arguments->output != NULL, trace = ts_plan_traces(plan);
    ts_bind_gradients(running);
    TRY(ts_zero_gradients(running, trace));
    ts_bind_output(running, given);
    ts_set_slice(running, 0);
    /* Where there is no output nothing reads it. */
    workspace->base[n] = given ? (char *)arguments->output->data : workspace->memory;
    TRY(ts_make_seed(running, workspace->base[n], workspace->compact_strides));
    if (trace) {
        const char *seed = workspace->memory + running->compiled->seed_offset;
        bool single = tensum_dtype_gradient(plan->algebra.dtype) == TENSUM_F32;
        double value = single ? (double)*(const float *)seed : *(const double *)seed;
        TRY(ts_trace(running, 0, &value));
    } else {
        TRY(ts_backward_slice(running));
    }
done:
    return status;
}

/* GRADIENT and DECODE: all slices. A first pass finds the total (and who won) where slices have to be told apart. */
static tensum_status run_kept(ts_running *running)
{
    tensum_status status = TENSUM_OK, verdict = TENSUM_OK;
    const tensum_plan *plan = running->plan;
    const tensum_run_arguments *arguments = running->arguments;
    const ts_compiled *compiled = running->compiled;
    tensum_workspace *workspace = running->workspace;
    int64_t n = plan->network->operand_count;
    int64_t bytes = (int64_t)tensum_dtype_bytes(plan->algebra.dtype);
    bool caller = arguments->output != NULL, sliced = plan->slice_total != 1;
    bool gradient = arguments->gradients != NULL, decode = arguments->assignments != NULL;
    bool selective = tensum_semiring_selective(plan->algebra.semiring) != 0;
    bool repeats = plan->steps[plan->step_count - 1].fill_zero, trace = ts_plan_traces(plan);
    char *total = caller ? arguments->output->data : workspace->memory + compiled->total_offset;
    const int64_t *total_raw = caller ? arguments->output->strides : NULL;
    int64_t *slice_of = (int64_t *)(workspace->memory + compiled->slice_offset);
    ts_element zero = ts_identity(plan->algebra, false);
    double share = sliced ? 0.5 : 0.7;
    if (gradient) {
        ts_bind_gradients(running);
        TRY(ts_zero_gradients(running, sliced || trace));
    }
    if (sliced || repeats) {
        TRY(fill_tensor(running, n, total_raw, total, (size_t)bytes, &zero));
    }
    if (arguments->winners != NULL && repeats) {
        TRY(fill_winners(running));
    }
    ts_bind_output(running, caller && !sliced);
    int64_t total_strides[64];
    ts_label_strides(plan, n, total_raw, total_strides, workspace->target_slices);
    if (sliced) {
        for (int64_t i = 0; i < compiled->output_elements; i++) {
            slice_of[i] = -1;
        }
        bool two_passes = selective || plan->algebra.semiring == TENSUM_LOG_SUM_EXP;
        for (int64_t s = 0; two_passes && s < plan->slice_total; s++) {
            ts_set_slice(running, s);
            workspace->base[n] = ts_output_base(running, workspace->memory + compiled->partial_offset, workspace->compact_slices, bytes);
            TRY(ts_forward_slice(running, s, s == 0, share * (double)s / (double)plan->slice_total, share / (double)plan->slice_total));
            int64_t offset = (workspace->base[n] - (workspace->memory + compiled->partial_offset)) / bytes;
            ts_absorb_slice(running, ts_output_base(running, total, workspace->target_slices, bytes), total_strides, workspace->base[n], slice_of + offset);
        }
    }
    for (int64_t s = 0; s < plan->slice_total; s++) {
        ts_set_slice(running, s);
        if (sliced && trace && slice_of[0] != s) {
            continue; /* only the winning slice matters */
        }
        workspace->base[n] = sliced ? ts_output_base(running, workspace->memory + compiled->partial_offset, workspace->compact_slices, bytes)
                                    : total;
        TRY(ts_forward_slice(running, s, s == 0 || (sliced && trace), share, 0));
        if (sliced && !selective && plan->algebra.semiring != TENSUM_LOG_SUM_EXP) {
            int64_t offset = (workspace->base[n] - (workspace->memory + compiled->partial_offset)) / bytes;
            ts_absorb_slice(running, ts_output_base(running, total, workspace->target_slices, bytes), total_strides, workspace->base[n], slice_of + offset);
        }
        if (gradient) {
            TRY(ts_poll(running, "gradient", share + (1 - share) * (double)s / (double)plan->slice_total));
            TRY(ts_make_seed(running, ts_output_base(running, total, workspace->target_slices, bytes), total_strides));
            if (trace) {
                tensum_dtype real = tensum_dtype_gradient(plan->algebra.dtype);
                const char *seed = workspace->memory + compiled->seed_offset;
                double value = real == TENSUM_F32 ? (double)*(const float *)seed : *(const double *)seed;
                TRY(ts_trace(running, 0, &value));
            } else {
                TRY(ts_backward_slice(running));
            }
        }
        if (decode) {
            TRY(decode_positions(running, total, total_raw, sliced ? slice_of : NULL, &verdict));
        }
    }
    if (plan->slice_total == 0 && decode) {
        TRY(decode_positions(running, total, total_raw, NULL, &verdict));
    }
done:
    return status != TENSUM_OK ? status : verdict;
}

/* Is everything there that gradients need, after a run of these arguments? */
static bool leaves_enough(const tensum_program *program, const tensum_run_arguments *arguments)
{
    return (program->modes & TENSUM_GRADIENT) != 0 && !program->saved && program->plan->slice_total == 1 && arguments->slice_first == 0 &&
           arguments->slice_count != 0 && arguments->winners == NULL && !arguments->accumulate;
}

tensum_status tensum_run(tensum_program *program, tensum_workspace *workspace, const tensum_run_arguments *arguments)
{
    tensum_status status = TENSUM_OK;
    if (program == NULL || workspace == NULL || arguments == NULL || workspace->program != program) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_run: an argument is NULL or the workspace is another program's");
    }
    if (program->backend->run_again != NULL && program->backend->run_again(workspace->state, arguments, &status)) {
        workspace->keeps = workspace->keeps && status == TENSUM_OK;
        return status;
    }
    bool same;
    TRY(ts_validate_run(program, workspace, arguments, &same));
    workspace->keeps = false;
    if (program->backend->run != NULL) {
        status = program->backend->run(program, program->compiled, workspace->state, arguments);
        workspace->keeps = status == TENSUM_OK && leaves_enough(program, arguments);
        return status;
    }
    if (program->check && !program->saved && !arguments->kept) {
        TRY(ts_check_domain(program->plan->algebra, arguments->inputs, program->plan->network->operand_count));
    }
    ts_running running;
    memset(&running, 0, sizeof running);
    running.workspace = workspace;
    running.program = program;
    running.plan = program->plan;
    running.compiled = program->compiled;
    running.arguments = arguments;
    running.same = same;
    running.step.pool = program->context != NULL ? program->context->pool : NULL;
    running.step.scratch = workspace->memory + running.compiled->scratch_offset;
    running.step.scratch_bytes = running.compiled->scratch_bytes;
    if (arguments->progress != NULL) {
        running.last_poll = ts_seconds();
    }
    if (program->saved || arguments->kept) {
        status = run_saved(&running);
    } else if (arguments->gradients != NULL || arguments->assignments != NULL) {
        status = run_kept(&running);
    } else {
        status = run_values(&running);
    }
    workspace->keeps = status == TENSUM_OK && leaves_enough(program, arguments);
done:
    return status;
}
