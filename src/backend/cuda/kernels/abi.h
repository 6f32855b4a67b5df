/* What the host side of the CUDA backend and its kernels agree on. Compiled as C by gcc and clang, as CUDA C++ by nvcc
 * and NVRTC, and as C++ for the simulator of tests/simcuda.
 *
 * Modules. There is one module per semiring, made from kernels/module.cu with
 *     -DTS_MODULE_SEMIRING=max_plus -DTS_MODULE_ADD=max -DTS_MODULE_MUL=plus -DTS_MODULE_SELECTIVE=1
 *     -DTS_MODULE_DTYPES=ORDERED
 * and one module "common" from kernels/common.cu for what does not depend on a semiring.
 *
 * Names. Every kernel is extern "C" and takes one struct of this file by value:
 *     ts_<semiring>_<dtype>_contract_<variant>      ts_cuda_contract         (see TS_CUDA_CONTRACT_VARIANTS)
 *     ts_<semiring>_<dtype>_contract_<variant>_w    ts_cuda_contract         with winners; selective semirings
 *     ts_<semiring>_<dtype>_stream                  ts_cuda_stream           see stream_plan.h
 *     ts_<semiring>_<dtype>_chain                   ts_cuda_chain            steps of a huge tensor against tiny ones
 *     ts_<semiring>_<dtype>_chain_back              ts_cuda_chain_back       sum_product whose cotangents have its dtype
 *     ts_<semiring>_<dtype>_tree                    ts_cuda_tree             subtrees of small steps
 *     ts_<semiring>_<dtype>_fold                    ts_cuda_fold             few results of two huge operands
 *     ts_<semiring>_<dtype>_survey, _pack           ts_cuda_pack             large products through packed panels: see
 *     ts_<semiring>_<dtype>_packed                  ts_cuda_packed           packed_abi.h
 *     ts_<semiring>_<dtype>_packed_w                ts_cuda_packed           with winners, which another launch finds:
 *     ts_<semiring>_<dtype>_winners                 ts_cuda_winners          selective semirings
 *     ts_<semiring>_<dtype>_team, _teams            ts_cuda_team             products of few tiles: see team_abi.h
 *     ts_<semiring>_<dtype>_batched, _batched_w     ts_cuda_batched          many small products of selective semirings: see batched_abi.h
 *     ts_<semiring>_<dtype>_combine                 ts_cuda_combine          after a contract or reduce with splits > 1
 *     ts_<semiring>_<dtype>_reduce                  ts_cuda_reduce           one thread per result
 *     ts_<semiring>_<dtype>_reduce_row              ts_cuda_reduce           threads share results
 *     ts_<semiring>_<dtype>_adjoint                 ts_cuda_adjoint          selective semirings and log_sum_exp
 *     ts_<semiring>_<dtype>_reduce_adjoint          ts_cuda_reduce_adjoint   every pair with gradients
 *     ts_<semiring>_<dtype>_decode                  ts_cuda_path             selective semirings
 *     ts_<semiring>_<dtype>_check                   ts_cuda_check            pairs with a domain
 *     ts_common_copy_<bytes>                        ts_cuda_reduce           pure data movement, 1 2 4 8 16 bytes
 *     ts_common_move_<bytes>, _narrow               ts_cuda_move             the same by tiles; see move_plan.h. Narrow: accesses
 *                                                                            that are not all of 16 bytes
 *     ts_common_fill_<bytes>                        ts_cuda_fill
 *     ts_common_convert_<from>_<to>                 ts_cuda_reduce           from a storage dtype to its gradient dtype
 *     ts_<semiring>_<dtype>_route                   ts_cuda_route            selective semirings
 *     ts_<semiring>_<dtype>_absorb, _seed           ts_cuda_slices           selective semirings and log_sum_exp
 *     ts_common_one_hot_<bytes>                     ts_cuda_one_hot          4, 8, 16
 *     ts_common_gather_<bytes>                      ts_cuda_gather           1, 2, 4, 8, 16
 *     ts_common_refresh                             ts_cuda_refresh          sets the pointer table
 * A kernel that a module lacks is "not supported", except contract_generic, reduce, copy_<bytes>, fill_<bytes> and
 * refresh, which every pair (or the common module) has.
 *
 * Every kernel walks its work as `for (item = block; item < tile_count; item += blocks)`, so that any grid is right;
 * only the x dimension of grid and block is used. */
#ifndef TS_CUDA_ABI_H
#define TS_CUDA_ABI_H

#if !defined(__CUDACC_RTC__)
#include <stdint.h>
#endif

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define TS_CUDA_SHARED static __host__ __device__ __forceinline__
#define TS_CUDA_CONSTEXPR constexpr
#else
#define TS_CUDA_SHARED static inline __attribute__((always_inline, unused))
#if defined(__cplusplus)
#define TS_CUDA_CONSTEXPR constexpr
#else
#define TS_CUDA_CONSTEXPR
#endif
#endif

/* Modes in a parameter struct; longer tables lie in device memory. All structs stay below 4096 bytes, the least that
 * every driver takes. */
#define TS_CUDA_INLINE_MODES 32

/* As ts_mode, with the constants of a division by the extent: n / extent == (uint64_t)n * magic >> shift for
 * 0 <= n < 2^31 and 1 <= extent < 2^31 (Granlund and Montgomery 1994). */
typedef struct ts_cuda_mode {
    int64_t extent;
    uint32_t magic, shift;
    int64_t a, b, c, w, g, d; /* strides in elements */
} ts_cuda_mode;

typedef struct ts_cuda_modes {
    uint64_t more; /* 0, or the device address of the whole table where it has more than TS_CUDA_INLINE_MODES */
    int32_t count;
    int32_t wide;  /* 1: a class has 2^31 elements or more, so indices take 64-bit divisions */
    ts_cuda_mode table[TS_CUDA_INLINE_MODES];
} ts_cuda_modes;

/* An address that may depend on the run: slot 0: `offset` is the device address itself; else `slot` is the device
 * address of an entry of the pointer table and `offset` bytes are added to what it holds. */
typedef struct ts_cuda_pointer {
    uint64_t slot;
    uint64_t offset;
} ts_cuda_pointer;

/* Should results be combined with what is there? `always`, or the entry of the pointer table at `slot` is not 0. */
typedef struct ts_cuda_switch {
    uint64_t slot;
    uint64_t always;
} ts_cuda_switch;

/* X(id, name, left, right, threads): tile of results per block. `generic` fits everything; `skinny` is for one narrow
 * class, `row` gives a block to each result (long sums, few results); `deep` exists with winners only, `broad` without. */
#define TS_CUDA_CONTRACT_VARIANTS(X) \
    X(GENERIC, generic, 16, 16, 256) \
    X(SMALL, small, 32, 64, 128)     \
    X(LARGE, large, 128, 128, 256)   \
    X(SKINNY, skinny, 1, 128, 128)   \
    X(ROW, row, 1, 1, 256)           \
    X(DEEP, deep, 128, 128, 256)     \
    X(MIDDLE, middle, 64, 64, 128)   \
    X(BROAD, broad, 128, 256, 256)

typedef enum ts_cuda_variant {
#define TS_CUDA_VARIANT_ENUM(id, name, left, right, threads) TS_CUDA_CONTRACT_##id,
    TS_CUDA_CONTRACT_VARIANTS(TS_CUDA_VARIANT_ENUM)
#undef TS_CUDA_VARIANT_ENUM
        TS_CUDA_CONTRACT_VARIANT_COUNT
} ts_cuda_variant;

/* Dynamic shared bytes of a variant, for a type of arithmetic of so many bytes. The kernels assert the tiles' at compile
 * time: offset tables, panels of 16 terms (four, `generic` three), what winners take beside: two bytes per result and 1 KiB
 * (`deep`), a value and a word for a fourth of the results, or for all (`generic`). */
TS_CUDA_SHARED TS_CUDA_CONSTEXPR uint32_t ts_cuda_contract_shared(ts_cuda_variant variant, uint32_t bytes)
{
    return variant == TS_CUDA_CONTRACT_GENERIC ? 7584u + 1808u * (bytes < 4 ? 4 : bytes)
           : variant == TS_CUDA_CONTRACT_SMALL ? 10656u + 6720u * (bytes < 4 ? 4 : bytes)
           : variant == TS_CUDA_CONTRACT_LARGE ? 12448u + 16512u * (bytes < 4 ? 4 : bytes)
           : variant == TS_CUDA_CONTRACT_DEEP  ? 46272u + 16512u * (bytes < 4 ? 4 : bytes)
           : variant == TS_CUDA_CONTRACT_MIDDLE ? 13472u + 9280u * (bytes < 4 ? 4 : bytes)
           : variant == TS_CUDA_CONTRACT_BROAD  ? 15520u + 24832u * (bytes < 4 ? 4 : bytes)
           : variant == TS_CUDA_CONTRACT_ROW   ? 256u * 24u
                                               : 4096u;
}

/* c[batch, left, right] = (+) over sum of a[batch, left, sum] (*) b[batch, right, sum]; see ts_contract_spec.
 * Modes: batch, left, right, sum (canonical order).
 * Item = ((batch * splits + split) * left_tiles + left_tile) * right_tiles + right_tile. Split s covers the terms
 * [s * split_terms, min(sum, (s + 1) * split_terms)).
 * With splits > 1 nothing is written to c: the value goes, unfinished, as the type of arithmetic to
 * partial[split * results + result], result = (batch * left + l) * right + r, and the winner (of the whole sum) as int64
 * to partial_w[the same]. */
typedef struct ts_cuda_contract {
    ts_cuda_pointer a, b, c, w;
    ts_cuda_switch accumulate;
    uint64_t partial, partial_w;
    int64_t batch, left, right, sum;
    int64_t left_tiles, right_tiles, splits, split_terms, tile_count;
    int64_t modulus;
    uint64_t only; /* tiles: 0, or a byte for each item: where it is 0 the item is left alone */
    int32_t batch_count, left_count, right_count, sum_count;
    int32_t conjugate_a, conjugate_b;
    int32_t winner_bytes; /* 0, 4, 8 */
    int32_t pad;
    ts_cuda_modes modes;
} ts_cuda_contract;

/* A huge operand a against a tiny one, b, or none: c[kept] = (+) over sum of a[kept, sum] (*) b[kept, sum]. Every element
 * of a is read once and every element of c written once, both along memory, through a tile in shared memory: a tile has
 * some positions of the kept modes and all of the sum. Made by ts_cuda_stream_plan.
 *
 * An element of the tile lies in shared memory at the sum of its positions times the modes' `q`, which are padded against
 * bank conflicts. At most two modes (partial 1, 2) are cut into tiles that need not divide them. A thread has the same
 * elements and results of every tile, so it computes their places once. */
#define TS_CUDA_STREAM_LOAD 20
#define TS_CUDA_STREAM_STORE 20
#define TS_CUDA_STREAM_SUM 8
#define TS_CUDA_STREAM_OUTER 32
#ifndef TS_CUDA_STREAM_BLOCKS
#define TS_CUDA_STREAM_BLOCKS 4 /* at a time on a multiprocessor */
#endif
#define TS_CUDA_STREAM_THREADS 256
#ifndef TS_CUDA_STREAM_SHARE
#define TS_CUDA_STREAM_SHARE 4 /* most elements and results of a thread */
#endif
typedef struct ts_cuda_stream_load { /* ascending a strides */
    int32_t extent, partial; /* within the tile; partial: 0, 1 or 2 */
    int32_t q, pad;
    int64_t a;
} ts_cuda_stream_load;
typedef struct ts_cuda_stream_store { /* ascending c strides */
    int32_t extent, partial;
    int32_t q, row; /* steps in the tile, and in the rows of b */
    int64_t b, c;
} ts_cuda_stream_store;
typedef struct ts_cuda_stream_sum {
    int32_t extent, q;
    int64_t b;
} ts_cuda_stream_sum;
typedef struct ts_cuda_stream_outer {
    int64_t extent; /* tiles */
    int64_t a, b, c; /* steps from tile to tile */
    uint32_t magic, shift;
    int32_t partial, pad;
} ts_cuda_stream_outer;
typedef struct ts_cuda_stream {
    ts_cuda_pointer a, b, c;
    ts_cuda_switch accumulate;
    int64_t tile_count, modulus;
    int64_t partial_extent[2]; /* of the whole mode */
    int32_t partial_tile[2];
    int32_t load_count, store_count, sum_count, outer_count;
    int32_t elements, results, slots; /* of a tile; slots: shared memory that its elements spread over */
    int32_t terms, rows; /* of the sum; rows of b (0: there is no b) */
    int32_t conjugate_a, conjugate_b, wide, b_moves, pad; /* b_moves: b differs from tile to tile */
    ts_cuda_stream_load load[TS_CUDA_STREAM_LOAD];
    ts_cuda_stream_store store[TS_CUDA_STREAM_STORE];
    ts_cuda_stream_sum sum[TS_CUDA_STREAM_SUM];
    ts_cuda_stream_outer outer[TS_CUDA_STREAM_OUTER];
} ts_cuda_stream;

/* Dynamic shared bytes: bases of 64 tiles, tables of the sum and of b, b, the tile. */
TS_CUDA_SHARED uint32_t ts_cuda_stream_shared(const ts_cuda_stream *p, uint32_t bytes)
{
    return 64u * 32u + (uint32_t)p->terms * 16u + (uint32_t)p->rows * 8u + 16u +
           (uint32_t)(p->slots + p->rows * p->terms) * bytes;
}

/* Pure data movement: every element of c is set to one of a. A tile has a piece of every mode; its elements go from a to
 * shared memory in vectors along a and from there to c in vectors along c. Made by ts_cuda_move_plan (move_plan.h).
 *
 * A piece is split into digits, each with its own steps in a, in c and in shared memory (so that lanes which read or write
 * together meet different banks). On each side the digits of a vector come first, then those that number the threads of a
 * block, then those that number a thread's accesses: what an access adds to a thread's place is the same for all threads.
 * At most two modes are cut into pieces that need not divide them; positions along them are 16 bits of `at` each. Strides
 * and places are bytes; q is a place in shared memory. */
#define TS_CUDA_MOVE_THREADS 256
#define TS_CUDA_MOVE_DIGITS 16
#define TS_CUDA_MOVE_STEPS 32
#define TS_CUDA_MOVE_OUTER 32
#ifndef TS_CUDA_MOVE_BLOCKS
#define TS_CUDA_MOVE_BLOCKS 4 /* at a time on a multiprocessor */
#endif
#ifndef TS_CUDA_MOVE_STAGES
#define TS_CUDA_MOVE_STAGES 2 /* tiles of a block at a time */
#endif
#ifndef TS_CUDA_MOVE_TILE
#define TS_CUDA_MOVE_TILE 16384 /* bytes, at most */
#endif
typedef struct ts_cuda_move_digit {
    int32_t extent;
    uint32_t magic; /* n / extent == n * magic >> 20 for n < 1024 */
    int32_t q, at;
    int64_t stride;
} ts_cuda_move_digit;
typedef struct ts_cuda_move_step {
    int64_t stride;
    int32_t q, at;
} ts_cuda_move_step;
typedef struct ts_cuda_move_side {
    int32_t digits, steps, lanes; /* threads that have work */
    int32_t width;                /* elements of an access */
    ts_cuda_move_digit digit[TS_CUDA_MOVE_DIGITS];
    ts_cuda_move_step step[TS_CUDA_MOVE_STEPS];
} ts_cuda_move_side;
typedef struct ts_cuda_move_outer {
    int64_t extent, a, c; /* tiles; steps from tile to tile */
    uint32_t magic, shift;
    int32_t partial, tile; /* 0; 1 or 2: a mode that may end within a tile, positions of a tile */
} ts_cuda_move_outer;
typedef struct ts_cuda_move {
    ts_cuda_pointer a, c;
    int64_t from, to; /* where the first tile begins */
    int64_t tile_count;
    int64_t partial_extent[2];
    int32_t outer_count, wide, slots; /* slots: shared memory that a tile spreads over */
    int32_t direct; /* vectors are the same on both sides and lie in long rows: no shared memory */
    int32_t whole;  /* vectors are the same on both sides */
    int32_t element_q[16]; /* of the elements of a vector of c */
    int32_t pad;
    ts_cuda_move_side load, store;
    ts_cuda_move_outer outer[TS_CUDA_MOVE_OUTER];
} ts_cuda_move;

/* Dynamic shared bytes: bases of 64 tiles, and tiles. */
TS_CUDA_SHARED uint32_t ts_cuda_move_shared(const ts_cuda_move *p)
{
    return 64u * 24u + (p->direct ? 0u : (uint32_t)(p->slots * TS_CUDA_MOVE_STAGES));
}

/* A huge tensor against tiny ones, one after the other: c[0] = a (x) b[0], c[1] = c[0] (x) b[1], ... A tile has all
 * positions of the labels that the tiny ones have and a run of the others: it is loaded once, taken through all steps in
 * shared memory, and stored where a result is wanted. The host says in tables where everything lies (chain_plan.h):
 * `table` is the device address of a ts_cuda_chain_table and what follows it; its first `copied` bytes go to shared
 * memory. Other offsets are bytes of shared memory, but for those of the table, which are bytes from its start. */
#define TS_CUDA_CHAIN_STEPS 6
#ifndef TS_CUDA_CHAIN_THREADS
#define TS_CUDA_CHAIN_THREADS 512 /* at most */
#endif
#define TS_CUDA_CHAIN_BASES 64    /* tiles whose places are known ahead, by halves */
typedef struct ts_cuda_chain {
    ts_cuda_pointer a, b[TS_CUDA_CHAIN_STEPS], c[TS_CUDA_CHAIN_STEPS]; /* c: slot and offset 0 where not stored */
    ts_cuda_switch accumulate; /* into the last result */
    uint64_t table;
    int64_t tile_count, modulus;
    uint32_t copied, bases, coefficients, in, work[2];
    int32_t steps, pad;
} ts_cuda_chain;
/* What one thread adds for each entry of a list: the thread's own places, and how the list is walked: entries first,
 * first + apart, ... of `count`. */
typedef struct ts_cuda_chain_place { /* of elements to load or store */
    int64_t global;
    int32_t shared;
    int16_t cut, first; /* position along the mode that is cut */
} ts_cuda_chain_place;
typedef struct ts_cuda_chain_unit { /* of a step */
    int32_t in, out, coefficient, first;
} ts_cuda_chain_unit;
typedef struct ts_cuda_chain_list {
    uint32_t own, all; /* per thread; the list, which is copied */
    int32_t count, apart;
    int32_t width, pad; /* elements per access: 1, or as many as 16 bytes have */
} ts_cuda_chain_list;
typedef struct ts_cuda_chain_step {
    ts_cuda_chain_list units;
    ts_cuda_chain_list store; /* count 0: the result is not wanted */
    uint32_t term_places, column_places; /* int32, copied */
    uint32_t sources;                    /* int64 per coefficient: where in b; INT64_MIN: nowhere */
    int32_t terms, columns, padded;      /* padded: coefficients per term */
    int32_t coefficients, first_coefficient;
    int32_t columns_each;                /* of a unit */
} ts_cuda_chain_step;
typedef struct ts_cuda_chain_outer {
    int64_t extent;
    uint32_t magic, shift;
    int32_t cut, pad; /* 1: these are the pieces of the mode that is cut */
    int64_t a, c[TS_CUDA_CHAIN_STEPS];
} ts_cuda_chain_outer;
typedef struct ts_cuda_chain_table {
    int32_t outer_count, wide;
    uint32_t outer, pad;           /* ts_cuda_chain_outer [outer_count], copied */
    int32_t cut_extent, cut_piece; /* of the mode that is cut; equal: none is */
    ts_cuda_chain_list load;
    ts_cuda_chain_step step[TS_CUDA_CHAIN_STEPS];
} ts_cuda_chain_table;

/* The gradients of all operands of a chain, in one pass over what it read (a) and the cotangent of what it made (g). A tile
 * of both is loaded, what lies between the steps is made once more, and each step, the last one first, turns the cotangent of
 * its result into that of what it read, which takes its place, and adds to its tiny operand's gradient. Those sums are kept
 * in registers over all tiles of a block; blocks leave theirs in `partial` [block][result], to be added up afterwards.
 * `cut` places, bases and lists are a chain's; the places of g and d are those of two results, GIVEN and MADE. */
#define TS_CUDA_BACK_STEPS 2
#ifndef TS_CUDA_BACK_THREADS
#define TS_CUDA_BACK_THREADS 256
#endif
#ifndef TS_CUDA_BACK_BLOCKS
#define TS_CUDA_BACK_BLOCKS 2 /* at a time on a multiprocessor */
#endif
#define TS_CUDA_BACK_GIVEN (TS_CUDA_CHAIN_STEPS - 2)
#define TS_CUDA_BACK_MADE (TS_CUDA_CHAIN_STEPS - 1)
typedef struct ts_cuda_chain_back {
    ts_cuda_pointer a, g, d, b[TS_CUDA_BACK_STEPS];
    ts_cuda_switch accumulate; /* into d */
    uint64_t partial[TS_CUDA_BACK_STEPS]; /* 0: not wanted */
    uint64_t table;
    int64_t tile_count;
    uint32_t copied, bases, coefficients, in[2], given[2], inner[TS_CUDA_BACK_STEPS - 1];
    int32_t steps, wanted; /* d */
    int32_t pad;
} ts_cuda_chain_back;
typedef struct ts_cuda_back_own { /* a thread's own places; first: INT16_MAX: it has none */
    int16_t out, coefficient, first, pad;
    int16_t in[4]; /* of its terms, in what the step read */
} ts_cuda_back_own;
typedef struct ts_cuda_back_step {
    ts_cuda_chain_list units; /* of one result of each column and term; `own`: ts_cuda_back_own */
    int32_t terms_each, columns_each; /* a thread's share: so many terms, and room for all columns */
    int32_t lanes;            /* threads with the same terms */
    int32_t results;          /* batch * terms * columns, in this order */
} ts_cuda_back_step;
typedef struct ts_cuda_back_table {
    ts_cuda_chain_table chain; /* its steps' stores are unused */
    ts_cuda_chain_list given, store;
    ts_cuda_back_step step[TS_CUDA_BACK_STEPS];
    uint32_t cuts;         /* int16 [pitch], copied: place of the elements of a run along the mode that is cut */
    int32_t pitch, padded; /* 1: runs have elements that mean nothing */
    uint32_t targets;      /* ts_cuda_back_target [threads]; 0: d is written from shared memory */
} ts_cuda_back_table;
typedef struct ts_cuda_back_target { /* where a thread's first units of its terms lie in d; units have the rest as coefficient */
    int32_t at[4];
} ts_cuda_back_target;
/* Sums of a thread per step, for a type of arithmetic of so many bytes; all columns of a step are among them. */
TS_CUDA_SHARED TS_CUDA_CONSTEXPR int32_t ts_cuda_back_share(uint32_t bytes) { return bytes <= 4 ? 16 : bytes <= 8 ? 8 : 4; }

/* Subtrees of small steps: item = one of them, whose operands and results all lie in shared memory. `table` is the device
 * address of ts_cuda_tree_item [tile_count]; other offsets are bytes from there. `buffer`: bytes of shared memory for the
 * tables of a step; there are two of them, and values come behind. */
#ifndef TS_CUDA_TREE_THREADS
#define TS_CUDA_TREE_THREADS 128
#endif
typedef struct ts_cuda_tree {
    uint64_t table;
    int64_t tile_count, modulus;
    uint32_t buffer, pad;
} ts_cuda_tree;
typedef struct ts_cuda_tree_item {
    uint32_t steps;  /* their tables, one behind the other */
    uint32_t sizes;  /* uint32 [step_count] bytes of the tables, multiples of 16 */
    uint32_t leaves; /* ts_cuda_tree_leaf [leaf_count]: elements of operands, the first values in shared memory */
    int32_t step_count, leaf_count, pad;
} ts_cuda_tree_item;
typedef struct ts_cuda_tree_leaf {
    ts_cuda_pointer from;
    int64_t place; /* element */
} ts_cuda_tree_leaf;
/* Followed by ts_cuda_tree_result [results] and ts_cuda_tree_term [terms]; where results are scattered, by int64 [results], the
 * elements of c that they belong to. */
typedef struct ts_cuda_tree_step {
    ts_cuda_pointer c;     /* where the result is wanted in device memory; slot and offset 0: nowhere */
    int32_t a, b, result;  /* where they begin in shared memory; b is -1 for a reduce step */
    int32_t results, terms;
    int32_t moves;         /* a reduce step without a sum */
    int32_t conjugate;     /* b */
    int32_t scattered;     /* c is not compact */
} ts_cuda_tree_step;
typedef struct ts_cuda_tree_result {
    int32_t a, b;
} ts_cuda_tree_result;
typedef struct ts_cuda_tree_term {
    int32_t a, b;
} ts_cuda_tree_term;

/* Two huge operands whose contraction has few results: a block loads all rows of both for a tile of terms, and adds to
 * all results; blocks are the splits of a combine. Modes as in ts_cuda_contract. */
#ifndef TS_CUDA_FOLD_THREADS
#define TS_CUDA_FOLD_THREADS 256
#endif
#ifndef TS_CUDA_FOLD_SHARE
#define TS_CUDA_FOLD_SHARE 4  /* most results of a thread */
#endif
#ifndef TS_CUDA_FOLD_TERMS
#define TS_CUDA_FOLD_TERMS 64 /* per tile */
#endif
typedef struct ts_cuda_fold {
    ts_cuda_pointer a, b;
    uint64_t partial; /* [block][result], type of arithmetic */
    int64_t sum, tile_count, modulus;
    int32_t batch, left, right; /* extents */
    int32_t batch_count, left_count, right_count, sum_count;
    int32_t conjugate_a, conjugate_b, pad;
    ts_cuda_modes modes;
} ts_cuda_fold;
/* Dynamic shared bytes: places of rows and of two tiles of terms, two tiles of both operands, threads' sums. */
TS_CUDA_SHARED uint32_t ts_cuda_fold_shared(int32_t rows, uint32_t storage, uint32_t value)
{
    return (uint32_t)(rows + 1) / 2u * 16u + 4u * TS_CUDA_FOLD_TERMS * 8u +
           2u * (uint32_t)rows * (TS_CUDA_FOLD_TERMS * storage + 16u) + TS_CUDA_FOLD_THREADS * value;
}

/* c[result] = finish((+) over splits, ascending, of partial[split * results + result]); modes: the results in
 * row-major order of their linear number (c and w strides). One thread per result, or (tall) one block. */
typedef struct ts_cuda_combine {
    ts_cuda_pointer c, w;
    ts_cuda_switch accumulate;
    uint64_t partial, partial_w;
    int64_t results, splits;
    int64_t tile_count; /* blocks of TS_CUDA_THREADS results, or results */
    int64_t modulus;
    int32_t winner_bytes;
    int32_t tall; /* many splits of few results */
    ts_cuda_modes modes;
} ts_cuda_combine;

/* c[kept] = (+) over sum of a[kept, sum]; see ts_reduce_spec. Modes: kept, then sum (canonical).
 * reduce, copy: item = a block of TS_CUDA_THREADS results. reduce_row: for long sums; item = tile * splits + split.
 * The last mode of the sum, or of those kept (`along` tells), is the one along which a is walked by neighbouring threads, in
 * accesses of `vector` elements: `lanes` threads side by side. The other threads of the block have other results (along the
 * sum: a tile is the results of a block) or other terms (along kept modes: a tile is `lanes` vectors of them). A step is one
 * access of every thread; a split has split_terms steps. See sweep_plan.h. */
#define TS_CUDA_ALONG_SUM 1
#define TS_CUDA_ALONG_KEPT 2
typedef struct ts_cuda_reduce {
    ts_cuda_pointer a, c, w;
    ts_cuda_switch accumulate;
    uint64_t partial, partial_w;
    int64_t kept, sum;
    int64_t splits, split_terms, tile_count;
    int64_t modulus;
    int32_t kept_count, sum_count;
    int32_t winner_bytes;
    int32_t along, lanes, vector, steps, pad;
    ts_cuda_modes modes;
} ts_cuda_reduce;

/* Gradient of operand `side` of a contract; see ts_adjoint_spec. All classes in canonical order.
 * Item: a block of TS_CUDA_THREADS elements of d, or what the kernel's author makes of it (ts_cuda_adjoint_tiles). */
typedef struct ts_cuda_adjoint {
    ts_cuda_pointer a, b, c, w, g, d;
    ts_cuda_switch accumulate;
    int64_t batch, left, right, sum;
    int64_t tile_count;
    int32_t batch_count, left_count, right_count, sum_count;
    int32_t side, tie_here;
    int32_t winner_bytes;
    int32_t pad;
    ts_cuda_modes modes;
} ts_cuda_adjoint;

/* d[kept, sum] from g[kept]; see ts_reduce_adjoint_spec. Modes: kept, then sum. */
typedef struct ts_cuda_reduce_adjoint {
    ts_cuda_pointer a, c, w, g, d;
    ts_cuda_switch accumulate;
    int64_t kept, sum;
    int64_t tile_count;
    int32_t kept_count, sum_count;
    int32_t winner_bytes;
    int32_t pad;
    ts_cuda_modes modes;
} ts_cuda_reduce_adjoint;

/* Set every element; modes: c strides. One thread per element. */
typedef struct ts_cuda_fill {
    ts_cuda_pointer c;
    int64_t elements;
    int64_t tile_count;
    uint8_t value[16];
    ts_cuda_modes modes;
} ts_cuda_fill;

/* One label of a step in a decode. */
typedef struct ts_cuda_decode_label {
    int64_t extent;
    int64_t a, b; /* strides in elements, 0 where absent */
    uint32_t magic, shift;
    int32_t label; /* column of the assignments */
    int32_t pad;
} ts_cuda_decode_label;
#define TS_CUDA_INLINE_LABELS 64

/* From assignments of the output's labels to those of all: given that of the kept labels of a step, its row is scanned
 * again for that of its sum's labels: the row-major first of the best terms (or the first NaN, or index 0 where all terms are
 * 0 of the semiring). One block of TS_CUDA_THREADS per position goes through levels of items, of which none needs another's
 * labels. ROW is a warp's; LONG_ROW and RESULTS are the block's. RESULTS are those of a chain's step that nobody has kept,
 * as far as the path may go through them: in shared memory, for an item of a later level, which has them `before` it. */
#define TS_CUDA_PATH_TERMS 256 /* most of a step whose results are worked out again */
typedef enum ts_cuda_path_kind { TS_CUDA_PATH_ROW, TS_CUDA_PATH_LONG_ROW, TS_CUDA_PATH_RESULTS } ts_cuda_path_kind;
typedef struct ts_cuda_path_item {
    ts_cuda_pointer a, b;
    int64_t sum;
    int32_t kind, two;      /* there is a b */
    int32_t first_label;    /* labels: kept, those that results are for, sum (canonical) */
    int32_t kept_count, free_count, sum_count;
    int32_t before;         /* element of the shared values, in place of a; -1: a */
    int32_t results, place; /* RESULTS: how many, and where they go */
    int32_t wide;
} ts_cuda_path_item;
typedef struct ts_cuda_path {
    uint64_t levels; /* int32 [level_count + 1] first items, in device memory */
    uint64_t items, labels; /* ts_cuda_path_item [], ts_cuda_decode_label [] */
    uint64_t assignments; /* int64_t [positions][assignment_count] */
    int64_t assignment_count;
    int64_t tile_count; /* positions */
    int32_t level_count, pad;
} ts_cuda_path;

/* Values of a tensor at assignments: result[position] = a[assignment], elements of 1..16 bytes, 16 bytes apart. One
 * thread per position. */
typedef struct ts_cuda_gather {
    ts_cuda_pointer a;
    uint64_t assignments; /* int64_t [positions][assignment_count] */
    uint64_t result;
    int64_t assignment_count, positions;
    int64_t tile_count; /* blocks of TS_CUDA_THREADS positions */
    uint64_t more;
    int32_t label_count, pad;
    ts_cuda_decode_label table[TS_CUDA_INLINE_LABELS]; /* a strides */
} ts_cuda_gather;

/* Gradient of a scalar by a selective semiring: one assignment has all of it. `route` hands the cotangent down along it,
 * from the root to the inputs; one block. Steps come by levels, of which none needs another's cotangent, root first. */
typedef struct ts_cuda_route_step {
    ts_cuda_pointer a, b;
    int32_t value_a, value_b, value_c; /* entries of the cotangents; value_b is -1 for a reduce step */
    int32_t first_label, label_count;  /* of `labels`: a and b strides */
    int32_t tie_a;                     /* max_min, min_max: a has the lowest-numbered input */
    int32_t empty;                     /* the sum has no terms: nothing is handed down */
    int32_t pad;
} ts_cuda_route_step;
typedef struct ts_cuda_route {
    ts_cuda_pointer seed; /* one element of the gradient dtype */
    uint64_t steps;       /* ts_cuda_route_step [step_count] in device memory */
    uint64_t levels;      /* int32 [level_count + 1] first steps */
    uint64_t labels;      /* ts_cuda_decode_label [] */
    uint64_t assignment;  /* int64_t [] */
    uint64_t cotangents;  /* of the gradient dtype, one per value of the plan */
    uint64_t operands;    /* scratch: 16 bytes per step */
    uint64_t carries;     /* scratch: a byte per value: does it carry a cotangent? */
    int64_t tile_count;   /* 1 */
    int32_t step_count, level_count, root, pad;
} ts_cuda_route;

/* Slices told apart, for gradients and decoding of selective semirings and log_sum_exp. `absorb` takes the result of one
 * slice (a) into the total (c) and notes in w (int64_t) the first slice that attains it; w is -1 where there was none.
 * `seed` makes the cotangent of a slice's result (d) of that of the total (g): all of it where this slice won, or, for
 * log_sum_exp, its share. One thread per element of the output. */
typedef struct ts_cuda_slices {
    ts_cuda_pointer a, c, w, g, d;
    uint64_t slice_slot; /* entry of the pointer table with the slice's number */
    int64_t elements;
    int64_t tile_count; /* blocks of TS_CUDA_THREADS elements */
    ts_cuda_modes modes;
} ts_cuda_slices;

/* Write gradients that are 0 but for one element: d[place] = cotangent where the place agrees with the assignment. */
typedef struct ts_cuda_one_hot_mode {
    int64_t extent, stride;
    uint32_t magic, shift;
    int32_t label; /* column of the assignment; -1: any place agrees */
    int32_t pad;
} ts_cuda_one_hot_mode;
typedef struct ts_cuda_one_hot_item {
    ts_cuda_pointer d;
    int64_t elements, first_tile; /* tiles (of TS_CUDA_THREADS elements) of earlier items */
    int32_t first_mode, mode_count, wide;
    int32_t value; /* entry of the cotangents */
} ts_cuda_one_hot_item;
typedef struct ts_cuda_one_hot {
    uint64_t items, modes; /* device memory */
    uint64_t assignment, cotangents;
    int64_t tile_count;
    int32_t item_count, pad;
} ts_cuda_one_hot;

/* Look for elements outside the domain in many operands at once. */
typedef struct ts_cuda_check_item {
    ts_cuda_pointer a;
    int64_t elements;
    int64_t first_tile; /* tiles (of TS_CUDA_THREADS elements) of earlier items */
    int32_t first_mode, mode_count; /* a strides, row-major order of the operand's modes */
    int32_t operand, wide;
} ts_cuda_check_item;
/* What a check found; lies in device memory, one per workspace. */
typedef struct ts_cuda_verdict {
    uint64_t key; /* operand << 40 | min(index, 2^40 - 1) of the first bad element; all ones: none. By atomicMin */
} ts_cuda_verdict;
typedef struct ts_cuda_check {
    uint64_t items;   /* ts_cuda_check_item [item_count] in device memory, ascending first_tile */
    uint64_t modes;   /* ts_cuda_mode [] */
    uint64_t verdict; /* ts_cuda_verdict */
    int64_t tile_count;
    int64_t modulus;
    int32_t item_count;
    int32_t pad;
} ts_cuda_check;

/* table[first + i] = values[i]; one block. The values travel in the launch itself, so nothing has to outlive the call. */
#define TS_CUDA_REFRESH_VALUES 448
typedef struct ts_cuda_refresh {
    uint64_t table;
    int32_t first, count;
    uint64_t values[TS_CUDA_REFRESH_VALUES];
} ts_cuda_refresh;

/* Threads per block of every kernel without a tile of its own. */
#define TS_CUDA_THREADS 256

/* ---- how the adjoint of a contract is worked: rows of one batch, positions summed, terms of the step's sum ---- */
/* Dynamic shared bytes of reduce and reduce_row, and the least of decode; of adjoint. */
#define TS_CUDA_REDUCE_SHARED 6144
#define TS_CUDA_ADJOINT_SHARED 32768

#define TS_CUDA_TREE 512       /* positions per block of a sum of cotangents */
#define TS_CUDA_ADJOINT_SHARE 8
#define TS_CUDA_ADJOINT_ROWS 8 /* rows of a block that scatters: one per warp */
typedef enum ts_cuda_adjoint_kind {
    TS_CUDA_ADJOINT_EACH,
    TS_CUDA_ADJOINT_ROW,
    TS_CUDA_ADJOINT_LONG,
    TS_CUDA_ADJOINT_SCATTER /* by winners only */
} ts_cuda_adjoint_kind;

TS_CUDA_SHARED ts_cuda_adjoint_kind ts_cuda_adjoint_way(bool winners, int64_t batch, int64_t rows, int64_t others, int64_t sum)
{
    if (sum >= 64 && others <= (int64_t)TS_CUDA_TREE * TS_CUDA_TREE * TS_CUDA_TREE) {
        return winners ? TS_CUDA_ADJOINT_SCATTER : TS_CUDA_ADJOINT_ROW;
    }
    /* Products of what is small only, so that nothing overflows. */
    return others >= 4096 && sum < 64 && batch < 65536 && rows < 65536 && batch * rows * sum < 65536 ? TS_CUDA_ADJOINT_LONG
                                                                                                     : TS_CUDA_ADJOINT_EACH;
}
/* Levels of the tree of sums that `others` positions need, and the places of the sum for which a block keeps them. */
TS_CUDA_SHARED int32_t ts_cuda_adjoint_levels(int64_t others)
{
    return others <= TS_CUDA_TREE ? 1 : others <= (int64_t)TS_CUDA_TREE * TS_CUDA_TREE ? 2 : 3;
}
TS_CUDA_SHARED int32_t ts_cuda_adjoint_run(int64_t others)
{
    const int32_t levels = ts_cuda_adjoint_levels(others);
    return levels == 1 ? 256 : levels == 2 ? 128 : 64;
}
/* Dynamic shared bytes of an adjoint: tables of 512 offsets, cotangents, values and winners, or 8 x 512 block sums. To
 * scatter: 16 KiB of sums, 4 KiB of offsets by place, 6.5 KiB of staged winners, cotangents and offsets, 8 places of rows. */
TS_CUDA_SHARED uint32_t ts_cuda_adjoint_shared(bool winners, int64_t batch, int64_t rows, int64_t others, int64_t sum)
{
    switch (ts_cuda_adjoint_way(winners, batch, rows, others, sum)) {
    case TS_CUDA_ADJOINT_LONG: return TS_CUDA_TREE * 64u;
    case TS_CUDA_ADJOINT_SCATTER: return 16384 + 4096 + 6656 + 512;
    default: return TS_CUDA_TREE * 32u;
    }
}
/* tile_count of an adjoint. */
TS_CUDA_SHARED int64_t ts_cuda_adjoint_tiles(bool winners, int64_t batch, int64_t rows, int64_t others, int64_t sum)
{
    const int64_t run = (int64_t)256 * TS_CUDA_ADJOINT_SHARE, places = ts_cuda_adjoint_run(others);
    switch (ts_cuda_adjoint_way(winners, batch, rows, others, sum)) {
    case TS_CUDA_ADJOINT_ROW: return batch * rows * ((sum + run - 1) / run);
    case TS_CUDA_ADJOINT_LONG: return batch * rows * ((sum + TS_CUDA_ADJOINT_SHARE - 1) / TS_CUDA_ADJOINT_SHARE);
    case TS_CUDA_ADJOINT_SCATTER:
        return (batch * rows + TS_CUDA_ADJOINT_ROWS - 1) / TS_CUDA_ADJOINT_ROWS * ((sum + places - 1) / places);
    default: return (batch * rows * sum + 255) / 256;
    }
}

/* ---- index mapping: the one way from a linear index to addresses, for host and device ---- */

typedef struct ts_cuda_offsets {
    int64_t a, b, c, w, g, d;
} ts_cuda_offsets;

TS_CUDA_SHARED void ts_cuda_magic(int64_t extent, uint32_t *magic, uint32_t *shift)
{
    uint32_t bits = 0;
    if (extent < 1 || extent >= ((int64_t)1 << 31)) { /* only ever divided by the slow way, or not at all */
        *magic = 0;
        *shift = 0;
        return;
    }
    while (((int64_t)1 << bits) < extent) {
        bits++;
    }
    *shift = 31u + bits;
    *magic = (uint32_t)((((uint64_t)1 << (31u + bits)) + (uint64_t)extent - 1u) / (uint64_t)extent);
}

/* 64-bit divisions are long on a device, and rare: out of line there. */
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
static __host__ __device__ __noinline__ int64_t ts_cuda_divide_wide(int64_t n, int64_t extent) { return n / extent; }
#else
TS_CUDA_SHARED int64_t ts_cuda_divide_wide(int64_t n, int64_t extent) { return n / extent; }
#endif

/* Quotient and remainder of 0 <= n by a mode's extent. */
TS_CUDA_SHARED int64_t ts_cuda_divide(int64_t n, const ts_cuda_mode *mode, int32_t wide, int64_t *remainder)
{
    if (wide) {
        int64_t quotient = ts_cuda_divide_wide(n, mode->extent);
        *remainder = n - quotient * mode->extent;
        return quotient;
    } else {
        uint32_t quotient = (uint32_t)(((uint64_t)(uint32_t)n * mode->magic) >> mode->shift);
        *remainder = (int64_t)((uint32_t)n - quotient * (uint32_t)mode->extent);
        return (int64_t)quotient;
    }
}

/* Add the offsets of row-major linear index n over modes[0 .. count). Unused members cost nothing once inlined. */
TS_CUDA_SHARED void ts_cuda_locate(const ts_cuda_mode *modes, int32_t count, int32_t wide, int64_t n,
                                   ts_cuda_offsets *offsets)
{
    for (int32_t i = count - 1; i >= 0; i--) {
        int64_t position = n;
        if (i > 0) {
            n = ts_cuda_divide(n, &modes[i], wide, &position);
        }
        offsets->a += position * modes[i].a;
        offsets->b += position * modes[i].b;
        offsets->c += position * modes[i].c;
        offsets->w += position * modes[i].w;
        offsets->g += position * modes[i].g;
        offsets->d += position * modes[i].d;
    }
}

#endif
