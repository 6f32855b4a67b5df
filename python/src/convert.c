/* Errors, names, integers and dtypes between Python and the library. */
#include "core.h"

PyObject *ts_error_infeasible, *ts_error_not_a_number, *ts_error_cancelled, *ts_error_layout;

static PyObject *exception_of(tensum_status status)
{
    switch (status) {
    case TENSUM_STATUS_DTYPE_MISMATCH:
    case TENSUM_STATUS_UNSUPPORTED:
        return PyExc_TypeError;
    case TENSUM_STATUS_OUT_OF_MEMORY:
    case TENSUM_STATUS_MEMORY_LIMIT:
        return PyExc_MemoryError;
    case TENSUM_STATUS_INFEASIBLE:
        return ts_error_infeasible;
    case TENSUM_STATUS_NOT_A_NUMBER:
        return ts_error_not_a_number;
    case TENSUM_STATUS_CANCELLED:
        return ts_error_cancelled;
    case TENSUM_STATUS_IO:
        return PyExc_OSError;
    case TENSUM_STATUS_NO_DEVICE:
    case TENSUM_STATUS_DEVICE:
    case TENSUM_STATUS_NOT_PREPARED:
    case TENSUM_STATUS_INTERNAL:
        return PyExc_RuntimeError;
    default:
        return PyExc_ValueError;
    }
}

PyObject *ts_raise_about(tensum_status status, const char *about)
{
    if (status == TENSUM_STATUS_COUNT) {
        return NULL; /* a Python error is set already */
    }
    const char *message = tensum_last_error();
    if (message[0] == '\0') {
        message = tensum_status_name(status);
    }
    PyErr_Format(exception_of(status), "%s%s", about, message);
    return NULL;
}

PyObject *ts_raise(tensum_status status) { return ts_raise_about(status, ""); }

int ts_parse_dtype(PyObject *name, tensum_dtype *dtype)
{
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (text == NULL) {
        return -1;
    }
    tensum_status status = tensum_dtype_find(text, dtype);
    if (status != TENSUM_OK) {
        PyErr_SetString(PyExc_TypeError, tensum_last_error());
        return -1;
    }
    return 0;
}

int ts_parse_semiring(PyObject *name, tensum_semiring *semiring)
{
    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "semiring: expected a name such as 'max_plus', got %R", name);
        return -1;
    }
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (text == NULL) {
        return -1;
    }
    tensum_status status = tensum_semiring_find(text, semiring);
    if (status != TENSUM_OK) {
        ts_raise(status);
        return -1;
    }
    return 0;
}

int ts_parse_device(PyObject *object, tensum_device *device)
{
    if (PyUnicode_Check(object)) {
        const char *text = PyUnicode_AsUTF8AndSize(object, NULL);
        if (text == NULL) {
            return -1;
        }
        tensum_status status = tensum_device_parse(text, device);
        if (status != TENSUM_OK) {
            ts_raise(status);
            return -1;
        }
        return 0;
    }
    int kind, index;
    if (!PyArg_ParseTuple(object, "ii", &kind, &index)) {
        return -1;
    }
    if (kind == DL_CPU || kind == DL_CUDA_HOST) {
        *device = (tensum_device){TENSUM_CPU, 0};
    } else if (kind == DL_CUDA || kind == DL_CUDA_MANAGED) {
        *device = (tensum_device){TENSUM_CUDA, index};
    } else {
        PyErr_Format(PyExc_RuntimeError, "arrays on a device of DLPack type %d are not supported: CPU (1) and CUDA (2) are",
                     kind);
        return -1;
    }
    return 0;
}

int64_t *ts_parse_integers(PyObject *sequence, const char *what, Py_ssize_t *count)
{
    Py_ssize_t size = PySequence_Size(sequence);
    if (size < 0) {
        return NULL;
    }
    int64_t *values = PyMem_Malloc(sizeof(int64_t) * (size_t)(size + 1));
    if (values == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < size; ++i) {
        PyObject *item = PySequence_GetItem(sequence, i);
        PyObject *number = item != NULL ? PyNumber_Index(item) : NULL;
        Py_XDECREF(item);
        values[i] = number != NULL ? PyLong_AsLongLong(number) : -1;
        Py_XDECREF(number);
        if (PyErr_Occurred()) {
            if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
                PyErr_Format(PyExc_ValueError, "%s: entry %zd does not fit into 64 bits", what, i);
            }
            PyMem_Free(values);
            return NULL;
        }
    }
    *count = size;
    return values;
}

PyObject *ts_integer_tuple(const int64_t *values, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple != NULL && i < count; ++i) {
        PyObject *item = PyLong_FromLongLong(values[i]);
        if (item == NULL || PyTuple_SetItem(tuple, i, item) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

bool ts_dtype_from_dl(dl_dtype dl, tensum_dtype *dtype)
{
    if (dl.lanes != 1) {
        return false;
    }
    switch (dl.code * 256 + dl.bits) {
    case DL_FLOAT * 256 + 16: *dtype = TENSUM_F16; return true;
    case DL_FLOAT * 256 + 32: *dtype = TENSUM_F32; return true;
    case DL_FLOAT * 256 + 64: *dtype = TENSUM_F64; return true;
    case DL_BFLOAT * 256 + 16: *dtype = TENSUM_BF16; return true;
    case DL_COMPLEX * 256 + 64: *dtype = TENSUM_C64; return true;
    case DL_COMPLEX * 256 + 128: *dtype = TENSUM_C128; return true;
    case DL_INT * 256 + 16: *dtype = TENSUM_I16; return true;
    case DL_INT * 256 + 32: *dtype = TENSUM_I32; return true;
    case DL_INT * 256 + 64: *dtype = TENSUM_I64; return true;
    case DL_BOOL * 256 + 8: *dtype = TENSUM_BOOL; return true;
    default: return false;
    }
}

bool ts_dtype_to_dl(tensum_dtype dtype, dl_dtype *dl)
{
    dl->lanes = 1;
    dl->bits = (uint8_t)(8 * tensum_dtype_bytes(dtype));
    switch (dtype) {
    case TENSUM_F16: case TENSUM_F32: case TENSUM_F64: dl->code = DL_FLOAT; return true;
    case TENSUM_BF16: dl->code = DL_BFLOAT; return true;
    case TENSUM_C64: case TENSUM_C128: dl->code = DL_COMPLEX; return true;
    case TENSUM_I16: case TENSUM_I32: case TENSUM_I64: dl->code = DL_INT; return true;
    case TENSUM_BOOL: dl->code = DL_BOOL; return true;
    default: return false;
    }
}

const char *ts_dtype_format(tensum_dtype dtype)
{
    switch (dtype) {
    case TENSUM_F16: return "e";
    case TENSUM_F32: return "f";
    case TENSUM_F64: return "d";
    case TENSUM_C64: return "Zf";
    case TENSUM_C128: return "Zd";
    case TENSUM_I16: return "h";
    case TENSUM_I32: return "i";
    case TENSUM_I64: return "q";
    case TENSUM_BOOL: return "?";
    case TENSUM_VC64: return "T{f:value:f:count:}";
    case TENSUM_VC128: return "T{d:value:d:count:}";
    default: return NULL;
    }
}

bool ts_dtype_from_format(const char *format, Py_ssize_t item_bytes, tensum_dtype *dtype)
{
    if (format == NULL) {
        return false;
    }
    bool native = true;
    if (format[0] == '@' || format[0] == '=' || format[0] == '<') {
        native = format[0] == '@';
        ++format; /* little-endian hosts: '<' is native order */
    }
    (void)native;
    if (format[0] != '\0' && format[1] == '\0') {
        switch (format[0]) {
        case 'd': *dtype = TENSUM_F64; return item_bytes == 8;
        case 'f': *dtype = TENSUM_F32; return item_bytes == 4;
        case 'e': *dtype = TENSUM_F16; return item_bytes == 2;
        case '?': *dtype = TENSUM_BOOL; return item_bytes == 1;
        case 'h': case 'i': case 'l': case 'q': case 'n':
            *dtype = item_bytes == 2 ? TENSUM_I16 : item_bytes == 4 ? TENSUM_I32 : TENSUM_I64;
            return item_bytes == 2 || item_bytes == 4 || item_bytes == 8;
        default: return false;
        }
    }
    for (int i = 0; i < TENSUM_DTYPE_COUNT; ++i) {
        const char *known = ts_dtype_format((tensum_dtype)i);
        if (known != NULL && strcmp(known, format) == 0) {
            *dtype = (tensum_dtype)i;
            return tensum_dtype_bytes(*dtype) == (size_t)item_bytes;
        }
    }
    return false;
}
