/* exp and log without branches or tables, so that compilers vectorise loops over them. Errors are at most 2.1 units in the
 * last place on the ranges used: exp for x <= 0 (values below the smallest normal number give 0), log for normal
 * positive numbers. Polynomials are those of the least largest error (Remez): (e^r - 1 - r) / r^2 for |r| <= log(2) / 2 within
 * 2^-28 of e^r (f32) and 2^-57 (f64), (atanh(s) / s - 1) / s^2 for s^2 <= 0.0295 within 2^-30 and 2^-59. */
#ifndef TS_CPU_TRANSCENDENTAL_H
#define TS_CPU_TRANSCENDENTAL_H

#include <stdint.h>
#include <string.h>

#define TRANSCENDENTAL_INLINE static inline __attribute__((always_inline, unused))

/* x y + z, in one instruction where there is one. */
#if defined(__FMA__) || defined(__aarch64__)
#define TS_MULTIPLY_ADD_F32(x, y, z) __builtin_fmaf(x, y, z)
#define TS_MULTIPLY_ADD_F64(x, y, z) __builtin_fma(x, y, z)
#else
#define TS_MULTIPLY_ADD_F32(x, y, z) ((x) * (y) + (z))
#define TS_MULTIPLY_ADD_F64(x, y, z) ((x) * (y) + (z))
#endif

TRANSCENDENTAL_INLINE float ts_exp_f32(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    const float clamped = x > -87.0f ? x : -87.0f;
    const float shifted = TS_MULTIPLY_ADD_F32(clamped, 1.44269504f, magic);
    const float n = shifted - magic;
    const float r = TS_MULTIPLY_ADD_F32(n, 2.12194440e-4f, TS_MULTIPLY_ADD_F32(n, -0.693359375f, clamped)); /* ln 2 in two parts */
    int32_t bits, scale;
    float power, y = 0.0013814599f;
    y = TS_MULTIPLY_ADD_F32(y, r, 0.0083687169f);
    y = TS_MULTIPLY_ADD_F32(y, r, 0.041668388f);
    y = TS_MULTIPLY_ADD_F32(y, r, 0.16666521f);
    y = TS_MULTIPLY_ADD_F32(y, r, 0.49999993f);
    y = TS_MULTIPLY_ADD_F32(y * r, r, r) + 1.0f;
    memcpy(&bits, &shifted, sizeof bits);
    scale = (int32_t)((uint32_t)(bits - 0x4b400000 + 127) << 23);
    memcpy(&power, &scale, sizeof power);
    return x < -87.0f ? 0.0f : y * power;
}

TRANSCENDENTAL_INLINE double ts_exp_f64(double x)
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52 */
    const double clamped = x > -708.0 ? x : -708.0;
    const double shifted = TS_MULTIPLY_ADD_F64(clamped, 1.44269504088896340736, magic);
    const double n = shifted - magic;
    const double r = TS_MULTIPLY_ADD_F64(n, -1.90821492927058770002e-10, TS_MULTIPLY_ADD_F64(n, -6.93147180369123816490e-1, clamped));
    int64_t bits, scale;
    double power, y = 2.5000061602835666699e-8;
    y = TS_MULTIPLY_ADD_F64(y, r, 2.7630248379211443975e-7);
    y = TS_MULTIPLY_ADD_F64(y, r, 2.7557586373840163694e-6);
    y = TS_MULTIPLY_ADD_F64(y, r, 2.4801493098906550659e-5);
    y = TS_MULTIPLY_ADD_F64(y, r, 0.00019841269506578687653);
    y = TS_MULTIPLY_ADD_F64(y, r, 0.0013888888943630112946);
    y = TS_MULTIPLY_ADD_F64(y, r, 0.0083333333334944616641);
    y = TS_MULTIPLY_ADD_F64(y, r, 0.04166666666653015859);
    y = TS_MULTIPLY_ADD_F64(y, r, 0.16666666666666412523);
    y = TS_MULTIPLY_ADD_F64(y, r, 0.50000000000000106271);
    y = TS_MULTIPLY_ADD_F64(y * r, r, r) + 1.0;
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
    y = 0.14935931f;
    y = TS_MULTIPLY_ADD_F32(y, q, 0.19988768f);
    y = TS_MULTIPLY_ADD_F32(y, q, 0.33333388f);
    y = 2.0f * TS_MULTIPLY_ADD_F32(s * q, y, s);
    return TS_MULTIPLY_ADD_F32((float)exponent, 0.693147180559945f, y);
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
    y = 0.073980527551120089104;
    y = TS_MULTIPLY_ADD_F64(y, q, 0.076570179134736244797);
    y = TS_MULTIPLY_ADD_F64(y, q, 0.090917824335339945299);
    y = TS_MULTIPLY_ADD_F64(y, q, 0.11111099281738045646);
    y = TS_MULTIPLY_ADD_F64(y, q, 0.14285714371237496736);
    y = TS_MULTIPLY_ADD_F64(y, q, 0.19999999999707160213);
    y = TS_MULTIPLY_ADD_F64(y, q, 0.33333333333333672302);
    y = 2.0 * TS_MULTIPLY_ADD_F64(s * q, y, s);
    return TS_MULTIPLY_ADD_F64((double)exponent, 0.69314718055994530942, y);
}

#endif
