"""The few driver calls that arrays on CUDA devices need here: events between streams, and memory for tensum.Array."""

import ctypes
import math
import os
import threading

from . import _core

_lock = threading.Lock()
_driver = None


def _load():
    global _driver
    with _lock:
        if _driver is None:
            try:
                library = ctypes.CDLL(os.environ.get("TENSUM_CUDA_LIBRARY", "libcuda.so.1"))
            except OSError as error:
                raise RuntimeError(f"the CUDA driver cannot be loaded: {error}") from None
            _call(library, "cuInit", ctypes.c_uint(0))
            _driver = library
    return _driver


def _call(library, name, *arguments):
    code = getattr(library, name)(*arguments)
    if code != 0:
        text = ctypes.c_char_p()
        library.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"{name}: {(text.value or b'error').decode()} ({code})")


_contexts: dict = {}


def _context(index):
    """The device's primary context, retained once and for all, as the library does."""
    found = _contexts.get(index)
    if found is None:
        driver = _load()
        with _lock:
            found = _contexts.get(index)
            if found is None:
                device, found = ctypes.c_int(), ctypes.c_void_p()
                _call(driver, "cuDeviceGet", ctypes.byref(device), ctypes.c_int(index))
                _call(driver, "cuDevicePrimaryCtxRetain", ctypes.byref(found), device)
                _contexts[index] = found
    return found


class _Current:
    """The device's primary context, current for the block."""

    def __init__(self, index):
        self.context, self.driver = _context(index), _load()

    def __enter__(self):
        _call(self.driver, "cuCtxPushCurrent_v2", self.context)
        return self.driver

    def __exit__(self, *unused):
        self.driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def order(index, before, after):
    """Make `after` wait for the work that is on `before` now. Streams are numbers; 0 and 1: the legacy default one."""
    before, after = before or 1, after or 1
    if before == after:
        return
    with _Current(index) as driver:
        event = ctypes.c_void_p()
        _call(driver, "cuEventCreate", ctypes.byref(event), ctypes.c_uint(2))  # 2: no timing
        try:
            _call(driver, "cuEventRecord", event, ctypes.c_void_p(before))
            _call(driver, "cuStreamWaitEvent", ctypes.c_void_p(after), event, ctypes.c_uint(0))
        finally:
            driver.cuEventDestroy_v2(event)


class _Memory:
    def __init__(self, index, size):
        self.index, self.address = index, ctypes.c_uint64()
        with _Current(index) as driver:
            _call(driver, "cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(max(size, 1)))

    def __del__(self):
        if self.address.value:
            try:
                with _Current(self.index) as driver:
                    driver.cuMemFree_v2(self.address)
            except RuntimeError:
                pass  # the driver is being unloaded: the memory goes with the process


def empty(shape, dtype, index, stream):
    """A tensum.Array in device memory."""
    memory = _Memory(index, math.prod(shape) * _core.dtype_info(dtype)[1])
    return _core.array_empty(shape, dtype, (2, index), memory.address.value, memory, stream or 1)
