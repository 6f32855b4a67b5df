/* tensum solve: a file and a question. */
#include <stdlib.h>
#include <string.h>

#include "command.h"

enum { KEY_TASK = 't', KEY_EVIDENCE = 'e', KEY_OUTPUT = 'o', KEY_QUERY = 0x200, KEY_PROBLEM, KEY_FRONT_END, KEY_COUNT,
       KEY_SET, KEY_PLOT };
enum { MOST_SETTINGS = 32 };

static const struct argp_option options[] = {
    {"task", KEY_TASK, "TASK", 0, "what to compute; the default is the front end's first task", 1},
    {"problem", KEY_PROBLEM, "NAME", 0, "what is asked of a graph: mis, clique, max-cut, coloring, ... (tensum info)", 1},
    {"evidence", KEY_EVIDENCE, "FILE", 0, "observed variables of a graphical model", 1},
    {"query", KEY_QUERY, "FILE", 0, "query variables of task mmap", 1},
    {"count", KEY_COUNT, "N", 0, "how many answers of best-k (10), all-best (1000) or sample (1)", 1},
    {"set", KEY_SET, "NAME=VALUE", 0, "a setting of the front end (tensum info); may be given several times", 1},
    {"front-end", KEY_FRONT_END, "NAME", 0, "how to read the file; the default goes by its name and content", 1},
    {"output", KEY_OUTPUT, "FILE", 0, "write the answer in the format of its field; - is standard output", 1},
    {"plot", KEY_PLOT, "FILE", 0, "draw the answer (marginals, a graph with its best assignment, amplitudes) into a .png, .svg or .pdf file; needs "
     "python3 with matplotlib", 1},
    {0},
};

typedef struct arguments {
    const char *path, *output, *plot;
    tensum_problem_options problem;
    const char *settings[MOST_SETTINGS + 1];
    int setting_count;
} arguments;

static error_t parse(int key, char *argument, struct argp_state *state)
{
    void **inputs = state->input;
    arguments *a = inputs[0];
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = inputs[1];
        return 0;
    case KEY_TASK:
        a->problem.task = argument;
        return 0;
    case KEY_PROBLEM:
        a->problem.question = argument;
        return 0;
    case KEY_EVIDENCE:
        a->problem.evidence = argument;
        return 0;
    case KEY_QUERY:
        a->problem.query = argument;
        return 0;
    case KEY_FRONT_END:
        a->problem.front_end = argument;
        return 0;
    case KEY_COUNT:
        a->problem.count = parse_integer(state, "count", argument, 1, INT64_MAX);
        return 0;
    case KEY_OUTPUT:
        a->output = argument;
        return 0;
    case KEY_PLOT:
        a->plot = argument;
        return 0;
    case KEY_SET:
        if (a->setting_count == MOST_SETTINGS) {
            argp_error(state, "at most %d settings", MOST_SETTINGS);
        }
        a->settings[a->setting_count++] = argument;
        return 0;
    case ARGP_KEY_ARG:
        if (a->path != NULL) {
            argp_error(state, "one file only, found '%s' too", argument);
        }
        a->path = argument;
        return 0;
    case ARGP_KEY_END:
        if (a->path == NULL) {
            argp_error(state, "expected the file of a problem");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_integers(const int64_t *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        printf(i == 0 ? "[%lld" : ", %lld", (long long)values[i]);
    }
    printf(count == 0 ? "[]" : "]");
}

static void print_json_assignments(json_object *object, const tensum_answer *answer)
{
    int64_t count = tensum_answer_assignment_count(answer), n = tensum_answer_variable_count(answer);
    if (count != 0) {
        json_key(object, "assignment");
        print_integers(tensum_answer_assignment(answer, 0), n);
    }
    if (count > 1) {
        json_key(object, "assignments");
        for (int64_t i = 0; i < count; i++) {
            printf(i == 0 ? "[" : ", ");
            print_integers(tensum_answer_assignment(answer, i), n);
        }
        printf("]");
    }
}

static void print_json_marginals(json_object *object, const tensum_answer *answer)
{
    const int64_t *offsets;
    const double *p;
    char text[32];
    int64_t count = tensum_answer_marginals(answer, &offsets, &p);
    if (count == 0) {
        return;
    }
    json_key(object, "marginals");
    printf("[");
    for (int64_t v = 0; v < count; v++) {
        printf(v == 0 ? "[" : ", [");
        for (int64_t i = offsets[v]; i < offsets[v + 1]; i++) {
            printf("%s%s", i == offsets[v] ? "" : ", ", format_real(p[i], text));
        }
        printf("]");
    }
    printf("]");
}

/* The value: digits of any number of places where it is exact, else as a double. */
static void print_json_value(json_object *object, const tensum_answer *answer)
{
    const char *text = tensum_answer_value_text(answer), *name = tensum_answer_value_name(answer);
    size_t digits = strspn(text + (text[0] == '-'), "0123456789");
    if (digits != 0 && text[digits + (text[0] == '-')] == 0) {
        json_key(object, name);
        printf("%s", text);
    } else {
        json_real(object, name, tensum_answer_value(answer));
    }
}

static void print_json(const tensum_problem *problem, const tensum_answer *answer, const tensum_cost *cost,
                       unsigned modes, double order_seconds, double run_seconds, tensum_device device)
{
    json_object object;
    const double *values;
    json_begin(&object);
    print_json_value(&object, answer);
    print_json_assignments(&object, answer);
    print_json_marginals(&object, answer);
    int64_t count = tensum_answer_values(answer, &values);
    if (count != 0) {
        char text[32];
        json_key(&object, "values");
        for (int64_t i = 0; i < count; i++) {
            printf("%s%s", i == 0 ? "[" : ", ", format_real(values[i], text));
        }
        printf("]");
    }
    json_string(&object, "semiring", tensum_semiring_name(tensum_problem_semiring(problem)));
    json_string(&object, "dtype", tensum_dtype_name(tensum_problem_dtype(problem)));
    json_string(&object, "note", tensum_problem_note(problem));
    json_cost(&object, cost, modes, order_seconds, run_seconds, device);
    json_end(&object);
}

static void print_lines(const tensum_problem *problem, const tensum_answer *answer)
{
    const int64_t *offsets;
    const double *p;
    const double *values;
    int64_t n = tensum_answer_variable_count(answer);
    bool log10 = strcmp(tensum_answer_value_name(answer), "log10_value") == 0;
    tensum_dtype dtype = tensum_problem_dtype(problem);
    if (dtype == TENSUM_C64 || dtype == TENSUM_C128) {
        printf("%s", tensum_answer_text(answer)); /* bit strings and their amplitudes */
        return;
    }
    printf("%s %s\n", log10 ? "log10 value" : "value", tensum_answer_value_text(answer));
    char text[32];
    int64_t value_count = tensum_answer_values(answer, &values), assignment_count = tensum_answer_assignment_count(answer);
    if (value_count == 2 && assignment_count == 0) {
        printf("best value %s\n", format_real(values[0], text)); /* the other is how many there are of it */
    }
    for (int64_t i = 0; i < assignment_count; i++) {
        const int64_t *x = tensum_answer_assignment(answer, i);
        if (value_count == assignment_count) {
            printf("value %lld: %s\n", (long long)(i + 1), format_real(values[i], text));
        }
        printf("assignment");
        for (int64_t v = 0; v < n; v++) {
            printf(" %lld", (long long)x[v]);
        }
        printf("\n");
    }
    int64_t count = tensum_answer_marginals(answer, &offsets, &p);
    for (int64_t v = 0; v < count; v++) {
        printf("variable %lld:", (long long)v);
        for (int64_t i = offsets[v]; i < offsets[v + 1]; i++) {
            printf(" %.6f", p[i]);
        }
        printf("\n");
    }
}

static unsigned modes_of(const tensum_answer *answer)
{
    const int64_t *offsets;
    const double *p;
    return (tensum_answer_assignment_count(answer) != 0 ? (unsigned)TENSUM_DECODE : 0u) |
           (tensum_answer_marginals(answer, &offsets, &p) != 0 ? (unsigned)TENSUM_GRADIENT : 0u);
}

static tensum_status print_plan(tensum_problem *problem, const tensum_solve_options *solve, const shared_options *shared)
{
    tensum_cost cost = TENSUM_COST_INIT;
    tensum_plan *plan;
    double seconds;
    tensum_status status = tensum_problem_plan(problem, solve, &plan, &seconds);
    if (status != TENSUM_OK) {
        return status;
    }
    end_progress();
    status = tensum_plan_cost(plan, &cost);
    if (status == TENSUM_OK && shared->save_order != NULL) {
        status = tensum_file_write(shared->save_order, NULL, tensum_plan_network(plan), tensum_plan_tree(plan), NULL);
    }
    if (status == TENSUM_OK && shared->dry_run && shared->json) {
        json_object object;
        json_begin(&object);
        json_cost(&object, &cost, TENSUM_VALUE, seconds, -1.0, shared->device);
        json_end(&object);
    } else if (status == TENSUM_OK && shared->dry_run) {
        print_cost(stdout, &cost, seconds);
    }
    tensum_plan_release(plan);
    return status;
}

/* *plot_status: that of --plot, where all else went well. */
static tensum_status solve(const arguments *a, const shared_options *shared, int *plot_status)
{
    tensum_problem *problem = NULL;
    tensum_context *context = NULL;
    tensum_answer *answer = NULL;
    tensum_tree *tree = NULL;
    tensum_context_options context_options = TENSUM_CONTEXT_OPTIONS_INIT;
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    tensum_solve_options options_of_solve = TENSUM_SOLVE_OPTIONS_INIT;
    tensum_cost cost = TENSUM_COST_INIT;
    double order_seconds, run_seconds;
    context_options.threads = shared->threads;
    tensum_status status = tensum_context_create(&context_options, &context);
    if (status == TENSUM_OK) {
        status = tensum_problem_read(a->path, &a->problem, &problem);
    }
    if (status == TENSUM_OK) {
        check_memory(shared, "reading the input");
        status = read_given_order(shared, tensum_problem_network(problem), &tree);
    }
    if (status == TENSUM_OK) {
        fill_order_options(shared, &order);
        options_of_solve.context = context;
        options_of_solve.device = shared->device;
        options_of_solve.order = &order;
        options_of_solve.tree = tree;
        options_of_solve.memory_limit = shared->memory_limit;
        options_of_solve.progress = show_progress;
        if (shared->dry_run || shared->save_order != NULL) {
            status = print_plan(problem, &options_of_solve, shared);
        }
    }
    if (status == TENSUM_OK && !shared->dry_run) {
        status = tensum_problem_solve(problem, &options_of_solve, &answer);
        end_progress();
        if (status == TENSUM_OK && a->output != NULL) {
            status = tensum_text_write(a->output, tensum_answer_text(answer));
        }
        if (status == TENSUM_OK) {
            tensum_answer_cost(answer, &cost, &order_seconds, &run_seconds);
            if (shared->json) {
                print_json(problem, answer, &cost, modes_of(answer), order_seconds, run_seconds, shared->device);
            } else {
                if (tensum_problem_note(problem)[0] != 0) {
                    fprintf(stderr, "%s\n", tensum_problem_note(problem));
                }
                if (a->output == NULL || strcmp(a->output, "-") != 0) {
                    print_lines(problem, answer);
                }
            }
            if (a->plot != NULL) {
                *plot_status = plot_answer(a->plot, a->path, problem, answer);
            }
        }
    }
    tensum_answer_release(answer);
    tensum_tree_release(tree);
    tensum_problem_release(problem);
    tensum_context_release(context);
    return status;
}

static int run(const subcommand *command, int argc, char **argv)
{
    arguments a = {.problem = TENSUM_PROBLEM_OPTIONS_INIT};
    shared_options shared;
    shared_options_init(&shared);
    parse_command_line(command, parse, &a, &shared, argc, argv);
    a.problem.semiring = shared.semiring;
    a.problem.dtype = shared.dtype;
    if (a.setting_count != 0) {
        a.problem.settings = a.settings;
    }
    catch_interrupts();
    int plot_status = a.plot != NULL && !shared.dry_run ? check_plot(a.plot) : EXIT_DONE;
    if (plot_status != EXIT_DONE) {
        return plot_status;
    }
    tensum_status status = solve(&a, &shared, &plot_status);
    if (status == TENSUM_OK && plot_status == EXIT_DONE && was_interrupted() && !shared.dry_run) {
        fprintf(stderr, "tensum: interrupted: these are the answers so far\n");
        return EXIT_OTHER;
    }
    return status == TENSUM_OK ? plot_status : report_failure(status);
}

const subcommand command_solve = {
    "solve",
    "answer a question about a graphical model or another problem file",
    "FILE",
    "FILE is a graphical model (.uai), a graph (.col .clq .gr .rudy .edges), a quadratic function (.qubo .sparse .ising), a\n"
    "weighted constraint network (.wcsp), a formula (.cnf .wcnf) or a quantum circuit (.qasm .qsim), gzipped or not; - is\n"
    "standard input. 'tensum info' lists the tasks, problems and settings of each.\n\n"
    "Examples:\n"
    "  tensum solve model.uai --evidence model.uai.evid --task map\n"
    "  tensum solve model.uai.gz --task mar --plot marginals.png\n"
    "  zcat model.uai.gz | tensum solve - --task pr -o model.PR\n"
    "  tensum solve model.uai --task mmap --query model.uai.query\n"
    "  tensum solve graph.col --problem mis --task count-best\n"
    "  tensum solve graph.col --problem coloring --set colors=4 --task count\n"
    "  tensum solve glass.rudy --problem max-cut --plot cut.png\n"
    "  tensum solve qubo.sparse --task best-k --count 5 --json\n"
    "  tensum solve formula.cnf -o -\n"
    "  tensum solve soft.wcnf\n"
    "  tensum solve circuit.qasm --set bits='1??0'\n"
    "  tensum solve circuit.qasm --task expectation --set observable=ZZII\n",
    options,
    true,
    run,
};
