/* A huge operand against a tiny one, at the speed of memory.
 *
 * Extents are split into bits (tensors of tensor networks have nothing else). A tile holds all of the tiny operand's own
 * modes and of the sum, and as many bits of the other modes as make whole cache lines of the huge operand and of the
 * result, however they are laid out. It is gathered by lines into [batch][sum][right], multiplied there by the direct
 * kernel into [batch][left][right], and put into the result by lines, past the caches where that pays; where `right` is
 * contiguous in memory the kernel reads or writes there. */
#include "backend/cpu/cpu.h"

#define LEAST_BYTES ((int64_t)512 << 10)
#define TILE_BYTES (32 << 10)  /* at most; half of it where that holds lines enough, since all of it leaves the first-level cache */
#define MANY 16               /* positions of the tiny operand's side or of the sum that make a tile a large one */
#define RUN_BYTES 512 /* contiguous in the result and the operand, where they allow it */
#define TASK_BYTES ((int64_t)512 << 10)
#define MOST_BITS 30
#define MOST_TINY 512 /* elements of the tiny operand per batch item; beyond that packed panels are faster */

typedef enum kind { BATCH, LEFT, RIGHT, SUM } kind;

/* One mode; strides in bytes. Bits [0, taken) belong to the tile; left and sum are taken whole. */
typedef struct tiny_mode {
    kind kind;
    int64_t extent, huge, tiny, c;
    int32_t bits, taken;
    int64_t packed, result; /* strides in the packed operand and the packed result */
} tiny_mode;

typedef struct tiny_job {
    const ts_cpu_kernel *kernel;
    const char *huge, *tiny;
    char *c;
    tiny_mode modes[64];
    int32_t count;
    int64_t element;
    int64_t totals[4]; /* positions of a tile by kind */
    bool loads, stores, streams;
    ts_cpu_tile load, store;
    ts_cpu_rows rows;
    ts_cpu_direct direct;
    int64_t batch[3][TS_DIRECT_COLUMNS], left[2][TS_DIRECT_COLUMNS], right[TS_DIRECT_COLUMNS], sum[2][TS_DIRECT_DEPTH];
    ts_mode loops[64]; /* a: the huge operand, b: the tiny one; strides in bytes */
    int32_t loop_count;
    int64_t tiles, tiles_per_task;
} tiny_job;

static void tiny_task(void *argument, int64_t index, int32_t worker)
{
    const tiny_job *job = argument;
    const int64_t first = index * job->tiles_per_task, end = ts_min64(first + job->tiles_per_task, job->tiles);
    char packed[TILE_BYTES] __attribute__((aligned(64))), result[TILE_BYTES] __attribute__((aligned(64)));
    char rooms[2][2 * TILE_BYTES + TS_LINE_BYTES] __attribute__((aligned(64)));
    ts_cpu_rows_way way = {0};
    ts_cpu_direct direct = job->direct;
    bool before = false;
    ts_cpu_walk walk;
    (void)worker;
    ts_cpu_walk_from(&walk, job->loops, job->loop_count, first);
    for (int64_t tile = first; tile < end; tile++) {
        const int64_t a_now = walk.a, b_now = walk.b, c_now = walk.c;
        ts_cpu_walk_on(&walk, job->loops, job->loop_count);
        char *buffer = rooms[tile & 1] + TS_LINE_BYTES, *other = rooms[~tile & 1] + TS_LINE_BYTES;
        char *to = job->streams ? buffer : job->c + c_now;
        direct.a = job->tiny + b_now;
        direct.b = job->loads ? packed : job->huge + a_now;
        direct.c = job->stores ? result : to;
        way.next = job->huge + walk.a;
        if (job->loads) {
            ts_cpu_rows_write_during(&job->rows, way.to != NULL ? &way : NULL, &job->load, job->huge + a_now, packed, job->huge + walk.a);
        } else if (way.to != NULL) {
            ts_cpu_rows_write(&job->rows, &way, 0, job->rows.rows);
        }
        job->kernel->direct(&direct);
        if (job->stores) {
            ts_cpu_tile_move(&job->store, result, to, NULL);
        }
        if (job->streams) {
            const bool on = walk.c - c_now == job->rows.bytes && tile + 1 < end;
            const ts_cpu_rows_way now = {.to = job->c + c_now, .buffer = buffer, .after = on ? other : NULL, .before = before};
            way = now;
            before = on;
        }
    }
    if (job->streams) {
        way.next = NULL;
        ts_cpu_rows_write(&job->rows, &way, 0, job->rows.rows);
        job->rows.stream(NULL, NULL, 0);
    }
}

/* ---- choosing the tile ---- */

static bool fits(const tiny_job *job)
{
    const int64_t positions = job->totals[BATCH] * job->totals[RIGHT];
    const int64_t most = ts_max64(job->totals[LEFT], job->totals[SUM]);
    return positions * most * job->element <= (most >= MANY ? TILE_BYTES : TILE_BYTES / 2) &&
           job->totals[BATCH] <= TS_DIRECT_COLUMNS && job->totals[RIGHT] <= TS_DIRECT_COLUMNS;
}

static bool take_bit(tiny_job *job, tiny_mode *mode)
{
    job->totals[mode->kind] *= 2;
    mode->taken++;
    if (!fits(job)) {
        job->totals[mode->kind] /= 2;
        mode->taken--;
        return false;
    }
    return true;
}

/* Have the tile hold the bit with this stride in one of the tensors. */
static bool hold(tiny_job *job, bool of_c, int64_t stride)
{
    for (int32_t m = 0; m < job->count; m++) {
        tiny_mode *mode = &job->modes[m];
        const int64_t own = of_c ? mode->c : mode->huge;
        for (int32_t bit = 0; own > 0 && bit < mode->bits; bit++) {
            if (own << bit != stride) {
                continue;
            }
            while (mode->taken <= bit) {
                if (!take_bit(job, mode)) {
                    return false;
                }
            }
            return true;
        }
    }
    return false;
}

static bool choose_tile(tiny_job *job)
{
    for (int of_c = 0; of_c < 2; of_c++) {
        for (int64_t stride = job->element; stride < TS_LINE_BYTES; stride *= 2) {
            if (!hold(job, of_c, stride)) {
                return false;
            }
        }
    }
    /* The kernel's vectors run over `right`. */
    const int64_t wanted = TS_DIRECT_COLUMNS;
    while (job->totals[RIGHT] < wanted) {
        tiny_mode *best = NULL;
        for (int32_t m = 0; m < job->count; m++) {
            tiny_mode *mode = &job->modes[m];
            if (mode->kind == RIGHT && mode->taken < mode->bits &&
                (best == NULL || ts_absolute(mode->huge) << mode->taken < ts_absolute(best->huge) << best->taken)) {
                best = mode;
            }
        }
        if (best == NULL || !take_bit(job, best)) {
            break;
        }
    }
    if (job->totals[RIGHT] * job->element < TS_LINE_BYTES) {
        return false;
    }
    bool more[2] = {true, true};
    for (int64_t stride = TS_LINE_BYTES; stride < RUN_BYTES && (more[0] || more[1]); stride *= 2) {
        for (int of_c = 1; of_c >= 0; of_c--) {
            more[of_c] = more[of_c] && hold(job, of_c, stride);
        }
    }
    return true;
}

/* ---- layouts inside of a tile ---- */

/* Strides of one kind's taken bits in a packed tensor, the smallest of the huge operand first; returns the next stride. */
static int64_t pack_kind(tiny_job *job, kind wanted, bool result, int64_t stride)
{
    bool done[64] = {false};
    for (;;) {
        int32_t best = -1;
        for (int32_t m = 0; m < job->count; m++) {
            if (job->modes[m].kind == wanted && !done[m] &&
                (best < 0 || ts_absolute(job->modes[m].huge) < ts_absolute(job->modes[best].huge))) {
                best = m;
            }
        }
        if (best < 0) {
            return stride;
        }
        *(result ? &job->modes[best].result : &job->modes[best].packed) = stride;
        stride <<= job->modes[best].taken;
        done[best] = true;
    }
}

/* Is every bit of `right` where the packed layout has it? */
static bool right_in_place(const tiny_job *job, bool of_c)
{
    for (int32_t m = 0; m < job->count; m++) {
        const tiny_mode *mode = &job->modes[m];
        if (mode->kind == RIGHT && mode->taken > 0 && (of_c ? mode->c : mode->huge) != mode->packed) {
            return false;
        }
    }
    return true;
}

/* Where bits of the result go in the buffer of rows. */
static bool plan_rows(tiny_job *job, int64_t to[64][MOST_BITS])
{
    ts_cpu_place places[64];
    int32_t used = 0;
    for (int pass = 0; pass < 2; pass++) {
        int32_t i = 0;
        for (int32_t m = 0; m < job->count; m++) {
            const tiny_mode *mode = &job->modes[m];
            for (int32_t bit = 0; bit < mode->taken && mode->kind != SUM; bit++) {
                if (pass == 0 && used < 64) {
                    places[used++] = (ts_cpu_place){.to = mode->c * ((int64_t)1 << bit)};
                } else if (pass == 1) {
                    to[m][bit] = places[i++].to;
                }
            }
        }
        if (pass == 0 && !ts_cpu_rows_plan(places, used, job->element, &job->rows)) {
            return false;
        }
    }
    return true;
}

/* Offsets in bytes over the taken bits of one kind: the kind's modes as they come, the last one's low bits fastest. */
static void put_offsets(const tiny_job *job, kind wanted, int64_t strides[64][MOST_BITS], int64_t *offsets)
{
    int64_t count = 1;
    offsets[0] = 0;
    for (int32_t m = job->count - 1; m >= 0; m--) {
        for (int32_t bit = 0; bit < job->modes[m].taken && job->modes[m].kind == wanted; bit++) {
            for (int64_t i = 0; i < count; i++) {
                offsets[count + i] = offsets[i] + strides[m][bit];
            }
            count *= 2;
        }
    }
}

static void to_elements(int64_t *offsets, int64_t count, int64_t element)
{
    for (int64_t i = 0; i < count; i++) {
        offsets[i] /= element;
    }
}

static bool plan_tile(tiny_job *job)
{
    int64_t huge[64][MOST_BITS], tiny[64][MOST_BITS], packed[64][MOST_BITS], result[64][MOST_BITS], to[64][MOST_BITS] = {{0}};
    ts_cpu_place places[2][32];
    int32_t used[2] = {0, 0};
    const size_t part = (size_t)ts_min64(job->element, 8); /* the largest that lines are made of */
    for (int64_t stride = (int64_t)part; stride < job->element; stride *= 2) {
        const ts_cpu_place stays = {.from = stride, .to = stride};
        places[0][used[0]++] = places[1][used[1]++] = stays;
    }
    pack_kind(job, BATCH, false, pack_kind(job, SUM, false, pack_kind(job, RIGHT, false, job->element)));
    pack_kind(job, BATCH, true, pack_kind(job, LEFT, true, pack_kind(job, RIGHT, true, job->element)));
    job->loads = !right_in_place(job, false);
    job->stores = !right_in_place(job, true);
    if (job->streams && !plan_rows(job, to)) {
        return false;
    }
    for (int32_t m = 0; m < job->count; m++) {
        const tiny_mode *mode = &job->modes[m];
        for (int32_t bit = 0; bit < mode->taken; bit++) {
            const int64_t by = (int64_t)1 << bit;
            huge[m][bit] = mode->huge * by;
            tiny[m][bit] = mode->tiny * by;
            packed[m][bit] = job->loads ? mode->packed * by : huge[m][bit];
            to[m][bit] = job->streams ? to[m][bit] : mode->c * by;
            result[m][bit] = job->stores ? mode->result * by : to[m][bit];
            const ts_cpu_place in = {.from = huge[m][bit], .to = packed[m][bit]}, out = {.from = result[m][bit], .to = to[m][bit]};
            if (used[0] == 32 || used[1] == 32) {
                return false;
            }
            if (mode->kind != LEFT) {
                places[0][used[0]++] = in;
            }
            if (mode->kind != SUM) {
                places[1][used[1]++] = out;
            }
        }
    }
    if ((job->loads && !ts_cpu_tile_plan(places[0], used[0], part, &job->load)) ||
        (job->stores && !ts_cpu_tile_plan(places[1], used[1], part, &job->store))) {
        return false;
    }
    put_offsets(job, BATCH, tiny, job->batch[0]);
    put_offsets(job, BATCH, packed, job->batch[1]);
    put_offsets(job, BATCH, result, job->batch[2]);
    put_offsets(job, LEFT, tiny, job->left[0]);
    put_offsets(job, LEFT, result, job->left[1]);
    put_offsets(job, SUM, tiny, job->sum[0]);
    put_offsets(job, SUM, packed, job->sum[1]);
    /* Rows of the huge operand that the kernel reads, to be prefetched. */
    job->rows.stream = ts_cpu_stream_find();
    job->rows.fetch_count = 0;
    if (!job->loads) {
        for (int64_t i = 0; i < job->totals[BATCH] * job->totals[SUM]; i++) {
            for (int64_t at = 0; at < job->totals[RIGHT] * job->element; at += TS_LINE_BYTES) {
                job->rows.fetches[job->rows.fetch_count++] =
                    job->batch[1][i / job->totals[SUM]] + job->sum[1][i % job->totals[SUM]] + at;
            }
        }
    }
    for (int i = 0; i < 3; i++) {
        to_elements(job->batch[i], job->totals[BATCH], job->element);
    }
    for (int i = 0; i < 2; i++) {
        to_elements(job->left[i], job->totals[LEFT], job->element);
        to_elements(job->sum[i], job->totals[SUM], job->element);
    }
    for (int64_t i = 0; i < job->totals[RIGHT]; i++) {
        job->right[i] = i;
    }
    return true;
}

/* What is left are loops, the result's largest strides outermost. */
static void plan_loops(tiny_job *job, int64_t threads)
{
    job->loop_count = 0;
    job->tiles = 1;
    for (int32_t m = 0; m < job->count; m++) {
        const tiny_mode *mode = &job->modes[m];
        const int64_t by = (int64_t)1 << mode->taken;
        const ts_mode loop = {.extent = mode->extent >> mode->taken, .a = mode->huge * by, .b = mode->tiny * by, .c = mode->c * by};
        if (loop.extent == 1) {
            continue;
        }
        int32_t j = job->loop_count++;
        for (; j > 0 && ts_absolute(job->loops[j - 1].c) < ts_absolute(loop.c); j--) {
            job->loops[j] = job->loops[j - 1];
        }
        job->loops[j] = loop;
        job->tiles *= loop.extent;
    }
    const int64_t bytes = job->totals[BATCH] * job->totals[RIGHT] * (job->totals[LEFT] + job->totals[SUM]) * job->element;
    job->tiles_per_task = ts_max64(1, ts_min64(job->tiles / (4 * threads), TASK_BYTES / bytes));
}

static bool add_modes(tiny_job *job, kind k, const ts_mode *modes, int32_t count, bool tiny_is_a)
{
    for (int32_t i = 0; i < count; i++) {
        const int64_t extent = modes[i].extent, a = modes[i].a * job->element, b = modes[i].b * job->element;
        const int32_t bits = __builtin_ctzll((unsigned long long)extent);
        const bool whole = k == LEFT || k == SUM;
        if (extent == 1) {
            continue;
        }
        if (job->count == 64 || (whole && extent != (int64_t)1 << bits)) {
            return false;
        }
        const tiny_mode mode = {.kind = k, .extent = extent, .huge = tiny_is_a ? b : a, .tiny = tiny_is_a ? a : b,
                                .c = modes[i].c * job->element, .bits = bits < MOST_BITS ? bits : MOST_BITS,
                                .taken = whole ? bits : 0};
        job->modes[job->count++] = mode;
    }
    return true;
}

bool ts_cpu_contract_tiny(const ts_contract_spec *spec, const ts_cpu_kernel *kernel, const void *a, const void *b, void *c,
                          ts_pool *pool)
{
    tiny_job job;
    const int64_t element = (int64_t)tensum_dtype_bytes(spec->algebra.dtype);
    const bool tiny_is_a = spec->left <= spec->right;
    const int64_t left = tiny_is_a ? spec->left : spec->right, right = tiny_is_a ? spec->right : spec->left;
    const ts_mode *modes = spec->modes, *next = modes + spec->batch_count;
    if (spec->winner_bytes != 0 || spec->accumulate || left > 128 || spec->sum > 128 || left * spec->sum > MOST_TINY ||
        spec->batch * right * (left + spec->sum) * element < LEAST_BYTES) {
        return false;
    }
    job.kernel = kernel;
    job.element = element;
    job.count = 0;
    job.totals[BATCH] = job.totals[RIGHT] = 1;
    job.totals[LEFT] = left;
    job.totals[SUM] = spec->sum;
    job.streams = ts_cpu_rows_pay(spec->batch * right * left * element);
    if (!add_modes(&job, BATCH, modes, spec->batch_count, tiny_is_a) ||
        !add_modes(&job, tiny_is_a ? LEFT : RIGHT, next, spec->left_count, tiny_is_a) ||
        !add_modes(&job, tiny_is_a ? RIGHT : LEFT, next + spec->left_count, spec->right_count, tiny_is_a) ||
        !add_modes(&job, SUM, next + spec->left_count + spec->right_count, spec->sum_count, tiny_is_a) ||
        !fits(&job) || !choose_tile(&job) || !plan_tile(&job)) {
        return false;
    }
    plan_loops(&job, ts_pool_threads(pool));
    job.huge = tiny_is_a ? b : a;
    job.tiny = tiny_is_a ? a : b;
    job.c = c;
    const ts_cpu_direct direct = {
        .batch = (int32_t)job.totals[BATCH], .left = (int32_t)left, .right = (int32_t)job.totals[RIGHT],
        .sum = (int32_t)spec->sum, .batch_a = job.batch[0], .batch_b = job.batch[1], .batch_c = job.batch[2],
        .left_a = job.left[0], .left_c = job.left[1], .right_b = job.right, .right_c = job.right,
        .sum_a = job.sum[0], .sum_b = job.sum[1], .right_unit_b = true, .right_unit_c = true,
        .conjugate_a = tiny_is_a ? spec->conjugate_a : spec->conjugate_b,
        .conjugate_b = tiny_is_a ? spec->conjugate_b : spec->conjugate_a, .modulus = spec->algebra.modulus,
    };
    job.direct = direct;
    ts_pool_run(pool, (job.tiles + job.tiles_per_task - 1) / job.tiles_per_task, tiny_task, &job);
    return true;
}
