/* Large products through packed panels: which steps, and their launches. See kernels/packed_abi.h. */
#ifndef TS_CUDA_PACKED_HOST_H
#define TS_CUDA_PACKED_HOST_H

#include "backend/cuda/launch.h"

/* What $TENSUM_CUDA_PACKED asks for. */
ts_cuda_product ts_cuda_product_choice(void);
/* By sizes alone, so that scratch is known before a run. *seconds: in, what it takes otherwise; out, if it suits, what it takes
 * (0: much less), both roughly. */
bool ts_cuda_suits_packed(const ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec, double *seconds);
/* `from` has pointers, counts, extents and conjugates of the step; modes: batch, left, right, sum. */
tensum_status ts_cuda_add_packed(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec,
                                 const ts_cuda_contract *from, const ts_mode *modes);

#endif
