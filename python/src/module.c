/* tensum._core: the library's C interface, as directly as Python can have it. */
#include "core.h"

static PyObject *semirings(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < TENSUM_SEMIRING_COUNT; ++i) {
        PyObject *item = PyUnicode_FromString(tensum_semiring_name((tensum_semiring)i));
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *dtypes(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < TENSUM_DTYPE_COUNT; ++i) {
        PyObject *item = PyUnicode_FromString(tensum_dtype_name((tensum_dtype)i));
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}

/* semiring_info(name) -> (canonical name, selective, summary) */
static PyObject *semiring_info(PyObject *module, PyObject *name)
{
    (void)module;
    tensum_semiring semiring;
    if (ts_parse_semiring(name, &semiring) < 0) {
        return NULL;
    }
    return Py_BuildValue("(sOs)", tensum_semiring_name(semiring), tensum_semiring_selective(semiring) ? Py_True : Py_False,
                         tensum_semiring_summary(semiring));
}

static PyObject *supports(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *semiring_name, *dtype_name;
    tensum_semiring semiring;
    tensum_dtype dtype;
    if (!PyArg_ParseTuple(arguments, "OO", &semiring_name, &dtype_name) || ts_parse_semiring(semiring_name, &semiring) < 0 ||
        ts_parse_dtype(dtype_name, &dtype) < 0) {
        return NULL;
    }
    return PyLong_FromUnsignedLong(tensum_supports(semiring, dtype));
}

static PyObject *dtype_info(PyObject *module, PyObject *name)
{
    (void)module;
    tensum_dtype dtype;
    if (ts_parse_dtype(name, &dtype) < 0) {
        return NULL;
    }
    return Py_BuildValue("(sns)", tensum_dtype_name(dtype), (Py_ssize_t)tensum_dtype_bytes(dtype),
                         tensum_dtype_name(tensum_dtype_gradient(dtype)));
}

/* identity(semiring, dtype, one) -> bytes of the element */
static PyObject *identity(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *semiring_name, *dtype_name;
    int one;
    tensum_semiring semiring;
    tensum_dtype dtype;
    char element[16];
    if (!PyArg_ParseTuple(arguments, "OOp", &semiring_name, &dtype_name, &one) ||
        ts_parse_semiring(semiring_name, &semiring) < 0 || ts_parse_dtype(dtype_name, &dtype) < 0) {
        return NULL;
    }
    tensum_status status = tensum_semiring_identity(semiring, dtype, one, element);
    if (status != TENSUM_OK) {
        return ts_raise(status);
    }
    return PyBytes_FromStringAndSize(element, (Py_ssize_t)tensum_dtype_bytes(dtype));
}

static PyObject *combine(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *name, *part, *total;
    tensum_semiring semiring;
    if (!PyArg_ParseTuple(arguments, "OOO", &name, &part, &total) || ts_parse_semiring(name, &semiring) < 0) {
        return NULL;
    }
    ts_view from, to;
    if (ts_view_open(&from, part, 0, "part") < 0) {
        return NULL;
    }
    if (ts_view_open(&to, total, 0, "total") < 0) {
        ts_view_close(&from);
        return NULL;
    }
    PyObject *result = NULL;
    if (to.read_only) {
        PyErr_SetString(PyExc_ValueError, "total is read-only");
    } else {
        tensum_status status = tensum_combine(semiring, &from.tensor, &to.tensor);
        result = status == TENSUM_OK ? Py_NewRef(Py_None) : ts_raise(status);
    }
    ts_view_close(&from);
    ts_view_close(&to);
    return result;
}

static PyObject *device_count(PyObject *module, PyObject *kind)
{
    (void)module;
    tensum_device device;
    if (ts_parse_device(kind, &device) < 0) {
        return NULL;
    }
    return PyLong_FromLong(tensum_device_count(device.kind));
}

static PyObject *device_info(PyObject *module, PyObject *place)
{
    (void)module;
    tensum_device device;
    tensum_device_info info;
    memset(&info, 0, sizeof info);
    info.size = sizeof info;
    if (ts_parse_device(place, &device) < 0) {
        return NULL;
    }
    tensum_status status = tensum_device_query(device, &info);
    if (status != TENSUM_OK) {
        return ts_raise(status);
    }
    return Py_BuildValue("{s:s,s:s,s:s,s:K,s:K,s:i}", "name", info.name, "driver", info.driver, "detail", info.detail,
                         "memory_total", (unsigned long long)info.memory_total, "memory_free",
                         (unsigned long long)info.memory_free, "units", (int)info.units);
}

/* device_stats(place) -> {name: count} since the process began */
static PyObject *device_stats(PyObject *module, PyObject *place)
{
    (void)module;
    tensum_device device;
    tensum_device_counters c = TENSUM_DEVICE_COUNTERS_INIT;
    if (ts_parse_device(place, &device) < 0) {
        return NULL;
    }
    tensum_status status = tensum_device_stats(device, &c);
    if (status != TENSUM_OK) {
        return ts_raise(status);
    }
    const struct {
        const char *name;
        uint64_t value;
    } counters[] = {{"uploads", c.uploads}, {"upload_bytes", c.upload_bytes}, {"downloads", c.downloads},
                    {"download_bytes", c.download_bytes}, {"launches", c.launches}, {"graph_launches", c.graph_launches},
                    {"module_loads", c.module_loads}, {"allocations", c.allocations}, {"releases", c.releases},
                    {"held_bytes", c.held_bytes}, {"synchronisations", c.synchronisations}};
    PyObject *result = PyDict_New();
    for (size_t i = 0; result != NULL && i < sizeof counters / sizeof counters[0]; ++i) {
        PyObject *value = PyLong_FromUnsignedLongLong(counters[i].value);
        if (value == NULL || PyDict_SetItemString(result, counters[i].name, value) < 0) {
            Py_CLEAR(result);
        }
        Py_XDECREF(value);
    }
    return result;
}

/* cutensor_choose(place, choice): who contracts sum_product on a device */
static PyObject *cutensor_choose(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *place;
    int choice;
    tensum_device device;
    if (!PyArg_ParseTuple(arguments, "Oi", &place, &choice) || ts_parse_device(place, &device) < 0) {
        return NULL;
    }
    tensum_status status = tensum_cutensor_choose(device, (tensum_cutensor_choice)choice);
    return status == TENSUM_OK ? Py_NewRef(Py_None) : ts_raise(status);
}

/* synchronize(place, stream): wait for the stream, without the GIL */
static PyObject *synchronize(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *place;
    unsigned long long stream;
    tensum_device device;
    if (!PyArg_ParseTuple(arguments, "OK", &place, &stream) || ts_parse_device(place, &device) < 0) {
        return NULL;
    }
    tensum_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tensum_synchronize(device, (void *)(uintptr_t)stream);
    Py_END_ALLOW_THREADS
    return status == TENSUM_OK ? Py_NewRef(Py_None) : ts_raise(status);
}

static PyObject *order_methods(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    const char *name;
    for (int i = 0; list != NULL && (name = tensum_order_method_name(i)) != NULL; ++i) {
        PyObject *item = PyUnicode_FromString(name);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(tensum_version());
}

/* describe(array, stream=0) -> (dtype, shape, strides, (device type, index), read_only) */
static PyObject *describe(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *object;
    unsigned long long stream = 0;
    const char *what = "array";
    if (!PyArg_ParseTuple(arguments, "O|sK", &object, &what, &stream)) {
        return NULL;
    }
    ts_view view;
    if (ts_view_open(&view, object, (uintptr_t)stream, what) < 0) {
        return NULL;
    }
    PyObject *result = Py_BuildValue("(sNN(ii)O)", tensum_dtype_name(view.tensor.dtype),
                                     ts_integer_tuple(view.tensor.extents, view.tensor.rank),
                                     ts_integer_tuple(view.tensor.strides, view.tensor.rank),
                                     view.tensor.device.kind == TENSUM_CUDA ? DL_CUDA : DL_CPU, (int)view.tensor.device.index,
                                     view.read_only ? Py_True : Py_False);
    ts_view_close(&view);
    return result;
}

static PyMethodDef functions[] = {
    {"version", version, METH_NOARGS, "version()\n--\n\nVersion of the library in use."},
    {"semirings", semirings, METH_NOARGS, "names of the semirings"},
    {"dtypes", dtypes, METH_NOARGS, "names of the dtypes"},
    {"semiring_info", semiring_info, METH_O, "(name, selective, summary)"},
    {"dtype_info", dtype_info, METH_O, "(name, bytes, gradient dtype)"},
    {"supports", supports, METH_VARARGS, "modes of a pair as bits"},
    {"identity", identity, METH_VARARGS, "0 or 1 of a semiring as bytes"},
    {"combine", combine, METH_VARARGS, "total (+)= part"},
    {"device_count", device_count, METH_O, "number of devices of a kind"},
    {"device_info", device_info, METH_O, "what is known of a device"},
    {"device_stats", device_stats, METH_O, "what was done on a device since the process began"},
    {"cutensor_choose", cutensor_choose, METH_VARARGS, "who contracts sum_product on a device"},
    {"synchronize", synchronize, METH_VARARGS, "wait for a stream of a device"},
    {"order_methods", order_methods, METH_NOARGS, "names of the optimizers"},
    {"set_threads", ts_set_threads, METH_VARARGS, "set the number of threads of programs to come"},
    {"describe", describe, METH_VARARGS, "what an array looks like from here"},
    {"array_empty", ts_array_empty, METH_VARARGS, "a new Array"},
    {"array_from", ts_array_from, METH_VARARGS, "wrap an array without a copy"},
    {"network_parse", ts_network_parse, METH_VARARGS, "a network from an expression"},
    {"network_build", ts_network_build, METH_VARARGS, "a network from label lists"},
    {"tree_search", (PyCFunction)(void (*)(void))ts_tree_search, METH_VARARGS | METH_KEYWORDS, "find an order"},
    {"tree_from_steps", ts_tree_from_steps, METH_VARARGS, "a tree from a path"},
    {"plan_build", ts_plan_build, METH_VARARGS, "a plan"},
    {"program_build", ts_program_build, METH_VARARGS, "a program"},
    {"einsum", (PyCFunction)(void (*)(void))ts_einsum, METH_FASTCALL | METH_KEYWORDS, "the fast path of tensum.einsum"},
    {"record", (PyCFunction)(void (*)(void))ts_record, METH_FASTCALL, "keep what gradients need of a value that is there"},
    {"backward", (PyCFunction)(void (*)(void))ts_backward, METH_FASTCALL, "gradients from what record kept"},
    {"solve", (PyCFunction)(void (*)(void))ts_solve, METH_VARARGS | METH_KEYWORDS, "solve a problem file"},
    {"front_ends", ts_front_ends, METH_NOARGS, "names, summaries, tasks and questions of the front ends"},
    {"call", (PyCFunction)(void (*)(void))ts_call, METH_FASTCALL, "run a value program on plain arrays"},
    {"einsum_configure", ts_einsum_configure, METH_VARARGS, "tell the fast path about a library"},
    {"cache_clear", ts_einsum_cache_clear, METH_NOARGS, "forget compiled expressions"},
    {"cache_info", ts_einsum_cache_info, METH_NOARGS, "hits, misses, size and capacity"},
    {NULL, NULL, 0, NULL},
};

static int add_error(PyObject *module, const char *name, PyObject *base, PyObject **error)
{
    char full[64];
    PyOS_snprintf(full, sizeof full, "tensum.%s", name);
    *error = PyErr_NewException(full, base, NULL);
    return *error == NULL ? -1 : PyModule_AddObjectRef(module, name, *error);
}

PyMODINIT_FUNC PyInit__core(void)
{
    static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tensum._core", "The C interface of tensum.", -1, functions,
                                     NULL, NULL, NULL, NULL};
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || add_error(module, "InfeasibleError", PyExc_ValueError, &ts_error_infeasible) < 0 ||
        add_error(module, "NotANumberError", PyExc_ValueError, &ts_error_not_a_number) < 0 ||
        add_error(module, "CancelledError", PyExc_RuntimeError, &ts_error_cancelled) < 0 ||
        add_error(module, "LayoutError", PyExc_ValueError, &ts_error_layout) < 0 || ts_array_register(module) < 0 ||
        ts_structure_register(module) < 0 || ts_program_register(module) < 0 || ts_einsum_register(module) < 0 ||
        PyModule_AddIntConstant(module, "VALUE", TENSUM_VALUE) < 0 ||
        PyModule_AddIntConstant(module, "WINNERS", TENSUM_WINNERS) < 0 ||
        PyModule_AddIntConstant(module, "GRADIENT", TENSUM_GRADIENT) < 0 ||
        PyModule_AddIntConstant(module, "DECODE", TENSUM_DECODE) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
