/* In which interval of the sum did each result last rise? For winners: the interval in which it did has the winner, because it
 * is the first that attains the value.
 *
 * While terms are summed, a thread notes after each interval which of its results have risen, in a byte per result in
 * shared memory. What the results were before is kept in local memory, which is touched once per interval, for shared memory
 * and registers are full. Afterwards results are sorted by interval. */
#ifndef TS_CUDA_NOTES_H
#define TS_CUDA_NOTES_H

#include "packed_abi.h"
#include "vector.h"

/* Tile: whose threads have TM rows of TW words of sums; it gives the shared memory, a byte for each result and a word for
 * each interval. Kind: how many results are in a word, what a sum is as a word, and whether a result of it has risen. */
template <typename Tile, typename Kind, int TM, int TW, int THREADS> struct ts_notes {
    static const int PACK = Kind::pack, WORDS = TM * TW, RESULTS = WORDS * PACK, V = TW < 4 ? TW : 4;
    static const int MOST = TS_CUDA_INTERVALS;

    /* The numbers of intervals lie by fours in words, thread by thread. */
    TS_DEVICE unsigned char *mine(void) { return Tile::notes_at() + ts_thread() * 4; }
    TS_DEVICE int mine_at(int result) { return result / 4 * (4 * THREADS) + result % 4; }
    TS_DEVICE uint32_t *ends(void) { return reinterpret_cast<uint32_t *>(Tile::ends_at()); }

    /* What a thread's results were at the last note, found through `zero`, which is 0, but not so that the compiler knows. */
    struct before {
        alignas(16) uint32_t word[WORDS];
    };
    TS_DEVICE void start(before &old, int32_t zero)
    {
        static_assert(RESULTS % 4 == 0, "numbers come in words");
        const uint32_t nothing = Kind::nothing();
#pragma unroll 1
        for (int i = 0; i < WORDS; i++) {
            old.word[i + zero] = nothing;
        }
#pragma unroll 1
        for (int i = 0; i < RESULTS; i += 4) {
            *reinterpret_cast<uint32_t *>(mine() + mine_at(i)) = 0;
        }
    }
    template <typename Sums> TS_DEVICE void note(const Sums &s, before &old, int32_t interval, int32_t zero)
    {
        unsigned char *numbers = mine();
#pragma unroll
        for (int i = 0; i < TM; i++) {
#pragma unroll
            for (int j = 0; j < TW; j += V) {
                const int at = i * TW + j;
                uint32_t was[V];
                ts_vector<uint32_t, V> now;
                ts_read_vector<uint32_t, V>(old.word + (at + zero), was);
#pragma unroll
                for (int v = 0; v < V; v++) {
                    now.at[v] = Kind::word(s.at[i][j + v]);
#pragma unroll
                    for (int k = 0; k < PACK; k++) {
                        if (Kind::differs(now.at[v], was[v], k)) {
                            numbers[mine_at((at + v) * PACK + k)] = (unsigned char)interval;
                        }
                    }
                }
                *reinterpret_cast<ts_vector<uint32_t, V> *>(old.word + (at + zero)) = now;
            }
        }
    }

    /* Sort the results (i, word j, k of it) that are `here`: take(place, i, j, k) for each. ends()[i] becomes the end of
     * interval i. In place: what is taken may lie where the numbers are, which are kept in registers. */
    template <bool InPlace, typename Here, typename Take> TS_DEVICE void sort(const Here &here, const Take &take)
    {
        const int32_t thread = ts_thread();
        uint32_t kept[InPlace ? RESULTS / 4 : 1];
        if constexpr (InPlace) {
#pragma unroll
            for (int i = 0; i < RESULTS / 4; i++) {
                kept[i] = *reinterpret_cast<const uint32_t *>(mine() + mine_at(i * 4));
            }
        }
        const auto number_of = [&](int result) -> uint32_t {
            if constexpr (InPlace) {
                return kept[result / 4] >> (result % 4 * 8) & 0xffu;
            } else {
                return mine()[mine_at(result)];
            }
        };
        for (int i = thread; i < MOST; i += THREADS) {
            ends()[i] = 0;
        }
        ts_sync();
#pragma unroll
        for (int result = 0; result < RESULTS; result++) {
            if (here(result / PACK / TW, result / PACK % TW, result % PACK)) {
                ts_atomic_add_shared(ends() + number_of(result), 1u);
            }
        }
        ts_sync();
        if (thread < 32) { /* counts to beginnings */
            const int SHARE = MOST / 32;
            uint32_t sum = 0, before_me = 0;
            for (int i = 0; i < SHARE; i++) {
                sum += ends()[thread * SHARE + i];
            }
            for (int lane = 0; lane < 31; lane++) {
                const uint32_t other = ts_shuffle(sum, lane);
                before_me += lane < thread ? other : 0u;
            }
            for (int i = 0; i < SHARE; i++) {
                const uint32_t count = ends()[thread * SHARE + i];
                ends()[thread * SHARE + i] = before_me;
                before_me += count;
            }
        }
        ts_sync();
#pragma unroll
        for (int result = 0; result < RESULTS; result++) {
            const int i = result / PACK / TW, j = result / PACK % TW, k = result % PACK;
            if (here(i, j, k)) {
                take(ts_atomic_add_shared(ends() + number_of(result), 1u), i, j, k);
            }
        }
        ts_sync();
    }
};

#endif
