/* Paths as JSON lists: linear as opt_einsum and NumPy have them, or SSA. Alone they imply the number of tensors. */
#include "io/formats.h"

/* The list itself: the whole file, or under the key. */
static const ts_json_value *find_list(const ts_source *source, const char *key)
{
    if (source->json == NULL) {
        return NULL;
    }
    const ts_json_value *root = source->json->values;
    return root->kind == TS_JSON_ARRAY ? root : ts_json_member(source->json, root, key);
}

/* With more than one step the two kinds cannot be confused: SSA uses the first result, whose id is at least the
 * number of tensors; a linear position never is. */
static bool looks_linear(const ts_json *json, const ts_json_value *list)
{
    int64_t total = 0, steps = 0, highest = 0;
    for (const ts_json_value *s = ts_json_first(json, list); s != NULL; s = ts_json_next(json, s)) {
        if (s->kind != TS_JSON_ARRAY) {
            continue;
        }
        steps++;
        total += s->count;
        for (const ts_json_value *v = ts_json_first(json, s); v != NULL; v = ts_json_next(json, v)) {
            int64_t id;
            if (v->kind == TS_JSON_NUMBER && ts_parse_integer(json->input->bytes + v->offset, v->length, &id)) {
                highest = ts_max64(highest, id);
            }
        }
    }
    return highest < total - steps + 1;
}

static bool recognize_linear(const ts_source *source)
{
    const ts_json_value *list = find_list(source, "path");
    return list != NULL && (source->json->values->kind == TS_JSON_OBJECT || looks_linear(source->json, list));
}

static bool recognize_ssa(const ts_source *source) { return find_list(source, "ssa_path") != NULL; }

static tensum_status read_list(const ts_source *source, const char *key, bool linear, ts_draft *draft)
{
    const ts_json_value *list = find_list(source, key);
    if (list == NULL) {
        return ts_input_fail(source->input, 0, "expected a list of steps or an object with the key \"%s\"", key);
    }
    return ts_json_path(source->json, list, linear, draft);
}

static tensum_status read_linear(const ts_source *source, ts_draft *draft)
{
    return read_list(source, "path", true, draft);
}

static tensum_status read_ssa(const ts_source *source, ts_draft *draft)
{
    return read_list(source, "ssa_path", false, draft);
}

static tensum_status write_linear(const ts_writing *writing, ts_text *text)
{
    tensum_status status = TENSUM_OK;
    int64_t *positions = NULL;
    const int64_t *offsets, *children;
    TRY(ts_write_needs(writing, "path", false, true));
    tensum_tree_steps(writing->tree, &offsets, &children);
    int64_t steps = tensum_tree_step_count(writing->tree);
    TRY(ts_allocate((size_t)(steps != 0 ? offsets[steps] : 0), sizeof *positions, "a path", &positions));
    tensum_tree_path(writing->tree, positions);
    ts_text_add(text, "[");
    for (int64_t s = 0; s < steps; s++) {
        ts_text_add(text, s == 0 ? "[" : ", [");
        for (int64_t i = offsets[s]; i < offsets[s + 1]; i++) {
            ts_text_add(text, i == offsets[s] ? "%lld" : ", %lld", (long long)positions[i]);
        }
        ts_text_add(text, "]");
    }
    ts_text_add(text, "]\n");
done:
    ts_free(positions);
    return status;
}

static tensum_status write_ssa(const ts_writing *writing, ts_text *text)
{
    tensum_status status = ts_write_needs(writing, "ssa", false, true);
    if (status == TENSUM_OK) {
        ts_write_steps(writing, text);
        ts_text_add(text, "\n");
    }
    return status;
}

const ts_format ts_format_path = {"path", "linear path as a JSON list (opt_einsum, NumPy)", recognize_linear,
                                  read_linear, write_linear};
const ts_format ts_format_ssa = {"ssa", "SSA path as a JSON list (cotengra)", recognize_ssa, read_ssa, write_ssa};
