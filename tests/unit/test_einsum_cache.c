/* The cache of compiled tensum_einsum calls: counters, the limit, concurrent use, errors that leave it alone. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/core.h"

static tensum_status multiply(tensum_context *context, const char *expression, int64_t n, double *a, double *b, double *c)
{
    int64_t extents[2] = {n, n};
    tensum_device device = {TENSUM_REFERENCE, 0};
    tensum_tensor operands[2] = {{a, TENSUM_F64, 2, extents, NULL, device}, {b, TENSUM_F64, 2, extents, NULL, device}};
    tensum_tensor output = {c, TENSUM_F64, 2, extents, NULL, device};
    return tensum_einsum(context, TENSUM_SUM_PRODUCT, expression, 2, operands, &output);
}

static tensum_cache_stats stats_of(tensum_context *context)
{
    tensum_cache_stats stats = TENSUM_CACHE_STATS_INIT;
    assert_int_equal(tensum_context_cache_stats(context, &stats), TENSUM_OK);
    return stats;
}

static void counts_hits_and_misses(void **state)
{
    double a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, c[4], a3[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, c3[9];
    tensum_context *context = NULL;
    (void)state;
    long live = ts_test_live_allocations();
    assert_int_equal(tensum_context_create(NULL, &context), TENSUM_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(multiply(context, "ij,jk->ik", 2, a, b, c), TENSUM_OK);
        assert_true(c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50);
    }
    assert_int_equal(multiply(context, "ij,jk->ki", 2, a, b, c), TENSUM_OK);
    assert_true(c[0] == 19 && c[1] == 43 && c[2] == 22 && c[3] == 50);
    assert_int_equal(multiply(context, "ij,jk->ik", 3, a3, a3, c3), TENSUM_OK);
    assert_true(c3[0] == 1 && c3[1] == 0 && c3[8] == 1);
    tensum_cache_stats stats = stats_of(context);
    assert_int_equal(stats.hits, 2);
    assert_int_equal(stats.misses, 3);
    assert_int_equal(stats.entries, 3);
    assert_int_equal(stats.evictions, 0);
    assert_int_equal(multiply(context, "ij,jk->iq", 2, a, b, c), TENSUM_OK); /* q takes the output's extent */
    assert_int_equal(multiply(context, "ij,jkl->ik", 2, a, b, c), TENSUM_STATUS_INVALID_EXPRESSION);
    assert_int_equal(stats_of(context).entries, 4);
    tensum_context_release(context);
    assert_int_equal(ts_test_live_allocations(), live);
}

static void respects_the_limit(void **state)
{
    double a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, c[4];
    char expression[16];
    tensum_context *context = NULL;
    (void)state;
    assert_int_equal(tensum_context_create(NULL, &context), TENSUM_OK);
    assert_int_equal(tensum_context_cache_limit(context, 2), TENSUM_OK);
    for (int i = 0; i < 6; i++) { /* three expressions in turn never fit into two places */
        snprintf(expression, sizeof expression, "i%c,%ck->ik", 'p' + i % 3, 'p' + i % 3);
        assert_int_equal(multiply(context, expression, 2, a, b, c), TENSUM_OK);
        assert_true(c[0] == 19);
    }
    tensum_cache_stats stats = stats_of(context);
    assert_int_equal(stats.hits, 0);
    assert_int_equal(stats.misses, 6);
    assert_int_equal(stats.evictions, 4);
    assert_int_equal(stats.entries, 2);
    assert_int_equal(tensum_context_cache_limit(context, 0), TENSUM_OK);
    assert_int_equal(stats_of(context).entries, 0);
    assert_int_equal(multiply(context, "ij,jk->ik", 2, a, b, c), TENSUM_OK);
    assert_int_equal(stats_of(context).entries, 0);
    assert_int_equal(tensum_context_cache_limit(context, -1), TENSUM_STATUS_INVALID_ARGUMENT);
    tensum_context_release(context);
}

typedef struct worker {
    tensum_context *context;
    double scale;
    int wrong;
} worker;

static void *work(void *argument)
{
    worker *self = argument;
    double a[4], b[4] = {1, 0, 0, 1}, c[4];
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 4; i++) {
            a[i] = self->scale * (i + 1) + round;
        }
        if (multiply(self->context, round % 2 ? "ij,jk->ik" : "ij,jk->ki", 2, a, b, c) != TENSUM_OK || c[0] != a[0] ||
            c[1] != a[round % 2 ? 1 : 2]) {
            self->wrong++;
        }
    }
    return NULL;
}

static void threads_share_it(void **state)
{
    tensum_context *context = NULL;
    pthread_t threads[6];
    worker workers[6];
    (void)state;
    assert_int_equal(tensum_context_create(NULL, &context), TENSUM_OK);
    for (int i = 0; i < 6; i++) {
        workers[i] = (worker){context, 10.0 * (i + 1), 0};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].wrong, 0);
    }
    tensum_cache_stats stats = stats_of(context);
    assert_int_equal(stats.hits + stats.misses, 6 * 300);
    assert_int_equal(stats.entries, 2);
    tensum_context_release(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_hits_and_misses),
        cmocka_unit_test(respects_the_limit),
        cmocka_unit_test(threads_share_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
