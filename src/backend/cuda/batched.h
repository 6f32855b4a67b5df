/* Many small products by one launch, with winners or without: which steps, and their launch. See kernels/batched.h. */
#ifndef TS_CUDA_BATCHED_HOST_H
#define TS_CUDA_BATCHED_HOST_H

#include "backend/cuda/launch.h"

/* Add the launch if strides and sizes allow it and it should take less than `seconds`. `from` has pointers, counts and extents of the
 * step; modes: batch, left, right, sum. Needs no scratch, and not while the list measures. */
tensum_status ts_cuda_add_batched(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec,
                                  const ts_cuda_contract *from, ts_cuda_pointer w, const ts_mode *modes, double seconds, bool *added);

#endif
