/* Permutations by whole lines: of a cache, or what a register holds of it.
 *
 * A line of the operand and a line of the result hold 2^k elements each; the positions in a line are bits of
 * some modes' indices. Bits that both kinds of lines have stay in the line; the others are exchanged, in registers,
 * with bits of the lines' numbers (shuffle.h). So every line is read once and written once, whatever the strides, and
 * power-of-two strides, whose lines fall into the same few cache sets, do no harm. Tiles of some lines on either side
 * go through a buffer where the result is written past the caches: while one tile is read, the one before is written. */
#include "backend/cpu/cpu.h"

#define LEAST_ELEMENTS 4096              /* planning takes about a microsecond */
#define SIDE_BYTES 256                   /* of a tile, contiguous in the result */
#define OTHER_BYTES 1024                 /* of a tile, contiguous in the operand: long enough for hardware to read ahead */
#define ROWS_BYTES (TS_TILE_BYTES / 4 * 5) /* rows of SIDE_BYTES with their room */
#define TASK_BYTES ((int64_t)1 << 20)

typedef struct shuffle_job {
    ts_cpu_tile tile;
    ts_cpu_rows rows;
    bool streams;
    const char *a;
    char *c;
    ts_mode loops[64]; /* strides in bytes */
    int32_t loop_count;
    int64_t tiles, tiles_per_task;
} shuffle_job;

static void shuffle_task(void *argument, int64_t index, int32_t worker)
{
    const shuffle_job *job = argument;
    const int64_t first = index * job->tiles_per_task, end = ts_min64(first + job->tiles_per_task, job->tiles);
    char rooms[2][ROWS_BYTES + TS_LINE_BYTES] __attribute__((aligned(64)));
    ts_cpu_rows_way way;
    bool before = false;
    ts_cpu_walk walk;
    (void)worker;
    ts_cpu_walk_from(&walk, job->loops, job->loop_count, first);
    for (int64_t tile = first; tile < end; tile++) {
        const int64_t a_now = walk.a, c_now = walk.c;
        ts_cpu_walk_on(&walk, job->loops, job->loop_count);
        if (!job->streams) {
            ts_cpu_tile_move(&job->tile, job->a + a_now, job->c + c_now, job->a + walk.a);
            continue;
        }
        char *buffer = rooms[tile & 1] + TS_LINE_BYTES, *other = rooms[~tile & 1] + TS_LINE_BYTES;
        ts_cpu_rows_write_during(&job->rows, tile > first ? &way : NULL, &job->tile, job->a + a_now, buffer, job->a + walk.a);
        const bool on = walk.c - c_now == job->rows.bytes && tile + 1 < end;
        const ts_cpu_rows_way now = {.to = job->c + c_now, .buffer = buffer, .after = on ? other : NULL, .before = before};
        way = now;
        before = on;
    }
    if (job->streams) {
        ts_cpu_rows_write(&job->rows, &way, 0, job->rows.rows);
        job->rows.stream(NULL, NULL, 0);
    }
}

static int64_t stride_of(const ts_mode *mode, bool of_c) { return of_c ? mode->c : mode->a; }

/* Numbers of modes by ascending stride. */
static void sort_modes(const ts_mode *modes, int32_t count, bool of_c, int32_t *order)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t j = i;
        for (; j > 0 && ts_absolute(stride_of(&modes[order[j - 1]], of_c)) > ts_absolute(stride_of(&modes[i], of_c)); j--) {
            order[j] = order[j - 1];
        }
        order[j] = i;
    }
}

/* Bits of each mode that make a line of `line` = 2^need elements, contiguous in one tensor. A mode whose extent is no
 * multiple is cut to one (`multiple`), if it is long enough to be worth that. */
static bool line_bits(const ts_mode *modes, int32_t count, bool of_c, const int32_t *order, int32_t need,
                      int64_t most, int32_t *bits, int64_t *multiple)
{
    int64_t run = 1;
    memset(bits, 0, (size_t)count * sizeof *bits);
    for (int32_t i = 0; i < count; i++) {
        const ts_mode *mode = &modes[order[i]];
        if (stride_of(mode, of_c) == 0) {
            continue; /* repeats the operand: no part of its lines */
        }
        if (stride_of(mode, of_c) != run) {
            return false;
        }
        const int64_t whole = (int64_t)1 << need;
        for (int64_t unit = most; unit >= whole; unit /= 2) { /* a tile's side if that leaves little over */
            const int64_t rest = mode->extent % unit;
            if (rest * 32 <= mode->extent || (unit == whole && mode->extent >= 4 * whole)) {
                bits[order[i]] = need;
                multiple[order[i]] = ts_max64(multiple[order[i]], unit);
                return true;
            }
        }
        if ((mode->extent & (mode->extent - 1)) != 0) {
            return false;
        }
        bits[order[i]] = __builtin_ctzll((unsigned long long)mode->extent);
        need -= bits[order[i]];
        run *= mode->extent;
    }
    return false;
}

static int32_t sum_of(const int32_t *bits, int32_t count)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += bits[i];
    }
    return sum;
}

/* More bits for a side of the tile: contiguous in the result, merely near each other in the operand. */
static void extend(const ts_mode *modes, int32_t count, bool of_c, const int32_t *order, int32_t most, int32_t *bits)
{
    int64_t run = 1;
    int32_t total = sum_of(bits, count);
    for (int32_t i = 0; i < count && total < most; i++) {
        const ts_mode *mode = &modes[order[i]];
        if (stride_of(mode, of_c) == 0) {
            continue;
        }
        if (of_c && mode->c != run) {
            return;
        }
        while (total < most && (mode->extent >> bits[order[i]]) % 2 == 0) {
            bits[order[i]]++;
            total++;
        }
        if (mode->extent >> bits[order[i]] != 1) {
            return;
        }
        run *= mode->extent;
    }
}

/* Where the sides share bits the tile is small: more bits for whichever is shorter, as long as its rows have room. */
static void grow(const ts_mode *modes, int32_t count, int64_t element, int32_t orders[2][64], int32_t side[2][64])
{
    bool stuck[2] = {false, false};
    while (!stuck[0] || !stuck[1]) {
        const int32_t now[2] = {sum_of(side[0], count), sum_of(side[1], count)};
        const int s = stuck[0] || (!stuck[1] && now[1] <= now[0]) ? 1 : 0;
        int32_t before[64], total = 0;
        memcpy(before, side[s], (size_t)count * sizeof *before);
        extend(modes, count, s == 1, orders[s], now[s] + 1, side[s]);
        for (int32_t m = 0; m < count; m++) {
            total += side[0][m] > side[1][m] ? side[0][m] : side[1][m];
        }
        const int32_t row_bits = sum_of(side[1], count);
        const int64_t bytes = ((element << row_bits) + TS_LINE_BYTES) << (total - row_bits);
        if (sum_of(side[s], count) == now[s] || element << total > TS_TILE_BYTES || bytes > ROWS_BYTES) {
            memcpy(side[s], before, (size_t)count * sizeof *before);
            stuck[s] = true;
        }
    }
}

/* The plan for modes whose extents fit; side: bits of each mode in the tile, on the operand's and the result's side. */
static bool plan(shuffle_job *job, const ts_mode *modes, int32_t count, size_t element, int64_t threads,
                 int32_t orders[2][64], int32_t side[2][64])
{
    ts_cpu_place places[32];
    int64_t row_targets[32], row_bytes = (int64_t)element;
    int32_t place_count = 0, rows = 0;
    job->streams = job->streams && (int64_t)element << sum_of(side[1], count) >= TS_LINE_BYTES; /* only whole lines */
    for (int s = 1; s >= 0; s--) { /* the result's side first */
        for (int32_t i = 0; i < count; i++) {
            const int32_t m = orders[s][i];
            for (int32_t b = s == 1 ? 0 : side[1][m]; b < side[s][m]; b++) {
                ts_cpu_place *p = &places[place_count++];
                p->from = modes[m].a * ((int64_t)element << b);
                p->to = modes[m].c * ((int64_t)element << b);
                if (s == 1) {
                    row_bytes *= 2;
                } else {
                    row_targets[rows] = p->to;
                    p->to = job->streams ? (row_bytes + TS_LINE_BYTES) << rows : p->to;
                    rows++;
                }
            }
        }
    }
    /* The operand's side varies fastest. */
    ts_cpu_place ordered[32];
    for (int32_t i = 0; i < place_count; i++) {
        ordered[i] = places[(i + place_count - rows) % place_count];
    }
    if (!ts_cpu_tile_plan(ordered, place_count, element, &job->tile)) {
        return false;
    }
    job->rows.rows = (int64_t)1 << rows;
    job->rows.bytes = row_bytes;
    for (int64_t r = 0; r < job->rows.rows; r++) {
        job->rows.targets[r] = 0;
        for (int32_t b = 0; b < rows; b++) {
            job->rows.targets[r] += (r >> b & 1) != 0 ? row_targets[b] : 0;
        }
    }
    job->rows.stream = ts_cpu_stream_find();
    job->rows.fetch_count = 0; /* what comes next is prefetched by what reads it */
    /* What is left are loops, the result's largest strides outermost. */
    job->loop_count = 0;
    job->tiles = 1;
    for (int32_t i = count - 1; i >= 0; i--) {
        const int32_t m = orders[1][i];
        const int32_t taken = side[0][m] > side[1][m] ? side[0][m] : side[1][m];
        const ts_mode loop = {.extent = modes[m].extent >> taken, .a = modes[m].a * ((int64_t)element << taken),
                              .c = modes[m].c * ((int64_t)element << taken)};
        if (loop.extent > 1) {
            job->loops[job->loop_count++] = loop;
            job->tiles *= loop.extent;
        }
    }
    const int64_t tile_bytes = row_bytes << rows, share = job->tiles / (4 * threads);
    job->tiles_per_task = ts_max64(1, ts_min64(share, TASK_BYTES / tile_bytes));
    return true;
}

bool ts_cpu_shuffle_move(const ts_mode *given, int32_t count, size_t element, const void *a, void *c, ts_pool *pool)
{
    ts_mode modes[64];
    int32_t orders[2][64], line[2][64], side[2][64];
    int64_t multiple[64], elements = 1;
    if (count == 0 || count > 31) {
        return false;
    }
    memcpy(modes, given, (size_t)count * sizeof *modes);
    if (element == 16) { /* pairs of 8 bytes */
        for (int32_t m = 0; m < count; m++) {
            modes[m].a *= 2;
            modes[m].c *= 2;
        }
        const ts_mode halves = {.extent = 2, .a = 1, .c = 1};
        modes[count++] = halves;
        element = 8;
    }
    const ts_cpu_shuffler *shuffler = ts_cpu_shuffler_find(element);
    if (shuffler == NULL) {
        return false;
    }
    for (int32_t m = 0; m < count; m++) {
        multiple[m] = 1;
        elements *= modes[m].extent;
    }
    if (elements < LEAST_ELEMENTS) {
        return false;
    }
    const int64_t most[2] = {ts_min64(OTHER_BYTES / (int64_t)element, TS_TILE_BYTES / SIDE_BYTES), SIDE_BYTES / (int64_t)element};
    const int32_t width = __builtin_ctz((unsigned)shuffler->line / (unsigned)element);
    for (int s = 0; s < 2; s++) {
        sort_modes(modes, count, s == 1, orders[s]);
        if (!line_bits(modes, count, s == 1, orders[s], width, most[s], line[s], multiple)) {
            return false;
        }
    }
    shuffle_job job;
    int64_t rests[64];
    for (int32_t m = 0; m < count; m++) {
        rests[m] = modes[m].extent % multiple[m];
        modes[m].extent -= rests[m];
    }
    job.a = a;
    job.c = c;
    job.streams = ts_cpu_rows_pay(elements * (int64_t)element);
    for (int s = 0; s < 2; s++) {
        memcpy(side[s], line[s], (size_t)count * sizeof *side[s]);
        extend(modes, count, s == 1, orders[s], __builtin_ctzll((unsigned long long)most[s]), side[s]);
    }
    grow(modes, count, (int64_t)element, orders, side);
    if (!plan(&job, modes, count, element, ts_pool_threads(pool), orders, side)) {
        return false;
    }
    ts_pool_run(pool, (job.tiles + job.tiles_per_task - 1) / job.tiles_per_task, shuffle_task, &job);
    for (int32_t m = 0; m < count; m++) { /* what was cut off goes the slow way: modes before m in full, after m cut */
        if (rests[m] > 0) {
            ts_mode part[64];
            const int64_t at = modes[m].extent;
            memcpy(part, modes, (size_t)count * sizeof *part);
            part[m].extent = rests[m];
            ts_cpu_move(part, count, element, (const char *)a + at * modes[m].a * (int64_t)element,
                        (char *)c + at * modes[m].c * (int64_t)element, pool);
            modes[m].extent += rests[m];
        }
    }
    return true;
}
