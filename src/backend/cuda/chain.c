/* Which steps are chained. */
#include "backend/cuda/chain.h"

#include "backend/cuda/fuse.h"
#include "backend/cuda/path.h"

/* Do steps list[0 .. count) fit a tile, and their tables shared memory, whatever the strides? */
static bool fits(const ts_cuda_program *program, const int32_t *list, int32_t count)
{
    const tensum_plan *plan = program->plan;
    const int64_t most = ts_chain_tile_elements(plan) / ts_chain_run_elements(plan);
    int64_t largest = TS_CHAIN_MOST_PIECE, coefficients = 0, places = 0, bytes;
    ts_label_set set = {.count = 0};

    if (ts_chain_positions(plan, list, count, &set) > most) {
        return false;
    }
    for (int32_t i = 0; i < count; i++) {
        const ts_step *step = &plan->steps[list[i]];
        coefficients += ts_chain_coefficients_of(plan, step);
        places += step->sum_size + ts_chain_size_of_new(plan, step) + 8;
    }
    for (int32_t i = 0; i < set.count; i++) {
        largest = ts_max64(largest, ts_plan_extent(plan, set.labels[i]));
    }
    bytes = (1 + 2 * count) * 16 * (ts_chain_tile_elements(plan) / (TS_CUDA_CHAIN_THREADS / largest)) + places * 4 +
            coefficients * (int64_t)ts_cuda_arithmetic_bytes(plan->algebra.dtype) + 3 * TS_CHAIN_TILE_BYTES + 64 * 80 +
            TS_CUDA_CHAIN_BASES * (2 + TS_CUDA_CHAIN_STEPS) * 8 + (int64_t)sizeof(ts_cuda_chain_table) + 1024;
    return bytes <= (int64_t)program->device->shared_limit;
}

bool ts_cuda_chain_suits(const ts_cuda_program *program, int32_t number)
{
    const tensum_plan *plan = program->plan;
    const ts_step *step = &plan->steps[number];
    const ts_value *c = &plan->values[step->c], *big, *tiny;

    if (step->kind != TS_STEP_CONTRACT || step->a == step->b || step->sum_size < 1 || c->elements < 1 ||
        (c->place == TS_PLACE_OUTPUT && ((program->modes & TENSUM_WINNERS) != 0 || step->fill_zero)) ||
        ((program->modes & TENSUM_GRADIENT) != 0 && step->winner_offset >= 0)) {
        return false;
    }
    big = &plan->values[ts_chain_big_of(plan, step)];
    tiny = &plan->values[ts_chain_tiny_of(plan, step)];
    if (big->elements < TS_CHAIN_LEAST_ELEMENTS * (int64_t)program->device->units || tiny->elements < 1 || tiny->elements > TS_CHAIN_MOST_TINY ||
        tiny->elements > big->elements / 16 ||
        step->sum_size * ts_chain_size_of_new(plan, step) > 12 * (step->sum_size + ts_chain_size_of_new(plan, step))) {
        return false;
    }
    for (int32_t i = 0; i < tiny->rank; i++) {
        if (ts_plan_extent(plan, tiny->labels[i]) > TS_CHAIN_MOST_EXTENT) {
            return false;
        }
    }
    return fits(program, &number, 1);
}

/* Can what lies between the steps of a chain be found again, where it is needed? */
static bool may_forget(const ts_cuda_program *program, const int32_t *list, int32_t count)
{
    return program->pair.has[TS_CUDA_KERNEL_CHAIN_BACK] ? ts_cuda_chain_back_fits(program, list, count)
                                                        : ts_cuda_path_fits(program->plan, list, count);
}

/* ---- rules ---- */

static bool may_suit(const void *user, int32_t step)
{
    const ts_cuda_program *program = user;
    return (program->tree_of == NULL || program->tree_of[step] < 0) && ts_cuda_chain_suits(program, step);
}

static bool may_go_together(const void *user, const int32_t *list, int32_t count)
{
    const ts_cuda_program *program = user;
    return fits(program, list, count) && (!program->lean || may_forget(program, list, count));
}

static tensum_status add_group(void *user, const int32_t *list, int32_t count)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_program *program = user;
    const size_t steps = (size_t)program->plan->step_count;
    if (program->chains == NULL) {
        TRY(ts_allocate(steps, sizeof *program->chains, "the chains of a program", &program->chains));
        TRY(ts_allocate(steps, sizeof *program->chain_of, "the chains of a program", &program->chain_of));
        for (size_t s = 0; s < steps; s++) {
            program->chain_of[s] = -1;
        }
    }
    ts_cuda_chain_group *group = &program->chains[program->chain_count];
    group->count = count;
    group->back = program->lean && program->pair.has[TS_CUDA_KERNEL_CHAIN_BACK] && ts_cuda_chain_back_fits(program, list, count);
    for (int32_t k = 0; k < count; k++) {
        group->steps[k] = list[k];
        program->chain_of[list[k]] = program->chain_count;
    }
    program->chain_count++;
done:
    return status;
}

tensum_status ts_cuda_chains_find(ts_cuda_program *program)
{
    const ts_chain_rules rules = {
        .user = program, .suits = may_suit, .fits = may_go_together, .add = add_group, .most = TS_CUDA_CHAIN_STEPS,
        .pass = 2e6, /* a launch */
        .stores_all = (program->modes & (TENSUM_GRADIENT | TENSUM_DECODE)) != 0 && !program->lean,
    };
    if (!program->pair.has[TS_CUDA_KERNEL_CHAIN] || program->plan->too_large || program->plan->step_count == 0) {
        return TENSUM_OK;
    }
    return ts_plan_chains(program->plan, &rules);
}

/* ---- one contraction ---- */

/* A plan of one step over labels that are the modes' numbers, so that all of the above applies. */
tensum_status ts_cuda_add_chained_contract(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec,
                                           ts_cuda_pointer a, ts_cuda_pointer b, ts_cuda_pointer c,
                                           ts_cuda_switch accumulate, bool *added)
{
    const int32_t counts[4] = {spec->batch_count, spec->left_count, spec->right_count, spec->sum_count};
    const bool has[3][4] = {{true, true, false, true}, {true, false, true, true}, {true, true, true, false}};
    const ts_cuda_pointer pointers[3] = {a, b, c};
    int64_t extents[TS_CUDA_MOST_MODES], all_strides[3 * TS_CUDA_MOST_MODES], first[3];
    int32_t labels[3][TS_CUDA_MOST_MODES], numbers[TS_CUDA_MOST_MODES];
    ts_value values[3] = {{0}};
    ts_step step = {.kind = TS_STEP_CONTRACT, .a = 0, .b = 1, .c = 2, .winner_offset = -1};
    tensum_network network = {0};
    tensum_plan plan = {.network = &network, .algebra = spec->algebra, .value_count = 3, .step_count = 1,
                        .values = values, .steps = &step, .slice_total = 1};
    ts_cuda_program program = {.plan = &plan, .device = list->device, .pair = *kernels};
    ts_strides strides = {first, all_strides};
    ts_cuda_emission emission = {.program = &program, .list = list, .strides = &strides};
    const ts_cuda_chain_group group = {.count = 1};

    *added = false;
    if (!kernels->has[TS_CUDA_KERNEL_CHAIN] || spec->winner_bytes != 0 || spec->conjugate_a || spec->conjugate_b) {
        return TENSUM_OK;
    }
    for (int32_t v = 0; v < 3; v++) {
        int32_t at = 0, rank = 0;
        first[v] = v * TS_CUDA_MOST_MODES;
        values[v] = (ts_value){.place = TS_PLACE_ARENA, .labels = labels[v], .elements = 1, .producer = -1, .consumer = -1};
        for (int class = 0; class < 4; class++) {
            for (int32_t i = 0; i < counts[class]; i++, at++) {
                const ts_mode *mode = &spec->modes[at];
                extents[at] = mode->extent;
                numbers[at] = at;
                if (has[v][class]) {
                    all_strides[first[v] + rank] = v == 0 ? mode->a : v == 1 ? mode->b : mode->c;
                    labels[v][rank++] = at;
                    values[v].elements *= mode->extent;
                }
            }
        }
        values[v].rank = rank;
    }
    network.label_extents = extents;
    step.batch = numbers;
    step.left = step.batch + counts[0];
    step.right = step.left + counts[1];
    step.sum = step.right + counts[2];
    step.batch_count = counts[0];
    step.left_count = counts[1];
    step.right_count = counts[2];
    step.sum_count = counts[3];
    step.batch_size = spec->batch;
    step.left_size = spec->left;
    step.right_size = spec->right;
    step.sum_size = spec->sum;
    return ts_cuda_chain_suits(&program, 0) ? ts_cuda_add_chain(&emission, &group, pointers, accumulate, added) : TENSUM_OK;
}
