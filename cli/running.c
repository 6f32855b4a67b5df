/* Failures, progress, Ctrl-C, orders. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "command.h"

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The most memory that the process has had, in bytes; 0 where the system does not tell. (ru_maxrss of getrusage would
 * count what the process was before exec.) */
static uint64_t most_memory(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && sscanf(line, "VmHWM: %llu", &kib) != 1) {
    }
    if (file != NULL) {
        fclose(file);
    }
    return (uint64_t)kib * 1024;
}

static uint64_t own_memory = (uint64_t)8 << 20; /* of the process, before it reads anything */

void remember_memory(void)
{
    uint64_t most = most_memory();
    if (most > own_memory) { /* a sanitizer's, which goes on growing by itself */
        own_memory = most + most / 4;
    }
}

void check_memory(const shared_options *shared, const char *what)
{
    uint64_t most = most_memory();
    char text[32], limit[32];
    if (shared->memory_limit != 0 && most > own_memory && most - own_memory > shared->memory_limit) {
        fprintf(stderr, "tensum: %s took %s, the memory limit is %s\n", what, format_bytes((double)most, text),
                format_bytes((double)shared->memory_limit, limit));
        exit(EXIT_MEMORY);
    }
}

void *allocate_or_exit(size_t count, size_t bytes)
{
    void *pointer = calloc(count != 0 ? count : 1, bytes);
    if (pointer == NULL) {
        fprintf(stderr, "tensum: out of memory: %zu x %zu bytes\n", count, bytes);
        exit(EXIT_MEMORY);
    }
    return pointer;
}

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    static const char text[] = "\ntensum: stopping after this step; Ctrl-C again stops at once\n";
    int kept = errno;
    (void)signal_number;
    interrupted = 1;
    if (isatty(STDERR_FILENO) && write(STDERR_FILENO, text, sizeof text - 1) < 0) {
        interrupted = 1; /* there is nobody to tell */
    }
    errno = kept;
}

void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND}; /* the second one kills */
    sigaction(SIGINT, &action, NULL);
}

/* The stage shown, since when, how far it is, and whether a bar is on the screen. */
static struct {
    char stage[32];
    double start, last, done;
    bool shown, ended; /* ended: whatever comes next is a new stage */
} bar;
static bool best_order_will_do;

void keep_best_order(void) { best_order_will_do = true; }
bool was_interrupted(void) { return interrupted != 0; }

static void draw_bar(double elapsed)
{
    enum { WIDTH = 30 };
    char cells[WIDTH + 1];
    double part = fmin(bar.done, 1);
    if (part < 0) {
        fprintf(stderr, "\r%s, %.0f s\033[K", bar.stage, elapsed);
    } else {
        for (int i = 0; i < WIDTH; i++) {
            cells[i] = i < (int)(part * WIDTH) ? '#' : '.';
        }
        cells[WIDTH] = 0;
        fprintf(stderr, "\r%s [%s] %3.0f %%, %.0f s", bar.stage, cells, 100 * part, elapsed);
        if (part > 0.02) {
            fprintf(stderr, ", about %.0f s left", ceil(elapsed * (1 - part) / part));
        }
        fprintf(stderr, "\033[K");
    }
    bar.shown = true;
}

int show_progress(void *user, const char *stage, double done)
{
    (void)user;
    double now = seconds_now();
    if (bar.ended || strncmp(bar.stage, stage, sizeof bar.stage - 1) != 0) {
        end_progress();
        bar.ended = false;
        snprintf(bar.stage, sizeof bar.stage, "%s", stage);
        bar.start = now;
    }
    bar.done = done;
    if (now - bar.start > 1.0 && now - bar.last > 0.09 && isatty(STDERR_FILENO)) {
        bar.last = now;
        draw_bar(now - bar.start);
    }
    return interrupted == 0 ? 0 : best_order_will_do && strcmp(stage, "order") == 0 ? 2 : 1;
}

void end_progress(void)
{
    if (bar.shown) {
        fprintf(stderr, "\r\033[K");
    }
    bar.shown = false;
    bar.ended = true;
}

/* What was being done when Ctrl-C came. */
static void report_interrupt(void)
{
    double elapsed = seconds_now() - bar.start;
    end_progress();
    fprintf(stderr, "tensum: interrupted");
    if (bar.stage[0] != 0) {
        fprintf(stderr, " in stage '%s' after %.1f s", bar.stage, elapsed);
    }
    if (bar.stage[0] != 0 && bar.done >= 0) {
        fprintf(stderr, ", at %.0f %%", 100 * fmin(bar.done, 1));
    }
    fprintf(stderr, "\n");
}

int report_failure(tensum_status status)
{
    if (status == TENSUM_STATUS_CANCELLED) {
        report_interrupt();
        return EXIT_OTHER;
    }
    end_progress();
    fprintf(stderr, "tensum: %s\n", tensum_last_error());
    switch (status) {
    case TENSUM_STATUS_INFEASIBLE:
        return EXIT_INFEASIBLE;
    case TENSUM_STATUS_INVALID_ARGUMENT:
    case TENSUM_STATUS_INVALID_EXPRESSION:
    case TENSUM_STATUS_UNSUPPORTED:
    case TENSUM_STATUS_NO_DEVICE:
        return EXIT_USAGE;
    case TENSUM_STATUS_IO:
    case TENSUM_STATUS_MALFORMED:
    case TENSUM_STATUS_INVALID_PATH:
    case TENSUM_STATUS_SHAPE_MISMATCH:
    case TENSUM_STATUS_DTYPE_MISMATCH:
    case TENSUM_STATUS_DOMAIN:
    case TENSUM_STATUS_SIZE_OVERFLOW:
        return EXIT_INPUT;
    case TENSUM_STATUS_OUT_OF_MEMORY:
    case TENSUM_STATUS_MEMORY_LIMIT:
        return EXIT_MEMORY;
    default:
        return EXIT_OTHER;
    }
}

void fill_order_options(const shared_options *shared, tensum_order_options *options)
{
    options->method = shared->order;
    options->seed = shared->seed;
    options->work = shared->work;
    options->time_limit = shared->time_limit;
    options->minimize = shared->minimize;
    options->progress = show_progress;
}

static bool is_method(const char *name)
{
    for (int i = 0; tensum_order_method_name(i) != NULL; i++) {
        if (strcmp(tensum_order_method_name(i), name) == 0) {
            return true;
        }
    }
    return strcmp(name, "auto") == 0;
}

tensum_status read_given_order(const shared_options *shared, tensum_network *network, tensum_tree **tree)
{
    tensum_file_options options = TENSUM_FILE_OPTIONS_INIT;
    tensum_file *file;
    struct stat information;
    *tree = NULL;
    if (shared->order == NULL || strcmp(shared->order, "file") == 0 || is_method(shared->order) ||
        (strcmp(shared->order, "-") != 0 && stat(shared->order, &information) != 0)) {
        return TENSUM_OK; /* a name that is neither goes to the library, which suggests the nearest */
    }
    options.network = network;
    options.extent = 1; /* extents of a network that comes along do not matter */
    tensum_status status = tensum_file_read(shared->order, &options, &file);
    if (status != TENSUM_OK) {
        return status;
    }
    *tree = tensum_tree_retain(tensum_file_tree(file));
    tensum_file_release(file);
    if (*tree == NULL) {
        fprintf(stderr, "tensum: %s holds no contraction order\n", shared->order);
        exit(EXIT_INPUT);
    }
    return TENSUM_OK;
}

tensum_status find_order(const shared_options *shared, tensum_network *network, tensum_tree *file_tree,
                         tensum_context *context, size_t element_bytes, tensum_tree **tree, double *seconds)
{
    tensum_order_options options = TENSUM_ORDER_OPTIONS_INIT;
    *seconds = 0;
    bool from_file = shared->order != NULL && strcmp(shared->order, "file") == 0;
    if (from_file && file_tree == NULL) {
        fprintf(stderr, "tensum: --order=file: the network's file holds no order\n");
        exit(EXIT_INPUT);
    }
    if (from_file || (shared->order == NULL && file_tree != NULL)) {
        *tree = tensum_tree_retain(file_tree);
        return TENSUM_OK;
    }
    fill_order_options(shared, &options);
    options.element_bytes = element_bytes;
    double start = seconds_now();
    tensum_status status = tensum_order(network, &options, context, tree);
    *seconds = seconds_now() - start;
    end_progress();
    return status;
}

tensum_status search_plan(const shared_options *shared, tensum_network *network, const tensum_tree *start,
                          tensum_context *context, const tensum_plan_options *plan_options, tensum_plan **plan,
                          double *seconds)
{
    tensum_order_options options = TENSUM_ORDER_OPTIONS_INIT;
    fill_order_options(shared, &options);
    options.start = start;
    double began = seconds_now();
    tensum_status status = tensum_plan_search(network, &options, plan_options, context, plan);
    *seconds = seconds_now() - began;
    end_progress();
    return status;
}
