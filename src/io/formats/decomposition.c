/* Tree decompositions in the format of the PACE challenge: "s td BAGS MAXBAG VERTICES", "b I V...", then edges "I J".
 * Vertex v is the v-th label of the network in order of first occurrence, counted from 1.
 *
 * The order made of one: root the tree at its first bag, give each tensor to a bag that holds all its labels, and
 * contract, from the leaves up, what a bag has been given with the results of the bags below. No result has labels
 * outside the bag, so no tensor is larger than a bag. */
#include "io/formats.h"

static bool recognize(const ts_source *source)
{
    ts_scanner scanner;
    if (source->json != NULL) {
        return false;
    }
    ts_scanner_start(&scanner, source->input);
    while (ts_scan(&scanner)) {
        if (!ts_token_is(&scanner, "c")) {
            return ts_token_is(&scanner, "s") && ts_scan(&scanner) && ts_token_is(&scanner, "td");
        }
        ts_scan_next_line(&scanner);
    }
    return false;
}

typedef struct bags {
    int64_t count, vertex_count, edge_count;
    int64_t *offsets; /* [count + 1], bag i + 1 holds vertices[offsets[i] .. offsets[i+1]) */
    int64_t *vertices; /* from 0 */
    int64_t *edges;    /* [2 edge_count], from 0 */
} bags;

static void bags_free(bags *b)
{
    ts_free(b->offsets);
    ts_free(b->vertices);
    ts_free(b->edges);
}

/* Begin of every bag's list in the order of the file, for bags that come in any order. */
static tensum_status read_bag(ts_scanner *scanner, bags *b, int64_t *starts, size_t *capacity, int64_t *used)
{
    tensum_status status = TENSUM_OK;
    int64_t bag, vertex;
    ts_scan_in_line(scanner);
    TRY(ts_token_integer(scanner, "the number of a bag", 1, b->count, &bag));
    if (starts[2 * (bag - 1)] >= 0) {
        status = ts_input_fail(scanner->input, scanner->token, "bag %lld is given twice", (long long)bag);
        goto done;
    }
    starts[2 * (bag - 1)] = *used;
    while (ts_scan_in_line(scanner)) {
        TRY(ts_token_integer(scanner, "a vertex", 1, b->vertex_count, &vertex));
        TRY(ts_reserve((size_t)*used + 1, sizeof *b->vertices, "bags", capacity, &b->vertices));
        b->vertices[(*used)++] = vertex - 1;
    }
    starts[2 * (bag - 1) + 1] = *used;
done:
    return status;
}

static tensum_status read_bags(const ts_input *input, bags *b)
{
    tensum_status status = TENSUM_OK;
    ts_scanner scanner;
    int64_t *starts = NULL, *ordered = NULL, used = 0, width;
    size_t vertex_capacity = 0, edge_capacity = 0;
    bool header = false;
    ts_scanner_start(&scanner, input);
    while (ts_scan(&scanner)) {
        if (ts_token_is(&scanner, "c")) {
        } else if (!header) {
            if (!ts_token_is(&scanner, "s")) {
                status = ts_scan_fail(&scanner, "the line 's td BAGS MAXBAG VERTICES'");
                goto done;
            }
            ts_scan_in_line(&scanner);
            if (!ts_token_is(&scanner, "td")) {
                status = ts_scan_fail(&scanner, "'td'");
                goto done;
            }
            TRY(ts_scan_count(&scanner, "the number of bags", 3, &b->count));
            TRY(ts_scan_integer(&scanner, "the largest bag", 0, INT32_MAX, &width));
            TRY(ts_scan_integer(&scanner, "the number of vertices", 0, INT32_MAX, &b->vertex_count));
            TRY(ts_allocate((size_t)b->count, 2 * sizeof *starts, "bags", &starts));
            for (int64_t i = 0; i < 2 * b->count; i++) {
                starts[i] = -1;
            }
            header = true;
        } else if (ts_token_is(&scanner, "b")) {
            TRY(read_bag(&scanner, b, starts, &vertex_capacity, &used));
        } else {
            TRY(ts_reserve((size_t)(2 * b->edge_count + 2), sizeof *b->edges, "edges", &edge_capacity, &b->edges));
            for (int i = 0; i < 2; i++) {
                int64_t *end = &b->edges[2 * b->edge_count + i];
                if (i == 1) {
                    ts_scan_in_line(&scanner);
                }
                TRY(ts_token_integer(&scanner, "'b', 'c' or the number of a bag", 1, b->count, end));
                --*end;
            }
            b->edge_count++;
        }
        if (!ts_token_is(&scanner, "c") && ts_scan_in_line(&scanner)) {
            status = ts_scan_fail(&scanner, "the end of the line");
            goto done;
        }
        ts_scan_next_line(&scanner);
    }
    if (!header) {
        status = ts_scan_fail(&scanner, "the line 's td BAGS MAXBAG VERTICES'");
        goto done;
    }
    TRY(ts_allocate((size_t)b->count + 1, sizeof *b->offsets, "bags", &b->offsets));
    TRY(ts_allocate((size_t)used, sizeof *ordered, "bags", &ordered));
    b->offsets[0] = 0;
    for (int64_t i = 0; i < b->count; i++) {
        if (starts[2 * i] < 0) {
            status = ts_input_fail(input, input->length, "expected a line 'b %lld ...'", (long long)(i + 1));
            goto done;
        }
        int64_t length = starts[2 * i + 1] - starts[2 * i];
        if (length != 0) {
            memcpy(ordered + b->offsets[i], b->vertices + starts[2 * i], (size_t)length * sizeof *ordered);
        }
        b->offsets[i + 1] = b->offsets[i] + length;
    }
    ts_free(b->vertices);
    b->vertices = ordered;
    ordered = NULL;
done:
    ts_free(starts);
    ts_free(ordered);
    return status;
}

/* Bags in an order in which every bag comes before its parent; parents by bag, -1 for the root. */
static tensum_status order_bags(const ts_input *input, const bags *b, int64_t *post_order, int64_t *parents)
{
    tensum_status status = TENSUM_OK;
    int64_t *first = NULL, *next = NULL, visited = 0;
    if (b->edge_count != b->count - 1) {
        return ts_input_fail(input, input->length, "expected %lld edges between %lld bags, found %lld",
                             (long long)(b->count - 1), (long long)b->count, (long long)b->edge_count);
    }
    TRY(ts_allocate((size_t)b->count, sizeof *first, "bags", &first));
    TRY(ts_allocate((size_t)(2 * b->edge_count), sizeof *next, "edges", &next));
    for (int64_t i = 0; i < b->count; i++) {
        first[i] = -1;
        parents[i] = -2; /* not seen */
    }
    for (int64_t e = 0; e < 2 * b->edge_count; e++) { /* end e of edge e / 2 */
        next[e] = first[b->edges[e]];
        first[b->edges[e]] = e;
    }
    post_order[visited++] = 0;
    parents[0] = -1;
    for (int64_t i = 0; i < visited; i++) { /* breadth first from the root, turned round below */
        int64_t bag = post_order[i];
        for (int64_t e = first[bag]; e >= 0; e = next[e]) {
            int64_t other = b->edges[e ^ 1];
            if (parents[other] == -2) {
                parents[other] = bag;
                post_order[visited++] = other;
            }
        }
    }
    if (visited != b->count) {
        status = ts_input_fail(input, input->length, "the edges do not connect all bags: %lld of %lld are reached",
                               (long long)visited, (long long)b->count);
        goto done;
    }
    for (int64_t i = 0; i < visited / 2; i++) {
        int64_t other = post_order[i];
        post_order[i] = post_order[visited - 1 - i];
        post_order[visited - 1 - i] = other;
    }
done:
    ts_free(first);
    ts_free(next);
    return status;
}

/* The bag for every operand, linked: operands of bag i are first[i], next[first[i]], ... */
static tensum_status assign_operands(const ts_input *input, const bags *b, const tensum_network *network,
                                     int64_t *first, int64_t *next)
{
    tensum_status status = TENSUM_OK;
    int64_t *starts = NULL, *holders = NULL, *marks = NULL; /* bags that hold a vertex; vertices seen in the bag */
    TRY(ts_allocate_zero((size_t)b->vertex_count + 1, sizeof *starts, "bags", &starts));
    TRY(ts_allocate((size_t)b->offsets[b->count], sizeof *holders, "bags", &holders));
    TRY(ts_allocate_zero((size_t)b->count, sizeof *marks, "bags", &marks));
    for (int64_t i = 0; i < b->offsets[b->count]; i++) {
        starts[b->vertices[i] + 1]++;
    }
    for (int64_t v = 0; v < b->vertex_count; v++) {
        starts[v + 1] += starts[v];
    }
    for (int64_t bag = b->count - 1; bag >= 0; bag--) {
        first[bag] = -1;
        for (int64_t i = b->offsets[bag]; i < b->offsets[bag + 1]; i++) {
            holders[--starts[b->vertices[i] + 1]] = bag; /* leaves starts[v + 1] at the begin of v's list */
        }
    }
    /* marks[bag] counts operand's labels found in it; only bags of its last label are looked at in the end. */
    for (int64_t o = 0; o < network->operand_count; o++) {
        int64_t begin = network->effective_offsets[o], end = network->effective_offsets[o + 1], chosen = -1;
        for (int64_t l = begin; l < end; l++) {
            int64_t v = network->effective[l];
            int64_t stop = v + 2 <= b->vertex_count ? starts[v + 2] : b->offsets[b->count];
            for (int64_t h = starts[v + 1]; h < stop; h++) {
                int64_t *mark = &marks[holders[h]];
                *mark = l == begin ? 1 : *mark == l - begin ? *mark + 1 : *mark;
                if (l + 1 == end && *mark == end - begin) {
                    chosen = holders[h];
                }
            }
        }
        for (int64_t l = begin; l < end; l++) { /* clean up */
            int64_t v = network->effective[l];
            int64_t stop = v + 2 <= b->vertex_count ? starts[v + 2] : b->offsets[b->count];
            for (int64_t h = starts[v + 1]; h < stop; h++) {
                marks[holders[h]] = 0;
            }
        }
        if (begin == end) {
            chosen = 0;
        }
        if (chosen < 0) {
            status = ts_input_fail(input, input->length, "no bag holds all labels of tensor %lld", (long long)o);
            goto done;
        }
        next[o] = first[chosen];
        first[chosen] = o;
    }
done:
    ts_free(starts);
    ts_free(holders);
    ts_free(marks);
    return status;
}

static tensum_status read_decomposition(const ts_source *source, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    const tensum_network *network = source->options.network;
    bags b = {0};
    int64_t *post_order = NULL, *parents = NULL, *first = NULL, *next = NULL;
    int64_t *results = NULL, *result_next = NULL; /* results of the bags below, linked by bag */
    TRY(read_bags(source->input, &b));
    if (network == NULL) {
        status = ts_fail(TENSUM_STATUS_INVALID_ARGUMENT,
                         "%s: a tree decomposition says nothing without the network it belongs to", source->input->name);
        goto done;
    }
    if (b.vertex_count != network->label_count) {
        status = ts_input_fail(source->input, 0, "the decomposition has %lld vertices, but the network has %d labels",
                               (long long)b.vertex_count, (int)network->label_count);
        goto done;
    }
    if (b.count == 0) {
        status = ts_input_fail(source->input, 0, "expected at least one bag");
        goto done;
    }
    TRY(ts_allocate((size_t)b.count, sizeof *post_order, "bags", &post_order));
    TRY(ts_allocate((size_t)b.count, sizeof *parents, "bags", &parents));
    TRY(ts_allocate((size_t)b.count, sizeof *first, "bags", &first));
    TRY(ts_allocate((size_t)network->operand_count, sizeof *next, "tensors", &next));
    TRY(order_bags(source->input, &b, post_order, parents));
    TRY(assign_operands(source->input, &b, network, first, next));
    TRY(ts_allocate((size_t)b.count, sizeof *results, "bags", &results));
    TRY(ts_allocate((size_t)(network->operand_count + b.count), sizeof *result_next, "bags", &result_next));
    for (int64_t i = 0; i < b.count; i++) {
        results[i] = -1;
    }
    for (int64_t i = 0; i < b.count; i++) {
        int64_t bag = post_order[i], id = -1, parts = 0;
        for (int64_t o = first[bag]; o >= 0; o = next[o], parts++) {
            id = o;
        }
        for (int64_t r = results[bag]; r >= 0; r = result_next[r], parts++) {
            id = r;
        }
        if (parts > 1) {
            TRY(ts_draft_step(draft));
            for (int64_t o = first[bag]; o >= 0; o = next[o]) {
                TRY(ts_draft_child(draft, o));
            }
            for (int64_t r = results[bag]; r >= 0; r = result_next[r]) {
                TRY(ts_draft_child(draft, r));
            }
            id = network->operand_count + draft->step_count - 1;
        }
        if (id >= 0 && parents[bag] >= 0) {
            result_next[id] = results[parents[bag]];
            results[parents[bag]] = id;
        }
    }
    draft->leaf_count = network->operand_count;
    draft->has_tree = true;
done:
    bags_free(&b);
    ts_free(post_order);
    ts_free(parents);
    ts_free(first);
    ts_free(next);
    ts_free(results);
    ts_free(result_next);
    return status;
}

/* One bag per step: the labels of its operands. */
static tensum_status write_decomposition(const ts_writing *writing, ts_text *text)
{
    tensum_status status = TENSUM_OK;
    const tensum_network *network = writing->network;
    const tensum_tree *tree = writing->tree;
    ts_result_labels results = {0};
    ts_text body = {0};
    int64_t *seen = NULL, largest = 0;
    TRY(ts_write_needs(writing, "td", true, true));
    TRY(ts_result_labels_create(network, tree, &results));
    TRY(ts_allocate_zero((size_t)network->label_count, sizeof *seen, "labels", &seen));
    int64_t steps = tree->step_count, count = steps != 0 ? steps : 1;
    for (int64_t s = 0; s < steps; s++) {
        int64_t members = 0;
        ts_text_add(&body, "b %lld", (long long)(s + 1));
        for (int64_t i = tree->offsets[s]; i < tree->offsets[s + 1]; i++) {
            int64_t id = tree->children[i];
            for (int64_t l = results.offsets[id]; l < results.offsets[id + 1]; l++) {
                int32_t label = results.labels[l];
                if (seen[label] != s + 1) {
                    seen[label] = s + 1;
                    members++;
                    ts_text_add(&body, " %d", (int)label + 1);
                }
            }
        }
        ts_text_add(&body, "\n");
        largest = ts_max64(largest, members);
    }
    if (steps == 0) { /* one tensor or none: one bag of everything */
        largest = network->label_count;
        ts_text_add(&body, "b 1");
        for (int64_t l = 0; l < network->label_count; l++) {
            ts_text_add(&body, " %lld", (long long)(l + 1));
        }
        ts_text_add(&body, "\n");
    }
    for (int64_t s = 0; s < steps; s++) {
        for (int64_t i = tree->offsets[s]; i < tree->offsets[s + 1]; i++) {
            if (tree->children[i] >= tree->leaf_count) {
                ts_text_add(&body, "%lld %lld\n", (long long)(tree->children[i] - tree->leaf_count + 1),
                            (long long)(s + 1));
            }
        }
    }
    TRY(body.status);
    ts_text_add(text, "s td %lld %lld %d\n", (long long)count, (long long)largest, (int)network->label_count);
    ts_text_add_bytes(text, body.bytes, body.length);
    status = text->status;
done:
    ts_result_labels_free(&results);
    ts_text_free(&body);
    ts_free(seen);
    return status;
}

const ts_format ts_format_decomposition = {"td", "tree decomposition (PACE .td); vertex v is the v-th label", recognize,
                                           read_decomposition, write_decomposition};
