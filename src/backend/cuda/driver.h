/* The part of the CUDA driver that is used, as a table of functions found at run time, so that one binary works with and
 * without a driver. Types and values are those of the driver's binary interface. */
#ifndef TS_CUDA_DRIVER_H
#define TS_CUDA_DRIVER_H

#include "core/core.h"

typedef struct CUctx_st *ts_cu_context;
typedef struct CUmod_st *ts_cu_module;
typedef struct CUfunc_st *ts_cu_function;
typedef struct CUstream_st *ts_cu_stream;
typedef struct CUevent_st *ts_cu_event;
typedef struct CUgraph_st *ts_cu_graph;
typedef struct CUgraphExec_st *ts_cu_graph_exec;
typedef struct CUgraphNode_st *ts_cu_graph_node;
typedef uint64_t ts_cu_address;

enum {
    TS_CU_SUCCESS = 0,
    TS_CU_INVALID_VALUE = 1,
    TS_CU_OUT_OF_MEMORY = 2,
    TS_CU_NOT_INITIALIZED = 3,
    TS_CU_NO_DEVICE = 100,
    TS_CU_INVALID_IMAGE = 200,
    TS_CU_NO_BINARY = 209,
    TS_CU_INVALID_PTX = 218,
    TS_CU_UNSUPPORTED_PTX_VERSION = 222,
    TS_CU_NOT_FOUND = 500,
    TS_CU_NOT_READY = 600,
    TS_CU_CAPTURE_UNSUPPORTED = 900,
    TS_CU_CAPTURE_INVALIDATED = 901
};

enum { /* CUdevice_attribute */
    TS_CU_ATTRIBUTE_SHARED_PER_BLOCK_OPTIN = 97,
    TS_CU_ATTRIBUTE_MULTIPROCESSORS = 16,
    TS_CU_ATTRIBUTE_CAPABILITY_MAJOR = 75,
    TS_CU_ATTRIBUTE_CAPABILITY_MINOR = 76,
    TS_CU_ATTRIBUTE_MEMORY_POOLS = 115
};
enum { /* CUfunction_attribute */
    TS_CU_FUNCTION_MAX_DYNAMIC_SHARED = 8
};
enum { /* CUpointer_attribute */
    TS_CU_POINTER_MEMORY_TYPE = 2,
    TS_CU_POINTER_IS_MANAGED = 8,
    TS_CU_POINTER_DEVICE_ORDINAL = 9,
    TS_CU_MEMORY_HOST = 1,
    TS_CU_MEMORY_DEVICE = 2
};
enum { TS_CU_EVENT_NO_TIMING = 2, TS_CU_STREAM_NON_BLOCKING = 1, TS_CU_HOST_PORTABLE = 1, TS_CU_HOST_MAPPED = 2 };
enum { TS_CU_CAPTURE_MODE_RELAXED = 2 };

typedef struct ts_cu_kernel_node { /* CUDA_KERNEL_NODE_PARAMS_v2 */
    ts_cu_function function;
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z;
    unsigned shared_bytes;
    void **parameters;
    void **extra;
    void *kernel;
    ts_cu_context context;
} ts_cu_kernel_node;

/* X(member, name for cuGetProcAddress, exported symbol, needed, arguments). A driver without a needed one is refused;
 * the others stay NULL and their users do without. */
#define TS_CUDA_CALLS(X)                                                                                              \
    X(init, "cuInit", "cuInit", 1, (unsigned flags))                                                                  \
    X(driver_version, "cuDriverGetVersion", "cuDriverGetVersion", 1, (int *version))                                  \
    X(error_name, "cuGetErrorName", "cuGetErrorName", 1, (int result, const char **text))                             \
    X(error_string, "cuGetErrorString", "cuGetErrorString", 1, (int result, const char **text))                       \
    X(device_count, "cuDeviceGetCount", "cuDeviceGetCount", 1, (int *count))                                          \
    X(device_get, "cuDeviceGet", "cuDeviceGet", 1, (int *device, int ordinal))                                        \
    X(device_name, "cuDeviceGetName", "cuDeviceGetName", 1, (char *name, int bytes, int device))                      \
    X(device_attribute, "cuDeviceGetAttribute", "cuDeviceGetAttribute", 1, (int *value, int attribute, int device))   \
    X(device_memory, "cuDeviceTotalMem", "cuDeviceTotalMem_v2", 1, (size_t *bytes, int device))                       \
    X(context_retain, "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 1, (ts_cu_context *context, int device)) \
    X(context_push, "cuCtxPushCurrent", "cuCtxPushCurrent_v2", 1, (ts_cu_context context))                            \
    X(context_pop, "cuCtxPopCurrent", "cuCtxPopCurrent_v2", 1, (ts_cu_context *context))                              \
    X(memory_info, "cuMemGetInfo", "cuMemGetInfo_v2", 1, (size_t *available, size_t *total))                          \
    X(allocate, "cuMemAlloc", "cuMemAlloc_v2", 1, (ts_cu_address *address, size_t bytes))                             \
    X(release, "cuMemFree", "cuMemFree_v2", 1, (ts_cu_address address))                                               \
    X(allocate_async, "cuMemAllocAsync", "cuMemAllocAsync", 0,                                                        \
      (ts_cu_address *address, size_t bytes, ts_cu_stream stream))                                                    \
    X(release_async, "cuMemFreeAsync", "cuMemFreeAsync", 0, (ts_cu_address address, ts_cu_stream stream))             \
    X(host_allocate, "cuMemHostAlloc", "cuMemHostAlloc", 1, (void **pointer, size_t bytes, unsigned flags))           \
    X(host_release, "cuMemFreeHost", "cuMemFreeHost", 1, (void *pointer))                                             \
    X(host_address, "cuMemHostGetDevicePointer", "cuMemHostGetDevicePointer_v2", 1,                                   \
      (ts_cu_address *address, void *pointer, unsigned flags))                                                        \
    X(upload, "cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2", 1,                                                         \
      (ts_cu_address to, const void *from, size_t bytes, ts_cu_stream stream))                                        \
    X(download, "cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", 1,                                                       \
      (void *to, ts_cu_address from, size_t bytes, ts_cu_stream stream))                                              \
    X(set_bytes, "cuMemsetD8Async", "cuMemsetD8Async", 1,                                                             \
      (ts_cu_address to, unsigned char value, size_t bytes, ts_cu_stream stream))                                     \
    X(module_load, "cuModuleLoadData", "cuModuleLoadData", 1, (ts_cu_module *module, const void *image))              \
    X(module_function, "cuModuleGetFunction", "cuModuleGetFunction", 1,                                               \
      (ts_cu_function *function, ts_cu_module module, const char *name))                                              \
    X(function_set, "cuFuncSetAttribute", "cuFuncSetAttribute", 1, (ts_cu_function function, int attribute, int value)) \
    X(launch, "cuLaunchKernel", "cuLaunchKernel", 1,                                                                  \
      (ts_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
       unsigned block_z, unsigned shared_bytes, ts_cu_stream stream, void **parameters, void **extra))                \
    X(stream_synchronize, "cuStreamSynchronize", "cuStreamSynchronize", 1, (ts_cu_stream stream))                     \
    X(stream_create, "cuStreamCreate", "cuStreamCreate", 0, (ts_cu_stream *stream, unsigned flags))                   \
    X(stream_destroy, "cuStreamDestroy", "cuStreamDestroy_v2", 0, (ts_cu_stream stream))                              \
    X(stream_wait, "cuStreamWaitEvent", "cuStreamWaitEvent", 0,                                                       \
      (ts_cu_stream stream, ts_cu_event event, unsigned flags))                                                       \
    X(capture_begin, "cuStreamBeginCapture", "cuStreamBeginCapture_v2", 0, (ts_cu_stream stream, int mode))           \
    X(capture_end, "cuStreamEndCapture", "cuStreamEndCapture", 0, (ts_cu_stream stream, ts_cu_graph *graph))          \
    X(stream_capturing, "cuStreamIsCapturing", "cuStreamIsCapturing", 0, (ts_cu_stream stream, int *capturing))       \
    X(event_create, "cuEventCreate", "cuEventCreate", 1, (ts_cu_event *event, unsigned flags))                        \
    X(event_record, "cuEventRecord", "cuEventRecord", 1, (ts_cu_event event, ts_cu_stream stream))                    \
    X(event_query, "cuEventQuery", "cuEventQuery", 1, (ts_cu_event event))                                            \
    X(event_synchronize, "cuEventSynchronize", "cuEventSynchronize", 1, (ts_cu_event event))                          \
    X(event_destroy, "cuEventDestroy", "cuEventDestroy_v2", 1, (ts_cu_event event))                                   \
    X(pointer_attribute, "cuPointerGetAttribute", "cuPointerGetAttribute", 1,                                         \
      (void *value, int attribute, ts_cu_address address))                                                            \
    X(graph_create, "cuGraphCreate", "cuGraphCreate", 0, (ts_cu_graph *graph, unsigned flags))                        \
    X(graph_kernel, "cuGraphAddKernelNode", "cuGraphAddKernelNode_v2", 0,                                             \
      (ts_cu_graph_node *node, ts_cu_graph graph, const ts_cu_graph_node *after, size_t after_count,                  \
       const ts_cu_kernel_node *parameters))                                                                          \
    X(graph_child, "cuGraphAddChildGraphNode", "cuGraphAddChildGraphNode", 0,                                         \
      (ts_cu_graph_node *node, ts_cu_graph graph, const ts_cu_graph_node *after, size_t after_count,                  \
       ts_cu_graph child))                                                                                            \
    X(graph_instantiate, "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags", 0,                             \
      (ts_cu_graph_exec *exec, ts_cu_graph graph, unsigned long long flags))                                          \
    X(graph_set_kernel, "cuGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams_v2", 0,                     \
      (ts_cu_graph_exec exec, ts_cu_graph_node node, const ts_cu_kernel_node *parameters))                            \
    X(graph_launch, "cuGraphLaunch", "cuGraphLaunch", 0, (ts_cu_graph_exec exec, ts_cu_stream stream))                \
    X(graph_destroy, "cuGraphDestroy", "cuGraphDestroy", 0, (ts_cu_graph graph))                                      \
    X(graph_exec_destroy, "cuGraphExecDestroy", "cuGraphExecDestroy", 0, (ts_cu_graph_exec exec))

typedef struct ts_cuda_driver {
#define TS_CUDA_MEMBER(member, name, symbol, needed, arguments) int(*member) arguments;
    TS_CUDA_CALLS(TS_CUDA_MEMBER)
#undef TS_CUDA_MEMBER
    int version;
} ts_cuda_driver;

/* Open the driver and fill the table; initialises it (cuInit). The file is $TENSUM_CUDA_LIBRARY or libcuda.so.1.
 * NO_DEVICE where there is no driver or no device, with the reason; DEVICE for anything else. */
tensum_status ts_cuda_driver_open(ts_cuda_driver *driver);

/* DEVICE with "<what>: <name of the error>: <the driver's words>", or success. */
tensum_status ts_cuda_driver_check(const ts_cuda_driver *driver, int result, const char *what);

#endif
