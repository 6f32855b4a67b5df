/* The project's own JSON: everything a network and an order consist of, so that a round trip is exact.
 *
 * {"format": "tensum", "version": 1,
 *  "inputs": [{"labels": [97, 98], "extents": [2, 3]}, ...],
 *  "output": [97],
 *  "sizes": {"99": 4},              extents of labels that only the output has
 *  "names": {"1114112": "k1"},      text of labels; a label that is a character needs none
 *  "order": {"leaves": 3, "steps": [[0, 1], [2, 3]], "slices": [98]}}     steps in SSA form
 *
 * "inputs", "output", "sizes" belong together and may be absent, and so may "order". */
#include "io/file.h"

static bool recognize(const ts_source *source)
{
    const ts_json_value *name =
        source->json != NULL ? ts_json_member(source->json, source->json->values, "format") : NULL;
    return name != NULL && name->kind == TS_JSON_STRING && strcmp(ts_json_string(source->json, name), "tensum") == 0;
}

static tensum_status read_inputs(const ts_json *json, const ts_json_value *inputs, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    for (const ts_json_value *one = ts_json_first(json, inputs); one != NULL; one = ts_json_next(json, one)) {
        const ts_json_value *labels, *extents;
        TRY(ts_json_expect(json, one, TS_JSON_OBJECT, "an input"));
        TRY(ts_json_need(json, one, "labels", TS_JSON_ARRAY, &labels));
        TRY(ts_json_need(json, one, "extents", TS_JSON_ARRAY, &extents));
        if (labels->count != extents->count) {
            status = ts_json_fail(json, extents, "expected %lld extents, one per label, found %lld",
                                  (long long)labels->count, (long long)extents->count);
            goto done;
        }
        TRY(ts_draft_operand(draft));
        const ts_json_value *e = ts_json_first(json, extents);
        for (const ts_json_value *l = ts_json_first(json, labels); l != NULL; l = ts_json_next(json, l)) {
            int64_t label, extent;
            TRY(ts_json_integer(json, l, "a label", -INT64_MAX, INT64_MAX, &label));
            TRY(ts_json_integer(json, e, "an extent", 0, INT64_MAX, &extent));
            TRY(ts_draft_mode(draft, label, extent));
            e = ts_json_next(json, e);
        }
    }
done:
    return status;
}

static tensum_status read_names(const ts_json *json, const ts_json_value *names, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    for (const ts_json_value *v = ts_json_first(json, names); v != NULL; v = ts_json_next(json, v)) {
        int64_t label, number;
        TRY(ts_json_expect(json, v, TS_JSON_STRING, "the text of a label"));
        if (!ts_parse_integer(ts_json_key(json, v), v->key_length, &label)) {
            status = ts_json_fail(json, v, "expected an integer label as the key");
            goto done;
        }
        TRY(ts_draft_label_number(draft, label, &number));
        size_t position = draft->texts.length;
        ts_text_add_bytes(&draft->texts, ts_json_string(json, v), v->length);
        ts_text_add_bytes(&draft->texts, "", 1);
        TRY(draft->texts.status);
        draft->labels[number].text = position + 1;
    }
done:
    return status;
}

static tensum_status read_order(const ts_json *json, const ts_json_value *order, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    const ts_json_value *steps, *leaves, *slices = ts_json_member(json, order, "slices");
    int64_t leaf_count;
    TRY(ts_json_need(json, order, "leaves", TS_JSON_NUMBER, &leaves));
    TRY(ts_json_integer(json, leaves, "the number of leaves", 0, INT64_MAX, &leaf_count));
    TRY(ts_json_need(json, order, "steps", TS_JSON_ARRAY, &steps));
    TRY(ts_json_path(json, steps, false, draft));
    if (leaf_count != draft->leaf_count && !(leaf_count == 0 && draft->step_count == 0)) {
        status = ts_json_fail(json, leaves, "the steps reduce %lld tensors to one, expected that number of leaves",
                              (long long)draft->leaf_count);
        goto done;
    }
    draft->leaf_count = leaf_count;
    if (slices != NULL) {
        TRY(ts_json_expect(json, slices, TS_JSON_ARRAY, "sliced labels"));
        for (const ts_json_value *v = ts_json_first(json, slices); v != NULL; v = ts_json_next(json, v)) {
            int64_t label;
            TRY(ts_json_integer(json, v, "a label", -INT64_MAX, INT64_MAX, &label));
            TRY(ts_draft_slice(draft, label));
        }
    }
done:
    return status;
}

static tensum_status read_own(const ts_source *source, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    const ts_json *json = source->json;
    if (json == NULL) {
        return ts_input_fail(source->input, 0, "expected a JSON object");
    }
    const ts_json_value *root = json->values, *value, *order = ts_json_member(json, root, "order");
    int64_t version;
    TRY(ts_json_need(json, root, "version", TS_JSON_NUMBER, &value));
    TRY(ts_json_integer(json, value, "version", 1, 1, &version));
    if (order == NULL || ts_json_member(json, root, "inputs") != NULL) {
        TRY(ts_json_need(json, root, "inputs", TS_JSON_ARRAY, &value));
        TRY(read_inputs(json, value, draft));
        TRY(ts_json_need(json, root, "output", TS_JSON_ARRAY, &value));
        TRY(ts_json_output(json, value, draft));
        if ((value = ts_json_member(json, root, "sizes")) != NULL) {
            TRY(ts_json_sizes(json, value, true, draft));
        }
        if ((value = ts_json_member(json, root, "names")) != NULL) {
            TRY(ts_json_expect(json, value, TS_JSON_OBJECT, "names of labels"));
            TRY(read_names(json, value, draft));
        }
        draft->has_network = true;
    }
    if (order != NULL) {
        TRY(ts_json_expect(json, order, TS_JSON_OBJECT, "an order"));
        TRY(read_order(json, order, draft));
    }
done:
    return status;
}

static void add_integers(ts_text *text, const int64_t *values, int64_t count)
{
    ts_text_add(text, "[");
    for (int64_t i = 0; i < count; i++) {
        ts_text_add(text, i == 0 ? "%lld" : ", %lld", (long long)values[i]);
    }
    ts_text_add(text, "]");
}

static bool in_an_operand(const tensum_network *network, int64_t label)
{
    for (int64_t i = 0; i < network->offsets[network->operand_count]; i++) {
        if (network->raw_names[i] == label) {
            return true;
        }
    }
    return false;
}

static tensum_status write_network(const ts_writing *writing, ts_text *text)
{
    tensum_status status = TENSUM_OK;
    const tensum_network *network = writing->network;
    int32_t rank;
    const int64_t *labels, *extents;
    ts_text_add(text, ",\n \"inputs\": [");
    for (int64_t i = 0; i < network->operand_count; i++) {
        TRY(tensum_network_operand(network, i, &rank, &labels, &extents));
        ts_text_add(text, i == 0 ? "\n  {\"labels\": " : ",\n  {\"labels\": ");
        add_integers(text, labels, rank);
        ts_text_add(text, ", \"extents\": ");
        add_integers(text, extents, rank);
        ts_text_add(text, "}");
    }
    TRY(tensum_network_operand(network, -1, &rank, &labels, &extents));
    ts_text_add(text, "],\n \"output\": ");
    add_integers(text, labels, rank);
    ts_text_add(text, ",\n \"sizes\": {");
    const char *separator = "";
    for (int32_t i = 0; i < rank; i++) {
        bool repeated = false;
        for (int32_t j = 0; j < i; j++) {
            repeated = repeated || labels[j] == labels[i];
        }
        if (!repeated && !in_an_operand(network, labels[i])) {
            ts_text_add(text, "%s\"%lld\": %lld", separator, (long long)labels[i], (long long)extents[i]);
            separator = ", ";
        }
    }
    ts_text_add(text, "}");
    separator = ",\n \"names\": {";
    for (int32_t i = 0; i < network->label_count; i++) {
        const char *name = tensum_file_label(writing->names, network->label_names[i]);
        if (name != NULL) {
            ts_text_add(text, "%s\"%lld\": ", separator, (long long)network->label_names[i]);
            ts_text_add_json(text, name);
            separator = ", ";
        }
    }
    if (separator[1] == ' ') {
        ts_text_add(text, "}");
    }
done:
    return status;
}

static tensum_status write_own(const ts_writing *writing, ts_text *text)
{
    tensum_status status = TENSUM_OK;
    ts_text_add(text, "{\"format\": \"tensum\", \"version\": 1");
    if (writing->network != NULL) {
        TRY(write_network(writing, text));
    }
    if (writing->tree != NULL) {
        const int64_t *offsets, *children, *slices;
        int64_t slice_count = tensum_tree_slices(writing->tree, &slices);
        tensum_tree_steps(writing->tree, &offsets, &children);
        ts_text_add(text, ",\n \"order\": {\"leaves\": %lld, \"steps\": [",
                    (long long)tensum_tree_leaf_count(writing->tree));
        for (int64_t s = 0; s < tensum_tree_step_count(writing->tree); s++) {
            ts_text_add(text, s == 0 ? "" : s % 16 == 0 ? ",\n  " : ", ");
            add_integers(text, children + offsets[s], offsets[s + 1] - offsets[s]);
        }
        ts_text_add(text, "], \"slices\": ");
        add_integers(text, slices, slice_count);
        ts_text_add(text, "}");
    }
    ts_text_add(text, "}\n");
done:
    return status;
}

const ts_format ts_format_own = {"tensum", "network and order as JSON, the project's own; exact round trip", recognize,
                                 read_own, write_own};
