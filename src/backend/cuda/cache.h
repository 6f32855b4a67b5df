/* The folder of compiled kernels: $TENSUM_KERNEL_CACHE (empty: none), else $XDG_CACHE_HOME/tensum/kernels, else
 * ~/.cache/tensum/kernels. Any number of processes may use it at a time. Nothing here fails: what cannot be read is
 * compiled again, and what cannot be written is not kept. */
#ifndef TS_CUDA_CACHE_H
#define TS_CUDA_CACHE_H

#include "core/core.h"

/* 128 bits that tell texts and images apart; not against an adversary. */
typedef struct ts_cuda_hash {
    uint64_t state[2];
} ts_cuda_hash;
#define TS_CUDA_HASH_INIT {{UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344)}}
void ts_cuda_hash_add(ts_cuda_hash *hash, const void *data, size_t bytes);

/* What is kept under this name, whole and unharmed, in memory for ts_free, with a 0 byte behind it; false: nothing. */
bool ts_cuda_cache_read(const char *name, void **image);
void ts_cuda_cache_write(const char *name, const void *image, size_t bytes);

#endif
