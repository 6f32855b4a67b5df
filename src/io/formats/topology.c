/* Topology of omeinsum-cli: {"schema_version": 1, "expression": "ab,bc->ac", "label_map": {"a": 0, ...},
 * "size_dict": {"a": 2, ...}, "method": "...", "tree": T}. The tree numbers labels by label_map; leaves from 0. */
#include "io/formats.h"

static bool recognize(const ts_source *source)
{
    return source->json != NULL && ts_json_member(source->json, source->json->values, "expression") != NULL &&
           ts_json_member(source->json, source->json->values, "size_dict") != NULL;
}

static tensum_status read_topology(const ts_source *source, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    const ts_json *json = source->json;
    if (json == NULL) {
        return ts_input_fail(source->input, 0, "expected a JSON object");
    }
    const ts_json_value *value, *root = json->values;
    int64_t version;
    TRY(ts_json_need(json, root, "schema_version", TS_JSON_NUMBER, &value));
    TRY(ts_json_integer(json, value, "schema_version", 1, 1, &version));
    TRY(ts_json_need(json, root, "expression", TS_JSON_STRING, &value));
    TRY(ts_json_expression(json, value, draft));
    TRY(ts_json_need(json, root, "size_dict", TS_JSON_OBJECT, &value));
    TRY(ts_json_sizes(json, value, false, draft));
    value = ts_json_member(json, root, "tree");
    if (value != NULL) {
        TRY(ts_json_nested_tree(json, value, draft->operand_count, draft));
    }
done:
    return status;
}

const ts_format ts_format_topology = {"topology", "omeinsum-cli's topology JSON: expression, sizes, tree", recognize,
                                      read_topology, NULL};
