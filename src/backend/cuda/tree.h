/* Subtrees of small steps that one block runs from shared memory: see ts_cuda_tree. */
#ifndef TS_CUDA_TREE_HOST_H
#define TS_CUDA_TREE_HOST_H

#include "backend/cuda/emit.h"

/* Fills in program->trees, tree_of and tree_steps. Kernels are loaded. */
tensum_status ts_cuda_trees_find(ts_cuda_program *program);
/* One launch for all trees that read inputs only and run in the list's phase. */
tensum_status ts_cuda_emit_pure_trees(const ts_cuda_emission *emission, bool invariant);
/* A step that belongs to a tree: *done says that it needs no launch of its own. A list that measures gets both. */
tensum_status ts_cuda_emit_tree(const ts_cuda_emission *emission, int32_t step, bool *done);

#endif
