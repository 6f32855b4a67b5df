/* Launches of one kind of run as a CUDA graph: what does not depend on each other runs side by side, and a launch costs
 * a fraction of what it costs in a stream. Addresses of a run's tensors are in the pointer table, so a graph once made
 * serves every run of the list. */
#include "backend/cuda/program.h"

/* Beyond this the table of what comes after what gets too large; below, a graph gains nothing. */
enum { MOST_NODES = 4096, LEAST_NODES = 2 };

static bool overlap(const ts_cuda_range *x, const ts_cuda_range *y) { return x->from < y->past && y->from < x->past; }

/* Has `later` to wait for `earlier`? */
static bool depends(const ts_cuda_launch *later, const ts_cuda_launch *earlier)
{
    if (later->barrier || earlier->barrier) {
        return true;
    }
    for (int i = 0; i < later->write_count; i++) {
        for (int k = 0; k < earlier->write_count; k++) {
            if (overlap(&later->writes[i], &earlier->writes[k])) {
                return true;
            }
        }
        for (int k = 0; k < earlier->read_count; k++) {
            if (overlap(&later->writes[i], &earlier->reads[k])) {
                return true;
            }
        }
    }
    for (int i = 0; i < later->read_count; i++) {
        for (int k = 0; k < earlier->write_count; k++) {
            if (overlap(&later->reads[i], &earlier->writes[k])) {
                return true;
            }
        }
    }
    return false;
}

void ts_cuda_graphs_drop(ts_cuda_workspace *workspace)
{
    for (int32_t i = 0; i < workspace->graph_count; i++) {
        if (workspace->graphs[i].exec != NULL) {
            (void)workspace->program->device->driver->graph_exec_destroy(workspace->graphs[i].exec);
        }
    }
    workspace->graph_count = 0;
}

/* Add a call of cuTENSOR: recorded on a stream of its own, it becomes a graph inside the graph. All its addresses are the
 * workspace's, so they stay. */
static tensum_status add_call(ts_cuda_workspace *workspace, const ts_cuda_launch *launch, ts_cu_graph graph,
                              ts_cu_graph_node *node, const ts_cu_graph_node *after, size_t after_count)
{
    tensum_status status = TENSUM_OK, ended;
    ts_cuda_device *device = workspace->program->device;
    const ts_cuda_driver *driver = device->driver;
    ts_cu_stream stream = NULL;
    ts_cu_graph recorded = NULL;
    bool done = false;

    TRY(ts_cuda_result(device, driver->stream_create(&stream, TS_CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
    TRY(ts_cuda_result(device, driver->capture_begin(stream, TS_CU_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture"));
    status = ts_cutensor_call_one(device, &workspace->list, launch, stream, true, &done);
    ended = ts_cuda_result(device, driver->capture_end(stream, &recorded), "cuStreamEndCapture");
    TRY(status);
    TRY(ended);
    TRY(ts_cuda_result(device, driver->graph_child(node, graph, after, after_count, recorded), "cuGraphAddChildGraphNode"));
done:
    if (recorded != NULL) {
        (void)driver->graph_destroy(recorded);
    }
    if (stream != NULL) {
        (void)driver->stream_destroy(stream);
    }
    return status;
}

/* Can the calls of cuTENSOR be nodes? Those on a run's own tensors can not. */
static bool can_record(const ts_cuda_workspace *workspace)
{
    const ts_cuda_driver *driver = workspace->program->device->driver;
    return workspace->list.call_count == 0 ||
           (!workspace->program->vendor_direct && driver->stream_create != NULL && driver->stream_destroy != NULL &&
            driver->capture_begin != NULL && driver->capture_end != NULL && driver->graph_child != NULL);
}

/* Add the chosen launches as nodes, each after the latest ones that it depends on. */
static tensum_status add_nodes(ts_cuda_workspace *workspace, const int64_t *chosen, int32_t count, ts_cu_graph graph,
                               ts_cu_graph_node *nodes, ts_cu_graph_node *after, uint64_t *reach)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_program *program = workspace->program;
    const ts_cuda_list *list = &workspace->list;
    size_t words = ((size_t)count + 63) / 64;

    for (int32_t j = 0; j < count; j++) {
        const ts_cuda_launch *launch = &list->launches[chosen[j]];
        uint64_t *reached = reach + (size_t)j * words; /* what node j comes after, directly or not */
        void *parameters[1] = {list->parameters + launch->parameters};
        ts_cu_kernel_node node = {0};
        size_t after_count = 0;

        for (int32_t i = j - 1; i >= 0; i--) {
            if ((reached[i / 64] >> (i % 64) & 1) == 0 && depends(launch, &list->launches[chosen[i]])) {
                after[after_count++] = nodes[i];
                reached[i / 64] |= UINT64_C(1) << (i % 64);
                for (size_t w = 0; w < words; w++) {
                    reached[w] |= reach[(size_t)i * words + w];
                }
            }
        }
        if (launch->call != 0) {
            TRY(add_call(workspace, launch, graph, &nodes[j], after, after_count));
            continue;
        }
        node.function = launch->function;
        node.grid_x = launch->grid;
        node.grid_y = node.grid_z = node.block_y = node.block_z = 1;
        node.block_x = launch->threads;
        node.shared_bytes = launch->shared_bytes;
        node.parameters = parameters;
        TRY(ts_cuda_result(program->device,
                           program->device->driver->graph_kernel(&nodes[j], graph, after, after_count, &node),
                           "cuGraphAddKernelNode"));
    }
done:
    return status;
}

ts_cu_graph_exec ts_cuda_graph_find(ts_cuda_workspace *workspace, unsigned phases)
{
    const ts_cuda_driver *driver = workspace->program->device->driver;
    const ts_cuda_list *list = &workspace->list;
    ts_cuda_graph *made;
    ts_cu_graph graph = NULL;
    int64_t *chosen = NULL;
    ts_cu_graph_node *nodes = NULL, *after = NULL;
    uint64_t *reach = NULL;
    int32_t count = 0;
    tensum_status status = TENSUM_OK;

    for (int32_t i = 0; i < workspace->graph_count; i++) {
        if (workspace->graphs[i].phases == phases) {
            return workspace->graphs[i].exec;
        }
    }
    if (workspace->graph_count == TS_CUDA_GRAPHS || driver->graph_create == NULL || driver->graph_kernel == NULL ||
        driver->graph_instantiate == NULL || driver->graph_launch == NULL || driver->graph_destroy == NULL ||
        driver->graph_exec_destroy == NULL || !can_record(workspace)) {
        return NULL;
    }
    /* Whatever goes wrong from here on, the launches can be made one by one: it is not tried again. */
    made = &workspace->graphs[workspace->graph_count++];
    made->phases = phases;
    made->exec = NULL;
    for (int64_t i = 0; i < list->count; i++) {
        count += (phases >> list->launches[i].phase & 1u) != 0 && count <= MOST_NODES;
    }
    if (count < LEAST_NODES || count > MOST_NODES) {
        return NULL;
    }
    TRY(ts_allocate((size_t)count, sizeof *chosen, "a graph", &chosen));
    TRY(ts_allocate((size_t)count, sizeof *nodes, "a graph", &nodes));
    TRY(ts_allocate((size_t)count, sizeof *after, "a graph", &after));
    TRY(ts_allocate_zero((size_t)count * (((size_t)count + 63) / 64), sizeof *reach, "a graph", &reach));
    count = 0;
    for (int64_t i = 0; i < list->count; i++) {
        if ((phases >> list->launches[i].phase & 1u) != 0) {
            chosen[count++] = i;
        }
    }
    TRY(ts_cuda_result(workspace->program->device, driver->graph_create(&graph, 0), "cuGraphCreate"));
    TRY(add_nodes(workspace, chosen, count, graph, nodes, after, reach));
    TRY(ts_cuda_result(workspace->program->device, driver->graph_instantiate(&made->exec, graph, 0),
                       "cuGraphInstantiateWithFlags"));
done:
    if (status != TENSUM_OK) {
        made->exec = NULL;
    }
    if (graph != NULL) {
        (void)driver->graph_destroy(graph);
    }
    ts_free(chosen);
    ts_free(nodes);
    ts_free(after);
    ts_free(reach);
    return made->exec;
}
