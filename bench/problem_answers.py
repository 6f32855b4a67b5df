#!/usr/bin/env python3
"""All public problems with known answers: tc, sc, seconds, answer, expected.

    bench/problem_answers.py [BUILD/tensum] [--limit SECONDS]    data in TENSUM_DATA, or ../shared/data
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = pathlib.Path(os.environ.get("TENSUM_DATA", ROOT / ".." / "shared" / "data"))


def cases():
    graph = json.loads((DATA / "graph" / "ANSWERS.json").read_text())
    keys = {"numIS": ("mis", "count"), "MIS": ("mis", "best"), "numMIS": ("mis", "count-best"), "maxcut": ("max-cut", "best"),
            "numMaxcut": ("max-cut", "count-best"), "matchings": ("matching", "count"), "perfect_matchings": ("perfect-matching", "count"),
            **{f"{q}col": ("coloring", "count", f"colors={q}") for q in range(2, 7)}}
    for name, answers in graph.items():
        for key, expected in answers.items():
            if key in keys and (DATA / "graph" / name).exists():
                question, task, *more = keys[key]
                yield DATA / "graph" / name, ["--problem", question, "--task", task] + ["--set=" + s for s in more], expected
    yield DATA / "graph" / "petersen.col", ["--problem", "clique"], 2
    yield DATA / "graph" / "queen5_5.col", ["--problem", "clique"], 5
    for name, value, more in (("bqp50-1.sparse", -2098, []), ("gka1a.sparse", -3414, []), ("gka5a.sparse", -5737, []), ("gka1b.sparse", -133, []),
                              ("bqp50_1.qubo", 2098, ["--set=sense=max"]), ("bqp50_1.qubo", -5176, []), ("smallestTest.qubo", 14.2678, ["--set=sense=max"])):
        yield DATA / "qubo" / name, more, value
    for name, task, value in (("t2g10_5555.rudy", "best", 6049461), ("t2g10_5555.rudy", "count-best", 2), ("t2g15_5555.rudy", "best", 15051133)):
        yield DATA / "spinglass" / name, ["--problem", "max-cut", "--task", task], value
    for name, best, count in (("example", 27, 414), ("4queens", 0, 2), ("zebra", 0, 1), ("warehouse", 328, 1)):
        yield DATA / "wcsp" / f"{name}.wcsp", [], best
        yield DATA / "wcsp" / f"{name}.wcsp", ["--task", "count-best"], count
    for name, answers in json.loads((DATA / "cnf" / "ANSWERS.json").read_text()).items():
        exact = answers.get("count") if not answers["weighted"] else None
        yield DATA / "cnf" / f"{name}.cnf", [], int(exact) if exact is not None else answers["own_log10"] or float(answers["stated_log10"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tensum", nargs="?", default=str(ROOT / "build" / "tensum"))
    parser.add_argument("--limit", type=float, default=600)
    arguments = parser.parse_args()
    wrong = total = 0
    print("| file | asked | tc | sc | s | answer | expected | |\n|---|---|---|---|---|---|---|---|")
    for path, options, expected in cases():
        start = time.monotonic()
        asked = " ".join(o for o in options if not o.startswith(("--", "/"))) or "default"
        try:
            done = subprocess.run([arguments.tensum, "solve", str(path), *options, "--json"], capture_output=True, text=True, timeout=arguments.limit)
            answer = json.loads(done.stdout) if done.returncode == 0 else {}
            value = answer.get("value", answer.get("log10_value"))
            if path.suffix == ".cnf" and isinstance(expected, float) and isinstance(value, int):
                value = math.log10(value)  # only the logarithm of the count is published
            reason = done.stderr.strip().splitlines()[-1] if done.returncode != 0 else ""
        except subprocess.TimeoutExpired:
            answer, value, reason = {}, None, f"more than {arguments.limit:.0f} s"
        exact, reason = isinstance(expected, int), ""
        right = value is not None and (value == expected if exact else math.isclose(value, expected, rel_tol=1e-8, abs_tol=1e-8))
        wrong += not right
        total += 1
        print(f"| {path.name} | {asked} | {answer.get('tc', math.nan):.1f} | {answer.get('sc', math.nan):.1f} | {time.monotonic() - start:.2f} "
              f"| {value if value is not None else reason} | {expected} | {'ok' if right else 'WRONG'} |", flush=True)
    print(f"{total} answers, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
