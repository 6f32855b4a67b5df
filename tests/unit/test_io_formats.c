/* Network formats: what each reads, exact round trips, and errors that name the place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the above */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/file.h"

static tensum_status read_text(const char *text, const tensum_file_options *options, tensum_file **file)
{
    ts_input input;
    assert_int_equal(ts_input_from_memory("file", text, strlen(text), &input), TENSUM_OK);
    tensum_status status = ts_file_from_input(&input, options, file);
    ts_input_free(&input);
    return status;
}

static tensum_file *must_read(const char *text, const tensum_file_options *options)
{
    tensum_file *file;
    if (read_text(text, options, &file) != TENSUM_OK) {
        fail_msg("%s", tensum_last_error());
    }
    return file;
}

/* The network as "a:2,b:3|b:3->a:2" with numbers for labels, to compare with what is written out by hand. */
static void describe(const tensum_network *network, char *text, size_t room)
{
    size_t used = 0;
    for (int64_t i = 0; i <= tensum_network_operand_count(network); i++) {
        bool output = i == tensum_network_operand_count(network);
        int32_t rank;
        const int64_t *labels, *extents;
        assert_int_equal(tensum_network_operand(network, output ? -1 : i, &rank, &labels, &extents), TENSUM_OK);
        used += (size_t)snprintf(text + used, room - used, "%s", output ? "->" : i != 0 ? "|" : "");
        for (int32_t m = 0; m < rank; m++) {
            used += (size_t)snprintf(text + used, room - used, "%s%lld:%lld", m != 0 ? "," : "", (long long)labels[m],
                                     (long long)extents[m]);
        }
    }
}

static void expect_network(const tensum_file *file, const char *expected)
{
    char text[1000];
    assert_non_null(tensum_file_network(file));
    describe(tensum_file_network(file), text, sizeof text);
    assert_string_equal(text, expected);
}

/* Steps as "0,1;2,3". */
static void expect_steps(const tensum_tree *tree, const char *expected)
{
    char text[1000] = "";
    size_t used = 0;
    const int64_t *offsets, *children;
    assert_non_null(tree);
    tensum_tree_steps(tree, &offsets, &children);
    for (int64_t s = 0; s < tensum_tree_step_count(tree); s++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", s != 0 ? ";" : "");
        for (int64_t i = offsets[s]; i < offsets[s + 1]; i++) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i != offsets[s] ? "," : "",
                                     (long long)children[i]);
        }
    }
    assert_string_equal(text, expected);
}

static void formats(void **state)
{
    static const struct {
        const char *text, *format, *network, *steps;
    } cases[] = {
        {"{\"inputs\": [[\"a\", \"b\"], [\"b\", \"long\"]], \"output\": [\"long\"], \"size_dict\": {\"a\": 2, \"b\": 3, \"long\": 4}}",
         "cotengra", "97:2,98:3|98:3,1114112:4->1114112:4", NULL},
        {"{\"inputs\": [[\"\xc3\x80\"]], \"output\": [], \"size_dict\": {\"\xc3\x80\": 2}, \"ssa_path\": []}", "cotengra",
         "192:2->", ""},
        {"{\"einsum\": {\"ixs\": [[1, 7], [7, -2]], \"iy\": [1]}, \"size\": {\"1\": 2, \"7\": 3, \"-2\": 5}}", "code",
         "1:2,7:3|7:3,-2:5->1:2", NULL},
        {"{\"label-type\": \"Int64\", \"inputs\": [[1, 2], [2], [1]], \"output\": [], \"slices\": [2], \"tree\":"
         " {\"isleaf\": false, \"eins\": {}, \"args\": [{\"isleaf\": true, \"tensorindex\": 3}, {\"isleaf\": false, \"args\":"
         " [{\"isleaf\": true, \"tensorindex\": 1}, {\"isleaf\": true, \"tensorindex\": 2}]}]}}",
         "omeinsum", "1:2,2:2|2:2|1:2->", "0,1;2,3"},
        {"{\"inputs\": [[1, 2], [2], [1]], \"output\": [], \"tree\":"
         " {\"isleaf\": false, \"args\": [{\"isleaf\": true, \"tensorindex\": 2}, {\"isleaf\": false, \"args\":"
         " [{\"isleaf\": true, \"tensorindex\": 0}, {\"isleaf\": true, \"tensorindex\": 1}]}]}}",
         "omeinsum", "1:2,2:2|2:2|1:2->", "0,1;2,3"},
        {"{\"n_vertices\": 3, \"bond_dim\": 4, \"edges\": [[0, 1], [1, 2]], \"tree\": {\"isleaf\": false, \"args\":"
         " [{\"isleaf\": true, \"tensorindex\": 1}, {\"isleaf\": true, \"tensorindex\": 0}]}}",
         "edges", "0:4,1:4|1:4,2:4->", "1,0"},
        {"{\"name\": \"x\", \"format_string\": \"ab,bc -> ca\", \"shapes\": [[2, 3], [3, 1]], \"paths\": {\"opt_size\":"
         " {\"path\": [[0, 1]]}}}",
         "einsum", "97:2,98:3|98:3,99:1->99:1,97:2", "0,1"},
        {"{\"schema_version\": 1, \"expression\": \"ab,bc->ac\", \"label_map\": {\"a\": 0, \"b\": 1, \"c\": 2}, \"size_dict\":"
         " {\"a\": 2, \"b\": 3, \"c\": 4}, \"method\": \"greedy\", \"tree\": {\"isleaf\": false, \"args\":"
         " [{\"isleaf\": true, \"tensorindex\": 0}, {\"isleaf\": true, \"tensorindex\": 1}], \"eins\": {\"ixs\": [[0, 1], [1, 2]],"
         " \"iy\": [0, 2]}}}",
         "topology", "97:2,98:3|98:3,99:4->97:2,99:4", "0,1"},
        {"[[0, 3], [1, 2], [0, 1]]", "path", NULL, "0,3;2,4;1,5"}, /* remaining after each step: 1 2 4; 1 5 */
        {"[\"einsum_path\", [0, 1, 2]]", "path", NULL, "0,1,2"},
        {"[[0, 3], [2, 4], [1, 5]]", "ssa", NULL, "0,3;2,4;1,5"},
        {"{\"path\": [[0, 1]]}", "path", NULL, "0,1"},
        {"{\"ssa_path\": [[0, 1]]}", "ssa", NULL, "0,1"},
    };
    (void)state;
    tensum_file_options options = TENSUM_FILE_OPTIONS_INIT;
    options.extent = 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tensum_file *file = must_read(cases[i].text, &options);
        assert_string_equal(tensum_file_format(file), cases[i].format);
        if (cases[i].network != NULL) {
            expect_network(file, cases[i].network);
        } else {
            assert_null(tensum_file_network(file));
        }
        if (cases[i].steps != NULL) {
            expect_steps(tensum_file_tree(file), cases[i].steps);
        } else {
            assert_null(tensum_file_tree(file));
        }
        tensum_file_release(file);
    }
}

static void errors(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "file:1:1: no format"},
        {"hello", "file:1:1: no format"},
        {"{\"x\": 1}", "file:1:1: no format"},
        {"{\"inputs\": [[\"a\"]],\n \"output\": 7}", "file:2:12: expected output (an array)"},
        {"{\"inputs\": [[\"a\"]],\n \"output\": [],\n \"size_dict\": {\"a\": -1}}", "file:3:21: expected an extent"},
        {"{\"inputs\": [[\"a\"]], \"output\": [], \"size_dict\": {\"a\": 1e3}}", "file:1:54: expected an extent"},
        {"{\"inputs\": [[\"a\"]], \"output\": [], \"size_dict\": {}}", "file gives no extent for label 'a'"},
        {"{\"inputs\": [[null]], \"output\": []}", "file:1:14: expected a label"},
        {"{\"einsum\": {\"ixs\": [[1]], \"iy\": []}, \"size\": {\"x\": 2}}", "file:1:52: expected an integer label"},
        {"{\"einsum\": {\"ixs\": [[1]], \"iy\": []}, \"size\": {\"1\": 2, \"1\": 3}}", "file:1:60: the extent of label"},
        {"{\"inputs\": [[1], [1]], \"output\": [], \"size\": {\"1\": 2}, \"tree\":\n{\"isleaf\": true, \"tensorindex\": 1}}",
         "file:2:1: tensor 2 does not occur"},
        {"{\"inputs\": [[1]], \"output\": [], \"tree\":\n{\"isleaf\": true, \"tensorindex\": 5}}", "file:2:33: expected a tensor's index"},
        {"{\"inputs\": [[1]], \"output\": [], \"tree\":\n{\"isleaf\": 1}}", "file:2:12: expected \"isleaf\""},
        {"{\"inputs\": [[1]], \"output\": [], \"tree\": {\"isleaf\": false, \"args\": []}}", "file:1:67: expected at least one"},
        {"[[0, 1], []]", "file:1:10: expected operands in step 1"},
        {"[[0, 1.5]]", "file:1:6: expected a position"},
        {"[[0, 0]]", "file: step 0"},
        {"[[0, 1], [2, 2]]", "file: step 1"},
        {"{\"format_string\": \"ab,b->a\", \"shapes\": [[1, 2]]}", "file:1:40: expected 2 shapes"},
        {"{\"format_string\": \"ab,b->a\", \"shapes\": [[1, 2], [1, 2]]}", "file:1:49: expected 1 extents for operand 1"},
        {"{\"format_string\": \"ab,b\", \"shapes\": []}", "file:1:19: expected \"->\""},
        {"{\"format_string\": \"a.->a\", \"shapes\": []}", "file:1:19: expected an expression"},
        {"{\"format\": \"tensum\", \"version\": 2}", "file:1:33: expected version"},
        {"{\"format\": \"tensum\", \"version\": 1}", "file:1:1: expected an object with the key \"inputs\""},
        {"s td 1 1 1\nb 1 1 1 x\n", "file:2:9: expected a vertex"},
        {"s td 1 1 1\nb 2 1\n", "file:2:3: expected the number of a bag"},
        {"s td 2 1 1\nb 1 1\nb 1 1\n", "file:3:3: bag 1 is given twice"},
        {"s td 99999999999 1 1\n", "file:1:6: expected the number of bags"},
        {"s td -1 1 1\n", "file:1:6: expected the number of bags"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tensum_file *file;
        if (read_text(cases[i].text, NULL, &file) == TENSUM_OK) {
            fail_msg("accepted: %s", cases[i].text);
        }
        if (strncmp(tensum_last_error(), cases[i].message, strlen(cases[i].message)) != 0) {
            fail_msg("%s:\nfound    %s\nexpected %s", cases[i].text, tensum_last_error(), cases[i].message);
        }
    }
}

static void names_suggest_the_nearest(void **state)
{
    tensum_file_options options = TENSUM_FILE_OPTIONS_INIT;
    tensum_file *file;
    (void)state;
    options.format = "omeinsm";
    assert_int_equal(read_text("{}", &options, &file), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tensum_last_error(), "did you mean 'omeinsum'?"));
    options.format = "gr";
    assert_int_equal(read_text("{}", &options, &file), TENSUM_STATUS_UNSUPPORTED);
}

static char *write_text(const char *format, const tensum_file *file)
{
    ts_text text = {0};
    char *string;
    if (ts_file_to_text(format, tensum_file_network(file), tensum_file_tree(file), file, &text) != TENSUM_OK) {
        fail_msg("%s: %s", format, tensum_last_error());
    }
    assert_int_equal(ts_text_take(&text, &string), TENSUM_OK);
    return string;
}

static void own_round_trip_is_exact(void **state)
{
    static const char *const texts[] = {
        /* broadcasting extents, repeated labels, an output-only label, negative labels, an n-ary step, slices */
        "{\"format\": \"tensum\", \"version\": 1,\n \"inputs\": [\n  {\"labels\": [97, 98], \"extents\": [2, 1]},\n"
        "  {\"labels\": [98, 98], \"extents\": [3, 3]},\n  {\"labels\": [-5], \"extents\": [4]}],\n \"output\": [97, 99, 99],\n"
        " \"sizes\": {\"99\": 7},\n \"names\": {\"98\": \"long \\\"name\"},\n \"order\": {\"leaves\": 3, \"steps\": [[0, 2, 1]], \"slices\":"
        " [98]}}\n",
        "{\"format\": \"tensum\", \"version\": 1,\n \"order\": {\"leaves\": 3, \"steps\": [[2, 1], [0, 3]], \"slices\": []}}\n",
        "{\"format\": \"tensum\", \"version\": 1,\n \"inputs\": [],\n \"output\": [],\n \"sizes\": {}}\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tensum_file *file = must_read(texts[i], NULL);
        char *text = write_text(NULL, file);
        assert_string_equal(text, texts[i]);
        ts_free(text);
        tensum_file_release(file);
    }
}

/* Network and tree come back from every format that holds both. */
static void other_round_trips(void **state)
{
    static const char *const formats_of_both[] = {"tensum", "omeinsum", "cotengra"};
    static const char *const orders_only[] = {"path", "ssa"};
    tensum_file_options options = TENSUM_FILE_OPTIONS_INIT;
    (void)state;
    options.extent = 2;
    tensum_file *file = must_read("{\"inputs\": [[\"a\", \"b\"], [\"b\", \"c\", \"b\"], [\"c\", \"d\"], [\"d\"]], \"output\": [\"a\", \"d\"], "
                                  "\"size_dict\": {\"a\": 2, \"b\": 2, \"c\": 2, \"d\": 2}, \"path\": [[1, 3], [0, 1], [0, 1]]}",
                                  NULL);
    const char *steps = "1,3;0,2;4,5";
    char network[200];
    describe(tensum_file_network(file), network, sizeof network);
    expect_steps(tensum_file_tree(file), steps);
    for (size_t i = 0; i < sizeof formats_of_both / sizeof *formats_of_both; i++) {
        char *text = write_text(formats_of_both[i], file);
        tensum_file *back = must_read(text, &options);
        assert_string_equal(tensum_file_format(back), formats_of_both[i]);
        expect_network(back, network);
        assert_string_equal(tensum_file_label(back, 'a'), "a");
        /* nested trees are walked depth first: the same tree, its steps maybe in another order */
        assert_true(tensum_tree_step_count(tensum_file_tree(back)) == 3);
        if (strcmp(formats_of_both[i], "omeinsum") != 0) {
            expect_steps(tensum_file_tree(back), steps);
        } else {
            expect_steps(tensum_file_tree(back), "1,3;0,2;4,5");
            assert_non_null(strstr(text, "\"iy\": [\"a\", \"d\"]"));
        }
        ts_free(text);
        tensum_file_release(back);
    }
    for (size_t i = 0; i < sizeof orders_only / sizeof *orders_only; i++) {
        char *text = write_text(orders_only[i], file);
        tensum_file *back = must_read(text, NULL);
        expect_steps(tensum_file_tree(back), steps);
        ts_free(text);
        tensum_file_release(back);
    }
    char *text = write_text("code", file);
    tensum_file *back = must_read(text, NULL);
    expect_network(back, network);
    ts_free(text);
    tensum_file_release(back);
    text = write_text("gr", file);
    assert_string_equal(text, "p tw 4 3\n1 2\n2 3\n3 4\n");
    ts_free(text);
    tensum_file_release(file);
}

/* A path of matrices a-b-c-d-e: a decomposition with bags {a,b,c}, {c,d}, {d,e}. */
static void decompositions(void **state)
{
    tensum_file_options options = TENSUM_FILE_OPTIONS_INIT;
    (void)state;
    tensum_file *network = must_read("{\"inputs\": [[\"a\", \"b\"], [\"b\", \"c\"], [\"c\", \"d\"], [\"d\", \"e\"]], \"output\": [], "
                                     "\"size_dict\": {\"a\": 2, \"b\": 2, \"c\": 2, \"d\": 2, \"e\": 2}}",
                                     NULL);
    options.network = tensum_file_network(network);
    tensum_file *file = must_read("c comment\ns td 3 3 5\nb 3 4 5\nb 1 1 2 3\r\nb 2 3 4\n1 2\n3 2", &options);
    const int64_t *offsets, *children;
    const tensum_tree *tree = tensum_file_tree(file);
    /* Root is bag 1; bag 3 = {d,e} holds T3, bag 2 = {c,d} holds T2 and the result of bag 3 (T3 itself), then bag 1
     * contracts T0, T1 and that. */
    assert_true(tensum_tree_step_count(tree) == 2);
    tensum_tree_steps(tree, &offsets, &children);
    assert_true(offsets[1] == 2 && children[0] == 2 && children[1] == 3);
    assert_true(offsets[2] == 5);
    assert_true(children[2] + children[3] + children[4] == 0 + 1 + 4);
    /* Written again: one bag per step, none larger than 3. */
    ts_text text = {0};
    char *string;
    assert_int_equal(ts_file_to_text("td", tensum_file_network(network), tree, NULL, &text), TENSUM_OK);
    assert_int_equal(ts_text_take(&text, &string), TENSUM_OK);
    assert_true(strncmp(string, "s td 2 4 5\n", 11) == 0 || strncmp(string, "s td 2 3 5\n", 11) == 0);
    tensum_file *again = must_read(string, &options);
    assert_true(tensum_tree_leaf_count(tensum_file_tree(again)) == 4);
    tensum_file_release(again);
    ts_free(string);
    tensum_file_release(file);
    static const char *const wrong[] = {
        "s td 2 3 5\nb 1 1 2 3\nb 2 4 5\n1 2\n",          /* {c,d} lies in no bag */
        "s td 2 5 5\nb 1 1 2 3 4 5\nb 2 1\n",             /* not connected */
        "s td 2 5 5\nb 1 1 2 3 4 5\n1 2\n",               /* a bag is missing */
        "s td 3 5 5\nb 1 1 2 3 4 5\nb 2 1\nb 3 1\n2 3\n3 2\n", /* a cycle */
        "s td 1 4 4\nb 1 1 2 3 4\n",                      /* another number of labels */
        "s td 0 0 5\n",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (read_text(wrong[i], &options, &file) == TENSUM_OK) {
            fail_msg("accepted: %s", wrong[i]);
        }
        assert_non_null(strstr(tensum_last_error(), "file"));
    }
    tensum_file_release(network);
}

/* A tree as deep as a chain of 20000 tensors is long. */
static void deep_trees(void **state)
{
    enum { LENGTH = 20000 };
    (void)state;
    ts_text text = {0};
    ts_text_add(&text, "{\"inputs\": [");
    for (int i = 0; i < LENGTH; i++) {
        ts_text_add(&text, "%s[%d, %d]", i != 0 ? ", " : "", i, i + 1);
    }
    ts_text_add(&text, "], \"output\": [], \"tree\": ");
    for (int i = 0; i < LENGTH - 1; i++) {
        ts_text_add(&text, "{\"isleaf\": false, \"args\": [{\"isleaf\": true, \"tensorindex\": %d}, ", i);
    }
    ts_text_add(&text, "{\"isleaf\": true, \"tensorindex\": %d}", LENGTH - 1);
    for (int i = 0; i < LENGTH - 1; i++) {
        ts_text_add(&text, "]}");
    }
    ts_text_add(&text, "}");
    tensum_file_options options = TENSUM_FILE_OPTIONS_INIT;
    options.extent = 2;
    tensum_file *file = must_read(text.bytes, &options);
    assert_true(tensum_tree_step_count(tensum_file_tree(file)) == LENGTH - 1);
    char *again = write_text("omeinsum", file);
    tensum_file *back = must_read(again, &options);
    assert_true(tensum_tree_step_count(tensum_file_tree(back)) == LENGTH - 1);
    ts_free(again);
    tensum_file_release(back);
    tensum_file_release(file);
    ts_text_free(&text);
}

static void every_allocation_may_fail(void **state)
{
    static const char text[] = "{\"inputs\": [[\"a\", \"bb\"], [\"bb\"]], \"output\": [\"a\"], \"size_dict\": {\"a\": 2, \"bb\": 3}, "
                               "\"path\": [[0, 1]]}";
    (void)state;
    long live = ts_test_live_allocations();
    for (long n = 1;; n++) {
        ts_input input = {0};
        ts_text out = {0};
        tensum_file *file = NULL;
        ts_test_fail_allocation(n);
        tensum_status status = ts_input_from_memory("x", text, sizeof text - 1, &input);
        if (status == TENSUM_OK) {
            status = ts_file_from_input(&input, NULL, &file);
        }
        if (status == TENSUM_OK) {
            status = ts_file_to_text("omeinsum", tensum_file_network(file), tensum_file_tree(file), file, &out);
        }
        ts_test_fail_allocation(0);
        ts_text_free(&out);
        tensum_file_release(file);
        ts_input_free(&input);
        assert_true(ts_test_live_allocations() == live);
        if (status == TENSUM_OK) {
            assert_true(n > 20);
            return;
        }
        assert_int_equal(status, TENSUM_STATUS_OUT_OF_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats),
        cmocka_unit_test(errors),
        cmocka_unit_test(names_suggest_the_nearest),
        cmocka_unit_test(own_round_trip_is_exact),
        cmocka_unit_test(other_round_trips),
        cmocka_unit_test(decompositions),
        cmocka_unit_test(deep_trees),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
