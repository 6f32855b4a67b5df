#include "backend/cuda/cutensor/steps.h"

#include "backend/cuda/emit.h"
#include "backend/cuda/fuse.h"

/* ---- compiling ---- */

/* All that lies in a workspace is aligned so. */
static const int32_t workspace_alignments[3] = {128, 128, 128};

static bool always(const ts_cuda_program *program) { return program->vendor_choice == TENSUM_CUTENSOR_ALWAYS; }

static int64_t value_bytes(const ts_cuda_program *program, int32_t value)
{
    return program->plan->values[value].elements * (int64_t)tensum_dtype_bytes(program->plan->algebra.dtype);
}

/* Is it one of the run's tensors? */
static bool is_outside(const ts_cuda_program *program, int32_t value)
{
    return program->plan->values[value].place != TS_PLACE_ARENA;
}

static int64_t copied_bytes(const ts_cuda_program *program, int32_t value)
{
    return is_outside(program, value) ? 2 * value_bytes(program, value) : 0;
}

/* One contraction of the caller's tensors and nothing else. */
static bool is_single(const ts_cuda_program *program)
{
    const tensum_plan *plan = program->plan;
    return plan->step_count == 1 && plan->steps[0].kind == TS_STEP_CONTRACT && plan->slice_total == 1 &&
           program->modes == TENSUM_VALUE && ts_step_modes(&plan->steps[0]) <= TS_CUDA_MOST_MODES;
}

static bool wins(const ts_cuda_program *program, const ts_contract_spec *spec, int64_t copied)
{
    return always(program) || ts_cutensor_wins(program->device->capability, spec->algebra.dtype, spec->batch, spec->left,
                                               spec->right, spec->sum, copied, is_single(program));
}

/* Find the plan of one contraction; none is no failure, unless the library was demanded and broke down. */
static tensum_status find(ts_cuda_program *program, const ts_contract_spec *spec, int64_t copied, ts_cutensor_step *step)
{
    tensum_status status = TENSUM_OK;
    ts_cutensor_key key;

    step->plan = NULL;
    if (!wins(program, spec, copied) || !ts_cutensor_key_make(spec, workspace_alignments, &key, &step->swapped)) {
        return TENSUM_OK;
    }
    status = ts_cutensor_plan_find(program->device, &key, &step->plan);
    if (status == TENSUM_OK) {
        program->vendor_bytes =
            step->plan->scratch_bytes > program->vendor_bytes ? step->plan->scratch_bytes : program->vendor_bytes;
    }
    return status == TENSUM_STATUS_UNSUPPORTED || !always(program) ? TENSUM_OK : status;
}

static void note_copy(ts_cuda_program *program, int32_t value, int place)
{
    size_t bytes = (size_t)value_bytes(program, value);
    if (is_outside(program, value) && bytes > program->copy_bytes[place]) {
        program->copy_bytes[place] = bytes;
    }
}

/* Is the step done together with others, in one launch of ours? */
static bool is_fused(const ts_cuda_program *program, int32_t s)
{
    return (program->chain_of != NULL && program->chain_of[s] >= 0) || (program->tree_of != NULL && program->tree_of[s] >= 0);
}

static tensum_status compile_step(ts_cuda_program *program, const ts_strides *strides, int32_t s)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    const ts_step *step = &plan->steps[s];
    ts_cutensor_step *vendor = &program->vendor[3 * s];
    const ts_value *c = &plan->values[step->c];
    ts_extra_strides g = {c->labels, c->rank, strides->strides + strides->first[step->c]};
    ts_mode modes[TS_CUDA_MOST_MODES];
    ts_contract_spec spec;

    if (step->kind != TS_STEP_CONTRACT || ts_step_modes(step) > TS_CUDA_MOST_MODES) {
        return TENSUM_OK;
    }
    if (!is_fused(program, s)) {
        ts_contract_spec_build(plan, strides, step, NULL, modes, &spec);
        TRY(find(program, &spec,
                 copied_bytes(program, step->a) + copied_bytes(program, step->b) + copied_bytes(program, step->c), vendor));
    }
    if (vendor->plan != NULL) {
        note_copy(program, step->a, 0);
        note_copy(program, step->b, 1);
        note_copy(program, step->c, 2);
    }
    for (int side = 0; side < 2 && (program->modes & TENSUM_GRADIENT) != 0 && !ts_cuda_goes_back(program, s); side++) {
        int32_t operand = side == 0 ? step->a : step->b, other = side == 0 ? step->b : step->a;
        bool converts = program->gradient != plan->algebra.dtype;
        if (is_outside(program, step->c) || is_outside(program, operand)) {
            continue; /* the caller's cotangent may be anything, and his gradients add up */
        }
        ts_adjoint_contract_build(plan, strides, step, side, &g, NULL, modes, &spec);
        TRY(find(program, &spec, converts ? 0 : copied_bytes(program, other), &vendor[1 + side]));
        if (vendor[1 + side].plan != NULL && !converts) {
            note_copy(program, other, 1);
        }
    }
done:
    return status;
}

tensum_status ts_cutensor_compile(ts_cuda_program *program)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    const ts_cutensor_library *library;
    ts_cuda_room room = {0};
    bool any = false;

    program->vendor_choice = atomic_load(&program->device->cutensor.choice);
    if (program->vendor_choice == TENSUM_CUTENSOR_NEVER || plan->algebra.semiring != TENSUM_SUM_PRODUCT) {
        return TENSUM_OK;
    }
    /* The library is large: it is opened once there is something for it to do. */
    for (int32_t s = 0; s < plan->step_count && !any; s++) {
        const ts_step *step = &plan->steps[s];
        ts_contract_spec spec = {.algebra = plan->algebra, .batch = step->batch_size, .left = step->left_size,
                                 .right = step->right_size, .sum = step->sum_size};
        any = step->kind == TS_STEP_CONTRACT && wins(program, &spec, 0);
    }
    if (!any || ts_cutensor_open(&library) != TENSUM_OK) {
        return TENSUM_OK;
    }
    if (is_single(program)) {
        program->vendor_direct = true;
        return TENSUM_OK;
    }
    TRY(ts_cuda_room_create(plan, &room));
    TRY(ts_allocate_zero(3 * (size_t)plan->step_count, sizeof *program->vendor, "the plans of a program",
                         &program->vendor));
    ts_strides_start(plan, &room.strides);
    for (int32_t s = 0; s < plan->step_count; s++) {
        TRY(compile_step(program, &room.strides, s));
    }
done:
    ts_cuda_room_free(&room);
    return status;
}

void ts_cutensor_forget(ts_cuda_program *program)
{
    for (int32_t i = 0; program->vendor != NULL && i < 3 * program->plan->step_count; i++) {
        ts_cutensor_plan_release(program->vendor[i].plan);
    }
    ts_free(program->vendor);
    program->vendor = NULL;
    program->vendor_bytes = 0;
    memset(program->copy_bytes, 0, sizeof program->copy_bytes);
}

/* ---- lists ---- */

static void add_call(ts_cuda_list *list, const ts_cutensor_call *call)
{
    if (!list->measure) {
        ts_cuda_launch *launch = &list->launches[list->count];
        memset(launch, 0, sizeof *launch);
        launch->phase = list->phase;
        launch->barrier = true;
        launch->call = list->call_count + 1;
        list->calls[list->call_count] = *call;
    }
    list->call_count++;
    list->count++;
}

/* Copy between one of the run's tensors and its compact form in the workspace. */
static tensum_status add_copy(const ts_cuda_emission *emission, int32_t value, ts_cuda_pointer compact, bool inwards,
                              ts_cuda_switch accumulate)
{
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    const ts_value *v = &plan->values[value];
    ts_mode modes[TS_CUDA_MOST_MODES];
    ts_reduce_spec spec = {.algebra = plan->algebra, .modes = modes, .kept_count = v->rank, .kept = v->elements, .sum = 1};
    ts_cuda_pointer there = ts_cuda_value_pointer(emission, value);
    int64_t stride = 1;

    for (int32_t i = v->rank - 1; i >= 0; i--) {
        int64_t own = ts_stride_of(plan, emission->strides, value, v->labels[i]);
        modes[i] = (ts_mode){.extent = ts_plan_extent(plan, v->labels[i]), .a = inwards ? own : stride,
                             .c = inwards ? stride : own};
        stride *= modes[i].extent;
    }
    return ts_cuda_add_reduce(emission->list, &program->pair, &program->common, &spec, inwards ? there : compact,
                              inwards ? compact : there, ts_cuda_at(0), accumulate);
}

static ts_cuda_pointer copy_place(const ts_cuda_emission *emission, int place)
{
    return ts_cuda_at(emission->memory + emission->program->copy_offset[place]);
}

tensum_status ts_cutensor_emit(const ts_cuda_emission *emission, int32_t step, int side, ts_cuda_pointer a,
                               ts_cuda_pointer b, ts_cuda_pointer c, ts_cuda_switch accumulate, bool *added)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const ts_step *from = &program->plan->steps[step];
    const ts_cutensor_step *vendor = program->vendor != NULL ? &program->vendor[3 * step + 1 + side] : NULL;
    const ts_cuda_switch never = {0, 0};
    int32_t second = side == 0 ? from->b : side == 1 ? from->a : from->b;
    /* Bytes are those of whole tensors: they lie compact in the workspace. */
    int32_t values[3] = {side < 0 ? from->a : from->c, second, side < 0 ? from->c : side == 0 ? from->a : from->b};
    int64_t bytes = (int64_t)tensum_dtype_bytes(side < 0 ? program->plan->algebra.dtype : program->gradient);
    ts_cutensor_call call = {0};
    /* Not by the pointers: a list that measures has none. */
    bool converts = side >= 0 && program->gradient != program->plan->algebra.dtype;
    bool in_a = side < 0 && is_outside(program, values[0]), in_b = !converts && is_outside(program, values[1]);
    bool out = side < 0 && is_outside(program, values[2]);

    *added = vendor != NULL && vendor->plan != NULL;
    if (!*added) {
        return TENSUM_OK;
    }
    if (in_a) {
        TRY(add_copy(emission, values[0], copy_place(emission, 0), true, never));
        a = copy_place(emission, 0);
    }
    if (in_b) {
        TRY(add_copy(emission, values[1], copy_place(emission, 1), true, never));
        b = copy_place(emission, 1);
    }
    call.plan = vendor->plan;
    call.a = vendor->swapped ? b : a;
    call.b = vendor->swapped ? a : b;
    call.c = out ? copy_place(emission, 2) : c;
    call.accumulate = out ? never : accumulate;
    if (vendor->plan->scratch_bytes > 0) {
        call.scratch = (emission->memory + program->vendor_offset + 255) / 256 * 256;
    }
    add_call(emission->list, &call);
    ts_cuda_reads(emission->list, a, program->plan->values[values[0]].elements * bytes);
    ts_cuda_reads(emission->list, b, program->plan->values[values[1]].elements * bytes);
    ts_cuda_writes(emission->list, call.c, program->plan->values[values[2]].elements * bytes);
    if (call.scratch != 0) {
        ts_cuda_writes(emission->list, ts_cuda_at(call.scratch), (int64_t)vendor->plan->scratch_bytes);
    }
    if (out) {
        TRY(add_copy(emission, values[2], call.c, false, accumulate));
    }
done:
    return status;
}

tensum_status ts_cutensor_emit_direct(const ts_cuda_emission *emission, const ts_contract_spec *spec,
                                      ts_cuda_pointer a, ts_cuda_pointer b, ts_cuda_pointer c, ts_cuda_switch accumulate)
{
    const ts_cuda_program *program = emission->program;
    ts_cuda_list *list = emission->list;
    ts_cutensor_call call = {0};
    ts_cutensor_key key;
    int32_t alignments[3];
    bool swapped;
    tensum_status status;

    list->fallback = true;
    if (list->measure) {
        add_call(list, &call);
        return TENSUM_OK;
    }
    for (int i = 0; i < 3; i++) {
        alignments[i] = (int32_t)1 << emission->signature->alignments[i];
    }
    list->fallback = false;
    if (!ts_cutensor_key_make(spec, alignments, &key, &swapped)) {
        return TENSUM_OK;
    }
    status = ts_cutensor_plan_find(program->device, &key, &call.plan);
    if (status != TENSUM_OK) {
        return status == TENSUM_STATUS_UNSUPPORTED || !always(program) ? TENSUM_OK : status;
    }
    call.owned = true;
    call.a = swapped ? b : a;
    call.b = swapped ? a : b;
    call.c = c;
    call.accumulate = accumulate;
    add_call(list, &call);
    list->fallback = true;
    return TENSUM_OK;
}

/* ---- calls ---- */

static ts_cu_address resolve(const ts_cuda_list *list, ts_cuda_pointer pointer)
{
    return (pointer.slot != 0 ? list->slots[(pointer.slot - list->slots_address) / sizeof *list->slots] : 0) +
           pointer.offset;
}

tensum_status ts_cutensor_call_one(ts_cuda_device *device, const ts_cuda_list *list, const ts_cuda_launch *launch,
                                   ts_cu_stream stream, bool inside, bool *done)
{
    tensum_status status = TENSUM_OK;
    const ts_cutensor_call *call = &list->calls[launch->call - 1];
    const ts_cutensor_library *library = NULL;
    ts_cutensor_lease lease = {call->scratch, (size_t)call->plan->scratch_bytes, -1};
    bool leased = call->scratch == 0 && lease.bytes > 0;
    bool adds = call->accumulate.always != 0 ||
                (call->accumulate.slot != 0 &&
                 list->slots[(call->accumulate.slot - list->slots_address) / sizeof *list->slots] != 0);
    union {
        float single[2];
        double wide[2];
    } one = {{0}}, beta = {{0}};
    ts_cu_address c = resolve(list, call->c);
    int result;

    *done = false;
    if (leased && inside) {
        return TENSUM_OK; /* a graph of the caller's would go on using it */
    }
    TRY(ts_cutensor_open(&library));
    if (call->plan->wide) {
        one.wide[0] = 1.0;
        beta.wide[0] = adds ? 1.0 : 0.0;
    } else {
        one.single[0] = 1.0f;
        beta.single[0] = adds ? 1.0f : 0.0f;
    }
    if (leased) {
        TRY(ts_cutensor_scratch_take(device, stream, lease.bytes, &lease));
    }
    result = library->contract(call->plan->handle->handle, call->plan->plan, &one,
                               (const void *)(uintptr_t)resolve(list, call->a),
                               (const void *)(uintptr_t)resolve(list, call->b), &beta, (const void *)(uintptr_t)c,
                               (void *)(uintptr_t)c, (void *)(uintptr_t)lease.address, call->plan->scratch_bytes, stream);
    if (leased) {
        ts_cutensor_scratch_give(device, stream, &lease);
    }
    if (result != TS_CT_SUCCESS) {
        const char *words = library->error_string(result);
        TRY(ts_fail(TENSUM_STATUS_DEVICE, "cuda:%d: cuTENSOR: cutensorContract: %s (%d)", (int)device->ordinal,
                    words != NULL ? words : "unknown error", result));
    }
    atomic_fetch_add_explicit(&device->cutensor.cache.calls, 1, memory_order_relaxed);
    *done = true;
done:
    return status;
}

void ts_cutensor_drop_calls(ts_cuda_list *list)
{
    for (int32_t i = 0; list->calls != NULL && i < list->call_count; i++) {
        if (list->calls[i].owned) {
            ts_cutensor_plan_release(list->calls[i].plan);
        }
    }
    list->call_count = 0;
}
