/* The driver's calls that the backend uses, simulated. One lock for everything; nothing here is fast. */
#include <simcuda/fibers.h>
#include <simcuda/simcuda.h>

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901
};

namespace {

const size_t redzone = 256;
const size_t large = static_cast<size_t>(256) << 20; /* blocks from here on are neither filled nor looked through */
const unsigned char fresh_byte = 0xff, released_byte = 0xdb, redzone_byte = 0xa5;

struct device_block {
    size_t bytes = 0;
    bool released = false; /* the release has been done, in stream order */
    bool live = true;      /* not yet released by a call */
};

struct device {
    int ordinal = 0;
    unsigned char *base = nullptr; /* reserved range */
    size_t reserved = 0, used = 0; /* bytes; [base, base + used) has been handed out at least once */
    size_t limit = 0, held = 0;
    std::map<unsigned char *, device_block> blocks;
};

struct stream;

/* A point of a stream: what was enqueued up to there. */
struct mark {
    stream *where = nullptr;
    uint64_t number = 0;
};

struct operation {
    uint64_t number;
    std::function<int()> work;
    mark after; /* has to be reached first; where = nullptr: nothing */
};

struct graph_node {
    const ts_sim_kernel *kernel = nullptr;
    int64_t grid = 0;
    int32_t threads = 0;
    size_t shared = 0;
    std::vector<unsigned char> parameters;
    std::function<int()> work; /* captured copies */
    std::vector<size_t> after;
};

struct graph {
    std::vector<std::unique_ptr<graph_node>> nodes;
    struct context *owner = nullptr;
};

struct graph_exec {
    std::vector<graph_node> nodes;
    std::vector<const graph_node *> origin;
    struct context *owner = nullptr;
};

struct stream {
    struct context *owner = nullptr;
    bool legacy = false, blocking = true;
    std::deque<operation> queue;
    graph *capture = nullptr;
    bool capture_broken = false;
    bool capture_relaxed = false; /* other calls may do as they like meanwhile */
};

struct event {
    bool recorded = false;
    mark at;
};

struct context {
    device *on = nullptr;
    int retained = 0;
    stream legacy, per_thread;
    std::vector<stream *> streams;
};

struct function_handle {
    const ts_sim_kernel *kernel = nullptr;
    size_t shared_allowed = 48 * 1024;
};
struct module_handle {
    std::string prefix; /* of its functions' names; "": it has all */
    std::map<std::string, std::unique_ptr<function_handle>> functions;
};

std::recursive_mutex lock;
bool initialised;
bool pools = true;
int units = 4;
int shared_limit = 227 * 1024;
uint64_t random_state = 1;
uint64_t next_number = 1;
std::vector<std::unique_ptr<device>> devices;
std::vector<std::unique_ptr<context>> contexts;
/* Never destroyed, for what a release was made to fail for is still held at the end. */
std::map<unsigned char *, size_t> &host_blocks = *new std::map<unsigned char *, size_t>;
std::vector<void *> &kept = *new std::vector<void *>;
thread_local std::vector<context *> current;
simcuda_counters counters;
std::map<std::string, uint64_t> ran;
std::map<std::string, long> calls;
long calls_total;
std::string fail_name;
bool fail_any;
long fail_at;
int fail_result;
std::map<std::string, int> broken; /* calls that always fail, with what */
bool drifting = true;
std::string failed_call;
std::string fault;
std::string fault_told;
int sticky; /* an error that poisons everything after it */

/* Count a call; true if it is to fail, with *result. */
bool injected(const char *name, int *result)
{
    calls_total++;
    calls[name]++;
    auto found = broken.find(name);
    if (found != broken.end()) {
        *result = found->second;
        return true;
    }
    if (fail_at > 0 && (fail_any ? calls_total == fail_at : fail_name == name && calls[name] == fail_at)) {
        *result = fail_result;
        failed_call = name;
        fail_at = 0;
        return true;
    }
    return false;
}

/* Enter a call, unless it is to fail: then also do `otherwise`. */
#define ENTER_OR(name, otherwise)                             \
    std::lock_guard<std::recursive_mutex> guard(lock);        \
    {                                                         \
        int result_of_call = sticky;                          \
        if (injected(name, &result_of_call) || sticky != 0) { \
            otherwise;                                        \
            return result_of_call;                            \
        }                                                     \
    }
#define ENTER(name) ENTER_OR(name, (void)0)
/* For what releases `object`: if it is made to fail, the object stays held, and is no leak of the library. */
#define ENTER_RELEASE(name, object) ENTER_OR(name, kept.push_back(object))
#define NEED_CONTEXT()                  \
    if (current.empty()) {              \
        return INVALID_CONTEXT;         \
    }                                   \
    context *here = current.back();     \
    (void)here

void report(const std::string &text)
{
    if (fault.empty()) {
        fault = text;
    }
}

/* ---- memory ---- */

/* Device memory of one device is reachable only inside this scope. */
struct unlocked {
    explicit unlocked(device *d) : on(d)
    {
        if (depth++ == 0 && on->used > 0) {
            (void)mprotect(on->base, on->used, PROT_READ | PROT_WRITE);
        }
    }
    ~unlocked()
    {
        if (--depth == 0 && on->used > 0) {
            (void)mprotect(on->base, on->used, PROT_NONE);
        }
    }
    device *on;
    static int depth;
};
int unlocked::depth;

device *device_of(uint64_t address, device_block **block, unsigned char **start)
{
    unsigned char *pointer = reinterpret_cast<unsigned char *>(static_cast<uintptr_t>(address));
    for (auto &d : devices) {
        if (pointer >= d->base && pointer < d->base + d->reserved) {
            auto found = d->blocks.upper_bound(pointer);
            if (found == d->blocks.begin()) {
                return d.get();
            }
            --found;
            if (pointer < found->first + std::max<size_t>(found->second.bytes, 1)) {
                *block = &found->second;
                *start = found->first;
            }
            return d.get();
        }
    }
    return nullptr;
}

/* What a block takes with its red zone, in few sizes, so that released ones are used again. */
size_t block_need(size_t bytes)
{
    size_t need = 1024;
    while (need < bytes + redzone) {
        need *= 2;
    }
    return bytes < large ? need : (bytes + 511) / 512 * 512 + redzone;
}

int allocate_block(device *d, size_t bytes, uint64_t *address)
{
    if (bytes == 0) {
        return INVALID_VALUE;
    }
    if (d->held + bytes > d->limit) {
        return OUT_OF_MEMORY;
    }
    size_t need = block_need(bytes);
    unlocked scope(d);
    unsigned char *found = nullptr;
    for (auto &entry : d->blocks) {
        if (entry.second.released && block_need(entry.second.bytes) == need) {
            found = entry.first;
            for (size_t i = 0; i < entry.second.bytes && entry.second.bytes < large; i++) {
                if (found[i] != released_byte) {
                    report("memory was written after its release");
                    break;
                }
            }
            break;
        }
    }
    if (found == nullptr) {
        if (d->used + need > d->reserved) {
            return OUT_OF_MEMORY;
        }
        found = d->base + d->used;
        d->used += (need + 4095) / 4096 * 4096;
        (void)mprotect(found, (need + 4095) / 4096 * 4096, PROT_READ | PROT_WRITE);
    }
    d->blocks[found] = device_block();
    d->blocks[found].bytes = bytes;
    d->held += bytes;
    if (bytes < large) {
        memset(found, fresh_byte, bytes);
    }
    memset(found + bytes, redzone_byte, redzone);
    *address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(found));
    return SUCCESS;
}

void check_redzone(unsigned char *start, const device_block &block)
{
    for (size_t i = 0; i < redzone; i++) {
        if (start[block.bytes + i] != redzone_byte) {
            report("memory was written past the end of a block");
            return;
        }
    }
}

/* Both ends of a copy lie in one live block. */
bool inside(uint64_t address, size_t bytes)
{
    device_block *block = nullptr;
    unsigned char *start = nullptr;
    if (device_of(address, &block, &start) == nullptr || block == nullptr || block->released) {
        return false;
    }
    unsigned char *pointer = reinterpret_cast<unsigned char *>(static_cast<uintptr_t>(address));
    return pointer + bytes <= start + block->bytes;
}

bool is_pinned(const void *pointer)
{
    unsigned char *p = static_cast<unsigned char *>(const_cast<void *>(pointer));
    auto found = host_blocks.upper_bound(p);
    if (found == host_blocks.begin()) {
        return false;
    }
    --found;
    return p < found->first + found->second;
}

/* ---- streams ---- */

stream *find_stream(context *c, void *handle)
{
    uintptr_t value = reinterpret_cast<uintptr_t>(handle);
    if (value == 0 || value == 1) {
        return &c->legacy;
    }
    if (value == 2) {
        return &c->per_thread;
    }
    for (stream *s : c->streams) {
        if (s == handle) {
            return s;
        }
    }
    return nullptr;
}

std::vector<stream *> all_streams(context *c)
{
    std::vector<stream *> all = c->streams;
    all.push_back(&c->legacy);
    all.push_back(&c->per_thread);
    return all;
}

/* A stream that is gone has finished. */
bool reached(context *c, const mark &m)
{
    for (stream *s : all_streams(c)) {
        if (s == m.where) {
            return s->queue.empty() || s->queue.front().number > m.number;
        }
    }
    return true;
}

/* The legacy stream waits for earlier work of all blocking streams, and they for its own. */
bool may_run(context *c, stream *s)
{
    if (s->queue.empty()) {
        return false;
    }
    uint64_t number = s->queue.front().number;
    if (s->queue.front().after.where != nullptr && !reached(c, s->queue.front().after)) {
        return false;
    }
    for (stream *other : all_streams(c)) {
        if (other == s || other->queue.empty() || !other->blocking || !s->blocking || (!other->legacy && !s->legacy)) {
            continue;
        }
        if (other->queue.front().number < number) {
            return false;
        }
    }
    return true;
}

/* Run operations in a random order that the streams allow, until `finished` says so. */
int run_until(context *c, const std::function<bool()> &finished)
{
    std::unique_ptr<unlocked> scope; /* changing the protection costs more than most operations */
    while (!finished()) {
        std::vector<stream *> ready;
        for (stream *s : all_streams(c)) {
            if (may_run(c, s)) {
                ready.push_back(s);
            }
        }
        if (ready.empty()) {
            break;
        }
        stream *s = ready[next_random(&random_state) % ready.size()];
        operation next = std::move(s->queue.front());
        s->queue.pop_front();
        counters.pending--;
        if (scope == nullptr) {
            scope.reset(new unlocked(c->on));
        }
        int result = next.work();
        if (result != SUCCESS) {
            sticky = result;
            return result;
        }
    }
    return SUCCESS;
}

int run_stream(context *c, stream *s)
{
    return run_until(c, [s] { return s->queue.empty(); });
}

void enqueue(stream *s, std::function<int()> work)
{
    s->queue.push_back({next_number++, std::move(work), mark()});
    counters.pending++;
}

/* Some work is done now and then while nobody waits. */
void drift(context *c)
{
    if (!drifting) {
        return;
    }
    long steps = static_cast<long>(next_random(&random_state) % 3);
    if (next_random(&random_state) % 4 == 0) {
        (void)run_until(c, [&steps] { return steps-- <= 0; });
    }
}

bool captured(stream *s, std::function<int()> work, graph_node **made)
{
    if (s->capture == nullptr) {
        return false;
    }
    std::unique_ptr<graph_node> node(new graph_node());
    node->work = std::move(work);
    if (!s->capture->nodes.empty()) {
        node->after.push_back(s->capture->nodes.size() - 1);
    }
    if (made != nullptr) {
        *made = node.get();
    }
    s->capture->nodes.push_back(std::move(node));
    return true;
}

bool any_capture(context *c)
{
    for (stream *s : all_streams(c)) {
        if (s->capture != nullptr && !s->capture_relaxed) {
            return true;
        }
    }
    return false;
}
#define NOT_WHILE_CAPTURING(c)                          \
    if (any_capture(c)) {                               \
        for (stream *captured_stream : all_streams(c)) { \
            captured_stream->capture_broken = true;     \
        }                                               \
        return CAPTURE_UNSUPPORTED;                     \
    }

int run_kernel(const ts_sim_kernel *kernel, const std::vector<unsigned char> &parameters, int64_t grid, int32_t threads,
               size_t shared)
{
    std::string wrong = simulate_launch(kernel, parameters.data(), grid, threads, shared, &random_state);
    ran[kernel->name]++;
    if (!wrong.empty()) {
        report(std::string(kernel->name) + ": " + wrong);
        return LAUNCH_FAILED;
    }
    return SUCCESS;
}

int check_launch(function_handle *f, const unsigned *grid, const unsigned *block, unsigned shared, void **parameters)
{
    uint64_t threads = static_cast<uint64_t>(block[0]) * block[1] * block[2];
    if (f == nullptr || f->kernel == nullptr) {
        return INVALID_HANDLE;
    }
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || threads == 0 || grid[0] > 2147483647u || grid[1] > 65535 ||
        grid[2] > 65535 || threads > 1024 || threads > static_cast<uint64_t>(f->kernel->threads) ||
        shared > f->shared_allowed || f->kernel->bytes > 4096 || parameters == nullptr || parameters[0] == nullptr) {
        report(std::string(f->kernel->name) + ": a launch is outside the device's limits");
        return INVALID_VALUE;
    }
    return SUCCESS;
}

} // namespace

extern "C" {

#define EXPORT __attribute__((visibility("default")))

/* ---- control ---- */

EXPORT void simcuda_count(simcuda_counters *result)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    *result = counters;
}
EXPORT void simcuda_reset_counters(void)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    simcuda_counters kept = counters;
    counters = simcuda_counters();
    counters.pending = kept.pending;
    counters.live = kept.live;
    counters.live_host = kept.live_host;
    counters.live_events = kept.live_events;
    counters.live_graphs = kept.live_graphs;
    ran.clear();
}
EXPORT uint64_t simcuda_ran(const char *part)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    uint64_t count = 0;
    for (const auto &entry : ran) {
        count += entry.first.find(part) != std::string::npos ? entry.second : 0;
    }
    return count;
}
EXPORT void simcuda_fail(const char *name, long n, int result)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    fail_any = name == nullptr;
    fail_name = name == nullptr ? "" : name;
    fail_at = n;
    fail_result = result;
    calls.clear();
    calls_total = 0;
    failed_call.clear();
}
EXPORT void simcuda_break(const char *name, int result)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (name == nullptr) {
        broken.clear();
    } else {
        broken[name] = result;
    }
}
EXPORT void simcuda_drift(int on)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    drifting = on != 0;
}
EXPORT long simcuda_calls(const char *name)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    return name == nullptr ? calls_total : calls[name];
}
EXPORT const char *simcuda_failed(void)
{
    return failed_call.empty() ? nullptr : failed_call.c_str();
}
EXPORT const char *simcuda_fault(void)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    for (auto &d : devices) {
        unlocked scope(d.get());
        for (auto &entry : d->blocks) {
            if (!entry.second.released) {
                check_redzone(entry.first, entry.second);
            }
        }
    }
    fault_told = fault;
    fault.clear();
    return fault_told.empty() ? nullptr : fault_told.c_str();
}
EXPORT void simcuda_seed(uint64_t seed)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    random_state = seed;
}
EXPORT int cuInit(unsigned flags);
EXPORT uint64_t simcuda_allocate(int ordinal, size_t bytes)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    uint64_t address = 0;
    if (!initialised) {
        (void)cuInit(0);
    }
    if (allocate_block(devices.at(static_cast<size_t>(ordinal)).get(), bytes, &address) == SUCCESS) {
        counters.live++;
    }
    return address;
}
EXPORT void simcuda_release(uint64_t address)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    device_block *block = nullptr;
    unsigned char *start = nullptr;
    device *d = device_of(address, &block, &start);
    if (d != nullptr && block != nullptr) {
        unlocked scope(d);
        check_redzone(start, *block);
        if (block->bytes < large) {
            memset(start, released_byte, block->bytes);
        }
        block->released = true;
        d->held -= block->bytes;
        counters.live--;
    }
}
EXPORT void simcuda_write(uint64_t address, const void *from, size_t bytes)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    device_block *block = nullptr;
    unsigned char *start = nullptr;
    device *d = device_of(address, &block, &start);
    if (d != nullptr && inside(address, bytes)) {
        unlocked scope(d);
        memcpy(reinterpret_cast<void *>(static_cast<uintptr_t>(address)), from, bytes);
    } else {
        report("simcuda_write: not inside a block");
    }
}
EXPORT void simcuda_read(void *to, uint64_t address, size_t bytes)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    device_block *block = nullptr;
    unsigned char *start = nullptr;
    device *d = device_of(address, &block, &start);
    for (auto &c : contexts) {
        (void)run_until(c.get(), [] { return false; });
    }
    if (d != nullptr && inside(address, bytes)) {
        unlocked scope(d);
        memcpy(to, reinterpret_cast<void *>(static_cast<uintptr_t>(address)), bytes);
    } else {
        report("simcuda_read: not inside a block");
    }
}

/* ---- for libraries that stand in for others on top of this one ---- */

EXPORT int simcuda_call(const char *name)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    int result = SUCCESS;
    return injected(name, &result) ? result : SUCCESS;
}
EXPORT void simcuda_report(const char *text)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    report(text);
}
EXPORT int simcuda_inside(uint64_t address, size_t bytes)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    return inside(address, bytes) ? 1 : 0;
}
EXPORT int simcuda_enqueue(void *handle, int (*work)(void *), void (*drop)(void *), void *user)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    std::shared_ptr<void> owned(user, drop);
    NEED_CONTEXT();
    stream *s = find_stream(here, handle);
    if (s == nullptr) {
        return INVALID_HANDLE;
    }
    std::function<int()> doing = [owned, work] { return work(owned.get()); };
    if (!captured(s, doing, nullptr)) {
        enqueue(s, doing);
        drift(here);
    }
    return SUCCESS;
}

/* ---- the driver ---- */

EXPORT int cuInit(unsigned flags)
{
    ENTER("cuInit");
    (void)flags;
    if (initialised) {
        return SUCCESS;
    }
    const char *text = getenv("SIMCUDA_DEVICES");
    int count = text != nullptr ? atoi(text) : 2;
    if (count == 0) {
        return NO_DEVICE;
    }
    text = getenv("SIMCUDA_SEED");
    if (text != nullptr) {
        random_state = strtoull(text, nullptr, 0);
    }
    text = getenv("SIMCUDA_POOLS");
    pools = text == nullptr || atoi(text) != 0;
    text = getenv("SIMCUDA_UNITS");
    units = text != nullptr && atoi(text) > 0 ? atoi(text) : 4;
    text = getenv("SIMCUDA_SHARED");
    shared_limit = text != nullptr ? atoi(text) * 1024 : shared_limit;
    text = getenv("SIMCUDA_MEMORY");
    size_t limit = text != nullptr ? strtoull(text, nullptr, 0) : static_cast<size_t>(4) << 30;
    text = getenv("SIMCUDA_FAIL");
    if (text != nullptr && strchr(text, ':') != nullptr) {
        fail_name.assign(text, static_cast<size_t>(strchr(text, ':') - text));
        fail_at = atol(strchr(text, ':') + 1);
        fail_result = LAUNCH_FAILED;
    }
    for (int i = 0; i < count; i++) {
        std::unique_ptr<device> d(new device());
        d->ordinal = i;
        d->limit = limit;
        d->reserved = static_cast<size_t>(16) << 30;
        void *map = mmap(nullptr, d->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED) {
            return OUT_OF_MEMORY;
        }
        d->base = static_cast<unsigned char *>(map);
        std::unique_ptr<context> c(new context());
        c->on = d.get();
        c->legacy.owner = c->per_thread.owner = c.get();
        c->legacy.legacy = true;
        devices.push_back(std::move(d));
        contexts.push_back(std::move(c));
    }
    initialised = true;
    return SUCCESS;
}

EXPORT int cuDriverGetVersion(int *version)
{
    ENTER("cuDriverGetVersion");
    *version = 13000;
    return SUCCESS;
}
EXPORT int cuGetErrorName(int result, const char **text)
{
    *text = result == OUT_OF_MEMORY   ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED"
            : result == INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE"
                                      : "CUDA_ERROR_OF_THE_SIMULATOR";
    return SUCCESS;
}
EXPORT int cuGetErrorString(int result, const char **text)
{
    *text = result == LAUNCH_FAILED && !fault.empty() ? fault.c_str() : "simulated";
    return SUCCESS;
}
EXPORT int cuDeviceGetCount(int *count)
{
    ENTER("cuDeviceGetCount");
    if (!initialised) {
        return NOT_INITIALIZED;
    }
    *count = static_cast<int>(devices.size());
    return SUCCESS;
}
EXPORT int cuDeviceGet(int *handle, int ordinal)
{
    ENTER("cuDeviceGet");
    if (ordinal < 0 || ordinal >= static_cast<int>(devices.size())) {
        return INVALID_DEVICE;
    }
    *handle = 100 + ordinal; /* not the ordinal, so that mixing them up shows */
    return SUCCESS;
}
EXPORT int cuDeviceGetName(char *name, int bytes, int handle)
{
    ENTER("cuDeviceGetName");
    snprintf(name, static_cast<size_t>(bytes), "simulated device %d", handle - 100);
    return SUCCESS;
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int handle)
{
    ENTER("cuDeviceGetAttribute");
    (void)handle;
    switch (attribute) {
    case 16: *value = units; break;
    case 75: *value = 9; break;
    case 76: *value = 0; break;
    case 97: *value = shared_limit; break;
    case 115: *value = pools ? 1 : 0; break;
    default: return INVALID_VALUE;
    }
    return SUCCESS;
}
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int handle)
{
    ENTER("cuDeviceTotalMem_v2");
    *bytes = devices.at(static_cast<size_t>(handle - 100))->limit;
    return SUCCESS;
}
EXPORT int cuDevicePrimaryCtxRetain(void **result, int handle)
{
    ENTER("cuDevicePrimaryCtxRetain");
    context *c = contexts.at(static_cast<size_t>(handle - 100)).get();
    c->retained++;
    *result = c;
    return SUCCESS;
}
EXPORT int cuCtxPushCurrent_v2(void *c)
{
    ENTER("cuCtxPushCurrent_v2");
    if (c == nullptr || static_cast<context *>(c)->retained == 0) {
        return INVALID_CONTEXT;
    }
    current.push_back(static_cast<context *>(c));
    return SUCCESS;
}
EXPORT int cuCtxPopCurrent_v2(void **c)
{
    /* Never made to fail: a pop that fails leaves the context current, and there is no way to tell of it. */
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (current.empty()) {
        return INVALID_CONTEXT;
    }
    *c = current.back();
    current.pop_back();
    return SUCCESS;
}
EXPORT int cuMemGetInfo_v2(size_t *available, size_t *total)
{
    ENTER("cuMemGetInfo_v2");
    NEED_CONTEXT();
    *total = here->on->limit;
    *available = here->on->limit - here->on->held;
    return SUCCESS;
}
EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    ENTER("cuMemAlloc_v2");
    NEED_CONTEXT();
    NOT_WHILE_CAPTURING(here);
    int result = allocate_block(here->on, bytes, address);
    if (result == SUCCESS) {
        counters.allocations++;
        counters.live++;
    }
    return result;
}
static int release_now(uint64_t address)
{
    device_block *block = nullptr;
    unsigned char *start = nullptr;
    device *d = device_of(address, &block, &start);
    if (d == nullptr || block == nullptr || block->released ||
        reinterpret_cast<uintptr_t>(start) != static_cast<uintptr_t>(address)) {
        return INVALID_VALUE;
    }
    unlocked scope(d);
    check_redzone(start, *block);
    if (block->bytes < large) {
        memset(start, released_byte, block->bytes);
    }
    block->released = true;
    d->held -= block->bytes;
    return SUCCESS;
}
EXPORT int cuMemFree_v2(uint64_t address)
{
    ENTER("cuMemFree_v2");
    NEED_CONTEXT();
    NOT_WHILE_CAPTURING(here);
    /* A real driver may wait for the device here; this one does not, so that a release too early shows. */
    int result = release_now(address);
    if (result == SUCCESS) {
        counters.releases++;
        counters.live--;
    }
    return result;
}
EXPORT int cuMemAllocAsync(uint64_t *address, size_t bytes, void *handle)
{
    ENTER("cuMemAllocAsync");
    NEED_CONTEXT();
    stream *s = find_stream(here, handle);
    if (s == nullptr) {
        return INVALID_HANDLE;
    }
    NOT_WHILE_CAPTURING(here);
    int result = allocate_block(here->on, bytes, address);
    if (result == OUT_OF_MEMORY) { /* releases that are still enqueued */
        (void)run_until(here, [] { return false; });
        result = allocate_block(here->on, bytes, address);
    }
    if (result == SUCCESS) {
        counters.allocations++;
        counters.live++;
    }
    return result;
}
EXPORT int cuMemFreeAsync(uint64_t address, void *handle)
{
    ENTER("cuMemFreeAsync");
    NEED_CONTEXT();
    stream *s = find_stream(here, handle);
    device_block *block = nullptr;
    unsigned char *start = nullptr;
    if (s == nullptr) {
        return INVALID_HANDLE;
    }
    NOT_WHILE_CAPTURING(here);
    if (device_of(address, &block, &start) != here->on || block == nullptr || block->released || !block->live) {
        return INVALID_VALUE;
    }
    block->live = false;
    counters.releases++;
    counters.live--;
    enqueue(s, [address] { return release_now(address); });
    return SUCCESS;
}
EXPORT int cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    ENTER("cuMemHostAlloc");
    NEED_CONTEXT();
    (void)flags;
    NOT_WHILE_CAPTURING(here);
    void *made = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (made == nullptr) {
        return OUT_OF_MEMORY;
    }
    memset(made, fresh_byte, bytes);
    host_blocks[static_cast<unsigned char *>(made)] = bytes;
    counters.live_host++;
    *pointer = made;
    return SUCCESS;
}
EXPORT int cuMemFreeHost(void *pointer)
{
    ENTER("cuMemFreeHost");
    NEED_CONTEXT();
    if (host_blocks.erase(static_cast<unsigned char *>(pointer)) == 0) {
        return INVALID_VALUE;
    }
    /* As the real one: what the device may still use is waited for. */
    for (auto &c : contexts) {
        (void)run_until(c.get(), [] { return false; });
    }
    counters.live_host--;
    free(pointer);
    return SUCCESS;
}
EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *address, void *pointer, unsigned flags)
{
    ENTER("cuMemHostGetDevicePointer_v2");
    NEED_CONTEXT();
    (void)flags;
    if (!is_pinned(pointer)) {
        return INVALID_VALUE;
    }
    *address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer));
    return SUCCESS;
}
EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *handle)
{
    ENTER("cuMemcpyHtoDAsync_v2");
    NEED_CONTEXT();
    stream *s = find_stream(here, handle);
    if (s == nullptr || !inside(to, bytes)) {
        return INVALID_VALUE;
    }
    unsigned char *target = reinterpret_cast<unsigned char *>(static_cast<uintptr_t>(to));
    std::function<int()> work;
    if (is_pinned(from)) {
        work = [target, from, bytes] {
            memcpy(target, from, bytes);
            return static_cast<int>(SUCCESS);
        };
    } else { /* pageable memory is read before the call returns */
        const unsigned char *source = static_cast<const unsigned char *>(from);
        std::shared_ptr<std::vector<unsigned char>> copy(new std::vector<unsigned char>(source, source + bytes));
        work = [target, copy, bytes] {
            memcpy(target, copy->data(), bytes);
            return static_cast<int>(SUCCESS);
        };
    }
    if (captured(s, work, nullptr)) {
        return SUCCESS;
    }
    counters.uploads++;
    counters.upload_bytes += bytes;
    enqueue(s, work);
    drift(here);
    return SUCCESS;
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *handle)
{
    ENTER("cuMemcpyDtoHAsync_v2");
    NEED_CONTEXT();
    stream *s = find_stream(here, handle);
    if (s == nullptr || !inside(from, bytes)) {
        return INVALID_VALUE;
    }
    const unsigned char *source = reinterpret_cast<unsigned char *>(static_cast<uintptr_t>(from));
    std::function<int()> work = [to, source, bytes] {
        memcpy(to, source, bytes);
        return static_cast<int>(SUCCESS);
    };
    if (captured(s, work, nullptr)) {
        return SUCCESS;
    }
    counters.downloads++;
    counters.download_bytes += bytes;
    enqueue(s, work);
    if (!is_pinned(to)) { /* a copy to pageable memory waits */
        counters.synchronisations++;
        return run_stream(here, s);
    }
    return SUCCESS;
}
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *handle)
{
    ENTER("cuMemcpyDtoDAsync_v2");
    NEED_CONTEXT();
    stream *s = find_stream(here, handle);
    if (s == nullptr || !inside(to, bytes) || !inside(from, bytes)) {
        return INVALID_VALUE;
    }
    std::function<int()> work = [to, from, bytes] {
        memcpy(reinterpret_cast<void *>(static_cast<uintptr_t>(to)), reinterpret_cast<void *>(static_cast<uintptr_t>(from)), bytes);
        return static_cast<int>(SUCCESS);
    };
    if (!captured(s, work, nullptr)) {
        enqueue(s, work);
    }
    return SUCCESS;
}
EXPORT int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *handle)
{
    ENTER("cuMemsetD8Async");
    NEED_CONTEXT();
    stream *s = find_stream(here, handle);
    if (s == nullptr || !inside(to, bytes)) {
        return INVALID_VALUE;
    }
    std::function<int()> work = [to, value, bytes] {
        memset(reinterpret_cast<void *>(static_cast<uintptr_t>(to)), value, bytes);
        return static_cast<int>(SUCCESS);
    };
    if (!captured(s, work, nullptr)) {
        enqueue(s, work);
    }
    return SUCCESS;
}
EXPORT int cuModuleLoadData(void **result, const void *image)
{
    ENTER("cuModuleLoadData");
    NEED_CONTEXT();
    const char *text = static_cast<const char *>(image);
    if (text == nullptr || (strncmp(text, "simulated", 9) != 0 && memcmp(text, "\177ELF", 4) != 0)) {
        return INVALID_IMAGE;
    }
    counters.module_loads++;
    module_handle *made = new module_handle(); /* for the life of the process */
    if (strncmp(text, "simulated ", 10) == 0) { /* by the stand-in for NVRTC: "simulated max_plus_f32 sm_90" */
        made->prefix = "ts_" + std::string(text + 10, strcspn(text + 10, " ")) + "_";
    }
    *result = made;
    return SUCCESS;
}
static bool is_hidden(const char *name)
{
    const char *list = getenv("SIMCUDA_HIDE");
    for (size_t length; list != nullptr && *list != 0; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        if (length > 0 && std::string(name).find(std::string(list, length)) != std::string::npos) {
            return true;
        }
    }
    return false;
}
EXPORT int cuModuleGetFunction(void **result, void *handle, const char *name)
{
    ENTER("cuModuleGetFunction");
    NEED_CONTEXT();
    module_handle *m = static_cast<module_handle *>(handle);
    const ts_sim_kernel *kernel = find_kernel(name);
    if (kernel == nullptr || is_hidden(name) || strncmp(name, m->prefix.c_str(), m->prefix.size()) != 0) {
        return NOT_FOUND;
    }
    std::unique_ptr<function_handle> &f = m->functions[name];
    if (f == nullptr) {
        f.reset(new function_handle());
        f->kernel = kernel;
    }
    *result = f.get();
    return SUCCESS;
}
EXPORT int cuFuncSetAttribute(void *f, int attribute, int value)
{
    ENTER("cuFuncSetAttribute");
    NEED_CONTEXT();
    if (attribute != 8 || value < 0 || value > shared_limit) {
        return INVALID_VALUE;
    }
    static_cast<function_handle *>(f)->shared_allowed = static_cast<size_t>(value);
    return SUCCESS;
}
EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *handle, void **parameters, void **extra)
{
    ENTER("cuLaunchKernel");
    NEED_CONTEXT();
    function_handle *f = static_cast<function_handle *>(function);
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    stream *s = find_stream(here, handle);
    if (s == nullptr || extra != nullptr) {
        return INVALID_VALUE;
    }
    int result = check_launch(f, grid, block, shared, parameters);
    if (result != SUCCESS) {
        return result;
    }
    if (s->capture != nullptr && s->capture_broken) {
        return CAPTURE_INVALIDATED;
    }
    const unsigned char *bytes = static_cast<const unsigned char *>(parameters[0]);
    std::vector<unsigned char> copy(bytes, bytes + f->kernel->bytes);
    const ts_sim_kernel *kernel = f->kernel;
    std::function<int()> work = [kernel, copy, gx, bx, shared] {
        return run_kernel(kernel, copy, static_cast<int64_t>(gx), static_cast<int32_t>(bx), shared);
    };
    if (captured(s, work, nullptr)) {
        return SUCCESS;
    }
    counters.launches++;
    enqueue(s, work);
    drift(here);
    return SUCCESS;
}
EXPORT int cuStreamSynchronize(void *handle)
{
    ENTER("cuStreamSynchronize");
    NEED_CONTEXT();
    stream *s = find_stream(here, handle);
    if (s == nullptr) {
        return INVALID_HANDLE;
    }
    NOT_WHILE_CAPTURING(here);
    if (s->capture != nullptr) { /* in whatever mode */
        s->capture_broken = true;
        return CAPTURE_UNSUPPORTED;
    }
    counters.synchronisations++;
    return run_stream(here, s);
}
EXPORT int cuStreamIsCapturing(void *handle, int *capturing)
{
    ENTER("cuStreamIsCapturing");
    NEED_CONTEXT();
    stream *s = find_stream(here, handle);
    if (s == nullptr) {
        return INVALID_HANDLE;
    }
    *capturing = s->capture != nullptr ? 1 : 0;
    return SUCCESS;
}
EXPORT int cuStreamCreate(void **result, unsigned flags)
{
    ENTER("cuStreamCreate");
    NEED_CONTEXT();
    stream *s = new stream();
    s->owner = here;
    s->blocking = (flags & 1u) == 0;
    here->streams.push_back(s);
    *result = s;
    return SUCCESS;
}
EXPORT int cuStreamDestroy_v2(void *handle)
{
    ENTER_RELEASE("cuStreamDestroy_v2", handle);
    NEED_CONTEXT();
    stream *s = find_stream(here, handle);
    if (s == nullptr || s == &here->legacy || s == &here->per_thread) {
        return INVALID_HANDLE;
    }
    int result = run_stream(here, s);
    if (s->capture != nullptr) {
        delete s->capture;
        counters.live_graphs--;
    }
    here->streams.erase(std::find(here->streams.begin(), here->streams.end(), s));
    delete s;
    return result;
}
EXPORT int cuStreamBeginCapture_v2(void *handle, int mode)
{
    ENTER("cuStreamBeginCapture_v2");
    NEED_CONTEXT();
    stream *s = find_stream(here, handle);
    if (s == nullptr || s == &here->legacy || s->capture != nullptr) {
        return CAPTURE_UNSUPPORTED;
    }
    s->capture = new graph();
    s->capture->owner = here;
    s->capture_broken = false;
    s->capture_relaxed = mode == 2;
    counters.live_graphs++;
    return SUCCESS;
}
EXPORT int cuStreamEndCapture(void *handle, void **result)
{
    ENTER("cuStreamEndCapture");
    NEED_CONTEXT();
    stream *s = find_stream(here, handle);
    if (s == nullptr || s->capture == nullptr) {
        return INVALID_VALUE;
    }
    graph *made = s->capture;
    s->capture = nullptr;
    if (s->capture_broken) {
        delete made;
        counters.live_graphs--;
        return CAPTURE_INVALIDATED;
    }
    *result = made;
    return SUCCESS;
}
EXPORT int cuEventCreate(void **result, unsigned flags)
{
    ENTER("cuEventCreate");
    NEED_CONTEXT();
    (void)flags;
    *result = new event();
    counters.live_events++;
    return SUCCESS;
}
EXPORT int cuEventRecord(void *e, void *handle)
{
    ENTER("cuEventRecord");
    NEED_CONTEXT();
    stream *s = find_stream(here, handle);
    if (s == nullptr) {
        return INVALID_HANDLE;
    }
    event *recorded = static_cast<event *>(e);
    recorded->recorded = true;
    recorded->at = {s, next_number};
    enqueue(s, [] { return static_cast<int>(SUCCESS); });
    return SUCCESS;
}
EXPORT int cuStreamWaitEvent(void *handle, void *e, unsigned flags)
{
    ENTER("cuStreamWaitEvent");
    NEED_CONTEXT();
    (void)flags;
    stream *s = find_stream(here, handle);
    if (s == nullptr) {
        return INVALID_HANDLE;
    }
    if (s->capture != nullptr) { /* an event from outside of the capture */
        s->capture_broken = true;
        return CAPTURE_INVALIDATED;
    }
    if (static_cast<event *>(e)->recorded) {
        enqueue(s, [] { return static_cast<int>(SUCCESS); });
        s->queue.back().after = static_cast<event *>(e)->at;
    }
    return SUCCESS;
}
static bool event_done(context *c, event *e)
{
    return !e->recorded || reached(c, e->at);
}
EXPORT int cuEventQuery(void *e)
{
    ENTER("cuEventQuery");
    NEED_CONTEXT();
    drift(here);
    return event_done(here, static_cast<event *>(e)) ? SUCCESS : NOT_READY;
}
EXPORT int cuEventSynchronize(void *e)
{
    ENTER("cuEventSynchronize");
    NEED_CONTEXT();
    event *waited = static_cast<event *>(e);
    counters.synchronisations++;
    return run_until(here, [here, waited] { return event_done(here, waited); });
}
EXPORT int cuEventDestroy_v2(void *e)
{
    ENTER_RELEASE("cuEventDestroy_v2", e);
    NEED_CONTEXT();
    delete static_cast<event *>(e);
    counters.live_events--;
    return SUCCESS;
}
EXPORT int cuPointerGetAttribute(void *value, int attribute, uint64_t address)
{
    ENTER("cuPointerGetAttribute");
    device_block *block = nullptr;
    unsigned char *start = nullptr;
    device *d = device_of(address, &block, &start);
    bool pinned = is_pinned(reinterpret_cast<void *>(static_cast<uintptr_t>(address)));
    if ((d == nullptr || block == nullptr) && !pinned) {
        return INVALID_VALUE;
    }
    if (attribute == 2) {
        *static_cast<unsigned *>(value) = pinned ? 1u : 2u;
    } else if (attribute == 8) {
        *static_cast<unsigned *>(value) = 0;
    } else if (attribute == 9) {
        *static_cast<int *>(value) = pinned ? 0 : d->ordinal;
    } else {
        return INVALID_VALUE;
    }
    return SUCCESS;
}

struct kernel_node {
    void *function;
    unsigned grid[3], block[3], shared;
    void **parameters;
    void **extra;
    void *kernel;
    void *context_;
};

static int fill_node(graph_node *node, const kernel_node *from)
{
    function_handle *f = static_cast<function_handle *>(from->function);
    int result = check_launch(f, from->grid, from->block, from->shared, from->parameters);
    if (result != SUCCESS) {
        return result;
    }
    const unsigned char *bytes = static_cast<const unsigned char *>(from->parameters[0]);
    node->kernel = f->kernel;
    node->grid = from->grid[0];
    node->threads = static_cast<int32_t>(from->block[0]);
    node->shared = from->shared;
    node->parameters.assign(bytes, bytes + f->kernel->bytes);
    return SUCCESS;
}
EXPORT int cuGraphCreate(void **result, unsigned flags)
{
    ENTER("cuGraphCreate");
    (void)flags;
    *result = new graph();
    counters.live_graphs++;
    return SUCCESS;
}
EXPORT int cuGraphAddKernelNode_v2(void **result, void *handle, void *const *after, size_t after_count,
                                   const kernel_node *parameters)
{
    ENTER("cuGraphAddKernelNode_v2");
    NEED_CONTEXT();
    graph *g = static_cast<graph *>(handle);
    std::unique_ptr<graph_node> node(new graph_node());
    int result_code = fill_node(node.get(), parameters);
    if (result_code != SUCCESS) {
        return result_code;
    }
    g->owner = here;
    for (size_t i = 0; i < after_count; i++) {
        size_t found = 0;
        while (found < g->nodes.size() && g->nodes[found].get() != after[i]) {
            found++;
        }
        if (found == g->nodes.size()) {
            return INVALID_VALUE;
        }
        node->after.push_back(found);
    }
    *result = node.get();
    g->nodes.push_back(std::move(node));
    return SUCCESS;
}
EXPORT int cuGraphAddChildGraphNode(void **result, void *handle, void *const *after, size_t after_count, void *child)
{
    ENTER("cuGraphAddChildGraphNode");
    NEED_CONTEXT();
    graph *g = static_cast<graph *>(handle), *inner = static_cast<graph *>(child);
    std::vector<size_t> before;
    for (size_t i = 0; i < after_count; i++) {
        size_t found = 0;
        while (found < g->nodes.size() && g->nodes[found].get() != after[i]) {
            found++;
        }
        if (found == g->nodes.size()) {
            return INVALID_VALUE;
        }
        before.push_back(found);
    }
    /* The child's nodes, then one that stands for their end. */
    size_t first = g->nodes.size();
    std::unique_ptr<graph_node> last(new graph_node());
    last->work = [] { return static_cast<int>(SUCCESS); };
    last->after = before;
    for (auto &node : inner->nodes) {
        std::unique_ptr<graph_node> copy(new graph_node(*node));
        for (size_t &i : copy->after) {
            i += first;
        }
        if (copy->after.empty()) {
            copy->after = before;
        }
        last->after.push_back(g->nodes.size());
        g->nodes.push_back(std::move(copy));
    }
    g->owner = here;
    *result = last.get();
    g->nodes.push_back(std::move(last));
    return SUCCESS;
}
EXPORT int cuGraphInstantiateWithFlags(void **result, void *handle, unsigned long long flags)
{
    ENTER("cuGraphInstantiateWithFlags");
    NEED_CONTEXT();
    (void)flags;
    graph *g = static_cast<graph *>(handle);
    graph_exec *made = new graph_exec();
    made->owner = here;
    for (auto &node : g->nodes) {
        made->nodes.push_back(*node);
        made->origin.push_back(node.get());
    }
    counters.live_graphs++;
    *result = made;
    return SUCCESS;
}
EXPORT int cuGraphExecKernelNodeSetParams_v2(void *handle, void *node, const kernel_node *parameters)
{
    ENTER("cuGraphExecKernelNodeSetParams_v2");
    NEED_CONTEXT();
    graph_exec *g = static_cast<graph_exec *>(handle);
    for (size_t i = 0; i < g->nodes.size(); i++) {
        if (g->origin[i] == node) {
            return fill_node(&g->nodes[i], parameters);
        }
    }
    return INVALID_VALUE;
}
EXPORT int cuGraphLaunch(void *handle, void *stream_handle)
{
    ENTER("cuGraphLaunch");
    NEED_CONTEXT();
    graph_exec *g = static_cast<graph_exec *>(handle);
    stream *s = find_stream(here, stream_handle);
    if (s == nullptr) {
        return INVALID_HANDLE;
    }
    counters.graph_launches++;
    std::shared_ptr<std::vector<graph_node>> nodes(new std::vector<graph_node>(g->nodes));
    std::function<int()> work = [nodes] {
        /* Any order that the dependencies allow. */
        std::vector<size_t> waiting(nodes->size()), ready;
        std::vector<std::vector<size_t>> next(nodes->size());
        for (size_t i = 0; i < nodes->size(); i++) {
            waiting[i] = (*nodes)[i].after.size();
            for (size_t before : (*nodes)[i].after) {
                next[before].push_back(i);
            }
            if (waiting[i] == 0) {
                ready.push_back(i);
            }
        }
        while (!ready.empty()) {
            size_t pick = next_random(&random_state) % ready.size();
            size_t i = ready[pick];
            ready[pick] = ready.back();
            ready.pop_back();
            const graph_node &node = (*nodes)[i];
            int result = node.work ? node.work()
                                   : run_kernel(node.kernel, node.parameters, node.grid, node.threads, node.shared);
            if (result != SUCCESS) {
                return result;
            }
            for (size_t follower : next[i]) {
                if (--waiting[follower] == 0) {
                    ready.push_back(follower);
                }
            }
        }
        return static_cast<int>(SUCCESS);
    };
    if (!captured(s, work, nullptr)) {
        enqueue(s, work);
    }
    return SUCCESS;
}
EXPORT int cuGraphDestroy(void *handle)
{
    ENTER_RELEASE("cuGraphDestroy", handle);
    delete static_cast<graph *>(handle);
    counters.live_graphs--;
    return SUCCESS;
}
EXPORT int cuGraphExecDestroy(void *handle)
{
    ENTER_RELEASE("cuGraphExecDestroy", handle);
    delete static_cast<graph_exec *>(handle);
    counters.live_graphs--;
    return SUCCESS;
}
} // extern "C"
