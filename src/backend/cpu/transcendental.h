/* exp and log without branches or tables, so that compilers vectorise loops over them. Errors are below 2 units in the
 * last place on the ranges used: exp for x <= 0 (values below the smallest normal number give 0), log for normal
 * positive numbers. */
#ifndef TS_CPU_TRANSCENDENTAL_H
#define TS_CPU_TRANSCENDENTAL_H

#include <stdint.h>
#include <string.h>

#define TRANSCENDENTAL_INLINE static inline __attribute__((always_inline, unused))

TRANSCENDENTAL_INLINE float ts_exp_f32(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    const float clamped = x > -87.0f ? x : -87.0f;
    const float shifted = clamped * 1.44269504f + magic;
    const float n = shifted - magic;
    const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts */
    int32_t bits, scale;
    float power, y = 1.98412698e-4f; /* 1 / 7! */
    y = y * r + 1.38888889e-3f;
    y = y * r + 8.33333333e-3f;
    y = y * r + 4.16666667e-2f;
    y = y * r + 1.66666667e-1f;
    y = y * r + 0.5f;
    y = y * r * r + r + 1.0f;
    memcpy(&bits, &shifted, sizeof bits);
    scale = (int32_t)((uint32_t)(bits - 0x4b400000 + 127) << 23);
    memcpy(&power, &scale, sizeof power);
    return x < -87.0f ? 0.0f : y * power;
}

TRANSCENDENTAL_INLINE double ts_exp_f64(double x)
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52 */
    const double clamped = x > -708.0 ? x : -708.0;
    const double shifted = clamped * 1.44269504088896340736 + magic;
    const double n = shifted - magic;
    const double r = (clamped - n * 6.93147180369123816490e-1) - n * 1.90821492927058770002e-10;
    int64_t bits, scale;
    double power, y = 1.0 / 6227020800.0; /* 1 / 13! */
    y = y * r + 1.0 / 479001600.0;
    y = y * r + 1.0 / 39916800.0;
    y = y * r + 1.0 / 3628800.0;
    y = y * r + 1.0 / 362880.0;
    y = y * r + 1.0 / 40320.0;
    y = y * r + 1.0 / 5040.0;
    y = y * r + 1.0 / 720.0;
    y = y * r + 1.0 / 120.0;
    y = y * r + 1.0 / 24.0;
    y = y * r + 1.0 / 6.0;
    y = y * r + 0.5;
    y = y * r * r + r + 1.0;
    memcpy(&bits, &shifted, sizeof bits);
    scale = (int64_t)((uint64_t)(bits - INT64_C(0x4338000000000000) + 1023) << 52);
    memcpy(&power, &scale, sizeof power);
    return x < -708.0 ? 0.0 : y * power;
}

/* 2 atanh(s) with s = (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2)). */
TRANSCENDENTAL_INLINE float ts_log_f32(float x)
{
    int32_t bits, exponent, mantissa;
    float m, s, q, y;
    memcpy(&bits, &x, sizeof bits);
    exponent = (bits - 0x3f3504f3) >> 23;
    mantissa = bits - (int32_t)((uint32_t)exponent << 23);
    memcpy(&m, &mantissa, sizeof m);
    s = (m - 1.0f) / (m + 1.0f);
    q = s * s;
    y = 1.0f / 9.0f;
    y = y * q + 1.0f / 7.0f;
    y = y * q + 1.0f / 5.0f;
    y = y * q + 1.0f / 3.0f;
    y = 2.0f * (s + s * q * y);
    return (float)exponent * 0.693147180559945f + y;
}

TRANSCENDENTAL_INLINE double ts_log_f64(double x)
{
    int64_t bits, exponent, mantissa;
    double m, s, q, y;
    memcpy(&bits, &x, sizeof bits);
    exponent = (bits - INT64_C(0x3fe6a09e667f3bcd)) >> 52;
    mantissa = bits - (int64_t)((uint64_t)exponent << 52);
    memcpy(&m, &mantissa, sizeof m);
    s = (m - 1.0) / (m + 1.0);
    q = s * s;
    y = 1.0 / 21.0;
    y = y * q + 1.0 / 19.0;
    y = y * q + 1.0 / 17.0;
    y = y * q + 1.0 / 15.0;
    y = y * q + 1.0 / 13.0;
    y = y * q + 1.0 / 11.0;
    y = y * q + 1.0 / 9.0;
    y = y * q + 1.0 / 7.0;
    y = y * q + 1.0 / 5.0;
    y = y * q + 1.0 / 3.0;
    y = 2.0 * (s + s * q * y);
    return (double)exponent * 0.69314718055994530942 + y;
}

#endif
