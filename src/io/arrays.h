/* The object behind tensum_arrays, and .npy in memory. */
#ifndef TS_IO_ARRAYS_H
#define TS_IO_ARRAYS_H

#include <stdatomic.h>

#include "io/text.h"

#define TS_ARRAY_RANK 64 /* NumPy's own limit */

typedef struct ts_array {
    char *name;
    void *data; /* aligned, owned */
    int64_t extents[TS_ARRAY_RANK], strides[TS_ARRAY_RANK];
    tensum_tensor tensor; /* points to the above: an array must not move once it is set up */
} ts_array;

struct tensum_arrays {
    atomic_int references;
    int64_t count;
    ts_array **arrays;
    size_t capacity;
};

/* Parse .npy bytes into a new array. `place` names it in messages, `name` is its name. */
tensum_status ts_npy_read(const char *place, const char *name, size_t name_length, const void *bytes, size_t length,
                          ts_array **array);
/* The .npy bytes of a host tensor, row-major. */
tensum_status ts_npy_write(const tensum_tensor *tensor, ts_text *bytes);
void ts_array_free(ts_array *array);
/* Read a .npz archive (bytes of a zip file) into `arrays`, in the archive's order. */
tensum_status ts_npz_read(const ts_input *input, tensum_arrays *arrays);
tensum_status ts_npz_write(const char *path, int64_t count, const char *const *names, const tensum_tensor *tensors);
tensum_status ts_arrays_append(tensum_arrays *arrays, ts_array *array);
/* Number of elements; SIZE_OVERFLOW, and MALFORMED extents (negative), named by `place`. */
tensum_status ts_element_count(const char *place, int32_t rank, const int64_t *extents, int64_t *count);
/* Visit a strided tensor's elements in row-major order: pointers to them. */
typedef struct ts_walker {
    const tensum_tensor *tensor;
    int64_t index[TS_ARRAY_RANK];
    int64_t strides[TS_ARRAY_RANK];
    char *pointer;
    size_t bytes;
} ts_walker;
/* UNSUPPORTED above TS_ARRAY_RANK modes. */
tensum_status ts_walker_start(ts_walker *walker, const tensum_tensor *tensor);
void ts_walker_step(ts_walker *walker);

#endif
