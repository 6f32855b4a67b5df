/* A small thread pool. One parallel region at a time; a caller that finds the pool busy, is itself a worker,
 * or runs after fork() does its work serially, so that no call ever waits for another. */
#ifndef TS_CORE_POOL_H
#define TS_CORE_POOL_H

#include <stdatomic.h>

#include "core/core.h"

typedef struct ts_pool ts_pool;

/* Defined here, below every user of its pool. */
struct tensum_context {
    atomic_int references;
    ts_pool *pool;
    struct ts_einsum_cache *cache; /* execute/cache.h */
};

/* A task: called once per index in [0, count), each exactly once, by any worker. `worker` is in
 * [0, ts_pool_threads) and no two concurrent calls share it: use it to index per-thread scratch. */
typedef void (*ts_task)(void *argument, int64_t index, int32_t worker);

/* threads: including the caller; 0: the CPUs this process may run on. */
tensum_status ts_pool_create(int32_t threads, ts_pool **pool);
void ts_pool_destroy(ts_pool *pool);
/* 1 for NULL. */
int32_t ts_pool_threads(const ts_pool *pool);
/* Run `task` for all indices; returns when all are done. pool may be NULL (serial). Allocates nothing,
 * except that the first call starts the threads (and runs serially if that fails). */
void ts_pool_run(ts_pool *pool, int64_t count, ts_task task, void *argument);

#endif
