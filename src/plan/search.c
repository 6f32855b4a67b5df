#include <inttypes.h>

#include "plan/plan.h"

static uint64_t needed_bytes(const tensum_plan *plan, unsigned modes)
{
    return (modes & TENSUM_GRADIENT) != 0 ? plan->gradient_bytes
           : (modes & TENSUM_DECODE) != 0 ? plan->keep_bytes
                                          : plan->value_bytes;
}

/* The search for an order counts elements of values that are freed as early as can be. What a plan takes is more:
 * alignment, gaps, values that gradients and decoding keep. So search, measure, and ask for less until it fits. */
tensum_status tensum_plan_search(tensum_network *network, const tensum_order_options *order_options,
                                 const tensum_plan_options *plan_options, tensum_context *context, tensum_plan **out)
{
    tensum_status status = TENSUM_OK;
    enum { MOST_ATTEMPTS = 16 };
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_tree *tree = NULL;
    tensum_plan *plan = NULL;
    uint64_t least = UINT64_MAX;
    if (network == NULL || plan_options == NULL || out == NULL || plan_options->size < sizeof options ||
        (order_options != NULL && order_options->size < sizeof order)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT,
                       "tensum_plan_search: network, plan_options or plan is NULL or a size is not set");
    }
    if (order_options != NULL) {
        order = *order_options;
    }
    options = *plan_options;
    order.element_bytes = tensum_dtype_bytes(options.dtype);
    uint64_t limit = options.memory_limit;
    unsigned modes = options.memory_modes != 0 ? options.memory_modes : TENSUM_VALUE;
    double elements = limit != 0 && order.element_bytes != 0 ? (double)limit / (double)order.element_bytes : 0;
    if (limit == 0) {
        TRY(tensum_order(network, &order, context, &tree));
        TRY(tensum_plan_create(network, tree, &options, out));
        goto done;
    }
    options.memory_limit = 0;
    for (int attempt = 0; attempt < MOST_ATTEMPTS && elements >= 1; attempt++) {
        order.memory_limit = elements;
        status = tensum_order(network, &order, context, &tree);
        if (status == TENSUM_STATUS_MEMORY_LIMIT && attempt > 0) {
            break; /* nothing is left to slice: say what the best needed */
        }
        TRY(status);
        TRY(tensum_plan_create(network, tree, &options, &plan));
        uint64_t needed = needed_bytes(plan, modes);
        least = needed < least ? needed : least;
        if (needed <= limit) {
            plan->memory_limit = limit;
            *out = plan;
            plan = NULL;
            goto done;
        }
        double share = (double)limit / (double)needed;
        elements *= share < 0.8 ? (share > 0.1 ? share : 0.1) : 0.8;
        tensum_plan_release(plan);
        tensum_tree_release(tree);
        plan = NULL;
        tree = NULL;
    }
    status = ts_fail(TENSUM_STATUS_MEMORY_LIMIT,
                     "the best order found needs %" PRIu64 " bytes for intermediates, the limit is %" PRIu64, least, limit);
done:
    tensum_plan_release(plan);
    tensum_tree_release(tree);
    return status;
}
