/* Steps that share a launch, chains and trees, and where intermediates lie then. */
#ifndef TS_CUDA_FUSE_H
#define TS_CUDA_FUSE_H

#include "backend/cuda/program.h"

/* Find chains and trees, and place the values of a program that does not keep its intermediates. Kernels are loaded. */
tensum_status ts_cuda_fuse(ts_cuda_program *program);
void ts_cuda_fuse_free(ts_cuda_program *program);

/* Are the gradients of a step's operands found together with those of other steps? */
static inline bool ts_cuda_goes_back(const ts_cuda_program *program, int32_t step)
{
    return program->chain_of != NULL && program->chain_of[step] >= 0 && program->chains[program->chain_of[step]].back;
}
static inline bool ts_cuda_goes_back_in_a_tree(const ts_cuda_program *program, int32_t step)
{
    return program->tree_of != NULL && program->tree_of[step] >= 0 && program->trees[program->tree_of[step]].back;
}

#endif
