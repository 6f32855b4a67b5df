/* Tropical matrix products of a Julia reference: values bit for bit and first winners, read from JSON. The devices are
 * reference and cpu, or those that TENSUM_TEST_DEVICES names ("cuda:0,cpu"). */
#include <dirent.h>
#include <jansson.h>

#include "support.h"

typedef struct fixture_kind {
    const char *folder;
    tensum_semiring semiring;
    tensum_dtype dtype;
} fixture_kind;
static const fixture_kind kinds[] = {
    {"maxplus_f32", TENSUM_MAX_PLUS, TENSUM_F32},  {"maxplus_f64", TENSUM_MAX_PLUS, TENSUM_F64},
    {"minplus_f32", TENSUM_MIN_PLUS, TENSUM_F32},  {"minplus_f64", TENSUM_MIN_PLUS, TENSUM_F64},
    {"maxmul_f32", TENSUM_MAX_TIMES, TENSUM_F32},  {"maxmul_f64", TENSUM_MAX_TIMES, TENSUM_F64},
    {"andor_bool", TENSUM_OR_AND, TENSUM_BOOL},    {"counting_f32", TENSUM_MAX_PLUS_COUNT, TENSUM_VC64},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

enum { MOST_DEVICES = 8 };
static tensum_device devices[MOST_DEVICES] = {{TENSUM_REFERENCE, 0}, {TENSUM_CPU, 0}};
static int device_count = 2;

/* All numbers below a JSON array, in order; returns how many there are (at most `room` are written). */
static size_t flatten(const json_t *node, double *values, size_t room)
{
    size_t count = 0, i;
    json_t *item;
    if (json_is_array(node)) {
        json_array_foreach(node, i, item) {
            count += flatten(item, values + count, room > count ? room - count : 0);
        }
        return count;
    }
    if (room > 0) {
        values[0] = json_is_boolean(node) ? (double)json_is_true(node) : json_number_value(node);
    }
    return 1;
}

/* Elements of a dtype from numbers (two each for counted dtypes). */
static void *elements(tensum_dtype dtype, const double *values, size_t count)
{
    unsigned char *memory = malloc(count * 8 + 8);
    for (size_t i = 0; i < count; i++) {
        float narrow = (float)values[i];
        if (dtype == TENSUM_F64) {
            memcpy(memory + 8 * i, &values[i], sizeof(double));
        } else if (dtype == TENSUM_BOOL) {
            memory[i] = values[i] != 0;
        } else {
            memcpy(memory + 4 * i, &narrow, sizeof narrow);
        }
    }
    return memory;
}

static void *read_elements(const json_t *root, const char *key, tensum_dtype dtype, int64_t expected)
{
    const json_t *node = json_object_get(root, key);
    size_t parts = dtype == TENSUM_VC64 ? 2 : 1, count = (size_t)expected * parts;
    double *values = malloc((count + 1) * sizeof(double));
    assert_int_equal(flatten(node, values, count), count);
    void *memory = elements(dtype, values, count);
    free(values);
    return memory;
}

static void check_file(const fixture_kind *kind, const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL) {
        fail_msg("%s, line %d: %s", path, error.line, error.text);
    }
    int64_t m = json_integer_value(json_object_get(root, "m")), k = json_integer_value(json_object_get(root, "k")), n = json_integer_value(json_object_get(root, "n"));
    int64_t batch = json_is_integer(json_object_get(root, "batch_size")) ? json_integer_value(json_object_get(root, "batch_size")) : 1;
    const json_t *argmax = json_object_get(root, "argmax_expected");
    void *a = read_elements(root, "a", kind->dtype, batch * m * k), *b = read_elements(root, "b", kind->dtype, batch * k * n);
    unsigned char *expected = read_elements(root, "c_expected", kind->dtype, batch * m * n);
    double *winners = malloc(sizeof(double) * (size_t)(batch * m * n));
    bool selective = tensum_semiring_selective(kind->semiring) != 0 && json_is_array(argmax);
    if (selective) {
        assert_int_equal(flatten(argmax, winners, (size_t)(batch * m * n)), batch * m * n);
    }
    for (int d = 0; d < device_count; d++) {
        size_t bytes = tensum_dtype_bytes(kind->dtype);
        unsigned char *got = malloc((size_t)(batch * m * n) * bytes);
        int32_t *got_winners = malloc((size_t)(batch * m * n) * sizeof(int32_t));
        const tensum_tensor inputs[] = {TENSOR(kind->dtype, a, batch, m, k), TENSOR(kind->dtype, b, batch, k, n)};
        const tensum_tensor out = TENSOR(kind->dtype, got, batch, m, n), w = TENSOR(TENSUM_I32, got_winners, batch, m, n);
        contraction job = {.expression = "zij,zjk->zik", .semiring = kind->semiring, .dtype = kind->dtype, .operands = inputs, .operand_count = 2, .output = &out,
                           .winners = selective ? &w : NULL};
        RUN(&job, devices[d]);
        for (int64_t i = 0; i < batch * m * n; i++) {
            if (memcmp(got + (size_t)i * bytes, expected + (size_t)i * bytes, bytes) != 0) {
                fail_msg("%s: value %" PRId64 " differs", path, i);
            }
            if (selective && got_winners[i] != (int32_t)winners[i]) {
                fail_msg("%s: winner %" PRId64 " is %" PRId32 ", not %g", path, i, got_winners[i], winners[i]);
            }
        }
        free(got);
        free(got_winners);
    }
    free(winners);
    free(expected);
    free(a);
    free(b);
    json_decref(root);
}

/* Every file of a folder of the public data, or of the few that the repository has. */
static int check_folder(const char *root, const fixture_kind *kind)
{
    char folder[4096], path[5000];
    int files = 0;
    snprintf(folder, sizeof folder, "%s/%s", root, kind->folder);
    DIR *directory = opendir(folder);
    if (directory == NULL) {
        return 0;
    }
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        size_t length = strlen(entry->d_name);
        if (length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0) {
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            check_file(kind, path);
            files++;
        }
    }
    closedir(directory);
    return files;
}

static void own_copies(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        if (check_folder("tests/data/fixtures", &kinds[i]) == 0) {
            fail_msg("tests/data/fixtures/%s has no files", kinds[i].folder);
        }
    }
}

static void all_public_fixtures(void **state)
{
    char root[4096];
    int files = 0;
    (void)state;
    snprintf(root, sizeof root, "%s/fixtures", data_folder());
    DIR *directory = opendir(root);
    if (directory == NULL) {
        print_message("skipped: there is no %s\n", root);
        skip();
    }
    closedir(directory);
    for (int i = 0; i < KINDS; i++) {
        int found = check_folder(root, &kinds[i]);
        assert_true(found > 0);
        files += found;
    }
    print_message("%d files\n", files);
    assert_true(files >= 62);
}

/* The devices that the environment names. */
static void choose_devices(void)
{
    const char *names = getenv("TENSUM_TEST_DEVICES");
    char copy[256], *rest = NULL;

    if (names == NULL || names[0] == '\0') {
        return;
    }
    device_count = 0;
    snprintf(copy, sizeof copy, "%s", names);
    for (char *name = strtok_r(copy, ",", &rest); name != NULL && device_count < MOST_DEVICES; name = strtok_r(NULL, ",", &rest)) {
        tensum_device *device = &devices[device_count++];
        if (tensum_device_parse(name, device) != TENSUM_OK) {
            printf("TENSUM_TEST_DEVICES: %s\n", tensum_last_error());
            exit(2);
        }
        if (device->index >= tensum_device_count(device->kind)) {
            printf("skipped: there is no device %s here\n", name);
            exit(77);
        }
    }
}

int main(void)
{
    choose_devices();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_copies),
        cmocka_unit_test(all_public_fixtures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
