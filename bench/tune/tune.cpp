/* How fast are the kernels? Usage: tune tune.cubin [module.cubin ...]. Prints 10^12 pairs per second for dense products
 * (and checks some results), and the share of copy bandwidth for what moves data. */
#include "machine.h"

#include <cmath>
#include <functional>

#include "abi.h"
#include "algebra/element.h"
#include "stream_plan.h"
#include "tune_list.h"

static ts_cuda_pointer address(const void *pointer)
{
    ts_cuda_pointer p = {0, (uint64_t)(uintptr_t)pointer};
    return p;
}
static ts_cuda_mode mode(int64_t extent, int64_t a, int64_t b, int64_t c)
{
    ts_cuda_mode m;
    memset(&m, 0, sizeof m);
    m.extent = extent;
    m.a = a;
    m.b = b;
    m.c = c;
    m.w = m.g = c;
    ts_cuda_magic(extent, &m.magic, &m.shift);
    return m;
}
static uint64_t state = 7;
static uint32_t draw(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33);
}
/* Random elements of a dtype: small enough for every range, spread enough for few ties. */
static std::vector<char> elements(const std::string &dtype, int64_t count, int bytes)
{
    std::vector<char> data((size_t)(count * bytes));
    for (int64_t i = 0; i < count; i++) {
        char *at = &data[(size_t)(i * bytes)];
        uint32_t r = draw();
        float f = (float)(r % 2000001u) / 1000.0f - 1000.0f;
        double d = f;
        uint16_t h = dtype == "bf16" ? ts_store_bf16(f) : ts_store_f16(f);
        int16_t s = (int16_t)(r % 5000u);
        int32_t w = (int32_t)(r % 100000000u);
        int64_t l = w;
        if (dtype == "f32") memcpy(at, &f, 4);
        if (dtype == "f64") memcpy(at, &d, 8);
        if (dtype == "f16" || dtype == "bf16") memcpy(at, &h, 2);
        if (dtype == "i16") memcpy(at, &s, 2);
        if (dtype == "i32") memcpy(at, &w, 4);
        if (dtype == "i64") memcpy(at, &l, 8);
        if (dtype == "c64") { memcpy(at, &f, 4); memcpy(at + 4, &f, 4); }
        if (dtype == "bool") *at = (char)(r % 64 == 0);
    }
    return data;
}
static int bytes_of(const std::string &d)
{
    return d == "f64" || d == "i64" || d == "c64" ? 8 : d == "f32" || d == "i32" ? 4 : d == "bool" ? 1 : 2;
}
static int arithmetic_of(const std::string &d) { return d == "f16" || d == "bf16" ? 4 : bytes_of(d); }

struct product {
    std::string dtype;
    int64_t batch, m, n, k;
    bool a_by_term, b_by_term; /* the sum is contiguous */
    char *a, *b, *c, *w;
    std::vector<char> host_a, host_b;
    product(const std::string &d, int64_t batch_, int64_t m_, int64_t n_, int64_t k_, bool at, bool bt)
        : dtype(d), batch(batch_), m(m_), n(n_), k(k_), a_by_term(at), b_by_term(bt)
    {
        int bytes = bytes_of(d);
        host_a = elements(d, batch * m * k, bytes);
        host_b = elements(d, batch * n * k, bytes);
        a = (char *)machine_allocate(host_a.size());
        b = (char *)machine_allocate(host_b.size());
        c = (char *)machine_allocate((size_t)(batch * m * n * bytes));
        w = (char *)machine_allocate((size_t)(batch * m * n * 4));
        machine_upload(a, host_a.data(), host_a.size());
        machine_upload(b, host_b.data(), host_b.size());
    }
    ~product()
    {
        machine_release(a);
        machine_release(b);
        machine_release(c);
        machine_release(w);
    }
    int64_t offset_a(int64_t n0, int64_t i, int64_t t) const { return n0 * m * k + (a_by_term ? i * k + t : t * m + i); }
    int64_t offset_b(int64_t n0, int64_t j, int64_t t) const { return n0 * n * k + (b_by_term ? j * k + t : t * n + j); }
    ts_cuda_contract params(int left, int right, bool winners) const
    {
        ts_cuda_contract p;
        memset(&p, 0, sizeof p);
        p.a = address(a);
        p.b = address(b);
        p.c = address(c);
        p.w = address(w);
        p.batch = batch; p.left = m; p.right = n; p.sum = k;
        p.left_tiles = (m + left - 1) / left;
        p.right_tiles = (n + right - 1) / right;
        p.splits = 1;
        p.split_terms = k;
        p.tile_count = batch * p.left_tiles * p.right_tiles;
        p.modulus = 0;
        p.batch_count = p.left_count = p.right_count = p.sum_count = 1;
        p.winner_bytes = winners ? 4 : 0;
        p.modes.count = 4;
        p.modes.table[0] = mode(batch, m * k, n * k, m * n);
        p.modes.table[1] = mode(m, a_by_term ? k : 1, 0, n);
        p.modes.table[2] = mode(n, 0, b_by_term ? k : 1, 1);
        p.modes.table[3] = mode(k, a_by_term ? 1 : m, b_by_term ? 1 : n, 0);
        return p;
    }
    /* f32 max_plus only: samples against a loop. */
    bool right(bool winners) const
    {
        for (int sample = 0; sample < 300; sample++) {
            int64_t n0 = draw() % batch, i = draw() % m, j = draw() % n, best_at = 0;
            float best = -INFINITY, got;
            int32_t got_at;
            for (int64_t t = 0; t < k; t++) {
                float x = ((const float *)host_a.data())[offset_a(n0, i, t)] + ((const float *)host_b.data())[offset_b(n0, j, t)];
                if (x > best) {
                    best = x;
                    best_at = t;
                }
            }
            machine_download(&got, (float *)c + (n0 * m + i) * n + j, 4);
            machine_download(&got_at, (int32_t *)w + (n0 * m + i) * n + j, 4);
            if (got != best || (winners && got_at != best_at)) {
                printf("WRONG (%lld, %lld): %g at %d, not %g at %lld\n", (long long)i, (long long)j, got, got_at, best, (long long)best_at);
                return false;
            }
        }
        return true;
    }
};
static FILE *report;
static void line(const char *format, ...) __attribute__((format(printf, 1, 2)));
#include <cstdarg>
static void line(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    if (report) {
        va_start(arguments, format);
        vfprintf(report, format, arguments);
        va_end(arguments);
    }
    fflush(stdout);
}
static void time_product(const product &x, const std::string &name, int left, int right, int threads, size_t shared, bool winners, bool verify, int splits = 1)
{
    const std::string combine = name.substr(0, name.find("_contract_")) + "_combine";
    if (!machine_has(name) || (splits > 1 && !machine_has(combine))) return;
    ts_cuda_contract p = x.params(left, right, winners);
    ts_cuda_combine c;
    char *partial = nullptr;
    memset(&c, 0, sizeof c);
    if (splits > 1) {
        p.split_terms = (x.k + splits - 1) / splits;
        p.splits = (x.k + p.split_terms - 1) / p.split_terms;
        p.tile_count *= p.splits;
        c.c = p.c;
        c.w = p.w;
        c.results = x.batch * x.m * x.n;
        c.splits = p.splits;
        c.tile_count = (c.results + TS_CUDA_THREADS - 1) / TS_CUDA_THREADS;
        c.winner_bytes = p.winner_bytes;
        c.modes = p.modes;
        c.modes.count = 3;
        partial = (char *)machine_allocate((size_t)(c.results * c.splits * 16));
        p.partial = c.partial = (uint64_t)(uintptr_t)partial;
        p.partial_w = c.partial_w = p.partial + (uint64_t)(c.results * c.splits * 8);
    }
    double seconds = machine_time(x.m < 2048 ? 15 : 5, [&] {
        machine_launch(name, &p, sizeof p, p.tile_count, threads, shared);
        if (splits > 1) machine_launch(combine, &c, sizeof c, c.tile_count, TS_CUDA_THREADS, 0);
    });
    machine_wait(name.c_str());
    const char *verdict = verify ? (x.right(winners) ? "right" : "WRONG") : "";
    line("%-40s %5lldx %5lld %5lld %5lld %s%s %9.4f ms %7.2f e12/s %s in %lld parts\n", name.c_str(), (long long)x.batch, (long long)x.m,
         (long long)x.n, (long long)x.k, x.a_by_term ? "r" : "c", x.b_by_term ? "c" : "r", seconds * 1e3,
         (double)(x.batch * x.m * x.n * x.k) / seconds * 1e-12, verdict, (long long)p.splits);
    if (splits > 1) machine_release(partial);
}

/* What moves data: time and bytes per second, read and written. */
static void time_stream(const char *title, const std::string &name, std::vector<ts_cuda_mode> modes, int kept, int sums, bool two, int bytes)
{
    ts_cuda_stream p;
    int64_t a = 1, b = 1, c = 1;
    if (!machine_has(name)) return;
    for (int i = 0; i < kept + sums; i++) {
        a *= modes[(size_t)i].a != 0 ? modes[(size_t)i].extent : 1;
        b *= modes[(size_t)i].b != 0 ? modes[(size_t)i].extent : 1;
        c *= i < kept ? modes[(size_t)i].extent : 1;
    }
    if (!ts_cuda_stream_plan(modes.data(), kept, sums, two, (uint32_t)bytes, &p)) {
        line("%-44s no plan\n", title);
        return;
    }
    char *from = (char *)machine_allocate((size_t)(a * bytes)), *tiny = (char *)machine_allocate((size_t)(b * bytes)), *to = (char *)machine_allocate((size_t)(c * bytes));
    p.a = address(from);
    p.b = address(tiny);
    p.c = address(to);
    for (int64_t blocks : {132 * TS_CUDA_STREAM_BLOCKS, 132 * 2 * TS_CUDA_STREAM_BLOCKS}) {
        const int64_t grid = p.tile_count < blocks ? p.tile_count : blocks;
        double seconds = machine_time(5, [&] { machine_launch(name, &p, sizeof p, grid, TS_CUDA_STREAM_THREADS, ts_cuda_stream_shared(&p, (uint32_t)bytes)); });
        machine_wait(name.c_str());
        line("%-44s grid %6lld tile %4d -> %4d %8.3f ms %6.2f TB/s\n", title, (long long)grid, p.elements, p.results, seconds * 1e3, (double)((a + c) * bytes) / seconds * 1e-12);
    }
    machine_release(from);
    machine_release(tiny);
    machine_release(to);
}
static void streams(void)
{
    for (const char *semiring : {"max_plus", "sum_product"}) {
        const std::string name = std::string("ts_") + semiring + "_f32_stream";
        /* a[high, s, low] against b[l, s] to c[high, l, low] for several places of the sum. */
        for (int low : {0, 8, 14}) {
            for (int width : {1, 3}) { /* sum and left are 2^width */
                const int64_t n = (int64_t)1 << width, inner = (int64_t)1 << low, outer = ((int64_t)1 << 27) / inner / n;
                std::vector<ts_cuda_mode> modes = {mode(outer, inner * n, 0, inner * n), mode(inner, 1, 0, 1),
                                                   mode(n, 0, n, inner), mode(n, inner, 1, 0)};
                char title[96];
                snprintf(title, sizeof title, "%s %d x %d at 2^%d", name.c_str(), (int)n, (int)n, low);
                time_stream(title, name, modes, 3, 1, true, 4);
            }
        }
    }
}

int main(int argc, char **argv)
{
    report = argc > 1 ? fopen(argv[1], "w") : nullptr;
    for (int i = 2; i < argc; i++) machine_open(argv[i]);
    /* PARTS: any of tiles, sizes, streams, pairs, splits, batches; all by default. */
    const std::string parts = getenv("PARTS") ? getenv("PARTS") : "tiles sizes streams pairs splits batches";
    const auto wants = [&](const char *part) { return parts.find(part) != std::string::npos; };
#ifndef TENSUM_SIMCUDA
    if (wants("streams")) {
        const size_t bytes = (size_t)4 << 30;
        char *from = (char *)machine_allocate(bytes), *to = (char *)machine_allocate(bytes);
        double seconds = machine_time(5, [&] { MACHINE(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice)); });
        line("copy %.2f TB/s\n", 2.0 * (double)bytes / seconds * 1e-12);
        machine_release(from);
        machine_release(to);
    }
    for (int layout = 0; layout < 4 && wants("tiles"); layout++) {
        product x("f32", 1, 4096, 4096, 4096, (layout & 1) != 0, (layout & 2) != 0);
#define X(number, bm, bn, bk, tm, tn, threads, stages, track, blocks)                                                     \
        {                                                                                                                 \
            int shared = 0;                                                                                               \
            void *at = nullptr;                                                                                           \
            size_t size = 0;                                                                                              \
            MACHINE(cudaLibraryGetGlobal(&at, &size, machine_libraries[0], "ts_tune_shared_" #number));                   \
            machine_download(&shared, at, 4);                                                                             \
            if (layout == 1 || number == 0 || number == 3 || number == 20)                                                               \
                time_product(x, "ts_tune_" #number, bm, bn, threads, (size_t)shared, track != 0, true);                   \
        }
        TUNE_LIST(X)
#undef X
    }
    for (int64_t size : {256, 512, 1024, 2048, 8192}) {
        if (!wants("sizes")) continue;
        product x("f32", 1, size, size, size, true, false);
#define X(number, bm, bn, bk, tm, tn, threads, stages, track, blocks)                                                     \
        {                                                                                                                 \
            int shared = 0;                                                                                               \
            void *at = nullptr;                                                                                           \
            size_t bytes = 0;                                                                                             \
            MACHINE(cudaLibraryGetGlobal(&at, &bytes, machine_libraries[0], "ts_tune_shared_" #number));                  \
            machine_download(&shared, at, 4);                                                                             \
            if (size < 8192 || number == 0 || number == 20)                                                               \
                time_product(x, "ts_tune_" #number, bm, bn, threads, (size_t)shared, track != 0, size < 8192);            \
        }
        TUNE_LIST(X)
#undef X
    }
#endif
    if (wants("streams")) streams();
    struct variant_row { const char *name; int left, right, threads; ts_cuda_variant id; };
    const variant_row variants[] = {
#define ROW(id, name, left, right, threads) {#name, left, right, threads, TS_CUDA_CONTRACT_##id},
        TS_CUDA_CONTRACT_VARIANTS(ROW)
#undef ROW
    };
    for (const char *semiring : {"max_plus", "sum_product", "max_times", "log_sum_exp", "max_min", "or_and"}) {
        for (const char *d : {"f32", "f64", "i32", "i16", "f16", "bf16", "i64", "c64", "bool"}) {
            const bool slow = !strcmp(semiring, "log_sum_exp") || !strcmp(d, "i64");
            if (!wants("pairs") || !machine_has(std::string("ts_") + semiring + "_" + d + "_contract_generic")) continue;
            product x(d, 1, slow ? 2048 : 4096, slow ? 2048 : 4096, slow ? 2048 : 4096, true, false);
            for (const variant_row &v : variants) {
                for (int with = 0; with < 2; with++) {
                    const std::string name = std::string("ts_") + semiring + "_" + d + "_contract_" + v.name + (with ? "_w" : "");
                    if (v.id == TS_CUDA_CONTRACT_SKINNY || v.id == TS_CUDA_CONTRACT_ROW || v.id == TS_CUDA_CONTRACT_GENERIC) continue;
                    time_product(x, name, v.left, v.right, v.threads, ts_cuda_contract_shared(v.id, (uint32_t)arithmetic_of(d)), with != 0, false);
                }
            }
        }
    }
    for (int64_t size : {256, 512, 1024, 2048}) {
        if (!wants("splits")) continue;
        product x("f32", 1, size, size, size, true, false);
        for (const variant_row &v : variants) {
            for (int with = 0; with < 2; with++) {
                if (v.id == TS_CUDA_CONTRACT_SKINNY || v.id == TS_CUDA_CONTRACT_ROW || v.id == TS_CUDA_CONTRACT_GENERIC) continue;
                for (int splits = 1; splits <= 16 && size / splits >= 32; splits *= 2) {
                    time_product(x, std::string("ts_max_plus_f32_contract_") + v.name + (with ? "_w" : ""), v.left, v.right, v.threads,
                                 ts_cuda_contract_shared(v.id, 4), with != 0, true, splits);
                }
            }
        }
    }
    if (wants("batches")) {
        product x("f32", 10000, 64, 64, 64, true, false);
        for (const variant_row &v : variants) {
            for (int with = 0; with < 2; with++) {
                if (v.id == TS_CUDA_CONTRACT_SKINNY || v.id == TS_CUDA_CONTRACT_ROW) continue;
                time_product(x, std::string("ts_max_plus_f32_contract_") + v.name + (with ? "_w" : ""), v.left, v.right, v.threads,
                             ts_cuda_contract_shared(v.id, 4), with != 0, true);
            }
        }
#ifndef TENSUM_SIMCUDA
#define X(number, bm, bn, bk, tm, tn, threads, stages, track, blocks)                                                     \
        if (bm <= 64 && bn <= 64) {                                                                                       \
            int shared = 0;                                                                                               \
            void *at = nullptr;                                                                                           \
            size_t bytes = 0;                                                                                             \
            MACHINE(cudaLibraryGetGlobal(&at, &bytes, machine_libraries[0], "ts_tune_shared_" #number));                  \
            machine_download(&shared, at, 4);                                                                             \
            time_product(x, "ts_tune_" #number, bm, bn, threads, (size_t)shared, track != 0, true);                       \
        }
        TUNE_LIST(X)
#undef X
#endif
    }
    if (report) fclose(report);
    return 0;
}
