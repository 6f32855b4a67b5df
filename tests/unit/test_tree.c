/* trees: paths and SSA form, what is refused, slices, sizes that would overflow a stack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "order/optimizer.h"

#define OK(call) assert_int_equal((call), TENSUM_OK)

static void paths_and_ssa_are_the_same(void **state)
{
    (void)state;
    /* the example of opt_einsum's documentation: ssa [(0,3),(2,4),(1,5)] = linear [(0,3),(1,2),(0,1)] */
    const int64_t offsets[] = {0, 2, 4, 6}, ssa[] = {0, 3, 2, 4, 1, 5}, linear[] = {0, 3, 1, 2, 0, 1};
    tensum_tree *from_ssa, *from_path;
    OK(tensum_tree_from_ssa(4, 3, offsets, ssa, &from_ssa));
    OK(tensum_tree_from_path(4, 3, offsets, linear, &from_path));
    const int64_t *children;
    int64_t positions[6];
    tensum_tree_steps(from_path, NULL, &children);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(children[i], ssa[i]);
    }
    tensum_tree_path(from_ssa, positions);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(positions[i], linear[i]);
    }
    assert_int_equal(tensum_tree_leaf_count(from_ssa), 4);
    assert_int_equal(tensum_tree_step_count(from_ssa), 3);
    tensum_tree_release(from_ssa);
    tensum_tree_release(from_path);
}

static void refuses(tensum_status status, const char *part)
{
    assert_int_equal(status, TENSUM_STATUS_INVALID_PATH);
    if (strstr(tensum_last_error(), part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", tensum_last_error(), part);
    }
}

static void malformed_paths_are_refused_with_the_step(void **state)
{
    (void)state;
    tensum_tree *tree = NULL;
    const int64_t two[] = {0, 2, 4}, wide[] = {0, 3};
    refuses(tensum_tree_from_ssa(3, 2, two, (const int64_t[]){0, 1, 0, 2}, &tree), "step 1 uses id 0");
    refuses(tensum_tree_from_ssa(3, 2, two, (const int64_t[]){0, 4, 1, 2}, &tree), "step 0 uses id 4");
    refuses(tensum_tree_from_ssa(3, 2, two, (const int64_t[]){0, -1, 1, 2}, &tree), "step 0 uses id -1");
    refuses(tensum_tree_from_ssa(3, 1, two, (const int64_t[]){0, 1}, &tree), "2 tensors are left");
    refuses(tensum_tree_from_ssa(3, 1, (const int64_t[]){0, 0}, NULL, &tree), "step 0 has 0 operands");
    refuses(tensum_tree_from_ssa(1, 1, wide, (const int64_t[]){0, 0, 0}, &tree), "step 0");
    refuses(tensum_tree_from_path(3, 2, two, (const int64_t[]){0, 1, 0, 2}, &tree), "step 1 uses position 2");
    refuses(tensum_tree_from_path(3, 2, two, (const int64_t[]){1, 1, 0, 1}, &tree), "step 0 uses position 1 twice");
    refuses(tensum_tree_from_path(3, 1, two, (const int64_t[]){0, 3}, &tree), "step 0 uses position 3");
    assert_null(tree);
    OK(tensum_tree_from_path(3, 1, wide, (const int64_t[]){2, 0, 1}, &tree));
    tensum_tree_release(tree);
    OK(tensum_tree_from_ssa(1, 0, NULL, NULL, &tree));
    tensum_tree_release(tree);
    OK(tensum_tree_from_ssa(0, 0, NULL, NULL, &tree));
    tensum_tree_release(tree);
}

static void slices_belong_to_a_tree(void **state)
{
    (void)state;
    tensum_tree *tree, *sliced = NULL;
    const int64_t *labels, offsets[] = {0, 2}, both[] = {0, 1}, twice[] = {7, 'i', 7}, two[] = {'i', -7};
    OK(tensum_tree_from_ssa(2, 1, offsets, both, &tree));
    assert_int_equal(tensum_tree_with_slices(tree, 3, twice, &sliced), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tensum_last_error(), "7"));
    OK(tensum_tree_with_slices(tree, 2, two, &sliced));
    assert_int_equal(tensum_tree_slices(sliced, &labels), 2);
    assert_int_equal(labels[0], 'i');
    assert_int_equal(labels[1], -7);
    assert_int_equal(tensum_tree_slices(tree, NULL), 0);
    tensum_tree_release(tree);
    tensum_tree_release(sliced);
}

static void a_chain_of_a_million_needs_no_stack(void **state)
{
    (void)state;
    const int64_t n = 1000000;
    int64_t *offsets = malloc((size_t)n * sizeof *offsets), *path = malloc(2 * (size_t)n * sizeof *path);
    tensum_tree *tree;
    for (int64_t s = 0; s < n; s++) {
        offsets[s] = 2 * s;
    }
    /* first with last, over and over: the result is the last again */
    for (int64_t s = 0; s < n - 1; s++) {
        path[2 * s] = 0;
        path[2 * s + 1] = n - s - 1;
    }
    OK(tensum_tree_from_path(n, n - 1, offsets, path, &tree));
    const int64_t *children;
    tensum_tree_steps(tree, NULL, &children);
    assert_int_equal(children[0], 0);
    assert_int_equal(children[1], n - 1);
    assert_int_equal(children[2 * 999], 999);
    assert_int_equal(children[2 * 999 + 1], n + 998);
    int64_t *back = malloc(2 * (size_t)n * sizeof *back);
    tensum_tree_path(tree, back);
    assert_memory_equal(back, path, 2 * (size_t)(n - 1) * sizeof *path);
    tensum_tree_release(tree);
    free(offsets);
    free(path);
    free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_and_ssa_are_the_same),
        cmocka_unit_test(malformed_paths_are_refused_with_the_step),
        cmocka_unit_test(slices_belong_to_a_tree),
        cmocka_unit_test(a_chain_of_a_million_needs_no_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
