/* Many small products, see batched.cpp. */
#include "batched.h"

#include "batched_list.h"

TS_DEFINE_PAIR(max, plus, 1, f32)

#define X(number, winners, steep_a, steep_b, blocks)                                            \
    TS_KERNEL_BLOCKS(ts_batched_##number, ts_cuda_batched, TS_CUDA_BATCHED_THREADS, blocks)     \
    {                                                                                           \
        ts_batched<pair_f32, winners, steep_a, steep_b>::run(p);                                \
    }
BATCHED_LIST(X)
#undef X
