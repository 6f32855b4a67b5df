/* Pure data movement: permutations, diagonals, broadcasts, fills. Bits are kept.
 *
 * The modes that are contiguous in the result (inner) and those contiguous in the operand (outer) form a tile that
 * fits into the first-level cache, so that both sides are touched in whole cache lines. */
#include "backend/cpu/cpu.h"

#define TILE_SIDE 64 /* elements of one side of a tile */
#define TASK_ELEMENTS 32768

typedef struct move {
    ts_mode modes[192]; /* outer loop modes; extents of split modes are numbers of pieces */
    int32_t count;
    /* The two sides of a tile: offsets in elements. */
    int64_t inner_a[2 * TILE_SIDE], inner_c[2 * TILE_SIDE], outer_a[2 * TILE_SIDE], outer_c[2 * TILE_SIDE];
    int64_t inner, outer;
    /* A split mode per side: number in `modes` (-1: none), its full extent, strides and piece. */
    struct {
        int32_t mode;
        int64_t extent, piece;
        ts_mode whole;
    } split[2];
    int64_t tiles, tiles_per_task;
    size_t element;
    const uint8_t *a;
    uint8_t *c;
    bool inner_unit_c, inner_unit_a, inner_one_a; /* one: all the same element */
} move;

#define COPY_TILE(type)                                                                                          \
    do {                                                                                                         \
        const type *a = (const type *)(const void *)from;                                                        \
        type *c = (type *)(void *)to;                                                                            \
        for (int64_t i = done; i < outer; i++) {                                                                 \
            const type *x = a + m->outer_a[i];                                                                   \
            type *y = c + m->outer_c[i];                                                                         \
            if (m->inner_unit_c && m->inner_unit_a) {                                                            \
                memcpy(y + m->inner_c[0], x + m->inner_a[0], (size_t)inner * sizeof *y);                         \
            } else if (m->inner_unit_c && m->inner_one_a) {                                                      \
                const type one = x[m->inner_a[0]];                                                               \
                for (int64_t j = 0; j < inner; j++) {                                                            \
                    y[j] = one;                                                                                  \
                }                                                                                                \
            } else if (m->inner_unit_c) {                                                                        \
                for (int64_t j = 0; j < inner; j++) {                                                            \
                    y[j] = x[m->inner_a[j]];                                                                     \
                }                                                                                                \
            } else {                                                                                             \
                for (int64_t j = 0; j < inner; j++) {                                                            \
                    y[m->inner_c[j]] = x[m->inner_a[j]];                                                         \
                }                                                                                                \
            }                                                                                                    \
        }                                                                                                        \
    } while (0)

/* Four 4-byte elements in a row, whatever their alignment. */
typedef int32_t four32 __attribute__((vector_size(16), aligned(4), may_alias));

/* The tile in blocks of 4 x 4 elements, where the operand is contiguous along the outer side and the result along the
 * inner one: each cache line is touched by a quarter of the instructions. Returns how many outer positions it did. */
static int64_t transpose_tile(const move *m, int64_t inner, int64_t outer, const int32_t *a, int32_t *c)
{
    if (!m->inner_unit_c || inner % 4 != 0) {
        return 0;
    }
    int64_t i = 0;
    for (; i + 4 <= outer && ts_cpu_unit(m->outer_a + i, 4); i += 4) {
        const int32_t *x = a + m->outer_a[i];
        for (int64_t j = 0; j < inner; j += 4) {
            const four32 u = *(const four32 *)(const void *)(x + m->inner_a[j]);
            const four32 v = *(const four32 *)(const void *)(x + m->inner_a[j + 1]);
            const four32 w = *(const four32 *)(const void *)(x + m->inner_a[j + 2]);
            const four32 z = *(const four32 *)(const void *)(x + m->inner_a[j + 3]);
            const four32 p = __builtin_shufflevector(u, v, 0, 4, 1, 5), q = __builtin_shufflevector(w, z, 0, 4, 1, 5);
            const four32 r = __builtin_shufflevector(u, v, 2, 6, 3, 7), s = __builtin_shufflevector(w, z, 2, 6, 3, 7);
            *(four32 *)(void *)(c + m->outer_c[i] + j) = __builtin_shufflevector(p, q, 0, 1, 4, 5);
            *(four32 *)(void *)(c + m->outer_c[i + 1] + j) = __builtin_shufflevector(p, q, 2, 3, 6, 7);
            *(four32 *)(void *)(c + m->outer_c[i + 2] + j) = __builtin_shufflevector(r, s, 0, 1, 4, 5);
            *(four32 *)(void *)(c + m->outer_c[i + 3] + j) = __builtin_shufflevector(r, s, 2, 3, 6, 7);
        }
    }
    return i;
}

typedef struct pair16 {
    uint64_t low, high;
} pair16;

static void copy_tile(const move *m, int64_t inner, int64_t outer, const uint8_t *from, uint8_t *to)
{
    int64_t done = 0;
    if (m->element == 4 && !(m->inner_unit_a && m->inner_unit_c)) {
        done = transpose_tile(m, inner, outer, (const int32_t *)(const void *)from, (int32_t *)(void *)to);
    }
    switch (m->element) {
    case 1: COPY_TILE(uint8_t); break;
    case 2: COPY_TILE(uint16_t); break;
    case 4: COPY_TILE(uint32_t); break;
    case 8: COPY_TILE(uint64_t); break;
    default: COPY_TILE(pair16); break;
    }
}

static void copy_task(void *argument, int64_t index, int32_t worker)
{
    const move *m = argument;
    const int64_t first = index * m->tiles_per_task, end = ts_min64(first + m->tiles_per_task, m->tiles);
    ts_cpu_walk walk;
    (void)worker;
    ts_cpu_walk_from(&walk, m->modes, m->count, first);
    for (int64_t tile = first; tile < end; tile++) {
        int64_t sizes[2] = {m->inner, m->outer};
        for (int side = 0; side < 2; side++) {
            if (m->split[side].mode >= 0) {
                const int64_t piece = m->split[side].piece;
                /* The split mode varies slowest within its side, so a short piece is a prefix. */
                const int64_t left = ts_min64(piece, m->split[side].extent - walk.position[m->split[side].mode] * piece);
                sizes[side] = sizes[side] / piece * left;
            }
        }
        copy_tile(m, sizes[0], sizes[1], m->a + walk.a * (int64_t)m->element, m->c + walk.c * (int64_t)m->element);
        ts_cpu_walk_on(&walk, m->modes, m->count);
    }
}

/* Move modes with the smallest strides in one tensor from `rest` to a side of the tile until it is full. */
static int32_t fill_side(move *m, int side, bool by_c, ts_mode *rest, int32_t rest_count)
{
    ts_mode chosen[64];
    int32_t chosen_count = 0;
    int64_t size = 1;
    m->split[side].mode = -1;
    while (rest_count > 0 && size < TILE_SIDE / 2 && chosen_count < 64) {
        int32_t best = -1;
        for (int32_t i = 0; i < rest_count; i++) {
            if (best < 0 || (by_c ? ts_absolute(rest[i].c) < ts_absolute(rest[best].c) : ts_absolute(rest[i].a) < ts_absolute(rest[best].a))) {
                best = i;
            }
        }
        ts_mode mode = rest[best];
        if (size * mode.extent > TILE_SIDE) {
            const int64_t piece = TILE_SIDE / size;
            m->split[side].extent = mode.extent;
            m->split[side].piece = piece;
            m->split[side].whole = mode;
            m->split[side].mode = m->count;
            m->modes[m->count] = mode;
            m->modes[m->count].extent = (mode.extent + piece - 1) / piece;
            m->modes[m->count].a *= piece;
            m->modes[m->count].c *= piece;
            m->count++;
            mode.extent = piece;
        }
        size *= mode.extent;
        chosen[chosen_count++] = mode;
        rest[best] = rest[--rest_count];
        if (m->split[side].mode >= 0) {
            break;
        }
    }
    /* Smallest stride innermost: the order they were chosen in, reversed. */
    ts_mode ordered[64];
    for (int32_t i = 0; i < chosen_count; i++) {
        ordered[i] = chosen[chosen_count - 1 - i];
    }
    ts_cpu_offsets(ordered, chosen_count, TS_TENSOR_A, 0, size, side == 0 ? m->inner_a : m->outer_a);
    ts_cpu_offsets(ordered, chosen_count, TS_TENSOR_C, 0, size, side == 0 ? m->inner_c : m->outer_c);
    if (side == 0) {
        m->inner = size;
    } else {
        m->outer = size;
    }
    return rest_count;
}

void ts_cpu_move(const ts_mode *modes, int32_t count, size_t element_bytes, const void *a, void *c, ts_pool *pool)
{
    ts_mode rest[192];
    move m;
    int32_t rest_count = 0;
    m.count = 0;
    for (int32_t i = 0; i < count; i++) {
        if (modes[i].extent == 0) {
            return;
        }
        if (modes[i].extent > 1) {
            rest[rest_count++] = modes[i];
        }
    }
    if (ts_cpu_shuffle_move(rest, rest_count, element_bytes, a, c, pool)) {
        return;
    }
    rest_count = fill_side(&m, 0, true, rest, rest_count);
    rest_count = fill_side(&m, 1, false, rest, rest_count);
    /* What is left are loops, the result's smallest strides innermost. */
    for (int32_t i = 1; i < rest_count; i++) {
        const ts_mode mode = rest[i];
        int32_t j = i;
        while (j > 0 && ts_absolute(rest[j - 1].c) < ts_absolute(mode.c)) {
            rest[j] = rest[j - 1];
            j--;
        }
        rest[j] = mode;
    }
    memcpy(m.modes + m.count, rest, (size_t)rest_count * sizeof *rest);
    m.count += rest_count;
    m.tiles = 1;
    for (int32_t i = 0; i < m.count; i++) {
        m.tiles *= m.modes[i].extent;
    }
    m.element = element_bytes;
    m.a = a;
    m.c = c;
    m.inner_unit_c = m.inner_c[0] == 0 && ts_cpu_unit(m.inner_c, m.inner);
    m.inner_unit_a = ts_cpu_unit(m.inner_a, m.inner);
    m.inner_one_a = true;
    for (int64_t i = 1; i < m.inner; i++) {
        m.inner_one_a = m.inner_one_a && m.inner_a[i] == m.inner_a[0];
    }
    m.tiles_per_task = ts_max64(1, TASK_ELEMENTS / (m.inner * m.outer));
    ts_pool_run(pool, (m.tiles + m.tiles_per_task - 1) / m.tiles_per_task, copy_task, &m);
}

tensum_status ts_cpu_fill(const ts_mode *modes, int32_t count, size_t element_bytes, const void *value, void *c,
                          const ts_run *run)
{
    ts_mode from_one[192];
    ts_element element;
    memcpy(&element, value, element_bytes);
    for (int32_t i = 0; i < count; i++) {
        from_one[i] = modes[i];
        from_one[i].a = 0;
    }
    ts_cpu_move(from_one, count, element_bytes, &element, c, run->pool);
    return TENSUM_OK;
}
