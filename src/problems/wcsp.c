/* Front end for weighted constraint satisfaction (toulbar2's wcsp): minimise the sum of costs. */
#include <inttypes.h>
#include <math.h>

#include "problems/model.h"

typedef struct cost_function {
    int64_t arity, standard, tuple_count;
    size_t first_scope, first_entry; /* entries: per tuple its values, then the cost */
} cost_function;

typedef struct wcsp {
    int64_t variable_count, upper_bound;
    int64_t *domains;
    cost_function *functions;
    size_t function_count;
    int64_t *scope;
    size_t scope_count, scope_capacity;
    int64_t *entries;
    size_t entry_count, entry_capacity;
} wcsp;

static void destroy(void *pointer)
{
    wcsp *data = pointer;
    ts_free(data->domains);
    ts_free(data->functions);
    ts_free(data->scope);
    ts_free(data->entries);
    ts_free(data);
}

static tensum_status push(int64_t value, size_t *count, size_t *capacity, int64_t **array)
{
    tensum_status status = ts_reserve(*count + 1, sizeof **array, "costs", capacity, array);
    if (status == TENSUM_OK) {
        (*array)[(*count)++] = value;
    }
    return status;
}

static tensum_status read_function(ts_scanner *scanner, wcsp *data, cost_function *function)
{
    tensum_status status = TENSUM_OK;
    function->first_scope = data->scope_count;
    function->first_entry = data->entry_count;
    TRY(ts_scan_integer(scanner, "an arity", 0, data->variable_count, &function->arity));
    for (int64_t i = 0; i < function->arity; i++) {
        int64_t v;
        TRY(ts_scan_integer(scanner, "a variable", 0, data->variable_count - 1, &v));
        for (size_t k = function->first_scope; k < data->scope_count; k++) {
            if (data->scope[k] == v) {
                status = ts_scan_fail(scanner, "a variable that this function does not have yet");
                goto done;
            }
        }
        TRY(push(v, &data->scope_count, &data->scope_capacity, &data->scope));
    }
    if (!ts_scan(scanner)) {
        return ts_scan_fail(scanner, "a default cost");
    }
    if (!ts_parse_integer(scanner->input->bytes + scanner->token, scanner->length, &function->standard) || function->standard < 0) {
        return ts_input_fail(scanner->input, scanner->token,
                             "expected a default cost, found '%.*s': global cost functions are not supported",
                             (int)(scanner->length < 40 ? scanner->length : 40), scanner->input->bytes + scanner->token);
    }
    TRY(ts_scan_count(scanner, "the number of tuples", 2, &function->tuple_count));
    for (int64_t t = 0; t < function->tuple_count; t++) {
        for (int64_t i = 0; i < function->arity; i++) {
            int64_t x, card = data->domains[data->scope[function->first_scope + (size_t)i]];
            TRY(ts_scan_integer(scanner, "a value of the variable", 0, card - 1, &x));
            TRY(push(x, &data->entry_count, &data->entry_capacity, &data->entries));
        }
        int64_t cost;
        TRY(ts_scan_integer(scanner, "a cost", 0, INT64_MAX, &cost));
        TRY(push(cost, &data->entry_count, &data->entry_capacity, &data->entries));
    }
done:
    return status;
}

static tensum_status read_file(const ts_input *input, wcsp *data)
{
    tensum_status status = TENSUM_OK;
    ts_scanner scanner;
    int64_t largest, count;
    TRY(ts_reserve(1, sizeof *data->scope, "costs", &data->scope_capacity, &data->scope)); /* never NULL: of constants too */
    TRY(ts_reserve(1, sizeof *data->entries, "costs", &data->entry_capacity, &data->entries));
    ts_scanner_start(&scanner, input);
    if (!ts_scan(&scanner)) {
        return ts_input_fail(input, 0, "expected the name of the problem, found the end of the file");
    }
    TRY(ts_scan_count(&scanner, "the number of variables", 2, &data->variable_count));
    TRY(ts_scan_integer(&scanner, "the largest domain", 0, ts_input_most(input), &largest));
    TRY(ts_scan_count(&scanner, "the number of cost functions", 2, &count));
    TRY(ts_scan_integer(&scanner, "the upper bound", 1, INT64_MAX, &data->upper_bound));
    TRY(ts_allocate_zero((size_t)data->variable_count, sizeof *data->domains, "variables", &data->domains));
    for (int64_t v = 0; v < data->variable_count; v++) {
        TRY(ts_scan_integer(&scanner, "a domain size", 1, largest, &data->domains[v]));
    }
    TRY(ts_allocate_zero((size_t)count, sizeof *data->functions, "cost functions", &data->functions));
    for (int64_t f = 0; f < count; f++) {
        TRY(read_function(&scanner, data, &data->functions[f]));
        data->function_count++;
    }
    TRY(ts_scan_end(&scanner));
done:
    return status;
}

/* Costs straight from the list of tuples. */
static bool score(const void *pointer, const int64_t *x, double *objective)
{
    const wcsp *data = pointer;
    double sum = 0;
    for (size_t f = 0; f < data->function_count; f++) {
        const cost_function *function = &data->functions[f];
        const int64_t *entry = data->entries + function->first_entry;
        int64_t cost = function->standard;
        for (int64_t t = 0; t < function->tuple_count; t++, entry += function->arity + 1) {
            bool same = true;
            for (int64_t i = 0; i < function->arity; i++) {
                same = same && entry[i] == x[data->scope[function->first_scope + (size_t)i]];
            }
            cost = same ? entry[function->arity] : cost;
        }
        if (cost >= data->upper_bound) {
            return false;
        }
        sum += (double)cost;
    }
    *objective = sum;
    return true;
}

static double entry_value(const wcsp *data, int64_t cost) { return cost >= data->upper_bound ? -INFINITY : -(double)cost; }

static tensum_status build(const wcsp *data, ts_model *model)
{
    tensum_status status = TENSUM_OK;
    double *table = NULL;
    for (int64_t v = 0; v < data->variable_count; v++) {
        model->cards[v] = data->domains[v];
    }
    for (size_t f = 0; f < data->function_count; f++) {
        const cost_function *function = &data->functions[f];
        const int64_t *scope = data->scope + function->first_scope, *entry = data->entries + function->first_entry;
        int64_t size = 1;
        for (int64_t i = 0; i < function->arity; i++) {
            if (!ts_multiply(size, data->domains[scope[i]], &size) || size > INT64_C(1) << 27) {
                return ts_fail(TENSUM_STATUS_MEMORY_LIMIT, "cost function %zu over %" PRId64 " variables needs a table of more than 2^27 entries",
                               f, function->arity);
            }
        }
        TRY(ts_allocate((size_t)size, sizeof *table, "a cost table", &table));
        for (int64_t k = 0; k < size; k++) {
            table[k] = entry_value(data, function->standard);
        }
        for (int64_t t = 0; t < function->tuple_count; t++, entry += function->arity + 1) {
            int64_t index = 0;
            for (int64_t i = 0; i < function->arity; i++) {
                index = index * data->domains[scope[i]] + entry[i];
            }
            table[index] = entry_value(data, entry[function->arity]);
        }
        TRY(ts_model_add(model, (int32_t)function->arity, scope, table));
        ts_free(table);
        table = NULL;
    }
done:
    ts_free(table);
    return status;
}

static bool recognize(const ts_input *input)
{
    ts_scanner scanner;
    int64_t number;
    ts_scanner_start(&scanner, input);
    if (!ts_scan_in_line(&scanner)) {
        return false;
    }
    for (int i = 0; i < 4; i++) { /* name n maxdom k ub */
        if (!ts_scan_in_line(&scanner) || !ts_parse_integer(input->bytes + scanner.token, scanner.length, &number)) {
            return false;
        }
    }
    return !ts_scan_in_line(&scanner);
}

static tensum_status read(const ts_input *input, const tensum_problem_options *options, tensum_problem *problem)
{
    tensum_status status = TENSUM_OK;
    wcsp *data = NULL;
    ts_model *model = NULL;
    TRY(ts_allocate_zero(1, sizeof *data, "a weighted csp", &data));
    TRY(read_file(input, data));
    TRY(ts_model_create(problem, data->variable_count, -1, &model));
    model->score = score;
    TRY(build(data, model));
    ts_text_add(&problem->note, "minimise the sum of costs; %lld variables, %zu cost functions; costs of %lld and more are forbidden",
                (long long)data->variable_count, data->function_count, (long long)data->upper_bound);
    model->data = data;
    model->destroy_data = destroy;
    data = NULL;
    TRY(ts_model_setup(options, problem));
done:
    if (data != NULL) {
        destroy(data);
    }
    return status;
}

const ts_front_end ts_front_end_wcsp = {
    .name = "wcsp",
    .summary = "weighted constraint satisfaction (toulbar2): cheapest assignment",
    .tasks = TS_MODEL_TASKS,
    .suffixes = ".wcsp",
    .settings = TS_MODEL_SETTINGS,
    .recognize = recognize,
    .read = read,
    .solve = ts_model_solve,
    .destroy = ts_model_destroy,
};
