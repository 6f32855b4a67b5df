"""einsum, matmul, contract_path, and what there is to know."""

from typing import TYPE_CHECKING

from . import _core
from ._libraries import Operands, dtype_name, library_of
from ._network import Structure, interleaved
from ._plan import VALUE, WINNERS, Compiled, Cost, compiled, find_tree, progress_of

if TYPE_CHECKING:
    from typing import Any

# Set by tensum._torch: is PyTorch tracing us (torch.compile, torch.export)?
_tracing: "Any" = None
_traced_einsum: "Any" = None


def einsum(*operands, **options):
    """einsum(expression, *arrays, semiring="sum_product", out=None, optimize="auto", memory_limit=None, dtype=None,
    sizes=None, check=True, progress=None)

    Contract arrays over a semiring, by NumPy's and PyTorch's rules; also in NumPy's interleaved form
    `einsum(a, [0, 1], b, [1, 2], [0, 2])`, where labels may be anything hashable.

    The result is an array of the library of the first operand, on its device. `sizes` gives extents of labels that occur in
    the output only; `memory_limit` bounds the bytes of a run: intermediates, packing; `dtype` casts the operands, and nothing else does.
    """
    if _tracing is not None and _tracing():
        return _traced_einsum(*operands, **options)
    return _core.einsum(*operands, **options)


def _einsum(
    *operands,
    semiring="sum_product",
    out=None,
    optimize="auto",
    memory_limit=None,
    dtype=None,
    sizes=None,
    check=True,
    progress=None,
):
    """Everything that the fast path in C leaves."""
    if not operands:
        raise TypeError("einsum: expected an expression and arrays")
    usual = sizes is None and progress is None
    order, recent = _hashable(optimize), None
    if isinstance(operands[0], str):
        if dtype is not None and usual and len(operands) > 1:
            # Cast, the call is one as any other.
            name = dtype_name(dtype)
            arrays = [library_of(array).cast(array, name) for array in operands[1:]]
            return _core.einsum(
                operands[0], *arrays, semiring=semiring, out=out, optimize=optimize, memory_limit=memory_limit, check=check
            )
        if usual and out is None and dtype is None:
            recent = operands[0], semiring, order, memory_limit, check
            for program in _recent.get(recent, ()):
                done = _core.call(program, *operands[1:])
                if done is not NotImplemented:
                    return done
        arrays, structure = operands[1:], Structure(operands[0], sizes=sizes)
    else:
        if len(operands) < 2:
            raise TypeError("einsum: expected an expression, or arrays followed by their labels")
        expression = _spelled(operands) if usual else None
        if expression is not None:
            try:
                return _core.einsum(
                    expression, *operands[0:-1:2], semiring=semiring, out=out, optimize=optimize, memory_limit=memory_limit,
                    dtype=dtype, check=check,
                )
            except ValueError:
                pass  # once more with the caller's own labels, so that the message has them
        arrays, terms, output = interleaved(operands)
        structure = Structure(operands=terms, output=output, sizes=sizes)
    semiring = _core.semiring_info(semiring)[0]
    wanted = None if dtype is None else dtype_name(dtype)
    # Configures the fast path for the libraries in use.
    for array in arrays:
        if library_of(array).name == "torch":
            from ._torch import einsum as torch_einsum

            return torch_einsum(structure, arrays, semiring, out, optimize, memory_limit, wanted, check, progress)
    found = Operands(arrays, wanted)
    if not arrays and wanted is not None:
        found.dtype = wanted
    made = compiled(structure, found.shapes, semiring, found.dtype, optimize, memory_limit, check)
    result = made.value(found, out, progress_of(progress))
    if recent is not None and order is not None:
        _remember(recent, made.program(VALUE, found.device))
    return result


# Programs of late calls on NumPy arrays and PyTorch tensors with options that the fast path in C leaves, by their options; and
# the expressions of label lists.
_recent: dict = {}
_expressions: dict = {}


def _hashable(optimize):
    """`optimize` as a part of a key; None if it cannot be one."""
    if isinstance(optimize, (str, bool, _core.Tree)):
        return optimize
    try:
        return tuple(step if isinstance(step, str) else tuple(step) for step in optimize)
    except TypeError:
        return None


def _remember(key, program):
    if len(_recent) >= 256:
        _recent.clear()
    known = _recent.setdefault(key, [])
    if program not in known:
        known.insert(0, program)
        del known[4:]


def _spelled(operands):
    """The expression of interleaved operands; None where their labels are not as usual."""
    try:
        terms = tuple(map(tuple, operands[1::2]))
        key = terms, len(operands) % 2
        if len(operands) % 2:
            key = terms, tuple(operands[-1])
        found = _expressions.get(key)
        if found is None:
            if len(_expressions) >= 512:
                _expressions.clear()
            arrays, lists, output = interleaved(operands)
            labels = {label for term in lists for label in term}
            if len(labels) > 1000 or any(isinstance(term, str) for term in operands[1::2]):
                return None
            found = _expressions[key] = Structure(operands=lists, output=output).spell()[0]
        return found
    except TypeError:
        return None


_core.einsum_configure("fallback", _einsum)


def matmul_expression(left_rank, right_rank):
    """The expression of NumPy's matmul for two ranks."""
    if left_rank == 0 or right_rank == 0:
        raise ValueError(f"matmul: operand {0 if left_rank == 0 else 1} has no axes")
    if left_rank == 1 and right_rank == 1:
        return "k,k->"
    if left_rank == 1:
        return "k,...kj->...j"
    if right_rank == 1:
        return "...ik,k->...i"
    return "...ik,...kj->...ij"


def matmul(a, b, semiring="sum_product", winners=False, out=None):
    """Product of matrices (of stacks of them, of vectors) as NumPy's matmul, over a semiring.

    With `winners` also the positions of the sum that were selected: (value, winners); the first of equals wins. `winners` is
    True or "int64" for 64-bit, "int32" for 32-bit positions.
    """
    expression = matmul_expression(_rank(a), _rank(b))
    if not winners:
        return einsum(expression, a, b, semiring=semiring) if out is None else einsum(expression, a, b, semiring=semiring, out=out)
    kind = "i64" if winners is True else dtype_name(winners)
    if kind not in ("i32", "i64"):
        raise TypeError(f"winners: expected True, 'int64' or 'int32', got {winners!r}")
    if library_of(a).name == "torch":
        from ._torch import matmul_winners

        return matmul_winners(expression, a, b, semiring, kind, out)
    key = expression, semiring, kind
    for program in _recent.get(key, ()) if out is None else ():
        done = _core.call(program, a, b)
        if done is not NotImplemented:
            return done
    found = Operands([a, b])
    made = compiled(Structure(expression), found.shapes, _core.semiring_info(semiring)[0], found.dtype)
    result = made.winners(found, kind, out)
    _remember(key, made.program(VALUE | WINNERS, found.device, winners=kind))
    return result


def _rank(array):
    shape = getattr(array, "shape", None)
    return len(shape if shape is not None else _core.describe(array)[1])


class PathInfo:
    """What contract_path found: `cost`, `path`, `sliced`, and a table for people."""

    def __init__(self, made, path):
        self.cost = Cost(**made.plan.cost())
        self.path = path
        self.sliced = [made.names.get(label, label) for label in made.plan.tree.slices]
        self._steps = [made.plan.step(index) for index in range(self.cost.steps)]
        self._names = made.names

    def __str__(self):
        cost = self.cost
        lines = [
            f"log2 pairs {cost.tc:.3f}, largest {cost.sc:.3f}, read and written {cost.rw:.3f}; {cost.slices} slice(s)",
            f"intermediates: {cost.peak_bytes_value} bytes",
            f"{'step':>5} {'operands':>14} {'result':>8}  {'log2 pairs':>10} {'log2 size':>10}  labels",
        ]
        for index, (a, b, result, labels, pairs, elements) in enumerate(self._steps):
            names = "".join(f"{self._names.get(label, label)}" for label in labels)
            pair = f"{a}" if b < 0 else f"{a}, {b}"
            lines.append(f"{index:>5} {pair:>14} {result:>8}  {pairs:>10.2f} {elements:>10.2f}  {names}")
        return "\n".join(lines)

    __repr__ = __str__


def contract_path(*operands, optimize="auto", memory_limit=None, sizes=None, semiring="sum_product", dtype=None, seed=0,
                  work=None, time_limit=None, minimize=None, progress=None):
    """A contraction order: (path, info). The path is a list of positions, as NumPy and opt_einsum write it.

    Operands are arrays or shapes. Over any semiring the order is found in the same way; `dtype` (of the first array, else f64)
    counts for memory.
    """
    if not operands:
        raise TypeError("contract_path: expected an expression and arrays or shapes")
    if isinstance(operands[0], str):
        items, structure = operands[1:], Structure(operands[0], sizes=sizes)
    else:
        items, terms, output = interleaved(operands)
        structure = Structure(operands=terms, output=output, sizes=sizes)
    shapes = tuple(
        tuple(int(extent) for extent in (item if isinstance(item, (tuple, list)) else item.shape)) for item in items
    )
    if dtype is None:
        arrays = [item for item in items if not isinstance(item, (tuple, list))]
        name = dtype_name(arrays[0].dtype) if arrays else "f64"
    else:
        name = dtype_name(dtype)
    network, names = structure.build(shapes)
    tree = find_tree(network, optimize, semiring=semiring, dtype=name, memory_limit=memory_limit, seed=seed, work=work, time_limit=time_limit,
                     minimize=minimize, progress=progress_of(progress))
    made = Compiled(network, names, tree, _core.semiring_info(semiring)[0], name, memory_limit)
    path = [tuple(step) for step in tree.path()]
    return path, PathInfo(made, path)


def asarray(array):
    """The array as a `tensum.Array`, without a copy."""
    return _core.array_from(array)


def semirings():
    """{name: one line about it}."""
    return {name: _core.semiring_info(name)[2] for name in _core.semirings()}


def dtypes():
    """Names of the dtypes."""
    return list(_core.dtypes())


def methods():
    """Names of the optimizers that `optimize` takes."""
    return list(_core.order_methods())


def supports(semiring, dtype):
    """What a semiring can do for a dtype: a set out of "value", "winners", "gradient", "decode"."""
    bits = _core.supports(semiring, dtype_name(dtype))
    return {
        name
        for name, bit in (("value", _core.VALUE), ("winners", _core.WINNERS), ("gradient", _core.GRADIENT), ("decode", _core.DECODE))
        if bits & bit
    }


def _forget_programs():
    """Those kept for later calls were made under other settings."""
    _core.cache_clear()
    from ._plan import cache

    cache.entries.clear()
    _recent.clear()


def set_threads(count):
    """Use `count` threads (0: all that the process may use) in programs made from now on. Returns their number."""
    _forget_programs()
    return _core.set_threads(count)


_CUTENSOR_CHOICES = ("auto", "never", "always")


def set_cutensor(when, device="cuda:0"):
    """Whether cuTENSOR, where it is installed, contracts sum_product on a CUDA device, in programs made from now on: "auto" (where
    it measured faster, the default), "never" or "always" (wherever it can). Plans keep what they were made with. ValueError for
    other words and for devices that are not CUDA's."""
    if when not in _CUTENSOR_CHOICES:
        raise ValueError(f"set_cutensor: {when!r}; expected one of {', '.join(_CUTENSOR_CHOICES)}")
    _core.cutensor_choose(device, _CUTENSOR_CHOICES.index(when))
    _forget_programs()


def device_stats(device="cuda:0"):
    """What was done on a device since the process began, as a dictionary of counts: `uploads` and `downloads` (copies from and
    to the host, with their bytes), `launches`, `allocations`, `synchronisations`, ... All 0 for the CPU."""
    return _core.device_stats(device)


def info():
    """Version, devices and kernels, as a dictionary."""
    devices = {"cpu": _core.device_info("cpu")}
    for index in range(_core.device_count("cuda")):
        devices[f"cuda:{index}"] = _core.device_info(f"cuda:{index}")
    return {"version": _core.version(), "devices": devices, "semirings": list(_core.semirings()), "dtypes": list(_core.dtypes())}
