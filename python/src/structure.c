/* Networks, trees and plans as thin immutable Python objects. */
#include "core.h"

PyTypeObject *ts_network_type, *ts_tree_type, *ts_plan_type;

typedef struct network_object {
    PyObject_HEAD
    tensum_network *network;
} network_object;

typedef struct tree_object {
    PyObject_HEAD
    tensum_tree *tree;
} tree_object;

typedef struct plan_object {
    PyObject_HEAD
    tensum_plan *plan;
} plan_object;

/* ---- sequences of sequences of integers ---- */

typedef struct lists {
    Py_ssize_t count;
    int64_t **lists;
    int32_t *ranks;
} lists;

static void lists_free(lists *all)
{
    for (Py_ssize_t i = 0; all->lists != NULL && i < all->count; ++i) {
        PyMem_Free(all->lists[i]);
    }
    PyMem_Free(all->lists);
    PyMem_Free(all->ranks);
    memset(all, 0, sizeof *all);
}

static int lists_parse(PyObject *sequence, const char *what, lists *all)
{
    memset(all, 0, sizeof *all);
    Py_ssize_t count = PySequence_Size(sequence);
    if (count < 0) {
        return -1;
    }
    all->lists = PyMem_Calloc((size_t)count + 1, sizeof *all->lists);
    all->ranks = PyMem_Calloc((size_t)count + 1, sizeof *all->ranks);
    if (all->lists == NULL || all->ranks == NULL) {
        lists_free(all);
        PyErr_NoMemory();
        return -1;
    }
    all->count = count;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject *item = PySequence_GetItem(sequence, i);
        Py_ssize_t rank = 0;
        all->lists[i] = item != NULL ? ts_parse_integers(item, what, &rank) : NULL;
        Py_XDECREF(item);
        if (all->lists[i] == NULL) {
            lists_free(all);
            return -1;
        }
        all->ranks[i] = (int32_t)rank;
    }
    return 0;
}

/* ---- network ---- */

static PyObject *network_wrap(tensum_network *network)
{
    network_object *object = PyObject_New(network_object, ts_network_type);
    if (object == NULL) {
        tensum_network_release(network);
        return NULL;
    }
    object->network = network;
    return (PyObject *)object;
}

static void network_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tensum_network_release(((network_object *)self)->network);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* network_parse(expression, shapes, size_labels, size_extents) */
PyObject *ts_network_parse(PyObject *module, PyObject *arguments)
{
    (void)module;
    const char *expression;
    PyObject *shapes, *names, *sizes;
    if (!PyArg_ParseTuple(arguments, "sOOO", &expression, &shapes, &names, &sizes)) {
        return NULL;
    }
    lists extents;
    Py_ssize_t count = 0, size_count = 0;
    if (lists_parse(shapes, "shape", &extents) < 0) {
        return NULL;
    }
    int64_t *labels = ts_parse_integers(names, "sizes", &count);
    int64_t *values = labels != NULL ? ts_parse_integers(sizes, "sizes", &size_count) : NULL;
    PyObject *result = NULL;
    if (values != NULL && count == size_count) {
        tensum_network *network;
        tensum_status status = tensum_network_parse(expression, extents.count, extents.ranks,
                                                    (const int64_t *const *)extents.lists, count, labels, values, &network);
        result = status == TENSUM_OK ? network_wrap(network) : ts_raise(status);
    }
    PyMem_Free(labels);
    PyMem_Free(values);
    lists_free(&extents);
    return result;
}

/* network_build(operand_labels, shapes, output_labels, size_labels, size_extents) */
PyObject *ts_network_build(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *operands, *shapes, *output, *names, *sizes;
    if (!PyArg_ParseTuple(arguments, "OOOOO", &operands, &shapes, &output, &names, &sizes)) {
        return NULL;
    }
    lists labels, extents;
    if (lists_parse(operands, "labels", &labels) < 0) {
        return NULL;
    }
    if (lists_parse(shapes, "shape", &extents) < 0) {
        lists_free(&labels);
        return NULL;
    }
    PyObject *result = NULL;
    Py_ssize_t output_rank = 0, count = 0, size_count = 0;
    int64_t *output_labels = ts_parse_integers(output, "output labels", &output_rank);
    int64_t *size_labels = output_labels != NULL ? ts_parse_integers(names, "sizes", &count) : NULL;
    int64_t *size_extents = size_labels != NULL ? ts_parse_integers(sizes, "sizes", &size_count) : NULL;
    if (size_extents == NULL || count != size_count) {
        goto done;
    }
    if (labels.count != extents.count) {
        PyErr_Format(PyExc_ValueError, "%zd label lists for %zd operands", labels.count, extents.count);
        goto done;
    }
    for (Py_ssize_t i = 0; i < labels.count; ++i) {
        if (labels.ranks[i] != extents.ranks[i]) {
            PyErr_Format(PyExc_ValueError, "operand %zd: %d labels for %d axes", i, (int)labels.ranks[i], (int)extents.ranks[i]);
            goto done;
        }
    }
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    spec.operand_count = labels.count;
    spec.ranks = labels.ranks;
    spec.labels = (const int64_t *const *)labels.lists;
    spec.extents = (const int64_t *const *)extents.lists;
    spec.output_rank = (int32_t)output_rank;
    spec.output_labels = output_labels;
    spec.size_count = count;
    spec.size_labels = size_labels;
    spec.size_extents = size_extents;
    tensum_network *network;
    tensum_status status = tensum_network_create(&spec, &network);
    result = status == TENSUM_OK ? network_wrap(network) : ts_raise(status);
done:
    PyMem_Free(output_labels);
    PyMem_Free(size_labels);
    PyMem_Free(size_extents);
    lists_free(&labels);
    lists_free(&extents);
    return result;
}

static PyObject *network_operand(PyObject *self, PyObject *arguments)
{
    long long index;
    int32_t rank;
    const int64_t *labels, *extents;
    if (!PyArg_ParseTuple(arguments, "L", &index)) {
        return NULL;
    }
    tensum_status status = tensum_network_operand(((network_object *)self)->network, index, &rank, &labels, &extents);
    if (status != TENSUM_OK) {
        return ts_raise(status);
    }
    return Py_BuildValue("(NN)", ts_integer_tuple(labels, rank), ts_integer_tuple(extents, rank));
}

static PyObject *network_labels(PyObject *self, void *unused)
{
    (void)unused;
    const tensum_network *network = ((network_object *)self)->network;
    return ts_integer_tuple(tensum_network_labels(network), tensum_network_label_count(network));
}
static PyObject *network_extents(PyObject *self, void *unused)
{
    (void)unused;
    const tensum_network *network = ((network_object *)self)->network;
    return ts_integer_tuple(tensum_network_label_extents(network), tensum_network_label_count(network));
}
static PyObject *network_count(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(tensum_network_operand_count(((network_object *)self)->network));
}

/* ---- tree ---- */

static PyObject *tree_wrap(tensum_tree *tree)
{
    tree_object *object = PyObject_New(tree_object, ts_tree_type);
    if (object == NULL) {
        tensum_tree_release(tree);
        return NULL;
    }
    object->tree = tree;
    return (PyObject *)object;
}

static void tree_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tensum_tree_release(((tree_object *)self)->tree);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* The tree of a plan that keeps a limit on the bytes of a run. */
static tensum_status search_within(tensum_network *network, const tensum_order_options *order,
                                   const tensum_plan_options *options, tensum_context *context, tensum_tree **tree)
{
    tensum_plan *plan = NULL;
    tensum_status status = tensum_plan_search(network, order, options, context, &plan);
    *tree = status == TENSUM_OK ? tensum_tree_retain(tensum_plan_tree(plan)) : NULL;
    tensum_plan_release(plan);
    return status;
}

/* tree_search(network, *, method, seed, work, time_limit, minimize, memory_limit (bytes of a run), semiring, dtype,
 * modulus, progress) */
PyObject *ts_tree_search(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    (void)module;
    static char *names[] = {"network", "method", "seed", "work", "time_limit", "minimize", "memory_limit", "semiring", "dtype",
                            "modulus", "progress", NULL};
    PyObject *network, *semiring = NULL, *dtype = NULL, *callback = Py_None;
    unsigned long long seed = 0, memory_limit = 0;
    long long modulus = 0;
    tensum_order_options options = TENSUM_ORDER_OPTIONS_INIT;
    tensum_plan_options plan_options = TENSUM_PLAN_OPTIONS_INIT;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!|zKddzKOOLO", names, ts_network_type, &network, &options.method,
                                     &seed, &options.work, &options.time_limit, &options.minimize, &memory_limit, &semiring,
                                     &dtype, &modulus, &callback) ||
        (semiring != NULL && ts_parse_semiring(semiring, &plan_options.semiring) < 0) ||
        (dtype != NULL && ts_parse_dtype(dtype, &plan_options.dtype) < 0)) {
        return NULL;
    }
    tensum_context *context = ts_context();
    if (context == NULL) {
        return NULL;
    }
    options.seed = seed;
    options.element_bytes = tensum_dtype_bytes(plan_options.dtype);
    plan_options.modulus = modulus;
    plan_options.memory_limit = memory_limit;
    ts_progress progress = {NULL, callback == Py_None ? NULL : callback, false};
    options.progress = ts_progress_call;
    options.progress_user = &progress;
    tensum_tree *tree = NULL;
    progress.thread = PyEval_SaveThread();
    tensum_network *ours = ((network_object *)network)->network;
    tensum_status status = memory_limit != 0 ? search_within(ours, &options, &plan_options, context, &tree)
                                             : tensum_order(ours, &options, context, &tree);
    PyEval_RestoreThread(progress.thread);
    if (progress.raised) {
        tensum_tree_release(tree);
        return NULL;
    }
    return status == TENSUM_OK ? tree_wrap(tree) : ts_raise(status);
}

/* tree_from_steps(leaf_count, steps, linear): steps as sequences of ids (SSA) or of positions (linear). */
PyObject *ts_tree_from_steps(PyObject *module, PyObject *arguments)
{
    (void)module;
    long long leaves;
    PyObject *steps;
    int linear;
    if (!PyArg_ParseTuple(arguments, "LOp", &leaves, &steps, &linear)) {
        return NULL;
    }
    lists all;
    if (lists_parse(steps, "path", &all) < 0) {
        return NULL;
    }
    int64_t total = 0;
    for (Py_ssize_t i = 0; i < all.count; ++i) {
        total += all.ranks[i];
    }
    int64_t *offsets = PyMem_Malloc(sizeof(int64_t) * ((size_t)all.count + 1));
    int64_t *children = PyMem_Malloc(sizeof(int64_t) * ((size_t)total + 1));
    PyObject *result = NULL;
    if (offsets == NULL || children == NULL) {
        PyErr_NoMemory();
    } else {
        offsets[0] = 0;
        for (Py_ssize_t i = 0; i < all.count; ++i) {
            memcpy(children + offsets[i], all.lists[i], sizeof(int64_t) * (size_t)all.ranks[i]);
            offsets[i + 1] = offsets[i] + all.ranks[i];
        }
        tensum_tree *tree;
        tensum_status status = linear ? tensum_tree_from_path(leaves, all.count, offsets, children, &tree)
                                      : tensum_tree_from_ssa(leaves, all.count, offsets, children, &tree);
        result = status == TENSUM_OK ? tree_wrap(tree) : ts_raise(status);
    }
    PyMem_Free(offsets);
    PyMem_Free(children);
    lists_free(&all);
    return result;
}

static PyObject *steps_tuple(const int64_t *offsets, const int64_t *values, int64_t count)
{
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list != NULL && i < count; ++i) {
        PyObject *step = ts_integer_tuple(values + offsets[i], (Py_ssize_t)(offsets[i + 1] - offsets[i]));
        if (step == NULL || PyList_Append(list, step) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(step);
    }
    return list;
}

static PyObject *tree_ssa(PyObject *self, PyObject *unused)
{
    (void)unused;
    const tensum_tree *tree = ((tree_object *)self)->tree;
    const int64_t *offsets, *children;
    tensum_tree_steps(tree, &offsets, &children);
    return steps_tuple(offsets, children, tensum_tree_step_count(tree));
}

static PyObject *tree_path(PyObject *self, PyObject *unused)
{
    (void)unused;
    const tensum_tree *tree = ((tree_object *)self)->tree;
    const int64_t *offsets, *children;
    tensum_tree_steps(tree, &offsets, &children);
    int64_t count = tensum_tree_step_count(tree);
    int64_t *positions = PyMem_Malloc(sizeof(int64_t) * ((size_t)(count > 0 ? offsets[count] : 0) + 1));
    if (positions == NULL) {
        return PyErr_NoMemory();
    }
    tensum_tree_path(tree, positions);
    PyObject *result = steps_tuple(offsets, positions, count);
    PyMem_Free(positions);
    return result;
}

static PyObject *tree_slices(PyObject *self, void *unused)
{
    (void)unused;
    const int64_t *labels;
    int64_t count = tensum_tree_slices(((tree_object *)self)->tree, &labels);
    return ts_integer_tuple(labels, (Py_ssize_t)count);
}

static PyObject *tree_leaves(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(tensum_tree_leaf_count(((tree_object *)self)->tree));
}

static PyObject *tree_with_slices(PyObject *self, PyObject *labels)
{
    Py_ssize_t count = 0;
    int64_t *values = ts_parse_integers(labels, "slices", &count);
    if (values == NULL) {
        return NULL;
    }
    tensum_tree *tree;
    tensum_status status = tensum_tree_with_slices(((tree_object *)self)->tree, count, values, &tree);
    PyMem_Free(values);
    return status == TENSUM_OK ? tree_wrap(tree) : ts_raise(status);
}

/* ---- plan ---- */

static void plan_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tensum_plan_release(((plan_object *)self)->plan);
    PyObject_Free(self);
    Py_DECREF(type);
}

tensum_plan *ts_plan_of(PyObject *plan) { return ((plan_object *)plan)->plan; }

/* plan_build(network, tree, semiring, dtype, modulus, memory_limit, memory_modes) */
PyObject *ts_plan_build(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *network, *tree, *semiring, *dtype;
    long long modulus;
    unsigned long long memory_limit;
    tensum_plan_options options = TENSUM_PLAN_OPTIONS_INIT;
    if (!PyArg_ParseTuple(arguments, "O!O!OOLKI", ts_network_type, &network, ts_tree_type, &tree, &semiring, &dtype, &modulus,
                          &memory_limit, &options.memory_modes) ||
        ts_parse_semiring(semiring, &options.semiring) < 0 || ts_parse_dtype(dtype, &options.dtype) < 0) {
        return NULL;
    }
    options.modulus = modulus;
    options.memory_limit = memory_limit;
    tensum_plan *plan;
    tensum_status status = tensum_plan_create(((network_object *)network)->network, ((tree_object *)tree)->tree, &options, &plan);
    if (status != TENSUM_OK) {
        return ts_raise(status);
    }
    plan_object *object = PyObject_New(plan_object, ts_plan_type);
    if (object == NULL) {
        tensum_plan_release(plan);
        return NULL;
    }
    object->plan = plan;
    return (PyObject *)object;
}

PyObject *ts_cost_of(const tensum_plan *plan)
{
    tensum_cost cost = TENSUM_COST_INIT;
    tensum_status status = tensum_plan_cost(plan, &cost);
    return status == TENSUM_OK ? ts_cost(&cost) : ts_raise(status);
}

PyObject *ts_cost(const tensum_cost *cost)
{
    return Py_BuildValue("{s:d,s:d,s:d,s:L,s:L,s:K,s:K,s:K,s:K}", "tc", cost->tc, "sc", cost->sc, "rw", cost->rw, "steps",
                         (long long)cost->steps, "slices", (long long)cost->slices, "peak_bytes_value",
                         (unsigned long long)cost->peak_bytes_value, "peak_bytes_winners",
                         (unsigned long long)cost->peak_bytes_winners, "peak_bytes_gradient",
                         (unsigned long long)cost->peak_bytes_gradient, "peak_bytes_decode",
                         (unsigned long long)cost->peak_bytes_decode);
}

static PyObject *plan_cost(PyObject *self, PyObject *unused)
{
    (void)unused;
    return ts_cost_of(((plan_object *)self)->plan);
}

/* step(i) -> (a, b, result, labels, log2_pairs, log2_elements); b is -1 for a reduce step */
static PyObject *plan_step(PyObject *self, PyObject *arguments)
{
    long long index;
    tensum_step_info info = TENSUM_STEP_INFO_INIT;
    if (!PyArg_ParseTuple(arguments, "L", &index)) {
        return NULL;
    }
    tensum_status status = tensum_plan_step(((plan_object *)self)->plan, index, &info);
    if (status != TENSUM_OK) {
        return ts_raise(status);
    }
    return Py_BuildValue("(LLLNdd)", (long long)info.a, (long long)info.b, (long long)info.result,
                         ts_integer_tuple(info.labels, info.rank), info.log2_pairs, info.log2_elements);
}

static PyObject *plan_tree(PyObject *self, void *unused)
{
    (void)unused;
    return tree_wrap(tensum_tree_retain(tensum_plan_tree(((plan_object *)self)->plan)));
}

/* ---- types ---- */

static PyMethodDef network_methods[] = {
    {"operand", network_operand, METH_VARARGS, "operand(i) -> (labels, extents); -1 is the output"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef network_members[] = {
    {"labels", network_labels, NULL, "distinct labels in order of first occurrence", NULL},
    {"extents", network_extents, NULL, "their extents", NULL},
    {"operand_count", network_count, NULL, "number of operands", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMethodDef tree_methods[] = {
    {"ssa", tree_ssa, METH_NOARGS, "steps as tuples of ids"},
    {"path", tree_path, METH_NOARGS, "steps as tuples of positions in the shrinking list"},
    {"with_slices", tree_with_slices, METH_O, "a copy in which the labels are sliced"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef tree_members[] = {
    {"slices", tree_slices, NULL, "sliced labels", NULL},
    {"leaf_count", tree_leaves, NULL, "number of inputs", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
/* keeps(semiring, dtype) -> bool; see ts_plan_keeps */
static PyObject *plan_keeps(PyObject *self, PyObject *arguments)
{
    PyObject *semiring_name, *dtype_name;
    tensum_semiring semiring;
    tensum_dtype dtype;
    if (!PyArg_ParseTuple(arguments, "OO", &semiring_name, &dtype_name) || ts_parse_semiring(semiring_name, &semiring) < 0 ||
        ts_parse_dtype(dtype_name, &dtype) < 0) {
        return NULL;
    }
    return PyBool_FromLong(ts_plan_keeps(((plan_object *)self)->plan, semiring, dtype));
}

/* saves(semiring) -> None, or the dtype of the winners that gradients need ("": none); see ts_plan_saves */
static PyObject *plan_saves(PyObject *self, PyObject *name)
{
    tensum_semiring semiring;
    tensum_dtype winners;
    if (ts_parse_semiring(name, &semiring) < 0) {
        return NULL;
    }
    if (!ts_plan_saves(((plan_object *)self)->plan, semiring, &winners)) {
        Py_RETURN_NONE;
    }
    return PyUnicode_FromString(winners == TENSUM_DTYPE_COUNT ? "" : tensum_dtype_name(winners));
}

static PyMethodDef plan_methods[] = {
    {"saves", plan_saves, METH_O, "what a forward pass keeps for the backward pass"},
    {"keeps", plan_keeps, METH_VARARGS, "can its workspace be kept for the backward pass?"},
    {"cost", plan_cost, METH_NOARGS, "cost as a dictionary"},
    {"step", plan_step, METH_VARARGS, "one step as the plan runs it"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef plan_members[] = {
    {"tree", plan_tree, NULL, "the tree, with the slices in force", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject *make_type(PyObject *module, const char *name, size_t bytes, destructor release, PyMethodDef *methods,
                               PyGetSetDef *members)
{
    PyType_Slot slots[] = {
        {Py_tp_dealloc, (void *)release}, {Py_tp_methods, methods}, {Py_tp_getset, members}, {0, NULL}};
    PyType_Spec spec = {name, (int)bytes, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    PyObject *type = PyType_FromSpec(&spec);
    if (type != NULL && PyModule_AddObjectRef(module, strrchr(name, '.') + 1, type) < 0) {
        Py_CLEAR(type);
    }
    return (PyTypeObject *)type;
}

int ts_structure_register(PyObject *module)
{
    ts_network_type = make_type(module, "tensum._core.Network", sizeof(network_object), network_free, network_methods,
                                network_members);
    ts_tree_type = make_type(module, "tensum._core.Tree", sizeof(tree_object), tree_free, tree_methods, tree_members);
    ts_plan_type = make_type(module, "tensum._core.Plan", sizeof(plan_object), plan_free, plan_methods, plan_members);
    return ts_network_type == NULL || ts_tree_type == NULL || ts_plan_type == NULL ? -1 : 0;
}
