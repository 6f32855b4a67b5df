/* tensum info: what this machine and this build can do. */
#include <string.h>

#include "command.h"

enum { KEY_JSON = 'j' };

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "print one JSON object", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    void **inputs = state->input;
    (void)argument;
    switch (key) {
    case KEY_JSON:
        *(bool *)inputs[0] = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "no arguments expected, found '%s'", argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const tensum_device_kind kinds[] = {TENSUM_CPU, TENSUM_CUDA, TENSUM_REFERENCE};
static const char *const kind_names[] = {"cpu", "cuda", "reference"};

static void print_devices(void)
{
    char total[32], available[32];
    printf("\ndevices\n");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int32_t count = tensum_device_count(kinds[k]);
        if (count == 0) {
            printf("  %-10s none\n", kind_names[k]);
        }
        for (int32_t i = 0; i < count; i++) {
            tensum_device_info info = {.size = sizeof info};
            if (tensum_device_query((tensum_device){kinds[k], i}, &info) != TENSUM_OK) {
                printf("  %s:%d       %s\n", kind_names[k], (int)i, tensum_last_error());
                continue;
            }
            char place[32];
            snprintf(place, sizeof place, kinds[k] == TENSUM_CUDA ? "%s:%d" : "%s", kind_names[k], (int)i);
            printf("  %-10s %s, %s, %d units", place, info.name, info.driver, (int)info.units);
            if (info.memory_total != 0) {
                printf(", %s of %s free", format_bytes((double)info.memory_free, available),
                       format_bytes((double)info.memory_total, total));
            }
            printf("\n");
            if (info.detail[0] != 0) {
                printf("  %-10s %s\n", "", info.detail);
            }
        }
    }
}

/* Its version as text, or why it cannot be used; false then. */
static bool describe_cutensor(char text[320])
{
    int64_t version;
    if (tensum_cutensor_version(&version) != TENSUM_OK) {
        snprintf(text, 320, "%s", tensum_last_error());
        return false;
    }
    snprintf(text, 320, "%d.%d.%d", (int)(version / 10000), (int)(version / 100 % 100), (int)(version % 100));
    return true;
}

/* Only where there is a device for it. */
static void print_cutensor(void)
{
    char text[320];
    if (tensum_device_count(TENSUM_CUDA) > 0) {
        bool there = describe_cutensor(text);
        printf("\n%s%s\n", there ? "cuTENSOR " : "no cuTENSOR, so our own kernels contract sum_product: ", text);
    }
}

/* v: value, w: winners, g: gradient, d: decode. */
static void mode_letters(unsigned modes, char text[8])
{
    snprintf(text, 8, "%s%s%s%s", (modes & TENSUM_VALUE) != 0 ? "v" : "", (modes & TENSUM_WINNERS) != 0 ? "w" : "",
             (modes & TENSUM_GRADIENT) != 0 ? "g" : "", (modes & TENSUM_DECODE) != 0 ? "d" : "");
}

static void print_table(void)
{
    printf("\nsemirings and dtypes (v value, w winners, g gradient, d decode)\n  %-16s", "");
    for (int d = 0; d < (int)TENSUM_DTYPE_COUNT; d++) {
        printf(" %-5s", tensum_dtype_name((tensum_dtype)d));
    }
    printf("\n");
    for (int s = 0; s < (int)TENSUM_SEMIRING_COUNT; s++) {
        printf("  %-16s", tensum_semiring_name((tensum_semiring)s));
        for (int d = 0; d < (int)TENSUM_DTYPE_COUNT; d++) {
            char letters[8];
            mode_letters(tensum_supports((tensum_semiring)s, (tensum_dtype)d), letters);
            printf(" %-5s", letters[0] != 0 ? letters : "-");
        }
        printf("  %s\n", tensum_semiring_summary((tensum_semiring)s));
    }
}

static void print_lists(void)
{
    printf("\norders: auto");
    for (int i = 0; tensum_order_method_name(i) != NULL; i++) {
        if (strcmp(tensum_order_method_name(i), "auto") != 0) {
            printf(", %s", tensum_order_method_name(i));
        }
    }
    printf("\n\nfile formats (r: read, w: written)\n");
    for (int i = 0; tensum_file_format_name(i) != NULL; i++) {
        printf("  %-10s %s%s  %s\n", tensum_file_format_name(i), tensum_file_format_readable(i) ? "r" : " ",
               tensum_file_format_writable(i) ? "w" : " ", tensum_file_format_summary(i));
    }
    printf("\nproblems\n");
    for (int i = 0; tensum_front_end_name(i) != NULL; i++) {
        printf("  %-10s %s\n  %-10s tasks: %s\n", tensum_front_end_name(i), tensum_front_end_summary(i), "",
               tensum_front_end_tasks(i));
        if (tensum_front_end_questions(i)[0] != 0) {
            printf("  %-10s problems: %s\n", "", tensum_front_end_questions(i));
        }
        printf("  %-10s settings: %s\n", "", tensum_front_end_settings(i));
    }
}

static void print_json_devices(json_object *object)
{
    bool first = true;
    json_key(object, "devices");
    printf("[");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int32_t i = 0; i < tensum_device_count(kinds[k]); i++) {
            tensum_device_info info = {.size = sizeof info};
            json_object inner;
            if (tensum_device_query((tensum_device){kinds[k], i}, &info) != TENSUM_OK) {
                continue;
            }
            printf(first ? "" : ", ");
            first = false;
            json_begin(&inner);
            json_string(&inner, "kind", kind_names[k]);
            json_integer(&inner, "index", i);
            json_string(&inner, "name", info.name);
            json_string(&inner, "driver", info.driver);
            json_string(&inner, "detail", info.detail);
            json_integer(&inner, "units", info.units);
            json_integer(&inner, "memory_total", (int64_t)info.memory_total);
            json_integer(&inner, "memory_free", (int64_t)info.memory_free);
            printf("}");
        }
    }
    printf("]");
}

static void print_json(void)
{
    json_object object, pairs, dtypes;
    json_begin(&object);
    json_string(&object, "version", tensum_version());
    print_json_devices(&object);
    if (tensum_device_count(TENSUM_CUDA) > 0) {
        char text[320];
        bool there = describe_cutensor(text);
        json_string(&object, "cutensor", there ? text : "none");
    }
    json_key(&object, "supports");
    json_begin(&pairs);
    for (int s = 0; s < (int)TENSUM_SEMIRING_COUNT; s++) {
        json_key(&pairs, tensum_semiring_name((tensum_semiring)s));
        json_begin(&dtypes);
        for (int d = 0; d < (int)TENSUM_DTYPE_COUNT; d++) {
            char letters[8];
            mode_letters(tensum_supports((tensum_semiring)s, (tensum_dtype)d), letters);
            if (letters[0] != 0) {
                json_string(&dtypes, tensum_dtype_name((tensum_dtype)d), letters);
            }
        }
        printf("}");
    }
    printf("}");
    json_end(&object);
}

static int run(const subcommand *command, int argc, char **argv)
{
    bool json = false;
    parse_command_line(command, parse, &json, NULL, argc, argv);
    if (json) {
        print_json();
    } else {
        printf("tensum %s\n", tensum_version());
        print_devices();
        print_cutensor();
        print_table();
        print_lists();
    }
    return EXIT_DONE;
}

const subcommand command_info = {
    "info", "print version, devices, kernels, semirings, formats", "", "Example:\n  tensum info --json\n",
    options, false, run,
};
