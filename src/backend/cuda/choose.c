#include "backend/cuda/choose.h"

static int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

uint32_t ts_cuda_grid(int64_t tile_count)
{
    return (uint32_t)(tile_count < 1 ? 1 : tile_count > INT32_MAX ? INT32_MAX : tile_count);
}

size_t ts_cuda_arithmetic_bytes(tensum_dtype dtype)
{
    return dtype == TENSUM_F16 || dtype == TENSUM_BF16 ? 4 : tensum_dtype_bytes(dtype);
}

/* Cut the sum into about `wanted` parts of at least `least` terms each. */
static void split(int64_t sum, int64_t wanted, int64_t least, ts_cuda_choice *choice)
{
    int64_t most = sum / least;

    choice->splits = 1;
    choice->split_terms = sum;
    if (wanted > most) {
        wanted = most;
    }
    if (wanted > 64) {
        wanted = 64;
    }
    if (wanted > 1) {
        choice->split_terms = divide_up(sum, wanted);
        choice->splits = divide_up(sum, choice->split_terms);
    }
}

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

void ts_cuda_choose_contract(const ts_contract_spec *spec, int units, const bool *has, ts_cuda_choice *choice)
{
    int64_t tiles;

    (void)has;
    *choice = (ts_cuda_choice){0};
    choice->kernel = spec->winner_bytes != 0 ? TS_CUDA_KERNEL_CONTRACT_GENERIC_W : TS_CUDA_KERNEL_CONTRACT_GENERIC;
    choice->threads = 256;
    choice->shared_bytes = ts_cuda_contract_shared(TS_CUDA_CONTRACT_GENERIC,
                                                   (uint32_t)ts_cuda_arithmetic_bytes(spec->algebra.dtype));
    choice->left_tiles = divide_up(spec->left, 16);
    choice->right_tiles = divide_up(spec->right, 16);
    tiles = spec->batch * choice->left_tiles * choice->right_tiles;
    split(spec->sum, tiles > 0 ? 4 * (int64_t)units / tiles : 1, 512, choice);
    choice->tile_count = tiles * choice->splits;
    choice->grid = ts_cuda_grid(choice->tile_count);
    size_partials(spec->batch * spec->left * spec->right, spec->algebra.dtype, spec->winner_bytes != 0, choice);
}

void ts_cuda_choose_reduce(const ts_reduce_spec *spec, int units, const bool *has, ts_cuda_choice *choice)
{
    *choice = (ts_cuda_choice){0};
    choice->threads = TS_CUDA_THREADS;
    choice->shared_bytes = TS_CUDA_REDUCE_SHARED;
    choice->splits = 1;
    choice->split_terms = spec->sum;
    if (has[TS_CUDA_KERNEL_REDUCE_ROW] && spec->sum >= 64 && spec->kept < 64 * (int64_t)units * TS_CUDA_THREADS) {
        choice->kernel = TS_CUDA_KERNEL_REDUCE_ROW;
        if (has[TS_CUDA_KERNEL_COMBINE]) {
            split(spec->sum, spec->kept > 0 ? 4 * (int64_t)units / spec->kept : 1, 4096, choice);
        }
        choice->tile_count = spec->kept * choice->splits;
    } else {
        choice->kernel = TS_CUDA_KERNEL_REDUCE;
        choice->tile_count = divide_up(spec->kept, TS_CUDA_THREADS);
    }
    choice->grid = ts_cuda_grid(choice->tile_count);
    size_partials(spec->kept, spec->algebra.dtype, spec->winner_bytes != 0, choice);
}
