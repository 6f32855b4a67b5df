/* One (semiring, dtype) pair as a type, made from algebra/element.h, and how sums over it are accumulated. */
#ifndef TS_CUDA_PAIR_H
#define TS_CUDA_PAIR_H

#include "instructions.h"

/* Conversions where the device has an instruction; element.h's own elsewhere. */
#define TS_LOAD_f16(x) ts_half_load(x)
#define TS_STORE_f16(x) ts_half_store(x)
#define TS_ROUND_f16(x) ts_half_load(ts_half_store(x))
#define TS_LOAD_bf16(x) ts_load_bf16(x)
#define TS_STORE_bf16(x) ts_bfloat_store(x)
#define TS_ROUND_bf16(x) ts_load_bf16(ts_bfloat_store(x))
#define TS_LOAD_f32(x) (x)
#define TS_STORE_f32(x) (x)
#define TS_ROUND_f32(x) (x)
#define TS_LOAD_f64(x) (x)
#define TS_STORE_f64(x) (x)
#define TS_ROUND_f64(x) (x)
#define TS_LOAD_c64(x) (x)
#define TS_STORE_c64(x) (x)
#define TS_ROUND_c64(x) (x)
#define TS_LOAD_c128(x) (x)
#define TS_STORE_c128(x) (x)
#define TS_ROUND_c128(x) (x)
#define TS_LOAD_i16(x) (x)
#define TS_STORE_i16(x) (x)
#define TS_ROUND_i16(x) (x)
#define TS_LOAD_i32(x) (x)
#define TS_STORE_i32(x) (x)
#define TS_ROUND_i32(x) (x)
#define TS_LOAD_i64(x) (x)
#define TS_STORE_i64(x) (x)
#define TS_ROUND_i64(x) (x)
#define TS_LOAD_bool(x) ts_load_bool(x)
#define TS_STORE_bool(x) (x)
#define TS_ROUND_bool(x) (x)
#define TS_LOAD_vc64(x) (x)
#define TS_STORE_vc64(x) (x)
#define TS_ROUND_vc64(x) (x)
#define TS_LOAD_vc128(x) (x)
#define TS_STORE_vc128(x) (x)
#define TS_ROUND_vc128(x) (x)

/* Dtypes of cotangents. */
typedef float ts_gradient_f16;
typedef float ts_gradient_bf16;
typedef float ts_gradient_f32;
typedef double ts_gradient_f64;
typedef ts_c64 ts_gradient_c64;
typedef ts_c128 ts_gradient_c128;
typedef float ts_gradient_i16;
typedef float ts_gradient_i32;
typedef double ts_gradient_i64;
typedef float ts_gradient_bool;
typedef float ts_gradient_vc64;
typedef double ts_gradient_vc128;

/* Which operations a pair is made of, for the choice of instructions and of gradients. */
enum ts_operation {
    ts_op_sum, ts_op_max, ts_op_min, ts_op_or, ts_op_xor, ts_op_lse, ts_op_maxcount, ts_op_modsum,
    ts_op_times, ts_op_plus, ts_op_ntimes, ts_op_and, ts_op_pluscount, ts_op_modtimes
};
enum ts_kind {
    ts_kind_f16, ts_kind_bf16, ts_kind_f32, ts_kind_f64, ts_kind_c64, ts_kind_c128,
    ts_kind_i16, ts_kind_i32, ts_kind_i64, ts_kind_bool, ts_kind_vc64, ts_kind_vc128
};

#define TS_SELECTIVE_0(a, m, d)                                                                            \
    static const bool selective = false;                                                                   \
    TS_DEVICE bool better(value, value) { return false; }                                                  \
    TS_DEVICE value product(value x, value y, int64_t modulus) { return ts_##m##_##d(x, y, modulus); }
#define TS_SELECTIVE_1(a, m, d)                                                                            \
    static const bool selective = true;                                                                    \
    TS_DEVICE bool better(value x, value best) { return ts_better_##a##_##d(x, best) != 0; }               \
    TS_DEVICE value product(value x, value y, int64_t modulus) { return TS_ROUND_##d((ts_##m##_##d(x, y, modulus))); }

#define TS_DEFINE_PAIR(a, m, sel, d)                                                                       \
    struct pair_##d {                                                                                      \
        typedef ts_s_##d storage;                                                                          \
        typedef ts_c_##d value;                                                                            \
        typedef ts_gradient_##d gradient;                                                                  \
        static const int add_op = ts_op_##a, mul_op = ts_op_##m, kind = ts_kind_##d;                       \
        TS_DEVICE value load(storage x) { return TS_LOAD_##d(x); }                                         \
        TS_DEVICE storage store(value x) { return TS_STORE_##d(x); }                                       \
        TS_SELECTIVE(sel)(a, m, d)                                                                         \
        TS_DEVICE value add(value x, value y, int64_t modulus) { return ts_add_##a##_##d(x, y, modulus); } \
        TS_DEVICE value finish(value x) { return ts_finish_##a##_##m##_##d(x); }                           \
        TS_DEVICE value zero(void) { return ts_zero_##a##_##m##_##d(); }                                   \
        TS_DEVICE value one(void) { return ts_one_##a##_##m##_##d(); }                                     \
    };
#define TS_SELECTIVE(sel) TS_SELECTIVE_(sel)
#define TS_SELECTIVE_(sel) TS_SELECTIVE_##sel

TS_DEVICE bool ts_same(ts_c64 x, ts_c64 y) { return x.re == y.re && x.im == y.im; }
TS_DEVICE bool ts_same(ts_c128 x, ts_c128 y) { return x.re == y.re && x.im == y.im; }
TS_DEVICE bool ts_same(ts_vc64 x, ts_vc64 y) { return x.value == y.value; }
TS_DEVICE bool ts_same(ts_vc128 x, ts_vc128 y) { return x.value == y.value; }
template <typename T> TS_DEVICE bool ts_same(T x, T y) { return x == y; }
TS_DEVICE bool ts_is_not_a_number(float x) { return x != x; }
TS_DEVICE bool ts_is_not_a_number(double x) { return x != x; }
template <typename T> TS_DEVICE bool ts_is_not_a_number(T) { return false; }
TS_DEVICE ts_c64 ts_conjugated(ts_c64 x, int32_t yes) { return yes ? ts_conjugate_c64(x) : x; }
TS_DEVICE ts_c128 ts_conjugated(ts_c128 x, int32_t yes) { return yes ? ts_conjugate_c128(x) : x; }
template <typename T> TS_DEVICE T ts_conjugated(T x, int32_t) { return x; }

/* What a kernel needs beside the operands. square: modulus^2. */
struct ts_context {
    int64_t modulus, square;
};
TS_DEVICE ts_context ts_make_context(int64_t modulus)
{
    ts_context context;
    context.modulus = modulus;
    context.square = modulus * modulus;
    return context;
}

/* A running sum over terms x (*) y. `term` is for one operand alone. */
template <typename P, int Add, int Mul> struct ts_sum_of {
    typedef typename P::value value;
    value best;
    TS_DEVICE void start(ts_sum_of &s) { s.best = P::zero(); }
    TS_DEVICE void term(ts_sum_of &s, value x, const ts_context &context) { s.best = P::add(s.best, x, context.modulus); }
    TS_DEVICE void pair(ts_sum_of &s, value x, value y, const ts_context &context)
    {
        s.best = P::add(s.best, P::product(x, y, context.modulus), context.modulus);
    }
    TS_DEVICE value result(const ts_sum_of &s, const ts_context &) { return s.best; }
};
template <typename T> TS_DEVICE void ts_multiply_add(T &sum, T x, T y) { sum = (T)(sum + x * y); }
TS_DEVICE void ts_multiply_add(float &sum, float x, float y) { sum = ts_fma(x, y, sum); }
TS_DEVICE void ts_multiply_add(double &sum, double x, double y) { sum = ts_fma(x, y, sum); }
TS_DEVICE void ts_multiply_add(int16_t &sum, int16_t x, int16_t y) { sum = (int16_t)(uint16_t)((uint16_t)sum + 1u * (uint16_t)x * (uint16_t)y); }
TS_DEVICE void ts_multiply_add(int32_t &sum, int32_t x, int32_t y) { sum = (int32_t)((uint32_t)sum + (uint32_t)x * (uint32_t)y); }
TS_DEVICE void ts_multiply_add(int64_t &sum, int64_t x, int64_t y) { sum = (int64_t)((uint64_t)sum + (uint64_t)x * (uint64_t)y); }
template <typename C> TS_DEVICE void ts_multiply_add_complex(C &sum, C x, C y)
{
    sum.re = ts_fma(x.re, y.re, sum.re);
    sum.im = ts_fma(x.re, y.im, sum.im);
    sum.re = ts_fma(-x.im, y.im, sum.re);
    sum.im = ts_fma(x.im, y.re, sum.im);
}
TS_DEVICE void ts_multiply_add(ts_c64 &sum, ts_c64 x, ts_c64 y) { ts_multiply_add_complex(sum, x, y); }
TS_DEVICE void ts_multiply_add(ts_c128 &sum, ts_c128 x, ts_c128 y) { ts_multiply_add_complex(sum, x, y); }

template <typename P> struct ts_sum_of<P, ts_op_sum, ts_op_times> {
    typedef typename P::value value;
    value best;
    TS_DEVICE void start(ts_sum_of &s) { s.best = P::zero(); }
    TS_DEVICE void term(ts_sum_of &s, value x, const ts_context &context) { s.best = P::add(s.best, x, context.modulus); }
    TS_DEVICE void pair(ts_sum_of &s, value x, value y, const ts_context &) { ts_multiply_add(s.best, x, y); }
    TS_DEVICE value result(const ts_sum_of &s, const ts_context &) { return s.best; }
};

/* Selection in one instruction where there is one. */
TS_DEVICE float ts_larger(float x, float y) { return ts_max_nan(x, y); }
TS_DEVICE float ts_smaller(float x, float y) { return ts_min_nan(x, y); }
TS_DEVICE double ts_larger(double best, double x) { return x > best || x != x ? x : best; }
TS_DEVICE double ts_smaller(double best, double x) { return x < best || x != x ? x : best; }
template <typename T> TS_DEVICE T ts_larger(T x, T y) { return x > y ? x : y; }
template <typename T> TS_DEVICE T ts_smaller(T x, T y) { return x < y ? x : y; }
TS_DEVICE void ts_raise(int32_t &best, int32_t x, int32_t y) { best = ts_plus_max_i32(x, y, best); }
TS_DEVICE void ts_lower(int32_t &best, int32_t x, int32_t y) { best = ts_plus_min_i32(x, y, best); }

template <typename P, int Mul> struct ts_sum_of<P, ts_op_max, Mul> {
    typedef typename P::value value;
    value best;
    TS_DEVICE void start(ts_sum_of &s) { s.best = P::zero(); }
    TS_DEVICE void term(ts_sum_of &s, value x, const ts_context &) { s.best = ts_larger(s.best, x); }
    TS_DEVICE void pair(ts_sum_of &s, value x, value y, const ts_context &)
    {
        if constexpr (P::kind == ts_kind_i32 && Mul == ts_op_plus) {
            s.best = ts_plus_max_i32(x, y, s.best);
        } else if constexpr (P::kind == ts_kind_f32 && Mul == ts_op_min) {
            s.best = ts_larger(s.best, ts_smaller(x, y));
        } else {
            s.best = ts_larger(s.best, P::product(x, y, 0));
        }
    }
    TS_DEVICE value result(const ts_sum_of &s, const ts_context &) { return s.best; }
};
template <typename P, int Mul> struct ts_sum_of<P, ts_op_min, Mul> {
    typedef typename P::value value;
    value best;
    TS_DEVICE void start(ts_sum_of &s) { s.best = P::zero(); }
    TS_DEVICE void term(ts_sum_of &s, value x, const ts_context &) { s.best = ts_smaller(s.best, x); }
    TS_DEVICE void pair(ts_sum_of &s, value x, value y, const ts_context &)
    {
        if constexpr (P::kind == ts_kind_i32 && Mul == ts_op_plus) {
            s.best = ts_plus_min_i32(x, y, s.best);
        } else if constexpr (P::kind == ts_kind_f32 && Mul == ts_op_max) {
            s.best = ts_smaller(s.best, ts_larger(x, y));
        } else {
            s.best = ts_smaller(s.best, P::product(x, y, 0));
        }
    }
    TS_DEVICE value result(const ts_sum_of &s, const ts_context &) { return s.best; }
};

/* log_sum_exp: the largest term and the sum of e^(term - largest). A term equal to the largest adds 1, which also keeps
 * infinities from being subtracted from each other; where the largest is infinite the sum means nothing, unless NaN. */
TS_DEVICE float ts_exp(float x) { return ts_exp_fast(x); }
TS_DEVICE double ts_exp(double x) { return exp(x); }
TS_DEVICE float ts_log(float x) { return logf(x); }
TS_DEVICE double ts_log(double x) { return log(x); }
template <typename P> struct ts_sum_of<P, ts_op_lse, ts_op_plus> {
    typedef typename P::value value;
    value best, sum;
    TS_DEVICE void start(ts_sum_of &s)
    {
        s.best = P::zero();
        s.sum = 0;
    }
    TS_DEVICE void term(ts_sum_of &s, value x, const ts_context &)
    {
        if (x == s.best) {
            s.sum += 1;
        } else {
            bool above = x > s.best;
            value e = ts_exp(above ? s.best - x : x - s.best);
            s.sum = above ? s.sum * e + 1 : s.sum + e;
            s.best = above ? x : s.best;
        }
    }
    TS_DEVICE void pair(ts_sum_of &s, value x, value y, const ts_context &context) { term(s, x + y, context); }
    TS_DEVICE value result(const ts_sum_of &s, const ts_context &)
    {
        if (s.sum != s.sum) {
            return s.sum;
        }
        return s.best == P::zero() || s.best == -P::zero() ? s.best : s.best + ts_log(s.sum);
    }
};

/* Residues: sums of products stay below modulus^2 < 2^62 by one conditional subtraction. */
template <typename P> struct ts_sum_of<P, ts_op_modsum, ts_op_modtimes> {
    int64_t best;
    TS_DEVICE void start(ts_sum_of &s) { s.best = 0; }
    TS_DEVICE void add(ts_sum_of &s, int64_t x, const ts_context &context)
    {
        s.best += x;
        s.best = s.best >= context.square ? s.best - context.square : s.best;
    }
    TS_DEVICE void term(ts_sum_of &s, int64_t x, const ts_context &context) { add(s, x, context); }
    TS_DEVICE void pair(ts_sum_of &s, int64_t x, int64_t y, const ts_context &context) { add(s, x * y, context); }
    TS_DEVICE int64_t result(const ts_sum_of &s, const ts_context &context) { return s.best % context.modulus; }
};

template <typename P> struct ts_running : ts_sum_of<P, P::add_op, P::mul_op> {};

/* The best term so far and its index. Terms come in ascending order. The first term is always taken. */
template <typename P> struct ts_leader {
    typename P::value best;
    int64_t index; /* -1: no term yet */
    TS_DEVICE void start(ts_leader &s)
    {
        s.best = P::zero();
        s.index = -1;
    }
    TS_DEVICE void term(ts_leader &s, typename P::value x, int64_t index)
    {
        if (s.index < 0 || P::better(x, s.best)) {
            s.best = x;
            s.index = index;
        }
    }
    /* Take the other where it is better, or as good and earlier: any order of merging gives the first of the best. */
    TS_DEVICE void merge(ts_leader &s, typename P::value best, int64_t index)
    {
        if (index >= 0 && (s.index < 0 || P::better(best, s.best) || (!P::better(s.best, best) && index < s.index))) {
            s.best = best;
            s.index = index;
        }
    }
};
/* Where the result is zero of the semiring all terms are, and the winner is the first. */
template <typename P> TS_DEVICE int64_t ts_settled_winner(typename P::value finished, int64_t index)
{
    return index > 0 && ts_same(finished, P::zero()) ? 0 : index;
}

/* Store one result: finish, combine with what is there. */
template <typename P>
TS_DEVICE void ts_put(typename P::storage *c, typename P::value result, bool accumulate, const ts_context &context)
{
    typename P::value finished = P::finish(result);
    if (accumulate) {
        finished = P::finish(P::add(P::load(*c), finished, context.modulus));
    }
    *c = P::store(finished);
}
TS_DEVICE void ts_put_winner(char *w, int64_t offset, int64_t index, int32_t bytes)
{
    if (bytes == 4) {
        reinterpret_cast<int32_t *>(w)[offset] = (int32_t)index;
    } else {
        reinterpret_cast<int64_t *>(w)[offset] = index;
    }
}
TS_DEVICE int64_t ts_get_winner(const char *w, int64_t offset, int32_t bytes)
{
    return bytes == 0 ? 0 : bytes == 4 ? reinterpret_cast<const int32_t *>(w)[offset] : reinterpret_cast<const int64_t *>(w)[offset];
}

#endif
