/* How fast are many small products, by kernel? Usage: batched batched.cubin [products rows columns terms]. Prints microseconds of one
 * launch between two events, after checking samples against plain loops. */
#include "machine.h"

#include "batched_list.h"
#include "batched_abi.h"

static uint64_t state = 7;
static uint32_t draw(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33);
}

static const char *const kinds[] = {"from 0 to 1", "of both signs", "below 0", "few values"};
static float element(int kind)
{
    const float x = (float)(draw() % 1000000u) * 1e-6f;
    return kind == 0 ? x : kind == 1 ? 2 * x - 1 : kind == 2 ? -x - 0.001f : (float)(draw() % 7) - 3;
}

int main(int argc, char **argv)
{
    int64_t size[4] = {10000, 64, 64, 64};
    machine_open(argv[1]);
    for (int i = 2; i < argc && i < 6; i++) size[i - 2] = atoll(argv[i]);
    const int64_t count = size[0], m = size[1], n = size[2], k = size[3];
    std::vector<float> a((size_t)(count * m * k)), b((size_t)(count * n * k)), c((size_t)(count * m * n));
    std::vector<int32_t> w(c.size());
    char *device_a = (char *)machine_allocate(a.size() * 4), *device_b = (char *)machine_allocate(b.size() * 4);
    char *device_c = (char *)machine_allocate(c.size() * 4), *device_w = (char *)machine_allocate(c.size() * 4);
    for (int kind = 0; kind < 4; kind++) {
        for (auto &x : a) x = element(kind);
        for (auto &x : b) x = element(kind);
        machine_upload(device_a, a.data(), a.size() * 4);
        machine_upload(device_b, b.data(), b.size() * 4);
        const auto run = [&](int number, bool winners, bool steep_a, bool steep_b, int blocks) {
            const std::string name = "ts_batched_" + std::to_string(number);
            const size_t shared = ts_cuda_batched_shared();
            ts_cuda_batched p;
            memset(&p, 0, sizeof p);
            p.side[0].from.offset = (uint64_t)(uintptr_t)device_a;
            p.side[1].from.offset = (uint64_t)(uintptr_t)device_b;
            p.c.offset = (uint64_t)(uintptr_t)device_c;
            p.w.offset = (uint64_t)(uintptr_t)device_w;
            p.c_batch = p.w_batch = m * n;
            p.c_row = p.w_row = (int32_t)n;
            p.c_column = p.w_column = 1;
            p.sum = (int32_t)k;
            p.winner_bytes = 4;
            for (int side = 0; side < 2; side++) {
                const bool steep = side == 0 ? steep_a : steep_b;
                const int64_t rows = side == 0 ? m : n;
                p.side[side].batch_step = rows * k;
                p.side[side].row_step = steep ? (uint32_t)k * 4 : 4;
                p.side[side].term_step = steep ? 4 : (uint32_t)rows * 4;
                p.side[side].rows = (int32_t)rows;
                p.side[side].steep = steep;
                p.tiles[side] = (int32_t)((rows + TS_CUDA_BATCHED_TILE - 1) / TS_CUDA_BATCHED_TILE);
            }
            p.tile_count = (int32_t)count * p.tiles[0] * p.tiles[1];
            const double seconds = machine_time(11, [&] { machine_launch(name, &p, sizeof p, p.tile_count, TS_CUDA_BATCHED_THREADS, shared); });
            machine_wait(name.c_str());
            machine_download(c.data(), device_c, c.size() * 4);
            machine_download(w.data(), device_w, w.size() * 4);
            int wrong = 0;
            for (int sample = 0; sample < 20000; sample++) {
                const int64_t e = sample < 4096 && sample < m * n ? sample : (int64_t)(draw() % (uint32_t)count) * m * n + draw() % (uint32_t)(m * n);
                const int64_t item = e / (m * n), i = e / n % m, j = e % n;
                float best = -1e30f;
                int32_t winner = 0;
                for (int64_t t = 0; t < k; t++) {
                    const float x = a[(size_t)(item * m * k + (steep_a ? i * k + t : t * m + i))] +
                                    b[(size_t)(item * n * k + (steep_b ? j * k + t : t * n + j))];
                    winner = x > best ? (int32_t)t : winner;
                    best = x > best ? x : best;
                }
                wrong += c[(size_t)e] != best || (winners && w[(size_t)e] != winner);
            }
            printf("%2d %s%s, %d blocks, %s, elements %-14s %8.2f us %6.2f e12/s, %d wrong\n", number, steep_a ? "r" : "c",
                   steep_b ? "c" : "r", blocks, winners ? "winners" : "values ", kinds[kind], seconds * 1e6,
                   (double)(count * m * n * k) / seconds * 1e-12, wrong);
            fflush(stdout);
        };
#define X(number, winners, steep_a, steep_b, blocks) run(number, winners, steep_a, steep_b, blocks);
        BATCHED_LIST(X)
#undef X
    }
    machine_release(device_a);
    machine_release(device_b);
    machine_release(device_c);
    machine_release(device_w);
}
