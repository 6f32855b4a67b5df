/* Every allocation of a complete scenario fails in turn: the error comes back, nothing leaks, the next call works. */
#include "support.h"

#include "core/core.h"

/* A network with a hyperedge, a diagonal, a broadcast and a label summed alone; through every kind of object. */
static tensum_status scenario(tensum_device device, int threads, tensum_semiring semiring, unsigned modes, int sliced, double *result)
{
    const double a[] = {1, 2, 3, 4, 5, 6}, b[] = {2, 0, 1, 1, 3, 2, 2, 1, 0, 4, 1, 1}, c[] = {1, 2, 1}, d[] = {3, 1, 2, 2};
    double value = 0, gradient[4][12];
    int64_t assignment[8], path[16];
    tensum_context_options context_options = TENSUM_CONTEXT_OPTIONS_INIT;
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    tensum_plan_options plan = TENSUM_PLAN_OPTIONS_INIT;
    tensum_program_options program = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_context *context = NULL;
    tensum_tree *tree = NULL;
    prepared made;
    tensum_status status;
    const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, 2, 3), TENSOR(TENSUM_F64, b, 3, 2, 2), TENSOR(TENSUM_F64, c, 3), TENSOR(TENSUM_F64, d, 2, 2)};
    const tensum_tensor out = SCALAR(TENSUM_F64, &value), gradients[] = {TENSOR(TENSUM_F64, gradient[0], 2, 3), TENSOR(TENSUM_F64, gradient[1], 3, 2, 2),
                                                                         TENSOR(TENSUM_F64, gradient[2], 3), TENSOR(TENSUM_F64, gradient[3], 2, 2)};
    int32_t ranks[4];
    const int64_t *extents[4];
    for (int i = 0; i < 4; i++) {
        ranks[i] = inputs[i].rank;
        extents[i] = inputs[i].extents;
    }
    memset(&made, 0, sizeof made);
    context_options.threads = threads;
    order.work = 0.001;
    plan.semiring = semiring;
    plan.dtype = TENSUM_F64;
    program.modes = modes;
    program.device = device;
    arguments.inputs = inputs;
    arguments.output = &out;
    arguments.gradients = (modes & TENSUM_GRADIENT) != 0 ? gradients : NULL;
    arguments.assignments = (modes & TENSUM_DECODE) != 0 ? assignment : NULL;
    arguments.position_count = (modes & TENSUM_DECODE) != 0;
#define STEP(call)                   \
    if ((status = (call)) != TENSUM_OK) { \
        goto done;                   \
    }
    STEP(tensum_context_create(&context_options, &context))
    STEP(tensum_network_parse("ij,jkk,j,li->", 4, ranks, extents, 0, NULL, NULL, &made.network))
    STEP(tensum_order(made.network, &order, context, &made.tree))
    tensum_tree_path(made.tree, path);
    if (sliced != 0) {
        STEP(tensum_tree_with_slices(made.tree, 2, EXTENTS('j', 'l'), &tree))
        tensum_tree_release(made.tree);
        made.tree = tree;
        tree = NULL;
    }
    STEP(tensum_plan_create(made.network, made.tree, &plan, &made.plan))
    STEP(tensum_program_create(made.plan, context, &program, &made.program))
    STEP(tensum_workspace_create(made.program, NULL, &made.workspace))
    long before = ts_test_fail_allocation(0);
    status = tensum_run(made.program, made.workspace, &arguments);
    long during = ts_test_fail_allocation(0);
    (void)before;
    if (status == TENSUM_OK && during != 0) {
        fail_msg("a run made %ld allocations", during);
    }
    *result = value;
done:
#undef STEP
    prepared_release(&made);
    tensum_context_release(context);
    return status;
}

/* Returns the number of allocations; -1 where the scenario cannot be had. */
static void exhaust(tensum_device device, tensum_semiring semiring, unsigned modes, int sliced)
{
    double right = 0, value = 0;
    long total = 0, refused = 0;
    if (scenario(device, 1, semiring, modes, sliced, &right) != TENSUM_OK) { /* what is made once is made now */
        fail_msg("%s", tensum_last_error());
    }
    long live = ts_test_live_allocations();
    for (long n = 1;; n++) {
        /* the run inside the scenario turns the countdown off, so a scenario that gets there is past the last allocation */
        ts_test_fail_allocation(n);
        value = 0;
        tensum_status status = scenario(device, 1, semiring, modes, sliced, &value);
        ts_test_fail_allocation(0);
        if (ts_test_live_allocations() != live) {
            fail_msg("allocation %ld fails: %ld blocks leak (%s)", n, ts_test_live_allocations() - live, tensum_last_error());
        }
        if (status == TENSUM_OK) {
            assert_true(value == right);
            total = n - 1;
            /* an allocation that something can do without may fail unnoticed; the last one is followed by nothing */
            if (n > refused + 5) {
                break;
            }
            continue;
        }
        if (status != TENSUM_STATUS_OUT_OF_MEMORY || strstr(tensum_last_error(), "memory") == NULL) {
            fail_msg("allocation %ld fails: %s, '%s'", n, tensum_status_name(status), tensum_last_error());
        }
        refused = n;
        if (n % 16 == 0) {
            assert_int_equal(scenario(device, 1, semiring, modes, sliced, &value), TENSUM_OK);
            assert_true(value == right);
        }
    }
    assert_true(total >= 20);
    assert_int_equal(ts_test_live_allocations(), live);
}

static void values(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        exhaust(device, TENSUM_SUM_PRODUCT, TENSUM_VALUE, 0);
        exhaust(device, TENSUM_MAX_PLUS, TENSUM_VALUE, 1);
        exhaust(device, TENSUM_LOG_SUM_EXP, TENSUM_VALUE, 0);
    }
}

static void gradients_and_decodes(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        exhaust(device, TENSUM_SUM_PRODUCT, TENSUM_VALUE | TENSUM_GRADIENT, 0);
        exhaust(device, TENSUM_MAX_PLUS, TENSUM_VALUE | TENSUM_GRADIENT | TENSUM_DECODE, 1);
        exhaust(device, TENSUM_MAX_TIMES, TENSUM_VALUE | TENSUM_DECODE, 0);
    }
}

/* With threads the order of allocations is not fixed; whatever fails, nothing is lost. */
static void threads(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        double right = 0, value = 0;
        assert_int_equal(scenario(device, 3, TENSUM_MAX_PLUS, TENSUM_VALUE | TENSUM_GRADIENT, 1, &right), TENSUM_OK);
        long live = ts_test_live_allocations();
        for (long n = 1; n < 120; n++) {
            ts_test_fail_allocation(n);
            tensum_status status = scenario(device, 3, TENSUM_MAX_PLUS, TENSUM_VALUE | TENSUM_GRADIENT, 1, &value);
            ts_test_fail_allocation(0);
            assert_true(status == TENSUM_STATUS_OUT_OF_MEMORY || (status == TENSUM_OK && value == right));
            assert_int_equal(ts_test_live_allocations(), live);
        }
    }
}

/* The one-call interface. */
static void einsum(void **state)
{
    (void)state;
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 2, 1, 0, 1};
    FOR_EACH_DEVICE (device) {
        float got[4];
        tensum_tensor inputs[] = {TENSOR(TENSUM_F32, a, 2, 3), TENSOR(TENSUM_F32, b, 3, 2)}, out = TENSOR(TENSUM_F32, got, 2, 2);
        inputs[0].device = inputs[1].device = out.device = device;
        tensum_context_options options = TENSUM_CONTEXT_OPTIONS_INIT;
        options.threads = 1;
        bool done = false;
        tensum_context *warm = NULL;
        assert_int_equal(tensum_context_create(&options, &warm), TENSUM_OK);
        assert_int_equal(tensum_einsum(warm, TENSUM_SUM_PRODUCT, "ij,jk->ik", 2, inputs, &out), TENSUM_OK);
        ASSERT_F32(got, {5, 5, 14, 11});
        tensum_context_release(warm);
        long live = ts_test_live_allocations(), refused = 0;
        for (long n = 1; !done; n++) {
            tensum_context *context = NULL;
            memset(got, 0, sizeof got);
            ts_test_fail_allocation(n);
            tensum_status status = tensum_context_create(&options, &context);
            if (status == TENSUM_OK) {
                status = tensum_einsum(context, TENSUM_SUM_PRODUCT, "ij,jk->ik", 2, inputs, &out);
            }
            long made = ts_test_fail_allocation(0);
            if (status == TENSUM_OK) {
                ASSERT_F32(got, {5, 5, 14, 11});
                done = made < n;
            } else {
                assert_int_equal(status, TENSUM_STATUS_OUT_OF_MEMORY);
                refused++;
                if (context != NULL) {
                    assert_int_equal(tensum_einsum(context, TENSUM_SUM_PRODUCT, "ij,jk->ik", 2, inputs, &out), TENSUM_OK);
                    ASSERT_F32(got, {5, 5, 14, 11});
                }
            }
            tensum_context_release(context);
            assert_int_equal(ts_test_live_allocations(), live);
        }
        assert_true(refused >= 10);
    }
}

/* ---- memory of the caller ---- */

typedef struct ledger {
    int allocations, releases, refuse;
    size_t bytes;
    void *last;
} ledger;

static void *lend(void *user, size_t bytes, size_t alignment, void *stream)
{
    ledger *book = user;
    assert_null(stream);
    assert_true(alignment >= 1 && (alignment & (alignment - 1)) == 0);
    if (book->refuse) {
        return NULL;
    }
    book->allocations++;
    book->bytes = bytes;
    book->last = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    memset(book->last, 0xEE, bytes);
    return book->last;
}

static void take_back(void *user, void *pointer, size_t bytes, void *stream)
{
    ledger *book = user;
    assert_null(stream);
    assert_true(pointer == book->last && bytes == book->bytes);
    book->releases++;
    free(pointer);
}

static void allocator_of_the_caller(void **state)
{
    (void)state;
    const double a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
    FOR_EACH_DEVICE (device) {
        double got[4], da[4];
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, 2, 2), TENSOR(TENSUM_F64, b, 2, 2), TENSOR(TENSUM_F64, a, 2, 2)}, out = TENSOR(TENSUM_F64, got, 2, 2);
        tensum_tensor gradients[] = {TENSOR(TENSUM_F64, da, 2, 2), inputs[1], inputs[2]};
        gradients[1].data = gradients[2].data = NULL;
        contraction job = {.expression = "ij,jk,kl->il", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F64, .operands = inputs, .operand_count = 3, .output = &out, .gradients = gradients};
        prepared made;
        tensum_run_arguments arguments;
        tensum_workspace_options options = TENSUM_WORKSPACE_OPTIONS_INIT;
        ledger book = {0, 0, 0, 0, NULL};
        const tensum_allocator allocator = {lend, take_back, &book};
        assert_int_equal(job_prepare(&job, device, &made), TENSUM_OK);
        tensum_workspace_release(made.workspace);
        made.workspace = NULL;
        options.allocator = &allocator;
        book.refuse = 1;
        long live = ts_test_live_allocations();
        assert_int_equal(tensum_workspace_create(made.program, &options, &made.workspace), TENSUM_STATUS_OUT_OF_MEMORY);
        assert_null(made.workspace);
        assert_int_equal(ts_test_live_allocations(), live);
        book.refuse = 0;
        assert_int_equal(tensum_workspace_create(made.program, &options, &made.workspace), TENSUM_OK);
        assert_int_equal(book.allocations, 1);
        assert_true(book.bytes >= tensum_program_workspace_bytes(made.program));
        job_arguments(&job, &arguments);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(tensum_run(made.program, made.workspace, &arguments), TENSUM_OK);
            ASSERT_F64(got, {85, 126, 193, 286}); /* [[19 22] [43 50]] times a */
            ASSERT_F64(da, {57, 77, 57, 77});     /* row sums of [[23 34] [31 46]] */
        }
        assert_int_equal(book.allocations, 1);
        prepared_release(&made);
        assert_int_equal(book.releases, 1);
        /* memory that is not aligned is refused, as is half an allocator */
        assert_int_equal(job_prepare(&job, device, &made), TENSUM_OK);
        tensum_workspace_release(made.workspace);
        made.workspace = NULL;
        options.allocator = NULL;
        options.memory = (void *)((uintptr_t)1 << 20 | 8);
        assert_int_equal(tensum_workspace_create(made.program, &options, &made.workspace), TENSUM_STATUS_INVALID_ARGUMENT);
        const tensum_allocator half = {lend, NULL, &book};
        options.memory = NULL;
        options.allocator = &half;
        assert_int_equal(tensum_workspace_create(made.program, &options, &made.workspace), TENSUM_STATUS_INVALID_ARGUMENT);
        prepared_release(&made);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(gradients_and_decodes),
        cmocka_unit_test(threads),
        cmocka_unit_test(einsum),
        cmocka_unit_test(allocator_of_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
