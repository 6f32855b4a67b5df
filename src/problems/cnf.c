/* Front end for propositional formulas: model counting (plain, weighted, projected) and MaxSAT. */
#include <math.h>
#include <stdlib.h>

#include "problems/model.h"

typedef struct clause {
    size_t first, count; /* literals */
    double weight;       /* cost of breaking it; +inf: hard */
} clause;

typedef struct formula {
    int64_t variable_count;
    clause *clauses;
    size_t clause_count, clause_capacity;
    int64_t *literals;
    size_t literal_count, literal_capacity;
    double *positive, *negative; /* [variable_count] weights of literals; NaN: not given */
    uint8_t *shown;              /* [variable_count] */
    bool weighted, projected, maxsat;
    char type[8];                /* of "c t TYPE", for the answer */
} formula;

static void destroy(void *pointer)
{
    formula *data = pointer;
    ts_free(data->clauses);
    ts_free(data->literals);
    ts_free(data->positive);
    ts_free(data->negative);
    ts_free(data->shown);
    ts_free(data);
}

/* Grow the arrays over variables to `count`. */
static tensum_status set_variables(formula *data, int64_t count)
{
    tensum_status status = TENSUM_OK;
    if (count <= data->variable_count && data->positive != NULL) {
        return TENSUM_OK;
    }
    TRY(ts_reallocate((size_t)count, sizeof(double), "variables", &data->positive));
    TRY(ts_reallocate((size_t)count, sizeof(double), "variables", &data->negative));
    TRY(ts_reallocate((size_t)count, 1, "variables", &data->shown));
    for (int64_t v = data->variable_count; v < count; v++) {
        data->positive[v] = data->negative[v] = NAN;
        data->shown[v] = 0;
    }
    data->variable_count = count;
done:
    return status;
}

/* Decimal, scientific, or a fraction a/b. */
static tensum_status weight_token(const ts_scanner *scanner, double *weight)
{
    const char *text = scanner->input->bytes + scanner->token;
    const char *slash = memchr(text, '/', scanner->length);
    double divisor = 1;
    size_t length = slash != NULL ? (size_t)(slash - text) : scanner->length;
    if (!ts_parse_real(text, length, weight) ||
        (slash != NULL && (!ts_parse_real(slash + 1, scanner->length - length - 1, &divisor) || divisor == 0))) {
        return ts_scan_fail(scanner, "a weight");
    }
    *weight /= divisor;
    return isfinite(*weight) ? TENSUM_OK : ts_scan_fail(scanner, "a finite weight");
}

static tensum_status line_token(ts_scanner *scanner, const char *what)
{
    return ts_scan_in_line(scanner) ? TENSUM_OK
                                    : ts_input_fail(scanner->input, scanner->position, "expected %s, found the end of the line", what);
}

static tensum_status read_literal(ts_scanner *scanner, const formula *data, int64_t *literal)
{
    tensum_status status = ts_token_integer(scanner, "a literal", -data->variable_count, data->variable_count, literal);
    return status == TENSUM_OK && *literal == 0 ? ts_scan_fail(scanner, "a literal other than 0") : status;
}

/* `<lit> <w> [0]`, the rest of a weight line. */
static tensum_status read_weight(ts_scanner *scanner, formula *data, bool cachet)
{
    tensum_status status = TENSUM_OK;
    int64_t literal;
    double weight;
    TRY(line_token(scanner, "a literal"));
    TRY(read_literal(scanner, data, &literal));
    TRY(line_token(scanner, "a weight"));
    TRY(weight_token(scanner, &weight));
    if (ts_scan_in_line(scanner) && !ts_token_is(scanner, "0")) {
        return ts_scan_fail(scanner, "0");
    }
    int64_t v = (literal < 0 ? -literal : literal) - 1;
    data->weighted = true;
    if (cachet && weight == -1) { /* cachet: both literals weigh 1 */
        data->positive[v] = data->negative[v] = 1;
    } else if (weight < 0) {
        return ts_input_fail(scanner->input, scanner->token, "expected a weight of at least 0, found %g", weight);
    } else if (literal > 0) {
        data->positive[v] = weight;
    } else {
        data->negative[v] = weight;
    }
done:
    return status;
}

/* Comment lines of the model counting competition; anything else is a comment indeed. */
static tensum_status read_comment(ts_scanner *scanner, formula *data)
{
    tensum_status status = TENSUM_OK;
    if (!ts_scan_in_line(scanner)) {
        return TENSUM_OK;
    }
    if (ts_token_is(scanner, "t") && ts_scan_in_line(scanner)) {
        size_t length = scanner->length < sizeof data->type - 1 ? scanner->length : sizeof data->type - 1;
        memcpy(data->type, scanner->input->bytes + scanner->token, length);
        data->type[length] = 0;
        return TENSUM_OK;
    }
    if (!ts_token_is(scanner, "p") || !ts_scan_in_line(scanner)) {
        return TENSUM_OK;
    }
    if (ts_token_is(scanner, "weight")) {
        return read_weight(scanner, data, false);
    }
    if (ts_token_is(scanner, "show")) {
        data->projected = true;
        while (ts_scan_in_line(scanner) && !ts_token_is(scanner, "0")) {
            int64_t v;
            TRY(ts_token_integer(scanner, "a variable", 1, data->variable_count, &v));
            data->shown[v - 1] = 1;
        }
    }
done:
    return status;
}

static tensum_status begin_clause(formula *data, double weight)
{
    tensum_status status = ts_reserve(data->clause_count + 1, sizeof *data->clauses, "clauses", &data->clause_capacity, &data->clauses);
    if (status == TENSUM_OK) {
        data->clauses[data->clause_count++] = (clause){data->literal_count, 0, weight};
    }
    return status;
}

static tensum_status add_literal(formula *data, int64_t literal)
{
    tensum_status status =
        ts_reserve(data->literal_count + 1, sizeof *data->literals, "literals", &data->literal_capacity, &data->literals);
    if (status == TENSUM_OK) {
        data->literals[data->literal_count++] = literal;
        data->clauses[data->clause_count - 1].count++;
    }
    return status;
}

/* Literals up to the 0; clauses may span lines. The scanner has read the first token. */
static tensum_status read_clause(ts_scanner *scanner, formula *data, double weight, bool grows)
{
    tensum_status status = TENSUM_OK;
    TRY(begin_clause(data, weight));
    for (;;) {
        int64_t literal, most = grows ? ts_input_most(scanner->input) : data->variable_count;
        TRY(ts_token_integer(scanner, "a literal or 0", -most, most, &literal));
        if (literal == 0) {
            break;
        }
        int64_t v = literal < 0 ? -literal : literal;
        if (v > data->variable_count) {
            TRY(set_variables(data, v));
        }
        TRY(add_literal(data, literal));
        if (!ts_scan(scanner)) {
            status = ts_input_fail(scanner->input, scanner->position, "expected a literal or 0, found the end of the file");
            goto done;
        }
    }
done:
    return status;
}

/* Weights may come before the header; so the header is found first. */
static tensum_status read_header(const ts_input *input, formula *data, bool *found, double *top, size_t *clause_count)
{
    tensum_status status = TENSUM_OK;
    ts_scanner scanner;
    *found = false;
    *top = INFINITY;
    ts_scanner_start(&scanner, input);
    do {
        if (!ts_scan_in_line(&scanner) || !ts_token_is(&scanner, "p")) {
            continue;
        }
        int64_t variables, clauses;
        TRY(line_token(&scanner, "'cnf' or 'wcnf'"));
        bool wcnf = ts_token_is(&scanner, "wcnf");
        if (!wcnf && !ts_token_is(&scanner, "cnf")) {
            return ts_scan_fail(&scanner, "'cnf' or 'wcnf'");
        }
        TRY(line_token(&scanner, "the number of variables"));
        TRY(ts_token_integer(&scanner, "the number of variables", 0, ts_input_most(input), &variables));
        TRY(line_token(&scanner, "the number of clauses"));
        TRY(ts_token_integer(&scanner, "the number of clauses", 0, INT64_MAX, &clauses));
        if (wcnf && ts_scan_in_line(&scanner)) {
            TRY(weight_token(&scanner, top));
            data->maxsat = true;
        }
        TRY(set_variables(data, variables));
        *clause_count = (size_t)clauses;
        *found = true;
        return TENSUM_OK;
    } while (ts_scan_next_line(&scanner));
    data->maxsat = true; /* MaxSAT files of 2022 have no header */
    TRY(set_variables(data, 0));
done:
    return status;
}

/* The weight of literal v = value; an unlisted one weighs 1, unless its opposite is listed: then 1 less that. */
static double literal_weight(const formula *data, int64_t v, int64_t value)
{
    double own = value == 1 ? data->positive[v] : data->negative[v];
    double other = value == 1 ? data->negative[v] : data->positive[v];
    return !isnan(own) ? own : !isnan(other) ? 1 - other : 1;
}

static tensum_status read_file(const ts_input *input, formula *data)
{
    tensum_status status = TENSUM_OK;
    ts_scanner scanner;
    bool header;
    double top;
    size_t promised = 0;
    TRY(ts_reserve(1, sizeof *data->literals, "literals", &data->literal_capacity, &data->literals)); /* never NULL: of empty clauses too */
    TRY(read_header(input, data, &header, &top, &promised));
    ts_scanner_start(&scanner, input);
    while (ts_scan(&scanner)) {
        if (ts_token_is(&scanner, "c")) {
            if (!data->maxsat) {
                TRY(read_comment(&scanner, data));
            }
            (void)ts_scan_next_line(&scanner);
            continue;
        }
        if (input->bytes[scanner.token] == 'c' || ts_token_is(&scanner, "p")) {
            (void)ts_scan_next_line(&scanner); /* "comment", or the header again */
            continue;
        }
        if (ts_token_is(&scanner, "%")) {
            break; /* SATLIB ends so */
        }
        if (ts_token_is(&scanner, "w") && !data->maxsat) {
            TRY(read_weight(&scanner, data, true));
            continue;
        }
        if (!data->maxsat) {
            TRY(read_clause(&scanner, data, INFINITY, false));
            continue;
        }
        double weight = INFINITY;
        if (!ts_token_is(&scanner, "h") || header) {
            TRY(weight_token(&scanner, &weight));
            if (weight < 0) {
                status = ts_scan_fail(&scanner, "a weight of at least 0");
                goto done;
            }
            weight = weight >= top ? INFINITY : weight;
        }
        if (!ts_scan(&scanner)) {
            status = ts_input_fail(input, input->length, "expected literals, found the end of the file");
            goto done;
        }
        TRY(read_clause(&scanner, data, weight, !header));
    }
    if (header && data->clause_count != promised) {
        status = ts_input_fail(input, input->length, "expected %zu clauses, found %zu", promised, data->clause_count);
        goto done;
    }
    for (int64_t v = 0; v < data->variable_count; v++) { /* known only when all weights have been read */
        for (int value = 0; value < 2; value++) {
            if (literal_weight(data, v, value) < 0) {
                status = ts_input_fail(input, input->length, "expected the weight of literal %lld too: it would be 1 - %g, less than 0",
                                       (long long)(value ? v + 1 : -(v + 1)), literal_weight(data, v, !value));
                goto done;
            }
        }
    }
done:
    return status;
}

static bool holds(const formula *data, const clause *c, const int64_t *x)
{
    for (size_t i = c->first; i < c->first + c->count; i++) {
        int64_t literal = data->literals[i];
        if (x[(literal < 0 ? -literal : literal) - 1] == (literal > 0)) {
            return true;
        }
    }
    return false;
}

static bool score(const void *pointer, const int64_t *x, double *objective)
{
    const formula *data = pointer;
    double sum = 0;
    for (size_t i = 0; i < data->clause_count && !data->projected; i++) {
        if (!holds(data, &data->clauses[i], x)) {
            if (isinf(data->clauses[i].weight)) {
                return false;
            }
            sum += data->clauses[i].weight;
        }
    }
    for (int64_t v = 0; v < data->variable_count && data->weighted; v++) {
        if (!data->projected || data->shown[v]) {
            sum += log(literal_weight(data, v, x[v]));
        }
    }
    *objective = sum;
    return true;
}

static tensum_status build(const formula *data, ts_model *model)
{
    tensum_status status = TENSUM_OK;
    uint8_t *hidden = NULL;
    for (size_t i = 0; i < data->clause_count; i++) {
        const clause *c = &data->clauses[i];
        TRY(ts_model_add_clause(model, (int64_t)c->count, data->literals + c->first, -c->weight));
    }
    if (data->projected) { /* is there any value of the hidden variables? */
        TRY(ts_allocate_zero((size_t)model->variable_count, 1, "variables", &hidden));
        for (int64_t v = 0; v < model->variable_count; v++) {
            hidden[v] = v >= data->variable_count || !data->shown[v];
        }
        TRY(ts_model_eliminate(model, hidden, TENSUM_MAX_PLUS));
    }
    for (int64_t v = 0; v < data->variable_count && data->weighted; v++) {
        if (!data->projected || data->shown[v]) {
            TRY(ts_model_add_one(model, v, log(literal_weight(data, v, 0)), log(literal_weight(data, v, 1))));
        }
    }
done:
    ts_free(hidden);
    return status;
}

static tensum_status format(const tensum_problem *problem, const void *pointer, const tensum_answer *answer, ts_text *text)
{
    const formula *data = pointer;
    bool count = strcmp(problem->task, "count") == 0;
    if (count && data->maxsat) {
        ts_text_add(text, "c number of assignments that satisfy the hard clauses\n");
    }
    if (data->maxsat && !count) {
        ts_text_add(text, "o %s\ns OPTIMUM FOUND\n", answer->value_text != NULL ? answer->value_text : "0");
    } else {
        bool none = count && (answer->log10 ? answer->value == -INFINITY : strcmp(answer->value_text, "0") == 0);
        ts_text_add(text, "s %s\n", none ? "UNSATISFIABLE" : "SATISFIABLE");
    }
    if (count) {
        const char *type = data->type[0] != 0 ? data->type
                           : data->projected  ? (data->weighted ? "pwmc" : "pmc")
                                              : (data->weighted ? "wmc" : "mc");
        ts_text_add(text, "c s type %s\nc s log10-estimate ", type);
        ts_text_add_real(text, answer->log10 ? answer->value : log10(answer->value));
        if (answer->log10) {
            ts_text_add(text, "\nc s exact double prec-sci ");
            double whole = floor(answer->value);
            ts_text_add(text, "%.15ge%+.0f\n", pow(10, answer->value - whole), whole);
        } else {
            ts_text_add(text, "\nc s exact arb int %s\n", answer->value_text);
        }
    }
    for (int64_t i = 0; i < answer->assignment_count; i++) {
        ts_text_add(text, "v");
        for (int64_t v = 0; v < answer->variable_count; v++) {
            if (!data->projected || data->shown[v]) {
                ts_text_add(text, " %lld", (long long)(answer->assignments[i * answer->variable_count + v] == 1 ? v + 1 : -(v + 1)));
            }
        }
        ts_text_add(text, " 0\n");
    }
    for (int64_t v = 0; v < answer->marginal_count; v++) {
        ts_text_add(text, "p %lld ", (long long)v + 1);
        const double *p = answer->marginals + answer->marginal_offsets[v];
        ts_text_add_real(text, answer->marginal_offsets[v + 1] - answer->marginal_offsets[v] == 2 ? p[1] : NAN);
        ts_text_add(text, "\n");
    }
    return text->status;
}

static bool recognize(const ts_input *input)
{
    ts_scanner scanner;
    ts_scanner_start(&scanner, input);
    do {
        if (ts_scan_in_line(&scanner) && ts_token_is(&scanner, "p")) {
            return ts_scan_in_line(&scanner) && (ts_token_is(&scanner, "cnf") || ts_token_is(&scanner, "wcnf"));
        }
    } while (ts_scan_next_line(&scanner));
    return false;
}

static tensum_status read(const ts_input *input, const tensum_problem_options *options, tensum_problem *problem)
{
    tensum_status status = TENSUM_OK;
    formula *data = NULL;
    ts_model *model = NULL;
    TRY(ts_allocate_zero(1, sizeof *data, "a formula", &data));
    TRY(read_file(input, data));
    TRY(ts_model_create(problem, data->variable_count, data->maxsat ? -1 : 1, &model));
    model->weights = data->weighted;
    model->score = score;
    model->format = format;
    TRY(build(data, model));
    ts_text_add(&problem->note, "%lld variables, %zu clauses%s%s%s", (long long)data->variable_count, data->clause_count,
                data->weighted ? ", weighted: values are logarithms of weights" : "", data->projected ? ", projected" : "",
                data->maxsat ? "; minimise the weight of broken soft clauses" : "");
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

const ts_front_end ts_front_end_cnf = {
    .name = "cnf",
    .summary = "propositional formulas: model counting (weighted, projected), satisfying assignments",
    .tasks = "count best count-best best-k all-best sample marginals",
    .suffixes = ".cnf",
    .settings = TS_MODEL_SETTINGS,
    .recognize = recognize,
    .read = read,
    .solve = ts_model_solve,
    .destroy = ts_model_destroy,
};

static bool never(const ts_input *input)
{
    (void)input;
    return false; /* cnf recognises both; the reader tells them apart */
}

const ts_front_end ts_front_end_maxsat = {
    .name = "maxsat",
    .summary = "weighted partial MaxSAT (wcnf, old and new): cheapest assignment",
    .tasks = TS_MODEL_TASKS,
    .suffixes = ".wcnf",
    .settings = TS_MODEL_SETTINGS,
    .recognize = never,
    .read = read,
    .solve = ts_model_solve,
    .destroy = ts_model_destroy,
};
