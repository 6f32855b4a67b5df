/* Sweeping: one tensor grows by absorbing its neighbours, each time the one that leaves its labels lightest. Best
 * where a network is a strip or a sheet, as in projected entangled pairs or the state of a circuit. */
#include "order/optimizer.h"

static const char *const what = "sweep through a network";

typedef struct sweeper {
    const ts_hypergraph *graph;
    int32_t *remaining;      /* [label_count] tensors outside that hold the label */
    uint8_t *open;           /* [label_count] held by the growing tensor */
    int64_t *holder_offsets; /* [label_count + 1] */
    int32_t *holders;
    double *growth;          /* [n] what absorbing a tensor adds to the weight */
    int32_t *heap, *where, heap_count; /* neighbours, least growth first; where -1: not met, -2: absorbed */
} sweeper;

static bool before(const sweeper *s, int32_t x, int32_t y)
{
    return s->growth[x] != s->growth[y] ? s->growth[x] < s->growth[y] : x < y;
}

static void sift(sweeper *s, int32_t i)
{
    int32_t t = s->heap[i];
    while (i > 0 && before(s, t, s->heap[(i - 1) / 2])) {
        s->heap[i] = s->heap[(i - 1) / 2];
        s->where[s->heap[i]] = i;
        i = (i - 1) / 2;
    }
    for (;;) {
        int32_t child = 2 * i + 1;
        if (child >= s->heap_count) {
            break;
        }
        child += child + 1 < s->heap_count && before(s, s->heap[child + 1], s->heap[child]);
        if (!before(s, s->heap[child], t)) {
            break;
        }
        s->heap[i] = s->heap[child];
        s->where[s->heap[i]] = i;
        i = child;
    }
    s->heap[i] = t;
    s->where[t] = i;
}

static void lighten(sweeper *s, int32_t t, double weight)
{
    s->growth[t] -= weight;
    if (s->where[t] == -1) {
        s->where[t] = s->heap_count;
        s->heap[s->heap_count++] = t;
    }
    if (s->where[t] >= 0) {
        sift(s, s->where[t]);
    }
}

static void absorb(sweeper *s, int32_t t)
{
    const ts_hypergraph *graph = s->graph;
    s->where[t] = -2;
    for (int64_t i = graph->tensor_offsets[t]; i < graph->tensor_offsets[t + 1]; i++) {
        int32_t l = graph->tensor_labels[i];
        bool fresh = !s->open[l];
        int32_t left = --s->remaining[l];
        bool closes = left == 1 && !graph->is_output[l];
        s->open[l] = 1;
        if (!fresh && !closes) {
            continue;
        }
        for (int64_t k = s->holder_offsets[l]; k < s->holder_offsets[l + 1]; k++) {
            int32_t u = s->holders[k];
            if (s->where[u] != -2) {
                /* It would have added the label; and the last holder takes the label away. */
                lighten(s, u, graph->log2_extents[l] * ((fresh ? 1.0 : 0.0) + (closes ? 1.0 : 0.0)));
            }
        }
    }
}

static tensum_status create(sweeper *s)
{
    const ts_hypergraph *graph = s->graph;
    tensum_status status;
    size_t n = (size_t)graph->tensor_count, labels = (size_t)graph->label_count;
    int64_t total = graph->tensor_offsets[n];
    TRY(ts_allocate_zero(labels, sizeof *s->remaining, what, &s->remaining));
    TRY(ts_allocate_zero(labels, 1, what, &s->open));
    TRY(ts_allocate_zero(labels + 1, sizeof *s->holder_offsets, what, &s->holder_offsets));
    TRY(ts_allocate((size_t)total, sizeof *s->holders, what, &s->holders));
    TRY(ts_allocate_zero(n, sizeof *s->growth, what, &s->growth));
    TRY(ts_allocate(n, sizeof *s->heap, what, &s->heap));
    TRY(ts_allocate(n, sizeof *s->where, what, &s->where));
    for (int64_t i = 0; i < total; i++) {
        s->remaining[graph->tensor_labels[i]]++;
    }
    for (size_t l = 0; l < labels; l++) {
        s->holder_offsets[l + 1] = s->holder_offsets[l] + s->remaining[l];
    }
    for (size_t t = n; t-- > 0;) {
        s->where[t] = -1;
        for (int64_t i = graph->tensor_offsets[t]; i < graph->tensor_offsets[t + 1]; i++) {
            int32_t l = graph->tensor_labels[i];
            s->holders[--s->holder_offsets[l + 1]] = (int32_t)t;
            s->growth[t] += s->remaining[l] > 1 || graph->is_output[l] ? graph->log2_extents[l] : 0.0;
        }
    }
    /* Placing moved each end to its start, one place too far right. */
    for (size_t l = 0; l < labels; l++) {
        s->holder_offsets[l] = s->holder_offsets[l + 1];
    }
    s->holder_offsets[labels] = total;
done:
    return status;
}

static void release(sweeper *s)
{
    ts_free(s->remaining);
    ts_free(s->open);
    ts_free(s->holder_offsets);
    ts_free(s->holders);
    ts_free(s->growth);
    ts_free(s->heap);
    ts_free(s->where);
}

/* The tensor that is reached last from `start`, nearest first: near the rim of the network. */
static int32_t far_from(sweeper *s, int32_t start, int32_t *queue, uint8_t *seen)
{
    const ts_hypergraph *graph = s->graph;
    int32_t head = 0, tail = 0;
    memset(seen, 0, (size_t)graph->tensor_count);
    seen[start] = 1;
    queue[tail++] = start;
    while (head < tail) {
        int32_t t = queue[head++];
        for (int64_t i = graph->tensor_offsets[t]; i < graph->tensor_offsets[t + 1]; i++) {
            int32_t l = graph->tensor_labels[i];
            if (s->open[l]) {
                continue; /* each label is looked through once */
            }
            s->open[l] = 1;
            for (int64_t k = s->holder_offsets[l]; k < s->holder_offsets[l + 1]; k++) {
                if (!seen[s->holders[k]]) {
                    seen[s->holders[k]] = 1;
                    queue[tail++] = s->holders[k];
                }
            }
        }
    }
    memset(s->open, 0, (size_t)graph->label_count);
    return queue[tail - 1];
}

tensum_status ts_sweep(const ts_hypergraph *graph, uint64_t seed, int32_t *pairs)
{
    sweeper s = {.graph = graph};
    uint8_t *seen = NULL;
    int32_t n = graph->tensor_count, grown = -1, next = 0;
    ts_random random;
    tensum_status status;
    if (n < 2) {
        return TENSUM_OK;
    }
    ts_random_seed(&random, seed);
    TRY(create(&s));
    TRY(ts_allocate((size_t)n, 1, what, &seen));
    int32_t t = far_from(&s, (int32_t)ts_random_below(&random, (uint64_t)n), s.heap, seen);
    for (int32_t made = n;; made++) {
        absorb(&s, t);
        if (grown >= 0) {
            pairs[2 * (made - 1 - n)] = grown;
            pairs[2 * (made - 1 - n) + 1] = t;
            grown = made - 1;
        } else {
            grown = t;
        }
        if (made == 2 * n - 1) {
            break;
        }
        if (s.heap_count > 0) {
            t = s.heap[0];
            int32_t last = s.heap[--s.heap_count];
            if (s.heap_count > 0) {
                s.heap[0] = last;
                sift(&s, 0);
            }
        } else {
            while (s.where[next] != -1) {
                next++; /* another component */
            }
            t = next;
        }
    }
done:
    release(&s);
    ts_free(seen);
    return status;
}
