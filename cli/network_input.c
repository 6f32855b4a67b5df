#include "network_input.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

error_t parse_network_argument(int key, char *argument, struct argp_state *state, network_arguments *a)
{
    switch (key) {
    case KEY_INPUTS:
        a->inputs = argument;
        return 0;
    case KEY_FILL:
        if (strcmp(argument, "random") != 0) {
            (void)parse_real(state, "fill", argument, -INFINITY);
        }
        a->fill = argument;
        return 0;
    case KEY_FORMAT:
        a->format = argument;
        return 0;
    case KEY_TREE:
        a->tree = argument;
        return 0;
    case KEY_EXTENT:
        a->extent = parse_integer(state, "extent", argument, 1, INT32_MAX);
        return 0;
    case ARGP_KEY_ARG:
        if (a->path != NULL) {
            argp_error(state, "one network only, found '%s' too", argument);
        }
        a->path = argument;
        return 0;
    case ARGP_KEY_END:
        if (a->path == NULL) {
            argp_error(state, "expected the file of a network");
        }
        if (a->inputs != NULL && a->fill != NULL) {
            argp_error(state, "--inputs and --fill exclude each other");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* All arrays must have one dtype unless --dtype says what to convert to. */
static tensum_status choose_dtype(const shared_options *shared, network_input *input)
{
    if (shared->dtype >= 0) {
        input->dtype = (tensum_dtype)shared->dtype;
        return TENSUM_OK;
    }
    input->dtype = input->semiring == TENSUM_OR_AND || input->semiring == TENSUM_XOR_AND ? TENSUM_BOOL
                   : input->semiring == TENSUM_MAX_PLUS_COUNT                            ? TENSUM_VC128
                   : input->semiring == TENSUM_SUM_PRODUCT_MOD                           ? TENSUM_I64
                                                                                         : TENSUM_F64;
    for (int64_t i = 0; i < tensum_arrays_count(input->arrays); i++) {
        tensum_dtype dtype = tensum_arrays_tensor(input->arrays, i)->dtype;
        if (i != 0 && dtype != input->dtype) {
            fprintf(stderr, "tensum: array '%s' is %s, but the first one is %s; --dtype converts all\n",
                    tensum_arrays_name(input->arrays, i), tensum_dtype_name(dtype), tensum_dtype_name(input->dtype));
            exit(EXIT_INPUT);
        }
        input->dtype = dtype;
    }
    return TENSUM_OK;
}

/* "ij,jk->ik": what no file is called and is of the form. */
static bool is_expression(const network_arguments *a)
{
    struct stat information;
    return a->format == NULL && (strstr(a->path, "->") != NULL || strchr(a->path, ',') != NULL) &&
           stat(a->path, &information) != 0;
}

static tensum_status parse_expression(const network_arguments *a, network_input *input)
{
    int64_t count = tensum_arrays_count(input->arrays);
    if (input->arrays == NULL) {
        fprintf(stderr, "tensum: the expression '%s' needs --inputs FILE, which gives the extents\n", a->path);
        exit(EXIT_USAGE);
    }
    int32_t *ranks = allocate_or_exit((size_t)count, sizeof *ranks);
    const int64_t **extents = allocate_or_exit((size_t)count, sizeof *extents);
    for (int64_t i = 0; i < count; i++) {
        ranks[i] = tensum_arrays_tensor(input->arrays, i)->rank;
        extents[i] = tensum_arrays_tensor(input->arrays, i)->extents;
    }
    tensum_status status = tensum_network_parse(a->path, count, ranks, extents, 0, NULL, NULL, &input->network);
    free(ranks);
    free(extents);
    return status;
}

static tensum_status read_file(const network_arguments *a, network_input *input)
{
    tensum_file_options options = TENSUM_FILE_OPTIONS_INIT;
    options.format = a->format;
    options.tree = a->tree;
    options.arrays = input->arrays;
    options.extent = a->extent != 0 ? a->extent : 2;
    tensum_status status = tensum_file_read(a->path, &options, &input->file);
    if (status != TENSUM_OK) {
        return status;
    }
    input->network = tensum_network_retain(tensum_file_network(input->file));
    if (input->network == NULL) {
        fprintf(stderr, "tensum: %s holds no network (format %s)\n", a->path, tensum_file_format(input->file));
        exit(EXIT_INPUT);
    }
    if (a->extent == 0 && tensum_file_assumed_extents(input->file) != 0) {
        fprintf(stderr, "tensum: note: %s gives no extents; 2 is assumed (--extent N changes it)\n", a->path);
    }
    return TENSUM_OK;
}

tensum_status open_network(const network_arguments *a, const shared_options *shared, network_input *input)
{
    tensum_context_options context_options = TENSUM_CONTEXT_OPTIONS_INIT;
    context_options.threads = shared->threads;
    tensum_status status = tensum_context_create(&context_options, &input->context);
    if (status == TENSUM_OK && a->inputs != NULL) {
        status = tensum_arrays_read(a->inputs, &input->arrays);
    }
    if (status == TENSUM_OK) {
        status = is_expression(a) ? parse_expression(a, input) : read_file(a, input);
    }
    if (status != TENSUM_OK) {
        return status;
    }
    check_memory(shared, "reading the input");
    input->semiring = shared->semiring >= 0 ? (tensum_semiring)shared->semiring : TENSUM_SUM_PRODUCT;
    return choose_dtype(shared, input);
}

/* Bytes that are held while a network runs: its inputs (twice if they are converted), value, gradients. */
static uint64_t held_bytes(const network_input *input, unsigned modes)
{
    int64_t n = tensum_network_operand_count(input->network);
    uint64_t element = tensum_dtype_bytes(input->dtype), bytes = 0;
    uint64_t gradient = (modes & TENSUM_GRADIENT) != 0 ? tensum_dtype_bytes(tensum_dtype_gradient(input->dtype)) : 0;
    uint64_t each = 2 * (sizeof(tensum_tensor) + 4 * sizeof(void *)); /* a tensor's own, its gradient's and the file's */
    for (int64_t i = -1; i < n; i++) {
        const tensum_tensor *array = i >= 0 ? tensum_arrays_tensor(input->arrays, i) : NULL;
        const int64_t *extents;
        int32_t rank;
        uint64_t count = 1;
        if (tensum_network_operand(input->network, i, &rank, NULL, &extents) != TENSUM_OK) {
            continue;
        }
        for (int32_t m = 0; m < rank; m++) {
            count *= (uint64_t)extents[m];
        }
        bytes += each + count * (element + (i >= 0 ? gradient : 0));
        if (array != NULL && array->dtype != input->dtype) {
            bytes += count * tensum_dtype_bytes(array->dtype);
        }
    }
    return bytes;
}

tensum_status make_plan(network_input *input, const shared_options *shared, unsigned modes, tensum_plan **plan,
                        double *order_seconds)
{
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_tree *tree = NULL, *file_tree = tensum_file_tree(input->file);
    tensum_status status;
    options.semiring = input->semiring;
    options.dtype = input->dtype;
    options.modulus = input->semiring == TENSUM_SUM_PRODUCT_MOD ? 2147483647 : 0; /* the prime 2^31 - 1 */
    options.memory_limit = shared->memory_limit;
    options.memory_modes = modes;
    options.device = shared->device;
    *order_seconds = 0;
    if (shared->memory_limit != 0 && shared->device.kind != TENSUM_CUDA) { /* a device's memory is its own */
        options.memory_taken = held_bytes(input, modes);
    }
    bool from_file = shared->order != NULL && strcmp(shared->order, "file") == 0;
    status = read_given_order(shared, input->network, &tree);
    if (status == TENSUM_OK && tree == NULL && !from_file && shared->memory_limit != 0) {
        status = search_plan(shared, input->network, shared->order == NULL ? file_tree : NULL, input->context, &options,
                             plan, order_seconds);
        tree = status == TENSUM_OK ? tensum_tree_retain(tensum_plan_tree(*plan)) : NULL;
    } else if (status == TENSUM_OK) {
        if (tree == NULL) {
            status = find_order(shared, input->network, file_tree, input->context, tensum_dtype_bytes(input->dtype), &tree,
                                order_seconds);
        }
        if (status == TENSUM_OK) {
            status = tensum_plan_create(input->network, tree, &options, plan);
        }
    }
    if (status == TENSUM_OK && shared->save_order != NULL) {
        status = tensum_file_write(shared->save_order, NULL, input->network, tree, input->file);
    }
    tensum_tree_release(tree);
    return status;
}

/* splitmix64; the same numbers for the same seed everywhere. */
static double random_unit(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static tensum_status fill_tensor(const network_arguments *a, double number, uint64_t *state, tensum_tensor *tensor,
                                 int64_t count)
{
    int64_t one = 1;
    size_t bytes = tensum_dtype_bytes(tensor->dtype);
    bool integers = tensor->dtype == TENSUM_I16 || tensor->dtype == TENSUM_I32 || tensor->dtype == TENSUM_I64 ||
                    tensor->dtype == TENSUM_BOOL;
    bool random = strcmp(a->fill, "random") == 0;
    tensum_status status = TENSUM_OK;
    for (int64_t i = 0; i < count && status == TENSUM_OK; i++) {
        double value = random ? random_unit(state) : number;
        if (random && integers) { /* small whole numbers, 0 or 1 for truth values */
            value = floor(value * (tensor->dtype == TENSUM_BOOL ? 2 : 4));
        }
        tensum_tensor from = {&value, TENSUM_F64, 1, &one, NULL, {TENSUM_CPU, 0}};
        tensum_tensor to = {(char *)tensor->data + (size_t)i * bytes, tensor->dtype, 1, &one, NULL, {TENSUM_CPU, 0}};
        status = tensum_convert(&from, &to);
    }
    return status;
}

tensum_status make_inputs(const network_arguments *a, const shared_options *shared, network_input *input)
{
    int64_t n = tensum_network_operand_count(input->network);
    uint64_t state = shared->seed;
    tensum_status status = TENSUM_OK;
    if (input->arrays == NULL && a->fill == NULL && n != 0) {
        fprintf(stderr, "tensum: no values are given, expected --inputs FILE or --fill X\n");
        exit(EXIT_USAGE);
    }
    double number = a->fill != NULL ? strtod(a->fill, NULL) : 0;
    check_memory(shared, "planning");
    input->tensors = allocate_or_exit((size_t)n, sizeof *input->tensors);
    input->owned = allocate_or_exit((size_t)n, sizeof *input->owned);
    for (int64_t i = 0; i < n && status == TENSUM_OK; i++) {
        const tensum_tensor *array = tensum_arrays_tensor(input->arrays, i);
        if (array != NULL && array->dtype == input->dtype) {
            input->tensors[i] = *array;
            continue;
        }
        tensum_tensor tensor = {NULL, input->dtype, 0, NULL, NULL, {TENSUM_CPU, 0}};
        int64_t count = 1;
        status = tensum_network_operand(input->network, i, &tensor.rank, NULL, &tensor.extents);
        for (int32_t m = 0; status == TENSUM_OK && m < tensor.rank; m++) {
            count *= tensor.extents[m];
        }
        tensor.data = input->owned[i] = allocate_or_exit((size_t)count, tensum_dtype_bytes(input->dtype));
        if (status == TENSUM_OK) {
            status = array != NULL ? tensum_convert(array, &tensor) : fill_tensor(a, number, &state, &tensor, count);
        }
        input->tensors[i] = tensor;
    }
    return status;
}

void print_plan_cost(const shared_options *shared, const tensum_cost *cost, unsigned modes, double order_seconds)
{
    if (shared->json) {
        json_object object;
        json_begin(&object);
        json_cost(&object, cost, modes, order_seconds, -1.0, shared->device);
        json_integer(&object, "peak_bytes_value", (int64_t)cost->peak_bytes_value);
        json_integer(&object, "peak_bytes_gradient", (int64_t)cost->peak_bytes_gradient);
        json_integer(&object, "peak_bytes_decode", (int64_t)cost->peak_bytes_decode);
        json_end(&object);
    } else {
        print_cost(stdout, cost, order_seconds);
    }
}

void close_network(network_input *input)
{
    for (int64_t i = 0; input->owned != NULL && i < tensum_network_operand_count(input->network); i++) {
        free(input->owned[i]);
    }
    free(input->owned);
    free(input->tensors);
    tensum_network_release(input->network);
    tensum_file_release(input->file);
    tensum_arrays_release(input->arrays);
    tensum_context_release(input->context);
}
