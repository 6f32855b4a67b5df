/* 3-regular networks with their trees. Every tensor is filled with 0.5^0.4, and the values are known exactly:
 * each label is a vertex that lies in three tensors. The two largest need gigabytes and are run where TENSUM_SLOW is set. */
#include <jansson.h>

#include "support.h"

typedef struct published {
    const char *file;
    int64_t tensors;
    double sum_product, tc, sc, rw;
    bool slow;
} published;
static const published networks[] = {
    {"networks/network_small.json", 15, 0x1p4, 7.29, 3, 7.98, false},
    {"networks/network_medium.json", 75, 0x1p20, 12.76, 9, 12.38, false},
    {"networks/network_large.json", 150, 0x1p40, 17.91, 14, 16.85, false},
    {"networks/network_3reg_150.json", 225, 0x1p60, 34.60, 27, 28.41, true},
    {"orders/tnbench_tensornetwork.json", 550, 1.0, 33.18, 28, 32.09, true},
};
enum { NETWORKS = sizeof networks / sizeof networks[0], MOST = 1024 };

typedef struct loaded {
    int64_t count, steps, step_offsets[MOST + 1], children[2 * MOST];
    int32_t ranks[MOST];
    int64_t labels[MOST][2], extents[2];
    const int64_t *label_lists[MOST], *extent_lists[MOST];
} loaded;

static int64_t add_node(loaded *network, const json_t *node, int64_t base)
{
    if (json_is_true(json_object_get(node, "isleaf"))) {
        return json_integer_value(json_object_get(node, "tensorindex")) - base;
    }
    const json_t *arguments = json_object_get(node, "args");
    int64_t ids[4];
    size_t count = json_array_size(arguments);
    assert_true(count >= 1 && count <= 4);
    for (size_t i = 0; i < count; i++) {
        ids[i] = add_node(network, json_array_get(arguments, i), base);
    }
    int64_t end = network->step_offsets[network->steps];
    for (size_t i = 0; i < count; i++) {
        network->children[end + (int64_t)i] = ids[i];
    }
    network->step_offsets[++network->steps] = end + (int64_t)count;
    return network->count + network->steps - 1;
}

static loaded *load(const published *known)
{
    char path[4096];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", data_folder(), known->file);
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL) {
        print_message("skipped: %s: %s\n", path, error.text);
        return NULL;
    }
    loaded *network = calloc(1, sizeof *network);
    const json_t *edges = json_object_get(root, "edges");
    int64_t base = edges == NULL; /* leaves from 1 in the one format, from 0 in the other */
    edges = edges != NULL ? edges : json_object_get(root, "inputs");
    network->count = (int64_t)json_array_size(edges);
    assert_int_equal(network->count, known->tensors);
    network->extents[0] = network->extents[1] = 2;
    for (int64_t i = 0; i < network->count; i++) {
        const json_t *edge = json_array_get(edges, (size_t)i);
        network->ranks[i] = (int32_t)json_array_size(edge);
        assert_true(network->ranks[i] <= 2);
        for (int32_t m = 0; m < network->ranks[i]; m++) {
            network->labels[i][m] = json_integer_value(json_array_get(edge, (size_t)m));
        }
        network->label_lists[i] = network->labels[i];
        network->extent_lists[i] = network->extents;
    }
    int64_t last = add_node(network, json_object_get(root, "tree"), base);
    assert_int_equal(last, network->count + network->steps - 1);
    json_decref(root);
    return network;
}

static void check(const published *known)
{
    loaded *network = load(known);
    if (network == NULL) {
        skip();
        return;
    }
    const double fill = pow(0.5, 0.4), block[4] = {fill, fill, fill, fill};
    tensum_tensor *inputs = calloc((size_t)network->count, sizeof *inputs);
    for (int64_t i = 0; i < network->count; i++) {
        inputs[i] = (tensum_tensor){(void *)(uintptr_t)block, TENSUM_F64, network->ranks[i], network->extents, NULL, {TENSUM_CPU, 0}};
    }
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    spec.operand_count = network->count;
    spec.ranks = network->ranks;
    spec.labels = network->label_lists;
    spec.extents = network->extent_lists;
    FOR_EACH_DEVICE (device) {
        static const tensum_semiring semirings[] = {TENSUM_SUM_PRODUCT, TENSUM_MAX_PLUS};
        for (int s = 0; s < 2 && !(known->slow && device.kind == TENSUM_REFERENCE); s++) {
            prepared made;
            double value = 0;
            const tensum_tensor out = SCALAR(TENSUM_F64, &value);
            tensum_cost cost = TENSUM_COST_INIT;
            tensum_plan_options plan = TENSUM_PLAN_OPTIONS_INIT;
            tensum_program_options program = TENSUM_PROGRAM_OPTIONS_INIT;
            tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
            tensum_context *context = NULL;
            memset(&made, 0, sizeof made);
            plan.semiring = semirings[s];
            plan.dtype = TENSUM_F64;
            program.device = device;
            arguments.inputs = inputs;
            arguments.output = &out;
            assert_int_equal(tensum_context_create(NULL, &context), TENSUM_OK);
            assert_int_equal(tensum_network_create(&spec, &made.network), TENSUM_OK);
            assert_int_equal(tensum_tree_from_ssa(network->count, network->steps, network->step_offsets, network->children, &made.tree), TENSUM_OK);
            assert_int_equal(tensum_plan_create(made.network, made.tree, &plan, &made.plan), TENSUM_OK);
            assert_int_equal(tensum_plan_cost(made.plan, &cost), TENSUM_OK);
            assert_true(fabs(cost.tc - known->tc) < 0.006);
            assert_true(cost.sc == known->sc);
            assert_true(fabs(cost.rw - known->rw) < 0.006);
            assert_int_equal(tensum_program_create(made.plan, context, &program, &made.program), TENSUM_OK);
            if (tensum_workspace_create(made.program, NULL, &made.workspace) != TENSUM_OK) {
                fail_msg("%s: %s", known->file, tensum_last_error());
            }
            assert_int_equal(tensum_run(made.program, made.workspace, &arguments), TENSUM_OK);
            double expected = s == 0 ? known->sum_product : (double)known->tensors * fill;
            if (fabs(value - expected) > 1e-11 * fabs(expected)) {
                fail_msg("%s: %s gives %.17g, not %.17g", known->file, tensum_semiring_name(semirings[s]), value, expected);
            }
            prepared_release(&made);
            tensum_context_release(context);
        }
    }
    free(inputs);
    free(network);
}

static void quick_networks(void **state)
{
    (void)state;
    for (int i = 0; i < NETWORKS; i++) {
        if (!networks[i].slow) {
            check(&networks[i]);
        }
    }
}

static void slow_networks(void **state)
{
    (void)state;
    if (getenv("TENSUM_SLOW") == NULL) {
        print_message("skipped: set TENSUM_SLOW=1 to run networks that need gigabytes\n");
        skip();
    }
    for (int i = 0; i < NETWORKS; i++) {
        if (networks[i].slow) {
            check(&networks[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_networks),
        cmocka_unit_test(slow_networks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
