/* Products of few tiles by teams of warps: which steps, and their launch. See kernels/team.h. */
#ifndef TS_CUDA_TEAM_HOST_H
#define TS_CUDA_TEAM_HOST_H

#include "backend/cuda/launch.h"

#include "backend/cuda/kernels/team_abi.h"

/* One operand, if four neighbours of it lie in 16 bytes, and all within 2^31 bytes. Strides in elements of 4 bytes. */
bool ts_cuda_team_side_of(ts_cuda_team_side *side, ts_cuda_pointer from, int64_t rows, int64_t sum, int64_t batch_step, int64_t row_step,
                          int64_t term_step);

/* Add the launch if strides and sizes allow it and it should take less than `seconds`. `from` has pointers, counts and extents of the
 * step; modes: batch, left, right, sum. Needs no scratch, and not while the list measures. */
tensum_status ts_cuda_add_team(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec,
                               const ts_cuda_contract *from, const ts_mode *modes, double seconds, bool *added);

#endif
