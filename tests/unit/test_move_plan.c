/* How movements of elements are cut into tiles for the CUDA kernel: plans are walked here by their description in abi.h,
 * on memory of the host, and must move every element once to its place. */
#include "support.h"

#include "backend/cuda/kernels/move_plan.h"

enum { MOST_RANK = 64 };

static uint64_t state = 1;
static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

typedef struct movement {
    int32_t rank, bytes;
    ts_cuda_mode modes[MOST_RANK];
} movement;

static void add_mode(movement *m, int64_t extent, int64_t a, int64_t c)
{
    m->modes[m->rank++] = (ts_cuda_mode){.extent = extent, .a = a, .c = c};
}

/* The elements that strides reach: least and largest offset. */
static void range(const movement *m, bool of_a, int64_t *least, int64_t *most)
{
    *least = *most = 0;
    for (int32_t i = 0; i < m->rank; i++) {
        const int64_t reach = (m->modes[i].extent - 1) * (of_a ? m->modes[i].a : m->modes[i].c);
        *(reach < 0 ? least : most) += reach;
    }
}

typedef struct place {
    int64_t stride;
    int32_t q;
    uint32_t at;
} place;
static place place_of(const ts_cuda_move_side *side, int32_t lane, int32_t step)
{
    place p = {side->step[step].stride, side->step[step].q, (uint32_t)side->step[step].at};
    for (int32_t k = 0; k < side->digits; k++) {
        const int32_t position = lane % side->digit[k].extent;
        assert_int_equal((uint32_t)lane * side->digit[k].magic >> 20, lane / side->digit[k].extent);
        p.stride += position * side->digit[k].stride;
        p.q += position * side->digit[k].q;
        p.at += (uint32_t)(position * side->digit[k].at);
        lane /= side->digit[k].extent;
    }
    assert_int_equal(lane, 0);
    return p;
}
static bool is_inside(uint32_t at, const int64_t *limits) { return (at & 0xffff) < limits[0] && at >> 16 < limits[1]; }

/* Walk the plan. Addresses are checked against what the tensors have, vectors against their alignment, shared memory for
 * being written once and before it is read. */
static void walk(const movement *m, const ts_cuda_move *p, const unsigned char *a, unsigned char *c, unsigned char *written)
{
    int64_t first_a, last_a, first_c, last_c;
    unsigned char *tile = malloc((size_t)p->slots + 1), *filled = malloc((size_t)p->slots + 1);
    const int32_t wide_a = p->load.width * m->bytes, wide_c = p->store.width * m->bytes;
    range(m, true, &first_a, &last_a);
    range(m, false, &first_c, &last_c);
    assert_true(p->load.lanes <= TS_CUDA_MOVE_THREADS && p->store.lanes <= TS_CUDA_MOVE_THREADS);
    assert_true(p->load.steps <= TS_CUDA_MOVE_STEPS && p->store.steps <= TS_CUDA_MOVE_STEPS);
    for (int64_t number = 0; number < p->tile_count; number++) {
        int64_t from = p->from, to = p->to, rest = number, limits[2] = {0x7fff, 0x7fff};
        for (int32_t k = p->outer_count - 1; k >= 0; k--) {
            const ts_cuda_move_outer *outer = &p->outer[k];
            const int64_t position = rest % outer->extent;
            rest /= outer->extent;
            from += position * outer->a;
            to += position * outer->c;
            if (outer->partial != 0 && p->partial_extent[outer->partial - 1] - position * outer->tile < outer->tile) {
                limits[outer->partial - 1] = p->partial_extent[outer->partial - 1] - position * outer->tile;
            }
        }
        memset(filled, 0, (size_t)p->slots);
        for (int32_t step = 0; step < p->load.steps; step++) {
            for (int32_t lane = 0; lane < p->load.lanes; lane++) {
                const place at = place_of(&p->load, lane, step);
                const int64_t source = from + at.stride;
                if (!is_inside(at.at, limits)) {
                    continue;
                }
                assert_int_equal((source - p->from) % wide_a, 0);
                assert_in_range(source - first_a * m->bytes, 0, (last_a - first_a + 1) * m->bytes - wide_a);
                assert_in_range(at.q, 0, p->slots - wide_a);
                assert_int_equal(at.q % wide_a, 0);
                if (p->direct) { /* the same thread writes what it reads */
                    const place other = place_of(&p->store, lane, step);
                    const int64_t target = to + other.stride;
                    assert_int_equal(at.at, other.at);
                    assert_in_range(target - first_c * m->bytes, 0, (last_c - first_c + 1) * m->bytes - wide_c);
                    memcpy(c + target, a + source, (size_t)wide_a);
                    for (int32_t e = 0; e < wide_c; e++) {
                        assert_int_equal(written[target + e]++, 0);
                    }
                    continue;
                }
                memcpy(tile + at.q, a + source, (size_t)wide_a);
                for (int32_t e = 0; e < wide_a; e++) {
                    assert_int_equal(filled[at.q + e]++, 0);
                }
            }
        }
        for (int32_t step = 0; step < p->store.steps && !p->direct; step++) {
            for (int32_t lane = 0; lane < p->store.lanes; lane++) {
                const place at = place_of(&p->store, lane, step);
                const int64_t target = to + at.stride;
                if (!is_inside(at.at, limits)) {
                    continue;
                }
                assert_int_equal((target - p->to) % wide_c, 0);
                assert_in_range(target - first_c * m->bytes, 0, (last_c - first_c + 1) * m->bytes - wide_c);
                for (int32_t e = 0; e < p->store.width; e++) {
                    const int32_t q = at.q + p->element_q[e];
                    assert_in_range(q, 0, p->slots - m->bytes);
                    assert_true(!p->whole || p->element_q[e] == e * m->bytes);
                    for (int32_t b = 0; b < m->bytes; b++) {
                        assert_int_equal(filled[q + b], 1);
                        assert_int_equal(written[target + e * m->bytes + b]++, 0);
                    }
                    memcpy(c + target + e * m->bytes, tile + q, (size_t)m->bytes);
                }
            }
        }
    }
    free(tile);
    free(filled);
}

/* Plan and walk one movement, and compare every place of c with what the strides say. */
static ts_cuda_move moves(const movement *m)
{
    ts_cuda_move p;
    int64_t first_a, last_a, first_c, last_c, elements = 1;
    range(m, true, &first_a, &last_a);
    range(m, false, &first_c, &last_c);
    const size_t size_a = (size_t)((last_a - first_a + 1) * m->bytes), size_c = (size_t)((last_c - first_c + 1) * m->bytes);
    unsigned char *a = malloc(size_a), *c = calloc(size_c, 1), *written = calloc(size_c, 1);
    for (size_t i = 0; i < size_a; i++) {
        a[i] = (unsigned char)draw(256);
    }
    if (!ts_cuda_move_plan(m->modes, m->rank, (uint32_t)m->bytes, &p)) {
        for (int32_t i = 0; i < m->rank; i++) {
            print_error("mode %d of %d bytes: %" PRId64 ", a %" PRId64 ", c %" PRId64 "\n", (int)i, (int)m->bytes, m->modes[i].extent,
                        m->modes[i].a, m->modes[i].c);
        }
        fail_msg("no plan");
    }
    walk(m, &p, a - first_a * m->bytes, c - first_c * m->bytes, written - first_c * m->bytes);
    for (int32_t i = 0; i < m->rank; i++) {
        elements *= m->modes[i].extent;
    }
    for (int64_t n = 0; n < elements; n++) {
        int64_t rest = n, from = -first_a, to = -first_c;
        for (int32_t i = m->rank - 1; i >= 0; i--) {
            from += rest % m->modes[i].extent * m->modes[i].a;
            to += rest % m->modes[i].extent * m->modes[i].c;
            rest /= m->modes[i].extent;
        }
        assert_memory_equal(c + to * m->bytes, a + from * m->bytes, (size_t)m->bytes);
        memset(written + to * m->bytes, 0, (size_t)m->bytes);
    }
    for (size_t i = 0; i < size_c; i++) { /* nothing between strides is touched */
        assert_int_equal(written[i], 0);
    }
    free(a);
    free(c);
    free(written);
    return p;
}

/* c strides of compact modes in a drawn order, a strides in another; gap: elements between the rows of a tensor. */
static void draw_strides(movement *m, bool of_a, int64_t gap)
{
    int32_t order[MOST_RANK];
    int64_t stride = 1;
    for (int32_t i = 0; i < m->rank; i++) {
        const int32_t j = (int32_t)draw((uint32_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int32_t k = 0; k < m->rank; k++) {
        ts_cuda_mode *mode = &m->modes[order[k]];
        *(of_a ? &mode->a : &mode->c) = stride;
        stride *= mode->extent;
        stride += k == 0 ? gap : 0;
    }
}

static const int32_t sizes[] = {1, 2, 4, 8, 16};
#define FOR_EACH_SIZE(bytes) for (int32_t bytes##_at = 0, bytes = 1; bytes##_at < 5; bytes = sizes[++bytes##_at % 5])

static void transposes_of_every_shape(void **unused UNUSED)
{
    static const int64_t shapes[][2] = {{64, 64}, {256, 128}, {1, 300}, {33, 65}, {127, 129}, {100, 36}, {6, 1000}, {3, 5}, {513, 40}, {250, 66}};
    FOR_EACH_SIZE(bytes)
    {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const int64_t rows = shapes[i][0], columns = shapes[i][1];
            for (int64_t batch = 1; batch <= 3; batch += 2) {
                for (int64_t inner = 1; inner <= 40; inner = inner * 2 + (inner == 4)) { /* 1, 2, 4, 9, 18, 36 */
                    if (batch * rows * columns * inner * bytes > 1 << 19) {
                        continue;
                    }
                    movement m = {.bytes = bytes};
                    add_mode(&m, batch, rows * columns * inner, rows * columns * inner);
                    add_mode(&m, rows, columns * inner, inner);
                    add_mode(&m, columns, inner, rows * inner);
                    add_mode(&m, inner, 1, 1);
                    (void)moves(&m);
                }
            }
        }
    }
}

static void permutations_of_small_extents(void **unused UNUSED)
{
    FOR_EACH_SIZE(bytes)
    {
        for (int round = 0; round < 60; round++) {
            movement m = {.bytes = bytes};
            const int32_t rank = round < 20 ? 14 : 1 + (int32_t)draw(7);
            for (int32_t i = 0; i < rank; i++) {
                add_mode(&m, rank == 14 ? 2 : 1 + (int64_t)draw(7), 0, 0);
            }
            draw_strides(&m, true, 0);
            draw_strides(&m, false, 0);
            (void)moves(&m);
        }
    }
}

/* Strides that are negative, zero, or leave gaps; diagonals. */
static void views(void **unused UNUSED)
{
    FOR_EACH_SIZE(bytes)
    {
        for (int round = 0; round < 120; round++) {
            movement m = {.bytes = bytes};
            const int32_t rank = 1 + (int32_t)draw(4);
            for (int32_t i = 0; i < rank; i++) {
                add_mode(&m, 1 + (int64_t)draw(i == 0 ? 50 : 14), 0, 0);
            }
            draw_strides(&m, true, (int64_t)draw(3) * draw(5));
            draw_strides(&m, false, (int64_t)draw(3) * draw(5));
            for (int32_t i = 0; i < rank; i++) {
                m.modes[i].a *= draw(3) == 0 ? -1 : 1;
                m.modes[i].a *= draw(4) == 0 ? 0 : 1;
                m.modes[i].c *= draw(3) == 0 ? -1 : 1;
            }
            if (rank > 1 && draw(4) == 0) {
                m.modes[0].a += m.modes[1].a;
            }
            (void)moves(&m);
        }
    }
}

static void nothing_and_one(void **unused UNUSED)
{
    movement m = {.bytes = 4};
    (void)moves(&m);
    add_mode(&m, 1, 5, -7);
    (void)moves(&m);
}

/* Too large to be walked: what the plan says of itself. */
static void large(void **unused UNUSED)
{
    FOR_EACH_SIZE(bytes)
    {
        movement m = {.bytes = bytes};
        ts_cuda_move p;
        add_mode(&m, (int64_t)1 << 20, 1, (int64_t)1 << 21);
        add_mode(&m, (int64_t)1 << 21, (int64_t)1 << 20, 1);
        assert_true(ts_cuda_move_plan(m.modes, m.rank, (uint32_t)bytes, &p));
        assert_int_equal(p.load.width * bytes, 16);
        assert_int_equal(p.store.width * bytes, 16);
        assert_int_equal(p.wide, p.tile_count >= (int64_t)1 << 31);
        assert_int_equal(p.tile_count * p.load.lanes * p.load.steps * p.load.width, (int64_t)1 << 41);
        m.modes[0].extent++; /* the last column is apart */
        m.modes[1].a++;
        assert_true(ts_cuda_move_plan(m.modes, m.rank, (uint32_t)bytes, &p));
        assert_int_equal(p.partial_extent[0], m.modes[0].extent);
        assert_int_equal(p.load.width, 1);
    }
}

/* Distinct banks of 4 bytes that the lanes of an access need, and how often the busiest one is. */
static int conflicts(const ts_cuda_move_side *side, int32_t wide, int32_t element, bool by_warp)
{
    const int32_t group = by_warp ? 32 : 128 / wide < 32 ? 128 / wide : 32;
    int worst = 0;
    for (int32_t first = 0; first + group <= side->lanes; first += group) {
        int32_t words[32][32], counts[32] = {0};
        for (int32_t lane = first; lane < first + group; lane++) {
            const place at = place_of(side, lane, 0);
            for (int32_t b = 0; b < wide; b += 4) {
                const int32_t word = (at.q + element + b) / 4, bank = word % 32;
                bool known = false;
                for (int i = 0; i < counts[bank]; i++) {
                    known = known || words[bank][i] == word;
                }
                if (!known) {
                    words[bank][counts[bank]++] = word;
                    worst = counts[bank] > worst ? counts[bank] : worst;
                }
            }
        }
    }
    return worst;
}

/* Memory is read and written in whole lines, and shared memory (but for a few permutations) without waiting for banks. */
static void whole_lines_and_no_conflicts(void **unused UNUSED)
{
    FOR_EACH_SIZE(bytes)
    {
        int often = 0;
        for (int round = 0; round < 200; round++) {
            movement m = {.bytes = bytes};
            ts_cuda_move p;
            bool slow = false;
            if (round == 0) {
                add_mode(&m, 4096, 1, 4096);
                add_mode(&m, 4096, 4096, 1);
            } else {
                for (int32_t i = 0; i < 24; i++) {
                    add_mode(&m, 2, 0, 0);
                }
                draw_strides(&m, true, 0);
                draw_strides(&m, false, 0);
            }
            assert_true(ts_cuda_move_plan(m.modes, m.rank, (uint32_t)bytes, &p));
            assert_int_equal(p.load.lanes, TS_CUDA_MOVE_THREADS);
            if (p.load.width * bytes == 16 && !p.direct) {
                assert_int_equal(conflicts(&p.load, 16, 0, false), 1);
            }
            if (p.store.width * bytes == 16 && !p.direct) {
                const int32_t wide = p.whole ? 16 : bytes;
                for (int32_t e = 0; e < (p.whole ? 1 : p.store.width); e++) {
                    const int met = conflicts(&p.store, wide < 4 ? 4 : wide, p.element_q[e], wide <= 4);
                    assert_in_range(met, 1, 8);
                    slow = slow || met > 2;
                }
            }
            /* Eight lanes of 16 bytes are a line. */
            for (int side = 0; side < 2; side++) {
                const ts_cuda_move_side *one = side == 0 ? &p.load : &p.store;
                for (int32_t lane = 0; lane < 8 && one->width * bytes == 16; lane++) {
                    assert_int_equal(place_of(one, lane, 0).stride, 16 * lane);
                }
            }
            assert_true(round > 0 || !slow);
            often += slow;
        }
        assert_in_range(often, 0, 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transposes_of_every_shape), cmocka_unit_test(permutations_of_small_extents),
        cmocka_unit_test(views),                     cmocka_unit_test(nothing_and_one),
        cmocka_unit_test(large),                     cmocka_unit_test(whole_lines_and_no_conflicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
