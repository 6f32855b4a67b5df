/* Gradients (docs/semantics.md, point 10), worked out by hand or by finite differences. */
#include "support.h"

enum { MOST = 4 };

/* Gradients of every operand, compact, in the job's gradient dtype. */
typedef struct gradients {
    tensum_tensor tensors[MOST];
} gradients;

static gradients shaped_like(const tensum_tensor *operands, int64_t count, tensum_dtype dtype, void *const *data)
{
    gradients made;
    memset(&made, 0, sizeof made);
    for (int64_t i = 0; i < count; i++) {
        made.tensors[i] = operands[i];
        made.tensors[i].dtype = dtype;
        made.tensors[i].strides = NULL;
        made.tensors[i].data = data[i];
    }
    return made;
}

/* f32: two operands at most, cotangent may be NULL; writes gradients to da and db. */
static void gradient_f32(const char *expression, tensum_semiring semiring, int64_t count, const tensum_tensor *operands, const tensum_tensor *cotangent,
                         float *da, float *db, tensum_device device)
{
    void *const data[] = {da, db, NULL, NULL};
    gradients made = shaped_like(operands, count, TENSUM_F32, data);
    contraction job = {.expression = expression, .semiring = semiring, .dtype = TENSUM_F32, .operand_count = count, .operands = operands,
                       .cotangent = cotangent, .gradients = made.tensors};
    RUN(&job, device);
}

static void ordinary_algebra(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        float da[16], db[16];
        const float square[] = {1, 2, 3, 4}, ones[] = {1, 1, 1}, twos[] = {2, 2, 2, 2}, g5[] = {5};
        const tensum_tensor g = SCALAR(TENSUM_F32, g5);
        /* trace: the identity, times the cotangent */
        gradient_f32("ii->", TENSUM_SUM_PRODUCT, 1, TENSORS(TENSOR(TENSUM_F32, square, 2, 2)), NULL, da, NULL, device);
        ASSERT_F32(da, {1, 0, 0, 1});
        gradient_f32("ii->", TENSUM_SUM_PRODUCT, 1, TENSORS(TENSOR(TENSUM_F32, square, 2, 2)), &g, da, NULL, device);
        ASSERT_F32(da, {5, 0, 0, 5});
        /* outer product */
        gradient_f32("i,j->ij", TENSUM_SUM_PRODUCT, 2, TENSORS(TENSOR(TENSUM_F32, ones, 3), TENSOR(TENSUM_F32, twos, 4)), NULL, da, db, device);
        ASSERT_F32(da, {8, 8, 8});
        ASSERT_F32(db, {3, 3, 3, 3});
        /* matrix product: dA = G B', dB = A' G */
        const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, -1, 2, 0, 3, 1}, weights[] = {1, 10, 100, 1000};
        const tensum_tensor w = TENSOR(TENSUM_F32, weights, 2, 2);
        gradient_f32("ij,jk->ik", TENSUM_SUM_PRODUCT, 2, TENSORS(TENSOR(TENSUM_F32, a, 2, 3), TENSOR(TENSUM_F32, b, 3, 2)), &w, da, db, device);
        ASSERT_F32(da, {-9, 2, 13, -900, 200, 1300});
        ASSERT_F32(db, {401, 4010, 502, 5020, 603, 6030});
        /* output-only labels: cotangents of the copies add up; off-diagonal ones are ignored */
        const float v[] = {1, 2}, four[] = {10, 20, 30, 40};
        const tensum_tensor f = TENSOR(TENSUM_F32, four, 2, 2);
        gradient_f32("i->ii", TENSUM_SUM_PRODUCT, 1, TENSORS(TENSOR(TENSUM_F32, v, 2)), &f, da, NULL, device);
        ASSERT_F32(da, {10, 40});
        float grad[2];
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, v, 2)}, out[] = {TENSOR(TENSUM_F32, grad, 2)};
        contraction job = {.expression = "i->bi", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 1, .cotangent = &f,
                           .gradients = out, .size_count = 1, .size_labels = EXTENTS('b'), .size_extents = EXTENTS(2)};
        RUN(&job, device);
        ASSERT_F32(grad, {40, 60});
        /* a mode of size 1 that broadcasts keeps its axis */
        const float column[] = {2, 3}, wide[] = {1, 2, 3, 4, 5, 6};
        gradient_f32("ij,jk->ik", TENSUM_SUM_PRODUCT, 2, TENSORS(TENSOR(TENSUM_F32, column, 2, 1), TENSOR(TENSUM_F32, wide, 3, 2)), NULL, da, db, device);
        ASSERT_F32(da, {21, 21});
        ASSERT_F32(db, {5, 5, 5, 5, 5, 5});
        /* batches of size 1 */
        gradient_f32("bnij,bnjc->bnic", TENSUM_SUM_PRODUCT, 2, TENSORS(TENSOR(TENSUM_F32, a, 1, 1, 2, 3), TENSOR(TENSUM_F32, b, 1, 1, 3, 2)), &(tensum_tensor){(void *)(uintptr_t)weights, TENSUM_F32, 4, EXTENTS(1, 1, 2, 2), NULL, {TENSUM_CPU, 0}}, da, db, device);
        ASSERT_F32(da, {-9, 2, 13, -900, 200, 1300});
        ASSERT_F32(db, {401, 4010, 502, 5020, 603, 6030});
        /* an expanded input (stride 0): each mode has its own gradient */
        const tensum_tensor expanded = {(void *)(uintptr_t)column, TENSUM_F32, 2, EXTENTS(2, 2), EXTENTS(0, 1), {TENSUM_CPU, 0}};
        gradient_f32("ij->", TENSUM_SUM_PRODUCT, 1, TENSORS(expanded), NULL, da, NULL, device);
        ASSERT_F32(da, {1, 1, 1, 1});
    }
}

static void complex_convention(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) { /* gradient of a: cotangent times the conjugate of b */
        const double a[] = {1, 2, 3, -1}, b[] = {2, 5, -1, 4}, g[] = {1, 1};
        double da[4], db[4];
        const tensum_tensor inputs[] = {TENSOR(TENSUM_C128, a, 2), TENSOR(TENSUM_C128, b, 2)}, cotangent = SCALAR(TENSUM_C128, g);
        const tensum_tensor out[] = {TENSOR(TENSUM_C128, da, 2), TENSOR(TENSUM_C128, db, 2)};
        contraction job = {.expression = "i,i->", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_C128, .operands = inputs, .operand_count = 2, .gradients = out};
        RUN(&job, device);
        ASSERT_F64(da, {2, -5, -1, -4});
        ASSERT_F64(db, {1, -2, 3, 1});
        job.cotangent = &cotangent; /* (1 + i)(2 - 5i) = 7 - 3i, (1 + i)(-1 - 4i) = 3 - 5i */
        RUN(&job, device);
        ASSERT_F64(da, {7, -3, 3, -5});
        ASSERT_F64(db, {3, -1, 2, 4}); /* (1 + i)(1 - 2i), (1 + i)(3 + i) */
    }
}

static void tropical_goes_to_the_winner(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        float da[8], db[8];
        const float a[] = {1, 7, 3, 4}, b[] = {0, 5, 2, -1}, weights[] = {1, 10, 100, 1000};
        const tensum_tensor w = TENSOR(TENSUM_F32, weights, 2, 2);
        gradient_f32("ij->i", TENSUM_MAX_PLUS, 1, TENSORS(TENSOR(TENSUM_F32, a, 2, 2)), NULL, da, NULL, device);
        ASSERT_F32(da, {0, 1, 0, 1});
        gradient_f32("ii->", TENSUM_MAX_PLUS, 1, TENSORS(TENSOR(TENSUM_F32, a, 2, 2)), NULL, da, NULL, device);
        ASSERT_F32(da, {0, 0, 0, 1});
        gradient_f32("ij->i", TENSUM_MIN_PLUS, 1, TENSORS(TENSOR(TENSUM_F32, a, 2, 2)), NULL, da, NULL, device);
        ASSERT_F32(da, {1, 0, 1, 0});
        /* [0][0]: 7 + 2 (j = 1); [0][1]: 6 and 6, so j = 0; [1][0]: 4 + 2 (j = 1); [1][1]: 3 + 5 (j = 0) */
        gradient_f32("ij,jk->ik", TENSUM_MAX_PLUS, 2, TENSORS(TENSOR(TENSUM_F32, a, 2, 2), TENSOR(TENSUM_F32, b, 2, 2)), &w, da, db, device);
        ASSERT_F32(da, {10, 1, 1000, 100});
        ASSERT_F32(db, {0, 1010, 101, 0});
        /* ties: the first; the whole cotangent once */
        const float same[] = {2, 2};
        gradient_f32("i->", TENSUM_MAX_PLUS, 1, TENSORS(TENSOR(TENSUM_F32, same, 2)), NULL, da, NULL, device);
        ASSERT_F32(da, {1, 0});
        /* only zeros: the first; nothing at all: dropped */
        const float none[] = {-INFINITY, -INFINITY};
        gradient_f32("i->", TENSUM_MAX_PLUS, 1, TENSORS(TENSOR(TENSUM_F32, none, 2)), NULL, da, NULL, device);
        ASSERT_F32(da, {1, 0});
        da[0] = 5;
        gradient_f32("ij->i", TENSUM_MAX_PLUS, 1, TENSORS(TENSOR(TENSUM_F32, none, 2, 0)), NULL, da, NULL, device);
        assert_true(da[0] == 5); /* no element to write */
        gradient_f32("i,ij->i", TENSUM_MAX_PLUS, 2, TENSORS(TENSOR(TENSUM_F32, same, 2), TENSOR(TENSUM_F32, none, 2, 0)), NULL, da, db, device);
        /* NaN: the first NaN term */
        const float nans[] = {3, NAN, NAN};
        gradient_f32("i->", TENSUM_MAX_PLUS, 1, TENSORS(TENSOR(TENSUM_F32, nans, 3)), NULL, da, NULL, device);
        ASSERT_F32(da, {0, 1, 0});
        /* integers have real cotangents */
        const int32_t ia[] = {1, 5, 3};
        const tensum_tensor integers[] = {TENSOR(TENSUM_I32, ia, 3)}, out[] = {TENSOR(TENSUM_F32, da, 3)};
        const float half[] = {0.5f};
        const tensum_tensor g = SCALAR(TENSUM_F32, half);
        contraction job = {.expression = "i->", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_I32, .operands = integers, .operand_count = 1, .cotangent = &g, .gradients = out};
        RUN(&job, device);
        ASSERT_F32(da, {0, 0.5f, 0});
    }
}

static void products_multiply(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        float da[4], db[4], dc[4];
        const float a[] = {2, 3}, b[] = {4, 5}, c[] = {7}, g2[] = {2};
        const tensum_tensor g = SCALAR(TENSUM_F32, g2);
        gradient_f32("i,i->", TENSUM_MAX_TIMES, 2, TENSORS(TENSOR(TENSUM_F32, a, 2), TENSOR(TENSUM_F32, b, 2)), &g, da, db, device);
        ASSERT_F32(da, {0, 10});
        ASSERT_F32(db, {0, 6});
        gradient_f32("i,i->", TENSUM_MIN_TIMES, 2, TENSORS(TENSOR(TENSUM_F32, a, 2), TENSOR(TENSUM_F32, b, 2)), &g, da, db, device);
        ASSERT_F32(da, {8, 0});
        ASSERT_F32(db, {4, 0});
        /* three factors, both trees: each gets the product of the others */
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, a, 2), TENSOR(TENSUM_F32, b, 2), SCALAR(TENSUM_F32, c)};
        const tensum_tensor out[] = {TENSOR(TENSUM_F32, da, 2), TENSOR(TENSUM_F32, db, 2), SCALAR(TENSUM_F32, dc)};
        const int64_t trees[2][4] = {{0, 1, 3, 2}, {2, 1, 0, 3}};
        for (int t = 0; t < 2; t++) {
            contraction job = {.expression = "i,i,->", .semiring = TENSUM_MAX_TIMES, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 3, .gradients = out,
                               .step_count = 2, .children = trees[t]};
            RUN(&job, device);
            ASSERT_F32(da, {0, 35});
            ASSERT_F32(db, {0, 21});
            ASSERT_F32(dc, {15});
        }
        /* an integer factor counts as it is and the product is rounded once, for scalars (which are traced) and others:
         * 1.5 * 16777217 = 25165825.5 is 25165826 in f32; 16777217 alone would become 16777216 first */
        const int32_t one[] = {1, 1}, factor[] = {16777217, 16777217};
        const float g15[] = {1.5f, 1.5f};
        const tensum_tensor integers[] = {TENSOR(TENSUM_I32, one, 2), TENSOR(TENSUM_I32, factor, 2)}, scalar = SCALAR(TENSUM_F32, g15), vector = TENSOR(TENSUM_F32, g15, 2);
        const tensum_tensor sides[] = {TENSOR(TENSUM_F32, da, 2), TENSOR(TENSUM_F32, db, 2)};
        contraction job = {.expression = "i,i->", .semiring = TENSUM_MAX_TIMES, .dtype = TENSUM_I32, .operands = integers, .operand_count = 2, .cotangent = &scalar, .gradients = sides};
        RUN(&job, device);
        ASSERT_F32(da, {25165826, 0});
        job.expression = "i,i->i";
        job.cotangent = &vector;
        RUN(&job, device);
        ASSERT_F32(da, {25165826, 25165826});
    }
}

static void bottlenecks(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        float da[4], db[4], dc[4];
        const float a[] = {1, 5}, b[] = {3, 4}, one[] = {1}, five[] = {5};
        /* max(min(1, 3), min(5, 4)) = 4, held by b */
        gradient_f32("i,i->", TENSUM_MAX_MIN, 2, TENSORS(TENSOR(TENSUM_F32, a, 2), TENSOR(TENSUM_F32, b, 2)), NULL, da, db, device);
        ASSERT_F32(da, {0, 0});
        ASSERT_F32(db, {0, 1});
        /* min(max(1, 3), max(5, 4)) = 3, held by b */
        gradient_f32("i,i->", TENSUM_MIN_MAX, 2, TENSORS(TENSOR(TENSUM_F32, a, 2), TENSOR(TENSUM_F32, b, 2)), NULL, da, db, device);
        ASSERT_F32(db, {1, 0});
        /* equal: the operand with the lowest number, on whichever side of the step it stands */
        const tensum_tensor equal[] = {SCALAR(TENSUM_F32, one), SCALAR(TENSUM_F32, one)}, pair[] = {SCALAR(TENSUM_F32, da), SCALAR(TENSUM_F32, db)};
        for (int swap = 0; swap < 2; swap++) {
            contraction job = {.expression = ",->", .semiring = TENSUM_MAX_MIN, .dtype = TENSUM_F32, .operands = equal, .operand_count = 2, .gradients = pair,
                               .step_count = 1, .children = swap != 0 ? EXTENTS(1, 0) : EXTENTS(0, 1)};
            RUN(&job, device);
            assert_true(da[0] == 1 && db[0] == 0);
        }
        /* min(5, 1, 1): a tie of a step goes to the side that holds operand 0, and on to what attains it there */
        const tensum_tensor three[] = {SCALAR(TENSUM_F32, five), SCALAR(TENSUM_F32, one), SCALAR(TENSUM_F32, one)};
        const tensum_tensor out[] = {SCALAR(TENSUM_F32, da), SCALAR(TENSUM_F32, db), SCALAR(TENSUM_F32, dc)};
        contraction job = {.expression = ",,->", .semiring = TENSUM_MAX_MIN, .dtype = TENSUM_F32, .operands = three, .operand_count = 3, .gradients = out,
                           .step_count = 2, .children = EXTENTS(0, 1, 3, 2)};
        RUN(&job, device);
        assert_true(da[0] == 0 && db[0] == 1 && dc[0] == 0);
        job.children = EXTENTS(2, 0, 1, 3);
        RUN(&job, device);
        assert_true(da[0] == 0 && db[0] == 0 && dc[0] == 1);
    }
}

static void softmax(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        float da[3];
        const float some[] = {-INFINITY, -INFINITY, 0}, none[] = {-INFINITY, -INFINITY, -INFINITY};
        gradient_f32("i->", TENSUM_LOG_SUM_EXP, 1, TENSORS(TENSOR(TENSUM_F32, some, 3)), NULL, da, NULL, device);
        ASSERT_F32(da, {0, 0, 1});
        gradient_f32("i->", TENSUM_LOG_SUM_EXP, 1, TENSORS(TENSOR(TENSUM_F32, none, 3)), NULL, da, NULL, device);
        ASSERT_F32(da, {0, 0, 0});
        const double quarters[] = {0, log(3.0)};
        double d[2];
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, quarters, 2)}, out[] = {TENSOR(TENSUM_F64, d, 2)};
        contraction job = {.expression = "i->", .semiring = TENSUM_LOG_SUM_EXP, .dtype = TENSUM_F64, .operands = inputs, .operand_count = 1, .gradients = out};
        RUN(&job, device);
        assert_true(fabs(d[0] - 0.25) < 1e-14 && fabs(d[1] - 0.75) < 1e-14);
    }
}

/* Central differences of the value, in f64, for semirings that are smooth; a chain with a hyperedge. */
static void finite_differences(void **state)
{
    (void)state;
    static const tensum_semiring semirings[] = {TENSUM_SUM_PRODUCT, TENSUM_LOG_SUM_EXP, TENSUM_MAX_PLUS, TENSUM_MAX_TIMES};
    FOR_EACH_DEVICE (device) {
        for (int s = 0; s < 4; s++) {
            double a[6], b[12], c[8], value = 0, da[6], db[12], dc[8], *const data[] = {a, b, c}, *const grads[] = {da, db, dc};
            const int sizes[] = {6, 12, 8};
            uint32_t word = 12345;
            for (int t = 0; t < 3; t++) {
                for (int i = 0; i < sizes[t]; i++) {
                    word = word * 1664525u + 1013904223u;
                    data[t][i] = 0.5 + (double)(word >> 8) * 0x1p-24;
                }
            }
            const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, 2, 3), TENSOR(TENSUM_F64, b, 3, 4), TENSOR(TENSUM_F64, c, 4, 2)};
            const tensum_tensor out = SCALAR(TENSUM_F64, &value), g[] = {TENSOR(TENSUM_F64, da, 2, 3), TENSOR(TENSUM_F64, db, 3, 4), TENSOR(TENSUM_F64, dc, 4, 2)};
            contraction job = {.expression = "ij,jk,ki->", .semiring = semirings[s], .dtype = TENSUM_F64, .operands = inputs, .operand_count = 3, .gradients = g};
            RUN(&job, device);
            job.gradients = NULL;
            job.output = &out;
            for (int t = 0; t < 3; t++) {
                for (int i = 0; i < sizes[t]; i++) {
                    const double step = 0x1p-18, kept = data[t][i];
                    data[t][i] = kept + step;
                    RUN(&job, device);
                    double up = value;
                    data[t][i] = kept - step;
                    RUN(&job, device);
                    data[t][i] = kept;
                    double slope = (up - value) / (2 * step);
                    if (fabs(slope - grads[t][i]) > 1e-8 * (1 + fabs(slope))) {
                        fail_msg("semiring %s, operand %d, element %d: gradient %.12g, slope %.12g", tensum_semiring_name(semirings[s]), t, i, grads[t][i], slope);
                    }
                }
            }
        }
    }
}

/* ---- sums of cotangents: blocks of 512 in canonical order, starting at +0; where order matters in f32 ---- */

static const float BIG = 16777216.0f; /* 2^24: adding 1 to it in f32 is lost */

static float *ones(int64_t count)
{
    float *values = malloc((size_t)count * sizeof(float));
    for (int64_t i = 0; values != NULL && i < count; i++) {
        values[i] = 1.0f;
    }
    return values;
}

static void positional_tree(void **state)
{
    (void)state;
    static const struct {
        int64_t right;
        float first, expected;
    } rows[] = {
        {512, 16777216.0f, 16777216.0f},         /* one block: every 1 is lost */
        {600, 16777216.0f, 16777304.0f},         /* the second block adds 88 */
        {1100, 16777216.0f, 16777804.0f},        /* 2^24 + 512 + 76 */
        {270336, 34359738368.0f, 34359746560.0f} /* three levels: 2^35 loses its 511 fellow blocks, then 16 blocks add 8192 */
    };
    tensum_context_options options = TENSUM_CONTEXT_OPTIONS_INIT;
    tensum_context *context = NULL;
    options.threads = 3;
    assert_int_equal(tensum_context_create(&options, &context), TENSUM_OK);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        int64_t n = rows[r].right;
        float *cotangent = ones(2 * n), *b = calloc((size_t)n, sizeof(float)), *db = malloc(sizeof(float) * (size_t)n);
        cotangent[0] = cotangent[n] = rows[r].first;
        FOR_EACH_DEVICE (device) {
            const float a[] = {0, 0};
            float da[2] = {0};
            const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, a, 2), TENSOR(TENSUM_F32, b, n)}, g = TENSOR(TENSUM_F32, cotangent, 2, n);
            const tensum_tensor out[] = {TENSOR(TENSUM_F32, da, 2), TENSOR(TENSUM_F32, db, n)};
            contraction job = {.expression = "i,r->ir", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 2, .cotangent = &g, .gradients = out,
                               .context = context};
            RUN(&job, device);
            assert_true(da[0] == rows[r].expected && da[1] == rows[r].expected);
            assert_true(db[0] == 2 * rows[r].first && db[n - 1] == 2.0f);
        }
        free(cotangent);
        free(b);
        free(db);
    }
    tensum_context_release(context);
}

/* Labels in the order of the inputs (r, s), not of the output (s, r). */
static void canonical_order_of_cotangents(void **state)
{
    (void)state;
    enum { R = 2, S = 300 };
    float *cotangent = ones(R * S); /* laid out [s][r] */
    float *b = calloc(R * S, sizeof(float)), *db = malloc(sizeof(float) * R * S);
    cotangent[0 * R + 1] = BIG; /* r = 1, s = 0: position 300 of 600 */
    FOR_EACH_DEVICE (device) {
        const float a[] = {0, 0};
        float da[2] = {0};
        const tensum_tensor inputs[] = {SCALAR(TENSUM_F32, a), TENSOR(TENSUM_F32, b, R, S)}, g = TENSOR(TENSUM_F32, cotangent, S, R);
        const tensum_tensor out[] = {SCALAR(TENSUM_F32, da), TENSOR(TENSUM_F32, db, R, S)};
        contraction job = {.expression = ",rs->sr", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 2, .cotangent = &g, .gradients = out};
        RUN(&job, device);
        /* 300 + 2^24 and 211 lost ones, then 88 */
        assert_true(da[0] == 16777604.0f);
        assert_true(db[S] == BIG && db[0] == 1.0f);
        /* the same cotangent through other strides */
        float *transposed = ones(R * S);
        transposed[S] = BIG;
        tensum_tensor view = {transposed, TENSUM_F32, 2, EXTENTS(S, R), EXTENTS(1, S), {TENSUM_CPU, 0}};
        job.cotangent = &view;
        da[0] = 0;
        RUN(&job, device);
        assert_true(da[0] == 16777604.0f);
        free(transposed);
    }
    free(cotangent);
    free(b);
    free(db);
}

static void slices_are_outermost(void **state)
{
    (void)state;
    enum { R = 2, S = 300 };
    float *cotangent = ones(R * S), *b = calloc(R * S, sizeof(float)), *db = malloc(sizeof(float) * R * S);
    cotangent[0] = BIG;
    FOR_EACH_DEVICE (device) {
        const float a[] = {0};
        float da[1] = {0};
        const tensum_tensor inputs[] = {SCALAR(TENSUM_F32, a), TENSOR(TENSUM_F32, b, R, S)}, g = TENSOR(TENSUM_F32, cotangent, R, S);
        const tensum_tensor out[] = {SCALAR(TENSUM_F32, da), TENSOR(TENSUM_F32, db, R, S)};
        contraction job = {.expression = ",rs->rs", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 2, .cotangent = &g, .gradients = out};
        RUN(&job, device);
        assert_true(da[0] == 16777304.0f); /* 512 in one block, then 88 */
        job.slice_count = 1;
        job.slices = EXTENTS('r');
        RUN(&job, device);
        assert_true(da[0] == 16777516.0f); /* 300 lost but one, then 300 */
        assert_true(db[0] == BIG && db[1] == 1.0f && db[S] == 1.0f);
    }
    free(cotangent);
    free(b);
    free(db);
}

/* A sum starts at +0, so that a gradient of nothing but -0 is +0. */
static void gradient_of_negative_zero(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        const float a[] = {1, 2}, minus[] = {-0.0f};
        float da[2] = {7, 7};
        const tensum_tensor g = SCALAR(TENSUM_F32, minus);
        gradient_f32("i->", TENSUM_MAX_PLUS, 1, TENSORS(TENSOR(TENSUM_F32, a, 2)), &g, da, NULL, device);
        assert_true(da[0] == 0 && signbit(da[0]) == 0 && da[1] == 0);
    }
}

/* A sliced network has the gradient of the unsliced one (exact integers). */
static void slicing_keeps_gradients(void **state)
{
    (void)state;
    static const tensum_semiring semirings[] = {TENSUM_SUM_PRODUCT, TENSUM_MAX_PLUS, TENSUM_MAX_TIMES};
    const double a[] = {3, 1, 4, 1, 5, 9}, b[] = {2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3}, c[] = {8, 4, 6, 2, 6, 4, 3, 3};
    FOR_EACH_DEVICE (device) {
        for (int s = 0; s < 3; s++) {
            double grads[2][26], value[2];
            for (int sliced = 0; sliced < 2; sliced++) {
                double *d = grads[sliced];
                const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, 2, 3), TENSOR(TENSUM_F64, b, 3, 4), TENSOR(TENSUM_F64, c, 4, 2)};
                const tensum_tensor out = SCALAR(TENSUM_F64, &value[sliced]), g[] = {TENSOR(TENSUM_F64, d, 2, 3), TENSOR(TENSUM_F64, d + 6, 3, 4), TENSOR(TENSUM_F64, d + 18, 4, 2)};
                contraction job = {.expression = "ij,jk,ki->", .semiring = semirings[s], .dtype = TENSUM_F64, .operands = inputs, .operand_count = 3, .gradients = g, .output = &out,
                                   .step_count = 2, .children = EXTENTS(1, 2, 0, 3), .slice_count = 2 * sliced, .slices = EXTENTS('k', 'i')};
                RUN(&job, device);
            }
            assert_true(value[0] == value[1]);
            equal_f64(grads[1], grads[0], 26, __FILE__, __LINE__);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_algebra),
        cmocka_unit_test(complex_convention),
        cmocka_unit_test(tropical_goes_to_the_winner),
        cmocka_unit_test(products_multiply),
        cmocka_unit_test(bottlenecks),
        cmocka_unit_test(softmax),
        cmocka_unit_test(finite_differences),
        cmocka_unit_test(positional_tree),
        cmocka_unit_test(canonical_order_of_cotangents),
        cmocka_unit_test(slices_are_outermost),
        cmocka_unit_test(gradient_of_negative_zero),
        cmocka_unit_test(slicing_keeps_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
