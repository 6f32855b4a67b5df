/* Models in the UAI format and their evidence, for the front ends that ask questions of them. */
#ifndef TS_PROBLEMS_UAI_H
#define TS_PROBLEMS_UAI_H

#include "problems/problem.h"

typedef struct ts_uai_model {
    int64_t variable_count;
    int64_t *cards;    /* [variable_count] */
    int64_t *evidence; /* [variable_count] observed value, -1: free */
    int64_t factor_count;
    int64_t *scope_offsets; /* [factor_count + 1] */
    int64_t *scopes;        /* variables, the last varies fastest */
    int64_t *table_offsets; /* [factor_count + 1] */
    double *tables;         /* finite, not negative */
    int64_t query_count;    /* mmap only */
    int64_t *query;         /* [query_count] */
    bool pairs;             /* mmap: answer with variable numbers */
    int64_t *unary;         /* [variable_count] number of the operand that stands for the variable alone; -1: none */
} ts_uai_model;

tensum_status ts_uai_read_model(const ts_input *input, ts_uai_model *model);
/* Evidence in the form of 2014 (K V X ...) or with the number of samples in front; `sample` counts from 0. */
tensum_status ts_uai_read_evidence(const ts_input *input, int64_t sample, ts_uai_model *model);
/* Soft evidence, `K {V CARD W_0 .. W_CARD-1}`: each multiplies the model by weights of one variable's values. */
tensum_status ts_uai_read_soft(const ts_input *input, ts_uai_model *model);
/* Query variables: K V...; ts_free. */
tensum_status ts_uai_read_query(const ts_input *input, const ts_uai_model *model, int64_t *count, int64_t **variables);
void ts_uai_free(ts_uai_model *model);

/* Add all factors to the problem, sliced by the evidence; logarithms of the tables if `log`. Variables without a factor
 * get one of ones; with `unaries` every free variable does, and its gradient is asked for. Label = variable. */
tensum_status ts_uai_add_factors(tensum_problem *problem, ts_uai_model *model, bool log, bool unaries);
/* Sum of natural logarithms of the tables' entries for a whole assignment, and the sum of their magnitudes. */
double ts_uai_score(const ts_uai_model *model, const int64_t *assignment, double *magnitude);

/* Task mmap, in uai_mmap.c: the variables outside the query are summed out exactly, then the rest is maximised. */
tensum_status ts_uai_read_mmap(const tensum_problem_options *options, tensum_problem *problem, ts_uai_model *model);
tensum_status ts_uai_answer_mmap(const tensum_problem *problem, const ts_result *result, tensum_answer *answer);

#endif
