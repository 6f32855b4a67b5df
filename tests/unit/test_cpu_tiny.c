/* Tiny operands against huge ones on the CPU, in every layout, against the oracle's step. Whole numbers: sums are exact
 * in every order. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"

/* Every access costs several times as much under the sanitizers; ThreadSanitizer's build has the generic kernels alone. */
#if defined(__SANITIZE_THREAD__)
#define SHARE 15
#elif defined(__SANITIZE_ADDRESS__)
#define SHARE 5
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHARE 15
#endif
#endif
#ifndef SHARE
#define SHARE 1
#endif

static ts_pool *pool;

/* Give `count` modes of extents 2^bits (or odd) strides in random order; returns the span. */
static int64_t strides(ts_random *random, ts_mode *const modes[], int32_t count, size_t field, bool padded)
{
    int32_t order[64];
    int64_t stride = 1;
    for (int32_t i = 0; i < count; i++) {
        const int32_t j = (int32_t)ts_random_below(random, (uint64_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int32_t i = 0; i < count; i++) {
        *(int64_t *)(void *)((char *)modes[order[i]] + field) = stride;
        stride *= modes[order[i]]->extent;
        if (padded && i == 3) {
            stride += 3;
        }
    }
    return stride;
}

static void *fill(ts_random *random, tensum_dtype dtype, int64_t count, bool special)
{
    const size_t bytes = tensum_dtype_bytes(dtype);
    char *data = malloc((size_t)count * bytes + 64);
    for (int64_t i = 0; i < count; i++) {
        const int32_t x = (int32_t)ts_random_below(random, 9) - 3;
        const bool zero = ts_random_below(random, 30) == 0 && dtype == TENSUM_F32;
        const int16_t narrow = (int16_t)x;
        const uint8_t truth = x > 0;
        const int64_t wide = x;
        const uint64_t odd = ts_random_below(random, special ? 3000 : UINT64_MAX); /* no NaN, no infinity: another way */
        const float strange = odd == 0 ? NAN : odd == 1 ? INFINITY : -INFINITY;
        const float f[2] = {odd < 3 ? strange : zero ? 0.0f : (float)x, 1};
        const double d[2] = {odd < 3 ? strange : (float)x, 1};
        const void *value = dtype == TENSUM_I32 ? (const void *)&x : dtype == TENSUM_I16 ? (const void *)&narrow
                          : dtype == TENSUM_BOOL ? (const void *)&truth : dtype == TENSUM_I64 ? (const void *)&wide
                          : dtype == TENSUM_F64 || dtype == TENSUM_C128 ? (const void *)d : (const void *)f;
        memcpy(data + i * (int64_t)bytes, value, bytes);
    }
    return data;
}

static int tiny_ways; /* how many cases went the way under test */

static void check(ts_random *random, int64_t bits, tensum_semiring semiring, tensum_dtype dtype, bool swapped, int64_t odd)
{
    const size_t bytes = tensum_dtype_bytes(dtype);
    ts_mode modes[64] = {{0}}, *of[3][64];
    int32_t counts[4] = {0, 0, 0, 0}, in[3] = {0, 0, 0}, count = 0;
    int64_t sizes[4] = {1, 1, 1, 1};
    bits += bytes < 4 ? 2 : 0; /* as many bytes */
    const int32_t small[2] = {(int32_t)ts_random_below(random, 4), (int32_t)ts_random_below(random, 4)};
    /* batch, left, right, sum; left is the tiny side, unless swapped */
    int32_t wanted[4] = {(int32_t)ts_random_below(random, 6), small[0], 0, small[1]};
    wanted[2] = (int32_t)bits - wanted[0] - (small[0] > small[1] ? small[0] : small[1]);
    if (swapped) {
        const int32_t right = wanted[2];
        wanted[2] = wanted[1];
        wanted[1] = right;
    }
    for (int k = 0; k < 4; k++) {
        for (int32_t left = wanted[k]; left > 0;) {
            const int32_t taken = 1 + (int32_t)ts_random_below(random, (uint64_t)(left < 5 ? left : 5));
            modes[count].extent = (int64_t)1 << taken;
            if (odd > 1 && left == wanted[k] && (k == 0 || k == (swapped ? 1 : 2))) {
                modes[count].extent *= odd;
            }
            sizes[k] *= modes[count].extent;
            for (int t = 0; t < 3; t++) {
                if ((t == 0 && k != 2) || (t == 1 && k != 1) || (t == 2 && k != 3)) {
                    of[t][in[t]++] = &modes[count];
                }
            }
            count++;
            counts[k]++;
            left -= taken;
        }
    }
    const bool padded = ts_random_below(random, 4) == 0;
    const size_t fields[3] = {offsetof(ts_mode, a), offsetof(ts_mode, b), offsetof(ts_mode, c)};
    int64_t spans[3];
    for (int t = 0; t < 3; t++) {
        spans[t] = strides(random, of[t], in[t], fields[t], padded);
    }
    const bool special = tensum_semiring_selective(semiring) && ts_random_below(random, 2) == 0;
    void *a = fill(random, dtype, spans[0], special), *b = fill(random, dtype, spans[1], special);
    const size_t room = (size_t)spans[2] * bytes + 256, shift = bytes * (1 + (size_t)ts_random_below(random, 9));
    char *c = malloc(room), *expected = malloc(room);
    memset(c, 0x5a, room);
    memset(expected, 0x5a, room);
    const ts_contract_spec spec = {.algebra = {semiring, dtype, 0}, .batch_count = counts[0], .left_count = counts[1],
                                   .right_count = counts[2], .sum_count = counts[3], .modes = modes, .batch = sizes[0],
                                   .left = sizes[1], .right = sizes[2], .sum = sizes[3]};
    const ts_run run = {ts_random_below(random, 2) == 0 ? pool : NULL, NULL, 0};
    assert_int_equal(ts_backend_find(TENSUM_REFERENCE)->contract(&spec, a, b, expected + 64 + shift, NULL, &run), TENSUM_OK);
    if (ts_cpu_contract_tiny(&spec, ts_cpu_kernel_find(semiring, dtype), a, b, c + 64 + shift, run.pool)) {
        tiny_ways++;
        if (memcmp(c, expected, room) != 0) {
            for (int32_t m = 0; m < count; m++) {
                fprintf(stderr, "extent %lld: a %lld b %lld c %lld\n", (long long)modes[m].extent, (long long)modes[m].a,
                        (long long)modes[m].b, (long long)modes[m].c);
            }
            fail_msg("%s %s batch %lld left %lld right %lld sum %lld: the result differs", tensum_semiring_name(semiring),
                     tensum_dtype_name(dtype), (long long)spec.batch, (long long)spec.left, (long long)spec.right, (long long)spec.sum);
        }
    } else {
        for (size_t i = 0; i < room; i++) {
            assert_int_equal((unsigned char)c[i], 0x5a); /* refused before anything was written */
        }
    }
    free(a);
    free(b);
    free(c);
    free(expected);
}

static void test_layouts(void **state)
{
    static const struct {
        tensum_semiring semiring;
        tensum_dtype dtype;
    } pairs[] = {{TENSUM_MAX_PLUS, TENSUM_F32}, {TENSUM_SUM_PRODUCT, TENSUM_F32}, {TENSUM_SUM_PRODUCT, TENSUM_F64},
                 {TENSUM_MIN_PLUS, TENSUM_I32}, {TENSUM_SUM_PRODUCT, TENSUM_C64}, {TENSUM_MAX_MIN, TENSUM_F64},
                 {TENSUM_MAX_PLUS, TENSUM_I16}, {TENSUM_OR_AND, TENSUM_BOOL}, {TENSUM_SUM_PRODUCT, TENSUM_C128},
                 {TENSUM_MAX_PLUS, TENSUM_I64}, {TENSUM_MIN_PLUS, TENSUM_F32},
                 {TENSUM_MIN_MAX, TENSUM_F32}, {TENSUM_MAX_PLUS, TENSUM_F64}};
    ts_random random;
    (void)state;
    ts_random_seed(&random, 7);
    for (int i = 0; i < 350 / SHARE; i++) {
        const int p = i % (int)(sizeof pairs / sizeof *pairs);
        check(&random, 17 + (int64_t)ts_random_below(&random, 3), pairs[p].semiring, pairs[p].dtype, i % 2 == 1, i % 5 == 0 ? 3 : 1);
    }
    if (ts_cpu_shuffler_find(4) != NULL) {
        assert_true(tiny_ways > 175 / SHARE);
    }
}

static void test_large(void **state)
{
    ts_random random;
    (void)state;
    ts_random_seed(&random, 8);
    for (int i = 0; i < (8 + SHARE - 1) / SHARE; i++) {
        check(&random, 22, TENSUM_MAX_PLUS, TENSUM_F32, i % 2 == 1, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts), cmocka_unit_test(test_large)};
    if (ts_pool_create(2, &pool) != TENSUM_OK) {
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ts_pool_destroy(pool);
    return failed;
}
