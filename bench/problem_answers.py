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
    for name, value, more in (("bqp50-1.sparse", -2098, []), ("gka1a.sparse", -3414, []), ("gka5a.sparse", -5737, []), ("gka1b.sparse", -133, []),
                              ("bqp50_1.qubo", 2098, ["--set=sense=max"]), ("bqp50_1.qubo", -5176, []), ("smallestTest.qubo", 14.2678, ["--set=sense=max"])):
        yield DATA / "qubo" / name, more, value
    for name, task, value in (("t2g10_5555.rudy", "best", 6049461), ("t2g10_5555.rudy", "count-best", 2)):
        yield DATA / "spinglass" / name, ["--problem", "max-cut", "--task", task], value
    for name, best, count in (("example", 27, 414), ("4queens", 0, 2), ("zebra", 0, 1), ("warehouse", 328, 1)):
        yield DATA / "wcsp" / f"{name}.wcsp", [], best
        yield DATA / "wcsp" / f"{name}.wcsp", ["--task", "count-best"], count
    for name, value in (("cubic_vc_50_0", 2802717837), ("mc2022_track1_000", 2048), ("mc2022_track1_033", 2**62), ("mc2022_track1_038", 2**63),
                        ("mc2022_track1_021", 784637825987894704862177297051569632016580688841015296000),
                        ("mc2022_track2_005", -1.1393966738), ("mc2022_track2_042", -0.0824289295)):
        yield DATA / "cnf" / f"{name}.cnf", [], value
    for name, value in (("Segmentation_13", -21.6533777407), ("Segmentation_18", -35.9029110701)):
        path = DATA / "uai-map" / f"{name}.uai"
        yield path, ["--task", "map", "--evidence", f"{path}.evid"], value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tensum", nargs="?", default=str(ROOT / "build" / "tensum"))
    parser.add_argument("--limit", type=float, default=600)
    arguments = parser.parse_args()
    wrong = 0
    print("| file | asked | tc | sc | s | answer | expected | |\n|---|---|---|---|---|---|---|---|")
    for path, options, expected in cases():
        start = time.monotonic()
        asked = " ".join(o for o in options if not o.startswith(("--", "/"))) or "default"
        try:
            done = subprocess.run([arguments.tensum, "solve", str(path), *options, "--json"], capture_output=True, text=True, timeout=arguments.limit)
            answer = json.loads(done.stdout) if done.returncode == 0 else {}
            value = answer.get("value", answer.get("log10_value"))
        except subprocess.TimeoutExpired:
            answer, value = {}, None
        exact = isinstance(expected, int)
        right = value is not None and (value == expected if exact else math.isclose(value, expected, rel_tol=1e-8, abs_tol=1e-8))
        wrong += not right
        print(f"| {path.name} | {asked} | {answer.get('tc', math.nan):.1f} | {answer.get('sc', math.nan):.1f} | {time.monotonic() - start:.2f} "
              f"| {value} | {expected} | {'ok' if right else 'WRONG'} |", flush=True)
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
