/* Expressions by the rules of NumPy and PyTorch, networks from lists of labels, and what they refuse. */
#include "support.h"

/* Parse an expression for up to eight operands given as "2x3,3x4"; "" is one operand of rank 0. */
static tensum_status parse(const char *expression, const char *shapes, tensum_network **network)
{
    int32_t ranks[16] = {0};
    int64_t values[16][16];
    const int64_t *extents[16];
    int64_t count = shapes == NULL ? 0 : 1;
    for (const char *p = shapes; p != NULL && *p != '\0'; p++) {
        if (*p >= '0' && *p <= '9') {
            char *end;
            values[count - 1][ranks[count - 1]++] = strtoll(p, &end, 10);
            p = end - 1;
        } else if (*p == ',') {
            count++;
        }
    }
    for (int i = 0; i < 16; i++) {
        extents[i] = values[i];
    }
    return tensum_network_parse(expression, count, ranks, extents, 0, NULL, NULL, network);
}

static void expect_operand(const tensum_network *network, int64_t index, const char *labels, const int64_t *extents, int32_t rank)
{
    int32_t got_rank = -1;
    const int64_t *got_labels = NULL, *got_extents = NULL;
    assert_int_equal(tensum_network_operand(network, index, &got_rank, &got_labels, &got_extents), TENSUM_OK);
    assert_int_equal(got_rank, rank);
    for (int32_t i = 0; i < rank; i++) {
        if (labels[i] != '.') { /* an ellipsis dimension: some negative label */
            assert_int_equal(got_labels[i], labels[i]);
        } else {
            assert_true(got_labels[i] < 0);
        }
        assert_int_equal(got_extents[i], extents[i]);
    }
}

/* Labels of the output, its extents. */
static void expect_output(const char *expression, const char *shapes, const char *labels, const int64_t *extents, int32_t rank)
{
    tensum_network *network = NULL;
    tensum_status status = parse(expression, shapes, &network);
    if (status != TENSUM_OK) {
        fail_msg("%s: %s", expression, tensum_last_error());
    }
    expect_operand(network, -1, labels, extents, rank);
    tensum_network_release(network);
}

static void refuse(const char *expression, const char *shapes, tensum_status expected, const char *words)
{
    tensum_network *network = NULL;
    tensum_status status = parse(expression, shapes, &network);
    if (status != expected || network != NULL || strstr(tensum_last_error(), words) == NULL) {
        fail_msg("'%s' for %s: %s, message '%s', expected %s naming '%s'", expression, shapes != NULL ? shapes : "nothing", tensum_status_name(status),
                 tensum_last_error(), tensum_status_name(expected), words);
    }
}

static void outputs(void **state)
{
    (void)state;
    expect_output("ij,jk->ik", "2x3,3x4", "ik", EXTENTS(2, 4), 2);
    expect_output("ij,jk->ki", "2x3,3x4", "ki", EXTENTS(4, 2), 2);
    expect_output("ij,jk", "2x3,3x4", "ik", EXTENTS(2, 4), 2);           /* implicit: labels seen once, sorted */
    expect_output("ba", "2x3", "ab", EXTENTS(3, 2), 2);
    expect_output("zB,zA", "5x2,5x3", "AB", EXTENTS(3, 2), 2);           /* capitals sort before small letters */
    expect_output("ii", "3x3", "", NULL, 0);
    expect_output("ii->i", "3x3", "i", EXTENTS(3), 1);
    expect_output("i->ii", "3", "ii", EXTENTS(3, 3), 2);
    expect_output(" i j , j k -> i k ", "2x3,3x4", "ik", EXTENTS(2, 4), 2);
    expect_output(",", ",", "", NULL, 0);
    expect_output(",->", ",", "", NULL, 0);
    expect_output("->", "", "", NULL, 0);
    expect_output("", "", "", NULL, 0);
    expect_output("i,i,i->", "4,4,4", "", NULL, 0);
    expect_output("ij->", "2x3", "", NULL, 0);
}

static void ellipses(void **state)
{
    (void)state;
    expect_output("...ij,...jk->...ik", "5x6x2x3,5x6x3x4", "..ik", EXTENTS(5, 6, 2, 4), 4);
    expect_output("...ij,...jk", "5x2x3,5x3x4", ".ik", EXTENTS(5, 2, 4), 3);
    expect_output("...ij,jk->...ik", "5x2x3,3x4", ".ik", EXTENTS(5, 2, 4), 3);
    expect_output("...i,...i->...", "6x2,5x6x2", "..", EXTENTS(5, 6), 2);  /* aligned at the right */
    expect_output("...,...", "1x6,5x1", "..", EXTENTS(5, 6), 2);           /* size 1 broadcasts */
    expect_output("i...->i", "3x4x5", "i", EXTENTS(3), 1);                 /* left out of the output: summed */
    expect_output("...->", "3x4", "", NULL, 0);
    expect_output("i...i->...i", "3x4x3", ".i", EXTENTS(4, 3), 2);
    expect_output("...ij->...ji", "2x3", "ji", EXTENTS(3, 2), 2);          /* an ellipsis of nothing */
    expect_output("b...a", "2x7x3", ".ab", EXTENTS(7, 3, 2), 3);
    expect_output(" ... i -> i ... ", "7x3", "i.", EXTENTS(3, 7), 2);
}

static void sizes_of_one(void **state)
{
    (void)state;
    expect_output("ij,jk->ijk", "1x3,3x4", "ijk", EXTENTS(1, 3, 4), 3);
    expect_output("ij,ij->ij", "1x3,2x1", "ij", EXTENTS(2, 3), 2);
    expect_output("t...i,ti->t...", "10x2,1x2", "t", EXTENTS(10), 1);
    expect_output("i,i->i", "1,0", "i", EXTENTS(0), 1);
    expect_output("ij,jk->ik", "0x3,3x4", "ik", EXTENTS(0, 4), 2);
    tensum_network *network = NULL;
    assert_int_equal(parse("ij,ij->ij", "1x3,2x1", &network), TENSUM_OK);
    expect_operand(network, 0, "ij", EXTENTS(1, 3), 2); /* operands keep their own extents */
    expect_operand(network, 1, "ij", EXTENTS(2, 1), 2);
    assert_int_equal(tensum_network_label_extents(network)[0], 2);
    assert_int_equal(tensum_network_label_extents(network)[1], 3);
    tensum_network_release(network);
}

static void any_code_point(void **state)
{
    (void)state;
    tensum_network *network = NULL;
    /* Greek, CJK, beyond the basic plane, digits and signs are all labels */
    assert_int_equal(parse("\xce\xb1\xe4\xb8\xad,\xe4\xb8\xad\xf0\x9f\x98\x80->\xf0\x9f\x98\x80\xce\xb1", "2x3,3x4", &network), TENSUM_OK);
    const int64_t *labels = tensum_network_labels(network);
    assert_int_equal(tensum_network_label_count(network), 3);
    ASSERT_I64(labels, {0x3b1, 0x4e2d, 0x1f600});
    int32_t rank = 0;
    const int64_t *extents = NULL;
    assert_int_equal(tensum_network_operand(network, -1, &rank, NULL, &extents), TENSUM_OK);
    assert_int_equal(rank, 2);
    ASSERT_I64(extents, {4, 2});
    tensum_network_release(network);
    network = NULL;
    assert_int_equal(parse("1#,#2->12", "2x3,3x4", &network), TENSUM_OK);
    tensum_network_release(network);
}

static void many_operands_and_labels(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    char expression[4 * 3 * COUNT] = "";
    int32_t ranks[COUNT];
    const int64_t *extents[COUNT];
    const int64_t shape[2] = {2, 2};
    size_t length = 0;
    for (int i = 0; i < COUNT; i++) {
        if (i > 0) {
            expression[length++] = ',';
        }
        for (int j = i; j < i + 2; j++) { /* U+0100 + j in two bytes */
            expression[length++] = (char)(0xc0 | ((0x100 + j) >> 6));
            expression[length++] = (char)(0x80 | ((0x100 + j) & 0x3f));
        }
        ranks[i] = 2;
        extents[i] = shape;
    }
    tensum_network *network = NULL;
    assert_int_equal(tensum_network_parse(expression, COUNT, ranks, extents, 0, NULL, NULL, &network), TENSUM_OK);
    assert_int_equal(tensum_network_label_count(network), COUNT + 1);
    int32_t rank = 0;
    const int64_t *labels = NULL;
    assert_int_equal(tensum_network_operand(network, -1, &rank, &labels, NULL), TENSUM_OK);
    assert_int_equal(rank, 2);
    ASSERT_I64(labels, {0x100, 0x100 + COUNT});
    tensum_network_release(network);
}

static void output_only_labels(void **state)
{
    (void)state;
    const int32_t ranks[] = {1};
    const int64_t shape[] = {3}, size_labels[] = {'b'}, size_extents[] = {5};
    const int64_t *extents[] = {shape};
    tensum_network *network = NULL;
    assert_int_equal(tensum_network_parse("i->bi", 1, ranks, extents, 1, size_labels, size_extents, &network), TENSUM_OK);
    expect_operand(network, -1, "bi", EXTENTS(5, 3), 2);
    ASSERT_I64(tensum_network_labels(network), {'i', 'b'}); /* inputs first */
    tensum_network_release(network);
    network = NULL;
    assert_int_equal(tensum_network_parse("i->bi", 1, ranks, extents, 0, NULL, NULL, &network), TENSUM_STATUS_SHAPE_MISMATCH);
    assert_non_null(strstr(tensum_last_error(), "'b'"));
    assert_null(network);
}

static void malformed_expressions(void **state)
{
    (void)state;
    const tensum_status bad = TENSUM_STATUS_INVALID_EXPRESSION;
    refuse("ij,jk->ik", "2x3", bad, "2 operand");
    refuse("ij", "2x3,3x4", bad, "1 operand");
    refuse("ijk,jk->ik", "2x3,3x4", bad, "operand 0");
    refuse("ij,j->i", "2x3,3x4", bad, "operand 1");
    refuse("...ijk->", "2x3", bad, "operand 0");
    refuse("i.j", "2x3", bad, "byte 1");
    refuse("i..j", "2x3", bad, "byte 1");
    refuse("i...j...", "2x3x4", bad, "byte 5");
    refuse("ij->i->j", "2x3", bad, "byte 5");
    refuse("ij-i", "2x3", bad, "byte 2");
    refuse("ij>i", "2x3", bad, "byte 2");
    refuse("ij->i,j", "2x3", bad, "byte 5");
    refuse("i\xff->i", "2x3", bad, "byte 1");
    refuse("\xc3", "2", bad, "byte 0");             /* cut short */
    refuse("\xc0\x80", "2", bad, "byte 0");         /* overlong */
    refuse("\xf5\x80\x80\x80", "2", bad, "byte 0"); /* beyond U+10FFFF */
    tensum_network *network = NULL;
    assert_int_equal(tensum_network_parse(NULL, 0, NULL, NULL, 0, NULL, NULL, &network), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(tensum_network_parse("i", -1, NULL, NULL, 0, NULL, NULL, &network), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_null(network);
}

static void mismatched_extents(void **state)
{
    (void)state;
    const tensum_status bad = TENSUM_STATUS_SHAPE_MISMATCH;
    refuse("ij,jk->ik", "2x3,4x5", bad, "'j'");
    refuse("ij,jk->ik", "2x3,4x5", bad, "operand 1");
    refuse("ij,jk->ik", "2x3,4x5", bad, "4");
    refuse("ij,jk->ik", "2x3,4x5", bad, "3");
    refuse("ij,jk->ik", "2x0,3x5", bad, "'j'");
    refuse("ii->i", "2x3", bad, "'i'");
    refuse("...i,...i->...", "2x3,4x3", bad, "operand 1");
    refuse("a,b,a->", "2,5,7", bad, "operand 2");
}

static void specifications(void **state)
{
    (void)state;
    const int32_t ranks[] = {2, 2};
    const int64_t a[] = {-7, INT64_MIN}, b[] = {INT64_MIN, INT64_MAX}, out[] = {INT64_MAX, -7};
    const int64_t ae[] = {2, 3}, be[] = {3, 4};
    const int64_t *labels[] = {a, b}, *extents[] = {ae, be};
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    tensum_network *network = NULL;
    spec.operand_count = 2;
    spec.ranks = ranks;
    spec.labels = labels;
    spec.extents = extents;
    spec.output_rank = 2;
    spec.output_labels = out;
    assert_int_equal(tensum_network_create(&spec, &network), TENSUM_OK);
    assert_int_equal(tensum_network_operand_count(network), 2);
    ASSERT_I64(tensum_network_labels(network), {-7, INT64_MIN, INT64_MAX});
    ASSERT_I64(tensum_network_label_extents(network), {2, 3, 4});
    int32_t rank = 0;
    assert_int_equal(tensum_network_operand(network, 2, &rank, NULL, NULL), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(tensum_network_operand(network, -2, &rank, NULL, NULL), TENSUM_STATUS_INVALID_ARGUMENT);
    tensum_network_release(tensum_network_retain(network));
    tensum_network_release(network);
    tensum_network_release(NULL);
    network = NULL;

    tensum_network_spec empty = TENSUM_NETWORK_SPEC_INIT;
    assert_int_equal(tensum_network_create(&empty, &network), TENSUM_OK);
    assert_int_equal(tensum_network_label_count(network), 0);
    tensum_network_release(network);
    network = NULL;

    spec.size = 8;
    assert_int_equal(tensum_network_create(&spec, &network), TENSUM_STATUS_INVALID_ARGUMENT);
    spec.size = sizeof spec;
    spec.operand_count = -1;
    assert_int_equal(tensum_network_create(&spec, &network), TENSUM_STATUS_INVALID_ARGUMENT);
    spec.operand_count = 2;
    spec.labels = NULL;
    assert_int_equal(tensum_network_create(&spec, &network), TENSUM_STATUS_INVALID_ARGUMENT);
    spec.labels = labels;
    const int64_t negative[] = {2, -3};
    const int64_t *bad_extents[] = {negative, be};
    spec.extents = bad_extents;
    assert_int_equal(tensum_network_create(&spec, &network), TENSUM_STATUS_SHAPE_MISMATCH);
    assert_non_null(strstr(tensum_last_error(), "operand 0"));
    const int64_t huge[] = {INT64_MAX / 2, 3};
    const int64_t *huge_extents[] = {huge, be};
    spec.extents = huge_extents;
    assert_int_equal(tensum_network_create(&spec, &network), TENSUM_STATUS_SIZE_OVERFLOW);
    assert_non_null(strstr(tensum_last_error(), "operand 0"));
    assert_int_equal(tensum_network_create(NULL, &network), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(tensum_network_create(&empty, NULL), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_null(network);
}

/* 64 modes that are not 1 are allowed, whatever the number of those that are; 65 are not. */
static void number_of_modes(void **state)
{
    (void)state;
    enum { MODES = 100 };
    int32_t rank = MODES;
    int64_t labels[MODES], extents[MODES];
    const int64_t *label_lists[] = {labels}, *extent_lists[] = {extents};
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    tensum_network *network = NULL;
    for (int i = 0; i < MODES; i++) {
        labels[i] = i;
        extents[i] = i < 62 ? 2 : 1;
    }
    spec.operand_count = 1;
    spec.ranks = &rank;
    spec.labels = label_lists;
    spec.extents = extent_lists;
    assert_int_equal(tensum_network_create(&spec, &network), TENSUM_OK);
    tensum_network_release(network);
    network = NULL;
    for (int i = 0; i < 65; i++) {
        extents[i] = 0; /* no elements, so that the size is no obstacle */
    }
    assert_int_equal(tensum_network_create(&spec, &network), TENSUM_STATUS_UNSUPPORTED);
    assert_non_null(strstr(tensum_last_error(), "65"));
    assert_null(network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs),
        cmocka_unit_test(ellipses),
        cmocka_unit_test(sizes_of_one),
        cmocka_unit_test(any_code_point),
        cmocka_unit_test(many_operands_and_labels),
        cmocka_unit_test(output_only_labels),
        cmocka_unit_test(malformed_expressions),
        cmocka_unit_test(mismatched_extents),
        cmocka_unit_test(specifications),
        cmocka_unit_test(number_of_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
