/* Small tensors moved by whole lines, and rows written past the caches. */
#include "backend/cpu/cpu.h"

#define STREAM_BYTES ((int64_t)8 << 20) /* results that no cache is going to keep */
#define MOST_PLACES 32
#define LINES_AT_ONCE 16 /* read before some are written */
#define SET_BYTES 4096   /* distances of lines in one set of the first-level cache */
#define SET_LINES 16      /* that stay there */
#define MOST_WIDTH TS_SHUFFLE_STAGES

bool ts_cpu_rows_pay(int64_t bytes) { return bytes >= STREAM_BYTES; }

bool ts_cpu_rows_plan(ts_cpu_place *places, int32_t count, int64_t element, ts_cpu_rows *rows)
{
    int64_t run = element;
    uint64_t inside = 0;
    for (bool found = true; found; run *= found ? 2 : 1) {
        found = false;
        for (int32_t i = 0; i < count && !found; i++) { /* what is contiguous stays as it is */
            found = places[i].to == run && (inside >> i & 1) == 0;
            inside |= (uint64_t)found << i;
        }
    }
    rows->bytes = run;
    rows->rows = 1;
    rows->targets[0] = 0;
    for (int32_t i = 0; i < count; i++) {
        if ((inside >> i & 1) != 0) {
            continue;
        }
        if (2 * rows->rows > TS_TILE_LINES) {
            return false;
        }
        for (int64_t r = 0; r < rows->rows; r++) {
            rows->targets[rows->rows + r] = rows->targets[r] + places[i].to;
        }
        places[i].to = (run + TS_LINE_BYTES) * rows->rows;
        rows->rows *= 2;
    }
    return true;
}

void ts_cpu_rows_write(const ts_cpu_rows *rows, const ts_cpu_rows_way *way, int64_t first, int64_t end)
{
    const int64_t bytes = rows->bytes;
    int64_t fetched = first * rows->fetch_count / rows->rows;
    for (int64_t r = first; r < end; r++) {
        char *row = way->to + rows->targets[r], *from = way->buffer + r * (bytes + TS_LINE_BYTES);
        const int64_t behind = (int64_t)((uintptr_t)row & (TS_LINE_BYTES - 1));
        const int64_t due = way->next == NULL ? fetched : (r + 1) * rows->fetch_count / rows->rows;
        int64_t i = -behind;
        if (!way->before && behind > 0) {
            i = ts_min64(bytes, TS_LINE_BYTES - behind);
            memcpy(row, from, (size_t)i);
        }
        while (fetched < due) { /* loads and stores are in flight together */
            __builtin_prefetch(way->next + rows->fetches[fetched++]);
        }
        const int64_t lines = i + TS_LINE_BYTES <= bytes ? (bytes - i) / TS_LINE_BYTES : 0;
        if (lines > 0) {
            rows->stream(row + i, from + i, lines);
        }
        i += lines * TS_LINE_BYTES;
        if (way->after != NULL) {
            memcpy(way->after + r * (bytes + TS_LINE_BYTES) - TS_LINE_BYTES, from + bytes - TS_LINE_BYTES, TS_LINE_BYTES);
        } else {
            memcpy(row + i, from + i, (size_t)(bytes - i));
        }
    }
}

void ts_cpu_rows_write_during(const ts_cpu_rows *rows, const ts_cpu_rows_way *way, const ts_cpu_tile *tile, const char *a,
                              char *c, const char *next)
{
    ts_cpu_shuffle_range range = {.sources = tile->sources, .targets = tile->targets, .count = tile->count, .next = next};
    const int64_t lines = (int64_t)1 << tile->shuffle.stages;
    const int64_t unit = ts_max64(tile->at_once, LINES_AT_ONCE / lines);
    int64_t written = 0;
    for (int64_t i = 0; i < tile->count; i = range.end) {
        range.first = i;
        range.end = ts_min64(i + unit, tile->count);
        tile->lines(&tile->shuffle, a, c, &range);
        if (way != NULL) {
            const int64_t due = range.end * rows->rows / tile->count;
            ts_cpu_rows_write(rows, way, written, due);
            written = due;
        }
    }
}

void ts_cpu_tile_move(const ts_cpu_tile *tile, const char *a, char *c, const char *next)
{
    const ts_cpu_shuffle_range range = {.sources = tile->sources, .targets = tile->targets, .end = tile->count,
                                        .count = tile->count, .next = next};
    tile->lines(&tile->shuffle, a, c, &range);
}

/* Place l of a register takes place `from`. */
static void put_indices(ts_cpu_shuffle_order *order, int32_t l, int32_t from, int32_t element, int32_t index)
{
    const int32_t parts = element / index;
    for (int32_t i = 0; i < parts; i++) {
        const uint64_t value = (uint64_t)from * (uint64_t)parts + (uint64_t)i;
        uint8_t *at = order->indices + (l * parts + i) * index;
        for (int32_t byte = 0; byte < index; byte++) {
            at[byte] = (uint8_t)(value >> 8 * byte); /* indices of more than a byte are x86's */
        }
    }
}

/* Which place in the line read each place in the line written comes from, after all exchanges. */
static void plan_stages(ts_cpu_shuffle *shuffle, ts_cpu_place *const a_line[], ts_cpu_place *const c_line[], int32_t width,
                        int32_t element, int32_t index)
{
    ts_cpu_place *now[MOST_WIDTH], *leaving[TS_SHUFFLE_STAGES];
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
            put_indices(&shuffle->low[t], l, low, element, index);
            put_indices(&shuffle->high[t], l, high, element, index);
        }
    }
}

/* Are sources runs of so many registers? */
static bool run_together(const ts_cpu_tile *tile, int64_t registers, int64_t line)
{
    for (int64_t i = 0; i < tile->count; i++) {
        const int64_t start = i - i % registers;
        if (tile->sources[i] != tile->sources[start] + (i - start) * line) {
            return false;
        }
    }
    return tile->count % registers == 0;
}

static void choose_lines(ts_cpu_tile *tile, const ts_cpu_shuffler *shuffler, int32_t width)
{
    const int64_t line = shuffler->line, whole = TS_LINE_BYTES / line, staged = TS_STAGE_BYTES / line;
    tile->shuffle.staged = false;
    tile->at_once = 1;
    if (shuffler->square != NULL && tile->shuffle.stages == width && run_together(tile, whole, line)) {
        tile->lines = shuffler->square;
        tile->at_once = whole;
        return;
    }
    /* Do so many lines that are read together lie in one set of the first-level cache that they drive each other out? */
    int32_t together = 0;
    for (int32_t r = 0; r < 1 << tile->shuffle.stages; r++) {
        together += ((tile->shuffle.source[r] - tile->shuffle.source[0]) & (SET_BYTES - 1)) < TS_LINE_BYTES ? 1 : 0;
    }
    tile->lines = shuffler->lines;
    if (together > SET_LINES && run_together(tile, staged, line)) {
        tile->shuffle.staged = true;
        tile->at_once = staged;
    }
}

bool ts_cpu_tile_plan(ts_cpu_place *places, int32_t count, size_t element, ts_cpu_tile *tile)
{
    const ts_cpu_shuffler *shuffler = ts_cpu_shuffler_find(element);
    ts_cpu_place *lines[2][MOST_WIDTH] = {{NULL}}, *beside[MOST_PLACES];
    int32_t used = 0;
    if (shuffler == NULL || count > MOST_PLACES) {
        return false;
    }
    const int32_t width = __builtin_ctz((unsigned)shuffler->line / (unsigned)element);
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
    plan_stages(&tile->shuffle, lines[0], lines[1], width, (int32_t)element, shuffler->index);
    for (int32_t i = 0; i < count; i++) {
        if (!places[i].from_line && !places[i].to_line) { /* what is read is walked in order of addresses */
            int32_t j = used++;
            for (; j > 0 && ts_absolute(beside[j - 1]->from) > ts_absolute(places[i].from); j--) {
                beside[j] = beside[j - 1];
            }
            beside[j] = &places[i];
        }
    }
    tile->count = (int64_t)1 << used;
    if (tile->count > TS_TILE_LINES) {
        return false;
    }
    for (int64_t i = 0; i < tile->count; i++) {
        tile->sources[i] = tile->targets[i] = 0;
        for (int32_t b = 0; b < used; b++) {
            tile->sources[i] += (i >> b & 1) != 0 ? beside[b]->from : 0;
            tile->targets[i] += (i >> b & 1) != 0 ? beside[b]->to : 0;
        }
    }
    choose_lines(tile, shuffler, width);
    return true;
}
