"""Random expressions against NumPy and against the definition."""

import numpy as np
import pytest
import tensum

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not installed")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from conftest import brute, integers  # noqa: E402

SETTINGS = dict(max_examples=150, deadline=None, derandomize=True)
EXACT = ["max_plus", "min_plus", "max_min", "min_max", "sum_product"]


@st.composite
def networks(draw, operands=3, rank=3, labels="abcde", repeat=True, broadcast=True):
    """(terms, output, arrays): small integers, any strides, now and then an extent of 0 or 1."""
    extents = {label: draw(st.sampled_from([0, 1, 2, 2, 3, 3, 4] if draw(st.booleans()) else [1, 2, 3])) for label in labels}
    count = draw(st.integers(1, operands))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    terms, arrays = [], []
    for _ in range(count):
        term = draw(st.lists(st.sampled_from(labels), max_size=rank, unique=not repeat))
        terms.append("".join(term))
        shape = [extents[label] for label in term]
        if broadcast:
            # An axis of extent 1 may stand for any; not for a label that the operand repeats.
            shape = [1 if draw(st.integers(0, 9)) == 0 and term.count(label) == 1 else extent for label, extent in zip(term, shape)]
        array = integers(rng, shape)
        arrays.append(restride(array, draw(st.integers(0, 3))))
    # Extents that survive: those of some operand.
    present = list(dict.fromkeys("".join(terms)))
    output = draw(st.lists(st.sampled_from(present), max_size=3, unique=True)) if present else []
    return terms, "".join(output), arrays


def restride(array, how):
    """The same values with other strides."""
    array = np.asarray(array)
    if not array.ndim:
        return array
    if how == 1:
        return np.asfortranarray(array)
    if how == 2:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    if how == 3:
        return np.ascontiguousarray(array[::-1])[::-1]
    return array


@given(networks(), st.sampled_from(EXACT))
@settings(**SETTINGS)
def test_values_are_the_definitions(network, semiring):
    terms, output, arrays = network
    expression = ",".join(terms) + "->" + output
    result = tensum.einsum(expression, *arrays, semiring=semiring)
    np.testing.assert_array_equal(result, brute(semiring, terms, output, arrays))


@given(networks(operands=4, broadcast=False))
@settings(**SETTINGS)
def test_sum_product_is_numpys(network):
    terms, output, arrays = network
    expression = ",".join(terms) + "->" + output
    np.testing.assert_array_equal(tensum.einsum(expression, *arrays), np.einsum(expression, *arrays))


@given(networks(operands=4, broadcast=False), st.integers(0, 1000))
@settings(**SETTINGS)
def test_limits_and_orders_change_no_value(network, seed):
    terms, output, arrays = network
    expression = ",".join(terms) + "->" + output
    plan = tensum.Plan(expression, *arrays, semiring="max_plus", seed=seed)
    expected = plan(*arrays)
    np.testing.assert_array_equal(tensum.einsum(expression, *arrays, semiring="max_plus", optimize=False), expected)
    half = plan.cost.peak_bytes_value // 2
    if half:
        try:
            limited = tensum.einsum(expression, *arrays, semiring="max_plus", memory_limit=half)
        except MemoryError:
            return
        np.testing.assert_array_equal(limited, expected)


@given(networks(operands=3, broadcast=False))
@settings(**SETTINGS)
def test_tropical_gradients_are_one_hot_sums(network):
    terms, output, arrays = network
    expression = ",".join(terms) + "->" + output
    plan = tensum.Plan(expression, *arrays, semiring="max_plus")
    value, slopes = plan.gradient(*arrays)
    for slope in slopes:
        # Every output element sends its 1 to exactly one element of every operand (to none for an empty sum).
        assert slope.sum() in (value.size, 0.0) and (slope >= 0).all()
        if np.isfinite(value).all():
            assert slope.sum() == value.size


@given(networks(operands=3, broadcast=True))
@settings(**SETTINGS)
def test_plans_survive_a_round_trip(network):
    terms, output, arrays = network
    import tempfile

    plan = tensum.Plan(",".join(terms) + "->" + output, *arrays, semiring="min_plus")
    with tempfile.TemporaryDirectory() as folder:
        plan.save(folder + "/plan.json")
        again = tensum.Plan.load(folder + "/plan.json")
    np.testing.assert_array_equal(again(*arrays), plan(*arrays))
    assert again.cost == plan.cost
