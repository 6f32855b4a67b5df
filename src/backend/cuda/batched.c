#include "backend/cuda/batched.h"

#include "backend/cuda/choose.h"
#include "backend/cuda/kernels/batched_abi.h"
#include "backend/cuda/team.h"

/* Rounds of tiles, of f32 max_plus on an H200, as in choose.c. */
static double guess(const ts_contract_spec *spec, double tiles, int units)
{
    const double slots = (double)units * TS_CUDA_BATCHED_BLOCKS, terms = (double)spec->sum;
    const double round = spec->winner_bytes != 0 ? 4.8e-6 + 0.2e-6 * terms : 1.0e-6 + 0.153e-6 * terms;
    return 3e-6 + (tiles <= slots ? 1.0 : tiles / slots) * round;
}

/* Teams of warps (team.c) are for few tiles, but do not find winners. */
static bool suits(const ts_cuda_list *list, const ts_contract_spec *spec, double tiles, double seconds)
{
    const bool teams = spec->winner_bytes == 0 && (list->device->product == TS_CUDA_PRODUCT_TEAMS || tiles < 2.0 * list->units);
    return list->device->product == TS_CUDA_PRODUCT_BATCHED || (!teams && guess(spec, tiles, list->units) < seconds);
}

/* Kernels take steps of results in 32 bits. */
static bool is_short(int64_t step) { return step > -((int64_t)1 << 27) && step < (int64_t)1 << 27; }

static bool describe(ts_cuda_batched *p, const ts_contract_spec *spec, const ts_cuda_contract *from, ts_cuda_pointer w, const ts_mode *modes)
{
    const int32_t kept = from->batch_count + from->left_count + from->right_count;
    const ts_mode none = {.extent = 1}, *batch = from->batch_count > 0 ? modes : &none;
    const ts_mode *left = from->left_count > 0 ? modes + from->batch_count : &none;
    const ts_mode *right = from->right_count > 0 ? modes + from->batch_count + from->left_count : &none;
    const ts_mode *sum = from->sum_count > 0 ? modes + kept : &none;
    const bool swap = right->c != 1 && left->c == 1; /* neighbouring lanes have neighbouring columns */
    const ts_mode *rows = swap ? right : left, *columns = swap ? left : right;

    *p = (ts_cuda_batched){.c = from->c, .w = w, .accumulate = from->accumulate, .c_batch = batch->c, .w_batch = batch->w,
                           .sum = (int32_t)spec->sum, .winner_bytes = spec->winner_bytes};
    if (!is_short(rows->c) || !is_short(columns->c) || !is_short(rows->w) || !is_short(columns->w)) {
        return false;
    }
    p->c_row = (int32_t)rows->c;
    p->c_column = (int32_t)columns->c;
    p->w_row = (int32_t)rows->w;
    p->w_column = (int32_t)columns->w;
    return ts_cuda_team_side_of(&p->side[swap ? 1 : 0], from->a, spec->left, spec->sum, batch->a, left->a, sum->a) &&
           ts_cuda_team_side_of(&p->side[swap ? 0 : 1], from->b, spec->right, spec->sum, batch->b, right->b, sum->b);
}

tensum_status ts_cuda_add_batched(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec,
                                  const ts_cuda_contract *from, ts_cuda_pointer w, const ts_mode *modes, double seconds, bool *added)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_kernel kernel = spec->winner_bytes != 0 ? TS_CUDA_KERNEL_BATCHED_W : TS_CUDA_KERNEL_BATCHED;
    const int32_t kept = from->batch_count + from->left_count + from->right_count, count = kept + from->sum_count;
    const uint32_t shared = ts_cuda_batched_shared();
    const double sides = (double)ts_divide_up(spec->left, TS_CUDA_BATCHED_TILE) * (double)ts_divide_up(spec->right, TS_CUDA_BATCHED_TILE);
    const double tiles = (double)spec->batch * sides;
    ts_cuda_batched p;

    *added = false;
    if (list->measure || !kernels->has[kernel] || spec->sum == 0 || spec->sum % 4 != 0 || spec->sum > TS_CUDA_BATCHED_TILE ||
        from->batch_count > 1 || from->left_count > 1 || from->right_count > 1 || from->sum_count > 1 || tiles > (double)INT32_MAX ||
        shared > list->device->shared_limit || !suits(list, spec, tiles, seconds) ||
        !describe(&p, spec, from, w, modes)) {
        return TENSUM_OK;
    }
    p.tiles[0] = (int32_t)ts_divide_up(p.side[0].rows, TS_CUDA_BATCHED_TILE);
    p.tiles[1] = (int32_t)ts_divide_up(p.side[1].rows, TS_CUDA_BATCHED_TILE);
    p.tile_count = (int32_t)tiles;
    TRY(ts_cuda_add_launch(list, kernels, kernel, ts_cuda_grid(p.tile_count), TS_CUDA_BATCHED_THREADS, shared, &p, sizeof p));
    ts_cuda_reads(list, from->a, TS_CUDA_SPAN(modes, count, a, 4));
    ts_cuda_reads(list, from->b, TS_CUDA_SPAN(modes, count, b, 4));
    ts_cuda_writes(list, from->c, TS_CUDA_SPAN(modes, kept, c, 4));
    if (spec->winner_bytes != 0) {
        ts_cuda_writes(list, w, TS_CUDA_SPAN(modes, kept, w, spec->winner_bytes));
    }
    *added = true;
done:
    return status;
}
