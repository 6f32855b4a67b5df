/* The public calls of the section "cuda". */
#include "backend/backend.h"
#include "backend/cuda/program.h"
#include "execute/workspace.h"

tensum_status tensum_device_stats(tensum_device device, tensum_device_counters *counters)
{
    tensum_device_counters result = TENSUM_DEVICE_COUNTERS_INIT;
    tensum_status status = TENSUM_OK;
    ts_cuda_device *opened = NULL;
    size_t size;

    if (counters == NULL || counters->size < sizeof counters->size) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "counters is NULL or has no size");
    }
    size = counters->size;
    if (device.kind == TENSUM_CUDA) {
        TRY(ts_cuda_device_open(device.index, &opened));
#define TS_CUDA_READ(name) result.name = atomic_load(&opened->counters.name);
        TS_CUDA_COUNTERS(TS_CUDA_READ)
#undef TS_CUDA_READ
    } else if (device.index < 0 || device.index >= tensum_device_count(device.kind)) {
        return ts_fail(TENSUM_STATUS_NO_DEVICE, "there is no device of kind %d with index %d", (int)device.kind,
                       (int)device.index);
    }
    memcpy(counters, &result, size < sizeof result ? size : sizeof result);
    counters->size = size;
done:
    return status;
}

tensum_status tensum_synchronize(tensum_device device, void *stream)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_device *opened = NULL;

    if (device.kind != TENSUM_CUDA) {
        return TENSUM_OK;
    }
    TRY(ts_cuda_device_open(device.index, &opened));
    TRY(ts_cuda_enter(opened));
    status = ts_cuda_synchronize(opened, stream);
    (void)ts_cuda_drain(opened);
    ts_cuda_leave(opened);
done:
    return status;
}

tensum_status tensum_check(tensum_workspace *workspace)
{
    if (workspace == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "the workspace is NULL");
    }
    if (workspace->program->device.kind != TENSUM_CUDA || workspace->state == NULL) {
        return TENSUM_OK; /* such runs report at once */
    }
    return ts_cuda_workspace_check(workspace->state);
}
