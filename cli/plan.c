/* tensum plan: what a contraction will cost, its order saved or drawn. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "network_input.h"

enum { KEY_OUTPUT = 'o', KEY_TASK = 't', KEY_EVIDENCE = 'e', KEY_SVG = 0x500, KEY_OUTPUT_FORMAT, KEY_PROBLEM, KEY_FRONT_END };

static const struct argp_option options[] = {
    NETWORK_OPTIONS,
    {"task", KEY_TASK, "TASK", 0, "the file is one of 'tensum solve': plan this task", 2},
    {"evidence", KEY_EVIDENCE, "FILE", 0, "observed variables, for problem files", 2},
    {"problem", KEY_PROBLEM, "NAME", 0, "what is asked of a file that allows several questions", 2},
    {"front-end", KEY_FRONT_END, "NAME", 0, "how to read a problem file", 2},
    {"output", KEY_OUTPUT, "FILE", 0, "save network and order; - is standard output", 3},
    {"output-format", KEY_OUTPUT_FORMAT, "NAME", 0, "format to save in (tensum info lists them)", 3},
    {"svg", KEY_SVG, "FILE", 0, "draw the tree with the cost of every step", 3},
    {0},
};

typedef struct arguments {
    network_arguments network;
    const char *output, *output_format, *svg;
    tensum_problem_options problem;
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
    case KEY_EVIDENCE:
        a->problem.evidence = argument;
        return 0;
    case KEY_PROBLEM:
        a->problem.question = argument;
        return 0;
    case KEY_FRONT_END:
        a->problem.front_end = argument;
        return 0;
    case KEY_OUTPUT:
        a->output = argument;
        return 0;
    case KEY_OUTPUT_FORMAT:
        a->output_format = argument;
        return 0;
    case KEY_SVG:
        a->svg = argument;
        return 0;
    default:
        return parse_network_argument(key, argument, state, &a->network);
    }
}

/* A network is JSON; anything else is a problem. Standard input is a network unless a task is given. */
static bool is_problem(const arguments *a)
{
    const char *path = a->network.path;
    return a->problem.task != NULL || a->problem.question != NULL || a->problem.front_end != NULL ||
           (a->network.format == NULL && strcmp(path, "-") != 0 && !ends_with(path, ".json") &&
            !ends_with(path, ".json.gz"));
}

static tensum_status plan_problem(const arguments *a, const shared_options *shared, tensum_plan **plan, double *seconds)
{
    tensum_problem *problem = NULL;
    tensum_context *context = NULL;
    tensum_tree *tree = NULL;
    tensum_context_options context_options = TENSUM_CONTEXT_OPTIONS_INIT;
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    tensum_solve_options solve = TENSUM_SOLVE_OPTIONS_INIT;
    context_options.threads = shared->threads;
    tensum_status status = tensum_context_create(&context_options, &context);
    if (status == TENSUM_OK) {
        status = tensum_problem_read(a->network.path, &a->problem, &problem);
    }
    if (status == TENSUM_OK) {
        status = read_given_order(shared, tensum_problem_network(problem), &tree);
    }
    if (status == TENSUM_OK) {
        fill_order_options(shared, &order);
        solve.context = context;
        solve.device = shared->device;
        solve.order = &order;
        solve.tree = tree;
        solve.memory_limit = shared->memory_limit;
        solve.progress = show_progress;
        status = tensum_problem_plan(problem, &solve, plan, seconds);
        end_progress();
    }
    tensum_tree_release(tree);
    tensum_problem_release(problem);
    tensum_context_release(context);
    return status;
}

static tensum_status plan_anything(const arguments *a, const shared_options *shared)
{
    network_input input = {0};
    tensum_plan *plan = NULL;
    tensum_cost cost = TENSUM_COST_INIT;
    double seconds = 0;
    tensum_status status;
    if (is_problem(a)) {
        status = plan_problem(a, shared, &plan, &seconds);
    } else {
        status = open_network(&a->network, shared, &input);
        if (status == TENSUM_OK) {
            status = make_plan(&input, shared, TENSUM_VALUE, &plan, &seconds);
        }
    }
    if (status == TENSUM_OK) {
        status = tensum_plan_cost(plan, &cost);
    }
    const char *format = a->output_format;
    if (status == TENSUM_OK && is_problem(a) && shared->save_order != NULL) {
        status = tensum_file_write(shared->save_order, NULL, tensum_plan_network(plan), tensum_plan_tree(plan), NULL);
    }
    if (status == TENSUM_OK && a->output != NULL) {
        status = tensum_file_write(a->output, format, tensum_plan_network(plan), tensum_plan_tree(plan), input.file);
    }
    if (status == TENSUM_OK && a->svg != NULL) {
        status = write_svg(a->svg, plan, a->network.path);
    }
    if (status == TENSUM_OK && !(a->output != NULL && strcmp(a->output, "-") == 0)) {
        print_plan_cost(shared, &cost, TENSUM_VALUE, seconds);
    }
    tensum_plan_release(plan);
    close_network(&input);
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
    catch_interrupts();
    keep_best_order();
    tensum_status status = plan_anything(&a, &shared);
    if (status == TENSUM_OK && was_interrupted()) {
        fprintf(stderr, "tensum: interrupted: this is the best order so far\n");
        return EXIT_OTHER;
    }
    return status == TENSUM_OK ? EXIT_DONE : report_failure(status);
}

const subcommand command_plan = {
    "plan",
    "find a contraction order; print, save or draw what it costs",
    "FILE",
    "FILE is a network as for 'tensum contract', or a problem as for 'tensum solve'.\n\n"
    "Examples:\n"
    "  tensum plan network.json --svg tree.svg\n"
    "  tensum plan model.uai --task pr --order greedy --json\n"
    "  tensum plan network.json -o order.json --output-format omeinsum\n",
    options,
    true,
    run,
};
