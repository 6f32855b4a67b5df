/* tensum bench: how fast contractions, reductions, networks and small steps are on this machine. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "gpu_memory.h"
#include "network_input.h"

enum { KEY_SIZE = 0x500, KEY_SHAPE, KEY_BATCH, KEY_WINNERS, KEY_GRADIENT, KEY_DECODE, KEY_REPEATS, KEY_CASE };
enum { CHAIN = 10, MOST_REPEATS = 10000, RUNS_PER_WAIT = 20 };

static const struct argp_option options[] = {
    NETWORK_OPTIONS,
    {"size", KEY_SIZE, "N", 0, "gemm, reduce: extent (1024, 4096); overhead: extent of every label (2)", 2},
    {"shape", KEY_SHAPE, "MxNxK", 0, "gemm: rows, columns and sum; reduce: the first sizes", 2},
    {"batch", KEY_BATCH, "N", 0, "gemm: products at a time (1)", 2},
    {"case", KEY_CASE, "NAME", 0, "reduce: transpose (default), permute, reverse, rotate, shuffle (--seed), rows, columns, middle", 2},
    {"winners", KEY_WINNERS, NULL, 0, "gemm, reduce: find winners too", 2},
    {"gradient", KEY_GRADIENT, NULL, 0, "network: gradients too", 2},
    {"decode", KEY_DECODE, NULL, 0, "network: an optimal assignment for the first element of the output too", 2},
    {"repeats", KEY_REPEATS, "N", 0, "runs to time; the default fills about a second", 2},
    {0},
};

typedef struct arguments {
    network_arguments network;
    const char *kind, *name;
    int64_t size, shape[3], batch; /* batch 0: one product */
    int repeats;
    bool winners, gradient, decode;
} arguments;

static const char *const kinds[] = {"gemm", "reduce", "network", "overhead"};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    void **inputs = state->input;
    arguments *a = inputs[0];
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = inputs[1];
        return 0;
    case KEY_SIZE:
        a->size = parse_integer(state, "size", argument, 1, INT32_MAX);
        return 0;
    case KEY_SHAPE: {
        char *at = argument;
        for (int i = 0; i < 3; i++) {
            char *end;
            a->shape[i] = strtoll(at, &end, 10);
            if (end == at || a->shape[i] < 1 || *end != (i < 2 ? 'x' : 0)) {
                argp_error(state, "--shape is '%s', expected three sizes such as 512x512x64", argument);
            }
            at = end + 1;
        }
        return 0;
    }
    case KEY_BATCH:
        a->batch = parse_integer(state, "batch", argument, 1, INT32_MAX);
        return 0;
    case KEY_CASE:
        a->name = argument;
        return 0;
    case KEY_WINNERS:
        a->winners = true;
        return 0;
    case KEY_GRADIENT:
        a->gradient = true;
        return 0;
    case KEY_DECODE:
        a->decode = true;
        return 0;
    case KEY_REPEATS:
        a->repeats = (int)parse_integer(state, "repeats", argument, 1, MOST_REPEATS);
        return 0;
    case ARGP_KEY_ARG:
        if (a->kind == NULL) {
            for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
                if (strcmp(argument, kinds[i]) == 0) {
                    a->kind = kinds[i];
                    return 0;
                }
            }
            argp_error(state, "there is no benchmark '%s', expected gemm, reduce, network or overhead", argument);
        }
        return parse_network_argument(key, argument, state, &a->network);
    case ARGP_KEY_END:
        if (a->kind == NULL) {
            argp_error(state, "expected gemm, reduce, network or overhead");
        }
        return strcmp(a->kind, "network") == 0 ? parse_network_argument(key, argument, state, &a->network) : 0;
    default:
        return parse_network_argument(key, argument, state, &a->network);
    }
}

/* ---- running one program many times ---- */

typedef struct work {
    tensum_context *context;
    tensum_network *network;
    tensum_plan *plan;
    tensum_program *program;
    tensum_workspace *workspace;
    tensum_tensor *inputs, *gradients;
    tensum_tensor output, winners;
    int64_t *assignment;
    int64_t count;
    unsigned modes;
    bool own_inputs;
    /* On a GPU the tensors above are copied there, and runs use these. */
    tensum_tensor *gpu_inputs, *gpu_gradients;
    tensum_tensor gpu_output, gpu_winners;
    tensum_device device;
} work;

typedef struct timing {
    double median, least;
    double enqueue; /* on a GPU: until a run returns; its median */
    double einsum;  /* overhead: of a tensum_einsum of two of the matrices, until it returns */
    int repeats;
} timing;

static int64_t element_count(int32_t rank, const int64_t *extents)
{
    int64_t count = 1;
    for (int32_t i = 0; i < rank; i++) {
        count *= extents[i];
    }
    return count;
}

static tensum_tensor new_tensor(tensum_dtype dtype, int32_t rank, const int64_t *extents)
{
    tensum_tensor tensor = {NULL, dtype, rank, extents, NULL, {TENSUM_CPU, 0}};
    /* Aligned to cache lines, as PyTorch's are; all of it touched. */
    const size_t bytes = (size_t)element_count(rank, extents) * tensum_dtype_bytes(dtype), whole = (bytes + 64) / 64 * 64;
    tensor.data = aligned_alloc(64, whole);
    if (tensor.data == NULL) {
        fprintf(stderr, "tensum: out of memory: %zu bytes\n", whole);
        exit(EXIT_MEMORY);
    }
    memset(tensor.data, 0, whole);
    return tensor;
}

/* Numbers from 0 to 1, whole ones from 0 to 99, the same for every run. */
static tensum_status fill_random(tensum_tensor *tensor, uint64_t *state)
{
    const int64_t count = element_count(tensor->rank, tensor->extents);
    double *values = allocate_or_exit((size_t)count, sizeof *values);
    const bool whole = tensor->dtype == TENSUM_I16 || tensor->dtype == TENSUM_I32 || tensor->dtype == TENSUM_I64;
    for (int64_t i = 0; i < count; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        const double x = (double)(*state >> 11) / 9007199254740992.0;
        values[i] = whole ? floor(100 * x) : tensor->dtype == TENSUM_BOOL ? x < 0.05 : x;
    }
    const tensum_tensor from = {values, TENSUM_F64, 1, &count, NULL, {TENSUM_CPU, 0}};
    tensum_tensor to = *tensor;
    to.rank = 1;
    to.extents = &count;
    const tensum_status status = tensum_convert(&from, &to);
    free(values);
    return status;
}

/* A copy of a tensor on the GPU. */
static tensum_status copy_to_gpu(tensum_device device, const tensum_tensor *from, tensum_tensor *to)
{
    const size_t bytes = (size_t)element_count(from->rank, from->extents) * tensum_dtype_bytes(from->dtype);
    *to = *from;
    to->device = device;
    to->data = gpu_allocate(device, bytes);
    if (to->data == NULL || !gpu_write(device, to->data, from->data, bytes)) {
        fprintf(stderr, "tensum: the device has no %zu bytes for a tensor\n", bytes);
        return TENSUM_STATUS_OUT_OF_MEMORY;
    }
    return TENSUM_OK;
}

/* Put everything that runs use where they run. */
static tensum_status move_to_gpu(work *w)
{
    tensum_status status = copy_to_gpu(w->device, &w->output, &w->gpu_output);
    if (status == TENSUM_OK && w->winners.data != NULL) {
        status = copy_to_gpu(w->device, &w->winners, &w->gpu_winners);
    }
    w->gpu_inputs = allocate_or_exit((size_t)w->count + 1, sizeof *w->gpu_inputs);
    memset(w->gpu_inputs, 0, (size_t)w->count * sizeof *w->gpu_inputs);
    if (w->gradients != NULL) {
        w->gpu_gradients = allocate_or_exit((size_t)w->count + 1, sizeof *w->gpu_gradients);
        memset(w->gpu_gradients, 0, (size_t)w->count * sizeof *w->gpu_gradients);
    }
    for (int64_t i = 0; i < w->count && status == TENSUM_OK; i++) {
        status = copy_to_gpu(w->device, &w->inputs[i], &w->gpu_inputs[i]);
        if (status == TENSUM_OK && w->gradients != NULL) {
            status = copy_to_gpu(w->device, &w->gradients[i], &w->gpu_gradients[i]);
        }
    }
    return status;
}

static void release(work *w)
{
    for (int64_t i = 0; i < w->count; i++) {
        gpu_free(w->device, w->gpu_inputs != NULL ? w->gpu_inputs[i].data : NULL);
        gpu_free(w->device, w->gpu_gradients != NULL ? w->gpu_gradients[i].data : NULL);
    }
    gpu_free(w->device, w->gpu_output.data);
    gpu_free(w->device, w->gpu_winners.data);
    free(w->gpu_inputs);
    free(w->gpu_gradients);
    for (int64_t i = 0; w->own_inputs && i < w->count; i++) {
        free(w->inputs[i].data);
    }
    for (int64_t i = 0; w->gradients != NULL && i < w->count; i++) {
        free(w->gradients[i].data);
    }
    free(w->own_inputs ? w->inputs : NULL);
    free(w->gradients);
    free(w->output.data);
    free(w->winners.data);
    free(w->assignment);
    tensum_workspace_release(w->workspace);
    tensum_program_release(w->program);
    tensum_plan_release(w->plan);
    if (w->own_inputs) {
        tensum_network_release(w->network);
        tensum_context_release(w->context);
    }
}

/* Program, workspace and results for a plan. extra: modes beside TENSUM_VALUE. */
static tensum_status prepare(work *w, const shared_options *shared, tensum_dtype dtype, unsigned extra)
{
    tensum_program_options program = TENSUM_PROGRAM_OPTIONS_INIT;
    int32_t rank;
    const int64_t *extents;
    tensum_status status = tensum_network_operand(w->network, -1, &rank, NULL, &extents);
    if (status != TENSUM_OK) {
        return status;
    }
    w->modes = TENSUM_VALUE | extra;
    program.modes = w->modes;
    program.device = shared->device;
    program.check = 0; /* what is timed is the contraction */
    w->output = new_tensor(dtype, rank, extents);
    if ((extra & TENSUM_WINNERS) != 0) {
        w->winners = new_tensor(TENSUM_I32, rank, extents);
    }
    if ((extra & TENSUM_DECODE) != 0) {
        w->assignment = allocate_or_exit((size_t)tensum_network_label_count(w->network), sizeof *w->assignment);
    }
    if ((extra & TENSUM_GRADIENT) != 0) {
        w->gradients = allocate_or_exit((size_t)w->count, sizeof *w->gradients);
        for (int64_t i = 0; i < w->count; i++) {
            w->gradients[i] = new_tensor(tensum_dtype_gradient(dtype), w->inputs[i].rank, w->inputs[i].extents);
        }
    }
    status = tensum_program_create(w->plan, w->context, &program, &w->program);
    if (status == TENSUM_OK) {
        status = tensum_workspace_create(w->program, NULL, &w->workspace);
    }
    w->device = shared->device;
    return status == TENSUM_OK && w->device.kind == TENSUM_CUDA ? move_to_gpu(w) : status;
}

static int by_value(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* Time `repeats` runs (0: about a second's worth), each of `inner` calls. On a GPU, where a call only enqueues, the calls
 * are waited for together. */
static tensum_status measure(work *w, int repeats, int inner, timing *result)
{
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    double *seconds = allocate_or_exit(MOST_REPEATS, sizeof *seconds), *enqueued = allocate_or_exit(MOST_REPEATS, sizeof *seconds);
    const bool gpu = w->gpu_inputs != NULL;
    int done = 0;
    double total = 0;
    tensum_status status = TENSUM_OK;
    run.inputs = gpu ? w->gpu_inputs : w->inputs;
    run.output = gpu ? &w->gpu_output : &w->output;
    run.winners = w->winners.data == NULL ? NULL : gpu ? &w->gpu_winners : &w->winners;
    run.gradients = gpu ? w->gpu_gradients : w->gradients;
    run.assignments = w->assignment;
    run.position_count = w->assignment != NULL ? 1 : 0;
    inner = gpu ? RUNS_PER_WAIT : inner;
    for (int i = 0; i < (gpu ? 3 : 1) && status == TENSUM_OK; i++) { /* warm up: caches, threads, first touch, graphs */
        status = tensum_run(w->program, w->workspace, &run);
    }
    status = status == TENSUM_OK ? tensum_synchronize(w->device, NULL) : status;
    while (status == TENSUM_OK && (repeats > 0 ? done < repeats : done < 5 || (total < 1.0 && done < MOST_REPEATS))) {
        const double start = seconds_now();
        for (int i = 0; i < inner && status == TENSUM_OK; i++) {
            status = tensum_run(w->program, w->workspace, &run);
        }
        enqueued[done] = (seconds_now() - start) / inner;
        status = status == TENSUM_OK ? tensum_synchronize(w->device, NULL) : status;
        const double elapsed = seconds_now() - start;
        total += elapsed;
        seconds[done++] = elapsed / inner;
    }
    if (status == TENSUM_OK) {
        result->median = median(seconds, done);
        result->least = seconds[0];
        result->enqueue = gpu ? median(enqueued, done) : 0;
        result->repeats = done;
    }
    free(seconds);
    free(enqueued);
    return status;
}

/* Time tensum_einsum on the first two operands, matrices, with a context that knows the expression. */
static tensum_status measure_einsum(work *w, timing *result)
{
    enum { CALLS = 200, ROUNDS = 15 };
    const bool gpu = w->gpu_inputs != NULL;
    const tensum_tensor *inputs = gpu ? w->gpu_inputs : w->inputs, *output = gpu ? &w->gpu_output : &w->output;
    double seconds[ROUNDS];
    tensum_status status = tensum_einsum(w->context, TENSUM_MAX_PLUS, "ab,bc->ac", 2, inputs, output);
    status = status == TENSUM_OK ? tensum_einsum(w->context, TENSUM_MAX_PLUS, "ab,bc->ac", 2, inputs, output) : status;
    for (int round = 0; round < ROUNDS && status == TENSUM_OK; round++) {
        status = tensum_synchronize(w->device, NULL);
        const double start = seconds_now();
        for (int i = 0; i < CALLS && status == TENSUM_OK; i++) {
            status = tensum_einsum(w->context, TENSUM_MAX_PLUS, "ab,bc->ac", 2, inputs, output);
        }
        seconds[round] = (seconds_now() - start) / CALLS;
    }
    if (status == TENSUM_OK) {
        result->einsum = median(seconds, ROUNDS);
        status = tensum_synchronize(w->device, NULL);
    }
    return status;
}

/* An expression with random operands. extents: [count][], as the ranks say. */
static tensum_status prepare_expression(work *w, const shared_options *shared, const char *expression, int64_t count,
                                        const int32_t *ranks, const int64_t *const *extents, tensum_semiring semiring,
                                        tensum_dtype dtype, bool winners)
{
    tensum_context_options context = TENSUM_CONTEXT_OPTIONS_INIT;
    tensum_plan_options plan = TENSUM_PLAN_OPTIONS_INIT;
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    tensum_tree *tree = NULL;
    uint64_t state = shared->seed + 1;
    context.threads = shared->threads;
    w->count = count;
    w->own_inputs = true;
    w->inputs = allocate_or_exit((size_t)count, sizeof *w->inputs);
    plan.semiring = semiring;
    plan.dtype = dtype;
    plan.modulus = semiring == TENSUM_SUM_PRODUCT_MOD ? 1000000007 : 0;
    tensum_status status = tensum_context_create(&context, &w->context);
    for (int64_t i = 0; i < count && status == TENSUM_OK; i++) {
        w->inputs[i] = new_tensor(dtype, ranks[i], extents[i]);
        status = fill_random(&w->inputs[i], &state);
    }
    if (status == TENSUM_OK) {
        status = tensum_network_parse(expression, count, ranks, extents, 0, NULL, NULL, &w->network);
    }
    if (status == TENSUM_OK) {
        order.seed = shared->seed;
        status = tensum_order(w->network, &order, w->context, &tree);
    }
    if (status == TENSUM_OK) {
        status = tensum_plan_create(w->network, tree, &plan, &w->plan);
    }
    tensum_tree_release(tree);
    return status == TENSUM_OK ? prepare(w, shared, dtype, winners ? TENSUM_WINNERS : 0u) : status;
}

/* ---- reports ---- */

typedef struct report {
    const char *what;
    tensum_semiring semiring;
    tensum_dtype dtype;
    double pairs, bytes;
    double ceiling; /* pairs per second of one thread; 0: does not apply */
    double copy;    /* bytes per second of a copy in this process; 0: does not apply */
    int64_t steps;  /* 0: does not apply */
    int32_t threads;
    bool winners, gradient, decode;
} report;

static void print_report(const shared_options *shared, const report *r, const timing *t)
{
    if (shared->json) {
        json_object object;
        json_begin(&object);
        json_string(&object, "benchmark", r->what);
        json_counters(&object, shared->device);
        json_string(&object, "semiring", tensum_semiring_name(r->semiring));
        json_string(&object, "dtype", tensum_dtype_name(r->dtype));
        json_integer(&object, "threads", r->threads);
        json_integer(&object, "winners", r->winners);
        json_integer(&object, "gradient", r->gradient);
        json_integer(&object, "decode", r->decode);
        json_real(&object, "seconds_median", t->median);
        json_real(&object, "seconds_min", t->least);
        json_integer(&object, "repeats", t->repeats);
        if (t->enqueue > 0) {
            json_real(&object, "enqueue_seconds_median", t->enqueue);
        }
        if (t->einsum > 0) {
            json_real(&object, "einsum_seconds_median", t->einsum);
        }
        json_real(&object, "pairs_per_second", r->pairs / t->median);
        json_real(&object, "bytes_per_second", r->bytes / t->median);
        if (r->ceiling > 0) {
            json_real(&object, "ceiling_pairs_per_second", r->ceiling);
            json_real(&object, "share_of_ceiling", r->pairs / t->median / (r->ceiling * r->threads));
        }
        if (r->copy > 0) {
            json_real(&object, "copy_bytes_per_second", r->copy);
            json_real(&object, "share_of_copy", r->bytes / t->median / r->copy);
        }
        if (r->steps > 0) {
            json_integer(&object, "steps", r->steps);
            json_real(&object, "seconds_per_step", t->median / (double)r->steps);
        }
        json_end(&object);
        return;
    }
    printf("%s, %s %s, %d thread%s%s%s%s\n", r->what, tensum_semiring_name(r->semiring), tensum_dtype_name(r->dtype),
           (int)r->threads, r->threads == 1 ? "" : "s", r->winners ? ", winners" : "", r->gradient ? ", gradient" : "", r->decode ? ", decode" : "");
    printf("  median %.6g s, least %.6g s, %d repeats\n", t->median, t->least, t->repeats);
    if (t->enqueue > 0) {
        printf("  a run returns after %.3g us\n", 1e6 * t->enqueue);
    }
    if (t->einsum > 0) {
        printf("  a tensum_einsum of two matrices returns after %.3g us\n", 1e6 * t->einsum);
    }
    if (r->pairs > 0) {
        printf("  %.4g pairs/s", r->pairs / t->median);
        if (r->ceiling > 0) {
            printf(", %.2f of the ceiling of %.4g per thread", r->pairs / t->median / (r->ceiling * r->threads), r->ceiling);
        }
        printf("\n");
    }
    printf("  %.4g bytes/s", r->bytes / t->median);
    if (r->copy > 0) {
        printf(", %.2f of a copy's %.4g", r->bytes / t->median / r->copy, r->copy);
    }
    printf("\n");
    if (r->steps > 0) {
        printf("  %lld steps, %.4g ns per step\n", (long long)r->steps, 1e9 * t->median / (double)r->steps);
    }
}

/* Bytes read and written per second by memcpy of a large block, the best of several. */
static double copy_rate(size_t bytes)
{
    char *from = allocate_or_exit(bytes, 1), *to = allocate_or_exit(bytes, 1);
    double best = 0;
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    for (int i = 0; i < 7; i++) {
        const double start = seconds_now();
        memcpy(to, from, bytes);
        const double rate = 2 * (double)bytes / (seconds_now() - start);
        from[i] = to[bytes - 1]; /* the copy is used */
        best = rate > best ? rate : best;
    }
    free(from);
    free(to);
    return best;
}

/* The same by the driver between two tensors of a GPU, the median of several rounds as long as those of the benchmark. */
static double gpu_copy_rate(const work *w, size_t bytes)
{
    enum { ROUNDS = 15 };
    double seconds[ROUNDS];
    void *to = gpu_allocate(w->device, bytes);
    for (int i = -1; i < ROUNDS; i++) { /* the first warms up */
        seconds[i < 0 ? 0 : i] = gpu_copy_seconds(w->device, to, w->gpu_inputs[0].data, bytes, RUNS_PER_WAIT);
    }
    gpu_free(w->device, to);
    const double middle = to == NULL ? 0 : median(seconds, ROUNDS);
    return middle > 0 ? 2 * (double)bytes / middle : 0;
}

static tensum_status bench_gemm(const arguments *a, const shared_options *shared, report *r, work *w, timing *t)
{
    const int64_t size = a->size > 0 ? a->size : 1024;
    const int64_t m = a->shape[0] > 0 ? a->shape[0] : size, n = a->shape[0] > 0 ? a->shape[1] : size;
    const int64_t k = a->shape[0] > 0 ? a->shape[2] : size;
    const bool several = a->batch > 0;
    const int64_t batch = several ? a->batch : 1, left[3] = {batch, m, k}, right[3] = {batch, k, n};
    const int64_t *const extents[2] = {left + !several, right + !several};
    const int32_t ranks[2] = {2 + several, 2 + several};
    r->winners = a->winners;
    r->pairs = (double)batch * (double)m * (double)n * (double)k;
    r->bytes = (double)batch * ((double)m * (double)k + (double)k * (double)n + (double)m * (double)n) * (double)tensum_dtype_bytes(r->dtype);
    const char *const expression = several ? "bij,bjk->bik" : "ij,jk->ik";
    tensum_status status = prepare_expression(w, shared, expression, 2, ranks, extents, r->semiring, r->dtype, a->winners);
    if (status == TENSUM_OK && shared->device.kind == TENSUM_CPU) {
        status = tensum_bench_ceiling(r->semiring, r->dtype, &r->ceiling);
    }
    return status == TENSUM_OK ? measure(w, a->repeats, 1, t) : status;
}

/* Rank 24: the labels a, b, ... of the operand in another order. */
static void permuted_expression(const char *name, uint64_t seed, char *expression)
{
    char order[25] = "xbvdtfrhpjnlmkoiqgsecuaw";
    if (strcmp(name, "permute") != 0) {
        for (int i = 0; i < 24; i++) {
            order[i] = (char)('a' + (strcmp(name, "reverse") == 0 ? 23 - i : strcmp(name, "rotate") == 0 ? (i + 7) % 24 : i));
        }
    }
    for (int i = 23; i > 0 && strcmp(name, "shuffle") == 0; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const int j = (int)((seed >> 33) % (uint64_t)(i + 1));
        const char x = order[i];
        order[i] = order[j];
        order[j] = x;
    }
    sprintf(expression, "abcdefghijklmnopqrstuvwx->%s", order);
}

static tensum_status bench_reduce(const arguments *a, const shared_options *shared, report *r, work *w, timing *t)
{
    static const struct {
        const char *name, *expression; /* NULL: rank 24 */
    } cases[] = {
        {"transpose", "ij->ji"}, {"rows", "ij->i"}, {"columns", "ij->j"}, {"middle", "ijk->ik"},
        {"permute", NULL}, {"reverse", NULL}, {"rotate", NULL}, {"shuffle", NULL},
    };
    const char *name = a->name != NULL ? a->name : "transpose";
    char expression[64];
    int64_t extents[24], size = a->size > 0 ? a->size : 4096;
    int32_t rank = 2;
    size_t chosen = 0;
    while (chosen < sizeof cases / sizeof *cases && strcmp(cases[chosen].name, name) != 0) {
        chosen++;
    }
    if (chosen == sizeof cases / sizeof *cases) {
        fprintf(stderr, "tensum: there is no case '%s', expected transpose, permute, reverse, rotate, shuffle, rows, columns or middle\n", name);
        return TENSUM_STATUS_INVALID_ARGUMENT;
    }
    if (cases[chosen].expression == NULL) {
        permuted_expression(name, shared->seed, expression);
        rank = 24;
        size = 2;
    } else {
        strcpy(expression, cases[chosen].expression);
        rank = (int32_t)(strchr(expression, '-') - expression);
    }
    if (a->shape[0] > 0 && strcmp(name, "transpose") == 0) {
        strcpy(expression, "ijk->jik");
        rank = 3;
    }
    for (int32_t i = 0; i < rank; i++) {
        extents[i] = a->shape[0] > 0 && rank <= 3 ? a->shape[i] : rank == 3 && i > 0 ? (i == 1 ? 64 : (size + 63) / 64) : size;
    }
    const int64_t *const shape[1] = {extents};
    tensum_status status = prepare_expression(w, shared, expression, 1, &rank, shape, r->semiring, r->dtype, a->winners);
    if (status != TENSUM_OK) {
        return status;
    }
    const size_t bytes = tensum_dtype_bytes(r->dtype);
    const double read = (double)element_count(rank, extents);
    const double written = (double)element_count(w->output.rank, w->output.extents);
    r->winners = a->winners;
    r->bytes = (read + written) * (double)bytes + (a->winners ? 4 * written : 0);
    r->copy = shared->device.kind == TENSUM_CUDA ? gpu_copy_rate(w, (size_t)read * bytes) : copy_rate((size_t)read * bytes);
    return measure(w, a->repeats, 1, t);
}

static tensum_status bench_overhead(const arguments *a, const shared_options *shared, report *r, work *w, timing *t)
{
    int64_t size = a->size > 0 ? a->size : 2, extents[2] = {size, size};
    const int64_t *shapes[CHAIN];
    int32_t ranks[CHAIN];
    char expression[3 * CHAIN + 8];
    size_t used = 0;
    tensum_cost cost = TENSUM_COST_INIT;
    for (int i = 0; i < CHAIN; i++) {
        shapes[i] = extents;
        ranks[i] = 2;
        used += (size_t)snprintf(expression + used, sizeof expression - used, "%s%c%c", i > 0 ? "," : "", 'a' + i, 'b' + i);
    }
    snprintf(expression + used, sizeof expression - used, "->a%c", 'a' + CHAIN);
    tensum_status status = prepare_expression(w, shared, expression, CHAIN, ranks, shapes, r->semiring, r->dtype, false);
    if (status == TENSUM_OK) {
        status = tensum_plan_cost(w->plan, &cost);
    }
    if (status != TENSUM_OK) {
        return status;
    }
    r->steps = cost.steps;
    r->pairs = exp2(cost.tc);
    r->bytes = exp2(cost.rw) * (double)tensum_dtype_bytes(r->dtype);
    status = measure(w, a->repeats, 100, t);
    return status == TENSUM_OK && r->semiring == TENSUM_MAX_PLUS ? measure_einsum(w, t) : status;
}

static tensum_status bench_network(const arguments *a, const shared_options *shared, report *r, work *w,
                                   network_input *input, timing *t)
{
    network_arguments given = a->network;
    tensum_cost cost = TENSUM_COST_INIT;
    double order_seconds;
    const unsigned extra = (a->gradient ? TENSUM_GRADIENT : 0u) | (a->decode ? TENSUM_DECODE : 0u);
    if (given.fill == NULL && given.inputs == NULL) {
        given.fill = "random";
    }
    tensum_status status = open_network(&given, shared, input);
    if (status == TENSUM_OK) {
        r->semiring = input->semiring;
        r->dtype = input->dtype;
        status = make_plan(input, shared, TENSUM_VALUE | extra, &w->plan, &order_seconds);
    }
    if (status == TENSUM_OK) {
        status = make_inputs(&given, shared, input);
    }
    if (status == TENSUM_OK) {
        status = tensum_plan_cost(w->plan, &cost);
    }
    if (status != TENSUM_OK) {
        return status;
    }
    w->context = input->context;
    w->network = input->network;
    w->inputs = input->tensors;
    w->count = tensum_network_operand_count(input->network);
    r->gradient = a->gradient;
    r->decode = a->decode;
    r->steps = cost.steps * cost.slices;
    r->pairs = exp2(cost.tc);
    r->bytes = exp2(cost.rw) * (double)tensum_dtype_bytes(r->dtype);
    status = prepare(w, shared, r->dtype, extra);
    return status == TENSUM_OK ? measure(w, a->repeats, 1, t) : status;
}

static int run(const subcommand *command, int argc, char **argv)
{
    arguments a = {0};
    shared_options shared;
    work w = {0};
    network_input input = {0};
    timing t = {0};
    shared_options_init(&shared);
    parse_command_line(command, parse, &a, &shared, argc, argv);
    const bool network = strcmp(a.kind, "network") == 0;
    report r = {
        .what = a.kind,
        .semiring = shared.semiring >= 0 ? (tensum_semiring)shared.semiring : TENSUM_MAX_PLUS,
        .dtype = shared.dtype >= 0 ? (tensum_dtype)shared.dtype : TENSUM_F32,
    };
    tensum_status status = network                            ? bench_network(&a, &shared, &r, &w, &input, &t)
                           : strcmp(a.kind, "gemm") == 0      ? bench_gemm(&a, &shared, &r, &w, &t)
                           : strcmp(a.kind, "reduce") == 0    ? bench_reduce(&a, &shared, &r, &w, &t)
                                                              : bench_overhead(&a, &shared, &r, &w, &t);
    int code = EXIT_DONE;
    if (status == TENSUM_OK) {
        r.threads = tensum_context_threads(w.context);
        print_report(&shared, &r, &t);
    } else {
        code = strcmp(tensum_last_error(), "") != 0 ? report_failure(status) : EXIT_USAGE;
    }
    release(&w);
    if (network) {
        close_network(&input);
    }
    return code;
}

const subcommand command_bench = {
    "bench", "measure contractions, reductions, networks and small steps", "gemm|reduce|network|overhead [NETWORK]",
    "gemm is a matrix product, reduce a transposition or a sum over one mode, network a whole network (random tensors\n"
    "unless --inputs or --fill say otherwise), overhead a chain of ten tiny matrices. The defaults are max_plus and f32.\n"
    "On a GPU the tensors lie there, and runs are waited for twenty at a time.\n"
    "Rates are for the median of the repeats; the ceiling is what the packed kernel reaches on data in the first-level\n"
    "cache, measured in the same run; a copy is memcpy's, on a GPU the driver's, of an operand of reduce.\n\nExamples:\n"
    "  tensum bench gemm --size 1024 --semiring max_plus --dtype f32 --threads 1 --winners --json\n"
    "  tensum bench reduce --case permute\n"
    "  tensum bench network examples/network.json --semiring sum_product\n",
    options, true, run,
};
