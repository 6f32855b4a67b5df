#include "tensor/spec.h"

int64_t ts_modes_size(const ts_mode *modes, int32_t count)
{
    int64_t size = 1;
    for (int32_t i = 0; i < count; i++) {
        size *= modes[i].extent;
    }
    return size;
}

static bool adjoining(int64_t outer, int64_t inner, int64_t inner_extent)
{
    int64_t product;
    return ts_multiply(inner, inner_extent, &product) && outer == product;
}

static bool fusible(const ts_mode *outer, const ts_mode *inner)
{
    int64_t n = inner->extent;
    return adjoining(outer->a, inner->a, n) && adjoining(outer->b, inner->b, n) && adjoining(outer->c, inner->c, n) &&
           adjoining(outer->w, inner->w, n) && adjoining(outer->g, inner->g, n) && adjoining(outer->d, inner->d, n);
}

int32_t ts_modes_fuse(ts_mode *modes, int32_t count)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        if (modes[i].extent == 1) {
            continue;
        }
        if (kept > 0 && fusible(&modes[kept - 1], &modes[i])) {
            int64_t extent = modes[kept - 1].extent * modes[i].extent;
            modes[kept - 1] = modes[i];
            modes[kept - 1].extent = extent;
        } else {
            modes[kept++] = modes[i];
        }
    }
    return kept;
}

static uint64_t magnitude(int64_t x) { return x < 0 ? 0 - (uint64_t)x : (uint64_t)x; }

/* Does x belong before y? */
static bool before(const ts_mode *x, const ts_mode *y)
{
    if (magnitude(x->c) != magnitude(y->c)) {
        return magnitude(x->c) > magnitude(y->c);
    }
    if (magnitude(x->a) != magnitude(y->a)) {
        return magnitude(x->a) > magnitude(y->a);
    }
    return magnitude(x->b) > magnitude(y->b);
}

void ts_modes_sort(ts_mode *modes, int32_t count)
{
    for (int32_t i = 1; i < count; i++) { /* at most 64, usually in order already */
        ts_mode mode = modes[i];
        int32_t j = i;
        for (; j > 0 && before(&mode, &modes[j - 1]); j--) {
            modes[j] = modes[j - 1];
        }
        modes[j] = mode;
    }
}
