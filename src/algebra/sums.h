/* Sums of terms, one element at a time, for every (semiring, dtype): what the oracle, traces and checks are made of. */
#ifndef TS_ALGEBRA_SUMS_H
#define TS_ALGEBRA_SUMS_H

#include "algebra/element.h"
#include "algebra/algebra.h"

/* A sum under way. Sums of floats are held in double, so that the oracle's error is that of one rounding. */
typedef struct ts_sum {
    union {
        float f16, bf16, f32;
        double f64;
        ts_c128 c128;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint8_t b;
        ts_vc64 vc64;
        ts_vc128 vc128;
        struct {
            double high, sum; /* sum of exp(term - high) */
        } lse;
    } as;
    int64_t terms;  /* fed so far */
    int64_t winner; /* position of the selected term */
    int64_t modulus;
    bool conjugate_a, conjugate_b;
} ts_sum;

typedef struct ts_pair {
    /* Add the term a (*) b, or a alone where b is NULL. A sum starts zeroed but for modulus and conjugates. */
    void (*feed)(ts_sum *sum, const void *a, const void *b);
    /* Store the sum (0 of the semiring if there were no terms), added to what is there where `accumulate`. */
    void (*end)(ts_sum *sum, void *c, bool accumulate);
    /* Element to double, for the coefficients of gradients. */
    double (*real)(const void *element);
} ts_pair;

/* NULL if there is no such pair. */
const ts_pair *ts_pair_of(tensum_semiring semiring, tensum_dtype dtype);

#endif
