/* Slicing: fix the values of some labels, run once per combination of values, add up. What is bounded is the peak of
 * intermediates held at once, as ts_schedule counts them: parts that no sliced label reaches are computed once, and
 * their values are held all the time.
 *
 * One label after the other is sliced, of those in the largest intermediate the one that costs least over all
 * slices for the bits it saves. After each the tree is bettered for the sliced network, with a price on intermediates
 * that would grow beyond the largest. Several such runs with different luck are made, the cheapest is taken. */
#include "order/anneal.h"
#include "order/exact.h"
#include "order/search.h"

static const char *const what = "slices of a contraction order";

enum { RUNS = 6 };

typedef struct slicer {
    const ts_hypergraph *graph;
    const ts_search *search;
    const ts_memory *memory;
    double most; /* elements of one intermediate, from where on the limit may be kept */
    ts_random random;
    const int32_t *start;
    bool sweeps; /* starts from a sweep of its own */
    double luck; /* scores are blurred by up to this factor */
    ts_budget budget;
    ts_pairs pairs;
    ts_state state;  /* without the sliced labels */
    int32_t *scratch;
    int64_t *holder_offsets; /* [label_count + 1] tensors that hold a label */
    int32_t *holders;
    uint8_t *varies, *reached; /* [2 n] by node: a sliced label occurs below it; the same with one label more */
    double *price_of, *size_of; /* [2 n] by node: price of step and intermediate, elements if many; relative */
    double slices; /* log2 */
    double price;  /* log2 over all slices */
    double needed; /* peak, where the limit cannot be met */
    tensum_status status;
} slicer;

/* All but the tree and its slices. */
static void release(slicer *s)
{
    ts_state_free(&s->state);
    ts_free(s->scratch);
    ts_free(s->holder_offsets);
    ts_free(s->holders);
    ts_free(s->varies);
    ts_free(s->reached);
    ts_free(s->price_of);
    ts_free(s->size_of);
    s->scratch = s->holders = NULL;
    s->holder_offsets = NULL;
    s->varies = s->reached = NULL;
    s->price_of = s->size_of = NULL;
}

static tensum_status create(slicer *s)
{
    const ts_hypergraph *graph = s->graph;
    tensum_status status;
    size_t n = (size_t)graph->tensor_count, labels = (size_t)graph->label_count;
    int64_t total = graph->tensor_offsets[n];
    s->pairs.tensor_count = graph->tensor_count;
    TRY(ts_allocate(2 * n, sizeof *s->pairs.pairs, what, &s->pairs.pairs));
    TRY(ts_allocate(labels, sizeof *s->pairs.slices, what, &s->pairs.slices));
    memcpy(s->pairs.pairs, s->start, 2 * (n - 1) * sizeof *s->start);
    TRY(ts_allocate(2 * n, sizeof *s->scratch, what, &s->scratch));
    TRY(ts_allocate_zero(2 * n, 1, what, &s->varies));
    TRY(ts_allocate_zero(2 * n, 1, what, &s->reached));
    TRY(ts_allocate(2 * n, sizeof *s->price_of, what, &s->price_of));
    TRY(ts_allocate(2 * n, sizeof *s->size_of, what, &s->size_of));
    TRY(ts_allocate_zero(labels + 1, sizeof *s->holder_offsets, what, &s->holder_offsets));
    TRY(ts_allocate((size_t)total, sizeof *s->holders, what, &s->holders));
    for (int64_t i = 0; i < total; i++) {
        s->holder_offsets[graph->tensor_labels[i]]++;
    }
    for (size_t l = 1; l <= labels; l++) {
        s->holder_offsets[l] += s->holder_offsets[l - 1];
    }
    for (int32_t t = graph->tensor_count - 1; t >= 0; t--) {
        for (int64_t i = graph->tensor_offsets[t]; i < graph->tensor_offsets[t + 1]; i++) {
            s->holders[--s->holder_offsets[graph->tensor_labels[i]]] = t;
        }
    }
done:
    return status;
}

static bool holds(const ts_state *state, int32_t node, int32_t place)
{
    return (ts_state_bits(state, node)[place / 64] >> (place % 64) & 1) != 0;
}

/* Take a label out of all nodes: what is left is one slice. */
static void clear_label(slicer *s, int32_t label)
{
    ts_state *state = &s->state;
    int32_t place = state->layout.place[label];
    double weight = s->graph->log2_extents[label];
    if (place < 0) {
        return;
    }
    for (int32_t node = state->leaves; node < 2 * state->leaves - 1; node++) {
        bool held = holds(state, state->left[node], place) || holds(state, state->right[node], place);
        state->step[node] -= held ? weight : 0.0;
    }
    for (int32_t node = 0; node < 2 * state->leaves - 1; node++) {
        if (holds(state, node, place)) {
            state->size[node] -= weight;
            ts_state_bits(state, node)[place / 64] &= ~(UINT64_C(1) << (place % 64));
        }
    }
}

/* The state of the tree in pairs, sliced labels taken out. */
static tensum_status load(slicer *s)
{
    tensum_status status;
    ts_state_free(&s->state);
    TRY(ts_state_create(&s->state, s->graph));
    ts_state_load(&s->state, s->pairs.pairs);
    ts_state_refresh(&s->state, s->scratch);
    for (int32_t i = 0; i < s->pairs.slice_count; i++) {
        clear_label(s, s->pairs.slices[i]);
    }
done:
    return status;
}

/* Mark every node at or above a tensor that holds the label. */
static void reach(const slicer *s, int32_t label, uint8_t *marks)
{
    for (int64_t i = s->holder_offsets[label]; i < s->holder_offsets[label + 1]; i++) {
        for (int32_t node = s->holders[i]; node >= 0 && !marks[node]; node = s->state.parent[node]) {
            marks[node] = 1;
        }
    }
}

/* Brings varies[], price_of[] and size_of[] up to date with the state; returns the price over all slices (log2).
 * *excess: the sum of the sizes of intermediates above 2^bar elements, relative to 2^bar. */
static double weigh(slicer *s, double bar, double *excess)
{
    const ts_state *state = &s->state;
    const ts_price *price = &s->search->price;
    size_t nodes = 2 * (size_t)state->leaves - 1;
    double reference = ts_state_price(state, price), total = 0.0, slices = exp2(s->slices);
    memset(s->varies, 0, nodes);
    for (int32_t i = 0; i < s->pairs.slice_count; i++) {
        reach(s, s->pairs.slices[i], s->varies);
    }
    *excess = 0.0;
    for (int32_t node = state->leaves; node < 2 * state->leaves - 1; node++) {
        double own = ts_step_price(price, state->step[node], reference);
        own += node != state->root ? ts_size_price(price, state->size[node], reference) : 0.0;
        s->price_of[node] = own;
        s->size_of[node] = node != state->root && state->size[node] > bar ? exp2(state->size[node] - bar) : 0.0;
        total += s->varies[node] ? own * slices : own;
        *excess += s->size_of[node];
    }
    return reference + log2(total);
}

/* What slicing `label` too would do to the price over all slices and to the excess: log2 of the factors. */
static void try_label(slicer *s, int32_t label, double *dearer, double *smaller)
{
    const ts_state *state = &s->state;
    int32_t place = state->layout.place[label];
    double weight = s->graph->log2_extents[label], share = exp2(-weight), slices = exp2(s->slices);
    double before = 0.0, after = 0.0, excess = 0.0, left = 0.0;
    memcpy(s->reached, s->varies, 2 * (size_t)state->leaves - 1);
    reach(s, label, s->reached);
    for (int32_t node = state->leaves; node < 2 * state->leaves - 1; node++) {
        double own = s->price_of[node], old = s->varies[node] ? own * slices : own;
        bool held = holds(state, state->left[node], place) || holds(state, state->right[node], place);
        before += old;
        if (s->reached[node]) {
            after += held ? own * slices : own * slices / share;
        } else {
            after += old;
        }
        excess += s->size_of[node];
        left += holds(state, node, place) ? s->size_of[node] * share : s->size_of[node];
    }
    *dearer = log2(after / before);
    *smaller = log2(excess / left);
}

static double largest_node(const slicer *s, int32_t *largest)
{
    const ts_state *state = &s->state;
    double size = 0.0;
    *largest = -1;
    for (int32_t node = state->leaves; node < 2 * state->leaves - 1; node++) {
        if (node != state->root && state->size[node] > size) { /* the output is the caller's */
            size = state->size[node];
            *largest = node;
        }
    }
    return size;
}

/* Slice one more label. false if there is none that would help. */
static bool slice_one(slicer *s)
{
    int32_t node, best = -1;
    double best_score = INFINITY, excess;
    double size = largest_node(s, &node);
    if (node < 0) {
        return false;
    }
    weigh(s, fmin(log2(s->most) - 1.0, size - 1.0), &excess);
    for (int32_t l = 0; l < s->graph->label_count; l++) {
        int32_t place = s->state.layout.place[l];
        if (place >= 0 && holds(&s->state, node, place)) {
            double dearer, smaller;
            try_label(s, l, &dearer, &smaller);
            double score = (fmax(dearer, 0.0) + 1e-3) / fmax(smaller, 1e-6);
            score *= 1.0 + s->luck * ts_random_unit(&s->random);
            if (score < best_score) {
                best_score = score;
                best = l;
            }
        }
    }
    if (best < 0) {
        return false;
    }
    s->slices += s->graph->log2_extents[best];
    s->pairs.slices[s->pairs.slice_count++] = best;
    clear_label(s, best);
    return true;
}

/* Better the tree for one slice. `share`: of the budget, for annealing. */
static tensum_status better(slicer *s, double limit, double share)
{
    tensum_status status = TENSUM_OK;
    ts_price price = s->search->price;
    bool changed;
    price.limit = limit;
    price.penalty = ts_state_price(&s->state, &s->search->price);
    if (s->budget.left <= 0.0 || (s->budget.deadline > 0.0 && ts_seconds() > s->budget.deadline)) {
        return TENSUM_OK;
    }
    if (share > 0.0) {
        ts_budget part = s->budget;
        double best;
        part.total = part.left = share * s->budget.left;
        if (part.deadline > 0.0) {
            part.start = ts_seconds();
            part.deadline = part.start + share * (s->budget.deadline - part.start);
        }
        double given = part.left;
        TRY(ts_anneal(&s->state, &price, 0.25, 0.06, &s->random, &part, &best));
        s->budget.left -= given - part.left;
    }
    TRY(ts_reconfigure(&s->state, &price, 7, &s->random, &s->budget, &changed));
done:
    return status;
}

/* Take back slices that are not needed after all. */
static tensum_status drop_slices(slicer *s)
{
    tensum_status status = TENSUM_OK;
    for (int32_t i = s->pairs.slice_count - 1; i >= 0; i--) {
        double peak;
        int32_t label = s->pairs.slices[i];
        s->pairs.slices[i] = s->pairs.slices[--s->pairs.slice_count];
        s->pairs.slices[s->pairs.slice_count] = label;
        TRY(ts_schedule_within(s->graph, s->memory, &s->pairs, &peak));
        if (peak <= s->memory->most) {
            s->slices -= s->graph->log2_extents[label];
        } else {
            s->pairs.slices[s->pairs.slice_count++] = s->pairs.slices[i];
            s->pairs.slices[i] = label;
        }
    }
done:
    return status;
}

/* Another tree to start from: a sweep, whose long stem of similar steps can be sliced with little overhead. */
static tensum_status start_from_sweep(slicer *s, uint64_t seed)
{
    ts_simplified simplified = {0};
    int32_t *core = NULL;
    tensum_status status;
    TRY(ts_simplify(s->graph, &simplified));
    TRY(ts_allocate(2 * (size_t)simplified.core.tensor_count, sizeof *core, what, &core));
    TRY(ts_sweep(&simplified.core, seed, core));
    ts_simplified_expand(&simplified, core, s->pairs.pairs);
    TRY(load(s));
    TRY(better(s, INFINITY, 0.2));
done:
    ts_simplified_free(&simplified);
    ts_free(core);
    return status;
}

static tensum_status run(slicer *s)
{
    double peak, excess, before;
    int32_t node, *kept = NULL;
    size_t steps = (size_t)s->graph->tensor_count - 1;
    tensum_status status;
    TRY(create(s));
    if (s->sweeps) {
        TRY(start_from_sweep(s, ts_random_next(&s->random)));
    } else {
        TRY(load(s));
    }
    for (int32_t round = 0;; round++) {
        double size = largest_node(s, &node);
        if (size <= log2(s->most)) {
            ts_state_store(&s->state, s->scratch, s->pairs.pairs);
            TRY(ts_schedule_within(s->graph, s->memory, &s->pairs, &peak));
            if (peak <= s->memory->most) {
                break;
            }
            s->needed = peak;
        }
        if (!slice_one(s)) {
            s->needed = fmax(s->needed, exp2(size) * fmax(s->memory->held, s->memory->kept));
            goto done;
        }
        /* While most of it is to come, the tree is bettered after every few labels only. */
        bool near = size < log2(s->most) + 12.0;
        if (near || round % 3 == 2) {
            TRY(better(s, fmax(largest_node(s, &node), log2(s->most) - 1.0), round % 4 == 3 ? 0.1 : 0.0));
        }
    }
    s->needed = 0.0;
    TRY(drop_slices(s));
    TRY(load(s));
    TRY(ts_allocate(2 * steps, sizeof *kept, what, &kept));
    memcpy(kept, s->pairs.pairs, 2 * steps * sizeof *kept);
    before = weigh(s, 0.0, &excess);
    /* The rest of the budget for the tree; price and peak decide whether it is taken. */
    TRY(better(s, log2(s->most) - 1.0 > largest_node(s, &node) ? log2(s->most) - 1.0 : largest_node(s, &node), 0.9));
    ts_state_store(&s->state, s->scratch, s->pairs.pairs);
    s->price = weigh(s, 0.0, &excess);
    TRY(ts_schedule_within(s->graph, s->memory, &s->pairs, &peak));
    if (peak > s->memory->most || s->price > before) {
        memcpy(s->pairs.pairs, kept, 2 * steps * sizeof *kept);
        s->price = before;
        TRY(ts_schedule_within(s->graph, s->memory, &s->pairs, &peak));
    }
done:
    ts_free(kept);
    return status;
}

typedef struct party {
    slicer slicers[RUNS];
    double seconds, end;
    int64_t first; /* slicer of those that run now */
} party;

static void work_on(void *argument, int64_t index, int32_t worker)
{
    party *p = argument;
    slicer *s = &p->slicers[p->first + index];
    s->budget.caller = worker == 0;
    if (p->seconds > 0.0) {
        s->budget.start = ts_seconds();
        s->budget.deadline = fmin(s->budget.start + p->seconds, p->end);
    }
    s->status = run(s);
    release(s);
}

tensum_status ts_slice(const ts_hypergraph *graph, const ts_search *search, ts_memory *memory, ts_pairs *pairs,
                       double *overhead)
{
    party *p = NULL;
    ts_control control = {.search = search};
    ts_order_cost before, after;
    tensum_status status;
    int32_t best = -1;
    atomic_init(&control.stop, false);
    atomic_init(&control.cancelled, false);
    if (ts_state_bytes(graph) > 6.0 * TS_STATE_BYTES) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "a network of %d tensors is too large to be sliced",
                       graph->tensor_count);
    }
    if (search->memory > 0.0 && ts_state_bytes(graph) > search->memory) {
        return ts_fail(TENSUM_STATUS_MEMORY_LIMIT,
                       "the search for slices needs %.0f bytes for itself, the memory limit leaves %.0f",
                       ts_state_bytes(graph), search->memory);
    }
    TRY(ts_order_cost_of(graph, pairs, &before));
    TRY(ts_allocate_zero(1, sizeof *p, what, &p));
    int32_t threads = ts_states_at_once(graph, search, ts_pool_threads(search->pool));
    if (search->deadline > 0.0) {
        p->end = search->deadline;
        p->seconds = fmax(1e-2, search->deadline - ts_seconds()) / (double)((RUNS + threads - 1) / threads);
        p->end = fmax(p->end, ts_seconds() + 1e-2);
    }
    for (int i = 0; i < RUNS; i++) {
        slicer *s = &p->slicers[i];
        s->graph = graph;
        s->search = search;
        s->memory = memory;
        s->most = memory->most / (memory->held + memory->kept);
        s->sweeps = i % 2 == 1;
        s->start = i == 2 && search->given != NULL ? search->given : pairs->pairs;
        s->luck = i < 2 ? 0.0 : 0.5;
        s->price = before.tc;
        ts_random_seed(&s->random, search->seed + (uint64_t)i);
        s->budget.total = s->budget.left = fmax(search->work * search->keep, 0.05) / RUNS;
        s->budget.control = &control;
    }
    for (p->first = 0; p->first < RUNS; p->first += threads) {
        ts_pool_run(search->pool, ts_min64(threads, RUNS - p->first), work_on, p);
    }
    for (int i = 0; i < RUNS; i++) {
        const slicer *s = &p->slicers[i];
        if (s->status != TENSUM_OK) {
            status = ts_fail(s->status, "out of memory in the search for slices");
            goto done;
        }
        if (s->needed == 0.0 && (best < 0 || s->price < p->slicers[best].price)) {
            best = i;
        }
    }
    if (atomic_load(&control.cancelled)) {
        status = ts_fail(TENSUM_STATUS_CANCELLED, "cancelled while looking for slices");
        goto done;
    }
    if (best < 0) {
        double least = INFINITY;
        for (int i = 0; i < RUNS; i++) {
            least = fmin(least, p->slicers[i].needed);
        }
        memory->needed = least;
        status = ts_fail(TENSUM_STATUS_MEMORY_LIMIT,
                         "a memory limit of %.0f elements cannot be met by slicing, %.0f would be needed", memory->most,
                         least);
        goto done;
    }
    TRY(ts_order_cost_of(graph, &p->slicers[best].pairs, &after));
    ts_pairs_free(pairs);
    *pairs = p->slicers[best].pairs;
    p->slicers[best].pairs = (ts_pairs){0};
    *overhead = after.tc - before.tc;
done:
    if (p != NULL) {
        for (int i = 0; i < RUNS; i++) {
            ts_pairs_free(&p->slicers[i].pairs);
        }
    }
    ts_free(p);
    return status;
}
