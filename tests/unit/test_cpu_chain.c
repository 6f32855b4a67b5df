/* Tiny operands one after the other against a huge one, which the CPU backend takes in one pass, against the oracle's steps:
 * in every layout, with slices, accumulated, with infinities and NaN. Whole numbers: sums are exact in every order. */
#include "support.h"

#include "execute/workspace.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CASES 4
#else
#define CASES 24
#endif

enum { MOST_OPERANDS = 12, MOST_LABELS = 52 };

typedef struct built {
    char expression[256];
    int32_t rank[MOST_OPERANDS + 1];
    char labels[MOST_OPERANDS + 1][32]; /* the last: the output's */
    int64_t extents[MOST_OPERANDS + 1][32], strides[MOST_OPERANDS + 1][32], span[MOST_OPERANDS + 1];
    int64_t children[2 * MOST_OPERANDS];
    int32_t count, steps;
} built;

static ts_random generator;
static int64_t extent_of[128];
static int32_t chained; /* programs with chains */

static int32_t below(int32_t n) { return (int32_t)ts_random_below(&generator, (uint64_t)n); }

static void shuffle(char *labels, int32_t count)
{
    for (int32_t i = count - 1; i > 0; i--) {
        const int32_t j = below(i + 1);
        const char label = labels[i];
        labels[i] = labels[j];
        labels[j] = label;
    }
}

/* Extents, and strides in an order of their own where `strange`. */
static void lay_out(built *b, int32_t tensor, bool strange)
{
    int32_t order[32];
    int64_t stride = 1;
    const int32_t rank = b->rank[tensor];
    for (int32_t i = 0; i < rank; i++) {
        const int32_t j = strange ? below(i + 1) : i;
        order[i] = order[j];
        order[j] = i;
        b->extents[tensor][i] = extent_of[(int)b->labels[tensor][i]];
    }
    for (int32_t i = rank - 1; i >= 0; i--) {
        b->strides[tensor][order[i]] = stride;
        stride *= b->extents[tensor][order[i]];
    }
    b->span[tensor] = stride;
}

static bool has(const char *labels, int32_t count, char label) { return memchr(labels, label, (size_t)count) != NULL; }

static void drop(char *labels, int32_t *count, char label)
{
    for (int32_t i = 0; i < *count; i++) {
        if (labels[i] == label) {
            labels[i] = labels[--*count];
            return;
        }
    }
}

/* A huge operand of 2^bits elements, tiny ones, and sometimes one that sums most of the result. */
static void build(built *b, int32_t bits, int32_t tinies, bool ends)
{
    static const char names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char live[64], all[MOST_LABELS + 1];
    int32_t count = 0, used = 0, now = 0;
    memset(b, 0, sizeof *b);
    memcpy(all, names, sizeof all);
    shuffle(all, MOST_LABELS);
    for (int32_t left = bits; left > 0; used++) {
        const int32_t own = left > 1 && below(6) == 0 ? 2 : 1;
        extent_of[(int)all[used]] = (int64_t)1 << own;
        live[count++] = all[used];
        left -= own;
        now += own;
    }
    b->rank[0] = count;
    memcpy(b->labels[0], live, (size_t)count);
    b->count = 1;
    b->children[0] = 0;
    int64_t before = 0;
    for (int32_t t = 0; t < tinies; t++) {
        char *labels = b->labels[b->count];
        int32_t rank = 0;
        const int32_t batch = below(3), sums = 1 + below(2), added = now > bits ? below(2) : 1 + below(2);
        for (int32_t i = 0; i < batch + sums && count > 4; i++) {
            const char label = live[below(count)];
            if (has(labels, rank, label)) {
                continue;
            }
            labels[rank++] = label;
            if (i >= batch) {
                drop(live, &count, label);
                now -= extent_of[(int)label] == 4 ? 2 : 1;
            }
        }
        for (int32_t i = 0; i < added; i++) {
            extent_of[(int)all[used]] = 2;
            labels[rank++] = live[count++] = all[used++];
            now++;
        }
        shuffle(labels, rank);
        b->rank[b->count] = rank;
        const bool swapped = below(2) == 0;
        b->children[2 * b->steps + swapped] = before;
        b->children[2 * b->steps + !swapped] = b->count;
        before = -1 - b->steps; /* a step's result: numbered when all operands are known */
        b->count++;
        b->steps++;
    }
    if (ends) {
        char *labels = b->labels[b->count];
        int32_t rank = 0;
        while (rank < 9) {
            const char label = live[below(count)];
            labels[rank++] = label;
            drop(live, &count, label);
        }
        b->rank[b->count] = rank;
        b->children[2 * b->steps] = before;
        b->children[2 * b->steps + 1] = b->count++;
        b->steps++;
    }
    for (int32_t i = 0; i < 2 * b->steps; i++) {
        b->children[i] = b->children[i] < 0 ? b->count - 1 - b->children[i] : b->children[i];
    }
    shuffle(live, count);
    b->rank[b->count] = count;
    memcpy(b->labels[b->count], live, (size_t)count);
    size_t at = 0;
    for (int32_t t = 0; t <= b->count; t++) {
        at += (size_t)snprintf(b->expression + at, sizeof b->expression - at, "%s%.*s", t == 0 ? "" : t == b->count ? "->" : ",",
                               (int)b->rank[t], b->labels[t]);
        lay_out(b, t, below(3) == 0);
    }
}

static void *numbers(tensum_dtype dtype, int64_t count, bool special)
{
    const size_t bytes = tensum_dtype_bytes(dtype);
    char *data = malloc((size_t)count * bytes);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        const int32_t x = below(4) - 1;
        const int32_t odd = special ? below(20000) : 20000;
        const double strange = odd == 0 ? (double)NAN : odd == 1 ? (double)INFINITY : odd < 9 ? -(double)INFINITY : (double)x;
        const float f = (float)strange;
        const uint8_t truth = x > 0;
        const int16_t narrow = (int16_t)x;
        const double pair[2] = {x, -x};
        memcpy(data + (size_t)i * bytes,
               dtype == TENSUM_F32    ? (const void *)&f
               : dtype == TENSUM_F64  ? (const void *)&strange
               : dtype == TENSUM_I32  ? (const void *)&x
               : dtype == TENSUM_I16  ? (const void *)&narrow
               : dtype == TENSUM_BOOL ? (const void *)&truth
                                      : (const void *)pair,
               bytes);
    }
    return data;
}

/* Element by element; one NaN is as good as another. */
static bool same(tensum_dtype dtype, const char *x, const char *y, int64_t count)
{
    const size_t bytes = tensum_dtype_bytes(dtype);
    for (int64_t i = 0; i < count; i++, x += bytes, y += bytes) {
        float f[2] = {0};
        double d[2] = {0};
        if (memcmp(x, y, bytes) == 0) {
            continue;
        }
        memcpy(dtype == TENSUM_F32 ? (void *)&f[0] : (void *)&d[0], x, dtype == TENSUM_F32 ? 4 : 8 * (dtype == TENSUM_F64));
        memcpy(dtype == TENSUM_F32 ? (void *)&f[1] : (void *)&d[1], y, dtype == TENSUM_F32 ? 4 : 8 * (dtype == TENSUM_F64));
        if (!isnan(f[0]) + !isnan(f[1]) != 0 && !isnan(d[0]) + !isnan(d[1]) != 0) {
            return false;
        }
    }
    return true;
}

static void check(tensum_context *context, tensum_semiring semiring, tensum_dtype dtype)
{
    const size_t bytes = tensum_dtype_bytes(dtype);
    const int32_t bits = 21 - (bytes >= 4) - (bytes >= 8) + below(2);
    const bool special = tensum_semiring_selective(semiring) && semiring != TENSUM_OR_AND && dtype != TENSUM_I32 && dtype != TENSUM_I16 &&
                         below(2) == 0;
    built b;
    build(&b, bits, 2 + below(5), below(2) == 0);
    tensum_tensor operands[MOST_OPERANDS], output;
    for (int32_t t = 0; t < b.count; t++) {
        operands[t] = (tensum_tensor){numbers(dtype, b.span[t], special), dtype, b.rank[t], b.extents[t], b.strides[t], {TENSUM_CPU, 0}};
    }
    const int32_t o = b.count;
    const size_t room = (size_t)b.span[o] * bytes;
    char *results[2] = {malloc(room), malloc(room)};
    assert_true(results[0] != NULL && results[1] != NULL);
    const int64_t slice = b.labels[0][below(b.rank[0])];
    contraction job = {.expression = b.expression, .semiring = semiring, .dtype = dtype, .operand_count = b.count,
                       .operands = operands, .output = &output, .step_count = b.steps, .children = b.children, .unchecked = 1,
                       .context = context, .accumulate = below(4) == 0};
    if (below(4) == 0) {
        job.slice_count = 1;
        job.slices = &slice;
    }
    for (int device = 0; device < 2; device++) {
        const tensum_device devices[2] = {{TENSUM_REFERENCE, 0}, {TENSUM_CPU, 0}};
        prepared made;
        tensum_run_arguments arguments;
        memset(results[device], 0, room);
        output = (tensum_tensor){results[device], dtype, b.rank[o], b.extents[o], b.strides[o], {TENSUM_CPU, 0}};
        assert_int_equal(job_prepare(&job, devices[device], &made), TENSUM_OK);
        chained += device == 1 && ((const ts_compiled *)made.program->compiled)->chain_count > 0;
        job_arguments(&job, &arguments);
        assert_int_equal(tensum_run(made.program, made.workspace, &arguments), TENSUM_OK);
        prepared_release(&made);
    }
    if (!same(dtype, results[0], results[1], b.span[o])) {
        print_error("%s over %s: %s\n", tensum_semiring_name(semiring), tensum_dtype_name(dtype), b.expression);
        fail();
    }
    for (int32_t t = 0; t < b.count; t++) {
        free(operands[t].data);
    }
    free(results[0]);
    free(results[1]);
}

static void chains(void **state)
{
    static const struct {
        tensum_semiring semiring;
        tensum_dtype dtype;
    } pairs[] = {{TENSUM_SUM_PRODUCT, TENSUM_F32}, {TENSUM_MAX_PLUS, TENSUM_F32}, {TENSUM_MAX_PLUS, TENSUM_F64},
                 {TENSUM_SUM_PRODUCT, TENSUM_C128}, {TENSUM_MAX_PLUS, TENSUM_I32}, {TENSUM_MIN_MAX, TENSUM_F32},
                 {TENSUM_OR_AND, TENSUM_BOOL}, {TENSUM_MIN_PLUS, TENSUM_I16}};
    tensum_context *context = NULL;
    tensum_context_options options = TENSUM_CONTEXT_OPTIONS_INIT;
    (void)state;
    options.threads = 2;
    ts_random_seed(&generator, 20);
    chained = 0;
    assert_int_equal(tensum_context_create(&options, &context), TENSUM_OK);
    for (int i = 0; i < CASES; i++) {
        check(context, pairs[i % 8].semiring, pairs[i % 8].dtype);
    }
    assert_true(chained > CASES / 2);
    tensum_context_release(context);
}

/* Diagonals only: each step has as many positions of a batch as a part of a tile can have. Whole numbers, so that the expected
 * values follow from the indices alone. */
static void diagonals(void **state)
{
    enum { BITS = 19, COUNT = 1 << BITS };
    (void)state;
    float *huge = malloc(COUNT * sizeof *huge), *result = malloc(COUNT * sizeof *result), tiny[3][512];
    assert_true(huge != NULL && result != NULL);
    for (int32_t i = 0; i < COUNT; i++) {
        huge[i] = (float)(i % 1021);
    }
    for (int32_t i = 0; i < 512; i++) {
        tiny[0][i] = (float)(i * 3 % 64);
        tiny[1][i] = (float)(i * 5 % 64);
        tiny[2][i] = (float)(i * 7 % 64);
    }
    for (int32_t width = 5; width <= 9; width++) {
        for (int32_t at = 0; at + width <= BITS; at += 5) {
            tensum_context *context = NULL;
            const tensum_context_options options = TENSUM_CONTEXT_OPTIONS_INIT;
            static const int64_t extents[BITS] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
            static const char labels[] = "abcdefghijklmnopqrs";
            char expression[128];
            prepared made;
            tensum_run_arguments arguments;
            snprintf(expression, sizeof expression, "%s,%.*s,%.*s,%.*s->%s", labels, width, labels + at, width, labels + at, width,
                     labels + at, labels);
            const tensum_tensor operands[] = {{huge, TENSUM_F32, BITS, extents, NULL, {TENSUM_CPU, 0}},
                                              {tiny[0], TENSUM_F32, width, extents, NULL, {TENSUM_CPU, 0}},
                                              {tiny[1], TENSUM_F32, width, extents, NULL, {TENSUM_CPU, 0}},
                                              {tiny[2], TENSUM_F32, width, extents, NULL, {TENSUM_CPU, 0}}};
            const tensum_tensor output = {result, TENSUM_F32, BITS, extents, NULL, {TENSUM_CPU, 0}};
            assert_int_equal(tensum_context_create(&options, &context), TENSUM_OK);
            const contraction job = {.expression = expression, .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operand_count = 4,
                                     .operands = operands, .output = &output, .step_count = 3,
                                     .children = EXTENTS(0, 1, 4, 2, 5, 3), .unchecked = 1, .context = context};
            assert_int_equal(job_prepare(&job, (tensum_device){TENSUM_CPU, 0}, &made), TENSUM_OK);
            const int64_t positions = made.program->backend->chain_positions(made.plan->algebra);
            assert_int_equal(((const ts_compiled *)made.program->compiled)->chain_count, (int64_t)1 << width <= positions);
            job_arguments(&job, &arguments);
            assert_int_equal(tensum_run(made.program, made.workspace, &arguments), TENSUM_OK);
            prepared_release(&made);
            tensum_context_release(context);
            for (int32_t i = 0; i < COUNT; i++) {
                const int32_t j = i >> (BITS - at - width) & ((1 << width) - 1);
                const float expected = huge[i] + tiny[0][j] + tiny[1][j] + tiny[2][j];
                if (result[i] != expected) {
                    print_error("%s: element %d is %g, not %g\n", expression, (int)i, (double)result[i], (double)expected);
                    fail();
                }
            }
        }
    }
    free(huge);
    free(result);
}

/* Chains need buffers, which a limit may leave no room for: such a program runs its steps one by one. */
static void chains_keep_to_a_limit(void **state)
{
    enum { BITS = 19, COUNT = 1 << BITS };
    static const int64_t extents[BITS] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    static const char expression[] = "abcdefghijklmnopqrs,tb,ut->acdefghijklmnopqrsu";
    static const float matrix[2][4] = {{0, 1, 2, 3}, {5, 0, 1, 7}};
    const uint64_t result_bytes = COUNT * sizeof(float);
    float *huge = malloc(result_bytes), *result = malloc(result_bytes);
    uint64_t chain_needs = 0, least = 0;
    tensum_context *context = NULL;
    tensum_context_options options = TENSUM_CONTEXT_OPTIONS_INIT;
    (void)state;
    assert_true(huge != NULL && result != NULL);
    options.threads = 24; /* each has its buffers */
    assert_int_equal(tensum_context_create(&options, &context), TENSUM_OK);
    for (int32_t i = 0; i < COUNT; i++) {
        huge[i] = (float)(i % 1021);
    }
    const tensum_tensor operands[] = {{huge, TENSUM_F32, BITS, extents, NULL, {TENSUM_CPU, 0}},
                                      {(void *)(uintptr_t)matrix[0], TENSUM_F32, 2, extents, NULL, {TENSUM_CPU, 0}},
                                      {(void *)(uintptr_t)matrix[1], TENSUM_F32, 2, extents, NULL, {TENSUM_CPU, 0}}};
    const tensum_tensor output = {result, TENSUM_F32, BITS, extents, NULL, {TENSUM_CPU, 0}};
    contraction job = {.expression = expression, .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F32, .operand_count = 3,
                       .operands = operands, .output = &output, .step_count = 2, .children = EXTENTS(0, 1, 3, 2), .unchecked = 1,
                       .context = context};
    bool chained_before = true;
    for (uint64_t limit = 64 << 20; limit > result_bytes; limit -= 128 << 10) {
        prepared made;
        tensum_run_arguments arguments;
        job.memory_limit = limit;
        const tensum_status status = job_prepare(&job, (tensum_device){TENSUM_CPU, 0}, &made);
        if (status != TENSUM_OK) {
            assert_int_equal(status, TENSUM_STATUS_MEMORY_LIMIT);
            prepared_release(&made);
            break;
        }
        const bool chains_here = ((const ts_compiled *)made.program->compiled)->chain_count > 0;
        assert_true(chained_before || !chains_here);
        chain_needs = chains_here ? limit : chain_needs;
        least = limit;
        if (chains_here != chained_before || limit == 64 << 20) {
            memset(result, 0, result_bytes);
            job_arguments(&job, &arguments);
            assert_int_equal(tensum_run(made.program, made.workspace, &arguments), TENSUM_OK);
            for (int32_t i = 0; i < COUNT; i++) {
                /* acdefghijklmnopqrsu: a is the first bit, u the last. */
                const int32_t a = i >> (BITS - 1), rest = i >> 1 & ((1 << (BITS - 2)) - 1), u = i & 1;
                float best = -INFINITY;
                for (int32_t b = 0; b < 2; b++) {
                    for (int32_t t = 0; t < 2; t++) {
                        const float x = huge[a << (BITS - 1) | b << (BITS - 2) | rest] + matrix[0][2 * t + b] + matrix[1][2 * u + t];
                        best = x > best ? x : best;
                    }
                }
                assert_true(result[i] == best);
            }
        }
        chained_before = chains_here;
        prepared_release(&made);
    }
    assert_true(chain_needs > 0 && least < chain_needs);
    tensum_context_release(context);
    free(huge);
    free(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chains), cmocka_unit_test(diagonals), cmocka_unit_test(chains_keep_to_a_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
