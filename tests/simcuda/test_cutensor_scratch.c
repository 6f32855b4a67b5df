/* cuTENSOR on the simulated library and driver: scratch, retirement, failures, streams and threads. */
#include <pthread.h>

#include <simcuda/cutensor_tests.h>

/* ---- scratch and retirement ---- */

static void scratch_grows_by_powers_of_two(void **state)
{
    static const int64_t widths[] = {8, 16, 24, 32, 8};
    static const uint64_t kept[] = {64, 128, 256, 256, 256}; /* KiB, for 64, 128, 192, 256, 64 */
    static const uint64_t growths[] = {1, 1, 1, 0, 0};
    product p[5];
    counts first, before, after;
    (void)state;
    simcutensor_scratch(KIB);
    first = count();
    for (int i = 0; i < 5; i++) {
        product_make(&p[i], 8, 4, widths[i]);
        before = count();
        succeeds(product_run(&p[i], 0, 0, 0, NULL));
        after = count();
        assert_int_equal(after.scratch.bytes, kept[i] * KIB);
        CHANGED(scratch.growths, growths[i]);
        CHANGED(scratch.buffers, i == 0);
        CHANGED(retired.deferred, i == 1 || i == 2); /* the old one */
    }
    before = first;
    CHANGED(scratch.uses, 5);
    CHANGED(scratch.temporaries, 0);
    CHANGED(scratch.waits, 2); /* new memory has nothing to wait for */
    CHANGED(retired.deferred, 2);
    CHANGED(retired.released, 0);
    CHANGED(retired.in_flight, 2);
    CHANGED(retired.bytes, (64 + 128) * KIB);
    succeeds(tensum_synchronize(cuda0, NULL));
    after = count();
    CHANGED(retired.released, 2);
    CHANGED(retired.in_flight, 0);
    CHANGED(retired.bytes, 0);
    CHANGED(retired.barriers, 0);
    CHANGED(retired.capacity_waits, 0);
    CHANGED(retired.leaked, 0);
    for (int i = 0; i < 5; i++) {
        product_check(&p[i], 0, 1);
        product_free(&p[i]);
    }
    /* Plans that are evicted leave it alone; clearing does not. */
    succeeds(tensum_cutensor_cache_limit(cuda0, 0));
    assert_int_equal(count().scratch.bytes, 256 * KIB);
    succeeds(tensum_cutensor_clear(cuda0));
    assert_int_equal(count().scratch.bytes, 0);
}

static void what_is_above_the_limit_is_temporary(void **state)
{
    product small, odd, large;
    counts before, after;
    (void)state;
    simcutensor_scratch(KIB);
    product_make(&small, 8, 4, 8);  /* 64 KiB */
    product_make(&odd, 8, 4, 9);    /* 72 KiB */
    product_make(&large, 8, 4, 16); /* 128 KiB */
    succeeds(tensum_cutensor_scratch_limit(cuda0, 100 * KIB));
    before = count();
    succeeds(product_run(&small, 0, 0, 0, NULL));
    succeeds(product_run(&large, 0, 0, 0, NULL));
    succeeds(product_run(&odd, 0, 0, 0, NULL));
    succeeds(product_run(&large, 0, 1, 0, NULL));
    after = count();
    CHANGED(scratch.uses, 4);
    CHANGED(scratch.growths, 2);
    CHANGED(scratch.temporaries, 2);
    assert_int_equal(after.scratch.bytes, 100 * KIB); /* not 128 */
    assert_int_equal(after.scratch.limit, 100 * KIB);
    CHANGED(retired.deferred, plain_memory() ? 3 : 1);
    /* It survives a clear; 0 keeps nothing. */
    succeeds(tensum_cutensor_clear(cuda0));
    assert_int_equal(count().scratch.limit, 100 * KIB);
    succeeds(tensum_cutensor_scratch_limit(cuda0, 0));
    before = count();
    for (int i = 1; i < 5; i++) {
        succeeds(product_run(&small, 0, i, 0, NULL));
    }
    after = count();
    CHANGED(scratch.temporaries, 4);
    CHANGED(scratch.growths, 0);
    CHANGED(scratch.buffers, 0);
    CHANGED(device.synchronisations, 0);
    for (int i = 0; i < 5; i++) {
        product_check(&small, i, 1);
    }
    product_check(&large, 0, 1);
    product_check(&large, 1, 1);
    product_check(&odd, 0, 1);
    product_free(&small);
    product_free(&odd);
    product_free(&large);
}

static void lowering_the_limit_or_clearing_while_work_is_in_flight(void **state)
{
    product p;
    counts before, after;
    (void)state;
    simcutensor_scratch(KIB);
    product_make(&p, 16, 4, 16);
    before = count();
    succeeds(product_run(&p, 0, 0, 0, NULL));
    succeeds(tensum_cutensor_scratch_limit(cuda0, 64 * KIB));
    after = count();
    CHANGED(scratch.buffers, 0);
    CHANGED(retired.deferred, 1);
    CHANGED(retired.in_flight, 1);
    CHANGED(retired.bytes, 256 * KIB);
    succeeds(product_run(&p, 1, 1, 0, NULL)); /* temporary */
    succeeds(tensum_cutensor_scratch_limit(cuda0, 512 * KIB));
    succeeds(product_run(&p, 0, 2, 0, NULL));
    after = count();
    CHANGED(scratch.growths, 2);
    CHANGED(scratch.temporaries, 1);
    CHANGED(device.synchronisations, 0);
    succeeds(tensum_cutensor_clear(cuda0)); /* waits for what is in use */
    after = count();
    CHANGED(cache.clears, 1);
    CHANGED(scratch.buffers, 0);
    CHANGED(retired.in_flight, 0);
    CHANGED(retired.deferred, plain_memory() ? 3 : 2);
    CHANGED(retired.released, plain_memory() ? 3 : 2);
    CHANGED(retired.barriers, 0);
    CHANGED(retired.leaked, 0);
    succeeds(product_run(&p, 1, 3, 0, NULL));
    for (int i = 0; i < 4; i++) {
        product_check(&p, i, 1);
    }
    product_free(&p);
}

/* The workspace and program of work in flight go away, and so does the cache. */
static void teardown_while_work_is_in_flight(void **state)
{
    product p;
    chain c;
    (void)state;
    product_make(&p, 8, 4, 8);
    chain_make(&c, TENSUM_VALUE);
    succeeds(product_run(&p, 0, 0, 0, NULL));
    for (int i = 0; i < 3; i++) {
        succeeds(chain_run(&c, 0, NULL));
    }
    succeeds(product_run(&p, 1, 1, 0, NULL));
    tensum_workspace_release(p.workspace);
    tensum_program_release(p.program);
    tensum_workspace_release(c.workspace);
    tensum_program_release(c.program);
    p.workspace = c.workspace = NULL;
    p.program = c.program = NULL;
    succeeds(tensum_cutensor_clear(cuda0));
    assert_int_equal(simcutensor_live(), 0);
    product_check(&p, 0, 1);
    product_check(&p, 1, 1);
    chain_check(&c);
    product_free(&p);
    chain_free(&c);
}

/* Growth retires a buffer each time; the queue holds two. */
static void a_full_queue_waits_for_its_oldest_only(void **state)
{
    enum { COUNT = 6 };
    product p[COUNT];
    counts before, after;
    (void)state;
    simcutensor_scratch(KIB);
    succeeds(tensum_cuda_retirement_limit(cuda0, 2));
    for (int i = 0; i < COUNT; i++) {
        product_make(&p[i], 8, 2, 8 << i);
    }
    before = count();
    for (int i = 0; i < COUNT; i++) {
        succeeds(product_run(&p[i], 0, 0, 0, NULL));
    }
    after = count();
    CHANGED(scratch.growths, COUNT);
    CHANGED(retired.deferred, COUNT - 1);
    CHANGED(retired.capacity_waits, COUNT - 3);
    CHANGED(retired.released, COUNT - 3);
    CHANGED(retired.in_flight, 2);
    CHANGED(retired.barriers, 0);
    CHANGED(retired.leaked, 0);
    CHANGED(device.synchronisations, COUNT - 3);
    assert_int_equal(after.retired.limit, 2);
    assert_true(after.retired.in_flight_peak >= 2);
    for (int i = 0; i < COUNT; i++) {
        product_check(&p[i], 0, 1);
        product_free(&p[i]);
    }
}

/* ---- failures ---- */

static void without_events_streams_are_waited_for(void **state)
{
    product p;
    counts before, after;
    (void)state;
    product_make(&p, 8, 4, 8);
    /* None to be had: nothing is kept. */
    simcuda_break("cuEventCreate", UNKNOWN);
    before = count();
    for (int i = 0; i < 3; i++) {
        succeeds(product_run(&p, 0, i, 0, NULL));
    }
    after = count();
    CHANGED(scratch.temporaries, 3);
    CHANGED(scratch.growths, 0);
    CHANGED(retired.barriers, plain_memory() ? 3 : 0);
    CHANGED(retired.leaked, 0);
    /* None can be recorded: a barrier each time. */
    simcuda_break(NULL, 0);
    simcuda_break("cuEventRecord", UNKNOWN);
    before = count();
    for (int i = 3; i < 6; i++) {
        succeeds(product_run(&p, 0, i, 0, NULL));
    }
    after = count();
    CHANGED(scratch.temporaries, 0);
    CHANGED(scratch.growths, 1);
    CHANGED(scratch.waits, 0);
    CHANGED(retired.barriers, 3);
    CHANGED(retired.leaked, 0);
    CHANGED(device.synchronisations, 3);
    /* Nor can the stream be waited for: the block is never used again. */
    simcuda_break("cuStreamSynchronize", UNKNOWN);
    before = count();
    for (int i = 6; i < 9; i++) {
        succeeds(product_run(&p, 0, i, 0, NULL));
    }
    after = count();
    CHANGED(scratch.growths, 2); /* the first took the buffer that was there */
    CHANGED(scratch.buffers, -1);
    CHANGED(retired.barriers, 3);
    CHANGED(retired.leaked, 3);
    simcuda_break(NULL, 0);
    /* The device cannot be told to wait: a block of its own. */
    succeeds(product_run(&p, 0, 9, 0, NULL));
    simcuda_break("cuStreamWaitEvent", UNKNOWN);
    before = count();
    succeeds(product_run(&p, 0, 10, 0, NULL));
    simcuda_break(NULL, 0);
    succeeds(product_run(&p, 0, 11, 0, NULL));
    after = count();
    CHANGED(scratch.temporaries, 1);
    CHANGED(scratch.waits, 2);
    CHANGED(scratch.growths, 0);
    for (int i = 0; i < 12; i++) {
        product_check(&p, i, 1);
    }
    product_free(&p);
}

static void what_cannot_be_waited_for_is_leaked(void **state)
{
    product p;
    counts before, after;
    simcuda_counters seen[2];
    (void)state;
    simcutensor_scratch(KIB);
    product_make(&p, 8, 4, 8);
    simcuda_count(&seen[0]);
    before = count();
    succeeds(product_run(&p, 0, 0, 0, NULL));
    simcuda_break("cuEventQuery", UNKNOWN);
    simcuda_break("cuEventSynchronize", UNKNOWN);
    succeeds(tensum_cutensor_clear(cuda0));
    simcuda_break(NULL, 0);
    after = count();
    simcuda_count(&seen[1]);
    CHANGED(retired.deferred, 1);
    CHANGED(retired.released, 0);
    CHANGED(retired.leaked, 1);
    CHANGED(retired.in_flight, 0);
    CHANGED(retired.bytes, 0);
    assert_int_equal(seen[1].live - seen[0].live, 1);
    assert_int_equal(seen[1].live_events - seen[0].live_events, 0);
    succeeds(product_run(&p, 0, 1, 0, NULL));
    product_check(&p, 0, 1);
    product_check(&p, 1, 1);
    product_free(&p);
}

/* A launch takes a hundred times as long under TSan, which is here for the threads. */
#ifdef __SANITIZE_THREAD__
enum { STRIDE = 9 };
#else
enum { STRIDE = 1 };
#endif

/* Growth, temporaries, an eviction, a clear: the first failure. */
static tensum_status use(product p[3])
{
    tensum_status status = product_run(&p[0], 0, 0, 0, NULL);
    status = status != TENSUM_OK ? status : product_run(&p[1], 0, 0, 0, NULL);
    status = status != TENSUM_OK ? status : product_run(&p[2], 0, 0, 0, NULL);
    status = status != TENSUM_OK ? status : product_run(&p[0], 1, 1, 0, NULL);
    status = status != TENSUM_OK ? status : product_run(&p[2], 1, 1, 0, NULL);
    status = status != TENSUM_OK ? status : tensum_cutensor_clear(cuda0);
    status = status != TENSUM_OK ? status : product_run(&p[0], 0, 2, 0, NULL);
    return status != TENSUM_OK ? status : tensum_synchronize(cuda0, NULL);
}

static void each_call_may_fail_at_every_n(void **state)
{
    static const char *const names[] = {
        "cuEventCreate",  "cuEventRecord", "cuEventQuery",  "cuEventSynchronize", "cuStreamSynchronize", "cuStreamWaitEvent",
        "cuMemAlloc_v2",  "cuMemAllocAsync", "cuMemFree_v2", "cuMemFreeAsync",    "cuStreamCreate",      "cutensorCreate",
        "cutensorCreateTensorDescriptor", "cutensorCreateContraction", "cutensorCreatePlanPreference",
        "cutensorEstimateWorkspaceSize", "cutensorCreatePlan", "cutensorPlanGetAttribute", "cutensorContract"};
    product p[3];
    long total = 0;
    (void)state;
    simcutensor_scratch(KIB);
    succeeds(tensum_cutensor_scratch_limit(cuda0, 128 * KIB));
    succeeds(tensum_cutensor_cache_limit(cuda0, 2));
    product_make(&p[0], 8, 4, 8);
    product_make(&p[1], 8, 4, 16);
    product_make(&p[2], 8, 4, 24); /* above the limit */
    simcuda_drift(1);
    for (size_t f = 0; f < sizeof names / sizeof names[0]; f++) {
        long calls;
        succeeds(tensum_cutensor_clear(cuda0));
        simcuda_fail(NULL, 0, 0);
        succeeds(use(p));
        calls = simcuda_calls(names[f]);
        for (long n = 1; n <= calls; n += STRIDE) {
            counts before, after;
            simcuda_counters seen[2];
            tensum_status status;

            succeeds(tensum_cutensor_clear(cuda0));
            before = count();
            simcuda_count(&seen[0]);
            simcuda_fail(names[f], n, n % 2 == 0 ? OUT_OF_MEMORY : UNKNOWN);
            status = use(p);
            if (status != TENSUM_OK) {
                assert_true(status == TENSUM_STATUS_DEVICE || status == TENSUM_STATUS_OUT_OF_MEMORY);
                assert_true(tensum_last_error()[0] != 0);
            }
            simcuda_fail(NULL, 0, 0);
            succeeds(use(p)); /* the next call works */
            for (int i = 0; i < 3; i++) {
                product_check(&p[i], 0, 1);
            }
            product_check(&p[0], 1, 1);
            product_check(&p[2], 1, 1);
            product_check(&p[0], 2, 1);
            for (int i = 0; i < 3; i++) { /* they hold plans */
                tensum_workspace_release(p[i].workspace);
                succeeds(tensum_workspace_create(p[i].program, NULL, &p[i].workspace));
            }
            succeeds(tensum_cutensor_clear(cuda0));
            succeeds(tensum_synchronize(cuda0, NULL));
            after = count();
            simcuda_count(&seen[1]);
            /* What is not given back has been counted as leaked. */
            assert_int_equal(seen[1].live - seen[0].live, after.retired.leaked - before.retired.leaked);
            assert_int_equal(seen[1].live_events, seen[0].live_events);
            assert_int_equal(after.retired.in_flight, 0);
            assert_int_equal(simcutensor_live(), 0);
            no_fault();
            total++;
        }
    }
    assert_true(total > (STRIDE == 1 ? 50 : 15));
    for (int i = 0; i < 3; i++) {
        product_free(&p[i]);
    }
}

/* A graph that cannot be had is no failure: calls are made one by one. */
static void a_graph_may_fail_at_every_n(void **state)
{
    static const char *const names[] = {"cuStreamCreate", "cuStreamBeginCapture_v2", "cuStreamEndCapture",
                                        "cuGraphAddChildGraphNode", "cutensorContract"};
    (void)state;
    for (size_t f = 0; f < sizeof names / sizeof names[0]; f++) {
        for (long n = 1; n <= 3; n += STRIDE) {
            chain c;
            simcuda_counters seen[2];
            simcuda_count(&seen[0]);
            chain_make(&c, TENSUM_VALUE);
            succeeds(chain_run(&c, 0, NULL));
            simcuda_fail(names[f], n, UNKNOWN);
            for (int i = 0; i < 2; i++) {
                c.data[2][i] += 1;
                simcuda_write(c.device[2], c.data[2], sizeof c.data[2]);
                succeeds(chain_run(&c, 0, NULL));
                chain_check(&c);
            }
            assert_string_equal(simcuda_failed(), names[f]);
            simcuda_fail(NULL, 0, 0);
            chain_free(&c);
            succeeds(tensum_synchronize(cuda0, NULL));
            simcuda_count(&seen[1]);
            assert_int_equal(seen[1].live_graphs, seen[0].live_graphs);
            no_fault();
        }
    }
}

/* ---- streams and threads ---- */

typedef struct worker {
    product p[2];
    void *stream;
    tensum_status status;
} worker;

static void *work(void *user)
{
    worker *w = user;
    for (int i = 0; i < RESULTS && w->status == TENSUM_OK; i++) {
        w->status = product_run(&w->p[i % 2], i / 2 % 2, i, 0, w->stream);
    }
    return NULL;
}

static void two_threads(void *first, void *second)
{
    worker w[2] = {{.stream = first}, {.stream = second}};
    pthread_t threads[2];
    counts before, after;

    simcutensor_scratch(KIB);
    succeeds(tensum_cutensor_cache_limit(cuda0, 1));
    simcuda_drift(1);
    for (int t = 0; t < 2; t++) {
        product_make(&w[t].p[0], 8, 4 + t, 8);
        product_make(&w[t].p[1], 8, 4 + t, 16);
    }
    /* Who finds the buffer in use takes a block of his own: the queue has room for all of them. */
    succeeds(tensum_cuda_retirement_limit(cuda0, first == second ? 256 : 16));
    before = count();
    for (int t = 0; t < 2; t++) {
        assert_int_equal(pthread_create(&threads[t], NULL, work, &w[t]), 0);
    }
    for (int t = 0; t < 2; t++) {
        assert_int_equal(pthread_join(threads[t], NULL), 0);
        assert_int_equal(w[t].status, TENSUM_OK);
    }
    after = count();
    CHANGED(cache.calls, 2 * RESULTS);
    CHANGED(scratch.uses, 2 * RESULTS);
    assert_int_equal(after.cache.hits + after.cache.misses - before.cache.hits - before.cache.misses, 2 * RESULTS);
    assert_int_equal(after.cache.misses - before.cache.misses, after.cache.evictions - before.cache.evictions + 1);
    CHANGED(retired.barriers, 0);
    CHANGED(retired.capacity_waits, 0);
    CHANGED(retired.leaked, 0);
    CHANGED(device.synchronisations, 0);
    if (first != second) {
        CHANGED(scratch.temporaries, 0);
        CHANGED(scratch.growths, 4);
        CHANGED(scratch.buffers, 2);
    }
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < RESULTS; i++) {
            product_check(&w[t].p[i % 2], i, 1);
        }
        product_free(&w[t].p[0]);
        product_free(&w[t].p[1]);
    }
}

static void two_threads_on_two_streams(void **state)
{
    void *context = NULL, *streams[2] = {NULL, NULL};
    (void)state;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 100), 0);
    assert_int_equal(cuCtxPushCurrent_v2(context), 0);
    assert_int_equal(cuStreamCreate(&streams[0], 1), 0);
    assert_int_equal(cuStreamCreate(&streams[1], 1), 0);
    two_threads(streams[0], streams[1]);
    /* Their streams go first; the buffers need them no more. */
    assert_int_equal(cuStreamDestroy_v2(streams[0]), 0);
    assert_int_equal(cuStreamDestroy_v2(streams[1]), 0);
    assert_int_equal(cuCtxPopCurrent_v2(&context), 0);
}

/* As with the handle of the per-thread default stream. */
static void two_threads_on_one_handle(void **state)
{
    (void)state;
    two_threads((void *)(uintptr_t)2, (void *)(uintptr_t)2);
}

/* More streams than places: the one used least recently gives up its buffer. */
static void many_streams(void **state)
{
    enum { STREAMS = 70 };
    void *context = NULL, *streams[STREAMS];
    product p;
    counts before, after;
    (void)state;
    product_make(&p, 8, 4, 8);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 100), 0);
    assert_int_equal(cuCtxPushCurrent_v2(context), 0);
    before = count();
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(cuStreamCreate(&streams[i], 1), 0);
        succeeds(product_run(&p, 0, i % RESULTS, 0, streams[i]));
    }
    after = count();
    CHANGED(scratch.buffers, 64);
    CHANGED(scratch.growths, STREAMS);
    CHANGED(retired.deferred, STREAMS - 64);
    CHANGED(retired.capacity_waits, 0);
    for (int i = 0; i < RESULTS; i++) {
        product_check(&p, i, 1);
    }
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(cuStreamDestroy_v2(streams[i]), 0);
    }
    assert_int_equal(cuCtxPopCurrent_v2(&context), 0);
    product_free(&p);
}


int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(scratch_grows_by_powers_of_two),
        TEST(what_is_above_the_limit_is_temporary),
        TEST(lowering_the_limit_or_clearing_while_work_is_in_flight),
        TEST(teardown_while_work_is_in_flight),
        TEST(a_full_queue_waits_for_its_oldest_only),
        TEST(without_events_streams_are_waited_for),
        TEST(what_cannot_be_waited_for_is_leaked),
        TEST(each_call_may_fail_at_every_n),
        TEST(a_graph_may_fail_at_every_n),
        TEST(two_threads_on_two_streams),
        TEST(two_threads_on_one_handle),
        TEST(many_streams),
    };
    return RUN(tests);
}
