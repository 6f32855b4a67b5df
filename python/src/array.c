/* tensum.Array: memory that no other library owns the type of. Exports DLPack (both kinds of capsule), the buffer protocol
 * and __cuda_array_interface__. */
#include "core.h"

#include <stdlib.h>

PyTypeObject *ts_array_type;

/* ---- blocks ---- */

static void free_host(ts_block *block) { free(block->memory); }

static void free_managed(ts_block *block)
{
    dl_managed *managed = block->context;
    if (managed->deleter != NULL) {
        managed->deleter(managed);
    }
}

static void free_versioned(ts_block *block)
{
    dl_managed_versioned *managed = block->context;
    if (managed->deleter != NULL) {
        managed->deleter(managed);
    }
}

/* Memory kept alive by a Python object: the last deleter may come on a thread without the GIL, or too late. */
static void free_object(ts_block *block)
{
    if (Py_IsInitialized()) {
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF((PyObject *)block->context);
        PyGILState_Release(state);
    }
}

static void free_buffer(ts_block *block)
{
    if (Py_IsInitialized()) {
        PyGILState_STATE state = PyGILState_Ensure();
        PyBuffer_Release(block->context);
        PyGILState_Release(state);
    }
    free(block->context);
}

static void block_release(ts_block *block)
{
    if (block != NULL && atomic_fetch_sub_explicit(&block->references, 1, memory_order_acq_rel) == 1) {
        block->free(block);
        free(block);
    }
}

static ts_block *block_new(void *memory, void (*release)(ts_block *), void *context)
{
    ts_block *block = malloc(sizeof *block);
    if (block == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&block->references, 1);
    block->memory = memory;
    block->free = release;
    block->context = context;
    return block;
}

/* ---- construction ---- */

static ts_array *array_new(const tensum_tensor *tensor, bool read_only)
{
    ts_array *array = PyObject_New(ts_array, ts_array_type);
    if (array == NULL) {
        return NULL;
    }
    array->block = NULL;
    array->data = tensor->data;
    array->dtype = tensor->dtype;
    array->device = tensor->device;
    array->read_only = read_only;
    array->rank = tensor->rank;
    array->stream = 0;
    size_t rank = (size_t)tensor->rank;
    array->extents = PyMem_Malloc(sizeof(int64_t) * 3 * (rank + 1));
    if (array->extents == NULL) {
        Py_DECREF((PyObject *)array);
        PyErr_NoMemory();
        return NULL;
    }
    array->strides = array->extents + rank;
    array->buffer_strides = (Py_ssize_t *)(array->strides + rank);
    int64_t compact = 1;
    for (int32_t i = tensor->rank - 1; i >= 0; --i) {
        array->extents[i] = tensor->extents[i];
        array->strides[i] = tensor->strides != NULL ? tensor->strides[i] : compact;
        array->buffer_strides[i] = array->strides[i] * (int64_t)tensum_dtype_bytes(tensor->dtype);
        compact *= tensor->extents[i] > 1 ? tensor->extents[i] : 1;
    }
    return array;
}

/* array_empty(shape, dtype, device, address=0, owner=None, stream=0, strides=None, read_only=False): without an owner, new
 * compact memory on the host; with one, a view of the owner's memory. */
PyObject *ts_array_empty(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *shape, *name, *place, *owner = Py_None, *steps = Py_None, *result = NULL;
    unsigned long long address = 0, stream = 0;
    int read_only = 0;
    if (!PyArg_ParseTuple(arguments, "OOO|KOKOp", &shape, &name, &place, &address, &owner, &stream, &steps, &read_only)) {
        return NULL;
    }
    tensum_tensor tensor = {NULL, TENSUM_F32, 0, NULL, NULL, {TENSUM_CPU, 0}};
    Py_ssize_t rank = 0, stride_count = 0;
    if (ts_parse_dtype(name, &tensor.dtype) < 0 || ts_parse_device(place, &tensor.device) < 0) {
        return NULL;
    }
    int64_t *strides = NULL, *extents = ts_parse_integers(shape, "shape", &rank);
    if (extents == NULL) {
        return NULL;
    }
    if (steps != Py_None) {
        strides = ts_parse_integers(steps, "strides", &stride_count);
        if (strides == NULL || stride_count != rank || owner == Py_None) {
            if (!PyErr_Occurred()) {
                PyErr_Format(PyExc_ValueError, "strides: expected %zd and an owner", rank);
            }
            goto done;
        }
    }
    int64_t bytes = (int64_t)tensum_dtype_bytes(tensor.dtype);
    for (Py_ssize_t i = 0; i < rank; ++i) {
        if (extents[i] < 0 || __builtin_mul_overflow(bytes, extents[i], &bytes)) {
            PyErr_Format(PyExc_ValueError, "shape: extent %lld of axis %zd is negative or too large", (long long)extents[i], i);
            goto done;
        }
    }
    ts_block *block;
    if (owner != Py_None) {
        tensor.data = (void *)(uintptr_t)address;
        block = block_new(tensor.data, free_object, owner);
        if (block != NULL) {
            Py_INCREF(owner);
        }
    } else {
        if (tensor.device.kind == TENSUM_CUDA) {
            PyErr_SetString(PyExc_ValueError, "an array on a CUDA device needs memory from its library");
            goto done;
        }
        /* A multiple of the alignment, as aligned_alloc wants; never 0. 128 suits every consumer (XLA wants 64). */
        size_t size = bytes > 0 ? ((size_t)bytes + 127) / 128 * 128 : 128;
        tensor.data = aligned_alloc(128, size);
        if (tensor.data == NULL) {
            PyErr_NoMemory();
            goto done;
        }
        block = block_new(tensor.data, free_host, NULL);
        if (block == NULL) {
            free(tensor.data);
        }
    }
    if (block != NULL) {
        tensor.rank = (int32_t)rank;
        tensor.extents = extents;
        tensor.strides = strides;
        ts_array *array = array_new(&tensor, read_only != 0);
        if (array == NULL) {
            block_release(block);
        } else {
            array->block = block;
            array->stream = (uintptr_t)stream;
            result = (PyObject *)array;
        }
    }
done:
    PyMem_Free(extents);
    PyMem_Free(strides);
    return result;
}

/* Wrap any array without a copy. */
PyObject *ts_array_from(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *object;
    unsigned long long stream = 0;
    if (!PyArg_ParseTuple(arguments, "O|K", &object, &stream)) {
        return NULL;
    }
    if (Py_TYPE(object) == ts_array_type) {
        Py_INCREF(object);
        return object;
    }
    ts_view view;
    if (ts_view_open(&view, object, (uintptr_t)stream, "array") < 0) {
        return NULL;
    }
    ts_array *array = array_new(&view.tensor, view.read_only);
    if (array == NULL) {
        ts_view_close(&view);
        return NULL;
    }
    array->stream = (uintptr_t)stream;
    if (view.managed != NULL) {
        array->block = block_new(view.tensor.data, free_managed, view.managed);
        view.managed = array->block != NULL ? NULL : view.managed;
    } else if (view.versioned != NULL) {
        array->block = block_new(view.tensor.data, free_versioned, view.versioned);
        view.versioned = array->block != NULL ? NULL : view.versioned;
    } else if (view.has_buffer) {
        Py_buffer *buffer = malloc(sizeof *buffer);
        if (buffer == NULL) {
            PyErr_NoMemory();
        } else {
            *buffer = view.buffer;
            array->block = block_new(view.tensor.data, free_buffer, buffer);
            view.has_buffer = array->block == NULL;
            if (array->block == NULL) {
                free(buffer);
            }
        }
    } else {
        array->block = block_new(view.tensor.data, free_object, object);
        if (array->block != NULL) {
            Py_INCREF(object);
        }
    }
    ts_view_close(&view);
    if (array->block == NULL) {
        Py_DECREF((PyObject *)array);
        return NULL;
    }
    return (PyObject *)array;
}

static void array_free(PyObject *self)
{
    ts_array *array = (ts_array *)self;
    PyTypeObject *type = Py_TYPE(self);
    block_release(array->block);
    PyMem_Free(array->extents);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- export ---- */

/* What a capsule's context points to: shape and strides with the tensor, so that they outlive the Array. */
typedef struct ts_export {
    dl_managed managed;
    dl_managed_versioned versioned;
    ts_block *block;
    int64_t numbers[];
} ts_export;

static void export_free(ts_export *export)
{
    block_release(export->block);
    free(export);
}
static void delete_managed(dl_managed *managed) { export_free(managed->context); }
static void delete_versioned(dl_managed_versioned *managed) { export_free(managed->context); }

static void capsule_free(PyObject *capsule)
{
    /* A consumed capsule has another name, and its consumer calls the deleter. */
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        delete_managed(PyCapsule_GetPointer(capsule, "dltensor"));
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    }
}

/* _capsule(versioned): the Python layer has settled stream, device and copy. */
static PyObject *array_capsule(PyObject *self, PyObject *arguments)
{
    const ts_array *array = (const ts_array *)self;
    int versioned;
    if (!PyArg_ParseTuple(arguments, "p", &versioned)) {
        return NULL;
    }
    dl_tensor tensor = {array->data,
                        {array->device.kind == TENSUM_CUDA ? DL_CUDA : DL_CPU, array->device.index},
                        array->rank, {0, 0, 0}, NULL, NULL, 0};
    if (!ts_dtype_to_dl(array->dtype, &tensor.dtype)) {
        PyErr_Format(PyExc_BufferError, "DLPack has no dtype for %s", tensum_dtype_name(array->dtype));
        return NULL;
    }
    if (array->read_only && !versioned) {
        PyErr_SetString(PyExc_BufferError, "a read-only array needs a consumer that knows DLPack 1.0 (max_version)");
        return NULL;
    }
    size_t rank = (size_t)array->rank;
    ts_export *export = malloc(sizeof *export + sizeof(int64_t) * 2 * (rank + 1));
    if (export == NULL) {
        return PyErr_NoMemory();
    }
    tensor.extents = export->numbers;
    tensor.strides = export->numbers + rank + 1;
    if (rank > 0) {
        memcpy(tensor.extents, array->extents, sizeof(int64_t) * rank);
        memcpy(tensor.strides, array->strides, sizeof(int64_t) * rank);
    }
    export->block = array->block;
    atomic_fetch_add_explicit(&array->block->references, 1, memory_order_relaxed);
    export->managed = (dl_managed){tensor, export, delete_managed};
    export->versioned = (dl_managed_versioned){
        {1, 0}, export, delete_versioned, array->read_only ? DL_READ_ONLY : 0, tensor};
    PyObject *capsule = versioned ? PyCapsule_New(&export->versioned, "dltensor_versioned", capsule_free)
                                  : PyCapsule_New(&export->managed, "dltensor", capsule_free);
    if (capsule == NULL) {
        export_free(export);
    }
    return capsule;
}

static int array_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    ts_array *array = (ts_array *)self;
    const char *format = ts_dtype_format(array->dtype);
    buffer->obj = NULL;
    if (array->device.kind == TENSUM_CUDA) {
        PyErr_SetString(PyExc_BufferError, "the array lies on a CUDA device; use DLPack");
        return -1;
    }
    if (format == NULL) {
        PyErr_Format(PyExc_BufferError, "the buffer protocol has no format for %s", tensum_dtype_name(array->dtype));
        return -1;
    }
    if (array->read_only && (flags & PyBUF_WRITABLE) != 0) {
        PyErr_SetString(PyExc_BufferError, "the array is read-only");
        return -1;
    }
    Py_ssize_t item = (Py_ssize_t)tensum_dtype_bytes(array->dtype), length = item, compact = item;
    bool contiguous = true;
    for (int32_t i = array->rank - 1; i >= 0; --i) {
        contiguous &= array->extents[i] <= 1 || array->buffer_strides[i] == compact;
        compact *= array->extents[i];
        length *= array->extents[i];
    }
    if (!contiguous && (flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
        PyErr_SetString(PyExc_BufferError, "the array is not contiguous: ask for strides");
        return -1;
    }
    buffer->buf = array->data;
    buffer->len = length;
    buffer->readonly = array->read_only;
    buffer->itemsize = item;
    buffer->format = (flags & PyBUF_FORMAT) != 0 ? (char *)format : NULL;
    buffer->ndim = array->rank;
    buffer->shape = (flags & PyBUF_ND) != 0 ? (Py_ssize_t *)array->extents : NULL;
    buffer->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? array->buffer_strides : NULL;
    buffer->suboffsets = NULL;
    buffer->internal = NULL;
    Py_INCREF(self);
    buffer->obj = self;
    return 0;
}

static PyObject *get_shape(PyObject *self, void *unused)
{
    (void)unused;
    return ts_integer_tuple(((ts_array *)self)->extents, ((ts_array *)self)->rank);
}
static PyObject *get_strides(PyObject *self, void *unused)
{
    (void)unused;
    return ts_integer_tuple(((ts_array *)self)->strides, ((ts_array *)self)->rank);
}
static PyObject *get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(tensum_dtype_name(((ts_array *)self)->dtype));
}
static PyObject *get_device(PyObject *self, void *unused)
{
    (void)unused;
    const ts_array *array = (const ts_array *)self;
    return Py_BuildValue("(ii)", array->device.kind == TENSUM_CUDA ? DL_CUDA : DL_CPU, (int)array->device.index);
}
static PyObject *get_rank(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((ts_array *)self)->rank);
}
static PyObject *get_pointer(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((ts_array *)self)->data);
}
static PyObject *get_read_only(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((ts_array *)self)->read_only);
}
static PyObject *get_stream(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((ts_array *)self)->stream);
}

static PyGetSetDef array_members[] = {
    {"shape", get_shape, NULL, "extents", NULL},
    {"strides", get_strides, NULL, "strides in elements", NULL},
    {"dtype", get_dtype, NULL, "name of the dtype", NULL},
    {"ndim", get_rank, NULL, "number of axes", NULL},
    {"read_only", get_read_only, NULL, "whether writing is refused", NULL},
    {"_device", get_device, NULL, "(DLPack device type, index)", NULL},
    {"_pointer", get_pointer, NULL, "address of the first element", NULL},
    {"_stream", get_stream, NULL, "CUDA stream of the work that made the data", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef array_methods[] = {
    {"_capsule", array_capsule, METH_VARARGS, "a DLPack capsule"},
    {NULL, NULL, 0, NULL},
};

int ts_array_register(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_dealloc, (void *)array_free},
        {Py_tp_getset, array_members},
        {Py_tp_methods, array_methods},
        {Py_bf_getbuffer, (void *)array_buffer},
        {Py_tp_doc, "A strided array of the library's own."},
        {0, NULL},
    };
    PyType_Spec spec = {"tensum.Array", sizeof(ts_array), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    ts_array_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return ts_array_type == NULL ? -1 : PyModule_AddObjectRef(module, "Array", (PyObject *)ts_array_type);
}
