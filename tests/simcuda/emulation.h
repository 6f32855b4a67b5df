/* The host half of kernels/target.h: what a kernel sees of the machine when it is compiled for the simulator. */
#ifndef TS_SIMCUDA_EMULATION_H
#define TS_SIMCUDA_EMULATION_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What the running block's current thread knows of itself; switched with the fiber. */
struct ts_sim_place {
    int32_t thread, threads;
    int64_t block, blocks;
    unsigned char *shared;
};
extern thread_local ts_sim_place ts_sim_here;

/* Block until every thread of the block (warp) has arrived. `line` names the call site: the threads of a barrier must
 * all wait at the same one. */
extern "C" void ts_sim_barrier(void);
extern "C" void ts_sim_barrier_warp(void);
/* Each lane gives `bytes` (at most 8) and gets those of all 32 in `all`, 8 bytes apart; *present: lanes that exist. */
extern "C" void ts_sim_exchange(const void *value, size_t bytes, unsigned char *all, uint32_t *present);
/* Asynchronous copies land at the latest when waited for, and at a seeded moment before. */
extern "C" void ts_sim_copy(void *shared, const void *global, size_t bytes);
extern "C" void ts_sim_copy_commit(void);
extern "C" void ts_sim_copy_wait(int groups);

typedef void (*ts_sim_entry)(const void *params);
struct ts_sim_kernel {
    ts_sim_kernel(const char *name, size_t bytes, int32_t threads, ts_sim_entry entry);
    const char *name;
    size_t bytes;
    int32_t threads; /* most threads of a block */
    ts_sim_entry entry;
    ts_sim_kernel *next;
};

/* Two steps, so that a name may be made by macros. */
#define TS_KERNEL(name, params, threads) TS_KERNEL_(name, params, threads)
#define TS_KERNEL_(name, params, threads)                                                        \
    static void name(const params &p);                                                           \
    static void name##_enter(const void *params_) { name(*static_cast<const params *>(params_)); } \
    static ts_sim_kernel name##_kernel(#name, sizeof(params), threads, name##_enter);            \
    static void name(const params &p)
#define TS_KERNEL_BLOCKS(name, params, threads, blocks) TS_KERNEL(name, params, threads)
#define TS_DEVICE static inline __attribute__((unused))
#define TS_APART TS_DEVICE

TS_DEVICE int32_t ts_thread(void) { return ts_sim_here.thread; }
TS_DEVICE int32_t ts_threads(void) { return ts_sim_here.threads; }
TS_DEVICE int64_t ts_block(void) { return ts_sim_here.block; }
TS_DEVICE int64_t ts_blocks(void) { return ts_sim_here.blocks; }
TS_DEVICE unsigned char *ts_shared(void) { return ts_sim_here.shared; }
TS_DEVICE void ts_sync(void) { ts_sim_barrier(); }
TS_DEVICE void ts_sync_warp(void) { ts_sim_barrier_warp(); }

template <typename T> TS_DEVICE T ts_sim_lane(T value, int32_t lane)
{
    unsigned char all[32 * 8];
    uint32_t present;
    ts_sim_exchange(&value, sizeof value, all, &present);
    if (lane >= 0 && lane < 32 && ((present >> lane) & 1u) != 0) {
        memcpy(&value, all + (size_t)lane * 8, sizeof value);
    }
    return value;
}
template <typename T> TS_DEVICE T ts_shuffle_xor(T value, int32_t mask)
{
    return ts_sim_lane(value, (ts_thread() & 31) ^ mask);
}
template <typename T> TS_DEVICE T ts_shuffle_down(T value, int32_t by)
{
    return ts_sim_lane(value, (ts_thread() & 31) + by);
}
template <typename T> TS_DEVICE T ts_shuffle(T value, int32_t lane) { return ts_sim_lane(value, lane & 31); }
TS_DEVICE uint32_t ts_ballot(bool predicate)
{
    unsigned char all[32 * 8], mine = predicate ? 1 : 0;
    uint32_t present, result = 0;
    ts_sim_exchange(&mine, 1, all, &present);
    for (uint32_t lane = 0; lane < 32; lane++) {
        if (((present >> lane) & 1u) != 0 && all[lane * 8] != 0) {
            result |= 1u << lane;
        }
    }
    return result;
}
TS_DEVICE uint32_t ts_match_any(uint32_t value)
{
    unsigned char all[32 * 8];
    uint32_t present, result = 0;
    ts_sim_exchange(&value, sizeof value, all, &present);
    for (uint32_t lane = 0; lane < 32; lane++) {
        uint32_t other;
        memcpy(&other, all + lane * 8, sizeof other);
        if (((present >> lane) & 1u) != 0 && other == value) {
            result |= 1u << lane;
        }
    }
    return result;
}

/* Blocks of one launch run one after another or on several host threads. */
TS_DEVICE void ts_atomic_min(uint64_t *address, uint64_t value)
{
    uint64_t seen = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (value < seen &&
           !__atomic_compare_exchange_n(address, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

TS_DEVICE uint32_t ts_atomic_add_shared(uint32_t *address, uint32_t value)
{
    uint32_t old = *address; /* threads of a block take turns */
    *address = old + value;
    return old;
}

TS_DEVICE void ts_copy_4(void *shared, const void *global) { ts_sim_copy(shared, global, 4); }
TS_DEVICE void ts_copy_8(void *shared, const void *global) { ts_sim_copy(shared, global, 8); }
TS_DEVICE void ts_copy_16(void *shared, const void *global) { ts_sim_copy(shared, global, 16); }
TS_DEVICE void ts_copy_block(void *shared, const void *global, int bytes, uint64_t *)
{
    for (int i = ts_thread() % 32 * 16; i < bytes; i += 512) {
        ts_copy_16(static_cast<char *>(shared) + i, static_cast<const char *>(global) + i);
    }
}
TS_DEVICE void ts_copy_commit(void) { ts_sim_copy_commit(); }
template <int N> TS_DEVICE void ts_copy_wait(void) { ts_sim_copy_wait(N); }

/* Stages of a pipeline. Here a wait is a barrier of the block, which is more than the device does: it also holds back who
 * would fill a stage again too early. */
TS_DEVICE void ts_stages_init(uint64_t *, int, int, bool) {}
TS_DEVICE void ts_stage_reuse(uint64_t *, uint32_t) {}
TS_DEVICE void ts_stage_reuse_by(uint64_t *, uint32_t, bool) { ts_sim_barrier(); }
TS_DEVICE void ts_stage_commit(uint64_t *) {}
TS_DEVICE void ts_stage_stored(uint64_t *) {}
template <int Ahead> TS_DEVICE void ts_stage_wait(uint64_t *, uint32_t)
{
    ts_sim_copy_wait(Ahead);
    ts_sim_barrier();
}
TS_DEVICE void ts_stage_release(uint64_t *) { ts_sim_barrier_warp(); }

#endif
