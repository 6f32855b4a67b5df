/* .npz: a zip archive of .npy files. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>
#include <zip.h>

#include "io/arrays.h"

#define LONGEST_MEMBER ((zip_uint64_t)64 << 30)
#define CHUNK ((size_t)1 << 20)

static tensum_status read_member(zip_t *archive, zip_uint64_t index, const char *place, char **bytes, size_t *length)
{
    tensum_status status = TENSUM_OK;
    size_t capacity = 0, used = 0;
    char *buffer = NULL;
    zip_file_t *member = zip_fopen_index(archive, index, 0);
    if (member == NULL) {
        return ts_fail(TENSUM_STATUS_MALFORMED, "%.300s: %s", place, zip_strerror(archive));
    }
    for (;;) {
        TRY(ts_reserve(used + CHUNK, 1, "a member of an archive", &capacity, &buffer));
        zip_int64_t got = zip_fread(member, buffer + used, CHUNK);
        if (got < 0) {
            status = ts_fail(TENSUM_STATUS_MALFORMED, "%.300s: %s", place, zip_file_strerror(member));
            goto done;
        }
        used += (size_t)got;
        if (got == 0) {
            break;
        }
        if (used > LONGEST_MEMBER) {
            status = ts_fail(TENSUM_STATUS_MALFORMED, "%.300s: longer than any array that is accepted", place);
            goto done;
        }
    }
    *bytes = buffer;
    *length = used;
    buffer = NULL;
done:
    zip_fclose(member);
    ts_free(buffer);
    return status;
}

tensum_status ts_npz_read(const ts_input *input, tensum_arrays *arrays)
{
    tensum_status status = TENSUM_OK;
    zip_error_t error;
    zip_t *archive = NULL;
    char *bytes = NULL;
    ts_array *array = NULL;
    zip_error_init(&error);
    zip_source_t *source = zip_source_buffer_create(input->bytes, input->length, 0, &error);
    if (source == NULL) {
        status = ts_fail(TENSUM_STATUS_OUT_OF_MEMORY, "%.300s: %s", input->name, zip_error_strerror(&error));
        goto done;
    }
    archive = zip_open_from_source(source, ZIP_RDONLY, &error);
    if (archive == NULL) {
        status = ts_fail(TENSUM_STATUS_MALFORMED, "%.300s: expected a .npz archive: %s", input->name,
                         zip_error_strerror(&error));
        zip_source_free(source);
        goto done;
    }
    zip_int64_t count = zip_get_num_entries(archive, 0);
    for (zip_int64_t i = 0; i < count; i++) {
        char place[512];
        size_t length = 0;
        const char *name = zip_get_name(archive, (zip_uint64_t)i, 0);
        if (name == NULL) {
            status = ts_fail(TENSUM_STATUS_MALFORMED, "%.300s: %s", input->name, zip_strerror(archive));
            goto done;
        }
        size_t name_length = strlen(name);
        if (name_length < 4 || strcmp(name + name_length - 4, ".npy") != 0) {
            status = ts_fail(TENSUM_STATUS_MALFORMED, "%.300s: member '%.100s' is not a .npy file", input->name, name);
            goto done;
        }
        snprintf(place, sizeof place, "%.300s(%.100s)", input->name, name);
        TRY(read_member(archive, (zip_uint64_t)i, place, &bytes, &length));
        TRY(ts_npy_read(place, name, name_length - 4, bytes, length, &array));
        ts_free(bytes);
        bytes = NULL;
        TRY(ts_arrays_append(arrays, array));
        array = NULL;
    }
done:
    if (archive != NULL) {
        zip_discard(archive);
    }
    zip_error_fini(&error);
    ts_free(bytes);
    ts_array_free(array);
    return status;
}

tensum_status ts_npz_write(const char *path, int64_t count, const char *const *names, const tensum_tensor *tensors)
{
    tensum_status status = TENSUM_OK;
    zip_t *archive = NULL;
    ts_text *members = NULL;
    char *temporary = NULL, name[300];
    int error = 0;
    size_t room = strlen(path) + 40;
    TRY(ts_allocate_zero((size_t)count, sizeof *members, "an archive", &members));
    TRY(ts_allocate(room, 1, "a file name", &temporary));
    snprintf(temporary, room, "%s.%ld.tmp", path, (long)getpid());
    archive = zip_open(temporary, ZIP_CREATE | ZIP_TRUNCATE, &error);
    if (archive == NULL) {
        status = ts_fail(TENSUM_STATUS_IO, "%s: cannot be written: %s", path, strerror(errno));
        goto done;
    }
    for (int64_t i = 0; i < count; i++) {
        TRY(ts_npy_write(&tensors[i], &members[i]));
        snprintf(name, sizeof name, "%.290s.npy", names[i]);
        zip_source_t *source = zip_source_buffer(archive, members[i].bytes, members[i].length, 0);
        zip_int64_t index = source != NULL ? zip_file_add(archive, name, source, ZIP_FL_ENC_UTF_8) : -1;
        if (index < 0 || zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0) != 0) {
            status = ts_fail(TENSUM_STATUS_IO, "%s: member '%s' cannot be added: %s", path, name, zip_strerror(archive));
            if (index < 0 && source != NULL) {
                zip_source_free(source);
            }
            goto done;
        }
    }
    if (zip_close(archive) != 0) {
        status = ts_fail(TENSUM_STATUS_IO, "%s: cannot be written: %s", path, zip_strerror(archive));
        goto done;
    }
    archive = NULL;
    if (count != 0 && rename(temporary, path) != 0) { /* libzip writes no empty archive */
        status = ts_fail(TENSUM_STATUS_IO, "%s: cannot be written: %s", path, strerror(errno));
        unlink(temporary);
    }
done:
    if (archive != NULL) {
        zip_discard(archive); /* nothing has been written yet */
    }
    for (int64_t i = 0; members != NULL && i < count; i++) {
        ts_text_free(&members[i]);
    }
    ts_free(members);
    ts_free(temporary);
    return status;
}
