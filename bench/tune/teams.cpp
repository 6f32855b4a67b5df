/* How fast are small products by teams of warps, by shape? Usage: teams teams.cubin [size ...]. Prints microseconds of one
 * launch between two events, and of each of 20 in a row, after checking samples against plain loops. */
#include "machine.h"

#include "teams_list.h"
#include "team_abi.h"

static uint64_t state = 7;
static uint32_t draw(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33);
}

int main(int argc, char **argv)
{
    machine_open(argv[1]);
    std::vector<int64_t> sizes;
    for (int i = 2; i < argc; i++) sizes.push_back(atoll(argv[i]));
    if (sizes.empty()) sizes = {256, 512, 768, 1024, 1536};
    for (int64_t n : sizes) {
        const size_t bytes = (size_t)(n * n) * 4;
        std::vector<float> a((size_t)(n * n)), b(a.size());
        for (auto &x : a) x = (float)(draw() % 1000000u) * 1e-6f;
        for (auto &x : b) x = (float)(draw() % 1000000u) * 1e-6f;
        char *device_a = (char *)machine_allocate(bytes), *device_b = (char *)machine_allocate(bytes), *device_c = (char *)machine_allocate(bytes);
        machine_upload(device_a, a.data(), bytes);
        machine_upload(device_b, b.data(), bytes);
        for (int layout = 0; layout < (n == 1024 ? 4 : 1); layout++) {
            ts_cuda_team p;
            memset(&p, 0, sizeof p);
            p.c.offset = (uint64_t)(uintptr_t)device_c;
            p.c_row = n;
            p.c_column = 1;
            p.sum = (int32_t)n;
            for (int side = 0; side < 2; side++) {
                const bool steep = side == 0 ? (layout & 1) == 0 : (layout & 2) != 0;
                p.side[side].from.offset = (uint64_t)(uintptr_t)(side == 0 ? device_a : device_b);
                p.side[side].row_step = steep ? (uint32_t)n * 4 : 4;
                p.side[side].term_step = steep ? 4 : (uint32_t)n * 4;
                p.side[side].rows = (int32_t)n;
                p.side[side].steep = steep;
            }
            printf("%lld %s%s: nothing takes %.2f us, %.2f in a row\n", (long long)n, p.side[0].steep ? "r" : "c", p.side[1].steep ? "c" : "r",
                   1e6 * machine_time(15, [&] { machine_launch("ts_nothing", &p, sizeof p, 128, 512, 200000); }),
                   1e6 / 20 * machine_time(9, [&] { for (int i = 0; i < 20; i++) machine_launch("ts_nothing", &p, sizeof p, 128, 512, 200000); }));
#define X(number, bm, bn, bk, threads, stages)                                                                            \
            {                                                                                                             \
                const std::string name = "ts_teams_" #number;                                                             \
                const size_t shared = ts_cuda_team_shared(bm, bn, bk, threads, stages);                                   \
                p.tiles[0] = (int32_t)((n + bm - 1) / bm);                                                                \
                p.tiles[1] = (int32_t)((n + bn - 1) / bn);                                                                \
                p.tile_count = p.tiles[0] * p.tiles[1];                                                                   \
                const auto launch = [&] { machine_launch(name, &p, sizeof p, p.tile_count, threads, shared); };           \
                const double one = machine_time(15, launch);                                                              \
                const double many = machine_time(9, [&] { for (int i = 0; i < 20; i++) launch(); }) / 20;                 \
                machine_wait(name.c_str());                                                                               \
                bool right = true;                                                                                        \
                for (int sample = 0; sample < 100; sample++) {                                                            \
                    const int64_t i = draw() % n, j = draw() % n;                                                         \
                    float best = -1.0f, got;                                                                              \
                    for (int64_t k = 0; k < n; k++) {                                                                     \
                        const float x = a[(size_t)(p.side[0].steep ? i * n + k : k * n + i)], y = b[(size_t)(p.side[1].steep ? j * n + k : k * n + j)]; \
                        best = x + y > best ? x + y : best;                                                               \
                    }                                                                                                     \
                    machine_download(&got, device_c + (i * n + j) * 4, 4);                                                \
                    right = right && got == best;                                                                         \
                }                                                                                                         \
                printf("  %2d %3dx%-3d %3d terms %d threads %d stages %4d tiles: %8.2f us, in a row %8.2f us %6.2f e12/s %s\n", number, bm, bn, bk, \
                       threads, stages, p.tile_count, one * 1e6, many * 1e6, (double)(n * n * n) / many * 1e-12, right ? "right" : "WRONG"); \
                fflush(stdout);                                                                                           \
            }
            TEAMS_LIST(X)
#undef X
        }
        machine_release(device_a);
        machine_release(device_b);
        machine_release(device_c);
    }
}
