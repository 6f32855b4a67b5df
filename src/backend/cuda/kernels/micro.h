/* What a tile stages in shared memory, and its innermost operation. */
#ifndef TS_CUDA_MICRO_H
#define TS_CUDA_MICRO_H

#include "pair.h"

/* One result per accumulator; panels hold the type of arithmetic. */
template <typename P> struct ts_micro_plain {
    typedef typename P::value left, right;
    typedef ts_running<P> sum;
    static const int pack = 1;
    static const bool raw = sizeof(typename P::storage) >= 4 && P::kind != ts_kind_c64 && P::kind != ts_kind_c128;
    TS_DEVICE left stage_left(typename P::storage x, int32_t conjugate) { return ts_conjugated(P::load(x), conjugate); }
    TS_DEVICE right stage_right(typename P::storage x, int32_t conjugate) { return ts_conjugated(P::load(x), conjugate); }
    TS_DEVICE void start(sum &s) { sum::start(s); }
    TS_DEVICE void pair(sum &s, left x, right y, const ts_context &context) { sum::pair(s, x, y, context); }
    TS_DEVICE typename P::value result(const sum &s, int32_t, const ts_context &context) { return sum::result(s, context); }
    TS_DEVICE typename P::value left_value(left x) { return x; }
    TS_DEVICE typename P::value right_value(right x) { return x; }
    /* An accumulator as a word (of types of 4 bytes or less), and whether result `lane` of it has become another one: not from -0 to
     * +0, nor from NaN to NaN. */
    TS_DEVICE uint32_t word(const sum &s)
    {
        uint32_t bits = 0;
        memcpy(&bits, &s.best, sizeof s.best <= 4 ? sizeof s.best : 0);
        return bits;
    }
    TS_DEVICE bool differs(uint32_t now, uint32_t old, int32_t)
    {
        typename P::value x, y;
        memcpy(&x, &now, sizeof x <= 4 ? sizeof x : 0);
        memcpy(&y, &old, sizeof y <= 4 ? sizeof y : 0);
        return x != y && y == y;
    }
    /* Maxima of floats that are not negative compare as integers, two terms at a time. */
    static const bool rises = P::kind == ts_kind_f32 && P::add_op == ts_op_max;
    TS_DEVICE int32_t height(const sum &s) /* not negative: it has risen */
    {
        if constexpr (rises) {
            return ts_float_bits(s.best);
        } else {
            return -1;
        }
    }
    TS_DEVICE void two_pairs(sum &s, left x, right y, left x2, right y2)
    {
        if constexpr (rises) {
            s.best = ts_max_risen(s.best, P::product(x, y, 0), P::product(x2, y2, 0));
        }
    }
};

/* Two 16-bit results per word: left elements are staged doubled. */
template <typename P> struct ts_micro_two {
    typedef uint32_t left;
    typedef uint16_t right;
    struct sum {
        uint32_t word;
    };
    static const int pack = 2;
    static const bool raw = false;
    TS_DEVICE left stage_left(typename P::storage x, int32_t) { return (uint32_t)(uint16_t)x * 0x10001u; }
    TS_DEVICE right stage_right(typename P::storage x, int32_t) { return (uint16_t)x; }
    TS_DEVICE void start(sum &s) { s.word = (uint32_t)(uint16_t)P::store(P::zero()) * 0x10001u; }
    static const bool rises = P::kind != ts_kind_i16 && P::add_op == ts_op_max;
    TS_DEVICE int32_t height(const sum &s) { return (s.word & 0x80008000u) != 0 ? -1 : 0; }
    TS_DEVICE uint32_t term(left x, uint32_t y)
    {
        if constexpr (P::kind == ts_kind_f16) {
            return P::mul_op == ts_op_plus     ? ts_plus_f16x2(x, y)
                   : P::mul_op == ts_op_ntimes ? ts_ntimes_f16x2(x, y)
                   : P::mul_op == ts_op_min    ? ts_min_f16x2(x, y)
                                               : ts_max_f16x2(x, y);
        } else {
            return P::mul_op == ts_op_plus     ? ts_plus_bf16x2(x, y)
                   : P::mul_op == ts_op_ntimes ? ts_ntimes_bf16x2(x, y)
                   : P::mul_op == ts_op_min    ? ts_min_bf16x2(x, y)
                                               : ts_max_bf16x2(x, y);
        }
    }
    TS_DEVICE void two_pairs(sum &s, left x, uint32_t y, left x2, uint32_t y2)
    {
        if constexpr (rises) {
            s.word = ts_max_risen_x2(s.word, term(x, y), term(x2, y2));
        }
    }
    TS_DEVICE void pair(sum &s, left x, uint32_t y, const ts_context &)
    {
        const bool larger = P::add_op == ts_op_max;
        if constexpr (P::kind == ts_kind_i16) {
            if constexpr (P::mul_op == ts_op_plus) {
                s.word = larger ? ts_plus_max_i16x2(x, y, s.word) : ts_plus_min_i16x2(x, y, s.word);
            } else if constexpr (P::mul_op == ts_op_min) {
                s.word = ts_max_i16x2(ts_min_i16x2(x, y), s.word);
            } else {
                s.word = ts_min_i16x2(ts_max_i16x2(x, y), s.word);
            }
        } else if constexpr (P::kind == ts_kind_f16) {
            s.word = larger ? ts_max_f16x2(term(x, y), s.word) : ts_min_f16x2(term(x, y), s.word);
        } else {
            s.word = larger ? ts_max_bf16x2(term(x, y), s.word) : ts_min_bf16x2(term(x, y), s.word);
        }
    }
    TS_DEVICE typename P::value result(const sum &s, int32_t lane, const ts_context &) { return half(s.word, lane); }
    TS_DEVICE typename P::value half(uint32_t word, int32_t lane)
    {
        return P::load((typename P::storage)(uint16_t)(word >> (16 * lane)));
    }
    TS_DEVICE typename P::value left_value(left x) { return half(x, 0); }
    TS_DEVICE typename P::value right_value(right x) { return P::load((typename P::storage)x); }
    TS_DEVICE uint32_t word(const sum &s) /* +0 for -0 */
    {
        return P::kind == ts_kind_i16 ? s.word : P::kind == ts_kind_f16 ? ts_plus_f16x2(s.word, 0) : ts_plus_bf16x2(s.word, 0);
    }
    TS_DEVICE bool differs(uint32_t now, uint32_t old, int32_t lane) { return ((now ^ old) >> (16 * lane) & 0xffffu) != 0; }
};

/* Four booleans per word: left elements are staged as masks of the whole word. */
template <typename P> struct ts_micro_four {
    typedef uint32_t left;
    typedef uint8_t right;
    struct sum {
        uint32_t word;
    };
    static const int pack = 4;
    static const bool raw = false;
    TS_DEVICE left stage_left(typename P::storage x, int32_t) { return x != 0 ? 0xffffffffu : 0u; }
    TS_DEVICE right stage_right(typename P::storage x, int32_t) { return x != 0 ? 1 : 0; }
    TS_DEVICE void start(sum &s) { s.word = 0; }
    static const bool rises = false;
    TS_DEVICE int32_t height(const sum &) { return -1; }
    TS_DEVICE void two_pairs(sum &, left, uint32_t, left, uint32_t) {}
    TS_DEVICE void pair(sum &s, left x, uint32_t y, const ts_context &)
    {
        s.word = P::add_op == ts_op_or ? (s.word | (x & y)) : (s.word ^ (x & y));
    }
    TS_DEVICE typename P::value result(const sum &s, int32_t lane, const ts_context &)
    {
        return (typename P::value)((s.word >> (8 * lane)) & 1u);
    }
    TS_DEVICE typename P::value left_value(left x) { return (typename P::value)(x & 1u); }
    TS_DEVICE typename P::value right_value(right x) { return x; }
    TS_DEVICE uint32_t word(const sum &s) { return s.word; }
    TS_DEVICE bool differs(uint32_t now, uint32_t old, int32_t lane) { return ((now ^ old) >> (8 * lane) & 0xffu) != 0; }
};

template <typename P, int Pack> struct ts_micro_of;
template <typename P> struct ts_micro_of<P, 1> : ts_micro_plain<P> {};
template <typename P> struct ts_micro_of<P, 2> : ts_micro_two<P> {};
template <typename P> struct ts_micro_of<P, 4> : ts_micro_four<P> {};
template <typename P> struct ts_pack_of {
    static const bool half = P::kind == ts_kind_f16 || P::kind == ts_kind_bf16 || (P::kind == ts_kind_i16 && P::mul_op != ts_op_ntimes);
    static const int pack = P::kind == ts_kind_bool ? 4 : half && P::selective ? 2 : 1;
};

#endif
