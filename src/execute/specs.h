/* From a plan and strides to the specs that backends take. */
#ifndef TS_EXECUTE_SPECS_H
#define TS_EXECUTE_SPECS_H

#include "execute/program.h"

/* Strides (elements) of every value of a plan: value v's are strides[first[v] ..], in the order of its labels.
 * Intermediates are compact row-major; inputs and output come from the tensors of a run. */
typedef struct ts_strides {
    int64_t *first;   /* [value_count] */
    int64_t *strides;
} ts_strides;

/* Number of strides of all values together. */
size_t ts_strides_total(const tensum_plan *plan);
/* Fill `first` and the strides of the intermediates. */
void ts_strides_start(const tensum_plan *plan, ts_strides *strides);
/* Strides of input or output value `index` (operand_count: the output) from a tensor's raw strides (NULL: compact
 * row-major). slice_strides [slice_label_count] gets those of the sliced labels. Returns true if any changed. */
bool ts_strides_bind(const tensum_plan *plan, ts_strides *strides, int64_t index, const int64_t *raw_strides,
                     int64_t *slice_strides);
/* The same into plain arrays: label_strides [rank of the value], slice_strides [slice_label_count, at most 64]. */
void ts_label_strides(const tensum_plan *plan, int64_t index, const int64_t *raw_strides, int64_t *label_strides,
                      int64_t *slice_strides);
/* The stride of a label in a value, 0 if it has none. */
int64_t ts_stride_of(const tensum_plan *plan, const ts_strides *strides, int32_t value, int32_t label);
/* Modes a step can have at most. */
int32_t ts_step_modes(const ts_step *step);

/* Strides of a step's tensors other than a, b and c, by label: NULL means "as c" (winners, g) or "none" (d). */
typedef struct ts_extra_strides {
    const int32_t *labels; /* [count] labels the strides belong to */
    int32_t count;
    const int64_t *strides;
} ts_extra_strides;

/* Forward specs. `modes` has room for ts_step_modes(). `winners` gives the winners' strides (NULL: as c). */
void ts_contract_spec_build(const tensum_plan *plan, const ts_strides *strides, const ts_step *step,
                            const ts_extra_strides *winners, ts_mode *modes, ts_contract_spec *spec);
void ts_reduce_spec_build(const tensum_plan *plan, const ts_strides *strides, const ts_step *step,
                          const ts_extra_strides *winners, ts_mode *modes, ts_reduce_spec *spec);

/* Whether the adjoint of a contract step is an ordinary contraction of g with the (conjugated) other operand into d:
 * sum_product, unless cotangents have a dtype of their own (16-bit floats), which contractions cannot mix. */
bool ts_adjoint_is_contraction(ts_algebra algebra);
/* Backward specs. g: the cotangent of c; d: the gradient of operand `side`, NULL: laid out as the operand itself. */
void ts_adjoint_contract_build(const tensum_plan *plan, const ts_strides *strides, const ts_step *step, int side,
                               const ts_extra_strides *g, const ts_extra_strides *d, ts_mode *modes,
                               ts_contract_spec *spec);
void ts_adjoint_spec_build(const tensum_plan *plan, const ts_strides *strides, const ts_step *step, int side,
                           const ts_extra_strides *winners, const ts_extra_strides *g, const ts_extra_strides *d,
                           ts_mode *modes, ts_adjoint_spec *spec);
void ts_reduce_adjoint_spec_build(const tensum_plan *plan, const ts_strides *strides, const ts_step *step,
                                  const ts_extra_strides *winners, const ts_extra_strides *g,
                                  const ts_extra_strides *d, ts_mode *modes, ts_reduce_adjoint_spec *spec);

#endif
