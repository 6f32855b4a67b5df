/* The part of cuTENSOR 2 that is used, as a table of functions found at run time. Types and values are those of the
 * library's binary interface; tests/simcuda/cutensor_header.c compares them with its header where that is installed. */
#ifndef TS_CUTENSOR_LIBRARY_H
#define TS_CUTENSOR_LIBRARY_H

#include "backend/cuda/driver.h"

#ifndef TS_CUTENSOR_OWN_TYPES /* that comparison brings the library's types */
typedef int ts_ct_status;
typedef int ts_ct_dtype;
typedef int ts_ct_operator;
typedef int ts_ct_algorithm;
typedef int ts_ct_jit;
typedef int ts_ct_size;
typedef int ts_ct_attribute;
typedef struct cutensorHandle *ts_ct_handle;
typedef struct cutensorPlan *ts_ct_plan;
typedef struct cutensorTensorDescriptor *ts_ct_tensor;
typedef struct cutensorOperationDescriptor *ts_ct_operation;
typedef struct cutensorPlanPreference *ts_ct_preference;
typedef struct cutensorComputeDescriptor *ts_ct_compute;
typedef ts_cu_stream ts_ct_stream;
#endif

enum { /* cutensorStatus_t */
    TS_CT_SUCCESS = 0,
    TS_CT_ALLOC_FAILED = 3,
    TS_CT_INVALID_VALUE = 7,
    TS_CT_ARCH_MISMATCH = 8,
    TS_CT_NOT_SUPPORTED = 15,
    TS_CT_INSUFFICIENT_WORKSPACE = 19
};
enum { /* cudaDataType_t */
    TS_CT_R_32F = 0,
    TS_CT_R_64F = 1,
    TS_CT_R_16F = 2,
    TS_CT_C_32F = 4,
    TS_CT_C_64F = 5,
    TS_CT_R_16BF = 14
};
enum { TS_CT_IDENTITY = 1, TS_CT_CONJUGATE = 9 };
enum { TS_CT_ALGORITHM_DEFAULT = -1, TS_CT_JIT_NONE = 0, TS_CT_WORKSPACE_DEFAULT = 2, TS_CT_REQUIRED_WORKSPACE = 0 };

/* X(member, symbol, arguments): all return a ts_ct_status, and all are needed. */
#define TS_CUTENSOR_CALLS(X)                                                                                        \
    X(create, cutensorCreate, (ts_ct_handle * handle))                                                              \
    X(destroy, cutensorDestroy, (ts_ct_handle handle))                                                              \
    X(tensor_create, cutensorCreateTensorDescriptor,                                                                \
      (const ts_ct_handle handle, ts_ct_tensor *tensor, const uint32_t count, const int64_t extents[],              \
       const int64_t strides[], ts_ct_dtype dtype, uint32_t alignment))                                             \
    X(tensor_destroy, cutensorDestroyTensorDescriptor, (ts_ct_tensor tensor))                                       \
    X(contraction_create, cutensorCreateContraction,                                                                \
      (const ts_ct_handle handle, ts_ct_operation *operation, const ts_ct_tensor a, const int32_t modes_a[],        \
       ts_ct_operator operator_a, const ts_ct_tensor b, const int32_t modes_b[], ts_ct_operator operator_b,         \
       const ts_ct_tensor c, const int32_t modes_c[], ts_ct_operator operator_c, const ts_ct_tensor d,              \
       const int32_t modes_d[], const ts_ct_compute compute))                                                       \
    X(operation_destroy, cutensorDestroyOperationDescriptor, (ts_ct_operation operation))                           \
    X(preference_create, cutensorCreatePlanPreference,                                                              \
      (const ts_ct_handle handle, ts_ct_preference *preference, ts_ct_algorithm algorithm, ts_ct_jit jit))          \
    X(preference_destroy, cutensorDestroyPlanPreference, (ts_ct_preference preference))                             \
    X(workspace_estimate, cutensorEstimateWorkspaceSize,                                                            \
      (const ts_ct_handle handle, const ts_ct_operation operation, const ts_ct_preference preference,               \
       const ts_ct_size size, uint64_t *bytes))                                                                     \
    X(plan_create, cutensorCreatePlan,                                                                              \
      (const ts_ct_handle handle, ts_ct_plan *plan, const ts_ct_operation operation,                                \
       const ts_ct_preference preference, uint64_t workspace_limit))                                                \
    X(plan_attribute, cutensorPlanGetAttribute,                                                                     \
      (const ts_ct_handle handle, const ts_ct_plan plan, ts_ct_attribute attribute, void *value, size_t bytes))     \
    X(plan_destroy, cutensorDestroyPlan, (ts_ct_plan plan))                                                         \
    X(contract, cutensorContract,                                                                                   \
      (const ts_ct_handle handle, const ts_ct_plan plan, const void *alpha, const void *a, const void *b,           \
       const void *beta, const void *c, void *d, void *workspace, uint64_t workspace_bytes, ts_ct_stream stream))

#ifndef TS_CUTENSOR_OWN_TYPES
typedef struct ts_cutensor_library {
#define TS_CUTENSOR_MEMBER(member, symbol, arguments) ts_ct_status(*member) arguments;
    TS_CUTENSOR_CALLS(TS_CUTENSOR_MEMBER)
#undef TS_CUTENSOR_MEMBER
    const char *(*error_string)(ts_ct_status status);
    ts_ct_compute compute_32, compute_64; /* f32 and f64 arithmetic */
    size_t version;                       /* 20801: 2.8.1 */
} ts_cutensor_library;

/* The library, opened on first use and never closed: $TENSUM_CUTENSOR_LIBRARY or libcutensor.so.2. UNSUPPORTED with the
 * reason where it cannot be had, which is not tried again. Thread-safe. */
tensum_status ts_cutensor_open(const ts_cutensor_library **library);
#endif

#endif
