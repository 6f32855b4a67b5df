/* Front end for graphical models in the UAI format: most probable assignment, partition function, marginals.
 *
 * Tables enter as logarithms, so that a partition function of 10^1300 or 10^-300 needs no more than f32 can hold.
 * A marginal is the derivative of log Z with respect to the logarithm of a table of ones on the variable alone. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "problems/uai.h"

static const double ln_10 = 2.302585092994045684;

static bool recognize(const ts_input *input)
{
    ts_scanner scanner;
    ts_scanner_start(&scanner, input);
    return ts_scan(&scanner) && (ts_token_is(&scanner, "MARKOV") || ts_token_is(&scanner, "BAYES"));
}

static void destroy(void *state)
{
    if (state != NULL) {
        ts_uai_free(state);
        ts_free(state);
    }
}

/* The semiring: the logarithmic one of the task, or the plain one if asked for. */
static tensum_status choose_algebra(const tensum_problem_options *options, tensum_problem *problem)
{
    bool best = strcmp(problem->task, "map") == 0 || strcmp(problem->task, "mmap") == 0;
    tensum_semiring standard = best ? TENSUM_MAX_PLUS : TENSUM_LOG_SUM_EXP;
    tensum_semiring plain = best ? TENSUM_MAX_TIMES : TENSUM_SUM_PRODUCT;
    problem->semiring = options->semiring < 0 ? standard : (tensum_semiring)options->semiring;
    problem->dtype = options->dtype < 0 ? TENSUM_F64 : (tensum_dtype)options->dtype;
    if (problem->semiring != standard && problem->semiring != plain) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "task '%s' cannot be computed in %s, expected %s or %s", problem->task,
                       tensum_semiring_name(problem->semiring), tensum_semiring_name(standard),
                       tensum_semiring_name(plain));
    }
    if (problem->dtype != TENSUM_F16 && problem->dtype != TENSUM_BF16 && problem->dtype != TENSUM_F32 &&
        problem->dtype != TENSUM_F64) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "dtype %s cannot hold probabilities, expected f64, f32, bf16 or f16",
                       tensum_dtype_name(problem->dtype));
    }
    return TENSUM_OK;
}

static tensum_status read_evidence(const tensum_problem_options *options, ts_uai_model *model)
{
    tensum_status status = TENSUM_OK;
    ts_input input = {0};
    int64_t sample;
    TRY(ts_setting_integer(options, "sample", 0, INT64_MAX, 0, &sample));
    if (options->evidence != NULL) {
        TRY(ts_input_read(options->evidence, &input));
        TRY(ts_uai_read_evidence(&input, sample, model));
        ts_input_free(&input);
        input = (ts_input){0};
    }
    const char *soft = ts_setting(options, "soft");
    if (soft != NULL) {
        TRY(ts_input_read(soft, &input));
        TRY(ts_uai_read_soft(&input, model));
    }
done:
    ts_input_free(&input);
    return status;
}

static tensum_status read_uai(const ts_input *input, const tensum_problem_options *options, tensum_problem *problem)
{
    tensum_status status = TENSUM_OK;
    ts_uai_model *model;
    bool marginals = strcmp(problem->task, "mar") == 0, best = strcmp(problem->task, "map") == 0;
    bool mixed = strcmp(problem->task, "mmap") == 0;
    if (options->query != NULL && !mixed) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "task '%s' takes no query", problem->task);
    }
    TRY(choose_algebra(options, problem));
    TRY(ts_allocate_zero(1, sizeof *model, "a model", &model));
    problem->state = model;
    TRY(ts_uai_read_model(input, model));
    TRY(read_evidence(options, model));
    if (mixed) {
        return ts_uai_read_mmap(options, problem, model);
    }
    bool logarithms = problem->semiring == TENSUM_MAX_PLUS || problem->semiring == TENSUM_LOG_SUM_EXP;
    TRY(ts_uai_add_factors(problem, model, logarithms, marginals));
    problem->modes |= best ? (unsigned)TENSUM_DECODE : marginals ? (unsigned)TENSUM_GRADIENT : 0u;
    int64_t observed = 0;
    for (int64_t v = 0; v < model->variable_count; v++) {
        observed += model->evidence[v] >= 0;
    }
    ts_text_add(&problem->note, "%lld variables, %lld factors, %lld observed", (long long)model->variable_count,
                (long long)model->factor_count, (long long)observed);
done:
    return status;
}

static double unit_roundoff(tensum_dtype dtype)
{
    return dtype == TENSUM_F64   ? DBL_EPSILON
           : dtype == TENSUM_F32 ? (double)FLT_EPSILON
           : dtype == TENSUM_F16 ? 0x1p-10
                                 : 0x1p-7;
}

/* The run's value as a natural logarithm. */
static tensum_status value_as_log(const tensum_problem *problem, const ts_result *result, double *value)
{
    tensum_tensor from = {(void *)(uintptr_t)result->value, problem->dtype, 0, NULL, NULL, {TENSUM_CPU, 0}};
    double number;
    tensum_tensor to = {&number, TENSUM_F64, 0, NULL, NULL, {TENSUM_CPU, 0}};
    tensum_status status = tensum_convert(&from, &to);
    if (status != TENSUM_OK) {
        return status;
    }
    if (isnan(number)) {
        return ts_fail(TENSUM_STATUS_NOT_A_NUMBER, "%.300s: the result is not a number", problem->name);
    }
    if (isinf(number) && number > 0) {
        return ts_fail(TENSUM_STATUS_DOMAIN, "%.300s: the value does not fit into %s in %s", problem->name,
                       tensum_dtype_name(problem->dtype), tensum_semiring_name(problem->semiring));
    }
    bool plain = problem->semiring == TENSUM_SUM_PRODUCT || problem->semiring == TENSUM_MAX_TIMES;
    *value = plain ? log(number) : number;
    return TENSUM_OK;
}

static tensum_status answer_map(const tensum_problem *problem, const ts_result *result, double run_value,
                                tensum_answer *answer)
{
    tensum_status status = TENSUM_OK;
    const ts_uai_model *model = problem->state;
    ts_text text = {0};
    int64_t *x, n = model->variable_count;
    TRY(ts_allocate((size_t)n, sizeof *x, "an assignment", &x));
    answer->assignments = x;
    answer->assignment_count = 1;
    answer->variable_count = n;
    for (int64_t v = 0; v < n; v++) {
        x[v] = model->evidence[v] >= 0 ? model->evidence[v] : 0;
    }
    const int64_t *labels = tensum_network_labels(problem->network);
    for (int64_t l = 0; l < tensum_network_label_count(problem->network); l++) {
        x[labels[l]] = result->assignment[l];
    }
    double magnitude, score = ts_uai_score(model, x, &magnitude);
    /* Every rounding of the run is at most a unit of the partial sums, which the magnitudes bound. */
    double slack = 2.0 * (double)(model->factor_count + 1) * unit_roundoff(problem->dtype) * (magnitude + 1.0);
    if (!(fabs(score - run_value) <= slack)) {
        status = ts_fail(TENSUM_STATUS_INTERNAL,
                         "%.300s: the assignment scores %.17g, but the run found %.17g (natural logarithms)",
                         problem->name, score, run_value);
        goto done;
    }
    answer->log10 = true;
    answer->value = score / ln_10;
    ts_text_add(&text, "MAP\n%lld", (long long)n);
    for (int64_t v = 0; v < n; v++) {
        ts_text_add(&text, " %lld", (long long)x[v]);
    }
    ts_text_add(&text, "\n");
    TRY(ts_text_take(&text, &answer->text));
done:
    ts_text_free(&text);
    return status;
}

/* Probabilities of one variable from the gradient of its own operand; they need not be normalised. */
static tensum_status read_marginal(const tensum_tensor *gradient, int64_t card, double *p)
{
    tensum_tensor to = {p, TENSUM_F64, 1, &card, NULL, {TENSUM_CPU, 0}};
    double sum = 0;
    tensum_status status = tensum_convert(gradient, &to);
    for (int64_t i = 0; status == TENSUM_OK && i < card; i++) {
        sum += p[i];
    }
    if (status == TENSUM_OK && !(sum > 0)) {
        status = ts_fail(TENSUM_STATUS_NOT_A_NUMBER, "the marginals of a variable add up to %g", sum);
    }
    for (int64_t i = 0; status == TENSUM_OK && i < card; i++) {
        p[i] /= sum;
    }
    return status;
}

static tensum_status answer_mar(const tensum_problem *problem, const ts_result *result, tensum_answer *answer)
{
    tensum_status status = TENSUM_OK;
    const ts_uai_model *model = problem->state;
    ts_text text = {0};
    int64_t n = model->variable_count, total = 0;
    TRY(ts_allocate((size_t)n + 1, sizeof *answer->marginal_offsets, "marginals", &answer->marginal_offsets));
    for (int64_t v = 0; v <= n; v++) {
        answer->marginal_offsets[v] = total;
        total += v < n ? model->cards[v] : 0;
    }
    TRY(ts_allocate_zero((size_t)total, sizeof *answer->marginals, "marginals", &answer->marginals));
    answer->marginal_count = n;
    ts_text_add(&text, "MAR\n%lld", (long long)n);
    for (int64_t v = 0; v < n; v++) {
        double *p = answer->marginals + answer->marginal_offsets[v];
        if (model->evidence[v] >= 0) {
            p[model->evidence[v]] = 1.0;
        } else {
            TRY(read_marginal(&result->gradients[model->unary[v]], model->cards[v], p));
        }
        ts_text_add(&text, " %lld", (long long)model->cards[v]);
        for (int64_t i = 0; i < model->cards[v]; i++) {
            ts_text_add(&text, " ");
            ts_text_add_real(&text, p[i]);
        }
    }
    ts_text_add(&text, "\n");
    TRY(ts_text_take(&text, &answer->text));
done:
    ts_text_free(&text);
    return status;
}

static tensum_status answer_uai(const tensum_problem *problem, const ts_result *result, tensum_answer *answer)
{
    tensum_status status = TENSUM_OK;
    ts_text text = {0};
    double value = 0;
    if (strcmp(problem->task, "mmap") == 0) {
        return ts_uai_answer_mmap(problem, result, answer);
    }
    TRY(value_as_log(problem, result, &value));
    if (strcmp(problem->task, "map") == 0) {
        return answer_map(problem, result, value, answer);
    }
    answer->log10 = true;
    answer->value = value / ln_10;
    if (strcmp(problem->task, "mar") == 0) {
        if (value == -INFINITY) {
            return ts_fail(TENSUM_STATUS_INFEASIBLE, "%.300s: no assignment has a probability above zero", problem->name);
        }
        return answer_mar(problem, result, answer);
    }
    ts_text_add(&text, "PR\n");
    ts_text_add_real(&text, answer->value);
    ts_text_add(&text, "\n");
    TRY(ts_text_take(&text, &answer->text));
done:
    return status;
}

const ts_front_end ts_front_end_uai = {
    .name = "uai",
    .summary = "graphical models (UAI): most probable assignment (also of some variables), partition function, marginals",
    .tasks = "map|mpe pr mar mmap",
    .suffixes = ".uai .erg",
    .settings = "sample pairs soft",
    .recognize = recognize,
    .read = read_uai,
    .answer = answer_uai,
    .destroy = destroy,
};
