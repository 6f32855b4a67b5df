/* How fast are products through packed panels, by shape? Usage: packed packed.cubin [size ...]. Prints 10^12 pairs per second
 * of the product alone and with its packing, after checking samples against plain loops. SIGN=1 or -1: operands
 * of one sign. ONLY=pair: nothing else. */
#include "machine.h"

#include <cmath>

#include "packed_abi.h"
#include "algebra/element.h"
#include "packed_list.h"

static uint64_t state = 7;
static uint32_t draw(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33);
}
static ts_cuda_mode mode(int64_t extent, int64_t a, int64_t b, int64_t c)
{
    ts_cuda_mode m;
    memset(&m, 0, sizeof m);
    m.extent = extent;
    m.a = a;
    m.b = b;
    m.c = c;
    ts_cuda_magic(extent, &m.magic, &m.shift);
    return m;
}

static int one_sign; /* SIGN: 1, -1: of all operands; 0: both */

struct operands {
    std::string pair;
    int64_t size;
    int bytes;
    std::vector<char> a, b;
    char *device_a, *device_b, *device_c, *panels_a, *panels_b, *notes_a, *notes_b, *careful;
    operands(const std::string &pair_, int bytes_, int64_t size_) : pair(pair_), size(size_), bytes(bytes_)
    {
        a.resize((size_t)(size * size * bytes));
        b.resize(a.size());
        for (std::vector<char> *x : {&a, &b}) {
            for (int64_t i = 0; i < size * size; i++) {
                const float signs = (float)(draw() % 2000001u) * 1e-6f - 1.0f;
                const float f = one_sign == 0 ? signs : (float)one_sign * (fabsf(signs) + 1e-6f), g = (float)(draw() % 2000001u) * 1e-6f - 1.0f;
                const double d = f + 1e-9 * g;
                char *at = &(*x)[(size_t)(i * bytes)];
                const int32_t whole = (int32_t)(draw() % 200001u) - 100000;
                const int16_t narrow = (int16_t)(whole / 40); /* no sum is out of range */
                if (pair.find("bool") != std::string::npos) *at = (char)(draw() % 64 == 0);
                else if (pair.find("i32") != std::string::npos) memcpy(at, &whole, 4);
                else if (pair.find("i16") != std::string::npos) memcpy(at, &narrow, 2);
                else if (pair.find("f64") != std::string::npos) memcpy(at, &d, 8);
                else if (bytes == 2) {
                    const uint16_t h = ts_store_f16(f);
                    memcpy(at, &h, 2);
                } else memcpy(at, &f, 4);
                if (pair.find("c64") != std::string::npos) memcpy(at + 4, &g, 4);
            }
        }
        const size_t panels = a.size() * 2 + (1 << 20);
        device_a = (char *)machine_allocate(a.size());
        device_b = (char *)machine_allocate(b.size());
        device_c = (char *)machine_allocate(a.size());
        panels_a = (char *)machine_allocate(panels);
        panels_b = (char *)machine_allocate(panels);
        notes_a = (char *)machine_allocate((size_t)size * 64 * 16);
        notes_b = (char *)machine_allocate((size_t)size * 64 * 16);
        careful = (char *)machine_allocate((size_t)(size * size));
        machine_upload(device_a, a.data(), a.size());
        machine_upload(device_b, b.data(), b.size());
    }
    ~operands()
    {
        for (char *x : {device_a, device_b, device_c, panels_a, panels_b, notes_a, notes_b, careful}) machine_release(x);
    }
    double at(const std::vector<char> &x, int64_t row, int64_t column, int part) const
    {
        const char *from = &x[(size_t)((row * size + column) * bytes)];
        double d;
        float f;
        if (bytes == 1) return *from;
        if (pair.find("i32") != std::string::npos) {
            int32_t whole;
            memcpy(&whole, from, 4);
            return whole;
        }
        if (pair.find("i16") != std::string::npos) {
            int16_t whole;
            memcpy(&whole, from, 2);
            return whole;
        }
        if (bytes == 2) {
            uint16_t h;
            memcpy(&h, from, 2);
            return ts_load_f16(h);
        }
        if (pair.find("f64") != std::string::npos) {
            memcpy(&d, from, 8);
            return d;
        }
        memcpy(&f, from + 4 * part, 4);
        return f;
    }
    bool right(void)
    {
        for (int sample = 0; sample < 100; sample++) {
            const int64_t i = draw() % size, j = draw() % size;
            double real = pair.find("max") == 0 ? -INFINITY : 0.0, imaginary = 0.0, whole = 0.0;
            for (int64_t k = 0; k < size; k++) {
                const double x = at(a, i, k, 0), y = at(b, k, j, 0);
                if (pair.find("max") == 0) real = x + y > real ? x + y : real;
                else if (pair.find("or") == 0) real = x != 0 && y != 0 ? 1.0 : real;
                else if (pair.find("log") == 0) real += exp(x + y);
                else {
                    real += x * y;
                    whole += fabs(x * y);
                }
                if (pair.find("c64") != std::string::npos) {
                    const double u = at(a, i, k, 1), v = at(b, k, j, 1);
                    real -= u * v;
                    imaginary += x * v + u * y;
                    whole += fabs(u) + fabs(v);
                }
            }
            if (pair.find("log") == 0) real = log(real);
            char got[16] = {0};
            float f[2];
            double d;
            machine_download(got, device_c + (i * size + j) * bytes, (size_t)bytes);
            memcpy(f, got, 8);
            memcpy(&d, got, 8);
            uint16_t h;
            memcpy(&h, got, 2);
            int32_t integer;
            int16_t narrow;
            memcpy(&integer, got, 4);
            memcpy(&narrow, got, 2);
            const double value = pair.find("i32") != std::string::npos ? integer : pair.find("i16") != std::string::npos ? narrow
                                 : bytes == 1 ? got[0] : bytes == 2 ? ts_load_f16(h) : pair.find("f64") != std::string::npos ? d : f[0];
            const double bound = (pair.find("f64") != std::string::npos ? 1e-15 : 1e-6) * (1.0 + whole + fabs(real)) + (bytes == 2 ? 5e-4 * fabs(real) : 0.0);
            if (!(fabs(value - real) <= bound) || (pair.find("c64") != std::string::npos && !(fabs(f[1] - imaginary) <= bound))) {
                printf("WRONG %s (%lld, %lld): %g, not %g\n", pair.c_str(), (long long)i, (long long)j, value, real);
                return false;
            }
        }
        return true;
    }
};

int main(int argc, char **argv)
{
    machine_open(argv[1]);
    one_sign = getenv("SIGN") ? atoi(getenv("SIGN")) : 0;
    for (int number = 2; number < argc || number == 2; number++) {
        const int64_t size = number < argc ? atoll(argv[number]) : 4096;
        operands *x = nullptr;
#define X(number, name, bm, bn, bk, tm, tn, threads, stages, blocks)                                                       \
        do {                                                                                                               \
            const std::string pair = #name;                                                                                \
            const bool noted = pair.find("max") == 0 || pair.find("log") == 0 || pair.find("min") == 0, log = pair.find("log") == 0;                \
            const int bytes = pair.find("bool") != std::string::npos ? 1 : pair.find("64") != std::string::npos ? 8 \
                              : pair.find("16") != std::string::npos ? 2 : 4;                                              \
            if (getenv("ONLY") && pair != getenv("ONLY")) break;                                                           \
            if (x == nullptr || x->pair != pair) {                                                                         \
                delete x;                                                                                                  \
                x = new operands(pair, bytes, size);                                                                       \
            }                                                                                                              \
            ts_cuda_pack p;                                                                                                \
            ts_cuda_packed q;                                                                                              \
            memset(&p, 0, sizeof p);                                                                                       \
            memset(&q, 0, sizeof q);                                                                                       \
            p.modes.count = 3;                                                                                             \
            p.left_count = p.right_count = p.sum_count = 1;                                                                \
            p.modes.table[0] = mode(size, size, 0, size);                                                                  \
            p.modes.table[1] = mode(size, 0, 1, 1);                                                                        \
            p.modes.table[2] = mode(size, 1, size, 0);                                                                     \
            p.batch = 1;                                                                                                   \
            p.sum = p.depth = size;                                                                                        \
            p.chunk = 512 < size ? 512 : size;                                                                             \
            p.chunks = (size + p.chunk - 1) / p.chunk;                                                                     \
            for (int side = 0; side < 2; side++) {                                                                         \
                p.side[side].from.offset = (uint64_t)(uintptr_t)(side ? x->device_b : x->device_a);                        \
                p.side[side].to = (uint64_t)(uintptr_t)(side ? x->panels_b : x->panels_a);                                 \
                p.side[side].notes = noted ? (uint64_t)(uintptr_t)(side ? x->notes_b : x->notes_a) : 0;                    \
                p.side[side].rows = size;                                                                                  \
                p.side[side].width = side ? bn : bm;                                                                       \
                p.side[side].tiles = (size + p.side[side].width - 1) / p.side[side].width;                                 \
                p.tile_count += p.side[side].tiles * p.chunks;                                                             \
            }                                                                                                              \
            q.c.offset = (uint64_t)(uintptr_t)x->device_c;                                                                 \
            q.a = p.side[0].to;                                                                                            \
            q.b = p.side[1].to;                                                                                            \
            q.a_notes = p.side[0].notes;                                                                                   \
            q.b_notes = p.side[1].notes;                                                                                   \
            q.careful = (uint64_t)(uintptr_t)x->careful;                                                                   \
            q.batch = q.splits = 1;                                                                                        \
            q.left = q.right = size;                                                                                       \
            q.left_tiles = p.side[0].tiles;                                                                                \
            q.right_tiles = p.side[1].tiles;                                                                               \
            q.panels = q.split_panels = size / (bk) / (bytes == 1 ? 32 : bytes == 2 && pair.find("max") != 0 ? 2 : 1); \
            q.tile_count = q.left_tiles * q.right_tiles;                                                                   \
            q.chunks = p.chunks;                                                                                           \
            q.left_count = q.right_count = 1;                                                                              \
            q.modes = p.modes;                                                                                             \
            int shared = 0;                                                                                                \
            const size_t pack_shared = ts_cuda_pack_shared((bm) > (bn) ? (bm) : (bn), (uint32_t)bytes);                     \
            const std::string kernel = "ts_packed_" #number, pack = "ts_pack_" + pair, survey = "ts_survey_" + pair;       \
            void *at = nullptr;                                                                                            \
            size_t got = 0;                                                                                                \
            MACHINE(cudaLibraryGetGlobal(&at, &got, machine_libraries[0], "ts_packed_shared_" #number));                   \
            machine_download(&shared, at, 4);                                                                              \
            const double packing = machine_time(5, [&] {                                                                   \
                if (log) machine_launch(survey, &p, sizeof p, p.tile_count, TS_CUDA_THREADS, pack_shared);                 \
                machine_launch(pack, &p, sizeof p, p.tile_count, TS_CUDA_THREADS, pack_shared);                            \
            });                                                                                                            \
            const double product = machine_time(7, [&] { machine_launch(kernel, &q, sizeof q, q.tile_count, threads, (size_t)shared); }); \
            machine_wait(kernel.c_str());                                                                                  \
            const double pairs = (double)size * (double)size * (double)size * 1e-12;                                       \
            printf("%2d %-16s %4dx%-4d %3d %2dx%-2d %3d threads %d stages %d blocks, %lld: packing %7.3f ms, product %8.3f ms %7.2f, both %7.2f e12/s %s\n", \
                   number, #name, bm, bn, bk, tm, tn, threads, stages, blocks, (long long)size, packing * 1e3, product * 1e3, \
                   pairs / product, pairs / (product + packing), x->right() ? "right" : "WRONG");                          \
            fflush(stdout);                                                                                                \
        } while (0);
        PACKED_LIST(X)
#undef X
        delete x;
    }
    return 0;
}
