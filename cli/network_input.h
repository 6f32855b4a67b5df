/* A network from the command line, with its tensors. */
#ifndef TENSUM_CLI_NETWORK_INPUT_H
#define TENSUM_CLI_NETWORK_INPUT_H

#include "command.h"

enum { KEY_INPUTS = 'i', KEY_FORMAT = 'f', KEY_FILL = 0x400, KEY_EXTENT, KEY_TREE };

#define NETWORK_OPTIONS                                                                                              \
    {"inputs", KEY_INPUTS, "FILE", 0, "tensors: a .npz archive or a folder of .npy files, in natural order", 1},     \
        {"fill", KEY_FILL, "X", 0, "instead, fill every tensor with a number, or with 'random' ones from 0 to 1", 1}, \
        {"format", KEY_FORMAT, "NAME", 0, "format of the network; the default is found out from the content", 1},    \
        {"extent", KEY_EXTENT, "N", 0, "extent of labels that the file gives none for (2)", 1},                       \
        {"tree", KEY_TREE, "NAME", 0, "which order to take where the file holds several, such as opt_size", 1}

#define NETWORK_DETAILS \
    "NETWORK is a file (- is standard input, gzip is recognised): JSON of OMEinsum, cotengra, omeinsum-cli, the einsum " \
    "benchmark or tensum's own. With --inputs it may be an einsum expression instead.\n\n"

typedef struct network_arguments {
    const char *path, *inputs, *format, *tree, *fill;
    int64_t extent; /* 0: not given */
} network_arguments;

typedef struct network_input {
    tensum_context *context;
    tensum_file *file; /* NULL: the network was an expression */
    tensum_arrays *arrays;
    tensum_network *network; /* a reference */
    tensum_semiring semiring;
    tensum_dtype dtype;
    tensum_tensor *tensors; /* [operand_count] */
    void **owned;           /* memory behind them, NULL where it is the arrays' */
} network_input;

error_t parse_network_argument(int key, char *argument, struct argp_state *state, network_arguments *arguments);
/* Read network and arrays, choose semiring and dtype. */
tensum_status open_network(const network_arguments *arguments, const shared_options *shared, network_input *input);
tensum_status make_plan(network_input *input, const shared_options *shared, unsigned modes, tensum_plan **plan,
                        double *order_seconds);
/* Tensors of the right dtype from arrays or the fill. */
tensum_status make_inputs(const network_arguments *arguments, const shared_options *shared, network_input *input);
void print_plan_cost(const shared_options *shared, const tensum_cost *cost, unsigned modes, double order_seconds);
void close_network(network_input *input);

#endif
