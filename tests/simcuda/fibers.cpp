#include <simcuda/fibers.h>

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <unordered_map>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define SIM_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define SIM_TSAN 1
#endif
#if defined(SIM_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(SIM_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

thread_local ts_sim_place ts_sim_here;

/* ---- kernels, by name ---- */

static ts_sim_kernel *first_kernel; /* filled by constructors, before main */

ts_sim_kernel::ts_sim_kernel(const char *name_, size_t bytes_, int32_t threads_, ts_sim_entry entry_)
    : name(name_), bytes(bytes_), threads(threads_), entry(entry_), next(first_kernel)
{
    first_kernel = this;
}

const ts_sim_kernel *find_kernel(const char *name)
{
    static const std::unordered_map<std::string, const ts_sim_kernel *> table = [] {
        std::unordered_map<std::string, const ts_sim_kernel *> made;
        for (const ts_sim_kernel *kernel = first_kernel; kernel != nullptr; kernel = kernel->next) {
            made[kernel->name] = kernel;
        }
        return made;
    }();
    auto found = table.find(name);
    return found == table.end() ? nullptr : found->second;
}

/* ---- switching stacks ---- */

/* Save the callee-saved registers on this stack, keep its pointer in *from and go on where `to` was left. */
extern "C" void simcuda_switch(void **from, void *to);
extern "C" void simcuda_start(void);
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl simcuda_switch\n.hidden simcuda_switch\n.type simcuda_switch,@function\nsimcuda_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        ".size simcuda_switch,.-simcuda_switch\n"
        ".globl simcuda_start\n.hidden simcuda_start\n.type simcuda_start,@function\nsimcuda_start:\n"
        "  xorl %ebp, %ebp\n  callq simcuda_fiber_main\n  ud2\n"
        ".size simcuda_start,.-simcuda_start\n");
static const size_t saved_words = 7; /* six registers and the return address */
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl simcuda_switch\n.hidden simcuda_switch\n.type simcuda_switch,%function\nsimcuda_switch:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n  stp x25, x26, [sp, #48]\n"
        "  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n"
        "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n  ret\n"
        ".globl simcuda_start\n.hidden simcuda_start\n.type simcuda_start,%function\nsimcuda_start:\n"
        "  mov x29, #0\n  bl simcuda_fiber_main\n  brk #0\n");
static const size_t saved_words = 20;
#else
#error "the simulator has no context switch for this processor"
#endif

static const size_t stack_bytes = 256 * 1024;
static const size_t guard_bytes = 64 * 1024;

enum fiber_state { READY, AT_BARRIER, AT_WARP, DONE };

struct pending_copy {
    void *to;
    const void *from;
    size_t count;
    int group;
};

struct fiber {
    fiber_state state = DONE;
    int32_t thread = 0;
    void *stack_pointer = nullptr;
    unsigned char *stack = nullptr; /* lowest usable address */
    int parity = 0;
    int group = 0; /* of asynchronous copies being collected */
    std::vector<pending_copy> copies;
#if defined(SIM_ASAN)
    void *fake_stack = nullptr;
#endif
#if defined(SIM_TSAN)
    void *tsan = nullptr;
#endif
};

struct warp_exchange {
    unsigned char values[2][32 * 8];
};

struct block_runner {
    std::vector<fiber> fibers;
    std::vector<unsigned char *> spare_stacks;
    std::vector<warp_exchange> exchanges;
    std::vector<int32_t> order;
    const ts_sim_kernel *kernel = nullptr;
    const void *parameters = nullptr;
    int32_t threads = 0, at_barrier = 0, done = 0;
    std::vector<int32_t> at_warp, done_in_warp;
    fiber *current = nullptr;
    void *scheduler_stack = nullptr;
    uint64_t *random = nullptr;
    std::string fault;
    unsigned char *shared_map = nullptr;
#if defined(SIM_ASAN)
    const void *scheduler_bottom = nullptr;
    size_t scheduler_size = 0;
    void *scheduler_fake = nullptr;
#endif
#if defined(SIM_TSAN)
    void *scheduler_tsan = nullptr;
#endif
};
static const size_t shared_most = 256 * 1024;

static thread_local block_runner *running;

static unsigned char *make_stack(block_runner *runner)
{
    if (!runner->spare_stacks.empty()) {
        unsigned char *stack = runner->spare_stacks.back();
        runner->spare_stacks.pop_back();
        return stack;
    }
    void *map = mmap(nullptr, stack_bytes + guard_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED || mprotect(map, guard_bytes, PROT_NONE) != 0) {
        throw std::bad_alloc();
    }
    return static_cast<unsigned char *>(map) + guard_bytes;
}

/* From the current fiber to the scheduler. */
static void leave_fiber(bool last)
{
    block_runner *runner = running;
    fiber *self = runner->current;
#if defined(SIM_ASAN)
    __sanitizer_start_switch_fiber(last ? nullptr : &self->fake_stack, runner->scheduler_bottom, runner->scheduler_size);
#endif
#if defined(SIM_TSAN)
    __tsan_switch_to_fiber(runner->scheduler_tsan, 0);
#endif
    (void)last;
    simcuda_switch(&self->stack_pointer, runner->scheduler_stack);
#if defined(SIM_ASAN)
    __sanitizer_finish_switch_fiber(self->fake_stack, &runner->scheduler_bottom, &runner->scheduler_size);
#endif
}

static void land(fiber *self, int youngest_left)
{
    size_t kept = 0;
    for (size_t i = 0; i < self->copies.size(); i++) {
        pending_copy &copy = self->copies[i];
        if (self->group - copy.group >= youngest_left + 1 || youngest_left < 0) {
            memcpy(copy.to, copy.from, copy.count);
        } else {
            self->copies[kept++] = copy;
        }
    }
    self->copies.resize(kept);
}

extern "C" __attribute__((noreturn)) void simcuda_fiber_main(void)
{
    block_runner *runner = running;
#if defined(SIM_ASAN)
    __sanitizer_finish_switch_fiber(nullptr, &runner->scheduler_bottom, &runner->scheduler_size);
#endif
    runner->kernel->entry(runner->parameters);
    runner = running;
    land(runner->current, -1);
    runner->current->state = DONE;
    leave_fiber(true);
    __builtin_unreachable();
}

static void enter_fiber(block_runner *runner, fiber *target)
{
    runner->current = target;
    ts_sim_here.thread = target->thread;
#if defined(SIM_ASAN)
    __sanitizer_start_switch_fiber(&runner->scheduler_fake, target->stack, stack_bytes);
#endif
#if defined(SIM_TSAN)
    __tsan_switch_to_fiber(target->tsan, 0);
#endif
    simcuda_switch(&runner->scheduler_stack, target->stack_pointer);
#if defined(SIM_ASAN)
    __sanitizer_finish_switch_fiber(runner->scheduler_fake, nullptr, nullptr);
#endif
}

static void prepare_fiber(block_runner *runner, fiber *target)
{
    if (target->stack == nullptr) {
        target->stack = make_stack(runner);
    }
    void **top = reinterpret_cast<void **>(target->stack + stack_bytes - 64);
#if defined(__x86_64__)
    top[0] = nullptr;
    top[-1] = reinterpret_cast<void *>(simcuda_start);
    for (size_t i = 0; i < saved_words - 1; i++) {
        top[-2 - static_cast<ptrdiff_t>(i)] = nullptr;
    }
    target->stack_pointer = top - saved_words;
#else
    memset(top - saved_words, 0, saved_words * sizeof *top);
    top[-static_cast<ptrdiff_t>(saved_words) + 11] = reinterpret_cast<void *>(simcuda_start);
    target->stack_pointer = top - saved_words;
#endif
#if defined(SIM_TSAN)
    target->tsan = __tsan_create_fiber(0);
#endif
    target->state = READY;
    target->parity = 0;
    target->group = 0;
    target->copies.clear();
}

extern "C" void ts_sim_barrier(void)
{
    block_runner *runner = running;
    runner->current->state = AT_BARRIER;
    runner->at_barrier++;
    leave_fiber(false);
}

extern "C" void ts_sim_barrier_warp(void)
{
    block_runner *runner = running;
    runner->current->state = AT_WARP;
    runner->at_warp[static_cast<size_t>(runner->current->thread / 32)]++;
    leave_fiber(false);
}

extern "C" void ts_sim_exchange(const void *value, size_t bytes, unsigned char *all, uint32_t *present)
{
    block_runner *runner = running;
    fiber *self = runner->current;
    int32_t warp = self->thread / 32;
    int32_t lanes = std::min(runner->threads - warp * 32, 32);
    unsigned char *values = runner->exchanges[static_cast<size_t>(warp)].values[self->parity];

    memcpy(values + (self->thread & 31) * 8, value, bytes);
    self->parity ^= 1;
    ts_sim_barrier_warp();
    memcpy(all, values, 32 * 8);
    *present = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1u;
}

extern "C" void ts_sim_copy(void *shared, const void *global, size_t bytes)
{
    fiber *self = running->current;
    if ((reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(global)) % bytes != 0) {
        running->fault = "an asynchronous copy is misaligned";
    }
    if (next_random(running->random) % 4 == 0) {
        memcpy(shared, global, bytes);
        return;
    }
    memset(shared, 0xff, bytes);
    self->copies.push_back({shared, global, bytes, self->group});
}
extern "C" void ts_sim_copy_commit(void) { running->current->group++; }
extern "C" void ts_sim_copy_wait(int groups) { land(running->current, groups); }

/* Run the block that ts_sim_here tells of. */
static void run_block(block_runner *runner)
{
    int32_t threads = runner->threads, warps = (threads + 31) / 32;
    std::vector<unsigned char *> &spare = runner->spare_stacks;

    runner->at_barrier = 0;
    runner->done = 0;
    runner->at_warp.assign(static_cast<size_t>(warps), 0);
    runner->done_in_warp.assign(static_cast<size_t>(warps), 0);
    for (size_t i = 0; i < runner->fibers.size(); i++) {
        runner->fibers[i].state = DONE;
        runner->fibers[i].thread = static_cast<int32_t>(i);
    }
    /* A thread that ends without waiting leaves its stack to the next. */
    int32_t first = static_cast<int32_t>(next_random(runner->random) % static_cast<uint64_t>(threads));
    for (int32_t k = 0; k < threads; k++) {
        fiber *target = &runner->fibers[static_cast<size_t>((first + k) % threads)];
        prepare_fiber(runner, target);
        enter_fiber(runner, target);
        if (target->state == DONE) {
#if defined(SIM_TSAN)
            __tsan_destroy_fiber(target->tsan);
#endif
            spare.push_back(target->stack);
            target->stack = nullptr;
            runner->done++;
            runner->done_in_warp[static_cast<size_t>(target->thread / 32)]++;
        }
    }
    while (runner->done < threads && runner->fault.empty()) {
        bool moved = false;
        if (runner->at_barrier == threads) {
            runner->at_barrier = 0;
            for (fiber &target : runner->fibers) {
                if (target.state == AT_BARRIER) {
                    target.state = READY;
                }
            }
            moved = true;
        }
        for (int32_t warp = 0; warp < warps; warp++) {
            size_t w = static_cast<size_t>(warp);
            int32_t lanes = std::min(threads - warp * 32, 32);
            if (runner->at_warp[w] == lanes) {
                runner->at_warp[w] = 0;
                for (int32_t lane = 0; lane < lanes; lane++) {
                    runner->fibers[static_cast<size_t>(warp * 32 + lane)].state = READY;
                }
                moved = true;
            }
        }
        if (!moved) {
            runner->fault = runner->done > 0 ? "threads returned before a barrier that others wait at"
                                             : "threads wait at different barriers";
            break;
        }
        first = static_cast<int32_t>(next_random(runner->random) % static_cast<uint64_t>(threads));
        for (int32_t k = 0; k < threads; k++) {
            fiber *target = &runner->fibers[static_cast<size_t>((first + k) % threads)];
            if (target->state != READY) {
                continue;
            }
            enter_fiber(runner, target);
            if (target->state == DONE) {
#if defined(SIM_TSAN)
                __tsan_destroy_fiber(target->tsan);
#endif
                runner->done++;
                runner->done_in_warp[static_cast<size_t>(target->thread / 32)]++;
            }
        }
    }
}

std::string simulate_launch(const ts_sim_kernel *kernel, const void *parameters, int64_t blocks, int32_t threads,
                            size_t shared_bytes, uint64_t *random)
{
    static thread_local block_runner runner;

    running = &runner;
    runner.kernel = kernel;
    runner.parameters = parameters;
    runner.threads = threads;
    runner.random = random;
    runner.fault.clear();
    if (runner.fibers.size() < static_cast<size_t>(threads)) {
        runner.fibers.resize(static_cast<size_t>(threads));
    }
    runner.exchanges.resize(static_cast<size_t>((threads + 31) / 32));
    if (runner.shared_map == nullptr) {
        void *map = mmap(nullptr, shared_most + guard_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED ||
            mprotect(static_cast<unsigned char *>(map) + shared_most, guard_bytes, PROT_NONE) != 0) {
            throw std::bad_alloc();
        }
        runner.shared_map = static_cast<unsigned char *>(map);
    }
#if defined(SIM_TSAN)
    runner.scheduler_tsan = __tsan_get_current_fiber();
#endif
    /* Shared memory ends where no access is allowed. */
    size_t rounded = (shared_bytes + 127) / 128 * 128;
    ts_sim_here.threads = threads;
    ts_sim_here.blocks = blocks;
    ts_sim_here.shared = runner.shared_map + shared_most - rounded;
    int64_t start = blocks > 1 ? static_cast<int64_t>(next_random(random) % static_cast<uint64_t>(blocks)) : 0;
    for (int64_t k = 0; k < blocks && runner.fault.empty(); k++) {
        ts_sim_here.block = (start + k) % blocks;
        memset(ts_sim_here.shared, 0xff, rounded);
        run_block(&runner);
    }
    /* Fibers left waiting after a fault are forgotten; their stacks are used again from the top. */
    return runner.fault;
}
