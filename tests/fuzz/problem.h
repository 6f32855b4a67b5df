/* What the targets of the front ends share: set a problem up for one question and task, and solve it where it is tiny.
 * The front ends score every assignment from the file themselves and report INTERNAL where it does not hold. */
#ifndef TENSUM_FUZZ_PROBLEM_H
#define TENSUM_FUZZ_PROBLEM_H

#include <string.h>

#include "fuzz.h"
#include "problems/problem.h"

enum { FUZZ_LARGEST_BLOCK = 1 << 18, FUZZ_MOST_OPERANDS = 48, FUZZ_MOST_VALUES = 1 << 12 };

/* Few operands, and few assignments in all. */
static inline bool fuzz_tiny(const tensum_problem *problem)
{
    const int64_t *extents = NULL;
    int64_t product = 1;
    if (problem->operand_count > FUZZ_MOST_OPERANDS) {
        return false;
    }
    for (int64_t i = 0; i < problem->operand_count; i++) {
        int32_t rank = 0;
        FUZZ_CHECK(tensum_network_operand(problem->network, i, &rank, NULL, &extents) == TENSUM_OK);
        for (int32_t m = 0; rank == 1 && m < rank; m++) { /* models give every variable an operand of its own */
            product *= extents[m];
            if (product > FUZZ_MOST_VALUES) {
                return false;
            }
        }
    }
    return tensum_network_label_count(problem->network) <= 16;
}

static inline void fuzz_solve(tensum_problem *problem)
{
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    tensum_solve_options options = TENSUM_SOLVE_OPTIONS_INIT;
    tensum_answer *answer;
    order.method = "greedy";
    options.order = &order;
    tensum_status status = tensum_problem_solve(problem, &options, &answer);
    if (status == TENSUM_OK) {
        FUZZ_CHECK(tensum_answer_text(answer)[0] != 0 && tensum_answer_value_text(answer)[0] != 0);
        tensum_answer_release(answer);
    } else {
        FUZZ_CHECK(status != TENSUM_STATUS_INTERNAL && tensum_last_error()[0] != 0);
    }
}

/* The word number `index`, counted round, of a list such as "map|mpe pr mar". */
static inline void fuzz_word(const char *list, unsigned index, char word[40])
{
    unsigned count = 1;
    for (const char *c = list; *c != 0; c++) {
        count += *c == ' ';
    }
    for (index %= count; index != 0; list++) {
        index -= *list == ' ';
    }
    size_t length = strcspn(list, " |");
    FUZZ_CHECK(length < 40);
    memcpy(word, list, length);
    word[length] = 0;
}

/* Read the input as every front end of `front_ends` (ended by NULL), for a question and a task that its bytes choose. */
static inline int fuzz_problem(const uint8_t *bytes, size_t length, const char *const *front_ends, const char *const *settings)
{
    ts_input input;
    unsigned choice = 2166136261u;
    long live = ts_test_live_allocations();
    if (length >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) {
        return 0; /* what unpacks to gigabytes is no bug */
    }
    for (size_t i = 0; i < length; i++) {
        choice = (choice ^ bytes[i]) * 16777619u;
    }
    FUZZ_CHECK(ts_input_from_memory("fuzz", bytes, length, &input) == TENSUM_OK);
    ts_test_limit_allocations(FUZZ_LARGEST_BLOCK);
    for (int f = 0; tensum_front_end_name(f) != NULL; f++) {
        bool wanted = false;
        for (const char *const *name = front_ends; *name != NULL; name++) {
            wanted = wanted || strcmp(*name, tensum_front_end_name(f)) == 0;
        }
        if (!wanted) {
            continue;
        }
        char task[40], question[40];
        tensum_problem *problem;
        tensum_problem_options options = TENSUM_PROBLEM_OPTIONS_INIT;
        fuzz_word(tensum_front_end_tasks(f), choice >> 4 & 255, task);
        fuzz_word(tensum_front_end_questions(f), choice >> 12 & 255, question);
        options.front_end = tensum_front_end_name(f);
        options.task = task;
        options.question = question[0] != 0 ? question : NULL;
        options.count = 3;
        options.settings = settings;
        if (ts_problem_from_input(&input, &options, &problem) == TENSUM_OK) {
            if ((choice & 3) == 0 && fuzz_tiny(problem)) { /* reading is what most inputs are for */
                fuzz_solve(problem);
            }
            tensum_problem_release(problem);
        } else {
            FUZZ_CHECK(tensum_last_error()[0] != 0);
        }
    }
    ts_test_limit_allocations(0);
    ts_input_free(&input);
    FUZZ_CHECK(ts_test_live_allocations() == live);
    return 0;
}

#endif
