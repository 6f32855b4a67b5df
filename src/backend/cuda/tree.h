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

/* The same backwards (tree_back.c): a block finds the gradients of all operands of a subtree. Marks the trees of a lean program
 * that it suits. */
void ts_cuda_trees_go_back(ts_cuda_program *program);
/* *done says that step belongs to such a tree. Those of pure trees are added by the second call, behind all other steps. */
tensum_status ts_cuda_emit_tree_back(const ts_cuda_emission *emission, int32_t step, bool *done);
tensum_status ts_cuda_emit_pure_trees_back(const ts_cuda_emission *emission);

/* ---- between the files ---- */

static inline bool ts_tree_has(const ts_cuda_program *program, int32_t tree, int32_t value)
{
    const int32_t producer = program->plan->values[value].producer;
    return producer >= 0 && program->tree_of[producer] == tree;
}
/* Bytes of a step's table. */
size_t ts_tree_step_bytes(int64_t results, int64_t terms, bool scattered);
/* Where an element (row-major) of a value is in device memory. */
int64_t ts_tree_place(const tensum_plan *plan, int32_t value, const int64_t *strides, int64_t element);
void ts_tree_write_leaf(const tensum_plan *plan, int32_t value, ts_cuda_pointer from, const int64_t *strides, ts_cuda_tree_leaf *leaf);
/* Which elements of `first` and `second` (-1: there is none) make those of `result`, summed over such labels. */
void ts_tree_write_places(const tensum_plan *plan, int32_t first, int32_t second, int32_t result, const int32_t *sum, int32_t sum_count,
                          ts_cuda_tree_step *made);

#endif
