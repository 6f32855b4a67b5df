#include <stdlib.h>

#include "io/file.h"

static int by_label(const void *a, const void *b)
{
    const ts_file_name *x = a, *y = b;
    return (x->label > y->label) - (x->label < y->label);
}

void ts_file_sort_names(ts_file_name *names, int64_t count)
{
    qsort(names, (size_t)count, sizeof *names, by_label);
}

tensum_file *tensum_file_retain(tensum_file *file)
{
    if (file != NULL) {
        atomic_fetch_add(&file->references, 1);
    }
    return file;
}

void tensum_file_release(tensum_file *file)
{
    if (file != NULL && atomic_fetch_sub(&file->references, 1) == 1) {
        tensum_network_release(file->network);
        tensum_tree_release(file->tree);
        ts_free(file->names);
        ts_free(file->texts);
        ts_free(file);
    }
}

tensum_network *tensum_file_network(const tensum_file *file) { return file != NULL ? file->network : NULL; }

tensum_tree *tensum_file_tree(const tensum_file *file) { return file != NULL ? file->tree : NULL; }

const char *tensum_file_format(const tensum_file *file) { return file != NULL ? file->format : NULL; }

int64_t tensum_file_assumed_extents(const tensum_file *file) { return file != NULL ? file->assumed : 0; }

const char *tensum_file_label(const tensum_file *file, int64_t label)
{
    if (file == NULL || file->name_count == 0) {
        return NULL;
    }
    ts_file_name key = {label, 0};
    const ts_file_name *found =
        bsearch(&key, file->names, (size_t)file->name_count, sizeof *file->names, by_label);
    return found != NULL ? file->texts + found->text : NULL;
}
