/* Formulas: counting (plain, weighted, projected) and MaxSAT. */
#include "problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static const char *const front_ends[] = {"cnf", "maxsat", NULL};
    return fuzz_problem(bytes, length, front_ends, NULL);
}
