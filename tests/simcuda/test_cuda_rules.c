/* Rules about streams, capture, sizes and memory, on the simulated driver or on a GPU. */
#include <simcuda/machine.h>

/* ---- one expression on device memory, once on cuda:0 and once on the CPU ---- */

typedef struct job {
    const char *expression;
    tensum_semiring semiring;
    tensum_dtype dtype;
    int count;
    int32_t ranks[3];
    const int64_t *extents[3];
    const tensum_tensor *operands, *output;
} job;

static tensum_status run_job(const job *j, void *stream, tensum_workspace **kept, tensum_program **program)
{
    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_workspace_options workspace_options = TENSUM_WORKSPACE_OPTIONS_INIT;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    tensum_plan *plan = NULL;
    tensum_status status = TENSUM_OK;

    if (*kept == NULL) {
        plan_options.semiring = j->semiring;
        plan_options.dtype = j->dtype;
        options.device = j->output->device;
        workspace_options.stream = stream;
        status = tensum_network_parse(j->expression, j->count, j->ranks, j->extents, 0, NULL, NULL, &network);
        status = status != TENSUM_OK ? status : tensum_order(network, NULL, NULL, &tree);
        status = status != TENSUM_OK ? status : tensum_plan_create(network, tree, &plan_options, &plan);
        status = status != TENSUM_OK ? status : tensum_program_create(plan, NULL, &options, program);
        status = status != TENSUM_OK ? status : tensum_workspace_create(*program, &workspace_options, kept);
        tensum_plan_release(plan);
        tensum_tree_release(tree);
        tensum_network_release(network);
    }
    run.inputs = j->operands;
    run.output = j->output;
    run.stream = stream;
    return status != TENSUM_OK ? status : tensum_run(*program, *kept, &run);
}
static void drop(tensum_workspace **workspace, tensum_program **program)
{
    tensum_workspace_release(*workspace);
    tensum_program_release(*program);
    *workspace = NULL;
    *program = NULL;
}

/* ---- streams ---- */

/* Runs go to the stream they are given, and waiting for that stream is enough. */
static void every_kind_of_stream_is_used(void **state)
{
    void *const blocking = stream_create(0), *const apart = stream_create(1);
    void *const streams[] = {NULL, (void *)1, (void *)2, blocking, apart}; /* legacy, again, per thread */
    chain c;
    tensum_program *program;
    float result, *seen = pinned_allocate(sizeof(float));
    uint64_t out = device_allocate(0, sizeof(float));
    const tensum_tensor output = {(void *)(uintptr_t)out, TENSUM_F32, 0, NULL, NULL, cuda0};

    (void)state;
    chain_make(&c, 30, TENSUM_MAX_PLUS, 0);
    chain_to_device(&c);
    program = compile(&c, TENSUM_VALUE, cuda0);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        tensum_workspace_options options = TENSUM_WORKSPACE_OPTIONS_INIT;
        tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
        tensum_workspace *workspace = NULL;
        tensum_device_counters counts;
        const tensum_tensor here = {seen, TENSUM_F32, 0, NULL, NULL, cpu};

        options.stream = streams[i];
        succeeds(tensum_workspace_create(program, &options, &workspace));
        run.inputs = c.inputs;
        run.output = &output;
        run.stream = streams[i];
        for (int k = 0; k < 3; k++) {
            c.data[k * 4] += 30;
            device_write(c.memory, c.data, (size_t)c.count * 16);
            reset_counts();
            succeeds(tensum_run(program, workspace, &run));
            read_counts(&counts);
            assert_int_equal(counts.synchronisations, 0);
            succeeds(tensum_synchronize(cuda0, streams[i]));
            device_read(&result, out, sizeof result);
            assert_true(result == chain_best(&c, NULL));
        }
        /* A result for the host is there when the run returns, whatever the stream. */
        run.output = &here;
        *seen = -1;
        succeeds(tensum_run(program, workspace, &run));
        assert_true(*seen == chain_best(&c, NULL));
        tensum_workspace_release(workspace);
    }
    tensum_program_release(program);
    stream_destroy(blocking);
    stream_destroy(apart);
    pinned_release(seen);
    device_release(0, out);
    chain_free(&c);
    no_fault();
}

/* Workspaces on two streams at a time do not share anything that matters. */
static void streams_do_not_meet(void **state)
{
    enum { STREAMS = 3 };
    chain c[STREAMS];
    void *streams[STREAMS];
    tensum_program *programs[STREAMS];
    tensum_workspace *workspaces[STREAMS] = {NULL};
    uint64_t out = device_allocate(0, STREAMS * sizeof(float));
    float results[STREAMS];

    (void)state;
    for (int i = 0; i < STREAMS; i++) {
        tensum_workspace_options options = TENSUM_WORKSPACE_OPTIONS_INIT;
        streams[i] = stream_create(1);
        chain_make(&c[i], 20 + i, TENSUM_MAX_PLUS, 0);
        chain_to_device(&c[i]);
        programs[i] = compile(&c[i], TENSUM_VALUE, cuda0);
        options.stream = streams[i];
        succeeds(tensum_workspace_create(programs[i], &options, &workspaces[i]));
    }
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < STREAMS; i++) {
            const tensum_tensor output = {(void *)(uintptr_t)(out + (uint64_t)i * 4), TENSUM_F32, 0, NULL, NULL, cuda0};
            tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
            run.inputs = c[i].inputs;
            run.output = &output;
            run.stream = streams[i];
            succeeds(tensum_run(programs[i], workspaces[i], &run));
        }
    }
    device_read(results, out, sizeof results);
    for (int i = 0; i < STREAMS; i++) {
        assert_true(results[i] == chain_best(&c[i], NULL));
        tensum_workspace_release(workspaces[i]);
        tensum_program_release(programs[i]);
        stream_destroy(streams[i]);
        chain_free(&c[i]);
    }
    device_release(0, out);
    no_fault();
}

/* ---- runs like the last one ---- */

static void expect_run(tensum_program *program, tensum_workspace *workspace, const tensum_run_arguments *run, uint64_t out, float expected)
{
    float result = -1;
    succeeds(tensum_run(program, workspace, run));
    succeeds(tensum_synchronize(cuda0, run->stream));
    device_read(&result, out, sizeof result);
    assert_true(result == expected);
}

/* A run whose arguments are those of the last is one launch; whatever changes in them is noticed. */
static void only_the_same_run_is_made_again(void **state)
{
    chain c;
    tensum_program *program;
    tensum_workspace *workspace = NULL;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_device_counters counts;
    uint64_t out = device_allocate(0, 256), elsewhere;
    tensum_tensor output = {(void *)(uintptr_t)out, TENSUM_F32, 0, NULL, NULL, cuda0};
    int64_t across[] = {1, 2}, along[] = {2, 1}, wrong[] = {2, 3};
    float best, swap;
    void *stream = stream_create(1), *exec;

    (void)state;
    chain_make(&c, 9, TENSUM_MAX_PLUS, 0);
    chain_to_device(&c);
    program = compile(&c, TENSUM_VALUE, cuda0);
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    run.inputs = c.inputs;
    run.output = &output;
    best = chain_best(&c, NULL);
    for (int k = 0; k < 5; k++) {
        c.data[0] += 1; /* the same memory, other numbers */
        device_write(c.memory, c.data, 16);
        best = chain_best(&c, NULL);
        reset_counts();
        simcuda_fail(NULL, 0, 0); /* counts calls from here */
        succeeds(tensum_run(program, workspace, &run));
        assert_true(k < 2 || real_gpu || simcuda_calls(NULL) <= 4);
        read_counts(&counts);
        assert_true(k < 2 || (counts.graph_launches == 1 && counts.launches == 0 && counts.uploads == 0));
        expect_run(program, workspace, &run, out, best);
    }
    /* Strides, in the caller's own array. */
    c.inputs[3].strides = along;
    for (int k = 0; k < 3; k++) {
        expect_run(program, workspace, &run, out, best);
    }
    memcpy(along, across, sizeof along);
    swap = c.data[3 * 4 + 1];
    c.data[3 * 4 + 1] = c.data[3 * 4 + 2];
    c.data[3 * 4 + 2] = swap;
    for (int k = 0; k < 3; k++) {
        expect_run(program, workspace, &run, out, chain_best(&c, NULL));
    }
    c.inputs[3].strides = NULL;
    swap = c.data[3 * 4 + 1];
    c.data[3 * 4 + 1] = c.data[3 * 4 + 2];
    c.data[3 * 4 + 2] = swap;
    for (int k = 0; k < 3; k++) {
        expect_run(program, workspace, &run, out, best);
    }
    /* What is wrong is told as ever. */
    c.inputs[8].extents = wrong;
    assert_int_not_equal(tensum_run(program, workspace, &run), TENSUM_OK);
    c.inputs[8].extents = c.extents[8];
    c.inputs[2].dtype = TENSUM_I32;
    assert_int_not_equal(tensum_run(program, workspace, &run), TENSUM_OK);
    c.inputs[2].dtype = TENSUM_F32;
    run.accumulate = 1; /* max(best, best) */
    expect_run(program, workspace, &run, out, best);
    run.accumulate = 0;
    /* Another address, then another stream, then a capture. */
    elsewhere = device_allocate(0, 16);
    for (int k = 0; k < 4; k++) {
        c.data[4 * 4 + k] += 7;
    }
    device_write(elsewhere, &c.data[4 * 4], 16);
    c.inputs[4].data = (void *)(uintptr_t)elsewhere;
    best = chain_best(&c, NULL);
    for (int k = 0; k < 3; k++) {
        expect_run(program, workspace, &run, out, best);
    }
    run.stream = stream;
    for (int k = 0; k < 3; k++) {
        expect_run(program, workspace, &run, out, best);
    }
    capture_begin(stream);
    succeeds(tensum_run(program, workspace, &run));
    exec = capture_end(stream);
    assert_non_null(exec);
    capture_launch(exec, stream);
    succeeds(tensum_synchronize(cuda0, stream));
    capture_free(exec);
    for (int k = 0; k < 3; k++) {
        expect_run(program, workspace, &run, out, best);
    }
    tensum_workspace_release(workspace);
    tensum_program_release(program);

    stream_destroy(stream);
    device_release(0, elsewhere);
    device_release(0, out);
    chain_free(&c);
    no_fault();
}

/* The same with gradients: with and without the cotangent, and not asked for. The sum of a matrix's gradient in a chain of
 * max_plus is the cotangent, for its winner gets it all; with ones everywhere every sum_product gradient is alike. */
static void gradients_of_the_same_run(tensum_semiring semiring)
{
    chain c;
    tensum_program *program;
    tensum_workspace *workspace = NULL;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    uint64_t out = device_allocate(0, 256);
    tensum_tensor output = {(void *)(uintptr_t)out, TENSUM_F32, 0, NULL, NULL, cuda0}, gradients[9], cotangent = output;
    float seen[4], three = 3, unit = semiring == TENSUM_MAX_PLUS ? 1 : 1024; /* 4 * 2^8 */

    chain_make(&c, 9, semiring, 0);
    for (int i = 0; i < 36 && semiring == TENSUM_SUM_PRODUCT; i++) {
        c.data[i] = 1;
    }
    chain_to_device(&c);
    program = compile(&c, TENSUM_VALUE | TENSUM_GRADIENT, cuda0);
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    for (int i = 0; i < 9; i++) {
        gradients[i] = (tensum_tensor){i == 4 ? (void *)(uintptr_t)(out + 128) : NULL, TENSUM_F32, 2, c.extents[i], NULL, cuda0};
    }
    cotangent.data = (void *)(uintptr_t)(out + 64);
    device_write(out + 64, &three, sizeof three);
    run.inputs = c.inputs;
    run.output = &output;
    for (int k = 0; k < 9; k++) {
        run.gradients = k < 6 ? gradients : NULL;
        run.cotangent = k < 3 || k >= 6 ? NULL : &cotangent;
        device_write(out + 128, (const float[]){9, 9, 9, 9}, 16);
        expect_run(program, workspace, &run, out, semiring == TENSUM_MAX_PLUS ? chain_best(&c, NULL) : 1024);
        device_read(seen, out + 128, sizeof seen);
        assert_true(seen[0] + seen[1] + seen[2] + seen[3] == (k < 3 ? unit : k < 6 ? 3 * unit : 36));
    }
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    device_release(0, out);
    chain_free(&c);
    no_fault();
}
static void the_same_run_with_gradients(void **state)
{
    (void)state;
    gradients_of_the_same_run(TENSUM_MAX_PLUS);
    gradients_of_the_same_run(TENSUM_SUM_PRODUCT);
}

/* ---- capture ---- */

/* What a captured run may not do is refused before anything is enqueued, and the capture goes on. */
static void what_cannot_be_captured_is_refused(void **state)
{
    chain c;
    void *stream = stream_create(1), *exec;
    tensum_workspace_options options = TENSUM_WORKSPACE_OPTIONS_INIT;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_workspace *workspace = NULL;
    tensum_program *program;
    int64_t assignment[16];
    float result = 0, expected;
    uint64_t out = device_allocate(0, sizeof(float));
    const tensum_tensor output = {(void *)(uintptr_t)out, TENSUM_F32, 0, NULL, NULL, cuda0}, here = {&result, TENSUM_F32, 0, NULL, NULL, cpu};
    tensum_tensor *host_inputs;

    (void)state;
    chain_make(&c, 8, TENSUM_MAX_PLUS, 0);
    host_inputs = malloc(8 * sizeof *host_inputs);
    memcpy(host_inputs, c.inputs, 8 * sizeof *host_inputs);
    chain_to_device(&c);
    program = compile(&c, TENSUM_VALUE | TENSUM_DECODE, cuda0);
    options.stream = run.stream = stream;
    succeeds(tensum_workspace_create(program, &options, &workspace));
    for (int round = 0; round < 2; round++) { /* new, and with staging memory and lists for all of that */
        run.inputs = c.inputs;
        run.output = &output;
        run.position_count = 0;
        run.assignments = NULL;
        succeeds(tensum_run(program, workspace, &run)); /* tables of steps that share a launch are uploaded once */
        capture_begin(stream);
        run.inputs = host_inputs;
        run.output = &output;
        assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_UNSUPPORTED);
        run.inputs = c.inputs;
        run.output = &here;
        assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_UNSUPPORTED);
        run.output = &output;
        run.position_count = 1;
        run.assignments = assignment;
        assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_UNSUPPORTED);
        run.assignments = NULL;
        run.position_count = 0;
        succeeds(tensum_run(program, workspace, &run));
        exec = capture_end(stream);
        assert_non_null(exec); /* nothing of that has broken it */
        capture_launch(exec, stream);
        device_read(&result, out, sizeof result);
        expected = chain_best(&c, NULL);
        assert_true(result == expected);
        /* The workspace goes on being used outside. */
        result = 0;
        run.output = &here;
        succeeds(tensum_run(program, workspace, &run));
        assert_true(result == expected);
        run.inputs = host_inputs;
        run.position_count = 1;
        run.assignments = assignment;
        succeeds(tensum_run(program, workspace, &run));
        assert_true(result == expected);
        capture_free(exec);
    }
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    stream_destroy(stream);
    device_release(0, out);
    free(host_inputs);
    chain_free(&c);
    no_fault();
}

/* ---- sizes ---- */

static void batches_beyond_65535(void **state)
{
    enum { BATCH = 70001 };
    const int64_t extents[2][3] = {{BATCH, 2, 3}, {BATCH, 3, 2}}, result_extents[] = {BATCH, 2, 2};
    float *data = malloc(BATCH * 16 * sizeof(float)), *got = data + (size_t)BATCH * 12;
    uint64_t memory = device_allocate(0, BATCH * 16 * sizeof(float));
    tensum_tensor operands[2], output = {(void *)(uintptr_t)(memory + BATCH * 12 * sizeof(float)), TENSUM_F32, 3, result_extents, NULL, cuda0};
    const job j = {.expression = "zab,zbc->zac", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .count = 2, .ranks = {3, 3},
                   .extents = {extents[0], extents[1]}, .operands = operands, .output = &output};
    tensum_workspace *workspace = NULL;
    tensum_program *program = NULL;

    (void)state;
    for (int64_t i = 0; i < BATCH * 12; i++) {
        data[i] = (float)(i * 7919 % 1009);
    }
    device_write(memory, data, BATCH * 12 * sizeof(float));
    for (int i = 0; i < 2; i++) {
        operands[i] = (tensum_tensor){(void *)(uintptr_t)(memory + (uint64_t)i * BATCH * 6 * sizeof(float)), TENSUM_F32, 3, extents[i], NULL, cuda0};
    }
    succeeds(run_job(&j, NULL, &workspace, &program));
    device_read(got, memory + BATCH * 12 * sizeof(float), BATCH * 4 * sizeof(float));
    for (int64_t z = 0; z < BATCH; z++) {
        const float *x = data + z * 6, *y = data + (BATCH + z) * 6;
        for (int i = 0; i < 4; i++) {
            float best = x[i / 2 * 3] + y[i % 2];
            for (int k = 1; k < 3; k++) {
                float sum = x[i / 2 * 3 + k] + y[k * 2 + i % 2];
                best = sum > best ? sum : best;
            }
            assert_true(got[z * 4 + i] == best);
        }
    }
    drop(&workspace, &program);
    device_release(0, memory);
    free(data);
    no_fault();
}

/* Strides that reach beyond 2^31 elements. */
static void strides_beyond_31_bits(void **state)
{
    const int64_t far = (INT64_C(1) << 31) + 4096, extents[] = {2, 3}, strides[] = {far, 2}, results[] = {3}, back[] = {3, 2};
    const unsigned char rows[2][5] = {{1, 9, 0, 9, 0}, {0, 9, 1, 9, 0}};
    unsigned char got[8];
    uint64_t memory = device_allocate(0, (size_t)far + 4096), out = device_allocate(0, 16);
    const tensum_tensor operand = {(void *)(uintptr_t)memory, TENSUM_BOOL, 2, extents, strides, cuda0};
    tensum_tensor output = {(void *)(uintptr_t)out, TENSUM_BOOL, 1, results, NULL, cuda0};
    job j = {.expression = "ab->b", .semiring = TENSUM_OR_AND, .dtype = TENSUM_BOOL, .count = 1, .ranks = {2}, .extents = {extents},
             .operands = &operand, .output = &output};
    tensum_workspace *workspace = NULL;
    tensum_program *program = NULL;

    (void)state;
    for (int i = 0; i < 2; i++) {
        device_write(memory + (uint64_t)(i * far), rows[i], 5);
    }
    succeeds(run_job(&j, NULL, &workspace, &program));
    device_read(got, out, 3);
    assert_memory_equal(got, ((const unsigned char[]){1, 1, 0}), 3);
    drop(&workspace, &program);
    j.expression = "ab->ba";
    output.rank = 2;
    output.extents = back;
    succeeds(run_job(&j, NULL, &workspace, &program));
    device_read(got, out, 6);
    assert_memory_equal(got, ((const unsigned char[]){1, 0, 0, 1, 0, 0}), 6);
    drop(&workspace, &program);
    device_release(0, memory);
    device_release(0, out);
    no_fault();
}

/* More than 2^31 elements in a class of modes, to the last of them: as a reduction, a copy and a product. */
static void more_than_31_bits_of_elements(void **state)
{
    const int64_t rows = 3, columns = (INT64_C(1) << 30) + 1, extents[] = {rows, columns}, row[] = {rows}, column[] = {columns},
                  swapped[] = {columns, rows};
    unsigned char got[4], one = 1;
    uint64_t memory, out;
    tensum_tensor operands[2], output;
    job j = {.semiring = TENSUM_OR_AND, .dtype = TENSUM_BOOL, .count = 1, .ranks = {2, 1}, .extents = {extents, column}, .operands = operands,
             .output = &output};
    tensum_workspace *workspace = NULL;
    tensum_program *program = NULL;

    (void)state;
    if (!real_gpu) { /* minutes on the simulator */
        skip();
    }
    memory = device_allocate(0, (size_t)(rows * columns));
    out = device_allocate(0, (size_t)(rows * columns));
    operands[0] = (tensum_tensor){(void *)(uintptr_t)memory, TENSUM_BOOL, 2, extents, NULL, cuda0};
    /* zeros, by a program: a fill of 2^31 elements and more */
    output = operands[0];
    operands[1] = (tensum_tensor){(void *)(uintptr_t)out, TENSUM_BOOL, 1, row, NULL, cuda0};
    device_write(out, (const unsigned char[]){0, 0, 0}, 3);
    device_write(out + 128, (const unsigned char[]){0}, 1);
    {
        const int64_t no_extents[] = {1, 1}, zero_strides[] = {1, 1};
        tensum_tensor scalar = {(void *)(uintptr_t)(out + 128), TENSUM_BOOL, 2, no_extents, zero_strides, cuda0};
        tensum_network *network = NULL;
        tensum_tree *tree = NULL;
        tensum_plan *plan = NULL;
        tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
        tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
        tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
        const int32_t ranks[] = {2};
        const int64_t *const shapes[] = {no_extents};
        const int64_t labels[] = {'a', 'b'}, sizes[] = {rows, columns};
        plan_options.semiring = TENSUM_OR_AND;
        plan_options.dtype = TENSUM_BOOL;
        options.device = cuda0;
        succeeds(tensum_network_parse("xy->ab", 1, ranks, shapes, 2, labels, sizes, &network));
        succeeds(tensum_order(network, NULL, NULL, &tree));
        succeeds(tensum_plan_create(network, tree, &plan_options, &plan));
        succeeds(tensum_program_create(plan, NULL, &options, &program));
        succeeds(tensum_workspace_create(program, NULL, &workspace));
        run.inputs = &scalar;
        run.output = &output;
        succeeds(tensum_run(program, workspace, &run));
        drop(&workspace, &program);
        tensum_plan_release(plan);
        tensum_tree_release(tree);
        tensum_network_release(network);
    }
    device_write(memory + (uint64_t)(rows * columns - 1), &one, 1); /* the last element of the last row */
    j.expression = "ab->a";
    output = (tensum_tensor){(void *)(uintptr_t)out, TENSUM_BOOL, 1, row, NULL, cuda0};
    succeeds(run_job(&j, NULL, &workspace, &program));
    device_read(got, out, 3);
    assert_memory_equal(got, ((const unsigned char[]){0, 0, 1}), 3);
    drop(&workspace, &program);
    j.expression = "ab->ba";
    output = (tensum_tensor){(void *)(uintptr_t)out, TENSUM_BOOL, 2, swapped, NULL, cuda0};
    succeeds(run_job(&j, NULL, &workspace, &program));
    device_read(got, out + (uint64_t)(rows * columns - 4), 4);
    assert_memory_equal(got, ((const unsigned char[]){0, 0, 0, 1}), 4);
    drop(&workspace, &program);
    device_release(0, memory);
    device_release(0, out);
}

/* ---- memory ---- */

/* An intermediate larger than the device: the numbers are told, and the device goes on. */
static void too_large_a_workspace_is_refused(void **state)
{
    const int64_t side = INT64_C(1) << 20, one[] = {side};
    float result = 0, small[2] = {1, 2};
    const int64_t two[] = {2};
    const tensum_tensor scalar = {&result, TENSUM_F32, 0, NULL, NULL, cpu};
    const tensum_tensor pair = {small, TENSUM_F32, 1, two, NULL, cpu};
    const tensum_tensor here[] = {pair, pair};
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    tensum_plan *plan = NULL;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    const int64_t square[] = {side, side};
    const int32_t ranks[] = {1, 1, 2};
    const int64_t *const shapes[] = {one, one, square};
    const int64_t offsets[] = {0, 2, 4}, children[] = {0, 1, 3, 2};
    const int64_t *const small_shapes[] = {two, two};
    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    char words[64];

    (void)state;
    options.device = cuda0;
    succeeds(tensum_network_parse("a,b,ab->", 3, ranks, shapes, 0, NULL, NULL, &network));
    succeeds(tensum_tree_from_ssa(3, 2, offsets, children, &tree)); /* 2^40 elements between the steps */
    succeeds(tensum_plan_create(network, tree, &plan_options, &plan));
    succeeds(tensum_program_create(plan, NULL, &options, &program));
    assert_true(tensum_program_workspace_bytes(program) >= (size_t)4 << 40);
    assert_int_equal(tensum_workspace_create(program, NULL, &workspace), TENSUM_STATUS_OUT_OF_MEMORY);
    snprintf(words, sizeof words, "%zu bytes", tensum_program_workspace_bytes(program));
    assert_non_null(strstr(tensum_last_error(), words));
    assert_non_null(strstr(tensum_last_error(), "are free"));
    assert_non_null(strstr(tensum_last_error(), "held by this library"));
    tensum_program_release(program);
    program = NULL;
    {
        tensum_program *after = NULL;
        tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
        tensum_network *small_network = NULL;
        tensum_tree *small_tree = NULL;
        tensum_plan *small_plan = NULL;
        succeeds(tensum_network_parse("a,a->", 2, ranks, small_shapes, 0, NULL, NULL, &small_network));
        succeeds(tensum_order(small_network, NULL, NULL, &small_tree));
        succeeds(tensum_plan_create(small_network, small_tree, &plan_options, &small_plan));
        succeeds(tensum_program_create(small_plan, NULL, &options, &after));
        succeeds(tensum_workspace_create(after, NULL, &workspace));
        run.inputs = here;
        run.output = &scalar;
        succeeds(tensum_run(after, workspace, &run));
        assert_true(result == 5);
        drop(&workspace, &after);
        tensum_plan_release(small_plan);
        tensum_tree_release(small_tree);
        tensum_network_release(small_network);
    }
    tensum_plan_release(plan);
    tensum_tree_release(tree);
    tensum_network_release(network);
    no_fault();
}

/* A plan made for a limit takes no more on the device than that, and what kernels and pointers take. */
static void plans_keep_to_a_limit(void **state)
{
    enum { MATRICES = 5, SIDE = 256 };
    const int64_t extents[] = {SIDE, SIDE};
    const int32_t ranks[] = {2, 2, 2, 2, 2};
    const int64_t *const shapes[] = {extents, extents, extents, extents, extents};
    tensum_network *network = NULL;
    size_t before = SIZE_MAX;

    (void)state;
    succeeds(tensum_network_parse("ab,bc,cd,de,ea->", MATRICES, ranks, shapes, 0, NULL, NULL, &network));
    for (uint64_t limit = 1 << 20; limit >= 1 << 16; limit /= 4) {
        tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
        tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
        tensum_plan *plan = NULL;
        tensum_program *program = NULL;
        size_t bytes;
        plan_options.memory_limit = limit;
        plan_options.semiring = TENSUM_MAX_PLUS;
        plan_options.device = options.device = cuda0;
        succeeds(tensum_plan_search(network, NULL, &plan_options, NULL, &plan));
        succeeds(tensum_program_create(plan, NULL, &options, &program));
        bytes = tensum_program_workspace_bytes(program);
        assert_in_range(bytes, 0, limit + (1 << 18)); /* partial results, tables, pointers */
        assert_true(bytes <= before);
        before = bytes;
        tensum_program_release(program);
        tensum_plan_release(plan);
    }
    tensum_network_release(network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_stream_is_used),       cmocka_unit_test(streams_do_not_meet),
        cmocka_unit_test(only_the_same_run_is_made_again),    cmocka_unit_test(the_same_run_with_gradients),
        cmocka_unit_test(what_cannot_be_captured_is_refused), cmocka_unit_test(batches_beyond_65535),
        cmocka_unit_test(strides_beyond_31_bits),             cmocka_unit_test(more_than_31_bits_of_elements),
        cmocka_unit_test(too_large_a_workspace_is_refused),   cmocka_unit_test(plans_keep_to_a_limit),
    };
    int result = machine_open();

    return result != 0 ? result : cmocka_run_group_tests(tests, NULL, NULL);
}
