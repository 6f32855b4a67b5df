/* Graphs with weights, and the files they come in. */
#ifndef TS_PROBLEMS_GRAPH_H
#define TS_PROBLEMS_GRAPH_H

#include "problems/problem.h"

typedef struct ts_edge {
    int64_t u, v; /* u < v, from 0 */
    double weight;
} ts_edge;

typedef struct ts_graph {
    int64_t vertex_count, edge_count;
    ts_edge *edges; /* sorted by (u, v), each once; loops are left out */
    size_t edge_capacity;
    double *vertex_weights; /* [vertex_count], 1 where the file gives none */
    const char *format;     /* as which the file was read */
    bool weighted;          /* some weight is not 1 */
} ts_graph;

/* DIMACS col/clq, PACE gr, rudy (G-set), edge list; `base` is that of an edge list (0 or 1). */
tensum_status ts_graph_read(const ts_input *input, int64_t base, ts_graph *graph);
void ts_graph_free(ts_graph *graph);
/* Could this be a graph? By its first words. */
bool ts_graph_recognize(const ts_input *input);

#endif
