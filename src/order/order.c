/* tensum_order: options, the table of optimizers, and the way from a network to a tree. */
#include "order/exact.h"
#include "order/metis.h"
#include "order/search.h"
#include "order/window.h"

/* Candidates that cost little come first. */
static const ts_recipe automatic = {
    .candidates = {{TS_FROM_GREEDY, 0.0, 0.0},
                   {TS_FROM_SWEEP, 0.0, 0.0},
                   {TS_FROM_DEGREE, 0.0, 0.0},
                   {TS_FROM_FILL, 0.0, 0.0},
                   {TS_FROM_DISSECTION, 0.10, 0.3},
                   {TS_FROM_DISSECTION, 0.05, 0.0},
                   {TS_FROM_DISSECTION, 0.15, 0.3},
                   {TS_FROM_GREEDY, 0.3, 0.0},
                   {TS_FROM_DISSECTION, 0.10, 1.0},
                   {TS_FROM_SWEEP, 0.0, 0.0},
                   {TS_FROM_DEGREE, 0.1, 0.0}},
    .candidate_count = 11, .anneal = true, .width = 8, .hot = 0.5, .cold = 0.08};
static const ts_recipe greedy = {
    .candidates = {{TS_FROM_GREEDY, 0.0, 0.0}, {TS_FROM_GREEDY, 0.1, 0.0}, {TS_FROM_GREEDY, 0.3, 0.0},
                   {TS_FROM_GREEDY, 0.3, 0.0}, {TS_FROM_GREEDY, 1.0, 0.0}},
    .candidate_count = 5};
static const ts_recipe annealing = {
    .candidates = {{TS_FROM_GREEDY, 0.0, 0.0}}, .candidate_count = 1, .anneal = true, .hot = 1.0, .cold = 0.08};
static const ts_recipe dissection = {
    .candidates = {{TS_FROM_DISSECTION, 0.10, 0.3}, {TS_FROM_DISSECTION, 0.05, 0.0}, {TS_FROM_DISSECTION, 0.15, 0.3},
                   {TS_FROM_DISSECTION, 0.10, 1.0}, {TS_FROM_DISSECTION, 0.20, 0.0}, {TS_FROM_DISSECTION, 0.05, 0.3}},
    .candidate_count = 6, .width = 10};
static const ts_recipe metis = {
    .candidates = {{TS_FROM_METIS, 0.10, 0.3}, {TS_FROM_METIS, 0.05, 0.0}, {TS_FROM_METIS, 0.15, 0.3},
                   {TS_FROM_METIS, 0.10, 1.0}, {TS_FROM_METIS, 0.20, 0.0}, {TS_FROM_METIS, 0.05, 0.3}},
    .candidate_count = 6, .width = 10};
static const ts_recipe sweep = {
    .candidates = {{TS_FROM_SWEEP, 0.0, 0.0}, {TS_FROM_SWEEP, 0.0, 0.0}, {TS_FROM_SWEEP, 0.0, 0.0},
                   {TS_FROM_SWEEP, 0.0, 0.0}},
    .candidate_count = 4};
static const ts_recipe minimum_degree = {
    .candidates = {{TS_FROM_DEGREE, 0.0, 0.0}, {TS_FROM_DEGREE, 0.1, 0.0}, {TS_FROM_DEGREE, 0.3, 0.0}},
    .candidate_count = 3};
static const ts_recipe minimum_fill = {
    .candidates = {{TS_FROM_FILL, 0.0, 0.0}, {TS_FROM_FILL, 0.1, 0.0}, {TS_FROM_FILL, 0.3, 0.0}},
    .candidate_count = 3};
static const ts_recipe exact = {
    .candidates = {{TS_FROM_GREEDY, 0.0, 0.0}}, .candidate_count = 1, .exact = true, .width = 10};

/* One line per optimizer. The first is the default. */
static const ts_optimizer table[] = {
    {"auto", &automatic, "best of all, improved until the budget ends or a run is quick against it"},
    {"greedy", &greedy, "cheapest pair first, several times with noise"},
    {"annealing", &annealing, "simulated annealing of a greedy tree by rotations"},
    {"dissection", &dissection, "nested dissection, then every small subtree made optimal"},
    {"metis", &metis, "dissection with cuts by METIS, where that is installed"},
    {"sweep", &sweep, "one tensor absorbs its neighbours, from the rim on"},
    {"min_degree", &minimum_degree, "eliminates the label with the smallest clique first"},
    {"min_fill", &minimum_fill, "eliminates the label first that joins the fewest labels anew"},
    {"exact", &exact, "the best order of up to 20 tensors, outer products included"},
};
enum { TABLE_COUNT = sizeof table / sizeof *table };

const ts_optimizer *ts_optimizer_at(int index) { return index >= 0 && index < TABLE_COUNT ? &table[index] : NULL; }

const char *tensum_order_method_name(int index)
{
    const ts_optimizer *optimizer = ts_optimizer_at(index);
    return optimizer != NULL ? optimizer->name : NULL;
}

tensum_status ts_best_small(const ts_hypergraph *graph, int32_t *pairs)
{
    ts_price flops = TS_PRICE_FLOPS;
    double price;
    return graph->tensor_count <= TS_SMALL ? ts_exact_order(graph, &flops, INFINITY, pairs, &price)
                                           : ts_greedy(graph, 1.0, 0.0, 0, pairs);
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
            if (table[i].recipe == &metis && !ts_metis_installed()) {
                return ts_fail(TENSUM_STATUS_UNSUPPORTED, "method \"metis\" needs METIS, and no libmetis.so.5 was found");
            }
            return TENSUM_OK;
        }
    }
    const char *nearest = ts_nearest_name(name, names, TABLE_COUNT);
    return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "method \"%s\" is unknown%s%s%s", name,
                   nearest != NULL ? ", did you mean \"" : "", nearest != NULL ? nearest : "",
                   nearest != NULL ? "\"?" : "");
}

/* Moving an element costs as much time as this many pairs per 4 bytes: a core does 2e10 pairs or moves 1.3e10 bytes
 * in a second. */
#define PAIRS_PER_WORD 6.0

tensum_status ts_order_price(const char *minimize, size_t element_bytes, ts_price *price)
{
    const char *name = minimize != NULL ? minimize : "time";
    double bytes = element_bytes != 0 ? (double)element_bytes : 4.0;
    if (strcmp(name, "time") == 0) {
        /* every intermediate is written once and read once */
        *price = (ts_price){0.0, log2(2.0 * PAIRS_PER_WORD * bytes / 4.0), 1.0, INFINITY, 0.0};
    } else if (strcmp(name, "flops") == 0) {
        *price = TS_PRICE_FLOPS;
    } else if (strcmp(name, "write") == 0) {
        *price = (ts_price){-10.0, 0.0, 1.0, INFINITY, 0.0};
    } else if (strcmp(name, "size") == 0) {
        *price = (ts_price){-10.0, 0.0, 4.0, INFINITY, 0.0}; /* the fourth powers' sum is all but the largest */
    } else {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "minimize is \"%s\", expected time, flops, size or write", name);
    }
    return TENSUM_OK;
}

static tensum_status read_options(const tensum_order_options *given, tensum_order_options *options)
{
    if (given == NULL) {
        return TENSUM_OK;
    }
    if (given->size != sizeof *given) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "size of the order options is %zu, expected %zu", given->size,
                       sizeof *given);
    }
    *options = *given;
    if (!(options->time_limit >= 0.0) || isinf(options->time_limit)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "time_limit is %g, expected 0 or more seconds",
                       options->time_limit);
    }
    if (!(options->memory_limit >= 0.0)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "memory_limit is %g, expected 0 or more elements",
                       options->memory_limit);
    }
    if (isnan(options->work)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "work is not a number");
    }
    return TENSUM_OK;
}

/* The search, and the tree that the caller started with if nothing better was found. */
static tensum_status search_from(const tensum_network *network, const ts_hypergraph *graph, const ts_search *search,
                                 const ts_optimizer *optimizer, const tensum_tree *start, ts_pairs *given, ts_pairs *pairs)
{
    double given_price, price;
    tensum_status status;
    if (start == NULL || graph->tensor_count < 2) {
        return ts_search_network(graph, search, optimizer->recipe, pairs);
    }
    TRY(ts_tree_binarize(network, start, given));
    given->slice_count = 0;
    TRY(ts_better_start(graph, search, 0.15, given->pairs, &given_price));
    TRY(ts_search_network(graph, search, optimizer->recipe, pairs));
    TRY(ts_pairs_price(graph, pairs->pairs, &search->price, &price));
    if (given_price < price) { /* the ones that the search found first, of equals */
        memcpy(pairs->pairs, given->pairs, 2 * ((size_t)graph->tensor_count - 1) * sizeof *pairs->pairs);
    }
done:
    return status;
}

tensum_status ts_order_within(const tensum_network *network, const tensum_order_options *given, ts_memory *memory,
                              tensum_context *context, tensum_tree **tree)
{
    tensum_order_options options = TENSUM_ORDER_OPTIONS_INIT;
    ts_hypergraph graph = {0};
    ts_pairs pairs = {0}, given_pairs = {0};
    ts_search search = {.started = ts_seconds(), .memory = memory->search};
    const ts_optimizer *optimizer;
    double peak, overhead;
    tensum_status status;
    TRY(read_options(given, &options));
    TRY(find_method(options.method, &optimizer));
    TRY(ts_order_price(options.minimize, options.element_bytes, &search.price));
    search.seed = options.seed;
    search.pool = context != NULL ? context->pool : NULL;
    search.progress = options.progress;
    search.progress_user = options.progress_user;
    /* By default no more work than running the result is worth; a budget given is used up to where more is vain. */
    bool by_default = options.work < 0.0 && options.time_limit == 0.0;
    search.work = options.work < 0.0 ? 1.0 : options.work;
    search.enough = by_default ? 1.0 : 1e-3;
    search.deadline = options.time_limit > 0.0 ? search.started + options.time_limit : 0.0;
    if (memory->most > 0.0) {
        search.keep = 0.4; /* for slicing, if it comes to that */
    }
    TRY(ts_hypergraph_create(network, &graph));
    TRY(ts_allocate(graph.tensor_count > 1 ? 2 * (size_t)graph.tensor_count - 2 : 0, sizeof *pairs.pairs,
                    "contraction tree", &pairs.pairs));
    TRY(search_from(network, &graph, &search, optimizer, options.start, &given_pairs, &pairs));
    search.given = given_pairs.pairs;
    TRY(ts_schedule_within(&graph, memory, &pairs, &peak));
    if (memory->most > 0.0 && peak > memory->most) {
        TRY(ts_slice(&graph, &search, memory, &pairs, &overhead));
    }
    TRY(ts_pairs_to_tree(network, &pairs, tree));
done:
    ts_pairs_free(&pairs);
    ts_pairs_free(&given_pairs);
    ts_hypergraph_free(&graph);
    return status;
}

tensum_status tensum_order(const tensum_network *network, const tensum_order_options *options, tensum_context *context,
                           tensum_tree **tree)
{
    ts_memory memory = TS_MEMORY_INIT;
    if (network == NULL || tree == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s is NULL", network == NULL ? "network" : "tree");
    }
    if (options != NULL && options->size == sizeof *options) {
        memory.most = options->memory_limit;
    }
    return ts_order_within(network, options, &memory, context, tree);
}
