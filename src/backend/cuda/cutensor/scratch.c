/* Scratch for single contractions: a buffer per stream, whatever the plan. */
#include "backend/cuda/device.h"

#define COUNT(device, name) atomic_fetch_add_explicit(&(device)->cutensor.scratch.name, 1, memory_order_relaxed)

/* Streams of small contractions should not grow one doubling at a time. */
enum { LEAST_BYTES = 1 << 16 };

/* ---- the mutex is held ---- */

/* Give a buffer's memory up; its place is free then. */
static void retire_buffer(ts_cuda_device *device, ts_cutensor_buffer *buffer)
{
    ts_cutensor_scratch *scratch = &device->cutensor.scratch;

    if (buffer->address != 0) {
        scratch->bytes -= buffer->bytes;
        scratch->count--;
        ts_cuda_retire_after(device, buffer->address, buffer->bytes, buffer->event);
    } else if (buffer->event != NULL) {
        ts_cuda_event_give(device, buffer->event);
    }
    *buffer = (ts_cutensor_buffer){0};
}

/* The place of a stream, or one for it: a free one, or that which was used least recently. NULL: all are checked out. */
static ts_cutensor_buffer *find_place(ts_cuda_device *device, ts_cu_stream stream)
{
    ts_cutensor_scratch *scratch = &device->cutensor.scratch;
    ts_cutensor_buffer *best = NULL;

    for (int i = 0; i < TS_CUTENSOR_MOST_BUFFERS; i++) {
        ts_cutensor_buffer *buffer = &scratch->buffers[i];
        if (buffer->taken && buffer->stream == stream) {
            return buffer;
        }
        if (!buffer->out && (best == NULL || (best->taken && (!buffer->taken || buffer->use < best->use)))) {
            best = buffer;
        }
    }
    if (best != NULL) {
        retire_buffer(device, best);
        best->taken = true;
        best->stream = stream;
    }
    return best;
}

static uint64_t size_for(uint64_t bytes, uint64_t limit)
{
    uint64_t size = LEAST_BYTES;
    while (size < bytes) {
        size *= 2;
    }
    return size < limit ? size : limit;
}

/* Let a buffer hold `bytes`. False: no event can be had, so it cannot be kept. */
static bool grow(ts_cuda_device *device, ts_cutensor_buffer *buffer, ts_cu_stream stream, size_t bytes,
                 tensum_status *status)
{
    ts_cutensor_scratch *scratch = &device->cutensor.scratch;
    size_t size = (size_t)size_for(bytes, scratch->limit);
    ts_cu_address address = 0;
    ts_cu_event event = NULL;

    *status = TENSUM_OK;
    if (!ts_cuda_event_take(device, &event)) {
        return false;
    }
    *status = ts_cuda_allocate(device, size, stream, "scratch of cuTENSOR", &address);
    if (*status != TENSUM_OK) {
        ts_cuda_event_give(device, event);
        return true;
    }
    retire_buffer(device, buffer); /* in use or not, it goes with its event */
    buffer->taken = true;
    buffer->stream = stream;
    buffer->address = address;
    buffer->bytes = size;
    buffer->event = event;
    scratch->count++;
    scratch->bytes += size;
    scratch->peak_bytes = scratch->bytes > scratch->peak_bytes ? scratch->bytes : scratch->peak_bytes;
    COUNT(device, growths);
    return true;
}

/* ---- the calls ---- */

tensum_status ts_cutensor_scratch_take(ts_cuda_device *device, ts_cu_stream stream, size_t bytes,
                                       ts_cutensor_lease *lease)
{
    tensum_status status = TENSUM_OK;
    ts_cutensor_scratch *scratch = &device->cutensor.scratch;
    ts_cutensor_buffer *buffer = NULL;
    bool kept = false;

    *lease = (ts_cutensor_lease){0, bytes, -1};
    COUNT(device, uses);
    (void)pthread_mutex_lock(&scratch->mutex);
    if (bytes <= scratch->limit) {
        buffer = find_place(device, stream);
    }
    if (buffer != NULL && !buffer->out) {
        kept = buffer->bytes >= bytes || grow(device, buffer, stream, bytes, &status);
        if (status == TENSUM_OK && kept) {
            buffer->out = true;
            buffer->use = ++scratch->clock;
            lease->address = buffer->address;
            lease->place = (int32_t)(buffer - scratch->buffers);
        }
    }
    (void)pthread_mutex_unlock(&scratch->mutex);
    if (status == TENSUM_OK && lease->place >= 0 && buffer->recorded) {
        /* Nothing to wait for, unless the handle has come to mean another stream. */
        COUNT(device, waits);
        if (device->driver->stream_wait == NULL ||
            device->driver->stream_wait(stream, buffer->event, 0) != TS_CU_SUCCESS) {
            (void)pthread_mutex_lock(&scratch->mutex);
            buffer->out = false;
            if (buffer->doomed) {
                retire_buffer(device, buffer);
            }
            (void)pthread_mutex_unlock(&scratch->mutex);
            lease->place = -1;
        }
    }
    if (status == TENSUM_OK && lease->place < 0) {
        COUNT(device, temporaries);
        status = ts_cuda_allocate(device, bytes, stream, "temporary scratch of cuTENSOR", &lease->address);
    }
    return status;
}

void ts_cutensor_scratch_give(ts_cuda_device *device, ts_cu_stream stream, const ts_cutensor_lease *lease)
{
    ts_cutensor_scratch *scratch = &device->cutensor.scratch;
    ts_cutensor_buffer *buffer;
    bool lost = false;

    if (lease->place < 0) {
        ts_cuda_release(device, lease->address, lease->bytes, stream);
        return;
    }
    buffer = &scratch->buffers[lease->place];
    buffer->recorded = device->driver->event_record(buffer->event, stream) == TS_CU_SUCCESS;
    if (!buffer->recorded) {
        TS_CUDA_COUNT(device, retired_barriers, 1);
        TS_CUDA_COUNT(device, synchronisations, 1);
        lost = device->driver->stream_synchronize(stream) != TS_CU_SUCCESS;
    }
    (void)pthread_mutex_lock(&scratch->mutex);
    buffer->out = false;
    if (lost) { /* nobody knows when it is free */
        TS_CUDA_COUNT(device, retired_leaked, 1);
        scratch->bytes -= buffer->bytes;
        scratch->count--;
        (void)device->driver->event_destroy(buffer->event);
        *buffer = (ts_cutensor_buffer){0};
    } else if (buffer->doomed) {
        retire_buffer(device, buffer);
    }
    (void)pthread_mutex_unlock(&scratch->mutex);
}

/* Retire what is larger than `most`, now or when it comes back. */
static void shrink(ts_cuda_device *device, uint64_t most)
{
    ts_cutensor_scratch *scratch = &device->cutensor.scratch;

    for (int i = 0; i < TS_CUTENSOR_MOST_BUFFERS; i++) {
        ts_cutensor_buffer *buffer = &scratch->buffers[i];
        if (!buffer->taken || buffer->bytes <= most) {
            continue;
        }
        if (buffer->out) {
            buffer->doomed = true;
        } else {
            retire_buffer(device, buffer);
        }
    }
}

void ts_cutensor_scratch_set_limit(ts_cuda_device *device, uint64_t bytes)
{
    ts_cutensor_scratch *scratch = &device->cutensor.scratch;

    (void)pthread_mutex_lock(&scratch->mutex);
    scratch->limit = bytes;
    shrink(device, bytes);
    (void)pthread_mutex_unlock(&scratch->mutex);
}

void ts_cutensor_scratch_clear(ts_cuda_device *device)
{
    ts_cutensor_scratch *scratch = &device->cutensor.scratch;

    (void)pthread_mutex_lock(&scratch->mutex);
    shrink(device, 0);
    (void)pthread_mutex_unlock(&scratch->mutex);
}
