/* Control of the simulated cuTENSOR, for tests. It stands in for libcutensor.so.2 on top of the simulated driver: point
 * TENSUM_CUTENSOR_LIBRARY at it.
 *
 * A contraction is two operations of its stream, done as late as the driver likes: the first writes a pattern of its own into
 * the scratch, the second looks whether it is still there and computes. So scratch that was handed out again, freed, or shared
 * with work that may run at the same time is a fault (simcuda_fault). So are addresses outside of live device memory,
 * alignments worse than promised, too little scratch, and objects used after their end.
 * Calls can be made to fail by name with simcuda_fail. */
#ifndef TS_SIMCUDA_CUTENSOR_H
#define TS_SIMCUDA_CUTENSOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Scratch of plans made from now on, in bytes per element of the result (16 at first), rounded up to a multiple of 256. */
void simcutensor_scratch(uint64_t bytes_per_element);
/* Since the last simcutensor_reset: plans built, contractions called. */
long simcutensor_plans(void);
long simcutensor_calls(void);
/* Calls with an operand, result or scratch that shares a byte with this memory. */
long simcutensor_touched(uint64_t address, size_t bytes);
void simcutensor_reset(void);
/* Handles, descriptors and plans that exist. */
long simcutensor_live(void);

#ifdef __cplusplus
}
#endif
#endif
