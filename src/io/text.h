/* Input files in memory, a scanner that knows where it is, text that grows, and output by rename. */
#ifndef TS_IO_TEXT_H
#define TS_IO_TEXT_H

#include "core/core.h"

/* A whole file, followed by a 0 byte. `name` is for messages: the path, or "<stdin>". */
typedef struct ts_input {
    char *name;
    char *bytes;
    size_t length;
} ts_input;

/* Read a file, "-" for standard input; gzip is recognised by its magic bytes and expanded. */
tensum_status ts_input_read(const char *path, ts_input *input);
/* The same from memory: bytes are copied. */
tensum_status ts_input_from_memory(const char *name, const void *bytes, size_t length, ts_input *input);
void ts_input_free(ts_input *input);
/* Most things (vertices, variables) that a file of this length may say there are: those that nothing else in it mentions
 * cost it no bytes, so that a count alone must not make a reader fill the memory. */
int64_t ts_input_most(const ts_input *input);

/* Fail with "name:line:column: message" for the byte at `offset`. Lines and columns (bytes) count from 1. */
tensum_status ts_input_fail(const ts_input *input, size_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Tokens separated by white space. */
typedef struct ts_scanner {
    const ts_input *input;
    size_t position; /* next unread byte */
    size_t token;    /* where the token read last begins */
    size_t length;   /* its length */
} ts_scanner;

void ts_scanner_start(ts_scanner *scanner, const ts_input *input);
/* Step to the next token; false at the end. */
bool ts_scan(ts_scanner *scanner);
/* Step to the next token of this line; false at its end (which is not passed). */
bool ts_scan_in_line(ts_scanner *scanner);
/* Step past the end of this line; false if the input ends before or there. */
bool ts_scan_next_line(ts_scanner *scanner);
bool ts_token_is(const ts_scanner *scanner, const char *text);
/* Bytes that have not been read: an upper bound for how many tokens may follow, whatever a count in the file says. */
size_t ts_scan_remaining(const ts_scanner *scanner);
/* Fail at the token read last: "expected WHAT, found TOKEN". */
tensum_status ts_scan_fail(const ts_scanner *scanner, const char *expected);
/* The token read last as a number; `what` completes "expected". */
tensum_status ts_token_integer(const ts_scanner *scanner, const char *what, int64_t lowest, int64_t highest,
                               int64_t *value);
/* Decimal or scientific; infinities and NaN are refused. Does not depend on the locale. */
tensum_status ts_token_real(const ts_scanner *scanner, const char *what, double *value);
/* Step and convert. */
tensum_status ts_scan_integer(ts_scanner *scanner, const char *what, int64_t lowest, int64_t highest, int64_t *value);
tensum_status ts_scan_real(ts_scanner *scanner, const char *what, double *value);
/* A count of things that take at least `bytes_each` bytes of the rest of the file each. */
tensum_status ts_scan_count(ts_scanner *scanner, const char *what, int64_t bytes_each, int64_t *value);
/* MALFORMED unless only white space is left. */
tensum_status ts_scan_end(ts_scanner *scanner);

/* A number at text[0 .. length): false unless all of it is one. */
bool ts_parse_integer(const char *text, size_t length, int64_t *value);
bool ts_parse_real(const char *text, size_t length, double *value);

/* Text that grows; always 0-terminated once something has been added. After a failure `status` stays set and further
 * additions do nothing, so that callers may check once. */
typedef struct ts_text {
    char *bytes;
    size_t length, capacity;
    tensum_status status;
} ts_text;

void ts_text_add(ts_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ts_text_add_bytes(ts_text *text, const void *bytes, size_t length);
/* A JSON string with quotes and escapes. */
void ts_text_add_json(ts_text *text, const char *string);
/* The shortest decimal that reads back as the same double; inf and nan as such. */
void ts_text_add_real(ts_text *text, double value);
/* Hand the 0-terminated string over (ts_free) or the failure; the text is empty afterwards. */
tensum_status ts_text_take(ts_text *text, char **string);
void ts_text_free(ts_text *text);

/* Write a file by way of a temporary one next to it; "-" is standard output. */
tensum_status ts_output_write(const char *path, const void *bytes, size_t length);
/* The same with a callback that writes to an open descriptor's FILE. */
struct ts_output {
    char *path, *temporary;
    void *stream; /* FILE */
};
tensum_status ts_output_open(const char *path, struct ts_output *output);
tensum_status ts_output_bytes(struct ts_output *output, const void *bytes, size_t length);
/* Make the file appear. On failure nothing is left behind. */
tensum_status ts_output_commit(struct ts_output *output);
/* Drop what was not committed. */
void ts_output_discard(struct ts_output *output);

#endif
