/* Devices, their modules and their memory: the one guarded registry of the CUDA backend. */
#ifndef TS_CUDA_DEVICE_H
#define TS_CUDA_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "algebra/algebra.h"
#include "backend/cuda/cutensor/cutensor.h"
#include "backend/cuda/driver.h"
#include "backend/cuda/kernels/abi.h"
#include "backend/cuda/retire.h"

/* Modules: one per semiring, then the common one. */
enum { TS_CUDA_COMMON = TENSUM_SEMIRING_COUNT, TS_CUDA_MODULE_COUNT };

/* Every kernel a module may have; see kernels/abi.h for the names and the structs they take. */
typedef enum ts_cuda_kernel {
#define TS_CUDA_KERNEL_ENUM(id, name, left, right, threads) TS_CUDA_KERNEL_CONTRACT_##id,
    TS_CUDA_CONTRACT_VARIANTS(TS_CUDA_KERNEL_ENUM)
#undef TS_CUDA_KERNEL_ENUM
#define TS_CUDA_KERNEL_ENUM(id, name, left, right, threads) TS_CUDA_KERNEL_CONTRACT_##id##_W,
        TS_CUDA_CONTRACT_VARIANTS(TS_CUDA_KERNEL_ENUM)
#undef TS_CUDA_KERNEL_ENUM
            TS_CUDA_KERNEL_COMBINE,
    TS_CUDA_KERNEL_REDUCE,
    TS_CUDA_KERNEL_REDUCE_ROW,
    TS_CUDA_KERNEL_ADJOINT,
    TS_CUDA_KERNEL_REDUCE_ADJOINT,
    TS_CUDA_KERNEL_DECODE,
    TS_CUDA_KERNEL_CHECK,
    TS_CUDA_KERNEL_ROUTE,
    TS_CUDA_KERNEL_STREAM,
    TS_CUDA_KERNEL_CHAIN,
    TS_CUDA_KERNEL_CHAIN_BACK,
    TS_CUDA_KERNEL_TREE,
    TS_CUDA_KERNEL_FOLD,
    TS_CUDA_KERNEL_SURVEY,
    TS_CUDA_KERNEL_PACK,
    TS_CUDA_KERNEL_PACKED,
    TS_CUDA_KERNEL_PACKED_W,
    TS_CUDA_KERNEL_WINNERS,
    TS_CUDA_KERNEL_TEAM,
    TS_CUDA_KERNEL_TEAMS,
    TS_CUDA_KERNEL_BATCHED,
    TS_CUDA_KERNEL_BATCHED_W,
    TS_CUDA_KERNEL_ABSORB,
    TS_CUDA_KERNEL_SEED,
    /* of the common module; by element size or dtype */
    TS_CUDA_KERNEL_COPY,
    TS_CUDA_KERNEL_MOVE,
    TS_CUDA_KERNEL_MOVE_NARROW,
    TS_CUDA_KERNEL_FILL,
    TS_CUDA_KERNEL_CONVERT,
    TS_CUDA_KERNEL_REFRESH,
    TS_CUDA_KERNEL_GATHER,
    TS_CUDA_KERNEL_ONE_HOT,
    TS_CUDA_KERNEL_COUNT
} ts_cuda_kernel;

typedef struct ts_cuda_function {
    ts_cu_function function; /* NULL where the module has none */
    bool looked_up;
    uint32_t shared_bytes; /* dynamic shared memory allowed so far */
} ts_cuda_function;

typedef struct ts_cuda_module {
    /* NULL until first used. What the build made has all dtypes in one; what is compiled at run time, one each. */
    ts_cu_module handles[TENSUM_DTYPE_COUNT];
    ts_cuda_function functions[TENSUM_DTYPE_COUNT][TS_CUDA_KERNEL_COUNT];
} ts_cuda_module;

#define TS_CUDA_COUNTERS(X)                                                                              \
    X(uploads) X(upload_bytes) X(downloads) X(download_bytes) X(launches) X(graph_launches)              \
    X(module_loads) X(allocations) X(releases) X(held_bytes) X(synchronisations) X(retired_deferred)     \
    X(retired_released) X(retired_waits) X(retired_barriers) X(retired_leaked) X(retired_in_flight)      \
    X(retired_in_flight_peak) X(retired_bytes) X(module_compilations)

typedef struct ts_cuda_counters {
#define TS_CUDA_COUNTER(name) atomic_uint_fast64_t name;
    TS_CUDA_COUNTERS(TS_CUDA_COUNTER)
#undef TS_CUDA_COUNTER
} ts_cuda_counters;

/* How products are made, where kernels suit them: as measured fastest, or for tests and measurements always one way. */
typedef enum ts_cuda_product {
    TS_CUDA_PRODUCT_FASTEST,
    TS_CUDA_PRODUCT_PACKED,    /* "always": through packed panels */
    TS_CUDA_PRODUCT_UNPACKED,  /* "never": the fastest without */
    TS_CUDA_PRODUCT_TEAMS,     /* "teams" of warps */
    TS_CUDA_PRODUCT_BATCHED    /* "batched": as many small ones */
} ts_cuda_product;

struct ts_cuda_device {
    const ts_cuda_driver *driver;
    int32_t ordinal;
    int handle;
    ts_cu_context context; /* the primary one, retained for the life of the process */
    char name[128];
    int units, capability; /* multiprocessors; 10 * major + minor */
    uint32_t shared_limit; /* dynamic shared bytes a block may be given */
    uint64_t memory_total;
    bool stream_ordered;   /* cuMemAllocAsync works */
    ts_cuda_product product; /* $TENSUM_CUDA_PACKED */
    atomic_bool lost;      /* an error that no later call survives */
    ts_cuda_counters counters;

    pthread_mutex_t mutex; /* guards what follows */
    bool opened;
    ts_cuda_module modules[TS_CUDA_MODULE_COUNT];

    /* These have locks of their own. */
    ts_cuda_retirement retirement;
    ts_cutensor_state cutensor;
};

#define TS_CUDA_COUNT(device, counter, amount) \
    atomic_fetch_add_explicit(&(device)->counters.counter, (uint_fast64_t)(amount), memory_order_relaxed)

/* Number of devices; opens the driver on first use. 0 where there is none. */
int32_t ts_cuda_device_count(void);
/* The device, opened; NO_DEVICE with the reason where there is none, DEVICE where it was lost. */
tensum_status ts_cuda_device_open(int32_t ordinal, ts_cuda_device **device);

/* Make the device's context current for this thread, and take it away again. */
tensum_status ts_cuda_enter(ts_cuda_device *device);
void ts_cuda_leave(ts_cuda_device *device);

/* Turn a driver's result into a status: names the device; marks it lost where the error is one that stays. */
tensum_status ts_cuda_result(ts_cuda_device *device, int result, const char *what);

/* A kernel, its module loaded if need be; *function is NULL where the module has no such kernel. The context is
 * current. `module` is a semiring or TS_CUDA_COMMON. */
tensum_status ts_cuda_find_kernel(ts_cuda_device *device, int module, tensum_dtype dtype, ts_cuda_kernel kernel,
                                  uint32_t shared_bytes, ts_cu_function *function);

/* The kernel's name without semiring and dtype. */
const char *ts_cuda_kernel_name(ts_cuda_kernel kernel);

/* Device memory, in the order of `stream`. The context is current. On failure the message has the bytes asked for,
 * free and held. Release never fails: what cannot be given back safely is leaked and counted. */
tensum_status ts_cuda_allocate(ts_cuda_device *device, size_t bytes, ts_cu_stream stream, const char *what,
                               ts_cu_address *address);
void ts_cuda_release(ts_cuda_device *device, ts_cu_address address, size_t bytes, ts_cu_stream stream);
/* Pinned host memory that the device sees too; *mapped may be NULL. */
tensum_status ts_cuda_allocate_host(ts_cuda_device *device, size_t bytes, const char *what, void *pointer_to_pointer,
                                    ts_cu_address *mapped);
void ts_cuda_release_host(ts_cuda_device *device, void *pointer);

/* Wait for a stream; counted. */
tensum_status ts_cuda_synchronize(ts_cuda_device *device, ts_cu_stream stream);
/* Is the caller recording this stream into a graph? */
bool ts_cuda_capturing(ts_cuda_device *device, ts_cu_stream stream);

/* The image of a module made at build time; NULL where the build had no nvcc. */
const void *ts_cuda_image(int module);

#endif
