/* What one step does, in strides: the language between plans and backends. Shared by CPU and CUDA hosts. */
#ifndef TS_TENSOR_SPEC_H
#define TS_TENSOR_SPEC_H

#include "algebra/algebra.h"

/* One (possibly fused) mode. Strides are in elements of the tensor they belong to and 0 where it has no such mode.
 * a, b, c: the operands and the result. w: the winners. g: the cotangent of c. d: the gradient being written. */
typedef struct ts_mode {
    int64_t extent;
    int64_t a, b, c, w, g, d;
} ts_mode;

/* The product of extents; 1 for none. Plans have checked that it does not overflow. */
int64_t ts_modes_size(const ts_mode *modes, int32_t count);
/* Drop modes of extent 1 and fuse neighbours whose strides allow it in every tensor; keeps the order, so that a
 * row-major linear index over the modes means the same before and after. Returns the new count. */
int32_t ts_modes_fuse(ts_mode *modes, int32_t count);
/* Stable sort by decreasing |c| stride (then |a|, then |b|), so that the result is walked in memory order. */
void ts_modes_sort(ts_mode *modes, int32_t count);

/* c[batch, left, right] = (+) over sum of a[batch, left, sum] (*) b[batch, right, sum].
 *
 * Modes lie in `modes` in the order batch, left, right, sum. The sum modes are in canonical order: the winner is the
 * row-major linear index over them. The other classes come in any order.
 * Extents may be 0: a result with no elements is left alone, an empty sum gives 0 of the semiring and winner -1. */
typedef struct ts_contract_spec {
    ts_algebra algebra;
    int32_t batch_count, left_count, right_count, sum_count;
    const ts_mode *modes;
    int64_t batch, left, right, sum; /* products of the extents */
    bool conjugate_a, conjugate_b;   /* complex only */
    bool accumulate;                 /* c <- c (+) result */
    uint8_t winner_bytes;            /* 0: no winners; 4: int32_t; 8: int64_t */
} ts_contract_spec;

/* c[kept] = (+) over sum of a[kept, sum]; kept modes with a == 0 broadcast. With no sum modes at all this is pure data
 * movement and keeps bits (unless accumulating); an extent-1 sum counts as none. Winners as above. */
typedef struct ts_reduce_spec {
    ts_algebra algebra;
    int32_t kept_count, sum_count;
    const ts_mode *modes; /* kept, then sum (canonical order) */
    int64_t kept, sum;
    bool accumulate;
    uint8_t winner_bytes;
} ts_reduce_spec;

/* Gradient of one operand of a contract step of a selective semiring, of log_sum_exp, or of sum_product where cotangents
 * have a dtype of their own (16-bit floats).
 *
 * side 0: d[batch, left, sum]  from sums over right;  side 1: d[batch, right, sum] from sums over left.
 * All classes are in canonical order (label order): sums of cotangents run over the row-major linear index of the
 * summed class as a positional tree (semantics, point 10).
 * Strides: a, b operands; c value of the result (log_sum_exp); w winners; g cotangent; d the gradient.
 * d is overwritten, or added to where `accumulate`. Cotangents have the gradient dtype of algebra.dtype. */
typedef struct ts_adjoint_spec {
    ts_algebra algebra;
    int32_t batch_count, left_count, right_count, sum_count;
    const ts_mode *modes;
    int64_t batch, left, right, sum;
    int32_t side;
    bool tie_here;     /* max_min, min_max: this side holds the lowest-numbered input, so it wins ties */
    bool accumulate;
    uint8_t winner_bytes;
} ts_adjoint_spec;

/* Gradient of a reduce step: d[kept, sum] from g[kept]; kept modes with d == 0 are those that the operand lacks
 * (the step broadcasts over them): they are summed by the same positional tree. (a == 0 alone means nothing: an operand
 * may have zero strides.) `winners` for selective semirings, a and c values for log_sum_exp; NULL for sum_product.
 * Modes: kept, then sum, both canonical. For sum_product the algebra's dtype is complex or a float. */
typedef struct ts_reduce_adjoint_spec {
    ts_algebra algebra;
    int32_t kept_count, sum_count;
    const ts_mode *modes;
    int64_t kept, sum;
    bool accumulate;
    uint8_t winner_bytes;
} ts_reduce_adjoint_spec;

#endif
