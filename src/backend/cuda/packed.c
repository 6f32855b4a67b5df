#define _GNU_SOURCE
#include "backend/cuda/packed.h"

#include <stddef.h>
#include <stdlib.h>

#include "backend/cuda/kernels/packed_abi.h"

typedef struct shape {
    int32_t rows, columns, terms, threads, stages, blocks, planes, unit, in_unit, across;
} shape;
static const shape shapes[TS_CUDA_PACKED_CLASS_COUNT] = {
#define SHAPE(id, rows, columns, terms, tm, tn, threads, stages, blocks, planes, unit, in_unit, across) \
    [TS_CUDA_PACKED_##id] = {rows, columns, terms, threads, stages, blocks, planes, unit, in_unit, across},
    TS_CUDA_PACKED_CLASSES(SHAPE)
#undef SHAPE
};

/* How a step is cut up, and what lies where in scratch. */
typedef struct layout {
    const shape *shape;
    bool noted, surveyed; /* noted: some results are done again */
    bool notes_kept;      /* these, or hints */
    int64_t tiles[2];
    int64_t depth, chunk, chunks; /* terms */
    int64_t panels, split_panels, splits;
    int64_t careful_tiles[2];
    size_t to[2], notes[2], careful, total; /* partial results come first */
    size_t rows_to[2], found, ends;         /* for winners */
    size_t packed;                          /* what pack writes, and partial results */
} layout;

ts_cuda_product ts_cuda_product_choice(void)
{
    static const char *const names[] = {[TS_CUDA_PRODUCT_PACKED] = "always", [TS_CUDA_PRODUCT_UNPACKED] = "never",
                                        [TS_CUDA_PRODUCT_TEAMS] = "teams", [TS_CUDA_PRODUCT_BATCHED] = "batched"};
    const char *name = secure_getenv("TENSUM_CUDA_PACKED");
    for (size_t i = 1; name != NULL && i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            return (ts_cuda_product)i;
        }
    }
    return TS_CUDA_PRODUCT_FASTEST;
}

static uint32_t shared_of(const shape *s, bool winners)
{
    return (winners ? ts_cuda_noted_shared((uint32_t)s->rows, (uint32_t)s->columns) : 0) +
           ts_cuda_packed_shared((uint32_t)s->rows, (uint32_t)s->columns, (uint32_t)s->terms, (uint32_t)s->stages, (uint32_t)s->planes,
                                 (uint32_t)s->unit, (uint32_t)s->across);
}
static uint32_t winners_shared_of(const shape *s, tensum_dtype dtype)
{
    return ts_cuda_winners_shared((uint32_t)s->rows, (uint32_t)s->columns, (uint32_t)tensum_dtype_bytes(dtype));
}
static uint32_t pack_shared_of(const shape *s, tensum_dtype dtype)
{
    return ts_cuda_pack_shared((uint32_t)(s->rows > s->columns ? s->rows : s->columns), (uint32_t)tensum_dtype_bytes(dtype));
}

static bool is_selective(const ts_cuda_kernels *kernels) { return tensum_semiring_selective((tensum_semiring)kernels->module) != 0; }
/* f64 of a selective semiring */
static bool chooses(const ts_cuda_kernels *kernels) { return kernels->dtype == TENSUM_F64 && is_selective(kernels); }
/* Signs are noted, see ts_dense_of in kernels/dense.h. */
static bool hinted(const ts_cuda_kernels *kernels)
{
    return kernels->dtype == TENSUM_F32 && (kernels->module == TENSUM_MAX_PLUS || kernels->module == TENSUM_MIN_PLUS);
}
static const shape *shape_of(const ts_cuda_kernels *kernels, bool winners)
{
    const bool logarithms = kernels->has[TS_CUDA_KERNEL_SURVEY], selective = is_selective(kernels);
    if (winners) {
        return &shapes[tensum_dtype_bytes(kernels->dtype) == 2 ? TS_CUDA_PACKED_HALVES_W : TS_CUDA_PACKED_CHOICE_W];
    }
    switch (kernels->dtype) {
    case TENSUM_F16:
    case TENSUM_BF16: return &shapes[selective ? TS_CUDA_PACKED_HALVES : logarithms ? TS_CUDA_PACKED_SINGLE : TS_CUDA_PACKED_HALF];
    case TENSUM_I16: return &shapes[TS_CUDA_PACKED_HALVES];
    case TENSUM_C64: return &shapes[TS_CUDA_PACKED_PAIRED];
    case TENSUM_BOOL: return &shapes[TS_CUDA_PACKED_BITS];
    case TENSUM_F64: return &shapes[TS_CUDA_PACKED_DOUBLE];
    default: return &shapes[selective ? TS_CUDA_PACKED_CHOICE : TS_CUDA_PACKED_SINGLE];
    }
}

/* Pairs, for each multiprocessor, from which on the launches and passes of packing pay: where `tensum bench gemm` on an H200
 * crosses between TENSUM_CUDA_PACKED=never and =always (bench/tune/packed.sh prints both). */
static double least_pairs(const ts_cuda_kernels *kernels)
{
    const bool narrow = kernels->dtype == TENSUM_BOOL || kernels->dtype == TENSUM_F16 || kernels->dtype == TENSUM_BF16;
    return kernels->has[TS_CUDA_KERNEL_SURVEY] ? 6e5 : narrow ? 2e6 : 4e6;
}

static size_t take(size_t *total, size_t bytes)
{
    const size_t at = *total;
    *total += (bytes + 127) / 128 * 128;
    return at;
}

static void lay_out(const ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec, layout *l)
{
    const bool winners = spec->winner_bytes != 0;
    const shape *s = shape_of(kernels, winners);
    const int64_t rows[2] = {spec->left, spec->right}, width[2] = {s->rows, s->columns};
    const int64_t step = s->terms * s->in_unit > TS_CUDA_PACK_TERMS ? s->terms * s->in_unit : TS_CUDA_PACK_TERMS;
    const size_t value = ts_cuda_arithmetic_bytes(kernels->dtype);
    int64_t tiles, slots = (int64_t)list->units * s->blocks, items;

    *l = (layout){.shape = s, .surveyed = kernels->has[TS_CUDA_KERNEL_SURVEY]};
    l->noted = l->surveyed || chooses(kernels);
    l->notes_kept = l->noted || hinted(kernels);
    l->tiles[0] = ts_divide_up(rows[0], width[0]);
    l->tiles[1] = ts_divide_up(rows[1], width[1]);
    l->depth = ts_divide_up(spec->sum, step) * step;
    l->panels = l->depth / s->in_unit / s->terms;
    items = spec->batch * (l->tiles[0] + l->tiles[1]);
    l->chunks = ts_divide_up(8 * (int64_t)list->units, items);
    l->chunks = l->chunks > 64 ? 64 : l->chunks;
    l->chunk = ts_divide_up(ts_divide_up(l->depth, l->chunks), TS_CUDA_PACK_TERMS) * TS_CUDA_PACK_TERMS;
    l->chunk = l->chunk == 0 ? TS_CUDA_PACK_TERMS : l->chunk;
    l->chunks = ts_divide_up(l->depth, l->chunk);
    tiles = spec->batch * l->tiles[0] * l->tiles[1];
    l->splits = 1;
    if (!l->noted && !winners && 2 * tiles <= slots && kernels->has[TS_CUDA_KERNEL_COMBINE]) {
        const int64_t most = l->panels * s->terms / 128, wanted = slots / tiles;
        l->splits = wanted < most ? wanted : most;
        l->splits = l->splits < 1 ? 1 : l->splits > 64 ? 64 : l->splits;
    }
    l->split_panels = ts_divide_up(l->panels, l->splits);
    l->splits = l->panels > 0 ? ts_divide_up(l->panels, l->split_panels) : 1;
    if (l->splits > 1) {
        (void)take(&l->total, (size_t)(l->splits * spec->batch * spec->left * spec->right) * value);
    }
    for (int side = 0; side < 2; side++) {
        l->to[side] = take(&l->total, (size_t)(spec->batch * l->tiles[side] * width[side] * (l->depth / s->in_unit) * s->planes * s->unit) /
                                          (size_t)(side == 1 ? s->across : 1));
        l->rows_to[side] = take(&l->total, winners ? (size_t)(spec->batch * l->tiles[side] * width[side] * l->depth) *
                                                         tensum_dtype_bytes(kernels->dtype) : 0);
        l->notes[side] = take(&l->total, l->notes_kept ? (size_t)(l->chunks * spec->batch * l->tiles[side] * width[side]) * 8 : 0);
    }
    l->packed = l->total;
    l->found = take(&l->total, winners ? (size_t)(tiles * s->rows * s->columns) * 8 : 0);
    l->ends = take(&l->total, winners ? (size_t)tiles * TS_CUDA_INTERVALS * 4 : 0);
    l->careful_tiles[0] = ts_divide_up(rows[0], TS_CUDA_CAREFUL_ROWS);
    l->careful_tiles[1] = ts_divide_up(rows[1], TS_CUDA_CAREFUL_COLUMNS);
    l->careful = take(&l->total, l->noted ? (size_t)(spec->batch * l->careful_tiles[0] * l->careful_tiles[1]) : 0);
}

/* Where the product by tiles is nearly as fast: launches, a pass over the operands, rounds of blocks. Rates are for comparison with
 * those of choose.c, of f32 max_plus on an H200. */
static double guess(const layout *l, const ts_contract_spec *spec, int units)
{
    const bool winners = spec->winner_bytes != 0;
    const shape *s = l->shape;
    const double blocks = (double)spec->batch * (double)l->tiles[0] * (double)l->tiles[1] * (double)l->splits, slots = (double)units * s->blocks;
    const double rate = (winners ? 13.6e12 : 15.1e12) / 132.0 / s->blocks, results = (double)spec->batch * (double)spec->left * (double)spec->right;
    /* `winners` has a multiprocessor for each of its blocks; what one takes is for its results and for panels of each interval. */
    const double looking = (blocks <= units ? 1.0 : blocks / (double)units) * (7.6e-5 + 1e-6 * (double)l->depth / TS_CUDA_INTERVAL);
    return 9e-6 + (double)l->packed / 1e12 + (winners ? 5e-6 + looking : 0.0) + (l->splits > 1 ? results * (double)l->splits * 6e-12 : 0.0) +
           (blocks <= slots ? 1.0 : blocks / slots) *
               (1e-6 + (double)s->rows * s->columns * (double)(l->split_panels * s->terms * s->in_unit) / rate);
}

/* Beside what values need. */
static bool finds_winners(const ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec)
{
    const double results = (double)spec->batch * ((double)spec->left + 128.0) * ((double)spec->right + 256.0);
    return kernels->has[TS_CUDA_KERNEL_PACKED_W] && kernels->has[TS_CUDA_KERNEL_WINNERS] &&
           spec->sum <= (int64_t)TS_CUDA_INTERVALS * TS_CUDA_INTERVAL && results * 8.0 <= (double)(list->device->memory_total / 8) &&
           winners_shared_of(shape_of(kernels, true), kernels->dtype) <= list->device->shared_limit;
}

bool ts_cuda_suits_packed(const ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec, double *seconds)
{
    const double pairs = (double)spec->batch * (double)spec->left * (double)spec->right * (double)spec->sum;
    const double operands = (double)spec->batch * ((double)spec->left + (double)spec->right + 256.0) * ((double)spec->sum + 512.0);
    const ts_cuda_product choice = list->without_panels ? TS_CUDA_PRODUCT_UNPACKED : list->device->product;
    const bool winners = spec->winner_bytes != 0;
    const shape *s = shape_of(kernels, winners);
    layout l;

    if (!kernels->has[TS_CUDA_KERNEL_PACKED] || !kernels->has[TS_CUDA_KERNEL_PACK] || !kernels->has[TS_CUDA_KERNEL_CONTRACT_SMALL] ||
        (winners && !finds_winners(list, kernels, spec)) || spec->sum == 0 || choice > TS_CUDA_PRODUCT_PACKED || spec->batch >= (int64_t)1 << 31 ||
        operands * s->planes * s->unit > (double)(list->device->memory_total / (winners ? 16 : 8)) ||
        shared_of(s, winners) > list->device->shared_limit || pack_shared_of(s, kernels->dtype) > list->device->shared_limit) {
        return false;
    }
    if (choice == TS_CUDA_PRODUCT_PACKED) {
        *seconds = 0.0;
        return true;
    }
    if (spec->left < 64 || spec->right < 64 || spec->sum < 64) {
        return false;
    }
    lay_out(list, kernels, spec, &l);
    if (is_selective(kernels) && !chooses(kernels) && kernels->dtype != TENSUM_BOOL) {
        const double guessed = guess(&l, spec, list->units);
        const bool better = guessed < *seconds;
        *seconds = better ? guessed : *seconds;
        return better;
    }
    /* Packing takes a launch or two and a pass over the operands; tiles have to fill the device, and be filled. */
    const bool pays =
           pairs >= least_pairs(kernels) * list->units &&
           2 * spec->batch * l.tiles[0] * l.tiles[1] * l.splits >= (l.surveyed ? list->units / 8 : list->units) &&
           (double)spec->batch * (double)(l.tiles[0] * s->rows) * (double)(l.tiles[1] * s->columns) * (double)l.depth <= 1.6 * pairs;
    *seconds = pays ? 0.0 : *seconds;
    return pays;
}

static tensum_status add_winners(ts_cuda_list *list, const ts_cuda_kernels *kernels, const layout *l, const ts_cuda_packed *product,
                                 const ts_cuda_contract *from, const ts_mode *modes, bool wide)
{
    const int32_t kept = from->batch_count + from->left_count + from->right_count;
    tensum_status status = TENSUM_OK;
    ts_cuda_winners p = {0};

    p.w = from->w;
    p.a = list->scratch + l->rows_to[0];
    p.b = list->scratch + l->rows_to[1];
    p.found = product->found;
    p.ends = product->ends;
    p.left = product->left;
    p.right = product->right;
    p.left_tiles = product->left_tiles;
    p.right_tiles = product->right_tiles;
    p.tile_count = product->tile_count;
    p.intervals = l->depth / TS_CUDA_INTERVAL;
    p.modulus = product->modulus;
    p.batch_count = from->batch_count;
    p.left_count = from->left_count;
    p.right_count = from->right_count;
    p.winner_bytes = from->winner_bytes;
    ts_cuda_put_modes(list, modes, kept, wide, &p.modes);
    TRY(ts_cuda_add_launch(list, kernels, TS_CUDA_KERNEL_WINNERS, ts_cuda_grid(p.tile_count), TS_CUDA_WINNERS_THREADS,
                           winners_shared_of(l->shape, kernels->dtype), &p, ts_cuda_used_bytes(offsetof(ts_cuda_winners, modes), &p.modes)));
    ts_cuda_reads(list, ts_cuda_at(list->scratch), 1);
    ts_cuda_writes(list, from->w, TS_CUDA_SPAN(modes, kept, w, from->winner_bytes));
done:
    return status;
}

tensum_status ts_cuda_add_packed(ts_cuda_list *list, const ts_cuda_kernels *kernels, const ts_contract_spec *spec,
                                 const ts_cuda_contract *from, const ts_mode *modes)
{
    tensum_status status = TENSUM_OK;
    const size_t bytes = tensum_dtype_bytes(kernels->dtype), value = ts_cuda_arithmetic_bytes(kernels->dtype);
    const int32_t kept = from->batch_count + from->left_count + from->right_count, count = kept + from->sum_count;
    const bool winners = from->winner_bytes != 0;
    const bool wide = spec->batch >= (int64_t)1 << 31 || spec->left >= (int64_t)1 << 31 || spec->right >= (int64_t)1 << 31 ||
                      spec->sum >= (int64_t)1 << 31;
    const ts_cuda_pointer operands[2] = {from->a, from->b};
    ts_cuda_pack pack = {0};
    ts_cuda_packed product = {0};
    layout l;

    lay_out(list, kernels, spec, &l);
    ts_cuda_note_scratch(list, l.total);
    for (int side = 0; side < 2; side++) {
        pack.side[side].from = operands[side];
        pack.side[side].to = list->scratch + l.to[side];
        pack.side[side].rows_to = winners ? list->scratch + l.rows_to[side] : 0;
        pack.side[side].notes = l.notes_kept ? list->scratch + l.notes[side] : 0;
        pack.side[side].rows = side == 0 ? spec->left : spec->right;
        pack.side[side].tiles = l.tiles[side];
        pack.side[side].width = side == 0 ? l.shape->rows : l.shape->columns;
        pack.side[side].conjugate = side == 0 ? from->conjugate_a : from->conjugate_b;
    }
    pack.batch = spec->batch;
    pack.sum = spec->sum;
    pack.depth = l.depth;
    pack.chunk = l.chunk;
    pack.chunks = l.chunks;
    pack.tile_count = spec->batch * (l.tiles[0] + l.tiles[1]) * l.chunks;
    pack.modulus = spec->algebra.modulus;
    pack.batch_count = from->batch_count;
    pack.left_count = from->left_count;
    pack.right_count = from->right_count;
    pack.sum_count = from->sum_count;
    ts_cuda_put_modes(list, modes, count, wide, &pack.modes);
    for (int survey = l.surveyed ? 1 : 0; survey >= 0; survey--) {
        TRY(ts_cuda_add_launch(list, kernels, survey ? TS_CUDA_KERNEL_SURVEY : TS_CUDA_KERNEL_PACK, ts_cuda_grid(pack.tile_count),
                               TS_CUDA_THREADS, pack_shared_of(l.shape, kernels->dtype), &pack,
                               ts_cuda_used_bytes(offsetof(ts_cuda_pack, modes), &pack.modes)));
        ts_cuda_reads(list, from->a, TS_CUDA_SPAN(modes, count, a, bytes));
        ts_cuda_reads(list, from->b, TS_CUDA_SPAN(modes, count, b, bytes));
        ts_cuda_writes(list, ts_cuda_at(list->scratch), 1);
    }
    product.c = from->c;
    product.accumulate = from->accumulate;
    product.a = pack.side[0].to;
    product.b = pack.side[1].to;
    product.a_notes = pack.side[0].notes;
    product.b_notes = pack.side[1].notes;
    product.partial = list->scratch;
    product.careful = l.noted ? list->scratch + l.careful : 0;
    product.found = list->scratch + l.found;
    product.ends = list->scratch + l.ends;
    product.batch = spec->batch;
    product.left = spec->left;
    product.right = spec->right;
    product.left_tiles = l.tiles[0];
    product.right_tiles = l.tiles[1];
    product.splits = l.splits;
    product.panels = l.panels;
    product.split_panels = l.split_panels;
    product.tile_count = spec->batch * l.tiles[0] * l.tiles[1] * l.splits;
    product.chunks = l.chunks;
    product.modulus = spec->algebra.modulus;
    product.batch_count = from->batch_count;
    product.left_count = from->left_count;
    product.right_count = from->right_count;
    ts_cuda_put_modes(list, modes, kept, wide, &product.modes);
    TRY(ts_cuda_add_launch(list, kernels, winners ? TS_CUDA_KERNEL_PACKED_W : TS_CUDA_KERNEL_PACKED, ts_cuda_grid(product.tile_count),
                           (uint32_t)l.shape->threads, shared_of(l.shape, winners), &product,
                           ts_cuda_used_bytes(offsetof(ts_cuda_packed, modes), &product.modes)));
    ts_cuda_reads(list, ts_cuda_at(list->scratch), 1);
    if (l.splits > 1 || l.noted || winners) {
        ts_cuda_writes(list, ts_cuda_at(list->scratch), 1);
    }
    if (l.splits == 1) {
        ts_cuda_writes(list, from->c, TS_CUDA_SPAN(modes, kept, c, bytes));
    }
    if (winners) {
        TRY(add_winners(list, kernels, &l, &product, from, modes, wide));
    }
    if (l.splits > 1) {
        TRY(ts_cuda_add_combine(list, kernels, modes, kept, spec->batch * spec->left * spec->right, l.splits, spec->algebra.modulus,
                                0, 0, from->c, ts_cuda_at(0), from->accumulate));
    }
    if (l.noted) {
        ts_cuda_contract again = *from;
        again.only = product.careful;
        again.batch = spec->batch;
        again.left = spec->left;
        again.right = spec->right;
        again.sum = spec->sum;
        again.left_tiles = l.careful_tiles[0];
        again.right_tiles = l.careful_tiles[1];
        again.splits = 1;
        again.split_terms = spec->sum;
        again.tile_count = spec->batch * again.left_tiles * again.right_tiles;
        again.modulus = spec->algebra.modulus;
        ts_cuda_put_modes(list, modes, count, wide, &again.modes);
        TRY(ts_cuda_add_launch(list, kernels, TS_CUDA_KERNEL_CONTRACT_SMALL, ts_cuda_grid(again.tile_count), 128,
                               ts_cuda_contract_shared(TS_CUDA_CONTRACT_SMALL, (uint32_t)value), &again,
                               ts_cuda_used_bytes(offsetof(ts_cuda_contract, modes), &again.modes)));
        ts_cuda_reads(list, from->a, TS_CUDA_SPAN(modes, count, a, bytes));
        ts_cuda_reads(list, from->b, TS_CUDA_SPAN(modes, count, b, bytes));
        ts_cuda_reads(list, ts_cuda_at(list->scratch), 1);
        ts_cuda_writes(list, from->c, TS_CUDA_SPAN(modes, kept, c, bytes));
    }
done:
    return status;
}
