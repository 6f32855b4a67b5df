/* OMEinsumContractionOrdersBenchmark: {"einsum": {"ixs": [[1, 2], ...], "iy": []}, "size": {"1": 2, ...}}. */
#include "io/formats.h"

static bool recognize(const ts_source *source)
{
    return source->json != NULL && ts_json_member(source->json, source->json->values, "einsum") != NULL;
}

static tensum_status read_code(const ts_source *source, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    const ts_json *json = source->json;
    if (json == NULL) {
        return ts_input_fail(source->input, 0, "expected a JSON object");
    }
    const ts_json_value *code, *value;
    TRY(ts_json_need(json, json->values, "einsum", TS_JSON_OBJECT, &code));
    TRY(ts_json_need(json, code, "ixs", TS_JSON_ARRAY, &value));
    TRY(ts_json_operands(json, value, draft));
    TRY(ts_json_need(json, code, "iy", TS_JSON_ARRAY, &value));
    TRY(ts_json_output(json, value, draft));
    value = ts_json_member(json, json->values, "size");
    if (value != NULL) {
        TRY(ts_json_sizes(json, value, draft->texts.length == 0, draft));
    }
done:
    return status;
}

static tensum_status write_code(const ts_writing *writing, ts_text *text)
{
    tensum_status status = TENSUM_OK;
    const tensum_network *network = writing->network;
    int32_t rank;
    const int64_t *labels;
    TRY(ts_write_needs(writing, "code", true, false));
    ts_text_add(text, "{\"einsum\": {\"ixs\": [");
    for (int64_t i = 0; i < network->operand_count; i++) {
        TRY(tensum_network_operand(network, i, &rank, &labels, NULL));
        ts_text_add(text, i == 0 ? "" : ", ");
        ts_write_labels(writing, labels, rank, text);
    }
    TRY(tensum_network_operand(network, -1, &rank, &labels, NULL));
    ts_text_add(text, "], \"iy\": ");
    ts_write_labels(writing, labels, rank, text);
    ts_text_add(text, "}, \"size\": ");
    ts_write_sizes(writing, text);
    ts_text_add(text, "}\n");
done:
    return status;
}

const ts_format ts_format_omeinsum_code = {"code", "code JSON of OMEinsumContractionOrdersBenchmark: labels, sizes",
                                           recognize, read_code, write_code};
