/* Reading UAI models, evidence and queries. The model is a stream of tokens: a word, the number of variables, their
 * cardinalities, the number of factors, a scope per factor, a table per factor. */
#include <math.h>
#include <stdio.h>

#include "problems/uai.h"

#define MOST_FREE_VALUES (1 << 20)

void ts_uai_free(ts_uai_model *model)
{
    ts_free(model->cards);
    ts_free(model->evidence);
    ts_free(model->scope_offsets);
    ts_free(model->scopes);
    ts_free(model->table_offsets);
    ts_free(model->tables);
    ts_free(model->unary);
    ts_free(model->query);
    *model = (ts_uai_model){0};
}

static tensum_status read_scopes(ts_scanner *scanner, ts_uai_model *model)
{
    tensum_status status = TENSUM_OK;
    size_t capacity = 0;
    int64_t used = 0, *last_factor = NULL; /* the last factor that has the variable, plus 1 */
    char what[80];
    TRY(ts_allocate_zero((size_t)model->variable_count, sizeof *last_factor, "variables", &last_factor));
    TRY(ts_allocate((size_t)model->factor_count + 1, sizeof *model->scope_offsets, "factors", &model->scope_offsets));
    for (int64_t f = 0; f < model->factor_count; f++) {
        int64_t length;
        model->scope_offsets[f] = used;
        snprintf(what, sizeof what, "the number of variables of factor %lld", (long long)f);
        TRY(ts_scan_count(scanner, what, 2, &length));
        snprintf(what, sizeof what, "a variable of factor %lld", (long long)f);
        for (int64_t i = 0; i < length; i++) {
            int64_t variable;
            TRY(ts_scan_integer(scanner, what, 0, model->variable_count - 1, &variable));
            if (last_factor[variable] == f + 1) {
                status = ts_input_fail(scanner->input, scanner->token, "variable %lld occurs twice in factor %lld",
                                       (long long)variable, (long long)f);
                goto done;
            }
            last_factor[variable] = f + 1;
            TRY(ts_reserve((size_t)used + 1, sizeof *model->scopes, "scopes", &capacity, &model->scopes));
            model->scopes[used++] = variable;
        }
    }
    model->scope_offsets[model->factor_count] = used;
done:
    ts_free(last_factor);
    return status;
}

static tensum_status read_tables(ts_scanner *scanner, ts_uai_model *model)
{
    tensum_status status = TENSUM_OK;
    size_t capacity = 0;
    int64_t used = 0;
    char what[80];
    TRY(ts_allocate((size_t)model->factor_count + 1, sizeof *model->table_offsets, "factors", &model->table_offsets));
    for (int64_t f = 0; f < model->factor_count; f++) {
        int64_t size, product = 1;
        model->table_offsets[f] = used;
        snprintf(what, sizeof what, "the size of table %lld", (long long)f);
        TRY(ts_scan_count(scanner, what, 2, &size));
        for (int64_t i = model->scope_offsets[f]; i < model->scope_offsets[f + 1]; i++) {
            if (!ts_multiply(product, model->cards[model->scopes[i]], &product)) {
                product = -1;
                break;
            }
        }
        if (size != product) {
            status = ts_input_fail(scanner->input, scanner->token,
                                   "table %lld has %lld entries, expected the product of its cardinalities, %lld",
                                   (long long)f, (long long)size, (long long)product);
            goto done;
        }
        TRY(ts_reserve((size_t)(used + size), sizeof *model->tables, "tables", &capacity, &model->tables));
        snprintf(what, sizeof what, "an entry of table %lld", (long long)f);
        for (int64_t i = 0; i < size; i++) {
            double value;
            TRY(ts_scan_real(scanner, what, &value));
            if (value < 0.0) {
                snprintf(what, sizeof what, "an entry of table %lld (not negative)", (long long)f);
                status = ts_scan_fail(scanner, what);
                goto done;
            }
            model->tables[used++] = value;
        }
    }
    model->table_offsets[model->factor_count] = used;
done:
    return status;
}

tensum_status ts_uai_read_model(const ts_input *input, ts_uai_model *out)
{
    tensum_status status = TENSUM_OK;
    ts_scanner scanner;
    ts_uai_model model = {0};
    ts_scanner_start(&scanner, input);
    if (!ts_scan(&scanner) || (!ts_token_is(&scanner, "MARKOV") && !ts_token_is(&scanner, "BAYES"))) {
        return ts_scan_fail(&scanner, "MARKOV or BAYES");
    }
    TRY(ts_scan_count(&scanner, "the number of variables", 2, &model.variable_count));
    TRY(ts_allocate((size_t)model.variable_count, sizeof *model.cards, "variables", &model.cards));
    TRY(ts_allocate((size_t)model.variable_count, sizeof *model.evidence, "variables", &model.evidence));
    TRY(ts_allocate((size_t)model.variable_count, sizeof *model.unary, "variables", &model.unary));
    for (int64_t v = 0; v < model.variable_count; v++) {
        TRY(ts_scan_integer(&scanner, "a cardinality", 1, INT32_MAX, &model.cards[v]));
        model.evidence[v] = -1;
        model.unary[v] = -1;
    }
    TRY(ts_scan_count(&scanner, "the number of factors", 2, &model.factor_count));
    TRY(read_scopes(&scanner, &model));
    TRY(read_tables(&scanner, &model));
    TRY(ts_scan_end(&scanner));
    *out = model;
    model = (ts_uai_model){0};
done:
    ts_uai_free(&model);
    return status;
}

/* ---- evidence ---- */

typedef struct tokens {
    int64_t *values;
    size_t *offsets; /* bytes in the input */
    int64_t count;
} tokens;

static tensum_status read_tokens(const ts_input *input, tokens *out)
{
    tensum_status status = TENSUM_OK;
    ts_scanner scanner;
    tokens t = {0};
    size_t value_capacity = 0, offset_capacity = 0;
    ts_scanner_start(&scanner, input);
    while (ts_scan(&scanner)) {
        TRY(ts_reserve((size_t)t.count + 1, sizeof *t.values, "evidence", &value_capacity, &t.values));
        TRY(ts_reserve((size_t)t.count + 1, sizeof *t.offsets, "evidence", &offset_capacity, &t.offsets));
        TRY(ts_token_integer(&scanner, "a count, a variable or a value", 0, INT64_MAX, &t.values[t.count]));
        t.offsets[t.count++] = scanner.token;
    }
    *out = t;
    return TENSUM_OK;
done:
    ts_free(t.values);
    ts_free(t.offsets);
    return status;
}

/* First token of the sample, by lines: the first line holds the number of samples, each further one a sample. */
static tensum_status find_sample(const ts_input *input, const tokens *t, int64_t sample, int64_t *first)
{
    int64_t token = 1;
    size_t line_end = t->count > 1 ? t->offsets[1] : input->length;
    if (t->count > 1 && memchr(input->bytes + t->offsets[0], '\n', line_end - t->offsets[0]) == NULL) {
        return ts_input_fail(input, t->offsets[0],
                             "expected %lld pairs of variable and value after the count, or the number of samples alone "
                             "on the first line",
                             (long long)t->values[0]);
    }
    if (sample >= t->values[0]) {
        return ts_input_fail(input, t->offsets[0], "there are %lld samples, sample %lld is asked for",
                             (long long)t->values[0], (long long)sample);
    }
    for (int64_t s = 0; s < t->values[0]; s++) {
        if (token >= t->count) {
            return ts_input_fail(input, input->length, "expected %lld samples, found %lld", (long long)t->values[0],
                                 (long long)s);
        }
        int64_t pairs = t->values[token];
        if (pairs > (t->count - token - 1) / 2) {
            return ts_input_fail(input, t->offsets[token], "expected %lld pairs of variable and value in sample %lld",
                                 (long long)pairs, (long long)s);
        }
        int64_t next = token + 1 + 2 * pairs;
        const char *line = input->bytes + t->offsets[token];
        const char *newline = memchr(line, '\n', input->length - t->offsets[token]);
        size_t end = newline != NULL ? (size_t)(newline - input->bytes) : input->length;
        if (t->offsets[next - 1] > end || (next < t->count && t->offsets[next] < end)) {
            return ts_input_fail(input, t->offsets[token], "expected sample %lld, %lld pairs, on one line", (long long)s,
                                 (long long)pairs);
        }
        if (s == sample) {
            *first = token;
        }
        token = next;
    }
    if (token != t->count) {
        return ts_input_fail(input, t->offsets[token], "expected the end of the file after %lld samples",
                             (long long)t->values[0]);
    }
    return TENSUM_OK;
}

tensum_status ts_uai_read_evidence(const ts_input *input, int64_t sample, ts_uai_model *model)
{
    tensum_status status = TENSUM_OK;
    tokens t = {0};
    int64_t first = 0; /* token with the number of pairs */
    TRY(read_tokens(input, &t));
    if (t.count == 0) {
        goto done; /* an empty file observes nothing */
    }
    bool plain = t.count % 2 == 1 && t.values[0] == (t.count - 1) / 2;
    bool one_sample = t.count % 2 == 0 && t.values[0] == 1 && t.values[1] == (t.count - 2) / 2;
    if (one_sample) {
        first = 1;
    } else if (!plain) {
        TRY(find_sample(input, &t, sample, &first));
    }
    if ((plain || one_sample) && sample != 0) {
        status = ts_input_fail(input, 0, "there is one sample, sample %lld is asked for", (long long)sample);
        goto done;
    }
    for (int64_t i = first + 1; i < first + 1 + 2 * t.values[first]; i += 2) {
        int64_t variable = t.values[i], value = t.values[i + 1];
        if (variable >= model->variable_count) {
            status = ts_input_fail(input, t.offsets[i], "expected a variable from 0 to %lld, found %lld",
                                   (long long)(model->variable_count - 1), (long long)variable);
            goto done;
        }
        if (value >= model->cards[variable]) {
            status = ts_input_fail(input, t.offsets[i + 1], "expected a value of variable %lld from 0 to %lld, found %lld",
                                   (long long)variable, (long long)(model->cards[variable] - 1), (long long)value);
            goto done;
        }
        if (model->evidence[variable] >= 0 && model->evidence[variable] != value) {
            status = ts_input_fail(input, t.offsets[i], "variable %lld is observed as %lld and as %lld",
                                   (long long)variable, (long long)model->evidence[variable], (long long)value);
            goto done;
        }
        model->evidence[variable] = value;
    }
done:
    ts_free(t.values);
    ts_free(t.offsets);
    return status;
}

tensum_status ts_uai_read_query(const ts_input *input, const ts_uai_model *model, int64_t *count, int64_t **variables)
{
    tensum_status status = TENSUM_OK;
    ts_scanner scanner;
    int64_t wanted, *list = NULL;
    uint8_t *seen = NULL;
    ts_scanner_start(&scanner, input);
    TRY(ts_scan_count(&scanner, "the number of query variables", 2, &wanted));
    TRY(ts_allocate((size_t)wanted, sizeof *list, "query variables", &list));
    TRY(ts_allocate_zero((size_t)model->variable_count, 1, "query variables", &seen));
    for (int64_t i = 0; i < wanted; i++) {
        TRY(ts_scan_integer(&scanner, "a query variable", 0, model->variable_count - 1, &list[i]));
        if (seen[list[i]]++ != 0) {
            status = ts_input_fail(input, scanner.token, "query variable %lld is given twice", (long long)list[i]);
            goto done;
        }
    }
    TRY(ts_scan_end(&scanner));
    *count = wanted;
    *variables = list;
    list = NULL;
done:
    ts_free(list);
    ts_free(seen);
    return status;
}

/* ---- factors as operands ---- */

/* The part of a table that agrees with the evidence. */
tensum_status ts_uai_read_soft(const ts_input *input, ts_uai_model *model)
{
    tensum_status status = TENSUM_OK;
    ts_scanner scanner;
    int64_t count, scopes = model->scope_offsets[model->factor_count], entries = model->table_offsets[model->factor_count];
    ts_scanner_start(&scanner, input);
    TRY(ts_scan_count(&scanner, "the number of variables with soft evidence", 6, &count));
    TRY(ts_reallocate((size_t)(model->factor_count + count + 1), sizeof(int64_t), "factors", &model->scope_offsets));
    TRY(ts_reallocate((size_t)(model->factor_count + count + 1), sizeof(int64_t), "factors", &model->table_offsets));
    TRY(ts_reallocate((size_t)(scopes + count), sizeof(int64_t), "scopes", &model->scopes));
    for (int64_t i = 0; i < count; i++) {
        int64_t v, card;
        TRY(ts_scan_integer(&scanner, "a variable", 0, model->variable_count - 1, &v));
        TRY(ts_scan_integer(&scanner, "the variable's cardinality", model->cards[v], model->cards[v], &card));
        TRY(ts_reallocate((size_t)(entries + card), sizeof(double), "tables", &model->tables));
        for (int64_t x = 0; x < card; x++) {
            TRY(ts_scan_real(&scanner, "a weight", &model->tables[entries + x]));
            if (model->tables[entries + x] < 0) {
                status = ts_scan_fail(&scanner, "a weight of at least 0");
                goto done;
            }
        }
        model->scopes[scopes++] = v;
        entries += card;
        model->factor_count++;
        model->scope_offsets[model->factor_count] = scopes;
        model->table_offsets[model->factor_count] = entries;
    }
    TRY(ts_scan_end(&scanner));
done:
    return status;
}

static tensum_status add_factor(tensum_problem *problem, const ts_uai_model *model, int64_t factor, bool log_tables)
{
    tensum_status status = TENSUM_OK;
    int64_t begin = model->scope_offsets[factor], arity = model->scope_offsets[factor + 1] - begin;
    int64_t *labels = NULL, *extents, *strides, *index, stride = 1, base = 0, count = 1;
    double *values = NULL;
    int32_t rank = 0;
    TRY(ts_allocate_zero(4 * (size_t)arity, sizeof *labels, "a scope", &labels));
    extents = labels + arity;
    strides = extents + arity;
    index = strides + arity;
    for (int64_t i = arity - 1; i >= 0; i--) { /* strides of the free variables, filled from the back */
        int64_t variable = model->scopes[begin + i];
        if (model->evidence[variable] >= 0) {
            base += model->evidence[variable] * stride;
        } else {
            int64_t at = arity - 1 - rank++;
            labels[at] = variable;
            extents[at] = model->cards[variable];
            strides[at] = stride;
            count *= extents[at];
        }
        stride *= model->cards[variable];
    }
    int64_t first = arity - rank;
    TRY(ts_allocate((size_t)count, sizeof *values, "a table", &values));
    const double *table = model->tables + model->table_offsets[factor];
    for (int64_t i = 0, offset = base; i < count; i++) {
        values[i] = log_tables ? log(table[offset]) : table[offset];
        for (int64_t d = arity - 1; d >= first; d--) {
            offset += strides[d];
            if (++index[d] < extents[d]) {
                break;
            }
            offset -= strides[d] * extents[d];
            index[d] = 0;
        }
    }
    TRY(ts_problem_add(problem, rank, labels + first, extents + first, values, NULL));
done:
    ts_free(labels);
    ts_free(values);
    return status;
}

tensum_status ts_uai_add_factors(tensum_problem *problem, ts_uai_model *model, bool log_tables, bool unaries)
{
    tensum_status status = TENSUM_OK;
    uint8_t *used = NULL;
    TRY(ts_allocate_zero((size_t)model->variable_count, 1, "variables", &used));
    for (int64_t f = 0; f < model->factor_count; f++) {
        TRY(add_factor(problem, model, f, log_tables));
    }
    for (int64_t i = 0; i < model->scope_offsets[model->factor_count]; i++) {
        used[model->scopes[i]] = 1;
    }
    for (int64_t v = 0; v < model->variable_count; v++) {
        if (model->evidence[v] >= 0) {
            continue;
        }
        if (!used[v] && model->cards[v] > MOST_FREE_VALUES) { /* no table in the file stands behind that size */
            status = ts_fail(TENSUM_STATUS_UNSUPPORTED, "%.300s: variable %lld has %lld values, but no factor",
                             problem->name, (long long)v, (long long)model->cards[v]);
            goto done;
        }
        if (unaries || !used[v]) {
            TRY(ts_problem_add(problem, 1, &v, &model->cards[v], NULL, &model->unary[v]));
            problem->operands[model->unary[v]].wants_gradient = unaries;
        }
    }
done:
    ts_free(used);
    return status;
}

double ts_uai_score(const ts_uai_model *model, const int64_t *assignment, double *magnitude)
{
    long double score = 0, total = 0;
    for (int64_t f = 0; f < model->factor_count; f++) {
        int64_t entry = 0;
        for (int64_t i = model->scope_offsets[f]; i < model->scope_offsets[f + 1]; i++) {
            entry = entry * model->cards[model->scopes[i]] + assignment[model->scopes[i]];
        }
        long double term = logl((long double)model->tables[model->table_offsets[f] + entry]);
        score += term;
        total += fabsl(term);
    }
    *magnitude = (double)total;
    return (double)score;
}
