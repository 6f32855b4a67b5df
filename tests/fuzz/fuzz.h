/* What a fuzz target is. It must not crash, leak or run for long on any input; it may also call FUZZ_CHECK. */
#ifndef TENSUM_FUZZ_FUZZ_H
#define TENSUM_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define FUZZ_CHECK(condition)     \
    do {                          \
        if (!(condition)) abort(); \
    } while (0)

#endif
