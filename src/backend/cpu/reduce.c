/* Reductions of one operand: blocks of results, each over pieces of the sum. */
#include "backend/cpu/cpu.h"

#define KEPT_BLOCK 256
#define SUM_BLOCK 1024
#define LEAST_PART 32768 /* few results of a long sum: terms per part, which threads share */
#define MOST_PARTS 256

typedef struct reduce_job {
    const ts_reduce_spec *spec;
    const ts_cpu_kernel *kernel;
    const uint8_t *a;
    uint8_t *c;
    void *winners;
    ts_mode kept[64], sum[64];
    int32_t kept_count, sum_count;
    size_t element;
    int64_t part, parts; /* terms of a part of the sum; 0: it is not cut */
    uint8_t *results;    /* [parts][kept] */
    int64_t *positions;  /* [parts][kept] winners of parts */
} reduce_job;

/* Walk the operand in memory order: largest strides outermost. */
static void sort_by_a(ts_mode *modes, int32_t count)
{
    for (int32_t i = 1; i < count; i++) {
        const ts_mode mode = modes[i];
        int32_t j = i;
        while (j > 0 && ts_absolute(modes[j - 1].a) < ts_absolute(mode.a)) {
            modes[j] = modes[j - 1];
            j--;
        }
        modes[j] = mode;
    }
}

/* Sums of floating point are added in blocks, which are added in blocks: so their errors grow by the sizes of the blocks
 * and the number of the largest ones (semantics, point 9), not by the number of terms. Parts are blocks above these. */
#define TREE_TERMS 256
enum { TREE_LEVELS = 3 };
typedef struct sum_tree {
    uint8_t levels[TREE_LEVELS][KEPT_BLOCK * 16] __attribute__((aligned(64)));
    int64_t counts[TREE_LEVELS];
} sum_tree;

/* How accumulators are added to each other: as elements of this dtype, if they are to be. */
static const ts_cpu_kernel *tree_kernel(const reduce_job *job)
{
    if (job->spec->algebra.semiring != TENSUM_SUM_PRODUCT) {
        return NULL;
    }
    switch (job->spec->algebra.dtype) {
    case TENSUM_F32:
    case TENSUM_F64:
    case TENSUM_C64:
    case TENSUM_C128: return job->kernel;
    case TENSUM_F16:
    case TENSUM_BF16: return ts_cpu_kernel_find(TENSUM_SUM_PRODUCT, TENSUM_F32);
    default: return NULL; /* exact */
    }
}

/* to[j] += from[j], and `from` starts again. */
static void tree_add(const ts_cpu_kernel *kernel, const void *from, void *to, int32_t count)
{
    int64_t kept[KEPT_BLOCK];
    const int64_t once = 0;
    for (int32_t j = 0; j < count; j++) {
        kept[j] = j;
    }
    const ts_cpu_reduce piece = {.a = from, .kept = kept, .sum = &once, .kept_count = count, .sum_count = 1,
                                 .kept_unit = true, .accumulators = to};
    kernel->reduce(&piece);
}

/* A block of terms has been summed at level 0: pass on what is complete, or all of it. */
static void tree_carry(const ts_cpu_kernel *kernel, sum_tree *tree, int32_t count, bool all)
{
    for (int32_t level = 0; level + 1 < TREE_LEVELS; level++) {
        if (!all && ++tree->counts[level] < (level == 0 ? 1 : TREE_TERMS)) {
            return;
        }
        tree_add(kernel, tree->levels[level], tree->levels[level + 1], count);
        kernel->reduce_start(tree->levels[level], NULL, count);
        tree->counts[level] = 0;
    }
}

/* Results [first, first + count), count at most KEPT_BLOCK, over terms [start, end) into accumulators. */
static void reduce_terms(const reduce_job *job, const int64_t *kept_a, int64_t count, int64_t start, int64_t end,
                         void *accumulators, int64_t *winners)
{
    int64_t sum_a[SUM_BLOCK];
    sum_tree tree;
    const ts_cpu_kernel *adder = end - start > TREE_TERMS ? tree_kernel(job) : NULL;
    ts_cpu_reduce piece = {
        .a = job->a, .kept = kept_a, .kept_count = (int32_t)count, .kept_unit = ts_cpu_unit(kept_a, count),
        .accumulators = adder != NULL ? tree.levels[0] : accumulators, .winners = winners,
        .modulus = job->spec->algebra.modulus,
    };
    job->kernel->reduce_start(accumulators, winners, (int32_t)count);
    for (int32_t level = 0; adder != NULL && level < TREE_LEVELS; level++) {
        job->kernel->reduce_start(tree.levels[level], NULL, (int32_t)count);
        tree.counts[level] = 0;
    }
    /* Terms of a single mode have the same offsets in every block, from another place on. */
    const bool single = job->sum_count <= 1;
    const int64_t step = job->sum_count == 1 ? job->sum[0].a * (int64_t)job->element : 0;
    for (bool first = true; start < end; start += SUM_BLOCK, first = false) {
        const int64_t length = ts_min64(SUM_BLOCK, end - start);
        if (single) {
            piece.a = job->a + start * step;
        }
        if (first || !single) {
            ts_cpu_offsets(job->sum, job->sum_count, TS_TENSOR_A, single ? 0 : start, length, sum_a);
            piece.sum_unit = ts_cpu_unit(sum_a, length);
        }
        /* Results one by one are summed in several places at once already. */
        const bool by_terms = piece.kept_unit && (count >= 16 || !piece.sum_unit);
        const int64_t block = adder != NULL && by_terms ? TREE_TERMS : SUM_BLOCK;
        for (int64_t at = 0; at < length; at += block) {
            piece.sum = sum_a + at;
            piece.sum_count = (int32_t)ts_min64(block, length - at);
            piece.first = start + at;
            job->kernel->reduce(&piece);
            if (adder != NULL) {
                tree_carry(adder, &tree, (int32_t)count, false);
            }
        }
    }
    if (adder != NULL) {
        tree_carry(adder, &tree, (int32_t)count, true);
        tree_add(adder, tree.levels[TREE_LEVELS - 1], accumulators, (int32_t)count);
    }
}

/* Write `count` results and their winners. */
static void put_results(const reduce_job *job, int64_t first, int64_t count, const void *accumulators, int64_t *winners)
{
    const ts_reduce_spec *spec = job->spec;
    int64_t kept_c[KEPT_BLOCK], kept_w[KEPT_BLOCK];
    ts_cpu_offsets(job->kept, job->kept_count, TS_TENSOR_C, first, count, kept_c);
    const ts_cpu_store store = {.c = job->c, .columns = kept_c, .column_count = (int32_t)count,
                                .accumulate = spec->accumulate, .modulus = spec->algebra.modulus, .winners = winners};
    job->kernel->reduce_store(&store, accumulators);
    if (winners == NULL) {
        return;
    }
    ts_cpu_offsets(job->kept, job->kept_count, TS_TENSOR_W, first, count, kept_w);
    for (int64_t j = 0; j < count; j++) {
        const int64_t winner = job->parts > 0 ? job->positions[winners[j] * count + j] : winners[j];
        if (spec->winner_bytes == 4) {
            ((int32_t *)job->winners)[kept_w[j]] = (int32_t)winner;
        } else {
            ((int64_t *)job->winners)[kept_w[j]] = winner;
        }
    }
}

static void reduce_block(void *argument, int64_t index, int32_t worker)
{
    const reduce_job *job = argument;
    const ts_reduce_spec *spec = job->spec;
    const int64_t first = index * KEPT_BLOCK, count = ts_min64(KEPT_BLOCK, spec->kept - first);
    int64_t kept_a[KEPT_BLOCK], winners[KEPT_BLOCK];
    uint8_t accumulators[KEPT_BLOCK * 16] __attribute__((aligned(64)));
    (void)worker;
    ts_cpu_offsets(job->kept, job->kept_count, TS_TENSOR_A, first, count, kept_a);
    reduce_terms(job, kept_a, count, 0, spec->sum, accumulators, spec->winner_bytes != 0 ? winners : NULL);
    put_results(job, first, count, accumulators, spec->winner_bytes != 0 ? winners : NULL);
}

/* One part of the sum into a row of `results`. */
static void reduce_part(void *argument, int64_t index, int32_t worker)
{
    const reduce_job *job = argument;
    const ts_reduce_spec *spec = job->spec;
    const int64_t count = spec->kept, start = index * job->part;
    int64_t kept_a[KEPT_BLOCK], *winners = spec->winner_bytes != 0 ? job->positions + index * count : NULL;
    uint8_t accumulators[KEPT_BLOCK * 16] __attribute__((aligned(64)));
    (void)worker;
    ts_cpu_offsets(job->kept, job->kept_count, TS_TENSOR_A, 0, count, kept_a);
    reduce_terms(job, kept_a, count, start, ts_min64(start + job->part, spec->sum), accumulators, winners);
    int64_t columns[KEPT_BLOCK];
    for (int64_t j = 0; j < count; j++) {
        columns[j] = j;
    }
    const ts_cpu_store store = {.c = job->results + (size_t)(index * count) * job->element, .columns = columns,
                                .column_count = (int32_t)count, .modulus = spec->algebra.modulus, .winners = winners};
    job->kernel->reduce_store(&store, accumulators);
}

/* The results of parts, in ascending order: the sum is cut by sizes alone, so threads do not change it. */
static void reduce_parts(const reduce_job *job)
{
    const ts_reduce_spec *spec = job->spec;
    int64_t kept[KEPT_BLOCK], rows[MOST_PARTS], winners[KEPT_BLOCK];
    uint8_t accumulators[KEPT_BLOCK * 16] __attribute__((aligned(64)));
    for (int64_t j = 0; j < spec->kept; j++) {
        kept[j] = j;
    }
    for (int64_t p = 0; p < job->parts; p++) {
        rows[p] = p * spec->kept;
    }
    const ts_cpu_reduce piece = {
        .a = job->results, .kept = kept, .sum = rows, .kept_count = (int32_t)spec->kept, .sum_count = (int32_t)job->parts,
        .kept_unit = true, .sum_unit = spec->kept == 1, .accumulators = accumulators,
        .winners = spec->winner_bytes != 0 ? winners : NULL, .modulus = spec->algebra.modulus,
    };
    job->kernel->reduce_start(accumulators, piece.winners, piece.kept_count);
    job->kernel->reduce(&piece);
    put_results(job, 0, spec->kept, accumulators, piece.winners);
}

/* Terms per part; 0 where the sum is not cut. Sums of 16-bit floats are not: parts would be rounded. */
static int64_t part_of(const ts_reduce_spec *spec)
{
    const bool rounds = spec->algebra.dtype == TENSUM_F16 || spec->algebra.dtype == TENSUM_BF16;
    if (spec->kept > KEPT_BLOCK || spec->sum < 2 * LEAST_PART || (rounds && !tensum_semiring_selective(spec->algebra.semiring))) {
        return 0;
    }
    return ts_max64(LEAST_PART, (spec->sum + MOST_PARTS - 1) / MOST_PARTS);
}

static size_t results_bytes(const ts_reduce_spec *spec, int64_t parts)
{
    return ((size_t)(parts * spec->kept) * tensum_dtype_bytes(spec->algebra.dtype) + 127) / 128 * 128;
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
    const int64_t part = spec->kept > 0 ? part_of(spec) : 0;
    (void)threads;
    if (part == 0) {
        return 0;
    }
    const int64_t parts = (spec->sum + part - 1) / part;
    return results_bytes(spec, parts) + (spec->winner_bytes != 0 ? (size_t)(parts * spec->kept) * sizeof(int64_t) : 0);
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
    const int64_t part = part_of(spec);
    if (part > 0 && run->scratch_bytes >= ts_cpu_reduce_scratch(spec, 1)) {
        job.part = part;
        job.parts = (spec->sum + part - 1) / part;
        job.results = run->scratch;
        job.positions = (int64_t *)(void *)(job.results + results_bytes(spec, job.parts));
        ts_pool_run(run->pool, job.parts, reduce_part, &job);
        reduce_parts(&job);
        return TENSUM_OK;
    }
    ts_pool_run(run->pool, (spec->kept + KEPT_BLOCK - 1) / KEPT_BLOCK, reduce_block, &job);
    return TENSUM_OK;
}
