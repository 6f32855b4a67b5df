/* Kernels compiled at run time, and the folder that keeps them: on stand-ins for the driver and for NVRTC. With
 * TENSUM_TEST_NVRTC set to a real NVRTC's file: does it compile the sources? Needs no GPU.
 *
 * A process loads a module once, so everything here happens in children, which tell by their exit status. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <simcuda/simcuda.h>
#include <simcuda/simnvrtc.h>
#include <tensum/tensum.h>

static char folder[128]; /* of this process; removed at the end */

#define MUST(condition)                                                           \
    do {                                                                          \
        if (!(condition)) {                                                       \
            printf("line %d: %s: %s\n", __LINE__, #condition, tensum_last_error()); \
            fflush(stdout);                                                       \
            _exit(1);                                                             \
        }                                                                         \
    } while (0)

static void in_child(void (*work)(void))
{
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        work();
        fflush(NULL);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static tensum_status multiply(int device, tensum_semiring semiring, tensum_dtype dtype, const void *a, const void *b, void *c)
{
    static const int64_t extents[] = {2, 2};
    static const int32_t ranks[] = {2, 2};
    static const int64_t *const shapes[] = {extents, extents};
    const tensum_device host = {TENSUM_CPU, 0};
    const tensum_tensor inputs[] = {{(void *)(uintptr_t)a, dtype, 2, extents, NULL, host}, {(void *)(uintptr_t)b, dtype, 2, extents, NULL, host}};
    const tensum_tensor output = {c, dtype, 2, extents, NULL, host};
    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    tensum_plan *plan = NULL;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    tensum_status status;

    plan_options.semiring = semiring;
    plan_options.dtype = dtype;
    options.device = (tensum_device){TENSUM_CUDA, device};
    run.inputs = inputs;
    run.output = &output;
    status = tensum_network_parse("ij,jk->ik", 2, ranks, shapes, 0, NULL, NULL, &network);
    status = status != TENSUM_OK ? status : tensum_order(network, NULL, NULL, &tree);
    status = status != TENSUM_OK ? status : tensum_plan_create(network, tree, &plan_options, &plan);
    status = status != TENSUM_OK ? status : tensum_program_create(plan, NULL, &options, &program);
    status = status != TENSUM_OK ? status : tensum_workspace_create(program, NULL, &workspace);
    status = status != TENSUM_OK ? status : tensum_run(program, workspace, &run);
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    tensum_plan_release(plan);
    tensum_tree_release(tree);
    tensum_network_release(network);
    return status;
}

/* Max-plus in f32 on a device: needs two modules. */
static tensum_status use(int device)
{
    const float a[] = {1, 2, 3, 4}, b[] = {10, 20, 30, 40};
    float c[4] = {0};
    tensum_status status = multiply(device, TENSUM_MAX_PLUS, TENSUM_F32, a, b, c);

    if (status == TENSUM_OK) {
        MUST(c[0] == 32 && c[1] == 42 && c[2] == 34 && c[3] == 44);
    }
    return status;
}

static uint64_t compilations(int device)
{
    tensum_device_counters counters = TENSUM_DEVICE_COUNTERS_INIT;
    MUST(tensum_device_stats((tensum_device){TENSUM_CUDA, device}, &counters) == TENSUM_OK);
    return counters.module_compilations;
}

/* Files in a folder; `change` is called with each one's path. */
static int count_in(const char *where, void (*change)(const char *path))
{
    DIR *directory = opendir(where);
    int count = 0;

    if (directory == NULL) {
        return 0;
    }
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        char path[800];
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", where, entry->d_name);
            count++;
            if (change != NULL) {
                change(path);
            }
        }
    }
    closedir(directory);
    return count;
}
static int count_files(void (*change)(const char *path)) { return count_in(folder, change); }
static void remove_file(const char *path) { assert_int_equal(unlink(path), 0); }

static int fresh_folder(void **state)
{
    (void)state;
    count_files(remove_file);
    MUST(setenv("TENSUM_KERNEL_CACHE", folder, 1) == 0);
    return 0;
}

static void compiles_two(void)
{
    MUST(use(0) == TENSUM_OK);
    MUST(compilations(0) == 2);
    MUST(use(0) == TENSUM_OK);
    MUST(compilations(0) == 2);
    MUST(use(1) == TENSUM_OK); /* of the same architecture */
    MUST(compilations(1) == 0);
}
static void compiles_none(void)
{
    MUST(use(0) == TENSUM_OK);
    MUST(compilations(0) == 0);
}

static void keeps_nothing(void)
{
    MUST(use(0) == TENSUM_OK);
    MUST(use(1) == TENSUM_OK);
    MUST(compilations(0) == 2 && compilations(1) == 2);
}

static void what_is_compiled_is_kept(void **state)
{
    (void)state;
    in_child(compiles_two);
    assert_int_equal(count_files(NULL), 2);
    in_child(compiles_none);
    assert_int_equal(count_files(NULL), 2);
}

/* ---- files that are not what they should be ---- */

static void cut(const char *path)
{
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(truncate(path, about.st_size - 3), 0);
}
static void empty(const char *path) { assert_int_equal(truncate(path, 0), 0); }
static void cut_in_head(const char *path) { assert_int_equal(truncate(path, 20), 0); }
static void change_byte(const char *path, long from_end)
{
    FILE *file = fopen(path, "r+b");
    int byte;
    assert_non_null(file);
    assert_int_equal(fseek(file, from_end, SEEK_END), 0);
    byte = fgetc(file);
    assert_int_equal(fseek(file, from_end, SEEK_END), 0);
    fputc(byte ^ 1, file);
    assert_int_equal(fclose(file), 0);
}
static void change_last_byte(const char *path) { change_byte(path, -1); }
static void change_middle_byte(const char *path) { change_byte(path, -12); }
static void append(const char *path)
{
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    fputs("more", file);
    assert_int_equal(fclose(file), 0);
}
static void overwrite(const char *path)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < 5000; i++) {
        fputs("not an image ", file);
    }
    assert_int_equal(fclose(file), 0);
}

static void harmed_files_are_made_anew(void **state)
{
    void (*const harms[])(const char *) = {cut, empty, cut_in_head, change_last_byte, change_middle_byte, append, overwrite};

    (void)state;
    in_child(compiles_two);
    for (size_t i = 0; i < sizeof harms / sizeof *harms; i++) {
        assert_int_equal(count_files(harms[i]), 2);
        in_child(compiles_two);
        in_child(compiles_none);
        assert_int_equal(count_files(NULL), 2);
    }
}

static void driver_refuses_what_is_kept(void)
{
    simcuda_fail("cuModuleLoadData", 1, 200);
    MUST(use(0) == TENSUM_OK);
    MUST(compilations(0) == 1);
    MUST(use(1) == TENSUM_OK);
}
static void driver_refuses_everything(void)
{
    MUST(tensum_device_count(TENSUM_CUDA) == 2);
    for (int device = 0; device < 2; device++) {
        simcuda_fail("cuModuleLoadData", 1, device == 0 ? 200 : 222); /* just compiled: no use doing that again */
        MUST(use(device) == TENSUM_STATUS_DEVICE);
        MUST(strstr(tensum_last_error(), "newer than the driver") != NULL);
        MUST(use(device) == TENSUM_OK);
        count_files(remove_file);
    }
}
static void images_that_the_driver_refuses(void **state)
{
    (void)state;
    in_child(compiles_two);
    in_child(driver_refuses_what_is_kept);
    count_files(remove_file);
    in_child(driver_refuses_everything);
}

/* An image of the build that does not fit the device is no reason to give up. */
static void build_does_not_fit(void)
{
    unsetenv("TENSUM_KERNELS");
    simcuda_fail("cuModuleLoadData", 1, 209);
    MUST(use(0) == TENSUM_OK);
    MUST(compilations(0) == 1); /* the other module did fit */
}
static void the_build_goes_first(void)
{
    unsetenv("TENSUM_KERNELS");
    compiles_none();
    MUST(count_files(NULL) == 0);
}
static void images_of_the_build(void **state)
{
    (void)state;
    in_child(the_build_goes_first);
    in_child(build_does_not_fit);
}

/* ---- versions and architectures ---- */

static void newer_version(void)
{
    setenv("SIMNVRTC_VERSION", "13.1", 1);
    compiles_two();
}
static void older_architectures(void)
{
    setenv("SIMNVRTC_ARCHITECTURES", "75 80", 1); /* PTX for the driver, then */
    compiles_two();
}
static void no_architecture(void)
{
    setenv("SIMNVRTC_ARCHITECTURES", "100 120", 1);
    MUST(use(0) == TENSUM_STATUS_UNSUPPORTED);
    MUST(strstr(tensum_last_error(), "sm_90") != NULL);
}
static void other_versions_have_other_files(void **state)
{
    (void)state;
    in_child(compiles_two);
    in_child(newer_version);
    assert_int_equal(count_files(NULL), 4);
    in_child(compiles_none);
    in_child(older_architectures);
    assert_int_equal(count_files(NULL), 6);
    in_child(no_architecture);
}

/* ---- folders that cannot be used ---- */

static void folders_that_cannot_be_written(void **state)
{
    static char below[200];
    FILE *file;

    (void)state;
    MUST(setenv("TENSUM_KERNEL_CACHE", "", 1) == 0); /* none is wanted */
    in_child(keeps_nothing);
    assert_int_equal(count_files(NULL), 0);
    MUST(setenv("TENSUM_KERNEL_CACHE", "/proc/no/such/folder", 1) == 0);
    in_child(keeps_nothing);
    snprintf(below, sizeof below, "%s/file", folder);
    file = fopen(below, "wb");
    assert_non_null(file);
    fclose(file);
    strcat(below, "/folder");
    MUST(setenv("TENSUM_KERNEL_CACHE", below, 1) == 0);
    in_child(keeps_nothing);
    /* One that is not there yet is made, with those above it. */
    snprintf(below, sizeof below, "%s/a", folder);
    MUST(setenv("XDG_CACHE_HOME", below, 1) == 0 && unsetenv("TENSUM_KERNEL_CACHE") == 0);
    in_child(compiles_two);
    in_child(compiles_none);
    strcat(below, "/tensum/kernels");
    assert_int_equal(count_in(below, remove_file), 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rmdir(below), 0);
        *strrchr(below, '/') = '\0';
    }
    unsetenv("XDG_CACHE_HOME");
}

/* ---- NVRTC is not there, or fails ---- */

static void no_library(void)
{
    MUST(setenv("TENSUM_NVRTC_LIBRARY", "/no/such/libnvrtc.so", 1) == 0);
    MUST(use(0) == TENSUM_STATUS_UNSUPPORTED);
    MUST(strstr(tensum_last_error(), "NVRTC") != NULL && strstr(tensum_last_error(), "TENSUM_NVRTC_LIBRARY") != NULL);
    MUST(setenv("TENSUM_NVRTC_LIBRARY", SIMCUDA_LIBRARY, 1) == 0); /* a library, but not that one */
    MUST(use(0) == TENSUM_STATUS_UNSUPPORTED);
    MUST(strstr(tensum_last_error(), "nvrtcVersion") != NULL);
    MUST(setenv("TENSUM_NVRTC_LIBRARY", SIMNVRTC_LIBRARY, 1) == 0);
    MUST(use(0) == TENSUM_OK);
}
static void without_the_library(void **state)
{
    (void)state;
    in_child(no_library);
}

static void any_call_fails(void)
{
    long calls;

    setenv("TENSUM_KERNEL_CACHE", "", 1);
    simnvrtc_fail(0, 0);
    MUST(use(0) == TENSUM_OK);
    calls = simnvrtc_calls();
    MUST(calls > 10);
    for (long n = 1; n <= calls / 2; n++) { /* those of one module; the other device has not loaded any */
        tensum_status status;
        simnvrtc_fail(n, n % 2 == 0 ? 1 : 6);
        status = use(1);
        if (status == TENSUM_OK) {
            MUST(strcmp(simnvrtc_failed(), "nvrtcDestroyProgram") == 0); /* it has what it wants by then */
            break;
        }
        MUST(status == TENSUM_STATUS_DEVICE && simnvrtc_failed() != NULL);
        MUST(strstr(tensum_last_error(), "NVRTC") != NULL && strstr(tensum_last_error(), "cuda:1") != NULL);
        MUST(strstr(tensum_last_error(), simnvrtc_failed()) != NULL);
    }
    simnvrtc_fail(0, 0);
    MUST(use(1) == TENSUM_OK);
}
static void every_call_may_fail(void **state)
{
    (void)state;
    in_child(any_call_fails);
}

/* ---- many processes ---- */

static void processes_share_a_folder(void **state)
{
    enum { PROCESSES = 12 };
    pid_t children[PROCESSES];

    (void)state;
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            for (int device = 0; device < 2; device++) {
                MUST(use(device) == TENSUM_OK);
            }
            _exit(0);
        }
        assert_true(children[i] > 0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count_files(NULL), 2); /* and nothing beside */
    in_child(compiles_none);
}

/* ---- a real NVRTC ---- */

static int kernels_seen;
static void look_for_kernels(const char *path)
{
    static const char *const names[] = {"ts_or_and_bool_contract_generic_w", "ts_sum_product_i16_contract_large", "ts_max_plus_count_vc64_reduce",
                                        "ts_common_refresh"};
    FILE *file = fopen(path, "rb");
    char *text;
    long bytes;

    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    bytes = ftell(file);
    rewind(file);
    text = malloc((size_t)bytes);
    assert_int_equal(fread(text, 1, (size_t)bytes, file), (size_t)bytes);
    fclose(file);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        kernels_seen += memmem(text, (size_t)bytes, names[i], strlen(names[i])) != NULL;
    }
    free(text);
}
static void compiles_really(void)
{
    const uint8_t yes[] = {1, 0, 1, 1};
    const int16_t numbers[] = {1, 2, 3, 4};
    const float counts[] = {1, 1, 2, 1, 3, 1, 4, 1};
    unsigned char c[64];

    MUST(multiply(0, TENSUM_OR_AND, TENSUM_BOOL, yes, yes, c) == TENSUM_OK);
    MUST(multiply(0, TENSUM_SUM_PRODUCT, TENSUM_I16, numbers, numbers, c) == TENSUM_OK);
    MUST(multiply(0, TENSUM_MAX_PLUS_COUNT, TENSUM_VC64, counts, counts, c) == TENSUM_OK);
    MUST(compilations(0) == 4);
}
static void the_real_one_compiles_the_sources(void **state)
{
    (void)state;
    in_child(compiles_really);
    assert_int_equal(count_files(look_for_kernels), 4);
    assert_int_equal(kernels_seen, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_compiled_is_kept, fresh_folder),
        cmocka_unit_test_setup(harmed_files_are_made_anew, fresh_folder),
        cmocka_unit_test_setup(images_that_the_driver_refuses, fresh_folder),
        cmocka_unit_test_setup(images_of_the_build, fresh_folder),
        cmocka_unit_test_setup(other_versions_have_other_files, fresh_folder),
        cmocka_unit_test_setup(folders_that_cannot_be_written, fresh_folder),
        cmocka_unit_test_setup(without_the_library, fresh_folder),
        cmocka_unit_test_setup(every_call_may_fail, fresh_folder),
        cmocka_unit_test_setup(processes_share_a_folder, fresh_folder),
    };
    const struct CMUnitTest real_tests[] = {cmocka_unit_test_setup(the_real_one_compiles_the_sources, fresh_folder)};
    const char *real = getenv("TENSUM_TEST_NVRTC");
    const char *place = getenv("TMPDIR");
    int result;

    snprintf(folder, sizeof folder, "%s/tensum-kernels-XXXXXX", place != NULL && strlen(place) < 64 ? place : "/tmp");
    if (mkdtemp(folder) == NULL || setenv("TENSUM_CUDA_LIBRARY", SIMCUDA_LIBRARY, 1) != 0 || setenv("TENSUM_KERNELS", "runtime", 1) != 0 ||
        setenv("TENSUM_NVRTC_LIBRARY", real != NULL ? real : SIMNVRTC_LIBRARY, 1) != 0) {
        return 1;
    }
    result = real != NULL ? cmocka_run_group_tests(real_tests, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
    count_files(remove_file);
    (void)rmdir(folder);
    return result;
}
