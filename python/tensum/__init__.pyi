import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, overload

import numpy as np

__version__: str

_Array = TypeVar("_Array")
_Progress = Callable[[str, float], object] | bool | None
_Optimize = str | bool | Sequence[Sequence[int]] | Sequence[Any]
_Sizes = Mapping[Any, int] | None

class CancelledError(RuntimeError): ...
class InfeasibleError(ValueError): ...
class NotANumberError(ValueError): ...

class Array:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def read_only(self) -> bool: ...
    def numpy(self) -> np.ndarray: ...
    def __len__(self) -> int: ...
    def __array__(self, dtype: Any = ..., copy: bool | None = ...) -> np.ndarray: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = ...,
        max_version: tuple[int, int] | None = ...,
        dl_device: tuple[int, int] | None = ...,
        copy: bool | None = ...,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Cost(NamedTuple):
    tc: float
    sc: float
    rw: float
    steps: int
    slices: int
    peak_bytes_value: int
    peak_bytes_winners: int
    peak_bytes_gradient: int
    peak_bytes_decode: int

class Decoded(NamedTuple):
    value: Any
    assignment: dict[Any, Any]

class Answer(NamedTuple):
    value: int | float
    value_name: str
    assignment: tuple[int, ...] | None
    assignments: list[tuple[int, ...]]
    values: list[float]
    marginals: list[list[float]]
    text: str
    note: str
    semiring: str
    dtype: str
    cost: Cost
    order_seconds: float
    run_seconds: float

class PathInfo:
    cost: Cost
    path: list[tuple[int, ...]]
    sliced: list[Any]

class Plan:
    semiring: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    def __init__(
        self,
        expression: Any,
        *operands: Any,
        semiring: str = ...,
        dtype: Any = ...,
        optimize: _Optimize = ...,
        memory_limit: float | None = ...,
        sizes: _Sizes = ...,
        constants: Sequence[int] | None = ...,
        seed: int = ...,
        work: float | None = ...,
        time_limit: float | None = ...,
        minimize: str | None = ...,
        modulus: int = ...,
        check: bool = ...,
        progress: _Progress = ...,
    ) -> None: ...
    @classmethod
    def from_cotengra(cls, tree: Any, *, semiring: str = ..., dtype: Any = ..., **options: Any) -> Plan: ...
    @classmethod
    def load(cls, path: Any) -> Plan: ...
    def save(self, path: Any) -> None: ...
    def __call__(self, *arrays: _Array, out: Any = ..., strip_exponent: bool = ..., progress: _Progress = ...) -> Any: ...
    def gradient(
        self, *arrays: _Array, cotangent: Any = ..., wanted: Sequence[bool] | None = ..., progress: _Progress = ...
    ) -> tuple[_Array, list[_Array | None]]: ...
    def decode(self, *arrays: Any, positions: Any = ..., progress: _Progress = ...) -> Decoded: ...
    def winners(self, *arrays: _Array, dtype: Any = ...) -> tuple[_Array, _Array]: ...
    def slices(self, *arrays: _Array, first: int, count: int, out: Any = ...) -> _Array: ...
    def steps(self) -> list[tuple[int, int, int, tuple[int, ...], float, float]]: ...
    @property
    def cost(self) -> Cost: ...
    @property
    def path(self) -> list[tuple[int, ...]]: ...
    @property
    def ssa_path(self) -> list[tuple[int, ...]]: ...
    @property
    def sliced(self) -> list[Any]: ...

def einsum(
    *operands: Any,
    semiring: str = ...,
    out: Any = ...,
    optimize: _Optimize = ...,
    memory_limit: float | None = ...,
    dtype: Any = ...,
    sizes: _Sizes = ...,
    check: bool = ...,
    progress: _Progress = ...,
) -> Any: ...
def matmul(a: _Array, b: _Array, semiring: str = ..., winners: bool | str | type = ..., out: Any = ...) -> Any: ...
def contract_path(
    *operands: Any,
    optimize: _Optimize = ...,
    memory_limit: float | None = ...,
    sizes: _Sizes = ...,
    semiring: str = ...,
    dtype: Any = ...,
    seed: int = ...,
    work: float | None = ...,
    time_limit: float | None = ...,
    minimize: str | None = ...,
    progress: _Progress = ...,
) -> tuple[list[tuple[int, ...]], PathInfo]: ...
@overload
def solve(
    path: Any,
    *,
    problem: str | None = ...,
    task: str | None = ...,
    evidence: Any = ...,
    query: Any = ...,
    front_end: str | None = ...,
    semiring: str | None = ...,
    dtype: Any = ...,
    count: int = ...,
    settings: Mapping[str, Any] | None = ...,
    order: str | os.PathLike[str] = ...,
    minimize: str | None = ...,
    memory_limit: float | None = ...,
    time_limit: float | None = ...,
    work: float | None = ...,
    seed: int = ...,
    device: str = ...,
    progress: _Progress = ...,
    output: str | os.PathLike[str] | None = ...,
    save_order: str | os.PathLike[str] | None = ...,
    plot: str | os.PathLike[str] | None = ...,
    dry_run: Literal[False] = ...,
) -> Answer: ...
@overload
def solve(
    path: Any,
    *,
    problem: str | None = ...,
    task: str | None = ...,
    evidence: Any = ...,
    query: Any = ...,
    front_end: str | None = ...,
    semiring: str | None = ...,
    dtype: Any = ...,
    count: int = ...,
    settings: Mapping[str, Any] | None = ...,
    order: str | os.PathLike[str] = ...,
    minimize: str | None = ...,
    memory_limit: float | None = ...,
    time_limit: float | None = ...,
    work: float | None = ...,
    seed: int = ...,
    device: str = ...,
    progress: _Progress = ...,
    output: str | os.PathLike[str] | None = ...,
    save_order: str | os.PathLike[str] | None = ...,
    plot: str | os.PathLike[str] | None = ...,
    dry_run: Literal[True],
) -> Cost: ...
def front_ends() -> dict[str, tuple[str, list[str], list[str]]]: ...
def asarray(array: Any) -> Array: ...
def from_dlpack(array: Any) -> Array: ...
def cache_clear() -> None: ...
def cache_info() -> dict[str, int]: ...
def semirings() -> dict[str, str]: ...
def dtypes() -> list[str]: ...
def methods() -> list[str]: ...
def supports(semiring: str, dtype: Any) -> set[str]: ...
def set_threads(count: int) -> int: ...
def set_cutensor(when: Literal["auto", "never", "always"], device: str = ...) -> None: ...
def device_stats(device: str = ...) -> dict[str, int]: ...
def info() -> dict[str, Any]: ...

class _Semiring:
    implementation: tuple[Callable[..., Any], Callable[..., Any]]
    @staticmethod
    def einsum(*operands: Any, **options: Any) -> Any: ...
    @staticmethod
    def tensordot(a: Any, b: Any, axes: Any = ...) -> Any: ...
    @staticmethod
    def transpose(array: Any, axes: Sequence[int] | None = ...) -> Any: ...
    @staticmethod
    def matmul(a: Any, b: Any, **options: Any) -> Any: ...

sum_product: _Semiring
max_plus: _Semiring
min_plus: _Semiring
max_times: _Semiring
min_times: _Semiring
max_min: _Semiring
min_max: _Semiring
or_and: _Semiring
xor_and: _Semiring
log_sum_exp: _Semiring
max_plus_count: _Semiring
sum_product_mod: _Semiring
