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

/* Cliques of a sparse graph: one problem for each vertex, of those of its neighbors that come later in an order in which
 * these are few. */
typedef struct ts_cliques {
    const ts_graph *graph;          /* borrowed */
    int64_t *order, *place;         /* vertices in order; places of vertices */
    int64_t *first, *later;         /* [vertex_count + 1] by place, into the later neighbors */
    int64_t largest, largest_size;  /* place with the most later neighbors */
} ts_cliques;

/* Is the complement so large that parts are better? */
bool ts_cliques_wanted(const ts_graph *graph);
tensum_status ts_cliques_create(const ts_graph *graph, const int64_t *first, const int64_t *neighbors, ts_cliques **cliques);
void ts_cliques_free(ts_cliques *cliques);
/* The problem of one place; `local` is [vertex_count], all 0 before and after. */
tensum_status ts_cliques_part(const ts_cliques *cliques, int64_t position, int64_t *local, const tensum_problem_options *options,
                              tensum_problem **problem);
/* The problem's task; its state is a model with the graph's score, beta and seed. */
tensum_status ts_cliques_solve(const ts_cliques *cliques, tensum_problem *problem, const tensum_solve_options *options,
                               tensum_answer *answer);

#endif
