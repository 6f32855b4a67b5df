/* Steps of a huge tensor against tiny ones, one after the other, that are run in one pass: see ts_cuda_chain. */
#ifndef TS_CUDA_CHAIN_HOST_H
#define TS_CUDA_CHAIN_HOST_H

#include "backend/cuda/emit.h"
#include "plan/chains.h"

/* Decide which steps go together; fills in program->chains and chain_of. Trees are known, kernels are loaded. */
tensum_status ts_cuda_chains_find(ts_cuda_program *program);

/* A step that belongs to a chain: *done says that it needs no launch of its own, be it that the chain's last step is
 * still to come or that the chain has been added. A list that measures gets both. (chain_table.c) */
tensum_status ts_cuda_emit_chain(const ts_cuda_emission *emission, int32_t step, ts_cuda_switch accumulate, bool *done);

/* The gradients of a chain's operands, where step is its last: as above. Other steps of a chain whose gradients are found so
 * are done with. (chain_back.c) */
tensum_status ts_cuda_emit_chain_back(const ts_cuda_emission *emission, int32_t step, bool *done);

/* One contraction alone, where it suits. */
tensum_status ts_cuda_add_chained_contract(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec,
                                           ts_cuda_pointer a, ts_cuda_pointer b, ts_cuda_pointer c,
                                           ts_cuda_switch accumulate, bool *added);

/* ---- between the files ---- */

/* Can a step be part of a chain? */
bool ts_cuda_chain_suits(const ts_cuda_program *program, int32_t step);
/* Do steps list[0 .. count), which make a chain, fit the kernel that goes backwards, whatever the strides? */
bool ts_cuda_chain_back_fits(const ts_cuda_program *program, const int32_t *list, int32_t count);
/* Is the result of step k of a chain wanted in device memory? */
static inline bool ts_cuda_chain_stores(const ts_cuda_emission *emission, const ts_cuda_chain_group *group, int32_t k)
{
    return (emission->keep && !emission->program->lean) || k + 1 == group->count;
}
/* Add the launch of a chain, unless it cannot be. given: pointers of all values, or NULL. */
tensum_status ts_cuda_add_chain(const ts_cuda_emission *emission, const ts_cuda_chain_group *group,
                                const ts_cuda_pointer *given, ts_cuda_switch accumulate, bool *added);

/* Tuned by bench/tune/networks.sh. */
#ifndef TS_CHAIN_TILE_BYTES
#define TS_CHAIN_TILE_BYTES 32768 /* of the largest tensor of a tile: three of them, on two blocks, fit a multiprocessor */
#endif
#ifndef TS_CHAIN_BACK_TILE_BYTES
#define TS_CHAIN_BACK_TILE_BYTES 16384 /* of the largest tensor of a tile backwards: up to six of them, on two blocks */
#endif
#ifndef TS_CHAIN_RUN_BYTES
#define TS_CHAIN_RUN_BYTES 64 /* that are read in a row, at least */
#endif
#ifndef TS_CHAIN_LONGEST_RUN
#define TS_CHAIN_LONGEST_RUN 32 /* times as long, where there is room and are tiles for all blocks; backwards even longer */
#endif
#ifndef TS_CHAIN_LEAST_ELEMENTS
#define TS_CHAIN_LEAST_ELEMENTS 256 /* of a huge operand per multiprocessor */
#endif

enum {
    TS_CHAIN_MOST_EXTENT = 16,    /* of a label that a tiny operand has */
    TS_CHAIN_MOST_PIECE = 32,     /* positions of one label of the run: see `divide` */
    TS_CHAIN_MOST_TINY = 4096,    /* elements of a tiny operand */
    TS_CHAIN_MOST_LIST = 1024     /* entries of a list that all threads walk */
};

static inline int64_t ts_chain_tile_elements(const tensum_plan *plan)
{
    return TS_CHAIN_TILE_BYTES / ts_max64(4, (int64_t)tensum_dtype_bytes(plan->algebra.dtype));
}
static inline int64_t ts_chain_run_elements(const tensum_plan *plan)
{
    int64_t run = TS_CHAIN_RUN_BYTES / (int64_t)tensum_dtype_bytes(plan->algebra.dtype);
    return run > 32 ? 32 : run;
}

static inline const int32_t *ts_chain_new_of(const tensum_plan *plan, const ts_step *step, int32_t *count)
{
    *count = ts_chain_big_is_b(plan, step) ? step->left_count : step->right_count;
    return ts_chain_big_is_b(plan, step) ? step->left : step->right;
}

/* Coefficients that a step needs at most, for any number of columns at once. */
static inline int64_t ts_chain_coefficients_of(const tensum_plan *plan, const ts_step *step)
{
    return step->batch_size * (step->sum_size * (ts_chain_size_of_new(plan, step) + 3) + 4) + 4;
}

#endif
