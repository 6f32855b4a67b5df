/* A huge operand against one tiny one after the other, in one pass over memory.
 *
 * Extents are 2: larger powers of 2 are split into bits, here wires, each with a stride in the operand and in the last result,
 * from the step that made it (or the operand) to the one that sums it. A tile holds all wires that any tiny operand has, whole
 * lines of the operand and of the result, and a run of other wires for the kernel's vectors. It is read, taken through
 * all steps in the second-level cache, each by the direct kernel, and written past the caches where that pays. Steps of one
 * group are taken together on parts of the tile that stay in the first-level cache. */
#include "backend/cpu/cpu.h"

#include <assert.h>

#define MOST_WIRES 192
#define MOST_LIVE 40       /* wires of one tensor */
#define MOST_INNER 128     /* positions of the batch in one call of the kernel */
#define LONE_INNER 8       /* of a group of one step: between calls lines are fetched */
#define MOST_OUTER 128     /* such calls of one step */
#define MOST_SIDE 128      /* positions of a sum, and of what a tiny operand adds */
#define HOLD_BYTES 512       /* contiguous in the operand and the result, where they allow it */
#define RUN_BYTES 256      /* for the kernel, at least, and contiguous where the operand is */
#define LEAST_PART ((int64_t)4 << 10)
#define LEAST_TILE ((int64_t)32 << 10)
#define MOST_TILE ((int64_t)256 << 10)
#define MOST_PARTS 8       /* of a tile, moved one after the other */
#define MOST_FETCHES 4096
#define TASK_BYTES ((int64_t)512 << 10)

/* A part has at most LEAST_TILE bytes, and positions of a tile were counted in runs of RUN_BYTES. */
static_assert(LEAST_TILE / RUN_BYTES <= MOST_INNER, "positions of a part have room");
static_assert(MOST_TILE / RUN_BYTES / LONE_INNER <= MOST_OUTER, "positions of a tile have room");

typedef enum role { ABSENT, BATCH, NEW, KEPT, SUM } role;

typedef struct wire {
    int64_t from, to;          /* bytes */
    int32_t born, dies;        /* steps; -1: of the operand, MOST_STEPS: of the result */
    bool touched, tile;
    int32_t rank;              /* in the sum: the smallest is fastest, in the order that terms have */
    int64_t stride[2];         /* in what the step that is being planned reads and writes; bytes */
    int64_t ends[2];           /* in the tile before and behind its group */
    int64_t tiny[TS_CHAIN_STEPS]; /* elements */
    uint8_t role[TS_CHAIN_STEPS];
} wire;

/* Steps [first, end) are run one after the other at each of the positions of other wires: offsets of the tiny operand (of
 * one step alone), of what is read and what is written. */
typedef struct chain_group {
    int32_t first, end, outer_count;
    int64_t outer[3][MOST_OUTER]; /* elements */
} chain_group;

typedef struct chain_step {
    ts_cpu_direct direct;
    int64_t batch[3][MOST_INNER], left[2][MOST_SIDE], sum[2][MOST_SIDE], right[2][TS_DIRECT_COLUMNS];
} chain_step;

typedef struct chain_part {
    ts_cpu_tile tile;
    int32_t count;
    int64_t from[MOST_PARTS], to[MOST_PARTS];
} chain_part;

typedef struct chain_job {
    const ts_cpu_kernel *kernel;
    const ts_chain_spec *chain;
    int64_t element, tile_bytes, part_bytes; /* part: of a group of several steps */
    wire wires[MOST_WIRES];
    int32_t wire_count, count;
    int32_t order[MOST_WIRES];   /* of wires in tiles */
    int32_t run[MOST_LIVE], run_count;
    bool loads, stores, streams;
    bool bounded;                /* all tiny operands are, see ts_cpu_kernel */
    chain_part load, store;
    ts_cpu_rows rows;
    chain_step steps[TS_CHAIN_STEPS];
    chain_group groups[TS_CHAIN_STEPS];
    int32_t group_count;
    int32_t fetch_count, calls;
    int64_t fetches[MOST_FETCHES];
    ts_mode loops[MOST_LIVE];    /* a: the operand, c: the result; bytes */
    int32_t loop_count;
    int64_t tiles, tiles_per_task, buffer_bytes;
    char *buffers;
} chain_job;

static bool is_live(const wire *w, int32_t stage) { return w->born < stage && w->dies >= stage; }

/* ---- what a tile does ---- */

/* What a worker does: where lines of the next tile are fetched (NULL: nowhere), how often the kernel was called for this one,
 * and `loose` of ts_cpu_direct. */
typedef struct chain_way {
    const char *next;
    char *parts[2];
    int32_t calls;
    bool loose;
} chain_way;

static void run_group(const chain_job *job, const chain_group *group, const char *from, char *to, chain_way *way)
{
    for (int32_t o = 0; o < group->outer_count; o++) {
        const int64_t due = (int64_t)(way->calls + 1) * job->fetch_count / job->calls;
        for (int64_t i = (int64_t)way->calls * job->fetch_count / job->calls; way->next != NULL && i < due; i++) {
            __builtin_prefetch(way->next + job->fetches[i], 0, 2);
        }
        way->calls++;
        const char *source = from + group->outer[1][o] * job->element;
        for (int32_t k = group->first; k < group->end; k++) {
            char *target = k + 1 < group->end ? way->parts[k & 1] : to + group->outer[2][o] * job->element;
            ts_cpu_direct direct = job->steps[k].direct;
            direct.clean = job->bounded && k > 0 && !way->loose;
            direct.loose = job->bounded && k == 0 ? &way->loose : NULL;
            direct.a = (const char *)job->chain->tiny[k] + group->outer[0][o] * job->element;
            direct.b = source;
            direct.c = target;
            job->kernel->direct(&direct);
            source = target;
        }
    }
}

static void chain_task(void *argument, int64_t index, int32_t worker)
{
    const chain_job *job = argument;
    const int64_t first = index * job->tiles_per_task, end = ts_min64(first + job->tiles_per_task, job->tiles);
    char *buffers[2] = {job->buffers + worker * job->buffer_bytes, job->buffers + worker * job->buffer_bytes + job->tile_bytes};
    char *parts = buffers[1] + job->tile_bytes, *rows = parts + 2 * job->part_bytes + TS_LINE_BYTES;
    ts_cpu_walk walk;
    ts_cpu_walk_from(&walk, job->loops, job->loop_count, first);
    for (int64_t tile = first; tile < end; tile++) {
        const char *huge = (const char *)job->chain->huge + walk.a;
        char *result = (char *)job->chain->c + walk.c, *to = job->streams ? rows : result;
        ts_cpu_walk_on(&walk, job->loops, job->loop_count);
        const char *next = tile + 1 < end ? (const char *)job->chain->huge + walk.a : NULL, *from = huge;
        if (job->loads) {
            for (int32_t p = 0; p < job->load.count; p++) {
                ts_cpu_tile_move(&job->load.tile, huge + job->load.from[p], buffers[1] + job->load.to[p], next);
            }
            from = buffers[1];
            next = NULL;
        }
        chain_way way = {.next = next, .parts = {parts, parts + job->part_bytes}};
        for (int32_t g = 0; g < job->group_count; g++) {
            char *target = g + 1 < job->group_count || job->stores ? buffers[g & 1] : to;
            run_group(job, &job->groups[g], from, target, &way);
            from = target;
        }
        if (job->stores) {
            for (int32_t p = 0; p < job->store.count; p++) {
                ts_cpu_tile_move(&job->store.tile, from + job->store.from[p], to + job->store.to[p], NULL);
            }
        }
        if (job->streams) {
            const ts_cpu_rows_way rows_way = {.to = result, .buffer = rows};
            ts_cpu_rows_write(&job->rows, &rows_way, 0, job->rows.rows);
        }
    }
    if (job->streams) {
        job->rows.stream(NULL, NULL, 0);
    }
}

/* ---- wires ---- */

static int32_t log2_of(int64_t x) { return x > 0 && (x & (x - 1)) == 0 ? __builtin_ctzll((unsigned long long)x) : -1; }

/* at: wires of the step's operand by the logarithm of their stride, then of its result. */
static void add_step(chain_job *job, int32_t k, int32_t at[64])
{
    const ts_contract_spec *spec = job->chain->steps[k];
    const bool huge_is_b = job->chain->huge_is_b[k], last = k + 1 == job->count;
    const int32_t counts[4] = {spec->batch_count, spec->left_count, spec->right_count, spec->sum_count};
    const role roles[4] = {BATCH, huge_is_b ? NEW : KEPT, huge_is_b ? KEPT : NEW, SUM};
    const ts_mode *mode = spec->modes;
    int32_t behind[64];
    memset(behind, -1, sizeof behind);
    for (int class = 0; class < 4; class++) {
        for (const ts_mode *end = mode + counts[class]; mode < end; mode++) {
            const int32_t bits = log2_of(mode->extent);
            for (int32_t bit = 0; bit < bits; bit++) {
                const int64_t by = (int64_t)1 << bit, huge = (huge_is_b ? mode->b : mode->a) * by, c = mode->c * by;
                int32_t number = k > 0 && roles[class] != NEW ? at[log2_of(huge)] : job->wire_count;
                if (number == job->wire_count) {
                    const bool own = roles[class] != NEW;
                    job->wires[job->wire_count++] = (wire){.from = own ? huge * job->element : 0, .born = own ? -1 : k,
                                                           .dies = TS_CHAIN_STEPS};
                }
                wire *w = &job->wires[number];
                w->tiny[k] = (huge_is_b ? mode->a : mode->b) * by;
                w->role[k] = (uint8_t)roles[class];
                w->touched = w->touched || roles[class] != KEPT;
                if (roles[class] == SUM) {
                    w->dies = k;
                    w->rank = (int32_t)(end - mode) * 64 + bit;
                } else if (last) {
                    w->to = c * job->element;
                } else {
                    behind[log2_of(c)] = number;
                }
            }
        }
    }
    memcpy(at, behind, sizeof behind);
}

/* ---- the tile ---- */

static int64_t largest_tensor(const chain_job *job)
{
    int64_t largest = 0;
    for (int32_t stage = 0; stage <= job->count; stage++) {
        int64_t bytes = job->element;
        for (int32_t w = 0; w < job->wire_count; w++) {
            bytes *= job->wires[w].tile && is_live(&job->wires[w], stage) ? 2 : 1;
        }
        largest = ts_max64(largest, bytes);
    }
    return largest;
}

static bool is_run(const wire *w) { return w->tile && !w->touched; }

/* Do tiny operands of steps [first, end) have it? */
static bool is_touched_by(const wire *w, int32_t first, int32_t end)
{
    bool touched = false;
    for (int32_t k = first; k < end; k++) {
        touched = touched || w->role[k] == BATCH || w->role[k] == NEW || w->role[k] == SUM;
    }
    return touched;
}

static int64_t run_bytes(const chain_job *job)
{
    int64_t bytes = job->element;
    for (int32_t i = 0; i < job->wire_count; i++) {
        bytes *= is_run(&job->wires[i]) ? 2 : 1;
    }
    return bytes;
}

static bool take(chain_job *job, wire *w)
{
    w->tile = true;
    w->tile = largest_tensor(job) <= job->tile_bytes && run_bytes(job) <= TS_DIRECT_COLUMNS * job->element;
    return w->tile;
}

/* Have the tile hold the wire with this stride in the operand or the result. */
static bool hold(chain_job *job, bool of_result, int64_t stride)
{
    for (int32_t i = 0; i < job->wire_count; i++) {
        wire *w = &job->wires[i];
        if ((of_result ? is_live(w, job->count) && w->to == stride : w->born < 0 && w->from == stride)) {
            return w->tile || take(job, w);
        }
    }
    return false;
}

static void choose_tile(chain_job *job)
{
    bool more[2] = {true, true};
    for (int32_t i = 0; i < job->wire_count; i++) {
        job->wires[i].tile = job->wires[i].touched;
    }
    for (int64_t stride = job->element; stride < TS_LINE_BYTES; stride *= 2) {
        for (int of_result = 0; of_result < 2; of_result++) {
            more[of_result] = more[of_result] && hold(job, of_result, stride);
        }
    }
    while (run_bytes(job) < RUN_BYTES) {
        wire *best = NULL;
        for (int32_t i = 0; i < job->wire_count; i++) {
            wire *w = &job->wires[i];
            if (!w->tile && (best == NULL || ts_absolute(w->from) < ts_absolute(best->from))) {
                best = w;
            }
        }
        if (best == NULL || !take(job, best)) {
            break;
        }
    }
    for (int64_t stride = TS_LINE_BYTES; stride < HOLD_BYTES; stride *= 2) {
        for (int of_result = 0; of_result < 2; of_result++) {
            more[of_result] = more[of_result] && hold(job, of_result, stride);
        }
    }
}

/* Wires of the tile: the run first, the nearest in the operand before others. */
static void sort_wires(chain_job *job)
{
    int32_t count = 0;
    job->run_count = 0;
    for (int32_t i = 0; i < job->wire_count; i++) {
        const wire *w = &job->wires[i];
        int32_t j = count;
        if (!w->tile) {
            continue;
        }
        for (; j > 0; j--) {
            const wire *before = &job->wires[job->order[j - 1]];
            const bool later = is_run(w) != is_run(before) ? is_run(before) : ts_absolute(before->from) <= ts_absolute(w->from) || w->born >= 0;
            if (later) {
                break;
            }
            job->order[j] = job->order[j - 1];
        }
        job->order[j] = i;
        count++;
        job->run_count += is_run(w);
    }
    for (int32_t i = count; i < job->wire_count; i++) {
        job->order[i] = -1;
    }
    for (int32_t i = 0; i < job->run_count; i++) {
        job->run[i] = job->order[i];
    }
}

/* Strides of a packed tile at a stage, or of the part of it that a group takes. */
static void pack(chain_job *job, int32_t stage, const chain_group *group, int which)
{
    int64_t stride = job->element;
    for (int32_t i = 0; i < job->wire_count && job->order[i] >= 0; i++) {
        wire *w = &job->wires[job->order[i]];
        if (is_live(w, stage) && (group == NULL || is_run(w) || is_touched_by(w, group->first, group->end))) {
            w->stride[which] = stride;
            stride *= 2;
        }
    }
}

/* ---- both ends ---- */

static bool plan_part(const ts_cpu_place *all, int32_t count, bool by_from, int64_t element, chain_part *part)
{
    const int64_t piece = ts_min64(element, 8); /* the largest that lines are made of */
    ts_cpu_place places[MOST_LIVE], others[8];
    int32_t used = 0, other_count = 0;
    bool out[MOST_LIVE] = {false};
    int64_t bytes = element << count;
    for (; bytes > TS_TILE_BYTES; bytes /= 2) {
        int32_t best = -1;
        for (int32_t i = 0; i < count; i++) {
            const int64_t own = by_from ? all[i].from : all[i].to;
            if (!out[i] && (best < 0 || ts_absolute(own) > ts_absolute(by_from ? all[best].from : all[best].to))) {
                best = i;
            }
        }
        if (best < 0 || 2 << other_count > MOST_PARTS) {
            return false;
        }
        out[best] = true;
        others[other_count++] = all[best];
    }
    for (int64_t stride = piece; stride < element; stride *= 2) {
        places[used++] = (ts_cpu_place){.from = stride, .to = stride};
    }
    for (int32_t i = 0; i < count; i++) {
        if (!out[i] && used < MOST_LIVE) {
            places[used++] = (ts_cpu_place){.from = all[i].from, .to = all[i].to};
        }
    }
    part->count = 1 << other_count;
    for (int32_t p = 0; p < part->count; p++) {
        part->from[p] = part->to[p] = 0;
        for (int32_t i = 0; i < other_count; i++) {
            part->from[p] += (p >> i & 1) != 0 ? others[i].from : 0;
            part->to[p] += (p >> i & 1) != 0 ? others[i].to : 0;
        }
    }
    return used <= 32 && ts_cpu_tile_plan(places, used, (size_t)piece, &part->tile);
}

/* Strides that the first step reads, in stride[0]. */
static void plan_operand(chain_job *job)
{
    ts_cpu_place places[MOST_LIVE];
    int32_t count = 0;
    pack(job, 0, NULL, 0);
    job->loads = false;
    for (int32_t i = 0; i < job->wire_count && job->order[i] >= 0; i++) {
        const wire *w = &job->wires[job->order[i]];
        if (is_live(w, 0)) {
            places[count++] = (ts_cpu_place){.from = w->from, .to = w->stride[0]};
            job->loads = job->loads || (is_run(w) && w->from != w->stride[0]);
        }
    }
    job->loads = job->loads && plan_part(places, count, true, job->element, &job->load);
    int64_t lines = 1;
    job->fetches[0] = 0;
    for (int32_t i = 0; i < count; i++) {
        if (ts_absolute(places[i].from) < TS_LINE_BYTES) {
            continue;
        }
        for (int64_t l = 0; l < lines && 2 * lines <= MOST_FETCHES; l++) {
            job->fetches[lines + l] = job->fetches[l] + places[i].from;
        }
        lines *= 2 * lines <= MOST_FETCHES ? 2 : 1;
    }
    job->fetch_count = (int32_t)lines;
    for (int32_t i = 0; i < job->wire_count && !job->loads; i++) {
        job->wires[i].stride[0] = job->wires[i].from;
    }
}

/* Strides that the last step writes, in stride[1]. */
static void plan_result(chain_job *job, bool accumulate)
{
    ts_cpu_place places[MOST_LIVE], targets[MOST_LIVE];
    int32_t numbers[MOST_LIVE], count = 0;
    int64_t bytes = job->element;
    bool in_place = true;
    pack(job, job->count, NULL, 1);
    for (int32_t i = 0; i < job->wire_count; i++) {
        bytes *= is_live(&job->wires[i], job->count) ? 2 : 1;
    }
    for (int32_t i = 0; i < job->wire_count && job->order[i] >= 0; i++) {
        const wire *w = &job->wires[job->order[i]];
        if (is_live(w, job->count)) {
            in_place = in_place && (!is_run(w) || w->to == w->stride[1]);
            numbers[count] = job->order[i];
            targets[count] = places[count] = (ts_cpu_place){.from = w->stride[1], .to = w->to};
            count++;
        }
    }
    job->rows.stream = ts_cpu_stream_find();
    job->streams = !accumulate && ts_cpu_rows_pay(bytes) && ts_cpu_rows_plan(targets, count, job->element, &job->rows) &&
                   job->rows.bytes >= TS_LINE_BYTES;
    job->rows.fetch_count = 0;
    for (int32_t i = 0; i < count && job->streams; i++) {
        places[i].to = targets[i].to;
    }
    job->stores = !in_place && !accumulate && plan_part(places, count, false, job->element, &job->store);
    for (int32_t i = 0; i < count && !job->stores; i++) {
        job->wires[numbers[i]].stride[1] = places[i].to;
    }
}

/* ---- the steps ---- */

/* Offsets in elements over some wires, the first of them fastest. which: 0 and 1 of the tiles, 2 of the tiny operand. */
static int64_t put_offsets(const chain_job *job, const int32_t *wires, int32_t count, int32_t k, int which, int64_t *offsets)
{
    offsets[0] = 0;
    for (int32_t i = 0; i < count; i++) {
        const wire *w = &job->wires[wires[i]];
        const int64_t stride = which == 2 ? w->tiny[k] : w->stride[which] / job->element;
        for (int64_t j = 0; j < (int64_t)1 << i; j++) {
            offsets[((int64_t)1 << i) + j] = offsets[j] + stride;
        }
    }
    return (int64_t)1 << count;
}

static void plan_step(chain_job *job, int32_t k, chain_group *group)
{
    chain_step *step = &job->steps[k];
    const ts_contract_spec *spec = job->chain->steps[k];
    const bool huge_is_b = job->chain->huge_is_b[k], alone = group->end - group->first == 1;
    int32_t batch[MOST_LIVE], added[MOST_LIVE], summed[MOST_LIVE], counts[3] = {0, 0, 0}, inner = 0;
    for (int32_t i = 0; i < job->wire_count && job->order[i] >= 0; i++) {
        const wire *w = &job->wires[job->order[i]];
        if (!is_run(w) && counts[0] < MOST_LIVE && (w->role[k] == BATCH || w->role[k] == KEPT) &&
            (alone || is_touched_by(w, group->first, group->end))) {
            batch[counts[0]++] = job->order[i];
        }
    }
    for (int32_t i = 0; i < job->wire_count; i++) {
        const wire *w = &job->wires[i];
        if (w->role[k] == NEW && counts[1] < MOST_LIVE) {
            added[counts[1]++] = i;
        } else if (w->role[k] == SUM && counts[2] < MOST_LIVE) {
            int32_t j = counts[2]++;
            for (; j > 0 && job->wires[summed[j - 1]].rank > w->rank; j--) {
                summed[j] = summed[j - 1];
            }
            summed[j] = i;
        }
    }
    inner = counts[0];
    while (alone && (int64_t)1 << inner > LONE_INNER) {
        inner--;
    }
    for (int t = 0; t < 3; t++) {
        const int which = t == 0 ? 2 : t - 1;
        put_offsets(job, batch, inner, k, which, step->batch[t]);
        if (alone) {
            group->outer_count = (int32_t)put_offsets(job, batch + inner, counts[0] - inner, k, which, group->outer[t]);
        }
    }
    put_offsets(job, added, counts[1], k, 2, step->left[0]);
    put_offsets(job, added, counts[1], k, 1, step->left[1]);
    put_offsets(job, summed, counts[2], k, 2, step->sum[0]);
    put_offsets(job, summed, counts[2], k, 0, step->sum[1]);
    const int64_t right = put_offsets(job, job->run, job->run_count, k, 0, step->right[0]);
    put_offsets(job, job->run, job->run_count, k, 1, step->right[1]);
    step->direct = (ts_cpu_direct){
        .batch = 1 << inner, .left = 1 << counts[1], .right = (int32_t)right, .sum = 1 << counts[2],
        .batch_a = step->batch[0], .batch_b = step->batch[1], .batch_c = step->batch[2],
        .left_a = step->left[0], .left_c = step->left[1], .right_b = step->right[0], .right_c = step->right[1],
        .sum_a = step->sum[0], .sum_b = step->sum[1],
        .right_unit_b = ts_cpu_unit(step->right[0], right), .right_unit_c = ts_cpu_unit(step->right[1], right),
        .conjugate_a = huge_is_b ? spec->conjugate_a : spec->conjugate_b,
        .conjugate_b = huge_is_b ? spec->conjugate_b : spec->conjugate_a,
        .accumulate = spec->accumulate, .modulus = spec->algebra.modulus,
    };
}

/* The largest tensor of the part that steps [first, end) would take together. */
static int64_t part_of(const chain_job *job, int32_t first, int32_t end)
{
    int64_t largest = 0;
    for (int32_t stage = first; stage <= end; stage++) {
        int64_t bytes = run_bytes(job);
        for (int32_t i = 0; i < job->wire_count; i++) {
            const wire *w = &job->wires[i];
            bytes *= w->tile && !is_run(w) && is_live(w, stage) && is_touched_by(w, first, end) ? 2 : 1;
        }
        largest = ts_max64(largest, bytes);
    }
    return largest;
}

/* Positions of the tile's other wires. */
static int64_t outer_of(const chain_job *job, int32_t first, int32_t end)
{
    int64_t positions = 1;
    for (int32_t i = 0; i < job->wire_count; i++) {
        const wire *w = &job->wires[i];
        positions *= w->tile && !is_run(w) && is_live(w, first) && !is_touched_by(w, first, end) ? 2 : 1;
    }
    return positions;
}

/* Steps from `first` on; ends[0] of the wires are known. */
static void plan_group(chain_job *job, int32_t first, bool accumulate)
{
    chain_group *group = &job->groups[job->group_count++];
    int32_t outer[MOST_LIVE], count = 0;
    group->first = first;
    group->end = first + 1;
    while (group->end < job->count && part_of(job, first, group->end + 1) <= ts_min64(job->part_bytes, MOST_INNER * run_bytes(job)) &&
           outer_of(job, first, group->end + 1) <= MOST_OUTER) {
        group->end++;
    }
    if (group->end < job->count) {
        pack(job, group->end, NULL, 1);
    } else {
        plan_result(job, accumulate);
    }
    for (int32_t i = 0; i < job->wire_count; i++) {
        job->wires[i].ends[1] = job->wires[i].stride[1];
        job->wires[i].stride[0] = job->wires[i].ends[0];
    }
    for (int32_t k = first; k < group->end; k++) {
        pack(job, k + 1, group, 1);
        for (int32_t i = 0; i < job->wire_count && k + 1 == group->end; i++) {
            job->wires[i].stride[1] = job->wires[i].ends[1];
        }
        plan_step(job, k, group);
        for (int32_t i = 0; i < job->wire_count; i++) {
            job->wires[i].stride[0] = job->wires[i].stride[1];
        }
    }
    if (group->end - first > 1) {
        for (int32_t i = 0; i < job->wire_count && job->order[i] >= 0; i++) {
            wire *w = &job->wires[job->order[i]];
            if (!is_run(w) && is_live(w, first) && !is_touched_by(w, first, group->end) && count < MOST_LIVE) {
                outer[count++] = job->order[i];
            }
        }
        for (int t = 0; t < 3; t++) {
            for (int32_t i = 0; i < job->wire_count && t > 0; i++) {
                job->wires[i].stride[0] = job->wires[i].ends[t - 1];
            }
            group->outer_count = (int32_t)put_offsets(job, outer, count, first, t == 0 ? 2 : 0, group->outer[t]);
        }
    }
    for (int32_t i = 0; i < job->wire_count; i++) {
        job->wires[i].ends[0] = job->wires[i].ends[1];
    }
    job->calls += group->outer_count;
}

/* Is every element of a tiny operand? */
static bool is_bounded(const chain_job *job, int32_t k)
{
    int64_t strides[MOST_LIVE];
    int32_t count = 0;
    for (int32_t i = 0; i < job->wire_count; i++) {
        const wire *w = &job->wires[i];
        if ((w->role[k] == BATCH || w->role[k] == NEW || w->role[k] == SUM) && count < MOST_LIVE) {
            strides[count++] = w->tiny[k] * job->element;
        }
    }
    for (int64_t position = 0; position < (int64_t)1 << count; position++) {
        const char *at = job->chain->tiny[k];
        for (int32_t i = 0; i < count; i++) {
            at += (position >> i & 1) * strides[i];
        }
        if (!job->kernel->bounded(at, job->count)) {
            return false;
        }
    }
    return true;
}

/* What is left are loops, the result's largest strides outermost. */
static void plan_loops(chain_job *job, int32_t threads)
{
    job->loop_count = 0;
    job->tiles = 1;
    for (int32_t i = 0; i < job->wire_count; i++) {
        const wire *w = &job->wires[i];
        const ts_mode loop = {.extent = 2, .a = w->from, .c = w->to};
        if (w->tile) {
            continue;
        }
        int32_t j = job->loop_count++;
        for (; j > 0 && ts_absolute(job->loops[j - 1].c) < ts_absolute(loop.c); j--) {
            job->loops[j] = job->loops[j - 1];
        }
        job->loops[j] = loop;
        job->tiles *= 2;
    }
    job->tiles_per_task = ts_max64(1, ts_min64(job->tiles / (4 * threads), TASK_BYTES / largest_tensor(job)));
}

static int64_t tile_bytes_of(void)
{
    const int64_t share = ts_cpu_cache_sizes().second / 8;
    int64_t bytes = LEAST_TILE;
    while (bytes < MOST_TILE && 2 * bytes <= share) {
        bytes *= 2;
    }
    return bytes;
}

static int64_t part_bytes_of(void)
{
    int64_t bytes = LEAST_PART;
    while (bytes < LEAST_TILE && 6 * bytes <= ts_cpu_cache_sizes().first) {
        bytes *= 2;
    }
    return bytes;
}

/* Two tensors, two of parts, and rows with their room. */
static int64_t buffer_bytes_of(void) { return 4 * tile_bytes_of() + 2 * part_bytes_of() + 2 * TS_LINE_BYTES; }

static int64_t job_bytes(void) { return ((int64_t)sizeof(chain_job) + 127) / 128 * 128; }

int64_t ts_cpu_chain_positions(ts_algebra algebra)
{
    return ts_cpu_kernel_find(algebra.semiring, algebra.dtype) != NULL ? tile_bytes_of() / RUN_BYTES : 0;
}

size_t ts_cpu_chain_scratch(ts_algebra algebra, int32_t threads)
{
    (void)algebra;
    return (size_t)(job_bytes() + threads * buffer_bytes_of());
}

void ts_cpu_chain(const ts_chain_spec *chain, const ts_run *run)
{
    chain_job *job = run->scratch;
    const ts_contract_spec *last = chain->steps[chain->count - 1];
    int32_t at[64];
    job->kernel = ts_cpu_kernel_find(last->algebra.semiring, last->algebra.dtype);
    job->chain = chain;
    job->count = chain->count;
    job->element = (int64_t)tensum_dtype_bytes(last->algebra.dtype);
    job->tile_bytes = tile_bytes_of();
    job->part_bytes = part_bytes_of();
    job->buffer_bytes = buffer_bytes_of();
    job->buffers = (char *)run->scratch + job_bytes();
    job->wire_count = job->calls = job->group_count = 0;
    for (int32_t k = 0; k < job->count; k++) {
        add_step(job, k, at);
    }
    choose_tile(job);
    sort_wires(job);
    plan_operand(job);
    for (int32_t i = 0; i < job->wire_count; i++) {
        job->wires[i].ends[0] = job->wires[i].stride[0];
    }
    for (int32_t k = 0; k < job->count; k = job->groups[job->group_count - 1].end) {
        plan_group(job, k, last->accumulate);
    }
    job->bounded = job->kernel->bounded != NULL;
    for (int32_t k = 0; k < job->count && job->bounded; k++) {
        job->bounded = is_bounded(job, k);
    }
    plan_loops(job, ts_pool_threads(run->pool));
    ts_pool_run(run->pool, (job->tiles + job->tiles_per_task - 1) / job->tiles_per_task, chain_task, job);
}
