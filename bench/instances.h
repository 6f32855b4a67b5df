/* Reads the contraction-order instances of several public collections (JSON) into a hypergraph. */
#ifndef BENCH_INSTANCES_H
#define BENCH_INSTANCES_H

#include "order/optimizer.h"

/* Formats: {"einsum": {"ixs", "iy"}, "size"}, {"inputs", "output", "size_dict"}, {"format_string", "shapes"},
 * {"inputs", "output", "tree"}. Labels are numbered as they come. false with a message on stderr. */
bool instance_read(const char *path, ts_hypergraph *graph);
void instance_free(ts_hypergraph *graph);

#endif
