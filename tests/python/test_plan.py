"""tensum.Plan."""

import itertools
import json
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import tensum

from conftest import brute, integers

CHAIN = "ij,jk,kl->il"
SHAPES = [(2, 3), (3, 4), (4, 5)]


def operands(seed=1, shapes=SHAPES):
    rng = np.random.default_rng(seed)
    return [integers(rng, shape) for shape in shapes]


def test_a_plan_is_called_with_arrays_of_any_strides():
    plan = tensum.Plan(CHAIN, *SHAPES, semiring="max_plus")
    arrays = operands()
    expected = brute("max_plus", ["ij", "jk", "kl"], "il", arrays)
    np.testing.assert_array_equal(plan(*arrays), expected)
    np.testing.assert_array_equal(plan(*(array.copy(order="F") for array in arrays)), expected)
    out = np.empty((5, 2)).T
    assert plan(*arrays, out=out) is out
    np.testing.assert_array_equal(out, expected)


def test_new_extents_use_the_same_tree():
    plan = tensum.Plan(CHAIN, *SHAPES, optimize=[(1, 2), (0, 1)])
    arrays = operands(2, [(6, 2), (2, 7), (7, 1)])
    np.testing.assert_array_equal(plan(*arrays), arrays[0] @ arrays[1] @ arrays[2])
    assert plan.path == [(1, 2), (0, 1)]


def test_wrong_operands_are_refused():
    plan = tensum.Plan(CHAIN, *SHAPES, dtype="f64")
    with pytest.raises(ValueError):
        plan(*operands()[:2])
    with pytest.raises(TypeError, match="f32"):
        plan(*(array.astype(np.float32) for array in operands()))


def test_cost_and_pictures():
    plan = tensum.Plan("ij,jk,kl->il", (10, 1000), (1000, 10), (10, 1000))
    assert plan.cost.tc == pytest.approx(np.log2(2e5))
    assert plan.cost.steps == 2 and plan.cost.slices == 1
    assert plan.cost.peak_bytes_value >= 100 * 8
    html = plan._repr_html_()
    assert html.count("<circle") == 5 and html.count("<line") == 4 and "sum_product" in html
    assert "tc" in repr(plan)
    assert "<svg" in tensum.Plan("i,i,i->", (2,), (2,), (2,), optimize=[(0, 1, 2)])._repr_html_()


def test_a_memory_limit_slices_and_changes_no_value():
    rng = np.random.default_rng(3)
    terms = ["ab", "bc", "cd", "da", "ac", "bd"]
    # Large enough that packing buffers, which a limit counts too, do not decide.
    arrays = [integers(rng, (120, 120)) for _ in terms]
    expression = ",".join(terms) + "->"
    free = tensum.Plan(expression, *arrays, semiring="max_plus")
    limit = free.cost.peak_bytes_value // 3
    tight = tensum.Plan(expression, *arrays, semiring="max_plus", memory_limit=limit)
    assert tight.cost.slices > 1 and tight.sliced
    assert tight.cost.peak_bytes_value <= limit
    assert tight(*arrays) == free(*arrays)
    with pytest.raises(MemoryError, match="bytes"):
        tensum.Plan(expression, *arrays, semiring="max_plus", memory_limit=64)(*arrays)
    small = [array[:6, :6] for array in arrays]
    assert tensum.Plan(expression, *small, semiring="max_plus")(*small) == brute("max_plus", terms, "", small)
    # Ranges of slices meet under the semiring's sum.
    half = tight.cost.slices // 2
    first = tight.slices(*arrays, first=0, count=half)
    rest = tight.slices(*arrays, first=half, count=tight.cost.slices - half)
    assert max(first, rest) == free(*arrays)


# ---- gradients ----


def numeric_gradient(function, arrays, index, cotangent, step=1e-6):
    slope = np.zeros_like(arrays[index])
    for place in np.ndindex(*slope.shape):
        moved = [array.copy() for array in arrays]
        moved[index][place] += step
        high = function(*moved)
        moved[index][place] -= 2 * step
        slope[place] = ((high - function(*moved)) * cotangent).sum() / (2 * step)
    return slope


@pytest.mark.parametrize("semiring", ["sum_product", "max_plus", "min_plus", "max_times", "min_times", "max_min", "min_max", "log_sum_exp"])
@pytest.mark.parametrize("expression", ["ij,jk,kl->il", "ij,jk,ki->", "ij,j,jk->ik", "ii,ij->j", "ij->i", "i,j->ij", "i->ij"])
def test_gradients_equal_differences(semiring, expression):
    rng = np.random.default_rng(4)
    left, output = expression.split("->")
    extents = dict(zip("ijkl", (2, 3, 3, 2)))
    if "ii" in expression or "ki" in expression:
        extents["k"] = extents["i"]
    arrays = [rng.random([extents[label] for label in term]) + 0.5 for term in left.split(",")]
    sizes = {"j": 4} if expression == "i->ij" else None
    plan = tensum.Plan(expression, *arrays, semiring=semiring, sizes=sizes)
    value = plan(*arrays)
    cotangent = rng.random(value.shape)
    got, slopes = plan.gradient(*arrays, cotangent=cotangent)
    np.testing.assert_array_equal(got, value)
    for index, slope in enumerate(slopes):
        np.testing.assert_allclose(slope, numeric_gradient(plan, arrays, index, cotangent), atol=2e-8, rtol=1e-6)


def test_gradients_are_chosen_and_default_to_ones():
    arrays = operands()
    plan = tensum.Plan(CHAIN, *SHAPES)
    _, slopes = plan.gradient(*arrays, wanted=[False, True, False])
    assert slopes[0] is None and slopes[2] is None
    np.testing.assert_array_equal(slopes[1], np.outer(arrays[0].sum(0), arrays[2].sum(1)))


def test_tropical_gradients_go_to_the_first_winner():
    plan = tensum.Plan("ij->i", (2, 3), semiring="max_plus")
    _, (slope,) = plan.gradient(np.array([[1.0, 5.0, 5.0], [2.0, 2.0, 2.0]]))
    np.testing.assert_array_equal(slope, [[0, 1, 0], [1, 0, 0]])


def test_the_same_array_twice_counts_twice():
    x = np.array([1.0, 3.0, 2.0])
    _, slopes = tensum.Plan("i,i->", x, x, semiring="max_plus").gradient(x, x)
    np.testing.assert_array_equal(slopes[0] + slopes[1], [0, 2, 0])


def test_size_one_axes_keep_their_gradient():
    rng = np.random.default_rng(5)
    arrays = [rng.random((1, 1, 5, 3)), rng.random((1, 1, 3, 2))]
    plan = tensum.Plan("bnij,bnjc->bnic", *arrays)
    _, slopes = plan.gradient(*arrays)
    np.testing.assert_allclose(slopes[0], np.broadcast_to(arrays[1].sum(-1)[:, :, None], (1, 1, 5, 3)))
    wide = [rng.random((1, 4)), rng.random((3, 4))]
    _, slopes = tensum.Plan("ij,ij->", *wide).gradient(*wide)
    np.testing.assert_allclose(slopes[0], wide[1].sum(0, keepdims=True))


def test_integers_have_real_gradients():
    a = np.array([[1, 5], [7, 2]], np.int32)
    _, (slope, _) = tensum.Plan("ij,jk->", a, a, semiring="max_plus").gradient(a, a)
    assert slope.dtype == np.float32 and slope.sum() == 1


def test_bad_cotangents_are_refused():
    plan = tensum.Plan(CHAIN, *SHAPES)
    with pytest.raises(ValueError, match="cotangent"):
        plan.gradient(*operands(), cotangent=np.ones((2, 2)))
    with pytest.raises(TypeError, match="cotangent"):
        plan.gradient(*operands(), cotangent=np.ones((2, 5), np.float32))
    with pytest.raises(TypeError):
        boolean = np.ones((2, 2), bool)
        tensum.Plan("ij,jk->ik", boolean, boolean, semiring="xor_and").gradient(boolean, boolean)


# ---- decode ----


def score(expression, arrays, assignment, semiring):
    terms = expression.split("->")[0].split(",")
    values = [array[tuple(assignment[label] for label in term)] for term, array in zip(terms, arrays)]
    return {"max_plus": sum, "min_plus": sum, "max_times": np.prod, "max_min": min, "min_max": max}[semiring](values)


@pytest.mark.parametrize("semiring", ["max_plus", "min_plus", "max_times", "max_min", "min_max"])
def test_decoding_attains_the_value(semiring):
    rng = np.random.default_rng(6)
    expression = "ab,bc,cd,da,ac->"
    arrays = [rng.random((4, 4)) for _ in range(5)]
    value, assignment = tensum.Plan(expression, *arrays, semiring=semiring).decode(*arrays)
    assert set(assignment) == set("abcd") and all(isinstance(index, int) for index in assignment.values())
    assert score(expression, arrays, assignment, semiring) == pytest.approx(float(value), rel=1e-14)


def test_decoding_batches():
    rng = np.random.default_rng(7)
    arrays = [rng.random((3, 4)), rng.random((4, 5)), rng.random((5, 2))]
    plan = tensum.Plan(CHAIN, *arrays, semiring="max_plus")
    value, assignment = plan.decode(*arrays)
    assert assignment["j"].shape == (3, 2)
    for place in np.ndindex(3, 2):
        one = {label: indices[place] for label, indices in assignment.items()}
        assert (one["i"], one["l"]) == place
        assert score(CHAIN, arrays, one, "max_plus") == pytest.approx(value[place], rel=1e-14)
    _, some = plan.decode(*arrays, positions=[5, 0])
    np.testing.assert_array_equal(some["k"], assignment["k"].reshape(-1)[[5, 0]])
    with pytest.raises(ValueError, match="positions"):
        plan.decode(*arrays, positions=[6])


def test_decoding_hashable_labels():
    a = np.array([[0.0, 3.0], [1.0, 2.0]])
    value, assignment = tensum.Plan(a, ["rain", "wet"], [], semiring="max_plus").decode(a)
    assert float(value) == 3 and assignment == {"rain": 0, "wet": 1}


def test_infeasible_and_nan_have_errors_of_their_own():
    plan = tensum.Plan("ij->", (2, 2), semiring="max_plus")
    with pytest.raises(tensum.InfeasibleError):
        plan.decode(np.full((2, 2), -np.inf))
    with pytest.raises(tensum.NotANumberError):
        plan.decode(np.full((2, 2), np.nan))
    assert issubclass(tensum.InfeasibleError, ValueError)


# ---- constants ----


@pytest.mark.parametrize("semiring", ["sum_product", "max_plus"])
@pytest.mark.parametrize("constants", [[0], [1, 2], [0, 3], [1, 2, 3], [0, 1, 2, 3]])
def test_constants_are_folded(semiring, constants):
    rng = np.random.default_rng(8)
    expression, shapes = "ij,jk,kl,lm->im", [(2, 3), (3, 4), (4, 3), (3, 2)]
    arrays = [integers(rng, shape) for shape in shapes]
    mixed = [arrays[index] if index in constants else shape for index, shape in enumerate(shapes)]
    plan = tensum.Plan(expression, *mixed, semiring=semiring, constants=constants)
    rest = [array for index, array in enumerate(arrays) if index not in constants]
    expected = brute(semiring, expression.split("->")[0].split(","), "im", arrays)
    for _ in range(2):
        np.testing.assert_array_equal(plan(*rest), expected)
    with pytest.raises(ValueError, match="operands"):
        plan(*rest, arrays[0])


def test_gradients_around_constants():
    arrays = operands()
    plan = tensum.Plan(CHAIN, *arrays[:2], SHAPES[2], constants=[0, 1])
    _, slopes = plan.gradient(arrays[2])
    np.testing.assert_array_equal(slopes[0], np.repeat((arrays[0] @ arrays[1]).sum(0)[:, None], 5, 1))


def test_constants_have_to_be_arrays():
    with pytest.raises(ValueError, match="constants"):
        tensum.Plan(CHAIN, *SHAPES, constants=[0])


# ---- exponents ----


def test_exponents_are_stripped():
    count = 400
    matrix = np.full((2, 2), 1e10)
    arguments = list(itertools.chain.from_iterable(([matrix, [index, index + 1]]) for index in range(count)))
    plan = tensum.Plan(*arguments, [])
    arrays = [matrix] * count
    with np.errstate(over="ignore"):
        assert np.isinf(plan(*arrays))
    mantissa, exponent = plan(*arrays, strip_exponent=True)
    assert np.log10(mantissa) + exponent == pytest.approx(10 * count + (count + 1) * np.log10(2), rel=1e-12)
    small, power = tensum.Plan("ij,jk->ik", (2, 3), (3, 2))(np.ones((2, 3)), np.ones((3, 2)), strip_exponent=True)
    np.testing.assert_allclose(small * 10**power, np.full((2, 2), 3.0))
    with pytest.raises(TypeError):
        tensum.Plan("ij->", (2, 2), semiring="max_plus")(np.ones((2, 2)), strip_exponent=True)


def test_exponents_with_slices():
    rng = np.random.default_rng(9)
    terms = ["ab", "bc", "cd", "da", "ac", "bd"]
    arrays = [rng.random((100, 100)) for _ in terms]
    for output in ("", "a", "ca"):
        free = tensum.Plan(",".join(terms) + "->" + output, *arrays)
        tight = tensum.Plan(",".join(terms) + "->" + output, *arrays, memory_limit=free.cost.peak_bytes_value // 3)
        assert tight.sliced
        mantissa, exponent = tight(*arrays, strip_exponent=True)
        np.testing.assert_allclose(mantissa * 10**exponent, free(*arrays), rtol=1e-12)


# ---- keeping ----


def test_plans_are_saved_and_loaded(tmp_path):
    arrays = operands()
    plan = tensum.Plan(CHAIN, *arrays, semiring="max_plus", optimize=[(1, 2), (0, 1)])
    plan.save(tmp_path / "plan.json")
    again = tensum.Plan.load(tmp_path / "plan.json")
    assert again.path == plan.path and again.cost == plan.cost and again.semiring == "max_plus"
    np.testing.assert_array_equal(again(*arrays), plan(*arrays))
    odd = tensum.Plan(arrays[0], ["x", 3], arrays[1], [3, "z"], ["x", "z"])
    odd.save(tmp_path / "odd.json")
    np.testing.assert_array_equal(tensum.Plan.load(tmp_path / "odd.json")(*arrays[:2]), arrays[0] @ arrays[1])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "tensum-plan", "version": 9}', '{"format": "tensum-plan", "version": 1}', "\x00"])
def test_files_that_are_no_plans_are_refused(tmp_path, text):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="bad.json"):
        tensum.Plan.load(path)
    good = tmp_path / "good.json"
    tensum.Plan(CHAIN, *SHAPES).save(good)
    document = json.loads(good.read_text())
    document["ssa_path"] = [[0, 0], [1, 3]]
    good.write_text(json.dumps(document))
    with pytest.raises(ValueError):
        tensum.Plan.load(good)


# ---- progress, threads, Ctrl-C ----


def test_progress_is_reported_and_its_errors_come_through():
    rng = np.random.default_rng(10)
    terms = ["ab", "bc", "cd", "da", "ac", "bd"]
    arrays = [integers(rng, (16, 16)) for _ in terms]
    free = tensum.Plan(",".join(terms) + "->", *arrays)
    plan = tensum.Plan(",".join(terms) + "->", *arrays, memory_limit=free.cost.peak_bytes_value // 8)
    seen = []
    assert plan(*arrays, progress=lambda stage, done: seen.append((stage, done))) == free(*arrays)
    assert all(isinstance(stage, str) and 0.0 <= done <= 1.0 for stage, done in seen)

    def fail(stage, done):
        raise ZeroDivisionError("from the callback")

    if seen:
        with pytest.raises(ZeroDivisionError, match="from the callback"):
            plan(*arrays, progress=fail)
    assert plan(*arrays) == free(*arrays)


def test_a_plan_serves_many_threads():
    arrays = operands()
    plan = tensum.Plan(CHAIN, *arrays, semiring="max_plus")
    expected = brute("max_plus", ["ij", "jk", "kl"], "il", arrays)
    wrong = []

    def work():
        for _ in range(200):
            if not np.array_equal(plan(*arrays), expected) or not np.array_equal(
                tensum.einsum(CHAIN, *arrays, semiring="max_plus"), expected
            ):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_ctrl_c_stops_long_work():
    # In a process of its own: an interrupt comes while hundreds of slices are under way.
    code = """
        import _thread, threading, time
        import numpy as np, tensum
        rng = np.random.default_rng(1)
        arrays = [rng.random((240, 240)) for _ in range(6)]
        free = tensum.Plan("ab,bc,cd,da,ac,bd->", *arrays)
        plan = tensum.Plan("ab,bc,cd,da,ac,bd->", *arrays, memory_limit=free.cost.peak_bytes_value // 20)
        plan.slices(*arrays, first=0, count=1)
        threading.Timer(0.3, _thread.interrupt_main).start()
        began = time.monotonic()
        try:
            while time.monotonic() - began < 30:
                plan(*arrays)
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - began < 15)
        print("alive", float(tensum.einsum("i->", np.ones(3))))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:2] == ["interrupted True", "alive 3.0"], done.stderr
