/* JSON (RFC 8259) in memory. Values keep their place in the file, so that every error names line and column;
 * nesting is limited by memory only, because contraction trees are nested as deep as they are long. */
#ifndef TS_IO_JSON_H
#define TS_IO_JSON_H

#include "io/text.h"

typedef enum ts_json_kind {
    TS_JSON_NULL,
    TS_JSON_FALSE,
    TS_JSON_TRUE,
    TS_JSON_NUMBER,
    TS_JSON_STRING,
    TS_JSON_ARRAY,
    TS_JSON_OBJECT
} ts_json_kind;

typedef struct ts_json_value {
    ts_json_kind kind;
    size_t offset;         /* of its first byte in the file */
    size_t length;         /* number: bytes; string: bytes after decoding */
    size_t text;           /* string: position in ts_json.text */
    size_t key;            /* member of an object: position of its key in ts_json.text */
    size_t key_length;
    int64_t count;         /* array, object: children */
    int64_t first, next;   /* child and sibling by index; -1: none */
} ts_json_value;

typedef struct ts_json {
    const ts_input *input; /* borrowed */
    ts_json_value *values; /* the first one is the root */
    int64_t count;
    ts_text text;          /* decoded strings and keys, each 0-terminated */
} ts_json;

tensum_status ts_json_parse(const ts_input *input, ts_json *json);
void ts_json_free(ts_json *json);

const ts_json_value *ts_json_first(const ts_json *json, const ts_json_value *container);
const ts_json_value *ts_json_next(const ts_json *json, const ts_json_value *value);
/* Member of an object, NULL if there is none (or `object` is no object). */
const ts_json_value *ts_json_member(const ts_json *json, const ts_json_value *object, const char *key);
const char *ts_json_string(const ts_json *json, const ts_json_value *value);
const char *ts_json_key(const ts_json *json, const ts_json_value *value);

/* Fail at a value: "name:line:column: ...". */
tensum_status ts_json_fail(const ts_json *json, const ts_json_value *value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fail unless the value has the kind; `what` completes "expected". */
tensum_status ts_json_expect(const ts_json *json, const ts_json_value *value, ts_json_kind kind, const char *what);
/* A member that must be there and of the kind. */
tensum_status ts_json_need(const ts_json *json, const ts_json_value *object, const char *key, ts_json_kind kind,
                           const ts_json_value **value);
tensum_status ts_json_integer(const ts_json *json, const ts_json_value *value, const char *what, int64_t lowest,
                              int64_t highest, int64_t *number);
tensum_status ts_json_real(const ts_json *json, const ts_json_value *value, const char *what, double *number);

#endif
