#include <inttypes.h>
#include <stdlib.h>

#include "network/network.h"

enum { ELLIPSIS = 0 }; /* NUL never is a label */

/* The terms of an expression as code points: term t is labels[starts[t] .. starts[t+1]). */
typedef struct terms {
    int64_t *labels;
    size_t label_count, label_capacity;
    int64_t *starts;
    size_t start_count, start_capacity;
} terms;

/* One code point at *position (in bytes), which advances. */
static tensum_status next_code(const char *text, size_t *position, int64_t *code)
{
    const unsigned char *s = (const unsigned char *)text + *position;
    int length = s[0] < 0x80 ? 1 : s[0] >> 5 == 0x6 ? 2 : s[0] >> 4 == 0xe ? 3 : s[0] >> 3 == 0x1e ? 4 : 0;
    static const int64_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    int64_t value = length == 1 ? s[0] : length == 0 ? 0 : s[0] & (0x7f >> length);
    for (int i = 1; i < length; i++) {
        if (s[i] >> 6 != 2) {
            length = 0;
            break;
        }
        value = value << 6 | (s[i] & 0x3f);
    }
    if (length == 0 || value < smallest[length] || value > 0x10ffff) {
        return ts_fail(TENSUM_STATUS_INVALID_EXPRESSION, "expression, byte %zu: invalid UTF-8", *position);
    }
    *position += (size_t)length;
    *code = value;
    return TENSUM_OK;
}

static tensum_status push_label(terms *list, int64_t label)
{
    tensum_status status = ts_reserve(list->label_count + 1, sizeof *list->labels, "expression", &list->label_capacity,
                                      &list->labels);
    if (status == TENSUM_OK) {
        list->labels[list->label_count++] = label;
    }
    return status;
}

static tensum_status push_start(terms *list)
{
    tensum_status status =
        ts_reserve(list->start_count + 1, sizeof *list->starts, "expression", &list->start_capacity, &list->starts);
    if (status == TENSUM_OK) {
        list->starts[list->start_count++] = (int64_t)list->label_count;
    }
    return status;
}

/* Split into terms; *inputs is the number of terms before the arrow, *arrow whether there is one. */
static tensum_status split(const char *text, terms *list, size_t *inputs, bool *arrow)
{
    tensum_status status = TENSUM_OK;
    size_t position = 0;
    bool ellipsis = false;
    *arrow = false;
    *inputs = 0;
    TRY(push_start(list));
    while (text[position] != 0) {
        size_t here = position;
        int64_t code = 0;
        TRY(next_code(text, &position, &code));
        if (code == ' ' || code == '\t' || code == '\n' || code == '\r') {
            continue;
        }
        if (code == '.') {
            if (strncmp(text + here, "...", 3) != 0) {
                status = ts_fail(TENSUM_STATUS_INVALID_EXPRESSION, "expression, byte %zu: '.' outside of an ellipsis", here);
                goto done;
            }
            if (ellipsis) {
                status = ts_fail(TENSUM_STATUS_INVALID_EXPRESSION, "expression, byte %zu: second ellipsis in one term", here);
                goto done;
            }
            ellipsis = true;
            position = here + 3;
            TRY(push_label(list, ELLIPSIS));
        } else if (code == ',') {
            if (*arrow) {
                status = ts_fail(TENSUM_STATUS_INVALID_EXPRESSION, "expression, byte %zu: ',' after '->'", here);
                goto done;
            }
            ellipsis = false;
            TRY(push_start(list));
        } else if (code == '-' || code == '>') {
            if (*arrow || strncmp(text + here, "->", 2) != 0) {
                status = ts_fail(TENSUM_STATUS_INVALID_EXPRESSION, "expression, byte %zu: '%c' where a label, ',' or one '->' was expected",
                                 here, (char)code);
                goto done;
            }
            *arrow = true;
            ellipsis = false;
            position = here + 2;
            *inputs = list->start_count;
            TRY(push_start(list));
        } else {
            TRY(push_label(list, code));
        }
    }
    if (!*arrow) {
        *inputs = list->start_count;
    }
    TRY(push_start(list));
done:
    return status;
}

static int compare(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

/* Implicit output: the ellipsis, then the labels that occur once, by code point. */
static tensum_status implicit_output(const terms *inputs, int64_t ellipsis_rank, terms *output)
{
    tensum_status status = TENSUM_OK;
    int64_t *sorted = NULL;
    TRY(ts_allocate(inputs->label_count, sizeof *sorted, "expression", &sorted));
    if (inputs->label_count != 0) {
        memcpy(sorted, inputs->labels, inputs->label_count * sizeof *sorted);
    }
    qsort(sorted, inputs->label_count, sizeof *sorted, compare);
    for (int64_t d = ellipsis_rank; d > 0; d--) {
        TRY(push_label(output, -d));
    }
    for (size_t i = 0; i < inputs->label_count; i++) {
        if (sorted[i] != ELLIPSIS && (i == 0 || sorted[i - 1] != sorted[i]) &&
            (i + 1 == inputs->label_count || sorted[i + 1] != sorted[i])) {
            TRY(push_label(output, sorted[i]));
        }
    }
done:
    ts_free(sorted);
    return status;
}

/* Replace the ellipsis of labels[0 .. count) by dimensions -rank .. -1. */
static tensum_status expand(const int64_t *labels, int64_t count, int64_t ellipsis_rank, terms *out)
{
    tensum_status status = TENSUM_OK;
    for (int64_t i = 0; i < count; i++) {
        if (labels[i] != ELLIPSIS) {
            TRY(push_label(out, labels[i]));
            continue;
        }
        for (int64_t d = ellipsis_rank; d > 0; d--) {
            TRY(push_label(out, -d));
        }
    }
done:
    return status;
}

/* Sizes of the labels of the output that no operand has, from the output's own extents. */
static tensum_status output_sizes(const terms *inputs, const terms *output, const int64_t *output_extents, terms *labels,
                                  terms *sizes)
{
    tensum_status status = TENSUM_OK;
    for (size_t i = 0; i < output->label_count; i++) {
        bool known = false;
        for (size_t k = 0; k < inputs->label_count && !known; k++) {
            known = inputs->labels[k] == output->labels[i];
        }
        if (!known) {
            TRY(push_label(labels, output->labels[i]));
            TRY(push_label(sizes, output_extents[i]));
        }
    }
done:
    return status;
}

static tensum_status parse(const char *expression, int64_t operand_count, const int32_t *ranks, const int64_t *const *extents,
                           int64_t size_count, const int64_t *size_labels, const int64_t *size_extents, int32_t output_rank,
                           const int64_t *output_extents, tensum_network **network)
{
    tensum_status status = TENSUM_OK;
    terms list = {0}, expanded = {0}, output = {0}, only = {0}, sizes = {0};
    const int64_t **labels = NULL;
    size_t inputs = 0;
    bool arrow = false;
    int64_t widest = 0;
    if (expression == NULL || network == NULL || operand_count < 0 || (operand_count > 0 && (ranks == NULL || extents == NULL))) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_network_parse: an argument is NULL or a count negative");
    }
    TRY(split(expression, &list, &inputs, &arrow));
    if (operand_count == 0 && inputs == 1 && list.starts[1] == 0) {
        inputs = 0; /* nothing at all before the arrow: no operands */
    } else if ((int64_t)inputs != operand_count) {
        status = ts_fail(TENSUM_STATUS_INVALID_EXPRESSION, "expression has %zu operand terms, %" PRId64 " operands were given", inputs,
                         operand_count);
        goto done;
    }
    for (size_t t = 0; t < inputs; t++) {
        int64_t named = list.starts[t + 1] - list.starts[t];
        bool ellipsis = false;
        for (int64_t i = list.starts[t]; i < list.starts[t + 1]; i++) {
            ellipsis = ellipsis || list.labels[i] == ELLIPSIS;
        }
        named -= ellipsis;
        if (ellipsis ? ranks[t] < named : ranks[t] != named) {
            status = ts_fail(TENSUM_STATUS_INVALID_EXPRESSION, "operand %zu has rank %d, its term names %s%" PRId64 " labels", t,
                             (int)ranks[t], ellipsis ? "at least " : "", named);
            goto done;
        }
        if (ellipsis) {
            widest = ts_max64(widest, ranks[t] - named);
        }
    }
    TRY(ts_allocate(inputs, sizeof *labels, "expression", &labels));
    TRY(push_start(&expanded));
    for (size_t t = 0; t < inputs; t++) {
        int64_t count = list.starts[t + 1] - list.starts[t];
        int64_t own = 0;
        for (int64_t i = 0; i < count; i++) {
            own += list.labels[list.starts[t] + i] != ELLIPSIS;
        }
        TRY(expand(list.labels != NULL ? list.labels + list.starts[t] : NULL, count, ranks[t] - own, &expanded));
        TRY(push_start(&expanded));
    }
    if (arrow) {
        int64_t start = list.starts[list.start_count - 2];
        const int64_t *written = list.labels != NULL ? list.labels + start : NULL; /* no labels, no array */
        TRY(expand(written, (int64_t)list.label_count - start, widest, &output));
    } else {
        TRY(implicit_output(&list, widest, &output));
    }
    for (size_t t = 0; t < inputs; t++) {
        labels[t] = expanded.labels != NULL ? expanded.labels + expanded.starts[t] : NULL;
    }
    if (output_extents != NULL && (size_t)output_rank == output.label_count) {
        TRY(output_sizes(&expanded, &output, output_extents, &only, &sizes));
        size_count = (int64_t)only.label_count;
        size_labels = only.labels;
        size_extents = sizes.labels;
    }
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    spec.operand_count = (int64_t)inputs;
    spec.ranks = ranks;
    spec.labels = labels;
    spec.extents = extents;
    spec.output_rank = (int32_t)output.label_count;
    spec.output_labels = output.labels;
    spec.size_count = size_count;
    spec.size_labels = size_labels;
    spec.size_extents = size_extents;
    TRY(tensum_network_create(&spec, network));
done:
    ts_free(list.labels);
    ts_free(list.starts);
    ts_free(expanded.labels);
    ts_free(expanded.starts);
    ts_free(output.labels);
    ts_free(output.starts);
    ts_free(only.labels);
    ts_free(sizes.labels);
    ts_free(labels);
    return status;
}

tensum_status tensum_network_parse(const char *expression, int64_t operand_count, const int32_t *ranks,
                                   const int64_t *const *extents, int64_t size_count, const int64_t *size_labels,
                                   const int64_t *size_extents, tensum_network **network)
{
    return parse(expression, operand_count, ranks, extents, size_count, size_labels, size_extents, 0, NULL, network);
}

tensum_status ts_network_parse_into(const char *expression, int64_t operand_count, const int32_t *ranks,
                                    const int64_t *const *extents, int32_t output_rank, const int64_t *output_extents,
                                    tensum_network **network)
{
    return parse(expression, operand_count, ranks, extents, 0, NULL, NULL, output_rank, output_extents, network);
}
