/* The graph whose tree decompositions are orders of the network (PACE .gr): vertex v is the v-th label of the network
 * in order of first occurrence, labels of one tensor are adjacent. Written for treewidth solvers, see "td". */
#include <stdlib.h>

#include "io/formats.h"

static bool recognize_never(const ts_source *source)
{
    (void)source;
    return false;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static tensum_status write_graph(const ts_writing *writing, ts_text *text)
{
    tensum_status status = TENSUM_OK;
    const tensum_network *network = writing->network;
    uint64_t *edges = NULL; /* smaller label above 32 bits of the larger */
    size_t count = 0, capacity = 0, distinct = 0;
    TRY(ts_write_needs(writing, "gr", true, false));
    for (int64_t o = 0; o < network->operand_count; o++) {
        for (int64_t i = network->effective_offsets[o]; i < network->effective_offsets[o + 1]; i++) {
            for (int64_t j = i + 1; j < network->effective_offsets[o + 1]; j++) { /* ascending */
                TRY(ts_reserve(count + 1, sizeof *edges, "edges", &capacity, &edges));
                edges[count++] = (uint64_t)network->effective[i] << 32 | (uint64_t)network->effective[j];
            }
        }
    }
    if (count != 0) {
        qsort(edges, count, sizeof *edges, by_value);
    }
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || edges[i] != edges[i - 1]) {
            edges[distinct++] = edges[i];
        }
    }
    ts_text_add(text, "p tw %d %zu\n", (int)network->label_count, distinct);
    for (size_t i = 0; i < distinct; i++) {
        ts_text_add(text, "%u %u\n", (unsigned)(edges[i] >> 32) + 1, (unsigned)(edges[i] & 0xffffffffu) + 1);
    }
    status = text->status;
done:
    ts_free(edges);
    return status;
}

const ts_format ts_format_graph = {"gr", "graph of the labels (PACE .gr), for treewidth solvers; written only",
                                   recognize_never, NULL, write_graph};
