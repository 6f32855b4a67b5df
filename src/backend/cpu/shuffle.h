/* Rearranging lines in registers (kernels_shuffle.c), small tensors by them, and rows past the caches (tile.c). */
#ifndef TS_CPU_SHUFFLE_H
#define TS_CPU_SHUFFLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a cache; a register may hold less of it (ts_cpu_shuffler). */
enum { TS_LINE_BYTES = 64 };
enum { TS_STAGE_BYTES = 512 };
enum { TS_SHUFFLE_STAGES = 6, TS_SHUFFLE_LINES = 1 << TS_SHUFFLE_STAGES };

/* Which parts of two registers a new one has: indices of as many bytes each as the shuffler says. */
typedef struct ts_cpu_shuffle_order {
    uint8_t indices[TS_LINE_BYTES];
} ts_cpu_shuffle_order;

/* 2^stages registers become as many others. Stage t exchanges bit t of the register's number with one bit of the place
 * in the register: new register r takes `low[t]` of the registers r and r + 2^t, new register r + 2^t takes `high[t]` of
 * them. Indices count first through the first register and then through the second; without stages low[0] rearranges each. */
typedef struct ts_cpu_shuffle {
    int32_t stages;
    bool staged; /* the sources share sets of the cache: TS_STAGE_BYTES from each go through a panel first */
    int64_t source[TS_SHUFFLE_LINES], target[TS_SHUFFLE_LINES]; /* bytes */
    ts_cpu_shuffle_order low[TS_SHUFFLE_STAGES], high[TS_SHUFFLE_STAGES];
} ts_cpu_shuffle;

/* Which of `count` places are to be done, and where the same will be done next: what that reads is prefetched. */
typedef struct ts_cpu_shuffle_range {
    const int64_t *sources, *targets; /* bytes, [count] */
    int64_t first, end, count;
    const char *next; /* NULL: no prefetch */
} ts_cpu_shuffle_range;

/* Do it at a + sources[i] and c + targets[i] for i in [first, end). */
typedef void ts_cpu_shuffle_lines(const ts_cpu_shuffle *shuffle, const char *a, char *c, const ts_cpu_shuffle_range *range);
/* For elements of one size; `lines` is NULL where the instruction set has no such permutation. */
typedef struct ts_cpu_shuffler {
    ts_cpu_shuffle_lines *lines;
    int32_t line;  /* bytes of a register */
    int32_t index; /* bytes that one index stands for, and takes: those of an element, or a part of them */
    /* The same for as many stages as exchange all of a register's places, from whole cache lines: sources come in runs of
     * TS_LINE_BYTES. May be NULL. */
    ts_cpu_shuffle_lines *square;
} ts_cpu_shuffler;
enum { TS_SHUFFLERS = 4 }; /* elements of 1, 2, 4 and 8 bytes */

/* One bit of a position in a tile: strides in bytes in what is read and in what is written. */
typedef struct ts_cpu_place {
    int64_t from, to;
    bool from_line, to_line; /* set by planning: a position within registers */
} ts_cpu_place;

enum { TS_TILE_BYTES = 64 << 10, TS_TILE_LINES = TS_TILE_BYTES / TS_LINE_BYTES };

/* A tensor of at most TS_TILE_BYTES whose extents are all 2, moved by whole registers. */
typedef struct ts_cpu_tile {
    ts_cpu_shuffle shuffle;
    ts_cpu_shuffle_lines *lines;
    int64_t at_once; /* of the places below, which are done together */
    int64_t count, sources[TS_TILE_LINES], targets[TS_TILE_LINES];
} ts_cpu_tile;

/* False where no whole register is contiguous on either side. The places named last vary slowest. */
bool ts_cpu_tile_plan(ts_cpu_place *places, int32_t count, size_t element, ts_cpu_tile *tile);
/* All of it. `next`: where the same will be read next, or NULL. */
void ts_cpu_tile_move(const ts_cpu_tile *tile, const char *a, char *c, const char *next);

/* Whole lines of the result, aligned to them, past the caches where the instruction set can; without lines, wait until
 * other threads see what was written. */
typedef void ts_cpu_stream_lines(char *to, const char *from, int64_t lines);

/* Rows that lie one after the other, each with TS_LINE_BYTES of room in front, and where they go. */
typedef struct ts_cpu_rows {
    int64_t rows, bytes, targets[TS_TILE_LINES];
    int64_t fetch_count, fetches[TS_TILE_LINES]; /* lines to prefetch meanwhile */
    ts_cpu_stream_lines *stream;
} ts_cpu_rows;

/* Rows of a tensor of extents 2, strides `to` in bytes: as long as it is contiguous. The strides become those in a buffer of
 * the rows. False: too many. */
bool ts_cpu_rows_plan(ts_cpu_place *places, int32_t count, int64_t element, ts_cpu_rows *rows);

/* Rows on their way to the result. Only whole lines are written past the caches, since ordinary stores to the rest of a
 * line would wait for it: where the result's rows go on in the next tile (`after`) the bytes of the last line are kept in
 * the room of that tile's rows, where the tile before (`before`) put its own. */
typedef struct ts_cpu_rows_way {
    char *to, *buffer;      /* the first row, behind its room */
    char *after;            /* the next tile's first row, or NULL: the rows end here */
    bool before;
    const char *next;       /* what the rows' fetches start from, or NULL */
} ts_cpu_rows_way;
/* Rows [first, end). */
void ts_cpu_rows_write(const ts_cpu_rows *rows, const ts_cpu_rows_way *way, int64_t first, int64_t end);
/* Move a tile while rows are written (`way` may be NULL): loads wait for memory meanwhile. */
void ts_cpu_rows_write_during(const ts_cpu_rows *rows, const ts_cpu_rows_way *way, const ts_cpu_tile *tile, const char *a,
                              char *c, const char *next);
/* Are so many bytes of result better written past the caches? */
bool ts_cpu_rows_pay(int64_t bytes);

#endif
