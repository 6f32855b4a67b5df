/* Arrays coming in: tensum.Array, DLPack by its C table and by capsule, __cuda_array_interface__, the buffer protocol. */
#include "core.h"

/* The newest version whose structures we know; what we ask producers for at most. */
enum { KNOWN_MAJOR = 1, KNOWN_MINOR = 3 };

static int reserve(ts_view *view, int32_t rank)
{
    view->tensor.rank = rank;
    view->tensor.extents = view->extents;
    view->tensor.strides = view->strides;
    if (rank > TS_VIEW_RANK) {
        view->allocated = PyMem_Malloc(sizeof(int64_t) * 2 * (size_t)rank);
        if (view->allocated == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        view->tensor.extents = view->allocated;
        view->tensor.strides = view->allocated + rank;
    }
    return 0;
}

static size_t alignment_of(tensum_dtype dtype)
{
    switch (dtype) {
    case TENSUM_C64: case TENSUM_VC64: return 4;
    case TENSUM_C128: case TENSUM_VC128: return 8;
    default: return tensum_dtype_bytes(dtype);
    }
}

/* Strides of modes of extent 0 or 1 mean nothing and may be odd: make them harmless. */
static int check_layout(ts_view *view, const char *what)
{
    int64_t *strides = (int64_t *)view->tensor.strides;
    bool empty = false;
    for (int32_t i = 0; i < view->tensor.rank; ++i) {
        empty |= view->tensor.extents[i] == 0;
        if (view->tensor.extents[i] <= 1) {
            strides[i] = 1;
        }
    }
    if (empty) {
        return 0;
    }
    size_t alignment = alignment_of(view->tensor.dtype);
    if ((uintptr_t)view->tensor.data % alignment != 0) {
        PyErr_Format(ts_error_layout, "%s: data at %p is not aligned to %zu bytes", what, view->tensor.data, alignment);
        return -1;
    }
    return 0;
}

static int check_extents(const ts_view *view, const char *what)
{
    for (int32_t i = 0; i < view->tensor.rank; ++i) {
        if (view->tensor.extents[i] < 0) {
            PyErr_Format(PyExc_BufferError, "%s: extent %lld of axis %d is negative", what,
                         (long long)view->tensor.extents[i], (int)i);
            return -1;
        }
    }
    return 0;
}

int ts_view_from_dl(ts_view *view, const dl_tensor *tensor, const char *what)
{
    if (!ts_dtype_from_dl(tensor->dtype, &view->tensor.dtype)) {
        PyErr_Format(PyExc_TypeError,
                     "%s: DLPack dtype (code %d, %d bits, %d lanes) is not supported; f16, bf16, f32, f64, c64, c128, i16, i32, "
                     "i64 and bool are",
                     what, (int)tensor->dtype.code, (int)tensor->dtype.bits, (int)tensor->dtype.lanes);
        return -1;
    }
    switch (tensor->device.type) {
    case DL_CPU: case DL_CUDA_HOST:
        view->tensor.device = (tensum_device){TENSUM_CPU, 0};
        break;
    case DL_CUDA: case DL_CUDA_MANAGED:
        view->tensor.device = (tensum_device){TENSUM_CUDA, tensor->device.index};
        break;
    default:
        PyErr_Format(PyExc_RuntimeError, "%s: device of DLPack type %d is not supported: CPU (1) and CUDA (2) are", what,
                     (int)tensor->device.type);
        return -1;
    }
    if (tensor->rank < 0 || reserve(view, tensor->rank) < 0) {
        return -1;
    }
    view->tensor.data = tensor->data != NULL ? (char *)tensor->data + tensor->byte_offset : NULL;
    int64_t *extents = (int64_t *)view->tensor.extents, *strides = (int64_t *)view->tensor.strides;
    int64_t compact = 1;
    for (int32_t i = tensor->rank - 1; i >= 0; --i) {
        extents[i] = tensor->extents[i];
        strides[i] = tensor->strides != NULL ? tensor->strides[i] : compact;
        compact *= extents[i] > 1 ? extents[i] : 1;
    }
    if (check_extents(view, what) < 0) {
        return -1;
    }
    return check_layout(view, what);
}

int ts_view_open_buffer(ts_view *view, PyObject *object, bool writable)
{
    memset(view, 0, offsetof(ts_view, extents));
    if (PyObject_GetBuffer(object, &view->buffer, writable ? PyBUF_STRIDED | PyBUF_FORMAT : PyBUF_STRIDED_RO | PyBUF_FORMAT) < 0) {
        return -1;
    }
    view->has_buffer = true;
    const Py_buffer *buffer = &view->buffer;
    view->read_only = buffer->readonly != 0;
    view->tensor.data = buffer->buf;
    view->tensor.device = (tensum_device){TENSUM_CPU, 0};
    if (!ts_dtype_from_format(buffer->format, buffer->itemsize, &view->tensor.dtype)) {
        ts_view_close(view);
        return -1;
    }
    if (reserve(view, buffer->ndim) < 0) {
        ts_view_close(view);
        return -1;
    }
    int64_t *extents = (int64_t *)view->tensor.extents, *strides = (int64_t *)view->tensor.strides;
    Py_ssize_t item = buffer->itemsize;
    bool whole = true;
    for (int i = 0; i < buffer->ndim; ++i) {
        extents[i] = buffer->shape[i];
        strides[i] = buffer->strides[i] / item;
        whole &= strides[i] * item == buffer->strides[i] || extents[i] <= 1;
    }
    if (!whole) {
        PyErr_SetString(ts_error_layout, "strides are not multiples of the element's size");
        ts_view_close(view);
        return -1;
    }
    if (check_layout(view, "array") < 0) {
        ts_view_close(view);
        return -1;
    }
    return 0;
}

const dl_exchange *ts_exchange_of(PyTypeObject *type)
{
    static struct {
        PyTypeObject *type;
        const dl_exchange *table;
    } cache[8];
    static unsigned next;
    for (size_t i = 0; i < sizeof cache / sizeof cache[0]; ++i) {
        if (cache[i].type == type) {
            return cache[i].table;
        }
    }
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    const dl_exchange_header *header = NULL;
    if (capsule != NULL && PyCapsule_IsValid(capsule, "dlpack_exchange_api")) {
        header = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    }
    PyErr_Clear();
    Py_XDECREF(capsule);
    while (header != NULL && header->version.major > KNOWN_MAJOR) {
        header = header->previous;
    }
    if (header != NULL && header->version.major != KNOWN_MAJOR) {
        header = NULL;
    }
    /* The table is static in its library; the reference keeps the type's address from being reused. */
    Py_INCREF((PyObject *)type);
    unsigned slot = next++ % (unsigned)(sizeof cache / sizeof cache[0]);
    Py_XDECREF((PyObject *)cache[slot].type);
    cache[slot].type = type;
    cache[slot].table = (const dl_exchange *)header;
    return cache[slot].table;
}

static int open_exchange(ts_view *view, PyObject *object, const dl_exchange *table, uintptr_t stream, const char *what)
{
    dl_tensor tensor;
    if (table->tensor_from_object != NULL) {
        if (table->tensor_from_object(object, &tensor) != 0) {
            return -1;
        }
        Py_INCREF(object);
        view->owner = object;
    } else {
        dl_managed_versioned *managed = NULL;
        if (table->managed_from_object(object, &managed) != 0) {
            return -1;
        }
        view->versioned = managed;
        view->read_only = (managed->flags & DL_READ_ONLY) != 0;
        tensor = managed->tensor;
    }
    if (tensor.device.type == DL_CUDA || tensor.device.type == DL_CUDA_MANAGED) {
        void *current = NULL;
        if (table->current_stream(tensor.device.type, tensor.device.index, &current) != 0) {
            return -1;
        }
        if ((uintptr_t)current != stream) {
            return 1; /* the table never synchronizes: let __dlpack__ do the handshake */
        }
    }
    return ts_view_from_dl(view, &tensor, what);
}

static PyObject *call_dlpack(PyObject *object, uintptr_t stream, bool cuda)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
    PyObject *empty = PyTuple_New(0), *keywords = PyDict_New(), *capsule = NULL;
    PyObject *version = Py_BuildValue("(ii)", KNOWN_MAJOR, KNOWN_MINOR);
    /* 0 is ambiguous in this protocol: the legacy default stream is 1. */
    PyObject *number = cuda ? PyLong_FromSize_t(stream == 0 ? 1 : stream) : NULL;
    if (method == NULL || empty == NULL || keywords == NULL || version == NULL || (cuda && number == NULL) ||
        (cuda && PyDict_SetItemString(keywords, "stream", number) < 0) ||
        PyDict_SetItemString(keywords, "max_version", version) < 0) {
        goto done;
    }
    capsule = PyObject_Call(method, empty, keywords);
    if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
        /* A producer from before version 1 knows no max_version. */
        PyErr_Clear();
        if (PyDict_DelItemString(keywords, "max_version") == 0) {
            capsule = PyObject_Call(method, empty, keywords);
        }
    }
done:
    Py_XDECREF(method);
    Py_XDECREF(empty);
    Py_XDECREF(keywords);
    Py_XDECREF(version);
    Py_XDECREF(number);
    return capsule;
}

static int open_capsule(ts_view *view, PyObject *object, uintptr_t stream, const char *what)
{
    PyObject *device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
    int type = 0, index = 0;
    if (device == NULL) {
        return -1;
    }
    bool parsed = PyArg_ParseTuple(device, "ii", &type, &index);
    Py_DECREF(device);
    if (!parsed) {
        return -1;
    }
    PyObject *capsule = call_dlpack(object, stream, type == DL_CUDA || type == DL_CUDA_MANAGED);
    if (capsule == NULL) {
        return -1;
    }
    int result = -1;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dl_managed_versioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (managed->version.major > KNOWN_MAJOR) {
            PyErr_Format(PyExc_BufferError, "%s: DLPack %u.%u was offered, %d.%d is understood", what,
                         managed->version.major, managed->version.minor, KNOWN_MAJOR, KNOWN_MINOR);
        } else if (PyCapsule_SetName(capsule, "used_dltensor_versioned") == 0) {
            view->versioned = managed;
            view->read_only = (managed->flags & DL_READ_ONLY) != 0;
            result = ts_view_from_dl(view, &managed->tensor, what);
        }
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
        if (PyCapsule_SetName(capsule, "used_dltensor") == 0) {
            view->managed = managed;
            result = ts_view_from_dl(view, &managed->tensor, what);
        }
    } else {
        PyErr_Format(PyExc_BufferError, "%s: __dlpack__ gave no DLPack capsule", what);
    }
    Py_DECREF(capsule);
    return result;
}

/* Numba's protocol, version 3. Typestrings of the dtypes we have; strides in bytes. The producer's stream is put in
 * order with ours by the Python layer, which knows the driver. */
static int open_cuda_interface(ts_view *view, PyObject *object, PyObject *interface, const char *what)
{
    int result = -1;
    int64_t *extents = NULL, *strides = NULL;
    PyObject *shape = PyDict_GetItemString(interface, "shape"), *code = PyDict_GetItemString(interface, "typestr");
    PyObject *data = PyDict_GetItemString(interface, "data"), *steps = PyDict_GetItemString(interface, "strides");
    const char *text = code != NULL ? PyUnicode_AsUTF8AndSize(code, NULL) : NULL;
    if (shape == NULL || data == NULL || !PyTuple_Check(data) || PyTuple_Size(data) != 2 || text == NULL) {
        PyErr_Format(PyExc_BufferError, "%s: __cuda_array_interface__ lacks shape, typestr or data", what);
        goto done;
    }
    static const struct {
        const char *text;
        tensum_dtype dtype;
    } codes[] = {{"f2", TENSUM_F16}, {"f4", TENSUM_F32}, {"f8", TENSUM_F64}, {"c8", TENSUM_C64}, {"c16", TENSUM_C128},
                 {"i2", TENSUM_I16}, {"i4", TENSUM_I32}, {"i8", TENSUM_I64}, {"b1", TENSUM_BOOL}};
    bool found = false;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0] && (text[0] == '<' || text[0] == '|'); ++i) {
        if (strcmp(text + 1, codes[i].text) == 0) {
            view->tensor.dtype = codes[i].dtype;
            found = true;
        }
    }
    if (!found) {
        PyErr_Format(PyExc_TypeError, "%s: dtype '%s' of __cuda_array_interface__ is not supported", what, text);
        goto done;
    }
    Py_ssize_t rank = 0, stride_count = 0;
    extents = ts_parse_integers(shape, "shape", &rank);
    if (extents == NULL) {
        goto done;
    }
    if (steps != NULL && steps != Py_None) {
        strides = ts_parse_integers(steps, "strides", &stride_count);
        if (strides == NULL) {
            goto done;
        }
        if (stride_count != rank) {
            PyErr_Format(PyExc_BufferError, "%s: %zd strides for %zd axes", what, stride_count, rank);
            goto done;
        }
    }
    if (reserve(view, (int32_t)rank) < 0) {
        goto done;
    }
    int64_t bytes = (int64_t)tensum_dtype_bytes(view->tensor.dtype), compact = 1;
    for (Py_ssize_t i = rank - 1; i >= 0; --i) {
        ((int64_t *)view->tensor.extents)[i] = extents[i];
        ((int64_t *)view->tensor.strides)[i] = strides != NULL ? strides[i] / bytes : compact;
        if (strides != NULL && strides[i] % bytes != 0 && extents[i] > 1) {
            PyErr_Format(ts_error_layout, "%s: strides are not multiples of the element's size", what);
            goto done;
        }
        compact *= extents[i] > 1 ? extents[i] : 1;
    }
    view->tensor.data = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
    view->read_only = PyObject_IsTrue(PyTuple_GetItem(data, 1)) == 1;
    PyObject *device = PyObject_GetAttrString(object, "device");
    PyObject *number = device != NULL ? PyObject_GetAttrString(device, "id") : NULL;
    PyErr_Clear();
    view->tensor.device = (tensum_device){TENSUM_CUDA, number != NULL ? (int32_t)PyLong_AsLong(number) : 0};
    PyErr_Clear();
    Py_XDECREF(device);
    Py_XDECREF(number);
    Py_INCREF(object);
    view->owner = object;
    result = check_extents(view, what) < 0 ? -1 : check_layout(view, what);
done:
    PyMem_Free(extents);
    PyMem_Free(strides);
    return result;
}

int ts_view_open(ts_view *view, PyObject *object, uintptr_t stream, const char *what)
{
    memset(view, 0, offsetof(ts_view, extents));
    int result = -1;
    if (Py_TYPE(object) == ts_array_type) {
        const ts_array *array = (const ts_array *)object;
        view->tensor = (tensum_tensor){array->data, array->dtype, array->rank, array->extents, array->strides, array->device};
        view->read_only = array->read_only;
        Py_INCREF(object);
        view->owner = object;
        return 0;
    }
    const dl_exchange *table = ts_exchange_of(Py_TYPE(object));
    if (table != NULL) {
        result = open_exchange(view, object, table, stream, what);
        if (result != 1) {
            goto done;
        }
        ts_view_close(view);
        memset(view, 0, offsetof(ts_view, extents));
        result = -1;
    }
    if (PyObject_CheckBuffer(object)) {
        result = ts_view_open_buffer(view, object, false);
        if (result == 0 || (PyErr_Occurred() && PyErr_ExceptionMatches(ts_error_layout))) {
            goto done;
        }
        PyErr_Clear();
    }
    if (PyObject_HasAttrString(object, "__dlpack__")) {
        result = open_capsule(view, object, stream, what);
        goto done;
    }
    PyObject *interface = PyObject_GetAttrString(object, "__cuda_array_interface__");
    if (interface != NULL && PyDict_Check(interface)) {
        result = open_cuda_interface(view, object, interface, what);
    } else {
        PyErr_Clear();
        PyObject *dtype = PyObject_GetAttrString(object, "dtype");
        PyErr_Clear();
        if (dtype != NULL) {
            PyErr_Format(PyExc_TypeError,
                         "%s: dtype %S is not supported; f16, bf16, f32, f64, c64, c128, i16, i32, i64 and bool are", what, dtype);
        } else {
            PyErr_Format(PyExc_TypeError,
                         "%s: expected an array (DLPack, buffer protocol or __cuda_array_interface__), got %R", what,
                         (PyObject *)Py_TYPE(object));
        }
        Py_XDECREF(dtype);
    }
    Py_XDECREF(interface);
done:
    if (result != 0) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        ts_view_close(view);
        PyErr_Restore(type, value, trace);
        return -1;
    }
    return 0;
}

void ts_view_close(ts_view *view)
{
    if (view->has_buffer) {
        PyBuffer_Release(&view->buffer);
        view->has_buffer = false;
    }
    if (view->managed != NULL && view->managed->deleter != NULL) {
        view->managed->deleter(view->managed);
    }
    if (view->versioned != NULL && view->versioned->deleter != NULL) {
        view->versioned->deleter(view->versioned);
    }
    view->managed = NULL;
    view->versioned = NULL;
    Py_CLEAR(view->owner);
    PyMem_Free(view->allocated);
    view->allocated = NULL;
}
