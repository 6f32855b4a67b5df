/* Which (semiring, dtype) pairs exist, and what is known of each. */
#ifndef TS_ALGEBRA_ALGEBRA_H
#define TS_ALGEBRA_ALGEBRA_H

#include "core/core.h"

/* The dtype lists that semirings.def refers to. Each expands TS_PAIR(semiring, add, mul, selective, dtype). */
#define TS_DTYPES_NUMBER(s, a, m, sel)                                                                      \
    TS_PAIR(s, a, m, sel, f16)                                                                              \
    TS_PAIR(s, a, m, sel, bf16)                                                                             \
    TS_PAIR(s, a, m, sel, f32)                                                                              \
    TS_PAIR(s, a, m, sel, f64)                                                                              \
    TS_PAIR(s, a, m, sel, c64)                                                                              \
    TS_PAIR(s, a, m, sel, c128)                                                                             \
    TS_PAIR(s, a, m, sel, i16) TS_PAIR(s, a, m, sel, i32) TS_PAIR(s, a, m, sel, i64)
#define TS_DTYPES_ORDERED(s, a, m, sel)                                                                     \
    TS_PAIR(s, a, m, sel, f16)                                                                              \
    TS_PAIR(s, a, m, sel, bf16)                                                                             \
    TS_PAIR(s, a, m, sel, f32)                                                                              \
    TS_PAIR(s, a, m, sel, f64)                                                                              \
    TS_PAIR(s, a, m, sel, i16) TS_PAIR(s, a, m, sel, i32) TS_PAIR(s, a, m, sel, i64)
#define TS_DTYPES_FLOATING(s, a, m, sel)                                                                    \
    TS_PAIR(s, a, m, sel, f16)                                                                              \
    TS_PAIR(s, a, m, sel, bf16) TS_PAIR(s, a, m, sel, f32) TS_PAIR(s, a, m, sel, f64)
#define TS_DTYPES_BOOLEAN(s, a, m, sel) TS_PAIR(s, a, m, sel, bool)
#define TS_DTYPES_COUNTED(s, a, m, sel) TS_PAIR(s, a, m, sel, vc64) TS_PAIR(s, a, m, sel, vc128)
#define TS_DTYPES_RESIDUE(s, a, m, sel) TS_PAIR(s, a, m, sel, i64)

/* What the backends need to know of a pair, as data. */
typedef struct ts_algebra {
    tensum_semiring semiring;
    tensum_dtype dtype;
    int64_t modulus; /* sum_product_mod only */
} ts_algebra;

/* The modes (TENSUM_VALUE | ...) of a pair by its meaning; 0 if there is no such pair. */
unsigned ts_pair_modes(tensum_semiring semiring, tensum_dtype dtype);
/* UNSUPPORTED with the pair and the dtypes that exist, unless the pair exists. */
tensum_status ts_pair_check(tensum_semiring semiring, tensum_dtype dtype);

/* One element of any dtype. */
typedef union ts_element {
    uint8_t bytes[16];
    uint16_t u16;
    float f32[2];
    double f64[2];
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t boolean;
} ts_element;
/* 0 (one = false) or 1 of the semiring. The pair exists. */
ts_element ts_identity(ts_algebra algebra, bool one);
/* Is the element the semiring's 0; is it NaN. */
bool ts_is_zero(ts_algebra algebra, const void *element);
bool ts_is_nan(tensum_dtype dtype, const void *element);
/* Is the value inside the semiring's domain (max_times: not negative; integer tropical: 0 or |x| <= R)? */
bool ts_in_domain(ts_algebra algebra, const void *element);
/* Print an element for a message. Returns text. */
const char *ts_format_element(tensum_dtype dtype, const void *element, char *text, size_t bytes);

#endif
