/* Kernels compiled at run time, by NVRTC from the sources in the library, and kept in a folder. */
#ifndef TS_CUDA_NVRTC_H
#define TS_CUDA_NVRTC_H

#include "backend/cuda/device.h"

/* A source file, under the name by which others include it. */
typedef struct ts_cuda_source {
    const char *name;
    const char *text;
} ts_cuda_source;
/* The sources in this library, made by the build; *count is 0 where it was made without CUDA. */
const ts_cuda_source *ts_cuda_sources(size_t *count);

/* The image of one module for this device: `common`, or the kernels of one semiring and dtype (a whole semiring takes a
 * minute to compile, and most programs use one dtype). *image is for ts_free. With `fresh` the folder is not asked;
 * *kept tells whether the image came from there. UNSUPPORTED, with what is missing, where NVRTC cannot be had. */
tensum_status ts_cuda_compile(ts_cuda_device *device, int module, tensum_dtype dtype, bool fresh, void **image,
                              bool *kept);

#endif
