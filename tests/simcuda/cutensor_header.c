/* Our declarations of cuTENSOR against its header: types of all functions, values of all constants. Compiled, not run. */
#include <cutensor.h>

#define TS_CUTENSOR_OWN_TYPES
typedef cutensorStatus_t ts_ct_status;
typedef cudaDataType_t ts_ct_dtype;
typedef cutensorOperator_t ts_ct_operator;
typedef cutensorAlgo_t ts_ct_algorithm;
typedef cutensorJitMode_t ts_ct_jit;
typedef cutensorWorksizePreference_t ts_ct_size;
typedef cutensorPlanAttribute_t ts_ct_attribute;
typedef cutensorHandle_t ts_ct_handle;
typedef cutensorPlan_t ts_ct_plan;
typedef cutensorTensorDescriptor_t ts_ct_tensor;
typedef cutensorOperationDescriptor_t ts_ct_operation;
typedef cutensorPlanPreference_t ts_ct_preference;
typedef cutensorComputeDescriptor_t ts_ct_compute;
typedef cudaStream_t ts_ct_stream;
#include "backend/cuda/cutensor/library.h"

#define SAME_TYPE(member, symbol, arguments)                                                           \
    _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), ts_ct_status arguments), #symbol " differs");
TS_CUTENSOR_CALLS(SAME_TYPE)
_Static_assert(__builtin_types_compatible_p(__typeof__(cutensorGetVersion), size_t(void)), "cutensorGetVersion differs");
_Static_assert(__builtin_types_compatible_p(__typeof__(cutensorGetErrorString), const char *(const cutensorStatus_t)),
               "cutensorGetErrorString differs");
_Static_assert(sizeof(cutensorStatus_t) == sizeof(int) && sizeof(cudaDataType_t) == sizeof(int) &&
                   sizeof(cutensorOperator_t) == sizeof(int) && sizeof(cutensorAlgo_t) == sizeof(int) &&
                   sizeof(cutensorJitMode_t) == sizeof(int) && sizeof(cutensorWorksizePreference_t) == sizeof(int) &&
                   sizeof(cutensorPlanAttribute_t) == sizeof(int),
               "an enumeration is no int");

#define SAME_VALUE(own, theirs) _Static_assert((int)(own) == (int)(theirs), #theirs " differs");
SAME_VALUE(TS_CT_SUCCESS, CUTENSOR_STATUS_SUCCESS)
SAME_VALUE(TS_CT_ALLOC_FAILED, CUTENSOR_STATUS_ALLOC_FAILED)
SAME_VALUE(TS_CT_INVALID_VALUE, CUTENSOR_STATUS_INVALID_VALUE)
SAME_VALUE(TS_CT_ARCH_MISMATCH, CUTENSOR_STATUS_ARCH_MISMATCH)
SAME_VALUE(TS_CT_NOT_SUPPORTED, CUTENSOR_STATUS_NOT_SUPPORTED)
SAME_VALUE(TS_CT_INSUFFICIENT_WORKSPACE, CUTENSOR_STATUS_INSUFFICIENT_WORKSPACE)
SAME_VALUE(TS_CT_R_32F, CUDA_R_32F)
SAME_VALUE(TS_CT_R_64F, CUDA_R_64F)
SAME_VALUE(TS_CT_R_16F, CUDA_R_16F)
SAME_VALUE(TS_CT_C_32F, CUDA_C_32F)
SAME_VALUE(TS_CT_C_64F, CUDA_C_64F)
SAME_VALUE(TS_CT_R_16BF, CUDA_R_16BF)
SAME_VALUE(TS_CT_IDENTITY, CUTENSOR_OP_IDENTITY)
SAME_VALUE(TS_CT_CONJUGATE, CUTENSOR_OP_CONJ)
SAME_VALUE(TS_CT_ALGORITHM_DEFAULT, CUTENSOR_ALGO_DEFAULT)
SAME_VALUE(TS_CT_JIT_NONE, CUTENSOR_JIT_MODE_NONE)
SAME_VALUE(TS_CT_WORKSPACE_DEFAULT, CUTENSOR_WORKSPACE_DEFAULT)
SAME_VALUE(TS_CT_REQUIRED_WORKSPACE, CUTENSOR_PLAN_REQUIRED_WORKSPACE)
