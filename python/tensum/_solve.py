"""Problem files: the command `tensum solve` as a function."""

import os
from collections import namedtuple

from . import _core
from ._libraries import dtype_name
from ._plan import Cost, progress_of

Answer = namedtuple(
    "Answer",
    "value value_name assignment assignments values marginals text note semiring dtype cost order_seconds run_seconds",
)
Answer.__doc__ = """The answer to a problem file.

`value` is an int where the answer is a whole number of any length, else a float; `value_name` says what it is ("value" or
"log10_value"). `assignment` is the first of `assignments`, or None. `text` is the answer in the file format of its field."""


def solve(path, *, problem=None, task=None, evidence=None, query=None, front_end=None, semiring=None, dtype=None, count=0,
          settings=None, order="auto", minimize=None, memory_limit=None, time_limit=None, work=None, seed=0, device="cpu",
          progress=None, output=None, save_order=None, plot=None, dry_run=False):
    """Solve a problem file (UAI models, graphs, CNF, QUBO, ...), as the command `tensum solve` does.

    The options are the command's: `task` ("map", "pr", "mar", ...), `problem` (what is asked of a graph: "mis", ...), `settings`
    (a mapping of the front end's own), `order` (a method, or a file that holds an order). Files that may be written: the answer
    in the format of its field (`output`), the order (`save_order`), a picture of the answer (`plot`: .png, .svg or .pdf; needs
    matplotlib). Threads and cuTENSOR are chosen for all calls: `set_threads`, `set_cutensor`. With `dry_run` the result is the
    Cost, and nothing is computed. Raises InfeasibleError if there is no solution, OSError where a file cannot be read or written,
    and ValueError with file, line and column where it is malformed.
    """
    if plot is not None and not dry_run:
        _check_plot(plot)
    order_file = os.fspath(order) if _is_file(order) else None
    pairs = [f"{name}={value}" for name, value in (settings or {}).items()]
    found = _core.solve(
        os.fspath(path),
        front_end=front_end,
        question=problem,
        task=task,
        evidence=None if evidence is None else os.fspath(evidence),
        query=None if query is None else os.fspath(query),
        semiring=semiring,
        dtype=None if dtype is None else dtype_name(dtype),
        count=count,
        settings=pairs,
        method=None if order == "auto" or order_file is not None else order,
        minimize=minimize,
        memory_limit=int(memory_limit or 0),
        time_limit=time_limit or 0.0,
        work=-1.0 if work is None else work,
        seed=seed,
        device=device,
        progress=progress_of(progress),
        order_file=order_file,
        save_order=None if save_order is None else os.fspath(save_order),
        dry_run=dry_run,
    )
    if dry_run:
        return Cost(**found)
    if output is not None:
        with open(output, "w", encoding="utf-8") as file:
            file.write(found["text"])
    if plot is not None:
        _plot(plot, path, found)
    value = found["value"]
    try:
        value = int(found["value_text"])
    except ValueError:
        pass
    return Answer(
        value,
        found["value_name"],
        found["assignments"][0] if found["assignments"] else None,
        found["assignments"],
        found["values"],
        found["marginals"],
        found["text"],
        found["note"],
        found["semiring"],
        found["dtype"],
        Cost(**found["cost"]),
        found["order_seconds"],
        found["run_seconds"],
    )


def _is_file(order):
    """A name that is neither a method nor a file goes to the library, which suggests the nearest."""
    if isinstance(order, os.PathLike):
        return True
    return isinstance(order, str) and order not in ("auto", *_core.order_methods()) and os.path.exists(order)


def _check_plot(path):
    if not os.fspath(path).endswith((".png", ".svg", ".pdf")):
        raise ValueError(f"plot: {os.fspath(path)}: expected a name that ends in .png, .svg or .pdf")
    _need_matplotlib()


def _need_matplotlib():
    import importlib.util

    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("plot= needs matplotlib (python3 -m pip install matplotlib)")


def _plot(path, file, found):
    """Draw marginals, a graph with its best assignment, or amplitudes, as the command does."""
    from . import _answer_picture

    edges, assignments, values = found["edges"], found["assignments"], found["values"]
    vertices = max((max(edge[:2]) + 1 for edge in edges), default=0)
    if edges and assignments and "matching" not in found["question"]:
        vertices = len(assignments[0])
    answer = {"file": os.path.basename(os.fspath(file)), "note": found["note"], "question": found["question"], "value": found["value_text"]}
    if found["marginals"]:
        answer["marginals"] = found["marginals"]
    elif assignments and 0 < vertices <= 400:
        answer["assignment"], answer["edges"] = list(assignments[0]), edges
    elif found["dtype"] in ("c64", "c128") and 2 < len(values) <= 4096:
        answer["amplitudes"] = values
    elif assignments and vertices > 400:
        raise ValueError(f"plot: a graph of {vertices} vertices makes no picture, 400 are the most")
    else:
        raise ValueError("plot: this answer makes no picture: marginals do, assignments on graphs, and 1 to 11 open bits of circuits")
    _answer_picture.draw(answer, os.fspath(path))


def front_ends():
    """What `solve` reads: {name: (summary, tasks, questions)}."""
    return {
        name: (summary, tasks.split(), questions.split()) for name, summary, tasks, questions in _core.front_ends()
    }
