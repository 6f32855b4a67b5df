/* A limit on memory is a promise: a process that plans and runs within it grows by no more than it, the answer is right,
 * and a limit that cannot be kept is refused with the bytes that would be needed. The networks are random graphs of
 * degree 3, a tensor for each vertex and a label of extent 2 for each edge, made around an answer that is known. */
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0 /* a sanitizer takes memory and time of its own: a small network, and growth is not looked at */
#endif

enum { VERTICES = SANITIZED ? 100 : 196, EDGES = VERTICES * 3 / 2 };
#define LIMIT ((uint64_t)(SANITIZED ? 1 : 64) << 20)

typedef struct graph {
    int64_t labels[VERTICES][3];
    int ends[EDGES][2];
    double parts[EDGES]; /* sum_product: an edge's two tensors have (p, 1 - p) and (1, 1) along it */
    int64_t planted[EDGES];
} graph;
static graph g;

static uint64_t state = 42;
static uint32_t next(uint32_t bound)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % bound;
}

static bool touches(int a, int b, int edges)
{
    for (int e = 0; e < edges; e++) {
        if ((g.ends[e][0] == a && g.ends[e][1] == b) || (g.ends[e][0] == b && g.ends[e][1] == a)) {
            return true;
        }
    }
    return false;
}

static bool try_graph(void)
{
    int stubs[2 * EDGES], degree[VERTICES] = {0};
    for (int i = 0; i < 2 * EDGES; i++) {
        stubs[i] = i / 3;
    }
    for (int e = 0; e < EDGES; e++) {
        int left = 2 * (EDGES - e), tries = 0, i, j;
        do {
            i = (int)next((uint32_t)left);
            j = (int)next((uint32_t)left);
            if (++tries > 1000) {
                return false;
            }
        } while (stubs[i] == stubs[j] || touches(stubs[i], stubs[j], e));
        g.ends[e][0] = stubs[i];
        g.ends[e][1] = stubs[j];
        int high = i > j ? i : j, low = i > j ? j : i;
        stubs[high] = stubs[left - 1];
        stubs[low] = stubs[left - 2] == stubs[high] && high == left - 2 ? stubs[high] : stubs[left - 2];
    }
    for (int e = 0; e < EDGES; e++) {
        for (int k = 0; k < 2; k++) {
            g.labels[g.ends[e][k]][degree[g.ends[e][k]]++] = e;
        }
        g.parts[e] = 0.25 * (1 + next(3));
        g.planted[e] = next(2);
    }
    for (int v = 0; v < VERTICES; v++) {
        if (degree[v] != 3) {
            return false;
        }
    }
    return true;
}

static tensum_network *make_network(void)
{
    static const int64_t two[3] = {2, 2, 2};
    int32_t ranks[VERTICES];
    const int64_t *labels[VERTICES], *extents[VERTICES];
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    tensum_network *network = NULL;
    for (int v = 0; v < VERTICES; v++) {
        ranks[v] = 3;
        labels[v] = g.labels[v];
        extents[v] = two;
    }
    spec.operand_count = VERTICES;
    spec.ranks = ranks;
    spec.labels = labels;
    spec.extents = extents;
    assert_int_equal(tensum_network_create(&spec, &network), TENSUM_OK);
    return network;
}

/* Index of the edge's value in a vertex's tensor. */
static int64_t digit(int index, int mode) { return index >> (2 - mode) & 1; }

static double part(int v, int mode, int64_t value)
{
    int64_t e = g.labels[v][mode];
    return g.ends[e][0] == v ? (value != 0 ? 1 - g.parts[e] : g.parts[e]) : 1;
}

static bool planted(int v, int index)
{
    bool all = true;
    for (int m = 0; m < 3; m++) {
        all = all && g.planted[g.labels[v][m]] == digit(index, m);
    }
    return all;
}

static double element(bool maximum, int v, int index)
{
    if (maximum) {
        return planted(v, index) ? 8 : (v * 7 + index * 5) % 7; /* nothing else attains 8 at every vertex */
    }
    return part(v, 0, digit(index, 0)) * part(v, 1, digit(index, 1)) * part(v, 2, digit(index, 2));
}

/* The rest of the network as seen from a vertex: along each edge what the other end has. */
static double expected_gradient(bool maximum, int v, int index)
{
    double product = 1;
    for (int m = 0; m < 3 && !maximum; m++) {
        int64_t e = g.labels[v][m];
        int other = g.ends[e][0] == v ? g.ends[e][1] : g.ends[e][0];
        for (int k = 0; k < 3; k++) {
            product *= g.labels[other][k] == e ? part(other, k, digit(index, m)) : 1;
        }
    }
    return maximum ? planted(v, index) : product;
}

typedef struct report {
    int64_t growth, slices;
    double tc, overhead;
    uint64_t needed;
} report;

/* VmHWM; 0 where there is no /proc. */
static int64_t most_memory(void)
{
    char line[256];
    long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && sscanf(line, "VmHWM: %lld", &kib) != 1) {
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib * 1024;
}

#define MUST(call)                                                       \
    do {                                                                 \
        if ((call) != TENSUM_OK) {                                       \
            fprintf(stderr, "%s: %s\n", #call, tensum_last_error());     \
            return 1;                                                    \
        }                                                                \
    } while (0)

/* In a process of its own: plan and run within the limit; 0 if the answer is right. */
static int run_within(bool maximum, unsigned modes, uint64_t limit, report *result)
{
    static const int64_t two[3] = {2, 2, 2};
    tensum_dtype dtype = maximum ? TENSUM_F32 : TENSUM_F64;
    tensum_context_options threads = TENSUM_CONTEXT_OPTIONS_INIT;
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_program_options program_options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_cost cost = TENSUM_COST_INIT;
    prepared made;
    tensum_context *context = NULL;
    tensum_tensor inputs[VERTICES], gradients[VERTICES];
    int64_t assignment[EDGES];
    double value = 0;
    float value32 = 0;
    int64_t before = most_memory();
    memset(&made, 0, sizeof made);
    threads.threads = 2;
    MUST(tensum_context_create(&threads, &context));
    made.network = make_network();
    for (int v = 0; v < VERTICES; v++) {
        double *data = malloc(8 * sizeof *data), *gradient = malloc(8 * sizeof *gradient);
        for (int i = 0; i < 8; i++) {
            if (maximum) {
                ((float *)(void *)data)[i] = (float)element(true, v, i);
            } else {
                data[i] = element(false, v, i);
            }
        }
        inputs[v] = (tensum_tensor){data, dtype, 3, two, NULL, {TENSUM_CPU, 0}};
        gradients[v] = (tensum_tensor){gradient, tensum_dtype_gradient(dtype), 3, two, NULL, {TENSUM_CPU, 0}};
    }
    options.semiring = maximum ? TENSUM_MAX_PLUS : TENSUM_SUM_PRODUCT;
    options.dtype = dtype;
    options.memory_modes = modes;
    options.memory_limit = limit;
    options.memory_taken = (uint64_t)VERTICES * 8 * 2 * sizeof(double);
    MUST(tensum_plan_search(made.network, &order, &options, context, &made.plan));
    MUST(tensum_plan_cost(made.plan, &cost));
    result->slices = cost.slices;
    result->tc = cost.tc;
    result->overhead = cost.overhead;
    result->needed = (modes & TENSUM_GRADIENT) != 0 ? cost.peak_bytes_gradient
                     : (modes & TENSUM_DECODE) != 0 ? cost.peak_bytes_decode
                                                    : cost.peak_bytes_value;
    if (limit == 0) {
        return 0; /* what it would take */
    }
    program_options.modes = modes;
    MUST(tensum_program_create(made.plan, context, &program_options, &made.program));
    if (tensum_program_workspace_bytes(made.program) + options.memory_taken > limit) {
        fprintf(stderr, "the workspace has %zu bytes\n", tensum_program_workspace_bytes(made.program));
        return 1;
    }
    MUST(tensum_workspace_create(made.program, NULL, &made.workspace));
    tensum_tensor output = SCALAR(dtype, maximum ? (void *)&value32 : (void *)&value);
    run.inputs = inputs;
    run.output = &output;
    run.gradients = (modes & TENSUM_GRADIENT) != 0 ? gradients : NULL;
    run.assignments = (modes & TENSUM_DECODE) != 0 ? assignment : NULL;
    run.position_count = (modes & TENSUM_DECODE) != 0;
    MUST(tensum_run(made.program, made.workspace, &run));
    result->growth = most_memory() - before;
    value = maximum ? (double)value32 : value;
    if (fabs(value - (maximum ? 8.0 * VERTICES : 1.0)) > (maximum ? 0 : 1e-12)) {
        fprintf(stderr, "value %.17g\n", value);
        return 1;
    }
    for (int v = 0; v < VERTICES && run.gradients != NULL; v++) {
        for (int i = 0; i < 8; i++) {
            double wanted = expected_gradient(maximum, v, i);
            double found = maximum ? (double)((const float *)gradients[v].data)[i] : ((const double *)gradients[v].data)[i];
            if (fabs(found - wanted) > (maximum ? 0 : 1e-12)) {
                fprintf(stderr, "gradient of tensor %d, element %d: %.17g, expected %.17g\n", v, i, found, wanted);
                return 1;
            }
        }
    }
    for (int64_t l = 0; l < EDGES && run.assignments != NULL; l++) {
        if (assignment[l] != g.planted[tensum_network_labels(made.network)[l]]) {
            fprintf(stderr, "label %lld is %lld\n", (long long)l, (long long)assignment[l]);
            return 1;
        }
    }
    for (int v = 0; v < VERTICES; v++) {
        free(inputs[v].data);
        free(gradients[v].data);
    }
    prepared_release(&made);
    tensum_context_release(context);
    return 0;
}

static report in_a_child(bool maximum, unsigned modes, uint64_t limit)
{
    report result = {0};
    int ends[2], status = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int failed = run_within(maximum, modes, limit, &result);
        failed = failed || write(ends[1], &result, sizeof result) != (ssize_t)sizeof result;
        _exit(failed);
    }
    close(ends[1]);
    bool told = read(ends[0], &result, sizeof result) == (ssize_t)sizeof result;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(told);
    return result;
}

static void keeps(bool maximum, unsigned modes, uint64_t limit)
{
    report all = in_a_child(maximum, modes, 0), within = in_a_child(maximum, modes, limit);
    print_message("unlimited 2^%.1f pairs, %" PRIu64 " MiB; within %" PRIu64 " MiB: 2^%.1f pairs, %" PRId64
                  " slices, %" PRIu64 " MiB of intermediates, the process grew by %" PRId64 " MiB\n",
                  all.tc, all.needed >> 20, limit >> 20, within.tc, within.slices, within.needed >> 20, within.growth >> 20);
    assert_true(within.overhead >= -1e-9 && within.overhead < 6);
    assert_true(all.needed > (SANITIZED ? 1 : 5) * limit);
    assert_true(within.slices > 1 || SANITIZED);
    if (!SANITIZED) { /* tensum_plan_options::memory_limit: so much of the plan and the program is not counted */
        const uint64_t allowance = limit / 8 < 8 << 20 ? limit / 8 : 8 << 20;
        assert_true(within.growth <= (int64_t)(limit + allowance));
    }
}

static void values_keep_the_limit(void **unused)
{
    (void)unused;
    keeps(true, TENSUM_VALUE, LIMIT / 2);
    keeps(false, TENSUM_VALUE, LIMIT);
}
static void gradients_keep_the_limit(void **unused)
{
    (void)unused;
    keeps(false, TENSUM_VALUE | TENSUM_GRADIENT, LIMIT);
    keeps(true, TENSUM_VALUE | TENSUM_GRADIENT, LIMIT);
}
static void decoding_keeps_the_limit(void **unused)
{
    (void)unused;
    keeps(true, TENSUM_VALUE | TENSUM_DECODE, LIMIT);
}

/* What cannot be kept is refused, in bytes: by what is held already, by inputs alone, by a program in another mode. */
static void what_cannot_be_kept_is_refused(void **unused)
{
    (void)unused;
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_program_options program_options = TENSUM_PROGRAM_OPTIONS_INIT;
    prepared made;
    memset(&made, 0, sizeof made);
    made.network = make_network();
    order.work = 0.1;
    options.dtype = TENSUM_F64;
    options.memory_limit = LIMIT;
    options.memory_taken = LIMIT;
    assert_int_equal(tensum_plan_search(made.network, &order, &options, NULL, &made.plan), TENSUM_STATUS_MEMORY_LIMIT);
    assert_non_null(strstr(tensum_last_error(), "held already"));
    options.memory_taken = 0;
    options.memory_limit = 512; /* not even the packing buffers fit */
    assert_int_equal(tensum_plan_search(made.network, &order, &options, NULL, &made.plan), TENSUM_STATUS_MEMORY_LIMIT);
    assert_non_null(strstr(tensum_last_error(), "bytes"));
    assert_null(made.plan);
    options.memory_limit = LIMIT;
    assert_int_equal(tensum_plan_search(made.network, &order, &options, NULL, &made.plan), TENSUM_OK);
    assert_int_equal(tensum_program_create(made.plan, NULL, &program_options, &made.program), TENSUM_OK);
    tensum_program_release(made.program);
    made.program = NULL;
    program_options.modes = TENSUM_VALUE | TENSUM_GRADIENT; /* the plan was made for values, and gradients keep more */
    if (!SANITIZED) { /* those of the small network fit */
        assert_int_equal(tensum_program_create(made.plan, NULL, &program_options, &made.program), TENSUM_STATUS_MEMORY_LIMIT);
        assert_non_null(strstr(tensum_last_error(), "the limit is"));
    }
    prepared_release(&made);
}

/* A start that fits is taken as it is; one that does not is sliced or replaced; without a limit the result is no dearer. */
static void a_start_is_used(void **unused)
{
    (void)unused;
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT, quick = TENSUM_ORDER_OPTIONS_INIT;
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_cost good = TENSUM_COST_INIT, found = TENSUM_COST_INIT;
    tensum_network *network = make_network();
    tensum_tree *start = NULL, *tree = NULL;
    tensum_plan *plan = NULL;
    options.dtype = TENSUM_F64;
    order.work = 1;
    order.minimize = quick.minimize = "flops";
    assert_int_equal(tensum_order(network, &order, NULL, &start), TENSUM_OK);
    assert_int_equal(tensum_plan_create(network, start, &options, &plan), TENSUM_OK);
    assert_int_equal(tensum_plan_cost(plan, &good), TENSUM_OK);
    tensum_plan_release(plan);
    plan = NULL;
    /* greedy alone is worse by many bits */
    quick.method = "greedy";
    quick.work = 0.01;
    quick.start = start;
    assert_int_equal(tensum_order(network, &quick, NULL, &tree), TENSUM_OK);
    assert_int_equal(tensum_plan_create(network, tree, &options, &plan), TENSUM_OK);
    assert_int_equal(tensum_plan_cost(plan, &found), TENSUM_OK);
    assert_true(found.tc <= good.tc + 1e-9);
    tensum_plan_release(plan);
    plan = NULL;
    tensum_tree_release(tree);
    options.memory_limit = good.peak_bytes_value * 2 + ((uint64_t)32 << 20);
    assert_int_equal(tensum_plan_search(network, &quick, &options, NULL, &plan), TENSUM_OK);
    assert_ptr_equal(tensum_plan_tree(plan), start);
    tensum_plan_release(plan);
    plan = NULL;
    options.memory_limit = good.peak_bytes_value / 2;
    assert_int_equal(tensum_plan_search(network, &quick, &options, NULL, &plan), TENSUM_OK);
    assert_int_equal(tensum_plan_cost(plan, &found), TENSUM_OK);
    assert_true(found.slices > 1 && found.peak_bytes_value <= options.memory_limit);
    tensum_plan_release(plan);
    tensum_tree_release(start);
    tensum_network_release(network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_keep_the_limit),
        cmocka_unit_test(gradients_keep_the_limit),
        cmocka_unit_test(decoding_keeps_the_limit),
        cmocka_unit_test(what_cannot_be_kept_is_refused),
        cmocka_unit_test(a_start_is_used),
    };
    while (!try_graph()) {
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
