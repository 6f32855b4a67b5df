/* What panels of a pair hold, how a term is added, what is noted of rows: for packed.h. */
#ifndef TS_CUDA_DENSE_H
#define TS_CUDA_DENSE_H

#include "micro.h"
#include "packed_abi.h"

struct ts_no_note {
    uint8_t none;
};
/* Without notes. */
template <typename P> struct ts_dense_unnoted {
    typedef ts_no_note note;
    static const bool noted = false, surveyed = false, matrix = false, hinted = false, rises = false, by_two = false;
    static const int across = 1;
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
    TS_DEVICE typename P::value value_of(sum s, int) { return s; }
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
    TS_DEVICE ts_c64 value_of(sum s, int) { return s; }
};

/* Booleans: 32 terms in a word. The or of conjunctions, or their parity. */
template <typename P, int Add> struct ts_dense_bits : ts_dense_unnoted<P> {
    typedef uint32_t unit, sum;
    static const bool exists = true;
    static const int planes = 1, terms = 32, shape = TS_CUDA_PACKED_BITS;
    TS_DEVICE void pack(typename P::value x, ts_no_note, unit *to) { to[0] = x != 0 ? 1u : 0u; }
    TS_DEVICE sum start(void) { return 0; }
    TS_DEVICE void step(sum &s, const unit *x, const unit *y) { s = Add == ts_op_or ? s | (x[0] & y[0]) : s ^ (x[0] & y[0]); }
    TS_DEVICE typename P::value value_of(sum s, int)
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
    TS_DEVICE float value_of(sum s, int) { return s; }
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
    static const bool exists = true, noted = true, surveyed = false, matrix = false, hinted = false, rises = false, by_two = false;
    static const int planes = 1, terms = 1, across = 1, shape = TS_CUDA_PACKED_DOUBLE;
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
    TS_DEVICE double value_of(sum s, int) { return s; }
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

/* Selection over i32 and i16, of which two results of neighbouring columns are in a word (`across`), and over f16 and bf16, of
 * which the device finds the largest of three at once. */
template <typename P> struct ts_dense_selection : ts_dense_unnoted<P> {
    typedef ts_micro_of<P, ts_pack_of<P>::pack> M;
    typedef typename M::left unit; /* of the left operand; the right one's are `across` columns in as many bytes */
    typedef typename M::sum sum;
    static const bool exists = true, by_two = P::kind == ts_kind_f16 || P::kind == ts_kind_bf16;
    static const int planes = 1, terms = 1, across = M::pack, shape = M::pack == 2 ? TS_CUDA_PACKED_HALVES : TS_CUDA_PACKED_CHOICE;
    TS_DEVICE void pack(typename P::value x, ts_no_note, unit *to) { to[0] = M::stage_left(P::store(x), 0); }
    TS_DEVICE sum start(void)
    {
        sum s;
        M::start(s);
        return s;
    }
    TS_DEVICE void step(sum &s, const unit *x, const unit *y) { M::pair(s, x[0], y[0], ts_context()); }
    template <bool> TS_DEVICE void two_steps(sum &s, unit x, unit y, unit x2, unit y2)
    {
        M::pair(s, x, y, ts_context());
        M::pair(s, x2, y2, ts_context());
    }
    TS_DEVICE typename P::value value_of(const sum &s, int column) { return M::result(s, column, ts_context()); }
    static const int shape_w = M::pack == 2 ? TS_CUDA_PACKED_HALVES_W : TS_CUDA_PACKED_CHOICE_W;
    TS_DEVICE uint32_t word(const sum &s) { return M::word(s); }
    TS_DEVICE bool differs(uint32_t now, uint32_t old, int column) { return M::differs(now, old, column); }
};
template <typename P, int Add, int Mul> struct ts_dense_of<P, Add, Mul, ts_kind_i32> : ts_dense_selection<P> {};
template <typename P, int Add, int Mul> struct ts_dense_of<P, Add, Mul, ts_kind_i16> : ts_dense_selection<P> {};
template <typename P, int Add, int Mul> struct ts_dense_of<P, Add, Mul, ts_kind_f16> : ts_dense_selection<P> {};
template <typename P, int Add, int Mul> struct ts_dense_of<P, Add, Mul, ts_kind_bf16> : ts_dense_selection<P> {};

/* Selection over f32. Floats that are not negative are in the order of their bits, negative ones in the reverse, and the device
 * finds the largest (or the least) of three integers at once. Its own NaN has its sign clear: it is above all other floats that
 * are not negative as a signed integer, and below all negative ones as an unsigned one. So two terms take three instructions
 *     where sums have risen, whatever the terms are: a term below zero is below them as a signed integer, too;
 *     for max_plus where all terms are >= +0 or -infinity, zero of the semiring, from the start;
 *     for max_plus where all terms are below 0, which -infinity is, too.
 * Which signs the elements of a row or column have is noted while packing. min_plus is max_plus of the negative elements. */
template <typename P, int Add, int Mul> struct ts_dense_of<P, Add, Mul, ts_kind_f32> {
    typedef float unit, sum;
    typedef uint32_t note; /* 1: the sign of an element is set, 2: clear; but for zero of the semiring */
    static const bool exists = true, noted = false, surveyed = false, matrix = false, by_two = false;
    static const bool mirrored = Add == ts_op_min && Mul == ts_op_plus;
    static const bool hinted = Mul == ts_op_plus, rises = Add == ts_op_max || mirrored;
    static const int planes = 1, terms = 1, across = 1, shape = TS_CUDA_PACKED_CHOICE;
    TS_DEVICE float mirror(float x) { return mirrored ? -x : x; }
    /* +0 for -0, so that sums that are equal have equal bits (but products, of which a word takes care). */
    TS_DEVICE float packed(float x) { return mirror(x) + 0.0f; }
    TS_DEVICE void pack(float x, note, float *to) { to[0] = packed(x); }
    TS_DEVICE float start(void) { return mirror(P::zero()); }
    TS_DEVICE float term(float x, float y)
    {
        return Mul == ts_op_min ? ts_smaller(x, y) : Mul == ts_op_max ? ts_larger(x, y) : P::product(x, y, 0);
    }
    TS_DEVICE void step(float &s, const float *x, const float *y)
    {
        s = rises ? ts_larger(s, term(x[0], y[0])) : ts_smaller(s, term(x[0], y[0]));
    }
    template <bool Low> TS_DEVICE void two_steps(float &s, float x, float y, float x2, float y2)
    {
        s = Low ? ts_max_low(s, term(x, y), term(x2, y2)) : ts_max_risen(s, term(x, y), term(x2, y2));
    }
    TS_DEVICE int32_t height(float s) { return ts_float_bits(s); }
    TS_DEVICE float value_of(float s, int) { return mirror(s); }
    static const int shape_w = TS_CUDA_PACKED_CHOICE_W;
    TS_DEVICE uint32_t word(float s) { return (uint32_t)ts_float_bits(Mul == ts_op_ntimes ? s + 0.0f : s); }
    TS_DEVICE bool differs(uint32_t now, uint32_t old, int) { return now != old; }
    TS_DEVICE note start_note(void) { return 0; }
    TS_DEVICE note see(note n, float x) { return x == P::zero() ? n : n | (ts_float_bits(packed(x)) < 0 ? 1u : 2u); }
    TS_DEVICE note join(note x, note y) { return x | y; }
    TS_DEVICE bool is_careful(float, note, note) { return false; }
    TS_DEVICE float settle(float x, note, note) { return x; }
};

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
    static const bool exists = true, noted = true, surveyed = true, matrix = false, hinted = false, rises = false, by_two = false;
    static const int planes = 1, terms = 1, across = 1;
    TS_DEVICE sum start(void) { return 0; }
    TS_DEVICE void step(sum &s, const unit *x, const unit *y) { ts_multiply_add(s, x[0], y[0]); }
    TS_DEVICE sum value_of(sum s, int) { return s; }
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

#endif
