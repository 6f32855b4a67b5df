#include "backend/cuda/team.h"

#include "backend/cuda/choose.h"
#include "backend/cuda/kernels/team_abi.h"

/* Rates are of f32 max_plus on an H200, in pairs per second, as in choose.c. */
typedef struct shape {
    ts_cuda_kernel kernel;
    int32_t rows, columns;
    uint32_t threads, shared;
    double rate;
} shape;
static const double rates[TS_CUDA_TEAM_SHAPE_COUNT] = {[TS_CUDA_SHAPE_TEAM] = 12.5e12, [TS_CUDA_SHAPE_TEAMS] = 13.8e12};

static shape shape_of(int which)
{
    switch (which) {
#define SHAPE(id, name, rows, columns, terms, threads, stages) \
    case TS_CUDA_SHAPE_##id:                                   \
        return (shape){TS_CUDA_KERNEL_##id, rows, columns, threads, ts_cuda_team_shared(rows, columns, terms, threads, stages), rates[which]};
        TS_CUDA_TEAM_SHAPES(SHAPE)
#undef SHAPE
    default: return (shape){0};
    }
}

/* One tile after the other on each multiprocessor; starting and storing one takes about as long as here. */
static double guess(const shape *s, const ts_contract_spec *spec, int units)
{
    const double tiles = (double)spec->batch * (double)ts_divide_up(spec->left, s->rows) * (double)ts_divide_up(spec->right, s->columns);
    const double rounds = (double)ts_divide_up((int64_t)(tiles < 1e9 ? tiles : 1e9), units);
    return 3e-6 + rounds * (4e-6 + (double)s->rows * s->columns * (double)spec->sum * 132.0 / s->rate);
}

bool ts_cuda_team_side_of(ts_cuda_team_side *side, ts_cuda_pointer from, int64_t rows, int64_t sum, int64_t batch_step, int64_t row_step,
                     int64_t term_step)
{
    const bool steep = term_step == 1 && sum % 4 == 0 && (rows == 1 || row_step % 4 == 0);
    const int64_t limit = (int64_t)1 << 28;

    if (batch_step % 4 != 0 || (!steep && (row_step != 1 || rows % 4 != 0 || (sum > 1 && term_step % 4 != 0))) || row_step < 0 ||
        term_step < 0 || row_step > limit || term_step > limit || rows > limit || sum > limit || rows * row_step > limit ||
        sum * term_step > limit) {
        return false;
    }
    *side = (ts_cuda_team_side){.from = from, .batch_step = batch_step, .row_step = (uint32_t)row_step * 4u,
                                .term_step = (uint32_t)term_step * 4u, .rows = (int32_t)rows, .steep = steep};
    return true;
}

tensum_status ts_cuda_add_team(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec,
                               const ts_cuda_contract *from, const ts_mode *modes, double seconds, bool *added)
{
    tensum_status status = TENSUM_OK;
    const int32_t kept = from->batch_count + from->left_count + from->right_count, count = kept + from->sum_count;
    const ts_mode none = {.extent = 1}, *batch = from->batch_count > 0 ? modes : &none;
    const ts_mode *left = from->left_count > 0 ? modes + from->batch_count : &none;
    const ts_mode *right = from->right_count > 0 ? modes + from->batch_count + from->left_count : &none;
    const ts_mode *sum = from->sum_count > 0 ? modes + kept : &none;
    ts_cuda_team p = {0};
    shape best = {0};
    int64_t tiles[2];
    bool found = false;

    *added = false;
    if (list->device->product == TS_CUDA_PRODUCT_TEAMS) {
        seconds = 1e300;
    }
    if (list->measure || spec->winner_bytes != 0 || spec->sum == 0 || from->batch_count > 1 || from->left_count > 1 ||
        from->right_count > 1 || from->sum_count > 1) {
        return TENSUM_OK;
    }
    for (int which = 0; which < TS_CUDA_TEAM_SHAPE_COUNT; which++) {
        const shape s = shape_of(which);
        const double guessed = guess(&s, spec, list->units);
        if (kernels->has[s.kernel] && s.shared <= list->device->shared_limit && guessed < seconds) {
            best = s;
            seconds = guessed;
            found = true;
        }
    }
    if (!found || !ts_cuda_team_side_of(&p.side[0], from->a, spec->left, spec->sum, batch->a, left->a, sum->a) ||
        !ts_cuda_team_side_of(&p.side[1], from->b, spec->right, spec->sum, batch->b, right->b, sum->b)) {
        return TENSUM_OK;
    }
    tiles[0] = ts_divide_up(spec->left, best.rows);
    tiles[1] = ts_divide_up(spec->right, best.columns);
    if (spec->batch > INT32_MAX / tiles[0] / tiles[1]) {
        return TENSUM_OK;
    }
    p.c = from->c;
    p.accumulate = from->accumulate;
    p.c_batch = batch->c;
    p.c_row = left->c;
    p.c_column = right->c;
    p.sum = (int32_t)spec->sum;
    p.tiles[0] = (int32_t)tiles[0];
    p.tiles[1] = (int32_t)tiles[1];
    p.tile_count = (int32_t)(spec->batch * tiles[0] * tiles[1]);
    TRY(ts_cuda_add_launch(list, kernels, best.kernel, ts_cuda_grid(p.tile_count), best.threads, best.shared, &p, sizeof p));
    ts_cuda_reads(list, from->a, TS_CUDA_SPAN(modes, count, a, 4));
    ts_cuda_reads(list, from->b, TS_CUDA_SPAN(modes, count, b, 4));
    ts_cuda_writes(list, from->c, TS_CUDA_SPAN(modes, kept, c, 4));
    *added = true;
done:
    return status;
}
