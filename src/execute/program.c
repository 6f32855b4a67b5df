#include <inttypes.h>
#include <math.h>

#include "execute/workspace.h"
#include "plan/arena.h"

static int64_t aligned(int64_t bytes) { return (bytes + TS_ARENA_ALIGNMENT - 1) / TS_ARENA_ALIGNMENT * TS_ARENA_ALIGNMENT; }

/* Scratch and mode room that the steps need, by specs for compact operands. */
static tensum_status measure_steps(const tensum_program *program, ts_compiled *compiled)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    const ts_backend *backend = program->backend;
    int32_t threads = tensum_context_threads(program->context);
    ts_strides strides = {0};
    ts_mode *modes = NULL;
    for (int32_t s = 0; s < plan->step_count; s++) {
        int32_t count = ts_step_modes(&plan->steps[s]);
        compiled->most_modes = count > compiled->most_modes ? count : compiled->most_modes;
    }
    TRY(ts_allocate((size_t)plan->value_count, sizeof *strides.first, "program", &strides.first));
    TRY(ts_allocate(ts_strides_total(plan), sizeof *strides.strides, "program", &strides.strides));
    TRY(ts_allocate((size_t)compiled->most_modes, sizeof *modes, "program", &modes));
    ts_strides_start(plan, &strides);
    for (int32_t s = 0; s < plan->step_count; s++) {
        const ts_step *step = &plan->steps[s];
        size_t bytes = 0;
        if (step->kind == TS_STEP_CONTRACT) {
            ts_contract_spec spec;
            ts_contract_spec_build(plan, &strides, step, NULL, modes, &spec);
            spec.winner_bytes = step->winner_bytes;
            bytes = backend->contract_scratch != NULL ? backend->contract_scratch(&spec, threads) : 0;
            for (int side = 0; side < 2 && (program->modes & TENSUM_GRADIENT) != 0; side++) {
                size_t more = 0;
                if (ts_adjoint_is_contraction(plan->algebra)) {
                    ts_adjoint_contract_build(plan, &strides, step, side, NULL, NULL, modes, &spec);
                    more = backend->contract_scratch != NULL ? backend->contract_scratch(&spec, threads) : 0;
                } else if (backend->adjoint_scratch != NULL) {
                    ts_adjoint_spec adjoint;
                    ts_adjoint_spec_build(plan, &strides, step, side, NULL, NULL, NULL, modes, &adjoint);
                    more = backend->adjoint_scratch(&adjoint, threads);
                }
                bytes = more > bytes ? more : bytes;
            }
        } else if (step->kind == TS_STEP_REDUCE && backend->reduce_scratch != NULL) {
            ts_reduce_spec spec;
            ts_reduce_spec_build(plan, &strides, step, NULL, modes, &spec);
            spec.winner_bytes = step->winner_bytes;
            bytes = backend->reduce_scratch(&spec, threads);
        }
        compiled->scratch_bytes = bytes > compiled->scratch_bytes ? bytes : compiled->scratch_bytes;
    }
done:
    ts_free(strides.first);
    ts_free(strides.strides);
    ts_free(modes);
    return status;
}

uint64_t ts_program_share(uint64_t limit)
{
    static const uint64_t most = (uint64_t)8 << 20;
    return limit / 8 < most ? limit / 8 : most;
}

/* Bytes that the plan and `workspaces` workspaces take for their own tables. */
static uint64_t table_bytes(const tensum_program *program, int32_t workspaces)
{
    const tensum_plan *plan = program->plan;
    uint64_t values = (uint64_t)plan->value_count, steps = (uint64_t)plan->step_count, modes = 0;
    for (int32_t s = 0; s < plan->step_count; s++) {
        modes += (uint64_t)ts_step_modes(&plan->steps[s]);
    }
    uint64_t strides = values + ts_strides_total(plan);
    uint64_t each = steps * (sizeof(ts_forward_spec) + sizeof(int64_t)) + modes * sizeof(ts_mode) +
                    strides * sizeof(int64_t) * ((program->modes & TENSUM_GRADIENT) != 0 ? 2 : 1) + values * sizeof(char *);
    /* The plan has room for 3 values and 2 steps for each operand, and labels of steps and values twice, as numbers and as
     * names. Network and tree come to about 100 bytes an operand and 50 a label of one, and making the plan to as many. */
    const tensum_network *network = plan->network;
    uint64_t n = (uint64_t)network->operand_count, pins = (uint64_t)network->offsets[n];
    return 3 * n * sizeof(ts_value) + 2 * n * sizeof(ts_step) + 2 * modes * (sizeof(int32_t) + sizeof(int64_t)) + 200 * n +
           100 * pins + (uint64_t)workspaces * each;
}

/* Workspace, tables as far as they exceed the share that is left to small things, and what the caller holds. */
static uint64_t counted_bytes(const tensum_program *program, int32_t lanes)
{
    const tensum_plan *plan = program->plan;
    uint64_t tables = table_bytes(program, 1 + lanes), share = ts_program_share(plan->memory_limit);
    return plan->memory_taken + program->workspace_bytes + (tables > share ? tables - share : 0);
}

/* Side by side or one after the other? Threads inside a step pay from about a million pairs on; below that whole
 * slices go to threads, as far as memory allows. */
static void choose_lanes(const tensum_program *program, ts_compiled *compiled, int64_t *end)
{
    static const double pairs_worth_threads = 1 << 20;
    static const uint64_t most_bytes = (uint64_t)1 << 30;
    const tensum_plan *plan = program->plan;
    int32_t lanes = tensum_context_threads(program->context);
    double pairs = exp2(plan->tc) / (double)ts_max64(1, plan->slice_total) / (double)plan->step_count;
    bool limited = plan->memory_limit != 0;
    uint64_t limit = limited ? plan->memory_limit : most_bytes, tables = limited ? table_bytes(program, 1) : 0;
    uint64_t taken = limited ? plan->memory_taken + ts_program_share(limit) + tables : 0;
    lanes = (int32_t)ts_min64(lanes, plan->slice_total);
    if (lanes < 2 || program->modes != TENSUM_VALUE || pairs >= pairs_worth_threads) {
        return;
    }
    compiled->lane_partial = *end;
    compiled->lane_bytes = *end + aligned(compiled->output_elements * (int64_t)tensum_dtype_bytes(plan->algebra.dtype));
    while (lanes > 1 &&
           taken + ((uint64_t)compiled->lane_bytes + tables) * (uint64_t)lanes + (uint64_t)*end > limit) {
        lanes--;
    }
    if (lanes > 1) {
        compiled->lanes = lanes;
        compiled->lane_offset = *end;
        *end += lanes * compiled->lane_bytes;
    }
}

static void free_compiled(ts_compiled *compiled)
{
    if (compiled != NULL) {
        ts_chains_free(compiled);
        ts_free(compiled);
    }
}

/* chains: whether steps may share passes, which takes scratch memory. */
static tensum_status compile(tensum_program *program, bool chains)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    ts_compiled *compiled = NULL;
    int64_t n = plan->network->operand_count, elements = 1;
    size_t bytes = tensum_dtype_bytes(plan->algebra.dtype);
    size_t real_bytes = tensum_dtype_bytes(tensum_dtype_gradient(plan->algebra.dtype));
    TRY(ts_allocate_zero(1, sizeof *compiled, "program", &compiled));
    compiled->keeps = (program->modes & (TENSUM_GRADIENT | TENSUM_DECODE)) != 0;
    for (int64_t m = plan->network->offsets[n]; m < plan->network->offsets[n + 1]; m++) {
        elements *= plan->network->raw_extents[m];
    }
    compiled->output_elements = elements;
    compiled->arena_bytes = program->saved ? 0 : ts_plan_arena_bytes(plan, program->modes);
    TRY(measure_steps(program, compiled));
    if (chains) {
        TRY(ts_chains_find(program, compiled));
    }
    int64_t end = aligned((int64_t)compiled->arena_bytes);
    if (compiled->keeps) {
        compiled->total_offset = end;
        end += program->saved ? 0 : aligned(elements * (int64_t)bytes);
        if (plan->slice_total != 1) {
            compiled->partial_offset = end;
            end += aligned(elements * (int64_t)bytes);
            compiled->slice_offset = end;
            end += aligned(elements * (int64_t)sizeof(int64_t));
        }
        if ((program->modes & TENSUM_GRADIENT) != 0) {
            compiled->seed_offset = end;
            end += aligned(elements * (int64_t)real_bytes);
        }
    }
    compiled->scratch_offset = end;
    end += aligned((int64_t)compiled->scratch_bytes);
    choose_lanes(program, compiled, &end);
    program->workspace_bytes = (size_t)(end > 0 ? end : TS_ARENA_ALIGNMENT);
    program->compiled = compiled;
    compiled = NULL;
done:
    free_compiled(compiled);
    return status;
}

static tensum_status check_modes(const tensum_program *program)
{
    const tensum_plan *plan = program->plan;
    unsigned have = program->backend->supports(plan->algebra.semiring, plan->algebra.dtype);
    unsigned missing = program->modes & ~have;
    if (program->modes == 0 || program->modes > (TENSUM_VALUE | TENSUM_WINNERS | TENSUM_GRADIENT | TENSUM_DECODE)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "program modes are %#x", program->modes);
    }
    if (missing != 0) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "%s over %s on %s has no %s",
                       tensum_semiring_name(plan->algebra.semiring), tensum_dtype_name(plan->algebra.dtype),
                       program->backend->name,
                       missing & TENSUM_VALUE      ? "values"
                       : missing & TENSUM_WINNERS  ? "winners"
                       : missing & TENSUM_GRADIENT ? "gradients"
                                                   : "assignments");
    }
    if (program->saved && ((program->modes & ~(unsigned)TENSUM_WINNERS) != TENSUM_GRADIENT || plan->step_count != 1 ||
                           plan->slice_total != 1)) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED,
                       "gradients from saved results need a plan of one step without slices, and no other mode: this plan has %d "
                       "steps, %" PRId64 " slices, modes %#x",
                       (int)plan->step_count, plan->slice_total, program->modes);
    }
    if ((program->modes & TENSUM_WINNERS) != 0) {
        if (plan->step_count != 1) {
            return ts_fail(TENSUM_STATUS_UNSUPPORTED,
                           "winners need an expression of one step, this plan has %d: use decode or gradients",
                           (int)plan->step_count);
        }
        if (plan->slice_total != 1) {
            return ts_fail(TENSUM_STATUS_UNSUPPORTED, "winners of a sliced plan: use decode or gradients");
        }
    }
    if (plan->too_large) {
        return ts_fail(TENSUM_STATUS_MEMORY_LIMIT,
                       "this order needs a tensor of 2^%.1f elements: find a better order or slice labels", plan->sc);
    }
    return TENSUM_OK;
}

static int32_t lanes_of(const tensum_program *program)
{
    return program->backend->program_create == NULL ? ((const ts_compiled *)program->compiled)->lanes : 0;
}

static tensum_status compile_for(const ts_backend *backend, tensum_program *program)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    program->backend = backend;
    TRY(check_modes(program));
    if (backend->program_create != NULL) {
        TRY(backend->program_create(program, &program->compiled));
        program->workspace_bytes = backend->program_workspace_bytes(program, program->compiled);
    } else {
        TRY(compile(program, true));
        if (((const ts_compiled *)program->compiled)->chain_count > 0 && plan->memory_limit != 0 &&
            counted_bytes(program, lanes_of(program)) > plan->memory_limit) {
            free_compiled(program->compiled); /* steps with passes of their own need no buffers for chains */
            program->compiled = NULL;
            TRY(compile(program, false));
        }
    }
done:
    return status;
}

static tensum_status check_memory(const tensum_program *program)
{
    const tensum_plan *plan = program->plan;
    uint64_t needed = plan->memory_limit != 0 ? counted_bytes(program, lanes_of(program)) : 0;
    if (needed > plan->memory_limit) {
        uint64_t arena = program->saved                               ? 0
                         : program->backend->program_create == NULL ? ((const ts_compiled *)program->compiled)->arena_bytes
                                                                    : ts_plan_arena_bytes(plan, program->modes);
        return ts_fail(TENSUM_STATUS_MEMORY_LIMIT,
                       "this program needs %" PRIu64 " bytes: %" PRIu64 " for intermediates, %" PRIu64
                       " for packing and tables, %" PRIu64 " for what is held already; the limit is %" PRIu64,
                       needed, arena, needed - arena - plan->memory_taken, plan->memory_taken, plan->memory_limit);
    }
    return TENSUM_OK;
}

static tensum_status find_backend(tensum_device device, const ts_backend **backend)
{
    *backend = ts_backend_find(device.kind);
    if (*backend == NULL || device.index < 0 || device.index >= (*backend)->device_count()) {
        return ts_fail(TENSUM_STATUS_NO_DEVICE, "device %d of kind %s does not exist", (int)device.index,
                       device.kind == TENSUM_CUDA ? "cuda" : *backend != NULL ? (*backend)->name : "unknown");
    }
    return TENSUM_OK;
}

static tensum_status start_program(tensum_plan *plan, tensum_context *context, tensum_device device, unsigned modes,
                                   bool check, bool saved, tensum_program **out)
{
    tensum_status status = TENSUM_OK;
    tensum_program *program = NULL;
    TRY(ts_allocate_zero(1, sizeof *program, "program", &program));
    atomic_init(&program->references, 1);
    program->plan = tensum_plan_retain(plan);
    program->context = tensum_context_retain(context);
    program->device = device;
    program->modes = modes != 0 ? modes : TENSUM_VALUE;
    program->check = check;
    program->saved = saved;
    if (saved && tensum_semiring_selective(plan->algebra.semiring)) {
        program->modes |= TENSUM_WINNERS; /* they are read */
    }
    *out = program;
done:
    return status;
}

tensum_status ts_program_measure(tensum_plan *plan, tensum_context *context, tensum_device device, unsigned modes,
                                 uint64_t *bytes, uint64_t *fixed)
{
    tensum_status status = TENSUM_OK;
    tensum_program *program = NULL;
    const ts_backend *backend;
    TRY(find_backend(device, &backend));
    /* winners need no more than values, and not every plan can have them */
    TRY(start_program(plan, context, device, modes & ~(unsigned)TENSUM_WINNERS, true, false, &program));
    TRY(compile_for(backend, program));
    *bytes = counted_bytes(program, lanes_of(program));
    *fixed = counted_bytes(program, 0) - program->workspace_bytes;
done:
    tensum_program_release(program);
    return status;
}

tensum_status tensum_program_create(tensum_plan *plan, tensum_context *context, const tensum_program_options *options,
                                    tensum_program **out)
{
    tensum_status status = TENSUM_OK;
    tensum_program *program = NULL;
    tensum_program_options defaults = TENSUM_PROGRAM_OPTIONS_INIT;
    const ts_backend *backend;
    if (plan == NULL || out == NULL || (options != NULL && options->size < sizeof *options)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT,
                       "tensum_program_create: plan or program is NULL or options->size is not set");
    }
    if (options == NULL) {
        options = &defaults;
    }
    TRY(find_backend(options->device, &backend));
    TRY(start_program(plan, context, options->device, options->modes, options->check != 0, options->saved != 0, &program));
    TRY(compile_for(backend, program));
    TRY(check_memory(program));
    *out = program;
    program = NULL;
done:
    tensum_program_release(program);
    return status;
}

tensum_program *tensum_program_retain(tensum_program *program)
{
    if (program != NULL) {
        atomic_fetch_add(&program->references, 1);
    }
    return program;
}

void tensum_program_release(tensum_program *program)
{
    if (program == NULL || atomic_fetch_sub(&program->references, 1) != 1) {
        return;
    }
    if (program->backend != NULL && program->backend->program_destroy != NULL) {
        if (program->compiled != NULL) {
            program->backend->program_destroy(program->compiled);
        }
    } else {
        free_compiled(program->compiled);
    }
    tensum_plan_release(program->plan);
    if (!program->borrows_context) {
        tensum_context_release(program->context);
    }
    ts_free(program);
}

tensum_plan *tensum_program_plan(const tensum_program *program) { return program->plan; }
size_t tensum_program_workspace_bytes(const tensum_program *program) { return program->workspace_bytes; }
