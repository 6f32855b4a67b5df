#include "backend/cuda/launch.h"

#include "backend/cuda/batched.h"
#include "backend/cuda/chain.h"
#include "backend/cuda/kernels/sweep_plan.h"
#include "backend/cuda/move.h"
#include "backend/cuda/packed.h"
#include "backend/cuda/stream.h"
#include "backend/cuda/team.h"

#include <stddef.h>

/* The largest tiles take more shared memory than some devices have. */
static bool fits(const ts_cuda_device *device, ts_cuda_kernel kernel, tensum_dtype dtype)
{
    return kernel >= TS_CUDA_KERNEL_COMBINE ||
           ts_cuda_contract_shared((ts_cuda_variant)(kernel % TS_CUDA_CONTRACT_VARIANT_COUNT),
                                   (uint32_t)ts_cuda_arithmetic_bytes(dtype)) <= device->shared_limit;
}

tensum_status ts_cuda_kernels_load(ts_cuda_device *device, int module, tensum_dtype dtype, ts_cuda_kernels *kernels)
{
    tensum_status status = TENSUM_OK;
    int first = module == TS_CUDA_COMMON ? TS_CUDA_KERNEL_COPY : 0;
    int past = module == TS_CUDA_COMMON ? TS_CUDA_KERNEL_COUNT : TS_CUDA_KERNEL_COPY;

    memset(kernels, 0, sizeof *kernels);
    kernels->module = module;
    kernels->dtype = dtype;
    for (int kernel = first; kernel < past; kernel++) {
        bool tiles = kernel < TS_CUDA_KERNEL_COMBINE || kernel == TS_CUDA_KERNEL_STREAM || kernel == TS_CUDA_KERNEL_MOVE ||
                     kernel == TS_CUDA_KERNEL_MOVE_NARROW || kernel == TS_CUDA_KERNEL_CHAIN ||
                     kernel == TS_CUDA_KERNEL_CHAIN_BACK || kernel == TS_CUDA_KERNEL_TREE ||
                     kernel == TS_CUDA_KERNEL_FOLD || kernel == TS_CUDA_KERNEL_DECODE || kernel == TS_CUDA_KERNEL_SURVEY ||
                     kernel == TS_CUDA_KERNEL_PACK || kernel == TS_CUDA_KERNEL_PACKED || kernel == TS_CUDA_KERNEL_PACKED_W ||
                     kernel == TS_CUDA_KERNEL_WINNERS || kernel == TS_CUDA_KERNEL_TEAM || kernel == TS_CUDA_KERNEL_TEAMS ||
                     kernel == TS_CUDA_KERNEL_BATCHED || kernel == TS_CUDA_KERNEL_BATCHED_W;
        uint32_t shared = tiles ? device->shared_limit : 0;
        TRY(ts_cuda_find_kernel(device, module, dtype, (ts_cuda_kernel)kernel, shared, &kernels->functions[kernel]));
        kernels->has[kernel] = kernels->functions[kernel] != NULL && fits(device, (ts_cuda_kernel)kernel, dtype);
    }
done:
    return status;
}

static tensum_status missing(const ts_cuda_kernels *kernels, const char *what)
{
    return ts_fail(TENSUM_STATUS_UNSUPPORTED, "cuda: there is no kernel '%s' of %s over %s", what,
                   tensum_dtype_name(kernels->dtype),
                   kernels->module == TS_CUDA_COMMON ? "any semiring"
                                                     : tensum_semiring_name((tensum_semiring)kernels->module));
}

void ts_cuda_add_table(ts_cuda_list *list, size_t bytes, void *table_pointer, ts_cu_address *address)
{
    void *table = list->measure ? NULL : list->tables + list->table_bytes;

    memcpy(table_pointer, &table, sizeof table);
    *address = list->tables_address + list->table_bytes;
    list->table_bytes += (bytes + 127) / 128 * 128;
}

/* Write modes into a parameter struct, the long ones into a table. Returns the bytes of the struct that are used. */
void ts_cuda_put_modes(ts_cuda_list *list, const ts_mode *modes, int32_t count, bool wide, ts_cuda_modes *target)
{
    ts_cuda_mode *table = target->table;

    target->more = 0;
    target->count = count;
    target->wide = wide;
    if (count > TS_CUDA_INLINE_MODES) {
        ts_cu_address address;
        ts_cuda_add_table(list, (size_t)count * sizeof *table, &table, &address);
        target->more = address;
    }
    if (table == NULL) { /* measuring */
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        table[i].extent = modes[i].extent;
        ts_cuda_magic(modes[i].extent, &table[i].magic, &table[i].shift);
        table[i].a = modes[i].a;
        table[i].b = modes[i].b;
        table[i].c = modes[i].c;
        table[i].w = modes[i].w;
        table[i].g = modes[i].g;
        table[i].d = modes[i].d;
    }
}

/* Bytes of a parameter struct that ends with a mode table. */
size_t ts_cuda_used_bytes(size_t modes_offset, const ts_cuda_modes *modes)
{
    int32_t count = modes->count > TS_CUDA_INLINE_MODES ? 0 : modes->count;
    return modes_offset + offsetof(ts_cuda_modes, table) + (size_t)count * sizeof modes->table[0];
}

tensum_status ts_cuda_add_launch(ts_cuda_list *list, const ts_cuda_kernels *kernels, ts_cuda_kernel kernel,
                                 uint32_t grid, uint32_t threads, uint32_t shared_bytes, const void *parameters,
                                 size_t bytes)
{
    const size_t padded = (bytes + 15) / 16 * 16;
    if (!kernels->has[kernel]) {
        return missing(kernels, ts_cuda_kernel_name(kernel));
    }
    if (!list->measure) {
        ts_cuda_launch *launch = &list->launches[list->count];
        memset(launch, 0, sizeof *launch);
        launch->function = kernels->functions[kernel];
        launch->grid = grid;
        launch->threads = threads;
        launch->shared_bytes = shared_bytes;
        launch->phase = list->phase;
        launch->barrier = true;
        launch->fallback = list->fallback;
        launch->parameters = list->parameter_bytes;
        memcpy(list->parameters + list->parameter_bytes, parameters, bytes);
        memset(list->parameters + list->parameter_bytes + bytes, 0, padded - bytes);
    }
    list->count++;
    list->parameter_bytes += padded;
    return TENSUM_OK;
}

static ts_cuda_range range_of(ts_cuda_pointer pointer, int64_t bytes)
{
    return pointer.slot != 0 ? (ts_cuda_range){pointer.slot, pointer.slot + 1}
                             : (ts_cuda_range){pointer.offset, pointer.offset + (uint64_t)bytes};
}

void ts_cuda_reads(ts_cuda_list *list, ts_cuda_pointer pointer, int64_t bytes)
{
    if (!list->measure && (pointer.slot != 0 || pointer.offset != 0)) {
        ts_cuda_launch *launch = &list->launches[list->count - 1];
        launch->barrier = false;
        launch->reads[launch->read_count++] = range_of(pointer, bytes);
    }
}

void ts_cuda_writes(ts_cuda_list *list, ts_cuda_pointer pointer, int64_t bytes)
{
    if (!list->measure && (pointer.slot != 0 || pointer.offset != 0)) {
        ts_cuda_launch *launch = &list->launches[list->count - 1];
        launch->barrier = false;
        launch->writes[launch->write_count++] = range_of(pointer, bytes);
    }
}

int64_t ts_cuda_span(const ts_mode *modes, int32_t count, size_t member)
{
    int64_t last = 0;
    for (int32_t i = 0; i < count; i++) {
        int64_t stride;
        memcpy(&stride, (const char *)&modes[i] + member, sizeof stride);
        last += (modes[i].extent - 1) * (stride < 0 ? -stride : stride);
    }
    return last + 1;
}

/* Copy one class of modes and fuse what can be; returns how many there are. */
static int32_t take_class(const ts_mode *from, int32_t count, bool any_order, ts_mode *modes)
{
    memcpy(modes, from, (size_t)count * sizeof *modes);
    if (any_order) {
        ts_modes_sort(modes, count);
    }
    return ts_modes_fuse(modes, count);
}

static bool is_wide(int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t limit = (int64_t)1 << 31;
    return a >= limit || b >= limit || c >= limit || d >= limit;
}

static tensum_status too_many(int32_t count)
{
    if (count > TS_CUDA_MOST_MODES) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "cuda: a step has %d modes; at most %d are supported", (int)count,
                       TS_CUDA_MOST_MODES);
    }
    return TENSUM_OK;
}

tensum_status ts_cuda_add_combine(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_mode *modes,
                                  int32_t count, int64_t results, int64_t splits, int64_t modulus, uint8_t winner_bytes,
                                  ts_cu_address partial_w, ts_cuda_pointer c, ts_cuda_pointer w,
                                  ts_cuda_switch accumulate)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_combine p = {0};

    p.c = c;
    p.w = w;
    p.accumulate = accumulate;
    p.partial = list->scratch;
    p.partial_w = partial_w;
    p.results = results;
    p.splits = splits;
    p.tall = splits > 16 && results <= 8 * (int64_t)list->units;
    p.tile_count = p.tall ? results : (results + TS_CUDA_THREADS - 1) / TS_CUDA_THREADS;
    p.modulus = modulus;
    p.winner_bytes = winner_bytes;
    ts_cuda_put_modes(list, modes, count, results >= (int64_t)1 << 31, &p.modes);
    TRY(ts_cuda_add_launch(list, kernels, TS_CUDA_KERNEL_COMBINE, ts_cuda_grid(p.tile_count), TS_CUDA_THREADS,
                           p.tall ? TS_CUDA_REDUCE_SHARED : 0, &p,
                           ts_cuda_used_bytes(offsetof(ts_cuda_combine, modes), &p.modes)));
    ts_cuda_reads(list, ts_cuda_at(list->scratch), 1);
    ts_cuda_writes(list, c, TS_CUDA_SPAN(modes, count, c, tensum_dtype_bytes(kernels->dtype)));
    if (winner_bytes != 0) {
        ts_cuda_writes(list, w, TS_CUDA_SPAN(modes, count, w, winner_bytes));
    }
done:
    return status;
}

static ts_cuda_switch with_always(ts_cuda_switch accumulate, bool always)
{
    accumulate.always |= always;
    return accumulate;
}

void ts_cuda_note_scratch(ts_cuda_list *list, size_t bytes)
{
    if (bytes > list->scratch_bytes) {
        list->scratch_bytes = bytes;
    }
}

/* Results go to c and w, or to scratch; all scratch counts as one byte. */
static void write_results(ts_cuda_list *list, const ts_mode *modes, int32_t kept, size_t bytes, int64_t splits,
                          uint8_t winner_bytes, ts_cuda_pointer c, ts_cuda_pointer w)
{
    if (splits > 1) {
        ts_cuda_writes(list, ts_cuda_at(list->scratch), 1);
        return;
    }
    ts_cuda_writes(list, c, TS_CUDA_SPAN(modes, kept, c, bytes));
    if (winner_bytes != 0) {
        ts_cuda_writes(list, w, TS_CUDA_SPAN(modes, kept, w, winner_bytes));
    }
}

/* A list that measures allows for the parameters of streams and moves, as only strides tell whether they fit. */
static size_t at_least_stream(const ts_cuda_list *list, size_t bytes)
{
    const size_t most = ts_cuda_move_bytes() > ts_cuda_stream_bytes() ? ts_cuda_move_bytes() : ts_cuda_stream_bytes();
    return list->measure && bytes < most ? most : bytes;
}

/* One huge operand against a tiny one, with so little work per element that memory bounds it. */
static bool suits_stream(const ts_contract_spec *spec)
{
    const int64_t a = spec->batch * spec->left * spec->sum, b = spec->batch * spec->right * spec->sum;
    const int64_t other = a < b ? spec->left : spec->right;
    return spec->winner_bytes == 0 && spec->sum >= 1 && spec->sum <= 32 && other <= 32 && (a > b ? a : b) >= 1 << 15 &&
           (a < b ? a : b) <= (a > b ? a : b) / 16 && spec->sum * other <= 12 * (spec->sum + other);
}

static tensum_status stream_contract(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec,
                                     const ts_mode *from, int32_t kept, int32_t sum_count, ts_cuda_pointer a,
                                     ts_cuda_pointer b, ts_cuda_pointer c, ts_cuda_switch accumulate, bool *added)
{
    const bool swap = spec->right > spec->left; /* b is the huge one */
    ts_mode modes[TS_CUDA_MOST_MODES];
    ts_cuda_stream p = {0};

    memcpy(modes, from, (size_t)(kept + sum_count) * sizeof *modes);
    for (int32_t i = 0; i < kept + sum_count && swap; i++) {
        modes[i].a = from[i].b;
        modes[i].b = from[i].a;
    }
    p.a = swap ? b : a;
    p.b = swap ? a : b;
    p.c = c;
    p.accumulate = accumulate;
    p.modulus = spec->algebra.modulus;
    p.conjugate_a = swap ? spec->conjugate_b : spec->conjugate_a;
    p.conjugate_b = swap ? spec->conjugate_a : spec->conjugate_b;
    return ts_cuda_add_stream(list, kernels, TS_CUDA_KERNEL_STREAM, modes, kept, sum_count, true,
                              tensum_dtype_bytes(kernels->dtype), &p, added);
}

#ifndef TS_FOLD_LEAST_TILES
#define TS_FOLD_LEAST_TILES 2 /* of a multiprocessor; tuned by bench/tune/networks.sh */
#endif

/* Two huge operands with few results: each is read once. By sizes alone, so that scratch is known before a run. */
static bool suits_fold(const ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec)
{
    const int64_t rows_a = spec->batch * spec->left, rows_b = spec->batch * spec->right;
    return kernels->has[TS_CUDA_KERNEL_FOLD] && kernels->has[TS_CUDA_KERNEL_COMBINE] && spec->winner_bytes == 0 &&
           spec->batch <= 256 && rows_a <= 256 && rows_b <= 256 && (spec->left <= 16 || spec->right <= 16) &&
           rows_a * spec->right <= TS_CUDA_FOLD_THREADS * TS_CUDA_FOLD_SHARE &&
           spec->sum >= TS_FOLD_LEAST_TILES * TS_CUDA_FOLD_TERMS * (int64_t)list->units &&
           ts_cuda_fold_shared((int32_t)(rows_a + rows_b), (uint32_t)tensum_dtype_bytes(kernels->dtype),
                               (uint32_t)ts_cuda_arithmetic_bytes(kernels->dtype)) <= (uint32_t)list->device->shared_limit;
}

static tensum_status add_fold(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec,
                              const ts_cuda_contract *from, const ts_mode *modes, int32_t kept)
{
    tensum_status status = TENSUM_OK;
    const size_t bytes = tensum_dtype_bytes(kernels->dtype), value = ts_cuda_arithmetic_bytes(kernels->dtype);
    const int64_t results = spec->batch * spec->left * spec->right;
    const int32_t rows = (int32_t)(spec->batch * (spec->left + spec->right));
    ts_cuda_fold p = {0};
    int64_t blocks;

    p.a = from->a;
    p.b = from->b;
    p.partial = list->scratch;
    p.sum = spec->sum;
    p.tile_count = (spec->sum + TS_CUDA_FOLD_TERMS - 1) / TS_CUDA_FOLD_TERMS;
    p.modulus = spec->algebra.modulus;
    p.batch = (int32_t)spec->batch;
    p.left = (int32_t)spec->left;
    p.right = (int32_t)spec->right;
    p.batch_count = from->batch_count;
    p.left_count = from->left_count;
    p.right_count = from->right_count;
    p.sum_count = from->sum_count;
    p.conjugate_a = spec->conjugate_a;
    p.conjugate_b = spec->conjugate_b;
    blocks = p.tile_count < 2 * (int64_t)list->units ? p.tile_count : 2 * (int64_t)list->units;
    ts_cuda_note_scratch(list, (size_t)(blocks * results) * value);
    ts_cuda_put_modes(list, modes, kept + p.sum_count, is_wide(spec->batch, spec->left, spec->right, spec->sum), &p.modes);
    TRY(ts_cuda_add_launch(list, kernels, TS_CUDA_KERNEL_FOLD, ts_cuda_grid(blocks), TS_CUDA_FOLD_THREADS,
                           ts_cuda_fold_shared(rows, (uint32_t)bytes, (uint32_t)value), &p,
                           ts_cuda_used_bytes(offsetof(ts_cuda_fold, modes), &p.modes)));
    ts_cuda_reads(list, p.a, TS_CUDA_SPAN(modes, kept + p.sum_count, a, bytes));
    ts_cuda_reads(list, p.b, TS_CUDA_SPAN(modes, kept + p.sum_count, b, bytes));
    ts_cuda_writes(list, ts_cuda_at(list->scratch), 1);
    TRY(ts_cuda_add_combine(list, kernels, modes, kept, results, blocks, spec->algebra.modulus, 0, 0, from->c, ts_cuda_at(0),
                            from->accumulate));
done:
    return status;
}

/* Multiplication commutes in every semiring there is, so left and right may change places. */
static void swap_sides(ts_cuda_contract *p, ts_mode *modes, int32_t count)
{
    ts_mode aside[TS_CUDA_MOST_MODES];
    ts_mode *left = modes + p->batch_count;
    int32_t left_count = p->left_count, conjugate = p->conjugate_a;
    int64_t extent = p->left;

    memcpy(aside, left, (size_t)left_count * sizeof *left);
    memmove(left, left + left_count, (size_t)p->right_count * sizeof *left);
    memcpy(left + p->right_count, aside, (size_t)left_count * sizeof *left);
    p->left_count = p->right_count;
    p->right_count = left_count;
    p->left = p->right;
    p->right = extent;
    p->conjugate_a = p->conjugate_b;
    p->conjugate_b = conjugate;
    for (int32_t i = 0; i < count; i++) {
        int64_t a = modes[i].a;
        modes[i].a = modes[i].b;
        modes[i].b = a;
    }
}

tensum_status ts_cuda_add_contract(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec,
                                   ts_cuda_pointer a, ts_cuda_pointer b, ts_cuda_pointer c, ts_cuda_pointer w,
                                   ts_cuda_switch accumulate)
{
    tensum_status status = TENSUM_OK;
    ts_mode modes[TS_CUDA_MOST_MODES];
    const ts_mode *from = spec->modes;
    ts_cuda_contract p = {0};
    ts_cuda_choice choice;
    size_t bytes = tensum_dtype_bytes(kernels->dtype);
    int32_t kept;

    TRY(too_many(spec->batch_count + spec->left_count + spec->right_count + spec->sum_count));
    if (spec->batch == 0 || spec->left == 0 || spec->right == 0) {
        return TENSUM_OK;
    }
    ts_cuda_choose_contract(spec, list->units, kernels->has, &choice);
    ts_cuda_note_scratch(list, choice.partial_bytes);
    p.batch_count = take_class(from, spec->batch_count, true, modes);
    from += spec->batch_count;
    kept = p.batch_count;
    p.left_count = take_class(from, spec->left_count, true, modes + kept);
    from += spec->left_count;
    kept += p.left_count;
    p.right_count = take_class(from, spec->right_count, true, modes + kept);
    from += spec->right_count;
    kept += p.right_count;
    p.sum_count = take_class(from, spec->sum_count, false, modes + kept);
    if (suits_fold(list, kernels, spec)) {
        p.a = a;
        p.b = b;
        p.c = c;
        p.accumulate = with_always(accumulate, spec->accumulate);
        return add_fold(list, kernels, spec, &p, modes, kept);
    }
    {
        bool added = false;
        TRY(ts_cuda_add_chained_contract(list, kernels, spec, a, b, c, with_always(accumulate, spec->accumulate), &added));
        if (added && !list->measure) {
            goto done;
        }
    }
    if (suits_stream(spec)) {
        bool added = false;
        TRY(stream_contract(list, kernels, spec, modes, kept, p.sum_count, a, b, c,
                            with_always(accumulate, spec->accumulate), &added));
        if (added) {
            goto done;
        }
    }
    p.left = spec->left;
    p.right = spec->right;
    p.conjugate_a = spec->conjugate_a;
    p.conjugate_b = spec->conjugate_b;
    p.a = a;
    p.b = b;
    p.c = c;
    p.w = w;
    p.winner_bytes = spec->winner_bytes;
    p.accumulate = with_always(accumulate, spec->accumulate);
    {
        double seconds = choice.seconds;
        const bool packed = ts_cuda_suits_packed(list, kernels, spec, &seconds);
        bool added = false;
        /* Tiles take about twice as long as is guessed where sums are so short. */
        TRY(ts_cuda_add_batched(list, kernels, spec, &p, w, modes, packed ? seconds : 2.0 * seconds, &added));
        if (added) {
            goto done;
        }
        TRY(ts_cuda_add_team(list, kernels, spec, &p, modes, seconds, &added));
        if (added) {
            goto done;
        }
        if (packed) {
            return ts_cuda_add_packed(list, kernels, spec, &p, modes);
        }
    }
    if (choice.swap) {
        swap_sides(&p, modes, kept + p.sum_count);
    }
    p.a = choice.swap ? b : a;
    p.b = choice.swap ? a : b;
    p.partial = list->scratch;
    p.partial_w = list->scratch + choice.partial_w_offset;
    p.batch = spec->batch;
    p.sum = spec->sum;
    p.left_tiles = choice.left_tiles;
    p.right_tiles = choice.right_tiles;
    p.splits = choice.splits;
    p.split_terms = choice.split_terms;
    p.tile_count = choice.tile_count;
    p.modulus = spec->algebra.modulus;
    ts_cuda_put_modes(list, modes, kept + p.sum_count, is_wide(spec->batch, spec->left, spec->right, spec->sum), &p.modes);
    TRY(ts_cuda_add_launch(list, kernels, choice.kernel, choice.grid, choice.threads, choice.shared_bytes, &p,
                           at_least_stream(list, ts_cuda_used_bytes(offsetof(ts_cuda_contract, modes), &p.modes))));
    ts_cuda_reads(list, p.a, TS_CUDA_SPAN(modes, kept + p.sum_count, a, bytes));
    ts_cuda_reads(list, p.b, TS_CUDA_SPAN(modes, kept + p.sum_count, b, bytes));
    write_results(list, modes, kept, bytes, choice.splits, spec->winner_bytes, c, w);
    if (choice.splits > 1) {
        TRY(ts_cuda_add_combine(list, kernels, modes, kept, spec->batch * spec->left * spec->right, choice.splits,
                                spec->algebra.modulus, spec->winner_bytes, p.partial_w, c, w, p.accumulate));
    }
done:
    return status;
}

static tensum_status add_copy(ts_cuda_list *list, const ts_cuda_kernels *common, ts_cuda_reduce *p,
                              const ts_mode *modes)
{
    tensum_status status = TENSUM_OK;
    bool added = false;

    if (p->kept >= 1 << 14) {
        TRY(ts_cuda_add_move(list, common, modes, p->kept_count, p->a, p->c, &added));
        if (added) {
            goto done;
        }
    }
    p->tile_count = (p->kept + TS_CUDA_THREADS - 1) / TS_CUDA_THREADS;
    TRY(ts_cuda_add_launch(list, common, TS_CUDA_KERNEL_COPY, ts_cuda_grid(p->tile_count), TS_CUDA_THREADS, 0, p,
                           at_least_stream(list, ts_cuda_used_bytes(offsetof(ts_cuda_reduce, modes), &p->modes))));
    ts_cuda_reads(list, p->a, TS_CUDA_SPAN(modes, p->kept_count, a, tensum_dtype_bytes(common->dtype)));
    ts_cuda_writes(list, p->c, TS_CUDA_SPAN(modes, p->kept_count, c, tensum_dtype_bytes(common->dtype)));
done:
    return status;
}

/* Let threads share a long sum as its strides suggest: the mode along which memory is read becomes the last of its class. */
static void share_sum(const ts_cuda_kernels *kernels, int units, ts_mode *modes, ts_cuda_reduce *p, ts_cuda_choice *choice)
{
    ts_cuda_mode table[TS_CUDA_MOST_MODES];
    const int32_t count = p->kept_count + p->sum_count;
    int32_t x;

    for (int32_t i = 0; i < count; i++) {
        table[i] = (ts_cuda_mode){.extent = modes[i].extent, .a = modes[i].a};
    }
    x = ts_cuda_sweep_plan(table, p->kept_count, p->sum_count, p->kept, p->sum, p->winner_bytes != 0,
                           (uint32_t)tensum_dtype_bytes(kernels->dtype), units, choice->splits, p);
    if (x < 0) {
        choice->kernel = TS_CUDA_KERNEL_REDUCE;
        choice->splits = 1;
        choice->split_terms = p->sum;
        choice->tile_count = (p->kept + TS_CUDA_THREADS - 1) / TS_CUDA_THREADS;
    } else {
        const int32_t last = x < p->kept_count ? p->kept_count - 1 : count - 1;
        const ts_mode moved = modes[x];
        memmove(modes + x, modes + x + 1, (size_t)(last - x) * sizeof *modes);
        modes[last] = moved;
        choice->splits = p->splits;
        choice->split_terms = p->split_terms;
        choice->tile_count = p->tile_count;
        choice->shared_bytes = ts_cuda_sweep_shared(p, (uint32_t)ts_cuda_arithmetic_bytes(kernels->dtype));
    }
    choice->grid = ts_cuda_grid(choice->tile_count);
}

tensum_status ts_cuda_add_reduce(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_cuda_kernels *common,
                                 const ts_reduce_spec *spec, ts_cuda_pointer a, ts_cuda_pointer c, ts_cuda_pointer w,
                                 ts_cuda_switch accumulate)
{
    tensum_status status = TENSUM_OK;
    ts_mode modes[TS_CUDA_MOST_MODES];
    ts_cuda_reduce p = {0};
    ts_cuda_choice choice;
    size_t bytes = tensum_dtype_bytes(kernels->dtype);

    TRY(too_many(spec->kept_count + spec->sum_count));
    if (spec->kept == 0) {
        return TENSUM_OK;
    }
    p.kept_count = take_class(spec->modes, spec->kept_count, true, modes);
    p.sum_count = take_class(spec->modes + spec->kept_count, spec->sum_count, false, modes + p.kept_count);
    p.a = a;
    p.c = c;
    p.w = w;
    p.accumulate = with_always(accumulate, spec->accumulate);
    p.kept = spec->kept;
    p.sum = spec->sum;
    p.splits = 1;
    p.split_terms = spec->sum;
    p.modulus = spec->algebra.modulus;
    p.winner_bytes = spec->winner_bytes;
    ts_cuda_choose_reduce(spec, list->units, kernels->has, &choice);
    ts_cuda_note_scratch(list, choice.partial_bytes);
    if (choice.kernel == TS_CUDA_KERNEL_REDUCE_ROW && !list->measure) { /* strides tell how; sizes, how much room there is */
        share_sum(kernels, list->units, modes, &p, &choice);
    }
    ts_cuda_put_modes(list, modes, p.kept_count + p.sum_count, is_wide(spec->kept, spec->sum, 0, 0), &p.modes);
    if (spec->sum == 1 && !spec->accumulate && accumulate.slot == 0 && spec->winner_bytes == 0) {
        return add_copy(list, common, &p, modes);
    }
    if (choice.kernel != TS_CUDA_KERNEL_REDUCE_ROW && spec->winner_bytes == 0 && spec->sum >= 1 && spec->sum <= 64 &&
        spec->kept >= 1 << 14) {
        ts_cuda_stream stream = {0};
        bool added = false;
        stream.a = a;
        stream.c = c;
        stream.accumulate = p.accumulate;
        stream.modulus = p.modulus;
        TRY(ts_cuda_add_stream(list, kernels, TS_CUDA_KERNEL_STREAM, modes, p.kept_count, p.sum_count, false,
                               tensum_dtype_bytes(kernels->dtype), &stream, &added));
        if (added) {
            goto done;
        }
    }
    p.partial = list->scratch;
    p.partial_w = list->scratch + choice.partial_w_offset;
    p.splits = choice.splits;
    p.split_terms = choice.split_terms;
    p.tile_count = choice.tile_count;
    TRY(ts_cuda_add_launch(list, kernels, choice.kernel, choice.grid, choice.threads, choice.shared_bytes, &p,
                           at_least_stream(list, ts_cuda_used_bytes(offsetof(ts_cuda_reduce, modes), &p.modes))));
    ts_cuda_reads(list, a, TS_CUDA_SPAN(modes, p.kept_count + p.sum_count, a, bytes));
    write_results(list, modes, p.kept_count, bytes, choice.splits, spec->winner_bytes, c, w);
    if (choice.splits > 1) {
        TRY(ts_cuda_add_combine(list, kernels, modes, p.kept_count, spec->kept, choice.splits, spec->algebra.modulus,
                        spec->winner_bytes, p.partial_w, c, w, p.accumulate));
    }
done:
    return status;
}

static void touch_adjoint(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_mode *modes, int32_t count,
                          uint8_t winner_bytes, ts_cuda_pointer a, ts_cuda_pointer b, ts_cuda_pointer c,
                          ts_cuda_pointer w, ts_cuda_pointer g, ts_cuda_pointer d)
{
    size_t bytes = tensum_dtype_bytes(kernels->dtype);
    size_t real_bytes = tensum_dtype_bytes(tensum_dtype_gradient(kernels->dtype));

    ts_cuda_reads(list, a, TS_CUDA_SPAN(modes, count, a, bytes));
    ts_cuda_reads(list, b, TS_CUDA_SPAN(modes, count, b, bytes));
    ts_cuda_reads(list, c, TS_CUDA_SPAN(modes, count, c, bytes));
    ts_cuda_reads(list, g, TS_CUDA_SPAN(modes, count, g, real_bytes));
    if (winner_bytes != 0) {
        ts_cuda_reads(list, w, TS_CUDA_SPAN(modes, count, w, winner_bytes));
    }
    ts_cuda_writes(list, d, TS_CUDA_SPAN(modes, count, d, real_bytes));
}

tensum_status ts_cuda_add_adjoint(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_adjoint_spec *spec,
                                  ts_cuda_pointer a, ts_cuda_pointer b, ts_cuda_pointer c, ts_cuda_pointer w,
                                  ts_cuda_pointer g, ts_cuda_pointer d, ts_cuda_switch accumulate)
{
    tensum_status status = TENSUM_OK;
    ts_mode modes[TS_CUDA_MOST_MODES];
    const ts_mode *from = spec->modes;
    ts_cuda_adjoint p = {0};
    int64_t rows = spec->side == 0 ? spec->left : spec->right, others = spec->side == 0 ? spec->right : spec->left;
    int64_t elements = spec->batch * spec->sum * rows;
    uint32_t shared;
    int32_t count;

    TRY(too_many(spec->batch_count + spec->left_count + spec->right_count + spec->sum_count));
    if (elements == 0) {
        return TENSUM_OK;
    }
    if (!kernels->has[TS_CUDA_KERNEL_ADJOINT]) {
        return missing(kernels, "adjoint");
    }
    p.batch_count = take_class(from, spec->batch_count, false, modes);
    from += spec->batch_count;
    count = p.batch_count;
    p.left_count = take_class(from, spec->left_count, false, modes + count);
    from += spec->left_count;
    count += p.left_count;
    p.right_count = take_class(from, spec->right_count, false, modes + count);
    from += spec->right_count;
    count += p.right_count;
    p.sum_count = take_class(from, spec->sum_count, false, modes + count);
    count += p.sum_count;
    p.a = a;
    p.b = b;
    p.c = c;
    p.w = w;
    p.g = g;
    p.d = d;
    p.accumulate = with_always(accumulate, spec->accumulate);
    p.batch = spec->batch;
    p.left = spec->left;
    p.right = spec->right;
    p.sum = spec->sum;
    p.side = spec->side;
    p.tie_here = spec->tie_here;
    p.winner_bytes = spec->winner_bytes;
    p.tile_count = ts_cuda_adjoint_tiles(spec->winner_bytes != 0, spec->batch, rows, others, spec->sum);
    shared = ts_cuda_adjoint_shared(spec->winner_bytes != 0, spec->batch, rows, others, spec->sum);
    ts_cuda_put_modes(list, modes, count, is_wide(elements, spec->left, spec->right, spec->sum), &p.modes);
    TRY(ts_cuda_add_launch(list, kernels, TS_CUDA_KERNEL_ADJOINT, ts_cuda_grid(p.tile_count), TS_CUDA_THREADS, shared, &p,
                           ts_cuda_used_bytes(offsetof(ts_cuda_adjoint, modes), &p.modes)));
    touch_adjoint(list, kernels, modes, count, spec->winner_bytes, p.a, p.b, p.c, p.w, p.g, p.d);
done:
    return status;
}

tensum_status ts_cuda_add_reduce_adjoint(ts_cuda_list *list, const ts_cuda_kernels *kernels,
                                         const ts_reduce_adjoint_spec *spec, ts_cuda_pointer a, ts_cuda_pointer c,
                                         ts_cuda_pointer w, ts_cuda_pointer g, ts_cuda_pointer d,
                                         ts_cuda_switch accumulate)
{
    tensum_status status = TENSUM_OK;
    ts_mode modes[TS_CUDA_MOST_MODES];
    ts_cuda_reduce_adjoint p = {0};
    int64_t elements;

    TRY(too_many(spec->kept_count + spec->sum_count));
    if (spec->sum == 0) { /* no gradient element exists */
        return TENSUM_OK;
    }
    if (!kernels->has[TS_CUDA_KERNEL_REDUCE_ADJOINT]) {
        return missing(kernels, "adjoint");
    }
    p.kept_count = take_class(spec->modes, spec->kept_count, false, modes);
    p.sum_count = take_class(spec->modes + spec->kept_count, spec->sum_count, false, modes + p.kept_count);
    p.a = a;
    p.c = c;
    p.w = w;
    p.g = g;
    p.d = d;
    p.accumulate = with_always(accumulate, spec->accumulate);
    p.kept = spec->kept;
    p.sum = spec->sum;
    p.winner_bytes = spec->winner_bytes;
    elements = ts_modes_size(modes + p.kept_count, p.sum_count);
    for (int32_t i = 0; i < p.kept_count; i++) {
        elements *= modes[i].d != 0 ? modes[i].extent : 1;
    }
    if (elements == 0) {
        return TENSUM_OK;
    }
    p.tile_count = (elements + TS_CUDA_THREADS - 1) / TS_CUDA_THREADS;
    ts_cuda_put_modes(list, modes, p.kept_count + p.sum_count, is_wide(elements, spec->kept, spec->sum, 0),
              &p.modes);
    TRY(ts_cuda_add_launch(list, kernels, TS_CUDA_KERNEL_REDUCE_ADJOINT, ts_cuda_grid(p.tile_count), TS_CUDA_THREADS, 0,
                           &p, ts_cuda_used_bytes(offsetof(ts_cuda_reduce_adjoint, modes), &p.modes)));
    touch_adjoint(list, kernels, modes, p.kept_count + p.sum_count, spec->winner_bytes, p.a, ts_cuda_at(0), p.c, p.w, p.g,
                  p.d);
done:
    return status;
}

tensum_status ts_cuda_add_slices(ts_cuda_list *list, const ts_cuda_kernels *kernels, ts_cuda_kernel kernel,
                                 ts_cuda_slices *p, ts_mode *modes, int32_t count)
{
    if (p->elements == 0) {
        return TENSUM_OK;
    }
    count = ts_modes_fuse(modes, count);
    p->tile_count = (p->elements + TS_CUDA_THREADS - 1) / TS_CUDA_THREADS;
    ts_cuda_put_modes(list, modes, count, p->elements >= (int64_t)1 << 31, &p->modes);
    return ts_cuda_add_launch(list, kernels, kernel, ts_cuda_grid(p->tile_count), TS_CUDA_THREADS, 0, p,
                              ts_cuda_used_bytes(offsetof(ts_cuda_slices, modes), &p->modes));
}

tensum_status ts_cuda_add_fill(ts_cuda_list *list, const ts_cuda_kernels *common, const ts_mode *modes, int32_t count,
                               const void *value, ts_cuda_pointer c)
{
    ts_mode fused[TS_CUDA_MOST_MODES];
    ts_cuda_fill p = {0};
    tensum_status status = too_many(count);

    p.elements = ts_modes_size(modes, count);
    if (status != TENSUM_OK || p.elements == 0) {
        return status;
    }
    count = take_class(modes, count, true, fused);
    p.c = c;
    p.tile_count = (p.elements + TS_CUDA_THREADS - 1) / TS_CUDA_THREADS;
    memcpy(p.value, value, tensum_dtype_bytes(common->dtype));
    ts_cuda_put_modes(list, fused, count, is_wide(p.elements, 0, 0, 0), &p.modes);
    TRY(ts_cuda_add_launch(list, common, TS_CUDA_KERNEL_FILL, ts_cuda_grid(p.tile_count), TS_CUDA_THREADS, 0, &p,
                           ts_cuda_used_bytes(offsetof(ts_cuda_fill, modes), &p.modes)));
    ts_cuda_writes(list, c, TS_CUDA_SPAN(fused, count, c, tensum_dtype_bytes(common->dtype)));
done:
    return status;
}

tensum_status ts_cuda_add_convert(ts_cuda_list *list, const ts_cuda_kernels *common, const ts_mode *modes,
                                  int32_t count, ts_cuda_pointer a, ts_cuda_pointer c)
{
    ts_mode fused[TS_CUDA_MOST_MODES];
    ts_cuda_reduce p = {0};
    tensum_status status = too_many(count);

    p.kept = ts_modes_size(modes, count);
    p.sum = 1;
    if (status != TENSUM_OK || p.kept == 0) {
        return status;
    }
    p.kept_count = take_class(modes, count, true, fused);
    p.a = a;
    p.c = c;
    p.splits = 1;
    p.split_terms = 1;
    p.tile_count = (p.kept + TS_CUDA_THREADS - 1) / TS_CUDA_THREADS;
    ts_cuda_put_modes(list, fused, p.kept_count, is_wide(p.kept, 0, 0, 0), &p.modes);
    TRY(ts_cuda_add_launch(list, common, TS_CUDA_KERNEL_CONVERT, ts_cuda_grid(p.tile_count), TS_CUDA_THREADS, 0, &p,
                           ts_cuda_used_bytes(offsetof(ts_cuda_reduce, modes), &p.modes)));
    ts_cuda_reads(list, a, TS_CUDA_SPAN(fused, p.kept_count, a, tensum_dtype_bytes(common->dtype)));
    ts_cuda_writes(list, c, TS_CUDA_SPAN(fused, p.kept_count, c, tensum_dtype_bytes(tensum_dtype_gradient(common->dtype))));
done:
    return status;
}

tensum_status ts_cuda_launch_one(ts_cuda_device *device, const ts_cuda_list *list, int64_t index, ts_cu_stream stream)
{
    const ts_cuda_launch *launch = &list->launches[index];
    void *parameters[1] = {list->parameters + launch->parameters};
    int result = device->driver->launch(launch->function, launch->grid, 1, 1, launch->threads, 1, 1,
                                        launch->shared_bytes, stream, parameters, NULL);

    if (result != TS_CU_SUCCESS) {
        return ts_cuda_result(device, result, "cuLaunchKernel");
    }
    TS_CUDA_COUNT(device, launches, 1);
    return TENSUM_OK;
}
