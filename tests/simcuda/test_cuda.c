/* The CUDA backend on the simulated driver: residency, counters, devices, streams, capture, failures. That results are
 * right for all semirings, dtypes and shapes is for the conformance suite; here a few are compared with numbers worked
 * out in the tests themselves. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <simcuda/simcuda.h>
#include <tensum/tensum.h>

static const tensum_device cuda0 = {TENSUM_CUDA, 0};
static const tensum_device cpu = {TENSUM_CPU, 0};

/* Is the simulated device one without stream-ordered memory? */
static int plain_memory(void)
{
    const char *pools = getenv("SIMCUDA_POOLS");
    return pools != NULL && pools[0] == '0';
}

static void no_fault(void)
{
    const char *fault = simcuda_fault();
    if (fault != NULL) {
        fail_msg("simulator: %s", fault);
    }
}

static void succeeds(tensum_status status)
{
    if (status != TENSUM_OK) {
        fail_msg("%s: %s", tensum_status_name(status), tensum_last_error());
    }
}

/* ---- a chain of n matrices, 2x2, closed to a scalar: sum over all labels of x0[a,b] x1[b,c] ... x(n-1)[y,z] ---- */

typedef struct chain {
    int64_t count;
    int32_t *ranks;
    int64_t (*labels)[2], (*extents)[2];
    const int64_t **label_lists, **extent_lists;
    float *data; /* [count][4] */
    tensum_tensor *inputs;
    tensum_plan *plan;
} chain;

static void chain_make(chain *c, int64_t count, tensum_semiring semiring)
{
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    int64_t *offsets = calloc((size_t)count, sizeof *offsets);
    int64_t *children = calloc(2 * (size_t)count, sizeof *children);

    c->count = count;
    c->ranks = calloc((size_t)count, sizeof *c->ranks);
    c->labels = calloc((size_t)count, sizeof *c->labels);
    c->extents = calloc((size_t)count, sizeof *c->extents);
    c->label_lists = calloc((size_t)count, sizeof *c->label_lists);
    c->extent_lists = calloc((size_t)count, sizeof *c->extent_lists);
    c->data = calloc((size_t)count * 4, sizeof *c->data);
    c->inputs = calloc((size_t)count, sizeof *c->inputs);
    for (int64_t i = 0; i < count; i++) {
        c->ranks[i] = 2;
        c->labels[i][0] = i;
        c->labels[i][1] = i + 1;
        c->extents[i][0] = c->extents[i][1] = 2;
        c->label_lists[i] = c->labels[i];
        c->extent_lists[i] = c->extents[i];
        for (int k = 0; k < 4; k++) {
            c->data[i * 4 + k] = (float)((i * 7 + k * 5) % 11 - 5);
        }
        c->inputs[i] = (tensum_tensor){&c->data[i * 4], TENSUM_F32, 2, c->extents[i], NULL, cpu};
    }
    spec.operand_count = count;
    spec.ranks = c->ranks;
    spec.labels = c->label_lists;
    spec.extents = c->extent_lists;
    succeeds(tensum_network_create(&spec, &network));
    for (int64_t s = 0; s + 1 < count; s++) { /* from the left */
        offsets[s] = 2 * s;
        children[2 * s] = s == 0 ? 0 : count + s - 1;
        children[2 * s + 1] = s + 1;
    }
    offsets[count - 1] = 2 * (count - 1);
    succeeds(tensum_tree_from_ssa(count, count - 1, offsets, children, &tree));
    options.semiring = semiring;
    options.dtype = TENSUM_F32;
    succeeds(tensum_plan_create(network, tree, &options, &c->plan));
    tensum_tree_release(tree);
    tensum_network_release(network);
    free(offsets);
    free(children);
}

static void chain_free(chain *c)
{
    tensum_plan_release(c->plan);
    free(c->ranks);
    free(c->labels);
    free(c->extents);
    free(c->label_lists);
    free(c->extent_lists);
    free(c->data);
    free(c->inputs);
}

/* The largest sum along the chain and a path that attains it, by dynamic programming from the right. */
static float chain_best(const chain *c, int64_t *path)
{
    float best[2] = {0, 0};
    int *from = calloc((size_t)c->count * 2, sizeof *from);
    float value;
    int at;

    for (int64_t i = c->count - 1; i >= 0; i--) {
        float next[2];
        for (int a = 0; a < 2; a++) {
            float x = c->data[i * 4 + a * 2] + best[0], y = c->data[i * 4 + a * 2 + 1] + best[1];
            next[a] = y > x ? y : x;
            from[i * 2 + a] = y > x;
        }
        best[0] = next[0];
        best[1] = next[1];
    }
    at = best[1] > best[0];
    value = best[at];
    for (int64_t i = 0; path != NULL && i <= c->count; i++) {
        path[i] = at;
        at = i < c->count ? from[i * 2 + at] : 0;
    }
    free(from);
    return value;
}

static tensum_program *compile(const chain *c, unsigned modes, tensum_device device)
{
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_program *program = NULL;

    options.modes = modes;
    options.device = device;
    succeeds(tensum_program_create(c->plan, NULL, &options, &program));
    return program;
}

/* ---- tests ---- */

static void devices_are_listed(void **state)
{
    tensum_device_info info = {.size = sizeof info};
    tensum_device second = {TENSUM_CUDA, 1}, third = {TENSUM_CUDA, 2};

    (void)state;
    assert_int_equal(tensum_device_count(TENSUM_CUDA), 2);
    succeeds(tensum_device_query(second, &info));
    assert_string_equal(info.name, "simulated device 1");
    assert_string_equal(info.driver, "CUDA 13.0");
    assert_int_equal(info.units, 4);
    assert_int_equal(tensum_device_query(third, &info), TENSUM_STATUS_NO_DEVICE);
}

static void a_long_chain_makes_one_upload_and_one_download(void **state)
{
    chain c;
    tensum_program *program;
    tensum_workspace *workspace = NULL;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_device_counters before = TENSUM_DEVICE_COUNTERS_INIT, after = TENSUM_DEVICE_COUNTERS_INIT;
    simcuda_counters seen;
    float result = 0;
    tensum_tensor output = {&result, TENSUM_F32, 0, NULL, NULL, cpu};

    (void)state;
    chain_make(&c, 501, TENSUM_MAX_PLUS);
    program = compile(&c, TENSUM_VALUE, cuda0);
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    run.inputs = c.inputs;
    run.output = &output;
    simcuda_reset_counters();
    succeeds(tensum_device_stats(cuda0, &before));
    succeeds(tensum_run(program, workspace, &run));
    succeeds(tensum_device_stats(cuda0, &after));
    simcuda_count(&seen);
    assert_true(result == chain_best(&c, NULL));
    assert_int_equal(seen.uploads, 1);
    assert_int_equal(seen.downloads, 1);
    assert_int_equal(after.uploads - before.uploads, 1);
    assert_int_equal(after.downloads - before.downloads, 1);
    assert_int_equal(after.upload_bytes - before.upload_bytes, seen.upload_bytes);
    assert_int_equal(after.launches - before.launches, seen.launches);

    /* A second run allocates nothing and loads nothing; its one wait is for the result. */
    c.data[0] += 100;
    simcuda_reset_counters();
    succeeds(tensum_run(program, workspace, &run));
    simcuda_count(&seen);
    assert_true(result == chain_best(&c, NULL));
    assert_int_equal(seen.uploads, 1);
    assert_int_equal(seen.downloads, 1);
    assert_int_equal(seen.module_loads, 0);
    assert_int_equal(seen.allocations, 0);
    assert_int_equal(seen.synchronisations, 1);
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    chain_free(&c);
    no_fault();
}

/* Operands and results in device memory: nothing crosses, nothing waits. */
static void device_tensors_are_used_in_place(void **state)
{
    chain c;
    tensum_program *program;
    tensum_workspace *workspace = NULL;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    simcuda_counters seen;
    uint64_t memory, moved, out;
    float result = 0;
    tensum_tensor output = {NULL, TENSUM_F32, 0, NULL, NULL, cuda0};

    (void)state;
    chain_make(&c, 40, TENSUM_MAX_PLUS);
    program = compile(&c, TENSUM_VALUE, cuda0);
    memory = simcuda_allocate(0, (size_t)c.count * 4 * sizeof(float));
    out = simcuda_allocate(0, sizeof(float));
    simcuda_write(memory, c.data, (size_t)c.count * 4 * sizeof(float));
    for (int64_t i = 0; i < c.count; i++) {
        c.inputs[i].data = (void *)(uintptr_t)(memory + (uint64_t)i * 16);
        c.inputs[i].device = cuda0;
    }
    output.data = (void *)(uintptr_t)out;
    run.inputs = c.inputs;
    run.output = &output;
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    for (int k = 0; k < 3; k++) {
        simcuda_reset_counters();
        succeeds(tensum_run(program, workspace, &run));
        simcuda_count(&seen);
        assert_int_equal(seen.uploads, 0);
        assert_int_equal(seen.downloads, 0);
        assert_int_equal(seen.synchronisations, 0);
        assert_int_equal(seen.allocations, 0);
        assert_int_equal(seen.module_loads, 0);
        if (k == 0) {
            assert_true(seen.launches > 38);
            assert_int_equal(seen.graph_launches, 0);
        } else { /* what repeats is one graph; no pointer has changed */
            assert_int_equal(seen.launches, 0);
            assert_int_equal(seen.graph_launches, 1);
        }
    }
    /* Other operands, same graph: one launch tells it. */
    c.data[5] += 100;
    moved = simcuda_allocate(0, (size_t)c.count * 4 * sizeof(float));
    simcuda_write(moved, c.data, (size_t)c.count * 4 * sizeof(float));
    for (int64_t i = 0; i < c.count; i++) {
        c.inputs[i].data = (void *)(uintptr_t)(moved + (uint64_t)i * 16);
    }
    simcuda_reset_counters();
    succeeds(tensum_run(program, workspace, &run));
    simcuda_count(&seen);
    assert_int_equal(seen.launches, 1);
    assert_int_equal(seen.graph_launches, 1);
    assert_int_equal(seen.synchronisations, 0);
    assert_true(seen.pending > 0); /* it did not wait */
    succeeds(tensum_synchronize(cuda0, NULL));
    simcuda_read(&result, out, sizeof result);
    assert_true(result == chain_best(&c, NULL));
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    simcuda_release(memory);
    simcuda_release(moved);
    simcuda_release(out);
    chain_free(&c);
    no_fault();
}

static void decode_and_gradient_follow_the_best_path(void **state)
{
    enum { COUNT = 60 };
    chain c;
    tensum_program *program;
    tensum_workspace *workspace = NULL;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    int64_t assignment[COUNT + 1], path[COUNT + 1];
    float gradients[COUNT][4], result = 0, seed = 3, along = 0;
    tensum_tensor tensors[COUNT];
    tensum_tensor output = {&result, TENSUM_F32, 0, NULL, NULL, cpu}, cotangent = {&seed, TENSUM_F32, 0, NULL, NULL, cpu};

    (void)state;
    chain_make(&c, COUNT, TENSUM_MAX_PLUS);
    for (int64_t i = 0; i < COUNT * 4; i++) { /* no ties */
        c.data[i] += (float)((i * 37 + 11) % 101) / 256.0f;
    }
    for (int64_t i = 0; i < COUNT; i++) {
        tensors[i] = (tensum_tensor){gradients[i], TENSUM_F32, 2, c.extents[i], NULL, cpu};
    }
    program = compile(&c, TENSUM_VALUE | TENSUM_GRADIENT | TENSUM_DECODE, cuda0);
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    run.inputs = c.inputs;
    run.output = &output;
    run.gradients = tensors;
    run.cotangent = &cotangent;
    run.position_count = 1;
    run.assignments = assignment;
    succeeds(tensum_run(program, workspace, &run));
    assert_true(result == chain_best(&c, path));
    for (int64_t i = 0; i <= COUNT; i++) {
        assert_int_equal(assignment[i], path[i]);
    }
    for (int64_t i = 0; i < COUNT; i++) {
        along += c.data[i * 4 + path[i] * 2 + path[i + 1]];
        for (int k = 0; k < 4; k++) {
            assert_true(gradients[i][k] == (k == path[i] * 2 + path[i + 1] ? 3.0f : 0.0f));
        }
    }
    assert_true(fabsf(along - result) < 1e-3f);
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    chain_free(&c);
    no_fault();
}

static void modules_are_loaded_once(void **state)
{
    simcuda_counters seen;
    chain c;

    (void)state;
    chain_make(&c, 3, TENSUM_MIN_MAX); /* used by no test before */
    simcuda_reset_counters();
    for (int k = 0; k < 3; k++) {
        tensum_program_release(compile(&c, TENSUM_VALUE, cuda0));
    }
    simcuda_count(&seen);
    assert_int_equal(seen.module_loads, 1);
    chain_free(&c);
}

static void wrong_memory_is_refused(void **state)
{
    chain c;
    tensum_program *program;
    tensum_workspace *workspace = NULL;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    uint64_t elsewhere = simcuda_allocate(1, 64);
    float result = 0;
    tensum_tensor output = {&result, TENSUM_F32, 0, NULL, NULL, cpu};

    (void)state;
    chain_make(&c, 3, TENSUM_MAX_PLUS);
    program = compile(&c, TENSUM_VALUE, cuda0);
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    run.inputs = c.inputs;
    run.output = &output;
    c.inputs[1].device = cuda0; /* plain host memory */
    assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tensum_last_error(), "operand 1"));
    assert_non_null(strstr(tensum_last_error(), "knows no such memory"));
    c.inputs[1].data = (void *)(uintptr_t)elsewhere; /* said to be here, is there */
    assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tensum_last_error(), "cuda:1"));
    assert_non_null(strstr(tensum_last_error(), "cuda:0"));
    c.inputs[1].device.index = 1; /* said to be there */
    assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tensum_last_error(), "operand 1"));
    assert_non_null(strstr(tensum_last_error(), "cuda:1"));
    c.inputs[1].device = cpu;
    c.inputs[1].data = &c.data[4];
    succeeds(tensum_run(program, workspace, &run));
    assert_true(result == chain_best(&c, NULL));
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    simcuda_release(elsewhere);
    chain_free(&c);
    no_fault();
}

static void a_stream_can_be_captured(void **state)
{
    chain c;
    tensum_program *program;
    tensum_workspace *workspace = NULL;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_workspace_options options = TENSUM_WORKSPACE_OPTIONS_INIT;
    uint64_t memory, out;
    float result = 0;
    tensum_tensor output = {NULL, TENSUM_F32, 0, NULL, NULL, cuda0};
    void *context = NULL, *stream = NULL, *graph = NULL, *exec = NULL;

    (void)state;
    chain_make(&c, 12, TENSUM_MAX_PLUS);
    program = compile(&c, TENSUM_VALUE, cuda0);
    memory = simcuda_allocate(0, (size_t)c.count * 16);
    out = simcuda_allocate(0, sizeof(float));
    simcuda_write(memory, c.data, (size_t)c.count * 16);
    for (int64_t i = 0; i < c.count; i++) {
        c.inputs[i].data = (void *)(uintptr_t)(memory + (uint64_t)i * 16);
        c.inputs[i].device = cuda0;
    }
    output.data = (void *)(uintptr_t)out;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 100), 0);
    assert_int_equal(cuCtxPushCurrent_v2(context), 0);
    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    run.inputs = c.inputs;
    run.output = &output;
    run.stream = stream;
    options.stream = stream;

    assert_int_equal(cuStreamBeginCapture_v2(stream, 0), 0);
    assert_int_equal(tensum_workspace_create(program, &options, &workspace), TENSUM_STATUS_NOT_PREPARED);
    assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(cuGraphDestroy(graph), 0);

    succeeds(tensum_workspace_create(program, &options, &workspace));
    assert_int_equal(cuStreamBeginCapture_v2(stream, 0), 0);
    succeeds(tensum_run(program, workspace, &run));
    assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    for (int k = 0; k < 3; k++) {
        c.data[k] += 50;
        simcuda_write(memory, c.data, (size_t)c.count * 16);
        assert_int_equal(cuGraphLaunch(exec, stream), 0);
        simcuda_read(&result, out, sizeof result);
        assert_true(result == chain_best(&c, NULL));
    }
    assert_int_equal(cuGraphExecDestroy(exec), 0);
    assert_int_equal(cuGraphDestroy(graph), 0);
    tensum_workspace_release(workspace);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuCtxPopCurrent_v2(&context), 0);
    tensum_program_release(program);
    simcuda_release(memory);
    simcuda_release(out);
    chain_free(&c);
    no_fault();
}

static void what_is_outside_the_domain_is_told_later(void **state)
{
    chain c;
    tensum_program *program;
    tensum_workspace *workspace = NULL;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    uint64_t memory, out;
    float result = 0;
    tensum_tensor output = {NULL, TENSUM_F32, 0, NULL, NULL, cuda0}, here = {&result, TENSUM_F32, 0, NULL, NULL, cpu};

    (void)state;
    chain_make(&c, 5, TENSUM_MAX_TIMES);
    for (int64_t i = 0; i < 20; i++) {
        c.data[i] = (float)(i % 3);
    }
    program = compile(&c, TENSUM_VALUE, cuda0);
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    memory = simcuda_allocate(0, 80);
    out = simcuda_allocate(0, sizeof(float));
    output.data = (void *)(uintptr_t)out;
    c.data[3 * 4 + 2] = -1;
    simcuda_write(memory, c.data, 80);
    run.inputs = c.inputs;
    run.output = &here;
    assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_DOMAIN); /* host operands: at once */
    assert_non_null(strstr(tensum_last_error(), "operand 3"));
    for (int64_t i = 0; i < c.count; i++) {
        c.inputs[i].data = (void *)(uintptr_t)(memory + (uint64_t)i * 16);
        c.inputs[i].device = cuda0;
    }
    run.output = &output;
    succeeds(tensum_run(program, workspace, &run));
    succeeds(tensum_synchronize(cuda0, NULL));
    assert_int_equal(tensum_check(workspace), TENSUM_STATUS_DOMAIN);
    assert_non_null(strstr(tensum_last_error(), "operand 3"));
    assert_non_null(strstr(tensum_last_error(), "element 2"));
    succeeds(tensum_check(workspace));
    run.output = &here; /* a run that waits reports it itself */
    assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_DOMAIN);
    c.data[3 * 4 + 2] = 1;
    simcuda_write(memory, c.data, 80);
    succeeds(tensum_run(program, workspace, &run));
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    simcuda_release(memory);
    simcuda_release(out);
    chain_free(&c);
    no_fault();
}

/* ---- failures ---- */

/* All of a small use of the library; returns the first failure. */
static tensum_status use(const chain *c, float *result, float (*gradients)[4])
{
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    tensum_tensor output = {result, TENSUM_F32, 0, NULL, NULL, cpu}, tensors[8];
    tensum_status status;

    for (int64_t i = 0; i < c->count; i++) {
        tensors[i] = (tensum_tensor){gradients[i], TENSUM_F32, 2, c->extents[i], NULL, cpu};
    }
    options.device = cuda0;
    options.modes = TENSUM_VALUE | TENSUM_GRADIENT;
    run.inputs = c->inputs;
    run.output = &output;
    run.gradients = tensors;
    status = tensum_program_create(c->plan, NULL, &options, &program);
    if (status == TENSUM_OK) {
        status = tensum_workspace_create(program, NULL, &workspace);
    }
    if (status == TENSUM_OK) {
        status = tensum_run(program, workspace, &run);
    }
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    return status;
}

static void every_driver_call_may_fail(void **state)
{
    chain c;
    float result, gradients[6][4];
    long calls, releases_of_memory, releases_of_host_memory, releases_of_events;
    simcuda_counters before, after;

    (void)state;
    chain_make(&c, 6, TENSUM_MAX_PLUS);
    succeeds(use(&c, &result, gradients));
    succeeds(tensum_cutensor_clear(cuda0)); /* retired blocks and spare events too */
    simcuda_count(&before);
    simcuda_fail(NULL, 0, 0);
    succeeds(use(&c, &result, gradients));
    calls = simcuda_calls(NULL);
    /* Blocks that wait are released by later uses, so that each use may release what two left. */
    releases_of_memory = 2 * simcuda_calls("cuMemFree_v2");
    releases_of_host_memory = simcuda_calls("cuMemFreeHost");
    releases_of_events = simcuda_calls("cuEventDestroy_v2");
    assert_true(calls > 20);
    for (long n = 1; n <= calls; n++) {
        tensum_status status;
        simcuda_fail(NULL, n, n % 2 == 0 ? 2 : 999); /* out of memory; unknown */
        status = use(&c, &result, gradients);
        if (status == TENSUM_OK) { /* a call whose failure does no harm: one that gives something back */
            assert_true(result == chain_best(&c, NULL));
        } else {
            assert_true(tensum_last_error()[0] != 0);
            assert_true(status == TENSUM_STATUS_DEVICE || status == TENSUM_STATUS_OUT_OF_MEMORY ||
                        status == TENSUM_STATUS_NO_DEVICE || status == TENSUM_STATUS_INVALID_ARGUMENT);
        }
        simcuda_fail(NULL, 0, 0);
        succeeds(use(&c, &result, gradients)); /* the next call works */
        assert_true(result == chain_best(&c, NULL));
        no_fault();
    }
    succeeds(tensum_cutensor_clear(cuda0));
    simcuda_count(&after);
    /* Nothing piles up but what one of the failed releases should have given back. */
    assert_in_range(after.live - before.live, 0, (uint64_t)releases_of_memory);
    assert_in_range(after.live_host - before.live_host, 0, (uint64_t)releases_of_host_memory);
    assert_in_range(after.live_events - before.live_events, 0, (uint64_t)releases_of_events);
    chain_free(&c);
}

static void out_of_memory_tells_the_numbers(void **state)
{
    chain c;
    tensum_program *program;
    tensum_workspace *workspace = NULL;

    (void)state;
    chain_make(&c, 4, TENSUM_MAX_PLUS);
    program = compile(&c, TENSUM_VALUE, cuda0);
    simcuda_fail(plain_memory() ? "cuMemAlloc_v2" : "cuMemAllocAsync", 1, 2);
    assert_int_equal(tensum_workspace_create(program, NULL, &workspace), TENSUM_STATUS_OUT_OF_MEMORY);
    assert_non_null(strstr(tensum_last_error(), "are free"));
    assert_non_null(strstr(tensum_last_error(), "held by this library"));
    simcuda_fail(NULL, 0, 0);
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    chain_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_listed),
        cmocka_unit_test(a_long_chain_makes_one_upload_and_one_download),
        cmocka_unit_test(device_tensors_are_used_in_place),
        cmocka_unit_test(decode_and_gradient_follow_the_best_path),
        cmocka_unit_test(modules_are_loaded_once),
        cmocka_unit_test(wrong_memory_is_refused),
        cmocka_unit_test(a_stream_can_be_captured),
        cmocka_unit_test(what_is_outside_the_domain_is_told_later),
        cmocka_unit_test(every_driver_call_may_fail),
        cmocka_unit_test(out_of_memory_tells_the_numbers),
    };

    if (setenv("TENSUM_CUDA_LIBRARY", SIMCUDA_LIBRARY, 1) != 0) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
