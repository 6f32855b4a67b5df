/* PyTorch on the fast path: tensors through its exchange table, and its autograd. */
#include "fast.h"

static PyTypeObject *tensor_type, *parameter_type;
static const dl_exchange *table;
static PyObject *grad_enabled, *is_neg, *is_conj, *transforms, *modes, *recorder, *empty_like, *prototype;
static PyObject *name_requires_grad, *name_to_save, *name_tape;

/* Does the callable say something truthy? -1 on error. */
static int says_yes(PyObject *callable, PyObject *argument)
{
    PyObject *answer = argument != NULL ? PyObject_CallFunctionObjArgs(callable, argument, NULL) : PyObject_CallNoArgs(callable);
    if (answer == NULL) {
        return -1;
    }
    int yes = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return yes;
}

bool ts_torch_type(PyTypeObject *type) { return tensor_type != NULL && (type == tensor_type || type == parameter_type); }

bool ts_torch_plain(PyTypeObject *type) { return ts_torch_type(type) && says_yes(transforms, NULL) == 0 && says_yes(modes, NULL) == 0; }

/* Sparse and meta tensors have no strides or no memory: the table refuses them. */
int ts_torch_open(ts_view *view, PyObject *object, bool *recorded)
{
    memset(view, 0, offsetof(ts_view, extents));
    if (recorded != NULL && !*recorded) {
        PyObject *answer = PyObject_GetAttr(object, name_requires_grad);
        Py_XDECREF(answer);
        if (answer == Py_True) {
            *recorded = says_yes(grad_enabled, NULL) == 1;
        } else if (answer != Py_False) {
            return -1;
        }
    }
    dl_tensor tensor;
    if (says_yes(is_neg, object) != 0 || table->tensor_from_object(object, &tensor) != 0) {
        return -1;
    }
    if (tensor.dtype.code == DL_COMPLEX && says_yes(is_conj, object) != 0) {
        return -1;
    }
    return ts_view_from_dl(view, &tensor, "operand");
}

/* A compact tensor of PyTorch's own, and how the library sees it. Like one without memory that the program keeps, because
 * that is the cheapest way to ask for it. NULL with an error set. */
static PyObject *torch_empty(ts_program *program, int which, tensum_dtype dtype, int32_t rank, const int64_t *extents,
                             tensum_tensor *tensor)
{
    PyObject **like = &program->prototypes[which];
    if (*like == NULL) {
        PyObject *shape = ts_integer_tuple(extents, rank);
        PyObject *made = shape != NULL ? PyObject_CallFunction(prototype, "Nsii", shape, tensum_dtype_name(dtype),
                                                               program->device.kind == TENSUM_CUDA ? DL_CUDA : DL_CPU,
                                                               (int)program->device.index)
                                       : NULL;
        if (made == NULL) {
            return NULL;
        }
        ts_set_object(like, made);
        Py_DECREF(made);
    }
    PyObject *kept = Py_NewRef(*like), *result = PyObject_CallFunctionObjArgs(empty_like, kept, NULL);
    dl_tensor made;
    Py_DECREF(kept);
    if (result == NULL || table->tensor_from_object(result, &made) != 0) {
        Py_XDECREF(result);
        return NULL;
    }
    *tensor = (tensum_tensor){(char *)made.data + made.byte_offset, dtype, rank, extents, made.strides, program->device};
    return result;
}

static int torch_stream(tensum_device device, void **stream)
{
    *stream = NULL;
    return device.kind == TENSUM_CUDA ? table->current_stream(DL_CUDA, device.index, stream) : 0;
}

PyObject *ts_torch_run(ts_program *program, tensum_run_arguments *run, PyObject **winners, ts_tape **tape)
{
    tensum_tensor output, chosen;
    PyObject *value = NULL, *choice = NULL;
    bool both = winners != NULL && (program->modes & TENSUM_WINNERS) != 0;
    if (torch_stream(program->device, &run->stream) != 0 ||
        (value = torch_empty(program, TS_VALUE, program->dtype, program->output_rank, program->output_extents, &output)) == NULL ||
        (both && (choice = torch_empty(program, TS_WINNERS, program->winners, program->output_rank, program->output_extents,
                                       &chosen)) == NULL)) {
        Py_XDECREF(value);
        return NULL;
    }
    run->output = &output;
    run->winners = both ? &chosen : NULL;
    tensum_status status = tape != NULL && (program->modes & TENSUM_GRADIENT) != 0 ? ts_program_record(program, run, NULL, table, tape)
                                                                                   : ts_program_run(program, run, NULL, table);
    if (status != TENSUM_OK) {
        Py_DECREF(value);
        Py_XDECREF(choice);
        return ts_raise(status);
    }
    if (winners != NULL) {
        *winners = both ? choice : Py_NewRef(Py_None);
    }
    return value;
}

/* ---- gradients in PyTorch ---- */

/* The entry of plain tensors; NULL with or without an error set. *opened views are to be closed in any case. */
static ts_entry *entry_of(PyObject *expression, PyObject *name, ts_purpose aim, PyObject *const *objects, Py_ssize_t count,
                          ts_view *views, tensum_tensor *tensors, Py_ssize_t *opened)
{
    tensum_semiring semiring;
    *opened = 0;
    if (count < 1 || count > OPERANDS || tensor_type == NULL || !PyUnicode_CheckExact(expression) ||
        ts_parse_semiring(name, &semiring) < 0 || !ts_open_operands(objects, count, LIBRARY_TORCH, views, tensors, opened, NULL)) {
        return NULL;
    }
    ts_entry *slot = ts_look_up(expression, semiring, LIBRARY_TORCH, aim, views, count);
    return slot != NULL && slot->program->output_rank <= OUTPUT_RANK ? slot : NULL;
}

static PyObject *not_here(void)
{
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NOTIMPLEMENTED;
}

/* The forward function of a recorded contraction: record(ctx, (value, to save, tape or None), *operands) -> value. What it
 * is about was done before. */
PyObject *ts_record(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count < 2 || !PyTuple_Check(arguments[1]) || PyTuple_Size(arguments[1]) != 3) {
        PyErr_SetString(PyExc_TypeError, "record: expected a context, (value, what to save, tape) and operands");
        return NULL;
    }
    PyObject *tape = PyTuple_GetItem(arguments[1], 2);
    if (PyObject_SetAttr(arguments[0], name_to_save, PyTuple_GetItem(arguments[1], 1)) < 0 ||
        (tape != Py_None && PyObject_SetAttr(arguments[0], name_tape, tape) < 0)) {
        return NULL;
    }
    return Py_NewRef(PyTuple_GetItem(arguments[1], 0));
}

PyObject *ts_torch_recorder(PyObject *expression, tensum_semiring semiring)
{
    return PyObject_CallFunction(recorder, "Os", expression, tensum_semiring_name(semiring));
}

PyObject *ts_torch_run_recorded(const ts_entry *entry, tensum_run_arguments *run, PyObject *const *operands, Py_ssize_t count)
{
    ts_tape *tape = NULL;
    PyObject *winners = NULL, *value = ts_torch_run(entry->program, run, &winners, &tape), *result = NULL;
    PyObject *saved = value != NULL ? PyTuple_New(count + 2) : NULL, *arguments = saved != NULL ? PyTuple_New(count + 1) : NULL;
    PyObject *done = NULL;
    if (arguments != NULL) {
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyTuple_SetItem(saved, i, Py_NewRef(operands[i]));
            PyTuple_SetItem(arguments, i + 1, Py_NewRef(operands[i]));
        }
        PyTuple_SetItem(saved, count, Py_NewRef(winners));
        /* The value is kept where the gradients depend on it; elsewhere it may go. */
        PyTuple_SetItem(saved, count + 1, Py_NewRef(entry->semiring == TENSUM_LOG_SUM_EXP ? value : Py_None));
        done = PyTuple_Pack(3, value, saved, tape != NULL ? (PyObject *)tape : Py_None);
    }
    if (done != NULL) {
        PyTuple_SetItem(arguments, 0, done);
        result = PyObject_Call(entry->record, arguments, NULL);
    }
    Py_XDECREF(arguments);
    Py_XDECREF(saved);
    Py_XDECREF(value);
    Py_XDECREF(winners);
    Py_XDECREF((PyObject *)tape);
    return result;
}

/* Shape and dtype as expected, so that a tensor from elsewhere is left to the Python layer, which says what is wrong. */
static bool fits(const tensum_tensor *tensor, tensum_dtype dtype, const ts_program *program)
{
    size_t bytes = sizeof(int64_t) * (size_t)program->output_rank;
    return tensor->dtype == dtype && tensor->rank == program->output_rank && tensor->device.kind == program->device.kind &&
           tensor->device.index == program->device.index &&
           (bytes == 0 || memcmp(tensor->extents, program->output_extents, bytes) == 0);
}

static PyObject *gradients(ts_program *program, ts_tape *tape, tensum_run_arguments *run, const tensum_tensor *tensors,
                           Py_ssize_t count, PyObject *wanted)
{
    tensum_tensor slopes[OPERANDS];
    PyObject *made[OPERANDS] = {NULL}, *result = NULL;
    memset(slopes, 0, sizeof slopes);
    for (Py_ssize_t i = 0; i < count; ++i) {
        int want = PyObject_IsTrue(PyTuple_GetItem(wanted, i));
        if (want != 0 && (want < 0 || (made[i] = torch_empty(program, TS_GRADIENTS + (int)i, program->gradient_dtype, tensors[i].rank,
                                                             tensors[i].extents, &slopes[i])) == NULL)) {
            goto done;
        }
    }
    run->gradients = slopes;
    tensum_status status = tape != NULL ? ts_tape_run(tape, run, NULL) : ts_program_run(program, run, NULL, table);
    if (status != TENSUM_OK) {
        ts_raise(status);
        goto done;
    }
    result = PyTuple_New(count);
    for (Py_ssize_t i = 0; result != NULL && i < count; ++i) {
        PyTuple_SetItem(result, i, made[i] != NULL ? made[i] : Py_NewRef(Py_None));
        made[i] = NULL;
    }
done:
    for (Py_ssize_t i = 0; i < count; ++i) {
        Py_XDECREF(made[i]);
    }
    return result;
}

/* The program that makes gradients of these operands, a new reference: that of the tape if it can be used on their stream
 * (*tape is NULL then where it cannot), otherwise that of the expression. Views as in entry_of(). */
static ts_program *program_for(PyObject *const *arguments, PyObject *const *objects, Py_ssize_t count, ts_view *views,
                               tensum_tensor *tensors, Py_ssize_t *opened, void **stream, ts_tape **tape)
{
    ts_program *program = NULL;
    if (*tape != NULL) {
        *opened = 0;
        bool usual = tensor_type != NULL && count == (*tape)->program->operand_count && count > 0 &&
                     ts_open_operands(objects, count, LIBRARY_TORCH, views, tensors, opened, NULL) &&
                     torch_stream((*tape)->program->device, stream) == 0 && ts_tape_usable(*tape, *stream);
        if (usual) {
            return (ts_program *)Py_NewRef((PyObject *)(*tape)->program);
        }
        ts_close_operands(views, *opened);
        PyErr_Clear();
        *tape = NULL;
    }
    ts_entry *slot = entry_of(arguments[0], arguments[1], FOR_GRADIENT, objects, count, views, tensors, opened);
    if (slot != NULL && torch_stream(slot->program->device, stream) == 0) {
        program = (ts_program *)Py_NewRef((PyObject *)slot->program);
    }
    return program;
}

/* backward(expression, semiring, operands, value, winners, cotangent, wanted, tape) -> a gradient, or None, per operand.
 * value, winners, tape: what was kept; None where they are not needed. NotImplemented for tensors that are not plain, and
 * for dtypes whose gradients have another. */
PyObject *ts_backward(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    ts_view views[OPERANDS], single[3];
    tensum_tensor tensors[OPERANDS];
    Py_ssize_t opened = 0;
    if (count != 8 || !PyTuple_Check(arguments[2]) || !PyTuple_Check(arguments[6]) ||
        PyTuple_Size(arguments[2]) != PyTuple_Size(arguments[6])) {
        PyErr_SetString(PyExc_TypeError,
                        "backward: expected expression, semiring, operands, value, winners, cotangent, wanted and tape");
        return NULL;
    }
    PyObject *objects[OPERANDS], *result = NULL;
    Py_ssize_t operands = PyTuple_Size(arguments[2]);
    for (Py_ssize_t i = 0; i < operands && i < OPERANDS; ++i) {
        objects[i] = PyTuple_GetItem(arguments[2], i);
    }
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    ts_tape *tape = Py_TYPE(arguments[7]) == ts_tape_type && operands <= OPERANDS ? (ts_tape *)arguments[7] : NULL;
    ts_program *program = program_for(arguments, objects, operands, views, tensors, &opened, &run.stream, &tape);
    if (program != NULL) {
        bool usual = true, reads = program->saved || tape != NULL;
        for (int i = 0; i < 3; ++i) {
            PyObject *object = arguments[3 + i];
            memset(&single[i], 0, offsetof(ts_view, extents));
            if (object != Py_None && usual) {
                usual = Py_TYPE(object) == tensor_type && ts_torch_open(&single[i], object, NULL) == 0 &&
                        fits(&single[i].tensor,
                             i == 0 ? program->dtype : i == 1 ? program->winners : program->gradient_dtype, program);
            }
        }
        if (usual) {
            run.inputs = tensors;
            run.output = reads && arguments[3] != Py_None ? &single[0].tensor : NULL;
            run.winners = program->saved && arguments[4] != Py_None ? &single[1].tensor : NULL;
            run.cotangent = arguments[5] != Py_None ? &single[2].tensor : NULL;
            result = gradients(program, tape, &run, tensors, operands, arguments[6]);
        } else {
            PyErr_Clear();
            result = Py_NewRef(Py_NotImplemented);
        }
        for (int i = 0; i < 3; ++i) {
            ts_view_close(&single[i]);
        }
        Py_DECREF((PyObject *)program);
    }
    ts_close_operands(views, opened);
    return result != NULL || program != NULL ? result : not_here();
}

/* ---- configuration ---- */

/* ("torch", Tensor, Parameter, is_grad_enabled, is_neg, is_conj, transforms, modes, recorder, empty_like, prototype) */
int ts_torch_configure(PyObject *arguments)
{
    PyObject *name, *type, *parameter, *objects[8];
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOOOO", &name, &type, &parameter, &objects[0], &objects[1], &objects[2], &objects[3],
                          &objects[4], &objects[5], &objects[6], &objects[7])) {
        return -1;
    }
    table = ts_exchange_of((PyTypeObject *)type);
    if (table != NULL && table->tensor_from_object != NULL) {
        PyObject **slots[] = {&grad_enabled, &is_neg, &is_conj, &transforms, &modes, &recorder, &empty_like, &prototype};
        for (size_t i = 0; i < sizeof slots / sizeof slots[0]; ++i) {
            ts_set_object(slots[i], objects[i]);
        }
        ts_set_object((PyObject **)&parameter_type, parameter);
        ts_set_object((PyObject **)&tensor_type, type);
    }
    return 0;
}

int ts_torch_register(void)
{
    name_requires_grad = PyUnicode_InternFromString("requires_grad");
    name_to_save = PyUnicode_InternFromString("to_save");
    name_tape = PyUnicode_InternFromString("tape");
    return name_requires_grad == NULL || name_to_save == NULL || name_tape == NULL ? -1 : 0;
}
