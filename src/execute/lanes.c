/* Slices side by side: each lane computes one slice into its own share of the output, then the shares are added in
 * ascending order of slices, so that the result does not depend on which thread was faster. */
#include "execute/workspace.h"

typedef struct lane_batch {
    ts_running *lanes;
    int64_t first;      /* slice of lane 0 */
    bool opening;       /* the lanes' first slices: steps that no slice changes run too */
    tensum_status *status;
    int64_t element_bytes;
} lane_batch;

static void run_lane(void *argument, int64_t index, int32_t worker)
{
    const lane_batch *batch = argument;
    ts_running *lane = &batch->lanes[index];
    tensum_workspace *workspace = lane->workspace;
    (void)worker;
    ts_set_slice(lane, batch->first + index);
    workspace->base[lane->plan->network->operand_count] = ts_output_base(
        lane, workspace->memory + lane->compiled->lane_partial, workspace->compact_slices, batch->element_bytes);
    batch->status[index] = ts_forward_slice(lane, batch->first + index, batch->opening, 0, 0);
}

/* output <- output (+) the lane's share, over the output's own labels in the lane's slice. */
static tensum_status add_share(ts_running *running, const ts_running *lane, const int64_t *target, const int64_t *slices)
{
    const tensum_plan *plan = running->plan;
    int64_t n = plan->network->operand_count;
    int64_t bytes = (int64_t)tensum_dtype_bytes(plan->algebra.dtype);
    const ts_value *output = &plan->values[n];
    ts_mode modes[64];
    for (int32_t i = 0; i < output->rank; i++) {
        ts_mode mode = {ts_plan_extent(plan, output->labels[i]), lane->workspace->compact_strides[i], 0, target[i], 0, 0, 0};
        modes[i] = mode;
    }
    int32_t count = ts_modes_fuse(modes, output->rank);
    ts_reduce_spec spec = {plan->algebra, count, 0, modes, output->elements, 1, true, 0};
    return running->program->backend->reduce(&spec, lane->workspace->base[n],
                                             ts_output_base(lane, running->arguments->output->data, slices, bytes), NULL,
                                             &running->step);
}

tensum_status ts_run_lanes(ts_running *running, int64_t first, int64_t count)
{
    tensum_status status = TENSUM_OK;
    enum { MOST_LANES = 64 };
    const tensum_plan *plan = running->plan;
    int32_t lanes = running->compiled->lanes < MOST_LANES ? running->compiled->lanes : MOST_LANES;
    ts_running each[MOST_LANES];
    tensum_status outcome[MOST_LANES];
    tensum_run_arguments quiet = *running->arguments;
    int64_t target[64], slices[64];
    quiet.progress = NULL; /* polled here, on the caller's thread */
    quiet.output = NULL;
    quiet.accumulate = 0;
    ts_label_strides(plan, plan->network->operand_count, running->arguments->output->strides, target, slices);
    for (int32_t i = 0; i < lanes; i++) {
        each[i] = *running;
        each[i].workspace = running->workspace->lanes[i];
        each[i].arguments = &quiet;
        each[i].step.pool = NULL;
        each[i].same = false; /* the lane may not have seen the last run */
        each[i].step.scratch = each[i].workspace->memory + running->compiled->scratch_offset;
        ts_bind_output(&each[i], false);
    }
    for (int64_t done = 0; done < count; done += lanes) {
        int64_t batch_count = ts_min64(lanes, count - done);
        lane_batch batch = {each, first + done, done == 0, outcome, (int64_t)tensum_dtype_bytes(plan->algebra.dtype)};
        TRY(ts_poll(running, "contraction", (double)done / (double)count));
        ts_pool_run(running->step.pool, batch_count, run_lane, &batch);
        for (int64_t i = 0; i < batch_count; i++) {
            TRY(outcome[i]);
            TRY(add_share(running, &each[i], target, slices));
        }
    }
done:
    return status;
}
