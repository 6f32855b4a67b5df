/* The gradients of a chain's operands: the tables that their kernel goes by. */
#include "backend/cuda/chain_maker.h"

#include <stddef.h>

static int32_t share_of(const tensum_plan *plan)
{
    return ts_cuda_back_share((uint32_t)ts_cuda_arithmetic_bytes(plan->algebra.dtype));
}

/* How a step's results are shared out: a thread has so many terms, and room for so many columns. */
static void choose_share(const tensum_plan *plan, const ts_step *step, int32_t *terms, int32_t *columns)
{
    const int64_t wanted = ts_chain_size_of_new(plan, step);
    *columns = wanted <= 2 ? 2 : wanted <= 4 ? 4 : wanted <= 8 ? 8 : 16;
    *terms = share_of(plan) / *columns > 4 ? 4 : share_of(plan) / *columns;
    while (*terms > 1 && step->sum_size % *terms != 0) {
        *terms /= 2;
    }
}

/* Positions of the labels that steps list[0 .. count) touch, in the largest tensor; -1: too many labels. */
static int64_t touched_positions(const tensum_plan *plan, const int32_t *list, int32_t count)
{
    ts_label_set set = {.count = 0};
    int64_t most;

    for (int32_t i = 0; i < count; i++) {
        if (!ts_chain_put_touched(plan, &plan->steps[list[i]], &set)) {
            return -1;
        }
    }
    most = ts_chain_live_size(plan, &set, ts_chain_big_of(plan, &plan->steps[list[0]]));
    for (int32_t i = 0; i < count; i++) {
        most = ts_max64(most, ts_chain_live_size(plan, &set, plan->steps[list[i]].c));
    }
    return most;
}

/* Of the largest tensor of a tile. One step alone may have more of them, if it cannot do with less. */
static int64_t tile_elements(const tensum_plan *plan, const int32_t *list, int32_t count)
{
    const int64_t elements = TS_CHAIN_BACK_TILE_BYTES / ts_max64(4, (int64_t)tensum_dtype_bytes(plan->algebra.dtype));
    return count == 1 && touched_positions(plan, list, count) > elements / ts_chain_run_elements(plan) ? 2 * elements : elements;
}

/* Bytes that the last sums of threads take: theirs, and those of sixteen lanes each. */
static size_t finish_bytes(const tensum_plan *plan)
{
    return ((size_t)(2 * TS_CUDA_BACK_THREADS + 16) * (size_t)share_of(plan) + TS_CUDA_BACK_THREADS) * ts_cuda_arithmetic_bytes(plan->algebra.dtype);
}

bool ts_cuda_chain_back_fits(const ts_cuda_program *program, const int32_t *list, int32_t count)
{
    const tensum_plan *plan = program->plan;
    const int64_t elements = tile_elements(plan, list, count), positions = touched_positions(plan, list, count);
    int64_t largest = TS_CHAIN_MOST_EXTENT, coefficients = 0, places = 0, bytes;
    ts_label_set set = {.count = 0};

    if (count > TS_CUDA_BACK_STEPS || positions < 0 || positions > elements / ts_chain_run_elements(plan)) {
        return false;
    }
    largest = ts_max64(largest, ts_min64(TS_CHAIN_MOST_PIECE, elements / ts_max64(1, positions))); /* a mode of a list */
    for (int32_t i = 0; i < count; i++) {
        const ts_step *step = &plan->steps[list[i]];
        int32_t terms, columns;
        choose_share(plan, step, &terms, &columns);
        if (!ts_chain_put_touched(plan, step, &set) || ts_chain_size_of_new(plan, step) > share_of(plan) ||
            step->batch_size * (step->sum_size / terms) > TS_CUDA_BACK_THREADS) {
            return false;
        }
        coefficients += ts_chain_coefficients_of(plan, step);
        places += step->sum_size + ts_chain_size_of_new(plan, step) + 8;
    }
    for (int32_t i = 0; i < set.count; i++) {
        largest = ts_max64(largest, ts_plan_extent(plan, set.labels[i]));
    }
    /* Three lists of places and 2 count - 1 of units, as long as can be. */
    bytes = (2 + 2 * count) * 16 * (elements / (TS_CUDA_BACK_THREADS / largest)) + places * 4 + elements * 2 +
            coefficients * (int64_t)ts_cuda_arithmetic_bytes(plan->algebra.dtype) +
            ts_max64((count + 3) * elements * (int64_t)tensum_dtype_bytes(plan->algebra.dtype), (int64_t)finish_bytes(plan)) + 64 * 80 +
            TS_CUDA_CHAIN_BASES * (2 + TS_CUDA_CHAIN_STEPS) * 8 + (int64_t)sizeof(ts_cuda_back_table) + 2048;
    return bytes <= (int64_t)program->device->shared_limit;
}

/* Modes of the units that threads with the same terms share, and those of the batch. */
typedef struct back_modes {
    ts_list_mode units[2 * TS_CHAIN_MOST_LIVE + 1], batch[TS_CHAIN_MOST_LIVE];
    int32_t unit_count, batch_count;
} back_modes;

static void part_modes(const ts_list_mode *all, int32_t count, back_modes *parts)
{
    for (int32_t i = 0; i < count; i++) {
        if (all[i].z != 0) {
            parts->batch[parts->batch_count++] = all[i];
        } else {
            parts->units[parts->unit_count++] = all[i];
        }
    }
}

/* Where an element of the tile of what the chain reads lies in its gradient, from where the tile begins there. */
static int64_t target_of(const ts_maker *m, int32_t place)
{
    int64_t target = 0;
    for (int32_t i = 0; i < m->count; i++) {
        const ts_tile_label *label = &m->labels[i];
        target += label->place[0] != 0 ? place / label->place[0] % label->extent * label->c[TS_CUDA_BACK_MADE] : 0;
    }
    return target;
}

/* Can the threads of the first step write the gradient themselves? Their units must be whole accesses, and the targets of
 * these sums of what threads and lists have: no label of the run may carry from one mode of the units into the next. */
static bool has_targets(const ts_maker *m, const back_modes *modes, int32_t width)
{
    int64_t farthest = 0;
    for (int32_t i = 0; i < m->count; i++) {
        const ts_tile_label *label = &m->labels[i];
        const int64_t whole = label->place[0] * label->extent;
        farthest += (label->extent - 1) * ts_max64(label->c[TS_CUDA_BACK_MADE], -label->c[TS_CUDA_BACK_MADE]);
        for (int32_t k = 0; k < modes->unit_count && label->run; k++) {
            const int64_t at = modes->units[k].x;
            if (at % whole != 0 && label->place[0] % at != 0 && (at % label->place[0] != 0 || whole % at != 0)) {
                return false;
            }
        }
    }
    return width > 1 && m->pitch == m->run && farthest <= INT32_MAX;
}

static bool write_targets(ts_maker *m, const ts_cuda_back_own *own, int32_t terms, uint32_t *targets)
{
    ts_cuda_back_target *all = ts_maker_room(m, TS_CUDA_BACK_THREADS * sizeof *all, targets);
    for (int32_t i = 0; all != NULL && i < TS_CUDA_BACK_THREADS; i++) {
        for (int32_t k = 0; k < terms; k++) {
            all[i].at[k] = (int32_t)target_of(m, own[i].in[k]);
        }
    }
    return all != NULL;
}

/* targets: where they are to be, or NULL. */
static bool write_units(ts_maker *m, const ts_cuda_chain_step *step, const back_modes *modes, bool own_part, uint32_t *targets,
                        ts_cuda_back_step *made)
{
    const int32_t chunks = step->terms / made->terms_each;
    const int32_t groups = (int32_t)ts_maker_size_of(modes->batch, modes->batch_count) * chunks;
    const int32_t *places = (const int32_t *)(const void *)(m->table + step->term_places);
    int32_t own;
    int64_t mine, entries;

    made->lanes = TS_CUDA_BACK_THREADS / groups;
    mine = ts_maker_divide(modes->units, modes->unit_count, made->lanes, &own);
    entries = ts_maker_size_of(modes->units + own, modes->unit_count - own);
    made->units.count = (int32_t)entries;
    made->units.apart = (int32_t)(made->lanes / mine);
    made->results = groups * made->terms_each * step->columns;
    if (entries > TS_CHAIN_MOST_LIST) {
        return false;
    }
    if (!own_part) {
        ts_cuda_chain_unit *all = ts_maker_room(m, (size_t)entries * sizeof *all, &made->units.all);
        for (int64_t i = 0; all != NULL && i < entries; i++) {
            ts_list_mode at = ts_maker_at_of(modes->units + own, modes->unit_count - own, i);
            all[i] = (ts_cuda_chain_unit){at.x, at.y, targets != NULL ? (int32_t)target_of(m, at.x) : 0, 0};
        }
        return all != NULL;
    }
    ts_cuda_back_own *all = ts_maker_room(m, TS_CUDA_BACK_THREADS * sizeof *all, &made->units.own);
    for (int32_t i = 0; all != NULL && i < TS_CUDA_BACK_THREADS; i++) {
        const int32_t group = i / made->lanes, lane = i % made->lanes, chunk = group % chunks;
        if (group >= groups || lane / mine >= made->units.apart) {
            all[i].first = INT16_MAX;
            continue;
        }
        ts_list_mode batch = ts_maker_at_of(modes->batch, modes->batch_count, group / chunks);
        ts_list_mode at = ts_maker_at_of(modes->units, own, lane % mine);
        all[i].out = (int16_t)(batch.y + at.y);
        all[i].coefficient = (int16_t)(batch.z + chunk * made->terms_each * step->padded);
        all[i].first = (int16_t)(lane / mine);
        for (int32_t k = 0; k < 4; k++) {
            all[i].in[k] = (int16_t)(batch.x + at.x + places[chunk * made->terms_each + (k < made->terms_each ? k : 0)]);
        }
    }
    return all != NULL && (targets == NULL || write_targets(m, all, made->terms_each, targets));
}

/* Where the elements of a run are along the mode that is cut; what pads it, nowhere. */
static bool write_cuts(ts_maker *m, ts_cuda_back_table *t)
{
    int16_t *cuts = ts_maker_room(m, (size_t)m->pitch * sizeof *cuts, &t->cuts);
    for (int64_t i = 0; cuts != NULL && i < m->pitch; i++) {
        cuts[i] = i < m->run ? 0 : INT16_MAX;
        for (int32_t k = 0; k < m->count && i < m->run; k++) {
            if (m->labels[k].cut) {
                cuts[i] = (int16_t)(i / m->labels[k].place[0] % m->labels[k].extent);
            }
        }
    }
    t->pitch = (int32_t)m->pitch;
    t->padded = m->pitch != m->run;
    return cuts != NULL;
}

static size_t up(size_t bytes) { return (bytes + 127) / 128 * 128; }

typedef struct back_lists {
    ts_list_mode load[2 * TS_CHAIN_MOST_LIVE], given[2 * TS_CHAIN_MOST_LIVE], store[2 * TS_CHAIN_MOST_LIVE];
    ts_list_mode units[TS_CUDA_BACK_STEPS][2 * TS_CHAIN_MOST_LIVE + 1];
    int32_t load_count, given_count, store_count, unit_count[TS_CUDA_BACK_STEPS], column_count[TS_CUDA_BACK_STEPS];
    back_modes parts[TS_CUDA_BACK_STEPS];
} back_lists;

/* Lists for all threads, or each thread's own. */
static bool write_lists(ts_maker *m, const back_lists *lists, bool wanted, bool own, ts_cuda_back_table *t)
{
    const int32_t steps = m->group->count;
    bool good = ts_maker_write_list(m, lists->load, lists->load_count, true, own, &t->chain.load) &&
                ts_maker_write_list(m, lists->given, lists->given_count, true, own, &t->given) &&
                (!wanted || ts_maker_write_list(m, lists->store, lists->store_count, true, own, &t->store));
    for (int32_t k = 0; k < steps && good; k++) {
        ts_cuda_chain_step *step = &t->chain.step[k];
        const bool direct = k == 0 && wanted && has_targets(m, &lists->parts[0], t->store.width);
        good = ts_maker_write_step(m, k, lists->units[k], lists->unit_count[k], !own, step) &&
               (k + 1 == steps || ts_maker_write_list(m, lists->units[k], lists->unit_count[k] + lists->column_count[k], false, own, &step->units)) &&
               write_units(m, step, &lists->parts[k], own, direct ? &t->targets : NULL, &t->step[k]);
    }
    return good;
}

static bool make(ts_maker *m, back_lists *lists, bool wanted, ts_cuda_chain_back *p, uint32_t *shared_bytes)
{
    const tensum_plan *plan = m->emission->program->plan;
    const int32_t steps = m->group->count;
    const size_t bytes = tensum_dtype_bytes(plan->algebra.dtype), value = ts_cuda_arithmetic_bytes(plan->algebra.dtype);
    const int32_t per_unit = bytes >= 16 ? 1 : bytes >= 8 ? 2 : 4;
    ts_cuda_back_table *t = (ts_cuda_back_table *)(void *)m->table;
    size_t sizes[TS_CUDA_BACK_STEPS + 1], coefficients = 0, total;
    const int64_t elements = tile_elements(plan, m->group->steps, steps);
    uint32_t unused;

    if (ts_maker_room(m, sizeof *t, &unused) == NULL || !ts_maker_begin(m, elements, elements, &t->chain, &p->tile_count)) {
        return false;
    }
    m->threads = TS_CUDA_BACK_THREADS;
    sizes[0] = (size_t)ts_maker_lay_out(m, 0, ts_chain_big_of(plan, ts_maker_step_of(m, 0)));
    for (int32_t k = 0; k < steps; k++) {
        sizes[k + 1] = (size_t)ts_maker_lay_out(m, k + 1, ts_maker_step_of(m, k)->c);
    }
    lists->load_count = ts_maker_memory_modes(m, 0, -1, lists->load, &t->chain.load.width);
    lists->given_count = ts_maker_memory_modes(m, steps, TS_CUDA_BACK_GIVEN, lists->given, &t->given.width);
    lists->store_count = ts_maker_memory_modes(m, 0, TS_CUDA_BACK_MADE, lists->store, &t->store.width);
    for (int32_t k = 0; k < steps; k++) {
        ts_maker_begin_step(m, k, &coefficients, &t->chain.step[k]);
        lists->unit_count[k] = ts_maker_unit_modes(m, k, per_unit, t->chain.step[k].padded, lists->units[k]);
        lists->column_count[k] = ts_maker_column_modes(m, k, lists->units[k], lists->unit_count[k], &t->chain.step[k]);
        part_modes(lists->units[k], lists->unit_count[k], &lists->parts[k]);
        choose_share(plan, ts_maker_step_of(m, k), &t->step[k].terms_each, &t->step[k].columns_each);
    }
    if (!write_cuts(m, t) || !write_lists(m, lists, wanted, false, t)) {
        return false;
    }
    p->copied = (uint32_t)m->bytes;
    if (!write_lists(m, lists, wanted, true, t)) {
        return false;
    }
    total = up(p->copied);
    p->bases = (uint32_t)total;
    total = up(total + TS_CUDA_CHAIN_BASES * (2 + TS_CUDA_CHAIN_STEPS) * 8);
    p->coefficients = (uint32_t)total;
    total = up(total + coefficients * value);
    for (int side = 0; side < 2; side++) {
        p->in[side] = (uint32_t)total;
        total = up(total + sizes[0] * bytes);
        p->given[side] = (uint32_t)total;
        total = up(total + sizes[steps] * bytes);
    }
    for (int32_t k = 0; k + 1 < steps; k++) {
        p->inner[k] = (uint32_t)total;
        total = up(total + sizes[k + 1] * bytes);
    }
    total = total < p->in[0] + finish_bytes(plan) ? p->in[0] + finish_bytes(plan) : total;
    p->steps = steps;
    *shared_bytes = (uint32_t)total;
    return total <= m->emission->program->device->shared_limit;
}

/* Most bytes that a table can have. */
static size_t table_bytes(const ts_cuda_emission *emission, const ts_cuda_chain_group *group)
{
    const tensum_plan *plan = emission->program->plan;
    const size_t list = (size_t)(TS_CUDA_BACK_THREADS + TS_CHAIN_MOST_LIST) * 16;
    size_t bytes = sizeof(ts_cuda_back_table) + 64 * sizeof(ts_cuda_chain_outer) + 32 + 3 * list +
                   (size_t)tile_elements(plan, group->steps, group->count) * 2 + TS_CUDA_BACK_THREADS * sizeof(ts_cuda_back_target);
    for (int32_t k = 0; k < group->count; k++) {
        const ts_step *step = &plan->steps[group->steps[k]];
        bytes += 3 * list + 96 + (size_t)(step->sum_size + ts_chain_size_of_new(plan, step)) * 4 + (size_t)ts_chain_coefficients_of(plan, step) * 8;
    }
    return bytes;
}

/* A mode for each label of a tiny operand: where blocks' sums have it (a), and where the gradient has (c). */
static int32_t result_modes(const ts_maker *m, int32_t k, const back_modes *parts, const ts_extra_strides *gradient, ts_mode *modes)
{
    const tensum_plan *plan = m->emission->program->plan;
    const ts_step *step = ts_maker_step_of(m, k);
    int32_t new_count, count = 0;
    const int32_t *added = ts_chain_new_of(plan, step, &new_count);
    int64_t stride = 1;

    for (int32_t n = new_count - 1; n >= 0; n--) {
        modes[count++] = (ts_mode){.extent = ts_plan_extent(plan, added[n]), .a = stride, .w = added[n]};
        stride *= modes[count - 1].extent;
    }
    for (int32_t n = step->sum_count - 1; n >= 0; n--) {
        modes[count++] = (ts_mode){.extent = ts_plan_extent(plan, step->sum[n]), .a = stride, .w = step->sum[n]};
        stride *= modes[count - 1].extent;
    }
    for (int32_t i = 0; i < parts->batch_count; i++) {
        for (int32_t j = 0; j < m->count; j++) {
            if (m->labels[j].place[k] == parts->batch[i].x) {
                modes[count++] = (ts_mode){.extent = m->labels[j].extent, .a = stride, .w = m->labels[j].label};
                stride *= m->labels[j].extent;
                break;
            }
        }
    }
    for (int32_t i = 0; i < count; i++) {
        for (int32_t n = 0; n < gradient->count; n++) {
            modes[i].c = gradient->labels[n] == modes[i].w ? gradient->strides[n] : modes[i].c;
        }
        modes[i].w = 0;
    }
    return count;
}

/* Add up what blocks have left of a tiny operand's gradient. */
static tensum_status add_sum(const ts_cuda_emission *emission, const ts_maker *m, int32_t k, const back_modes *parts,
                             int64_t blocks, ts_cu_address partial)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    const int32_t tiny = ts_chain_tiny_of(plan, ts_maker_step_of(m, k));
    const ts_value *v = &plan->values[tiny];
    ts_mode modes[TS_CUDA_MOST_MODES];
    int64_t storage[64];
    ts_extra_strides extra;
    ts_cuda_pointer d = ts_cuda_gradient_of(emission, tiny, storage, &extra);
    ts_reduce_spec spec = {.algebra = {TENSUM_SUM_PRODUCT, program->gradient, 0}, .modes = modes, .kept = v->elements, .sum = blocks};

    if (emission->list->measure) { /* no two modes are one */
        spec.kept_count = v->rank;
        for (int32_t i = 0; i < v->rank; i++) {
            modes[i] = (ts_mode){.extent = ts_plan_extent(plan, v->labels[i]), .a = 1, .c = 1};
        }
    } else {
        spec.kept_count = result_modes(m, k, parts, &extra, modes);
    }
    modes[spec.kept_count] = (ts_mode){.extent = blocks, .a = v->elements};
    spec.sum_count = 1;
    TRY(ts_cuda_add_reduce(emission->list, &program->sum, &program->gradient_common, &spec, ts_cuda_at(partial), d, ts_cuda_at(0),
                           ts_cuda_adds_up(emission, tiny)));
    ts_cuda_reads(emission->list, ts_cuda_at(emission->list->scratch), 1);
done:
    return status;
}

static tensum_status add(const ts_cuda_emission *emission, const ts_cuda_chain_group *group, bool *added)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const tensum_plan *plan = program->plan;
    const int32_t big = ts_chain_big_of(plan, &plan->steps[group->steps[0]]), result = plan->steps[group->steps[group->count - 1]].c;
    const size_t element = tensum_dtype_bytes(plan->algebra.dtype), value = ts_cuda_arithmetic_bytes(plan->algebra.dtype);
    const bool wanted = emission->wanted[big] != 0;
    ts_cuda_list *list = emission->list;
    int64_t g_storage[64], d_storage[64], blocks = TS_CUDA_BACK_BLOCKS * (int64_t)list->units;
    size_t partial_bytes = 0, partial_at[TS_CUDA_BACK_STEPS] = {0};
    uint32_t shared_bytes = 0;
    ts_cuda_chain_back p = {0};
    ts_cu_address address;
    ts_maker *m = NULL;
    back_lists *lists = NULL;

    *added = false;
    TRY(ts_allocate_zero(1, sizeof *m, "the table of a chain", &m));
    TRY(ts_allocate_zero(1, sizeof *lists, "the table of a chain", &lists));
    m->emission = emission;
    m->group = group;
    m->capacity = table_bytes(emission, group);
    p.g = ts_cuda_cotangent_of(emission, result, g_storage, &m->slots[TS_CUDA_BACK_GIVEN]);
    if (wanted) {
        p.d = ts_cuda_gradient_of(emission, big, d_storage, &m->slots[TS_CUDA_BACK_MADE]);
    }
    ts_cuda_add_table(list, m->capacity, &m->table, &address);
    if (!list->measure && !make(m, lists, wanted, &p, &shared_bytes)) {
        goto done;
    }
    p.a = ts_cuda_value_pointer(emission, big);
    p.table = address;
    p.wanted = wanted;
    p.accumulate = ts_cuda_adds_up(emission, big);
    if (!list->measure) {
        blocks = ts_min64(p.tile_count, list->units * ts_max64(1, ts_min64(TS_CUDA_BACK_BLOCKS, (int64_t)program->device->shared_limit / ts_max64(1, shared_bytes))));
    }
    for (int32_t k = 0; k < group->count; k++) {
        const int32_t tiny = ts_chain_tiny_of(plan, &plan->steps[group->steps[k]]);
        p.b[k] = ts_cuda_value_pointer(emission, tiny);
        partial_at[k] = partial_bytes;
        p.partial[k] = emission->wanted[tiny] ? list->scratch + partial_bytes : 0;
        partial_bytes += up((size_t)(blocks * plan->values[tiny].elements) * value);
    }
    ts_cuda_note_scratch(list, partial_bytes);
    TRY(ts_cuda_add_launch(list, &program->pair, TS_CUDA_KERNEL_CHAIN_BACK, ts_cuda_grid(blocks), TS_CUDA_BACK_THREADS, shared_bytes, &p, sizeof p));
    for (int32_t i = 0; i < group->count + 3 && !list->measure; i++) { /* a, g, d, tiny operands */
        const int32_t which = i == 0 || i == 2 ? big : i == 1 ? result : ts_chain_tiny_of(plan, &plan->steps[group->steps[i - 3]]);
        const ts_value *v = &plan->values[which];
        ts_mode modes[TS_CUDA_MOST_MODES];
        for (int32_t n = 0; n < v->rank; n++) {
            modes[n] = (ts_mode){.extent = ts_plan_extent(plan, v->labels[n])};
            modes[n].a = i == 1   ? ts_maker_slot_stride(m, TS_CUDA_BACK_GIVEN, v->labels[n])
                         : i == 2 ? ts_maker_slot_stride(m, TS_CUDA_BACK_MADE, v->labels[n])
                                  : ts_maker_stride_in(m, which, v->labels[n]);
        }
        if (i == 2) {
            ts_cuda_writes(list, p.d, TS_CUDA_SPAN(modes, v->rank, a, element));
        } else {
            ts_cuda_reads(list, i == 0 ? p.a : i == 1 ? p.g : p.b[i - 3], TS_CUDA_SPAN(modes, v->rank, a, element));
        }
    }
    ts_cuda_writes(list, ts_cuda_at(list->scratch), (int64_t)partial_bytes);
    for (int32_t k = 0; k < group->count; k++) {
        if (p.partial[k] != 0 || (list->measure && emission->wanted[ts_chain_tiny_of(plan, &plan->steps[group->steps[k]])])) {
            TRY(add_sum(emission, m, k, &lists->parts[k], blocks, list->scratch + partial_at[k]));
        }
    }
    *added = true;
done:
    ts_free(lists);
    ts_free(m);
    return status;
}

tensum_status ts_cuda_emit_chain_back(const ts_cuda_emission *emission, int32_t step, bool *done)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = emission->program;
    const int32_t number = program->chain_of != NULL ? program->chain_of[step] : -1;
    const ts_cuda_chain_group *group = number >= 0 ? &program->chains[number] : NULL;

    *done = group != NULL && group->back;
    if (!*done || group->steps[group->count - 1] != step || !emission->wanted[program->plan->steps[step].c]) {
        return TENSUM_OK;
    }
    TRY(add(emission, group, done));
    if (!*done && group->count > 1) {
        TRY(ts_fail(TENSUM_STATUS_INTERNAL, "cuda: a chain of %d steps has no tables for its gradients", (int)group->count));
    }
    if (emission->list->measure && group->count == 1) { /* or in the other way */
        *done = false;
    }
done:
    return status;
}
