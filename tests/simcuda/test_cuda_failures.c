/* Every call of the driver fails once, in several uses of the library: an error comes back, the next use works, and
 * nothing piles up. On the simulated driver. */
#include <simcuda/machine.h>

enum { COUNT = 6 };

typedef struct use_of_library {
    unsigned modes;
    int64_t slices;
    bool on_device, einsum;
    int runs;
} use_of_library;

/* Is the simulated device one without stream-ordered memory? */
static bool plain_memory(void)
{
    const char *pools = getenv("SIMCUDA_POOLS");
    return pools != NULL && pools[0] == '0';
}

static tensum_status multiply(const chain *c, uint64_t out)
{
    tensum_context *context = NULL;
    int64_t extents[] = {2, 2};
    tensum_tensor output = {NULL, TENSUM_F32, 2, extents, NULL, cuda0};
    tensum_status status = tensum_context_create(NULL, &context);

    for (int i = 0; i < 4 && status == TENSUM_OK; i++) {
        output.data = (void *)(uintptr_t)(out + (i & 1) * 32); /* a graph is made, and told of another address */
        status = tensum_einsum(context, TENSUM_MAX_PLUS, "ab,bc->ac", 2, c->inputs, &output);
    }
    tensum_context_release(context);
    return status;
}

/* All of a use; returns the first failure. */
static tensum_status use(const use_of_library *how, const chain *c, uint64_t out, float *result)
{
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    float gradients[COUNT][4];
    int64_t assignment[COUNT + 1];
    tensum_tensor output = {result, TENSUM_F32, 0, NULL, NULL, cpu}, tensors[COUNT];
    tensum_status status;

    if (how->einsum) {
        *result = chain_best(c, NULL);
        return multiply(c, out);
    }
    for (int64_t i = 0; i < c->count; i++) {
        tensors[i] = (tensum_tensor){gradients[i], TENSUM_F32, 2, c->extents[i], NULL, cpu};
    }
    options.device = cuda0;
    options.modes = how->modes;
    run.inputs = c->inputs;
    run.output = &output;
    if (how->on_device) {
        output.data = (void *)(uintptr_t)out;
        output.device = cuda0;
    }
    if ((how->modes & TENSUM_GRADIENT) != 0) {
        run.gradients = tensors;
    }
    if ((how->modes & TENSUM_DECODE) != 0) {
        run.position_count = 1;
        run.assignments = assignment;
    }
    status = tensum_program_create(c->plan, NULL, &options, &program);
    if (status == TENSUM_OK) {
        status = tensum_workspace_create(program, NULL, &workspace);
    }
    for (int i = 0; i < how->runs && status == TENSUM_OK; i++) {
        status = tensum_run(program, workspace, &run);
    }
    if (status == TENSUM_OK && how->on_device) {
        status = tensum_synchronize(cuda0, NULL);
        if (status == TENSUM_OK) {
            device_read(result, out, sizeof *result);
        }
    }
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    return status;
}

static void fail_each_call(const use_of_library *how)
{
    chain c;
    float result = 0;
    uint64_t out = device_allocate(0, 64);
    long calls, releases_of_memory, releases_of_host_memory, releases_of_events, releases_of_graphs;
    simcuda_counters before, after;
    tensum_device_counters counts;

    chain_make(&c, COUNT, TENSUM_MAX_PLUS, how->slices);
    if (how->on_device) {
        chain_to_device(&c);
    }
    succeeds(use(how, &c, out, &result));
    succeeds(tensum_cutensor_clear(cuda0)); /* retired blocks and spare events too */
    reset_counts();
    simcuda_count(&before);
    simcuda_fail(NULL, 0, 0);
    succeeds(use(how, &c, out, &result));
    calls = simcuda_calls(NULL);
    /* Blocks that wait are released by later uses, so that each use may release what two left. */
    releases_of_memory = 2 * (simcuda_calls("cuMemFree_v2") + simcuda_calls("cuMemFreeAsync"));
    releases_of_host_memory = simcuda_calls("cuMemFreeHost");
    releases_of_events = simcuda_calls("cuEventDestroy_v2");
    releases_of_graphs = simcuda_calls("cuGraphDestroy") + simcuda_calls("cuGraphExecDestroy");
    assert_true(calls > 4);
    for (long n = 1; n <= calls; n++) {
        tensum_status status;
        result = -1;
        simcuda_fail(NULL, n, n % 2 == 0 ? 2 : 999); /* out of memory; unknown */
        status = use(how, &c, out, &result);
        if (status == TENSUM_OK) { /* a call whose failure does no harm: one that gives something back, or could be done without */
            assert_true(result == chain_best(&c, NULL));
        } else {
            assert_true(tensum_last_error()[0] != 0);
            assert_true(status == TENSUM_STATUS_DEVICE || status == TENSUM_STATUS_OUT_OF_MEMORY ||
                        status == TENSUM_STATUS_NO_DEVICE || status == TENSUM_STATUS_INVALID_ARGUMENT);
        }
        simcuda_fail(NULL, 0, 0);
        succeeds(use(how, &c, out, &result)); /* the next use works */
        assert_true(result == chain_best(&c, NULL));
        no_fault();
    }
    succeeds(tensum_cutensor_clear(cuda0));
    simcuda_count(&after);
    counts = (tensum_device_counters)TENSUM_DEVICE_COUNTERS_INIT;
    succeeds(tensum_device_stats(cuda0, &counts));
    /* Nothing piles up but what one of the failed releases should have given back, or what is told to have leaked. */
    assert_in_range(after.live - before.live, 0, (uint64_t)releases_of_memory + counts.retired_leaked);
    assert_in_range(after.live_host - before.live_host, 0, (uint64_t)releases_of_host_memory);
    assert_in_range(after.live_events - before.live_events, 0, (uint64_t)releases_of_events);
    assert_in_range(after.live_graphs - before.live_graphs, 0, (uint64_t)releases_of_graphs);
    device_release(0, out);
    chain_free(&c);
}

static void in_runs_with_gradients(void **state)
{
    (void)state;
    fail_each_call(&(use_of_library){.modes = TENSUM_VALUE | TENSUM_GRADIENT, .runs = 1});
}
static void in_decoding(void **state)
{
    (void)state;
    fail_each_call(&(use_of_library){.modes = TENSUM_VALUE | TENSUM_DECODE, .runs = 2});
}
static void in_slices(void **state)
{
    (void)state;
    fail_each_call(&(use_of_library){.modes = TENSUM_VALUE | TENSUM_GRADIENT | TENSUM_DECODE, .slices = 2, .runs = 1});
}
static void in_graphs(void **state)
{
    (void)state;
    fail_each_call(&(use_of_library){.modes = TENSUM_VALUE, .on_device = true, .runs = 3});
}
static void in_single_calls(void **state)
{
    (void)state;
    fail_each_call(&(use_of_library){.on_device = true, .einsum = true});
}

static void out_of_memory_tells_the_numbers(void **state)
{
    chain c;
    tensum_program *program;
    tensum_workspace *workspace = NULL;

    (void)state;
    chain_make(&c, 4, TENSUM_MAX_PLUS, 0);
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

/* What no later call survives: told by each of them, with the driver's words by the first. Last, for it is for good. */
static void a_lost_device_says_so(void **state)
{
    chain c;
    tensum_program *program;
    tensum_workspace *workspace = NULL;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    float result = 0;
    tensum_tensor output = {&result, TENSUM_F32, 0, NULL, NULL, cpu};

    (void)state;
    chain_make(&c, 4, TENSUM_MAX_PLUS, 0);
    program = compile(&c, TENSUM_VALUE, cuda0);
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    run.inputs = c.inputs;
    run.output = &output;
    succeeds(tensum_run(program, workspace, &run));
    simcuda_fail("cuStreamSynchronize", 1, 700);
    assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_DEVICE);
    assert_non_null(strstr(tensum_last_error(), "(700)"));
    assert_non_null(strstr(tensum_last_error(), "lost"));
    assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_DEVICE);
    assert_non_null(strstr(tensum_last_error(), "lost"));
    assert_int_equal(tensum_synchronize(cuda0, NULL), TENSUM_STATUS_DEVICE);
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    chain_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_runs_with_gradients), cmocka_unit_test(in_decoding),
        cmocka_unit_test(in_slices),              cmocka_unit_test(in_graphs),
        cmocka_unit_test(in_single_calls),        cmocka_unit_test(out_of_memory_tells_the_numbers),
        cmocka_unit_test(a_lost_device_says_so),
    };
    int result = machine_open();

    return result != 0 ? result : cmocka_run_group_tests(tests, NULL, NULL);
}
