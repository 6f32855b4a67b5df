/* Element operations against plain arithmetic, conversions of 16-bit floats over every pattern, and semiring laws. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "algebra/algebra.h"
#include "algebra/element.h"

__extension__ typedef __int128 wide;

/* ---- 16-bit floats ---- */

typedef struct half_format {
    const char *name;
    int exponent_bits, fraction_bits;
    float (*load)(uint16_t);
    uint16_t (*store)(float);
} half_format;

static float load_f16(uint16_t x) { return ts_load_f16(x); }
static uint16_t store_f16(float x) { return ts_store_f16(x); }
static float load_bf16(uint16_t x) { return ts_load_bf16(x); }
static uint16_t store_bf16(float x) { return ts_store_bf16(x); }
static const half_format formats[] = {{"f16", 5, 10, load_f16, store_f16}, {"bf16", 8, 7, load_bf16, store_bf16}};

/* The value of a pattern by arithmetic; NaN where it is one. */
static double half_value(const half_format *format, unsigned bits)
{
    int exponent = (int)(bits >> format->fraction_bits) & ((1 << format->exponent_bits) - 1);
    int fraction = (int)bits & ((1 << format->fraction_bits) - 1);
    int bias = (1 << (format->exponent_bits - 1)) - 1;
    double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
    if (exponent == (1 << format->exponent_bits) - 1) {
        return fraction != 0 ? (double)NAN : sign * HUGE_VAL;
    }
    if (exponent == 0) {
        return sign * ldexp((double)fraction, 1 - bias - format->fraction_bits);
    }
    return sign * ldexp((double)(fraction + (1 << format->fraction_bits)), exponent - bias - format->fraction_bits);
}

static void halves_load_every_pattern(void **state)
{
    (void)state;
    for (size_t f = 0; f < 2; f++) {
        for (unsigned bits = 0; bits < 65536; bits++) {
            double expected = half_value(&formats[f], bits);
            float got = formats[f].load((uint16_t)bits);
            if (isnan(expected)) {
                assert_true(isnan(got));
                assert_int_equal((int)(bits >> 15), signbit(got) != 0);
                assert_true(isnan(half_value(&formats[f], formats[f].store(got))));
            } else {
                assert_true((double)got == expected && (signbit(got) != 0) == (bits >> 15 != 0));
                assert_int_equal(formats[f].store(got), bits);
            }
        }
    }
}

static void expect_store(const half_format *format, float value, unsigned expected)
{
    unsigned got = format->store(value);
    if (got != expected) {
        fail_msg("%s: %a is stored as %04x, not %04x", format->name, (double)value, got, expected);
    }
    got = format->store(-value);
    if (got != (expected | 0x8000u)) {
        fail_msg("%s: %a is stored as %04x, not %04x", format->name, (double)-value, got, expected | 0x8000u);
    }
}

/* Between each two neighbouring halves: the middle goes to the even one, everything else to the nearer one. */
static void halves_round_to_nearest_even(void **state)
{
    (void)state;
    for (size_t f = 0; f < 2; f++) {
        const half_format *format = &formats[f];
        unsigned infinity = (unsigned)((1 << format->exponent_bits) - 1) << format->fraction_bits;
        for (unsigned bits = 0; bits < infinity; bits++) {
            double low = half_value(format, bits), high = half_value(format, bits + 1);
            if (bits + 1 == infinity) { /* what the next value would be if the exponent went on */
                high = ldexp(1.0, 1 << (format->exponent_bits - 1));
            }
            double middle = 0.5 * (low + high);
            float half_way = (float)middle;
            if ((double)half_way != middle) { /* bf16 subnormals of f32 have no room for the middle */
                continue;
            }
            expect_store(format, half_way, (bits & 1u) == 0 ? bits : bits + 1);
            expect_store(format, nextafterf(half_way, 0.0f), bits);
            expect_store(format, nextafterf(half_way, FLT_MAX), bits + 1);
        }
        expect_store(format, INFINITY, infinity);
        expect_store(format, FLT_MAX, infinity);
        expect_store(format, 0.0f, 0);
        expect_store(format, FLT_TRUE_MIN, 0);
    }
}

#if defined(__FLT16_MAX__)
static void f16_agrees_with_the_compiler(void **state)
{
    (void)state;
    uint32_t bits = 0;
    for (long i = 0; i < 1L << 22; i++, bits += 1021u) { /* 1021 is odd: all high parts, scattered low ones */
        float value = ts_float_of_bits(bits);
        if (value == value) {
            __extension__ _Float16 half = (_Float16)value;
            uint16_t pattern;
            memcpy(&pattern, &half, sizeof pattern);
            assert_int_equal(ts_store_f16(value), pattern);
        }
    }
}
#endif

static void rounding_is_store_then_load(void **state)
{
    (void)state;
    static const float values[] = {0.1f, -0.1f, 1.0009765f, 65519.0f, 65520.0f, 1e-8f, 3.0e-8f, 257.0f, 1e30f, 3.4e38f};
    static const float f16[] = {0.0999755859375f, -0.0999755859375f, 1.0009765625f, 65504.0f, INFINITY, 0.0f, 5.9604644775390625e-8f, 257.0f, INFINITY, INFINITY};
    static const float bf16[] = {0.10009765625f, -0.10009765625f, 1.0f, 65536.0f, 65536.0f, 1.0011717677116394e-8f, 3.00351530313492e-8f, 256.0f, 1.0039789e30f, INFINITY};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_true(ts_round_f16(values[i]) == f16[i]);
        if (i != 8) { /* no short decimal */
            assert_true(ts_round_bf16(values[i]) == bf16[i]);
        }
        assert_true(ts_round_f32(values[i]) == values[i]);
    }
}

/* ---- all pairs as a table of functions on stored elements ---- */

typedef struct pair {
    tensum_semiring semiring;
    tensum_dtype dtype;
    int selective;
    /* rounded to storage, as selective semirings do; on small integers nothing rounds */
    void (*multiply)(const void *x, const void *y, int64_t modulus, void *z);
    void (*add)(const void *x, const void *y, int64_t modulus, void *z);
    void (*finish)(const void *x, void *z);
    int (*better)(const void *x, const void *best);
    void (*identity)(int one, void *z);
} pair;

/* `d` comes with its underscore, so that "bool" is never expanded on the way. */
#define OPERATIONS(s, a, m, d)                                                        \
    static void multiply_##s####d(const void *x, const void *y, int64_t n, void *z)  \
    {                                                                                 \
        ts_s##d p, q, r;                                                             \
        memcpy(&p, x, sizeof p), memcpy(&q, y, sizeof q);                             \
        r = ts_store##d(ts_round##d(ts_##m####d(ts_load##d(p), ts_load##d(q), n))); \
        memcpy(z, &r, sizeof r);                                                      \
    }                                                                                 \
    static void add_##s####d(const void *x, const void *y, int64_t n, void *z)       \
    {                                                                                 \
        ts_s##d p, q, r;                                                             \
        memcpy(&p, x, sizeof p), memcpy(&q, y, sizeof q);                             \
        r = ts_store##d(ts_add_##a####d(ts_load##d(p), ts_load##d(q), n));        \
        memcpy(z, &r, sizeof r);                                                      \
    }                                                                                 \
    static void finish_##s####d(const void *x, void *z)                              \
    {                                                                                 \
        ts_s##d p, r;                                                                \
        memcpy(&p, x, sizeof p);                                                      \
        r = ts_store##d(ts_finish_##a##_##m####d(ts_load##d(p)));                  \
        memcpy(z, &r, sizeof r);                                                      \
    }                                                                                 \
    static void identity_##s####d(int one, void *z)                                  \
    {                                                                                 \
        ts_s##d r = ts_store##d(one != 0 ? ts_one_##a##_##m####d() : ts_zero_##a##_##m####d()); \
        memcpy(z, &r, sizeof r);                                                      \
    }
#define BETTER_NAMED_0(s, a, d) static int better_of_##s####d(const void *x, const void *y) { (void)x, (void)y; return 0; }
#define BETTER_NAMED_1(s, a, d)                                                       \
    static int better_of_##s####d(const void *x, const void *best)                   \
    {                                                                                 \
        ts_s##d p, q;                                                                \
        memcpy(&p, x, sizeof p), memcpy(&q, best, sizeof q);                          \
        return ts_better_##a####d(ts_load##d(p), ts_load##d(q));                   \
    }
#define TS_PAIR(s, a, m, sel, d) OPERATIONS(s, a, m, _##d) BETTER_NAMED_##sel(s, a, _##d)
#include "algebra/pairs.def"

enum {
#define TENSUM_SEMIRING(ID, name, alias, add, mul, dtypes, selective, summary) SEMIRING_##name,
#include <tensum/semirings.def>
#undef TENSUM_SEMIRING
};
enum {
#define TENSUM_DTYPE(ID, name, bytes, gradient, summary) DTYPE_##name,
#include <tensum/dtypes.def>
#undef TENSUM_DTYPE
};
static const pair pairs[] = {
#define TS_PAIR(s, a, m, sel, d) \
    {(tensum_semiring)SEMIRING_##s, (tensum_dtype)DTYPE_##d, sel, multiply_##s##_##d, add_##s##_##d, finish_##s##_##d, better_of_##s##_##d, identity_##s##_##d},
#include "algebra/pairs.def"
};
enum { PAIR_COUNT = sizeof pairs / sizeof pairs[0] };
static const int64_t MODULUS = 7;

/* A small integer (and, for two-part dtypes, a second one) as an element. */
static void make(tensum_dtype dtype, int x, int y, void *element)
{
    uint16_t half = dtype == TENSUM_F16 ? ts_store_f16((float)x) : ts_store_bf16((float)x);
    float f32[2] = {(float)x, (float)y};
    double f64[2] = {x, y};
    int16_t i16 = (int16_t)x;
    int32_t i32 = x;
    int64_t i64 = x;
    uint8_t boolean = (uint8_t)(x != 0);
    switch (dtype) {
    case TENSUM_F16:
    case TENSUM_BF16:
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
        memcpy(element, &boolean, sizeof boolean);
        break;
    }
}

static double first_part(tensum_dtype dtype, const void *element)
{
    uint16_t half;
    float f32;
    double f64;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    switch (dtype) {
    case TENSUM_F16:
        memcpy(&half, element, sizeof half);
        return half_value(&formats[0], half);
    case TENSUM_BF16:
        memcpy(&half, element, sizeof half);
        return half_value(&formats[1], half);
    case TENSUM_F32:
    case TENSUM_C64:
    case TENSUM_VC64:
        memcpy(&f32, element, sizeof f32);
        return (double)f32;
    case TENSUM_F64:
    case TENSUM_C128:
    case TENSUM_VC128:
        memcpy(&f64, element, sizeof f64);
        return f64;
    case TENSUM_I16:
        memcpy(&i16, element, sizeof i16);
        return i16;
    case TENSUM_I32:
        memcpy(&i32, element, sizeof i32);
        return i32;
    case TENSUM_I64:
        memcpy(&i64, element, sizeof i64);
        return (double)i64;
    default:
        return *(const unsigned char *)element;
    }
}

/* Small integers in the domain of a pair. */
static void range_of(const pair *p, int *low, int *high)
{
    *low = -3, *high = 3;
    if (p->semiring == TENSUM_MAX_TIMES || p->semiring == TENSUM_MIN_TIMES) {
        *low = 0;
    }
    if (p->dtype == TENSUM_BOOL) {
        *low = 0, *high = 1;
    }
    if (p->semiring == TENSUM_SUM_PRODUCT_MOD) {
        *low = 0, *high = (int)MODULUS - 1;
    }
}

static const char *pair_name(const pair *p)
{
    static char text[64];
    snprintf(text, sizeof text, "semiring %d, dtype %d", (int)p->semiring, (int)p->dtype);
    return text;
}

static void expect_equal(const pair *p, const char *law, const ts_element *x, const ts_element *y)
{
    if (memcmp(x, y, tensum_dtype_bytes(p->dtype)) != 0) {
        fail_msg("%s: %s: %g against %g", pair_name(p), law, first_part(p->dtype, x), first_part(p->dtype, y));
    }
}

/* Sums and products of small integers, written out per semiring. */
static void small_integers(void **state)
{
    (void)state;
    for (size_t i = 0; i < PAIR_COUNT; i++) {
        const pair *p = &pairs[i];
        int low, high;
        range_of(p, &low, &high);
        for (int x = low; x <= high; x++) {
            for (int y = low; y <= high; y++) {
                int sum = 0, product = 0, least = x < y ? x : y, most = x > y ? x : y;
                ts_element a = {{0}}, b = {{0}}, c = {{0}};
                switch (p->semiring) {
                case TENSUM_SUM_PRODUCT: sum = x + y, product = x * y; break;
                case TENSUM_MAX_PLUS: sum = most, product = x + y; break;
                case TENSUM_MIN_PLUS: sum = least, product = x + y; break;
                case TENSUM_MAX_TIMES: sum = most, product = x * y; break;
                case TENSUM_MIN_TIMES: sum = least, product = x * y; break;
                case TENSUM_MAX_MIN: sum = most, product = least; break;
                case TENSUM_MIN_MAX: sum = least, product = most; break;
                case TENSUM_OR_AND: sum = x | y, product = x & y; break;
                case TENSUM_XOR_AND: sum = x ^ y, product = x & y; break;
                case TENSUM_MAX_PLUS_COUNT: sum = most, product = x + y; break;
                case TENSUM_SUM_PRODUCT_MOD: sum = (x + y) % 7, product = x * y % 7; break;
                default: product = x + y; break; /* log_sum_exp: its sum is tested apart */
                }
                make(p->dtype, x, 1, &a);
                make(p->dtype, y, 1, &b);
                p->multiply(&a, &b, MODULUS, &c);
                if (p->dtype == TENSUM_C64 || p->dtype == TENSUM_C128) {
                    product = x * y - 1; /* (x + i)(y + i) */
                }
                if (first_part(p->dtype, &c) != product) {
                    fail_msg("%s: %d (*) %d is %g, not %d", pair_name(p), x, y, first_part(p->dtype, &c), product);
                }
                p->add(&a, &b, MODULUS, &c);
                if (p->semiring != TENSUM_LOG_SUM_EXP && first_part(p->dtype, &c) != sum) {
                    fail_msg("%s: %d (+) %d is %g, not %d", pair_name(p), x, y, first_part(p->dtype, &c), sum);
                }
                if (p->selective) {
                    bool replaces = sum == x && x != y;
                    assert_int_equal(p->better(&a, &b) != 0, replaces);
                }
            }
        }
    }
}

/* As stored: -0 has become 0. */
static void expect_law(const pair *p, const char *law, const ts_element *x, const ts_element *y)
{
    ts_element a = {{0}}, b = {{0}};
    p->finish(x, &a);
    p->finish(y, &b);
    expect_equal(p, law, &a, &b);
}

static void laws(void **state)
{
    (void)state;
    for (size_t i = 0; i < PAIR_COUNT; i++) {
        const pair *p = &pairs[i];
        int low, high;
        ts_element zero = {{0}}, one = {{0}}, a = {{0}}, b = {{0}}, c = {{0}}, ab = {{0}}, bc = {{0}}, left = {{0}}, right = {{0}}, third = {{0}};
        bool rounds = p->semiring == TENSUM_LOG_SUM_EXP;
        range_of(p, &low, &high);
        p->identity(0, &zero);
        p->identity(1, &one);
        for (int x = low; x <= high; x++) {
            make(p->dtype, x, 2, &a);
            p->multiply(&one, &a, MODULUS, &left);
            expect_law(p, "1 (*) x = x", &left, &a);
            p->multiply(&a, &one, MODULUS, &left);
            expect_law(p, "x (*) 1 = x", &left, &a);
            p->add(&zero, &a, MODULUS, &left);
            expect_law(p, "0 (+) x = x", &left, &a);
            p->add(&a, &zero, MODULUS, &left);
            expect_law(p, "x (+) 0 = x", &left, &a);
            p->multiply(&zero, &a, MODULUS, &left);
            p->finish(&left, &right);
            p->finish(&zero, &third);
            if (p->semiring != TENSUM_MIN_TIMES || x != 0) { /* infinity times 0 is NaN */
                expect_law(p, "0 (*) x = 0", &right, &third);
            }
            for (int y = low; y <= high; y++) {
                make(p->dtype, y, 3, &b);
                p->add(&a, &b, MODULUS, &left);
                p->add(&b, &a, MODULUS, &right);
                expect_law(p, "x (+) y = y (+) x", &left, &right);
                p->multiply(&a, &b, MODULUS, &ab);
                p->multiply(&b, &a, MODULUS, &right);
                expect_law(p, "x (*) y = y (*) x", &ab, &right);
                for (int z = low; z <= high && !rounds; z++) {
                    make(p->dtype, z, 1, &c);
                    p->add(&left, &c, MODULUS, &right);
                    p->add(&b, &c, MODULUS, &bc);
                    p->add(&a, &bc, MODULUS, &third);
                    expect_law(p, "(x (+) y) (+) z = x (+) (y (+) z)", &right, &third);
                    p->multiply(&a, &bc, MODULUS, &right); /* a (b + c) */
                    p->multiply(&a, &c, MODULUS, &bc);
                    p->add(&ab, &bc, MODULUS, &third);
                    expect_law(p, "x (*) (y (+) z) = x (*) y (+) x (*) z", &right, &third);
                    p->multiply(&ab, &c, MODULUS, &right);
                    p->multiply(&b, &c, MODULUS, &bc);
                    p->multiply(&a, &bc, MODULUS, &third);
                    expect_law(p, "(x (*) y) (*) z = x (*) (y (*) z)", &right, &third);
                }
            }
        }
    }
}

static void identities(void **state)
{
    (void)state;
    for (size_t i = 0; i < PAIR_COUNT; i++) {
        for (int one = 0; one < 2; one++) {
            ts_element table = {{0}}, direct = {{0}};
            pairs[i].identity(one, &direct);
            assert_int_equal(tensum_semiring_identity(pairs[i].semiring, pairs[i].dtype, one, &table), TENSUM_OK);
            expect_equal(&pairs[i], "tensum_semiring_identity", &table, &direct);
            ts_algebra algebra = {pairs[i].semiring, pairs[i].dtype, MODULUS};
            ts_element internal = ts_identity(algebra, one != 0);
            expect_equal(&pairs[i], "ts_identity", &internal, &direct);
            assert_int_equal(ts_is_zero(algebra, &direct), one == 0);
        }
    }
    /* the true zeros */
    float f32 = 1.0f;
    assert_int_equal(tensum_semiring_identity(TENSUM_MAX_PLUS, TENSUM_F32, 0, &f32), TENSUM_OK);
    assert_true(f32 == -INFINITY);
    assert_int_equal(tensum_semiring_identity(TENSUM_MIN_PLUS, TENSUM_F32, 0, &f32), TENSUM_OK);
    assert_true(f32 == INFINITY);
    assert_int_equal(tensum_semiring_identity(TENSUM_MAX_TIMES, TENSUM_F32, 0, &f32), TENSUM_OK);
    assert_true(f32 == 0.0f);
    assert_int_equal(tensum_semiring_identity(TENSUM_LOG_SUM_EXP, TENSUM_F32, 0, &f32), TENSUM_OK);
    assert_true(f32 == -INFINITY);
    int32_t i32 = 0;
    assert_int_equal(tensum_semiring_identity(TENSUM_MAX_PLUS, TENSUM_I32, 0, &i32), TENSUM_OK);
    assert_int_equal(i32, -1073741823);
    assert_int_equal(tensum_semiring_identity(TENSUM_MIN_PLUS, TENSUM_I32, 0, &i32), TENSUM_OK);
    assert_int_equal(i32, 1073741823);
    assert_int_equal(tensum_semiring_identity(TENSUM_MAX_PLUS, TENSUM_BOOL, 0, &i32), TENSUM_STATUS_UNSUPPORTED);
    assert_int_equal(i32, 1073741823);
}

/* ---- particular values ---- */

static void nan_is_kept_from_the_first_term_on(void **state)
{
    (void)state;
    assert_true(ts_better_max_f32(NAN, 1.0f));
    assert_true(ts_better_max_f32(NAN, INFINITY));
    assert_false(ts_better_max_f32(NAN, NAN));
    assert_false(ts_better_max_f32(INFINITY, NAN));
    assert_true(ts_better_min_f64((double)NAN, -HUGE_VAL));
    assert_false(ts_better_min_f64(-HUGE_VAL, (double)NAN));
    assert_false(ts_better_max_f32(1.0f, 1.0f));
    assert_false(ts_better_max_f32(0.0f, -0.0f));
    assert_true(isnan(ts_add_max_f32(1.0f, NAN, 0)) && isnan(ts_add_max_f32(NAN, 1.0f, 0)));
    assert_true(isnan(ts_min_f32(1.0f, NAN, 0)) && isnan(ts_min_f32(NAN, 1.0f, 0)));
    assert_true(isnan(ts_max_f64(1.0, (double)NAN, 0)) && isnan(ts_max_f64((double)NAN, 1.0, 0)));
    assert_true(isnan(ts_plus_f32(INFINITY, -INFINITY, 0)));
    assert_true(isnan(ts_ntimes_f32(0.0f, INFINITY, 0)));
}

static void negative_zero_is_stored_as_zero(void **state)
{
    (void)state;
    assert_false(signbit(ts_finish_max_plus_f32(-0.0f)));
    assert_false(signbit(ts_finish_min_plus_f64(-0.0)));
    assert_false(signbit(ts_finish_max_ntimes_f32(-0.0f)));
    assert_false(signbit(ts_finish_sum_times_f32(-0.0f)));
    assert_false(signbit(ts_finish_max_min_f16(-0.0f)));
    assert_false(signbit(ts_finish_sum_times_c64((ts_c64){-0.0f, -0.0f}).im));
}

#define CHECK_RANGE(T, d, R, Z)                                              \
    do {                                                                     \
        const T r = (T)(R), z = (T)(Z);                                      \
        assert_true(ts_finish_max_plus_##d((T)(-2 * r - 1)) == -z);          \
        assert_true(ts_finish_max_plus_##d((T)(-2 * r)) == -r);              \
        assert_true(ts_finish_max_plus_##d((T)(-r - 1)) == -r);              \
        assert_true(ts_finish_max_plus_##d((T)(-r)) == -r);                  \
        assert_true(ts_finish_max_plus_##d(0) == 0);                         \
        assert_true(ts_finish_max_plus_##d(r) == r);                         \
        assert_true(ts_finish_max_plus_##d((T)(r + 1)) == r);                \
        assert_true(ts_finish_max_plus_##d((T)(2 * r)) == r);                \
        assert_true(ts_finish_min_plus_##d((T)(2 * r + 1)) == z);            \
        assert_true(ts_finish_min_plus_##d((T)(2 * r)) == r);                \
        assert_true(ts_finish_min_plus_##d((T)(-2 * r)) == (T)-r);           \
        /* 0 (*) x is 0 for every x that is allowed, and 0 (*) 0 too */      \
        assert_true(ts_finish_max_plus_##d(ts_plus_##d((T)-z, r, 0)) == -z); \
        assert_true(ts_finish_max_plus_##d(ts_plus_##d((T)-z, (T)-r, 0)) == -z); \
        assert_true(ts_finish_max_plus_##d(ts_plus_##d((T)-z, (T)-z, 0)) == -z); \
        assert_true(ts_finish_min_plus_##d(ts_plus_##d(z, (T)-r, 0)) == z);  \
        assert_true(ts_finish_min_plus_##d(ts_plus_##d(z, z, 0)) == z);      \
    } while (0)

static void integer_ranges(void **state)
{
    (void)state;
    CHECK_RANGE(int16_t, i16, 5460, 16383);
    CHECK_RANGE(int32_t, i32, 357913940, 1073741823);
    CHECK_RANGE(int64_t, i64, INT64_C(1537228672809129300), INT64_C(4611686018427387903));
}

static int64_t saturate(wide x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : (int64_t)x; }

static void integer_products_saturate(void **state)
{
    (void)state;
    static const int64_t values[] = {0, 1, -1, 2, 3, 181, 182, 46340, 46341, 65536, 3037000499, 3037000500, INT64_C(4294967296),
                                     INT64_C(4611686018427387904), INT16_MAX, INT16_MIN, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, INT64_MAX / 3};
    enum { COUNT = sizeof values / sizeof values[0] };
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < COUNT; j++) {
            int64_t x = values[i], y = values[j];
            assert_true(ts_ntimes_i64(x, y, 0) == saturate((wide)x * y, INT64_MIN, INT64_MAX));
            assert_true(ts_ntimes_i32((int32_t)x, (int32_t)y, 0) == saturate((wide)(int32_t)x * (int32_t)y, INT32_MIN, INT32_MAX));
            assert_true(ts_ntimes_i16((int16_t)x, (int16_t)y, 0) == saturate((wide)(int16_t)x * (int16_t)y, INT16_MIN, INT16_MAX));
            /* sum_product wraps */
            assert_true((uint64_t)ts_times_i64(x, y, 0) == (uint64_t)((wide)x * y));
            assert_true((uint32_t)ts_times_i32((int32_t)x, (int32_t)y, 0) == (uint32_t)((wide)x * y));
            assert_true((uint16_t)ts_times_i16((int16_t)x, (int16_t)y, 0) == (uint16_t)((wide)x * y));
            assert_true((uint64_t)ts_add_sum_i64(x, y, 0) == (uint64_t)((wide)x + y));
            assert_true((uint16_t)ts_add_sum_i16((int16_t)x, (int16_t)y, 0) == (uint16_t)((wide)x + y));
        }
    }
}

static void log_sum_exp(void **state)
{
    (void)state;
    for (int i = -40; i <= 40; i++) {
        for (int j = -40; j <= 40; j++) {
            double x = 0.5 * i, y = 0.75 * j;
            long double exact = logl(expl((long double)x) + expl((long double)y));
            double got = ts_add_lse_f64(x, y, 0);
            assert_true(fabsl((long double)got - exact) <= 4 * DBL_EPSILON * (1 + fabsl(exact)));
            float narrow = ts_add_lse_f32((float)x, (float)y, 0);
            assert_true(fabsl((long double)narrow - exact) <= 4 * FLT_EPSILON * (1 + fabsl(exact)));
        }
    }
    assert_true(ts_add_lse_f64(-HUGE_VAL, -HUGE_VAL, 0) == -HUGE_VAL);
    assert_true(ts_add_lse_f64(-HUGE_VAL, 3.0, 0) == 3.0);
    assert_true(ts_add_lse_f64(3.0, -HUGE_VAL, 0) == 3.0);
    assert_true(ts_add_lse_f64(HUGE_VAL, HUGE_VAL, 0) == HUGE_VAL);
    assert_true(ts_add_lse_f64(HUGE_VAL, -HUGE_VAL, 0) == HUGE_VAL);
    assert_true(isnan(ts_add_lse_f64((double)NAN, 1.0, 0)) && isnan(ts_add_lse_f64(1.0, (double)NAN, 0)));
    assert_true(isnan(ts_add_lse_f64(HUGE_VAL, (double)NAN, 0)) && isnan(ts_add_lse_f64((double)NAN, -HUGE_VAL, 0)));
    assert_true(ts_add_lse_f64(1000.0, 1000.0, 0) == 1000.0 + log(2.0));
}

static void counting(void **state)
{
    (void)state;
    ts_vc64 a = {2.0f, 3.0f}, b = {2.0f, 5.0f}, c = {1.0f, 100.0f}, zero = ts_zero_maxcount_pluscount_vc64(), sum;
    sum = ts_add_maxcount_vc64(a, b, 0);
    assert_true(sum.value == 2.0f && sum.count == 8.0f);
    sum = ts_add_maxcount_vc64(c, a, 0);
    assert_true(sum.value == 2.0f && sum.count == 3.0f);
    sum = ts_add_maxcount_vc64(zero, c, 0);
    assert_true(sum.value == 1.0f && sum.count == 100.0f);
    sum = ts_pluscount_vc64(a, b, 0);
    assert_true(sum.value == 4.0f && sum.count == 15.0f);
    sum = ts_finish_maxcount_pluscount_vc64((ts_vc64){-INFINITY, 7.0f});
    assert_true(sum.value == -INFINITY && sum.count == 0.0f);
    sum = ts_finish_maxcount_pluscount_vc64(ts_add_maxcount_vc64((ts_vc64){NAN, 1.0f}, a, 0));
    assert_true(isnan(sum.value) && isnan(sum.count));
    sum = ts_finish_maxcount_pluscount_vc64(ts_add_maxcount_vc64(a, (ts_vc64){NAN, 1.0f}, 0));
    assert_true(isnan(sum.value) && isnan(sum.count));
}

static void complex_numbers(void **state)
{
    (void)state;
    ts_c128 x = {1.0, 2.0}, y = {3.0, -5.0}, z = ts_times_c128(x, y, 0);
    assert_true(z.re == 13.0 && z.im == 1.0); /* (1 + 2i)(3 - 5i) */
    z = ts_add_sum_c128(x, y, 0);
    assert_true(z.re == 4.0 && z.im == -3.0);
    z = ts_conjugate_c128(x);
    assert_true(z.re == 1.0 && z.im == -2.0);
}

static void residues(void **state)
{
    (void)state;
    const int64_t m = 2147483647;
    static const int64_t values[] = {0, 1, 2, 46341, 1073741823, 2147483645, 2147483646};
    for (size_t i = 0; i < 7; i++) {
        for (size_t j = 0; j < 7; j++) {
            assert_true(ts_modtimes_i64(values[i], values[j], m) == (int64_t)((wide)values[i] * values[j] % m));
            assert_true(ts_add_modsum_i64(values[i], values[j], m) == (values[i] + values[j]) % m);
        }
    }
}

static void domains(void **state)
{
    (void)state;
    const ts_algebra product = {TENSUM_MAX_TIMES, TENSUM_F32, 0}, tropical = {TENSUM_MAX_PLUS, TENSUM_I32, 0}, mirrored = {TENSUM_MIN_PLUS, TENSUM_I32, 0},
                     plain = {TENSUM_SUM_PRODUCT, TENSUM_F32, 0}, residue = {TENSUM_SUM_PRODUCT_MOD, TENSUM_I64, 7}, whole = {TENSUM_MAX_TIMES, TENSUM_I16, 0};
    float f = 0.0f;
    assert_true(ts_in_domain(product, &f));
    f = -0.0f;
    assert_true(ts_in_domain(product, &f));
    f = -1.0e-30f;
    assert_false(ts_in_domain(product, &f));
    assert_true(ts_in_domain(plain, &f));
    f = INFINITY;
    assert_true(ts_in_domain(product, &f));
    static const int32_t inside[] = {0, 357913940, -357913940}, outside[] = {357913941, -357913941, INT32_MIN, INT32_MAX, 1073741822};
    for (size_t i = 0; i < 3; i++) {
        assert_true(ts_in_domain(tropical, &inside[i]) && ts_in_domain(mirrored, &inside[i]));
    }
    for (size_t i = 0; i < 5; i++) {
        assert_false(ts_in_domain(tropical, &outside[i]) || ts_in_domain(mirrored, &outside[i]));
    }
    int32_t zero = -1073741823, other = 1073741823;
    assert_true(ts_in_domain(tropical, &zero) && !ts_in_domain(mirrored, &zero));
    assert_true(ts_in_domain(mirrored, &other) && !ts_in_domain(tropical, &other));
    int64_t six = 6, seven = 7, negative = -1;
    assert_true(ts_in_domain(residue, &six) && !ts_in_domain(residue, &seven) && !ts_in_domain(residue, &negative));
    int16_t one = 1, minus = -1;
    assert_true(ts_in_domain(whole, &one) && !ts_in_domain(whole, &minus));
}

static void names(void **state)
{
    (void)state;
    tensum_semiring semiring = TENSUM_MAX_PLUS;
    tensum_dtype dtype = TENSUM_F64;
    for (int s = 0; s < TENSUM_SEMIRING_COUNT; s++) {
        assert_int_equal(tensum_semiring_find(tensum_semiring_name((tensum_semiring)s), &semiring), TENSUM_OK);
        assert_int_equal(semiring, s);
        assert_non_null(tensum_semiring_summary((tensum_semiring)s));
    }
    for (int d = 0; d < TENSUM_DTYPE_COUNT; d++) {
        assert_int_equal(tensum_dtype_find(tensum_dtype_name((tensum_dtype)d), &dtype), TENSUM_OK);
        assert_int_equal(dtype, d);
    }
    assert_int_equal(tensum_semiring_find("plus_times", &semiring), TENSUM_OK);
    assert_int_equal(semiring, TENSUM_SUM_PRODUCT);
    assert_int_equal(tensum_semiring_find("max_pluss", &semiring), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(semiring, TENSUM_SUM_PRODUCT);
    assert_non_null(strstr(tensum_last_error(), "max_plus"));
    assert_int_equal(tensum_dtype_find("f23", &dtype), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tensum_last_error(), "f23"));
    assert_null(tensum_semiring_name(TENSUM_SEMIRING_COUNT));
    assert_null(tensum_dtype_name((tensum_dtype)-1));
    assert_int_equal(tensum_dtype_bytes(TENSUM_DTYPE_COUNT), 0);
    assert_int_equal(tensum_dtype_gradient(TENSUM_F16), TENSUM_F32);
    assert_int_equal(tensum_dtype_gradient(TENSUM_I64), TENSUM_F64);
    assert_int_equal(tensum_dtype_gradient(TENSUM_C64), TENSUM_C64);
    assert_int_equal(tensum_supports(TENSUM_OR_AND, TENSUM_F32), 0);
    assert_int_equal(tensum_supports(TENSUM_MAX_PLUS, TENSUM_F32), TENSUM_VALUE | TENSUM_WINNERS | TENSUM_GRADIENT | TENSUM_DECODE);
    assert_int_equal(tensum_supports((tensum_semiring)99, TENSUM_F32), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_load_every_pattern),
        cmocka_unit_test(halves_round_to_nearest_even),
#if defined(__FLT16_MAX__)
        cmocka_unit_test(f16_agrees_with_the_compiler),
#endif
        cmocka_unit_test(rounding_is_store_then_load),
        cmocka_unit_test(small_integers),
        cmocka_unit_test(laws),
        cmocka_unit_test(identities),
        cmocka_unit_test(nan_is_kept_from_the_first_term_on),
        cmocka_unit_test(negative_zero_is_stored_as_zero),
        cmocka_unit_test(integer_ranges),
        cmocka_unit_test(integer_products_saturate),
        cmocka_unit_test(log_sum_exp),
        cmocka_unit_test(counting),
        cmocka_unit_test(complex_numbers),
        cmocka_unit_test(residues),
        cmocka_unit_test(domains),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
