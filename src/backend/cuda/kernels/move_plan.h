/* Cutting a permutation, or any other movement of elements, into tiles for the move kernel. For the host. */
#ifndef TS_CUDA_MOVE_PLAN_H
#define TS_CUDA_MOVE_PLAN_H

#include <stdbool.h>
#include <string.h>

#include "abi.h"

#define TS_CUDA_MOVE_MODES 64
#define TS_CUDA_MOVE_LINE 128 /* bytes that memory likes to be read and written in */
#define TS_CUDA_MOVE_ATOMS 96

typedef struct ts_cuda_move_atom { /* part of a mode's piece: positions 0, step, 2 step, ... below extent * step */
    int32_t mode, extent, step;
    int32_t q; /* elements; 0: not placed yet, or all at one place */
    bool placed, in_a, in_c, line; /* in_a, in_c: of a vector; line: of a line of c */
} ts_cuda_move_atom;
typedef struct ts_cuda_move_cut {
    int64_t extent[TS_CUDA_MOVE_MODES], a[TS_CUDA_MOVE_MODES], c[TS_CUDA_MOVE_MODES];
    int64_t tile[TS_CUDA_MOVE_MODES];
    int32_t vector_a[TS_CUDA_MOVE_MODES], vector_c[TS_CUDA_MOVE_MODES]; /* positions within a vector */
    int32_t by_a[TS_CUDA_MOVE_MODES], by_c[TS_CUDA_MOVE_MODES];         /* modes by ascending steps; by_a: those of a */
    int32_t count, count_a, atom_count;
    int64_t elements, most; /* of a tile */
    ts_cuda_move_atom atom[TS_CUDA_MOVE_ATOMS];
} ts_cuda_move_cut;

static inline int64_t ts_cuda_move_size(int64_t stride) { return stride < 0 ? -stride : stride; }

/* Modes of extent above 1 with c ascending and positive, fused where both tensors allow. */
static inline void ts_cuda_move_modes(const ts_cuda_mode *modes, int32_t count, ts_cuda_move_cut *cut, ts_cuda_move *p)
{
    int32_t n = 0;
    for (int32_t i = 0; i < count; i++) {
        int64_t a = modes[i].a, c = modes[i].c;
        int32_t at = n;
        if (modes[i].extent == 1) {
            continue;
        }
        if (c < 0) {
            p->from += (modes[i].extent - 1) * a;
            p->to += (modes[i].extent - 1) * c;
            a = -a;
            c = -c;
        }
        for (; at > 0 && cut->c[at - 1] > c; at--) {
            cut->extent[at] = cut->extent[at - 1];
            cut->a[at] = cut->a[at - 1];
            cut->c[at] = cut->c[at - 1];
        }
        cut->extent[at] = modes[i].extent;
        cut->a[at] = a;
        cut->c[at] = c;
        n++;
    }
    cut->count = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t last = cut->count - 1;
        if (last >= 0 && cut->c[i] == cut->c[last] * cut->extent[last] && cut->a[i] == cut->a[last] * cut->extent[last]) {
            cut->extent[last] *= cut->extent[i];
        } else {
            cut->extent[cut->count] = cut->extent[i];
            cut->a[cut->count] = cut->a[i];
            cut->c[cut->count] = cut->c[i];
            cut->count++;
        }
    }
    cut->count_a = 0;
    for (int32_t i = 0; i < cut->count; i++) {
        int32_t at = cut->count_a;
        cut->by_c[i] = i;
        if (cut->a[i] != 0) {
            for (; at > 0 && ts_cuda_move_size(cut->a[cut->by_a[at - 1]]) > ts_cuda_move_size(cut->a[i]); at--) {
                cut->by_a[at] = cut->by_a[at - 1];
            }
            cut->by_a[at] = i;
            cut->count_a++;
        }
    }
}

/* The widest access, at most `most` elements, that all of a tensor's strides allow; vector: the positions in it. */
static inline int32_t ts_cuda_move_width(const ts_cuda_move_cut *cut, const int32_t *order, int32_t count, const int64_t *stride,
                                         int32_t most, int32_t *vector)
{
    for (int32_t width = most; width >= 1; width /= 2) {
        int32_t inside = 1;
        bool fits = true;
        for (int32_t i = 0; i < cut->count; i++) {
            vector[i] = 1;
        }
        for (int32_t k = 0; k < count; k++) {
            const int32_t i = order[k];
            const int32_t left = width / inside;
            if (left > 1) {
                vector[i] = cut->extent[i] % left == 0 ? left : cut->extent[i] < left ? (int32_t)cut->extent[i] : 0;
                fits = fits && stride[i] == inside && vector[i] != 0 && left % vector[i] == 0;
                if (!fits) {
                    break;
                }
                inside *= vector[i];
            } else {
                fits = fits && stride[i] % width == 0;
            }
        }
        if (width == 1 || (fits && inside == width)) {
            return width;
        }
    }
    return 1;
}

/* Lengthen the tile along one tensor until rows have `target` elements. Modes are taken whole or by powers of two; whole
 * rather where a power would leave a remainder. */
static inline void ts_cuda_move_grow(ts_cuda_move_cut *cut, const int32_t *order, int32_t count, int64_t target, bool powers)
{
    int64_t length = 1;
    for (int32_t k = 0; k < count && length < target; k++) {
        const int32_t i = order[k];
        const int64_t most = cut->most / (cut->elements / cut->tile[i]), need = (target + length - 1) / length;
        int64_t next = cut->extent[i];
        if (next > most || next > (powers ? need : (next & (next - 1)) != 0 ? 4 * need : need + need / 2) || next > 16384) {
            for (next = cut->tile[i]; next < need && next * 2 <= most && next * 2 <= 16384 && next * 2 < cut->extent[i]; next *= 2) {
            }
        }
        if (next > cut->tile[i]) {
            int32_t partial = 0;
            for (int32_t j = 0; j < cut->count; j++) {
                partial += cut->extent[j] % (j == i ? next : cut->tile[j]) != 0;
            }
            if (partial > 2) {
                return;
            }
            cut->elements = cut->elements / cut->tile[i] * next;
            cut->tile[i] = next;
        }
        if (cut->tile[i] < cut->extent[i]) {
            return;
        }
        length *= cut->extent[i];
    }
}

static inline int64_t ts_cuda_move_divisor(int64_t number, int64_t most) /* the largest that is not above `most` */
{
    int64_t divisor = most < number ? most : number;
    while (number % divisor != 0) {
        divisor--;
    }
    return divisor;
}

/* Digits of a tile: split where vectors end and where a line of c ends. */
static inline void ts_cuda_move_atoms(ts_cuda_move_cut *cut, int64_t line)
{
    int64_t length = 1;
    cut->atom_count = 0;
    for (int32_t i = 0; i < cut->count; i++) { /* c ascends */
        const int64_t tile = cut->tile[i], left = length < line ? (line + length - 1) / length : 0;
        const int64_t vector_a = cut->vector_a[i], vector_c = cut->vector_c[i], long_one = vector_a > vector_c ? vector_a : vector_c;
        int64_t in_line = left > 0 ? ts_cuda_move_divisor(tile, left) : 1, cuts[4], step = 1;
        if (in_line % long_one != 0) {
            in_line = 1;
        }
        cuts[0] = vector_a < vector_c ? vector_a : vector_c;
        cuts[1] = long_one;
        cuts[2] = in_line > long_one ? in_line : long_one;
        cuts[3] = tile;
        for (int32_t k = 0; k < 4; k++) {
            if (cuts[k] > step) {
                ts_cuda_move_atom *atom = &cut->atom[cut->atom_count++];
                memset(atom, 0, sizeof *atom);
                atom->mode = i;
                atom->extent = (int32_t)(cuts[k] / step);
                atom->step = (int32_t)step;
                atom->in_a = cuts[k] <= vector_a;
                atom->in_c = cuts[k] <= vector_c;
                atom->line = !atom->in_c && cuts[k] <= in_line;
                step = cuts[k];
            }
        }
        length = tile == cut->extent[i] ? length * tile : line;
    }
}

/* Lanes that write a line of c read units of shared memory: `met` counts them by unit, modulo a round of all banks. */
typedef struct ts_cuda_move_units {
    int32_t count;
    int32_t met[32];
} ts_cuda_move_units;
/* The same with `extent` times as many lanes, `step` units apart. Returns how many meet the busiest unit. */
static inline int32_t ts_cuda_move_meet(const ts_cuda_move_units *from, int32_t extent, int32_t step, ts_cuda_move_units *to)
{
    int32_t worst = 0;
    memset(to->met, 0, sizeof to->met);
    to->count = from->count;
    for (int32_t position = 0; position < extent; position++) {
        for (int32_t n = 0; n < from->count; n++) {
            to->met[(n + position * step) % from->count] += from->met[n];
        }
    }
    for (int32_t n = 0; n < to->count; n++) {
        worst = to->met[n] > worst ? to->met[n] : worst;
    }
    return worst;
}

/* Where atoms lie in shared memory: as they are read, but lines of c so that its neighbours meet other banks. */
static inline int32_t ts_cuda_move_place(ts_cuda_move_cut *cut, int32_t bytes, int32_t width_a, int32_t width_c)
{
    const int32_t unit = width_a > width_c ? width_a : width_c, line = TS_CUDA_MOVE_LINE / bytes;
    ts_cuda_move_units lanes = {line / unit < 32 ? line / unit : 32, {1}}, more, best = lanes;
    int32_t end = 1;
    for (int32_t pass = 0; pass < 4; pass++) { /* vectors of a; its line; lines of c; the rest */
        for (int32_t k = 0; k < cut->count_a; k++) {
            for (int32_t n = 0; n < cut->atom_count; n++) {
                ts_cuda_move_atom *atom = &cut->atom[n];
                if (atom->placed || atom->mode != cut->by_a[k] ||
                    !(pass == 0 ? atom->in_a : pass == 1 ? end < line : pass == 2 ? atom->line : true)) {
                    continue;
                }
                if (pass >= 2) {
                    end = (end + unit - 1) / unit * unit;
                }
                if (pass == 2) {
                    int32_t least = 1 << 30, at = end;
                    for (int32_t more_units = 0; more_units < lanes.count; more_units++) {
                        const int32_t worst = ts_cuda_move_meet(&lanes, atom->extent, end / unit + more_units, &more);
                        if (worst < least) {
                            least = worst;
                            best = more;
                            at = end + more_units * unit;
                        }
                    }
                    end = at;
                    lanes = best;
                } else if (pass == 1 && atom->line && end % unit == 0) {
                    (void)ts_cuda_move_meet(&lanes, atom->extent, end / unit, &more);
                    lanes = more;
                }
                atom->q = end;
                atom->placed = true;
                end *= atom->extent;
            }
        }
    }
    return end;
}

/* Numbers of lanes, then of steps. False: too many. */
static inline bool ts_cuda_move_number(const ts_cuda_move_cut *cut, const int32_t *list, int32_t count, bool load, int32_t bytes,
                                       const int32_t *at, ts_cuda_move_side *side)
{
    int32_t rest[TS_CUDA_MOVE_ATOMS], from[TS_CUDA_MOVE_ATOMS];
    side->lanes = 1;
    side->digits = 0;
    side->steps = 1;
    side->step[0].stride = 0;
    side->step[0].q = side->step[0].at = 0;
    for (int32_t k = 0; k < count; k++) {
        const ts_cuda_move_atom *atom = &cut->atom[list[k]];
        const int32_t part = (int32_t)ts_cuda_move_divisor(atom->extent, TS_CUDA_MOVE_THREADS / side->lanes);
        rest[k] = atom->extent / part;
        from[k] = atom->step * part;
        if (part > 1) {
            ts_cuda_move_digit *digit = &side->digit[side->digits];
            if (side->digits++ == TS_CUDA_MOVE_DIGITS) {
                return false;
            }
            digit->extent = part;
            digit->magic = ((1u << 20) + (uint32_t)part - 1u) / (uint32_t)part;
            digit->q = atom->q * bytes;
            digit->at = at[atom->mode] * atom->step;
            digit->stride = (load ? cut->a[atom->mode] : cut->c[atom->mode]) * atom->step * bytes;
            side->lanes *= part;
            if (side->digits > 1 && digit->stride == digit[-1].stride * digit[-1].extent && digit->q == digit[-1].q * digit[-1].extent &&
                digit->at == digit[-1].at * digit[-1].extent) { /* one digit with the last */
                digit[-1].extent *= part;
                digit[-1].magic = ((1u << 20) + (uint32_t)digit[-1].extent - 1u) / (uint32_t)digit[-1].extent;
                side->digits--;
            }
        }
    }
    for (int32_t k = 0; k < count; k++) {
        const ts_cuda_move_atom *atom = &cut->atom[list[k]];
        const int32_t before = side->steps;
        if (before * rest[k] > TS_CUDA_MOVE_STEPS) {
            return false;
        }
        for (int32_t position = 1; position < rest[k]; position++) {
            for (int32_t n = 0; n < before; n++) {
                const ts_cuda_move_step *base = &side->step[n];
                ts_cuda_move_step *step = &side->step[side->steps++];
                const int32_t number = position * from[k];
                step->stride = base->stride + (load ? cut->a[atom->mode] : cut->c[atom->mode]) * number * bytes;
                step->q = base->q + atom->q * (number / atom->step) * bytes;
                step->at = base->at + at[atom->mode] * number;
            }
        }
    }
    return true;
}

/* powers: extents slightly above what is wanted are cut too. */
static inline bool ts_cuda_move_plan_of(const ts_cuda_mode *modes, int32_t count, int32_t bytes, int64_t most, bool powers,
                                        ts_cuda_move *p)
{
    const int32_t wide = 16 / bytes, line = TS_CUDA_MOVE_LINE / bytes;
    int32_t at[TS_CUDA_MOVE_MODES] = {0}, list[TS_CUDA_MOVE_ATOMS], listed = 0, partial = 0, inside = 1;
    int64_t together = 1, tiles = 1;
    ts_cuda_move_cut cut;

    memset(p, 0, sizeof *p);
    if (count > TS_CUDA_MOVE_MODES) {
        return false;
    }
    ts_cuda_move_modes(modes, count, &cut, p);
    p->load.width = ts_cuda_move_width(&cut, cut.by_a, cut.count_a, cut.a, wide, cut.vector_a);
    p->store.width = ts_cuda_move_width(&cut, cut.by_c, cut.count, cut.c, wide, cut.vector_c);
    p->whole = p->load.width == p->store.width;
    cut.elements = 1;
    for (int32_t i = 0; i < cut.count; i++) {
        cut.tile[i] = cut.vector_a[i] > cut.vector_c[i] ? cut.vector_a[i] : cut.vector_c[i];
        cut.elements *= cut.tile[i];
        p->whole = p->whole && cut.vector_a[i] == cut.vector_c[i] && (cut.vector_c[i] == 1 || cut.a[i] == cut.c[i]);
        if (cut.a[i] == together && cut.c[i] == together) {
            together *= cut.extent[i];
        }
    }
    p->direct = p->whole && p->load.width == wide && together >= line;
    cut.most = (int64_t)TS_CUDA_MOVE_THREADS * TS_CUDA_MOVE_STEPS *
               (p->load.width < p->store.width ? p->load.width : p->store.width);
    cut.most = cut.most < most ? cut.most : most;
    ts_cuda_move_grow(&cut, cut.by_a, cut.count_a, line, powers);
    ts_cuda_move_grow(&cut, cut.by_c, cut.count, line, powers);
    for (int64_t target = 2 * line; target <= cut.most && cut.elements < cut.most; target *= 2) {
        ts_cuda_move_grow(&cut, cut.by_a, cut.count_a, target, powers);
        ts_cuda_move_grow(&cut, cut.by_c, cut.count, target, powers);
    }
    for (int32_t i = 0; i < cut.count; i++) {
        if (cut.extent[i] % cut.tile[i] != 0) {
            at[i] = partial == 0 ? 1 : 65536;
            p->partial_extent[partial++] = cut.extent[i];
        }
    }
    ts_cuda_move_atoms(&cut, line);
    p->slots = (ts_cuda_move_place(&cut, bytes, p->load.width, p->store.width) * bytes + 15) / 16 * 16;
    /* Load: vectors along a. */
    for (int32_t k = 0; k < cut.count_a; k++) {
        for (int32_t n = 0; n < cut.atom_count; n++) {
            if (cut.atom[n].mode == cut.by_a[k] && !cut.atom[n].in_a) {
                list[listed++] = n;
            }
        }
    }
    if (!ts_cuda_move_number(&cut, list, listed, true, bytes, at, &p->load)) {
        return false;
    }
    /* Store: the line of c, neighbours in a vector of a, the rest. */
    listed = 0;
    for (int32_t pass = 0; pass < 3; pass++) {
        for (int32_t n = 0; n < cut.atom_count; n++) { /* in the order of c */
            const ts_cuda_move_atom *atom = &cut.atom[n];
            if (!atom->in_c && pass == (atom->line ? 0 : atom->in_a ? 1 : 2)) {
                list[listed++] = n;
            }
        }
    }
    if (!ts_cuda_move_number(&cut, list, listed, false, bytes, at, &p->store) ||
        (p->direct && !ts_cuda_move_number(&cut, list, listed, true, bytes, at, &p->load))) {
        return false;
    }
    for (int32_t n = 0; n < cut.atom_count; n++) {
        if (cut.atom[n].in_c) {
            for (int32_t e = inside; e < inside * cut.atom[n].extent; e++) {
                p->element_q[e] = p->element_q[e % inside] + e / inside * cut.atom[n].q * bytes;
            }
            inside *= cut.atom[n].extent;
        }
    }
    /* From tile to tile along c first: what comes last here. */
    for (int32_t i = cut.count - 1; i >= 0; i--) {
        const int64_t pieces = (cut.extent[i] + cut.tile[i] - 1) / cut.tile[i];
        ts_cuda_move_outer *outer = &p->outer[p->outer_count];
        if (pieces == 1) {
            continue;
        }
        if (p->outer_count++ == TS_CUDA_MOVE_OUTER) {
            return false;
        }
        outer->extent = pieces;
        outer->a = cut.a[i] * cut.tile[i] * bytes;
        outer->c = cut.c[i] * cut.tile[i] * bytes;
        ts_cuda_magic(pieces, &outer->magic, &outer->shift);
        outer->partial = at[i] == 0 ? 0 : at[i] == 1 ? 1 : 2;
        outer->tile = (int32_t)cut.tile[i];
        tiles *= pieces;
    }
    p->from *= bytes;
    p->to *= bytes;
    p->tile_count = tiles;
    p->wide = tiles >= ((int64_t)1 << 31);
    return true;
}
/* Fills in everything but pointers. Modes: a read, c written; all kept. False: not for this kernel. */
static inline bool ts_cuda_move_plan(const ts_cuda_mode *modes, int32_t count, uint32_t bytes, ts_cuda_move *p)
{
    int64_t most = TS_CUDA_MOVE_TILE / bytes;
    if (ts_cuda_move_plan_of(modes, count, (int32_t)bytes, most, false, p) &&
        (p->load.lanes >= TS_CUDA_MOVE_THREADS / 2 || p->load.steps <= 4) &&
        (p->store.lanes >= TS_CUDA_MOVE_THREADS / 2 || p->store.steps <= 4)) {
        return true;
    }
    for (; most >= 1; most /= 2) { /* extents with large prime factors keep few threads busy */
        if (ts_cuda_move_plan_of(modes, count, (int32_t)bytes, most, true, p)) {
            return true;
        }
    }
    return false;
}

/* Blocks to launch. Multiprocessors are not equally far from memory, so that blocks have to follow as others end; with two
 * tiles each, the second one's places cost nothing and its loads go on while the first is stored. */
static inline int64_t ts_cuda_move_blocks(const ts_cuda_move *p, int32_t units)
{
    return p->direct || p->tile_count <= (int64_t)units * TS_CUDA_MOVE_BLOCKS ? p->tile_count : (p->tile_count + 1) / 2;
}

/* Does the plan suit the kernel whose accesses are all of 16 bytes? */
static inline bool ts_cuda_move_is_wide(const ts_cuda_move *p, uint32_t bytes)
{
    return (uint32_t)p->load.width * bytes == 16 && (uint32_t)p->store.width * bytes == 16;
}

#endif
