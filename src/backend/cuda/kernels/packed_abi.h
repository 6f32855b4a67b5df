/* Large products through packed panels, in two or three launches: see packed.h. For host and kernels.
 *
 * `survey` (log_sum_exp) notes the largest element of each row of both operands, `pack` copies both into panels as
 * the product wants them, `packed` multiplies. An operand's rows are cut into tiles of `width`, its terms are padded to
 * `depth`; element (batch, row, term) lies at
 *     ((batch * tiles + row / width) * depth + term) * planes * width + plane * width + row % width
 * in units of the pair's class. A unit is one element, one of its two parts (planes), two terms of a row, or the bits of 32;
 * then depth counts units, and those of two terms lie by blocks of 16 rows and 16 terms as tensor cores take them. Where
 * a result takes half a word, elements of the left operand are there twice in a unit, and two of the right one are in one. Rows
 * and terms past the end are zero of the semiring, so the product has no edges but the stores'.
 *
 * Winners: `packed_w` also notes in which interval of the sum each result last rose, and leaves, for each tile, its results
 * sorted by interval (`found`: value and place in the tile, `ends`: where each interval ends). `winners` looks in each
 * interval for the terms that are equal to its results. For it, `pack` copies the operands once more, as they are,
 *     [batch * tiles + row / width][term / 64][row % width][term % 64]
 * so that lanes that look at different rows can read different banks: each begins with another term.
 *
 * Notes: what has to be known of a row as a whole: [chunk][(batch * tiles + row / width) * width + row % width], one for
 * each chunk of terms, joined by who reads them. */
#ifndef TS_CUDA_PACKED_ABI_H
#define TS_CUDA_PACKED_ABI_H

#include "abi.h"

/* X(id, rows, columns, terms, a thread's rows, its columns, threads, stages, blocks, planes, bytes of a unit, terms in a unit,
 * columns in a unit). From bench/tune/packed.sh, on an H200. */
#define TS_CUDA_PACKED_CLASSES(X)                           \
    X(SINGLE, 128, 128, 32, 8, 8, 256, 3, 2, 1, 4, 1, 1)    \
    X(DOUBLE, 128, 64, 16, 8, 8, 128, 4, 2, 1, 8, 1, 1)     \
    X(PAIRED, 128, 128, 8, 8, 8, 256, 4, 1, 2, 4, 1, 1)     \
    X(BITS, 128, 128, 16, 8, 8, 256, 4, 2, 1, 4, 32, 1)     \
    X(HALF, 128, 128, 32, 4, 16, 256, 3, 2, 1, 4, 2, 1)     \
    X(CHOICE, 128, 256, 32, 8, 16, 256, 4, 1, 1, 4, 1, 1)   \
    X(HALVES, 128, 256, 32, 8, 16, 256, 3, 2, 1, 4, 1, 2)   \
    X(CHOICE_W, 128, 256, 32, 8, 16, 256, 3, 1, 1, 4, 1, 1) \
    X(HALVES_W, 128, 256, 16, 8, 16, 256, 4, 2, 1, 4, 1, 2)

typedef enum ts_cuda_packed_class {
#define TS_CUDA_PACKED_ENUM(id, ...) TS_CUDA_PACKED_##id,
    TS_CUDA_PACKED_CLASSES(TS_CUDA_PACKED_ENUM)
#undef TS_CUDA_PACKED_ENUM
        TS_CUDA_PACKED_CLASS_COUNT
} ts_cuda_packed_class;

#define TS_CUDA_PACK_TERMS 64      /* a step of pack: terms of all rows of a tile */
#define TS_CUDA_PACK_TABLE 256     /* offsets of terms at a time */
#define TS_CUDA_CAREFUL_ROWS 32    /* tiles of contract_small, by which results are done again */
#define TS_CUDA_CAREFUL_COLUMNS 64

#define TS_CUDA_INTERVAL TS_CUDA_PACK_TERMS /* terms in an interval of `winners` */
#define TS_CUDA_INTERVALS 256               /* at most: their numbers are bytes */

typedef struct ts_cuda_pack_side {
    ts_cuda_pointer from;
    uint64_t to, notes;   /* notes: 0 where the pair takes none */
    uint64_t rows_to;     /* 0, or panels for `winners` */
    int64_t rows, tiles;
    int32_t width, conjugate;
} ts_cuda_pack_side;
/* Item: (batch * tiles + tile) * chunks + chunk of side 0, then of side 1. Modes: batch, left, right, sum. */
typedef struct ts_cuda_pack {
    ts_cuda_pack_side side[2];
    int64_t batch, sum;
    int64_t depth;        /* in elements: a multiple of TS_CUDA_PACK_TERMS */
    int64_t chunk;        /* elements per chunk: the same */
    int64_t chunks, tile_count;
    int64_t modulus;
    int32_t batch_count, left_count, right_count, sum_count;
    ts_cuda_modes modes;
} ts_cuda_pack;

/* Item = ((batch * splits + split) * left_tiles + left_tile) * right_tiles + right_tile. Modes: batch, left, right, c strides.
 * Splits as in ts_cuda_contract, in panels. `careful`: 0, or a byte for each tile that contract_small has of the same
 * product: set where it has to do the tile, whose results are then not stored here. */
typedef struct ts_cuda_packed {
    ts_cuda_pointer c;
    ts_cuda_switch accumulate;
    uint64_t a, b, a_notes, b_notes;
    uint64_t partial, careful;
    uint64_t found, ends; /* packed_w */
    int64_t batch, left, right;
    int64_t left_tiles, right_tiles, splits;
    int64_t panels, split_panels, tile_count;
    int64_t chunks; /* of notes */
    int64_t modulus;
    int32_t batch_count, left_count, right_count, pad;
    ts_cuda_modes modes;
} ts_cuda_packed;

/* Item = (batch * left_tiles + left_tile) * right_tiles + right_tile. Modes: batch, left, right, w strides. */
typedef struct ts_cuda_winners {
    ts_cuda_pointer w;
    uint64_t a, b, found, ends;
    int64_t left, right;
    int64_t left_tiles, right_tiles, tile_count;
    int64_t intervals;
    int64_t modulus;
    int32_t batch_count, left_count, right_count, winner_bytes;
    ts_cuda_modes modes;
} ts_cuda_winners;
#define TS_CUDA_WINNERS_THREADS 768

/* Dynamic shared bytes: stages of panels, through which results go too, or the tables that come after them. */
TS_CUDA_SHARED TS_CUDA_CONSTEXPR uint32_t ts_cuda_packed_shared(uint32_t rows, uint32_t columns, uint32_t terms, uint32_t stages,
                                                                uint32_t planes, uint32_t unit, uint32_t across)
{
    return stages * terms * (rows + columns / across) * planes * unit /* panels */
           + 2u * (rows > columns / across ? rows : columns / across) * planes * unit /* read past the last */
           + (rows + columns) * 16u + 128u /* tables of offsets, notes */
           + 128u; /* barriers */
}
/* What packed_w has beside: a byte for each result, ends of intervals. */
TS_CUDA_SHARED TS_CUDA_CONSTEXPR uint32_t ts_cuda_noted_shared(uint32_t rows, uint32_t columns)
{
    return rows * columns + TS_CUDA_INTERVALS * 4u;
}
/* Of winners: two stages of panels, offsets of rows and columns, ends of intervals, barriers. */
TS_CUDA_SHARED TS_CUDA_CONSTEXPR uint32_t ts_cuda_winners_shared(uint32_t rows, uint32_t columns, uint32_t storage)
{
    return (rows + columns) * (2u * TS_CUDA_INTERVAL * storage + 8u) + TS_CUDA_INTERVALS * 4u + 128u;
}
/* Of pack: offsets of rows and terms, notes, a step. */
TS_CUDA_SHARED TS_CUDA_CONSTEXPR uint32_t ts_cuda_pack_shared(uint32_t width, uint32_t storage)
{
    return (width + TS_CUDA_PACK_TABLE) * 8u + 256u * 8u + width * 8u + TS_CUDA_PACK_TERMS * (width + 1u) * storage;
}

#endif
