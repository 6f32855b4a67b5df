/* What the two files of the fast path share: the cache of compiled expressions, and PyTorch. */
#ifndef TS_PYTHON_FAST_H
#define TS_PYTHON_FAST_H

#include "core.h"

enum { OPERANDS = TS_RESULTS - TS_GRADIENTS, OUTPUT_RANK = 64 };

enum { LIBRARY_NUMPY = 1, LIBRARY_TORCH = 2 };

/* What an entry's program computes. */
typedef enum ts_purpose {
    FOR_VALUE,
    FOR_SAVING,  /* the value, and what its gradients need: winners, or a tape where the plan has more steps */
    FOR_GRADIENT /* the gradients, from what was saved if the plan has one step, by a whole run otherwise */
} ts_purpose;

/* One compiled expression. The key is expression, semiring, dtype, device, library and shapes; strides are not part of
 * it, because a program takes any. */
typedef struct ts_entry {
    PyObject *expression; /* NULL: free */
    Py_hash_t hash;
    tensum_semiring semiring;
    tensum_dtype dtype;
    tensum_device device;
    int library, word_count;
    ts_purpose aim;
    int64_t *words; /* rank, extents of each operand */
    ts_program *program;
    PyObject *empty_arguments; /* NumPy: what numpy.empty is called with */
    PyObject *record;          /* PyTorch, FOR_SAVING: what records the call for its gradients */
    uint64_t used;             /* clock of the last use: the oldest of a set is replaced */
} ts_entry;

/* The entry of these operands, compiled if need be. NULL with an error set. Borrowed: the next call may replace it. */
ts_entry *ts_look_up(PyObject *expression, tensum_semiring semiring, int library, ts_purpose aim, const ts_view *views,
                     Py_ssize_t count);
/* Open operands that are all of one library, dtype and device: true. *opened views are to be closed in any case. With
 * `recorded`, true there where PyTorch would record a gradient. */
bool ts_open_operands(PyObject *const *objects, Py_ssize_t count, int library, ts_view *views, tensum_tensor *tensors,
                      Py_ssize_t *opened, bool *recorded);
void ts_close_operands(ts_view *views, Py_ssize_t opened);

/* ---- torch.c ---- */

/* Tensors of this type, where no transform of torch.func and no mode looks at what is dispatched. */
bool ts_torch_plain(PyTypeObject *type);
bool ts_torch_type(PyTypeObject *type);
int ts_torch_open(ts_view *view, PyObject *object, bool *recorded);
/* The value; where they are not NULL also the winners (None: there are none), and a tape if the program can make one. */
PyObject *ts_torch_run(ts_program *program, tensum_run_arguments *run, PyObject **winners, ts_tape **tape);
/* The value, with a record for its gradients. */
PyObject *ts_torch_run_recorded(const ts_entry *entry, tensum_run_arguments *run, PyObject *const *operands, Py_ssize_t count);
/* What records calls of an expression. NULL with an error set. */
PyObject *ts_torch_recorder(PyObject *expression, tensum_semiring semiring);
/* 0, or -1 with an error set. */
int ts_torch_configure(PyObject *arguments);
int ts_torch_register(void);

#endif
