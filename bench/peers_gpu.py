#!/usr/bin/env python3
"""Time tensum and installed peers on one GPU, alternating; write bench/results/peers_gpu.json and a plot beside it.

    bench/peers_gpu.py [--tensum BUILD/tensum] [--rounds 3] [--only TEXT] [--data FOLDER] [--sizes 256,512,...]
                       [--output FILE] [--draw FILE]

Peers that are not installed are left out: PyTorch (step by step, and as a replayed CUDA graph), CuPy, opt_einsum (on
PyTorch tensors). Every row is the median over the rounds; a ratio above 1 says that tensum is faster. All operands lie on
the GPU, and calls are waited for twenty at a time. The last column is the share of a ceiling: for products the rate at
which the instructions of a pair can be issued, for moves the rate of a copy by PyTorch. --draw times nothing and draws the plot
of a file of results, for where the GPU's machine has no matplotlib.
"""
import argparse
import importlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import figure

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
PERMUTATION = [ord(c) - ord("a") for c in "xbvdtfrhpjnlmkoiqgsecuaw"]


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def ours(options, *arguments):
    """What `tensum bench` says of one run."""
    command = [options.tensum, "bench", *map(str, arguments), "--device", "cuda:0", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def seconds(work, wait, least=0.15, together=20):
    """Median seconds of one call of `work`, after three to warm up."""
    for _ in range(3):
        work()
    wait()
    times, start = [], time.perf_counter()
    while len(times) < 3 or (time.perf_counter() - start < least and len(times) < 300):
        begin = time.perf_counter()
        for _ in range(together):
            work()
        wait()
        times.append((time.perf_counter() - begin) / together)
    return statistics.median(times)


def graph_of(torch, work):
    """The same work as a CUDA graph that is replayed."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def torch_tropical(torch, a, b):
    """Largest sums by broadcasting, in pieces: the way there is without a kernel."""
    return torch.cat([(a[i:i + 16, :, None] + b[None]).amax(1) for i in range(0, a.shape[0], 16)])


def network_steps(torch, path, fill):
    """Leaves and (children, labels, output) of the network's own tree; extents 2, all elements alike."""
    document = json.loads(path.read_text())
    value = torch.full((), fill, dtype=torch.float32, device="cuda")
    steps, leaves = [], []
    sys.setrecursionlimit(10000)

    def visit(node):
        if node["isleaf"]:
            leaves.append(None)
            return ("leaf", len(leaves) - 1)
        children = [visit(child) for child in node["args"]]
        number = {}
        for label in [x for own in node["eins"]["ixs"] for x in own]:
            number.setdefault(label, len(number))
        labels = [[number[x] for x in own] for own in node["eins"]["ixs"]]
        for (kind, index), own in zip(children, labels):
            if kind == "leaf":
                leaves[index] = value.expand([2] * len(own)).contiguous()
        steps.append((children, labels, [number[x] for x in node["eins"]["iy"]]))
        return ("step", len(steps) - 1)

    visit(document["tree"])
    return leaves, steps


def torch_network(torch, leaves, steps):
    def run():
        results = []
        for children, labels, output in steps:
            operands = []
            for (kind, index), own in zip(children, labels):
                operands += [leaves[index] if kind == "leaf" else results[index], own]
                if kind == "step":
                    results[index] = None
            results.append(torch.einsum(*operands, output))
        return results[-1]

    return run


def opt_einsum_network(opt_einsum, leaves, steps):
    compiled = []
    for children, labels, output in steps:
        names = [[opt_einsum.get_symbol(x) for x in own] for own in labels]
        expression = ",".join("".join(own) for own in names) + "->" + "".join(opt_einsum.get_symbol(x) for x in output)
        compiled.append((children, opt_einsum.contract_expression(expression, *[(2,) * len(own) for own in labels])))

    def run():
        results = []
        for children, contract in compiled:
            results.append(contract(*[leaves[index] if kind == "leaf" else results[index] for kind, index in children]))
            for kind, index in children:
                if kind == "step":
                    results[index] = None
        return results[-1]

    return run


def cases(options, torch, cupy, opt_einsum):
    """(name, our arguments, {peer: work}, ceiling in seconds or None)"""
    wait = torch.cuda.synchronize
    block = torch.rand(1 << 28, device="cuda")
    target = torch.empty_like(block)
    copy = 2 * 4 * block.numel() / seconds(lambda: target.copy_(block), wait)
    print(f"a copy by PyTorch moves {copy / 1e12:.2f} TB/s")
    del block, target
    properties = torch.cuda.get_device_properties(0)
    # Two instructions a pair, FADD and FMNMX; 128 lanes issue, FMNMX at half their rate: 64 pairs per clock and processor.
    clock = options.clock * 1e9
    pairs = properties.multi_processor_count * 64 * clock
    move = ["reduce", "--semiring", "sum_product", "--dtype", "f32"]
    large = torch.rand(4096, 4096, device="cuda")
    ranked = torch.rand(1 << 24, device="cuda").reshape([2] * 24)
    bytes_moved = 2 * 4 * (1 << 24)
    peers = {"torch": lambda: large.t().contiguous()}
    if cupy:
        other = cupy.from_dlpack(large)
        peers["cupy"] = lambda: cupy.ascontiguousarray(other.T)
    yield "transpose f32 4096", move, peers, bytes_moved / copy
    peers = {"torch": lambda: ranked.permute(PERMUTATION).contiguous()}
    if cupy:
        other_ranked = cupy.from_dlpack(ranked)
        peers["cupy"] = lambda: cupy.ascontiguousarray(other_ranked.transpose(PERMUTATION))
    yield "permute f32 2^24", [*move, "--case", "permute"], peers, bytes_moved / copy
    for size in options.sizes:
        x, y = (torch.rand(size, size, device="cuda") for _ in range(2))
        gemm = ["gemm", "--size", size, "--dtype", "f32", "--semiring"]
        peers = {"torch": lambda x=x, y=y: torch_tropical(torch, x, y)} if size <= 1024 else {}
        yield f"max_plus f32 {size}", [*gemm, "max_plus"], peers, size ** 3 / pairs
        yield f"max_plus f32 {size} winners", [*gemm, "max_plus", "--winners"], {}, size ** 3 / pairs
        peers = {"torch": lambda x=x, y=y: x @ y}
        if cupy:
            u, v = cupy.from_dlpack(x), cupy.from_dlpack(y)
            peers["cupy"] = lambda u=u, v=v: u @ v
        yield f"sum_product f32 {size}", [*gemm, "sum_product"], peers, None
    path = options.data / "orders" / "tnbench_tensornetwork.json"
    if path.exists():
        fill = 0.5 ** 0.4
        leaves, steps = network_steps(torch, path, fill)
        run = torch_network(torch, leaves, steps)
        network = ["network", path, "--fill", fill, "--dtype", "f32", "--order", "file", "--repeats", 5, "--semiring"]
        peers = {"torch": run, "torch graph": graph_of(torch, run)}
        if opt_einsum:
            peers["opt_einsum"] = opt_einsum_network(opt_einsum, leaves, steps)
        yield "549 steps sum_product f32", [*network, "sum_product"], peers, None
        del peers
        torch.cuda.empty_cache()
        yield "549 steps sum_product gradient", [*network, "sum_product", "--gradient"], {}, None
        yield "549 steps max_plus f32", [*network, "max_plus"], {}, None
        yield "549 steps max_plus gradient", [*network, "max_plus", "--gradient"], {}, None


def draw(results, path):
    rows = results["rows"]
    figure.bars(path, [(f"peer's time / tensum's time, {results['device']}",
                        {f"{row['work']} / {peer}": time / row["tensum_seconds"] for row in rows for peer, time in row["peers"].items()}, True),
                       ("share of the ceiling", {row["work"]: row["share_of_ceiling"] for row in rows if row["share_of_ceiling"]}, False)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensum", default=str(ROOT / "build" / "tensum"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", type=lambda text: [int(x) for x in text.split(",")], default=[256, 512, 1024, 2048, 4096, 8192])
    parser.add_argument("--clock", type=float, default=1.98, help="GHz under load, for the ceiling of products")
    parser.add_argument("--data", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("TENSUM_DATA", ROOT / ".." / "shared" / "data")))
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench" / "results" / "peers_gpu.json")
    parser.add_argument("--draw", type=pathlib.Path, metavar="FILE", help="draw the plot of these results and time nothing")
    options = parser.parse_args()
    if options.draw:
        draw(json.loads(options.draw.read_text()), options.draw.with_suffix(".svg"))
        return
    torch, cupy, opt_einsum = optional("torch"), optional("cupy"), optional("opt_einsum")
    if torch is None or not torch.cuda.is_available():
        sys.exit("PyTorch with a GPU is needed")
    torch.backends.cuda.matmul.allow_tf32 = False
    rows = []
    print(f"{'work':32} {'tensum':>11} {'returns in':>11}  share  peers")
    for name, arguments, peers, ceiling in cases(options, torch, cupy, opt_einsum):
        if options.only not in name:
            continue
        mine, theirs = [], {peer: [] for peer in peers}
        try:
            for _ in range(options.rounds):
                mine.append(ours(options, *arguments))
                for peer, work in peers.items():
                    theirs[peer].append(seconds(work, torch.cuda.synchronize, together=2 if "steps" in name else 20))
        except RuntimeError as error:
            print(f"{name:32} {error}", flush=True)
            continue
        row = {"work": name, "rounds": options.rounds, "tensum_seconds": statistics.median(m["seconds_median"] for m in mine),
               "enqueue_seconds": statistics.median(m["enqueue_seconds_median"] for m in mine),
               "counters": mine[-1].get("device_counters"), "share_of_ceiling": None, "peers": {}}
        if ceiling:
            row["share_of_ceiling"] = ceiling / row["tensum_seconds"]
        text = ""
        for peer, times in theirs.items():
            row["peers"][peer] = statistics.median(times)
            text += f"  {peer} {row['peers'][peer] * 1e3:.4g} ms ({row['peers'][peer] / row['tensum_seconds']:.2f})"
        share = f"{row['share_of_ceiling']:.2f}" if ceiling else ""
        print(f"{name:32} {row['tensum_seconds'] * 1e3:8.4f} ms {row['enqueue_seconds'] * 1e6:8.1f} us  {share:>5}{text}", flush=True)
        rows.append(row)
    overhead = ours(options, "overhead", "--repeats", 50)
    print(f"a chain of ten 2x2 matrices returns in {overhead['enqueue_seconds_median'] * 1e6:.1f} us, "
          f"tensum_einsum of two in {overhead['einsum_seconds_median'] * 1e6:.1f} us")
    versions = {m: getattr(optional(m), "__version__", None) for m in ("torch", "cupy", "opt_einsum")}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    results = {"device": torch.cuda.get_device_name(0), "versions": versions, "rows": rows, "overhead": overhead}
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    draw(results, options.output.with_suffix(".svg"))


if __name__ == "__main__":
    main()
