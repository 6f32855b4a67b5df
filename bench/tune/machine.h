/* What the tuning programs need of a device: memory, launches by kernel name, time. With TENSUM_SIMCUDA the "device" is
 * the simulator of tests/simcuda, for trying the programs (and the kernels) where there is none; its times mean nothing. */
#ifndef TUNE_MACHINE_H
#define TUNE_MACHINE_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#ifdef TENSUM_SIMCUDA
#include <simcuda/fibers.h>

static void machine_open(const char *) {}
static void *machine_allocate(size_t bytes)
{
    void *block = aligned_alloc(256, (bytes + 511) / 256 * 256);
    memset(block, 0xa5, bytes);
    return block;
}
static void machine_release(void *block) { free(block); }
static void machine_upload(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
static void machine_download(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
static bool machine_has(const std::string &name) { return find_kernel(name.c_str()) != nullptr; }
static void machine_launch(const std::string &name, const void *params, size_t, int64_t grid, int threads, size_t shared)
{
    static uint64_t random = 1;
    std::string fault = simulate_launch(find_kernel(name.c_str()), params, grid, threads, shared, &random);
    if (!fault.empty()) {
        printf("FAULT %s: %s\n", name.c_str(), fault.c_str());
        exit(1);
    }
}
static void machine_wait(const char *) {}
template <typename Body> static double machine_time(int, const Body &body)
{
    body();
    return 1.0;
}
#else
#include <cuda_runtime.h>

static std::vector<cudaLibrary_t> machine_libraries;
static std::map<std::string, cudaKernel_t> machine_kernels;
#define MACHINE(call)                                                                              \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess) {                                                               \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_));      \
            fflush(stdout);                                                                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void machine_open(const char *path)
{
    cudaLibrary_t library;
    MACHINE(cudaLibraryLoadFromFile(&library, path, nullptr, nullptr, 0, nullptr, nullptr, 0));
    machine_libraries.push_back(library);
    unsigned count = 0;
    MACHINE(cudaLibraryGetKernelCount(&count, library));
    std::vector<cudaKernel_t> kernels(count);
    MACHINE(cudaLibraryEnumerateKernels(kernels.data(), count, library));
    for (cudaKernel_t kernel : kernels) {
        const char *name = nullptr;
        MACHINE(cudaFuncGetName(&name, (const void *)kernel));
        machine_kernels[name] = kernel;
    }
}
static void *machine_allocate(size_t bytes)
{
    void *block;
    MACHINE(cudaMalloc(&block, bytes + 256));
    MACHINE(cudaMemset(block, 0xa5, bytes));
    return block;
}
static void machine_release(void *block) { MACHINE(cudaFree(block)); }
static void machine_upload(void *to, const void *from, size_t bytes) { MACHINE(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice)); }
static void machine_download(void *to, const void *from, size_t bytes) { MACHINE(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost)); }
static bool machine_has(const std::string &name) { return machine_kernels.count(name) != 0; }
static void machine_launch(const std::string &name, const void *params, size_t, int64_t grid, int threads, size_t shared)
{
    cudaKernel_t kernel = machine_kernels[name];
    void *arguments[1] = {const_cast<void *>(params)};
    if (shared > 48 * 1024) {
        MACHINE(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    }
    MACHINE(cudaLaunchKernel((const void *)kernel, dim3((unsigned)grid), dim3((unsigned)threads), arguments, shared, nullptr));
}
static void machine_wait(const char *what)
{
    cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) {
        printf("%s: %s\n", what, cudaGetErrorString(error));
        fflush(stdout);
        exit(1);
    }
}
/* Median seconds of `body`, by events, after one run to warm up. */
#include <algorithm>
template <typename Body> static double machine_time(int runs, const Body &body)
{
    cudaEvent_t begin, end;
    std::vector<float> times;
    MACHINE(cudaEventCreate(&begin));
    MACHINE(cudaEventCreate(&end));
    body();
    for (int i = 0; i < runs; i++) {
        float milliseconds;
        MACHINE(cudaEventRecord(begin));
        body();
        MACHINE(cudaEventRecord(end));
        MACHINE(cudaEventSynchronize(end));
        MACHINE(cudaEventElapsedTime(&milliseconds, begin, end));
        times.push_back(milliseconds);
    }
    std::sort(times.begin(), times.end());
    MACHINE(cudaEventDestroy(begin));
    MACHINE(cudaEventDestroy(end));
    return times[times.size() / 2] * 1e-3;
}
#endif

#endif
