#define _GNU_SOURCE
#include <time.h>

#include "core/core.h"

double ts_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint64_t rotate(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

void ts_random_seed(ts_random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        random->state[i] = z ^ (z >> 31);
    }
}

uint64_t ts_random_next(ts_random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t ts_random_below(ts_random *random, uint64_t bound)
{
    uint64_t threshold = (0 - bound) % bound;
    uint64_t value;
    do {
        value = ts_random_next(random);
    } while (value < threshold);
    return value % bound;
}

double ts_random_unit(ts_random *random) { return (double)(ts_random_next(random) >> 11) * 0x1p-53; }

/* Levenshtein distance; names longer than the table count as far. */
static size_t distance(const char *a, const char *b)
{
    enum { LONGEST = 64 };
    size_t rows[LONGEST + 1];
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > LONGEST || b_length > LONGEST) {
        return LONGEST;
    }
    for (size_t j = 0; j <= b_length; j++) {
        rows[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = rows[0];
        rows[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = rows[j];
            size_t best = rows[j] < rows[j - 1] ? rows[j] + 1 : rows[j - 1] + 1;
            rows[j] = best < change ? best : change;
        }
    }
    return rows[b_length];
}

const char *ts_nearest_name(const char *name, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t best = strlen(name) / 2 + 1;
    for (size_t i = 0; i < count; i++) {
        size_t d = distance(name, names[i]);
        if (d <= best && (nearest == NULL || d < best)) {
            best = d;
            nearest = names[i];
        }
    }
    return nearest;
}
