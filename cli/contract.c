/* tensum contract and tensum grad: the value of a network, and its gradients. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "network_input.h"

enum { KEY_OUTPUT = 'o', KEY_COTANGENT = 0x300 };
enum { MOST_SHOWN = 64, MOST_JSON = 4096 }; /* elements of a result that are printed */

static const struct argp_option contract_options[] = {
    NETWORK_OPTIONS,
    {"output", KEY_OUTPUT, "FILE", 0, "write the value as .npy; - is standard output", 2},
    {0},
};
static const struct argp_option grad_options[] = {
    NETWORK_OPTIONS,
    {"output", KEY_OUTPUT, "FILE", 0, "write value and gradients as .npz: value, gradient_0, gradient_1, ...", 2},
    {"cotangent", KEY_COTANGENT, "FILE", 0, "cotangent of the value as .npy; the default is 1 everywhere", 2},
    {0},
};

typedef struct arguments {
    network_arguments network;
    const char *output, *cotangent;
} arguments;

static error_t parse(int key, char *argument, struct argp_state *state)
{
    void **inputs = state->input;
    arguments *a = inputs[0];
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = inputs[1];
        return 0;
    case KEY_OUTPUT:
        a->output = argument;
        return 0;
    case KEY_COTANGENT:
        a->cotangent = argument;
        return 0;
    default:
        return parse_network_argument(key, argument, state, &a->network);
    }
}

static int64_t element_count(const tensum_tensor *tensor)
{
    int64_t count = 1;
    for (int32_t i = 0; i < tensor->rank; i++) {
        count *= tensor->extents[i];
    }
    return count;
}

/* One element as text; complex and counted ones as [a, b]. */
static void print_element(const tensum_tensor *tensor, int64_t index)
{
    const char *at = (const char *)tensor->data + (size_t)index * tensum_dtype_bytes(tensor->dtype);
    double parts[2];
    char a[32], b[32];
    int64_t extent = 1;
    bool pair = tensor->dtype == TENSUM_C64 || tensor->dtype == TENSUM_C128 || tensor->dtype == TENSUM_VC64 ||
                tensor->dtype == TENSUM_VC128;
    bool integer = tensor->dtype == TENSUM_I16 || tensor->dtype == TENSUM_I32 || tensor->dtype == TENSUM_I64;
    tensum_dtype wide = tensor->dtype == TENSUM_C64 || tensor->dtype == TENSUM_C128 ? TENSUM_C128 : TENSUM_VC128;
    tensum_tensor from = {(void *)(uintptr_t)at, tensor->dtype, 1, &extent, NULL, {TENSUM_CPU, 0}};
    int64_t whole;
    tensum_tensor to = {integer ? (void *)&whole : (void *)parts, integer ? TENSUM_I64 : pair ? wide : TENSUM_F64, 1,
                        &extent, NULL, {TENSUM_CPU, 0}};
    if (tensum_convert(&from, &to) != TENSUM_OK) {
        printf("null");
    } else if (integer) {
        printf("%lld", (long long)whole);
    } else if (pair) {
        printf("[%s, %s]", isfinite(parts[0]) ? format_real(parts[0], a) : "null",
               isfinite(parts[1]) ? format_real(parts[1], b) : "null");
    } else {
        if (tensor->dtype == TENSUM_F32 && isfinite(parts[0])) { /* shortest for the narrower type */
            for (int precision = 6; precision <= 9; precision++) {
                snprintf(a, sizeof a, "%.*g", precision, parts[0]);
                if (strtof(a, NULL) == (float)parts[0]) {
                    break;
                }
            }
            printf("%s", a);
        } else {
            printf("%s", format_real(parts[0], a));
        }
    }
}

static bool is_plain_number(const tensum_tensor *tensor)
{
    return tensor->dtype != TENSUM_C64 && tensor->dtype != TENSUM_C128 && tensor->dtype != TENSUM_VC64 &&
           tensor->dtype != TENSUM_VC128;
}

static void print_json_tensor(json_object *object, const char *key, const tensum_tensor *tensor)
{
    int64_t count = element_count(tensor);
    if (tensor->rank == 0 && is_plain_number(tensor)) {
        double value;
        tensum_tensor to = {&value, TENSUM_F64, 0, NULL, NULL, {TENSUM_CPU, 0}};
        if (tensor->dtype == TENSUM_I64) {
            json_integer(object, key, *(const int64_t *)tensor->data);
        } else if (tensum_convert(tensor, &to) == TENSUM_OK && isfinite(value)) {
            json_key(object, key);
            print_element(tensor, 0);
        } else {
            json_real(object, key, value);
        }
        return;
    }
    json_key(object, key);
    if (tensor->rank == 0) {
        print_element(tensor, 0);
        return;
    }
    if (count > MOST_JSON) {
        printf("null");
        return;
    }
    printf("[");
    for (int64_t i = 0; i < count; i++) {
        double value;
        int64_t extent = 1;
        tensum_tensor one = *tensor, to = {&value, TENSUM_F64, 1, &extent, NULL, {TENSUM_CPU, 0}};
        one.data = (char *)tensor->data + (size_t)i * tensum_dtype_bytes(tensor->dtype);
        one.rank = 1;
        one.extents = &extent;
        one.strides = NULL;
        printf(i == 0 ? "" : ", ");
        if (is_plain_number(tensor) && tensum_convert(&one, &to) == TENSUM_OK && !isfinite(value)) {
            printf("null"); /* JSON has no infinities */
        } else {
            print_element(tensor, i);
        }
    }
    printf("]");
}

static void print_shape(const tensum_tensor *tensor)
{
    printf("(");
    for (int32_t i = 0; i < tensor->rank; i++) {
        printf(i == 0 ? "%lld" : ", %lld", (long long)tensor->extents[i]);
    }
    printf(")");
}

static void print_line(const char *name, const tensum_tensor *tensor)
{
    int64_t count = element_count(tensor);
    printf("%s ", name);
    if (tensor->rank != 0) {
        print_shape(tensor);
        printf(":");
    }
    for (int64_t i = 0; i < count && i < MOST_SHOWN; i++) {
        printf(tensor->rank != 0 ? " " : "");
        print_element(tensor, i);
    }
    printf(count > MOST_SHOWN ? " ...\n" : "\n");
}

/* A compact host tensor of given rank and extents (borrowed). */
static tensum_tensor new_tensor(tensum_dtype dtype, int32_t rank, const int64_t *extents)
{
    tensum_tensor tensor = {NULL, dtype, rank, extents, NULL, {TENSUM_CPU, 0}};
    tensor.data = allocate_or_exit((size_t)element_count(&tensor), tensum_dtype_bytes(dtype));
    return tensor;
}

typedef struct results {
    tensum_tensor value;
    tensum_tensor *gradients; /* NULL without */
    int64_t count;
} results;

static tensum_status write_results(const arguments *a, const results *r)
{
    if (a->output == NULL) {
        return TENSUM_OK;
    }
    if (r->gradients == NULL) {
        static const char *const name[] = {"value"};
        return tensum_arrays_write(a->output, 1, name, &r->value);
    }
    const char **names = allocate_or_exit((size_t)r->count + 1, sizeof *names);
    char(*texts)[32] = allocate_or_exit((size_t)r->count, sizeof *texts);
    tensum_tensor *tensors = allocate_or_exit((size_t)r->count + 1, sizeof *tensors);
    names[0] = "value";
    tensors[0] = r->value;
    for (int64_t i = 0; i < r->count; i++) {
        snprintf(texts[i], sizeof *texts, "gradient_%lld", (long long)i);
        names[i + 1] = texts[i];
        tensors[i + 1] = r->gradients[i];
    }
    tensum_status status = tensum_arrays_write(a->output, r->count + 1, names, tensors);
    free(names);
    free(texts);
    free(tensors);
    return status;
}

static void print_results(const network_input *input, const shared_options *shared, const results *r,
                          const tensum_cost *cost, double order_seconds, double run_seconds, unsigned modes)
{
    char name[32];
    if (!shared->json) {
        print_line("value", &r->value);
        for (int64_t i = 0; r->gradients != NULL && i < r->count; i++) {
            snprintf(name, sizeof name, "gradient %lld", (long long)i);
            print_line(name, &r->gradients[i]);
        }
        return;
    }
    json_object object;
    json_begin(&object);
    print_json_tensor(&object, "value", &r->value);
    if (r->value.rank != 0) {
        json_key(&object, "shape");
        printf("[");
        for (int32_t i = 0; i < r->value.rank; i++) {
            printf(i == 0 ? "%lld" : ", %lld", (long long)r->value.extents[i]);
        }
        printf("]");
    }
    if (r->gradients != NULL) {
        json_key(&object, "gradients");
        printf("[");
        for (int64_t i = 0; i < r->count; i++) {
            json_object inner;
            printf(i == 0 ? "" : ", ");
            json_begin(&inner);
            json_integer(&inner, "input", i);
            print_json_tensor(&inner, "elements", &r->gradients[i]);
            printf("}");
        }
        printf("]");
    }
    json_string(&object, "semiring", tensum_semiring_name(input->semiring));
    json_string(&object, "dtype", tensum_dtype_name(input->dtype));
    json_cost(&object, cost, modes, order_seconds, run_seconds, shared->device);
    json_end(&object);
}

static tensum_status execute(const arguments *a, const shared_options *shared, network_input *input, tensum_plan *plan,
                             unsigned modes, results *r, double *seconds)
{
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    tensum_arrays *cotangent = NULL;
    int32_t rank;
    const int64_t *extents;
    double start = seconds_now();
    tensum_status status = tensum_network_operand(input->network, -1, &rank, NULL, &extents);
    if (status == TENSUM_OK) {
        r->value = new_tensor(input->dtype, rank, extents);
        r->count = tensum_network_operand_count(input->network);
        options.modes = modes;
        options.device = shared->device;
        status = tensum_program_create(plan, input->context, &options, &program);
    }
    if (status == TENSUM_OK) {
        status = tensum_workspace_create(program, NULL, &workspace);
    }
    if (status == TENSUM_OK && (modes & TENSUM_GRADIENT) != 0) {
        r->gradients = allocate_or_exit((size_t)r->count, sizeof *r->gradients);
        for (int64_t i = 0; i < r->count; i++) {
            r->gradients[i] =
                new_tensor(tensum_dtype_gradient(input->dtype), input->tensors[i].rank, input->tensors[i].extents);
        }
        run.gradients = r->gradients;
    }
    if (status == TENSUM_OK && a->cotangent != NULL) {
        status = tensum_arrays_read(a->cotangent, &cotangent);
        if (status == TENSUM_OK) {
            run.cotangent = tensum_arrays_tensor(cotangent, 0);
        }
    }
    if (status == TENSUM_OK) {
        run.inputs = input->tensors;
        run.output = &r->value;
        run.progress = show_progress;
        status = tensum_run(program, workspace, &run);
        end_progress();
    }
    *seconds = seconds_now() - start;
    tensum_arrays_release(cotangent);
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    return status;
}

static tensum_status contract(const arguments *a, const shared_options *shared, unsigned modes)
{
    network_input input = {0};
    results r = {0};
    tensum_plan *plan = NULL;
    tensum_cost cost = TENSUM_COST_INIT;
    double order_seconds = 0, run_seconds = 0;
    tensum_status status = open_network(&a->network, shared, &input);
    if (status == TENSUM_OK) {
        status = make_plan(&input, shared, modes, &plan, &order_seconds);
    }
    if (status == TENSUM_OK) {
        status = tensum_plan_cost(plan, &cost);
    }
    if (status == TENSUM_OK && shared->dry_run) {
        print_plan_cost(shared, &cost, modes, order_seconds);
    } else if (status == TENSUM_OK) {
        status = make_inputs(&a->network, shared, &input);
        if (status == TENSUM_OK) {
            status = execute(a, shared, &input, plan, modes, &r, &run_seconds);
        }
        if (status == TENSUM_OK) {
            status = write_results(a, &r);
        }
        if (status == TENSUM_OK && !(a->output != NULL && strcmp(a->output, "-") == 0)) {
            print_results(&input, shared, &r, &cost, order_seconds, run_seconds, modes);
        }
    }
    for (int64_t i = 0; r.gradients != NULL && i < r.count; i++) {
        free(r.gradients[i].data);
    }
    free(r.gradients);
    free(r.value.data);
    tensum_plan_release(plan);
    close_network(&input);
    return status;
}

static int run_with_modes(const subcommand *command, int argc, char **argv, unsigned modes)
{
    arguments a = {0};
    shared_options shared;
    shared_options_init(&shared);
    parse_command_line(command, parse, &a, &shared, argc, argv);
    if ((modes & TENSUM_GRADIENT) != 0 && a.output != NULL && !ends_with(a.output, ".npz")) {
        fprintf(stderr, "tensum grad: --output=%s: expected a name that ends in .npz\n", a.output);
        return EXIT_USAGE;
    }
    catch_interrupts();
    tensum_status status = contract(&a, &shared, modes);
    return status == TENSUM_OK ? EXIT_DONE : report_failure(status);
}

static int run_contract(const subcommand *command, int argc, char **argv)
{
    return run_with_modes(command, argc, argv, TENSUM_VALUE);
}

static int run_grad(const subcommand *command, int argc, char **argv)
{
    return run_with_modes(command, argc, argv, TENSUM_VALUE | TENSUM_GRADIENT);
}

const subcommand command_contract = {
    "contract",
    "compute the value of a tensor network",
    "NETWORK",
    NETWORK_DETAILS
    "Examples:\n"
    "  tensum contract network.json --fill 0.757858283255199 --dtype f64\n"
    "  tensum contract network.json --inputs tensors.npz -o value.npy\n"
    "  tensum contract network.json --fill random --seed 1 --semiring max_plus\n"
    "  tensum contract 'ij,jk->ik' --inputs matrices.npz\n",
    contract_options,
    true,
    run_contract,
};

const subcommand command_grad = {
    "grad",
    "compute the value of a tensor network and its gradients",
    "NETWORK",
    NETWORK_DETAILS
    "Examples:\n"
    "  tensum grad network.json --inputs tensors.npz -o gradients.npz\n"
    "  tensum grad network.json --inputs folder --cotangent seed.npy --json\n",
    grad_options,
    true,
    run_grad,
};
