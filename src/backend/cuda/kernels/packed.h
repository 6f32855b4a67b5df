/* Large products through packed panels (packed_abi.h): what is done once per element, or needs strides, or edges, is done
 * while packing, and what is left is the product itself. */
#ifndef TS_CUDA_PACKED_H
#define TS_CUDA_PACKED_H

#include "dense.h"
#include "locate.h"
#include "vector.h"
#include "winners.h"

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
    /* As `winners` wants them: rows of STEP terms, as they are. rows, count: those that there are. */
    TS_DEVICE void place_rows(int32_t width, int64_t rows, int32_t count, const storage *staged_at, storage *to)
    {
        const int V = 16 / (int)sizeof(storage);
#pragma unroll 1
        for (int32_t e = ts_thread(); e < width * STEP / V; e += TS_CUDA_THREADS) {
            const int32_t row = e / (STEP / V), first = e % (STEP / V) * V;
            ts_vector<storage, V> terms;
#pragma unroll
            for (int i = 0; i < V; i++) {
                terms.at[i] = row < rows && first + i < count ? staged_at[(first + i) * (width + 1) + row] : P::store(P::zero());
            }
            *reinterpret_cast<ts_vector<storage, V> *>(to + e * V) = terms;
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
        const bool through = by_term || side.rows_to != 0; /* shared memory */
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
        unit *to = reinterpret_cast<unit *>((uintptr_t)side.to) +
                   (place * (p.depth / D::terms) + first / D::terms) * (D::planes * width) / (second ? D::across : 1);
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
            if (through || by_blocks) {
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
            if (side.rows_to != 0) {
                place_rows(width, side.rows - tile * width, count, tile_at,
                           reinterpret_cast<storage *>((uintptr_t)side.rows_to) + (place * p.depth + term) * width);
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
                            x[i] = P::load(through ? tile_at[t * (width + 1) + mine] : from[row_at + terms[table + t]]);
                        }
                    }
#pragma unroll
                    for (int i = 0; i < BATCH; i++) {
                        const int32_t t = at + i * apart;
                        if ((D::noted || D::hinted) && (Survey || !D::surveyed) && here && t < count) {
                            seen = D::see(seen, x[i]);
                        }
                        if constexpr (!Survey && D::terms == 1) {
                            unit units[D::planes];
                            D::pack(ts_conjugated(x[i], side.conjugate), highest, units);
#pragma unroll
                            for (int plane = 0; plane < D::planes; plane++) {
                                const int64_t at = ((term - first + t) * D::planes + plane) * width + mine;
                                if (D::across == 2 && second) {
                                    memcpy(reinterpret_cast<uint16_t *>(to) + at, &units[plane], 2);
                                } else {
                                    to[at] = units[plane];
                                }
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
        if ((D::noted || D::hinted) && (Survey || !D::surveyed)) {
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

template <typename P, int BM, int BN, int BK, int TM, int TN, int THREADS, int STAGES, bool Winners = false> struct ts_packed {
    typedef ts_dense<P> D;
    typedef typename P::storage storage;
    typedef typename P::value value;
    typedef typename D::unit unit;
    typedef typename D::sum sum;
    typedef typename D::note note;
    static const int PLANES = D::planes, ROWS = BM, COLUMNS = BN;
    static const int WORDS = BN / D::across, TW = TN / D::across; /* units of the tile's columns, and of a thread's */
    static const int VA = 16 / (int)sizeof(unit) < TM ? 16 / (int)sizeof(unit) : TM, GA = TM / VA;
    static const int VB = 16 / (int)sizeof(unit) < TW ? 16 / (int)sizeof(unit) : TW, GB = TW / VB;
    static const int LANES_M = D::matrix ? 8 : 4, LANES_N = D::matrix ? 4 : 8; /* of a warp */
    static const int WARPS_M = BM / (LANES_M * TM), WARPS_N = WORDS / (LANES_N * TW);
    static const int LINE_A = BM * PLANES, LINE_B = WORDS * PLANES; /* units per term */
    static const int PANEL_A = LINE_A * BK * (int)sizeof(unit), PANEL_B = LINE_B * BK * (int)sizeof(unit);
    static const int ROOM = STAGES * (PANEL_A + PANEL_B);
    static const int SLACK = 2 * (BM > WORDS ? BM : WORDS) * PLANES * (int)sizeof(unit); /* read past the last panel */
    static const int TABLES = (BM + BN) * 16 + 128;
    static const int NOTED = Winners ? (int)ts_cuda_noted_shared(BM, BN) : 0;
    static const int SHARED = ROOM + SLACK + TABLES + NOTED + 128;
    typedef ts_notes<ts_packed, ts_noted_dense<D>, TM, TW, THREADS> notes;
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
    TS_DEVICE unsigned char *notes_at(void) { return ts_shared() + ROOM + SLACK + TABLES; }
    TS_DEVICE unsigned char *ends_at(void) { return notes_at() + BM * BN; }

    /* Rows of this thread's sum (i, j), and units of columns. */
    TS_DEVICE int row_of(int i)
    {
        const uint32_t warp = (uint32_t)ts_thread() / 32, lane = (uint32_t)ts_thread() % 32;
        const int first = (int)(warp % WARPS_M * (LANES_M * TM));
        return D::matrix ? first + (int)(lane / 4) + i * 8 : first + (int)(lane / 8 * VA) + i / VA * (4 * VA) + i % VA;
    }
    TS_DEVICE int word_of(int j)
    {
        const uint32_t warp = (uint32_t)ts_thread() / 32, lane = (uint32_t)ts_thread() % 32;
        const int first = (int)(warp / WARPS_M * (LANES_N * TW));
        return D::matrix ? first + (int)(lane % 4) * 2 + j / 2 * 8 + j % 2 : first + (int)(lane % 8 * VB) + j / VB * (8 * VB) + j % VB;
    }
    struct fragment {
        unit a[PLANES][TM], b[PLANES][TW];
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
                ts_read_vector<unit, VB>(pb + term * LINE_B + plane * WORDS + g * (8 * VB), f.b[plane] + g * VB);
            }
        }
    }
    struct sums {
        sum at[TM][TW];
    };
    TS_DEVICE void multiply(sums &s, const fragment &f)
    {
#pragma unroll
        for (int i = 0; i < TM; i++) {
#pragma unroll
            for (int j = 0; j < TW; j++) {
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
    /* Two terms at a time: f[0] and f[1]. */
    template <bool Low> TS_DEVICE void multiply_two(sums &s, const fragment *f)
    {
#pragma unroll
        for (int i = 0; i < TM; i++) {
#pragma unroll
            for (int j = 0; j < TW; j++) {
                D::template two_steps<Low>(s.at[i][j], f[0].a[0][i], f[0].b[0][j], f[1].a[0][i], f[1].b[0][j]);
            }
        }
    }
    /* Where a thread has the registers, fragments are read two terms ahead of their use. */
    template <bool Low> TS_DEVICE void compute_two(sums &s, int stage)
    {
        const unit *pa = panel_a(stage) + row_of(0), *pb = panel_b(stage) + word_of(0);
        if constexpr (TM * TW >= 128) {
            fragment f[2], g[2];
            read(f[0], pa, pb, 0);
            read(f[1], pa, pb, 1);
#pragma unroll 1
            for (int part = 0; part < BK; part += 4) {
                read(g[0], pa, pb, 2);
                read(g[1], pa, pb, 3);
                multiply_two<Low>(s, f);
                read(f[0], pa, pb, 4);
                read(f[1], pa, pb, 5);
                multiply_two<Low>(s, g);
                pa += 4 * LINE_A;
                pb += 4 * LINE_B;
            }
        } else {
            fragment f[2];
#pragma unroll 1
            for (int part = 0; part < BK; part += 2) {
                read(f[0], pa, pb, 0);
                read(f[1], pa, pb, 1);
                multiply_two<Low>(s, f);
                pa += 2 * LINE_A;
                pb += 2 * LINE_B;
            }
        }
    }
    /* Have all sums of the warp risen? (See tile.h.) */
    TS_DEVICE bool risen(const sums &s)
    {
        int32_t least = 0;
#pragma unroll
        for (int i = 0; i < TM; i++) {
#pragma unroll
            for (int j = 0; j < TW; j++) {
                least = ts_min_i32(least, D::height(s.at[i][j]));
            }
        }
        return ts_ballot(least >= 0) == 0xffffffffu;
    }
    /* Fragments are read one term ahead of their use; the read past the last term is of other shared memory, and not used. */
    TS_DEVICE void compute(sums &s, int stage)
    {
        const unit *pa = panel_a(stage) + row_of(0), *pb = panel_b(stage) + word_of(0);
        fragment f[2];
        read(f[0], pa, pb, 0);
#pragma unroll 1
        for (int part = 0; part < BK; part += 2) {
            read(f[1], pa, pb, 1);
            multiply(s, f[0]);
#ifdef TS_RACECHECK /* which cannot know that */
            if (part + 2 < BK)
#endif
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
    enum { MIXED, HIGH, LOW }; /* what is known of sums: nothing, not negative (or to stay), not positive */
    /* a, b: what this thread copies of the first panel. zero: 0, but not so that the compiler knows. */
    TS_DEVICE void walk(sums &s, const char *a, const char *b, int32_t panels, bool first_walk, int32_t known, int32_t zero)
    {
        typename notes::before old;
        if constexpr (Winners) {
            notes::start(old, zero);
        }
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
            } else if constexpr (D::by_two) {
                compute_two<false>(s, stage);
            } else if constexpr (D::rises) {
                if (known == HIGH) {
                    compute_two<false>(s, stage);
                } else if (D::hinted && known == LOW) {
                    compute_two<true>(s, stage);
                } else {
                    compute(s, stage);
                    known = (panel < 4 || panel % 8 == 0) && risen(s) ? HIGH : MIXED;
                }
            } else {
                compute(s, stage);
            }
            ts_stage_release(stage_at(stage));
            if constexpr (Winners) {
                if ((panel + 1) % (TS_CUDA_INTERVAL / BK) == 0) {
                    notes::note(s, old, panel / (TS_CUDA_INTERVAL / BK), zero);
                }
            }
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

    /* What is known of a tile's sums by the signs that were noted of its rows and columns. */
    TS_DEVICE int32_t signs(const ts_cuda_packed &p, int64_t tile_a, int64_t tile_b)
    {
        if constexpr (!D::hinted) {
            return MIXED;
        } else {
            note seen = D::start_note();
            for (int64_t chunk = 0; chunk < p.chunks; chunk++) {
                for (int i = ts_thread(); i < BM; i += THREADS) {
                    seen = D::join(seen, reinterpret_cast<const note *>((uintptr_t)p.a_notes)[(chunk * (p.batch * p.left_tiles) + tile_a) * BM + i]);
                }
                for (int i = ts_thread(); i < BN; i += THREADS) {
                    seen = D::join(seen, reinterpret_cast<const note *>((uintptr_t)p.b_notes)[(chunk * (p.batch * p.right_tiles) + tile_b) * BN + i]);
                }
            }
            int32_t *found = careful_at(); /* one word for each sign */
            if (ts_thread() < 2) {
                found[ts_thread()] = 0;
            }
            ts_sync();
            if ((seen & 1u) != 0) {
                found[0] = 1;
            }
            if ((seen & 2u) != 0) {
                found[1] = 1;
            }
            ts_sync();
            return found[0] == 0 ? HIGH : found[1] == 0 ? LOW : MIXED;
        }
    }

    /* Leave the results of a tile sorted by interval for `winners`; rows, columns: those that it has. */
    TS_DEVICE void hand_over(const sums &s, const ts_cuda_packed &p, int64_t tile, int64_t rows, int64_t columns)
    {
        ts_vector<uint32_t, 2> *found = reinterpret_cast<ts_vector<uint32_t, 2> *>((uintptr_t)p.found) + tile * (BM * BN);
        const auto here = [&](int i, int j, int k) { return row_of(i) < rows && word_of(j) * D::across + k < columns; };
        notes::template sort<false>(here, [&](uint32_t at, int i, int j, int k) {
            const value result = D::value_of(s.at[i][j], k);
            ts_vector<uint32_t, 2> one = {{0, (uint32_t)(row_of(i) * BN + word_of(j) * D::across + k)}};
            memcpy(&one.at[0], &result, sizeof result);
            found[at] = one;
        });
        for (int i = ts_thread(); i < TS_CUDA_INTERVALS; i += THREADS) {
            reinterpret_cast<uint32_t *>((uintptr_t)p.ends)[tile * TS_CUDA_INTERVALS + i] = notes::ends()[i];
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
                for (int j = 0; j < TW; j++) {
                    s.at[i][j] = D::start();
                }
            }
            ts_sync(); /* the item before has been stored */
            walk(s, reinterpret_cast<const char *>((uintptr_t)p.a) + (tile_a * p.panels + first) * PANEL_A + ts_thread() * 16,
                 reinterpret_cast<const char *>((uintptr_t)p.b) + (tile_b * p.panels + first) * PANEL_B + ts_thread() * 16,
                 (int32_t)(last - first), first_walk, signs(p, tile_a, tile_b), (int32_t)(item >> 62));
            first_walk = false;
            if constexpr (Winners) {
                hand_over(s, p, item, p.left - left_tile * BM, p.right - right_tile * BN);
            }
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
                                const int word = j / D::across, column = j % D::across;
                                results[(row_of(i) - from) * BN + word_of(word) * D::across + column] = D::value_of(s.at[i][word], column);
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
#define TS_PACKED_SHAPE(id, rows_, columns_, terms_, tm, tn, threads_, stages_, blocks_, planes_, unit_, in_unit_, across_)   \
    template <> struct ts_packed_shape<TS_CUDA_PACKED_##id> {                                                                 \
        static const int threads = threads_, blocks = blocks_, rows = rows_, columns = columns_;                              \
        template <typename P, bool Winners = false> struct of {                                                               \
            typedef ts_packed<P, rows_, columns_, terms_, tm, tn, threads_, stages_, Winners> type;                           \
            static_assert(type::PLANES == planes_ && sizeof(typename type::unit) == unit_ && type::D::terms == in_unit_ &&    \
                              type::D::across == across_ &&                                                                   \
                              type::SHARED - type::NOTED ==                                                                   \
                                  (int)ts_cuda_packed_shared(rows_, columns_, terms_, stages_, planes_, unit_, across_),      \
                          "the class fits the pair");                                                                         \
        };                                                                                                                    \
    };
TS_CUDA_PACKED_CLASSES(TS_PACKED_SHAPE)
#undef TS_PACKED_SHAPE

#endif
