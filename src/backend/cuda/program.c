#include "backend/cuda/fuse.h"

static size_t round_up(size_t bytes) { return (bytes + 127) / 128 * 128; }

/* ---- programs ---- */

static tensum_status lay_out_ports(ts_cuda_program *made)
{
    tensum_status status = TENSUM_OK;
    const tensum_network *network = made->plan->network;
    int64_t total = 0;

    if (network->operand_count > INT32_MAX / 4) {
        TRY(ts_fail(TENSUM_STATUS_UNSUPPORTED, "cuda: %lld operands are too many", (long long)network->operand_count));
    }
    made->input_count = network->operand_count;
    made->port_count = (int32_t)(2 * network->operand_count + 3);
    TRY(ts_allocate((size_t)made->port_count + 1, sizeof *made->port_modes, "the ports of a program",
                    &made->port_modes));
    for (int32_t p = 0; p < made->port_count; p++) {
        int64_t operand = ts_cuda_port_operand(made, p);
        made->port_modes[p] = total;
        total += network->offsets[operand + 1] - network->offsets[operand];
    }
    made->port_modes[made->port_count] = total;
done:
    return status;
}

static tensum_status load_kernels(ts_cuda_program *made)
{
    tensum_status status = TENSUM_OK;
    ts_algebra algebra = made->plan->algebra;
    ts_cuda_device *device = made->device;

    made->gradient = tensum_dtype_gradient(algebra.dtype);
    if ((made->modes & TENSUM_GRADIENT) != 0) {
        ts_element one = ts_identity((ts_algebra){TENSUM_SUM_PRODUCT, made->gradient, 0}, true);
        memcpy(made->one, &one, sizeof made->one);
    }
    TRY(ts_cuda_kernels_load(device, (int)algebra.semiring, algebra.dtype, &made->pair));
    TRY(ts_cuda_kernels_load(device, TS_CUDA_COMMON, algebra.dtype, &made->common));
    if ((made->modes & TENSUM_WINNERS) != 0) {
        TRY(ts_cuda_kernels_load(device, TS_CUDA_COMMON, TENSUM_I32, &made->winner_common));
    }
    if ((made->modes & (TENSUM_WINNERS | TENSUM_GRADIENT | TENSUM_DECODE)) != 0) {
        TRY(ts_cuda_kernels_load(device, TS_CUDA_COMMON, TENSUM_I64, &made->wide_winner_common));
    }
    if ((made->modes & TENSUM_GRADIENT) != 0) {
        TRY(ts_cuda_kernels_load(device, TENSUM_SUM_PRODUCT, made->gradient, &made->sum));
        TRY(ts_cuda_kernels_load(device, TS_CUDA_COMMON, made->gradient, &made->gradient_common));
    }
done:
    return status;
}

tensum_status ts_cuda_room_create(const tensum_plan *plan, ts_cuda_room *room)
{
    tensum_status status = TENSUM_OK;
    ts_strides *strides = &room->strides;

    TRY(ts_allocate((size_t)plan->value_count, sizeof *strides->first, "the strides of a program", &strides->first));
    TRY(ts_allocate(ts_strides_total(plan), sizeof *strides->strides, "the strides of a program", &strides->strides));
    TRY(ts_allocate((size_t)plan->value_count, 1, "the values of a program", &room->wanted));
done:
    return status;
}

void ts_cuda_room_free(ts_cuda_room *room)
{
    ts_free(room->strides.first);
    ts_free(room->strides.strides);
    ts_free(room->wanted);
}

/* Put a part behind what is there; returns its offset. */
static size_t place(size_t *total, size_t bytes)
{
    size_t offset = *total;
    *total += round_up(bytes);
    return offset;
}

static int64_t output_elements(const tensum_plan *plan)
{
    const tensum_network *network = plan->network;
    int64_t elements = 1;
    for (int64_t m = network->offsets[network->operand_count]; m < network->offsets[network->operand_count + 1]; m++) {
        elements *= network->raw_extents[m];
    }
    return elements;
}

static void lay_out_memory(ts_cuda_program *made, size_t scratch_bytes, size_t convert_bytes)
{
    const tensum_plan *plan = made->plan;
    size_t total = 0, labels = (size_t)plan->network->label_count;
    size_t arena_bytes = (size_t)plan->value_bytes;
    bool traces = made->traces;

    if (made->value_offsets != NULL) {
        arena_bytes = made->value_bytes;
    } else if ((made->modes & TENSUM_GRADIENT) != 0) {
        arena_bytes = made->saved ? 0 : (size_t)plan->gradient_bytes;
    } else if ((made->modes & TENSUM_DECODE) != 0) {
        arena_bytes = (size_t)plan->keep_bytes;
    }
    made->arena_offset = place(&total, arena_bytes);
    made->scratch_offset = place(&total, scratch_bytes);
    made->convert_offset = place(&total, convert_bytes);
    for (int i = 0; i < 3; i++) {
        made->copy_offset[i] = place(&total, made->copy_bytes[i]);
    }
    made->vendor_offset = place(&total, made->vendor_bytes > 0 ? made->vendor_bytes + 256 : 0);
    made->tables_offset = place(&total, made->table_capacity);
    /* Behind a gap, so that no address of anything else, not even of something empty, is that of an entry. */
    total += round_up(1);
    made->slots_offset = place(&total, ((size_t)made->port_count + TS_CUDA_EXTRA_SLOTS) * sizeof(uint64_t));
    made->decode_offset = total;
    if (made->decode_rows > 0 || traces) {
        int64_t rows = ts_max64(made->decode_rows, 1);
        made->decode_offset = place(&total, (size_t)rows * labels * sizeof(int64_t));
        made->decode_values_offset = place(&total, (size_t)rows * 16);
    }
    if (traces) {
        made->cotangents_offset = place(&total, (size_t)plan->value_count * tensum_dtype_bytes(made->gradient));
        made->operands_offset = place(&total, (size_t)plan->step_count * 16);
        made->carries_offset = place(&total, (size_t)plan->value_count);
    }
    made->output_offset = total;
    if ((made->modes & (TENSUM_GRADIENT | TENSUM_DECODE)) != 0 && !made->saved) {
        made->output_offset =
            place(&total, (size_t)output_elements(plan) * tensum_dtype_bytes(plan->algebra.dtype));
    }
    if (made->can_tell_apart) {
        made->partial_offset = place(&total, (size_t)output_elements(plan) * tensum_dtype_bytes(plan->algebra.dtype));
        made->slice_of_offset = place(&total, (size_t)output_elements(plan) * sizeof(int64_t));
        made->seed_offset = place(&total, (size_t)output_elements(plan) * tensum_dtype_bytes(made->gradient));
    }
    made->workspace_bytes = total;
}

/* The most that any list measured so far needs. */
typedef struct needs {
    size_t scratch_bytes, convert_bytes;
} needs;

static tensum_status measure_list(ts_cuda_program *made, const ts_cuda_signature *signature, ts_cuda_room *room, needs *most)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_list list = {.measure = true, .units = made->device->units, .without_panels = made->without_panels, .device = made->device};

    TRY(ts_cuda_emit(made, signature, 0, 0, room, &list));
    made->launch_capacity = ts_max64(made->launch_capacity, list.count);
    made->call_capacity = list.call_count > made->call_capacity ? list.call_count : made->call_capacity;
    made->parameter_capacity = list.parameter_bytes > made->parameter_capacity ? list.parameter_bytes : made->parameter_capacity;
    made->table_capacity = list.table_bytes > made->table_capacity ? list.table_bytes : made->table_capacity;
    most->scratch_bytes = list.scratch_bytes > most->scratch_bytes ? list.scratch_bytes : most->scratch_bytes;
    most->convert_bytes = list.convert_bytes > most->convert_bytes ? list.convert_bytes : most->convert_bytes;
done:
    return status;
}

/* Find out what lists need, whatever the strides of a run. */
static tensum_status measure(ts_cuda_program *made)
{
    tensum_status status = TENSUM_OK;
    const bool finds_winners = (made->modes & TENSUM_WINNERS) != 0;
    ts_cuda_signature signature = {0};
    ts_cuda_room room = {0};
    needs most = {0};

    TRY(ts_cuda_room_create(made->plan, &room));
    TRY(ts_allocate((size_t)made->port_modes[made->port_count], sizeof *signature.strides, "the strides of a program",
                    &signature.strides));
    TRY(ts_allocate_zero((size_t)made->port_count, 1, "the ports of a program", &signature.where));
    for (int32_t p = 0; p < made->port_count; p++) {
        bool used = p <= ts_cuda_port_output(made) || (p >= ts_cuda_port_cotangent(made) && (made->modes & TENSUM_GRADIENT) != 0);
        signature.where[p] = used ? TS_CUDA_ON_DEVICE : TS_CUDA_UNUSED;
        ts_cuda_compact_strides(made, p, signature.strides + made->port_modes[p]);
    }
    signature.winner_bytes = 8;
    signature.positions = made->decode_rows;
    /* A run may leave winners out, and takes the kernels for values then. It may accumulate or not, and its copies then take
     * different kernels; or it tells slices apart. */
    for (int winners = 0; winners <= (finds_winners ? 1 : 0); winners++) {
        signature.where[ts_cuda_port_winners(made)] = winners != 0 ? TS_CUDA_ON_DEVICE : TS_CUDA_UNUSED;
        for (int kind = 0; kind <= (made->can_tell_apart ? 2 : 1); kind++) {
            signature.accumulates = kind == 1;
            signature.told_apart = kind == 2;
            TRY(measure_list(made, &signature, &room, &most));
        }
    }
    lay_out_memory(made, most.scratch_bytes, most.convert_bytes);
done:
    ts_cuda_room_free(&room);
    ts_free(signature.strides);
    ts_free(signature.where);
    return status;
}

/* Are there elements that the pair's operands must not have? */
static bool has_domain(ts_algebra algebra)
{
    bool integer = algebra.dtype == TENSUM_I16 || algebra.dtype == TENSUM_I32 || algebra.dtype == TENSUM_I64;

    switch (algebra.semiring) {
    case TENSUM_MAX_TIMES:
    case TENSUM_MIN_TIMES:
    case TENSUM_SUM_PRODUCT_MOD:
        return true;
    case TENSUM_MAX_PLUS:
    case TENSUM_MIN_PLUS:
        return integer;
    default:
        return algebra.dtype == TENSUM_BOOL;
    }
}

static bool exceeds_limit(const ts_cuda_program *made)
{
    const tensum_plan *plan = made->plan;
    return plan->memory_limit != 0 && plan->memory_taken + made->workspace_bytes > plan->memory_limit;
}

tensum_status ts_cuda_program_create(struct tensum_program *program, void **compiled)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    ts_cuda_program *made = NULL;
    bool entered = false;

    TRY(ts_allocate_zero(1, sizeof *made, "a CUDA program", &made));
    made->plan = plan;
    made->modes = program->modes != 0 ? program->modes : TENSUM_VALUE;
    made->saved = program->saved;
    TRY(ts_cuda_device_open(program->device.index, &made->device));
    if (plan->slice_label_count > 64) {
        TRY(ts_fail(TENSUM_STATUS_UNSUPPORTED, "cuda: %d sliced labels; at most 64 are supported",
                    (int)plan->slice_label_count));
    }
    made->can_tell_apart = plan->slice_total != 1 && (made->modes & (TENSUM_GRADIENT | TENSUM_DECODE)) != 0 &&
                           plan->algebra.semiring != TENSUM_SUM_PRODUCT;
    made->traces = (made->modes & TENSUM_GRADIENT) != 0 && ts_plan_traces(plan);
    if ((made->modes & TENSUM_DECODE) != 0) {
        made->decode_rows = ts_max64(1, ts_min64(output_elements(plan), 1024));
    }
    TRY(ts_cuda_enter(made->device));
    entered = true;
    TRY(lay_out_ports(made));
    TRY(load_kernels(made));
    made->check_host = program->check && !program->saved && has_domain(plan->algebra);
    made->check = made->check_host && made->pair.has[TS_CUDA_KERNEL_CHECK];
    made->output_elements = output_elements(plan);
    TRY(ts_cuda_fuse(made));
    TRY(ts_cutensor_compile(made));
    TRY(measure(made));
    if (made->vendor != NULL && exceeds_limit(made)) {
        ts_cutensor_forget(made); /* our own kernels need less */
        TRY(measure(made));
    }
    if (exceeds_limit(made)) {
        made->without_panels = true; /* tiles need no copies of operands */
        TRY(measure(made));
    }
    if (made->chain_count + made->tree_count > 0 && exceeds_limit(made)) {
        ts_cuda_fuse_free(made); /* steps that do not share launches need no tables */
        made->table_capacity = 0;
        TRY(measure(made));
    }
    *compiled = made;
    made = NULL;
done:
    if (entered) {
        ts_cuda_leave(((ts_cuda_program *)(made != NULL ? made : *compiled))->device);
    }
    ts_cuda_program_destroy(made);
    return status;
}

void ts_cuda_program_destroy(void *compiled)
{
    ts_cuda_program *program = compiled;
    if (program != NULL) {
        ts_cutensor_forget(program);
        ts_cuda_fuse_free(program);
        ts_free(program->port_modes);
        ts_free(program);
    }
}

size_t ts_cuda_program_workspace_bytes(const struct tensum_program *program, const void *compiled)
{
    (void)program;
    return ((const ts_cuda_program *)compiled)->workspace_bytes;
}

/* ---- workspaces ---- */

static tensum_status make_signature(const ts_cuda_program *program, ts_cuda_signature *signature)
{
    tensum_status status = TENSUM_OK;

    TRY(ts_allocate_zero((size_t)program->port_modes[program->port_count], sizeof *signature->strides,
                         "the strides of a workspace", &signature->strides));
    TRY(ts_allocate_zero((size_t)program->port_count, 1, "the ports of a workspace", &signature->where));
done:
    return status;
}

static void free_signature(ts_cuda_signature *signature)
{
    ts_free(signature->strides);
    ts_free(signature->where);
}

static tensum_status take_memory(ts_cuda_workspace *made, const tensum_workspace_options *options)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = made->program;
    unsigned type = 0;

    if (options != NULL && options->memory != NULL) {
        if (((uintptr_t)options->memory & 127) != 0) {
            TRY(ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "the workspace's memory is not 128-byte aligned"));
        }
        {
            int result = program->device->driver->pointer_attribute(&type, TS_CU_POINTER_MEMORY_TYPE,
                                                                    (ts_cu_address)(uintptr_t)options->memory);
            if (result == TS_CU_INVALID_VALUE || (result == TS_CU_SUCCESS && type != TS_CU_MEMORY_DEVICE)) {
                TRY(ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "the workspace's memory is not memory of cuda:%d",
                            (int)program->device->ordinal));
            }
            TRY(ts_cuda_result(program->device, result, "cuPointerGetAttribute"));
        }
        made->memory = (ts_cu_address)(uintptr_t)options->memory;
        return TENSUM_OK;
    }
    if (options != NULL && options->allocator != NULL) {
        void *pointer;
        made->allocator = *options->allocator;
        made->has_allocator = true;
        if (made->allocator.alloc == NULL || made->allocator.free == NULL) {
            TRY(ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "the allocator lacks a function"));
        }
        pointer = made->allocator.alloc(made->allocator.user, program->workspace_bytes, 128, made->stream);
        if (pointer == NULL) {
            TRY(ts_fail(TENSUM_STATUS_OUT_OF_MEMORY, "the allocator has no %zu bytes for a workspace",
                        program->workspace_bytes));
        }
        made->memory = (ts_cu_address)(uintptr_t)pointer;
    } else {
        TRY(ts_cuda_allocate(program->device, program->workspace_bytes, made->stream, "a workspace", &made->memory));
    }
    made->own_memory = true;
done:
    return status;
}

tensum_status ts_cuda_workspace_create(struct tensum_program *program, void *compiled,
                                       const tensum_workspace_options *options, void **state)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *from = compiled;
    ts_cuda_workspace *made = NULL;
    size_t slots = (size_t)from->port_count + TS_CUDA_EXTRA_SLOTS;

    (void)program;
    TRY(ts_cuda_enter(from->device));
    status = ts_allocate_zero(1, sizeof *made, "a CUDA workspace", &made);
    if (status != TENSUM_OK) {
        ts_cuda_leave(from->device);
        return status;
    }
    made->program = from;
    made->stream = options != NULL ? options->stream : NULL;
    if (ts_cuda_capturing(from->device, made->stream)) {
        TRY(ts_fail(TENSUM_STATUS_NOT_PREPARED, "a workspace cannot be made while its stream is captured: make it before"));
    }
    TRY(make_signature(from, &made->made));
    TRY(make_signature(from, &made->next));
    TRY(ts_cuda_room_create(from->plan, &made->room));
    TRY(ts_allocate((size_t)from->port_count * (size_t)from->plan->slice_label_count, sizeof *made->slice_steps,
                    "the slices of a workspace", &made->slice_steps));
    TRY(ts_allocate_zero((size_t)from->port_count, sizeof *made->base, "the pointers of a workspace", &made->base));
    TRY(ts_allocate_zero(slots, sizeof *made->slots, "the pointers of a workspace", &made->slots));
    TRY(ts_allocate_zero(slots, sizeof *made->shown, "the pointers of a workspace", &made->shown));
    TRY(ts_allocate_zero((size_t)from->port_count, sizeof *made->again_compact, "the ports of a workspace",
                         &made->again_compact));
    TRY(ts_allocate_zero((size_t)from->port_count, sizeof *made->validated, "the pointers of a workspace",
                         &made->validated));
    TRY(ts_allocate((size_t)from->port_count, sizeof *made->stage_offset, "the ports of a workspace",
                    &made->stage_offset));
    TRY(ts_allocate((size_t)from->launch_capacity, sizeof *made->list.launches, "the launches of a workspace",
                    &made->list.launches));
    TRY(ts_allocate_zero(from->parameter_capacity + TS_CUDA_PARAMETER_SLACK, 1, "the launches of a workspace",
                         &made->list.parameters));
    TRY(ts_allocate_zero((size_t)from->call_capacity, sizeof *made->list.calls, "the launches of a workspace",
                         &made->list.calls));
    if (from->table_capacity > 0) {
        TRY(ts_cuda_allocate_host(from->device, from->table_capacity, "cuMemHostAlloc", &made->list.tables, NULL));
        TRY(ts_cuda_result(from->device, from->device->driver->event_create(&made->tables_event, TS_CU_EVENT_NO_TIMING),
                           "cuEventCreate"));
    }
    if (from->can_tell_apart) {
        TRY(ts_cuda_allocate_host(from->device, (size_t)ts_max64(from->output_elements, 1) * sizeof(int64_t),
                                  "cuMemHostAlloc", &made->slice_of_host, NULL));
    }
    if (from->decode_rows > 0) {
        size_t row = (size_t)from->plan->network->label_count * sizeof(int64_t) + 16;
        TRY(ts_cuda_allocate_host(from->device, (size_t)from->decode_rows * row + 256, "cuMemHostAlloc",
                                  &made->decode_host, NULL));
    }
    TRY(ts_cuda_allocate_host(from->device, sizeof *made->verdict, "cuMemHostAlloc", &made->verdict,
                              &made->verdict_address));
    *made->verdict = UINT64_MAX;
    TRY(take_memory(made, options));
    if (from->decode_rows > 0) { /* gaps between values are downloaded with them */
        TRY(ts_cuda_result(from->device,
                           from->device->driver->set_bytes(made->memory + from->decode_offset, 0,
                                                           from->output_offset - from->decode_offset, made->stream),
                           "cuMemsetD8Async"));
    }
    made->list.units = from->device->units;
    made->list.without_panels = from->without_panels;
    made->list.device = from->device;
    made->list.scratch = made->memory + from->scratch_offset;
    made->list.tables_address = made->memory + from->tables_offset;
    made->list.slots = made->slots;
    made->list.slots_address = made->memory + from->slots_offset;
    *state = made;
    made = NULL;
done:
    if (made != NULL) {
        ts_cuda_workspace_destroy(made);
    }
    ts_cuda_leave(from->device);
    return status;
}

void ts_cuda_workspace_destroy(void *state)
{
    ts_cuda_workspace *workspace = state;
    ts_cuda_device *device;

    if (workspace == NULL) {
        return;
    }
    device = workspace->program->device;
    /* Once more if need be: what cannot be given back now never will be. */
    if (ts_cuda_enter(device) == TENSUM_OK || ts_cuda_enter(device) == TENSUM_OK) {
        ts_cuda_graphs_drop(workspace);
        ts_cuda_stage_free(workspace);
        if (workspace->own_memory && workspace->has_allocator) {
            workspace->allocator.free(workspace->allocator.user, (void *)(uintptr_t)workspace->memory,
                                      workspace->program->workspace_bytes, workspace->stream);
        } else if (workspace->own_memory) {
            ts_cuda_release(device, workspace->memory, workspace->program->workspace_bytes, workspace->stream);
        }
        if (workspace->tables_event != NULL) {
            (void)device->driver->event_destroy(workspace->tables_event);
        }
        ts_cuda_release_host(device, workspace->list.tables);
        ts_cuda_release_host(device, workspace->decode_host);
        ts_cuda_release_host(device, workspace->slice_of_host);
        ts_cuda_release_host(device, workspace->verdict);
        ts_cuda_leave(device);
    }
    ts_cutensor_drop_calls(&workspace->list);
    free_signature(&workspace->made);
    free_signature(&workspace->next);
    ts_cuda_room_free(&workspace->room);
    ts_free(workspace->slice_steps);
    ts_free(workspace->base);
    ts_free(workspace->slots);
    ts_free(workspace->shown);
    ts_free(workspace->validated);
    ts_free(workspace->again_compact);
    ts_free(workspace->stage_offset);
    ts_free(workspace->list.launches);
    ts_free(workspace->list.calls);
    ts_free(workspace->list.parameters);
    ts_free(workspace);
}

static bool at_least_as_aligned(const ts_cuda_signature *next, const ts_cuda_signature *made)
{
    return next->alignments[0] >= made->alignments[0] && next->alignments[1] >= made->alignments[1] &&
           next->alignments[2] >= made->alignments[2];
}

tensum_status ts_cuda_prepare(ts_cuda_workspace *workspace, ts_cu_stream stream)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = workspace->program;
    const tensum_plan *plan = program->plan;
    ts_cuda_device *device = program->device;
    ts_cuda_signature *made = &workspace->made, *next = &workspace->next;
    ts_cuda_signature swap;
    size_t stride_bytes = (size_t)program->port_modes[program->port_count] * sizeof *made->strides;

    if (workspace->prepared && made->accumulates == next->accumulates && made->winner_bytes == next->winner_bytes &&
        made->positions == next->positions && made->told_apart == next->told_apart &&
        memcmp(made->where, next->where, (size_t)program->port_count) == 0 &&
        (stride_bytes == 0 || memcmp(made->strides, next->strides, stride_bytes) == 0) &&
        (!program->vendor_direct || at_least_as_aligned(next, made))) {
        return TENSUM_OK;
    }
    if (program->table_capacity > 0 && ts_cuda_capturing(device, stream)) { /* what is prepared stays so */
        TRY(ts_fail(TENSUM_STATUS_NOT_PREPARED, "these strides are new to the workspace: run once before capturing"));
    }
    workspace->prepared = false;
    workspace->uses = 0;
    ts_cuda_graphs_drop(workspace);
    if (program->table_capacity > 0 && workspace->tables_pending) {
        /* The last upload may still be reading the host's copy. */
        if (ts_cuda_capturing(device, stream)) {
            TRY(ts_fail(TENSUM_STATUS_NOT_PREPARED, "these strides are new to the workspace: run once before capturing"));
        }
        TS_CUDA_COUNT(device, synchronisations, 1);
        TRY(ts_cuda_result(device, device->driver->event_synchronize(workspace->tables_event), "cuEventSynchronize"));
        workspace->tables_pending = false;
    }
    ts_cutensor_drop_calls(&workspace->list);
    workspace->list.fallback = false;
    workspace->list.count = 0;
    workspace->list.parameter_bytes = 0;
    workspace->list.table_bytes = 0;
    TRY(ts_cuda_emit(program, next, workspace->memory, workspace->verdict_address, &workspace->room, &workspace->list));
    if (workspace->list.table_bytes > 0) {
        if (ts_cuda_capturing(device, stream)) {
            TRY(ts_fail(TENSUM_STATUS_NOT_PREPARED, "these strides are new to the workspace: run once before capturing"));
        }
        TRY(ts_cuda_result(device,
                           device->driver->upload(workspace->list.tables_address, workspace->list.tables,
                                                  workspace->list.table_bytes, stream),
                           "cuMemcpyHtoDAsync"));
        TS_CUDA_COUNT(device, uploads, 1);
        TS_CUDA_COUNT(device, upload_bytes, workspace->list.table_bytes);
        workspace->tables_pending = true;
        TRY(ts_cuda_result(device, device->driver->event_record(workspace->tables_event, stream), "cuEventRecord"));
    }
    for (int32_t p = 0; p < program->port_count; p++) {
        size_t bytes = ts_cuda_port_element_bytes(program, p);
        if (p == ts_cuda_port_winners(program)) {
            bytes = next->winner_bytes;
        }
        for (int32_t i = 0; i < plan->slice_label_count; i++) {
            workspace->slice_steps[(size_t)p * (size_t)plan->slice_label_count + (size_t)i] =
                ts_cuda_port_stride(program, next, p, plan->slice_labels[i]) * (int64_t)bytes;
        }
    }
    swap = *made;
    *made = *next;
    *next = swap;
    workspace->prepared = true;
done:
    return status;
}
