/* Brute force: every assignment of every label, in doubles and wide integers. Knows nothing of trees or plans. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

static const double ENUMERATION_LIMIT = 5e6;

static bool multiplies(tensum_semiring semiring)
{
    return semiring == TENSUM_SUM_PRODUCT || semiring == TENSUM_MAX_TIMES || semiring == TENSUM_MIN_TIMES;
}
static bool maximises(tensum_semiring semiring)
{
    return semiring == TENSUM_MAX_PLUS || semiring == TENSUM_MAX_TIMES || semiring == TENSUM_MAX_MIN || semiring == TENSUM_OR_AND;
}

bool number_is_nan(const test_case *test, number value)
{
    return !dtype_is_integer(test->dtype) && (isnan(value.re) || isnan(value.im));
}

/* Integers of max_plus and min_plus: everything beyond -2R is 0. */
static wide tropical_limit(tensum_dtype dtype)
{
    return (((wide)1 << (8 * tensum_dtype_bytes(dtype) - 2)) - 1) / 3 - 1;
}

bool number_is_zero(const test_case *test, number value)
{
    number zero = semiring_zero(test);
    return dtype_is_integer(test->dtype) ? value.integer == zero.integer
           : dtype_is_pair(test->dtype)  ? value.re == zero.re
                                         : value.re == zero.re && value.im == zero.im;
}

static number multiply(const test_case *test, number x, number y)
{
    number z = {0, 0, 0};
    if (dtype_is_integer(test->dtype)) {
        switch (test->semiring) {
        case TENSUM_SUM_PRODUCT: /* modulo 2^64, of which every narrower type is a quotient */
            z.integer = (wide)((uint64_t)x.integer * (uint64_t)y.integer);
            break;
        case TENSUM_SUM_PRODUCT_MOD:
            z.integer = x.integer * y.integer % test->modulus;
            break;
        case TENSUM_MAX_PLUS:
        case TENSUM_MIN_PLUS:
            z.integer = number_is_zero(test, x) || number_is_zero(test, y) ? semiring_zero(test).integer : x.integer + y.integer;
            break;
        case TENSUM_MAX_TIMES: {
            wide highest = ((wide)1 << (8 * tensum_dtype_bytes(test->dtype) - 1)) - 1;
            z.integer = x.integer * y.integer;
            z.integer = z.integer > highest ? highest : z.integer;
            break;
        }
        case TENSUM_MAX_MIN:
            z.integer = x.integer < y.integer ? x.integer : y.integer;
            break;
        case TENSUM_MIN_MAX:
            z.integer = x.integer > y.integer ? x.integer : y.integer;
            break;
        default:
            z.integer = x.integer != 0 && y.integer != 0;
            break;
        }
        return z;
    }
    switch (test->semiring) {
    case TENSUM_SUM_PRODUCT:
        if (dtype_is_complex(test->dtype)) {
            z.re = x.re * y.re - x.im * y.im;
            z.im = x.re * y.im + x.im * y.re;
            return z;
        }
        z.re = x.re * y.re;
        return z;
    case TENSUM_MAX_TIMES:
    case TENSUM_MIN_TIMES:
        z.re = x.re * y.re;
        return z;
    case TENSUM_MAX_MIN:
        z.re = isnan(x.re) || isnan(y.re) ? (double)NAN : x.re < y.re ? x.re : y.re;
        return z;
    case TENSUM_MIN_MAX:
        z.re = isnan(x.re) || isnan(y.re) ? (double)NAN : x.re > y.re ? x.re : y.re;
        return z;
    case TENSUM_MAX_PLUS_COUNT:
        z.re = x.re + y.re;
        z.im = x.im * y.im;
        return z;
    default:
        z.re = x.re + y.re;
        return z;
    }
}

number term_of(const test_case *test, const expectation *expected, const int64_t *offsets, bool rounded)
{
    number term = expected->elements[0][offsets[0]];
    for (int t = 1; t < test->operand_count; t++) {
        term = multiply(test, term, expected->elements[t][offsets[t]]);
        if (rounded && !dtype_is_integer(test->dtype)) {
            term.re = round_to(test->dtype, term.re);
            term.im = round_to(test->dtype, term.im);
        }
    }
    return term;
}

/* Does a term replace the best one so far, so that the first of equals is kept? */
static bool better(const test_case *test, number term, number best)
{
    if (dtype_is_integer(test->dtype)) {
        return maximises(test->semiring) ? term.integer > best.integer : term.integer < best.integer;
    }
    if (isnan(best.re)) {
        return false;
    }
    return isnan(term.re) || (maximises(test->semiring) ? term.re > best.re : term.re < best.re);
}

static number add(const test_case *test, number x, number y)
{
    number z = {x.re + y.re, x.im + y.im, 0};
    if (test->semiring == TENSUM_XOR_AND) {
        z.integer = (x.integer != 0) != (y.integer != 0);
    } else if (test->semiring == TENSUM_SUM_PRODUCT_MOD) {
        z.integer = (x.integer + y.integer) % test->modulus;
    } else if (dtype_is_integer(test->dtype)) {
        z.integer = (wide)((uint64_t)x.integer + (uint64_t)y.integer);
    } else if (dtype_is_pair(test->dtype)) {
        if (isnan(x.re) || isnan(y.re)) {
            z.re = z.im = (double)NAN;
        } else if (x.re != y.re) {
            z = x.re > y.re ? x : y;
        } else {
            z.re = x.re;
        }
    }
    return z;
}

/* The value as it is stored. */
static number finish(const test_case *test, number value)
{
    if (dtype_is_integer(test->dtype)) {
        if (test->semiring == TENSUM_SUM_PRODUCT) {
            unsigned char element[16];
            store(test->dtype, value, element); /* truncates */
            return load(test->dtype, element);
        }
        if (test->semiring == TENSUM_MAX_PLUS || test->semiring == TENSUM_MIN_PLUS) {
            wide range = tropical_limit(test->dtype);
            if (!number_is_zero(test, value)) {
                value.integer = value.integer > range ? range : value.integer < -range ? -range : value.integer;
            }
        }
        return value;
    }
    if (dtype_is_pair(test->dtype)) {
        value.im = isnan(value.re) ? (double)NAN : number_is_zero(test, value) ? 0.0 : value.im;
    }
    value.re = round_to(test->dtype, value.re) + 0.0;
    value.im = round_to(test->dtype, value.im) + 0.0;
    return value;
}

bool next_assignment(const test_case *test, const expectation *expected, int first, int last, int64_t *index, int64_t *offsets,
                     int64_t *output_offset)
{
    for (int k = last - 1; k >= first; k--) {
        int label = expected->order[k];
        int64_t step = ++index[label] < test->extents[label] ? 1 : 1 - test->extents[label];
        for (int t = 0; t < test->operand_count; t++) {
            offsets[t] += step * expected->operand_stride[t][label];
        }
        *output_offset += step * expected->output_stride[label];
        if (step == 1 && index[label] < test->extents[label]) {
            return true;
        }
        index[label] = 0;
    }
    return false;
}

static void find_strides(const test_case *test, expectation *expected)
{
    bool kept[MAX_LABELS] = {false};
    int count = 0;
    for (int t = 0; t <= test->operand_count; t++) {
        const tensor_shape *shape = t < test->operand_count ? &test->operands[t] : &test->output;
        int64_t stride = 1;
        for (int32_t i = shape->rank - 1; i >= 0; i--) {
            int label = shape->labels[i];
            bool dropped = shape->extents[i] == 1;
            if (t == test->operand_count) {
                expected->output_stride[label] += dropped ? 0 : stride;
                kept[label] = true;
            } else if (!dropped) {
                expected->operand_stride[t][label] += stride;
                expected->effective[t][label] = true;
            }
            stride *= shape->extents[i];
        }
    }
    for (int label = 0; label < test->label_count; label++) {
        if (kept[label]) {
            expected->order[count++] = label;
        }
    }
    expected->output_labels = count;
    for (int label = 0; label < test->label_count; label++) {
        if (!kept[label]) {
            expected->order[count++] = label;
        }
    }
}

/* What is known of the elements: whether results are exact, whether they are independent of the tree, how large. */
static bool load_elements(const test_case *test, expectation *expected)
{
    bool integers = true, positive_infinity = false, negative_infinity = false, zeros = false, not_finite = false, huge = false;
    double sum = 0, product = 1, counts = test->assignments;
    wide integer_sum = 0;
    for (int t = 0; t < test->operand_count; t++) {
        const tensor_shape *shape = &test->operands[t];
        int64_t index[MAX_RANK] = {0}, i = 0;
        double largest = 0, largest_count = 1;
        wide largest_integer = 0;
        expected->elements[t] = malloc(((size_t)shape->size + 1) * sizeof(number));
        if (expected->elements[t] == NULL) {
            return false;
        }
        if (shape->size == 0) {
            continue;
        }
        do {
            size_t place = (size_t)shape_offset(shape, index) * tensum_dtype_bytes(test->dtype);
            number value = load(test->dtype, test->memory[t] + place);
            expected->elements[t][i++] = value;
            double size = dtype_is_complex(test->dtype) ? fabs(value.re) + fabs(value.im) : fabs(value.re);
            positive_infinity = positive_infinity || value.re > DBL_MAX || value.im > DBL_MAX;
            negative_infinity = negative_infinity || value.re < -DBL_MAX || value.im < -DBL_MAX;
            zeros = zeros || value.re == 0.0;
            not_finite = not_finite || !isfinite(size);
            if (isfinite(size)) {
                integers = integers && rint(value.re) == value.re && rint(value.im) == value.im;
                huge = huge || size > 1e4 || (size != 0 && size < 1e-7);
                largest = size > largest ? size : largest;
            }
            if (dtype_is_pair(test->dtype) && value.im > largest_count) {
                largest_count = value.im;
            }
            if (dtype_is_integer(test->dtype) && !number_is_zero(test, value)) {
                wide magnitude = value.integer < 0 ? -value.integer : value.integer;
                largest_integer = magnitude > largest_integer ? magnitude : largest_integer;
            }
        } while (shape_next(shape, index));
        sum += largest;
        product *= largest > 1 ? largest : 1;
        counts *= largest_count;
        integer_sum += largest_integer;
    }
    bool selects = test->semiring == TENSUM_MAX_MIN || test->semiring == TENSUM_MIN_MAX;
    double limit = 1.0 / (2.0 * dtype_roundoff(test->dtype)) * 2.0; /* integers up to 2^digits are exact */
    expected->largest = multiplies(test->semiring) ? product : sum;
    if (dtype_is_integer(test->dtype)) {
        bool tropical = test->semiring == TENSUM_MAX_PLUS || test->semiring == TENSUM_MIN_PLUS;
        expected->valid = !tropical || test->one_step || integer_sum <= tropical_limit(test->dtype);
        expected->exact = expected->valid;
        return true;
    }
    expected->valid = test->one_step || selects ||
                      !(huge || (multiplies(test->semiring) ? (positive_infinity || negative_infinity) && (zeros || negative_infinity || test->semiring == TENSUM_SUM_PRODUCT) : positive_infinity && negative_infinity));
    if (test->assignments == 0 && (not_finite || (zeros && test->semiring == TENSUM_MIN_TIMES)) && !test->one_step) {
        expected->valid = false; /* 0 times NaN is NaN where a part of the network is empty, nothing where all is */
    }
    if (dtype_is_complex(test->dtype) && not_finite) {
        expected->valid = false;
    }
    switch (test->semiring) {
    case TENSUM_SUM_PRODUCT:
        expected->exact = integers && (test->assignments + 1) * product * (dtype_is_complex(test->dtype) ? 2 : 1) <= limit;
        break;
    case TENSUM_MAX_PLUS_COUNT:
        expected->exact = (integers || test->one_step) && (sum <= limit || test->one_step) && counts <= limit;
        break;
    case TENSUM_LOG_SUM_EXP:
        expected->exact = false;
        break;
    default:
        expected->exact = test->one_step || selects || (integers && expected->largest <= limit);
        break;
    }
    return true;
}

/* Error bounds. A step rounds each product and each partial sum once (16-bit floats: in f32) and its result once to
 * the dtype; slices add their results. Terms of first order, with room for the second. */
static double bound(const test_case *test, const expectation *expected, double magnitude)
{
    tensum_dtype wide_dtype = test->dtype == TENSUM_F16 || test->dtype == TENSUM_BF16 ? TENSUM_F32 : test->dtype;
    double steps = 2.0 * (test->step_count + test->operand_count) + 6.0, terms = test->assignments + 4.0;
    double slices = test->slice_count > 0 ? terms : 0.0, n = (double)test->operand_count;
    double stored = dtype_roundoff(test->dtype), inner = dtype_roundoff(wide_dtype);
    double smallest = test->dtype == TENSUM_F16 ? 0x1p-25 : 0.0;
    double stores = steps + (slices < 48 ? slices : 48);
    switch (test->semiring) {
    case TENSUM_SUM_PRODUCT:
        return 1.2 * (stored * stores + inner * (terms + steps) * 2.0) * magnitude + smallest * stores * pow(4.0, n) * terms;
    case TENSUM_LOG_SUM_EXP: {
        double range = expected->largest + log(terms) + 1.0;
        return 1.2 * (stored * stores * range + inner * (4.0 * terms + 8.0 * steps * range));
    }
    case TENSUM_MAX_TIMES:
    case TENSUM_MIN_TIMES:
        return stored * stores * magnitude + smallest * stores * pow(2.0, n);
    default:
        return stored * stores * magnitude;
    }
}

/* |value| of a term before cancellation: what its rounding errors are measured against. */
static double magnitude_of(const test_case *test, const expectation *expected, const int64_t *offsets)
{
    double magnitude = multiplies(test->semiring) ? 1.0 : 0.0;
    for (int t = 0; t < test->operand_count; t++) {
        number x = expected->elements[t][offsets[t]];
        double size = dtype_is_complex(test->dtype) ? fabs(x.re) + fabs(x.im) : fabs(x.re);
        size = isfinite(size) ? size : 1.0;
        magnitude = multiplies(test->semiring) ? magnitude * size : magnitude + size;
    }
    return magnitude;
}

static void expect_element(const test_case *test, expectation *expected, int64_t o, int64_t *index, int64_t *offsets, bool empty)
{
    number value = semiring_zero(test), best = value;
    double magnitude = 0, exponential = 0;
    int64_t winner = -1, position = 0, unused = 0;
    expected->diagonal[o] = 1;
    if (!empty) {
        do {
            number term = term_of(test, expected, offsets, test->one_step && (expected->selective || dtype_is_pair(test->dtype)));
            double size = magnitude_of(test, expected, offsets);
            if (expected->selective || test->semiring == TENSUM_LOG_SUM_EXP) {
                bool first = position == 0;
                bool take = test->semiring == TENSUM_LOG_SUM_EXP ? !isnan(best.re) && (isnan(term.re) || term.re > best.re) : better(test, term, best);
                if (first || take) {
                    best = term;
                    winner = position;
                }
                magnitude = size > magnitude ? size : magnitude;
            } else {
                value = add(test, value, term);
                magnitude += size;
            }
            position++;
        } while (next_assignment(test, expected, expected->output_labels, test->label_count, index, offsets, &unused));
        if (expected->selective) {
            value = best;
        } else if (test->semiring == TENSUM_LOG_SUM_EXP) {
            value = best;
            if (isfinite(best.re)) { /* a second pass, now that the largest is known */
                do {
                    exponential += exp(term_of(test, expected, offsets, false).re - best.re);
                } while (next_assignment(test, expected, expected->output_labels, test->label_count, index, offsets, &unused));
                value.re = best.re + log(exponential);
            }
        }
    }
    expected->winner[o] = winner;
    expected->value[o] = finish(test, value);
    expected->tolerance[o] = expected->exact ? 0.0 : bound(test, expected, magnitude);
}

bool expect(const test_case *test, expectation *expected)
{
    size_t size = (size_t)test->output.size + 1;
    memset(expected, 0, sizeof *expected);
    expected->selective = tensum_semiring_selective(test->semiring) != 0;
    find_strides(test, expected);
    expected->value = calloc(size, sizeof(number));
    expected->tolerance = calloc(size, sizeof(double));
    expected->winner = calloc(size, sizeof(int64_t));
    expected->diagonal = calloc(size, 1);
    if (expected->value == NULL || expected->tolerance == NULL || expected->winner == NULL || expected->diagonal == NULL ||
        !load_elements(test, expected)) {
        return false;
    }
    double all = multiplies(test->semiring) ? expected->largest * (test->semiring == TENSUM_SUM_PRODUCT ? test->assignments : 1.0)
                                            : expected->largest;
    expected->fallback = expected->exact ? 0.0 : bound(test, expected, all);
    expected->enumerated = test->operand_count > 0 && test->assignments <= ENUMERATION_LIMIT;
    for (int64_t i = 0; i < test->output.size; i++) {
        expected->value[i] = finish(test, semiring_zero(test));
        expected->winner[i] = -1;
        expected->tolerance[i] = expected->enumerated ? 0.0 : expected->fallback;
    }
    if (!expected->enumerated || test->output.size == 0) {
        return true;
    }
    int64_t index[MAX_LABELS] = {0}, offsets[MAX_OPERANDS] = {0}, o = 0;
    bool empty = false;
    for (int k = expected->output_labels; k < test->label_count; k++) {
        empty = empty || test->extents[expected->order[k]] == 0;
    }
    do {
        expect_element(test, expected, o, index, offsets, empty);
    } while (next_assignment(test, expected, 0, expected->output_labels, index, offsets, &o));
    return true;
}

void expectation_free(expectation *expected)
{
    free(expected->value);
    free(expected->tolerance);
    free(expected->winner);
    free(expected->diagonal);
    for (int t = 0; t < MAX_OPERANDS; t++) {
        free(expected->elements[t]);
    }
    memset(expected, 0, sizeof *expected);
}

static bool reals_agree(double x, double y, double tolerance)
{
    if (isnan(x) || isnan(y)) {
        return isnan(x) && isnan(y);
    }
    return x == y || fabs(x - y) <= tolerance;
}

bool numbers_agree(tensum_dtype dtype, number x, number y, double tolerance)
{
    if (dtype_is_integer(dtype)) {
        return x.integer == y.integer;
    }
    if (dtype_is_pair(dtype)) {
        /* where values round, so do ties, and counts with them; and +inf swallows what the terms differ by */
        bool uncounted = isnan(x.re) || x.re == HUGE_VAL || tolerance > 0;
        return reals_agree(x.re, y.re, tolerance) && (uncounted || reals_agree(x.im, y.im, 0.0));
    }
    bool complex = dtype == TENSUM_C64 || dtype == TENSUM_C128;
    if (complex && !(isfinite(x.re) && isfinite(x.im) && isfinite(y.re) && isfinite(y.im))) {
        /* which part of a product with infinities is NaN depends on how it is formed; that one is not finite does not */
        return !(isfinite(x.re) && isfinite(x.im)) && !(isfinite(y.re) && isfinite(y.im));
    }
    return reals_agree(x.re, y.re, tolerance) && reals_agree(x.im, y.im, tolerance);
}

void number_print(tensum_dtype dtype, number value, char *text, size_t bytes)
{
    if (dtype_is_integer(dtype)) {
        snprintf(text, bytes, "%" PRId64, (int64_t)value.integer);
    } else if (dtype_is_real(dtype)) {
        snprintf(text, bytes, "%.17g", value.re);
    } else {
        snprintf(text, bytes, "(%.17g, %.17g)", value.re, value.im);
    }
}
