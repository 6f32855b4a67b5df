/* The public calls of the section "cutensor", and of the retirement queue. */
#include "backend/backend.h"
#include "backend/cuda/device.h"

/* Open the device of a call whose `stats` begin with their size (NULL: it has none). */
static tensum_status open_for(tensum_device device, const char *call, const size_t *size, ts_cuda_device **opened)
{
    if (size != NULL && *size < sizeof *size) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s: stats has no size", call);
    }
    if (device.kind != TENSUM_CUDA) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s: device %d of kind %d is not a CUDA device", call,
                       (int)device.index, (int)device.kind);
    }
    return ts_cuda_device_open(device.index, opened);
}

/* Hand a struct out as far as the caller knows it. */
static void hand_out(void *to, const void *from, size_t whole)
{
    size_t size;
    memcpy(&size, to, sizeof size);
    memcpy((char *)to + sizeof size, (const char *)from + sizeof size, (size < whole ? size : whole) - sizeof size);
}

static tensum_status no_stats(const char *call)
{
    return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s: stats is NULL", call);
}

tensum_status tensum_cuda_retirement_stats(tensum_device device, tensum_cuda_retirement *stats)
{
    tensum_status status = TENSUM_OK;
    tensum_cuda_retirement result = TENSUM_CUDA_RETIREMENT_INIT;
    ts_cuda_device *opened;

    if (stats == NULL) {
        return no_stats(__func__);
    }
    TRY(open_for(device, __func__, &stats->size, &opened));
    result.deferred = atomic_load(&opened->counters.retired_deferred);
    result.released = atomic_load(&opened->counters.retired_released);
    result.capacity_waits = atomic_load(&opened->counters.retired_waits);
    result.barriers = atomic_load(&opened->counters.retired_barriers);
    result.leaked = atomic_load(&opened->counters.retired_leaked);
    result.in_flight = atomic_load(&opened->counters.retired_in_flight);
    result.in_flight_peak = atomic_load(&opened->counters.retired_in_flight_peak);
    result.bytes = atomic_load(&opened->counters.retired_bytes);
    result.limit = (uint64_t)ts_cuda_retirement_limit(opened);
    hand_out(stats, &result, sizeof result);
done:
    return status;
}

tensum_status tensum_cuda_retirement_limit(tensum_device device, int32_t blocks)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_device *opened;

    TRY(open_for(device, __func__, NULL, &opened));
    if (blocks < 1 || blocks > TS_CUDA_RETIRED_MOST) {
        TRY(ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s: %d blocks; 1 to %d are possible", __func__, (int)blocks,
                    TS_CUDA_RETIRED_MOST));
    }
    ts_cuda_retirement_set_limit(opened, blocks);
done:
    return status;
}

tensum_status tensum_cutensor_choose(tensum_device device, tensum_cutensor_choice choice)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_device *opened;

    TRY(open_for(device, __func__, NULL, &opened));
    if (choice != TENSUM_CUTENSOR_AUTO && choice != TENSUM_CUTENSOR_NEVER && choice != TENSUM_CUTENSOR_ALWAYS) {
        TRY(ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s: there is no choice %d", __func__, (int)choice));
    }
    atomic_store(&opened->cutensor.choice, (int)choice);
done:
    return status;
}

tensum_status tensum_cutensor_version(int64_t *version)
{
    tensum_status status = TENSUM_OK;
    const ts_cutensor_library *library;

    if (version == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s: version is NULL", __func__);
    }
    TRY(ts_cutensor_open(&library));
    *version = (int64_t)library->version;
done:
    return status;
}

tensum_status tensum_cutensor_cache_stats(tensum_device device, tensum_cutensor_cache *stats)
{
    tensum_status status = TENSUM_OK;
    tensum_cutensor_cache result = TENSUM_CUTENSOR_CACHE_INIT;
    ts_cuda_device *opened;
    ts_cutensor_cache *cache;

    if (stats == NULL) {
        return no_stats(__func__);
    }
    TRY(open_for(device, __func__, &stats->size, &opened));
    cache = &opened->cutensor.cache;
#define TS_CUTENSOR_READ(name) result.name = atomic_load(&cache->name);
    TS_CUTENSOR_CACHE_COUNTERS(TS_CUTENSOR_READ)
#undef TS_CUTENSOR_READ
    (void)pthread_mutex_lock(&cache->mutex);
    result.entries = (uint64_t)cache->entries;
    result.bytes = cache->bytes;
    result.limit = (uint64_t)cache->limit;
    (void)pthread_mutex_unlock(&cache->mutex);
    hand_out(stats, &result, sizeof result);
done:
    return status;
}

tensum_status tensum_cutensor_cache_limit(tensum_device device, int64_t entries)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_device *opened;

    TRY(open_for(device, __func__, NULL, &opened));
    if (entries < 0) {
        TRY(ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s: entries is negative", __func__));
    }
    ts_cutensor_cache_set_limit(opened, entries);
done:
    return status;
}

tensum_status tensum_cutensor_scratch_stats(tensum_device device, tensum_cutensor_scratch *stats)
{
    tensum_status status = TENSUM_OK;
    tensum_cutensor_scratch result = TENSUM_CUTENSOR_SCRATCH_INIT;
    ts_cuda_device *opened;
    ts_cutensor_scratch *scratch;

    if (stats == NULL) {
        return no_stats(__func__);
    }
    TRY(open_for(device, __func__, &stats->size, &opened));
    scratch = &opened->cutensor.scratch;
#define TS_CUTENSOR_READ(name) result.name = atomic_load(&scratch->name);
    TS_CUTENSOR_SCRATCH_COUNTERS(TS_CUTENSOR_READ)
#undef TS_CUTENSOR_READ
    (void)pthread_mutex_lock(&scratch->mutex);
    result.buffers = (uint64_t)scratch->count;
    result.bytes = scratch->bytes;
    result.peak_bytes = scratch->peak_bytes;
    result.limit = scratch->limit;
    (void)pthread_mutex_unlock(&scratch->mutex);
    hand_out(stats, &result, sizeof result);
done:
    return status;
}

tensum_status tensum_cutensor_scratch_limit(tensum_device device, uint64_t bytes)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_device *opened;

    TRY(open_for(device, __func__, NULL, &opened));
    TRY(ts_cuda_enter(opened));
    ts_cutensor_scratch_set_limit(opened, bytes);
    ts_cuda_leave(opened);
done:
    return status;
}

tensum_status tensum_cutensor_clear(tensum_device device)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_device *opened;

    TRY(open_for(device, __func__, NULL, &opened));
    TRY(ts_cuda_enter(opened));
    ts_cutensor_cache_clear(opened);
    ts_cutensor_scratch_clear(opened);
    (void)ts_cuda_drain(opened);
    ts_cuda_events_drop(opened);
    ts_cuda_leave(opened);
done:
    return status;
}
