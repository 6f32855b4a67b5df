/* From any network to connected, simplified parts and back. */
#include "order/anneal.h"
#include "order/exact.h"
#include "order/search.h"
#include "order/window.h"

static const char *const what = "search for a contraction order";

/* Trees of the parts, to be joined. Ids are those of the core's tree. */
typedef struct joiner {
    int32_t *pairs, made; /* core tree; ids made so far, leaves included */
    int32_t *results;     /* [components] id that each component became */
} joiner;

/* Order the tensors of one component, given in members. */
static tensum_status search_part(const ts_hypergraph *core, const int32_t *counts, const int32_t *members,
                                 int32_t count, const ts_search *search, const ts_recipe *recipe, ts_control *control,
                                 double *work, ts_part_maker *maker, joiner *j, int32_t *result)
{
    ts_hypergraph part = {0};
    const int32_t **lists = NULL;
    int32_t *lengths = NULL, *local = NULL;
    tensum_status status;
    if (count == 1) {
        *result = members[0];
        return TENSUM_OK;
    }
    TRY(ts_allocate((size_t)count, sizeof *lists, what, &lists));
    TRY(ts_allocate((size_t)count, sizeof *lengths, what, &lengths));
    TRY(ts_allocate(2 * (size_t)count, sizeof *local, what, &local));
    for (int32_t i = 0; i < count; i++) {
        lists[i] = core->tensor_labels + core->tensor_offsets[members[i]];
        lengths[i] = (int32_t)(core->tensor_offsets[members[i] + 1] - core->tensor_offsets[members[i]]);
    }
    TRY(ts_part_make(maker, core, counts, count, lists, lengths, &part));
    TRY(ts_search_connected(&part, search, recipe, control, work, local));
    int32_t base = j->made, n = core->tensor_count;
    for (int32_t s = 0; s < count - 1; s++) {
        for (int i = 0; i < 2; i++) {
            int32_t id = local[2 * s + i];
            j->pairs[2 * (base + s - n) + i] = id < count ? members[id] : base + (id - count);
        }
    }
    j->made += count - 1;
    *result = j->made - 1;
done:
    ts_hypergraph_free(&part);
    ts_free(lists);
    ts_free(lengths);
    ts_free(local);
    return status;
}

/* Join what the components became, smallest first: greedy on tensors that hold the components' outputs only. */
static tensum_status join_components(const ts_hypergraph *core, const int32_t *component, int32_t count, joiner *j)
{
    int64_t *offsets = NULL;
    int32_t *labels = NULL, *pairs = NULL;
    uint8_t *seen = NULL;
    tensum_status status;
    int64_t total = core->tensor_offsets[core->tensor_count];
    TRY(ts_allocate_zero((size_t)count + 1, sizeof *offsets, what, &offsets));
    TRY(ts_allocate((size_t)total, sizeof *labels, what, &labels));
    TRY(ts_allocate(2 * (size_t)count, sizeof *pairs, what, &pairs));
    TRY(ts_allocate_zero((size_t)core->label_count, 1, what, &seen));
    /* Two rounds over the tensors: count each component's output labels, then place them. */
    for (int round = 0; round < 2; round++) {
        for (int32_t t = 0; t < core->tensor_count; t++) {
            for (int64_t i = core->tensor_offsets[t]; i < core->tensor_offsets[t + 1]; i++) {
                int32_t l = core->tensor_labels[i];
                if (core->is_output[l] && seen[l] == round) {
                    seen[l]++;
                    if (round == 0) {
                        offsets[component[t] + 1]++;
                    } else {
                        labels[offsets[component[t]]++] = l;
                    }
                }
            }
        }
        for (int32_t c = 0; c < count && round == 0; c++) {
            offsets[c + 1] += offsets[c];
        }
    }
    for (int32_t c = count; c > 0; c--) {
        offsets[c] = offsets[c - 1]; /* placing moved each start to its end */
    }
    offsets[0] = 0;
    ts_hypergraph outputs = *core;
    outputs.tensor_count = count;
    outputs.tensor_offsets = offsets;
    outputs.tensor_labels = labels;
    TRY(ts_greedy(&outputs, 1.0, 0.0, 0, pairs));
    int32_t base = j->made, n = core->tensor_count;
    for (int32_t s = 0; s < count - 1; s++) {
        for (int i = 0; i < 2; i++) {
            int32_t id = pairs[2 * s + i];
            j->pairs[2 * (base + s - n) + i] = id < count ? j->results[id] : base + (id - count);
        }
    }
    j->made += count - 1;
done:
    ts_free(offsets);
    ts_free(labels);
    ts_free(pairs);
    ts_free(seen);
    return status;
}

/* Best tree of the core: component by component, work shared by size. */
static tensum_status search_core(const ts_hypergraph *core, const ts_search *search, const ts_recipe *recipe,
                                 ts_control *control, double *work, int32_t *pairs)
{
    ts_part_maker maker = {0};
    int32_t *component = NULL, *scratch = NULL, *starts = NULL, *members = NULL;
    joiner j = {pairs, core->tensor_count, NULL};
    tensum_status status;
    size_t n = (size_t)core->tensor_count, labels = (size_t)core->label_count;
    TRY(ts_part_maker_create(core->label_count, &maker));
    TRY(ts_allocate(n, sizeof *component, what, &component));
    TRY(ts_allocate_zero(labels, sizeof *scratch, what, &scratch));
    TRY(ts_allocate_zero(n + 1, sizeof *starts, what, &starts));
    TRY(ts_allocate(n, sizeof *members, what, &members));
    int32_t count = ts_components(core, scratch, component);
    TRY(ts_allocate((size_t)count, sizeof *j.results, what, &j.results));
    for (size_t t = 0; t < n; t++) {
        starts[component[t] + 1]++;
    }
    for (int32_t c = 0; c < count; c++) {
        starts[c + 1] += starts[c];
    }
    for (size_t t = n; t-- > 0;) {
        members[--starts[component[t] + 1]] = (int32_t)t;
    }
    for (int32_t c = 0; c < count; c++) {
        starts[c] = starts[c + 1];
    }
    starts[count] = core->tensor_count;
    memset(scratch, 0, labels * sizeof *scratch);
    for (int64_t i = 0; i < core->tensor_offsets[n]; i++) {
        scratch[core->tensor_labels[i]]++;
    }
    double whole = *work;
    for (int32_t c = 0; c < count; c++) {
        int32_t size = starts[c + 1] - starts[c];
        double share = (double)size / (double)n, part = whole * share, given = part;
        ts_search mine = *search;
        if (search->deadline > 0.0) {
            double now = ts_seconds(), left = (double)size / (double)(core->tensor_count - starts[c]);
            mine.deadline = now + left * fmax(0.0, search->deadline - now);
        }
        TRY(search_part(core, scratch, members + starts[c], size, &mine, recipe, control, &part, &maker, &j,
                        &j.results[c]));
        *work -= given - part;
    }
    TRY(join_components(core, component, count, &j));
done:
    ts_part_maker_free(&maker);
    ts_free(component);
    ts_free(scratch);
    ts_free(starts);
    ts_free(members);
    ts_free(j.results);
    return status;
}

/* Simplification may cost a little: make small subtrees of the whole tree optimal, within what is left. */
static tensum_status polish(const ts_hypergraph *graph, const ts_search *search, int32_t width, ts_control *control,
                            double work, int32_t *pairs)
{
    ts_state state = {0};
    int32_t *scratch = NULL;
    ts_random random;
    bool changed;
    tensum_status status;
    if (ts_state_bytes(graph) > ts_state_room(search)) {
        return TENSUM_OK;
    }
    ts_random_seed(&random, search->seed);
    TRY(ts_state_create(&state, graph));
    TRY(ts_allocate(2 * (size_t)graph->tensor_count - 1, sizeof *scratch, what, &scratch));
    ts_state_load(&state, pairs);
    ts_state_refresh(&state, scratch);
    double now = search->deadline > 0.0 ? ts_seconds() : 0.0;
    ts_budget budget = {work, work, now, 0.0, control, true};
    if (search->deadline > 0.0) {
        /* Little after a search that used its time up; all that is left after one that ended early. */
        budget.deadline = fmax(now + 0.05 * (now - search->started),
                               search->deadline - search->keep * (search->deadline - search->started));
    }
    TRY(ts_reconfigure(&state, &search->price, width, &random, &budget, &changed));
    ts_state_store(&state, scratch, pairs);
done:
    ts_state_free(&state);
    ts_free(scratch);
    return status;
}

/* A tree that somebody had: annealed from not so hot, its small subtrees made optimal, in this share of the budget. */
tensum_status ts_better_start(const ts_hypergraph *graph, const ts_search *search, double share, int32_t *pairs,
                              double *price)
{
    ts_state state = {0};
    ts_control control = {.search = search};
    int32_t *scratch = NULL;
    ts_random random;
    bool changed;
    double best;
    tensum_status status = TENSUM_OK;
    atomic_init(&control.stop, false);
    atomic_init(&control.cancelled, false);
    if (graph->tensor_count > 2 && ts_state_bytes(graph) <= ts_state_room(search)) {
        ts_random_seed(&random, search->seed);
        TRY(ts_state_create(&state, graph));
        TRY(ts_allocate(2 * (size_t)graph->tensor_count - 1, sizeof *scratch, what, &scratch));
        ts_state_load(&state, pairs);
        ts_state_refresh(&state, scratch);
        double now = ts_seconds(), work = share * search->work, end = 0.0;
        if (search->deadline > 0.0) {
            end = now + share * fmax(0.0, search->deadline - now);
        }
        ts_budget budget = {0.5 * work, 0.5 * work, now, end > 0.0 ? 0.5 * (now + end) : 0.0, &control, true};
        TRY(ts_anneal(&state, &search->price, 0.25, 0.06, &random, &budget, &best));
        budget = (ts_budget){0.5 * work, 0.5 * work, ts_seconds(), end, &control, true};
        TRY(ts_reconfigure(&state, &search->price, 8, &random, &budget, &changed));
        ts_state_store(&state, scratch, pairs);
    }
    TRY(ts_pairs_price(graph, pairs, &search->price, price));
    if (atomic_load(&control.cancelled)) {
        status = ts_fail(TENSUM_STATUS_CANCELLED, "cancelled while looking for a contraction order");
    }
done:
    ts_state_free(&state);
    ts_free(scratch);
    return status;
}

tensum_status ts_search_network(const ts_hypergraph *graph, const ts_search *search, const ts_recipe *recipe,
                                ts_pairs *pairs)
{
    ts_simplified simplified = {0};
    int32_t *core_pairs = NULL;
    ts_control control = {.search = search};
    double price, work = search->work * (1.0 - search->keep), n = graph->tensor_count;
    tensum_status status = TENSUM_OK;
    pairs->tensor_count = graph->tensor_count;
    if (graph->tensor_count < 2) {
        return TENSUM_OK;
    }
    atomic_init(&control.stop, false);
    atomic_init(&control.cancelled, false);
    if (graph->tensor_count <= (recipe->width > 0 ? TS_SMALL : 2)) {
        return ts_exact_order(graph, &search->price, INFINITY, pairs->pairs, &price);
    }
    if (recipe->exact && graph->tensor_count <= TS_EXACT_MOST) {
        return ts_search_connected(graph, search, recipe, &control, &work, pairs->pairs); /* outer products too */
    }
    TRY(ts_simplify(graph, &simplified));
    TRY(ts_allocate(2 * (size_t)simplified.core.tensor_count, sizeof *core_pairs, what, &core_pairs));
    ts_search mine = *search;
    if (search->deadline > 0.0) {
        mine.deadline = search->deadline - (0.03 + search->keep) * (search->deadline - search->started);
    }
    TRY(search_core(&simplified.core, &mine, recipe, &control, &work, core_pairs));
    ts_simplified_expand(&simplified, core_pairs, pairs->pairs);
    if (recipe->width > 0 && !atomic_load(&control.stop)) {
        int32_t width = recipe->width < 8 ? recipe->width : 8;
        TRY(polish(graph, search, width, &control, fmax(work, 0.05 * search->work) + 1e-5 * n, pairs->pairs));
    }
    if (atomic_load(&control.cancelled)) {
        status = ts_fail(TENSUM_STATUS_CANCELLED, "cancelled while looking for a contraction order");
    }
done:
    ts_simplified_free(&simplified);
    ts_free(core_pairs);
    return status;
}
