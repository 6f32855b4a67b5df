/* Tensors that are only moved: permutations, transposes, diagonals, broadcasts and views of them, large enough for the
 * tiles of the move kernel, wherever in memory they begin. Compared with places worked out here, bit for bit. */
#include "machine.h"

enum { MOST_RANK = 20, GUARD = 64 };

static uint64_t state;
static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

/* c[i] = a[i of the labels in a]. Labels are letters by number; a label of c that a lacks is broadcast. */
typedef struct movement {
    int32_t rank_a, rank_c;
    int32_t a[MOST_RANK], c[MOST_RANK]; /* labels */
    int64_t extent[26], stride_a[MOST_RANK], stride_c[MOST_RANK];
    int64_t shift_a, shift_c; /* elements before the first, so that addresses suit no vector */
} movement;

static const struct {
    tensum_semiring semiring;
    tensum_dtype dtype;
} types[] = {{TENSUM_OR_AND, TENSUM_BOOL}, {TENSUM_SUM_PRODUCT, TENSUM_I16}, {TENSUM_SUM_PRODUCT, TENSUM_F32},
             {TENSUM_SUM_PRODUCT, TENSUM_F64}, {TENSUM_SUM_PRODUCT, TENSUM_C128}};
enum { TYPES = sizeof types / sizeof *types };

static void compact(const int64_t *extent, const int32_t *labels, int32_t rank, int64_t gap, int64_t *stride)
{
    int64_t step = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        stride[i] = step;
        step = step * extent[labels[i]] + (i == rank - 1 ? gap : 0);
    }
}
static void span(const int64_t *extent, const int32_t *labels, int32_t rank, const int64_t *stride, int64_t *least, int64_t *most)
{
    *least = *most = 0;
    for (int32_t i = 0; i < rank; i++) {
        *(stride[i] < 0 ? least : most) += (extent[labels[i]] - 1) * stride[i];
    }
}

static void moves(const movement *m, int type, uint64_t seed)
{
    const size_t bytes = tensum_dtype_bytes(types[type].dtype);
    int64_t least_a, most_a, least_c, most_c, extents_a[MOST_RANK], extents_c[MOST_RANK], elements = 1;
    char expression[2 * MOST_RANK + 3];
    size_t used = 0;

    span(m->extent, m->a, m->rank_a, m->stride_a, &least_a, &most_a);
    span(m->extent, m->c, m->rank_c, m->stride_c, &least_c, &most_c);
    const size_t size_a = (size_t)(most_a - least_a + 1 + m->shift_a) * bytes;
    const size_t size_c = (size_t)(most_c - least_c + 1 + m->shift_c + GUARD) * bytes;
    unsigned char *a = malloc(size_a), *got = malloc(size_c), *wanted = malloc(size_c);
    for (size_t i = 0; i < size_a; i++) {
        a[i] = (unsigned char)draw(types[type].dtype == TENSUM_BOOL ? 2 : 128);
    }
    memset(wanted, 0x5a, size_c);
    const unsigned char *first_a = a + (size_t)(m->shift_a - least_a) * bytes;
    unsigned char *first_c = wanted + (size_t)(m->shift_c - least_c) * bytes;
    for (int32_t i = 0; i < m->rank_a; i++) {
        expression[used++] = (char)('a' + m->a[i]);
        extents_a[i] = m->extent[m->a[i]];
    }
    expression[used++] = '-';
    expression[used++] = '>';
    for (int32_t i = 0; i < m->rank_c; i++) {
        expression[used++] = (char)('a' + m->c[i]);
        extents_c[i] = m->extent[m->c[i]];
        elements *= extents_c[i];
    }
    expression[used] = 0;
    for (int64_t n = 0; n < elements; n++) {
        int64_t position[26], rest = n, from = 0, to = 0;
        for (int32_t i = m->rank_c - 1; i >= 0; i--) {
            position[m->c[i]] = rest % extents_c[i];
            to += rest % extents_c[i] * m->stride_c[i];
            rest /= extents_c[i];
        }
        for (int32_t i = 0; i < m->rank_a; i++) {
            from += position[m->a[i]] * m->stride_a[i];
        }
        memcpy(first_c + to * (int64_t)bytes, first_a + from * (int64_t)bytes, bytes);
    }
    const uint64_t device_a = device_allocate(0, size_a), device_c = device_allocate(0, size_c);
    device_write(device_a, a, size_a);
    memset(got, 0x5a, size_c);
    device_write(device_c, got, size_c);
    const tensum_tensor operand = {(void *)(uintptr_t)(device_a + (uint64_t)(m->shift_a - least_a) * bytes), types[type].dtype,
                                   m->rank_a, extents_a, m->stride_a, cuda0};
    const tensum_tensor output = {(void *)(uintptr_t)(device_c + (uint64_t)(m->shift_c - least_c) * bytes), types[type].dtype,
                                  m->rank_c, extents_c, m->stride_c, cuda0};
    succeeds(tensum_einsum(NULL, types[type].semiring, expression, 1, &operand, &output));
    device_read(got, device_c, size_c);
    no_fault();
    if (memcmp(got, wanted, size_c) != 0) {
        size_t at = 0;
        while (got[at] == wanted[at]) {
            at++;
        }
        fail_msg("%s, %s, seed %llu: byte %zu of %zu differs", expression, tensum_dtype_name(types[type].dtype),
                 (unsigned long long)seed, at, size_c);
    }
    device_release(0, device_a);
    device_release(0, device_c);
    free(a);
    free(got);
    free(wanted);
}

static void shuffle(int32_t *labels, int32_t count)
{
    for (int32_t i = count - 1; i > 0; i--) {
        const int32_t j = (int32_t)draw((uint32_t)i + 1), x = labels[i];
        labels[i] = labels[j];
        labels[j] = x;
    }
}

static void transposes(void **unused)
{
    static const int64_t shapes[][3] = {{128, 128, 1}, {130, 127, 1}, {68, 260, 1}, {3, 6000, 1}, {70, 64, 4}, {40, 90, 5}, {12, 11, 130}, {1, 16384, 1}};
    (void)unused;
    for (int type = 0; type < TYPES; type++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            movement m = {.rank_a = 3, .rank_c = 3, .a = {0, 1, 2}, .c = {1, 0, 2}, .extent = {shapes[i][0], shapes[i][1], shapes[i][2]}};
            state = 100 * i + (unsigned)type;
            m.shift_a = i % 3 == 1 ? 1 : 0;
            m.shift_c = i % 4 == 2 ? 1 : 0;
            compact(m.extent, m.a, 3, 0, m.stride_a);
            compact(m.extent, m.c, 3, 0, m.stride_c);
            moves(&m, type, state);
        }
    }
}

static void permutations(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        movement m = {.rank_a = 0};
        int64_t elements = 1;
        state = seed * 99991;
        while (elements < 1 << 14) {
            m.extent[m.rank_a] = seed % 3 == 0 ? 2 : 1 + draw(9);
            elements *= m.extent[m.rank_a];
            m.a[m.rank_a] = m.c[m.rank_a] = m.rank_a;
            m.rank_a++;
        }
        m.rank_c = m.rank_a;
        shuffle(m.c, m.rank_c);
        compact(m.extent, m.a, m.rank_a, 0, m.stride_a);
        compact(m.extent, m.c, m.rank_c, 0, m.stride_c);
        m.shift_a = seed % 4 == 1 ? draw(4) : 0;
        m.shift_c = seed % 5 == 1 ? draw(4) : 0;
        moves(&m, (int)(seed % TYPES), seed);
    }
}

/* Strides that go back, leave gaps or stand still, repeated labels, broadcasts. */
static void views(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        movement m = {.rank_a = 0};
        int64_t elements = 1;
        state = seed * 7919;
        while (elements < 1 << 14) {
            m.extent[m.rank_a] = 2 + draw(m.rank_a == 0 ? 120 : 20);
            elements *= m.extent[m.rank_a];
            m.a[m.rank_a] = m.c[m.rank_a] = m.rank_a;
            m.rank_a++;
        }
        m.rank_c = m.rank_a;
        shuffle(m.c, m.rank_c);
        if (seed % 4 == 0) { /* broadcast along the first */
            m.rank_a--;
            memmove(m.a, m.a + 1, (size_t)m.rank_a * sizeof *m.a);
        } else if (seed % 4 == 1) { /* a diagonal */
            m.a[m.rank_a++] = 0;
            shuffle(m.a, m.rank_a);
        }
        compact(m.extent, m.a, m.rank_a, draw(3) * draw(3), m.stride_a);
        compact(m.extent, m.c, m.rank_c, draw(3) * draw(3), m.stride_c);
        for (int32_t i = 0; i < m.rank_a; i++) {
            m.stride_a[i] *= draw(3) == 0 ? -1 : draw(6) == 0 ? 0 : 1;
        }
        for (int32_t i = 0; i < m.rank_c; i++) {
            m.stride_c[i] *= draw(4) == 0 ? -1 : 1;
        }
        m.shift_a = draw(3);
        m.shift_c = draw(3);
        moves(&m, (int)(seed % TYPES), seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(transposes), cmocka_unit_test(permutations), cmocka_unit_test(views)};
    const int answer = machine_open();
    return answer != 0 ? answer : cmocka_run_group_tests(tests, NULL, NULL);
}
