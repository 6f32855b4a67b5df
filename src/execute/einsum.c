#include <inttypes.h>

#include "execute/program.h"

static tensum_status check_operands(int64_t operand_count, const tensum_tensor *operands, const tensum_tensor *output)
{
    const char *wanted = tensum_dtype_name(output->dtype);
    for (int64_t i = -1; i < operand_count; i++) {
        const tensum_tensor *tensor = i < 0 ? output : &operands[i];
        if (tensor->rank < 0 || (tensor->rank > 0 && tensor->extents == NULL)) {
            return i < 0 ? ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "the output's rank is %d or its extents are NULL", (int)tensor->rank)
                         : ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "operand %" PRId64 ": rank is %d or extents are NULL", i,
                                   (int)tensor->rank);
        }
        if (tensor->dtype != output->dtype) {
            const char *given = tensum_dtype_name(tensor->dtype);
            return ts_fail(TENSUM_STATUS_DTYPE_MISMATCH, "operand %" PRId64 " has dtype %s, the output %s", i,
                           given ? given : "(unknown)", wanted ? wanted : "(unknown)");
        }
        if (tensor->device.kind != output->device.kind || tensor->device.index != output->device.index) {
            return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "operand %" PRId64 " is on device %d:%d, the output on %d:%d", i,
                           (int)tensor->device.kind, (int)tensor->device.index, (int)output->device.kind,
                           (int)output->device.index);
        }
    }
    return TENSUM_OK;
}

/* Parse, order, plan, compile. */
static tensum_status compile(tensum_context *context, tensum_semiring semiring, const char *expression,
                             int64_t operand_count, const tensum_tensor *operands, const tensum_tensor *output,
                             tensum_program **program)
{
    tensum_status status = TENSUM_OK;
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    tensum_plan *plan = NULL;
    int32_t *ranks = NULL;
    const int64_t **extents = NULL;
    TRY(ts_allocate((size_t)operand_count, sizeof *ranks, "einsum", &ranks));
    TRY(ts_allocate((size_t)operand_count, sizeof *extents, "einsum", &extents));
    for (int64_t i = 0; i < operand_count; i++) {
        ranks[i] = operands[i].rank;
        extents[i] = operands[i].extents;
    }
    TRY(ts_network_parse_into(expression, operand_count, ranks, extents, output->rank, output->extents, &network));
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    order.element_bytes = tensum_dtype_bytes(output->dtype);
    TRY(tensum_order(network, &order, context, &tree));
    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    plan_options.semiring = semiring;
    plan_options.dtype = output->dtype;
    TRY(tensum_plan_create(network, tree, &plan_options, &plan));
    tensum_program_options program_options = TENSUM_PROGRAM_OPTIONS_INIT;
    program_options.device = output->device;
    TRY(tensum_program_create(plan, context, &program_options, program));
done:
    tensum_plan_release(plan);
    tensum_tree_release(tree);
    tensum_network_release(network);
    ts_free(ranks);
    ts_free(extents);
    return status;
}

tensum_status tensum_einsum(tensum_context *context, tensum_semiring semiring, const char *expression,
                            int64_t operand_count, const tensum_tensor *operands, const tensum_tensor *output)
{
    tensum_status status = TENSUM_OK;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    ts_einsum_key key;
    if (expression == NULL || operand_count < 0 || (operand_count > 0 && operands == NULL) || output == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_einsum: an argument is NULL or the operand count negative");
    }
    TRY(check_operands(operand_count, operands, output));
    bool cached = context != NULL && ts_einsum_key_make(&key, semiring, expression, operand_count, operands, output);
    if (cached) {
        ts_einsum_cache_take(context->cache, &key, &program, &workspace);
    }
    if (program == NULL) {
        TRY(compile(context, semiring, expression, operand_count, operands, output, &program));
        if (cached) { /* it will live in the context: no reference back */
            program->borrows_context = true;
            tensum_context_release(context);
        }
    }
    if (workspace == NULL) {
        TRY(tensum_workspace_create(program, NULL, &workspace));
    }
    tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
    arguments.inputs = operands;
    arguments.output = output;
    TRY(tensum_run(program, workspace, &arguments));
    if (cached) {
        ts_einsum_cache_give(context->cache, &key, program, workspace);
        program = NULL;
        workspace = NULL;
    }
done:
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    return status;
}
