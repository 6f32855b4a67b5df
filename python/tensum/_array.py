"""tensum.Array in Python: what the C type leaves out."""

from . import _core
from ._core import Array

CPU, CUDA = 1, 2


def from_dlpack(array):
    """Wrap any array (DLPack, buffer protocol, __cuda_array_interface__) as a `tensum.Array`, without a copy."""
    return _core.array_from(array)


def _dlpack(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """A DLPack capsule; versioned if `max_version` is (1, 0) or later."""
    kind, index = self._device
    if dl_device is not None and tuple(int(part) for part in dl_device) != (kind, index):
        raise BufferError(f"the array lies on device {(kind, index)}, not on {tuple(dl_device)}: copy it first")
    if kind == CUDA:
        if stream == 0:
            raise ValueError("stream 0 is ambiguous: use 1 for the legacy default stream, 2 for the per-thread one")
        if stream != -1:
            from . import _cuda

            _cuda.order(index, self._stream, 0 if stream in (None, 1) else stream)
    elif stream is not None and stream != -1:
        raise ValueError("an array on the CPU has no stream: expected None")
    versioned = max_version is not None and max_version[0] >= 1
    if copy:
        if kind != CPU:
            raise BufferError("copying an array on a CUDA device is left to its library")
        import numpy

        clone = _core.array_empty(self.shape, self.dtype, (CPU, 0))
        numpy.copyto(numpy.asarray(clone), numpy.asarray(self))
        return clone._capsule(versioned)
    return self._capsule(versioned)


def _numpy(self):
    """The array as a NumPy array that shares its memory."""
    import numpy

    if self._device[0] != CPU:
        raise TypeError("the array lies on a CUDA device: import it with its library's from_dlpack")
    if self.dtype == "bf16":
        import ml_dtypes

        raw = _core.array_empty(self.shape, "i16", (CPU, 0), self._pointer, self, 0, self.strides, self.read_only)
        return numpy.asarray(raw).view(ml_dtypes.bfloat16)
    return numpy.asarray(memoryview(self)) if self.dtype not in ("vc64", "vc128", "c64", "c128") else _by_buffer(self)


def _by_buffer(self):
    import numpy

    real = {"vc64": "f32", "c64": "f32", "vc128": "f64", "c128": "f64"}[self.dtype]
    pairs = _core.array_empty(
        (*self.shape, 2), real, (CPU, 0), self._pointer, self, 0, (*(2 * step for step in self.strides), 1), self.read_only
    )
    flat = numpy.asarray(memoryview(pairs))
    from ._libraries import numpy_dtype

    return flat.view(numpy_dtype(self.dtype))[..., 0]


def _cuda_interface(self):
    kind, _ = self._device
    if kind != CUDA or self.dtype in ("bf16", "vc64", "vc128"):
        raise AttributeError("__cuda_array_interface__")
    code, size = {"f": "f", "c": "c", "i": "i", "b": "b"}[self.dtype[0]], _core.dtype_info(self.dtype)[1]
    return {
        "shape": self.shape,
        "typestr": f"{'|' if self.dtype == 'bool' else '<'}{code}{size}",
        "data": (self._pointer, self.read_only),
        "strides": tuple(step * size for step in self.strides),
        "stream": self._stream or 1,
        "version": 3,
    }


def _repr(self):
    place = "cpu" if self._device[0] == CPU else f"cuda:{self._device[1]}"
    text = f"tensum.Array(shape={self.shape}, dtype={self.dtype}, device={place})"
    return text if place != "cpu" else f"{text}\n{_numpy(self)!r}"


def _size(self):
    total = 1
    for extent in self.shape:
        total *= extent
    return total


def _len(self):
    if not self.shape:
        raise TypeError("len() of an array without axes")
    return self.shape[0]


def _array(self, dtype=None, copy=None):
    import numpy

    return numpy.array(_numpy(self), dtype=dtype, copy=copy)


Array.__dlpack__ = _dlpack
Array.__dlpack_device__ = lambda self: self._device
Array.__cuda_array_interface__ = property(_cuda_interface)
Array.__repr__ = _repr
Array.__len__ = _len
Array.__array__ = _array
Array.numpy = _numpy
Array.size = property(_size, doc="number of elements")
Array.device = property(lambda self: "cpu" if self._device[0] == CPU else f"cuda:{self._device[1]}", doc="where the data lies")
