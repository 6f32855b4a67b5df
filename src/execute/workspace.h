/* Workspaces of step backends, between the files of this folder. */
#ifndef TS_EXECUTE_WORKSPACE_H
#define TS_EXECUTE_WORKSPACE_H

#include "execute/specs.h"

/* Steps that run in one pass, with the last of them. */
typedef struct ts_chain_group {
    int32_t count, steps[TS_CHAIN_STEPS];
} ts_chain_group;

/* Where things lie in a workspace's memory (byte offsets). Buffers over the output have its raw shape, compact. */
typedef struct ts_compiled {
    int64_t total_offset;   /* the value where the caller wants none, or slices have to be told apart */
    int64_t partial_offset; /* one slice's share */
    int64_t slice_offset;   /* int64 per element: the slice that won */
    int64_t seed_offset;    /* cotangent of the output for one slice */
    int64_t scratch_offset;
    size_t scratch_bytes;
    int32_t most_modes;     /* of any step */
    int64_t output_elements;
    bool keeps;             /* intermediates at keep_offset */
    /* Slices too small to be worth threads inside run side by side: lanes of lane_bytes behind everything else, each
     * with an arena, scratch and, at lane_partial, its slice's share of the output in compact raw shape. */
    int32_t lanes;          /* 0: slices run one after the other */
    int64_t lane_offset, lane_bytes, lane_partial;
    uint64_t arena_bytes;    /* of intermediates, and winners and cotangents */
    /* Chains, if there are any: */
    ts_chain_group *chains;
    int32_t chain_count;
    int32_t *chain_of;       /* [step_count] or -1 */
    int64_t *value_offsets;  /* [value_count] instead of the plan's, -1: between the steps of a chain */
} ts_compiled;

typedef union ts_forward_spec {
    ts_contract_spec contract;
    ts_reduce_spec reduce;
} ts_forward_spec;

/* What one tensor of the last valid run looked like; its strides lie in `seen_strides`. */
typedef struct ts_seen {
    bool compact;      /* it had no strides */
    bool empty;        /* it has no elements */
    int64_t low, high; /* first and one past the last byte it touches, relative to its data */
} ts_seen;

/* Memory of a tensor of a run, for the search for overlaps. */
typedef struct ts_extent_of {
    uintptr_t first, last;
    bool written;
} ts_extent_of;

struct tensum_workspace {
    tensum_program *program;
    char *memory;
    bool owned;                  /* memory is the allocator's to free */
    tensum_allocator allocator;
    bool default_allocator;
    void *stream;
    bool keeps;                  /* the last run has left what gradients need */
    void *state;                 /* program backends */
    /* step backends only: */
    ts_strides strides;          /* the output's: as written by the last step */
    int64_t *compact_strides;    /* [output rank] label strides of the output in raw compact shape */
    ts_strides gradient;         /* inputs: strides of the gradients */
    int64_t *slice_strides;      /* [operand_count + 1][slice_label_count] of `strides` */
    int64_t *compact_slices;     /* [slice_label_count] of the compact output */
    int64_t *target_slices;      /* [slice_label_count] of the total */
    int64_t *gradient_slices;    /* [operand_count][slice_label_count] */
    int64_t *winner_strides;     /* [output rank] label strides of the caller's winners */
    ts_forward_spec *forward;    /* [step_count] */
    int64_t *first_mode;         /* [step_count] into modes */
    ts_mode *modes;
    ts_mode *spare_modes;        /* [most_modes] for specs built on the way */
    char **base;                 /* [value_count] where each value lies now */
    bool bound;                  /* forward specs have been built */
    bool winners_bound;          /* ... with the caller's winners */
    bool accumulate_bound;
    ts_prepared **prepared;      /* [step_count] small contractions, made ready with the specs; NULL: not prepared */
    int64_t *prepared_memory;
    ts_seen *seen;               /* [operand_count + 1] inputs and output of the last valid run for values alone */
    int64_t *seen_strides;       /* [raw ranks of all] */
    bool seen_valid;             /* and `strides` are theirs */
    ts_extent_of *extents;       /* GRADIENT: [2 operand_count + 3] */
    int64_t *coordinates;        /* [slice_label_count] of the current slice */
    int64_t *assignment;         /* [label_count] */
    double *cotangent;           /* [value_count] of a trace */
    tensum_workspace **lanes;    /* [compiled->lanes] over parts of this one's memory */
    uint8_t *wanted;             /* [value_count] a gradient is wanted somewhere below; in a trace: carries a cotangent */
};

/* One run. */
typedef struct ts_running {
    tensum_workspace *workspace;
    tensum_program *program;
    const tensum_plan *plan;
    const ts_compiled *compiled;
    const tensum_run_arguments *arguments;
    ts_run step;
    int64_t slice;
    bool same;                   /* tensors have the shapes and strides of the last run */
    double last_poll, started;
} ts_running;

/* chains.c: which steps run together, and one such run. */
tensum_status ts_chains_find(const tensum_program *program, ts_compiled *compiled);
void ts_chains_free(ts_compiled *compiled);
void ts_chain_run(const ts_running *running, int32_t step);

/* lanes.c: values of the slices [first, first + count), added to the output in ascending order. */
tensum_status ts_run_lanes(ts_running *running, int64_t first, int64_t count);

/* workspace.c: memory of a step in prepared form, 0 if it has none. */
size_t ts_prepared_bytes(const tensum_program *program, int32_t s);
/* A workspace over a part of another's memory. */
tensum_status ts_workspace_lane(tensum_program *program, char *memory, tensum_workspace **lane);

/* validate.c */
/* `same`: the tensors are as in the last run of this workspace, but for where they lie. */
tensum_status ts_validate_run(const tensum_program *program, tensum_workspace *workspace,
                              const tensum_run_arguments *arguments, bool *same);
/* Smallest and one past the largest byte a tensor touches; false if it has no elements. */
bool ts_tensor_range(const tensum_tensor *tensor, uintptr_t *first, uintptr_t *last);
/* domain.c: DOMAIN with operand, index and value if an element lies outside the semiring's domain. */
tensum_status ts_check_domain(ts_algebra algebra, const tensum_tensor *inputs, int64_t count);

/* forward.c */
void ts_bind_output(ts_running *running, bool caller);
tensum_status ts_forward_slice(ts_running *running, int64_t slice, bool first, double progress_base, double progress_share);
void ts_set_slice(ts_running *running, int64_t slice);
tensum_status ts_poll(ts_running *running, const char *stage, double done);

/* Where a tensor over the output begins in the current slice, given its slice strides. */
char *ts_output_base(const ts_running *running, void *data, const int64_t *slice_strides, int64_t bytes);

/* slices.c. Both walk the output of the current slice; label strides t belong to `total`. */

/* total <- total (+) partial, noting in `slice_of` the first slice that attains the total. */
void ts_absorb_slice(ts_running *running, char *total, const int64_t *t, const char *partial, int64_t *slice_of);
/* The cotangent of the output in the current slice, in compact raw shape: the caller's (or ones) where this slice won,
 * for log_sum_exp times its weight in the total. */
tensum_status ts_make_seed(ts_running *running, const char *total, const int64_t *t);

/* backward.c */
tensum_status ts_backward_slice(ts_running *running);
tensum_status ts_zero_gradients(ts_running *running, bool always);
void ts_bind_gradients(ts_running *running);

/* trace.c: one path from output element `position` (raw linear index) down to the inputs, within the current slice.
 * Sets workspace->assignment; where `seed` is not NULL, writes the cotangents into the gradients. */
tensum_status ts_trace(ts_running *running, int64_t position, const double *seed);

#endif
