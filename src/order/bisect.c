#include "order/dissect.h"

static const char *const what = "graph partitioner";

enum { COARSE = 60, TRIES = 6, PASSES = 4, WIDE_NET = 300 };

/* A level owns its arrays; vertex -> nets is the transpose of net -> pins. */
typedef struct level {
    int32_t vertex_count, net_count;
    int64_t *net_offsets, *vertex_offsets;
    int32_t *pins, *nets_of;
    double *net_weights, *vertex_weights;
    int32_t *coarse; /* vertex of the next level */
} level;

static void level_free(level *l)
{
    ts_free(l->net_offsets);
    ts_free(l->vertex_offsets);
    ts_free(l->pins);
    ts_free(l->nets_of);
    ts_free(l->net_weights);
    ts_free(l->vertex_weights);
    ts_free(l->coarse);
}

static tensum_status transpose(level *l)
{
    tensum_status status;
    TRY(ts_allocate_zero((size_t)l->vertex_count + 1, sizeof *l->vertex_offsets, what, &l->vertex_offsets));
    TRY(ts_allocate((size_t)l->net_offsets[l->net_count], sizeof *l->nets_of, what, &l->nets_of));
    for (int64_t i = 0; i < l->net_offsets[l->net_count]; i++) {
        l->vertex_offsets[l->pins[i] + 1]++;
    }
    for (int32_t v = 0; v < l->vertex_count; v++) {
        l->vertex_offsets[v + 1] += l->vertex_offsets[v];
    }
    for (int32_t e = l->net_count - 1; e >= 0; e--) {
        for (int64_t i = l->net_offsets[e]; i < l->net_offsets[e + 1]; i++) {
            l->nets_of[--l->vertex_offsets[l->pins[i] + 1]] = e;
        }
    }
    /* Each end was moved back to its start, which is one place too far right. */
    for (int32_t v = 0; v < l->vertex_count; v++) {
        l->vertex_offsets[v] = l->vertex_offsets[v + 1];
    }
    l->vertex_offsets[l->vertex_count] = l->net_offsets[l->net_count];
done:
    return status;
}

static tensum_status first_level(const ts_nets *nets, level *l)
{
    tensum_status status;
    int64_t pins = nets->net_offsets[nets->net_count];
    *l = (level){.vertex_count = nets->vertex_count, .net_count = nets->net_count};
    TRY(ts_allocate((size_t)nets->net_count + 1, sizeof *l->net_offsets, what, &l->net_offsets));
    TRY(ts_allocate((size_t)pins, sizeof *l->pins, what, &l->pins));
    TRY(ts_allocate((size_t)nets->net_count, sizeof *l->net_weights, what, &l->net_weights));
    TRY(ts_allocate((size_t)nets->vertex_count, sizeof *l->vertex_weights, what, &l->vertex_weights));
    memcpy(l->net_offsets, nets->net_offsets, ((size_t)nets->net_count + 1) * sizeof *l->net_offsets);
    memcpy(l->pins, nets->pins, (size_t)pins * sizeof *l->pins);
    memcpy(l->net_weights, nets->net_weights, (size_t)nets->net_count * sizeof *l->net_weights);
    memcpy(l->vertex_weights, nets->vertex_weights, (size_t)nets->vertex_count * sizeof *l->vertex_weights);
    TRY(transpose(l));
done:
    return status;
}

static void shuffle(int32_t *order, int32_t count, ts_random *random)
{
    for (int32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (int32_t i = count - 1; i > 0; i--) {
        int32_t k = (int32_t)ts_random_below(random, (uint64_t)i + 1), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
}

/* Match vertices with the neighbour they share most with; *next is the graph of the pairs. */
static tensum_status coarsen(level *fine, double most, ts_random *random, level *next)
{
    int32_t *order = NULL, *touched = NULL, *last = NULL;
    double *score = NULL;
    tensum_status status;
    int32_t n = fine->vertex_count, made = 0;
    *next = (level){0};
    TRY(ts_allocate((size_t)n, sizeof *order, what, &order));
    TRY(ts_allocate((size_t)n, sizeof *touched, what, &touched));
    TRY(ts_allocate((size_t)n, sizeof *last, what, &last));
    TRY(ts_allocate_zero((size_t)n, sizeof *score, what, &score));
    TRY(ts_allocate((size_t)n, sizeof *fine->coarse, what, &fine->coarse));
    for (int32_t v = 0; v < n; v++) {
        fine->coarse[v] = -1;
    }
    shuffle(order, n, random);
    for (int32_t k = 0; k < n; k++) {
        int32_t v = order[k], count = 0, best = -1;
        if (fine->coarse[v] >= 0) {
            continue;
        }
        for (int64_t i = fine->vertex_offsets[v]; i < fine->vertex_offsets[v + 1]; i++) {
            int32_t e = fine->nets_of[i];
            int64_t size = fine->net_offsets[e + 1] - fine->net_offsets[e];
            if (size < 2 || size > WIDE_NET) {
                continue;
            }
            double gain = fine->net_weights[e] / (double)(size - 1);
            for (int64_t j = fine->net_offsets[e]; j < fine->net_offsets[e + 1]; j++) {
                int32_t u = fine->pins[j];
                if (u != v && fine->coarse[u] < 0 && fine->vertex_weights[u] + fine->vertex_weights[v] <= most) {
                    if (score[u] == 0.0) {
                        touched[count++] = u;
                    }
                    score[u] += gain;
                }
            }
        }
        double highest = 0.0;
        for (int32_t i = 0; i < count; i++) {
            int32_t u = touched[i];
            double rate = score[u] / (fine->vertex_weights[u] * fine->vertex_weights[v]);
            if (rate > highest) {
                highest = rate;
                best = u;
            }
            score[u] = 0.0;
        }
        fine->coarse[v] = made;
        if (best >= 0) {
            fine->coarse[best] = made;
        }
        made++;
    }
    next->vertex_count = made;
    TRY(ts_allocate((size_t)fine->net_count + 1, sizeof *next->net_offsets, what, &next->net_offsets));
    TRY(ts_allocate((size_t)fine->net_offsets[fine->net_count], sizeof *next->pins, what, &next->pins));
    TRY(ts_allocate((size_t)fine->net_count, sizeof *next->net_weights, what, &next->net_weights));
    TRY(ts_allocate_zero((size_t)made, sizeof *next->vertex_weights, what, &next->vertex_weights));
    for (int32_t v = 0; v < n; v++) {
        next->vertex_weights[fine->coarse[v]] += fine->vertex_weights[v];
        last[v] = -1;
    }
    int64_t used = 0;
    for (int32_t e = 0; e < fine->net_count; e++) {
        int64_t first = used;
        for (int64_t j = fine->net_offsets[e]; j < fine->net_offsets[e + 1]; j++) {
            int32_t u = fine->coarse[fine->pins[j]];
            if (last[u] != e) {
                last[u] = e;
                next->pins[used++] = u;
            }
        }
        if (used - first < 2) {
            used = first; /* inside one vertex: never cut */
        } else {
            next->net_offsets[next->net_count] = first;
            next->net_weights[next->net_count++] = fine->net_weights[e];
        }
    }
    next->net_offsets[next->net_count] = used;
    TRY(transpose(next));
done:
    ts_free(order);
    ts_free(touched);
    ts_free(last);
    ts_free(score);
    return status;
}

/* ---- refinement ---- */

typedef struct refiner {
    const level *graph;
    uint8_t *side;
    int32_t *counts[2];   /* pins of each net on each side */
    double *gain;         /* what moving the vertex takes off the cut */
    double weight[2], most;
    int32_t *heap[2], heap_count[2]; /* free vertices of each side, highest gain first */
    int32_t *where;       /* place in its heap; -1: moved */
    int32_t *moved;
    double cut;
} refiner;

static void refiner_free(refiner *r)
{
    for (int i = 0; i < 2; i++) {
        ts_free(r->counts[i]);
        ts_free(r->heap[i]);
    }
    ts_free(r->gain);
    ts_free(r->where);
    ts_free(r->moved);
}

static tensum_status refiner_create(const level *graph, uint8_t *side, double most, refiner *r)
{
    tensum_status status;
    size_t n = (size_t)graph->vertex_count;
    *r = (refiner){.graph = graph, .side = side, .most = most};
    for (int i = 0; i < 2; i++) {
        TRY(ts_allocate((size_t)graph->net_count, sizeof **r->counts, what, &r->counts[i]));
        TRY(ts_allocate(n, sizeof **r->heap, what, &r->heap[i]));
    }
    TRY(ts_allocate(n, sizeof *r->gain, what, &r->gain));
    TRY(ts_allocate(n, sizeof *r->where, what, &r->where));
    TRY(ts_allocate(n, sizeof *r->moved, what, &r->moved));
done:
    return status;
}

static void sift(refiner *r, int side, int32_t i)
{
    int32_t *heap = r->heap[side], count = r->heap_count[side], v = heap[i];
    double gain = r->gain[v];
    while (i > 0 && gain > r->gain[heap[(i - 1) / 2]]) {
        heap[i] = heap[(i - 1) / 2];
        r->where[heap[i]] = i;
        i = (i - 1) / 2;
    }
    for (;;) {
        int32_t child = 2 * i + 1;
        if (child >= count) {
            break;
        }
        child += child + 1 < count && r->gain[heap[child + 1]] > r->gain[heap[child]];
        if (gain >= r->gain[heap[child]]) {
            break;
        }
        heap[i] = heap[child];
        r->where[heap[i]] = i;
        i = child;
    }
    heap[i] = v;
    r->where[v] = i;
}

static void leave_heap(refiner *r, int32_t v)
{
    int side = r->side[v];
    int32_t i = r->where[v], last = r->heap[side][--r->heap_count[side]];
    r->where[v] = -1;
    if (last != v) {
        r->heap[side][i] = last;
        r->where[last] = i;
        sift(r, side, i);
    }
}

static void change_gain(refiner *r, int32_t v, double change)
{
    r->gain[v] += change;
    if (r->where[v] >= 0) {
        sift(r, r->side[v], r->where[v]);
    }
}

static void count_sides(refiner *r)
{
    const level *g = r->graph;
    r->cut = 0.0;
    r->weight[0] = r->weight[1] = 0.0;
    for (int32_t e = 0; e < g->net_count; e++) {
        r->counts[0][e] = r->counts[1][e] = 0;
        for (int64_t i = g->net_offsets[e]; i < g->net_offsets[e + 1]; i++) {
            r->counts[r->side[g->pins[i]]][e]++;
        }
        r->cut += r->counts[0][e] > 0 && r->counts[1][e] > 0 ? g->net_weights[e] : 0.0;
    }
    r->heap_count[0] = r->heap_count[1] = 0;
    for (int32_t v = 0; v < g->vertex_count; v++) {
        int from = r->side[v];
        r->weight[from] += g->vertex_weights[v];
        r->gain[v] = 0.0;
        for (int64_t i = g->vertex_offsets[v]; i < g->vertex_offsets[v + 1]; i++) {
            int32_t e = g->nets_of[i];
            if (r->counts[from][e] == 1) {
                r->gain[v] += r->counts[1 - from][e] > 0 ? g->net_weights[e] : 0.0;
            } else if (r->counts[1 - from][e] == 0) {
                r->gain[v] -= g->net_weights[e];
            }
        }
    }
    for (int32_t v = 0; v < g->vertex_count; v++) {
        int side = r->side[v];
        int32_t i = r->heap_count[side]++;
        r->heap[side][i] = v;
        sift(r, side, i);
    }
}

/* Move v to the other side and bring the gains of its neighbours up to date. */
static void move(refiner *r, int32_t v)
{
    const level *g = r->graph;
    int from = r->side[v], to = 1 - from;
    r->cut -= r->gain[v];
    r->side[v] = (uint8_t)to;
    r->weight[from] -= g->vertex_weights[v];
    r->weight[to] += g->vertex_weights[v];
    double own = -r->gain[v];
    for (int64_t i = g->vertex_offsets[v]; i < g->vertex_offsets[v + 1]; i++) {
        int32_t e = g->nets_of[i];
        double w = g->net_weights[e];
        int32_t before_to = r->counts[to][e]++, after_from = --r->counts[from][e];
        if (before_to > 1 && after_from > 1) {
            continue; /* nobody's gain hangs on it */
        }
        for (int64_t j = g->net_offsets[e]; j < g->net_offsets[e + 1]; j++) {
            int32_t u = g->pins[j];
            if (u == v) {
                continue;
            }
            double change = 0.0;
            if (before_to == 0) {
                change += w; /* the net is cut now: following costs nothing more */
            } else if (before_to == 1 && r->side[u] == to) {
                change -= w; /* u is no longer alone there */
            }
            if (after_from == 0) {
                change -= w; /* the net is whole again */
            } else if (after_from == 1 && r->side[u] == from) {
                change += w; /* u is the last one left */
            }
            if (change != 0.0) {
                change_gain(r, u, change);
            }
        }
    }
    r->gain[v] = own;
}

/* One pass: move the best free vertex until none is left, then go back to the best cut seen. */
static bool pass(refiner *r)
{
    const level *g = r->graph;
    count_sides(r);
    double best = r->cut, start = r->cut;
    double best_over = fmax(0.0, fmax(r->weight[0], r->weight[1]) - r->most), start_over = best_over;
    int32_t moves = 0, best_moves = 0, patience = 100 + g->vertex_count / 20;
    while (moves - best_moves < patience) {
        int side = -1;
        double gain = -INFINITY;
        bool over = r->weight[0] > r->most || r->weight[1] > r->most;
        for (int s = 0; s < 2; s++) {
            if (r->heap_count[s] == 0) {
                continue;
            }
            int32_t top = r->heap[s][0];
            bool fits = over ? r->weight[s] > r->weight[1 - s]
                             : r->weight[1 - s] + g->vertex_weights[top] <= r->most;
            if (fits && r->gain[top] > gain) {
                gain = r->gain[top];
                side = s;
            }
        }
        if (side < 0) {
            break;
        }
        int32_t v = r->heap[side][0];
        leave_heap(r, v);
        move(r, v);
        r->moved[moves++] = v;
        double excess = fmax(0.0, fmax(r->weight[0], r->weight[1]) - r->most);
        if (excess < best_over - 1e-9 || (excess <= best_over + 1e-9 && r->cut < best - 1e-9)) {
            best = r->cut;
            best_over = excess;
            best_moves = moves;
        }
    }
    for (int32_t i = best_moves; i < moves; i++) {
        r->side[r->moved[i]] ^= 1;
    }
    r->cut = best;
    return best < start - 1e-9 || best_over < start_over - 1e-9;
}

static tensum_status refine(const level *graph, double most, uint8_t *side, double *cut, double *heavier)
{
    refiner r;
    tensum_status status;
    TRY(refiner_create(graph, side, most, &r));
    for (int i = 0; i < PASSES && pass(&r); i++) {
    }
    count_sides(&r);
    *cut = r.cut;
    *heavier = fmax(r.weight[0], r.weight[1]);
done:
    refiner_free(&r);
    return status;
}

/* Grow one side from a random vertex, nearest first, until it holds half of the weight. */
static void grow(const level *g, double half, ts_random *random, int32_t *queue, uint8_t *side)
{
    int32_t n = g->vertex_count, head = 0, tail = 0;
    double weight = 0.0;
    memset(side, 1, (size_t)n);
    while (weight < half) {
        if (head == tail) {
            int32_t v = (int32_t)ts_random_below(random, (uint64_t)n);
            while (side[v] != 1) {
                v = v + 1 < n ? v + 1 : 0;
            }
            side[v] = 2;
            queue[tail++] = v;
        }
        int32_t v = queue[head++];
        weight += g->vertex_weights[v];
        side[v] = 0;
        for (int64_t i = g->vertex_offsets[v]; i < g->vertex_offsets[v + 1]; i++) {
            int32_t e = g->nets_of[i];
            for (int64_t j = g->net_offsets[e]; j < g->net_offsets[e + 1]; j++) {
                if (side[g->pins[j]] == 1) {
                    side[g->pins[j]] = 2; /* waits in the queue */
                    queue[tail++] = g->pins[j];
                }
            }
        }
    }
    for (int32_t v = 0; v < n; v++) {
        side[v] = side[v] == 0 ? 0 : 1;
    }
}

static tensum_status first_cut(const level *g, double half, double most, ts_random *random, uint8_t *side)
{
    int32_t *queue = NULL;
    uint8_t *trial = NULL;
    double best = INFINITY, best_over = INFINITY;
    tensum_status status;
    TRY(ts_allocate((size_t)g->vertex_count, sizeof *queue, what, &queue));
    TRY(ts_allocate((size_t)g->vertex_count, 1, what, &trial));
    for (int i = 0; i < TRIES; i++) {
        double cut, heavier;
        grow(g, half, random, queue, trial);
        TRY(refine(g, most, trial, &cut, &heavier));
        double over = fmax(0.0, heavier - most);
        if (over < best_over - 1e-9 || (over <= best_over + 1e-9 && cut < best)) {
            best = cut;
            best_over = over;
            memcpy(side, trial, (size_t)g->vertex_count);
        }
    }
done:
    ts_free(queue);
    ts_free(trial);
    return status;
}

tensum_status ts_bisect(const ts_nets *nets, double imbalance, ts_random *random, uint8_t *side, double *cut)
{
    enum { LEVELS = 48 };
    level levels[LEVELS] = {{0}};
    uint8_t *sides = NULL;
    int32_t depth = 0, n = nets->vertex_count;
    double total = 0.0, heaviest = 0.0, heavier;
    tensum_status status;
    TRY(ts_allocate((size_t)n, 1, what, &sides));
    TRY(first_level(nets, &levels[0]));
    for (int32_t v = 0; v < n; v++) {
        total += nets->vertex_weights[v];
        heaviest = fmax(heaviest, nets->vertex_weights[v]);
    }
    double most = fmax(total * (0.5 + imbalance), 0.5 * total + 0.5 * heaviest);
    double largest = fmax(1.5 * total / COARSE, heaviest);
    while (levels[depth].vertex_count > COARSE && depth + 1 < LEVELS) {
        TRY(coarsen(&levels[depth], largest, random, &levels[depth + 1]));
        depth++;
        if (levels[depth].vertex_count > 0.95 * levels[depth - 1].vertex_count) {
            break;
        }
    }
    TRY(first_cut(&levels[depth], 0.5 * total, most, random, sides));
    for (;;) {
        TRY(refine(&levels[depth], most, sides, cut, &heavier));
        if (depth == 0) {
            break;
        }
        depth--;

        memcpy(side, sides, (size_t)levels[depth + 1].vertex_count);
        for (int32_t v = 0; v < levels[depth].vertex_count; v++) {
            sides[v] = side[levels[depth].coarse[v]];
        }
    }
    memcpy(side, sides, (size_t)n);
done:
    for (int i = 0; i < LEVELS; i++) {
        level_free(&levels[i]);
    }
    ts_free(sides);
    return status;
}

tensum_status ts_bisect_refine(const ts_nets *nets, double slack, uint8_t *side, double *cut)
{
    level whole = {0};
    double weight[2] = {0.0, 0.0}, heavier;
    tensum_status status;
    TRY(first_level(nets, &whole));
    for (int32_t v = 0; v < nets->vertex_count; v++) {
        weight[side[v]] += nets->vertex_weights[v];
    }
    double total = weight[0] + weight[1];
    TRY(refine(&whole, fmin(fmax(weight[0], weight[1]) + slack * total, total - 2.0), side, cut, &heavier));
done:
    level_free(&whole);
    return status;
}
