/* What may be shared between threads is shared here: programs, contexts, plans; slices run side by side; cancellation. */
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

enum { THREADS = 4, ROUNDS = 20, SIDE = 24 };

static double numbers(int i) { return (double)((i * 7919 + 13) % 17 - 8); }

typedef struct shared {
    tensum_program *program;
    const tensum_tensor *inputs;
    const double *expected, *expected_gradient;
    int rounds;
} shared;

typedef struct worker {
    const shared *shared;
    int failures;
} worker;

static void *run_rounds(void *argument)
{
    worker *self = argument;
    tensum_workspace *workspace = NULL;
    double value[SIDE * SIDE], gradient[SIDE * SIDE];
    const tensum_tensor out = TENSOR(TENSUM_F64, value, SIDE, SIDE);
    tensum_tensor gradients[3] = {TENSOR(TENSUM_F64, gradient, SIDE, SIDE), self->shared->inputs[1], self->shared->inputs[2]};
    gradients[1].data = gradients[2].data = NULL;
    if (tensum_workspace_create(self->shared->program, NULL, &workspace) != TENSUM_OK) {
        self->failures++;
        return NULL;
    }
    for (int round = 0; round < self->shared->rounds; round++) {
        tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
        arguments.inputs = self->shared->inputs;
        arguments.output = &out;
        arguments.gradients = gradients;
        memset(value, 0, sizeof value);
        memset(gradient, 0, sizeof gradient);
        if (tensum_run(self->shared->program, workspace, &arguments) != TENSUM_OK || memcmp(value, self->shared->expected, sizeof value) != 0 ||
            memcmp(gradient, self->shared->expected_gradient, sizeof gradient) != 0) {
            self->failures++;
        }
    }
    tensum_workspace_release(workspace);
    return NULL;
}

/* One program, one context with a pool, many workspaces at a time. */
static void many_workspaces_of_one_program(void **state)
{
    (void)state;
    static double a[SIDE * SIDE], expected[SIDE * SIDE], gradient[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) {
        a[i] = numbers(i);
    }
    static const tensum_semiring semirings[] = {TENSUM_SUM_PRODUCT, TENSUM_MAX_PLUS};
    FOR_EACH_DEVICE (device) {
        for (int s = 0; s < 2; s++) {
            tensum_context_options options = TENSUM_CONTEXT_OPTIONS_INIT;
            tensum_context *context = NULL;
            options.threads = 3;
            assert_int_equal(tensum_context_create(&options, &context), TENSUM_OK);
            const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, SIDE, SIDE), TENSOR(TENSUM_F64, a, SIDE, SIDE), TENSOR(TENSUM_F64, a, SIDE, SIDE)};
            const tensum_tensor out = TENSOR(TENSUM_F64, expected, SIDE, SIDE);
            tensum_tensor gradients[] = {TENSOR(TENSUM_F64, gradient, SIDE, SIDE), inputs[1], inputs[2]};
            gradients[1].data = gradients[2].data = NULL;
            contraction job = {.expression = "ij,jk,kl->il", .semiring = semirings[s], .dtype = TENSUM_F64, .operands = inputs, .operand_count = 3, .output = &out,
                               .gradients = gradients};
            RUN(&job, device); /* serially */
            prepared made;
            job.context = context;
            assert_int_equal(job_prepare(&job, device, &made), TENSUM_OK);
            const shared all = {made.program, inputs, expected, gradient, ROUNDS};
            pthread_t threads[THREADS];
            worker workers[THREADS];
            for (int t = 0; t < THREADS; t++) {
                workers[t] = (worker){&all, 0};
                assert_int_equal(pthread_create(&threads[t], NULL, run_rounds, &workers[t]), 0);
            }
            for (int t = 0; t < THREADS; t++) {
                pthread_join(threads[t], NULL);
                assert_int_equal(workers[t].failures, 0);
            }
            prepared_release(&made);
            tensum_context_release(context);
        }
    }
}

/* ---- everything from expression to value, at the same time, with one shared context ---- */

typedef struct whole {
    tensum_context *context;
    tensum_device device;
    int number, failures;
} whole;

static void *run_whole(void *argument)
{
    whole *self = argument;
    for (int round = 0; round < ROUNDS; round++) {
        float a[6], b[6], got[4], expected[4];
        for (int i = 0; i < 6; i++) {
            a[i] = (float)(i + self->number);
            b[i] = (float)(round - i);
        }
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < 2; k++) {
                expected[2 * i + k] = -INFINITY;
                for (int j = 0; j < 3; j++) {
                    float sum = a[3 * i + j] + b[2 * j + k];
                    expected[2 * i + k] = sum > expected[2 * i + k] ? sum : expected[2 * i + k];
                }
            }
        }
        tensum_tensor inputs[] = {TENSOR(TENSUM_F32, a, 2, 3), TENSOR(TENSUM_F32, b, 3, 2)}, out = TENSOR(TENSUM_F32, got, 2, 2);
        inputs[0].device = inputs[1].device = out.device = self->device;
        if (tensum_einsum(self->context, TENSUM_MAX_PLUS, "ij,jk->ik", 2, inputs, &out) != TENSUM_OK || memcmp(got, expected, sizeof got) != 0) {
            self->failures++;
        }
        /* errors belong to their thread */
        char label[2] = {(char)('a' + self->number), 0}, expression[16];
        snprintf(expression, sizeof expression, "%sj,%sk->jk", label, label);
        if (tensum_einsum(self->context, TENSUM_MAX_PLUS, expression, 2, inputs, &out) == TENSUM_OK || strstr(tensum_last_error(), label) == NULL) {
            self->failures++;
        }
    }
    return NULL;
}

static void shared_context(void **state)
{
    (void)state;
    FOR_EACH_DEVICE (device) {
        tensum_context *context = NULL;
        tensum_context_options options = TENSUM_CONTEXT_OPTIONS_INIT;
        options.threads = 2;
        assert_int_equal(tensum_context_create(&options, &context), TENSUM_OK);
        pthread_t threads[THREADS];
        whole workers[THREADS];
        for (int t = 0; t < THREADS; t++) {
            workers[t] = (whole){context, device, t, 0};
            assert_int_equal(pthread_create(&threads[t], NULL, run_whole, &workers[t]), 0);
        }
        for (int t = 0; t < THREADS; t++) {
            pthread_join(threads[t], NULL);
            assert_int_equal(workers[t].failures, 0);
        }
        tensum_context_release(context);
    }
}

/* ---- ranges of slices side by side ---- */

typedef struct range {
    tensum_program *program;
    const tensum_tensor *inputs, *output;
    int64_t first, count;
    tensum_status status;
} range;

static void *run_range(void *argument)
{
    range *self = argument;
    tensum_workspace *workspace = NULL;
    tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
    arguments.inputs = self->inputs;
    arguments.output = self->output;
    arguments.slice_first = self->first;
    arguments.slice_count = self->count;
    self->status = tensum_workspace_create(self->program, NULL, &workspace);
    if (self->status == TENSUM_OK) {
        self->status = tensum_run(self->program, workspace, &arguments);
    }
    tensum_workspace_release(workspace);
    return NULL;
}

static void slice_ranges_combine_to_the_whole(void **state)
{
    (void)state;
    enum { A = 5, B = 7, C = 6, D = 3 };
    double a[A * B], b[B * C], c[C * D], whole_value[A * D], parts[THREADS][A * D];
    for (int i = 0; i < B * C; i++) {
        b[i] = fabs(numbers(i + 2));
        if (i < A * B) {
            a[i] = fabs(numbers(i));
        }
        if (i < C * D) {
            c[i] = fabs(numbers(i + 1));
        }
    }
    static const tensum_semiring semirings[] = {TENSUM_SUM_PRODUCT, TENSUM_MAX_PLUS, TENSUM_MIN_PLUS, TENSUM_MAX_TIMES, TENSUM_MAX_MIN, TENSUM_MIN_MAX};
    static const int64_t sliced[][2] = {{'k', 'j'}, {'j', 'i'}, {'l', 'k'}};
    FOR_EACH_DEVICE (device) {
        for (int s = 0; s < 6; s++) {
            for (int l = 0; l < 3; l++) {
                const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, A, B), TENSOR(TENSUM_F64, b, B, C), TENSOR(TENSUM_F64, c, C, D)}, out = TENSOR(TENSUM_F64, whole_value, A, D);
                contraction job = {.expression = "ij,jk,kl->il", .semiring = semirings[s], .dtype = TENSUM_F64, .operands = inputs, .operand_count = 3, .output = &out};
                RUN(&job, device); /* without slices */
                prepared made;
                tensum_cost cost = TENSUM_COST_INIT;
                job.slice_count = 2;
                job.slices = sliced[l];
                assert_int_equal(job_prepare(&job, device, &made), TENSUM_OK);
                assert_int_equal(tensum_plan_cost(made.plan, &cost), TENSUM_OK);
                assert_int_equal(cost.slices, l == 0 ? B * C : l == 1 ? A * B : C * D);
                pthread_t threads[THREADS];
                range ranges[THREADS];
                tensum_tensor outputs[THREADS];
                for (int t = 0; t < THREADS; t++) {
                    int64_t first = cost.slices * t / THREADS, last = cost.slices * (t + 1) / THREADS;
                    outputs[t] = TENSOR(TENSUM_F64, parts[t], A, D);
                    outputs[t].extents = out.extents;
                    ranges[t] = (range){made.program, inputs, &outputs[t], first, last - first, TENSUM_OK};
                    assert_int_equal(pthread_create(&threads[t], NULL, run_range, &ranges[t]), 0);
                }
                for (int t = 0; t < THREADS; t++) {
                    pthread_join(threads[t], NULL);
                    assert_int_equal(ranges[t].status, TENSUM_OK);
                    if (t > 0) {
                        tensum_tensor total = outputs[0];
                        total.extents = out.extents;
                        assert_int_equal(tensum_combine(semirings[s], &outputs[t], &total), TENSUM_OK);
                    }
                }
                equal_f64(parts[0], whole_value, A * D, __FILE__, __LINE__); /* small integers: exact */
                prepared_release(&made);
            }
        }
    }
}

/* ---- cancellation ---- */

typedef struct watch {
    int calls, stop_at;
    double last;
    pthread_t caller;
    bool good;
} watch;

static int on_progress(void *user, const char *stage, double done)
{
    watch *self = user;
    self->good = self->good && stage != NULL && done >= self->last && done <= 1.0 && pthread_equal(pthread_self(), self->caller);
    self->last = done;
    return ++self->calls == self->stop_at;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void cancellation(void **state)
{
    (void)state;
    enum { N = 60, SLICES = 4000 };
    double *a = malloc(sizeof(double) * SLICES * N * N), *b = malloc(sizeof(double) * N * N), c[N * N];
    tensum_context_options options = TENSUM_CONTEXT_OPTIONS_INIT;
    tensum_context *context = NULL;
    options.threads = 2;
    assert_int_equal(tensum_context_create(&options, &context), TENSUM_OK);
    for (int i = 0; i < SLICES * N * N; i++) {
        a[i] = numbers(i % 100003);
    }
    for (int i = 0; i < N * N; i++) {
        b[i] = numbers(i + 5);
    }
    FOR_EACH_DEVICE (device) {
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, SLICES, N, N), TENSOR(TENSUM_F64, b, N, N)}, out = TENSOR(TENSUM_F64, c, N, N);
        contraction job = {.expression = "sij,jk->ik", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F64, .operands = inputs, .operand_count = 2, .output = &out,
                           .slice_count = 1, .slices = EXTENTS('s'), .context = context};
        prepared made;
        tensum_run_arguments arguments;
        watch seen = {0, 2, 0, pthread_self(), true};
        assert_int_equal(job_prepare(&job, device, &made), TENSUM_OK);
        job_arguments(&job, &arguments);
        arguments.progress = on_progress;
        arguments.progress_user = &seen;
        double start = now();
        tensum_status status = tensum_run(made.program, made.workspace, &arguments);
        double seconds = now() - start;
        if (status == TENSUM_OK) { /* a machine that is done before it is asked twice */
            assert_true(seen.calls < 2);
        } else {
            assert_int_equal(status, TENSUM_STATUS_CANCELLED);
            assert_int_equal(seen.calls, 2);
        }
        assert_true(seen.good);
        assert_true((double)seen.calls <= 10.0 * seconds + 1.0);
        /* the same workspace does the next run: two slices */
        double first[N * N];
        const tensum_tensor short_out = TENSOR(TENSUM_F64, first, N, N);
        arguments.progress = NULL;
        arguments.output = &short_out;
        arguments.slice_count = 1;
        assert_int_equal(tensum_run(made.program, made.workspace, &arguments), TENSUM_OK);
        for (int i = 0; i < N * N; i += 37) {
            double best = -HUGE_VAL;
            for (int j = 0; j < N; j++) {
                double sum = a[i / N * N + j] + b[j * N + i % N];
                best = sum > best ? sum : best;
            }
            assert_true(first[i] == best);
        }
        prepared_release(&made);
    }
    tensum_context_release(context);
    free(a);
    free(b);
}

/* A child of fork() has no threads of its parent's pool: its work is done serially. */
static void after_fork(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip();
#endif
    double a[SIDE * SIDE], expected[SIDE * SIDE], got[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) {
        a[i] = numbers(i);
    }
    tensum_context_options options = TENSUM_CONTEXT_OPTIONS_INIT;
    tensum_context *context = NULL;
    options.threads = 3;
    assert_int_equal(tensum_context_create(&options, &context), TENSUM_OK);
    FOR_EACH_DEVICE (device) {
        const tensum_tensor inputs[] = {TENSOR(TENSUM_F64, a, SIDE, SIDE), TENSOR(TENSUM_F64, a, SIDE, SIDE)}, out = TENSOR(TENSUM_F64, expected, SIDE, SIDE), other = TENSOR(TENSUM_F64, got, SIDE, SIDE);
        contraction job = {.expression = "ij,jk->ik", .semiring = TENSUM_MAX_PLUS, .dtype = TENSUM_F64, .operands = inputs, .operand_count = 2, .output = &out, .context = context};
        RUN(&job, device);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            job.output = &other;
            _exit(job_run(&job, device) == TENSUM_OK && memcmp(got, expected, sizeof got) == 0 ? 0 : 1);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        RUN(&job, device);
    }
    tensum_context_release(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_workspaces_of_one_program),
        cmocka_unit_test(shared_context),
        cmocka_unit_test(slice_ranges_combine_to_the_whole),
        cmocka_unit_test(cancellation),
        cmocka_unit_test(after_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
