#include "backend/cuda/cuda.h"

#include <stdio.h>

#include "backend/cuda/nvrtc.h"
#include "backend/cuda/program.h"

static int32_t device_count(void) { return ts_cuda_device_count(); }

/* Where the kernels come from, for people. */
static const char *kernels(void)
{
    size_t source_count = 0;

    if (ts_cuda_image(TS_CUDA_COMMON) != NULL) {
        return "";
    }
    (void)ts_cuda_sources(&source_count);
    return source_count > 0 ? ", kernels by NVRTC when needed" : ", no kernels in this build";
}

static tensum_status device_query(int32_t index, tensum_device_info *info)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_device *device = NULL;
    size_t available = 0, total = 0;

    TRY(ts_cuda_device_open(index, &device));
    TRY(ts_cuda_enter(device));
    status = ts_cuda_result(device, device->driver->memory_info(&available, &total), "cuMemGetInfo");
    ts_cuda_leave(device);
    if (status != TENSUM_OK) {
        return status;
    }
    (void)snprintf(info->name, sizeof info->name, "%s", device->name);
    (void)snprintf(info->driver, sizeof info->driver, "CUDA %d.%d", device->driver->version / 1000,
                   device->driver->version % 1000 / 10);
    (void)snprintf(info->detail, sizeof info->detail, "sm_%d, %u KiB of shared memory per block, %s memory%s",
                   device->capability, (unsigned)(device->shared_limit / 1024),
                   device->stream_ordered ? "stream-ordered" : "plain",
                   kernels());
    info->memory_total = total;
    info->memory_free = available;
    info->units = device->units;
done:
    return status;
}

static unsigned supports(tensum_semiring semiring, tensum_dtype dtype)
{
    return ts_pair_modes(semiring, dtype); /* a build without kernels says so when a program is made */
}

const ts_backend ts_backend_cuda = {
    .name = "cuda",
    .kind = TENSUM_CUDA,
    .device_count = device_count,
    .device_query = device_query,
    .supports = supports,
    .program_create = ts_cuda_program_create,
    .program_destroy = ts_cuda_program_destroy,
    .program_workspace_bytes = ts_cuda_program_workspace_bytes,
    .workspace_create = ts_cuda_workspace_create,
    .workspace_destroy = ts_cuda_workspace_destroy,
    .run = ts_cuda_run,
    .run_again = ts_cuda_run_again,
};
