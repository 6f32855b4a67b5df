#define _GNU_SOURCE
#include <simcuda/machine.h>

#include <dlfcn.h>

const tensum_device cuda0 = {TENSUM_CUDA, 0}, cpu = {TENSUM_CPU, 0};
bool real_gpu;
int gpu_count;

/* X(name, arguments): calls by their exported names. */
#define CALLS(X)                                                                    \
    X(cuInit, (unsigned flags))                                                     \
    X(cuDeviceGetCount, (int *count))                                               \
    X(cuDeviceGet, (int *device, int ordinal))                                      \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                       \
    X(cuCtxPushCurrent_v2, (void *context))                                         \
    X(cuCtxPopCurrent_v2, (void **context))                                         \
    X(cuMemAlloc_v2, (uint64_t * address, size_t bytes))                            \
    X(cuMemFree_v2, (uint64_t address))                                             \
    X(cuMemHostAlloc, (void **pointer, size_t bytes, unsigned flags))               \
    X(cuMemFreeHost, (void *pointer))                                               \
    X(cuStreamCreate, (void **stream, unsigned flags))                              \
    X(cuStreamDestroy_v2, (void *stream))                                           \
    X(cuStreamBeginCapture_v2, (void *stream, int mode))                            \
    X(cuStreamEndCapture, (void *stream, void **graph))                             \
    X(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags)) \
    X(cuGraphLaunch, (void *exec, void *stream))                                    \
    X(cuGraphExecDestroy, (void *exec))                                             \
    X(cuGraphDestroy, (void *graph))
/* Only of a real driver: the simulator has calls of its own for these, which no counter sees. */
#define REAL_CALLS(X)                                              \
    X(cuCtxSynchronize, (void))                                    \
    X(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t bytes)) \
    X(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t bytes))

static struct {
#define MEMBER(name, arguments) int(*name) arguments;
    CALLS(MEMBER) REAL_CALLS(MEMBER)
#undef MEMBER
} driver;
static void *contexts[16];

static void good(int result, const char *what)
{
    if (result != 0) {
        fail_msg("%s: %d", what, result);
    }
}
#define GOOD(call) good(driver.call, #call)

int machine_open(void)
{
    void *library, *symbol;

    real_gpu = getenv("TENSUM_TEST_GPU") != NULL;
    library = dlopen(real_gpu ? "libcuda.so.1" : SIMCUDA_LIBRARY, RTLD_NOW);
    if (real_gpu && (library == NULL || tensum_device_count(TENSUM_CUDA) == 0)) {
        printf("skipped: there is no GPU here\n");
        return 77;
    }
    if (library == NULL || (!real_gpu && setenv("TENSUM_CUDA_LIBRARY", SIMCUDA_LIBRARY, 1) != 0)) {
        return 1;
    }
#define FIND(name, arguments)        \
    symbol = dlsym(library, #name);  \
    memcpy(&driver.name, &symbol, sizeof symbol);
    CALLS(FIND) REAL_CALLS(FIND)
#undef FIND
    if (driver.cuInit(0) != 0 || driver.cuDeviceGetCount(&gpu_count) != 0) {
        printf("the driver does not start\n");
        return 1;
    }
    for (int i = 0; i < gpu_count && i < 16; i++) {
        int device = 0;
        if (driver.cuDeviceGet(&device, i) != 0 || driver.cuDevicePrimaryCtxRetain(&contexts[i], device) != 0) {
            return 1;
        }
    }
    return 0;
}

static void enter(int device) { GOOD(cuCtxPushCurrent_v2(contexts[device])); }
static void leave(void)
{
    void *context = NULL;
    GOOD(cuCtxPopCurrent_v2(&context));
}

uint64_t device_allocate(int device, size_t bytes)
{
    uint64_t address = 0;
    if (!real_gpu) {
        address = simcuda_allocate(device, bytes);
        assert_true(address != 0);
        return address;
    }
    enter(device);
    GOOD(cuMemAlloc_v2(&address, bytes));
    leave();
    return address;
}
void device_release(int device, uint64_t address)
{
    if (!real_gpu) {
        simcuda_release(address);
        return;
    }
    enter(device);
    GOOD(cuMemFree_v2(address));
    leave();
}
void device_write(uint64_t address, const void *from, size_t bytes)
{
    if (!real_gpu) {
        simcuda_write(address, from, bytes);
        return;
    }
    enter(0);
    GOOD(cuCtxSynchronize());
    GOOD(cuMemcpyHtoD_v2(address, from, bytes));
    GOOD(cuCtxSynchronize()); /* the memory may be another device's, whose streams know nothing of this copy */
    leave();
}
void device_read(void *to, uint64_t address, size_t bytes)
{
    if (!real_gpu) {
        simcuda_read(to, address, bytes);
        return;
    }
    enter(0);
    GOOD(cuCtxSynchronize());
    GOOD(cuMemcpyDtoH_v2(to, address, bytes));
    leave();
}
void *pinned_allocate(size_t bytes)
{
    void *pointer = NULL;
    enter(0);
    GOOD(cuMemHostAlloc(&pointer, bytes, 0));
    leave();
    return pointer;
}
void pinned_release(void *pointer)
{
    enter(0);
    GOOD(cuMemFreeHost(pointer));
    leave();
}

void *stream_create(unsigned flags)
{
    void *stream = NULL;
    enter(0);
    GOOD(cuStreamCreate(&stream, flags));
    leave();
    return stream;
}
void stream_destroy(void *stream)
{
    enter(0);
    GOOD(cuStreamDestroy_v2(stream));
    leave();
}
void capture_begin(void *stream)
{
    enter(0);
    GOOD(cuStreamBeginCapture_v2(stream, 0)); /* the strictest mode */
    leave();
}
void *capture_end(void *stream)
{
    void *graph = NULL, *exec = NULL;
    enter(0);
    if (driver.cuStreamEndCapture(stream, &graph) == 0 && graph != NULL) {
        GOOD(cuGraphInstantiateWithFlags(&exec, graph, 0));
        GOOD(cuGraphDestroy(graph));
    }
    leave();
    return exec;
}
void capture_launch(void *exec, void *stream)
{
    enter(0);
    GOOD(cuGraphLaunch(exec, stream));
    leave();
}
void capture_free(void *exec)
{
    enter(0);
    GOOD(cuGraphExecDestroy(exec));
    leave();
}

/* ---- counters ---- */

static tensum_device_counters base;

void reset_counts(void)
{
    base = (tensum_device_counters)TENSUM_DEVICE_COUNTERS_INIT;
    simcuda_reset_counters();
    succeeds(tensum_device_stats(cuda0, &base));
}

void read_counts(tensum_device_counters *counts)
{
    simcuda_counters seen;

    *counts = (tensum_device_counters)TENSUM_DEVICE_COUNTERS_INIT;
    succeeds(tensum_device_stats(cuda0, counts));
#define SINCE(name) counts->name -= base.name;
    SINCE(uploads) SINCE(upload_bytes) SINCE(downloads) SINCE(download_bytes) SINCE(launches) SINCE(graph_launches)
    SINCE(module_loads) SINCE(module_compilations) SINCE(allocations) SINCE(releases) SINCE(synchronisations)
#undef SINCE
    if (!real_gpu) {
        simcuda_count(&seen);
        assert_int_equal(counts->uploads, seen.uploads);
        assert_int_equal(counts->upload_bytes, seen.upload_bytes);
        assert_int_equal(counts->downloads, seen.downloads);
        assert_int_equal(counts->download_bytes, seen.download_bytes);
        assert_int_equal(counts->launches, seen.launches);
        assert_int_equal(counts->graph_launches, seen.graph_launches);
        assert_int_equal(counts->module_loads, seen.module_loads);
        assert_int_equal(counts->allocations, seen.allocations);
        assert_int_equal(counts->synchronisations, seen.synchronisations);
    }
}

const char *machine_fault(void) { return real_gpu ? NULL : simcuda_fault(); }
void no_fault(void)
{
    const char *fault = machine_fault();
    if (fault != NULL) {
        fail_msg("simulator: %s", fault);
    }
}

void succeeds(tensum_status status)
{
    if (status != TENSUM_OK) {
        fail_msg("%s: %s", tensum_status_name(status), tensum_last_error());
    }
}

/* ---- the chain ---- */

void chain_make(chain *c, int64_t count, tensum_semiring semiring, int64_t slices)
{
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    int64_t *offsets = calloc((size_t)count, sizeof *offsets);
    int64_t *children = calloc(2 * (size_t)count, sizeof *children);

    c->count = count;
    c->memory = 0;
    c->ranks = calloc((size_t)count, sizeof *c->ranks);
    c->labels = calloc((size_t)count, sizeof *c->labels);
    c->extents = calloc((size_t)count, sizeof *c->extents);
    c->label_lists = calloc((size_t)count, sizeof *c->label_lists);
    c->extent_lists = calloc((size_t)count, sizeof *c->extent_lists);
    c->data = calloc((size_t)count * 4, sizeof *c->data);
    c->inputs = calloc((size_t)count, sizeof *c->inputs);
    for (int64_t i = 0; i < count; i++) {
        c->ranks[i] = 2;
        c->labels[i][0] = i;
        c->labels[i][1] = i + 1;
        c->extents[i][0] = c->extents[i][1] = 2;
        c->label_lists[i] = c->labels[i];
        c->extent_lists[i] = c->extents[i];
        for (int k = 0; k < 4; k++) {
            c->data[i * 4 + k] = (float)((i * 7 + k * 5) % 11 - 5);
        }
        c->inputs[i] = (tensum_tensor){&c->data[i * 4], TENSUM_F32, 2, c->extents[i], NULL, cpu};
    }
    spec.operand_count = count;
    spec.ranks = c->ranks;
    spec.labels = c->label_lists;
    spec.extents = c->extent_lists;
    succeeds(tensum_network_create(&spec, &network));
    for (int64_t s = 0; s + 1 < count; s++) { /* from the left */
        offsets[s] = 2 * s;
        children[2 * s] = s == 0 ? 0 : count + s - 1;
        children[2 * s + 1] = s + 1;
    }
    offsets[count - 1] = 2 * (count - 1);
    succeeds(tensum_tree_from_ssa(count, count - 1, offsets, children, &tree));
    if (slices > 0) { /* labels 2, 4, ... */
        tensum_tree *sliced = NULL;
        int64_t labels[8];
        for (int64_t i = 0; i < slices; i++) {
            labels[i] = 2 * i + 2;
        }
        succeeds(tensum_tree_with_slices(tree, slices, labels, &sliced));
        tensum_tree_release(tree);
        tree = sliced;
    }
    options.semiring = semiring;
    options.dtype = TENSUM_F32;
    succeeds(tensum_plan_create(network, tree, &options, &c->plan));
    tensum_tree_release(tree);
    tensum_network_release(network);
    free(offsets);
    free(children);
}

void chain_free(chain *c)
{
    tensum_plan_release(c->plan);
    if (c->memory != 0) {
        device_release(0, c->memory);
    }
    free(c->ranks);
    free(c->labels);
    free(c->extents);
    free(c->label_lists);
    free(c->extent_lists);
    free(c->data);
    free(c->inputs);
}

float chain_best(const chain *c, int64_t *path)
{
    float best[2] = {0, 0};
    int *from = calloc((size_t)c->count * 2, sizeof *from);
    float value;
    int at;

    for (int64_t i = c->count - 1; i >= 0; i--) {
        float next[2];
        for (int a = 0; a < 2; a++) {
            float x = c->data[i * 4 + a * 2] + best[0], y = c->data[i * 4 + a * 2 + 1] + best[1];
            next[a] = y > x ? y : x;
            from[i * 2 + a] = y > x;
        }
        best[0] = next[0];
        best[1] = next[1];
    }
    at = best[1] > best[0];
    value = best[at];
    for (int64_t i = 0; path != NULL && i <= c->count; i++) {
        path[i] = at;
        at = i < c->count ? from[i * 2 + at] : 0;
    }
    free(from);
    return value;
}

tensum_program *compile(const chain *c, unsigned modes, tensum_device device)
{
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_program *program = NULL;

    options.modes = modes;
    options.device = device;
    succeeds(tensum_program_create(c->plan, NULL, &options, &program));
    return program;
}

void chain_to_device(chain *c)
{
    c->memory = device_allocate(0, (size_t)c->count * 16);
    device_write(c->memory, c->data, (size_t)c->count * 16);
    for (int64_t i = 0; i < c->count; i++) {
        c->inputs[i].data = (void *)(uintptr_t)(c->memory + (uint64_t)i * 16);
        c->inputs[i].device = cuda0;
    }
}
