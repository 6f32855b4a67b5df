#include "plan/arena.h"

static const int64_t largest = INT64_MAX / 4;

static int64_t round_up(int64_t bytes)
{
    return bytes >= largest ? largest : (bytes + TS_ARENA_ALIGNMENT - 1) / TS_ARENA_ALIGNMENT * TS_ARENA_ALIGNMENT;
}

tensum_status ts_arena_take(ts_arena *arena, int64_t bytes, int64_t *offset)
{
    tensum_status status =
        ts_reserve(arena->count + 1, sizeof *arena->live, "memory plan", &arena->capacity, &arena->live);
    if (status != TENSUM_OK) {
        return status;
    }
    int64_t wanted = round_up(bytes == 0 ? 1 : bytes), end = 0;
    size_t place = 0;
    for (; place < arena->count; place++) {
        if (arena->live[place].offset - end >= wanted) {
            break;
        }
        end = arena->live[place].offset + arena->live[place].bytes;
    }
    if (end >= largest) {
        end = largest;
    }
    memmove(arena->live + place + 1, arena->live + place, (arena->count - place) * sizeof *arena->live);
    arena->live[place].offset = end;
    arena->live[place].bytes = wanted;
    arena->count++;
    arena->bytes = ts_max64(arena->bytes, end + wanted);
    *offset = end;
    return TENSUM_OK;
}

void ts_arena_give(ts_arena *arena, int64_t offset)
{
    size_t low = 0, high = arena->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (arena->live[middle].offset < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < arena->count) {
        memmove(arena->live + low, arena->live + low + 1, (arena->count - low - 1) * sizeof *arena->live);
        arena->count--;
    }
}

void ts_arena_free(ts_arena *arena)
{
    ts_free(arena->live);
    memset(arena, 0, sizeof *arena);
}
