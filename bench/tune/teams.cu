/* Instances of the product by teams of warps to choose from: see teams.cpp. */
#include "team.h"

#include "teams_list.h"

TS_DEFINE_PAIR(max, plus, 1, f32)

#define X(number, rows, columns, terms, threads, stages)                                                      \
    TS_KERNEL_BLOCKS(ts_teams_##number, ts_cuda_team, threads, 1)                                             \
    {                                                                                                         \
        ts_team<pair_f32, rows, columns, terms, threads, stages>::run(p);                                     \
    }
TEAMS_LIST(X)
#undef X
TS_KERNEL(ts_nothing, ts_cuda_team, 512)
{
    if (p.sum < 0) {
        *ts_address(p.c) = 1;
    }
}
