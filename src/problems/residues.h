/* Exact natural numbers from their residues modulo several primes. */
#ifndef TS_PROBLEMS_RESIDUES_H
#define TS_PROBLEMS_RESIDUES_H

#include "io/text.h"

/* The index-th largest prime below 2^31, from 0. */
int64_t ts_prime(int64_t index);
/* The smallest natural number with the given residues, in decimal (Garner 1959). */
tensum_status ts_residues_text(int64_t count, const int64_t *primes, const int64_t *residues, ts_text *text);

#endif
