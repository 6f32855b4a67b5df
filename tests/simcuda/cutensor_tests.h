/* What the tests of cuTENSOR on the simulated library and driver share. Counters are exact: nothing is done but what
 * somebody waits for (simcuda_drift). */
#ifndef TS_SIMCUDA_CUTENSOR_TESTS_H
#define TS_SIMCUDA_CUTENSOR_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <simcuda/cutensor.h>
#include <simcuda/simcuda.h>
#include <tensum/tensum.h>

enum { OUT_OF_MEMORY = 2, UNKNOWN = 999, NOT_SUPPORTED = 15, INTERNAL = 14, KIB = 1024 };

extern const tensum_device cuda0, cuda1;

int plain_memory(void);
void no_fault(void);
void succeeds(tensum_status status);

/* Counters, as differences between `before` and `after`. */
typedef struct counts {
    tensum_cutensor_cache cache;
    tensum_cutensor_scratch scratch;
    tensum_cuda_retirement retired;
    tensum_device_counters device;
} counts;
counts count(void);
#define CHANGED(member, by) assert_int_equal(after.member - before.member, by)

/* A program that contracts from the left; memory_limit 0: none. */
tensum_program *compile_within(uint64_t memory_limit, const char *expression, int64_t operands, const int32_t *ranks,
                               const int64_t *const *extents, tensum_dtype dtype, unsigned modes);
tensum_program *compile(const char *expression, int64_t operands, const int32_t *ranks, const int64_t *const *extents,
                        tensum_dtype dtype, unsigned modes);

/* c = a b with a in two layouts, on the device; c has room for many results. */
enum { RESULTS = 48, PADDING = 3 };
typedef struct product {
    int64_t m, k, n;
    int64_t extents[3][2];
    tensum_program *program;
    tensum_workspace *workspace;
    float *a, *b;
    uint64_t device_a[2], device_b, device_c;
} product;
void product_make(product *p, int64_t m, int64_t k, int64_t n);
void product_free(product *p);
/* Enqueue result number `number`; returns at once. */
tensum_status product_run(const product *p, int layout, int number, int accumulate, void *stream);
/* Does result `number` hold `times` a b? Completes all work. */
void product_check(const product *p, int number, float times);

/* Four matrices in a row, and their gradients. */
enum { CHAIN = 4, SIDE = 6 };
typedef struct chain {
    tensum_program *program;
    tensum_workspace *workspace;
    float data[CHAIN][SIDE * SIDE];
    uint64_t device[CHAIN], out, gradients[CHAIN];
    int64_t extents[2];
} chain;
void chain_make(chain *c, unsigned modes);
void chain_make_within(chain *c, unsigned modes, uint64_t memory_limit);
void chain_free(chain *c);
tensum_status chain_run(chain *c, int gradients, void *stream);
void chain_check(const chain *c);

/* Every test starts from the defaults, with nothing kept, and leaves nothing behind. */
int start(void **state);
int finish(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
/* Where the libraries are. Returns what main does. */
int run_all(const struct CMUnitTest *tests, size_t count);
#define RUN(tests) run_all(tests, sizeof tests / sizeof *tests)

#endif
