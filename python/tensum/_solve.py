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
          progress=None):
    """Solve a problem file (UAI models, graphs, CNF, QUBO, ...), as the command `tensum solve` does.

    The options are the command's: `task` ("map", "pr", "mar", ...), `problem` (what is asked of a graph: "mis", ...),
    `settings` (a mapping of the front end's own). Raises InfeasibleError if there is no solution, OSError where the file cannot
    be read, and ValueError with file, line and column where it is malformed.
    """
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
        method=None if order == "auto" else order,
        minimize=minimize,
        memory_limit=int(memory_limit or 0),
        time_limit=time_limit or 0.0,
        work=-1.0 if work is None else work,
        seed=seed,
        device=device,
        progress=progress_of(progress),
    )
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
        Cost(**{field: found[field] for field in Cost._fields}),
        found["order_seconds"],
        found["run_seconds"],
    )


def front_ends():
    """What `solve` reads: {name: (summary, tasks, questions)}."""
    return {
        name: (summary, tasks.split(), questions.split()) for name, summary, tasks, questions in _core.front_ends()
    }
