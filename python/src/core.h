/* What the files of the extension share. Everything runs under the GIL unless a comment says otherwise. */
#ifndef TS_PYTHON_CORE_H
#define TS_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include <tensum/tensum.h>

#include "exchange.h"

#ifdef Py_GIL_DISABLED
#error "tensum's extension relies on the GIL: build it for the default (not the free-threaded) Python"
#endif

/* ---- errors ---- */

extern PyObject *ts_error_infeasible, *ts_error_not_a_number, *ts_error_cancelled;
/* Set the Python exception of a failed library call, with the library's message. Returns NULL. */
PyObject *ts_raise(tensum_status status);
/* The same with "operand N: " and the like in front. */
PyObject *ts_raise_about(tensum_status status, const char *about);

/* ---- conversions ---- */

/* 0, or -1 with an error set. Accept names ("f32", "max_plus"). */
int ts_parse_dtype(PyObject *name, tensum_dtype *dtype);
int ts_parse_semiring(PyObject *name, tensum_semiring *semiring);
/* (kind, index) as DLPack counts kinds, or "reference". */
int ts_parse_device(PyObject *object, tensum_device *device);
/* A sequence of integers to a PyMem array; *count entries. NULL with an error set. */
int64_t *ts_parse_integers(PyObject *sequence, const char *what, Py_ssize_t *count);
PyObject *ts_integer_tuple(const int64_t *values, Py_ssize_t count);
/* "f32" of a DLPack dtype; false if there is none. */
bool ts_dtype_from_dl(dl_dtype dl, tensum_dtype *dtype);
bool ts_dtype_to_dl(tensum_dtype dtype, dl_dtype *dl);
/* Buffer-protocol format of a dtype; NULL if the protocol has none (bf16). */
const char *ts_dtype_format(tensum_dtype dtype);
bool ts_dtype_from_format(const char *format, Py_ssize_t item_bytes, tensum_dtype *dtype);

/* ---- views: a borrowed or owned look at somebody's array ---- */

enum { TS_VIEW_RANK = 8 }; /* up to here shapes need no allocation */

typedef struct ts_view {
    tensum_tensor tensor;
    bool read_only;
    bool has_buffer;
    Py_buffer buffer;
    dl_managed *managed;
    dl_managed_versioned *versioned;
    PyObject *owner;
    int64_t *allocated;
    int64_t extents[TS_VIEW_RANK], strides[TS_VIEW_RANK];
} ts_view;

/* Kinds of trouble that the caller may mend by a copy. */
extern PyObject *ts_error_layout;

/* Look at `object` by the cheapest protocol it offers: tensum.Array, the C exchange table, __dlpack__ (with the stream
 * handshake for `stream`: a CUDA stream's number, 0 for the legacy default), __cuda_array_interface__, the buffer
 * protocol. Returns 0, or -1 with TypeError, BufferError or ts_error_layout set. */
int ts_view_open(ts_view *view, PyObject *object, uintptr_t stream, const char *what);
/* The buffer protocol alone: 0, or -1 (an error may or may not be set). */
int ts_view_open_buffer(ts_view *view, PyObject *object, bool writable);
void ts_view_close(ts_view *view);
/* The exchange table of a type, or NULL (no error set). Cached by type. */
const dl_exchange *ts_exchange_of(PyTypeObject *type);
/* Fill view from a borrowed DLPack tensor. `what` names it in messages. */
int ts_view_from_dl(ts_view *view, const dl_tensor *tensor, const char *what);

/* ---- tensum.Array ---- */

/* Memory with an owner; counted without the GIL, so that a deleter may run on any thread. */
typedef struct ts_block {
    atomic_int references;
    void *memory;
    void (*free)(struct ts_block *block);
    void *context;
} ts_block;

typedef struct ts_array {
    PyObject_HEAD
    ts_block *block;
    void *data;
    tensum_dtype dtype;
    tensum_device device;
    bool read_only;
    int32_t rank;
    int64_t *extents, *strides;      /* elements; one allocation */
    Py_ssize_t *buffer_strides;      /* bytes */
    uintptr_t stream;                /* CUDA: the stream whose work produced the data */
} ts_array;

extern PyTypeObject *ts_array_type;
int ts_array_register(PyObject *module);
PyObject *ts_array_empty(PyObject *module, PyObject *arguments);
PyObject *ts_array_from(PyObject *module, PyObject *arguments);

/* ---- network, tree, plan, program ---- */

/* Results of a program that PyTorch allocates. */
enum { TS_VALUE, TS_WINNERS, TS_GRADIENTS, TS_RESULTS = TS_GRADIENTS + 8 };

typedef struct ts_program {
    PyObject_HEAD
    tensum_program *program;
    tensum_network *network;
    tensum_dtype dtype, gradient_dtype;
    tensum_dtype winners;    /* that calls make or read; TENSUM_DTYPE_COUNT: none */
    tensum_semiring semiring;
    tensum_device device;
    unsigned modes;
    bool saved;              /* gradients from the results of an earlier run */
    int64_t operand_count;
    int32_t output_rank;
    const int64_t *output_extents;
    bool small;              /* so little work that giving the GIL away costs more */
    bool sliced;
    PyObject *prototypes[TS_RESULTS]; /* tensors without memory that they are made like; NULL: not yet */
    int idle_count;
    struct ts_idle {
        tensum_workspace *workspace;
        void *stream;
        dl_managed_versioned *memory; /* from the caller's library, or NULL */
    } idle[4];
} ts_program;

/* What a forward pass has left for gradients: its workspace, which nobody else uses until the tape is released. */
typedef struct ts_tape {
    PyObject_HEAD
    ts_program *program;
    struct ts_idle taken; /* no workspace: it has been given back */
    bool busy;
} ts_tape;

extern PyTypeObject *ts_network_type, *ts_tree_type, *ts_plan_type, *ts_program_type, *ts_tape_type;
int ts_structure_register(PyObject *module);
int ts_program_register(PyObject *module);

PyObject *ts_network_parse(PyObject *module, PyObject *arguments);
PyObject *ts_network_build(PyObject *module, PyObject *arguments);
PyObject *ts_tree_search(PyObject *module, PyObject *arguments, PyObject *keywords);
PyObject *ts_tree_from_steps(PyObject *module, PyObject *arguments);
PyObject *ts_plan_build(PyObject *module, PyObject *arguments);
tensum_plan *ts_plan_of(PyObject *plan);
/* A dictionary of what a plan costs. NULL with an error set. */
PyObject *ts_cost(const tensum_cost *cost);
PyObject *ts_cost_of(const tensum_plan *plan);

PyObject *ts_program_build(PyObject *module, PyObject *arguments);
/* A new reference; takes no ownership of plan. */
PyObject *ts_program_new(tensum_plan *plan, tensum_semiring semiring, tensum_dtype dtype, unsigned modes,
                         tensum_device device, int check, int saved);
/* Can gradients be made from the results of a forward pass alone (a plan of one step)? *winners: the dtype of the
 * winners that it takes for that, TENSUM_DTYPE_COUNT where none are needed. */
bool ts_plan_saves(const tensum_plan *plan, tensum_semiring semiring, tensum_dtype *winners);
/* Are they made from what a forward pass leaves in its workspace (a plan of more steps, without slices)? */
bool ts_plan_keeps(const tensum_plan *plan, tensum_semiring semiring, tensum_dtype dtype);
/* Run with everything else filled in; takes and returns a workspace, releases the GIL. Returns the status. A status of
 * TENSUM_STATUS_COUNT means that a Python error is set (a callback raised, or Ctrl-C). `source`: a library whose
 * caching allocator gives device workspaces; NULL: the device's own. */
tensum_status ts_program_run(ts_program *program, tensum_run_arguments *arguments, PyObject *progress,
                             const dl_exchange *source);
/* The same; *tape keeps what the run has left. */
tensum_status ts_program_record(ts_program *program, tensum_run_arguments *arguments, PyObject *progress,
                                const dl_exchange *source, ts_tape **tape);
/* Is it there, on this stream, and free for a run from it? */
bool ts_tape_usable(const ts_tape *tape, void *stream);
/* Gradients from what is on the tape. */
tensum_status ts_tape_run(ts_tape *tape, tensum_run_arguments *arguments, PyObject *progress);
/* Allocate a compact tensor by a library's allocator. NULL with an error set. */
dl_managed_versioned *ts_exchange_allocate(const dl_exchange *table, dl_tensor prototype);

/* The process's context: threads are shared by everything. Borrowed; NULL with an error set. */
tensum_context *ts_context(void);
PyObject *ts_set_threads(PyObject *module, PyObject *arguments);

/* Polls Ctrl-C and calls a Python callback from inside a library call that released the GIL. */
typedef struct ts_progress {
    PyThreadState *thread;
    PyObject *callback; /* or NULL */
    bool raised;
} ts_progress;
int ts_progress_call(void *user, const char *stage, double done);

/* ---- problem files ---- */

PyObject *ts_solve(PyObject *module, PyObject *arguments, PyObject *keywords);
PyObject *ts_front_ends(PyObject *module, PyObject *unused);

/* ---- the fast path ---- */

int ts_einsum_register(PyObject *module);
/* *slot <- value, in a way that is safe if the old value runs code as it goes. */
void ts_set_object(PyObject **slot, PyObject *value);
PyObject *ts_einsum(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names);
PyObject *ts_record(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *ts_backward(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *ts_call(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *ts_einsum_configure(PyObject *module, PyObject *arguments);
PyObject *ts_einsum_cache_clear(PyObject *module, PyObject *unused);
PyObject *ts_einsum_cache_info(PyObject *module, PyObject *unused);

#endif
