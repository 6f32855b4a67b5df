/* Memory of a GPU, for benchmarks: by the driver, which is there where the library has found a device. */
#ifndef CLI_GPU_MEMORY_H
#define CLI_GPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <tensum/tensum.h>

/* NULL where there is none left, or no driver. */
void *gpu_allocate(tensum_device device, size_t bytes);
bool gpu_write(tensum_device device, void *to, const void *from, size_t bytes);
/* Seconds that a copy within the device takes: of `rounds` copies enqueued together. 0: there is no such call. */
double gpu_copy_seconds(tensum_device device, void *to, const void *from, size_t bytes, int rounds);
void gpu_free(tensum_device device, void *pointer);

#endif
