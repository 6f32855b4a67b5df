/* The retirement queue: device memory that was given up while work which uses it may still run. Each block waits with an
 * event; it goes back to the driver when the event is done. Nobody waits for a stream, but where no event is to be had.
 *
 * The context is current in every call. Counters: retired_... of the device. */
#ifndef TS_CUDA_RETIRE_H
#define TS_CUDA_RETIRE_H

#include <pthread.h>

#include "backend/cuda/driver.h"

typedef struct ts_cuda_device ts_cuda_device;

typedef struct ts_cuda_retired {
    ts_cu_address address;
    size_t bytes;
    ts_cu_event event;
} ts_cuda_retired;
#define TS_CUDA_RETIRED_LIMIT 16
#define TS_CUDA_RETIRED_MOST 256

typedef struct ts_cuda_retirement {
    pthread_mutex_t mutex; /* guards what follows */
    int32_t limit;         /* most blocks at a time, 1..TS_CUDA_RETIRED_MOST */
    int32_t count;
    ts_cuda_retired blocks[TS_CUDA_RETIRED_MOST]; /* oldest first */
    int32_t spare_count;
    ts_cu_event spare[TS_CUDA_RETIRED_MOST];
    ts_cu_stream stream; /* that finished blocks of stream-ordered memory are freed on; NULL until needed */
} ts_cuda_retirement;

/* The bound is $TENSUM_CUDA_RETIRED, or 16. */
void ts_cuda_retirement_init(ts_cuda_device *device);
/* The bound, for later retirements. */
void ts_cuda_retirement_set_limit(ts_cuda_device *device, int32_t limit);
int32_t ts_cuda_retirement_limit(ts_cuda_device *device);

/* Give up a block that `stream` may still use. */
void ts_cuda_retire(ts_cuda_device *device, ts_cu_address address, size_t bytes, ts_cu_stream stream);
/* The same where an event tells when the block is free; the event goes with it. */
void ts_cuda_retire_after(ts_cuda_device *device, ts_cu_address address, size_t bytes, ts_cu_event event);
/* Give back the blocks that are done, in order; or all, waiting for those in use: false if there was none. */
void ts_cuda_drain_finished(ts_cuda_device *device);
bool ts_cuda_drain(ts_cuda_device *device);

/* Events without timing, from a pool; and what the pool keeps. */
bool ts_cuda_event_take(ts_cuda_device *device, ts_cu_event *event);
void ts_cuda_event_give(ts_cuda_device *device, ts_cu_event event);
void ts_cuda_events_drop(ts_cuda_device *device);

/* A block was given back to the driver. */
void ts_cuda_note_released(ts_cuda_device *device, size_t bytes);

#endif
