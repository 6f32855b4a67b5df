#include <inttypes.h>

#include "problems/residues.h"

static bool is_prime(int64_t n)
{
    for (int64_t d = 3; d * d <= n; d += 2) {
        if (n % d == 0) {
            return false;
        }
    }
    return true;
}

int64_t ts_prime(int64_t index)
{
    int64_t n = (INT64_C(1) << 31) - 1; /* itself a prime */
    while (index > 0) {
        n -= 2;
        index -= is_prime(n);
    }
    return n;
}

static int64_t power(int64_t base, int64_t exponent, int64_t p)
{
    int64_t result = 1;
    for (base %= p; exponent > 0; exponent >>= 1) {
        result = exponent & 1 ? result * base % p : result;
        base = base * base % p;
    }
    return result;
}

enum { LIMB = 1000000000 };

tensum_status ts_residues_text(int64_t count, const int64_t *primes, const int64_t *residues, ts_text *text)
{
    tensum_status status = TENSUM_OK;
    int64_t *digits = NULL; /* mixed radix: x = d0 + d1 p0 + d2 p0 p1 + ... */
    uint32_t *limbs = NULL; /* base 10^9, least first */
    size_t used = 0;
    TRY(ts_allocate((size_t)count, sizeof *digits, "residues", &digits));
    TRY(ts_allocate_zero((size_t)count + 2, 2 * sizeof *limbs, "residues", &limbs));
    for (int64_t i = 0; i < count; i++) {
        int64_t p = primes[i], value = 0, weight = 1;
        for (int64_t k = 0; k < i; k++) {
            value = (value + digits[k] % p * weight) % p;
            weight = weight * (primes[k] % p) % p;
        }
        digits[i] = (residues[i] - value + p) % p * power(weight, p - 2, p) % p;
    }
    for (int64_t i = count - 1; i >= 0; i--) { /* Horner */
        uint64_t carry = (uint64_t)digits[i];
        uint64_t factor = (uint64_t)primes[i];
        for (size_t k = 0; k < used; k++) {
            uint64_t product = limbs[k] * factor + carry;
            limbs[k] = (uint32_t)(product % LIMB);
            carry = product / LIMB;
        }
        while (carry != 0) {
            limbs[used++] = (uint32_t)(carry % LIMB);
            carry /= LIMB;
        }
    }
    if (used == 0) {
        ts_text_add(text, "0");
    } else {
        ts_text_add(text, "%" PRIu32, limbs[used - 1]);
    }
    for (size_t k = used; k > 1; k--) {
        ts_text_add(text, "%09" PRIu32, limbs[k - 2]);
    }
    status = text->status;
done:
    ts_free(digits);
    ts_free(limbs);
    return status;
}
