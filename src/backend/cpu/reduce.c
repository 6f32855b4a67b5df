/* Reductions of one operand: blocks of results, each over pieces of the sum. */
#include "backend/cpu/cpu.h"

#define KEPT_BLOCK 256
#define SUM_BLOCK 1024

typedef struct reduce_job {
    const ts_reduce_spec *spec;
    const ts_cpu_kernel *kernel;
    const uint8_t *a;
    uint8_t *c;
    void *winners;
    ts_mode kept[64], sum[64];
    int32_t kept_count, sum_count;
    size_t element;
} reduce_job;

static int64_t absolute(int64_t x) { return x < 0 ? -x : x; }

/* Walk the operand in memory order: largest strides outermost. */
static void sort_by_a(ts_mode *modes, int32_t count)
{
    for (int32_t i = 1; i < count; i++) {
        const ts_mode mode = modes[i];
        int32_t j = i;
        while (j > 0 && absolute(modes[j - 1].a) < absolute(mode.a)) {
            modes[j] = modes[j - 1];
            j--;
        }
        modes[j] = mode;
    }
}

static void reduce_block(void *argument, int64_t index, int32_t worker)
{
    const reduce_job *job = argument;
    const ts_reduce_spec *spec = job->spec;
    const int64_t first = index * KEPT_BLOCK, count = ts_min64(KEPT_BLOCK, spec->kept - first);
    int64_t kept_a[KEPT_BLOCK], kept_c[KEPT_BLOCK], kept_w[KEPT_BLOCK], winners[KEPT_BLOCK], sum_a[SUM_BLOCK];
    uint8_t accumulators[KEPT_BLOCK * 16] __attribute__((aligned(64)));
    (void)worker;
    ts_cpu_offsets(job->kept, job->kept_count, TS_TENSOR_A, first, count, kept_a);
    ts_cpu_offsets(job->kept, job->kept_count, TS_TENSOR_C, first, count, kept_c);
    ts_cpu_reduce piece = {
        .a = job->a, .kept = kept_a, .sum = sum_a, .kept_count = (int32_t)count, .kept_unit = ts_cpu_unit(kept_a, count),
        .accumulators = accumulators, .winners = spec->winner_bytes != 0 ? winners : NULL,
        .modulus = spec->algebra.modulus,
    };
    job->kernel->reduce_start(accumulators, piece.winners, (int32_t)count);
    for (int64_t start = 0; start < spec->sum; start += SUM_BLOCK) {
        const int64_t length = ts_min64(SUM_BLOCK, spec->sum - start);
        ts_cpu_offsets(job->sum, job->sum_count, TS_TENSOR_A, start, length, sum_a);
        piece.sum_count = (int32_t)length;
        piece.sum_unit = ts_cpu_unit(sum_a, length);
        piece.first = start;
        job->kernel->reduce(&piece);
    }
    const ts_cpu_store store = {.c = job->c, .columns = kept_c, .column_count = (int32_t)count,
                                .accumulate = spec->accumulate, .modulus = spec->algebra.modulus, .winners = piece.winners};
    job->kernel->reduce_store(&store, accumulators);
    if (spec->winner_bytes != 0) {
        ts_cpu_offsets(job->kept, job->kept_count, TS_TENSOR_W, first, count, kept_w);
        for (int64_t j = 0; j < count; j++) {
            if (spec->winner_bytes == 4) {
                ((int32_t *)job->winners)[kept_w[j]] = (int32_t)winners[j];
            } else {
                ((int64_t *)job->winners)[kept_w[j]] = winners[j];
            }
        }
    }
}

static void fill_winners(const ts_reduce_spec *spec, int64_t winner, void *winners, const ts_run *run)
{
    ts_mode modes[64];
    for (int32_t m = 0; m < spec->kept_count; m++) {
        modes[m] = spec->modes[m];
        modes[m].c = modes[m].w;
    }
    const int32_t narrow = (int32_t)winner;
    ts_cpu_fill(modes, spec->kept_count, spec->winner_bytes, spec->winner_bytes == 4 ? (const void *)&narrow : &winner,
                winners, run);
}

size_t ts_cpu_reduce_scratch(const ts_reduce_spec *spec, int32_t threads)
{
    (void)spec;
    (void)threads;
    return 0;
}

tensum_status ts_cpu_reduce_step(const ts_reduce_spec *spec, const void *a, void *c, void *winners, const ts_run *run)
{
    const size_t element = tensum_dtype_bytes(spec->algebra.dtype);
    if (spec->kept == 0) {
        return TENSUM_OK;
    }
    if (spec->sum == 0) {
        if (!spec->accumulate) {
            const ts_element zero = ts_identity(spec->algebra, false);
            ts_cpu_fill(spec->modes, spec->kept_count, element, &zero, c, run);
        }
        if (spec->winner_bytes != 0) {
            fill_winners(spec, -1, winners, run);
        }
        return TENSUM_OK;
    }
    if (spec->sum == 1 && !spec->accumulate) {
        ts_cpu_move(spec->modes, spec->kept_count, element, a, c, run->pool);
        if (spec->winner_bytes != 0) {
            fill_winners(spec, 0, winners, run);
        }
        return TENSUM_OK;
    }
    reduce_job job = {.spec = spec, .a = a, .c = c, .winners = winners, .element = element,
               .kernel = ts_cpu_kernel_find(spec->algebra.semiring, spec->algebra.dtype)};
    if (job.kernel == NULL) {
        return ts_pair_check(spec->algebra.semiring, spec->algebra.dtype);
    }
    job.kept_count = spec->kept_count;
    job.sum_count = spec->sum_count;
    memcpy(job.kept, spec->modes, (size_t)spec->kept_count * sizeof *spec->modes);
    memcpy(job.sum, spec->modes + spec->kept_count, (size_t)spec->sum_count * sizeof *spec->modes);
    sort_by_a(job.kept, job.kept_count);
    if (spec->winner_bytes == 0) {
        sort_by_a(job.sum, job.sum_count); /* winners need the canonical order */
    }
    ts_pool_run(run->pool, (spec->kept + KEPT_BLOCK - 1) / KEPT_BLOCK, reduce_block, &job);
    return TENSUM_OK;
}
