/* Elements of every dtype as doubles and wide integers, by arithmetic rather than by bit patterns. */
#include <math.h>
#include <string.h>

#include "conformance.h"

bool dtype_is_integer(tensum_dtype dtype)
{
    return dtype == TENSUM_I16 || dtype == TENSUM_I32 || dtype == TENSUM_I64 || dtype == TENSUM_BOOL;
}
bool dtype_is_pair(tensum_dtype dtype) { return dtype == TENSUM_VC64 || dtype == TENSUM_VC128; }
bool dtype_is_complex(tensum_dtype dtype) { return dtype == TENSUM_C64 || dtype == TENSUM_C128; }
bool dtype_is_real(tensum_dtype dtype)
{
    return dtype == TENSUM_F16 || dtype == TENSUM_BF16 || dtype == TENSUM_F32 || dtype == TENSUM_F64;
}

/* Digits of the significand and the smallest exponent of a normal number, 1 <= significand < 2. */
static void format_of(tensum_dtype dtype, int *digits, int *lowest, int *highest)
{
    switch (dtype) {
    case TENSUM_F16:
        *digits = 11, *lowest = -14, *highest = 15;
        break;
    case TENSUM_BF16:
        *digits = 8, *lowest = -126, *highest = 127;
        break;
    case TENSUM_F32:
    case TENSUM_C64:
    case TENSUM_VC64:
        *digits = 24, *lowest = -126, *highest = 127;
        break;
    default:
        *digits = 53, *lowest = -1022, *highest = 1023;
        break;
    }
}

double dtype_roundoff(tensum_dtype dtype)
{
    int digits, lowest, highest;
    format_of(dtype, &digits, &lowest, &highest);
    return ldexp(1.0, -digits);
}

double round_to(tensum_dtype dtype, double value)
{
    int digits, lowest, highest, exponent;
    format_of(dtype, &digits, &lowest, &highest);
    if (digits == 53 || value == 0.0 || !isfinite(value)) {
        return value;
    }
    frexp(value, &exponent); /* |value| = f 2^exponent, 1/2 <= f < 1 */
    exponent -= 1;
    if (exponent < lowest) {
        exponent = lowest;
    }
    double last = ldexp(1.0, exponent - digits + 1);
    double rounded = nearbyint(value / last) * last; /* ties to even; division by a power of two is exact */
    if (fabs(rounded) >= ldexp(1.0, highest + 1)) {
        return value > 0 ? HUGE_VAL : -HUGE_VAL;
    }
    return copysign(rounded, value);
}

static double load_small(uint16_t bits, int exponent_bits, int fraction_bits)
{
    int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    int fraction = bits & ((1 << fraction_bits) - 1);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double value;
    if (exponent == (1 << exponent_bits) - 1) {
        value = fraction != 0 ? (double)NAN : HUGE_VAL;
    } else if (exponent == 0) {
        value = ldexp((double)fraction, 1 - bias - fraction_bits);
    } else {
        value = ldexp((double)(fraction + (1 << fraction_bits)), exponent - bias - fraction_bits);
    }
    return (bits & 0x8000u) != 0 ? -value : value;
}

static uint16_t store_small(double value, tensum_dtype dtype, int exponent_bits, int fraction_bits)
{
    unsigned sign = signbit(value) ? 0x8000u : 0u, magnitude;
    int bias = (1 << (exponent_bits - 1)) - 1, exponent;
    double rounded = fabs(round_to(dtype, value));
    if (isnan(value)) {
        magnitude = (((1u << exponent_bits) - 1) << fraction_bits) | (1u << (fraction_bits - 1));
    } else if (isinf(rounded)) {
        magnitude = ((1u << exponent_bits) - 1) << fraction_bits;
    } else if (rounded < ldexp(1.0, 1 - bias)) {
        magnitude = (unsigned)ldexp(rounded, bias - 1 + fraction_bits);
    } else {
        double fraction = frexp(rounded, &exponent); /* 1/2 <= fraction < 1 */
        magnitude = (unsigned)(exponent - 1 + bias) << fraction_bits;
        magnitude += (unsigned)ldexp(2.0 * fraction - 1.0, fraction_bits);
    }
    return (uint16_t)(sign | magnitude);
}

number load(tensum_dtype dtype, const void *element)
{
    number value = {0, 0, 0};
    uint16_t half;
    float f32[2];
    double f64[2];
    int16_t i16;
    int32_t i32;
    int64_t i64;
    switch (dtype) {
    case TENSUM_F16:
    case TENSUM_BF16:
        memcpy(&half, element, sizeof half);
        value.re = dtype == TENSUM_F16 ? load_small(half, 5, 10) : load_small(half, 8, 7);
        break;
    case TENSUM_F32:
        memcpy(f32, element, sizeof f32[0]);
        value.re = (double)f32[0];
        break;
    case TENSUM_F64:
        memcpy(f64, element, sizeof f64[0]);
        value.re = f64[0];
        break;
    case TENSUM_C64:
    case TENSUM_VC64:
        memcpy(f32, element, sizeof f32);
        value.re = (double)f32[0];
        value.im = (double)f32[1];
        break;
    case TENSUM_C128:
    case TENSUM_VC128:
        memcpy(f64, element, sizeof f64);
        value.re = f64[0];
        value.im = f64[1];
        break;
    case TENSUM_I16:
        memcpy(&i16, element, sizeof i16);
        value.integer = i16;
        break;
    case TENSUM_I32:
        memcpy(&i32, element, sizeof i32);
        value.integer = i32;
        break;
    case TENSUM_I64:
        memcpy(&i64, element, sizeof i64);
        value.integer = i64;
        break;
    default:
        value.integer = *(const unsigned char *)element;
        break;
    }
    return value;
}

void store(tensum_dtype dtype, number value, void *element)
{
    uint16_t half;
    float f32[2] = {(float)value.re, (float)value.im};
    double f64[2] = {value.re, value.im};
    int16_t i16 = (int16_t)value.integer;
    int32_t i32 = (int32_t)value.integer;
    int64_t i64 = (int64_t)value.integer;
    switch (dtype) {
    case TENSUM_F16:
    case TENSUM_BF16:
        half = dtype == TENSUM_F16 ? store_small(value.re, dtype, 5, 10) : store_small(value.re, dtype, 8, 7);
        memcpy(element, &half, sizeof half);
        break;
    case TENSUM_F32:
        memcpy(element, f32, sizeof f32[0]);
        break;
    case TENSUM_F64:
        memcpy(element, f64, sizeof f64[0]);
        break;
    case TENSUM_C64:
    case TENSUM_VC64:
        memcpy(element, f32, sizeof f32);
        break;
    case TENSUM_C128:
    case TENSUM_VC128:
        memcpy(element, f64, sizeof f64);
        break;
    case TENSUM_I16:
        memcpy(element, &i16, sizeof i16);
        break;
    case TENSUM_I32:
        memcpy(element, &i32, sizeof i32);
        break;
    case TENSUM_I64:
        memcpy(element, &i64, sizeof i64);
        break;
    default:
        *(unsigned char *)element = value.integer != 0;
        break;
    }
}

static wide lowest_of(tensum_dtype dtype)
{
    return dtype == TENSUM_I16 ? INT16_MIN : dtype == TENSUM_I32 ? INT32_MIN : INT64_MIN;
}

number semiring_zero(const test_case *test)
{
    number zero = {0, 0, 0};
    int bits = 8 * (int)tensum_dtype_bytes(test->dtype);
    wide tropical = ((wide)1 << (bits - 2)) - 1;
    switch (test->semiring) {
    case TENSUM_MAX_PLUS:
    case TENSUM_LOG_SUM_EXP:
    case TENSUM_MAX_PLUS_COUNT:
        zero.re = -HUGE_VAL;
        zero.integer = -tropical;
        break;
    case TENSUM_MAX_MIN:
        zero.re = -HUGE_VAL;
        zero.integer = lowest_of(test->dtype);
        break;
    case TENSUM_MIN_PLUS:
        zero.re = HUGE_VAL;
        zero.integer = tropical;
        break;
    case TENSUM_MIN_TIMES:
        zero.re = HUGE_VAL;
        break;
    case TENSUM_MIN_MAX:
        zero.re = HUGE_VAL;
        zero.integer = -lowest_of(test->dtype) - 1;
        break;
    default:
        break;
    }
    return zero;
}
