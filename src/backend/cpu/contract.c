/* Driver of contractions: which side is rows, blocks, packing, threads, write-back. */
#include "backend/cpu/cpu.h"

#include <math.h>

#define SHARED_BYTES ((int64_t)64 << 20)     /* packed columns shared by all workers */
#define LEAST_DEPTH_BYTES ((int64_t)1 << 10) /* packed depth of one row in a chunk */
#define MOST_DEPTH_BYTES ((int64_t)4 << 10)
#define GROUP_BYTES ((int64_t)12 << 10)      /* packed depth of one row in a group of chunks */
#define MOST_NUMBERED 255                    /* blocks of a group, where their numbers are bytes */
#define TILES_BYTES ((int64_t)1 << 20)       /* accumulators that wait for the next group */
#define TASK_ROWS 144                        /* of a task, at most */
#define SMALL_TASK_ROWS 72                   /* where a product is small */
#define MOST_SIMULATED 8                     /* workers whose tasks are shared out one by one */

typedef struct contract_side {
    const uint8_t *data;
    ts_cpu_tensor tensor;
    const ts_mode *modes;
    int32_t mode_count;
    int64_t size;
    bool conjugate;
} contract_side;

/* One contraction, as laid out for a number of workers. Byte offsets are into a worker's or the shared scratch. */
typedef struct contract_job {
    const ts_contract_spec *spec;
    const ts_cpu_kernel *kernel;
    contract_side rows, columns;
    const ts_mode *batch_modes, *sum_modes;
    uint8_t *c;
    void *winners;
    size_t element;
    int64_t depth_block, chunks;      /* depths per chunk; number of chunks */
    int64_t group, groups;            /* chunks per group: of these a task holds its rows packed; number of groups */
    int64_t row_block, row_blocks;    /* rows per task */
    int64_t column_block, column_blocks;
    bool shared;                      /* columns are packed once, before the tasks */
    int64_t range, range_first, range_size; /* shared: columns packed at a time; the present ones */
    int64_t batch_first;              /* shared: the present batch item */
    size_t tile_bytes;                /* of its accumulators */
    int64_t line;                     /* packed depths of a group: of a row */
    int64_t line_b;                   /* of a column: all depths if the columns are shared, else those of a group */
    size_t rows_a, rows_c, rows_w, columns_b, columns_c, columns_w, depth_a, depth_b;
    size_t packed_a, packed_b, cells_b, seen_a, seen_b, shifts_a, shifts_b, tiles, found, positions, winner_tiles, blocks, inexact;
    size_t worker_bytes, shared_bytes;
    uint8_t *shared_scratch, *worker_scratch;
} contract_job;

static size_t take(size_t *bytes, int64_t count, size_t element)
{
    size_t at = *bytes;
    *bytes = (at + (size_t)count * element + 127) & ~(size_t)127;
    return at;
}

/* columns: 0 for side a, 1 for side b. */
static void set_sides(contract_job *job, const void *a, const void *b, int columns)
{
    const ts_contract_spec *spec = job->spec;
    const ts_mode *left = spec->modes + spec->batch_count, *right = left + spec->left_count;
    const contract_side sides[2] = {
        {a, TS_TENSOR_A, left, spec->left_count, spec->left, spec->conjugate_a},
        {b, TS_TENSOR_B, right, spec->right_count, spec->right, spec->conjugate_b},
    };
    job->rows = sides[1 - columns];
    job->columns = sides[columns];
    job->batch_modes = spec->modes;
    job->sum_modes = right + spec->right_count;
}

/* Columns run along vectors: the side along which the result is contiguous, unless that wastes much of the tiles. */
static void choose_sides(contract_job *job, const void *a, const void *b)
{
    const ts_contract_spec *spec = job->spec;
    const ts_mode *left = spec->modes + spec->batch_count, *right = left + spec->left_count;
    const int64_t sizes[2] = {spec->left, spec->right};
    const int64_t tile_rows = job->kernel->rows, tile_columns = job->kernel->columns;
    double waste[2];
    for (int i = 0; i < 2; i++) { /* i: which side is columns */
        waste[i] = (double)(ts_divide_up(sizes[1 - i], tile_rows) * tile_rows) *
                   (double)(ts_divide_up(sizes[i], tile_columns) * tile_columns);
    }
    const bool right_contiguous =
        ts_cpu_smallest_stride(right, spec->right_count) <= ts_cpu_smallest_stride(left, spec->left_count);
    const int preferred = right_contiguous ? 1 : 0;
    set_sides(job, a, b, waste[preferred] <= 1.25 * waste[1 - preferred] ? preferred : 1 - preferred);
}

/* How rows and columns are shared out: panels of rows in a task, and parts of the columns. */
typedef struct shares {
    int64_t panels, parts;
} shares;

/* Time of a task, in quarters of what a panel of rows times one of columns takes: packing a panel of rows takes about one, or six where
 * exponentials are packed, reading a panel of columns for the first time, from where all workers' columns are, some more. */
static double task_time(int64_t panels, int64_t width, bool shifted)
{
    return (double)panels * (4.0 * (double)width + (shifted ? 6.0 : 1.0)) + 2.0 * (double)width;
}

/* Time of the worker that has most to do, where each takes the next task when it is done with one. */
static double longest_share(int64_t row_panels, int64_t column_panels, shares by, int64_t threads, bool shifted)
{
    const int64_t blocks = ts_divide_up(row_panels, by.panels), width = ts_divide_up(column_panels, by.parts);
    double loads[MOST_SIMULATED] = {0}, most = 0;
    if (threads > MOST_SIMULATED || blocks * by.parts > 8 * threads) { /* at most so much */
        const double all = (double)by.parts * (task_time(row_panels, width, shifted) + (double)(blocks - 1) * 2.0 * (double)width);
        return (all + (double)(threads - 1) * task_time(by.panels, width, shifted)) / (double)threads;
    }
    for (int64_t task = 0; task < blocks * by.parts; task++) {
        const int64_t row = task % blocks * by.panels, column = task / blocks * width;
        int64_t idle = 0;
        for (int64_t i = 1; i < threads; i++) {
            idle = loads[i] < loads[idle] ? i : idle;
        }
        if (column < column_panels) {
            loads[idle] += task_time(ts_min64(by.panels, row_panels - row), ts_min64(width, column_panels - column), shifted);
        }
        most = loads[idle] > most ? loads[idle] : most;
    }
    return most;
}

/* The best shares of at most `most` panels of rows; those that make fewer than `least` tasks only if there are no others. */
static shares share_out(int64_t row_panels, int64_t column_panels, int64_t most, int64_t threads, int64_t least, bool shifted)
{
    shares best = {ts_divide_up(row_panels, ts_divide_up(row_panels, most)), 1};
    double best_load = INFINITY;
    int64_t last = 0;
    for (int64_t p = most; p >= ts_max64(1, most / 4) && threads > 1; p--) {
        const int64_t blocks = ts_divide_up(row_panels, p), parts[] = {1, 2, 3, ts_divide_up(least, blocks)};
        const int64_t panels = ts_divide_up(row_panels, blocks); /* as many blocks, of one size */
        for (int i = 0; i < 4 && panels != last; i++) {
            const shares by = {panels, ts_min64(parts[i], column_panels)};
            if (i > 0 && by.parts == 1) {
                continue;
            }
            const double few = ts_divide_up(row_panels, panels) * by.parts < least ? 1e6 : 1.0;
            const double load = few * longest_share(row_panels, column_panels, by, threads, shifted);
            if (load < best_load) {
                best = by;
                best_load = load;
            }
        }
        last = panels;
    }
    return best;
}

static void lay_out(contract_job *job, int64_t threads)
{
    const ts_cpu_kernel *kernel = job->kernel;
    const ts_contract_spec *spec = job->spec;
    const bool winners = spec->winner_bytes != 0;
    const int64_t packed = kernel->packed_bytes, words = kernel->words;
    const int64_t row_panels = ts_divide_up(job->rows.size, kernel->rows);
    const int64_t column_panels = ts_divide_up(job->columns.size, kernel->columns);

    /* A chunk's two panels stay in the first-level cache. */
    const ts_cpu_caches caches = ts_cpu_cache_sizes();
    int64_t depth_limit = caches.first / 16 * 15 / ((kernel->rows + kernel->columns) * packed) / 64 * 64;
    depth_limit = ts_max64(LEAST_DEPTH_BYTES / packed, ts_min64(depth_limit, MOST_DEPTH_BYTES / packed));
    job->depth_block = ts_min64(ts_divide_up(spec->sum, 64) * 64, depth_limit * words);
    job->chunks = ts_divide_up(spec->sum, job->depth_block);
    const int64_t depth_packed = ts_divide_up(job->depth_block, words);
    const int64_t numbered = spec->winner_bytes != 0 && kernel->block_bytes == 1 ? MOST_NUMBERED * kernel->winner_block : INT64_MAX;
    job->group = ts_min64(job->chunks, ts_min64(GROUP_BYTES / packed, numbered) / depth_limit);
    job->groups = ts_divide_up(job->chunks, job->group);
    job->line = job->group * depth_packed;

    /* Panels per task: many, as columns are read from a shared cache or from memory once for each task. Rows are read in order, and
     * lines in order are fetched ahead: they need not stay in the second-level cache all. */
    const bool cells = winners && kernel->pack_cells != NULL;
    const int64_t row_bytes = ts_min64(job->line, ts_divide_up(spec->sum, words)) * packed, panel_bytes = row_bytes * kernel->columns;
    const int64_t fitting = 2 * caches.second / (row_bytes * kernel->rows);
    const int64_t most = ts_max64(1, ts_min64(fitting, TASK_ROWS / kernel->rows));
    const double pairs = (double)spec->left * (double)spec->right * (double)spec->sum;
    job->range = SHARED_BYTES / (depth_packed * packed * kernel->columns * job->chunks);
    const bool large = pairs >= 1 << 21 && job->range >= 8;
    /* Of a large product two tasks for every worker, as some begin late, and two in all, for which columns are packed once, unless rows
     * are so few that packed columns would only go through memory. In a small one each task packs the columns for itself. */
    const int64_t few = ts_max64(1, SMALL_TASK_ROWS / kernel->rows), half = row_panels > few ? ts_divide_up(row_panels, 2) : row_panels;
    const shares by = large ? share_out(row_panels, ts_min64(job->range, column_panels), ts_min64(most, half), threads, 2 * threads, kernel->shifted)
                            : share_out(row_panels, 1, ts_min64(most, few), spec->batch < threads ? threads : 1, 1, kernel->shifted);
    const int64_t panels = by.panels;
    job->row_block = panels * kernel->rows;
    job->row_blocks = ts_divide_up(row_panels, panels);
    job->shared = large && job->row_blocks > 1;

    int64_t column_block = caches.second / 2 / panel_bytes;
    column_block = ts_max64(1, ts_min64(column_block, 16));
    if (job->shared) {
        job->range = ts_min64(job->range, column_panels);
        column_block = ts_divide_up(job->range, by.parts);
    } else {
        job->range = 0;
        const int64_t tasks = spec->batch * job->row_blocks;
        if (tasks * ts_divide_up(column_panels, column_block) < 2 * threads) {
            column_block = ts_max64(1, ts_min64(column_block, ts_divide_up(column_panels * tasks, 2 * threads)));
        }
        column_block = ts_min64(column_block, column_panels);
    }
    job->tile_bytes = (size_t)(kernel->rows * kernel->columns * kernel->accumulator_bytes);
    if (job->groups > 1) {
        column_block = ts_max64(1, ts_min64(column_block, TILES_BYTES / (panels * (int64_t)job->tile_bytes)));
    }
    job->column_block = column_block * kernel->columns;
    job->range *= kernel->columns;
    job->column_blocks = ts_divide_up(job->shared ? job->range : job->columns.size, job->column_block);

    const int64_t tiles = panels * (job->groups > 1 ? column_block : 1); /* those of a column are one tall tile */
    const int64_t tile = kernel->rows * kernel->columns;
    size_t worker = 0, shared = 0;
    job->rows_a = take(&worker, job->row_block, 8);
    job->rows_c = take(&worker, job->row_block, 8);
    job->rows_w = take(&worker, job->row_block, 8);
    job->columns_b = take(&worker, job->column_block, 8);
    job->columns_c = take(&worker, job->column_block, 8);
    job->columns_w = take(&worker, job->column_block, 8);
    job->depth_a = take(&worker, job->depth_block, 8);
    job->depth_b = take(&worker, job->depth_block, 8);
    job->packed_a = take(&worker, job->row_block * job->line, (size_t)packed);
    job->seen_a = take(&worker, panels * job->group, 1);
    job->shifts_a = take(&worker, kernel->shifted ? job->row_block : 0, 8);
    job->cells_b = take(&worker, cells ? kernel->columns * job->line : 0, (size_t)packed);
    job->tiles = take(&worker, tiles, job->tile_bytes);
    job->found = take(&worker, winners ? panels * tile : 0, 4);
    job->positions = take(&worker, cells ? panels * tile : 0, 1);
    job->winner_tiles = take(&worker, winners && job->groups > 1 ? tiles * tile : 0, 8);
    job->blocks = take(&worker, winners ? tiles * tile : 0, (size_t)kernel->block_bytes);
    job->inexact = take(&worker, kernel->shifted ? panels * tile : 0, 1);
    size_t *columns = job->shared ? &shared : &worker;
    const int64_t column_count = job->shared ? job->range : job->column_block;
    const int64_t chunks = job->shared ? job->chunks : job->group;
    job->line_b = depth_packed * chunks;
    job->packed_b = take(columns, column_count * job->line_b, (size_t)packed);
    job->seen_b = take(columns, column_count / kernel->columns * chunks, 1);
    job->shifts_b = take(columns, kernel->shifted ? column_count : 0, 8);
    job->worker_bytes = worker;
    job->shared_bytes = shared;
}

size_t ts_cpu_contract_scratch(const ts_contract_spec *spec, int32_t threads)
{
    if (spec->batch == 0 || spec->left == 0 || spec->right == 0 || spec->sum == 0 || ts_cpu_is_direct(spec)) {
        return 0;
    }
    /* The layout depends on the number of workers, on which side the strides of a run make columns, and on whether that run
     * wants the winners that it may ask for: smaller blocks; take the largest of what may run. */
    size_t bytes = 0;
    if (spec->winner_bytes != 0) {
        ts_contract_spec values = *spec;
        values.winner_bytes = 0;
        bytes = ts_cpu_contract_scratch(&values, threads);
    }
    for (int32_t workers = 1; workers <= threads; workers = workers < threads && 2 * workers > threads ? threads : 2 * workers) {
        contract_job job = {.spec = spec, .kernel = ts_cpu_kernel_find(spec->algebra.semiring, spec->algebra.dtype)};
        for (int columns = 0; columns < 2; columns++) {
            set_sides(&job, NULL, NULL, columns);
            lay_out(&job, workers);
            const size_t need = job.shared_bytes + (size_t)workers * job.worker_bytes;
            bytes = need > bytes ? need : bytes;
        }
    }
    return bytes;
}

static bool troubled(ts_cpu_trouble trouble, unsigned a, unsigned b)
{
    const unsigned infinite = TS_SEEN_PLUS_INFINITY | TS_SEEN_MINUS_INFINITY;
    if (trouble == TS_TROUBLE_NEVER) {
        return false;
    }
    if (trouble == TS_TROUBLE_WIDE) {
        return ((a | b) & TS_SEEN_WIDE) != 0;
    }
    if (((a | b) & TS_SEEN_NAN) != 0) {
        return true;
    }
    if (trouble == TS_TROUBLE_OPPOSITE) {
        return ((a & TS_SEEN_PLUS_INFINITY) != 0 && (b & TS_SEEN_MINUS_INFINITY) != 0) ||
               ((a & TS_SEEN_MINUS_INFINITY) != 0 && (b & TS_SEEN_PLUS_INFINITY) != 0);
    }
    if (trouble == TS_TROUBLE_ZERO) {
        return ((a & infinite) != 0 && (b & TS_SEEN_ZERO) != 0) || ((a & TS_SEEN_ZERO) != 0 && (b & infinite) != 0);
    }
    return false;
}

/* log_sum_exp: what is subtracted from rows [0, count) of a side; NaN where only the exact way will do. */
static void shifts(const contract_job *job, const contract_side *side, const uint8_t *data, const int64_t *rows, int64_t count,
                   int64_t *depths, double *result)
{
    for (int64_t i = 0; i < count; i++) {
        result[i] = -(double)INFINITY;
    }
    for (int64_t first = 0; first < job->spec->sum; first += job->depth_block) {
        const int64_t depth = ts_min64(job->depth_block, job->spec->sum - first);
        ts_cpu_offsets(job->sum_modes, job->spec->sum_count, side->tensor, first, depth, depths);
        const ts_cpu_panel panel = {.source = data, .rows = rows, .depths = depths, .count = (int32_t)count, .depth = depth,
                                    .rows_unit = ts_cpu_unit(rows, count), .depth_unit = ts_cpu_unit(depths, depth)};
        job->kernel->maxima(&panel, result);
    }
    for (int64_t i = 0; i < count; i++) {
        if (isinf(result[i])) {
            result[i] = result[i] < 0 ? 0.0 : (double)NAN;
        }
    }
}

/* Panels `stride` packed elements from each other. */
static void pack_block(const contract_job *job, const contract_side *side, const uint8_t *data, int32_t width, int64_t count,
                       const int64_t *rows, const int64_t *depths, int64_t depth, const double *row_shifts, bool cells,
                       uint8_t *packed, int64_t stride, uint8_t *seen)
{
    const bool depth_unit = ts_cpu_unit(depths, depth);
    for (int64_t i = 0; i < count; i += width, packed += stride * job->kernel->packed_bytes) {
        ts_cpu_panel panel = {
            .source = data, .rows = rows + i, .depths = depths, .width = width,
            .count = (int32_t)ts_min64(width, count - i), .depth = depth, .depth_unit = depth_unit,
            .conjugate = side->conjugate, .modulus = job->spec->algebra.modulus,
            .shifts = row_shifts != NULL ? row_shifts + i : NULL,
        };
        panel.rows_unit = ts_cpu_unit(panel.rows, panel.count);
        *seen++ = (uint8_t)(cells ? job->kernel->pack_cells(&panel, packed) : job->kernel->pack(&panel, packed));
    }
}

/* Shared packing: one task per (chunk, group of column panels), or per group where all chunks need what it subtracts. */
#define PACK_PANELS 4
static int64_t pack_groups(const contract_job *job) { return ts_divide_up(ts_divide_up(job->range_size, job->kernel->columns), PACK_PANELS); }

static void pack_shared(void *argument, int64_t index, int32_t worker)
{
    const contract_job *job = argument;
    const ts_contract_spec *spec = job->spec;
    const ts_cpu_kernel *kernel = job->kernel;
    uint8_t *scratch = job->worker_scratch + (size_t)worker * job->worker_bytes;
    int64_t *depths = (int64_t *)(void *)(scratch + job->depth_b);
    int64_t rows[PACK_PANELS * TS_MAX_TILE_COLUMNS], batch;
    const int64_t groups = pack_groups(job), group = index % groups;
    const int64_t chunk_first = kernel->shifted ? 0 : index / groups, chunk_end = kernel->shifted ? job->chunks : chunk_first + 1;
    const int64_t first = group * PACK_PANELS * kernel->columns;
    const int64_t count = ts_min64(PACK_PANELS * kernel->columns, job->range_size - first);
    const int64_t panels = job->range / kernel->columns;
    const int64_t full_depth = ts_divide_up(job->depth_block, kernel->words);
    double *column_shifts = kernel->shifted ? (double *)(void *)(job->shared_scratch + job->shifts_b) + first : NULL;

    ts_cpu_offsets(job->batch_modes, spec->batch_count, job->columns.tensor, job->batch_first, 1, &batch);
    const uint8_t *data = job->columns.data + batch * (int64_t)job->element;
    ts_cpu_offsets(job->columns.modes, job->columns.mode_count, job->columns.tensor, job->range_first + first, count, rows);
    if (column_shifts != NULL) {
        shifts(job, &job->columns, data, rows, count, depths, column_shifts);
    }
    for (int64_t chunk = chunk_first; chunk < chunk_end; chunk++) {
        const int64_t start = chunk * job->depth_block, depth = ts_min64(job->depth_block, spec->sum - start);
        ts_cpu_offsets(job->sum_modes, spec->sum_count, job->columns.tensor, start, depth, depths);
        pack_block(job, &job->columns, data, kernel->columns, count, rows, depths, depth, column_shifts, false,
                   job->shared_scratch + job->packed_b +
                       (size_t)(first * job->line_b + chunk * full_depth * kernel->columns) * (size_t)kernel->packed_bytes,
                   job->line_b * kernel->columns, job->shared_scratch + job->seen_b + chunk * panels + group * PACK_PANELS);
    }
}

/* What was found in one group of chunks, with what the groups before it found: kept in `tile` until the last. For one group whose
 * columns lie side by side find() does this itself. */
static void put_winners(const contract_job *job, int64_t group, const int32_t *found, int64_t *tile, int64_t rows,
                        int64_t columns, int64_t offset, const int64_t *rows_w, const int64_t *columns_w)
{
    const bool unit = ts_cpu_unit(columns_w, columns), narrow = job->spec->winner_bytes == 4;
    const int64_t width = job->kernel->columns, base = group * job->group * job->depth_block;
    int64_t alone[TS_MAX_TILE_COLUMNS];
    for (int64_t i = 0; i < rows; i++, found += width) {
        int64_t *row = job->groups > 1 ? tile + i * width : alone;
        if (group == 0) {
            for (int64_t j = 0; j < columns; j++) {
                row[j] = found[j] < 0 ? 0 : found[j];
            }
        } else {
            for (int64_t j = 0; j < columns; j++) {
                row[j] = found[j] == TS_FOUND_NONE ? row[j] : found[j] == TS_FOUND_FIRST ? 0 : base + found[j];
            }
        }
        if (group + 1 < job->groups) {
            continue;
        }
        const int64_t at = offset + rows_w[i];
        if (narrow && unit) {
            int32_t *to = (int32_t *)job->winners + at + columns_w[0];
            for (int64_t j = 0; j < columns; j++) {
                to[j] = (int32_t)row[j];
            }
        } else if (narrow) {
            for (int64_t j = 0; j < columns; j++) {
                ((int32_t *)job->winners)[at + columns_w[j]] = (int32_t)row[j];
            }
        } else {
            for (int64_t j = 0; j < columns; j++) {
                ((int64_t *)job->winners)[at + columns_w[j]] = row[j];
            }
        }
    }
}

/* The cache lines of a tile of the result, which the store will need, while the sums are being made. */
static void fetch_result(const uint8_t *c, size_t element, const int64_t *rows, int64_t row_count, const int64_t *columns,
                         int64_t column_count)
{
    if (!ts_cpu_unit(columns, column_count)) {
        return;
    }
    for (int64_t i = 0; i < row_count; i++) {
        const uint8_t *at = c + (rows[i] + columns[0]) * (int64_t)element;
        for (int64_t byte = 0; byte < column_count * (int64_t)element; byte += TS_LINE_BYTES) {
            __builtin_prefetch(at + byte, 1);
        }
    }
}

/* log_sum_exp elements whose shifted sum was too small or not finite: two passes over their terms. */
static void redo_inexact(const contract_job *job, const uint8_t *inexact, const ts_cpu_store *store, const uint8_t *a,
                         const uint8_t *b, const int64_t *rows_a, const int64_t *columns_b, int64_t *depth_a,
                         int64_t *depth_b)
{
    const ts_contract_spec *spec = job->spec;
    const int64_t element = (int64_t)job->element;
    for (int32_t i = 0; i < store->row_count; i++) {
        for (int32_t j = 0; j < store->column_count; j++) {
            if (!inexact[i * job->kernel->columns + j]) {
                continue;
            }
            double state[2] = {-(double)INFINITY, 0.0};
            for (int pass = 0; pass < 2; pass++) {
                for (int64_t first = 0; first < spec->sum; first += job->depth_block) {
                    const int64_t depth = ts_min64(job->depth_block, spec->sum - first);
                    if (job->chunks > 1) {
                        ts_cpu_offsets(job->sum_modes, spec->sum_count, job->rows.tensor, first, depth, depth_a);
                        ts_cpu_offsets(job->sum_modes, spec->sum_count, job->columns.tensor, first, depth, depth_b);
                    }
                    job->kernel->exact(pass, depth, a + rows_a[i] * element, depth_a, b + columns_b[j] * element,
                                       depth_b, state);
                }
            }
            job->kernel->exact_store(state, store->accumulate,
                                     (uint8_t *)store->c + (store->rows[i] + store->columns[j]) * element);
        }
    }
}

static void multiply_block(void *argument, int64_t index, int32_t worker)
{
    const contract_job *job = argument;
    const ts_contract_spec *spec = job->spec;
    const ts_cpu_kernel *kernel = job->kernel;
    const int64_t element = (int64_t)job->element;
    const bool winners = spec->winner_bytes != 0, cells = winners && kernel->pack_cells != NULL;
    uint8_t *scratch = job->worker_scratch + (size_t)worker * job->worker_bytes;
    uint8_t *columns_scratch = job->shared ? job->shared_scratch : scratch;
    int64_t *rows_a = (int64_t *)(void *)(scratch + job->rows_a), *rows_c = (int64_t *)(void *)(scratch + job->rows_c);
    int64_t *rows_w = (int64_t *)(void *)(scratch + job->rows_w);
    int64_t *columns_b = (int64_t *)(void *)(scratch + job->columns_b);
    int64_t *columns_c = (int64_t *)(void *)(scratch + job->columns_c);
    int64_t *columns_w = (int64_t *)(void *)(scratch + job->columns_w);
    int64_t *depth_a = (int64_t *)(void *)(scratch + job->depth_a), *depth_b = (int64_t *)(void *)(scratch + job->depth_b);
    int32_t *found = (int32_t *)(void *)(scratch + job->found);
    int64_t *winner_tiles = (int64_t *)(void *)(scratch + job->winner_tiles);
    double *row_shifts = kernel->shifted ? (double *)(void *)(scratch + job->shifts_a) : NULL;
    double *column_shifts = kernel->shifted ? (double *)(void *)(columns_scratch + job->shifts_b) : NULL;

    /* Row blocks vary fastest, so that neighbours share the columns. */
    const int64_t row_block = index % job->row_blocks, rest = index / job->row_blocks;
    const int64_t column_block = rest % job->column_blocks;
    const int64_t item = job->shared ? job->batch_first : rest / job->column_blocks;
    const int64_t row_first = row_block * job->row_block, row_count = ts_min64(job->row_block, job->rows.size - row_first);
    const int64_t column_first = column_block * job->column_block;
    const int64_t column_count =
        ts_min64(job->column_block, (job->shared ? job->range_size : job->columns.size) - column_first);
    if (column_count <= 0) {
        return; /* the last range is shorter */
    }
    int64_t batch_a, batch_b, batch_c, batch_w = 0;
    ts_cpu_offsets(job->batch_modes, spec->batch_count, job->rows.tensor, item, 1, &batch_a);
    ts_cpu_offsets(job->batch_modes, spec->batch_count, job->columns.tensor, item, 1, &batch_b);
    ts_cpu_offsets(job->batch_modes, spec->batch_count, TS_TENSOR_C, item, 1, &batch_c);
    const uint8_t *a = job->rows.data + batch_a * element, *b = job->columns.data + batch_b * element;
    const int64_t column_from = job->range_first + column_first;
    ts_cpu_offsets(job->rows.modes, job->rows.mode_count, job->rows.tensor, row_first, row_count, rows_a);
    ts_cpu_offsets(job->rows.modes, job->rows.mode_count, TS_TENSOR_C, row_first, row_count, rows_c);
    ts_cpu_offsets(job->columns.modes, job->columns.mode_count, job->columns.tensor, column_from, column_count, columns_b);
    ts_cpu_offsets(job->columns.modes, job->columns.mode_count, TS_TENSOR_C, column_from, column_count, columns_c);
    if (winners) {
        ts_cpu_offsets(job->batch_modes, spec->batch_count, TS_TENSOR_W, item, 1, &batch_w);
        ts_cpu_offsets(job->rows.modes, job->rows.mode_count, TS_TENSOR_W, row_first, row_count, rows_w);
        ts_cpu_offsets(job->columns.modes, job->columns.mode_count, TS_TENSOR_W, column_from, column_count, columns_w);
    }
    if (kernel->shifted) {
        shifts(job, &job->rows, a, rows_a, row_count, depth_a, row_shifts);
        if (!job->shared) {
            shifts(job, &job->columns, b, columns_b, column_count, depth_b, column_shifts);
        } else {
            column_shifts += column_first;
        }
    }
    const int64_t row_panels = ts_divide_up(row_count, kernel->rows), column_panels = ts_divide_up(column_count, kernel->columns);
    const int64_t tile = kernel->rows * kernel->columns;
    const int64_t full_depth = ts_divide_up(job->depth_block, kernel->words); /* of a chunk, packed elements */
    const int64_t chunk_b = full_depth * kernel->packed_bytes * kernel->columns, panel_bytes_b = job->line_b * kernel->packed_bytes * kernel->columns;
    const int64_t seen_stride_b = (job->shared ? job->range : job->column_block) / kernel->columns;
    for (int64_t group = 0; group < job->groups; group++) {
        const int64_t chunk_first = group * job->group, chunk_end = ts_min64(chunk_first + job->group, job->chunks);
        const int64_t from = chunk_first * job->depth_block, until = ts_min64(chunk_end * job->depth_block, spec->sum);
        const bool last = group + 1 == job->groups;
        uint8_t *packed_a = scratch + job->packed_a, *packed_b = columns_scratch + job->packed_b;
        uint8_t *seen_a = scratch + job->seen_a, *seen_b = columns_scratch + job->seen_b;
        uint8_t *cells_b = scratch + job->cells_b;
        if (job->shared) {
            packed_b += column_first * job->line_b * kernel->packed_bytes + chunk_first * chunk_b;
            seen_b += chunk_first * seen_stride_b + column_first / kernel->columns;
        }
        for (int64_t chunk = chunk_first; chunk < chunk_end; chunk++) {
            const int64_t start = chunk * job->depth_block, depth = ts_min64(job->depth_block, spec->sum - start);
            const int64_t n = chunk - chunk_first;
            ts_cpu_offsets(job->sum_modes, spec->sum_count, job->rows.tensor, start, depth, depth_a);
            pack_block(job, &job->rows, a, kernel->rows, row_count, rows_a, depth_a, depth, row_shifts, cells,
                       packed_a + n * full_depth * kernel->rows * kernel->packed_bytes, job->line * kernel->rows, seen_a + n * row_panels);
            if (!job->shared) {
                ts_cpu_offsets(job->sum_modes, spec->sum_count, job->columns.tensor, start, depth, depth_b);
                pack_block(job, &job->columns, b, kernel->columns, column_count, columns_b, depth_b, depth, column_shifts, false,
                           packed_b + n * chunk_b, job->line_b * kernel->columns, seen_b + n * seen_stride_b);
            }
        }
        for (int64_t q = 0; q < column_panels; q++) {
            const int64_t number = job->groups > 1 ? q * row_panels : 0;
            const int64_t columns = ts_min64(kernel->columns, column_count - q * kernel->columns);
            uint8_t *tiles = scratch + job->tiles + (size_t)number * job->tile_bytes;
            uint8_t *block_tiles = winners ? scratch + job->blocks + number * tile * kernel->block_bytes : NULL;
            if (winners) {
                memset(block_tiles, cells && group == 0 ? 0 : 0xff, (size_t)(row_panels * tile * kernel->block_bytes));
            }
            for (int64_t p = 0; p < row_panels && group == 0; p++) {
                kernel->start(tiles + (size_t)p * job->tile_bytes);
            }
            for (int64_t chunk = chunk_first; chunk < chunk_end; chunk++) {
                const int64_t n = chunk - chunk_first;
                const int64_t depth = ts_divide_up(ts_min64(job->depth_block, spec->sum - chunk * job->depth_block), kernel->words);
                const int64_t first_block = winners ? n * full_depth / kernel->winner_block : 0;
                const uint8_t *panel_b = packed_b + q * panel_bytes_b + n * chunk_b;
                /* What comes after this panel of columns is fetched meanwhile, some lines with each tile. */
                const bool more = chunk + 1 < chunk_end || q + 1 < column_panels;
                const uint8_t *next_b = chunk + 1 < chunk_end ? panel_b + chunk_b : packed_b + (q + 1) * panel_bytes_b;
                const int64_t next_lines = more ? depth * kernel->columns * kernel->packed_bytes / TS_LINE_BYTES : 0;
                for (int64_t p = 0; p < row_panels; p++) {
                    for (int64_t line = p * next_lines / row_panels; line < (p + 1) * next_lines / row_panels; line++) {
                        __builtin_prefetch(next_b + line * TS_LINE_BYTES, 0, 2);
                    }
                    uint8_t *accumulators = tiles + (size_t)p * job->tile_bytes;
                    uint8_t *blocks = winners ? block_tiles + p * tile * kernel->block_bytes : NULL;
                    if (chunk + 1 == job->chunks) { /* a few lines at a time, which do not hold up the tile's own */
                        const int64_t row = p * kernel->rows, rows = ts_min64(kernel->rows, row_count - row);
                        fetch_result(job->c + batch_c * element, job->element, rows_c + row, rows, columns_c + q * kernel->columns, columns);
                        if (winners) {
                            fetch_result((const uint8_t *)job->winners + batch_w * spec->winner_bytes, spec->winner_bytes, rows_w + row,
                                         rows, columns_w + q * kernel->columns, columns);
                        }
                    }
                    const uint8_t *panel_a = packed_a + (p * job->line + n * full_depth) * kernel->rows * kernel->packed_bytes;
                    if (troubled(kernel->trouble, seen_a[n * row_panels + p], seen_b[n * seen_stride_b + q])) {
                        kernel->multiply_careful(depth, panel_a, panel_b, accumulators, blocks, first_block);
                    } else if (winners) {
                        kernel->multiply_winners(depth, panel_a, panel_b, accumulators, blocks, first_block);
                    } else {
                        kernel->multiply(depth, panel_a, panel_b, accumulators);
                    }
                }
                if (cells) {
                    kernel->column_cells(depth, panel_b, job->line, cells_b + n * full_depth * kernel->cell_columns * kernel->packed_bytes);
                }
            }
            if (winners) {
                const int64_t *columns_to = columns_w + q * kernel->columns;
                const bool straight = job->groups == 1 && ts_cpu_unit(columns_to, columns);
                const ts_cpu_find find = {
                    .depth = until - from, .accumulators = tiles, .blocks = block_tiles, .a = packed_a, .b = cells_b,
                    .some = group > 0, .positions = scratch + job->positions, .line = job->line,
                    .row_count = (int32_t)row_count, .column_count = (int32_t)columns, .winners = found,
                    .to = straight ? (uint8_t *)job->winners + (batch_w + columns_to[0]) * spec->winner_bytes : NULL,
                    .rows = rows_w, .wide = spec->winner_bytes == 8,
                };
                kernel->find(&find);
                if (!straight) {
                    put_winners(job, group, found, winner_tiles + number * tile, row_count, columns, batch_w, rows_w, columns_to);
                }
            }
            if (!last) {
                continue;
            }
            const ts_cpu_store store = {
                .c = job->c + batch_c * element, .rows = rows_c, .columns = columns_c + q * kernel->columns,
                .row_count = (int32_t)row_count, .column_count = (int32_t)columns,
                .columns_unit = ts_cpu_unit(columns_c + q * kernel->columns, columns),
                .accumulate = spec->accumulate, .modulus = spec->algebra.modulus,
                .row_shifts = row_shifts,
                .column_shifts = kernel->shifted ? column_shifts + q * kernel->columns : NULL,
                .inexact = scratch + job->inexact,
            };
            if (kernel->shifted) {
                memset(store.inexact, 0, (size_t)(row_panels * tile));
            }
            if (kernel->store(&store, tiles)) {
                ts_cpu_offsets(job->sum_modes, spec->sum_count, job->rows.tensor, 0,
                               ts_min64(job->depth_block, spec->sum), depth_a);
                ts_cpu_offsets(job->sum_modes, spec->sum_count, job->columns.tensor, 0,
                               ts_min64(job->depth_block, spec->sum), depth_b);
                redo_inexact(job, store.inexact, &store, a, b, rows_a, columns_b + q * kernel->columns, depth_a, depth_b);
            }
        }
    }
}

/* An empty sum: 0 of the semiring, winner -1. */
static tensum_status contract_nothing(const ts_contract_spec *spec, void *c, void *winners, const ts_run *run)
{
    const ts_mode *modes = spec->modes;
    const int32_t count = spec->batch_count + spec->left_count + spec->right_count;
    if (!spec->accumulate) {
        const ts_element zero = ts_identity(spec->algebra, false);
        ts_cpu_fill(modes, count, tensum_dtype_bytes(spec->algebra.dtype), &zero, c, run);
    }
    if (spec->winner_bytes != 0) {
        ts_mode winner_modes[192];
        const int64_t none = -1;
        for (int32_t m = 0; m < count; m++) {
            winner_modes[m] = modes[m];
            winner_modes[m].c = modes[m].w;
        }
        ts_cpu_fill(winner_modes, count, spec->winner_bytes, &none, winners, run);
    }
    return TENSUM_OK;
}

tensum_status ts_cpu_contract(const ts_contract_spec *spec, const void *a, const void *b, void *c, void *winners,
                              const ts_run *run)
{
    if (spec->batch == 0 || spec->left == 0 || spec->right == 0) {
        return TENSUM_OK;
    }
    if (spec->sum == 0) {
        return contract_nothing(spec, c, winners, run);
    }
    const ts_cpu_kernel *kernel = ts_cpu_kernel_find(spec->algebra.semiring, spec->algebra.dtype);
    if (kernel == NULL) {
        return ts_pair_check(spec->algebra.semiring, spec->algebra.dtype);
    }
    if (ts_cpu_contract_tiny(spec, kernel, a, b, c, run->pool)) {
        return TENSUM_OK;
    }
    if (ts_cpu_is_direct(spec)) {
        ts_cpu_contract_direct(spec, kernel, a, b, c, winners, run->pool);
        return TENSUM_OK;
    }
    kernel = ts_cpu_kernel_fastest(spec->algebra.semiring, spec->algebra.dtype);
    contract_job job = {.spec = spec, .kernel = kernel, .c = c, .winners = winners,
               .element = tensum_dtype_bytes(spec->algebra.dtype)};
    choose_sides(&job, a, b);
    int32_t threads = ts_pool_threads(run->pool);
    lay_out(&job, threads);
    if (job.shared_bytes + (size_t)threads * job.worker_bytes > run->scratch_bytes) {
        return ts_fail(TENSUM_STATUS_INTERNAL, "contraction needs %zu bytes of scratch and has %zu",
                       job.shared_bytes + (size_t)threads * job.worker_bytes, run->scratch_bytes);
    }
    job.shared_scratch = run->scratch;
    job.worker_scratch = job.shared_scratch + job.shared_bytes;
    if (!job.shared) {
        ts_pool_run(run->pool, spec->batch * job.row_blocks * job.column_blocks, multiply_block, &job);
        return TENSUM_OK;
    }
    for (int64_t item = 0; item < spec->batch; item++) {
        job.batch_first = item;
        for (job.range_first = 0; job.range_first < job.columns.size; job.range_first += job.range) {
            job.range_size = ts_min64(job.range, job.columns.size - job.range_first);
            ts_pool_run(run->pool, pack_groups(&job) * (kernel->shifted ? 1 : job.chunks), pack_shared, &job);
            ts_pool_run(run->pool, job.row_blocks * job.column_blocks, multiply_block, &job);
        }
    }
    return TENSUM_OK;
}
