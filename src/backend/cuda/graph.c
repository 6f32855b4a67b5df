/* Launches of one kind of run as a CUDA graph: what does not depend on each other runs side by side, and a launch costs
 * a fraction of what it costs in a stream. Addresses of a run's tensors are in the pointer table, so a graph once made
 * serves every run of the list; those of a short graph are in its nodes, which are told of the ones that changed. */
#include "backend/cuda/program.h"

/* Beyond this the table of what comes after what gets too large. */
enum { MOST_NODES = 4096 };

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

static void binding_free(const ts_cuda_driver *driver, ts_cuda_binding *binding)
{
    if (binding == NULL) {
        return;
    }
    if (binding->graph != NULL) {
        (void)driver->graph_destroy(binding->graph);
    }
    ts_free(binding->nodes);
    ts_free(binding->kernels);
    ts_free(binding->parameters);
    ts_free(binding->stale);
    ts_free(binding->places);
    ts_free(binding->words);
    ts_free(binding);
}

void ts_cuda_graphs_drop(ts_cuda_workspace *workspace)
{
    const ts_cuda_driver *driver = workspace->program->device->driver;

    for (int32_t i = 0; i < workspace->graph_count; i++) {
        if (workspace->graphs[i].exec != NULL) {
            (void)driver->graph_exec_destroy(workspace->graphs[i].exec);
        }
        binding_free(driver, workspace->graphs[i].binding);
    }
    workspace->graph_count = 0;
}

/* ---- addresses in nodes ---- */

/* The entry of the pointer table that a word names; -1 if it names none. */
static int32_t slot_of(const ts_cuda_workspace *workspace, uint64_t word)
{
    const uint64_t first = workspace->list.slots_address;
    const int32_t slots = workspace->program->port_count + TS_CUDA_EXTRA_SLOTS;
    return word >= first && word < first + (uint64_t)slots * 8 ? (int32_t)((word - first) / 8) : -1;
}

static size_t parameter_words(const ts_cuda_list *list, int64_t launch)
{
    const size_t past = launch + 1 < list->count ? list->launches[launch + 1].parameters : list->parameter_bytes;
    return (past - list->launches[launch].parameters) / 8;
}

static bool declared(const ts_cuda_launch *launch, uint64_t slot)
{
    for (int i = 0; i < launch->read_count; i++) {
        if (launch->reads[i].from == slot) {
            return true;
        }
    }
    for (int i = 0; i < launch->write_count; i++) {
        if (launch->writes[i].from == slot) {
            return true;
        }
    }
    return false;
}

/* How many addresses do these launches take from the pointer table? -1: it has to stay, because something else than the
 * addresses of ports in parameters (ts_cuda_pointer) refers to it. */
static int32_t count_places(const ts_cuda_workspace *workspace, const int64_t *chosen, int32_t count)
{
    const ts_cuda_list *list = &workspace->list;
    int32_t places = 0;

    for (size_t i = 0; i + 8 <= list->table_bytes; i += 8) {
        uint64_t word;
        memcpy(&word, list->tables + i, sizeof word);
        if (slot_of(workspace, word) >= 0) {
            return -1;
        }
    }
    for (int32_t j = 0; j < count; j++) {
        const ts_cuda_launch *launch = &list->launches[chosen[j]];
        const size_t words = parameter_words(list, chosen[j]);
        if (launch->call != 0 || launch->barrier) {
            return -1;
        }
        for (size_t i = 0; i < words; i++) {
            uint64_t word;
            memcpy(&word, list->parameters + launch->parameters + 8 * i, sizeof word);
            if (slot_of(workspace, word) < 0) {
                continue;
            }
            if (slot_of(workspace, word) >= workspace->program->port_count || i + 1 == words || !declared(launch, word)) {
                return -1;
            }
            places++;
        }
    }
    return places;
}

/* Copies of the launches' parameters in which addresses stand themselves. *made is NULL where that cannot be. */
static tensum_status bind(const ts_cuda_workspace *workspace, const int64_t *chosen, int32_t count, ts_cuda_binding **made)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_list *list = &workspace->list;
    const int32_t places = count <= TS_CUDA_BOUND_NODES && workspace->program->device->driver->graph_set_kernel != NULL
                               ? count_places(workspace, chosen, count)
                               : -1;
    ts_cuda_binding *binding = NULL;
    size_t words = TS_CUDA_PARAMETER_SLACK / 8;

    *made = NULL;
    if (places < 0) {
        return TENSUM_OK;
    }
    for (int32_t j = 0; j < count; j++) {
        words += parameter_words(list, chosen[j]);
    }
    TRY(ts_allocate_zero(1, sizeof *binding, "a graph", &binding));
    TRY(ts_allocate_zero((size_t)count, sizeof *binding->nodes, "a graph", &binding->nodes));
    TRY(ts_allocate_zero((size_t)count, sizeof *binding->kernels, "a graph", &binding->kernels));
    TRY(ts_allocate_zero((size_t)count, sizeof *binding->parameters, "a graph", &binding->parameters));
    TRY(ts_allocate_zero((size_t)count, sizeof *binding->stale, "a graph", &binding->stale));
    TRY(ts_allocate_zero((size_t)places, sizeof *binding->places, "a graph", &binding->places));
    TRY(ts_allocate_zero(words, sizeof *binding->words, "a graph", &binding->words));
    binding->node_count = count;
    words = 0;
    for (int32_t j = 0; j < count; j++) {
        const size_t own = parameter_words(list, chosen[j]);
        uint64_t *word = binding->words + words;
        memcpy(word, list->parameters + list->launches[chosen[j]].parameters, 8 * own);
        binding->parameters[j] = word;
        for (size_t i = 0; i + 1 < own; i++) {
            const int32_t slot = slot_of(workspace, word[i]);
            if (slot >= 0) {
                binding->places[binding->place_count++] = (ts_cuda_place){j, slot, &word[i + 1], word[i + 1]};
                word[i] = 0;
                word[i + 1] += workspace->slots[slot];
            }
        }
        words += own;
    }
    *made = binding;
    binding = NULL;
done:
    binding_free(workspace->program->device->driver, binding);
    return status;
}

/* Tell the nodes of addresses that changed. What is on its way to the device keeps those that it was launched with. */
static tensum_status rebind(const ts_cuda_workspace *workspace, const ts_cuda_graph *graph)
{
    tensum_status status = TENSUM_OK;
    const ts_cuda_binding *binding = graph->binding;

    for (int32_t i = 0; i < binding->place_count; i++) {
        const ts_cuda_place *place = &binding->places[i];
        const uint64_t address = workspace->slots[place->slot] + place->offset;
        if (*place->address != address) {
            *place->address = address;
            binding->stale[place->node] = true;
        }
    }
    for (int32_t j = 0; j < binding->node_count; j++) {
        if (binding->stale[j]) {
            TRY(ts_cuda_result(workspace->program->device,
                               workspace->program->device->driver->graph_set_kernel(graph->exec, binding->nodes[j], &binding->kernels[j]),
                               "cuGraphExecKernelNodeSetParams"));
            binding->stale[j] = false;
        }
    }
done:
    return status;
}

tensum_status ts_cuda_graph_launch(ts_cuda_workspace *workspace, const ts_cuda_graph *graph, ts_cu_stream stream)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_device *device = workspace->program->device;

    if (graph->binding != NULL) {
        TRY(rebind(workspace, graph));
    }
    TRY(ts_cuda_result(device, device->driver->graph_launch(graph->exec, stream), "cuGraphLaunch"));
    TS_CUDA_COUNT(device, graph_launches, 1);
done:
    return status;
}

/* ---- making them ---- */

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

/* Add the chosen launches as nodes, each after the latest ones that it depends on. binding: NULL, or takes note of them. */
static tensum_status add_nodes(ts_cuda_workspace *workspace, const int64_t *chosen, int32_t count, ts_cu_graph graph,
                               ts_cu_graph_node *nodes, ts_cu_graph_node *after, uint64_t *reach, ts_cuda_binding *binding)
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
        node.parameters = binding != NULL ? &binding->parameters[j] : parameters;
        TRY(ts_cuda_result(program->device,
                           program->device->driver->graph_kernel(&nodes[j], graph, after, after_count, &node),
                           "cuGraphAddKernelNode"));
        if (binding != NULL) {
            binding->nodes[j] = nodes[j];
            binding->kernels[j] = node;
        }
    }
done:
    return status;
}

const ts_cuda_graph *ts_cuda_graph_find(ts_cuda_workspace *workspace, unsigned phases)
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
            return workspace->graphs[i].exec != NULL ? &workspace->graphs[i] : NULL;
        }
    }
    if (workspace->graph_count == TS_CUDA_GRAPHS || driver->graph_create == NULL || driver->graph_kernel == NULL ||
        driver->graph_instantiate == NULL || driver->graph_launch == NULL || driver->graph_destroy == NULL ||
        driver->graph_exec_destroy == NULL || !can_record(workspace)) {
        return NULL;
    }
    /* Whatever goes wrong from here on, the launches can be made one by one: it is not tried again. */
    made = &workspace->graphs[workspace->graph_count++];
    *made = (ts_cuda_graph){.phases = phases};
    for (int64_t i = 0; i < list->count; i++) {
        count += (phases >> list->launches[i].phase & 1u) != 0 && count <= MOST_NODES;
    }
    if (count == 0 || count > MOST_NODES) {
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
    TRY(bind(workspace, chosen, count, &made->binding));
    TRY(add_nodes(workspace, chosen, count, graph, nodes, after, reach, made->binding));
    TRY(ts_cuda_result(workspace->program->device, driver->graph_instantiate(&made->exec, graph, 0),
                       "cuGraphInstantiateWithFlags"));
    if (made->binding != NULL) {
        made->binding->graph = graph;
        graph = NULL;
    }
done:
    if (status != TENSUM_OK) {
        binding_free(driver, made->binding);
        *made = (ts_cuda_graph){.phases = phases};
    }
    if (graph != NULL) {
        (void)driver->graph_destroy(graph);
    }
    ts_free(chosen);
    ts_free(nodes);
    ts_free(after);
    ts_free(reach);
    return made->exec != NULL ? made : NULL;
}
