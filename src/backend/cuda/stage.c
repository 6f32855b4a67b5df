/* Tensors in host memory: packed into one upload before a run and unpacked from one download after it. */
#include <inttypes.h>

#include "backend/cuda/program.h"

const tensum_tensor *ts_cuda_port_tensor(const ts_cuda_program *program, const tensum_run_arguments *arguments,
                                         int32_t port)
{
    int64_t n = program->input_count;
    const tensum_tensor *tensor = NULL;

    if (port < n) {
        return &arguments->inputs[port];
    }
    if (port == n) {
        return arguments->output;
    }
    if (port == n + 1) {
        return (program->modes & TENSUM_WINNERS) != 0 ? arguments->winners : NULL;
    }
    if ((program->modes & TENSUM_GRADIENT) == 0) {
        return NULL;
    }
    if (port == n + 2) {
        return arguments->cotangent;
    }
    tensor = arguments->gradients != NULL ? &arguments->gradients[port - n - 3] : NULL;
    return tensor != NULL && tensor->data != NULL ? tensor : NULL;
}

static int64_t port_elements(const ts_cuda_program *program, int32_t port)
{
    const tensum_network *network = program->plan->network;
    int64_t operand = ts_cuda_port_operand(program, port), elements = 1;

    for (int64_t m = network->offsets[operand]; m < network->offsets[operand + 1]; m++) {
        elements *= network->raw_extents[m];
    }
    return elements;
}

static size_t port_bytes(const ts_cuda_program *program, int32_t port, uint8_t winner_bytes)
{
    size_t bytes = port == ts_cuda_port_winners(program) ? winner_bytes : ts_cuda_port_element_bytes(program, port);
    return (size_t)port_elements(program, port) * bytes;
}

/* The ports in the order in which they lie in staging memory: what is uploaded, then what may be, then what is not. */
static int32_t staged_port(const ts_cuda_program *program, int32_t index)
{
    int32_t n = (int32_t)program->input_count;
    return index < n                                   ? index
           : index == n                                ? ts_cuda_port_cotangent(program)
           : index == n + 1                            ? ts_cuda_port_output(program)
           : index == n + 2                            ? ts_cuda_port_winners(program)
                                                       : index;
}

static tensum_status wait_for_stage(ts_cuda_workspace *workspace)
{
    ts_cuda_device *device = workspace->program->device;

    if (!workspace->stage_pending) {
        return TENSUM_OK;
    }
    workspace->stage_pending = false;
    TS_CUDA_COUNT(device, synchronisations, 1);
    return ts_cuda_result(device, device->driver->event_synchronize(workspace->stage_event), "cuEventSynchronize");
}

void ts_cuda_stage_free(ts_cuda_workspace *workspace)
{
    ts_cuda_device *device = workspace->program->device;

    (void)wait_for_stage(workspace);
    ts_cuda_release(device, workspace->stage_device, workspace->stage_bytes, workspace->stream);
    ts_cuda_release_host(device, workspace->stage_host);
    if (workspace->stage_event != NULL) {
        (void)device->driver->event_destroy(workspace->stage_event);
    }
    workspace->stage_device = 0;
    workspace->stage_host = NULL;
    workspace->stage_event = NULL;
    workspace->stage_bytes = 0;
}

tensum_status ts_cuda_stage_layout(ts_cuda_workspace *workspace, ts_cu_stream stream)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = workspace->program;
    ts_cuda_device *device = program->device;
    size_t bytes = 0;

    workspace->stage_inputs = 0;
    for (int32_t i = 0; i < program->port_count; i++) {
        int32_t port = staged_port(program, i);
        workspace->stage_offset[port] = -1;
        if (workspace->next.where[port] == TS_CUDA_ON_HOST) {
            workspace->stage_offset[port] = (int64_t)bytes;
            bytes += (port_bytes(program, port, workspace->next.winner_bytes) + 127) / 128 * 128;
        }
        if (i <= (int32_t)program->input_count + (workspace->reads_results ? 2 : 0) ||
            (port == ts_cuda_port_output(program) && workspace->next.accumulates)) {
            workspace->stage_inputs = bytes;
        }
    }
    if (bytes <= workspace->stage_bytes) {
        return TENSUM_OK;
    }
    ts_cuda_stage_free(workspace);
    TRY(ts_cuda_result(device, device->driver->event_create(&workspace->stage_event, TS_CU_EVENT_NO_TIMING),
                       "cuEventCreate"));
    TRY(ts_cuda_allocate_host(device, bytes, "staging memory", &workspace->stage_host, NULL));
    TRY(ts_cuda_allocate(device, bytes, stream, "the staging of host tensors", &workspace->stage_device));
    /* The gaps between tensors travel too. */
    TRY(ts_cuda_result(device, device->driver->set_bytes(workspace->stage_device, 0, bytes, stream), "cuMemsetD8Async"));
    workspace->stage_bytes = bytes;
done:
    if (status != TENSUM_OK) {
        ts_cuda_release(device, workspace->stage_device, bytes, stream);
        ts_cuda_release_host(device, workspace->stage_host);
        workspace->stage_device = 0;
        workspace->stage_host = NULL;
    }
    return status;
}

/* Copy between a strided tensor and its compact row-major form. */
static void move_tensor(const tensum_tensor *tensor, size_t element, unsigned char *compact, bool pack)
{
    int64_t position[64] = {0}, extents[64], steps[64], elements = 1, stride = 1; /* steps in bytes */
    unsigned char *strided = tensor->data;
    int32_t rank = 0;

    for (int32_t m = tensor->rank - 1; m >= 0; m--) { /* innermost first; at most 64 are not of extent 1 */
        if (tensor->extents[m] != 1) {
            extents[rank] = tensor->extents[m];
            steps[rank++] = (tensor->strides != NULL ? tensor->strides[m] : stride) * (int64_t)element;
        }
        stride *= tensor->extents[m];
        elements *= tensor->extents[m];
    }
    if (elements == 0) {
        return;
    }
    if (rank == 0) {
        memcpy(pack ? compact : strided, pack ? strided : compact, element);
        return;
    }
    for (int64_t done = 0; done < elements; done += extents[0]) {
        if (steps[0] == (int64_t)element) {
            memcpy(pack ? compact : strided, pack ? strided : compact, (size_t)extents[0] * element);
        } else {
            for (int64_t i = 0; i < extents[0]; i++) {
                unsigned char *at = strided + i * steps[0], *flat = compact + (size_t)i * element;
                memcpy(pack ? flat : at, pack ? at : flat, element);
            }
        }
        compact += (size_t)extents[0] * element;
        for (int32_t m = 1; m < rank; m++) {
            strided += steps[m];
            if (++position[m] < extents[m]) {
                break;
            }
            strided -= steps[m] * extents[m];
            position[m] = 0;
        }
    }
}

static tensum_status check_packed(const ts_cuda_program *program, int32_t port, const unsigned char *compact)
{
    int64_t elements = port_elements(program, port);
    size_t bytes = ts_cuda_port_element_bytes(program, port);
    char text[96];

    for (int64_t i = 0; i < elements; i++) {
        if (!ts_in_domain(program->plan->algebra, compact + (size_t)i * bytes)) {
            return ts_fail(TENSUM_STATUS_DOMAIN, "operand %d: element %" PRId64 " is %s, outside the domain of %s", port,
                           i, ts_format_element(program->plan->algebra.dtype, compact + (size_t)i * bytes, text, sizeof text),
                           tensum_semiring_name(program->plan->algebra.semiring));
        }
    }
    return TENSUM_OK;
}

tensum_status ts_cuda_stage_upload(ts_cuda_workspace *workspace, const tensum_run_arguments *arguments,
                                   ts_cu_stream stream)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = workspace->program;
    ts_cuda_device *device = program->device;

    if (workspace->stage_inputs == 0) {
        return TENSUM_OK;
    }
    TRY(wait_for_stage(workspace));
    for (int32_t p = 0; p < program->port_count; p++) {
        bool read = p < (int32_t)program->input_count || p == ts_cuda_port_cotangent(program) ||
                    (p == ts_cuda_port_output(program) && (workspace->made.accumulates || workspace->reads_results)) ||
                    (p == ts_cuda_port_winners(program) && workspace->reads_results);
        if (read && workspace->stage_offset[p] >= 0) {
            unsigned char *compact = workspace->stage_host + workspace->stage_offset[p];
            size_t bytes = p == ts_cuda_port_winners(program) ? workspace->made.winner_bytes
                                                              : ts_cuda_port_element_bytes(program, p);
            move_tensor(ts_cuda_port_tensor(program, arguments, p), bytes, compact, true);
            if (program->check_host && p < (int32_t)program->input_count) {
                TRY(check_packed(program, p, compact));
            }
        }
    }
    TRY(ts_cuda_result(device,
                       device->driver->upload(workspace->stage_device, workspace->stage_host, workspace->stage_inputs,
                                              stream),
                       "cuMemcpyHtoDAsync"));
    TS_CUDA_COUNT(device, uploads, 1);
    TS_CUDA_COUNT(device, upload_bytes, workspace->stage_inputs);
    workspace->stage_pending = true;
    TRY(ts_cuda_result(device, device->driver->event_record(workspace->stage_event, stream), "cuEventRecord"));
done:
    return status;
}

/* Is a port written by runs? */
static bool comes_back(const ts_cuda_workspace *workspace, int32_t port)
{
    const int32_t cotangent = ts_cuda_port_cotangent(workspace->program);
    return port > cotangent || (port != cotangent && !workspace->reads_results);
}

tensum_status ts_cuda_stage_download(ts_cuda_workspace *workspace, const tensum_run_arguments *arguments,
                                     ts_cu_stream stream)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = workspace->program;
    ts_cuda_device *device = program->device;
    int64_t first = INT64_MAX, past = 0;

    for (int32_t p = (int32_t)program->input_count; p < program->port_count; p++) {
        if (comes_back(workspace, p) && workspace->stage_offset[p] >= 0) {
            first = ts_min64(first, workspace->stage_offset[p]);
            past = ts_max64(past, workspace->stage_offset[p] +
                                      (int64_t)port_bytes(program, p, workspace->made.winner_bytes));
        }
    }
    if (first >= past) {
        return TENSUM_OK;
    }
    TRY(ts_cuda_result(device,
                       device->driver->download(workspace->stage_host + first,
                                                workspace->stage_device + (uint64_t)first, (size_t)(past - first),
                                                stream),
                       "cuMemcpyDtoHAsync"));
    TS_CUDA_COUNT(device, downloads, 1);
    TS_CUDA_COUNT(device, download_bytes, past - first);
    TRY(ts_cuda_synchronize(device, stream));
    workspace->stage_pending = false;
    for (int32_t p = (int32_t)program->input_count; p < program->port_count; p++) {
        if (comes_back(workspace, p) && workspace->stage_offset[p] >= 0) {
            size_t bytes = p == ts_cuda_port_winners(program) ? workspace->made.winner_bytes
                                                              : ts_cuda_port_element_bytes(program, p);
            move_tensor(ts_cuda_port_tensor(program, arguments, p), bytes,
                        workspace->stage_host + workspace->stage_offset[p], false);
        }
    }
done:
    return status;
}
