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

    for (int32_t i = 0; i < count; i++) {
        const ts_step *step = &plan->steps[list[i]];
        if (!ts_chain_put_touched(plan, step, &set)) {
            return false;
        }
        coefficients += ts_chain_coefficients_of(plan, step);
        places += step->sum_size + ts_chain_size_of_new(plan, step) + 8;
    }
    if (ts_chain_live_size(plan, &set, ts_chain_big_of(plan, &plan->steps[list[0]])) > most) {
        return false;
    }
    for (int32_t i = 0; i < count; i++) {
        if (ts_chain_live_size(plan, &set, plan->steps[list[i]].c) > most) {
            return false;
        }
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
    if (big->elements < 256 * (int64_t)program->device->units || tiny->elements < 1 || tiny->elements > TS_CHAIN_MOST_TINY ||
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

/* The step that takes the result of `number` further in the same pass, or -1. */
static int32_t next_of(const ts_cuda_program *program, const uint8_t *suitable, int32_t number)
{
    const tensum_plan *plan = program->plan;
    const ts_value *c = &plan->values[plan->steps[number].c];
    if (c->place != TS_PLACE_ARENA || c->consumer < 0 || !suitable[c->consumer] || ts_cuda_persists(plan, c) ||
        plan->steps[c->consumer].invariant != plan->steps[number].invariant ||
        ts_chain_big_of(plan, &plan->steps[c->consumer]) != plan->steps[number].c) {
        return -1;
    }
    return c->consumer;
}

/* Can what lies between the steps of a chain be found again, where it is needed? */
static bool may_forget(const ts_cuda_program *program, const int32_t *list, int32_t count)
{
    return program->pair.has[TS_CUDA_KERNEL_CHAIN_BACK] ? ts_cuda_chain_back_fits(program, list, count)
                                                        : ts_cuda_path_fits(program->plan, list, count);
}

/* Cut a path of steps where that moves the fewest elements. best[i]: the least for the first i steps; from[i]: where the
 * last group of them begins. */
static tensum_status cut_path(ts_cuda_program *program, const int32_t *path, int32_t count)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    const bool keep = (program->modes & (TENSUM_GRADIENT | TENSUM_DECODE)) != 0 && !program->lean;
    const double launch = 2e6; /* elements that could be moved in the time of one */
    double *best = NULL;
    int32_t *from = NULL;

    TRY(ts_allocate((size_t)count + 1, sizeof *best, "the chains of a program", &best));
    TRY(ts_allocate((size_t)count + 1, sizeof *from, "the chains of a program", &from));
    best[0] = 0.0;
    for (int32_t j = 1; j <= count; j++) {
        best[j] = -1.0;
        for (int32_t i = j - 1; i >= 0 && j - i <= TS_CUDA_CHAIN_STEPS; i--) {
            double cost = best[i] + launch + (double)plan->values[ts_chain_big_of(plan, &plan->steps[path[i]])].elements;
            if (j - i > 1 && (!fits(program, path + i, j - i) || (program->lean && !may_forget(program, path + i, j - i)))) {
                break;
            }
            for (int32_t k = i; k < j; k++) {
                cost += keep || k + 1 == j ? (double)plan->values[plan->steps[path[k]].c].elements : 0.0;
            }
            if (best[j] < 0.0 || cost < best[j]) {
                best[j] = cost;
                from[j] = i;
            }
        }
    }
    for (int32_t j = count; j > 0; j = from[j]) {
        ts_cuda_chain_group *group = &program->chains[program->chain_count];
        group->count = j - from[j];
        group->back = program->lean && program->pair.has[TS_CUDA_KERNEL_CHAIN_BACK] && ts_cuda_chain_back_fits(program, path + from[j], group->count);
        for (int32_t k = 0; k < group->count; k++) {
            group->steps[k] = path[from[j] + k];
            program->chain_of[group->steps[k]] = program->chain_count;
        }
        program->chain_count++;
    }
done:
    ts_free(best);
    ts_free(from);
    return status;
}

tensum_status ts_cuda_chains_find(ts_cuda_program *program)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    uint8_t *suitable = NULL, *follows = NULL;
    int32_t *path = NULL;
    size_t count = (size_t)plan->step_count;
    bool any = false;

    if (!program->pair.has[TS_CUDA_KERNEL_CHAIN] || plan->too_large || plan->step_count == 0) {
        return TENSUM_OK;
    }
    TRY(ts_allocate_zero(count, 1, "the chains of a program", &suitable));
    TRY(ts_allocate_zero(count, 1, "the chains of a program", &follows));
    for (int32_t s = 0; s < plan->step_count; s++) {
        suitable[s] = (program->tree_of == NULL || program->tree_of[s] < 0) && ts_cuda_chain_suits(program, s);
        any = any || suitable[s];
    }
    if (!any) {
        goto done;
    }
    TRY(ts_allocate(count, sizeof *path, "the chains of a program", &path));
    TRY(ts_allocate(count, sizeof *program->chains, "the chains of a program", &program->chains));
    TRY(ts_allocate(count, sizeof *program->chain_of, "the chains of a program", &program->chain_of));
    for (int32_t s = 0; s < plan->step_count; s++) {
        int32_t next = suitable[s] ? next_of(program, suitable, s) : -1;
        program->chain_of[s] = -1;
        if (next >= 0) {
            follows[next] = 1;
        }
    }
    for (int32_t s = 0; s < plan->step_count; s++) {
        int32_t length = 0;
        if (!suitable[s] || follows[s]) {
            continue;
        }
        for (int32_t at = s; at >= 0; at = next_of(program, suitable, at)) {
            path[length++] = at;
        }
        TRY(cut_path(program, path, length));
    }
done:
    ts_free(suitable);
    ts_free(follows);
    ts_free(path);
    return status;
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
