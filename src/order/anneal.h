#ifndef TS_ORDER_ANNEAL_H
#define TS_ORDER_ANNEAL_H

#include "order/state.h"

/* Simulated annealing on a tree by rotations, as in Kalachev, Panteleev, Yung (arXiv:2108.05665). A rotation is
 * accepted by the change of log2 of the price of the two steps it touches: uphill by x with probability
 * 2^(-x / temperature). The temperature falls geometrically from `hot` to `cold` as the budget is used up; a sweep
 * tries one rotation per inner node. */

/* Leaves the best tree found in `state`, and log2 of its price in *best. */
tensum_status ts_anneal(ts_state *state, const ts_price *price, double hot, double cold, ts_random *random,
                        ts_budget *budget, double *best);

/* log2 of the price of the tree in `state`. */
double ts_state_price(const ts_state *state, const ts_price *price);

#endif
