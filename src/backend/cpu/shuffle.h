/* Rearranging whole cache lines in registers (kernels_shuffle.c), small tensors by them, and rows past the caches (tile.c). */
#ifndef TS_CPU_SHUFFLE_H
#define TS_CPU_SHUFFLE_H

#include <stdbool.h>
#include <stddef.h>
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

/* One bit of a position in a tile: strides in bytes in what is read and in what is written. */
typedef struct ts_cpu_place {
    int64_t from, to;
    bool from_line, to_line; /* set by planning: a position within lines */
} ts_cpu_place;

enum { TS_TILE_BYTES = 32 << 10, TS_TILE_LINES = TS_TILE_BYTES / TS_SHUFFLE_BYTES };

/* A tensor of at most TS_TILE_BYTES whose extents are all 2, moved by whole lines. */
typedef struct ts_cpu_tile {
    ts_cpu_shuffle shuffle;
    ts_cpu_shuffle_lines *lines;
    int64_t count, sources[TS_TILE_LINES], targets[TS_TILE_LINES];
} ts_cpu_tile;

/* False where there is no line of 64 contiguous bytes on either side. The places named last vary slowest. */
bool ts_cpu_tile_plan(ts_cpu_place *places, int32_t count, size_t element, ts_cpu_tile *tile);

/* Rows that lie one after the other, each with TS_SHUFFLE_BYTES of room in front, and where they go. */
typedef struct ts_cpu_rows {
    int64_t rows, bytes, targets[TS_TILE_LINES];
    int64_t fetch_count, fetches[TS_TILE_LINES]; /* lines to prefetch meanwhile */
} ts_cpu_rows;
enum { TS_ROWS_BYTES = 2 * TS_TILE_BYTES }; /* rows of at least 64 bytes, with their room */

/* Write rows past the caches; `buffer` is the first row, behind its room. Only whole lines are written so, since
 * ordinary stores to the rest of a line would wait for it: where the result's rows go on in the next call (`after`) the
 * bytes of the last line are kept in the room, where the call before (`before`) put its own. */
void ts_cpu_rows_write(const ts_cpu_rows *rows, char *to, char *buffer, const char *next, bool before, bool after);
/* After the last: other threads see what was written. */
void ts_cpu_rows_finish(void);
/* Are so many bytes of result better written past the caches? */
bool ts_cpu_rows_pay(int64_t bytes);

#endif
