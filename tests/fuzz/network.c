/* Every network format. What is accepted must survive a round trip through the project's own format. */
#include <string.h>

#include "fuzz.h"
#include "io/file.h"

static void round_trip(const tensum_file *file)
{
    ts_text first = {0}, second = {0};
    ts_input input;
    tensum_file *again;
    FUZZ_CHECK(ts_file_to_text(NULL, tensum_file_network(file), tensum_file_tree(file), file, &first) == TENSUM_OK);
    FUZZ_CHECK(ts_input_from_memory("again", first.bytes, first.length, &input) == TENSUM_OK);
    FUZZ_CHECK(ts_file_from_input(&input, NULL, &again) == TENSUM_OK);
    FUZZ_CHECK(ts_file_to_text(NULL, tensum_file_network(again), tensum_file_tree(again), again, &second) == TENSUM_OK);
    FUZZ_CHECK(first.length == second.length && memcmp(first.bytes, second.bytes, first.length) == 0);
    tensum_file_release(again);
    ts_input_free(&input);
    ts_text_free(&first);
    ts_text_free(&second);
}

/* A network of three labels in a chain, for decompositions. */
static tensum_network *chain(void)
{
    static const int64_t labels[] = {1, 2, 2, 3}, extents[] = {2, 2, 2, 2};
    static const int64_t *const label_lists[] = {labels, labels + 2}, *const extent_lists[] = {extents, extents + 2};
    static const int32_t ranks[] = {2, 2};
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    tensum_network *network;
    spec.operand_count = 2;
    spec.ranks = ranks;
    spec.labels = label_lists;
    spec.extents = extent_lists;
    FUZZ_CHECK(tensum_network_create(&spec, &network) == TENSUM_OK);
    return network;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    ts_input input;
    tensum_file *file;
    tensum_file_options options = TENSUM_FILE_OPTIONS_INIT;
    if (length >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) {
        return 0; /* what unpacks to gigabytes is no bug */
    }
    FUZZ_CHECK(ts_input_from_memory("fuzz", bytes, length, &input) == TENSUM_OK);
    options.extent = 2;
    options.network = length > 3 && bytes[0] == 's' ? chain() : NULL;
    if (ts_file_from_input(&input, &options, &file) == TENSUM_OK) {
        round_trip(file);
        for (int i = 0; tensum_file_format_name(i) != NULL; i++) { /* writers must cope with whatever was read */
            ts_text text = {0};
            (void)ts_file_to_text(tensum_file_format_name(i), tensum_file_network(file), tensum_file_tree(file), file, &text);
            ts_text_free(&text);
        }
        tensum_file_release(file);
    }
    tensum_network_release(options.network);
    ts_input_free(&input);
    return 0;
}
