/* Rearranging whole cache lines in registers: what move plans and the instruction set's file does. */
#ifndef TS_CPU_SHUFFLE_H
#define TS_CPU_SHUFFLE_H

#include <stdint.h>

enum { TS_SHUFFLE_BYTES = 64, TS_SHUFFLE_STAGES = 4, TS_SHUFFLE_LINES = 1 << TS_SHUFFLE_STAGES };

/* For elements of 4 and of 8 bytes. */
typedef union ts_cpu_shuffle_order {
    int32_t narrow[TS_SHUFFLE_BYTES / 4];
    int64_t wide[TS_SHUFFLE_BYTES / 8];
} ts_cpu_shuffle_order;

/* 2^stages lines of 64 bytes become as many others. Stage t exchanges bit t of the line's number with one bit of the
 * place in the line: new line r takes `low[t]` of the lines r and r + 2^t, new line r + 2^t takes `high[t]` of them.
 * Indices count elements, of the first line and then of the second; without stages low[0] rearranges each line. */
typedef struct ts_cpu_shuffle {
    int32_t stages;
    int64_t source[TS_SHUFFLE_LINES], target[TS_SHUFFLE_LINES]; /* bytes */
    ts_cpu_shuffle_order low[TS_SHUFFLE_STAGES], high[TS_SHUFFLE_STAGES];
} ts_cpu_shuffle;

/* Do it `count` times, at a + sources[i] and c + targets[i] (bytes), and prefetch what the same would read at `next`. */
typedef void ts_cpu_shuffle_lines(const ts_cpu_shuffle *shuffle, const char *a, char *c, const int64_t *sources,
                                  const int64_t *targets, int64_t count, const char *next);
/* For elements of 4 and 8 bytes; NULL where the instruction set has no such permutation. */
typedef struct ts_cpu_shuffler {
    ts_cpu_shuffle_lines *lines4, *lines8;
} ts_cpu_shuffler;

#endif
