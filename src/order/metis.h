#ifndef TS_ORDER_METIS_H
#define TS_ORDER_METIS_H

#include "order/dissect.h"

/* Thread-safe; opens the library at the first call. */
bool ts_metis_installed(void);
/* A bisection as ts_bisect makes, by METIS_PartGraphRecursive. UNSUPPORTED where it is not installed. */
tensum_status ts_metis_bisect(const ts_nets *nets, double imbalance, uint64_t seed, uint8_t *side);

#endif
