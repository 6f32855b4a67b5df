/* order: costs, every optimizer against trees tried one by one, slices against a limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "order/anneal.h"
#include "order/dissect.h"
#include "order/eliminate.h"
#include "order/exact.h"
#include "order/metis.h"
#include "order/search.h"
#include "order/window.h"

#define OK(call) assert_int_equal((call), TENSUM_OK)

/* cmocka compares in single precision */
#define assert_near(value, expected, error) near_or_fail((value), (expected), (error), __LINE__)
static void near_or_fail(double value, double expected, double error, int line)
{
    if (!(fabs(value - expected) <= error)) {
        fail_msg("line %d: %.12g, expected %.12g", line, value, expected);
    }
}

/* ---- networks to try ---- */

enum { MOST_TENSORS = 4000, MOST_PINS = 40000, MOST_LABELS = 20000 };

typedef struct network {
    ts_hypergraph graph;
    int64_t offsets[MOST_TENSORS + 1];
    int32_t labels[MOST_PINS];
    double extents[MOST_LABELS];
    uint8_t outputs[MOST_LABELS];
} network;
static network made;

static void begin(int32_t labels)
{
    memset(&made, 0, sizeof made);
    made.graph = (ts_hypergraph){0, labels, made.offsets, made.labels, made.extents, made.outputs};
    for (int32_t l = 0; l < labels; l++) {
        made.extents[l] = 1.0;
    }
}
static void add(int32_t count, const int32_t *labels)
{
    int64_t used = made.offsets[made.graph.tensor_count];
    for (int32_t i = 0; i < count; i++) {
        made.labels[used++] = labels[i];
    }
    made.offsets[++made.graph.tensor_count] = used;
}

/* Each tensor holds each label with the given chance. */
static void random_network(ts_random *random, int32_t tensors, int32_t labels, double chance)
{
    begin(labels);
    for (int32_t l = 0; l < labels; l++) {
        made.extents[l] = log2((double)(2 + ts_random_below(random, 6)));
        made.outputs[l] = ts_random_below(random, 6) == 0;
    }
    for (int32_t t = 0; t < tensors; t++) {
        int32_t held[64], count = 0;
        for (int32_t l = 0; l < labels; l++) {
            if (ts_random_unit(random) < chance) {
                held[count++] = l;
            }
        }
        add(count, held);
    }
}

static void grid(int32_t rows, int32_t columns)
{
    begin(2 * rows * columns);
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t c = 0; c < columns; c++) {
            int32_t held[4], count = 0, at = r * columns + c, right = rows * columns;
            if (r > 0) {
                held[count++] = at - columns;
            }
            if (r + 1 < rows) {
                held[count++] = at;
            }
            if (c > 0) {
                held[count++] = right + at - 1;
            }
            if (c + 1 < columns) {
                held[count++] = right + at;
            }
            add(count, held);
        }
    }
}

/* ---- costs by definition: sets as masks, for up to 64 labels and 12 tensors ---- */

static uint64_t mask_of(int32_t tensor)
{
    uint64_t mask = 0;
    for (int64_t i = made.offsets[tensor]; i < made.offsets[tensor + 1]; i++) {
        mask |= UINT64_C(1) << made.labels[i];
    }
    return mask;
}
static double weight_of(uint64_t labels)
{
    double weight = 0.0;
    for (; labels != 0; labels &= labels - 1) {
        weight += made.extents[__builtin_ctzll(labels)];
    }
    return weight;
}
/* Labels that the product of a set of tensors keeps. */
static uint64_t open_of(uint32_t tensors)
{
    uint64_t inside = 0, outside = 0;
    for (int32_t t = 0; t < made.graph.tensor_count; t++) {
        *((tensors >> t & 1) != 0 ? &inside : &outside) |= mask_of(t);
    }
    for (int32_t l = 0; l < made.graph.label_count; l++) {
        outside |= made.outputs[l] ? UINT64_C(1) << l : 0;
    }
    return inside & outside;
}
/* Fewest pairs of any tree over the tensors. */
static double fewest(uint32_t tensors)
{
    double best = INFINITY;
    if ((tensors & (tensors - 1)) == 0) {
        return 0.0;
    }
    for (uint32_t part = (tensors - 1) & tensors; part != 0; part = (part - 1) & tensors) {
        if (part < (tensors ^ part)) {
            continue; /* the other way round */
        }
        double pairs = exp2(weight_of(open_of(part) | open_of(tensors ^ part)));
        best = fmin(best, pairs + fewest(part) + fewest(tensors ^ part));
    }
    return best;
}
/* Pairs of one tree, less what summing single labels out of inputs takes. */
static double pairs_of(const int32_t *steps)
{
    uint32_t sets[128];
    double total = 0.0;
    int32_t n = made.graph.tensor_count;
    for (int32_t t = 0; t < n; t++) {
        sets[t] = 1u << t;
    }
    for (int32_t s = 0; s < n - 1; s++) {
        uint32_t a = sets[steps[2 * s]], b = sets[steps[2 * s + 1]];
        assert_int_equal(a & b, 0);
        sets[n + s] = a | b;
        total += exp2(weight_of(open_of(a) | open_of(b)));
    }
    assert_int_equal(sets[2 * n - 2], (1u << n) - 1);
    return total;
}
static double reductions(void)
{
    double total = 0.0;
    for (int32_t t = 0; t < made.graph.tensor_count; t++) {
        total += open_of(1u << t) != mask_of(t) ? exp2(weight_of(mask_of(t))) : 0.0;
    }
    return total;
}

static const ts_optimizer *method(const char *name)
{
    int i = 0;
    while (ts_optimizer_at(i) != NULL && strcmp(ts_optimizer_at(i)->name, name) != 0) {
        i++;
    }
    return ts_optimizer_at(i);
}

static void check_tree(const int32_t *steps, int32_t n)
{
    uint8_t *used = calloc(2 * (size_t)n, 1);
    for (int32_t s = 0; s < n - 1; s++) {
        for (int i = 0; i < 2; i++) {
            int32_t id = steps[2 * s + i];
            assert_in_range(id, 0, n + s - 1);
            assert_int_equal(used[id]++, 0);
        }
    }
    free(used);
}

static void refuses(tensum_status status, const char *part)
{
    assert_int_equal(status, TENSUM_STATUS_INVALID_PATH);
    if (strstr(tensum_last_error(), part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", tensum_last_error(), part);
    }
}

/* ---- costs ---- */

static void costs_are_what_they_are_called(void **state)
{
    (void)state;
    /* ij, jk, kl, m -> il with i 2, j 4, k 8, l 16, m 32, contracted ((ij jk) kl) m */
    begin(5);
    for (int l = 0; l < 5; l++) {
        made.extents[l] = l + 1;
    }
    made.outputs[0] = made.outputs[3] = 1;
    add(2, (const int32_t[]){0, 1});
    add(2, (const int32_t[]){1, 2});
    add(2, (const int32_t[]){2, 3});
    add(1, (const int32_t[]){4});
    int32_t steps[] = {0, 1, 4, 2, 5, 3};
    ts_pairs pairs = {4, steps, 0, NULL};
    ts_order_cost cost;
    OK(ts_order_cost_of(&made.graph, &pairs, &cost));
    /* m is summed first; then 2*4*8, 2*8*16, 2*16 pairs */
    assert_near(exp2(cost.tc), 32 + 64 + 256 + 32, 1e-6);
    assert_near(exp2(cost.sc), 128, 1e-6);
    assert_near(exp2(cost.rw), (32 + 1) + (8 + 32 + 16) + (16 + 128 + 32) + (32 + 1 + 32), 1e-6);
    /* sliced j: the sum over m is done once, everything else for each of 4 slices */
    int32_t slice = 1;
    pairs.slice_count = 1;
    pairs.slices = &slice;
    OK(ts_order_cost_of(&made.graph, &pairs, &cost));
    assert_near(exp2(cost.tc), 32 + 4 * (16 + 256 + 32), 1e-6);
    assert_near(exp2(cost.sc), 128, 1e-6);
    double peak;
    OK(ts_schedule(&made.graph, &pairs, &peak, NULL));
    /* the sum over m (1) is kept for all slices; ik (16) and il (32) are held together */
    assert_near(peak, 1 + 16 + 32, 1e-9);
}

static void random_costs_agree_with_the_definition(void **state)
{
    (void)state;
    ts_random random;
    ts_random_seed(&random, 5);
    for (int trial = 0; trial < 60; trial++) {
        int32_t n = 2 + (int32_t)ts_random_below(&random, 8), steps[2 * 12];
        random_network(&random, n, 10, 0.3);
        OK(ts_greedy(&made.graph, 1.0, 0.5, (uint64_t)trial, steps));
        ts_pairs pairs = {n, steps, 0, NULL};
        ts_order_cost cost;
        OK(ts_order_cost_of(&made.graph, &pairs, &cost));
        assert_near(cost.tc, log2(pairs_of(steps) + reductions()), 1e-9);
    }
}

/* ---- optimizers ---- */

static void exact_orders_are_the_best_of_all(void **state)
{
    (void)state;
    ts_random random;
    ts_price flops = TS_PRICE_FLOPS;
    ts_random_seed(&random, 11);
    for (int trial = 0; trial < 80; trial++) {
        int32_t n = 2 + (int32_t)ts_random_below(&random, 6), steps[2 * 12];
        double best;
        random_network(&random, n, 9, trial % 2 == 0 ? 0.3 : 0.15);
        OK(ts_exact_order(&made.graph, &flops, INFINITY, steps, &best));
        double expected = log2(fewest((1u << n) - 1));
        assert_near(best, expected, 1e-9);
        assert_near(log2(pairs_of(steps)), expected, 1e-9);
    }
}

static void the_batched_product_is_ordered_by_its_cost(void **state)
{
    (void)state;
    /* bgk, bkd, bk -> bgd with b 64, g 8, k 4096, d 128: first the small pair (0, 2) */
    begin(4); /* b g k d */
    made.extents[0] = 6;
    made.extents[1] = 3;
    made.extents[2] = 12;
    made.extents[3] = 7;
    made.outputs[0] = made.outputs[1] = made.outputs[3] = 1;
    add(3, (const int32_t[]){0, 1, 2});
    add(3, (const int32_t[]){0, 2, 3});
    add(2, (const int32_t[]){0, 2});
    ts_search search = {.work = 1.0, .price = TS_PRICE_FLOPS};
    for (int i = 0; ts_optimizer_at(i) != NULL; i++) {
        int32_t steps[4];
        ts_pairs pairs = {3, steps, 0, NULL};
        OK(ts_search_network(&made.graph, &search, ts_optimizer_at(i)->recipe, &pairs));
        assert_int_equal(steps[0] + steps[1], 2);
        assert_int_equal(steps[0] * steps[1], 0);
    }
}

/* METIS is not installed everywhere. */
static bool usable(int method) { return strcmp(ts_optimizer_at(method)->name, "metis") != 0 || ts_metis_installed(); }

static void every_method_makes_valid_trees(void **state)
{
    (void)state;
    ts_random random;
    ts_random_seed(&random, 3);
    for (int trial = 0; trial < 12; trial++) {
        int32_t n = (int32_t)ts_random_below(&random, 12);
        random_network(&random, n, 14, 0.05 + 0.05 * (trial % 4)); /* often in several components */
        double best = n > 1 && n < 9 ? fewest((1u << n) - 1) : 0.0;
        for (int i = 0; ts_optimizer_at(i) != NULL; i++) {
            for (int objective = 0; usable(i) && objective < 4; objective++) {
                static const char *const names[] = {"flops", "time", "size", "write"};
                int32_t steps[2 * 12];
                ts_pairs pairs = {n, steps, 0, NULL};
                ts_search search = {.work = 0.002, .seed = (uint64_t)trial};
                OK(ts_order_price(names[objective], 4, &search.price));
                OK(ts_search_network(&made.graph, &search, ts_optimizer_at(i)->recipe, &pairs));
                if (n > 1) {
                    check_tree(steps, n);
                    assert_true(pairs_of(steps) >= best * (1.0 - 1e-12));
                    if (objective == 0 && best > 0.0 && (i == 0 || strcmp(ts_optimizer_at(i)->name, "exact") == 0)) {
                        assert_near(pairs_of(steps) / best, 1.0, 1e-9);
                    }
                }
            }
        }
    }
}

static void moves_keep_the_books(void **state)
{
    (void)state;
    ts_random random;
    ts_random_seed(&random, 8);
    for (int trial = 0; trial < 20; trial++) {
        int32_t n = 3 + (int32_t)ts_random_below(&random, 9), steps[2 * 12], scratch[2 * 12];
        ts_state tree;
        ts_price flops = TS_PRICE_FLOPS;
        ts_budget budget = {.total = 1e-3, .left = 1e-3};
        double best;
        bool changed;
        random_network(&random, n, 12, 0.3);
        OK(ts_greedy(&made.graph, 1.0, 3.0, 1, steps));
        double before = pairs_of(steps);
        OK(ts_state_create(&tree, &made.graph));
        ts_state_load(&tree, steps);
        ts_state_refresh(&tree, scratch);
        assert_near(ts_state_price(&tree, &flops), log2(before), 1e-9);
        OK(ts_anneal(&tree, &flops, 1.0, 0.1, &random, &budget, &best));
        ts_state_store(&tree, scratch, steps);
        check_tree(steps, n);
        assert_near(best, log2(pairs_of(steps)), 1e-9);
        assert_true(best <= log2(before) + 1e-9);
        budget.left = 1.0;
        OK(ts_reconfigure(&tree, &flops, 5, &random, &budget, &changed));
        ts_state_store(&tree, scratch, steps);
        assert_near(ts_state_price(&tree, &flops), log2(pairs_of(steps)), 1e-9);
        assert_true(pairs_of(steps) <= exp2(best) * (1.0 + 1e-9));
        ts_state_free(&tree);
    }
}

static void simplification_can_be_undone(void **state)
{
    (void)state;
    ts_random random;
    ts_random_seed(&random, 21);
    for (int trial = 0; trial < 30; trial++) {
        int32_t n = 1 + (int32_t)ts_random_below(&random, 11), core[2 * 12], steps[2 * 12];
        ts_simplified simplified;
        random_network(&random, n, 10, 0.2);
        OK(ts_simplify(&made.graph, &simplified));
        assert_in_range(simplified.core.tensor_count, 1, n);
        OK(ts_greedy(&simplified.core, 1.0, 0.0, 0, core));
        ts_simplified_expand(&simplified, core, steps);
        check_tree(steps, n);
        ts_simplified_free(&simplified);
    }
    /* a chain of matrices is absorbed whole */
    begin(9);
    for (int32_t i = 0; i < 10; i++) {
        const int32_t held[] = {i - 1, i};
        add(i == 0 || i == 9 ? 1 : 2, i == 0 ? held + 1 : held);
    }
    ts_simplified simplified;
    OK(ts_simplify(&made.graph, &simplified));
    assert_int_equal(simplified.core.tensor_count, 1);
    ts_simplified_free(&simplified);
}

static void elimination_finds_known_widths(void **state)
{
    (void)state;
    int32_t steps[2 * 200], order[200], count;
    double width;
    for (int rule = 0; rule < 2; rule++) {
        /* a cycle of 12 labels has treewidth 2: cliques of 3 */
        begin(12);
        for (int32_t i = 0; i < 12; i++) {
            const int32_t held[] = {i < 11 ? i : 0, i < 11 ? i + 1 : 11};
            add(2, held);
        }
        OK(ts_eliminate(&made.graph, (ts_elimination)rule, 0.0, 1, 1.0, steps, order, &count, &width));
        check_tree(steps, 12);
        assert_in_range(count, 10, 12); /* the last labels vanish together */
        assert_near(width, 3.0, 1e-12);
        /* the same order gives the same width again */
        OK(ts_eliminate_in_order(&made.graph, order, count, steps, &width));
        assert_near(width, 3.0, 1e-12);
        /* a tree has treewidth 1 */
        begin(60);
        for (int32_t i = 1; i < 60; i++) {
            add(2, (const int32_t[]){(i - 1) / 2, i});
        }
        OK(ts_eliminate(&made.graph, (ts_elimination)rule, 0.0, 1, 1.0, steps, NULL, NULL, &width));
        check_tree(steps, 59);
        assert_near(width, 2.0, 1e-12);
    }
}

static void treewidth_is_bounded(void **state)
{
    (void)state;
    static const int32_t petersen[15][2] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {0, 4}, {0, 5}, {1, 6}, {2, 7},
                                            {3, 8}, {4, 9}, {5, 7}, {7, 9}, {6, 9}, {6, 8}, {5, 8}};
    int32_t lower, upper;
    begin(10);
    for (int e = 0; e < 15; e++) {
        add(2, petersen[e]);
    }
    OK(ts_treewidth_bounds(&made.graph, &lower, &upper));
    assert_in_range(lower, 3, 4); /* it is 4 */
    assert_int_equal(upper, 4);
    begin(7); /* a complete graph by one tensor: 6 */
    add(7, (const int32_t[]){0, 1, 2, 3, 4, 5, 6});
    OK(ts_treewidth_bounds(&made.graph, &lower, &upper));
    assert_int_equal(lower, 6);
    assert_int_equal(upper, 6);
    begin(12); /* a path, its ends outputs: 1 */
    made.outputs[0] = made.outputs[11] = 1;
    for (int32_t i = 0; i < 11; i++) {
        add(2, (const int32_t[]){i, i + 1});
    }
    OK(ts_treewidth_bounds(&made.graph, &lower, &upper));
    assert_int_equal(lower, 1);
    assert_int_equal(upper, 1);
    begin(5); /* no edges */
    OK(ts_treewidth_bounds(&made.graph, &lower, &upper));
    assert_int_equal(lower, 0);
    assert_int_equal(upper, 0);
}

static void twenty_tensors_can_be_exact(void **state)
{
    (void)state;
    grid(4, 4);
    ts_search search = {.work = 0.5, .price = TS_PRICE_FLOPS};
    int32_t steps[2 * 16], other[2 * 16];
    ts_pairs pairs = {16, steps, 0, NULL};
    double best, price;
    ts_price flops = TS_PRICE_FLOPS;
    OK(ts_search_network(&made.graph, &search, method("exact")->recipe, &pairs));
    check_tree(steps, 16);
    OK(ts_exact_order(&made.graph, &flops, INFINITY, other, &best)); /* without a bound */
    OK(ts_pairs_price(&made.graph, steps, &flops, &price));
    assert_near(price, best, 1e-9);
    grid(5, 5);
    pairs.tensor_count = 25;
    int32_t more[2 * 25];
    pairs.pairs = more;
    assert_int_equal(ts_search_network(&made.graph, &search, method("exact")->recipe,
                                       &pairs), TENSUM_STATUS_UNSUPPORTED);
}

static void bisection_finds_the_bridge(void **state)
{
    (void)state;
    /* two 8 x 8 grids joined by two edges: vertices 0..63, 64..127 */
    static int64_t offsets[400];
    static int32_t pins[800];
    static double net_weights[400], vertex_weights[128];
    int32_t nets = 0;
    for (int32_t v = 0; v < 128; v++) {
        vertex_weights[v] = 1.0;
        for (int k = 0; k < 2; k++) {
            if (k == 0 ? v % 8 < 7 : v % 64 < 56) {
                pins[2 * nets] = v;
                pins[2 * nets++ + 1] = k == 0 ? v + 1 : v + 8;
            }
        }
    }
    for (int32_t k = 0; k < 2; k++) {
        pins[2 * nets] = 7 + 48 * k;
        pins[2 * nets++ + 1] = 64 + 48 * k;
    }
    for (int32_t e = 0; e <= nets; e++) {
        offsets[e] = 2 * e;
        net_weights[e] = 1.0;
    }
    ts_nets graph = {128, nets, offsets, pins, net_weights, vertex_weights};
    for (uint64_t seed = 0; seed < 5; seed++) {
        ts_random random;
        uint8_t side[128];
        double cut;
        ts_random_seed(&random, seed);
        OK(ts_bisect(&graph, 0.1, &random, side, &cut));
        double counted = 0.0;
        for (int32_t e = 0; e < nets; e++) {
            counted += side[pins[2 * e]] != side[pins[2 * e + 1]];
        }
        assert_near(cut, counted, 1e-12);
        assert_near(cut, 2.0, 1e-12);
        for (int32_t v = 1; v < 128; v++) {
            assert_int_equal(side[v], side[v < 64 ? 0 : 64]);
        }
    }
}

static void a_strip_is_swept_along(void **state)
{
    (void)state;
    /* 4 x 40: no step needs more than a column's 4 labels, one more on the way, and the next */
    grid(4, 40);
    int32_t steps[2 * 160];
    ts_pairs pairs = {160, steps, 0, NULL};
    ts_order_cost cost;
    OK(ts_sweep(&made.graph, 1, steps));
    check_tree(steps, 160);
    OK(ts_order_cost_of(&made.graph, &pairs, &cost));
    assert_true(cost.sc <= 6.0);
}

static void trees_do_not_depend_on_the_number_of_threads(void **state)
{
    (void)state;
    grid(9, 9);
    int32_t first[2 * 81], again[2 * 81];
    for (int method = 0; ts_optimizer_at(method) != NULL; method++) {
        const ts_recipe *recipe = ts_optimizer_at(method)->recipe;
        if (recipe->exact || !usable(method)) {
            continue;
        }
        for (int threads = 1; threads <= 3; threads++) {
            ts_search search = {.work = 0.05, .seed = 42, .price = TS_PRICE_FLOPS};
            ts_pairs pairs = {81, threads == 1 ? first : again, 0, NULL};
            OK(ts_pool_create(threads, &search.pool));
            OK(ts_search_network(&made.graph, &search, recipe, &pairs));
            ts_pool_destroy(search.pool);
            check_tree(pairs.pairs, 81);
            if (threads > 1) {
                assert_memory_equal(first, again, 2 * 80 * sizeof *first);
            }
        }
    }
}

static void windows_only_better_a_tree(void **state)
{
    (void)state;
    grid(20, 20);
    int32_t steps[2 * 400];
    ts_search search = {.work = 0.1, .price = TS_PRICE_FLOPS};
    ts_control control = {.search = &search};
    double before, after, work = 0.1;
    atomic_init(&control.stop, false);
    atomic_init(&control.cancelled, false);
    OK(ts_greedy(&made.graph, 1.0, 2.0, 1, steps));
    OK(ts_pairs_price(&made.graph, steps, &search.price, &before));
    OK(ts_search_windows(&made.graph, &search, ts_optimizer_at(0)->recipe, &control, 60, &work, steps));
    check_tree(steps, 400);
    OK(ts_pairs_price(&made.graph, steps, &search.price, &after));
    assert_true(after < before);
}

static void thousands_of_components_are_joined(void **state)
{
    (void)state;
    begin(2500);
    for (int32_t i = 0; i < 2500; i++) {
        made.outputs[i] = i < 10;
        add(i % 5 != 0, &i);
    }
    static int32_t steps[2 * 2500];
    for (int i = 0; ts_optimizer_at(i) != NULL; i++) {
        ts_search search = {.work = 0.01, .price = TS_PRICE_FLOPS};
        ts_pairs pairs = {2500, steps, 0, NULL};
        if (strcmp(ts_optimizer_at(i)->name, "exact") != 0 && usable(i)) {
            OK(ts_search_network(&made.graph, &search, ts_optimizer_at(i)->recipe, &pairs));
            check_tree(steps, 2500);
        }
    }
}

/* From trees made at random, whose waists are wrong, some get cheaper; none gets dearer, and all stay trees. */
static void the_waist_is_refined(void **state)
{
    (void)state;
    ts_random random;
    ts_random_seed(&random, 8);
    ts_price price = TS_PRICE_FLOPS;
    int better = 0;
    for (int trial = 0; trial < 40; trial++) {
        int32_t n = 6 + (int32_t)ts_random_below(&random, 40), steps[2 * 64], scratch[2 * 64];
        if (trial % 2 == 0) {
            grid(6, 6);
            n = 36;
        } else {
            random_network(&random, n, 2 * n, 2.5 / n);
        }
        int32_t ids[64], count = n;
        for (int32_t i = 0; i < n; i++) {
            ids[i] = i;
        }
        for (int32_t s = 0; s < n - 1; s++) { /* any tree */
            for (int i = 0; i < 2; i++) {
                int32_t at = (int32_t)ts_random_below(&random, (uint64_t)count);
                steps[2 * s + i] = ids[at];
                ids[at] = ids[--count];
            }
            ids[count++] = n + s;
        }
        ts_state tree;
        bool changed;
        ts_budget budget = {1.0, 1.0, 0.0, 0.0, NULL, true};
        OK(ts_state_create(&tree, &made.graph));
        ts_state_load(&tree, steps);
        ts_state_refresh(&tree, scratch);
        OK(ts_reconfigure(&tree, &price, 4, &random, &budget, &changed));
        double before = ts_state_price(&tree, &price);
        OK(ts_refine_waist(&tree, &price, 4, &random, &budget, &changed));
        double after = ts_state_price(&tree, &price);
        assert_true(changed ? after < before : fabs(after - before) < 1e-9);
        better += changed;
        ts_state_store(&tree, scratch, steps);
        check_tree(steps, n);
        ts_state_free(&tree);
    }
    assert_true(better > 10);
}

/* ---- slices ---- */

static void slices_keep_the_limit(void **state)
{
    (void)state;
    grid(7, 7);
    for (double limit = 4.0; limit <= 64.0; limit *= 4.0) {
        ts_search search = {.work = 0.05, .keep = 0.5, .price = TS_PRICE_FLOPS};
        ts_pairs pairs = {49, NULL, 0, NULL};
        ts_order_cost cost;
        double peak, overhead;
        OK(ts_allocate(2 * 48, sizeof *pairs.pairs, "tree", &pairs.pairs));
        OK(ts_search_network(&made.graph, &search, ts_optimizer_at(0)->recipe, &pairs));
        ts_memory memory = {limit, 1.0, 0.0, 0.0, 0.0};
        OK(ts_slice(&made.graph, &search, &memory, &pairs, &overhead));
        check_tree(pairs.pairs, 49);
        assert_true(pairs.slice_count > 0);
        OK(ts_schedule(&made.graph, &pairs, &peak, NULL));
        assert_true(peak <= limit);
        OK(ts_order_cost_of(&made.graph, &pairs, &cost));
        assert_true(cost.sc <= fmax(4.0, log2(limit)) + 1e-9); /* inputs have up to 4 labels and are not counted */
        ts_pairs_free(&pairs);
    }
}

static void impossible_limits_say_what_is_needed(void **state)
{
    (void)state;
    grid(3, 3);
    ts_search search = {.work = 0.01, .keep = 0.5, .price = TS_PRICE_FLOPS};
    ts_pairs pairs = {9, NULL, 0, NULL};
    double overhead;
    OK(ts_allocate(2 * 8, sizeof *pairs.pairs, "tree", &pairs.pairs));
    OK(ts_search_network(&made.graph, &search, ts_optimizer_at(0)->recipe, &pairs));
    ts_memory memory = {0.5, 1.0, 0.0, 0.0, 0.0};
    assert_int_equal(ts_slice(&made.graph, &search, &memory, &pairs, &overhead), TENSUM_STATUS_MEMORY_LIMIT);
    assert_non_null(strstr(tensum_last_error(), "would be needed"));
    ts_pairs_free(&pairs);
}

/* ---- the public call ---- */

static tensum_network *parse(const char *expression, int64_t count)
{
    static const int64_t extents[] = {2, 2, 2, 2};
    const int64_t *all[64];
    int32_t ranks[64];
    tensum_network *parsed = NULL;
    for (int64_t i = 0; i < count; i++) {
        all[i] = extents;
        ranks[i] = 2;
    }
    OK(tensum_network_parse(expression, count, ranks, all, 0, NULL, NULL, &parsed));
    return parsed;
}

static int cancel(void *user, const char *stage, double done)
{
    assert_string_equal(stage, "order");
    assert_true(done >= 0.0 && done <= 1.0);
    ++*(int *)user;
    return 1;
}

static void the_public_call_checks_its_options(void **state)
{
    (void)state;
    tensum_network *chain = parse("ab,bc,cd,de->ae", 4);
    tensum_order_options options = TENSUM_ORDER_OPTIONS_INIT;
    tensum_tree *tree = NULL;
    options.method = "gredy";
    assert_int_equal(tensum_order(chain, &options, NULL, &tree), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tensum_last_error(), "\"greedy\""));
    options.method = NULL;
    options.minimize = "beauty";
    assert_int_equal(tensum_order(chain, &options, NULL, &tree), TENSUM_STATUS_INVALID_ARGUMENT);
    options.minimize = NULL;
    options.size = 3;
    assert_int_equal(tensum_order(chain, &options, NULL, &tree), TENSUM_STATUS_INVALID_ARGUMENT);
    options.size = sizeof options;
    options.time_limit = -1.0;
    assert_int_equal(tensum_order(chain, &options, NULL, &tree), TENSUM_STATUS_INVALID_ARGUMENT);
    assert_null(tree);
    for (int i = 0; tensum_order_method_name(i) != NULL; i++) {
        options = (tensum_order_options)TENSUM_ORDER_OPTIONS_INIT;
        options.method = tensum_order_method_name(i);
        if (!usable(i)) {
            assert_int_equal(tensum_order(chain, &options, NULL, &tree), TENSUM_STATUS_UNSUPPORTED);
            assert_non_null(strstr(tensum_last_error(), "libmetis"));
            continue;
        }
        OK(tensum_order(chain, &options, NULL, &tree));
        assert_int_equal(tensum_tree_step_count(tree), 3);
        tensum_tree_release(tree);
    }
    assert_string_equal(tensum_order_method_name(0), "auto");
    assert_null(tensum_order_method_name(-1));
    tensum_network_release(chain);
}

static void a_search_can_be_cancelled(void **state)
{
    (void)state;
    /* a ladder closed in a ring: large enough to search for longer than the first poll */
    tensum_network *ring = parse("ab,bc,cd,de,ef,fg,gh,hi,ij,jk,kl,la,ac,bd,ce,df,eg,fh,gi,hj,ik,jl,ka,lb,ag,bh,ci,dj,ek,fl->", 30);
    tensum_order_options options = TENSUM_ORDER_OPTIONS_INIT;
    tensum_tree *tree = NULL;
    int calls = 0;
    options.work = 1000.0;
    options.time_limit = 30.0;
    options.progress = cancel;
    options.progress_user = &calls;
    double start = ts_seconds();
    tensum_status status = tensum_order(ring, &options, NULL, &tree);
    if (calls > 0) {
        assert_int_equal(status, TENSUM_STATUS_CANCELLED);
        assert_null(tree);
    } else {
        OK(status); /* good enough before anybody was asked */
        assert_true(ts_seconds() - start < 29.0);
        tensum_tree_release(tree);
    }
    tensum_network_release(ring);
}

static void wide_steps_become_the_best_binary_ones(void **state)
{
    (void)state;
    tensum_network *chain = parse("ab,bc,cd,de->ae", 4);
    tensum_tree *tree;
    ts_pairs pairs;
    const int64_t offsets[] = {0, 4, 5}, children[] = {0, 1, 2, 3, 4};
    OK(tensum_tree_from_ssa(4, 2, offsets, children, &tree)); /* all at once, then a step of one */
    OK(ts_tree_binarize(chain, tree, &pairs));
    check_tree(pairs.pairs, 4);
    ts_hypergraph graph;
    ts_order_cost cost;
    OK(ts_hypergraph_create(chain, &graph));
    OK(ts_order_cost_of(&graph, &pairs, &cost));
    assert_near(exp2(cost.tc), 3 * 8, 1e-9); /* three products of 2 x 2 matrices */
    ts_pairs_free(&pairs);
    ts_hypergraph_free(&graph);
    tensum_tree_release(tree);
    OK(tensum_tree_from_ssa(3, 1, (const int64_t[]){0, 3}, children, &tree));
    refuses(ts_tree_binarize(chain, tree, &pairs), "3 leaves");
    tensum_tree_release(tree);
    tensum_network_release(chain);
}

#ifdef TENSUM_TESTING
static void failed_allocations_leave_nothing_behind(void **state)
{
    (void)state;
    grid(4, 4);
    long live = ts_test_live_allocations();
    for (long n = 1; n < 100000; n = n < 400 ? n + 1 : n + 97) {
        int32_t steps[2 * 16];
        ts_search search = {.work = 0.004, .price = TS_PRICE_FLOPS};
        ts_pairs pairs = {16, steps, 0, NULL};
        ts_test_fail_allocation(n);
        tensum_status status = ts_search_network(&made.graph, &search, ts_optimizer_at(0)->recipe, &pairs);
        long count = ts_test_fail_allocation(0);
        assert_int_equal(ts_test_live_allocations(), live);
        if (count < n) {
            OK(status);
            return; /* all places were tried */
        }
        assert_int_equal(status, TENSUM_STATUS_OUT_OF_MEMORY);
    }
    fail_msg("the search never came to its end");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_what_they_are_called),
        cmocka_unit_test(random_costs_agree_with_the_definition),
        cmocka_unit_test(exact_orders_are_the_best_of_all),
        cmocka_unit_test(the_batched_product_is_ordered_by_its_cost),
        cmocka_unit_test(every_method_makes_valid_trees),
        cmocka_unit_test(moves_keep_the_books),
        cmocka_unit_test(simplification_can_be_undone),
        cmocka_unit_test(elimination_finds_known_widths),
        cmocka_unit_test(treewidth_is_bounded),
        cmocka_unit_test(twenty_tensors_can_be_exact),
        cmocka_unit_test(bisection_finds_the_bridge),
        cmocka_unit_test(a_strip_is_swept_along),
        cmocka_unit_test(trees_do_not_depend_on_the_number_of_threads),
        cmocka_unit_test(windows_only_better_a_tree),
        cmocka_unit_test(thousands_of_components_are_joined),
        cmocka_unit_test(the_waist_is_refined),
        cmocka_unit_test(slices_keep_the_limit),
        cmocka_unit_test(impossible_limits_say_what_is_needed),
        cmocka_unit_test(the_public_call_checks_its_options),
        cmocka_unit_test(a_search_can_be_cancelled),
        cmocka_unit_test(wide_steps_become_the_best_binary_ones),
#ifdef TENSUM_TESTING
        cmocka_unit_test(failed_allocations_leave_nothing_behind),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
