#include "order/search.h"

#include "order/anneal.h"
#include "order/dissect.h"
#include "order/eliminate.h"
#include "order/exact.h"
#include "order/window.h"

static const char *const what = "search for a contraction order";

/* Pairs a core does in a second: what turns a predicted cost into seconds. */
#define PAIRS_PER_SECOND 2e10
#define SECONDS_PER_STEP 5e-7

bool ts_control_continue(ts_control *control, bool caller)
{
    const ts_search *search = control->search;
    if (caller && search->progress != NULL) {
        double now = ts_seconds();
        if (now - control->polled >= 0.1) {
            control->polled = now;
            double done = 0.0;
            if (search->deadline > search->started) {
                done = (now - search->started) / (search->deadline - search->started);
            } else if (search->work > 0.0) {
                done = (now - search->started) / search->work; /* of a serial search: a guess */
            }
            int wish = search->progress(search->progress_user, "order", done < 1.0 ? done : 1.0);
            if (wish != 0) {
                atomic_store(&control->cancelled, wish != 2); /* 2: the best so far will do */
                atomic_store(&control->stop, true);
            }
        }
    }
    return !atomic_load_explicit(&control->stop, memory_order_relaxed);
}

/* One independent piece of work: a first tree, or an annealing of one. The price is log2. */
typedef struct task {
    const ts_candidate *candidate; /* NULL: anneal the tree in pairs */
    uint64_t seed;
    double hot, cold;
    double allotted; /* work, or seconds by the clock */
    double seconds;  /* by the clock; 0: the budget counts work */
    ts_budget budget;
    int32_t *pairs;
    double price;
    tensum_status status;
} task;

typedef struct party {
    const ts_hypergraph *graph;
    const ts_search *search;
    const ts_recipe *recipe;
    task *tasks;
    int64_t first; /* task of those that run now */
    bool large; /* too much for one search state */
} party;

static tensum_status refine(const party *p, task *t, bool anneal)
{
    ts_state state = {0};
    int32_t *scratch = NULL;
    ts_random random;
    tensum_status status;
    if (p->large) {
        return ts_pairs_price(p->graph, t->pairs, &p->search->price, &t->price);
    }
    ts_random_seed(&random, t->seed ^ UINT64_C(0xa5a5a5a5));
    TRY(ts_state_create(&state, p->graph));
    TRY(ts_allocate(2 * (size_t)state.leaves - 1, sizeof *scratch, what, &scratch));
    ts_state_load(&state, t->pairs);
    ts_state_refresh(&state, scratch);
    if (anneal) {
        /* What making the subtrees optimal will take is kept, as far as half of the budget goes. */
        ts_budget most = t->budget;
        double need = p->recipe->width > 0 ? 3.0 * p->graph->tensor_count *
                                                 (ts_exact_work(p->recipe->width) + 8e-8 * state.layout.words)
                                           : 0.0;
        double part = 1.0 - fmin(0.5, fmax(0.02, need / most.total));
        most.left *= part;
        most.total *= part;
        if (most.deadline > 0.0) {
            most.deadline = most.start + part * (most.deadline - most.start);
        }
        double before = most.left, price;
        TRY(ts_anneal(&state, &p->search->price, t->hot, t->cold, &random, &most, &price));
        t->budget.left -= before - most.left;
    }
    if (p->recipe->width > 0) {
        bool changed;
        TRY(ts_reconfigure(&state, &p->search->price, p->recipe->width, &random, &t->budget, &changed));
    }
    t->price = ts_state_price(&state, &p->search->price);
    ts_state_store(&state, scratch, t->pairs);
done:
    ts_state_free(&state);
    ts_free(scratch);
    return status;
}

static tensum_status first_tree(const party *p, task *t, bool *found)
{
    const ts_candidate *c = t->candidate;
    double width = 0.0;
    tensum_status status = TENSUM_OK;
    switch (c->source) {
    case TS_FROM_GREEDY:
        status = ts_greedy(p->graph, 1.0, c->parameter, t->seed, t->pairs);
        t->budget.left -= 3e-6 * p->graph->tensor_count;
        break;
    case TS_FROM_SWEEP:
        status = ts_sweep(p->graph, t->seed, t->pairs);
        t->budget.left -= 3e-6 * p->graph->tensor_count;
        break;
    case TS_FROM_DEGREE:
    case TS_FROM_FILL:
        status = ts_eliminate(p->graph, c->source == TS_FROM_FILL ? TS_MINIMUM_FILL : TS_MINIMUM_DEGREE, c->parameter,
                              t->seed, 0.5 * t->budget.left, t->pairs, NULL, NULL, &width);
        t->budget.left *= 0.5;
        break;
    case TS_FROM_DISSECTION:
    case TS_FROM_METIS:
        status = ts_dissect(p->graph, c->parameter, c->outer, c->source == TS_FROM_METIS, t->seed, &t->budget, t->pairs,
                            found);
        return status;
    }
    *found = isfinite(width);
    return status;
}

static void work_on(void *argument, int64_t index, int32_t worker)
{
    party *p = argument;
    task *t = &p->tasks[p->first + index];
    bool found = true;
    t->budget.caller = worker == 0;
    if (t->seconds > 0.0) {
        t->budget.start = ts_seconds();
        t->budget.deadline = fmin(t->budget.start + t->seconds, p->search->deadline);
    }
    t->status = TENSUM_OK;
    if (t->candidate != NULL) {
        t->status = first_tree(p, t, &found);
    }
    if (t->status == TENSUM_OK && found) {
        t->status = refine(p, t, t->candidate == NULL);
    }
    if (!found) {
        t->price = INFINITY;
    }
}

static uint64_t derive(uint64_t seed, uint64_t index)
{
    uint64_t x = seed + UINT64_C(0x9e3779b97f4a7c15) * (index + 1);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 31);
}

int32_t ts_states_at_once(const ts_hypergraph *graph, const ts_search *search, int32_t threads)
{
    if (search->memory <= 0.0) {
        return threads;
    }
    double most = search->memory / (ts_state_bytes(graph) + 1.0);
    return most < 1.0 ? 1 : most < threads ? (int32_t)most : threads;
}

/* Run tasks, each with its own `allotted` work; by the clock that many seconds. */
static tensum_status run(party *p, ts_control *control, int32_t count, double *left)
{
    for (int32_t i = 0; i < count; i++) {
        task *t = &p->tasks[i];
        t->seconds = p->search->deadline > 0.0 ? t->allotted : 0.0;
        t->budget = (ts_budget){.control = control, .total = t->allotted, .left = t->allotted};
    }
    int32_t together = p->large ? count : ts_states_at_once(p->graph, p->search, count);
    for (p->first = 0; p->first < count; p->first += together) {
        ts_pool_run(p->search->pool, ts_min64(together, count - p->first), work_on, p);
    }
    for (int32_t i = 0; i < count; i++) {
        if (p->tasks[i].status != TENSUM_OK) {
            /* The message stayed on the thread that failed. */
            return ts_fail(p->tasks[i].status, p->tasks[i].status == TENSUM_STATUS_OUT_OF_MEMORY
                                                   ? "out of memory in the search for a contraction order"
                                                   : "METIS could not be used in the search for a contraction order");
        }
        *left -= p->tasks[i].budget.total - p->tasks[i].budget.left;
    }
    return TENSUM_OK;
}

/* Work that a first tree takes, without refinement. */
static double expect(const party *p, const ts_candidate *candidate)
{
    double n = p->graph->tensor_count, pins = (double)p->graph->tensor_offsets[p->graph->tensor_count];
    switch (candidate->source) {
    case TS_FROM_GREEDY:
    case TS_FROM_SWEEP:
        return 3e-6 * n;
    case TS_FROM_DISSECTION:
    case TS_FROM_METIS:
        return 1.8e-6 * pins * log2(1.0 + n / 6.0);
    default:
        return (p->large ? 1e-4 : 1e-5) * n; /* they stop themselves where it takes much more */
    }
}

/* The candidates after the first that `budget` has room for: those in front go first, and one dissection is worth the
 * larger part of it. Sets up their tasks; returns their number. */
static int32_t choose_candidates(party *p, double budget, uint64_t seed)
{
    const ts_recipe *recipe = p->recipe;
    double total = 0.0;
    int32_t count = 0;
    bool dissected = false;
    for (int32_t i = 1; i < recipe->candidate_count; i++) {
        double cost = expect(p, &recipe->candidates[i]);
        ts_source source = recipe->candidates[i].source;
        bool dissection = source == TS_FROM_DISSECTION || source == TS_FROM_METIS;
        double share = dissection && !dissected ? 0.7 : 0.25;
        if (total + cost <= share * budget) {
            total += cost;
            dissected = dissected || dissection;
            p->tasks[count].candidate = &recipe->candidates[i];
            p->tasks[count].seed = derive(seed, (uint64_t)i);
            p->tasks[count++].allotted = cost;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        /* What is over is for refinement. */
        p->tasks[i].allotted += fmax(0.25 * budget - total, 0.1 * total) / count;
    }
    return count;
}

/* Seconds a run with this price takes, near enough to tell whether a better order is worth looking for. */
static double predict(const party *p, double price)
{
    return exp2(price) / PAIRS_PER_SECOND + SECONDS_PER_STEP * p->graph->tensor_count;
}

/* Take the tasks' trees into the population (best first), each price once: equal prices are mostly equal trees. */
static void select_best(party *p, int32_t count, int32_t **population, double *prices, int32_t *size)
{
    size_t bytes = 2 * ((size_t)p->graph->tensor_count - 1) * sizeof **population;
    for (int32_t i = 0; i < count; i++) {
        const task *t = &p->tasks[i];
        int32_t at = 0;
        while (at < *size && prices[at] < t->price - 1e-9) {
            at++;
        }
        if (at == TS_CHAINS || !isfinite(t->price) || (at < *size && fabs(prices[at] - t->price) <= 1e-9)) {
            continue;
        }
        int32_t last = *size < TS_CHAINS ? (*size)++ : TS_CHAINS - 1;
        int32_t *room = population[last];
        for (int32_t k = last; k > at; k--) {
            population[k] = population[k - 1];
            prices[k] = prices[k - 1];
        }
        population[at] = room;
        prices[at] = t->price;
        memcpy(room, t->pairs, bytes);
    }
}

/* Keep, in kinds[], the best tree of each kind of first tree: annealing keeps much of where it starts from, and the
 * cheapest first tree is not always the best start. */
static void keep_kinds(const party *p, int32_t count, int32_t **kinds, double *prices)
{
    for (int32_t i = 0; i < count; i++) {
        const task *t = &p->tasks[i];
        ts_source source = t->candidate->source;
        int32_t kind = source == TS_FROM_DISSECTION || source == TS_FROM_METIS ? 0 : source == TS_FROM_GREEDY ? 1 : source == TS_FROM_SWEEP ? 2 : 3;
        if (t->price < prices[kind]) {
            prices[kind] = t->price;
            memcpy(kinds[kind], t->pairs, 2 * ((size_t)p->graph->tensor_count - 1) * sizeof **kinds);
        }
    }
}

/* The tree that a chain starts from: the kinds by rising price, from the front again if there are fewer. */
static const int32_t *start_of_chain(int32_t chain, int32_t *const *kinds, const double *prices)
{
    int32_t order[TS_CHAINS], count = 0;
    for (int32_t kind = 0; kind < TS_CHAINS; kind++) {
        if (isfinite(prices[kind])) {
            int32_t at = count++;
            while (at > 0 && prices[order[at - 1]] > prices[kind]) {
                order[at] = order[at - 1];
                at--;
            }
            order[at] = kind;
        }
    }
    return count > 0 ? kinds[order[chain % count]] : NULL;
}

/* Refine the best tree at its waist, in a small share of the work that the search was given. */
static tensum_status refine_waist(const party *p, ts_control *control, double allowed, uint64_t seed, int32_t *pairs)
{
    ts_state state = {0};
    int32_t *scratch = NULL;
    ts_random random;
    bool changed;
    double now = ts_seconds(), work = 0.02 * allowed;
    ts_budget budget = {work, work, now, 0.0, control, true};
    tensum_status status;
    if (p->search->deadline > 0.0) {
        budget.deadline = fmin(p->search->deadline, now) + 0.01 * fmax(0.0, now - p->search->started);
    }
    ts_random_seed(&random, seed);
    TRY(ts_state_create(&state, p->graph));
    TRY(ts_allocate(2 * (size_t)state.leaves - 1, sizeof *scratch, what, &scratch));
    ts_state_load(&state, pairs);
    ts_state_refresh(&state, scratch);
    TRY(ts_refine_waist(&state, &p->search->price, p->recipe->width < 8 ? p->recipe->width : 8, &random, &budget, &changed));
    if (changed) {
        ts_state_store(&state, scratch, pairs);
    }
done:
    ts_state_free(&state);
    ts_free(scratch);
    return status;
}

static tensum_status search_large(party *p, ts_control *control, double *work, int32_t *pairs)
{
    const ts_search *search = p->search;
    const ts_recipe *recipe = p->recipe;
    int32_t *population[TS_CHAINS] = {NULL}, *kinds[TS_CHAINS] = {NULL}, size = 0;
    double prices[TS_CHAINS], kind_prices[TS_CHAINS] = {INFINITY, INFINITY, INFINITY, INFINITY};
    bool clock = search->deadline > 0.0;
    double began = ts_seconds(), allowed = *work;
    uint64_t seeds = search->seed;
    tensum_status status;
    size_t steps = (size_t)p->graph->tensor_count - 1;
    int32_t room = TS_MOST_CANDIDATES;
    TRY(ts_allocate_zero((size_t)room, sizeof *p->tasks, what, &p->tasks));
    for (int32_t i = 0; i < room; i++) {
        if (i < recipe->candidate_count || i < TS_CHAINS) {
            TRY(ts_allocate(2 * steps, sizeof **population, what, &p->tasks[i].pairs));
        }
    }
    for (int32_t i = 0; i < TS_CHAINS; i++) {
        TRY(ts_allocate(2 * steps, sizeof **population, what, &population[i]));
        TRY(ts_allocate(2 * steps, sizeof **kinds, what, &kinds[i]));
    }
    /* The cheapest candidate comes alone: it may be good enough, and whatever happens there is a tree. */
    double threads = clock ? ts_pool_threads(search->pool) : 1.0;
    for (int round = 0; round < 2; round++) {
        double budget = clock ? threads * fmax(1e-3, search->deadline - ts_seconds()) : *work;
        int32_t count = 1;
        if (round == 0) {
            p->tasks[0].candidate = &recipe->candidates[0];
            p->tasks[0].seed = derive(seeds, 0);
            p->tasks[0].allotted = fmax(0.05 * budget, expect(p, &recipe->candidates[0]));
        } else {
            count = choose_candidates(p, budget, seeds);
        }
        TRY(run(p, control, count, work));
        select_best(p, count, population, prices, &size);
        keep_kinds(p, count, kinds, kind_prices);
        if (size == 0) {
            TRY(ts_greedy(p->graph, 1.0, 0.0, search->seed, population[0]));
            TRY(ts_pairs_price(p->graph, population[0], &search->price, &prices[0]));
            size = 1;
        }
        double done = clock ? ts_seconds() - began : allowed - *work;
        if (predict(p, prices[0]) < search->enough * done || atomic_load(&control->stop)) {
            goto finish;
        }
    }
    if (p->large && (recipe->anneal || recipe->width > 0)) {
        TRY(ts_search_windows(p->graph, search, recipe, control, TS_WINDOW, work, population[0]));
        goto finish;
    }
    double rest = clock ? search->deadline - ts_seconds() : *work;
    for (int32_t round = 0; round < 4 && recipe->anneal && rest > 0.0; round++) {
        static const double heat[TS_CHAINS] = {0.6, 1.0, 2.0, 0.4};
        double part = rest * (double)(1 << round) / 15.0;
        /* By the clock, the last and longest round has a chain for each thread. */
        int32_t chains = TS_CHAINS, turns = TS_CHAINS;
        if (clock) {
            chains = round == 3 && threads < TS_CHAINS ? (int32_t)threads : TS_CHAINS;
            turns = (chains + (int32_t)threads - 1) / (int32_t)threads;
        }
        for (int32_t i = 0; i < chains; i++) {
            task *t = &p->tasks[i];
            t->candidate = NULL;
            t->seed = derive(seeds, (uint64_t)(100 + 10 * round + i));
            t->hot = recipe->hot * (round < 3 ? 1.0 : heat[i]);
            t->cold = recipe->cold;
            t->allotted = part / turns;
            /* Chains go on with their own trees; the first two of the last round with the best of all. */
            const int32_t *start = round == 0 ? start_of_chain(i, kinds, kind_prices) : t->pairs;
            if (round == 3 && i < 2) {
                start = population[i < size ? i : 0];
            }
            start = start != NULL ? start : population[0];
            if (start != t->pairs) {
                memcpy(t->pairs, start, 2 * steps * sizeof *pairs);
            }
        }
        TRY(run(p, control, chains, work));
        select_best(p, chains, population, prices, &size);
        double done = clock ? ts_seconds() - began : allowed - *work;
        if (predict(p, prices[0]) < search->enough * done || atomic_load(&control->stop)) {
            break;
        }
    }
    if (recipe->width > 0 && recipe->anneal && !atomic_load(&control->stop)) {
        TRY(refine_waist(p, control, allowed, derive(seeds, 99), population[0]));
    }
finish:
    memcpy(pairs, population[0], 2 * steps * sizeof *pairs);
done:
    for (int32_t i = 0; i < room && p->tasks != NULL; i++) {
        ts_free(p->tasks[i].pairs);
    }
    ts_free(p->tasks);
    for (int32_t i = 0; i < TS_CHAINS; i++) {
        ts_free(population[i]);
        ts_free(kinds[i]);
    }
    return status;
}

tensum_status ts_search_connected(const ts_hypergraph *graph, const ts_search *search, const ts_recipe *recipe,
                                  ts_control *control, double *work, int32_t *pairs)
{
    party p = {graph, search, recipe, NULL, 0, ts_state_bytes(graph) > ts_state_room(search)};
    int32_t *bounded = NULL, most = recipe->exact ? TS_EXACT_MOST : recipe->width > 0 ? TS_SMALL : 2;
    double price, bound;
    tensum_status status;
    if (recipe->exact && graph->tensor_count > most) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "the exact order of %d tensors that hang together cannot be had, "
                       "at most %d", graph->tensor_count, (int)TS_EXACT_MOST);
    }
    if (graph->tensor_count <= TS_SMALL && graph->tensor_count <= most) {
        *work -= ts_exact_work(graph->tensor_count);
        return ts_exact_order(graph, &search->price, INFINITY, pairs, &price);
    }
    TRY(search_large(&p, control, work, pairs));
    if (recipe->exact) {
        /* Most subsets cost more than a good tree does, and are passed over. */
        TRY(ts_allocate(2 * (size_t)graph->tensor_count, sizeof *bounded, what, &bounded));
        TRY(ts_pairs_price(graph, pairs, &search->price, &bound));
        TRY(ts_exact_order(graph, &search->price, bound, bounded, &price));
        if (isfinite(price)) {
            memcpy(pairs, bounded, 2 * ((size_t)graph->tensor_count - 1) * sizeof *pairs);
        }
    }
done:
    ts_free(bounded);
    return status;
}
