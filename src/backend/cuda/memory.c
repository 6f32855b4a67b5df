/* Device memory. Where the driver orders allocations by stream, freeing is an enqueue. Elsewhere a released block waits
 * in the retirement queue until the work before its event is done. */
#include "backend/cuda/device.h"

static void note_held(ts_cuda_device *device, size_t bytes)
{
    TS_CUDA_COUNT(device, allocations, 1);
    TS_CUDA_COUNT(device, held_bytes, bytes);
}

static int take(ts_cuda_device *device, size_t bytes, ts_cu_stream stream, ts_cu_address *address)
{
    return device->stream_ordered ? device->driver->allocate_async(address, bytes, stream)
                                  : device->driver->allocate(address, bytes);
}

tensum_status ts_cuda_allocate(ts_cuda_device *device, size_t bytes, ts_cu_stream stream, const char *what,
                               ts_cu_address *address)
{
    size_t available = 0, total = 0;
    ts_cu_address found = 0;
    int result;

    if (atomic_load(&device->counters.retired_in_flight) > 0) {
        ts_cuda_drain_finished(device);
    }
    result = take(device, bytes, stream, &found);
    if (result == TS_CU_OUT_OF_MEMORY && ts_cuda_drain(device)) {
        result = take(device, bytes, stream, &found);
    }
    if (result == TS_CU_OUT_OF_MEMORY) {
        (void)device->driver->memory_info(&available, &total);
        return ts_fail(TENSUM_STATUS_OUT_OF_MEMORY,
                       "cuda:%d: %zu bytes for %s cannot be had: %zu of %zu are free, %llu are held by this library",
                       (int)device->ordinal, bytes, what, available, total,
                       (unsigned long long)atomic_load(&device->counters.held_bytes));
    }
    if (result != TS_CU_SUCCESS) {
        return ts_cuda_result(device, result, what);
    }
    note_held(device, bytes);
    *address = found;
    return TENSUM_OK;
}

void ts_cuda_release(ts_cuda_device *device, ts_cu_address address, size_t bytes, ts_cu_stream stream)
{
    if (address == 0) {
        return;
    }
    if (device->stream_ordered && device->driver->release_async(address, stream) == TS_CU_SUCCESS) {
        ts_cuda_note_released(device, bytes);
    } else {
        ts_cuda_retire(device, address, bytes, stream);
    }
}

tensum_status ts_cuda_allocate_host(ts_cuda_device *device, size_t bytes, const char *what, void *pointer_to_pointer,
                                    ts_cu_address *mapped)
{
    tensum_status status = TENSUM_OK;
    void *pointer = NULL;
    ts_cu_address address = 0;

    TRY(ts_cuda_result(device, device->driver->host_allocate(&pointer, bytes, TS_CU_HOST_PORTABLE | TS_CU_HOST_MAPPED),
                      what));
    if (mapped != NULL) {
        TRY(ts_cuda_result(device, device->driver->host_address(&address, pointer, 0), what));
        *mapped = address;
    }
    memcpy(pointer_to_pointer, &pointer, sizeof pointer);
    pointer = NULL;
done:
    ts_cuda_release_host(device, pointer);
    return status;
}

void ts_cuda_release_host(ts_cuda_device *device, void *pointer)
{
    if (pointer != NULL) {
        (void)device->driver->host_release(pointer);
    }
}
