/* From a problem to an answer: order, plan, run, translate; and the answer's accessors. */
#include <math.h>
#include <stdio.h>

#include "algebra/algebra.h"
#include "problems/problem.h"

static tensum_solve_options settled(const tensum_solve_options *given)
{
    tensum_solve_options options = TENSUM_SOLVE_OPTIONS_INIT;
    if (given != NULL) {
        memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    }
    return options;
}

static int64_t output_elements(const tensum_network *network)
{
    int32_t rank = 0;
    const int64_t *extents = NULL;
    int64_t count = 1;
    if (tensum_network_operand(network, -1, &rank, NULL, &extents) != TENSUM_OK) {
        return 0;
    }
    for (int32_t i = 0; i < rank; i++) {
        count *= extents[i]; /* the network has checked the product */
    }
    return count;
}

/* Bytes that are held during a run: inputs and the tables that they were made from, output, gradients, an assignment. */
static uint64_t held_bytes(const tensum_problem *problem)
{
    uint64_t element = tensum_dtype_bytes(problem->dtype), bytes = 0;
    uint64_t gradient = tensum_dtype_bytes(tensum_dtype_gradient(problem->dtype));
    for (int64_t i = 0; i < problem->operand_count; i++) {
        uint64_t count = 1;
        for (int32_t m = 0; m < problem->operands[i].rank; m++) {
            count *= (uint64_t)problem->operands[i].extents[m];
        }
        bool wanted = (problem->modes & TENSUM_GRADIENT) != 0 && problem->operands[i].wants_gradient;
        bytes += count * (element + sizeof(double) + (wanted ? gradient : 0));
    }
    bytes += (uint64_t)tensum_network_label_count(problem->network) * sizeof(int64_t);
    return bytes + (uint64_t)output_elements(problem->network) * element;
}

tensum_status tensum_problem_plan(tensum_problem *problem, const tensum_solve_options *given, tensum_plan **plan,
                                  double *order_seconds)
{
    tensum_status status = TENSUM_OK;
    tensum_solve_options options = settled(given);
    tensum_tree *tree = tensum_tree_retain(options.tree);
    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    double start = ts_seconds(), seconds = 0;
    if (problem == NULL || plan == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "problem or plan is NULL");
    }
    plan_options.semiring = problem->semiring;
    plan_options.dtype = problem->dtype;
    plan_options.modulus = problem->modulus;
    plan_options.memory_limit = options.memory_limit;
    plan_options.memory_modes = problem->modes;
    plan_options.device = options.device;
    if (options.memory_limit != 0 && options.device.kind != TENSUM_CUDA) { /* a device's memory is its own */
        plan_options.memory_taken = held_bytes(problem);
    }
    if (tree != NULL) {
        TRY(tensum_plan_create(problem->network, tree, &plan_options, plan));
    } else {
        tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
        if (options.order != NULL) {
            memcpy(&order, options.order, options.order->size < sizeof order ? options.order->size : sizeof order);
            order.size = sizeof order;
        }
        if (order.progress == NULL) {
            order.progress = options.progress;
            order.progress_user = options.progress_user;
        }
        TRY(tensum_plan_search(problem->network, &order, &plan_options, options.context, plan));
        seconds = ts_seconds() - start;
    }
    if (order_seconds != NULL) {
        *order_seconds = seconds;
    }
done:
    tensum_tree_release(tree);
    return status;
}

/* Gradients for the operands that want one; the others get no data. */
static tensum_status gradient_tensors(const tensum_problem *problem, tensum_tensor **out)
{
    tensum_status status = TENSUM_OK;
    tensum_dtype dtype = tensum_dtype_gradient(problem->dtype);
    tensum_tensor *gradients = NULL;
    size_t n = (size_t)problem->operand_count;
    TRY(ts_allocate_zero(n, sizeof *gradients, "gradients", &gradients));
    for (size_t i = 0; i < n; i++) {
        gradients[i] = problem->inputs[i];
        gradients[i].dtype = dtype;
        gradients[i].data = NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (problem->operands[i].wants_gradient) {
            int64_t count = 1;
            for (int32_t m = 0; m < gradients[i].rank; m++) {
                count *= gradients[i].extents[m];
            }
            TRY(ts_allocate_zero((size_t)count, tensum_dtype_bytes(dtype), "a gradient", &gradients[i].data));
        }
    }
    *out = gradients;
    return TENSUM_OK;
done:
    for (size_t i = 0; gradients != NULL && i < n; i++) {
        ts_free(gradients[i].data);
    }
    ts_free(gradients);
    return status;
}

tensum_status ts_problem_run(tensum_problem *problem, tensum_plan *plan, const tensum_solve_options *given,
                             const tensum_tensor *inputs,
                             tensum_status (*use)(const tensum_problem *problem, const ts_result *result, void *user),
                             void *user, double *seconds)
{
    tensum_status status = TENSUM_OK;
    tensum_solve_options options = settled(given);
    tensum_program_options program_options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    tensum_tensor output = {0}, *gradients = NULL;
    int64_t *assignment = NULL;
    void *value = NULL;
    double start = ts_seconds();
    program_options.modes = problem->modes;
    program_options.device = options.device;
    TRY(tensum_program_create(plan, options.context, &program_options, &program));
    TRY(tensum_workspace_create(program, NULL, &workspace));
    TRY(ts_allocate_zero((size_t)output_elements(problem->network), tensum_dtype_bytes(problem->dtype), "the output",
                         &value));
    output.data = value;
    output.dtype = problem->dtype;
    TRY(tensum_network_operand(problem->network, -1, &output.rank, NULL, &output.extents));
    arguments.inputs = inputs != NULL ? inputs : problem->inputs;
    arguments.output = &output;
    arguments.progress = options.progress;
    arguments.progress_user = options.progress_user;
    if ((problem->modes & TENSUM_GRADIENT) != 0) {
        TRY(gradient_tensors(problem, &gradients));
        arguments.gradients = gradients;
    }
    if ((problem->modes & TENSUM_DECODE) != 0) {
        TRY(ts_allocate_zero((size_t)tensum_network_label_count(problem->network), sizeof *assignment,
                             "an assignment", &assignment));
        arguments.position_count = 1;
        arguments.assignments = assignment;
    }
    TRY(tensum_run(program, workspace, &arguments));
    *seconds += ts_seconds() - start;
    ts_result result = {value, gradients, assignment};
    TRY(use(problem, &result, user));
done:
    for (int64_t i = 0; gradients != NULL && i < problem->operand_count; i++) {
        ts_free(gradients[i].data);
    }
    ts_free(gradients);
    ts_free(assignment);
    ts_free(value);
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    return status;
}

static tensum_status translate(const tensum_problem *problem, const ts_result *result, void *user)
{
    return problem->front_end->answer(problem, result, user);
}

static tensum_status solve_in_one_run(tensum_problem *problem, const tensum_solve_options *options,
                                      tensum_answer *answer)
{
    tensum_status status = TENSUM_OK;
    tensum_plan *plan = NULL;
    TRY(tensum_problem_plan(problem, options, &plan, &answer->order_seconds));
    TRY(tensum_plan_cost(plan, &answer->cost));
    TRY(ts_problem_run(problem, plan, options, NULL, translate, answer, &answer->run_seconds));
done:
    tensum_plan_release(plan);
    return status;
}

tensum_status tensum_problem_solve(tensum_problem *problem, const tensum_solve_options *options, tensum_answer **out)
{
    tensum_status status = TENSUM_OK;
    tensum_answer *answer = NULL;
    if (problem == NULL || out == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "problem or answer is NULL");
    }
    TRY(ts_allocate_zero(1, sizeof *answer, "an answer", &answer));
    answer->cost = (tensum_cost)TENSUM_COST_INIT;
    if (problem->front_end->solve != NULL) {
        TRY(problem->front_end->solve(problem, options, answer));
    } else {
        TRY(solve_in_one_run(problem, options, answer));
    }
    if (answer->value_text == NULL) {
        ts_text text = {0};
        ts_text_add_real(&text, answer->value);
        TRY(ts_text_take(&text, &answer->value_text));
    }
    *out = answer;
    answer = NULL;
done:
    tensum_answer_release(answer);
    return status;
}

void tensum_answer_release(tensum_answer *answer)
{
    if (answer != NULL) {
        ts_free(answer->value_text);
        ts_free(answer->assignments);
        ts_free(answer->values);
        ts_free(answer->marginal_offsets);
        ts_free(answer->marginals);
        ts_free(answer->text);
        ts_free(answer);
    }
}

const char *tensum_answer_value_name(const tensum_answer *answer) { return answer->log10 ? "log10_value" : "value"; }
double tensum_answer_value(const tensum_answer *answer) { return answer->value; }
const char *tensum_answer_value_text(const tensum_answer *answer) { return answer->value_text; }
int64_t tensum_answer_assignment_count(const tensum_answer *answer) { return answer->assignment_count; }
int64_t tensum_answer_variable_count(const tensum_answer *answer) { return answer->variable_count; }

const int64_t *tensum_answer_assignment(const tensum_answer *answer, int64_t index)
{
    return index >= 0 && index < answer->assignment_count ? answer->assignments + index * answer->variable_count : NULL;
}

int64_t tensum_answer_values(const tensum_answer *answer, const double **values)
{
    *values = answer->values;
    return answer->value_count;
}

int64_t tensum_answer_marginals(const tensum_answer *answer, const int64_t **offsets, const double **probabilities)
{
    *offsets = answer->marginal_offsets;
    *probabilities = answer->marginals;
    return answer->marginal_count;
}

const char *tensum_answer_text(const tensum_answer *answer) { return answer->text != NULL ? answer->text : ""; }

tensum_status tensum_answer_cost(const tensum_answer *answer, tensum_cost *cost, double *order_seconds,
                                 double *run_seconds)
{
    if (answer == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "answer is NULL");
    }
    if (cost != NULL) {
        size_t size = cost->size < sizeof *cost ? cost->size : sizeof *cost;
        memcpy(cost, &answer->cost, size);
        cost->size = size;
    }
    if (order_seconds != NULL) {
        *order_seconds = answer->order_seconds;
    }
    if (run_seconds != NULL) {
        *run_seconds = answer->run_seconds;
    }
    return TENSUM_OK;
}
