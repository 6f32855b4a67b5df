/* Extracts of the einsum benchmark: {"format_string": "ab,bc->ac", "shapes": [[2, 3], ...],
 * "paths": {"opt_flops": {"path": [[0, 1], ...]}, ...}}, paths linear. */
#include "io/formats.h"

static bool recognize(const ts_source *source)
{
    return source->json != NULL && ts_json_member(source->json, source->json->values, "format_string") != NULL;
}

static tensum_status read_shapes(const ts_json *json, const ts_json_value *shapes, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    int64_t operand = 0;
    if (shapes->count != draft->operand_count) {
        return ts_json_fail(json, shapes, "expected %lld shapes, one per operand, found %lld",
                            (long long)draft->operand_count, (long long)shapes->count);
    }
    for (const ts_json_value *s = ts_json_first(json, shapes); s != NULL; s = ts_json_next(json, s), operand++) {
        TRY(ts_json_expect(json, s, TS_JSON_ARRAY, "a shape"));
        int64_t mode = draft->offsets[operand], rank = draft->offsets[operand + 1] - mode;
        if (s->count != rank) {
            status = ts_json_fail(json, s, "expected %lld extents for operand %lld, found %lld", (long long)rank,
                                  (long long)operand, (long long)s->count);
            goto done;
        }
        for (const ts_json_value *v = ts_json_first(json, s); v != NULL; v = ts_json_next(json, v)) {
            TRY(ts_json_integer(json, v, "an extent", 0, INT64_MAX, &draft->extents[mode++]));
        }
    }
done:
    return status;
}

/* The path asked for, or else "opt_flops", or else the first. */
static tensum_status choose_path(const ts_source *source, const ts_json_value *paths, const ts_json_value **chosen)
{
    const ts_json *json = source->json;
    const char *wanted = source->options.tree;
    const ts_json_value *found = ts_json_member(json, paths, wanted != NULL ? wanted : "opt_flops");
    if (found == NULL && wanted == NULL) {
        found = ts_json_first(json, paths);
    }
    if (found == NULL && wanted != NULL) {
        return ts_json_fail(json, paths, "there is no path \"%.40s\"", wanted);
    }
    *chosen = found;
    return TENSUM_OK;
}

static tensum_status read_einsum(const ts_source *source, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    const ts_json *json = source->json;
    if (json == NULL) {
        return ts_input_fail(source->input, 0, "expected a JSON object");
    }
    const ts_json_value *value, *root = json->values, *paths = ts_json_member(json, root, "paths");
    TRY(ts_json_need(json, root, "format_string", TS_JSON_STRING, &value));
    TRY(ts_json_expression(json, value, draft));
    TRY(ts_json_need(json, root, "shapes", TS_JSON_ARRAY, &value));
    TRY(read_shapes(json, value, draft));
    if (paths != NULL) {
        TRY(ts_json_expect(json, paths, TS_JSON_OBJECT, "paths by name"));
        TRY(choose_path(source, paths, &value));
        if (value != NULL) {
            TRY(ts_json_need(json, value, "path", TS_JSON_ARRAY, &value));
            TRY(ts_json_path(json, value, true, draft));
        }
    }
done:
    return status;
}

const ts_format ts_format_einsum = {"einsum", "einsum benchmark JSON: expression, shapes, paths", recognize,
                                    read_einsum, NULL};
