/* Control of the simulated driver, for tests. The library stands in for libcuda.so.1: point TENSUM_CUDA_LIBRARY at it.
 *
 * Nothing runs when it is enqueued: a stream's work is done when somebody waits for it, and in part, by the seed, when
 * somebody asks. So whatever relies on work being done early fails here every time. All is deterministic for one seed
 * and one order of calls.
 *
 * Environment, read at cuInit: SIMCUDA_SEED, SIMCUDA_DEVICES (2), SIMCUDA_UNITS (multiprocessors of each: 4), SIMCUDA_SHARED
 * (KiB of shared memory that a block may have: 227), SIMCUDA_MEMORY (bytes per device), SIMCUDA_POOLS (1), SIMCUDA_FAIL (name:n);
 * and at every look-up SIMCUDA_HIDE (parts of names of kernels that modules then lack). */
#ifndef TS_SIMCUDA_SIMCUDA_H
#define TS_SIMCUDA_SIMCUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counters since the last simcuda_reset_counters. */
typedef struct simcuda_counters {
    uint64_t uploads, upload_bytes, downloads, download_bytes;
    uint64_t launches, graph_launches, module_loads, allocations, releases, synchronisations;
    uint64_t pending; /* operations enqueued and not yet done, now */
    uint64_t live;    /* device blocks allocated and not released, now */
    uint64_t live_host, live_events, live_graphs;
} simcuda_counters;
void simcuda_count(simcuda_counters *counters);
void simcuda_reset_counters(void);
/* Launches, in graphs too, of kernels with this in their names since the last simcuda_reset_counters, once they have run. */
uint64_t simcuda_ran(const char *part);

/* The n-th call (1-based, from now) of the function `name` ("cuMemAlloc_v2"; NULL: of any) returns `result`.
 * n = 0 turns it off. */
void simcuda_fail(const char *name, long n, int result);
/* Every call of the function returns `result` from now on; NULL: all are mended. */
void simcuda_break(const char *name, int result);
/* 0: no work is done but what somebody waits for, so that counts are exact. 1 at first. */
void simcuda_drift(int on);
/* Calls of the function (NULL: of any) since simcuda_fail was last called. */
long simcuda_calls(const char *name);
/* Name of the call that simcuda_fail made fail, or NULL. */
const char *simcuda_failed(void);

/* What went wrong in simulated work, or NULL: barriers that not all threads reach, writes outside of a block or after
 * its release, and so on. Cleared by the call. */
const char *simcuda_fault(void);

void simcuda_seed(uint64_t seed);

/* Device memory for tests, reachable through the copies below; no counter sees these three. */
uint64_t simcuda_allocate(int device, size_t bytes);
void simcuda_release(uint64_t address);
void simcuda_write(uint64_t address, const void *from, size_t bytes);
void simcuda_read(void *to, uint64_t address, size_t bytes);

/* For libraries that stand in for others on top of this one: a call that may be made to fail, by its name (0: go on);
 * a fault; is this live device memory?; work in stream order, or captured. `drop` frees `user` at last. */
int simcuda_call(const char *name);
void simcuda_report(const char *text);
int simcuda_inside(uint64_t address, size_t bytes);
int simcuda_enqueue(void *stream, int (*work)(void *), void (*drop)(void *), void *user);

/* Contexts, streams, capture and graphs, as the driver's calls of the same name. The handle of device n is 100 + n. */
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
int cuGraphLaunch(void *exec, void *stream);
int cuGraphDestroy(void *graph);
int cuGraphExecDestroy(void *exec);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamDestroy_v2(void *stream);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **graph);

#ifdef __cplusplus
}
#endif
#endif
