/* The ceiling that benchmarks are held against: a kernel on panels that stay in the first-level cache. */
#include "backend/cpu/cpu.h"

#define PANEL_BYTES 8192 /* of the columns; the rows' panel is smaller */
#define CALLS 64
#define SECONDS 0.1

tensum_status tensum_bench_ceiling(tensum_semiring semiring, tensum_dtype dtype, double *pairs_per_second)
{
    tensum_status status = TENSUM_OK;
    uint8_t *a = NULL, *b = NULL, *accumulators = NULL;
    if (pairs_per_second == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_bench_ceiling: pairs_per_second is NULL");
    }
    TRY(ts_pair_check(semiring, dtype));
    const ts_cpu_kernel *kernel = ts_cpu_kernel_find(semiring, dtype);
    const int64_t depth = ts_max64(8, PANEL_BYTES / (kernel->packed_bytes * kernel->columns));
    const size_t bytes_a = (size_t)(depth * kernel->rows * kernel->packed_bytes);
    const size_t bytes_b = (size_t)(depth * kernel->columns * kernel->packed_bytes);
    TRY(ts_allocate_aligned(bytes_a, "ceiling", &a));
    TRY(ts_allocate_aligned(bytes_b, "ceiling", &b));
    TRY(ts_allocate_aligned((size_t)(kernel->rows * kernel->columns * kernel->accumulator_bytes), "ceiling", &accumulators));
    memset(a, 0, bytes_a);
    memset(b, 0, bytes_b);
    kernel->start(accumulators);
    const double pairs = (double)CALLS * (double)(depth * kernel->words) * kernel->rows * kernel->columns;
    const double begin = ts_seconds();
    double best = 0;
    for (double now = begin; now - begin < SECONDS;) { /* the best of many short runs: interruptions only slow down */
        for (int i = 0; i < CALLS; i++) {
            kernel->multiply(depth, a, b, accumulators);
        }
        const double after = ts_seconds();
        const double rate = after > now ? pairs / (after - now) : 0;
        best = rate > best ? rate : best;
        now = after;
    }
    *pairs_per_second = best;
done:
    ts_free(a);
    ts_free(b);
    ts_free(accumulators);
    return status;
}
