#include "core/map.h"

static size_t hash(int64_t key)
{
    uint64_t z = (uint64_t)key * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(z ^ (z >> 29));
}

/* The slot that holds `key`, or the free one where it belongs. */
static size_t slot_of(const ts_map *map, int64_t key)
{
    size_t slot = hash(key) & (map->slot_count - 1);
    while (map->slots[slot] != 0 && map->keys[map->slots[slot] - 1] != key) {
        slot = (slot + 1) & (map->slot_count - 1);
    }
    return slot;
}

int32_t ts_map_find(const ts_map *map, int64_t key)
{
    return map->slot_count == 0 ? -1 : map->slots[slot_of(map, key)] - 1;
}

tensum_status ts_map_add(ts_map *map, int64_t key, int32_t *number)
{
    int32_t found = ts_map_find(map, key);
    if (found >= 0) {
        *number = found;
        return TENSUM_OK;
    }
    if (map->count == INT32_MAX - 1) {
        return ts_fail(TENSUM_STATUS_SIZE_OVERFLOW, "more than 2^31 labels");
    }
    if ((size_t)map->count * 2 >= map->slot_count) {
        size_t slot_count = map->slot_count == 0 ? 64 : map->slot_count * 2;
        int32_t *slots = NULL;
        tensum_status status = ts_allocate_zero(slot_count, sizeof *slots, "label map", &slots);
        if (status != TENSUM_OK) {
            return status;
        }
        ts_free(map->slots);
        map->slots = slots;
        map->slot_count = slot_count;
        for (int32_t i = 0; i < map->count; i++) {
            map->slots[slot_of(map, map->keys[i])] = i + 1;
        }
    }
    tensum_status status = ts_reserve((size_t)map->count + 1, sizeof *map->keys, "label map", &map->capacity, &map->keys);
    if (status != TENSUM_OK) {
        return status;
    }
    size_t slot = slot_of(map, key);
    map->keys[map->count] = key;
    map->slots[slot] = ++map->count;
    *number = map->count - 1;
    return TENSUM_OK;
}

void ts_map_free(ts_map *map)
{
    ts_free(map->keys);
    ts_free(map->slots);
    memset(map, 0, sizeof *map);
}
