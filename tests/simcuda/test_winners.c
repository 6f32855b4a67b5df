/* Winners of products by each of the CUDA kernels that find them, where intervals, panels and tiles end: compared with
 * loops over the definition (docs/semantics.md, points 5, 6 and 8). Kernels are chosen by leaving no others
 * (SIMCUDA_HIDE). */
#include <math.h>

#include "machine.h"

static uint32_t state;
static uint32_t below(uint32_t n)
{
    state = state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(state >> 8) * n >> 24);
}

/* ---- elements, as doubles: small integers, infinities and NaN are the same in every dtype that has them ---- */
static uint16_t to_half(double x, int exponent_bits, int mantissa_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const uint16_t sign = signbit(x) ? 0x8000u : 0;
    int exponent;
    double fraction;
    if (isnan(x)) {
        return 0x7fffu;
    }
    if (isinf(x)) {
        return (uint16_t)(sign | ((1 << exponent_bits) - 1) << mantissa_bits);
    }
    if (x == 0) {
        return sign;
    }
    fraction = frexp(fabs(x), &exponent); /* in [0.5, 1) */
    return (uint16_t)(sign | (exponent - 1 + bias) << mantissa_bits |
                      ((int)(fraction * (1 << (mantissa_bits + 1))) & ((1 << mantissa_bits) - 1)));
}
static double from_half(uint16_t bits, int exponent_bits, int mantissa_bits)
{
    const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1), mantissa = bits & ((1 << mantissa_bits) - 1);
    double x = exponent == (1 << exponent_bits) - 1 ? (mantissa != 0 ? NAN : INFINITY)
               : exponent == 0                       ? ldexp(mantissa, 2 - (1 << (exponent_bits - 1)) - mantissa_bits)
                                                     : ldexp((1 << mantissa_bits) + mantissa, exponent - (1 << (exponent_bits - 1)) + 1 - mantissa_bits);
    return (bits & 0x8000u) != 0 ? -x : x;
}
static void put(tensum_dtype dtype, void *data, int64_t i, double x)
{
    switch (dtype) {
    case TENSUM_F16: ((uint16_t *)data)[i] = to_half(x, 5, 10); break;
    case TENSUM_BF16: ((uint16_t *)data)[i] = to_half(x, 8, 7); break;
    case TENSUM_F32: ((float *)data)[i] = (float)x; break;
    case TENSUM_F64: ((double *)data)[i] = x; break;
    case TENSUM_I16: ((int16_t *)data)[i] = (int16_t)x; break;
    case TENSUM_I32: ((int32_t *)data)[i] = (int32_t)x; break;
    case TENSUM_I64: ((int64_t *)data)[i] = (int64_t)x; break;
    default: ((uint8_t *)data)[i] = (uint8_t)x; break;
    }
}
static double get(tensum_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case TENSUM_F16: return from_half(((const uint16_t *)data)[i], 5, 10);
    case TENSUM_BF16: return from_half(((const uint16_t *)data)[i], 8, 7);
    case TENSUM_F32: return ((const float *)data)[i];
    case TENSUM_F64: return ((const double *)data)[i];
    case TENSUM_I16: return ((const int16_t *)data)[i];
    case TENSUM_I32: return ((const int32_t *)data)[i];
    case TENSUM_I64: return (double)((const int64_t *)data)[i];
    default: return ((const uint8_t *)data)[i];
    }
}
static int is_float(tensum_dtype dtype) { return dtype <= TENSUM_F64; }

typedef enum pattern { TIES, RISING, FALLING, EQUAL, EDGES, ZEROS, NANS, SIGNS, BELOW, NEGATIVE, PATTERN_COUNT } pattern;
static const char *const pattern_names[] = {"ties", "rising", "falling", "equal", "edges", "zeros", "NaN", "signs of 0", "below 0", "negative"};

/* Element of row i (or column) at term k of `sum`. `zero`: that of the semiring. */
static double element(pattern which, tensum_semiring semiring, tensum_dtype dtype, int64_t i, int64_t k, int64_t sum, double zero)
{
    const int positive = semiring == TENSUM_MAX_TIMES || semiring == TENSUM_OR_AND;
    const double small = semiring == TENSUM_OR_AND ? below(8) == 0 : (double)below(7) - (positive ? 0 : 3);
    switch (which) {
    case RISING: return semiring == TENSUM_OR_AND ? k * 2 > sum : (double)(k / 8 + 1);
    case FALLING: return semiring == TENSUM_OR_AND ? k * 2 < sum : (double)((sum - k) / 8 + 1);
    case EQUAL: return 1;
    case EDGES: /* the best terms lie beside multiples of 16 */
        return semiring == TENSUM_OR_AND ? (k + i % 3) % 16 == 1 && below(3) == 0 : (k + 1 + i % 3) % 16 <= 2 ? 3 + (double)below(6) : 1;
    case ZEROS: return i % 3 == 0 || below(50) != 0 ? zero : 1;
    case NANS: return is_float(dtype) && below(300) == 0 ? (double)NAN : is_float(dtype) && below(100) == 0 && !positive ? (double)INFINITY : small;
    case BELOW: return semiring == TENSUM_OR_AND ? small : positive ? 0 : -(double)below(7);
    case SIGNS: return is_float(dtype) ? (below(2) ? 0.0 : -0.0) : small;
    case NEGATIVE: /* positive, for min_plus */
        if (positive || below(30) == 0) {
            return zero;
        }
        return is_float(dtype) && below(500) == 0 ? (double)NAN : (double)(below(9) + 1) * (semiring == TENSUM_MIN_PLUS ? 1 : -1);
    default: return small;
    }
}
static double term(tensum_semiring semiring, double x, double y)
{
    switch (semiring) {
    case TENSUM_MAX_PLUS: case TENSUM_MIN_PLUS: return x + y;
    case TENSUM_MAX_MIN: return isnan(x) || isnan(y) ? (double)NAN : x < y ? x : y;
    default: return x * y;
    }
}

static long compared;
/* `batch` products, labelled by x. */
static void check_batch(tensum_semiring semiring, tensum_dtype dtype, pattern which, int64_t batch, int64_t m, int64_t n, int64_t sum, int layout,
                        tensum_dtype winner_dtype)
{
    const char *const expressions[] = {"xik,xkj->xij", "xki,xkj->xij", "xik,xjk->xij", "xki,xjk->xji", "xiak,xakj->xij"};
    const int64_t inner = layout == 4 && sum % 3 == 0 ? 3 : 1;
    const int64_t a_extents[][4] = {{batch, m, sum}, {batch, sum, m}, {batch, m, sum}, {batch, sum, m}, {batch, m, inner, sum / inner}};
    const int64_t b_extents[][4] = {{batch, sum, n}, {batch, sum, n}, {batch, n, sum}, {batch, n, sum}, {batch, inner, sum / inner, n}};
    const int64_t c_extents[] = {batch, layout == 3 ? n : m, layout == 3 ? m : n};
    const int32_t rank = layout == 4 ? 4 : 3;
    const int smaller = semiring == TENSUM_MIN_PLUS;
    const size_t bytes = tensum_dtype_bytes(dtype), winner_bytes = tensum_dtype_bytes(winner_dtype);
    const double zero = semiring == TENSUM_OR_AND || semiring == TENSUM_MAX_TIMES ? 0
                        : dtype == TENSUM_I16 ? (semiring == TENSUM_MAX_MIN ? INT16_MIN : smaller ? 16383 : -16383)
                        : dtype == TENSUM_I32 ? (semiring == TENSUM_MAX_MIN ? INT32_MIN : smaller ? 1073741823 : -1073741823)
                        : smaller             ? (double)INFINITY
                                              : -(double)INFINITY;
    const size_t rows = (size_t)(batch * m), columns = (size_t)(batch * n), results = (size_t)(batch * m * n);
    double *x = malloc(rows * (size_t)sum * sizeof *x), *y = malloc(columns * (size_t)sum * sizeof *y);
    void *a = malloc(rows * (size_t)sum * bytes), *b = malloc(columns * (size_t)sum * bytes), *c = malloc(results * bytes);
    void *w = malloc(results * winner_bytes);
    const tensum_tensor inputs[] = {{a, dtype, rank, a_extents[layout], NULL, cpu}, {b, dtype, rank, b_extents[layout], NULL, cpu}};
    const tensum_tensor output = {c, dtype, 3, c_extents, NULL, cpu}, winners = {w, winner_dtype, 3, c_extents, NULL, cpu};
    const int64_t *extents[] = {a_extents[layout], b_extents[layout]};
    const int32_t ranks[] = {rank, rank};
    const int64_t offsets[] = {0, 2}, children[] = {0, 1};
    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    tensum_plan *plan = NULL;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    tensum_status status;

    state = (uint32_t)(m * 31 + n * 7 + sum * 1001 + (int)which * 77 + layout);
    for (int64_t i = 0; i < batch * m; i++) {
        for (int64_t k = 0; k < sum; k++) {
            x[i * sum + k] = element(which, semiring, dtype, i, k, sum, zero);
            put(dtype, a, layout == 1 || layout == 3 ? (i / m * sum + k) * m + i % m : i * sum + k, x[i * sum + k]);
        }
    }
    for (int64_t j = 0; j < batch * n; j++) {
        for (int64_t k = 0; k < sum; k++) {
            y[j * sum + k] = element(which, semiring, dtype, j + 1, k, sum, zero);
            put(dtype, b, layout == 2 || layout == 3 ? j * sum + k : (j / n * sum + k) * n + j % n, y[j * sum + k]);
        }
    }
    succeeds(tensum_network_parse(expressions[layout], 2, ranks, extents, 0, NULL, NULL, &network));
    succeeds(tensum_tree_from_ssa(2, 1, offsets, children, &tree));
    plan_options.semiring = semiring;
    plan_options.dtype = dtype;
    succeeds(tensum_plan_create(network, tree, &plan_options, &plan));
    options.modes = TENSUM_VALUE | TENSUM_WINNERS;
    options.device = cuda0;
    status = tensum_program_create(plan, NULL, &options, &program);
    if (status == TENSUM_STATUS_UNSUPPORTED && dtype == TENSUM_F64 && getenv("SIMCUDA_HIDE") != NULL) {
        goto done; /* f64 has none of the kernels that are left */
    }
    succeeds(status);
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    run.inputs = inputs;
    run.output = &output;
    run.winners = &winners;
    memset(w, 0x55, results * winner_bytes);
    succeeds(tensum_run(program, workspace, &run));
    for (int64_t i = 0; i < batch * m; i++) {
        for (int64_t j = i / m * n; j < i / m * n + n; j++) {
            const int64_t at = layout == 3 ? j * m + i % m : i * n + j % n;
            const int64_t got = winner_bytes == 4 ? ((const int32_t *)w)[at] : ((const int64_t *)w)[at];
            double best = zero;
            int64_t winner = 0;
            for (int64_t k = 0; k < sum; k++) {
                const double t = term(semiring, x[i * sum + k], y[j * sum + k]);
                if ((smaller ? t < best : t > best) || (isnan(t) && !isnan(best))) {
                    best = t;
                    winner = k;
                }
            }
            if ((dtype == TENSUM_I16 || dtype == TENSUM_I32) && (semiring == TENSUM_MAX_PLUS || semiring == TENSUM_MIN_PLUS) &&
                fabs(best) > 2 * (floor(fabs(zero) / 3) - 1)) { /* 0 of the semiring and whatever is added to it */
                best = zero;
                winner = 0;
            }
            const double value = get(dtype, c, at);
            if (got != winner || (value != best && !(isnan(value) && isnan(best)))) {
                fail_msg("%s %s, %s, %s, %d x %d x %d: %g at %d, not %g at %d (row %d, column %d)", tensum_semiring_name(semiring),
                         tensum_dtype_name(dtype), pattern_names[which], expressions[layout], (int)m, (int)n, (int)sum, value,
                         (int)got, best, (int)winner, (int)i, (int)j);
            }
            compared++;
        }
    }
    no_fault();
done:
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    tensum_plan_release(plan);
    tensum_tree_release(tree);
    tensum_network_release(network);
    free(x);
    free(y);
    free(a);
    free(b);
    free(c);
    free(w);
}

static void check(tensum_semiring semiring, tensum_dtype dtype, pattern which, int64_t m, int64_t n, int64_t sum, int layout)
{
    check_batch(semiring, dtype, which, 1, m, n, sum, layout, TENSUM_I32);
}

static const struct {
    tensum_semiring semiring;
    tensum_dtype dtype;
} pairs[] = {{TENSUM_MAX_PLUS, TENSUM_F32}, {TENSUM_MIN_PLUS, TENSUM_F32}, {TENSUM_MAX_TIMES, TENSUM_F32}, {TENSUM_MAX_MIN, TENSUM_F32},
             {TENSUM_MAX_PLUS, TENSUM_I32}, {TENSUM_MAX_PLUS, TENSUM_F16}, {TENSUM_MIN_PLUS, TENSUM_BF16}, {TENSUM_MAX_PLUS, TENSUM_I16},
             {TENSUM_MAX_TIMES, TENSUM_I16}, {TENSUM_MAX_MIN, TENSUM_I16}, {TENSUM_MAX_PLUS, TENSUM_F64}, {TENSUM_OR_AND, TENSUM_BOOL}};

static void around_edges(void **unused)
{
    const int64_t sums[] = {1, 3, 15, 16, 18, 47, 63, 64, 65, 66, 127, 129, 191, 192, 258};
    (void)unused;
    for (size_t pair = 0; pair < sizeof pairs / sizeof pairs[0]; pair++) {
        for (int which = 0; which < PATTERN_COUNT; which++) {
            const int64_t sum = sums[(pair * 5 + (size_t)which * 4) % 15];
            check(pairs[pair].semiring, pairs[pair].dtype, (pattern)which, 33 + which, 70 - which, sum, (int)(pair + (size_t)which) % 5);
        }
    }
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        check(TENSUM_MAX_PLUS, TENSUM_F32, EDGES, 129, 131, sums[i], (int)i % 5);
        check(TENSUM_MAX_PLUS, TENSUM_F32, (pattern)(i % PATTERN_COUNT), 9, 20, sums[i], (int)i % 5);
    }
}
/* Results are stored another way where a tile has no edges and all terms are still in shared memory. */
static void whole_tiles(void **unused)
{
    const int64_t sums[] = {4, 16, 32, 48, 60, 62, 64, 68};
    (void)unused;
    for (size_t pair = 0; pair < sizeof pairs / sizeof pairs[0]; pair++) {
        for (int which = 0; which < PATTERN_COUNT; which++) {
            check(pairs[pair].semiring, pairs[pair].dtype, (pattern)which, 64, 64, sums[(pair * 5 + (size_t)which * 3) % 8], (int)(pair + (size_t)which) % 5);
        }
    }
    for (int which = 0; which < PATTERN_COUNT; which++) {
        check(TENSUM_MAX_PLUS, TENSUM_F32, (pattern)which, 128, 64, 64, which % 5);
        check(TENSUM_MAX_PLUS, TENSUM_F32, (pattern)which, 64, 128, 60, (which + 1) % 5);
    }
}
/* Tiles of 128 x 256 results and their edges, with several intervals of 64 terms. */
static void large_tiles(void **unused)
{
    const int64_t sums[] = {64, 65, 128, 200, 320};
    (void)unused;
    for (int which = 0; which < PATTERN_COUNT; which++) {
        check(TENSUM_MAX_PLUS, TENSUM_F32, (pattern)which, 128, 256, sums[which % 5], which % 5);
        check(TENSUM_MIN_PLUS, TENSUM_F32, (pattern)which, 130, 300, sums[(which + 1) % 5], (which + 1) % 5);
        check(TENSUM_MAX_PLUS, TENSUM_F16, (pattern)which, 140, 257, sums[(which + 2) % 5], (which + 2) % 5);
    }
}
/* As many products have their own kernel. */
static void many_small_products(void **unused)
{
    const int64_t sizes[][3] = {{64, 64, 64}, {20, 36, 32}, {64, 8, 4}, {68, 64, 60}, {4, 132, 16}, {33, 68, 44}, {64, 64, 32}};
    (void)unused;
    for (size_t pair = 0; pair < sizeof pairs / sizeof pairs[0]; pair++) {
        for (int which = 0; which < PATTERN_COUNT; which++) {
            const int64_t *size = sizes[(pair + (size_t)which) % 7];
            check_batch(pairs[pair].semiring, pairs[pair].dtype, (pattern)which, 3 + which % 2 * 4, size[0], size[1], size[2],
                        (int)(pair * 2 + (size_t)which) % 4, which % 3 == 0 ? TENSUM_I64 : TENSUM_I32);
        }
    }
    for (int which = 0; which < PATTERN_COUNT; which++) {
        check_batch(TENSUM_MAX_PLUS, TENSUM_F32, (pattern)which, 40, 64, 64, 64, which % 4, TENSUM_I32);
    }
}
static void more_intervals_than_bytes_can_number(void **unused)
{
    (void)unused;
    check(TENSUM_MAX_PLUS, TENSUM_F32, RISING, 5, 9, 64 * 256, 0); /* one step to an interval, all numbers used */
    check(TENSUM_MAX_PLUS, TENSUM_F32, TIES, 5, 9, 64 * 256 + 1, 2);
    check(TENSUM_MAX_PLUS, TENSUM_F32, RISING, 5, 9, 64 * 256 + 100, 1);
    check(TENSUM_MAX_PLUS, TENSUM_F32, EDGES, 9, 5, 3 * 11111, 4);
    check(TENSUM_MAX_PLUS, TENSUM_F32, NANS, 9, 5, 40000, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(around_edges), cmocka_unit_test(whole_tiles), cmocka_unit_test(large_tiles),
                                       cmocka_unit_test(many_small_products), cmocka_unit_test(more_intervals_than_bytes_can_number)};
    const int unable = machine_open();
    return unable != 0 ? unable : cmocka_run_group_tests(tests, NULL, NULL);
}
