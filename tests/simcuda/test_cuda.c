/* The CUDA backend on the simulated driver, or on a GPU: residency, counters, devices, streams, capture, failures. That
 * results are right for all semirings, dtypes and shapes is for the conformance suite; here a few are compared with
 * numbers worked out in the tests themselves. */
#include <math.h>

#include <simcuda/machine.h>

/* ---- tests ---- */

static void devices_are_listed(void **state)
{
    tensum_device_info info = {.size = sizeof info};
    tensum_device second = {TENSUM_CUDA, 1}, third = {TENSUM_CUDA, 2};

    (void)state;
    assert_int_equal(tensum_device_count(TENSUM_CUDA), gpu_count);
    third.index = gpu_count;
    assert_int_equal(tensum_device_query(third, &info), TENSUM_STATUS_NO_DEVICE);
    succeeds(tensum_device_query(cuda0, &info));
    assert_true(info.name[0] != 0 && info.memory_total > 0 && info.memory_free <= info.memory_total && info.units > 0);
    assert_memory_equal(info.driver, "CUDA ", 5);
    assert_non_null(strstr(info.detail, "sm_"));
    SIMULATOR_ONLY();
    assert_int_equal(gpu_count, 2);
    succeeds(tensum_device_query(second, &info));
    assert_string_equal(info.name, "simulated device 1");
    assert_string_equal(info.driver, "CUDA 13.0");
    assert_int_equal(info.units, 4);
}

static void a_long_chain_makes_one_upload_and_one_download(void **state)
{
    chain c;
    tensum_program *program;
    tensum_workspace *workspace = NULL;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_device_counters seen;
    float result = 0;
    tensum_tensor output = {&result, TENSUM_F32, 0, NULL, NULL, cpu};

    (void)state;
    chain_make(&c, 501, TENSUM_MAX_PLUS, 0);
    program = compile(&c, TENSUM_VALUE, cuda0);
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    run.inputs = c.inputs;
    run.output = &output;
    reset_counts();
    succeeds(tensum_run(program, workspace, &run));
    read_counts(&seen);
    assert_true(result == chain_best(&c, NULL));
    assert_int_equal(seen.uploads, 2); /* the operands; once, tables of steps that share a launch */
    assert_int_equal(seen.downloads, 1);

    /* A second run allocates nothing and loads nothing; its one wait is for the result. */
    c.data[0] += 100;
    reset_counts();
    succeeds(tensum_run(program, workspace, &run));
    read_counts(&seen);
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
    tensum_device_counters seen;
    uint64_t moved, out;
    float result = 0;
    tensum_tensor output = {NULL, TENSUM_F32, 0, NULL, NULL, cuda0};

    (void)state;
    chain_make(&c, 40, TENSUM_MAX_PLUS, 0);
    program = compile(&c, TENSUM_VALUE, cuda0);
    chain_to_device(&c);
    out = device_allocate(0, sizeof(float));
    output.data = (void *)(uintptr_t)out;
    run.inputs = c.inputs;
    run.output = &output;
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    for (int k = 0; k < 3; k++) {
        reset_counts();
        succeeds(tensum_run(program, workspace, &run));
        read_counts(&seen);
        assert_int_equal(seen.uploads, k == 0); /* tables, no operands */
        assert_int_equal(seen.downloads, 0);
        assert_int_equal(seen.synchronisations, 0);
        assert_int_equal(seen.allocations, 0);
        assert_int_equal(seen.module_loads, 0);
        if (k == 0) {
            assert_in_range(seen.launches, 2, 5); /* small steps share one */
            assert_int_equal(seen.graph_launches, 0);
        } else { /* what repeats is one graph; no pointer has changed */
            assert_int_equal(seen.launches, 0);
            assert_int_equal(seen.graph_launches, 1);
        }
    }
    /* Other operands, same graph: one launch tells it. */
    c.data[5] += 100;
    moved = device_allocate(0, (size_t)c.count * 4 * sizeof(float));
    device_write(moved, c.data, (size_t)c.count * 4 * sizeof(float));
    for (int64_t i = 0; i < c.count; i++) {
        c.inputs[i].data = (void *)(uintptr_t)(moved + (uint64_t)i * 16);
    }
    reset_counts();
    succeeds(tensum_run(program, workspace, &run));
    read_counts(&seen);
    assert_int_equal(seen.launches, 1);
    assert_int_equal(seen.graph_launches, 1);
    assert_int_equal(seen.synchronisations, 0);
    if (!real_gpu) {
        simcuda_counters now;
        simcuda_count(&now);
        assert_true(now.pending > 0); /* it did not wait */
    }
    succeeds(tensum_synchronize(cuda0, NULL));
    device_read(&result, out, sizeof result);
    assert_true(result == chain_best(&c, NULL));
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    device_release(0, moved);
    device_release(0, out);
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
    chain_make(&c, COUNT, TENSUM_MAX_PLUS, 0);
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
    tensum_device_counters seen;
    chain c;

    (void)state;
    chain_make(&c, 3, TENSUM_MIN_MAX, 0); /* used by no test before */
    reset_counts();
    for (int k = 0; k < 3; k++) {
        tensum_program_release(compile(&c, TENSUM_VALUE, cuda0));
    }
    read_counts(&seen);
    assert_int_equal(seen.module_loads, 1);
    chain_free(&c);
}

static void wrong_memory_is_refused(void **state)
{
    chain c;
    tensum_program *program;
    tensum_workspace *workspace = NULL;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    uint64_t elsewhere = 0;
    void *pinned = pinned_allocate(64);
    float result = 0;
    tensum_tensor output = {&result, TENSUM_F32, 0, NULL, NULL, cpu};

    (void)state;
    chain_make(&c, 3, TENSUM_MAX_PLUS, 0);
    program = compile(&c, TENSUM_VALUE, cuda0);
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    run.inputs = c.inputs;
    run.output = &output;
    c.inputs[1].device = cuda0; /* plain host memory */
    assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tensum_last_error(), "operand 1"));
    assert_non_null(strstr(tensum_last_error(), "knows no such memory"));
    c.inputs[1].data = pinned;
    assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tensum_last_error(), "operand 1"));
    assert_non_null(strstr(tensum_last_error(), "pinned host memory"));
    output.device = cuda0; /* results too */
    output.data = (char *)pinned + 32;
    c.inputs[1].device = cpu;
    assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tensum_last_error(), "the output"));
    assert_non_null(strstr(tensum_last_error(), "pinned host memory"));
    output = (tensum_tensor){&result, TENSUM_F32, 0, NULL, NULL, cpu};
    memcpy(pinned, &c.data[4], 16); /* as host memory it is fine */
    succeeds(tensum_run(program, workspace, &run));
    assert_true(result == chain_best(&c, NULL));
    c.inputs[1].device = (tensum_device){TENSUM_CUDA, 1}; /* said to be on another device, whether there is one or not */
    assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tensum_last_error(), "operand 1"));
    assert_non_null(strstr(tensum_last_error(), "cuda:1"));
    assert_non_null(strstr(tensum_last_error(), "cuda:0"));
    c.inputs[1].device = cuda0;
    if (gpu_count > 1) {
        elsewhere = device_allocate(1, 64);
        c.inputs[1].data = (void *)(uintptr_t)elsewhere; /* said to be here, is there */
        assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(tensum_last_error(), "cuda:1"));
        assert_non_null(strstr(tensum_last_error(), "cuda:0"));
        device_release(1, elsewhere);
    }
    c.inputs[1].device = cpu;
    c.inputs[1].data = &c.data[4];
    succeeds(tensum_run(program, workspace, &run));
    assert_true(result == chain_best(&c, NULL));
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    pinned_release(pinned);
    chain_free(&c);
    no_fault();
}

/* One program for every device there is, all runs under way before the first is waited for, from host memory and from each
 * device's own. */
static void devices_work_side_by_side(void **state)
{
    enum { MOST = 16 };
    chain c;
    tensum_program *programs[MOST] = {NULL};
    tensum_workspace *workspaces[MOST] = {NULL};
    tensum_tensor inputs[40];
    uint64_t memory[MOST], out[MOST];
    const int count = gpu_count < MOST ? gpu_count : MOST;
    float best;

    (void)state;
    chain_make(&c, 40, TENSUM_MAX_PLUS, 0);
    best = chain_best(&c, NULL);
    for (int d = 0; d < count; d++) {
        programs[d] = compile(&c, TENSUM_VALUE, (tensum_device){TENSUM_CUDA, d});
        succeeds(tensum_workspace_create(programs[d], NULL, &workspaces[d]));
        memory[d] = device_allocate(d, 40 * 4 * sizeof(float));
        out[d] = device_allocate(d, sizeof(float));
        device_write(memory[d], c.data, 40 * 4 * sizeof(float));
    }
    for (int round = 0; round < 3; round++) { /* the last is a replay of the second */
        for (int d = 0; d < count; d++) {
            tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
            const tensum_device device = {TENSUM_CUDA, d};
            float result = 0;
            tensum_tensor output = {round == 0 ? (void *)&result : (void *)(uintptr_t)out[d], TENSUM_F32, 0, NULL, NULL, round == 0 ? cpu : device};
            for (int i = 0; i < 40; i++) {
                inputs[i] = c.inputs[i];
                if (round > 0) {
                    inputs[i].data = (void *)(uintptr_t)(memory[d] + (uint64_t)i * 4 * sizeof(float));
                    inputs[i].device = device;
                }
            }
            run.inputs = inputs;
            run.output = &output;
            succeeds(tensum_run(programs[d], workspaces[d], &run));
            assert_true(round > 0 || result == best);
        }
        for (int d = 0; d < count && round > 0; d++) {
            float result = 0;
            succeeds(tensum_synchronize((tensum_device){TENSUM_CUDA, d}, NULL));
            device_read(&result, out[d], sizeof result);
            assert_true(result == best);
        }
    }
    for (int d = 0; d < count; d++) {
        tensum_workspace_release(workspaces[d]);
        tensum_program_release(programs[d]);
        device_release(d, memory[d]);
        device_release(d, out[d]);
    }
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
    uint64_t out;
    float result = 0;
    tensum_tensor output = {NULL, TENSUM_F32, 0, NULL, NULL, cuda0};
    void *stream = stream_create(1), *exec;

    (void)state;
    chain_make(&c, 12, TENSUM_MAX_PLUS, 0);
    program = compile(&c, TENSUM_VALUE, cuda0);
    chain_to_device(&c);
    out = device_allocate(0, sizeof(float));
    output.data = (void *)(uintptr_t)out;
    run.inputs = c.inputs;
    run.output = &output;
    run.stream = stream;
    options.stream = stream;

    capture_begin(stream);
    assert_int_equal(tensum_workspace_create(program, &options, &workspace), TENSUM_STATUS_NOT_PREPARED);
    exec = capture_end(stream);
    assert_non_null(exec); /* the refusal has not broken it */
    capture_free(exec);

    succeeds(tensum_workspace_create(program, &options, &workspace));
    succeeds(tensum_run(program, workspace, &run)); /* tables of steps that share a launch are uploaded once */
    capture_begin(stream);
    succeeds(tensum_run(program, workspace, &run));
    exec = capture_end(stream);
    assert_non_null(exec);
    for (int k = 0; k < 3; k++) {
        c.data[k] += 50;
        device_write(c.memory, c.data, (size_t)c.count * 16);
        capture_launch(exec, stream);
        device_read(&result, out, sizeof result);
        assert_true(result == chain_best(&c, NULL));
    }
    capture_free(exec);
    tensum_workspace_release(workspace);
    stream_destroy(stream);
    tensum_program_release(program);
    device_release(0, out);
    chain_free(&c);
    no_fault();
}

static void what_is_outside_the_domain_is_told_later(void **state)
{
    chain c;
    tensum_program *program;
    tensum_workspace *workspace = NULL;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    uint64_t out;
    float result = 0;
    tensum_tensor output = {NULL, TENSUM_F32, 0, NULL, NULL, cuda0}, here = {&result, TENSUM_F32, 0, NULL, NULL, cpu};

    (void)state;
    chain_make(&c, 5, TENSUM_MAX_TIMES, 0);
    for (int64_t i = 0; i < 20; i++) {
        c.data[i] = (float)(i % 3);
    }
    program = compile(&c, TENSUM_VALUE, cuda0);
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    out = device_allocate(0, sizeof(float));
    output.data = (void *)(uintptr_t)out;
    c.data[3 * 4 + 2] = -1;
    run.inputs = c.inputs;
    run.output = &here;
    assert_int_equal(tensum_run(program, workspace, &run), TENSUM_STATUS_DOMAIN); /* host operands: at once */
    assert_non_null(strstr(tensum_last_error(), "operand 3"));
    chain_to_device(&c);
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
    device_write(c.memory, c.data, 80);
    succeeds(tensum_run(program, workspace, &run));
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    device_release(0, out);
    chain_free(&c);
    no_fault();
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
        cmocka_unit_test(devices_work_side_by_side), cmocka_unit_test(a_stream_can_be_captured),
        cmocka_unit_test(what_is_outside_the_domain_is_told_later),
    };
    int result = machine_open();

    return result != 0 ? result : cmocka_run_group_tests(tests, NULL, NULL);
}
