/* One run: pointers and strides from the caller's tensors, staging, slices, launches. */
#include <inttypes.h>
#include <stdio.h>

#include "backend/cuda/program.h"

static const char *port_name(const ts_cuda_program *program, int32_t port, char *text, size_t bytes)
{
    int64_t n = program->input_count;
    if (port < n) {
        (void)snprintf(text, bytes, "operand %d", (int)port);
    } else if (port < n + 3) {
        (void)snprintf(text, bytes, "%s", port == n ? "the output" : port == n + 1 ? "the winners" : "the cotangent");
    } else {
        (void)snprintf(text, bytes, "the gradient of operand %d", (int)(port - n - 3));
    }
    return text;
}

/* Is the pointer memory that this device may use? */
static tensum_status check_pointer(const ts_cuda_program *program, int32_t port, const void *pointer)
{
    ts_cuda_device *device = program->device;
    char name[64];
    unsigned type = 0, managed = 0;
    int ordinal = 0;
    ts_cu_address address = (ts_cu_address)(uintptr_t)pointer;
    int result = device->driver->pointer_attribute(&type, TS_CU_POINTER_MEMORY_TYPE, address);

    port_name(program, port, name, sizeof name);
    if (result == TS_CU_INVALID_VALUE) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s: %p is said to be on cuda:%d, but the driver knows no such memory",
                       name, pointer, (int)device->ordinal);
    }
    if (result != TS_CU_SUCCESS) {
        return ts_cuda_result(device, result, "cuPointerGetAttribute");
    }
    if (device->driver->pointer_attribute(&managed, TS_CU_POINTER_IS_MANAGED, address) == TS_CU_SUCCESS && managed != 0) {
        return TENSUM_OK;
    }
    if (type == TS_CU_MEMORY_HOST) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT,
                       "%s: %p is said to be on cuda:%d, but is pinned host memory; pass it as a tensor of the CPU", name,
                       pointer, (int)device->ordinal);
    }
    result = device->driver->pointer_attribute(&ordinal, TS_CU_POINTER_DEVICE_ORDINAL, address);
    if (result != TS_CU_SUCCESS) {
        return ts_cuda_result(device, result, "cuPointerGetAttribute");
    }
    if (ordinal != device->ordinal) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s lies on cuda:%d, but the program runs on cuda:%d", name, ordinal,
                       (int)device->ordinal);
    }
    return TENSUM_OK;
}

/* log2 of the alignment of a port's address, as far as anybody makes use of it. Staging lies at multiples of 128. */
static uint8_t alignment_of(const ts_cuda_workspace *workspace, int32_t port)
{
    uint8_t power = 0;
    if (workspace->next.where[port] != TS_CUDA_ON_DEVICE) {
        return 7;
    }
    while (power < 8 && (workspace->base[port] >> power & 1) == 0) {
        power++;
    }
    return power;
}

/* A run for values alone: leave the launches of a backward pass in the list, for the next run may ask for them again. */
static void keep_backward_launches(ts_cuda_workspace *workspace)
{
    const ts_cuda_program *program = workspace->program;
    const ts_cuda_signature *made = &workspace->made;
    ts_cuda_signature *next = &workspace->next;
    const int32_t first = ts_cuda_port_cotangent(program);
    const int64_t modes = program->port_modes[first];

    for (int32_t p = first; p < program->port_count; p++) {
        if (made->where[p] == TS_CUDA_ON_HOST) {
            return;
        }
    }
    memcpy(next->where + first, made->where + first, (size_t)(program->port_count - first));
    memcpy(next->strides + modes, made->strides + modes,
           (size_t)(program->port_modes[program->port_count] - modes) * sizeof *next->strides);
}

/* Where each port is, its strides and address. */
static tensum_status take_arguments(ts_cuda_workspace *workspace, const tensum_run_arguments *arguments)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = workspace->program;
    ts_cuda_signature *next = &workspace->next;
    char name[64];

    next->winner_bytes = 0;
    next->positions = arguments->assignments != NULL ? ts_min64(arguments->position_count, program->decode_rows) : 0;
    for (int32_t p = 0; p < program->port_count; p++) {
        const tensum_tensor *tensor = ts_cuda_port_tensor(program, arguments, p);
        int64_t *strides = next->strides + program->port_modes[p];
        int64_t rank = program->port_modes[p + 1] - program->port_modes[p];
        bool empty = false;

        next->where[p] = TS_CUDA_UNUSED;
        workspace->base[p] = 0;
        ts_cuda_compact_strides(program, p, strides);
        if (tensor == NULL) {
            if (p == ts_cuda_port_output(program) && !program->saved && (program->modes & (TENSUM_GRADIENT | TENSUM_DECODE)) != 0) {
                next->where[p] = TS_CUDA_ON_DEVICE;
                workspace->base[p] = workspace->memory + program->output_offset;
            }
            continue;
        }
        for (int32_t m = 0; m < tensor->rank; m++) {
            empty = empty || tensor->extents[m] == 0;
        }
        if (p == ts_cuda_port_winners(program)) {
            next->winner_bytes = (uint8_t)tensum_dtype_bytes(tensor->dtype);
        }
        if (tensor->device.kind != TENSUM_CUDA) {
            next->where[p] = TS_CUDA_ON_HOST;
            continue;
        }
        if (tensor->device.index != program->device->ordinal) {
            TRY(ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s lies on cuda:%d, but the program runs on cuda:%d",
                        port_name(program, p, name, sizeof name), (int)tensor->device.index,
                        (int)program->device->ordinal));
        }
        next->where[p] = TS_CUDA_ON_DEVICE;
        workspace->again_compact[p] = tensor->strides == NULL;
        if (tensor->strides != NULL) {
            memcpy(strides, tensor->strides, (size_t)rank * sizeof *strides);
        }
        if (!empty && workspace->validated[p] != tensor->data) {
            TRY(check_pointer(program, p, tensor->data));
            workspace->validated[p] = tensor->data;
        }
        workspace->base[p] = (uint64_t)(uintptr_t)tensor->data;
    }
    if (arguments->gradients == NULL && workspace->prepared) {
        keep_backward_launches(workspace);
    }
    if (program->vendor_direct) {
        const ts_step *step = &program->plan->steps[0];
        next->alignments[0] = alignment_of(workspace, step->a);
        next->alignments[1] = alignment_of(workspace, step->b);
        next->alignments[2] = alignment_of(workspace, step->c);
    }
done:
    return status;
}

/* Bring the pointer table up to date. */
static tensum_status refresh(ts_cuda_workspace *workspace, bool everything, ts_cu_stream stream)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = workspace->program;
    ts_cuda_device *device = program->device;
    int32_t slots = program->port_count + TS_CUDA_EXTRA_SLOTS;

    for (int32_t first = 0; first < slots;) {
        ts_cuda_refresh p;
        void *parameters[1] = {&p};
        int32_t past;

        while (first < slots && !everything && workspace->slots[first] == workspace->shown[first]) {
            first++;
        }
        if (first == slots) {
            break;
        }
        past = (int32_t)ts_min64(slots, first + TS_CUDA_REFRESH_VALUES);
        while (!everything && workspace->slots[past - 1] == workspace->shown[past - 1]) {
            past--;
        }
        p.table = workspace->memory + program->slots_offset;
        p.first = first;
        p.count = past - first;
        memcpy(p.values, workspace->slots + first, (size_t)p.count * sizeof *p.values);
        TRY(ts_cuda_result(device,
                           device->driver->launch(program->common.functions[TS_CUDA_KERNEL_REFRESH], 1, 1, 1,
                                                  TS_CUDA_THREADS, 1, 1, 0, stream, parameters, NULL),
                           "cuLaunchKernel"));
        TS_CUDA_COUNT(device, launches, 1);
        memcpy(workspace->shown + first, workspace->slots + first, (size_t)p.count * sizeof *p.values);
        first = past;
    }
    workspace->shown_valid = true;
done:
    if (status != TENSUM_OK) {
        workspace->shown_valid = false;
    }
    return status;
}

static tensum_status launch_phases(ts_cuda_workspace *workspace, unsigned phases, ts_cu_stream stream)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_list *list = &workspace->list;
    bool called = false;

    /* A graph is made for the second run of a list, and for the second slice of the first. Launches inside a caller's
     * capture become nodes of his graph. */
    if (workspace->uses > 0 && !workspace->capturing) {
        const ts_cuda_graph *graph = ts_cuda_graph_find(workspace, phases);
        if (graph != NULL) {
            return ts_cuda_graph_launch(workspace, graph, stream);
        }
    }
    for (int64_t i = 0; i < list->count; i++) {
        const ts_cuda_launch *launch = &list->launches[i];
        if ((phases >> launch->phase & 1u) == 0 || (launch->fallback && called)) {
            continue;
        }
        if (launch->call != 0) {
            TRY(ts_cutensor_call_one(workspace->program->device, list, launch, stream, workspace->capturing, &called));
        } else {
            TRY(ts_cuda_launch_one(workspace->program->device, list, i, stream));
        }
    }
done:
    return status;
}

/* Point the slots at slice number `slice`. */
static void place_slots(ts_cuda_workspace *workspace, int64_t slice)
{
    const ts_cuda_program *program = workspace->program;
    const tensum_plan *plan = program->plan;
    int32_t labels = plan->slice_label_count;

    for (int32_t p = 0; p < program->port_count; p++) {
        workspace->slots[p] = workspace->base[p];
        if (workspace->made.where[p] == TS_CUDA_ON_HOST) {
            workspace->slots[p] = workspace->stage_device + (uint64_t)workspace->stage_offset[p];
        }
    }
    workspace->slots[program->port_count + TS_CUDA_SLOT_SLICE] = (uint64_t)slice;
    workspace->slots[program->port_count + TS_CUDA_SLOT_PARTIAL] = workspace->memory + program->partial_offset;
    workspace->slots[program->port_count + TS_CUDA_SLOT_SLICE_OF] = workspace->memory + program->slice_of_offset;
    workspace->slots[program->port_count + TS_CUDA_SLOT_SEED] = workspace->memory + program->seed_offset;
    for (int32_t i = labels - 1; i >= 0; i--) {
        int64_t extent = ts_max64(plan->network->label_extents[plan->slice_labels[i]], 1);
        int64_t position = slice % extent;
        slice /= extent;
        if (position == 0) {
            continue;
        }
        for (int32_t p = 0; p < program->port_count; p++) {
            workspace->slots[p] += (uint64_t)(position * workspace->slice_steps[(size_t)p * (size_t)labels + (size_t)i]);
        }
        if (program->can_tell_apart) {
            int64_t offset = position * ts_cuda_output_stride(program, plan->slice_labels[i]);
            int64_t bytes = (int64_t)tensum_dtype_bytes(plan->algebra.dtype);
            int64_t real_bytes = (int64_t)tensum_dtype_bytes(program->gradient);
            workspace->slots[program->port_count + TS_CUDA_SLOT_PARTIAL] += (uint64_t)(offset * bytes);
            workspace->slots[program->port_count + TS_CUDA_SLOT_SLICE_OF] += (uint64_t)(offset * (int64_t)sizeof(int64_t));
            workspace->slots[program->port_count + TS_CUDA_SLOT_SEED] += (uint64_t)(offset * real_bytes);
        }
    }
}

static tensum_status take_verdict(ts_cuda_workspace *workspace)
{
    uint64_t key = *(volatile uint64_t *)workspace->verdict;

    if (key == UINT64_MAX) {
        return TENSUM_OK;
    }
    *(volatile uint64_t *)workspace->verdict = UINT64_MAX;
    return ts_fail(TENSUM_STATUS_DOMAIN, "operand %" PRIu64 ": element %" PRIu64 " lies outside the domain of %s", key >> 40,
                   key & ((UINT64_C(1) << 40) - 1), tensum_semiring_name(workspace->program->plan->algebra.semiring));
}

/* Is the work of this run done when it returns? */
static bool waits(const ts_cuda_workspace *workspace, const tensum_run_arguments *arguments)
{
    const ts_cuda_program *program = workspace->program;

    for (int32_t p = ts_cuda_port_output(program); p < program->port_count; p++) {
        bool read = p == ts_cuda_port_cotangent(program) || (workspace->reads_results && p < ts_cuda_port_cotangent(program));
        if (!read && workspace->made.where[p] == TS_CUDA_ON_HOST) {
            return true;
        }
    }
    return arguments->assignments != NULL;
}

tensum_status ts_cuda_workspace_check(void *state) { return take_verdict(state); }

/* Write the labels of output element `position` and of a slice into an assignment of zeros; false if the element lies off
 * a diagonal, where the output is 0 of the semiring whatever the operands. */
static bool start_assignment(const tensum_plan *plan, int64_t position, int64_t slice, int64_t *assignment)
{
    const tensum_network *network = plan->network;
    int64_t first = network->offsets[network->operand_count], past = network->offsets[network->operand_count + 1];
    bool on_diagonal = true;

    for (int32_t i = 0; i < network->label_count; i++) {
        assignment[i] = -1;
    }
    for (int64_t m = past - 1; m >= first; m--) {
        int64_t extent = network->raw_extents[m], place = position % extent;
        int64_t *label = &assignment[network->raw_labels[m]];
        position /= extent;
        if (extent == 1) {
            continue;
        }
        on_diagonal = on_diagonal && (*label < 0 || *label == place);
        *label = place;
    }
    for (int32_t i = 0; i < network->label_count; i++) {
        assignment[i] = assignment[i] < 0 ? 0 : assignment[i];
    }
    for (int32_t i = plan->slice_label_count - 1; i >= 0; i--) {
        int64_t extent = ts_max64(network->label_extents[plan->slice_labels[i]], 1);
        assignment[plan->slice_labels[i]] = slice % extent;
        slice /= extent;
    }
    return on_diagonal;
}

/* The gradient of a scalar: along one assignment, that of the sliced labels being known. */
static tensum_status trace(ts_cuda_workspace *workspace, int64_t slice, ts_cu_stream stream)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = workspace->program;
    const tensum_plan *plan = program->plan;
    ts_cuda_device *device = program->device;
    int32_t labels = plan->network->label_count;
    ts_cuda_refresh p;

    /* The labels to start from travel in launches, as pointers do. */
    for (int32_t first = 0; first < labels; first += TS_CUDA_REFRESH_VALUES) {
        void *parameters[1] = {&p};
        p.table = workspace->memory + program->decode_offset;
        p.first = first;
        p.count = (int32_t)ts_min64(labels - first, TS_CUDA_REFRESH_VALUES);
        memset(p.values, 0, (size_t)p.count * sizeof *p.values);
        for (int64_t i = plan->slice_label_count - 1, rest = slice; i >= 0; i--) {
            int64_t extent = plan->network->label_extents[plan->slice_labels[i]];
            if (plan->slice_labels[i] >= first && plan->slice_labels[i] < first + p.count) {
                p.values[plan->slice_labels[i] - first] = (uint64_t)(rest % extent);
            }
            rest /= extent;
        }
        TRY(ts_cuda_result(device,
                           device->driver->launch(program->common.functions[TS_CUDA_KERNEL_REFRESH], 1, 1, 1,
                                                  TS_CUDA_THREADS, 1, 1, 0, stream, parameters, NULL),
                           "cuLaunchKernel"));
        TS_CUDA_COUNT(device, launches, 1);
    }
    /* The whole gradients are written, slice or not. */
    for (int64_t i = 0; i < program->input_count; i++) {
        int32_t port = ts_cuda_port_gradient(program, i);
        if (workspace->made.where[port] == TS_CUDA_ON_DEVICE) {
            workspace->slots[port] = workspace->base[port];
        } else if (workspace->made.where[port] == TS_CUDA_ON_HOST) {
            workspace->slots[port] = workspace->stage_device + (uint64_t)workspace->stage_offset[port];
        }
    }
    TRY(refresh(workspace, false, stream));
    TRY(launch_phases(workspace, 1u << TS_CUDA_PHASE_BACKWARD, stream));
done:
    return status;
}

/* Make the list anew for another number of positions to be decoded together. */
static tensum_status prepare_rows(ts_cuda_workspace *workspace, int64_t rows, ts_cu_stream stream)
{
    const ts_cuda_program *program = workspace->program;
    ts_cuda_signature *made = &workspace->made, *next = &workspace->next;
    int64_t *strides = next->strides;
    uint8_t *where = next->where;

    if (rows == made->positions) {
        return TENSUM_OK;
    }
    memcpy(strides, made->strides, (size_t)program->port_modes[program->port_count] * sizeof *strides);
    memcpy(where, made->where, (size_t)program->port_count);
    *next = *made;
    next->strides = strides;
    next->where = where;
    next->positions = rows;
    return ts_cuda_prepare(workspace, stream);
}

/* Decode `rows` positions from number `done` on, whose best term lies in `slice`; its forward pass has been enqueued, and
 * the slots are at it. */
static tensum_status decode_rows(ts_cuda_workspace *workspace, const tensum_run_arguments *arguments, int64_t done,
                                 int64_t rows, int64_t slice, tensum_status *verdict, ts_cu_stream stream)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = workspace->program;
    const tensum_plan *plan = program->plan;
    ts_cuda_device *device = program->device;
    size_t columns = (size_t)plan->network->label_count, row_bytes = columns * sizeof(int64_t);
    int64_t *assignments = (int64_t *)(void *)workspace->decode_host;
    size_t values_at = program->decode_values_offset - program->decode_offset, span = values_at + (size_t)rows * 16;

    TRY(prepare_rows(workspace, rows, stream));
    for (int64_t i = 0; i < rows; i++) {
        int64_t position = arguments->positions != NULL ? arguments->positions[done + i] : done + i;
        (void)start_assignment(plan, position, slice, assignments + (size_t)i * columns);
    }
    if (row_bytes > 0) {
        TRY(ts_cuda_result(device,
                           device->driver->upload(workspace->memory + program->decode_offset, assignments,
                                                  (size_t)rows * row_bytes, stream),
                           "cuMemcpyHtoDAsync"));
        TS_CUDA_COUNT(device, uploads, 1);
        TS_CUDA_COUNT(device, upload_bytes, (size_t)rows * row_bytes);
    }
    TRY(launch_phases(workspace, 1u << TS_CUDA_PHASE_DECODE, stream));
    TRY(ts_cuda_result(device,
                       device->driver->download(workspace->decode_host, workspace->memory + program->decode_offset, span,
                                                stream),
                       "cuMemcpyDtoHAsync"));
    TS_CUDA_COUNT(device, downloads, 1);
    TS_CUDA_COUNT(device, download_bytes, span);
    TRY(ts_cuda_synchronize(device, stream));
    if (row_bytes > 0) {
        memcpy(arguments->assignments + (size_t)done * columns, assignments, (size_t)rows * row_bytes);
    }
    for (int64_t i = 0; i < rows; i++) {
        const unsigned char *value = workspace->decode_host + values_at + (size_t)i * 16;
        int64_t *row = arguments->assignments + (size_t)(done + i) * columns;
        int64_t position = arguments->positions != NULL ? arguments->positions[done + i] : done + i;
        bool nan = ts_is_nan(plan->algebra.dtype, value);
        /* The diagonal element was gathered in place of one beside it. */
        bool beside = !start_assignment(plan, position, slice, assignments + (size_t)i * columns);
        if (beside || nan || ts_is_zero(plan->algebra, value)) {
            *verdict = ts_fail(nan && !beside ? TENSUM_STATUS_NOT_A_NUMBER : TENSUM_STATUS_INFEASIBLE,
                               nan && !beside ? "output element %" PRId64 " is not a number"
                                              : "output element %" PRId64 " is zero of the semiring: no assignment",
                               position);
            for (size_t l = 0; l < columns; l++) {
                row[l] = -1;
            }
        }
    }
done:
    return status;
}

/* Decode all positions. Unsliced: the forward pass has been enqueued. Told apart: the total is there, and so is, in
 * slice_of_host, the slice that each element of it came from. */
static tensum_status decode(ts_cuda_workspace *workspace, const tensum_run_arguments *arguments, ts_cu_stream stream)
{
    tensum_status status = TENSUM_OK, verdict = TENSUM_OK;
    const ts_cuda_program *program = workspace->program;
    bool apart = workspace->made.told_apart;
    int64_t now = -1; /* slice whose intermediates are there */

    for (int64_t i = 0; i < arguments->position_count; i++) {
        int64_t position = arguments->positions != NULL ? arguments->positions[i] : i;
        if (position < 0 || position >= program->output_elements) {
            TRY(ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "position %" PRId64 ": the output has %" PRId64 " elements",
                        position, program->output_elements));
        }
    }
    for (int64_t done = 0; done < arguments->position_count;) {
        int64_t most = ts_min64(arguments->position_count - done, program->decode_rows), rows = most, slice = 0;
        if (apart) {
            const int64_t *positions = arguments->positions;
            slice = workspace->slice_of_host[positions != NULL ? positions[done] : done];
            for (rows = 1; rows < most; rows++) {
                if (workspace->slice_of_host[positions != NULL ? positions[done + rows] : done + rows] != slice) {
                    break;
                }
            }
            slice = ts_max64(slice, 0); /* off a diagonal no slice writes; the value tells */
            place_slots(workspace, slice);
            TRY(refresh(workspace, false, stream));
            if (now != slice && program->plan->slice_total > 0) {
                TRY(launch_phases(workspace, 1u << TS_CUDA_PHASE_SLICE, stream));
                now = slice;
            }
        }
        TRY(decode_rows(workspace, arguments, done, rows, slice, &verdict, stream));
        done += rows;
    }
done:
    return status != TENSUM_OK ? status : verdict;
}

/* Find the total of all slices and who won, then go back to those that matter for the gradients. */
static tensum_status run_apart(ts_cuda_workspace *workspace, const tensum_run_arguments *arguments, ts_cu_stream stream)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = workspace->program;
    ts_cuda_device *device = program->device;
    int64_t total = program->plan->slice_total;
    bool gradient = arguments->gradients != NULL;

    for (int64_t s = 0; s < total; s++) {
        place_slots(workspace, s);
        TRY(refresh(workspace, false, stream));
        TRY(launch_phases(workspace,
                          1u << TS_CUDA_PHASE_SLICE | 1u << TS_CUDA_PHASE_ABSORB | (s == 0 ? 1u << TS_CUDA_PHASE_ONCE : 0u),
                          stream));
    }
    if (arguments->assignments != NULL || (gradient && program->traces)) {
        size_t bytes = (size_t)program->output_elements * sizeof(int64_t);
        if (bytes > 0) {
            TRY(ts_cuda_result(device,
                               device->driver->download(workspace->slice_of_host,
                                                        workspace->memory + program->slice_of_offset, bytes, stream),
                               "cuMemcpyDtoHAsync"));
            TS_CUDA_COUNT(device, downloads, 1);
            TS_CUDA_COUNT(device, download_bytes, bytes);
            TRY(ts_cuda_synchronize(device, stream));
        }
    }
    if (gradient && program->traces && total > 0) {
        place_slots(workspace, ts_max64(workspace->slice_of_host[0], 0));
        TRY(refresh(workspace, false, stream));
        TRY(launch_phases(workspace, 1u << TS_CUDA_PHASE_SLICE, stream));
        TRY(trace(workspace, ts_max64(workspace->slice_of_host[0], 0), stream));
    } else if (gradient) {
        for (int64_t s = 0; s < total; s++) {
            place_slots(workspace, s);
            TRY(refresh(workspace, false, stream));
            TRY(launch_phases(workspace,
                              1u << TS_CUDA_PHASE_SLICE | 1u << TS_CUDA_PHASE_SEED | 1u << TS_CUDA_PHASE_BACKWARD, stream));
        }
    }
done:
    return status;
}

/* All of a run without slices. */
static tensum_status launch_again(ts_cuda_workspace *workspace, ts_cu_stream stream)
{
    tensum_status status = TENSUM_OK;

    TRY(launch_phases(workspace, workspace->again_phases, stream));
    if ((workspace->again_phases >> TS_CUDA_PHASE_GRADIENT_FILL & 1u) != 0 && workspace->program->traces) {
        TRY(trace(workspace, 0, stream));
    }
done:
    return status;
}

/* Does the graph that launch_again() is about to launch do without the pointer table? */
static bool knows_addresses(ts_cuda_workspace *workspace, const tensum_run_arguments *arguments)
{
    const ts_cuda_graph *graph = workspace->uses > 0 && !workspace->capturing && !workspace->program->traces &&
                                         arguments->assignments == NULL
                                     ? ts_cuda_graph_find(workspace, workspace->again_phases)
                                     : NULL;
    return graph != NULL && graph->binding != NULL;
}

/* Is it the tensor that this port was given in the last run, to the last address and stride? */
static bool is_the_same(const ts_cuda_workspace *workspace, int32_t port, const tensum_tensor *tensor, tensum_dtype dtype)
{
    const ts_cuda_program *program = workspace->program;
    const int64_t first = program->port_modes[port], rank = program->port_modes[port + 1] - first;
    const tensum_network *network = program->plan->network;
    const int64_t *extents = network->raw_extents + network->offsets[ts_cuda_port_operand(program, port)];

    if ((uint64_t)(uintptr_t)tensor->data != workspace->base[port] || tensor->dtype != dtype || tensor->rank != rank ||
        tensor->device.kind != TENSUM_CUDA || tensor->device.index != program->device->ordinal ||
        (rank > 0 && tensor->extents == NULL) || (tensor->strides == NULL) != (workspace->again_compact[port] != 0)) {
        return false;
    }
    for (int64_t m = 0; m < rank; m++) {
        if (tensor->extents[m] != extents[m] || (tensor->strides != NULL && tensor->strides[m] != workspace->made.strides[first + m])) {
            return false;
        }
    }
    return true;
}

/* The same of the output, or was there none then as now? */
static bool is_the_same_output(const ts_cuda_workspace *workspace, const tensum_tensor *output, tensum_dtype dtype)
{
    const ts_cuda_program *program = workspace->program;
    const int32_t port = ts_cuda_port_output(program);

    return output != NULL ? workspace->made.where[port] == TS_CUDA_ON_DEVICE && is_the_same(workspace, port, output, dtype)
                          : workspace->made.where[port] == TS_CUDA_UNUSED ||
                                workspace->base[port] == workspace->memory + program->output_offset;
}

/* The same of a tensor that a run may have or not. */
static bool is_there_too(const ts_cuda_workspace *workspace, int32_t port, const tensum_tensor *tensor, tensum_dtype dtype)
{
    const bool there = tensor != NULL && tensor->data != NULL;
    return there == (workspace->made.where[port] == TS_CUDA_ON_DEVICE) && (!there || is_the_same(workspace, port, tensor, dtype));
}

static bool may_run_again(const ts_cuda_workspace *workspace, const tensum_run_arguments *arguments)
{
    const ts_cuda_program *program = workspace->program;
    const tensum_dtype dtype = program->plan->algebra.dtype;
    const bool gradient = arguments->gradients != NULL;

    if (!workspace->again || arguments->size < sizeof *arguments || arguments->inputs == NULL || arguments->assignments != NULL ||
        arguments->accumulate != 0 || arguments->slice_first != 0 || (arguments->slice_count != -1 && arguments->slice_count != 1) ||
        arguments->progress != NULL || arguments->stream != workspace->again_stream || arguments->kept != 0 ||
        gradient != ((workspace->again_phases >> TS_CUDA_PHASE_GRADIENT_FILL & 1u) != 0) ||
        (!gradient && arguments->output == NULL) || !is_the_same_output(workspace, arguments->output, dtype) ||
        !is_there_too(workspace, ts_cuda_port_winners(program), arguments->winners,
                      workspace->made.winner_bytes == 8 ? TENSUM_I64 : TENSUM_I32)) {
        return false;
    }
    for (int32_t p = 0; p < ts_cuda_port_output(program); p++) {
        if (!is_the_same(workspace, p, &arguments->inputs[p], dtype)) {
            return false;
        }
    }
    if (gradient && !is_there_too(workspace, ts_cuda_port_cotangent(program), arguments->cotangent, program->gradient)) {
        return false;
    }
    for (int32_t p = ts_cuda_port_gradient(program, 0); gradient && p < program->port_count; p++) {
        if (!is_there_too(workspace, p, &arguments->gradients[p - ts_cuda_port_gradient(program, 0)], program->gradient)) {
            return false;
        }
    }
    return true;
}

/* A run whose arguments are those of the last one has nothing to validate, to place or to tell the device: one launch of
 * its graph. */
bool ts_cuda_run_again(void *state, const tensum_run_arguments *arguments, tensum_status *status)
{
    ts_cuda_workspace *workspace = state;
    ts_cuda_device *device = workspace->program->device;
    bool capturing;

    if (!may_run_again(workspace, arguments) || atomic_load(&device->lost)) {
        return false;
    }
    *status = ts_cuda_enter(device);
    if (*status != TENSUM_OK) {
        return true;
    }
    capturing = ts_cuda_capturing(device, arguments->stream);
    if (!capturing) {
        *status = launch_again(workspace, arguments->stream);
        workspace->again = *status == TENSUM_OK;
    }
    ts_cuda_leave(device);
    return !capturing;
}

/* What waits cannot be captured, and trying to would break the caller's capture. */
static tensum_status check_captured(const ts_cuda_workspace *workspace, const tensum_run_arguments *arguments)
{
    const ts_cuda_program *program = workspace->program;
    char name[64];

    if (arguments->assignments != NULL) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "a run that is captured cannot decode: assignments are host memory");
    }
    for (int32_t p = 0; p < program->port_count; p++) {
        if (workspace->next.where[p] == TS_CUDA_ON_HOST) {
            return ts_fail(TENSUM_STATUS_UNSUPPORTED, "%s: a run that is captured takes no tensors in host memory",
                           port_name(program, p, name, sizeof name));
        }
    }
    if (program->can_tell_apart && program->traces && arguments->gradients != NULL) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "a run that is captured cannot look for the slice that won");
    }
    return TENSUM_OK;
}

tensum_status ts_cuda_run(struct tensum_program *program, void *compiled, void *state,
                          const tensum_run_arguments *arguments)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_workspace *workspace = state;
    const ts_cuda_program *from = compiled;
    const tensum_plan *plan = from->plan;
    ts_cuda_device *device = from->device;
    ts_cu_stream stream = arguments->stream;
    int64_t first = arguments->slice_first;
    int64_t count = arguments->slice_count < 0 ? plan->slice_total - first : arguments->slice_count;
    bool capturing, combines, gradient = (from->modes & TENSUM_GRADIENT) != 0 && arguments->gradients != NULL;
    double told = ts_seconds();

    (void)program;
    if (atomic_load(&device->lost)) {
        return ts_fail(TENSUM_STATUS_DEVICE, "cuda:%d was lost to an earlier error", (int)device->ordinal);
    }
    TRY(ts_cuda_enter(device));
    capturing = ts_cuda_capturing(device, stream);
    workspace->capturing = capturing;
    workspace->again = false;
    workspace->reads_results = from->saved || arguments->kept != 0;
    status = take_arguments(workspace, arguments);
    if (status != TENSUM_OK) {
        goto leave;
    }
    if (capturing) {
        status = check_captured(workspace, arguments);
        if (status != TENSUM_OK) {
            goto leave;
        }
    }
    /* Slices combine with each other and, where a range of them leaves elements out, with 0. */
    combines = arguments->accumulate != 0 || plan->slice_total != 1 || count != plan->slice_total;
    workspace->next.told_apart = from->can_tell_apart && (arguments->gradients != NULL || arguments->assignments != NULL);
    workspace->next.accumulates = combines && !workspace->next.told_apart;
#define STEP(call)                 \
    do {                           \
        status = (call);           \
        if (status != TENSUM_OK) { \
            goto leave;            \
        }                          \
    } while (0)
    STEP(ts_cuda_stage_layout(workspace, stream));
    STEP(ts_cuda_prepare(workspace, stream));
    STEP(ts_cuda_stage_upload(workspace, arguments, stream));

    place_slots(workspace, 0);
    workspace->slots[from->port_count + TS_CUDA_SLOT_ACCUMULATE] = combines ? 1 : 0;
    memcpy(&workspace->slots[from->port_count + TS_CUDA_SLOT_ONE], from->one, sizeof from->one);
    if (plan->slice_total == 1 && count == 1 && !workspace->made.told_apart) {
        /* All of it at a time: as one graph. */
        const unsigned forward = 1u << TS_CUDA_PHASE_CHECK | (arguments->accumulate == 0 ? 1u << TS_CUDA_PHASE_FILL : 0u) |
                                 1u << TS_CUDA_PHASE_ONCE | 1u << TS_CUDA_PHASE_SLICE;
        workspace->again_phases = (arguments->kept == 0 ? forward : 0u) | (gradient ? 1u << TS_CUDA_PHASE_GRADIENT_FILL : 0u) |
                                  (gradient && !from->traces ? 1u << TS_CUDA_PHASE_BACKWARD : 0u);
        if (!knows_addresses(workspace, arguments)) {
            STEP(refresh(workspace, capturing || !workspace->shown_valid, stream));
        }
        STEP(launch_again(workspace, stream));
        count = 0;
        workspace->again = !capturing && arguments->kept == 0 && arguments->accumulate == 0 && arguments->assignments == NULL &&
                           workspace->stage_inputs == 0 && !waits(workspace, arguments);
        workspace->again_stream = stream;
        goto launched;
    }
    STEP(refresh(workspace, capturing || !workspace->shown_valid, stream));
    STEP(launch_phases(workspace, 1u << TS_CUDA_PHASE_CHECK | (arguments->accumulate == 0 ? 1u << TS_CUDA_PHASE_FILL : 0u) |
                                      (gradient ? 1u << TS_CUDA_PHASE_GRADIENT_FILL : 0u),
                       stream));
    if (workspace->made.told_apart) {
        STEP(run_apart(workspace, arguments, stream));
        count = 0;
    }
    for (int64_t s = 0; s < count; s++) {
        place_slots(workspace, first + s);
        STEP(refresh(workspace, false, stream));
        STEP(launch_phases(workspace, 1u << TS_CUDA_PHASE_SLICE | (s == 0 ? 1u << TS_CUDA_PHASE_ONCE : 0u), stream));
        if (gradient && from->traces) {
            STEP(trace(workspace, first + s, stream));
        } else if (gradient) {
            STEP(launch_phases(workspace, 1u << TS_CUDA_PHASE_BACKWARD, stream));
        }
        workspace->uses += s == 0 && count > 1;
        if (arguments->progress != NULL && ts_seconds() - told >= 0.1) {
            told = ts_seconds();
            if (arguments->progress(arguments->progress_user, "run", (double)(s + 1) / (double)count) != 0) {
                STEP(ts_fail(TENSUM_STATUS_CANCELLED, "cancelled after slice %" PRId64, s));
            }
        }
    }
launched:
    STEP(ts_cuda_stage_download(workspace, arguments, stream));
    if (arguments->assignments != NULL) {
        status = decode(workspace, arguments, stream);
    }
    if (status != TENSUM_OK) {
        goto leave;
    }
    if (waits(workspace, arguments)) {
        STEP(take_verdict(workspace));
    }
    workspace->uses++;
leave:
    workspace->again = workspace->again && status == TENSUM_OK && workspace->uses > 1;
    if (capturing) {
        /* Whoever replays the graph changes the table behind our back. */
        workspace->shown_valid = false;
    }
    ts_cuda_leave(device);
done:
    return status;
}
#undef STEP
