/* The backward pass and decoding, as launches. */
#include "backend/cuda/chain.h"
#include "backend/cuda/path.h"
#include "backend/cuda/tree.h"

#include <stddef.h>

/* The cotangent of the run's output, or ones. storage [64]. */
static ts_cuda_pointer given_cotangent(const ts_cuda_emission *emission, int64_t *storage, ts_extra_strides *extra)
{
    const ts_cuda_program *program = emission->program;
    int32_t value = (int32_t)program->input_count;
    const ts_value *v = &program->plan->values[value];

    if (emission->signature->where[ts_cuda_port_cotangent(program)] != TS_CUDA_UNUSED) {
        ts_cuda_extra_strides(emission, ts_cuda_port_cotangent(program), value, storage, extra);
        return ts_cuda_slot(emission, ts_cuda_port_cotangent(program));
    }
    /* One element for all: no label has a stride. */
    *extra = (ts_extra_strides){v->labels, 0, storage};
    return ts_cuda_at(emission->memory + program->slots_offset +
                      ((size_t)program->port_count + TS_CUDA_SLOT_ONE) * sizeof(uint64_t));
}

static ts_cuda_pointer arena_cotangent(const ts_cuda_emission *emission, int32_t value)
{
    const ts_cuda_program *program = emission->program;
    const int64_t offset =
        program->cotangent_offsets != NULL ? program->cotangent_offsets[value] : program->plan->values[value].cotangent_offset;
    return ts_cuda_at(emission->memory + program->arena_offset + (uint64_t)offset);
}

ts_cuda_pointer ts_cuda_cotangent_of(const ts_cuda_emission *emission, int32_t value, int64_t *storage,
                                     ts_extra_strides *extra)
{
    const ts_cuda_program *program = emission->program;
    const ts_value *v = &program->plan->values[value];

    if (v->place == TS_PLACE_ARENA) {
        ts_cuda_compact_extra(emission, value, extra);
        return arena_cotangent(emission, value);
    }
    if (emission->signature->told_apart) {
        ts_cuda_output_extra(emission, storage, extra);
        return ts_cuda_slot(emission, program->port_count + TS_CUDA_SLOT_SEED);
    }
    return given_cotangent(emission, storage, extra);
}

/* Taking a slice's result into the output, or making its cotangent. */
static tensum_status emit_slices(const ts_cuda_emission *emission, ts_cuda_kernel kernel)
{
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    int32_t output = (int32_t)program->input_count;
    const ts_value *v = &plan->values[output];
    ts_mode modes[64];
    int64_t compact[64], given[64];
    ts_extra_strides compact_extra, given_extra;
    ts_cuda_slices p = {0};

    p.g = given_cotangent(emission, given, &given_extra);
    ts_cuda_output_extra(emission, compact, &compact_extra);
    for (int32_t i = 0; i < v->rank; i++) {
        modes[i].extent = ts_plan_extent(plan, v->labels[i]);
        modes[i].a = modes[i].w = modes[i].d = compact[i];
        modes[i].b = 0;
        modes[i].c = ts_cuda_port_stride(program, emission->signature, output, v->labels[i]);
        modes[i].g = given_extra.count > 0 ? given[i] : 0;
    }
    p.a = ts_cuda_slot(emission, program->port_count + TS_CUDA_SLOT_PARTIAL);
    p.c = ts_cuda_slot(emission, output);
    p.w = ts_cuda_slot(emission, program->port_count + TS_CUDA_SLOT_SLICE_OF);
    p.d = ts_cuda_slot(emission, program->port_count + TS_CUDA_SLOT_SEED);
    p.slice_slot = ts_cuda_slot(emission, program->port_count + TS_CUDA_SLOT_SLICE).slot;
    p.elements = v->elements;
    return ts_cuda_add_slices(emission->list, &program->pair, kernel, &p, modes, v->rank);
}

ts_cuda_pointer ts_cuda_gradient_of(const ts_cuda_emission *emission, int32_t value, int64_t *storage,
                                    ts_extra_strides *extra)
{
    const ts_cuda_program *program = emission->program;
    const ts_value *v = &program->plan->values[value];

    if (v->place == TS_PLACE_ARENA) {
        ts_cuda_compact_extra(emission, value, extra);
        return arena_cotangent(emission, value);
    }
    ts_cuda_extra_strides(emission, ts_cuda_port_gradient(program, value), value, storage, extra);
    return ts_cuda_slot(emission, ts_cuda_port_gradient(program, value));
}

ts_cuda_switch ts_cuda_adds_up(const ts_cuda_emission *emission, int32_t value)
{
    const tensum_plan *plan = emission->program->plan;
    return (ts_cuda_switch){0, plan->slice_total > 1 && plan->values[value].place == TS_PLACE_INPUT ? 1u : 0u};
}

/* The other operand of a contract in the gradient dtype: itself, or a converted copy in scratch. */
static tensum_status converted(const ts_cuda_emission *emission, int32_t value, ts_cuda_pointer *pointer, bool *compact)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const ts_value *v = &program->plan->values[value];
    ts_mode modes[TS_CUDA_MOST_MODES];
    int64_t stride = 1;
    size_t bytes = (size_t)v->elements * tensum_dtype_bytes(program->gradient);

    *pointer = ts_cuda_value_pointer(emission, value);
    *compact = false;
    if (program->gradient == program->plan->algebra.dtype) {
        return TENSUM_OK;
    }
    for (int32_t i = v->rank - 1; i >= 0; i--) {
        modes[i] = (ts_mode){0};
        modes[i].extent = ts_plan_extent(program->plan, v->labels[i]);
        modes[i].a = ts_stride_of(program->plan, emission->strides, value, v->labels[i]);
        modes[i].c = stride;
        stride *= modes[i].extent;
    }
    if (bytes > emission->list->convert_bytes) {
        emission->list->convert_bytes = bytes;
    }
    TRY(ts_cuda_add_convert(emission->list, &program->common, modes, v->rank, *pointer,
                            ts_cuda_at(emission->memory + program->convert_offset)));
    *pointer = ts_cuda_at(emission->memory + program->convert_offset);
    *compact = true;
done:
    return status;
}

/* Let a value have the strides of a compact copy for a while; its own are kept in saved [64]. */
static void make_compact(const tensum_plan *plan, int32_t value, ts_strides *strides, int64_t *saved)
{
    const ts_value *v = &plan->values[value];
    int64_t *own = strides->strides + strides->first[value], stride = 1;

    memcpy(saved, own, (size_t)v->rank * sizeof *saved);
    for (int32_t i = v->rank - 1; i >= 0; i--) {
        own[i] = stride;
        stride *= ts_plan_extent(plan, v->labels[i]) > 0 ? ts_plan_extent(plan, v->labels[i]) : 1;
    }
}

static tensum_status emit_adjoint(const ts_cuda_emission *emission, const ts_step *step, int side)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    int32_t operand = side == 0 ? step->a : step->b, other = side == 0 ? step->b : step->a;
    ts_mode modes[TS_CUDA_MOST_MODES];
    int64_t g_storage[64], d_storage[64], w_storage[64], saved[64];
    uint8_t winner_bytes = step->winner_bytes;
    ts_extra_strides g_extra, d_extra, w_extra;
    ts_cuda_pointer g = ts_cuda_cotangent_of(emission, step->c, g_storage, &g_extra);
    ts_cuda_pointer d = ts_cuda_gradient_of(emission, operand, d_storage, &d_extra);
    ts_cuda_pointer w = ts_cuda_at(emission->memory + program->arena_offset + (uint64_t)step->winner_offset);
    ts_cuda_switch accumulate = ts_cuda_adds_up(emission, operand);

    ts_cuda_compact_extra(emission, step->c, &w_extra);
    if (step->winner_offset < 0) {
        winner_bytes = 0;
    }
    if (plan->values[step->c].place == TS_PLACE_OUTPUT && winner_bytes != 0) {
        if (emission->signature->where[ts_cuda_port_winners(program)] != TS_CUDA_UNUSED) {
            winner_bytes = emission->signature->winner_bytes;
            w = ts_cuda_slot(emission, ts_cuda_port_winners(program));
            ts_cuda_extra_strides(emission, ts_cuda_port_winners(program), step->c, w_storage, &w_extra);
        } else {
            ts_cuda_row_major_extra(emission, step->c, w_storage, &w_extra);
        }
    }
    if (step->kind == TS_STEP_REDUCE) {
        ts_reduce_adjoint_spec spec;
        ts_reduce_adjoint_spec_build(plan, emission->strides, step, &w_extra, &g_extra, &d_extra, modes, &spec);
        spec.winner_bytes = winner_bytes;
        TRY(ts_cuda_add_reduce_adjoint(emission->list, &program->pair, &spec, ts_cuda_value_pointer(emission, step->a),
                                       ts_cuda_value_pointer(emission, step->c), w, g, d, accumulate));
    } else if (plan->algebra.semiring == TENSUM_SUM_PRODUCT) {
        ts_contract_spec spec;
        ts_cuda_pointer b;
        bool compact, added;
        TRY(converted(emission, other, &b, &compact));
        TRY(ts_cutensor_emit(emission, (int32_t)(step - plan->steps), side, g, b, d, accumulate, &added));
        if (added) {
            return TENSUM_OK;
        }
        if (compact) {
            make_compact(plan, other, emission->strides, saved);
        }
        ts_adjoint_contract_build(plan, emission->strides, step, side, &g_extra, &d_extra, modes, &spec);
        if (compact) {
            memcpy(emission->strides->strides + emission->strides->first[other], saved,
                   (size_t)plan->values[other].rank * sizeof *saved);
        }
        TRY(ts_cuda_add_contract(emission->list, &program->sum, &spec, g, b, d, ts_cuda_at(0), accumulate));
    } else {
        ts_adjoint_spec spec;
        ts_adjoint_spec_build(plan, emission->strides, step, side, &w_extra, &g_extra, &d_extra, modes, &spec);
        spec.winner_bytes = winner_bytes;
        TRY(ts_cuda_add_adjoint(emission->list, &program->pair, &spec, ts_cuda_value_pointer(emission, step->a),
                                ts_cuda_value_pointer(emission, step->b), ts_cuda_value_pointer(emission, step->c), w, g,
                                d, accumulate));
    }
done:
    return status;
}

/* Does a run want the gradient of anything below a value? Marks program-wide scratch `wanted` [value_count]. */
static void mark_wanted(const ts_cuda_emission *emission)
{
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    uint8_t *wanted = emission->wanted;

    for (int32_t v = 0; v < plan->value_count; v++) {
        wanted[v] = v < program->input_count &&
                    emission->signature->where[ts_cuda_port_gradient(program, v)] != TS_CUDA_UNUSED;
    }
    for (int32_t s = 0; s < plan->step_count; s++) {
        const ts_step *step = &plan->steps[s];
        wanted[step->c] = (step->a >= 0 && wanted[step->a]) || (step->b >= 0 && wanted[step->b]);
    }
}

/* Fill gradients whose elements are not all written by one launch: diagonals, and those that slices add up in. */
static tensum_status emit_gradient_fills(const ts_cuda_emission *emission)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    const tensum_network *network = plan->network;
    ts_element zero;

    memset(&zero, 0, sizeof zero);
    for (int32_t v = 0; v < program->input_count; v++) {
        int64_t effective = 0;
        if (!emission->wanted[v]) {
            continue;
        }
        for (int64_t m = network->offsets[v]; m < network->offsets[v + 1]; m++) {
            effective += network->raw_extents[m] != 1;
        }
        if (plan->slice_total != 1 || effective > plan->values[v].rank) {
            TRY(ts_cuda_fill_port(emission, ts_cuda_port_gradient(program, v), &program->gradient_common, &zero));
        }
    }
done:
    return status;
}

/* ---- tracing ---- */

static int32_t put_labels(const ts_cuda_emission *emission, const ts_step *step, const int32_t *labels, int32_t count,
                          ts_cuda_decode_label *target)
{
    const tensum_plan *plan = emission->program->plan;
    for (int32_t i = 0; target != NULL && i < count; i++) {
        memset(&target[i], 0, sizeof target[i]);
        target[i].extent = ts_plan_extent(plan, labels[i]);
        target[i].a = ts_stride_of(plan, emission->strides, step->a, labels[i]);
        target[i].b = step->b >= 0 ? ts_stride_of(plan, emission->strides, step->b, labels[i]) : 0;
        target[i].label = labels[i];
        ts_cuda_magic(target[i].extent, &target[i].magic, &target[i].shift);
    }
    return count;
}

static int32_t put_step_labels(const ts_cuda_emission *emission, const ts_step *step, ts_cuda_decode_label *labels)
{
    int32_t count = 0;
    count += put_labels(emission, step, step->batch, step->batch_count, labels != NULL ? labels + count : NULL);
    count += put_labels(emission, step, step->left, step->left_count, labels != NULL ? labels + count : NULL);
    count += put_labels(emission, step, step->right, step->right_count, labels != NULL ? labels + count : NULL);
    count += put_labels(emission, step, step->sum, step->sum_count, labels != NULL ? labels + count : NULL);
    return count;
}

static size_t label_bytes(size_t offset, int32_t count)
{
    return offset + (size_t)(count > TS_CUDA_INLINE_LABELS ? 0 : count) * sizeof(ts_cuda_decode_label);
}

bool ts_cuda_is_empty(const tensum_plan *plan, const ts_step *step)
{
    return plan->values[step->a].elements == 0 || (step->b >= 0 && plan->values[step->b].elements == 0);
}

/* The values of the output at the positions to be decoded. */
static tensum_status emit_gather(const ts_cuda_emission *emission, int64_t positions)
{
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    int32_t output = (int32_t)program->input_count;
    const ts_value *v = &plan->values[output];
    ts_cuda_gather p = {0};

    for (int32_t i = 0; i < v->rank; i++) { /* at most 64 */
        p.table[i].extent = ts_plan_extent(plan, v->labels[i]);
        p.table[i].a = ts_cuda_port_stride(program, emission->signature, output, v->labels[i]);
        p.table[i].label = v->labels[i];
    }
    p.a = ts_cuda_slot(emission, output);
    p.assignments = emission->memory + program->decode_offset;
    p.result = emission->memory + program->decode_values_offset;
    p.assignment_count = plan->network->label_count;
    p.positions = positions;
    p.tile_count = (positions + TS_CUDA_THREADS - 1) / TS_CUDA_THREADS;
    p.label_count = v->rank;
    return ts_cuda_add_launch(emission->list, &program->common, TS_CUDA_KERNEL_GATHER, ts_cuda_grid(p.tile_count),
                              TS_CUDA_THREADS, 0, &p, label_bytes(offsetof(ts_cuda_gather, table), v->rank));
}

/* Sort the steps by their distance from the root. order [step_count]; first [step_count + 1]: where levels begin. Returns how
 * many levels there are. */
static int32_t sort_by_level(const tensum_plan *plan, int32_t *level_of, int32_t *order, int32_t *first)
{
    int32_t levels = 0, count = 0;
    for (int32_t s = plan->step_count - 1; s >= 0; s--) {
        const int32_t consumer = plan->values[plan->steps[s].c].consumer;
        level_of[s] = consumer < 0 ? 0 : level_of[consumer] + 1;
        levels = level_of[s] + 1 > levels ? level_of[s] + 1 : levels;
    }
    for (int32_t s = 0; s < plan->step_count; s++) {
        first[level_of[s] + 1] += plan->steps[s].kind != TS_STEP_ONE;
    }
    for (int32_t level = 0; level < levels; level++) {
        first[level + 1] += first[level];
    }
    for (int32_t s = plan->step_count - 1; s >= 0; s--) { /* `first` moves on, and back below */
        if (plan->steps[s].kind != TS_STEP_ONE) {
            order[first[level_of[s]]++] = s;
            count++;
        }
    }
    for (int32_t level = levels; level > 0; level--) {
        first[level] = first[level - 1];
    }
    first[0] = 0;
    first[levels] = count;
    return levels;
}

static tensum_status emit_route(const ts_cuda_emission *emission)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    const size_t step_count = (size_t)plan->step_count;
    ts_cuda_route p = {0};
    ts_cuda_route_step *steps;
    ts_cuda_decode_label *labels;
    ts_cu_address steps_address, labels_address, levels_address;
    int64_t storage[64];
    ts_extra_strides extra;
    int32_t label_total = 0, first = 0, *level_of = NULL, *order = NULL, *firsts = NULL, *levels;

    TRY(ts_allocate(step_count, sizeof *level_of, "the levels of a program", &level_of));
    TRY(ts_allocate(step_count, sizeof *order, "the levels of a program", &order));
    TRY(ts_allocate_zero(step_count + 2, sizeof *firsts, "the levels of a program", &firsts));
    p.level_count = sort_by_level(plan, level_of, order, firsts);
    p.step_count = firsts[p.level_count];
    for (int32_t s = 0; s < plan->step_count; s++) {
        label_total += ts_step_modes(&plan->steps[s]);
    }
    ts_cuda_add_table(emission->list, step_count * sizeof *steps, &steps, &steps_address);
    ts_cuda_add_table(emission->list, (size_t)label_total * sizeof *labels, &labels, &labels_address);
    ts_cuda_add_table(emission->list, (step_count + 1) * sizeof *levels, &levels, &levels_address);
    if (levels != NULL) {
        memcpy(levels, firsts, (step_count + 1) * sizeof *levels);
    }
    for (int32_t i = 0; i < p.step_count && steps != NULL; i++) {
        const ts_step *step = &plan->steps[order[i]];
        ts_cuda_route_step *target = &steps[i];
        memset(target, 0, sizeof *target);
        target->a = ts_cuda_value_pointer(emission, step->a);
        target->value_a = step->a;
        target->value_b = -1;
        if (step->b >= 0) {
            target->b = ts_cuda_value_pointer(emission, step->b);
            target->value_b = step->b;
            target->tie_a = plan->values[step->a].lowest_input < plan->values[step->b].lowest_input;
        }
        target->value_c = step->c;
        target->first_label = first;
        target->label_count = put_step_labels(emission, step, labels + first);
        target->empty = ts_cuda_is_empty(plan, step);
        first += target->label_count;
    }
    p.seed = given_cotangent(emission, storage, &extra);
    p.steps = steps_address;
    p.levels = levels_address;
    p.labels = labels_address;
    p.assignment = emission->memory + program->decode_offset;
    p.cotangents = emission->memory + program->cotangents_offset;
    p.operands = emission->memory + program->operands_offset;
    p.carries = emission->memory + program->carries_offset;
    p.tile_count = 1;
    p.root = (int32_t)program->input_count;
    TRY(ts_cuda_add_launch(emission->list, &program->pair, TS_CUDA_KERNEL_ROUTE, 1, TS_CUDA_THREADS, 0, &p, sizeof p));
done:
    ts_free(level_of);
    ts_free(order);
    ts_free(firsts);
    return status;
}

static tensum_status emit_one_hot(const ts_cuda_emission *emission)
{
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    const tensum_network *network = plan->network;
    ts_cuda_one_hot p = {0};
    ts_cuda_one_hot_item *items;
    ts_cuda_one_hot_mode *modes;
    ts_cu_address items_address, modes_address;
    int32_t count = 0, mode_count = 0;
    int64_t tiles = 0;

    ts_cuda_add_table(emission->list, (size_t)program->input_count * sizeof *items, &items, &items_address);
    ts_cuda_add_table(emission->list, (size_t)network->offsets[program->input_count] * sizeof *modes, &modes,
                      &modes_address);
    for (int32_t v = 0; v < program->input_count; v++) {
        int32_t port = ts_cuda_port_gradient(program, v);
        int64_t elements = 1;
        int32_t first = mode_count;
        if (!emission->wanted[v]) {
            continue;
        }
        for (int64_t m = network->offsets[v]; m < network->offsets[v + 1]; m++) {
            elements *= network->raw_extents[m];
            if (network->raw_extents[m] == 1) {
                continue;
            }
            if (modes != NULL) {
                ts_cuda_one_hot_mode *mode = &modes[mode_count];
                memset(mode, 0, sizeof *mode);
                mode->extent = network->raw_extents[m];
                mode->stride = emission->signature->strides[program->port_modes[port] + (m - network->offsets[v])];
                mode->label = network->raw_labels[m];
                ts_cuda_magic(mode->extent, &mode->magic, &mode->shift);
            }
            mode_count++;
        }
        if (elements == 0) {
            mode_count = first;
            continue;
        }
        if (items != NULL) {
            items[count].d = ts_cuda_slot(emission, port);
            items[count].elements = elements;
            items[count].first_tile = tiles;
            items[count].first_mode = first;
            items[count].mode_count = mode_count - first;
            items[count].wide = elements >= (int64_t)1 << 31;
            items[count].value = v;
        }
        tiles += (elements + TS_CUDA_THREADS - 1) / TS_CUDA_THREADS;
        count++;
    }
    if (count == 0) {
        return TENSUM_OK;
    }
    p.items = items_address;
    p.modes = modes_address;
    p.assignment = emission->memory + program->decode_offset;
    p.cotangents = emission->memory + program->cotangents_offset;
    p.tile_count = tiles;
    p.item_count = count;
    return ts_cuda_add_launch(emission->list, &program->gradient_common, TS_CUDA_KERNEL_ONE_HOT, ts_cuda_grid(tiles),
                              TS_CUDA_THREADS, 0, &p, sizeof p);
}

tensum_status ts_cuda_emit_backward(const ts_cuda_emission *emission)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;

    if ((program->modes & TENSUM_GRADIENT) != 0) {
        mark_wanted(emission);
    }
    if (emission->signature->told_apart) {
        emission->list->phase = TS_CUDA_PHASE_ABSORB;
        TRY(emit_slices(emission, TS_CUDA_KERNEL_ABSORB));
        if ((program->modes & TENSUM_GRADIENT) != 0 && !program->traces) {
            emission->list->phase = TS_CUDA_PHASE_SEED;
            TRY(emit_slices(emission, TS_CUDA_KERNEL_SEED));
        }
    }
    if (program->traces) {
        if (plan->slice_total == 0) {
            emission->list->phase = TS_CUDA_PHASE_GRADIENT_FILL;
            TRY(emit_gradient_fills(emission));
        }
        emission->list->phase = TS_CUDA_PHASE_BACKWARD;
        TRY(ts_cuda_emit_path(emission, 1));
        TRY(emit_route(emission));
        TRY(emit_one_hot(emission));
    } else if ((program->modes & TENSUM_GRADIENT) != 0) {
        emission->list->phase = TS_CUDA_PHASE_GRADIENT_FILL;
        TRY(emit_gradient_fills(emission));
        emission->list->phase = TS_CUDA_PHASE_BACKWARD;
        for (int32_t s = plan->step_count - 1; s >= 0; s--) {
            const ts_step *step = &plan->steps[s];
            bool done;
            TRY(ts_cuda_emit_tree_back(emission, s, &done));
            if (!done) {
                TRY(ts_cuda_emit_chain_back(emission, s, &done));
            }
            if (done) {
                continue;
            }
            if (step->a >= 0 && emission->wanted[step->a]) {
                TRY(emit_adjoint(emission, step, 0));
            }
            if (step->b >= 0 && emission->wanted[step->b]) {
                TRY(emit_adjoint(emission, step, 1));
            }
        }
        TRY(ts_cuda_emit_pure_trees_back(emission));
    }
    if ((program->modes & TENSUM_DECODE) != 0 && emission->signature->positions > 0) {
        emission->list->phase = TS_CUDA_PHASE_DECODE;
        TRY(emit_gather(emission, emission->signature->positions));
        TRY(ts_cuda_emit_path(emission, emission->signature->positions));
    }
done:
    return status;
}
