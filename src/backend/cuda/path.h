/* Decoding, and where it works out again what a chain has not kept. */
#ifndef TS_CUDA_PATH_HOST_H
#define TS_CUDA_PATH_HOST_H

#include "backend/cuda/emit.h"

/* From the assignment of the output's labels to that of all, at so many positions. */
tensum_status ts_cuda_emit_path(const ts_cuda_emission *emission, int64_t positions);
/* Can a decode do without what lies inside the chain of these steps? */
bool ts_cuda_path_fits(const tensum_plan *plan, const int32_t *steps, int32_t count);

#endif
