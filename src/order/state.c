#include "order/state.h"

#include <stdlib.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const char *const what = "search state of a contraction order";

/* ---- the kernel ---- */

static inline __attribute__((always_inline)) void trial_body(const ts_bit_layout *layout, const uint64_t *p,
                                                              const uint64_t *y, const uint64_t *q, const uint64_t *v,
                                                              ts_trial *trial)
{
    ts_trial sum = {0.0, 0.0, 0.0};
    for (int32_t c = 0; c < layout->class_count; c++) {
        int32_t inner = 0, size = 0, outer = 0;
        for (int32_t w = layout->class_words[c]; w < layout->class_words[c + 1]; w++) {
            uint64_t joined = p[w] | y[w];
            uint64_t result = joined & (q[w] | v[w]);
            inner += __builtin_popcountll(joined);
            size += __builtin_popcountll(result);
            outer += __builtin_popcountll(result | q[w]);
        }
        sum.inner += layout->class_weight[c] * inner;
        sum.size += layout->class_weight[c] * size;
        sum.outer += layout->class_weight[c] * outer;
    }
    *trial = sum;
}

static void trial_plain(const ts_bit_layout *layout, const uint64_t *p, const uint64_t *y, const uint64_t *q,
                        const uint64_t *v, ts_trial *trial)
{
    trial_body(layout, p, y, q, v, trial);
}

#if defined(__x86_64__)
__attribute__((target("popcnt"))) static void trial_popcnt(const ts_bit_layout *layout, const uint64_t *p,
                                                           const uint64_t *y, const uint64_t *q, const uint64_t *v,
                                                           ts_trial *trial)
{
    trial_body(layout, p, y, q, v, trial);
}

__attribute__((target("avx512f,avx512vpopcntdq,popcnt"))) static void
trial_avx512(const ts_bit_layout *layout, const uint64_t *p, const uint64_t *y, const uint64_t *q, const uint64_t *v,
             ts_trial *trial)
{
    ts_trial sum = {0.0, 0.0, 0.0};
    for (int32_t c = 0; c < layout->class_count; c++) {
        __m512i inner = _mm512_setzero_si512(), size = inner, outer = inner;
        int32_t end = layout->class_words[c + 1];
        for (int32_t w = layout->class_words[c]; w < end; w += 8) {
            __mmask8 mask = (__mmask8)(end - w >= 8 ? 0xff : (1 << (end - w)) - 1);
            __m512i held_q = _mm512_maskz_loadu_epi64(mask, q + w);
            __m512i joined = _mm512_or_si512(_mm512_maskz_loadu_epi64(mask, p + w),
                                             _mm512_maskz_loadu_epi64(mask, y + w));
            __m512i result = _mm512_and_si512(joined,
                                              _mm512_or_si512(held_q, _mm512_maskz_loadu_epi64(mask, v + w)));
            inner = _mm512_add_epi64(inner, _mm512_popcnt_epi64(joined));
            size = _mm512_add_epi64(size, _mm512_popcnt_epi64(result));
            outer = _mm512_add_epi64(outer, _mm512_popcnt_epi64(_mm512_or_si512(result, held_q)));
        }
        sum.inner += layout->class_weight[c] * (double)_mm512_reduce_add_epi64(inner);
        sum.size += layout->class_weight[c] * (double)_mm512_reduce_add_epi64(size);
        sum.outer += layout->class_weight[c] * (double)_mm512_reduce_add_epi64(outer);
    }
    *trial = sum;
}
#endif

static ts_trial_function choose_trial(const ts_bit_layout *layout)
{
#if defined(__x86_64__)
    /* Vectors pay where classes are several words long. */
    if (layout->words > 3 * layout->class_count && __builtin_cpu_supports("avx512vpopcntdq")) {
        return trial_avx512;
    }
    if (__builtin_cpu_supports("popcnt")) {
        return trial_popcnt;
    }
#else
    (void)layout;
#endif
    return trial_plain;
}

double ts_bits_weight(const ts_bit_layout *layout, const uint64_t *bits)
{
    ts_trial trial;
    trial_plain(layout, bits, bits, bits, bits, &trial);
    return trial.inner;
}

/* ---- layout ---- */

typedef struct weighted_label {
    double weight;
    int32_t label;
} weighted_label;

static int compare_weights(const void *a, const void *b)
{
    const weighted_label *x = a, *y = b;
    if (x->weight != y->weight) {
        return x->weight < y->weight ? -1 : 1;
    }
    return (x->label > y->label) - (x->label < y->label);
}

/* Only labels that some tensor holds take a bit. */
static tensum_status lay_out(ts_bit_layout *layout, const ts_hypergraph *graph)
{
    weighted_label *sorted = NULL;
    tensum_status status;
    size_t labels = (size_t)graph->label_count;
    TRY(ts_allocate(labels, sizeof *sorted, what, &sorted));
    TRY(ts_allocate(labels, sizeof *layout->place, what, &layout->place));
    TRY(ts_allocate(labels + 1, sizeof *layout->class_words, what, &layout->class_words));
    TRY(ts_allocate(labels, sizeof *layout->class_weight, what, &layout->class_weight));
    for (size_t l = 0; l < labels; l++) {
        layout->place[l] = -1;
    }
    for (int64_t i = 0; i < graph->tensor_offsets[graph->tensor_count]; i++) {
        layout->place[graph->tensor_labels[i]] = 0;
    }
    size_t used = 0;
    for (int32_t l = 0; l < graph->label_count; l++) {
        if (layout->place[l] == 0) {
            sorted[used++] = (weighted_label){graph->log2_extents[l], l};
        }
    }
    qsort(sorted, used, sizeof *sorted, compare_weights);
    int32_t bit = 0;
    layout->class_count = 0;
    for (size_t i = 0; i < used; i++) {
        if (i == 0 || sorted[i].weight != sorted[i - 1].weight) {
            bit = (bit + 63) / 64 * 64;
            layout->class_words[layout->class_count] = bit / 64;
            layout->class_weight[layout->class_count++] = sorted[i].weight;
        }
        layout->place[sorted[i].label] = bit++;
    }
    layout->words = (bit + 63) / 64;
    layout->class_words[layout->class_count] = layout->words;
    layout->words += layout->words == 0;
    TRY(ts_allocate_zero((size_t)layout->words, sizeof *layout->word_weight, what, &layout->word_weight));
    for (int32_t c = 0; c < layout->class_count; c++) {
        for (int32_t w = layout->class_words[c]; w < layout->class_words[c + 1]; w++) {
            layout->word_weight[w] = layout->class_weight[c];
        }
    }
done:
    ts_free(sorted);
    return status;
}

double ts_state_bytes(const ts_hypergraph *graph)
{
    return (double)graph->tensor_count * 2.0 * ((double)graph->label_count / 8.0 + 64.0);
}

tensum_status ts_state_create(ts_state *state, const ts_hypergraph *graph)
{
    int32_t *counts = NULL;
    tensum_status status;
    size_t nodes = 2 * (size_t)graph->tensor_count - 1;
    *state = (ts_state){.graph = graph, .leaves = graph->tensor_count, .root = -1};
    TRY(lay_out(&state->layout, graph));
    size_t words = (size_t)state->layout.words;
    TRY(ts_allocate(nodes, sizeof *state->left, what, &state->left));
    TRY(ts_allocate(nodes, sizeof *state->right, what, &state->right));
    TRY(ts_allocate(nodes, sizeof *state->parent, what, &state->parent));
    TRY(ts_allocate(nodes, sizeof *state->size, what, &state->size));
    TRY(ts_allocate(nodes, sizeof *state->step, what, &state->step));
    TRY(ts_allocate_zero((size_t)graph->label_count, sizeof *counts, what, &counts));
    TRY(ts_allocate_aligned(nodes * words * sizeof *state->bits, what, &state->bits));
    memset(state->bits, 0, nodes * words * sizeof *state->bits);
    for (int64_t i = 0; i < graph->tensor_offsets[graph->tensor_count]; i++) {
        counts[graph->tensor_labels[i]]++;
    }
    for (int32_t t = 0; t < graph->tensor_count; t++) {
        state->left[t] = state->right[t] = state->parent[t] = -1;
        state->step[t] = 0.0;
        uint64_t *bits = ts_state_bits(state, t);
        for (int64_t i = graph->tensor_offsets[t]; i < graph->tensor_offsets[t + 1]; i++) {
            int32_t l = graph->tensor_labels[i];
            if (counts[l] > 1 || graph->is_output[l]) {
                bits[state->layout.place[l] / 64] |= UINT64_C(1) << (state->layout.place[l] % 64);
            }
        }
        state->size[t] = ts_bits_weight(&state->layout, bits);
    }
    state->trial = choose_trial(&state->layout);
done:
    ts_free(counts);
    return status;
}

void ts_state_free(ts_state *state)
{
    ts_free(state->layout.place);
    ts_free(state->layout.class_words);
    ts_free(state->layout.class_weight);
    ts_free(state->layout.word_weight);
    ts_free(state->left);
    ts_free(state->right);
    ts_free(state->parent);
    ts_free(state->bits);
    ts_free(state->size);
    ts_free(state->step);
    *state = (ts_state){0};
}

int32_t ts_links_post_order(int32_t n, const int32_t *left, const int32_t *right, int32_t top, int32_t *order)
{
    int32_t count = 0, end = 2 * n - 1, stack = end;
    if (top >= n) {
        order[--stack] = top;
    }
    while (stack < end) {
        int32_t node = order[stack++];
        order[count++] = node;
        if (left[node] >= n) {
            order[--stack] = left[node];
        }
        if (right[node] >= n) {
            order[--stack] = right[node];
        }
    }
    for (int32_t i = 0; i < count / 2; i++) {
        int32_t swap = order[i];
        order[i] = order[count - 1 - i];
        order[count - 1 - i] = swap;
    }
    return count;
}

void ts_links_to_pairs(int32_t n, const int32_t *left, const int32_t *right, int32_t root, int32_t *scratch,
                       int32_t *pairs)
{
    int32_t inner = ts_links_post_order(n, left, right, root, scratch);
    int32_t *number = scratch + n - 1; /* SSA id of each inner node, less n */
    for (int32_t i = 0; i < inner; i++) {
        int32_t node = scratch[i], x = left[node], y = right[node];
        pairs[2 * i] = x < n ? x : n + number[x - n];
        pairs[2 * i + 1] = y < n ? y : n + number[y - n];
        number[node - n] = i;
    }
}

int32_t ts_state_post_order(const ts_state *state, int32_t top, int32_t *order)
{
    return ts_links_post_order(state->leaves, state->left, state->right, top, order);
}

void ts_state_settle(ts_state *state, int32_t node, bool filter_x, bool filter_y)
{
    const uint64_t *bits = ts_state_bits(state, node);
    uint64_t *x = ts_state_bits(state, state->left[node]), *y = ts_state_bits(state, state->right[node]);
    uint64_t mask_x = filter_x ? 0 : ~UINT64_C(0), mask_y = filter_y ? 0 : ~UINT64_C(0);
    double weight_size = 0.0, weight_step = 0.0;
    for (int32_t c = 0; c < state->layout.class_count; c++) {
        int32_t size = 0, step = 0;
        for (int32_t w = state->layout.class_words[c]; w < state->layout.class_words[c + 1]; w++) {
            uint64_t all_x = x[w], all_y = y[w];
            x[w] = all_x & (all_y | bits[w] | mask_x);
            y[w] = all_y & (all_x | bits[w] | mask_y);
            size += __builtin_popcountll(bits[w]);
            step += __builtin_popcountll(x[w] | y[w]);
        }
        weight_size += state->layout.class_weight[c] * size;
        weight_step += state->layout.class_weight[c] * step;
    }
    state->size[node] = weight_size;
    state->step[node] = weight_step;
}

void ts_state_refresh(ts_state *state, int32_t *scratch)
{
    int32_t words = state->layout.words, n = state->leaves;
    int32_t inner = ts_state_post_order(state, state->root, scratch);
    /* Bottom up: all labels below a node. Then top down: of those, x keeps what y or the rest of the network holds. */
    for (int32_t i = 0; i < inner; i++) {
        int32_t node = scratch[i];
        uint64_t *bits = ts_state_bits(state, node);
        const uint64_t *x = ts_state_bits(state, state->left[node]), *y = ts_state_bits(state, state->right[node]);
        for (int32_t w = 0; w < words; w++) {
            bits[w] = x[w] | y[w];
        }
    }
    uint64_t *root = ts_state_bits(state, state->root);
    memset(root, 0, (size_t)words * sizeof *root);
    for (int32_t l = 0; l < state->graph->label_count; l++) {
        int32_t place = state->layout.place[l];
        if (state->graph->is_output[l] && place >= 0) {
            root[place / 64] |= UINT64_C(1) << (place % 64);
        }
    }
    for (int32_t i = inner - 1; i >= 0; i--) {
        ts_state_settle(state, scratch[i], state->left[scratch[i]] >= n, state->right[scratch[i]] >= n);
    }
}

void ts_state_load(ts_state *state, const int32_t *pairs)
{
    int32_t n = state->leaves;
    for (int32_t s = 0; s < n - 1; s++) {
        state->left[n + s] = pairs[2 * s];
        state->right[n + s] = pairs[2 * s + 1];
        state->parent[pairs[2 * s]] = n + s;
        state->parent[pairs[2 * s + 1]] = n + s;
    }
    state->root = 2 * n - 2;
    state->parent[state->root] = -1;
}

void ts_state_store(const ts_state *state, int32_t *scratch, int32_t *pairs)
{
    ts_links_to_pairs(state->leaves, state->left, state->right, state->root, scratch, pairs);
}
