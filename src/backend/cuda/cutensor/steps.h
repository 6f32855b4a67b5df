/* Contractions of a program that the library does. */
#ifndef TS_CUTENSOR_STEPS_H
#define TS_CUTENSOR_STEPS_H

#include "backend/cuda/cutensor/cutensor.h"
#include "backend/cuda/kernels/abi.h"

struct ts_cuda_program;
struct ts_cuda_list;
struct ts_cuda_emission;
struct ts_cuda_launch;
struct ts_step;

/* One contraction with everything its program knows. */
typedef struct ts_cutensor_step {
    ts_cutensor_plan *plan; /* NULL: our own kernels do it */
    bool swapped;
} ts_cutensor_step;

/* One call in a list of launches. A pointer with a slot is one of the run's tensors. */
typedef struct ts_cutensor_call {
    ts_cutensor_plan *plan;
    bool owned; /* the list holds a reference; else the program does */
    ts_cuda_pointer a, b, c;
    ts_cuda_switch accumulate;
    ts_cu_address scratch; /* 0: of the stream */
} ts_cutensor_call;

/* Choose the steps that the library does, and find their plans. The context is current. */
tensum_status ts_cutensor_compile(struct ts_cuda_program *program);
void ts_cutensor_forget(struct ts_cuda_program *program);

/* Add a step whose plan the program has: the contraction itself (side -1) or its adjoint, with its copies. `a` and `b` are
 * the values of the operands; for an adjoint, a is the cotangent. */
tensum_status ts_cutensor_emit(const struct ts_cuda_emission *emission, int32_t step, int side, ts_cuda_pointer a,
                               ts_cuda_pointer b, ts_cuda_pointer c, ts_cuda_switch accumulate, bool *added);
/* Add the contraction of a program of one step, on the run's own tensors; our own launches that follow it are marked as
 * what takes its place where it cannot be made. */
tensum_status ts_cutensor_emit_direct(const struct ts_cuda_emission *emission, const ts_contract_spec *spec,
                                      ts_cuda_pointer a, ts_cuda_pointer b, ts_cuda_pointer c, ts_cuda_switch accumulate);

/* Enqueue a call. inside: the stream is being captured. *done is false where its stand-ins have to be launched. */
tensum_status ts_cutensor_call_one(ts_cuda_device *device, const struct ts_cuda_list *list,
                                   const struct ts_cuda_launch *launch, ts_cu_stream stream, bool inside, bool *done);
/* The references that a list holds. */
void ts_cutensor_drop_calls(struct ts_cuda_list *list);

#endif
