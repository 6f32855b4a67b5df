/* Marginal MAP: the most probable values of the query variables, all others summed out. A mixed network: sums come
 * first, so the variables outside the query are eliminated by log_sum_exp, component by component. */
#include <math.h>

#include "problems/model.h"
#include "problems/uai.h"

static const double ln_10 = 2.302585092994045684;

/* The model in logarithms; fixed[v] >= 0 holds a variable to a value. Caller's to destroy. */
static tensum_status logarithms(const ts_uai_model *uai, const int64_t *fixed, ts_model **out)
{
    tensum_status status = TENSUM_OK;
    ts_model *model = NULL;
    double *table = NULL;
    TRY(ts_model_new(uai->variable_count, 1, &model));
    for (int64_t v = 0; v < uai->variable_count; v++) {
        model->cards[v] = uai->cards[v];
    }
    for (int64_t f = 0; f < uai->factor_count; f++) {
        int64_t first = uai->table_offsets[f], size = uai->table_offsets[f + 1] - first;
        TRY(ts_allocate((size_t)size, sizeof *table, "a table", &table));
        for (int64_t i = 0; i < size; i++) {
            table[i] = log(uai->tables[first + i]);
        }
        TRY(ts_model_add(model, (int32_t)(uai->scope_offsets[f + 1] - uai->scope_offsets[f]),
                         uai->scopes + uai->scope_offsets[f], table));
        ts_free(table);
        table = NULL;
    }
    for (int64_t v = 0; v < uai->variable_count; v++) {
        if (fixed[v] < 0) {
            continue;
        }
        TRY(ts_allocate((size_t)uai->cards[v], sizeof *table, "a table", &table));
        for (int64_t x = 0; x < uai->cards[v]; x++) {
            table[x] = x == fixed[v] ? 0 : -INFINITY;
        }
        TRY(ts_model_add(model, 1, &v, table));
        ts_free(table);
        table = NULL;
    }
    *out = model;
    model = NULL;
done:
    ts_free(table);
    ts_model_destroy(model);
    return status;
}

tensum_status ts_uai_read_mmap(const tensum_problem_options *options, tensum_problem *problem, ts_uai_model *uai)
{
    tensum_status status = TENSUM_OK;
    ts_input input = {0};
    ts_model *model = NULL;
    uint8_t *summed = NULL;
    int64_t pairs;
    if (options->query == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "task 'mmap' needs a query file (--query)");
    }
    if (problem->semiring != TENSUM_MAX_PLUS || problem->dtype != TENSUM_F64) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "task 'mmap' is computed in max_plus over f64");
    }
    TRY(ts_setting_integer(options, "pairs", 0, 1, 0, &pairs));
    uai->pairs = pairs == 1;
    TRY(ts_input_read(options->query, &input));
    TRY(ts_uai_read_query(&input, uai, &uai->query_count, &uai->query));
    TRY(ts_allocate((size_t)uai->variable_count, 1, "variables", &summed));
    memset(summed, 1, (size_t)uai->variable_count);
    for (int64_t i = 0; i < uai->query_count; i++) {
        summed[uai->query[i]] = 0;
    }
    TRY(logarithms(uai, uai->evidence, &model));
    TRY(ts_model_eliminate(model, summed, TENSUM_LOG_SUM_EXP));
    for (size_t f = 0; f < model->factor_count; f++) {
        const ts_factor *factor = &model->factors[f];
        const int64_t *scope = model->scope + factor->first_scope;
        int64_t extents[64];
        if (factor->arity > 64) {
            status = ts_fail(TENSUM_STATUS_UNSUPPORTED, "a factor over %d variables", (int)factor->arity);
            goto done;
        }
        for (int32_t m = 0; m < factor->arity; m++) {
            extents[m] = model->cards[scope[m]];
        }
        TRY(ts_problem_add(problem, factor->arity, scope, extents, model->values + factor->first_value, NULL));
    }
    for (int64_t i = 0; i < uai->query_count; i++) { /* so that every query variable is in the network */
        TRY(ts_problem_add(problem, 1, &uai->query[i], &uai->cards[uai->query[i]], NULL, NULL));
    }
    problem->modes |= TENSUM_DECODE;
    ts_text_add(&problem->note, "%lld variables, %lld factors, maximise over %lld, sum over the rest", (long long)uai->variable_count,
                (long long)uai->factor_count, (long long)uai->query_count);
done:
    ts_input_free(&input);
    ts_free(summed);
    ts_model_destroy(model);
    return status;
}

/* log of the sum over all other variables with the query held fixed, from the file's tables. */
static tensum_status score(const ts_uai_model *uai, const int64_t *fixed, double *value)
{
    tensum_status status = TENSUM_OK;
    ts_model *model = NULL;
    uint8_t *all = NULL;
    TRY(logarithms(uai, fixed, &model));
    TRY(ts_allocate((size_t)uai->variable_count, 1, "variables", &all));
    memset(all, 1, (size_t)uai->variable_count);
    TRY(ts_model_eliminate(model, all, TENSUM_LOG_SUM_EXP));
    *value = 0;
    for (size_t f = 0; f < model->factor_count; f++) {
        *value += model->values[model->factors[f].first_value]; /* numbers are all that is left */
    }
done:
    ts_free(all);
    ts_model_destroy(model);
    return status;
}

tensum_status ts_uai_answer_mmap(const tensum_problem *problem, const ts_result *result, tensum_answer *answer)
{
    tensum_status status = TENSUM_OK;
    const ts_uai_model *uai = problem->state;
    double found = *(const double *)result->value, scored = 0;
    int64_t *fixed = NULL, *row;
    ts_text text = {0};
    TRY(ts_allocate((size_t)uai->variable_count, sizeof *fixed, "an assignment", &fixed));
    memcpy(fixed, uai->evidence, (size_t)uai->variable_count * sizeof *fixed);
    const int64_t *labels = tensum_network_labels(problem->network);
    for (int64_t l = 0; l < tensum_network_label_count(problem->network); l++) {
        fixed[labels[l]] = result->assignment[l];
    }
    TRY(ts_allocate((size_t)uai->query_count, sizeof *row, "an assignment", &row));
    answer->assignments = row;
    answer->assignment_count = 1;
    answer->variable_count = uai->query_count;
    ts_text_add(&text, "MMAP\n%lld", (long long)uai->query_count);
    for (int64_t i = 0; i < uai->query_count; i++) {
        row[i] = fixed[uai->query[i]];
        if (uai->pairs) {
            ts_text_add(&text, " %lld", (long long)uai->query[i]);
        }
        ts_text_add(&text, " %lld", (long long)row[i]);
    }
    ts_text_add(&text, "\n");
    TRY(score(uai, fixed, &scored));
    if (!(fabs(scored - found) <= 1e-9 * (1 + fabs(found)))) {
        status = ts_fail(TENSUM_STATUS_INTERNAL, "%.300s: the assignment scores %.17g, but the run found %.17g (natural logarithms)",
                         problem->name, scored, found);
        goto done;
    }
    answer->log10 = true;
    answer->value = scored / ln_10;
    TRY(ts_text_take(&text, &answer->text));
done:
    ts_text_free(&text);
    ts_free(fixed);
    return status;
}
