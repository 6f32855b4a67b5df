#define _GNU_SOURCE
#include "backend/cuda/driver.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef int (*get_address_function)(const char *symbol, void **function, int version, uint64_t flags, int *found);
typedef void (*any_function)(void);

/* POSIX lets a data pointer from dlsym hold a function; ISO C has no cast for it. */
static any_function to_function(void *pointer)
{
    any_function function = NULL;
    memcpy(&function, &pointer, sizeof function);
    return function;
}

static any_function find(void *library, get_address_function get_address, const char *name, const char *symbol)
{
    if (get_address != NULL) {
        void *function = NULL;
        int found = 0;
        /* 12000: the newest signatures that the table above uses. */
        if (get_address(name, &function, 12000, 0, &found) == TS_CU_SUCCESS && function != NULL) {
            return to_function(function);
        }
    }
    return to_function(dlsym(library, symbol));
}

tensum_status ts_cuda_driver_check(const ts_cuda_driver *driver, int result, const char *what)
{
    const char *name = NULL;
    const char *words = NULL;

    if (result == TS_CU_SUCCESS) {
        return TENSUM_OK;
    }
    if (driver->error_name(result, &name) != TS_CU_SUCCESS || name == NULL) {
        name = "unknown error";
    }
    if (driver->error_string(result, &words) != TS_CU_SUCCESS || words == NULL) {
        words = "no description";
    }
    return ts_fail(result == TS_CU_OUT_OF_MEMORY ? TENSUM_STATUS_OUT_OF_MEMORY : TENSUM_STATUS_DEVICE,
                   "CUDA: %s: %s (%d): %s", what, name, result, words);
}

tensum_status ts_cuda_driver_open(ts_cuda_driver *driver)
{
    const char *file = secure_getenv("TENSUM_CUDA_LIBRARY");
    ts_cuda_driver table = {0};
    get_address_function get_address = NULL;
    any_function function;
    void *library;
    int result;

    if (file == NULL || file[0] == '\0') {
        file = "libcuda.so.1";
    }
    /* Never closed: the driver keeps threads and exit handlers of its own. */
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *reason = dlerror();
        return ts_fail(TENSUM_STATUS_NO_DEVICE, "CUDA: the driver cannot be opened: %s", reason != NULL ? reason : file);
    }
    function = to_function(dlsym(library, "cuGetProcAddress_v2"));
    memcpy(&get_address, &function, sizeof get_address);

#define TS_CUDA_FIND(member, name, symbol, needed, arguments)                                           \
    function = find(library, get_address, name, symbol);                                                \
    if (function == NULL && (needed)) {                                                                 \
        return ts_fail(TENSUM_STATUS_NO_DEVICE, "CUDA: %s has no function %s: it is too old", file, name); \
    }                                                                                                   \
    memcpy(&table.member, &function, sizeof table.member);
    TS_CUDA_CALLS(TS_CUDA_FIND)
#undef TS_CUDA_FIND

    result = table.init(0);
    if (result == TS_CU_NO_DEVICE) {
        return ts_fail(TENSUM_STATUS_NO_DEVICE, "CUDA: the driver is there, but sees no device");
    }
    if (result != TS_CU_SUCCESS) {
        return ts_cuda_driver_check(&table, result, "cuInit");
    }
    result = table.driver_version(&table.version);
    if (result != TS_CU_SUCCESS) {
        return ts_cuda_driver_check(&table, result, "cuDriverGetVersion");
    }
    *driver = table;
    return TENSUM_OK;
}
