"""The array libraries: what comes in decides what comes out.

Each adapter knows how to look at an array of its library (`open`), to make an empty one (`empty`), to cast one, and on which
stream its work runs. None of them imports its library before an array of it has been seen.
"""

import sys

from . import _core

CPU, CUDA = 1, 2

_NUMPY_NAMES = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "bool": "bool",
}
_LONG_NAMES = {short: long for long, short in _NUMPY_NAMES.items()}


def dtype_name(dtype):
    """The library's name of a dtype given as one of ours, of NumPy's, of PyTorch's, ... ("f32", numpy.float32, ...)."""
    if isinstance(dtype, str) and dtype in _LONG_NAMES or dtype in ("vc64", "vc128"):
        return dtype
    text = str(dtype)
    if text.startswith("torch."):
        text = text[6:]
    if text in _NUMPY_NAMES:
        return _NUMPY_NAMES[text]
    import numpy

    try:
        found = numpy.dtype(dtype)
    except TypeError:
        raise TypeError(f"dtype: {dtype!r} is not supported; expected one of {', '.join(_core.dtypes())}") from None
    for short in ("vc64", "vc128"):
        if found == numpy_dtype(short):
            return short
    if found.name in _NUMPY_NAMES:
        return _NUMPY_NAMES[found.name]
    raise TypeError(f"dtype: {dtype!r} is not supported; expected one of {', '.join(_core.dtypes())}")


def numpy_dtype(name):
    import numpy

    if name in ("vc64", "vc128"):
        real = "f4" if name == "vc64" else "f8"
        return numpy.dtype([("value", real), ("count", real)])
    if name == "bf16":
        import ml_dtypes

        return numpy.dtype(ml_dtypes.bfloat16)
    return numpy.dtype(_LONG_NAMES[name])


class NumPy:
    name = "numpy"

    @staticmethod
    def configure():
        import numpy

        _core.einsum_configure(
            "numpy",
            numpy.ndarray,
            numpy.empty,
            tuple(numpy_dtype(name) if name != "bf16" else None for name in _core.dtypes()),
        )

    @staticmethod
    def open(array, what, stream=0, output=False):
        import numpy

        if isinstance(array, numpy.ma.MaskedArray):
            raise TypeError(f"{what}: masked arrays are not supported; fill them with the semiring's zero")
        if array.dtype.name == "bfloat16":
            if any(step % 2 for step in array.strides):
                array = numpy.array(array, order="C")
            address = array.__array_interface__["data"][0]
            steps = tuple(step // 2 for step in array.strides)
            return _core.array_empty(array.shape, "bf16", (CPU, 0), address, array, 0, steps, not array.flags.writeable)
        if array.dtype.name not in _NUMPY_NAMES and array.dtype.names is None:
            raise TypeError(f"{what}: dtype {array.dtype} is not supported; expected one of {', '.join(_core.dtypes())}")
        if array.dtype.byteorder == ">":
            raise TypeError(f"{what}: dtype {array.dtype} has a foreign byte order; convert it with astype")
        if not output and not array.flags.aligned or any(
            step % array.itemsize for step, extent in zip(array.strides, array.shape) if extent > 1
        ):
            if output:
                raise ValueError(f"{what}: the array's strides are not multiples of its element's size")
            array = numpy.array(array, order="C")
        return array

    @staticmethod
    def empty(shape, dtype, like, device, stream=0):
        import numpy

        return numpy.empty(shape, numpy_dtype(dtype))

    @staticmethod
    def cast(array, dtype):
        return array.astype(numpy_dtype(dtype), copy=False)

    @staticmethod
    def stream(array):
        return 0

    @staticmethod
    def memory(array):
        return None


class CuPy(NumPy):
    name = "cupy"
    # What programs keep for later calls is given back in the order of the stream that it was used on. Nobody knows which object
    # goes last when the interpreter ends, so streams that were used are never destroyed.
    streams = set()

    @staticmethod
    def configure():
        pass

    @staticmethod
    def open(array, what, stream=0, output=False):
        return array

    @staticmethod
    def empty(shape, dtype, like, device, stream=0):
        import cupy

        with cupy.cuda.Device(device[1]):
            return cupy.empty(shape, numpy_dtype(dtype))

    @staticmethod
    def stream(array):
        import cupy

        stream = cupy.cuda.get_current_stream()
        if stream.ptr not in CuPy.streams:
            import ctypes

            CuPy.streams.add(stream.ptr)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))
        return stream.ptr


class Jax(NumPy):
    name = "jax"

    @staticmethod
    def configure():
        pass

    @staticmethod
    def open(array, what, stream=0, output=False):
        import jax

        if isinstance(array, jax.core.Tracer):
            raise TypeError(
                f"{what}: a traced JAX array (inside jit, grad or vmap) has no data; call tensum outside, or wrap the call "
                "in jax.pure_callback"
            )
        if output:
            raise TypeError(f"{what}: JAX arrays are immutable and cannot be written to")
        return array

    @staticmethod
    def empty(shape, dtype, like, device, stream=0):
        if device[0] == CUDA:
            from . import _cuda

            return _cuda.empty(shape, dtype, device[1], stream)
        return _core.array_empty(shape, dtype, device)

    @staticmethod
    def finish(array):
        import jax

        return jax.dlpack.from_dlpack(_Unversioned(array)) if array.size else _jax_zeros(array)

    @staticmethod
    def cast(array, dtype):
        return array.astype(numpy_dtype(dtype))


def _jax_zeros(array):
    import jax

    return jax.numpy.zeros(array.shape, numpy_dtype(array.dtype))


class _Unversioned:
    """An exporter whose capsules are compact, aligned, writable and of the oldest kind, whatever is asked for."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, *, stream=None, **unused):
        return self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Other(NumPy):
    """Arrays by protocol alone; results are tensum.Array."""

    name = "other"

    @staticmethod
    def configure():
        pass

    @staticmethod
    def open(array, what, stream=0, output=False):
        if type(array).__module__.startswith(("scipy.sparse", "sparse", "cupyx.scipy.sparse", "jax.experimental.sparse")):
            raise TypeError(f"{what}: sparse arrays are not supported")
        if isinstance(array, (int, float, complex, list, tuple, str, bytes)):
            raise TypeError(f"{what}: expected an array, got {type(array).__name__}; numpy.asarray makes one")
        return array

    @staticmethod
    def empty(shape, dtype, like, device, stream=0):
        if device[0] == CUDA:
            from . import _cuda

            return _cuda.empty(shape, dtype, device[1], stream)
        return _core.array_empty(shape, dtype, device)

    @staticmethod
    def cast(array, dtype):
        if hasattr(array, "astype"):
            return array.astype(dtype)
        raise TypeError(f"dtype: {type(array).__name__} cannot be cast; convert it before")


_by_type: dict = {}


def library_of(array):
    """The adapter of an array, by its type."""
    kind = type(array)
    found = _by_type.get(kind)
    if found is None:
        found = _find(array)
        if len(_by_type) < 256:
            _by_type[kind] = found
        found.configure()
    return found


def _find(array):
    modules = sys.modules
    if "numpy" in modules and isinstance(array, (modules["numpy"].ndarray, modules["numpy"].generic)):
        return NumPy
    if "torch" in modules and isinstance(array, modules["torch"].Tensor):
        from ._torch import Torch

        return Torch
    if "jax" in modules and isinstance(array, modules["jax"].Array):
        return Jax
    if "cupy" in modules and isinstance(array, modules["cupy"].ndarray):
        return CuPy
    return Other


def finish(library, array):
    """The result as the caller's library has it."""
    return library.finish(array) if library is Jax else array


class Operands:
    """Operands opened for one call: the objects to hand to C, and what they have in common."""

    def __init__(self, arrays, dtype=None):
        self.framework = library_of(arrays[0]) if arrays else NumPy
        if not arrays:
            NumPy.configure()
        if dtype is not None:
            arrays = [library_of(array).cast(array, dtype) for array in arrays]
        self.first = arrays[0] if arrays else None
        self.stream = self.framework.stream(self.first) if arrays else 0
        self.opened, self.shapes, self.dtype, self.device = [], [], dtype, (CPU, 0)
        self.foreign = False
        for index, array in enumerate(arrays):
            library = library_of(array)
            self.foreign = self.foreign or library not in (self.framework, NumPy) or library in (Jax, Other)
            opened = library.open(array, f"operand {index}", self.stream)
            found, shape, _, device, _ = _core.describe(opened, f"operand {index}", self.stream)
            if index == 0:
                self.dtype, self.device = found, device
            elif found != self.dtype:
                raise TypeError(
                    f"operand {index} is {found}, operand 0 is {self.dtype}: all operands must have one dtype; dtype= casts them"
                )
            elif device != self.device:
                raise RuntimeError(f"operand {index} is on {_place(device)}, operand 0 is on {_place(self.device)}")
            self.opened.append(opened)
            self.shapes.append(shape)
        self.shapes = tuple(self.shapes)
        if self.dtype is None:
            self.dtype = "f64"

    def empty(self, shape, dtype):
        """(array, what C gets of it)."""
        made = self.framework.empty(shape, dtype, self.first, self.device, self.stream)
        # The buffer protocol cannot describe a NumPy array of bf16.
        return made, self.framework.open(made, "out", output=True) if dtype == "bf16" and self.framework is NumPy else made

    def settle(self):
        """Behind a run: memory of libraries that do not work on this stream must not be given back before the run ends."""
        if self.foreign and self.device[0] == CUDA:
            _core.synchronize(self.device, self.stream)

    def output(self, out, shape, dtype):
        """`out`, checked and opened, or a new array."""
        if out is None:
            return self.empty(shape, dtype)
        library = library_of(out)
        opened = library.open(out, "out", self.stream, output=True)
        found, given, _, device, read_only = _core.describe(opened, "out", self.stream)
        if tuple(given) != tuple(shape):
            raise ValueError(f"out has shape {tuple(given)}, the result has {tuple(shape)}")
        if found != dtype:
            raise TypeError(f"out is {found}, the result is {dtype}")
        if device != self.device:
            raise RuntimeError(f"out is on {_place(device)}, operand 0 is on {_place(self.device)}")
        if read_only:
            raise ValueError("out is read-only")
        return out, opened


def _place(device):
    return "cpu" if device[0] == CPU else f"cuda:{device[1]}"
