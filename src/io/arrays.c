#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "io/arrays.h"

tensum_status ts_element_count(const char *place, int32_t rank, const int64_t *extents, int64_t *count)
{
    int64_t product = 1;
    bool empty = false;
    for (int32_t i = 0; i < rank; i++) {
        if (extents[i] < 0) {
            return ts_fail(TENSUM_STATUS_SHAPE_MISMATCH, "%.300s: extent %lld of mode %d", place, (long long)extents[i],
                           (int)i);
        }
        empty = empty || extents[i] == 0;
        if (extents[i] != 0 && !ts_multiply(product, extents[i], &product)) {
            return ts_fail(TENSUM_STATUS_SIZE_OVERFLOW, "%.300s: the number of elements does not fit into 63 bits", place);
        }
    }
    *count = empty ? 0 : product;
    return TENSUM_OK;
}

tensum_status ts_walker_start(ts_walker *walker, const tensum_tensor *tensor)
{
    int64_t stride = 1;
    if (tensor->rank < 0 || tensor->rank > TS_ARRAY_RANK) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "a tensor of %d modes, at most %d are supported here", (int)tensor->rank,
                       TS_ARRAY_RANK);
    }
    *walker = (ts_walker){.tensor = tensor, .pointer = tensor->data, .bytes = tensum_dtype_bytes(tensor->dtype)};
    for (int32_t i = tensor->rank - 1; i >= 0; i--) {
        walker->strides[i] = (tensor->strides != NULL ? tensor->strides[i] : stride) * (int64_t)walker->bytes;
        stride *= tensor->extents[i];
    }
    return TENSUM_OK;
}

void ts_walker_step(ts_walker *walker)
{
    for (int32_t i = walker->tensor->rank - 1; i >= 0; i--) {
        walker->pointer += walker->strides[i];
        if (++walker->index[i] < walker->tensor->extents[i]) {
            return;
        }
        walker->pointer -= walker->strides[i] * walker->tensor->extents[i];
        walker->index[i] = 0;
    }
}

void ts_array_free(ts_array *array)
{
    if (array != NULL) {
        ts_free(array->name);
        ts_free(array->data);
        ts_free(array);
    }
}

tensum_status ts_arrays_append(tensum_arrays *arrays, ts_array *array)
{
    tensum_status status = ts_reserve((size_t)arrays->count + 1, sizeof *arrays->arrays, "arrays", &arrays->capacity,
                                      &arrays->arrays);
    if (status == TENSUM_OK) {
        arrays->arrays[arrays->count++] = array;
    }
    return status;
}

/* Runs of digits compare as numbers. */
static int natural_order(const char *a, const char *b)
{
    while (*a != 0 && *b != 0) {
        if (*a >= '0' && *a <= '9' && *b >= '0' && *b <= '9') {
            while (*a == '0' && a[1] >= '0' && a[1] <= '9') {
                a++;
            }
            while (*b == '0' && b[1] >= '0' && b[1] <= '9') {
                b++;
            }
            size_t m = strspn(a, "0123456789"), n = strspn(b, "0123456789");
            int result = m != n ? (m < n ? -1 : 1) : memcmp(a, b, m);
            if (result != 0) {
                return result;
            }
            a += m;
            b += n;
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    return (*a != 0) - (*b != 0);
}

static int by_name(const void *a, const void *b)
{
    const ts_array *const *x = a, *const *y = b;
    return natural_order((*x)->name, (*y)->name);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static tensum_status read_one(const char *path, tensum_arrays *arrays)
{
    tensum_status status = TENSUM_OK;
    ts_input input = {0};
    ts_array *array = NULL;
    TRY(ts_input_read(path, &input));
    if (input.length >= 2 && memcmp(input.bytes, "PK", 2) == 0) {
        TRY(ts_npz_read(&input, arrays));
    } else {
        const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
        size_t length = strlen(name);
        length -= ends_with(name, ".npy") ? 4 : 0;
        TRY(ts_npy_read(input.name, name, length, input.bytes, input.length, &array));
        TRY(ts_arrays_append(arrays, array));
        array = NULL;
    }
done:
    ts_array_free(array);
    ts_input_free(&input);
    return status;
}

static tensum_status read_folder(const char *path, tensum_arrays *arrays)
{
    tensum_status status = TENSUM_OK;
    char *file = NULL;
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return ts_fail(TENSUM_STATUS_IO, "%s: cannot be opened: %s", path, strerror(errno));
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (!ends_with(entry->d_name, ".npy")) {
            continue;
        }
        size_t room = strlen(path) + strlen(entry->d_name) + 2;
        TRY(ts_allocate(room, 1, "a file name", &file));
        snprintf(file, room, "%s/%s", path, entry->d_name);
        TRY(read_one(file, arrays));
        ts_free(file);
        file = NULL;
    }
    if (arrays->count == 0) {
        status = ts_fail(TENSUM_STATUS_IO, "%s: the folder has no .npy files", path);
    }
done:
    ts_free(file);
    closedir(folder);
    return status;
}

tensum_status tensum_arrays_read(const char *path, tensum_arrays **out)
{
    tensum_status status = TENSUM_OK;
    tensum_arrays *arrays = NULL;
    struct stat information;
    if (path == NULL || out == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "path or arrays is NULL");
    }
    TRY(ts_allocate_zero(1, sizeof *arrays, "arrays", &arrays));
    atomic_init(&arrays->references, 1);
    if (strcmp(path, "-") != 0 && stat(path, &information) == 0 && S_ISDIR(information.st_mode)) {
        TRY(read_folder(path, arrays));
    } else {
        TRY(read_one(path, arrays));
    }
    if (arrays->count > 1) {
        qsort(arrays->arrays, (size_t)arrays->count, sizeof *arrays->arrays, by_name);
    }
    *out = arrays;
    arrays = NULL;
done:
    tensum_arrays_release(arrays);
    return status;
}

tensum_arrays *tensum_arrays_retain(tensum_arrays *arrays)
{
    if (arrays != NULL) {
        atomic_fetch_add(&arrays->references, 1);
    }
    return arrays;
}

void tensum_arrays_release(tensum_arrays *arrays)
{
    if (arrays != NULL && atomic_fetch_sub(&arrays->references, 1) == 1) {
        for (int64_t i = 0; i < arrays->count; i++) {
            ts_array_free(arrays->arrays[i]);
        }
        ts_free(arrays->arrays);
        ts_free(arrays);
    }
}

int64_t tensum_arrays_count(const tensum_arrays *arrays) { return arrays != NULL ? arrays->count : 0; }

const char *tensum_arrays_name(const tensum_arrays *arrays, int64_t index)
{
    return arrays != NULL && index >= 0 && index < arrays->count ? arrays->arrays[index]->name : NULL;
}

const tensum_tensor *tensum_arrays_tensor(const tensum_arrays *arrays, int64_t index)
{
    return arrays != NULL && index >= 0 && index < arrays->count ? &arrays->arrays[index]->tensor : NULL;
}

tensum_status tensum_arrays_write(const char *path, int64_t count, const char *const *names,
                                  const tensum_tensor *tensors)
{
    ts_text bytes = {0};
    if (path == NULL || count < 0 || (count != 0 && tensors == NULL)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "path, count or tensors is not acceptable");
    }
    for (int64_t i = 0; i < count; i++) {
        if (tensors[i].device.kind == TENSUM_CUDA) {
            return ts_fail(TENSUM_STATUS_UNSUPPORTED, "tensor %lld is not in host memory", (long long)i);
        }
    }
    if (ends_with(path, ".npz")) {
        return names == NULL ? ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "an archive needs names")
                             : ts_npz_write(path, count, names, tensors);
    }
    if (count != 1) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s: a .npy file holds one tensor, not %lld; use .npz", path,
                       (long long)count);
    }
    tensum_status status = ts_npy_write(tensors, &bytes);
    if (status == TENSUM_OK) {
        status = ts_output_write(path, bytes.bytes, bytes.length);
    }
    ts_text_free(&bytes);
    return status;
}
