/* Compares outcomes: values, winners and decodes with brute force, and one device with another. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "judge.h"

bool disagree(char *text, size_t bytes, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, bytes, format, arguments);
    va_end(arguments);
    return false;
}

static number element_at(tensum_dtype dtype, const unsigned char *values, int64_t i)
{
    return load(dtype, values + (size_t)i * tensum_dtype_bytes(dtype));
}

static bool check_values(const test_case *test, const expectation *expected, const case_outcome *outcome, case_tally *tally,
                         char *text, size_t bytes)
{
    if (!expected->enumerated || !expected->valid) {
        return true;
    }
    for (int64_t o = 0; o < test->output.size; o++) {
        number value = element_at(test->dtype, outcome->value, o);
        if (!numbers_agree(test->dtype, value, expected->value[o], expected->tolerance[o])) {
            char got[80], wanted[80];
            number_print(test->dtype, value, got, sizeof got);
            number_print(test->dtype, expected->value[o], wanted, sizeof wanted);
            return disagree(text, bytes, "value %" PRId64 " is %s; brute force gives %s, tolerance %g", o, got, wanted,
                            expected->tolerance[o]);
        }
        /* one operand may be pure movement, which keeps -0; 16-bit sums may round to it */
        if (test->operand_count > 1 && !dtype_is_integer(test->dtype) && expected->diagonal[o] != 0 &&
            ((value.re == 0.0 && signbit(value.re)) || (value.im == 0.0 && signbit(value.im)))) {
            return disagree(text, bytes, "value %" PRId64 " is -0", o);
        }
    }
    tally->values += test->output.size;
    tally->exact_values += expected->exact ? test->output.size : 0;
    return true;
}

static bool check_winners(const test_case *test, const expectation *expected, const case_outcome *outcome, case_tally *tally,
                          char *text, size_t bytes)
{
    if (outcome->winners == NULL || !expected->enumerated) {
        return true;
    }
    for (int64_t o = 0; o < test->output.size; o++) {
        if (expected->diagonal[o] != 0 && outcome->winners[o] != expected->winner[o]) {
            return disagree(text, bytes, "winner %" PRId64 " is %" PRId64 "; brute force gives %" PRId64, o, outcome->winners[o],
                            expected->winner[o]);
        }
    }
    tally->winners += test->output.size;
    return true;
}

/* Offsets of all operands under an assignment; false where a label is outside its extent or contradicts the position. */
static bool place_assignment(const test_case *test, const expectation *expected, const int64_t *assignment, int64_t position,
                             int64_t *offsets)
{
    int64_t output_offset = 0;
    memset(offsets, 0, MAX_OPERANDS * sizeof offsets[0]);
    for (int label = 0; label < test->label_count; label++) {
        if (assignment[label] < 0 || assignment[label] >= test->extents[label]) {
            return false;
        }
        output_offset += assignment[label] * expected->output_stride[label];
        for (int t = 0; t < test->operand_count; t++) {
            offsets[t] += assignment[label] * expected->operand_stride[t][label];
        }
    }
    return output_offset == position;
}

static bool check_decode(const test_case *test, const expectation *expected, const case_outcome *outcome, case_tally *tally,
                         char *text, size_t bytes)
{
    bool zeros = false, nans = false;
    if (!outcome->decoded) {
        return true;
    }
    for (int64_t i = 0; i < test->position_count; i++) {
        int64_t position = test->positions[i], offsets[MAX_OPERANDS];
        number value = element_at(test->dtype, outcome->value, position);
        if (number_is_nan(test, value)) {
            nans = true;
            continue;
        }
        if (number_is_zero(test, value)) {
            zeros = true;
            continue;
        }
        if (!expected->valid || test->operand_count == 0) {
            continue;
        }
        if (!place_assignment(test, expected, outcome->assignments + i * test->label_count, position, offsets)) {
            return disagree(text, bytes, "the assignment decoded for element %" PRId64 " is outside the network", position);
        }
        number score = term_of(test, expected, offsets, test->one_step);
        double tolerance = expected->enumerated ? expected->tolerance[position] : expected->fallback;
        bool clamped = dtype_is_integer(test->dtype) && (test->semiring == TENSUM_MAX_PLUS || test->semiring == TENSUM_MIN_PLUS) &&
                       test->style != STYLE_TIES; /* a clamped value is not the score */
        if (!clamped && !numbers_agree(test->dtype, score, value, tolerance)) {
            char got[80], wanted[80];
            number_print(test->dtype, score, got, sizeof got);
            number_print(test->dtype, value, wanted, sizeof wanted);
            return disagree(text, bytes, "the assignment decoded for element %" PRId64 " scores %s, not %s", position, got, wanted);
        }
        tally->decodes++;
    }
    tensum_status wanted = nans ? TENSUM_STATUS_NOT_A_NUMBER : zeros ? TENSUM_STATUS_INFEASIBLE : TENSUM_OK;
    tally->nans += nans;
    tally->infeasible += zeros;
    if (outcome->decode_status != wanted && !(nans && zeros && outcome->decode_status == TENSUM_STATUS_INFEASIBLE)) {
        return disagree(text, bytes, "decoding gave %s, not %s", tensum_status_name(outcome->decode_status), tensum_status_name(wanted));
    }
    return true;
}

bool case_check(const test_case *test, const expectation *expected, const case_outcome *outcome, case_tally *tally, char *text,
                size_t bytes)
{
    return check_values(test, expected, outcome, tally, text, bytes) && check_winners(test, expected, outcome, tally, text, bytes) &&
           check_gradients(test, expected, outcome, tally, text, bytes) &&
           ((test->modes & TENSUM_VALUE) == 0 || check_decode(test, expected, outcome, tally, text, bytes));
}

/* ---- two devices ---- */

/* Same bits; any NaN is as good as another. */
static bool same_bits(tensum_dtype dtype, const unsigned char *x, const unsigned char *y)
{
    size_t element = tensum_dtype_bytes(dtype);
    if (memcmp(x, y, element) == 0) {
        return true;
    }
    if (dtype_is_integer(dtype)) {
        return false;
    }
    number a = load(dtype, x), b = load(dtype, y);
    bool re = isnan(a.re) ? isnan(b.re) : a.re == b.re && signbit(a.re) == signbit(b.re);
    bool im = isnan(a.im) ? isnan(b.im) : a.im == b.im && signbit(a.im) == signbit(b.im);
    return re && im;
}

static bool compare_arrays(const char *what, tensum_dtype dtype, int64_t size, const unsigned char *x, const unsigned char *y,
                           bool bits, const double *tolerances, double tolerance, char *text, size_t bytes)
{
    for (int64_t i = 0; i < size; i++) {
        size_t place = (size_t)i * tensum_dtype_bytes(dtype);
        double allowed = 2.0 * (tolerances != NULL ? tolerances[i] : tolerance);
        if (!bits && isinf(allowed)) {
            continue; /* infinities and overflow in sums of exponentials: no bound is known */
        }
        if (same_bits(dtype, x + place, y + place) ||
            (!bits && numbers_agree(dtype, load(dtype, x + place), load(dtype, y + place), allowed))) {
            continue;
        }
        char first[80], second[80];
        number_print(dtype, load(dtype, x + place), first, sizeof first);
        number_print(dtype, load(dtype, y + place), second, sizeof second);
        return disagree(text, bytes, "%s %" PRId64 " is %s; the reference has %s, tolerance %g", what, i, second, first, bits ? 0.0 : allowed);
    }
    return true;
}

bool case_compare(const test_case *test, const expectation *expected, const case_outcome *reference, const case_outcome *other,
                  char *text, size_t bytes)
{
    /* selective semirings, counts and whatever integers give have no rounding to differ in */
    bool bits = expected->selective || dtype_is_integer(test->dtype) || dtype_is_pair(test->dtype) || expected->exact;
    if (!compare_arrays("value", test->dtype, test->output.size, reference->value, other->value, bits,
                        expected->enumerated ? expected->tolerance : NULL, expected->fallback, text, bytes)) {
        return false;
    }
    if (reference->winners != NULL) {
        for (int64_t i = 0; i < test->output.size; i++) {
            if (reference->winners[i] != other->winners[i]) {
                return disagree(text, bytes, "winner %" PRId64 " is %" PRId64 "; the reference has %" PRId64, i, other->winners[i],
                                reference->winners[i]);
            }
        }
    }
    for (int t = 0; t < test->operand_count; t++) {
        if (reference->gradients[t] == NULL) {
            continue;
        }
        char what[32];
        double *tolerances = NULL;
        snprintf(what, sizeof what, "gradient of operand %d", t);
        if (!expected->selective) {
            tolerances = gradient_tolerances(test, expected, t);
        }
        bool agree = compare_arrays(what, test->gradient_dtype, test->operands[t].size, reference->gradients[t], other->gradients[t],
                                    expected->selective, tolerances, HUGE_VAL, text, bytes);
        free(tolerances);
        if (!agree) {
            return false;
        }
    }
    if (reference->decoded) {
        if (reference->decode_status != other->decode_status) {
            return disagree(text, bytes, "decoding gave %s; the reference %s", tensum_status_name(other->decode_status),
                            tensum_status_name(reference->decode_status));
        }
        for (int64_t i = 0; i < test->position_count; i++) {
            number value = element_at(test->dtype, reference->value, test->positions[i]);
            for (int label = 0; label < test->label_count && !number_is_zero(test, value) && !number_is_nan(test, value); label++) {
                int64_t x = reference->assignments[i * test->label_count + label], y = other->assignments[i * test->label_count + label];
                if (x != y) {
                    return disagree(text, bytes, "decoding element %" PRId64 " gave label %d the value %" PRId64 "; the reference %" PRId64,
                                    test->positions[i], label, y, x);
                }
            }
        }
    }
    return true;
}
