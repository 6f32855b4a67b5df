/* The CUDA backend as the registry and the public calls see it. */
#ifndef TS_CUDA_CUDA_H
#define TS_CUDA_CUDA_H

#include "backend/backend.h"

extern const ts_backend ts_backend_cuda;

#endif
