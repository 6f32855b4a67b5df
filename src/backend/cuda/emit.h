/* Making the launch list of a workspace. */
#ifndef TS_CUDA_EMIT_H
#define TS_CUDA_EMIT_H

#include "backend/cuda/program.h"

typedef struct ts_cuda_emission {
    const ts_cuda_program *program;
    const ts_cuda_signature *signature;
    ts_cu_address memory;
    ts_cuda_list *list;
    ts_strides *strides; /* of the plan's values */
    uint8_t *wanted;     /* [value_count] room for work: is a gradient wanted below this value? */
    bool keep;           /* GRADIENT, DECODE: intermediates are kept */
} ts_cuda_emission;

ts_cuda_pointer ts_cuda_slot(const ts_cuda_emission *emission, int32_t slot);
ts_cuda_pointer ts_cuda_value_pointer(const ts_cuda_emission *emission, int32_t value);
/* Strides of a port that is no value (winners, cotangent, gradients), for the labels of `value`, which has its shape.
 * storage [64]. */
void ts_cuda_extra_strides(const ts_cuda_emission *emission, int32_t port, int32_t value, int64_t *storage,
                           ts_extra_strides *extra);
/* Strides of the compact copies (winners, cotangents) of an intermediate. */
void ts_cuda_compact_extra(const ts_cuda_emission *emission, int32_t value, ts_extra_strides *extra);

/* Row-major strides in the order of a value's labels. storage [64]. */
void ts_cuda_row_major_extra(const ts_cuda_emission *emission, int32_t value, int64_t *storage, ts_extra_strides *extra);

/* Strides of the labels of the output's value in a compact tensor of the output's shape. storage [64]. */
void ts_cuda_output_extra(const ts_cuda_emission *emission, int64_t *storage, ts_extra_strides *extra);

/* Fill a whole port with one element. */
tensum_status ts_cuda_fill_port(const ts_cuda_emission *emission, int32_t port, const ts_cuda_kernels *common,
                                const void *value);

/* backward.c: gradients and decoding. */
/* The cotangent of a step's result, and where the gradient of a value goes. storage [64]. */
ts_cuda_pointer ts_cuda_cotangent_of(const ts_cuda_emission *emission, int32_t value, int64_t *storage,
                                     ts_extra_strides *extra);
ts_cuda_pointer ts_cuda_gradient_of(const ts_cuda_emission *emission, int32_t value, int64_t *storage,
                                    ts_extra_strides *extra);
/* Is there nothing to read? An empty sum, or one below an empty sum. */
bool ts_cuda_is_empty(const tensum_plan *plan, const ts_step *step);
/* Slices add up in the gradients of inputs, which have been set to 0. */
ts_cuda_switch ts_cuda_adds_up(const ts_cuda_emission *emission, int32_t value);
tensum_status ts_cuda_emit_backward(const ts_cuda_emission *emission);

#endif
