/* OMEinsum.jl's writejson: {"label-type", "inputs", "output", "tree", "slices"}, without extents. Leaves count from 1
 * there; omeco, the Rust twin, counts from 0. */
#include "io/formats.h"

static bool recognize(const ts_source *source)
{
    return source->json != NULL && ts_json_member(source->json, source->json->values, "tree") != NULL &&
           ts_json_member(source->json, source->json->values, "inputs") != NULL;
}

static tensum_status read_order(const ts_source *source, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    const ts_json *json = source->json;
    if (json == NULL) {
        return ts_input_fail(source->input, 0, "expected a JSON object");
    }
    const ts_json_value *value, *root = json->values;
    TRY(ts_json_need(json, root, "inputs", TS_JSON_ARRAY, &value));
    TRY(ts_json_operands(json, value, draft));
    TRY(ts_json_need(json, root, "output", TS_JSON_ARRAY, &value));
    TRY(ts_json_output(json, value, draft));
    TRY(ts_json_need(json, root, "tree", TS_JSON_OBJECT, &value));
    TRY(ts_json_nested_tree(json, value, draft->operand_count, draft));
    value = ts_json_member(json, root, "slices");
    if (value != NULL) {
        TRY(ts_json_expect(json, value, TS_JSON_ARRAY, "sliced labels"));
        for (const ts_json_value *v = ts_json_first(json, value); v != NULL; v = ts_json_next(json, v)) {
            int64_t label;
            TRY(ts_json_label(json, v, draft, &label));
            TRY(ts_draft_slice(draft, label));
        }
    }
    value = ts_json_member(json, root, "size");
    if (value != NULL) {
        TRY(ts_json_sizes(json, value, true, draft));
    }
done:
    return status;
}

static tensum_status write_order(const ts_writing *writing, ts_text *text)
{
    tensum_status status = TENSUM_OK;
    const tensum_network *network = writing->network;
    int32_t rank;
    const int64_t *labels, *slices;
    TRY(ts_write_needs(writing, "omeinsum", true, true));
    bool characters = network->label_count != 0;
    for (int32_t i = 0; i < network->label_count; i++) {
        characters = characters && network->label_names[i] < TS_LABEL_TEXT &&
                     tensum_file_label(writing->names, network->label_names[i]) != NULL;
    }
    ts_text_add(text, "{\"label-type\": \"%s\", \"inputs\": [", characters ? "Char" : "Int64");
    for (int64_t i = 0; i < network->operand_count; i++) {
        TRY(tensum_network_operand(network, i, &rank, &labels, NULL));
        ts_text_add(text, i == 0 ? "" : ", ");
        ts_write_labels(writing, labels, rank, text);
    }
    TRY(tensum_network_operand(network, -1, &rank, &labels, NULL));
    ts_text_add(text, "], \"output\": ");
    ts_write_labels(writing, labels, rank, text);
    int64_t slice_count = tensum_tree_slices(writing->tree, &slices);
    ts_text_add(text, ", \"slices\": ");
    ts_write_labels(writing, slices, slice_count, text);
    ts_text_add(text, ",\n\"tree\": ");
    TRY(ts_write_nested_tree(writing, 1, text));
    ts_text_add(text, "}\n");
done:
    return status;
}

const ts_format ts_format_omeinsum = {"omeinsum", "OMEinsum's order JSON: labels and tree, leaves from 0 or 1",
                                      recognize, read_order, write_order};
