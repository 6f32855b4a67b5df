"""What the tests share: the data folder, and contractions by brute force."""

import itertools
import os
import pathlib

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a CUDA device and its libraries")


def data_folder():
    folder = pathlib.Path(os.environ.get("TENSUM_DATA", ROOT / ".." / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the data folder {folder} is not there (TENSUM_DATA names it)")
    return folder


@pytest.fixture
def data():
    return data_folder()


# Per semiring: product of two arrays, reduction of one array over its last axis, and the value of an empty sum.
def _lse(array):
    top = array.max(-1, keepdims=True) if array.shape[-1] else np.full((*array.shape[:-1], 1), -np.inf)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(array - top).sum(-1)) + top[..., 0]


ALGEBRA = {
    "sum_product": (np.multiply, lambda x: x.sum(-1), 0.0, 1.0),
    "max_plus": (np.add, lambda x: x.max(-1, initial=-np.inf), -np.inf, 0.0),
    "min_plus": (np.add, lambda x: x.min(-1, initial=np.inf), np.inf, 0.0),
    "max_times": (np.multiply, lambda x: x.max(-1, initial=0.0), 0.0, 1.0),
    "min_times": (np.multiply, lambda x: x.min(-1, initial=np.inf), np.inf, 1.0),
    "max_min": (np.minimum, lambda x: x.max(-1, initial=-np.inf), -np.inf, np.inf),
    "min_max": (np.maximum, lambda x: x.min(-1, initial=np.inf), np.inf, -np.inf),
    "or_and": (np.logical_and, lambda x: x.any(-1), False, True),
    "xor_and": (np.logical_and, lambda x: np.logical_xor.reduce(x, axis=-1), False, True),
    "log_sum_exp": (np.add, _lse, -np.inf, 0.0),
}


def brute(semiring, terms, output, arrays, sizes=None):
    """The contraction by its definition: the product over all labels, then the sum. `terms` are label strings."""
    multiply, add, zero, one = ALGEBRA[semiring]
    extents = dict(sizes or {})
    for term, array in zip(terms, arrays):
        for label, extent in zip(term, array.shape):
            extents[label] = extent if extents.get(label, 1) == 1 else extents[label]
    labels = list(dict.fromkeys([*output, *"".join(terms)]))
    dtype = arrays[0].dtype if arrays else np.dtype(np.float64)
    joint = np.full([extents[label] for label in labels], one, dtype)
    for index in np.ndindex(*joint.shape):
        where = dict(zip(labels, index))
        value = joint[index]
        for term, array in zip(terms, arrays):
            place = tuple(where[label] if extent > 1 else 0 for label, extent in zip(term, array.shape))
            value = multiply(value, array[place])
        joint[index] = value
    distinct = list(dict.fromkeys(output))
    kept = joint.reshape([extents[label] for label in distinct] + [-1]) if joint.size else None
    shape = [extents[label] for label in distinct]
    if kept is None:
        values = np.full(shape, zero, dtype)
        if 0 not in shape:
            values = np.full(shape, zero, dtype)
    else:
        values = add(kept)
    result = np.full([extents[label] for label in output], zero, dtype)
    for index in itertools.product(*(range(extent) for extent in shape)):
        where = dict(zip(distinct, index))
        result[tuple(where[label] for label in output)] = values[index]
    return result.astype(dtype)


def integers(rng, shape, dtype=np.float64):
    """Small integers: exact in every dtype, with many ties."""
    return rng.integers(-3, 4, shape).astype(dtype)
