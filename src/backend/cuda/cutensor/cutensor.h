/* What a device keeps for cuTENSOR: the handle, the cache of plans, scratch for single contractions, counters. The shape
 * of it, who owns what, and what cannot go wrong: docs/decisions/cutensor.md. */
#ifndef TS_CUTENSOR_H
#define TS_CUTENSOR_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/cuda/cutensor/library.h"
#include "backend/cuda/retire.h"
#include "tensor/spec.h"

/* ---- keys ---- */

enum { TS_CUTENSOR_MOST_MODES = 40, TS_CUTENSOR_BUCKETS = 512 };

/* A stride of 0: the tensor lacks the mode. */
typedef struct ts_cutensor_mode {
    int64_t extent, a, b, c;
} ts_cutensor_mode;

/* All that a plan depends on. No padding, and only the modes in use are looked at, so keys are compared as bytes. */
typedef struct ts_cutensor_key {
    int32_t dtype;      /* ts_ct dtype */
    int32_t compute;    /* bits of the arithmetic: 32 or 64 */
    int32_t preference; /* for workspace */
    int32_t alignment_a, alignment_b, alignment_c; /* bytes, a power of two */
    int32_t conjugate_a, conjugate_b;
    int32_t mode_count;
    int32_t unused; /* 0 */
    ts_cutensor_mode modes[TS_CUTENSOR_MOST_MODES];
} ts_cutensor_key;

/* The key of a contraction whose tensors have these alignments. `swapped`: its a is the contraction's b. False where the
 * library has no such contraction: another algebra, winners, no elements, no sum, strides that are negative or overlap. */
bool ts_cutensor_key_make(const ts_contract_spec *spec, const int32_t alignments[3], ts_cutensor_key *key, bool *swapped);
size_t ts_cutensor_key_bytes(const ts_cutensor_key *key);

/* ---- plans ---- */

typedef struct ts_cutensor_handle {
    atomic_int references; /* the device's and one per plan */
    ts_ct_handle handle;
} ts_cutensor_handle;

typedef struct ts_cutensor_plan {
    atomic_int references;
    ts_cuda_device *device;
    ts_cutensor_handle *handle;
    ts_ct_plan plan;
    uint64_t scratch_bytes;
    bool wide; /* scalars are f64 */
    struct ts_cutensor_plan *next;          /* in its bucket; the cache's lock guards this line and the next */
    struct ts_cutensor_plan *newer, *older; /* by use */
    uint64_t hash;
    ts_cutensor_key key; /* last: only the bytes in use are there */
} ts_cutensor_plan;

#define TS_CUTENSOR_CACHE_COUNTERS(X) X(hits) X(misses) X(evictions) X(failures) X(clears) X(calls)

typedef struct ts_cutensor_cache {
    pthread_mutex_t mutex; /* guards what follows but the counters */
    ts_cutensor_handle *handle;
    ts_cutensor_plan *buckets[TS_CUTENSOR_BUCKETS];
    ts_cutensor_plan *newest, *oldest;
    int64_t entries, limit;
    uint64_t bytes;
#define TS_CUTENSOR_COUNTER(name) atomic_uint_fast64_t name;
    TS_CUTENSOR_CACHE_COUNTERS(TS_CUTENSOR_COUNTER)
#undef TS_CUTENSOR_COUNTER
} ts_cutensor_cache;

/* A plan for the key, from the cache or made now; the caller gets a reference. The context is current. UNSUPPORTED where
 * the library has none. On failure the cache is as it was. */
tensum_status ts_cutensor_plan_find(ts_cuda_device *device, const ts_cutensor_key *key, ts_cutensor_plan **plan);
/* Drop a reference; accepts NULL. Neither waits nor frees device memory. */
void ts_cutensor_plan_release(ts_cutensor_plan *plan);
void ts_cutensor_cache_set_limit(ts_cuda_device *device, int64_t entries);
/* Forget all plans and the handle; what programs hold stays good. */
void ts_cutensor_cache_clear(ts_cuda_device *device);

/* ---- scratch of single contractions ---- */

enum { TS_CUTENSOR_MOST_BUFFERS = 64 };

typedef struct ts_cutensor_buffer {
    ts_cu_stream stream;
    bool taken;    /* this place is in use */
    bool out;      /* checked out: the next line is the holder's alone */
    bool recorded; /* the event has been recorded since the memory was had */
    bool doomed;   /* retire it when it comes back */
    ts_cu_address address;
    size_t bytes;
    ts_cu_event event; /* behind the last use */
    uint64_t use;      /* when, in uses */
} ts_cutensor_buffer;

#define TS_CUTENSOR_SCRATCH_COUNTERS(X) X(uses) X(growths) X(temporaries) X(waits)

typedef struct ts_cutensor_scratch {
    pthread_mutex_t mutex; /* guards what follows but the counters */
    ts_cutensor_buffer buffers[TS_CUTENSOR_MOST_BUFFERS];
    uint64_t limit; /* bytes that a stream may keep */
    uint64_t bytes, peak_bytes; /* kept by all of them */
    int32_t count;
    uint64_t clock;
#define TS_CUTENSOR_COUNTER(name) atomic_uint_fast64_t name;
    TS_CUTENSOR_SCRATCH_COUNTERS(TS_CUTENSOR_COUNTER)
#undef TS_CUTENSOR_COUNTER
} ts_cutensor_scratch;

typedef struct ts_cutensor_lease {
    ts_cu_address address;
    size_t bytes;
    int32_t place; /* -1: a temporary block */
} ts_cutensor_lease;

/* Scratch for work that is enqueued on `stream` before it is given back. */
tensum_status ts_cutensor_scratch_take(ts_cuda_device *device, ts_cu_stream stream, size_t bytes,
                                       ts_cutensor_lease *lease);
void ts_cutensor_scratch_give(ts_cuda_device *device, ts_cu_stream stream, const ts_cutensor_lease *lease);
void ts_cutensor_scratch_set_limit(ts_cuda_device *device, uint64_t bytes);
/* Retire every buffer. */
void ts_cutensor_scratch_clear(ts_cuda_device *device);

/* ---- all of it ---- */

typedef struct ts_cutensor_state {
    atomic_int choice; /* tensum_cutensor_choice */
    ts_cutensor_cache cache;
    ts_cutensor_scratch scratch;
} ts_cutensor_state;

/* Limits and choice from the environment. */
void ts_cutensor_init(ts_cuda_device *device);
/* Is the library likely to be faster than our own kernels? copied: bytes that have to be copied first or after;
 * launched: by the host each time, not by a graph. */
bool ts_cutensor_wins(int capability, tensum_dtype dtype, int64_t batch, int64_t left, int64_t right, int64_t sum,
                      int64_t copied, bool launched);

#endif
