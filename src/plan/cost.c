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

/* Adds, to whole[s], the log2 extents of the sliced labels that step s would have had unsliced: a label is open in a
 * value where it occurs below and something else needs it too. uses[] [value_count] is scratch. */
static void add_slices(const tensum_plan *plan, double *whole, int32_t *uses)
{
    const tensum_network *network = plan->network;
    int64_t n = network->operand_count;
    for (int32_t k = 0; k < plan->slice_label_count; k++) {
        int32_t label = plan->slice_labels[k], total = 0;
        bool output = false;
        memset(uses, 0, (size_t)plan->value_count * sizeof *uses);
        for (int64_t i = 0; i <= n; i++) {
            for (int64_t m = network->effective_offsets[i]; m < network->effective_offsets[i + 1]; m++) {
                bool same = network->effective[m] == label;
                output = output || (same && i == n);
                uses[i] += same && i < n;
                total += same && i < n;
            }
        }
        for (int32_t s = 0; s < plan->step_count; s++) {
            const ts_step *step = &plan->steps[s];
            const int32_t operands[2] = {step->a, step->b};
            bool held = false;
            int32_t below = 0;
            for (int i = 0; i < 2; i++) {
                if (operands[i] >= 0) {
                    int32_t here = uses[operands[i]];
                    below += here;
                    held = held || (here > 0 && (here < total || output || operands[i] < n));
                }
            }
            uses[step->c] = below;
            whole[s] += held ? log2((double)ts_plan_extent(plan, label)) : 0.0;
        }
    }
}

static tensum_status slicing_overhead(tensum_plan *plan, double pairs)
{
    tensum_status status = TENSUM_OK;
    double *whole = NULL, before = 0;
    int32_t *uses = NULL;
    plan->overhead = 0;
    if (plan->slice_total <= 1) {
        return TENSUM_OK;
    }
    TRY(ts_allocate_zero((size_t)plan->step_count, sizeof *whole, "plan costs", &whole));
    TRY(ts_allocate((size_t)plan->value_count, sizeof *uses, "plan costs", &uses));
    add_slices(plan, whole, uses);
    for (int32_t s = 0; s < plan->step_count; s++) {
        before += step_pairs(plan, &plan->steps[s]) * exp2(whole[s]);
    }
    plan->overhead = log2(fmax(pairs, 1)) - log2(fmax(before, 1));
done:
    ts_free(whole);
    ts_free(uses);
    return status;
}

tensum_status ts_build_costs(tensum_plan *plan)
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
    return slicing_overhead(plan, pairs);
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
    cost->overhead = plan->overhead;
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
