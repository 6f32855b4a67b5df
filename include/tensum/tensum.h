/** @file
 * tensum: contraction of tensor networks over any semiring.
 *
 * This is the only public header. It is C11/C17 and C++ clean.
 *
 * Conventions
 *  - Every call that can fail returns a tensum_status. Outputs come last and are untouched on failure.
 *    tensum_last_error() then holds this thread's message.
 *  - Extents and strides are int64_t and count elements, never bytes. Row-major (C) order is the default.
 *  - Objects are opaque. network, tree, plan, program and context are immutable and reference counted:
 *    they may be shared between threads; *_retain adds a reference, *_release drops one and accepts NULL.
 *    A workspace is used by one run at a time.
 *  - Options structs begin with their own size; start from the matching *_INIT macro.
 *  - Nothing here prints, aborts, or installs signal handlers.
 */
#ifndef TENSUM_TENSUM_H
#define TENSUM_TENSUM_H

#include <stddef.h>
#include <stdint.h>

/** @def TENSUM_API
 * Marks what the library exports. */
#if defined(_WIN32)
#define TENSUM_API
#elif defined(__GNUC__)
#define TENSUM_API __attribute__((visibility("default")))
#else
#define TENSUM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TENSUM_VERSION_MAJOR 0 /**< of this header; tensum_version() tells the library's */
#define TENSUM_VERSION_MINOR 1 /**< of this header */
#define TENSUM_VERSION_PATCH 0 /**< of this header */

/** Version of the library in use, "major.minor.patch". Static storage. */
TENSUM_API const char *tensum_version(void);

/* ------------------------------------------------------------------ status */

/** The one list of outcomes: X(ID, text). Append only. */
#define TENSUM_STATUS_LIST(X)                                                      \
    X(OK, "success")                                                               \
    X(INVALID_ARGUMENT, "an argument is not acceptable")                           \
    X(INVALID_EXPRESSION, "an einsum expression is malformed")                     \
    X(SHAPE_MISMATCH, "extents, ranks or strides do not fit together")             \
    X(DTYPE_MISMATCH, "dtypes of operands differ")                                 \
    X(INVALID_PATH, "a contraction path or tree is malformed")                     \
    X(DOMAIN, "a value lies outside the semiring's domain")                        \
    X(SIZE_OVERFLOW, "a size does not fit into 63 bits")                           \
    X(OUT_OF_MEMORY, "an allocation failed")                                       \
    X(MEMORY_LIMIT, "the memory limit cannot be met")                              \
    X(UNSUPPORTED, "this combination is not supported")                            \
    X(INFEASIBLE, "no assignment has a value other than zero")                     \
    X(NOT_A_NUMBER, "the result is not a number")                                  \
    X(CANCELLED, "cancelled by the caller")                                        \
    X(IO, "a file cannot be read or written")                                      \
    X(MALFORMED, "a file is malformed")                                            \
    X(NO_DEVICE, "there is no such device")                                        \
    X(DEVICE, "the device or its driver reported an error")                        \
    X(NOT_PREPARED, "the workspace has to be prepared before this use")            \
    X(INTERNAL, "an internal invariant does not hold")

/** Outcome of a call, TENSUM_STATUS_<ID> for each line of TENSUM_STATUS_LIST; TENSUM_STATUS_OK is 0. */
typedef enum tensum_status {
#define TENSUM_STATUS_ENUM(id, text) TENSUM_STATUS_##id,
    TENSUM_STATUS_LIST(TENSUM_STATUS_ENUM)
#undef TENSUM_STATUS_ENUM
        TENSUM_STATUS_COUNT
} tensum_status;
/** Success, the only status that is not a failure. */
#define TENSUM_OK TENSUM_STATUS_OK

/** Name of a status, such as "SHAPE_MISMATCH". Static storage; never NULL. */
TENSUM_API const char *tensum_status_name(tensum_status status);
/** Message of the last failure on this thread: which operand, label, value and what was expected.
 *  Valid until the next failing call on this thread; "" if there was none. */
TENSUM_API const char *tensum_last_error(void);

/* ------------------------------------------------------- semirings, dtypes */

/** Type of an element, TENSUM_<ID> for each line of dtypes.def. */
typedef enum tensum_dtype {
#define TENSUM_DTYPE(ID, name, bytes, gradient, summary) TENSUM_##ID,
#include <tensum/dtypes.def>
#undef TENSUM_DTYPE
    TENSUM_DTYPE_COUNT
} tensum_dtype;

/** Algebra of a contraction, TENSUM_<ID> for each line of semirings.def. */
typedef enum tensum_semiring {
#define TENSUM_SEMIRING(ID, name, alias, add, mul, dtypes, selective, summary) TENSUM_##ID,
#include <tensum/semirings.def>
#undef TENSUM_SEMIRING
    TENSUM_SEMIRING_COUNT
} tensum_semiring;

/** Bytes of one element; 0 for an unknown dtype. */
TENSUM_API size_t tensum_dtype_bytes(tensum_dtype dtype);
/** Name of a dtype ("f32"); NULL when out of range. Static storage. */
TENSUM_API const char *tensum_dtype_name(tensum_dtype dtype);
/** Name of a semiring ("max_plus"); NULL when out of range. Static storage. */
TENSUM_API const char *tensum_semiring_name(tensum_semiring semiring);
/** One line for people; NULL when out of range. Static storage. */
TENSUM_API const char *tensum_semiring_summary(tensum_semiring semiring);
/** Dtype that cotangents and gradients of `dtype` are held in (f16 -> f32, i64 -> f64, c64 -> c64). */
TENSUM_API tensum_dtype tensum_dtype_gradient(tensum_dtype dtype);
/** Look a dtype up by name. INVALID_ARGUMENT names the nearest valid name. */
TENSUM_API tensum_status tensum_dtype_find(const char *name, tensum_dtype *dtype);
/** Look a semiring up by name or alias. INVALID_ARGUMENT names the nearest valid name. */
TENSUM_API tensum_status tensum_semiring_find(const char *name, tensum_semiring *semiring);
/** 1 if the semiring's sum returns one of its operands (winners, decode), else 0. */
TENSUM_API int tensum_semiring_selective(tensum_semiring semiring);

/** Modes a program can be compiled for; combine with |. */
enum {
    TENSUM_VALUE = 1,    /**< the contraction's value */
    TENSUM_WINNERS = 2,  /**< positions selected by the sum; selective semirings, one-step expressions */
    TENSUM_GRADIENT = 4, /**< gradients with respect to the operands */
    TENSUM_DECODE = 8    /**< an optimal assignment of the labels; selective semirings */
};
/** The modes the pair (semiring, dtype) supports, as a bit set; 0 if the pair itself is unsupported. */
TENSUM_API unsigned tensum_supports(tensum_semiring semiring, tensum_dtype dtype);
/** Write 0 (`one` = 0) or 1 (`one` = 1) of the semiring as one element of `dtype` to `element`.
 *  UNSUPPORTED if the pair is. */
TENSUM_API tensum_status tensum_semiring_identity(tensum_semiring semiring, tensum_dtype dtype, int one, void *element);

/* ----------------------------------------------------------------- tensors */

/** Kinds of devices. */
typedef enum tensum_device_kind {
    TENSUM_CPU = 0,      /**< host memory, vector kernels */
    TENSUM_CUDA = 1,     /**< memory and kernels of an NVIDIA GPU */
    TENSUM_REFERENCE = 2 /**< host memory, naive loops: the oracle */
} tensum_device_kind;

/** Where data lives and work is done. TENSUM_REFERENCE is the oracle backend (host memory, naive loops). */
typedef struct tensum_device {
    tensum_device_kind kind; /**< which backend */
    int32_t index;           /**< which of its devices, from 0 */
} tensum_device;

/** A borrowed, strided view. `strides` NULL means compact row-major. Rank 0 is a scalar (extents may be NULL).
 *  Alignment to the element is required, nothing more. Inputs may have zero or negative strides;
 *  outputs must not alias themselves or any input. */
typedef struct tensum_tensor {
    void *data;             /**< the element at position 0, ..., 0; in the memory of `device` */
    tensum_dtype dtype;     /**< type of the elements */
    int32_t rank;           /**< number of modes */
    const int64_t *extents; /**< [rank]; may be NULL for rank 0 */
    const int64_t *strides; /**< [rank], in elements; NULL: compact row-major */
    tensum_device device;   /**< where `data` lies */
} tensum_tensor;

/* ----------------------------------------------------------------- context */

/** A thread pool that programs share. Immutable, reference counted. */
typedef struct tensum_context tensum_context;

/** Options of tensum_context_create(); start from TENSUM_CONTEXT_OPTIONS_INIT. */
typedef struct tensum_context_options {
    size_t size;     /**< sizeof(tensum_context_options) */
    int32_t threads; /**< workers of the pool including the caller; 0: as many as the process may use */
} tensum_context_options;
/** Defaults of tensum_context_options. */
#define TENSUM_CONTEXT_OPTIONS_INIT {sizeof(tensum_context_options), 0}

/** Create a context: a thread pool. `options` may be NULL. Threads are started on first use; after fork()
 *  a child falls back to running serially. Thread-safe. */
TENSUM_API tensum_status tensum_context_create(const tensum_context_options *options, tensum_context **context);
/** Add a reference; returns its argument. Thread-safe. */
TENSUM_API tensum_context *tensum_context_retain(tensum_context *context);
/** Drop a reference; the last ends the threads. NULL is accepted. Thread-safe. */
TENSUM_API void tensum_context_release(tensum_context *context);
/** Workers of the pool, including the caller; 1 for NULL. */
TENSUM_API int32_t tensum_context_threads(const tensum_context *context);

/** Counters of a context's cache of compiled tensum_einsum calls. Entries are evicted least recently used first. */
typedef struct tensum_cache_stats {
    size_t size;       /**< bytes of this struct; set by TENSUM_CACHE_STATS_INIT */
    int64_t hits;      /**< calls that found their program */
    int64_t misses;    /**< calls that had to plan */
    int64_t evictions; /**< entries pushed out by the limit */
    int64_t entries;   /**< programs held now */
    int64_t limit;     /**< most programs held; 256 by default */
} tensum_cache_stats;
/** Initializer of tensum_cache_stats. */
#define TENSUM_CACHE_STATS_INIT {sizeof(tensum_cache_stats), 0, 0, 0, 0, 0}
/** Read the counters. stats->size must be set. Thread-safe. */
TENSUM_API tensum_status tensum_context_cache_stats(tensum_context *context, tensum_cache_stats *stats);
/** Hold at most `entries` compiled calls from now on; 0 turns the cache off. Thread-safe. */
TENSUM_API tensum_status tensum_context_cache_limit(tensum_context *context, int64_t entries);

/** Called between steps and slices at most ten times a second; return non-zero to cancel, or, in stage "order", 2 to end
 *  the search with the best order found so far. `done` goes from 0 to 1, negative where nobody knows. Called on the
 *  thread that made the call. */
typedef int (*tensum_progress)(void *user, const char *stage, double done);

/** Memory source of a workspace. `stream` is the run's stream (NULL on the CPU). alloc returns NULL on failure;
 *  free gets what alloc got. Both may be called from the thread that creates or releases the workspace only. */
typedef struct tensum_allocator {
    /** Memory of `bytes` bytes at an address divisible by `alignment`, or NULL. */
    void *(*alloc)(void *user, size_t bytes, size_t alignment, void *stream);
    /** Takes back what alloc returned. */
    void (*free)(void *user, void *pointer, size_t bytes, void *stream);
    void *user; /**< handed to both */
} tensum_allocator;

/* ----------------------------------------------------------------- network */

/** Input tensors' labels and extents, and the output's labels. Immutable, reference counted. */
typedef struct tensum_network tensum_network;

/** Structure of a network: any int64 labels, any number of operands, extents per mode. */
typedef struct tensum_network_spec {
    size_t size;                     /**< sizeof(tensum_network_spec) */
    int64_t operand_count;           /**< number of inputs; may be 0 */
    const int32_t *ranks;            /**< [operand_count] */
    const int64_t *const *labels;    /**< [operand_count][rank] */
    const int64_t *const *extents;   /**< [operand_count][rank] */
    int32_t output_rank;             /**< modes of the output */
    const int64_t *output_labels;    /**< [output_rank]; may repeat (diagonal) or occur in no operand (broadcast) */
    int64_t size_count;              /**< extents of labels that occur in the output only */
    const int64_t *size_labels;      /**< [size_count] */
    const int64_t *size_extents;     /**< [size_count] */
} tensum_network_spec;
/** Defaults of tensum_network_spec. */
#define TENSUM_NETWORK_SPEC_INIT {sizeof(tensum_network_spec), 0, NULL, NULL, NULL, 0, NULL, 0, NULL, NULL}

/** Validate and copy a network. Size-1 modes broadcast against larger ones; any other mismatch is
 *  SHAPE_MISMATCH and names operand, label and extents. More than 64 modes of extent other than 1 in one
 *  operand or the output is UNSUPPORTED. Thread-safe. */
TENSUM_API tensum_status tensum_network_create(const tensum_network_spec *spec, tensum_network **network);
/** Parse an einsum expression (UTF-8, NumPy and PyTorch rules: implicit output, blanks, "...", any code point as
 *  label) for operands with the given ranks and extents. Labels of the network are the code points;
 *  ellipsis dimensions get negative labels. `size_labels`/`size_extents` give extents of output-only labels. */
TENSUM_API tensum_status tensum_network_parse(const char *expression, int64_t operand_count, const int32_t *ranks,
                                              const int64_t *const *extents, int64_t size_count,
                                              const int64_t *size_labels, const int64_t *size_extents,
                                              tensum_network **network);
/** Add a reference; returns its argument. Thread-safe. */
TENSUM_API tensum_network *tensum_network_retain(tensum_network *network);
/** Drop a reference; the last frees the object. NULL is accepted. Thread-safe. */
TENSUM_API void tensum_network_release(tensum_network *network);
/** Number of inputs. */
TENSUM_API int64_t tensum_network_operand_count(const tensum_network *network);
/** Number of distinct labels, those of the output included. */
TENSUM_API int64_t tensum_network_label_count(const tensum_network *network);
/** Rank, labels and extents of operand `index`, or of the output for index -1. Borrowed from the network.
 *  Any out pointer may be NULL. */
TENSUM_API tensum_status tensum_network_operand(const tensum_network *network, int64_t index, int32_t *rank,
                                                const int64_t **labels, const int64_t **extents);
/** The distinct labels in order of first occurrence, [label_count]; borrowed from the network. */
TENSUM_API const int64_t *tensum_network_labels(const tensum_network *network);
/** The extents of tensum_network_labels(), [label_count]; borrowed from the network. */
TENSUM_API const int64_t *tensum_network_label_extents(const tensum_network *network);

/* -------------------------------------------------------------------- tree */

/** A contraction order: steps over ids, inputs 0..n-1, step s makes id n+s, and optionally sliced labels. */
typedef struct tensum_tree tensum_tree;

/** From steps in SSA form: step s contracts ids children[offsets[s] .. offsets[s+1]). Any arity >= 1.
 *  Every id must be used exactly once and one result must be left, else INVALID_PATH names the step. */
TENSUM_API tensum_status tensum_tree_from_ssa(int64_t leaf_count, int64_t step_count, const int64_t *offsets,
                                              const int64_t *children, tensum_tree **tree);
/** From a linear (opt_einsum, NumPy) path: positions in the shrinking list; the result is appended. */
TENSUM_API tensum_status tensum_tree_from_path(int64_t leaf_count, int64_t step_count, const int64_t *offsets,
                                               const int64_t *positions, tensum_tree **tree);
/** Add a reference; returns its argument. Thread-safe. */
TENSUM_API tensum_tree *tensum_tree_retain(tensum_tree *tree);
/** Drop a reference; the last frees the object. NULL is accepted. Thread-safe. */
TENSUM_API void tensum_tree_release(tensum_tree *tree);
/** Number of inputs the tree is for. */
TENSUM_API int64_t tensum_tree_leaf_count(const tensum_tree *tree);
/** Number of steps. */
TENSUM_API int64_t tensum_tree_step_count(const tensum_tree *tree);
/** Steps in SSA form: offsets [step_count + 1], children [offsets[step_count]]; borrowed from the tree. */
TENSUM_API void tensum_tree_steps(const tensum_tree *tree, const int64_t **offsets, const int64_t **children);
/** The same as a linear path: writes offsets[step_count] positions. */
TENSUM_API void tensum_tree_path(const tensum_tree *tree, int64_t *positions);
/** A copy of `tree` in which `labels` are sliced. */
TENSUM_API tensum_status tensum_tree_with_slices(const tensum_tree *tree, int64_t label_count, const int64_t *labels,
                                                 tensum_tree **sliced);
/** Sliced labels; returns their number, borrowed array in *labels (may be NULL). */
TENSUM_API int64_t tensum_tree_slices(const tensum_tree *tree, const int64_t **labels);

/** Search for a contraction order. All fields beyond `size` may stay at their INIT values. */
typedef struct tensum_order_options {
    size_t size;              /**< sizeof(tensum_order_options) */
    const char *method;       /**< a name of tensum_order_method_name(), NULL for "auto" */
    uint64_t seed;            /**< same seed, work and network: same tree, whatever the number of threads */
    double work;              /**< work budget in units of about one second of one core; < 0: the default */
    double time_limit;        /**< seconds; > 0 replaces the work budget by the clock (not reproducible) */
    const char *minimize;     /**< "time" (default, NULL), "flops", "size", "write" */
    double memory_limit;      /**< elements the largest run may hold at once (arena); 0: none. Slices labels to fit */
    size_t element_bytes;     /**< for the time model; 0: 4 */
    tensum_progress progress; /**< may be NULL */
    void *progress_user;      /**< handed to `progress` */
    const tensum_tree *start; /**< a tree to start from too: the result is no dearer. Its slices are left out. NULL: none */
} tensum_order_options;
/** Defaults of tensum_order_options. */
#define TENSUM_ORDER_OPTIONS_INIT {sizeof(tensum_order_options), NULL, 0, -1.0, 0.0, NULL, 0.0, 0, NULL, NULL, NULL}

/** Names of the optimizers, in the order of the table; NULL past the end. */
TENSUM_API const char *tensum_order_method_name(int index);
/** Find an order for `network`. `context` may be NULL (one thread). Thread-safe. */
TENSUM_API tensum_status tensum_order(const tensum_network *network, const tensum_order_options *options,
                                      tensum_context *context, tensum_tree **tree);

/* -------------------------------------------------------------------- plan */

/** A tree with layouts, memory and slices, independent of any device. Immutable, reference counted. */
typedef struct tensum_plan tensum_plan;

/** Options of tensum_plan_create(); start from TENSUM_PLAN_OPTIONS_INIT. */
typedef struct tensum_plan_options {
    size_t size;           /**< sizeof(tensum_plan_options) */
    tensum_semiring semiring; /**< the algebra */
    tensum_dtype dtype;    /**< of all operands and the output */
    int64_t modulus;       /**< sum_product_mod only: prime, 2 <= modulus < 2^31 */
    uint64_t memory_limit; /**< bytes for a run; 0: none. Counted are the workspace (intermediates, what is kept of
                                them, packing buffers, slices that run side by side), plan and program as far as they
                                exceed an eighth of the limit or 8 MiB, and memory_taken. tensum_plan_create() refuses
                                intermediates that do not fit, tensum_program_create() the whole that does not;
                                MEMORY_LIMIT says what would be needed */
    unsigned memory_modes; /**< modes that tensum_plan_create() and tensum_plan_search() apply the limit to;
                                0: TENSUM_VALUE */
    uint64_t memory_taken; /**< of the limit: what the caller holds, such as inputs, outputs and gradients */
    tensum_device device;  /**< tensum_plan_search() only: where the plan is going to run */
} tensum_plan_options;
/** Defaults of tensum_plan_options. */
#define TENSUM_PLAN_OPTIONS_INIT {sizeof(tensum_plan_options), TENSUM_SUM_PRODUCT, TENSUM_F32, 0, 0, 0, 0, {TENSUM_CPU, 0}}

/** Steps, layouts, memory and slices for one tree. INVALID_PATH if the tree's leaves are not the operands. */
TENSUM_API tensum_status tensum_plan_create(tensum_network *network, tensum_tree *tree,
                                            const tensum_plan_options *options, tensum_plan **plan);
/** Search for an order and plan it, again with a tighter budget for as long as what a program of the modes asked for
 *  takes exceeds plan_options->memory_limit bytes; MEMORY_LIMIT says what the best order needs. The search keeps to the
 *  limit itself. A tree in order_options->start that fits is taken as it is. `order_options` may be NULL; their
 *  memory_limit and element_bytes are set here. `context`: the one that the program will get. Thread-safe. */
TENSUM_API tensum_status tensum_plan_search(tensum_network *network, const tensum_order_options *order_options,
                                            const tensum_plan_options *plan_options, tensum_context *context,
                                            tensum_plan **plan);
/** Add a reference; returns its argument. Thread-safe. */
TENSUM_API tensum_plan *tensum_plan_retain(tensum_plan *plan);
/** Drop a reference; the last frees the object. NULL is accepted. Thread-safe. */
TENSUM_API void tensum_plan_release(tensum_plan *plan);
/** The plan's network, borrowed. */
TENSUM_API tensum_network *tensum_plan_network(const tensum_plan *plan);
/** The plan's tree, borrowed. */
TENSUM_API tensum_tree *tensum_plan_tree(const tensum_plan *plan);

/** Cost of a plan, all slices together unless said otherwise. */
typedef struct tensum_cost {
    size_t size;           /**< sizeof(tensum_cost) */
    double tc;             /**< log2 of the number of pairs (multiply-adds), all slices */
    double sc;             /**< log2 of the elements of the largest tensor of a slice, inputs included */
    double rw;             /**< log2 of the elements read and written, all slices */
    int64_t steps;         /**< steps of one slice */
    int64_t slices;        /**< number of slices */
    uint64_t peak_bytes_value;    /**< bytes of the arena for TENSUM_VALUE, inputs and outputs not counted. Without a memory limit
                                       programs whose steps share passes may take more, or less: tensum_program_workspace_bytes()
                                       is what a program takes */
    uint64_t peak_bytes_winners;  /**< likewise for TENSUM_WINNERS */
    uint64_t peak_bytes_gradient; /**< likewise for TENSUM_GRADIENT */
    uint64_t peak_bytes_decode;   /**< likewise for TENSUM_DECODE */
    double overhead;              /**< log2 of the pairs of all slices over those of the same tree unsliced */
} tensum_cost;
/** Defaults of tensum_cost. */
#define TENSUM_COST_INIT {sizeof(tensum_cost), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/** The cost of a plan. cost->size must be set. */
TENSUM_API tensum_status tensum_plan_cost(const tensum_plan *plan, tensum_cost *cost);

/** One step as the plan runs it, for pictures and reports. Ids: inputs 0..n-1, then n + step index.
 *  b is -1 for a reduce step. Label arrays are borrowed (public labels). */
typedef struct tensum_step_info {
    size_t size;             /**< sizeof(tensum_step_info) */
    int64_t a;               /**< id of the first operand */
    int64_t b;               /**< id of the second; -1 for a reduce step */
    int32_t rank;            /**< of the result */
    const int64_t *labels;   /**< [rank] result labels in memory order */
    double log2_pairs;       /**< of the multiply-adds of the step, one slice */
    double log2_elements;    /**< of the result */
    int64_t result;          /**< id of the result */
} tensum_step_info;
/** Defaults of tensum_step_info. */
#define TENSUM_STEP_INFO_INIT {sizeof(tensum_step_info), 0, 0, 0, NULL, 0, 0, 0}
/** Step `index` in [0, tensum_cost::steps), in execution order. info->size must be set. */
TENSUM_API tensum_status tensum_plan_step(const tensum_plan *plan, int64_t index, tensum_step_info *info);

/* ----------------------------------------------------------------- program */

/** A plan compiled for one device and one set of modes. Immutable, reference counted. */
typedef struct tensum_program tensum_program;

/** Options of tensum_program_create(); start from TENSUM_PROGRAM_OPTIONS_INIT. */
typedef struct tensum_program_options {
    size_t size;             /**< sizeof(tensum_program_options) */
    unsigned modes;          /**< TENSUM_VALUE | TENSUM_WINNERS | TENSUM_GRADIENT | TENSUM_DECODE; 0: VALUE */
    tensum_device device;    /**< where the program runs and its tensors live */
    int check;               /**< 1 (default): values outside the semiring's domain are an error (DOMAIN) */
    int saved;               /**< 1: GRADIENT of a plan of one step without slices, made from what an earlier run over
                                  the same inputs left: winners (selective semirings) and the output (log_sum_exp) are
                                  read, there is no forward pass, and the workspace has no room for one */
} tensum_program_options;
/** Defaults of tensum_program_options. */
#define TENSUM_PROGRAM_OPTIONS_INIT {sizeof(tensum_program_options), 0, {TENSUM_CPU, 0}, 1, 0}

/** Compile a plan for one device and set of modes. Retains plan and context (NULL: a shared serial one).
 *  UNSUPPORTED says why a semiring, dtype or mode cannot be had. Thread-safe. */
TENSUM_API tensum_status tensum_program_create(tensum_plan *plan, tensum_context *context,
                                               const tensum_program_options *options, tensum_program **program);
/** Add a reference; returns its argument. Thread-safe. */
TENSUM_API tensum_program *tensum_program_retain(tensum_program *program);
/** Drop a reference; the last frees the object. NULL is accepted. Thread-safe. */
TENSUM_API void tensum_program_release(tensum_program *program);
/** The program's plan, borrowed. */
TENSUM_API tensum_plan *tensum_program_plan(const tensum_program *program);
/** Bytes of memory (of the program's device) a workspace takes, alignment 128. */
TENSUM_API size_t tensum_program_workspace_bytes(const tensum_program *program);

/** The memory of one run at a time. */
typedef struct tensum_workspace tensum_workspace;

/** Options of tensum_workspace_create(); start from TENSUM_WORKSPACE_OPTIONS_INIT. */
typedef struct tensum_workspace_options {
    size_t size;                       /**< sizeof(tensum_workspace_options) */
    void *memory;                      /**< caller's memory, workspace_bytes() long, 128-byte aligned; or NULL */
    const tensum_allocator *allocator; /**< used if memory is NULL; NULL: the device's own. Copied */
    void *stream;                      /**< CUDA stream that the memory is ordered on, which has to live until the workspace is
                                            released; NULL on the CPU */
} tensum_workspace_options;
/** Defaults of tensum_workspace_options. */
#define TENSUM_WORKSPACE_OPTIONS_INIT {sizeof(tensum_workspace_options), NULL, NULL, NULL}

/** Memory for one run at a time. Retains the program. `options` may be NULL. */
TENSUM_API tensum_status tensum_workspace_create(tensum_program *program, const tensum_workspace_options *options,
                                                 tensum_workspace **workspace);
/** Releases the memory (in stream order on a device). NULL is accepted. */
TENSUM_API void tensum_workspace_release(tensum_workspace *workspace);

/** What a run reads and writes. Pointers that a program's modes do not use stay NULL.
 *  Everything is borrowed for the call; on CUDA until the stream reaches the end of the run. */
typedef struct tensum_run_arguments {
    size_t size;                    /**< sizeof(tensum_run_arguments) */
    const tensum_tensor *inputs;    /**< [operand_count], shapes as in the network */
    const tensum_tensor *output;    /**< the value; NULL: not wanted (then GRADIENT or DECODE must be). Read where the
                                         program has saved = 1 */
    const tensum_tensor *winners;   /**< WINNERS: i32 or i64 tensor of the output's shape; see semantics, point 8. Read
                                         where the program has saved = 1 */
    const tensum_tensor *cotangent; /**< GRADIENT: of the output's shape, gradient dtype; NULL: ones */
    const tensum_tensor *gradients; /**< GRADIENT: [operand_count] of gradient dtype; data NULL: not wanted */
    int64_t position_count;         /**< DECODE: how many output elements to decode; 1 for a scalar output */
    const int64_t *positions;       /**< DECODE: [position_count] linear row-major indices into the output;
                                         NULL: the first position_count */
    int64_t *assignments;           /**< DECODE: [position_count][label_count], host memory, labels as in
                                         tensum_network_labels(); 0 for labels of extent 1 */
    int64_t slice_first;            /**< first slice */
    int64_t slice_count;            /**< number of slices; -1: all the rest. VALUE only unless it covers all */
    int accumulate;                 /**< 1: output <- output (+) result; values only */
    void *stream;                   /**< CUDA stream; NULL: legacy default stream */
    tensum_progress progress;       /**< may be NULL */
    void *progress_user;            /**< handed to `progress` */
    int kept;                       /**< 1: GRADIENT from what the last run of this workspace left there, over the same inputs:
                                         intermediates and winners. There is no forward pass. That run was of a program of
                                         GRADIENT mode without slices, for its value or for gradients too, without winners
                                         of its own; any number of such runs may follow it. `output` is read: log_sum_exp
                                         needs it */
} tensum_run_arguments;
/** Defaults of tensum_run_arguments. */
#define TENSUM_RUN_ARGUMENTS_INIT \
    {sizeof(tensum_run_arguments), NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, 0, -1, 0, NULL, NULL, NULL, 0}

/** Run. Allocates nothing and takes no lock. Decoding reports INFEASIBLE where an element is zero of the
 *  semiring and NOT_A_NUMBER where it is NaN; values and gradients are written all the same.
 *  One run per workspace at a time; any number of workspaces of one program concurrently. */
TENSUM_API tensum_status tensum_run(tensum_program *program, tensum_workspace *workspace,
                                    const tensum_run_arguments *arguments);

/** c <- c (+) part, elementwise: combines results of slice ranges. Host tensors of equal shape and dtype. */
TENSUM_API tensum_status tensum_combine(tensum_semiring semiring, const tensum_tensor *part, const tensum_tensor *c);

/* ------------------------------------------------------------- convenience */

/** With a context, the compiled call is kept in its cache, so that a second call with the same expression, shapes, dtype
 *  and device only runs. One call: parse, order (greedy with a small budget; exact if small), plan, run, on the operands' device.
 *  `context` may be NULL. `output` has the extents the expression implies. Thread-safe. */
TENSUM_API tensum_status tensum_einsum(tensum_context *context, tensum_semiring semiring, const char *expression,
                                       int64_t operand_count, const tensum_tensor *operands,
                                       const tensum_tensor *output);

/* ----------------------------------------------------------------- devices */

/** What tensum_device_query() tells. */
typedef struct tensum_device_info {
    size_t size;              /**< sizeof(tensum_device_info), set by the caller */
    char name[128];           /**< of the processor or GPU */
    char driver[64];          /**< driver or ISA chosen, e.g. "avx512" */
    char detail[256];         /**< chosen kernels, features */
    uint64_t memory_total;    /**< bytes */
    uint64_t memory_free;     /**< bytes, as far as the system tells */
    int32_t units;            /**< cores or multiprocessors */
} tensum_device_info;
/** Number of devices of a kind; 0 is an answer, not an error. */
TENSUM_API int32_t tensum_device_count(tensum_device_kind kind);
/** NO_DEVICE if there is no such device. info->size must be set. */
TENSUM_API tensum_status tensum_device_query(tensum_device device, tensum_device_info *info);
/** Read "cpu", "reference", "cuda" or "cuda:1". INVALID_ARGUMENT says what was expected. */
TENSUM_API tensum_status tensum_device_parse(const char *text, tensum_device *device);

/* ------------------------------------------------------------------- files */

/* Readers take "-" for standard input, gzip by its magic bytes, CRLF and files of untrusted origin. They return IO
 * where a file cannot be read and MALFORMED with "file:line:column: ..., expected ..." where it is not what it
 * should be. Writers take "-" for standard output; any other file appears whole, by rename, or not at all. */

/** Host tensors by name. Immutable, reference counted. */
typedef struct tensum_arrays tensum_arrays;

/** Read one .npy file (named after the file), the members of a .npz archive or the .npy files of a folder, the last
 *  two in natural order of names ("arr_2" before "arr_10"). NumPy's 8-bit and unsigned integers are widened to the
 *  next signed dtype; objects, text and dates are UNSUPPORTED. */
TENSUM_API tensum_status tensum_arrays_read(const char *path, tensum_arrays **arrays);
/** Add a reference; accepts NULL. */
TENSUM_API tensum_arrays *tensum_arrays_retain(tensum_arrays *arrays);
/** Drop a reference; accepts NULL. */
TENSUM_API void tensum_arrays_release(tensum_arrays *arrays);
/** How many arrays there are. */
TENSUM_API int64_t tensum_arrays_count(const tensum_arrays *arrays);
/** Name of an array, borrowed; NULL when out of range. */
TENSUM_API const char *tensum_arrays_name(const tensum_arrays *arrays, int64_t index);
/** An array as a tensor, borrowed; NULL when out of range. It may be strided (Fortran order). */
TENSUM_API const tensum_tensor *tensum_arrays_tensor(const tensum_arrays *arrays, int64_t index);
/** Write host tensors: a .npz archive if `path` ends in ".npz" (names[i] is the member's name, without ".npy"),
 *  else one tensor as .npy (`names` may be NULL). bf16 is written as f32, vc64 and vc128 as records
 *  (value, count). */
TENSUM_API tensum_status tensum_arrays_write(const char *path, int64_t count, const char *const *names,
                                             const tensum_tensor *tensors);
/** to <- from, elementwise with C's conversions, for host tensors of equal extents and any strides. Complex to real
 *  and a number to or from (value, count) are UNSUPPORTED; a number becomes the value with count 1. */
TENSUM_API tensum_status tensum_convert(const tensum_tensor *from, const tensum_tensor *to);

/** What a network file holds: a network, an order, or both. Immutable, reference counted. */
typedef struct tensum_file tensum_file;

/** How to read a network file; start from TENSUM_FILE_OPTIONS_INIT. */
typedef struct tensum_file_options {
    size_t size; /**< of this struct */
    const char *format;          /**< a name of tensum_file_format_name(); NULL: found out from the content */
    const char *tree;            /**< name of the order where a file holds several; NULL: the file's preferred one */
    int64_t extent;              /**< extent of labels that nothing else gives one for; 0: that is an error */
    const tensum_arrays *arrays; /**< operands in the order of the network: they give extents too; may be NULL */
    tensum_network *network;     /**< the network that a file with an order only belongs to; may be NULL */
} tensum_file_options;
/** Initializer of tensum_file_options. */
#define TENSUM_FILE_OPTIONS_INIT {sizeof(tensum_file_options), NULL, NULL, 0, NULL, NULL}

/** Names of the formats, in the order of the table; NULL past the end. */
TENSUM_API const char *tensum_file_format_name(int index);
/** A line for people about a format; NULL past the end. */
TENSUM_API const char *tensum_file_format_summary(int index);
/** 1 if the format can be read, else 0. */
TENSUM_API int tensum_file_format_readable(int index);
/** 1 if the format can be written, else 0. */
TENSUM_API int tensum_file_format_writable(int index);
/** Read a network file. `options` may be NULL. Thread-safe. */
TENSUM_API tensum_status tensum_file_read(const char *path, const tensum_file_options *options, tensum_file **file);
/** Add a reference; accepts NULL. */
TENSUM_API tensum_file *tensum_file_retain(tensum_file *file);
/** Drop a reference; accepts NULL. */
TENSUM_API void tensum_file_release(tensum_file *file);
/** The network, borrowed; NULL where the file has none. */
TENSUM_API tensum_network *tensum_file_network(const tensum_file *file);
/** The order, borrowed; NULL where the file has none. */
TENSUM_API tensum_tree *tensum_file_tree(const tensum_file *file);
/** Name of the format that was read. */
TENSUM_API const char *tensum_file_format(const tensum_file *file);
/** Number of labels whose extent is options->extent because nothing else gave one. */
TENSUM_API int64_t tensum_file_assumed_extents(const tensum_file *file);
/** Text of a label as the file has it (borrowed); NULL if it is the number itself. */
TENSUM_API const char *tensum_file_label(const tensum_file *file, int64_t label);
/** Write a network and an order (either may be NULL where the format allows it). `names` gives the text of labels and
 *  may be NULL; so may `format`: the project's own. */
TENSUM_API tensum_status tensum_file_write(const char *path, const char *format, tensum_network *network,
                                           tensum_tree *tree, const tensum_file *names);
/** Write a text file by rename; "-" is standard output. */
TENSUM_API tensum_status tensum_text_write(const char *path, const char *text);

/* ---------------------------------------------------------------- problems */

/** A question about a file, as a network over the semiring that the question needs. Immutable, reference counted. */
typedef struct tensum_problem tensum_problem;

/** What to ask of a problem file; start from TENSUM_PROBLEM_OPTIONS_INIT. */
typedef struct tensum_problem_options {
    size_t size; /**< of this struct */
    const char *front_end; /**< a name of tensum_front_end_name(); NULL: by the file's name, then its content */
    const char *question;  /**< what is asked where a file allows several questions ("mis" of a graph); NULL: default */
    const char *task;      /**< "map", "pr", "mar", ...: see tensum_front_end_tasks(); NULL: the first of them */
    const char *evidence;  /**< evidence file; NULL: none */
    const char *query;     /**< query file; NULL: none */
    int semiring;          /**< a tensum_semiring that the task can be computed in; < 0: the front end's choice */
    int dtype;             /**< a tensum_dtype; < 0: the front end's choice */
    int64_t count;         /**< how many answers, for tasks that give several; 0: the front end's choice */
    const char *const *settings; /**< "name=value" strings of the front end's own, ended by NULL; may be NULL */
} tensum_problem_options;
/** Initializer of tensum_problem_options. */
#define TENSUM_PROBLEM_OPTIONS_INIT {sizeof(tensum_problem_options), NULL, NULL, NULL, NULL, NULL, -1, -1, 0, NULL}

/** Names of the front ends, in the order of the table; NULL past the end. */
TENSUM_API const char *tensum_front_end_name(int index);
/** A line for people about a front end; NULL past the end. */
TENSUM_API const char *tensum_front_end_summary(int index);
/** Tasks of a front end, separated by blanks, the default first; "map|mpe" has an alias. NULL past the end. */
TENSUM_API const char *tensum_front_end_tasks(int index);
/** Questions of a front end, likewise; "" if there is one only. NULL past the end. */
TENSUM_API const char *tensum_front_end_questions(int index);
/** Names of the settings that a front end understands, likewise; "" if there are none. NULL past the end. */
TENSUM_API const char *tensum_front_end_settings(int index);

/** Read a file and set the problem up. `options` may be NULL. Thread-safe. */
TENSUM_API tensum_status tensum_problem_read(const char *path, const tensum_problem_options *options,
                                             tensum_problem **problem);
/** Add a reference; accepts NULL. */
TENSUM_API tensum_problem *tensum_problem_retain(tensum_problem *problem);
/** Drop a reference; accepts NULL. */
TENSUM_API void tensum_problem_release(tensum_problem *problem);
/** The network, borrowed. */
TENSUM_API tensum_network *tensum_problem_network(const tensum_problem *problem);
/** Its inputs, [operand_count], host memory, borrowed. */
TENSUM_API const tensum_tensor *tensum_problem_inputs(const tensum_problem *problem);
/** The semiring that the inputs are meant for. */
TENSUM_API tensum_semiring tensum_problem_semiring(const tensum_problem *problem);
/** The dtype of the inputs. */
TENSUM_API tensum_dtype tensum_problem_dtype(const tensum_problem *problem);
/** Conventions used (sense, offset, base of indices, ...), for people; "" if there is nothing to say. Borrowed. */
TENSUM_API const char *tensum_problem_note(const tensum_problem *problem);
/** What is asked: one of tensum_front_end_questions(); "" if the front end has one question only. Borrowed. */
TENSUM_API const char *tensum_problem_question(const tensum_problem *problem);
/** Edge `index`, from 0, of the graph that the problem is about (a graph's own edges, the couplings of a quadratic
 *  function): its ends, from 0, and its weight. INVALID_ARGUMENT past the last one, or if there is no such graph. */
TENSUM_API tensum_status tensum_problem_edge(const tensum_problem *problem, int64_t index, int64_t *u, int64_t *v,
                                             double *weight);

/** How to solve a problem; start from TENSUM_SOLVE_OPTIONS_INIT. */
typedef struct tensum_solve_options {
    size_t size; /**< of this struct */
    tensum_context *context;           /**< may be NULL: one thread */
    tensum_device device;              /**< where to run */
    const tensum_order_options *order; /**< may be NULL; memory_limit and element_bytes are set from the below */
    tensum_tree *tree;                 /**< a given order; NULL: search */
    uint64_t memory_limit;             /**< bytes for a run, the problem's tables counted; 0: none. See
                                            tensum_plan_options::memory_limit */
    tensum_progress progress;          /**< may be NULL */
    void *progress_user;               /**< handed to progress */
} tensum_solve_options;
/** Initializer of tensum_solve_options. */
#define TENSUM_SOLVE_OPTIONS_INIT {sizeof(tensum_solve_options), NULL, {TENSUM_CPU, 0}, NULL, NULL, 0, NULL, NULL}

/** Order and plan without running; seconds of the search in *order_seconds (may be NULL). */
TENSUM_API tensum_status tensum_problem_plan(tensum_problem *problem, const tensum_solve_options *options,
                                             tensum_plan **plan, double *order_seconds);

/** The answer in the user's terms. Immutable; owned by the caller. */
typedef struct tensum_answer tensum_answer;

/** Order, plan, run and translate. `options` may be NULL. An assignment is scored against the file's own tables before
 *  it is handed out. INFEASIBLE if no assignment exists. Cancelled after the first of several assignments, it is
 *  TENSUM_OK with those found so far. Thread-safe. */
TENSUM_API tensum_status tensum_problem_solve(tensum_problem *problem, const tensum_solve_options *options,
                                              tensum_answer **answer);
/** Free an answer; accepts NULL. */
TENSUM_API void tensum_answer_release(tensum_answer *answer);
/** "value" or "log10_value": what the number below is. */
TENSUM_API const char *tensum_answer_value_name(const tensum_answer *answer);
/** The value as a double. */
TENSUM_API double tensum_answer_value(const tensum_answer *answer);
/** The value as text: exact where it is an integer of any length. Borrowed. */
TENSUM_API const char *tensum_answer_value_text(const tensum_answer *answer);
/** Number of assignments. */
TENSUM_API int64_t tensum_answer_assignment_count(const tensum_answer *answer);
/** Length of an assignment. */
TENSUM_API int64_t tensum_answer_variable_count(const tensum_answer *answer);
/** One assignment, borrowed; NULL when out of range. */
TENSUM_API const int64_t *tensum_answer_assignment(const tensum_answer *answer, int64_t index);
/** Number of values that come with the assignments or in place of them (best-k), borrowed array; 0 if there are none. */
TENSUM_API int64_t tensum_answer_values(const tensum_answer *answer, const double **values);
/** Marginals: number of variables; those of variable v are probabilities[offsets[v] .. offsets[v+1]). 0 if none. */
TENSUM_API int64_t tensum_answer_marginals(const tensum_answer *answer, const int64_t **offsets,
                                           const double **probabilities);
/** The answer in the file format of its field, ending in a newline. Borrowed. */
TENSUM_API const char *tensum_answer_text(const tensum_answer *answer);
/** Cost of the plan, seconds spent on the order and on the run. Out pointers may be NULL. */
TENSUM_API tensum_status tensum_answer_cost(const tensum_answer *answer, tensum_cost *cost, double *order_seconds,
                                            double *run_seconds);

/* -------------------------------------------------------------------- cuda */

/** What was done on a device since the process began. Counts, except where a name says bytes. Retired blocks are those
 *  released while in use, on devices without stream-ordered memory. */
typedef struct tensum_device_counters {
    size_t size;             /**< of this struct */
    uint64_t uploads;        /**< copies from host to device; what a launch carries with it is not counted */
    uint64_t upload_bytes;   /**< of them */
    uint64_t downloads;      /**< copies from device to host */
    uint64_t download_bytes; /**< of them */
    uint64_t launches;       /**< kernels, but for those inside a graph */
    uint64_t graph_launches; /**< graphs */
    uint64_t module_loads;   /**< at most one per semiring (and dtype, if compiled by this process), and one */
    uint64_t allocations;    /**< blocks of device memory taken by this library */
    uint64_t releases;       /**< and given back */
    uint64_t held_bytes;     /**< device memory held now */
    uint64_t synchronisations;       /**< times this library waited for the device */
    uint64_t retired_deferred;       /**< blocks put into the queue */
    uint64_t retired_released;       /**< blocks of it given back */
    uint64_t retired_waits;          /**< times the queue was full and its oldest block was waited for */
    uint64_t retired_barriers;       /**< times no event was to be had and the stream was waited for */
    uint64_t retired_leaked;         /**< blocks never given back, because nobody knows when it is safe */
    uint64_t retired_in_flight;      /**< blocks in the queue now */
    uint64_t retired_in_flight_peak; /**< most blocks ever in the queue */
    uint64_t retired_bytes;          /**< bytes in the queue now */
    uint64_t module_compilations;    /**< modules compiled by this process, because the build had no nvcc */
} tensum_device_counters;
/** Initializer of tensum_device_counters. */
#define TENSUM_DEVICE_COUNTERS_INIT \
    {sizeof(tensum_device_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/** Counters of a device; all 0 for devices that share the host's memory. NO_DEVICE if there is none. Thread-safe. */
TENSUM_API tensum_status tensum_device_stats(tensum_device device, tensum_device_counters *counters);
/** Wait for a stream and give back memory that waited for it. Nothing to do where work is done when a call returns. */
TENSUM_API tensum_status tensum_synchronize(tensum_device device, void *stream);
/** DOMAIN if a run of this workspace on a device has found an element outside the semiring's domain: which operand and
 *  index. Does not wait: what has not run yet is not known. The finding is cleared by the call. */
TENSUM_API tensum_status tensum_check(tensum_workspace *workspace);

/** Blocks of device memory given up while work that uses them may still run: scratch of cuTENSOR, and all memory of
 *  devices that cannot order it by stream. Counts since the process began, of such blocks only: no total of a device's
 *  memory. */
typedef struct tensum_cuda_retirement {
    size_t size;              /**< of this struct */
    uint64_t deferred;        /**< blocks put into the queue, each with an event */
    uint64_t released;        /**< blocks given back to the driver */
    uint64_t capacity_waits;  /**< times the queue was full and its oldest event was waited for */
    uint64_t barriers;        /**< times no event could be recorded and the stream was waited for */
    uint64_t leaked;          /**< blocks never given back, because nobody knows when it is safe */
    uint64_t in_flight;       /**< blocks in the queue now */
    uint64_t in_flight_peak;  /**< most blocks ever in the queue */
    uint64_t bytes;           /**< bytes in the queue now */
    uint64_t limit;           /**< most blocks in the queue; 16 by default */
} tensum_cuda_retirement;
/** Initializer of tensum_cuda_retirement. */
#define TENSUM_CUDA_RETIREMENT_INIT {sizeof(tensum_cuda_retirement), 0, 0, 0, 0, 0, 0, 0, 0, 0}
/** Read the counters of a device's retirement queue. INVALID_ARGUMENT for other kinds of devices. Thread-safe. */
TENSUM_API tensum_status tensum_cuda_retirement_stats(tensum_device device, tensum_cuda_retirement *stats);
/** Let the queue hold at most `blocks` (1 to 256) from the next retirement on. Thread-safe. */
TENSUM_API tensum_status tensum_cuda_retirement_limit(tensum_device device, int32_t blocks);

/* ---------------------------------------------------------------- cutensor */

/** Who contracts sum_product on a CUDA device. */
typedef enum tensum_cutensor_choice {
    TENSUM_CUTENSOR_AUTO = 0,  /**< whatever measured faster for such a step */
    TENSUM_CUTENSOR_NEVER = 1, /**< our own kernels */
    TENSUM_CUTENSOR_ALWAYS = 2 /**< cuTENSOR, for every contraction that it has a plan for */
} tensum_cutensor_choice;
/** Choose for programs compiled from now on; by default $TENSUM_CUTENSOR (auto, never, always) or auto. Without the
 *  library our own kernels serve, whatever the choice. Thread-safe. */
TENSUM_API tensum_status tensum_cutensor_choose(tensum_device device, tensum_cutensor_choice choice);
/** Version of the library as a number (20801: 2.8.1). UNSUPPORTED with the reason where it cannot be used. Opens it on
 *  first use. Thread-safe. */
TENSUM_API tensum_status tensum_cutensor_version(int64_t *version);

/** The cache of cuTENSOR's plans of a device. Counts since the process began; bytes are host memory of the entries, not
 *  what the library itself holds, and no device memory. */
typedef struct tensum_cutensor_cache {
    size_t size;        /**< of this struct */
    uint64_t hits;      /**< look-ups that found their plan. Programs look up when compiled, or for new strides; never in a run */
    uint64_t misses;    /**< look-ups that built one, or tried to */
    uint64_t failures;  /**< builds that failed; they change nothing in the cache */
    uint64_t evictions; /**< plans pushed out by the limit */
    uint64_t clears;    /**< times it was cleared; what that drops is not counted as evicted */
    uint64_t entries;   /**< plans held now */
    uint64_t bytes;     /**< of them */
    uint64_t limit;     /**< most plans held; 512 by default, 0: the cache is off */
    uint64_t calls;     /**< contractions handed to the library; inside a graph of ours: once, when it is made */
} tensum_cutensor_cache;
/** Initializer of tensum_cutensor_cache. */
#define TENSUM_CUTENSOR_CACHE_INIT {sizeof(tensum_cutensor_cache), 0, 0, 0, 0, 0, 0, 0, 0, 0}
/** Read the counters. Thread-safe. */
TENSUM_API tensum_status tensum_cutensor_cache_stats(tensum_device device, tensum_cutensor_cache *stats);
/** Hold at most `entries` plans from now on; 0 turns the cache off. By default $TENSUM_CUTENSOR_PLANS or 512. Evicting
 *  waits for nothing and frees no device memory; programs keep the plans they have. Thread-safe. */
TENSUM_API tensum_status tensum_cutensor_cache_limit(tensum_device device, int64_t entries);

/** Scratch of single contractions: programs of several steps have theirs in the workspace. Counts since the process began;
 *  bytes are those of the buffers kept per stream, without temporary and retired blocks. */
typedef struct tensum_cutensor_scratch {
    size_t size;          /**< of this struct */
    uint64_t uses;        /**< contractions that needed scratch */
    uint64_t growths;     /**< buffers made or replaced by larger ones */
    uint64_t temporaries; /**< uses that had a block of their own: above the limit, or the stream's was in use */
    uint64_t waits;       /**< uses that were put behind the last one by its event (a wait of the device, not of the host) */
    uint64_t buffers;     /**< kept now */
    uint64_t bytes;       /**< kept now */
    uint64_t peak_bytes;  /**< most ever kept */
    uint64_t limit;       /**< bytes that one stream may keep; 256 MiB by default, 0: none is kept */
} tensum_cutensor_scratch;
/** Initializer of tensum_cutensor_scratch. */
#define TENSUM_CUTENSOR_SCRATCH_INIT {sizeof(tensum_cutensor_scratch), 0, 0, 0, 0, 0, 0, 0, 0}
/** Read the counters. Thread-safe. */
TENSUM_API tensum_status tensum_cutensor_scratch_stats(tensum_device device, tensum_cutensor_scratch *stats);
/** Let a stream keep at most `bytes`; larger buffers are retired. By default $TENSUM_CUTENSOR_SCRATCH or 256 MiB. The limit
 *  survives tensum_cutensor_clear(). Thread-safe. */
TENSUM_API tensum_status tensum_cutensor_scratch_limit(tensum_device device, uint64_t bytes);

/** Forget all plans, scratch and the library's handle of a device, and give back retired memory, waiting for what is in
 *  use. Programs keep the plans they have. Thread-safe. */
TENSUM_API tensum_status tensum_cutensor_clear(tensum_device device);

/* --------------------------------------------------------------- measuring */

/** Pairs per second that the CPU's packed kernel of a pair reaches on one thread with both operands in the first-level
 *  cache, measured now (takes about a tenth of a second): the ceiling for contractions in this process. UNSUPPORTED if
 *  the pair is. Thread-safe. */
TENSUM_API tensum_status tensum_bench_ceiling(tensum_semiring semiring, tensum_dtype dtype, double *pairs_per_second);

#ifdef __cplusplus
}
#endif
#endif
