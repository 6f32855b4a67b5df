#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/pool.h"

#if defined(__x86_64__)
#define RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
#else
#define RELAX() ((void)0)
#endif

#define SPINS 4000 /* a few microseconds before sleeping */

/* One region at a time. A caller publishes (task, count), bumps `epoch` and works along; workers see the new
 * epoch, draw indices from `next`, and the last to leave lowers `active` to 0. */
struct ts_pool {
    int32_t threads; /* including the caller */
    int32_t started; /* workers running; -1: starting failed, stay serial */
    pid_t owner;     /* process that started them: a forked child has none */
    pthread_t *handles;
    atomic_flag busy;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    atomic_uint epoch;
    atomic_bool stop;
    ts_task task;
    void *argument;
    int64_t count;
    atomic_llong next;
    atomic_int active;
    atomic_int tickets; /* worker numbers */
};

static _Thread_local int inside; /* this thread is in a region: nested regions run serially */

static void draw(ts_pool *pool, int32_t worker)
{
    for (;;) {
        int64_t index = atomic_fetch_add(&pool->next, 1);
        if (index >= pool->count) {
            return;
        }
        pool->task(pool->argument, index, worker);
    }
}

static void *work(void *argument)
{
    ts_pool *pool = argument;
    int32_t worker = atomic_fetch_add(&pool->tickets, 1) + 1;
    unsigned seen = 0;
    inside = 1;
    for (;;) {
        int spins = 0;
        while (atomic_load_explicit(&pool->epoch, memory_order_acquire) == seen) {
            if (++spins < SPINS) {
                RELAX();
                continue;
            }
            pthread_mutex_lock(&pool->mutex);
            while (atomic_load(&pool->epoch) == seen) {
                pthread_cond_wait(&pool->wake, &pool->mutex);
            }
            pthread_mutex_unlock(&pool->mutex);
        }
        seen = atomic_load(&pool->epoch);
        if (atomic_load(&pool->stop)) {
            return NULL;
        }
        draw(pool, worker);
        atomic_fetch_sub_explicit(&pool->active, 1, memory_order_release);
    }
}

static void start(ts_pool *pool)
{
    pool->owner = getpid();
    while (pool->started < pool->threads - 1) {
        if (pthread_create(&pool->handles[pool->started], NULL, work, pool) != 0) {
            break; /* fewer workers than hoped for; with none the pool is serial */
        }
        pool->started++;
    }
}

tensum_status ts_pool_create(int32_t threads, ts_pool **out)
{
    ts_pool *pool = NULL;
    if (threads < 0) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "threads is %d, expected 0 or more", (int)threads);
    }
    if (threads == 0) {
        cpu_set_t set;
        threads = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    }
    if (threads > 1024) {
        threads = 1024;
    }
    tensum_status status = ts_allocate_zero(1, sizeof *pool, "thread pool", &pool);
    if (status != TENSUM_OK) {
        return status;
    }
    pool->threads = threads;
    status = ts_allocate((size_t)threads, sizeof *pool->handles, "thread pool", &pool->handles);
    if (status != TENSUM_OK) {
        ts_free(pool);
        return status;
    }
    atomic_flag_clear(&pool->busy);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    *out = pool;
    return TENSUM_OK;
}

static void publish(ts_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add_explicit(&pool->epoch, 1, memory_order_release);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

void ts_pool_destroy(ts_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    bool forked = pool->started > 0 && pool->owner != getpid();
    if (pool->started > 0 && !forked) {
        atomic_store(&pool->stop, true);
        publish(pool);
        for (int32_t i = 0; i < pool->started; i++) {
            pthread_join(pool->handles[i], NULL);
        }
    }
    if (!forked) { /* the child's copies still count the parent's sleeping workers: destroying would wait for them */
        pthread_cond_destroy(&pool->wake);
        pthread_mutex_destroy(&pool->mutex);
    }
    ts_free(pool->handles);
    ts_free(pool);
}

int32_t ts_pool_threads(const ts_pool *pool) { return pool != NULL ? pool->threads : 1; }

void ts_pool_run(ts_pool *pool, int64_t count, ts_task task, void *argument)
{
    bool serial = pool == NULL || pool->threads == 1 || count < 2 || inside;
    if (!serial) {
        serial = atomic_flag_test_and_set(&pool->busy);
        if (!serial) {
            if (pool->owner == 0) {
                start(pool);
            }
            if (pool->started == 0 || pool->owner != getpid()) {
                atomic_flag_clear(&pool->busy);
                serial = true;
            }
        }
    }
    if (serial) {
        for (int64_t i = 0; i < count; i++) {
            task(argument, i, 0);
        }
        return;
    }
    pool->task = task;
    pool->argument = argument;
    pool->count = count;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->active, pool->started);
    publish(pool);
    inside = 1;
    draw(pool, 0);
    inside = 0;
    for (int spins = 0; atomic_load_explicit(&pool->active, memory_order_acquire) != 0; spins++) {
        if (spins < SPINS) {
            RELAX();
        } else {
            sched_yield(); /* more threads than cores */
        }
    }
    atomic_flag_clear(&pool->busy);
}
