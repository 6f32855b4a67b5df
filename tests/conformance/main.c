/* conformance: generated cases on several devices against the reference device and brute force. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance.h"

enum { MAX_DEVICES = 8, MAX_JOBS = 64, SHOWN_FAILURES = 5 };

typedef struct run_options {
    uint64_t seed;
    int64_t count;
    int jobs, device_count, verbose;
    const char *device_names[MAX_DEVICES];
    tensum_device devices[MAX_DEVICES];
    case_filter filter;
    int64_t fail_limit, case_seconds;
} run_options;

/* Shared between the processes. */
typedef struct run_results {
    case_tally tally;
    int64_t passed, failed;
} run_results;

static void usage(FILE *stream)
{
    fprintf(stream,
            "usage: conformance [--seed N] [--count N] [--jobs N] [--devices cpu,cuda:0] [--semiring S] [--dtype D]\n"
            "                   [--limit N] [--case-seconds N] [--verbose]\n"
            "Case i has the seed N + i. Every device is compared with 'reference', and that with brute force.\n"
            "--limit N: stop a process after N failures; --verbose: print every case.\n"
            "--case-seconds N: a process whose case takes longer says which and ends; 0: never (300).\n");
}

static bool parse_number(const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

static bool parse_devices(char *list, run_options *options)
{
    char *rest = NULL;
    options->device_count = 0;
    for (char *name = strtok_r(list, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) {
        if (options->device_count == MAX_DEVICES) {
            fprintf(stderr, "conformance: more than %d devices\n", MAX_DEVICES);
            return false;
        }
        options->device_names[options->device_count++] = name;
    }
    return true;
}

static bool parse(int count, char **words, run_options *options)
{
    for (int i = 1; i < count; i++) {
        const char *word = words[i];
        int64_t value = 0;
        if (strcmp(word, "--verbose") == 0) {
            options->verbose = 1;
            continue;
        }
        if (i + 1 == count) {
            fprintf(stderr, "conformance: '%s' is not an option, or lacks its value\n", word);
            return false;
        }
        char *argument = words[++i];
        if (strcmp(word, "--seed") == 0) {
            char *end;
            options->seed = strtoull(argument, &end, 10);
            if (*end != '\0') {
                fprintf(stderr, "conformance: '%s' is not a seed\n", argument);
                return false;
            }
        } else if (strcmp(word, "--count") == 0 && parse_number(argument, &value) && value >= 0) {
            options->count = value;
        } else if (strcmp(word, "--jobs") == 0 && parse_number(argument, &value) && value >= 1 && value <= MAX_JOBS) {
            options->jobs = (int)value;
        } else if (strcmp(word, "--case-seconds") == 0 && parse_number(argument, &value) && value >= 0 && value <= 86400) {
            options->case_seconds = value;
        } else if (strcmp(word, "--limit") == 0 && parse_number(argument, &value) && value >= 1) {
            options->fail_limit = value;
        } else if (strcmp(word, "--devices") == 0 && parse_devices(argument, options)) {
            continue;
        } else if (strcmp(word, "--semiring") == 0) {
            if (tensum_semiring_find(argument, &options->filter.semiring) != TENSUM_OK) {
                fprintf(stderr, "conformance: %s\n", tensum_last_error());
                return false;
            }
        } else if (strcmp(word, "--dtype") == 0) {
            if (tensum_dtype_find(argument, &options->filter.dtype) != TENSUM_OK) {
                fprintf(stderr, "conformance: %s\n", tensum_last_error());
                return false;
            }
        } else {
            fprintf(stderr, "conformance: '%s %s' is not understood\n", word, argument);
            return false;
        }
    }
    return true;
}

static void count_features(const test_case *test, case_tally *tally)
{
    bool diagonal = false, hyperedge = false, broadcast = false, many = false;
    int holders[MAX_LABELS] = {0};
    for (int t = 0; t <= test->operand_count; t++) {
        const tensor_shape *shape = t < test->operand_count ? &test->operands[t] : &test->output;
        for (int32_t i = 0; i < shape->rank; i++) {
            bool again = false;
            for (int32_t j = 0; j < i; j++) {
                again = again || shape->labels[j] == shape->labels[i];
            }
            diagonal = diagonal || again;
            holders[shape->labels[i]] += again ? 0 : 1;
            broadcast = broadcast || shape->extents[i] != test->extents[shape->labels[i]];
        }
    }
    for (int label = 0; label < test->label_count; label++) {
        hyperedge = hyperedge || holders[label] > 2;
    }
    for (int s = 0; s < test->step_count; s++) {
        many = many || test->offsets[s + 1] - test->offsets[s] > 2;
    }
    tally->cases++;
    tally->sliced += test->slice_count > 0;
    tally->tiles += test->tile;
    tally->many_children += many;
    tally->hyperedges += hyperedge;
    tally->diagonals += diagonal;
    tally->broadcasts += broadcast;
    tally->empty += test->assignments == 0;
}

/* false where the case failed; the reason is printed. */
static bool run_case(const run_options *options, const test_machine *machines, uint64_t seed, case_tally *tally)
{
    test_case test;
    expectation expected;
    case_outcome reference, other;
    char text[1024] = "";
    const char *where = "reference";
    memset(&expected, 0, sizeof expected);
    memset(&reference, 0, sizeof reference);
    if (!case_generate(seed, &options->filter, &test)) {
        printf("case %" PRIu64 ": cannot be generated (no such pair, or out of memory)\n", seed);
        return false;
    }
    if (options->verbose != 0) {
        case_print(&test);
        fflush(stdout);
    }
    bool good = expect(&test, &expected);
    if (!good) {
        snprintf(text, sizeof text, "out of memory in the test");
    } else if (!case_run(&test, &machines[0], &reference)) {
        good = false;
        snprintf(text, sizeof text, "%s", reference.error);
    } else {
        good = case_check(&test, &expected, &reference, tally, text, sizeof text);
        tally->saved += reference.saved;
        tally->kept += reference.kept;
    }
    for (int d = 0; good && d < options->device_count; d++) {
        where = options->device_names[d];
        good = case_run(&test, &machines[d + 1], &other);
        if (!good && other.unsupported && machines[d + 1].device.kind == TENSUM_CUDA) {
            good = true; /* a device may say so; main() sees that it does not say so too often */
        } else if (!good) {
            snprintf(text, sizeof text, "%s", other.error);
        } else {
            tally->compared++;
            good = case_compare(&test, &expected, &reference, &other, text, sizeof text);
        }
        outcome_free(&other);
    }
    count_features(&test, tally);
    if (!good) {
        printf("FAILED on %s: %s\n", where, text);
        if (options->verbose == 0) {
            case_print(&test);
        }
        printf("  reproduce: conformance --seed %" PRIu64 " --count 1", seed);
        if (options->filter.semiring != TENSUM_SEMIRING_COUNT) {
            printf(" --semiring %s", tensum_semiring_name(options->filter.semiring));
        }
        if (options->filter.dtype != TENSUM_DTYPE_COUNT) {
            printf(" --dtype %s", tensum_dtype_name(options->filter.dtype));
        }
        if (strcmp(where, "reference") != 0) {
            printf(" --devices %s", where);
        }
        printf("\n");
        fflush(stdout);
    }
    outcome_free(&reference);
    expectation_free(&expected);
    case_free(&test);
    return good;
}

/* What hangs must say where: a test that is ended from outside says nothing. */
static char overdue[160];
static void tell_overdue(int signal_number)
{
    (void)signal_number;
    if (write(STDOUT_FILENO, overdue, strlen(overdue)) < 0) {
        _exit(5);
    }
    _exit(4);
}
static void watch_case(const run_options *options, uint64_t seed)
{
    snprintf(overdue, sizeof overdue, "conformance: case %" PRIu64 " still ran after %" PRId64 " s\n", seed, options->case_seconds);
    alarm((unsigned)options->case_seconds);
}

static void add_results(run_results *total, const case_tally *tally, int64_t passed, int64_t failed)
{
#define TALLY_ADD(name) __atomic_fetch_add(&total->tally.name, tally->name, __ATOMIC_RELAXED);
    TALLY_LIST(TALLY_ADD)
#undef TALLY_ADD
    __atomic_fetch_add(&total->passed, passed, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->failed, failed, __ATOMIC_RELAXED);
}

static int work(const run_options *options, int job, run_results *total)
{
    test_machine machines[MAX_DEVICES + 1];
    tensum_context *serial = NULL, *threaded = NULL;
    tensum_context_options one = TENSUM_CONTEXT_OPTIONS_INIT, three = TENSUM_CONTEXT_OPTIONS_INIT;
    case_tally tally;
    int64_t passed = 0, failed = 0;
    memset(&tally, 0, sizeof tally);
    one.threads = 1;
    three.threads = 3;
    if (tensum_context_create(&one, &serial) != TENSUM_OK || tensum_context_create(&three, &threaded) != TENSUM_OK) {
        printf("conformance: %s\n", tensum_last_error());
        tensum_context_release(serial);
        return 1;
    }
    for (int d = 0; d <= options->device_count; d++) {
        machines[d].device.kind = TENSUM_REFERENCE;
        machines[d].device.index = 0;
        if (d > 0) {
            machines[d].device = options->devices[d - 1];
        }
        machines[d].serial = serial;
        machines[d].threaded = threaded;
    }
    signal(SIGALRM, tell_overdue);
    for (int64_t i = job; i < options->count && failed < options->fail_limit; i += options->jobs) {
        watch_case(options, options->seed + (uint64_t)i);
        if (run_case(options, machines, options->seed + (uint64_t)i, &tally)) {
            passed++;
        } else {
            failed++;
        }
    }
    alarm(0);
    tensum_context_release(serial);
    tensum_context_release(threaded);
    add_results(total, &tally, passed, failed);
    return failed > 0;
}

/* A large run must have compared something of everything. */
static bool complete(const run_options *options, const case_tally *tally)
{
    bool good = true;
    if (4 * tally->compared < 3 * tally->cases * options->device_count && tally->cases >= 100) {
        printf("conformance: only %" PRId64 " comparisons for %" PRId64 " cases: too much is unsupported\n", tally->compared, tally->cases);
        good = false;
    }
    if (options->count < 5000 || options->filter.semiring != TENSUM_SEMIRING_COUNT || options->filter.dtype != TENSUM_DTYPE_COUNT) {
        return good;
    }
#define TALLY_CHECK(name)                                                   \
    if (tally->name == 0) {                                                 \
        printf("conformance: no case compared anything under " #name "\n"); \
        good = false;                                                       \
    }
    TALLY_LIST(TALLY_CHECK)
#undef TALLY_CHECK
    return good;
}

/* Asked in a process of its own: what has used a GPU cannot fork into processes that do. */
static bool device_exists(tensum_device device)
{
    int result = 1;
    pid_t child = fork();
    if (child == 0) {
        _exit(device.index < tensum_device_count(device.kind) ? 0 : 1);
    }
    return child > 0 && waitpid(child, &result, 0) == child && result == 0;
}

int main(int count, char **words)
{
    run_options options = {.seed = 1, .count = 1000, .jobs = 1, .device_count = 1, .fail_limit = SHOWN_FAILURES, .case_seconds = 300};
    static const char *const standard = "cpu";
    options.device_names[0] = standard;
    options.filter.semiring = TENSUM_SEMIRING_COUNT;
    options.filter.dtype = TENSUM_DTYPE_COUNT;
    if (count == 2 && strcmp(words[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    if (!parse(count, words, &options)) {
        usage(stderr);
        return 2;
    }
    for (int d = 0; d < options.device_count; d++) {
        if (tensum_device_parse(options.device_names[d], &options.devices[d]) != TENSUM_OK) {
            fprintf(stderr, "conformance: %s\n", tensum_last_error());
            return 2;
        }
        if (options.devices[d].kind == TENSUM_CUDA && !device_exists(options.devices[d])) {
            printf("conformance: skipped: there is no device %s here\n", options.device_names[d]);
            return 77;
        }
    }
    run_results *total = mmap(NULL, sizeof *total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (total == MAP_FAILED) {
        perror("conformance: mmap");
        return 5;
    }
    printf("conformance: seeds %" PRIu64 " to %" PRIu64 ", devices reference", options.seed, options.seed + (uint64_t)options.count - 1);
    for (int d = 0; d < options.device_count; d++) {
        printf(" %s", options.device_names[d]);
    }
    printf(", %d processes\n", options.jobs);
    fflush(stdout);
    bool crashed = false;
    if (options.jobs == 1) {
        work(&options, 0, total);
    } else {
        for (int job = 0; job < options.jobs; job++) {
            pid_t child = fork();
            if (child == 0) {
                exit(work(&options, job, total));
            }
            if (child < 0) {
                perror("conformance: fork");
                crashed = true;
            }
        }
        int status;
        while (wait(&status) > 0) {
            if (WIFSIGNALED(status)) {
                printf("conformance: a process died of signal %d\n", WTERMSIG(status));
                crashed = true;
            } else if (WEXITSTATUS(status) > 1 || (WEXITSTATUS(status) == 1 && total->failed == 0)) {
                printf("conformance: a process ended with status %d\n", WEXITSTATUS(status));
                crashed = true; /* a sanitizer's verdict */
            }
        }
    }
#define TALLY_PRINT(name) printf("  %-16s %" PRId64 "\n", #name, total->tally.name);
    TALLY_LIST(TALLY_PRINT)
#undef TALLY_PRINT
    if (total->passed == 0 && total->failed == 0) {
        printf("conformance: no case was run to its end\n");
        crashed = true;
    }
    bool good = !crashed && total->failed == 0 && complete(&options, &total->tally);
    printf("%" PRId64 " passed, %" PRId64 " failed\n", total->passed, total->failed + (good || total->failed > 0 ? 0 : 1));
    return good ? 0 : 1;
}
