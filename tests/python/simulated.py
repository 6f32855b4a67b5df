"""Arrays on the simulated CUDA device, in a process of its own: prints one line per thing that is as it should be.

The simulator keeps device memory out of the host's reach, so that whatever touches it behind the driver's back crashes.
"""

import ctypes
import gc

import numpy as np
import tensum
from tensum import _core, _cuda

driver = _cuda._load()


def upload(array):
    array = np.ascontiguousarray(array)
    made = _cuda.empty(array.shape, tensum._libraries.dtype_name(array.dtype), 0, 0)
    with _cuda._Current(0):
        to = ctypes.c_uint64(made._pointer)
        _cuda._call(driver, "cuMemcpyHtoDAsync_v2", to, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), None)
        _cuda._call(driver, "cuStreamSynchronize", None)
    return made


def download(array):
    result = np.empty(array.shape, tensum._libraries.numpy_dtype(array.dtype))
    with _cuda._Current(0):
        source = ctypes.c_uint64(array._pointer)
        _cuda._call(driver, "cuMemcpyDtoHAsync_v2", ctypes.c_void_p(result.ctypes.data), source, ctypes.c_size_t(result.nbytes), None)
        _cuda._call(driver, "cuStreamSynchronize", None)
    return result


rng = np.random.default_rng(1)
a, b = rng.integers(-9, 10, (5, 7)).astype("f4"), rng.integers(-9, 10, (7, 6)).astype("f4")
x, y = upload(a), upload(b)
assert x.device == "cuda:0" and x.__dlpack_device__() == (2, 0)
expected = (a[:, :, None] + b).max(1)

tensum.matmul(x, y, "max_plus")
before = tensum.device_stats("cuda:0")
value = tensum.matmul(x, y, "max_plus")
after = tensum.device_stats("cuda:0")
assert (after["uploads"], after["downloads"]) == (before["uploads"], before["downloads"]), (before, after)
assert (after["launches"], after["graph_launches"]) == (before["launches"], before["graph_launches"] + 1)
np.testing.assert_array_equal(download(value), expected)
print("values stay on the device")

plan = tensum.Plan("ij,jk->ik", (5, 7), (7, 6), semiring="max_plus", dtype="f4")
seed = rng.random((5, 6)).astype("f4")
cotangent = upload(seed)
plan.gradient(x, y, cotangent=cotangent)
before = tensum.device_stats("cuda:0")
_, slopes = plan.gradient(x, y, cotangent=cotangent)
after = tensum.device_stats("cuda:0")
assert (after["uploads"], after["downloads"]) == (before["uploads"], before["downloads"]), (before, after)
winners = (a[:, :, None] + b).argmax(1)
slope = np.zeros_like(a)
for i, k in np.ndindex(5, 6):
    slope[i, winners[i, k]] += seed[i, k]
np.testing.assert_array_equal(download(slopes[0]), slope)
print("gradients stay on the device")

value, chosen = tensum.matmul(x, y, "max_plus", winners="int32")
np.testing.assert_array_equal(download(chosen), winners)
print("winners stay on the device")


class Interface:
    """Nothing but the older protocol, with strides in bytes: every other row, backwards."""

    def __init__(self, array, strided):
        self.keep = array
        whole = array.__cuda_array_interface__
        rows, columns = whole["shape"]
        step = columns * 4
        self.__cuda_array_interface__ = whole if not strided else {
            **whole, "shape": (rows // 2, columns), "strides": (-2 * step, 4), "data": (whole["data"][0] + (rows - 1) * step, True)
        }


for strided in (False, True):
    rows = a[::-1][: 2 * (len(a) // 2) : 2] if strided else a
    value = tensum.einsum("ij,jk->ik", Interface(x, strided), y, semiring="max_plus")
    np.testing.assert_array_equal(download(value), (rows[:, :, None] + b).max(1))
print("__cuda_array_interface__ is understood")


class Capsule:
    """Nothing but DLPack; remembers the streams that it was asked for."""

    def __init__(self, array):
        self.array, self.streams = array, []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream, max_version=max_version)


producer = Capsule(x)
np.testing.assert_array_equal(download(tensum.einsum("ij->ji", producer)), a.T)
assert producer.streams and set(producer.streams) == {1}, producer.streams
for stream in (None, 1, -1):
    x.__dlpack__(stream=stream)
try:
    x.__dlpack__(stream=0)
except ValueError as error:
    assert "ambiguous" in str(error)
else:
    raise AssertionError("stream 0 was taken")
print("streams are named, never 0")

out = upload(np.zeros((6, 5), "f4"))
assert tensum.einsum("ij,jk->ki", x, y, semiring="max_plus", out=out) is out
np.testing.assert_array_equal(download(out), expected.T)
for bad, error in ((np.zeros((6, 5), "f4"), RuntimeError), (upload(np.zeros((5, 6), "f4")), ValueError)):
    try:
        tensum.einsum("ij,jk->ki", x, y, semiring="max_plus", out=bad)
    except error:
        pass
    else:
        raise AssertionError("a wrong out= was taken")
try:
    tensum.einsum("ij,jk->ik", x, b)
except RuntimeError as error:
    assert "cuda:0" in str(error) and "cpu" in str(error)
else:
    raise AssertionError("two devices were taken")
other = _cuda.empty((7, 6), "f32", 1, 0)
try:
    tensum.einsum("ij,jk->ik", x, other)
except RuntimeError as error:
    assert "cuda:0" in str(error) and "cuda:1" in str(error)
else:
    raise AssertionError("two devices were taken")
print("devices are not mixed")

# Our own kernels are one graph; what the vendor's library enqueues is not counted as ours.
graphs = {}
for when in ("never", "always", "auto"):
    tensum.set_cutensor(when)
    tensum.matmul(x, y)
    before = tensum.device_stats("cuda:0")["graph_launches"]
    value = tensum.matmul(x, y)
    graphs[when] = tensum.device_stats("cuda:0")["graph_launches"] - before
    np.testing.assert_array_equal(download(value), a @ b)  # small integers: sums are exact
assert graphs == {"never": 1, "always": 0, "auto": 1}, graphs
for wrong in (("sometimes",), ("auto", "cpu")):
    try:
        tensum.set_cutensor(*wrong)
    except ValueError:
        pass
    else:
        raise AssertionError(f"{wrong} was taken")
print("cuTENSOR is used where it is asked for")

tensum.matmul(x, y, "max_plus")
held = tensum.device_stats("cuda:0")["held_bytes"]
for _ in range(20):
    tensum.matmul(x, y, "max_plus")
gc.collect()
assert tensum.device_stats("cuda:0")["held_bytes"] == held
print("nothing is held")
