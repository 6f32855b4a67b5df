/* The table of network formats. A format is one file that defines a ts_format, and one line in formats.c. */
#ifndef TS_IO_FORMATS_H
#define TS_IO_FORMATS_H

#include "io/json.h"
#include "network/network.h"
#include "order/order.h"

/* What a reader works on. */
typedef struct ts_source {
    const ts_input *input;
    const ts_json *json; /* NULL unless the first byte that is not blank is '{' or '[' */
    tensum_file_options options;
} ts_source;

/* A network and an order while they are being read. Labels are the public int64 labels; text labels of one character
 * are that code point, longer ones are numbered from TS_LABEL_TEXT on. */
#define TS_LABEL_TEXT INT64_C(0x110000)

typedef struct ts_draft_label {
    int64_t label;
    int64_t extent;    /* -1: unknown */
    size_t text;       /* position in `texts` plus 1; 0: the label is a number */
} ts_draft_label;

typedef struct ts_draft {
    bool has_network, has_tree;
    bool linear; /* the steps are positions in the shrinking list, not ids */
    int64_t operand_count;
    int64_t *offsets; /* [operand_count + 1] once an operand has been begun */
    int64_t *modes;   /* labels of all operands */
    int64_t *extents; /* of each mode, -1: that of the label */
    int64_t *output;
    int64_t output_rank;
    ts_draft_label *labels; /* in order of first occurrence */
    int64_t label_count;
    int64_t *slots; /* hash table of label numbers + 1 */
    size_t slot_count;
    int64_t *text_slots; /* likewise by text */
    size_t text_slot_count;
    int64_t text_labels; /* multi-character labels so far */
    ts_text texts;       /* 0-terminated, back to back */
    int64_t leaf_count, step_count;
    int64_t *step_offsets, *children;
    int64_t *slices;
    int64_t slice_count;
    tensum_tree *tree; /* set by readers that have one already; step arrays are ignored then */
    size_t offsets_capacity, modes_capacity, extents_capacity, output_capacity, labels_capacity, step_capacity,
        children_capacity, slice_capacity;
} ts_draft;

void ts_draft_free(ts_draft *draft);
/* Number of a label in `labels`, entered if it is new. */
tensum_status ts_draft_label_number(ts_draft *draft, int64_t label, int64_t *number);
/* The label of a text: UTF-8, `length` bytes. */
tensum_status ts_draft_label_of_text(ts_draft *draft, const char *text, size_t length, int64_t *label);
/* Begin the next operand; then add its modes. `extent` -1: that of the label. */
tensum_status ts_draft_operand(ts_draft *draft);
tensum_status ts_draft_mode(ts_draft *draft, int64_t label, int64_t extent);
tensum_status ts_draft_output(ts_draft *draft, int64_t label);
/* false if the label has another extent already. */
tensum_status ts_draft_extent(ts_draft *draft, int64_t label, int64_t extent, bool *agrees);
/* Begin the next step; then add its children (SSA ids). */
tensum_status ts_draft_step(ts_draft *draft);
tensum_status ts_draft_child(ts_draft *draft, int64_t id);
tensum_status ts_draft_slice(ts_draft *draft, int64_t label);

/* Leaves that steps reduce to one result: every step replaces its operands by one. */
int64_t ts_draft_implied_leaves(const ts_draft *draft);

/* Shared by the JSON formats. A label is an integer, or a string where `text` is set. */
tensum_status ts_json_label(const ts_json *json, const ts_json_value *value, ts_draft *draft, int64_t *label);
/* [[label, ...], ...] as operands; [label, ...] as the output. */
tensum_status ts_json_operands(const ts_json *json, const ts_json_value *value, ts_draft *draft);
tensum_status ts_json_output(const ts_json *json, const ts_json_value *value, ts_draft *draft);
/* {label: extent, ...}. `numbers`: keys are integers written as strings. */
tensum_status ts_json_sizes(const ts_json *json, const ts_json_value *value, bool numbers, ts_draft *draft);
/* A tree of {"isleaf": true, "tensorindex": k} and {"isleaf": false, "args": [...]}; leaves from 0 or from 1. */
tensum_status ts_json_nested_tree(const ts_json *json, const ts_json_value *value, int64_t leaf_count,
                                  ts_draft *draft);
/* A list of steps, linear or SSA. What the ids mean is checked when the tree is made. */
tensum_status ts_json_path(const ts_json *json, const ts_json_value *value, bool linear, ts_draft *draft);
/* An einsum expression "ab,bc->ac" at a JSON string; the shapes come from elsewhere. */
tensum_status ts_json_expression(const ts_json *json, const ts_json_value *value, ts_draft *draft);

/* What a writer works on. */
typedef struct ts_writing {
    const tensum_network *network; /* may be NULL */
    const tensum_tree *tree;       /* may be NULL */
    const tensum_file *names;      /* may be NULL */
} ts_writing;

/* Text of a label for writers: as a JSON value (a quoted string where it has text, else the number). */
void ts_write_label(const ts_writing *writing, int64_t label, ts_text *text);
void ts_write_labels(const ts_writing *writing, const int64_t *labels, int64_t count, ts_text *text);
/* {"label": extent, ...} of all labels. */
void ts_write_sizes(const ts_writing *writing, ts_text *text);
/* [[0, 1], ...] in SSA form. */
void ts_write_steps(const ts_writing *writing, ts_text *text);
/* Fail unless the parts that a format needs are there. */
tensum_status ts_write_needs(const ts_writing *writing, const char *format, bool network, bool tree);
/* The tree as nested JSON with eins, leaves counted from `base`. */
tensum_status ts_write_nested_tree(const ts_writing *writing, int64_t base, ts_text *text);

/* Label numbers that each value of a tree has: the inputs' distinct ones, then per step those that the output or a
 * tensor outside the subtree still needs. */
typedef struct ts_result_labels {
    int64_t *offsets; /* [leaf_count + step_count + 1] */
    int32_t *labels;
} ts_result_labels;
tensum_status ts_result_labels_create(const tensum_network *network, const tensum_tree *tree,
                                      ts_result_labels *results);
void ts_result_labels_free(ts_result_labels *results);

typedef struct ts_format {
    const char *name;
    const char *summary;
    bool (*recognize)(const ts_source *source);
    tensum_status (*read)(const ts_source *source, ts_draft *draft); /* NULL: cannot be read */
    tensum_status (*write)(const ts_writing *writing, ts_text *text); /* NULL: cannot be written */
} ts_format;

#endif
