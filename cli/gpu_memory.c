#include "gpu_memory.h"

#include "command.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* X(name, arguments) */
#define CALLS(X)                                              \
    X(cuDeviceGet, (int *device, int ordinal))                \
    X(cuDevicePrimaryCtxRetain, (void **context, int device)) \
    X(cuCtxPushCurrent_v2, (void *context))                   \
    X(cuCtxPopCurrent_v2, (void **context))                   \
    X(cuMemAlloc_v2, (uint64_t *address, size_t bytes))       \
    X(cuMemFree_v2, (uint64_t address))                       \
    X(cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t bytes, void *stream)) \
    X(cuMemcpyDtoDAsync_v2, (uint64_t to, uint64_t from, size_t bytes, void *stream))    \
    X(cuStreamSynchronize, (void *stream))

static struct {
    bool tried, found;
    void *context;
#define MEMBER(name, arguments) int(*name) arguments;
    CALLS(MEMBER)
#undef MEMBER
} driver;

/* Benchmarks use one device a process. */
static bool enter(tensum_device device)
{
    const char *file = getenv("TENSUM_CUDA_LIBRARY");

    if (!driver.tried) {
        void *library = dlopen(file != NULL && file[0] != '\0' ? file : "libcuda.so.1", RTLD_NOW), *symbol;
        int handle = 0;
        driver.tried = true;
        driver.found = library != NULL;
#define FIND(name, arguments)                                        \
    symbol = driver.found ? dlsym(library, #name) : NULL;            \
    driver.found = driver.found && symbol != NULL;                   \
    memcpy(&driver.name, &symbol, sizeof symbol);
        CALLS(FIND)
#undef FIND
        driver.found = driver.found && driver.cuDeviceGet(&handle, device.index) == 0 &&
                       driver.cuDevicePrimaryCtxRetain(&driver.context, handle) == 0;
    }
    return driver.found && driver.cuCtxPushCurrent_v2(driver.context) == 0;
}
static void leave(void)
{
    void *context;
    (void)driver.cuCtxPopCurrent_v2(&context);
}

void *gpu_allocate(tensum_device device, size_t bytes)
{
    uint64_t address = 0;

    if (enter(device)) {
        if (driver.cuMemAlloc_v2(&address, bytes > 0 ? bytes : 1) != 0) {
            address = 0;
        }
        leave();
    }
    return (void *)(uintptr_t)address;
}

bool gpu_write(tensum_device device, void *to, const void *from, size_t bytes)
{
    bool good = false;

    if (enter(device)) {
        good = bytes == 0 || (driver.cuMemcpyHtoDAsync_v2((uint64_t)(uintptr_t)to, from, bytes, NULL) == 0 &&
                              driver.cuStreamSynchronize(NULL) == 0);
        leave();
    }
    return good;
}

double gpu_copy_seconds(tensum_device device, void *to, const void *from, size_t bytes, int rounds)
{
    double seconds = 0;

    if (enter(device)) {
        bool good = driver.cuStreamSynchronize(NULL) == 0;
        const double start = seconds_now();
        for (int i = 0; i < rounds && good; i++) {
            good = driver.cuMemcpyDtoDAsync_v2((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, NULL) == 0;
        }
        good = good && driver.cuStreamSynchronize(NULL) == 0;
        seconds = good ? (seconds_now() - start) / rounds : 0;
        leave();
    }
    return seconds;
}

void gpu_free(tensum_device device, void *pointer)
{
    if (pointer != NULL && enter(device)) {
        (void)driver.cuMemFree_v2((uint64_t)(uintptr_t)pointer);
        leave();
    }
}
