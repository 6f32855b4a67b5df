/* Inside of the CPU backend: what its drivers share. */
#ifndef TS_CPU_CPU_H
#define TS_CPU_CPU_H

#include "backend/backend.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/shuffle.h"

extern const ts_backend ts_backend_cpu;

/* ---- dispatch ---- */
const ts_cpu_kernel *ts_cpu_kernel_find(tensum_semiring semiring, tensum_dtype dtype);
/* NULL where there is none for elements of this size. */
const ts_cpu_shuffler *ts_cpu_shuffler_find(size_t element);
ts_cpu_stream_lines *ts_cpu_stream_find(void);
/* Where that kernel can multiply in several ways, the one that is fastest on this machine: measured once, on first use. */
const ts_cpu_kernel *ts_cpu_kernel_fastest(tensum_semiring semiring, tensum_dtype dtype);
/* Pairs per second of one way of multiplying, with panels in the first-level cache: the best of calls for `seconds`, of
 * which each takes some microseconds. */
double ts_cpu_kernel_rate(const ts_cpu_kernel *kernel, double seconds);
const char *ts_cpu_isa_name(void);
/* Bytes of one core's data caches, as the system reports them or environment TENSUM_CPU_CACHES says. */
typedef struct ts_cpu_caches {
    int64_t first, second;
} ts_cpu_caches;
ts_cpu_caches ts_cpu_cache_sizes(void);

/* ---- offsets of a class of modes ---- */
static inline int64_t ts_absolute(int64_t x) { return x < 0 ? -x : x; }
/* Which stride of a mode: its place in ts_mode. */
typedef enum ts_cpu_tensor {
    TS_TENSOR_A = offsetof(ts_mode, a),
    TS_TENSOR_B = offsetof(ts_mode, b),
    TS_TENSOR_C = offsetof(ts_mode, c),
    TS_TENSOR_W = offsetof(ts_mode, w),
    TS_TENSOR_G = offsetof(ts_mode, g),
    TS_TENSOR_D = offsetof(ts_mode, d)
} ts_cpu_tensor;
/* Offsets of positions first .. first + count - 1 of the row-major index over `modes`. */
void ts_cpu_offsets(const ts_mode *modes, int32_t mode_count, ts_cpu_tensor tensor, int64_t first, int64_t count,
                    int64_t *offsets);
/* A walk over positions of the row-major index over `modes` in turn, and their offsets in three tensors. */
typedef struct ts_cpu_walk {
    int64_t position[192], a, b, c;
} ts_cpu_walk;
void ts_cpu_walk_from(ts_cpu_walk *walk, const ts_mode *modes, int32_t mode_count, int64_t first);
/* Behind the last position comes the first. */
void ts_cpu_walk_on(ts_cpu_walk *walk, const ts_mode *modes, int32_t mode_count);
/* Do they ascend by one? */
bool ts_cpu_unit(const int64_t *offsets, int64_t count);
/* The smallest stride of the result, by absolute value; INT64_MAX where every extent is 1. */
int64_t ts_cpu_smallest_stride(const ts_mode *modes, int32_t count);

tensum_status ts_cpu_contract(const ts_contract_spec *spec, const void *a, const void *b, void *c, void *winners,
                              const ts_run *run);
/* direct.c: without packing and without scratch. */
bool ts_cpu_is_direct(const ts_contract_spec *spec);
void ts_cpu_contract_direct(const ts_contract_spec *spec, const ts_cpu_kernel *kernel, const void *a, const void *b,
                            void *c, void *winners, ts_pool *pool);
/* tiny.c: a huge operand against a tiny one; false where that way is not open, and then nothing is written. */
bool ts_cpu_contract_tiny(const ts_contract_spec *spec, const ts_cpu_kernel *kernel, const void *a, const void *b, void *c,
                          ts_pool *pool);
/* chain.c: tiny operands one after the other, in one pass over the huge one. */
int64_t ts_cpu_chain_positions(ts_algebra algebra);
size_t ts_cpu_chain_scratch(ts_algebra algebra, int32_t threads);
void ts_cpu_chain(const ts_chain_spec *chain, const ts_run *run);
size_t ts_cpu_prepared_bytes(const ts_contract_spec *spec);
ts_prepared *ts_cpu_prepare(const ts_contract_spec *spec, void *memory);

size_t ts_cpu_contract_scratch(const ts_contract_spec *spec, int32_t threads);
tensum_status ts_cpu_reduce_step(const ts_reduce_spec *spec, const void *a, void *c, void *winners, const ts_run *run);
size_t ts_cpu_reduce_scratch(const ts_reduce_spec *spec, int32_t threads);
tensum_status ts_cpu_adjoint(const ts_adjoint_spec *spec, const void *a, const void *b, const void *c,
                             const void *winners, const void *g, void *d, const ts_run *run);
size_t ts_cpu_adjoint_scratch(const ts_adjoint_spec *spec, int32_t threads);
/* widen.c: by floats, where operands are of 16 bits and not too large. */
bool ts_cpu_widens(const ts_adjoint_spec *spec);
size_t ts_cpu_widen_scratch(const ts_adjoint_spec *spec, int32_t threads);
tensum_status ts_cpu_widened_adjoint(const ts_adjoint_spec *spec, const void *a, const void *b, const void *c, const void *winners,
                                     const void *g, void *d, const ts_run *run);
/* log_sum_exp: by shares. sizes: of own, sum and broadcast modes, whose elements of the operand all see the same. */
tensum_status ts_cpu_share(const ts_adjoint_spec *spec, const void *a, const void *b, const void *c, const void *g, void *d,
                           const ts_run *run);
size_t ts_cpu_share_scratch(const ts_adjoint_spec *spec, int32_t threads);
void ts_cpu_share_reduction(tensum_dtype dtype, const ts_mode *own, int32_t own_count, const ts_mode *sum, int32_t sum_count,
                            const ts_mode *broadcast, int32_t broadcast_count, const int64_t sizes[3], bool accumulate,
                            const void *a, const void *c, const void *g, void *d, ts_pool *pool);
tensum_status ts_cpu_reduce_adjoint(const ts_reduce_adjoint_spec *spec, const void *a, const void *c,
                                    const void *winners, const void *g, void *d, const ts_run *run);
tensum_status ts_cpu_fill(const ts_mode *modes, int32_t count, size_t element_bytes, const void *value, void *c,
                          const ts_run *run);
/* shuffle.c: c <- a by whole cache lines; false where the modes do not allow it, and then nothing is written. */
bool ts_cpu_shuffle_move(const ts_mode *modes, int32_t count, size_t element_bytes, const void *a, void *c, ts_pool *pool);
/* c <- a element by element, bits kept. */
void ts_cpu_move(const ts_mode *modes, int32_t count, size_t element_bytes, const void *a, void *c, ts_pool *pool);

#endif
