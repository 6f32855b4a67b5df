/* Gradients of one operand of a step.
 *
 * A row is what one (batch, here) position of the operand holds: `sum` elements. `here` is the operand's own class,
 * `other` the class that its cotangents are summed over, in canonical order, as a positional tree of blocks of 512
 * (semantics, point 10): level 0 collects a block, level 1 the sums of 512 blocks, and so on. Positions whose winner
 * lies elsewhere contribute exactly nothing and are skipped. */
#include "backend/cpu/cpu.h"
#include "algebra/element.h"

#define ADJOINT_BLOCK 512
#define MOST_OF_A_TASK 16384 /* elements of rows, of the gradient and of the result */
#define GROUP_ROWS 16        /* a cache line of winners */
#define GROUP_SUMS 2048      /* sums of a row, all levels: those of a group stay in cache */
#define AHEAD 2              /* positions whose winners and cotangents are fetched before they are needed */

/* What of a result's cotangent goes to its winner. */
typedef enum winner_rule {
    RULE_ALL,     /* max_plus: the cotangent */
    RULE_FACTOR,  /* max_times: times the other operand's factor */
    RULE_SMALLER, /* max_min: the cotangent, in the operand that holds the smaller factor, and nothing in the other one */
    RULE_SMALLER_OR_TIE,
    RULE_LARGER,
    RULE_LARGER_OR_TIE
} winner_rule;
static inline bool by_factors(winner_rule rule) { return rule >= RULE_SMALLER; }
static inline bool to_smaller(winner_rule rule) { return rule == RULE_SMALLER || rule == RULE_SMALLER_OR_TIE; }
static inline bool to_tie(winner_rule rule) { return rule == RULE_SMALLER_OR_TIE || rule == RULE_LARGER_OR_TIE; }

typedef struct adjoint_job {
    tensum_dtype dtype;
    winner_rule rule;
    bool accumulate;
    uint8_t winner_bytes;
    const void *data_here, *data_other, *c, *winners, *g;
    void *d;
    ts_cpu_tensor here_tensor, other_tensor;
    const ts_mode *batch_modes, *here_modes, *other_modes, *sum_modes;
    int32_t batch_mode_count, here_mode_count, other_mode_count, sum_mode_count;
    int64_t batch, here, other, sum;
    int32_t levels;
    int64_t rows_per_task;
    int64_t *sum_here, *sum_other, *sum_d; /* offsets of the sum, the same for all rows */
    int64_t step_here, step_other;         /* what they ascend by where the sum is one mode */
    bool sum_unit;                         /* those of d ascend by one */
    uint8_t *scratch; /* what workers have of their own, behind those offsets */
    size_t shared_bytes, worker_bytes, sum_here_at, sum_other_at, sum_d_at, level_sums, factors;
} adjoint_job;

/* A block of positions of the summed class: offsets in winners, cotangents and the other operand, from first_* on. */
typedef struct block_offsets {
    int64_t loaded, count; /* loaded: the first position of the tables, -1 for none */
    int64_t first_w, first_g, first_data;
    int64_t w[ADJOINT_BLOCK], g[ADJOINT_BLOCK], data[ADJOINT_BLOCK];
    bool w_unit, g_unit; /* they ascend by one */
} block_offsets;

/* Rows of one batch item that are summed together, and their offsets. `across`: winners of neighbouring rows lie nearer to
 * each other than those of a row or, of one position, neighbouring rows of the gradient than a row's elements. Sums are then [level][sum][GROUP_ROWS], else [row][level][sum]. */
typedef struct row_group {
    int64_t count, here[GROUP_ROWS], w[GROUP_ROWS], g[GROUP_ROWS], d[GROUP_ROWS], batch_other;
    bool across, in_place; /* in_place: sums are the gradient's elements themselves */
    void *levels, *factors; /* factors: [sum][GROUP_ROWS] of the rows, where they decide who attains and `across` */
} row_group;

static double number(tensum_dtype dtype, const void *data, int64_t at)
{
    switch (dtype) {
    case TENSUM_F16: return ts_load_f16(((const uint16_t *)data)[at]);
    case TENSUM_BF16: return ts_load_bf16(((const uint16_t *)data)[at]);
    case TENSUM_F32: return ((const float *)data)[at];
    case TENSUM_F64: return ((const double *)data)[at];
    case TENSUM_I16: return ((const int16_t *)data)[at];
    case TENSUM_I32: return ((const int32_t *)data)[at];
    case TENSUM_I64: return (double)((const int64_t *)data)[at];
    case TENSUM_BOOL: return ((const uint8_t *)data)[at] != 0;
    default: return 0.0; /* dtypes without gradients of this kind */
    }
}

/* Is the factor x, rather than the other operand's y, the product? NaN is. */
static bool attains(const adjoint_job *job, double x, double y)
{
    if (x != x) {
        return y == y || to_tie(job->rule);
    }
    return (to_smaller(job->rule) ? x < y : x > y) || (x == y && to_tie(job->rule));
}

static int64_t distance(const int64_t *offsets)
{
    return offsets[1] > offsets[0] ? offsets[1] - offsets[0] : offsets[0] - offsets[1];
}

/* Of a row, beside its elements. */
static bool few_winners(const adjoint_job *job) { return job->other < job->sum / 8; }

static void load_block(const adjoint_job *job, int64_t first, block_offsets *block)
{
    const int32_t modes = job->other_mode_count;
    const ts_cpu_tensor tensors[3] = {TS_TENSOR_W, TS_TENSOR_G, job->other_tensor};
    int64_t *const tables[3] = {block->w, block->g, block->data};
    int64_t *const starts[3] = {&block->first_w, &block->first_g, &block->first_data};
    block->count = ts_min64(ADJOINT_BLOCK, job->other - first);
    if (block->count == 0) {
        return;
    }
    const bool load = block->loaded < 0 || (modes > 1 && block->loaded != first);
    for (int t = 0; t < 3; t++) {
        *starts[t] = 0;
        if (modes <= 1) { /* the first block's tables serve all */
            ts_cpu_offsets(job->other_modes, modes, tensors[t], first, 1, starts[t]);
        }
        if (load) {
            ts_cpu_offsets(job->other_modes, modes, tensors[t], modes <= 1 ? 0 : first, block->count, tables[t]);
        }
    }
    if (load) {
        block->loaded = first;
        block->w_unit = ts_cpu_unit(block->w, block->count);
        block->g_unit = ts_cpu_unit(block->g, block->count);
    }
}

static __attribute__((noinline)) void copy_winners(const adjoint_job *job, int64_t base, const int64_t *offsets,
                                                   int64_t count, int32_t *to)
{
    for (int64_t i = 0; i < count; i++) {
        to[i] = job->winner_bytes == 4 ? ((const int32_t *)job->winners)[base + offsets[i]]
                                       : (int32_t)((const int64_t *)job->winners)[base + offsets[i]];
    }
}

#define TS_G float
#include "backend/cpu/adjoint.inc"
#define TS_G double
#include "backend/cpu/adjoint.inc"

static int32_t tree_levels(int64_t positions)
{
    int32_t levels = 1;
    while (positions > ADJOINT_BLOCK) {
        positions = (positions + ADJOINT_BLOCK - 1) / ADJOINT_BLOCK;
        levels++;
    }
    return levels;
}

static size_t take(size_t *bytes, int64_t count, size_t element)
{
    size_t at = *bytes;
    *bytes = (at + (size_t)count * element + 127) & ~(size_t)127;
    return at;
}

/* Are sums of a group kept? */
static bool sums_fit(const adjoint_job *job) { return job->sum * job->levels <= GROUP_SUMS; }

static void lay_out(adjoint_job *job)
{
    size_t shared = 0, worker = 0;
    job->levels = tree_levels(job->other);
    job->sum_here_at = take(&shared, job->sum, 8);
    job->sum_other_at = take(&shared, job->sum, 8);
    job->sum_d_at = take(&shared, job->sum, 8);
    job->shared_bytes = shared;
    job->level_sums = take(&worker, job->sum * job->levels * (sums_fit(job) ? GROUP_ROWS : 1), 8);
    job->factors = take(&worker, sums_fit(job) ? job->sum * GROUP_ROWS : 0, 8);
    job->worker_bytes = worker;
}

/* Tasks are of whole groups where there are rows enough for all threads. */
static int64_t rows_of_a_task(const adjoint_job *job, int32_t threads)
{
    const int64_t rows = job->batch * job->here, share = (rows + threads - 1) / threads;
    const int64_t most = ts_max64(1, MOST_OF_A_TASK / ts_max64(1, job->sum + job->other));
    return most < GROUP_ROWS ? ts_max64(most, ts_min64(GROUP_ROWS, share)) : most / GROUP_ROWS * GROUP_ROWS;
}

static void describe(adjoint_job *job, const ts_adjoint_spec *spec)
{
    const ts_mode *left = spec->modes + spec->batch_count, *right = left + spec->left_count;
    const bool side0 = spec->side == 0;
    job->dtype = spec->algebra.dtype;
    job->batch_modes = spec->modes;
    job->batch_mode_count = spec->batch_count;
    job->here_modes = side0 ? left : right;
    job->here_mode_count = side0 ? spec->left_count : spec->right_count;
    job->other_modes = side0 ? right : left;
    job->other_mode_count = side0 ? spec->right_count : spec->left_count;
    job->sum_modes = right + spec->right_count;
    job->sum_mode_count = spec->sum_count;
    job->batch = spec->batch;
    job->here = side0 ? spec->left : spec->right;
    job->other = side0 ? spec->right : spec->left;
    job->sum = spec->sum;
    job->here_tensor = side0 ? TS_TENSOR_A : TS_TENSOR_B;
    job->other_tensor = side0 ? TS_TENSOR_B : TS_TENSOR_A;
    job->accumulate = spec->accumulate;
    job->winner_bytes = spec->winner_bytes;
    lay_out(job);
}

size_t ts_cpu_adjoint_scratch(const ts_adjoint_spec *spec, int32_t threads)
{
    adjoint_job job = {0};
    if (spec->algebra.semiring == TENSUM_LOG_SUM_EXP) {
        return ts_cpu_share_scratch(spec, threads);
    }
    if (ts_cpu_widens(spec)) {
        return ts_cpu_widen_scratch(spec, threads);
    }
    describe(&job, spec);
    return job.shared_bytes + job.worker_bytes * (size_t)threads;
}

/* Can the gradient's own elements be the sums of a row? */
static bool in_place(const adjoint_job *job) { return job->sum_unit && job->levels == 1 && !job->accumulate; }

/* Can rows go in groups? */
static bool grouped(const adjoint_job *job, bool narrow)
{
    return job->winners != NULL && (sums_fit(job) || in_place(job)) &&
           (job->rule == RULE_ALL || job->dtype == (narrow ? TENSUM_F32 : TENSUM_F64));
}

/* As many rows as go together, `row` the first of them. */
static void load_rows(const adjoint_job *job, int64_t row, int64_t end, const block_offsets *block, row_group *rows)
{
    const int64_t item = row / job->here, at = row % job->here;
    const ts_cpu_tensor tensors[4] = {job->here_tensor, TS_TENSOR_W, TS_TENSOR_G, TS_TENSOR_D};
    int64_t *const offsets[4] = {rows->here, rows->w, rows->g, rows->d};
    rows->count = ts_min64(GROUP_ROWS, ts_min64(end - row, job->here - at));
    for (int t = 0; t < 4; t++) {
        int64_t batch;
        ts_cpu_offsets(job->batch_modes, job->batch_mode_count, tensors[t], item, 1, &batch);
        ts_cpu_offsets(job->here_modes, job->here_mode_count, tensors[t], at, rows->count, offsets[t]);
        for (int64_t k = 0; k < rows->count; k++) {
            offsets[t][k] += batch;
        }
    }
    ts_cpu_offsets(job->batch_modes, job->batch_mode_count, job->other_tensor, item, 1, &rows->batch_other);
    rows->across = sums_fit(job) && rows->count > 1 &&
                   (job->other > 1 ? distance(rows->w) < distance(block->w)
                                   : job->sum > 1 && distance(rows->d) < distance(job->sum_d));
    rows->in_place = !rows->across && in_place(job);
}

static void adjoint_rows(void *argument, int64_t index, int32_t worker)
{
    const adjoint_job *job = argument;
    const bool narrow = tensum_dtype_bytes(tensum_dtype_gradient(job->dtype)) == 4, together = grouped(job, narrow);
    uint8_t *scratch = job->scratch + (size_t)worker * job->worker_bytes;
    const int64_t first = index * job->rows_per_task, end = ts_min64(first + job->rows_per_task, job->batch * job->here);
    block_offsets block;
    row_group rows;
    block.loaded = -1;
    load_block(job, 0, &block);
    rows.levels = scratch + job->level_sums;
    rows.factors = scratch + job->factors;
    if (!together) {
        memset(rows.levels, 0, (size_t)(job->sum * job->levels) * (narrow ? 4 : 8));
    }
    for (int64_t row = first; row < end; row += together ? rows.count : 1) {
        load_rows(job, row, together ? end : row + 1, &block, &rows);
        if (together && narrow) {
            selective_group_float(job, &rows, &block);
        } else if (together) {
            selective_group_double(job, &rows, &block);
        } else if (narrow) {
            selective_row_float(job, &rows, &block);
        } else {
            selective_row_double(job, &rows, &block);
        }
    }
}

/* sum_product of 16-bit floats: every term has its share of the cotangent, the other factor. */
static void product_rows(void *argument, int64_t index, int32_t worker)
{
    const adjoint_job *job = argument;
    const bool narrow = tensum_dtype_bytes(tensum_dtype_gradient(job->dtype)) == 4;
    uint8_t *scratch = job->scratch + (size_t)worker * job->worker_bytes;
    const int64_t *sum_other = job->sum_other, *sum_d = job->sum_d;
    double *sums = (double *)(void *)(scratch + job->level_sums);
    int64_t other_g[ADJOINT_BLOCK], other_data[ADJOINT_BLOCK];
    const int64_t first = index * job->rows_per_task, end = ts_min64(first + job->rows_per_task, job->batch * job->here);

    for (int64_t row = first; row < end; row++) {
        const int64_t item = row / job->here, at = row % job->here;
        const ts_cpu_tensor tensors[4] = {job->here_tensor, TS_TENSOR_C, TS_TENSOR_G, TS_TENSOR_D};
        int64_t batch[5], here[4];
        for (int t = 0; t < 4; t++) {
            ts_cpu_offsets(job->batch_modes, job->batch_mode_count, tensors[t], item, 1, &batch[t]);
            ts_cpu_offsets(job->here_modes, job->here_mode_count, tensors[t], at, 1, &here[t]);
            batch[t] += here[t];
        }
        ts_cpu_offsets(job->batch_modes, job->batch_mode_count, job->other_tensor, item, 1, &batch[4]);
        memset(sums, 0, (size_t)job->sum * sizeof *sums);
        for (int64_t start = 0; start < job->other; start += ADJOINT_BLOCK) {
            const int64_t count = ts_min64(ADJOINT_BLOCK, job->other - start);
            ts_cpu_offsets(job->other_modes, job->other_mode_count, TS_TENSOR_G, start, count, other_g);
            ts_cpu_offsets(job->other_modes, job->other_mode_count, job->other_tensor, start, count, other_data);
            for (int64_t r = 0; r < count; r++) {
                const int64_t at_g = batch[2] + other_g[r];
                const double g = narrow ? ((const float *)job->g)[at_g] : ((const double *)job->g)[at_g];
                for (int64_t s = 0; s < job->sum; s++) {
                    const double b = number(job->dtype, job->data_other, batch[4] + other_data[r] + sum_other[s]);
                    sums[s] += g * b;
                }
            }
        }
        for (int64_t s = 0; s < job->sum; s++) {
            const int64_t at_d = batch[3] + sum_d[s];
            if (narrow) {
                float *d = (float *)job->d + at_d;
                *d = (job->accumulate ? *d : 0.0f) + (float)sums[s];
            } else {
                double *d = (double *)job->d + at_d;
                *d = (job->accumulate ? *d : 0.0) + sums[s];
            }
        }
    }
}

/* Fill in what all rows share. */
static void share_offsets(adjoint_job *job, uint8_t *scratch)
{
    job->sum_here = (int64_t *)(void *)(scratch + job->sum_here_at);
    job->sum_other = (int64_t *)(void *)(scratch + job->sum_other_at);
    job->sum_d = (int64_t *)(void *)(scratch + job->sum_d_at);
    job->scratch = scratch + job->shared_bytes;
    ts_cpu_offsets(job->sum_modes, job->sum_mode_count, TS_TENSOR_D, 0, job->sum, job->sum_d);
    job->sum_unit = ts_cpu_unit(job->sum_d, job->sum);
    if (job->rule != RULE_ALL) {
        ts_cpu_offsets(job->sum_modes, job->sum_mode_count, job->here_tensor, 0, job->sum, job->sum_here);
        ts_cpu_offsets(job->sum_modes, job->sum_mode_count, job->other_tensor, 0, job->sum, job->sum_other);
        job->step_here = job->sum > 1 ? job->sum_here[1] - job->sum_here[0] : 0;
        job->step_other = job->sum > 1 ? job->sum_other[1] - job->sum_other[0] : 0;
    }
}

tensum_status ts_cpu_adjoint(const ts_adjoint_spec *spec, const void *a, const void *b, const void *c,
                             const void *winners, const void *g, void *d, const ts_run *run)
{
    adjoint_job job = {0};
    if (spec->batch == 0 || spec->sum == 0 || (spec->side == 0 ? spec->left : spec->right) == 0) {
        return TENSUM_OK;
    }
    if (spec->algebra.semiring == TENSUM_LOG_SUM_EXP) {
        return ts_cpu_share(spec, a, b, c, g, d, run);
    }
    if (ts_cpu_widens(spec)) {
        return ts_cpu_widened_adjoint(spec, a, b, c, winners, g, d, run);
    }
    describe(&job, spec);
    job.data_here = spec->side == 0 ? a : b;
    job.data_other = spec->side == 0 ? b : a;
    job.c = c;
    job.winners = winners;
    job.g = g;
    job.d = d;
    const int32_t threads = ts_pool_threads(run->pool);
    const size_t bytes = job.shared_bytes + job.worker_bytes * (size_t)threads;
    if (bytes > run->scratch_bytes) {
        return ts_fail(TENSUM_STATUS_INTERNAL, "an adjoint needs %zu bytes of scratch and has %zu", bytes, run->scratch_bytes);
    }
    ts_task task = adjoint_rows;
    switch (spec->algebra.semiring) {
    case TENSUM_MAX_PLUS:
    case TENSUM_MIN_PLUS:
    case TENSUM_OR_AND: job.rule = RULE_ALL; break;
    case TENSUM_MAX_TIMES:
    case TENSUM_MIN_TIMES: job.rule = RULE_FACTOR; break;
    case TENSUM_MAX_MIN: job.rule = spec->tie_here ? RULE_SMALLER_OR_TIE : RULE_SMALLER; break;
    case TENSUM_MIN_MAX: job.rule = spec->tie_here ? RULE_LARGER_OR_TIE : RULE_LARGER; break;
    case TENSUM_SUM_PRODUCT:
        job.rule = RULE_FACTOR;
        task = product_rows;
        break;
    default:
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "%s has no adjoint step on the CPU",
                       tensum_semiring_name(spec->algebra.semiring));
    }
    share_offsets(&job, run->scratch);
    job.rows_per_task = rows_of_a_task(&job, threads);
    ts_pool_run(run->pool, (job.batch * job.here + job.rows_per_task - 1) / job.rows_per_task, task, &job);
    return TENSUM_OK;
}

/* ---- reductions: no scratch, so levels are kept per element ---- */

typedef struct reduce_adjoint_job {
    const ts_reduce_adjoint_spec *spec;
    const void *a, *c, *winners, *g;
    void *d;
    ts_mode own[64], broadcast[64];
    int32_t own_count, broadcast_count;
    int64_t own_size, broadcast_size;
    int32_t levels;
} reduce_adjoint_job;

/* The cotangent that element s of a row gets from one position of the result. */
static double share(const reduce_adjoint_job *job, int64_t s, int64_t at_w, int64_t at_g, bool narrow)
{
    const double g = narrow ? ((const float *)job->g)[at_g] : ((const double *)job->g)[at_g];
    if (job->winners != NULL) {
        const int64_t w = job->spec->winner_bytes == 4 ? ((const int32_t *)job->winners)[at_w]
                                                       : ((const int64_t *)job->winners)[at_w];
        return w == s ? g : 0.0;
    }
    return g;
}

/* Complex cotangents, which sum_product alone has: every element of a row gets the same sum. */
static void complex_reduce_adjoint_row(void *argument, int64_t row, int32_t worker)
{
    const reduce_adjoint_job *job = argument;
    const ts_reduce_adjoint_spec *spec = job->spec;
    const bool narrow = spec->algebra.dtype == TENSUM_C64;
    const ts_mode *sum_modes = spec->modes + spec->kept_count;
    int64_t at_g, at_d, offsets[ADJOINT_BLOCK];
    ts_c128 total = {0, 0};
    (void)worker;
    ts_cpu_offsets(job->own, job->own_count, TS_TENSOR_G, row, 1, &at_g);
    ts_cpu_offsets(job->own, job->own_count, TS_TENSOR_D, row, 1, &at_d);
    for (int64_t start = 0; start < job->broadcast_size; start += ADJOINT_BLOCK) {
        const int64_t count = ts_min64(ADJOINT_BLOCK, job->broadcast_size - start);
        ts_cpu_offsets(job->broadcast, job->broadcast_count, TS_TENSOR_G, start, count, offsets);
        for (int64_t r = 0; r < count; r++) {
            const int64_t at = at_g + offsets[r];
            total.re += narrow ? (double)((const ts_c64 *)job->g)[at].re : ((const ts_c128 *)job->g)[at].re;
            total.im += narrow ? (double)((const ts_c64 *)job->g)[at].im : ((const ts_c128 *)job->g)[at].im;
        }
    }
    for (int64_t start = 0; start < spec->sum; start += ADJOINT_BLOCK) {
        const int64_t count = ts_min64(ADJOINT_BLOCK, spec->sum - start);
        ts_cpu_offsets(sum_modes, spec->sum_count, TS_TENSOR_D, start, count, offsets);
        for (int64_t s = 0; s < count; s++) {
            if (narrow) {
                ts_c64 *d = (ts_c64 *)job->d + at_d + offsets[s];
                d->re = (spec->accumulate ? d->re : 0.0f) + (float)total.re;
                d->im = (spec->accumulate ? d->im : 0.0f) + (float)total.im;
            } else {
                ts_c128 *d = (ts_c128 *)job->d + at_d + offsets[s];
                d->re = (spec->accumulate ? d->re : 0.0) + total.re;
                d->im = (spec->accumulate ? d->im : 0.0) + total.im;
            }
        }
    }
}

static void reduce_adjoint_row(void *argument, int64_t row, int32_t worker)
{
    const reduce_adjoint_job *job = argument;
    const ts_reduce_adjoint_spec *spec = job->spec;
    const bool narrow = tensum_dtype_bytes(tensum_dtype_gradient(spec->algebra.dtype)) == 4;
    const ts_mode *sum_modes = spec->modes + spec->kept_count;
    int64_t at[3];
    const ts_cpu_tensor tensors[3] = {TS_TENSOR_W, TS_TENSOR_G, TS_TENSOR_D};
    (void)worker;
    for (int t = 0; t < 3; t++) {
        ts_cpu_offsets(job->own, job->own_count, tensors[t], row, 1, &at[t]);
    }
    for (int64_t first = 0; first < spec->sum; first += ADJOINT_BLOCK) {
        int64_t sum_d[ADJOINT_BLOCK];
        const int64_t count = ts_min64(ADJOINT_BLOCK, spec->sum - first);
        ts_cpu_offsets(sum_modes, spec->sum_count, TS_TENSOR_D, first, count, sum_d);
        for (int64_t s = 0; s < count; s++) {
            double total = 0;
            if (job->broadcast_size == 1) {
                total = share(job, first + s, at[0], at[1], narrow);
            } else {
                double levels[8] = {0}; /* sums of float cotangents are rounded to float at every step */
                int64_t other[2][ADJOINT_BLOCK];
                for (int64_t start = 0; start < job->broadcast_size; start += ADJOINT_BLOCK) {
                    const int64_t length = ts_min64(ADJOINT_BLOCK, job->broadcast_size - start);
                    for (int t = 0; t < 2; t++) {
                        ts_cpu_offsets(job->broadcast, job->broadcast_count, tensors[t], start, length, other[t]);
                    }
                    double block = 0;
                    for (int64_t r = 0; r < length; r++) {
                        double x = share(job, first + s, at[0] + other[0][r], at[1] + other[1][r], narrow);
                        block += narrow ? (double)(float)x : x;
                        block = narrow ? (double)(float)block : block;
                    }
                    int64_t blocks = start / ADJOINT_BLOCK + 1;
                    levels[0] = block;
                    for (int32_t level = 0; level + 1 < job->levels; level++) {
                        levels[level + 1] += levels[level];
                        levels[level + 1] = narrow ? (double)(float)levels[level + 1] : levels[level + 1];
                        levels[level] = 0;
                        if (blocks % ADJOINT_BLOCK != 0) {
                            break;
                        }
                        blocks /= ADJOINT_BLOCK;
                    }
                }
                for (int32_t level = 1; level + 1 < job->levels; level++) {
                    levels[level + 1] += levels[level];
                    levels[level + 1] = narrow ? (double)(float)levels[level + 1] : levels[level + 1];
                    levels[level] = 0;
                }
                total = levels[job->levels - 1];
            }
            if (narrow) {
                float *d = (float *)job->d + at[2] + sum_d[s];
                *d = spec->accumulate ? *d + (float)total : (float)total;
            } else {
                double *d = (double *)job->d + at[2] + sum_d[s];
                *d = spec->accumulate ? *d + total : total;
            }
        }
    }
}

tensum_status ts_cpu_reduce_adjoint(const ts_reduce_adjoint_spec *spec, const void *a, const void *c,
                                    const void *winners, const void *g, void *d, const ts_run *run)
{
    reduce_adjoint_job job = {.spec = spec, .a = a, .c = c, .winners = winners, .g = g, .d = d,
                              .own_size = 1, .broadcast_size = 1};
    for (int32_t m = 0; m < spec->kept_count; m++) {
        if (spec->modes[m].d == 0 && spec->modes[m].extent != 1) {
            job.broadcast[job.broadcast_count++] = spec->modes[m];
            job.broadcast_size *= spec->modes[m].extent;
        } else {
            job.own[job.own_count++] = spec->modes[m];
            job.own_size *= spec->modes[m].extent;
        }
    }
    if (spec->algebra.semiring == TENSUM_LOG_SUM_EXP) {
        const int64_t sizes[3] = {job.own_size, spec->sum, job.broadcast_size};
        ts_cpu_share_reduction(spec->algebra.dtype, job.own, job.own_count, spec->modes + spec->kept_count, spec->sum_count,
                               job.broadcast, job.broadcast_count, sizes, spec->accumulate, a, c, g, d, run->pool);
        return TENSUM_OK;
    }
    job.levels = tree_levels(job.broadcast_size);
    const bool complex = spec->algebra.dtype == TENSUM_C64 || spec->algebra.dtype == TENSUM_C128;
    ts_pool_run(run->pool, job.own_size, complex ? complex_reduce_adjoint_row : reduce_adjoint_row, &job);
    return TENSUM_OK;
}
