/* Products of few tiles by one launch: see team.h. For host and kernels. */
#ifndef TS_CUDA_TEAM_ABI_H
#define TS_CUDA_TEAM_ABI_H

#include "abi.h"

/* X(id, name, rows, columns, terms of a panel, threads, stages): one tile to a block, one block to a multiprocessor.
 * From bench/tune/teams.sh, on an H200. */
#define TS_CUDA_TEAM_SHAPES(X)           \
    X(TEAM, team, 32, 64, 128, 512, 3)   \
    X(TEAMS, teams, 128, 64, 64, 512, 4)

typedef enum ts_cuda_team_shape {
#define TS_CUDA_TEAM_ENUM(id, ...) TS_CUDA_SHAPE_##id,
    TS_CUDA_TEAM_SHAPES(TS_CUDA_TEAM_ENUM)
#undef TS_CUDA_TEAM_ENUM
        TS_CUDA_TEAM_SHAPE_COUNT
} ts_cuda_team_shape;

/* One operand: element (batch, row, term) lies at batch * batch_step + row * row_step + term * term_step elements. */
typedef struct ts_cuda_team_side {
    ts_cuda_pointer from;
    int64_t batch_step;
    uint32_t row_step, term_step; /* in bytes; steep: terms are neighbours; else rows are */
    int32_t rows, steep;
} ts_cuda_team_side;
/* c[batch, left, right] = (+) over sum of a[batch, left, sum] (*) b[batch, right, sum], elements of 4 bytes. Of each operand, four
 * neighbours lie in 16 bytes, if it is aligned, and there are no others. Item = (batch * tiles of a + tile of a) * tiles of b
 * + tile of b, less than 2^31 of them. */
typedef struct ts_cuda_team {
    ts_cuda_team_side side[2];
    ts_cuda_pointer c;
    ts_cuda_switch accumulate;
    int64_t c_batch, c_row, c_column; /* elements */
    int32_t sum, tiles[2], tile_count;
} ts_cuda_team;

/* Dynamic shared bytes: panels, through which results of all teams go, and barriers. */
TS_CUDA_SHARED TS_CUDA_CONSTEXPR uint32_t ts_cuda_team_shared(uint32_t rows, uint32_t columns, uint32_t terms, uint32_t threads,
                                                              uint32_t stages)
{
    return (stages * (rows + columns) * (terms + 4u) > threads / 32u * (2048u / columns) * (columns + 8u)
                ? stages * (rows + columns) * (terms + 4u)
                : threads / 32u * (2048u / columns) * (columns + 8u)) *
               4u +
           128u;
}

#endif
