/* The manual page and the shell completions, from the same tables that parse the command line. */
#include <ctype.h>
#include <string.h>

#include "command.h"

/* Call `use` for every option of a command, its own and the shared ones. */
static void each_option(const subcommand *command, void (*use)(const struct argp_option *option, void *user), void *user)
{
    const struct argp_option *tables[] = {command->options, command->shared ? shared_option_table : NULL};
    for (int t = 0; t < 2; t++) {
        for (const struct argp_option *o = tables[t]; o != NULL && (o->name != NULL || o->key != 0); o++) {
            use(o, user);
        }
    }
}

static bool has_letter(const struct argp_option *option)
{
    return option->key > 0 && option->key < 0x80 && isalnum(option->key);
}

/* ---- man ---- */

/* Roff: a leading dot or quote and backslashes and hyphens need care. */
static void roff(const char *text)
{
    for (const char *c = text; *c != 0; c++) {
        if (*c == '\\') {
            printf("\\e");
        } else if (*c == '-') {
            printf("\\-");
        } else if ((*c == '.' || *c == '\'') && (c == text || c[-1] == '\n')) {
            printf("\\&%c", *c);
        } else {
            putchar(*c);
        }
    }
}

static void man_option(const struct argp_option *option, void *user)
{
    (void)user;
    printf(".TP\n");
    if (has_letter(option)) {
        printf("\\fB\\-%c\\fR, ", option->key);
    }
    printf("\\fB\\-\\-");
    roff(option->name);
    printf("\\fR");
    if (option->arg != NULL) {
        printf("=\\fI");
        roff(option->arg);
        printf("\\fR");
    }
    printf("\n");
    roff(option->doc);
    printf("\n");
}

static void man(void)
{
    printf(".TH TENSUM 1 \"\" \"tensum %s\" \"User Commands\"\n", tensum_version());
    printf(".SH NAME\ntensum \\- contract tensor networks over any semiring\n");
    printf(".SH SYNOPSIS\n");
    for (int i = 0; commands[i] != NULL; i++) {
        printf(".B tensum %s\n[\\fIOPTION\\fR...] \\fI%s\\fR\n.br\n", commands[i]->name, commands[i]->arguments);
    }
    printf(".SH DESCRIPTION\nThe value, the gradients, the best assignment of a tensor network: sums of products, and the "
           "same with other pairs of operations, such as the largest sum.\n");
    printf(".SH COMMANDS\n");
    for (int i = 0; commands[i] != NULL; i++) {
        printf(".SS tensum %s\n", commands[i]->name);
        roff(commands[i]->summary);
        printf("\n.PP\n.nf\n");
        roff(commands[i]->details);
        printf(".fi\n");
        for (const struct argp_option *o = commands[i]->options; o->name != NULL || o->key != 0; o++) {
            man_option(o, NULL);
        }
    }
    printf(".SH SHARED OPTIONS\nThese belong to every command but \\fBinfo\\fR.\n");
    for (const struct argp_option *o = shared_option_table; o->name != NULL || o->key != 0; o++) {
        man_option(o, NULL);
    }
    printf(".SH EXIT STATUS\n.nf\n0  done\n1  no answer exists\n2  wrong use\n3  bad input\n4  not enough memory\n"
           "5  other failure\n.fi\n");
}

/* ---- completion ---- */

/* Each word of the lists of all front ends, once, with `end` behind it. */
static void front_end_words(const char *(*list)(int index), const char *end)
{
    char seen[2048] = " ";
    for (int i = 0; list(i) != NULL; i++) {
        for (const char *c = list(i); *c != 0;) {
            char word[64];
            size_t length = strcspn(c, " |");
            snprintf(word, sizeof word, " %.*s ", (int)length, c);
            if (length != 0 && strstr(seen, word) == NULL && strlen(seen) + length + 2 < sizeof seen) {
                strcat(seen, word + 1);
                printf("%.*s%s ", (int)length, c, end);
            }
            c += length;
            c += *c != 0;
        }
    }
}

/* Values of options that have a list. */
static void values_of(const struct argp_option *option)
{
    if (strcmp(option->name, "semiring") == 0) {
        for (int i = 0; i < (int)TENSUM_SEMIRING_COUNT; i++) {
            printf("%s ", tensum_semiring_name((tensum_semiring)i));
        }
    } else if (strcmp(option->name, "dtype") == 0) {
        for (int i = 0; i < (int)TENSUM_DTYPE_COUNT; i++) {
            printf("%s ", tensum_dtype_name((tensum_dtype)i));
        }
    } else if (strcmp(option->name, "order") == 0) {
        for (int i = 0; tensum_order_method_name(i) != NULL; i++) {
            printf("%s ", tensum_order_method_name(i));
        }
        printf("file ");
    } else if (strcmp(option->name, "minimize") == 0) {
        printf("time flops size write ");
    } else if (strcmp(option->name, "device") == 0) {
        printf("cpu reference cuda ");
    } else if (strcmp(option->name, "format") == 0 || strcmp(option->name, "output-format") == 0) {
        for (int i = 0; tensum_file_format_name(i) != NULL; i++) {
            printf("%s ", tensum_file_format_name(i));
        }
    } else if (strcmp(option->name, "front-end") == 0) {
        for (int i = 0; tensum_front_end_name(i) != NULL; i++) {
            printf("%s ", tensum_front_end_name(i));
        }
    } else if (strcmp(option->name, "task") == 0) {
        front_end_words(tensum_front_end_tasks, "");
    } else if (strcmp(option->name, "problem") == 0) {
        front_end_words(tensum_front_end_questions, "");
    } else if (strcmp(option->name, "set") == 0) {
        front_end_words(tensum_front_end_settings, "=");
    }
}

static bool has_values(const struct argp_option *option)
{
    static const char *const names[] = {"semiring", "dtype", "order", "minimize", "device", "format", "output-format",
                                        "task", "problem", "front-end", "set"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (option->arg != NULL && strcmp(option->name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void bash_name(const struct argp_option *option, void *user)
{
    (void)user;
    printf("--%s%s ", option->name, option->arg != NULL ? "=" : "");
}

static void bash_values(const struct argp_option *option, void *user)
{
    char *seen = user; /* names so far, each between blanks */
    char name[40];
    snprintf(name, sizeof name, " %s ", option->name);
    if (!has_values(option) || strstr(seen, name) != NULL) {
        return;
    }
    strcat(seen, name);
    printf("        --%s) words=\"", option->name);
    values_of(option);
    printf("\" ;;\n");
}

static void bash(void)
{
    char seen[512] = " ";
    printf("# bash completion of tensum, made by: tensum --generate bash\n_tensum()\n{\n");
    printf("    local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\" words=\"\"\n");
    printf("    if [ \"$current\" = \"=\" ]; then current=\"\"; fi\n");
    printf("    if [ \"$previous\" = \"=\" ]; then previous=\"${COMP_WORDS[COMP_CWORD-2]}\"; fi\n");
    printf("    case \"$previous\" in\n");
    for (int i = 0; commands[i] != NULL; i++) {
        each_option(commands[i], bash_values, seen);
    }
    printf("    esac\n    if [ -n \"$words\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$current\")); return; fi\n");
    printf("    if [ \"$COMP_CWORD\" = 1 ]; then words=\"");
    for (int i = 0; commands[i] != NULL; i++) {
        printf("%s ", commands[i]->name);
    }
    printf("--help --version --generate\"\n    elif [[ \"$current\" == -* ]]; then\n        case \"${COMP_WORDS[1]}\" in\n");
    for (int i = 0; commands[i] != NULL; i++) {
        printf("        %s) words=\"", commands[i]->name);
        each_option(commands[i], bash_name, NULL);
        printf("--help\" ;;\n");
    }
    printf("        esac\n    fi\n");
    printf("    if [ -n \"$words\" ]; then\n        COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n");
    printf("        if [[ \"${COMPREPLY[0]}\" == *= ]]; then compopt -o nospace; fi\n    else\n");
    printf("        COMPREPLY=($(compgen -f -- \"$current\"))\n    fi\n}\ncomplete -F _tensum tensum\n");
}

static void zsh_option(const struct argp_option *option, void *user)
{
    (void)user;
    printf("        '--%s%s[", option->name, option->arg != NULL ? "=" : "");
    for (const char *c = option->doc; *c != 0; c++) { /* quotes end the word, brackets the description */
        if (*c == '\'') {
            printf("'\\''");
        } else if (*c == '[' || *c == ']' || *c == ':') {
            printf("\\%c", *c);
        } else {
            putchar(*c);
        }
    }
    printf("]");
    if (has_values(option)) {
        printf(":%s:(", option->name);
        values_of(option);
        printf(")");
    } else if (option->arg != NULL) {
        printf(":%s:%s", option->name, strstr(option->arg, "FILE") != NULL ? "_files" : "");
    }
    printf("' \\\n");
}

static void zsh(void)
{
    printf("#compdef tensum\n# made by: tensum --generate zsh\n_tensum()\n{\n    if (( CURRENT == 2 )); then\n");
    printf("        local -a names=(");
    for (int i = 0; commands[i] != NULL; i++) {
        printf("'%s:%s' ", commands[i]->name, commands[i]->summary);
    }
    printf(")\n        _describe command names\n        return\n    fi\n    local name=$words[2]\n    shift words\n"
           "    (( CURRENT-- ))\n    case $name in\n");
    for (int i = 0; commands[i] != NULL; i++) {
        printf("    %s) _arguments \\\n", commands[i]->name);
        each_option(commands[i], zsh_option, NULL);
        printf("        '--help[help]' '*:file:_files' ;;\n");
    }
    printf("    esac\n}\n_tensum \"$@\"\n");
}

int generate(const char *what)
{
    static const char *const names[] = {"man", "bash", "zsh"};
    if (strcmp(what, "man") == 0) {
        man();
    } else if (strcmp(what, "bash") == 0) {
        bash();
    } else if (strcmp(what, "zsh") == 0) {
        zsh();
    } else {
        const char *nearest = nearest_name(what, names, 3);
        fprintf(stderr, "tensum: --generate=%s: expected man, bash or zsh%s%s%s\n", what,
                nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}
