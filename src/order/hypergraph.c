#include "order/order.h"

#include <math.h>

tensum_status ts_hypergraph_create(const tensum_network *network, ts_hypergraph *graph)
{
    static const char *const what = "hypergraph";
    ts_hypergraph made = {0, 0, NULL, NULL, NULL, NULL};
    int64_t *offsets = NULL;
    int32_t *labels = NULL;
    double *log2_extents = NULL;
    uint8_t *is_output = NULL;
    tensum_status status;
    int64_t count = network->operand_count;
    if (count > INT32_MAX / 4) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "%lld operands, at most %d are supported", (long long)count,
                       INT32_MAX / 4);
    }
    TRY(ts_allocate((size_t)count + 1, sizeof *offsets, what, &offsets));
    TRY(ts_allocate((size_t)network->effective_offsets[count], sizeof *labels, what, &labels));
    TRY(ts_allocate((size_t)network->label_count, sizeof *log2_extents, what, &log2_extents));
    TRY(ts_allocate_zero((size_t)network->label_count, sizeof *is_output, what, &is_output));
    for (int32_t l = 0; l < network->label_count; l++) {
        int64_t extent = network->label_extents[l];
        log2_extents[l] = extent > 1 ? log2((double)extent) : 0.0;
    }
    int64_t used = 0;
    for (int64_t t = 0; t < count; t++) {
        offsets[t] = used;
        for (int64_t i = network->effective_offsets[t]; i < network->effective_offsets[t + 1]; i++) {
            int32_t l = network->effective[i];
            if (network->label_extents[l] > 1) {
                labels[used++] = l;
            }
        }
    }
    offsets[count] = used;
    for (int64_t i = network->effective_offsets[count]; i < network->effective_offsets[count + 1]; i++) {
        is_output[network->effective[i]] = 1;
    }
    made.tensor_count = (int32_t)count;
    made.label_count = network->label_count;
    made.tensor_offsets = offsets;
    made.tensor_labels = labels;
    made.log2_extents = log2_extents;
    made.is_output = is_output;
    *graph = made;
    return TENSUM_OK;
done:
    ts_free(offsets);
    ts_free(labels);
    ts_free(log2_extents);
    ts_free(is_output);
    return status;
}

void ts_hypergraph_free(ts_hypergraph *graph)
{
    if (graph == NULL) {
        return;
    }
    ts_free((void *)(uintptr_t)graph->tensor_offsets);
    ts_free((void *)(uintptr_t)graph->tensor_labels);
    ts_free((void *)(uintptr_t)graph->log2_extents);
    ts_free((void *)(uintptr_t)graph->is_output);
    *graph = (ts_hypergraph){0, 0, NULL, NULL, NULL, NULL};
}
