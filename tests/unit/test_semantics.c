/* The meaning of a contraction (docs/semantics.md), point by point, with values worked out by hand. Gradients and decoding
 * are in test_gradient.c and test_decode.c. */
#include "support.h"

static const float INF = INFINITY;

/* One f32 expression: operands, expected values. */
#define VALUE_F32(semiring_, expression_, operands_, output_, ...)                                                   \
    FOR_EACH_DEVICE (device)                                                                                         \
    {                                                                                                                \
        float got[64];                                                                                               \
        const tensum_tensor inputs[] = operands_;                                                                    \
        tensum_tensor out = output_;                                                                                 \
        contraction job = {.expression = expression_, .semiring = semiring_, .dtype = TENSUM_F32, .operands = inputs, \
                           .operand_count = COUNT_OF(inputs), .output = &out};                                       \
        memset(got, 0x5a, sizeof got);                                                                               \
        out.data = got;                                                                                              \
        RUN(&job, device);                                                                                           \
        ASSERT_F32(got, __VA_ARGS__);                                                                                \
    }
#define LIST(...) {__VA_ARGS__}

static void diagonals_and_broadcasts(void **state)
{
    (void)state;
    const float matrix[] = {1, 2, 3, 4}, vector[] = {1, 2}, cube[] = {1, 2, 3, 4, 5, 6, 7, 8};
    VALUE_F32(TENSUM_SUM_PRODUCT, "ii->i", LIST(TENSOR(TENSUM_F32, matrix, 2, 2)), TENSOR(TENSUM_F32, NULL, 2), {1, 4});
    VALUE_F32(TENSUM_SUM_PRODUCT, "ii->", LIST(TENSOR(TENSUM_F32, matrix, 2, 2)), SCALAR(TENSUM_F32, NULL), {5});
    VALUE_F32(TENSUM_SUM_PRODUCT, "iij->j", LIST(TENSOR(TENSUM_F32, cube, 2, 2, 2)), TENSOR(TENSUM_F32, NULL, 2), {8, 10});
    /* a repeated label in the output writes the diagonal, and 0 of the semiring elsewhere */
    VALUE_F32(TENSUM_SUM_PRODUCT, "i->ii", LIST(TENSOR(TENSUM_F32, vector, 2)), TENSOR(TENSUM_F32, NULL, 2, 2), {1, 0, 0, 2});
    VALUE_F32(TENSUM_MAX_PLUS, "i->ii", LIST(TENSOR(TENSUM_F32, vector, 2)), TENSOR(TENSUM_F32, NULL, 2, 2), {1, -INF, -INF, 2});
    VALUE_F32(TENSUM_MIN_PLUS, "i,i->ii", LIST(TENSOR(TENSUM_F32, vector, 2), TENSOR(TENSUM_F32, vector, 2)),
              TENSOR(TENSUM_F32, NULL, 2, 2), {2, INF, INF, 4});
    /* summed out of one operand alone */
    VALUE_F32(TENSUM_SUM_PRODUCT, "ik,ij->j", LIST(TENSOR(TENSUM_F32, matrix, 2, 2), TENSOR(TENSUM_F32, matrix, 2, 2)),
              TENSOR(TENSUM_F32, NULL, 2), {24, 34}); /* 3*1 + 7*3, 3*2 + 7*4 */
    FOR_EACH_DEVICE (device) { /* labels of the output alone repeat the rest */
        float got[4];
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, vector, 2)};
        const tensum_tensor out = TENSOR(TENSUM_F32, got, 2, 2);
        contraction job = {.expression = "i->bi", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 1,
                           .output = &out, .size_count = 1, .size_labels = EXTENTS('b'), .size_extents = EXTENTS(2)};
        RUN(&job, device);
        ASSERT_F32(got, {1, 2, 1, 2});
    }
    /* size 1 broadcasts */
    const float column[] = {2, 3}, wide[] = {1, 2, 3, 4, 5, 6};
    VALUE_F32(TENSUM_SUM_PRODUCT, "ij,jk->ik", LIST(TENSOR(TENSUM_F32, column, 2, 1), TENSOR(TENSUM_F32, wide, 3, 2)),
              TENSOR(TENSUM_F32, NULL, 2, 2), {18, 24, 27, 36});
    VALUE_F32(TENSUM_MAX_PLUS, "ij,ij->ij", LIST(TENSOR(TENSUM_F32, column, 2, 1), TENSOR(TENSUM_F32, vector, 1, 2)),
              TENSOR(TENSUM_F32, NULL, 2, 2), {3, 4, 4, 5});
}

static void empty_sums_and_products(void **state)
{
    (void)state;
    const float nothing[1] = {7}, some[] = {5, 6};
    VALUE_F32(TENSUM_SUM_PRODUCT, "ij->i", LIST(TENSOR(TENSUM_F32, nothing, 2, 0)), TENSOR(TENSUM_F32, NULL, 2), {0, 0});
    VALUE_F32(TENSUM_MAX_PLUS, "ij->i", LIST(TENSOR(TENSUM_F32, nothing, 2, 0)), TENSOR(TENSUM_F32, NULL, 2), {-INF, -INF});
    VALUE_F32(TENSUM_MIN_PLUS, "ij->i", LIST(TENSOR(TENSUM_F32, nothing, 2, 0)), TENSOR(TENSUM_F32, NULL, 2), {INF, INF});
    VALUE_F32(TENSUM_MAX_TIMES, "ij,jk->ik", LIST(TENSOR(TENSUM_F32, nothing, 2, 0), TENSOR(TENSUM_F32, nothing, 0, 1)),
              TENSOR(TENSUM_F32, NULL, 2, 1), {0, 0});
    VALUE_F32(TENSUM_LOG_SUM_EXP, "ij,jk->ik", LIST(TENSOR(TENSUM_F32, nothing, 2, 0), TENSOR(TENSUM_F32, nothing, 0, 1)),
              TENSOR(TENSUM_F32, NULL, 2, 1), {-INF, -INF});
    VALUE_F32(TENSUM_MAX_MIN, "i->", LIST(TENSOR(TENSUM_F32, nothing, 0)), SCALAR(TENSUM_F32, NULL), {-INF});
    /* an empty factor makes the whole product empty */
    VALUE_F32(TENSUM_SUM_PRODUCT, "i,j->i", LIST(TENSOR(TENSUM_F32, some, 2), TENSOR(TENSUM_F32, nothing, 0)), TENSOR(TENSUM_F32, NULL, 2), {0, 0});
    FOR_EACH_DEVICE (device) {
        int32_t i32 = 5;
        double counted[2] = {1, 1};
        uint8_t boolean = 1;
        const tensum_tensor none32[] = {TENSOR(TENSUM_I32, nothing, 0)}, none128[] = {TENSOR(TENSUM_VC128, nothing, 0)}, none8[] = {TENSOR(TENSUM_BOOL, nothing, 0)};
        const tensum_tensor out32 = SCALAR(TENSUM_I32, &i32), out128 = SCALAR(TENSUM_VC128, counted), out8 = SCALAR(TENSUM_BOOL, &boolean);
        contraction job = {.expression = "i->", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_I32, .operands = none32, .operand_count = 1, .output = &out32};
        RUN(&job, device);
        assert_int_equal(i32, -1073741823);
        job = (contraction){.expression = "i->", .semiring = TENSUM_MAX_PLUS_COUNT, .dtype = TENSUM_VC128, .operands = none128, .operand_count = 1, .output = &out128};
        RUN(&job, device);
        ASSERT_F64(counted, {-HUGE_VAL, 0});
        job = (contraction){.expression = "i->", .semiring = TENSUM_OR_AND, .dtype = TENSUM_BOOL, .operands = none8, .operand_count = 1, .output = &out8};
        RUN(&job, device);
        assert_int_equal(boolean, 0);
    }
    FOR_EACH_DEVICE (device) { /* no operands: 1 of the semiring */
        static const tensum_semiring semirings[] = {TENSUM_SUM_PRODUCT, TENSUM_MAX_PLUS, TENSUM_MAX_TIMES, TENSUM_MAX_MIN, TENSUM_LOG_SUM_EXP};
        static const float ones[] = {1, 0, 1, INFINITY, 0};
        for (int i = 0; i < 5; i++) {
            float got = 9;
            const tensum_tensor out = SCALAR(TENSUM_F32, &got);
            contraction job = {.expression = "->", .semiring = semirings[i], .dtype = TENSUM_F32, .output = &out};
            RUN(&job, device);
            assert_true(got == ones[i]);
        }
        float many[3] = {9, 9, 9};
        const tensum_tensor out = TENSOR(TENSUM_F32, many, 3);
        contraction job = {.expression = "->a", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F32, .output = &out, .size_count = 1,
                           .size_labels = EXTENTS('a'), .size_extents = EXTENTS(3)};
        RUN(&job, device);
        ASSERT_F32(many, {1, 1, 1});
    }
}

static void true_zeros_and_infinities(void **state)
{
    (void)state;
    const float a[] = {-INF, 2, -2, -INF}, minus[] = {-INF, 1}, plus[] = {INF, 2}, zero[] = {0, 3}, inf_one[] = {INF, 1};
    /* max-plus of a' and a, whose diagonal terms are -inf */
    VALUE_F32(TENSUM_MAX_PLUS, "ji,jk->ik", LIST(TENSOR(TENSUM_F32, a, 2, 2), TENSOR(TENSUM_F32, a, 2, 2)), TENSOR(TENSUM_F32, NULL, 2, 2), {-4, -INF, -INF, 4});
    VALUE_F32(TENSUM_MAX_PLUS, "i,i->i", LIST(TENSOR(TENSUM_F32, minus, 2), TENSOR(TENSUM_F32, plus, 2)), TENSOR(TENSUM_F32, NULL, 2), {NAN, 3});
    VALUE_F32(TENSUM_MAX_PLUS, "i,i->", LIST(TENSOR(TENSUM_F32, minus, 2), TENSOR(TENSUM_F32, plus, 2)), SCALAR(TENSUM_F32, NULL), {NAN});
    VALUE_F32(TENSUM_MAX_TIMES, "i,i->i", LIST(TENSOR(TENSUM_F32, zero, 2), TENSOR(TENSUM_F32, inf_one, 2)), TENSOR(TENSUM_F32, NULL, 2), {NAN, 3});
    VALUE_F32(TENSUM_MAX_TIMES, "i,i->", LIST(TENSOR(TENSUM_F32, zero, 2), TENSOR(TENSUM_F32, zero, 2)), SCALAR(TENSUM_F32, NULL), {9});
    VALUE_F32(TENSUM_MAX_MIN, "i,i->i", LIST(TENSOR(TENSUM_F32, minus, 2), TENSOR(TENSUM_F32, plus, 2)), TENSOR(TENSUM_F32, NULL, 2), {-INF, 1});
    VALUE_F32(TENSUM_SUM_PRODUCT, "i->", LIST(TENSOR(TENSUM_F32, plus, 2)), SCALAR(TENSUM_F32, NULL), {INF});
    const float big[] = {2e38f, 2e38f};
    VALUE_F32(TENSUM_LOG_SUM_EXP, ",->", LIST(SCALAR(TENSUM_F32, big), SCALAR(TENSUM_F32, big)), SCALAR(TENSUM_F32, NULL), {INF});
    VALUE_F32(TENSUM_LOG_SUM_EXP, "i->", LIST(TENSOR(TENSUM_F32, minus, 2)), SCALAR(TENSUM_F32, NULL), {1});
}

static void nan_propagates(void **state)
{
    (void)state;
    const float rows[] = {1, NAN, 3, 4}, other[] = {1, 2, 3, 4}, no[] = {-INF, -INF, -INF, -INF};
    VALUE_F32(TENSUM_MAX_PLUS, "ij->i", LIST(TENSOR(TENSUM_F32, rows, 2, 2)), TENSOR(TENSUM_F32, NULL, 2), {NAN, 4});
    VALUE_F32(TENSUM_MIN_PLUS, "ij,jk->ik", LIST(TENSOR(TENSUM_F32, rows, 2, 2), TENSOR(TENSUM_F32, other, 2, 2)), TENSOR(TENSUM_F32, NULL, 2, 2), {NAN, NAN, 4, 5});
    VALUE_F32(TENSUM_MAX_MIN, "ij,jk->ik", LIST(TENSOR(TENSUM_F32, rows, 2, 2), TENSOR(TENSUM_F32, other, 2, 2)), TENSOR(TENSUM_F32, NULL, 2, 2), {NAN, NAN, 3, 4});
    /* 0 of the semiring does not hide it */
    VALUE_F32(TENSUM_MAX_PLUS, "ij,jk->ik", LIST(TENSOR(TENSUM_F32, rows, 2, 2), TENSOR(TENSUM_F32, no, 2, 2)), TENSOR(TENSUM_F32, NULL, 2, 2), {NAN, NAN, -INF, -INF});
    VALUE_F32(TENSUM_LOG_SUM_EXP, "ij->i", LIST(TENSOR(TENSUM_F32, rows, 1, 2)), TENSOR(TENSUM_F32, NULL, 1), {NAN});
}

/* NaN in one place of a product large enough for vector kernels spoils its row and column and nothing else. */
static void nan_spoils_one_row(void **state)
{
    (void)state;
    enum { N = 40, K = 70 };
    float *a = malloc(sizeof(float) * N * K), *b = malloc(sizeof(float) * K * N), *c = malloc(sizeof(float) * N * N);
    for (int i = 0; i < N * K; i++) {
        a[i] = (float)(i % 17);
        b[i] = (float)(i % 13);
    }
    a[7 * K + 69] = NAN;
    b[3 * N + 39] = NAN;
    FOR_EACH_DEVICE (device) {
        for (int kind = 0; kind < 2; kind++) {
            const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, a, N, K), TENSOR(TENSUM_F32, b, K, N)};
            const tensum_tensor out = TENSOR(TENSUM_F32, c, N, N);
            contraction job = {.expression = "ij,jk->ik", .semiring = kind == 0 ? TENSUM_MAX_PLUS : TENSUM_MIN_PLUS, .dtype = TENSUM_F32, .operands = inputs,
                               .operand_count = 2, .output = &out};
            RUN(&job, device);
            for (int i = 0; i < N * N; i++) {
                assert_int_equal(c[i] != c[i], i / N == 7 || i % N == 39);
            }
        }
    }
    free(a);
    free(b);
    free(c);
}

static void negative_zero(void **state)
{
    (void)state;
    const float zeros[] = {-0.0f, -0.0f}, ones[] = {-0.0f, 1.0f};
    /* sums and products are stored with +0 */
    VALUE_F32(TENSUM_MAX_PLUS, "i,i->i", LIST(TENSOR(TENSUM_F32, zeros, 2), TENSOR(TENSUM_F32, zeros, 2)), TENSOR(TENSUM_F32, NULL, 2), {0, 0});
    VALUE_F32(TENSUM_MAX_PLUS, "i->", LIST(TENSOR(TENSUM_F32, zeros, 2)), SCALAR(TENSUM_F32, NULL), {0});
    VALUE_F32(TENSUM_SUM_PRODUCT, "i->", LIST(TENSOR(TENSUM_F32, zeros, 2)), SCALAR(TENSUM_F32, NULL), {0});
    VALUE_F32(TENSUM_MAX_TIMES, "i,i->i", LIST(TENSOR(TENSUM_F32, zeros, 2), TENSOR(TENSUM_F32, ones, 2)), TENSOR(TENSUM_F32, NULL, 2), {0, 0});
    VALUE_F32(TENSUM_MIN_MAX, "i,i->i", LIST(TENSOR(TENSUM_F32, zeros, 2), TENSOR(TENSUM_F32, zeros, 2)), TENSOR(TENSUM_F32, NULL, 2), {0, 0});
    /* moving data keeps every bit, also of a NaN */
    const uint32_t bits[] = {0x80000000u, 0x7fc12345u, 0xffc00001u, 0x00000001u};
    FOR_EACH_DEVICE (device) {
        uint32_t got[4] = {0};
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, bits, 2, 2)};
        const tensum_tensor out = TENSOR(TENSUM_F32, got, 2, 2);
        contraction job = {.expression = "ij->ji", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 1, .output = &out};
        RUN(&job, device);
        assert_int_equal(got[0], bits[0]);
        assert_int_equal(got[1], bits[2]);
        assert_int_equal(got[2], bits[1]);
        assert_int_equal(got[3], bits[3]);
    }
    /* a sum of halves that rounds to -0 is stored as +0 too: -2^-24 * 2^-2 is below half of the smallest one */
    FOR_EACH_DEVICE (device) {
        const uint16_t small[] = {0x8001u}, quarter[] = {0x3400u};
        uint16_t got = 0x1234;
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F16, small, 1), TENSOR(TENSUM_F16, quarter, 1)};
        const tensum_tensor out = SCALAR(TENSUM_F16, &got);
        contraction job = {.expression = "i,i->", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F16, .operands = inputs, .operand_count = 2, .output = &out};
        RUN(&job, device);
        assert_int_equal(got, 0);
    }
}

#define PRODUCT_I32(semiring_, x, y, expected)                                                                                              \
    FOR_EACH_DEVICE (device)                                                                                                                \
    {                                                                                                                                       \
        const int32_t a = (x), b = (y);                                                                                                     \
        int32_t got = 99;                                                                                                                   \
        const tensum_tensor inputs[] = {SCALAR(TENSUM_I32, &a), SCALAR(TENSUM_I32, &b)};                                                   \
        const tensum_tensor out = SCALAR(TENSUM_I32, &got);                                                                                \
        contraction job = {.expression = ",->", .semiring = semiring_, .dtype = TENSUM_I32, .operands = inputs, .operand_count = 2, .output = &out}; \
        RUN(&job, device);                                                                                                                  \
        assert_int_equal(got, expected);                                                                                                    \
    }
#define PRODUCT_I16(semiring_, x, y, expected)                                                                                              \
    FOR_EACH_DEVICE (device)                                                                                                                \
    {                                                                                                                                       \
        const int16_t a = (x), b = (y);                                                                                                     \
        int16_t got = 99;                                                                                                                   \
        const tensum_tensor inputs[] = {SCALAR(TENSUM_I16, &a), SCALAR(TENSUM_I16, &b)};                                                   \
        const tensum_tensor out = SCALAR(TENSUM_I16, &got);                                                                                \
        contraction job = {.expression = ",->", .semiring = semiring_, .dtype = TENSUM_I16, .operands = inputs, .operand_count = 2, .output = &out}; \
        RUN(&job, device);                                                                                                                  \
        assert_int_equal(got, expected);                                                                                                    \
    }

static void integer_tropical(void **state)
{
    (void)state;
    enum { R = 357913940, Z = 1073741823 };
    PRODUCT_I32(TENSUM_MAX_PLUS, R, R, R);
    PRODUCT_I32(TENSUM_MAX_PLUS, -R, -R, -R);
    PRODUCT_I32(TENSUM_MAX_PLUS, R, -1, R - 1);
    PRODUCT_I32(TENSUM_MAX_PLUS, -Z, R, -Z);
    PRODUCT_I32(TENSUM_MAX_PLUS, -Z, -R, -Z);
    PRODUCT_I32(TENSUM_MAX_PLUS, -Z, -Z, -Z);
    PRODUCT_I32(TENSUM_MIN_PLUS, Z, -R, Z);
    PRODUCT_I32(TENSUM_MIN_PLUS, Z, Z, Z);
    PRODUCT_I32(TENSUM_MIN_PLUS, R, R, R);
    PRODUCT_I32(TENSUM_MIN_PLUS, -R, -R, -R);
    PRODUCT_I16(TENSUM_MAX_PLUS, 5460, 5460, 5460);
    PRODUCT_I16(TENSUM_MAX_PLUS, -16383, 5460, -16383);
    PRODUCT_I16(TENSUM_MIN_PLUS, 16383, -5460, 16383);
    PRODUCT_I16(TENSUM_MAX_PLUS, -5460, -5460, -5460);
    /* ordinary arithmetic is modulo 2^n, max-times saturates */
    PRODUCT_I16(TENSUM_SUM_PRODUCT, 200, 200, -25536);
    PRODUCT_I32(TENSUM_SUM_PRODUCT, 65536, 65537, 65536);
    PRODUCT_I16(TENSUM_MAX_TIMES, 200, 200, 32767);
    PRODUCT_I32(TENSUM_MAX_TIMES, 65536, 65536, INT32_MAX);
    PRODUCT_I32(TENSUM_MAX_MIN, INT32_MIN, INT32_MAX, INT32_MIN);
    PRODUCT_I32(TENSUM_MIN_MAX, INT32_MIN, INT32_MAX, INT32_MAX);
}

static void integers_outside_their_range(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        const int32_t good[] = {1, 2, 3}, bad[] = {1, 2, 357913941};
        const float factors[] = {1, 2, -0.5f};
        int32_t got = 77;
        float got_f32 = 77;
        const tensum_tensor inputs[] = {TENSOR(TENSUM_I32, good, 3), TENSOR(TENSUM_I32, bad, 3)};
        const tensum_tensor out = SCALAR(TENSUM_I32, &got);
        contraction job = {.expression = "i,i->", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_I32, .operands = inputs, .operand_count = 2, .output = &out};
        REFUSE(&job, device, TENSUM_STATUS_DOMAIN, "operand 1");
        REFUSE(&job, device, TENSUM_STATUS_DOMAIN, "357913941");
        assert_int_equal(got, 77); /* outputs are untouched on failure */
        job.unchecked = 1;
        RUN(&job, device);
        assert_int_equal(got, 357913940);
        const tensum_tensor floats[] = {TENSOR(TENSUM_F32, factors, 3)};
        const tensum_tensor out_f32 = SCALAR(TENSUM_F32, &got_f32);
        job = (contraction){.expression = "i->", .semiring = TENSUM_MAX_TIMES, .dtype = TENSUM_F32, .operands = floats, .operand_count = 1, .output = &out_f32};
        REFUSE(&job, device, TENSUM_STATUS_DOMAIN, "operand 0");
        REFUSE(&job, device, TENSUM_STATUS_DOMAIN, "-0.5");
        assert_true(got_f32 == 77);
        job.unchecked = 1;
        RUN(&job, device);
        assert_true(got_f32 == 2);
        const int64_t residues[] = {0, 6, 7};
        int64_t got_i64 = 77;
        const tensum_tensor mod[] = {TENSOR(TENSUM_I64, residues, 3)};
        const tensum_tensor out_i64 = SCALAR(TENSUM_I64, &got_i64);
        job = (contraction){.expression = "i->", .semiring = TENSUM_SUM_PRODUCT_MOD, .dtype = TENSUM_I64, .modulus = 7, .operands = mod, .operand_count = 1, .output = &out_i64};
        REFUSE(&job, device, TENSUM_STATUS_DOMAIN, "operand 0");
        job.modulus = 11;
        RUN(&job, device);
        assert_int_equal(got_i64, 2); /* 13 modulo 11 */
        job.modulus = 1;
        REFUSE(&job, device, TENSUM_STATUS_INVALID_ARGUMENT, "modulus");
    }
}

/* 16-bit products are rounded before they are compared, so that 2049 = 2048 in f16 and 257 = 256 in bf16. */
static void rounding_before_comparing(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        const uint16_t a16[] = {0x6800, 0x6800}, b16[] = {0x0000, 0x3c00};  /* 2048 2048, 0 1 */
        const uint16_t ab[] = {0x4380, 0x4380}, bb[] = {0x0000, 0x3f80};   /* 256 256, 0 1 */
        for (int kind = 0; kind < 2; kind++) {
            uint16_t got = 0;
            int32_t winner = 9;
            const tensum_dtype dtype = kind == 0 ? TENSUM_F16 : TENSUM_BF16;
            const tensum_tensor inputs[] = {TENSOR(dtype, kind == 0 ? a16 : ab, 2), TENSOR(dtype, kind == 0 ? b16 : bb, 2)};
            const tensum_tensor out = SCALAR(dtype, &got), winners = SCALAR(TENSUM_I32, &winner);
            contraction job = {.expression = "i,i->", .semiring = TENSUM_MAX_PLUS, .dtype = dtype, .operands = inputs, .operand_count = 2, .output = &out, .winners = &winners};
            RUN(&job, device);
            assert_int_equal(got, kind == 0 ? 0x6800 : 0x4380);
            assert_int_equal(winner, 0);
        }
        /* ordinary sums of 16-bit floats are formed in f32: 2048 + 1 + 1 + 1 + 1 = 2052 */
        const uint16_t terms[] = {0x6800, 0x3c00, 0x3c00, 0x3c00, 0x3c00};
        uint16_t got = 0;
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F16, terms, 5)};
        const tensum_tensor out = SCALAR(TENSUM_F16, &got);
        contraction job = {.expression = "i->", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F16, .operands = inputs, .operand_count = 1, .output = &out};
        RUN(&job, device);
        assert_int_equal(got, 0x6802);
        const uint16_t one_two_three[] = {0x3f80, 0x4000, 0x4040}, four_five_six[] = {0x4080, 0x40a0, 0x40c0};
        const tensum_tensor pair[] = {TENSOR(TENSUM_BF16, one_two_three, 3), TENSOR(TENSUM_BF16, four_five_six, 3)};
        const tensum_tensor sum = SCALAR(TENSUM_BF16, &got);
        job = (contraction){.expression = "i,i->", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_BF16, .operands = pair, .operand_count = 2, .output = &sum};
        RUN(&job, device);
        assert_int_equal(got, 0x4200); /* 32 */
    }
}

static int64_t winner_of(const char *expression, tensum_semiring semiring, tensum_dtype dtype, int64_t count, const tensum_tensor *inputs, tensum_device device)
{
    union {
        float f32;
        int32_t i32;
        int64_t i64;
    } value;
    int32_t winner = 77;
    int64_t wide = 77;
    const tensum_tensor out = SCALAR(dtype, &value), narrow = SCALAR(TENSUM_I32, &winner), wider = SCALAR(TENSUM_I64, &wide);
    contraction job = {.expression = expression, .semiring = semiring, .dtype = dtype, .operands = inputs, .operand_count = count, .output = &out, .winners = &narrow};
    RUN(&job, device);
    job.winners = &wider;
    RUN(&job, device);
    assert_int_equal(winner, wide);
    return wide;
}

static void ties(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        const float ones[] = {1, 1, 1, 1, 1, 1};
        assert_int_equal(winner_of("ij->", TENSUM_MAX_PLUS, TENSUM_F32, 1, (const tensum_tensor[]){TENSOR(TENSUM_F32, ones, 2, 3)}, device), 0);
        /* j comes first in the inputs: (j, i) = (0, 2) is 2 and (1, 0) is 3, whatever the output or the other operand say */
        const float ji[] = {0, 0, 5, 5, 0, 0}, ij[] = {0, 0, 0, 0, 0, 0};
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, ji, 2, 3), TENSOR(TENSUM_F32, ij, 3, 2)};
        assert_int_equal(winner_of("ji,ij->", TENSUM_MAX_PLUS, TENSUM_F32, 2, inputs, device), 2);
        /* the same numbers through permuted and negative strides */
        const float permuted[] = {0, 5, 0, 0, 5, 0}; /* [i][j] = ji[j][i] */
        const float reversed[] = {0, 0, 5, 5, 0, 0};
        tensum_tensor view[] = {{(void *)(uintptr_t)permuted, TENSUM_F32, 2, EXTENTS(2, 3), EXTENTS(1, 2), {TENSUM_CPU, 0}}, inputs[1]};
        assert_int_equal(winner_of("ji,ij->", TENSUM_MAX_PLUS, TENSUM_F32, 2, view, device), 2);
        view[0] = (tensum_tensor){(void *)(uintptr_t)(reversed + 5), TENSUM_F32, 2, EXTENTS(2, 3), EXTENTS(-3, -1), {TENSUM_CPU, 0}};
        assert_int_equal(winner_of("ji,ij->", TENSUM_MAX_PLUS, TENSUM_F32, 2, view, device), 2);
        /* the first NaN, the first of all-zero terms, nothing of an empty sum */
        const float nans[] = {1, NAN, 5, NAN}, zeros[] = {-INFINITY, -INFINITY, -INFINITY};
        assert_int_equal(winner_of("i->", TENSUM_MAX_PLUS, TENSUM_F32, 1, (const tensum_tensor[]){TENSOR(TENSUM_F32, nans, 4)}, device), 1);
        assert_int_equal(winner_of("i->", TENSUM_MIN_PLUS, TENSUM_F32, 1, (const tensum_tensor[]){TENSOR(TENSUM_F32, nans, 4)}, device), 1);
        assert_int_equal(winner_of("i->", TENSUM_MAX_PLUS, TENSUM_F32, 1, (const tensum_tensor[]){TENSOR(TENSUM_F32, zeros, 3)}, device), 0);
        assert_int_equal(winner_of("i->", TENSUM_MAX_PLUS, TENSUM_F32, 1, (const tensum_tensor[]){TENSOR(TENSUM_F32, zeros, 0)}, device), -1);
        const float left[] = {1, 1}, right[] = {0, 0};
        assert_int_equal(winner_of("ij,jk->", TENSUM_MAX_PLUS, TENSUM_F32, 2, (const tensum_tensor[]){TENSOR(TENSUM_F32, left, 1, 2), TENSOR(TENSUM_F32, right, 2, 1)}, device), 0);
        /* +0 and -0 are equal */
        const float signs[] = {-0.0f, 0.0f};
        assert_int_equal(winner_of("i->", TENSUM_MAX_PLUS, TENSUM_F32, 1, (const tensum_tensor[]){TENSOR(TENSUM_F32, signs, 2)}, device), 0);
        /* integers: 0 (*) 5 and 0 (*) 7 are both 0, so the first wins; anything beats them */
        const int32_t z = -1073741823, none[] = {z, z}, some[] = {5, 7}, one[] = {z, -357913940};
        assert_int_equal(winner_of("i,i->", TENSUM_MAX_PLUS, TENSUM_I32, 2, (const tensum_tensor[]){TENSOR(TENSUM_I32, none, 2), TENSOR(TENSUM_I32, some, 2)}, device), 0);
        assert_int_equal(winner_of("i,i->", TENSUM_MAX_PLUS, TENSUM_I32, 2, (const tensum_tensor[]){TENSOR(TENSUM_I32, one, 2), TENSOR(TENSUM_I32, some, 2)}, device), 1);
        const int32_t most[] = {-z, -z}, less[] = {7, 5};
        assert_int_equal(winner_of("i,i->", TENSUM_MIN_PLUS, TENSUM_I32, 2, (const tensum_tensor[]){TENSOR(TENSUM_I32, most, 2), TENSOR(TENSUM_I32, less, 2)}, device), 0);
        /* saturated sums are compared before they are clamped */
        const int32_t r = 357913940, top[] = {r, r}, more[] = {1, 2};
        assert_int_equal(winner_of("i,i->", TENSUM_MAX_PLUS, TENSUM_I32, 2, (const tensum_tensor[]){TENSOR(TENSUM_I32, top, 2), TENSOR(TENSUM_I32, more, 2)}, device), 1);
    }
}

/* A long sum of equal terms: blocks, tiles and threads must not change which one is first. */
static void ties_in_long_sums(void **state)
{
    (void)state;
    enum { M = 37, N = 41, K = 600 };
    float *a = malloc(sizeof(float) * M * K), *b = malloc(sizeof(float) * K * N), *c = malloc(sizeof(float) * M * N);
    int32_t *winners = malloc(sizeof(int32_t) * M * N);
    tensum_context_options options = TENSUM_CONTEXT_OPTIONS_INIT;
    tensum_context *context = NULL;
    options.threads = 3;
    assert_int_equal(tensum_context_create(&options, &context), TENSUM_OK);
    for (int first = 0; first < K; first += 97) {
        memset(a, 0, sizeof(float) * M * K);
        for (int i = 0; i < K * N; i++) {
            b[i] = i / N < first ? -1.0f : 0.0f;
        }
        FOR_EACH_DEVICE (device) {
            const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, a, M, K), TENSOR(TENSUM_F32, b, K, N)};
            const tensum_tensor out = TENSOR(TENSUM_F32, c, M, N), w = TENSOR(TENSUM_I32, winners, M, N);
            contraction job = {.expression = "ij,jk->ik", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 2,
                               .output = &out, .winners = &w, .context = context};
            RUN(&job, device);
            for (int i = 0; i < M * N; i++) {
                assert_true(c[i] == 0.0f);
                assert_int_equal(winners[i], first);
            }
        }
    }
    tensum_context_release(context);
    free(a);
    free(b);
    free(c);
    free(winners);
}

static void slices_combine(void **state)
{
    (void)state;
    /* 2x3 times 3x2; slices over j */
    const double a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 2, -1};
    FOR_EACH_DEVICE (device) {
        double whole[4] = {0}, part[4] = {0}, rest[4] = {0}, accumulated[4] = {100, 100, 100, 100};
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, 2, 3), TENSOR(TENSUM_F64, b, 3, 2)};
        const tensum_tensor w = TENSOR(TENSUM_F64, whole, 2, 2), p = TENSOR(TENSUM_F64, part, 2, 2), r = TENSOR(TENSUM_F64, rest, 2, 2), c = TENSOR(TENSUM_F64, accumulated, 2, 2);
        contraction job = {.expression = "ij,jk->ik", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F64, .operands = inputs, .operand_count = 2, .output = &w,
                           .slice_count = 1, .slices = EXTENTS('j')};
        RUN(&job, device);
        ASSERT_F64(whole, {7, -1, 16, -1});
        job.output = &p;
        job.slice_number = 1;
        RUN(&job, device);
        ASSERT_F64(part, {1, 0, 4, 0});
        job.output = &r;
        job.slice_first = 1;
        job.slice_number = 0;
        RUN(&job, device);
        ASSERT_F64(rest, {6, -1, 12, -1});
        assert_int_equal(tensum_combine(TENSUM_SUM_PRODUCT, &r, &p), TENSUM_OK);
        ASSERT_F64(part, {7, -1, 16, -1});
        job.output = &c;
        job.accumulate = 1;
        RUN(&job, device);
        ASSERT_F64(accumulated, {106, 99, 112, 99});
        job.slice_first = 2;
        job.slice_number = 2;
        REFUSE(&job, device, TENSUM_STATUS_INVALID_ARGUMENT, "slice");
    }
    /* a sliced label of the output: each slice fills its part, 0 elsewhere */
    FOR_EACH_DEVICE (device) {
        double part[4] = {9, 9, 9, 9};
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, 2, 3), TENSOR(TENSUM_F64, b, 3, 2)};
        const tensum_tensor p = TENSOR(TENSUM_F64, part, 2, 2);
        contraction job = {.expression = "ij,jk->ik", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F64, .operands = inputs, .operand_count = 2, .output = &p,
                           .slice_count = 1, .slices = EXTENTS('i'), .slice_first = 1, .slice_number = 1};
        RUN(&job, device);
        ASSERT_F64(part, {-HUGE_VAL, -HUGE_VAL, 8, 6});
    }
}

static void unsupported_requests(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        const float data[] = {1, 2, 3, 4};
        float got[4], gradient[4];
        int32_t winner[4];
        int64_t assignment[8];
        const tensum_tensor one[] = {TENSOR(TENSUM_F32, data, 4)};
        const tensum_tensor three[] = {TENSOR(TENSUM_F32, data, 2, 2), TENSOR(TENSUM_F32, data, 2, 2), TENSOR(TENSUM_F32, data, 2, 2)};
        const tensum_tensor out = SCALAR(TENSUM_F32, got), w = SCALAR(TENSUM_I32, winner), g = TENSOR(TENSUM_F32, gradient, 4);
        contraction job = {.expression = "i->", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F32, .operands = one, .operand_count = 1, .output = &out, .winners = &w};
        REFUSE(&job, device, TENSUM_STATUS_UNSUPPORTED, "sum_product");
        job.winners = NULL;
        job.assignments = assignment;
        REFUSE(&job, device, TENSUM_STATUS_UNSUPPORTED, "sum_product");
        job.assignments = NULL;
        job.dtype = TENSUM_BOOL;
        REFUSE(&job, device, TENSUM_STATUS_UNSUPPORTED, "bool");
        job.dtype = TENSUM_F32;
        job.semiring = TENSUM_XOR_AND;
        REFUSE(&job, device, TENSUM_STATUS_UNSUPPORTED, "xor_and");
        const uint8_t bits[] = {1, 0, 1, 1};
        const tensum_tensor boolean[] = {TENSOR(TENSUM_BOOL, bits, 4)};
        const tensum_tensor bit = SCALAR(TENSUM_BOOL, got);
        job = (contraction){.expression = "i->", .semiring = TENSUM_XOR_AND, .dtype = TENSUM_BOOL, .operands = boolean, .operand_count = 1, .output = &bit, .gradients = &g};
        REFUSE(&job, device, TENSUM_STATUS_UNSUPPORTED, "xor_and");
        /* winners belong to one-step expressions */
        job = (contraction){.expression = "ij,jk,kl->", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operands = three, .operand_count = 3, .output = &out, .winners = &w};
        REFUSE(&job, device, TENSUM_STATUS_UNSUPPORTED, "step");
    }
    const float x[] = {1}, y[] = {2};
    float z = 0;
    const tensum_tensor inputs[] = {SCALAR(TENSUM_F32, x), SCALAR(TENSUM_F32, y)}, out = SCALAR(TENSUM_F32, &z);
    contraction job = {.expression = ",->", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 2, .output = &out};
    REFUSE(&job, ((tensum_device){TENSUM_CPU, 7}), TENSUM_STATUS_NO_DEVICE, "7");
}

static void wrong_tensors(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        float a[6] = {1, 2, 3, 4, 5, 6}, b[8] = {0}, c[16] = {0};
        double d[6] = {0};
        const tensum_tensor good[] = {TENSOR(TENSUM_F32, a, 2, 3), TENSOR(TENSUM_F32, b, 3, 2)};
        const tensum_tensor out = TENSOR(TENSUM_F32, c, 2, 2);
        contraction job = {.expression = "ij,jk->ik", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operands = good, .operand_count = 2, .output = &out};
        prepared made;
        tensum_run_arguments arguments;
        assert_int_equal(job_prepare(&job, device, &made), TENSUM_OK);
        job_arguments(&job, &arguments);
#define EXPECT_REFUSAL(field, tensors, wanted, words)                                                  \
    do {                                                                                               \
        const tensum_tensor *kept = arguments.field;                                                   \
        arguments.field = tensors;                                                                     \
        c[0] = 42;                                                                                     \
        assert_int_equal(tensum_run(made.program, made.workspace, &arguments), wanted);                \
        if (strstr(tensum_last_error(), words) == NULL) {                                              \
            fail_msg("message '%s' does not name '%s'", tensum_last_error(), words);                   \
        }                                                                                              \
        assert_true(c[0] == 42);                                                                       \
        arguments.field = kept;                                                                        \
    } while (0)
        EXPECT_REFUSAL(inputs, TENSORS(good[0], TENSOR(TENSUM_F64, d, 3, 2)), TENSUM_STATUS_DTYPE_MISMATCH, "operand 1");
        EXPECT_REFUSAL(inputs, TENSORS(good[0], TENSOR(TENSUM_F64, d, 3, 2)), TENSUM_STATUS_DTYPE_MISMATCH, "f64");
        EXPECT_REFUSAL(inputs, TENSORS(TENSOR(TENSUM_F32, a, 3, 2), good[1]), TENSUM_STATUS_SHAPE_MISMATCH, "operand 0");
        EXPECT_REFUSAL(inputs, TENSORS(good[0], TENSOR(TENSUM_F32, b, 6)), TENSUM_STATUS_SHAPE_MISMATCH, "operand 1");
        EXPECT_REFUSAL(inputs, TENSORS(good[0], TENSOR(TENSUM_F32, NULL, 3, 2)), TENSUM_STATUS_INVALID_ARGUMENT, "operand 1");
        EXPECT_REFUSAL(inputs, NULL, TENSUM_STATUS_INVALID_ARGUMENT, "inputs");
        EXPECT_REFUSAL(output, TENSORS(TENSOR(TENSUM_F32, c, 4)), TENSUM_STATUS_SHAPE_MISMATCH, "output");
        EXPECT_REFUSAL(output, TENSORS(TENSOR(TENSUM_F64, d, 2, 2)), TENSUM_STATUS_DTYPE_MISMATCH, "output");
        EXPECT_REFUSAL(output, NULL, TENSUM_STATUS_INVALID_ARGUMENT, "output");
        /* outputs that overlap themselves or an input */
        EXPECT_REFUSAL(output, TENSORS({c, TENSUM_F32, 2, EXTENTS(2, 2), EXTENTS(0, 1), {TENSUM_CPU, 0}}), TENSUM_STATUS_INVALID_ARGUMENT, "output");
        EXPECT_REFUSAL(output, TENSORS({c, TENSUM_F32, 2, EXTENTS(2, 2), EXTENTS(1, 1), {TENSUM_CPU, 0}}), TENSUM_STATUS_INVALID_ARGUMENT, "output");
        EXPECT_REFUSAL(output, TENSORS(TENSOR(TENSUM_F32, b + 4, 2, 2)), TENSUM_STATUS_INVALID_ARGUMENT, "output");
        EXPECT_REFUSAL(output, TENSORS({(char *)c + 1, TENSUM_F32, 2, EXTENTS(2, 2), NULL, {TENSUM_CPU, 0}}), TENSUM_STATUS_INVALID_ARGUMENT, "output");
#undef EXPECT_REFUSAL
        /* and the workspace is as good as before */
        assert_int_equal(tensum_run(made.program, made.workspace, &arguments), TENSUM_OK);
        assert_true(c[0] == 3);
        prepared_release(&made);
    }
}

static void accumulation(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        const float a[] = {1, 5}, b[] = {2, 3};
        float c[2] = {4, -NAN};
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F32, a, 2), TENSOR(TENSUM_F32, b, 2)}, out = TENSOR(TENSUM_F32, c, 2);
        contraction job = {.expression = "i,i->i", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operands = inputs, .operand_count = 2, .output = &out, .accumulate = 1};
        RUN(&job, device);
        ASSERT_F32(c, {4, NAN});
        job.accumulate = 0; /* what was there is never read */
        RUN(&job, device);
        ASSERT_F32(c, {3, 8});
        const tensum_tensor single[] = {TENSOR(TENSUM_F32, a, 2)};
        job = (contraction){.expression = "i->i", .semiring = TENSUM_SUM_PRODUCT, .dtype = TENSUM_F32, .operands = single, .operand_count = 1, .output = &out, .accumulate = 1};
        RUN(&job, device);
        ASSERT_F32(c, {4, 13});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diagonals_and_broadcasts),
        cmocka_unit_test(empty_sums_and_products),
        cmocka_unit_test(true_zeros_and_infinities),
        cmocka_unit_test(nan_propagates),
        cmocka_unit_test(nan_spoils_one_row),
        cmocka_unit_test(negative_zero),
        cmocka_unit_test(integer_tropical),
        cmocka_unit_test(integers_outside_their_range),
        cmocka_unit_test(rounding_before_comparing),
        cmocka_unit_test(ties),
        cmocka_unit_test(ties_in_long_sums),
        cmocka_unit_test(slices_combine),
        cmocka_unit_test(unsupported_requests),
        cmocka_unit_test(wrong_tensors),
        cmocka_unit_test(accumulation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
