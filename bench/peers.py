#!/usr/bin/env python3
"""Time tensum and installed peers on the same work, alternating; write JSON and plots to bench/results/.

    bench/peers.py [--tensum BUILD/tensum] [--threads 1] [--rounds 3] [--size 1024] [--only TEXT] [--skip TEXT]
                   [--data FOLDER] [--machine NAME] [--output FOLDER]

Peers that are not installed are left out: tropical_gemm (tropical matrix products), NumPy, PyTorch (CPU), opt_einsum,
cotengra. Rounds alternate between tensum and the peer, so that both see the same machine; a row holds, for both, the
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
import time

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
    """(peer, work) on a network file, in the order that tensum finds."""
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
        yield "opt_einsum", lambda: compiled(*arrays)
    if optional("cotengra"):
        names = {label: optional("cotengra").get_symbol(i) for i, label in enumerate(sizes)}
        named = [[names[x] for x in own] for own in inputs]
        tree = optional("cotengra").ContractionTree.from_path(named, [names[x] for x in output],
                                                              {names[x]: n for x, n in sizes.items()}, path=order)
        yield "cotengra", lambda: tree.contract(arrays)


def cases(options):
    """(name, peer, our arguments, peer's work)"""
    numpy, torch, tropical = optional("numpy"), optional("torch"), optional("tropical_gemm")
    size = options.size
    if torch:
        torch.set_num_threads(options.threads)
    gemm = ["gemm", "--size", size]
    if tropical and numpy:
        for suffix, dtype, name in (("", "f4", "f32"), ("_f64", "f8", "f64"), ("_i32", "i4", "i32")):
            a, b = matrices(numpy, size, dtype)
            product = getattr(tropical, "maxplus_matmul" + suffix)
            yield (f"max_plus {name} {size}", "tropical_gemm", [*gemm, "--dtype", name], lambda p=product, a=a, b=b: p(a, b))
        a, b = matrices(numpy, size, "f4")
        yield (f"max_plus f32 {size} winners", "tropical_gemm", [*gemm, "--dtype", "f32", "--winners"],
               lambda: tropical.maxplus_matmul_with_argmax(a, b))
        yield (f"max_times f32 {size}", "tropical_gemm", [*gemm, "--semiring", "max_times"], lambda: tropical.maxmul_matmul(a, b))
    if torch:
        x, y = torch.rand(size, size), torch.rand(size, size)
        yield (f"max_plus f32 {size}", "torch", gemm, lambda: torch_tropical(torch, x, y))
        yield (f"sum_product f32 {size}", "torch", [*gemm, "--semiring", "sum_product"], lambda: x @ y)
        large = torch.rand(4096, 4096)
        yield ("transpose f32 4096", "torch", ["reduce"], lambda: large.t().contiguous())
        ranked = torch.rand(2 ** 24).reshape([2] * 24)
        order = [ord(c) - ord("a") for c in "xbvdtfrhpjnlmkoiqgsecuaw"]
        yield ("permute f32 2^24", "torch", ["reduce", "--case", "permute"], lambda: ranked.permute(order).contiguous())
        p, q = torch.rand(8, 8), torch.rand(8, 8)
        yield ("einsum call 8x8", "torch", ["overhead", "--size", 8],
               lambda: torch.einsum("ij,jk->ik", p, q))
        path = options.data / "orders" / "tnbench_tensornetwork.json"
        if path.exists():
            yield ("549 steps f32", "torch", ["network", path, "--fill", 0.5 ** 0.4, "--semiring", "sum_product", "--dtype",
                                              "f32", "--order", "file", "--repeats", 3], torch_network(torch, path))
    if numpy:
        a, b = matrices(numpy, size, "f4")
        yield (f"sum_product f32 {size}", "numpy", [*gemm, "--semiring", "sum_product"], lambda: a @ b)
        large = numpy.random.rand(4096, 4096).astype("f4")
        yield ("transpose f32 4096", "numpy", ["reduce"], lambda: numpy.ascontiguousarray(large.T))
        p, q = matrices(numpy, 8, "f4")
        yield ("einsum call 8x8", "numpy", ["overhead", "--size", 8],
               lambda: numpy.einsum("ij,jk->ik", p, q))
        chain = [numpy.random.rand(2, 2).astype("f4") for _ in range(10)]
        expression = ",".join(chr(97 + i) + chr(98 + i) for i in range(10)) + "->ak"
        small = ["overhead", "--semiring", "sum_product"]
        path = numpy.einsum_path(expression, *chain)[0]
        yield ("10 matrices 2x2", "numpy", small, lambda: numpy.einsum(expression, *chain, optimize=path))
        if optional("opt_einsum"):
            compiled = optional("opt_einsum").contract_expression(expression, *[m.shape for m in chain])
            yield ("10 matrices 2x2", "opt_einsum", small, lambda: compiled(*chain))
        path = options.data / "networks" / "network_large.json"
        if path.exists():
            for peer, work in network_peers(options, numpy, path):
                yield ("149 steps f32", peer, ["network", path, "--semiring", "sum_product", "--dtype", "f32"], work)


def side(times, least, repeats, pairs, moved):
    return {"seconds_median": times, "seconds_min": least, "repeats": repeats, "pairs_per_second": pairs / times,
            "bytes_per_second": moved / times}


def measure(options, name, peer, arguments, work):
    mine, theirs = [], []
    for _ in range(options.rounds):
        mine.append(ours(options, "call" in name, *arguments))
        theirs.append(seconds(work))
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


def plot(rows, threads, path):
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("svg")
    from matplotlib import pyplot
    names = [f"{r['work']} / {r['peer']}" for r in rows]
    figure, axes = pyplot.subplots(figsize=(8, 0.8 + 0.3 * len(rows)))
    axes.barh(names[::-1], [r["ratio"] for r in rows[::-1]], color="#4477aa")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel(f"peer's time / tensum's time, {threads} thread{'s' if threads > 1 else ''}")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


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
    for name, peer, arguments, work in cases(options):
        if options.only not in f"{name} / {peer}" or (options.skip is not None and options.skip in f"{name} / {peer}"):
            continue
        row = measure(options, name, peer, arguments, work)
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
    plot(rows, options.threads, stem.with_suffix(".svg"))


if __name__ == "__main__":
    main()
