/* Contractions by plain loops over tables of offsets: small ones, and those with a tiny operand. */
#include "backend/cpu/cpu.h"

#define DIRECT_PAIRS 16384 /* smaller contractions are not worth packing */

/* Without packing and without scratch: small sizes, where packing costs more than it saves, and large ones that are bound
 * by memory anyway, because one operand is tiny or the sum is short. */
bool ts_cpu_is_direct(const ts_contract_spec *spec)
{
    const int64_t fewer = ts_min64(spec->left, spec->right);
    if (spec->sum > TS_DIRECT_DEPTH) {
        return false;
    }
    return (double)spec->batch * (double)spec->left * (double)spec->right * (double)spec->sum <= DIRECT_PAIRS ||
           fewer <= 4 || (spec->sum <= 4 && fewer <= 32) || (fewer <= 16 && spec->left * spec->right * spec->sum <= 1024);
}

typedef struct direct_job {
    const ts_contract_spec *spec;
    const ts_cpu_kernel *kernel;
    const void *a, *b; /* of the left and the right side, after swapping */
    void *c, *winners;
    bool swapped;
    const ts_mode *left, *right, *sum;
    int32_t left_count, right_count;
    ts_cpu_tensor left_tensor, right_tensor;
    int64_t left_size, right_size;
    int64_t batch_piece, left_piece, right_piece;    /* sizes of a piece */
    int64_t batch_pieces, left_pieces, right_pieces; /* and their numbers */
    bool conjugate_a, conjugate_b;
} direct_job;

static void describe(direct_job *job, const ts_contract_spec *spec, const ts_cpu_kernel *kernel)
{
    const ts_mode *left = spec->modes + spec->batch_count, *right = left + spec->left_count;
    /* The right side runs along vectors: the larger one, or that along which the result is contiguous. */
    const bool swap = spec->left > 4 * spec->right ||
                      (spec->right <= 4 * spec->left &&
                       ts_cpu_smallest_stride(left, spec->left_count) < ts_cpu_smallest_stride(right, spec->right_count));
    job->spec = spec;
    job->kernel = kernel;
    job->swapped = swap;
    job->left = swap ? right : left;
    job->right = swap ? left : right;
    job->sum = right + spec->right_count;
    job->left_count = swap ? spec->right_count : spec->left_count;
    job->right_count = swap ? spec->left_count : spec->right_count;
    job->left_tensor = swap ? TS_TENSOR_B : TS_TENSOR_A;
    job->right_tensor = swap ? TS_TENSOR_A : TS_TENSOR_B;
    job->left_size = swap ? spec->right : spec->left;
    job->right_size = swap ? spec->left : spec->right;
    job->conjugate_a = swap ? spec->conjugate_b : spec->conjugate_a;
    job->conjugate_b = swap ? spec->conjugate_a : spec->conjugate_b;
    job->right_piece = ts_min64(job->right_size, TS_DIRECT_COLUMNS);
    job->left_piece = ts_min64(job->left_size, TS_DIRECT_COLUMNS);
    const int64_t pairs = job->right_piece * job->left_piece * spec->sum;
    job->batch_piece = ts_max64(1, ts_min64(ts_min64(spec->batch, TS_DIRECT_COLUMNS), DIRECT_PAIRS / pairs));
    job->right_pieces = ts_divide_up(job->right_size, job->right_piece);
    job->left_pieces = ts_divide_up(job->left_size, job->left_piece);
    job->batch_pieces = ts_divide_up(spec->batch, job->batch_piece);
}

/* Room for the tables of one piece. */
typedef struct direct_tables {
    int64_t *batch[4], *left[3], *right[3], *sum[2]; /* operands (a, b), c, w */
} direct_tables;

static void set_piece(const direct_job *job, const int64_t first[3], const int64_t size[3], const direct_tables *t,
                      ts_cpu_direct *direct)
{
    const ts_contract_spec *spec = job->spec;
    const ts_mode *modes = spec->modes;
    ts_cpu_offsets(modes, spec->batch_count, job->left_tensor, first[0], size[0], t->batch[0]);
    ts_cpu_offsets(modes, spec->batch_count, job->right_tensor, first[0], size[0], t->batch[1]);
    ts_cpu_offsets(modes, spec->batch_count, TS_TENSOR_C, first[0], size[0], t->batch[2]);
    ts_cpu_offsets(job->left, job->left_count, job->left_tensor, first[1], size[1], t->left[0]);
    ts_cpu_offsets(job->left, job->left_count, TS_TENSOR_C, first[1], size[1], t->left[1]);
    ts_cpu_offsets(job->right, job->right_count, job->right_tensor, first[2], size[2], t->right[0]);
    ts_cpu_offsets(job->right, job->right_count, TS_TENSOR_C, first[2], size[2], t->right[1]);
    ts_cpu_offsets(job->sum, spec->sum_count, job->left_tensor, 0, spec->sum, t->sum[0]);
    ts_cpu_offsets(job->sum, spec->sum_count, job->right_tensor, 0, spec->sum, t->sum[1]);
    if (spec->winner_bytes != 0) {
        ts_cpu_offsets(modes, spec->batch_count, TS_TENSOR_W, first[0], size[0], t->batch[3]);
        ts_cpu_offsets(job->left, job->left_count, TS_TENSOR_W, first[1], size[1], t->left[2]);
        ts_cpu_offsets(job->right, job->right_count, TS_TENSOR_W, first[2], size[2], t->right[2]);
    }
    const ts_cpu_direct piece = {
        .a = job->a, .b = job->b, .c = job->c, .winners = job->winners,
        .batch = (int32_t)size[0], .left = (int32_t)size[1], .right = (int32_t)size[2], .sum = (int32_t)spec->sum,
        .batch_a = t->batch[0], .batch_b = t->batch[1], .batch_c = t->batch[2], .batch_w = t->batch[3],
        .left_a = t->left[0], .left_c = t->left[1], .left_w = t->left[2],
        .right_b = t->right[0], .right_c = t->right[1], .right_w = t->right[2], .sum_a = t->sum[0], .sum_b = t->sum[1],
        .right_unit_b = ts_cpu_unit(t->right[0], size[2]), .right_unit_c = ts_cpu_unit(t->right[1], size[2]),
        .conjugate_a = job->conjugate_a, .conjugate_b = job->conjugate_b,
        .accumulate = spec->accumulate, .winner_bytes = spec->winner_bytes, .modulus = spec->algebra.modulus,
    };
    *direct = piece;
}

static void direct_piece(void *argument, int64_t index, int32_t worker)
{
    const direct_job *job = argument;
    int64_t columns[10][TS_DIRECT_COLUMNS], depths[2][TS_DIRECT_DEPTH];
    const direct_tables tables = {
        {columns[0], columns[1], columns[2], columns[3]}, {columns[4], columns[5], columns[6]},
        {columns[7], columns[8], columns[9]}, {depths[0], depths[1]},
    };
    ts_cpu_direct direct;
    (void)worker;
    const int64_t rest = index / job->right_pieces;
    const int64_t first[3] = {rest / job->left_pieces * job->batch_piece, rest % job->left_pieces * job->left_piece,
                              index % job->right_pieces * job->right_piece};
    const int64_t size[3] = {ts_min64(job->batch_piece, job->spec->batch - first[0]),
                             ts_min64(job->left_piece, job->left_size - first[1]),
                             ts_min64(job->right_piece, job->right_size - first[2])};
    set_piece(job, first, size, &tables, &direct);
    job->kernel->direct(&direct);
}

void ts_cpu_contract_direct(const ts_contract_spec *spec, const ts_cpu_kernel *kernel, const void *a, const void *b,
                            void *c, void *winners, ts_pool *pool)
{
    direct_job job;
    describe(&job, spec, kernel);
    job.a = job.swapped ? b : a;
    job.b = job.swapped ? a : b;
    job.c = c;
    job.winners = winners;
    const int64_t pieces = job.right_pieces * job.left_pieces * job.batch_pieces;
    if (pieces == 1) {
        direct_piece(&job, 0, 0);
    } else {
        ts_pool_run(pool, pieces, direct_piece, &job);
    }
}

/* ---- prepared: one piece whose tables stay ---- */

typedef struct prepared_direct {
    ts_prepared head;
    void (*kernel)(const ts_cpu_direct *direct);
    bool swapped;
    ts_cpu_direct direct;
    int64_t tables[];
} prepared_direct;

static void run_prepared(ts_prepared *prepared, const void *a, const void *b, void *c, void *winners)
{
    prepared_direct *p = (prepared_direct *)prepared;
    p->direct.a = p->swapped ? b : a;
    p->direct.b = p->swapped ? a : b;
    p->direct.c = c;
    p->direct.winners = winners;
    p->kernel(&p->direct);
}

size_t ts_cpu_prepared_bytes(const ts_contract_spec *spec)
{
    const int64_t most = TS_DIRECT_COLUMNS;
    if (spec->batch < 1 || spec->left < 1 || spec->right < 1 || spec->sum < 1 || spec->batch > most || spec->left > most ||
        spec->right > most || spec->sum > TS_DIRECT_DEPTH || spec->batch * spec->left * spec->right * spec->sum > DIRECT_PAIRS ||
        ts_cpu_kernel_find(spec->algebra.semiring, spec->algebra.dtype) == NULL) {
        return 0;
    }
    const int64_t entries = 4 * spec->batch + 3 * spec->left + 3 * spec->right + 2 * spec->sum;
    return sizeof(prepared_direct) + (size_t)entries * sizeof(int64_t);
}

ts_prepared *ts_cpu_prepare(const ts_contract_spec *spec, void *memory)
{
    prepared_direct *p = memory;
    direct_job job = {0};
    direct_tables tables;
    int64_t *next = p->tables;
    describe(&job, spec, ts_cpu_kernel_find(spec->algebra.semiring, spec->algebra.dtype));
    const int64_t first[3] = {0, 0, 0}, size[3] = {spec->batch, job.left_size, job.right_size};
    for (int t = 0; t < 4; t++, next += size[0]) {
        tables.batch[t] = next;
    }
    for (int t = 0; t < 3; t++, next += size[1]) {
        tables.left[t] = next;
    }
    for (int t = 0; t < 3; t++, next += size[2]) {
        tables.right[t] = next;
    }
    for (int t = 0; t < 2; t++, next += spec->sum) {
        tables.sum[t] = next;
    }
    set_piece(&job, first, size, &tables, &p->direct);
    p->head.run = run_prepared;
    p->kernel = job.kernel->direct;
    p->swapped = job.swapped;
    return &p->head;
}
