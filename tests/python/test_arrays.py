"""Arrays in and out: DLPack, the buffer protocol, tensum.Array."""

import array
import ctypes
import gc
import os
import pathlib
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
import tensum

# ---- a producer of our own, to send what well-behaved libraries never send ----


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]


class Dtype(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("rank", ctypes.c_int32),
        ("dtype", Dtype),
        ("extents", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]


class Producer:
    """Exports `data` (compact) by DLPack as told, and counts calls of its deleter."""

    def __init__(self, data, *, versioned=True, version=(1, 0), flags=0, null_strides=False, byte_offset=0, device=(1, 0),
                 dtype=(2, 64, 1), takes_version=True, strides=None, shape=None):
        self.data, self.deleted, self.asked = data, 0, []
        self.versioned, self.takes_version, self.kind = versioned, takes_version, device
        shape = data.shape if shape is None else shape
        self.extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        steps = [step // data.itemsize for step in data.strides] if strides is None else strides
        self.steps = (ctypes.c_int64 * max(len(shape), 1))(*steps)
        no_strides = ctypes.POINTER(ctypes.c_int64)()
        tensor = Tensor(data.ctypes.data - byte_offset, Device(*device), len(shape), Dtype(*dtype), self.extents,
                        no_strides if null_strides else self.steps, byte_offset)
        self.deleter = Deleter(self._delete)
        if versioned:
            self.managed = Versioned(*version, None, self.deleter, flags, tensor)
        else:
            self.managed = Managed(tensor, None, self.deleter)

    def _delete(self, _):
        self.deleted += 1

    def _capsule(self):
        self.capsule_name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return _new(ctypes.addressof(self.managed), self.capsule_name, None)

    def __dlpack_device__(self):
        return self.kind

    def __dlpack__(self, **keywords):
        if "max_version" in keywords and not self.takes_version:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.asked.append(keywords)
        self.last = self._capsule()
        return self.last


DATA = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("null_strides", [False, True])
@pytest.mark.parametrize("byte_offset", [0, 16])
def test_dlpack_in(versioned, null_strides, byte_offset):
    producer = Producer(DATA, versioned=versioned, null_strides=null_strides, byte_offset=byte_offset)
    result = tensum.einsum("ij->ji", producer)
    assert isinstance(result, tensum.Array) and result.shape == (3, 2) and result.dtype == "f64"
    np.testing.assert_array_equal(np.asarray(result), DATA.T)
    assert producer.deleted == len(producer.asked) > 0
    assert _name(producer.last).startswith(b"used_")


def test_the_newest_version_is_asked_for_with_a_fallback():
    producer = Producer(DATA)
    tensum.einsum("ij->", producer)
    assert all(call == {"max_version": (1, 3)} for call in producer.asked)
    old = Producer(DATA, versioned=False, takes_version=False)
    np.testing.assert_array_equal(np.asarray(tensum.einsum("ij->", old)), 15)
    assert old.asked[0] == {} and old.deleted == len(old.asked)


def test_a_major_version_from_the_future_is_refused_and_deleted():
    producer = Producer(DATA, version=(2, 0))
    with pytest.raises(BufferError, match="2.0"):
        tensum.einsum("ij->", producer)
    assert producer.deleted == 0  # its layout is unknown, so is its deleter's place


def test_a_minor_version_from_the_future_is_fine():
    np.testing.assert_array_equal(np.asarray(tensum.einsum("ij->", Producer(DATA, version=(1, 99)))), 15)


def test_read_only_is_honoured():
    producer = Producer(DATA.copy(), flags=1)
    assert float(np.asarray(tensum.einsum("ij->", producer))) == 15
    with pytest.raises(ValueError, match="read-only"):
        tensum.einsum("ij->ij", DATA, out=Producer(DATA.copy(), flags=1))
    target = Producer(np.zeros((2, 3)))
    assert tensum.einsum("ij->ij", DATA, out=target) is target
    np.testing.assert_array_equal(target.data, DATA)


@pytest.mark.parametrize(
    "options,error",
    [
        ({"dtype": (2, 64, 2)}, TypeError),
        ({"dtype": (1, 64, 1)}, TypeError),
        ({"dtype": (3, 64, 1)}, TypeError),
        ({"dtype": (2, 8, 1)}, TypeError),
        ({"device": (8, 0)}, RuntimeError),
        ({"device": (10, 0)}, RuntimeError),
    ],
)
def test_what_cannot_be_had_is_refused_once_deleted(options, error):
    producer = Producer(DATA, **options)
    with pytest.raises(error, match="operand 0"):
        tensum.einsum("ij->", producer)
    assert producer.deleted == len(producer.asked) > 0


def test_negative_and_zero_strides_come_in():
    line = np.arange(4.0)
    producer = Producer(line[3:], shape=(4,), strides=[-1])
    np.testing.assert_array_equal(np.asarray(tensum.einsum("i->i", producer)), line[::-1])
    broadcast = Producer(line[2:3], shape=(3, 2), strides=[0, 0])
    np.testing.assert_array_equal(np.asarray(tensum.einsum("ij->i", broadcast)), [4, 4, 4])


def test_a_stream_is_never_zero():
    class Spy:
        def __init__(self):
            self.streams = []

        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **keywords):
            self.streams.append(keywords["stream"])
            raise BufferError("seen enough")

    spy = Spy()
    with pytest.raises(BufferError, match="seen enough"):
        tensum.einsum("ij->", spy)
    assert spy.streams == [1]  # the legacy default stream


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i2", "i4", "i8", "?"])
def test_buffers_in(dtype):
    data = np.arange(6).reshape(2, 3).astype(dtype)
    result = tensum.einsum("ij->ji", memoryview(data) if dtype[0] != "c" else data,
                           semiring="or_and" if dtype == "?" else "sum_product")
    np.testing.assert_array_equal(np.asarray(result), data.T)


def test_arrays_of_the_standard_library():
    numbers = array.array("d", [1.0, 5.0, 3.0])
    result = tensum.einsum("i->", numbers, semiring="max_plus")
    assert isinstance(result, tensum.Array) and float(np.asarray(result)) == 5.0
    out = array.array("d", [0.0] * 3)
    tensum.einsum("i,->i", numbers, np.array(1.0), out=out, semiring="max_plus")
    assert list(out) == [2.0, 6.0, 4.0]


# ---- tensum.Array out ----


def made(shape=(2, 3), dtype=float):
    return tensum.einsum("ij->ij", tensum.from_dlpack(np.arange(6, dtype=dtype).reshape(2, 3)))


def test_arrays_know_themselves():
    result = made()
    assert (result.shape, result.strides, result.ndim, result.dtype, result.size, len(result)) == ((2, 3), (3, 1), 2, "f64", 6, 2)
    assert result.device == "cpu" and result.__dlpack_device__() == (1, 0) and not result.read_only
    assert "f64" in repr(result)
    assert memoryview(result).tolist() == DATA.tolist()
    np.testing.assert_array_equal(result.numpy(), DATA)
    assert not hasattr(result, "__cuda_array_interface__")


@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0), (1, 3), (2, 0)])
def test_dlpack_out(max_version):
    result = made()
    capsule = result.__dlpack__(max_version=max_version)
    versioned = max_version is not None and max_version[0] >= 1
    assert _name(capsule) == (b"dltensor_versioned" if versioned else b"dltensor")
    kind = Versioned if versioned else Managed
    managed = kind.from_address(_pointer(capsule, _name(capsule)))
    tensor = managed.tensor
    if versioned:
        assert managed.major == 1 and managed.flags == 0
    assert [tensor.extents[i] for i in range(2)] == [2, 3]
    assert [tensor.strides[i] for i in range(2)] == [3, 1]
    assert tensor.data % 64 == 0 and tensor.byte_offset == 0


def test_scalars_have_strides_too():
    capsule = tensum.einsum("i->", array.array("d", [1.0])).__dlpack__()
    tensor = Managed.from_address(_pointer(capsule, b"dltensor")).tensor
    assert tensor.rank == 0 and bool(tensor.strides)


def test_numpy_imports_without_a_copy():
    result = made()
    theirs = np.from_dlpack(result)
    theirs[0, 0] = 99
    assert memoryview(result).tolist()[0][0] == 99
    del result
    gc.collect()
    assert theirs[1, 2] == 5


def test_memory_lives_as_long_as_any_consumer_and_no_longer():
    producer = Producer(DATA.copy())
    ours = tensum.from_dlpack(producer)
    theirs = np.from_dlpack(ours)
    capsule = ours.__dlpack__()
    del ours
    gc.collect()
    assert producer.deleted == 0
    np.testing.assert_array_equal(theirs, DATA)
    del capsule
    gc.collect()
    assert producer.deleted == 0
    del theirs
    gc.collect()
    assert producer.deleted == 1


def test_the_deleter_runs_on_any_thread():
    producer = Producer(DATA.copy())
    capsule = tensum.from_dlpack(producer).__dlpack__()
    managed = Managed.from_address(_pointer(capsule, b"dltensor"))
    _rename(capsule, b"used_dltensor")
    # ctypes gives the GIL away around the call: the deleter has to take care of itself.
    thread = threading.Thread(target=lambda: managed.deleter(ctypes.addressof(managed)))
    thread.start()
    thread.join()
    del capsule
    gc.collect()
    assert producer.deleted == 1


def test_a_buffer_is_held_and_let_go():
    data = bytearray(16)
    ours = tensum.from_dlpack(memoryview(data).cast("d"))
    with pytest.raises(BufferError):
        data.extend(b"x")
    del ours
    gc.collect()
    data.extend(b"x")


def test_from_dlpack_keeps_its_exporter_alive():
    source = np.arange(4.0)
    reference = weakref.ref(source)
    ours = tensum.from_dlpack(source)
    del source
    gc.collect()
    assert reference() is not None
    assert memoryview(ours).tolist() == [0, 1, 2, 3]
    del ours
    gc.collect()
    assert reference() is None


def test_read_only_arrays_stay_so():
    source = np.arange(4.0)
    source.flags.writeable = False
    ours = tensum.from_dlpack(source)
    assert ours.read_only
    with pytest.raises(BufferError):
        ours.__dlpack__()
    capsule = ours.__dlpack__(max_version=(1, 0))
    assert Versioned.from_address(_pointer(capsule, b"dltensor_versioned")).flags == 1
    with pytest.raises(ValueError, match="read-only"):
        tensum.einsum("i->i", np.arange(4.0), out=ours)


def test_requests_that_an_array_cannot_serve():
    result = made()
    with pytest.raises(BufferError):
        result.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError):
        result.__dlpack__(stream=7)
    copy = np.from_dlpack(result, copy=True)
    copy[...] = 0
    assert memoryview(result).tolist() == DATA.tolist()


def test_arrays_on_a_simulated_device():
    library = os.environ.get("TENSUM_SIMCUDA", "")
    if not os.path.exists(library):
        pytest.skip("the simulated CUDA driver is not built (TENSUM_SIMCUDA names it)")
    script = pathlib.Path(__file__).with_name("simulated.py")
    vendor = str(pathlib.Path(library).with_name("libsimcutensor.so"))
    environment = {**os.environ, "TENSUM_CUDA_LIBRARY": library, "TENSUM_CUTENSOR_LIBRARY": vendor}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 8, done.stdout


def test_sparse_is_refused():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="sparse"):
        tensum.einsum("ij->i", sparse.eye_array(3).tocsr())


def test_mixed_libraries_follow_the_first_operand():
    a = np.eye(3)
    b = tensum.from_dlpack(np.full((3, 3), 2.0))
    assert isinstance(tensum.einsum("ij,jk->ik", a, b), np.ndarray)
    assert isinstance(tensum.einsum("ij,jk->ik", b, a), tensum.Array)
