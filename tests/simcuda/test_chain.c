/* A large tensor against small ones, one after the other: the CUDA backend runs several such steps in one pass. Networks
 * of every kind of such a chain, on the simulated device and on the oracle. */
#include <math.h>

#include "machine.h"

enum { MOST_STEPS = 10, MOST_RANK = 40 };

static uint64_t state;
static int64_t start_size = 2500, least_size = 2048; /* elements of the large operand, and of what becomes of it */
static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

typedef struct network {
    int64_t count; /* operands: the large one, then the small ones in the order of the steps */
    int32_t ranks[MOST_STEPS + 1], output_rank;
    int64_t labels[MOST_STEPS + 1][MOST_RANK], extents[MOST_STEPS + 1][MOST_RANK];
    int64_t output[MOST_RANK], output_extents[MOST_RANK];
    void *data[MOST_STEPS + 1];
    tensum_tensor inputs[MOST_STEPS + 1];
    int64_t output_elements;
    tensum_plan *plan;
} network;

static void shuffle(int64_t *labels, int32_t count)
{
    for (int32_t i = count - 1; i > 0; i--) {
        int32_t j = (int32_t)draw((uint32_t)i + 1);
        int64_t x = labels[i];
        labels[i] = labels[j];
        labels[j] = x;
    }
}

/* One element: small integers, so that sums of any dtype are exact, and zeros of the semiring. */
static void put_element(void *to, tensum_dtype dtype)
{
    int32_t x = (int32_t)draw(7) - 2;
    float f = (float)x;
    double d = x;
    int16_t h = (int16_t)x;
    uint16_t half[] = {0xc000, 0xbc00, 0x0000, 0x3c00, 0x4000, 0x4200, 0x4400};
    uint8_t b = x > 2;
    float c[2] = {f, (float)draw(3)};
    double z[2] = {c[0], c[1]};
    switch (dtype) {
    case TENSUM_F32: memcpy(to, &f, 4); break;
    case TENSUM_F64: memcpy(to, &d, 8); break;
    case TENSUM_I16: memcpy(to, &h, 2); break;
    case TENSUM_I32: memcpy(to, &x, 4); break;
    case TENSUM_F16: memcpy(to, &half[x + 2], 2); break;
    case TENSUM_C64: memcpy(to, c, 8); break;
    case TENSUM_C128: memcpy(to, z, 16); break;
    default: memcpy(to, &b, 1); break;
    }
}

/* scalar: a last operand has all labels that are left, and the output none. */
static void make(network *n, tensum_semiring semiring, tensum_dtype dtype, uint64_t memory_limit, bool scalar)
{
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_network *made = NULL;
    tensum_tree *tree = NULL;
    const int64_t *label_lists[MOST_STEPS + 1], *extent_lists[MOST_STEPS + 1];
    int64_t offsets[MOST_STEPS + 1], children[2 * MOST_STEPS], extent_of[256], live[MOST_RANK], next = 0, size = 1;
    int32_t live_count = 0;
    const int64_t steps = 1 + draw(MOST_STEPS - 2) + scalar;
    const uint32_t kind = draw(4);

    memset(n, 0, sizeof *n);
    n->count = steps + 1;
    while (size < start_size) {
        extent_of[next] = kind == 0 ? 2 : kind == 1 && live_count == 0 ? 2 + draw(120) : 2 + draw(4);
        size *= extent_of[next];
        live[live_count++] = next++;
    }
    shuffle(live, live_count);
    n->ranks[0] = live_count;
    memcpy(n->labels[0], live, (size_t)live_count * sizeof *live);
    for (int64_t s = 1; s <= steps; s++) {
        int32_t rank = 0;
        shuffle(live, live_count);
        if (scalar && s == steps) {
            memcpy(n->labels[s], live, (size_t)live_count * sizeof *live);
            rank = live_count;
            live_count = 0;
        }
        /* Some labels are summed, some stay, some are new; at most a few each. */
        for (uint32_t k = draw(4); k > 0 && live_count > 3 && extent_of[live[live_count - 1]] <= 5; k--) {
            n->labels[s][rank++] = live[--live_count];
            size /= extent_of[live[live_count]];
        }
        for (uint32_t k = 0; k < draw(3) && (int32_t)k < live_count && extent_of[live[k]] <= 5; k++) {
            n->labels[s][rank++] = live[k];
        }
        for (uint32_t k = draw(4); (k > 0 || rank == 0 || size < least_size) && size < 20000 && live_count > 0; k--) {
            extent_of[next] = 2 + draw(kind == 0 ? 1 : 3);
            size *= extent_of[next];
            live[live_count++] = next;
            n->labels[s][rank++] = next++;
            k = k == 0 ? 1 : k;
        }
        if (rank == 0) {
            n->labels[s][rank++] = live[0];
        }
        shuffle(n->labels[s], rank);
        n->ranks[s] = rank;
        offsets[s - 1] = 2 * (s - 1);
        children[2 * (s - 1)] = s == 1 ? 0 : steps + s - 1;
        children[2 * (s - 1) + 1] = s;
        if (draw(2) != 0) {
            int64_t x = children[2 * (s - 1)];
            children[2 * (s - 1)] = children[2 * (s - 1) + 1];
            children[2 * (s - 1) + 1] = x;
        }
    }
    offsets[steps] = 2 * steps;
    if (draw(3) != 0) {
        shuffle(live, live_count);
    }
    n->output_rank = live_count;
    n->output_elements = 1;
    for (int32_t i = 0; i < live_count; i++) {
        n->output[i] = live[i];
        n->output_extents[i] = extent_of[live[i]];
        n->output_elements *= extent_of[live[i]];
    }
    for (int64_t o = 0; o <= steps; o++) {
        int64_t elements = 1;
        for (int32_t i = 0; i < n->ranks[o]; i++) {
            n->extents[o][i] = extent_of[n->labels[o][i]];
            elements *= n->extents[o][i];
        }
        n->data[o] = malloc((size_t)elements * 16);
        for (int64_t i = 0; i < elements; i++) {
            put_element((char *)n->data[o] + (size_t)i * tensum_dtype_bytes(dtype), dtype);
        }
        n->inputs[o] = (tensum_tensor){n->data[o], dtype, n->ranks[o], n->extents[o], NULL, {TENSUM_CPU, 0}};
        label_lists[o] = n->labels[o];
        extent_lists[o] = n->extents[o];
    }
    spec.operand_count = n->count;
    spec.ranks = n->ranks;
    spec.labels = label_lists;
    spec.extents = extent_lists;
    spec.output_rank = n->output_rank;
    spec.output_labels = n->output;
    succeeds(tensum_network_create(&spec, &made));
    succeeds(tensum_tree_from_ssa(n->count, steps, offsets, children, &tree));
    options.semiring = semiring;
    options.dtype = dtype;
    options.memory_limit = memory_limit;
    succeeds(tensum_plan_create(made, tree, &options, &n->plan));
    tensum_tree_release(tree);
    tensum_network_release(made);
}

static void destroy(network *n)
{
    tensum_plan_release(n->plan);
    for (int64_t o = 0; o < n->count; o++) {
        free(n->data[o]);
    }
}

/* The value, into memory that starts as `fill`; twice, as graphs are made for what repeats. Returns launches of a run. */
static uint64_t run(const network *n, unsigned modes, tensum_device device, tensum_dtype dtype, int accumulate, void *result)
{
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    tensum_device_counters seen;
    tensum_tensor output = {result, dtype, n->output_rank, n->output_extents, NULL, {TENSUM_CPU, 0}};

    options.modes = modes;
    options.device = device;
    options.check = 0;
    succeeds(tensum_program_create(n->plan, NULL, &options, &program));
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    arguments.inputs = n->inputs;
    arguments.output = &output;
    arguments.accumulate = accumulate;
    reset_counts();
    succeeds(tensum_run(program, workspace, &arguments));
    read_counts(&seen);
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    return seen.launches;
}

static void compare(const network *n, tensum_dtype dtype, unsigned modes, int accumulate, uint64_t seed)
{
    const size_t bytes = (size_t)n->output_elements * tensum_dtype_bytes(dtype);
    unsigned char *expected = calloc(bytes, 1), *result = calloc(bytes, 1);

    run(n, TENSUM_VALUE, (tensum_device){TENSUM_REFERENCE, 0}, dtype, accumulate, expected);
    memset(result, accumulate ? 0 : 0xa5, bytes);
    run(n, modes, (tensum_device){TENSUM_CUDA, 0}, dtype, accumulate, result);
    const char *fault = machine_fault();
    if (fault != NULL) {
        fail_msg("simulator: %s (seed %llu)", fault, (unsigned long long)seed);
    }
    if (memcmp(expected, result, bytes) != 0) {
        size_t at = 0;
        while (expected[at] == result[at]) {
            at++;
        }
        fail_msg("%s, seed %llu: element %zu of %lld differs", tensum_dtype_name(dtype), (unsigned long long)seed,
                 at / tensum_dtype_bytes(dtype), (long long)n->output_elements);
    }
    free(expected);
    free(result);
}

static void chains_of_every_kind(void **unused)
{
    static const struct {
        tensum_semiring semiring;
        tensum_dtype dtype;
    } pairs[] = {{TENSUM_MAX_PLUS, TENSUM_F32}, {TENSUM_SUM_PRODUCT, TENSUM_F32}, {TENSUM_MAX_PLUS, TENSUM_I16},
                 {TENSUM_OR_AND, TENSUM_BOOL},  {TENSUM_MAX_PLUS, TENSUM_F64},    {TENSUM_MIN_PLUS, TENSUM_I32},
                 {TENSUM_MAX_PLUS, TENSUM_F16}, {TENSUM_SUM_PRODUCT, TENSUM_C64}};
    const char *given = getenv("CHAIN_SEED");
    const uint64_t first = given != NULL ? strtoull(given, NULL, 10) : 1, past = given != NULL ? first + 1 : 97;

    (void)unused;
    for (uint64_t seed = first; seed < past; seed++) {
        const size_t which = seed % (sizeof pairs / sizeof pairs[0]);
        network n;
        state = seed * 77777u;
        make(&n, pairs[which].semiring, pairs[which].dtype, 0, false);
        compare(&n, pairs[which].dtype, TENSUM_VALUE, 0, seed);
        if (seed % 3 == 0) {
            compare(&n, pairs[which].dtype, TENSUM_VALUE, 1, seed);
        }
        if (seed % 4 == 0 && pairs[which].semiring == TENSUM_MAX_PLUS) {
            compare(&n, pairs[which].dtype, TENSUM_VALUE | TENSUM_DECODE, 0, seed);
        }
        destroy(&n);
    }
}

/* Gradients of the operands that `wanted` has a bit of, for a given cotangent; `turned`: with the first label contiguous. */
static void run_gradients(const network *n, tensum_device device, tensum_dtype dtype, const void *cotangent, uint32_t wanted,
                          bool turned, int runs, void *const *results)
{
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    tensum_tensor gradients[MOST_STEPS + 1];
    int64_t strides[MOST_STEPS + 1][MOST_RANK];
    tensum_tensor given = {(void *)(uintptr_t)cotangent, dtype, n->output_rank, n->output_extents, NULL, {TENSUM_CPU, 0}};

    options.modes = TENSUM_GRADIENT;
    options.device = device;
    options.check = 0;
    succeeds(tensum_program_create(n->plan, NULL, &options, &program));
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    for (int64_t o = 0; o < n->count; o++) {
        int64_t stride = 1;
        for (int32_t i = 0; i < n->ranks[o]; i++) {
            strides[o][i] = stride;
            stride *= n->extents[o][i];
        }
        gradients[o] = (tensum_tensor){wanted >> o & 1u ? results[o] : NULL, dtype, n->ranks[o], n->extents[o],
                                       turned ? strides[o] : NULL, {TENSUM_CPU, 0}};
    }
    arguments.inputs = n->inputs;
    arguments.cotangent = &given;
    arguments.gradients = gradients;
    for (int i = 0; i < runs; i++) {
        succeeds(tensum_run(program, workspace, &arguments));
    }
    tensum_workspace_release(workspace);
    tensum_program_release(program);
}

static double part_of(const void *tensor, tensum_dtype dtype, int64_t i) /* complex: real and imaginary parts in turn */
{
    return dtype == TENSUM_F64 || dtype == TENSUM_C128 ? ((const double *)tensor)[i] : (double)((const float *)tensor)[i];
}

static void compare_gradients(const network *n, tensum_dtype dtype, uint32_t wanted, bool turned, uint64_t seed)
{
    const size_t bytes = tensum_dtype_bytes(dtype);
    const bool complex = dtype == TENSUM_C64 || dtype == TENSUM_C128, wide = dtype == TENSUM_F64 || dtype == TENSUM_C128;
    void *expected[MOST_STEPS + 1], *result[MOST_STEPS + 1], *cotangent = malloc((size_t)n->output_elements * bytes);

    for (int64_t i = 0; i < n->output_elements; i++) {
        put_element((char *)cotangent + (size_t)i * bytes, dtype);
    }
    for (int64_t o = 0; o < n->count; o++) {
        size_t elements = 1;
        for (int32_t i = 0; i < n->ranks[o]; i++) {
            elements *= (size_t)n->extents[o][i];
        }
        expected[o] = calloc(elements, bytes);
        result[o] = malloc(elements * bytes);
        memset(result[o], 0xff, elements * bytes);
    }
    run_gradients(n, (tensum_device){TENSUM_REFERENCE, 0}, dtype, cotangent, wanted, turned, 1, expected);
    run_gradients(n, (tensum_device){TENSUM_CUDA, 0}, dtype, cotangent, wanted, turned, 1 + (int)(seed & 1u), result);
    const char *fault = machine_fault();
    if (fault != NULL) {
        fail_msg("simulator: %s (seed %llu)", fault, (unsigned long long)seed);
    }
    for (int64_t o = 0; o < n->count; o++) {
        int64_t elements = complex ? 2 : 1;
        double largest = 0;
        for (int32_t i = 0; i < n->ranks[o]; i++) {
            elements *= n->extents[o][i];
        }
        for (int64_t i = 0; i < elements; i++) {
            largest = fmax(largest, fabs(part_of(expected[o], dtype, i)));
        }
        for (int64_t i = 0; i < elements && (wanted >> o & 1u); i++) {
            const double x = part_of(expected[o], dtype, i), y = part_of(result[o], dtype, i);
            if (!(fabs(x - y) <= (wide ? 1e-13 : 1e-5) * largest)) {
                fail_msg("%s, seed %llu: element %lld of %lld of the gradient of operand %lld is %g instead of %g", tensum_dtype_name(dtype),
                         (unsigned long long)seed, (long long)i, (long long)elements, (long long)o, y, x);
            }
        }
        free(expected[o]);
        free(result[o]);
    }
    free(cotangent);
}

static void gradients_of_chains(void **unused)
{
    static const tensum_dtype dtypes[] = {TENSUM_F32, TENSUM_F64, TENSUM_C64, TENSUM_F32};
    const char *given = getenv("CHAIN_SEED");
    const uint64_t first = given != NULL ? strtoull(given, NULL, 10) : 1, past = given != NULL ? first + 1 : 65;

    (void)unused;
    for (uint64_t seed = first; seed < past; seed++) {
        const tensum_dtype dtype = dtypes[seed % 4];
        network n;
        state = seed * 77777u;
        make(&n, TENSUM_SUM_PRODUCT, dtype, 0, seed % 5 == 0);
        compare_gradients(&n, dtype, UINT32_MAX, false, seed);
        if (seed % 3 == 0) {
            compare_gradients(&n, dtype, draw(1u << n.count), draw(2) != 0, seed);
        }
        destroy(&n);
    }
}

/* Steps of few elements, with and without larger ones between them: a block finds the gradients of a whole subtree. */
static void gradients_of_subtrees(void **unused)
{
    static const tensum_dtype dtypes[] = {TENSUM_F32, TENSUM_F64, TENSUM_C64, TENSUM_C128};
    const char *given = getenv("CHAIN_SEED");
    const uint64_t first = given != NULL ? strtoull(given, NULL, 10) : 1, past = given != NULL ? first + 1 : 49;

    (void)unused;
    least_size = 16;
    for (uint64_t seed = first; seed < past; seed++) {
        const tensum_dtype dtype = dtypes[seed % 4];
        network n;
        state = seed * 55511u;
        start_size = seed % 3 == 0 ? 1300 : 24;
        make(&n, TENSUM_SUM_PRODUCT, dtype, 0, seed % 5 != 0);
        compare_gradients(&n, dtype, UINT32_MAX, seed % 2 == 0, seed);
        compare_gradients(&n, dtype, draw(1u << n.count), seed % 2 != 0, seed);
        destroy(&n);
    }
    start_size = 2500;
    least_size = 2048;
}

/* Assignments at some positions: ties are many, and decided as the oracle does. */
static void decode(const network *n, tensum_device device, tensum_dtype dtype, const int64_t *positions, int64_t count, int64_t *assignments)
{
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    tensum_tensor output = {calloc((size_t)n->output_elements, 16), dtype, n->output_rank, n->output_extents, NULL, {TENSUM_CPU, 0}};

    options.modes = TENSUM_VALUE | TENSUM_DECODE;
    options.device = device;
    options.check = 0;
    succeeds(tensum_program_create(n->plan, NULL, &options, &program));
    succeeds(tensum_workspace_create(program, NULL, &workspace));
    arguments.inputs = n->inputs;
    arguments.output = &output;
    arguments.position_count = count;
    arguments.positions = positions;
    arguments.assignments = assignments;
    const tensum_status status = tensum_run(program, workspace, &arguments);
    if (status != TENSUM_STATUS_INFEASIBLE) { /* such positions are all -1 */
        succeeds(status);
    }
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    free(output.data);
}

static void decoding_and_gradients_along_a_path(void **unused)
{
    static const struct {
        tensum_semiring semiring;
        tensum_dtype dtype, gradient;
    } pairs[] = {{TENSUM_MAX_PLUS, TENSUM_F32, TENSUM_F32}, {TENSUM_MIN_PLUS, TENSUM_I32, TENSUM_F32}, {TENSUM_MAX_MIN, TENSUM_F32, TENSUM_F32},
                 {TENSUM_MAX_PLUS, TENSUM_I16, TENSUM_F32}, {TENSUM_MIN_PLUS, TENSUM_F64, TENSUM_F64}, {TENSUM_MIN_MAX, TENSUM_I32, TENSUM_F32},
                 {TENSUM_OR_AND, TENSUM_BOOL, TENSUM_F32}};
    enum { POSITIONS = 5, LABELS = 256 };
    const char *given = getenv("CHAIN_SEED");
    const uint64_t first = given != NULL ? strtoull(given, NULL, 10) : 1, past = given != NULL ? first + 1 : 57;

    (void)unused;
    for (uint64_t seed = first; seed < past; seed++) {
        const size_t which = seed % (sizeof pairs / sizeof pairs[0]);
        const bool scalar = seed % 3 != 0;
        int64_t positions[POSITIONS], expected[POSITIONS][LABELS], result[POSITIONS][LABELS];
        network n;
        state = seed * 99991u;
        make(&n, pairs[which].semiring, pairs[which].dtype, 0, scalar);
        for (int i = 0; i < POSITIONS; i++) {
            positions[i] = draw((uint32_t)n.output_elements);
        }
        memset(expected, 0, sizeof expected);
        memset(result, 0, sizeof result);
        decode(&n, (tensum_device){TENSUM_REFERENCE, 0}, pairs[which].dtype, positions, scalar ? 1 : POSITIONS, expected[0]);
        decode(&n, (tensum_device){TENSUM_CUDA, 0}, pairs[which].dtype, positions, scalar ? 1 : POSITIONS, result[0]);
        if (memcmp(expected, result, sizeof expected) != 0) {
            fail_msg("%s %s, seed %llu: other assignments", tensum_semiring_name(pairs[which].semiring), tensum_dtype_name(pairs[which].dtype),
                     (unsigned long long)seed);
        }
        if (scalar && pairs[which].dtype != TENSUM_BOOL) {
            compare_gradients(&n, pairs[which].gradient, UINT32_MAX, false, seed);
        }
        destroy(&n);
    }
}

/* Two large operands that share nearly all of their labels. */
static void make_two(network *n, tensum_semiring semiring, tensum_dtype dtype)
{
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_network *made = NULL;
    tensum_tree *tree = NULL;
    const int64_t *label_lists[2] = {n->labels[0], n->labels[1]}, *extent_lists[2] = {n->extents[0], n->extents[1]};
    int64_t offsets[2] = {0, 2}, children[2] = {0, 1}, extent_of[32], next = 0, size = 1;

    memset(n, 0, sizeof *n);
    n->count = 2;
    n->output_elements = 1;
    while (size < 1500) { /* the sum */
        extent_of[next] = draw(8) == 0 ? 40 + draw(60) : 2 + draw(5);
        size *= extent_of[next];
        n->labels[0][n->ranks[0]++] = n->labels[1][n->ranks[1]++] = next++;
    }
    for (int kind = 0; kind < 3; kind++) { /* of both and the result, of one and the result */
        for (uint32_t k = draw(3); k > 0; k--) {
            extent_of[next] = 1 + draw(4);
            if (kind != 2) {
                n->labels[0][n->ranks[0]++] = next;
            }
            if (kind != 1) {
                n->labels[1][n->ranks[1]++] = next;
            }
            n->output[n->output_rank] = next;
            n->output_extents[n->output_rank++] = extent_of[next];
            n->output_elements *= extent_of[next++];
        }
    }
    for (int o = 0; o < 2; o++) {
        int64_t elements = 1;
        if (draw(2) != 0) {
            shuffle(n->labels[o], n->ranks[o]);
        }
        for (int32_t i = 0; i < n->ranks[o]; i++) {
            n->extents[o][i] = extent_of[n->labels[o][i]];
            elements *= n->extents[o][i];
        }
        n->data[o] = malloc((size_t)elements * 16);
        for (int64_t i = 0; i < elements; i++) {
            put_element((char *)n->data[o] + (size_t)i * tensum_dtype_bytes(dtype), dtype);
        }
        n->inputs[o] = (tensum_tensor){n->data[o], dtype, n->ranks[o], n->extents[o], NULL, {TENSUM_CPU, 0}};
    }
    spec.operand_count = n->count;
    spec.ranks = n->ranks;
    spec.labels = label_lists;
    spec.extents = extent_lists;
    spec.output_rank = n->output_rank;
    spec.output_labels = n->output;
    succeeds(tensum_network_create(&spec, &made));
    succeeds(tensum_tree_from_ssa(2, 1, offsets, children, &tree));
    options.semiring = semiring;
    options.dtype = dtype;
    succeeds(tensum_plan_create(made, tree, &options, &n->plan));
    tensum_tree_release(tree);
    tensum_network_release(made);
}
static void two_large_operands_have_few_results(void **unused)
{
    static const struct {
        tensum_semiring semiring;
        tensum_dtype dtype;
    } pairs[] = {{TENSUM_MAX_PLUS, TENSUM_F32}, {TENSUM_SUM_PRODUCT, TENSUM_F32}, {TENSUM_SUM_PRODUCT, TENSUM_F64},
                 {TENSUM_OR_AND, TENSUM_BOOL},  {TENSUM_SUM_PRODUCT, TENSUM_C64}, {TENSUM_MAX_PLUS, TENSUM_I16}};
    (void)unused;
    for (uint64_t seed = 1; seed <= 48; seed++) {
        const size_t which = seed % (sizeof pairs / sizeof pairs[0]);
        network n;
        state = seed * 77777u;
        make_two(&n, pairs[which].semiring, pairs[which].dtype);
        compare(&n, pairs[which].dtype, TENSUM_VALUE, seed % 3 == 0, seed);
        destroy(&n);
    }
}

/* So many labels of extent 2, the first ones replaced by new ones, one step each. */
static void make_replaced(network *n, int32_t rank, int64_t steps, tensum_semiring semiring)
{
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_network *made = NULL;
    tensum_tree *tree = NULL;
    const int64_t *label_lists[MOST_STEPS + 1], *extent_lists[MOST_STEPS + 1];
    int64_t offsets[MOST_STEPS + 1], children[2 * MOST_STEPS];

    *n = (network){.count = steps + 1};
    for (int64_t o = 0; o <= steps; o++) {
        n->ranks[o] = o == 0 ? rank : 2;
        n->data[o] = malloc(((size_t)1 << n->ranks[o]) * sizeof(float));
        for (int64_t i = 0; i < (int64_t)1 << n->ranks[o]; i++) {
            ((float *)n->data[o])[i] = (float)(i % 7);
        }
        for (int32_t i = 0; i < n->ranks[o]; i++) {
            n->labels[o][i] = o == 0 ? i : i == 0 ? o - 1 : 100 + o - 1;
            n->extents[o][i] = 2;
        }
        n->inputs[o] = (tensum_tensor){n->data[o], TENSUM_F32, n->ranks[o], n->extents[o], NULL, {TENSUM_CPU, 0}};
        label_lists[o] = n->labels[o];
        extent_lists[o] = n->extents[o];
        if (o > 0) {
            offsets[o - 1] = 2 * (o - 1);
            children[2 * (o - 1)] = o == 1 ? 0 : steps + o - 1;
            children[2 * (o - 1) + 1] = o;
        }
    }
    offsets[steps] = 2 * steps;
    n->output_rank = rank;
    n->output_elements = 1 << rank;
    for (int32_t i = 0; i < rank; i++) {
        n->output[i] = i < steps ? 100 + i : i;
        n->output_extents[i] = 2;
    }
    spec.operand_count = n->count;
    spec.ranks = n->ranks;
    spec.labels = label_lists;
    spec.extents = extent_lists;
    spec.output_rank = n->output_rank;
    spec.output_labels = n->output;
    succeeds(tensum_network_create(&spec, &made));
    succeeds(tensum_tree_from_ssa(n->count, steps, offsets, children, &tree));
    options.semiring = semiring;
    options.dtype = TENSUM_F32;
    succeeds(tensum_plan_create(made, tree, &options, &n->plan));
    tensum_tree_release(tree);
    tensum_network_release(made);
}
/* A few launches for all of them. */
static void replace_labels(int32_t rank, int64_t steps)
{
    float *result = calloc((size_t)1 << rank, sizeof *result);
    network n;
    make_replaced(&n, rank, steps, TENSUM_MAX_PLUS);
    assert_true(run(&n, TENSUM_VALUE, (tensum_device){TENSUM_CUDA, 0}, TENSUM_F32, 0, result) <= 3); /* with the pointers' */
    compare(&n, TENSUM_F32, TENSUM_VALUE, 0, 0);
    free(result);
    destroy(&n);
}
static void a_chain_is_one_launch(void **unused)
{
    (void)unused;
    replace_labels(17, 6); /* large enough for any number of multiprocessors */
}
static void a_block_takes_many_tiles(void **unused)
{
    (void)unused;
    replace_labels(19, 1);
}
static void a_block_takes_many_tiles_backwards(void **unused)
{
    (void)unused;
    for (int64_t steps = 1; steps <= 2; steps++) {
        network n;
        state = 77777u;
        make_replaced(&n, 18, steps, TENSUM_SUM_PRODUCT);
        compare_gradients(&n, TENSUM_F32, UINT32_MAX, false, 0);
        compare_gradients(&n, TENSUM_F32, UINT32_MAX, true, 1);
        destroy(&n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_of_every_kind),
        cmocka_unit_test(gradients_of_chains), cmocka_unit_test(gradients_of_subtrees),
        cmocka_unit_test(decoding_and_gradients_along_a_path),
        cmocka_unit_test(two_large_operands_have_few_results),
        cmocka_unit_test(a_chain_is_one_launch),
        cmocka_unit_test(a_block_takes_many_tiles), cmocka_unit_test(a_block_takes_many_tiles_backwards),
    };
    const int unable = machine_open();
    return unable != 0 ? unable : cmocka_run_group_tests(tests, NULL, NULL);
}
