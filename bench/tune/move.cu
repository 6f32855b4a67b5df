/* The move kernel by itself: is everything moved, and how fast beside a copy of as many bytes? Shapes are checked against
 * a gather written here. Compile it with other values of TS_CUDA_MOVE_STAGES, _TILE and _BLOCKS (abi.h) to choose among
 * them: move.sh. Usage: move [brief] */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "move.h"
#include "move_plan.h"

#define DEFINE(bytes, type)                                                                                  \
    TS_KERNEL_BLOCKS(move_##bytes, ts_cuda_move, TS_CUDA_MOVE_THREADS, TS_CUDA_MOVE_BLOCKS)                  \
    {                                                                                                        \
        ts_mover<type, true>::run(p);                                                                        \
    }                                                                                                        \
    TS_KERNEL_BLOCKS(move_##bytes##_narrow, ts_cuda_move, TS_CUDA_MOVE_THREADS, TS_CUDA_MOVE_BLOCKS)         \
    {                                                                                                        \
        ts_mover<type, false>::run(p);                                                                       \
    }
DEFINE(1, uint8_t)
DEFINE(2, uint16_t)
DEFINE(4, uint32_t)
DEFINE(8, uint64_t)
DEFINE(16, ts_block_of_16)

#define CUDA(call)                                                                            \
    do {                                                                                      \
        cudaError_t error_ = (call);                                                          \
        if (error_ != cudaSuccess) {                                                          \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
            fflush(stdout);                                                                   \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

struct shape {
    int rank, bytes;
    int64_t extent[40], a[40], c[40], elements;
};

/* One element to a thread, neighbours along the last mode: the naive kernel, and what the others are compared with. */
template <typename T> static __global__ void gather(shape s, const T *a, T *c)
{
    const int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (n < s.elements) {
        int64_t rest = n, from = 0, to = 0;
        for (int i = s.rank - 1; i >= 0; i--) {
            const int64_t position = rest % s.extent[i];
            from += position * s.a[i];
            to += position * s.c[i];
            rest /= s.extent[i];
        }
        c[to] = a[from];
    }
}
static __global__ void draw(uint32_t *to, int64_t words)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += (int64_t)gridDim.x * blockDim.x) {
        uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15ull;
        x ^= x >> 29;
        x *= 0xbf58476d1ce4e5b9ull;
        to[i] = (uint32_t)(x >> 32);
    }
}
static __global__ void differ(const uint32_t *x, const uint32_t *y, int64_t words, unsigned long long *count)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += (int64_t)gridDim.x * blockDim.x) {
        if (x[i] != y[i]) {
            atomicAdd(count, 1ull);
        }
    }
}

static char *from, *to, *expected;
static unsigned long long *count;
static cudaEvent_t begin, end;
static int units;

template <typename Body> static double seconds_of(int rounds, int together, const Body &body)
{
    std::vector<float> times;
    body();
    for (int i = 0; i < rounds; i++) {
        float milliseconds;
        CUDA(cudaEventRecord(begin));
        for (int k = 0; k < together; k++) {
            body();
        }
        CUDA(cudaEventRecord(end));
        CUDA(cudaEventSynchronize(end));
        CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
        times.push_back(milliseconds);
    }
    CUDA(cudaGetLastError());
    std::sort(times.begin(), times.end());
    return times[times.size() / 2] * 1e-3 / together;
}

static const void *kernel_of(int bytes, bool wide)
{
    switch (bytes) {
    case 1: return wide ? (const void *)move_1 : (const void *)move_1_narrow;
    case 2: return wide ? (const void *)move_2 : (const void *)move_2_narrow;
    case 4: return wide ? (const void *)move_4 : (const void *)move_4_narrow;
    case 8: return wide ? (const void *)move_8 : (const void *)move_8_narrow;
    default: return wide ? (const void *)move_16 : (const void *)move_16_narrow;
    }
}
static void gather_of(const shape &s, char *result)
{
    const unsigned blocks = (unsigned)((s.elements + 255) / 256);
    switch (s.bytes) {
    case 1: gather<<<blocks, 256>>>(s, (const uint8_t *)from, (uint8_t *)result); break;
    case 2: gather<<<blocks, 256>>>(s, (const uint16_t *)from, (uint16_t *)result); break;
    case 4: gather<<<blocks, 256>>>(s, (const uint32_t *)from, (uint32_t *)result); break;
    case 8: gather<<<blocks, 256>>>(s, (const uint64_t *)from, (uint64_t *)result); break;
    default: gather<<<blocks, 256>>>(s, (const ts_block_of_16 *)from, (ts_block_of_16 *)result); break;
    }
}

/* c compact; its modes in the order of `order`, those of a in their own. */
static shape shape_of(int bytes, const std::vector<int64_t> &extents, const std::vector<int> &order)
{
    shape s;
    memset(&s, 0, sizeof s);
    s.rank = (int)extents.size();
    s.bytes = bytes;
    s.elements = 1;
    for (int i = s.rank - 1; i >= 0; i--) {
        s.extent[i] = extents[(size_t)i];
        s.a[i] = s.elements;
        s.elements *= s.extent[i];
    }
    int64_t step = 1;
    for (int k = s.rank - 1; k >= 0; k--) {
        const int i = order[(size_t)k];
        s.c[i] = step;
        step *= s.extent[i];
    }
    return s;
}
static double least_share = 1e9;
static std::vector<double> shares;
static void measure(const std::string &title, const shape &s, bool naive)
{
    ts_cuda_mode modes[40];
    ts_cuda_move p;
    const int64_t bytes = s.elements * s.bytes, words = (bytes + 3) / 4;
    const int together = bytes < 1 << 29 ? 10 : 3, rounds = bytes < 1 << 29 ? 9 : 5;
    memset(modes, 0, sizeof modes);
    for (int i = 0; i < s.rank; i++) {
        modes[i].extent = s.extent[i];
        modes[i].a = s.a[i];
        modes[i].c = s.c[i];
    }
    if (!ts_cuda_move_plan(modes, s.rank, (uint32_t)s.bytes, &p)) {
        printf("%-40s no plan\n", title.c_str());
        return;
    }
    p.a.offset = (uint64_t)(uintptr_t)from;
    p.c.offset = (uint64_t)(uintptr_t)to;
    const void *kernel = kernel_of(s.bytes, ts_cuda_move_is_wide(&p, (uint32_t)s.bytes));
    const size_t shared = ts_cuda_move_shared(&p);
    int resident = 0;
    CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, TS_CUDA_MOVE_THREADS, shared));
    void *arguments[1] = {&p};
    auto launch = [&](int64_t grid) {
        CUDA(cudaLaunchKernel(kernel, dim3((unsigned)grid), dim3(TS_CUDA_MOVE_THREADS), arguments, shared, nullptr));
    };
    CUDA(cudaMemset(to, 0xa5, (size_t)words * 4));
    CUDA(cudaMemset(expected, 0xa5, (size_t)words * 4));
    CUDA(cudaMemset(count, 0, sizeof *count));
    const int64_t slots = (int64_t)units * resident, each = (p.tile_count + slots - 1) / slots;
    /* As many blocks as run at a time; or so many tiles to a block, blocks following as others end. */
    enum { WAYS = 5 };
    const int64_t grids[WAYS] = {(p.tile_count + each - 1) / each, p.tile_count, (p.tile_count + 1) / 2, (p.tile_count + 3) / 4, (p.tile_count + 7) / 8};
    launch(ts_cuda_move_blocks(&p, units));
    gather_of(s, expected);
    differ<<<1024, 256>>>((const uint32_t *)to, (const uint32_t *)expected, words, count);
    unsigned long long wrong;
    CUDA(cudaMemcpy(&wrong, count, sizeof wrong, cudaMemcpyDeviceToHost));
    const double copy = seconds_of(rounds, together, [&] { CUDA(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice)); });
    double seconds[WAYS];
    for (int k = 0; k < WAYS; k++) {
        seconds[k] = seconds_of(rounds, together, [&] { launch(grids[k]); });
    }
    const double slow = naive ? seconds_of(3, 1, [&] { gather_of(s, expected); }) : 0;
    const double best = seconds_of(rounds, together, [&] { launch(ts_cuda_move_blocks(&p, units)); });
    printf("%-40s %s%2d/%-2d %s%2dx%-3d %dx%-2d copy %8.4f ms %5.2f TB/s; share %.3f; all at a time %.3f, tiles to a block: 1 %.3f, 2 %.3f, 4 %.3f, 8 %.3f",
           title.c_str(), wrong ? "WRONG " : "", p.load.width, p.store.width, p.direct ? "direct " : "", p.load.steps, p.load.lanes, resident,
           p.slots / 1024, copy * 1e3, 2 * (double)bytes / copy * 1e-12, copy / best, copy / seconds[0], copy / seconds[1], copy / seconds[2],
           copy / seconds[3], copy / seconds[4]);
    if (naive) {
        printf("; naive %.1f times as long", slow / best);
    }
    printf("\n");
    fflush(stdout);
    shares.push_back(copy / best);
    least_share = std::min(least_share, copy / best);
}

int main(int argc, char **argv)
{
    const bool brief = argc > 1;
    const size_t most = (size_t)1 << 30;
    uint64_t state = 7;
    cudaDeviceProp properties;
    CUDA(cudaGetDeviceProperties(&properties, 0));
    units = properties.multiProcessorCount;
    CUDA(cudaMalloc(&from, most + 4096));
    CUDA(cudaMalloc(&to, most + 4096));
    CUDA(cudaMalloc(&expected, most + 4096));
    CUDA(cudaMalloc(&count, sizeof *count));
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    draw<<<1024, 256>>>((uint32_t *)from, (int64_t)(most / 4));
    printf("%s: stages %d, tiles of %d bytes, %d blocks\n", properties.name, TS_CUDA_MOVE_STAGES, TS_CUDA_MOVE_TILE, TS_CUDA_MOVE_BLOCKS);
    for (int bytes = 1; bytes <= 16; bytes *= 2) {
        const std::string name = std::to_string(bytes) + " B ";
        if (brief && bytes == 2) continue;
        auto one = [&](const char *title, std::vector<int64_t> extents, std::vector<int> order, bool naive) {
            int64_t size = bytes;
            for (int64_t extent : extents) size *= extent;
            if ((size_t)size <= most) measure(name + title, shape_of(bytes, extents, order), naive);
        };
        if (!brief) one("identity 4096^2", {4096 * 4096}, {0}, false);
        one("identity 2^26", {(int64_t)1 << 26}, {0}, false);
        one("transpose 4096^2", {4096, 4096}, {1, 0}, true);
        one("transpose 8192^2", {8192, 8192}, {1, 0}, false);
        one("transpose 16384^2", {16384, 16384}, {1, 0}, false);
        if (!brief) {
            one("transpose 4097 x 4095", {4097, 4095}, {1, 0}, true);
            one("transpose 8191 x 8195", {8191, 8195}, {1, 0}, false);
            one("transpose 4100 x 4098", {4100, 4098}, {1, 0}, false);
            one("transpose 1000 x 16000", {1000, 16000}, {1, 0}, false);
            one("transpose 100 x 200000", {100, 200000}, {1, 0}, false);
            one("transpose 200000 x 100", {200000, 100}, {1, 0}, false);
            one("transpose 8 x 2^21", {8, 1 << 21}, {1, 0}, false);
            one("transpose 2^21 x 3", {1 << 21, 3}, {1, 0}, false);
            one("batched 64 x 512^2", {64, 512, 512}, {0, 2, 1}, false);
            one("batched 1000 x 100 x 150", {1000, 100, 150}, {0, 2, 1}, false);
            one("inner 2: 2048 x 4096", {2048, 4096, 2}, {1, 0, 2}, false);
            one("inner 3: 2048 x 2048", {2048, 2048, 3}, {1, 0, 2}, false);
            one("inner 32: 512 x 1024", {512, 1024, 32}, {1, 0, 2}, false);
            one("inner 1000: 128 x 128", {128, 128, 1000}, {1, 0, 2}, false);
            one("rank 4: 64 x 48 x 80 x 72, 3 1 2 0", {64, 48, 80, 72}, {3, 1, 2, 0}, false);
            one("rank 6: 17 15 13 12 11 10 reversed", {17, 15, 13, 12, 11, 10}, {5, 4, 3, 2, 1, 0}, false);
            one("rank 5: 32 odd 31 33 29 27, 4 2 0 3 1", {32, 31, 33, 29, 27}, {4, 2, 0, 3, 1}, false);
        }
        for (int rank : {24, 28}) {
            std::vector<int64_t> extents((size_t)rank, 2);
            std::vector<int> order;
            if (rank == 28 && brief && bytes != 4) continue;
            if (rank == 28 && bytes > 4) continue;
            shares.clear();
            for (int i = 0; i < rank; i++) order.push_back(i);
            for (int k = 0; k < (rank == 28 ? 4 : brief ? 6 : 14); k++) {
                const char *kind = k == 0 ? " reversed" : k == 1 ? " rotated by 5" : k == 2 ? " rotated by 12" : " random";
                const std::string title = "rank " + std::to_string(rank) + kind;
                std::vector<int> o = order;
                if (k == 0) std::reverse(o.begin(), o.end());
                if (k == 1 || k == 2) std::rotate(o.begin(), o.begin() + (k == 1 ? 5 : 12), o.end());
                if (k > 2) {
                    for (size_t i = (size_t)rank - 1; i > 0; i--) {
                        state = state * 6364136223846793005ull + 1442695040888963407ull;
                        std::swap(o[i], o[(state >> 33) % (i + 1)]);
                    }
                }
                one(title.c_str(), extents, o, rank == 24 && k == 0);
            }
            if (!shares.empty()) {
                std::sort(shares.begin(), shares.end());
                printf("%srank %d: least %.3f, median %.3f of a copy\n", name.c_str(), rank, shares[0], shares[shares.size() / 2]);
            }
        }
    }
    printf("least share %.3f\n", least_share);
    return 0;
}
