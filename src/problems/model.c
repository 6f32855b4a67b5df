#include <math.h>
#include <stdlib.h>

#include "problems/model.h"

tensum_status ts_model_new(int64_t count, double sign, ts_model **out)
{
    tensum_status status = TENSUM_OK;
    ts_model *model = NULL;
    TRY(ts_allocate_zero(1, sizeof *model, "a model", &model));
    model->sign = sign;
    for (int64_t v = 0; v < count; v++) {
        int64_t variable;
        TRY(ts_model_variable(model, 2, &variable));
    }
    model->named_count = count;
    *out = model;
    model = NULL;
done:
    ts_model_destroy(model);
    return status;
}

tensum_status ts_model_create(tensum_problem *problem, int64_t count, double sign, ts_model **out)
{
    tensum_status status = ts_model_new(count, sign, out);
    if (status == TENSUM_OK) {
        problem->state = *out; /* freed with the problem from now on */
    }
    return status;
}

void ts_model_destroy(void *state)
{
    ts_model *model = state;
    if (model == NULL) {
        return;
    }
    if (model->destroy_data != NULL && model->data != NULL) {
        model->destroy_data(model->data);
    }
    ts_free(model->cards);
    ts_free(model->factors);
    ts_free(model->scope);
    ts_free(model->values);
    ts_free(model->unary);
    ts_free(model);
}

tensum_status ts_model_variable(ts_model *model, int64_t card, int64_t *variable)
{
    tensum_status status = ts_reserve((size_t)model->variable_count + 1, sizeof *model->cards, "variables",
                                      &model->card_capacity, &model->cards);
    if (status == TENSUM_OK) {
        model->cards[model->variable_count] = card;
        *variable = model->variable_count++;
    }
    return status;
}

tensum_status ts_model_add(ts_model *model, int32_t arity, const int64_t *variables, const double *values)
{
    tensum_status status = TENSUM_OK;
    int64_t size = 1;
    for (int32_t i = 0; i < arity; i++) {
        if (!ts_multiply(size, model->cards[variables[i]], &size) || size > (INT64_C(1) << 40)) {
            return ts_fail(TENSUM_STATUS_SIZE_OVERFLOW, "a table over %d variables has more than 2^40 entries", (int)arity);
        }
    }
    TRY(ts_reserve(model->factor_count + 1, sizeof *model->factors, "factors", &model->factor_capacity, &model->factors));
    TRY(ts_reserve(model->scope_count + (size_t)arity + 1, sizeof *model->scope, "scopes", &model->scope_capacity, &model->scope));
    TRY(ts_reserve(model->value_count + (size_t)size, sizeof *model->values, "tables", &model->value_capacity, &model->values));
    for (int32_t i = 0; i < arity; i++) {
        model->scope[model->scope_count + (size_t)i] = variables[i];
    }
    memcpy(model->values + model->value_count, values, (size_t)size * sizeof *values);
    model->factors[model->factor_count++] = (ts_factor){arity, model->scope_count, model->value_count, (size_t)size};
    model->scope_count += (size_t)arity;
    model->value_count += (size_t)size;
done:
    return status;
}

tensum_status ts_model_add_one(ts_model *model, int64_t variable, double at_0, double at_1)
{
    double values[2] = {at_0, at_1};
    return ts_model_add(model, 1, &variable, values);
}

tensum_status ts_model_add_two(ts_model *model, int64_t x, int64_t y, double v00, double v01, double v10, double v11)
{
    int64_t variables[2] = {x, y};
    double values[4] = {v00, v01, v10, v11};
    return ts_model_add(model, 2, variables, values);
}

enum { WIDEST_CLAUSE = 6 }; /* literals of a dense table */

static int compare_literals(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    int64_t u = a < 0 ? -a : a, v = b < 0 ? -b : b;
    return u != v ? (u > v) - (u < v) : (a > b) - (a < b);
}

/* A dense clause: all entries 0 but the one where every literal fails. */
static tensum_status add_dense_clause(ts_model *model, int32_t count, const int64_t *literals, double violated)
{
    int64_t variables[WIDEST_CLAUSE + 1];
    double values[1 << (WIDEST_CLAUSE + 1)] = {0};
    size_t broken = 0;
    for (int32_t i = 0; i < count; i++) {
        variables[i] = (literals[i] < 0 ? -literals[i] : literals[i]) - 1;
        broken = broken << 1 | (literals[i] < 0 ? 1u : 0u);
    }
    values[broken] = violated;
    return ts_model_add(model, count, variables, values);
}

tensum_status ts_model_add_clause(ts_model *model, int64_t count, const int64_t *literals, double violated)
{
    tensum_status status = TENSUM_OK;
    int64_t *sorted = NULL, kept = 0;
    TRY(ts_allocate((size_t)count, sizeof *sorted, "a clause", &sorted));
    if (count > 0) {
        memcpy(sorted, literals, (size_t)count * sizeof *sorted);
        qsort(sorted, (size_t)count, sizeof *sorted, compare_literals);
    }
    for (int64_t i = 0; i < count; i++) {
        if (kept > 0 && sorted[kept - 1] == -sorted[i]) {
            goto done; /* x or not x always holds */
        }
        if (kept == 0 || sorted[kept - 1] != sorted[i]) {
            sorted[kept++] = sorted[i];
        }
    }
    /* Long clauses: y = (l1 or l2 or ...) of the first few, exactly, then y stands for them. */
    int64_t first = 0;
    while (kept - first > WIDEST_CLAUSE) {
        enum { GROUP = WIDEST_CLAUSE - 1 };
        int64_t y, variables[WIDEST_CLAUSE];
        double values[1 << WIDEST_CLAUSE];
        size_t broken = 0;
        TRY(ts_model_variable(model, 2, &y));
        for (int i = 0; i < GROUP; i++) {
            int64_t literal = sorted[first + i];
            variables[i] = (literal < 0 ? -literal : literal) - 1;
            broken = broken << 1 | (literal < 0 ? 1u : 0u);
        }
        variables[GROUP] = y;
        for (size_t x = 0; x < (size_t)1 << GROUP; x++) {
            values[2 * x] = x == broken ? 0 : -INFINITY;
            values[2 * x + 1] = x == broken ? -INFINITY : 0;
        }
        TRY(ts_model_add(model, WIDEST_CLAUSE, variables, values));
        first += GROUP - 1;
        sorted[first] = y + 1;
    }
    TRY(add_dense_clause(model, (int32_t)(kept - first), sorted + first, violated));
done:
    ts_free(sorted);
    return status;
}

tensum_status ts_model_add_one_of(ts_model *model, int64_t count, const int64_t *variables, bool at_most)
{
    tensum_status status = TENSUM_OK;
    int64_t before = -1; /* how many of those before are 1: 0 or 1 */
    if (count == 0) {
        double none = at_most ? 0 : -INFINITY;
        return ts_model_add(model, 0, NULL, &none);
    }
    for (int64_t i = 0; i < count; i++) {
        bool last = i + 1 == count;
        if (before < 0 && last) {
            TRY(ts_model_add_one(model, variables[i], at_most ? 0 : -INFINITY, 0));
        } else if (before < 0) {
            before = variables[i]; /* the first count is the variable itself */
        } else if (last) {
            TRY(ts_model_add_two(model, before, variables[i], at_most ? 0 : -INFINITY, 0, 0, -INFINITY));
        } else {
            int64_t after, scope[3];
            double values[8];
            TRY(ts_model_variable(model, 2, &after));
            scope[0] = before;
            scope[1] = variables[i];
            scope[2] = after;
            for (int b = 0; b < 2; b++) {
                for (int x = 0; x < 2; x++) {
                    for (int a = 0; a < 2; a++) {
                        values[4 * b + 2 * x + a] = b + x == a ? 0 : -INFINITY;
                    }
                }
            }
            TRY(ts_model_add(model, 3, scope, values));
            before = after;
        }
    }
done:
    return status;
}

/* ---- elimination ---- */

static int64_t root_of(int64_t *parent, int64_t v)
{
    while (parent[v] != v) {
        parent[v] = parent[parent[v]];
        v = parent[v];
    }
    return v;
}

/* The factors numbered members[0 .. count), contracted over their eliminated variables into one new factor. */
static tensum_status eliminate_component(ts_model *model, const size_t *members, size_t count, const uint8_t *eliminated,
                                         tensum_semiring semiring)
{
    tensum_status status = TENSUM_OK;
    enum { MOST_KEPT = 26 };
    int64_t kept[MOST_KEPT], extents_of_kept[MOST_KEPT], total = 1;
    int32_t kept_count = 0;
    int32_t *ranks = NULL;
    const int64_t **labels = NULL, **extents = NULL;
    int64_t *extent_store = NULL;
    tensum_tensor *inputs = NULL;
    double *result = NULL;
    size_t used = 0, scope_total = 0;
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    tensum_plan *plan = NULL;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    for (size_t i = 0; i < count; i++) {
        scope_total += (size_t)model->factors[members[i]].arity;
    }
    TRY(ts_allocate(count, sizeof *ranks, "a component", &ranks));
    TRY(ts_allocate(count, sizeof *labels, "a component", &labels));
    TRY(ts_allocate(count, sizeof *extents, "a component", &extents));
    TRY(ts_allocate(count, sizeof *inputs, "a component", &inputs));
    TRY(ts_allocate(scope_total, sizeof *extent_store, "a component", &extent_store));
    for (size_t i = 0; i < count; i++) {
        const ts_factor *factor = &model->factors[members[i]];
        ranks[i] = factor->arity;
        labels[i] = model->scope + factor->first_scope;
        extents[i] = extent_store + used;
        for (int32_t m = 0; m < factor->arity; m++) {
            int64_t v = labels[i][m];
            bool known = eliminated[v] != 0;
            extent_store[used++] = model->cards[v];
            for (int32_t k = 0; k < kept_count; k++) {
                known = known || kept[k] == v;
            }
            if (!known) {
                if (kept_count == MOST_KEPT || total > (INT64_C(1) << 26)) {
                    status = ts_fail(TENSUM_STATUS_MEMORY_LIMIT, "summing variables out leaves a table of more than 2^26 entries");
                    goto done;
                }
                kept[kept_count] = v;
                extents_of_kept[kept_count++] = model->cards[v];
                total *= model->cards[v];
            }
        }
        inputs[i] = (tensum_tensor){model->values + factor->first_value, TENSUM_F64, factor->arity, extents[i], NULL, {TENSUM_CPU, 0}};
    }
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    spec.operand_count = (int64_t)count;
    spec.ranks = ranks;
    spec.labels = labels;
    spec.extents = extents;
    spec.output_rank = kept_count;
    spec.output_labels = kept;
    TRY(tensum_network_create(&spec, &network));
    TRY(tensum_order(network, NULL, NULL, &tree));
    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    plan_options.semiring = semiring;
    plan_options.dtype = TENSUM_F64;
    TRY(tensum_plan_create(network, tree, &plan_options, &plan));
    TRY(tensum_program_create(plan, NULL, NULL, &program));
    TRY(tensum_workspace_create(program, NULL, &workspace));
    TRY(ts_allocate((size_t)total, sizeof *result, "a table", &result));
    tensum_tensor output = {result, TENSUM_F64, kept_count, extents_of_kept, NULL, {TENSUM_CPU, 0}};
    tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
    arguments.inputs = inputs;
    arguments.output = &output;
    TRY(tensum_run(program, workspace, &arguments));
    TRY(ts_model_add(model, kept_count, kept, result));
done:
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    tensum_plan_release(plan);
    tensum_tree_release(tree);
    tensum_network_release(network);
    ts_free(ranks);
    ts_free(labels);
    ts_free(extents);
    ts_free(extent_store);
    ts_free(inputs);
    ts_free(result);
    return status;
}

tensum_status ts_model_eliminate(ts_model *model, const uint8_t *eliminated, tensum_semiring semiring)
{
    tensum_status status = TENSUM_OK;
    size_t n = (size_t)model->variable_count, count = model->factor_count, member_count = 0;
    int64_t *parent = NULL;
    size_t *members = NULL;
    uint8_t *gone = NULL, *touched = NULL;
    TRY(ts_allocate(n, sizeof *parent, "components", &parent));
    TRY(ts_allocate(count, sizeof *members, "components", &members));
    TRY(ts_allocate_zero(count, 1, "components", &gone));
    TRY(ts_allocate_zero(n, 1, "components", &touched));
    for (size_t v = 0; v < n; v++) {
        parent[v] = (int64_t)v;
    }
    for (size_t f = 0; f < count; f++) { /* eliminated variables that share a factor belong together */
        int64_t first = -1;
        for (int32_t m = 0; m < model->factors[f].arity; m++) {
            int64_t v = model->scope[model->factors[f].first_scope + (size_t)m];
            touched[v] = 1;
            if (eliminated[v] && first < 0) {
                first = v;
            } else if (eliminated[v]) {
                parent[root_of(parent, v)] = root_of(parent, first);
            }
        }
    }
    for (size_t v = 0; v < n; v++) {
        if (eliminated[v] && !touched[v] && semiring == TENSUM_LOG_SUM_EXP) { /* free: every value counts */
            double factor = log((double)model->cards[v]);
            TRY(ts_model_add(model, 0, NULL, &factor));
        }
        if (!eliminated[v] || !touched[v] || root_of(parent, (int64_t)v) != (int64_t)v) {
            continue;
        }
        member_count = 0;
        for (size_t f = 0; f < count; f++) {
            for (int32_t m = 0; m < model->factors[f].arity && !gone[f]; m++) {
                int64_t u = model->scope[model->factors[f].first_scope + (size_t)m];
                if (eliminated[u] && root_of(parent, u) == (int64_t)v) {
                    gone[f] = 1;
                    members[member_count++] = f;
                }
            }
        }
        TRY(eliminate_component(model, members, member_count, eliminated, semiring));
    }
    size_t left = 0;
    for (size_t f = 0; f < model->factor_count; f++) {
        if (f >= count || !gone[f]) {
            model->factors[left++] = model->factors[f];
        }
    }
    model->factor_count = left;
    for (size_t v = 0; v < n; v++) {
        model->cards[v] = eliminated[v] ? 1 : model->cards[v];
    }
done:
    ts_free(parent);
    ts_free(members);
    ts_free(gone);
    ts_free(touched);
    return status;
}
