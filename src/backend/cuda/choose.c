#include "backend/cuda/choose.h"

uint32_t ts_cuda_grid(int64_t tile_count)
{
    return (uint32_t)(tile_count < 1 ? 1 : tile_count > INT32_MAX ? INT32_MAX : tile_count);
}

size_t ts_cuda_arithmetic_bytes(tensum_dtype dtype)
{
    return dtype == TENSUM_F16 || dtype == TENSUM_BF16 ? 4 : tensum_dtype_bytes(dtype);
}

/* Cut the sum into about `wanted` parts of at least `least` terms each. */
static void size_partials(int64_t results, tensum_dtype dtype, bool winners, ts_cuda_choice *choice)
{
    size_t count = (size_t)results * (size_t)choice->splits;

    choice->partial_bytes = 0;
    choice->partial_w_offset = 0;
    if (choice->splits > 1) {
        choice->partial_w_offset = (count * ts_cuda_arithmetic_bytes(dtype) + 127) / 128 * 128;
        choice->partial_bytes = choice->partial_w_offset + (winners ? (count * 8 + 127) / 128 * 128 : 0);
    }
}

/* What a variant is good for. Rates are of f32 max_plus on an H200 (132 multiprocessors), in pairs per second, as measured
 * by bench/tune; other dtypes and devices keep their proportions closely enough to choose by. */
typedef struct candidate {
    ts_cuda_variant variant;
    ts_cuda_kernel kernel, kernel_w;
    int32_t left, right, threads;
    int32_t blocks;    /* at a time on a multiprocessor */
    double rate, rate_w;
    double overhead_w; /* seconds per block with winners: finding them takes as long for a short sum */
} candidate;

static const candidate candidates[] = {
#define CANDIDATE(id, left, right, threads, blocks, rate, rate_w, overhead_w)                                          \
    {TS_CUDA_CONTRACT_##id, TS_CUDA_KERNEL_CONTRACT_##id, TS_CUDA_KERNEL_CONTRACT_##id##_W, left, right, threads, blocks, \
     rate, rate_w, overhead_w}
    CANDIDATE(BROAD, 128, 256, 256, 1, 13.5e12, 0.0, 0.0),
    CANDIDATE(LARGE, 128, 128, 256, 2, 13.0e12, 0.0, 0.0),
    CANDIDATE(DEEP, 128, 128, 256, 2, 0.0, 10.9e12, 2.5e-4),
    CANDIDATE(MIDDLE, 64, 64, 128, 4, 11.9e12, 6.6e12, 0.0),
    CANDIDATE(SMALL, 32, 64, 128, 4, 9.2e12, 6.2e12, 0.0),
    CANDIDATE(GENERIC, 16, 16, 256, 2, 1.2e12, 0.8e12, 0.0),
    CANDIDATE(SKINNY, 1, 128, 128, 8, 1.0e12, 0.7e12, 0.0),
    CANDIDATE(ROW, 1, 1, 256, 4, 0.5e12, 0.4e12, 0.0),
#undef CANDIDATE
};

/* Seconds, roughly: rounds of blocks, each with a latency and its share of the rate. */
static double guess(const candidate *which, int64_t batch, int64_t left, int64_t right, int64_t sum, int units, bool winners,
                    int64_t *splits)
{
    const double latency = 3e-6;
    const double combining = (double)batch * (double)left * (double)right * (winners ? 3e-11 : 6e-12);
    double tiles = (double)batch * (double)ts_divide_up(left, which->left) * (double)ts_divide_up(right, which->right);
    double slots = (double)units * which->blocks, rounds, share;

    *splits = 1;
    if (which->blocks > 1 && tiles * 2.0 <= slots && sum >= 256) {
        double most = (double)(sum / 128), wanted = slots / tiles;
        *splits = (int64_t)(wanted < most ? wanted : most);
        tiles *= (double)*splits;
    }
    rounds = tiles <= slots ? 1.0 : tiles / slots;
    share = (winners ? which->rate_w : which->rate) / 132.0 / which->blocks;
    return latency * (*splits > 1 ? 2.0 : 1.0) + (*splits > 1 ? combining * (double)*splits : 0.0) +
           rounds * (latency * 0.3 + (winners ? which->overhead_w : 0.0) +
                     (double)which->left * which->right * ((double)sum / (double)*splits) / share);
}

void ts_cuda_choose_contract(const ts_contract_spec *spec, int units, const bool *has, ts_cuda_choice *choice)
{
    const bool winners = spec->winner_bytes != 0;
    const candidate *best = NULL;
    double least = 0.0;
    int64_t wanted = 1, tiles, left, right;
    bool swap = false;

    *choice = (ts_cuda_choice){0};
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
        const candidate *which = &candidates[i];
        if (!has[winners ? which->kernel_w : which->kernel] || (winners ? which->rate_w : which->rate) == 0.0) {
            continue;
        }
        for (int side = 0; side < 2; side++) {
            int64_t splits;
            double seconds = guess(which, spec->batch, side == 0 ? spec->left : spec->right,
                                   side == 0 ? spec->right : spec->left, spec->sum, units, winners, &splits);
            if (best == NULL || seconds < 0.98 * least) {
                best = which;
                least = seconds;
                wanted = splits;
                swap = side == 1;
            }
        }
    }
    if (best == NULL) { /* every module has the generic one */
        best = &candidates[5];
    }
    choice->swap = swap;
    choice->seconds = least;
    left = swap ? spec->right : spec->left;
    right = swap ? spec->left : spec->right;
    choice->kernel = winners ? best->kernel_w : best->kernel;
    choice->threads = (uint32_t)best->threads;
    choice->shared_bytes =
        ts_cuda_contract_shared(best->variant, (uint32_t)ts_cuda_arithmetic_bytes(spec->algebra.dtype));
    choice->left_tiles = ts_divide_up(left, best->left);
    choice->right_tiles = ts_divide_up(right, best->right);
    tiles = spec->batch * choice->left_tiles * choice->right_tiles;
    choice->splits = 1;
    choice->split_terms = spec->sum;
    if (wanted > 1 && has[TS_CUDA_KERNEL_COMBINE]) {
        choice->split_terms = ts_divide_up(ts_divide_up(spec->sum, wanted), 16) * 16; /* whole panels */
        choice->splits = ts_divide_up(spec->sum, choice->split_terms);
    }
    choice->tile_count = tiles * choice->splits;
    choice->grid = ts_cuda_grid(choice->tile_count);
    size_partials(spec->batch * spec->left * spec->right, spec->algebra.dtype, winners, choice);
}

void ts_cuda_choose_reduce(const ts_reduce_spec *spec, int units, const bool *has, ts_cuda_choice *choice)
{
    *choice = (ts_cuda_choice){0};
    choice->threads = TS_CUDA_THREADS;
    choice->shared_bytes = TS_CUDA_REDUCE_SHARED;
    choice->splits = 1;
    choice->split_terms = spec->sum;
    if (has[TS_CUDA_KERNEL_REDUCE_ROW] && spec->sum >= 64 && spec->kept > 0) { /* the most splits; strides tell how many */
        const int64_t enough = 8 * (int64_t)units, room = enough * TS_CUDA_THREADS / spec->kept;
        choice->kernel = TS_CUDA_KERNEL_REDUCE_ROW;
        choice->splits = has[TS_CUDA_KERNEL_COMBINE] ? (room < enough ? room : enough) : 1;
        choice->splits = choice->splits < spec->sum / 64 ? choice->splits : spec->sum / 64;
        choice->splits = choice->splits < 1 ? 1 : choice->splits;
        choice->tile_count = spec->kept * choice->splits;
    } else {
        choice->kernel = TS_CUDA_KERNEL_REDUCE;
        choice->tile_count = ts_divide_up(spec->kept, TS_CUDA_THREADS);
    }
    choice->grid = ts_cuda_grid(choice->tile_count);
    size_partials(spec->kept, spec->algebra.dtype, spec->winner_bytes != 0, choice);
}
