/* The library or our own kernels? */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "backend/cuda/device.h"

/* Times on an H200, in microseconds, one of ten in a row, by log2 of left, right and sum (bench/vendor.py). Both
 * operands row-major. 0: not measured. */
enum { SUMS = 7, MEASURED_ON = 90 };
static const double launch_time = 15.0; /* below, what was measured is mostly a launch */
static const double sums[SUMS] = {1, 2, 4, 7, 9, 11, 13};
typedef struct shape {
    tensum_dtype dtype;
    int8_t left, right; /* left >= right */
    double own[SUMS], library[SUMS];
} shape;
static const shape shapes[] = {
#define OWN(...) {__VA_ARGS__}
#define LIBRARY(...) {__VA_ARGS__}
#define MEASURED(dtype, left, right, own, library) {TENSUM_##dtype, left, right, own, library},
#include "backend/cuda/cutensor/measured.def"
#undef OWN
#undef LIBRARY
#undef MEASURED
};

/* The measured shape that is nearest; false where none is near. Larger is near: times grow with the pairs then. */
static bool find_shape(tensum_dtype dtype, double left, double right, double sum, const shape **found, int *at)
{
    double least = 1e9;

    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const shape *which = &shapes[i];
        for (int s = 0; s < SUMS && which->dtype == dtype; s++) {
            double l = left - which->left, r = right - which->right, k = sum - sums[s];
            double distance = fabs(l) + fabs(r) + fabs(k);
            /* Twice too large is far, unless it is the largest there is. */
            if (which->own[s] > 0 && l > -2.0 && r > -1.0 && k > -1.0 && distance < least) {
                least = distance;
                *found = which;
                *at = s;
            }
        }
    }
    return least < 1e9;
}

/* Where nothing was measured: matrices that are large in every direction, for which copies are cheap. */
static bool rule_of_thumb(int64_t left, int64_t right, int64_t sum)
{
    return left >= 256 && right >= 256 && sum >= 256;
}

bool ts_cutensor_wins(int capability, tensum_dtype dtype, int64_t batch, int64_t left, int64_t right, int64_t sum,
                      int64_t copied, bool launched)
{
    const shape *nearest = NULL;
    int at = 0;
    double l, r, k, scale, own, library;

    if (batch <= 0 || left <= 0 || right <= 0 || sum <= 1) {
        return false;
    }
    l = log2((double)(left > right ? left : right));
    r = log2((double)(left > right ? right : left));
    k = log2((double)sum);
    if (capability != MEASURED_ON || !find_shape(dtype, l, r, k, &nearest, &at)) {
        return rule_of_thumb(left, right, sum);
    }
    scale = (double)batch * exp2(l + r + k - nearest->left - nearest->right - sums[at]);
    scale = scale > 1.0 ? scale : 1.0; /* small ones take as long as smaller ones */
    if (scale > 4.0 && nearest->own[at] < launch_time) {
        return rule_of_thumb(left, right, sum); /* what was measured there is a launch, which does not grow */
    }
    own = scale * nearest->own[at];
    library = scale * nearest->library[at];
    if (copied > 0) {
        library += 2.0 + (double)copied / 2.5e6; /* launches; 2.5 TB/s */
    }
    if (launched) { /* from the host, without a graph: its calls take longer */
        own = own > 4.5 ? own : 4.5;
        library = library > 10.0 ? library : 10.0;
    }
    return library < 0.95 * own - 1.0;
}

static int64_t number(const char *name, int64_t otherwise)
{
    const char *text = secure_getenv(name);
    char *end = NULL;
    long long value = text != NULL && text[0] != 0 ? strtoll(text, &end, 10) : -1;
    return value >= 0 && end != NULL && *end == 0 ? value : otherwise;
}

void ts_cutensor_init(ts_cuda_device *device)
{
    ts_cutensor_state *state = &device->cutensor;
    const char *choice = secure_getenv("TENSUM_CUTENSOR");

    (void)pthread_mutex_init(&state->cache.mutex, NULL); /* cannot fail for plain mutexes */
    (void)pthread_mutex_init(&state->scratch.mutex, NULL);
    atomic_store(&state->choice, choice != NULL && strcmp(choice, "never") == 0    ? TENSUM_CUTENSOR_NEVER
                                 : choice != NULL && strcmp(choice, "always") == 0 ? TENSUM_CUTENSOR_ALWAYS
                                                                                   : TENSUM_CUTENSOR_AUTO);
    state->cache.limit = number("TENSUM_CUTENSOR_PLANS", 512);
    state->scratch.limit = (uint64_t)number("TENSUM_CUTENSOR_SCRATCH", (int64_t)256 << 20);
}
