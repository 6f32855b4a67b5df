"""tensum.max_plus, tensum.sum_product, ...: one module per semiring with einsum, tensordot, transpose and matmul, which is what
opt_einsum wants of a backend, and the pair (einsum, tensordot) is what cotengra calls an implementation."""

import sys
import types

from . import _api, _core


def module(name):
    """The module of a semiring, registered so that it can be imported by name."""
    full = f"tensum.{name}"
    made = types.ModuleType(full, f"Contractions over {name}: {_core.semiring_info(name)[2]}.")

    def einsum(*operands, **options):
        return _api.einsum(*operands, semiring=name, **options)

    def tensordot(a, b, axes=2):
        return _tensordot(a, b, axes, name)

    def matmul(a, b, **options):
        return _api.matmul(a, b, name, **options)

    made.einsum, made.tensordot, made.transpose, made.matmul = einsum, tensordot, transpose, matmul
    made.implementation = (einsum, tensordot)
    made.__all__ = ["einsum", "tensordot", "transpose", "matmul", "implementation"]
    sys.modules[full] = made
    return made


def transpose(array, axes=None):
    """A transposed view."""
    axes = tuple(reversed(range(array.ndim))) if axes is None else tuple(axes)
    return array.permute(axes) if hasattr(array, "permute") else array.transpose(axes)


def _tensordot(a, b, axes, semiring):
    """NumPy's tensordot over a semiring."""
    left_rank, right_rank = len(a.shape), len(b.shape)
    if hasattr(axes, "__iter__"):
        left_axes, right_axes = axes
        left_axes = [left_axes] if hasattr(left_axes, "__index__") else list(left_axes)
        right_axes = [right_axes] if hasattr(right_axes, "__index__") else list(right_axes)
    else:
        count = int(axes)
        left_axes, right_axes = list(range(left_rank - count, left_rank)), list(range(count))
    if len(left_axes) != len(right_axes):
        raise ValueError(f"tensordot: {len(left_axes)} axes of the first array for {len(right_axes)} of the second")
    left, right = list(range(left_rank)), list(range(left_rank, left_rank + right_rank))
    for one, other in zip(left_axes, right_axes):
        if not -left_rank <= one < left_rank or not -right_rank <= other < right_rank:
            raise ValueError(f"tensordot: axes {one} and {other} for arrays of {left_rank} and {right_rank} axes")
        if a.shape[one] != b.shape[other]:
            raise ValueError(f"tensordot: axis {one} has extent {a.shape[one]}, axis {other} has {b.shape[other]}")
        right[other] = left[one]
    summed = {left[axis] for axis in left_axes}
    output = [label for label in left + right if label not in summed]
    # Spelt out as an expression: that is the form the fast path knows.
    if left_rank + right_rank <= 52:
        text = [chr(97 + n) if n < 26 else chr(39 + n) for n in range(left_rank + right_rank)]
        spell = "{},{}->{}".format(*("".join(text[label] for label in term) for term in (left, right, output)))
        return _api.einsum(spell, a, b, semiring=semiring)
    return _api.einsum(a, left, b, right, output, semiring=semiring)
