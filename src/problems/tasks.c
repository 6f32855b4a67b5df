/* The questions asked of a model: best, count, count-best, best-k, all-best, sample, marginals. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "algebra/element.h"
#include "problems/model.h"
#include "problems/residues.h"

static const double ln_10 = 2.302585092994045684;

static bool task_is(const tensum_problem *problem, const char *name) { return strcmp(problem->task, name) == 0; }

/* ---- operands ---- */

static tensum_status add_tables(tensum_problem *problem, ts_model *model)
{
    tensum_status status = TENSUM_OK;
    void *raw = NULL;
    int64_t *extents = NULL;
    size_t extent_capacity = 0, largest = 1;
    bool logarithms = task_is(problem, "sample") || task_is(problem, "marginals");
    for (size_t f = 0; f < model->factor_count; f++) {
        largest = model->factors[f].value_count > largest ? model->factors[f].value_count : largest;
    }
    TRY(ts_allocate(largest, sizeof(ts_vc128), "a table", &raw));
    for (size_t f = 0; f < model->factor_count; f++) {
        const ts_factor *factor = &model->factors[f];
        const double *values = model->values + factor->first_value;
        const int64_t *scope = model->scope + factor->first_scope;
        TRY(ts_reserve((size_t)factor->arity + 1, sizeof *extents, "a table", &extent_capacity, &extents));
        for (int32_t m = 0; m < factor->arity; m++) {
            extents[m] = model->cards[scope[m]];
        }
        for (size_t i = 0; i < factor->value_count; i++) {
            bool allowed = values[i] > -INFINITY;
            if (problem->semiring == TENSUM_SUM_PRODUCT_MOD) {
                ((int64_t *)raw)[i] = allowed;
            } else if (problem->semiring == TENSUM_MAX_PLUS_COUNT) {
                ((ts_vc128 *)raw)[i] = (ts_vc128){values[i], allowed ? 1 : 0};
            } else {
                ((double *)raw)[i] = logarithms && allowed ? model->beta * values[i] : values[i];
            }
        }
        TRY(ts_problem_add_raw(problem, factor->arity, scope, extents, raw, NULL));
    }
    TRY(ts_allocate((size_t)model->variable_count, sizeof *model->unary, "variables", &model->unary));
    for (int64_t v = 0; v < model->variable_count; v++) {
        TRY(ts_problem_add(problem, 1, &v, &model->cards[v], NULL, &model->unary[v]));
        problem->operands[model->unary[v]].wants_gradient = logarithms;
    }
done:
    ts_free(raw);
    ts_free(extents);
    return status;
}

tensum_status ts_model_settings(const tensum_problem_options *options, ts_model *model)
{
    const char *beta = ts_setting(options, "beta");
    model->beta = model->weights ? 1 : 0;
    if (beta != NULL && (!ts_parse_real(beta, strlen(beta), &model->beta) || !isfinite(model->beta))) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "setting beta=%s, expected a number", beta);
    }
    return ts_setting_integer(options, "seed", 0, INT64_MAX, 0, &model->seed);
}

tensum_status ts_model_setup(const tensum_problem_options *options, tensum_problem *problem)
{
    tensum_status status = TENSUM_OK;
    ts_model *model = problem->state;
    TRY(ts_model_settings(options, model));
    bool single = options->dtype == (int)TENSUM_F32;
    problem->dtype = TENSUM_F64;
    problem->semiring = TENSUM_MAX_PLUS;
    if (task_is(problem, "best") || task_is(problem, "best-k") || task_is(problem, "all-best")) {
        problem->modes |= TENSUM_DECODE;
    } else if (task_is(problem, "count")) {
        problem->semiring = model->weights ? TENSUM_LOG_SUM_EXP : TENSUM_SUM_PRODUCT_MOD;
        problem->dtype = model->weights ? TENSUM_F64 : TENSUM_I64;
        problem->modulus = model->weights ? 0 : ts_prime(0);
    } else if (task_is(problem, "count-best")) {
        problem->semiring = TENSUM_MAX_PLUS_COUNT;
        problem->dtype = TENSUM_VC128;
    } else {
        problem->semiring = TENSUM_LOG_SUM_EXP;
        problem->modes |= TENSUM_GRADIENT;
    }
    if (options->dtype >= 0 && (tensum_dtype)options->dtype != problem->dtype) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "task '%s' of front end '%s' is computed in %s%s", problem->task,
                       problem->front_end->name, tensum_dtype_name(problem->dtype),
                       single ? ", since sums of many entries have to stay exact" : "");
    }
    if (options->semiring >= 0 && (tensum_semiring)options->semiring != problem->semiring) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "task '%s' of front end '%s' is computed in %s", problem->task,
                       problem->front_end->name, tensum_semiring_name(problem->semiring));
    }
    TRY(add_tables(problem, model));
done:
    return status;
}

/* ---- runs ---- */

/* A plan, and inputs that may be masked: variables restricted to one value, or kept off values. */
typedef struct task_run {
    tensum_problem *problem;
    const ts_model *model;
    const tensum_solve_options *options;
    tensum_answer *answer;
    tensum_plan *plan;
    tensum_tensor *inputs; /* the problem's, with the unary tables replaced by `masks` */
    double *masks;         /* all unary tables, 0 or -inf */
    int64_t *first_mask;   /* [variable_count] */
    /* the last run's results */
    double value;
    double count;
    int64_t residue;
    int64_t *assignment;   /* [variable_count] */
    double *probabilities; /* as masks */
    tensum_solve_options several; /* options of a task of several runs: they tell the progress of the whole */
    const tensum_solve_options *outer;
    double finished, expected;    /* parts of the task; expected 0: nobody knows */
} task_run;

/* One bar for all runs of a task, named after it. */
static int pass_progress(void *user, const char *stage, double done)
{
    const task_run *run = user;
    if (strcmp(stage, "order") == 0) {
        return run->outer->progress(run->outer->progress_user, stage, done);
    }
    return run->outer->progress(run->outer->progress_user, run->problem->task,
                                run->expected > 0 ? (run->finished + fmax(0, done)) / run->expected : -1);
}

/* From now on there are many runs; `expected` of them, 0 where nobody knows. */
static void expect_runs(task_run *run, double expected)
{
    run->expected = expected;
    if (run->options != NULL && run->options->progress != NULL && run->outer == NULL) {
        memcpy(&run->several, run->options, run->options->size < sizeof run->several ? run->options->size : sizeof run->several);
        run->several.size = sizeof run->several;
        run->several.progress = pass_progress;
        run->several.progress_user = run;
        run->outer = run->options;
        run->options = &run->several;
    }
}

/* Short runs do not ask whether to go on. */
static tensum_status finish_part(task_run *run)
{
    run->finished++;
    return run->outer != NULL && pass_progress(run, "run", 0) != 0 ? ts_fail(TENSUM_STATUS_CANCELLED, "cancelled by the caller in %s", run->problem->task)
                                                                    : TENSUM_OK;
}

static void close_run(task_run *run)
{
    tensum_plan_release(run->plan);
    ts_free(run->inputs);
    ts_free(run->masks);
    ts_free(run->first_mask);
    ts_free(run->assignment);
    ts_free(run->probabilities);
}

static tensum_status open_run(task_run *run, tensum_problem *problem, const tensum_solve_options *options, tensum_answer *answer)
{
    tensum_status status = TENSUM_OK;
    const ts_model *model = problem->state;
    int64_t total = 0;
    size_t n = (size_t)model->variable_count;
    memset(run, 0, sizeof *run);
    run->problem = problem;
    run->model = model;
    run->options = options;
    run->answer = answer;
    TRY(tensum_problem_plan(problem, options, &run->plan, &answer->order_seconds));
    TRY(tensum_plan_cost(run->plan, &answer->cost));
    TRY(ts_allocate((size_t)problem->operand_count, sizeof *run->inputs, "inputs", &run->inputs));
    memcpy(run->inputs, problem->inputs, (size_t)problem->operand_count * sizeof *run->inputs);
    TRY(ts_allocate(n, sizeof *run->first_mask, "masks", &run->first_mask));
    TRY(ts_allocate(n, sizeof *run->assignment, "an assignment", &run->assignment));
    for (size_t v = 0; v < n; v++) {
        run->first_mask[v] = total;
        total += model->cards[v];
    }
    TRY(ts_allocate_zero((size_t)total, sizeof *run->masks, "masks", &run->masks));
    TRY(ts_allocate_zero((size_t)total, sizeof *run->probabilities, "probabilities", &run->probabilities));
    if (problem->dtype == TENSUM_F64) {
        for (size_t v = 0; v < n; v++) {
            run->inputs[model->unary[v]].data = run->masks + run->first_mask[v];
        }
    }
done:
    return status;
}

static void unmask(task_run *run)
{
    for (int64_t v = 0; v < run->model->variable_count; v++) {
        for (int64_t x = 0; x < run->model->cards[v]; x++) {
            run->masks[run->first_mask[v] + x] = 0;
        }
    }
}

static void fix(task_run *run, int64_t variable, int64_t value)
{
    for (int64_t x = 0; x < run->model->cards[variable]; x++) {
        run->masks[run->first_mask[variable] + x] = x == value ? 0 : -INFINITY;
    }
}

static tensum_status take_result(const tensum_problem *problem, const ts_result *result, void *user)
{
    task_run *run = user;
    const ts_model *model = run->model;
    if (problem->semiring == TENSUM_SUM_PRODUCT_MOD) {
        run->residue = *(const int64_t *)result->value;
    } else if (problem->semiring == TENSUM_MAX_PLUS_COUNT) {
        run->value = ((const ts_vc128 *)result->value)->value;
        run->count = ((const ts_vc128 *)result->value)->count;
    } else {
        run->value = *(const double *)result->value;
    }
    if (result->assignment != NULL) {
        const int64_t *labels = tensum_network_labels(problem->network);
        for (int64_t l = 0; l < tensum_network_label_count(problem->network); l++) {
            run->assignment[labels[l]] = result->assignment[l];
        }
    }
    for (int64_t v = 0; result->gradients != NULL && v < model->variable_count; v++) {
        const double *gradient = result->gradients[model->unary[v]].data;
        for (int64_t x = 0; x < model->cards[v]; x++) {
            run->probabilities[run->first_mask[v] + x] = gradient[x];
        }
    }
    return TENSUM_OK;
}

/* Run under the present masks. INFEASIBLE is an outcome here, told by *feasible. */
static tensum_status run_once(task_run *run, bool *feasible)
{
    tensum_status status = ts_problem_run(run->problem, run->plan, run->options, run->inputs, take_result, run,
                                          &run->answer->run_seconds);
    *feasible = status == TENSUM_OK;
    return status == TENSUM_STATUS_INFEASIBLE ? TENSUM_OK : status;
}

static tensum_status no_answer(const tensum_problem *problem)
{
    return ts_fail(TENSUM_STATUS_INFEASIBLE, "%.300s: no assignment satisfies the constraints", problem->name);
}

/* ---- the parts of an answer ---- */

/* Store the named variables of the last run as row `index`; its objective, scored from the file, must be the run's. */
static tensum_status put_assignment(task_run *run, int64_t index, size_t *capacity, double *objective)
{
    tensum_status status = TENSUM_OK;
    tensum_answer *answer = run->answer;
    const ts_model *model = run->model;
    int64_t n = model->named_count;
    TRY(ts_reserve(((size_t)index + 1) * (size_t)n + 1, sizeof *answer->assignments, "assignments", capacity, &answer->assignments));
    int64_t *row = answer->assignments + index * n;
    memcpy(row, run->assignment, (size_t)n * sizeof *row);
    answer->variable_count = n;
    answer->assignment_count = index + 1;
    double found = model->offset + model->sign * run->value, scored = found;
    if (model->score != NULL) {
        if (!model->score(model->data, row, &scored)) {
            return ts_fail(TENSUM_STATUS_INTERNAL, "%.300s: the assignment found breaks a constraint of the file", run->problem->name);
        }
        if (!(fabs(scored - found) <= 1e-9 * (1 + fabs(found) + fabs(model->offset)))) {
            return ts_fail(TENSUM_STATUS_INTERNAL, "%.300s: the assignment scores %.17g, but the run found %.17g",
                           run->problem->name, scored, found);
        }
    }
    *objective = scored + 0.0;
done:
    return status;
}

static tensum_status put_value(tensum_answer *answer, double value)
{
    ts_text text = {0};
    answer->value = value;
    if (fabs(value) < 0x1p53 && value == floor(value)) {
        ts_text_add(&text, "%" PRId64, (int64_t)value);
    } else {
        ts_text_add_real(&text, value);
    }
    return ts_text_take(&text, &answer->value_text);
}

static tensum_status solve_best(task_run *run)
{
    tensum_status status = TENSUM_OK;
    size_t capacity = 0;
    bool feasible;
    double objective = 0;
    TRY(run_once(run, &feasible));
    if (!feasible) {
        return no_answer(run->problem);
    }
    TRY(put_assignment(run, 0, &capacity, &objective));
    TRY(put_value(run->answer, objective));
done:
    return status;
}

/* log of the number of assignments by floating point: says how many primes an exact count needs. */
static tensum_status estimate_bits(task_run *run, double *bits)
{
    tensum_status status = TENSUM_OK;
    const tensum_problem *problem = run->problem;
    tensum_plan *plan = NULL;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    tensum_tensor *inputs = NULL;
    double **tables = NULL, value = 0;
    size_t n = (size_t)problem->operand_count;
    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    plan_options.semiring = TENSUM_LOG_SUM_EXP;
    plan_options.dtype = TENSUM_F64;
    TRY(ts_allocate_zero(n, sizeof *inputs, "inputs", &inputs));
    TRY(ts_allocate_zero(n, sizeof *tables, "tables", &tables));
    for (size_t i = 0; i < n; i++) {
        int64_t count = 1;
        inputs[i] = problem->inputs[i];
        for (int32_t m = 0; m < inputs[i].rank; m++) {
            count *= inputs[i].extents[m];
        }
        TRY(ts_allocate((size_t)count, sizeof(double), "a table", &tables[i]));
        for (int64_t k = 0; k < count; k++) {
            tables[i][k] = ((const int64_t *)problem->inputs[i].data)[k] != 0 ? 0 : -INFINITY;
        }
        inputs[i].data = tables[i];
        inputs[i].dtype = TENSUM_F64;
    }
    TRY(tensum_plan_create(problem->network, tensum_plan_tree(run->plan), &plan_options, &plan));
    tensum_program_options program_options = TENSUM_PROGRAM_OPTIONS_INIT;
    program_options.device = run->options != NULL ? run->options->device : program_options.device;
    TRY(tensum_program_create(plan, run->options != NULL ? run->options->context : NULL, &program_options, &program));
    TRY(tensum_workspace_create(program, NULL, &workspace));
    tensum_tensor output = {&value, TENSUM_F64, 0, NULL, NULL, {TENSUM_CPU, 0}};
    tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
    arguments.inputs = inputs;
    arguments.output = &output;
    if (run->options != NULL) {
        arguments.progress = run->options->progress;
        arguments.progress_user = run->options->progress_user;
    }
    TRY(tensum_run(program, workspace, &arguments));
    *bits = value / 0.69314718055994530942;
done:
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    tensum_plan_release(plan);
    for (size_t i = 0; tables != NULL && i < n; i++) {
        ts_free(tables[i]);
    }
    ts_free(tables);
    ts_free(inputs);
    return status;
}

static tensum_status solve_count(task_run *run)
{
    tensum_status status = TENSUM_OK;
    tensum_answer *answer = run->answer;
    ts_text text = {0};
    int64_t *primes = NULL, *residues = NULL;
    bool feasible;
    double bits = 0;
    if (run->model->weights) {
        TRY(run_once(run, &feasible));
        answer->log10 = true;
        answer->value = (run->value + run->model->offset) / ln_10;
        goto done;
    }
    TRY(estimate_bits(run, &bits));
    /* the estimate's relative error is far below 2^-2 of the number itself, so two bits more are enough */
    int64_t count = bits > -INFINITY ? (int64_t)((bits + 2) / 30.9999) + 1 : 1;
    TRY(ts_allocate((size_t)count, sizeof *primes, "residues", &primes));
    TRY(ts_allocate((size_t)count, sizeof *residues, "residues", &residues));
    for (int64_t i = 0; i < count; i++) {
        primes[i] = i == 0 ? ts_prime(0) : 0;
    }
    expect_runs(run, (double)count);
    for (int64_t i = 0; i < count; i++) {
        tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
        tensum_tree *tree = tensum_tree_retain(tensum_plan_tree(run->plan));
        primes[i] = ts_prime(i);
        plan_options.semiring = TENSUM_SUM_PRODUCT_MOD;
        plan_options.dtype = TENSUM_I64;
        plan_options.modulus = primes[i];
        tensum_plan *plan = NULL;
        status = tensum_plan_create(run->problem->network, tree, &plan_options, &plan);
        tensum_tree_release(tree);
        TRY(status);
        tensum_plan_release(run->plan);
        run->plan = plan;
        TRY(run_once(run, &feasible));
        residues[i] = run->residue;
        TRY(finish_part(run));
    }
    TRY(ts_residues_text(count, primes, residues, &text));
    TRY(ts_text_take(&text, &answer->value_text));
    answer->value = strtod(answer->value_text, NULL);
done:
    ts_text_free(&text);
    ts_free(primes);
    ts_free(residues);
    return status;
}

static tensum_status solve_count_best(task_run *run)
{
    tensum_status status = TENSUM_OK;
    tensum_answer *answer = run->answer;
    bool feasible;
    TRY(run_once(run, &feasible));
    if (run->value == -INFINITY) {
        return no_answer(run->problem);
    }
    if (run->count >= 0x1p53) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "%.300s: the best value %.17g is attained about %.6g times, which is too often to be counted exactly",
                       run->problem->name, run->model->offset + run->model->sign * run->value, run->count);
    }
    TRY(ts_allocate(2, sizeof *answer->values, "values", &answer->values));
    answer->values[0] = run->model->offset + run->model->sign * run->value + 0.0;
    answer->values[1] = run->count;
    answer->value_count = 2;
    TRY(put_value(answer, run->count));
done:
    return status;
}

/* ---- the k best, by partitions of what is left (Lawler 1972) ---- */

/* All assignments with given values of the first `fixed` variables and variable `fixed` not in a forbidden set; the
 * best of them is known. */
typedef struct lawler_node {
    double value;
    int64_t fixed;
    int64_t *assignment;  /* [variable_count], the best */
    uint8_t *forbidden;   /* [cards[fixed]] */
} lawler_node;

typedef struct lawler {
    lawler_node *nodes;
    size_t count, capacity;
} lawler;

static void free_node(lawler_node *node)
{
    ts_free(node->assignment);
    ts_free(node->forbidden);
}

/* Solve under "variables before `fixed` as in `like`, variable `fixed` not in forbidden" and keep the best, if any. */
static tensum_status explore(task_run *run, lawler *open, const int64_t *like, int64_t fixed, const uint8_t *forbidden)
{
    tensum_status status = TENSUM_OK;
    const ts_model *model = run->model;
    lawler_node node = {0, fixed, NULL, NULL};
    bool feasible;
    size_t n = (size_t)model->variable_count, card = fixed < model->variable_count ? (size_t)model->cards[fixed] : 0;
    unmask(run);
    for (int64_t v = 0; v < fixed; v++) {
        fix(run, v, like[v]);
    }
    for (size_t x = 0; x < card; x++) {
        run->masks[run->first_mask[fixed] + (int64_t)x] = forbidden[x] ? -INFINITY : 0;
    }
    TRY(run_once(run, &feasible));
    if (!feasible) {
        return TENSUM_OK;
    }
    node.value = run->value;
    TRY(ts_allocate(n, sizeof *node.assignment, "assignments", &node.assignment));
    memcpy(node.assignment, run->assignment, n * sizeof *node.assignment);
    TRY(ts_allocate_zero(card, 1, "assignments", &node.forbidden));
    if (card > 0) {
        memcpy(node.forbidden, forbidden, card);
    }
    TRY(ts_reserve(open->count + 1, sizeof *open->nodes, "assignments", &open->capacity, &open->nodes));
    open->nodes[open->count++] = node;
    return TENSUM_OK;
done:
    free_node(&node);
    return status;
}

static tensum_status solve_several(task_run *run)
{
    tensum_status status = TENSUM_OK;
    const ts_model *model = run->model;
    tensum_answer *answer = run->answer;
    bool ties_only = task_is(run->problem, "all-best");
    int64_t limit = run->problem->count > 0 ? run->problem->count : ties_only ? 1000 : 10;
    lawler open = {0};
    size_t assignment_capacity = 0, value_capacity = 0;
    uint8_t *forbidden = NULL;
    int64_t most_card = 1;
    double best = 0;
    for (int64_t v = 0; v < model->variable_count; v++) {
        most_card = ts_max64(most_card, model->cards[v]);
    }
    expect_runs(run, ties_only ? 0 : (double)limit);
    TRY(ts_allocate_zero((size_t)most_card, 1, "assignments", &forbidden));
    TRY(explore(run, &open, NULL, 0, forbidden));
    if (open.count == 0) {
        status = no_answer(run->problem);
        goto done;
    }
    for (int64_t found = 0; found < limit && open.count > 0; found++) {
        size_t top = 0;
        for (size_t i = 1; i < open.count; i++) { /* ties: the one found first */
            top = open.nodes[i].value > open.nodes[top].value ? i : top;
        }
        lawler_node node = open.nodes[top];
        memmove(open.nodes + top, open.nodes + top + 1, (open.count - top - 1) * sizeof node);
        open.count--;
        if (found == 0) {
            best = node.value;
        }
        bool tied = fabs(node.value - best) <= 1e-9 * (1 + fabs(best));
        if (ties_only && !tied) {
            free_node(&node);
            break;
        }
        double objective = 0;
        run->value = node.value;
        memcpy(run->assignment, node.assignment, (size_t)model->variable_count * sizeof *run->assignment);
        status = put_assignment(run, found, &assignment_capacity, &objective);
        if (status == TENSUM_OK) {
            status = ts_reserve((size_t)found + 1, sizeof *answer->values, "values", &value_capacity, &answer->values);
        }
        if (status == TENSUM_OK) {
            answer->values[found] = objective;
            answer->value_count = found + 1;
        }
        /* named variables alone tell assignments apart: the auxiliary ones follow from them */
        for (int64_t v = node.fixed; status == TENSUM_OK && v < model->named_count && found + 1 < limit; v++) {
            for (int64_t x = 0; x < model->cards[v]; x++) {
                forbidden[x] = (uint8_t)((v == node.fixed && node.forbidden[x]) || x == node.assignment[v]);
            }
            status = explore(run, &open, node.assignment, v, forbidden);
            run->finished = (double)found;
            status = status == TENSUM_OK ? finish_part(run) : status;
        }
        free_node(&node);
        if (status == TENSUM_STATUS_CANCELLED) { /* what has been found is certain */
            status = TENSUM_OK;
            break;
        }
        TRY(status);
    }
    TRY(put_value(answer, answer->values[0]));
done:
    for (size_t i = 0; i < open.count; i++) {
        free_node(&open.nodes[i]);
    }
    ts_free(open.nodes);
    ts_free(forbidden);
    return status;
}

/* ---- probabilities ---- */

static void normalize(task_run *run, int64_t variable)
{
    double sum = 0, *p = run->probabilities + run->first_mask[variable];
    for (int64_t x = 0; x < run->model->cards[variable]; x++) {
        sum += p[x];
    }
    for (int64_t x = 0; x < run->model->cards[variable]; x++) {
        p[x] /= sum;
    }
}

static tensum_status solve_marginals(task_run *run)
{
    tensum_status status = TENSUM_OK;
    const ts_model *model = run->model;
    tensum_answer *answer = run->answer;
    int64_t total = 0;
    bool feasible;
    TRY(run_once(run, &feasible));
    if (run->value == -INFINITY) {
        return no_answer(run->problem);
    }
    TRY(ts_allocate((size_t)model->named_count + 1, sizeof *answer->marginal_offsets, "marginals", &answer->marginal_offsets));
    for (int64_t v = 0; v <= model->named_count; v++) {
        answer->marginal_offsets[v] = total;
        total += v < model->named_count ? model->cards[v] : 0;
    }
    TRY(ts_allocate((size_t)total, sizeof *answer->marginals, "marginals", &answer->marginals));
    answer->marginal_count = model->named_count;
    for (int64_t v = 0; v < model->named_count; v++) {
        normalize(run, v);
        memcpy(answer->marginals + answer->marginal_offsets[v], run->probabilities + run->first_mask[v],
               (size_t)model->cards[v] * sizeof(double));
    }
    answer->log10 = true;
    answer->value = run->value / ln_10;
done:
    return status;
}

/* Ancestral sampling: variable after variable from its conditional distribution, one gradient each. */
static tensum_status solve_sample(task_run *run)
{
    tensum_status status = TENSUM_OK;
    const ts_model *model = run->model;
    tensum_answer *answer = run->answer;
    int64_t count = run->problem->count > 0 ? run->problem->count : 1, n = model->named_count;
    ts_random random;
    bool feasible;
    double log_z = 0;
    ts_random_seed(&random, (uint64_t)model->seed);
    if (n == 0) { /* no variable will find out whether the empty assignment is allowed */
        TRY(run_once(run, &feasible));
        if (run->value == -INFINITY) {
            return no_answer(run->problem);
        }
        log_z = run->value;
    }
    expect_runs(run, (double)count * (double)n);
    TRY(ts_allocate_zero((size_t)(count * n) + 1, sizeof *answer->assignments, "samples", &answer->assignments));
    answer->variable_count = n;
    for (int64_t s = 0; s < count; s++) {
        int64_t *row = answer->assignments + s * n;
        unmask(run);
        for (int64_t v = 0; v < n; v++) {
            status = run_once(run, &feasible);
            status = status == TENSUM_OK ? finish_part(run) : status;
            if (status == TENSUM_STATUS_CANCELLED && s > 0) { /* the samples before this one are whole */
                status = TENSUM_OK;
                goto enough;
            }
            TRY(status);
            if (run->value == -INFINITY) {
                return no_answer(run->problem);
            }
            log_z = v == 0 ? run->value : log_z;
            normalize(run, v);
            double point = ts_random_unit(&random);
            const double *p = run->probabilities + run->first_mask[v];
            int64_t x = 0;
            for (; x + 1 < model->cards[v] && (point >= p[x] || !(p[x] > 0)); x++) {
                point -= p[x];
            }
            while (x > 0 && !(p[x] > 0)) {
                x--;
            }
            row[v] = x;
            fix(run, v, x);
        }
        double objective;
        if (model->score != NULL && !model->score(model->data, row, &objective)) {
            return ts_fail(TENSUM_STATUS_INTERNAL, "%.300s: a sample breaks a constraint of the file", run->problem->name);
        }
        answer->assignment_count = s + 1;
    }
enough:
    answer->log10 = true;
    answer->value = log_z / ln_10;
done:
    return status;
}

/* ---- the whole ---- */

static tensum_status plain_text(const tensum_answer *answer, ts_text *text)
{
    ts_text_add(text, "%s ", answer->log10 ? "log10" : "value");
    if (answer->value_text != NULL) {
        ts_text_add(text, "%s\n", answer->value_text);
    } else {
        ts_text_add_real(text, answer->value);
        ts_text_add(text, "\n");
    }
    for (int64_t i = 0; i < answer->assignment_count; i++) {
        for (int64_t v = 0; v < answer->variable_count; v++) {
            ts_text_add(text, "%s%" PRId64, v > 0 ? " " : "", answer->assignments[i * answer->variable_count + v]);
        }
        ts_text_add(text, "\n");
    }
    for (int64_t v = 0; v < answer->marginal_count; v++) {
        for (int64_t k = answer->marginal_offsets[v]; k < answer->marginal_offsets[v + 1]; k++) {
            ts_text_add(text, k > answer->marginal_offsets[v] ? " " : "");
            ts_text_add_real(text, answer->marginals[k]);
        }
        ts_text_add(text, "\n");
    }
    return text->status;
}

tensum_status ts_model_solve(tensum_problem *problem, const tensum_solve_options *options, tensum_answer *answer)
{
    tensum_status status = TENSUM_OK;
    task_run run;
    ts_text text = {0};
    const ts_model *model = problem->state;
    TRY(open_run(&run, problem, options, answer));
    if (task_is(problem, "best")) {
        status = solve_best(&run);
    } else if (task_is(problem, "count")) {
        status = solve_count(&run);
    } else if (task_is(problem, "count-best")) {
        status = solve_count_best(&run);
    } else if (task_is(problem, "marginals")) {
        status = solve_marginals(&run);
    } else if (task_is(problem, "sample")) {
        status = solve_sample(&run);
    } else {
        status = solve_several(&run);
    }
    TRY(status);
    if (model->format != NULL) {
        TRY(model->format(problem, model->data, answer, &text));
    } else {
        TRY(plain_text(answer, &text));
    }
    TRY(ts_text_take(&text, &answer->text));
done:
    ts_text_free(&text);
    close_run(&run);
    return status;
}
