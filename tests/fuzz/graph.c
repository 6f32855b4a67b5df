/* Graphs in every format, for every question. */
#include "problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static const char *const front_ends[] = {"graph", NULL};
    return fuzz_problem(bytes, length, front_ends, NULL);
}
