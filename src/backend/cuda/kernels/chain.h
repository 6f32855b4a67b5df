/* A huge tensor against tiny ones, several steps in one pass: see ts_cuda_chain in abi.h. */
#ifndef TS_CUDA_CHAIN_H
#define TS_CUDA_CHAIN_H

#include "locate.h"
#include "pair.h"
#include "vector.h"

template <typename P> struct ts_chain {
    typedef typename P::storage storage;
    typedef typename P::value value;
    static const int V = sizeof(storage) >= 16 ? 1 : sizeof(storage) >= 8 ? 2 : 4; /* results of a unit along the run */
    static const int W = 16 / (int)sizeof(storage);                               /* elements of a wide access */

    /* Where a tile begins: positions in a, along the mode that is cut (how much of it is there), in every c. */
    static const int PLACES = 2 + TS_CUDA_CHAIN_STEPS;
    TS_DEVICE void base_of(const ts_cuda_chain_table &t, int64_t tile, int64_t *base)
    {
        const ts_cuda_chain_outer *all =
            reinterpret_cast<const ts_cuda_chain_outer *>(reinterpret_cast<const unsigned char *>(&t) + t.outer);
        base[0] = 0;
        base[1] = t.cut_piece;
#pragma unroll 1
        for (int i = 2; i < PLACES; i++) {
            base[i] = 0;
        }
#pragma unroll 1
        for (int32_t k = t.outer_count - 1; k >= 0; k--) {
            const ts_cuda_chain_outer &outer = all[k];
            const int64_t next = t.wide ? ts_cuda_divide_wide(tile, outer.extent)
                                        : (int64_t)(((uint64_t)(uint32_t)tile * outer.magic) >> outer.shift);
            const int64_t position = tile - next * outer.extent;
            base[0] += position * outer.a;
            if (outer.cut) {
                const int64_t left = t.cut_extent - position * t.cut_piece;
                base[1] = left < t.cut_piece ? left : t.cut_piece;
            }
#pragma unroll 1
            for (int i = 0; i < TS_CUDA_CHAIN_STEPS; i++) {
                base[2 + i] += position * outer.c[i];
            }
            tile = next;
        }
    }

    TS_DEVICE void copy_one(storage *to, const storage *from)
    {
        if constexpr (sizeof(storage) == 4) {
            ts_copy_4(to, from);
        } else if constexpr (sizeof(storage) == 8) {
            ts_copy_8(to, from);
        } else {
            *to = *from;
        }
    }
    /* An entry of a list, in one access. */
    template <typename T> TS_DEVICE T entry_of(const T *all, int32_t i)
    {
        T entry;
        const ts_vector<uint32_t, 4> raw = reinterpret_cast<const ts_vector<uint32_t, 4> *>(all)[i];
        memcpy(&entry, &raw, sizeof entry);
        return entry;
    }
    /* Whole: no place is past the end of the mode that is cut. */
    template <bool Whole>
    TS_DEVICE void load_places(const ts_cuda_chain_place *all, const ts_cuda_chain_list &list, const ts_cuda_chain_place &own,
                               const storage *from, int32_t limit, storage *to)
    {
        const int32_t count = list.count, apart = list.apart;
        if (list.width == 1) {
#pragma unroll 4
            for (int32_t i = own.first; i < count; i += apart) {
                const ts_cuda_chain_place place = entry_of(all, i);
                if (Whole || own.cut + place.cut < limit) {
                    copy_one(to + place.shared, from + place.global);
                }
            }
        } else {
#pragma unroll 4
            for (int32_t i = own.first; i < count; i += apart) {
                const ts_cuda_chain_place place = entry_of(all, i);
                if (Whole || own.cut + place.cut < limit) {
                    ts_copy_16(to + place.shared, from + place.global);
                }
            }
        }
    }
    TS_DEVICE void load(const unsigned char *shared, const ts_cuda_chain_list &list, const ts_cuda_chain_place &own,
                        const storage *from, int32_t limit, int32_t piece, bool aligned, storage *to)
    {
        const int32_t count = list.count, apart = list.apart;
        const ts_cuda_chain_place *all = reinterpret_cast<const ts_cuda_chain_place *>(shared + list.all);
        from += own.global;
        to += own.shared;
        if ((list.width == 1 || aligned) && limit >= piece) {
            load_places<true>(all, list, own, from, limit, to);
        } else if (list.width == 1 || aligned) {
            load_places<false>(all, list, own, from, limit, to);
        } else {
#pragma unroll 1
            for (int32_t i = own.first; i < count; i += apart) {
                const ts_cuda_chain_place place = all[i];
                for (int e = 0; e < W && own.cut + place.cut < limit; e++) {
                    copy_one(to + place.shared + e, from + place.global + e);
                }
            }
        }
        ts_copy_commit();
    }

    template <bool Accumulate>
    TS_DEVICE void put(storage *to, storage x, const ts_context &context)
    {
        *to = Accumulate ? P::store(P::finish(P::add(P::load(*to), P::load(x), context.modulus))) : x;
    }
    template <bool Accumulate>
    TS_DEVICE void store(const unsigned char *shared, const ts_cuda_chain_list &list, const ts_cuda_chain_place &own, storage *to,
                         int32_t limit, bool aligned, const storage *from, const ts_context &context)
    {
        const int32_t count = list.count, apart = list.apart;
        const ts_cuda_chain_place *all = reinterpret_cast<const ts_cuda_chain_place *>(shared + list.all);
        to += own.global;
        from += own.shared;
        if (list.width == 1) {
#pragma unroll 4
            for (int32_t i = own.first; i < count; i += apart) {
                const ts_cuda_chain_place place = entry_of(all, i);
                if (own.cut + place.cut < limit) {
                    put<Accumulate>(to + place.global, from[place.shared], context);
                }
            }
        } else {
#pragma unroll 2
            for (int32_t i = own.first; i < count; i += apart) {
                const ts_cuda_chain_place place = entry_of(all, i);
                if (own.cut + place.cut < limit) {
                    if (!Accumulate && aligned) {
                        *reinterpret_cast<ts_vector<storage, W> *>(to + place.global) =
                            *reinterpret_cast<const ts_vector<storage, W> *>(from + place.shared);
                    } else {
                        for (int e = 0; e < W; e++) {
                            put<Accumulate>(to + place.global + e, from[place.shared + e], context);
                        }
                    }
                }
            }
        }
    }

    /* One step of a tile. A unit is V results along the run for each of so many columns, all terms of them; terms are read
     * several at a time, of which there is a multiple. Everything is copied to registers, for stores could change it.
     * Small: a unit has just Columns and Terms, so that nothing is a loop. */
    template <int Columns, int Terms, bool Small>
    TS_DEVICE void step(const unsigned char *shared, const ts_cuda_chain_step &s, const ts_cuda_chain_unit &own,
                        const value *coefficients, const storage *in, storage *out, const ts_context &context)
    {
        const ts_cuda_chain_unit *all = reinterpret_cast<const ts_cuda_chain_unit *>(shared + s.units.all);
        const int32_t *terms = reinterpret_cast<const int32_t *>(shared + s.term_places);
        const int32_t *places = reinterpret_cast<const int32_t *>(shared + s.column_places);
        const int32_t count = s.units.count, apart = s.units.apart, columns = Small ? Columns : s.columns_each, padded = s.padded;
        const int32_t term_count = Small ? Terms : s.terms;
        const bool full = columns % Columns == 0;
        int32_t at[Terms];
        in += own.in;
        out += own.out;
        coefficients += s.first_coefficient + own.coefficient;
        ts_read_vector<int32_t, Terms>(terms, at);
#pragma unroll 1
        for (int32_t i = own.first; i < count; i += apart) {
            const ts_cuda_chain_unit unit = entry_of(all, i);
            const storage *from = in + unit.in;
#pragma unroll 1
            for (int32_t column = 0; column < columns; column += Columns) {
                const value *b = coefficients + unit.coefficient + column;
                ts_running<P> sum[Columns][V];
#pragma unroll
                for (int n = 0; n < Columns; n++) {
#pragma unroll
                    for (int v = 0; v < V; v++) {
                        ts_running<P>::start(sum[n][v]);
                    }
                }
#pragma unroll 1
                for (int32_t term = 0; term < term_count; term += Terms) {
                    storage x[Terms][V];
                    if (term_count > Terms) {
                        ts_read_vector<int32_t, Terms>(terms + term, at);
                    }
#pragma unroll
                    for (int k = 0; k < Terms; k++) {
                        ts_read_vector<storage, V>(from + at[k], x[k]);
                    }
#pragma unroll
                    for (int k = 0; k < Terms; k++) {
                        value y[Columns];
                        ts_read_vector<value, Columns>(b, y);
                        b += padded;
#pragma unroll
                        for (int n = 0; n < Columns; n++) {
#pragma unroll
                            for (int v = 0; v < V; v++) {
                                ts_running<P>::pair(sum[n][v], P::load(x[k][v]), y[n], context);
                            }
                        }
                    }
                }
#pragma unroll
                for (int n = 0; n < Columns; n++) {
                    if (full || column + n < columns) {
                        ts_vector<storage, V> result;
#pragma unroll
                        for (int v = 0; v < V; v++) {
                            result.at[v] = P::store(P::finish(ts_running<P>::result(sum[n][v], context)));
                        }
                        *reinterpret_cast<ts_vector<storage, V> *>(out + unit.out + places[column + n]) = result;
                    }
                }
            }
        }
    }
    template <int Columns, bool KnowSmall>
    TS_DEVICE void step_of(const unsigned char *shared, const ts_cuda_chain_step &s, const ts_cuda_chain_unit &own,
                           const value *coefficients, const storage *in, storage *out, const ts_context &context)
    {
        const bool small = KnowSmall && s.columns_each == Columns;
        if (sizeof(value) <= 4 && small && s.terms == 4) {
            step<Columns, 4, KnowSmall>(shared, s, own, coefficients, in, out, context);
        } else if (sizeof(value) <= 4 && small && s.terms == 2) {
            step<Columns, 2, KnowSmall>(shared, s, own, coefficients, in, out, context);
        } else if (sizeof(value) <= 8 && s.terms % 4 == 0) {
            step<Columns, 4, false>(shared, s, own, coefficients, in, out, context);
        } else if (sizeof(value) <= 8 && s.terms % 2 == 0) {
            step<Columns, 2, false>(shared, s, own, coefficients, in, out, context);
        } else {
            step<Columns, 1, false>(shared, s, own, coefficients, in, out, context);
        }
    }
    /* A thread's own places: in device memory, so fetched before the barrier that they are needed behind. */
    TS_DEVICE ts_cuda_chain_unit unit_of(const unsigned char *table, const ts_cuda_chain_list &list)
    {
        return reinterpret_cast<const ts_cuda_chain_unit *>(table + list.own)[ts_thread()];
    }
    TS_DEVICE ts_cuda_chain_place place_of(const unsigned char *table, const ts_cuda_chain_list &list)
    {
        return reinterpret_cast<const ts_cuda_chain_place *>(table + list.own)[ts_thread()];
    }

    TS_DEVICE void run(const ts_cuda_chain &p)
    {
        const unsigned char *table = reinterpret_cast<const unsigned char *>((uintptr_t)p.table);
        unsigned char *shared = ts_shared();
        for (uint32_t i = (uint32_t)ts_thread() * 16; i < p.copied; i += (uint32_t)ts_threads() * 16) {
            *reinterpret_cast<ts_vector<uint64_t, 2> *>(shared + i) = *reinterpret_cast<const ts_vector<uint64_t, 2> *>(table + i);
        }
        ts_sync();
        const ts_cuda_chain_table &t = *reinterpret_cast<const ts_cuda_chain_table *>(shared);
        int64_t *bases = reinterpret_cast<int64_t *>(shared + p.bases);
        value *coefficients = reinterpret_cast<value *>(shared + p.coefficients);
        storage *in = reinterpret_cast<storage *>(shared + p.in);
        const ts_context context = ts_make_context(p.modulus);
        const bool accumulate = ts_switched_on(p.accumulate);
        const storage *a = reinterpret_cast<const storage *>(ts_address(p.a));
        const bool a_aligned = ((uintptr_t)a & 15u) == 0;
        const int64_t tiles = p.tile_count <= ts_block() ? 0 : (p.tile_count - ts_block() + ts_blocks() - 1) / ts_blocks();
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
            base_of(t, ts_block() + ts_thread() * ts_blocks(), bases + ts_thread() * PLACES);
        }
        ts_sync();
        const ts_cuda_chain_place own_load = place_of(table, t.load);
        ts_cuda_chain_unit own = unit_of(table, t.step[0].units);
        if (tiles > 0) {
            load(shared, t.load, own_load, a + bases[0], (int32_t)bases[1], t.cut_piece, a_aligned, in);
        }
#pragma unroll 1
        for (int64_t number = 0; number < tiles; number++) {
            const int64_t *base = bases + (number & (TS_CUDA_CHAIN_BASES - 1)) * PLACES;
            ts_copy_wait<0>();
            ts_sync(); /* nobody needs the places of earlier tiles any more */
            if (number % 32 == 0 && ts_thread() < 32 && number + 32 + ts_thread() < tiles) {
                const int64_t later = number + 32 + ts_thread();
                base_of(t, ts_block() + later * ts_blocks(), bases + (later & (TS_CUDA_CHAIN_BASES - 1)) * PLACES);
            }
#pragma unroll 1
            for (int32_t k = 0; k < p.steps; k++) {
                const ts_cuda_chain_step &s = t.step[k];
                storage *from = k == 0 ? in : reinterpret_cast<storage *>(shared + p.work[(k + 1) & 1]);
                storage *to = reinterpret_cast<storage *>(shared + p.work[k & 1]);
                if (s.padded == 2) {
                    step_of<2, false>(shared, s, own, coefficients, from, to, context);
                } else {
                    step_of<4, false>(shared, s, own, coefficients, from, to, context);
                }
                const ts_cuda_chain_place own_store = s.store.count > 0 ? place_of(table, s.store) : own_load;
                own = unit_of(table, t.step[k + 1 < p.steps ? k + 1 : 0].units);
                ts_sync();
                if (k == 0 && number + 1 < tiles) {
                    const int64_t *next = bases + ((number + 1) & (TS_CUDA_CHAIN_BASES - 1)) * PLACES;
                    load(shared, t.load, own_load, a + next[0], (int32_t)next[1], t.cut_piece, a_aligned, in);
                }
                if (s.store.count > 0) {
                    storage *c = reinterpret_cast<storage *>(ts_address(p.c[k]));
                    const bool aligned = ((uintptr_t)c & 15u) == 0;
                    if (accumulate && k + 1 == p.steps) {
                        store<true>(shared, s.store, own_store, c + base[2 + k], (int32_t)base[1], aligned, to, context);
                    } else {
                        store<false>(shared, s.store, own_store, c + base[2 + k], (int32_t)base[1], aligned, to, context);
                    }
                }
            }
        }
    }
};

#endif
