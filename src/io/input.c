#include <errno.h>
#include <stdio.h>
#include <zlib.h>

#include "io/text.h"

#define LONGEST_INPUT ((size_t)4 << 30) /* bytes after expansion; stops gzip bombs */
#define CHUNK ((size_t)1 << 18)

static tensum_status too_long(const char *name)
{
    return ts_fail(TENSUM_STATUS_MALFORMED, "%s: longer than %zu GiB, which no reader accepts", name,
                   LONGEST_INPUT >> 30);
}

static tensum_status read_stream(FILE *stream, const char *name, char **bytes, size_t *length)
{
    tensum_status status = TENSUM_OK;
    char *buffer = NULL;
    size_t capacity = 0, used = 0, got;
    do {
        TRY(ts_reserve(used + CHUNK + 1, 1, "an input file", &capacity, &buffer));
        got = fread(buffer + used, 1, capacity - used - 1, stream);
        used += got;
        if (used > LONGEST_INPUT) {
            status = too_long(name);
            goto done;
        }
    } while (got != 0);
    if (ferror(stream)) {
        status = ts_fail(TENSUM_STATUS_IO, "%s: cannot be read: %s", name, strerror(errno));
        goto done;
    }
    buffer[used] = 0;
    *bytes = buffer;
    *length = used;
    buffer = NULL;
done:
    ts_free(buffer);
    return status;
}

/* Expand concatenated gzip members. */
static tensum_status expand(const char *name, const char *packed, size_t packed_length, char **bytes, size_t *length)
{
    tensum_status status = TENSUM_OK;
    z_stream stream = {0};
    char *buffer = NULL;
    size_t capacity = 0, used = 0, fed = 0;
    int result = inflateInit2(&stream, 16 + MAX_WBITS);
    if (result != Z_OK) {
        return ts_fail(TENSUM_STATUS_OUT_OF_MEMORY, "%s: out of memory for expanding gzip data", name);
    }
    for (;;) {
        if (stream.avail_in == 0 && fed < packed_length) {
            size_t part = packed_length - fed < CHUNK ? packed_length - fed : CHUNK;
            stream.next_in = (Bytef *)(uintptr_t)(packed + fed);
            stream.avail_in = (uInt)part;
            fed += part;
        }
        TRY(ts_reserve(used + CHUNK + 1, 1, "an expanded input file", &capacity, &buffer));
        stream.next_out = (Bytef *)buffer + used;
        stream.avail_out = (uInt)CHUNK;
        result = inflate(&stream, Z_NO_FLUSH);
        used += CHUNK - stream.avail_out;
        if (used > LONGEST_INPUT) {
            status = too_long(name);
            goto done;
        }
        if (result == Z_STREAM_END) {
            if (stream.avail_in == 0 && fed == packed_length) {
                break;
            }
            if (inflateReset(&stream) != Z_OK) {
                status = ts_fail(TENSUM_STATUS_MALFORMED, "%s: gzip data cannot be expanded", name);
                goto done;
            }
        } else if (result != Z_OK || (stream.avail_in == 0 && fed == packed_length && stream.avail_out != 0)) {
            status = ts_fail(TENSUM_STATUS_MALFORMED, "%s: gzip data is %s after %zu expanded bytes", name,
                             result == Z_OK || result == Z_BUF_ERROR ? "truncated" : "damaged", used);
            goto done;
        }
    }
    buffer[used] = 0;
    *bytes = buffer;
    *length = used;
    buffer = NULL;
done:
    inflateEnd(&stream);
    ts_free(buffer);
    return status;
}

static tensum_status copy_name(const char *name, char **copy)
{
    tensum_status status = ts_allocate(strlen(name) + 1, 1, "a file name", copy);
    if (status == TENSUM_OK) {
        memcpy(*copy, name, strlen(name) + 1);
    }
    return status;
}

/* Take raw bytes over and expand them if need be. */
static tensum_status finish(const char *name, char *bytes, size_t length, ts_input *input)
{
    tensum_status status = TENSUM_OK;
    char *name_copy = NULL, *expanded = NULL;
    TRY(copy_name(name, &name_copy));
    if (length >= 2 && (unsigned char)bytes[0] == 0x1f && (unsigned char)bytes[1] == 0x8b) {
        TRY(expand(name, bytes, length, &expanded, &length));
        ts_free(bytes);
        bytes = expanded;
    }
    input->name = name_copy;
    input->bytes = bytes;
    input->length = length;
    name_copy = NULL;
    bytes = NULL;
done:
    ts_free(name_copy);
    ts_free(bytes);
    return status;
}

tensum_status ts_input_read(const char *path, ts_input *input)
{
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "<stdin>" : path;
    char *bytes = NULL;
    size_t length = 0;
    FILE *stream = standard ? stdin : fopen(path, "rb");
    if (stream == NULL) {
        return ts_fail(TENSUM_STATUS_IO, "%s: cannot be opened: %s", path, strerror(errno));
    }
    tensum_status status = read_stream(stream, name, &bytes, &length);
    if (!standard) {
        fclose(stream);
    }
    return status == TENSUM_OK ? finish(name, bytes, length, input) : status;
}

tensum_status ts_input_from_memory(const char *name, const void *bytes, size_t length, ts_input *input)
{
    char *copy = NULL;
    tensum_status status = ts_allocate(length + 1, 1, "an input", &copy);
    if (status != TENSUM_OK) {
        return status;
    }
    if (length != 0) {
        memcpy(copy, bytes, length);
    }
    copy[length] = 0;
    return finish(name, copy, length, input);
}

void ts_input_free(ts_input *input)
{
    ts_free(input->name);
    ts_free(input->bytes);
    *input = (ts_input){0};
}

int64_t ts_input_most(const ts_input *input) { return (INT64_C(1) << 20) + (int64_t)input->length; }

tensum_status ts_input_fail(const ts_input *input, size_t offset, const char *format, ...)
{
    char text[512];
    size_t line = 1, start = 0;
    if (offset > input->length) {
        offset = input->length;
    }
    for (size_t i = 0; i < offset; i++) {
        if (input->bytes[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return ts_fail(TENSUM_STATUS_MALFORMED, "%.300s:%zu:%zu: %s", input->name, line, offset - start + 1, text);
}
