#include <simcuda/cutensor_tests.h>

const tensum_device cuda0 = {TENSUM_CUDA, 0};
const tensum_device cuda1 = {TENSUM_CUDA, 1};

int plain_memory(void)
{
    const char *pools = getenv("SIMCUDA_POOLS");
    return pools != NULL && pools[0] == '0';
}

void no_fault(void)
{
    const char *fault = simcuda_fault();
    if (fault != NULL) {
        fail_msg("simulator: %s", fault);
    }
}

void succeeds(tensum_status status)
{
    if (status != TENSUM_OK) {
        fail_msg("%s: %s", tensum_status_name(status), tensum_last_error());
    }
}

/* ---- counters, as differences ---- */

counts count(void)
{
    counts now = {TENSUM_CUTENSOR_CACHE_INIT, TENSUM_CUTENSOR_SCRATCH_INIT, TENSUM_CUDA_RETIREMENT_INIT,
                  TENSUM_DEVICE_COUNTERS_INIT};
    succeeds(tensum_cutensor_cache_stats(cuda0, &now.cache));
    succeeds(tensum_cutensor_scratch_stats(cuda0, &now.scratch));
    succeeds(tensum_cuda_retirement_stats(cuda0, &now.retired));
    succeeds(tensum_device_stats(cuda0, &now.device));
    return now;
}

/* ---- programs ---- */

tensum_program *compile_within(uint64_t memory_limit, const char *expression, int64_t operands, const int32_t *ranks,
                               const int64_t *const *extents, tensum_dtype dtype, unsigned modes)
{
    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    int64_t offsets[8], children[16];
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    tensum_plan *plan = NULL;
    tensum_program *program = NULL;

    for (int64_t s = 0; s < operands; s++) { /* from the left */
        offsets[s] = 2 * s;
        children[2 * s] = s == 0 ? 0 : operands + s - 1;
        children[2 * s + 1] = s + 1;
    }
    plan_options.dtype = dtype;
    plan_options.memory_limit = memory_limit;
    options.device = cuda0;
    options.modes = modes;
    succeeds(tensum_network_parse(expression, operands, ranks, extents, 0, NULL, NULL, &network));
    succeeds(tensum_tree_from_ssa(operands, operands - 1, offsets, children, &tree));
    succeeds(tensum_plan_create(network, tree, &plan_options, &plan));
    succeeds(tensum_program_create(plan, NULL, &options, &program));
    tensum_plan_release(plan);
    tensum_tree_release(tree);
    tensum_network_release(network);
    return program;
}

tensum_program *compile(const char *expression, int64_t operands, const int32_t *ranks, const int64_t *const *extents,
                        tensum_dtype dtype, unsigned modes)
{
    return compile_within(0, expression, operands, ranks, extents, dtype, modes);
}

static size_t result_bytes(const product *p) { return ((size_t)(p->m * p->n) * sizeof(float) + 255) / 256 * 256; }

void product_make(product *p, int64_t m, int64_t k, int64_t n)
{
    int32_t ranks[2] = {2, 2};
    const int64_t *extents[2] = {p->extents[0], p->extents[1]};

    *p = (product){.m = m, .k = k, .n = n, .extents = {{m, k}, {k, n}, {m, n}}};
    p->program = compile("ij,jk->ik", 2, ranks, extents, TENSUM_F32, TENSUM_VALUE);
    succeeds(tensum_workspace_create(p->program, NULL, &p->workspace));
    p->a = calloc((size_t)(m * k), sizeof *p->a);
    p->b = calloc((size_t)(k * n), sizeof *p->b);
    p->device_b = simcuda_allocate(0, (size_t)(k * n) * sizeof(float) + 64);
    p->device_c = simcuda_allocate(0, RESULTS * result_bytes(p));
    for (int64_t i = 0; i < k * n; i++) {
        p->b[i] = (float)(i * 5 % 7 - 3);
    }
    for (int64_t i = 0; i < m * k; i++) {
        p->a[i] = (float)(i * 3 % 11 - 5);
    }
    simcuda_write(p->device_b, p->b, (size_t)(k * n) * sizeof(float));
    for (int layout = 0; layout < 2; layout++) {
        uint64_t row = (uint64_t)(k + layout * PADDING) * sizeof(float);
        p->device_a[layout] = simcuda_allocate(0, (size_t)m * row);
        for (int64_t i = 0; i < m; i++) {
            simcuda_write(p->device_a[layout] + (uint64_t)i * row, p->a + i * k, (size_t)k * sizeof(float));
        }
    }
}

void product_free(product *p)
{
    tensum_workspace_release(p->workspace);
    tensum_program_release(p->program);
    simcuda_release(p->device_a[0]);
    simcuda_release(p->device_a[1]);
    simcuda_release(p->device_b);
    simcuda_release(p->device_c);
    free(p->a);
    free(p->b);
}

/* Enqueue result number `number`; returns at once. */
tensum_status product_run(const product *p, int layout, int number, int accumulate, void *stream)
{
    int64_t strides[2] = {p->k + layout * PADDING, 1};
    tensum_tensor inputs[2] = {
        {(void *)(uintptr_t)p->device_a[layout], TENSUM_F32, 2, p->extents[0], strides, cuda0},
        {(void *)(uintptr_t)p->device_b, TENSUM_F32, 2, p->extents[1], NULL, cuda0}};
    tensum_tensor output = {(void *)(uintptr_t)(p->device_c + (uint64_t)number * result_bytes(p)), TENSUM_F32, 2,
                            p->extents[2], NULL, cuda0};
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;

    run.inputs = inputs;
    run.output = &output;
    run.accumulate = accumulate;
    run.stream = stream;
    return tensum_run(p->program, p->workspace, &run);
}

/* Does result `number` hold `times` a b? Completes all work. */
void product_check(const product *p, int number, float times)
{
    float *c = calloc((size_t)(p->m * p->n), sizeof *c);

    simcuda_read(c, p->device_c + (uint64_t)number * result_bytes(p), (size_t)(p->m * p->n) * sizeof *c);
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            float sum = 0;
            for (int64_t l = 0; l < p->k; l++) {
                sum += p->a[i * p->k + l] * p->b[l * p->n + j];
            }
            if (c[i * p->n + j] != times * sum) {
                fail_msg("result %d, element %d %d: %g instead of %g", number, (int)i, (int)j, (double)c[i * p->n + j],
                         (double)(times * sum));
            }
        }
    }
    free(c);
}

/* Every test starts from the defaults, with nothing kept, and leaves nothing behind. */
int start(void **state)
{
    (void)state;
    simcuda_fail(NULL, 0, 0);
    simcuda_break(NULL, 0);
    simcuda_drift(0);
    simcutensor_scratch(16);
    simcutensor_reset();
    succeeds(tensum_cutensor_choose(cuda0, TENSUM_CUTENSOR_ALWAYS));
    succeeds(tensum_cutensor_cache_limit(cuda0, 512));
    succeeds(tensum_cutensor_scratch_limit(cuda0, (uint64_t)256 * KIB * KIB));
    succeeds(tensum_cuda_retirement_limit(cuda0, 16));
    succeeds(tensum_synchronize(cuda0, NULL));
    succeeds(tensum_cutensor_clear(cuda0));
    return 0;
}

int finish(void **state)
{
    counts now;
    (void)state;
    succeeds(tensum_cutensor_clear(cuda0));
    now = count();
    assert_int_equal(now.cache.entries, 0);
    assert_int_equal(now.cache.bytes, 0);
    assert_int_equal(now.scratch.buffers, 0);
    assert_int_equal(now.scratch.bytes, 0);
    assert_int_equal(now.retired.in_flight, 0);
    assert_int_equal(now.retired.bytes, 0);
    assert_int_equal(simcutensor_live(), 0);
    no_fault();
    return 0;
}

/* ---- programs of several steps ---- */

void chain_make(chain *c, unsigned modes) { chain_make_within(c, modes, 0); }

void chain_make_within(chain *c, unsigned modes, uint64_t memory_limit)
{
    int32_t ranks[CHAIN] = {2, 2, 2, 2};
    const int64_t *extents[CHAIN] = {c->extents, c->extents, c->extents, c->extents};

    c->extents[0] = c->extents[1] = SIDE;
    c->program = compile_within(memory_limit, "ab,bc,cd,de->ae", CHAIN, ranks, extents, TENSUM_F32, modes);
    succeeds(tensum_workspace_create(c->program, NULL, &c->workspace));
    for (int i = 0; i < CHAIN; i++) {
        for (int k = 0; k < SIDE * SIDE; k++) {
            c->data[i][k] = (float)((i * 7 + k * 5) % 5 - 2);
        }
        c->device[i] = simcuda_allocate(0, sizeof c->data[i]);
        c->gradients[i] = simcuda_allocate(0, sizeof c->data[i]);
        simcuda_write(c->device[i], c->data[i], sizeof c->data[i]);
    }
    c->out = simcuda_allocate(0, sizeof c->data[0]);
}

void chain_free(chain *c)
{
    tensum_workspace_release(c->workspace);
    tensum_program_release(c->program);
    for (int i = 0; i < CHAIN; i++) {
        simcuda_release(c->device[i]);
        simcuda_release(c->gradients[i]);
    }
    simcuda_release(c->out);
}

tensum_status chain_run(chain *c, int gradients, void *stream)
{
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_tensor inputs[CHAIN], slopes[CHAIN];
    tensum_tensor output = {(void *)(uintptr_t)c->out, TENSUM_F32, 2, c->extents, NULL, cuda0};

    for (int i = 0; i < CHAIN; i++) {
        inputs[i] = (tensum_tensor){(void *)(uintptr_t)c->device[i], TENSUM_F32, 2, c->extents, NULL, cuda0};
        slopes[i] = (tensum_tensor){(void *)(uintptr_t)c->gradients[i], TENSUM_F32, 2, c->extents, NULL, cuda0};
    }
    run.inputs = inputs;
    run.output = &output;
    run.gradients = gradients ? slopes : NULL;
    run.stream = stream;
    return tensum_run(c->program, c->workspace, &run);
}

static void multiply(const float *x, const float *y, float *z)
{
    for (int i = 0; i < SIDE; i++) {
        for (int j = 0; j < SIDE; j++) {
            z[i * SIDE + j] = 0;
            for (int k = 0; k < SIDE; k++) {
                z[i * SIDE + j] += x[i * SIDE + k] * y[k * SIDE + j];
            }
        }
    }
}

void chain_check(const chain *c)
{
    float x[SIDE * SIDE], y[SIDE * SIDE], seen[SIDE * SIDE];

    multiply(c->data[0], c->data[1], x);
    multiply(x, c->data[2], y);
    multiply(y, c->data[3], x);
    simcuda_read(seen, c->out, sizeof seen);
    assert_memory_equal(seen, x, sizeof seen);
}

int run_all(const struct CMUnitTest *tests, size_t count_of_tests)
{
    if (setenv("TENSUM_CUDA_LIBRARY", SIMCUDA_LIBRARY, 1) != 0 ||
        setenv("TENSUM_CUTENSOR_LIBRARY", SIMCUTENSOR_LIBRARY, 1) != 0) {
        return 1;
    }
    cmocka_set_test_filter(getenv("TENSUM_TEST_FILTER")); /* NULL: all of them */
    return _cmocka_run_group_tests("tests", tests, count_of_tests, NULL, NULL);
}
