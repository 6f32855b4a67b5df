#include <stdio.h>

#include "core/core.h"

#define MESSAGE_BYTES 1024

static _Thread_local char message[MESSAGE_BYTES];

const char *tensum_version(void) { return "0.1.0"; }

const char *tensum_last_error(void) { return message; }

const char *tensum_status_name(tensum_status status)
{
    static const char *const names[] = {
#define NAME(id, text) #id,
        TENSUM_STATUS_LIST(NAME)
#undef NAME
    };
    return (unsigned)status < (unsigned)TENSUM_STATUS_COUNT ? names[status] : "UNKNOWN";
}

tensum_status ts_fail(tensum_status status, const char *format, ...)
{
    char text[MESSAGE_BYTES]; /* arguments may point into the old message */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(message, text, sizeof message);
    return status;
}

tensum_status ts_fail_prefix(tensum_status status, const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || length > MESSAGE_BYTES - 3) {
        length = MESSAGE_BYTES - 3;
    }
    snprintf(text + length, sizeof text - (size_t)length, ": %.*s", MESSAGE_BYTES - 3 - length, message);
    memcpy(message, text, sizeof message);
    return status;
}
