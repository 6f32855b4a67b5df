#!/usr/bin/env python3
"""Time tensum and installed peers on the same work, alternating, and write bench/results/peers.json.

    bench/peers.py [--tensum BUILD/tensum] [--threads 1] [--rounds 3] [--size 1024] [--only TEXT] [--data FOLDER]

Peers that are not installed are left out: tropical_gemm (tropical matrix products), NumPy, PyTorch (CPU), opt_einsum.
Every row is the median over the rounds; a ratio above 1 says that tensum is faster. Rounds alternate between tensum and
the peer, so that both see the same machine.
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


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def ours(options, *arguments):
    """Seconds of one run, by `tensum bench`."""
    command = [options.tensum, "bench", *map(str, arguments), "--threads", str(options.threads), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["seconds_median"]


def seconds(work, least=0.2):
    """Median seconds of one call of `work`, after one to warm up."""
    work()
    times, start = [], time.perf_counter()
    while len(times) < 3 or (time.perf_counter() - start < least and len(times) < 1000):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


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
        return results[-1]

    return run


def cases(options):
    """(name, peer, our arguments, peer's work)"""
    numpy, torch, tropical = optional("numpy"), optional("torch"), optional("tropical_gemm")
    opt_einsum = optional("opt_einsum")
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
    if torch:
        x, y = torch.rand(size, size), torch.rand(size, size)
        yield (f"max_plus f32 {size}", "torch", gemm, lambda: torch_tropical(torch, x, y))
        yield (f"sum_product f32 {size}", "torch", [*gemm, "--semiring", "sum_product"], lambda: x @ y)
        large = torch.rand(4096, 4096)
        yield ("transpose f32 4096", "torch", ["reduce"], lambda: large.t().contiguous())
        ranked = torch.rand(2 ** 24).reshape([2] * 24)
        order = [ord(c) - ord("a") for c in "xbvdtfrhpjnlmkoiqgsecuaw"]
        yield ("permute f32 2^24", "torch", ["reduce", "--case", "permute"], lambda: ranked.permute(order).contiguous())
        path = options.data / "orders" / "tnbench_tensornetwork.json"
        if path.exists():
            yield ("549 steps, sum_product f32", "torch", ["network", path, "--fill", 0.5 ** 0.4, "--semiring", "sum_product",
                                                           "--dtype", "f32", "--order", "file"], torch_network(torch, path))
    if numpy:
        a, b = matrices(numpy, size, "f4")
        yield (f"sum_product f32 {size}", "numpy", [*gemm, "--semiring", "sum_product"], lambda: a @ b)
        chain = [numpy.random.rand(2, 2).astype("f4") for _ in range(10)]
        expression = ",".join(chr(97 + i) + chr(98 + i) for i in range(10)) + "->ak"
        small = ["overhead", "--semiring", "sum_product"]
        path = numpy.einsum_path(expression, *chain)[0]
        yield ("10 matrices 2x2", "numpy", small, lambda: numpy.einsum(expression, *chain, optimize=path))
        if opt_einsum:
            compiled = opt_einsum.contract_expression(expression, *[m.shape for m in chain])
            yield ("10 matrices 2x2", "opt_einsum", small, lambda: compiled(*chain))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensum", default=str(ROOT / "build" / "tensum"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--only", default="")
    parser.add_argument("--data", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("TENSUM_DATA", ROOT / ".." / "shared" / "data")))
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench" / "results" / "peers.json")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(options.threads)  # before the peers are loaded
    rows = []
    print(f"{'work':28} {'peer':14} {'tensum':>12} {'peer':>12} {'ratio':>7}")
    for name, peer, arguments, work in cases(options):
        if options.only not in name:
            continue
        mine, theirs = [], []
        for _ in range(options.rounds):
            mine.append(ours(options, *arguments))
            theirs.append(seconds(work))
        row = {"work": name, "peer": peer, "threads": options.threads, "rounds": options.rounds,
               "tensum_seconds": statistics.median(mine), "peer_seconds": statistics.median(theirs)}
        row["ratio"] = row["peer_seconds"] / row["tensum_seconds"]
        rows.append(row)
        print(f"{name:28} {peer:14} {row['tensum_seconds']:10.3e} s {row['peer_seconds']:10.3e} s {row['ratio']:7.2f}",
              flush=True)
    versions = {m: getattr(optional(m), "__version__", None) for m in ("numpy", "torch", "tropical_gemm", "opt_einsum")}
    info = json.loads(subprocess.run([options.tensum, "info", "--json"], capture_output=True, text=True, check=True).stdout)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"machine": platform.machine(), "devices": info["devices"], "versions": versions,
                                          "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
