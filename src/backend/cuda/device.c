#define _GNU_SOURCE
#include "backend/cuda/device.h"
#include "backend/cuda/packed.h"

#include "backend/cuda/nvrtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The registry. `mutex` guards all of it until `opened`, after which it does not change. */
static struct {
    pthread_mutex_t mutex;
    bool opened;
    pid_t process;
    tensum_status reason; /* why there is no device */
    char words[512];
    ts_cuda_driver driver;
    int32_t count;
    ts_cuda_device *devices; /* [count] */
} registry = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static const char *const kernel_names[TS_CUDA_KERNEL_COUNT] = {
#define TS_CUDA_KERNEL_NAME(id, name, left, right, threads) [TS_CUDA_KERNEL_CONTRACT_##id] = "contract_" #name,
    TS_CUDA_CONTRACT_VARIANTS(TS_CUDA_KERNEL_NAME)
#undef TS_CUDA_KERNEL_NAME
#define TS_CUDA_KERNEL_NAME(id, name, left, right, threads) [TS_CUDA_KERNEL_CONTRACT_##id##_W] = "contract_" #name "_w",
        TS_CUDA_CONTRACT_VARIANTS(TS_CUDA_KERNEL_NAME)
#undef TS_CUDA_KERNEL_NAME
            [TS_CUDA_KERNEL_COMBINE] = "combine",
    [TS_CUDA_KERNEL_REDUCE] = "reduce",
    [TS_CUDA_KERNEL_REDUCE_ROW] = "reduce_row",
    [TS_CUDA_KERNEL_ADJOINT] = "adjoint",
    [TS_CUDA_KERNEL_REDUCE_ADJOINT] = "reduce_adjoint",
    [TS_CUDA_KERNEL_DECODE] = "decode",
    [TS_CUDA_KERNEL_CHECK] = "check",
    [TS_CUDA_KERNEL_ROUTE] = "route",
    [TS_CUDA_KERNEL_STREAM] = "stream",
    [TS_CUDA_KERNEL_CHAIN] = "chain",
    [TS_CUDA_KERNEL_CHAIN_BACK] = "chain_back",
    [TS_CUDA_KERNEL_TREE] = "tree",
    [TS_CUDA_KERNEL_FOLD] = "fold",
    [TS_CUDA_KERNEL_SURVEY] = "survey",
    [TS_CUDA_KERNEL_PACK] = "pack",
    [TS_CUDA_KERNEL_PACKED] = "packed",
    [TS_CUDA_KERNEL_PACKED_W] = "packed_w",
    [TS_CUDA_KERNEL_WINNERS] = "winners",
    [TS_CUDA_KERNEL_TEAM] = "team",
    [TS_CUDA_KERNEL_TEAMS] = "teams",
    [TS_CUDA_KERNEL_BATCHED] = "batched",
    [TS_CUDA_KERNEL_BATCHED_W] = "batched_w",
    [TS_CUDA_KERNEL_ABSORB] = "absorb",
    [TS_CUDA_KERNEL_SEED] = "seed",
    [TS_CUDA_KERNEL_COPY] = "copy",
    [TS_CUDA_KERNEL_MOVE] = "move",
    [TS_CUDA_KERNEL_MOVE_NARROW] = "move",
    [TS_CUDA_KERNEL_FILL] = "fill",
    [TS_CUDA_KERNEL_CONVERT] = "convert",
    [TS_CUDA_KERNEL_REFRESH] = "refresh",
    [TS_CUDA_KERNEL_GATHER] = "gather",
    [TS_CUDA_KERNEL_ONE_HOT] = "one_hot",
};

const char *ts_cuda_kernel_name(ts_cuda_kernel kernel) { return kernel_names[kernel]; }

/* ---- errors ---- */

tensum_status ts_cuda_result(ts_cuda_device *device, int result, const char *what)
{
    char text[64];

    if (result == TS_CU_SUCCESS) {
        return TENSUM_OK;
    }
    /* Illegal addresses and instructions, failed asserts, lost launches and hardware faults poison the context. */
    if ((result >= 700 && result <= 703) || (result >= 710 && result <= 719) || result == 214 || result == 46) {
        atomic_store(&device->lost, true);
    }
    (void)snprintf(text, sizeof text, "cuda:%d", (int)device->ordinal);
    return ts_fail_prefix(ts_cuda_driver_check(device->driver, result, what), "%s%s", text,
                          atomic_load(&device->lost) ? " (lost: no later call on it can succeed)" : "");
}

/* ---- devices ---- */

static tensum_status describe(ts_cuda_device *device, const ts_cuda_driver *driver, int32_t ordinal)
{
    tensum_status status = TENSUM_OK;
    int major = 0, minor = 0, shared = 0, pools = 0;
    size_t total = 0;

    device->driver = driver;
    device->ordinal = ordinal;
    TRY(ts_cuda_result(device, driver->device_get(&device->handle, ordinal), "cuDeviceGet"));
    TRY(ts_cuda_result(device, driver->device_name(device->name, (int)sizeof device->name, device->handle),
                      "cuDeviceGetName"));
    TRY(ts_cuda_result(device,
                      driver->device_attribute(&device->units, TS_CU_ATTRIBUTE_MULTIPROCESSORS, device->handle),
                      "cuDeviceGetAttribute"));
    TRY(ts_cuda_result(device, driver->device_attribute(&major, TS_CU_ATTRIBUTE_CAPABILITY_MAJOR, device->handle),
                      "cuDeviceGetAttribute"));
    TRY(ts_cuda_result(device, driver->device_attribute(&minor, TS_CU_ATTRIBUTE_CAPABILITY_MINOR, device->handle),
                      "cuDeviceGetAttribute"));
    TRY(ts_cuda_result(device,
                      driver->device_attribute(&shared, TS_CU_ATTRIBUTE_SHARED_PER_BLOCK_OPTIN, device->handle),
                      "cuDeviceGetAttribute"));
    TRY(ts_cuda_result(device, driver->device_attribute(&pools, TS_CU_ATTRIBUTE_MEMORY_POOLS, device->handle),
                      "cuDeviceGetAttribute"));
    TRY(ts_cuda_result(device, driver->device_memory(&total, device->handle), "cuDeviceTotalMem"));
    device->capability = 10 * major + minor;
    device->shared_limit = shared > 0 ? (uint32_t)shared : 48u * 1024u;
    device->memory_total = total;
    device->product = ts_cuda_product_choice();
    device->stream_ordered = pools != 0 && driver->allocate_async != NULL && driver->release_async != NULL;
done:
    return status;
}

/* Fill the registry; registry.mutex is held. A driver that is absent stays absent for the process; any other failure
 * leaves the registry closed, so that the next call tries again. */
static tensum_status open_registry(void)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_device *devices = NULL;
    int count = 0;
    int32_t described = 0;

    status = ts_cuda_driver_open(&registry.driver);
    if (status == TENSUM_STATUS_NO_DEVICE) {
        registry.reason = status;
        (void)snprintf(registry.words, sizeof registry.words, "%s", tensum_last_error());
        registry.opened = true;
        registry.process = getpid();
        return TENSUM_OK;
    }
    if (status != TENSUM_OK) {
        return status;
    }
    TRY(ts_cuda_driver_check(&registry.driver, registry.driver.device_count(&count), "cuDeviceGetCount"));
    TRY(ts_allocate_zero((size_t)count, sizeof *devices, "the table of CUDA devices", &devices));
    for (; described < count; described++) {
        TRY(describe(&devices[described], &registry.driver, described));
        if (pthread_mutex_init(&devices[described].mutex, NULL) != 0) {
            TRY(ts_fail(TENSUM_STATUS_INTERNAL, "CUDA: a mutex cannot be made"));
        }
        ts_cuda_retirement_init(&devices[described]);
        ts_cutensor_init(&devices[described]);
    }
    registry.devices = devices;
    registry.count = count;
    registry.process = getpid();
    registry.opened = true;
    devices = NULL;
done:
    if (devices != NULL) {
        for (int32_t i = 0; i < described; i++) {
            (void)pthread_mutex_destroy(&devices[i].mutex);
        }
        ts_free(devices);
    }
    return status;
}

static tensum_status use_registry(void)
{
    tensum_status status = TENSUM_OK;

    (void)pthread_mutex_lock(&registry.mutex);
    if (!registry.opened) {
        status = open_registry();
    }
    (void)pthread_mutex_unlock(&registry.mutex);
    if (status == TENSUM_OK && registry.count > 0 && registry.process != getpid()) {
        status = ts_fail(TENSUM_STATUS_DEVICE, "CUDA: a child of fork() cannot use devices that its parent has used");
    }
    return status;
}

int32_t ts_cuda_device_count(void) { return use_registry() == TENSUM_OK ? registry.count : 0; }

tensum_status ts_cuda_device_open(int32_t ordinal, ts_cuda_device **device)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_device *found;

    status = use_registry();
    if (status != TENSUM_OK) {
        return status;
    }
    if (registry.count == 0) {
        return ts_fail(TENSUM_STATUS_NO_DEVICE, "cuda:%d: no device: %s", (int)ordinal,
                       registry.reason != TENSUM_OK ? registry.words : "the driver sees none");
    }
    if (ordinal < 0 || ordinal >= registry.count) {
        return ts_fail(TENSUM_STATUS_NO_DEVICE, "cuda:%d: there are %d devices", (int)ordinal, (int)registry.count);
    }
    found = &registry.devices[ordinal];
    if (atomic_load(&found->lost)) {
        return ts_fail(TENSUM_STATUS_DEVICE, "cuda:%d was lost to an earlier error; only a new process can use it",
                       (int)ordinal);
    }
    (void)pthread_mutex_lock(&found->mutex);
    if (!found->opened) {
        status = ts_cuda_result(found, found->driver->context_retain(&found->context, found->handle),
                               "cuDevicePrimaryCtxRetain");
        found->opened = status == TENSUM_OK;
    }
    (void)pthread_mutex_unlock(&found->mutex);
    if (status == TENSUM_OK) {
        *device = found;
    }
    return status;
}

tensum_status ts_cuda_enter(ts_cuda_device *device)
{
    return ts_cuda_result(device, device->driver->context_push(device->context), "cuCtxPushCurrent");
}

void ts_cuda_leave(ts_cuda_device *device)
{
    ts_cu_context context = NULL;
    /* Fails only where the context is lost; there is nothing to do about that here. */
    (void)device->driver->context_pop(&context);
}

/* ---- modules ---- */

static void kernel_name(int module, tensum_dtype dtype, ts_cuda_kernel kernel, char *text, size_t bytes)
{
    const char *name = kernel_names[kernel];
    const char *type = tensum_dtype_name(dtype);

    if (module != TS_CUDA_COMMON) {
        (void)snprintf(text, bytes, "ts_%s_%s_%s", tensum_semiring_name((tensum_semiring)module), type, name);
    } else if (kernel == TS_CUDA_KERNEL_CONVERT) {
        (void)snprintf(text, bytes, "ts_common_convert_%s_%s", type, tensum_dtype_name(tensum_dtype_gradient(dtype)));
    } else if (kernel == TS_CUDA_KERNEL_COPY || kernel == TS_CUDA_KERNEL_MOVE || kernel == TS_CUDA_KERNEL_MOVE_NARROW ||
               kernel == TS_CUDA_KERNEL_FILL || kernel == TS_CUDA_KERNEL_ONE_HOT || kernel == TS_CUDA_KERNEL_GATHER) {
        (void)snprintf(text, bytes, "ts_common_%s_%zu%s", name, tensum_dtype_bytes(dtype),
                       kernel == TS_CUDA_KERNEL_MOVE_NARROW ? "_narrow" : "");
    } else {
        (void)snprintf(text, bytes, "ts_common_%s", name);
    }
}

/* Answers of cuModuleLoadData that another image may not get: of another architecture, or newer than the driver. */
static bool is_wrong_image(int result)
{
    return result == TS_CU_INVALID_IMAGE || result == TS_CU_NO_BINARY || result == TS_CU_INVALID_PTX ||
           result == TS_CU_UNSUPPORTED_PTX_VERSION;
}

/* A module compiled on this machine, now or before. */
static tensum_status load_compiled(ts_cuda_device *device, int module, tensum_dtype dtype, ts_cu_module *handle)
{
    tensum_status status = TENSUM_OK;
    void *image = NULL;
    bool kept = false;
    int result;

    TRY(ts_cuda_compile(device, module, dtype, false, &image, &kept));
    result = device->driver->module_load(handle, image);
    if (kept && is_wrong_image(result)) { /* whatever is in that file: make it anew */
        ts_free(image);
        image = NULL;
        TRY(ts_cuda_compile(device, module, dtype, true, &image, &kept));
        result = device->driver->module_load(handle, image);
    }
    if (is_wrong_image(result)) {
        TRY(ts_fail_prefix(ts_cuda_result(device, result, "cuModuleLoadData"),
                           "NVRTC may be newer than the driver (CUDA %d.%d)", device->driver->version / 1000,
                           device->driver->version % 1000 / 10));
    }
    TRY(ts_cuda_result(device, result, "cuModuleLoadData"));
done:
    ts_free(image);
    return status;
}

static tensum_status load_module(ts_cuda_device *device, int module, tensum_dtype dtype)
{
    tensum_status status = TENSUM_OK;
    const char *wanted = getenv("TENSUM_KERNELS");
    const void *image = wanted != NULL && strcmp(wanted, "runtime") == 0 ? NULL : ts_cuda_image(module);
    ts_cu_module *handles = device->modules[module].handles;
    ts_cu_module handle = NULL;
    int result;

    if (image != NULL) {
        result = device->driver->module_load(&handle, image);
        if (!is_wrong_image(result)) {
            TRY(ts_cuda_result(device, result, "cuModuleLoadData"));
            for (int d = 0; d < TENSUM_DTYPE_COUNT; d++) {
                handles[d] = handle;
            }
        }
    }
    if (handle == NULL) {
        TRY(load_compiled(device, module, dtype, &handles[dtype]));
    }
    TS_CUDA_COUNT(device, module_loads, 1);
done:
    return status;
}

tensum_status ts_cuda_find_kernel(ts_cuda_device *device, int module, tensum_dtype dtype, ts_cuda_kernel kernel,
                                  uint32_t shared_bytes, ts_cu_function *function)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_function *entry = &device->modules[module].functions[dtype][kernel];
    /* The common module has its dtypes in one, wherever it comes from. */
    tensum_dtype part = module == TS_CUDA_COMMON ? (tensum_dtype)0 : dtype;
    char name[96];

    (void)pthread_mutex_lock(&device->mutex);
    if (device->modules[module].handles[part] == NULL) {
        TRY(load_module(device, module, part));
    }
    if (!entry->looked_up) {
        ts_cu_function found = NULL;
        int result;
        kernel_name(module, dtype, kernel, name, sizeof name);
        result = device->driver->module_function(&found, device->modules[module].handles[part], name);
        if (result != TS_CU_NOT_FOUND) {
            TRY(ts_cuda_result(device, result, "cuModuleGetFunction"));
            entry->function = found;
        }
        entry->looked_up = true;
    }
    if (entry->function != NULL && shared_bytes > 48u * 1024u && shared_bytes > entry->shared_bytes) {
        TRY(ts_cuda_result(device,
                          device->driver->function_set(entry->function, TS_CU_FUNCTION_MAX_DYNAMIC_SHARED,
                                                       (int)shared_bytes),
                          "cuFuncSetAttribute"));
        entry->shared_bytes = shared_bytes;
    }
    *function = entry->function;
done:
    (void)pthread_mutex_unlock(&device->mutex);
    return status;
}

/* ---- streams ---- */

tensum_status ts_cuda_synchronize(ts_cuda_device *device, ts_cu_stream stream)
{
    TS_CUDA_COUNT(device, synchronisations, 1);
    return ts_cuda_result(device, device->driver->stream_synchronize(stream), "cuStreamSynchronize");
}

bool ts_cuda_capturing(ts_cuda_device *device, ts_cu_stream stream)
{
    int capturing = 0;
    return device->driver->stream_capturing != NULL &&
           device->driver->stream_capturing(stream, &capturing) == TS_CU_SUCCESS && capturing != 0;
}
