/* Long sums of one operand on the CPU: their errors against exact sums stay within the bound of blocks
 * (docs/semantics.md, point 9), in every layout, which no chain of additions would. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"

static const int64_t extents[][2] = {{1, 3000000}, {3, 400000}, {20, 200000}, {300, 20000}, {700, 9000}}; /* kept, summed */

static void check(int64_t kept, int64_t terms, bool sum_inside, tensum_dtype dtype, bool equal, ts_pool *pool)
{
    const size_t element = tensum_dtype_bytes(dtype);
    const int64_t reals = (int64_t)element / 4;
    ts_mode modes[2] = {{.extent = kept, .a = sum_inside ? terms : 1, .c = 1}, {.extent = terms, .a = sum_inside ? 1 : kept}};
    float *a = malloc((size_t)(kept * terms) * element), *c = malloc((size_t)kept * element);
    double *exact = calloc((size_t)(kept * reals), sizeof *exact), *sizes = calloc((size_t)(kept * reals), sizeof *sizes);
    ts_random random;
    ts_random_seed(&random, 3);
    for (int64_t n = 0; n < kept; n++) {
        for (int64_t s = 0; s < terms; s++) {
            for (int64_t i = 0; i < reals; i++) {
                const float x = equal ? 0.1f * (float)(1 + n) : (float)ts_random_below(&random, 1000000) * 1e-6f;
                a[(n * modes[0].a + s * modes[1].a) * reals + i] = x;
                exact[n * reals + i] += x; /* 29 bits to spare */
                sizes[n * reals + i] += fabs((double)x);
            }
        }
    }
    const ts_reduce_spec spec = {.algebra = {TENSUM_SUM_PRODUCT, dtype, 0}, .kept_count = 1, .sum_count = 1, .modes = modes,
                                 .kept = kept, .sum = terms};
    ts_run run = {pool, NULL, ts_cpu_reduce_scratch(&spec, 2)};
    assert_int_equal(ts_allocate_aligned(run.scratch_bytes, "test", &run.scratch), TENSUM_OK);
    assert_int_equal(ts_cpu_reduce_step(&spec, a, c, NULL, &run), TENSUM_OK);
    const double bound = fmin((double)terms + 1, (double)terms / 65536 + 800) * 0x1p-24;
    for (int64_t n = 0; n < kept * reals; n++) {
        if (fabs(c[n] - exact[n]) > bound * sizes[n]) {
            fail_msg("%lld of %lld terms, %s: result %lld is %.9g, expected %.9g", (long long)kept, (long long)terms,
                     tensum_dtype_name(dtype), (long long)n, (double)c[n], exact[n]);
        }
    }
    ts_free(run.scratch);
    free(a);
    free(c);
    free(exact);
    free(sizes);
}

static void test_bound(void **state)
{
    ts_pool *pool = NULL;
    (void)state;
    assert_int_equal(ts_pool_create(2, &pool), TENSUM_OK);
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
        for (int way = 0; way < 8; way++) {
            check(extents[i][0], extents[i][1], (way & 1) != 0, (way & 2) != 0 ? TENSUM_C64 : TENSUM_F32, (way & 4) != 0,
                  way % 3 == 0 ? NULL : pool);
        }
    }
    ts_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
