"""opt_einsum, cotengra, JAX, tqdm."""

import numpy as np
import pytest
import tensum

from conftest import brute, integers

EXPRESSION = "ab,bc,cd,da->"
TERMS = ["ab", "bc", "cd", "da"]


def operands(seed=1):
    rng = np.random.default_rng(seed)
    return [integers(rng, shape) for shape in ((2, 3), (3, 4), (4, 5), (5, 2))]


@pytest.mark.parametrize("semiring", ["sum_product", "max_plus", "min_plus"])
def test_opt_einsum(semiring):
    opt_einsum = pytest.importorskip("opt_einsum", reason="opt_einsum is not installed")
    arrays = operands()
    for expression in (EXPRESSION, "ab,bc,cd->ad", "ab,cd->abcd", "ab,bc,cd->da"):
        count = expression.split("->")[0].count(",") + 1
        terms, output = expression.split("->")[0].split(","), expression.split("->")[1]
        result = opt_einsum.contract(expression, *arrays[:count], backend=f"tensum.{semiring}")
        np.testing.assert_array_equal(result, brute(semiring, terms, output, arrays[:count]))


def test_backends_are_modules():
    import importlib

    module = importlib.import_module("tensum.max_plus")
    assert module is tensum.max_plus and sorted(module.__all__) == ["einsum", "implementation", "matmul", "tensordot", "transpose"]
    assert module.transpose(np.ones((2, 3))).shape == (3, 2)


@pytest.mark.parametrize("axes", [0, 1, 2, ([1], [0]), ([0, 1], [1, 0]), (1, 0), ([-1], [-2])])
def test_tensordot_is_numpys(axes):
    rng = np.random.default_rng(2)
    a, b = integers(rng, (3, 3)), integers(rng, (3, 3))
    np.testing.assert_array_equal(tensum.sum_product.tensordot(a, b, axes), np.tensordot(a, b, axes))
    with pytest.raises(ValueError):
        tensum.sum_product.tensordot(a, np.ones((4, 4)), 1)


def test_cotengra_implementation_and_trees():
    cotengra = pytest.importorskip("cotengra", reason="cotengra is not installed")
    arrays = operands()
    inputs, output = [tuple(term) for term in TERMS], ()
    sizes = {"a": 2, "b": 3, "c": 4, "d": 5}
    tree = cotengra.einsum_tree(EXPRESSION, *(array.shape for array in arrays))
    value = tree.contract(arrays, implementation=tensum.sum_product.implementation)
    np.testing.assert_array_equal(value, np.einsum(EXPRESSION, *arrays))
    for semiring in ("sum_product", "max_plus", "min_plus"):
        plan = tensum.Plan.from_cotengra(tree, semiring=semiring)
        np.testing.assert_array_equal(plan(*arrays), brute(semiring, TERMS, "", arrays))
    sliced = cotengra.ContractionTree.from_path(inputs, output, sizes, path=[(0, 1), (0, 1), (0, 1)])
    sliced = sliced.remove_ind("c")
    plan = tensum.Plan.from_cotengra(sliced, semiring="max_plus")
    assert plan.sliced == ["c"] and plan.cost.slices == 4
    # Slices meet under the maximum, not under +.
    np.testing.assert_array_equal(plan(*arrays), brute("max_plus", TERMS, "", arrays))


def test_jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    jax.config.update("jax_platforms", "cpu")
    a, b = (jax.numpy.asarray(array.astype(np.float32)) for array in operands()[:2])
    for semiring in ("sum_product", "max_plus"):
        result = tensum.einsum("ij,jk->ik", a, b, semiring=semiring)
        assert isinstance(result, jax.Array) and result.dtype == np.float32
        np.testing.assert_array_equal(np.asarray(result), brute(semiring, ["ij", "jk"], "ik", [np.asarray(a), np.asarray(b)]))
    value, winners = tensum.matmul(a, b, "max_plus", winners="int32")
    assert isinstance(winners, jax.Array) and winners.dtype == np.int32
    half = tensum.einsum("ij->ji", a.astype(jax.numpy.bfloat16), semiring="max_plus")
    assert half.dtype == jax.numpy.bfloat16
    assert tensum.einsum("ij->i", jax.numpy.zeros((0, 3))).shape == (0,)
    with pytest.raises(TypeError, match="JAX"):
        tensum.einsum("ij->ij", np.asarray(a), out=a)
    with pytest.raises(TypeError, match="traced"):
        jax.jit(lambda x: tensum.einsum("ij->", x))(a)
    with pytest.raises(TypeError, match="traced"):
        jax.grad(lambda x: tensum.einsum("ij->", x))(a)


def test_progress_bars():
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    arrays = operands()
    plan = tensum.Plan(EXPRESSION, *arrays)
    assert plan(*arrays, progress=True) == np.einsum(EXPRESSION, *arrays)
