/* Slices of kept runs: telling them apart, and their share of the cotangent. */
#include "algebra/sums.h"
#include "execute/workspace.h"

/* Take the slice's share into the total: total <- total (+) partial, elementwise over the output of the slice, noting
 * in `slice_of` the first slice that attains the total. */
void ts_absorb_slice(ts_running *running, char *total, const int64_t *t, const char *partial, int64_t *slice_of)
{
    const tensum_plan *plan = running->plan;
    const ts_pair *pair = ts_pair_of(plan->algebra.semiring, plan->algebra.dtype);
    int64_t n = plan->network->operand_count;
    const ts_value *output = &plan->values[n];
    const int64_t *c = running->workspace->compact_strides;
    int64_t bytes = (int64_t)tensum_dtype_bytes(plan->algebra.dtype);
    for (int64_t index = 0; index < output->elements; index++) {
        int64_t rest = index, at_total = 0, at_compact = 0;
        for (int32_t i = output->rank - 1; i >= 0; i--) {
            int64_t extent = ts_plan_extent(plan, output->labels[i]);
            at_total += rest % extent * t[i];
            at_compact += rest % extent * c[i];
            rest /= extent;
        }
        ts_sum sum = {.modulus = plan->algebra.modulus};
        char *target = total + at_total * bytes;
        if (slice_of[at_compact] < 0) {
            pair->feed(&sum, partial + at_compact * bytes, NULL); /* a sum of one term: +0 for -0, as in value runs */
            pair->end(&sum, target, false);
            slice_of[at_compact] = running->slice;
            continue;
        }
        pair->feed(&sum, target, NULL);
        pair->feed(&sum, partial + at_compact * bytes, NULL);
        if (sum.winner == 1) {
            slice_of[at_compact] = running->slice;
        }
        pair->end(&sum, target, false);
    }
}

/* Without slices the seed is the caller's cotangent or ones, moved by the backend. */
static tensum_status whole_seed(ts_running *running)
{
    const tensum_plan *plan = running->plan;
    tensum_workspace *workspace = running->workspace;
    const ts_backend *backend = running->program->backend;
    const ts_value *output = &plan->values[plan->network->operand_count];
    const tensum_tensor *cotangent = running->arguments->cotangent;
    const tensum_dtype real = tensum_dtype_gradient(plan->algebra.dtype);
    char *seed = workspace->memory + running->compiled->seed_offset;
    int64_t g[64] = {0}, none[64];
    ts_mode modes[64];
    if (cotangent != NULL) {
        ts_label_strides(plan, plan->network->operand_count, cotangent->strides, g, none);
    }
    for (int32_t i = 0; i < output->rank; i++) {
        const ts_mode mode = {ts_plan_extent(plan, output->labels[i]), g[i], 0, workspace->compact_strides[i], 0, 0, 0};
        modes[i] = mode;
    }
    const int32_t count = ts_modes_fuse(modes, output->rank);
    if (cotangent != NULL) {
        const ts_reduce_spec spec = {{TENSUM_SUM_PRODUCT, real, 0}, count, 0, modes, output->elements, 1, false, 0};
        return backend->reduce(&spec, cotangent->data, seed, NULL, &running->step);
    }
    const double wide[2] = {1, 0};
    const float narrow[2] = {1, 0};
    return backend->fill(modes, count, tensum_dtype_bytes(real),
                         real == TENSUM_F32 || real == TENSUM_C64 ? (const void *)narrow : wide, seed, &running->step);
}

/* The cotangent of the output in the current slice, in compact raw shape: the caller's (or ones) where this slice won,
 * for log_sum_exp times its weight in the total. */
tensum_status ts_make_seed(ts_running *running, const char *total, const int64_t *t)
{
    const tensum_plan *plan = running->plan;
    if (plan->slice_total == 1) {
        return whole_seed(running);
    }
    tensum_workspace *workspace = running->workspace;
    const ts_compiled *compiled = running->compiled;
    const ts_pair *pair = ts_pair_of(plan->algebra.semiring, plan->algebra.dtype);
    int64_t n = plan->network->operand_count;
    const ts_value *output = &plan->values[n];
    tensum_dtype real = tensum_dtype_gradient(plan->algebra.dtype);
    int64_t bytes = (int64_t)tensum_dtype_bytes(plan->algebra.dtype), real_bytes = (int64_t)tensum_dtype_bytes(real);
    const int64_t *c = workspace->compact_strides;
    const tensum_tensor *cotangent = running->arguments->cotangent;
    bool sliced = plan->slice_total > 1, selective = tensum_semiring_selective(plan->algebra.semiring) != 0;
    bool weighted = sliced && plan->algebra.semiring == TENSUM_LOG_SUM_EXP;
    const int64_t *slice_of = (const int64_t *)(workspace->memory + compiled->slice_offset);
    char *seed = ts_output_base(running, workspace->memory + compiled->seed_offset, workspace->compact_slices, real_bytes);
    const char *partial = ts_output_base(running, workspace->memory + compiled->partial_offset, workspace->compact_slices, bytes);
    int64_t g[64] = {0}, g_slices[64] = {0};
    const char *given = NULL;
    if (cotangent != NULL) {
        ts_label_strides(plan, n, cotangent->strides, g, g_slices);
        given = ts_output_base(running, cotangent->data, g_slices, real_bytes);
    }
    slice_of += (seed - (workspace->memory + compiled->seed_offset)) / real_bytes;
    for (int64_t index = 0; index < output->elements; index++) {
        int64_t rest = index, at_total = 0, at_compact = 0, at_given = 0;
        for (int32_t i = output->rank - 1; i >= 0; i--) {
            int64_t extent = ts_plan_extent(plan, output->labels[i]);
            at_total += rest % extent * t[i];
            at_compact += rest % extent * c[i];
            at_given += rest % extent * g[i];
            rest /= extent;
        }
        char *target = seed + at_compact * real_bytes;
        double factor = 1;
        if (sliced && selective && slice_of[at_compact] != running->slice) {
            memset(target, 0, (size_t)real_bytes);
            continue;
        }
        if (weighted) {
            double whole = pair->real(total + at_total * bytes);
            factor = whole == -TS_INFINITY_F64 ? 0 : exp(pair->real(partial + at_compact * bytes) - whole);
        }
        if (given != NULL && factor == 1) {
            memcpy(target, given + at_given * real_bytes, (size_t)real_bytes);
        } else if (real == TENSUM_F32 || real == TENSUM_C64) {
            float value[2] = {(float)factor * (given != NULL ? ((const float *)given)[at_given] : 1.0f), 0};
            memcpy(target, value, (size_t)real_bytes);
        } else {
            double value[2] = {factor * (given != NULL ? ((const double *)given)[at_given] : 1.0), 0};
            memcpy(target, value, (size_t)real_bytes);
        }
    }
    return TENSUM_OK;
}

