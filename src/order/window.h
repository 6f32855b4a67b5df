#ifndef TS_ORDER_WINDOW_H
#define TS_ORDER_WINDOW_H

#include "order/search.h"

/* log2 of the price of a tree, by walking it. */
tensum_status ts_pairs_price(const ts_hypergraph *graph, const int32_t *pairs, const ts_price *price, double *value);

/* Better a tree that is too large to be searched as a whole: it is cut into windows of about `size` neighbouring nodes,
 * each of which is a small network of its own; they are annealed and reconfigured side by side. Rounds with other
 * cuts follow until the budget is used up. *work as for ts_search_connected. */
tensum_status ts_search_windows(const ts_hypergraph *graph, const ts_search *search, const ts_recipe *recipe,
                                ts_control *control, int32_t size, double *work, int32_t *pairs);

#endif
