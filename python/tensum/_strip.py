"""Values that overflow any float: a mantissa and a decimal exponent, scaled after every step."""

import itertools
import math

from ._libraries import library_of


def strip(plan, arrays):
    """(mantissa, exponent) of a sum-product plan: value = mantissa * 10**exponent; the largest |mantissa| is 1."""
    if plan.semiring != "sum_product" or plan.dtype[0] not in "fc":
        raise TypeError(f"strip_exponent: floats over sum_product are needed, the plan is {plan.semiring} {plan.dtype}")
    _, made = plan._operands(arrays)
    network = made.network
    library = library_of(arrays[0]).name if arrays else "numpy"
    if library not in ("numpy", "torch"):
        raise TypeError(f"strip_exponent: NumPy arrays or PyTorch tensors are needed, got {type(arrays[0]).__name__}")
    slices = made.plan.tree.slices
    extents = dict(zip(network.labels, network.extents))
    total = None
    for choice in itertools.product(*(range(extents[label]) for label in slices)):
        part = _slice(made, arrays, dict(zip(slices, choice)), extents)
        total = part if total is None else _add(total, part)
    # No slice at all: a sliced label of extent 0, whose sum is empty.
    return (plan(*arrays), 0.0) if total is None else total


def _slice(made, arrays, choice, extents):
    """One slice, step by step; every intermediate is divided by its largest element."""
    from ._api import einsum

    network = made.network
    count = network.operand_count
    output = network.operand(-1)[0]
    steps = made.plan.tree.ssa() or ([(0,)] if count == 1 else [()])
    terms, values = {}, {}
    for index, array in enumerate(arrays):
        labels = network.operand(index)[0]
        terms[index] = [label for label in labels if label not in choice]
        # An axis of extent 1 broadcasts against the slice.
        pick = tuple(
            (choice[label] if extent > 1 else 0) if label in choice else slice(None) for label, extent in zip(labels, array.shape)
        )
        values[index] = array[pick] if choice else array
    exponent = 0.0
    for number, step in enumerate(steps):
        used = [(values.pop(child), terms.pop(child)) for child in step]
        inside = {label for _, term in used for label in term}
        if values:
            outside = set(output).union(*terms.values())
            kept = [label for label in dict.fromkeys(label for _, term in used for label in term) if label in outside]
        else:
            kept = [label for label in output if label not in choice]
        sizes = {label: extents[label] for label in kept if label not in inside}
        value = einsum(*(part for pair in used for part in pair), kept, sizes=sizes)
        largest = float(abs(value).max()) if 0 not in value.shape else 0.0
        if 0.0 < largest < math.inf:
            value = value / largest
            exponent += math.log10(largest)
        values[count + number], terms[count + number] = value, kept
    (value,) = values.values()
    if any(label in choice for label in output):
        value = _spread(value, output, choice, extents)
    return value, exponent


def _spread(value, output, choice, extents):
    """The slice's value at its place in the whole output; zeros elsewhere."""
    shape = [extents[label] for label in output]
    if hasattr(value, "new_zeros"):
        whole = value.new_zeros(shape)
    else:
        import numpy

        whole = numpy.zeros(shape, value.dtype)
    whole[tuple(choice[label] if label in choice else slice(None) for label in output)] = value
    return whole


def _add(total, part):
    (left, left_exponent), (right, right_exponent) = total, part
    exponent = max(left_exponent, right_exponent)
    # Scaling by a Python float keeps the dtype.
    return left * 10.0 ** (left_exponent - exponent) + right * 10.0 ** (right_exponent - exponent), exponent
