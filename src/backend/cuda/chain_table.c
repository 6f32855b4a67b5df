/* The tables that the kernel of a chain goes by. */
#include "backend/cuda/chain_maker.h"

#include <stddef.h>

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Stably, the smallest first. */
static void sort_modes(ts_list_mode *modes, int32_t count)
{
    for (int32_t i = 1; i < count; i++) {
        ts_list_mode mode = modes[i];
        int32_t j = i;
        for (; j > 0 && magnitude(modes[j - 1].key) > magnitude(mode.key); j--) {
            modes[j] = modes[j - 1];
        }
        modes[j] = mode;
    }
}

void *ts_maker_room(ts_maker *m, size_t bytes, uint32_t *offset)
{
    size_t rounded = (bytes + 15) / 16 * 16;
    void *at = m->table + m->bytes;
    if (m->bytes + rounded > m->capacity) {
        return NULL;
    }
    *offset = (uint32_t)m->bytes;
    m->bytes += rounded;
    memset(at, 0, rounded);
    return at;
}

int64_t ts_maker_divide(const ts_list_mode *modes, int32_t count, int threads, int32_t *own)
{
    int64_t size = 1;
    int32_t i = 0;
    for (; i < count && size * modes[i].extent <= threads; i++) {
        size *= modes[i].extent;
    }
    *own = i;
    return size;
}
ts_list_mode ts_maker_at_of(const ts_list_mode *modes, int32_t count, int64_t index)
{
    ts_list_mode sum = {0};
    for (int32_t i = 0; i < count; i++) {
        int64_t position = index % modes[i].extent;
        index /= modes[i].extent;
        sum.global += position * modes[i].global;
        sum.x += (int32_t)position * modes[i].x;
        sum.y += (int32_t)position * modes[i].y;
        sum.z += (int32_t)position * modes[i].z;
    }
    return sum;
}
int64_t ts_maker_size_of(const ts_list_mode *modes, int32_t count)
{
    int64_t size = 1;
    for (int32_t i = 0; i < count; i++) {
        size *= modes[i].extent;
    }
    return size;
}

bool ts_maker_write_list(ts_maker *m, const ts_list_mode *modes, int32_t count, bool places, bool own_part, ts_cuda_chain_list *list)
{
    int32_t own;
    const int64_t mine = ts_maker_divide(modes, count, m->threads, &own), entries = ts_maker_size_of(modes + own, count - own);

    list->count = (int32_t)entries;
    list->apart = (int32_t)(m->threads / mine);
    if (entries > TS_CHAIN_MOST_LIST) {
        return false;
    }
    if (!own_part) {
        unsigned char *all = ts_maker_room(m, (size_t)entries * 16, &list->all);
        for (int64_t i = 0; all != NULL && i < entries; i++) {
            ts_list_mode at = ts_maker_at_of(modes + own, count - own, i);
            if (places) {
                ((ts_cuda_chain_place *)(void *)all)[i] = (ts_cuda_chain_place){at.global, at.x, (int16_t)at.y, 0};
            } else {
                ((ts_cuda_chain_unit *)(void *)all)[i] = (ts_cuda_chain_unit){at.x, at.y, at.z, 0};
            }
        }
        return all != NULL;
    }
    unsigned char *all = ts_maker_room(m, (size_t)m->threads * 16, &list->own);
    for (int64_t i = 0; all != NULL && i < m->threads; i++) {
        ts_list_mode at = ts_maker_at_of(modes, own, i % mine);
        const int32_t first = i / mine < list->apart ? (int32_t)(i / mine) : INT16_MAX;
        if (places) {
            ((ts_cuda_chain_place *)(void *)all)[i] = (ts_cuda_chain_place){at.global, at.x, (int16_t)at.y, (int16_t)first};
        } else {
            ((ts_cuda_chain_unit *)(void *)all)[i] = (ts_cuda_chain_unit){at.x, at.y, at.z, first};
        }
    }
    return all != NULL;
}

int64_t ts_maker_stride_in(const ts_maker *m, int32_t value, int32_t label)
{
    return ts_stride_of(m->emission->program->plan, m->emission->strides, value, label);
}
int64_t ts_maker_slot_stride(const ts_maker *m, int32_t slot, int32_t label)
{
    const ts_extra_strides *extra = &m->slots[slot];
    for (int32_t i = 0; i < extra->count; i++) {
        if (extra->labels[i] == label) {
            return extra->strides[i];
        }
    }
    return 0;
}
static bool is_stored(const ts_maker *m, int32_t k) { return ts_cuda_chain_stores(m->emission, m->group, k); }
const ts_step *ts_maker_step_of(const ts_maker *m, int32_t k) { return &m->emission->program->plan->steps[m->group->steps[k]]; }

/* The labels that no tiny operand has, the ones with the smallest steps in `by` first; those in the tile already left out. */
static int32_t untouched(const ts_maker *m, int32_t big, int32_t by, ts_list_mode *modes)
{
    const tensum_plan *plan = m->emission->program->plan;
    const ts_value *v = &plan->values[big];
    int32_t count = 0;
    for (int32_t i = 0; i < v->rank; i++) {
        bool taken = ts_plan_extent(plan, v->labels[i]) == 1;
        for (int32_t k = 0; k < m->count && !taken; k++) {
            taken = m->labels[k].label == v->labels[i];
        }
        if (!taken) {
            modes[count++] = (ts_list_mode){.extent = ts_plan_extent(plan, v->labels[i]),
                                         .key = ts_maker_stride_in(m, by, v->labels[i]),
                                         .x = v->labels[i]};
        }
    }
    sort_modes(modes, count);
    return count;
}

/* Take a run along the operand, and one along the last result where that begins elsewhere and there is room. */
static void choose_run(ts_maker *m, int32_t big, int64_t positions, int64_t most, int64_t longest, int64_t least_pitch)
{
    const tensum_plan *plan = m->emission->program->plan;
    const int64_t wanted = ts_chain_run_elements(plan);
    const int64_t shared_out = plan->values[big].elements / positions / (4 * (int64_t)m->emission->list->units);
    const int32_t last = ts_maker_step_of(m, m->group->count - 1)->c;
    ts_list_mode modes[TS_CUDA_MOST_MODES];
    ts_tile_label *cut = NULL;

    m->run = 1;
    for (int pass = 0; pass < 2; pass++) {
        int32_t count = untouched(m, big, pass == 0 ? big : last, modes);
        int64_t length = 1;
        if (pass == 1) { /* what the last result has innermost already */
            const ts_value *c = &plan->values[last];
            int64_t next = 0;
            for (bool found = true; found && length < wanted;) {
                int64_t least = INT64_MAX, extent = 1;
                found = false;
                for (int32_t i = 0; i < c->rank; i++) {
                    int64_t stride = magnitude(ts_maker_stride_in(m, last, c->labels[i]));
                    for (int32_t k = 0; k < m->count && ts_plan_extent(plan, c->labels[i]) > 1; k++) {
                        if (m->labels[k].label == c->labels[i] && stride > next && stride < least) {
                            least = stride;
                            extent = m->labels[k].extent;
                        }
                    }
                }
                for (int32_t i = 0; i < count; i++) {
                    if (magnitude(modes[i].key) < least) { /* a label that the tile lacks comes first */
                        least = INT64_MAX;
                    }
                }
                if (least != INT64_MAX) {
                    found = true;
                    next = least;
                    length *= extent;
                }
            }
        }
        for (int32_t i = 0; i < count && length < wanted && m->count < 2 * TS_CHAIN_MOST_LIVE; i++) {
            int64_t piece = ts_min64((wanted + length - 1) / length, modes[i].extent);
            ts_tile_label *label = &m->labels[m->count];
            piece = ts_min64(piece, most / m->run);
            if (piece <= 1 || (piece < modes[i].extent && cut != NULL)) {
                break;
            }
            *label = (ts_tile_label){.label = modes[i].x, .extent = piece, .whole = modes[i].extent, .run = true,
                                  .cut = piece < modes[i].extent};
            m->run *= piece;
            length *= piece;
            m->count++;
            if (label->cut) {
                cut = label;
                break;
            }
        }
    }
    /* What a tile costs is shared by its elements, so it is made as large as can be; long ones only where there are some for
     * every block, and without any padding. */
    if (cut != NULL) {
        int64_t others = m->run / cut->extent;
        cut->extent = ts_min64(ts_min64(TS_CHAIN_MOST_PIECE, cut->whole), ts_max64(cut->extent, most / others));
        cut->cut = cut->extent < cut->whole;
        m->run = others * cut->extent;
    } else {
        int32_t count = untouched(m, big, big, modes);
        for (int32_t i = 0; i < count && m->run < longest && m->count < 2 * TS_CHAIN_MOST_LIVE &&
                            (m->run < 8 * wanted || (m->run % least_pitch == 0 && m->run < shared_out)); i++) {
            int64_t piece = ts_min64(ts_min64(TS_CHAIN_MOST_PIECE, modes[i].extent), most / m->run);
            if (piece <= 1) {
                break;
            }
            m->labels[m->count++] = (ts_tile_label){.label = modes[i].x, .extent = piece, .whole = modes[i].extent,
                                                 .run = true, .cut = piece < modes[i].extent};
            m->run *= piece;
            if (piece < modes[i].extent) {
                break;
            }
        }
    }
}

int64_t ts_maker_lay_out(ts_maker *m, int32_t stage, int32_t value)
{
    const tensum_plan *plan = m->emission->program->plan;
    const ts_value *v = &plan->values[value];
    ts_list_mode modes[TS_CUDA_MOST_MODES];
    int32_t count = 0;
    int64_t at = 1;

    for (int32_t i = 0; i < m->count; i++) {
        m->labels[i].place[stage] = 0;
        if (m->labels[i].run) {
            m->labels[i].place[stage] = (int32_t)at;
            at *= m->labels[i].extent;
        } else if (ts_chain_has_label(v->labels, v->rank, m->labels[i].label)) {
            modes[count++] = (ts_list_mode){.extent = m->labels[i].extent, .key = ts_maker_stride_in(m, value, m->labels[i].label), .x = i};
        }
    }
    sort_modes(modes, count);
    at = m->pitch;
    for (int32_t i = 0; i < count; i++) {
        m->labels[modes[i].x].place[stage] = (int32_t)at;
        at *= modes[i].extent;
    }
    return at;
}

int32_t ts_maker_memory_modes(ts_maker *m, int32_t stage, int32_t slot, ts_list_mode *modes, int32_t *width)
{
    const tensum_plan *plan = m->emission->program->plan;
    const int64_t w = 16 / (int64_t)tensum_dtype_bytes(plan->algebra.dtype);
    const ts_cuda_chain_table *t = (const ts_cuda_chain_table *)(const void *)m->table;
    const ts_cuda_chain_outer *outer = (const ts_cuda_chain_outer *)(const void *)(m->table + t->outer);
    int32_t count = 0;
    int64_t odd = 0;

    for (int32_t i = 0; i < m->count; i++) {
        const ts_tile_label *label = &m->labels[i];
        if (label->place[stage] != 0) {
            const int64_t stride = slot < 0 ? label->a : label->c[slot];
            modes[count++] = (ts_list_mode){.extent = label->extent, .global = stride, .key = stride,
                                         .x = label->place[stage], .y = label->cut ? 1 : 0};
        }
    }
    sort_modes(modes, count);
    for (int32_t i = 0; i + 1 < count;) { /* as one mode, but short ones only: see `divide` */
        ts_list_mode *x = &modes[i], *y = &modes[i + 1];
        if (x->extent * y->extent <= TS_CHAIN_MOST_EXTENT && y->global == x->global * x->extent && y->x == x->x * x->extent &&
            x->y == 0 && y->y == 0) {
            x->extent *= y->extent;
            memmove(y, y + 1, (size_t)(count - i - 2) * sizeof *y);
            count--;
        } else {
            i++;
        }
    }
    *width = 1;
    /* Wide: rows of memory are rows of shared memory, and all else is a multiple of 16 bytes away. */
    if (w > 1 && count > 0 && modes[0].global == 1 && modes[0].x == 1 && modes[0].extent % w == 0 && m->pitch % w == 0) {
        for (int32_t i = 1; i < count; i++) {
            odd |= modes[i].global % w | modes[i].x % w;
        }
        for (int32_t i = 0; i < t->outer_count; i++) {
            odd |= (slot < 0 ? outer[i].a : outer[i].c[slot]) % w;
            odd |= outer[i].cut && modes[0].y != 0 ? t->cut_extent % w : 0;
        }
        if (odd == 0) {
            *width = (int32_t)w;
            modes[0].extent /= w;
            modes[0].global *= w;
            modes[0].x *= (int32_t)w;
            modes[0].y *= (int32_t)w;
        }
    }
    return count;
}

int32_t ts_maker_unit_modes(const ts_maker *m, int32_t k, int32_t per_unit, int32_t padded, ts_list_mode *modes)
{
    const tensum_plan *plan = m->emission->program->plan;
    const ts_step *step = ts_maker_step_of(m, k);
    const ts_value *tiny = &plan->values[ts_chain_tiny_of(plan, step)];
    int32_t count = 0, first;
    int64_t coefficient = step->sum_size * padded + 4; /* apart, so that lanes do not meet in one bank */

    for (int64_t rest = m->pitch / per_unit, at = per_unit; count == 0 || rest > 1; count++) { /* in short ones: see `divide` */
        int64_t extent = ts_min64(rest, TS_CHAIN_MOST_PIECE);
        while (rest % extent != 0) {
            extent--;
        }
        if (extent == 1) {
            extent = rest;
        }
        modes[count] = (ts_list_mode){.extent = extent, .x = (int32_t)at, .y = (int32_t)at};
        at *= extent;
        rest /= extent;
    }
    for (int pass = 0; pass < 2; pass++) {
        first = count;
        for (int32_t i = 0; i < m->count; i++) {
            const ts_tile_label *label = &m->labels[i];
            if (!label->run && label->place[k] != 0 && label->place[k + 1] != 0 &&
                ts_chain_has_label(tiny->labels, tiny->rank, label->label) == (pass == 1)) {
                modes[count++] = (ts_list_mode){.extent = label->extent, .key = label->place[k], .x = label->place[k],
                                             .y = label->place[k + 1], .z = label->label};
            }
        }
        sort_modes(modes + first, count - first);
        for (int32_t i = first; i < count; i++) {
            modes[i].z = 0;
            if (pass == 1) {
                modes[i].z = (int32_t)coefficient;
                coefficient *= modes[i].extent;
            }
        }
    }
    return count;
}

int32_t ts_maker_column_modes(const ts_maker *m, int32_t k, ts_list_mode *modes, int32_t unit_count, ts_cuda_chain_step *made)
{
    const tensum_plan *plan = m->emission->program->plan;
    const int32_t at_once = made->padded == 2 ? 2 : 4;
    int32_t new_count, count = 0;
    const int32_t *added = ts_chain_new_of(plan, ts_maker_step_of(m, k), &new_count);
    int64_t units = ts_maker_size_of(modes, unit_count);

    for (int32_t n = 0; n < new_count; n++) { /* the slowest labels of a column's number first */
        const int32_t extent = (int32_t)ts_plan_extent(plan, added[n]);
        if (units * extent > m->threads || made->columns_each % (extent * at_once) != 0) {
            break;
        }
        made->columns_each /= extent;
        units *= extent;
        for (int32_t i = 0; i < m->count; i++) {
            if (m->labels[i].label == added[n]) {
                modes[unit_count + count++] = (ts_list_mode){.extent = extent, .y = m->labels[i].place[k + 1], .z = made->columns_each};
            }
        }
    }
    return count;
}

bool ts_maker_write_step(ts_maker *m, int32_t k, const ts_list_mode *units, int32_t unit_count, bool copied, ts_cuda_chain_step *made)
{
    const tensum_plan *plan = m->emission->program->plan;
    const ts_step *step = ts_maker_step_of(m, k);
    const int32_t tiny = ts_chain_tiny_of(plan, step);
    int32_t new_count;
    const int32_t *added = ts_chain_new_of(plan, step, &new_count);

    if (copied) {
        int32_t *terms = ts_maker_room(m, (size_t)step->sum_size * 4, &made->term_places);
        int32_t *columns = ts_maker_room(m, (size_t)made->columns * 4, &made->column_places);
        if (terms == NULL || columns == NULL) {
            return false;
        }
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t i = 0; i < (pass == 0 ? step->sum_size : made->columns); i++) {
                int64_t rest = i;
                for (int32_t n = (pass == 0 ? step->sum_count : new_count) - 1; n >= 0; n--) {
                    const int32_t label = pass == 0 ? step->sum[n] : added[n];
                    const int64_t extent = ts_plan_extent(plan, label);
                    for (int32_t j = 0; j < m->count; j++) {
                        if (m->labels[j].label == label) {
                            (pass == 0 ? terms : columns)[i] +=
                                (int32_t)(rest % extent) * m->labels[j].place[pass == 0 ? k : k + 1];
                        }
                    }
                    rest /= extent;
                }
            }
        }
        return true;
    }
    int64_t *sources = ts_maker_room(m, (size_t)made->coefficients * 8, &made->sources);
    ts_list_mode shared[TS_CUDA_MOST_MODES];
    int32_t shared_count = 0;
    if (sources == NULL) {
        return false;
    }
    for (int32_t i = 0; i < made->coefficients; i++) {
        sources[i] = INT64_MIN;
    }
    for (int32_t i = 0; i < unit_count; i++) {
        for (int32_t j = 0; j < m->count && units[i].z != 0; j++) {
            if (units[i].x == m->labels[j].place[k] && units[i].extent == m->labels[j].extent) {
                shared[shared_count] = units[i];
                shared[shared_count++].global = ts_maker_stride_in(m, tiny, m->labels[j].label);
                break;
            }
        }
    }
    for (int64_t batch = 0; batch < ts_maker_size_of(shared, shared_count); batch++) {
        const ts_list_mode at = ts_maker_at_of(shared, shared_count, batch);
        for (int64_t term = 0; term < step->sum_size; term++) {
            for (int64_t column = 0; column < made->columns; column++) {
                int64_t source = at.global, rest = term;
                for (int32_t n = step->sum_count - 1; n >= 0; n--) {
                    source += rest % ts_plan_extent(plan, step->sum[n]) * ts_maker_stride_in(m, tiny, step->sum[n]);
                    rest /= ts_plan_extent(plan, step->sum[n]);
                }
                rest = column;
                for (int32_t n = new_count - 1; n >= 0; n--) {
                    source += rest % ts_plan_extent(plan, added[n]) * ts_maker_stride_in(m, tiny, added[n]);
                    rest /= ts_plan_extent(plan, added[n]);
                }
                sources[at.z + term * made->padded + column] = source;
            }
        }
    }
    return true;
}

/* The rest of the untouched labels: one tile after the other, the smallest steps of the operand last. */
static bool write_outer(ts_maker *m, int32_t big, ts_cuda_chain_table *t, int64_t *tiles)
{
    const tensum_plan *plan = m->emission->program->plan;
    const ts_value *v = &plan->values[big];
    ts_cuda_chain_outer all[64], *to; /* extents of 2 or more, and less than 2^63 elements */
    int32_t count = 0, made = 0;

    *tiles = 1;
    for (int32_t i = 0; i < v->rank; i++) {
        const int64_t extent = ts_plan_extent(plan, v->labels[i]);
        ts_cuda_chain_outer outer = {.extent = extent, .a = ts_maker_stride_in(m, big, v->labels[i])};
        int64_t piece = 1;
        for (int32_t k = 0; k < m->count; k++) {
            if (m->labels[k].label == v->labels[i]) {
                piece = m->labels[k].extent;
                outer.cut = m->labels[k].cut;
                outer.extent = outer.cut ? (extent + piece - 1) / piece : 1;
            }
        }
        if (outer.extent == 1) {
            continue;
        }
        outer.a *= piece;
        for (int32_t k = 0; k < TS_CUDA_CHAIN_STEPS; k++) {
            outer.c[k] = piece * ts_maker_slot_stride(m, k, v->labels[i]);
        }
        if (outer.cut) {
            t->cut_extent = (int32_t)(extent > INT32_MAX ? 0 : extent);
            t->cut_piece = (int32_t)piece;
        }
        *tiles *= outer.extent;
        int32_t at = count++;
        for (; at > 0 && magnitude(all[at - 1].a) < magnitude(outer.a); at--) {
            all[at] = all[at - 1];
        }
        all[at] = outer;
    }
    for (int32_t i = 0; i < count; i++) { /* neighbours that are one mode in every tensor */
        ts_cuda_chain_outer *last = made > 0 ? &all[made - 1] : NULL;
        bool one = last != NULL && !last->cut && !all[i].cut && last->a == all[i].a * all[i].extent;
        for (int32_t k = 0; k < TS_CUDA_CHAIN_STEPS && one; k++) {
            one = last->c[k] == all[i].c[k] * all[i].extent;
        }
        if (one) {
            last->extent *= all[i].extent;
            last->a = all[i].a;
            memcpy(last->c, all[i].c, sizeof last->c);
        } else {
            all[made++] = all[i];
        }
    }
    to = ts_maker_room(m, (size_t)made * sizeof *to, &t->outer);
    if (to == NULL) {
        return false;
    }
    for (int32_t i = 0; i < made; i++) {
        to[i] = all[i];
        ts_cuda_magic(to[i].extent, &to[i].magic, &to[i].shift);
    }
    t->outer_count = made;
    t->wide = *tiles >= (int64_t)1 << 31;
    return true;
}

bool ts_maker_begin(ts_maker *m, int64_t tile_elements, int64_t longest_run, ts_cuda_chain_table *t, int64_t *tiles)
{
    const tensum_plan *plan = m->emission->program->plan;
    const int32_t big = ts_chain_big_of(plan, ts_maker_step_of(m, 0)), steps = m->group->count;
    const int64_t bytes = (int64_t)tensum_dtype_bytes(plan->algebra.dtype), least_pitch = bytes >= 16 ? 1 : 16 / bytes;
    ts_label_set set = {.count = 0};
    int64_t most;

    for (int32_t k = 0; k < steps; k++) {
        if (!ts_chain_put_touched(plan, ts_maker_step_of(m, k), &set)) {
            return false;
        }
    }
    most = ts_chain_live_size(plan, &set, big);
    for (int32_t k = 0; k < steps; k++) {
        most = ts_max64(most, ts_chain_live_size(plan, &set, ts_maker_step_of(m, k)->c));
    }
    for (int32_t i = 0; i < set.count; i++) {
        m->labels[m->count++] = (ts_tile_label){.label = set.labels[i], .extent = ts_plan_extent(plan, set.labels[i])};
    }
    choose_run(m, big, ts_max64(1, most), tile_elements / most / least_pitch * least_pitch, longest_run, least_pitch);
    m->pitch = (m->run + least_pitch - 1) / least_pitch * least_pitch;
    for (int32_t i = 0; i < m->count; i++) {
        m->labels[i].a = ts_maker_stride_in(m, big, m->labels[i].label);
        for (int32_t k = 0; k < TS_CUDA_CHAIN_STEPS; k++) {
            m->labels[i].c[k] = ts_maker_slot_stride(m, k, m->labels[i].label);
        }
    }
    t->cut_extent = t->cut_piece = 1;
    return write_outer(m, big, t, tiles) && t->cut_extent != 0;
}

void ts_maker_begin_step(const ts_maker *m, int32_t k, size_t *coefficients, ts_cuda_chain_step *made)
{
    const tensum_plan *plan = m->emission->program->plan;
    const ts_step *step = ts_maker_step_of(m, k);
    const int32_t at_once = ts_chain_size_of_new(plan, step) <= 2 ? 2 : 4;

    made->terms = (int32_t)step->sum_size;
    made->columns = (int32_t)ts_chain_size_of_new(plan, step);
    made->columns_each = made->columns;
    made->padded = (made->columns + at_once - 1) / at_once * at_once;
    made->coefficients = ((int32_t)step->batch_size * (made->terms * made->padded + 4) + 3) / 4 * 4;
    made->first_coefficient = (int32_t)*coefficients;
    *coefficients += (size_t)made->coefficients;
}

static size_t up(size_t bytes) { return (bytes + 127) / 128 * 128; }

/* All of it. shared_bytes: dynamic shared memory. False: this chain and these strides are not for the kernel. */
static bool make(ts_maker *m, ts_cuda_chain *p, uint32_t *shared_bytes)
{
    const tensum_plan *plan = m->emission->program->plan;
    const int32_t big = ts_chain_big_of(plan, ts_maker_step_of(m, 0)), steps = m->group->count;
    const int64_t bytes = (int64_t)tensum_dtype_bytes(plan->algebra.dtype);
    const int32_t per_unit = bytes >= 16 ? 1 : bytes >= 8 ? 2 : 4;
    const size_t value = ts_cuda_arithmetic_bytes(plan->algebra.dtype);
    ts_cuda_chain_table *t = (ts_cuda_chain_table *)(void *)m->table;
    ts_list_mode load[2 * TS_CHAIN_MOST_LIVE], units[TS_CUDA_CHAIN_STEPS][2 * TS_CHAIN_MOST_LIVE + 1], stores[TS_CUDA_CHAIN_STEPS][2 * TS_CHAIN_MOST_LIVE];
    int32_t load_count, unit_count[TS_CUDA_CHAIN_STEPS], column_count[TS_CUDA_CHAIN_STEPS], store_count[TS_CUDA_CHAIN_STEPS];
    int64_t sizes[TS_CUDA_CHAIN_STEPS + 1];
    size_t coefficients = 0, total;
    uint32_t unused;

    if (ts_maker_room(m, sizeof *t, &unused) == NULL) {
        return false;
    }
    for (int32_t k = 0; k < steps; k++) {
        if (is_stored(m, k)) {
            ts_cuda_compact_extra(m->emission, ts_maker_step_of(m, k)->c, &m->slots[k]);
        }
    }
    if (!ts_maker_begin(m, ts_chain_tile_elements(plan), TS_CHAIN_LONGEST_RUN * ts_chain_run_elements(plan), t, &p->tile_count)) {
        return false;
    }
    sizes[0] = ts_maker_lay_out(m, 0, big);
    int64_t most = sizes[0];
    for (int32_t k = 0; k < steps; k++) {
        sizes[k + 1] = ts_maker_lay_out(m, k + 1, ts_maker_step_of(m, k)->c);
        most = ts_max64(most, sizes[k + 1]);
    }
    m->threads = most > 4096 ? TS_CUDA_CHAIN_THREADS : TS_CUDA_CHAIN_THREADS / 2;
    load_count = ts_maker_memory_modes(m, 0, -1, load, &t->load.width);
    for (int32_t k = 0; k < steps; k++) {
        ts_cuda_chain_step *made = &t->step[k];
        ts_maker_begin_step(m, k, &coefficients, made);
        unit_count[k] = ts_maker_unit_modes(m, k, per_unit, made->padded, units[k]);
        column_count[k] = ts_maker_column_modes(m, k, units[k], unit_count[k], made);
        store_count[k] = ts_maker_memory_modes(m, k + 1, k, stores[k], &made->store.width);
    }
    /* First what is copied to shared memory. */
    if (!ts_maker_write_list(m, load, load_count, true, false, &t->load)) {
        return false;
    }
    for (int32_t k = 0; k < steps; k++) {
        if (!ts_maker_write_list(m, units[k], unit_count[k] + column_count[k], false, false, &t->step[k].units) ||
            !ts_maker_write_step(m, k, units[k], unit_count[k], true, &t->step[k]) ||
            (is_stored(m, k) && !ts_maker_write_list(m, stores[k], store_count[k], true, false, &t->step[k].store))) {
            return false;
        }
    }
    p->copied = (uint32_t)m->bytes;
    if (!ts_maker_write_list(m, load, load_count, true, true, &t->load)) {
        return false;
    }
    for (int32_t k = 0; k < steps; k++) {
        if (!ts_maker_write_list(m, units[k], unit_count[k] + column_count[k], false, true, &t->step[k].units) ||
            !ts_maker_write_step(m, k, units[k], unit_count[k], false, &t->step[k]) ||
            (is_stored(m, k) && !ts_maker_write_list(m, stores[k], store_count[k], true, true, &t->step[k].store))) {
            return false;
        }
    }
    total = up(p->copied);
    p->bases = (uint32_t)total;
    total = up(total + TS_CUDA_CHAIN_BASES * (2 + TS_CUDA_CHAIN_STEPS) * 8);
    p->coefficients = (uint32_t)total;
    total = up(total + coefficients * value);
    p->in = (uint32_t)total;
    total = up(total + (size_t)(sizes[0] * bytes));
    for (int32_t side = 0; side < 2; side++) {
        int64_t largest = 0;
        for (int32_t k = side; k < steps; k += 2) {
            largest = ts_max64(largest, sizes[k + 1]);
        }
        p->work[side] = (uint32_t)total;
        total = up(total + (size_t)(largest * bytes));
    }
    p->steps = steps;
    *shared_bytes = (uint32_t)total;
    return total <= m->emission->program->device->shared_limit;
}

/* Most bytes that a table can have. */
static size_t table_bytes(const ts_cuda_emission *emission, const ts_cuda_chain_group *group)
{
    const tensum_plan *plan = emission->program->plan;
    const size_t list = (size_t)(TS_CUDA_CHAIN_THREADS + TS_CHAIN_MOST_LIST) * 16;
    size_t bytes = sizeof(ts_cuda_chain_table) + 64 * sizeof(ts_cuda_chain_outer) + 16 + list;
    for (int32_t k = 0; k < group->count; k++) {
        const ts_step *step = &plan->steps[group->steps[k]];
        bytes += 2 * list + 64 + (size_t)(step->sum_size + ts_chain_size_of_new(plan, step)) * 4 + (size_t)ts_chain_coefficients_of(plan, step) * 8;
    }
    return bytes;
}

static ts_cuda_pointer pointer_of(const ts_cuda_emission *emission, const ts_cuda_pointer *given, int32_t value)
{
    return given != NULL ? given[value] : ts_cuda_value_pointer(emission, value);
}

tensum_status ts_cuda_add_chain(const ts_cuda_emission *emission, const ts_cuda_chain_group *group,
                                const ts_cuda_pointer *given, ts_cuda_switch accumulate, bool *added)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    const size_t element = tensum_dtype_bytes(plan->algebra.dtype);
    ts_cuda_list *list = emission->list;
    ts_cu_address address;
    ts_cuda_chain p = {0};
    uint32_t shared_bytes = 0;
    int64_t blocks;
    ts_maker *m = NULL;

    *added = false;
    TRY(ts_allocate_zero(1, sizeof *m, "the table of a chain", &m));
    m->emission = emission;
    m->group = group;
    m->capacity = table_bytes(emission, group);
    ts_cuda_add_table(list, m->capacity, &m->table, &address);
    if (!list->measure && !make(m, &p, &shared_bytes)) {
        goto done;
    }
    p.a = pointer_of(emission, given, ts_chain_big_of(plan, &plan->steps[group->steps[0]]));
    p.table = address;
    p.modulus = plan->algebra.modulus;
    p.accumulate = accumulate;
    for (int32_t k = 0; k < group->count; k++) {
        p.b[k] = pointer_of(emission, given, ts_chain_tiny_of(plan, &plan->steps[group->steps[k]]));
        if (ts_cuda_chain_stores(emission, group, k)) {
            p.c[k] = pointer_of(emission, given, plan->steps[group->steps[k]].c);
        }
    }
    /* As many blocks as run at a time: each goes on to the next tile. */
    blocks = (int64_t)list->units * ts_max64(1, ts_min64(m->threads > TS_CUDA_CHAIN_THREADS / 2 ? 2 : 4,
                                                         (int64_t)program->device->shared_limit / ts_max64(1, shared_bytes)));
    TRY(ts_cuda_add_launch(list, &program->pair, TS_CUDA_KERNEL_CHAIN, ts_cuda_grid(ts_min64(p.tile_count, blocks)),
                           list->measure ? TS_CUDA_CHAIN_THREADS : (uint32_t)m->threads, shared_bytes, &p, sizeof p));
    for (int32_t k = 0; k < group->count && !list->measure; k++) {
        const ts_step *step = &plan->steps[group->steps[k]];
        ts_mode modes[TS_CUDA_MOST_MODES];
        const int32_t values[3] = {k == 0 ? ts_chain_big_of(plan, step) : -1, ts_chain_tiny_of(plan, step), p.c[k].slot | p.c[k].offset ? step->c : -1};
        for (int i = 0; i < 3; i++) {
            const ts_value *v = values[i] >= 0 ? &plan->values[values[i]] : NULL;
            for (int32_t n = 0; v != NULL && n < v->rank; n++) {
                modes[n] = (ts_mode){.extent = ts_plan_extent(plan, v->labels[n]), .a = ts_maker_stride_in(m, values[i], v->labels[n])};
            }
            if (v != NULL && i < 2) {
                ts_cuda_reads(list, i == 0 ? p.a : p.b[k], TS_CUDA_SPAN(modes, v->rank, a, element));
            } else if (v != NULL) {
                ts_cuda_writes(list, p.c[k], TS_CUDA_SPAN(modes, v->rank, a, element));
            }
        }
    }
    *added = true;
done:
    ts_free(m);
    return status;
}

tensum_status ts_cuda_emit_chain(const ts_cuda_emission *emission, int32_t step, ts_cuda_switch accumulate, bool *done)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const ts_cuda_chain_group *group;

    *done = false;
    if (program->chain_of == NULL || program->chain_of[step] < 0) {
        return TENSUM_OK;
    }
    group = &program->chains[program->chain_of[step]];
    if (group->steps[group->count - 1] != step) {
        *done = !emission->list->measure;
        return TENSUM_OK;
    }
    TRY(ts_cuda_add_chain(emission, group, NULL, accumulate, done));
    if (!*done && group->count > 1) {
        TRY(ts_fail(TENSUM_STATUS_INTERNAL, "cuda: a chain of %d steps has no tables", (int)group->count));
    }
    if (emission->list->measure) {
        *done = false;
    }
done:
    return status;
}
