/* Runs that differ from the last in nothing but the addresses of their tensors: a short run's graph carries them itself.
 * Several are under way at a time, each with tensors of its own. */
#include <simcuda/machine.h>

enum { ROWS = 5, TERMS = 6, COLUMNS = 4, SETS = 3 };
enum { A = ROWS * TERMS, B = TERMS * COLUMNS, C = ROWS * COLUMNS };

/* Tensors of one run, on the device and as they should be. */
typedef struct set {
    float a[A], b[B], value[C], cotangent[C], slope_a[A], slope_b[B];
    int32_t winners[C];
    uint64_t memory, at_a, at_b, at_value, at_winners, at_cotangent, at_slope_a, at_slope_b;
} set;

static float combine(tensum_semiring semiring, float x, float y) { return semiring == TENSUM_MAX_TIMES ? x * y : x + y; }

/* What the library should find: the first of the largest terms, and the cotangent where it came from. */
static void work_out(set *s, tensum_semiring semiring)
{
    memset(s->slope_a, 0, sizeof s->slope_a);
    memset(s->slope_b, 0, sizeof s->slope_b);
    for (int c = 0; c < C; c++) {
        const int i = c / COLUMNS, k = c % COLUMNS;
        int won = 0;
        for (int j = 1; j < TERMS; j++) {
            if (combine(semiring, s->a[i * TERMS + j], s->b[j * COLUMNS + k]) >
                combine(semiring, s->a[i * TERMS + won], s->b[won * COLUMNS + k])) {
                won = j;
            }
        }
        s->value[c] = combine(semiring, s->a[i * TERMS + won], s->b[won * COLUMNS + k]);
        s->winners[c] = won;
        s->slope_a[i * TERMS + won] += s->cotangent[c] * (semiring == TENSUM_MAX_TIMES ? s->b[won * COLUMNS + k] : 1);
        s->slope_b[won * COLUMNS + k] += s->cotangent[c] * (semiring == TENSUM_MAX_TIMES ? s->a[i * TERMS + won] : 1);
    }
}

static void make(set *s, int seed, tensum_semiring semiring)
{
    for (int i = 0; i < A; i++) {
        s->a[i] = (float)((i * 7 + seed * 3) % 11);
    }
    for (int i = 0; i < B; i++) {
        s->b[i] = (float)((i * 5 + seed * 4) % 13);
    }
    for (int i = 0; i < C; i++) {
        s->cotangent[i] = (float)((i * 3 + seed) % 7 - 3);
    }
    work_out(s, semiring);
    s->memory = device_allocate(0, 4096);
    s->at_a = s->memory;
    s->at_b = s->memory + 512;
    s->at_value = s->memory + 1024;
    s->at_winners = s->memory + 1536;
    s->at_cotangent = s->memory + 2048;
    s->at_slope_a = s->memory + 2560;
    s->at_slope_b = s->memory + 3072;
    device_write(s->at_a, s->a, sizeof s->a);
    device_write(s->at_b, s->b, sizeof s->b);
    device_write(s->at_cotangent, s->cotangent, sizeof s->cotangent);
}

static void expect(uint64_t address, const void *wanted, size_t bytes)
{
    char found[512];
    device_read(found, address, bytes);
    assert_memory_equal(found, wanted, bytes);
}

static tensum_plan *product(tensum_semiring semiring)
{
    static const int32_t ranks[] = {2, 2};
    static const int64_t left[] = {ROWS, TERMS}, right[] = {TERMS, COLUMNS}, *extents[] = {left, right};
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    tensum_plan *plan = NULL;

    succeeds(tensum_network_parse("ij,jk->ik", 2, ranks, extents, 0, NULL, NULL, &network));
    succeeds(tensum_order(network, NULL, NULL, &tree));
    options.semiring = semiring;
    options.dtype = TENSUM_F32;
    succeeds(tensum_plan_create(network, tree, &options, &plan));
    tensum_tree_release(tree);
    tensum_network_release(network);
    return plan;
}

/* Addresses of the sets in turn. */
typedef enum purpose { VALUES, WINNERS, GRADIENTS } purpose;
static void in_turn(tensum_semiring semiring, purpose kind)
{
    static const int order[] = {0, 0, 0, 1, 2, 1, 1, 0, 2, 2, 0};
    static const int64_t shape_a[] = {ROWS, TERMS}, shape_b[] = {TERMS, COLUMNS}, shape_c[] = {ROWS, COLUMNS};
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_plan *plan = product(semiring);
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    tensum_device_counters counts;
    set *sets = calloc(SETS, sizeof *sets);

    options.device = cuda0;
    options.modes = kind == GRADIENTS ? TENSUM_GRADIENT : kind == WINNERS ? TENSUM_VALUE | TENSUM_WINNERS : TENSUM_VALUE;
    options.saved = kind == GRADIENTS;
    succeeds(tensum_program_create(plan, NULL, &options, &program));
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    for (int i = 0; i < SETS; i++) {
        make(&sets[i], i, semiring);
        if (kind == GRADIENTS) {
            device_write(sets[i].at_winners, sets[i].winners, sizeof sets[i].winners);
        }
    }
    for (size_t n = 0; n < sizeof order / sizeof order[0]; n++) {
        const set *s = &sets[order[n]];
        tensum_tensor inputs[] = {{(void *)(uintptr_t)s->at_a, TENSUM_F32, 2, shape_a, NULL, cuda0},
                                  {(void *)(uintptr_t)s->at_b, TENSUM_F32, 2, shape_b, NULL, cuda0}};
        tensum_tensor slopes[] = {{(void *)(uintptr_t)s->at_slope_a, TENSUM_F32, 2, shape_a, NULL, cuda0},
                                  {(void *)(uintptr_t)s->at_slope_b, TENSUM_F32, 2, shape_b, NULL, cuda0}};
        tensum_tensor value = {(void *)(uintptr_t)s->at_value, TENSUM_F32, 2, shape_c, NULL, cuda0};
        tensum_tensor winners = {(void *)(uintptr_t)s->at_winners, TENSUM_I32, 2, shape_c, NULL, cuda0};
        tensum_tensor cotangent = {(void *)(uintptr_t)s->at_cotangent, TENSUM_F32, 2, shape_c, NULL, cuda0};
        run.inputs = inputs;
        run.output = kind == GRADIENTS ? NULL : &value;
        run.winners = kind == VALUES ? NULL : &winners;
        run.cotangent = kind == GRADIENTS ? &cotangent : NULL;
        run.gradients = kind == GRADIENTS ? slopes : NULL;
        reset_counts();
        succeeds(tensum_run(program, workspace, &run));
        read_counts(&counts);
        assert_int_equal((n > 0 ? counts.uploads : 0) + counts.downloads + counts.synchronisations + counts.allocations, 0);
        assert_int_equal(counts.graph_launches, n > 0);
        /* Nothing but the graph, whatever the addresses; those that a check of domains reads are in the pointer table. */
        assert_true(n == 0 || counts.launches == 0 || (counts.launches == 1 && semiring == TENSUM_MAX_TIMES));
        if (n == 2) { /* the next three runs are all under way before anybody looks */
            succeeds(tensum_synchronize(cuda0, NULL));
            for (int i = 1; i < SETS; i++) {
                float nothing[C] = {0};
                device_write(sets[i].at_value, nothing, kind == GRADIENTS ? 0 : sizeof nothing);
            }
        }
    }
    succeeds(tensum_synchronize(cuda0, NULL));
    for (int i = 0; i < SETS; i++) {
        if (kind == GRADIENTS) {
            expect(sets[i].at_slope_a, sets[i].slope_a, sizeof sets[i].slope_a);
            expect(sets[i].at_slope_b, sets[i].slope_b, sizeof sets[i].slope_b);
        } else {
            expect(sets[i].at_value, sets[i].value, sizeof sets[i].value);
        }
        if (kind == WINNERS) {
            expect(sets[i].at_winners, sets[i].winners, sizeof sets[i].winners);
        }
        device_release(0, sets[i].memory);
    }
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    tensum_plan_release(plan);
    free(sets);
    no_fault();
}

static void values(void **state)
{
    (void)state;
    in_turn(TENSUM_MAX_PLUS, VALUES);
    in_turn(TENSUM_MAX_TIMES, VALUES);
}

static void values_and_winners(void **state)
{
    (void)state;
    in_turn(TENSUM_MAX_PLUS, WINNERS);
    in_turn(TENSUM_MAX_TIMES, WINNERS);
}

static void gradients_of_saved_results(void **state)
{
    (void)state;
    in_turn(TENSUM_MAX_PLUS, GRADIENTS);
    in_turn(TENSUM_MAX_TIMES, GRADIENTS);
}

/* An address in the graph, then in a caller's capture, then in the graph again: each sees its own. */
static void beside_a_capture(void **state)
{
    static const int64_t shape_a[] = {ROWS, TERMS}, shape_b[] = {TERMS, COLUMNS}, shape_c[] = {ROWS, COLUMNS};
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_plan *plan = product(TENSUM_MAX_PLUS);
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    tensum_workspace_options place = TENSUM_WORKSPACE_OPTIONS_INIT;
    set *sets = calloc(SETS, sizeof *sets);
    tensum_tensor inputs[2], value;
    void *stream = stream_create(1), *exec;
    static const float nothing[C] = {0};

    (void)state;
    options.device = cuda0;
    place.stream = run.stream = stream;
    succeeds(tensum_program_create(plan, NULL, &options, &program));
    succeeds(tensum_workspace_create(program, &place, &workspace));
    run.inputs = inputs;
    run.output = &value;
#define TAKE(s)                                                                                          \
    (inputs[0] = (tensum_tensor){(void *)(uintptr_t)(s).at_a, TENSUM_F32, 2, shape_a, NULL, cuda0},      \
     inputs[1] = (tensum_tensor){(void *)(uintptr_t)(s).at_b, TENSUM_F32, 2, shape_b, NULL, cuda0},      \
     value = (tensum_tensor){(void *)(uintptr_t)(s).at_value, TENSUM_F32, 2, shape_c, NULL, cuda0})
    for (int i = 0; i < SETS; i++) {
        make(&sets[i], i, TENSUM_MAX_PLUS);
    }
    for (int n = 0; n < 3; n++) {
        TAKE(sets[n == 2]);
        succeeds(tensum_run(program, workspace, &run));
    }
    TAKE(sets[2]);
    capture_begin(stream);
    succeeds(tensum_run(program, workspace, &run));
    exec = capture_end(stream);
    assert_non_null(exec);
    TAKE(sets[0]);
    succeeds(tensum_run(program, workspace, &run));
    capture_launch(exec, stream);
    succeeds(tensum_synchronize(cuda0, stream));
    for (int i = 0; i < SETS; i++) {
        expect(sets[i].at_value, sets[i].value, sizeof sets[i].value);
        device_write(sets[i].at_value, nothing, sizeof nothing);
    }
    /* What is combined with the output goes by the table again. */
    TAKE(sets[1]);
    succeeds(tensum_run(program, workspace, &run));
    run.accumulate = 1;
    inputs[0].data = (void *)(uintptr_t)sets[0].at_a;
    inputs[1].data = (void *)(uintptr_t)sets[0].at_b;
    succeeds(tensum_run(program, workspace, &run));
    run.accumulate = 0;
    TAKE(sets[0]);
    succeeds(tensum_run(program, workspace, &run));
    succeeds(tensum_synchronize(cuda0, stream));
    for (int c = 0; c < C; c++) {
        const float x = sets[0].value[c], y = sets[1].value[c];
        sets[1].value[c] = x > y ? x : y;
    }
    for (int i = 0; i < 2; i++) {
        expect(sets[i].at_value, sets[i].value, sizeof sets[i].value);
    }
    expect(sets[2].at_value, nothing, sizeof nothing);
    capture_free(exec);
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    tensum_plan_release(plan);
    for (int i = 0; i < SETS; i++) {
        device_release(0, sets[i].memory);
    }
    stream_destroy(stream);
    free(sets);
    no_fault();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(values_and_winners),
                                       cmocka_unit_test(gradients_of_saved_results), cmocka_unit_test(beside_a_capture)};
    const int answer = machine_open();
    return answer != 0 ? answer : cmocka_run_group_tests(tests, NULL, NULL);
}
