/* Networks and orders while they are being read. */
#include "io/formats.h"

void ts_draft_free(ts_draft *draft)
{
    ts_free(draft->offsets);
    ts_free(draft->modes);
    ts_free(draft->extents);
    ts_free(draft->output);
    ts_free(draft->labels);
    ts_free(draft->slots);
    ts_free(draft->text_slots);
    ts_text_free(&draft->texts);
    ts_free(draft->step_offsets);
    ts_free(draft->children);
    ts_free(draft->slices);
    tensum_tree_release(draft->tree);
    *draft = (ts_draft){0};
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ (x >> 29);
}

static uint64_t hash_text(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    }
    return mix(hash);
}

static const char *text_of(const ts_draft *draft, int64_t number)
{
    return draft->texts.bytes + draft->labels[number].text - 1;
}

/* Double a table and enter the labels again; by_text enters those that have a text. */
static tensum_status grow(ts_draft *draft, bool by_text, int64_t **slots, size_t *count)
{
    int64_t *table;
    size_t wanted = *count == 0 ? 64 : *count * 2;
    tensum_status status = ts_allocate_zero(wanted, sizeof *table, "a label table", &table);
    if (status != TENSUM_OK) {
        return status;
    }
    for (int64_t i = 0; i < draft->label_count; i++) {
        if (by_text && draft->labels[i].text == 0) {
            continue;
        }
        uint64_t at = by_text ? hash_text(text_of(draft, i), strlen(text_of(draft, i)))
                              : mix((uint64_t)draft->labels[i].label);
        while (table[at & (wanted - 1)] != 0) {
            at++;
        }
        table[at & (wanted - 1)] = i + 1;
    }
    ts_free(*slots);
    *slots = table;
    *count = wanted;
    return TENSUM_OK;
}

tensum_status ts_draft_label_number(ts_draft *draft, int64_t label, int64_t *number)
{
    tensum_status status = TENSUM_OK;
    if ((size_t)draft->label_count * 2 >= draft->slot_count) {
        TRY(grow(draft, false, &draft->slots, &draft->slot_count));
    }
    uint64_t at = mix((uint64_t)label);
    for (int64_t slot; (slot = draft->slots[at & (draft->slot_count - 1)]) != 0; at++) {
        if (draft->labels[slot - 1].label == label) {
            *number = slot - 1;
            return TENSUM_OK;
        }
    }
    TRY(ts_reserve((size_t)draft->label_count + 1, sizeof *draft->labels, "labels", &draft->labels_capacity,
                   &draft->labels));
    draft->labels[draft->label_count] = (ts_draft_label){.label = label, .extent = -1};
    draft->slots[at & (draft->slot_count - 1)] = draft->label_count + 1;
    *number = draft->label_count++;
done:
    return status;
}

/* The code point if the text is exactly one, else -1. */
static int64_t single_code_point(const char *text, size_t length)
{
    const unsigned char *b = (const unsigned char *)text;
    static const int64_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (length == 0 || length > 4) {
        return -1;
    }
    size_t expected = b[0] < 0x80 ? 1 : b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : b[0] >= 0xc0 ? 2 : 0;
    if (expected != length) {
        return -1;
    }
    int64_t code = length == 1 ? b[0] : b[0] & (0x7f >> length);
    for (size_t i = 1; i < length; i++) {
        if ((b[i] & 0xc0) != 0x80) {
            return -1;
        }
        code = code << 6 | (b[i] & 0x3f);
    }
    return code >= smallest[length] && code < TS_LABEL_TEXT ? code : -1;
}

tensum_status ts_draft_label_of_text(ts_draft *draft, const char *text, size_t length, int64_t *label)
{
    tensum_status status = TENSUM_OK;
    if ((size_t)draft->label_count * 2 >= draft->text_slot_count) {
        TRY(grow(draft, true, &draft->text_slots, &draft->text_slot_count));
    }
    uint64_t at = hash_text(text, length);
    for (int64_t slot; (slot = draft->text_slots[at & (draft->text_slot_count - 1)]) != 0; at++) {
        const char *known = text_of(draft, slot - 1);
        if (strlen(known) == length && memcmp(known, text, length) == 0) {
            *label = draft->labels[slot - 1].label;
            return TENSUM_OK;
        }
    }
    int64_t number, code = single_code_point(text, length);
    if (code < 0) {
        code = TS_LABEL_TEXT + draft->text_labels;
    }
    size_t position = draft->texts.length;
    ts_text_add_bytes(&draft->texts, text, length);
    ts_text_add_bytes(&draft->texts, "", 1);
    TRY(draft->texts.status);
    TRY(ts_draft_label_number(draft, code, &number));
    draft->text_labels += code >= TS_LABEL_TEXT;
    draft->labels[number].text = position + 1;
    draft->text_slots[at & (draft->text_slot_count - 1)] = number + 1;
    *label = code;
done:
    return status;
}

static tensum_status push(int64_t value, const char *what, int64_t count, size_t *capacity, int64_t **array)
{
    tensum_status status = ts_reserve((size_t)count + 1, sizeof value, what, capacity, array);
    if (status == TENSUM_OK) {
        (*array)[count] = value;
    }
    return status;
}

tensum_status ts_draft_operand(ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    TRY(ts_reserve((size_t)draft->operand_count + 2, sizeof *draft->offsets, "operands", &draft->offsets_capacity,
                   &draft->offsets));
    if (draft->operand_count == 0) {
        draft->offsets[0] = 0;
    }
    draft->offsets[draft->operand_count + 1] = draft->offsets[draft->operand_count];
    draft->operand_count++;
done:
    return status;
}

tensum_status ts_draft_mode(ts_draft *draft, int64_t label, int64_t extent)
{
    tensum_status status = TENSUM_OK;
    int64_t number, *end = &draft->offsets[draft->operand_count];
    TRY(ts_draft_label_number(draft, label, &number));
    TRY(push(label, "modes", *end, &draft->modes_capacity, &draft->modes));
    TRY(push(extent, "modes", *end, &draft->extents_capacity, &draft->extents));
    ++*end;
done:
    return status;
}

tensum_status ts_draft_output(ts_draft *draft, int64_t label)
{
    tensum_status status = TENSUM_OK;
    int64_t number;
    TRY(ts_draft_label_number(draft, label, &number));
    TRY(push(label, "output labels", draft->output_rank, &draft->output_capacity, &draft->output));
    draft->output_rank++;
done:
    return status;
}

tensum_status ts_draft_extent(ts_draft *draft, int64_t label, int64_t extent, bool *agrees)
{
    int64_t number;
    tensum_status status = ts_draft_label_number(draft, label, &number);
    if (status == TENSUM_OK) {
        *agrees = draft->labels[number].extent < 0 || draft->labels[number].extent == extent;
        draft->labels[number].extent = extent;
    }
    return status;
}

tensum_status ts_draft_step(ts_draft *draft)
{
    tensum_status status = TENSUM_OK;
    TRY(ts_reserve((size_t)draft->step_count + 2, sizeof *draft->step_offsets, "steps", &draft->step_capacity,
                   &draft->step_offsets));
    if (draft->step_count == 0) {
        draft->step_offsets[0] = 0;
    }
    draft->step_offsets[draft->step_count + 1] = draft->step_offsets[draft->step_count];
    draft->step_count++;
done:
    return status;
}

tensum_status ts_draft_child(ts_draft *draft, int64_t id)
{
    int64_t *end = &draft->step_offsets[draft->step_count];
    tensum_status status = push(id, "steps", *end, &draft->children_capacity, &draft->children);
    *end += status == TENSUM_OK;
    return status;
}

tensum_status ts_draft_slice(ts_draft *draft, int64_t label)
{
    tensum_status status = push(label, "sliced labels", draft->slice_count, &draft->slice_capacity, &draft->slices);
    draft->slice_count += status == TENSUM_OK;
    return status;
}

int64_t ts_draft_implied_leaves(const ts_draft *draft)
{
    return draft->step_count == 0 ? 1 : draft->step_offsets[draft->step_count] - draft->step_count + 1;
}
