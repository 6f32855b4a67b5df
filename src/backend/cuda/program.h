/* Programs and workspaces of the CUDA backend.
 *
 * A program is a plan with its kernels looked up and the sizes of its lists known. A workspace holds device memory
 *     [ arena | scratch | converted operand | copies and scratch for cuTENSOR | tables | pointer table | decode | output that nobody wants to see ]
 * and a list of launches for the strides of its last run. A run with the same strides writes the pointers that changed
 * into the pointer table (one launch carries up to 448) and enqueues the list: nothing is allocated, nothing is waited
 * for. Host tensors are packed into one upload and one download. */
#ifndef TS_CUDA_PROGRAM_H
#define TS_CUDA_PROGRAM_H

#include "backend/cuda/launch.h"
#include "execute/program.h"
#include "execute/specs.h"

/* A port is a tensor that a run passes: inputs 0..n-1, then output, winners, cotangent, gradients n+3.. of the inputs.
 * Slot p of the pointer table is the address of port p in the slice at hand; the slots after the ports are: */
enum {
    TS_CUDA_SLOT_ACCUMULATE, /* not 0: combine with the output */
    TS_CUDA_SLOT_ONE,        /* 1 in the gradient dtype, 16 bytes */
    TS_CUDA_SLOT_ONE_HIGH,
    TS_CUDA_SLOT_SLICE,    /* number of the slice; the next three: see told_apart */
    TS_CUDA_SLOT_PARTIAL,  /* result of the slice */
    TS_CUDA_SLOT_SLICE_OF, /* slice that won, int64 */
    TS_CUDA_SLOT_SEED,     /* cotangent of the result of the slice */
    TS_CUDA_EXTRA_SLOTS
};

/* When a launch of a list is wanted. */
typedef enum ts_cuda_phase {
    TS_CUDA_PHASE_CHECK,         /* first */
    TS_CUDA_PHASE_FILL,          /* before the first slice, unless the output is accumulated into */
    TS_CUDA_PHASE_GRADIENT_FILL, /* before the first slice */
    TS_CUDA_PHASE_ONCE,          /* in the first slice */
    TS_CUDA_PHASE_SLICE,         /* in every slice */
    TS_CUDA_PHASE_ABSORB,        /* told apart: behind every slice of the first pass */
    TS_CUDA_PHASE_SEED,          /* told apart: behind every slice of the second pass */
    TS_CUDA_PHASE_BACKWARD,      /* in every slice, behind */
    TS_CUDA_PHASE_DECODE         /* per group of positions */
} ts_cuda_phase;

/* Steps that are run in one pass, in order; see chain.h. */
typedef struct ts_cuda_chain_group {
    int32_t steps[TS_CUDA_CHAIN_STEPS], count;
    bool back; /* gradients are found in one pass too; see ts_cuda_chain_back */
} ts_cuda_chain_group;

/* A subtree of small steps that one block runs; see tree.h. Its steps are tree_steps[first .. first + count), the root
 * last. pure: all that it reads are inputs, so it can be run before anything else, and its gradients found after all else. */
typedef struct ts_cuda_tree_group {
    int32_t root, first, count;
    bool pure;
    bool back; /* gradients are found by one block too */
} ts_cuda_tree_group;

typedef struct ts_cuda_program {
    ts_cuda_device *device;
    const tensum_plan *plan; /* the tensum_program holds the reference */
    unsigned modes;
    bool saved;              /* gradients from the output and the winners of an earlier run, which are read */
    bool check;              /* elements of operands in device memory are checked against the pair's domain */
    bool check_host;         /* ... and of those in host memory */
    bool without_panels;     /* no product is packed: that would exceed the memory limit */
    tensum_dtype gradient;   /* dtype of cotangents */
    uint64_t one[2];         /* 1 of it */
    ts_cuda_kernels pair, common;
    ts_cuda_kernels sum, gradient_common; /* sum_product over the gradient dtype; GRADIENT only */
    ts_cuda_kernels winner_common;        /* common over i32 (4-byte winners) */
    ts_cuda_kernels wide_winner_common;   /* common over i64 */
    int64_t input_count;
    int32_t port_count;
    int64_t *port_modes; /* [port_count + 1]: first raw mode of each port in stride arrays */
    int64_t output_elements;
    /* Gradients and decoding with slices, of selective semirings and log_sum_exp: slices have to be told apart. They
     * then leave their results in a buffer of their own, which is absorbed into the output. */
    bool can_tell_apart;
    bool traces; /* gradients follow one assignment */
    /* Steps that share a launch; NULL: there are none. Where intermediates are not kept, those inside a chain or a tree
     * are nowhere (-1). */
    ts_cuda_chain_group *chains;
    int32_t chain_count;
    int32_t *chain_of;      /* [step_count] -1: of none */
    ts_cuda_tree_group *trees;
    int32_t tree_count;
    int32_t *tree_of, *tree_steps; /* [step_count]; as chain_of */
    int64_t *value_offsets; /* [value_count] in place of the plan's */
    int64_t *cotangent_offsets; /* the same; not NULL where cotangents have other places than in the plan */
    size_t value_bytes;     /* of all that these places take */
    bool lean;              /* where intermediates are kept, those inside a chain are not */
    /* What lists need at most. */
    int64_t launch_capacity;
    size_t parameter_capacity, table_capacity;
    /* Layout of the workspace. */
    size_t arena_offset, scratch_offset, convert_offset, tables_offset, slots_offset;
    size_t decode_offset, decode_values_offset;  /* int64 [decode_rows][label_count]; 16 bytes per row */
    size_t cotangents_offset, operands_offset, carries_offset; /* of a trace: see ts_cuda_route */
    size_t output_offset;                        /* compact */
    size_t partial_offset, slice_of_offset, seed_offset; /* compact */
    size_t workspace_bytes;
    int64_t decode_rows; /* positions that are decoded together */
    /* What cuTENSOR does: see cutensor/steps.h. */
    int vendor_choice;
    bool vendor_direct;       /* the one step, on the run's own tensors */
    ts_cutensor_step *vendor; /* [3 * step_count]: forward, adjoints of a and b; NULL: nothing */
    size_t copy_bytes[3], copy_offset[3]; /* for operands and result that are the run's */
    size_t vendor_bytes, vendor_offset;   /* scratch, with room to align it */
    int32_t call_capacity;
} ts_cuda_program;

typedef enum ts_cuda_where { TS_CUDA_UNUSED, TS_CUDA_ON_DEVICE, TS_CUDA_ON_HOST } ts_cuda_where;

/* What a list depends on. */
typedef struct ts_cuda_signature {
    int64_t *strides; /* [port_modes[port_count]] of raw modes; of host tensors: of their compact copies */
    uint8_t *where;   /* [port_count] ts_cuda_where */
    bool accumulates; /* the output may be combined with what is there */
    uint8_t winner_bytes;
    int64_t positions; /* to be decoded together; 0: none */
    bool told_apart;
    uint8_t alignments[3]; /* vendor_direct: log2 of those of a, b and c; a list serves better ones too */
} ts_cuda_signature;

/* Room for work while a list is made. */
typedef struct ts_cuda_room {
    ts_strides strides;
    uint8_t *wanted; /* [value_count] */
} ts_cuda_room;

/* A node of a short graph takes the addresses of the run's tensors from its parameters: to tell it those that changed
 * costs the host less than a launch that brings the pointer table up to date, and the device nothing. */
typedef struct ts_cuda_place {
    int32_t node, slot; /* of the graph; of the pointer table: a port */
    uint64_t *address;  /* in the node's parameters */
    uint64_t offset;    /* added to what the slot holds */
} ts_cuda_place;

typedef struct ts_cuda_binding {
    ts_cu_graph graph; /* its nodes name those of the graph that was made of it */
    int32_t node_count, place_count;
    ts_cu_graph_node *nodes;
    ts_cu_kernel_node *kernels;
    void **parameters; /* [node_count] */
    bool *stale;       /* [node_count]: the node has not been told yet */
    ts_cuda_place *places;
    uint64_t *words; /* the parameters themselves */
} ts_cuda_binding;

typedef struct ts_cuda_graph {
    unsigned phases; /* set of ts_cuda_phase */
    ts_cu_graph_exec exec; /* NULL: cannot be had */
    ts_cuda_binding *binding; /* NULL: all addresses are in the pointer table */
} ts_cuda_graph;
enum { TS_CUDA_GRAPHS = 10, TS_CUDA_BOUND_NODES = 8 };

typedef struct ts_cuda_workspace {
    const ts_cuda_program *program;
    ts_cu_address memory;
    bool own_memory; /* from the device or the caller's allocator */
    tensum_allocator allocator;
    bool has_allocator;
    ts_cu_stream stream; /* that the memory is ordered on */

    /* The last run, if one with the same arguments is a launch of these phases and nothing else. */
    bool again;
    unsigned again_phases;
    ts_cu_stream again_stream;
    uint8_t *again_compact; /* [port_count] the tensor had no strides */

    /* The list and the signature it was made for. */
    bool reads_results; /* the run at hand: gradients from the results of an earlier one */
    ts_cuda_list list;
    bool prepared;
    bool capturing; /* the run at hand: its stream is being captured */
    int64_t uses;   /* runs of this list: graphs are for those that repeat */
    ts_cuda_graph graphs[TS_CUDA_GRAPHS];
    int32_t graph_count;
    ts_cuda_signature made; /* what the list was made for */
    ts_cuda_signature next; /* the run at hand */
    ts_cuda_room room;
    int64_t *slice_steps; /* [port_count][slice_label_count] bytes */
    ts_cu_event tables_event; /* after the last upload of tables */
    bool tables_pending;

    uint64_t *base;   /* [port_count] addresses in the run at hand, before slices */
    uint64_t *slots;  /* [port_count + TS_CUDA_EXTRA_SLOTS] values wanted */
    uint64_t *shown;  /* values that the device has */
    bool shown_valid;
    const void **validated; /* [port_count] pointers known to be memory of this device */

    /* Staging for host tensors: inputs first, then outputs; made on first use. */
    int64_t *stage_offset; /* [port_count] bytes; -1 for ports on the device */
    unsigned char *stage_host;
    ts_cu_address stage_device;
    size_t stage_bytes, stage_inputs;
    ts_cu_event stage_event;
    bool stage_pending;

    int64_t *slice_of_host; /* pinned copy of the device's */
    /* Assignments and values on their way between host and device; DECODE only. Pinned. */
    unsigned char *decode_host;

    uint64_t *verdict; /* pinned; see ts_cuda_verdict */
    ts_cu_address verdict_address;
} ts_cuda_workspace;

tensum_status ts_cuda_program_create(struct tensum_program *program, void **compiled);
void ts_cuda_program_destroy(void *compiled);
size_t ts_cuda_program_workspace_bytes(const struct tensum_program *program, const void *compiled);
tensum_status ts_cuda_workspace_create(struct tensum_program *program, void *compiled,
                                       const tensum_workspace_options *options, void **state);
void ts_cuda_workspace_destroy(void *state);
tensum_status ts_cuda_run(struct tensum_program *program, void *compiled, void *state,
                          const tensum_run_arguments *arguments);
/* Make a run if its arguments are those of the last one, on the device; false: they are not. */
bool ts_cuda_run_again(void *state, const tensum_run_arguments *arguments, tensum_status *status);
/* DOMAIN if a check has found something; the finding is cleared. */
tensum_status ts_cuda_workspace_check(void *state);

/* ---- between the files of this backend ---- */

/* Ports by name. */
static inline int32_t ts_cuda_port_output(const ts_cuda_program *program) { return (int32_t)program->input_count; }
static inline int32_t ts_cuda_port_winners(const ts_cuda_program *program) { return (int32_t)program->input_count + 1; }
static inline int32_t ts_cuda_port_cotangent(const ts_cuda_program *program)
{
    return (int32_t)program->input_count + 2;
}
static inline int32_t ts_cuda_port_gradient(const ts_cuda_program *program, int64_t input)
{
    return (int32_t)(program->input_count + 3 + input);
}
/* The network's operand (or output: input_count) whose shape a port has. */
int64_t ts_cuda_port_operand(const ts_cuda_program *program, int32_t port);
size_t ts_cuda_port_element_bytes(const ts_cuda_program *program, int32_t port);

/* Row-major compact strides of a port's raw modes. */
void ts_cuda_compact_strides(const ts_cuda_program *program, int32_t port, int64_t *strides);

/* Add to a list everything that a run launches, marked by phase. memory: the workspace's. */
tensum_status ts_cuda_emit(const ts_cuda_program *program, const ts_cuda_signature *signature, ts_cu_address memory,
                           ts_cu_address verdict, ts_cuda_room *room, ts_cuda_list *list);
tensum_status ts_cuda_room_create(const tensum_plan *plan, ts_cuda_room *room);
void ts_cuda_room_free(ts_cuda_room *room);
/* The stride of a label in a port: that of its modes of extent other than 1 together. */
int64_t ts_cuda_port_stride(const ts_cuda_program *program, const ts_cuda_signature *signature, int32_t port,
                            int32_t label);
/* The stride of a label in a compact tensor of the output's shape. */
int64_t ts_cuda_output_stride(const ts_cuda_program *program, int32_t label);
/* Make the workspace's list for workspace->next, if it is not made already. */
tensum_status ts_cuda_prepare(ts_cuda_workspace *workspace, ts_cu_stream stream);

/* graph.c: the launches of some phases as a graph, made if need be; NULL where there can be none. */
const ts_cuda_graph *ts_cuda_graph_find(ts_cuda_workspace *workspace, unsigned phases);
/* Launch it. Where it has no binding the pointer table is up to date. */
tensum_status ts_cuda_graph_launch(ts_cuda_workspace *workspace, const ts_cuda_graph *graph, ts_cu_stream stream);
void ts_cuda_graphs_drop(ts_cuda_workspace *workspace);

/* stage.c: host tensors. Lay out the staging memory for workspace->next and make it; pack and upload inputs; download
 * and unpack outputs (waits). tensors[port], NULL where unused. */
tensum_status ts_cuda_stage_layout(ts_cuda_workspace *workspace, ts_cu_stream stream);
tensum_status ts_cuda_stage_upload(ts_cuda_workspace *workspace, const tensum_run_arguments *arguments,
                                   ts_cu_stream stream);
tensum_status ts_cuda_stage_download(ts_cuda_workspace *workspace, const tensum_run_arguments *arguments,
                                     ts_cu_stream stream);
void ts_cuda_stage_free(ts_cuda_workspace *workspace);
/* The tensor of a port in a run's arguments; NULL where it is not used. */
const tensum_tensor *ts_cuda_port_tensor(const ts_cuda_program *program, const tensum_run_arguments *arguments,
                                         int32_t port);

#endif
