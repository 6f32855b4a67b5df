/* Shared by the unit tests: one call that parses, plans and runs an expression on one device, and plain comparisons. */
#ifndef UNIT_SUPPORT_H
#define UNIT_SUPPORT_H

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <tensum/tensum.h>

#define UNUSED __attribute__((unused))

/* A compact tensor: TENSOR(TENSUM_F32, data, 2, 3) is 2x3. SCALAR(dtype, data) has rank 0. */
#define EXTENTS(...) ((const int64_t[]){__VA_ARGS__})
#define EXTENT_COUNT(...) ((int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define TENSOR(dtype, data, ...) \
    ((tensum_tensor){(void *)(uintptr_t)(data), dtype, EXTENT_COUNT(__VA_ARGS__), EXTENTS(__VA_ARGS__), NULL, {TENSUM_CPU, 0}})
#define SCALAR(dtype, data) ((tensum_tensor){(void *)(uintptr_t)(data), dtype, 0, NULL, NULL, {TENSUM_CPU, 0}})
#define TENSORS(...) ((const tensum_tensor[]){__VA_ARGS__})

/* The reference device and every CPU device: results must be right on each. */
static const tensum_device test_devices[] = {{TENSUM_REFERENCE, 0}, {TENSUM_CPU, 0}};
enum { TEST_DEVICES = 2 };
#define FOR_EACH_DEVICE(device)                                                                               \
    for (int device##_index = 0; device##_index < TEST_DEVICES; device##_index++)                             \
        for (tensum_device device = test_devices[device##_index], *device##_once = &device; device##_once != NULL; device##_once = NULL)

/* Everything a run needs. Zero fields mean: value only, default order, checks on. */
typedef struct contraction {
    const char *expression;
    tensum_semiring semiring;
    tensum_dtype dtype;
    int64_t modulus;
    int64_t operand_count;
    const tensum_tensor *operands;
    const tensum_tensor *output, *winners, *cotangent, *gradients;
    int64_t position_count;
    const int64_t *positions;
    int64_t *assignments;
    int64_t size_count; /* extents of labels that the output alone has */
    const int64_t *size_labels, *size_extents;
    int64_t step_count; /* > 0: a tree in SSA form; children has two per step unless offsets is given */
    const int64_t *offsets, *children;
    int64_t slice_count;
    const int64_t *slices;
    int64_t slice_first;
    int64_t slice_number; /* 0: all */
    int accumulate;
    int unchecked;
    uint64_t memory_limit; /* 0: none */
    tensum_context *context;
} contraction;

typedef struct prepared {
    tensum_network *network;
    tensum_tree *tree;
    tensum_plan *plan;
    tensum_program *program;
    tensum_workspace *workspace;
} prepared;

UNUSED static void prepared_release(prepared *made)
{
    tensum_workspace_release(made->workspace);
    tensum_program_release(made->program);
    tensum_plan_release(made->plan);
    tensum_tree_release(made->tree);
    tensum_network_release(made->network);
    memset(made, 0, sizeof *made);
}

UNUSED static unsigned job_modes(const contraction *job)
{
    return (job->output != NULL ? TENSUM_VALUE : 0u) | (job->winners != NULL ? TENSUM_WINNERS : 0u) |
           (job->gradients != NULL ? TENSUM_GRADIENT : 0u) | (job->assignments != NULL ? TENSUM_DECODE : 0u);
}

/* Network, tree, plan, program and workspace of a job; the first failing call's status. Release `made` in any case. */
UNUSED static tensum_status job_prepare(const contraction *job, tensum_device device, prepared *made)
{
    int32_t ranks[64];
    const int64_t *extents[64];
    tensum_status status;
    memset(made, 0, sizeof *made);
    for (int64_t i = 0; i < job->operand_count && i < 64; i++) {
        ranks[i] = job->operands[i].rank;
        extents[i] = job->operands[i].extents;
    }
    status = tensum_network_parse(job->expression, job->operand_count, ranks, extents, job->size_count, job->size_labels,
                                  job->size_extents, &made->network);
    if (status != TENSUM_OK) {
        return status;
    }
    if (job->step_count > 0) {
        int64_t pairs[64];
        for (int64_t s = 0; s <= job->step_count && s < 64; s++) {
            pairs[s] = 2 * s;
        }
        status = tensum_tree_from_ssa(job->operand_count, job->step_count, job->offsets != NULL ? job->offsets : pairs, job->children, &made->tree);
    } else {
        status = tensum_order(made->network, NULL, NULL, &made->tree);
    }
    if (status != TENSUM_OK) {
        return status;
    }
    if (job->slice_count > 0) {
        tensum_tree *sliced = NULL;
        status = tensum_tree_with_slices(made->tree, job->slice_count, job->slices, &sliced);
        if (status != TENSUM_OK) {
            return status;
        }
        tensum_tree_release(made->tree);
        made->tree = sliced;
    }
    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    plan_options.semiring = job->semiring;
    plan_options.dtype = job->dtype;
    plan_options.modulus = job->modulus;
    plan_options.memory_limit = job->memory_limit;
    status = tensum_plan_create(made->network, made->tree, &plan_options, &made->plan);
    if (status != TENSUM_OK) {
        return status;
    }
    tensum_program_options program_options = TENSUM_PROGRAM_OPTIONS_INIT;
    program_options.modes = job_modes(job);
    program_options.device = device;
    program_options.check = !job->unchecked;
    status = tensum_program_create(made->plan, job->context, &program_options, &made->program);
    if (status != TENSUM_OK) {
        return status;
    }
    return tensum_workspace_create(made->program, NULL, &made->workspace);
}

UNUSED static void job_arguments(const contraction *job, tensum_run_arguments *arguments)
{
    *arguments = (tensum_run_arguments)TENSUM_RUN_ARGUMENTS_INIT;
    arguments->inputs = job->operands;
    arguments->output = job->output;
    arguments->winners = job->winners;
    arguments->cotangent = job->cotangent;
    arguments->gradients = job->gradients;
    arguments->position_count = job->assignments != NULL && job->position_count == 0 ? 1 : job->position_count;
    arguments->positions = job->positions;
    arguments->assignments = job->assignments;
    arguments->slice_first = job->slice_first;
    arguments->slice_count = job->slice_number > 0 ? job->slice_number : -1;
    arguments->accumulate = job->accumulate;
}

UNUSED static tensum_status job_run(const contraction *job, tensum_device device)
{
    prepared made;
    tensum_run_arguments arguments;
    tensum_status status = job_prepare(job, device, &made);
    if (status == TENSUM_OK) {
        job_arguments(job, &arguments);
        status = tensum_run(made.program, made.workspace, &arguments);
    }
    prepared_release(&made);
    return status;
}

UNUSED static void run_well(const contraction *job, tensum_device device, const char *file, int line)
{
    tensum_status status = job_run(job, device);
    if (status != TENSUM_OK) {
        print_error("%s on device kind %d: %s: %s\n", job->expression, (int)device.kind, tensum_status_name(status), tensum_last_error());
        _fail(file, line);
    }
}
#define RUN(job, device) run_well(job, device, __FILE__, __LINE__)

UNUSED static void run_badly(const contraction *job, tensum_device device, tensum_status expected, const char *words, const char *file, int line)
{
    tensum_status status = job_run(job, device);
    if (status != expected || (words != NULL && strstr(tensum_last_error(), words) == NULL)) {
        print_error("%s on device kind %d: %s, not %s; message '%s' should name '%s'\n", job->expression, (int)device.kind,
                    tensum_status_name(status), tensum_status_name(expected), tensum_last_error(), words != NULL ? words : "");
        _fail(file, line);
    }
}
/* The run must fail with `status` and a message that contains `words`. */
#define REFUSE(job, device, status, words) run_badly(job, device, status, words, __FILE__, __LINE__)

/* ---- arrays of numbers against expected ones; NaN equals NaN, and -0 differs from +0 ---- */

UNUSED static bool same_double(double x, double y)
{
    return (x != x && y != y) || (x == y && (signbit(x) != 0) == (signbit(y) != 0));
}
UNUSED static void equal_f64(const double *got, const double *expected, int64_t count, const char *file, int line)
{
    for (int64_t i = 0; i < count; i++) {
        if (!same_double(got[i], expected[i])) {
            print_error("element %" PRId64 " is %.17g, not %.17g\n", i, got[i], expected[i]);
            _fail(file, line);
        }
    }
}
UNUSED static void equal_f32(const float *got, const float *expected, int64_t count, const char *file, int line)
{
    for (int64_t i = 0; i < count; i++) {
        if (!same_double((double)got[i], (double)expected[i])) {
            print_error("element %" PRId64 " is %.9g, not %.9g\n", i, (double)got[i], (double)expected[i]);
            _fail(file, line);
        }
    }
}
UNUSED static void equal_i64(const int64_t *got, const int64_t *expected, int64_t count, const char *file, int line)
{
    for (int64_t i = 0; i < count; i++) {
        if (got[i] != expected[i]) {
            print_error("element %" PRId64 " is %" PRId64 ", not %" PRId64 "\n", i, got[i], expected[i]);
            _fail(file, line);
        }
    }
}
UNUSED static void equal_i32(const int32_t *got, const int32_t *expected, int64_t count, const char *file, int line)
{
    for (int64_t i = 0; i < count; i++) {
        if (got[i] != expected[i]) {
            print_error("element %" PRId64 " is %" PRId32 ", not %" PRId32 "\n", i, got[i], expected[i]);
            _fail(file, line);
        }
    }
}
#define COUNT_OF(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))
#define ASSERT_F64(got, ...) equal_f64(got, (const double[])__VA_ARGS__, (int64_t)(sizeof((const double[])__VA_ARGS__) / sizeof(double)), __FILE__, __LINE__)
#define ASSERT_F32(got, ...) equal_f32(got, (const float[])__VA_ARGS__, (int64_t)(sizeof((const float[])__VA_ARGS__) / sizeof(float)), __FILE__, __LINE__)
#define ASSERT_I64(got, ...) equal_i64(got, (const int64_t[])__VA_ARGS__, (int64_t)(sizeof((const int64_t[])__VA_ARGS__) / sizeof(int64_t)), __FILE__, __LINE__)
#define ASSERT_I32(got, ...) equal_i32(got, (const int32_t[])__VA_ARGS__, (int64_t)(sizeof((const int32_t[])__VA_ARGS__) / sizeof(int32_t)), __FILE__, __LINE__)

/* Where public data with known answers lies: TENSUM_DATA, else ../shared/data from the root of the sources. */
UNUSED static const char *data_folder(void)
{
    const char *folder = getenv("TENSUM_DATA");
    return folder != NULL && folder[0] != '\0' ? folder : "../shared/data";
}

#endif
