/* The thread pool: each index once, worker numbers unshared, nested and concurrent regions, fork. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/pool.h"

enum { MANY = 5000, THREADS = 4 };

typedef struct tally {
    atomic_int drawn[MANY];
    atomic_int inside[THREADS];
    atomic_int shared; /* two calls at once saw the same worker number */
    atomic_int out_of_range;
    ts_pool *pool;
} tally;

static void count(void *argument, int64_t index, int32_t worker)
{
    tally *t = argument;
    if (index < 0 || index >= MANY || worker < 0 || worker >= THREADS) {
        atomic_fetch_add(&t->out_of_range, 1);
        return;
    }
    if (atomic_fetch_add(&t->inside[worker], 1) != 0) {
        atomic_fetch_add(&t->shared, 1);
    }
    atomic_fetch_add(&t->drawn[index], 1);
    atomic_fetch_sub(&t->inside[worker], 1);
}

static void clear(tally *t)
{
    for (int i = 0; i < MANY; i++) {
        atomic_store(&t->drawn[i], 0);
    }
}

static void assert_each_once(tally *t, int64_t count_)
{
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(atomic_load(&t->drawn[i]), i < count_ ? 1 : 0);
    }
    assert_int_equal(atomic_load(&t->shared), 0);
    assert_int_equal(atomic_load(&t->out_of_range), 0);
}

static void every_index_is_drawn_once(void **state)
{
    (void)state;
    static tally t;
    ts_pool *pool = NULL;
    assert_int_equal(ts_pool_create(THREADS, &pool), TENSUM_OK);
    assert_int_equal(ts_pool_threads(pool), THREADS);
    const int64_t counts[] = {0, 1, 2, 3, 4, 5, 63, MANY};
    for (int round = 0; round < 40; round++) {
        int64_t n = counts[round % 8];
        clear(&t);
        ts_pool_run(pool, n, count, &t);
        assert_each_once(&t, n);
    }
    ts_pool_destroy(pool);
}

static void a_missing_pool_is_serial(void **state)
{
    (void)state;
    static tally t;
    assert_int_equal(ts_pool_threads(NULL), 1);
    ts_pool_run(NULL, 17, count, &t);
    assert_each_once(&t, 17);
    ts_pool_destroy(NULL);
}

static void thread_counts_are_checked(void **state)
{
    (void)state;
    ts_pool *pool = NULL;
    assert_int_equal(ts_pool_create(-1, &pool), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tensum_last_error(), "-1"));
    assert_null(pool);
    assert_int_equal(ts_pool_create(0, &pool), TENSUM_OK);
    assert_true(ts_pool_threads(pool) >= 1);
    ts_pool_destroy(pool); /* never used: no thread was started */
}

static void nest(void *argument, int64_t index, int32_t worker)
{
    tally *t = argument;
    (void)worker;
    if (index == 0 || index == 3) {
        static tally inner[2];
        tally *mine = &inner[index != 0];
        ts_pool_run(t->pool, 100, count, mine);
        for (int i = 0; i < 100; i++) {
            if (atomic_load(&mine->drawn[i]) != 1) {
                atomic_fetch_add(&t->out_of_range, 1);
            }
        }
    }
    atomic_fetch_add(&t->drawn[index], 1);
}

static void nested_regions_end(void **state)
{
    (void)state;
    static tally t;
    assert_int_equal(ts_pool_create(THREADS, &t.pool), TENSUM_OK);
    ts_pool_run(t.pool, 8, nest, &t);
    assert_each_once(&t, 8);
    ts_pool_destroy(t.pool);
}

static void *use_pool(void *argument)
{
    ts_pool *pool = argument;
    tally *t = NULL;
    if (ts_allocate_zero(1, sizeof *t, "tally", &t) != TENSUM_OK) {
        return argument;
    }
    void *bad = NULL;
    for (int round = 0; round < 50; round++) {
        clear(t);
        ts_pool_run(pool, 200, count, t);
        for (int i = 0; i < 200; i++) {
            if (atomic_load(&t->drawn[i]) != 1) {
                bad = argument;
            }
        }
    }
    if (atomic_load(&t->shared) != 0 || atomic_load(&t->out_of_range) != 0) {
        bad = argument;
    }
    ts_free(t);
    return bad;
}

static void concurrent_callers_do_not_disturb_each_other(void **state)
{
    (void)state;
    ts_pool *pool = NULL;
    pthread_t callers[3];
    assert_int_equal(ts_pool_create(THREADS, &pool), TENSUM_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&callers[i], NULL, use_pool, pool), 0);
    }
    for (int i = 0; i < 3; i++) {
        void *bad = pool;
        assert_int_equal(pthread_join(callers[i], &bad), 0);
        assert_null(bad);
    }
    ts_pool_destroy(pool);
}

static void a_forked_child_runs_serially(void **state)
{
    (void)state;
    static tally t;
    ts_pool *pool = NULL;
    assert_int_equal(ts_pool_create(THREADS, &pool), TENSUM_OK);
    ts_pool_run(pool, 64, count, &t); /* the parent's threads exist now */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static tally mine;
        ts_pool_run(pool, MANY, count, &mine);
        int wrong = 0;
        for (int i = 0; i < MANY; i++) {
            wrong += atomic_load(&mine.drawn[i]) != 1;
        }
        ts_pool_destroy(pool);
        _exit(wrong != 0);
    }
    int outcome = -1;
    assert_int_equal(waitpid(child, &outcome, 0), child);
    assert_true(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0);
    clear(&t);
    ts_pool_run(pool, 64, count, &t); /* and still work */
    assert_each_once(&t, 64);
    ts_pool_destroy(pool);
}

static void allocation_failures_leave_nothing(void **state)
{
    (void)state;
    long before = ts_test_live_allocations();
    for (long n = 1;; n++) {
        ts_pool *pool = NULL;
        ts_test_fail_allocation(n);
        tensum_status status = ts_pool_create(THREADS, &pool);
        ts_test_fail_allocation(0);
        if (status == TENSUM_OK) {
            assert_true(n > 1);
            ts_pool_destroy(pool);
            break;
        }
        assert_int_equal(status, TENSUM_STATUS_OUT_OF_MEMORY);
        assert_null(pool);
        assert_int_equal(ts_test_live_allocations(), before);
    }
    assert_int_equal(ts_test_live_allocations(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_is_drawn_once),
        cmocka_unit_test(a_missing_pool_is_serial),
        cmocka_unit_test(thread_counts_are_checked),
        cmocka_unit_test(nested_regions_end),
        cmocka_unit_test(concurrent_callers_do_not_disturb_each_other),
        cmocka_unit_test(a_forked_child_runs_serially),
        cmocka_unit_test(allocation_failures_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
