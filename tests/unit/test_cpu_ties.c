/* First winners of the CPU backend where equal maxima are planted at known places, on both sides of the edges of what
 * kernels and drivers walk through: blocks of winners, chunks, groups, tiles, tasks. Environment TENSUM_CPU_ISA and
 * TENSUM_CPU_CACHES choose kernels and chunks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algebra/element.h"
#include "backend/cpu/cpu.h"

#define MOST_LEFT 120
#define MOST_RIGHT 150
#define MOST_SUM 6500
#define PLANTED 3 /* in a row of a, and in a column of b */
#define MOST_GAP 3 /* elements behind a row of winners, which are nobody's */

static uint64_t state = 20240607;
static int64_t below(int64_t bound)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((state >> 33) % (uint64_t)bound);
}

static void put(tensum_dtype dtype, void *data, int64_t at, int value)
{
    switch (dtype) {
    case TENSUM_F16: ((uint16_t *)data)[at] = ts_store_f16((float)value); break;
    case TENSUM_BF16: ((uint16_t *)data)[at] = ts_store_bf16((float)value); break;
    case TENSUM_F32: ((float *)data)[at] = (float)value; break;
    case TENSUM_F64: ((double *)data)[at] = value; break;
    case TENSUM_I16: ((int16_t *)data)[at] = (int16_t)value; break;
    case TENSUM_I32: ((int32_t *)data)[at] = value; break;
    case TENSUM_I64: ((int64_t *)data)[at] = value; break;
    default: ((uint8_t *)data)[at] = (uint8_t)value; break;
    }
}

/* Places at and around multiples of powers of two, where something ends or begins. */
static int64_t place(int64_t sum)
{
    const int64_t step = (int64_t)8 << below(9), at = below(sum / step + 1) * step + below(3) - 1;
    return below(4) == 0 ? below(sum) : at < 0 ? 0 : at >= sum ? sum - 1 : at;
}

static ts_pool *pools[2];
static char *a, *b, *c;
static int64_t *winners;

static void one_case(ts_algebra algebra)
{
    static const int64_t sums[] = {1, 16, 31, 32, 33, 64, 100, 255, 256, 257, 512, 513, 1000, 1024, 2047, 2049, 4097, 6145, 6500};
    const int64_t left = 1 + below(below(2) == 0 ? 12 : MOST_LEFT), right = 1 + below(below(2) == 0 ? 17 : MOST_RIGHT);
    const int64_t sum = sums[below((int64_t)(sizeof sums / sizeof *sums))];
    const bool bits = algebra.semiring == TENSUM_OR_AND;
    const bool low = algebra.semiring == TENSUM_MIN_PLUS || algebra.semiring == TENSUM_MIN_TIMES || algebra.semiring == TENSUM_MIN_MAX;
    const bool by_rows = below(2) == 0, a_by_rows = below(2) == 0, b_by_rows = below(2) == 0; /* planted in a; memory orders */
    const int usual = bits ? 0 : low ? 3 : 1, best = bits ? 1 : low ? 1 : 3, other = bits ? 1 : 2;
    const bool apart = below(4) == 0; /* columns of winners do not lie side by side */
    const int64_t column = apart ? left : 1, row = apart ? 1 : right + below(MOST_GAP + 1);
    int64_t first[MOST_LEFT > MOST_RIGHT ? MOST_LEFT : MOST_RIGHT];
    ts_mode modes[3] = {
        {.extent = left, .a = a_by_rows ? sum : 1, .c = right, .w = row},
        {.extent = right, .b = b_by_rows ? 1 : sum, .c = 1, .w = column},
        {.extent = sum, .a = a_by_rows ? 1 : left, .b = b_by_rows ? right : 1},
    };
    for (int64_t i = 0; i < left * sum; i++) {
        put(algebra.dtype, a, i, by_rows ? usual : other);
    }
    for (int64_t i = 0; i < sum * right; i++) {
        put(algebra.dtype, b, i, by_rows ? other : usual);
    }
    for (int64_t i = 0; i < (by_rows ? left : right); i++) {
        first[i] = sum;
        for (int n = 0; n < PLANTED; n++) {
            const int64_t k = place(sum);
            first[i] = k < first[i] ? k : first[i];
            put(algebra.dtype, by_rows ? a : b, by_rows ? i * modes[0].a + k * modes[2].a : i * modes[1].b + k * modes[2].b, best);
        }
    }
    const ts_contract_spec spec = {
        .algebra = algebra, .left_count = 1, .right_count = 1, .sum_count = 1, .modes = modes, .batch = 1, .left = left,
        .right = right, .sum = sum, .winner_bytes = below(2) == 0 ? 4 : 8,
    };
    ts_run run = {.pool = pools[below(2)], .scratch_bytes = ts_cpu_contract_scratch(&spec, 2)};
    if (run.scratch_bytes > 0) {
        assert_int_equal(ts_allocate_aligned(run.scratch_bytes, "scratch", &run.scratch), TENSUM_OK);
        memset(run.scratch, 0x7f, run.scratch_bytes);
    }
    memset(winners, 0x55, (size_t)(MOST_LEFT * (MOST_RIGHT + MOST_GAP)) * sizeof *winners);
    assert_int_equal(ts_cpu_contract(&spec, a, b, c, winners, &run), TENSUM_OK);
    const unsigned char *bytes = (const unsigned char *)winners;
    for (int64_t i = 0; i < left && !apart; i++) {
        for (int64_t at = (i * row + right) * spec.winner_bytes; at < (i + 1) * row * spec.winner_bytes; at++) {
            assert_int_equal(bytes[at], 0x55);
        }
    }
    for (int64_t i = 0; i < left; i++) {
        for (int64_t j = 0; j < right; j++) {
            const int64_t at = i * row + j * column, expected = first[by_rows ? i : j];
            const int64_t found = spec.winner_bytes == 4 ? ((const int32_t *)winners)[at] : winners[at];
            if (found != expected) {
                fail_msg("%s %s %lld x %lld x %lld, %s: winner[%lld,%lld] is %lld, expected %lld",
                         tensum_semiring_name(algebra.semiring), tensum_dtype_name(algebra.dtype), (long long)left,
                         (long long)right, (long long)sum, ts_cpu_isa_name(), (long long)i, (long long)j, (long long)found,
                         (long long)expected);
            }
        }
    }
    ts_free(run.scratch);
}

static void first_of_equals_wins(void **unused)
{
    (void)unused;
    assert_int_equal(ts_allocate(MOST_LEFT * MOST_SUM, 8, "test", &a), TENSUM_OK);
    assert_int_equal(ts_allocate(MOST_RIGHT * MOST_SUM, 8, "test", &b), TENSUM_OK);
    assert_int_equal(ts_allocate(MOST_LEFT * MOST_RIGHT, 8, "test", &c), TENSUM_OK);
    assert_int_equal(ts_allocate(MOST_LEFT * (MOST_RIGHT + MOST_GAP), 8, "test", &winners), TENSUM_OK);
    for (int semiring = 0; semiring < TENSUM_SEMIRING_COUNT; semiring++) {
        for (int dtype = 0; dtype < TENSUM_DTYPE_COUNT; dtype++) {
            const ts_algebra algebra = {.semiring = (tensum_semiring)semiring, .dtype = (tensum_dtype)dtype};
            if (tensum_semiring_selective(algebra.semiring) && ts_cpu_kernel_find(algebra.semiring, algebra.dtype) != NULL) {
                for (int i = 0; i < 12; i++) {
                    one_case(algebra);
                }
            }
        }
    }
    ts_free(a);
    ts_free(b);
    ts_free(c);
    ts_free(winners);
}

/* ---- what a few chunks see only: NaN in some terms of a long sum, and the first of very many booleans ---- */

typedef struct long_sum {
    ts_algebra algebra;
    int64_t left, right, sum;
    int64_t at[8]; /* the term of row i that wins, everywhere: at[i % 8]; < 0: none is put in */
    bool opposite; /* NaN by infinity - infinity */
} long_sum;

static void check_long_sum(const long_sum *test, int pool)
{
    const int64_t left = test->left, right = test->right, sum = test->sum;
    const tensum_dtype dtype = test->algebra.dtype;
    const size_t element = tensum_dtype_bytes(dtype);
    const bool bits = dtype == TENSUM_BOOL;
    ts_mode modes[3] = {{.extent = left, .a = sum, .c = right, .w = right}, {.extent = right, .b = 1, .c = 1, .w = 1}, {.extent = sum, .a = 1, .b = right}};
    char *x = malloc((size_t)(left * sum) * element), *y = malloc((size_t)(sum * right) * element), *z = malloc((size_t)(left * right) * element);
    int64_t *found = malloc((size_t)(left * right) * sizeof *found);
    assert_true(x != NULL && y != NULL && z != NULL && found != NULL);
    for (int64_t i = 0; i < left * sum; i++) {
        put(dtype, x, i, bits ? 0 : 1);
    }
    for (int64_t i = 0; i < sum * right; i++) {
        put(dtype, y, i, 1);
    }
    for (int64_t i = 0; i < left; i++) {
        const int64_t k = test->at[i % 8], at = i * sum + k;
        const float not_a_number = test->opposite ? (float)INFINITY : (float)NAN;
        const double wide = not_a_number;
        if (k < 0) {
            continue;
        }
        if (bits) {
            x[at] = 1;
        } else if (dtype == TENSUM_F16) {
            ((uint16_t *)(void *)x)[at] = ts_store_f16(not_a_number);
        } else {
            memcpy(x + (size_t)at * element, dtype == TENSUM_F32 ? (const void *)&not_a_number : (const void *)&wide, element);
        }
        for (int64_t j = 0; j < right && test->opposite; j++) { /* the other rows meet -infinity there, which never is the largest */
            const float low = -(float)INFINITY;
            memcpy(y + (size_t)(k * right + j) * element, &low, element);
        }
    }
    const ts_contract_spec spec = {.algebra = test->algebra, .modes = modes, .left_count = 1, .right_count = 1, .sum_count = 1,
                                   .batch = 1, .left = left, .right = right, .sum = sum, .winner_bytes = 8};
    ts_run run = {pools[pool], NULL, ts_cpu_contract_scratch(&spec, ts_pool_threads(pools[pool]))};
    assert_int_equal(ts_allocate_aligned(run.scratch_bytes, "test", &run.scratch), TENSUM_OK);
    assert_int_equal(ts_cpu_contract(&spec, x, y, z, found, &run), TENSUM_OK);
    for (int64_t i = 0; i < left; i++) {
        const int64_t expected = test->at[i % 8] >= 0 ? test->at[i % 8] : 0; /* the first of equals, or of none */
        for (int64_t j = 0; j < right; j++) {
            if (found[i * right + j] != expected) {
                fail_msg("%s over %s, %d x %d x %d: the winner of (%d, %d) is %d, not %d", tensum_semiring_name(test->algebra.semiring),
                         tensum_dtype_name(dtype), (int)left, (int)right, (int)sum, (int)i, (int)j, (int)found[i * right + j], (int)expected);
            }
        }
    }
    ts_free(run.scratch);
    free(x);
    free(y);
    free(z);
    free(found);
}

static void not_a_number_wins_whatever_follows(void **unused)
{
    static const tensum_semiring semirings[] = {TENSUM_MAX_PLUS, TENSUM_MIN_PLUS, TENSUM_MAX_TIMES, TENSUM_MIN_TIMES, TENSUM_MAX_MIN, TENSUM_MIN_MAX};
    static const tensum_dtype dtypes[] = {TENSUM_F32, TENSUM_F64, TENSUM_F16};
    static const int64_t sums[] = {300, 1000, 2000, 9000, 20000};
    (void)unused;
    for (size_t s = 0; s < sizeof semirings / sizeof *semirings; s++) {
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            for (size_t n = 0; n < sizeof sums / sizeof *sums; n++) {
                const long_sum test = {.algebra = {semirings[s], dtypes[d], 0}, .left = 24, .right = 33, .sum = sums[n],
                                       .at = {5, -1, 0, sums[n] / 2, sums[n] - 1, 31, 257, -1}};
                check_long_sum(&test, (int)(n & 1));
            }
        }
    }
    for (size_t n = 1; n < sizeof sums / sizeof *sums; n++) { /* infinities of two signs meet in every row: so one place for all */
        const long_sum test = {.algebra = {TENSUM_MAX_PLUS, TENSUM_F32, 0}, .left = 8, .right = 5, .sum = sums[n],
                               .at = {9, 9, 9, 9, 9, 9, 9, 9}, .opposite = true};
        check_long_sum(&test, 0);
    }
}

static void the_first_of_many_booleans_wins(void **unused)
{
    (void)unused;
    for (int64_t sum = 9000; sum < 300000; sum = sum * 7 / 3) {
        const long_sum test = {.algebra = {TENSUM_OR_AND, TENSUM_BOOL, 0}, .left = 24, .right = 33, .sum = sum,
                               .at = {0, sum - 1, 8192 % sum, 16383 % sum, 16384 % sum, sum / 2, 40000 % sum, -1}};
        check_long_sum(&test, sum % 2 == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_of_equals_wins), cmocka_unit_test(not_a_number_wins_whatever_follows),
                                       cmocka_unit_test(the_first_of_many_booleans_wins)};
    if (ts_pool_create(1, &pools[0]) != TENSUM_OK || ts_pool_create(2, &pools[1]) != TENSUM_OK) {
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ts_pool_destroy(pools[0]);
    ts_pool_destroy(pools[1]);
    return failed;
}
