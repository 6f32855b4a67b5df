/* Front ends for quadratic functions of binary variables: QUBO (x in {0, 1}) and Ising (s in {-1, +1}). */
#include <math.h>
#include <stdlib.h>

#include "problems/model.h"

typedef struct quadratic_term {
    int64_t i, j; /* i <= j; i == j is the linear term */
    double weight;
} quadratic_term;

/* f(x) = sum of weight x_i x_j over the terms, each counted once; spins instead of bits where `spins`. */
typedef struct quadratic {
    int64_t variable_count;
    quadratic_term *terms;
    size_t term_count, term_capacity;
    size_t coupling_count; /* terms of two variables, which come first */
    bool spins;
    const char *convention;
    bool maximise; /* the format's own sense */
} quadratic;

static void destroy(void *pointer)
{
    quadratic *data = pointer;
    ts_free(data->terms);
    ts_free(data);
}

static tensum_status add_term(quadratic *data, int64_t i, int64_t j, double weight)
{
    tensum_status status =
        ts_reserve(data->term_count + 1, sizeof *data->terms, "terms", &data->term_capacity, &data->terms);
    if (status == TENSUM_OK) {
        data->terms[data->term_count++] = (quadratic_term){i < j ? i : j, i < j ? j : i, weight};
    }
    return status;
}

static double spin(int64_t bit) { return bit == 1 ? 1 : -1; }

static bool score(const void *pointer, const int64_t *x, double *objective)
{
    const quadratic *data = pointer;
    double sum = 0;
    for (size_t t = 0; t < data->term_count; t++) {
        const quadratic_term *term = &data->terms[t];
        if (data->spins) {
            sum += term->weight * (term->i == term->j ? spin(x[term->i]) : spin(x[term->i]) * spin(x[term->j]));
        } else {
            sum += x[term->i] == 1 && x[term->j] == 1 ? term->weight : 0;
        }
    }
    *objective = sum;
    return true;
}

/* Skip comment lines ('#' or 'c' followed by a blank); true if a token of a data line has been read. */
static bool next_data_line(ts_scanner *scanner)
{
    do {
        if (ts_scan_in_line(scanner)) {
            char first = scanner->input->bytes[scanner->token];
            if (first != '#' && first != '%' && !(first == 'c' && scanner->length == 1)) {
                return true;
            }
        }
    } while (ts_scan_next_line(scanner));
    return false;
}

static tensum_status end_of_line(ts_scanner *scanner)
{
    return ts_scan_in_line(scanner) ? ts_scan_fail(scanner, "the end of the line") : TENSUM_OK;
}

/* `i j weight` of the line whose first token has been read. `both` is what off-diagonal entries are multiplied by. */
static tensum_status read_term(ts_scanner *scanner, quadratic *data, int64_t base, double both)
{
    tensum_status status = TENSUM_OK;
    int64_t i, j, last = data->variable_count - 1 + base;
    double weight;
    TRY(ts_token_integer(scanner, "a variable", base, last, &i));
    if (!ts_scan_in_line(scanner)) {
        return ts_scan_fail(scanner, "'i j weight'");
    }
    TRY(ts_token_integer(scanner, "a variable", base, last, &j));
    if (!ts_scan_in_line(scanner)) {
        return ts_scan_fail(scanner, "'i j weight'");
    }
    TRY(ts_token_real(scanner, "a weight", &weight));
    TRY(end_of_line(scanner));
    TRY(add_term(data, i - base, j - base, i == j ? weight : both * weight));
done:
    return status;
}

/* BiqMac sparse: `n m`, `i j q` from 1, x'Qx with Q symmetric. OR-library: the number of problems first, maximise. */
static tensum_status read_matrix(ts_scanner *scanner, quadratic *data)
{
    tensum_status status = TENSUM_OK;
    int64_t n, m, problems;
    TRY(ts_token_integer(scanner, "the number of variables", 0, ts_input_most(scanner->input), &n));
    if (!ts_scan_in_line(scanner)) {
        problems = n;
        if (problems != 1) {
            return ts_scan_fail(scanner, "one problem in the file");
        }
        if (!next_data_line(scanner)) {
            return ts_input_fail(scanner->input, scanner->position, "expected 'n m', found the end of the file");
        }
        TRY(ts_token_integer(scanner, "the number of variables", 0, ts_input_most(scanner->input), &n));
        data->maximise = true;
        data->convention = "OR-library: x'Qx with off-diagonal entries counted twice, variables from 1";
        if (!ts_scan_in_line(scanner)) {
            return ts_scan_fail(scanner, "the number of entries");
        }
    } else {
        data->convention = "BiqMac sparse: x'Qx with off-diagonal entries counted twice, variables from 1";
    }
    TRY(ts_token_integer(scanner, "the number of entries", 0, INT64_MAX, &m));
    TRY(end_of_line(scanner));
    data->variable_count = n;
    int64_t read = 0;
    while (ts_scan_next_line(scanner)) {
        if (!next_data_line(scanner)) {
            break;
        }
        TRY(read_term(scanner, data, 1, 2));
        read++;
    }
    if (read != m) {
        status = ts_input_fail(scanner->input, scanner->position, "expected %lld entries, found %lld", (long long)m, (long long)read);
    }
done:
    return status;
}

/* qbsolv: `p qubo 0 maxNodes nNodes nCouplers`, `i i h`, `i j J` from 0, each once. */
static tensum_status read_qbsolv(ts_scanner *scanner, quadratic *data)
{
    tensum_status status = TENSUM_OK;
    int64_t topology, nodes, couplers, read_nodes = 0, read_couplers = 0;
    if (!ts_scan_in_line(scanner) || !ts_token_is(scanner, "qubo")) {
        return ts_scan_fail(scanner, "'p qubo'");
    }
    TRY(ts_scan_integer(scanner, "the topology", 0, INT64_MAX, &topology));
    TRY(ts_scan_integer(scanner, "the number of variables", 0, ts_input_most(scanner->input), &data->variable_count));
    TRY(ts_scan_integer(scanner, "the number of nodes", 0, INT64_MAX, &nodes));
    TRY(ts_scan_integer(scanner, "the number of couplers", 0, INT64_MAX, &couplers));
    TRY(end_of_line(scanner));
    data->convention = "qbsolv: every listed term counts once, variables from 0";
    while (ts_scan_next_line(scanner)) {
        if (!next_data_line(scanner)) {
            break;
        }
        TRY(read_term(scanner, data, 0, 1));
        bool linear = data->terms[data->term_count - 1].i == data->terms[data->term_count - 1].j;
        read_nodes += linear;
        read_couplers += !linear;
    }
    if (read_nodes != nodes || read_couplers != couplers) {
        status = ts_input_fail(scanner->input, scanner->position, "expected %lld nodes and %lld couplers, found %lld and %lld",
                               (long long)nodes, (long long)couplers, (long long)read_nodes, (long long)read_couplers);
    }
done:
    return status;
}

static tensum_status read_qubo_file(const ts_input *input, quadratic *data)
{
    ts_scanner scanner;
    ts_scanner_start(&scanner, input);
    if (!next_data_line(&scanner)) {
        return ts_input_fail(input, input->length, "expected 'p qubo ...' or 'n m', found the end of the file");
    }
    return ts_token_is(&scanner, "p") ? read_qbsolv(&scanner, data) : read_matrix(&scanner, data);
}

/* `i j J` and `i i h`, from 1; an optional first line `n m` (as in rudy files). */
static tensum_status read_ising_file(const ts_input *input, quadratic *data)
{
    tensum_status status = TENSUM_OK;
    ts_scanner scanner;
    int64_t largest = 0;
    bool first = true;
    ts_scanner_start(&scanner, input);
    data->spins = true;
    data->convention = "E = sum J s_i s_j + sum h s_i with s = -1 or +1 (0 or 1 in the assignment), spins from 1";
    do {
        if (!next_data_line(&scanner)) {
            break;
        }
        ts_scanner start = scanner;
        int tokens = 1;
        while (tokens < 4 && ts_scan_in_line(&scanner)) {
            tokens++;
        }
        ts_scanner end = scanner;
        scanner = start;
        if (first && tokens == 2) {
            TRY(ts_token_integer(&scanner, "the number of spins", 0, ts_input_most(input), &largest));
            scanner = end;
            first = false;
            continue;
        }
        first = false;
        data->variable_count = ts_input_most(input); /* known at the end */
        TRY(read_term(&scanner, data, 1, 1));
        largest = ts_max64(largest, data->terms[data->term_count - 1].j + 1);
    } while (ts_scan_next_line(&scanner));
    data->variable_count = largest;
done:
    return status;
}

static tensum_status build(quadratic *data, ts_model *model)
{
    tensum_status status = TENSUM_OK;
    for (size_t t = 0; t < data->term_count; t++) {
        const quadratic_term *term = &data->terms[t];
        double w = model->sign * term->weight;
        if (term->i == term->j) {
            TRY(ts_model_add_one(model, term->i, data->spins ? -w : 0, w));
        } else if (data->spins) {
            TRY(ts_model_add_two(model, term->i, term->j, w, -w, -w, w));
        } else {
            TRY(ts_model_add_two(model, term->i, term->j, 0, 0, 0, w));
        }
    }
done:
    return status;
}

static void move_couplings(quadratic *data)
{
    for (size_t t = 0; t < data->term_count; t++) {
        if (data->terms[t].i != data->terms[t].j) {
            quadratic_term term = data->terms[t];
            data->terms[t] = data->terms[data->coupling_count];
            data->terms[data->coupling_count++] = term;
        }
    }
}

static tensum_status read_quadratic(const ts_input *input, const tensum_problem_options *options, tensum_problem *problem,
                                    tensum_status (*read_file)(const ts_input *, quadratic *))
{
    tensum_status status = TENSUM_OK;
    quadratic *data = NULL;
    ts_model *model = NULL;
    const char *sense = ts_setting(options, "sense");
    if (sense != NULL && strcmp(sense, "min") != 0 && strcmp(sense, "max") != 0) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "setting sense=%s, expected min or max", sense);
    }
    TRY(ts_allocate_zero(1, sizeof *data, "a quadratic function", &data));
    TRY(read_file(input, data));
    move_couplings(data);
    bool maximise = sense != NULL ? strcmp(sense, "max") == 0 : data->maximise;
    TRY(ts_model_create(problem, data->variable_count, maximise ? 1 : -1, &model));
    model->score = score;
    TRY(build(data, model));
    ts_text_add(&problem->note, "%s; %s%s; %lld variables, %zu terms, offset 0", data->convention,
                maximise ? "maximise" : "minimise", sense != NULL ? " (as set)" : "", (long long)data->variable_count,
                data->term_count);
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

static tensum_status read_qubo(const ts_input *input, const tensum_problem_options *options, tensum_problem *problem)
{
    return read_quadratic(input, options, problem, read_qubo_file);
}

static tensum_status read_ising(const ts_input *input, const tensum_problem_options *options, tensum_problem *problem)
{
    return read_quadratic(input, options, problem, read_ising_file);
}

static bool recognize_qubo(const ts_input *input)
{
    ts_scanner scanner;
    ts_scanner_start(&scanner, input);
    return next_data_line(&scanner) && ts_token_is(&scanner, "p") && ts_scan_in_line(&scanner) && ts_token_is(&scanner, "qubo");
}

static bool never(const ts_input *input)
{
    (void)input;
    return false; /* nothing tells an Ising file from an edge list */
}

/* Couplings only; they are moved to the front of the terms after reading. */
static bool edge(const tensum_problem *problem, int64_t index, int64_t *u, int64_t *v, double *weight)
{
    const quadratic *data = ((const ts_model *)problem->state)->data;
    if (index >= (int64_t)data->coupling_count) {
        return false;
    }
    *u = data->terms[index].i;
    *v = data->terms[index].j;
    *weight = data->terms[index].weight;
    return true;
}

const ts_front_end ts_front_end_qubo = {
    .name = "qubo",
    .summary = "quadratic functions of 0/1 variables (BiqMac sparse, qbsolv, OR-library)",
    .tasks = TS_MODEL_TASKS,
    .suffixes = ".qubo .sparse",
    .settings = TS_MODEL_SETTINGS " sense",
    .recognize = recognize_qubo,
    .read = read_qubo,
    .solve = ts_model_solve,
    .edge = edge,
    .destroy = ts_model_destroy,
};

const ts_front_end ts_front_end_ising = {
    .name = "ising",
    .summary = "Ising models and spin glasses: ground states, degeneracies",
    .tasks = TS_MODEL_TASKS,
    .suffixes = ".ising",
    .settings = TS_MODEL_SETTINGS " sense",
    .recognize = never,
    .read = read_ising,
    .solve = ts_model_solve,
    .edge = edge,
    .destroy = ts_model_destroy,
};
