/* The fast path of tensum.einsum: NumPy arrays and PyTorch tensors straight to a compiled program.
 * Whatever is unusual goes to the Python layer, which knows everything and is slower. */
#include "fast.h"

enum { WAYS = 4, SETS = 128, CALL_OPERANDS = 48, KEY_WORDS = OPERANDS * (TS_VIEW_RANK + 1) };

static ts_entry cache[SETS][WAYS];
static uint64_t ticks, hits, misses;

static PyObject *fallback;
static PyTypeObject *numpy_type;
static PyObject *numpy_empty, *numpy_dtypes; /* dtypes: tuple by tensum_dtype, None where there is none */
static PyObject *defaults; /* of einsum's keywords */
static PyObject *name_semiring, *name_out;

static PyObject *numpy_arguments(const ts_program *program, tensum_dtype dtype);

static void entry_clear(ts_entry *slot)
{
    PyObject *expression = slot->expression, *arguments = slot->empty_arguments, *record = slot->record;
    PyObject *program = (PyObject *)slot->program;
    PyMem_Free(slot->words);
    memset(slot, 0, sizeof *slot);
    Py_XDECREF(expression);
    Py_XDECREF(arguments);
    Py_XDECREF(record);
    Py_XDECREF(program);
}

static uint64_t mix(uint64_t hash, uint64_t word) { return (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15) ^ (hash >> 29); }

/* ---- compiling a miss ---- */

static ts_program *compile(PyObject *expression, tensum_semiring semiring, ts_purpose aim, const ts_view *views, Py_ssize_t count)
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
        unsigned modes = aim == FOR_SAVING && !saves && ts_plan_keeps(plan, semiring, dtype) ? TENSUM_VALUE | TENSUM_GRADIENT
                         : aim == FOR_GRADIENT                                              ? TENSUM_GRADIENT
                         : aim == FOR_SAVING && winners != TENSUM_DTYPE_COUNT               ? TENSUM_VALUE | TENSUM_WINNERS
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

ts_entry *ts_look_up(PyObject *expression, tensum_semiring semiring, int library, ts_purpose aim, const ts_view *views,
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
    ts_entry *set = cache[(hash >> 32) % SETS];
    ts_entry *oldest = &set[0];
    size_t bytes = sizeof(int64_t) * (size_t)word_count;
    for (int i = 0; i < WAYS; ++i) {
        ts_entry *slot = &set[i];
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
    PyObject *arguments = NULL, *record = NULL;
    if (kept != NULL && library == LIBRARY_NUMPY) {
        arguments = numpy_arguments(program, dtype);
    }
    if (kept != NULL && aim == FOR_SAVING) {
        record = ts_torch_recorder(expression, semiring);
    }
    if (kept == NULL || (library == LIBRARY_NUMPY && arguments == NULL) || (aim == FOR_SAVING && record == NULL)) {
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
    *oldest = (ts_entry){expression, (Py_hash_t)hash, semiring, dtype, device, library, word_count, aim, kept, program,
                        arguments, record, ++ticks};
    return oldest;
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

/* Which library's fast path an array may take; 0: none. */
static int library_of(PyTypeObject *type)
{
    if (type == numpy_type) {
        return LIBRARY_NUMPY;
    }
    return ts_torch_plain(type) ? LIBRARY_TORCH : 0;
}

bool ts_open_operands(PyObject *const *objects, Py_ssize_t count, int library, ts_view *views, tensum_tensor *tensors,
                      Py_ssize_t *opened, bool *recorded)
{
    for (*opened = 0; *opened < count; ++*opened) {
        PyObject *object = objects[*opened];
        ts_view *view = &views[*opened];
        PyTypeObject *type = Py_TYPE(object);
        if (library == LIBRARY_NUMPY) {
            if (type != numpy_type || ts_view_open_buffer(view, object, false) < 0) {
                return false;
            }
        } else if (!ts_torch_type(type) || ts_torch_open(view, object, recorded) < 0) {
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

void ts_close_operands(ts_view *views, Py_ssize_t opened)
{
    for (Py_ssize_t i = 0; i < opened; ++i) {
        ts_view_close(&views[i]);
    }
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
    bool usual = ts_open_operands(arguments + 1, operand_count, library, views, tensors, &opened, &recorded);
    PyObject *result = NULL;
    ts_entry *found = NULL;
    if (usual && (found = ts_look_up(arguments[0], semiring, library, recorded ? FOR_SAVING : FOR_VALUE, views, operand_count)) != NULL) {
        if (found->program->output_rank > OUTPUT_RANK) {
            usual = false;
        } else {
            tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
            run.inputs = tensors;
            /* A collection of garbage, or another thread while the GIL is away, may replace the entry. */
            ts_entry slot = *found;
            Py_INCREF((PyObject *)slot.program);
            Py_XINCREF(slot.empty_arguments);
            Py_XINCREF(slot.record);
            result = library == LIBRARY_NUMPY ? numpy_run(slot.program, slot.empty_arguments, &run, out)
                     : recorded ? ts_torch_run_recorded(&slot, &run, arguments + 1, operand_count)
                                : ts_torch_run(slot.program, &run, NULL, NULL);
            Py_DECREF((PyObject *)slot.program);
            Py_XDECREF(slot.empty_arguments);
            Py_XDECREF(slot.record);
        }
    }
    ts_close_operands(views, opened);
    return usual ? result : call_fallback(arguments, count, names);
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
    bool usual = ts_open_operands(arguments + 1, count - 1, library, views, tensors, &opened, &recorded);
    usual = usual && !recorded && tensors[0].dtype == program->dtype && tensors[0].device.kind == program->device.kind &&
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
            } else if ((value = ts_torch_run(program, &run, &winners, NULL)) != NULL) {
                result = PyTuple_Pack(2, value, winners);
            }
            Py_XDECREF(value);
            Py_XDECREF(winners);
        } else if (library == LIBRARY_TORCH) {
            result = ts_torch_run(program, &run, NULL, NULL);
        } else {
            PyObject *empty = numpy_arguments(program, program->dtype);
            result = empty != NULL ? numpy_run(program, empty, &run, NULL) : NULL;
            Py_XDECREF(empty);
        }
    }
    ts_close_operands(views, opened);
    if (!usual) {
        PyErr_Clear();
        Py_RETURN_NOTIMPLEMENTED;
    }
    return result;
}

/* ---- configuration ---- */

void ts_set_object(PyObject **slot, PyObject *value)
{
    PyObject *old = *slot;
    Py_INCREF(value);
    *slot = value;
    Py_XDECREF(old);
}

/* einsum_configure(library, *objects): "fallback" callable; "numpy" ndarray, empty, dtypes;
 * "torch" as in torch.c */
PyObject *ts_einsum_configure(PyObject *module, PyObject *arguments)
{
    (void)module;
    const char *what = PyTuple_Size(arguments) > 0 ? PyUnicode_AsUTF8AndSize(PyTuple_GetItem(arguments, 0), NULL) : NULL;
    PyObject *name, *type, *first, *second;
    if (what != NULL && strcmp(what, "fallback") == 0 && PyArg_ParseTuple(arguments, "OO", &name, &first)) {
        ts_set_object(&fallback, first);
    } else if (what != NULL && strcmp(what, "numpy") == 0 &&
               PyArg_ParseTuple(arguments, "OOOO!", &name, &type, &first, &PyTuple_Type, &second)) {
        ts_set_object((PyObject **)&numpy_type, type);
        ts_set_object(&numpy_empty, first);
        ts_set_object(&numpy_dtypes, second);
    } else if (what != NULL && strcmp(what, "torch") == 0) {
        return ts_torch_configure(arguments) == 0 ? Py_NewRef(Py_None) : NULL;
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
    defaults = Py_BuildValue("{s:O,s:s,s:O,s:O,s:O,s:O,s:O}", "out", Py_None, "optimize", "auto", "memory_limit", Py_None, "dtype",
                             Py_None, "sizes", Py_None, "check", Py_True, "progress", Py_None);
    return defaults == NULL || name_semiring == NULL || name_out == NULL ? -1 : ts_torch_register();
}
