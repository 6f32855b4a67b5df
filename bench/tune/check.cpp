/* Do the kernels compute what they should? Every pair, every contract variant, reduce, combine, decode and the adjoints,
 * on small random shapes and strides, against loops written here. Usage: check [module.cubin ...]
 *
 * Selective pairs and integers must agree bit for bit (all NaN are one), sums to a relative bound. */
#include "machine.h"

#include <algorithm>
#include <cmath>

#include "abi.h"
#include "algebra/algebra.h"
#include "algebra/element.h"
#include "move_plan.h"
#include "stream_plan.h"
#include "sweep_plan.h"

static uint64_t random_state = 12345;
static uint32_t draw(uint32_t below)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(random_state >> 33) % below;
}
static long checked, wrong;

/* ---- random elements ---- */
static double pick(int add, bool odd)
{
    if (odd && draw(12) == 0) {
        return draw(2) ? INFINITY : -INFINITY;
    }
    if (odd && draw(60) == 0) {
        return NAN;
    }
    (void)add;
    return (double)((int)draw(17) - 8);
}
struct shape {
    std::vector<ts_cuda_mode> modes;
    int counts[4]; /* batch, left, right, sum */
    int64_t sizes[4];
    int64_t a, b, c; /* elements of the buffers */
};
static int64_t stride_table(std::vector<ts_cuda_mode> &modes, const std::vector<int> &which, int64_t ts_cuda_mode::*stride,
                            bool shuffled)
{
    std::vector<int> order = which;
    int64_t step = 1;
    if (shuffled) {
        for (size_t i = order.size(); i > 1; i--) {
            std::swap(order[i - 1], order[draw((uint32_t)i)]);
        }
    }
    for (size_t i = order.size(); i-- > 0;) {
        modes[(size_t)order[i]].*stride = step;
        step *= modes[(size_t)order[i]].extent;
    }
    return step;
}
static shape draw_shape(int kind)
{
    shape s;
    const int64_t some[] = {1, 2, 2, 3, 4, 5, 7, 8};
    int64_t plain[4] = {1, 1, 1, 1};
    s.modes.clear();
    switch (kind) {
    case 0: plain[1] = 37; plain[2] = 70; plain[3] = 19; break;
    case 1: plain[1] = 36; plain[2] = 136; plain[3] = 60; break;
    case 2: plain[0] = 3; plain[1] = 1; plain[2] = 260; plain[3] = 5; break;
    case 3: plain[1] = 2; plain[2] = 3; plain[3] = 700; break;
    case 4: plain[1] = 6; plain[2] = 9; plain[3] = 0; break;
    case 5: plain[1] = 40; plain[2] = 33; plain[3] = 1; break;
    default: break;
    }
    for (int k = 0; k < 4; k++) {
        s.counts[k] = 0;
        s.sizes[k] = 1;
        int count = kind <= 5 ? 1 : (int)draw(4);
        for (int i = 0; i < count; i++) {
            ts_cuda_mode mode;
            memset(&mode, 0, sizeof mode);
            mode.extent = kind <= 5 ? plain[k] : some[draw(8)];
            ts_cuda_magic(mode.extent, &mode.magic, &mode.shift);
            s.modes.push_back(mode);
            s.counts[k]++;
            s.sizes[k] *= mode.extent;
        }
    }
    if (s.sizes[0] * s.sizes[1] * s.sizes[2] * s.sizes[3] > 300000) {
        return draw_shape(kind); /* too long for the loops */
    }
    std::vector<int> in_a, in_b, in_c;
    int at = 0;
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < s.counts[k]; i++, at++) {
            if (k != 2) in_a.push_back(at);
            if (k != 1) in_b.push_back(at);
            if (k != 3) in_c.push_back(at);
        }
    }
    const bool shuffled = kind != 1 || draw(2);
    s.a = stride_table(s.modes, in_a, &ts_cuda_mode::a, shuffled);
    s.b = stride_table(s.modes, in_b, &ts_cuda_mode::b, shuffled);
    s.c = stride_table(s.modes, in_c, &ts_cuda_mode::c, shuffled);
    stride_table(s.modes, in_c, &ts_cuda_mode::w, true);
    stride_table(s.modes, in_c, &ts_cuda_mode::g, true);
    return s;
}
static void offsets_of(const shape &s, int first, int count, int64_t n, ts_cuda_offsets *o)
{
    for (int i = first + count - 1; i >= first; i--) {
        int64_t position = n % s.modes[(size_t)i].extent;
        n /= s.modes[(size_t)i].extent;
        o->a += position * s.modes[(size_t)i].a;
        o->b += position * s.modes[(size_t)i].b;
        o->c += position * s.modes[(size_t)i].c;
        o->w += position * s.modes[(size_t)i].w;
        o->g += position * s.modes[(size_t)i].g;
        o->d += position * s.modes[(size_t)i].d;
    }
}
static void put_table(ts_cuda_modes *to, const std::vector<ts_cuda_mode> &modes)
{
    memset(to, 0, sizeof *to);
    to->count = (int32_t)modes.size();
    to->wide = (int32_t)(draw(4) == 0);
    for (size_t i = 0; i < modes.size(); i++) {
        to->table[i] = modes[i];
    }
}
template <typename T> static T *upload(const std::vector<T> &values)
{
    T *block = (T *)machine_allocate(values.size() * sizeof(T) + 64);
    if (!values.empty()) {
        machine_upload(block, values.data(), values.size() * sizeof(T));
    }
    return block;
}
static ts_cuda_pointer address(const void *pointer)
{
    ts_cuda_pointer p = {0, (uint64_t)(uintptr_t)pointer};
    return p;
}

/* ---- comparisons ---- */
static bool close_enough(double x, double y, double bound)
{
    if (x != x || y != y) return x != x && y != y;
    if (x == y) return true;
    return std::fabs(x - y) <= bound * std::max(1.0, std::max(std::fabs(x), std::fabs(y)));
}
static double number_of(float x) { return x; }
static double number_of(double x) { return x; }
static double number_of(int16_t x) { return x; }
static double number_of(int32_t x) { return x; }
static double number_of(int64_t x) { return (double)x; }
static double number_of(uint8_t x) { return x; }
static bool same(ts_c64 x, ts_c64 y, double bound) { return close_enough(x.re, y.re, bound) && close_enough(x.im, y.im, bound); }
static bool same(ts_c128 x, ts_c128 y, double bound) { return close_enough(x.re, y.re, bound) && close_enough(x.im, y.im, bound); }
static bool same(ts_vc64 x, ts_vc64 y, double bound) { return close_enough(x.value, y.value, 0) && close_enough(x.count, y.count, bound); }
static bool same(ts_vc128 x, ts_vc128 y, double bound) { return close_enough(x.value, y.value, 0) && close_enough(x.count, y.count, bound); }
template <typename T> static bool same(T x, T y, double bound) { return x == y || close_enough(number_of(x), number_of(y), bound); }
static std::string text(ts_c64 x) { return std::to_string(x.re) + "," + std::to_string(x.im); }
static std::string text(ts_c128 x) { return std::to_string(x.re) + "," + std::to_string(x.im); }
static std::string text(ts_vc64 x) { return std::to_string(x.value) + "*" + std::to_string(x.count); }
static std::string text(ts_vc128 x) { return std::to_string(x.value) + "*" + std::to_string(x.count); }
template <typename T> static std::string text(T x) { return std::to_string(x); }

static void make(ts_c64 *x, double v) { x->re = (float)v; x->im = (float)((int)draw(9) - 4); }
static void make(ts_c128 *x, double v) { x->re = v; x->im = (int)draw(9) - 4; }
static void make(ts_vc64 *x, double v) { x->value = (float)v; x->count = v == -INFINITY ? 0 : (float)draw(4); }
static void make(ts_vc128 *x, double v) { x->value = v; x->count = v == -INFINITY ? 0 : draw(4); }
static void make(float *x, double v) { *x = (float)v; }
static void make(double *x, double v) { *x = v; }
static void make(uint8_t *x, double v) { *x = v > 4; }
template <typename T> static void make(T *x, double v) { *x = std::isfinite(v) ? (T)v : 0; }

template <typename P> struct suite {
    typedef typename P::storage storage;
    typedef typename P::value value;
    typedef typename P::gradient gradient;
    static storage element(bool odd)
    {
        double v = pick(0, odd && P::odd);
        value x;
        if (P::domain_times && v == v) v = std::fabs(v);
        if (P::residue) v = draw(97);
        make(&x, v);
        if (P::tropical_integer && odd && draw(10) == 0) x = P::zero();
        return P::store(x);
    }
    static std::vector<storage> elements(int64_t count, bool odd)
    {
        std::vector<storage> result((size_t)count);
        for (auto &x : result) x = element(odd);
        return result;
    }
    static value term_of(storage x, storage y, bool conjugate_a, bool conjugate_b, int64_t modulus)
    {
        return P::product(P::conjugated(P::load(x), conjugate_a), P::conjugated(P::load(y), conjugate_b), modulus);
    }
    static void fail(const std::string &name, int kind, const std::string &what)
    {
        if (wrong++ < 40) printf("WRONG %s shape %d: %s\n", name.c_str(), kind, what.c_str());
    }
    static void compare(const std::string &name, int kind, const std::vector<storage> &want, const std::vector<storage> &got)
    {
        checked++;
        for (size_t i = 0; i < want.size(); i++) {
            if (!same(P::load(want[i]), P::load(got[i]), P::bound)) {
                fail(name, kind, "element " + std::to_string(i) + " of " + std::to_string(want.size()) + " is " +
                                     text(P::load(got[i])) + ", not " + text(P::load(want[i])));
                return;
            }
        }
    }
    static void compare_winners(const std::string &name, int kind, const std::vector<int64_t> &want, const std::vector<int64_t> &got)
    {
        for (size_t i = 0; i < want.size(); i++) {
            if (want[i] != got[i]) {
                fail(name, kind, "winner " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " + std::to_string(want[i]));
                return;
            }
        }
    }

    static void contracts(int kind)
    {
        const std::string stem = std::string("ts_") + P::semiring() + "_" + P::dtype() + "_";
        shape s = draw_shape(kind);
        const int64_t modulus = P::residue ? 97 : 0;
        const bool odd = draw(2) != 0, conjugate_a = P::complex && draw(2), conjugate_b = P::complex && draw(2);
        std::vector<storage> a = elements(s.a, odd), b = elements(s.b, odd), c0 = elements(s.c, false), c;
        std::vector<int64_t> winners((size_t)s.c, -7);
        const int64_t batch = s.sizes[0], left = s.sizes[1], right = s.sizes[2], sum = s.sizes[3];
        const int left_at = s.counts[0], right_at = left_at + s.counts[1], sum_at = right_at + s.counts[2];
        std::vector<value> raw((size_t)s.c);
        for (int64_t n = 0; n < batch; n++) {
            for (int64_t l = 0; l < left; l++) {
                for (int64_t r = 0; r < right; r++) {
                    ts_cuda_offsets at = {0, 0, 0, 0, 0, 0};
                    offsets_of(s, 0, s.counts[0], n, &at);
                    offsets_of(s, left_at, s.counts[1], l, &at);
                    offsets_of(s, right_at, s.counts[2], r, &at);
                    value best = P::zero();
                    int64_t winner = -1;
                    for (int64_t k = 0; k < sum; k++) {
                        ts_cuda_offsets o = at;
                        offsets_of(s, sum_at, s.counts[3], k, &o);
                        value x = term_of(a[(size_t)o.a], b[(size_t)o.b], conjugate_a, conjugate_b, modulus);
                        if (P::selective) {
                            if (winner < 0 || P::better(x, best)) {
                                best = x;
                                winner = k;
                            }
                        } else {
                            best = P::add(best, x, modulus);
                        }
                    }
                    raw[(size_t)at.c] = P::finish(best);
                    if (winner > 0 && same(P::finish(best), P::zero(), 0)) winner = 0;
                    winners[(size_t)at.w] = winner;
                }
            }
        }
        storage *da = upload(a), *db = upload(b), *dc = upload(c0);
        int64_t *dw = upload(winners);
        std::vector<char> scratch((size_t)(s.c * 5 + 8) * 24);
        char *partial = (char *)machine_allocate(scratch.size() * 2);
        struct variant_row { const char *name; int left, right, threads; ts_cuda_variant id; };
        const variant_row variants[] = {
#define ROW(id, name, left, right, threads) {#name, left, right, threads, TS_CUDA_CONTRACT_##id},
            TS_CUDA_CONTRACT_VARIANTS(ROW)
#undef ROW
        };
        for (const variant_row &v : variants) {
            for (int with = 0; with < 2; with++) {
                const std::string name = stem + "contract_" + v.name + (with ? "_w" : "");
                if (!machine_has(name)) continue;
                ts_cuda_contract p;
                memset(&p, 0, sizeof p);
                const bool accumulate = draw(2) != 0;
                p.a = address(da);
                p.b = address(db);
                p.c = address(dc);
                p.w = address(dw);
                p.accumulate.always = accumulate;
                p.batch = batch; p.left = left; p.right = right; p.sum = sum;
                p.left_tiles = (left + v.left - 1) / v.left;
                p.right_tiles = (right + v.right - 1) / v.right;
                p.split_terms = sum;
                p.splits = 1;
                if (sum > 8 && draw(2)) {
                    p.split_terms = (sum + 3) / 4;
                    p.splits = (sum + p.split_terms - 1) / p.split_terms;
                }
                p.tile_count = batch * p.splits * p.left_tiles * p.right_tiles;
                p.partial = (uint64_t)(uintptr_t)partial;
                p.partial_w = p.partial + scratch.size();
                p.modulus = modulus;
                p.batch_count = s.counts[0]; p.left_count = s.counts[1]; p.right_count = s.counts[2]; p.sum_count = s.counts[3];
                p.conjugate_a = conjugate_a;
                p.conjugate_b = conjugate_b;
                p.winner_bytes = with ? (draw(2) ? 8 : 4) : 0;
                put_table(&p.modes, s.modes);
                std::vector<storage> start = elements(s.c, false), want = start, got((size_t)s.c);
                machine_upload(dc, start.data(), start.size() * sizeof(storage));
                for (size_t i = 0; i < want.size(); i++) {
                    want[i] = P::store(accumulate ? P::finish(P::add(P::load(start[i]), raw[i], modulus)) : raw[i]);
                }
                int64_t grid = p.tile_count < 1 ? 1 : draw(2) ? p.tile_count : (p.tile_count + 2) / 3;
                machine_launch(name, &p, sizeof p, grid, v.threads, ts_cuda_contract_shared(v.id, sizeof(value)));
                machine_wait(name.c_str());
                if (p.splits > 1) {
                    combine(stem, s, p, s.counts[0] + s.counts[1] + s.counts[2], batch * left * right);
                }
                machine_download(got.data(), dc, got.size() * sizeof(storage));
                compare(name, kind, want, got);
                if (with) {
                    compare_winners(name, kind, winners, read_winners(dw, s.c, p.winner_bytes));
                }
            }
        }
        if (machine_has(stem + "stream")) { /* either operand as the huge one */
            for (int side = 0; side < 2; side++) {
                std::vector<ts_cuda_mode> modes = s.modes;
                ts_cuda_stream p;
                if (side == 1) {
                    for (auto &m : modes) std::swap(m.a, m.b);
                }
                if (!ts_cuda_stream_plan(modes.data(), sum_at, s.counts[3], true, sizeof(storage), &p)) continue;
                const bool accumulate = draw(2) != 0;
                p.a = address(side == 0 ? da : db);
                p.b = address(side == 0 ? db : da);
                p.c = address(dc);
                p.accumulate.always = accumulate;
                p.modulus = modulus;
                p.conjugate_a = side == 0 ? conjugate_a : conjugate_b;
                p.conjugate_b = side == 0 ? conjugate_b : conjugate_a;
                std::vector<storage> start = elements(s.c, false), want = start, got((size_t)s.c);
                machine_upload(dc, start.data(), start.size() * sizeof(storage));
                for (size_t i = 0; i < want.size(); i++) {
                    want[i] = P::store(accumulate ? P::finish(P::add(P::load(start[i]), raw[i], modulus)) : raw[i]);
                }
                machine_launch(stem + "stream", &p, sizeof p, (p.tile_count + 1) / 2, TS_CUDA_STREAM_THREADS,
                               ts_cuda_stream_shared(&p, sizeof(storage)));
                machine_wait("stream");
                machine_download(got.data(), dc, got.size() * sizeof(storage));
                compare(stem + "stream", kind, want, got);
            }
        }
        machine_release(da);
        machine_release(db);
        machine_release(dc);
        machine_release(dw);
        machine_release(partial);
    }
    static std::vector<int64_t> read_winners(const int64_t *dw, int64_t count, int bytes)
    {
        std::vector<int64_t> result((size_t)count);
        machine_download(result.data(), dw, (size_t)(count * bytes));
        if (bytes == 4) {
            std::vector<int32_t> narrow((size_t)count);
            memcpy(narrow.data(), result.data(), (size_t)count * 4);
            for (int64_t i = 0; i < count; i++) result[(size_t)i] = narrow[(size_t)i];
        }
        return result;
    }
    template <typename Parent> static void combine(const std::string &stem, const shape &s, const Parent &parent, int kept_modes, int64_t results)
    {
        ts_cuda_combine q;
        memset(&q, 0, sizeof q);
        q.c = parent.c;
        q.w = parent.w;
        q.accumulate = parent.accumulate;
        q.partial = parent.partial;
        q.partial_w = parent.partial_w;
        q.results = results;
        q.splits = parent.splits;
        q.tile_count = (results + TS_CUDA_THREADS - 1) / TS_CUDA_THREADS;
        q.modulus = parent.modulus;
        q.winner_bytes = parent.winner_bytes;
        std::vector<ts_cuda_mode> kept(s.modes.begin(), s.modes.begin() + kept_modes);
        put_table(&q.modes, kept);
        machine_launch(stem + "combine", &q, sizeof q, q.tile_count < 1 ? 1 : q.tile_count, TS_CUDA_THREADS, 0);
        machine_wait("combine");
    }

    static void reduces(int kind)
    {
        const std::string stem = std::string("ts_") + P::semiring() + "_" + P::dtype() + "_";
        shape s = draw_shape(kind);
        const int64_t modulus = P::residue ? 97 : 0;
        /* c[batch, left, right] from a[batch, left, sum]: right is broadcast. */
        const int64_t kept = s.sizes[0] * s.sizes[1] * s.sizes[2], sum = s.sizes[3];
        const int kept_modes = s.counts[0] + s.counts[1] + s.counts[2];
        std::vector<storage> a = elements(s.a, true);
        std::vector<value> raw((size_t)s.c);
        std::vector<int64_t> winners((size_t)s.c, -7);
        for (int64_t n = 0; n < kept; n++) {
            ts_cuda_offsets at = {0, 0, 0, 0, 0, 0};
            offsets_of(s, 0, kept_modes, n, &at);
            value best = P::zero();
            int64_t winner = -1;
            for (int64_t k = 0; k < sum; k++) {
                ts_cuda_offsets o = at;
                offsets_of(s, kept_modes, s.counts[3], k, &o);
                value x = P::load(a[(size_t)o.a]);
                if (P::selective) {
                    if (winner < 0 || P::better(x, best)) {
                        best = x;
                        winner = k;
                    }
                } else {
                    best = P::add(best, x, modulus);
                }
            }
            raw[(size_t)at.c] = P::finish(best);
            if (winner > 0 && same(P::finish(best), P::zero(), 0)) winner = 0;
            winners[(size_t)at.w] = winner;
        }
        storage *da = upload(a), *dc = upload(elements(s.c, false));
        int64_t *dw = upload(winners);
        char *partial = (char *)machine_allocate((size_t)(s.c * 5 + 8) * 48);
        for (int row = 0; row < 2; row++) {
            const std::string name = stem + (row ? "reduce_row" : "reduce");
            ts_cuda_reduce p;
            memset(&p, 0, sizeof p);
            const bool accumulate = draw(2) != 0;
            p.a = address(da);
            p.c = address(dc);
            p.w = address(dw);
            p.accumulate.always = accumulate;
            p.kept = kept; p.sum = sum;
            p.kept_count = kept_modes; p.sum_count = s.counts[3];
            p.splits = 1;
            p.split_terms = sum;
            std::vector<ts_cuda_mode> ordered = s.modes;
            p.winner_bytes = P::selective ? (int)draw(3) * 4 : 0;
            p.tile_count = (kept + TS_CUDA_THREADS - 1) / TS_CUDA_THREADS;
            if (row) {
                if (s.counts[3] == 0 || sum == 0) continue;
                const int x = ts_cuda_sweep_plan(s.modes.data(), kept_modes, s.counts[3], kept, sum, p.winner_bytes != 0,
                                                 sizeof(storage), 1 + (int)draw(100), 1 + draw(5), &p);
                const int last = x < kept_modes ? kept_modes - 1 : kept_modes + s.counts[3] - 1;
                std::rotate(ordered.begin() + x, ordered.begin() + x + 1, ordered.begin() + last + 1);
            }
            p.partial = (uint64_t)(uintptr_t)partial;
            p.partial_w = p.partial + (uint64_t)(s.c * 5 + 8) * 24;
            p.modulus = modulus;
            put_table(&p.modes, ordered);
            std::vector<storage> start = elements(s.c, false), want = start, got((size_t)s.c);
            machine_upload(dc, start.data(), start.size() * sizeof(storage));
            for (size_t i = 0; i < want.size(); i++) {
                want[i] = P::store(accumulate ? P::finish(P::add(P::load(start[i]), raw[i], modulus)) : raw[i]);
            }
            machine_launch(name, &p, sizeof p, p.tile_count < 1 ? 1 : (p.tile_count + 1) / 2, TS_CUDA_THREADS,
                           row ? ts_cuda_sweep_shared(&p, sizeof(value)) : TS_CUDA_REDUCE_SHARED);
            machine_wait(name.c_str());
            if (p.splits > 1) {
                shape reordered = s;
                reordered.modes = ordered;
                combine(stem, reordered, p, kept_modes, kept);
            }
            machine_download(got.data(), dc, got.size() * sizeof(storage));
            compare(name, kind, want, got);
            if (p.winner_bytes) compare_winners(name, kind, winners, read_winners(dw, s.c, p.winner_bytes));
        }
        ts_cuda_stream p;
        if (machine_has(stem + "stream") && ts_cuda_stream_plan(s.modes.data(), kept_modes, s.counts[3], false, sizeof(storage), &p)) {
            std::vector<storage> want((size_t)s.c), got((size_t)s.c);
            p.a = address(da);
            p.c = address(dc);
            p.modulus = modulus;
            for (size_t i = 0; i < want.size(); i++) want[i] = P::store(raw[i]);
            machine_launch(stem + "stream", &p, sizeof p, p.tile_count, TS_CUDA_STREAM_THREADS, ts_cuda_stream_shared(&p, sizeof(storage)));
            machine_wait("stream");
            machine_download(got.data(), dc, got.size() * sizeof(storage));
            compare(stem + "stream (reduce)", kind, want, got);
        }
        machine_release(da);
        machine_release(dc);
        machine_release(dw);
        machine_release(partial);
    }

    /* Gradients: sums of cotangents in the order of the positional tree, computed here by its definition. */
    static gradient tree(std::vector<gradient> terms)
    {
        do {
            std::vector<gradient> sums;
            for (size_t i = 0; i < terms.size(); i += 512) {
                gradient sum = gradient(0);
                for (size_t j = i; j < terms.size() && j < i + 512; j++) sum += terms[j];
                sums.push_back(sum);
            }
            terms = sums;
        } while (terms.size() > 1);
        return terms.empty() ? gradient(0) : terms[0];
    }
    static void adjoints(int kind)
    {
        const std::string name = std::string("ts_") + P::semiring() + "_" + P::dtype() + "_adjoint";
        if (!machine_has(name)) return;
        shape s = draw_shape(kind);
        if (kind == 6 || kind == 7) { /* long sums of cotangents: the tree has several levels */
            std::vector<ts_cuda_mode> modes(4);
            const int64_t extents[4] = {1, kind == 6 ? 2 : 3, kind == 6 ? 9000 : 1500, kind == 6 ? 9 : 80};
            for (int i = 0; i < 4; i++) {
                memset(&modes[(size_t)i], 0, sizeof modes[0]);
                modes[(size_t)i].extent = extents[i];
                ts_cuda_magic(extents[i], &modes[(size_t)i].magic, &modes[(size_t)i].shift);
                s.counts[i] = 1;
                s.sizes[i] = extents[i];
            }
            s.modes = modes;
            s.a = stride_table(s.modes, {0, 1, 3}, &ts_cuda_mode::a, true);
            s.b = stride_table(s.modes, {0, 2, 3}, &ts_cuda_mode::b, true);
            s.c = stride_table(s.modes, {0, 1, 2}, &ts_cuda_mode::c, true);
            stride_table(s.modes, {0, 1, 2}, &ts_cuda_mode::w, true);
            stride_table(s.modes, {0, 1, 2}, &ts_cuda_mode::g, true);
        }
        for (int side = 0; side < 2; side++) {
            const int64_t batch = s.sizes[0], left = s.sizes[1], right = s.sizes[2], sum = s.sizes[3];
            const int left_at = s.counts[0], right_at = left_at + s.counts[1], sum_at = right_at + s.counts[2];
            const int64_t rows = side == 0 ? left : right, others = side == 0 ? right : left;
            std::vector<int> in_d;
            int at = 0;
            for (int k = 0; k < 4; k++) {
                for (int i = 0; i < s.counts[k]; i++, at++) {
                    s.modes[(size_t)at].d = 0;
                    if (k != (side == 0 ? 2 : 1)) in_d.push_back(at);
                }
            }
            const int64_t d_size = stride_table(s.modes, in_d, &ts_cuda_mode::d, true);
            std::vector<storage> a = elements(s.a, false), b = elements(s.b, false), c = elements(s.c, false);
            std::vector<int64_t> w((size_t)s.c);
            std::vector<gradient> g((size_t)s.c), d((size_t)d_size), want((size_t)d_size);
            for (auto &x : w) x = sum == 0 ? -1 : draw((uint32_t)sum);
            for (auto &x : g) x = (gradient)(0.1 * (draw(1000) + 1));
            for (auto &x : d) x = (gradient)draw(5);
            const bool accumulate = draw(2) != 0;
            const int tie = (int)draw(2);
            for (int64_t n = 0; n < batch; n++) {
                for (int64_t row = 0; row < rows; row++) {
                    for (int64_t k = 0; k < sum; k++) {
                        ts_cuda_offsets base = {0, 0, 0, 0, 0, 0};
                        offsets_of(s, 0, s.counts[0], n, &base);
                        offsets_of(s, side == 0 ? left_at : right_at, s.counts[side == 0 ? 1 : 2], row, &base);
                        offsets_of(s, sum_at, s.counts[3], k, &base);
                        std::vector<gradient> terms;
                        for (int64_t other = 0; other < others; other++) {
                            ts_cuda_offsets o = base;
                            offsets_of(s, side == 0 ? right_at : left_at, s.counts[side == 0 ? 2 : 1], other, &o);
                            gradient term = gradient(0);
                            if (!P::selective || w[(size_t)o.w] == k) {
                                value x = P::load(side == 0 ? a[(size_t)o.a] : b[(size_t)o.b]);
                                value y = P::load(side == 0 ? b[(size_t)o.b] : a[(size_t)o.a]);
                                term = P::share(g[(size_t)o.g], x, y, P::load(c[(size_t)o.c]), tie);
                            }
                            terms.push_back(term);
                        }
                        want[(size_t)base.d] = accumulate ? d[(size_t)base.d] + tree(terms) : tree(terms);
                    }
                }
            }
            storage *da = upload(a), *db = upload(b), *dc = upload(c);
            int64_t *dw = upload(w);
            gradient *dg = upload(g), *dd = upload(d);
            ts_cuda_adjoint p;
            memset(&p, 0, sizeof p);
            p.a = address(da); p.b = address(db); p.c = address(dc); p.w = address(dw); p.g = address(dg); p.d = address(dd);
            p.accumulate.always = accumulate;
            p.batch = batch; p.left = left; p.right = right; p.sum = sum;
            p.batch_count = s.counts[0]; p.left_count = s.counts[1]; p.right_count = s.counts[2]; p.sum_count = s.counts[3];
            p.side = side;
            p.tie_here = tie;
            p.winner_bytes = P::selective ? 8 : 0;
            p.tile_count = ts_cuda_adjoint_tiles(P::selective, batch, rows, others, sum);
            put_table(&p.modes, s.modes);
            if (d_size > 0 && batch * rows * sum > 0) {
                machine_launch(name, &p, sizeof p, p.tile_count, TS_CUDA_THREADS, TS_CUDA_ADJOINT_SHARED);
                machine_wait(name.c_str());
                machine_download(d.data(), dd, d.size() * sizeof(gradient));
                checked++;
                for (size_t i = 0; i < d.size(); i++) {
                    if (!(P::selective ? d[i] == want[i] : close_enough((double)d[i], (double)want[i], 1e-4))) {
                        fail(name, kind, "side " + std::to_string(side) + " way " +
                                             std::to_string((int)ts_cuda_adjoint_way(P::selective, batch, rows, others, sum)) + " element " +
                                             std::to_string(i) + " is " + std::to_string(d[i]) + ", not " + std::to_string(want[i]));
                        break;
                    }
                }
            }
            machine_release(da); machine_release(db); machine_release(dc); machine_release(dw); machine_release(dg); machine_release(dd);
        }
    }

    /* Does decode find what the naive loop does? */
    static void decodes(int kind)
    {
        const std::string name = std::string("ts_") + P::semiring() + "_" + P::dtype() + "_decode";
        if (!machine_has(name)) return;
        shape s = draw_shape(kind);
        const int kept_modes = s.counts[0] + s.counts[1] + s.counts[2];
        const int labels = kept_modes + s.counts[3];
        std::vector<storage> a = elements(s.a, true), b = elements(s.b, true);
        if (s.sizes[0] * s.sizes[1] * s.sizes[2] == 0 || s.sizes[3] == 0) return;
        const int64_t positions = 5;
        std::vector<int64_t> assignment((size_t)(positions * labels)), want;
        for (int64_t n = 0; n < positions; n++) {
            for (int i = 0; i < labels; i++) {
                assignment[(size_t)(n * labels + i)] = draw((uint32_t)s.modes[(size_t)i].extent);
            }
        }
        want = assignment;
        for (int64_t n = 0; n < positions; n++) {
            ts_cuda_offsets at = {0, 0, 0, 0, 0, 0};
            for (int i = 0; i < kept_modes; i++) {
                at.a += assignment[(size_t)(n * labels + i)] * s.modes[(size_t)i].a;
                at.b += assignment[(size_t)(n * labels + i)] * s.modes[(size_t)i].b;
            }
            value best = P::zero();
            int64_t winner = -1;
            for (int64_t k = 0; k < s.sizes[3]; k++) {
                ts_cuda_offsets o = at;
                offsets_of(s, kept_modes, s.counts[3], k, &o);
                value x = term_of(a[(size_t)o.a], b[(size_t)o.b], false, false, 0);
                if (winner < 0 || P::better(x, best)) {
                    best = x;
                    winner = k;
                }
            }
            if (same(P::finish(best), P::zero(), 0)) winner = 0;
            for (int i = labels - 1; i >= kept_modes; i--) {
                want[(size_t)(n * labels + i)] = winner % s.modes[(size_t)i].extent;
                winner /= s.modes[(size_t)i].extent;
            }
        }
        storage *da = upload(a), *db = upload(b);
        int64_t *dz = upload(assignment);
        std::vector<int32_t> levels = {0, 1};
        std::vector<ts_cuda_path_item> items(1);
        std::vector<ts_cuda_decode_label> table((size_t)labels);
        memset(&items[0], 0, sizeof items[0]);
        items[0].a = address(da);
        items[0].b = address(db);
        items[0].sum = s.sizes[3];
        items[0].kind = kind % 2 == 0 ? TS_CUDA_PATH_ROW : TS_CUDA_PATH_LONG_ROW;
        items[0].two = 1;
        items[0].kept_count = kept_modes;
        items[0].sum_count = s.counts[3];
        items[0].before = -1;
        for (int i = 0; i < labels; i++) {
            table[(size_t)i].extent = s.modes[(size_t)i].extent;
            table[(size_t)i].a = s.modes[(size_t)i].a;
            table[(size_t)i].b = s.modes[(size_t)i].b;
            table[(size_t)i].magic = s.modes[(size_t)i].magic;
            table[(size_t)i].shift = s.modes[(size_t)i].shift;
            table[(size_t)i].label = i;
        }
        int32_t *dl = upload(levels);
        ts_cuda_path_item *di = upload(items);
        ts_cuda_decode_label *dt = upload(table);
        ts_cuda_path p;
        memset(&p, 0, sizeof p);
        p.levels = (uint64_t)(uintptr_t)dl;
        p.items = (uint64_t)(uintptr_t)di;
        p.labels = (uint64_t)(uintptr_t)dt;
        p.assignments = (uint64_t)(uintptr_t)dz;
        p.assignment_count = labels;
        p.tile_count = positions;
        p.level_count = 1;
        machine_launch(name, &p, sizeof p, 2, TS_CUDA_THREADS, TS_CUDA_REDUCE_SHARED + TS_CUDA_PATH_TERMS * 16);
        machine_wait(name.c_str());
        machine_download(assignment.data(), dz, assignment.size() * 8);
        checked++;
        if (assignment != want) fail(name, kind, "another assignment");
        machine_release(da);
        machine_release(db);
        machine_release(dz);
        machine_release(dl);
        machine_release(di);
        machine_release(dt);
    }

    static void all(int rounds)
    {
        if (!machine_has(std::string("ts_") + P::semiring() + "_" + P::dtype() + "_contract_generic")) return;
        for (int kind = 0; kind < 6 + rounds; kind++) {
            contracts(kind);
            reduces(kind);
            adjoints(kind);
            if (P::selective) decodes(kind);
        }
        fflush(stdout);
    }
};

/* Cotangents of one term, by the definition. */
template <typename G, typename V> static G share(int mul, G g, V mine, V other, V c, int tie)
{
    (void)c;
    if (mul == 1) return g;
    if (mul == 2) return g * (G)number_of(other);
    bool here = mine == other ? tie != 0 : mul == 3 ? mine < other : mine > other;
    return here ? g : G(0);
}
template <typename G, typename V> static G share_lse(G g, V mine, V other, V c) { return g * (G)std::exp((double)mine + (double)other - (double)c); }
template <typename G, typename V> static G share_any(int mul, bool lse, G g, V mine, V other, V c, int tie)
{
    if constexpr (std::is_floating_point<V>::value) {
        if (lse) return share_lse(g, mine, other, c);
    }
    if constexpr (std::is_arithmetic<V>::value) {
        return share(mul, g, mine, other, c, tie);
    }
    return g;
}
#define MUL_plus 1
#define MUL_ntimes 2
#define MUL_min 3
#define MUL_and 3
#define MUL_max 4
#define MUL_times 0
#define MUL_pluscount 0
#define MUL_modtimes 0
#define ADD_lse true
#define ADD_max false
#define ADD_min false
#define ADD_or false
#define ADD_sum false
#define ADD_xor false
#define ADD_maxcount false
#define ADD_modsum false

typedef float gradient_f16; typedef float gradient_bf16; typedef float gradient_f32; typedef double gradient_f64;
typedef float gradient_c64; typedef double gradient_c128; typedef float gradient_i16; typedef float gradient_i32;
typedef double gradient_i64; typedef float gradient_bool; typedef float gradient_vc64; typedef double gradient_vc128;
static ts_c64 conjugate(ts_c64 x, bool yes) { if (yes) x.im = -x.im; return x; }
static ts_c128 conjugate(ts_c128 x, bool yes) { if (yes) x.im = -x.im; return x; }
template <typename T> static T conjugate(T x, bool) { return x; }
enum { index_f16, index_bf16, index_f32, index_f64, index_c64, index_c128, index_i16, index_i32, index_i64, index_bool, index_vc64, index_vc128 };
#define BETTER_0(a, d) static bool better(value, value) { return false; }
#define BETTER_1(a, d) static bool better(value x, value y) { return ts_better_##a##_##d(x, y) != 0; }
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define TS_PAIR(s, a, m, sel, d)                                                                                   \
    struct check_##s##_##d {                                                                                       \
        typedef ts_s_##d storage;                                                                                  \
        typedef ts_c_##d value;                                                                                    \
        typedef gradient_##d gradient;                                                                             \
        static const bool selective = sel != 0;                                                                    \
        static const bool complex = index_##d == index_c64 || index_##d == index_c128;                             \
        static const bool integer = index_##d >= index_i16 && index_##d <= index_i64;                              \
        static const bool tropical_integer = integer && MUL_##m == 1;                                              \
        static const bool domain_times = MUL_##m == 2;                                                             \
        static const bool residue = index_##d == index_i64 && sizeof(TEXT(s)) == sizeof("sum_product_mod");        \
        static const bool odd = selective && !integer;                                                             \
        static constexpr double bound = selective || integer ? 0 : index_##d <= index_bf16 ? 2e-2 : 2e-5;          \
        static const char *semiring() { return TEXT(s); }                                                          \
        static const char *dtype() { return TEXT(d); }                                                             \
        static value load(storage x) { return ts_load_##d(x); }                                                    \
        static storage store(value x) { return ts_store_##d(x); }                                                  \
        static value product(value x, value y, int64_t mod)                                                        \
        {                                                                                                          \
            return sel ? ts_round_##d(ts_##m##_##d(x, y, mod)) : ts_##m##_##d(x, y, mod);                          \
        }                                                                                                          \
        static value add(value x, value y, int64_t mod) { return ts_add_##a##_##d(x, y, mod); }                    \
        BETTER_##sel(a, d)                                                                                         \
        static value finish(value x) { return ts_finish_##a##_##m##_##d(x); }                                      \
        static value zero() { return ts_zero_##a##_##m##_##d(); }                                                  \
        static value conjugated(value x, bool yes) { return conjugate(x, yes); }                                   \
        static gradient share(gradient g, value x, value y, value c, int tie)                                      \
        {                                                                                                          \
            return share_any(MUL_##m, ADD_##a, g, x, y, c, tie);                                                   \
        }                                                                                                          \
    };
#include "algebra/pairs.def"

/* Permutations of elements of every size, by the kernels that can. */
static void moves(int bytes)
{
    for (int round = 0; round < 12; round++) {
        const int rank = round < 3 ? 2 : round < 6 ? 12 : 1 + (int)draw(6);
        std::vector<ts_cuda_mode> modes;
        std::vector<int> all;
        for (int i = 0; i < rank; i++) {
            ts_cuda_mode m;
            memset(&m, 0, sizeof m);
            m.extent = round < 3 ? 60 + (int)draw(100) : round < 6 ? 2 : 1 + (int)draw(6);
            ts_cuda_magic(m.extent, &m.magic, &m.shift);
            modes.push_back(m);
            all.push_back(i);
        }
        const int64_t size = stride_table(modes, all, &ts_cuda_mode::a, true);
        stride_table(modes, all, &ts_cuda_mode::c, true);
        std::vector<unsigned char> a((size_t)(size * bytes)), want(a.size()), got(a.size());
        for (auto &x : a) x = (unsigned char)draw(256);
        for (int64_t n = 0; n < size; n++) {
            int64_t rest = n, from = 0, to = 0;
            for (int i = rank - 1; i >= 0; i--) {
                from += rest % modes[(size_t)i].extent * modes[(size_t)i].a;
                to += rest % modes[(size_t)i].extent * modes[(size_t)i].c;
                rest /= modes[(size_t)i].extent;
            }
            memcpy(&want[(size_t)(to * bytes)], &a[(size_t)(from * bytes)], (size_t)bytes);
        }
        unsigned char *da = upload(a), *dc = upload(got);
        const std::string stem = "ts_common_";
        for (int way = 0; way < 2; way++) {
            ts_cuda_move move;
            std::string name = stem + "copy_" + std::to_string(bytes);
            if (way == 0) {
                if (!ts_cuda_move_plan(modes.data(), rank, (uint32_t)bytes, &move)) {
                    printf("no plan for rank %d\n", rank);
                    continue;
                }
                name = stem + "move_" + std::to_string(bytes) + (ts_cuda_move_is_wide(&move, (uint32_t)bytes) ? "" : "_narrow");
            }
            if (!machine_has(name)) continue;
            if (way == 0) {
                move.a = address(da);
                move.c = address(dc);
                machine_launch(name, &move, sizeof move, (move.tile_count + 1) / 2, TS_CUDA_MOVE_THREADS, ts_cuda_move_shared(&move));
            } else {
                ts_cuda_reduce p;
                memset(&p, 0, sizeof p);
                p.a = address(da);
                p.c = address(dc);
                p.kept = size;
                p.kept_count = rank;
                p.tile_count = (size + TS_CUDA_THREADS - 1) / TS_CUDA_THREADS;
                put_table(&p.modes, modes);
                machine_launch(name, &p, sizeof p, p.tile_count, TS_CUDA_THREADS, 0);
            }
            machine_wait(name.c_str());
            machine_download(got.data(), dc, got.size());
            checked++;
            if (got != want && wrong++ < 40) printf("WRONG %s rank %d round %d\n", name.c_str(), rank, round);
            std::fill(got.begin(), got.end(), (unsigned char)0);
            machine_upload(dc, got.data(), got.size());
        }
        machine_release(da);
        machine_release(dc);
    }
}

int main(int argc, char **argv)
{
    int rounds = getenv("ROUNDS") ? atoi(getenv("ROUNDS")) : 10;
    for (int i = 1; i < argc; i++) machine_open(argv[i]);
#define TS_PAIR(s, a, m, sel, d) suite<check_##s##_##d>::all(rounds);
#include "algebra/pairs.def"
    for (int bytes = 1; bytes <= 16; bytes *= 2) moves(bytes);
    printf("%ld checks, %ld wrong\n", checked, wrong);
    return wrong != 0;
}
