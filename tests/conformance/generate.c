/* From a seed to a case: network, layouts, tree, slices, values. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

enum { SMALL_LIMIT = 1500, SIZE_LIMIT = 4096, SLICE_LIMIT = 48, TILE_LIMIT = 8000000 };

bool shape_next(const tensor_shape *shape, int64_t *index)
{
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        if (++index[i] < shape->extents[i]) {
            return true;
        }
        index[i] = 0;
    }
    return false;
}

int64_t shape_offset(const tensor_shape *shape, const int64_t *index)
{
    int64_t offset = shape->origin;
    for (int32_t i = 0; i < shape->rank; i++) {
        offset += index[i] * shape->strides[i];
    }
    return offset;
}

static int64_t shape_size(const tensor_shape *shape)
{
    int64_t size = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        size *= shape->extents[i];
    }
    return size;
}

/* ---- labels and extents ---- */

static bool draw_pair(generator *random, const case_filter *filter, test_case *test)
{
    tensum_semiring semirings[TENSUM_SEMIRING_COUNT * TENSUM_DTYPE_COUNT];
    tensum_dtype dtypes[TENSUM_SEMIRING_COUNT * TENSUM_DTYPE_COUNT];
    int64_t count = 0;
    for (int s = 0; s < TENSUM_SEMIRING_COUNT; s++) {
        for (int d = 0; d < TENSUM_DTYPE_COUNT; d++) {
            if ((filter->semiring == TENSUM_SEMIRING_COUNT || (int)filter->semiring == s) &&
                (filter->dtype == TENSUM_DTYPE_COUNT || (int)filter->dtype == d) &&
                tensum_supports((tensum_semiring)s, (tensum_dtype)d) != 0) {
                semirings[count] = (tensum_semiring)s;
                dtypes[count++] = (tensum_dtype)d;
            }
        }
    }
    if (count == 0) {
        return false;
    }
    int64_t choice = below(random, count);
    test->semiring = semirings[choice];
    test->dtype = dtypes[choice];
    test->gradient_dtype = tensum_dtype_gradient(test->dtype);
    static const int64_t primes[] = {2, 3, 97, 65537, 998244353, 2147483647};
    test->modulus = test->semiring == TENSUM_SUM_PRODUCT_MOD ? primes[below(random, 6)] : 0;
    return true;
}

static int64_t draw_extent(generator *random)
{
    int64_t choice = below(random, 100);
    return choice < 3 ? 0 : choice < 15 ? 1 : choice < 50 ? 2 : choice < 70 ? 3 : choice < 95 ? between(random, 4, 7) : between(random, 8, 20);
}

static int32_t draw_rank(generator *random)
{
    static const int limits[MAX_RANK + 1] = {6, 24, 54, 76, 88, 92, 95, 98, 100};
    int64_t choice = below(random, 100);
    int32_t rank = 0;
    while (choice >= limits[rank]) {
        rank++;
    }
    return rank;
}

static bool has_label(const tensor_shape *shape, int label)
{
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->labels[i] == label) {
            return true;
        }
    }
    return false;
}

/* Shrink extents until a full enumeration and every tensor are small. */
static void shrink(test_case *test, int64_t limit)
{
    for (;;) {
        int largest = 0;
        double total = 1, greatest = 1;
        for (int i = 0; i < test->label_count; i++) {
            total *= (double)(test->extents[i] > 1 ? test->extents[i] : 1);
            largest = test->extents[i] > test->extents[largest] ? i : largest;
        }
        for (int t = 0; t <= test->operand_count; t++) {
            const tensor_shape *shape = t < test->operand_count ? &test->operands[t] : &test->output;
            double size = 1;
            for (int32_t i = 0; i < shape->rank; i++) {
                size *= (double)(test->extents[shape->labels[i]] > 1 ? test->extents[shape->labels[i]] : 1);
            }
            greatest = size > greatest ? size : greatest;
        }
        if (total <= (double)limit && greatest <= (double)SIZE_LIMIT) {
            return;
        }
        test->extents[largest]--;
    }
}

static void draw_small_network(generator *random, test_case *test)
{
    int64_t choice = below(random, 200);
    test->operand_count = choice < 1    ? 0
                          : choice < 30  ? 1
                          : choice < 100 ? 2
                          : choice < 140 ? 3
                                         : (int)between(random, 4, MAX_OPERANDS);
    test->label_count = (int)between(random, 1, 3 + test->operand_count);
    for (int i = 0; i < test->label_count; i++) {
        test->extents[i] = draw_extent(random);
    }
    for (int t = 0; t < test->operand_count; t++) {
        tensor_shape *operand = &test->operands[t];
        int32_t rank = draw_rank(random);
        operand->rank = 0;
        for (int32_t i = 0; i < rank; i++) {
            int label = (int)below(random, test->label_count);
            if (has_label(operand, label) && chance(random, 60)) {
                label = (int)below(random, test->label_count);
            }
            operand->labels[operand->rank++] = label;
        }
    }
    tensor_shape *output = &test->output;
    int32_t rank = chance(random, 20) ? 0 : draw_rank(random);
    output->rank = 0;
    for (int32_t i = 0; i < rank; i++) {
        int label = (int)below(random, test->label_count);
        bool repeat = has_label(output, label);
        if (repeat && !chance(random, 15)) {
            continue;
        }
        output->labels[output->rank++] = label;
    }
    shrink(test, SMALL_LIMIT);
}

/* A contraction whose batch, left, right and sum groups cross tile and panel edges, or a chain of two. */
static void draw_tile_network(generator *random, test_case *test)
{
    int64_t group[4]; /* batch, left, right, sum */
    int labels[4][2], counts[4];
    double budget = chance(random, 3) ? 4e6 : 2.5e5, pairs;
    group[0] = chance(random, 70) ? 1 : between(random, 2, 5);
    for (int g = 1; g < 4; g++) {
        int64_t choice = below(random, 100);
        group[g] = choice < 40 ? between(random, 1, 40) : choice < 80 ? between(random, 1, 150) : between(random, 100, g == 3 ? 600 : 1500);
    }
    do {
        pairs = (double)group[0] * (double)group[1] * (double)group[2] * (double)group[3];
        if (pairs > budget) {
            int g = (int)below(random, 4);
            group[g] = between(random, (group[g] + 1) / 2, group[g]);
        }
    } while (pairs > budget);
    test->tile = true;
    test->label_count = 0;
    for (int g = 0; g < 4; g++) {
        counts[g] = g == 0 && group[0] == 1 ? 0 : chance(random, 35) ? 2 : 1;
        int64_t first = counts[g] == 2 ? between(random, 1, group[g] > 12 ? 12 : group[g]) : 0;
        for (int i = 0; i < counts[g]; i++) {
            labels[g][i] = test->label_count;
            test->extents[test->label_count++] = counts[g] == 1 ? group[g] : i == 0 ? first : (group[g] + first - 1) / first;
        }
    }
    test->operand_count = chance(random, 10) ? 1 : chance(random, 20) ? 3 : 2;
    tensor_shape *tensors[3] = {&test->operands[0], &test->operands[1], &test->output};
    for (int t = 0; t < 3; t++) {
        int skipped = t == 0 ? 2 : t == 1 ? 1 : 3;
        tensors[t]->rank = 0;
        for (int g = 0; g < 4; g++) {
            for (int i = 0; i < counts[g] && g != skipped; i++) {
                /* random places, so that groups interleave */
                int32_t place = (int32_t)below(random, tensors[t]->rank + 1);
                for (int32_t j = tensors[t]->rank; j > place; j--) {
                    tensors[t]->labels[j] = tensors[t]->labels[j - 1];
                }
                tensors[t]->labels[place] = labels[g][i];
                tensors[t]->rank++;
            }
        }
    }
    if (test->operand_count == 1) { /* a reduce: drop the right group from the output */
        tensor_shape output = {.rank = 0};
        for (int32_t i = 0; i < test->output.rank; i++) {
            if (has_label(&test->operands[0], test->output.labels[i])) {
                output.labels[output.rank++] = test->output.labels[i];
            }
        }
        test->output = output;
    }
    if (test->operand_count == 3) { /* right goes on to a third matrix */
        tensor_shape *third = &test->operands[2], output = {.rank = 0};
        int last = test->label_count++;
        /* Every value of every label is enumerated by the oracle and by a tree that starts with an outer product. */
        pairs = 1;
        for (int i = 0; i < last; i++) { /* two labels hold more than their group where they do not divide it */
            pairs *= (double)test->extents[i];
        }
        int64_t most = (int64_t)(TILE_LIMIT / pairs);
        test->extents[last] = between(random, 1, most < 1 ? 1 : most > 30 ? 30 : most);
        third->rank = 0;
        for (int i = 0; i < counts[2]; i++) {
            third->labels[third->rank++] = labels[2][i];
        }
        third->labels[third->rank++] = last;
        for (int32_t i = 0; i < test->output.rank; i++) {
            if (!has_label(third, test->output.labels[i])) {
                output.labels[output.rank++] = test->output.labels[i];
            }
        }
        output.labels[output.rank++] = last;
        test->output = output;
    }
}

/* Number labels in order of first occurrence in the inputs, then in the output; drop those that never occur. */
static void number_labels(test_case *test)
{
    int numbers[MAX_LABELS], count = 0;
    int64_t extents[MAX_LABELS];
    for (int i = 0; i < MAX_LABELS; i++) {
        numbers[i] = -1;
    }
    for (int t = 0; t <= test->operand_count; t++) {
        tensor_shape *shape = t < test->operand_count ? &test->operands[t] : &test->output;
        for (int32_t i = 0; i < shape->rank; i++) {
            int label = shape->labels[i];
            if (numbers[label] < 0) {
                extents[count] = test->extents[label];
                numbers[label] = count++;
            }
            shape->labels[i] = numbers[label];
        }
    }
    test->label_count = count;
    memcpy(test->extents, extents, (size_t)count * sizeof extents[0]);
}

/* Extents of modes: the label's, or 1 where the mode broadcasts. A label that no operand has in full shrinks to 1. */
static void draw_extents(generator *random, test_case *test)
{
    bool full[MAX_LABELS] = {false}, occurs[MAX_LABELS] = {false};
    bool broadcast = chance(random, 30);
    for (int t = 0; t < test->operand_count; t++) {
        tensor_shape *operand = &test->operands[t];
        for (int label = 0; label < test->label_count; label++) {
            bool one = broadcast && chance(random, 20);
            for (int32_t i = 0; i < operand->rank; i++) {
                if (operand->labels[i] == label) {
                    operand->extents[i] = one ? 1 : test->extents[label];
                    occurs[label] = true;
                    full[label] = full[label] || !one;
                }
            }
        }
    }
    for (int label = 0; label < test->label_count; label++) {
        if (occurs[label] && !full[label]) {
            test->extents[label] = 1;
        }
    }
    for (int32_t i = 0; i < test->output.rank; i++) {
        test->output.extents[i] = test->extents[test->output.labels[i]];
    }
}

static void draw_names(generator *random, test_case *test)
{
    int kind = (int)below(random, 3);
    for (int i = 0; i < test->label_count; i++) {
        bool fresh = false;
        while (!fresh) {
            test->names[i] = kind == 0 ? between(random, 'a', 'z') : kind == 1 ? between(random, -20, 20) : (int64_t)draw(random);
            fresh = true;
            for (int j = 0; j < i; j++) {
                fresh = fresh && test->names[j] != test->names[i];
            }
        }
    }
}

/* ---- layouts ---- */

/* Memory order, gaps, signs; `shared`: also zero strides, which only inputs may have. */
static void draw_layout(generator *random, tensor_shape *shape, bool shared)
{
    int32_t order[MAX_RANK];
    bool plain = chance(random, 40);
    int64_t stride = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        order[i] = i;
    }
    for (int32_t i = shape->rank - 1; i > 0 && !plain && chance(random, 70); i--) {
        int32_t j = (int32_t)below(random, i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    shape->size = shape_size(shape);
    shape->origin = plain ? 0 : below(random, 3);
    int64_t last = 0;
    for (int32_t k = shape->rank - 1; k >= 0; k--) {
        int32_t i = order[k];
        int64_t extent = shape->extents[i] > 1 ? shape->extents[i] : 1;
        if (!plain && chance(random, 10)) {
            stride = stride * 2 + below(random, 2);
        }
        shape->strides[i] = stride;
        stride *= extent;
        if (!plain && shared && chance(random, 6)) {
            stride /= extent;
            shape->strides[i] = 0;
        } else if (!plain && chance(random, 12)) {
            shape->origin += (extent - 1) * shape->strides[i];
            shape->strides[i] = -shape->strides[i];
        } else {
            last += (extent - 1) * shape->strides[i];
        }
    }
    shape->span = shape->origin + last + 1;
    shape->compact = plain && chance(random, 70);
}

static void copy_shape(const tensor_shape *from, tensor_shape *to)
{
    *to = *from;
}

/* ---- tree ---- */

static void draw_tree(generator *random, test_case *test)
{
    int64_t live[MAX_OPERANDS + MAX_STEPS];
    int count = test->operand_count, unary = 0;
    for (int i = 0; i < count; i++) {
        live[i] = i;
    }
    test->step_count = 0;
    test->offsets[0] = 0;
    while (count > 1 || (count == 1 && unary == 0 && chance(random, 10))) {
        int arity = count == 1 || (unary < 2 && chance(random, 5)) ? 1 : count > 2 && chance(random, 15) ? (int)between(random, 3, count) : 2;
        int64_t end = test->offsets[test->step_count];
        for (int k = 0; k < arity; k++) {
            int choice = (int)below(random, count);
            test->children[end++] = live[choice];
            live[choice] = live[--count];
        }
        unary += arity == 1;
        live[count++] = test->operand_count + test->step_count;
        test->offsets[++test->step_count] = end;
    }
}

static void draw_slices(generator *random, test_case *test)
{
    double total = 1;
    test->slice_count = 0;
    if (test->label_count == 0 || test->operand_count == 0 || !chance(random, 22)) {
        return;
    }
    int wanted = (int)between(random, 1, 2);
    int first = (int)below(random, test->label_count);
    for (int k = 0; k < test->label_count && test->slice_count < wanted; k++) {
        int label = (first + k) % test->label_count;
        double extent = (double)(test->extents[label] > 1 ? test->extents[label] : 1);
        if (total * extent <= SLICE_LIMIT) {
            total *= extent;
            test->slices[test->slice_count++] = test->names[label];
        }
    }
}

/* Whether the network is one reduce step, or one contract step with nothing summed out of one operand alone. */
static bool is_one_step(const test_case *test)
{
    if (test->slice_count != 0 || test->operand_count < 1 || test->operand_count > 2 ||
        test->step_count > test->operand_count - 1) {
        return false;
    }
    if (test->operand_count == 1) {
        return true;
    }
    for (int label = 0; label < test->label_count; label++) {
        int holders = 0;
        for (int t = 0; t < 2; t++) {
            for (int32_t i = 0; i < test->operands[t].rank; i++) {
                if (test->operands[t].labels[i] == label && test->operands[t].extents[i] == test->extents[label]) {
                    holders++;
                    break;
                }
            }
        }
        bool kept = has_label(&test->output, label);
        if (test->extents[label] != 1 && ((holders == 0 && kept) || (holders == 1 && !kept))) {
            return false;
        }
    }
    return true;
}

/* ---- values ---- */

static wide tropical_range(tensum_dtype dtype)
{
    return dtype == TENSUM_I16 ? 5460 : dtype == TENSUM_I32 ? 357913940 : (wide)INT64_C(1537228672809129300);
}

static double draw_real(generator *random, const test_case *test)
{
    bool positive = test->semiring == TENSUM_MAX_TIMES || test->semiring == TENSUM_MIN_TIMES;
    bool ring = test->semiring == TENSUM_SUM_PRODUCT;
    double zero = semiring_zero(test).re, integer = (double)(positive ? between(random, 0, 2) : between(random, -3, 3));
    static const double specials[] = {HUGE_VAL, -HUGE_VAL, (double)NAN, -0.0, 0.0, 1.0, 6e-8, 1e-40, 60000.0, 3e38, 1e300};
    switch (test->style) {
    case STYLE_TIES:
        return integer;
    case STYLE_REALS:
        return positive ? 2.0 * unit(random) : ring ? 8.0 * unit(random) - 4.0 : 16.0 * unit(random) - 8.0;
    case STYLE_ZEROS:
        return chance(random, 40) ? zero : chance(random, 15) ? -0.0 : integer;
    case STYLE_NAN:
        return chance(random, 3) ? (double)NAN : integer;
    default: {
        /* sums may overflow in one order and not in another: no huge values in a ring */
        int64_t count = ring || test->semiring == TENSUM_LOG_SUM_EXP ? 8 : test->dtype == TENSUM_F16 || test->dtype == TENSUM_BF16 ? 9 : test->dtype == TENSUM_F64 ? 11 : 10;
        double value = chance(random, 35) ? specials[below(random, count)] : integer;
        return positive && value < 0 ? -value : value;
    }
    }
}

static wide draw_integer(generator *random, const test_case *test)
{
    int bits = 8 * (int)tensum_dtype_bytes(test->dtype);
    uint64_t word = draw(random);
    wide full = (wide)(int64_t)word >> (64 - bits);
    wide range = tropical_range(test->dtype), zero = semiring_zero(test).integer;
    bool wild = test->style == STYLE_REALS || (test->style == STYLE_SPECIALS && chance(random, 50));
    switch (test->semiring) {
    case TENSUM_MAX_PLUS:
    case TENSUM_MIN_PLUS:
        if ((test->style == STYLE_ZEROS || test->style == STYLE_SPECIALS) && chance(random, 40)) {
            return zero;
        }
        return wild ? (chance(random, 20) ? (chance(random, 50) ? range : -range) : full % (range + 1)) : between(random, -3, 3);
    case TENSUM_MAX_TIMES:
        return wild ? (full < 0 ? -(full + 1) : full) >> below(random, bits) : between(random, 0, 3);
    case TENSUM_MAX_MIN:
    case TENSUM_MIN_MAX:
        return chance(random, test->style == STYLE_ZEROS ? 40 : 2) ? zero : wild ? full : between(random, -3, 3);
    default:
        return wild ? full : between(random, -3, 3);
    }
}

static number draw_value(generator *random, const test_case *test)
{
    number value = {0, 0, 0};
    if (test->dtype == TENSUM_BOOL) {
        value.integer = chance(random, test->style == STYLE_ZEROS ? 15 : test->style == STYLE_REALS ? 85 : 50);
    } else if (test->semiring == TENSUM_SUM_PRODUCT_MOD) {
        value.integer = test->style == STYLE_ZEROS && chance(random, 40) ? 0 : test->style == STYLE_TIES ? test->modulus - 1 - below(random, 2) : below(random, test->modulus);
    } else if (dtype_is_integer(test->dtype)) {
        value.integer = draw_integer(random, test);
    } else {
        value.re = draw_real(random, test);
        if (dtype_is_complex(test->dtype)) {
            value.im = draw_real(random, test);
        } else if (dtype_is_pair(test->dtype)) {
            value.im = isinf(value.re) && value.re < 0 ? 0.0 : (double)between(random, 1, 3);
        }
    }
    return value;
}

/* Poison the memory, then write values to the elements; elements that share memory keep the last one. */
static unsigned char *draw_memory(generator *random, const test_case *test, const tensor_shape *shape, tensum_dtype dtype, bool cotangent)
{
    size_t element = tensum_dtype_bytes(dtype);
    unsigned char *memory = malloc((size_t)shape->span * element);
    int64_t index[MAX_RANK] = {0};
    if (memory == NULL) {
        return NULL;
    }
    memset(memory, POISON, (size_t)shape->span * element);
    if (shape->size > 0) {
        do {
            number value = {0, 0, 0};
            if (cotangent) {
                value.re = test->style == STYLE_REALS ? 4.0 * unit(random) - 2.0 : (double)between(random, -3, 3);
                value.im = dtype_is_complex(dtype) ? (double)between(random, -3, 3) : 0.0;
            } else {
                value = draw_value(random, test);
            }
            store(dtype, value, memory + (size_t)shape_offset(shape, index) * element);
        } while (shape_next(shape, index));
    }
    return memory;
}

static void draw_modes(generator *random, test_case *test)
{
    unsigned supported = tensum_supports(test->semiring, test->dtype);
    test->modes = TENSUM_VALUE;
    test->one_step = is_one_step(test);
    if (test->one_step && (supported & TENSUM_WINNERS) != 0) {
        test->modes |= TENSUM_WINNERS;
    }
    if ((supported & TENSUM_GRADIENT) != 0 && chance(random, 70)) {
        test->modes |= TENSUM_GRADIENT;
    }
    if ((supported & TENSUM_DECODE) != 0 && test->output.size > 0 && chance(random, 60)) {
        test->modes |= TENSUM_DECODE;
        test->position_count = test->output.size < MAX_POSITIONS ? between(random, 1, test->output.size) : between(random, 1, MAX_POSITIONS);
        for (int64_t i = 0; i < test->position_count; i++) {
            test->positions[i] = below(random, test->output.size);
        }
    }
}

bool case_generate(uint64_t seed, const case_filter *filter, test_case *test)
{
    generator random = {seed * UINT64_C(0x2545f4914f6cdd1d) + 1};
    memset(test, 0, sizeof *test);
    test->seed = seed;
    if (!draw_pair(&random, filter, test)) {
        return false;
    }
    static const style styles[] = {STYLE_TIES, STYLE_TIES, STYLE_REALS, STYLE_REALS, STYLE_ZEROS, STYLE_NAN, STYLE_SPECIALS};
    test->style = styles[below(&random, 7)];
    if (chance(&random, 3)) {
        draw_tile_network(&random, test);
    } else {
        draw_small_network(&random, test);
    }
    number_labels(test);
    draw_extents(&random, test);
    draw_names(&random, test);
    draw_tree(&random, test);
    draw_slices(&random, test);
    test->assignments = 1;
    for (int i = 0; i < test->label_count; i++) {
        test->assignments *= (double)test->extents[i];
    }
    test->separate = chance(&random, 30);
    test->check = chance(&random, 70);
    test->caller_memory = chance(&random, 40);
    test->threaded = test->tile ? chance(&random, 60) : chance(&random, 10);
    test->in_two_ranges = test->slice_count > 0 && chance(&random, 60);
    test->winner_bytes = chance(&random, 50) ? 4 : 8;
    for (int t = 0; t < test->operand_count; t++) {
        draw_layout(&random, &test->operands[t], true);
        copy_shape(&test->operands[t], &test->gradients[t]);
        draw_layout(&random, &test->gradients[t], false);
        test->gradient_wanted[t] = !chance(&random, 10);
        test->memory[t] = draw_memory(&random, test, &test->operands[t], test->dtype, false);
        if (test->memory[t] == NULL) {
            case_free(test);
            return false;
        }
    }
    draw_layout(&random, &test->output, false);
    copy_shape(&test->output, &test->winners);
    draw_layout(&random, &test->winners, false);
    copy_shape(&test->output, &test->cotangent);
    draw_layout(&random, &test->cotangent, true);
    if (chance(&random, 70)) {
        test->cotangent_memory = draw_memory(&random, test, &test->cotangent, test->gradient_dtype, true);
        if (test->cotangent_memory == NULL) {
            case_free(test);
            return false;
        }
    }
    draw_modes(&random, test);
    return true;
}

void case_free(test_case *test)
{
    for (int t = 0; t < MAX_OPERANDS; t++) {
        free(test->memory[t]);
        test->memory[t] = NULL;
    }
    free(test->cotangent_memory);
    test->cotangent_memory = NULL;
}

/* ---- printing ---- */

static void print_shape(const test_case *test, const char *what, const tensor_shape *shape)
{
    printf("  %s:", what);
    for (int32_t i = 0; i < shape->rank; i++) {
        printf(" %c=%" PRId64 "(stride %" PRId64 ")", 'a' + shape->labels[i], shape->extents[i], shape->strides[i]);
    }
    printf("%s\n", shape->compact ? " compact" : "");
    (void)test;
}

static void print_values(const tensor_shape *shape, tensum_dtype dtype, const unsigned char *memory)
{
    int64_t index[MAX_RANK] = {0}, printed = 0;
    if (memory == NULL || shape->size == 0) {
        return;
    }
    printf("   ");
    do {
        number value = load(dtype, memory + (size_t)shape_offset(shape, index) * tensum_dtype_bytes(dtype));
        if (dtype_is_integer(dtype)) {
            printf(" %" PRId64, (int64_t)value.integer);
        } else if (dtype_is_real(dtype)) {
            printf(" %.9g", value.re);
        } else {
            printf(" (%.9g,%.9g)", value.re, value.im);
        }
    } while (shape_next(shape, index) && ++printed < 64);
    printf("%s\n", printed >= 64 ? " ..." : "");
}

void case_print(const test_case *test)
{
    static const char *const styles[STYLE_COUNT] = {"ties", "reals", "zeros", "nan", "specials"};
    printf("case %" PRIu64 ": %s %s, %s, modulus %" PRId64 ", %d operands, modes %u%s%s%s%s%s%s%s\n", test->seed,
           tensum_semiring_name(test->semiring), tensum_dtype_name(test->dtype), styles[test->style], test->modulus,
           test->operand_count, test->modes, test->tile ? ", tile" : "", test->one_step ? ", one step" : "",
           test->threaded ? ", threads" : "", test->separate ? ", program per mode" : "", test->check ? "" : ", unchecked",
           test->caller_memory ? ", caller's memory" : "", test->in_two_ranges ? ", two ranges" : "");
    for (int i = 0; i < test->label_count; i++) {
        printf("  label %c: name %" PRId64 ", extent %" PRId64 "\n", 'a' + i, test->names[i], test->extents[i]);
    }
    for (int t = 0; t < test->operand_count; t++) {
        char name[32];
        snprintf(name, sizeof name, "operand %d", t);
        print_shape(test, name, &test->operands[t]);
        print_values(&test->operands[t], test->dtype, test->memory[t]);
    }
    print_shape(test, "output", &test->output);
    if ((test->modes & TENSUM_GRADIENT) != 0) {
        print_shape(test, test->cotangent_memory != NULL ? "cotangent" : "default cotangent", &test->cotangent);
        print_values(&test->cotangent, test->gradient_dtype, test->cotangent_memory);
    }
    printf("  tree:");
    for (int s = 0; s < test->step_count; s++) {
        printf(" %d<-", test->operand_count + s);
        for (int64_t k = test->offsets[s]; k < test->offsets[s + 1]; k++) {
            printf("%s%" PRId64, k > test->offsets[s] ? "," : "", test->children[k]);
        }
    }
    printf("\n");
    for (int i = 0; i < test->slice_count; i++) {
        printf("  sliced: name %" PRId64 "\n", test->slices[i]);
    }
}
