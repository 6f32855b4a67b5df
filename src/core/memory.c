#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "core/core.h"

#define ALIGNMENT 128
#define HUGE_PAGE ((size_t)2 << 20)

#ifdef TENSUM_TESTING
static atomic_long allocations_until_failure; /* 0: never */
static atomic_long allocations_made;
static atomic_long blocks_live;
static atomic_size_t largest_block; /* 0: no limit */

long ts_test_fail_allocation(long n)
{
    atomic_store(&allocations_until_failure, n);
    return atomic_exchange(&allocations_made, 0);
}
void ts_test_limit_allocations(size_t bytes) { atomic_store(&largest_block, bytes); }
long ts_test_live_allocations(void) { return atomic_load(&blocks_live); }

static bool refuse(size_t bytes)
{
    size_t limit = atomic_load(&largest_block);
    atomic_fetch_add(&allocations_made, 1);
    if (limit != 0 && bytes > limit) {
        return true;
    }
    if (atomic_load(&allocations_until_failure) == 0) {
        return false;
    }
    return atomic_fetch_sub(&allocations_until_failure, 1) == 1;
}
static void count_block(long change) { atomic_fetch_add(&blocks_live, change); }
#else
static bool refuse(size_t bytes)
{
    (void)bytes;
    return false;
}
static void count_block(long change) { (void)change; }
#endif

static tensum_status out_of_memory(size_t count, size_t element_bytes, const char *what)
{
    return ts_fail(TENSUM_STATUS_OUT_OF_MEMORY, "out of memory: %zu x %zu bytes for %s", count, element_bytes, what);
}

static tensum_status allocate(size_t count, size_t element_bytes, const char *what, bool zero, void *out)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, element_bytes, &bytes) || bytes > (size_t)INT64_MAX / 2 || refuse(bytes)) {
        return out_of_memory(count, element_bytes, what);
    }
    void *pointer = zero ? calloc(1, bytes != 0 ? bytes : 1) : malloc(bytes != 0 ? bytes : 1);
    if (pointer == NULL) {
        return out_of_memory(count, element_bytes, what);
    }
    count_block(1);
    memcpy(out, &pointer, sizeof pointer);
    return TENSUM_OK;
}

tensum_status ts_allocate(size_t count, size_t element_bytes, const char *what, void *pointer_to_pointer)
{
    return allocate(count, element_bytes, what, false, pointer_to_pointer);
}

tensum_status ts_allocate_zero(size_t count, size_t element_bytes, const char *what, void *pointer_to_pointer)
{
    return allocate(count, element_bytes, what, true, pointer_to_pointer);
}

tensum_status ts_reallocate(size_t count, size_t element_bytes, const char *what, void *pointer_to_pointer)
{
    void *old;
    size_t bytes;
    memcpy(&old, pointer_to_pointer, sizeof old);
    if (__builtin_mul_overflow(count, element_bytes, &bytes) || bytes > (size_t)INT64_MAX / 2 || refuse(bytes)) {
        return out_of_memory(count, element_bytes, what);
    }
    void *pointer = realloc(old, bytes != 0 ? bytes : 1);
    if (pointer == NULL) {
        return out_of_memory(count, element_bytes, what);
    }
    if (old == NULL) {
        count_block(1);
    }
    memcpy(pointer_to_pointer, &pointer, sizeof pointer);
    return TENSUM_OK;
}

tensum_status ts_allocate_aligned(size_t bytes, const char *what, void *pointer_to_pointer)
{
    size_t alignment = bytes >= 4 * HUGE_PAGE ? HUGE_PAGE : ALIGNMENT;
    if (bytes > (size_t)INT64_MAX / 2 || refuse(bytes)) {
        return out_of_memory(bytes, 1, what);
    }
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *pointer = aligned_alloc(alignment, rounded != 0 ? rounded : alignment);
    if (pointer == NULL) {
        return out_of_memory(bytes, 1, what);
    }
#ifdef MADV_HUGEPAGE
    if (alignment == HUGE_PAGE) {
        (void)madvise(pointer, rounded, MADV_HUGEPAGE); /* advice only */
    }
#endif
    count_block(1);
    memcpy(pointer_to_pointer, &pointer, sizeof pointer);
    return TENSUM_OK;
}

void ts_free(void *pointer)
{
    if (pointer != NULL) {
        count_block(-1);
        free(pointer);
    }
}

void ts_give_back_memory(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

tensum_status ts_reserve(size_t needed, size_t element_bytes, const char *what, size_t *capacity,
                         void *pointer_to_pointer)
{
    if (needed <= *capacity) {
        return TENSUM_OK;
    }
    size_t wanted = *capacity < 8 ? 16 : *capacity * 2;
    if (wanted < needed) {
        wanted = needed;
    }
    tensum_status status = ts_reallocate(wanted, element_bytes, what, pointer_to_pointer);
    if (status == TENSUM_OK) {
        *capacity = wanted;
    }
    return status;
}
