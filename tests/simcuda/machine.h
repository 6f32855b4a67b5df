/* The machine under the tests of the CUDA backend: the simulated driver, or a real one where TENSUM_TEST_GPU is set; and
 * a network that all of them use. */
#ifndef TS_SIMCUDA_MACHINE_H
#define TS_SIMCUDA_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <simcuda/simcuda.h>
#include <tensum/tensum.h>

extern const tensum_device cuda0, cpu;
extern bool real_gpu;
extern int gpu_count;

/* Set the machine up; main() returns what this does unless it is 0: 77 where there is no GPU. */
int machine_open(void);

/* A test about faults of the driver, or about what only the simulator counts. */
#define SIMULATOR_ONLY() \
    if (real_gpu) {      \
        skip();          \
    }

/* Memory of a device, seen by no counter; and pinned host memory. */
uint64_t device_allocate(int device, size_t bytes);
void device_release(int device, uint64_t address);
void device_write(uint64_t address, const void *from, size_t bytes); /* waits for all streams */
void device_read(void *to, uint64_t address, size_t bytes);
void *pinned_allocate(size_t bytes);
void pinned_release(void *pointer);

/* The driver's calls that users make; of device 0. */
void *stream_create(unsigned flags);
void stream_destroy(void *stream);
void capture_begin(void *stream);
/* The captured work, ready to launch; NULL where the capture was broken. */
void *capture_end(void *stream);
void capture_launch(void *exec, void *stream);
void capture_free(void *exec);

/* What the library says it has done on device 0 since the last reset; on the simulator, that the driver has seen as much. */
void reset_counts(void);
void read_counts(tensum_device_counters *counts);

const char *machine_fault(void); /* of the simulator; NULL: none */
void no_fault(void);
void succeeds(tensum_status status);

/* A chain of matrices, 2x2, closed to a scalar: sum over all labels of x0[a,b] x1[b,c] ... */
typedef struct chain {
    int64_t count;
    int32_t *ranks;
    int64_t (*labels)[2], (*extents)[2];
    const int64_t **label_lists, **extent_lists;
    float *data; /* [count][4] */
    tensum_tensor *inputs;
    tensum_plan *plan;
    uint64_t memory; /* on device 0, after chain_to_device */
} chain;
void chain_make(chain *c, int64_t count, tensum_semiring semiring, int64_t slices);
void chain_free(chain *c);
/* Put the data into new device memory, and the tensors there. */
void chain_to_device(chain *c);
/* The largest sum along the chain and a path that attains it, by dynamic programming from the right. */
float chain_best(const chain *c, int64_t *path);
tensum_program *compile(const chain *c, unsigned modes, tensum_device device);

#endif
