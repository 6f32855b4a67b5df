/* cotengra's networks: {"inputs": [["a", "b"], ...], "output": [], "size_dict": {"a": 2, ...}}. */
#include "io/formats.h"

static bool recognize(const ts_source *source)
{
    return source->json != NULL && ts_json_member(source->json, source->json->values, "inputs") != NULL &&
           ts_json_member(source->json, source->json->values, "tree") == NULL;
}

static tensum_status read_network(const ts_source *source, ts_draft *draft)
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
    value = ts_json_member(json, root, "size_dict");
    if (value != NULL) {
        TRY(ts_json_sizes(json, value, draft->texts.length == 0 && draft->label_count != 0, draft));
    }
    value = ts_json_member(json, root, "ssa_path");
    if (value != NULL) {
        TRY(ts_json_path(json, value, false, draft));
    } else if ((value = ts_json_member(json, root, "path")) != NULL) {
        TRY(ts_json_path(json, value, true, draft));
    }
done:
    return status;
}

static tensum_status write_network(const ts_writing *writing, ts_text *text)
{
    tensum_status status = TENSUM_OK;
    const tensum_network *network = writing->network;
    int32_t rank;
    const int64_t *labels;
    TRY(ts_write_needs(writing, "cotengra", true, false));
    ts_text_add(text, "{\"inputs\": [");
    for (int64_t i = 0; i < network->operand_count; i++) {
        TRY(tensum_network_operand(network, i, &rank, &labels, NULL));
        ts_text_add(text, i == 0 ? "" : ", ");
        ts_write_labels(writing, labels, rank, text);
    }
    TRY(tensum_network_operand(network, -1, &rank, &labels, NULL));
    ts_text_add(text, "], \"output\": ");
    ts_write_labels(writing, labels, rank, text);
    ts_text_add(text, ", \"size_dict\": ");
    ts_write_sizes(writing, text);
    if (writing->tree != NULL) {
        ts_text_add(text, ", \"ssa_path\": ");
        ts_write_steps(writing, text);
    }
    ts_text_add(text, "}\n");
done:
    return status;
}

const ts_format ts_format_cotengra = {"cotengra", "cotengra's network JSON, with a path if there is an order",
                                      recognize, read_network, write_network};
