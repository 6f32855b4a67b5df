/* QUBO and Ising files: every input is read as both. */
#include "problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static const char *const front_ends[] = {"qubo", "ising", NULL};
    static const char *const settings[] = {"beta=0.5", NULL};
    return fuzz_problem(bytes, length, front_ends, settings);
}
