/* The fast path of tensum.einsum: NumPy arrays, and PyTorch tensors that need no gradient, straight to a compiled program.
 * Whatever is unusual goes to the Python layer, which knows everything and is slower. */
#include "core.h"

enum { WAYS = 4, SETS = 128, OPERANDS = 8, CALL_OPERANDS = 48, OUTPUT_RANK = 64, KEY_WORDS = OPERANDS * (TS_VIEW_RANK + 1) };

enum { LIBRARY_NUMPY = 1, LIBRARY_TORCH = 2 };

/* What an entry's program computes. */
typedef enum purpose {
    FOR_VALUE,
    FOR_SAVING,  /* the value, and the winners that its gradients need */
    FOR_GRADIENT /* the gradients, from what was saved if the plan has one step */
} purpose;

/* One compiled expression. The key is expression, semiring, dtype, device, library and shapes; strides are not part of
 * it, because a program takes any. */
typedef struct entry {
    PyObject *expression; /* NULL: free */
    Py_hash_t hash;
    tensum_semiring semiring;
    tensum_dtype dtype;
    tensum_device device;
    int library, word_count;
    purpose aim;
    int64_t *words; /* rank, extents of each operand */
    ts_program *program;
    PyObject *empty_arguments; /* NumPy: what numpy.empty is called with */
    uint64_t used;             /* clock of the last use: the oldest of a set is replaced */
} entry;

static entry cache[SETS][WAYS];
static uint64_t ticks, hits, misses;

static PyObject *fallback;
static PyTypeObject *numpy_type;
static PyObject *numpy_empty, *numpy_dtypes; /* dtypes: tuple by tensum_dtype, None where there is none */
static PyTypeObject *torch_type, *torch_parameter;
static const dl_exchange *torch_table;
static PyObject *torch_grad_enabled, *torch_is_neg, *torch_is_conj, *torch_transforms, *torch_modes, *torch_recorded;
static PyObject *defaults; /* of einsum's keywords */
static PyObject *name_semiring, *name_out, *name_requires_grad;

static PyObject *numpy_arguments(const ts_program *program, tensum_dtype dtype);

static void entry_clear(entry *slot)
{
    PyObject *expression = slot->expression, *arguments = slot->empty_arguments;
    PyObject *program = (PyObject *)slot->program;
    PyMem_Free(slot->words);
    memset(slot, 0, sizeof *slot);
    Py_XDECREF(expression);
    Py_XDECREF(arguments);
    Py_XDECREF(program);
}

static uint64_t mix(uint64_t hash, uint64_t word) { return (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15) ^ (hash >> 29); }

/* ---- compiling a miss ---- */

static ts_program *compile(PyObject *expression, tensum_semiring semiring, purpose aim, const ts_view *views, Py_ssize_t count)
{
    const char *text = PyUnicode_AsUTF8AndSize(expression, NULL);
    tensum_context *context = ts_context();
    if (text == NULL || context == NULL) {
        return NULL;
    }
    int32_t ranks[OPERANDS];
    const int64_t *extents[OPERANDS];
    for (Py_ssize_t i = 0; i < count; ++i) {
        ranks[i] = views[i].tensor.rank;
        extents[i] = views[i].tensor.extents;
    }
    tensum_network *network = NULL;
    tensum_tree *tree = NULL;
    tensum_plan *plan = NULL;
    PyObject *program = NULL;
    tensum_dtype dtype = views[0].tensor.dtype;
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    options.semiring = semiring;
    options.dtype = dtype;
    order.element_bytes = tensum_dtype_bytes(dtype);
    tensum_status status = tensum_network_parse(text, count, ranks, extents, 0, NULL, NULL, &network);
    if (status == TENSUM_OK) {
        status = tensum_order(network, &order, context, &tree);
    }
    if (status == TENSUM_OK) {
        status = tensum_plan_create(network, tree, &options, &plan);
    }
    if (status == TENSUM_OK) {
        tensum_dtype winners;
        bool saves = ts_plan_saves(plan, semiring, &winners);
        unsigned modes = aim == FOR_GRADIENT                                        ? TENSUM_GRADIENT
                         : aim == FOR_SAVING && winners != TENSUM_DTYPE_COUNT ? TENSUM_VALUE | TENSUM_WINNERS
                                                                                        : TENSUM_VALUE;
        program = ts_program_new(plan, semiring, dtype, modes, views[0].tensor.device, 1, aim == FOR_GRADIENT && saves);
        if (program != NULL) {
            ((ts_program *)program)->winners = winners;
        }
    } else {
        ts_raise(status);
    }
    tensum_network_release(network);
    tensum_tree_release(tree);
    tensum_plan_release(plan);
    return (ts_program *)program;
}

static entry *look_up(PyObject *expression, tensum_semiring semiring, int library, purpose aim, const ts_view *views,
                      Py_ssize_t count)
{
    int64_t words[KEY_WORDS];
    int word_count = 0;
    tensum_dtype dtype = views[0].tensor.dtype;
    tensum_device device = views[0].tensor.device;
    Py_hash_t text_hash = PyObject_Hash(expression);
    if (text_hash == -1) {
        return NULL;
    }
    uint64_t hash = mix((uint64_t)text_hash, (uint64_t)semiring * 256 + (uint64_t)dtype * 16 + (uint64_t)aim * 4 + (uint64_t)library);
    for (Py_ssize_t i = 0; i < count; ++i) {
        const tensum_tensor *tensor = &views[i].tensor;
        words[word_count++] = tensor->rank;
        hash = mix(hash, (uint64_t)tensor->rank);
        for (int32_t j = 0; j < tensor->rank; ++j) {
            words[word_count++] = tensor->extents[j];
            hash = mix(hash, (uint64_t)tensor->extents[j]);
        }
    }
    entry *set = cache[(hash >> 32) % SETS];
    entry *oldest = &set[0];
    size_t bytes = sizeof(int64_t) * (size_t)word_count;
    for (int i = 0; i < WAYS; ++i) {
        entry *slot = &set[i];
        if (slot->expression != NULL && slot->hash == (Py_hash_t)hash && slot->semiring == semiring && slot->dtype == dtype &&
            slot->library == library && slot->aim == aim && slot->device.kind == device.kind && slot->device.index == device.index &&
            slot->word_count == word_count && memcmp(slot->words, words, bytes) == 0 &&
            (slot->expression == expression || PyUnicode_Compare(slot->expression, expression) == 0)) {
            slot->used = ++ticks;
            ++hits;
            return slot;
        }
        if (slot->used < oldest->used) {
            oldest = slot;
        }
    }
    ++misses;
    ts_program *program = compile(expression, semiring, aim, views, count);
    if (program == NULL) {
        return NULL;
    }
    int64_t *kept = PyMem_Malloc(bytes + 1);
    PyObject *arguments = NULL;
    if (kept != NULL && library == LIBRARY_NUMPY) {
        arguments = numpy_arguments(program, dtype);
    }
    if (kept == NULL || (library == LIBRARY_NUMPY && arguments == NULL)) {
        PyMem_Free(kept);
        Py_DECREF((PyObject *)program);
        if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        return NULL;
    }
    memcpy(kept, words, bytes);
    entry_clear(oldest);
    Py_INCREF(expression);
    *oldest = (entry){expression, (Py_hash_t)hash, semiring, dtype, device, library, word_count, aim, kept, program, arguments,
                     ++ticks};
    return oldest;
}

/* ---- PyTorch ---- */

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

/* Look at a tensor; with `grad`, *recorded and failure where PyTorch would record a gradient. Sparse and and meta
 * tensors have no strides or no memory: the table refuses them. */
static int torch_open(ts_view *view, PyObject *object, bool grad, bool *recorded)
{
    memset(view, 0, offsetof(ts_view, extents));
    if (grad) {
        PyObject *answer = PyObject_GetAttr(object, name_requires_grad);
        if (answer != Py_False) {
            Py_XDECREF(answer);
            *recorded |= answer == Py_True && says_yes(torch_grad_enabled, NULL) == 1;
            if (answer != Py_True || *recorded) {
                return -1;
            }
        } else {
            Py_DECREF(answer);
        }
    }
    dl_tensor tensor;
    if (says_yes(torch_is_neg, object) != 0 || torch_table->tensor_from_object(object, &tensor) != 0) {
        return -1;
    }
    if (tensor.dtype.code == DL_COMPLEX && says_yes(torch_is_conj, object) != 0) {
        return -1;
    }
    return ts_view_from_dl(view, &tensor, "operand");
}

/* A compact tensor from PyTorch's allocator. NULL with an error set. */
static dl_managed_versioned *torch_empty(tensum_device device, tensum_dtype dtype, int32_t rank, const int64_t *extents,
                                         tensum_tensor *tensor)
{
    int64_t compact[OUTPUT_RANK], stride = 1;
    dl_tensor prototype = {NULL, {device.kind == TENSUM_CUDA ? DL_CUDA : DL_CPU, device.index}, rank, {0, 0, 0},
                           (int64_t *)extents, compact, 0};
    (void)ts_dtype_to_dl(dtype, &prototype.dtype);
    for (int32_t i = rank - 1; i >= 0; --i) {
        compact[i] = stride;
        stride *= extents[i] > 1 ? extents[i] : 1;
    }
    dl_managed_versioned *managed = ts_exchange_allocate(torch_table, prototype);
    if (managed != NULL) {
        *tensor = (tensum_tensor){(char *)managed->tensor.data + managed->tensor.byte_offset, dtype, rank, extents,
                                  managed->tensor.strides, device};
    }
    return managed;
}

static void torch_discard(dl_managed_versioned *managed)
{
    if (managed != NULL) {
        managed->deleter(managed);
    }
}

/* The tensor as an object; takes it. */
static PyObject *torch_object(dl_managed_versioned *managed)
{
    void *result = NULL;
    return torch_table->managed_to_object(managed, &result) == 0 ? result : NULL;
}

static int torch_stream(tensum_device device, void **stream)
{
    *stream = NULL;
    return device.kind == TENSUM_CUDA ? torch_table->current_stream(DL_CUDA, device.index, stream) : 0;
}

/* The value; with `winners` != NULL the winners too. */
static PyObject *torch_run(ts_program *program, tensum_run_arguments *run, PyObject **winners)
{
    tensum_tensor output, chosen;
    dl_managed_versioned *value = NULL, *choice = NULL;
    bool both = winners != NULL && (program->modes & TENSUM_WINNERS) != 0;
    if (torch_stream(program->device, &run->stream) != 0 ||
        (value = torch_empty(program->device, program->dtype, program->output_rank, program->output_extents, &output)) == NULL ||
        (both && (choice = torch_empty(program->device, program->winners, program->output_rank, program->output_extents,
                                       &chosen)) == NULL)) {
        torch_discard(value);
        return NULL;
    }
    run->output = &output;
    run->winners = both ? &chosen : NULL;
    tensum_status status = ts_program_run(program, run, NULL, torch_table);
    if (status != TENSUM_OK) {
        torch_discard(value);
        torch_discard(choice);
        return ts_raise(status);
    }
    PyObject *result = torch_object(value);
    if (winners != NULL) {
        *winners = both ? torch_object(choice) : Py_NewRef(Py_None);
        if (*winners == NULL) {
            Py_CLEAR(result);
        }
    }
    return result;
}

static PyObject *numpy_run(ts_program *program, PyObject *empty_arguments, tensum_run_arguments *run, PyObject *out)
{
    PyObject *result = out;
    if (out != NULL) {
        Py_INCREF(out);
    } else {
        result = PyObject_Call(numpy_empty, empty_arguments, NULL);
    }
    ts_view view;
    if (result == NULL || ts_view_open_buffer(&view, result, true) < 0) {
        Py_XDECREF(result);
        return NULL;
    }
    run->output = &view.tensor;
    tensum_status status = ts_program_run(program, run, NULL, NULL);
    ts_view_close(&view);
    if (status != TENSUM_OK) {
        Py_DECREF(result);
        return ts_raise(status);
    }
    return result;
}

/* What numpy.empty is called with. */
static PyObject *numpy_arguments(const ts_program *program, tensum_dtype dtype)
{
    PyObject *shape = ts_integer_tuple(program->output_extents, program->output_rank);
    return shape != NULL ? Py_BuildValue("(NO)", shape, PyTuple_GetItem(numpy_dtypes, (Py_ssize_t)dtype)) : NULL;
}

/* Value and winners as NumPy arrays. */
static PyObject *numpy_run_winners(ts_program *program, tensum_run_arguments *run)
{
    PyObject *value_arguments = numpy_arguments(program, program->dtype), *winners = NULL, *value = NULL, *result = NULL;
    PyObject *winner_arguments = numpy_arguments(program, program->winners);
    ts_view view;
    if (value_arguments != NULL && winner_arguments != NULL &&
        (winners = PyObject_Call(numpy_empty, winner_arguments, NULL)) != NULL && ts_view_open_buffer(&view, winners, true) == 0) {
        run->winners = &view.tensor;
        value = numpy_run(program, value_arguments, run, NULL);
        ts_view_close(&view);
        result = value != NULL ? PyTuple_Pack(2, value, winners) : NULL;
    }
    Py_XDECREF(value_arguments);
    Py_XDECREF(winner_arguments);
    Py_XDECREF(winners);
    Py_XDECREF(value);
    return result;
}

static PyObject *call_fallback(PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    PyErr_Clear();
    PyObject *tuple = PyTuple_New(count), *keywords = NULL, *result = NULL;
    for (Py_ssize_t i = 0; tuple != NULL && i < count; ++i) {
        Py_INCREF(arguments[i]);
        PyTuple_SetItem(tuple, i, arguments[i]);
    }
    Py_ssize_t name_count = names != NULL ? PyTuple_Size(names) : 0;
    if (name_count > 0) {
        keywords = PyDict_New();
        for (Py_ssize_t i = 0; keywords != NULL && i < name_count; ++i) {
            if (PyDict_SetItem(keywords, PyTuple_GetItem(names, i), arguments[count + i]) < 0) {
                Py_CLEAR(keywords);
            }
        }
    }
    if (tuple != NULL && (name_count == 0 || keywords != NULL)) {
        result = PyObject_Call(fallback, tuple, keywords);
    }
    Py_XDECREF(tuple);
    Py_XDECREF(keywords);
    return result;
}

/* Which library's fast path an array may take; 0: none. Transforms of torch.func, and modes that look at what is
 * dispatched, are for the Python layer. */
static int library_of(PyTypeObject *type)
{
    if (type == numpy_type) {
        return LIBRARY_NUMPY;
    }
    bool plain = torch_type != NULL && (type == torch_type || type == torch_parameter) &&
                 says_yes(torch_transforms, NULL) == 0 && says_yes(torch_modes, NULL) == 0;
    return plain ? LIBRARY_TORCH : 0;
}

/* Open operands that are all of one library, dtype and device and need no gradient: true. *opened views are to be closed
 * in any case. *recorded: PyTorch would record a gradient. */
static bool open_operands(PyObject *const *objects, Py_ssize_t count, int library, bool grad, ts_view *views,
                          tensum_tensor *tensors, Py_ssize_t *opened, bool *recorded)
{
    for (*opened = 0; *opened < count; ++*opened) {
        PyObject *object = objects[*opened];
        ts_view *view = &views[*opened];
        PyTypeObject *type = Py_TYPE(object);
        if (library == LIBRARY_NUMPY) {
            if (type != numpy_type || ts_view_open_buffer(view, object, false) < 0) {
                return false;
            }
        } else if ((type != torch_type && type != torch_parameter) || torch_open(view, object, grad, recorded) < 0) {
            return false;
        }
        const tensum_tensor *first = &views[0].tensor, *tensor = &view->tensor;
        if (tensor->rank > TS_VIEW_RANK || tensor->dtype != first->dtype || tensor->device.kind != first->device.kind ||
            tensor->device.index != first->device.index) {
            ++*opened;
            return false;
        }
        tensors[*opened] = *tensor;
    }
    return true;
}

static void close_operands(ts_view *views, Py_ssize_t opened)
{
    for (Py_ssize_t i = 0; i < opened; ++i) {
        ts_view_close(&views[i]);
    }
}

/* torch_recorded(expression, semiring, *tensors): the entry for tensors that need a gradient. */
static PyObject *call_recorded(PyObject *const *arguments, Py_ssize_t count, tensum_semiring semiring)
{
    PyErr_Clear();
    PyObject *tuple = PyTuple_New(count + 1), *result = NULL;
    PyObject *name = PyUnicode_FromString(tensum_semiring_name(semiring));
    if (tuple != NULL && name != NULL) {
        for (Py_ssize_t i = 0; i < count; ++i) {
            Py_INCREF(arguments[i]);
            PyTuple_SetItem(tuple, i == 0 ? 0 : i + 1, arguments[i]);
        }
        PyTuple_SetItem(tuple, 1, name);
        name = NULL;
        result = PyObject_Call(torch_recorded, tuple, NULL);
    }
    Py_XDECREF(name);
    Py_XDECREF(tuple);
    return result;
}

/* Is a keyword given what it has without being given? */
static bool is_default(PyObject *name, PyObject *value)
{
    PyObject *usual = PyDict_GetItemWithError(defaults, name);
    if (usual == value) {
        return true;
    }
    return usual != NULL && PyUnicode_CheckExact(usual) && PyUnicode_CheckExact(value) && PyUnicode_Compare(usual, value) == 0;
}

PyObject *ts_einsum(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    (void)module;
    Py_ssize_t operand_count = count - 1;
    if (operand_count < 1 || operand_count > OPERANDS || !PyUnicode_CheckExact(arguments[0])) {
        return call_fallback(arguments, count, names);
    }
    int library = library_of(Py_TYPE(arguments[1]));
    if (library == 0) {
        return call_fallback(arguments, count, names);
    }
    tensum_semiring semiring = TENSUM_SUM_PRODUCT;
    PyObject *out = NULL;
    Py_ssize_t name_count = names != NULL ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < name_count; ++i) {
        PyObject *name = PyTuple_GetItem(names, i), *value = arguments[count + i];
        if (name == name_semiring || PyUnicode_Compare(name, name_semiring) == 0) {
            if (ts_parse_semiring(value, &semiring) < 0) {
                return NULL;
            }
        } else if (library == LIBRARY_NUMPY && (name == name_out || PyUnicode_Compare(name, name_out) == 0) &&
                   Py_TYPE(value) == numpy_type) {
            out = value;
        } else if (!is_default(name, value)) {
            return call_fallback(arguments, count, names);
        }
    }
    ts_view views[OPERANDS];
    tensum_tensor tensors[OPERANDS];
    Py_ssize_t opened = 0;
    bool recorded = false;
    bool usual = open_operands(arguments + 1, operand_count, library, true, views, tensors, &opened, &recorded);
    PyObject *result = NULL;
    entry *slot = NULL;
    if (usual && (slot = look_up(arguments[0], semiring, library, FOR_VALUE, views, operand_count)) != NULL) {
        if (slot->program->output_rank > OUTPUT_RANK) {
            usual = false;
        } else {
            tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
            run.inputs = tensors;
            /* A collection of garbage, or another thread while the GIL is away, may replace the entry. */
            ts_program *program = slot->program;
            PyObject *empty = slot->empty_arguments;
            Py_INCREF((PyObject *)program);
            Py_XINCREF(empty);
            result = library == LIBRARY_NUMPY ? numpy_run(program, empty, &run, out) : torch_run(program, &run, NULL);
            Py_DECREF((PyObject *)program);
            Py_XDECREF(empty);
        }
    }
    close_operands(views, opened);
    if (usual) {
        return result;
    }
    return recorded && torch_recorded != NULL ? call_recorded(arguments, count, semiring) : call_fallback(arguments, count, names);
}

/* call(program, *arrays): run a program for values, or for values and winners (a pair), on plain arrays of exactly its
 * shapes; NotImplemented for anything else. */
PyObject *ts_call(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count < 2 || count - 1 > CALL_OPERANDS || Py_TYPE(arguments[0]) != ts_program_type) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    ts_program *program = (ts_program *)arguments[0];
    int library = library_of(Py_TYPE(arguments[1]));
    if (library == 0 || count - 1 != program->operand_count || program->output_rank > OUTPUT_RANK) {
        PyErr_Clear();
        Py_RETURN_NOTIMPLEMENTED;
    }
    ts_view views[CALL_OPERANDS];
    tensum_tensor tensors[CALL_OPERANDS];
    Py_ssize_t opened = 0;
    bool recorded = false;
    bool usual = open_operands(arguments + 1, count - 1, library, true, views, tensors, &opened, &recorded);
    usual = usual && tensors[0].dtype == program->dtype && tensors[0].device.kind == program->device.kind &&
            tensors[0].device.index == program->device.index;
    for (Py_ssize_t i = 0; usual && i < opened; ++i) {
        int32_t rank;
        const int64_t *extents;
        usual = tensum_network_operand(program->network, i, &rank, NULL, &extents) == TENSUM_OK && rank == tensors[i].rank &&
                (rank == 0 || memcmp(extents, tensors[i].extents, sizeof(int64_t) * (size_t)rank) == 0);
    }
    PyObject *result = NULL;
    if (usual) {
        tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
        run.inputs = tensors;
        if ((program->modes & TENSUM_WINNERS) != 0) {
            PyObject *winners = NULL, *value = NULL;
            if (library == LIBRARY_NUMPY) {
                result = numpy_run_winners(program, &run);
            } else if ((value = torch_run(program, &run, &winners)) != NULL) {
                result = PyTuple_Pack(2, value, winners);
            }
            Py_XDECREF(value);
            Py_XDECREF(winners);
        } else if (library == LIBRARY_TORCH) {
            result = torch_run(program, &run, NULL);
        } else {
            PyObject *empty = numpy_arguments(program, program->dtype);
            result = empty != NULL ? numpy_run(program, empty, &run, NULL) : NULL;
            Py_XDECREF(empty);
        }
    }
    close_operands(views, opened);
    if (!usual) {
        PyErr_Clear();
        Py_RETURN_NOTIMPLEMENTED;
    }
    return result;
}

/* ---- gradients in PyTorch ---- */

/* The entry of plain tensors; NULL with or without an error set. *opened views are to be closed in any case. */
static entry *torch_entry(PyObject *expression, PyObject *name, purpose aim, PyObject *const *objects, Py_ssize_t count,
                          ts_view *views, tensum_tensor *tensors, Py_ssize_t *opened)
{
    tensum_semiring semiring;
    bool recorded = false;
    *opened = 0;
    if (count < 1 || count > OPERANDS || torch_type == NULL || !PyUnicode_CheckExact(expression) ||
        ts_parse_semiring(name, &semiring) < 0 ||
        !open_operands(objects, count, LIBRARY_TORCH, false, views, tensors, opened, &recorded)) {
        return NULL;
    }
    entry *slot = look_up(expression, semiring, LIBRARY_TORCH, aim, views, count);
    return slot != NULL && slot->program->output_rank <= OUTPUT_RANK ? slot : NULL;
}

static PyObject *not_here(void)
{
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NOTIMPLEMENTED;
}

/* forward(expression, semiring, *tensors) -> (value, winners or None): what backward() needs besides the operands. Called
 * where gradients are not recorded. NotImplemented for tensors that are not plain. */
PyObject *ts_forward(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    ts_view views[OPERANDS];
    tensum_tensor tensors[OPERANDS];
    Py_ssize_t opened = 0;
    if (count < 3) {
        PyErr_SetString(PyExc_TypeError, "forward: expected an expression, a semiring and tensors");
        return NULL;
    }
    entry *slot = torch_entry(arguments[0], arguments[1], FOR_SAVING, arguments + 2, count - 2, views, tensors, &opened);
    PyObject *result = NULL;
    if (slot != NULL) {
        tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
        ts_program *program = slot->program;
        run.inputs = tensors;
        Py_INCREF((PyObject *)program);
        PyObject *winners = NULL, *value = torch_run(program, &run, &winners);
        Py_DECREF((PyObject *)program);
        result = value != NULL ? PyTuple_Pack(2, value, winners) : NULL;
        Py_XDECREF(value);
        Py_XDECREF(winners);
    }
    close_operands(views, opened);
    return result != NULL || slot != NULL ? result : not_here();
}

/* Shape and dtype as expected, so that a tensor from elsewhere is left to the Python layer, which says what is wrong. */
static bool fits(const tensum_tensor *tensor, tensum_dtype dtype, const ts_program *program)
{
    size_t bytes = sizeof(int64_t) * (size_t)program->output_rank;
    return tensor->dtype == dtype && tensor->rank == program->output_rank && tensor->device.kind == program->device.kind &&
           tensor->device.index == program->device.index &&
           (bytes == 0 || memcmp(tensor->extents, program->output_extents, bytes) == 0);
}

static PyObject *gradients(ts_program *program, tensum_run_arguments *run, const tensum_tensor *tensors, Py_ssize_t count,
                           PyObject *wanted)
{
    tensum_tensor slopes[OPERANDS];
    dl_managed_versioned *managed[OPERANDS] = {NULL};
    PyObject *result = NULL;
    if (torch_stream(program->device, &run->stream) != 0) {
        return NULL;
    }
    memset(slopes, 0, sizeof slopes);
    for (Py_ssize_t i = 0; i < count; ++i) {
        int want = PyObject_IsTrue(PyTuple_GetItem(wanted, i));
        if (want != 0 && (want < 0 || (managed[i] = torch_empty(program->device, program->gradient_dtype, tensors[i].rank,
                                                                tensors[i].extents, &slopes[i])) == NULL)) {
            goto done;
        }
    }
    run->gradients = slopes;
    tensum_status status = ts_program_run(program, run, NULL, torch_table);
    if (status != TENSUM_OK) {
        ts_raise(status);
        goto done;
    }
    result = PyTuple_New(count);
    for (Py_ssize_t i = 0; result != NULL && i < count; ++i) {
        PyObject *slope = managed[i] != NULL ? torch_object(managed[i]) : Py_NewRef(Py_None);
        managed[i] = NULL;
        if (slope == NULL || PyTuple_SetItem(result, i, slope) < 0) {
            Py_CLEAR(result);
        }
    }
done:
    for (Py_ssize_t i = 0; i < count; ++i) {
        torch_discard(managed[i]);
    }
    return result;
}

/* backward(expression, semiring, operands, value, winners, cotangent, wanted) -> a gradient, or None, per operand.
 * value and winners: what forward() gave; None where they are not needed. NotImplemented for tensors that are not plain,
 * and for dtypes whose gradients have another. */
PyObject *ts_backward(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    ts_view views[OPERANDS], single[3];
    tensum_tensor tensors[OPERANDS];
    Py_ssize_t opened = 0;
    if (count != 7 || !PyTuple_Check(arguments[2]) || !PyTuple_Check(arguments[6]) ||
        PyTuple_Size(arguments[2]) != PyTuple_Size(arguments[6])) {
        PyErr_SetString(PyExc_TypeError,
                        "backward: expected expression, semiring, operands, value, winners, cotangent and wanted");
        return NULL;
    }
    PyObject *objects[OPERANDS], *result = NULL;
    Py_ssize_t operands = PyTuple_Size(arguments[2]);
    for (Py_ssize_t i = 0; i < operands && i < OPERANDS; ++i) {
        objects[i] = PyTuple_GetItem(arguments[2], i);
    }
    entry *slot = torch_entry(arguments[0], arguments[1], FOR_GRADIENT, objects, operands, views, tensors, &opened);
    if (slot != NULL) {
        tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
        ts_program *program = slot->program;
        bool recorded = false, usual = true;
        for (int i = 0; i < 3; ++i) {
            PyObject *object = arguments[3 + i];
            memset(&single[i], 0, offsetof(ts_view, extents));
            if (object != Py_None && usual) {
                usual = Py_TYPE(object) == torch_type && torch_open(&single[i], object, false, &recorded) == 0 &&
                        fits(&single[i].tensor,
                             i == 0 ? program->dtype : i == 1 ? program->winners : program->gradient_dtype, program);
            }
        }
        if (usual) {
            run.inputs = tensors;
            run.output = program->saved && arguments[3] != Py_None ? &single[0].tensor : NULL;
            run.winners = program->saved && arguments[4] != Py_None ? &single[1].tensor : NULL;
            run.cotangent = arguments[5] != Py_None ? &single[2].tensor : NULL;
            Py_INCREF((PyObject *)program);
            result = gradients(program, &run, tensors, operands, arguments[6]);
            Py_DECREF((PyObject *)program);
        } else {
            PyErr_Clear();
            result = Py_NewRef(Py_NotImplemented);
        }
        for (int i = 0; i < 3; ++i) {
            ts_view_close(&single[i]);
        }
    }
    close_operands(views, opened);
    return result != NULL || slot != NULL ? result : not_here();
}

/* ---- configuration ---- */

static void set_object(PyObject **slot, PyObject *value)
{
    PyObject *old = *slot;
    Py_INCREF(value);
    *slot = value;
    Py_XDECREF(old);
}

/* einsum_configure(library, *objects): "fallback" callable; "numpy" ndarray, empty, dtypes;
 * "torch" Tensor, Parameter, is_grad_enabled, is_neg, is_conj, transforms, modes, entry for gradients */
PyObject *ts_einsum_configure(PyObject *module, PyObject *arguments)
{
    (void)module;
    const char *what = PyTuple_Size(arguments) > 0 ? PyUnicode_AsUTF8AndSize(PyTuple_GetItem(arguments, 0), NULL) : NULL;
    PyObject *name, *type, *parameter, *first, *second, *third, *fourth, *fifth, *sixth;
    if (what != NULL && strcmp(what, "fallback") == 0 && PyArg_ParseTuple(arguments, "OO", &name, &first)) {
        set_object(&fallback, first);
    } else if (what != NULL && strcmp(what, "numpy") == 0 &&
               PyArg_ParseTuple(arguments, "OOOO!", &name, &type, &first, &PyTuple_Type, &second)) {
        set_object((PyObject **)&numpy_type, type);
        set_object(&numpy_empty, first);
        set_object(&numpy_dtypes, second);
    } else if (what != NULL && strcmp(what, "torch") == 0 &&
               PyArg_ParseTuple(arguments, "OOOOOOOOO", &name, &type, &parameter, &first, &second, &third, &fourth, &fifth, &sixth)) {
        torch_table = ts_exchange_of((PyTypeObject *)type);
        if (torch_table != NULL && torch_table->tensor_from_object != NULL) {
            set_object((PyObject **)&torch_parameter, parameter);
            set_object(&torch_grad_enabled, first);
            set_object(&torch_is_neg, second);
            set_object(&torch_is_conj, third);
            set_object(&torch_transforms, fourth);
            set_object(&torch_modes, fifth);
            set_object(&torch_recorded, sixth);
            set_object((PyObject **)&torch_type, type);
        }
    } else {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "unknown configuration");
        }
        return NULL;
    }
    Py_RETURN_NONE;
}

PyObject *ts_einsum_cache_clear(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    for (int i = 0; i < SETS; ++i) {
        for (int j = 0; j < WAYS; ++j) {
            entry_clear(&cache[i][j]);
        }
    }
    hits = misses = 0;
    Py_RETURN_NONE;
}

PyObject *ts_einsum_cache_info(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    int size = 0;
    for (int i = 0; i < SETS; ++i) {
        for (int j = 0; j < WAYS; ++j) {
            size += cache[i][j].expression != NULL;
        }
    }
    return Py_BuildValue("{s:K,s:K,s:i,s:i}", "hits", (unsigned long long)hits, "misses", (unsigned long long)misses, "size",
                         size, "capacity", (int)(SETS * WAYS));
}

int ts_einsum_register(PyObject *module)
{
    (void)module;
    name_semiring = PyUnicode_InternFromString("semiring");
    name_out = PyUnicode_InternFromString("out");
    name_requires_grad = PyUnicode_InternFromString("requires_grad");
    defaults = Py_BuildValue("{s:O,s:s,s:O,s:O,s:O,s:O,s:O}", "out", Py_None, "optimize", "auto", "memory_limit", Py_None, "dtype",
                             Py_None, "sizes", Py_None, "check", Py_True, "progress", Py_None);
    return defaults == NULL || name_semiring == NULL || name_out == NULL || name_requires_grad == NULL ? -1 : 0;
}
