#!/usr/bin/env python3
"""Time tensum and installed peers on the same work, alternating; write JSON and plots to bench/results/.

    bench/peers.py [--tensum BUILD/tensum] [--threads 1] [--rounds 3] [--size 1024] [--only TEXT] [--skip TEXT]
                   [--data FOLDER] [--machine NAME] [--output FOLDER]

Peers that are not installed are left out: tropical_gemm (tropical matrix products), NumPy, PyTorch (CPU), opt_einsum,
cotengra. Before anything is timed, `tensum contract` computes what the peer does from the peer's operands, and a result
that is not the peer's (sums of products: but for rounding) ends the run. Rounds alternate between tensum and the peer, so that both see the same machine; a row holds, for both, the
median and the least seconds of one run over all rounds, the number of timed runs, and pairs and bytes per second at the
median. The ratio is the peer's median over tensum's: above 1 tensum is faster. Plots need matplotlib.
"""
import argparse
import importlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import figure

ROOT = pathlib.Path(__file__).resolve().parents[1]
PEERS = ("tropical_gemm", "numpy", "torch", "opt_einsum", "cotengra")


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def ours(options, call, *arguments):
    """What `tensum bench` says of one run, or (`call`) of one tensum_einsum of two of the matrices."""
    command = [options.tensum, "bench", *map(str, arguments), "--threads", str(options.threads), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    said = json.loads(done.stdout)
    if call:
        said.update(seconds_median=said["einsum_seconds_median"], seconds_min=said["einsum_seconds_median"],
                    pairs_per_second=8 ** 3 / said["einsum_seconds_median"],
                    bytes_per_second=3 * 4 * 8 ** 2 / said["einsum_seconds_median"])
    return said


class Case:
    """One line: what `tensum bench` is told, what the peer runs, and how to have `tensum contract` do the same."""

    def __init__(self, name, peer, arguments, work, network, operands=None, extra=(), semiring="max_plus", dtype="f32",
                 value=lambda result: result):
        self.name, self.peer, self.arguments, self.work = name, peer, arguments, work
        self.network, self.operands, self.extra = network, operands, extra
        self.semiring, self.dtype, self.value = semiring, dtype, value

    def check(self, options, numpy):
        theirs = numpy.asarray(self.value(self.work()))
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "value.npy")
            command = [options.tensum, "contract", str(self.network), "--semiring", self.semiring, "--dtype", self.dtype,
                       "--threads", str(options.threads), "--output", out, *map(str, self.extra)]
            if self.operands is not None:
                path = os.path.join(folder, "operands.npz")
                numpy.savez(path, *[numpy.asarray(x) for x in self.operands])
                command += ["--inputs", path]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
            mine = numpy.load(out)
        theirs = theirs.reshape(mine.shape)
        if self.semiring == "sum_product":
            largest = float(numpy.abs(theirs).max())
            worst = float(numpy.abs(mine.astype("f8") - theirs).max()) / (largest or 1.0)
            if not worst < 1e-4:
                sys.exit(f"{self.name}: {self.peer} differs from tensum by {worst:.2g} of the largest element")
        elif not numpy.array_equal(mine, theirs):
            sys.exit(f"{self.name}: {self.peer} differs from tensum in {int((mine != theirs).sum())} of {mine.size} elements")


def seconds(work, least=0.2):
    """Seconds of single calls of `work`, after one to warm up; calls of microseconds are timed a thousand at a time."""
    begin = time.perf_counter()
    work()
    once = time.perf_counter() - begin
    inner, least_calls = 1000 if once < 1e-3 else 1, 1 if once > 1 else 3
    times, start = [], time.perf_counter()
    while len(times) < least_calls or (time.perf_counter() - start < least and len(times) < 1000):
        begin = time.perf_counter()
        for _ in range(inner):
            work()
        times.append((time.perf_counter() - begin) / inner)
    return times


def matrices(numpy, size, dtype):
    generator = numpy.random.default_rng(1)
    if numpy.dtype(dtype).kind == "i":
        return [generator.integers(0, 100, (size, size)).astype(dtype) for _ in range(2)]
    return [generator.random((size, size)).astype(dtype) for _ in range(2)]


def torch_tropical(torch, a, b):
    """Largest sums by broadcasting, in pieces that fit into the cache: the way there is without a kernel."""
    return torch.cat([(a[i:i + 4, :, None] + b[None]).amax(1) for i in range(0, a.shape[0], 4)])


def torch_network(torch, path):
    """The network's own tree, step by step with torch.einsum; extents 2, all elements alike."""
    document = json.loads(path.read_text())
    fill = torch.full((), 0.5 ** 0.4, dtype=torch.float32)

    def program(node, steps, leaves):
        if node["isleaf"]:
            leaves.append(node)
            return ("leaf", len(leaves) - 1)
        children = [program(child, steps, leaves) for child in node["args"]]
        steps.append((children, node["eins"]["ixs"], node["eins"]["iy"]))
        return ("step", len(steps) - 1)

    steps, leaves = [], []
    sys.setrecursionlimit(10000)
    program(document["tree"], steps, leaves)
    tensors = {}
    for children, labels, _ in steps:
        for (kind, index), own in zip(children, labels):
            if kind == "leaf":
                tensors[index] = fill.expand([2] * len(own)).contiguous()
    compact = []
    for children, labels, output in steps:
        number = {}
        for label in [x for own in labels for x in own]:
            number.setdefault(label, len(number))
        compact.append((children, [[number[x] for x in own] for own in labels], [number[x] for x in output]))

    def run():
        results = []
        for children, labels, output in compact:
            operands = []
            for (kind, index), own in zip(children, labels):
                operands += [tensors[index] if kind == "leaf" else results[index], own]
                if kind == "step":
                    results[index] = None
            results.append(torch.einsum(*operands, output))
            del operands
        return results[-1]

    return run


def network_peers(options, numpy, path):
    """(peer, work, operands) on a network file, in the order that tensum finds."""
    def written(form):
        command = [options.tensum, "plan", str(path), "--output-format", form, "--output", "-"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    document, order = written("cotengra"), [tuple(step) for step in written("path")]
    inputs, output, sizes = document["inputs"], document["output"], document["size_dict"]
    sizes = {label: sizes[str(label)] for own in inputs for label in own}
    arrays = [numpy.random.rand(*[sizes[x] for x in own]).astype("f4") for own in inputs]
    if optional("opt_einsum"):
        symbol = optional("opt_einsum").get_symbol
        number = {label: i for i, label in enumerate(sizes)}
        expression = ",".join("".join(symbol(number[x]) for x in own) for own in inputs)
        expression += "->" + "".join(symbol(number[x]) for x in output)
        compiled = optional("opt_einsum").contract_expression(expression, *[a.shape for a in arrays], optimize=order)
        yield "opt_einsum", lambda: compiled(*arrays), arrays
    if optional("cotengra"):
        names = {label: optional("cotengra").get_symbol(i) for i, label in enumerate(sizes)}
        named = [[names[x] for x in own] for own in inputs]
        tree = optional("cotengra").ContractionTree.from_path(named, [names[x] for x in output],
                                                              {names[x]: n for x, n in sizes.items()}, path=order)
        yield "cotengra", lambda: tree.contract(arrays), arrays


PERMUTATION = "xbvdtfrhpjnlmkoiqgsecuaw"


def cases(options):
    """All lines whose peers are installed."""
    numpy, torch, tropical = optional("numpy"), optional("torch"), optional("tropical_gemm")
    size = options.size
    product = "ij,jk->ik"
    if torch:
        torch.set_num_threads(options.threads)
    gemm = ["gemm", "--size", size]
    sums = [*gemm, "--semiring", "sum_product"]
    if tropical and numpy:
        for suffix, dtype, name in (("", "f4", "f32"), ("_f64", "f8", "f64"), ("_i32", "i4", "i32")):
            a, b = matrices(numpy, size, dtype)
            multiply = getattr(tropical, "maxplus_matmul" + suffix)
            yield Case(f"max_plus {name} {size}", "tropical_gemm", [*gemm, "--dtype", name], lambda p=multiply, a=a, b=b: p(a, b),
                       product, (a, b), dtype=name)
        a, b = matrices(numpy, size, "f4")
        yield Case(f"max_plus f32 {size} winners", "tropical_gemm", [*gemm, "--dtype", "f32", "--winners"],
                   lambda: tropical.maxplus_matmul_with_argmax(a, b), product, (a, b), value=lambda both: both[0])
        yield Case(f"max_times f32 {size}", "tropical_gemm", [*gemm, "--semiring", "max_times"],
                   lambda: tropical.maxmul_matmul(a, b), product, (a, b), semiring="max_times")
    if torch:
        x, y = torch.rand(size, size), torch.rand(size, size)
        yield Case(f"max_plus f32 {size}", "torch", gemm, lambda: torch_tropical(torch, x, y), product, (x, y))
        yield Case(f"sum_product f32 {size}", "torch", sums, lambda: x @ y, product, (x, y), semiring="sum_product")
        large = torch.rand(4096, 4096)
        yield Case("transpose f32 4096", "torch", ["reduce"], lambda: large.t().contiguous(), "ij->ji", (large,))
        ranked = torch.rand(2 ** 24).reshape([2] * 24)
        order = [ord(c) - ord("a") for c in PERMUTATION]
        yield Case("permute f32 2^24", "torch", ["reduce", "--case", "permute"], lambda: ranked.permute(order).contiguous(),
                   "abcdefghijklmnopqrstuvwx->" + PERMUTATION, (ranked,))
        p, q = torch.rand(8, 8), torch.rand(8, 8)
        yield Case("einsum call 8x8", "torch", ["overhead", "--size", 8], lambda: torch.einsum("ij,jk->ik", p, q), product, (p, q),
                   semiring="sum_product")
        path = options.data / "orders" / "tnbench_tensornetwork.json"
        if path.exists():
            fill = 0.5 ** 0.4
            yield Case("549 steps f32", "torch", ["network", path, "--fill", fill, "--semiring", "sum_product", "--dtype", "f32",
                                                  "--order", "file", "--repeats", 3], torch_network(torch, path), path,
                       extra=("--fill", fill, "--order", "file"), semiring="sum_product")
    if numpy:
        a, b = matrices(numpy, size, "f4")
        yield Case(f"sum_product f32 {size}", "numpy", sums, lambda: a @ b, product, (a, b), semiring="sum_product")
        large = numpy.random.rand(4096, 4096).astype("f4")
        yield Case("transpose f32 4096", "numpy", ["reduce"], lambda: numpy.ascontiguousarray(large.T), "ij->ji", (large,))
        p, q = matrices(numpy, 8, "f4")
        yield Case("einsum call 8x8", "numpy", ["overhead", "--size", 8], lambda: numpy.einsum("ij,jk->ik", p, q), product, (p, q),
                   semiring="sum_product")
        chain = [numpy.random.rand(2, 2).astype("f4") for _ in range(10)]
        expression = ",".join(chr(97 + i) + chr(98 + i) for i in range(10)) + "->ak"
        small = ["overhead", "--semiring", "sum_product"]
        path = numpy.einsum_path(expression, *chain)[0]
        yield Case("10 matrices 2x2", "numpy", small, lambda: numpy.einsum(expression, *chain, optimize=path), expression, chain,
                   semiring="sum_product")
        if optional("opt_einsum"):
            compiled = optional("opt_einsum").contract_expression(expression, *[m.shape for m in chain])
            yield Case("10 matrices 2x2", "opt_einsum", small, lambda: compiled(*chain), expression, chain, semiring="sum_product")
        path = options.data / "networks" / "network_large.json"
        if path.exists():
            for peer, work, arrays in network_peers(options, numpy, path):
                yield Case("149 steps f32", peer, ["network", path, "--semiring", "sum_product", "--dtype", "f32"], work, path,
                           arrays, semiring="sum_product")


def side(times, least, repeats, pairs, moved):
    return {"seconds_median": times, "seconds_min": least, "repeats": repeats, "pairs_per_second": pairs / times,
            "bytes_per_second": moved / times}


def measure(options, case):
    name, peer, mine, theirs = case.name, case.peer, [], []
    for _ in range(options.rounds):
        mine.append(ours(options, "call" in name, *case.arguments))
        theirs.append(seconds(case.work))
        if options.rounds > 1 and name.startswith("549"):
            break  # a round of the peer takes half a minute
    pairs = mine[0]["pairs_per_second"] * mine[0]["seconds_median"]
    moved = mine[0]["bytes_per_second"] * mine[0]["seconds_median"]
    flat = [t for times in theirs for t in times]
    row = {"work": name, "peer": peer, "threads": options.threads, "rounds": len(mine),
           "tensum": side(statistics.median(m["seconds_median"] for m in mine), min(m["seconds_min"] for m in mine),
                          sum(m["repeats"] for m in mine), pairs, moved),
           "peer_run": side(statistics.median(flat), min(flat), len(flat), pairs, moved)}
    row["ratio"] = row["peer_run"]["seconds_median"] / row["tensum"]["seconds_median"]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensum", default=str(ROOT / "build" / "tensum"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--only", default="", help="rows whose 'work / peer' contains this")
    parser.add_argument("--skip", default=None, help="leave rows out whose 'work / peer' contains this")
    parser.add_argument("--data", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("TENSUM_DATA", ROOT / ".." / "shared" / "data")))
    parser.add_argument("--machine", default=platform.machine(), help="what the results call this machine")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench" / "results")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(options.threads)  # before the peers are loaded
    rows = []
    print(f"{'work':28} {'peer':14} {'tensum':>12} {'peer':>12} {'ratio':>7}")
    for case in cases(options):
        name, peer = case.name, case.peer
        if options.only not in f"{name} / {peer}" or (options.skip is not None and options.skip in f"{name} / {peer}"):
            continue
        case.check(options, optional("numpy"))
        row = measure(options, case)
        rows.append(row)
        print(f"{name:28} {peer:14} {row['tensum']['seconds_median']:10.3e} s {row['peer_run']['seconds_median']:10.3e} s "
              f"{row['ratio']:7.2f}", flush=True)
    if not rows:
        sys.exit("no row: no peer is installed, or --only names none")
    versions = {m: getattr(optional(m), "__version__", "present") for m in PEERS if optional(m)}
    info = json.loads(subprocess.run([options.tensum, "info", "--json"], capture_output=True, text=True, check=True).stdout)
    isa = next((d.get("driver") for d in info["devices"] if d.get("kind") == "cpu"), None)
    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / f"peers-{options.threads}"
    stem.with_suffix(".json").write_text(json.dumps({"machine": options.machine, "instruction_set": isa, "versions": versions,
                                                     "rows": rows}, indent=1) + "\n")
    figure.bars(stem.with_suffix(".svg"), [(f"peer's time / tensum's time, {options.threads} thread{'s' if options.threads > 1 else ''}",
                                            {f"{row['work']} / {row['peer']}": row["ratio"] for row in rows}, True)])


if __name__ == "__main__":
    main()
