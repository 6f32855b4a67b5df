/* The library or our own kernels? */
#define _GNU_SOURCE
#include <stdlib.h>

#include "backend/cuda/device.h"

bool ts_cutensor_wins(int capability, tensum_dtype dtype, int64_t batch, int64_t left, int64_t right, int64_t sum,
                      int64_t copied)
{
    (void)capability;
    (void)dtype;
    (void)copied;
    /* Where nothing was measured: matrices that are large in every direction, to which copies are cheap. */
    return batch >= 1 && left >= 256 && right >= 256 && sum >= 256;
}

static int64_t number(const char *name, int64_t otherwise)
{
    const char *text = secure_getenv(name);
    char *end = NULL;
    long long value = text != NULL && text[0] != 0 ? strtoll(text, &end, 10) : -1;
    return value >= 0 && end != NULL && *end == 0 ? value : otherwise;
}

void ts_cutensor_init(ts_cuda_device *device)
{
    ts_cutensor_state *state = &device->cutensor;
    const char *choice = secure_getenv("TENSUM_CUTENSOR");

    (void)pthread_mutex_init(&state->cache.mutex, NULL); /* cannot fail for plain mutexes */
    (void)pthread_mutex_init(&state->scratch.mutex, NULL);
    atomic_store(&state->choice, choice != NULL && strcmp(choice, "never") == 0    ? TENSUM_CUTENSOR_NEVER
                                 : choice != NULL && strcmp(choice, "always") == 0 ? TENSUM_CUTENSOR_ALWAYS
                                                                                   : TENSUM_CUTENSOR_AUTO);
    state->cache.limit = number("TENSUM_CUTENSOR_PLANS", 512);
    state->scratch.limit = (uint64_t)number("TENSUM_CUTENSOR_SCRATCH", (int64_t)256 << 20);
}
