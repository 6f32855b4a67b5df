/* What the subcommands share. The command uses the public header only. */
#ifndef TENSUM_CLI_COMMAND_H
#define TENSUM_CLI_COMMAND_H

#include <argp.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include <tensum/tensum.h>

enum { /* exit statuses */
    EXIT_DONE = 0,
    EXIT_INFEASIBLE = 1,
    EXIT_USAGE = 2,
    EXIT_INPUT = 3,
    EXIT_MEMORY = 4,
    EXIT_OTHER = 5
};

typedef struct subcommand {
    const char *name;
    const char *summary;
    const char *arguments; /* "MODEL" */
    const char *details;   /* more for --help and the manual: paragraphs, examples */
    const struct argp_option *options; /* its own */
    bool shared;           /* takes the shared options too */
    int (*run)(const struct subcommand *command, int argc, char **argv);
} subcommand;

/* The table, ended by NULL. */
extern const subcommand *const commands[];

/* ---- options that all working commands have ---- */

typedef struct shared_options {
    int semiring, dtype;      /* -1: not given */
    const char *order;        /* method, file, or "file" for the order in the network's file; NULL: not given */
    const char *minimize;
    const char *save_order;   /* file; NULL: not wanted */
    double time_limit, work;  /* 0: none; < 0: default */
    uint64_t memory_limit;    /* bytes of the process; 0: none */
    int threads;              /* 0: all */
    uint64_t seed;
    tensum_device device;
    int cutensor;             /* a tensum_cutensor_choice; -1: not given */
    bool json, dry_run;
} shared_options;

extern const struct argp_option shared_option_table[];
/* Child parser for struct argp_child; its input is a shared_options. */
extern const struct argp shared_argp;
void shared_options_init(shared_options *options);
/* Parse a command line with the command's own parser; `input` is handed to it, `shared` to the shared parser
 * (NULL if the command takes none). Exits with EXIT_USAGE on wrong use. */
void parse_command_line(const subcommand *command, argp_parser_t parser, void *input, shared_options *shared, int argc,
                        char **argv);

/* Numbers from the command line; argp_error with what was expected. */
int64_t parse_integer(struct argp_state *state, const char *option, const char *text, int64_t lowest, int64_t highest);
double parse_real(struct argp_state *state, const char *option, const char *text, double lowest);
/* "4GiB", "500M", "1e9": bytes. */
uint64_t parse_bytes(struct argp_state *state, const char *option, const char *text);
/* Nearest of the names, NULL if none is near. */
const char *nearest_name(const char *name, const char *const *names, size_t count);
/* Name of a file ends in one of these. */
bool ends_with(const char *text, const char *end);

/* ---- running ---- */

/* Print "tensum: message" with the library's last error and give the exit status. */
int report_failure(tensum_status status);
/* Progress for the library: a bar on stderr where that is a terminal, after a second; non-zero after Ctrl-C. */
int show_progress(void *user, const char *stage, double done);
/* Ctrl-C while an order is looked for ends the search, not the command. */
void keep_best_order(void);
/* Has Ctrl-C been pressed? */
bool was_interrupted(void);
/* Take the bar away. */
void end_progress(void);
/* Make Ctrl-C ask for an end. */
void catch_interrupts(void);
/* Leave with EXIT_MEMORY if what has been done took more than the memory limit. */
void check_memory(const shared_options *shared, const char *what);
/* Call first: what the process has by then does not count. */
void remember_memory(void);
double seconds_now(void);
void *allocate_or_exit(size_t count, size_t bytes);

/* Search for an order whose plan fits into the memory limit. `start` (may be NULL) is taken if it fits, and otherwise
 * started from too. */
tensum_status search_plan(const shared_options *shared, tensum_network *network, const tensum_tree *start,
                          tensum_context *context, const tensum_plan_options *plan_options, tensum_plan **plan,
                          double *seconds);
/* Find the order of a network that no file of its own was given for: by method, or by default the network file's own.
 * *seconds is the time of the search. */
tensum_status find_order(const shared_options *shared, tensum_network *network, tensum_tree *file_tree,
                         tensum_context *context, size_t element_bytes, tensum_tree **tree, double *seconds);
void fill_order_options(const shared_options *shared, tensum_order_options *options);
/* true if --order names a file that holds a tree; then *tree is read for the network. */
tensum_status read_given_order(const shared_options *shared, tensum_network *network, tensum_tree **tree);

/* ---- printing ---- */

/* A JSON object on stdout, one key after the other. */
typedef struct json_object {
    bool begun;
} json_object;
void json_begin(json_object *object);
void json_key(json_object *object, const char *key);
void json_string(json_object *object, const char *key, const char *value);
/* Not finite: null, and KEY_text tells which. */
void json_real(json_object *object, const char *key, double value);
void json_integer(json_object *object, const char *key, int64_t value);
void json_end(json_object *object);
void print_json_string(const char *value);
/* The shortest decimal that reads back as the same double. */
const char *format_real(double value, char text[32]);
const char *format_bytes(double bytes, char text[32]);
/* A member "device_counters" for devices that have them. */
void json_counters(json_object *object, tensum_device device);
void json_cost(json_object *object, const tensum_cost *cost, unsigned modes, double order_seconds,
               double run_seconds, tensum_device device);
/* Lines "tc ..., sc ..., ..." for people. */
void print_cost(FILE *stream, const tensum_cost *cost, double order_seconds);
uint64_t peak_bytes(const tensum_cost *cost, unsigned modes);

/* ---- other files ---- */
/* Can --plot draw into this file here? 0, or the exit status, with a message. */
int check_plot(const char *path);
/* Draw an answer with plot.py; `file` is the problem's. 0, or the exit status, with a message. */
int plot_answer(const char *path, const char *file, const tensum_problem *problem, const tensum_answer *answer);
int generate(const char *what); /* man, bash, zsh */
/* Draw a plan as SVG into a file. `file` gives label names, may be NULL. */
tensum_status write_svg(const char *path, const tensum_plan *plan, const char *title);

#endif
