/* Pictures of answers: the answer as JSON, piped into plot.py, which draws with matplotlib. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"

enum { MOST_VERTICES = 400, MOST_AMPLITUDES = 4096 };

/* plot.py of the installation, or next to the program where it was built. */
static bool find_script(char *path, size_t room)
{
    static const char *const places[] = {"../share/tensum/plot.py", "plot.py"};
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) {
        return false;
    }
    self[length] = 0;
    *strrchr(self, '/') = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (snprintf(path, room, "%s/%s", self, places[i]) < (int)room && access(path, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* Run python3 on the script with `text` as its input; 0, or the exit status for the command. */
static int run_script(const char *argument, const char *text, size_t length)
{
    char script[4200];
    int ends[2];
    if (!find_script(script, sizeof script)) {
        fprintf(stderr, "tensum: --plot: plot.py is not where it was installed, in share/tensum\n");
        return EXIT_OTHER;
    }
    if (pipe(ends) != 0) {
        fprintf(stderr, "tensum: --plot: %s\n", strerror(errno));
        return EXIT_OTHER;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("python3", "python3", script, argument, (char *)NULL);
        fprintf(stderr, "tensum: --plot needs python3 with matplotlib, but python3 cannot be run: %s\n", strerror(errno));
        _exit(EXIT_OTHER);
    }
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN); /* a script that stops early says so itself */
    for (size_t done = 0; child > 0 && done < length;) {
        ssize_t part = write(ends[1], text + done, length - done);
        if (part <= 0) {
            break;
        }
        done += (size_t)part;
    }
    close(ends[1]);
    signal(SIGPIPE, SIG_DFL);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        fprintf(stderr, "tensum: --plot: %s\n", strerror(errno));
        return EXIT_OTHER;
    }
    return status == 0 ? EXIT_DONE : WIFEXITED(status) && WEXITSTATUS(status) == EXIT_INPUT ? EXIT_INPUT : EXIT_OTHER;
}

int check_plot(const char *path)
{
    if (!ends_with(path, ".png") && !ends_with(path, ".svg") && !ends_with(path, ".pdf")) {
        fprintf(stderr, "tensum: --plot=%s: expected a name that ends in .png, .svg or .pdf\n", path);
        return EXIT_USAGE;
    }
    return run_script("--check", "", 0);
}

static void add_string(FILE *json, const char *key, const char *value)
{
    fprintf(json, "\"%s\": \"", key);
    for (const char *c = value; *c != 0; c++) {
        if ((unsigned char)*c < 0x20 || *c == '"' || *c == '\\') {
            fprintf(json, "\\u%04x", (unsigned)(unsigned char)*c);
        } else {
            fputc(*c, json);
        }
    }
    fprintf(json, "\", ");
}

static void add_marginals(FILE *json, const tensum_answer *answer)
{
    const int64_t *offsets;
    const double *p;
    int64_t count = tensum_answer_marginals(answer, &offsets, &p);
    fprintf(json, "\"marginals\": [");
    for (int64_t v = 0; v < count; v++) {
        for (int64_t i = offsets[v]; i < offsets[v + 1]; i++) {
            fprintf(json, "%s%.17g", i > offsets[v] ? ", " : v > 0 ? ", [" : "[", p[i]);
        }
        fprintf(json, "]");
    }
    fprintf(json, "]}");
}

static void add_graph(FILE *json, const tensum_problem *problem, const tensum_answer *answer)
{
    const int64_t *x = tensum_answer_assignment(answer, 0);
    int64_t u, v;
    double weight;
    fprintf(json, "\"assignment\": [");
    for (int64_t i = 0; i < tensum_answer_variable_count(answer); i++) {
        fprintf(json, "%s%lld", i > 0 ? ", " : "", (long long)x[i]);
    }
    fprintf(json, "], \"edges\": [");
    for (int64_t i = 0; tensum_problem_edge(problem, i, &u, &v, &weight) == TENSUM_OK; i++) {
        fprintf(json, "%s[%lld, %lld, %.17g]", i > 0 ? ", " : "", (long long)u, (long long)v, weight);
    }
    fprintf(json, "]}");
}

static void add_amplitudes(FILE *json, int64_t count, const double *values)
{
    fprintf(json, "\"amplitudes\": [");
    for (int64_t i = 0; i < count; i++) {
        fprintf(json, "%s%.17g", i > 0 ? ", " : "", values[i]);
    }
    fprintf(json, "]}");
}

/* Vertices of the graph that the problem is about; 0: there is none. */
static int64_t vertices_of(const tensum_problem *problem, const tensum_answer *answer)
{
    bool on_edges = strstr(tensum_problem_question(problem), "matching") != NULL;
    int64_t most = 0, u, v;
    double weight;
    for (int64_t i = 0; tensum_problem_edge(problem, i, &u, &v, &weight) == TENSUM_OK; i++) {
        most = v >= most ? v + 1 : u >= most ? u + 1 : most;
    }
    return most == 0 || on_edges ? most : tensum_answer_variable_count(answer);
}

int plot_answer(const char *path, const char *file, const tensum_problem *problem, const tensum_answer *answer)
{
    const int64_t *offsets;
    const double *p, *values;
    const char *name = strrchr(file, '/');
    char *text = NULL;
    size_t length = 0;
    int64_t value_count = tensum_answer_values(answer, &values), vertices = vertices_of(problem, answer);
    tensum_dtype dtype = tensum_problem_dtype(problem);
    FILE *json = open_memstream(&text, &length);
    if (json == NULL) {
        fprintf(stderr, "tensum: out of memory\n");
        return EXIT_MEMORY;
    }
    fprintf(json, "{");
    add_string(json, "file", name != NULL ? name + 1 : file);
    add_string(json, "note", tensum_problem_note(problem));
    add_string(json, "question", tensum_problem_question(problem));
    add_string(json, "value", tensum_answer_value_text(answer));
    int status = EXIT_DONE;
    if (tensum_answer_marginals(answer, &offsets, &p) > 0) {
        add_marginals(json, answer);
    } else if (tensum_answer_assignment_count(answer) > 0 && vertices > 0 && vertices <= MOST_VERTICES) {
        add_graph(json, problem, answer);
    } else if ((dtype == TENSUM_C64 || dtype == TENSUM_C128) && value_count > 2 && value_count <= MOST_AMPLITUDES) {
        add_amplitudes(json, value_count, values);
    } else if (tensum_answer_assignment_count(answer) > 0 && vertices > MOST_VERTICES) {
        fprintf(stderr, "tensum: --plot: a graph of %lld vertices makes no picture, %d are the most\n", (long long)vertices, MOST_VERTICES);
        status = EXIT_USAGE;
    } else {
        fprintf(stderr, "tensum: --plot: this answer makes no picture: marginals do, assignments on graphs, and 1 to 11 open bits of circuits\n");
        status = EXIT_USAGE;
    }
    fclose(json);
    if (status == EXIT_DONE) {
        status = run_script(path, text, length);
    }
    free(text);
    return status;
}
