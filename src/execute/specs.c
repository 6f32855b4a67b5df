#include "execute/specs.h"

size_t ts_strides_total(const tensum_plan *plan)
{
    size_t total = 0;
    for (int32_t v = 0; v < plan->value_count; v++) {
        total += (size_t)plan->values[v].rank;
    }
    return total;
}

void ts_strides_start(const tensum_plan *plan, ts_strides *strides)
{
    int64_t next = 0;
    for (int32_t v = 0; v < plan->value_count; v++) {
        const ts_value *value = &plan->values[v];
        int64_t stride = 1;
        strides->first[v] = next;
        next += value->rank;
        for (int32_t i = value->rank - 1; i >= 0; i--) {
            strides->strides[strides->first[v] + i] = stride;
            stride *= ts_plan_extent(plan, value->labels[i]) != 0 ? ts_plan_extent(plan, value->labels[i]) : 1;
        }
    }
}

void ts_label_strides(const tensum_plan *plan, int64_t index, const int64_t *raw_strides, int64_t *label_strides,
                      int64_t *slice_strides)
{
    const tensum_network *network = plan->network;
    const ts_value *value = &plan->values[index];
    int64_t first = network->offsets[index], last = network->offsets[index + 1], compact = 1;
    memset(label_strides, 0, (size_t)value->rank * sizeof *label_strides);
    if (plan->slice_label_count > 0) {
        memset(slice_strides, 0, (size_t)plan->slice_label_count * sizeof *slice_strides);
    }
    for (int64_t m = last - 1; m >= first; m--) {
        int64_t extent = network->raw_extents[m];
        int64_t stride = raw_strides != NULL ? raw_strides[m - first] : compact;
        int32_t label = network->raw_labels[m];
        compact *= extent != 0 ? extent : 1;
        if (extent == 1) {
            continue;
        }
        for (int32_t i = 0; i < value->rank; i++) {
            label_strides[i] += value->labels[i] == label ? stride : 0;
        }
        for (int32_t i = 0; i < plan->slice_label_count; i++) {
            slice_strides[i] += plan->slice_labels[i] == label ? stride : 0;
        }
    }
}

bool ts_strides_bind(const tensum_plan *plan, ts_strides *strides, int64_t index, const int64_t *raw_strides,
                     int64_t *slice_strides)
{
    int64_t fresh[64];
    int64_t *own = strides->strides + strides->first[index];
    size_t bytes = (size_t)plan->values[index].rank * sizeof *own;
    ts_label_strides(plan, index, raw_strides, fresh, slice_strides);
    bool changed = memcmp(own, fresh, bytes) != 0;
    memcpy(own, fresh, bytes);
    return changed;
}

int64_t ts_stride_of(const tensum_plan *plan, const ts_strides *strides, int32_t value, int32_t label)
{
    const ts_value *tensor = &plan->values[value];
    for (int32_t i = 0; i < tensor->rank; i++) {
        if (tensor->labels[i] == label) {
            return strides->strides[strides->first[value] + i];
        }
    }
    return 0;
}

int32_t ts_step_modes(const ts_step *step)
{
    return step->batch_count + step->left_count + step->right_count + step->sum_count;
}

static int64_t extra_of(const ts_extra_strides *extra, int32_t label, int64_t otherwise)
{
    if (extra == NULL) {
        return otherwise;
    }
    for (int32_t i = 0; i < extra->count; i++) {
        if (extra->labels[i] == label) {
            return extra->strides[i];
        }
    }
    return 0;
}

/* Modes of one class with all strides; g and w default to c's, d to that of value `derived`. */
static int32_t put_modes(const tensum_plan *plan, const ts_strides *strides, const ts_step *step, const int32_t *labels,
                         int32_t count, const ts_extra_strides *winners, const ts_extra_strides *g,
                         const ts_extra_strides *d, int32_t derived, ts_mode *modes)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t label = labels[i];
        ts_mode *mode = &modes[i];
        mode->extent = ts_plan_extent(plan, label);
        mode->a = step->a >= 0 ? ts_stride_of(plan, strides, step->a, label) : 0;
        mode->b = step->b >= 0 ? ts_stride_of(plan, strides, step->b, label) : 0;
        mode->c = ts_stride_of(plan, strides, step->c, label);
        mode->w = extra_of(winners, label, mode->c);
        mode->g = extra_of(g, label, mode->c);
        mode->d = derived < 0 ? 0 : extra_of(d, label, ts_stride_of(plan, strides, derived, label));
    }
    return count;
}

/* Sort (where the order is free) and fuse one class in place behind `*end`. */
static int32_t finish_class(ts_mode *modes, int32_t count, bool canonical)
{
    if (!canonical) {
        ts_modes_sort(modes, count);
    }
    return ts_modes_fuse(modes, count);
}

void ts_contract_spec_build(const tensum_plan *plan, const ts_strides *strides, const ts_step *step,
                            const ts_extra_strides *winners, ts_mode *modes, ts_contract_spec *spec)
{
    ts_mode *next = modes;
    memset(spec, 0, sizeof *spec);
    spec->algebra = plan->algebra;
    spec->batch = step->batch_size;
    spec->left = step->left_size;
    spec->right = step->right_size;
    spec->sum = step->sum_size;
    spec->modes = modes;
    put_modes(plan, strides, step, step->batch, step->batch_count, winners, NULL, NULL, -1, next);
    next += spec->batch_count = finish_class(next, step->batch_count, false);
    put_modes(plan, strides, step, step->left, step->left_count, winners, NULL, NULL, -1, next);
    next += spec->left_count = finish_class(next, step->left_count, false);
    put_modes(plan, strides, step, step->right, step->right_count, winners, NULL, NULL, -1, next);
    next += spec->right_count = finish_class(next, step->right_count, false);
    put_modes(plan, strides, step, step->sum, step->sum_count, winners, NULL, NULL, -1, next);
    spec->sum_count = finish_class(next, step->sum_count, true);
}

void ts_reduce_spec_build(const tensum_plan *plan, const ts_strides *strides, const ts_step *step,
                          const ts_extra_strides *winners, ts_mode *modes, ts_reduce_spec *spec)
{
    memset(spec, 0, sizeof *spec);
    spec->algebra = plan->algebra;
    spec->kept = step->left_size;
    spec->sum = step->sum_size;
    spec->modes = modes;
    put_modes(plan, strides, step, step->left, step->left_count, winners, NULL, NULL, -1, modes);
    spec->kept_count = finish_class(modes, step->left_count, false);
    put_modes(plan, strides, step, step->sum, step->sum_count, winners, NULL, NULL, -1, modes + spec->kept_count);
    spec->sum_count = finish_class(modes + spec->kept_count, step->sum_count, true);
}

bool ts_adjoint_is_contraction(ts_algebra algebra)
{
    return algebra.semiring == TENSUM_SUM_PRODUCT && tensum_dtype_gradient(algebra.dtype) == algebra.dtype;
}

void ts_adjoint_contract_build(const tensum_plan *plan, const ts_strides *strides, const ts_step *step, int side,
                               const ts_extra_strides *g, const ts_extra_strides *d, ts_mode *modes,
                               ts_contract_spec *spec)
{
    int32_t operand = side == 0 ? step->a : step->b;
    const int32_t *lists[4] = {step->batch, side == 0 ? step->left : step->right, step->sum,
                               side == 0 ? step->right : step->left};
    int32_t counts[4] = {step->batch_count, side == 0 ? step->left_count : step->right_count, step->sum_count,
                         side == 0 ? step->right_count : step->left_count};
    int32_t kept[4];
    ts_mode *next = modes;
    memset(spec, 0, sizeof *spec);
    spec->algebra = plan->algebra;
    spec->algebra.dtype = tensum_dtype_gradient(plan->algebra.dtype);
    spec->batch = step->batch_size;
    spec->left = side == 0 ? step->left_size : step->right_size;
    spec->right = step->sum_size;
    spec->sum = side == 0 ? step->right_size : step->left_size;
    spec->modes = modes;
    for (int k = 0; k < 4; k++) {
        put_modes(plan, strides, step, lists[k], counts[k], NULL, g, d, operand, next);
        for (int32_t i = 0; i < counts[k]; i++) { /* g takes a's place, the other operand b's, d c's */
            int64_t other = side == 0 ? next[i].b : next[i].a;
            ts_mode mode = {next[i].extent, next[i].g, other, next[i].d, 0, 0, 0};
            next[i] = mode;
        }
        kept[k] = finish_class(next, counts[k], k == 3);
        next += kept[k];
    }
    spec->batch_count = kept[0];
    spec->left_count = kept[1];
    spec->right_count = kept[2];
    spec->sum_count = kept[3];
    spec->conjugate_b = spec->algebra.dtype == TENSUM_C64 || spec->algebra.dtype == TENSUM_C128;
}

void ts_adjoint_spec_build(const tensum_plan *plan, const ts_strides *strides, const ts_step *step, int side,
                           const ts_extra_strides *winners, const ts_extra_strides *g, const ts_extra_strides *d,
                           ts_mode *modes, ts_adjoint_spec *spec)
{
    int32_t operand = side == 0 ? step->a : step->b, other = side == 0 ? step->b : step->a;
    ts_mode *next = modes;
    memset(spec, 0, sizeof *spec);
    spec->algebra = plan->algebra;
    spec->batch = step->batch_size;
    spec->left = step->left_size;
    spec->right = step->right_size;
    spec->sum = step->sum_size;
    spec->modes = modes;
    spec->side = side;
    spec->tie_here = plan->values[operand].lowest_input < plan->values[other].lowest_input;
    spec->winner_bytes = step->winner_bytes;
    put_modes(plan, strides, step, step->batch, step->batch_count, winners, g, d, operand, next);
    next += spec->batch_count = finish_class(next, step->batch_count, true);
    put_modes(plan, strides, step, step->left, step->left_count, winners, g, d, operand, next);
    next += spec->left_count = finish_class(next, step->left_count, true);
    put_modes(plan, strides, step, step->right, step->right_count, winners, g, d, operand, next);
    next += spec->right_count = finish_class(next, step->right_count, true);
    put_modes(plan, strides, step, step->sum, step->sum_count, winners, g, d, operand, next);
    spec->sum_count = finish_class(next, step->sum_count, true);
}

void ts_reduce_adjoint_spec_build(const tensum_plan *plan, const ts_strides *strides, const ts_step *step,
                                  const ts_extra_strides *winners, const ts_extra_strides *g,
                                  const ts_extra_strides *d, ts_mode *modes, ts_reduce_adjoint_spec *spec)
{
    memset(spec, 0, sizeof *spec);
    spec->algebra = plan->algebra;
    spec->kept = step->left_size;
    spec->sum = step->sum_size;
    spec->modes = modes;
    spec->winner_bytes = step->winner_bytes;
    put_modes(plan, strides, step, step->left, step->left_count, winners, g, d, step->a, modes);
    for (int32_t i = 0; i < step->left_count; i++) { /* a label that a lacks is summed, whatever its stride */
        bool has = false;
        for (int32_t m = 0; m < plan->values[step->a].rank; m++) {
            has = has || plan->values[step->a].labels[m] == step->left[i];
        }
        if (!has) {
            modes[i].a = modes[i].d = 0;
        }
    }
    spec->kept_count = finish_class(modes, step->left_count, true);
    put_modes(plan, strides, step, step->sum, step->sum_count, winners, g, d, step->a, modes + spec->kept_count);
    spec->sum_count = finish_class(modes + spec->kept_count, step->sum_count, true);
}
