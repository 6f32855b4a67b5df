#include <inttypes.h>
#include <math.h>

#include "plan/build.h"

/* As doubles: sizes far past 2^63 must still be comparable. */
static double size_of(const tensum_plan *plan, const int32_t *labels, int32_t count)
{
    double size = 1;
    for (int32_t i = 0; i < count; i++) {
        size *= (double)ts_plan_extent(plan, labels[i]);
    }
    return size;
}

static double step_pairs(const tensum_plan *plan, const ts_step *step)
{
    return size_of(plan, step->batch, step->batch_count) * size_of(plan, step->left, step->left_count) *
           size_of(plan, step->right, step->right_count) * size_of(plan, step->sum, step->sum_count);
}

void ts_build_costs(tensum_plan *plan)
{
    double pairs = 0, moved = 0, largest = 1, slices = (double)plan->slice_total;
    for (int32_t i = 0; i < plan->value_count; i++) {
        largest = fmax(largest, size_of(plan, plan->values[i].labels, plan->values[i].rank));
    }
    for (int32_t s = 0; s < plan->step_count; s++) {
        const ts_step *step = &plan->steps[s];
        double times = step->invariant ? 1 : slices;
        const int32_t values[3] = {step->a, step->b, step->c};
        pairs += times * step_pairs(plan, step);
        for (int k = 0; k < 3; k++) {
            if (values[k] >= 0) {
                moved += times * size_of(plan, plan->values[values[k]].labels, plan->values[values[k]].rank);
            }
        }
    }
    plan->tc = log2(fmax(pairs, 1));
    plan->rw = log2(fmax(moved, 1));
    plan->sc = log2(largest);
}

tensum_status tensum_plan_cost(const tensum_plan *plan, tensum_cost *cost)
{
    if (plan == NULL || cost == NULL || cost->size < sizeof *cost) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_plan_cost: plan or cost is NULL or cost->size is not set");
    }
    cost->tc = plan->tc;
    cost->sc = plan->sc;
    cost->rw = plan->rw;
    cost->steps = plan->step_count;
    cost->slices = plan->slice_total;
    cost->peak_bytes_value = cost->peak_bytes_winners = plan->value_bytes;
    cost->peak_bytes_gradient = plan->gradient_bytes;
    cost->peak_bytes_decode = plan->keep_bytes;
    return TENSUM_OK;
}

/* Public id of a value: inputs as they are, results by the step that makes them. */
static int64_t public_id(const tensum_plan *plan, int32_t value)
{
    if (value < 0 || plan->values[value].place == TS_PLACE_INPUT) {
        return value;
    }
    return plan->network->operand_count + plan->values[value].producer;
}

tensum_status tensum_plan_step(const tensum_plan *plan, int64_t index, tensum_step_info *info)
{
    if (plan == NULL || info == NULL || info->size < sizeof *info) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_plan_step: plan or info is NULL or info->size is not set");
    }
    if (index < 0 || index >= plan->step_count) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "step %" PRId64 " does not exist; the plan has %d", index,
                       (int)plan->step_count);
    }
    const ts_step *step = &plan->steps[index];
    const ts_value *c = &plan->values[step->c];
    info->a = public_id(plan, step->a);
    info->b = public_id(plan, step->b);
    info->result = public_id(plan, step->c);
    info->rank = c->rank;
    info->labels = plan->public_labels + (c->labels - plan->label_storage);
    info->log2_pairs = log2(fmax(step_pairs(plan, step), 1));
    info->log2_elements = log2(fmax(size_of(plan, c->labels, c->rank), 1));
    return TENSUM_OK;
}
