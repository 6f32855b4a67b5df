/* Front end for graphs: independent sets, covers, cliques, cuts, matchings, dominating sets, colourings. */
#include <math.h>
#include <stdlib.h>

#include "problems/graph.h"
#include "problems/model.h"

typedef struct graph_data {
    ts_graph graph;
    const char *question;
    int64_t colors;
    int64_t *first;     /* [vertex_count + 1] into neighbors */
    int64_t *neighbors;
    int64_t *incident;  /* edges, parallel to neighbors */
    ts_cliques *parts;  /* NULL: one network answers the question */
} graph_data;

static void destroy(void *pointer)
{
    graph_data *data = pointer;
    ts_graph_free(&data->graph);
    ts_free(data->first);
    ts_free(data->neighbors);
    ts_free(data->incident);
    ts_cliques_free(data->parts);
    ts_free(data);
}

static bool asks(const graph_data *data, const char *question) { return strcmp(data->question, question) == 0; }

static tensum_status build_neighbors(graph_data *data)
{
    tensum_status status = TENSUM_OK;
    const ts_graph *graph = &data->graph;
    size_t n = (size_t)graph->vertex_count, m = (size_t)graph->edge_count;
    int64_t *next = NULL;
    TRY(ts_allocate_zero(n + 1, sizeof *data->first, "neighbors", &data->first));
    TRY(ts_allocate(2 * m, sizeof *data->neighbors, "neighbors", &data->neighbors));
    TRY(ts_allocate(2 * m, sizeof *data->incident, "neighbors", &data->incident));
    TRY(ts_allocate(n + 1, sizeof *next, "neighbors", &next));
    for (size_t e = 0; e < m; e++) {
        data->first[graph->edges[e].u + 1]++;
        data->first[graph->edges[e].v + 1]++;
    }
    for (size_t v = 0; v < n; v++) {
        data->first[v + 1] += data->first[v];
    }
    memcpy(next, data->first, (n + 1) * sizeof *next);
    for (size_t e = 0; e < m; e++) {
        int64_t u = graph->edges[e].u, v = graph->edges[e].v;
        data->incident[next[u]] = data->incident[next[v]] = (int64_t)e;
        data->neighbors[next[u]++] = v;
        data->neighbors[next[v]++] = u;
    }
done:
    ts_free(next);
    return status;
}

static bool adjacent(const graph_data *data, int64_t u, int64_t v)
{
    int64_t low = data->first[u], high = data->first[u + 1];
    for (int64_t i = low; i < high; i++) {
        if (data->neighbors[i] == v) {
            return true;
        }
    }
    return false;
}

/* Is v in the set, or one of its neighbors? */
static bool dominated(const graph_data *data, const int64_t *x, int64_t v)
{
    bool any = x[v] == 1;
    for (int64_t i = data->first[v]; i < data->first[v + 1]; i++) {
        any = any || x[data->neighbors[i]] == 1;
    }
    return any;
}

/* Are the chosen vertices adjacent, each to all others? */
static bool is_clique(const graph_data *data, const int64_t *x)
{
    int64_t size = 0;
    for (int64_t v = 0; v < data->graph.vertex_count; v++) {
        size += x[v] == 1;
    }
    for (int64_t v = 0; v < data->graph.vertex_count; v++) {
        int64_t found = 1;
        for (int64_t i = data->first[v]; x[v] == 1 && i < data->first[v + 1]; i++) {
            found += x[data->neighbors[i]] == 1;
        }
        if (x[v] == 1 && found != size) {
            return false;
        }
    }
    return true;
}

/* The objective straight from the edges. */
static bool score(const void *pointer, const int64_t *x, double *objective)
{
    const graph_data *data = pointer;
    const ts_graph *graph = &data->graph;
    double sum = 0;
    bool independent = asks(data, "mis") || asks(data, "maximal-is"), cover = asks(data, "vertex-cover");
    bool matching = asks(data, "matching") || asks(data, "perfect-matching");
    if (asks(data, "max-cut")) {
        for (int64_t e = 0; e < graph->edge_count; e++) {
            sum += x[graph->edges[e].u] != x[graph->edges[e].v] ? graph->edges[e].weight : 0;
        }
        *objective = sum;
        return true;
    }
    if (matching) {
        for (int64_t v = 0; v < graph->vertex_count; v++) {
            int64_t degree = 0;
            for (int64_t i = data->first[v]; i < data->first[v + 1]; i++) {
                degree += x[data->incident[i]];
            }
            if (degree > 1 || (degree == 0 && asks(data, "perfect-matching"))) {
                return false;
            }
        }
        for (int64_t e = 0; e < graph->edge_count; e++) {
            sum += x[e] == 1 ? graph->edges[e].weight : 0;
        }
        *objective = sum;
        return true;
    }
    for (int64_t e = 0; e < graph->edge_count; e++) {
        int64_t u = graph->edges[e].u, v = graph->edges[e].v;
        if ((independent && x[u] == 1 && x[v] == 1) || (cover && x[u] == 0 && x[v] == 0) ||
            (asks(data, "coloring") && x[u] == x[v])) {
            return false;
        }
    }
    if (asks(data, "coloring")) {
        *objective = 0;
        return true;
    }
    for (int64_t v = 0; v < graph->vertex_count; v++) {
        if ((asks(data, "dominating-set") || asks(data, "maximal-is")) && !dominated(data, x, v)) {
            return false;
        }
        sum += x[v] == 1 ? graph->vertex_weights[v] : 0;
    }
    *objective = sum;
    return !asks(data, "clique") || is_clique(data, x);
}

/* One vertex of the closed neighborhood of v is in the set. */
static tensum_status add_domination(ts_model *model, const graph_data *data, int64_t v)
{
    tensum_status status = TENSUM_OK;
    int64_t degree = data->first[v + 1] - data->first[v], *literals = NULL;
    TRY(ts_allocate((size_t)degree + 1, sizeof *literals, "a neighborhood", &literals));
    literals[0] = v + 1;
    for (int64_t i = 0; i < degree; i++) {
        literals[i + 1] = data->neighbors[data->first[v] + i] + 1;
    }
    TRY(ts_model_add_clause(model, degree + 1, literals, -INFINITY));
done:
    ts_free(literals);
    return status;
}

static tensum_status add_constraints(ts_model *model, const graph_data *data)
{
    tensum_status status = TENSUM_OK;
    const ts_graph *graph = &data->graph;
    const double no = -INFINITY;
    bool matching = asks(data, "matching") || asks(data, "perfect-matching");
    if (matching) {
        for (int64_t e = 0; e < graph->edge_count; e++) {
            TRY(ts_model_add_one(model, e, 0, graph->edges[e].weight));
        }
        for (int64_t v = 0; v < graph->vertex_count; v++) {
            TRY(ts_model_add_one_of(model, data->first[v + 1] - data->first[v], data->incident + data->first[v],
                                    asks(data, "matching")));
        }
        goto done;
    }
    if (asks(data, "coloring")) {
        double *table = NULL;
        size_t q = (size_t)data->colors;
        TRY(ts_allocate_zero(q * q, sizeof *table, "colors", &table));
        for (size_t i = 0; i < q; i++) {
            table[i * q + i] = no;
        }
        for (int64_t e = 0; e < graph->edge_count && status == TENSUM_OK; e++) {
            int64_t pair[2] = {graph->edges[e].u, graph->edges[e].v};
            status = ts_model_add(model, 2, pair, table);
        }
        ts_free(table);
        goto done;
    }
    for (int64_t v = 0; v < graph->vertex_count && !asks(data, "max-cut"); v++) {
        TRY(ts_model_add_one(model, v, 0, model->sign * graph->vertex_weights[v]));
        if (asks(data, "dominating-set") || asks(data, "maximal-is")) {
            TRY(add_domination(model, data, v));
        }
        for (int64_t u = 0; asks(data, "clique") && u < v; u++) {
            if (!adjacent(data, u, v)) {
                TRY(ts_model_add_two(model, u, v, 0, 0, 0, no));
            }
        }
    }
    for (int64_t e = 0; e < graph->edge_count; e++) {
        int64_t u = graph->edges[e].u, v = graph->edges[e].v;
        if (asks(data, "max-cut")) {
            TRY(ts_model_add_two(model, u, v, 0, graph->edges[e].weight, graph->edges[e].weight, 0));
        } else if (asks(data, "mis") || asks(data, "maximal-is")) {
            TRY(ts_model_add_two(model, u, v, 0, 0, 0, no));
        } else if (asks(data, "vertex-cover")) {
            TRY(ts_model_add_two(model, u, v, no, 0, 0, 0));
        }
    }
done:
    return status;
}

static tensum_status format(const tensum_problem *problem, const void *pointer, const tensum_answer *answer, ts_text *text)
{
    const graph_data *data = pointer;
    (void)problem;
    ts_text_add(text, "c %s, vertices and edges from 1\n", data->question);
    if (answer->log10) {
        ts_text_add(text, "s log10 ");
        ts_text_add_real(text, answer->value);
        ts_text_add(text, "\n");
    } else {
        ts_text_add(text, "s %s\n", answer->value_text);
    }
    for (int64_t i = 0; i < answer->assignment_count; i++) {
        const int64_t *x = answer->assignments + i * answer->variable_count;
        ts_text_add(text, "v");
        for (int64_t v = 0; v < answer->variable_count; v++) {
            if (asks(data, "coloring")) {
                ts_text_add(text, " %lld", (long long)x[v] + 1);
            } else if (x[v] == 1 && (asks(data, "matching") || asks(data, "perfect-matching"))) {
                ts_text_add(text, " %lld-%lld", (long long)data->graph.edges[v].u + 1, (long long)data->graph.edges[v].v + 1);
            } else if (x[v] == 1) {
                ts_text_add(text, " %lld", (long long)v + 1);
            }
        }
        ts_text_add(text, "\n");
    }
    for (int64_t v = 0; v < answer->marginal_count; v++) {
        ts_text_add(text, "p %lld", (long long)v + 1);
        for (int64_t k = answer->marginal_offsets[v]; k < answer->marginal_offsets[v + 1]; k++) {
            ts_text_add(text, " ");
            ts_text_add_real(text, answer->marginals[k]);
        }
        ts_text_add(text, "\n");
    }
    return text->status;
}

/* The largest part stands for all where the problem's network is looked at: its operands become the problem's. */
static tensum_status set_up_parts(const tensum_problem_options *options, tensum_problem *problem, ts_model *model, graph_data *data)
{
    tensum_status status = TENSUM_OK;
    tensum_problem *part = NULL;
    int64_t *local = NULL;
    TRY(ts_cliques_create(&data->graph, data->first, data->neighbors, &data->parts));
    TRY(ts_allocate_zero((size_t)data->graph.vertex_count, sizeof *local, "parts", &local));
    tensum_problem_options part_options = *options;
    part_options.settings = NULL;
    TRY(ts_cliques_part(data->parts, data->parts->largest, local, &part_options, &part));
    TRY(ts_model_settings(options, model));
    problem->semiring = part->semiring;
    problem->dtype = part->dtype;
    problem->modulus = part->modulus;
    problem->modes = part->modes;
    problem->operands = part->operands;
    problem->operand_count = part->operand_count;
    problem->operand_capacity = part->operand_capacity;
    part->operands = NULL;
    part->operand_count = 0;
    ts_text_add(&problem->note, "; in %lld parts of up to %lld vertices, whose largest the cost is of", (long long)data->graph.vertex_count,
                (long long)data->parts->largest_size);
done:
    tensum_problem_release(part);
    ts_free(local);
    return status;
}

static tensum_status solve(tensum_problem *problem, const tensum_solve_options *options, tensum_answer *answer)
{
    tensum_status status = TENSUM_OK;
    const ts_model *model = problem->state;
    const graph_data *data = model->data;
    ts_text text = {0};
    if (data->parts == NULL) {
        return ts_model_solve(problem, options, answer);
    }
    TRY(ts_cliques_solve(data->parts, problem, options, answer));
    TRY(format(problem, data, answer, &text));
    TRY(ts_text_take(&text, &answer->text));
done:
    ts_text_free(&text);
    return status;
}

static tensum_status read(const ts_input *input, const tensum_problem_options *options, tensum_problem *problem)
{
    tensum_status status = TENSUM_OK;
    graph_data *data = NULL;
    ts_model *model = NULL;
    int64_t base;
    TRY(ts_setting_integer(options, "base", 0, 1, 0, &base));
    TRY(ts_allocate_zero(1, sizeof *data, "a graph", &data));
    data->question = problem->question;
    TRY(ts_setting_integer(options, "colors", 1, 1000, 3, &data->colors));
    TRY(ts_graph_read(input, base, &data->graph));
    TRY(build_neighbors(data));
    bool matching = asks(data, "matching") || asks(data, "perfect-matching");
    bool smallest = asks(data, "vertex-cover") || asks(data, "dominating-set");
    TRY(ts_model_create(problem, matching ? data->graph.edge_count : data->graph.vertex_count, smallest ? -1 : 1, &model));
    for (int64_t v = 0; asks(data, "coloring") && v < data->graph.vertex_count; v++) {
        model->cards[v] = data->colors;
    }
    model->score = score;
    model->format = format;
    bool parts = asks(data, "clique") && ts_cliques_wanted(&data->graph);
    if (!parts) {
        TRY(add_constraints(model, data));
    }
    ts_text_add(&problem->note, "%s file, %lld vertices, %lld edges, %s weights; ", data->graph.format,
                (long long)data->graph.vertex_count, (long long)data->graph.edge_count, data->graph.weighted ? "with" : "no");
    if (asks(data, "coloring")) {
        ts_text_add(&problem->note, "proper colourings with %lld colours", (long long)data->colors);
    } else {
        ts_text_add(&problem->note, "%s the %s of the chosen %s", smallest ? "minimise" : "maximise",
                    asks(data, "max-cut") ? "weight" : "sum of weights",
                    matching ? "edges" : asks(data, "max-cut") ? "cut" : "vertices");
    }
    model->data = data;
    model->destroy_data = destroy;
    graph_data *kept = data;
    data = NULL;
    TRY(parts ? set_up_parts(options, problem, model, kept) : ts_model_setup(options, problem));
done:
    if (data != NULL) {
        destroy(data);
    }
    return status;
}

static bool edge(const tensum_problem *problem, int64_t index, int64_t *u, int64_t *v, double *weight)
{
    const ts_graph *graph = &((const graph_data *)((const ts_model *)problem->state)->data)->graph;
    if (index >= graph->edge_count) {
        return false;
    }
    *u = graph->edges[index].u;
    *v = graph->edges[index].v;
    *weight = graph->edges[index].weight;
    return true;
}

const ts_front_end ts_front_end_graph = {
    .name = "graph",
    .summary = "graphs (DIMACS, PACE, rudy, edge list): sets, covers, cliques, cuts, matchings, colourings",
    .tasks = TS_MODEL_TASKS,
    .questions = "mis|independent-set vertex-cover clique max-cut matching perfect-matching dominating-set coloring|colouring maximal-is",
    .suffixes = ".col .clq .gr .rudy .edges",
    .settings = TS_MODEL_SETTINGS " base colors",
    .recognize = ts_graph_recognize,
    .read = read,
    .solve = solve,
    .edge = edge,
    .destroy = ts_model_destroy,
};
