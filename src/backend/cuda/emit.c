/* From the steps of a plan to launches. */
#include "backend/cuda/chain.h"
#include "backend/cuda/tree.h"

int64_t ts_cuda_port_operand(const ts_cuda_program *program, int32_t port)
{
    int64_t n = program->input_count;
    return port < n ? port : port < n + 3 ? n : port - n - 3;
}

size_t ts_cuda_port_element_bytes(const ts_cuda_program *program, int32_t port)
{
    int64_t n = program->input_count;
    if (port <= n) {
        return tensum_dtype_bytes(program->plan->algebra.dtype);
    }
    if (port == n + 1) {
        return 8; /* winners: the most; the run's tensor tells */
    }
    return tensum_dtype_bytes(program->gradient);
}

void ts_cuda_compact_strides(const ts_cuda_program *program, int32_t port, int64_t *strides)
{
    const tensum_network *network = program->plan->network;
    int64_t operand = ts_cuda_port_operand(program, port);
    int64_t first = network->offsets[operand], past = network->offsets[operand + 1];
    int64_t stride = 1;

    for (int64_t m = past - 1; m >= first; m--) {
        strides[m - first] = stride;
        stride *= network->raw_extents[m] > 0 ? network->raw_extents[m] : 1;
    }
}

int64_t ts_cuda_port_stride(const ts_cuda_program *program, const ts_cuda_signature *signature, int32_t port,
                            int32_t label)
{
    const tensum_network *network = program->plan->network;
    int64_t operand = ts_cuda_port_operand(program, port);
    const int64_t *strides = signature->strides + program->port_modes[port];
    int64_t first = network->offsets[operand], past = network->offsets[operand + 1];
    int64_t stride = 0;

    for (int64_t m = first; m < past; m++) {
        if (network->raw_labels[m] == label && network->raw_extents[m] != 1) {
            stride += strides[m - first];
        }
    }
    return stride;
}

void ts_cuda_extra_strides(const ts_cuda_emission *emission, int32_t port, int32_t value, int64_t *storage,
                           ts_extra_strides *extra)
{
    const ts_value *v = &emission->program->plan->values[value];

    for (int32_t i = 0; i < v->rank; i++) {
        storage[i] = emission->list->measure
                         ? 1
                         : ts_cuda_port_stride(emission->program, emission->signature, port, v->labels[i]);
    }
    *extra = (ts_extra_strides){v->labels, v->rank, storage};
}

void ts_cuda_compact_extra(const ts_cuda_emission *emission, int32_t value, ts_extra_strides *extra)
{
    const ts_value *v = &emission->program->plan->values[value];
    *extra = (ts_extra_strides){v->labels, v->rank, emission->strides->strides + emission->strides->first[value]};
}

void ts_cuda_row_major_extra(const ts_cuda_emission *emission, int32_t value, int64_t *storage, ts_extra_strides *extra)
{
    const tensum_plan *plan = emission->program->plan;
    const ts_value *v = &plan->values[value];
    int64_t stride = 1;

    for (int32_t i = v->rank - 1; i >= 0; i--) {
        storage[i] = stride;
        stride *= ts_max64(1, ts_plan_extent(plan, v->labels[i]));
    }
    *extra = (ts_extra_strides){v->labels, v->rank, storage};
}

int64_t ts_cuda_output_stride(const ts_cuda_program *program, int32_t label)
{
    const tensum_network *network = program->plan->network;
    int64_t first = network->offsets[program->input_count], past = network->offsets[program->input_count + 1];
    int64_t compact = 1, stride = 0;

    for (int64_t m = past - 1; m >= first; m--) {
        if (network->raw_labels[m] == label && network->raw_extents[m] != 1) {
            stride += compact;
        }
        compact *= ts_max64(network->raw_extents[m], 1);
    }
    return stride;
}

void ts_cuda_output_extra(const ts_cuda_emission *emission, int64_t *storage, ts_extra_strides *extra)
{
    const ts_value *v = &emission->program->plan->values[emission->program->input_count];

    for (int32_t i = 0; i < v->rank; i++) {
        storage[i] = emission->list->measure ? 1 : ts_cuda_output_stride(emission->program, v->labels[i]);
    }
    *extra = (ts_extra_strides){v->labels, v->rank, storage};
}

ts_cuda_pointer ts_cuda_slot(const ts_cuda_emission *emission, int32_t slot)
{
    return ts_cuda_in_slot(emission->memory + emission->program->slots_offset + (size_t)slot * 8, 0);
}

ts_cuda_pointer ts_cuda_value_pointer(const ts_cuda_emission *emission, int32_t value)
{
    const ts_cuda_program *program = emission->program;
    const ts_value *v = &program->plan->values[value];

    if (v->place == TS_PLACE_ARENA) {
        int64_t offset = program->value_offsets != NULL ? program->value_offsets[value]
                         : emission->keep               ? v->keep_offset
                                                        : v->value_offset;
        return ts_cuda_at(emission->memory + program->arena_offset + (uint64_t)offset);
    }
    if (v->place == TS_PLACE_OUTPUT && emission->signature->told_apart) {
        return ts_cuda_slot(emission, program->port_count + TS_CUDA_SLOT_PARTIAL);
    }
    /* Values 0..n-1 are the inputs and value n is the output, as ports are. */
    return ts_cuda_slot(emission, value);
}

tensum_status ts_cuda_fill_port(const ts_cuda_emission *emission, int32_t port, const ts_cuda_kernels *common,
                                const void *value)
{
    const ts_cuda_program *program = emission->program;
    const tensum_network *network = program->plan->network;
    int64_t operand = ts_cuda_port_operand(program, port);
    int64_t first = network->offsets[operand], past = network->offsets[operand + 1];
    ts_mode modes[TS_CUDA_MOST_MODES];
    int32_t count = 0;

    for (int64_t m = first; m < past; m++) { /* at most 64 are not of extent 1 */
        if (network->raw_extents[m] == 1) {
            continue;
        }
        modes[count] = (ts_mode){0};
        modes[count].extent = network->raw_extents[m];
        modes[count++].c =
            emission->list->measure ? 1 : emission->signature->strides[program->port_modes[port] + (m - first)];
    }
    return ts_cuda_add_fill(emission->list, common, modes, count, value, ts_cuda_slot(emission, port));
}

static tensum_status emit_forward(const ts_cuda_emission *emission, const ts_step *step)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    const ts_cuda_signature *signature = emission->signature;
    const ts_value *c = &plan->values[step->c];
    ts_mode modes[TS_CUDA_MOST_MODES];
    int64_t winner_strides[64];
    ts_extra_strides extra;
    const ts_extra_strides *winners = NULL;
    ts_cuda_pointer w = ts_cuda_at(0);
    ts_cuda_switch accumulate = {0, 0};
    uint8_t winner_bytes = 0;
    bool shared;

    if (ts_step_modes(step) > TS_CUDA_MOST_MODES) {
        TRY(ts_fail(TENSUM_STATUS_UNSUPPORTED, "cuda: a step has %d labels; at most %d are supported",
                    (int)ts_step_modes(step), TS_CUDA_MOST_MODES));
    }
    if (c->place == TS_PLACE_OUTPUT && signature->where[ts_cuda_port_output(program)] == TS_CUDA_UNUSED) {
        return TENSUM_OK;
    }
    if (c->place == TS_PLACE_OUTPUT && signature->accumulates) {
        accumulate.slot = ts_cuda_slot(emission, program->port_count + TS_CUDA_SLOT_ACCUMULATE).slot;
    }
    TRY(ts_cuda_emit_tree(emission, (int32_t)(step - plan->steps), &shared));
    if (!shared) {
        TRY(ts_cuda_emit_chain(emission, (int32_t)(step - plan->steps), accumulate, &shared));
    }
    if (shared) {
        return TENSUM_OK;
    }
    if (c->place == TS_PLACE_OUTPUT && signature->where[ts_cuda_port_winners(program)] != TS_CUDA_UNUSED) {
        winner_bytes = signature->winner_bytes;
        w = ts_cuda_slot(emission, ts_cuda_port_winners(program));
        ts_cuda_extra_strides(emission, ts_cuda_port_winners(program), step->c, winner_strides, &extra);
        winners = &extra;
    } else if (emission->keep && (program->modes & TENSUM_GRADIENT) != 0 && step->winner_offset >= 0) {
        winner_bytes = step->winner_bytes;
        w = ts_cuda_at(emission->memory + program->arena_offset + (uint64_t)step->winner_offset);
        ts_cuda_row_major_extra(emission, step->c, winner_strides, &extra);
        winners = &extra;
    }

    if (step->kind == TS_STEP_ONE) {
        ts_element one = ts_identity(plan->algebra, true);
        ts_reduce_spec spec;
        ts_reduce_spec_build(plan, emission->strides, step, NULL, modes, &spec);
        TRY(ts_cuda_add_fill(emission->list, &program->common, modes, spec.kept_count, &one,
                             ts_cuda_value_pointer(emission, step->c)));
    } else if (step->kind == TS_STEP_REDUCE) {
        ts_reduce_spec spec;
        ts_reduce_spec_build(plan, emission->strides, step, winners, modes, &spec);
        spec.winner_bytes = winner_bytes;
        TRY(ts_cuda_add_reduce(emission->list, &program->pair, &program->common, &spec,
                               ts_cuda_value_pointer(emission, step->a), ts_cuda_value_pointer(emission, step->c), w,
                               accumulate));
    } else {
        ts_contract_spec spec;
        ts_cuda_pointer a_pointer = ts_cuda_value_pointer(emission, step->a);
        ts_cuda_pointer b_pointer = ts_cuda_value_pointer(emission, step->b);
        ts_cuda_pointer c_pointer = ts_cuda_value_pointer(emission, step->c);
        bool added;
        TRY(ts_cutensor_emit(emission, (int32_t)(step - plan->steps), -1, a_pointer, b_pointer, c_pointer, accumulate,
                             &added));
        if (added) {
            return TENSUM_OK;
        }
        ts_contract_spec_build(plan, emission->strides, step, winners, modes, &spec);
        spec.winner_bytes = winner_bytes;
        if (program->vendor_direct) {
            TRY(ts_cutensor_emit_direct(emission, &spec, a_pointer, b_pointer, c_pointer, accumulate));
        }
        TRY(ts_cuda_add_contract(emission->list, &program->pair, &spec, a_pointer, b_pointer, c_pointer, w, accumulate));
        emission->list->fallback = false;
    }
done:
    return status;
}

/* The output starts from 0 of the semiring, winners from -1. */
static tensum_status emit_fills(const ts_cuda_emission *emission)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    ts_element zero = ts_identity(program->plan->algebra, false);

    if (emission->signature->told_apart) {
        ts_mode all = {.extent = program->output_elements, .c = 1};
        ts_element none;
        memset(&none, 0xff, sizeof none);
        TRY(ts_cuda_add_fill(emission->list, &program->wide_winner_common, &all, 1, &none,
                             ts_cuda_at(emission->memory + program->slice_of_offset)));
    }
    if (emission->signature->where[ts_cuda_port_output(program)] != TS_CUDA_UNUSED) {
        TRY(ts_cuda_fill_port(emission, ts_cuda_port_output(program), &program->common, &zero));
    }
    if (emission->signature->where[ts_cuda_port_winners(program)] != TS_CUDA_UNUSED) {
        ts_element none;
        memset(&none, 0xff, sizeof none);
        TRY(ts_cuda_fill_port(emission, ts_cuda_port_winners(program),
                              emission->signature->winner_bytes == 4 ? &program->winner_common
                                                                     : &program->wide_winner_common,
                              &none));
    }
done:
    return status;
}

/* One launch looks at all operands in device memory; those in host memory have been looked at there. */
static tensum_status emit_check(const ts_cuda_emission *emission, ts_cu_address verdict)
{
    const ts_cuda_program *program = emission->program;
    const tensum_network *network = program->plan->network;
    ts_cuda_check p = {0};
    ts_cuda_check_item *items;
    ts_cuda_mode *modes;
    ts_cu_address items_address, modes_address;
    int32_t count = 0, mode_count = 0;
    int64_t tiles = 0;

    ts_cuda_add_table(emission->list, (size_t)program->input_count * sizeof *items, &items, &items_address);
    ts_cuda_add_table(emission->list, (size_t)network->offsets[program->input_count] * sizeof *modes, &modes,
                      &modes_address);
    for (int32_t v = 0; v < program->input_count; v++) {
        int64_t elements = 1;
        int32_t first = mode_count;
        for (int64_t m = network->offsets[v]; m < network->offsets[v + 1]; m++) {
            elements *= network->raw_extents[m];
        }
        if (elements == 0 || emission->signature->where[v] != TS_CUDA_ON_DEVICE) {
            continue;
        }
        for (int64_t m = network->offsets[v]; m < network->offsets[v + 1]; m++) {
            if (network->raw_extents[m] == 1) {
                continue;
            }
            if (modes != NULL) {
                ts_cuda_mode *mode = &modes[mode_count];
                memset(mode, 0, sizeof *mode);
                mode->extent = network->raw_extents[m];
                mode->a = emission->signature->strides[program->port_modes[v] + (m - network->offsets[v])];
                ts_cuda_magic(mode->extent, &mode->magic, &mode->shift);
            }
            mode_count++;
        }
        if (items != NULL) {
            memset(&items[count], 0, sizeof items[count]);
            items[count].a = ts_cuda_slot(emission, v);
            items[count].elements = elements;
            items[count].first_tile = tiles;
            items[count].first_mode = first;
            items[count].mode_count = mode_count - first;
            items[count].operand = v;
            items[count].wide = elements >= (int64_t)1 << 31;
        }
        tiles += (elements + TS_CUDA_THREADS - 1) / TS_CUDA_THREADS;
        count++;
    }
    if (count == 0) {
        return TENSUM_OK;
    }
    p.items = items_address;
    p.modes = modes_address;
    p.verdict = verdict;
    p.tile_count = tiles;
    p.modulus = program->plan->algebra.modulus;
    p.item_count = count;
    return ts_cuda_add_launch(emission->list, &program->pair, TS_CUDA_KERNEL_CHECK, ts_cuda_grid(tiles),
                              TS_CUDA_THREADS, 0, &p, sizeof p);
}

tensum_status ts_cuda_emit(const ts_cuda_program *program, const ts_cuda_signature *signature, ts_cu_address memory,
                           ts_cu_address verdict, ts_cuda_room *room, ts_cuda_list *list)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    ts_strides *strides = &room->strides;
    ts_cuda_emission emission = {program, signature, memory, list, strides, room->wanted, false};
    bool fills = signature->accumulates || signature->told_apart;
    int64_t unused[64];

    emission.keep = (program->modes & (TENSUM_GRADIENT | TENSUM_DECODE)) != 0;
    ts_strides_start(plan, strides);
    for (int64_t v = 0; v <= program->input_count; v++) {
        if (list->measure) {
            /* Strides that let no two modes of a tensor be fused: what any run needs is no more than that. */
            for (int32_t i = 0; i < plan->values[v].rank; i++) {
                strides->strides[strides->first[v] + i] = 1;
            }
        } else {
            (void)ts_strides_bind(plan, strides, v, signature->strides + program->port_modes[v], unused);
        }
    }
    for (int32_t s = 0; s < plan->step_count; s++) {
        fills = fills || plan->steps[s].fill_zero;
    }
    if (program->check) {
        list->phase = TS_CUDA_PHASE_CHECK;
        TRY(emit_check(&emission, verdict));
    }
    if (signature->told_apart && !list->measure) {
        const ts_value *output = &plan->values[program->input_count];
        for (int32_t i = 0; i < output->rank; i++) {
            strides->strides[strides->first[program->input_count] + i] =
                ts_cuda_output_stride(program, output->labels[i]);
        }
    }
    list->phase = TS_CUDA_PHASE_FILL;
    if (fills && !program->saved) {
        TRY(emit_fills(&emission));
    }
    for (int invariant = 1; invariant >= 0 && !program->saved; invariant--) {
        list->phase = invariant ? TS_CUDA_PHASE_ONCE : TS_CUDA_PHASE_SLICE;
        TRY(ts_cuda_emit_pure_trees(&emission, invariant != 0));
    }
    for (int32_t s = 0; s < plan->step_count && !program->saved; s++) {
        const ts_step *step = &plan->steps[s];
        list->phase = step->invariant ? TS_CUDA_PHASE_ONCE : TS_CUDA_PHASE_SLICE;
        TRY(emit_forward(&emission, step));
    }
    TRY(ts_cuda_emit_backward(&emission));
done:
    return status;
}
