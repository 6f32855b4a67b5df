#include <inttypes.h>
#include <stdio.h>

#include "algebra/algebra.h"
#include "algebra/element.h"

typedef struct dtype_row {
    const char *name, *summary;
    size_t bytes;
    tensum_dtype gradient;
} dtype_row;
static const dtype_row dtypes[] = {
#define TENSUM_DTYPE(ID, name, bytes, gradient, summary) {#name, summary, bytes, TENSUM_##gradient},
#include <tensum/dtypes.def>
#undef TENSUM_DTYPE
};

typedef struct semiring_row {
    const char *name, *alias, *summary;
    int selective;
} semiring_row;
static const semiring_row semirings[] = {
#define TENSUM_SEMIRING(ID, name, alias, add, mul, dtypes, selective, summary) {#name, alias, summary, selective},
#include <tensum/semirings.def>
#undef TENSUM_SEMIRING
};

/* Lower-case dtype names as enum constants, for the pair list. */
enum {
#define TENSUM_DTYPE(ID, name, bytes, gradient, summary) DTYPE_##name,
#include <tensum/dtypes.def>
#undef TENSUM_DTYPE
};
enum {
#define TENSUM_SEMIRING(ID, name, alias, add, mul, dtypes, selective, summary) SEMIRING_##name,
#include <tensum/semirings.def>
#undef TENSUM_SEMIRING
};

typedef struct pair_row {
    bool exists;
    ts_element zero, one;
} pair_row;

static bool dtype_valid(tensum_dtype dtype) { return (unsigned)dtype < (unsigned)TENSUM_DTYPE_COUNT; }
static bool semiring_valid(tensum_semiring s) { return (unsigned)s < (unsigned)TENSUM_SEMIRING_COUNT; }

size_t tensum_dtype_bytes(tensum_dtype dtype) { return dtype_valid(dtype) ? dtypes[dtype].bytes : 0; }
const char *tensum_dtype_name(tensum_dtype dtype) { return dtype_valid(dtype) ? dtypes[dtype].name : NULL; }
const char *tensum_semiring_name(tensum_semiring s) { return semiring_valid(s) ? semirings[s].name : NULL; }
const char *tensum_semiring_summary(tensum_semiring s) { return semiring_valid(s) ? semirings[s].summary : NULL; }
int tensum_semiring_selective(tensum_semiring s) { return semiring_valid(s) ? semirings[s].selective : 0; }
tensum_dtype tensum_dtype_gradient(tensum_dtype dtype) { return dtype_valid(dtype) ? dtypes[dtype].gradient : dtype; }

tensum_status tensum_dtype_find(const char *name, tensum_dtype *dtype)
{
    const char *names[TENSUM_DTYPE_COUNT];
    if (name == NULL || dtype == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_dtype_find: name and dtype must not be NULL");
    }
    for (int i = 0; i < TENSUM_DTYPE_COUNT; i++) {
        names[i] = dtypes[i].name;
        if (strcmp(name, names[i]) == 0) {
            *dtype = (tensum_dtype)i;
            return TENSUM_OK;
        }
    }
    const char *near = ts_nearest_name(name, names, TENSUM_DTYPE_COUNT);
    return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "unknown dtype '%s'%s%s%s", name, near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
}

tensum_status tensum_semiring_find(const char *name, tensum_semiring *semiring)
{
    const char *names[2 * TENSUM_SEMIRING_COUNT];
    if (name == NULL || semiring == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_semiring_find: name and semiring must not be NULL");
    }
    for (int i = 0; i < TENSUM_SEMIRING_COUNT; i++) {
        names[2 * i] = semirings[i].name;
        names[2 * i + 1] = semirings[i].alias;
        if (strcmp(name, names[2 * i]) == 0 || strcmp(name, names[2 * i + 1]) == 0) {
            *semiring = (tensum_semiring)i;
            return TENSUM_OK;
        }
    }
    const char *near = ts_nearest_name(name, names, 2 * TENSUM_SEMIRING_COUNT);
    return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "unknown semiring '%s'%s%s%s", name, near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
}

static void put(ts_element *element, const void *value, size_t bytes)
{
    memset(element, 0, sizeof *element);
    memcpy(element, value, bytes);
}

/* The pair's row, or exists = false. */
static pair_row pair_of(tensum_semiring semiring, tensum_dtype dtype)
{
    pair_row row;
    memset(&row, 0, sizeof row);
    switch ((int)semiring * TENSUM_DTYPE_COUNT + (int)dtype) {
#define TS_PAIR(s, a, m, sel, d)                                                   \
    case SEMIRING_##s * TENSUM_DTYPE_COUNT + DTYPE_##d: {                          \
        ts_s_##d zero = ts_store_##d(ts_zero_##a##_##m##_##d());                   \
        ts_s_##d one = ts_store_##d(ts_one_##a##_##m##_##d());                     \
        row.exists = true;                                                         \
        put(&row.zero, &zero, sizeof zero);                                        \
        put(&row.one, &one, sizeof one);                                           \
        break;                                                                     \
    }
#include "algebra/pairs.def"
    default:
        break;
    }
    return row;
}

unsigned ts_pair_modes(tensum_semiring semiring, tensum_dtype dtype)
{
    if (!semiring_valid(semiring) || !dtype_valid(dtype) || !pair_of(semiring, dtype).exists) {
        return 0;
    }
    unsigned modes = TENSUM_VALUE;
    if (semirings[semiring].selective) {
        modes |= TENSUM_WINNERS | TENSUM_DECODE;
        if (dtype != TENSUM_BOOL) {
            modes |= TENSUM_GRADIENT;
        }
    }
    bool inexact = dtype == TENSUM_F16 || dtype == TENSUM_BF16 || dtype == TENSUM_F32 || dtype == TENSUM_F64 ||
                   dtype == TENSUM_C64 || dtype == TENSUM_C128;
    if ((semiring == TENSUM_SUM_PRODUCT && inexact) || semiring == TENSUM_LOG_SUM_EXP) {
        modes |= TENSUM_GRADIENT;
    }
    return modes;
}

tensum_status ts_pair_check(tensum_semiring semiring, tensum_dtype dtype)
{
    char text[256] = "";
    size_t length = 0;
    if (!semiring_valid(semiring)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "semiring %d does not exist", (int)semiring);
    }
    if (!dtype_valid(dtype)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "dtype %d does not exist", (int)dtype);
    }
    if (pair_of(semiring, dtype).exists) {
        return TENSUM_OK;
    }
    for (int d = 0; d < TENSUM_DTYPE_COUNT; d++) {
        if (pair_of(semiring, (tensum_dtype)d).exists) {
            int n = snprintf(text + length, sizeof text - length, " %s", dtypes[d].name);
            length += n > 0 ? (size_t)n : 0;
        }
    }
    return ts_fail(TENSUM_STATUS_UNSUPPORTED, "semiring %s does not exist for dtype %s; it does for%s",
                   semirings[semiring].name, dtypes[dtype].name, text);
}

tensum_status tensum_semiring_identity(tensum_semiring semiring, tensum_dtype dtype, int one, void *element)
{
    tensum_status status = ts_pair_check(semiring, dtype);
    if (status == TENSUM_OK) {
        ts_algebra algebra = {semiring, dtype, 0};
        ts_element value = ts_identity(algebra, one != 0);
        memcpy(element, &value, dtypes[dtype].bytes);
    }
    return status;
}

ts_element ts_identity(ts_algebra algebra, bool one)
{
    pair_row row = pair_of(algebra.semiring, algebra.dtype);
    return one ? row.one : row.zero;
}

bool ts_is_zero(ts_algebra algebra, const void *element)
{
    double value, zero;
    uint16_t half;
    ts_element z = ts_identity(algebra, false);
    switch (algebra.dtype) {
    case TENSUM_C64:
    case TENSUM_C128: {
        ts_c128 x;
        if (algebra.dtype == TENSUM_C64) {
            ts_c64 y;
            memcpy(&y, element, sizeof y);
            x.re = (double)y.re;
            x.im = (double)y.im;
        } else {
            memcpy(&x, element, sizeof x);
        }
        return x.re == 0 && x.im == 0;
    }
    case TENSUM_I16:
    case TENSUM_I32:
    case TENSUM_I64:
    case TENSUM_BOOL:
        return memcmp(element, &z, dtypes[algebra.dtype].bytes) == 0;
    case TENSUM_F16:
        memcpy(&half, element, sizeof half);
        value = (double)ts_load_f16(half);
        zero = (double)ts_load_f16(z.u16);
        break;
    case TENSUM_BF16:
        memcpy(&half, element, sizeof half);
        value = (double)ts_load_bf16(half);
        zero = (double)ts_load_bf16(z.u16);
        break;
    case TENSUM_F32:
    case TENSUM_VC64: {
        float x;
        memcpy(&x, element, sizeof x);
        value = (double)x;
        zero = (double)z.f32[0];
        break;
    }
    default:
        memcpy(&value, element, sizeof value);
        zero = z.f64[0];
        break;
    }
    return value == zero;
}

bool ts_is_nan(tensum_dtype dtype, const void *element)
{
    uint16_t half;
    float single[2];
    double value[2];
    switch (dtype) {
    case TENSUM_F16:
        memcpy(&half, element, 2);
        return (half & 0x7fffu) > 0x7c00u;
    case TENSUM_BF16:
        memcpy(&half, element, 2);
        return (half & 0x7fffu) > 0x7f80u;
    case TENSUM_F32:
        memcpy(single, element, 4);
        return single[0] != single[0];
    case TENSUM_F64:
        memcpy(value, element, 8);
        return value[0] != value[0];
    case TENSUM_C64:
    case TENSUM_VC64:
        memcpy(single, element, 8);
        return single[0] != single[0] || single[1] != single[1];
    case TENSUM_C128:
    case TENSUM_VC128:
        memcpy(value, element, 16);
        return value[0] != value[0] || value[1] != value[1];
    default:
        return false;
    }
}

bool ts_in_domain(ts_algebra algebra, const void *element)
{
    ts_element e;
    memset(&e, 0, sizeof e);
    memcpy(&e, element, dtypes[algebra.dtype].bytes);
    bool plus = algebra.semiring == TENSUM_MAX_PLUS || algebra.semiring == TENSUM_MIN_PLUS;
    bool times = algebra.semiring == TENSUM_MAX_TIMES || algebra.semiring == TENSUM_MIN_TIMES;
    int64_t sign = algebra.semiring == TENSUM_MAX_PLUS ? -1 : 1;
    switch (algebra.dtype) {
    case TENSUM_I16:
        if (plus) {
            return e.i16 == sign * TS_TROPICAL_Z_i16 || (e.i16 <= TS_TROPICAL_R_i16 && e.i16 >= -TS_TROPICAL_R_i16);
        }
        return !times || e.i16 >= 0;
    case TENSUM_I32:
        if (plus) {
            return e.i32 == sign * TS_TROPICAL_Z_i32 || (e.i32 <= TS_TROPICAL_R_i32 && e.i32 >= -TS_TROPICAL_R_i32);
        }
        return !times || e.i32 >= 0;
    case TENSUM_I64:
        if (algebra.semiring == TENSUM_SUM_PRODUCT_MOD) {
            return e.i64 >= 0 && e.i64 < algebra.modulus;
        }
        if (plus) {
            return e.i64 == sign * TS_TROPICAL_Z_i64 || (e.i64 <= TS_TROPICAL_R_i64 && e.i64 >= -TS_TROPICAL_R_i64);
        }
        return !times || e.i64 >= 0;
    case TENSUM_F16:
        return !times || !(ts_load_f16(e.u16) < 0);
    case TENSUM_BF16:
        return !times || !(ts_load_bf16(e.u16) < 0);
    case TENSUM_F32:
        return !times || !(e.f32[0] < 0);
    case TENSUM_F64:
        return !times || !(e.f64[0] < 0);
    case TENSUM_BOOL:
        return e.boolean <= 1;
    default:
        return true;
    }
}

const char *ts_format_element(tensum_dtype dtype, const void *element, char *text, size_t bytes)
{
    ts_element e;
    memset(&e, 0, sizeof e);
    memcpy(&e, element, tensum_dtype_bytes(dtype));
    switch (dtype) {
    case TENSUM_F16:
        snprintf(text, bytes, "%g", (double)ts_load_f16(e.u16));
        break;
    case TENSUM_BF16:
        snprintf(text, bytes, "%g", (double)ts_load_bf16(e.u16));
        break;
    case TENSUM_F32:
        snprintf(text, bytes, "%.9g", (double)e.f32[0]);
        break;
    case TENSUM_F64:
        snprintf(text, bytes, "%.17g", e.f64[0]);
        break;
    case TENSUM_C64:
        snprintf(text, bytes, "%.9g%+.9gi", (double)e.f32[0], (double)e.f32[1]);
        break;
    case TENSUM_C128:
        snprintf(text, bytes, "%.17g%+.17gi", e.f64[0], e.f64[1]);
        break;
    case TENSUM_I16:
        snprintf(text, bytes, "%d", e.i16);
        break;
    case TENSUM_I32:
        snprintf(text, bytes, "%" PRId32, e.i32);
        break;
    case TENSUM_I64:
        snprintf(text, bytes, "%" PRId64, e.i64);
        break;
    case TENSUM_BOOL:
        snprintf(text, bytes, "%u", e.boolean);
        break;
    case TENSUM_VC64:
        snprintf(text, bytes, "(%.9g, count %.9g)", (double)e.f32[0], (double)e.f32[1]);
        break;
    case TENSUM_VC128:
        snprintf(text, bytes, "(%.17g, count %.17g)", e.f64[0], e.f64[1]);
        break;
    default:
        snprintf(text, bytes, "?");
        break;
    }
    return text;
}
