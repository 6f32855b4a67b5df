/* Large products through packed panels (packed_abi.h): what is done once per element, or needs strides, or edges, is done
 * while packing, and what is left is the product itself. */
#ifndef TS_CUDA_PACKED_H
#define TS_CUDA_PACKED_H

#include "locate.h"
#include "packed_abi.h"
#include "pair.h"
#include "vector.h"

/* ---- what a pair's panels hold, how a term is added, what is noted of rows ---- */

struct ts_no_note {
    uint8_t none;
};
/* Without notes. */
template <typename P> struct ts_dense_unnoted {
    typedef ts_no_note note;
    static const bool noted = false, surveyed = false, matrix = false;
    TS_DEVICE note start_note(void) { return note{0}; }
    TS_DEVICE note see(note n, typename P::value) { return n; }
    TS_DEVICE note join(note n, note) { return n; }
    TS_DEVICE bool is_careful(typename P::value, note, note) { return false; }
    TS_DEVICE typename P::value settle(typename P::value x, note, note) { return x; }
};
template <typename P, int Add, int Mul, int Kind> struct ts_dense_of {
    static const bool exists = false;
};

/* Sums of products. */
template <typename P> struct ts_dense_sum : ts_dense_unnoted<P> {
    typedef typename P::value unit, sum;
    static const bool exists = true;
    static const int planes = 1, terms = 1;
    TS_DEVICE void pack(typename P::value x, ts_no_note, unit *to) { to[0] = x; }
    TS_DEVICE sum start(void) { return 0; }
    TS_DEVICE void step(sum &s, const unit *x, const unit *y) { ts_multiply_add(s, x[0], y[0]); }
    TS_DEVICE typename P::value value_of(sum s) { return s; }
};
template <typename P> struct ts_dense_of<P, ts_op_sum, ts_op_times, ts_kind_f32> : ts_dense_sum<P> {
    static const int shape = TS_CUDA_PACKED_SINGLE;
};
template <typename P> struct ts_dense_of<P, ts_op_sum, ts_op_times, ts_kind_i32> : ts_dense_sum<P> {
    static const int shape = TS_CUDA_PACKED_SINGLE;
};
template <typename P> struct ts_dense_of<P, ts_op_sum, ts_op_times, ts_kind_f64> : ts_dense_sum<P> {
    static const int shape = TS_CUDA_PACKED_DOUBLE;
};
template <typename P> struct ts_dense_of<P, ts_op_sum, ts_op_times, ts_kind_c64> : ts_dense_unnoted<P> {
    typedef float unit;
    typedef ts_c64 sum;
    static const bool exists = true;
    static const int planes = 2, terms = 1, shape = TS_CUDA_PACKED_PAIRED;
    TS_DEVICE void pack(ts_c64 x, ts_no_note, unit *to)
    {
        to[0] = x.re;
        to[1] = x.im;
    }
    TS_DEVICE sum start(void)
    {
        sum s = {0.0f, 0.0f};
        return s;
    }
    TS_DEVICE void step(sum &s, const unit *x, const unit *y)
    {
        const ts_c64 left = {x[0], x[1]}, right = {y[0], y[1]};
        ts_multiply_add(s, left, right);
    }
    TS_DEVICE ts_c64 value_of(sum s) { return s; }
};

/* Booleans: 32 terms in a word. The or of conjunctions, or their parity. */
template <typename P, int Add> struct ts_dense_bits : ts_dense_unnoted<P> {
    typedef uint32_t unit, sum;
    static const bool exists = true;
    static const int planes = 1, terms = 32, shape = TS_CUDA_PACKED_BITS;
    TS_DEVICE void pack(typename P::value x, ts_no_note, unit *to) { to[0] = x != 0 ? 1u : 0u; }
    TS_DEVICE sum start(void) { return 0; }
    TS_DEVICE void step(sum &s, const unit *x, const unit *y) { s = Add == ts_op_or ? s | (x[0] & y[0]) : s ^ (x[0] & y[0]); }
    TS_DEVICE typename P::value value_of(sum s)
    {
        return (typename P::value)(Add == ts_op_or ? s != 0 : (ts_count_lanes(s) & 1) != 0);
    }
};
template <typename P> struct ts_dense_of<P, ts_op_or, ts_op_and, ts_kind_bool> : ts_dense_bits<P, ts_op_or> {};
template <typename P> struct ts_dense_of<P, ts_op_xor, ts_op_and, ts_kind_bool> : ts_dense_bits<P, ts_op_xor> {};

/* Sums of products of f16 and bf16 by tensor cores, two terms in a word. */
template <typename P> struct ts_dense_half : ts_dense_unnoted<P> {
    typedef uint32_t unit;
    typedef float sum;
    static const bool exists = true, matrix = true;
    static const int planes = 1, terms = 2, shape = TS_CUDA_PACKED_HALF;
    TS_DEVICE sum start(void) { return 0; }
    TS_DEVICE float value_of(sum s) { return s; }
};
template <typename P> struct ts_dense_of<P, ts_op_sum, ts_op_times, ts_kind_f16> : ts_dense_half<P> {};
template <typename P> struct ts_dense_of<P, ts_op_sum, ts_op_times, ts_kind_bf16> : ts_dense_half<P> {};

/* Selection over f64, for which the device has no maximum: a plain comparison, which passes NaN over. A NaN of an operand
 * makes its whole row or column NaN, so it is noted and put back at the end. A product is NaN without that only where one
 * factor is a pole and the other its opposite (infinities of both signs; infinity and 0): where a row has the one and a
 * column the other, the results are left to contract_small. */
template <typename P, int Add, int Mul> struct ts_dense_choice {
    typedef double unit, sum;
    typedef uint32_t note; /* 1: NaN, 2: a pole, 4: the opposite of one */
    static const bool exists = true, noted = true, surveyed = false, matrix = false;
    static const int planes = 1, terms = 1, shape = TS_CUDA_PACKED_DOUBLE;
    TS_DEVICE void pack(double x, note, unit *to) { to[0] = x; }
    TS_DEVICE sum start(void) { return P::zero(); }
    TS_DEVICE double product(double x, double y)
    {
        return Mul == ts_op_plus ? x + y : Mul == ts_op_ntimes ? x * y : Mul == ts_op_min ? (x < y ? x : y) : (x > y ? x : y);
    }
    TS_DEVICE void step(sum &s, const unit *x, const unit *y)
    {
        const double term = product(x[0], y[0]);
        s = Add == ts_op_max ? (term > s ? term : s) : (term < s ? term : s);
    }
    TS_DEVICE double value_of(sum s) { return s; }
    TS_DEVICE note start_note(void) { return 0; }
    TS_DEVICE note see(note n, double x)
    {
        n |= x != x ? 1u : 0u;
        if (Mul == ts_op_plus) {
            n |= x == TS_INFINITY_F64 ? 2u : x == -TS_INFINITY_F64 ? 4u : 0u;
        } else if (Mul == ts_op_ntimes) {
            n |= x == TS_INFINITY_F64 || x == -TS_INFINITY_F64 ? 2u : x == 0.0 ? 4u : 0u;
        }
        return n;
    }
    TS_DEVICE note join(note x, note y) { return x | y; }
    TS_DEVICE bool is_careful(double, note row, note column) { return ((row & 2u) != 0 && (column & 4u) != 0) || ((row & 4u) != 0 && (column & 2u) != 0); }
    TS_DEVICE double settle(double x, note row, note column) { return ((row | column) & 1u) != 0 ? TS_INFINITY_F64 - TS_INFINITY_F64 : x; }
};
template <typename P, int Mul> struct ts_dense_of<P, ts_op_max, Mul, ts_kind_f64> : ts_dense_choice<P, ts_op_max, Mul> {};
template <typename P, int Mul> struct ts_dense_of<P, ts_op_min, Mul, ts_kind_f64> : ts_dense_choice<P, ts_op_min, Mul> {};

/* log_sum_exp: with r the largest element of the row of a and c that of the column of b,
 *     log sum e^(a + b) = r + c + log sum e^(a - r) e^(b - c)
 * so that an exponential is taken once per element and the rest is a sum of products, of numbers from 0 to 1. What is
 * lost: elements below the normal range have an error of at most 2^-150 (f32), as has a product, so a sum of K terms
 * misses 3 K 2^-150. Where the sum is at least 2^-100 that is 3 K 2^-50 of it, nothing beside rounding. Below that, and
 * where the largest is +infinity, the results are left to contract_small; where the largest is -infinity all terms are.
 *
 * The bound of docs/semantics.md, u = 2^-24: exponentials are taken in f64 and rounded once: u of each factor, so 2 u of
 * each term. The K multiply-adds: the k-th is rounded by at most u s_k, where the partial sum s_k is at most the whole
 * S and at most k t, t the largest term; with q = S / t all of them make at most (K - q / 2) u S. The rest is f64 and one
 * rounding, u |result|, |result| <= |largest term| + log q. As log q < q / 2, all that is (K + 2) u + u |largest|, and the
 * bound has 6 u + u |largest| to spare.
 * f64, u = 2^-53: exponentials have an error of 2 u (exp's last place) and u for the part of the difference that the
 * subtraction dropped; the logarithm is that of a number between 0.7 and 1.42 (u) beside a multiple of log 2 of which
 * no digit is lost. That is (K + 7) u + u |largest|, and the threshold 2^-960 keeps underflow out of sight. */
template <typename P> struct ts_dense_log_base {
    typedef typename P::value unit, sum;
    typedef typename P::value note;
    static const bool exists = true, noted = true, surveyed = true, matrix = false;
    static const int planes = 1, terms = 1;
    TS_DEVICE sum start(void) { return 0; }
    TS_DEVICE void step(sum &s, const unit *x, const unit *y) { ts_multiply_add(s, x[0], y[0]); }
    TS_DEVICE sum value_of(sum s) { return s; }
    TS_DEVICE note start_note(void) { return P::zero(); }
    TS_DEVICE note see(note n, typename P::value x) { return x > n || x != x ? x : n; }
    TS_DEVICE note join(note x, note y) { return see(x, y); }
    TS_DEVICE bool is_finite(note x) { return x - x == 0; }
    TS_DEVICE bool is_careful(sum s, note row, note column)
    {
        const sum least = sizeof(sum) == 8 ? (sum)1.026e-289 : (sum)7.89e-31f; /* above 2^-960, 2^-100 */
        if (row != row || column != column) {
            return false; /* NaN in the row or column is one in the result */
        }
        if (row == -P::zero() || column == -P::zero()) {
            return true;
        }
        return !(s >= least) && row != P::zero() && column != P::zero();
    }
};
template <typename P> struct ts_dense_log_single : ts_dense_log_base<P> {
    static const int shape = TS_CUDA_PACKED_SINGLE;
    TS_DEVICE void pack(float x, float highest, float *to)
    {
        to[0] = ts_dense_log_base<P>::is_finite(highest) ? (float)exp((double)x - (double)highest) : 0.0f;
    }
    TS_DEVICE float settle(float s, float row, float column)
    {
        const bool nothing = row == P::zero() || column == P::zero();
        return row != row || column != column ? row + column : nothing ? P::zero() : (float)((double)row + (double)column + log((double)s));
    }
};
template <typename P> struct ts_dense_log_double : ts_dense_log_base<P> {
    static const int shape = TS_CUDA_PACKED_DOUBLE;
    /* What x + y drops. */
    TS_DEVICE double dropped(double x, double y, double total)
    {
        const double part = total - x;
        return (x - (total - part)) + (y - part);
    }
    TS_DEVICE void pack(double x, double highest, double *to)
    {
        const double difference = x - highest, e = exp(difference);
        const bool usable = ts_dense_log_base<P>::is_finite(highest) && ts_dense_log_base<P>::is_finite(x);
        to[0] = usable ? ts_fma(e, dropped(x, -highest, difference), e) : 0.0;
    }
    TS_DEVICE double settle(double s, double row, double column)
    {
        uint64_t bits;
        double part, shift = row + column, power, total;
        if (row != row || column != column) {
            return row + column;
        }
        if (row == P::zero() || column == P::zero()) {
            return P::zero();
        }
        memcpy(&bits, &s, 8);
        power = (double)((int32_t)(bits >> 52) - 1023);
        bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
        memcpy(&part, &bits, 8);
        power = part > 1.41421356237309515 ? power + 1.0 : power;
        part = part > 1.41421356237309515 ? 0.5 * part : part;
        /* log 2 in two parts, the first short enough for exact multiples */
        const double high = power * 6.93147180369123816490e-01, low = power * 1.90821492927058770002e-10;
        total = shift + high;
        return total + ((dropped(row, column, shift) + dropped(shift, high, total)) + (low + log(part)));
    }
};
template <typename P> struct ts_dense_of<P, ts_op_lse, ts_op_plus, ts_kind_f32> : ts_dense_log_single<P> {};
template <typename P> struct ts_dense_of<P, ts_op_lse, ts_op_plus, ts_kind_f16> : ts_dense_log_single<P> {};
template <typename P> struct ts_dense_of<P, ts_op_lse, ts_op_plus, ts_kind_bf16> : ts_dense_log_single<P> {};
template <typename P> struct ts_dense_of<P, ts_op_lse, ts_op_plus, ts_kind_f64> : ts_dense_log_double<P> {};

template <typename P> struct ts_dense : ts_dense_of<P, P::add_op, P::mul_op, P::kind> {};

/* ---- packing ---- */

template <typename P, bool Survey> struct ts_packer {
    typedef ts_dense<P> D;
    typedef typename P::storage storage;
    typedef typename D::unit unit;
    typedef typename D::note note;
    static const int STEP = TS_CUDA_PACK_TERMS, BATCH = sizeof(storage) <= 2 ? 16 : 8;
    static const bool by_blocks = D::matrix && !Survey;
    static_assert(D::terms <= STEP / 2, "a thread has whole units");

    TS_DEVICE int64_t *row_places(void) { return reinterpret_cast<int64_t *>(ts_shared()); } /* [256] */
    TS_DEVICE int64_t *term_places(int32_t width) { return row_places() + width; }
    TS_DEVICE note *parts(int32_t width) { return reinterpret_cast<note *>(term_places(width) + TS_CUDA_PACK_TABLE); } /* [256] */
    TS_DEVICE note *joined(int32_t width) { return parts(width) + 256; } /* [width] */
    TS_DEVICE storage *staged(int32_t width)
    {
        return reinterpret_cast<storage *>(row_places() + width + TS_CUDA_PACK_TABLE + 256 + width);
    }

    /* In blocks of 16 rows and 16 terms, where a lane's four words of a fragment lie together. */
    TS_DEVICE void place_blocks(const ts_cuda_pack_side &side, int64_t tile, int32_t count,
                                const storage *staged_at, unit *to)
    {
        const int32_t width = side.width;
        for (int32_t item = ts_thread(); item < width * STEP / 8; item += TS_CUDA_THREADS) {
            const int32_t lane = item % 32, rows = item / 32 % (width / 16) * 16, terms = item / 32 / (width / 16) * 16;
            ts_vector<uint32_t, 4> words;
#pragma unroll
            for (int word = 0; word < 4; word++) {
                const int32_t row = rows + lane / 4 + word % 2 * 8, term = terms + lane % 4 * 2 + word / 2 * 8;
                const bool here = tile * width + row < side.rows;
                const uint32_t low = here && term < count ? (uint32_t)(uint16_t)staged_at[term * (width + 1) + row] : 0u;
                const uint32_t high = here && term + 1 < count ? (uint32_t)(uint16_t)staged_at[(term + 1) * (width + 1) + row] : 0u;
                words.at[word] = high << 16 | low;
            }
            *reinterpret_cast<ts_vector<uint32_t, 4> *>(to + terms / 2 * width + rows * 8 + lane * 4) = words;
        }
    }
    TS_DEVICE void run(const ts_cuda_pack &p)
    {
        const int64_t first_items = p.batch * p.side[0].tiles * p.chunks;
        for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
            const bool second = item >= first_items;
            const ts_cuda_pack_side &side = p.side[second ? 1 : 0];
            const int64_t number = second ? item - first_items : item;
            const int64_t tile = ts_cuda_divide_wide(number, p.chunks), chunk = number - tile * p.chunks;
            const int64_t batch = ts_cuda_divide_wide(tile, side.tiles);
            pack_chunk(p, side, second, batch, tile - batch * side.tiles, tile, chunk);
        }
    }
    /* `tile` of the batch, number `place` of all; offsets are those of b for the second side. */
    TS_DEVICE void pack_chunk(const ts_cuda_pack &p, const ts_cuda_pack_side &side, bool second, int64_t batch, int64_t tile,
                              int64_t place, int64_t chunk)
    {
        const int32_t width = side.width, wide = p.modes.wide, groups = ts_threads() / width;
        const int32_t mine = ts_thread() % width, group = ts_thread() / width;
        const ts_cuda_mode *modes = ts_mode_table(p.modes);
        const ts_cuda_mode *own = modes + p.batch_count + (second ? p.left_count : 0);
        const int32_t own_count = second ? p.right_count : p.left_count;
        const ts_cuda_mode *sum_modes = modes + p.batch_count + p.left_count + p.right_count;
        const int64_t first = chunk * p.chunk, padded = first + p.chunk < p.depth ? first + p.chunk : p.depth;
        const storage *from = reinterpret_cast<const storage *>(ts_address(side.from));
        const ts_cuda_offsets base = ts_offsets_of(modes, p.batch_count, wide, batch);
        int64_t term_step = 0, row_step = 0;
        note seen = D::start_note(), highest = seen;

        if (p.sum_count > 0) {
            term_step = second ? sum_modes[p.sum_count - 1].b : sum_modes[p.sum_count - 1].a;
        }
        if (own_count > 0) {
            row_step = second ? own[own_count - 1].b : own[own_count - 1].a;
        }
        /* Neighbouring threads read neighbouring terms or neighbouring rows. */
        const bool by_term = p.sum_count > 0 && (own_count == 0 || (term_step < 0 ? -term_step : term_step) < (row_step < 0 ? -row_step : row_step));
        ts_sync(); /* the tables of the item before */
        for (int32_t i = ts_thread(); i < width; i += ts_threads()) {
            const int64_t row = tile * width + i;
            const ts_cuda_offsets at = ts_offsets_of(own, own_count, wide, row < side.rows ? row : 0);
            row_places()[i] = second ? base.b + at.b : base.a + at.a;
            if (D::surveyed && !Survey) {
                note whole = D::start_note();
                for (int64_t c = 0; c < p.chunks; c++) {
                    whole = D::join(whole, reinterpret_cast<const note *>((uintptr_t)side.notes)[(c * p.batch * side.tiles + place) * width + i]);
                }
                joined(width)[i] = whole;
            }
        }
        ts_sync();
        if (D::surveyed && !Survey) {
            highest = joined(width)[mine];
        }
        const bool here = tile * width + mine < side.rows;
        unit *to = reinterpret_cast<unit *>((uintptr_t)side.to) + (place * (p.depth / D::terms) + first / D::terms) * (D::planes * width);
        const int64_t *terms = term_places(width);
        storage *tile_at = staged(width);
        for (int64_t term = first; term < padded; term += STEP) {
            const int32_t table = (int32_t)((term - first) % TS_CUDA_PACK_TABLE);
            const int32_t count = p.sum - term < STEP ? (p.sum > term ? (int32_t)(p.sum - term) : 0) : STEP;
            ts_sync();
            if (table == 0) {
                for (int32_t i = ts_thread(); i < TS_CUDA_PACK_TABLE; i += ts_threads()) {
                    const ts_cuda_offsets at = ts_offsets_of(sum_modes, p.sum_count, wide, term + i < p.sum ? term + i : 0);
                    term_places(width)[i] = second ? at.b : at.a;
                }
                ts_sync();
            }
            /* Several loads are on their way at a time: what is loaded goes to registers first. */
            if (by_term || by_blocks) {
                for (int32_t part = ts_thread(); part < width * STEP; part += TS_CUDA_THREADS * BATCH) {
                    storage loaded[BATCH];
#pragma unroll
                    for (int i = 0; i < BATCH; i++) {
                        const int32_t e = part + i * TS_CUDA_THREADS, t = by_term ? e % STEP : e / width, r = by_term ? e / STEP : e % width;
                        if (e < width * STEP && t < count) {
                            loaded[i] = from[row_places()[r] + terms[table + t]]; /* a row past the end stands for the first */
                        }
                    }
#pragma unroll
                    for (int i = 0; i < BATCH; i++) {
                        const int32_t e = part + i * TS_CUDA_THREADS, t = by_term ? e % STEP : e / width, r = by_term ? e / STEP : e % width;
                        if (e < width * STEP && t < count) {
                            tile_at[t * (width + 1) + r] = loaded[i];
                        }
                    }
                }
                ts_sync();
            }
            if constexpr (by_blocks) {
                place_blocks(side, tile, count, tile_at, to + (term - first) / D::terms * width);
            } else {
                const int64_t row_at = row_places()[mine];
                unit bits[D::planes] = {};
                for (int32_t part = 0; part < STEP / groups; part += BATCH) { /* this thread's terms of the step */
                    typename P::value x[BATCH];
                    const int32_t at = D::terms == 1 ? group + part * groups : group * (STEP / groups) + part, apart = D::terms == 1 ? groups : 1;
#pragma unroll
                    for (int i = 0; i < BATCH; i++) {
                        const int32_t t = at + i * apart;
                        x[i] = P::zero();
                        if (here && t < count) {
                            x[i] = P::load(by_term ? tile_at[t * (width + 1) + mine] : from[row_at + terms[table + t]]);
                        }
                    }
#pragma unroll
                    for (int i = 0; i < BATCH; i++) {
                        const int32_t t = at + i * apart;
                        if (D::noted && (Survey || !D::surveyed) && here && t < count) {
                            seen = D::see(seen, x[i]);
                        }
                        if constexpr (!Survey && D::terms == 1) {
                            unit units[D::planes];
                            D::pack(ts_conjugated(x[i], side.conjugate), highest, units);
#pragma unroll
                            for (int plane = 0; plane < D::planes; plane++) {
                                to[((term - first + t) * D::planes + plane) * width + mine] = units[plane];
                            }
                        } else if constexpr (!Survey) {
                            unit bit[D::planes];
                            D::pack(x[i], highest, bit);
                            bits[0] = t % D::terms == 0 ? bit[0] : bits[0] | bit[0] << t % D::terms * (32 / D::terms);
                            if (t % D::terms == D::terms - 1) {
                                to[(term - first + t) / D::terms * width + mine] = bits[0];
                            }
                        }
                    }
                }
            }
        }
        if (D::noted && (Survey || !D::surveyed)) {
            ts_sync();
            parts(width)[ts_thread()] = seen;
            ts_sync();
            for (int32_t i = ts_thread(); i < width; i += ts_threads()) {
                note whole = parts(width)[i];
                for (int32_t g = 1; g < groups; g++) {
                    whole = D::join(whole, parts(width)[g * width + i]);
                }
                reinterpret_cast<note *>((uintptr_t)side.notes)[(chunk * p.batch * side.tiles + place) * width + i] = whole;
            }
        }
    }
};

/* ---- the product ---- */

template <typename P, int BM, int BN, int BK, int TM, int TN, int THREADS, int STAGES> struct ts_packed {
    typedef ts_dense<P> D;
    typedef typename P::storage storage;
    typedef typename P::value value;
    typedef typename D::unit unit;
    typedef typename D::sum sum;
    typedef typename D::note note;
    static const int PLANES = D::planes;
    static const int VA = 16 / (int)sizeof(unit) < TM ? 16 / (int)sizeof(unit) : TM, GA = TM / VA;
    static const int VB = 16 / (int)sizeof(unit) < TN ? 16 / (int)sizeof(unit) : TN, GB = TN / VB;
    static const int LANES_M = D::matrix ? 8 : 4, LANES_N = D::matrix ? 4 : 8; /* of a warp */
    static const int WARPS_M = BM / (LANES_M * TM), WARPS_N = BN / (LANES_N * TN);
    static const int LINE_A = BM * PLANES, LINE_B = BN * PLANES; /* units per term */
    static const int PANEL_A = LINE_A * BK * (int)sizeof(unit), PANEL_B = LINE_B * BK * (int)sizeof(unit);
    static const int ROOM = STAGES * (PANEL_A + PANEL_B);
    static const int SLACK = (BM > BN ? BM : BN) * PLANES * (int)sizeof(unit); /* read past the last panel */
    static const int TABLES = (BM + BN) * 16 + 128;
    static const int SHARED = ROOM + SLACK + TABLES + 128;
    static const int RESULTS = BM * BN * (int)sizeof(value);
    static const int PASSES = RESULTS <= ROOM ? 1 : RESULTS <= 2 * ROOM ? 2 : 4;
    static const int AHEAD = STAGES - 2;
    static const int CAREFUL_M = BM / TS_CUDA_CAREFUL_ROWS, CAREFUL_N = BN / TS_CUDA_CAREFUL_COLUMNS;
    static_assert(WARPS_M * WARPS_N * 32 == THREADS, "warps make the tile");
    static_assert(PANEL_A % (16 * THREADS) == 0 && PANEL_B % (16 * THREADS) == 0, "panels are shared evenly");
    static_assert(RESULTS <= PASSES * ROOM && WARPS_M % PASSES == 0, "a part of the results fits");
    static_assert(STAGES * 16 <= 128 && CAREFUL_M * CAREFUL_N * 4 <= 128 && BK % 2 == 0, "room");

    TS_DEVICE unit *panel_a(int stage) { return reinterpret_cast<unit *>(ts_shared() + stage * (PANEL_A + PANEL_B)); }
    TS_DEVICE unit *panel_b(int stage) { return reinterpret_cast<unit *>(ts_shared() + stage * (PANEL_A + PANEL_B) + PANEL_A); }
    TS_DEVICE int64_t *c_row(void) { return reinterpret_cast<int64_t *>(ts_shared() + ROOM + SLACK); }
    TS_DEVICE int64_t *c_column(void) { return c_row() + BM; }
    TS_DEVICE note *row_note(void) { return reinterpret_cast<note *>(c_column() + BN); }
    TS_DEVICE note *column_note(void) { return reinterpret_cast<note *>(c_column() + BN + BM); }
    TS_DEVICE int32_t *careful_at(void) { return reinterpret_cast<int32_t *>(c_column() + BN + BM + BN); }
    TS_DEVICE uint64_t *stage_at(int stage) { return reinterpret_cast<uint64_t *>(ts_shared() + (SHARED - 128)) + 2 * stage; }

    /* Rows and columns of this thread's sum (i, j). */
    TS_DEVICE int row_of(int i)
    {
        const uint32_t warp = (uint32_t)ts_thread() / 32, lane = (uint32_t)ts_thread() % 32;
        const int first = (int)(warp % WARPS_M * (LANES_M * TM));
        return D::matrix ? first + (int)(lane / 4) + i * 8 : first + (int)(lane / 8 * VA) + i / VA * (4 * VA) + i % VA;
    }
    TS_DEVICE int column_of(int j)
    {
        const uint32_t warp = (uint32_t)ts_thread() / 32, lane = (uint32_t)ts_thread() % 32;
        const int first = (int)(warp / WARPS_M * (LANES_N * TN));
        return D::matrix ? first + (int)(lane % 4) * 2 + j / 2 * 8 + j % 2 : first + (int)(lane % 8 * VB) + j / VB * (8 * VB) + j % VB;
    }
    struct fragment {
        unit a[PLANES][TM], b[PLANES][TN];
    };
    TS_DEVICE void read(fragment &f, const unit *pa, const unit *pb, int term)
    {
#pragma unroll
        for (int plane = 0; plane < PLANES; plane++) {
#pragma unroll
            for (int g = 0; g < GA; g++) {
                ts_read_vector<unit, VA>(pa + term * LINE_A + plane * BM + g * (4 * VA), f.a[plane] + g * VA);
            }
#pragma unroll
            for (int g = 0; g < GB; g++) {
                ts_read_vector<unit, VB>(pb + term * LINE_B + plane * BN + g * (8 * VB), f.b[plane] + g * VB);
            }
        }
    }
    struct sums {
        sum at[TM][TN];
    };
    TS_DEVICE void multiply(sums &s, const fragment &f)
    {
#pragma unroll
        for (int i = 0; i < TM; i++) {
#pragma unroll
            for (int j = 0; j < TN; j++) {
                unit x[PLANES], y[PLANES];
#pragma unroll
                for (int plane = 0; plane < PLANES; plane++) {
                    x[plane] = f.a[plane][i];
                    y[plane] = f.b[plane][j];
                }
                D::step(s.at[i][j], x, y);
            }
        }
    }
    /* By tensor cores: 16 terms at a time, blocks of 16 x 16 results. */
    TS_DEVICE void compute_matrix(sums &s, int stage)
    {
        const uint32_t warp = (uint32_t)ts_thread() / 32, lane = (uint32_t)ts_thread() % 32;
        const uint32_t *pa = reinterpret_cast<const uint32_t *>(panel_a(stage)) + warp % WARPS_M * (TM / 2 * 128) + lane * 4;
        const uint32_t *pb = reinterpret_cast<const uint32_t *>(panel_b(stage)) + warp / WARPS_M * (TN / 4 * 128) + lane * 4;
#pragma unroll
        for (int block = 0; block < BK / 8; block++) {
            uint32_t a[TM / 2][4], b[TN / 4][4];
#pragma unroll
            for (int i = 0; i < TM / 2; i++) {
                ts_read_vector<uint32_t, 4>(pa + block * (8 * BM) + i * 128, a[i]);
            }
#pragma unroll
            for (int j = 0; j < TN / 4; j++) {
                ts_read_vector<uint32_t, 4>(pb + block * (8 * BN) + j * 128, b[j]);
            }
#pragma unroll
            for (int i = 0; i < TM / 2; i++) {
#pragma unroll
                for (int j = 0; j < TN / 2; j++) {
                    const uint32_t low = b[j / 2][j % 2], high = b[j / 2][j % 2 + 2];
                    if constexpr (P::kind == ts_kind_f16) {
                        ts_matrix_f16(s.at[2 * i][2 * j], s.at[2 * i][2 * j + 1], s.at[2 * i + 1][2 * j], s.at[2 * i + 1][2 * j + 1], a[i], low, high);
                    } else {
                        ts_matrix_bf16(s.at[2 * i][2 * j], s.at[2 * i][2 * j + 1], s.at[2 * i + 1][2 * j], s.at[2 * i + 1][2 * j + 1], a[i], low, high);
                    }
                }
            }
        }
    }
    /* Fragments are read one term ahead of their use; the read past the last term is of other shared memory, and not used. */
    TS_DEVICE void compute(sums &s, int stage)
    {
        const unit *pa = panel_a(stage) + row_of(0), *pb = panel_b(stage) + column_of(0);
        fragment f[2];
        read(f[0], pa, pb, 0);
#pragma unroll 1
        for (int part = 0; part < BK; part += 2) {
            read(f[1], pa, pb, 1);
            multiply(s, f[0]);
            read(f[0], pa, pb, 2);
            multiply(s, f[1]);
            pa += 2 * LINE_A;
            pb += 2 * LINE_B;
        }
    }
    TS_DEVICE void issue(const char *a, const char *b, int stage)
    {
        char *to_a = reinterpret_cast<char *>(panel_a(stage)) + ts_thread() * 16;
        char *to_b = reinterpret_cast<char *>(panel_b(stage)) + ts_thread() * 16;
#pragma unroll
        for (int i = 0; i < PANEL_A / (16 * THREADS); i++) {
            ts_copy_16(to_a + i * (16 * THREADS), a + i * (16 * THREADS));
        }
#pragma unroll
        for (int i = 0; i < PANEL_B / (16 * THREADS); i++) {
            ts_copy_16(to_b + i * (16 * THREADS), b + i * (16 * THREADS));
        }
    }
    /* a, b: what this thread copies of the first panel. */
    TS_DEVICE void walk(sums &s, const char *a, const char *b, int32_t panels, bool first_walk)
    {
        ts_stages_init(stage_at(0), STAGES, THREADS, first_walk);
        ts_sync();
#pragma unroll 1
        for (int i = 0; i < AHEAD; i++) {
            if (i < panels) {
                issue(a, b, i);
                a += PANEL_A;
                b += PANEL_B;
            }
            ts_stage_commit(stage_at(i));
            ts_copy_commit();
        }
        int stage = 0, next = AHEAD;
        uint32_t parity = 0, next_parity = 0;
#pragma unroll 1
        for (int32_t panel = 0; panel < panels; panel++) {
            if (panel + AHEAD < panels) {
                ts_stage_reuse(stage_at(next), next_parity);
                issue(a, b, next);
                ts_stage_commit(stage_at(next));
                a += PANEL_A;
                b += PANEL_B;
            }
            ts_copy_commit();
            ts_stage_wait<AHEAD>(stage_at(stage), parity);
            if constexpr (D::matrix) {
                compute_matrix(s, stage);
            } else {
                compute(s, stage);
            }
            ts_stage_release(stage_at(stage));
            parity ^= stage + 1 == STAGES ? 1u : 0u;
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            next_parity ^= next + 1 == STAGES ? 1u : 0u;
            next = next + 1 == STAGES ? 0 : next + 1;
        }
        ts_copy_wait<0>();
    }

    /* Offsets in c and joined notes of the tile's rows or columns. */
    TS_DEVICE void place(const ts_cuda_packed &p, const ts_cuda_mode *modes, int32_t count, int64_t base, int64_t first, int64_t extent,
                         int width, int64_t tile, int64_t tiles, uint64_t notes, int64_t *offsets, note *joined)
    {
        for (int i = ts_thread(); i < width; i += THREADS) {
            const bool here = first + i < extent;
            offsets[i] = here ? base + ts_offsets_of(modes, count, p.modes.wide, first + i).c : INT64_MIN;
            if (D::noted) {
                note whole = D::start_note();
                for (int64_t chunk = 0; chunk < p.chunks; chunk++) {
                    whole = D::join(whole, reinterpret_cast<const note *>((uintptr_t)notes)[(chunk * tiles + tile) * width + i]);
                }
                joined[i] = whole;
            }
        }
    }

    TS_DEVICE void run(const ts_cuda_packed &p)
    {
        const ts_cuda_mode *modes = ts_mode_table(p.modes);
        const bool accumulate = ts_switched_on(p.accumulate);
        const ts_context context = ts_make_context(p.modulus);
        storage *c = reinterpret_cast<storage *>(ts_address(p.c));
        bool first_walk = true;
        for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
            int64_t rest = ts_cuda_divide_wide(item, p.right_tiles), batch;
            const int64_t right_tile = item - rest * p.right_tiles;
            int64_t q = ts_cuda_divide_wide(rest, p.left_tiles);
            const int64_t left_tile = rest - q * p.left_tiles;
            batch = ts_cuda_divide_wide(q, p.splits);
            const int64_t split = q - batch * p.splits, first = split * p.split_panels;
            const int64_t last = first + p.split_panels < p.panels ? first + p.split_panels : p.panels;
            const int64_t tile_a = batch * p.left_tiles + left_tile, tile_b = batch * p.right_tiles + right_tile;
            sums s;
#pragma unroll
            for (int i = 0; i < TM; i++) {
#pragma unroll
                for (int j = 0; j < TN; j++) {
                    s.at[i][j] = D::start();
                }
            }
            ts_sync(); /* the item before has been stored */
            walk(s, reinterpret_cast<const char *>((uintptr_t)p.a) + (tile_a * p.panels + first) * PANEL_A + ts_thread() * 16,
                 reinterpret_cast<const char *>((uintptr_t)p.b) + (tile_b * p.panels + first) * PANEL_B + ts_thread() * 16,
                 (int32_t)(last - first), first_walk);
            first_walk = false;
            const int64_t base = ts_offsets_of(modes, p.batch_count, p.modes.wide, batch).c;
            place(p, modes + p.batch_count, p.left_count, base, left_tile * BM, p.left, BM, tile_a, p.batch * p.left_tiles, p.a_notes,
                  c_row(), row_note());
            place(p, modes + p.batch_count + p.left_count, p.right_count, 0, right_tile * BN, p.right, BN, tile_b,
                  p.batch * p.right_tiles, p.b_notes, c_column(), column_note());
            if (ts_thread() < CAREFUL_M * CAREFUL_N) {
                careful_at()[ts_thread()] = 0;
            }
            /* Results go through the panels' memory, so that neighbouring threads store neighbouring columns. First those
             * that are not to be stored are found: it takes all of a tile of contract_small. */
            value *results = reinterpret_cast<value *>(ts_shared());
            const uint32_t warp_row = (uint32_t)ts_thread() / 32 % WARPS_M;
            for (int round = D::noted ? 0 : PASSES; round < 2 * PASSES; round++) {
                const int pass = round % PASSES, from = pass * (BM / PASSES);
                ts_sync();
                if (PASSES > 1 || round == 0 || !D::noted) {
                    if ((int)(warp_row / (WARPS_M / PASSES)) == pass) {
#pragma unroll
                        for (int i = 0; i < TM; i++) {
#pragma unroll
                            for (int j = 0; j < TN; j++) {
                                results[(row_of(i) - from) * BN + column_of(j)] = D::value_of(s.at[i][j]);
                            }
                        }
                    }
                    ts_sync();
                }
#pragma unroll 1
                for (int at = ts_thread(); at < BM / PASSES * BN; at += THREADS) {
                    const int row = from + at / BN, column = at % BN;
                    if (c_row()[row] == INT64_MIN || c_column()[column] == INT64_MIN) {
                        continue;
                    }
                    int32_t *careful = careful_at() + row / TS_CUDA_CAREFUL_ROWS * CAREFUL_N + column / TS_CUDA_CAREFUL_COLUMNS;
                    if (round < PASSES) {
                        if (D::is_careful(results[at], row_note()[row], column_note()[column])) {
                            *careful = 1;
                        }
                    } else if (p.splits > 1) {
                        const int64_t number = (batch * p.left + left_tile * BM + row) * p.right + right_tile * BN + column;
                        reinterpret_cast<value *>((uintptr_t)p.partial)[split * (p.batch * p.left * p.right) + number] = results[at];
                    } else if (!D::noted || *careful == 0) {
                        const value result = D::noted ? D::settle(results[at], row_note()[row], column_note()[column]) : results[at];
                        ts_put<P>(c + (c_row()[row] + c_column()[column]), result, accumulate, context);
                    }
                }
            }
            if (D::noted && ts_thread() < CAREFUL_M * CAREFUL_N) {
                const int64_t rows = (p.left + TS_CUDA_CAREFUL_ROWS - 1) / TS_CUDA_CAREFUL_ROWS;
                const int64_t columns = (p.right + TS_CUDA_CAREFUL_COLUMNS - 1) / TS_CUDA_CAREFUL_COLUMNS;
                const int64_t row = left_tile * CAREFUL_M + ts_thread() / CAREFUL_N, column = right_tile * CAREFUL_N + ts_thread() % CAREFUL_N;
                if (row < rows && column < columns) {
                    reinterpret_cast<uint8_t *>((uintptr_t)p.careful)[(batch * rows + row) * columns + column] = (uint8_t)(careful_at()[ts_thread()] != 0);
                }
            }
        }
    }
};

/* The shapes of packed_abi.h as types. */
template <int Class> struct ts_packed_shape;
#define TS_PACKED_SHAPE(id, rows, columns, terms_, tm, tn, threads_, stages_, blocks_, planes_, unit_, in_unit_)              \
    template <> struct ts_packed_shape<TS_CUDA_PACKED_##id> {                                                                 \
        static const int threads = threads_, blocks = blocks_;                                                                \
        template <typename P> struct of {                                                                                     \
            typedef ts_packed<P, rows, columns, terms_, tm, tn, threads_, stages_> type;                                      \
            static_assert(type::PLANES == planes_ && sizeof(typename type::unit) == unit_ && type::D::terms == in_unit_ &&    \
                              type::SHARED == (int)ts_cuda_packed_shared(rows, columns, terms_, stages_, planes_, unit_),     \
                          "the class fits the pair");                                                                         \
        };                                                                                                                    \
    };
TS_CUDA_PACKED_CLASSES(TS_PACKED_SHAPE)
#undef TS_PACKED_SHAPE

#endif
