#include "execute/workspace.h"

static tensum_status allocate_strides(const tensum_plan *plan, ts_strides *strides)
{
    tensum_status status = ts_allocate((size_t)plan->value_count, sizeof(int64_t), "workspace", &strides->first);
    if (status == TENSUM_OK) {
        status = ts_allocate(ts_strides_total(plan), sizeof(int64_t), "workspace", &strides->strides);
    }
    if (status == TENSUM_OK) {
        ts_strides_start(plan, strides);
    }
    return status;
}

static tensum_status take_memory(tensum_workspace *workspace, const tensum_workspace_options *options)
{
    size_t bytes = workspace->program->workspace_bytes;
    workspace->stream = options->stream;
    if (options->memory != NULL) {
        if ((uintptr_t)options->memory % 128 != 0) {
            return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "workspace memory is not aligned to 128 bytes");
        }
        workspace->memory = options->memory;
        return TENSUM_OK;
    }
    if (options->allocator == NULL) {
        workspace->default_allocator = true;
        workspace->owned = true;
        tensum_status status = ts_allocate_aligned(bytes, "workspace", &workspace->memory);
        workspace->owned = status == TENSUM_OK;
        return status;
    }
    if (options->allocator->alloc == NULL || options->allocator->free == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "workspace allocator: alloc or free is NULL");
    }
    workspace->allocator = *options->allocator;
    workspace->memory = workspace->allocator.alloc(workspace->allocator.user, bytes, 128, workspace->stream);
    if (workspace->memory == NULL) {
        return ts_fail(TENSUM_STATUS_OUT_OF_MEMORY, "out of memory: the caller's allocator gave no %zu bytes", bytes);
    }
    workspace->owned = true;
    return TENSUM_OK;
}

size_t ts_prepared_bytes(const tensum_program *program, int32_t s)
{
    const ts_backend *backend = program->backend;
    const ts_step *step = &program->plan->steps[s];
    if (backend->prepare_bytes == NULL || step->kind != TS_STEP_CONTRACT) {
        return 0;
    }
    const ts_contract_spec sizes = {.algebra = program->plan->algebra, .batch = step->batch_size, .left = step->left_size,
                                    .right = step->right_size, .sum = step->sum_size};
    return (backend->prepare_bytes(&sizes) + 7) / 8 * 8;
}

static tensum_status prepare_small_steps(tensum_workspace *workspace)
{
    tensum_status status = TENSUM_OK;
    const tensum_program *program = workspace->program;
    size_t bytes = 0;
    for (int32_t s = 0; s < program->plan->step_count; s++) {
        bytes += ts_prepared_bytes(program, s);
    }
    TRY(ts_allocate_zero((size_t)program->plan->step_count, sizeof *workspace->prepared, "workspace", &workspace->prepared));
    TRY(ts_allocate_zero(bytes / 8, 8, "workspace", &workspace->prepared_memory));
done:
    return status;
}

/* Room for the bookkeeping of a step backend. */
static tensum_status prepare(tensum_workspace *workspace)
{
    tensum_status status = TENSUM_OK;
    const tensum_program *program = workspace->program;
    const tensum_plan *plan = program->plan;
    const ts_compiled *compiled = program->compiled;
    static const char what[] = "workspace";
    size_t n = (size_t)plan->network->operand_count, slices = (size_t)plan->slice_label_count;
    size_t rank = (size_t)plan->values[n].rank;
    int64_t modes = 0;
    TRY(allocate_strides(plan, &workspace->strides));
    TRY(ts_allocate_zero((n + 1) * slices, sizeof(int64_t), what, &workspace->slice_strides));
    TRY(ts_allocate_zero(slices, sizeof(int64_t), what, &workspace->compact_slices));
    TRY(ts_allocate_zero(slices, sizeof(int64_t), what, &workspace->target_slices));
    TRY(ts_allocate_zero(slices, sizeof(int64_t), what, &workspace->coordinates));
    TRY(ts_allocate_zero(rank, sizeof(int64_t), what, &workspace->compact_strides));
    TRY(ts_allocate_zero(rank, sizeof(int64_t), what, &workspace->winner_strides));
    if ((program->modes & TENSUM_GRADIENT) != 0) {
        TRY(allocate_strides(plan, &workspace->gradient));
        TRY(ts_allocate_zero(n * slices, sizeof(int64_t), what, &workspace->gradient_slices));
        TRY(ts_allocate_zero((size_t)plan->value_count, 1, what, &workspace->wanted));
    }
    if (compiled->keeps) {
        TRY(ts_allocate_zero((size_t)plan->network->label_count, sizeof(int64_t), what, &workspace->assignment));
        TRY(ts_allocate_zero((size_t)plan->value_count, sizeof(double), what, &workspace->cotangent));
    }
    TRY(ts_allocate_zero((size_t)plan->step_count, sizeof *workspace->forward, what, &workspace->forward));
    TRY(ts_allocate_zero((size_t)plan->step_count, sizeof(int64_t), what, &workspace->first_mode));
    TRY(ts_allocate_zero((size_t)plan->value_count, sizeof(char *), what, &workspace->base));
    for (int32_t s = 0; s < plan->step_count; s++) {
        workspace->first_mode[s] = modes;
        modes += ts_step_modes(&plan->steps[s]);
    }
    TRY(ts_allocate_zero((size_t)modes, sizeof(ts_mode), what, &workspace->modes));
    TRY(prepare_small_steps(workspace));
    size_t raw = (size_t)plan->network->offsets[n + 1];
    TRY(ts_allocate_zero(n + 1, sizeof *workspace->seen, what, &workspace->seen));
    TRY(ts_allocate_zero(raw, sizeof(int64_t), what, &workspace->seen_strides));
    TRY(ts_allocate_zero((size_t)compiled->most_modes + 1, sizeof(ts_mode), what, &workspace->spare_modes));
    ts_label_strides(plan, (int64_t)n, NULL, workspace->compact_strides, workspace->compact_slices);
    for (int32_t v = 0; v < plan->value_count; v++) {
        const ts_value *value = &plan->values[v];
        const int64_t offset = compiled->value_offsets != NULL ? compiled->value_offsets[v]
                               : compiled->keeps               ? value->keep_offset
                                                               : value->value_offset;
        if (value->place == TS_PLACE_ARENA && offset >= 0) {
            workspace->base[v] = workspace->memory + offset;
        }
    }
done:
    return status;
}

tensum_status ts_workspace_lane(tensum_program *program, char *memory, tensum_workspace **out)
{
    tensum_status status = TENSUM_OK;
    tensum_workspace *lane = NULL;
    TRY(ts_allocate_zero(1, sizeof *lane, "workspace", &lane));
    lane->program = tensum_program_retain(program);
    lane->memory = memory;
    TRY(prepare(lane));
    *out = lane;
    lane = NULL;
done:
    tensum_workspace_release(lane);
    return status;
}

static tensum_status prepare_lanes(tensum_workspace *workspace)
{
    tensum_status status = TENSUM_OK;
    const ts_compiled *compiled = workspace->program->compiled;
    TRY(ts_allocate_zero((size_t)compiled->lanes, sizeof *workspace->lanes, "workspace", &workspace->lanes));
    for (int32_t i = 0; i < compiled->lanes; i++) {
        char *memory = workspace->memory + compiled->lane_offset + i * compiled->lane_bytes;
        TRY(ts_workspace_lane(workspace->program, memory, &workspace->lanes[i]));
    }
done:
    return status;
}

tensum_status tensum_workspace_create(tensum_program *program, const tensum_workspace_options *options,
                                      tensum_workspace **out)
{
    tensum_status status = TENSUM_OK;
    tensum_workspace *workspace = NULL;
    tensum_workspace_options defaults = TENSUM_WORKSPACE_OPTIONS_INIT;
    if (program == NULL || out == NULL || (options != NULL && options->size < sizeof *options)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT,
                       "tensum_workspace_create: program or workspace is NULL or options->size is not set");
    }
    if (options == NULL) {
        options = &defaults;
    }
    TRY(ts_allocate_zero(1, sizeof *workspace, "workspace", &workspace));
    workspace->program = tensum_program_retain(program);
    if (program->backend->workspace_create != NULL) {
        TRY(program->backend->workspace_create(program, program->compiled, options, &workspace->state));
    } else {
        TRY(take_memory(workspace, options));
        TRY(prepare(workspace));
        TRY(prepare_lanes(workspace));
    }
    if ((program->modes & TENSUM_GRADIENT) != 0) {
        size_t tensors = 2 * (size_t)program->plan->network->operand_count + 3;
        TRY(ts_allocate(tensors, sizeof *workspace->extents, "workspace", &workspace->extents));
    }
    *out = workspace;
    workspace = NULL;
done:
    tensum_workspace_release(workspace);
    return status;
}

void tensum_workspace_release(tensum_workspace *workspace)
{
    if (workspace == NULL) {
        return;
    }
    if (workspace->lanes != NULL) {
        const ts_compiled *compiled = workspace->program->compiled;
        for (int32_t i = 0; i < compiled->lanes; i++) {
            tensum_workspace_release(workspace->lanes[i]);
        }
        ts_free(workspace->lanes);
    }
    if (workspace->state != NULL) {
        workspace->program->backend->workspace_destroy(workspace->state);
    }
    if (workspace->owned && workspace->default_allocator) {
        ts_free(workspace->memory);
    } else if (workspace->owned) {
        workspace->allocator.free(workspace->allocator.user, workspace->memory, workspace->program->workspace_bytes,
                                  workspace->stream);
    }
    ts_free(workspace->strides.first);
    ts_free(workspace->strides.strides);
    ts_free(workspace->gradient.first);
    ts_free(workspace->gradient.strides);
    ts_free(workspace->slice_strides);
    ts_free(workspace->compact_slices);
    ts_free(workspace->target_slices);
    ts_free(workspace->gradient_slices);
    ts_free(workspace->compact_strides);
    ts_free(workspace->winner_strides);
    ts_free(workspace->forward);
    ts_free(workspace->first_mode);
    ts_free(workspace->modes);
    ts_free(workspace->spare_modes);
    ts_free(workspace->base);
    ts_free(workspace->prepared);
    ts_free(workspace->prepared_memory);
    ts_free(workspace->seen);
    ts_free(workspace->seen_strides);
    ts_free(workspace->extents);
    ts_free(workspace->coordinates);
    ts_free(workspace->assignment);
    ts_free(workspace->cotangent);
    ts_free(workspace->wanted);
    tensum_program_release(workspace->program);
    ts_free(workspace);
}
