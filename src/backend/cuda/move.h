/* Permutations and the like of many elements: launches of the move kernel. */
#ifndef TS_CUDA_BACKEND_MOVE_H
#define TS_CUDA_BACKEND_MOVE_H

#include "backend/cuda/launch.h"

/* Bytes of parameters that a launch of the move kernel takes: what a list that measures has to allow for. */
size_t ts_cuda_move_bytes(void);

/* Try to add one launch that sets every element of c to one of a; *added tells. */
tensum_status ts_cuda_add_move(ts_cuda_list *list, const ts_cuda_kernels *common, const ts_mode *modes, int32_t count,
                               ts_cuda_pointer a, ts_cuda_pointer c, bool *added);

#endif
