/* A map from int64 keys to the order they were first added in. */
#ifndef TS_CORE_MAP_H
#define TS_CORE_MAP_H

#include "core/core.h"

typedef struct ts_map {
    int64_t *keys; /* [count] in order of addition */
    int32_t *slots; /* open addressing: number + 1, 0 is free */
    size_t slot_count, capacity;
    int32_t count;
} ts_map;

/* Start with {0}. Number of `key`, adding it if new. */
tensum_status ts_map_add(ts_map *map, int64_t key, int32_t *number);
/* -1 if absent. */
int32_t ts_map_find(const ts_map *map, int64_t key);
void ts_map_free(ts_map *map);

#endif
