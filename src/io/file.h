/* The object behind tensum_file. */
#ifndef TS_IO_FILE_H
#define TS_IO_FILE_H

#include <stdatomic.h>

#include "io/formats.h"

typedef struct ts_file_name {
    int64_t label;
    size_t text; /* position in tensum_file.texts */
} ts_file_name;

struct tensum_file {
    atomic_int references;
    const char *format;
    tensum_network *network; /* may be NULL */
    tensum_tree *tree;       /* may be NULL */
    int64_t assumed;
    ts_file_name *names; /* ascending labels */
    int64_t name_count;
    char *texts;
};

/* What tensum_file_read does, from memory. */
tensum_status ts_file_from_input(const ts_input *input, const tensum_file_options *options, tensum_file **file);
/* What tensum_file_write writes. */
tensum_status ts_file_to_text(const char *format, const tensum_network *network, const tensum_tree *tree,
                              const tensum_file *names, ts_text *text);
void ts_file_sort_names(ts_file_name *names, int64_t count);

#endif
