/* Offsets in one block of memory for blocks that live for intervals of time. */
#ifndef TS_PLAN_ARENA_H
#define TS_PLAN_ARENA_H

#include "core/core.h"

typedef struct ts_block {
    int64_t offset, bytes;
} ts_block;

/* First fit over the blocks that are live now, kept sorted by offset. Start with {0}. */
typedef struct ts_arena {
    ts_block *live;
    size_t count, capacity;
    int64_t bytes; /* high-water mark */
} ts_arena;

enum { TS_ARENA_ALIGNMENT = 128 };

/* bytes >= 0; sizes saturate at INT64_MAX / 4 rather than overflow. */
tensum_status ts_arena_take(ts_arena *arena, int64_t bytes, int64_t *offset);
void ts_arena_give(ts_arena *arena, int64_t offset);
void ts_arena_free(ts_arena *arena);

#endif
