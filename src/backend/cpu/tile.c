/* Small tensors moved by whole lines, and rows written past the caches. */
#include "backend/cpu/cpu.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define STREAM_BYTES ((int64_t)8 << 20) /* results that no cache is going to keep */
#define MOST_PLACES 32

bool ts_cpu_rows_pay(int64_t bytes) { return bytes >= STREAM_BYTES; }

/* A line of the result, aligned to it. */
static void put_line(char *to, const char *from)
{
#if defined(__x86_64__)
    for (int j = 0; j < TS_SHUFFLE_BYTES; j += 16) {
        _mm_stream_si128((__m128i *)(void *)(to + j), _mm_loadu_si128((const __m128i *)(const void *)(from + j)));
    }
#else
    memcpy(to, from, TS_SHUFFLE_BYTES);
#endif
}

void ts_cpu_rows_write(const ts_cpu_rows *rows, char *to, char *buffer, const char *next, bool before, bool after)
{
    const int64_t bytes = rows->bytes;
    int64_t fetched = 0;
    for (int64_t r = 0; r < rows->rows; r++) {
        char *row = to + rows->targets[r], *from = buffer + r * (bytes + TS_SHUFFLE_BYTES);
        const int64_t behind = (int64_t)((uintptr_t)row & (TS_SHUFFLE_BYTES - 1));
        const int64_t due = (r + 1) * rows->fetch_count / rows->rows; /* loads and stores are in flight together */
        int64_t i = -behind;
        if (!before && behind > 0) {
            i = ts_min64(bytes, TS_SHUFFLE_BYTES - behind);
            memcpy(row, from, (size_t)i);
        }
        for (; i + TS_SHUFFLE_BYTES <= bytes; i += TS_SHUFFLE_BYTES) {
            if (fetched < due) {
                __builtin_prefetch(next + rows->fetches[fetched++]);
            }
            put_line(row + i, from + i);
        }
        while (fetched < due) {
            __builtin_prefetch(next + rows->fetches[fetched++]);
        }
        if (after) {
            memcpy(from - TS_SHUFFLE_BYTES, from + bytes - TS_SHUFFLE_BYTES, TS_SHUFFLE_BYTES);
        } else {
            memcpy(row + i, from + i, (size_t)(bytes - i));
        }
    }
}

void ts_cpu_rows_finish(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/* Which place in the line read each place in the line written comes from, after all exchanges. */
static void plan_stages(ts_cpu_shuffle *shuffle, ts_cpu_place *const a_line[], ts_cpu_place *const c_line[], int32_t width,
                        size_t element)
{
    ts_cpu_place *now[6], *leaving[TS_SHUFFLE_STAGES];
    int32_t stages = 0;
    memcpy(now, a_line, (size_t)width * sizeof *now);
    for (int32_t p = 0; p < width; p++) {
        if (!a_line[p]->to_line) {
            leaving[stages++] = a_line[p];
        }
    }
    shuffle->stages = stages;
    int32_t arriving = 0, lanes = 1 << width, at[TS_SHUFFLE_STAGES];
    ts_cpu_place *coming[TS_SHUFFLE_STAGES];
    for (int32_t p = 0; p < width; p++) {
        if (!c_line[p]->from_line) {
            coming[arriving++] = c_line[p];
        }
    }
    for (int32_t t = 0; t < stages; t++) {
        for (int32_t p = 0; p < width; p++) {
            if (now[p] == leaving[t]) {
                at[t] = p;
                now[p] = coming[t];
            }
        }
    }
    for (int32_t r = 0; r < 1 << stages; r++) {
        shuffle->source[r] = shuffle->target[r] = 0;
        for (int32_t t = 0; t < stages; t++) {
            if ((r >> t & 1) != 0) {
                shuffle->source[r] += coming[t]->from;
                shuffle->target[r] += leaving[t]->to;
            }
        }
    }
    for (int32_t t = 0; t < (stages > 0 ? stages : 1); t++) {
        for (int32_t l = 0; l < lanes; l++) {
            int32_t from = l;
            if (t + 1 >= stages) { /* the last one puts the places in order, too */
                from = 0;
                for (int32_t q = 0; q < width; q++) {
                    for (int32_t p = 0; p < width; p++) {
                        from |= now[p] == c_line[q] ? (l >> q & 1) << p : 0;
                    }
                }
            }
            int32_t low = from, high = from;
            if (stages > 0) {
                const int32_t bit = 1 << at[t];
                low = (from & bit) == 0 ? from : lanes + (from ^ bit);
                high = (from & bit) == 0 ? (from | bit) : lanes + from;
            }
            if (element == 4) {
                shuffle->low[t].narrow[l] = low;
                shuffle->high[t].narrow[l] = high;
            } else {
                shuffle->low[t].wide[l] = low;
                shuffle->high[t].wide[l] = high;
            }
        }
    }
}

bool ts_cpu_tile_plan(ts_cpu_place *places, int32_t count, size_t element, ts_cpu_tile *tile)
{
    const ts_cpu_shuffler *shuffler = ts_cpu_shuffler_find();
    const int32_t width = element == 4 ? 4 : 3;
    ts_cpu_place *lines[2][4] = {{NULL}}, *beside[MOST_PLACES];
    int32_t used = 0;
    if (shuffler->lines4 == NULL || (element != 4 && element != 8) || count > MOST_PLACES) {
        return false;
    }
    tile->lines = element == 4 ? shuffler->lines4 : shuffler->lines8;
    for (int32_t i = 0; i < count; i++) {
        places[i].from_line = places[i].to_line = false;
    }
    for (int32_t bit = 0; bit < width; bit++) {
        for (int32_t i = 0; i < count; i++) {
            if (lines[0][bit] == NULL && places[i].from == (int64_t)element << bit) {
                lines[0][bit] = &places[i];
                places[i].from_line = true;
            }
            if (lines[1][bit] == NULL && places[i].to == (int64_t)element << bit) {
                lines[1][bit] = &places[i];
                places[i].to_line = true;
            }
        }
        if (lines[0][bit] == NULL || lines[1][bit] == NULL) {
            return false;
        }
    }
    plan_stages(&tile->shuffle, lines[0], lines[1], width, element);
    for (int32_t i = 0; i < count; i++) {
        if (!places[i].from_line && !places[i].to_line) {
            beside[used++] = &places[i];
        }
    }
    tile->count = (int64_t)1 << used;
    for (int64_t i = 0; i < tile->count; i++) {
        tile->sources[i] = tile->targets[i] = 0;
        for (int32_t b = 0; b < used; b++) {
            tile->sources[i] += (i >> b & 1) != 0 ? beside[b]->from : 0;
            tile->targets[i] += (i >> b & 1) != 0 ? beside[b]->to : 0;
        }
    }
    return true;
}
