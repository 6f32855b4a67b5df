/* Shortest roads between all pairs of towns, and the towns on the way.
 *
 * In the min_plus semiring the matrix product of a distance matrix with itself gives the shortest way of at most two
 * roads: D2[i,k] = min over j of D[i,j] + D[j,k]. Squaring again gives at most four, and so on. The winners of a product
 * are the j that attained the minimum: the town where each way splits in two. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <tensum/tensum.h>

enum { TOWNS = 6, ROUNDS = 3 }; /* 2^3 roads reach anywhere among 6 towns */

static const char *const names[TOWNS] = {"Aarau", "Bern", "Chur", "Davos", "Elm", "Flims"};

static void check(tensum_status status)
{
    if (status != TENSUM_OK) {
        fprintf(stderr, "%s: %s\n", tensum_status_name(status), tensum_last_error());
        exit(1);
    }
}

static float distance[ROUNDS + 1][TOWNS][TOWNS];
static int32_t split[ROUNDS + 1][TOWNS][TOWNS];

/* Print the towns after `from` up to `to`, on a way found in round `round`. */
static void print_way(int round, int from, int to)
{
    if (from == to) {
        return;
    }
    if (round == 0) {
        printf(" - %s", names[to]);
        return;
    }
    int middle = split[round][from][to];
    print_way(round - 1, from, middle);
    print_way(round - 1, middle, to);
}

int main(void)
{
    static const struct {
        int a, b;
        float kilometres;
    } roads[] = {{0, 1, 80}, {1, 2, 240}, {0, 4, 110}, {4, 5, 45}, {5, 2, 20}, {2, 3, 60}};
    for (int i = 0; i < TOWNS; i++) {
        for (int j = 0; j < TOWNS; j++) {
            distance[0][i][j] = i == j ? 0.0F : INFINITY; /* no road: the semiring's zero */
        }
    }
    for (size_t r = 0; r < sizeof roads / sizeof *roads; r++) {
        distance[0][roads[r].a][roads[r].b] = roads[r].kilometres;
        distance[0][roads[r].b][roads[r].a] = roads[r].kilometres;
    }

    /* Once: the expression, its (only possible) order, a plan for the semiring, a program that also gives winners. */
    const int64_t extents[2] = {TOWNS, TOWNS};
    const int64_t *const operand_extents[2] = {extents, extents};
    const int32_t ranks[2] = {2, 2};
    tensum_network *network = NULL;
    check(tensum_network_parse("ij,jk->ik", 2, ranks, operand_extents, 0, NULL, NULL, &network));

    const int64_t offsets[2] = {0, 2}, positions[2] = {0, 1};
    tensum_tree *tree = NULL;
    check(tensum_tree_from_path(2, 1, offsets, positions, &tree));

    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    plan_options.semiring = TENSUM_MIN_PLUS;
    plan_options.dtype = TENSUM_F32;
    tensum_plan *plan = NULL;
    check(tensum_plan_create(network, tree, &plan_options, &plan));

    tensum_program_options program_options = TENSUM_PROGRAM_OPTIONS_INIT;
    program_options.modes = TENSUM_VALUE | TENSUM_WINNERS;
    tensum_program *program = NULL;
    check(tensum_program_create(plan, NULL, &program_options, &program));

    tensum_workspace *workspace = NULL;
    check(tensum_workspace_create(program, NULL, &workspace));

    /* Then as many runs as wanted. */
    for (int round = 1; round <= ROUNDS; round++) {
        tensum_tensor before = {distance[round - 1], TENSUM_F32, 2, extents, NULL, {TENSUM_CPU, 0}};
        tensum_tensor after = {distance[round], TENSUM_F32, 2, extents, NULL, {TENSUM_CPU, 0}};
        tensum_tensor winners = {split[round], TENSUM_I32, 2, extents, NULL, {TENSUM_CPU, 0}};
        tensum_tensor inputs[2] = {before, before};
        tensum_run_arguments arguments = TENSUM_RUN_ARGUMENTS_INIT;
        arguments.inputs = inputs;
        arguments.output = &after;
        arguments.winners = &winners;
        check(tensum_run(program, workspace, &arguments));
    }

    static const int questions[][2] = {{0, 2}, {1, 3}, {3, 0}};
    for (size_t q = 0; q < sizeof questions / sizeof *questions; q++) {
        int from = questions[q][0], to = questions[q][1];
        printf("%s to %s: %g km, %s", names[from], names[to], (double)distance[ROUNDS][from][to], names[from]);
        print_way(ROUNDS, from, to);
        printf("\n");
    }

    tensum_workspace_release(workspace);
    tensum_program_release(program);
    tensum_plan_release(plan);
    tensum_tree_release(tree);
    tensum_network_release(network);
    return 0;
}
