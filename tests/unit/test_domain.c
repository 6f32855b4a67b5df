/* The check of domains by blocks against the rule for one element, with values at the borders of every domain. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "algebra/element.h"
#include "execute/workspace.h"

/* The dtype's name is pasted into names of functions, so it must not be a macro here. */
#undef bool
typedef _Bool bool;

static ts_element value_of(tensum_dtype dtype, int which)
{
    static const int64_t wide[] = {0, 1, -1, 6, 7, TS_TROPICAL_R_i64, -TS_TROPICAL_R_i64, TS_TROPICAL_R_i64 + 1,
                                   -TS_TROPICAL_R_i64 - 1, TS_TROPICAL_Z_i64, -TS_TROPICAL_Z_i64, INT64_MAX, INT64_MIN};
    static const int32_t middle[] = {0, 1, -1, 6, 7, TS_TROPICAL_R_i32, -TS_TROPICAL_R_i32, TS_TROPICAL_R_i32 + 1,
                                     -TS_TROPICAL_R_i32 - 1, TS_TROPICAL_Z_i32, -TS_TROPICAL_Z_i32, INT32_MAX, INT32_MIN};
    static const int16_t narrow[] = {0, 1, -1, 6, 7, TS_TROPICAL_R_i16, -TS_TROPICAL_R_i16, TS_TROPICAL_R_i16 + 1,
                                     -TS_TROPICAL_R_i16 - 1, TS_TROPICAL_Z_i16, -TS_TROPICAL_Z_i16, INT16_MAX, INT16_MIN};
    static const double real[] = {0, -0.0, 1, -1, TS_INFINITY_F64, -TS_INFINITY_F64, 5e-8, -5e-8, 0, 0, 0, 0, 0};
    ts_element e;
    memset(&e, 0, sizeof e);
    const double x = which == 8 ? TS_INFINITY_F64 - TS_INFINITY_F64 : real[which];
    switch (dtype) {
    case TENSUM_I16: e.i16 = narrow[which]; break;
    case TENSUM_I32: e.i32 = middle[which]; break;
    case TENSUM_I64: e.i64 = wide[which]; break;
    case TENSUM_F16: e.u16 = ts_store_f16((float)x); break;
    case TENSUM_BF16: e.u16 = ts_store_bf16((float)x); break;
    case TENSUM_F32: e.f32[0] = (float)x; break;
    case TENSUM_F64: e.f64[0] = x; break;
    default: e.boolean = (uint8_t)(which == 12 ? 255 : which % 3); break;
    }
    return e;
}

static void check_pair(ts_random *random, ts_algebra algebra)
{
    const size_t bytes = tensum_dtype_bytes(algebra.dtype);
    ts_element inside[13], outside[13];
    int good = 0, bad = 0;
    for (int i = 0; i < 13; i++) {
        const ts_element e = value_of(algebra.dtype, i);
        if (ts_in_domain(algebra, &e)) {
            inside[good++] = e;
        } else {
            outside[bad++] = e;
        }
    }
    for (int round = 0; round < 40; round++) {
        int64_t extents[3] = {1 + (int64_t)ts_random_below(random, 5), 1 + (int64_t)ts_random_below(random, 30),
                              1 + (int64_t)ts_random_below(random, round % 2 == 0 ? 9 : 700)};
        int64_t strides[3] = {extents[1] * extents[2], extents[2], 1}, at = 0;
        if (round % 3 == 1) { /* another memory order, with gaps, the first mode backwards */
            strides[1] = 2;
            strides[2] = 2 * extents[1];
            strides[0] = -2 * extents[1] * extents[2];
            at = -strides[0] * (extents[0] - 1);
        } else if (round % 3 == 2) {
            strides[0] = 0;
        }
        const int64_t room = 2 * extents[0] * extents[1] * extents[2], total = room / 2;
        char *data = malloc((size_t)room * bytes);
        for (int64_t i = 0; i < room; i++) { /* gaps hold what is outside */
            memcpy(data + i * (int64_t)bytes, bad > 0 ? &outside[ts_random_below(random, (uint64_t)bad)] : &inside[0], bytes);
        }
        int64_t spoiled = bad > 0 && round % 4 < 3 ? (int64_t)ts_random_below(random, (uint64_t)total) : total;
        for (int64_t i = total - 1; i >= 0; i--) { /* a mode of stride 0 is written by its first index last */
            const int64_t a = i / (extents[1] * extents[2]), b = i / extents[2] % extents[1], c = i % extents[2];
            const ts_element *e = i == spoiled ? &outside[ts_random_below(random, (uint64_t)bad)] : &inside[ts_random_below(random, (uint64_t)good)];
            memcpy(data + (at + a * strides[0] + b * strides[1] + c * strides[2]) * (int64_t)bytes, e, bytes);
        }
        int64_t expected = -1;
        for (int64_t i = 0; i < total && expected < 0; i++) {
            const int64_t a = i / (extents[1] * extents[2]), b = i / extents[2] % extents[1], c = i % extents[2];
            expected = ts_in_domain(algebra, data + (at + a * strides[0] + b * strides[1] + c * strides[2]) * (int64_t)bytes) ? -1 : i;
        }
        const tensum_tensor tensor = {data + at * (int64_t)bytes, algebra.dtype, 3, extents, strides, {TENSUM_CPU, 0}};
        const tensum_status status = ts_check_domain(algebra, &tensor, 1);
        assert_int_equal(status, expected < 0 ? TENSUM_OK : TENSUM_STATUS_DOMAIN);
        if (expected >= 0) {
            char text[64];
            snprintf(text, sizeof text, "element %" PRId64 " ", expected);
            assert_non_null(strstr(tensum_last_error(), text));
        }
        free(data);
    }
}

static void test_blocks(void **state)
{
    ts_random random;
    int pairs = 0;
    (void)state;
    ts_random_seed(&random, 31);
    for (int s = 0; s < TENSUM_SEMIRING_COUNT; s++) {
        for (int d = 0; d < TENSUM_DTYPE_COUNT; d++) {
            const tensum_dtype dtype = (tensum_dtype)d;
            if (ts_pair_check((tensum_semiring)s, dtype) == TENSUM_OK && dtype != TENSUM_C64 && dtype != TENSUM_C128 &&
                dtype != TENSUM_VC64 && dtype != TENSUM_VC128) {
                const ts_algebra algebra = {(tensum_semiring)s, dtype, s == TENSUM_SUM_PRODUCT_MOD ? 7 : 0};
                check_pair(&random, algebra);
                pairs++;
            }
        }
    }
    assert_true(pairs > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
