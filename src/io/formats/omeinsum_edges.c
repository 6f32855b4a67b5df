/* A graph with an order: {"n_vertices", "bond_dim", "edges": [[u, v], ...], "tree"}. Every edge is a tensor, every
 * vertex a label of extent bond_dim; all labels are summed. omeinsum-rs ships its benchmark networks so. */
#include "io/formats.h"

static bool recognize(const ts_source *source)
{
    return source->json != NULL && ts_json_member(source->json, source->json->values, "edges") != NULL &&
           ts_json_member(source->json, source->json->values, "bond_dim") != NULL;
}

static tensum_status read_edges(const ts_source *source, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    const ts_json *json = source->json;
    if (json == NULL) {
        return ts_input_fail(source->input, 0, "expected a JSON object");
    }
    const ts_json_value *value, *root = json->values;
    int64_t extent;
    TRY(ts_json_need(json, root, "bond_dim", TS_JSON_NUMBER, &value));
    TRY(ts_json_integer(json, value, "bond_dim", 0, INT64_MAX, &extent));
    TRY(ts_json_need(json, root, "edges", TS_JSON_ARRAY, &value));
    TRY(ts_json_operands(json, value, draft));
    for (int64_t i = 0; i < draft->label_count; i++) {
        draft->labels[i].extent = extent;
    }
    value = ts_json_member(json, root, "tree");
    if (value != NULL) {
        TRY(ts_json_nested_tree(json, value, draft->operand_count, draft));
    }
done:
    return status;
}

const ts_format ts_format_omeinsum_edges = {"edges", "graph of bond_dim, edges and tree: tensors are edges", recognize,
                                            read_edges, NULL};
