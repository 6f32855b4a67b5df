/* The seam between programs and the machines that run them. A backend is a folder and one line in registry.c.
 *
 * Two kinds of backend fit:
 *  - step backends (reference, cpu): execute/ walks the plan and calls reduce, contract, ... per step;
 *  - program backends (cuda): they compile whole plans and run them; the program slots are set instead.
 */
#ifndef TS_BACKEND_BACKEND_H
#define TS_BACKEND_BACKEND_H

#include "core/pool.h"
#include "tensor/spec.h"

struct tensum_program;

/* What a step may use while it runs. */
typedef struct ts_run {
    ts_pool *pool;        /* may be NULL: serial */
    void *scratch;        /* 128-byte aligned, at least what the *_scratch slot asked for */
    size_t scratch_bytes;
} ts_run;

/* A contraction made ready for fixed strides, so that running it looks nothing up. The backend's own data follow. */
typedef struct ts_prepared ts_prepared;
struct ts_prepared {
    void (*run)(ts_prepared *prepared, const void *a, const void *b, void *c, void *winners);
};

/* Contractions of which each takes the result of the one before, the huge operand, further by a tiny one, in one pass. Results
 * between them are compact and nowhere in memory; all extents are powers of 2. */
enum { TS_CHAIN_STEPS = 16 };
typedef struct ts_chain_spec {
    int32_t count;                                 /* at least 2 */
    const ts_contract_spec *steps[TS_CHAIN_STEPS]; /* no winners; the last may accumulate */
    bool huge_is_b[TS_CHAIN_STEPS];
    const void *tiny[TS_CHAIN_STEPS], *huge;       /* operands; huge: the first step's */
    void *c;                                       /* the last step's */
} ts_chain_spec;

typedef struct ts_backend {
    const char *name;
    tensum_device_kind kind;

    /* Number of devices; 0 where there is none. */
    int32_t (*device_count)(void);
    /* index is in range; info->size has been checked, strings are to be filled in. */
    tensum_status (*device_query)(int32_t index, tensum_device_info *info);
    /* Modes (TENSUM_VALUE | ...) the backend has for a pair; at most ts_pair_modes(). */
    unsigned (*supports)(tensum_semiring semiring, tensum_dtype dtype);

    /* ---- step slots. Data pointers are non-NULL and never overlap between inputs and results. All are
     * thread-safe, allocate nothing and fill every element of the result. winners is NULL where
     * spec->winner_bytes is 0. ---- */

    /* Bytes of scratch a call may need with `threads` workers: a bound by the sizes, whatever the strides (a program
     * asks before it knows those of its inputs). May be NULL: none. */
    size_t (*contract_scratch)(const ts_contract_spec *spec, int32_t threads);
    size_t (*reduce_scratch)(const ts_reduce_spec *spec, int32_t threads);
    size_t (*adjoint_scratch)(const ts_adjoint_spec *spec, int32_t threads);
    tensum_status (*contract)(const ts_contract_spec *spec, const void *a, const void *b, void *c, void *winners,
                              const ts_run *run);
    /* Small contractions, whose look-ups cost more than the work. prepare_bytes: the memory that a prepared one takes, by
     * the sizes alone; 0: not worth it. prepare: the prepared contraction in `memory` (8-byte aligned), of which one
     * run at a time may be made. Both may be NULL. */
    size_t (*prepare_bytes)(const ts_contract_spec *spec);
    ts_prepared *(*prepare)(const ts_contract_spec *spec, void *memory);
    tensum_status (*reduce)(const ts_reduce_spec *spec, const void *a, void *c, void *winners, const ts_run *run);
    /* Chains. chain_positions: how many positions the labels of all tiny operands together may have in any of the huge
     * tensors; 0: no chains. All may be NULL. */
    int64_t (*chain_positions)(ts_algebra algebra);
    size_t (*chain_scratch)(ts_algebra algebra, int32_t threads);
    void (*chain)(const ts_chain_spec *chain, const ts_run *run);
    /* Selective semirings: by winners. log_sum_exp: by weights exp(a + b - c); sum_product of 16-bit floats: by
     * the other operand; winners is NULL for both. */
    tensum_status (*adjoint)(const ts_adjoint_spec *spec, const void *a, const void *b, const void *c,
                             const void *winners, const void *g, void *d, const ts_run *run);
    tensum_status (*reduce_adjoint)(const ts_reduce_adjoint_spec *spec, const void *a, const void *c,
                                    const void *winners, const void *g, void *d, const ts_run *run);
    /* Set every element of a strided tensor (modes: c strides) to one value. */
    tensum_status (*fill)(const ts_mode *modes, int32_t count, size_t element_bytes, const void *value, void *c,
                          const ts_run *run);

    /* ---- program slots; NULL for step backends. `compiled` and `state` are the backend's own. ---- */
    tensum_status (*program_create)(struct tensum_program *program, void **compiled);
    void (*program_destroy)(void *compiled);
    size_t (*program_workspace_bytes)(const struct tensum_program *program, const void *compiled);
    tensum_status (*workspace_create)(struct tensum_program *program, void *compiled,
                                      const tensum_workspace_options *options, void **state);
    void (*workspace_destroy)(void *state);
    /* Arguments have been validated against the network (shapes, dtypes, devices, aliasing, slice range). */
    tensum_status (*run)(struct tensum_program *program, void *compiled, void *state,
                         const tensum_run_arguments *arguments);
    /* Asked first, with arguments that have not been validated: are they those of the last run, so that it can be made
     * again as it was? Then it is, with *status. May be NULL. */
    bool (*run_again)(void *state, const tensum_run_arguments *arguments, tensum_status *status);
} ts_backend;

/* NULL if there is no such backend. */
const ts_backend *ts_backend_find(tensum_device_kind kind);

#endif
