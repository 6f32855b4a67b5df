#include "backend/cpu/cpu.h"

static int64_t stride_of(const ts_mode *mode, ts_cpu_tensor tensor)
{
    return *(const int64_t *)(const void *)((const char *)mode + tensor);
}

void ts_cpu_offsets(const ts_mode *modes, int32_t mode_count, ts_cpu_tensor tensor, int64_t first, int64_t count,
                    int64_t *offsets)
{
    int64_t index[64], stride[64], offset = 0, done = 0;
    if (mode_count <= 1) { /* small steps are mostly this */
        const int64_t step = mode_count == 1 ? stride_of(modes, tensor) : 0;
        for (int64_t i = 0; i < count; i++) {
            offsets[i] = (first + i) * step;
        }
        return;
    }
    for (int32_t m = mode_count - 1; m >= 0; m--) {
        stride[m] = stride_of(&modes[m], tensor);
        index[m] = first % modes[m].extent;
        first /= modes[m].extent;
        offset += index[m] * stride[m];
    }
    const int32_t last = mode_count - 1;
    while (done < count) {
        const int64_t run = ts_min64(modes[last].extent - index[last], count - done);
        const int64_t step = stride[last];
        for (int64_t i = 0; i < run; i++) {
            offsets[done + i] = offset + i * step;
        }
        done += run;
        if (done == count) {
            return;
        }
        offset -= index[last] * step;
        index[last] = 0;
        for (int32_t m = last - 1; m >= 0; m--) {
            offset += stride[m];
            if (++index[m] < modes[m].extent) {
                break;
            }
            offset -= index[m] * stride[m];
            index[m] = 0;
        }
    }
}

bool ts_cpu_unit(const int64_t *offsets, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        if (offsets[i] != offsets[0] + i) {
            return false;
        }
    }
    return true;
}

int64_t ts_cpu_smallest_stride(const ts_mode *modes, int32_t count)
{
    int64_t smallest = INT64_MAX;
    for (int32_t m = 0; m < count; m++) {
        int64_t stride = modes[m].c < 0 ? -modes[m].c : modes[m].c;
        if (modes[m].extent > 1 && stride < smallest) {
            smallest = stride;
        }
    }
    return smallest;
}

void ts_cpu_walk_from(ts_cpu_walk *walk, const ts_mode *modes, int32_t mode_count, int64_t first)
{
    walk->a = walk->b = walk->c = 0;
    for (int32_t i = mode_count - 1; i >= 0; i--) {
        walk->position[i] = first % modes[i].extent;
        first /= modes[i].extent;
        walk->a += walk->position[i] * modes[i].a;
        walk->b += walk->position[i] * modes[i].b;
        walk->c += walk->position[i] * modes[i].c;
    }
}

void ts_cpu_walk_on(ts_cpu_walk *walk, const ts_mode *modes, int32_t mode_count)
{
    for (int32_t i = mode_count - 1; i >= 0; i--) {
        walk->a += modes[i].a;
        walk->b += modes[i].b;
        walk->c += modes[i].c;
        if (++walk->position[i] < modes[i].extent) {
            return;
        }
        walk->a -= walk->position[i] * modes[i].a;
        walk->b -= walk->position[i] * modes[i].b;
        walk->c -= walk->position[i] * modes[i].c;
        walk->position[i] = 0;
    }
}
