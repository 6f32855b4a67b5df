/* Cotangents through log_sum_exp: every term has its share exp(a + b - c) of the cotangent g of its result c.
 *
 * Where an operand meets many positions of the other one, the sum over these is a product: with u the largest of a row
 * of the operand and v of a row of the other, exp(a + b - c) = exp(a - u) exp(u + v - c) exp(b - v), so
 * sum over o of g exp(a + b - c) = exp(a - u) sum over o of (g exp(u + v - c)) exp(b - v), by the tiles of sum_product in
 * f64. That needs exp(u + v - c) to be in range, which kernels tell; pieces where it is not, and all small ones, go the
 * direct way, an exponential per term. */
#include "backend/cpu/cpu.h"

#include <math.h>

#define GROUP 512       /* others at a time */
#define ROW_PANELS 16   /* rows of a task, in panels */
#define LEAST_ROWS 24   /* below these, exponentials per term are no more than those of the panels */
#define LEAST_OTHERS 24
#define LEAST_SUM 24
#define MOST_MODES 192

typedef struct share_job {
    const ts_cpu_kernel *kernel, *product;
    const char *here, *other, *c, *g;
    char *d;
    size_t element;
    bool narrow, accumulate;
    ts_cpu_tensor here_tensor, other_tensor;
    const ts_mode *batch_modes, *here_modes, *other_modes, *sum_modes;
    int32_t batch_count, here_count, other_count, sum_count;
    int64_t batch, rows, others, sum;
    ts_mode modes[MOST_MODES]; /* of the operand's elements: batch, here, sum */
    int32_t mode_count;
    /* panels */
    int64_t row_block, row_blocks, group;
    size_t at_rows[4], at_others[3], at_sum[3], shifts, other_shifts, weights, exponentials, tiles, worker_bytes;
    char *scratch;
} share_job;

static size_t take(size_t *bytes, int64_t count, size_t element)
{
    size_t at = *bytes;
    *bytes = (at + (size_t)count * element + 127) & ~(size_t)127;
    return at;
}

static bool by_panels(const share_job *job)
{
    return job->rows >= LEAST_ROWS && job->others >= LEAST_OTHERS && job->sum >= LEAST_SUM;
}

static void describe(share_job *job, const ts_adjoint_spec *spec)
{
    const ts_mode *left = spec->modes + spec->batch_count, *right = left + spec->left_count;
    const bool side0 = spec->side == 0;
    job->kernel = ts_cpu_kernel_find(TENSUM_LOG_SUM_EXP, spec->algebra.dtype);
    job->product = ts_cpu_kernel_find(TENSUM_SUM_PRODUCT, TENSUM_F64);
    job->element = tensum_dtype_bytes(spec->algebra.dtype);
    job->narrow = tensum_dtype_bytes(tensum_dtype_gradient(spec->algebra.dtype)) == 4;
    job->accumulate = spec->accumulate;
    job->here_tensor = side0 ? TS_TENSOR_A : TS_TENSOR_B;
    job->other_tensor = side0 ? TS_TENSOR_B : TS_TENSOR_A;
    job->batch_modes = spec->modes;
    job->batch_count = spec->batch_count;
    job->here_modes = side0 ? left : right;
    job->here_count = side0 ? spec->left_count : spec->right_count;
    job->other_modes = side0 ? right : left;
    job->other_count = side0 ? spec->right_count : spec->left_count;
    job->sum_modes = right + spec->right_count;
    job->sum_count = spec->sum_count;
    job->batch = spec->batch;
    job->rows = side0 ? spec->left : spec->right;
    job->others = side0 ? spec->right : spec->left;
    job->sum = spec->sum;
    if (!by_panels(job)) {
        return;
    }
    const int64_t tile = job->product->rows * job->product->columns;
    size_t bytes = 0;
    job->row_block = ts_min64(ROW_PANELS, (job->rows + job->product->rows - 1) / job->product->rows) * job->product->rows;
    job->row_blocks = (job->rows + job->row_block - 1) / job->row_block;
    job->group = ts_min64(GROUP, job->others);
    for (int i = 0; i < 4; i++) {
        job->at_rows[i] = take(&bytes, job->row_block, 8);
    }
    for (int i = 0; i < 3; i++) {
        job->at_others[i] = take(&bytes, job->group, 8);
        job->at_sum[i] = take(&bytes, job->sum, 8);
    }
    job->shifts = take(&bytes, job->row_block, 8);
    job->other_shifts = take(&bytes, job->group, 8);
    job->weights = take(&bytes, job->row_block * job->group, 8);
    job->exponentials = take(&bytes, job->product->columns * job->group, 8);
    job->tiles = take(&bytes, job->row_block / job->product->rows * tile, 8);
    job->worker_bytes = bytes;
}

size_t ts_cpu_share_scratch(const ts_adjoint_spec *spec, int32_t threads)
{
    share_job job = {0};
    describe(&job, spec);
    return job.worker_bytes * (size_t)threads;
}

static void add(const share_job *job, int64_t at, double value, bool accumulate)
{
    if (job->narrow) {
        float *d = (float *)(void *)job->d + at;
        *d = (accumulate ? *d : 0.0f) + (float)value;
    } else {
        double *d = (double *)(void *)job->d + at;
        *d = (accumulate ? *d : 0.0) + value;
    }
}

/* ---- an exponential per term: a piece is some elements of the operand, of whatever batch item, row and depth ---- */

static void share_piece(void *argument, int64_t index, int32_t worker)
{
    const share_job *job = argument;
    const int64_t first = index * TS_SHARES;
    const int32_t count = (int32_t)ts_min64(TS_SHARES, job->batch * job->rows * job->sum - first);
    int64_t at[5][TS_SHARES], others[3][TS_SHARES];
    double sums[TS_SHARES] = {0};
    const ts_cpu_tensor tensors[5] = {TS_TENSOR_C, TS_TENSOR_G, TS_TENSOR_D, job->here_tensor, job->other_tensor};
    const double zero = 0; /* of any type: what a reduction multiplies by */
    (void)worker;
    for (int t = 0; t < (job->other != NULL ? 5 : 4); t++) {
        ts_cpu_offsets(job->modes, job->mode_count, tensors[t], first, count, at[t]);
    }
    if (job->other == NULL) {
        memset(at[4], 0, sizeof at[4]);
        memset(others[2], 0, sizeof others[2]);
    }
    for (int64_t start = 0; start < job->others; start += TS_SHARES) {
        const int64_t length = ts_min64(TS_SHARES, job->others - start);
        ts_cpu_offsets(job->other_modes, job->other_count, TS_TENSOR_C, start, length, others[0]);
        ts_cpu_offsets(job->other_modes, job->other_count, TS_TENSOR_G, start, length, others[1]);
        if (job->other != NULL) {
            ts_cpu_offsets(job->other_modes, job->other_count, job->other_tensor, start, length, others[2]);
        }
        const ts_cpu_shares piece = {
            .a = job->here, .b = job->other != NULL ? (const void *)job->other : &zero, .c = job->c, .g = job->g,
            .at_a = at[3], .at_b = at[4], .at_c = at[0], .at_g = at[1], .count = count, .others = length,
            .other_b = others[2], .other_c = others[0], .other_g = others[1], .sums = sums,
        };
        job->kernel->shares(&piece);
    }
    for (int32_t i = 0; i < count; i++) {
        add(job, at[2][i], sums[i], job->accumulate);
    }
}

static void add_modes(share_job *job, const ts_mode *modes, int32_t count)
{
    for (int32_t m = 0; m < count; m++) { /* modes may be NULL where there are none */
        job->modes[job->mode_count++] = modes[m];
    }
}

static void share_all(share_job *job, ts_pool *pool)
{
    add_modes(job, job->batch_modes, job->batch_count);
    add_modes(job, job->here_modes, job->here_count);
    add_modes(job, job->sum_modes, job->sum_count);
    const int64_t pieces = (job->batch * job->rows * job->sum + TS_SHARES - 1) / TS_SHARES;
    if (pieces == 1) {
        share_piece(job, 0, 0);
    } else {
        ts_pool_run(pool, pieces, share_piece, job);
    }
}

/* ---- panels ---- */

/* The largest of each of `count` rows, 0 for those of nothing but -infinity. */
static void largest(const share_job *job, const char *data, const int64_t *rows, int64_t count, const int64_t *depths, double *shifts)
{
    for (int64_t i = 0; i < count; i++) {
        shifts[i] = -(double)INFINITY;
    }
    const ts_cpu_panel panel = {.source = data, .rows = rows, .depths = depths, .count = (int32_t)count, .depth = job->sum,
                                .rows_unit = ts_cpu_unit(rows, count), .depth_unit = ts_cpu_unit(depths, job->sum)};
    job->kernel->maxima(&panel, shifts);
    for (int64_t i = 0; i < count; i++) {
        shifts[i] = isinf(shifts[i]) && shifts[i] < 0 ? 0.0 : shifts[i];
    }
}

/* A group of others whose weights are out of range: rows of a task the direct way. */
static void share_rows(const share_job *job, int64_t row_count, int64_t other_count, int64_t *const at_rows[4],
                       int64_t *const at_others[3], int64_t *const at_sum[3], const int64_t batch[5], bool accumulate)
{
    int64_t of_c[TS_SHARES], of_g[TS_SHARES];
    for (int64_t i = 0; i < row_count; i++) {
        for (int64_t first = 0; first < job->sum; first += TS_SHARES) {
            const int32_t count = (int32_t)ts_min64(TS_SHARES, job->sum - first);
            double sums[TS_SHARES] = {0};
            for (int32_t s = 0; s < count; s++) {
                of_c[s] = batch[0] + at_rows[0][i];
                of_g[s] = batch[1] + at_rows[1][i];
            }
            const ts_cpu_shares piece = {
                .a = job->here + (batch[3] + at_rows[3][i]) * (int64_t)job->element,
                .b = job->other + batch[4] * (int64_t)job->element, .c = job->c, .g = job->g, .at_a = at_sum[0] + first,
                .at_b = at_sum[1] + first, .at_c = of_c, .at_g = of_g, .count = count, .others = other_count,
                .other_b = at_others[2], .other_c = at_others[0], .other_g = at_others[1], .sums = sums,
            };
            job->kernel->shares(&piece);
            for (int32_t s = 0; s < count; s++) {
                add(job, batch[2] + at_rows[2][i] + at_sum[2][first + s], sums[s], accumulate);
            }
        }
    }
}

static void share_block(void *argument, int64_t index, int32_t worker)
{
    const share_job *job = argument;
    const ts_cpu_kernel *product = job->product;
    char *scratch = job->scratch + (size_t)worker * job->worker_bytes;
    int64_t *at_rows[4], *at_others[3], *at_sum[3], batch[5];
    double *shifts = (double *)(void *)(scratch + job->shifts), *other_shifts = (double *)(void *)(scratch + job->other_shifts);
    double *weights = (double *)(void *)(scratch + job->weights), *exponentials = (double *)(void *)(scratch + job->exponentials);
    double *tiles = (double *)(void *)(scratch + job->tiles);
    const int64_t item = index / job->row_blocks, row_first = index % job->row_blocks * job->row_block;
    const int64_t row_count = ts_min64(job->row_block, job->rows - row_first);
    const int64_t panels = (row_count + product->rows - 1) / product->rows, tile = product->rows * product->columns;
    const ts_cpu_tensor tensors[5] = {TS_TENSOR_C, TS_TENSOR_G, TS_TENSOR_D, job->here_tensor, job->other_tensor};
    const ts_cpu_tensor of_sum[3] = {job->here_tensor, job->other_tensor, TS_TENSOR_D};
    for (int t = 0; t < 5; t++) {
        ts_cpu_offsets(job->batch_modes, job->batch_count, tensors[t], item, 1, &batch[t]);
    }
    for (int t = 0; t < 4; t++) {
        at_rows[t] = (int64_t *)(void *)(scratch + job->at_rows[t]);
        ts_cpu_offsets(job->here_modes, job->here_count, tensors[t], row_first, row_count, at_rows[t]);
    }
    for (int t = 0; t < 3; t++) {
        at_others[t] = (int64_t *)(void *)(scratch + job->at_others[t]);
        at_sum[t] = (int64_t *)(void *)(scratch + job->at_sum[t]);
        ts_cpu_offsets(job->sum_modes, job->sum_count, of_sum[t], 0, job->sum, at_sum[t]);
    }
    const char *here = job->here + batch[3] * (int64_t)job->element, *other = job->other + batch[4] * (int64_t)job->element;
    largest(job, here, at_rows[3], row_count, at_sum[0], shifts);
    for (int64_t start = 0; start < job->others; start += job->group) {
        const int64_t count = ts_min64(job->group, job->others - start);
        const bool accumulate = job->accumulate || start > 0;
        ts_cpu_offsets(job->other_modes, job->other_count, TS_TENSOR_C, start, count, at_others[0]);
        ts_cpu_offsets(job->other_modes, job->other_count, TS_TENSOR_G, start, count, at_others[1]);
        ts_cpu_offsets(job->other_modes, job->other_count, job->other_tensor, start, count, at_others[2]);
        largest(job, other, at_others[2], count, at_sum[1], other_shifts);
        const ts_cpu_weights w = {
            .c = job->c, .g = job->g, .base_c = batch[0], .base_g = batch[1], .rows_c = at_rows[0], .rows_g = at_rows[1],
            .others_c = at_others[0], .others_g = at_others[1], .row_count = row_count, .other_count = count,
            .width = product->rows, .row_shifts = shifts, .other_shifts = other_shifts, .packed = weights,
        };
        if (!job->kernel->weights(&w)) {
            share_rows(job, row_count, count, at_rows, at_others, at_sum, batch, accumulate);
            continue;
        }
        for (int64_t first = 0; first < job->sum; first += product->columns) {
            const int32_t columns = (int32_t)ts_min64(product->columns, job->sum - first);
            const ts_cpu_panel panel = {
                .source = other, .rows = at_sum[1] + first, .depths = at_others[2], .width = product->columns,
                .count = columns, .depth = count, .shifts = other_shifts,
            };
            job->kernel->exponentials(&panel, exponentials);
            for (int64_t p = 0; p < panels; p++) {
                product->start(tiles + p * tile);
                product->multiply(count, weights + p * product->rows * count, exponentials, tiles + p * tile);
            }
            const ts_cpu_spread spread = {
                .a = here, .rows_a = at_rows[3], .depths_a = at_sum[0] + first, .d = job->d, .base_d = batch[2],
                .rows_d = at_rows[2], .depths_d = at_sum[2] + first, .row_count = row_count, .columns = columns,
                .stride = product->columns, .row_shifts = shifts, .sums = tiles, .accumulate = accumulate,
            };
            job->kernel->spread(&spread);
        }
    }
}

tensum_status ts_cpu_share(const ts_adjoint_spec *spec, const void *a, const void *b, const void *c, const void *g, void *d,
                           const ts_run *run)
{
    share_job job = {.here = spec->side == 0 ? a : b, .other = spec->side == 0 ? b : a, .c = c, .g = g, .d = d, .scratch = run->scratch};
    describe(&job, spec);
    if (!by_panels(&job)) {
        share_all(&job, run->pool);
        return TENSUM_OK;
    }
    if (job.worker_bytes * (size_t)ts_pool_threads(run->pool) > run->scratch_bytes) {
        return ts_fail(TENSUM_STATUS_INTERNAL, "an adjoint needs %zu bytes of scratch and has %zu",
                       job.worker_bytes * (size_t)ts_pool_threads(run->pool), run->scratch_bytes);
    }
    ts_pool_run(run->pool, job.batch * job.row_blocks, share_block, &job);
    return TENSUM_OK;
}

void ts_cpu_share_reduction(tensum_dtype dtype, const ts_mode *own, int32_t own_count, const ts_mode *sum, int32_t sum_count,
                            const ts_mode *broadcast, int32_t broadcast_count, const int64_t sizes[3], bool accumulate,
                            const void *a, const void *c, const void *g, void *d, ts_pool *pool)
{
    share_job job = {
        .kernel = ts_cpu_kernel_find(TENSUM_LOG_SUM_EXP, dtype), .here = a, .c = c, .g = g, .d = d, .accumulate = accumulate,
        .narrow = tensum_dtype_bytes(tensum_dtype_gradient(dtype)) == 4, .here_tensor = TS_TENSOR_A,
        .here_modes = own, .here_count = own_count, .sum_modes = sum, .sum_count = sum_count, .other_modes = broadcast,
        .other_count = broadcast_count, .batch = 1, .rows = sizes[0], .sum = sizes[1], .others = sizes[2],
    };
    share_all(&job, pool);
}
