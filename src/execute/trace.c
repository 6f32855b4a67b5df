#include "algebra/sums.h"
#include "execute/workspace.h"

/* The offset of a value's element at the labels assigned so far; labels of the step's sum count as 0. */
static int64_t offset_of(const ts_running *running, const ts_strides *strides, int32_t value)
{
    const ts_value *tensor = &running->plan->values[value];
    const int64_t *own = strides->strides + strides->first[value];
    int64_t offset = 0;
    for (int32_t i = 0; i < tensor->rank; i++) {
        offset += running->workspace->assignment[tensor->labels[i]] * own[i];
    }
    return offset;
}

/* The winner of one row of a step, by the rule of every kernel: first best, index 0 if all are zero, -1 if empty. */
static int64_t scan_row(const ts_running *running, const ts_step *step, const ts_pair *pair, const char *x,
                        const char *y)
{
    const tensum_plan *plan = running->plan;
    int64_t bytes = (int64_t)tensum_dtype_bytes(plan->algebra.dtype), index[64] = {0};
    ts_mode *modes = running->workspace->spare_modes;
    ts_sum sum = {.modulus = plan->algebra.modulus};
    ts_element ignored;
    int32_t count = step->sum_count;
    for (int32_t i = 0; i < count; i++) {
        ts_mode mode = {ts_plan_extent(plan, step->sum[i]), ts_stride_of(plan, &running->workspace->strides, step->a, step->sum[i]),
                        step->b >= 0 ? ts_stride_of(plan, &running->workspace->strides, step->b, step->sum[i]) : 0,
                        0, 0, 0, 0};
        modes[i] = mode;
    }
    count = ts_modes_fuse(modes, count);
    for (int64_t k = 0; k < step->sum_size; k++) {
        pair->feed(&sum, x, y);
        for (int32_t m = count - 1; m >= 0; m--) {
            x += modes[m].a * bytes;
            y = y != NULL ? y + modes[m].b * bytes : NULL;
            if (++index[m] < modes[m].extent) {
                break;
            }
            x -= modes[m].a * modes[m].extent * bytes;
            y = y != NULL ? y - modes[m].b * modes[m].extent * bytes : NULL;
            index[m] = 0;
        }
    }
    pair->end(&sum, &ignored, false);
    return sum.winner;
}

static double rounded(const ts_running *running, double x)
{
    return tensum_dtype_gradient(running->plan->algebra.dtype) == TENSUM_F32 ? (double)(float)x : x;
}

/* Pass the cotangent of step->c on to its operands; x and y are the winning elements. */
static void pass_on(ts_running *running, const ts_step *step, double x, double y)
{
    tensum_workspace *workspace = running->workspace;
    const ts_value *values = running->plan->values;
    double g = workspace->cotangent[step->c], to_a = g, to_b = g;
    bool a_lives = true, b_lives = true;
    if (step->b < 0) {
        workspace->cotangent[step->a] = g;
        workspace->wanted[step->a] |= 2;
        return;
    }
    bool a_first = values[step->a].lowest_input < values[step->b].lowest_input;
    switch (running->plan->algebra.semiring) {
    case TENSUM_MAX_TIMES:
    case TENSUM_MIN_TIMES:
        to_a = rounded(running, g * y); /* the factor as it is, and one rounding */
        to_b = rounded(running, g * x);
        break;
    case TENSUM_MAX_MIN:
    case TENSUM_MIN_MAX: {
        bool smaller = running->plan->algebra.semiring == TENSUM_MAX_MIN;
        bool nan_x = x != x, nan_y = y != y;
        a_lives = nan_x || nan_y ? nan_x && (!nan_y || a_first) : x == y ? a_first : (smaller ? x < y : x > y);
        b_lives = !a_lives;
        break;
    }
    default:
        break;
    }
    /* a sum of one cotangent: +0 + g */
    if (a_lives) {
        workspace->cotangent[step->a] = to_a + 0.0;
        workspace->wanted[step->a] |= 2;
    }
    if (b_lives) {
        workspace->cotangent[step->b] = to_b + 0.0;
        workspace->wanted[step->b] |= 2;
    }
}

static void write_gradients(ts_running *running)
{
    tensum_workspace *workspace = running->workspace;
    const tensum_plan *plan = running->plan;
    for (int64_t i = 0; i < plan->network->operand_count; i++) {
        const tensum_tensor *gradient = &running->arguments->gradients[i];
        if (gradient->data == NULL || !(workspace->wanted[i] & 2)) {
            continue;
        }
        int64_t offset = offset_of(running, &workspace->gradient, (int32_t)i);
        for (int32_t k = 0; k < plan->slice_label_count; k++) {
            offset += workspace->coordinates[k] * workspace->gradient_slices[i * plan->slice_label_count + k];
        }
        if (gradient->dtype == TENSUM_F32) {
            ((float *)gradient->data)[offset] = (float)workspace->cotangent[i];
        } else {
            ((double *)gradient->data)[offset] = workspace->cotangent[i];
        }
    }
}

tensum_status ts_trace(ts_running *running, int64_t position, const double *seed)
{
    tensum_workspace *workspace = running->workspace;
    const tensum_plan *plan = running->plan;
    const tensum_network *network = plan->network;
    const ts_pair *pair = ts_pair_of(plan->algebra.semiring, plan->algebra.dtype);
    int64_t bytes = (int64_t)tensum_dtype_bytes(plan->algebra.dtype), n = network->operand_count;
    memset(workspace->assignment, 0, (size_t)network->label_count * sizeof *workspace->assignment);
    for (int64_t m = network->offsets[n + 1] - 1; m >= network->offsets[n]; m--) {
        int64_t extent = network->raw_extents[m];
        workspace->assignment[network->raw_labels[m]] = position % extent;
        position /= extent;
    }
    for (int32_t k = 0; k < plan->slice_label_count; k++) {
        workspace->assignment[plan->slice_labels[k]] = workspace->coordinates[k];
    }
    if (seed != NULL) { /* bit 1: carries a cotangent */
        for (int32_t v = 0; v < plan->value_count; v++) {
            workspace->wanted[v] &= 1;
        }
        workspace->cotangent[n] = *seed;
        workspace->wanted[n] |= 2;
    }
    for (int32_t s = plan->step_count - 1; s >= 0; s--) {
        const ts_step *step = &plan->steps[s];
        int64_t winner = 0;
        if (step->kind == TS_STEP_ONE) {
            continue;
        }
        const char *x = workspace->base[step->a];
        const char *y = step->b >= 0 ? workspace->base[step->b] : NULL;
        const char *row_x = x + offset_of(running, &workspace->strides, step->a) * bytes;
        const char *row_y = y != NULL ? y + offset_of(running, &workspace->strides, step->b) * bytes : NULL;
        if (step->sum_count > 0) {
            winner = scan_row(running, step, pair, row_x, row_y);
            int64_t rest = winner < 0 ? 0 : winner;
            for (int32_t i = step->sum_count - 1; i >= 0; i--) {
                int64_t extent = ts_plan_extent(plan, step->sum[i]);
                workspace->assignment[step->sum[i]] = extent > 0 ? rest % extent : 0;
                rest = extent > 0 ? rest / extent : 0;
            }
        }
        if (seed != NULL && winner >= 0 && (workspace->wanted[step->c] & 2)) {
            row_x = x + offset_of(running, &workspace->strides, step->a) * bytes;
            row_y = y != NULL ? y + offset_of(running, &workspace->strides, step->b) * bytes : NULL;
            pass_on(running, step, pair->real(row_x), row_y != NULL ? pair->real(row_y) : 0);
        }
    }
    if (seed != NULL) {
        write_gradients(running);
    }
    return TENSUM_OK;
}
