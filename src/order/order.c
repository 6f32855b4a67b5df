/* tensum_order: options, the table of optimizers, and the way from a network to a tree. */
#include "order/optimizer.h"

/* One line per optimizer. The first is the default. */
static const ts_optimizer table[] = {
    {"auto", ts_method_greedy, "the best of all, within the work budget"},
    {"greedy", ts_method_greedy, "cheapest pair first"},
};
enum { TABLE_COUNT = sizeof table / sizeof *table };

const ts_optimizer *ts_optimizer_at(int index) { return index >= 0 && index < TABLE_COUNT ? &table[index] : NULL; }

const char *tensum_order_method_name(int index)
{
    const ts_optimizer *optimizer = ts_optimizer_at(index);
    return optimizer != NULL ? optimizer->name : NULL;
}

tensum_status ts_best_small(const ts_hypergraph *graph, int32_t *pairs) { return ts_greedy(graph, 1.0, 0.0, 0, pairs); }

tensum_status ts_method_greedy(const ts_hypergraph *graph, const ts_search *search, ts_pairs *pairs)
{
    return ts_greedy(graph, 1.0, 0.0, search->seed, pairs->pairs);
}

static tensum_status find_method(const char *name, const ts_optimizer **optimizer)
{
    const char *names[TABLE_COUNT];
    *optimizer = &table[0];
    if (name == NULL) {
        return TENSUM_OK;
    }
    for (int i = 0; i < TABLE_COUNT; i++) {
        names[i] = table[i].name;
        if (strcmp(name, table[i].name) == 0) {
            *optimizer = &table[i];
            return TENSUM_OK;
        }
    }
    const char *nearest = ts_nearest_name(name, names, TABLE_COUNT);
    return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "method \"%s\" is unknown%s%s%s", name,
                   nearest != NULL ? ", did you mean \"" : "", nearest != NULL ? nearest : "",
                   nearest != NULL ? "\"?" : "");
}

static tensum_status find_objective(const char *name, ts_objective *objective)
{
    static const char *const names[] = {"time", "flops", "size", "write"};
    *objective = TS_MINIMIZE_TIME;
    if (name == NULL) {
        return TENSUM_OK;
    }
    for (int i = 0; i < 4; i++) {
        if (strcmp(name, names[i]) == 0) {
            *objective = (ts_objective)i;
            return TENSUM_OK;
        }
    }
    return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "minimize is \"%s\", expected time, flops, size or write", name);
}

tensum_status tensum_order(const tensum_network *network, const tensum_order_options *given, tensum_context *context,
                           tensum_tree **tree)
{
    tensum_order_options options = TENSUM_ORDER_OPTIONS_INIT;
    ts_hypergraph graph = {0};
    ts_pairs pairs = {0};
    ts_search search = {0};
    const ts_optimizer *optimizer;
    tensum_status status;
    if (network == NULL || tree == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s is NULL", network == NULL ? "network" : "tree");
    }
    if (given != NULL) {
        if (given->size < sizeof given->size || given->size > sizeof options) {
            return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "size of the order options is %zu, expected %zu",
                           given->size, sizeof options);
        }
        memcpy(&options, given, given->size);
    }
    TRY(find_method(options.method, &optimizer));
    TRY(find_objective(options.minimize, &search.objective));
    search.seed = options.seed;
    search.pool = context != NULL ? context->pool : NULL;
    TRY(ts_hypergraph_create(network, &graph));
    pairs.tensor_count = graph.tensor_count;
    TRY(ts_allocate(graph.tensor_count > 1 ? 2 * (size_t)graph.tensor_count - 2 : 0, sizeof *pairs.pairs,
                    "contraction tree", &pairs.pairs));
    TRY(optimizer->run(&graph, &search, &pairs));
    TRY(ts_pairs_to_tree(network, &pairs, tree));
done:
    ts_pairs_free(&pairs);
    ts_hypergraph_free(&graph);
    return status;
}
