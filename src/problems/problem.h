/* Front ends: file -> network over the semiring that the question needs, result -> the user's terms.
 *
 * A front end is one file that defines a ts_front_end, and one line of the table in problem.c. Its `read` parses the
 * input, adds operands to the problem, and says which modes it wants; the frame makes the network, finds an order,
 * plans and runs; its `answer` turns the run's result into an answer and verifies it against the file's own data.
 * Questions that need several runs (exact counts by primes, best-k, sampling) implement `solve` instead, on top of
 * ts_problem_run or of the public calls. */
#ifndef TS_PROBLEMS_PROBLEM_H
#define TS_PROBLEMS_PROBLEM_H

#include <stdatomic.h>

#include "io/text.h"

typedef struct ts_front_end ts_front_end;

/* Labels, extents and elements of one operand, in the problem's dtype, compact row-major. */
typedef struct ts_operand {
    int32_t rank;
    int64_t *labels, *extents; /* one block, owned by the operand */
    void *elements;
    bool wants_gradient;
} ts_operand;

struct tensum_problem {
    atomic_int references;
    const ts_front_end *front_end;
    char *name;           /* of the file, for messages */
    const char *task;     /* as in the front end's list */
    const char *question; /* likewise; NULL if the front end has none */
    int64_t count;        /* answers asked for; 0: default */

    /* Set by read before the first operand is added. */
    tensum_semiring semiring;
    tensum_dtype dtype;
    int64_t modulus;

    /* Set by read, or by ts_problem_add_*. */
    unsigned modes;       /* VALUE always; plus GRADIENT, DECODE */
    int64_t output_rank;  /* output labels; 0: a scalar */
    int64_t *output_labels;
    ts_text note;         /* conventions for people */
    void *state;          /* the front end's own, freed by its destroy */

    ts_operand *operands;
    int64_t operand_count;
    size_t operand_capacity;

    /* Made by the frame after read. */
    tensum_network *network;
    tensum_tensor *inputs;
};

/* What a run gave. Borrowed by `answer`. */
typedef struct ts_result {
    const void *value;            /* the output's elements, row-major, in the problem's dtype */
    const tensum_tensor *gradients; /* [operand_count], data NULL where not wanted; NULL without GRADIENT */
    const int64_t *assignment;    /* [label_count] in the order of tensum_network_labels; NULL without DECODE */
} ts_result;

struct tensum_answer {
    bool log10;            /* the value is a logarithm */
    double value;
    char *value_text;      /* exact where possible */
    int64_t variable_count, assignment_count;
    int64_t *assignments;  /* [assignment_count][variable_count] */
    int64_t value_count;
    double *values;        /* [value_count] */
    int64_t marginal_count;
    int64_t *marginal_offsets; /* [marginal_count + 1] */
    double *marginals;
    char *text;            /* the field's own format */
    tensum_cost cost;
    double order_seconds, run_seconds;
};

struct ts_front_end {
    const char *name, *summary;
    const char *tasks;     /* separated by blanks, the default first; "map|mpe" lists aliases, the first is the name */
    const char *questions; /* likewise; NULL: there is one question only */
    const char *suffixes;  /* of file names, separated by blanks, with the dot: ".uai .erg" */
    const char *settings;  /* names it accepts in options->settings, separated by blanks; NULL: none */
    /* May the content be of this kind? Used where the suffix does not tell. */
    bool (*recognize)(const ts_input *input);
    /* Parse and set the problem up. */
    tensum_status (*read)(const ts_input *input, const tensum_problem_options *options, tensum_problem *problem);
    /* Translate and verify. Either this or solve. `answer` is zeroed but for cost and seconds. */
    tensum_status (*answer)(const tensum_problem *problem, const ts_result *result, tensum_answer *answer);
    /* Whole solution; sets cost and seconds too. NULL: the frame's own, which calls `answer`. */
    tensum_status (*solve)(tensum_problem *problem, const tensum_solve_options *options, tensum_answer *answer);
    /* Edge of the graph that the problem is about; false past the last one. NULL: there is none. */
    bool (*edge)(const tensum_problem *problem, int64_t index, int64_t *u, int64_t *v, double *weight);
    void (*destroy)(void *state);
};

/* Add an operand; labels and extents are copied. Elements are given as doubles and converted to the problem's dtype
 * (row-major; NULL: all 1 of the semiring), or raw in that dtype. Returns its number in *index (may be NULL). */
tensum_status ts_problem_add(tensum_problem *problem, int32_t rank, const int64_t *labels, const int64_t *extents,
                             const double *elements, int64_t *index);
tensum_status ts_problem_add_raw(tensum_problem *problem, int32_t rank, const int64_t *labels, const int64_t *extents,
                                 const void *elements, int64_t *index);

/* Run a plan of the problem's network once: VALUE, and GRADIENT or DECODE as in problem->modes. The callback gets
 * the result. `inputs` NULL: the problem's own. Seconds of the run are added to *seconds. */
tensum_status ts_problem_run(tensum_problem *problem, tensum_plan *plan, const tensum_solve_options *options,
                             const tensum_tensor *inputs,
                             tensum_status (*use)(const tensum_problem *problem, const ts_result *result, void *user),
                             void *user, double *seconds);

/* Does the name, without .gz, end in one of these (separated by blanks)? */
bool ts_has_suffix(const char *name, const char *suffixes);

/* Value of a front end's setting, or NULL. */
const char *ts_setting(const tensum_problem_options *options, const char *name);
/* The same as an integer in a range; `standard` if it is not given. */
tensum_status ts_setting_integer(const tensum_problem_options *options, const char *name, int64_t lowest,
                                 int64_t highest, int64_t standard, int64_t *value);

/* What tensum_problem_read does, from memory. */
tensum_status ts_problem_from_input(const ts_input *input, const tensum_problem_options *options,
                                    tensum_problem **problem);

#endif
