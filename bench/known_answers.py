#!/usr/bin/env python3
"""Run the command on public inputs with known answers and print a table.

    bench/known_answers.py [--tensum BUILD/tensum] [--data FOLDER] [--dtype f64] [--device cpu] [--only TEXT] [--timeout S]

Every UAI model of the data folder (partition function, best assignment, marginals and marginal MAP where the answers
are there) and the five three-regular networks (sum-product and max-plus, every tensor filled with 0.5^0.4). Columns: tc and sc of the
plan (log2), seconds for the order and for the run, answer, expected, and whether they agree. The exit status is the
number of rows that do not.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILL = 0.5 ** 0.4
NETWORKS = [("networks/network_small.json", 15, 2.0**4), ("networks/network_medium.json", 75, 2.0**20),
            ("networks/network_large.json", 150, 2.0**40), ("networks/network_3reg_150.json", 225, 2.0**60),
            ("orders/tnbench_tensornetwork.json", 550, 1.0)]


def parse_marginals(path):
    """A .MAR file: MAR, then n {card p...}."""
    tokens = path.read_text().split()[1:]
    count, position, result = int(tokens[0]), 1, []
    for _ in range(count):
        card = int(tokens[position])
        result.append([float(t) for t in tokens[position + 1:position + 1 + card]])
        position += 1 + card
    return result


def run(arguments, options):
    """(answer as JSON or None, exit status, message, wall seconds)"""
    command = [options.tensum, *map(str, arguments), "--json", "--dtype", options.dtype, "--device", options.device]
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return None, -1, f"more than {options.timeout} s", options.timeout
    seconds = time.monotonic() - start
    answer = json.loads(done.stdout) if done.returncode == 0 else None
    return answer, done.returncode, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "", seconds


def close(value, expected, relative):
    if value is None or expected is None:
        return value is None and expected is None
    return abs(value - expected) <= relative * max(1.0, abs(expected))


def rows(data, options):
    """(name, arguments, expected text, check) for everything that has a known answer."""
    tolerance = 1e-5 if options.dtype != "f64" else 1e-9
    for folder in ("uai", "uai-map"):
        answers = json.loads((data / folder / "ANSWERS.json").read_text())
        for name, known in sorted(answers.items()):
            model = data / folder / f"{name}.uai"
            evidence = data / folder / f"{name}.uai.evid"
            base = ["solve", model, "--evidence", evidence]
            log_z = known.get("log10_PR")
            log_z = log_z if isinstance(log_z, float) else None  # one file is malformed: Z is 0 as read
            yield (f"{name} pr", [*base, "--task", "pr"], log_z,
                   lambda a, e=log_z: (a["log10_value"], close(a["log10_value"], e, tolerance)))
            if "log10_MPE" in known:
                best = known["log10_MPE"]
                yield (f"{name} map", [*base, "--task", "map"], best,
                       lambda a, e=best: (a["log10_value"], close(a["log10_value"], e, tolerance)))
            stated = known.get("MAR_given_x7_0")
            if stated is None and (data / folder / f"{name}.uai.MAR").is_file():
                stated = parse_marginals(data / folder / f"{name}.uai.MAR")
            mixed = known.get("MMAP") or known.get("MMAP_own")
            if mixed is not None:
                query = pathlib.Path(options.scratch) / f"{name}.query"
                query.write_text(f"{len(mixed['query'])} {' '.join(map(str, mixed['query']))}")
                yield (f"{name} mmap", [*base, "--task", "mmap", "--query", query], mixed["log10"],
                       lambda a, e=mixed["log10"]: (a["log10_value"], close(a["log10_value"], e, tolerance)))
            if stated is not None:
                def check(a, stated=stated):
                    error = max(abs(x - y) for p, q in zip(a["marginals"], stated) for x, y in zip(p, q))
                    return error, len(a["marginals"]) == len(stated) and error <= (2e-6 if options.dtype == "f64" else 1e-4)
                yield f"{name} mar", [*base, "--task", "mar"], 0.0, check
    for path, tensors, value in NETWORKS:
        for semiring, expected in (("sum_product", value), ("max_plus", tensors * FILL)):
            yield (f"{pathlib.Path(path).stem} {semiring}",
                   ["contract", data / path, "--fill", repr(FILL), "--semiring", semiring], expected,
                   lambda a, e=expected: (a["value"], close(a["value"] / e, 1.0, 1e-10 if options.dtype == "f64" else 1e-4)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensum", default=str(ROOT / "build" / "tensum"))
    parser.add_argument("--data", default=os.environ.get("TENSUM_DATA", str(ROOT / ".." / "shared" / "data")))
    parser.add_argument("--dtype", default="f64")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--timeout", type=float, default=600)
    options = parser.parse_args()
    data = pathlib.Path(options.data).resolve()
    if not (data / "uai" / "ANSWERS.json").is_file():
        sys.exit(f"{data}: no such data; --data FOLDER or TENSUM_DATA names it")
    folder = tempfile.TemporaryDirectory()
    options.scratch = folder.name
    print(f"{'input':34} {'tc':>6} {'sc':>6} {'order s':>8} {'run s':>8}  {'answer':>22} {'expected':>22}")
    wrong = 0
    for name, arguments, expected, check in rows(data, options):
        if options.only not in name:
            continue
        answer, status, message, _ = run(arguments, options)
        shown = "-inf" if expected is None else f"{expected:.13g}"
        if answer is None:
            infeasible = status == 1 and expected is None
            wrong += not infeasible
            print(f"{name:34} {'':6} {'':6} {'':8} {'':8}  {message[:60]} (status {status})", flush=True)
            continue
        value, good = check(answer)
        wrong += not good
        text = "-inf" if value is None else f"{value:.13g}"
        print(f"{name:34} {answer['tc']:6.2f} {answer['sc']:6.2f} {answer['order_seconds']:8.2f} {answer['run_seconds']:8.2f}"
              f"  {text:>22} {shown:>22}  {'ok' if good else 'WRONG'}", flush=True)
    print(f"{wrong} wrong")
    return min(wrong, 99)


if __name__ == "__main__":
    sys.exit(main())
