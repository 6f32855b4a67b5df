/* Keys of cuTENSOR's plans: equal work has equal keys, other work has others, and what the library cannot do has none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cuda/cutensor/cutensor.h"

static const int32_t aligned[3] = {128, 128, 128};

/* A contraction from its modes {extent, a, b, c}; the class of each follows from the strides. */
static ts_contract_spec spec_of(ts_mode *modes, int32_t count)
{
    ts_contract_spec spec = {.algebra = {TENSUM_SUM_PRODUCT, TENSUM_F32, 0}, .modes = modes, .batch = 1, .left = 1, .right = 1,
                             .sum = 1};
    for (int32_t i = 0; i < count; i++) {
        bool a = modes[i].a != 0, b = modes[i].b != 0, c = modes[i].c != 0;
        int64_t *size = a && b && c ? &spec.batch : a && c ? &spec.left : b && c ? &spec.right : &spec.sum;
        int32_t *members =
            a && b && c ? &spec.batch_count : a && c ? &spec.left_count : b && c ? &spec.right_count : &spec.sum_count;
        *size *= modes[i].extent;
        (*members)++;
    }
    return spec;
}

#define MODE(n, x, y, z) {.extent = (n), .a = (x), .b = (y), .c = (z)}

/* c[8, 6] = a[8, 4] b[4, 6] */
static void product(ts_cutensor_key *key, bool *swapped)
{
    ts_mode modes[] = {MODE(8, 4, 0, 6), MODE(6, 0, 1, 1), MODE(4, 1, 6, 0)};
    ts_contract_spec spec = spec_of(modes, 3);
    assert_true(ts_cutensor_key_make(&spec, aligned, key, swapped));
}

static bool same(const ts_cutensor_key *x, const ts_cutensor_key *y)
{
    return ts_cutensor_key_bytes(x) == ts_cutensor_key_bytes(y) && memcmp(x, y, ts_cutensor_key_bytes(x)) == 0;
}

static void order_names_and_fusion_do_not_matter(void **state)
{
    ts_mode split[] = {MODE(2, 16, 0, 24), MODE(4, 4, 0, 6), MODE(1, 77, 0, 99), MODE(3, 0, 2, 2), MODE(2, 0, 1, 1),
                       MODE(2, 2, 12, 0), MODE(2, 1, 6, 0)};
    ts_mode shuffled[] = {MODE(4, 4, 0, 6), MODE(2, 16, 0, 24), MODE(2, 0, 1, 1), MODE(3, 0, 2, 2), MODE(2, 1, 6, 0),
                          MODE(2, 2, 12, 0)};
    ts_mode exchanged[] = {MODE(6, 1, 0, 1), MODE(8, 0, 4, 6), MODE(4, 6, 1, 0)};
    ts_contract_spec specs[3] = {spec_of(split, 7), spec_of(shuffled, 6), spec_of(exchanged, 3)};
    ts_cutensor_key key, other;
    bool swapped, other_swapped;
    (void)state;
    product(&key, &swapped);
    assert_int_equal(key.mode_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(ts_cutensor_key_make(&specs[i], aligned, &other, &other_swapped));
        assert_true(same(&key, &other));
        assert_true(other_swapped == (i == 2 ? !swapped : swapped));
    }
}

static void other_work_has_another_key(void **state)
{
    ts_mode extent[] = {MODE(8, 4, 0, 6), MODE(5, 0, 1, 1), MODE(4, 1, 6, 0)};
    ts_mode stride[] = {MODE(8, 5, 0, 6), MODE(6, 0, 1, 1), MODE(4, 1, 6, 0)};
    ts_mode plain[] = {MODE(8, 4, 0, 6), MODE(6, 0, 1, 1), MODE(4, 1, 6, 0)};
    ts_contract_spec specs[5] = {spec_of(extent, 3), spec_of(stride, 3), spec_of(plain, 3), spec_of(plain, 3),
                                 spec_of(plain, 3)};
    static const int32_t worse[3] = {128, 64, 128};
    ts_cutensor_key key, other;
    bool swapped;
    (void)state;
    specs[2].algebra.dtype = TENSUM_F64;
    specs[3].conjugate_b = true;
    product(&key, &swapped);
    for (int i = 0; i < 5; i++) {
        assert_true(ts_cutensor_key_make(&specs[i], i == 4 ? worse : aligned, &other, &swapped));
        assert_false(same(&key, &other));
    }
}

static void what_the_library_cannot_do_has_no_key(void **state)
{
    ts_mode negative[] = {MODE(8, -4, 0, 6), MODE(6, 0, 1, 1), MODE(4, 1, 6, 0)};
    ts_mode windows[] = {MODE(8, 1, 0, 6), MODE(6, 0, 1, 1), MODE(4, 1, 6, 0)}; /* rows of a overlap */
    ts_mode broadcast[] = {MODE(8, 4, 0, 6), MODE(6, 0, 1, 1), MODE(4, 1, 6, 0), MODE(2, 0, 0, 48)};
    ts_mode alone[] = {MODE(8, 4, 0, 6), MODE(6, 0, 1, 1), MODE(4, 1, 6, 0), MODE(2, 32, 0, 0)};
    ts_mode outer[] = {MODE(8, 1, 0, 6), MODE(6, 0, 1, 1)};
    ts_mode empty[] = {MODE(8, 4, 0, 6), MODE(6, 0, 1, 1), MODE(0, 1, 6, 0)};
    ts_mode plain[] = {MODE(8, 4, 0, 6), MODE(6, 0, 1, 1), MODE(4, 1, 6, 0)};
    ts_contract_spec specs[] = {spec_of(negative, 3), spec_of(windows, 3), spec_of(broadcast, 4), spec_of(alone, 4),
                                spec_of(outer, 2),    spec_of(empty, 3),   spec_of(plain, 3),     spec_of(plain, 3),
                                spec_of(plain, 3)};
    ts_cutensor_key key;
    bool swapped;
    (void)state;
    specs[6].algebra.semiring = TENSUM_MAX_PLUS;
    specs[7].algebra.dtype = TENSUM_I32;
    specs[8].winner_bytes = 4;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        assert_false(ts_cutensor_key_make(&specs[i], aligned, &key, &swapped));
    }
}

/* Copies and launches count; devices and shapes that nobody measured get the plain rule. */
static void the_choice(void **state)
{
    (void)state;
    assert_true(ts_cutensor_wins(90, TENSUM_F64, 1, 2048, 2048, 2048, 0, false));
    assert_true(ts_cutensor_wins(90, TENSUM_F64, 1, 2048, 2048, 2048, 0, true));
    assert_false(ts_cutensor_wins(90, TENSUM_F64, 1, 2048, 2048, 2048, (int64_t)1 << 40, false));
    assert_false(ts_cutensor_wins(90, TENSUM_F32, 1, 16, 16, 16, 0, false));
    assert_false(ts_cutensor_wins(90, TENSUM_F32, 1, 2048, 2048, 1, 0, false));
    assert_false(ts_cutensor_wins(90, TENSUM_F32, 1, 2048, 0, 2048, 0, false));
    assert_true(ts_cutensor_wins(80, TENSUM_F32, 1, 256, 256, 256, 0, false));
    assert_false(ts_cutensor_wins(80, TENSUM_F32, 1, 4096, 4096, 128, 0, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_names_and_fusion_do_not_matter),
        cmocka_unit_test(other_work_has_another_key),
        cmocka_unit_test(what_the_library_cannot_do_has_no_key),
        cmocka_unit_test(the_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
