#!/usr/bin/env python3
"""Our own kernels, cuTENSOR and PyTorch on one GPU, through the C interface.

    bench/vendor.py --library BUILD/libtensum.so [--network FILE] [--parts network,gaps,mixed,steps,table]

network: the 549-step public network, own / vendor / auto / torch in one table (the file is tnbench_tensornetwork.json).
gaps:    time between kernels of it, compiled and step by step, with and without a graph (PyTorch's profiler).
mixed:   10,000 contractions of 80 kinds in two layouts each, with room for 64 plans, then for 512.
steps:   every step of it for itself.
table:   times of kernels by shape, which src/backend/cuda/cutensor/measured.def comes from.
"""
import argparse
import ctypes as c
import random
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import torch

P, I64, I32, SIZE = c.c_void_p, c.c_int64, c.c_int32, c.c_size_t
AUTO, NEVER, ALWAYS = 0, 1, 2
LATER = ("later", c.c_uint64 * 8)  # members that a newer header has appended; 0 is their default
DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16,
          "c64": torch.complex64, "c128": torch.complex128}


class Device(c.Structure):
    _fields_ = [("kind", c.c_int), ("index", I32)]


class Tensor(c.Structure):
    _fields_ = [("data", P), ("dtype", c.c_int), ("rank", I32), ("extents", P), ("strides", P), ("device", Device)]


class NetworkSpec(c.Structure):
    _fields_ = [("size", SIZE), ("operand_count", I64), ("ranks", P), ("labels", P), ("extents", P), ("output_rank", I32),
                ("output_labels", P), ("size_count", I64), ("size_labels", P), ("size_extents", P), LATER]


class PlanOptions(c.Structure):
    _fields_ = [("size", SIZE), ("semiring", c.c_int), ("dtype", c.c_int), ("modulus", I64), ("memory_limit", c.c_uint64),
                ("memory_modes", c.c_uint), LATER]


class ProgramOptions(c.Structure):
    _fields_ = [("size", SIZE), ("modes", c.c_uint), ("device", Device), ("check", c.c_int), LATER]


class Run(c.Structure):
    _fields_ = [("size", SIZE), ("inputs", P), ("output", P), ("winners", P), ("cotangent", P), ("gradients", P),
                ("position_count", I64), ("positions", P), ("assignments", P), ("slice_first", I64), ("slice_count", I64),
                ("accumulate", c.c_int), ("stream", P), ("progress", P), ("progress_user", P), LATER]


class FileOptions(c.Structure):
    _fields_ = [("size", SIZE), ("format", c.c_char_p), ("tree", c.c_char_p), ("extent", I64), ("arrays", P), ("network", P),
                LATER]


class StepInfo(c.Structure):
    _fields_ = [("size", SIZE), ("a", I64), ("b", I64), ("rank", I32), ("labels", P), ("log2_pairs", c.c_double),
                ("log2_elements", c.c_double), ("result", I64), LATER]


class Cost(c.Structure):
    _fields_ = [("size", SIZE), ("tc", c.c_double), ("sc", c.c_double), ("rw", c.c_double), ("steps", I64), ("slices", I64),
                ("value", c.c_uint64), ("winners", c.c_uint64), ("gradient", c.c_uint64), ("decode", c.c_uint64), LATER]


def counters(names):
    return type("Counters", (c.Structure,), {"_fields_": [("size", SIZE)] + [(n, c.c_uint64) for n in names.split()]})


Cache = counters("hits misses failures evictions clears entries bytes limit calls")
Scratch = counters("uses growths temporaries waits buffers bytes peak_bytes limit")
Retired = counters("deferred released capacity_waits barriers leaked in_flight in_flight_peak bytes limit")
Counted = counters("uploads upload_bytes downloads download_bytes launches graph_launches module_loads allocations releases "
                   "held_bytes synchronisations a1 a2 a3 a4 a5 a6 a7 a8")
CUDA = Device(1, 0)
LOOP = """
#include <stddef.h>
/* Runs without Python between them. */
int run_list(int (*run)(void *, void *, const void *), long count, void **programs, void **workspaces, void **arguments)
{
    int status = 0;
    for (long i = 0; i < count && status == 0; i++) {
        status = run(programs[i], workspaces[i], arguments[i]);
    }
    return status;
}
"""


class Library:
    def __init__(self, path):
        self.own = c.CDLL(path, mode=c.RTLD_LOCAL)
        self.own.tensum_last_error.restype = c.c_char_p
        for name in "tensum_file_network tensum_file_tree tensum_workspace_create".split():
            getattr(self.own, name).restype = P
        self.own.tensum_program_workspace_bytes.restype = SIZE
        for name in ("tensum_cutensor_choose", "tensum_cutensor_cache_limit", "tensum_cutensor_clear", "tensum_synchronize",
                     "tensum_cutensor_cache_stats", "tensum_cutensor_scratch_stats", "tensum_cuda_retirement_stats",
                     "tensum_device_stats"):
            getattr(self.own, name).argtypes = {"choose": [Device, c.c_int], "limit": [Device, I64], "clear": [Device],
                                                "synchronize": [Device, P]}.get(name.rsplit("_", 1)[1], [Device, P])
        self.dtypes = {}
        for name in DTYPES:
            number = c.c_int()
            self("tensum_dtype_find", name.encode(), c.byref(number))
            self.dtypes[name] = number.value
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/loop.c", "w", encoding="utf-8") as file:
                file.write(LOOP)
            subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", folder + "/loop.so", folder + "/loop.c"], check=True)
            self.loop = c.CDLL(folder + "/loop.so")
        self.loop.run_list.argtypes = [P, c.c_long, P, P, P]

    def __call__(self, name, *arguments):
        status = getattr(self.own, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name}: {self.own.tensum_last_error().decode()}")

    def make(self, name, *arguments):
        made = P()
        getattr(self.own, name).restype = c.c_int
        self(name, *arguments, c.byref(made))
        return made

    def stats(self, kind, name):
        result = kind(c.sizeof(kind))
        self(name, CUDA, c.byref(result))
        return result

    def all_stats(self):
        return (self.stats(Cache, "tensum_cutensor_cache_stats"), self.stats(Scratch, "tensum_cutensor_scratch_stats"),
                self.stats(Retired, "tensum_cuda_retirement_stats"), self.stats(Counted, "tensum_device_stats"))


def longs(values):
    return (I64 * max(len(values), 1))(*values)


class Work:
    """A program with its operands: torch tensors on the device."""

    def __init__(self, library, network, tree, dtype, choice, inputs, output):
        options = PlanOptions(c.sizeof(PlanOptions), 0, library.dtypes[dtype], 0, 0, 0)
        self.tensum = library
        self.plan = library.make("tensum_plan_create", network, tree, c.byref(options))
        library("tensum_cutensor_choose", CUDA, choice)
        self.program = library.make("tensum_program_create", self.plan, None,
                                    c.byref(ProgramOptions(c.sizeof(ProgramOptions), 1, CUDA, 1)))
        self.workspace = library.make("tensum_workspace_create", self.program, None)
        self.bind(dtype, inputs, output)

    def bind(self, dtype, inputs, output):
        number = self.tensum.dtypes[dtype]
        self.keep = [inputs, output]

        def describe(tensor):
            extents, strides = longs(tensor.shape), longs(tensor.stride())
            self.keep += [extents, strides]
            return Tensor(tensor.data_ptr(), number, tensor.dim(), c.cast(extents, P), c.cast(strides, P), CUDA)

        self.inputs = (Tensor * len(inputs))(*[describe(t) for t in inputs])
        self.output = describe(output)
        self.result = output
        self.arguments = Run(c.sizeof(Run), c.cast(self.inputs, P), c.cast(c.pointer(self.output), P), None, None, None, 0, None,
                             None, 0, -1, 0, torch.cuda.current_stream().cuda_stream, None, None)

    def run(self):
        self.arguments.stream = torch.cuda.current_stream().cuda_stream
        self.tensum("tensum_run", self.program, self.workspace, c.byref(self.arguments))

    def fresh_workspace(self):
        self.tensum.own.tensum_workspace_release(self.workspace)
        self.workspace = self.tensum.make("tensum_workspace_create", self.program, None)

    def free(self):
        self.tensum.own.tensum_workspace_release(self.workspace)
        self.tensum.own.tensum_program_release(self.program)
        self.tensum.own.tensum_plan_release(self.plan)


def network_of(library, operands, output):
    """A network from label and extent lists, and the tree that contracts it from the left."""
    count = len(operands)
    labels = [longs(labels) for labels, _ in operands]
    extents = [longs(extents) for _, extents in operands]
    ranks = (I32 * count)(*[len(labels) for labels, _ in operands])
    spec = NetworkSpec(c.sizeof(NetworkSpec), count, c.cast(ranks, P),
                       c.cast((P * count)(*[c.cast(x, P) for x in labels]), P),
                       c.cast((P * count)(*[c.cast(x, P) for x in extents]), P), len(output), c.cast(longs(output), P), 0, None,
                       None)
    network = library.make("tensum_network_create", c.byref(spec))
    offsets, children = ([0, 1], [0]) if count == 1 else ([0, 2], [0, 1])
    tree = library.make("tensum_tree_from_ssa", I64(count), I64(1), longs(offsets), longs(children))
    return network, tree


def milliseconds(work, repeats=15, warm=3):
    """Median device time of one call."""
    for _ in range(warm):
        work()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


# ---- the network


class Network:
    def __init__(self, library, path):
        options = FileOptions(c.sizeof(FileOptions), None, None, 2)  # the file has no extents: all are 2
        self.file = library.make("tensum_file_read", path.encode(), c.byref(options))
        self.network = P(library.own.tensum_file_network(self.file))
        self.tree = P(library.own.tensum_file_tree(self.file))
        library.own.tensum_network_operand_count.restype = I64
        count = library.own.tensum_network_operand_count(self.network)
        generator = torch.Generator(device="cuda").manual_seed(7)
        self.labels, self.inputs = {}, []
        for i in range(count):
            rank, labels, extents = I32(), P(), P()
            library("tensum_network_operand", self.network, I64(i), c.byref(rank), c.byref(labels), c.byref(extents))
            self.labels[i] = list(c.cast(labels, c.POINTER(I64))[:rank.value]) if rank.value else []
            shape = list(c.cast(extents, c.POINTER(I64))[:rank.value]) if rank.value else []
            noise = torch.rand(shape, device="cuda", generator=generator)
            self.inputs.append(0.5 ** 0.4 * (0.8 + 0.4 * noise))
        self.output = torch.empty((), device="cuda")

    def steps(self, library, plan):
        cost = Cost(c.sizeof(Cost))
        library("tensum_plan_cost", plan, c.byref(cost))
        for s in range(cost.steps):
            info = StepInfo(c.sizeof(StepInfo))
            library("tensum_plan_step", plan, I64(s), c.byref(info))
            self.labels[info.result] = list(c.cast(info.labels, c.POINTER(I64))[:info.rank]) if info.rank else []
            yield info.a, info.b, info.result

    def work(self, library, choice, dtype="f32"):
        return Work(library, self.network, self.tree, dtype, choice, [t.to(DTYPES[dtype]) for t in self.inputs],
                    self.output.to(DTYPES[dtype]))

    def torch_steps(self, steps):
        """(a, b, operand labels, result labels) with labels that torch.einsum takes."""
        for a, b, result in steps:
            number = {}
            for label in self.labels[a] + (self.labels[b] if b >= 0 else []):
                number.setdefault(label, len(number))
            yield (a, b, [number[x] for x in self.labels[a]], [number[x] for x in self.labels[b]] if b >= 0 else None,
                   [number[x] for x in self.labels[result]], result)


def torch_run(network, steps):
    values = dict(enumerate(network.inputs))
    for a, b, first, second, labels, result in steps:
        x = values[a] if a < len(network.inputs) else values.pop(a)
        if b < 0:
            values[result] = torch.einsum(x, first, labels)
        else:
            y = values[b] if b < len(network.inputs) else values.pop(b)
            values[result] = torch.einsum(x, first, y, second, labels)
    return values[result]


def recorded(work):
    """A CUDA graph of PyTorch around `work`."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def compare_network(library, network):
    exact = network.work(library, NEVER, "f64")
    exact.run()
    torch.cuda.synchronize()
    truth = exact.result.item()
    steps = list(network.torch_steps(network.steps(library, exact.plan)))
    exact.free()
    print(f"549-step network: {len(steps)} steps, value {truth:.6g} in f64\n{'':14}{'ms':>9} {'error':>9}  workspace")
    for name, choice in (("own", NEVER), ("vendor", ALWAYS), ("auto", AUTO)):
        before = library.all_stats()
        work = network.work(library, choice)
        taken = milliseconds(work.run)
        after = library.all_stats()
        print(f"{name:14}{taken:9.3f} {abs(work.result.item() / truth - 1):9.1e}  "
              f"{library.own.tensum_program_workspace_bytes(work.program) / 2 ** 30:.2f} GiB, {after[0].calls - before[0].calls} "
              f"calls, {after[0].misses - before[0].misses} plans built, "
              f"{after[3].synchronisations - before[3].synchronisations} synchronisations", flush=True)
        work.free()
    result = {}

    def eager():
        result["value"] = torch_run(network, steps)

    taken = milliseconds(eager, 7, 2)
    print(f"{'torch eager':14}{taken:9.3f} {abs(result['value'].item() / truth - 1):9.1e}", flush=True)
    graph = recorded(eager)
    taken = milliseconds(graph.replay, 7, 2)
    print(f"{'torch graph':14}{taken:9.3f} {abs(result['value'].item() / truth - 1):9.1e}", flush=True)
    del graph
    result.clear()
    torch.cuda.empty_cache()


# ---- gaps


def kernels(work, repeats):
    """Begin and end of every kernel, in nanoseconds, per repetition."""
    runs = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            work()
            torch.cuda.synchronize()
        runs.append(sorted((e.start_ns(), e.start_ns() + e.duration_ns())
                           for e in profile.profiler.kineto_results.events()
                           if e.device_type() == torch.autograd.DeviceType.CUDA and e.duration_ns() > 0))
    return runs


def show_gaps(name, runs):
    gaps, busy, span, count = [], 0, 0, 0
    for run in runs:
        last = None
        for begin, end in run:
            if last is not None:
                gaps.append(max(0, begin - last) / 1000)
            busy += (end - begin) if last is None or begin >= last else max(0, end - last)
            last = end if last is None else max(last, end)
        span += run[-1][1] - run[0][0] if run else 0
        count += len(run)
    gaps.sort()
    if not gaps:
        print(f"{name:24} no kernels were seen")
        return

    def at(part):
        return gaps[min(len(gaps) - 1, int(part * len(gaps)))]

    print(f"{name:24}{count // len(runs):6} {at(0.5):8.2f} {at(0.95):8.2f} {at(0.99):8.2f} {sum(gaps) / len(gaps):8.2f} "
          f"{busy / len(runs) / 1e6:9.2f} {span / len(runs) / 1e6:9.2f}", flush=True)


def eager_steps(library, network, choice):
    """The network step by step: a program, a workspace and an output for each step."""
    whole = network.work(library, NEVER)
    steps = list(network.steps(library, whole.plan))
    values, works = dict(enumerate(network.inputs)), []
    for a, b, result in steps:
        operands = [values[a]] + ([values[b]] if b >= 0 else [])
        lists = [(network.labels[i], list(values[i].shape)) for i in (a, b) if i >= 0]
        extent = {x: n for labels, extents in lists for x, n in zip(labels, extents)}
        output = torch.empty([extent[x] for x in network.labels[result]], device="cuda")
        made, tree = network_of(library, lists, network.labels[result])
        works.append(Work(library, made, tree, "f32", choice, operands, output))
        library.own.tensum_network_release(made)
        library.own.tensum_tree_release(tree)
        values[result] = output
    whole.free()
    return works


def gaps(library, network):
    print(f"{'gaps, microseconds':24}kernels  median      p95      p99     mean   busy ms   span ms")
    for choice, word in ((NEVER, "own"), (AUTO, "auto")):
        work = network.work(library, choice)
        first = []
        for _ in range(3):
            work.fresh_workspace()
            first += kernels(work.run, 1)
        show_gaps(f"{word} trace, no graph", first)
        for _ in range(3):
            work.run()
        print(f"    without a profiler: {milliseconds(work.run):.2f} ms a run")
        show_gaps(f"{word} trace, graph", kernels(work.run, 3))
        work.free()
    works = eager_steps(library, network, AUTO)
    count = len(works)
    programs = (P * count)(*[w.program for w in works])
    workspaces = (P * count)(*[w.workspace for w in works])
    arguments = (P * count)(*[c.cast(c.pointer(w.arguments), P) for w in works])
    address = c.cast(library.own.tensum_run, P)

    def eager():
        stream = torch.cuda.current_stream().cuda_stream
        for w in works:
            w.arguments.stream = stream
        status = library.loop.run_list(address, count, programs, workspaces, arguments)
        if status != 0:
            raise RuntimeError(library.own.tensum_last_error().decode())

    for _ in range(3):
        eager()
    torch.cuda.synchronize()
    print(f"    without a profiler: {milliseconds(eager):.2f} ms step by step")
    show_gaps("auto eager, no graph", kernels(eager, 3))
    graph = recorded(eager)
    graph.replay()
    print(f"    without a profiler: {milliseconds(graph.replay):.2f} ms a replay")
    show_gaps("auto eager, graph", kernels(graph.replay, 3))
    del graph
    for w in works:
        w.free()
    torch.cuda.empty_cache()


# ---- mixed contractions


def mixed(library):
    generator = random.Random(5)
    kinds, seen = [], set()
    while len(kinds) < 80:
        dtype = generator.choice(["f32", "f32", "f64", "f16", "c64"])
        b, m, k, n = generator.choice([1, 1, 4]), *[generator.choice([32, 64, 96, 128, 192, 256]) for _ in range(3)]
        if (dtype, b, m, k, n) not in seen:
            seen.add((dtype, b, m, k, n))
            kinds.append((dtype, b, m, k, n))
    works = []
    for dtype, b, m, k, n in kinds:
        x = torch.randn(b, m, k, device="cuda", dtype=DTYPES[dtype])
        y = torch.randn(b, k, n, device="cuda", dtype=DTYPES[dtype])
        other = x.transpose(1, 2).contiguous().transpose(1, 2)
        lists = [([0, 1, 2], [b, m, k]), ([0, 2, 3], [b, k, n])]
        network, tree = network_of(library, lists, [0, 1, 3])
        out = [torch.full((b, m, n), float("nan"), device="cuda", dtype=DTYPES[dtype]) for _ in range(2)]
        vendor = Work(library, network, tree, dtype, ALWAYS, [x, y], out[0])
        own = Work(library, network, tree, dtype, NEVER, [x, y], out[1])
        works.append((dtype, vendor, own, x, other, y, out))
    order = [(generator.randrange(len(works)), generator.randrange(2)) for _ in range(10000)]

    def go(which, layout):
        dtype, vendor, _, x, other, y, out = works[which]
        vendor.bind(dtype, [other if layout else x, y], out[0])
        vendor.run()

    for limit in (64, 512):
        library("tensum_cutensor_clear", CUDA)
        library("tensum_cutensor_cache_limit", CUDA, limit)
        for which in range(len(works)):  # the first pass: workspaces still have the plan of their last run
            for layout in (0, 1, 0):
                go(which, layout)
        before = library.all_stats()
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for which, layout in order:
            go(which, layout)
        end.record()
        end.synchronize()
        after = library.all_stats()
        d = [{n: getattr(x, n) - getattr(y, n) for n, _ in x._fields_[1:]} for x, y in zip(after, before)]
        print(f"10,000 mixed contractions, 80 kinds x 2 layouts, room for {limit} plans: {begin.elapsed_time(end):.0f} ms; calls "
              f"{d[0]['calls']}, hits {d[0]['hits']}, plans built {d[0]['misses']}, evicted {d[0]['evictions']}; synchronisations "
              f"{d[3]['synchronisations']}, barriers {d[2]['barriers']}, capacity waits {d[2]['capacity_waits']}, leaked "
              f"{d[2]['leaked']}; scratch uses {d[1]['uses']}, growths {d[1]['growths']}, temporaries {d[1]['temporaries']}, "
              f"kept {after[1].bytes >> 10} KiB", flush=True)
    worst = {}
    for dtype, vendor, own, x, other, y, out in works:
        for layout in range(2):
            out[0].fill_(float("nan"))
            vendor.bind(dtype, [other if layout else x, y], out[0])
            vendor.run()
            own.run()
            high = torch.complex128 if out[0].is_complex() else torch.float64
            a, b = out[0].to(high), out[1].to(high)
            error = ((a - b).norm() / b.norm()).item()
            worst[dtype] = error if error != error else max(worst.get(dtype, 0.0), error)
    print("largest relative difference from our own kernels: " + ", ".join(f"{d} {e:.1e}" for d, e in sorted(worst.items())),
          flush=True)
    for _, vendor, own, *_ in works:
        vendor.free()
        own.free()
    library("tensum_cutensor_cache_limit", CUDA, 512)


# ---- the table of the choice


SUMS = (1, 2, 4, 7, 9, 11, 13)


def shapes():
    """log2 of left, right and sum: matrices of all proportions, and tiny against huge."""
    for left in (4, 7, 9, 11, 13, 16, 20, 24):
        for right in (1, 2, 4, 7, 9, 11, 13):
            if (4 if left < 13 else 1) <= right <= (left if left <= 13 else 7):
                for inner in SUMS:
                    if left + inner <= 27 and left + right <= 27 and left + right + inner >= 10:
                        yield left, right, inner


def table(library, path):
    """Kernels' own time, whatever it costs to launch them."""
    lines, kernel = [], torch.profiler.ProfilerActivity.CUDA
    for dtype in DTYPES:
        heavy = 34 if dtype in ("f64", "c64", "c128") else 36
        todo = [x for x in shapes() if sum(x) <= heavy]
        works = []

        def go():
            for left, right, inner in todo:
                m, n, k = 1 << left, 1 << right, 1 << inner
                x = torch.randn(m, k, device="cuda", dtype=DTYPES[dtype])
                y = torch.randn(k, n, device="cuda", dtype=DTYPES[dtype])
                out = torch.empty(m, n, device="cuda", dtype=DTYPES[dtype])
                network, tree = network_of(library, [([1, 2], [m, k]), ([2, 3], [k, n])], [1, 3])
                for choice in (NEVER, ALWAYS):
                    work = Work(library, network, tree, dtype, choice, [x, y], out)
                    work.run()
                    torch.cuda._sleep(100)
                    for _ in range(3):
                        work.run()
                    torch.cuda._sleep(100)
                    works.append(work)
                if len(works) > 10:
                    torch.cuda.synchronize()
                    while works:
                        works.pop().free()

        with torch.profiler.profile(activities=[kernel]) as profile:
            go()
            torch.cuda.synchronize()
        events = sorted((e.start_ns(), e.duration_ns(), e.name()) for e in profile.profiler.kineto_results.events()
                        if e.device_type() == torch.autograd.DeviceType.CUDA and e.duration_ns() > 0)
        spans, inside, total = [], False, 0
        for _, duration, name in events:
            if "spin_kernel" in name:
                if inside:
                    spans.append(total / 3000)
                inside, total = not inside, 0
            elif inside:
                total += duration
        while works:
            works.pop().free()
        assert len(spans) == 2 * len(todo), (len(spans), len(todo))
        rows = [(dtype, *x, spans[2 * i], spans[2 * i + 1]) for i, x in enumerate(todo)]
        lines += rows
        best = max(rows, key=lambda r: r[4] / r[5])
        print(f"{dtype}: the library is faster in {sum(r[5] < r[4] for r in rows)} of {len(rows)} shapes; most at 2^{best[1:4]}: "
              f"{best[4]:.0f} to {best[5]:.0f} us", flush=True)
        torch.cuda.empty_cache()
    grouped = {}
    for dtype, left, right, inner, *times in lines:
        grouped.setdefault((dtype, left, right), {})[inner] = times
    with open(path, "w", encoding="utf-8") as file:
        for (dtype, left, right), row in grouped.items():
            own, vendor = (", ".join(f"{row[s][i]:.4g}" if s in row else "0" for s in SUMS) for i in range(2))
            file.write(f"MEASURED({dtype.upper()}, {left}, {right}, OWN({own}), LIBRARY({vendor}))\n")


def steps(library, network, path):
    """Every step of the network for itself, own and vendor, by kernel time."""
    times = []
    for choice in (NEVER, ALWAYS):
        works = eager_steps(library, network, choice)
        for work in works:
            work.run()
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for work in works:
                torch.cuda._sleep(100)
                work.run()
                work.run()
            torch.cuda._sleep(100)
            torch.cuda.synchronize()
        spans, total = [], 0
        for _, duration, name in sorted((e.start_ns(), e.duration_ns(), e.name())
                                        for e in profile.profiler.kineto_results.events()
                                        if e.device_type() == torch.autograd.DeviceType.CUDA and e.duration_ns() > 0):
            if "spin_kernel" in name:
                spans.append(total / 2000)
                total = 0
            else:
                total += duration
        times.append(spans[1:])
        shown = [[t.shape for t in w.keep[0]] + [w.result.shape] for w in works]
        for work in works:
            work.free()
        torch.cuda.empty_cache()
    with open(path, "w", encoding="utf-8") as file:
        for i, (own, vendor) in enumerate(zip(*times)):
            file.write(f"{i} {' '.join(str(len(x)) for x in shown[i])} -> {own:.2f} {vendor:.2f}\n")
    print(f"steps of the network by kernel time: own {sum(times[0]) / 1000:.2f} ms, library where it can "
          f"{sum(times[1]) / 1000:.2f} ms, the better of both {sum(map(min, *times)) / 1000:.2f} ms", flush=True)
    for i in sorted(range(len(times[0])), key=lambda i: -max(times[0][i], times[1][i]))[:24]:
        print(f"    step {i}: ranks {[len(x) for x in shown[i]]} own {times[0][i]:.1f} vendor {times[1][i]:.1f} us")


def repeated(library, work, count):
    """Runs one after the other, without Python between them."""
    arguments = (P * count)(*[c.cast(c.pointer(work.arguments), P)] * count)
    status = library.loop.run_list(c.cast(library.own.tensum_run, P), count, (P * count)(*[work.program] * count),
                                   (P * count)(*[work.workspace] * count), arguments)
    if status != 0:
        raise RuntimeError(library.own.tensum_last_error().decode())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", dest="file", required=True)
    parser.add_argument("--network", default="tnbench_tensornetwork.json")
    parser.add_argument("--parts", default="network,mixed,gaps,table")
    parser.add_argument("--table", default="measured.def")
    parser.add_argument("--steps", default="steps.txt")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device="cuda")
    library = Library(options.file)
    version = I64()
    if library.own.tensum_cutensor_version(c.byref(version)) != 0:
        print(library.own.tensum_last_error().decode())
    print(f"cuTENSOR {version.value}, torch {torch.__version__}, {torch.cuda.get_device_name()}")
    network = None
    failed = 0
    for part in options.parts.split(","):
        begin = time.perf_counter()
        try:
            if part in ("network", "gaps", "steps") and network is None:
                network = Network(library, options.network)
            {"network": lambda: compare_network(library, network), "gaps": lambda: gaps(library, network),
             "mixed": lambda: mixed(library), "steps": lambda: steps(library, network, options.steps), "table": lambda: table(library, options.table)}[part]()
        except Exception:  # the other parts tell something all the same
            traceback.print_exc()
            failed = 1
        print(f"    ({part}: {time.perf_counter() - begin:.0f} s)", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
