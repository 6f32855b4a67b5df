/* Steps that one huge operand dominates: launches of the stream kernel. */
#ifndef TS_CUDA_STREAM_H
#define TS_CUDA_STREAM_H

#include "backend/cuda/launch.h"

/* Bytes of parameters that a launch of the stream kernel takes: what a list that measures has to allow for. */
size_t ts_cuda_stream_bytes(void);

/* Try to add one launch that does the whole step; *added tells. Modes: a huge, b tiny (two) or none, c: kept, then sum.
 * `p`: pointers, accumulate, modulus and conjugates. `bytes` of an element. */
tensum_status ts_cuda_add_stream(ts_cuda_list *list, const ts_cuda_kernels *kernels, ts_cuda_kernel kernel,
                                 const ts_mode *modes, int32_t kept_count, int32_t sum_count, bool two, size_t bytes,
                                 ts_cuda_stream *p, bool *added);

#endif
