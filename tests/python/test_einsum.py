"""tensum.einsum and matmul on NumPy arrays."""

import itertools

import numpy as np
import pytest
import tensum

from conftest import ALGEBRA, brute, integers

FLOATS = ["sum_product", "max_plus", "min_plus", "max_times", "min_times", "max_min", "min_max", "log_sum_exp"]
DOMAIN = {"max_times", "min_times"}

# The cases that NumPy, PyTorch and opt_einsum document, by expression and shapes.
DOCUMENTED = [
    ("ii", [(5, 5)]),
    ("ii->i", [(5, 5)]),
    ("ij->", [(2, 3)]),
    ("ij->i", [(2, 3)]),
    ("ij->j", [(2, 3)]),
    ("...j->...", [(4, 2, 3)]),
    ("ji", [(2, 3)]),
    ("ij->ji", [(2, 3)]),
    ("i,i", [(5,), (5,)]),
    ("i,i->", [(5,), (5,)]),
    ("i,j->ij", [(3,), (4,)]),
    ("ij,j", [(5, 5), (5,)]),
    ("ij,j->i", [(5, 5), (5,)]),
    ("...j,j", [(5, 5), (5,)]),
    (",ij", [(), (2, 3)]),
    ("..., ...", [(), (2, 3)]),
    ("ijk,jil->kl", [(3, 4, 5), (4, 3, 2)]),
    ("ki,jk->ij", [(3, 2), (4, 3)]),
    ("ki,...k->i...", [(3, 2), (4, 3)]),
    ("k...,jk", [(3, 2), (4, 3)]),
    ("bij,bjk->bik", [(3, 2, 5), (3, 5, 4)]),
    ("bn,anm,bm->ba", [(2, 5), (3, 5, 4), (2, 4)]),
    ("...ij->...ji", [(2, 3, 4, 5)]),
    ("ijac,jkp->ikpac", [(2, 3, 2, 2), (3, 2, 2)]),
    ("ea,fb,abcd,gc,hd->efgh", [(3, 3), (3, 3), (3, 3, 3, 3), (3, 3), (3, 3)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("ab,ab,c->", [(2, 3), (2, 3), (4,)]),
    ("aab,fa,df,ecc->bde", [(2, 2, 3), (4, 2), (3, 4), (2, 3, 3)]),
    ("tiijj->ij", [(2, 3, 3, 4, 4)]),
    ("i...->i...", [(3, 3, 3)]),
    ("ij,ixy,ji->xy", [(5, 5), (5, 2, 2), (5, 5)]),
]


@pytest.mark.parametrize("expression,shapes", DOCUMENTED, ids=[case[0] for case in DOCUMENTED])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int32", "int64", "int16"])
def test_documented_cases_equal_numpy(expression, shapes, dtype):
    rng = np.random.default_rng(1)
    arrays = [integers(rng, shape, dtype) for shape in shapes]
    if dtype.startswith("complex"):
        arrays = [array + 1j * integers(rng, array.shape) for array in arrays]
        arrays = [array.astype(dtype) for array in arrays]
    result = tensum.einsum(expression, *arrays)
    assert isinstance(result, np.ndarray) and result.dtype == dtype
    np.testing.assert_array_equal(result, np.einsum(expression, *arrays))


def test_an_omitted_ellipsis_is_summed():
    a = np.ones((3, 3, 3))
    np.testing.assert_array_equal(tensum.einsum("i...->i", a), [9, 9, 9])


EXPRESSIONS = ["ij,jk->ik", "ij,jk,kl->li", "ij,j,jk->ik", "ii,ij->j", "ij,kl->", "iij->ji", "bij,bkj->bik", "i,i,i->", "ij->"]


@pytest.mark.parametrize("semiring", FLOATS)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_semirings_equal_brute_force(semiring, expression):
    rng = np.random.default_rng(2)
    terms, output = expression.split("->")[0].split(","), expression.split("->")[1]
    extents = dict(zip("bijkl", (2, 3, 4, 5, 2)))
    arrays = [integers(rng, [extents[label] for label in term]) for term in terms]
    if semiring in DOMAIN:
        arrays = [np.abs(array) for array in arrays]
    result = tensum.einsum(expression, *arrays, semiring=semiring)
    expected = brute(semiring, terms, output, arrays)
    if semiring == "log_sum_exp":
        np.testing.assert_allclose(result, expected, rtol=1e-12)
    else:
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("semiring", ["or_and", "xor_and"])
def test_booleans(semiring):
    rng = np.random.default_rng(3)
    a, b = rng.random((4, 9)) < 0.4, rng.random((9, 5)) < 0.4
    result = tensum.einsum("ij,jk->ik", a, b, semiring=semiring)
    assert result.dtype == bool
    np.testing.assert_array_equal(result, brute(semiring, ["ij", "jk"], "ik", [a, b]))


def test_boolean_rows_shorter_than_a_word():
    a, b = np.ones((2, 1, 1), bool), np.ones((2, 1, 1), bool)
    assert tensum.einsum("...ij,...jk->...ik", a, b, semiring="or_and").all()


@pytest.mark.parametrize("semiring", ["max_plus", "min_plus", "sum_product", "max_min"])
def test_strided_views_are_used_as_they_are(semiring):
    rng = np.random.default_rng(4)
    base = integers(rng, (7, 8, 9))
    views = [base[::2, ::-1, 3], base[1, ::3, ::-2].T, base[:, 2, :].T[::-1], np.broadcast_to(base[0, 0, :1], (4, 5))]
    for a, b in itertools.product(views, repeat=2):
        a2, b2 = a[:, :3], b[:3, :]
        expected = brute(semiring, ["ij", "jk"], "ik", [a2, b2])
        np.testing.assert_array_equal(tensum.einsum("ij,jk->ik", a2, b2, semiring=semiring), expected)


def test_a_field_with_an_odd_stride_is_copied_not_misread():
    pairs = np.zeros(5, np.dtype([("x", "f8"), ("y", "i4")]))
    pairs["x"] = np.arange(5)
    np.testing.assert_array_equal(tensum.einsum("i->", pairs["x"]), 10.0)
    with pytest.raises(ValueError, match="strides"):
        tensum.einsum("i->i", np.arange(5.0), out=pairs["x"])


def test_interleaved_form_and_hashable_labels():
    rng = np.random.default_rng(5)
    a, b = integers(rng, (2, 3)), integers(rng, (3, 4))
    np.testing.assert_array_equal(tensum.einsum(a, [0, 1], b, [1, 2], [0, 2]), a @ b)
    np.testing.assert_array_equal(tensum.einsum(a, [0, 1], b, [1, 2]), a @ b)
    np.testing.assert_array_equal(tensum.einsum(b, [7, 3], a, [5, 7]), np.einsum(b, [7, 3], a, [5, 7]))
    np.testing.assert_array_equal(tensum.einsum(a, ["row", (1, "x")], b, [(1, "x"), None], [None, "row"]), (a @ b).T)
    stack = integers(rng, (6, 2, 3))
    np.testing.assert_array_equal(tensum.einsum(stack, [..., 0, 1], b, [1, 2], [..., 0, 2]), stack @ b)
    np.testing.assert_array_equal(tensum.einsum(stack, [..., 0]), stack)


def test_repeated_calls_with_options_say_the_same():
    rng = np.random.default_rng(12)
    a, b = integers(rng, (3, 4)), integers(rng, (4, 5))
    expected = brute("max_plus", ["ij", "jk"], "ik", [a, b])
    for options in ({"optimize": "greedy"}, {"optimize": [(0, 1)]}, {"memory_limit": 1e9}, {"dtype": "f64"}, {"check": False},
                    {"out": None, "optimize": "auto", "memory_limit": None, "dtype": None, "sizes": None, "check": True},
                    {"optimize": False, "memory_limit": 1e9, "check": False}):
        for left, right in ((a, b), (a, b), (b.T, a.T), (a, b)):
            value = tensum.einsum("ij,jk->ik", left, right, semiring="max_plus", **options)
            np.testing.assert_array_equal(value, expected if left is a else expected.T)
        halves = tensum.einsum("ij,jk->ik", a.astype("f4"), b.astype("f4"), semiring="max_plus", **options)
        assert halves.dtype == (np.float64 if options.get("dtype") else np.float32)
        np.testing.assert_array_equal(halves, expected)
        with pytest.raises((TypeError, ValueError)):
            tensum.einsum("ij,jk->ik", a, a, semiring="max_plus", **options)
    for kind in ("int32", "int64", "int32"):
        for left, right in ((a, b), (b.T, a.T)):
            value, winners = tensum.matmul(left, right, "max_plus", winners=kind)
            np.testing.assert_array_equal(value, expected if left is a else expected.T)
            assert winners.dtype == kind
            np.testing.assert_array_equal(winners, (left[:, None, :] + right.T[None]).argmax(-1))


def test_label_lists_are_cached_by_their_labels():
    rng = np.random.default_rng(13)
    a, b = integers(rng, (3, 3)), integers(rng, (3, 3))
    for _ in range(2):
        for labels, expected in (([[0, 1], [1, 2], [0, 2]], a @ b), ([[0, 1], [1, 2], [2, 0]], (a @ b).T), ([[0, 1], [2, 1], [0, 2]], a @ b.T),
                                 ([["x", 0], [0, "y"], ["x", "y"]], a @ b), ([[0, 1], [1, 0]], np.trace(a @ b)),
                                 ([[5, 1], [1, 2]], (a @ b).T), ([[0, 0], [0, 1], [1]], np.diag(a) @ b)):
            np.testing.assert_array_equal(tensum.einsum(a, labels[0], b, labels[1], *labels[2:]), expected)
            with pytest.raises(ValueError):
                tensum.einsum(a, labels[0], np.ones((4, 5)), labels[1], *labels[2:])
    with pytest.raises(ValueError, match="label 7"):
        tensum.einsum(a, [0, 7], np.ones((4, 5)), [7, 1])
    with pytest.raises(TypeError):
        tensum.einsum(a, "ij", b, "jk")


def test_many_operands_and_labels():
    rng = np.random.default_rng(6)
    matrices = [integers(rng, (2, 2)) * 0.5 for _ in range(60)]
    arguments = list(itertools.chain.from_iterable((matrix, [index, index + 1]) for index, matrix in enumerate(matrices)))
    expected = np.linalg.multi_dot(matrices)
    np.testing.assert_allclose(tensum.einsum(*arguments, [0, 60]), expected, rtol=1e-12)
    expression = ",".join(chr(0x100 + i) + chr(0x101 + i) for i in range(60)) + "->" + chr(0x100) + chr(0x100 + 60)
    np.testing.assert_allclose(tensum.einsum(expression, *matrices), expected, rtol=1e-12)
    limited = tensum.einsum(expression, *matrices, memory_limit=1 << 18)
    np.testing.assert_allclose(limited, expected, rtol=1e-12)


def test_output_only_labels_broadcast():
    a = np.arange(3.0)
    result = tensum.einsum("i->ij", a, sizes={"j": 4})
    np.testing.assert_array_equal(result, np.repeat(a[:, None], 4, 1))
    with pytest.raises(ValueError, match="j"):
        tensum.einsum("i->ij", a)


def test_repeated_output_labels_write_the_diagonal():
    a = np.arange(1.0, 4.0)
    result = tensum.einsum("i->ii", a, semiring="max_plus")
    expected = np.full((3, 3), -np.inf)
    np.fill_diagonal(expected, a)
    np.testing.assert_array_equal(result, expected)


def test_size_one_axes_broadcast():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(4.0).reshape(1, 4)
    np.testing.assert_array_equal(tensum.einsum("ij,ik->jk", a, b), a.sum(0)[:, None] * b)


@pytest.mark.parametrize("semiring", FLOATS)
def test_zero_sized_axes(semiring):
    zero = ALGEBRA[semiring][2]
    a, b = np.zeros((3, 0)), np.zeros((0, 2))
    np.testing.assert_array_equal(tensum.einsum("ij,jk->ik", a, b, semiring=semiring), np.full((3, 2), zero))
    assert tensum.einsum("ij,jk->ik", np.zeros((0, 3)), np.zeros((3, 2)), semiring=semiring).shape == (0, 2)


def test_scalars_and_no_operands():
    np.testing.assert_array_equal(tensum.einsum(",->", np.float64(3.0), np.array(2.0)), 6.0)
    assert tensum.einsum("->") == 1.0
    assert tensum.einsum("->", semiring="max_plus") == 0.0
    np.testing.assert_array_equal(tensum.einsum("i,->i", np.arange(3.0), np.array(5.0), semiring="max_plus"), [5, 6, 7])


def test_out_is_written_and_returned():
    rng = np.random.default_rng(7)
    a, b = integers(rng, (4, 5)), integers(rng, (5, 6))
    for out in (np.empty((4, 6)), np.empty((6, 4)).T, np.empty((4, 6, 2))[..., 1], np.empty((8, 12))[::-2, ::2]):
        for _ in range(2):  # the second time from the cache
            out[...] = np.nan
            assert tensum.einsum("ij,jk->ik", a, b, semiring="max_plus", out=out) is out
            np.testing.assert_array_equal(out, brute("max_plus", ["ij", "jk"], "ik", [a, b]))


def test_a_strided_out_of_another_dtype_is_refused_not_cast():
    ones = np.ones((2, 2), np.float32)
    zeros = np.zeros((2, 2, 2))
    with pytest.raises(TypeError, match="f64|dtype"):
        tensum.einsum("ij,jk->ik", ones, ones, out=zeros[..., 0])
    np.testing.assert_array_equal(zeros, 0)


def test_bad_outs_are_refused():
    a = np.ones((3, 3))
    locked = np.empty((3, 3))
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        tensum.einsum("ij,jk->ik", a, a, out=locked)
    with pytest.raises(ValueError):
        tensum.einsum("ij,jk->ik", a, a, out=np.empty((3, 4)))
    with pytest.raises(ValueError):
        tensum.einsum("ij,jk->ik", a, a, out=a)
    with pytest.raises(ValueError):
        tensum.einsum("ij,jk->ik", a, a, out=np.lib.stride_tricks.as_strided(np.empty(3), (3, 3), (0, 8)))
    np.testing.assert_array_equal(a, 1)


def test_dtypes_are_never_cast_silently():
    a, b = np.ones((2, 2), np.float32), np.ones((2, 2), np.float64)
    with pytest.raises(TypeError, match="operand 1"):
        tensum.einsum("ij,jk->ik", a, b)
    result = tensum.einsum("ij,jk->ik", a, b, dtype=np.float32)
    assert result.dtype == np.float32
    assert tensum.einsum("ij,jk->ik", a, b, dtype="f64").dtype == np.float64
    for dtype in (np.uint16, np.int8, np.uint8, ">f8", np.longdouble, "M8[s]", object, "U3"):
        with pytest.raises(TypeError):
            tensum.einsum("i->", np.zeros(3).astype(dtype) if dtype != "M8[s]" else np.zeros(3, dtype))


@pytest.mark.parametrize(
    "call",
    [
        lambda: tensum.einsum("i->", [1.0, 2.0]),
        lambda: tensum.einsum("i,->i", np.ones(2), 3.0),
        lambda: tensum.einsum("i->", None),
        lambda: tensum.einsum("i->", np.ma.masked_array([1.0, 2.0], [0, 1])),
        lambda: tensum.einsum("i->", np.ones(2), semiring=3),
        lambda: tensum.einsum("i->", np.ones(2), unknown=1),
        lambda: tensum.einsum(np.ones(2)),
        lambda: tensum.einsum(),
        lambda: tensum.einsum("ij,jk->ik", np.ones((2, 2)), np.ones((2, 2)), semiring="or_and"),
        lambda: tensum.matmul(np.ones((2, 2)), np.ones((2, 2)), winners="float32"),
        lambda: tensum.einsum("i->", np.ones(2), dtype="f31"),
    ],
)
def test_wrong_objects_are_type_errors(call):
    with pytest.raises(TypeError):
        call()


@pytest.mark.parametrize(
    "call,names",
    [
        (lambda: tensum.einsum("ij,jk->ik", np.ones((2, 3)), np.ones((4, 2))), ["j", "3", "4"]),
        (lambda: tensum.einsum("ijk->i", np.ones((2, 3))), ["0"]),
        (lambda: tensum.einsum("ij,jk->ik", np.ones((2, 3))), []),
        (lambda: tensum.einsum("i-j", np.ones(2)), []),
        (lambda: tensum.einsum("i->j", np.ones(2)), ["j"]),
        (lambda: tensum.einsum("i->", np.ones(2), semiring="max_pluss"), ["max_plus"]),
        (lambda: tensum.einsum("ij,jk->ik", np.ones((2, 2)), np.ones((2, 2)), optimize=[(0, 2)]), []),
        (lambda: tensum.einsum("i,i->", np.array([-1.0, 2.0]), np.array([1.0, 1.0]), semiring="max_times"), ["-1"]),
        (lambda: tensum.matmul(np.ones(()), np.ones((2, 2))), ["0"]),
        (lambda: tensum.einsum("i->", np.ones(2), optimize="no such method"), []),
    ],
)
def test_wrong_values_are_value_errors_that_name_the_thing(call, names):
    with pytest.raises(ValueError) as caught:
        call()
    for name in names:
        assert name in str(caught.value)


def test_an_impossible_memory_limit_is_a_memory_error():
    a = np.ones((64, 64))
    with pytest.raises(MemoryError):
        tensum.einsum("ij,jk,kl,lm->im", a, a, a, a, memory_limit=8)


@pytest.mark.parametrize("optimize", ["auto", "greedy", True, False, "optimal", [(0, 1), (0, 1)], ["einsum_path", (1, 2), (0, 1)], [(0, 1, 2)]])
def test_orders_agree(optimize):
    rng = np.random.default_rng(8)
    arrays = [integers(rng, shape) for shape in ((2, 3), (3, 4), (4, 5))]
    expected = brute("max_plus", ["ij", "jk", "kl"], "il", arrays)
    result = tensum.einsum("ij,jk,kl->il", *arrays, semiring="max_plus", optimize=optimize)
    np.testing.assert_array_equal(result, expected)


def test_hyperedges_keep_their_label_until_the_end():
    a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 100.0])
    for path in ([(0, 1), (0, 1)], [(0, 2), (0, 1)], [(1, 2), (0, 1)]):
        np.testing.assert_array_equal(tensum.einsum("ij,j,jk->ik", a, b, a, optimize=path), [[610, 820], [1230, 1660]])


# ---- matmul ----

RANKS = [((4,), (4,)), ((4,), (4, 3)), ((2, 4), (4,)), ((2, 4), (4, 3)), ((5, 2, 4), (4, 3)), ((5, 2, 4), (5, 4, 3)),
         ((6, 1, 2, 4), (5, 4, 3)), ((1, 2, 4), (5, 4, 3))]


@pytest.mark.parametrize("left,right", RANKS)
def test_matmul_shapes_are_numpys(left, right):
    rng = np.random.default_rng(9)
    a, b = integers(rng, left), integers(rng, right)
    np.testing.assert_array_equal(tensum.matmul(a, b), np.matmul(a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("semiring,choose", [("max_plus", np.argmax), ("min_plus", np.argmin)])
@pytest.mark.parametrize("kind", [True, "int32", "int64"])
@pytest.mark.parametrize("shapes", [((5, 7), (7, 6)), ((3, 5, 40), (3, 40, 6)), ((70, 33), (33, 65))])
def test_winners_are_the_first_of_equals(dtype, semiring, choose, kind, shapes):
    rng = np.random.default_rng(10)
    a, b = (integers(rng, shape, dtype) for shape in shapes)
    value, winners = tensum.matmul(a, b, semiring, winners=kind)
    terms = a[..., :, None, :] + np.swapaxes(b, -1, -2)[..., None, :, :]
    assert winners.dtype == (np.int32 if kind == "int32" else np.int64)
    np.testing.assert_array_equal(winners, choose(terms, -1))
    np.testing.assert_array_equal(value, terms.max(-1) if choose is np.argmax else terms.min(-1))


def test_winners_need_a_selective_semiring():
    with pytest.raises(TypeError):
        tensum.matmul(np.ones((2, 2)), np.ones((2, 2)), winners=True)


# ---- other dtypes ----


def test_half_precision():
    a, b = np.arange(6, dtype=np.float16).reshape(2, 3), np.arange(6, dtype=np.float16).reshape(3, 2)
    result = tensum.einsum("ij,jk->ik", a, b, semiring="max_plus")
    assert result.dtype == np.float16
    np.testing.assert_array_equal(result, brute("max_plus", ["ij", "jk"], "ik", [a, b]))


def test_bfloat16_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.array([1, 2, 3], ml_dtypes.bfloat16)
    b = np.array([4, 5, 6], ml_dtypes.bfloat16)
    for x, y in ((a, b), (a[::-1], b[::-1]), (np.repeat(a, 2)[::2], b)):
        result = tensum.einsum("i,i->", x, y)
        assert result.dtype == ml_dtypes.bfloat16
        assert float(result) == 32.0


def test_values_and_counts():
    pair = np.dtype([("value", "f4"), ("count", "f4")])
    a = np.zeros((2, 3), pair)
    a["value"], a["count"] = [[1, 1, 0], [2, 0, 2]], 1
    result = tensum.einsum("ij->i", a, semiring="max_plus_count")
    np.testing.assert_array_equal(result["value"], [1, 2])
    np.testing.assert_array_equal(result["count"], [2, 2])


def test_integers_wrap_in_sum_product_only():
    a = np.full(9, 30000, np.int16)
    assert int(tensum.einsum("i->", a)) == (9 * 30000 + 2**15) % 2**16 - 2**15
    with pytest.raises(ValueError, match="30000"):
        tensum.einsum("i->", a, semiring="max_plus")


def test_not_a_number_propagates():
    a = np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]])
    result = tensum.einsum("ij,jk->ik", a, np.zeros((3, 2)), semiring="max_plus")
    assert np.isnan(result[0]).all() and (result[1] == 3).all()


def test_minus_infinity_is_the_zero():
    a = np.array([[-np.inf, 2.0], [-2.0, -np.inf]])
    np.testing.assert_array_equal(tensum.einsum("ji,jk->ik", a, a, semiring="max_plus"), [[-4, -np.inf], [-np.inf, 4]])


def test_log_sum_exp_at_the_edge():
    a = np.array([-np.inf, -np.inf, 0.0])
    assert tensum.einsum("i->", a, semiring="log_sum_exp") == 0.0
    big = np.array(2e38, np.float32)
    assert np.isposinf(tensum.einsum(",->", big, big, semiring="log_sum_exp"))


# ---- contract_path ----


def test_contract_path_gives_a_path_that_numpy_accepts():
    rng = np.random.default_rng(11)
    expression = "ea,fb,abcd,gc,hd->efgh"
    arrays = [integers(rng, shape) for shape in ((3, 3), (3, 3), (3, 3, 3, 3), (3, 3), (3, 3))]
    path, about = tensum.contract_path(expression, *arrays)
    expected = np.einsum(expression, *arrays)
    np.testing.assert_allclose(np.einsum(expression, *arrays, optimize=["einsum_path", *path]), expected)
    assert about.cost.steps >= 4 and about.cost.tc > 8 and "log2 pairs" in str(about)
    by_shape, _ = tensum.contract_path(expression, *(array.shape for array in arrays))
    assert by_shape == path


def test_the_cost_of_a_chain_is_known():
    # (10x1000)(1000x10)(10x1000): 2 * 10^5 pairs if started at the left, 2 * 10^7 at the right.
    shapes = [(10, 1000), (1000, 10), (10, 1000)]
    path, about = tensum.contract_path("ij,jk,kl->il", *shapes)
    assert path[0] == (0, 1)
    assert about.cost.tc == pytest.approx(np.log2(2e5), abs=1e-9)
    assert about.cost.sc == pytest.approx(np.log2(1e4), abs=1e-9)


# ---- the cache ----


def test_the_cache_is_bounded_and_can_be_cleared():
    tensum.cache_clear()
    for extent in range(1, 700):
        assert tensum.einsum("i->", np.ones(extent)) == extent
    about = tensum.cache_info()
    assert about["misses"] >= 699 - 1 and about["size"] <= about["capacity"]
    before = about["hits"]
    tensum.einsum("i->", np.ones(699))
    tensum.einsum("i->", np.ones(699)[::-1])
    assert tensum.cache_info()["hits"] >= before + 1
    tensum.cache_clear()
    assert tensum.cache_info()["size"] == 0


def test_equal_expressions_that_are_other_objects_hit_the_cache():
    tensum.cache_clear()
    a = np.ones((2, 2))
    for text in ("ij,jk->ik", "".join(["ij,", "jk->", "ik"])):
        tensum.einsum(text, a, a)
    assert tensum.cache_info()["size"] == 1
