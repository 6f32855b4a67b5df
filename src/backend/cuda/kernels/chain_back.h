/* The gradients of a chain's operands in one pass: see ts_cuda_chain_back in abi.h. */
#ifndef TS_CUDA_CHAIN_BACK_H
#define TS_CUDA_CHAIN_BACK_H

#include "chain.h"

template <typename P> struct ts_chain_back {
    typedef typename P::storage storage;
    typedef typename P::value value;
    typedef ts_chain<P> chain;
    static const int V = chain::V, PLACES = chain::PLACES;
    static const int SHARE = ts_cuda_back_share(sizeof(value)); /* sums of a thread per step */
    static const int PITCH = SHARE + 1;                         /* so that threads do not meet in one bank */
    static const int LANES = 16;                                /* that are added by one thread in the end */

    /* Elements of a unit beyond the tile's end count as 0, whatever the operands are. */
    TS_DEVICE void cover(const int16_t *cuts, int32_t place, int32_t limit, value *x)
    {
#pragma unroll
        for (int v = 0; v < V; v++) {
            x[v] = cuts[place + v] < limit ? x[v] : P::zero();
        }
    }
    TS_DEVICE void read(const storage *from, value *x)
    {
        storage raw[V];
        ts_read_vector<storage, V>(from, raw);
#pragma unroll
        for (int v = 0; v < V; v++) {
            x[v] = P::load(raw[v]);
        }
    }

    /* One step backwards: a thread has S terms and all columns of one place of the batch. x: what the step read, which
     * gives way to its cotangent, unless that goes to d right away; g: the cotangent of the step's result;
     * sums [S][N] += conj(x) g. Exact: there are N columns, and no unit is beyond the tile's end. */
    template <int S, int N, bool Exact>
    TS_DEVICE void step(const ts_cuda_back_own &own, const unsigned char *shared, const ts_cuda_chain_step &s,
                        const ts_cuda_back_step &b, const value *coefficients, const int16_t *cuts, int32_t pitch,
                        int32_t limit, bool partial, storage *x, const storage *g, value *sums, storage *d, const ts_cuda_back_target &target)
    {
        const ts_cuda_chain_unit *all = reinterpret_cast<const ts_cuda_chain_unit *>(shared + b.units.all);
        const int32_t *places = reinterpret_cast<const int32_t *>(shared + s.column_places);
        const int32_t count = b.units.count, apart = b.units.apart, columns = s.columns, padded = s.padded;
        int32_t at[S];
#pragma unroll
        for (int k = 0; k < S; k++) {
            at[k] = own.in[k];
        }
        coefficients += s.first_coefficient + own.coefficient;
        g += own.out;
#pragma unroll 1
        for (int32_t i = own.first; i < count; i += apart) {
            const ts_cuda_chain_unit unit = chain::entry_of(all, i);
            const storage *from = g + unit.out;
            const int32_t place = !Exact && partial ? (at[0] + unit.in) % pitch : 0;
            value mine[S][V], sum[S][V];
#pragma unroll
            for (int k = 0; k < S; k++) {
                read(x + at[k] + unit.in, mine[k]);
                if (!Exact && partial) {
                    cover(cuts, place, limit, mine[k]);
                }
#pragma unroll
                for (int v = 0; v < V; v++) {
                    sum[k][v] = P::zero();
                }
            }
#pragma unroll
            for (int n = 0; n < N; n += 2) {
                if (Exact || n < columns) {
                    value other[2][V];
                    int32_t column[2];
                    ts_read_vector<int32_t, 2>(places + n, column);
                    read(from + column[0], other[0]);
                    read(from + (Exact || n + 1 < columns ? column[1] : column[0]), other[1]); /* the last one twice, times 0 */
                    if (!Exact && partial) {
                        cover(cuts, place, limit, other[0]);
                        cover(cuts, place, limit, other[1]);
                    }
                    if (!Exact && n + 1 >= columns) {
#pragma unroll
                        for (int v = 0; v < V; v++) {
                            other[1][v] = P::zero();
                        }
                    }
#pragma unroll
                    for (int k = 0; k < S; k++) {
                        value y[2];
                        ts_read_vector<value, 2>(coefficients + k * padded + n, y);
#pragma unroll
                        for (int two = 0; two < 2; two++) {
#pragma unroll
                            for (int v = 0; v < V; v++) {
                                ts_multiply_add(sum[k][v], other[two][v], ts_conjugated(y[two], 1));
                                ts_multiply_add(sums[k * N + n + two], ts_conjugated(mine[k][v], 1), other[two][v]);
                            }
                        }
                    }
                }
            }
#pragma unroll
            for (int k = 0; k < S; k++) {
                ts_vector<storage, V> result;
#pragma unroll
                for (int v = 0; v < V; v++) {
                    result.at[v] = P::store(P::finish(sum[k][v]));
                }
                if (d == nullptr) {
                    *reinterpret_cast<ts_vector<storage, V> *>(x + at[k] + unit.in) = result;
                } else if (Exact || !partial || cuts[place] < limit) {
                    *reinterpret_cast<ts_vector<storage, V> *>(d + (target.at[k] + unit.coefficient)) = result;
                }
            }
        }
    }
    template <int S, int N, typename... More> TS_DEVICE bool try_step(const ts_cuda_back_step &b, bool exact, More &&...more)
    {
        if constexpr (S * N <= SHARE) {
            if (b.terms_each == S && b.columns_each == N) {
                if (exact) {
                    step<S, N, true>(more...);
                } else {
                    step<S, N, false>(more...);
                }
                return true;
            }
        }
        return false;
    }

    /* A thread's own places lie in device memory: they are few bytes, so that the first cache has them. */
    TS_DEVICE ts_cuda_back_own own_of(const unsigned char *table, const ts_cuda_back_step &b)
    {
        ts_cuda_back_own own;
        const ts_vector<uint32_t, 4> raw = reinterpret_cast<const ts_vector<uint32_t, 4> *>(table + b.units.own)[ts_thread()];
        memcpy(&own, &raw, sizeof own);
        return own;
    }

    TS_DEVICE ts_cuda_back_target target_of(const unsigned char *table, uint32_t targets)
    {
        ts_cuda_back_target target;
        const ts_vector<uint32_t, 4> raw = reinterpret_cast<const ts_vector<uint32_t, 4> *>(table + targets)[ts_thread()];
        memcpy(&target, &raw, sizeof target);
        return target;
    }

    /* The sums of all threads with the same results, lanes in ascending order, sixteen by sixteen. */
    TS_DEVICE void finish(const ts_cuda_chain_step &s, const ts_cuda_back_step &b, value *room, const value *sums, value *partial)
    {
        const int32_t lanes = b.lanes, groups = (lanes + LANES - 1) / LANES, each = b.terms_each * s.columns;
        value *parts = room + ts_threads() * PITCH;
        ts_sync();
#pragma unroll
        for (int i = 0; i < SHARE; i++) {
            room[ts_thread() * PITCH + i] = sums[i];
        }
        ts_sync();
        for (int32_t i = ts_thread(); i < b.results * groups; i += ts_threads()) {
            const int32_t result = i / groups, first = i % groups * LANES, rest = result % each;
            const int32_t past = first + LANES < lanes ? first + LANES : lanes;
            const value *from = room + result / each * lanes * PITCH + rest / s.columns * b.columns_each + rest % s.columns;
            value sum = from[first * PITCH];
            for (int32_t lane = first + 1; lane < past; lane++) {
                sum = P::add(sum, from[lane * PITCH], 0);
            }
            parts[i] = sum;
        }
        ts_sync();
        for (int32_t result = ts_thread(); result < b.results; result += ts_threads()) {
            value sum = parts[result * groups];
            for (int32_t i = 1; i < groups; i++) {
                sum = P::add(sum, parts[result * groups + i], 0);
            }
            partial[ts_block() * b.results + result] = sum;
        }
    }

    TS_DEVICE void run(const ts_cuda_chain_back &p)
    {
        const unsigned char *table = reinterpret_cast<const unsigned char *>((uintptr_t)p.table);
        unsigned char *shared = ts_shared();
        for (uint32_t i = (uint32_t)ts_thread() * 16; i < p.copied; i += (uint32_t)ts_threads() * 16) {
            *reinterpret_cast<ts_vector<uint64_t, 2> *>(shared + i) = *reinterpret_cast<const ts_vector<uint64_t, 2> *>(table + i);
        }
        ts_sync();
        const ts_cuda_back_table &back = *reinterpret_cast<const ts_cuda_back_table *>(shared);
        const ts_cuda_chain_table &t = back.chain;
        const int16_t *cuts = reinterpret_cast<const int16_t *>(shared + back.cuts);
        int64_t *bases = reinterpret_cast<int64_t *>(shared + p.bases);
        value *coefficients = reinterpret_cast<value *>(shared + p.coefficients);
        const ts_context context = ts_make_context(0);
        const bool accumulate = ts_switched_on(p.accumulate);
        const storage *a = reinterpret_cast<const storage *>(ts_address(p.a));
        const storage *g = reinterpret_cast<const storage *>(ts_address(p.g));
        storage *d = reinterpret_cast<storage *>(ts_address(p.d));
        const bool a_aligned = ((uintptr_t)a & 15u) == 0, g_aligned = ((uintptr_t)g & 15u) == 0, d_aligned = ((uintptr_t)d & 15u) == 0;
        const int64_t tiles = p.tile_count <= ts_block() ? 0 : (p.tile_count - ts_block() + ts_blocks() - 1) / ts_blocks();
        const bool direct = p.wanted != 0 && back.targets != 0 && d_aligned && !accumulate;
        value sums[TS_CUDA_BACK_STEPS][SHARE];
#pragma unroll
        for (int k = 0; k < TS_CUDA_BACK_STEPS; k++) {
#pragma unroll
            for (int i = 0; i < SHARE; i++) {
                sums[k][i] = P::zero();
            }
        }
#pragma unroll 1
        for (int32_t k = 0; k < p.steps; k++) {
            const storage *b = reinterpret_cast<const storage *>(ts_address(p.b[k]));
            const int64_t *sources = reinterpret_cast<const int64_t *>(table + t.step[k].sources);
            for (int32_t i = ts_thread(); i < t.step[k].coefficients; i += ts_threads()) {
                const int64_t source = sources[i];
                coefficients[t.step[k].first_coefficient + i] = source == INT64_MIN ? P::zero() : P::load(b[source]);
            }
        }
        if (ts_thread() < 32 && ts_thread() < tiles) {
            chain::base_of(t, ts_block() + ts_thread() * ts_blocks(), bases + ts_thread() * PLACES);
        }
        ts_sync();
        const ts_cuda_chain_place own_load = chain::place_of(table, t.load), own_given = chain::place_of(table, back.given);
        if (tiles > 0) {
            chain::load(shared, t.load, own_load, a + bases[0], (int32_t)bases[1], t.cut_piece, a_aligned,
                        reinterpret_cast<storage *>(shared + p.in[0]));
            chain::load(shared, back.given, own_given, g + bases[2 + TS_CUDA_BACK_GIVEN], (int32_t)bases[1], t.cut_piece, g_aligned,
                        reinterpret_cast<storage *>(shared + p.given[0]));
        }
        int32_t side = 0;
#pragma unroll 1
        for (int64_t number = 0; number < tiles; number++) {
            const int64_t *base = bases + (number & (TS_CUDA_CHAIN_BASES - 1)) * PLACES;
            const int32_t limit = (int32_t)base[1];
            const bool partial = limit < t.cut_piece || back.padded != 0;
            storage *in = reinterpret_cast<storage *>(shared + (side == 0 ? p.in[0] : p.in[1]));
            storage *given = reinterpret_cast<storage *>(shared + (side == 0 ? p.given[0] : p.given[1]));
            ts_copy_wait<0>();
            ts_sync(); /* nobody needs the places of earlier tiles, or what lies in the other pair, any more */
            if (number % 32 == 0 && ts_thread() < 32 && number + 32 + ts_thread() < tiles) {
                const int64_t later = number + 32 + ts_thread();
                chain::base_of(t, ts_block() + later * ts_blocks(), bases + (later & (TS_CUDA_CHAIN_BASES - 1)) * PLACES);
            }
            side ^= 1;
            if (number + 1 < tiles) {
                const int64_t *next = bases + ((number + 1) & (TS_CUDA_CHAIN_BASES - 1)) * PLACES;
                chain::load(shared, t.load, own_load, a + next[0], (int32_t)next[1], t.cut_piece, a_aligned,
                            reinterpret_cast<storage *>(shared + (side == 0 ? p.in[0] : p.in[1])));
                chain::load(shared, back.given, own_given, g + next[2 + TS_CUDA_BACK_GIVEN], (int32_t)next[1], t.cut_piece, g_aligned,
                            reinterpret_cast<storage *>(shared + (side == 0 ? p.given[0] : p.given[1])));
            }
            /* What each step but the last makes, once more. */
#pragma unroll 1
            for (int32_t k = 0; k + 1 < p.steps; k++) {
                const ts_cuda_chain_step &s = t.step[k];
                const ts_cuda_chain_unit own = chain::unit_of(table, s.units);
                storage *from = k == 0 ? in : reinterpret_cast<storage *>(shared + p.inner[k - 1]);
                storage *to = reinterpret_cast<storage *>(shared + p.inner[k]);
                if (s.padded == 2) {
                    chain::template step_of<2, true>(shared, s, own, coefficients, from, to, context);
                } else {
                    chain::template step_of<4, true>(shared, s, own, coefficients, from, to, context);
                }
                ts_sync();
            }
#pragma unroll
            for (int k = TS_CUDA_BACK_STEPS - 1; k >= 0; k--) {
                if (k < p.steps) {
                    const ts_cuda_back_step &b = back.step[k];
                    const ts_cuda_back_own own = own_of(table, b);
                    const bool exact = t.step[k].columns == b.columns_each && !partial;
                    storage *to = k == 0 && direct ? d + base[2 + TS_CUDA_BACK_MADE] : nullptr;
                    const ts_cuda_back_target target = k == 0 && direct ? target_of(table, back.targets) : ts_cuda_back_target();
                    storage *x = k == 0 ? in : reinterpret_cast<storage *>(shared + p.inner[k > 0 ? k - 1 : 0]);
                    const storage *from = k + 1 == p.steps ? given : reinterpret_cast<const storage *>(shared + p.inner[k]);
#define TS_TRY(s, n) try_step<s, n>(b, exact, own, shared, t.step[k], b, coefficients, cuts, back.pitch, limit, partial, x, from, sums[k], to, target)
                    (void)(TS_TRY(4, 4) || TS_TRY(4, 2) || TS_TRY(2, 8) || TS_TRY(1, 16) || TS_TRY(2, 4) || TS_TRY(2, 2) ||
                           TS_TRY(1, 8) || TS_TRY(1, 4) || TS_TRY(1, 2));
#undef TS_TRY
                    if (k > 0 || !direct) {
                        ts_sync();
                    }
                }
            }
            if (p.wanted != 0 && !direct) {
                const ts_cuda_chain_place own_store = chain::place_of(table, back.store);
                if (accumulate) {
                    chain::template store<true>(shared, back.store, own_store, d + base[2 + TS_CUDA_BACK_MADE], limit,
                                                d_aligned, in, context);
                } else {
                    chain::template store<false>(shared, back.store, own_store, d + base[2 + TS_CUDA_BACK_MADE], limit,
                                                 d_aligned, in, context);
                }
            }
        }
#pragma unroll
        for (int k = 0; k < TS_CUDA_BACK_STEPS; k++) {
            if (k < p.steps && p.partial[k] != 0) {
                finish(t.step[k], back.step[k], reinterpret_cast<value *>(shared + p.in[0]), sums[k],
                       reinterpret_cast<value *>((uintptr_t)p.partial[k]));
            }
        }
    }
};

#endif
