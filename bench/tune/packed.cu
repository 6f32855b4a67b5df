/* Instances of the packed product to choose from: see packed.cpp. */
#include "packed.h"

#include "packed_list.h"

#define PAIR(name, a, m, sel, d)     \
    namespace name {                 \
    TS_DEFINE_PAIR(a, m, sel, d)     \
    typedef pair_##d pair;           \
    }
#undef TS_SELECTIVE
#define TS_SELECTIVE(sel) TS_SELECTIVE_(sel)
PAIR(sum_product_f32, sum, times, 0, f32)
PAIR(sum_product_f64, sum, times, 0, f64)
PAIR(sum_product_c64, sum, times, 0, c64)
PAIR(max_plus_f64, max, plus, 1, f64)
PAIR(or_and_bool, or, and, 1, bool)
PAIR(sum_product_f16, sum, times, 0, f16)
PAIR(log_sum_exp_f32, lse, plus, 0, f32)
PAIR(max_plus_f32, max, plus, 1, f32)
PAIR(max_plus_i32, max, plus, 1, i32)
PAIR(max_plus_i16, max, plus, 1, i16)
PAIR(max_plus_f16, max, plus, 1, f16)

#define X(number, name, bm, bn, bk, tm, tn, threads, stages, blocks)                                                       \
    TS_KERNEL_BLOCKS(ts_packed_##number, ts_cuda_packed, threads, blocks)                                                  \
    {                                                                                                                      \
        ts_packed<name::pair, bm, bn, bk, tm, tn, threads, stages>::run(p);                                                \
    }                                                                                                                      \
    extern "C" __constant__ int ts_packed_shared_##number = ts_packed<name::pair, bm, bn, bk, tm, tn, threads, stages>::SHARED;
PACKED_LIST(X)
#undef X
#define X(name, bytes) \
    TS_KERNEL(ts_pack_##name, ts_cuda_pack, TS_CUDA_THREADS) { ts_packer<name::pair, false>::run(p); }
PACKED_PAIRS(X)
TS_KERNEL(ts_survey_log_sum_exp_f32, ts_cuda_pack, TS_CUDA_THREADS) { ts_packer<log_sum_exp_f32::pair, true>::run(p); }
