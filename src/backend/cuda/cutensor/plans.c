/* Handles, plans and their cache. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>

#include "backend/cuda/device.h"

#define COUNT(device, name) atomic_fetch_add_explicit(&(device)->cutensor.cache.name, 1, memory_order_relaxed)

static tensum_status check(const ts_cutensor_library *library, ts_ct_status result, const char *what)
{
    tensum_status status = TENSUM_STATUS_DEVICE;
    const char *words = result == TS_CT_SUCCESS ? NULL : library->error_string(result);

    if (result == TS_CT_SUCCESS) {
        return TENSUM_OK;
    }
    if (result == TS_CT_NOT_SUPPORTED || result == TS_CT_INVALID_VALUE || result == TS_CT_ARCH_MISMATCH ||
        result == TS_CT_INSUFFICIENT_WORKSPACE) {
        status = TENSUM_STATUS_UNSUPPORTED;
    } else if (result == TS_CT_ALLOC_FAILED) {
        status = TENSUM_STATUS_OUT_OF_MEMORY;
    }
    return ts_fail(status, "cuTENSOR: %s: %s (%d)", what, words != NULL ? words : "unknown error", result);
}

/* ---- handles ---- */

static void release_handle(ts_cuda_device *device, ts_cutensor_handle *handle)
{
    const ts_cutensor_library *library = NULL;

    if (handle != NULL && atomic_fetch_sub(&handle->references, 1) == 1) {
        if (!atomic_load(&device->lost) && ts_cutensor_open(&library) == TENSUM_OK) {
            (void)library->destroy(handle->handle);
        }
        ts_free(handle);
    }
}

/* The cache's handle, made if need be; its mutex is held. */
static tensum_status have_handle(const ts_cutensor_library *library, ts_cutensor_cache *cache)
{
    tensum_status status = TENSUM_OK;
    ts_cutensor_handle *made = NULL;

    if (cache->handle != NULL) {
        return TENSUM_OK;
    }
    TRY(ts_allocate_zero(1, sizeof *made, "cuTENSOR", &made));
    atomic_init(&made->references, 1);
    TRY(check(library, library->create(&made->handle), "cutensorCreate"));
    cache->handle = made;
    made = NULL;
done:
    ts_free(made);
    return status;
}

/* ---- plans ---- */

/* Describe the tensor whose strides lie at `member` of the key's modes; names [count] are the modes' numbers. */
static tensum_status describe(const ts_cutensor_library *library, ts_ct_handle handle, const ts_cutensor_key *key,
                              size_t member, int32_t alignment, ts_ct_tensor *tensor, int32_t *names)
{
    int64_t extents[TS_CUTENSOR_MOST_MODES], strides[TS_CUTENSOR_MOST_MODES];
    uint32_t count = 0;

    for (int32_t i = 0; i < key->mode_count; i++) {
        int64_t stride;
        memcpy(&stride, (const char *)&key->modes[i] + member, sizeof stride);
        if (stride != 0) {
            extents[count] = key->modes[i].extent;
            strides[count] = stride;
            names[count++] = i;
        }
    }
    return check(library, library->tensor_create(handle, tensor, count, extents, strides, key->dtype, (uint32_t)alignment),
                 "cutensorCreateTensorDescriptor");
}

static tensum_status build(const ts_cutensor_library *library, ts_ct_handle handle, const ts_cutensor_key *key,
                           ts_ct_plan *plan, uint64_t *scratch_bytes)
{
    tensum_status status = TENSUM_OK;
    ts_ct_tensor tensors[3] = {NULL, NULL, NULL};
    ts_ct_operation operation = NULL;
    ts_ct_preference preference = NULL;
    ts_ct_plan made = NULL;
    int32_t names[3][TS_CUTENSOR_MOST_MODES];
    uint64_t limit = 0, needed = 0;

    TRY(describe(library, handle, key, offsetof(ts_cutensor_mode, a), key->alignment_a, &tensors[0], names[0]));
    TRY(describe(library, handle, key, offsetof(ts_cutensor_mode, b), key->alignment_b, &tensors[1], names[1]));
    TRY(describe(library, handle, key, offsetof(ts_cutensor_mode, c), key->alignment_c, &tensors[2], names[2]));
    TRY(check(library,
              library->contraction_create(handle, &operation, tensors[0], names[0],
                                          key->conjugate_a != 0 ? TS_CT_CONJUGATE : TS_CT_IDENTITY, tensors[1], names[1],
                                          key->conjugate_b != 0 ? TS_CT_CONJUGATE : TS_CT_IDENTITY, tensors[2], names[2],
                                          TS_CT_IDENTITY, tensors[2], names[2],
                                          key->compute == 64 ? library->compute_64 : library->compute_32),
              "cutensorCreateContraction"));
    TRY(check(library, library->preference_create(handle, &preference, TS_CT_ALGORITHM_DEFAULT, TS_CT_JIT_NONE),
              "cutensorCreatePlanPreference"));
    TRY(check(library, library->workspace_estimate(handle, operation, preference, key->preference, &limit),
              "cutensorEstimateWorkspaceSize"));
    TRY(check(library, library->plan_create(handle, &made, operation, preference, limit), "cutensorCreatePlan"));
    TRY(check(library, library->plan_attribute(handle, made, TS_CT_REQUIRED_WORKSPACE, &needed, sizeof needed),
              "cutensorPlanGetAttribute"));
    *plan = made;
    *scratch_bytes = needed;
    made = NULL;
done:
    if (made != NULL) {
        (void)library->plan_destroy(made);
    }
    if (preference != NULL) {
        (void)library->preference_destroy(preference);
    }
    if (operation != NULL) {
        (void)library->operation_destroy(operation);
    }
    for (int i = 0; i < 3; i++) {
        if (tensors[i] != NULL) {
            (void)library->tensor_destroy(tensors[i]);
        }
    }
    return status;
}

void ts_cutensor_plan_release(ts_cutensor_plan *plan)
{
    const ts_cutensor_library *library = NULL;

    if (plan == NULL || atomic_fetch_sub(&plan->references, 1) != 1) {
        return;
    }
    if (!atomic_load(&plan->device->lost) && ts_cutensor_open(&library) == TENSUM_OK) {
        bool entered = ts_cuda_enter(plan->device) == TENSUM_OK;
        (void)library->plan_destroy(plan->plan);
        release_handle(plan->device, plan->handle);
        if (entered) {
            ts_cuda_leave(plan->device);
        }
    } else {
        release_handle(plan->device, plan->handle);
    }
    ts_free(plan);
}

/* ---- the cache; its mutex is held ---- */

static uint64_t hash_bytes(const void *from, size_t bytes)
{
    uint64_t hash = 0x9e3779b97f4a7c15u, word;

    for (size_t i = 0; i < bytes; i += sizeof word) { /* keys are made of whole words */
        memcpy(&word, (const char *)from + i, sizeof word);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash;
}

static size_t entry_bytes(const ts_cutensor_plan *plan)
{
    return offsetof(ts_cutensor_plan, key) + ts_cutensor_key_bytes(&plan->key);
}

static void unlink_use(ts_cutensor_cache *cache, ts_cutensor_plan *plan)
{
    *(plan->newer != NULL ? &plan->newer->older : &cache->newest) = plan->older;
    *(plan->older != NULL ? &plan->older->newer : &cache->oldest) = plan->newer;
}

static void link_newest(ts_cutensor_cache *cache, ts_cutensor_plan *plan)
{
    plan->newer = NULL;
    plan->older = cache->newest;
    *(cache->newest != NULL ? &cache->newest->newer : &cache->oldest) = plan;
    cache->newest = plan;
}

/* Take the least recently used entries out until `most` are left; they are chained by `next`. */
static ts_cutensor_plan *take_out(ts_cutensor_cache *cache, int64_t most)
{
    ts_cutensor_plan *out = NULL;

    while (cache->entries > most) {
        ts_cutensor_plan *plan = cache->oldest, **link = &cache->buckets[plan->hash % TS_CUTENSOR_BUCKETS];
        while (*link != plan) {
            link = &(*link)->next;
        }
        *link = plan->next;
        unlink_use(cache, plan);
        cache->entries--;
        cache->bytes -= entry_bytes(plan);
        plan->next = out;
        out = plan;
    }
    return out;
}

/* Release a chain; no lock is held. */
static int64_t release_chain(ts_cutensor_plan *chain)
{
    int64_t count = 0;
    while (chain != NULL) {
        ts_cutensor_plan *next = chain->next;
        ts_cutensor_plan_release(chain);
        chain = next;
        count++;
    }
    return count;
}

static tensum_status make_plan(ts_cuda_device *device, const ts_cutensor_key *key, ts_cutensor_plan **plan)
{
    tensum_status status = TENSUM_OK;
    const ts_cutensor_library *library;
    ts_cutensor_cache *cache = &device->cutensor.cache;
    ts_cutensor_plan *made = NULL;
    size_t bytes = ts_cutensor_key_bytes(key);

    TRY(ts_cutensor_open(&library));
    TRY(have_handle(library, cache));
    TRY(ts_allocate_zero(1, offsetof(ts_cutensor_plan, key) + bytes, "a plan of cuTENSOR", &made));
    memcpy((char *)made + offsetof(ts_cutensor_plan, key), key, bytes);
    TRY(build(library, cache->handle->handle, key, &made->plan, &made->scratch_bytes));
    atomic_init(&made->references, 1);
    made->device = device;
    made->handle = cache->handle;
    atomic_fetch_add(&cache->handle->references, 1);
    made->wide = key->compute == 64;
    *plan = made;
    made = NULL;
done:
    ts_free(made);
    return status;
}

tensum_status ts_cutensor_plan_find(ts_cuda_device *device, const ts_cutensor_key *key, ts_cutensor_plan **plan)
{
    tensum_status status = TENSUM_OK;
    ts_cutensor_cache *cache = &device->cutensor.cache;
    ts_cutensor_plan *found, *out = NULL;
    size_t bytes = ts_cutensor_key_bytes(key);
    uint64_t hash = hash_bytes(key, bytes);

    (void)pthread_mutex_lock(&cache->mutex);
    found = cache->buckets[hash % TS_CUTENSOR_BUCKETS];
    while (found != NULL && (found->hash != hash || ts_cutensor_key_bytes(&found->key) != bytes ||
                             memcmp(&found->key, key, bytes) != 0)) {
        found = found->next;
    }
    if (found != NULL) {
        COUNT(device, hits);
        unlink_use(cache, found);
        link_newest(cache, found);
        atomic_fetch_add(&found->references, 1);
    } else {
        COUNT(device, misses);
        status = make_plan(device, key, &found);
        if (status != TENSUM_OK) {
            COUNT(device, failures);
        } else if (cache->limit > 0) {
            out = take_out(cache, cache->limit - 1);
            found->hash = hash;
            found->next = cache->buckets[hash % TS_CUTENSOR_BUCKETS];
            cache->buckets[hash % TS_CUTENSOR_BUCKETS] = found;
            link_newest(cache, found);
            cache->entries++;
            cache->bytes += entry_bytes(found);
            atomic_fetch_add(&found->references, 1);
        }
    }
    (void)pthread_mutex_unlock(&cache->mutex);
    atomic_fetch_add(&cache->evictions, (uint_fast64_t)release_chain(out));
    if (status == TENSUM_OK) {
        *plan = found;
    }
    return status;
}

void ts_cutensor_cache_set_limit(ts_cuda_device *device, int64_t entries)
{
    ts_cutensor_cache *cache = &device->cutensor.cache;
    ts_cutensor_plan *out;

    (void)pthread_mutex_lock(&cache->mutex);
    cache->limit = entries;
    out = take_out(cache, entries);
    (void)pthread_mutex_unlock(&cache->mutex);
    atomic_fetch_add(&cache->evictions, (uint_fast64_t)release_chain(out));
}

void ts_cutensor_cache_clear(ts_cuda_device *device)
{
    ts_cutensor_cache *cache = &device->cutensor.cache;
    ts_cutensor_plan *out;
    ts_cutensor_handle *handle;

    (void)pthread_mutex_lock(&cache->mutex);
    out = take_out(cache, 0);
    handle = cache->handle;
    cache->handle = NULL;
    (void)pthread_mutex_unlock(&cache->mutex);
    (void)release_chain(out);
    release_handle(device, handle);
    COUNT(device, clears);
}
