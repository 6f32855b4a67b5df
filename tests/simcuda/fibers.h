/* Running one block of a kernel: its threads as fibers. */
#ifndef TS_SIMCUDA_FIBERS_H
#define TS_SIMCUDA_FIBERS_H

#include <simcuda/emulation.h>

#include <string>

/* Run every block of a launch; threads are taken in an order drawn from *random. Returns "" or what went wrong. */
std::string simulate_launch(const ts_sim_kernel *kernel, const void *parameters, int64_t blocks, int32_t threads,
                            size_t shared_bytes, uint64_t *random);

const ts_sim_kernel *find_kernel(const char *name);

static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif
