/* The stream kernel alone, for trying shares and blocks: see streams.sh. */
#include "stream.h"

TS_DEFINE_PAIR(max, plus, 1, f32)
TS_KERNEL_BLOCKS(ts_max_plus_f32_stream, ts_cuda_stream, TS_CUDA_STREAM_THREADS, TS_CUDA_STREAM_BLOCKS)
{
    ts_stream<ts_stream_sum<pair_f32>>(p);
}
