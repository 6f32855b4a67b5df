#include <inttypes.h>

#include "execute/program.h"

tensum_status tensum_einsum(tensum_context *context, tensum_semiring semiring, const char *expression,
                            int64_t operand_count, const tensum_tensor *operands, const tensum_tensor *output)
{
    tensum_status status = TENSUM_OK;
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    tensum_plan *plan = NULL;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    int32_t *ranks = NULL;
    const int64_t **extents = NULL;
    if (expression == NULL || operand_count < 0 || (operand_count > 0 && operands == NULL) || output == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_einsum: an argument is NULL or the operand count negative");
    }
    TRY(ts_allocate((size_t)operand_count, sizeof *ranks, "einsum", &ranks));
    TRY(ts_allocate((size_t)operand_count, sizeof *extents, "einsum", &extents));
    for (int64_t i = 0; i < operand_count; i++) {
        ranks[i] = operands[i].rank;
        extents[i] = operands[i].extents;
        if (operands[i].dtype != output->dtype) {
            const char *given = tensum_dtype_name(operands[i].dtype), *wanted = tensum_dtype_name(output->dtype);
            status = ts_fail(TENSUM_STATUS_DTYPE_MISMATCH, "operand %" PRId64 " has dtype %s, the output %s", i,
                             given ? given : "(unknown)", wanted ? wanted : "(unknown)");
            goto done;
        }
        if (operands[i].device.kind != output->device.kind || operands[i].device.index != output->device.index) {
            status = ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "operand %" PRId64 " is on device %d:%d, the output on %d:%d", i,
                             (int)operands[i].device.kind, (int)operands[i].device.index, (int)output->device.kind,
                             (int)output->device.index);
            goto done;
        }
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
    TRY(tensum_program_create(plan, context, &program_options, &program));
    TRY(tensum_workspace_create(program, NULL, &workspace));
    tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
    arguments.inputs = operands;
    arguments.output = output;
    TRY(tensum_run(program, workspace, &arguments));
done:
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    tensum_plan_release(plan);
    tensum_tree_release(tree);
    tensum_network_release(network);
    ts_free(ranks);
    ts_free(extents);
    return status;
}
