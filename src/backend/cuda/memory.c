/* Device memory. Where the driver orders allocations by stream, freeing is an enqueue. Elsewhere a released block waits
 * in the retirement queue until the work before its event is done. */
#include "backend/cuda/device.h"

static void note_held(ts_cuda_device *device, size_t bytes)
{
    TS_CUDA_COUNT(device, allocations, 1);
    TS_CUDA_COUNT(device, held_bytes, bytes);
}

static void note_released(ts_cuda_device *device, size_t bytes)
{
    TS_CUDA_COUNT(device, releases, 1);
    atomic_fetch_sub_explicit(&device->counters.held_bytes, (uint_fast64_t)bytes, memory_order_relaxed);
}

/* ---- retirement; device->mutex is held ---- */

static void give_back_oldest(ts_cuda_device *device)
{
    ts_cuda_retired block = device->retired[0];

    device->retired_count--;
    memmove(device->retired, device->retired + 1, (size_t)device->retired_count * sizeof block);
    device->spare_events[device->spare_event_count++] = block.event;
    atomic_fetch_sub(&device->counters.retired_in_flight, 1);
    atomic_fetch_sub(&device->counters.retired_bytes, (uint_fast64_t)block.bytes);
    if (device->driver->release(block.address) == TS_CU_SUCCESS) {
        TS_CUDA_COUNT(device, retired_released, 1);
        note_released(device, block.bytes);
    } else {
        TS_CUDA_COUNT(device, retired_leaked, 1);
    }
}

static void give_back_finished(ts_cuda_device *device)
{
    while (device->retired_count > 0 && device->driver->event_query(device->retired[0].event) == TS_CU_SUCCESS) {
        give_back_oldest(device);
    }
}

static void give_back_all(ts_cuda_device *device)
{
    while (device->retired_count > 0) {
        ts_cuda_retired block = device->retired[0];
        if (device->driver->event_synchronize(block.event) == TS_CU_SUCCESS) {
            give_back_oldest(device);
            continue;
        }
        /* Nobody knows when the block is free: it is never handed out again. */
        device->retired_count--;
        memmove(device->retired, device->retired + 1, (size_t)device->retired_count * sizeof block);
        (void)device->driver->event_destroy(block.event);
        atomic_fetch_sub(&device->counters.retired_in_flight, 1);
        atomic_fetch_sub(&device->counters.retired_bytes, (uint_fast64_t)block.bytes);
        TS_CUDA_COUNT(device, retired_leaked, 1);
    }
}

static bool take_event(ts_cuda_device *device, ts_cu_event *event)
{
    if (device->spare_event_count > 0) {
        *event = device->spare_events[--device->spare_event_count];
        return true;
    }
    return device->driver->event_create(event, TS_CU_EVENT_NO_TIMING) == TS_CU_SUCCESS;
}

static void retire(ts_cuda_device *device, ts_cu_address address, size_t bytes, ts_cu_stream stream)
{
    ts_cu_event event = NULL;
    uint_fast64_t in_flight;
    bool have_event;

    give_back_finished(device);
    if (device->retired_count == TS_CUDA_RETIRED_LIMIT) {
        TS_CUDA_COUNT(device, retired_waits, 1);
        if (device->driver->event_synchronize(device->retired[0].event) == TS_CU_SUCCESS) {
            give_back_oldest(device);
        } else {
            give_back_all(device);
        }
    }
    have_event = take_event(device, &event);
    if (have_event && device->driver->event_record(event, stream) != TS_CU_SUCCESS) {
        (void)device->driver->event_destroy(event);
        have_event = false;
    }
    if (!have_event) {
        TS_CUDA_COUNT(device, retired_barriers, 1);
        if (device->driver->stream_synchronize(stream) == TS_CU_SUCCESS &&
            device->driver->release(address) == TS_CU_SUCCESS) {
            TS_CUDA_COUNT(device, retired_released, 1);
            note_released(device, bytes);
        } else {
            TS_CUDA_COUNT(device, retired_leaked, 1);
        }
        return;
    }
    device->retired[device->retired_count++] = (ts_cuda_retired){address, bytes, event};
    TS_CUDA_COUNT(device, retired_deferred, 1);
    TS_CUDA_COUNT(device, retired_bytes, bytes);
    in_flight = TS_CUDA_COUNT(device, retired_in_flight, 1) + 1;
    if (in_flight > atomic_load(&device->counters.retired_in_flight_peak)) {
        atomic_store(&device->counters.retired_in_flight_peak, in_flight);
    }
}

void ts_cuda_drain(ts_cuda_device *device)
{
    (void)pthread_mutex_lock(&device->mutex);
    give_back_all(device);
    (void)pthread_mutex_unlock(&device->mutex);
}

/* ---- allocation ---- */

tensum_status ts_cuda_allocate(ts_cuda_device *device, size_t bytes, ts_cu_stream stream, const char *what,
                               ts_cu_address *address)
{
    size_t available = 0, total = 0;
    ts_cu_address found = 0;
    int result;

    if (device->stream_ordered) {
        result = device->driver->allocate_async(&found, bytes, stream);
    } else {
        (void)pthread_mutex_lock(&device->mutex);
        give_back_finished(device);
        result = device->driver->allocate(&found, bytes);
        if (result == TS_CU_OUT_OF_MEMORY && device->retired_count > 0) {
            give_back_all(device);
            result = device->driver->allocate(&found, bytes);
        }
        (void)pthread_mutex_unlock(&device->mutex);
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
    if (!device->stream_ordered) {
        (void)pthread_mutex_lock(&device->mutex);
        retire(device, address, bytes, stream);
        (void)pthread_mutex_unlock(&device->mutex);
        return;
    }
    if (device->driver->release_async(address, stream) == TS_CU_SUCCESS) {
        note_released(device, bytes);
        return;
    }
    /* The stream may be gone; cuMemFree waits for the device by itself. */
    TS_CUDA_COUNT(device, retired_barriers, 1);
    if (device->driver->release(address) == TS_CU_SUCCESS) {
        note_released(device, bytes);
    } else {
        TS_CUDA_COUNT(device, retired_leaked, 1);
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
