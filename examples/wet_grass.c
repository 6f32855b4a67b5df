/* The grass is wet. Did it rain, or was it the sprinkler?
 *
 * The textbook model (Pearl; numbers as in K. Murphy's introduction to graphical models): clouds c, sprinkler s, rain r
 * and wet grass, with the probability tables below. The grass is known to be wet, so its table is restricted to that.
 *
 *   most probable explanation: max over c,s,r of P(c) P(s|c) P(r|c) P(wet|s,r): semiring max_times, decode
 *   probability of the evidence, and marginals:       semiring sum_product, gradient
 *
 * One network and one order serve both. */
#include <stdio.h>
#include <stdlib.h>

#include <tensum/tensum.h>

static void check(tensum_status status)
{
    if (status != TENSUM_OK) {
        fprintf(stderr, "%s: %s\n", tensum_status_name(status), tensum_last_error());
        exit(1);
    }
}

static double cloudy[2] = {0.5, 0.5};
static double sprinkler[2][2] = {{0.5, 0.5}, {0.9, 0.1}}; /* [c][s] */
static double rain[2][2] = {{0.8, 0.2}, {0.2, 0.8}};      /* [c][r] */
static double wet[2][2] = {{0.0, 0.9}, {0.9, 0.99}};      /* [s][r] */

static const int64_t twos[2] = {2, 2};

static tensum_tensor table(void *data, int32_t rank)
{
    return (tensum_tensor){data, TENSUM_F64, rank, twos, NULL, {TENSUM_CPU, 0}};
}

/* Make a program for the network in a semiring and run it once. */
static void run(tensum_network *network, tensum_tree *tree, tensum_semiring semiring, unsigned modes,
                const tensum_run_arguments *arguments)
{
    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    plan_options.semiring = semiring;
    plan_options.dtype = TENSUM_F64;
    tensum_program_options program_options = TENSUM_PROGRAM_OPTIONS_INIT;
    program_options.modes = modes;

    tensum_plan *plan = NULL;
    tensum_program *program = NULL;
    tensum_workspace *workspace = NULL;
    check(tensum_plan_create(network, tree, &plan_options, &plan));
    check(tensum_program_create(plan, NULL, &program_options, &program));
    check(tensum_workspace_create(program, NULL, &workspace));
    check(tensum_run(program, workspace, arguments));
    tensum_workspace_release(workspace);
    tensum_program_release(program);
    tensum_plan_release(plan);
}

int main(void)
{
    const int32_t ranks[4] = {1, 2, 2, 2};
    const int64_t *const extents[4] = {twos, twos, twos, twos};
    tensum_network *network = NULL;
    check(tensum_network_parse("c,cs,cr,sr->", 4, ranks, extents, 0, NULL, NULL, &network));
    tensum_tree *tree = NULL;
    check(tensum_order(network, NULL, NULL, &tree));

    tensum_tensor inputs[4] = {table(cloudy, 1), table(sprinkler, 2), table(rain, 2), table(wet, 2)};
    double value = 0;
    tensum_tensor output = table(&value, 0);

    /* The most probable explanation. Labels come back in order of first occurrence: c, s, r. */
    int64_t assignment[3];
    tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
    arguments.inputs = inputs;
    arguments.output = &output;
    arguments.position_count = 1;
    arguments.assignments = assignment;
    run(network, tree, TENSUM_MAX_TIMES, TENSUM_VALUE | TENSUM_DECODE, &arguments);
    printf("most probable: cloudy=%d sprinkler=%d rain=%d, probability %.4f\n", (int)assignment[0], (int)assignment[1],
           (int)assignment[2], value);

    /* The gradient of P(wet) with respect to a table, times the table, sums to the joint marginals. */
    double wet_gradient[2][2];
    tensum_tensor gradients[4] = {table(NULL, 1), table(NULL, 2), table(NULL, 2), table(wet_gradient, 2)};
    arguments = (tensum_run_arguments)TENSUM_RUN_ARGUMENTS_INIT;
    arguments.inputs = inputs;
    arguments.output = &output;
    arguments.gradients = gradients;
    run(network, tree, TENSUM_SUM_PRODUCT, TENSUM_VALUE | TENSUM_GRADIENT, &arguments);
    double by_sprinkler = wet_gradient[1][0] * wet[1][0] + wet_gradient[1][1] * wet[1][1];
    double by_rain = wet_gradient[0][1] * wet[0][1] + wet_gradient[1][1] * wet[1][1];
    printf("P(wet) = %.4f\n", value);
    printf("P(sprinkler | wet) = %.4f\n", by_sprinkler / value);
    printf("P(rain | wet) = %.4f\n", by_rain / value);

    tensum_tree_release(tree);
    tensum_network_release(network);
    return 0;
}
