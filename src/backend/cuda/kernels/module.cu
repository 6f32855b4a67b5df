/* All kernels of one semiring; see abi.h for the names and for the definitions it is compiled with. */
#include "adjoint.h"
#include "batched.h"
#include "chain_back.h"
#include "direct.h"
#include "fold.h"
#include "packed.h"
#include "path.h"
#include "stream.h"
#include "sweep.h"
#include "team.h"
#include "tile.h"
#include "trace.h"
#include "tree.h"

#include "algebra/algebra.h"

#define TS_JOIN_(a, b) a##b
#define TS_JOIN(a, b) TS_JOIN_(a, b)
#define TS_NAME__(s, d, tail) ts_##s##_##d##_##tail
#define TS_NAME_(s, d, tail) TS_NAME__(s, d, tail)
#define TS_NAME(d, tail) TS_NAME_(TS_MODULE_SEMIRING, d, tail)

/* One contract kernel by tiles. Pack: results per accumulator. The rest as in abi.h's table and in tile.h. */
#define TS_TILED(d, tail, variant, pack, track, bm, bn, bk, tm, tn, threads, stages, blocks)                               \
    TS_KERNEL_BLOCKS(TS_NAME(d, tail), ts_cuda_contract, threads, blocks)                                                  \
    {                                                                                                                      \
        typedef ts_tile<pair_##d, ts_micro_of<pair_##d, pack>, bm, bn, bk, tm, tn, threads, stages, track> tile;           \
        static_assert(tile::SHARED <= (int)ts_cuda_contract_shared(TS_CUDA_CONTRACT_##variant, sizeof(pair_##d::value)), "the table in abi.h is short"); \
        tile::run(p);                                                                                                      \
    }

/* Blocks at a time, by what the accumulators leave of the registers. */
#define TS_BLOCKS_SMALL(d) (sizeof(pair_##d::value) <= 4 ? 4 : 2)
#define TS_BLOCKS_LARGE(d) (sizeof(pair_##d::value) <= 4 ? 2 : 1)
/* A saturating product of 16-bit integers takes more registers than half of them. */
#define TS_BLOCKS_DEEP(d) (pair_##d::kind == ts_kind_i16 && pair_##d::mul_op == ts_op_ntimes ? 1 : 2)
#define TS_CHAIN_BLOCKS(d) (pair_##d::add_op == ts_op_lse ? 1 : 2) /* exponentials take registers */

/* What every pair has. */
#define TS_ALWAYS(d)                                                                                                       \
    TS_TILED(d, contract_generic, GENERIC, 1, 0, 16, 16, 16, 1, 1, 256, 3, 2)                                                 \
    TS_TILED(d, contract_small, SMALL, ts_pack_of<pair_##d>::pack, 0, 32, 64, 16, 4, 4, 128, 4, TS_BLOCKS_SMALL(d))                            \
    TS_KERNEL(TS_NAME(d, contract_skinny), ts_cuda_contract, 128) { ts_contract_skinny<pair_##d, false>(p); }              \
    TS_KERNEL_BLOCKS(TS_NAME(d, stream), ts_cuda_stream, TS_CUDA_STREAM_THREADS, TS_CUDA_STREAM_BLOCKS) { ts_stream<ts_stream_sum<pair_##d>>(p); } \
    TS_KERNEL(TS_NAME(d, contract_row), ts_cuda_contract, 256) { ts_contract_row<pair_##d, false>(p); }                    \
    TS_KERNEL(TS_NAME(d, fold), ts_cuda_fold, TS_CUDA_FOLD_THREADS) { ts_fold<pair_##d>::run(p); }                            \
    TS_KERNEL(TS_NAME(d, tree), ts_cuda_tree, TS_CUDA_TREE_THREADS) { ts_subtree<pair_##d>::run(p); }                         \
    TS_KERNEL_BLOCKS(TS_NAME(d, chain), ts_cuda_chain, TS_CUDA_CHAIN_THREADS, TS_CHAIN_BLOCKS(d)) { ts_chain<pair_##d>::run(p); } \
    TS_KERNEL(TS_NAME(d, reduce), ts_cuda_reduce, TS_CUDA_THREADS) { ts_reduce_each<pair_##d>(p); }                        \
    TS_KERNEL_BLOCKS(TS_NAME(d, reduce_row), ts_cuda_reduce, TS_CUDA_THREADS, 3) { ts_reduce_row<pair_##d>(p); }           \
    TS_KERNEL(TS_NAME(d, combine), ts_cuda_combine, TS_CUDA_THREADS) { ts_combine<pair_##d, pair_##d::selective>(p); }

/* What selective pairs have beside: winners, decode, a domain where there is one. */
#define TS_CHOOSING(d)                                                                                                     \
    TS_TILED(d, contract_generic_w, GENERIC, 1, 1, 16, 16, 16, 1, 1, 256, 3, 2)                                               \
    TS_TILED(d, contract_small_w, SMALL, 1, 1, 32, 64, 16, 4, 4, 128, 4, TS_BLOCKS_SMALL(d))                                                   \
    TS_KERNEL(TS_NAME(d, contract_skinny_w), ts_cuda_contract, 128) { ts_contract_skinny<pair_##d, true>(p); }             \
    TS_KERNEL(TS_NAME(d, contract_row_w), ts_cuda_contract, 256) { ts_contract_row<pair_##d, true>(p); }                   \
    TS_KERNEL(TS_NAME(d, decode), ts_cuda_path, TS_CUDA_THREADS) { ts_path<pair_##d>::run(p); }                         \
    TS_KERNEL(TS_NAME(d, route), ts_cuda_route, TS_CUDA_THREADS) { ts_route<pair_##d>(p); }

#define TS_SLICES(d)                                                                                                       \
    TS_KERNEL(TS_NAME(d, absorb), ts_cuda_slices, TS_CUDA_THREADS) { ts_absorb<pair_##d>(p); }                             \
    TS_KERNEL(TS_NAME(d, seed), ts_cuda_slices, TS_CUDA_THREADS) { ts_seed<pair_##d>(p); }
#define TS_ADJOINTS(d)                                                                                                     \
    TS_KERNEL(TS_NAME(d, adjoint), ts_cuda_adjoint, TS_CUDA_THREADS) { ts_adjoint<pair_##d>(p); }                           \
    TS_SLICES(d)
#define TS_REDUCE_ADJOINTS(d)                                                                                              \
    TS_KERNEL(TS_NAME(d, reduce_adjoint), ts_cuda_reduce_adjoint, TS_CUDA_THREADS) { ts_reduce_adjoint<pair_##d>(p); }
#define TS_CHECKS(d)                                                                                                       \
    TS_KERNEL(TS_NAME(d, check), ts_cuda_check, TS_CUDA_THREADS) { ts_check<pair_##d>(p); }

#define TS_BACK(d)                                                                                                         \
    TS_KERNEL_BLOCKS(TS_NAME(d, chain_back), ts_cuda_chain_back, TS_CUDA_BACK_THREADS, TS_CUDA_BACK_BLOCKS) { ts_chain_back<pair_##d>::run(p); }
#define TS_BACK_f16
#define TS_BACK_bf16
#define TS_BACK_f32 TS_BACK(f32)
#define TS_BACK_f64 TS_BACK(f64)
#define TS_BACK_c64 TS_BACK(c64)
#define TS_BACK_c128 TS_BACK(c128)
#define TS_BACK_i16
#define TS_BACK_i32
#define TS_BACK_i64

/* The lists of dtypes that have them, per semiring: by the list's name and by whether the semiring is selective. */
#define TS_MORE_0_NUMBER(d) TS_REDUCE_ADJOINTS(d) TS_BACK_##d
#define TS_MORE_0_FLOATING(d) TS_ADJOINTS(d) TS_REDUCE_ADJOINTS(d)
#define TS_MORE_0_BOOLEAN(d)
#define TS_MORE_0_COUNTED(d)
#define TS_MORE_0_RESIDUE(d) TS_CHECKS(d)
#define TS_MORE_1_ORDERED(d) TS_CHOOSING(d) TS_ADJOINTS(d) TS_REDUCE_ADJOINTS(d) TS_CHECKS(d)
#define TS_MORE_1_FLOATING(d) TS_CHOOSING(d) TS_ADJOINTS(d) TS_REDUCE_ADJOINTS(d) TS_CHECKS(d)
#define TS_MORE_1_BOOLEAN(d) TS_CHOOSING(d) TS_ADJOINTS(d) TS_REDUCE_ADJOINTS(d)
#define TS_MORE TS_JOIN(TS_JOIN(TS_JOIN(TS_MORE_, TS_MODULE_SELECTIVE), _), TS_MODULE_DTYPES)

/* log_sum_exp, the one non-selective semiring over FLOATING, has no large tiles: two registers per accumulator and an
 * exponential per term make them the slower ones. */
#define TS_LARGE_0_NUMBER(...) __VA_ARGS__
#define TS_LARGE_0_FLOATING(...)
#define TS_LARGE_0_BOOLEAN(...) __VA_ARGS__
#define TS_LARGE_0_COUNTED(...)
#define TS_LARGE_0_RESIDUE(...)
#define TS_LARGE_1_ORDERED(...) __VA_ARGS__
#define TS_LARGE_1_FLOATING(...) __VA_ARGS__
#define TS_LARGE_1_BOOLEAN(...) __VA_ARGS__
#define TS_LARGE(...) TS_JOIN(TS_JOIN(TS_JOIN(TS_LARGE_, TS_MODULE_SELECTIVE), _), TS_MODULE_DTYPES)(__VA_ARGS__)

/* 128x128 results per block: for dtypes whose accumulators leave room for 8x8 of them per thread. With winners where they
 * take a word at most. */
#define TS_LARGE_f16(d) TS_LARGE_VALUES(d) TS_MIDDLE_VALUES(d) TS_LARGE_WINNERS(TS_MODULE_SELECTIVE, d)
#define TS_LARGE_bf16(d) TS_LARGE_f16(d)
#define TS_LARGE_f32(d) TS_LARGE_f16(d) TS_BROAD(TS_MODULE_SELECTIVE, d) TS_TEAMS(d) TS_BATCHES(TS_MODULE_SELECTIVE, d)
#define TS_LARGE_i16(d) TS_LARGE_f16(d)
#define TS_LARGE_i32(d) TS_LARGE_f16(d) TS_TEAMS(d) TS_BATCHES(TS_MODULE_SELECTIVE, d)
#define TS_LARGE_bool(d) TS_LARGE_VALUES(d) TS_LARGE_WINNERS(TS_MODULE_SELECTIVE, d)
#define TS_LARGE_f64(d) TS_LARGE_VALUES(d)
#define TS_LARGE_i64(d)
#define TS_LARGE_c64(d)
#define TS_LARGE_c128(d)
#define TS_LARGE_vc64(d)
#define TS_LARGE_vc128(d)
#define TS_LARGE_VALUES(d) TS_TILED(d, contract_large, LARGE, ts_pack_of<pair_##d>::pack, 0, 128, 128, 16, 8, 8, 256, 4, TS_BLOCKS_LARGE(d))
#define TS_MIDDLE_VALUES(d) TS_TILED(d, contract_middle, MIDDLE, ts_pack_of<pair_##d>::pack, 0, 64, 64, 16, 8, 4, 128, 4, 4)
#define TS_BROAD(sel, d) TS_BROAD_(sel, d)
#define TS_BROAD_(sel, d) TS_BROAD_##sel(d)
#define TS_BROAD_0(d)
#define TS_BROAD_1(d) TS_TILED(d, contract_broad, BROAD, 1, 0, 128, 256, 16, 8, 16, 256, 4, 1)
#define TS_LARGE_WINNERS(sel, d) TS_LARGE_WINNERS_(sel, d)
#define TS_LARGE_WINNERS_(sel, d) TS_LARGE_WINNERS_##sel(d)
#define TS_LARGE_WINNERS_0(d)
#define TS_LARGE_WINNERS_1(d) TS_TILED(d, contract_deep_w, DEEP, ts_pack_of<pair_##d>::pack, 2, 128, 128, 16, 8, 8, 256, 4, TS_BLOCKS_DEEP(d)) \
    TS_TILED(d, contract_middle_w, MIDDLE, 1, 1, 64, 64, 16, 8, 4, 128, 4, 3)

/* Small products by teams of warps. */
#define TS_TEAM(d, tail, id)                                                                                               \
    TS_KERNEL_BLOCKS(TS_NAME(d, tail), ts_cuda_team, ts_team_shape<TS_CUDA_SHAPE_##id>::threads, 1)                        \
    {                                                                                                                      \
        ts_team_shape<TS_CUDA_SHAPE_##id>::of<pair_##d>::type::run(p);                                                     \
    }
#define TS_TEAMS(d) TS_TEAM(d, team, TEAM) TS_TEAM(d, teams, TEAMS)

/* Many small products of selective semirings. */
#define TS_BATCHED(d, tail, winners)                                                                                       \
    TS_KERNEL_BLOCKS(TS_NAME(d, tail), ts_cuda_batched, TS_CUDA_BATCHED_THREADS, TS_CUDA_BATCHED_BLOCKS)                   \
    {                                                                                                                      \
        ts_batched_run<pair_##d, winners>(p);                                                                              \
    }
#define TS_BATCHES(sel, d) TS_BATCHES_(sel, d)
#define TS_BATCHES_(sel, d) TS_BATCHES_##sel(d)
#define TS_BATCHES_0(d)
#define TS_BATCHES_1(d) TS_BATCHED(d, batched, false) TS_BATCHED(d, batched_w, true)

/* Large products through packed panels: pairs that dense.h knows. */
#define TS_PACKED(d)                                                                                                       \
    TS_KERNEL(TS_NAME(d, pack), ts_cuda_pack, TS_CUDA_THREADS) { ts_packer<pair_##d, false>::run(p); }                     \
    TS_KERNEL_BLOCKS(TS_NAME(d, packed), ts_cuda_packed, ts_packed_shape<ts_dense<pair_##d>::shape>::threads,              \
                     ts_packed_shape<ts_dense<pair_##d>::shape>::blocks)                                                   \
    {                                                                                                                      \
        ts_packed_shape<ts_dense<pair_##d>::shape>::of<pair_##d>::type::run(p);                                            \
    }
#define TS_WINNERS(d)                                                                                                      \
    TS_PACKED(d)                                                                                                           \
    TS_KERNEL_BLOCKS(TS_NAME(d, packed_w), ts_cuda_packed, ts_packed_shape<ts_dense<pair_##d>::shape_w>::threads,          \
                     ts_packed_shape<ts_dense<pair_##d>::shape_w>::blocks)                                                 \
    {                                                                                                                      \
        ts_packed_shape<ts_dense<pair_##d>::shape_w>::template of<pair_##d, true>::type::run(p);                           \
    }                                                                                                                      \
    TS_KERNEL_BLOCKS(TS_NAME(d, winners), ts_cuda_winners, TS_CUDA_WINNERS_THREADS, 1)                                     \
    {                                                                                                                      \
        typedef ts_packed_shape<ts_dense<pair_##d>::shape_w> shape;                                                        \
        ts_winners<pair_##d, shape::rows, shape::columns, TS_CUDA_WINNERS_THREADS>::run(p);                                \
    }
#define TS_SURVEYED(d)                                                                                                     \
    TS_KERNEL(TS_NAME(d, survey), ts_cuda_pack, TS_CUDA_THREADS) { ts_packer<pair_##d, true>::run(p); }                    \
    TS_PACKED(d)
#define TS_DENSE_0_NUMBER_f16(d) TS_PACKED(d)
#define TS_DENSE_0_NUMBER_bf16(d) TS_PACKED(d)
#define TS_DENSE_0_NUMBER_f32(d) TS_PACKED(d)
#define TS_DENSE_0_NUMBER_f64(d) TS_PACKED(d)
#define TS_DENSE_0_NUMBER_c64(d) TS_PACKED(d)
#define TS_DENSE_0_NUMBER_c128(d)
#define TS_DENSE_0_NUMBER_i16(d)
#define TS_DENSE_0_NUMBER_i32(d) TS_PACKED(d)
#define TS_DENSE_0_NUMBER_i64(d)
#define TS_DENSE_0_FLOATING_f16(d) TS_SURVEYED(d)
#define TS_DENSE_0_FLOATING_bf16(d) TS_SURVEYED(d)
#define TS_DENSE_0_FLOATING_f32(d) TS_SURVEYED(d)
#define TS_DENSE_0_FLOATING_f64(d) TS_SURVEYED(d)
#define TS_DENSE_0_BOOLEAN_bool(d) TS_PACKED(d)
#define TS_DENSE_0_COUNTED_vc64(d)
#define TS_DENSE_0_COUNTED_vc128(d)
#define TS_DENSE_0_RESIDUE_i64(d)
#define TS_DENSE_1_BOOLEAN_bool(d) TS_PACKED(d)
#define TS_DENSE_1_ORDERED_f16(d) TS_WINNERS(d)
#define TS_DENSE_1_ORDERED_bf16(d) TS_WINNERS(d)
#define TS_DENSE_1_ORDERED_f32(d) TS_JOIN(TS_DENSE_f32_, TS_MODULE_MUL)(d)
#define TS_DENSE_f32_plus(d) TS_WINNERS(d)
#define TS_DENSE_f32_min(d) TS_WINNERS(d)
#define TS_DENSE_f32_max(d) TS_WINNERS(d)
#define TS_DENSE_f32_ntimes(d) TS_PACKED(d) /* with winners, too much of it is spilled */
#define TS_DENSE_1_ORDERED_f64(d) TS_PACKED(d)
#define TS_DENSE_1_ORDERED_i16(d) TS_JOIN(TS_DENSE_i16_, TS_MODULE_MUL)(d)
#define TS_DENSE_i16_plus(d) TS_WINNERS(d)
#define TS_DENSE_i16_min(d) TS_WINNERS(d)
#define TS_DENSE_i16_max(d) TS_WINNERS(d)
#define TS_DENSE_i16_ntimes(d) /* saturates, so no two of it are in a word */
#define TS_DENSE_1_ORDERED_i32(d) TS_WINNERS(d)
#define TS_DENSE_1_ORDERED_i64(d)
#define TS_DENSE_1_FLOATING_f16(d) TS_WINNERS(d)
#define TS_DENSE_1_FLOATING_bf16(d) TS_WINNERS(d)
#define TS_DENSE_1_FLOATING_f32(d) TS_JOIN(TS_DENSE_f32_, TS_MODULE_MUL)(d)
#define TS_DENSE_1_FLOATING_f64(d) TS_PACKED(d)
#define TS_DENSE(d) TS_JOIN(TS_JOIN(TS_JOIN(TS_JOIN(TS_JOIN(TS_DENSE_, TS_MODULE_SELECTIVE), _), TS_MODULE_DTYPES), _), d)(d)

#define TS_PAIR(s, a, m, sel, d)      \
    TS_DEFINE_PAIR(a, m, sel, d)      \
    TS_ALWAYS(d)                      \
    TS_MORE(d)                        \
    TS_LARGE(TS_LARGE_##d(d))         \
    TS_DENSE(d)
#define TS_EXPAND(list, ...) list(__VA_ARGS__)
TS_EXPAND(TS_JOIN(TS_DTYPES_, TS_MODULE_DTYPES), TS_MODULE_SEMIRING, TS_MODULE_ADD, TS_MODULE_MUL, TS_MODULE_SELECTIVE)
