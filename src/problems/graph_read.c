#include <stdlib.h>

#include "problems/graph.h"

void ts_graph_free(ts_graph *graph)
{
    ts_free(graph->edges);
    ts_free(graph->vertex_weights);
}

static tensum_status add_edge(ts_graph *graph, int64_t u, int64_t v, double weight)
{
    tensum_status status = TENSUM_OK;
    if (u == v) {
        return TENSUM_OK; /* a loop constrains nothing here */
    }
    TRY(ts_reserve((size_t)graph->edge_count + 1, sizeof *graph->edges, "edges", &graph->edge_capacity, &graph->edges));
    graph->edges[graph->edge_count++] = (ts_edge){u < v ? u : v, u < v ? v : u, weight};
    graph->weighted = graph->weighted || weight != 1;
done:
    return status;
}

static tensum_status set_vertices(ts_graph *graph, int64_t count)
{
    tensum_status status = ts_allocate((size_t)count, sizeof(double), "vertices", &graph->vertex_weights);
    if (status == TENSUM_OK) {
        graph->vertex_count = count;
        for (int64_t v = 0; v < count; v++) {
            graph->vertex_weights[v] = 1;
        }
    }
    return status;
}

static int compare_edges(const void *x, const void *y)
{
    const ts_edge *a = x, *b = y;
    return a->u != b->u ? (a->u > b->u) - (a->u < b->u) : (a->v > b->v) - (a->v < b->v);
}

/* Sort; an edge given twice (once from either end, as DIMACS files do) is one edge, with equal weights. */
static tensum_status settle(const ts_input *input, ts_graph *graph)
{
    int64_t kept = 0;
    if (graph->edge_count > 0) {
        qsort(graph->edges, (size_t)graph->edge_count, sizeof *graph->edges, compare_edges);
    }
    for (int64_t i = 0; i < graph->edge_count; i++) {
        if (kept > 0 && compare_edges(&graph->edges[kept - 1], &graph->edges[i]) == 0) {
            if (graph->edges[kept - 1].weight != graph->edges[i].weight) {
                return ts_input_fail(input, input->length, "edge %lld-%lld is listed with weights %g and %g, expected one",
                                     (long long)graph->edges[i].u, (long long)graph->edges[i].v,
                                     graph->edges[kept - 1].weight, graph->edges[i].weight);
            }
            continue;
        }
        graph->edges[kept++] = graph->edges[i];
    }
    graph->edge_count = kept;
    return TENSUM_OK;
}

static tensum_status end_of_line(ts_scanner *scanner)
{
    return ts_scan_in_line(scanner) ? ts_scan_fail(scanner, "the end of the line") : TENSUM_OK;
}

/* The next token of this line as an integer. */
static tensum_status line_integer(ts_scanner *scanner, const char *what, int64_t lowest, int64_t highest, int64_t *value)
{
    if (!ts_scan_in_line(scanner)) {
        return ts_input_fail(scanner->input, scanner->position, "expected %s, found the end of the line", what);
    }
    return ts_token_integer(scanner, what, lowest, highest, value);
}

/* `c` comments, `p KIND n m`, then `e u v`, `n v w` (DIMACS) or bare `u v` (PACE). From 1. */
static tensum_status read_dimacs(const ts_input *input, ts_graph *graph)
{
    tensum_status status = TENSUM_OK;
    ts_scanner scanner;
    bool header = false;
    int64_t promised = 0, lines = 0;
    ts_scanner_start(&scanner, input);
    do {
        int64_t u, v;
        if (!ts_scan_in_line(&scanner) || input->bytes[scanner.token] == 'c') {
            continue;
        }
        if (ts_token_is(&scanner, "p")) {
            int64_t n;
            if (header) {
                status = ts_scan_fail(&scanner, "one line 'p'");
                goto done;
            }
            if (!ts_scan_in_line(&scanner) || !(ts_token_is(&scanner, "edge") || ts_token_is(&scanner, "col") ||
                                                ts_token_is(&scanner, "edges") || ts_token_is(&scanner, "tw"))) {
                status = ts_scan_fail(&scanner, "'edge', 'col' or 'tw'");
                goto done;
            }
            graph->format = ts_token_is(&scanner, "tw") ? "PACE" : "DIMACS";
            TRY(line_integer(&scanner, "the number of vertices", 0, ts_input_most(input), &n));
            TRY(line_integer(&scanner, "the number of edges", 0, INT64_MAX, &promised));
            TRY(end_of_line(&scanner));
            TRY(set_vertices(graph, n));
            header = true;
            continue;
        }
        if (!header) {
            status = ts_scan_fail(&scanner, "a line 'p edge N M' before any other");
            goto done;
        }
        if (ts_token_is(&scanner, "n")) {
            double weight;
            TRY(line_integer(&scanner, "a vertex", 1, graph->vertex_count, &v));
            TRY(ts_scan_real(&scanner, "a weight", &weight));
            graph->vertex_weights[v - 1] = weight;
            graph->weighted = graph->weighted || weight != 1;
            TRY(end_of_line(&scanner));
            continue;
        }
        double weight = 1;
        if (ts_token_is(&scanner, "e") || ts_token_is(&scanner, "a")) {
            TRY(line_integer(&scanner, "a vertex", 1, graph->vertex_count, &u));
        } else {
            TRY(ts_token_integer(&scanner, "'e', 'n' or a vertex", 1, graph->vertex_count, &u));
        }
        TRY(line_integer(&scanner, "a vertex", 1, graph->vertex_count, &v));
        if (ts_scan_in_line(&scanner)) {
            TRY(ts_token_real(&scanner, "a weight", &weight));
        }
        TRY(end_of_line(&scanner));
        TRY(add_edge(graph, u - 1, v - 1, weight));
        lines++;
    } while (ts_scan_next_line(&scanner));
    if (!header) {
        status = ts_input_fail(input, input->length, "expected a line 'p edge N M', found the end of the file");
        goto done;
    }
    TRY(settle(input, graph));
    /* files count edges once or from both ends, whichever way they list them */
    if (promised != lines && promised != 2 * lines && promised != graph->edge_count && promised != 2 * graph->edge_count) {
        status = ts_input_fail(input, input->length, "expected %lld edges, found %lld", (long long)promised, (long long)lines);
    }
done:
    return status;
}

/* `n m`, then m lines `i j w`. From 1. */
static tensum_status read_rudy(const ts_input *input, ts_graph *graph)
{
    tensum_status status = TENSUM_OK;
    ts_scanner scanner;
    int64_t n, m;
    ts_scanner_start(&scanner, input);
    TRY(ts_scan_integer(&scanner, "the number of vertices", 0, ts_input_most(input), &n));
    TRY(ts_scan_count(&scanner, "the number of edges", 6, &m));
    TRY(set_vertices(graph, n));
    for (int64_t i = 0; i < m; i++) {
        int64_t u, v;
        double weight;
        TRY(ts_scan_integer(&scanner, "a vertex", 1, n, &u));
        TRY(ts_scan_integer(&scanner, "a vertex", 1, n, &v));
        TRY(ts_scan_real(&scanner, "a weight", &weight));
        TRY(add_edge(graph, u - 1, v - 1, weight));
    }
    TRY(ts_scan_end(&scanner));
    graph->format = "rudy";
done:
    return status;
}

/* Lines `u v [w]`; `#` and `%` begin comments. The vertices are base .. the largest that occurs. */
static tensum_status read_edge_list(const ts_input *input, int64_t base, ts_graph *graph)
{
    tensum_status status = TENSUM_OK;
    ts_scanner scanner;
    int64_t last = base - 1;
    ts_scanner_start(&scanner, input);
    do {
        int64_t u, v;
        double weight = 1;
        if (!ts_scan_in_line(&scanner) || input->bytes[scanner.token] == '#' || input->bytes[scanner.token] == '%') {
            continue;
        }
        TRY(ts_token_integer(&scanner, "a vertex", base, ts_input_most(input), &u));
        TRY(line_integer(&scanner, "a vertex", base, ts_input_most(input), &v));
        if (ts_scan_in_line(&scanner)) {
            TRY(ts_token_real(&scanner, "a weight", &weight));
        }
        TRY(end_of_line(&scanner));
        last = ts_max64(last, ts_max64(u, v));
        TRY(add_edge(graph, u - base, v - base, weight));
    } while (ts_scan_next_line(&scanner));
    if (last < base) {
        status = ts_input_fail(input, input->length, "expected an edge 'u v', found the end of the file");
        goto done;
    }
    TRY(set_vertices(graph, last - base + 1));
    graph->format = "edge list";
done:
    return status;
}

/* Number of tokens of the line that the scanner is in, up to 9. */
static int tokens_of_line(ts_scanner *scanner)
{
    int count = 0;
    while (count < 9 && ts_scan_in_line(scanner)) {
        count++;
    }
    return count;
}

bool ts_graph_recognize(const ts_input *input)
{
    ts_scanner scanner;
    ts_scanner_start(&scanner, input);
    do {
        if (!ts_scan_in_line(&scanner)) {
            continue;
        }
        char first = input->bytes[scanner.token];
        if (first == 'p') {
            return ts_scan_in_line(&scanner) && (ts_token_is(&scanner, "edge") || ts_token_is(&scanner, "col") ||
                                                 ts_token_is(&scanner, "edges") || ts_token_is(&scanner, "tw"));
        }
        if (first != 'c' && first != '#' && first != '%') {
            int64_t number;
            return ts_parse_integer(input->bytes + scanner.token, scanner.length, &number) && tokens_of_line(&scanner) <= 2;
        }
    } while (ts_scan_next_line(&scanner));
    return false;
}

tensum_status ts_graph_read(const ts_input *input, int64_t base, ts_graph *graph)
{
    tensum_status status = TENSUM_OK;
    ts_scanner scanner;
    int first_tokens = 0, second_tokens = 0;
    bool dimacs = false;
    ts_scanner_start(&scanner, input);
    do { /* a rudy file has two numbers in its first line and three in the second */
        if (!ts_scan_in_line(&scanner) || input->bytes[scanner.token] == '#' || input->bytes[scanner.token] == '%') {
            continue;
        }
        char letter = input->bytes[scanner.token];
        if (letter == 'c' || letter == 'p' || letter == 'e' || letter == 'n' || letter == 'a') {
            dimacs = true;
            break;
        }
        int count = 1 + tokens_of_line(&scanner);
        if (first_tokens == 0) {
            first_tokens = count;
        } else {
            second_tokens = count;
            break;
        }
    } while (ts_scan_next_line(&scanner));
    if (dimacs) {
        TRY(read_dimacs(input, graph));
    } else if (first_tokens == 2 && second_tokens == 3 && !ts_has_suffix(input->name, ".edges")) {
        TRY(read_rudy(input, graph));
    } else {
        TRY(read_edge_list(input, base, graph));
    }
    TRY(settle(input, graph));
done:
    return status;
}
