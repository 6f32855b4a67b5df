/* contract by tiles: a block computes BM x BN results, walking the sum in panels of BK terms that are gathered into
 * shared memory through offset tables (any strides), STAGES panels deep.
 *
 * A warp computes 4*TM x 8*TN results, a thread TM x TN of them in groups of 16 bytes, so that a thread's fragments are
 * 16-byte reads without bank conflicts. Panels are stored [term][row]. Edges: rows past the end read the last row again
 * and are not stored; the last panel runs over the terms it has. */
#ifndef TS_CUDA_TILE_H
#define TS_CUDA_TILE_H

#include "locate.h"
#include "pair.h"
#include "vector.h"

#ifndef TS_UNROLL
#define TS_UNROLL 2 /* terms per turn of the innermost loop: it should fit into the instruction cache */
#endif
#define TS_TERMS 128 /* terms per table of sum offsets; two tables take turns */

/* ---- what is staged, and the innermost operation ---- */

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
            uint32_t term = P::mul_op == ts_op_plus     ? ts_plus_f16x2(x, y)
                            : P::mul_op == ts_op_ntimes ? ts_ntimes_f16x2(x, y)
                            : P::mul_op == ts_op_min    ? ts_min_f16x2(x, y)
                                                        : ts_max_f16x2(x, y);
            s.word = larger ? ts_max_f16x2(term, s.word) : ts_min_f16x2(term, s.word);
        } else {
            uint32_t term = P::mul_op == ts_op_plus     ? ts_plus_bf16x2(x, y)
                            : P::mul_op == ts_op_ntimes ? ts_ntimes_bf16x2(x, y)
                            : P::mul_op == ts_op_min    ? ts_min_bf16x2(x, y)
                                                        : ts_max_bf16x2(x, y);
            s.word = larger ? ts_max_bf16x2(term, s.word) : ts_min_bf16x2(term, s.word);
        }
    }
    TS_DEVICE typename P::value result(const sum &s, int32_t lane, const ts_context &)
    {
        return P::load((typename P::storage)(uint16_t)(s.word >> (16 * lane)));
    }
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
    TS_DEVICE void pair(sum &s, left x, uint32_t y, const ts_context &)
    {
        s.word = P::add_op == ts_op_or ? (s.word | (x & y)) : (s.word ^ (x & y));
    }
    TS_DEVICE typename P::value result(const sum &s, int32_t lane, const ts_context &)
    {
        return (typename P::value)((s.word >> (8 * lane)) & 1u);
    }
};

template <typename P, int Pack> struct ts_micro_of;
template <typename P> struct ts_micro_of<P, 1> : ts_micro_plain<P> {};
template <typename P> struct ts_micro_of<P, 2> : ts_micro_two<P> {};
template <typename P> struct ts_micro_of<P, 4> : ts_micro_four<P> {};
template <typename P> struct ts_pack_of {
    static const bool half = P::kind == ts_kind_f16 || P::kind == ts_kind_bf16 || (P::kind == ts_kind_i16 && P::mul_op != ts_op_ntimes);
    static const int pack = P::kind == ts_kind_bool ? 4 : half && P::selective ? 2 : 1;
};

/* ---- fragments ---- */
constexpr int ts_least(int x, int y) { return x < y ? x : y; }

/* May 16 bytes of consecutive rows (or columns) be read at once? `own` is the class whose last mode would be walked. */
template <bool Left>
TS_DEVICE bool ts_wide_rows(const ts_cuda_contract &p, const ts_cuda_mode *modes, const char *base, int32_t own_first,
                            int32_t own_count, int32_t sum_first, int32_t bytes)
{
    int64_t per = 16 / bytes, odd = (int64_t)((uintptr_t)base & 15u);
    if (own_count == 0) {
        return false;
    }
    const ts_cuda_mode &last = modes[own_first + own_count - 1];
    if ((Left ? last.a : last.b) != 1 || last.extent % per != 0) {
        return false;
    }
    for (int32_t i = 0; i < p.batch_count; i++) {
        odd |= (Left ? modes[i].a : modes[i].b) % per;
    }
    for (int32_t i = own_first; i < own_first + own_count - 1; i++) {
        odd |= (Left ? modes[i].a : modes[i].b) % per;
    }
    for (int32_t i = sum_first; i < sum_first + p.sum_count; i++) {
        odd |= (Left ? modes[i].a : modes[i].b) % per;
    }
    return odd == 0;
}

TS_DEVICE int64_t ts_magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Track: 0 values, 1 winners beside each accumulator, 2 winners found afterwards (see below). */
template <typename P, typename M, int BM, int BN, int BK, int TM, int TN, int THREADS, int STAGES, int Track>
struct ts_tile {
    typedef typename P::storage storage;
    typedef typename P::value value;
    typedef typename M::left left_type;
    typedef typename M::right right_type;
    static const int VA = ts_least(TM, 16 / (int)sizeof(left_type)), GA = TM / VA;
    static const int VB = ts_least(TN, 16 / (int)sizeof(right_type)), GB = TN / VB;
    static const int WARPS_M = BM / (4 * TM), WARPS_N = BN / (8 * TN);
    static const int PITCH_A = BM + 16 / (int)sizeof(left_type), PITCH_B = BN + 16 / (int)sizeof(right_type);
    static const int PANEL_A = PITCH_A * BK * (int)sizeof(left_type), PANEL_B = PITCH_B * BK * (int)sizeof(right_type);
    static const int PANELS = M::raw ? STAGES : 2;
    static const int TABLES = (3 * BM + 3 * BN + 4 * TS_TERMS) * 8;
    /* Track 2: the best values and the numbers of the intervals they were found in. */
    static const int FOUND = Track == 2 ? BM * BN * ((int)sizeof(value) + 1) : 0;
    /* Results are stored through the panels' memory, PART of the BM rows per pass, in as few passes as fit. */
    static const int PART_BYTES = BM * BN * ((int)sizeof(value) + (Track == 1 ? 8 : 0));
    static const int LEAST = PART_BYTES / (TM < 8 ? TM : 8), ROOM_ = PANELS * (PANEL_A + PANEL_B);
    static const int ROOM = ROOM_ > LEAST ? ROOM_ : LEAST;
    static const int PASSES = PART_BYTES <= ROOM ? 1 : PART_BYTES <= 2 * ROOM ? 2 : PART_BYTES <= 4 * ROOM ? 4 : 8;
    static const int PART = BM / PASSES;
    static const int SLACK = PITCH_B * (int)sizeof(right_type); /* read past the last panel, see compute */
    static const int SHARED = TABLES + ROOM + SLACK / 16 * 16 + 16 + FOUND;
    static const int PER_TABLE = TS_TERMS / BK;
    static const int UNROLL = TM * TN >= 64 ? TS_UNROLL : TM * TN >= 32 && BK % 8 == 0 ? 8 : 4;
    static const int NA = BM * BK / THREADS, NB = BN * BK / THREADS;
    static_assert(WARPS_M * WARPS_N * 32 == THREADS && THREADS % 32 == 0, "a warp computes 4*TM x 8*TN");
    static_assert(TN % M::pack == 0 && BM * BK % THREADS == 0 && BN * BK % THREADS == 0, "panels are shared evenly");
    static_assert(PANEL_A % 16 == 0 && PANEL_B % 16 == 0 && TABLES % 16 == 0, "16-byte reads");
    static_assert(Track == 0 || M::pack == 1, "winners need one result per accumulator");

    /* Where things lie in shared memory: constants of the kernel, so that they take no registers. a_row, b_row: addresses;
     * a_term, b_term: bytes to add; c_row ...: elements. */
    TS_DEVICE int64_t *a_row(void) { return reinterpret_cast<int64_t *>(ts_shared()); }
    TS_DEVICE int64_t *c_row(void) { return a_row() + BM; }
    TS_DEVICE int64_t *w_row(void) { return a_row() + 2 * BM; }
    TS_DEVICE int64_t *b_row(void) { return a_row() + 3 * BM; }
    TS_DEVICE int64_t *c_column(void) { return b_row() + BN; }
    TS_DEVICE int64_t *w_column(void) { return b_row() + 2 * BN; }
    TS_DEVICE int64_t *a_term(void) { return b_row() + 3 * BN; }
    TS_DEVICE int64_t *b_term(void) { return a_term() + 2 * TS_TERMS; }
    TS_DEVICE unsigned char *panels_at(void) { return ts_shared() + TABLES; }

    const ts_cuda_mode *sum_modes;
    int32_t sum_count, wide;
    int64_t first, last;          /* terms */
    int32_t terms;                /* last - first, where affine */
    int32_t conjugate_a, conjugate_b;
    bool a_by_term, b_by_term;    /* neighbouring threads load neighbouring terms instead of rows */
    bool a_wide, b_wide;          /* raw: 16 bytes of rows at once */
    bool affine;                  /* the sum is one mode: term * step instead of a table */
    int32_t a_step, b_step;       /* bytes */

    TS_DEVICE left_type *panel_a(int stage)
    {
        return reinterpret_cast<left_type *>(panels_at() + stage * (PANEL_A + PANEL_B));
    }
    TS_DEVICE right_type *panel_b(int stage)
    {
        return reinterpret_cast<right_type *>(panels_at() + stage * (PANEL_A + PANEL_B) + PANEL_A);
    }
    /* Offsets of the terms of table `number`, into the table that is not in use. */
    TS_DEVICE void fill(const ts_tile &t, int32_t number)
    {
        int32_t at = (number & 1) * TS_TERMS;
        for (int i = ts_thread(); i < TS_TERMS; i += THREADS) {
            int64_t term = t.first + (int64_t)number * TS_TERMS + i;
            ts_cuda_offsets offsets = ts_offsets_of(t.sum_modes, t.sum_count, t.wide, term < t.last ? term : t.last - 1);
            a_term()[at + i] = offsets.a * (int64_t)sizeof(storage);
            b_term()[at + i] = offsets.b * (int64_t)sizeof(storage);
        }
    }
    TS_DEVICE void fill_next(const ts_tile &t, int32_t panel)
    {
        if (!t.affine && (panel + 1) % PER_TABLE == 0) {
            fill(t, (panel + 1) / PER_TABLE);
        }
    }

    /* Bytes from a row's address to term `term` of a panel. Past the end of the sum: the last term again. */
    template <bool Affine> TS_DEVICE int64_t term_bytes(const ts_tile &t, int32_t panel, int32_t term, const int64_t *terms, int32_t step)
    {
        if (Affine) {
            int32_t number = panel * BK + term;
            return ts_multiply_wide(number < t.terms ? number : t.terms - 1, step);
        }
        return terms[(panel / PER_TABLE & 1) * TS_TERMS + panel % PER_TABLE * BK + term];
    }
    template <bool Affine, int ROWS, int PITCH, typename T>
    TS_DEVICE void copy_raw(const ts_tile &t, int32_t panel, T *to, const int64_t *rows, const int64_t *terms, int32_t step,
                            bool by_term, bool wide_rows)
    {
        const uint32_t per = 16 / sizeof(storage), thread = (uint32_t)ts_thread();
        if (wide_rows) {
#pragma unroll
            for (uint32_t i = 0; i < (ROWS * BK / per + THREADS - 1) / THREADS; i++) {
                const uint32_t e = i * THREADS + thread;
                if (ROWS * BK / per % THREADS == 0 || e < ROWS * BK / per) {
                    const uint32_t row = e % (ROWS / per) * per, term = e / (ROWS / per);
                    ts_copy_16(to + term * PITCH + row, source<Affine>(t, panel, row, term, rows, terms, step));
                }
            }
        } else if (by_term) {
#pragma unroll
            for (uint32_t i = 0; i < ROWS * BK / THREADS; i++) {
                const uint32_t e = i * THREADS + thread, row = e / BK, term = e % BK;
                copy_one(to + term * PITCH + row, source<Affine>(t, panel, row, term, rows, terms, step));
            }
        } else {
#pragma unroll
            for (uint32_t i = 0; i < ROWS * BK / THREADS; i++) {
                const uint32_t e = i * THREADS + thread, row = e % ROWS, term = e / ROWS;
                copy_one(to + term * PITCH + row, source<Affine>(t, panel, row, term, rows, terms, step));
            }
        }
    }
    template <bool Affine>
    TS_DEVICE const void *source(const ts_tile &t, int32_t panel, uint32_t row, uint32_t term, const int64_t *rows,
                                 const int64_t *terms, int32_t step)
    {
        return reinterpret_cast<const void *>((uintptr_t)(rows[row] + term_bytes<Affine>(t, panel, (int32_t)term, terms, step)));
    }
    template <typename T> TS_DEVICE void copy_one(T *to, const void *from)
    {
        if (sizeof(storage) == 4) {
            ts_copy_4(to, from);
        } else if (sizeof(storage) == 8) {
            ts_copy_8(to, from);
        } else {
            ts_copy_16(to, from);
        }
    }
    TS_DEVICE void issue(const ts_tile &t, int32_t panel, int stage)
    {
        if (t.affine) {
            copy_raw<true, BM, PITCH_A>(t, panel, panel_a(stage), a_row(), a_term(), t.a_step, t.a_by_term, t.a_wide);
            copy_raw<true, BN, PITCH_B>(t, panel, panel_b(stage), b_row(), b_term(), t.b_step, t.b_by_term, t.b_wide);
        } else {
            copy_raw<false, BM, PITCH_A>(t, panel, panel_a(stage), a_row(), a_term(), t.a_step, t.a_by_term, t.a_wide);
            copy_raw<false, BN, PITCH_B>(t, panel, panel_b(stage), b_row(), b_term(), t.b_step, t.b_by_term, t.b_wide);
        }
    }

    struct held {
        storage a[NA], b[NB];
    };
    TS_DEVICE void fetch(const ts_tile &t, int32_t panel, held &h)
    {
#pragma unroll
        for (int i = 0; i < NA; i++) {
            const uint32_t e = (uint32_t)(i * THREADS + ts_thread());
            const int row = (int)(t.a_by_term ? e / BK : e % BM), term = (int)(t.a_by_term ? e % BK : e / BM);
            h.a[i] = *reinterpret_cast<const storage *>((uintptr_t)(a_row()[row] + (t.affine ? term_bytes<true>(t, panel, term, a_term(), t.a_step) : term_bytes<false>(t, panel, term, a_term(), t.a_step))));
        }
#pragma unroll
        for (int i = 0; i < NB; i++) {
            const uint32_t e = (uint32_t)(i * THREADS + ts_thread());
            const int row = (int)(t.b_by_term ? e / BK : e % BN), term = (int)(t.b_by_term ? e % BK : e / BN);
            h.b[i] = *reinterpret_cast<const storage *>((uintptr_t)(b_row()[row] + (t.affine ? term_bytes<true>(t, panel, term, b_term(), t.b_step) : term_bytes<false>(t, panel, term, b_term(), t.b_step))));
        }
    }
    TS_DEVICE void place(const ts_tile &t, int32_t panel, const held &h)
    {
        left_type *to_a = panel_a(panel & 1);
        right_type *to_b = panel_b(panel & 1);
#pragma unroll
        for (int i = 0; i < NA; i++) {
            const uint32_t e = (uint32_t)(i * THREADS + ts_thread());
            const int row = (int)(t.a_by_term ? e / BK : e % BM), term = (int)(t.a_by_term ? e % BK : e / BM);
            to_a[term * PITCH_A + row] = M::stage_left(h.a[i], t.conjugate_a);
        }
#pragma unroll
        for (int i = 0; i < NB; i++) {
            const uint32_t e = (uint32_t)(i * THREADS + ts_thread());
            const int row = (int)(t.b_by_term ? e / BK : e % BN), term = (int)(t.b_by_term ? e % BK : e / BN);
            to_b[term * PITCH_B + row] = M::stage_right(h.b[i], t.conjugate_b);
        }
    }

    static_assert(TM % PASSES == 0 && PART_BYTES <= PASSES * ROOM, "a part fits");
    /* Row of accumulator i within its part, and back: parts take TM / PASSES consecutive accumulators of every thread. */
    TS_DEVICE int part_row_of(int i)
    {
        const uint32_t warp = (uint32_t)ts_thread() / 32, lane = (uint32_t)ts_thread() % 32;
        return (int)((warp % WARPS_M * 4 + lane / 8) * (TM / PASSES)) + i % (TM / PASSES);
    }
    TS_DEVICE int row_of_part(int part_row, int pass)
    {
        int i = pass * (TM / PASSES) + part_row % (TM / PASSES), rest = part_row / (TM / PASSES);
        return rest / 4 * (4 * TM) + i / VA * (4 * VA) + rest % 4 * VA + i % VA;
    }
    /* Rows and columns of this thread's accumulator (i, j). */
    TS_DEVICE int row_of(int i)
    {
        const uint32_t warp = (uint32_t)ts_thread() / 32, lane = (uint32_t)ts_thread() % 32;
        return (int)(warp % WARPS_M * (4 * TM) + lane / 8 * VA) + i / VA * (4 * VA) + i % VA;
    }
    TS_DEVICE int column_of(int j)
    {
        const uint32_t warp = (uint32_t)ts_thread() / 32, lane = (uint32_t)ts_thread() % 32;
        return (int)(warp / WARPS_M * (8 * TN) + lane % 8 * VB) + j / VB * (8 * VB) + j % VB;
    }

    struct sums {
        typename M::sum at[TM][TN / M::pack];
        int64_t index[Track == 1 ? TM : 1][Track == 1 ? TN : 1];
    };
    struct fragment {
        left_type a[TM];
        right_type b[TN];
    };
    /* pa, pb: where this thread's rows and columns begin. */
    TS_DEVICE void read(fragment &f, const left_type *pa, const right_type *pb, int term)
    {
#pragma unroll
        for (int g = 0; g < GA; g++) {
            ts_read_vector<left_type, VA>(pa + term * PITCH_A + g * (4 * VA), f.a + g * VA);
        }
#pragma unroll
        for (int g = 0; g < GB; g++) {
            ts_read_vector<right_type, VB>(pb + term * PITCH_B + g * (8 * VB), f.b + g * VB);
        }
    }
    TS_DEVICE void multiply(sums &s, const fragment &f, int64_t term, const ts_context &context)
    {
#pragma unroll
        for (int i = 0; i < TM; i++) {
#pragma unroll
            for (int j = 0; j < TN / M::pack; j++) {
                if constexpr (Track == 1) {
                    value x = P::product(f.a[i], f.b[j], context.modulus);
                    bool better = P::better(x, s.at[i][j].best);
                    s.at[i][j].best = better ? x : s.at[i][j].best;
                    s.index[i][j] = better ? term : s.index[i][j];
                } else if constexpr (M::pack == 1) {
                    M::pair(s.at[i][j], f.a[i], f.b[j], context);
                } else {
                    typename ts_word_of<M::pack>::type word;
                    memcpy(&word, f.b + j * M::pack, sizeof word);
                    M::pair(s.at[i][j], f.a[i], word, context);
                }
            }
        }
    }
    template <int N> struct ts_word_of {
        typedef uint32_t type;
    };
    /* Fragments are read one term ahead of their use. */
    TS_DEVICE void compute(sums &s, int stage, int64_t first_term, int32_t terms, const ts_context &context)
    {
        const left_type *pa = panel_a(stage) + row_of(0);
        const right_type *pb = panel_b(stage) + column_of(0);
        fragment f[2];
        if (terms == BK) {
            read(f[0], pa, pb, 0);
#pragma unroll 1
            for (int part = 0; part < BK; part += UNROLL) {
#pragma unroll
                for (int term = 0; term < UNROLL; term++) {
                    /* The read past the last term is of other shared memory, and not used. */
                    if (UNROLL < BK || term + 1 < BK) {
                        read(f[(term + 1) & 1], pa, pb, term + 1);
                    }
                    multiply(s, f[term & 1], first_term + part + term, context);
                }
                pa += UNROLL * PITCH_A;
                pb += UNROLL * PITCH_B;
            }
        } else {
#pragma unroll 1
            for (int term = 0; term < terms; term++) {
                read(f[0], pa, pb, term);
                multiply(s, f[0], first_term + term, context);
            }
        }
    }

    /* Track 2. While summing, a thread only notes in which interval of panels its accumulators last rose: old maxima and
     * the intervals' numbers (bytes) lie in shared memory, as registers are short. */
    TS_DEVICE value *found_best(void) { return reinterpret_cast<value *>(panels_at() + ROOM + SLACK / 16 * 16 + 16); }
    TS_DEVICE unsigned char *found_interval(void) { return reinterpret_cast<unsigned char *>(found_best() + BM * BN); }
    TS_DEVICE void note(const sums &s, uint32_t interval)
    {
        if constexpr (Track == 2) {
            static_assert(TN % 4 == 0 && VB % 4 == 0, "intervals are kept by fours");
            value *best = found_best() + row_of(0) * BN + column_of(0);
            unsigned char *number = found_interval() + row_of(0) * BN + column_of(0);
#pragma unroll
            for (int i = 0; i < TM; i++) {
#pragma unroll
                for (int j = 0; j < TN; j += 4) {
                    const int at = (i / VA * (4 * VA) + i % VA) * BN + j / VB * (8 * VB) + j % VB;
                    uint32_t numbers = *reinterpret_cast<uint32_t *>(number + at), mask = 0;
                    value old[4];
                    ts_vector<value, 4> next;
                    ts_read_vector<value, 4>(best + at, old);
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const value now = s.at[i][j + k].best;
                        bool rose = P::add_op == ts_op_max ? now > old[k] : now < old[k];
                        mask |= rose ? 0xffu << (k * 8) : 0u;
                        next.at[k] = now;
                    }
                    *reinterpret_cast<ts_vector<value, 4> *>(best + at) = next;
                    *reinterpret_cast<uint32_t *>(number + at) = (numbers & ~mask) | (interval & mask);
                }
            }
        }
    }

    /* What is read in place of a row past the end: a valid one, and for wide reads one at the same place in its group. */
    TS_DEVICE int64_t spare_row(bool wide, int row) { return wide ? row % (16 / (int)sizeof(storage)) : 0; }

    template <typename Step> TS_DEVICE void walk(const ts_tile &t, int32_t panels, const Step &step)
    {
        fill(t, 0);
        ts_sync();
        if constexpr (M::raw) {
            for (int i = 0; i < STAGES - 1; i++) {
                if (i < panels) {
                    issue(t, i, i);
                    fill_next(t, i);
                }
                ts_copy_commit();
            }
            int stage = 0, next = STAGES - 1;
#pragma unroll 1
            for (int32_t panel = 0; panel < panels; panel++) {
                ts_copy_wait<STAGES - 2>();
                ts_sync();
                if (panel + STAGES - 1 < panels) {
                    issue(t, panel + STAGES - 1, next);
                    fill_next(t, panel + STAGES - 1);
                }
                ts_copy_commit();
                step(panel, stage);
                stage = stage + 1 == STAGES ? 0 : stage + 1;
                next = next + 1 == STAGES ? 0 : next + 1;
            }
        } else {
            held h;
            fetch(t, 0, h);
            place(t, 0, h);
            fill_next(t, 0);
            for (int32_t panel = 0; panel < panels; panel++) {
                ts_sync();
                if (panel + 1 < panels) {
                    fetch(t, panel + 1, h);
                    fill_next(t, panel + 1);
                }
                step(panel, (panel & 1));
                if (panel + 1 < panels) {
                    place(t, panel + 1, h);
                }
            }
        }
    }

    TS_DEVICE void run(const ts_cuda_contract &p)
    {
        ts_tile t;
        const ts_cuda_mode *modes = ts_mode_table(p.modes);
        const ts_cuda_mode *left_modes = modes + p.batch_count, *right_modes = left_modes + p.left_count;
        const bool accumulate = ts_switched_on(p.accumulate);
        const ts_context context = ts_make_context(p.modulus);
        storage *c = reinterpret_cast<storage *>(ts_address(p.c));
        char *w = Track != 0 ? ts_address(p.w) : nullptr;
        const int64_t a = (int64_t)(uintptr_t)ts_address(p.a), b = (int64_t)(uintptr_t)ts_address(p.b);
        t.sum_modes = right_modes + p.right_count;
        t.sum_count = p.sum_count;
        t.wide = p.modes.wide;
        t.conjugate_a = p.conjugate_a;
        t.conjugate_b = p.conjugate_b;
        t.a_by_term = p.sum_count > 0 && (p.left_count == 0 || ts_magnitude(t.sum_modes[p.sum_count - 1].a) <
                                                                   ts_magnitude(left_modes[p.left_count - 1].a));
        t.b_by_term = p.sum_count > 0 && (p.right_count == 0 || ts_magnitude(t.sum_modes[p.sum_count - 1].b) <
                                                                    ts_magnitude(right_modes[p.right_count - 1].b));
        t.a_wide = M::raw && sizeof(storage) < 16 &&
                   ts_wide_rows<true>(p, modes, ts_address(p.a), p.batch_count, p.left_count,
                                      p.batch_count + p.left_count + p.right_count, (int32_t)sizeof(storage));
        t.b_wide = M::raw && sizeof(storage) < 16 &&
                   ts_wide_rows<false>(p, modes, ts_address(p.b), p.batch_count + p.left_count, p.right_count,
                                       p.batch_count + p.left_count + p.right_count, (int32_t)sizeof(storage));
        for (int64_t item = ts_block(); item < p.tile_count; item += ts_blocks()) {
            const ts_contract_item place = ts_contract_item_of(p, item);
            const int32_t panels = (int32_t)((place.last - place.first + BK - 1) / BK); /* 2^31 of them are years of work */
            const ts_cuda_offsets base = ts_offsets_of(modes, p.batch_count, p.modes.wide, place.batch);
            t.first = place.first;
            t.last = place.last;
            t.terms = (int32_t)(place.last - place.first);
            t.affine = p.sum_count == 1 && place.first == 0 && place.last < ((int64_t)1 << 30) &&
                       ts_magnitude(t.sum_modes[0].a) < ((int64_t)1 << 27) && ts_magnitude(t.sum_modes[0].b) < ((int64_t)1 << 27);
            t.a_step = t.affine ? (int32_t)t.sum_modes[0].a * (int32_t)sizeof(storage) : 0;
            t.b_step = t.affine ? (int32_t)t.sum_modes[0].b * (int32_t)sizeof(storage) : 0;
            ts_sync(); /* the tables of the item before are no longer read */
            for (int i = ts_thread(); i < BM; i += THREADS) {
                int64_t row = place.left_tile * BM + i;
                ts_cuda_offsets offsets = ts_offsets_of(left_modes, p.left_count, p.modes.wide, row < p.left ? row : spare_row(t.a_wide, i));
                a_row()[i] = a + (base.a + offsets.a) * (int64_t)sizeof(storage);
                c_row()[i] = row < p.left ? base.c + offsets.c : INT64_MIN;
                w_row()[i] = base.w + offsets.w;
            }
            for (int i = ts_thread(); i < BN; i += THREADS) {
                int64_t column = place.right_tile * BN + i;
                ts_cuda_offsets offsets =
                    ts_offsets_of(right_modes, p.right_count, p.modes.wide, column < p.right ? column : spare_row(t.b_wide, i));
                b_row()[i] = b + (base.b + offsets.b) * (int64_t)sizeof(storage);
                c_column()[i] = column < p.right ? offsets.c : INT64_MIN;
                w_column()[i] = offsets.w;
            }
            sums s;
#pragma unroll
            for (int i = 0; i < TM; i++) {
#pragma unroll
                for (int j = 0; j < TN / M::pack; j++) {
                    M::start(s.at[i][j]);
                    if constexpr (Track == 1) {
                        s.index[i][j] = place.first;
                    }
                }
            }
            /* Numbers of intervals are bytes, so long sums have intervals of several panels. */
            const int32_t per_interval = (panels + 255) / 256;
            if (panels > 0) {
                int32_t inside = 0;
                uint32_t interval = 0; /* four times in a word */
                if constexpr (Track == 2) { /* each thread its own, so no barrier */
#pragma unroll 1
                    for (int i = 0; i < TM; i++) {
#pragma unroll 1
                        for (int j = 0; j < TN; j++) {
                            int at = (row_of(0) + i / VA * (4 * VA) + i % VA) * BN + column_of(0) + j / VB * (8 * VB) + j % VB;
                            found_best()[at] = P::zero();
                            found_interval()[at] = 0;
                        }
                    }
                }
                walk(t, panels, [&](int32_t panel, int stage) {
                    int64_t left_over = place.last - place.first - (int64_t)panel * BK;
                    compute(s, stage, place.first + (int64_t)panel * BK, left_over < BK ? (int32_t)left_over : BK, context);
                    if constexpr (Track == 2) {
                        if (++inside == per_interval || panel + 1 == panels) {
                            note(s, interval);
                            interval += 0x01010101u;
                            inside = 0;
                        }
                    }
                });
            } else {
                ts_sync();
            }
            if constexpr (Track == 2) {
                find(t, p, place, panels, per_interval, w, context);
            }
            /* Through shared memory, a part of the rows at a time, so that neighbouring threads store neighbouring
             * columns and the code that stores is there once. */
            value *results = reinterpret_cast<value *>(panels_at());
            int64_t *indices = reinterpret_cast<int64_t *>(panels_at() + PART * BN * (int)sizeof(value));
            for (int pass = 0; pass < PASSES; pass++) {
                ts_sync();
#pragma unroll
                for (int i = 0; i < TM; i++) {
#pragma unroll
                    for (int j = 0; j < TN; j++) {
                        if (i / (TM / PASSES) == pass) {
                            int at = part_row_of(i) * BN + column_of(j);
                            results[at] = M::result(s.at[i][j / M::pack], j % M::pack, context);
                            if constexpr (Track == 1) {
                                indices[at] = s.index[i][j];
                            }
                        }
                    }
                }
                ts_sync();
#pragma unroll 1
                for (int at = ts_thread(); at < PART * BN; at += THREADS) {
                    int row = row_of_part(at / BN, pass), column = at % BN;
                    if (c_row()[row] != INT64_MIN && c_column()[column] != INT64_MIN) {
                        if (p.splits > 1) {
                            int64_t number = (place.batch * p.left + place.left_tile * BM + row) * p.right +
                                             place.right_tile * BN + column;
                            int64_t to = place.split * (p.batch * p.left * p.right) + number;
                            reinterpret_cast<value *>((uintptr_t)p.partial)[to] = results[at];
                            if constexpr (Track == 1) {
                                reinterpret_cast<int64_t *>((uintptr_t)p.partial_w)[to] = indices[at];
                            }
                        } else {
                            ts_put<P>(c + (c_row()[row] + c_column()[column]), results[at], accumulate, context);
                            if constexpr (Track == 1) {
                                int64_t index = p.sum == 0 ? -1 : ts_settled_winner<P>(P::finish(results[at]), indices[at]);
                                ts_put_winner(w, w_row()[row] + w_column()[column], index, p.winner_bytes);
                            }
                        }
                    }
                }
            }
        }
    }

    /* Track 2, afterwards: walk the panels again and look, for the results whose interval this is, for the first term
     * equal to the best. Eight lanes look at one result, four results of a warp at a time. What is found takes the place
     * of the best value in shared memory, and is stored from there along memory. */
    TS_DEVICE void set_found(int at, int32_t index)
    {
        value bits;
        memcpy(&bits, &index, 4);
        found_best()[at] = bits;
    }
    TS_DEVICE void find(const ts_tile &t, const ts_cuda_contract &p, const ts_contract_item &place, int32_t panels,
                        int32_t per_interval, char *w, const ts_context &context)
    {
        if constexpr (Track == 2) {
            static_assert(sizeof(value) == 4 && BM * BN / THREADS == 32 && BK % 8 == 0, "32 results a lane, a bit each");
            const uint32_t lane = (uint32_t)ts_thread() % 32, warp = (uint32_t)ts_thread() / 32, group = lane / 8;
            uint32_t open = 0, odd = 0; /* results not found yet; those that are NaN, which may be anywhere */
            ts_sync();
#pragma unroll 1
            for (int bit = 0; bit < 32; bit++) {
                const int at = result_of(warp, lane, bit);
                const value best = found_best()[at];
                const bool here = c_row()[at / BN] != INT64_MIN && c_column()[at % BN] != INT64_MIN;
                if (panels > 0 && here && !(p.splits == 1 && ts_same(P::finish(best), P::zero()))) {
                    open |= 1u << bit;
                    odd |= (ts_is_not_a_number(best) ? 1u : 0u) << bit;
                } else {
                    set_found(at, 0); /* where the result is zero so are all terms */
                }
            }
            if (panels > 0) {
                ts_sync();
                walk(t, panels, [&](int32_t panel, int stage) {
                    const left_type *pa = panel_a(stage);
                    const right_type *pb = panel_b(stage);
                    const int64_t left_over = place.last - place.first - (int64_t)panel * BK;
                    const int32_t terms = left_over < BK ? (int32_t)left_over : BK;
                    const uint32_t interval = (uint32_t)(panel / per_interval) * 0x01010101u;
                    const uint32_t *numbers = reinterpret_cast<const uint32_t *>(found_interval()) + warp * 256 + lane;
                    uint32_t match = 0;
#pragma unroll
                    for (int quad = 0; quad < 8; quad++) {
                        const uint32_t x = numbers[quad * 32] ^ interval;
                        const uint32_t same = ~(((x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | x | 0x7f7f7f7fu); /* 0x80 per equal byte */
                        match |= ((same >> 7) * 0x01020408u >> 24) << (quad * 4);
                    }
                    match = (match | odd) & open;
                    uint32_t lanes = ts_ballot(match != 0);
                    while (lanes != 0) {
                        const uint32_t mine = lanes >> (group * 8) & 0xffu;
                        const uint32_t leader = mine != 0 ? group * 8 + (uint32_t)ts_first_lane(mine) : lane;
                        const int bit = ts_first_lane(ts_shuffle(match, (int32_t)leader)) & 31;
                        const int at = result_of(warp, leader, bit);
                        const value wanted = found_best()[at];
                        int32_t hit = -1;
#pragma unroll
                        for (int32_t from = 0; from < BK; from += 8) {
                            const int32_t term = from + (int32_t)(lane % 8);
                            const value x = P::product(pa[term * PITCH_A + at / BN], pb[term * PITCH_B + at % BN], context.modulus);
                            const bool same = term < terms && (x == wanted || (ts_is_not_a_number(x) && ts_is_not_a_number(wanted)));
                            const uint32_t hits = ts_ballot(same) >> (group * 8) & 0xffu;
                            hit = hit < 0 && hits != 0 ? from + ts_first_lane(hits) : hit;
                        }
                        if (mine != 0 && lane == leader) {
                            match &= match - 1;
                            if (hit >= 0) {
                                open &= ~(1u << bit);
                                set_found(at, panel * BK + hit);
                            }
                        }
                        lanes = ts_ballot(match != 0);
                    }
                });
            }
#pragma unroll 1
            for (int bit = 0; bit < 32; bit++) {
                if ((open >> bit & 1u) != 0) {
                    set_found(result_of(warp, lane, bit), 0); /* no term rose above zero of the semiring: the first */
                }
            }
            ts_sync();
#pragma unroll 1
            for (int at = ts_thread(); at < BM * BN; at += THREADS) {
                const int row = at / BN, column = at % BN;
                if (c_row()[row] != INT64_MIN && c_column()[column] != INT64_MIN) {
                    int32_t index;
                    memcpy(&index, &found_best()[at], 4);
                    if (p.splits > 1) {
                        int64_t result = (place.batch * p.left + place.left_tile * BM + row) * p.right + place.right_tile * BN + column;
                        reinterpret_cast<int64_t *>((uintptr_t)p.partial_w)[place.split * (p.batch * p.left * p.right) + result] =
                            place.first + index;
                    } else {
                        ts_put_winner(w, w_row()[row] + w_column()[column], p.sum == 0 ? -1 : place.first + index, p.winner_bytes);
                    }
                }
            }
        }
    }
    /* The results that a lane looks after lie by fours in words of interval numbers, without bank conflicts. */
    TS_DEVICE int result_of(uint32_t warp, uint32_t lane, int bit)
    {
        return (int)((warp * 256 + (uint32_t)bit / 4 * 32 + lane) * 4) + bit % 4;
    }
};

#endif
