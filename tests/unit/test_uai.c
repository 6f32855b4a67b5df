/* Models in the UAI format: reading, evidence in its forms, and answers worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the above */
#include <cmocka.h>
#include <math.h>

#include "problems/uai.h"

/* Two variables: a (2 values), b (3). Weight of (a, b): f(a) g(b, a). */
static const char model_text[] = "MARKOV\n2\n2 3\n3\n1 0\n2 1 0\n0\n2\n 1 2\n6\n 1 0 2 3 0 5\n1\n 10\n";
/* g(0, 0) = 1, g(0, 1) = 0, g(1, 0) = 2, g(1, 1) = 3, g(2, 0) = 0, g(2, 1) = 5 */

static ts_input input_of(const char *text)
{
    ts_input input;
    assert_int_equal(ts_input_from_memory("file", text, strlen(text), &input), TENSUM_OK);
    return input;
}

static ts_uai_model model_of(const char *text)
{
    ts_uai_model model;
    ts_input input = input_of(text);
    assert_int_equal(ts_uai_read_model(&input, &model), TENSUM_OK);
    ts_input_free(&input);
    return model;
}

static void model_is_read(void **state)
{
    (void)state;
    ts_uai_model model = model_of(model_text);
    assert_true(model.variable_count == 2 && model.cards[0] == 2 && model.cards[1] == 3);
    assert_true(model.factor_count == 3);
    assert_true(model.scope_offsets[1] == 1 && model.scope_offsets[2] == 3 && model.scope_offsets[3] == 3);
    assert_true(model.scopes[1] == 1 && model.scopes[2] == 0);
    assert_true(model.tables[2 + 3] == 3.0);
    double magnitude;
    const int64_t x[2] = {1, 2}; /* 2 * 5 * 10 */
    assert_true(fabs(ts_uai_score(&model, x, &magnitude) - log(100.0)) < 1e-15);
    assert_true(fabs(magnitude - log(100.0)) < 1e-15);
    const int64_t impossible[2] = {1, 0};
    assert_true(ts_uai_score(&model, impossible, &magnitude) == -INFINITY);
    ts_uai_free(&model);
}

static void evidence_in_its_forms(void **state)
{
    static const struct {
        const char *text;
        int64_t sample, a, b; /* -2: an error */
    } cases[] = {
        {"", 0, -1, -1},
        {"0", 0, -1, -1},
        {"0\n", 0, -1, -1},
        {"1 1 2", 0, -1, 2},
        {"2 1 2 0 1\n", 0, 1, 2},
        {"1\n1 1 2\n", 0, -1, 2},       /* one sample */
        {"1 1 1 2", 0, -1, 2},          /* the same on one line: 1 sample of 1 pair */
        {"1\n2 0 1 1 0\n", 0, 1, 0},
        {"2\n1 0 1\n2 0 0 1 2\n", 0, 1, -1}, /* by lines */
        {"2\n1 0 1\n2 0 0 1 2\n", 1, 0, 2},
        {"2\n0\n1 1 1", 0, 1, 1},       /* five tokens, two pairs: plain, whatever the lines */
        {"2\n0\n1 1 1\n0 0", 0, -2, -2},
        {"2\n1 0 1\n2 0 0 1 2\n", 2, -2, -2},
        {"2\n1 0 1\n", 0, -2, -2},
        {"2 1 0\n", 0, -2, -2},
        {"1 0", 0, 0, -1},              /* one sample without pairs is no valid reading of "1 0 x" */
        {"1 2 0", 0, -2, -2},           /* no such variable */
        {"1 0 2", 0, -2, -2},           /* no such value */
        {"2 0 1 0 1", 0, 1, -1},        /* said twice */
        {"2 0 1 0 0", 0, -2, -2},       /* and contradicted */
        {"1 0 0", 1, -2, -2},           /* there is one sample only */
        {"1 0 -1", 0, -2, -2},
        {"1 0 0.5", 0, -2, -2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ts_uai_model model = model_of(model_text);
        ts_input input = input_of(cases[i].text);
        tensum_status status = ts_uai_read_evidence(&input, cases[i].sample, &model);
        if (strcmp(cases[i].text, "1 0") == 0) { /* T = 2 + 2 * 0: one sample that observes nothing */
            assert_int_equal(status, TENSUM_OK);
            assert_true(model.evidence[0] == -1 && model.evidence[1] == -1);
        } else if (cases[i].a == -2) {
            if (status != TENSUM_STATUS_MALFORMED) {
                fail_msg("accepted: '%s'", cases[i].text);
            }
            assert_true(strncmp(tensum_last_error(), "file:", 5) == 0);
        } else if (status != TENSUM_OK || model.evidence[0] != cases[i].a || model.evidence[1] != cases[i].b) {
            fail_msg("'%s', sample %d: %s, %d %d", cases[i].text, (int)cases[i].sample, tensum_last_error(),
                     (int)model.evidence[0], (int)model.evidence[1]);
        }
        ts_input_free(&input);
        ts_uai_free(&model);
    }
}

static void queries(void **state)
{
    int64_t count, *variables;
    (void)state;
    ts_uai_model model = model_of(model_text);
    ts_input input = input_of("2 1 0\n");
    assert_int_equal(ts_uai_read_query(&input, &model, &count, &variables), TENSUM_OK);
    assert_true(count == 2 && variables[0] == 1 && variables[1] == 0);
    ts_free(variables);
    ts_input_free(&input);
    static const char *const wrong[] = {"", "2 1", "1 2", "2 1 1", "1 0 0", "-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        input = input_of(wrong[i]);
        assert_int_equal(ts_uai_read_query(&input, &model, &count, &variables), TENSUM_STATUS_MALFORMED);
        ts_input_free(&input);
    }
    ts_uai_free(&model);
}

static tensum_status solve(const char *text, const char *task, tensum_answer **answer)
{
    tensum_problem_options options = TENSUM_PROBLEM_OPTIONS_INIT;
    ts_input input = {0};
    tensum_problem *problem = NULL;
    tensum_status status = ts_input_from_memory("file", text, strlen(text), &input);
    options.task = task;
    options.front_end = "uai";
    if (status == TENSUM_OK) {
        status = ts_problem_from_input(&input, &options, &problem);
    }
    if (status == TENSUM_OK) {
        status = tensum_problem_solve(problem, NULL, answer);
    }
    tensum_problem_release(problem);
    ts_input_free(&input);
    return status;
}

/* All weights: (0,0) 10, (0,1) 20, (0,2) 0, (1,0) 0, (1,1) 60, (1,2) 100. Z = 190. */
static void answers_by_hand(void **state)
{
    static const double a[] = {30.0 / 190, 160.0 / 190}, b[] = {10.0 / 190, 80.0 / 190, 100.0 / 190};
    tensum_answer *answer;
    const int64_t *offsets;
    const double *p;
    (void)state;
    assert_int_equal(solve(model_text, "pr", &answer), TENSUM_OK);
    assert_string_equal(tensum_answer_value_name(answer), "log10_value");
    assert_true(fabs(tensum_answer_value(answer) - log10(190.0)) < 1e-14);
    tensum_answer_release(answer);
    assert_int_equal(solve(model_text, "mpe", &answer), TENSUM_OK);
    assert_true(fabs(tensum_answer_value(answer) - 2.0) < 1e-14);
    assert_true(tensum_answer_variable_count(answer) == 2 && tensum_answer_assignment_count(answer) == 1);
    assert_true(tensum_answer_assignment(answer, 0)[0] == 1 && tensum_answer_assignment(answer, 0)[1] == 2);
    assert_null(tensum_answer_assignment(answer, 1));
    assert_string_equal(tensum_answer_text(answer), "MAP\n2 1 2\n");
    tensum_answer_release(answer);
    assert_int_equal(solve(model_text, "mar", &answer), TENSUM_OK);
    assert_true(tensum_answer_marginals(answer, &offsets, &p) == 2);
    assert_true(offsets[0] == 0 && offsets[1] == 2 && offsets[2] == 5);
    for (int i = 0; i < 5; i++) {
        assert_true(fabs(p[i] - (i < 2 ? a[i] : b[i - 2])) < 1e-14);
    }
    tensum_answer_release(answer);
}

static void nothing_is_possible(void **state)
{
    tensum_answer *answer;
    static const char text[] = "MARKOV 2 2 2 2 1 0 0 2 0 1 1 0"; /* a constant factor of zero */
    (void)state;
    assert_int_equal(solve(text, "pr", &answer), TENSUM_OK);
    assert_true(tensum_answer_value(answer) == -INFINITY);
    assert_string_equal(tensum_answer_value_text(answer), "-inf");
    tensum_answer_release(answer);
    assert_int_equal(solve(text, "map", &answer), TENSUM_STATUS_INFEASIBLE);
    assert_int_equal(solve(text, "mar", &answer), TENSUM_STATUS_INFEASIBLE);
}

static void edges_of_the_format(void **state)
{
    tensum_answer *answer;
    (void)state;
    assert_int_equal(solve("MARKOV 0 0", "pr", &answer), TENSUM_OK); /* no variables: Z is the empty product */
    assert_true(tensum_answer_value(answer) == 0.0);
    tensum_answer_release(answer);
    assert_int_equal(solve("BAYES 2 2 5 1 1 0 2 0.5 0.5", "pr", &answer), TENSUM_OK); /* a variable without a factor */
    assert_true(fabs(tensum_answer_value(answer) - log10(5.0)) < 1e-15);
    tensum_answer_release(answer);
    assert_int_equal(solve("MARKOV 1 1 1 1 0 1 7", "map", &answer), TENSUM_OK); /* one value */
    assert_true(fabs(tensum_answer_value(answer) - log10(7.0)) < 1e-15);
    tensum_answer_release(answer);
}

static void every_allocation_may_fail(void **state)
{
    static const char *const tasks[] = {"map", "pr", "mar"};
    (void)state;
    for (int t = 0; t < 3; t++) {
        long live = ts_test_live_allocations();
        for (long n = 1;; n++) {
            tensum_answer *answer = NULL;
            ts_test_fail_allocation(n);
            tensum_status status = solve(model_text, tasks[t], &answer);
            ts_test_fail_allocation(0);
            tensum_answer_release(answer);
            if (ts_test_live_allocations() != live) {
                fail_msg("allocation %ld of task %s: %ld blocks leak", n, tasks[t], ts_test_live_allocations() - live);
            }
            if (status == TENSUM_OK) {
                assert_true(n > 50);
                break;
            }
            assert_int_equal(status, TENSUM_STATUS_OUT_OF_MEMORY);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_is_read),       cmocka_unit_test(evidence_in_its_forms),
        cmocka_unit_test(queries),             cmocka_unit_test(answers_by_hand),
        cmocka_unit_test(nothing_is_possible), cmocka_unit_test(edges_of_the_format),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
