/* The table of network formats and the public calls on it. */
#include "io/file.h"

#define FORMATS(X)      \
    X(own)              \
    X(omeinsum)         \
    X(omeinsum_edges)   \
    X(omeinsum_code)    \
    X(topology)         \
    X(einsum)           \
    X(cotengra)         \
    X(path)             \
    X(ssa)              \
    X(decomposition)    \
    X(graph)

#define DECLARE(id) extern const ts_format ts_format_##id;
FORMATS(DECLARE)
#undef DECLARE

static const ts_format *const formats[] = {
#define ROW(id) &ts_format_##id,
    FORMATS(ROW)
#undef ROW
};
enum { FORMAT_COUNT = sizeof formats / sizeof *formats };

const char *tensum_file_format_name(int index)
{
    return index >= 0 && index < FORMAT_COUNT ? formats[index]->name : NULL;
}

const char *tensum_file_format_summary(int index)
{
    return index >= 0 && index < FORMAT_COUNT ? formats[index]->summary : NULL;
}

int tensum_file_format_readable(int index)
{
    return index >= 0 && index < FORMAT_COUNT && formats[index]->read != NULL;
}

int tensum_file_format_writable(int index)
{
    return index >= 0 && index < FORMAT_COUNT && formats[index]->write != NULL;
}

static tensum_status find_format(const char *name, const ts_format **format)
{
    const char *names[FORMAT_COUNT];
    for (int i = 0; i < FORMAT_COUNT; i++) {
        if (strcmp(formats[i]->name, name) == 0) {
            *format = formats[i];
            return TENSUM_OK;
        }
        names[i] = formats[i]->name;
    }
    const char *nearest = ts_nearest_name(name, names, FORMAT_COUNT);
    return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "there is no file format '%s'%s%s%s", name,
                   nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                   nearest != NULL ? "'?" : "");
}

/* ---- from draft to network and tree ---- */

/* Extents of all modes: those of arrays where given, else the file's own, else the assumed one. */
static tensum_status fill_extents(const ts_source *source, ts_draft *draft, int64_t *assumed)
{
    tensum_status status = TENSUM_OK;
    const tensum_arrays *arrays = source->options.arrays;
    const char *name = source->input->name;
    if (arrays != NULL && tensum_arrays_count(arrays) != draft->operand_count) {
        return ts_fail(TENSUM_STATUS_SHAPE_MISMATCH, "%s has %lld tensors, but %lld arrays are given", name,
                       (long long)draft->operand_count, (long long)tensum_arrays_count(arrays));
    }
    *assumed = 0;
    for (int64_t i = 0; i < draft->operand_count; i++) {
        const tensum_tensor *array = arrays != NULL ? tensum_arrays_tensor(arrays, i) : NULL;
        int64_t rank = draft->offsets[i + 1] - draft->offsets[i];
        if (array != NULL && array->rank != rank) {
            status = ts_fail(TENSUM_STATUS_SHAPE_MISMATCH, "tensor %lld has %lld labels in %s, but array '%s' has rank %d",
                             (long long)i, (long long)rank, name, tensum_arrays_name(arrays, i), (int)array->rank);
            goto done;
        }
        for (int64_t m = 0; m < rank; m++) {
            int64_t *extent = &draft->extents[draft->offsets[i] + m], number;
            TRY(ts_draft_label_number(draft, draft->modes[draft->offsets[i] + m], &number));
            ts_draft_label *label = &draft->labels[number];
            int64_t stated = *extent >= 0 ? *extent : label->extent;
            if (array != NULL) {
                *extent = array->extents[m];
                if (stated >= 0 && *extent != stated && *extent != 1) {
                    status = ts_fail(TENSUM_STATUS_SHAPE_MISMATCH,
                                     "mode %lld of array '%s' has extent %lld, but %s says %lld", (long long)m,
                                     tensum_arrays_name(arrays, i), (long long)*extent, name, (long long)stated);
                    goto done;
                }
            } else if (stated >= 0) {
                *extent = stated;
            } else if (source->options.extent > 0) {
                *extent = label->extent = source->options.extent;
                ++*assumed;
            } else {
                char text[32];
                status = ts_fail(TENSUM_STATUS_MALFORMED,
                                 "%s gives no extent for label %s, and neither arrays nor an extent to assume are given",
                                 name, ts_label_text(draft->modes[draft->offsets[i] + m], text, sizeof text));
                goto done;
            }
        }
    }
done:
    return status;
}

static tensum_status make_network(const ts_source *source, ts_draft *draft, tensum_file *file)
{
    tensum_status status = TENSUM_OK;
    size_t n = (size_t)draft->operand_count;
    int32_t *ranks = NULL;
    const int64_t **labels = NULL, **extents = NULL;
    int64_t *size_labels = NULL, *size_extents = NULL;
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    TRY(fill_extents(source, draft, &file->assumed));
    TRY(ts_allocate(n, sizeof *ranks, "ranks", &ranks));
    TRY(ts_allocate(n, sizeof *labels, "labels", &labels));
    TRY(ts_allocate(n, sizeof *extents, "extents", &extents));
    TRY(ts_allocate((size_t)draft->label_count, sizeof *size_labels, "labels", &size_labels));
    TRY(ts_allocate((size_t)draft->label_count, sizeof *size_extents, "extents", &size_extents));
    for (size_t i = 0; i < n; i++) {
        int64_t rank = draft->offsets[i + 1] - draft->offsets[i];
        if (rank > INT32_MAX) {
            status = ts_fail(TENSUM_STATUS_UNSUPPORTED, "%s: tensor %zu has %lld modes", source->input->name, i,
                             (long long)rank);
            goto done;
        }
        ranks[i] = (int32_t)rank;
        labels[i] = rank != 0 ? draft->modes + draft->offsets[i] : NULL;
        extents[i] = rank != 0 ? draft->extents + draft->offsets[i] : NULL;
    }
    /* Only labels that no operand has need an extent of their own. */
    for (int64_t m = 0; n != 0 && m < draft->offsets[n]; m++) {
        int64_t number;
        TRY(ts_draft_label_number(draft, draft->modes[m], &number));
        draft->labels[number].extent = -1;
    }
    for (int64_t i = 0; i < draft->output_rank; i++) {
        int64_t number;
        TRY(ts_draft_label_number(draft, draft->output[i], &number));
        if (draft->labels[number].extent >= 0) {
            size_labels[spec.size_count] = draft->output[i];
            size_extents[spec.size_count++] = draft->labels[number].extent;
            draft->labels[number].extent = -1;
        }
    }
    spec.operand_count = draft->operand_count;
    spec.ranks = ranks;
    spec.labels = labels;
    spec.extents = extents;
    spec.output_rank = (int32_t)ts_min64(draft->output_rank, INT32_MAX);
    spec.output_labels = draft->output;
    spec.size_labels = size_labels;
    spec.size_extents = size_extents;
    status = tensum_network_create(&spec, &file->network);
    if (status != TENSUM_OK) {
        ts_fail_prefix(status, "%s", source->input->name);
    }
done:
    ts_free(ranks);
    ts_free(labels);
    ts_free(extents);
    ts_free(size_labels);
    ts_free(size_extents);
    return status;
}

static tensum_status make_tree(const ts_source *source, ts_draft *draft, tensum_file *file)
{
    tensum_status status = TENSUM_OK;
    static const int64_t none[1] = {0};
    const tensum_network *network = file->network != NULL ? file->network : source->options.network;
    const int64_t *offsets = draft->step_count != 0 ? draft->step_offsets : none;
    const int64_t *children = draft->step_count != 0 ? draft->children : none;
    if (draft->tree != NULL) {
        file->tree = tensum_tree_retain(draft->tree);
    } else if (draft->linear) {
        status = tensum_tree_from_path(draft->leaf_count, draft->step_count, offsets, children, &file->tree);
    } else {
        status = tensum_tree_from_ssa(draft->leaf_count, draft->step_count, offsets, children, &file->tree);
    }
    TRY(status);
    if (draft->slice_count != 0) {
        tensum_tree *sliced;
        TRY(tensum_tree_with_slices(file->tree, draft->slice_count, draft->slices, &sliced));
        tensum_tree_release(file->tree);
        file->tree = sliced;
    }
    if (network != NULL && tensum_network_operand_count(network) != tensum_tree_leaf_count(file->tree)) {
        status = ts_fail(TENSUM_STATUS_INVALID_PATH, "the order is for %lld tensors, but the network has %lld",
                         (long long)tensum_tree_leaf_count(file->tree),
                         (long long)tensum_network_operand_count(network));
    }
done:
    if (status != TENSUM_OK) {
        ts_fail_prefix(status, "%s", source->input->name);
    }
    return status;
}

/* Labels with a text, sorted for tensum_file_label. */
static tensum_status keep_names(ts_draft *draft, tensum_file *file)
{
    tensum_status status = TENSUM_OK;
    TRY(ts_allocate((size_t)draft->label_count, sizeof *file->names, "label names", &file->names));
    for (int64_t i = 0; i < draft->label_count; i++) {
        if (draft->labels[i].text != 0) {
            file->names[file->name_count++] = (ts_file_name){draft->labels[i].label, draft->labels[i].text - 1};
        }
    }
    if (file->name_count != 0) {
        ts_file_sort_names(file->names, file->name_count);
        TRY(ts_text_take(&draft->texts, &file->texts));
    }
done:
    return status;
}

static tensum_status find_reader(const ts_source *source, const ts_format **format)
{
    if (source->options.format != NULL) {
        tensum_status status = find_format(source->options.format, format);
        if (status == TENSUM_OK && (*format)->read == NULL) {
            status = ts_fail(TENSUM_STATUS_UNSUPPORTED, "format '%s' cannot be read", (*format)->name);
        }
        return status;
    }
    for (int i = 0; i < FORMAT_COUNT; i++) {
        if (formats[i]->read != NULL && formats[i]->recognize(source)) {
            *format = formats[i];
            return TENSUM_OK;
        }
    }
    return ts_fail(TENSUM_STATUS_MALFORMED,
                   "%s:1:1: no format is recognised, expected a JSON network, a path or a tree decomposition",
                   source->input->name);
}

tensum_status ts_file_from_input(const ts_input *input, const tensum_file_options *options, tensum_file **out)
{
    tensum_status status = TENSUM_OK;
    ts_json json = {0};
    ts_draft draft = {0};
    tensum_file *file = NULL;
    const ts_format *format;
    ts_source source = {.input = input, .options = TENSUM_FILE_OPTIONS_INIT};
    if (options != NULL) {
        memcpy(&source.options, options, options->size < sizeof *options ? options->size : sizeof *options);
    }
    size_t start = input->length >= 3 && memcmp(input->bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (start < input->length && strchr(" \t\r\n", input->bytes[start]) != NULL) {
        start++;
    }
    if (start < input->length && (input->bytes[start] == '{' || input->bytes[start] == '[')) {
        TRY(ts_json_parse(input, &json));
        source.json = &json;
    }
    TRY(find_reader(&source, &format));
    TRY(ts_allocate_zero(1, sizeof *file, "a file", &file));
    atomic_init(&file->references, 1);
    file->format = format->name;
    TRY(format->read(&source, &draft));
    if (draft.has_network) {
        TRY(make_network(&source, &draft, file));
    }
    if (draft.has_tree) {
        TRY(make_tree(&source, &draft, file));
    }
    TRY(keep_names(&draft, file));
    *out = file;
    file = NULL;
done:
    ts_json_free(&json);
    ts_draft_free(&draft);
    tensum_file_release(file);
    return status;
}

tensum_status tensum_file_read(const char *path, const tensum_file_options *options, tensum_file **file)
{
    ts_input input;
    if (path == NULL || file == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "path or file is NULL");
    }
    tensum_status status = ts_input_read(path, &input);
    if (status == TENSUM_OK) {
        status = ts_file_from_input(&input, options, file);
        ts_input_free(&input);
    }
    return status;
}

tensum_status ts_file_to_text(const char *format_name, const tensum_network *network, const tensum_tree *tree,
                              const tensum_file *names, ts_text *text)
{
    const ts_format *format;
    ts_writing writing = {network, tree, names};
    tensum_status status = find_format(format_name != NULL ? format_name : "tensum", &format);
    if (status != TENSUM_OK) {
        return status;
    }
    if (format->write == NULL) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "format '%s' cannot be written", format->name);
    }
    if (network != NULL && tree != NULL && tensum_network_operand_count(network) != tensum_tree_leaf_count(tree)) {
        return ts_fail(TENSUM_STATUS_INVALID_PATH, "the tree has %lld leaves, but the network has %lld operands",
                       (long long)tensum_tree_leaf_count(tree), (long long)tensum_network_operand_count(network));
    }
    status = format->write(&writing, text);
    return status == TENSUM_OK ? text->status : status;
}

tensum_status tensum_file_write(const char *path, const char *format, tensum_network *network, tensum_tree *tree,
                                const tensum_file *names)
{
    ts_text text = {0};
    if (path == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "path is NULL");
    }
    tensum_status status = ts_file_to_text(format, network, tree, names, &text);
    if (status == TENSUM_OK) {
        status = ts_output_write(path, text.bytes, text.length);
    }
    ts_text_free(&text);
    return status;
}
