"""The package itself: import, leaks, fixtures, what is known."""

import ast
import gc
import inspect
import json
import pathlib
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import tensum

from conftest import ROOT, data_folder


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_importing_is_light():
    done = run(
        "import sys, tensum\n"
        "heavy = [m for m in ('numpy', 'torch', 'jax', 'cupy', 'scipy', 'tqdm', 'opt_einsum') if m in sys.modules]\n"
        "print(heavy)"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_the_example_of_the_package():
    import doctest

    assert doctest.testmod(tensum).failed == 0


@pytest.mark.parametrize("page", ["README.md", "docs/guide/python.md"])
def test_the_pages_examples(page, monkeypatch):
    import doctest

    monkeypatch.chdir(ROOT)
    found = doctest.testfile(str(ROOT / page), module_relative=False)
    assert found.attempted > 0 and found.failed == 0


@pytest.mark.parametrize("notebook,needs", [("semirings", []), ("digits", ["torch", "sklearn"]), ("ecosystem", ["opt_einsum", "cotengra"])])
def test_the_notebooks_run(notebook, needs, monkeypatch):
    for module in needs:
        pytest.importorskip(module, reason=f"{module} is not installed")
    monkeypatch.chdir(ROOT)
    cells = json.loads((ROOT / "examples" / f"{notebook}.ipynb").read_text())["cells"]
    codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(codes) > 5
    names = {}
    for number, code in enumerate(codes):
        exec(compile(code, f"cell {number}", "exec"), names)
    if notebook == "semirings":
        assert "<svg" in names["best"]._repr_html_()


def test_every_notebook_is_run():
    here = {path.stem for path in (ROOT / "examples").glob("*.ipynb")}
    assert here == {"semirings", "digits", "ecosystem"}


def test_what_is_known():
    assert "max_plus" in tensum.semirings() and "f32" in tensum.dtypes() and tensum.methods()
    assert tensum.supports("max_plus", np.float32) == {"value", "winners", "gradient", "decode"}
    assert tensum.supports("sum_product", "f64") == {"value", "gradient"}
    assert tensum.supports("or_and", "f64") == set()
    about = tensum.info()
    assert about["version"] == tensum.__version__ and about["devices"]["cpu"]["name"]


def test_threads_can_be_set():
    a = np.arange(16.0).reshape(4, 4)
    try:
        assert tensum.set_threads(1) == 1
        np.testing.assert_array_equal(tensum.einsum("ij,jk->ik", a, a), a @ a)
        with pytest.raises(ValueError):
            tensum.set_threads(-1)
    finally:
        tensum.set_threads(0)


def test_the_stubs_name_what_exists():
    stub = pathlib.Path(tensum.__file__).with_name("__init__.pyi").read_text()
    for name in tensum.__all__:
        assert f"def {name}(" in stub or f"class {name}" in stub, name
    for name in tensum.semirings():
        assert f"{name}: _Semiring" in stub, name


def parameters_of(function):
    """(name, kind, has a default) of each parameter of a function in a stub."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    first_default = len(plain) - len(given.defaults)
    kinds = inspect.Parameter
    found = [(arg.arg, kinds.POSITIONAL_ONLY if place < len(given.posonlyargs) else kinds.POSITIONAL_OR_KEYWORD, place >= first_default)
             for place, arg in enumerate(plain)]
    found += [(given.vararg.arg, kinds.VAR_POSITIONAL, False)] if given.vararg else []
    found += [(arg.arg, kinds.KEYWORD_ONLY, default is not None) for arg, default in zip(given.kwonlyargs, given.kw_defaults)]
    return found + ([(given.kwarg.arg, kinds.VAR_KEYWORD, False)] if given.kwarg else [])


def test_the_stubs_have_the_parameters_that_there_are():
    stub = ast.parse(pathlib.Path(tensum.__file__).with_name("__init__.pyi").read_text())
    checked = 0
    for node in stub.body:
        functions = [(tensum, node)] if isinstance(node, ast.FunctionDef) else []
        if isinstance(node, ast.ClassDef) and node.name == "Plan":
            functions = [(tensum.Plan, part) for part in node.body if isinstance(part, ast.FunctionDef)]
        for owner, function in functions:
            found = inspect.getattr_static(owner, function.name)
            if isinstance(found, property) or inspect.isbuiltin(found) or function.name == "einsum":  # which hands on whatever comes
                continue
            there = [(name, what.kind, what.default is not what.empty)
                     for name, what in inspect.signature(getattr(found, "__func__", found)).parameters.items()]
            said = parameters_of(function)
            if any(decorator.id == "overload" for decorator in function.decorator_list if isinstance(decorator, ast.Name)):
                there, said = ([entry[:2] for entry in entries] for entries in (there, said))
            assert said == there, function.name
            checked += 1
    assert checked > 20


# ---- leaks ----

A = np.arange(6.0).reshape(2, 3)


def fails(call):
    try:
        call()
    except Exception:
        return
    raise AssertionError("expected a failure")


PLAN = tensum.Plan("ij,jk->ik", (2, 3), (3, 2), semiring="max_plus")
LEAKY = {
    "einsum": lambda: tensum.einsum("ij,kj->ik", A, A),
    "einsum of arrays": lambda: tensum.einsum("ij->ji", tensum.from_dlpack(A)),
    "einsum interleaved": lambda: tensum.einsum(A, [0, 1], [1, 0]),
    "einsum out": lambda: tensum.einsum("ij->ij", A, out=np.empty((2, 3))),
    "shape mismatch": lambda: fails(lambda: tensum.einsum("ij,jk->ik", A, A)),
    "dtype mismatch": lambda: fails(lambda: tensum.einsum("ij,ij->", A, A.astype("f4"))),
    "bad object": lambda: fails(lambda: tensum.einsum("ij,ij->", A, "text")),
    "bad out": lambda: fails(lambda: tensum.einsum("ij->ij", A, out=np.empty((3, 3)))),
    "matmul": lambda: tensum.matmul(A, A.T, "max_plus", winners=True),
    "plan": lambda: tensum.Plan("ij,jk->ik", (2, 3), (3, 2)),
    "call": lambda: PLAN(A, A.T),
    "gradient": lambda: PLAN.gradient(A, A.T),
    "decode": lambda: PLAN.decode(A, A.T),
    "capsule": lambda: tensum.from_dlpack(A).__dlpack__(),
    "numpy and back": lambda: np.from_dlpack(tensum.from_dlpack(A)),
    "path": lambda: tensum.contract_path("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    "supports": lambda: tensum.supports("max_plus", "f32"),
}


@pytest.mark.parametrize("name", LEAKY)
def test_nothing_leaks(name):
    call = LEAKY[name]
    counted = [A, type(A), tensum.Array, name]

    def repeat():
        for _ in range(100):
            call()
        gc.collect()

    gc.collect()
    gc.freeze()  # whatever other libraries hold need not be walked again
    repeat()
    repeat()
    references = [sys.getrefcount(item) for item in counted]
    tracemalloc.start()
    try:
        repeat()
        # Caches of others fill now and then; a leak grows in every round.
        marks = []
        for _ in range(5):
            repeat()
            marks.append(tracemalloc.get_traced_memory()[0])
        growth = min(after - before for before, after in zip(marks, marks[1:]))
    finally:
        tracemalloc.stop()
        gc.unfreeze()
    assert [sys.getrefcount(item) for item in counted] == references
    assert growth < 100 * 28, f"{growth} bytes in 100 calls"  # the smallest object has 28


def test_memory_outside_python_does_not_grow():
    resource = pytest.importorskip("resource")
    big = np.ones((128, 128))

    def repeat(count):
        for _ in range(count):
            tensum.einsum("ij,jk->ik", big, big, semiring="max_plus")
            tensum.Plan("ij,jk->ik", big, big).gradient(big, big)

    repeat(20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    repeat(60)
    # One leaked array per call would be 60 * 4 * 128 KiB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024


# ---- public fixtures ----

SEMIRING = {"maxplus": "max_plus", "minplus": "min_plus", "maxmul": "max_times", "andor": "or_and", "counting": "max_plus_count"}


def fixtures():
    try:
        folder = data_folder() / "fixtures"
    except pytest.skip.Exception:
        return []
    return sorted(folder.glob("*/*.json"))


@pytest.mark.skipif(not fixtures(), reason="the data folder is not there (TENSUM_DATA names it)")
@pytest.mark.parametrize("path", fixtures(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_public_fixtures(path):
    case = json.loads(path.read_text())
    kind = path.parent.name.split("_")[0]
    semiring = SEMIRING[kind]
    if kind == "counting":
        a, b = pairs(case["a"]), pairs(case["b"])
        result = tensum.einsum("...ij,...jk->...ik", a, b, semiring=semiring)
        expected = np.array(case["c_expected"])
        np.testing.assert_allclose(result["value"], expected[..., 0], rtol=1e-6)
        np.testing.assert_array_equal(result["count"], expected[..., 1])
        return
    dtype = {"f32": np.float32, "f64": np.float64, "bool": bool}[path.parent.name.split("_")[1]]
    a, b = np.array(case["a"], dtype), np.array(case["b"], dtype)
    expected = np.array(case["c_expected"], dtype)
    value, winners = tensum.matmul(a, b, semiring, winners=True)
    np.testing.assert_allclose(value, expected, rtol=1e-6 if dtype == np.float32 else 1e-14)
    if "argmax_expected" in case and case["argmax_expected"] is not None:
        np.testing.assert_array_equal(winners, np.array(case["argmax_expected"]))


def pairs(rows):
    """[..., (value, count)] as the structured dtype."""
    values = np.array(rows, np.float32)
    result = np.empty(values.shape[:-1], [("value", "f4"), ("count", "f4")])
    result["value"], result["count"] = values[..., 0], values[..., 1]
    return result
