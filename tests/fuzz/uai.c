/* UAI models, read and set up as problems of every task. */
#include <string.h>

#include "fuzz.h"
#include "problems/problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static const char *const tasks[] = {"map", "pr", "mar"};
    ts_input input;
    tensum_problem *problem;
    tensum_problem_options options = TENSUM_PROBLEM_OPTIONS_INIT;
    if (length > 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) {
        return 0;
    }
    FUZZ_CHECK(ts_input_from_memory("fuzz", bytes, length, &input) == TENSUM_OK);
    options.front_end = "uai";
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        options.task = tasks[i];
        if (ts_problem_from_input(&input, &options, &problem) == TENSUM_OK) {
            tensum_problem_release(problem);
        } else {
            FUZZ_CHECK(tensum_last_error()[0] != 0);
        }
    }
    ts_input_free(&input);
    return 0;
}
