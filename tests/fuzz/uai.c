/* UAI models, read and, where they are tiny, solved. (Marginal MAP needs a query: the target `evidence`.) */
#include "problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static const char *const front_ends[] = {"uai", NULL};
    return fuzz_problem(bytes, length, front_ends, NULL);
}
