#define _GNU_SOURCE
#include "backend/cuda/cutensor/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Belongs to the registry of devices, but is opened later: the library is large. */
static struct {
    pthread_mutex_t mutex; /* guards all of it until `tried`, after which it does not change */
    bool tried, there;
    char words[256];
    ts_cutensor_library calls;
} registry = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void *find(void *file, const char *symbol)
{
    void *address = dlsym(file, symbol);
    if (address == NULL && registry.words[0] == 0) {
        (void)snprintf(registry.words, sizeof registry.words, "it has no %s: version 2 is needed", symbol);
    }
    return address;
}

static void open_library(void)
{
    const char *name = secure_getenv("TENSUM_CUTENSOR_LIBRARY");
    ts_cutensor_library *library = &registry.calls;
    ts_ct_compute *compute;
    size_t (*version)(void);
    void *file, *address;

    if (name == NULL || name[0] == 0) {
        name = "libcutensor.so.2";
    }
    /* Never closed: it brings a CUDA runtime with exit handlers of its own. */
    file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (file == NULL) {
        const char *reason = dlerror();
        (void)snprintf(registry.words, sizeof registry.words, "%s", reason != NULL ? reason : name);
        return;
    }
#define TS_CUTENSOR_FIND(member, symbol, arguments) \
    address = find(file, #symbol);                  \
    memcpy(&library->member, &address, sizeof address);
    TS_CUTENSOR_CALLS(TS_CUTENSOR_FIND)
#undef TS_CUTENSOR_FIND
    address = find(file, "cutensorGetErrorString");
    memcpy(&library->error_string, &address, sizeof address);
    address = find(file, "cutensorGetVersion");
    memcpy(&version, &address, sizeof address);
    if ((address = find(file, "CUTENSOR_COMPUTE_DESC_32F")) != NULL) {
        compute = address;
        library->compute_32 = *compute;
    }
    if ((address = find(file, "CUTENSOR_COMPUTE_DESC_64F")) != NULL) {
        compute = address;
        library->compute_64 = *compute;
    }
    if (registry.words[0] == 0) {
        library->version = version();
        registry.there = library->version / 10000 == 2;
        if (!registry.there) {
            (void)snprintf(registry.words, sizeof registry.words, "it is version %zu.%zu; version 2 is needed",
                           library->version / 10000, library->version % 10000 / 100);
        }
    }
}

tensum_status ts_cutensor_open(const ts_cutensor_library **library)
{
    (void)pthread_mutex_lock(&registry.mutex);
    if (!registry.tried) {
        open_library();
        registry.tried = true;
    }
    (void)pthread_mutex_unlock(&registry.mutex);
    if (!registry.there) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "cuTENSOR cannot be used: %s", registry.words);
    }
    *library = &registry.calls;
    return TENSUM_OK;
}
