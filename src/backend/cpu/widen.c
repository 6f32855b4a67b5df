/* Gradients of steps of 16-bit floats, whose cotangents are floats: operands made floats first, so that the gradient is a
 * contraction (sum_product) or takes the way of floats (where it depends on operands). Both are exact. */
#include "backend/cpu/cpu.h"

#include "algebra/element.h"

#define MOST_BYTES ((int64_t)64 << 20) /* of floats: beyond that operands are read as they are, which is slow */
#define MOST_MODES 256
#define CHUNK 256

/* One operand; `row` is a position of batch and of its own class. */
typedef struct widen_job {
    bool is_f16;
    const uint16_t *from;
    float *to;
    const ts_mode *batch_modes, *own_modes, *sum_modes;
    int32_t batch_count, own_count, sum_count;
    int64_t own, sum, rows;
    ts_cpu_tensor tensor;
} widen_job;

static void widen_rows(void *argument, int64_t index, int32_t worker)
{
    const widen_job *job = argument;
    const int64_t first = index * CHUNK, end = ts_min64(first + CHUNK, job->rows);
    int64_t sums[CHUNK], batch, own;
    (void)worker;
    for (int64_t start = 0; start < job->sum; start += CHUNK) {
        const int64_t count = ts_min64(CHUNK, job->sum - start);
        ts_cpu_offsets(job->sum_modes, job->sum_count, job->tensor, start, count, sums);
        for (int64_t row = first; row < end; row++) {
            ts_cpu_offsets(job->batch_modes, job->batch_count, job->tensor, row / job->own, 1, &batch);
            ts_cpu_offsets(job->own_modes, job->own_count, job->tensor, row % job->own, 1, &own);
            const uint16_t *from = job->from + batch + own;
            float *to = job->to + row * job->sum + start;
            if (job->is_f16) {
                for (int64_t s = 0; s < count; s++) {
                    to[s] = ts_load_f16(from[sums[s]]);
                }
            } else {
                for (int64_t s = 0; s < count; s++) {
                    to[s] = ts_load_bf16(from[sums[s]]);
                }
            }
        }
    }
}

/* Strides in the array of floats, [batch][own][sum]. */
static void set_strides(ts_mode *modes, const int32_t counts[4], int own_class, bool is_b)
{
    const int32_t begin[5] = {0, counts[0], counts[0] + counts[1], counts[0] + counts[1] + counts[2],
                              counts[0] + counts[1] + counts[2] + counts[3]};
    const int classes[3] = {3, own_class, 0};
    int64_t stride = 1;
    for (int i = 0; i < 3; i++) {
        for (int32_t m = begin[classes[i] + 1] - 1; m >= begin[classes[i]]; m--) {
            *(is_b ? &modes[m].b : &modes[m].a) = stride;
            stride *= modes[m].extent;
        }
    }
}

static bool needs_both(const ts_adjoint_spec *spec) { return spec->algebra.semiring != TENSUM_SUM_PRODUCT; }

/* Elements of one side's operand. */
static int64_t elements_of(const ts_adjoint_spec *spec, int side)
{
    return spec->batch * (side == 0 ? spec->left : spec->right) * spec->sum;
}

static int64_t bytes_of(const ts_adjoint_spec *spec, int side)
{
    return (elements_of(spec, side) * (int64_t)sizeof(float) + 127) / 128 * 128;
}

bool ts_cpu_widens(const ts_adjoint_spec *spec)
{
    const tensum_semiring semiring = spec->algebra.semiring;
    const int64_t most = MOST_BYTES / (int64_t)sizeof(float);
    const int64_t others = elements_of(spec, 1 - spec->side), own = needs_both(spec) ? elements_of(spec, spec->side) : 0;
    return (spec->algebra.dtype == TENSUM_F16 || spec->algebra.dtype == TENSUM_BF16) &&
           (semiring == TENSUM_SUM_PRODUCT || semiring == TENSUM_MAX_TIMES || semiring == TENSUM_MIN_TIMES ||
            semiring == TENSUM_MAX_MIN || semiring == TENSUM_MIN_MAX) &&
           own <= most && others <= most && own + others <= most &&
           spec->batch_count + spec->left_count + spec->right_count + spec->sum_count <= MOST_MODES;
}

/* g (*) the other operand, into d. */
static ts_contract_spec as_contraction(const ts_adjoint_spec *spec, const ts_mode *modes, ts_mode *made)
{
    const int32_t counts[4] = {spec->batch_count, spec->left_count, spec->right_count, spec->sum_count};
    const int32_t begin[4] = {0, counts[0], counts[0] + counts[1], counts[0] + counts[1] + counts[2]};
    const int own = spec->side == 0 ? 1 : 2, other = spec->side == 0 ? 2 : 1, order[4] = {0, own, 3, other};
    int32_t used = 0;
    for (int i = 0; i < 4; i++) {
        for (int32_t m = begin[order[i]]; m < begin[order[i]] + counts[order[i]]; m++) {
            made[used++] = (ts_mode){.extent = modes[m].extent, .a = order[i] == 3 ? 0 : modes[m].g,
                                     .b = order[i] == own ? 0 : spec->side == 0 ? modes[m].b : modes[m].a,
                                     .c = order[i] == other ? 0 : modes[m].d};
        }
    }
    return (ts_contract_spec){
        .algebra = {.semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F32}, .modes = made, .batch_count = counts[0],
        .left_count = counts[own], .right_count = counts[3], .sum_count = counts[other], .batch = spec->batch,
        .left = spec->side == 0 ? spec->left : spec->right, .right = spec->sum,
        .sum = spec->side == 0 ? spec->right : spec->left, .accumulate = spec->accumulate,
    };
}

size_t ts_cpu_widen_scratch(const ts_adjoint_spec *spec, int32_t threads)
{
    ts_mode made[MOST_MODES];
    const size_t own = needs_both(spec) ? (size_t)bytes_of(spec, spec->side) : 0, other = (size_t)bytes_of(spec, 1 - spec->side);
    if (!needs_both(spec)) {
        const ts_contract_spec contraction = as_contraction(spec, spec->modes, made);
        return other + ts_cpu_contract_scratch(&contraction, threads);
    }
    ts_adjoint_spec floats = *spec;
    floats.algebra.dtype = TENSUM_F32;
    return own + other + ts_cpu_adjoint_scratch(&floats, threads);
}

static void widen(const ts_adjoint_spec *spec, int side, const void *from, void *to, ts_pool *pool)
{
    const ts_mode *left = spec->modes + spec->batch_count, *right = left + spec->left_count;
    widen_job job = {
        .is_f16 = spec->algebra.dtype == TENSUM_F16, .from = from, .to = to, .batch_modes = spec->modes,
        .own_modes = side == 0 ? left : right, .sum_modes = right + spec->right_count, .batch_count = spec->batch_count,
        .own_count = side == 0 ? spec->left_count : spec->right_count, .sum_count = spec->sum_count,
        .own = side == 0 ? spec->left : spec->right, .sum = spec->sum, .tensor = side == 0 ? TS_TENSOR_A : TS_TENSOR_B,
    };
    job.rows = spec->batch * job.own;
    ts_pool_run(pool, (job.rows + CHUNK - 1) / CHUNK, widen_rows, &job);
}

tensum_status ts_cpu_widened_adjoint(const ts_adjoint_spec *spec, const void *a, const void *b, const void *c, const void *winners,
                                     const void *g, void *d, const ts_run *run)
{
    const int32_t counts[4] = {spec->batch_count, spec->left_count, spec->right_count, spec->sum_count};
    const int32_t total = counts[0] + counts[1] + counts[2] + counts[3];
    const void *operands[2] = {a, b};
    ts_mode modes[MOST_MODES], made[MOST_MODES];
    char *scratch = run->scratch;
    memcpy(modes, spec->modes, (size_t)total * sizeof *modes);
    for (int side = 0; side < 2; side++) {
        if (side != spec->side || needs_both(spec)) {
            widen(spec, side, operands[side], scratch, run->pool);
            set_strides(modes, counts, 1 + side, side == 1);
            operands[side] = scratch;
            scratch += bytes_of(spec, side);
        }
    }
    const ts_run rest = {.pool = run->pool, .scratch = scratch,
                         .scratch_bytes = run->scratch_bytes - (size_t)(scratch - (char *)run->scratch)};
    if (!needs_both(spec)) {
        const ts_contract_spec contraction = as_contraction(spec, modes, made);
        return ts_cpu_contract(&contraction, g, operands[1 - spec->side], d, NULL, &rest);
    }
    ts_adjoint_spec floats = *spec;
    floats.algebra.dtype = TENSUM_F32;
    floats.modes = modes;
    return ts_cpu_adjoint(&floats, operands[0], operands[1], c, winners, g, d, &rest);
}
