#include <stdio.h>
#include <stdlib.h>

#include "backend/backend.h"

/* A backend is one line here; those with build needs of their own are compiled in if the build has them. */
extern const ts_backend ts_backend_reference;
#ifdef TENSUM_HAVE_CPU
extern const ts_backend ts_backend_cpu;
#endif
#ifdef TENSUM_HAVE_CUDA
extern const ts_backend ts_backend_cuda;
#endif

static const ts_backend *const backends[] = {
#ifdef TENSUM_HAVE_CPU
    &ts_backend_cpu,
#endif
    &ts_backend_reference,
#ifdef TENSUM_HAVE_CUDA
    &ts_backend_cuda,
#endif
};
enum { BACKEND_COUNT = sizeof backends / sizeof backends[0] };

const ts_backend *ts_backend_find(tensum_device_kind kind)
{
    for (int i = 0; i < BACKEND_COUNT; i++) {
        if (backends[i]->kind == kind) {
            return backends[i];
        }
    }
#ifndef TENSUM_HAVE_CPU
    if (kind == TENSUM_CPU) {
        return &ts_backend_reference;
    }
#endif
    return NULL;
}

unsigned tensum_supports(tensum_semiring semiring, tensum_dtype dtype) { return ts_pair_modes(semiring, dtype); }

int32_t tensum_device_count(tensum_device_kind kind)
{
    const ts_backend *backend = ts_backend_find(kind);
    return backend != NULL ? backend->device_count() : 0;
}

tensum_status tensum_device_query(tensum_device device, tensum_device_info *info)
{
    const ts_backend *backend = ts_backend_find(device.kind);
    if (info == NULL || info->size < sizeof *info) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_device_query: info is NULL or info->size is not set");
    }
    if (backend == NULL || device.index < 0 || device.index >= backend->device_count()) {
        return ts_fail(TENSUM_STATUS_NO_DEVICE, "device %d of kind %s does not exist", (int)device.index,
                       backend != NULL ? backend->name : "unknown");
    }
    size_t size = info->size;
    memset(info, 0, sizeof *info);
    info->size = size;
    return backend->device_query(device.index, info);
}

tensum_status tensum_device_parse(const char *text, tensum_device *device)
{
    static const struct {
        const char *name;
        tensum_device_kind kind;
    } kinds[] = {{"cpu", TENSUM_CPU}, {"cuda", TENSUM_CUDA}, {"reference", TENSUM_REFERENCE}};
    if (text == NULL || device == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_device_parse: text and device must not be NULL");
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t length = strlen(kinds[i].name);
        if (strncmp(text, kinds[i].name, length) != 0) {
            continue;
        }
        long index = 0;
        if (text[length] == ':' && text[length + 1] >= '0' && text[length + 1] <= '9') {
            char *end;
            index = strtol(text + length + 1, &end, 10);
            if (*end != 0 || index > 4095) {
                continue;
            }
        } else if (text[length] != 0) {
            continue;
        }
        device->kind = kinds[i].kind;
        device->index = (int32_t)index;
        return TENSUM_OK;
    }
    return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "unknown device '%s', expected cpu, cuda, cuda:N or reference", text);
}
