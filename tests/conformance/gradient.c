/* Gradients by rules of their own: products of the other factors, softmax weights, the only optimal assignment; and,
 * for one-step cases, the winners with the positional tree. */
#include <inttypes.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "judge.h"

enum { BLOCK = 512 };

/* Gradient of one operand as sums, with the sums of magnitudes that bound their errors. */
typedef struct sums {
    double *re, *im, *magnitude;
    unsigned char *touched; /* lies on some optimal assignment */
} sums;

static void sums_free(sums *all)
{
    for (int t = 0; t < MAX_OPERANDS; t++) {
        free(all[t].re);
        free(all[t].im);
        free(all[t].magnitude);
        free(all[t].touched);
    }
}

static bool sums_create(const test_case *test, sums *all)
{
    memset(all, 0, MAX_OPERANDS * sizeof *all);
    for (int t = 0; t < test->operand_count; t++) {
        size_t size = (size_t)test->operands[t].size + 1;
        all[t].re = calloc(size, sizeof(double));
        all[t].im = calloc(size, sizeof(double));
        all[t].magnitude = calloc(size, sizeof(double));
        all[t].touched = calloc(size, 1);
        if (all[t].re == NULL || all[t].im == NULL || all[t].magnitude == NULL || all[t].touched == NULL) {
            return false;
        }
    }
    return true;
}

/* The cotangent, row-major. */
static number *load_cotangent(const test_case *test)
{
    number *cotangent = malloc(((size_t)test->output.size + 1) * sizeof(number));
    int64_t index[MAX_RANK] = {0}, i = 0;
    if (cotangent != NULL && test->output.size > 0) {
        do {
            number one = {1, 0, 0};
            cotangent[i++] = test->cotangent_memory == NULL
                                 ? one
                                 : load(test->gradient_dtype, test->cotangent_memory + (size_t)shape_offset(&test->cotangent, index) *
                                                                                           tensum_dtype_bytes(test->gradient_dtype));
        } while (shape_next(&test->cotangent, index));
    }
    return cotangent;
}

static double as_real(const test_case *test, number value)
{
    return dtype_is_integer(test->dtype) ? (double)value.integer : value.re;
}

/* Product of the elements of all operands but one; complex: conjugated. */
static number others(const test_case *test, const expectation *expected, const int64_t *offsets, int except)
{
    number product = {1, 0, 0};
    for (int t = 0; t < test->operand_count; t++) {
        if (t == except) {
            continue;
        }
        number x = expected->elements[t][offsets[t]];
        double re = as_real(test, x), im = dtype_is_complex(test->dtype) ? -x.im : 0.0;
        number next = {product.re * re - product.im * im, product.re * im + product.im * re, 0};
        if (!dtype_is_complex(test->dtype)) {
            next.im = 0.0;
        }
        product = next;
    }
    return product;
}

static void contribute(const test_case *test, sums *all, int t, int64_t element, number cotangent, number factor)
{
    double size = (fabs(cotangent.re) + fabs(cotangent.im)) * (fabs(factor.re) + fabs(factor.im));
    if (dtype_is_complex(test->dtype)) {
        all[t].re[element] += cotangent.re * factor.re - cotangent.im * factor.im;
        all[t].im[element] += cotangent.re * factor.im + cotangent.im * factor.re;
    } else {
        all[t].re[element] += cotangent.re * factor.re;
    }
    all[t].magnitude[element] += size;
}

/* ---- selective: by the optimal assignments ---- */

typedef struct route_state {
    bool ties;      /* some output has several optimal assignments */
    bool not_a_number;
    double total;   /* of the cotangents that were routed */
} route_state;

/* Route the cotangent of one output element. Both offset arrays are at the start of its summed labels, and return there. */
static void route(const test_case *test, const expectation *expected, int64_t o, number cotangent, int64_t *index, int64_t *offsets,
                  sums *all, route_state *routing)
{
    number value = expected->value[o];
    bool bottleneck = test->semiring == TENSUM_MAX_MIN || test->semiring == TENSUM_MIN_MAX;
    double gap = expected->exact ? 0.0 : 4.0 * expected->tolerance[o] + 1e-30;
    int64_t best[MAX_OPERANDS] = {0}, count = 0, unused = 0;
    int attaining = -1;
    if (number_is_nan(test, value)) {
        routing->not_a_number = true;
        return;
    }
    do {
        number term = term_of(test, expected, offsets, test->one_step);
        if (!numbers_agree(test->dtype, term, value, gap)) {
            continue;
        }
        for (int t = 0; t < test->operand_count; t++) {
            if (!bottleneck) {
                all[t].touched[offsets[t]] = 1;
            } else if (numbers_agree(test->dtype, expected->elements[t][offsets[t]], value, gap)) {
                all[t].touched[offsets[t]] = 1;
                bool same = attaining == t && best[t] == offsets[t];
                count += same ? 0 : 1;
                attaining = t;
                best[t] = offsets[t];
            }
        }
        if (!bottleneck) {
            count++;
            memcpy(best, offsets, sizeof best);
        }
    } while (next_assignment(test, expected, expected->output_labels, test->label_count, index, offsets, &unused));
    routing->total += cotangent.re;
    if (count != 1) {
        routing->ties = true;
        return;
    }
    for (int t = 0; t < test->operand_count; t++) {
        bool times = test->semiring == TENSUM_MAX_TIMES || test->semiring == TENSUM_MIN_TIMES;
        number one = {1, 0, 0};
        if (!bottleneck || t == attaining) {
            contribute(test, all, t, best[t], cotangent, times ? others(test, expected, best, t) : one);
        }
    }
}

static bool check_totals(const test_case *test, const case_outcome *outcome, const sums *all, const route_state *routing, char *text,
                         size_t bytes)
{
    bool bottleneck = test->semiring == TENSUM_MAX_MIN || test->semiring == TENSUM_MIN_MAX;
    bool plus = test->semiring == TENSUM_MAX_PLUS || test->semiring == TENSUM_MIN_PLUS;
    double everything = 0, size = 0;
    bool complete = true;
    for (int t = 0; t < test->operand_count; t++) {
        double sum = 0, own = 0;
        if (outcome->gradients[t] == NULL) {
            complete = false;
            continue;
        }
        for (int64_t e = 0; e < test->operands[t].size; e++) {
            double value = load(test->gradient_dtype, outcome->gradients[t] + (size_t)e * tensum_dtype_bytes(test->gradient_dtype)).re;
            if (value != 0.0 && all[t].touched[e] == 0) {
                return disagree(text, bytes, "gradient of operand %d, element %" PRId64 " is %g, on no optimal assignment", t, e, value);
            }
            sum += value;
            own += fabs(value);
        }
        everything += sum;
        size += own + fabs(routing->total);
        if (plus && fabs(sum - routing->total) > 1e-4 * (own + fabs(routing->total) + 1.0)) {
            return disagree(text, bytes, "gradients of operand %d add up to %.9g; the cotangents to %.9g", t, sum, routing->total);
        }
    }
    if (bottleneck && complete && fabs(everything - routing->total) > 1e-4 * (size + 1.0)) {
        return disagree(text, bytes, "all gradients add up to %.9g; the cotangents to %.9g", everything, routing->total);
    }
    return true;
}

/* ---- one step, exactly: winners and the positional tree ---- */

static double tree_sum(tensum_dtype dtype, double *values, int64_t count)
{
    while (count > 1) {
        int64_t blocks = 0;
        for (int64_t first = 0; first < count; first += BLOCK) {
            double sum = 0.0;
            for (int64_t i = first; i < count && i < first + BLOCK; i++) {
                sum = round_to(dtype, sum + values[i]);
            }
            values[blocks++] = sum;
        }
        count = blocks;
    }
    return count == 1 ? 0.0 + values[0] : 0.0;
}

/* What one output element sends to an element of operand t that its winner goes through. */
static double sent(const test_case *test, const expectation *expected, int t, const int64_t *offsets, double cotangent)
{
    if (test->operand_count == 1) {
        return cotangent;
    }
    number own = expected->elements[t][offsets[t]], other = expected->elements[1 - t][offsets[1 - t]];
    double x = as_real(test, own), y = as_real(test, other);
    switch (test->semiring) {
    case TENSUM_MAX_TIMES:
    case TENSUM_MIN_TIMES:
        return round_to(test->gradient_dtype, cotangent * y);
    case TENSUM_MAX_MIN:
        return x < y || (x == y && t == 0) ? cotangent : 0.0;
    case TENSUM_MIN_MAX:
        return x > y || (x == y && t == 0) ? cotangent : 0.0;
    default:
        return cotangent;
    }
}

static bool check_one_step(const test_case *test, const expectation *expected, const case_outcome *outcome, const number *cotangent,
                           int t, case_tally *tally, char *text, size_t bytes)
{
    int mine[MAX_LABELS], rest[MAX_LABELS], mine_count = 0, rest_count = 0;
    int64_t size = test->operands[t].size, rest_size = 1, sum_stride[MAX_LABELS] = {0}, stride = 1;
    for (int label = 0; label < test->label_count; label++) {
        bool kept = false;
        for (int k = 0; k < expected->output_labels; k++) {
            kept = kept || expected->order[k] == label;
        }
        if (expected->effective[t][label]) {
            mine[mine_count++] = label;
        } else if (kept) {
            rest[rest_count++] = label;
            rest_size *= test->extents[label];
        }
    }
    for (int k = test->label_count - 1; k >= expected->output_labels; k--) {
        sum_stride[expected->order[k]] = stride;
        stride *= test->extents[expected->order[k]];
    }
    double *wanted = calloc((size_t)size + 1, sizeof(double)), *parts = calloc((size_t)rest_size + 1, sizeof(double));
    bool good = wanted != NULL && parts != NULL;
    int64_t index[MAX_LABELS] = {0};
    bool more = good && size > 0;
    while (more) {
        int64_t element = 0, position = 0;
        for (int k = 0; k < mine_count; k++) {
            element += index[mine[k]] * expected->operand_stride[t][mine[k]];
            position += index[mine[k]] * sum_stride[mine[k]];
        }
        bool further = rest_size > 0;
        int64_t count = 0;
        while (further) {
            int64_t o = 0, offsets[MAX_OPERANDS] = {0};
            for (int label = 0; label < test->label_count; label++) {
                o += index[label] * expected->output_stride[label];
                for (int u = 0; u < test->operand_count; u++) {
                    offsets[u] += index[label] * expected->operand_stride[u][label];
                }
            }
            parts[count++] = expected->winner[o] == position ? sent(test, expected, t, offsets, cotangent[o].re) : 0.0;
            further = false;
            for (int k = rest_count - 1; k >= 0 && !further; k--) {
                further = ++index[rest[k]] < test->extents[rest[k]];
                index[rest[k]] = further ? index[rest[k]] : 0;
            }
        }
        wanted[element] = tree_sum(test->gradient_dtype, parts, count);
        more = false;
        for (int k = mine_count - 1; k >= 0 && !more; k--) {
            more = ++index[mine[k]] < test->extents[mine[k]];
            index[mine[k]] = more ? index[mine[k]] : 0;
        }
    }
    for (int64_t e = 0; good && e < size; e++) {
        double value = load(test->gradient_dtype, outcome->gradients[t] + (size_t)e * tensum_dtype_bytes(test->gradient_dtype)).re;
        if (value != wanted[e] && !(isnan(value) && isnan(wanted[e]))) {
            good = disagree(text, bytes, "gradient of operand %d, element %" PRId64 " is %.17g; the winners give %.17g", t, e, value, wanted[e]);
        }
    }
    tally->exact_gradients += size;
    free(wanted);
    free(parts);
    return good;
}

/* ---- all of it ---- */

/* Small enough that no product wraps or saturates. */
static bool integers_small(const test_case *test)
{
    return !dtype_is_integer(test->dtype) || test->dtype == TENSUM_BOOL || (test->style != STYLE_REALS && test->style != STYLE_SPECIALS);
}

static double relative_bound(const test_case *test)
{
    double steps = 2.0 * (test->step_count + test->operand_count) + 10.0;
    double stored = dtype_is_integer(test->dtype) ? 0.0 : dtype_roundoff(test->dtype);
    return 1.2 * (stored * steps + dtype_roundoff(test->gradient_dtype) * (2.0 * test->assignments + 8.0 * steps));
}

/* Sums over every assignment for semirings that add. */
static bool add_up(const test_case *test, const expectation *expected, const number *cotangent, sums *all)
{
    int64_t index[MAX_LABELS] = {0}, offsets[MAX_OPERANDS] = {0}, o = 0;
    if (test->assignments == 0) {
        return true;
    }
    do {
        number value = expected->value[o];
        for (int t = 0; t < test->operand_count; t++) {
            number factor = {1, 0, 0};
            if (test->semiring == TENSUM_LOG_SUM_EXP) {
                double term = term_of(test, expected, offsets, false).re;
                if (!isfinite(value.re) && !(value.re < 0)) {
                    return false; /* NaN and +inf: no weights */
                }
                factor.re = value.re < 0 && isinf(value.re) ? 0.0 : exp(term - value.re);
            } else {
                factor = others(test, expected, offsets, t);
            }
            contribute(test, all, t, offsets[t], cotangent[o], factor);
        }
    } while (next_assignment(test, expected, 0, test->label_count, index, offsets, &o));
    return true;
}

double *gradient_tolerances(const test_case *test, const expectation *expected, int t)
{
    size_t size = (size_t)test->operands[t].size + 1;
    double *tolerances = calloc(size, sizeof(double));
    number *cotangent = load_cotangent(test);
    sums all[MAX_OPERANDS];
    bool created = sums_create(test, all);
    if (tolerances != NULL && cotangent != NULL && created) {
        double spread = test->semiring == TENSUM_LOG_SUM_EXP ? 4.0 * (expected->largest + log(test->assignments + 2.0) + 2.0) : 1.0;
        bool known = expected->enumerated && integers_small(test) && add_up(test, expected, cotangent, all);
        for (size_t e = 0; e < size; e++) {
            double magnitude = isfinite(all[t].magnitude[e]) ? all[t].magnitude[e] : HUGE_VAL;
            tolerances[e] = known ? relative_bound(test) * spread * magnitude + 1e-30 : HUGE_VAL;
            if (test->dtype == TENSUM_F16) { /* forward values below the smallest half */
                tolerances[e] += 0x1p-25 * pow(4.0, test->operand_count) * (test->assignments + 1.0);
            }
        }
    }
    sums_free(all);
    free(cotangent);
    return tolerances;
}

bool check_gradients(const test_case *test, const expectation *expected, const case_outcome *outcome, case_tally *tally, char *text,
                     size_t bytes)
{
    bool any = false, good = true;
    for (int t = 0; t < test->operand_count; t++) {
        any = any || outcome->gradients[t] != NULL;
    }
    if (!any || !expected->enumerated || !expected->valid) {
        return true;
    }
    number *cotangent = load_cotangent(test);
    sums all[MAX_OPERANDS];
    route_state routing = {false, false, 0};
    if (!sums_create(test, all) || cotangent == NULL) {
        good = disagree(text, bytes, "out of memory in the test");
        goto done;
    }
    if (expected->selective) {
        int64_t index[MAX_LABELS] = {0}, offsets[MAX_OPERANDS] = {0}, o = 0;
        if (test->assignments > 0) {
            do {
                route(test, expected, o, cotangent[o], index, offsets, all, &routing);
            } while (next_assignment(test, expected, 0, expected->output_labels, index, offsets, &o));
        }
        if (routing.not_a_number || test->assignments == 0) { /* a step whose terms are all 0 has a winner, others may be empty */
            goto done;
        }
        if (test->one_step && test->semiring != TENSUM_OR_AND) {
            for (int t = 0; good && t < test->operand_count; t++) {
                good = outcome->gradients[t] == NULL || check_one_step(test, expected, outcome, cotangent, t, tally, text, bytes);
            }
        }
        /* saturated or clamped values hide which assignments are optimal */
        if (!good || !integers_small(test) || test->semiring == TENSUM_OR_AND) {
            goto done;
        }
        good = check_totals(test, outcome, all, &routing, text, bytes);
        if (!good || routing.ties) {
            goto done;
        }
    } else if (!integers_small(test) || !add_up(test, expected, cotangent, all)) {
        goto done;
    }
    for (int t = 0; good && t < test->operand_count; t++) {
        double *tolerances = expected->selective ? NULL : gradient_tolerances(test, expected, t);
        for (int64_t e = 0; good && outcome->gradients[t] != NULL && e < test->operands[t].size; e++) {
            number value = load(test->gradient_dtype, outcome->gradients[t] + (size_t)e * tensum_dtype_bytes(test->gradient_dtype));
            number wanted = {all[t].re[e], all[t].im[e], 0};
            double tolerance = tolerances != NULL ? tolerances[e] : relative_bound(test) * all[t].magnitude[e];
            if (test->gradient_dtype == TENSUM_F32 && fabs(wanted.re) > (double)FLT_MAX) {
                continue; /* overflows in f32, at once or on the way */
            }
            if (isfinite(wanted.re) && isfinite(wanted.im) && !numbers_agree(test->gradient_dtype, value, wanted, tolerance)) {
                char got[80], right[80];
                number_print(test->gradient_dtype, value, got, sizeof got);
                number_print(test->gradient_dtype, wanted, right, sizeof right);
                good = disagree(text, bytes, "gradient of operand %d, element %" PRId64 " is %s; brute force gives %s, tolerance %g", t, e, got, right, tolerance);
            }
        }
        tally->gradients += test->operands[t].size;
        free(tolerances);
    }
done:
    sums_free(all);
    free(cotangent);
    return good;
}
