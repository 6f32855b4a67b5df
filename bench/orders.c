/* One contraction order: orders FILE [--method NAME] [--time SECONDS | --work UNITS] [--threads N] [--seed N]
 * [--minimize flops|time|size|write] [--memory LOG2_ELEMENTS]. Prints one line of JSON: costs, seconds. bench/orders.py makes a table of many. */
#include "instances.h"
#include "order/search.h"

#include <stdio.h>
#include <stdlib.h>

static int fail(void)
{
    fprintf(stderr, "orders: %s\n", tensum_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    const char *method = "auto", *minimize = "flops";
    double seconds = 0.0, work = 1.0, memory = 0.0, overhead = 0.0;
    int threads = 1;
    uint64_t seed = 0;
    ts_hypergraph graph;
    if (argc < 2 || argc % 2 != 0) {
        fprintf(stderr, "usage: orders FILE [--method NAME] [--time S] [--work U] [--threads N] [--seed N]\n");
        return 2;
    }
    for (int i = 2; i < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--method") == 0) {
            method = value;
        } else if (strcmp(argv[i], "--minimize") == 0) {
            minimize = value;
        } else if (strcmp(argv[i], "--time") == 0) {
            seconds = atof(value);
        } else if (strcmp(argv[i], "--work") == 0) {
            work = atof(value);
        } else if (strcmp(argv[i], "--memory") == 0) {
            memory = exp2(atof(value));
        } else if (strcmp(argv[i], "--threads") == 0) {
            threads = atoi(value);
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(value, NULL, 10);
        } else {
            fprintf(stderr, "orders: unknown option %s\n", argv[i]);
            return 2;
        }
    }
    if (!instance_read(argv[1], &graph)) {
        return 1;
    }
    const ts_optimizer *optimizer = NULL;
    for (int i = 0; ts_optimizer_at(i) != NULL; i++) {
        if (strcmp(ts_optimizer_at(i)->name, method) == 0) {
            optimizer = ts_optimizer_at(i);
        }
    }
    if (optimizer == NULL) {
        fprintf(stderr, "orders: unknown method %s\n", method);
        return 2;
    }
    ts_search search = {.seed = seed, .work = work, .enough = 1e-3, .started = ts_seconds()};
    search.deadline = seconds > 0.0 ? search.started + seconds : 0.0;
    search.keep = memory > 0.0 ? 0.4 : 0.0;
    ts_pairs pairs = {.tensor_count = graph.tensor_count};
    ts_order_cost cost;
    double peak;
    if (ts_allocate(2 * (size_t)graph.tensor_count, sizeof *pairs.pairs, "tree", &pairs.pairs) != TENSUM_OK ||
        ts_order_price(minimize, 4, &search.price) != TENSUM_OK ||
        ts_pool_create(threads, &search.pool) != TENSUM_OK ||
        ts_search_network(&graph, &search, optimizer->recipe, &pairs) != TENSUM_OK) {
        return fail();
    }
    if (ts_schedule(&graph, &pairs, &peak, NULL) != TENSUM_OK) {
        return fail();
    }
    if (memory > 0.0 && peak > memory) {
        ts_memory limit = TS_MEMORY_INIT;
        limit.most = memory;
        if (ts_slice(&graph, &search, &limit, &pairs, &overhead) != TENSUM_OK) {
            return fail();
        }
    }
    double took = ts_seconds() - search.started;
    if (ts_schedule(&graph, &pairs, &peak, NULL) != TENSUM_OK || ts_order_cost_of(&graph, &pairs, &cost) != TENSUM_OK) {
        return fail();
    }
    printf("{\"tensors\": %d, \"method\": \"%s\", \"tc\": %.4f, \"sc\": %.4f, \"rw\": %.4f, \"peak\": %.4f, "
           "\"sliced\": %d, \"overhead\": %.3f, \"seconds\": %.3f}\n",
           graph.tensor_count, method, cost.tc, cost.sc, cost.rw, log2(peak), pairs.slice_count, overhead, took);
    ts_pool_destroy(search.pool);
    ts_pairs_free(&pairs);
    instance_free(&graph);
    return 0;
}
