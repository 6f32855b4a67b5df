/* Pieces that several JSON formats share. */
#include "io/formats.h"

tensum_status ts_json_label(const ts_json *json, const ts_json_value *value, ts_draft *draft, int64_t *label)
{
    if (value->kind == TS_JSON_STRING) {
        return ts_draft_label_of_text(draft, ts_json_string(json, value), value->length, label);
    }
    if (value->kind != TS_JSON_NUMBER) {
        return ts_json_fail(json, value, "expected a label (a string or an integer)");
    }
    return ts_json_integer(json, value, "a label", -INT64_MAX, INT64_MAX, label);
}

tensum_status ts_json_operands(const ts_json *json, const ts_json_value *value, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    TRY(ts_json_expect(json, value, TS_JSON_ARRAY, "the labels of every tensor"));
    for (const ts_json_value *one = ts_json_first(json, value); one != NULL; one = ts_json_next(json, one)) {
        TRY(ts_json_expect(json, one, TS_JSON_ARRAY, "the labels of a tensor"));
        TRY(ts_draft_operand(draft));
        for (const ts_json_value *v = ts_json_first(json, one); v != NULL; v = ts_json_next(json, v)) {
            int64_t label;
            TRY(ts_json_label(json, v, draft, &label));
            TRY(ts_draft_mode(draft, label, -1));
        }
    }
    draft->has_network = true;
done:
    return status;
}

tensum_status ts_json_output(const ts_json *json, const ts_json_value *value, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    TRY(ts_json_expect(json, value, TS_JSON_ARRAY, "the labels of the output"));
    for (const ts_json_value *v = ts_json_first(json, value); v != NULL; v = ts_json_next(json, v)) {
        int64_t label;
        TRY(ts_json_label(json, v, draft, &label));
        TRY(ts_draft_output(draft, label));
    }
done:
    return status;
}

tensum_status ts_json_sizes(const ts_json *json, const ts_json_value *value, bool numbers, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    TRY(ts_json_expect(json, value, TS_JSON_OBJECT, "the extent of every label"));
    for (const ts_json_value *v = ts_json_first(json, value); v != NULL; v = ts_json_next(json, v)) {
        int64_t label, extent;
        bool agrees;
        if (!numbers) {
            TRY(ts_draft_label_of_text(draft, ts_json_key(json, v), v->key_length, &label));
        } else if (!ts_parse_integer(ts_json_key(json, v), v->key_length, &label)) {
            status = ts_json_fail(json, v, "expected an integer label as the key, found \"%.40s\"",
                                  ts_json_key(json, v));
            goto done;
        }
        TRY(ts_json_integer(json, v, "an extent", 0, INT64_MAX, &extent));
        TRY(ts_draft_extent(draft, label, extent, &agrees));
        if (!agrees) {
            status = ts_json_fail(json, v, "the extent of label \"%.40s\" is given twice", ts_json_key(json, v));
            goto done;
        }
    }
done:
    return status;
}

/* ---- nested trees ---- */

/* 1 for a leaf, 0 for a node; what else is an error. */
static tensum_status node_kind(const ts_json *json, const ts_json_value *node, bool *leaf)
{
    tensum_status status = ts_json_expect(json, node, TS_JSON_OBJECT, "a node of the tree");
    if (status != TENSUM_OK) {
        return status;
    }
    const ts_json_value *flag = ts_json_member(json, node, "isleaf");
    if (flag == NULL || (flag->kind != TS_JSON_TRUE && flag->kind != TS_JSON_FALSE)) {
        return ts_json_fail(json, flag != NULL ? flag : node, "expected \"isleaf\" to be true or false");
    }
    *leaf = flag->kind == TS_JSON_TRUE;
    return TENSUM_OK;
}

typedef struct frame {
    const ts_json_value *node, *next; /* next child to visit */
    size_t first_id;                  /* its children's ids on the stack of ids */
} frame;

/* Where the leaves count from: 0 if one of them is 0, else 1. */
static tensum_status leaf_base(const ts_json *json, const ts_json_value *root, int64_t *base)
{
    /* All values of a subtree lie behind its root and before the next value outside it; values of the tree are found
     * by offset because an object with the key "tensorindex" occurs nowhere else below the root. */
    *base = 1;
    for (int64_t i = root - json->values; i < json->count; i++) {
        const ts_json_value *v = &json->values[i];
        if (v->kind == TS_JSON_NUMBER && v->key_length == 11 &&
            memcmp(ts_json_key(json, v), "tensorindex", 11) == 0) {
            int64_t index;
            tensum_status status = ts_json_integer(json, v, "a tensor's index", 0, INT64_MAX, &index);
            if (status != TENSUM_OK) {
                return status;
            }
            if (index == 0) {
                *base = 0;
                return TENSUM_OK;
            }
        }
    }
    return TENSUM_OK;
}

tensum_status ts_json_nested_tree(const ts_json *json, const ts_json_value *root, int64_t leaf_count, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    frame *stack = NULL;
    int64_t *ids = NULL;
    uint8_t *used = NULL;
    size_t depth = 0, stack_capacity = 0, id_count = 0, id_capacity = 0;
    int64_t base;
    const ts_json_value *pending = root; /* node to enter next */
    TRY(leaf_base(json, root, &base));
    TRY(ts_allocate_zero((size_t)leaf_count, 1, "leaves", &used));
    while (pending != NULL || depth != 0) {
        if (pending != NULL) {
            const ts_json_value *member;
            bool leaf = false;
            TRY(node_kind(json, pending, &leaf));
            if (!leaf) {
                TRY(ts_json_need(json, pending, "args", TS_JSON_ARRAY, &member));
                if (member->count == 0) {
                    status = ts_json_fail(json, member, "expected at least one operand in \"args\"");
                    goto done;
                }
                TRY(ts_reserve(depth + 1, sizeof *stack, "a tree", &stack_capacity, &stack));
                stack[depth++] = (frame){pending, ts_json_first(json, member), id_count};
            } else {
                int64_t index;
                TRY(ts_json_need(json, pending, "tensorindex", TS_JSON_NUMBER, &member));
                TRY(ts_json_integer(json, member, "a tensor's index", base, leaf_count - 1 + base, &index));
                if (used[index - base]) {
                    status = ts_json_fail(json, member, "tensor %lld occurs twice in the tree", (long long)index);
                    goto done;
                }
                used[index - base] = 1;
                TRY(ts_reserve(id_count + 1, sizeof *ids, "a tree", &id_capacity, &ids));
                ids[id_count++] = index - base;
            }
            pending = NULL;
        }
        if (depth == 0) {
            break;
        }
        frame *top = &stack[depth - 1];
        if (top->next != NULL) {
            pending = top->next;
            top->next = ts_json_next(json, top->next);
            continue;
        }
        TRY(ts_draft_step(draft));
        for (size_t i = top->first_id; i < id_count; i++) {
            TRY(ts_draft_child(draft, ids[i]));
        }
        ids[top->first_id] = leaf_count + draft->step_count - 1;
        id_count = top->first_id + 1;
        depth--;
    }
    for (int64_t i = 0; i < leaf_count; i++) {
        if (!used[i]) {
            status = ts_json_fail(json, root, "tensor %lld does not occur in the tree", (long long)(i + base));
            goto done;
        }
    }
    draft->leaf_count = leaf_count;
    draft->has_tree = true;
done:
    ts_free(stack);
    ts_free(ids);
    ts_free(used);
    return status;
}

/* ---- paths ---- */

tensum_status ts_json_path(const ts_json *json, const ts_json_value *value, bool linear, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    TRY(ts_json_expect(json, value, TS_JSON_ARRAY, "a path"));
    const ts_json_value *step = ts_json_first(json, value);
    if (step != NULL && step->kind == TS_JSON_STRING && strcmp(ts_json_string(json, step), "einsum_path") == 0) {
        step = ts_json_next(json, step); /* NumPy puts this word in front */
    }
    for (; step != NULL; step = ts_json_next(json, step)) {
        TRY(ts_json_expect(json, step, TS_JSON_ARRAY, "a step of the path"));
        if (step->count == 0) {
            status = ts_json_fail(json, step, "expected operands in step %lld", (long long)draft->step_count);
            goto done;
        }
        TRY(ts_draft_step(draft));
        for (const ts_json_value *v = ts_json_first(json, step); v != NULL; v = ts_json_next(json, v)) {
            int64_t id;
            TRY(ts_json_integer(json, v, linear ? "a position" : "an id", 0, INT64_MAX, &id));
            TRY(ts_draft_child(draft, id));
        }
    }
    draft->leaf_count = ts_draft_implied_leaves(draft);
    draft->linear = linear;
    draft->has_tree = true;
done:
    return status;
}

/* ---- expressions ---- */

/* Bytes of the UTF-8 character at `text`. */
static size_t character_bytes(const char *text, const char *end)
{
    size_t bytes = 1;
    while (text + bytes < end && ((unsigned char)text[bytes] & 0xc0) == 0x80) {
        bytes++;
    }
    return bytes;
}

tensum_status ts_json_expression(const ts_json *json, const ts_json_value *value, ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    TRY(ts_json_expect(json, value, TS_JSON_STRING, "an einsum expression"));
    const char *text = ts_json_string(json, value), *end = text + value->length;
    bool output = false;
    TRY(ts_draft_operand(draft));
    while (text < end) {
        size_t bytes = character_bytes(text, end);
        if (*text == ' ') {
        } else if (*text == ',' && !output) {
            TRY(ts_draft_operand(draft));
        } else if (*text == '-' && text + 1 < end && text[1] == '>' && !output) {
            output = true;
            bytes = 2;
        } else if (*text == ',' || *text == '-' || *text == '>' || *text == '.') {
            status = ts_json_fail(json, value, "expected an expression such as \"ab,bc->ac\", found '%c' in it", *text);
            goto done;
        } else {
            int64_t label;
            TRY(ts_draft_label_of_text(draft, text, bytes, &label));
            if (output) {
                TRY(ts_draft_output(draft, label));
            } else {
                TRY(ts_draft_mode(draft, label, -1));
            }
        }
        text += bytes;
    }
    if (!output) {
        status = ts_json_fail(json, value, "expected \"->\" and the output in the expression");
        goto done;
    }
    draft->has_network = true;
done:
    return status;
}
