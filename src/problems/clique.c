/* Cliques of sparse graphs. One network for all vertices would need a table for every pair that is not adjacent. But in
 * an order in which every vertex has as few later neighbors as possible (Matula and Beck 1983), each clique lies within
 * its first vertex and that vertex's later neighbors: one small problem for each vertex, the answers put together. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "problems/graph.h"
#include "problems/model.h"

enum { LEAST_VERTICES = 16 /* fewer are one network */, SMALL_PART = 20 };

bool ts_cliques_wanted(const ts_graph *graph)
{
    double n = (double)graph->vertex_count;
    return graph->vertex_count > LEAST_VERTICES && 4 * (double)graph->edge_count < n * (n - 1);
}

void ts_cliques_free(ts_cliques *cliques)
{
    if (cliques != NULL) {
        ts_free(cliques->order);
        ts_free(cliques->place);
        ts_free(cliques->first);
        ts_free(cliques->later);
        ts_free(cliques);
    }
}

/* Take a vertex of the least degree among those left, again and again, in time linear in the edges: vertices sorted by
 * degree, and where each degree begins (Batagelj and Zaversnik 2003). */
static tensum_status find_order(int64_t n, const int64_t *first, const int64_t *neighbors, int64_t *order, int64_t *place)
{
    tensum_status status = TENSUM_OK;
    int64_t *degree = NULL, *begin = NULL;
    TRY(ts_allocate((size_t)n, sizeof *degree, "an order of vertices", &degree));
    TRY(ts_allocate_zero((size_t)n + 2, sizeof *begin, "an order of vertices", &begin));
    for (int64_t v = 0; v < n; v++) {
        degree[v] = first[v + 1] - first[v];
        begin[degree[v] + 1]++;
    }
    for (int64_t d = 0; d <= n; d++) {
        begin[d + 1] += begin[d];
    }
    for (int64_t v = 0; v < n; v++) {
        place[v] = begin[degree[v]]++;
        order[place[v]] = v;
    }
    for (int64_t d = n; d > 0; d--) {
        begin[d] = begin[d - 1];
    }
    begin[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t v = order[i];
        for (int64_t k = first[v]; k < first[v + 1]; k++) {
            int64_t u = neighbors[k];
            if (degree[u] <= degree[v]) {
                continue; /* taken, or as small as it gets */
            }
            int64_t front = begin[degree[u]], w = order[front]; /* change places with the first of u's degree */
            order[place[u]] = w;
            place[w] = place[u];
            order[front] = u;
            place[u] = front;
            begin[degree[u]] = front + 1;
            degree[u]--;
        }
    }
done:
    ts_free(degree);
    ts_free(begin);
    return status;
}

tensum_status ts_cliques_create(const ts_graph *graph, const int64_t *first, const int64_t *neighbors, ts_cliques **out)
{
    tensum_status status = TENSUM_OK;
    int64_t n = graph->vertex_count, used = 0;
    ts_cliques *cliques = NULL;
    TRY(ts_allocate_zero(1, sizeof *cliques, "cliques", &cliques));
    cliques->graph = graph;
    TRY(ts_allocate((size_t)n, sizeof *cliques->place, "an order of vertices", &cliques->place));
    TRY(ts_allocate((size_t)n, sizeof *cliques->order, "an order of vertices", &cliques->order));
    TRY(ts_allocate((size_t)n + 1, sizeof *cliques->first, "neighbors", &cliques->first));
    TRY(ts_allocate((size_t)graph->edge_count, sizeof *cliques->later, "neighbors", &cliques->later));
    TRY(find_order(n, first, neighbors, cliques->order, cliques->place));
    for (int64_t i = 0; i < n; i++) {
        int64_t v = cliques->order[i];
        cliques->first[i] = used;
        for (int64_t k = first[v]; k < first[v + 1]; k++) {
            if (cliques->place[neighbors[k]] > i) {
                cliques->later[used++] = neighbors[k];
            }
        }
        int64_t size = used - cliques->first[i];
        if (size > cliques->largest_size) {
            cliques->largest_size = size;
            cliques->largest = i;
        }
    }
    cliques->first[n] = used;
    *out = cliques;
    return TENSUM_OK;
done:
    ts_cliques_free(cliques);
    return status;
}

/* ---- one vertex's problem ---- */

/* The later neighbors of the vertex at `position` as a DIMACS file. `local` is [vertex_count], all 0 before and after. */
static tensum_status write_part(const ts_cliques *cliques, int64_t position, int64_t *local, ts_text *text)
{
    const int64_t *part = cliques->later + cliques->first[position];
    int64_t size = cliques->first[position + 1] - cliques->first[position], edges = 0;
    for (int64_t k = 0; k < size; k++) {
        local[part[k]] = k + 1;
    }
    for (int writing = 0; writing < 2; writing++) { /* count first */
        if (writing) {
            ts_text_add(text, "p edge %lld %lld\n", (long long)size, (long long)edges);
        }
        for (int64_t k = 0; k < size; k++) {
            int64_t at = cliques->place[part[k]];
            if (writing && cliques->graph->vertex_weights[part[k]] != 1) {
                ts_text_add(text, "n %lld ", (long long)k + 1);
                ts_text_add_real(text, cliques->graph->vertex_weights[part[k]]);
                ts_text_add(text, "\n");
            }
            for (int64_t l = cliques->first[at]; l < cliques->first[at + 1]; l++) {
                int64_t other = local[cliques->later[l]];
                edges += !writing && other != 0;
                if (writing && other != 0) {
                    ts_text_add(text, "e %lld %lld\n", (long long)k + 1, (long long)other);
                }
            }
        }
    }
    for (int64_t k = 0; k < size; k++) {
        local[part[k]] = 0;
    }
    return text->status;
}

tensum_status ts_cliques_part(const ts_cliques *cliques, int64_t position, int64_t *local, const tensum_problem_options *options,
                              tensum_problem **problem)
{
    tensum_status status = TENSUM_OK;
    ts_text text = {0};
    ts_input input = {0};
    tensum_problem_options part = *options;
    part.front_end = "graph";
    part.question = "clique";
    TRY(write_part(cliques, position, local, &text));
    TRY(ts_input_from_memory("a part of the graph", text.bytes, text.length, &input));
    TRY(ts_problem_from_input(&input, &part, problem));
done:
    ts_input_free(&input);
    ts_text_free(&text);
    return status;
}

/* ---- answers put together ---- */

/* A clique: a range of `members`. */
typedef struct found_clique {
    double value;
    size_t first, count;
} found_clique;

typedef struct gathering {
    const ts_cliques *cliques;
    const ts_model *model; /* beta and seed */
    tensum_problem *problem;
    const tensum_solve_options *options;
    tensum_answer *answer;
    int64_t *local;
    tensum_problem_options part_options;
    int64_t limit;     /* cliques to be kept */
    bool ties_only;
    found_clique *found; /* the best so far, best first */
    size_t found_count, found_capacity;
    int64_t *members;
    size_t member_count, member_capacity;
    double best, count; /* the best value, and how many cliques have it */
    char *total;        /* number of cliques, decimal */
    double *log_weight; /* [vertex_count + 1] logarithms of the weights of the parts, the last is the empty clique's */
    double *shares;     /* parallel to cliques->later: marginals within the parts */
    int64_t position;   /* of the part in work, for the progress */
} gathering;

static bool task_is(const gathering *g, const char *task) { return strcmp(g->problem->task, task) == 0; }
static double slack(double value) { return 1e-9 * (1 + fabs(value)); }

static int pass_progress(void *user, const char *stage, double done)
{
    const gathering *g = user;
    (void)stage;
    double n = (double)g->cliques->graph->vertex_count;
    return g->options->progress(g->options->progress_user, "cliques", (n - 1 - (double)g->position + done) / n);
}

/* Keep a clique of `count` members: those of a part, and the vertex before them (-1: none). */
static tensum_status keep(gathering *g, double value, int64_t vertex, const int64_t *part, int64_t size, const int64_t *x)
{
    tensum_status status = TENSUM_OK;
    if (g->ties_only && g->found_count != 0 && value < g->found[0].value - slack(value)) {
        return TENSUM_OK;
    }
    if (g->ties_only && g->found_count != 0 && value > g->found[0].value + slack(value)) {
        g->found_count = 0;
        g->member_count = 0;
    }
    if ((int64_t)g->found_count >= g->limit && !(value > g->found[g->found_count - 1].value)) {
        return TENSUM_OK;
    }
    found_clique clique = {value, g->member_count, 0};
    TRY(ts_reserve(g->member_count + (size_t)size + 1, sizeof *g->members, "cliques", &g->member_capacity, &g->members));
    TRY(ts_reserve(g->found_count + 1, sizeof *g->found, "cliques", &g->found_capacity, &g->found));
    if (vertex >= 0) {
        g->members[g->member_count++] = vertex;
    }
    for (int64_t k = 0; k < size; k++) {
        if (x[k] == 1) {
            g->members[g->member_count++] = part[k];
        }
    }
    clique.count = g->member_count - clique.first;
    g->found_count -= (int64_t)g->found_count >= g->limit; /* the last one gives way */
    size_t at = g->found_count++;
    for (; at > 0 && g->found[at - 1].value < value; at--) {
        g->found[at] = g->found[at - 1];
    }
    g->found[at] = clique;
done:
    return status;
}

/* Decimal numbers: *total += number. */
static tensum_status add_decimal(char **total, const char *number)
{
    tensum_status status = TENSUM_OK;
    size_t a = strlen(*total), b = strlen(number), n = (a > b ? a : b) + 1;
    char *sum = NULL;
    int carry = 0;
    TRY(ts_allocate(n + 1, 1, "a number", &sum));
    sum[n] = 0;
    for (size_t i = 0; i < n; i++) {
        int digit = carry + (i < a ? (*total)[a - 1 - i] - '0' : 0) + (i < b ? number[b - 1 - i] - '0' : 0);
        sum[n - 1 - i] = (char)('0' + digit % 10);
        carry = digit / 10;
    }
    memmove(sum, sum + (sum[0] == '0' && n > 1), n + 1 - (sum[0] == '0' && n > 1));
    ts_free(*total);
    *total = sum;
done:
    return status;
}

static double log2_sum(double a, double b)
{
    double high = a > b ? a : b, low = a > b ? b : a;
    return high + log1p(exp2(low - high)) / 0.69314718055994530942;
}

/* Costs of parts, one after the other. */
static void add_cost(tensum_answer *answer, const tensum_answer *part)
{
    tensum_cost *sum = &answer->cost;
    const tensum_cost *one = &part->cost;
    bool first = sum->slices == 0;
    sum->tc = first ? one->tc : log2_sum(sum->tc, one->tc);
    sum->rw = first ? one->rw : log2_sum(sum->rw, one->rw);
    sum->sc = first ? one->sc : fmax(sum->sc, one->sc);
    sum->steps += one->steps;
    sum->slices = sum->slices > one->slices ? sum->slices : one->slices;
#define LARGER(field) sum->field = sum->field > one->field ? sum->field : one->field
    LARGER(peak_bytes_value);
    LARGER(peak_bytes_winners);
    LARGER(peak_bytes_gradient);
    LARGER(peak_bytes_decode);
#undef LARGER
    answer->order_seconds += part->order_seconds;
    answer->run_seconds += part->run_seconds;
}

static tensum_status solve_part(gathering *g, int64_t position, const char *task, int64_t count, tensum_answer **out)
{
    tensum_status status = TENSUM_OK;
    tensum_problem *problem = NULL;
    tensum_solve_options options = *g->options;
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    if (options.order != NULL) {
        memcpy(&order, options.order, options.order->size < sizeof order ? options.order->size : sizeof order);
        order.size = sizeof order;
    }
    if (order.method == NULL && g->cliques->first[position + 1] - g->cliques->first[position] <= SMALL_PART) {
        order.method = "greedy"; /* a search costs more than it saves */
    }
    options.order = &order;
    g->part_options.task = task;
    g->part_options.count = count;
    g->position = position;
    if (options.progress != NULL) {
        options.progress = pass_progress;
        options.progress_user = g;
    }
    TRY(ts_cliques_part(g->cliques, position, g->local, &g->part_options, &problem));
    TRY(tensum_problem_solve(problem, &options, out));
    add_cost(g->answer, *out);
done:
    tensum_problem_release(problem);
    return status;
}

/* The largest value that a clique can have that begins with the vertex at `position`. */
static double bound(const gathering *g, int64_t position)
{
    const double *weights = g->cliques->graph->vertex_weights;
    double sum = weights[g->cliques->order[position]];
    for (int64_t k = g->cliques->first[position]; k < g->cliques->first[position + 1]; k++) {
        sum += fmax(0, weights[g->cliques->later[k]]);
    }
    return sum;
}

/* Can cliques that begin here still matter? */
static bool hopeless(const gathering *g, int64_t position)
{
    double most = bound(g, position);
    if (task_is(g, "best") || task_is(g, "best-k")) {
        return (int64_t)g->found_count >= g->limit && most <= g->found[g->found_count - 1].value;
    }
    return (task_is(g, "all-best") || task_is(g, "count-best")) && most < g->best - slack(g->best);
}

static tensum_status gather(gathering *g, int64_t position)
{
    tensum_status status = TENSUM_OK;
    const ts_cliques *cliques = g->cliques;
    int64_t vertex = cliques->order[position], size = cliques->first[position + 1] - cliques->first[position];
    const int64_t *part = cliques->later + cliques->first[position];
    double own = cliques->graph->vertex_weights[vertex];
    tensum_answer *answer = NULL;
    if (hopeless(g, position)) {
        return TENSUM_OK;
    }
    if (task_is(g, "sample") || task_is(g, "marginals")) {
        TRY(solve_part(g, position, "marginals", 0, &answer));
        g->log_weight[position] = g->model->beta * own + answer->value * 2.302585092994045684;
        for (int64_t k = 0; k < size; k++) {
            g->shares[cliques->first[position] + k] = answer->marginals[answer->marginal_offsets[k] + 1];
        }
        goto done;
    }
    TRY(solve_part(g, position, g->problem->task, g->limit, &answer));
    if (task_is(g, "count")) {
        TRY(add_decimal(&g->total, answer->value_text));
    } else if (task_is(g, "count-best")) {
        double value = own + answer->values[0];
        bool tied = fabs(value - g->best) <= slack(value);
        g->count = tied ? g->count + answer->values[1] : value > g->best ? answer->values[1] : g->count;
        g->best = fmax(g->best, value);
    } else {
        for (int64_t i = 0; i < answer->assignment_count; i++) {
            double value = own + (answer->value_count > 0 ? answer->values[i] : answer->value);
            TRY(keep(g, value, vertex, part, size, answer->assignments + i * size));
            g->best = fmax(g->best, value);
        }
    }
done:
    tensum_answer_release(answer);
    return status;
}

/* ---- into one answer ---- */

/* Row `index` of the assignments, which are there already, from a list of members. */
static void set_row(tensum_answer *answer, int64_t index, const int64_t *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        answer->assignments[index * answer->variable_count + members[i]] = 1;
    }
}

static tensum_status allocate_rows(gathering *g, int64_t count)
{
    tensum_answer *answer = g->answer;
    int64_t total;
    answer->variable_count = g->cliques->graph->vertex_count;
    if (!ts_multiply(count, answer->variable_count, &total)) {
        return ts_fail(TENSUM_STATUS_SIZE_OVERFLOW, "more than 2^63 numbers in the answer");
    }
    tensum_status status = ts_allocate_zero((size_t)total + 1, sizeof *answer->assignments, "assignments", &answer->assignments);
    answer->assignment_count = status == TENSUM_OK ? count : 0;
    return status;
}

static tensum_status put_number(tensum_answer *answer, double value)
{
    ts_text text = {0};
    answer->value = value + 0.0;
    ts_text_add_real(&text, value + 0.0);
    return ts_text_take(&text, &answer->value_text);
}

static tensum_status put_found(gathering *g)
{
    tensum_status status = TENSUM_OK;
    TRY(allocate_rows(g, (int64_t)g->found_count));
    for (size_t i = 0; i < g->found_count; i++) {
        set_row(g->answer, (int64_t)i, g->members + g->found[i].first, g->found[i].count);
    }
    if (!task_is(g, "best")) {
        TRY(ts_allocate(g->found_count, sizeof *g->answer->values, "values", &g->answer->values));
        g->answer->value_count = (int64_t)g->found_count;
        for (size_t i = 0; i < g->found_count; i++) {
            g->answer->values[i] = g->found[i].value + 0.0;
        }
    }
    TRY(put_number(g->answer, g->found[0].value));
done:
    return status;
}

/* log of the sum over all cliques; weights become shares of it. */
static double normalize(gathering *g)
{
    int64_t n = g->cliques->graph->vertex_count;
    double most = 0, sum = 0;
    for (int64_t i = 0; i <= n; i++) {
        most = fmax(most, g->log_weight[i]);
    }
    for (int64_t i = 0; i <= n; i++) {
        sum += exp(g->log_weight[i] - most);
    }
    for (int64_t i = 0; i <= n; i++) {
        g->log_weight[i] = exp(g->log_weight[i] - most) / sum;
    }
    g->answer->log10 = true;
    g->answer->value = (most + log(sum)) / 2.302585092994045684;
    return most + log(sum);
}

static tensum_status put_marginals(gathering *g)
{
    tensum_status status = TENSUM_OK;
    const ts_cliques *cliques = g->cliques;
    tensum_answer *answer = g->answer;
    int64_t n = cliques->graph->vertex_count;
    (void)normalize(g);
    TRY(ts_allocate((size_t)n + 1, sizeof *answer->marginal_offsets, "marginals", &answer->marginal_offsets));
    TRY(ts_allocate_zero(2 * (size_t)n, sizeof *answer->marginals, "marginals", &answer->marginals));
    for (int64_t i = 0; i < n; i++) {
        answer->marginals[2 * cliques->order[i] + 1] += g->log_weight[i];
        for (int64_t k = cliques->first[i]; k < cliques->first[i + 1]; k++) {
            answer->marginals[2 * cliques->later[k] + 1] += g->log_weight[i] * g->shares[k];
        }
    }
    for (int64_t v = 0; v <= n; v++) {
        answer->marginal_offsets[v] = 2 * v;
        if (v < n) {
            answer->marginals[2 * v] = 1 - answer->marginals[2 * v + 1];
        }
    }
    answer->marginal_count = n;
done:
    return status;
}

/* Draw the first vertices, then, part by part, the rest of all cliques that begin there. */
static tensum_status put_samples(gathering *g)
{
    tensum_status status = TENSUM_OK;
    const ts_cliques *cliques = g->cliques;
    int64_t n = cliques->graph->vertex_count, count = g->problem->count > 0 ? g->problem->count : 1;
    int64_t *begin = NULL, *drawn = NULL, *rows = NULL;
    tensum_answer *answer = NULL;
    ts_random random;
    (void)normalize(g);
    TRY(allocate_rows(g, count));
    TRY(ts_allocate_zero((size_t)n + 2, sizeof *begin, "samples", &begin));
    TRY(ts_allocate((size_t)count, sizeof *drawn, "samples", &drawn));
    TRY(ts_allocate((size_t)count, sizeof *rows, "samples", &rows));
    ts_random_seed(&random, (uint64_t)g->model->seed);
    for (int64_t s = 0; s < count; s++) {
        double point = ts_random_unit(&random);
        int64_t i = 0;
        while (i < n && point >= g->log_weight[i]) {
            point -= g->log_weight[i++];
        }
        drawn[s] = i; /* n: the empty clique */
        begin[i + 1]++;
    }
    for (int64_t i = 0; i <= n; i++) {
        begin[i + 1] += begin[i];
    }
    for (int64_t s = 0; s < count; s++) {
        rows[begin[drawn[s]]++] = s;
    }
    for (int64_t i = n - 1, end; i >= 0; i--) {
        end = begin[i];
        int64_t start = i > 0 ? begin[i - 1] : 0, size = cliques->first[i + 1] - cliques->first[i];
        if (start == end) {
            continue;
        }
        char seed[40];
        const char *settings[] = {g->part_options.settings[0], seed, NULL};
        const char *const *kept = g->part_options.settings;
        snprintf(seed, sizeof seed, "seed=%llu", (unsigned long long)(ts_random_next(&random) >> 2));
        g->part_options.settings = settings;
        status = solve_part(g, i, "sample", end - start, &answer);
        g->part_options.settings = kept;
        TRY(status);
        for (int64_t s = start; s < end; s++) {
            int64_t *row = g->answer->assignments + rows[s] * n;
            row[cliques->order[i]] = 1;
            for (int64_t k = 0; k < size; k++) {
                row[cliques->later[cliques->first[i] + k]] = answer->assignments[(s - start) * size + k];
            }
        }
        tensum_answer_release(answer);
        answer = NULL;
    }
done:
    tensum_answer_release(answer);
    ts_free(begin);
    ts_free(drawn);
    ts_free(rows);
    return status;
}

static tensum_status put_count(gathering *g)
{
    tensum_answer *answer = g->answer;
    tensum_status status = TENSUM_OK;
    if (g->count >= 0x1p53) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "%.300s: the best value %.17g is attained about %.6g times, which is too often to be counted exactly",
                       g->problem->name, g->best, g->count);
    }
    TRY(ts_allocate(2, sizeof *answer->values, "values", &answer->values));
    answer->values[0] = g->best;
    answer->values[1] = g->count;
    answer->value_count = 2;
    TRY(put_number(answer, g->count));
done:
    return status;
}

/* Every clique once more, from the graph's own edges. */
static tensum_status verify(const gathering *g)
{
    const tensum_answer *answer = g->answer;
    for (int64_t i = 0; i < answer->assignment_count; i++) {
        double scored, claimed = answer->value_count > 0 ? answer->values[i] : answer->value;
        if (!g->model->score(g->model->data, answer->assignments + i * answer->variable_count, &scored) ||
            (!task_is(g, "sample") && fabs(scored - claimed) > slack(claimed))) {
            return ts_fail(TENSUM_STATUS_INTERNAL, "%.300s: a clique that was found does not hold", g->problem->name);
        }
    }
    return TENSUM_OK;
}

tensum_status ts_cliques_solve(const ts_cliques *cliques, tensum_problem *problem, const tensum_solve_options *given, tensum_answer *answer)
{
    tensum_status status = TENSUM_OK;
    tensum_solve_options options = TENSUM_SOLVE_OPTIONS_INIT;
    gathering g = {.cliques = cliques, .model = problem->state, .problem = problem, .options = &options, .answer = answer};
    int64_t n = cliques->graph->vertex_count;
    char beta[40], seed[40];
    const char *settings[] = {beta, seed, NULL};
    if (given != NULL) {
        memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    }
    if (options.tree != NULL) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "the cliques of a sparse graph are found in %lld parts, so that one order cannot be given", (long long)n);
    }
    snprintf(beta, sizeof beta, "beta=%.17g", g.model->beta);
    snprintf(seed, sizeof seed, "seed=%lld", (long long)g.model->seed);
    g.part_options = (tensum_problem_options)TENSUM_PROBLEM_OPTIONS_INIT;
    g.part_options.settings = settings;
    g.ties_only = task_is(&g, "all-best");
    g.limit = task_is(&g, "best") ? 1 : problem->count > 0 ? problem->count : g.ties_only ? 1000 : 10;
    g.count = 1; /* the empty clique, of value 0 */
    TRY(ts_allocate_zero((size_t)n, sizeof *g.local, "parts", &g.local));
    TRY(ts_allocate_zero((size_t)n + 1, sizeof *g.log_weight, "parts", &g.log_weight));
    TRY(ts_allocate_zero((size_t)cliques->first[n], sizeof *g.shares, "parts", &g.shares));
    TRY(ts_allocate_zero(2, 1, "a number", &g.total));
    g.total[0] = '1';
    TRY(keep(&g, 0, -1, NULL, 0, NULL));
    for (int64_t i = n - 1; i >= 0; i--) { /* the densest part of the graph comes last in the order */
        TRY(gather(&g, i));
    }
    if (task_is(&g, "count")) {
        answer->value = strtod(g.total, NULL);
        answer->value_text = g.total;
        g.total = NULL;
    } else if (task_is(&g, "count-best")) {
        TRY(put_count(&g));
    } else if (task_is(&g, "marginals")) {
        TRY(put_marginals(&g));
    } else if (task_is(&g, "sample")) {
        TRY(put_samples(&g));
    } else {
        TRY(put_found(&g));
    }
    TRY(verify(&g));
done:
    ts_free(g.local);
    ts_free(g.log_weight);
    ts_free(g.shares);
    ts_free(g.total);
    ts_free(g.found);
    ts_free(g.members);
    return status;
}
