/* Programs: compiled plans with a few idle workspaces, and the one place where the library is run. */
#include "core.h"

PyTypeObject *ts_program_type, *ts_tape_type;

/* ---- the context ---- */

static tensum_context *context;
static int32_t thread_count; /* 0: the library decides */

tensum_context *ts_context(void)
{
    if (context == NULL) {
        tensum_context_options options = TENSUM_CONTEXT_OPTIONS_INIT;
        options.threads = thread_count;
        tensum_status status = tensum_context_create(&options, &context);
        if (status != TENSUM_OK) {
            context = NULL;
            ts_raise(status);
        }
    }
    return context;
}

/* set_threads(n): programs made from now on use n threads. */
PyObject *ts_set_threads(PyObject *module, PyObject *arguments)
{
    (void)module;
    int threads;
    if (!PyArg_ParseTuple(arguments, "i", &threads)) {
        return NULL;
    }
    if (threads < 0) {
        PyErr_SetString(PyExc_ValueError, "threads: expected a positive number, or 0 for all");
        return NULL;
    }
    thread_count = threads;
    tensum_context_release(context);
    context = NULL;
    return ts_context() != NULL ? PyLong_FromLong(tensum_context_threads(context)) : NULL;
}

/* ---- progress and Ctrl-C ---- */

int ts_progress_call(void *user, const char *stage, double done)
{
    ts_progress *progress = user;
    PyEval_RestoreThread(progress->thread);
    if (PyErr_CheckSignals() < 0) {
        progress->raised = true;
    } else if (progress->callback != NULL) {
        PyObject *result = PyObject_CallFunction(progress->callback, "sd", stage, done);
        progress->raised = result == NULL;
        Py_XDECREF(result);
    }
    progress->thread = PyEval_SaveThread();
    return progress->raised;
}

/* ---- programs ---- */

PyObject *ts_program_new(tensum_plan *plan, tensum_semiring semiring, tensum_dtype dtype, unsigned modes,
                         tensum_device device, int check, int saved)
{
    tensum_context *shared = ts_context();
    if (shared == NULL) {
        return NULL;
    }
    tensum_program_options options = TENSUM_PROGRAM_OPTIONS_INIT;
    options.modes = modes;
    options.device = device;
    options.check = check;
    options.saved = saved;
    tensum_program *compiled;
    tensum_status status = tensum_program_create(plan, shared, &options, &compiled);
    if (status != TENSUM_OK) {
        return ts_raise(status);
    }
    ts_program *program = PyObject_New(ts_program, ts_program_type);
    if (program == NULL) {
        tensum_program_release(compiled);
        return NULL;
    }
    tensum_cost cost = TENSUM_COST_INIT;
    program->program = compiled;
    program->network = tensum_plan_network(plan);
    program->dtype = dtype;
    program->gradient_dtype = tensum_dtype_gradient(dtype);
    program->semiring = semiring;
    program->device = device;
    program->modes = modes;
    program->saved = saved != 0;
    program->winners = TENSUM_I64;
    program->operand_count = tensum_network_operand_count(program->network);
    program->idle_count = 0;
    memset(program->prototypes, 0, sizeof program->prototypes);
    (void)tensum_network_operand(program->network, -1, &program->output_rank, NULL, &program->output_extents);
    program->small = tensum_plan_cost(plan, &cost) == TENSUM_OK && cost.tc < 11.0 && cost.rw < 11.0;
    program->sliced = cost.slices != 1;
    return (PyObject *)program;
}

bool ts_plan_saves(const tensum_plan *plan, tensum_semiring semiring, tensum_dtype *winners)
{
    const tensum_network *network = tensum_plan_network(plan);
    const int64_t *labels = tensum_network_labels(network), *extents = tensum_network_label_extents(network), *kept = NULL;
    tensum_cost cost = TENSUM_COST_INIT;
    int32_t rank = 0;
    double terms = 1.0;
    *winners = TENSUM_DTYPE_COUNT;
    if (tensum_plan_cost(plan, &cost) != TENSUM_OK || cost.steps != 1 || cost.slices != 1 ||
        tensum_network_operand(network, -1, &rank, &kept, NULL) != TENSUM_OK) {
        return false;
    }
    bool sums = false;
    for (int64_t i = 0; i < tensum_network_label_count(network); ++i) {
        bool stays = extents[i] == 1;
        for (int32_t j = 0; j < rank && !stays; ++j) {
            stays = kept[j] == labels[i];
        }
        sums |= !stays;
        terms *= stays ? 1.0 : (double)extents[i];
    }
    if (sums && tensum_semiring_selective(semiring)) {
        *winners = terms < 2147483648.0 ? TENSUM_I32 : TENSUM_I64;
    }
    return true;
}

bool ts_plan_keeps(const tensum_plan *plan, tensum_semiring semiring, tensum_dtype dtype)
{
    tensum_cost cost = TENSUM_COST_INIT;
    return tensum_plan_cost(plan, &cost) == TENSUM_OK && cost.steps > 1 && cost.slices == 1 &&
           (tensum_supports(semiring, dtype) & TENSUM_GRADIENT) != 0;
}

/* program_build(plan, semiring, dtype, modes, device, check, saved=False, winners="i64") */
PyObject *ts_program_build(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *plan, *semiring_name, *dtype_name, *place, *winner_name = NULL;
    unsigned modes;
    int check, saved = 0;
    tensum_semiring semiring;
    tensum_dtype dtype, winners = TENSUM_I64;
    tensum_device device;
    if (!PyArg_ParseTuple(arguments, "O!OOIOp|pO", ts_plan_type, &plan, &semiring_name, &dtype_name, &modes, &place, &check,
                          &saved, &winner_name) || (winner_name != NULL && ts_parse_dtype(winner_name, &winners) < 0) ||
        ts_parse_semiring(semiring_name, &semiring) < 0 || ts_parse_dtype(dtype_name, &dtype) < 0 ||
        ts_parse_device(place, &device) < 0) {
        return NULL;
    }
    PyObject *program = ts_program_new(ts_plan_of(plan), semiring, dtype, modes, device, check, saved);
    if (program != NULL) {
        ((ts_program *)program)->winners = winners;
    }
    return program;
}

static void idle_free(struct ts_idle *idle)
{
    tensum_workspace_release(idle->workspace);
    if (idle->memory != NULL && idle->memory->deleter != NULL) {
        idle->memory->deleter(idle->memory);
    }
}

static void program_free(PyObject *self)
{
    ts_program *program = (ts_program *)self;
    PyTypeObject *type = Py_TYPE(self);
    for (int i = 0; i < program->idle_count; ++i) {
        idle_free(&program->idle[i]);
    }
    for (int i = 0; i < TS_RESULTS; ++i) {
        Py_XDECREF(program->prototypes[i]);
    }
    tensum_program_release(program->program);
    PyObject_Free(self);
    Py_DECREF(type);
}

static void set_error(void *unused, const char *kind, const char *message)
{
    (void)unused;
    PyGILState_STATE state = PyGILState_Ensure();
    PyErr_Format(strcmp(kind, "MemoryError") == 0 ? PyExc_MemoryError : PyExc_RuntimeError, "%s", message);
    PyGILState_Release(state);
}

dl_managed_versioned *ts_exchange_allocate(const dl_exchange *table, dl_tensor prototype)
{
    dl_managed_versioned *managed = NULL;
    if (table->allocate(&prototype, &managed, NULL, set_error) != 0 || managed == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        return NULL;
    }
    return managed;
}

/* An idle workspace of the same stream, or a new one. */
static int workspace_take(ts_program *program, void *stream, const dl_exchange *source, struct ts_idle *taken)
{
    for (int i = program->idle_count - 1; i >= 0; --i) {
        if (program->idle[i].stream == stream) {
            *taken = program->idle[i];
            program->idle[i] = program->idle[--program->idle_count];
            return 0;
        }
    }
    tensum_workspace_options options = TENSUM_WORKSPACE_OPTIONS_INIT;
    *taken = (struct ts_idle){NULL, stream, NULL};
    options.stream = stream;
    int64_t bytes = (int64_t)tensum_program_workspace_bytes(program->program);
    if (source != NULL && program->device.kind == TENSUM_CUDA && bytes > 0) {
        int64_t stride = 1;
        dl_tensor prototype = {NULL, {DL_CUDA, program->device.index}, 1, {DL_UINT, 8, 1}, &bytes, &stride, 0};
        taken->memory = ts_exchange_allocate(source, prototype);
        if (taken->memory == NULL) {
            return -1;
        }
        options.memory = (char *)taken->memory->tensor.data + taken->memory->tensor.byte_offset;
    }
    tensum_status status = tensum_workspace_create(program->program, &options, &taken->workspace);
    if (status != TENSUM_OK) {
        taken->workspace = NULL;
        idle_free(taken);
        ts_raise(status);
        return -1;
    }
    return 0;
}

static void workspace_give(ts_program *program, struct ts_idle *taken)
{
    int room = (int)(sizeof program->idle / sizeof program->idle[0]);
    if (program->idle_count == room) {
        /* Stream-ordered: memory given back is not reused before the run on its stream ends. */
        idle_free(&program->idle[0]);
        program->idle[0] = program->idle[--program->idle_count];
    }
    program->idle[program->idle_count++] = *taken;
}

static tensum_status run_in(ts_program *program, tensum_workspace *workspace, tensum_run_arguments *arguments, PyObject *callback)
{
    tensum_status status;
    if (program->small && callback == NULL && program->device.kind != TENSUM_CUDA) {
        status = tensum_run(program->program, workspace, arguments);
    } else {
        ts_progress progress = {NULL, callback, false};
        /* Between slices there is time for Ctrl-C; what a device does without them is only enqueued. */
        if (callback != NULL || program->sliced || program->device.kind != TENSUM_CUDA) {
            arguments->progress = ts_progress_call;
            arguments->progress_user = &progress;
        }
        progress.thread = PyEval_SaveThread();
        status = tensum_run(program->program, workspace, arguments);
        PyEval_RestoreThread(progress.thread);
        if (progress.raised) {
            status = TENSUM_STATUS_COUNT;
        }
    }
    return status;
}

tensum_status ts_program_run(ts_program *program, tensum_run_arguments *arguments, PyObject *callback, const dl_exchange *source)
{
    struct ts_idle taken;
    if (workspace_take(program, arguments->stream, source, &taken) < 0) {
        return TENSUM_STATUS_COUNT;
    }
    tensum_status status = run_in(program, taken.workspace, arguments, callback);
    workspace_give(program, &taken);
    return status;
}

/* ---- tapes ---- */

tensum_status ts_program_record(ts_program *program, tensum_run_arguments *arguments, PyObject *callback, const dl_exchange *source,
                                ts_tape **out)
{
    ts_tape *tape = PyObject_New(ts_tape, ts_tape_type);
    if (tape == NULL) {
        return TENSUM_STATUS_COUNT;
    }
    tape->program = (ts_program *)Py_NewRef((PyObject *)program);
    tape->busy = false;
    if (workspace_take(program, arguments->stream, source, &tape->taken) < 0) {
        tape->taken.workspace = NULL;
        Py_DECREF((PyObject *)tape);
        return TENSUM_STATUS_COUNT;
    }
    tensum_status status = run_in(program, tape->taken.workspace, arguments, callback);
    if (status != TENSUM_OK) {
        Py_CLEAR(tape);
    }
    *out = tape;
    return status;
}

bool ts_tape_usable(const ts_tape *tape, void *stream)
{
    return tape->taken.workspace != NULL && !tape->busy && tape->taken.stream == stream;
}

tensum_status ts_tape_run(ts_tape *tape, tensum_run_arguments *arguments, PyObject *callback)
{
    Py_INCREF((PyObject *)tape);
    tape->busy = true;
    arguments->kept = 1;
    tensum_status status = run_in(tape->program, tape->taken.workspace, arguments, callback);
    tape->busy = false;
    Py_DECREF((PyObject *)tape);
    return status;
}

static void tape_give(ts_tape *tape)
{
    if (tape->taken.workspace != NULL && !tape->busy) {
        struct ts_idle taken = tape->taken;
        tape->taken.workspace = NULL;
        workspace_give(tape->program, &taken);
    }
}

static PyObject *tape_release(PyObject *self, PyObject *unused)
{
    (void)unused;
    tape_give((ts_tape *)self);
    Py_RETURN_NONE;
}

/* usable(stream) -> bool */
static PyObject *tape_usable(PyObject *self, PyObject *stream)
{
    void *number = PyLong_AsVoidPtr(stream);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(ts_tape_usable((ts_tape *)self, number));
}

static PyObject *tape_program(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef((PyObject *)((ts_tape *)self)->program);
}

static void tape_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tape_give((ts_tape *)self);
    Py_DECREF((PyObject *)((ts_tape *)self)->program);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- run from Python ---- */

typedef struct view_set {
    Py_ssize_t count;
    ts_view *views;
    tensum_tensor *tensors;
} view_set;

static void set_close(view_set *set)
{
    for (Py_ssize_t i = 0; i < set->count; ++i) {
        ts_view_close(&set->views[i]);
    }
    PyMem_Free(set->views);
    PyMem_Free(set->tensors);
    memset(set, 0, sizeof *set);
}

static int set_open(view_set *set, PyObject *objects, uintptr_t stream, const char *kind, bool output)
{
    Py_ssize_t count = PySequence_Size(objects);
    if (count < 0) {
        return -1;
    }
    set->views = PyMem_Calloc((size_t)count + 1, sizeof *set->views);
    set->tensors = PyMem_Calloc((size_t)count + 1, sizeof *set->tensors);
    if (set->views == NULL || set->tensors == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject *object = PySequence_GetItem(objects, i);
        char what[48];
        PyOS_snprintf(what, sizeof what, "%s %lld", kind, (long long)i);
        set->count = i + 1;
        int result = object == NULL ? -1 : object == Py_None && output ? 0 : ts_view_open(&set->views[i], object, stream, what);
        if (result == 0 && output && set->views[i].read_only) {
            PyErr_Format(PyExc_ValueError, "%s is read-only", what);
            result = -1;
        }
        Py_XDECREF(object);
        if (result < 0) {
            return -1;
        }
        set->tensors[i] = set->views[i].tensor;
    }
    return 0;
}

/* One view, or none for None. Returns 1 if there is one, 0 if not, -1 with an error set. */
static int open_one(ts_view *view, PyObject *object, uintptr_t stream, const char *what, bool output)
{
    memset(view, 0, offsetof(ts_view, extents));
    if (object == Py_None) {
        return 0;
    }
    if (ts_view_open(view, object, stream, what) < 0) {
        return -1;
    }
    if (output && view->read_only) {
        PyErr_Format(PyExc_ValueError, "%s is read-only", what);
        return -1;
    }
    return 1;
}

/* The integers of a decode: an int64 array, compact, of exactly `count` elements. */
static int64_t *integers_of(ts_view *view, int64_t count, const char *what)
{
    int64_t elements = 1;
    bool compact = true;
    for (int32_t i = view->tensor.rank - 1; i >= 0; --i) {
        compact &= view->tensor.extents[i] <= 1 || view->tensor.strides[i] == elements;
        elements *= view->tensor.extents[i];
    }
    if (view->tensor.dtype != TENSUM_I64 || !compact || (count >= 0 && elements != count) ||
        view->tensor.device.kind == TENSUM_CUDA) {
        PyErr_Format(PyExc_ValueError, "%s: expected a compact int64 host array", what);
        return NULL;
    }
    return view->tensor.data;
}

/* run(inputs, output=None, winners=None, cotangent=None, gradients=None, positions=None, assignments=None, slice_first=0,
 *     slice_count=-1, accumulate=False, stream=0, progress=None, memory=None, tolerate=False, tape=None) -> status name, or
 * the tape that tape=True asks for; tape=a tape: gradients from it */
static PyObject *program_run(PyObject *self, PyObject *positional, PyObject *keywords)
{
    static char *names[] = {"inputs", "output", "winners", "cotangent", "gradients", "positions", "assignments", "slice_first",
                            "slice_count", "accumulate", "stream", "progress", "memory", "tolerate", "tape", NULL};
    ts_program *program = (ts_program *)self;
    PyObject *inputs, *output = Py_None, *winners = Py_None, *cotangent = Py_None, *gradients = Py_None, *positions = Py_None;
    PyObject *assignments = Py_None, *progress = Py_None, *memory = Py_None, *tape = Py_None;
    long long slice_first = 0, slice_count = -1;
    int accumulate = 0, tolerate = 0;
    unsigned long long stream_number = 0;
    if (!PyArg_ParseTupleAndKeywords(positional, keywords, "O|OOOOOOLLpKOOpO", names, &inputs, &output, &winners, &cotangent,
                                     &gradients, &positions, &assignments, &slice_first, &slice_count, &accumulate,
                                     &stream_number, &progress, &memory, &tolerate, &tape)) {
        return NULL;
    }
    uintptr_t stream = (uintptr_t)stream_number;
    view_set in = {0, NULL, NULL}, slopes = {0, NULL, NULL};
    ts_view value, winner, seed, position, assignment;
    ts_view *single[] = {&value, &winner, &seed, &position, &assignment};
    for (size_t i = 0; i < sizeof single / sizeof single[0]; ++i) {
        memset(single[i], 0, offsetof(ts_view, extents));
    }
    PyObject *result = NULL;
    tensum_run_arguments run = TENSUM_RUN_ARGUMENTS_INIT;
    int has_value, has_winner, has_seed, has_position, has_assignment;
    if (set_open(&in, inputs, stream, "operand", false) < 0) {
        goto done;
    }
    if (in.count != program->operand_count) {
        PyErr_Format(PyExc_ValueError, "expected %lld operands, got %zd", (long long)program->operand_count, in.count);
        goto done;
    }
    if ((has_value = open_one(&value, output, stream, "out", !program->saved)) < 0 ||
        (has_winner = open_one(&winner, winners, stream, "winners", !program->saved)) < 0 ||
        (has_seed = open_one(&seed, cotangent, stream, "cotangent", false)) < 0 ||
        (has_position = open_one(&position, positions, stream, "positions", false)) < 0 ||
        (has_assignment = open_one(&assignment, assignments, stream, "assignments", true)) < 0 ||
        (gradients != Py_None && set_open(&slopes, gradients, stream, "gradient", true) < 0)) {
        goto done;
    }
    if (gradients != Py_None && slopes.count != program->operand_count) {
        PyErr_Format(PyExc_ValueError, "expected %lld gradients, got %zd", (long long)program->operand_count, slopes.count);
        goto done;
    }
    run.inputs = in.tensors;
    run.output = has_value ? &value.tensor : NULL;
    run.winners = has_winner ? &winner.tensor : NULL;
    run.cotangent = has_seed ? &seed.tensor : NULL;
    run.gradients = gradients != Py_None ? slopes.tensors : NULL;
    if (has_assignment) {
        int64_t labels = tensum_network_label_count(program->network);
        run.assignments = integers_of(&assignment, -1, "assignments");
        if (run.assignments == NULL) {
            goto done;
        }
        run.position_count = assignment.tensor.rank > 0 ? assignment.tensor.extents[0] : 0;
        if (assignment.tensor.rank != 2 || assignment.tensor.extents[1] != labels) {
            PyErr_Format(PyExc_ValueError, "assignments: expected shape (positions, %lld)", (long long)labels);
            goto done;
        }
        if (has_position) {
            run.positions = integers_of(&position, run.position_count, "positions");
            if (run.positions == NULL) {
                goto done;
            }
        }
    }
    run.slice_first = slice_first;
    run.slice_count = slice_count;
    run.accumulate = accumulate;
    run.stream = (void *)stream;
    PyObject *callback = progress == Py_None ? NULL : progress;
    const dl_exchange *source = PyType_Check(memory) ? ts_exchange_of((PyTypeObject *)memory) : NULL;
    ts_tape *made = NULL, *given = Py_TYPE(tape) == ts_tape_type ? (ts_tape *)tape : NULL;
    if (given != NULL && (given->program != program || !ts_tape_usable(given, run.stream))) {
        PyErr_SetString(PyExc_RuntimeError, "the tape is another program's or stream's, in use or released");
        goto done;
    }
    tensum_status status = given != NULL      ? ts_tape_run(given, &run, callback)
                           : tape == Py_True ? ts_program_record(program, &run, callback, source, &made)
                                              : ts_program_run(program, &run, callback, source);
    if (status != TENSUM_OK &&
        !(tolerate && (status == TENSUM_STATUS_INFEASIBLE || status == TENSUM_STATUS_NOT_A_NUMBER))) {
        ts_raise(status);
        goto done;
    }
    result = made != NULL ? (PyObject *)made : PyUnicode_FromString(tensum_status_name(status));
done:
    set_close(&in);
    set_close(&slopes);
    for (size_t i = 0; i < sizeof single / sizeof single[0]; ++i) {
        ts_view_close(single[i]);
    }
    return result;
}

static PyObject *get_workspace_bytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(tensum_program_workspace_bytes(((ts_program *)self)->program));
}
static PyObject *get_output_shape(PyObject *self, void *unused)
{
    (void)unused;
    return ts_integer_tuple(((ts_program *)self)->output_extents, ((ts_program *)self)->output_rank);
}

int ts_program_register(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"run", (PyCFunction)(void (*)(void))program_run, METH_VARARGS | METH_KEYWORDS, "run on arrays"},
        {NULL, NULL, 0, NULL},
    };
    static PyGetSetDef members[] = {
        {"workspace_bytes", get_workspace_bytes, NULL, "bytes one run takes", NULL},
        {"output_shape", get_output_shape, NULL, "extents of the output", NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    PyType_Slot slots[] = {
        {Py_tp_dealloc, (void *)program_free}, {Py_tp_methods, methods}, {Py_tp_getset, members}, {0, NULL}};
    PyType_Spec spec = {"tensum._core.Program", sizeof(ts_program), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    static PyMethodDef tape_methods[] = {
        {"release", tape_release, METH_NOARGS, "give the memory back"},
        {"usable", tape_usable, METH_O, "is it there, on this stream, and not in use?"},
        {NULL, NULL, 0, NULL},
    };
    static PyGetSetDef tape_members[] = {
        {"program", tape_program, NULL, "the program that it belongs to", NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    PyType_Slot tape_slots[] = {{Py_tp_dealloc, (void *)tape_free}, {Py_tp_methods, tape_methods}, {Py_tp_getset, tape_members},
                                {0, NULL}};
    PyType_Spec tape_spec = {"tensum._core.Tape", sizeof(ts_tape), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             tape_slots};
    ts_program_type = (PyTypeObject *)PyType_FromSpec(&spec);
    ts_tape_type = (PyTypeObject *)PyType_FromSpec(&tape_spec);
    return ts_program_type == NULL || ts_tape_type == NULL ? -1 : PyModule_AddObjectRef(module, "Program", (PyObject *)ts_program_type);
}
