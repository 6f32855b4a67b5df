#define _GNU_SOURCE
#include "backend/cuda/retire.h"

#include <stdlib.h>

#include "backend/cuda/device.h"

void ts_cuda_retirement_init(ts_cuda_device *device)
{
    const char *text = secure_getenv("TENSUM_CUDA_RETIRED");
    long limit = text != NULL ? strtol(text, NULL, 10) : 0;

    (void)pthread_mutex_init(&device->retirement.mutex, NULL); /* cannot fail for a plain mutex */
    device->retirement.limit =
        limit >= 1 && limit <= TS_CUDA_RETIRED_MOST ? (int32_t)limit : TS_CUDA_RETIRED_LIMIT;
}

void ts_cuda_retirement_set_limit(ts_cuda_device *device, int32_t limit)
{
    (void)pthread_mutex_lock(&device->retirement.mutex);
    device->retirement.limit = limit;
    (void)pthread_mutex_unlock(&device->retirement.mutex);
}

int32_t ts_cuda_retirement_limit(ts_cuda_device *device)
{
    int32_t limit;
    (void)pthread_mutex_lock(&device->retirement.mutex);
    limit = device->retirement.limit;
    (void)pthread_mutex_unlock(&device->retirement.mutex);
    return limit;
}

void ts_cuda_note_released(ts_cuda_device *device, size_t bytes)
{
    TS_CUDA_COUNT(device, releases, 1);
    atomic_fetch_sub_explicit(&device->counters.held_bytes, (uint_fast64_t)bytes, memory_order_relaxed);
}

/* ---- below, the queue's mutex is held ---- */

static bool take_event(ts_cuda_device *device, ts_cu_event *event)
{
    ts_cuda_retirement *queue = &device->retirement;
    if (queue->spare_count > 0) {
        *event = queue->spare[--queue->spare_count];
        return true;
    }
    return device->driver->event_create(event, TS_CU_EVENT_NO_TIMING) == TS_CU_SUCCESS;
}

static void give_event(ts_cuda_device *device, ts_cu_event event)
{
    ts_cuda_retirement *queue = &device->retirement;
    if (queue->spare_count < TS_CUDA_RETIRED_MOST) {
        queue->spare[queue->spare_count++] = event;
    } else {
        (void)device->driver->event_destroy(event);
    }
}

/* Free a block that nothing uses any more. cuMemFree waits for all of the device, even then; so stream-ordered memory is
 * freed on a stream of our own, where nothing else ever runs. */
static int free_block(ts_cuda_device *device, ts_cu_address address)
{
    ts_cuda_retirement *queue = &device->retirement;

    if (device->stream_ordered) {
        if (queue->stream == NULL && device->driver->stream_create != NULL &&
            device->driver->stream_create(&queue->stream, TS_CU_STREAM_NON_BLOCKING) != TS_CU_SUCCESS) {
            queue->stream = NULL;
        }
        if (queue->stream != NULL && device->driver->release_async(address, queue->stream) == TS_CU_SUCCESS) {
            return TS_CU_SUCCESS;
        }
    }
    return device->driver->release(address);
}

static void give_back(ts_cuda_device *device, ts_cu_address address, size_t bytes)
{
    if (free_block(device, address) == TS_CU_SUCCESS) {
        TS_CUDA_COUNT(device, retired_released, 1);
        ts_cuda_note_released(device, bytes);
    } else {
        TS_CUDA_COUNT(device, retired_leaked, 1);
    }
}

static ts_cuda_retired take_oldest(ts_cuda_device *device)
{
    ts_cuda_retirement *queue = &device->retirement;
    ts_cuda_retired block = queue->blocks[0];

    queue->count--;
    memmove(queue->blocks, queue->blocks + 1, (size_t)queue->count * sizeof block);
    atomic_fetch_sub(&device->counters.retired_in_flight, 1);
    atomic_fetch_sub(&device->counters.retired_bytes, (uint_fast64_t)block.bytes);
    return block;
}

static void give_back_finished(ts_cuda_device *device)
{
    ts_cuda_retirement *queue = &device->retirement;
    while (queue->count > 0 && device->driver->event_query(queue->blocks[0].event) == TS_CU_SUCCESS) {
        ts_cuda_retired block = take_oldest(device);
        give_event(device, block.event);
        give_back(device, block.address, block.bytes);
    }
}

static void wait_for_oldest(ts_cuda_device *device)
{
    ts_cuda_retired block = take_oldest(device);

    TS_CUDA_COUNT(device, synchronisations, 1);
    if (device->driver->event_synchronize(block.event) == TS_CU_SUCCESS) {
        give_event(device, block.event);
        give_back(device, block.address, block.bytes);
    } else {
        /* Nobody knows when the block is free: it is never handed out again. */
        (void)device->driver->event_destroy(block.event);
        TS_CUDA_COUNT(device, retired_leaked, 1);
    }
}

static void make_room(ts_cuda_device *device)
{
    ts_cuda_retirement *queue = &device->retirement;

    give_back_finished(device);
    while (queue->count >= queue->limit) {
        TS_CUDA_COUNT(device, retired_waits, 1);
        wait_for_oldest(device);
    }
}

static void enqueue(ts_cuda_device *device, ts_cu_address address, size_t bytes, ts_cu_event event)
{
    ts_cuda_retirement *queue = &device->retirement;
    uint_fast64_t in_flight;

    queue->blocks[queue->count++] = (ts_cuda_retired){address, bytes, event};
    TS_CUDA_COUNT(device, retired_deferred, 1);
    TS_CUDA_COUNT(device, retired_bytes, bytes);
    in_flight = TS_CUDA_COUNT(device, retired_in_flight, 1) + 1;
    if (in_flight > atomic_load(&device->counters.retired_in_flight_peak)) {
        atomic_store(&device->counters.retired_in_flight_peak, in_flight);
    }
}

/* ---- the calls ---- */

void ts_cuda_retire(ts_cuda_device *device, ts_cu_address address, size_t bytes, ts_cu_stream stream)
{
    ts_cu_event event = NULL;
    bool have_event;

    (void)pthread_mutex_lock(&device->retirement.mutex);
    make_room(device);
    have_event = take_event(device, &event);
    if (have_event && device->driver->event_record(event, stream) != TS_CU_SUCCESS) {
        (void)device->driver->event_destroy(event);
        have_event = false;
    }
    if (have_event) {
        enqueue(device, address, bytes, event);
    } else {
        TS_CUDA_COUNT(device, retired_barriers, 1);
        TS_CUDA_COUNT(device, synchronisations, 1);
        if (device->driver->stream_synchronize(stream) == TS_CU_SUCCESS) {
            give_back(device, address, bytes);
        } else {
            TS_CUDA_COUNT(device, retired_leaked, 1);
        }
    }
    (void)pthread_mutex_unlock(&device->retirement.mutex);
}

void ts_cuda_retire_after(ts_cuda_device *device, ts_cu_address address, size_t bytes, ts_cu_event event)
{
    (void)pthread_mutex_lock(&device->retirement.mutex);
    make_room(device);
    enqueue(device, address, bytes, event);
    (void)pthread_mutex_unlock(&device->retirement.mutex);
}

void ts_cuda_drain_finished(ts_cuda_device *device)
{
    (void)pthread_mutex_lock(&device->retirement.mutex);
    give_back_finished(device);
    (void)pthread_mutex_unlock(&device->retirement.mutex);
}

bool ts_cuda_drain(ts_cuda_device *device)
{
    bool any;

    (void)pthread_mutex_lock(&device->retirement.mutex);
    any = device->retirement.count > 0;
    give_back_finished(device);
    while (device->retirement.count > 0) {
        wait_for_oldest(device);
    }
    (void)pthread_mutex_unlock(&device->retirement.mutex);
    return any;
}

bool ts_cuda_event_take(ts_cuda_device *device, ts_cu_event *event)
{
    bool taken;
    (void)pthread_mutex_lock(&device->retirement.mutex);
    taken = take_event(device, event);
    (void)pthread_mutex_unlock(&device->retirement.mutex);
    return taken;
}

void ts_cuda_event_give(ts_cuda_device *device, ts_cu_event event)
{
    (void)pthread_mutex_lock(&device->retirement.mutex);
    give_event(device, event);
    (void)pthread_mutex_unlock(&device->retirement.mutex);
}

void ts_cuda_events_drop(ts_cuda_device *device)
{
    ts_cuda_retirement *queue = &device->retirement;

    (void)pthread_mutex_lock(&queue->mutex);
    while (queue->spare_count > 0) {
        (void)device->driver->event_destroy(queue->spare[--queue->spare_count]);
    }
    (void)pthread_mutex_unlock(&queue->mutex);
}
