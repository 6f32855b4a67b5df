/* The neutral discrete model that combinatorial front ends translate into, and the tasks that are asked of it.
 *
 * Variables 0 .. named_count-1 are the user's; further ones are auxiliary and a function of them. A factor is a table over
 * some variables (row-major, first variable slowest); -inf forbids. The objective of an assignment is
 * offset + sign * (sum of the factors' entries); the sum is to be as large as possible. */
#ifndef TS_PROBLEMS_MODEL_H
#define TS_PROBLEMS_MODEL_H

#include "problems/problem.h"

typedef struct ts_factor {
    int32_t arity;
    size_t first_scope, first_value; /* into the model's arrays */
    size_t value_count;
} ts_factor;

typedef struct ts_model {
    int64_t variable_count, named_count;
    int64_t *cards;
    size_t card_capacity;
    ts_factor *factors;
    size_t factor_count, factor_capacity;
    int64_t *scope;
    size_t scope_count, scope_capacity;
    double *values;
    size_t value_count, value_capacity;
    double sign, offset; /* sign: +1 maximise, -1 minimise */
    bool weights;        /* entries are logarithms of weights: count is a weighted sum, reported as log10 */
    double beta;         /* marginals and samples follow exp(beta * sum); 0: uniform over what is allowed */
    int64_t *unary;      /* [variable_count] operand of a variable's own table, set by ts_model_setup */
    int64_t seed;        /* of samples */

    /* The front end's own data, behind the assignment's independent score: the objective of the named variables
     * straight from the file, false if they break a constraint. Not used where weights is set (may be NULL). */
    void *data;
    bool (*score)(const void *data, const int64_t *assignment, double *objective);
    /* The answer in the field's own format; NULL: the engine's plain one. */
    tensum_status (*format)(const tensum_problem *problem, const void *data, const tensum_answer *answer, ts_text *text);
    void (*destroy_data)(void *data);
} ts_model;

/* The list of tasks that ts_model_solve knows, the default first. */
#define TS_MODEL_TASKS "best count count-best best-k all-best sample marginals"

/* A model of `count` binary variables that belongs to nobody yet. */
tensum_status ts_model_new(int64_t count, double sign, ts_model **model);
/* Start a model (problem->state) with `count` binary variables. */
tensum_status ts_model_create(tensum_problem *problem, int64_t count, double sign, ts_model **model);
void ts_model_destroy(void *model);

tensum_status ts_model_variable(ts_model *model, int64_t card, int64_t *variable);
/* Variables distinct. Values are copied. */
tensum_status ts_model_add(ts_model *model, int32_t arity, const int64_t *variables, const double *values);
/* Unary and binary tables of binary variables. */
tensum_status ts_model_add_one(ts_model *model, int64_t variable, double at_0, double at_1);
tensum_status ts_model_add_two(ts_model *model, int64_t x, int64_t y, double v00, double v01, double v10, double v11);
/* At least one of the literals holds, else `violated` (-inf: a hard clause) is added. Literal: +(v+1) or -(v+1);
 * duplicates and tautologies are fine. Wide clauses go through auxiliary variables, never a dense table. */
tensum_status ts_model_add_clause(ts_model *model, int64_t count, const int64_t *literals, double violated);
/* Of the binary variables, exactly one (or, with at_most, none or one) is 1. */
tensum_status ts_model_add_one_of(ts_model *model, int64_t count, const int64_t *variables, bool at_most);

/* Sum (log_sum_exp) or maximise (max_plus) variables with eliminated[v] != 0 out of the model, exactly, component by
 * component. */
tensum_status ts_model_eliminate(ts_model *model, const uint8_t *eliminated, tensum_semiring semiring);

/* Take beta and seed from the settings; ts_model_setup does this too. */
tensum_status ts_model_settings(const tensum_problem_options *options, ts_model *model);
/* What `read` of a front end ends with: operands for problem->task. */
tensum_status ts_model_setup(const tensum_problem_options *options, tensum_problem *problem);
/* The `solve` of a front end. */
tensum_status ts_model_solve(tensum_problem *problem, const tensum_solve_options *options, tensum_answer *answer);
/* Settings that ts_model_setup understands. */
#define TS_MODEL_SETTINGS "beta seed"

#endif
