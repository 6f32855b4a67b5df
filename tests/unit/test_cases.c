/* Small inputs that broke other systems, with the right values. */
#include "support.h"

/* ---- parsing, labels, broadcasting ---- */

static void label_summed_in_one_operand_only(void **state)
{
    (void)state;
    double a[64], expected[2][2][4];
    for (int i = 0; i < 64; i++) {
        a[i] = i;
    }
    for (int i = 0; i < 2; i++) {
        for (int o = 0; o < 2; o++) {
            for (int j = 0; j < 4; j++) {
                expected[i][o][j] = 0;
                for (int b = 0; b < 4; b++) {
                    for (int k = 0; k < 8; k++) {
                        expected[i][o][j] += a[(o * 4 + b) * 8 + k] * a[(i * 4 + j) * 8 + k];
                    }
                }
            }
        }
    }
    assert_true(expected[0][0][0] == 1904 && expected[0][0][1] == 5872 && expected[0][0][2] == 9840 && expected[0][0][3] == 13808);
    FOR_EACH_DEVICE (device) {
        for (int swap = 0; swap < 2; swap++) {
            double got[16];
            const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, 2, 4, 8), TENSOR(TENSUM_F64, a, 2, 4, 8)}, out = TENSOR(TENSUM_F64, got, 2, 2, 4);
            contraction job = {.expression = "obk,ijk->ioj", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F64, .operands = inputs, .operand_count = 2, .output = &out,
                               .step_count = 1, .children = swap != 0 ? EXTENTS(1, 0) : EXTENTS(0, 1)};
            RUN(&job, device);
            equal_f64(got, &expected[0][0][0], 16, __FILE__, __LINE__);
        }
    }
}

static void named_label_of_size_one(void **state)
{
    (void)state;
    float x[20], y[2] = {1, 1};
    for (int i = 0; i < 20; i++) {
        x[i] = 1;
    }
    FOR_EACH_DEVICE (device) {
        float got[10];
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, x, 10, 2), TENSOR(TENSUM_F32, y, 1, 2)}, out = TENSOR(TENSUM_F32, got, 10);
        contraction job = {.expression = "t...i,ti->t...", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 2, .output = &out};
        RUN(&job, device);
        ASSERT_F32(got, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2});
    }
}

static void ellipsis_left_out_of_the_output(void **state)
{
    (void)state;
    float x[27];
    for (int i = 0; i < 27; i++) {
        x[i] = 1;
    }
    FOR_EACH_DEVICE (device) {
        float got[3];
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, x, 3, 3, 3)}, out = TENSOR(TENSUM_F32, got, 3);
        contraction job = {.expression = "i...->i", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 1, .output = &out};
        RUN(&job, device);
        ASSERT_F32(got, {9, 9, 9});
    }
}

static void two_diagonals_and_a_sum(void **state)
{
    (void)state;
    double a[288], total = 0;
    for (int i = 0; i < 288; i++) {
        a[i] = i;
    }
    FOR_EACH_DEVICE (device) {
        double got[12];
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, 2, 3, 3, 4, 4)}, out = TENSOR(TENSUM_F64, got, 3, 4);
        contraction job = {.expression = "tiijj->ij", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F64, .operands = inputs, .operand_count = 1, .output = &out};
        RUN(&job, device);
        total = 0;
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 4; j++) {
                /* a[t][i][i][j][j] = 144 t + 64 i + 5 j, t = 0, 1 */
                assert_true(got[i * 4 + j] == 144 + 2 * (64 * i + 5 * j));
                total += got[i * 4 + j];
            }
        }
        assert_true(total == 3444);
    }
}

/* ---- networks given as lists ---- */

typedef struct listed {
    int64_t count;
    int32_t *ranks;
    int64_t (*labels)[2], (*extents)[2];
    const int64_t **label_lists, **extent_lists;
    tensum_tensor *tensors;
} listed;

static listed listed_create(int64_t count)
{
    listed made;
    size_t n = (size_t)count;
    made.count = count;
    made.ranks = malloc(n * sizeof *made.ranks);
    made.labels = malloc(n * sizeof *made.labels);
    made.extents = malloc(n * sizeof *made.extents);
    made.label_lists = malloc(n * sizeof *made.label_lists);
    made.extent_lists = malloc(n * sizeof *made.extent_lists);
    made.tensors = malloc(n * sizeof *made.tensors);
    return made;
}

static void listed_free(listed *made)
{
    free(made->ranks);
    free(made->labels);
    free(made->extents);
    free((void *)made->label_lists);
    free((void *)made->extent_lists);
    free(made->tensors);
}

static void listed_set(listed *made, int64_t i, tensum_dtype dtype, const void *data, int32_t rank, int64_t first, int64_t second, int64_t extent)
{
    made->ranks[i] = rank;
    made->labels[i][0] = first;
    made->labels[i][1] = second;
    made->extents[i][0] = made->extents[i][1] = extent;
    made->label_lists[i] = made->labels[i];
    made->extent_lists[i] = made->extents[i];
    made->tensors[i] = (tensum_tensor){(void *)(uintptr_t)data, dtype, rank, made->extents[i], NULL, {TENSUM_CPU, 0}};
}

static void listed_run(const listed *network, tensum_semiring semiring, tensum_dtype dtype, const int64_t *output_labels, const tensum_tensor *output,
                       const tensum_tensor *gradients, int64_t *assignment, double order_memory, tensum_device device)
{
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    tensum_plan_options plan = TENSUM_PLAN_OPTIONS_INIT;
    tensum_program_options program = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
    prepared made;
    memset(&made, 0, sizeof made);
    spec.operand_count = network->count;
    spec.ranks = network->ranks;
    spec.labels = network->label_lists;
    spec.extents = network->extent_lists;
    spec.output_rank = output->rank;
    spec.output_labels = output_labels;
    order.memory_limit = order_memory;
    order.work = 0.05;
    plan.semiring = semiring;
    plan.dtype = dtype;
    program.modes = TENSUM_VALUE | (gradients != NULL ? TENSUM_GRADIENT : 0u) | (assignment != NULL ? TENSUM_DECODE : 0u);
    program.device = device;
    arguments.inputs = network->tensors;
    arguments.output = output;
    arguments.gradients = gradients;
    arguments.assignments = assignment;
    arguments.position_count = assignment != NULL;
    if (tensum_network_create(&spec, &made.network) != TENSUM_OK || tensum_order(made.network, &order, NULL, &made.tree) != TENSUM_OK ||
        tensum_plan_create(made.network, made.tree, &plan, &made.plan) != TENSUM_OK ||
        tensum_program_create(made.plan, NULL, &program, &made.program) != TENSUM_OK ||
        tensum_workspace_create(made.program, NULL, &made.workspace) != TENSUM_OK || tensum_run(made.program, made.workspace, &arguments) != TENSUM_OK) {
        fail_msg("%s", tensum_last_error());
    }
    prepared_release(&made);
}

/* 60 matrices, 61 labels; also with a memory limit on the order. */
static void more_labels_than_letters(void **state)
{
    (void)state;
    enum { N = 60 };
    const double shear[] = {1, 1, 0, 1};
    const int64_t output[] = {0, N};
    listed network = listed_create(N);
    for (int i = 0; i < N; i++) {
        listed_set(&network, i, TENSUM_F64, shear, 2, i, i + 1, 2);
    }
    FOR_EACH_DEVICE (device) {
        double got[4];
        const tensum_tensor out = TENSOR(TENSUM_F64, got, 2, 2);
        listed_run(&network, TENSUM_SUM_PRODUCT, TENSUM_F64, output, &out, NULL, NULL, 0, device);
        ASSERT_F64(got, {1, N, 0, 1});
        listed_run(&network, TENSUM_SUM_PRODUCT, TENSUM_F64, output, &out, NULL, NULL, 64, device);
        ASSERT_F64(got, {1, N, 0, 1});
    }
    listed_free(&network);
}

/* The gradient of a chain of hundreds of operands. */
static void gradient_of_many_operands(void **state)
{
    (void)state;
    enum { N = 300 };
    const double shear[] = {1, 1, 0, 1};
    listed network = listed_create(N);
    double *grads = malloc(sizeof(double) * 4 * N);
    tensum_tensor *gradients = malloc(sizeof(tensum_tensor) * N);
    for (int i = 0; i < N; i++) {
        listed_set(&network, i, TENSUM_F64, shear, 2, i, i + 1, 2);
        gradients[i] = network.tensors[i];
        gradients[i].data = grads + 4 * i;
    }
    FOR_EACH_DEVICE (device) {
        double got = 0;
        const tensum_tensor out = SCALAR(TENSUM_F64, &got);
        listed_run(&network, TENSUM_SUM_PRODUCT, TENSUM_F64, NULL, &out, gradients, NULL, 0, device);
        assert_true(got == N + 2);
        for (int t = 0; t < N; t++) { /* column sums of what is left of it times row sums of what is right of it */
            const double expected[] = {N - t, 1, (double)(t + 1) * (N - t), t + 1};
            equal_f64(grads + 4 * t, expected, 4, __FILE__, __LINE__);
        }
    }
    listed_free(&network);
    free(grads);
    free(gradients);
}

/* More labels than 16 bits number. */
static void seventy_thousand_labels(void **state)
{
    (void)state;
    enum { N = 70000 };
    const int32_t step[] = {0, 1, -1073741823, 0}, end[] = {0, 0};
    listed network = listed_create(N + 2);
    listed_set(&network, 0, TENSUM_I32, end, 1, 0, 0, 2);
    for (int i = 0; i < N; i++) {
        listed_set(&network, i + 1, TENSUM_I32, step, 2, i, i + 1, 2);
    }
    listed_set(&network, N + 1, TENSUM_I32, end, 1, N, 0, 2);
    FOR_EACH_DEVICE (device) { /* one step from 0 to 1 somewhere earns 1, and there is no way back */
        int32_t got = 0;
        const tensum_tensor out = SCALAR(TENSUM_I32, &got);
        listed_run(&network, TENSUM_MAX_PLUS, TENSUM_I32, NULL, &out, NULL, NULL, 0, device);
        assert_int_equal(got, 1);
    }
    listed_free(&network);
}

static void thousands_of_components(void **state)
{
    (void)state;
    enum { N = 2500 };
    const double scalar[] = {1.0}, edge[] = {0.25, 0.25, 0.25, 0.25};
    listed network = listed_create(2 * N);
    for (int i = 0; i < N; i++) {
        listed_set(&network, 2 * i, TENSUM_F64, edge, 2, 2 * i, 2 * i + 1, 2);
        listed_set(&network, 2 * i + 1, TENSUM_F64, scalar, 0, 0, 0, 1);
    }
    FOR_EACH_DEVICE (device) {
        double got = 0;
        const tensum_tensor out = SCALAR(TENSUM_F64, &got);
        listed_run(&network, TENSUM_SUM_PRODUCT, TENSUM_F64, NULL, &out, NULL, NULL, 0, device);
        assert_true(got == 1.0);
    }
    listed_free(&network);
}

/* The largest independent set of a 10x10 grid has 50 vertices; all 100 labels are decoded. */
static void assignments_beyond_sixty_four(void **state)
{
    (void)state;
    enum { SIDE = 10, VERTICES = SIDE * SIDE, EDGES = 2 * SIDE * (SIDE - 1) };
    const float vertex[] = {0, 1}, edge[] = {0, 0, 0, -INFINITY};
    listed network = listed_create(VERTICES + EDGES);
    int64_t next = VERTICES;
    for (int64_t v = 0; v < VERTICES; v++) {
        listed_set(&network, v, TENSUM_F32, vertex, 1, v, 0, 2);
        if (v % SIDE < SIDE - 1) {
            listed_set(&network, next++, TENSUM_F32, edge, 2, v, v + 1, 2);
        }
        if (v / SIDE < SIDE - 1) {
            listed_set(&network, next++, TENSUM_F32, edge, 2, v, v + SIDE, 2);
        }
    }
    assert_int_equal(next, VERTICES + EDGES);
    FOR_EACH_DEVICE (device) {
        float got = 0;
        int64_t assignment[VERTICES], size = 0;
        const tensum_tensor out = SCALAR(TENSUM_F32, &got);
        listed_run(&network, TENSUM_MAX_PLUS, TENSUM_F32, NULL, &out, NULL, assignment, 0, device);
        assert_true(got == 50);
        for (int v = 0; v < VERTICES; v++) {
            size += assignment[v];
            assert_false(v % SIDE < SIDE - 1 && assignment[v] == 1 && assignment[v + 1] == 1);
            assert_false(v / SIDE < SIDE - 1 && assignment[v] == 1 && assignment[v + SIDE] == 1);
        }
        assert_int_equal(size, 50);
    }
    listed_free(&network);
}

/* ---- orders, slices, paths ---- */

static void hyperedges(void **state)
{
    (void)state;
    const double a[] = {1, 2, 3, 4}, b[] = {10, 100};
    const int64_t trees[3][4] = {{0, 1, 3, 2}, {1, 2, 0, 3}, {2, 0, 3, 1}};
    FOR_EACH_DEVICE (device) {
        for (int t = 0; t < 4; t++) {
            for (int sliced = 0; sliced < 2; sliced++) {
                double got[4];
                const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, 2, 2), TENSOR(TENSUM_F64, b, 2), TENSOR(TENSUM_F64, a, 2, 2)}, out = TENSOR(TENSUM_F64, got, 2, 2);
                contraction job = {.expression = "ij,j,jk->ik", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F64, .operands = inputs, .operand_count = 3, .output = &out,
                                   .step_count = t < 3 ? 2 : 0, .children = t < 3 ? trees[t] : NULL, .slice_count = sliced, .slices = EXTENTS('j')};
                RUN(&job, device);
                ASSERT_F64(got, {610, 820, 1230, 1660});
            }
        }
    }
}

static void a_step_of_three(void **state)
{
    (void)state;
    const double a[] = {1, 2, 3};
    FOR_EACH_DEVICE (device) {
        double got = 0;
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, 3), TENSOR(TENSUM_F64, a, 3), TENSOR(TENSUM_F64, a, 3)}, out = SCALAR(TENSUM_F64, &got);
        contraction job = {.expression = "a,a,a->", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F64, .operands = inputs, .operand_count = 3, .output = &out, .step_count = 1,
                           .offsets = EXTENTS(0, 3), .children = EXTENTS(0, 1, 2)};
        RUN(&job, device);
        assert_true(got == 36);
    }
}

static void slicing_a_label_of_one_tensor(void **state)
{
    (void)state;
    const double a[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8};
    static const int64_t labels[] = {'x', 'y', 'z'};
    FOR_EACH_DEVICE (device) {
        for (int l = 0; l < 3; l++) {
            double got[2];
            /* x only in the first, y shared, z only in the output */
            const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, 3, 2), TENSOR(TENSUM_F64, b, 2)}, out = TENSOR(TENSUM_F64, got, 2);
            contraction job = {.expression = "xy,y->z", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F64, .operands = inputs, .operand_count = 2, .output = &out,
                               .size_count = 1, .size_labels = EXTENTS('z'), .size_extents = EXTENTS(2), .slice_count = 1, .slices = &labels[l]};
            RUN(&job, device);
            ASSERT_F64(got, {159, 159}); /* 9*7 + 12*8 */
        }
    }
}

static void the_cheapest_first_pair(void **state)
{
    (void)state;
    const int32_t ranks[] = {3, 3, 2};
    const int64_t a[] = {64, 8, 4096}, b[] = {64, 4096, 128}, c[] = {64, 4096};
    const int64_t *extents[] = {a, b, c};
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    tensum_order_options options = TENSUM_ORDER_OPTIONS_INIT;
    const int64_t *offsets, *children;
    options.minimize = "flops";
    assert_int_equal(tensum_network_parse("bgk,bkd,bk->bgd", 3, ranks, extents, 0, NULL, NULL, &network), TENSUM_OK);
    assert_int_equal(tensum_order(network, &options, NULL, &tree), TENSUM_OK);
    tensum_tree_steps(tree, &offsets, &children);
    assert_int_equal(tensum_tree_step_count(tree), 2);
    assert_true((children[0] == 0 && children[1] == 2) || (children[0] == 2 && children[1] == 0));
    tensum_tree_release(tree);
    tensum_network_release(network);
}

/* A memory limit that cannot be met is refused, with the bytes that would be needed; one that can be met is kept. */
static void memory_limits(void **state)
{
    (void)state;
    const int32_t ranks[] = {2, 2, 2};
    const int64_t square[] = {100, 100};
    const int64_t *extents[] = {square, square, square};
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    tensum_plan *plan = NULL;
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_cost cost = TENSUM_COST_INIT;
    assert_int_equal(tensum_network_parse("ij,jk,kl->il", 3, ranks, extents, 0, NULL, NULL, &network), TENSUM_OK);
    assert_int_equal(tensum_tree_from_ssa(3, 2, EXTENTS(0, 2, 4), EXTENTS(0, 1, 3, 2), &tree), TENSUM_OK);
    options.memory_limit = 39999; /* the intermediate has 40000 bytes in f32 */
    assert_int_equal(tensum_plan_create(network, tree, &options, &plan), TENSUM_STATUS_MEMORY_LIMIT);
    assert_null(plan);
    assert_non_null(strstr(tensum_last_error(), "40"));
    options.memory_limit = 40960;
    assert_int_equal(tensum_plan_create(network, tree, &options, &plan), TENSUM_OK);
    assert_int_equal(tensum_plan_cost(plan, &cost), TENSUM_OK);
    assert_true(cost.peak_bytes_value >= 40000 && cost.peak_bytes_value <= 40960);
    assert_true(cost.peak_bytes_gradient > cost.peak_bytes_value);
    assert_true(fabs(cost.tc - log2(2e6)) < 1e-9);
    assert_true(fabs(cost.sc - log2(1e4)) < 1e-9);
    assert_true(fabs(cost.rw - log2(6e4)) < 1e-9);
    tensum_plan_release(plan);
    tensum_tree_release(tree);
    tensum_network_release(network);
}

/* ---- memory, strides, dtypes ---- */

static void strided_output(void **state)
{
    (void)state;
    const float ones[] = {1, 1, 1, 1};
    FOR_EACH_DEVICE (device) {
        float block[8] = {0};
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, ones, 2, 2), TENSOR(TENSUM_F32, ones, 2, 2)};
        const tensum_tensor out = {block, TENSUM_F32, 2, EXTENTS(2, 2), EXTENTS(4, 2), {TENSUM_CPU, 0}};
        contraction job = {.expression = "ij,jk->ik", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 2, .output = &out};
        RUN(&job, device);
        ASSERT_F32(block, {2, 0, 2, 0, 2, 0, 2, 0});
    }
}

static void small_boolean_batches(void **state)
{
    (void)state;
    const uint8_t ones[] = {1, 1};
    FOR_EACH_DEVICE (device) {
        uint8_t got[2] = {0, 0};
        const tensum_tensor inputs[] = {TENSOR(TENSUM_BOOL, ones, 2, 1, 1), TENSOR(TENSUM_BOOL, ones, 2, 1, 1)}, out = TENSOR(TENSUM_BOOL, got, 2, 1, 1);
        contraction job = {.expression = "...ij,...jk->...ik", .semiring = TENSUM_OR_AND, .dtype = TENSUM_BOOL, .operands = inputs, .operand_count = 2, .output = &out};
        RUN(&job, device);
        assert_int_equal(got[0], 1);
        assert_int_equal(got[1], 1);
    }
}

static void integer_sums(void **state)
{
    (void)state;
    int32_t i32[9];
    int16_t i16[9];
    for (int i = 0; i < 9; i++) {
        i32[i] = 65535;
        i16[i] = 32767;
    }
    FOR_EACH_DEVICE (device) {
        int32_t got32 = 0;
        int16_t got16 = 0;
        const tensum_tensor wide[] = {TENSOR(TENSUM_I32, i32, 9)}, narrow[] = {TENSOR(TENSUM_I16, i16, 9)}, out32 = SCALAR(TENSUM_I32, &got32), out16 = SCALAR(TENSUM_I16, &got16);
        contraction job = {.expression = "i->", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_I32, .operands = wide, .operand_count = 1, .output = &out32};
        RUN(&job, device);
        assert_int_equal(got32, 589815);
        job.dtype = TENSUM_I16;
        job.operands = narrow;
        job.output = &out16;
        RUN(&job, device);
        assert_int_equal(got16, 32759); /* 294903 modulo 65536, as documented */
    }
}

static void full_precision(void **state)
{
    (void)state;
    enum { B = 2, T = 2, D = 10, A = 8, R = 4 };
    float x[B * T * D], y[A * D * R];
    for (int i = 0; i < B * T * D; i++) {
        x[i] = (float)i;
    }
    for (int i = 0; i < A * D * R; i++) {
        y[i] = (float)i;
    }
    FOR_EACH_DEVICE (device) {
        float got[B * R * T * A];
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, x, B, T, D), TENSOR(TENSUM_F32, y, A, D, R)}, out = TENSOR(TENSUM_F32, got, B, R, T, A);
        contraction job = {.expression = "btd,adr->brta", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 2, .output = &out};
        RUN(&job, device);
        for (int b = 0; b < B; b++) {
            for (int r = 0; r < R; r++) {
                for (int t = 0; t < T; t++) {
                    for (int a = 0; a < A; a++) {
                        long sum = 0;
                        for (int d = 0; d < D; d++) {
                            sum += (long)((b * T + t) * D + d) * ((a * D + d) * R + r);
                        }
                        assert_true(got[((b * R + r) * T + t) * A + a] == (float)sum);
                    }
                }
            }
        }
        assert_true(got[0] == 1140 && got[B * R * T * A - 1] == 104175);
    }
}

static void infinity_stays_where_it_is(void **state)
{
    (void)state;
    const float a[] = {INFINITY, 1, 2, 3}, b[] = {1, 2, 3, 4};
    FOR_EACH_DEVICE (device) {
        float got[4];
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, a, 2, 2), TENSOR(TENSUM_F32, b, 2, 2)}, out = TENSOR(TENSUM_F32, got, 2, 2);
        contraction job = {.expression = "ij,jk->ik", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 2, .output = &out};
        RUN(&job, device);
        ASSERT_F32(got, {INFINITY, INFINITY, 11, 16});
    }
}

static void zero_strides(void **state)
{
    (void)state;
    const float a[] = {1, 2, 3}, b[] = {1, 0, 2, 3, 1, 1};
    FOR_EACH_DEVICE (device) {
        for (int rows = 1; rows < 4; rows += 2) { /* one row, and one row three times */
            float got[6];
            const int64_t shape[] = {rows, 3};
            const tensum_tensor inputs[] = {{(void *)(uintptr_t)a, TENSUM_F32, 2, shape, EXTENTS(0, 1), {TENSUM_CPU, 0}}, TENSOR(TENSUM_F32, b, 2, 3)}, out = TENSOR(TENSUM_F32, got, rows, 2);
            contraction job = {.expression = "mn,ln->ml", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 2, .output = &out};
            RUN(&job, device);
            for (int m = 0; m < rows; m++) {
                assert_true(got[2 * m] == 7 && got[2 * m + 1] == 8);
            }
        }
    }
}

static void to_a_scalar_and_to_a_vector(void **state)
{
    (void)state;
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 1, 1, 2, 2, 2}, v[] = {1, 0, -1};
    FOR_EACH_DEVICE (device) {
        float got[2];
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, a, 2, 3), TENSOR(TENSUM_F32, b, 2, 3)}, scalar = SCALAR(TENSUM_F32, got);
        contraction job = {.expression = "ij,ij->", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 2, .output = &scalar};
        RUN(&job, device);
        assert_true(got[0] == 36);
        const tensum_tensor matrix[] = {inputs[0], TENSOR(TENSUM_F32, v, 3)}, vector = TENSOR(TENSUM_F32, got, 2);
        job.expression = "ij,j->i";
        job.operands = matrix;
        job.output = &vector;
        RUN(&job, device);
        ASSERT_F32(got, {-2, -2});
    }
}

/* A chain of four tensors, row-major, given compactly, with strides spelled out, and column-major. */
static void strides_count_elements(void **state)
{
    (void)state;
    double a[6], b[12], c[20], d[10], columns[6], expected[4] = {0};
    for (int i = 0; i < 20; i++) {
        c[i] = 1 + i % 3;
        if (i < 12) {
            b[i] = i - 5;
        }
        if (i < 10) {
            d[i] = 2 - i % 4;
        }
        if (i < 6) {
            a[i] = i + 1;
        }
    }
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 3; j++) {
            columns[j * 2 + i] = a[i * 3 + j];
            for (int k = 0; k < 4; k++) {
                for (int l = 0; l < 5; l++) {
                    for (int m = 0; m < 2; m++) {
                        expected[i * 2 + m] += a[i * 3 + j] * b[j * 4 + k] * c[k * 5 + l] * d[l * 2 + m];
                    }
                }
            }
        }
    }
    FOR_EACH_DEVICE (device) {
        for (int kind = 0; kind < 3; kind++) {
            double got[4];
            tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, 2, 3), TENSOR(TENSUM_F64, b, 3, 4), TENSOR(TENSUM_F64, c, 4, 5), TENSOR(TENSUM_F64, d, 5, 2)};
            const tensum_tensor out = TENSOR(TENSUM_F64, got, 2, 2);
            const int64_t row_major[] = {3, 1}, column_major[] = {1, 2};
            if (kind > 0) {
                inputs[0].data = kind == 1 ? a : columns;
                inputs[0].strides = kind == 1 ? row_major : column_major;
            }
            contraction job = {.expression = "ij,jk,kl,lm->im", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F64, .operands = inputs, .operand_count = 4, .output = &out};
            RUN(&job, device);
            equal_f64(got, expected, 4, __FILE__, __LINE__);
        }
    }
}

static void plan_bytes_cover_what_is_used(void **state)
{
    (void)state;
    double a[32], b[32], expected[64] = {0};
    for (int i = 0; i < 32; i++) {
        a[i] = i % 5 - 2;
        b[i] = i % 7 - 3;
    }
    for (int x = 0; x < 4; x++) {
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < 2; j++) {
                for (int z = 0; z < 4; z++) {
                    for (int y = 0; y < 4; y++) {
                        expected[((x * 2 + i) * 2 + j) * 4 + z] += a[(x * 2 + i) * 4 + y] * b[(y * 2 + j) * 4 + z];
                    }
                }
            }
        }
    }
    FOR_EACH_DEVICE (device) {
        double got[64];
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, 4, 2, 4), TENSOR(TENSUM_F64, b, 4, 2, 4)}, out = TENSOR(TENSUM_F64, got, 4, 2, 2, 4);
        contraction job = {.expression = "xiy,yjz->xijz", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F64, .operands = inputs, .operand_count = 2, .output = &out};
        prepared made;
        tensum_run_arguments arguments;
        tensum_workspace_options options = TENSUM_WORKSPACE_OPTIONS_INIT;
        assert_int_equal(job_prepare(&job, device, &made), TENSUM_OK);
        tensum_workspace_release(made.workspace);
        made.workspace = NULL;
        size_t bytes = tensum_program_workspace_bytes(made.program), rounded = (bytes + 127) / 128 * 128;
        unsigned char *memory = aligned_alloc(128, rounded + 128);
        memset(memory, 0xEE, rounded + 128);
        options.memory = memory;
        assert_int_equal(tensum_workspace_create(made.program, &options, &made.workspace), TENSUM_OK);
        job_arguments(&job, &arguments);
        assert_int_equal(tensum_run(made.program, made.workspace, &arguments), TENSUM_OK);
        equal_f64(got, expected, 64, __FILE__, __LINE__);
        for (size_t i = bytes; i < rounded + 128; i++) {
            assert_int_equal(memory[i], 0xEE);
        }
        prepared_release(&made);
        free(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(label_summed_in_one_operand_only),
        cmocka_unit_test(named_label_of_size_one),
        cmocka_unit_test(ellipsis_left_out_of_the_output),
        cmocka_unit_test(two_diagonals_and_a_sum),
        cmocka_unit_test(more_labels_than_letters),
        cmocka_unit_test(gradient_of_many_operands),
        cmocka_unit_test(seventy_thousand_labels),
        cmocka_unit_test(thousands_of_components),
        cmocka_unit_test(assignments_beyond_sixty_four),
        cmocka_unit_test(hyperedges),
        cmocka_unit_test(a_step_of_three),
        cmocka_unit_test(slicing_a_label_of_one_tensor),
        cmocka_unit_test(the_cheapest_first_pair),
        cmocka_unit_test(memory_limits),
        cmocka_unit_test(strided_output),
        cmocka_unit_test(small_boolean_batches),
        cmocka_unit_test(integer_sums),
        cmocka_unit_test(full_precision),
        cmocka_unit_test(infinity_stays_where_it_is),
        cmocka_unit_test(zero_strides),
        cmocka_unit_test(to_a_scalar_and_to_a_vector),
        cmocka_unit_test(strides_count_elements),
        cmocka_unit_test(plan_bytes_cover_what_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
