/* Generated cases: a random network, tree and values, all from one seed; run on several devices, compared with each
 * other and with brute force over all assignments of the labels. Uses the public interface only. */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tensum/tensum.h>

enum {
    MAX_OPERANDS = 6,
    MAX_RANK = 8,
    MAX_LABELS = 16,
    MAX_STEPS = 12,
    MAX_POSITIONS = 8,
    POISON = 0xA5 /* bytes between the elements of a strided tensor */
};

/* ---- random numbers: splitmix64, so that neighbouring seeds give unrelated cases ---- */
typedef struct generator {
    uint64_t state;
} generator;
static inline uint64_t draw(generator *random)
{
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
static inline int64_t below(generator *random, int64_t bound) { return (int64_t)(draw(random) % (uint64_t)bound); }
static inline int64_t between(generator *random, int64_t low, int64_t high)
{
    return low + below(random, high - low + 1);
}
static inline bool chance(generator *random, int percent) { return below(random, 100) < percent; }
static inline double unit(generator *random) { return (double)(draw(random) >> 11) * 0x1p-53; }

/* ---- a case ---- */

/* Shape, labels (numbers within the case) and layout of one tensor. */
typedef struct tensor_shape {
    int32_t rank;
    int labels[MAX_RANK];
    int64_t extents[MAX_RANK], strides[MAX_RANK];
    int64_t origin; /* element of the memory that index 0,0,.. is */
    int64_t span;   /* elements of the memory */
    int64_t size;   /* elements of the tensor */
    bool compact;   /* row-major without gaps: strides are passed as NULL */
} tensor_shape;

typedef enum style {
    STYLE_TIES,     /* small integers */
    STYLE_REALS,    /* uniform reals; for integers: the whole range that is allowed */
    STYLE_ZEROS,    /* small integers, often the semiring's 0, sometimes -0 */
    STYLE_NAN,      /* small integers, sometimes NaN */
    STYLE_SPECIALS, /* infinities of both signs, NaN, -0, subnormals, huge values */
    STYLE_COUNT
} style;

typedef struct test_case {
    uint64_t seed;
    tensum_semiring semiring;
    tensum_dtype dtype, gradient_dtype;
    int64_t modulus;
    style style;
    int operand_count, label_count;
    int64_t names[MAX_LABELS], extents[MAX_LABELS]; /* label numbers are in canonical order */
    tensor_shape operands[MAX_OPERANDS], gradients[MAX_OPERANDS];
    tensor_shape output, cotangent, winners;
    unsigned char *memory[MAX_OPERANDS]; /* of the operands */
    unsigned char *cotangent_memory;     /* NULL: default cotangent */
    int step_count;
    int64_t offsets[MAX_STEPS + 1], children[2 * MAX_STEPS + MAX_OPERANDS];
    int slice_count;
    int64_t slices[2]; /* public labels */
    bool tile;         /* a large contraction */
    bool one_step;     /* one reduce or contract step: winners exist */
    unsigned modes;
    bool separate;       /* one program per mode */
    bool check;          /* domain checks on */
    bool caller_memory;  /* workspace in memory of ours, guarded */
    bool threaded;
    bool in_two_ranges;  /* sliced: the value also in two runs, accumulated */
    int32_t winner_bytes;
    bool gradient_wanted[MAX_OPERANDS];
    int64_t position_count, positions[MAX_POSITIONS];
    double assignments; /* product of all extents */
} test_case;

/* What to draw from; TENSUM_SEMIRING_COUNT or TENSUM_DTYPE_COUNT: anything. */
typedef struct case_filter {
    tensum_semiring semiring;
    tensum_dtype dtype;
} case_filter;

/* Make the case of a seed. false: out of memory, or the filter leaves no pair. */
bool case_generate(uint64_t seed, const case_filter *filter, test_case *test);
void case_free(test_case *test);
void case_print(const test_case *test);

/* Step through the elements of a shape in row-major order. `index` starts at zeros; returns false after the last. */
bool shape_next(const tensor_shape *shape, int64_t *index);
/* Element of the memory at an index. */
int64_t shape_offset(const tensor_shape *shape, const int64_t *index);

/* ---- running it ---- */

/* Results as compact row-major arrays. */
typedef struct case_outcome {
    unsigned char *value;
    int64_t *winners;                        /* NULL: none */
    unsigned char *gradients[MAX_OPERANDS];  /* NULL: none */
    bool unsupported; /* the device says that it has no such program */
    bool saved;       /* gradients are those of a second program, from the value and the winners of the first */
    bool kept;        /* gradients are those of a second run, from what the first has left in its workspace */
    bool decoded;
    tensum_status decode_status;
    int64_t assignments[MAX_POSITIONS * MAX_LABELS];
    char error[1024]; /* why there is no case_outcome */
} case_outcome;

typedef struct test_machine {
    tensum_device device;
    tensum_context *serial, *threaded;
} test_machine;

/* Run on a device; false with `error` set where a call failed that should not have, or wrote where it must not. */
bool case_run(test_case *test, const test_machine *machine, case_outcome *outcome);
void outcome_free(case_outcome *outcome);

/* ---- judging it ---- */

/* What was compared, so that a suite that stops comparing something is noticed. */
#define TALLY_LIST(X)                                                                                                  \
    X(cases) X(values) X(exact_values) X(winners) X(gradients) X(exact_gradients) X(decodes) X(infeasible) X(nans)     \
    X(sliced) X(saved) X(kept) X(compared) X(many_children) X(tiles) X(hyperedges) X(diagonals) X(broadcasts) X(empty)
typedef struct case_tally {
#define TALLY_FIELD(name) int64_t name;
    TALLY_LIST(TALLY_FIELD)
#undef TALLY_FIELD
} case_tally;

/* __extension__ keeps -Wpedantic quiet about a type that both compilers have. */
__extension__ typedef __int128 wide;

/* One element: re (and im) for floating dtypes, value and count in re and im for counted ones, else integer. */
typedef struct number {
    double re, im;
    wide integer;
} number;

/* What brute force over all assignments of the labels gives, per element of the output (row-major). */
typedef struct expectation {
    bool enumerated; /* false: too many assignments; then only tolerances are known */
    bool valid;      /* the value does not depend on the tree (no infinity meets its opposite) */
    bool exact;      /* nor on rounding: values must be equal, not just near */
    bool selective;
    number *value;
    double *tolerance;
    int64_t *winner;     /* one-step cases */
    unsigned char *diagonal; /* 0: an off-diagonal element, which is 0 of the semiring */
    number *elements[MAX_OPERANDS]; /* the operands, row-major */
    double fallback;     /* tolerance where nothing was enumerated */
    double largest;      /* sum over operands of the largest |element|; product for semirings that multiply */
    /* How offsets depend on labels; labels of the output first, then summed ones, both in canonical order. */
    int order[MAX_LABELS], output_labels;
    int64_t operand_stride[MAX_OPERANDS][MAX_LABELS], output_stride[MAX_LABELS];
    bool effective[MAX_OPERANDS][MAX_LABELS];
} expectation;

/* false: out of memory. */
bool expect(const test_case *test, expectation *expected);
void expectation_free(expectation *expected);
/* The product of the operands' elements at the offsets. With `rounded`, as a single step computes it. */
number term_of(const test_case *test, const expectation *expected, const int64_t *offsets, bool rounded);
/* Step the labels order[first .. last) row-major; offsets follow. false after the last. */
bool next_assignment(const test_case *test, const expectation *expected, int first, int last, int64_t *index, int64_t *offsets,
                     int64_t *output_offset);
bool number_is_zero(const test_case *test, number value); /* 0 of the semiring */
bool number_is_nan(const test_case *test, number value);
/* Equal up to the tolerance; NaN equals NaN. */
bool numbers_agree(tensum_dtype dtype, number x, number y, double tolerance);
void number_print(tensum_dtype dtype, number value, char *text, size_t bytes);

/* Compare with brute force; false with a description in `text`. */
bool case_check(const test_case *test, const expectation *expected, const case_outcome *outcome, case_tally *tally, char *text, size_t bytes);
/* Compare two devices. */
bool case_compare(const test_case *test, const expectation *expected, const case_outcome *reference, const case_outcome *other, char *text,
                  size_t bytes);

/* ---- numbers ---- */
bool dtype_is_integer(tensum_dtype dtype); /* integers and bool */
bool dtype_is_pair(tensum_dtype dtype);    /* value and count */
bool dtype_is_complex(tensum_dtype dtype);
bool dtype_is_real(tensum_dtype dtype);
/* Unit roundoff of a floating dtype. */
double dtype_roundoff(tensum_dtype dtype);
/* Round to the dtype, nearest even, as IEEE does. */
double round_to(tensum_dtype dtype, double value);
number load(tensum_dtype dtype, const void *element);
void store(tensum_dtype dtype, number value, void *element);
/* 0 of the semiring. */
number semiring_zero(const test_case *test);

#endif
