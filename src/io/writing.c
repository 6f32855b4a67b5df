/* Pieces that several writers share. */
#include "io/formats.h"

void ts_write_label(const ts_writing *writing, int64_t label, ts_text *text)
{
    const char *name = tensum_file_label(writing->names, label);
    if (name != NULL) {
        ts_text_add_json(text, name);
    } else {
        ts_text_add(text, "%lld", (long long)label);
    }
}

void ts_write_labels(const ts_writing *writing, const int64_t *labels, int64_t count, ts_text *text)
{
    ts_text_add(text, "[");
    for (int64_t i = 0; i < count; i++) {
        ts_text_add(text, i == 0 ? "" : ", ");
        ts_write_label(writing, labels[i], text);
    }
    ts_text_add(text, "]");
}

void ts_write_sizes(const ts_writing *writing, ts_text *text)
{
    const tensum_network *network = writing->network;
    ts_text_add(text, "{");
    for (int32_t i = 0; i < network->label_count; i++) {
        const char *name = tensum_file_label(writing->names, network->label_names[i]);
        ts_text_add(text, i == 0 ? "" : ", ");
        if (name != NULL) {
            ts_text_add_json(text, name);
        } else {
            ts_text_add(text, "\"%lld\"", (long long)network->label_names[i]);
        }
        ts_text_add(text, ": %lld", (long long)network->label_extents[i]);
    }
    ts_text_add(text, "}");
}

void ts_write_steps(const ts_writing *writing, ts_text *text)
{
    const int64_t *offsets, *children;
    tensum_tree_steps(writing->tree, &offsets, &children);
    ts_text_add(text, "[");
    for (int64_t s = 0; s < tensum_tree_step_count(writing->tree); s++) {
        ts_text_add(text, s == 0 ? "[" : ", [");
        for (int64_t i = offsets[s]; i < offsets[s + 1]; i++) {
            ts_text_add(text, i == offsets[s] ? "%lld" : ", %lld", (long long)children[i]);
        }
        ts_text_add(text, "]");
    }
    ts_text_add(text, "]");
}

tensum_status ts_write_needs(const ts_writing *writing, const char *format, bool network, bool tree)
{
    if (network && writing->network == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "format '%s' needs a network", format);
    }
    if (tree && writing->tree == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "format '%s' needs an order", format);
    }
    return TENSUM_OK;
}

/* ---- labels of every result: those that the output or something outside the subtree still needs ---- */

tensum_status ts_result_labels_create(const tensum_network *network, const tensum_tree *tree,
                                      ts_result_labels *results)
{
    tensum_status status = TENSUM_OK;
    int64_t n = tree->leaf_count, total = 0;
    int32_t *needed = NULL, *seen = NULL; /* places that need a label; mark of the last step that has seen it */
    ts_result_labels made = {0};
    size_t capacity = 0;
    TRY(ts_allocate_zero((size_t)network->label_count, sizeof *needed, "label counts", &needed));
    TRY(ts_allocate_zero((size_t)network->label_count, sizeof *seen, "label counts", &seen));
    TRY(ts_allocate((size_t)(n + tree->step_count + 1), sizeof *made.offsets, "labels of results", &made.offsets));
    for (int64_t i = 0; i <= n; i++) { /* operands, then the output */
        made.offsets[i] = total;
        for (int64_t m = network->offsets[i]; m < network->offsets[i + 1]; m++) {
            int32_t label = network->raw_labels[m];
            bool repeated = false;
            for (int64_t before = network->offsets[i]; before < m; before++) {
                repeated = repeated || network->raw_labels[before] == label;
            }
            if (repeated) {
                continue;
            }
            needed[label]++;
            if (i < n) {
                TRY(ts_reserve((size_t)total + 1, sizeof *made.labels, "labels of results", &capacity, &made.labels));
                made.labels[total++] = label;
            }
        }
    }
    /* A living value is one place that needs each of its labels. A step takes its operands' places away and puts its
     * result in, with the labels that other places need. */
    for (int64_t s = 0; s < tree->step_count; s++) {
        int64_t first = total;
        made.offsets[n + s] = total;
        for (int64_t i = tree->offsets[s]; i < tree->offsets[s + 1]; i++) {
            int64_t id = tree->children[i];
            for (int64_t l = made.offsets[id]; l < made.offsets[id + 1]; l++) {
                int32_t label = made.labels[l];
                needed[label]--;
                if (seen[label] != s + 1) {
                    seen[label] = (int32_t)(s + 1);
                    TRY(ts_reserve((size_t)total + 1, sizeof *made.labels, "labels of results", &capacity,
                                   &made.labels));
                    made.labels[total++] = label;
                }
            }
        }
        int64_t kept = first;
        for (int64_t l = first; l < total; l++) {
            if (needed[made.labels[l]] > 0) {
                needed[made.labels[l]]++;
                made.labels[kept++] = made.labels[l];
            }
        }
        total = kept;
        made.offsets[n + s + 1] = total;
    }
    *results = made;
    made = (ts_result_labels){0};
done:
    ts_free(needed);
    ts_free(seen);
    ts_result_labels_free(&made);
    return status;
}

void ts_result_labels_free(ts_result_labels *results)
{
    ts_free(results->offsets);
    ts_free(results->labels);
    *results = (ts_result_labels){0};
}

/* ---- nested trees ---- */

static void add_value_labels(const ts_writing *writing, const ts_result_labels *results, int64_t id, ts_text *text)
{
    const tensum_network *network = writing->network;
    ts_text_add(text, "[");
    if (id < network->operand_count) { /* a leaf keeps its modes as they are, repeated ones too */
        for (int64_t m = network->offsets[id]; m < network->offsets[id + 1]; m++) {
            ts_text_add(text, m == network->offsets[id] ? "" : ", ");
            ts_write_label(writing, network->raw_names[m], text);
        }
    } else {
        for (int64_t l = results->offsets[id]; l < results->offsets[id + 1]; l++) {
            ts_text_add(text, l == results->offsets[id] ? "" : ", ");
            ts_write_label(writing, network->label_names[results->labels[l]], text);
        }
    }
    ts_text_add(text, "]");
}

typedef struct frame {
    int64_t step, next; /* next child */
} frame;

static void open_node(const ts_writing *writing, const ts_result_labels *results, int64_t step, bool root,
                      ts_text *text)
{
    const tensum_tree *tree = writing->tree;
    const tensum_network *network = writing->network;
    ts_text_add(text, "{\"isleaf\": false, \"eins\": {\"ixs\": [");
    for (int64_t i = tree->offsets[step]; i < tree->offsets[step + 1]; i++) {
        ts_text_add(text, i == tree->offsets[step] ? "" : ", ");
        add_value_labels(writing, results, tree->children[i], text);
    }
    ts_text_add(text, "], \"iy\": ");
    if (root) {
        int64_t first = network->offsets[network->operand_count];
        ts_write_labels(writing, network->raw_names + first, network->offsets[network->operand_count + 1] - first, text);
    } else {
        add_value_labels(writing, results, tree->leaf_count + step, text);
    }
    ts_text_add(text, "}, \"args\": [");
}

tensum_status ts_write_nested_tree(const ts_writing *writing, int64_t base, ts_text *text)
{
    tensum_status status = TENSUM_OK;
    const tensum_tree *tree = writing->tree;
    ts_result_labels results = {0};
    frame *stack = NULL;
    int64_t depth = 0;
    if (tree->step_count == 0) {
        if (tree->leaf_count == 0) {
            return ts_fail(TENSUM_STATUS_UNSUPPORTED, "a network without tensors has no nested tree");
        }
        ts_text_add(text, "{\"isleaf\": true, \"tensorindex\": %lld}", (long long)base);
        return text->status;
    }
    TRY(ts_result_labels_create(writing->network, tree, &results));
    TRY(ts_allocate((size_t)tree->step_count, sizeof *stack, "a tree", &stack));
    open_node(writing, &results, tree->step_count - 1, true, text);
    stack[depth++] = (frame){tree->step_count - 1, tree->offsets[tree->step_count - 1]};
    while (depth != 0) {
        frame *top = &stack[depth - 1];
        if (top->next == tree->offsets[top->step + 1]) {
            ts_text_add(text, "]}");
            depth--;
            continue;
        }
        ts_text_add(text, top->next == tree->offsets[top->step] ? "" : ", ");
        int64_t id = tree->children[top->next++];
        if (id < tree->leaf_count) {
            ts_text_add(text, "{\"isleaf\": true, \"tensorindex\": %lld}", (long long)(id + base));
        } else {
            open_node(writing, &results, id - tree->leaf_count, false, text);
            stack[depth++] = (frame){id - tree->leaf_count, tree->offsets[id - tree->leaf_count]};
        }
    }
    status = text->status;
done:
    ts_result_labels_free(&results);
    ts_free(stack);
    return status;
}
