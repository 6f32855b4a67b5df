/* Data movement on the CPU against a loop over all positions: permutations of every element size, extents around cache
 * lines, broadcasts, padding, reversal, any alignment, results small enough for caches and too large for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"

enum { MOST_MODES = 24 };

static ts_pool *pool;

static void shuffle_order(ts_random *random, int32_t *order, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const int32_t j = (int32_t)ts_random_below(random, (uint64_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

/* Lay the modes out one after the other in a random order; returns how many elements they span. */
static int64_t lay_out(ts_random *random, ts_mode *modes, int32_t count, bool result, bool plain)
{
    int32_t order[MOST_MODES];
    int64_t stride = 1;
    shuffle_order(random, order, count);
    for (int32_t i = 0; i < count; i++) {
        ts_mode *mode = &modes[order[i]];
        if (!result && !plain && ts_random_below(random, 12) == 0) {
            mode->a = 0;
            continue;
        }
        *(result ? &mode->c : &mode->a) = stride;
        stride *= mode->extent;
        if (!plain && ts_random_below(random, 8) == 0) {
            stride += (int64_t)ts_random_below(random, 5);
        }
    }
    return stride;
}

static void check(ts_random *random, ts_mode *modes, int32_t count, size_t element, bool plain)
{
    const int64_t spans[2] = {lay_out(random, modes, count, false, plain), lay_out(random, modes, count, true, plain)};
    const size_t guard = 64, shift = element > 8 ? 8 * (size_t)ts_random_below(random, 8) : element * (size_t)ts_random_below(random, 16);
    const size_t bytes = (size_t)spans[1] * element + 2 * guard + 128;
    unsigned char *a = malloc((size_t)spans[0] * element + 128), *c = malloc(bytes), *expected = malloc(bytes);
    unsigned char *from = a + shift, *to = c + guard + shift;
    for (int64_t i = 0; i < (int64_t)((size_t)spans[0] * element); i++) {
        from[i] = (unsigned char)((uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 56);
    }
    memset(c, 0xa5, bytes);
    memset(expected, 0xa5, bytes);
    for (int32_t i = 0; i < count && !plain; i++) { /* walk some modes of both backwards */
        if (ts_random_below(random, 10) == 0) {
            from += (modes[i].extent - 1) * modes[i].a * (int64_t)element;
            to += (modes[i].extent - 1) * modes[i].c * (int64_t)element;
            modes[i].a = -modes[i].a;
            modes[i].c = -modes[i].c;
        }
    }
    unsigned char *right = expected + (to - c);
    int64_t total = ts_modes_size(modes, count), index[MOST_MODES] = {0}, at_a = 0, at_c = 0;
    for (int64_t i = 0; i < total; i++) {
        memcpy(right + at_c * (int64_t)element, from + at_a * (int64_t)element, element);
        for (int32_t m = count - 1; m >= 0; m--) {
            at_a += modes[m].a;
            at_c += modes[m].c;
            if (++index[m] < modes[m].extent) {
                break;
            }
            at_a -= modes[m].a * modes[m].extent;
            at_c -= modes[m].c * modes[m].extent;
            index[m] = 0;
        }
    }
    ts_mode given[MOST_MODES];
    memcpy(given, modes, sizeof given);
    const int32_t fused = ts_random_below(random, 2) == 0 ? ts_modes_fuse(given, count) : count;
    ts_cpu_move(given, fused, element, from, to, ts_random_below(random, 2) == 0 ? pool : NULL);
    if (memcmp(c, expected, bytes) != 0) {
        for (int32_t m = 0; m < count; m++) {
            fprintf(stderr, "mode %d: extent %lld a %lld c %lld\n", (int)m, (long long)modes[m].extent, (long long)modes[m].a,
                    (long long)modes[m].c);
        }
        fail_msg("element %zu shift %zu: the result differs", element, shift);
    }
    free(a);
    free(c);
    free(expected);
}

static void test_random_moves(void **state)
{
    static const int64_t extents[] = {1, 2, 2, 2, 2, 3, 4, 4, 5, 8, 16, 17, 31, 32, 33, 48, 64, 100, 128, 130, 200, 513};
    ts_random random;
    (void)state;
    ts_random_seed(&random, 20);
    for (int i = 0; i < 3000; i++) {
        ts_mode modes[MOST_MODES] = {{0}};
        const int32_t most = 1 + (int32_t)ts_random_below(&random, i % 3 == 0 ? 18 : 6);
        int64_t total = 1;
        int32_t count = 0;
        while (count < most) {
            modes[count].extent = i % 3 == 0 ? 2 : extents[ts_random_below(&random, sizeof extents / sizeof *extents)];
            if (total * modes[count].extent > 300000) {
                break;
            }
            total *= modes[count++].extent;
        }
        check(&random, modes, count, (size_t)1 << ts_random_below(&random, 5), i % 2 == 0);
    }
}

/* Written past the caches. */
static void test_large_moves(void **state)
{
    static const int64_t sides[][2] = {{2048, 2048}, {2047, 2049}, {4000, 700}, {100000, 33}, {1536, 1600}, {64, 65536}};
    ts_random random;
    (void)state;
    ts_random_seed(&random, 21);
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        for (size_t element = 1; element <= 16; element *= 2) {
            for (int turn = 0; turn < 2; turn++) {
                ts_mode modes[MOST_MODES] = {{.extent = sides[i][0]}, {.extent = sides[i][1]}};
                check(&random, modes, 2, element, turn == 0);
            }
        }
    }
    for (int i = 0; i < 15; i++) {
        ts_mode modes[MOST_MODES] = {{0}};
        const size_t element = (size_t)1 << i % 5;
        const int32_t rank = element == 1 ? 23 : 21;
        for (int32_t m = 0; m < rank; m++) {
            modes[m].extent = m == 5 && i % 2 == 1 ? 3 : 2;
        }
        check(&random, modes, rank, element, i < 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_moves), cmocka_unit_test(test_large_moves)};
    if (ts_pool_create(2, &pool) != TENSUM_OK) {
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ts_pool_destroy(pool);
    return failed;
}
