/* Einsum expressions. The first line holds the ranks of the operands, the rest is the expression. */
#include <string.h>

#include "fuzz.h"
#include "io/text.h"

enum { MOST = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static const int64_t two[MOST] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    const int64_t *extents[MOST];
    int32_t ranks[MOST];
    int64_t count = 0, rank;
    tensum_network *network;
    ts_input input;
    ts_scanner scanner;
    if (length >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) {
        return 0;
    }
    FUZZ_CHECK(ts_input_from_memory("fuzz", bytes, length, &input) == TENSUM_OK);
    ts_scanner_start(&scanner, &input);
    while (count < MOST && ts_scan_in_line(&scanner) &&
           ts_token_integer(&scanner, "a rank", 0, MOST, &rank) == TENSUM_OK) {
        ranks[count] = (int32_t)rank;
        extents[count++] = two;
    }
    ts_scan_next_line(&scanner);
    const char *expression = input.bytes + scanner.position; /* followed by a 0 byte */
    if (tensum_network_parse(expression, count, ranks, extents, 0, NULL, NULL, &network) == TENSUM_OK) {
        FUZZ_CHECK(tensum_network_operand_count(network) == count);
        for (int64_t i = 0; i < count; i++) {
            int32_t found;
            FUZZ_CHECK(tensum_network_operand(network, i, &found, NULL, NULL) == TENSUM_OK && found == ranks[i]);
        }
        tensum_network_release(network);
    } else {
        FUZZ_CHECK(tensum_last_error()[0] != 0);
    }
    ts_input_free(&input);
    return 0;
}
