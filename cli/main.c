/* tensum: the command. */
#include <stdlib.h>
#include <string.h>

#include "command.h"

#define COMMANDS(X) X(solve) X(contract) X(grad) X(plan) X(info) X(bench)

#define DECLARE(id) extern const subcommand command_##id;
COMMANDS(DECLARE)
#undef DECLARE

const subcommand *const commands[] = {
#define ROW(id) &command_##id,
    COMMANDS(ROW)
#undef ROW
    NULL,
};

static void print_usage(FILE *stream)
{
    fprintf(stream, "Usage: tensum COMMAND [OPTION...] ARGUMENTS\n"
                    "Contract tensor networks over any semiring.\n\nCommands:\n");
    for (int i = 0; commands[i] != NULL; i++) {
        fprintf(stream, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    }
    fprintf(stream, "\n'tensum COMMAND --help' tells more. Also: tensum --version, tensum --help,\n"
                    "tensum --generate man|bash|zsh (manual page, completions).\n\n"
                    "Exit status: 0 done, 1 no answer exists, 2 wrong use, 3 bad input, 4 not enough memory,\n"
                    "5 other failure.\n");
}

static int unknown_command(const char *name)
{
    const char *names[32];
    size_t count = 0;
    for (; commands[count] != NULL && count < 32; count++) {
        names[count] = commands[count]->name;
    }
    const char *nearest = nearest_name(name, names, count);
    if (nearest != NULL) {
        fprintf(stderr, "tensum: there is no command '%s'; did you mean '%s'?\n", name, nearest);
    } else {
        fprintf(stderr, "tensum: there is no command '%s'\n", name);
    }
    fprintf(stderr, "Try 'tensum --help'.\n");
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    argp_err_exit_status = EXIT_USAGE;
    remember_memory();
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    const char *first = argv[1];
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0) {
        print_usage(stdout);
        return EXIT_DONE;
    }
    if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) {
        printf("tensum %s\n", tensum_version());
        return EXIT_DONE;
    }
    if (strncmp(first, "--generate", 10) == 0 && (first[10] == 0 || first[10] == '=')) {
        const char *what = first[10] == '=' ? first + 11 : argc > 2 ? argv[2] : "";
        return generate(what);
    }
    for (int i = 0; commands[i] != NULL; i++) {
        if (strcmp(commands[i]->name, first) == 0) {
            char name[64];
            snprintf(name, sizeof name, "tensum %s", first);
            argv[1] = name; /* argp shows it in its messages */
            return commands[i]->run(commands[i], argc - 1, argv + 1);
        }
    }
    return unknown_command(first);
}
