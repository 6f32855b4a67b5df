/* How fast kernels multiply panels that stay in the first-level cache: to choose between several ways of multiplying,
 * and as the ceiling that benchmarks are held against. */
#include "backend/cpu/cpu.h"

#include <stdatomic.h>
#include <stdlib.h>

#define PANEL_BYTES 8192 /* of the columns; the rows' panel is smaller */
#define CALLS 8
#define CEILING_SECONDS 0.03
#define CHOICE_ROUNDS 5
#define CHOICE_SECONDS 2e-6

double ts_cpu_kernel_rate(const ts_cpu_kernel *kernel, double seconds)
{
    uint8_t a[PANEL_BYTES] __attribute__((aligned(128))), b[PANEL_BYTES] __attribute__((aligned(128)));
    uint8_t accumulators[TS_MAX_ACCUMULATOR_BYTES] __attribute__((aligned(128)));
    const int64_t depth = PANEL_BYTES / (kernel->packed_bytes * kernel->columns);
    const double pairs = (double)CALLS * (double)(depth * kernel->words) * kernel->rows * kernel->columns;
    const double begin = ts_seconds();
    double best = 0, now = begin;
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    kernel->start(accumulators);
    do { /* the best of many short runs: interruptions only slow down */
        for (int i = 0; i < CALLS; i++) {
            kernel->multiply(depth, a, b, accumulators);
        }
        const double after = ts_seconds();
        const double rate = after > now ? pairs / (after - now) : 0;
        best = rate > best ? rate : best;
        now = after;
    } while (now - begin < seconds);
    return best;
}

/* Environment TENSUM_CPU_WAY asks for one by name. */
static const ts_cpu_kernel *choose(const ts_cpu_kernel *first)
{
    const char *wanted = getenv("TENSUM_CPU_WAY");
    const ts_cpu_kernel *best = first;
    double rates[4] = {0}, best_rate = 0;
    for (const ts_cpu_kernel *way = first; way != NULL && wanted != NULL; way = way->next) {
        if (strcmp(wanted, way->variant) == 0) {
            return way;
        }
    }
    for (int round = 0; round < CHOICE_ROUNDS; round++) {
        int i = 0;
        for (const ts_cpu_kernel *way = first; way != NULL && i < 4; way = way->next, i++) {
            const double rate = ts_cpu_kernel_rate(way, CHOICE_SECONDS);
            rates[i] = rate > rates[i] ? rate : rates[i];
            if (rates[i] > best_rate) {
                best_rate = rates[i];
                best = way;
            }
        }
    }
    return best;
}

const ts_cpu_kernel *ts_cpu_kernel_fastest(tensum_semiring semiring, tensum_dtype dtype)
{
    /* Caches of answers that never change for a machine; threads that race measure twice and agree well enough. */
    static _Atomic(const ts_cpu_kernel *) chosen[TENSUM_SEMIRING_COUNT][TENSUM_DTYPE_COUNT];
    const ts_cpu_kernel *first = ts_cpu_kernel_find(semiring, dtype);
    if (first == NULL || first->next == NULL) {
        return first;
    }
    const ts_cpu_kernel *way = atomic_load_explicit(&chosen[semiring][dtype], memory_order_relaxed);
    if (way == NULL) {
        way = choose(first);
        atomic_store_explicit(&chosen[semiring][dtype], way, memory_order_relaxed);
    }
    return way;
}

tensum_status tensum_bench_ceiling(tensum_semiring semiring, tensum_dtype dtype, double *pairs_per_second)
{
    tensum_status status = TENSUM_OK;
    if (pairs_per_second == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_bench_ceiling: pairs_per_second is NULL");
    }
    TRY(ts_pair_check(semiring, dtype));
    double best = 0;
    for (const ts_cpu_kernel *way = ts_cpu_kernel_find(semiring, dtype); way != NULL; way = way->next) {
        const double rate = ts_cpu_kernel_rate(way, CEILING_SECONDS);
        best = rate > best ? rate : best;
    }
    *pairs_per_second = best;
done:
    return status;
}
