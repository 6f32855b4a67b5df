/* The shared options and the parsing of command lines. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

enum { KEY_SEMIRING = 's', KEY_DTYPE = 'd', KEY_JSON = 'j', KEY_DRY_RUN = 'n', KEY_ORDER = 0x100, KEY_MINIMIZE,
       KEY_SAVE_ORDER, KEY_TIME_LIMIT, KEY_WORK, KEY_MEMORY_LIMIT, KEY_THREADS, KEY_SEED, KEY_DEVICE, KEY_CUTENSOR };

const struct argp_option shared_option_table[] = {
    {"semiring", KEY_SEMIRING, "NAME", 0, "semiring to compute in (tensum info lists them)", 90},
    {"dtype", KEY_DTYPE, "NAME", 0, "element type: f64, f32, ... (tensum info)", 90},
    {"device", KEY_DEVICE, "DEVICE", 0, "cpu, reference, cuda, cuda:1, ...", 90},
    {"cutensor", KEY_CUTENSOR, "WHEN", 0, "whether cuTENSOR contracts sum_product on a CUDA device: auto (where it "
     "measured faster), never, always", 90},
    {"threads", KEY_THREADS, "N", 0, "threads to use; 0, the default: all", 90},
    {"order", KEY_ORDER, "METHOD|FILE", 0,
     "contraction order: a method, a file that holds one, or 'file' for the one in the network's own file (default "
     "where there is one)", 91},
    {"minimize", KEY_MINIMIZE, "WHAT", 0, "what the search for an order minimises: time, flops, size, write", 91},
    {"time-limit", KEY_TIME_LIMIT, "SECONDS", 0, "search for an order by the clock; the default is a fixed amount of "
     "work, which gives the same order every time", 91},
    {"work", KEY_WORK, "UNITS", 0, "amount of work for the search, about seconds of one core", 91},
    {"seed", KEY_SEED, "N", 0, "seed of everything random", 91},
    {"memory-limit", KEY_MEMORY_LIMIT, "BYTES", 0, "memory for all of the run, such as 4GiB; slices to fit", 91},
    {"save-order", KEY_SAVE_ORDER, "FILE", 0, "save the order as JSON", 91},
    {"json", KEY_JSON, NULL, 0, "print one JSON object", 92},
    {"dry-run", KEY_DRY_RUN, NULL, 0, "print cost and memory, then stop", 92},
    {0},
};

static const char *const cutensor_choices[] = {[TENSUM_CUTENSOR_AUTO] = "auto", [TENSUM_CUTENSOR_NEVER] = "never",
                                               [TENSUM_CUTENSOR_ALWAYS] = "always"};

static int parse_cutensor(struct argp_state *state, const char *text)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, cutensor_choices[i]) == 0) {
            return i;
        }
    }
    argp_error(state, "--cutensor=%s: expected auto, never or always", text);
    return 0;
}

/* It is a property of the device, so it is set once both are known. A device that is not there is told later. */
static void apply_cutensor(struct argp_state *state, const shared_options *options)
{
    if (options->cutensor >= 0 && options->device.kind != TENSUM_CUDA) {
        argp_error(state, "--cutensor=%s: needs --device=cuda", cutensor_choices[options->cutensor]);
    } else if (options->cutensor >= 0) {
        (void)tensum_cutensor_choose(options->device, (tensum_cutensor_choice)options->cutensor);
    }
}

static error_t parse_shared(int key, char *argument, struct argp_state *state)
{
    shared_options *options = state->input;
    tensum_semiring semiring;
    tensum_dtype dtype;
    switch (key) {
    case KEY_SEMIRING:
        if (tensum_semiring_find(argument, &semiring) != TENSUM_OK) {
            argp_error(state, "%s", tensum_last_error());
        }
        options->semiring = (int)semiring;
        return 0;
    case KEY_DTYPE:
        if (tensum_dtype_find(argument, &dtype) != TENSUM_OK) {
            argp_error(state, "%s", tensum_last_error());
        }
        options->dtype = (int)dtype;
        return 0;
    case KEY_DEVICE:
        if (tensum_device_parse(argument, &options->device) != TENSUM_OK) {
            argp_error(state, "%s", tensum_last_error());
        }
        return 0;
    case KEY_CUTENSOR:
        options->cutensor = parse_cutensor(state, argument);
        return 0;
    case ARGP_KEY_END:
        apply_cutensor(state, options);
        return 0;
    case KEY_ORDER:
        options->order = argument;
        return 0;
    case KEY_MINIMIZE:
        options->minimize = argument;
        return 0;
    case KEY_SAVE_ORDER:
        options->save_order = argument;
        return 0;
    case KEY_TIME_LIMIT:
        options->time_limit = parse_real(state, "time-limit", argument, 1e-3);
        return 0;
    case KEY_WORK:
        options->work = parse_real(state, "work", argument, 0.0);
        return 0;
    case KEY_MEMORY_LIMIT:
        options->memory_limit = parse_bytes(state, "memory-limit", argument);
        return 0;
    case KEY_THREADS:
        options->threads = (int)parse_integer(state, "threads", argument, 0, 1024);
        return 0;
    case KEY_SEED:
        options->seed = (uint64_t)parse_integer(state, "seed", argument, 0, INT64_MAX);
        return 0;
    case KEY_JSON:
        options->json = true;
        return 0;
    case KEY_DRY_RUN:
        options->dry_run = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp shared_argp = {shared_option_table, parse_shared, NULL, NULL, NULL, NULL, NULL};

void shared_options_init(shared_options *options)
{
    *options = (shared_options){.semiring = -1, .dtype = -1, .work = -1.0, .device = {TENSUM_CPU, 0}, .cutensor = -1};
}

int64_t parse_integer(struct argp_state *state, const char *option, const char *text, int64_t lowest, int64_t highest)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != 0 || value < lowest || value > highest) {
        argp_error(state, "--%s=%s: expected an integer from %lld to %lld", option, text, (long long)lowest,
                   (long long)highest);
    }
    return value;
}

double parse_real(struct argp_state *state, const char *option, const char *text, double lowest)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != 0 || !(value >= lowest) || isinf(value)) {
        argp_error(state, "--%s=%s: expected a number, %g or more", option, text, lowest);
    }
    return value;
}

uint64_t parse_bytes(struct argp_state *state, const char *option, const char *text)
{
    static const struct {
        const char *suffix;
        double factor;
    } units[] = {{"", 1},        {"B", 1},          {"K", 0x1p10},   {"KiB", 0x1p10}, {"kB", 1e3},     {"KB", 1e3},
                 {"M", 0x1p20},  {"MiB", 0x1p20},   {"MB", 1e6},     {"G", 0x1p30},   {"GiB", 0x1p30}, {"GB", 1e9},
                 {"T", 0x1p40},  {"TiB", 0x1p40},   {"TB", 1e12}};
    char *end;
    double value = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].suffix) == 0 && value * units[i].factor >= 1 && value * units[i].factor < 0x1p62) {
            return (uint64_t)(value * units[i].factor);
        }
    }
    argp_error(state, "--%s=%s: expected a number of bytes such as 4GiB or 500MB", option, text);
    return 0;
}

bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static size_t edit_distance(const char *a, const char *b)
{
    size_t row[65], m = strlen(a), n = strlen(b);
    if (m > 64 || n > 64) {
        return 64;
    }
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= m; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            size_t insert = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = insert < change ? insert : change;
        }
    }
    return row[n];
}

const char *nearest_name(const char *name, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t best = strlen(name) / 2 + 1;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(name, names[i]);
        if (distance <= best && (nearest == NULL || distance < best)) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

/* argp says only that an option is unknown; say which one was meant. */
static void check_long_option(const subcommand *command, const char *argument)
{
    const char *names[64] = {"help", "usage", "version"};
    char name[65];
    size_t count = 3, length = strcspn(argument + 2, "=");
    if (length == 0 || length >= sizeof name) {
        return;
    }
    memcpy(name, argument + 2, length);
    name[length] = 0;
    const struct argp_option *tables[] = {command->options, command->shared ? shared_option_table : NULL};
    for (int t = 0; t < 2; t++) {
        for (const struct argp_option *o = tables[t]; o != NULL && (o->name != NULL || o->key != 0) && count < 64; o++) {
            if (o->name != NULL) {
                names[count++] = o->name;
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (strncmp(names[i], name, length) == 0) {
            return; /* known, or an abbreviation that getopt will judge */
        }
    }
    const char *nearest = nearest_name(name, names, count);
    fprintf(stderr, "tensum %s: there is no option '--%s'%s%s%s\nTry 'tensum %s --help'.\n", command->name, name,
            nearest != NULL ? "; did you mean '--" : "", nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "",
            command->name);
    exit(EXIT_USAGE);
}

void parse_command_line(const subcommand *command, argp_parser_t parser, void *input, shared_options *shared, int argc,
                        char **argv)
{
    struct argp_child children[] = {{&shared_argp, 0, NULL, 0}, {0}};
    struct argp argp = {command->options, parser, command->arguments, NULL, NULL, NULL, NULL};
    char *doc = NULL;
    size_t size;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], "--", 2) == 0) {
            check_long_option(command, argv[i]);
        }
    }
    FILE *text = open_memstream(&doc, &size);
    if (text == NULL) {
        fprintf(stderr, "tensum: out of memory\n");
        exit(EXIT_MEMORY);
    }
    fprintf(text, "%s\v%s", command->summary, command->details);
    fclose(text);
    argp.doc = doc;
    if (command->shared) {
        argp.children = children;
    }
    void *inputs[] = {input, shared};
    argp_parse(&argp, argc, argv, 0, NULL, inputs);
    free(doc);
}
