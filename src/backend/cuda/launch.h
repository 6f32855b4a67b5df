/* Lists of kernel launches: what a workspace runs. Made from step specs; run as often as wanted. */
#ifndef TS_CUDA_LAUNCH_H
#define TS_CUDA_LAUNCH_H

#include "backend/cuda/choose.h"
#include "backend/cuda/cutensor/steps.h"
#include "backend/cuda/device.h"
#include "tensor/spec.h"

/* The kernels of one module for one dtype, looked up once. */
typedef struct ts_cuda_kernels {
    int module;
    tensum_dtype dtype;
    ts_cu_function functions[TS_CUDA_KERNEL_COUNT];
    bool has[TS_CUDA_KERNEL_COUNT];
} ts_cuda_kernels;
/* The context is current. */
tensum_status ts_cuda_kernels_load(ts_cuda_device *device, int module, tensum_dtype dtype, ts_cuda_kernels *kernels);

/* Device memory that a launch touches, from and past: for what has to come after what. Whatever is reached through an
 * entry of the pointer table counts as the entry: no two of them that are written overlap. */
typedef struct ts_cuda_range {
    uint64_t from, past;
} ts_cuda_range;

typedef struct ts_cuda_launch {
    ts_cu_function function;
    uint32_t grid, threads, shared_bytes;
    uint8_t phase;     /* the list's at that time */
    bool barrier;      /* comes after all before it and before all after it */
    uint8_t read_count, write_count;
    ts_cuda_range reads[1 + TS_CUDA_CHAIN_STEPS], writes[TS_CUDA_CHAIN_STEPS]; /* a chain has the most */
    size_t parameters; /* byte offset in the list's parameters */
    int32_t call;      /* 1 + number of a call of cuTENSOR, in place of a launch; 0: none */
    bool fallback;     /* only where the call before it could not be made */
} ts_cuda_launch;

/* A list that is being made. First with `measure` and no memory, which adds up what the arrays have to hold whatever the
 * strides of a run, then for real. Labels of a step: at most TS_CUDA_MOST_MODES. */
#define TS_CUDA_MOST_MODES 200
typedef struct ts_cuda_list {
    bool measure;
    bool fallback; /* the same for what is added from now on */
    uint8_t phase; /* the maker's mark on what is added from now on */
    int units;
    bool without_panels; /* see ts_cuda_program */
    ts_cuda_device *device;
    ts_cuda_launch *launches;
    int64_t count;
    unsigned char *parameters; /* followed by TS_CUDA_PARAMETER_SLACK bytes that the driver may read */
    size_t parameter_bytes;
    /* Mode tables too long for a parameter struct: `tables` is the host's copy of device memory at tables_address. */
    unsigned char *tables;
    ts_cu_address tables_address;
    size_t table_bytes;
    ts_cu_address scratch;
    size_t scratch_bytes; /* the most that a launch needs */
    size_t convert_bytes; /* the most that an operand in the gradient dtype needs */
    ts_cutensor_call *calls;
    int32_t call_count;
    const uint64_t *slots; /* the host's copy of the pointer table at slots_address, for calls */
    ts_cu_address slots_address;
} ts_cuda_list;
#define TS_CUDA_PARAMETER_SLACK 4096

static inline ts_cuda_pointer ts_cuda_at(ts_cu_address address) { return (ts_cuda_pointer){0, address}; }
static inline ts_cuda_pointer ts_cuda_in_slot(ts_cu_address slot, int64_t bytes)
{
    return (ts_cuda_pointer){slot, (uint64_t)bytes};
}

/* Add a step. UNSUPPORTED where a kernel is missing. spec->accumulate turns `accumulate` on for good. */
tensum_status ts_cuda_add_contract(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec,
                                   ts_cuda_pointer a, ts_cuda_pointer b, ts_cuda_pointer c, ts_cuda_pointer w,
                                   ts_cuda_switch accumulate);
/* `common`: the common module's kernels for the same dtype. */
tensum_status ts_cuda_add_reduce(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_cuda_kernels *common,
                                 const ts_reduce_spec *spec, ts_cuda_pointer a, ts_cuda_pointer c, ts_cuda_pointer w,
                                 ts_cuda_switch accumulate);
tensum_status ts_cuda_add_adjoint(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_adjoint_spec *spec,
                                  ts_cuda_pointer a, ts_cuda_pointer b, ts_cuda_pointer c, ts_cuda_pointer w,
                                  ts_cuda_pointer g, ts_cuda_pointer d, ts_cuda_switch accumulate);
tensum_status ts_cuda_add_reduce_adjoint(ts_cuda_list *list, const ts_cuda_kernels *kernels,
                                         const ts_reduce_adjoint_spec *spec, ts_cuda_pointer a, ts_cuda_pointer c,
                                         ts_cuda_pointer w, ts_cuda_pointer g, ts_cuda_pointer d,
                                         ts_cuda_switch accumulate);
/* `absorb` and `seed`: p lacks its modes (a, c, w, g, d strides) only. */
tensum_status ts_cuda_add_slices(ts_cuda_list *list, const ts_cuda_kernels *kernels, ts_cuda_kernel kernel,
                                 ts_cuda_slices *p, ts_mode *modes, int32_t count);
/* Modes: c strides. `common`: of any dtype of element_bytes. */
tensum_status ts_cuda_add_fill(ts_cuda_list *list, const ts_cuda_kernels *common, const ts_mode *modes, int32_t count,
                               const void *value, ts_cuda_pointer c);
/* From the dtype of `common` to its gradient dtype; modes: a, c strides. */
tensum_status ts_cuda_add_convert(ts_cuda_list *list, const ts_cuda_kernels *common, const ts_mode *modes,
                                  int32_t count, ts_cuda_pointer a, ts_cuda_pointer c);
/* Add a launch of any kernel: `bytes` of parameters, copied. */
tensum_status ts_cuda_add_launch(ts_cuda_list *list, const ts_cuda_kernels *kernels, ts_cuda_kernel kernel,
                                 uint32_t grid, uint32_t threads, uint32_t shared_bytes, const void *parameters,
                                 size_t bytes);
/* The launch added last reads or writes so many bytes at a pointer. Without any such word it is a barrier. */
void ts_cuda_reads(ts_cuda_list *list, ts_cuda_pointer pointer, int64_t bytes);
void ts_cuda_writes(ts_cuda_list *list, ts_cuda_pointer pointer, int64_t bytes);
/* Elements from the first to the last that modes reach in the tensor whose stride lies at `member` of ts_mode. */
int64_t ts_cuda_span(const ts_mode *modes, int32_t count, size_t member);
#define TS_CUDA_SPAN(modes, count, member, bytes) (ts_cuda_span(modes, count, offsetof(ts_mode, member)) * (int64_t)(bytes))
/* A launch needs so much of the list's scratch. */
void ts_cuda_note_scratch(ts_cuda_list *list, size_t bytes);
/* Room in the tables: `bytes` of host memory at *table and its device address. */
void ts_cuda_add_table(ts_cuda_list *list, size_t bytes, void *table_pointer, ts_cu_address *address);

/* Parts of steps. Write modes into a parameter struct, the long ones into a table. */
void ts_cuda_put_modes(ts_cuda_list *list, const ts_mode *modes, int32_t count, bool wide, ts_cuda_modes *target);
/* Bytes of a parameter struct that ends with a mode table. */
size_t ts_cuda_used_bytes(size_t modes_offset, const ts_cuda_modes *modes);
void ts_cuda_note_scratch(ts_cuda_list *list, size_t bytes);
/* Add up what splits left in scratch; modes: c, w strides. */
tensum_status ts_cuda_add_combine(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_mode *modes,
                                  int32_t count, int64_t results, int64_t splits, int64_t modulus, uint8_t winner_bytes,
                                  ts_cu_address partial_w, ts_cuda_pointer c, ts_cuda_pointer w,
                                  ts_cuda_switch accumulate);

/* Enqueue one launch. */
tensum_status ts_cuda_launch_one(ts_cuda_device *device, const ts_cuda_list *list, int64_t index, ts_cu_stream stream);

#endif
