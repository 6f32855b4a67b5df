/* .npy and .npz. Inputs that begin with neither's magic bytes are the header and the data of a .npy file, split at the
 * first newline, so that inputs can be written by hand. */
#include <string.h>

#include "fuzz.h"
#include "io/arrays.h"

static void use(const ts_array *array)
{
    int64_t count;
    ts_walker walker;
    FUZZ_CHECK(ts_element_count("x", array->tensor.rank, array->tensor.extents, &count) == TENSUM_OK);
    FUZZ_CHECK(ts_walker_start(&walker, &array->tensor) == TENSUM_OK);
    unsigned sum = 0;
    for (int64_t i = 0; i < count; i++) { /* every element is there to be read */
        for (size_t b = 0; b < walker.bytes; b++) {
            sum += (unsigned char)walker.pointer[b];
        }
        ts_walker_step(&walker);
    }
    ts_text again = {0};
    ts_array *back;
    FUZZ_CHECK(ts_npy_write(&array->tensor, &again) == TENSUM_OK);
    FUZZ_CHECK(ts_npy_read("again", "again", 5, again.bytes, again.length, &back) == TENSUM_OK);
    FUZZ_CHECK(back->tensor.rank == array->tensor.rank && back->tensor.dtype == array->tensor.dtype);
    ts_array_free(back);
    ts_text_free(&again);
    volatile unsigned sink = sum;
    (void)sink;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    ts_array *array;
    if (length > 4 && memcmp(bytes, "PK", 2) == 0) {
        tensum_arrays arrays = {0};
        ts_input input = {.name = (char *)(uintptr_t)"fuzz", .bytes = (char *)(uintptr_t)bytes, .length = length};
        (void)ts_npz_read(&input, &arrays);
        for (int64_t i = 0; i < arrays.count; i++) {
            use(arrays.arrays[i]);
            ts_array_free(arrays.arrays[i]);
        }
        ts_free(arrays.arrays);
        return 0;
    }
    tensum_status status;
    if (length > 6 && memcmp(bytes, "\x93NUMPY", 6) == 0) {
        status = ts_npy_read("fuzz", "fuzz", 4, bytes, length, &array);
    } else {
        ts_text file = {0};
        const uint8_t *end = length != 0 ? memchr(bytes, '\n', length) : NULL;
        size_t header = end != NULL ? (size_t)(end - bytes) + 1 : length;
        uint8_t prefix[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, (uint8_t)(header & 255), (uint8_t)(header >> 8 & 255),
                              (uint8_t)(header >> 16), 0};
        ts_text_add_bytes(&file, prefix, sizeof prefix);
        ts_text_add_bytes(&file, bytes, length);
        status = ts_npy_read("fuzz", "fuzz", 4, file.bytes, file.length, &array);
        ts_text_free(&file);
    }
    if (status == TENSUM_OK) {
        use(array);
        ts_array_free(array);
    }
    return 0;
}
