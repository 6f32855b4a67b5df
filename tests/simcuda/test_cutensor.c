/* cuTENSOR on the simulated library and driver: plans, their cache, programs, graphs. That the results are right for all kinds
 * of contractions is for the conformance suite; here matrices of small integers are compared with loops. */
#include <simcuda/cutensor_tests.h>

/* ---- plans ---- */

static void wrong_arguments_are_refused(void **state)
{
    int64_t version = 0;
    tensum_cutensor_cache cache = {0};
    (void)state;
    succeeds(tensum_cutensor_version(&version));
    assert_int_equal(version, 20900);
    assert_int_equal(tensum_cutensor_version(NULL), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(tensum_cutensor_cache_limit(cuda0, -1), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(tensum_cuda_retirement_limit(cuda0, 0), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(tensum_cuda_retirement_limit(cuda0, 257), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(tensum_cutensor_choose(cuda0, (tensum_cutensor_choice)3), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(tensum_cutensor_clear((tensum_device){TENSUM_CPU, 0}), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(tensum_cutensor_cache_stats(cuda0, NULL), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(tensum_cutensor_cache_stats(cuda0, &cache), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(tensum_cutensor_cache_stats((tensum_device){TENSUM_CUDA, 9}, &cache), TENSUM_STATUS_INVALID_ARGUMENT);
}

/* The same work under other names, with fused modes, with operands in the other order: one plan. */
static void equal_work_shares_a_plan(void **state)
{
    static const struct {
        const char *expression;
        int32_t ranks[2];
        int64_t extents[2][4], output[4];
        int32_t output_rank;
        int misses;
    } cases[] = {
        {"ij,jk->ik", {2, 2}, {{8, 4}, {4, 6}}, {8, 6}, 2, 1},
        {"xz,zy->xy", {2, 2}, {{8, 4}, {4, 6}}, {8, 6}, 2, 0},
        {"abij,jk->abik", {4, 2}, {{2, 2, 2, 4}, {4, 6}}, {2, 2, 2, 6}, 4, 0},
        {"ipq,pqk->ik", {3, 3}, {{8, 2, 2}, {2, 2, 6}}, {8, 6}, 2, 0},
        {"jk,ij->ik", {2, 2}, {{4, 6}, {8, 4}}, {8, 6}, 2, 0},
        {"iju,jk->iku", {3, 2}, {{8, 4, 1}, {4, 6}}, {8, 6, 1}, 3, 0},
        {"ji,jk->ik", {2, 2}, {{4, 8}, {4, 6}}, {8, 6}, 2, 1},  /* a transposed */
        {"ij,jk->ki", {2, 2}, {{8, 4}, {4, 6}}, {6, 8}, 2, 1},  /* the result transposed */
        {"ij,jk->ik", {2, 2}, {{8, 4}, {4, 7}}, {8, 7}, 2, 1},  /* another extent */
        {"ij,ij->i", {2, 2}, {{8, 4}, {8, 4}}, {8}, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t *extents[2] = {cases[i].extents[0], cases[i].extents[1]};
        tensum_program *program = compile(cases[i].expression, 2, cases[i].ranks, extents, TENSUM_F32, TENSUM_VALUE);
        tensum_workspace *workspace = NULL;
        uint64_t memory[3];
        tensum_tensor inputs[2], output;
        tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
        counts before = count(), after;

        for (int o = 0; o < 3; o++) {
            memory[o] = simcuda_allocate(0, 512);
            simcuda_write(memory[o], (float[128]){1}, 512);
        }
        for (int o = 0; o < 2; o++) {
            inputs[o] = (tensum_tensor){(void *)(uintptr_t)memory[o], TENSUM_F32, cases[i].ranks[o], extents[o], NULL, cuda0};
        }
        output = (tensum_tensor){(void *)(uintptr_t)memory[2], TENSUM_F32, cases[i].output_rank, cases[i].output, NULL, cuda0};
        run.inputs = inputs;
        run.output = &output;
        succeeds(tensum_workspace_create(program, NULL, &workspace));
        for (int k = 0; k < 3; k++) {
            succeeds(tensum_run(program, workspace, &run));
        }
        after = count();
        CHANGED(cache.misses, cases[i].misses);
        CHANGED(cache.hits, 1 - cases[i].misses); /* the second and third run look nothing up */
        CHANGED(cache.entries, cases[i].misses);
        CHANGED(cache.calls, 3);
        assert_true((after.cache.bytes > before.cache.bytes) == (cases[i].misses == 1));
        tensum_workspace_release(workspace);
        tensum_program_release(program);
        for (int o = 0; o < 3; o++) {
            simcuda_release(memory[o]);
        }
    }
    assert_int_equal(simcutensor_plans(), 5);
}

static void worse_alignment_needs_another_plan(void **state)
{
    product p;
    counts before, after;
    (void)state;
    product_make(&p, 8, 4, 8);
    succeeds(product_run(&p, 0, 0, 0, NULL));
    before = count();
    p.device_b += 64; /* other numbers, and the same plan would not do */
    for (int i = 0; i < 2; i++) {
        succeeds(product_run(&p, 0, 1, 0, NULL));
    }
    p.device_b -= 64;
    succeeds(product_run(&p, 0, 0, 0, NULL)); /* better than needed */
    after = count();
    CHANGED(cache.misses, 1);
    CHANGED(cache.hits, 0);
    product_check(&p, 0, 1);
    product_free(&p);
}

/* One entry, two contractions in turn: each run evicts a plan whose work is in flight. */
static void a_cache_of_one_never_waits(void **state)
{
    product p, q;
    counts before, after;
    simcuda_counters seen;
    (void)state;
    product_make(&p, 8, 5, 8);
    product_make(&q, 8, 7, 16);
    succeeds(tensum_cutensor_cache_limit(cuda0, 1));
    before = count();
    simcuda_reset_counters();
    for (int i = 0; i < RESULTS; i++) {
        succeeds(product_run(&p, i % 2, i, 0, NULL));
        succeeds(product_run(&q, (i + 1) % 2, i, 0, NULL));
    }
    after = count();
    simcuda_count(&seen);
    CHANGED(cache.misses, 2 * RESULTS);
    CHANGED(cache.hits, 0);
    CHANGED(cache.evictions, 2 * RESULTS - 1);
    CHANGED(cache.entries, 1);
    CHANGED(cache.calls, 2 * RESULTS);
    CHANGED(scratch.uses, 2 * RESULTS);
    CHANGED(scratch.growths, 1);
    CHANGED(scratch.temporaries, 0);
    CHANGED(scratch.waits, 2 * RESULTS - 1);
    CHANGED(retired.deferred, 0);
    CHANGED(retired.barriers, 0);
    CHANGED(retired.capacity_waits, 0);
    CHANGED(device.synchronisations, 0);
    assert_int_equal(seen.synchronisations, 0);
    assert_true(seen.pending > 2 * RESULTS); /* none of it has been done */
    for (int i = 0; i < RESULTS; i++) {
        product_check(&p, i, 1);
        product_check(&q, i, 1);
    }
    product_free(&p);
    product_free(&q);
}

static void the_limit_of_the_cache(void **state)
{
    product p[4];
    counts before, after;
    (void)state;
    for (int i = 0; i < 4; i++) {
        product_make(&p[i], 8, 4 + i, 8);
        succeeds(product_run(&p[i], 0, 0, 0, NULL));
    }
    before = count();
    assert_int_equal(before.cache.entries, 4);
    /* The two that were used last are left; a run with the strides of before needs none of it. */
    succeeds(product_run(&p[0], 1, 1, 0, NULL));
    succeeds(product_run(&p[0], 0, 2, 0, NULL));
    succeeds(tensum_cutensor_cache_limit(cuda0, 2));
    after = count();
    CHANGED(cache.hits, 1);
    CHANGED(cache.misses, 1);
    CHANGED(cache.evictions, 3);
    assert_int_equal(after.cache.entries, 2);
    assert_int_equal(after.cache.limit, 2);
    before = count();
    succeeds(product_run(&p[0], 1, 3, 0, NULL));
    succeeds(product_run(&p[3], 0, 1, 0, NULL));
    after = count();
    CHANGED(cache.hits, 1);
    CHANGED(cache.misses, 0);
    succeeds(tensum_cutensor_cache_limit(cuda0, 0));
    before = count();
    assert_int_equal(before.cache.entries, 0);
    assert_int_equal(before.cache.bytes, 0);
    for (int i = 0; i < 6; i++) {
        succeeds(product_run(&p[0], i % 2, 4 + i, 0, NULL));
    }
    after = count();
    CHANGED(cache.misses, 6);
    CHANGED(cache.hits, 0);
    CHANGED(cache.evictions, 0);
    CHANGED(cache.entries, 0);
    for (int i = 0; i < 10; i++) {
        product_check(&p[0], i, 1);
    }
    product_check(&p[3], 1, 1);
    for (int i = 0; i < 4; i++) {
        product_free(&p[i]);
    }
}

static const char *const building[] = {"cutensorCreateTensorDescriptor", "cutensorCreateContraction",
                                       "cutensorCreatePlanPreference",   "cutensorEstimateWorkspaceSize",
                                       "cutensorCreatePlan",             "cutensorPlanGetAttribute"};

/* Every call of a build fails in turn: the cache stays as it was, and the next try works. */
static void a_failed_build_changes_nothing(void **state)
{
    product p, q;
    (void)state;
    product_make(&p, 8, 4, 8);
    product_make(&q, 8, 6, 8);
    succeeds(tensum_cutensor_cache_limit(cuda0, 2));
    succeeds(product_run(&p, 0, 0, 0, NULL));
    succeeds(product_run(&q, 0, 0, 0, NULL));
    for (size_t f = 0; f < sizeof building / sizeof building[0]; f++) {
        for (long n = 1; n <= (f == 0 ? 3 : 1); n++) {
            for (int kind = 0; kind < 2; kind++) {
                counts before = count(), after;
                long live = simcutensor_live();
                tensum_status status;
                simcuda_fail(building[f], n, kind == 0 ? INTERNAL : NOT_SUPPORTED);
                status = product_run(&p, 1, 1, 0, NULL);
                simcuda_fail(NULL, 0, 0);
                after = count();
                CHANGED(cache.misses, 1);
                CHANGED(cache.failures, 1);
                CHANGED(cache.evictions, 0);
                CHANGED(cache.entries, 0);
                CHANGED(cache.bytes, 0);
                assert_int_equal(simcutensor_live(), live);
                if (kind == 0) {
                    assert_int_equal(status, TENSUM_STATUS_DEVICE);
                    assert_non_null(strstr(tensum_last_error(), building[f]));
                } else { /* the library has no such plan: our own kernels do it */
                    succeeds(status);
                    CHANGED(cache.calls, 0);
                    product_check(&p, 1, 1);
                }
                succeeds(product_run(&q, 0, 1, 0, NULL));
                before = after;
                after = count();
                CHANGED(cache.misses, 0);
                succeeds(product_run(&p, 0, 2, 0, NULL)); /* both plans are still there */
                after = count();
                CHANGED(cache.misses, 0);
                CHANGED(cache.hits, 1);
                product_check(&p, 2, 1);
                product_check(&q, 1, 1);
            }
        }
    }
    succeeds(product_run(&p, 1, 3, 0, NULL));
    product_check(&p, 3, 1);
    assert_int_equal(count().cache.entries, 2);
    succeeds(tensum_cutensor_clear(cuda0));
    simcuda_fail("cutensorCreate", 1, INTERNAL); /* no handle */
    assert_int_equal(product_run(&p, 0, 4, 0, NULL), TENSUM_STATUS_DEVICE);
    simcuda_fail(NULL, 0, 0);
    succeeds(product_run(&p, 0, 4, 0, NULL));
    product_check(&p, 4, 1);
    product_free(&p);
    product_free(&q);
}

static void devices_have_caches_of_their_own(void **state)
{
    product p;
    tensum_cutensor_cache other = TENSUM_CUTENSOR_CACHE_INIT;
    (void)state;
    product_make(&p, 8, 4, 8);
    succeeds(product_run(&p, 0, 0, 0, NULL));
    succeeds(tensum_cutensor_cache_stats(cuda1, &other));
    assert_int_equal(other.misses, 0);
    assert_int_equal(other.entries, 0);
    assert_int_equal(other.limit, 512);
    product_check(&p, 0, 1);
    product_free(&p);
}

static void the_choice_is_that_of_the_compilation(void **state)
{
    product p;
    (void)state;
    succeeds(tensum_cutensor_choose(cuda0, TENSUM_CUTENSOR_NEVER));
    product_make(&p, 8, 4, 8);
    succeeds(tensum_cutensor_choose(cuda0, TENSUM_CUTENSOR_ALWAYS));
    succeeds(product_run(&p, 0, 0, 0, NULL));
    assert_int_equal(simcutensor_calls(), 0);
    product_check(&p, 0, 1);
    product_free(&p);
    succeeds(tensum_cutensor_choose(cuda0, TENSUM_CUTENSOR_AUTO));
    product_make(&p, 8, 4, 8); /* too small to be worth it */
    succeeds(product_run(&p, 0, 0, 0, NULL));
    assert_int_equal(simcutensor_calls(), 0);
    product_check(&p, 0, 1);
    product_free(&p);
}

/* The table: small steps are ours, large ones the library's. Nothing is run. */
static void large_steps_are_for_the_library(void **state)
{
    static const tensum_dtype dtypes[] = {TENSUM_F32, TENSUM_F64, TENSUM_F16, TENSUM_BF16, TENSUM_C64, TENSUM_C128};
    static const int64_t sides[] = {16, 2048};
    (void)state;
    succeeds(tensum_cutensor_choose(cuda0, TENSUM_CUTENSOR_AUTO));
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        for (int large = 0; large < 2; large++) {
            int32_t ranks[3] = {2, 2, 2};
            int64_t extents[2] = {sides[large], sides[large]};
            const int64_t *lists[3] = {extents, extents, extents};
            counts before = count(), after;
            tensum_program_release(compile("ab,bc,cd->ad", 3, ranks, lists, dtypes[d], TENSUM_VALUE));
            after = count();
            assert_int_equal(after.cache.hits + after.cache.misses - before.cache.hits - before.cache.misses, large ? 2 : 0);
        }
    }
}

/* Plans are found when the program is compiled; runs look nothing up, whatever becomes of the cache, and are one graph. */
static void a_program_holds_its_plans(void **state)
{
    chain bare, c;
    counts before, after;
    simcuda_counters seen;
    (void)state;
    simcutensor_scratch(0);
    chain_make(&bare, TENSUM_VALUE);
    succeeds(tensum_cutensor_clear(cuda0)); /* its plans need no scratch; others are built now */
    simcutensor_scratch(16);
    before = count();
    chain_make(&c, TENSUM_VALUE);
    after = count();
    CHANGED(cache.misses, 2); /* the last two of three steps are equal: the first result is kept transposed */
    CHANGED(cache.hits, 1);
    /* Scratch (16 bytes an element are 576, which the library makes 768, with 256 to align it) is in the workspace. */
    assert_int_equal(tensum_program_workspace_bytes(c.program) - tensum_program_workspace_bytes(bare.program), 768 + 256);
    succeeds(tensum_cutensor_clear(cuda0));
    before = count();
    for (int i = 0; i < 4; i++) {
        simcuda_reset_counters();
        succeeds(chain_run(&c, 0, NULL));
        simcuda_count(&seen);
        assert_int_equal(seen.graph_launches, i > 0);
        assert_int_equal(seen.synchronisations, 0);
        assert_int_equal(seen.allocations, 0);
        assert_int_equal(simcutensor_calls(), i == 0 ? 3 : 6); /* the graph records three, once */
        chain_check(&c);
        c.data[i][i] += 3;
        simcuda_write(c.device[i], c.data[i], sizeof c.data[i]);
    }
    after = count();
    CHANGED(cache.hits, 0);
    CHANGED(cache.misses, 0);
    CHANGED(cache.calls, 6);
    CHANGED(scratch.uses, 0); /* of streams */
    for (int i = 0; i < CHAIN; i++) {
        assert_int_equal(simcutensor_touched(c.device[i], sizeof c.data[i]), 0);
    }
    assert_int_equal(simcutensor_touched(c.out, sizeof c.data[0]), 0);
    chain_free(&c);
    chain_free(&bare);
}

/* Where the library's scratch would break a memory limit, our own kernels do the work. */
static void a_memory_limit_counts_scratch(void **state)
{
    chain own, c;
    size_t least;
    (void)state;
    simcutensor_scratch(4 * KIB);
    succeeds(tensum_cutensor_choose(cuda0, TENSUM_CUTENSOR_NEVER));
    chain_make(&own, TENSUM_VALUE);
    least = tensum_program_workspace_bytes(own.program);
    chain_free(&own);
    succeeds(tensum_cutensor_choose(cuda0, TENSUM_CUTENSOR_ALWAYS));
    chain_make_within(&c, TENSUM_VALUE, least + 64 * KIB);
    assert_true(tensum_program_workspace_bytes(c.program) <= least); /* our own kernels may have tables besides */
    least = tensum_program_workspace_bytes(c.program);
    succeeds(chain_run(&c, 0, NULL));
    assert_int_equal(simcutensor_calls(), 0);
    chain_check(&c);
    chain_free(&c);
    chain_make_within(&c, TENSUM_VALUE, least + 256 * KIB);
    assert_true(tensum_program_workspace_bytes(c.program) > 4 * KIB * SIDE * SIDE);
    succeeds(chain_run(&c, 0, NULL));
    assert_int_equal(simcutensor_calls(), 3);
    chain_check(&c);
    chain_free(&c);
}

static void gradients_agree_with_our_own_kernels(void **state)
{
    chain c[2];
    float value[2][SIDE * SIDE], slope[2][SIDE * SIDE];
    (void)state;
    for (int w = 0; w < 2; w++) {
        succeeds(tensum_cutensor_choose(cuda0, w == 0 ? TENSUM_CUTENSOR_NEVER : TENSUM_CUTENSOR_ALWAYS));
        chain_make(&c[w], TENSUM_VALUE | TENSUM_GRADIENT);
    }
    for (int i = 0; i < 3; i++) {
        for (int w = 0; w < 2; w++) {
            succeeds(chain_run(&c[w], 1, NULL));
            chain_check(&c[w]);
        }
        for (int g = 0; g < CHAIN; g++) {
            for (int w = 0; w < 2; w++) {
                simcuda_read(value[w], c[w].out, sizeof value[w]);
                simcuda_read(slope[w], c[w].gradients[g], sizeof slope[w]);
            }
            assert_memory_equal(value[0], value[1], sizeof value[0]);
            assert_memory_equal(slope[0], slope[1], sizeof slope[0]);
        }
    }
    /* Three steps and the cotangent of an intermediate, once one by one and once recorded. */
    assert_int_equal(simcutensor_calls(), 8);
    chain_free(&c[0]);
    chain_free(&c[1]);
}

static void accumulating_adds(void **state)
{
    product p;
    (void)state;
    product_make(&p, 8, 4, 8);
    succeeds(product_run(&p, 0, 0, 0, NULL));
    succeeds(product_run(&p, 0, 0, 1, NULL));
    succeeds(product_run(&p, 0, 0, 1, NULL));
    assert_int_equal(simcutensor_calls(), 3);
    product_check(&p, 0, 3);
    succeeds(product_run(&p, 0, 0, 0, NULL));
    product_check(&p, 0, 1);
    product_free(&p);
}

/* Inside the caller's graph there is no scratch but a workspace's. */
static void inside_a_callers_graph(void **state)
{
    product p, bare;
    chain c;
    void *context = NULL, *stream = NULL, *graph = NULL, *exec = NULL;
    counts before, after;
    (void)state;
    product_make(&p, 8, 4, 8);
    simcutensor_scratch(0);
    product_make(&bare, 8, 5, 8);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 100), 0);
    assert_int_equal(cuCtxPushCurrent_v2(context), 0);
    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    succeeds(product_run(&bare, 0, 0, 0, stream));
    simcutensor_scratch(16);
    chain_make(&c, TENSUM_VALUE);
    succeeds(product_run(&p, 0, 0, 0, stream));
    succeeds(chain_run(&c, 0, stream));
    before = count();
    assert_int_equal(cuStreamBeginCapture_v2(stream, 0), 0);
    succeeds(product_run(&p, 0, 1, 0, stream));
    assert_int_equal(count().cache.calls - before.cache.calls, 0); /* our own kernels */
    succeeds(product_run(&bare, 0, 1, 0, stream));
    succeeds(chain_run(&c, 0, stream));
    assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
    after = count();
    CHANGED(cache.calls, 4);
    CHANGED(scratch.uses, 0);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    c.data[1][2] += 5;
    simcuda_write(c.device[1], c.data[1], sizeof c.data[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuGraphLaunch(exec, stream), 0);
        chain_check(&c);
        product_check(&p, 1, 1);
        product_check(&bare, 1, 1);
    }
    assert_int_equal(cuGraphExecDestroy(exec), 0);
    assert_int_equal(cuGraphDestroy(graph), 0);
    chain_free(&c);
    product_free(&p);
    product_free(&bare);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuCtxPopCurrent_v2(&context), 0);
}


int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(wrong_arguments_are_refused),
        TEST(equal_work_shares_a_plan),
        TEST(worse_alignment_needs_another_plan),
        TEST(a_cache_of_one_never_waits),
        TEST(the_limit_of_the_cache),
        TEST(a_failed_build_changes_nothing),
        TEST(devices_have_caches_of_their_own),
        TEST(the_choice_is_that_of_the_compilation),
        TEST(large_steps_are_for_the_library),
        TEST(a_program_holds_its_plans),
        TEST(a_memory_limit_counts_scratch),
        TEST(gradients_agree_with_our_own_kernels),
        TEST(accumulating_adds),
        TEST(inside_a_callers_graph),
    };
    return RUN(tests);
}
