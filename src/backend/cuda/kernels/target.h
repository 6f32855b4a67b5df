/* The only place where kernels touch the machine: thread indices, shared memory, barriers, warp operations, atomics,
 * asynchronous copies, instructions that C cannot say. Everything else in kernels/ is plain C++ that also compiles for
 * the host, where tests/simcuda supplies the other half of this file (simcuda/emulation.h).
 *
 * Rules that make this possible: a kernel takes one struct by value, named p; shared memory is the one dynamic block;
 * warp operations name all lanes, and all lanes reach them; no thread returns before a barrier that others reach. */
#ifndef TS_CUDA_TARGET_H
#define TS_CUDA_TARGET_H

#include "abi.h"

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

#define TS_KERNEL(name, params, threads) \
    extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ params p)
/* The same, with so many blocks at a time on a multiprocessor. */
#define TS_KERNEL_BLOCKS(name, params, threads, blocks) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ params p)
#define TS_DEVICE static __device__ __forceinline__
#define TS_APART static __device__ __noinline__ /* for what should share no registers with its caller */

TS_DEVICE int32_t ts_thread(void) { return (int32_t)threadIdx.x; }
TS_DEVICE int32_t ts_threads(void) { return (int32_t)blockDim.x; }
TS_DEVICE int64_t ts_block(void) { return (int64_t)blockIdx.x; }
TS_DEVICE int64_t ts_blocks(void) { return (int64_t)gridDim.x; }

/* The dynamic shared block, 128-byte aligned. */
TS_DEVICE unsigned char *ts_shared(void)
{
    extern __shared__ __align__(128) unsigned char ts_shared_block[];
    return ts_shared_block;
}
TS_DEVICE void ts_sync(void) { __syncthreads(); }
TS_DEVICE void ts_sync_warp(void) { __syncwarp(0xffffffffu); }

/* T is a 4- or 8-byte scalar. */
template <typename T> TS_DEVICE T ts_shuffle_xor(T value, int32_t mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
template <typename T> TS_DEVICE T ts_shuffle_down(T value, int32_t by) { return __shfl_down_sync(0xffffffffu, value, (unsigned)by); }
template <typename T> TS_DEVICE T ts_shuffle(T value, int32_t lane) { return __shfl_sync(0xffffffffu, value, lane); }
TS_DEVICE uint32_t ts_ballot(bool predicate) { return __ballot_sync(0xffffffffu, predicate); }
TS_DEVICE uint32_t ts_match_any(uint32_t value) { return __match_any_sync(0xffffffffu, value); }

TS_DEVICE void ts_atomic_min(uint64_t *address, uint64_t value)
{
    atomicMin(reinterpret_cast<unsigned long long *>(address), (unsigned long long)value);
}

/* Of shared memory; returns what was there. */
TS_DEVICE uint32_t ts_atomic_add_shared(uint32_t *address, uint32_t value) { return atomicAdd(address, value); }

/* Asynchronous copies into shared memory; source and destination aligned to the size. They have landed after
 * ts_copy_wait<n>() (all but the n youngest groups) and a barrier. */
TS_DEVICE void ts_copy_4(void *shared, const void *global)
{
    unsigned int to = (unsigned int)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(global) : "memory");
}
TS_DEVICE void ts_copy_8(void *shared, const void *global)
{
    unsigned int to = (unsigned int)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(global) : "memory");
}
TS_DEVICE void ts_copy_16(void *shared, const void *global)
{
    unsigned int to = (unsigned int)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}
/* `bytes`, a multiple of 512, by the calling warp, into a stage of a pipeline (below): before its threads commit. */
TS_DEVICE void ts_copy_block(void *shared, const void *global, int bytes, uint64_t *stage)
{
#if __CUDA_ARCH__ >= 900 && !defined(TS_RACECHECK)
    if (threadIdx.x % 32 == 0) {
        unsigned int to = (unsigned int)__cvta_generic_to_shared(shared), at = (unsigned int)__cvta_generic_to_shared(stage);
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(to), "l"(global), "r"(bytes), "r"(at) : "memory");
    }
#else
    for (int i = (int)(threadIdx.x % 32) * 16; i < bytes; i += 512) {
        ts_copy_16(static_cast<char *>(shared) + i, static_cast<const char *>(global) + i);
    }
    (void)stage;
#endif
}
TS_DEVICE void ts_copy_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> TS_DEVICE void ts_copy_wait(void) { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

/* A pipeline of stages in shared memory, filled by asynchronous copies of all threads, emptied by all warps, without a
 * barrier of the block: 16 bytes per stage, `full` and `empty`, 8-byte aligned. Each thread, for each panel in turn:
 *     ts_stage_reuse(...)   wait until all warps have released what was in the stage
 *     (copies)  ts_stage_commit(...)
 *     ts_stage_wait<ahead>(...)   the copies of all threads have landed; `ahead` panels were committed since
 *     (reads)   ts_stage_release(...)
 * parity: whether the stage has been filled (emptied) an odd number of times before.
 * A warp releases by one of its threads, once all have met. compute-sanitizer's racecheck does not follow that order from one
 * thread to another; with TS_RACECHECK (TENSUM_CUDA_RACECHECK) every thread releases for itself. */
#ifdef TS_RACECHECK
#define TS_RELEASING 1 /* of so many threads, one releases */
#else
#define TS_RELEASING 32
#endif
TS_DEVICE void ts_stages_init(uint64_t *stages, int count, int threads, bool first)
{
    if (threadIdx.x < (unsigned)count) {
        unsigned int full = (unsigned int)__cvta_generic_to_shared(stages + 2 * threadIdx.x);
        if (!first) {
            asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(full) : "memory");
            asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(full + 8) : "memory");
        }
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(full), "r"(threads) : "memory");
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(full + 8), "r"(threads / TS_RELEASING) : "memory");
    }
#if __CUDA_ARCH__ >= 900
    /* Copies by blocks see the barriers, and overwrite what threads have left in shared memory, after this. */
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
TS_DEVICE void ts_stage_try(uint64_t *barrier, uint32_t parity)
{
    unsigned int at = (unsigned int)__cvta_generic_to_shared(barrier);
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred p;\nagain: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}" ::"r"(at), "r"(parity) : "memory");
#else
    asm volatile("{\n.reg .pred p;\nagain: mbarrier.test_wait.parity.shared.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}" ::"r"(at), "r"(parity) : "memory");
#endif
}
TS_DEVICE void ts_stage_reuse(uint64_t *stage, uint32_t parity) { ts_stage_try(stage + 1, parity ^ 1u); }
/* The same where only some threads fill stages, the `filling` ones; all call it. */
TS_DEVICE void ts_stage_reuse_by(uint64_t *stage, uint32_t parity, bool filling)
{
    if (filling) {
        ts_stage_reuse(stage, parity);
    }
}
TS_DEVICE void ts_stage_commit(uint64_t *stage)
{
    unsigned int at = (unsigned int)__cvta_generic_to_shared(stage);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
}
/* Instead of a commit, where a stage is filled by ordinary stores. */
TS_DEVICE void ts_stage_stored(uint64_t *stage)
{
    unsigned int at = (unsigned int)__cvta_generic_to_shared(stage);
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");
}
template <int Ahead> TS_DEVICE void ts_stage_wait(uint64_t *stage, uint32_t parity) { ts_stage_try(stage, parity); }
TS_DEVICE void ts_stage_release(uint64_t *stage)
{
    __syncwarp(0xffffffffu);
    if (threadIdx.x % TS_RELEASING == 0) {
        unsigned int at = (unsigned int)__cvta_generic_to_shared(stage + 1);
        asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");
    }
}

#else
#include <simcuda/emulation.h>
#endif

/* What a ts_cuda_pointer stands for. */
TS_DEVICE char *ts_address(const ts_cuda_pointer &pointer)
{
    uint64_t base = 0;
    if (pointer.slot != 0) {
        base = *reinterpret_cast<const uint64_t *>((uintptr_t)pointer.slot);
    }
    return reinterpret_cast<char *>((uintptr_t)(base + pointer.offset));
}
TS_DEVICE bool ts_switched_on(const ts_cuda_switch &combine)
{
    return combine.always != 0 ||
           (combine.slot != 0 && *reinterpret_cast<const uint64_t *>((uintptr_t)combine.slot) != 0);
}
/* The mode table of a parameter struct. */
TS_DEVICE const ts_cuda_mode *ts_mode_table(const ts_cuda_modes &modes)
{
    return modes.more != 0 ? reinterpret_cast<const ts_cuda_mode *>((uintptr_t)modes.more) : modes.table;
}

#endif
