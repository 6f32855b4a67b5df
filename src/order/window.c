#include "order/window.h"

#include "order/anneal.h"
#include "order/exact.h"

static const char *const what = "windows of a contraction order";

enum { ROUNDS = 3 };

tensum_status ts_pairs_price(const ts_hypergraph *graph, const int32_t *pairs, const ts_price *price, double *value)
{
    ts_walk walk = {.graph = graph};
    ts_log_sum total = TS_LOG_SUM_INIT;
    tensum_status status;
    int32_t n = graph->tensor_count;
    TRY(ts_walk_start(&walk, graph));
    for (int32_t s = 0; s < n - 1; s++) {
        double step = price->pairs, size = 0.0;
        TRY(ts_walk_step(&walk, pairs[2 * s], pairs[2 * s + 1], n + s));
        for (int32_t i = 0; i < walk.joined_count; i++) {
            step += graph->log2_extents[walk.joined[i]];
        }
        for (int32_t i = 0; i < walk.lengths[n + s]; i++) {
            size += graph->log2_extents[walk.lists[n + s][i]];
        }
        ts_log_sum_add(&total, step);
        if (s < n - 2 && isfinite(price->moved)) {
            ts_log_sum_add(&total, price->power * size + price->moved);
        }
    }
    *value = ts_log_sum_value(&total);
done:
    ts_walk_free(&walk);
    return status;
}

/* The labels of every node of a tree, and its links. */
typedef struct labelled_tree {
    int32_t n, *left, *right;
    int32_t *leaves; /* [2 n - 1] below each node */
    size_t *offsets; /* [2 n] */
    int32_t *labels;
    size_t capacity;
} labelled_tree;

static void tree_free(labelled_tree *tree)
{
    ts_free(tree->left);
    ts_free(tree->right);
    ts_free(tree->leaves);
    ts_free(tree->offsets);
    ts_free(tree->labels);
}

static tensum_status add_labels(labelled_tree *tree, const ts_walk *walk, int32_t node)
{
    size_t used = tree->offsets[node], count = (size_t)walk->lengths[node];
    tensum_status status = ts_reserve(used + count, sizeof *tree->labels, what, &tree->capacity, &tree->labels);
    if (status == TENSUM_OK) {
        if (count > 0) {
            memcpy(tree->labels + used, walk->lists[node], count * sizeof *tree->labels);
        }
        tree->offsets[node + 1] = used + count;
    }
    return status;
}

static tensum_status label_tree(const ts_hypergraph *graph, const int32_t *pairs, labelled_tree *tree)
{
    ts_walk walk = {.graph = graph};
    tensum_status status;
    int32_t n = graph->tensor_count;
    size_t nodes = 2 * (size_t)n - 1;
    *tree = (labelled_tree){.n = n};
    TRY(ts_allocate(nodes, sizeof *tree->left, what, &tree->left));
    TRY(ts_allocate(nodes, sizeof *tree->right, what, &tree->right));
    TRY(ts_allocate(nodes, sizeof *tree->leaves, what, &tree->leaves));
    TRY(ts_allocate_zero(nodes + 1, sizeof *tree->offsets, what, &tree->offsets));
    TRY(ts_walk_start(&walk, graph));
    for (int32_t t = 0; t < n; t++) {
        tree->left[t] = tree->right[t] = -1;
        tree->leaves[t] = 1;
        TRY(add_labels(tree, &walk, t));
    }
    for (int32_t s = 0; s < n - 1; s++) {
        int32_t a = pairs[2 * s], b = pairs[2 * s + 1];
        tree->left[n + s] = a;
        tree->right[n + s] = b;
        tree->leaves[n + s] = tree->leaves[a] + tree->leaves[b];
        TRY(ts_walk_step(&walk, a, b, n + s));
        TRY(add_labels(tree, &walk, n + s));
    }
done:
    ts_walk_free(&walk);
    return status;
}

typedef struct window {
    int32_t *frontier, *inside; /* nodes below it; its own nodes, the top one last, children before parents */
    int32_t count;              /* of frontier */
    ts_hypergraph part;
    int32_t *pairs;
    ts_budget budget;
    double seconds;
    uint64_t seed;
    tensum_status status;
} window;

typedef struct party {
    const ts_search *search;
    const ts_recipe *recipe;
    window *windows;
    int32_t count;
} party;

static void work_on(void *argument, int64_t index, int32_t worker)
{
    party *p = argument;
    window *w = &p->windows[index];
    ts_state state = {0};
    int32_t *scratch = NULL;
    ts_random random;
    double price;
    bool changed;
    tensum_status status;
    w->budget.caller = worker == 0;
    if (w->seconds > 0.0) {
        w->budget.start = ts_seconds();
        w->budget.deadline = w->budget.start + w->seconds;
    }
    ts_random_seed(&random, w->seed);
    TRY(ts_state_create(&state, &w->part));
    TRY(ts_allocate(2 * (size_t)w->count - 1, sizeof *scratch, what, &scratch));
    ts_state_load(&state, w->pairs);
    ts_state_refresh(&state, scratch);
    if (p->recipe->anneal) {
        ts_budget most = w->budget;
        most.left *= 0.6;
        most.total *= 0.6;
        if (most.deadline > 0.0) {
            most.deadline = most.start + 0.6 * w->seconds;
        }
        double before = most.left;
        TRY(ts_anneal(&state, &p->search->price, 0.6 * p->recipe->hot, p->recipe->cold, &random, &most, &price));
        w->budget.left -= before - most.left;
    }
    if (p->recipe->width > 0) {
        TRY(ts_reconfigure(&state, &p->search->price, p->recipe->width, &random, &w->budget, &changed));
    }
    ts_state_store(&state, scratch, w->pairs);
done:
    ts_state_free(&state);
    ts_free(scratch);
    w->status = status;
}

/* Open nodes, the one with the most leaves first, until the window is full. */
static tensum_status grow(const labelled_tree *tree, int32_t top, int32_t size, window *w)
{
    tensum_status status;
    int32_t inside = 0, *heap;
    int32_t room = size < tree->leaves[top] ? size : tree->leaves[top];
    TRY(ts_allocate((size_t)room + 1, sizeof *w->frontier, what, &w->frontier));
    TRY(ts_allocate((size_t)room + 1, sizeof *w->inside, what, &w->inside));
    heap = w->frontier; /* a heap by leaves below */
    heap[0] = top;
    w->count = 1;
    while (w->count < room && tree->leaves[heap[0]] > 1) {
        int32_t node = heap[0], put[2] = {tree->left[node], tree->right[node]};
        w->inside[inside++] = node;
        for (int k = 0; k < 2; k++) {
            int32_t i = k == 0 ? 0 : w->count++;
            while (i > 0 && tree->leaves[put[k]] > tree->leaves[heap[(i - 1) / 2]]) {
                heap[i] = heap[(i - 1) / 2];
                i = (i - 1) / 2;
            }
            for (;;) {
                int32_t child = 2 * i + 1;
                if (child >= w->count) {
                    break;
                }
                child += child + 1 < w->count && tree->leaves[heap[child + 1]] > tree->leaves[heap[child]];
                if (tree->leaves[heap[child]] <= tree->leaves[put[k]]) {
                    break;
                }
                heap[i] = heap[child];
                i = child;
            }
            heap[i] = put[k];
        }
    }
    /* Parents were opened before their children: turned round, it is the order of steps. */
    for (int32_t i = 0; i < inside / 2; i++) {
        int32_t swap = w->inside[i];
        w->inside[i] = w->inside[inside - 1 - i];
        w->inside[inside - 1 - i] = swap;
    }
done:
    return status;
}

/* The window as a network with a tree. counts[] is zero between uses; number[] [2 n - 1] is scratch. */
static tensum_status cut_out(const ts_hypergraph *graph, const labelled_tree *tree, ts_part_maker *maker,
                             int32_t *counts, int32_t *number, window *w)
{
    const int32_t **lists = NULL;
    int32_t *lengths = NULL, top = w->inside[w->count - 2];
    tensum_status status;
    TRY(ts_allocate((size_t)w->count, sizeof *lists, what, &lists));
    TRY(ts_allocate((size_t)w->count, sizeof *lengths, what, &lengths));
    TRY(ts_allocate(2 * (size_t)w->count, sizeof *w->pairs, what, &w->pairs));
    for (int32_t i = 0; i < w->count; i++) {
        size_t first = tree->offsets[w->frontier[i]];
        lists[i] = tree->labels + first;
        lengths[i] = (int32_t)(tree->offsets[w->frontier[i] + 1] - first);
        number[w->frontier[i]] = i;
        for (int32_t k = 0; k < lengths[i]; k++) {
            counts[lists[i][k]]++;
        }
    }
    /* One holder more stands for the rest of the network. */
    for (size_t k = tree->offsets[top]; k < tree->offsets[top + 1]; k++) {
        counts[tree->labels[k]]++;
    }
    status = ts_part_make(maker, graph, counts, w->count, lists, lengths, &w->part);
    for (int32_t i = 0; i < w->count; i++) {
        for (int32_t k = 0; k < lengths[i]; k++) {
            counts[lists[i][k]] = 0;
        }
    }
    TRY(status);
    for (int32_t s = 0; s < w->count - 1; s++) {
        w->pairs[2 * s] = number[tree->left[w->inside[s]]];
        w->pairs[2 * s + 1] = number[tree->right[w->inside[s]]];
        number[w->inside[s]] = w->count + s;
    }
done:
    ts_free(lists);
    ts_free(lengths);
    return status;
}

static void put_back(labelled_tree *tree, const window *w)
{
    for (int32_t s = 0; s < w->count - 1; s++) {
        int32_t children[2];
        for (int i = 0; i < 2; i++) {
            int32_t id = w->pairs[2 * s + i];
            children[i] = id < w->count ? w->frontier[id] : w->inside[id - w->count];
        }
        tree->left[w->inside[s]] = children[0];
        tree->right[w->inside[s]] = children[1];
    }
}

static tensum_status one_round(const ts_hypergraph *graph, party *p, ts_control *control, int32_t size,
                               uint64_t seed, double part, double seconds, double *work, int32_t *pairs)
{
    labelled_tree tree = {0};
    ts_part_maker maker = {0};
    int32_t *counts = NULL, *number = NULL, *tops = NULL, waiting = 0;
    tensum_status status;
    int32_t n = graph->tensor_count;
    size_t nodes = 2 * (size_t)n - 1;
    TRY(label_tree(graph, pairs, &tree));
    TRY(ts_part_maker_create(graph->label_count, &maker));
    TRY(ts_allocate_zero((size_t)graph->label_count, sizeof *counts, what, &counts));
    TRY(ts_allocate(nodes, sizeof *number, what, &number));
    TRY(ts_allocate((size_t)n, sizeof *tops, what, &tops));
    TRY(ts_allocate_zero((size_t)n, sizeof *p->windows, what, &p->windows));
    tops[waiting++] = 2 * n - 2;
    while (waiting > 0) {
        window *w = &p->windows[p->count];
        int32_t top = tops[--waiting];
        p->count++;
        TRY(grow(&tree, top, size, w));
        TRY(cut_out(graph, &tree, &maker, counts, number, w));
        for (int32_t i = 0; i < w->count; i++) {
            if (tree.leaves[w->frontier[i]] > 2) {
                tops[waiting++] = w->frontier[i];
            }
        }
    }
    int32_t threads = ts_pool_threads(p->search->pool);
    double all = 0.0;
    for (int32_t i = 0; i < p->count; i++) {
        all += p->windows[i].count;
    }
    for (int32_t i = 0; i < p->count; i++) {
        window *w = &p->windows[i];
        double share = w->count / all;
        w->budget.total = w->budget.left = part * share;
        w->budget.control = control;
        w->seconds = seconds * share * threads;
        w->seed = seed + (uint64_t)i;
    }
    ts_pool_run(p->search->pool, p->count, work_on, p);
    for (int32_t i = 0; i < p->count; i++) {
        if (p->windows[i].status != TENSUM_OK) {
            status = ts_fail(p->windows[i].status, "out of memory in the search for a contraction order");
            goto done;
        }
        *work -= p->windows[i].budget.total - p->windows[i].budget.left;
        put_back(&tree, &p->windows[i]);
    }
    ts_links_to_pairs(n, tree.left, tree.right, 2 * n - 2, number, pairs);
done:
    for (int32_t i = 0; i < p->count; i++) {
        ts_free(p->windows[i].frontier);
        ts_free(p->windows[i].inside);
        ts_free(p->windows[i].pairs);
        ts_hypergraph_free(&p->windows[i].part);
    }
    ts_free(p->windows);
    p->windows = NULL;
    p->count = 0;
    tree_free(&tree);
    ts_part_maker_free(&maker);
    ts_free(counts);
    ts_free(number);
    ts_free(tops);
    return status;
}

tensum_status ts_search_windows(const ts_hypergraph *graph, const ts_search *search, const ts_recipe *recipe,
                                ts_control *control, int32_t size, double *work, int32_t *pairs)
{
    party p = {search, recipe, NULL, 0};
    tensum_status status = TENSUM_OK;
    for (int32_t round = 0; round < ROUNDS; round++) {
        double left = 1.0 / (ROUNDS - round), seconds = 0.0;
        if (search->deadline > 0.0) {
            seconds = left * (search->deadline - ts_seconds());
        }
        if (search->deadline > 0.0 ? seconds <= 0.0 : *work <= 0.0) {
            break;
        }
        /* Sizes differ so that borders fall elsewhere. */
        TRY(one_round(graph, &p, control, size - round * size / 4, search->seed + 1000003u * (uint64_t)round,
                      *work * left, seconds, work, pairs));
        if (atomic_load(&control->stop)) {
            break;
        }
    }
done:
    return status;
}
