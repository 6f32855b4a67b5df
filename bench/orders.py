#!/usr/bin/env python3
"""Contraction orders: ours, the best published ones, and other programs given the same time.

    cmake --build build --target bench_orders
    python3 -m venv /tmp/peers && /tmp/peers/bin/pip install cotengra cotengrust optuna kahypar omeco
    /tmp/peers/bin/python bench/orders.py --binary build/bench/orders --time 10 --threads 2 ../shared/data/orders/*.json

Without cotengra or omeco in the Python that runs it, their columns stay empty. tc is log2 of the multiply-adds of all
steps, each counted as the product of all its labels, and including sums over labels of single inputs; sc is log2 of the
largest tensor; all programs' trees are priced by the same function here. Prints a Markdown table.
"""
import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time

# The lowest tc in the published table of OMEinsumContractionOrdersBenchmark (commit be086ca), its program and seconds;
# for einsum_benchmark the better of its two reference paths is priced from the file.
PUBLISHED = {
    "omeco_rg3": (29.41, "HyperND", 11.6),
    "omeco_ksg": (38.94, "HyperND", 16.1),
    "omeco_DBN_13": (28.03, "Treewidth", 0.05),
    "omeco_nqueens_n28": (120.71, "HyperND", 144.0),
    "omeco_sycamore_53_20_0": (66.71, "HyperND", 14.8),
}


def read(path):
    """(list of label lists, output labels, sizes, SSA reference paths)"""
    with open(path) as file:
        data = json.load(file)
    if "einsum" in data:
        inputs, output = data["einsum"]["ixs"], data["einsum"]["iy"]
        sizes = {int(k): v for k, v in data["size"].items()}
    elif "format_string" in data:
        left, right = data["format_string"].split("->")
        inputs, output = [list(term) for term in left.split(",")], list(right)
        sizes = {l: n for term, shape in zip(inputs, data["shapes"]) for l, n in zip(term, shape)}
    else:
        inputs, output = data["inputs"], data["output"]
        sizes = data.get("size_dict") or {l: 2 for term in inputs for l in term}
    paths = [p["path"] for p in data.get("paths", {}).values()]
    return inputs, output, sizes, paths


def price(inputs, output, sizes, path):
    """tc of a linear path with steps of any arity"""
    tensors = [frozenset(term) for term in inputs]
    count = {}
    for labels in tensors:
        for label in labels:
            count[label] = count.get(label, 0) + 1
    output = set(output)
    volume = lambda labels: math.prod(sizes[l] for l in labels)
    total = 0
    for i, labels in enumerate(tensors):
        kept = frozenset(l for l in labels if count[l] > 1 or l in output)
        if kept != labels:
            total += volume(labels)
            tensors[i] = kept
    for step in path:
        parts = [tensors.pop(p) for p in sorted(step, reverse=True)]
        while len(parts) > 1:
            a, b = parts.pop(), parts.pop()
            for label in a & b:
                count[label] -= 1
            total += volume(a | b)
            parts.append(frozenset(l for l in a | b if count[l] > 1 or l in output))
        tensors.append(parts[0])
    return math.log2(total) if total else 0.0


def run_ours(options, path):
    out = subprocess.run([options.binary, path, "--time", str(options.time), "--threads", str(options.threads),
                          "--minimize", "flops"], capture_output=True, text=True, check=True).stdout
    result = json.loads(out)
    return result["tc"], result["sc"], result["seconds"]


class OutOfTime(Exception):
    pass


def out_of_time(number, frame):
    raise OutOfTime


def run_cotengra(options, inputs, output, sizes):
    """Best of the trials that had ended after a quarter more than the time: a trial at hand is not waited for."""
    import cotengra
    names = {}
    rename = lambda labels: [names.setdefault(l, cotengra.get_symbol(len(names))) for l in labels]
    terms = [rename(dict.fromkeys(term)) for term in inputs]
    result = rename(dict.fromkeys(output))
    size = {names[l]: n for l, n in sizes.items() if l in names}
    search = cotengra.HyperOptimizer(minimize="flops", max_time=options.time, max_repeats=10**6, progbar=False,
                                     parallel=options.threads if options.threads > 1 else False,
                                     reconf_opts={}, on_trial_error="ignore")
    signal.signal(signal.SIGALRM, out_of_time)
    start = time.time()
    signal.setitimer(signal.ITIMER_REAL, 1.25 * options.time)
    try:
        search.search(terms, result, size)
    except OutOfTime:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    took = time.time() - start
    if "tree" not in search.best:
        raise TimeoutError("no trial ended in time")
    return price(inputs, output, sizes, search.best["tree"].get_path()), took, len(search.scores)


def run_apart(name, options, path):
    """In a process of its own, whose workers can be ended with it."""
    child = subprocess.Popen([sys.executable, __file__, "--peer", name, "--time", str(options.time), "--threads",
                              str(options.threads), path], stdout=subprocess.PIPE, text=True, start_new_session=True)
    answer = child.stdout.readline()  # not to the end: workers hold the pipe open
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return json.loads(answer) if answer else None


def run_omeco(options, inputs, output, sizes):
    import omeco
    start, best, trial = time.time(), math.inf, 0
    while trial == 0 or time.time() - start < options.time:
        # As many sweeps as fill the time are not known beforehand: start again with twice as many while there is time.
        tree = omeco.optimize_code(inputs, output, sizes, omeco.TreeSA(ntrials=options.threads, niters=50 * 2**trial))
        best = min(best, omeco.contraction_complexity(tree, inputs, sizes).tc)
        trial += 1
    return best, time.time() - start, trial


def attempt(run, *arguments):
    try:
        return run(*arguments)
    except ImportError:
        return None
    except Exception as error:  # a peer's failure is a result, not ours to hide
        print(f"{run.__name__}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--binary", default="build/bench/orders")
    parser.add_argument("--time", type=float, default=10.0, help="seconds for each program and network")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peer", choices=("cotengra", "omeco"), help="run this program only, print JSON")
    options = parser.parse_args()
    if options.peer is not None:
        run = {"cotengra": run_cotengra, "omeco": run_omeco}[options.peer]
        print(json.dumps(attempt(run, options, *read(options.files[0])[:3])), flush=True)
        os._exit(0)  # workers that are still busy are not waited for
    print("| network | tensors | tensum tc | sc | s | published tc | by | cotengra tc | s | trials "
          "| omeco tc | s | trials |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    text = lambda value: "" if value is None else f"{value:.2f}"
    for path in options.files:
        name = os.path.splitext(os.path.basename(path))[0]
        inputs, output, sizes, paths = read(path)
        tc, sc, seconds = run_ours(options, path)
        best, by, _ = PUBLISHED.get(name, (None, "", 0))
        if paths:
            best, by = min(price(inputs, output, sizes, p) for p in paths), "reference path"
        peers = [None, None]
        if not options.no_peers:
            peers = [run_apart(peer, options, path) for peer in ("cotengra", "omeco")]
        cells = [name, str(len(inputs)), f"{tc:.2f}", f"{sc:.1f}", f"{seconds:.1f}", text(best), by]
        for peer in peers:
            cells += [f"{peer[0]:.2f}", f"{peer[1]:.1f}", str(peer[2])] if peer else ["", "", ""]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
