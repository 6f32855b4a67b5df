/* Permutations of 4- and 8-byte elements by whole cache lines.
 *
 * A line of the operand and a line of the result hold 2^k elements each, k = 4 or 3; the positions in a line are bits of
 * some modes' indices. Bits that both kinds of lines have stay in the line; the others are exchanged, in registers,
 * with bits of the lines' numbers (shuffle.h). So every line is read once and written once, whatever the strides, and
 * power-of-two strides, whose lines fall into the same few cache sets, do no harm. Tiles of some lines on either side
 * go through a small buffer where the result is written past the caches. */
#include "backend/cpu/cpu.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define LEAST_ELEMENTS 4096              /* planning takes about a microsecond */
#define STREAM_BYTES ((int64_t)8 << 20)  /* results that no cache is going to keep */
#define SIDE_BYTES 512                   /* of a tile, contiguous in the result */
#define OTHER_BYTES 256                  /* of a tile, contiguous in the operand */
#define TILE_BYTES (32 << 10)
#define TASK_BYTES ((int64_t)1 << 20)

/* One bit of a mode's index. Strides in bytes. */
typedef struct place {
    int32_t mode, bit;
    int64_t a, c, buffer;
    bool in_a, in_c, beside; /* a position in the operand's lines, in the result's; in the contiguous side of a tile */
} place;

typedef struct shuffle_job {
    ts_cpu_shuffle shuffle;
    ts_cpu_shuffle_lines *lines;
    const char *a;
    char *c;
    ts_mode loops[64]; /* strides in bytes */
    int32_t loop_count;
    int64_t tiles, tiles_per_task;
    int64_t tile_lines, sources[TILE_BYTES / TS_SHUFFLE_BYTES], targets[TILE_BYTES / TS_SHUFFLE_BYTES];
    bool streams;
    int64_t line_sources[TILE_BYTES / TS_SHUFFLE_BYTES]; /* of all lines, in the order they are read */
    int64_t rows, row_bytes, row_targets[TILE_BYTES / TS_SHUFFLE_BYTES];
} shuffle_job;

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

static int64_t absolute(int64_t x) { return x < 0 ? -x : x; }

/* Write one tile's rows past the caches, which saves reading their lines first, and meanwhile fetch the lines of the next
 * tile, at `next`: stores and loads are in flight together. Only whole lines are written so, since ordinary stores to
 * the rest of a line would wait for it: where the result's rows go on in the next tile (`after`), the bytes of the last
 * line are kept in front of the buffer's rows, where they were put by the tile before (`before`). */
static void stream_rows(const shuffle_job *job, char *to, char *buffer, const char *next, bool before, bool after)
{
    const int64_t bytes = job->row_bytes;
    int64_t line = 0;
    for (int64_t r = 0; r < job->rows; r++) {
        char *row = to + job->row_targets[r], *from = buffer + r * (bytes + TS_SHUFFLE_BYTES);
        const int64_t behind = (int64_t)((uintptr_t)row & (TS_SHUFFLE_BYTES - 1));
        int64_t i = -behind;
        if (!before && behind > 0) {
            i = ts_min64(bytes, TS_SHUFFLE_BYTES - behind);
            memcpy(row, from, (size_t)i);
        }
        for (int64_t j = 0; j < bytes; j += TS_SHUFFLE_BYTES) {
            __builtin_prefetch(next + job->line_sources[line++]);
            if (i + TS_SHUFFLE_BYTES <= bytes) {
                put_line(row + i, from + i);
                i += TS_SHUFFLE_BYTES;
            }
        }
        if (after) {
            memcpy(from - TS_SHUFFLE_BYTES, from + bytes - TS_SHUFFLE_BYTES, TS_SHUFFLE_BYTES);
        } else {
            memcpy(row + i, from + i, (size_t)(bytes - i));
        }
    }
}

static void finish_streams(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

static void shuffle_task(void *argument, int64_t index, int32_t worker)
{
    const shuffle_job *job = argument;
    const int64_t first = index * job->tiles_per_task, end = ts_min64(first + job->tiles_per_task, job->tiles);
    char room[TILE_BYTES + TILE_BYTES / 2] __attribute__((aligned(64))), *buffer = room + TS_SHUFFLE_BYTES;
    bool before = false;
    int64_t position[64], a = 0, c = 0, rest = first;
    (void)worker;
    for (int32_t i = job->loop_count - 1; i >= 0; i--) {
        position[i] = rest % job->loops[i].extent;
        rest /= job->loops[i].extent;
        a += position[i] * job->loops[i].a;
        c += position[i] * job->loops[i].c;
    }
    for (int64_t tile = first; tile < end; tile++) {
        const int64_t a_now = a, c_now = c;
        for (int32_t i = job->loop_count - 1; i >= 0; i--) {
            a += job->loops[i].a;
            c += job->loops[i].c;
            if (++position[i] < job->loops[i].extent) {
                break;
            }
            a -= position[i] * job->loops[i].a;
            c -= position[i] * job->loops[i].c;
            position[i] = 0;
        }
        char *to = job->streams ? buffer : job->c + c_now;
        job->lines(&job->shuffle, job->a + a_now, to, job->sources, job->targets, job->tile_lines,
                   job->streams ? NULL : job->a + a);
        if (job->streams) {
            const bool after = c - c_now == job->row_bytes && tile + 1 < end;
            stream_rows(job, job->c + c_now, buffer, job->a + a, before, after);
            before = after;
        }
    }
    if (job->streams) {
        finish_streams();
    }
}

static int64_t stride_of(const ts_mode *mode, bool of_c) { return of_c ? mode->c : mode->a; }

/* Numbers of modes by ascending stride. */
static void sort_modes(const ts_mode *modes, int32_t count, bool of_c, int32_t *order)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t j = i;
        for (; j > 0 && absolute(stride_of(&modes[order[j - 1]], of_c)) > absolute(stride_of(&modes[i], of_c)); j--) {
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

/* More bits for a side of the tile: contiguous in the result, merely near each other in the operand. */
static void extend(const ts_mode *modes, int32_t count, bool of_c, const int32_t *order, int32_t most, int32_t *bits)
{
    int64_t run = 1;
    int32_t total = 0;
    for (int32_t i = 0; i < count; i++) {
        total += bits[i];
    }
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

/* Which place in the operand's line each place in the result's line comes from, after all exchanges. */
static void plan_stages(shuffle_job *job, place *const a_line[], place *const c_line[], int32_t width, size_t element)
{
    place *now[6], *leaving[TS_SHUFFLE_STAGES];
    int32_t stages = 0;
    memcpy(now, a_line, (size_t)width * sizeof *now);
    for (int32_t p = 0; p < width; p++) {
        if (!a_line[p]->in_c) {
            leaving[stages++] = a_line[p];
        }
    }
    job->shuffle.stages = stages;
    int32_t arriving = 0, lanes = 1 << width, at[TS_SHUFFLE_STAGES];
    place *coming[TS_SHUFFLE_STAGES];
    for (int32_t p = 0; p < width; p++) {
        if (!c_line[p]->in_a) {
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
        job->shuffle.source[r] = job->shuffle.target[r] = 0;
        for (int32_t t = 0; t < stages; t++) {
            if ((r >> t & 1) != 0) {
                job->shuffle.source[r] += coming[t]->a;
                job->shuffle.target[r] += job->streams ? leaving[t]->buffer : leaving[t]->c;
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
                job->shuffle.low[t].narrow[l] = low;
                job->shuffle.high[t].narrow[l] = high;
            } else {
                job->shuffle.low[t].wide[l] = low;
                job->shuffle.high[t].wide[l] = high;
            }
        }
    }
}

/* Offsets over some places of a tile. */
static int64_t put_offsets(place *const list[], int32_t count, bool buffer, bool of_c, int64_t *offsets)
{
    for (int64_t i = 0; i < (int64_t)1 << count; i++) {
        offsets[i] = 0;
        for (int32_t b = 0; b < count; b++) {
            offsets[i] += (i >> b & 1) == 0 ? 0 : buffer ? list[b]->buffer : of_c ? list[b]->c : list[b]->a;
        }
    }
    return (int64_t)1 << count;
}

/* The plan for modes whose extents fit; bits: of each mode in the operand's lines, the result's, the tile's two sides. */
static void plan(shuffle_job *job, const ts_mode *modes, int32_t count, size_t element, int64_t threads, const int32_t *const orders[2],
                 const int32_t *const line[2], const int32_t *const side[2])
{
    place places[32], *list[32], *lines[2][6];
    int32_t place_count = 0, width = 0, used = 0;
    int64_t row_bytes = (int64_t)element, row = 0;
    for (int s = 1; s >= 0; s--) { /* the result's side first */
        for (int32_t i = 0; i < count; i++) {
            const int32_t m = orders[s][i];
            for (int32_t b = s == 1 ? 0 : side[1][m]; b < side[s][m]; b++) {
                place *p = &places[place_count++];
                p->mode = m;
                p->bit = b;
                p->a = modes[m].a * ((int64_t)element << b);
                p->c = modes[m].c * ((int64_t)element << b);
                p->in_a = b < line[0][m];
                p->in_c = b < line[1][m];
                p->beside = s == 1;
                if (s == 1) {
                    p->buffer = p->c;
                    row_bytes *= 2;
                } else {
                    p->buffer = (row_bytes + TS_SHUFFLE_BYTES) << row++;
                }
            }
        }
    }
    job->row_bytes = row_bytes;
    for (int s = 0; s < 2; s++) {
        width = 0;
        for (int32_t i = 0; i < count; i++) {
            for (int32_t b = 0; b < line[s][orders[s][i]]; b++) {
                for (int32_t p = 0; p < place_count; p++) {
                    if (places[p].mode == orders[s][i] && places[p].bit == b) {
                        lines[s][width++] = &places[p];
                    }
                }
            }
        }
    }
    plan_stages(job, lines[0], lines[1], width, element);
    for (int32_t p = place_count - 1; p >= 0; p--) { /* places beside lines, the operand's side fastest */
        if (!places[p].in_a && !places[p].in_c && !places[p].beside) {
            list[used++] = &places[p];
        }
    }
    for (int32_t p = 0; p < place_count; p++) {
        if (!places[p].in_a && !places[p].in_c && places[p].beside) {
            list[used++] = &places[p];
        }
    }
    job->tile_lines = put_offsets(list, used, false, false, job->sources);
    put_offsets(list, used, job->streams, true, job->targets);
    const int32_t lines_each = 1 << job->shuffle.stages;
    for (int64_t i = 0; i < job->tile_lines; i++) {
        for (int32_t r = 0; r < lines_each; r++) {
            job->line_sources[i * lines_each + r] = job->sources[i] + job->shuffle.source[r];
        }
    }
    used = 0;
    for (int32_t p = 0; p < place_count; p++) {
        if (!places[p].beside) {
            list[used++] = &places[p];
        }
    }
    job->rows = put_offsets(list, used, false, true, job->row_targets);
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
    const int64_t tile_bytes = row_bytes << row, share = job->tiles / (4 * threads);
    job->tiles_per_task = ts_max64(1, ts_min64(share, TASK_BYTES / tile_bytes));
}

bool ts_cpu_shuffle_move(const ts_mode *given, int32_t count, size_t element, const void *a, void *c, ts_pool *pool)
{
    const ts_cpu_shuffler *shuffler = ts_cpu_shuffler_find();
    ts_mode modes[64];
    int32_t orders[2][64], line[2][64], side[2][64];
    int64_t multiple[64], elements = 1;
    if (count == 0 || count > 32 || shuffler->lines4 == NULL || (element != 4 && element != 8)) {
        return false;
    }
    for (int32_t m = 0; m < count; m++) {
        modes[m] = given[m];
        multiple[m] = 1;
        elements *= modes[m].extent;
    }
    if (elements < LEAST_ELEMENTS) {
        return false;
    }
    const int32_t most[2] = {OTHER_BYTES, SIDE_BYTES};
    const int32_t width = element == 4 ? 4 : 3;
    for (int s = 0; s < 2; s++) {
        sort_modes(modes, count, s == 1, orders[s]);
        if (!line_bits(modes, count, s == 1, orders[s], width, most[s] / (int64_t)element, line[s], multiple)) {
            return false;
        }
    }
    const char *from = a;
    char *to = c;
    for (int32_t m = 0; m < count; m++) { /* rests of modes go the slow way */
        const int64_t rest = modes[m].extent % multiple[m], kept = modes[m].extent - rest;
        if (rest > 0) {
            ts_mode part[64];
            memcpy(part, modes, (size_t)count * sizeof *part);
            part[m].extent = rest;
            ts_cpu_move(part, count, element, from + kept * modes[m].a * (int64_t)element,
                        to + kept * modes[m].c * (int64_t)element, pool);
            modes[m].extent = kept;
        }
    }
    shuffle_job job;
    job.lines = element == 4 ? shuffler->lines4 : shuffler->lines8;
    job.a = a;
    job.c = c;
    job.streams = elements * (int64_t)element >= STREAM_BYTES;
    for (int s = 0; s < 2; s++) {
        memcpy(side[s], line[s], (size_t)count * sizeof *side[s]);
        extend(modes, count, s == 1, orders[s], __builtin_ctz((unsigned)most[s] / (unsigned)element), side[s]);
    }
    for (int32_t m = 0; m < count; m++) { /* lines of the operand reach into the tile in any case */
        side[0][m] = side[0][m] > line[0][m] ? side[0][m] : line[0][m];
    }
    const int32_t *const o[2] = {orders[0], orders[1]}, *const l[2] = {line[0], line[1]}, *const t[2] = {side[0], side[1]};
    plan(&job, modes, count, element, ts_pool_threads(pool), o, l, t);
    ts_pool_run(pool, (job.tiles + job.tiles_per_task - 1) / job.tiles_per_task, shuffle_task, &job);
    return true;
}
