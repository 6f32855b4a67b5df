/* Runs one case on one device through the public interface. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

enum { GUARD = 256 };

typedef struct case_runner {
    test_case *test;
    const test_machine *machine;
    tensum_network *network;
    tensum_tree *tree;
    tensum_plan *plan;
    case_outcome *outcome;
    tensum_tensor inputs[MAX_OPERANDS];
} case_runner;

static bool fail(case_runner *runner, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(case_runner *runner, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(runner->outcome->error, sizeof runner->outcome->error, format, arguments);
    va_end(arguments);
    return false;
}

static bool failed_call(case_runner *runner, const char *call, tensum_status status)
{
    return fail(runner, "%s gave %s: %s", call, tensum_status_name(status), tensum_last_error());
}

static tensum_tensor view(const tensor_shape *shape, tensum_dtype dtype, unsigned char *memory)
{
    tensum_tensor tensor = {memory + (size_t)shape->origin * tensum_dtype_bytes(dtype), dtype, shape->rank, shape->extents,
                            shape->compact ? NULL : shape->strides, {TENSUM_CPU, 0}};
    return tensor;
}

/* ---- outputs: poisoned memory around and between the elements, which must survive ---- */

typedef struct output_target {
    const tensor_shape *shape;
    tensum_dtype dtype;
    unsigned char *memory;
    tensum_tensor tensor;
} output_target;

static size_t target_bytes(const output_target *target)
{
    return (size_t)target->shape->span * tensum_dtype_bytes(target->dtype);
}

static bool target_open(output_target *target, const tensor_shape *shape, tensum_dtype dtype)
{
    target->shape = shape;
    target->dtype = dtype;
    target->memory = NULL;
    unsigned char *block = malloc(target_bytes(target) + 2 * GUARD);
    if (block == NULL) {
        return false;
    }
    memset(block, POISON, target_bytes(target) + 2 * GUARD);
    target->memory = block + GUARD;
    target->tensor = view(shape, dtype, target->memory);
    return true;
}

static void target_close(output_target *target)
{
    if (target->memory != NULL) {
        free(target->memory - GUARD);
        target->memory = NULL;
    }
}

/* Collect the elements in row-major order; false if a byte outside the elements has changed. */
static bool target_collect(const output_target *target, unsigned char *values)
{
    size_t element = tensum_dtype_bytes(target->dtype), total = target_bytes(target) + 2 * GUARD;
    unsigned char *block = target->memory - GUARD;
    int64_t index[MAX_RANK] = {0};
    if (target->shape->size > 0) {
        do {
            unsigned char *place = target->memory + (size_t)shape_offset(target->shape, index) * element;
            memcpy(values, place, element);
            memset(place, POISON, element);
            values += element;
        } while (shape_next(target->shape, index));
    }
    for (size_t i = 0; i < total; i++) {
        if (block[i] != POISON) {
            return false;
        }
    }
    return true;
}

/* ---- building ---- */

static bool build(case_runner *runner)
{
    const test_case *test = runner->test;
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    int32_t ranks[MAX_OPERANDS];
    int64_t names[MAX_OPERANDS + 1][MAX_RANK];
    const int64_t *labels[MAX_OPERANDS], *extents[MAX_OPERANDS];
    for (int t = 0; t <= test->operand_count; t++) {
        const tensor_shape *shape = t < test->operand_count ? &test->operands[t] : &test->output;
        for (int32_t i = 0; i < shape->rank; i++) {
            names[t][i] = test->names[shape->labels[i]];
        }
        if (t < test->operand_count) {
            ranks[t] = shape->rank;
            labels[t] = names[t];
            extents[t] = shape->extents;
        }
    }
    spec.operand_count = test->operand_count;
    spec.ranks = ranks;
    spec.labels = labels;
    spec.extents = extents;
    spec.output_rank = test->output.rank;
    spec.output_labels = names[test->operand_count];
    /* extents of labels that the output alone has: those the inputs never mention */
    int64_t size_labels[MAX_LABELS], size_extents[MAX_LABELS];
    for (int label = 0; label < test->label_count; label++) {
        bool in_inputs = false;
        for (int t = 0; t < test->operand_count; t++) {
            for (int32_t i = 0; i < test->operands[t].rank; i++) {
                in_inputs = in_inputs || test->operands[t].labels[i] == label;
            }
        }
        if (!in_inputs) {
            size_labels[spec.size_count] = test->names[label];
            size_extents[spec.size_count++] = test->extents[label];
        }
    }
    spec.size_labels = size_labels;
    spec.size_extents = size_extents;
    tensum_status status = tensum_network_create(&spec, &runner->network);
    if (status != TENSUM_OK) {
        return failed_call(runner, "tensum_network_create", status);
    }
    if (tensum_network_label_count(runner->network) != test->label_count) {
        return fail(runner, "the network has %" PRId64 " labels, not %d", tensum_network_label_count(runner->network), test->label_count);
    }
    for (int label = 0; label < test->label_count; label++) {
        if (tensum_network_labels(runner->network)[label] != test->names[label] ||
            tensum_network_label_extents(runner->network)[label] != test->extents[label]) {
            return fail(runner, "label %d of the network is %" PRId64 " of extent %" PRId64, label,
                        tensum_network_labels(runner->network)[label], tensum_network_label_extents(runner->network)[label]);
        }
    }
    status = tensum_tree_from_ssa(test->operand_count, test->step_count, test->offsets, test->children, &runner->tree);
    if (status != TENSUM_OK) {
        return failed_call(runner, "tensum_tree_from_ssa", status);
    }
    if (test->slice_count > 0) {
        tensum_tree *sliced = NULL;
        status = tensum_tree_with_slices(runner->tree, test->slice_count, test->slices, &sliced);
        if (status != TENSUM_OK) {
            return failed_call(runner, "tensum_tree_with_slices", status);
        }
        tensum_tree_release(runner->tree);
        runner->tree = sliced;
    }
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    options.semiring = test->semiring;
    options.dtype = test->dtype;
    options.modulus = test->modulus;
    status = tensum_plan_create(runner->network, runner->tree, &options, &runner->plan);
    if (status != TENSUM_OK) {
        return failed_call(runner, "tensum_plan_create", status);
    }
    for (int t = 0; t < test->operand_count; t++) {
        runner->inputs[t] = view(&test->operands[t], test->dtype, test->memory[t]);
    }
    return true;
}

/* ---- running ---- */

typedef struct output_targets {
    output_target output, winners, gradients[MAX_OPERANDS];
    tensum_tensor gradient_tensors[MAX_OPERANDS], cotangent;
} output_targets;

static bool execute(case_runner *runner, tensum_program *program, unsigned modes, output_targets *targets, tensum_run_arguments *arguments)
{
    test_case *test = runner->test;
    case_outcome *outcome = runner->outcome;
    tensum_workspace *workspace = NULL;
    tensum_workspace_options options = TENSUM_WORKSPACE_OPTIONS_INIT;
    size_t bytes = tensum_program_workspace_bytes(program);
    unsigned char *block = NULL;
    bool good = false;
    tensum_status status;
    if (test->caller_memory && runner->machine->device.kind != TENSUM_CUDA) { /* a device wants memory of its own */
        block = aligned_alloc(128, (bytes + 127) / 128 * 128 + GUARD);
        if (block == NULL) {
            return fail(runner, "out of memory in the test");
        }
        memset(block, POISON, (bytes + 127) / 128 * 128 + GUARD);
        options.memory = block;
    }
    status = tensum_workspace_create(program, &options, &workspace);
    if (status != TENSUM_OK) {
        failed_call(runner, "tensum_workspace_create", status);
        goto done;
    }
    if (test->in_two_ranges && modes == TENSUM_VALUE && tensum_tree_slices(runner->tree, NULL) > 0) {
        tensum_cost cost = TENSUM_COST_INIT;
        status = tensum_plan_cost(runner->plan, &cost);
        if (status != TENSUM_OK) {
            failed_call(runner, "tensum_plan_cost", status);
            goto done;
        }
        int64_t first = cost.slices / 2;
        arguments->slice_count = first;
        status = tensum_run(program, workspace, arguments);
        if (status != TENSUM_OK) {
            failed_call(runner, "tensum_run of the first slices", status);
            goto done;
        }
        arguments->slice_first = first;
        arguments->slice_count = -1;
        arguments->accumulate = 1;
    }
    if (arguments->kept) { /* the value alone; the gradients follow from what it leaves, as often as they are asked for */
        tensum_run_arguments value = *arguments;
        value.kept = 0;
        value.gradients = NULL;
        status = tensum_run(program, workspace, &value);
        for (int again = 0; again < (int)(test->seed >> 6 & 1) && status == TENSUM_OK; again++) {
            status = tensum_run(program, workspace, arguments);
        }
        if (status != TENSUM_OK) {
            failed_call(runner, "tensum_run before the kept one", status);
            goto done;
        }
    }
    status = tensum_run(program, workspace, arguments);
    /* Twice more, in a quarter of the cases: what repeats may take another way, and what is told to repeat a third. */
    for (int again = 0; again < 2 && (test->seed >> 7 & 3) == 0 && status == TENSUM_OK && arguments->accumulate == 0; again++) {
        status = tensum_run(program, workspace, arguments);
    }
    if ((modes & TENSUM_DECODE) != 0) {
        outcome->decoded = true;
        outcome->decode_status = status;
        if (status == TENSUM_STATUS_INFEASIBLE || status == TENSUM_STATUS_NOT_A_NUMBER) {
            status = TENSUM_OK;
        }
    }
    if (status != TENSUM_OK) {
        failed_call(runner, "tensum_run", status);
        goto done;
    }
    for (size_t i = bytes; block != NULL && i < (bytes + 127) / 128 * 128 + GUARD; i++) {
        if (block[i] != POISON) {
            fail(runner, "byte %zu behind the workspace of %zu bytes was written", i - bytes, bytes);
            goto done;
        }
    }
    good = true;
done:
    tensum_workspace_release(workspace);
    free(block);
    (void)targets;
    return good;
}

/* Other targets for gradients that are made once more, and the arguments for that. */
static bool start_over(case_runner *runner, output_targets *targets, tensum_run_arguments *arguments)
{
    test_case *test = runner->test;
    for (int t = 0; t < test->operand_count; t++) {
        target_close(&targets->gradients[t]);
        if (!target_open(&targets->gradients[t], &test->gradients[t], test->gradient_dtype)) {
            return false;
        }
        targets->gradient_tensors[t] = targets->gradients[t].tensor;
        if (!test->gradient_wanted[t]) {
            targets->gradient_tensors[t].data = NULL;
        }
    }
    arguments->position_count = 0;
    arguments->positions = NULL;
    arguments->assignments = NULL;
    return true;
}

/* The gradients once more, from what a run for the value has left in its workspace, in half of the cases that allow it. They
 * take the place of the run's own. */
static bool run_kept(case_runner *runner, unsigned modes, output_targets *targets, const tensum_run_arguments *before)
{
    test_case *test = runner->test;
    tensum_run_arguments arguments = *before;
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_program *program = NULL;
    tensum_cost cost = TENSUM_COST_INIT;
    const unsigned needed = TENSUM_VALUE | TENSUM_GRADIENT;
    if ((modes & needed) != needed || (test->seed >> 5 & 1) == 0 || tensum_plan_cost(runner->plan, &cost) != TENSUM_OK ||
        cost.slices != 1) {
        return true;
    }
    if (!start_over(runner, targets, &arguments)) {
        return false;
    }
    arguments.winners = NULL;
    arguments.kept = 1;
    options.modes = needed;
    options.device = runner->machine->device;
    options.check = test->check;
    tensum_status status = tensum_program_create(runner->plan, test->threaded ? runner->machine->threaded : runner->machine->serial, &options, &program);
    if (status != TENSUM_OK) {
        return failed_call(runner, "tensum_program_create for kept results", status);
    }
    bool good = execute(runner, program, needed, targets, &arguments);
    tensum_program_release(program);
    runner->outcome->kept = good;
    return good;
}

/* The gradients once more, from the output and the winners that the run has left, in half of the cases that allow it. They
 * take the place of the run's own. */
static bool run_saved(case_runner *runner, unsigned modes, output_targets *targets, const tensum_run_arguments *before)
{
    test_case *test = runner->test;
    tensum_run_arguments arguments = *before;
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_program *program = NULL;
    tensum_cost cost = TENSUM_COST_INIT;
    bool selective = tensum_semiring_selective(test->semiring) != 0;
    unsigned needed = TENSUM_VALUE | TENSUM_GRADIENT | (selective ? TENSUM_WINNERS : 0u);
    if ((modes & needed) != needed || (test->seed >> 3 & 1) == 0 || tensum_plan_cost(runner->plan, &cost) != TENSUM_OK ||
        cost.steps != 1 || cost.slices != 1) {
        return true;
    }
    if (!start_over(runner, targets, &arguments)) {
        return false;
    }
    if (test->semiring != TENSUM_LOG_SUM_EXP && (test->seed >> 4 & 1) == 0) {
        arguments.output = NULL; /* nothing needs it */
    }
    options.modes = TENSUM_GRADIENT;
    options.device = runner->machine->device;
    options.saved = 1;
    tensum_status status = tensum_program_create(runner->plan, test->threaded ? runner->machine->threaded : runner->machine->serial, &options, &program);
    if (status != TENSUM_OK) {
        return failed_call(runner, "tensum_program_create for saved results", status);
    }
    bool good = execute(runner, program, TENSUM_GRADIENT, targets, &arguments);
    tensum_program_release(program);
    runner->outcome->saved = good;
    return good;
}

static bool run_modes(case_runner *runner, unsigned modes)
{
    test_case *test = runner->test;
    case_outcome *outcome = runner->outcome;
    output_targets targets;
    tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_program *program = NULL;
    unsigned char *wide_winners = NULL;
    bool good = false;
    memset(&targets, 0, sizeof targets);
    options.modes = modes;
    options.device = runner->machine->device;
    options.check = test->check;
    tensum_status status = tensum_program_create(runner->plan, test->threaded ? runner->machine->threaded : runner->machine->serial, &options, &program);
    if (status != TENSUM_OK) {
        outcome->unsupported = status == TENSUM_STATUS_UNSUPPORTED;
        failed_call(runner, "tensum_program_create", status);
        goto done;
    }
    arguments.inputs = runner->inputs;
    if ((modes & TENSUM_VALUE) != 0) {
        if (!target_open(&targets.output, &test->output, test->dtype)) {
            goto done;
        }
        arguments.output = &targets.output.tensor;
    }
    if ((modes & TENSUM_WINNERS) != 0) {
        if (!target_open(&targets.winners, &test->winners, test->winner_bytes == 4 ? TENSUM_I32 : TENSUM_I64)) {
            goto done;
        }
        arguments.winners = &targets.winners.tensor;
    }
    if ((modes & TENSUM_GRADIENT) != 0) {
        for (int t = 0; t < test->operand_count; t++) {
            if (!target_open(&targets.gradients[t], &test->gradients[t], test->gradient_dtype)) {
                goto done;
            }
            targets.gradient_tensors[t] = targets.gradients[t].tensor;
            if (!test->gradient_wanted[t]) {
                targets.gradient_tensors[t].data = NULL;
            }
        }
        arguments.gradients = targets.gradient_tensors;
        if (test->cotangent_memory != NULL) {
            targets.cotangent = view(&test->cotangent, test->gradient_dtype, test->cotangent_memory);
            arguments.cotangent = &targets.cotangent;
        }
    }
    if ((modes & TENSUM_DECODE) != 0) {
        arguments.position_count = test->position_count;
        arguments.positions = test->positions;
        arguments.assignments = outcome->assignments;
    }
    if (!execute(runner, program, modes, &targets, &arguments) || !run_saved(runner, modes, &targets, &arguments) ||
        !run_kept(runner, modes, &targets, &arguments)) {
        goto done;
    }
    if ((modes & TENSUM_VALUE) != 0 && !target_collect(&targets.output, outcome->value)) {
        fail(runner, "a byte that is no element of the output was written");
        goto done;
    }
    if ((modes & TENSUM_WINNERS) != 0) {
        wide_winners = malloc((size_t)test->output.size * 8 + 1);
        outcome->winners = malloc((size_t)test->output.size * sizeof(int64_t) + 1);
        if (wide_winners == NULL || outcome->winners == NULL) {
            goto done;
        }
        if (!target_collect(&targets.winners, wide_winners)) {
            fail(runner, "a byte that is no element of the winners was written");
            goto done;
        }
        for (int64_t i = 0; i < test->output.size; i++) {
            outcome->winners[i] = (int64_t)load(targets.winners.dtype, wide_winners + i * test->winner_bytes).integer;
        }
    }
    for (int t = 0; (modes & TENSUM_GRADIENT) != 0 && t < test->operand_count; t++) {
        if (test->gradient_wanted[t]) {
            outcome->gradients[t] = malloc((size_t)test->operands[t].size * tensum_dtype_bytes(test->gradient_dtype) + 1);
            if (outcome->gradients[t] == NULL || !target_collect(&targets.gradients[t], outcome->gradients[t])) {
                fail(runner, "a byte that is no element of gradient %d was written", t);
                goto done;
            }
        }
    }
    good = true;
done:
    if (!good && outcome->error[0] == '\0') {
        fail(runner, "out of memory in the test");
    }
    free(wide_winners);
    target_close(&targets.output);
    target_close(&targets.winners);
    for (int t = 0; t < test->operand_count; t++) {
        target_close(&targets.gradients[t]);
    }
    tensum_program_release(program);
    return good;
}

bool case_run(test_case *test, const test_machine *machine, case_outcome *outcome)
{
    case_runner runner = {.test = test, .machine = machine, .outcome = outcome};
    bool good = false;
    memset(outcome, 0, sizeof *outcome);
    outcome->value = malloc((size_t)test->output.size * tensum_dtype_bytes(test->dtype) + 1);
    if (outcome->value == NULL) {
        return fail(&runner, "out of memory in the test");
    }
    if (!build(&runner)) {
        goto done;
    }
    if (test->separate || test->in_two_ranges) {
        good = true;
        for (unsigned mode = 1; good && mode <= TENSUM_DECODE; mode <<= 1) {
            good = (test->modes & mode) == 0 || run_modes(&runner, mode == TENSUM_WINNERS ? mode | TENSUM_VALUE : mode);
        }
    } else {
        good = run_modes(&runner, test->modes);
    }
done:
    tensum_plan_release(runner.plan);
    tensum_tree_release(runner.tree);
    tensum_network_release(runner.network);
    return good;
}

void outcome_free(case_outcome *outcome)
{
    free(outcome->value);
    free(outcome->winners);
    for (int t = 0; t < MAX_OPERANDS; t++) {
        free(outcome->gradients[t]);
    }
    memset(outcome, 0, sizeof *outcome);
}
