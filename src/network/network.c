#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/map.h"
#include "network/network.h"

enum { MOST_MODES = 64 };

const char *ts_label_text(int64_t label, char *text, size_t bytes)
{
    if (label > ' ' && label < 127) {
        snprintf(text, bytes, "'%c'", (char)label);
    } else if (label >= 0xa1 && label <= 0x10ffff && !(label >= 0xd800 && label < 0xe000)) {
        uint32_t code = (uint32_t)label;
        char utf8[5] = "";
        if (code < 0x800) {
            utf8[0] = (char)(0xc0 | (code >> 6));
            utf8[1] = (char)(0x80 | (code & 0x3f));
        } else if (code < 0x10000) {
            utf8[0] = (char)(0xe0 | (code >> 12));
            utf8[1] = (char)(0x80 | ((code >> 6) & 0x3f));
            utf8[2] = (char)(0x80 | (code & 0x3f));
        } else {
            utf8[0] = (char)(0xf0 | (code >> 18));
            utf8[1] = (char)(0x80 | ((code >> 12) & 0x3f));
            utf8[2] = (char)(0x80 | ((code >> 6) & 0x3f));
            utf8[3] = (char)(0x80 | (code & 0x3f));
        }
        snprintf(text, bytes, "'%s' (%" PRId64 ")", utf8, label);
    } else {
        snprintf(text, bytes, "%" PRId64, label);
    }
    return text;
}

/* What is known of a label while a network is being checked. */
typedef struct seen_extent {
    int64_t extent;  /* -1: not seen yet */
    int64_t operand; /* that gave it; -1: the list of sizes */
} seen_extent;

static tensum_status check_extent(seen_extent *seen, int64_t label, int64_t extent, int64_t operand)
{
    char text[64], first[64], second[64];
    if (seen->extent == extent || (extent == 1 && seen->extent >= 0)) {
        return TENSUM_OK;
    }
    if (seen->extent < 0 || seen->extent == 1) {
        seen->extent = extent;
        seen->operand = operand;
        return TENSUM_OK;
    }
    ts_label_text(label, text, sizeof text);
    snprintf(first, sizeof first, operand < 0 ? "the given sizes" : "operand %" PRId64, operand);
    snprintf(second, sizeof second, seen->operand < 0 ? "the given sizes" : "operand %" PRId64, seen->operand);
    return ts_fail(TENSUM_STATUS_SHAPE_MISMATCH, "label %s has extent %" PRId64 " in %s but %" PRId64 " in %s", text,
                   extent, first, seen->extent, second);
}

static int compare_labels(const void *x, const void *y)
{
    int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

/* Ascending distinct labels; returns their number. Insertion sort up to a few dozen, as ranks are small. */
static int32_t sort_distinct(int32_t *labels, int32_t count)
{
    int32_t kept = 0;
    if (count > 32) {
        qsort(labels, (size_t)count, sizeof *labels, compare_labels);
    } else {
        for (int32_t i = 1; i < count; i++) {
            int32_t label = labels[i], j = i;
            for (; j > 0 && labels[j - 1] > label; j--) {
                labels[j] = labels[j - 1];
            }
            labels[j] = label;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        if (kept == 0 || labels[kept - 1] != labels[i]) {
            labels[kept++] = labels[i];
        }
    }
    return kept;
}

/* Fill the effective label list of operand `index` (the output: operand_count); checks rank and size. */
static tensum_status make_effective(tensum_network *network, int64_t index)
{
    int64_t first = network->offsets[index], last = network->offsets[index + 1];
    int32_t *effective = network->effective + network->effective_offsets[index];
    int64_t elements = 1, modes = 0;
    int32_t count = 0;
    char name[48];
    if (index == network->operand_count) {
        snprintf(name, sizeof name, "the output");
    } else {
        snprintf(name, sizeof name, "operand %" PRId64, index);
    }
    for (int64_t m = first; m < last; m++) {
        int32_t label = network->raw_labels[m];
        int64_t extent = network->raw_extents[m];
        if (extent != 0 && !ts_multiply(elements, extent, &elements)) {
            return ts_fail(TENSUM_STATUS_SIZE_OVERFLOW, "%s has more than 2^63 elements", name);
        }
        if (extent != 1 && network->label_extents[label] != 1) {
            modes++;
            effective[count++] = label;
        }
    }
    if (modes > MOST_MODES) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "%s has %" PRId64 " modes of extent other than 1, at most %d are supported",
                       name, modes, MOST_MODES);
    }
    count = sort_distinct(effective, count);
    network->effective_offsets[index + 1] = network->effective_offsets[index] + count;
    return TENSUM_OK;
}

static tensum_status check_spec(const tensum_network_spec *spec, int64_t *mode_count)
{
    int64_t modes = spec->output_rank;
    if (spec->size < sizeof(tensum_network_spec)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "network spec: size is %zu, expected %zu", spec->size,
                       sizeof(tensum_network_spec));
    }
    if (spec->operand_count < 0 || spec->operand_count > INT32_MAX - 1 || spec->output_rank < 0 || spec->size_count < 0) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "network spec: a count is negative or too large");
    }
    if ((spec->operand_count > 0 && (spec->ranks == NULL || spec->labels == NULL || spec->extents == NULL)) ||
        (spec->output_rank > 0 && spec->output_labels == NULL) ||
        (spec->size_count > 0 && (spec->size_labels == NULL || spec->size_extents == NULL))) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "network spec: an array is NULL");
    }
    for (int64_t i = 0; i < spec->operand_count; i++) {
        if (spec->ranks[i] < 0 || (spec->ranks[i] > 0 && (spec->labels[i] == NULL || spec->extents[i] == NULL))) {
            return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "operand %" PRId64 ": rank %d is negative or its arrays are NULL",
                           i, (int)spec->ranks[i]);
        }
        modes += spec->ranks[i];
        for (int32_t m = 0; m < spec->ranks[i]; m++) {
            if (spec->extents[i][m] < 0) {
                return ts_fail(TENSUM_STATUS_SHAPE_MISMATCH, "operand %" PRId64 ", mode %d: extent %" PRId64 " is negative", i,
                               (int)m, spec->extents[i][m]);
            }
        }
    }
    for (int64_t i = 0; i < spec->size_count; i++) {
        if (spec->size_extents[i] < 0) {
            char text[64];
            return ts_fail(TENSUM_STATUS_SHAPE_MISMATCH, "label %s: the given size %" PRId64 " is negative",
                           ts_label_text(spec->size_labels[i], text, sizeof text), spec->size_extents[i]);
        }
    }
    *mode_count = modes;
    return TENSUM_OK;
}

tensum_status tensum_network_create(const tensum_network_spec *spec, tensum_network **out)
{
    tensum_status status = TENSUM_OK;
    tensum_network *network = NULL;
    ts_map map = {0};
    seen_extent *seen = NULL;
    size_t seen_capacity = 0;
    int64_t modes = 0, position = 0;
    if (spec == NULL || out == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_network_create: spec and network must not be NULL");
    }
    TRY(check_spec(spec, &modes));
    int64_t count = spec->operand_count;
    TRY(ts_allocate_zero(1, sizeof *network, "network", &network));
    atomic_init(&network->references, 1);
    network->operand_count = count;
    TRY(ts_allocate_zero((size_t)count + 2, sizeof(int64_t), "network", &network->offsets));
    TRY(ts_allocate_zero((size_t)count + 2, sizeof(int64_t), "network", &network->effective_offsets));
    TRY(ts_allocate((size_t)modes, sizeof(int32_t), "network labels", &network->raw_labels));
    TRY(ts_allocate((size_t)modes, sizeof(int32_t), "network labels", &network->effective));
    TRY(ts_allocate((size_t)modes, sizeof(int64_t), "network labels", &network->raw_names));
    TRY(ts_allocate((size_t)modes, sizeof(int64_t), "network extents", &network->raw_extents));

    for (int64_t i = 0; i <= count; i++) {
        int32_t rank = i < count ? spec->ranks[i] : spec->output_rank;
        const int64_t *labels = i < count ? spec->labels[i] : spec->output_labels;
        for (int32_t m = 0; m < rank; m++) {
            int32_t number = 0;
            int32_t known = map.count;
            TRY(ts_map_add(&map, labels[m], &number));
            if (map.count != known) {
                TRY(ts_reserve((size_t)map.count, sizeof *seen, "network labels", &seen_capacity, &seen));
                seen[number].extent = -1;
                seen[number].operand = -1;
            }
            network->raw_labels[position] = number;
            network->raw_names[position] = labels[m];
            if (i < count) {
                network->raw_extents[position] = spec->extents[i][m];
                TRY(check_extent(&seen[number], labels[m], spec->extents[i][m], i));
            }
            position++;
        }
        network->offsets[i + 1] = position;
    }
    for (int64_t i = 0; i < spec->size_count; i++) {
        int32_t number = ts_map_find(&map, spec->size_labels[i]);
        if (number >= 0) {
            TRY(check_extent(&seen[number], spec->size_labels[i], spec->size_extents[i], -1));
        }
    }
    network->label_count = map.count;
    TRY(ts_allocate((size_t)map.count, sizeof(int64_t), "network labels", &network->label_names));
    TRY(ts_allocate((size_t)map.count, sizeof(int64_t), "network extents", &network->label_extents));
    for (int32_t l = 0; l < map.count; l++) {
        network->label_names[l] = map.keys[l];
        network->label_extents[l] = seen[l].extent;
        if (seen[l].extent < 0) {
            char text[64];
            status = ts_fail(TENSUM_STATUS_SHAPE_MISMATCH, "label %s occurs in the output only: its extent must be given",
                             ts_label_text(map.keys[l], text, sizeof text));
            goto done;
        }
    }
    for (int64_t m = network->offsets[count]; m < position; m++) {
        network->raw_extents[m] = network->label_extents[network->raw_labels[m]];
    }
    for (int64_t i = 0; i <= count; i++) {
        TRY(make_effective(network, i));
    }
    *out = network;
    network = NULL;
done:
    ts_map_free(&map);
    ts_free(seen);
    tensum_network_release(network);
    return status;
}

tensum_network *tensum_network_retain(tensum_network *network)
{
    if (network != NULL) {
        atomic_fetch_add(&network->references, 1);
    }
    return network;
}

void tensum_network_release(tensum_network *network)
{
    if (network == NULL || atomic_fetch_sub(&network->references, 1) != 1) {
        return;
    }
    ts_free(network->label_names);
    ts_free(network->label_extents);
    ts_free(network->offsets);
    ts_free(network->raw_labels);
    ts_free(network->raw_names);
    ts_free(network->raw_extents);
    ts_free(network->effective_offsets);
    ts_free(network->effective);
    ts_free(network);
}

int64_t tensum_network_operand_count(const tensum_network *network) { return network->operand_count; }
int64_t tensum_network_label_count(const tensum_network *network) { return network->label_count; }
const int64_t *tensum_network_labels(const tensum_network *network) { return network->label_names; }
const int64_t *tensum_network_label_extents(const tensum_network *network) { return network->label_extents; }

tensum_status tensum_network_operand(const tensum_network *network, int64_t index, int32_t *rank, const int64_t **labels,
                                     const int64_t **extents)
{
    if (index < -1 || index >= network->operand_count) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "operand %" PRId64 " does not exist; the network has %" PRId64, index,
                       network->operand_count);
    }
    int64_t i = index < 0 ? network->operand_count : index;
    if (rank != NULL) {
        *rank = (int32_t)(network->offsets[i + 1] - network->offsets[i]);
    }
    if (labels != NULL) {
        *labels = network->raw_names + network->offsets[i];
    }
    if (extents != NULL) {
        *extents = network->raw_extents + network->offsets[i];
    }
    return TENSUM_OK;
}
