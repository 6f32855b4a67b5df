/* Large products through packed panels (TENSUM_CUDA_PACKED=always, so that they need not be large here), or small ones by teams
 * of warps (TENSUM_CUDA_PACKED=teams in the environment) or as many of them are (batched): all pairs that have them, sizes around the
 * edges of tiles, panels and chunks, any strides, and operands on which the fast way has to give results up to the careful one. On
 * the simulated device and on the oracle. */
#include <math.h>

#include "machine.h"

enum { MOST_MODES = 8 };
static bool teams; /* or batched: kernels for elements of 4 bytes, four of them side by side */

static uint64_t state;
static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

/* What elements are like. */
typedef enum filling {
    PLAIN,   /* small integers: every pair is exact */
    SPREAD,  /* floats of a wide range: maxima of rows and columns meet nowhere */
    ODD,     /* the same with infinities and NaN */
    EMPTY,   /* rows that are zero of log_sum_exp and max_plus throughout */
    ABOVE,   /* nothing below +0 but zero of max_plus, and NaN; for min_plus the negative of it */
    BELOW,   /* the same with nothing above -0 */
    FILLING_COUNT
} filling;

static double number(filling how, uint32_t row)
{
    const double small = (double)draw(9) - 4.0, wide = ((double)draw(1u << 20) / (1 << 19) - 1.0) * (draw(3) == 0 ? 300.0 : 3.0);
    switch (how) {
    case PLAIN: return small;
    case SPREAD: return wide;
    case ODD: {
        const uint32_t kind = draw(row % 3 == 0 ? 40 : 4000);
        return kind == 0 ? (double)INFINITY : kind == 1 ? (double)NAN : kind < 6 || row % 5 == 0 ? -(double)INFINITY : wide;
    }
    case EMPTY: return row % 4 == 0 || draw(3) == 0 ? -(double)INFINITY : wide;
    default: {
        const uint32_t kind = draw(row % 5 == 0 ? 60 : 600);
        const double x = kind < 10 ? 0.0 : kind == 10 && row % 5 == 0 ? (double)INFINITY : fabs(wide);
        return kind == 11 && row % 15 == 0 ? (double)NAN : kind < 30 && kind > 11 ? -(double)INFINITY : how == ABOVE ? x : -x;
    }
    }
}

static void put_element(void *to, tensum_dtype dtype, double x, bool positive)
{
    const uint16_t halves[] = {0xc400, 0xc200, 0xc000, 0xbc00, 0, 0x3c00, 0x4000, 0x4200, 0x4400};
    const double d = positive && x < 0 ? -x : x;
    const float f = (float)d, c[2] = {f, (float)draw(5)};
    const int32_t w = (int32_t)(d > -5 && d < 5 ? d : 0);
    const int16_t narrow = (int16_t)w;
    const uint8_t b = d > 3;
    uint16_t h = halves[w + 4];
    uint32_t bits;
    switch (dtype) {
    case TENSUM_F64: memcpy(to, &d, 8); break;
    case TENSUM_C64: memcpy(to, c, 8); break;
    case TENSUM_I32: memcpy(to, &w, 4); break;
    case TENSUM_I16: memcpy(to, &narrow, 2); break;
    case TENSUM_F16:
        h = isnan(f) ? 0x7e00 : isinf(f) ? (f > 0 ? 0x7c00 : 0xfc00) : h;
        memcpy(to, &h, 2);
        break;
    case TENSUM_BF16:
        memcpy(&bits, &f, 4);
        h = isnan(f) ? 0x7fc0 : (uint16_t)(bits >> 16);
        memcpy(to, &h, 2);
        break;
    case TENSUM_BOOL: memcpy(to, &b, 1); break;
    default: memcpy(to, &f, 4); break;
    }
}
static double get_element(const void *from, tensum_dtype dtype)
{
    float f;
    double d;
    uint16_t h;
    uint32_t bits;
    switch (dtype) {
    case TENSUM_F64: memcpy(&d, from, 8); return d;
    case TENSUM_F16: {
        memcpy(&h, from, 2);
        const int exponent = h >> 10 & 31, fraction = h & 1023;
        d = exponent == 31 ? (fraction != 0 ? (double)NAN : (double)INFINITY) : exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
        return (h & 0x8000) != 0 ? -d : d;
    }
    case TENSUM_BF16:
        memcpy(&h, from, 2);
        bits = (uint32_t)h << 16;
        memcpy(&f, &bits, 4);
        return f;
    default: memcpy(&f, from, 4); return f;
    }
}

/* An operand or result: modes in the order of its labels, memory in another, perhaps backwards. */
typedef struct array {
    int32_t rank;
    int64_t labels[MOST_MODES], extents[MOST_MODES], strides[MOST_MODES];
    int64_t elements, origin;
    unsigned char *data;
    tensum_tensor tensor;
} array;
static void lay_out(array *x, tensum_dtype dtype, bool ordered)
{
    int32_t order[MOST_MODES];
    int64_t step = 1;
    for (int32_t i = 0; i < x->rank; i++) {
        order[i] = i;
    }
    for (int32_t i = x->rank - 1; i > 0 && !ordered; i--) {
        const int32_t j = (int32_t)draw((uint32_t)i + 1), other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
    x->origin = 0;
    for (int32_t i = x->rank - 1; i >= 0; i--) {
        const int32_t mode = order[i];
        const bool backwards = !ordered && draw(8) == 0;
        x->strides[mode] = backwards ? -step : step;
        x->origin += backwards ? (x->extents[mode] - 1) * step : 0;
        step *= x->extents[mode];
    }
    x->elements = step;
    x->data = calloc((size_t)step, tensum_dtype_bytes(dtype));
    x->tensor = (tensum_tensor){x->data + (size_t)x->origin * tensum_dtype_bytes(dtype), dtype, x->rank, x->extents, x->strides, {TENSUM_CPU, 0}};
}

typedef struct product {
    array a, b, c;
    int64_t sum;
    tensum_plan *plan;
} product;
static void add_class(array *x, array *y, int64_t *next, int64_t extent, bool several)
{
    const int64_t inner = several && extent % 5 == 0 ? 5 : several && extent % 2 == 0 ? 2 : 1;
    for (int part = 0; part < 2; part++) {
        const int64_t size = part == 0 ? extent / inner : inner;
        if (part == 1 && inner == 1) {
            break;
        }
        for (int side = 0; side < 2; side++) {
            array *to = side == 0 ? x : y;
            if (to != NULL) {
                to->labels[to->rank] = *next;
                to->extents[to->rank++] = size;
            }
        }
        ++*next;
    }
}
static void make(product *p, tensum_semiring semiring, tensum_dtype dtype, filling how)
{
    static const int64_t sizes[] = {1, 3, 31, 64, 65, 127, 128, 129, 150}, sums[] = {1, 2, 15, 16, 17, 63, 64, 65, 130, 300, 513};
    static const int64_t fours[] = {1, 4, 31, 32, 36, 64, 68, 128, 132}, four_sums[] = {1, 4, 12, 16, 17, 60, 64, 68, 132, 300, 516};
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_network *made = NULL;
    tensum_tree *tree = NULL;
    const int64_t offsets[] = {0, 2}, children[] = {0, 1};
    const bool several = draw(2) != 0 && !teams, ordered = draw(3) == 0, positive = semiring == TENSUM_MAX_TIMES || semiring == TENSUM_MIN_TIMES;
    const int64_t left = (teams ? fours : sizes)[draw(9)], right = (teams ? fours : sizes)[draw(9)], batch = draw(3) == 0 ? 1 + draw(3) : 1;
    int64_t next = 0;

    memset(p, 0, sizeof *p);
    p->sum = (teams ? four_sums : sums)[draw(left * right * batch > 10000 ? 8 : 11)];
    if (batch > 1) {
        p->a.labels[p->a.rank] = p->b.labels[p->b.rank] = p->c.labels[p->c.rank] = next++;
        p->a.extents[p->a.rank++] = p->b.extents[p->b.rank++] = p->c.extents[p->c.rank++] = batch;
    }
    add_class(&p->a, &p->c, &next, left, several);
    add_class(&p->a, &p->b, &next, p->sum, several);
    add_class(&p->b, &p->c, &next, right, several);
    lay_out(&p->a, dtype, ordered);
    lay_out(&p->b, dtype, ordered);
    lay_out(&p->c, dtype, ordered);
    for (int side = 0; side < 2; side++) {
        array *x = side == 0 ? &p->a : &p->b;
        for (int64_t i = 0; i < x->elements; i++) {
            const double y = number(how, (uint32_t)(i * 7 / 50));
            put_element(x->data + (size_t)i * tensum_dtype_bytes(dtype), dtype, semiring == TENSUM_MIN_PLUS && how >= ABOVE ? -y : y, positive);
        }
    }
    const int64_t *labels[] = {p->a.labels, p->b.labels}, *extents[] = {p->a.extents, p->b.extents};
    const int32_t ranks[] = {p->a.rank, p->b.rank};
    spec.operand_count = 2;
    spec.ranks = ranks;
    spec.labels = labels;
    spec.extents = extents;
    spec.output_rank = p->c.rank;
    spec.output_labels = p->c.labels;
    options.semiring = semiring;
    options.dtype = dtype;
    succeeds(tensum_network_create(&spec, &made));
    succeeds(tensum_tree_from_ssa(2, 1, offsets, children, &tree));
    succeeds(tensum_plan_create(made, tree, &options, &p->plan));
    tensum_tree_release(tree);
    tensum_network_release(made);
}
static void destroy(product *p)
{
    tensum_plan_release(p->plan);
    free(p->a.data);
    free(p->b.data);
    free(p->c.data);
}
/* An array in memory of the device, where kernels see its strides, `shift` elements from an aligned address. */
static uint64_t to_device(const array *x, tensum_dtype dtype, uint32_t shift, tensum_tensor *tensor)
{
    const size_t bytes = tensum_dtype_bytes(dtype);
    const uint64_t block = device_allocate(0, ((size_t)x->elements + shift) * bytes), first = block + shift * bytes;
    device_write(first, x->data, (size_t)x->elements * bytes);
    *tensor = x->tensor;
    tensor->data = (void *)(uintptr_t)(first + (uint64_t)x->origin * bytes);
    tensor->device = cuda0;
    return block;
}
/* Into c, whose elements are all `start`; returns launches. On a device, `shift` elements away from aligned addresses, in a
 * workspace of just the bytes asked for; modes: of the program, whose runs find values alone. */
static uint64_t run(product *p, tensum_device device, tensum_dtype dtype, unsigned modes, bool accumulate, const void *start, uint32_t shift)
{
    enum { BEHIND = 4096 };
    const size_t bytes = tensum_dtype_bytes(dtype);
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_workspace_options workspace_options = TENSUM_WORKSPACE_OPTIONS_INIT;
    tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    tensum_device_counters seen;
    tensum_tensor inputs[] = {p->a.tensor, p->b.tensor}, output = p->c.tensor;
    array *const arrays[] = {&p->a, &p->b, &p->c};
    tensum_tensor *const tensors[] = {&inputs[0], &inputs[1], &output};
    uint64_t blocks[3] = {0}, memory = 0;
    unsigned char behind[BEHIND];

    for (int64_t i = 0; i < p->c.elements; i++) {
        memcpy(p->c.data + (size_t)i * bytes, start, bytes);
    }
    options.device = device;
    options.check = 0;
    options.modes = modes;
    succeeds(tensum_program_create(p->plan, NULL, &options, &program));
    const size_t needed = tensum_program_workspace_bytes(program);
    if (device.kind == TENSUM_CUDA) {
        for (int i = 0; i < 3; i++) {
            blocks[i] = to_device(arrays[i], dtype, shift, tensors[i]);
        }
        memory = device_allocate(0, needed + BEHIND);
        memset(behind, 0xa5, BEHIND);
        device_write(memory + needed, behind, BEHIND);
        workspace_options.memory = (void *)(uintptr_t)memory;
    }
    succeeds(tensum_workspace_create(program, &workspace_options, &workspace));
    arguments.inputs = inputs;
    arguments.output = &output;
    arguments.accumulate = accumulate;
    reset_counts();
    succeeds(tensum_run(program, workspace, &arguments));
    read_counts(&seen);
    if (device.kind == TENSUM_CUDA) {
        succeeds(tensum_synchronize(device, NULL));
        device_read(p->c.data, blocks[2] + shift * bytes, (size_t)p->c.elements * bytes);
        device_read(behind, memory + needed, BEHIND);
        for (int i = 0; i < BEHIND; i++) {
            assert_int_equal(behind[i], 0xa5);
        }
    }
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    for (int i = 0; i < 3 && device.kind == TENSUM_CUDA; i++) {
        device_release(0, blocks[i]);
    }
    if (memory != 0) {
        device_release(0, memory);
    }
    return seen.launches;
}

/* Twice the bound of docs/semantics.md, for both differ from the true value; the largest term is at most the sum of the
 * largest elements. */
static double allowed(const product *p, tensum_dtype dtype, double value)
{
    double largest[2] = {0, 0};
    const double u = dtype == TENSUM_F64 ? ldexp(1, -53) : ldexp(1, -24);
    const double last = dtype == TENSUM_F16 ? ldexp(1, -11) : dtype == TENSUM_BF16 ? ldexp(1, -8) : 0;
    for (int side = 0; side < 2; side++) {
        const array *x = side == 0 ? &p->a : &p->b;
        for (int64_t i = 0; i < x->elements; i++) {
            const double y = fabs(get_element(x->data + (size_t)i * tensum_dtype_bytes(dtype), dtype));
            largest[side] = isfinite(y) && y > largest[side] ? y : largest[side];
        }
    }
    return 2 * (((double)p->sum + 8) * u + 2 * u * (largest[0] + largest[1]) + last * fabs(value));
}

static void products_of_every_kind(void **unused)
{
    static const struct {
        tensum_semiring semiring;
        tensum_dtype dtype;
        uint64_t launches; /* at least */
    } pairs[] = {{TENSUM_LOG_SUM_EXP, TENSUM_F32, 4}, {TENSUM_SUM_PRODUCT, TENSUM_F32, 2}, {TENSUM_MAX_PLUS, TENSUM_F64, 3},
                 {TENSUM_LOG_SUM_EXP, TENSUM_F64, 4}, {TENSUM_SUM_PRODUCT, TENSUM_C64, 2}, {TENSUM_MIN_PLUS, TENSUM_F64, 3},
                 {TENSUM_OR_AND, TENSUM_BOOL, 2},     {TENSUM_SUM_PRODUCT, TENSUM_F64, 2}, {TENSUM_MAX_TIMES, TENSUM_F64, 3},
                 {TENSUM_XOR_AND, TENSUM_BOOL, 2},    {TENSUM_SUM_PRODUCT, TENSUM_I32, 2}, {TENSUM_MIN_TIMES, TENSUM_F64, 3},
                 {TENSUM_LOG_SUM_EXP, TENSUM_F16, 4}, {TENSUM_LOG_SUM_EXP, TENSUM_BF16, 4}, {TENSUM_MAX_MIN, TENSUM_F64, 3},
                 {TENSUM_MIN_MAX, TENSUM_F64, 3},     {TENSUM_SUM_PRODUCT, TENSUM_F16, 2}, {TENSUM_SUM_PRODUCT, TENSUM_BF16, 2},
                 {TENSUM_MAX_PLUS, TENSUM_F32, 2},    {TENSUM_MIN_PLUS, TENSUM_F32, 2},    {TENSUM_MAX_PLUS, TENSUM_F16, 2},
                 {TENSUM_MAX_PLUS, TENSUM_BF16, 2},   {TENSUM_MIN_PLUS, TENSUM_F16, 2},    {TENSUM_MAX_PLUS, TENSUM_I16, 2},
                 {TENSUM_MAX_PLUS, TENSUM_I32, 2},    {TENSUM_MIN_PLUS, TENSUM_I16, 2},    {TENSUM_MAX_MIN, TENSUM_F32, 2},
                 {TENSUM_MIN_MAX, TENSUM_I16, 2},     {TENSUM_MAX_TIMES, TENSUM_F32, 2},   {TENSUM_MIN_TIMES, TENSUM_F32, 2},
                 {TENSUM_MAX_TIMES, TENSUM_I32, 2},   {TENSUM_MAX_MIN, TENSUM_F16, 2}};
    enum { PAIRS = sizeof pairs / sizeof pairs[0] };
    const char *given = getenv("PACKED_SEED");
    const uint64_t first = given != NULL ? strtoull(given, NULL, 10) : 0, past = given != NULL ? first + 1 : 12 * PAIRS;

    uint64_t fast = 0;

    (void)unused;
    for (uint64_t seed = first; seed < past; seed++) {
        const tensum_semiring semiring = pairs[seed % PAIRS].semiring;
        const tensum_dtype dtype = pairs[seed % PAIRS].dtype;
        const size_t bytes = tensum_dtype_bytes(dtype);
        const bool logarithms = semiring == TENSUM_LOG_SUM_EXP, selective = tensum_semiring_selective(semiring) != 0;
        const bool whole = dtype == TENSUM_BOOL || dtype == TENSUM_I16 || dtype == TENSUM_I32;
        if (teams && (bytes != 4 || logarithms)) {
            continue;
        }
        const filling how = logarithms || (selective && !whole) ? (filling)(seed / PAIRS % FILLING_COUNT) : PLAIN;
        product p;
        state = seed * 77777u + 1;
        make(&p, semiring, dtype, how);
        const bool accumulate = draw(3) == 0;
        unsigned char start[16] = {0};
        put_element(start, dtype, accumulate ? 2 : 7, false);
        const uint32_t shift = teams && draw(4) != 0 ? 0 : draw(3);
        const unsigned modes = TENSUM_VALUE | (selective && draw(4) == 0 ? TENSUM_WINNERS : 0u);
        const uint64_t launches = run(&p, cuda0, dtype, modes, accumulate, start, shift);
        fast += real_gpu ? 1 : simcuda_ran(!teams ? "_packed" : strcmp(getenv("TENSUM_CUDA_PACKED"), "teams") == 0 ? "_team" : "_batched");
        if (machine_fault() != NULL) {
            fail_msg("seed %llu: simulator: %s", (unsigned long long)seed, machine_fault());
        }
        if (!teams && p.a.elements > 4096 && p.b.elements > 4096) {
            assert_true(launches >= pairs[seed % PAIRS].launches);
        }
        unsigned char *found = malloc((size_t)p.c.elements * bytes);
        memcpy(found, p.c.data, (size_t)p.c.elements * bytes);
        run(&p, (tensum_device){TENSUM_REFERENCE, 0}, dtype, TENSUM_VALUE, accumulate, start, 0);
        for (int64_t i = 0; i < p.c.elements; i++) {
            const void *x = found + (size_t)i * bytes, *y = p.c.data + (size_t)i * bytes;
            bool same = memcmp(x, y, bytes) == 0;
            if (!same && !whole && dtype != TENSUM_C64) {
                const double value = get_element(x, dtype), wanted = get_element(y, dtype);
                same = (isnan(value) && isnan(wanted)) || (logarithms && fabs(value - wanted) <= allowed(&p, dtype, wanted));
                if (!same) {
                    fail_msg("%s over %s, seed %llu: element %lld is %.17g, not %.17g", tensum_semiring_name(semiring), tensum_dtype_name(dtype),
                             (unsigned long long)seed, (long long)i, value, wanted);
                }
            }
            if (!same) {
                fail_msg("%s over %s, seed %llu: element %lld differs", tensum_semiring_name(semiring), tensum_dtype_name(dtype),
                         (unsigned long long)seed, (long long)i);
            }
        }
        free(found);
        destroy(&p);
    }
    assert_true(given != NULL || fast >= (teams ? 20 : 10 * PAIRS)); /* they are what ran, but for products of few elements */
}

/* Panels are copies of the operands: a program that a limit has no room for them in does without, for values and for winners. */
static void panels_give_way_to_a_memory_limit(void **unused)
{
    enum { SIZE = 130 };
    static const int64_t square[] = {SIZE, SIZE}, offsets[] = {0, 2}, children[] = {0, 1};
    const int64_t *extents[] = {square, square};
    const int32_t ranks[] = {2, 2};

    (void)unused;
    if (strcmp(getenv("TENSUM_CUDA_PACKED"), "always") != 0) {
        skip();
    }
    float *values = malloc(3 * SIZE * SIZE * sizeof *values), *const found = values + 2 * SIZE * SIZE;
    int32_t *places = malloc(SIZE * SIZE * sizeof *places);
    const tensum_tensor inputs[] = {{values, TENSUM_F32, 2, square, NULL, cpu}, {values + SIZE * SIZE, TENSUM_F32, 2, square, NULL, cpu}};
    const tensum_tensor output = {found, TENSUM_F32, 2, square, NULL, cpu}, winners = {places, TENSUM_I32, 2, square, NULL, cpu};
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;

    assert_true(values != NULL && places != NULL);
    state = 5;
    for (int i = 0; i < 2 * SIZE * SIZE; i++) {
        values[i] = (float)draw(1000);
    }
    succeeds(tensum_network_parse("ij,jk->ik", 2, ranks, extents, 0, NULL, NULL, &network));
    succeeds(tensum_tree_from_ssa(2, 1, offsets, children, &tree));
    for (int with_winners = 0; with_winners < 2; with_winners++) {
        uint64_t without = 0, last = 0; /* limits: the largest that left no room for panels, the least that did */
        for (uint64_t limit = (uint64_t)1 << 26; limit > 1024 && without == 0; limit -= limit / 8) {
            tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
            tensum_program_options program_options = TENSUM_PROGRAM_OPTIONS_INIT;
            tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
            tensum_plan *plan = NULL;
            tensum_program *program = NULL;
            tensum_workspace *workspace = NULL;
            options.semiring = TENSUM_MAX_PLUS;
            options.memory_limit = limit;
            program_options.device = cuda0;
            program_options.modes = TENSUM_VALUE | (with_winners ? TENSUM_WINNERS : 0u);
            succeeds(tensum_plan_create(network, tree, &options, &plan));
            succeeds(tensum_program_create(plan, NULL, &program_options, &program));
            const size_t needed = tensum_program_workspace_bytes(program);
            if (needed < 2 * SIZE * SIZE * sizeof(float)) { /* less than panels take: run it */
                without = limit;
                succeeds(tensum_workspace_create(program, NULL, &workspace));
                run.inputs = inputs;
                run.output = &output;
                run.winners = with_winners ? &winners : NULL;
                reset_counts();
                succeeds(tensum_run(program, workspace, &run));
                assert_true(real_gpu || simcuda_ran("_pack") == 0);
                tensum_workspace_release(workspace);
            } else {
                last = limit;
            }
            tensum_program_release(program);
            tensum_plan_release(plan);
        }
        assert_true(without > 0 && last > without);
        for (int i = 0; i < SIZE; i++) {
            for (int k = 0; k < SIZE; k++) {
                float best = -INFINITY;
                int winner = 0;
                for (int j = 0; j < SIZE; j++) {
                    const float x = values[i * SIZE + j] + values[SIZE * SIZE + j * SIZE + k];
                    winner = x > best ? j : winner;
                    best = x > best ? x : best;
                }
                assert_true(found[i * SIZE + k] == best && (!with_winners || places[i * SIZE + k] == winner));
            }
        }
    }
    no_fault();
    tensum_tree_release(tree);
    tensum_network_release(network);
    free(values);
    free(places);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_of_every_kind), cmocka_unit_test(panels_give_way_to_a_memory_limit)};
    setenv("TENSUM_CUDA_PACKED", "always", 0);
    teams = strcmp(getenv("TENSUM_CUDA_PACKED"), "always") != 0;
    const int unable = machine_open();
    return unable != 0 ? unable : cmocka_run_group_tests(tests, NULL, NULL);
}
