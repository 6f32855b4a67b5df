#include "instances.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct reader {
    json_t *numbers; /* label text -> number */
    int64_t *extents;
    size_t label_count;
    int64_t *offsets;
    int32_t *labels;
    size_t tensor_count, used;
} reader;

static int32_t number_of(reader *r, const char *name)
{
    json_t *known = json_object_get(r->numbers, name);
    if (known == NULL) {
        known = json_integer((json_int_t)r->label_count);
        json_object_set_new(r->numbers, name, known);
        r->extents = realloc(r->extents, (r->label_count + 1) * sizeof *r->extents);
        r->extents[r->label_count++] = 2;
    }
    return (int32_t)json_integer_value(known);
}

static void add_label(reader *r, int32_t label)
{
    for (size_t i = (size_t)r->offsets[r->tensor_count]; i < r->used; i++) {
        if (r->labels[i] == label) {
            return;
        }
    }
    r->labels = realloc(r->labels, (r->used + 1) * sizeof *r->labels);
    r->labels[r->used++] = label;
}

static void end_tensor(reader *r)
{
    r->tensor_count++;
    r->offsets = realloc(r->offsets, (r->tensor_count + 1) * sizeof *r->offsets);
    r->offsets[r->tensor_count] = (int64_t)r->used;
}

static const char *text_of(json_t *label, char *text)
{
    if (json_is_string(label)) {
        return json_string_value(label);
    }
    snprintf(text, 32, "%lld", (long long)json_integer_value(label));
    return text;
}

static void read_lists(reader *r, json_t *lists)
{
    size_t i, k;
    json_t *list, *label;
    char text[32];
    json_array_foreach(lists, i, list) {
        json_array_foreach(list, k, label) {
            add_label(r, number_of(r, text_of(label, text)));
        }
        end_tensor(r);
    }
}

static void read_sizes(reader *r, json_t *sizes)
{
    const char *name;
    json_t *size;
    json_object_foreach(sizes, name, size) {
        r->extents[number_of(r, name)] = json_integer_value(size);
    }
}

/* The labels of "ab,bc->ac" with the extents in `shapes`; stops before "->". Returns what follows it. */
static const char *read_expression(reader *r, const char *text, json_t *shapes)
{
    size_t mode = 0;
    for (;; text++) {
        if (*text == ',' || *text == '-') {
            end_tensor(r);
            mode = 0;
            if (*text == '-') {
                return text + 2;
            }
        } else {
            char name[8] = {0};
            int length = 0;
            do {
                name[length] = text[length];
                length++;
            } while ((text[length] & 0xc0) == 0x80);
            int32_t label = number_of(r, name);
            r->extents[label] = json_integer_value(json_array_get(json_array_get(shapes, r->tensor_count), mode++));
            add_label(r, label);
            text += length - 1;
        }
    }
}

static int compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

bool instance_read(const char *path, ts_hypergraph *graph)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL) {
        fprintf(stderr, "%s:%d: %s\n", path, error.line, error.text);
        return false;
    }
    reader r = {.numbers = json_object()};
    r.offsets = calloc(1, sizeof *r.offsets);
    json_t *einsum = json_object_get(root, "einsum"), *output = NULL;
    const char *text = NULL;
    if (einsum != NULL) {
        read_lists(&r, json_object_get(einsum, "ixs"));
        read_sizes(&r, json_object_get(root, "size"));
        output = json_object_get(einsum, "iy");
    } else if (json_object_get(root, "format_string") != NULL) {
        text = read_expression(&r, json_string_value(json_object_get(root, "format_string")),
                               json_object_get(root, "shapes"));
    } else {
        read_lists(&r, json_object_get(root, "inputs"));
        read_sizes(&r, json_object_get(root, "size_dict"));
        output = json_object_get(root, "output");
    }
    uint8_t *is_output = calloc(r.label_count + 1, 1);
    double *log2_extents = calloc(r.label_count + 1, sizeof *log2_extents);
    size_t i;
    json_t *label;
    char name[32];
    json_array_foreach(output, i, label) {
        is_output[number_of(&r, text_of(label, name))] = 1;
    }
    while (text != NULL && *text != 0) {
        char code[8] = {0};
        int length = 0;
        do {
            code[length] = text[length];
            length++;
        } while ((text[length] & 0xc0) == 0x80);
        is_output[number_of(&r, code)] = 1;
        text += length;
    }
    for (size_t l = 0; l < r.label_count; l++) {
        log2_extents[l] = log2((double)r.extents[l]);
    }
    for (size_t t = 0; t < r.tensor_count; t++) {
        qsort(r.labels + r.offsets[t], (size_t)(r.offsets[t + 1] - r.offsets[t]), sizeof *r.labels, compare);
    }
    *graph = (ts_hypergraph){(int32_t)r.tensor_count, (int32_t)r.label_count, r.offsets, r.labels, log2_extents,
                             is_output};
    json_decref(r.numbers);
    json_decref(root);
    free(r.extents);
    return true;
}

void instance_free(ts_hypergraph *graph)
{
    free((void *)(uintptr_t)graph->tensor_offsets);
    free((void *)(uintptr_t)graph->tensor_labels);
    free((void *)(uintptr_t)graph->log2_extents);
    free((void *)(uintptr_t)graph->is_output);
}
