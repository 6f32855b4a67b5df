/* Status, checked sizes, allocation, clock, random numbers. Depends on nothing but the public status list. */
#ifndef TS_CORE_CORE_H
#define TS_CORE_CORE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tensum/tensum.h>

/* Set this thread's message and return `status`. Formats as printf. */
tensum_status ts_fail(tensum_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Put `prefix: ` in front of this thread's message and return `status`. */
tensum_status ts_fail_prefix(tensum_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Run a call; on failure keep its status in the local `status` and go to the local label `done`. */
#define TRY(call)                      \
    do {                               \
        status = (call);               \
        if (status != TENSUM_OK) {     \
            goto done;                 \
        }                              \
    } while (0)

/* ---- memory: every allocation of the library goes through these ---- */

/* All return OUT_OF_MEMORY with the number of bytes in the message. `what` names the thing, for the message.
 * A count of 0 gives a valid pointer that must be freed all the same. */
tensum_status ts_allocate(size_t count, size_t element_bytes, const char *what, void *pointer_to_pointer);
tensum_status ts_allocate_zero(size_t count, size_t element_bytes, const char *what, void *pointer_to_pointer);
/* Grow (or shrink) *pointer, which keeps its old value on failure. */
tensum_status ts_reallocate(size_t count, size_t element_bytes, const char *what, void *pointer_to_pointer);
/* 128-byte aligned; large blocks are advised to use huge pages. Free with ts_free too. */
tensum_status ts_allocate_aligned(size_t bytes, const char *what, void *pointer_to_pointer);
void ts_free(void *pointer);
/* Hand freed memory that the allocator holds on to back to the system, where it can be asked to. */
void ts_give_back_memory(void);
/* Make room for at least `needed` elements in a growing array. */
tensum_status ts_reserve(size_t needed, size_t element_bytes, const char *what, size_t *capacity,
                         void *pointer_to_pointer);

#ifdef TENSUM_TESTING
/* Test builds only: the n-th allocation from now (1-based) fails, on any thread; 0 turns it off.
 * Returns how many allocations were made since the last call. */
long ts_test_fail_allocation(long n);
/* Test builds only: blocks of more bytes than this are refused; 0 turns it off. */
void ts_test_limit_allocations(size_t bytes);
/* Blocks allocated and not freed. */
long ts_test_live_allocations(void);
#endif

/* ---- checked arithmetic on non-negative sizes ---- */

/* false on overflow; result untouched then. */
static inline bool ts_multiply(int64_t a, int64_t b, int64_t *result)
{
    int64_t value;
    if (__builtin_mul_overflow(a, b, &value)) {
        return false;
    }
    *result = value;
    return true;
}
static inline bool ts_add(int64_t a, int64_t b, int64_t *result)
{
    int64_t value;
    if (__builtin_add_overflow(a, b, &value)) {
        return false;
    }
    *result = value;
    return true;
}
static inline int64_t ts_min64(int64_t a, int64_t b) { return a < b ? a : b; }
/* a >= 0, b > 0 */
static inline int64_t ts_divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
static inline int64_t ts_max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- clock: monotonic seconds ---- */
double ts_seconds(void);

/* ---- random numbers: splitmix64 seeded xoshiro256** (Blackman, Vigna 2018) ---- */
typedef struct ts_random {
    uint64_t state[4];
} ts_random;
void ts_random_seed(ts_random *random, uint64_t seed);
uint64_t ts_random_next(ts_random *random);
/* Uniform in [0, bound), bound > 0, without bias. */
uint64_t ts_random_below(ts_random *random, uint64_t bound);
/* Uniform in [0, 1) with 53 bits. */
double ts_random_unit(ts_random *random);

/* Edit-distance nearest of `count` names to `name`, or NULL if none is near. */
const char *ts_nearest_name(const char *name, const char *const *names, size_t count);

#endif
