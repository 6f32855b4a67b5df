/* From a network to a plan whose runs keep a limit on memory. It is here and not with the plans because what a run
 * takes, packing buffers and slices side by side included, only a program knows. */
#include <inttypes.h>
#include <math.h>

#include "execute/program.h"

enum { MOST_ATTEMPTS = 16 };
static const double least_search = 4 << 20; /* bytes that the search may take whatever the limit */

/* Bytes of the best plan so far, for the message. */
typedef struct shortfall {
    uint64_t total, arena, rest;
    uint64_t fixed; /* of the last plan: what is held already, and tables that every order needs */
} shortfall;

/* What the order search counts, for a set of modes: see ts_memory. Good enough to aim; the program is what is measured. */
static ts_memory memory_model(const tensum_plan_options *options, unsigned modes, bool scalar_output)
{
    ts_memory memory = TS_MEMORY_INIT;
    double bytes = (double)tensum_dtype_bytes(options->dtype);
    bool selective = tensum_semiring_selective(options->semiring) != 0;
    if ((modes & (TENSUM_GRADIENT | TENSUM_DECODE)) != 0) {
        memory.held = 0.0;
        memory.kept = 1.0;
    }
    if ((modes & TENSUM_GRADIENT) != 0 && !(selective && scalar_output)) {
        memory.held = (double)tensum_dtype_bytes(tensum_dtype_gradient(options->dtype)) / bytes;
        memory.kept += selective ? (double)sizeof(int32_t) / bytes : 0.0;
    }
    return memory;
}

static bool scalar_output(const tensum_network *network)
{
    int64_t n = network->operand_count;
    for (int64_t m = network->offsets[n]; m < network->offsets[n + 1]; m++) {
        if (network->raw_extents[m] != 1) {
            return false;
        }
    }
    return true;
}

/* Plan a tree and measure it; *plan is made whether it fits or not. */
static tensum_status try_tree(tensum_network *network, tensum_tree *tree, const tensum_plan_options *options, unsigned modes,
                              tensum_context *context, tensum_plan **plan, bool *fits, shortfall *least)
{
    tensum_status status = TENSUM_OK;
    tensum_plan_options unlimited = *options;
    tensum_plan *made = NULL;
    uint64_t needed;
    unlimited.memory_limit = 0;
    TRY(tensum_plan_create(network, tree, &unlimited, &made));
    made->memory_limit = options->memory_limit;
    if (made->too_large) {
        needed = UINT64_MAX;
    } else {
        TRY(ts_program_measure(made, context, options->device, modes, &needed, &least->fixed));
    }
    *fits = needed <= options->memory_limit;
    if (needed < least->total) {
        uint64_t arena = ts_plan_arena_bytes(made, modes);
        *least = (shortfall){needed, arena, needed - options->memory_taken - arena, least->fixed};
    }
    *plan = made;
    made = NULL;
done:
    tensum_plan_release(made);
    return status;
}

static tensum_status refuse(const tensum_plan_options *options, const shortfall *least)
{
    if (least->total == UINT64_MAX) {
        return ts_fail(TENSUM_STATUS_MEMORY_LIMIT, "slices that no run could get through would be needed to fit into a limit of %" PRIu64
                       " bytes", options->memory_limit);
    }
    return ts_fail(TENSUM_STATUS_MEMORY_LIMIT,
                   "the best order found needs %" PRIu64 " bytes: %" PRIu64 " for intermediates, %" PRIu64
                   " for packing and the program, %" PRIu64 " for what is held already; the limit is %" PRIu64,
                   least->total, least->arena, least->rest, options->memory_taken, options->memory_limit);
}

/* The search counts elements of intermediates in the best sequence. What a program takes is more: alignment, gaps,
 * packing buffers. So search, measure, and ask for less until it fits. */
static tensum_status search_within(tensum_network *network, tensum_order_options *order, const tensum_plan_options *options,
                                   tensum_context *context, tensum_plan **out)
{
    tensum_status status = TENSUM_OK;
    tensum_tree *tree = NULL, *last = NULL;
    tensum_plan *plan = NULL;
    shortfall least = {UINT64_MAX, 0, 0, 0};
    bool fits = false;
    unsigned modes = options->memory_modes != 0 ? options->memory_modes : TENSUM_VALUE;
    uint64_t limit = options->memory_limit, share = ts_program_share(limit), element_bytes = order->element_bytes;
    double time_limit = order->time_limit, work = order->work;
    ts_memory memory = memory_model(options, modes, scalar_output(network));
    if (order->start != NULL) {
        /* trees are immutable but for the count of references */
        tree = tensum_tree_retain((tensum_tree *)(uintptr_t)order->start);
        TRY(try_tree(network, tree, options, modes, context, &plan, &fits, &least));
        if (fits) {
            *out = plan;
            plan = NULL;
            goto done;
        }
    }
    if (options->memory_taken + share >= limit || element_bytes == 0) {
        status = ts_fail(TENSUM_STATUS_MEMORY_LIMIT,
                         "%" PRIu64 " bytes are held already: a run needs more than %" PRIu64 ", the limit is %" PRIu64,
                         options->memory_taken, options->memory_taken + share, limit);
        goto done;
    }
    double room = (double)(limit - options->memory_taken - share);
    memory.search = room > least_search ? room : least_search;
    memory.most = room / (double)element_bytes;
    order->time_limit = 0.7 * time_limit;
    /* Far below that slices multiply, while packing buffers hardly shrink. */
    double lowest = fmax(1.0, memory.most / 64.0);
    for (int attempt = 0; attempt < MOST_ATTEMPTS && memory.most >= lowest; attempt++) {
        tensum_plan_release(plan);
        tensum_tree_release(last);
        plan = NULL;
        last = tree;
        tree = NULL;
        order->start = last;
        status = ts_order_within(network, order, &memory, context, &tree);
        if (status == TENSUM_STATUS_MEMORY_LIMIT && memory.needed > 0.0) {
            if (least.total == UINT64_MAX) {
                status = ts_fail(TENSUM_STATUS_MEMORY_LIMIT,
                                 "slices cannot bring intermediates below %.0f bytes; with %" PRIu64
                                 " for what is held already and %" PRIu64 " for the program the limit is %" PRIu64,
                                 memory.needed * (double)element_bytes, options->memory_taken, share, limit);
                goto done;
            }
            break; /* nothing is left to slice: say what the best needed */
        }
        TRY(status);
        status = try_tree(network, tree, options, modes, context, &plan, &fits, &least);
        if (status == TENSUM_STATUS_SIZE_OVERFLOW) {
            break; /* more slices than can be counted */
        }
        TRY(status);
        if (fits) {
            *out = plan;
            plan = NULL;
            goto done;
        }
        if (least.fixed >= limit) {
            break;
        }
        /* Mostly the arena is what counts; what comes to it changes with the tree, but not by much. */
        double arena = (double)ts_plan_arena_bytes(plan, modes), allowed = room - (double)least.rest;
        double ratio = arena > 0.0 && allowed > 0.0 ? 0.98 * allowed / arena : 0.5;
        memory.most *= ratio > 0.9 ? 0.9 : ratio > 0.1 ? ratio : 0.1;
        order->time_limit = 0.15 * time_limit;
        order->work = work < 0.0 ? 0.5 : 0.5 * work;
    }
    status = refuse(options, &least);
done:
    tensum_plan_release(plan);
    tensum_tree_release(tree);
    tensum_tree_release(last);
    return status;
}

tensum_status tensum_plan_search(tensum_network *network, const tensum_order_options *order_options,
                                 const tensum_plan_options *plan_options, tensum_context *context, tensum_plan **out)
{
    tensum_status status = TENSUM_OK;
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_tree *tree = NULL;
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
    order.memory_limit = 0.0;
    if (options.memory_limit != 0) {
        status = search_within(network, &order, &options, context, out);
        ts_give_back_memory(); /* what the search took shall not come to what the run takes */
        return status;
    }
    TRY(tensum_order(network, &order, context, &tree));
    TRY(tensum_plan_create(network, tree, &options, out));
done:
    tensum_tree_release(tree);
    return status;
}
