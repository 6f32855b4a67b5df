#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/text.h"

void ts_text_add_bytes(ts_text *text, const void *bytes, size_t length)
{
    if (text->status != TENSUM_OK) {
        return;
    }
    text->status = ts_reserve(text->length + length + 1, 1, "text", &text->capacity, &text->bytes);
    if (text->status == TENSUM_OK) {
        if (length != 0) {
            memcpy(text->bytes + text->length, bytes, length);
        }
        text->length += length;
        text->bytes[text->length] = 0;
    }
}

void ts_text_add(ts_text *text, const char *format, ...)
{
    char small[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(small, sizeof small, format, arguments);
    va_end(arguments);
    if (length < 0) {
        return;
    }
    if ((size_t)length < sizeof small) {
        ts_text_add_bytes(text, small, (size_t)length);
        return;
    }
    if (text->status != TENSUM_OK) {
        return;
    }
    text->status = ts_reserve(text->length + (size_t)length + 1, 1, "text", &text->capacity, &text->bytes);
    if (text->status == TENSUM_OK) {
        va_start(arguments, format);
        vsnprintf(text->bytes + text->length, (size_t)length + 1, format, arguments);
        va_end(arguments);
        text->length += (size_t)length;
    }
}

void ts_text_add_json(ts_text *text, const char *string)
{
    ts_text_add_bytes(text, "\"", 1);
    for (const char *c = string; *c != 0; c++) {
        if (*c == '"' || *c == '\\') {
            ts_text_add(text, "\\%c", *c);
        } else if ((unsigned char)*c < 0x20) {
            ts_text_add(text, "\\u%04x", (unsigned)(unsigned char)*c);
        } else {
            ts_text_add_bytes(text, c, 1);
        }
    }
    ts_text_add_bytes(text, "\"", 1);
}

void ts_text_add_real(ts_text *text, double value)
{
    char digits[64];
    if (!isfinite(value)) {
        ts_text_add(text, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    for (int precision = 15;; precision++) {
        double back;
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        for (char *c = digits; *c != 0; c++) { /* a locale's decimal comma */
            if ((*c < '0' || *c > '9') && *c != '-' && *c != '+' && *c != 'e') {
                *c = '.';
            }
        }
        if (precision >= 17 || (ts_parse_real(digits, strlen(digits), &back) && back == value)) {
            break;
        }
    }
    ts_text_add(text, "%s", digits);
}

tensum_status ts_text_take(ts_text *text, char **string)
{
    ts_text_add_bytes(text, "", 0);
    tensum_status status = text->status;
    if (status == TENSUM_OK) {
        *string = text->bytes;
        text->bytes = NULL;
    }
    ts_text_free(text);
    return status;
}

void ts_text_free(ts_text *text)
{
    ts_free(text->bytes);
    *text = (ts_text){0};
}

tensum_status ts_output_open(const char *path, struct ts_output *output)
{
    tensum_status status = TENSUM_OK;
    struct ts_output opened = {0};
    int descriptor = -1;
    if (strcmp(path, "-") == 0) {
        *output = (struct ts_output){.stream = stdout};
        return TENSUM_OK;
    }
    size_t length = strlen(path);
    struct stat existing;
    TRY(ts_allocate(length + 1, 1, "a file name", &opened.path));
    memcpy(opened.path, path, length + 1);
    if (stat(path, &existing) == 0 && !S_ISREG(existing.st_mode)) { /* a device or a pipe is written to, not replaced */
        descriptor = open(path, O_WRONLY | O_CLOEXEC);
    } else {
        TRY(ts_allocate(length + 40, 1, "a file name", &opened.temporary));
        for (int attempt = 0; attempt < 100 && descriptor < 0; attempt++) {
            snprintf(opened.temporary, length + 40, "%s.%ld.%d.tmp", path, (long)getpid(), attempt);
            descriptor = open(opened.temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
            if (descriptor < 0 && errno != EEXIST) {
                break;
            }
        }
    }
    if (descriptor < 0) {
        status = ts_fail(TENSUM_STATUS_IO, "%s: cannot be written: %s", path, strerror(errno));
        ts_free(opened.temporary); /* nothing to unlink */
        opened.temporary = NULL;
        goto done;
    }
    opened.stream = fdopen(descriptor, "wb");
    if (opened.stream == NULL) {
        status = ts_fail(TENSUM_STATUS_IO, "%s: cannot be written: %s", path, strerror(errno));
        close(descriptor);
        goto done;
    }
    *output = opened;
    return TENSUM_OK;
done:
    ts_output_discard(&opened);
    return status;
}

tensum_status ts_output_bytes(struct ts_output *output, const void *bytes, size_t length)
{
    if (length != 0 && fwrite(bytes, 1, length, output->stream) != length) {
        return ts_fail(TENSUM_STATUS_IO, "%s: cannot be written: %s",
                       output->path != NULL ? output->path : "<stdout>", strerror(errno));
    }
    return TENSUM_OK;
}

void ts_output_discard(struct ts_output *output)
{
    if (output->path != NULL && output->stream != NULL) {
        fclose(output->stream);
    }
    if (output->temporary != NULL) {
        unlink(output->temporary);
    }
    ts_free(output->temporary);
    ts_free(output->path);
    *output = (struct ts_output){0};
}

tensum_status ts_output_commit(struct ts_output *output)
{
    tensum_status status = TENSUM_OK;
    const char *name = output->path != NULL ? output->path : "<stdout>";
    if (fflush(output->stream) != 0) {
        status = ts_fail(TENSUM_STATUS_IO, "%s: cannot be written: %s", name, strerror(errno));
        goto done;
    }
    if (output->path != NULL) {
        int result = fclose(output->stream);
        output->stream = NULL;
        if (result != 0 || (output->temporary != NULL && rename(output->temporary, output->path) != 0)) {
            status = ts_fail(TENSUM_STATUS_IO, "%s: cannot be written: %s", name, strerror(errno));
            goto done;
        }
        ts_free(output->temporary);
        output->temporary = NULL;
    }
done:
    ts_output_discard(output);
    return status;
}

tensum_status ts_output_write(const char *path, const void *bytes, size_t length)
{
    struct ts_output output = {0};
    tensum_status status = ts_output_open(path, &output);
    if (status != TENSUM_OK) {
        return status;
    }
    TRY(ts_output_bytes(&output, bytes, length));
    return ts_output_commit(&output);
done:
    ts_output_discard(&output);
    return status;
}

tensum_status tensum_text_write(const char *path, const char *text)
{
    if (path == NULL || text == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "path or text is NULL");
    }
    return ts_output_write(path, text, strlen(text));
}
