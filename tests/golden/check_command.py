#!/usr/bin/env python3
"""The command as people run it. Numbers are compared with published answers, or with what is computed here.

    check_command.py BUILD/tensum [WORD...]    only the cases whose name contains one of the words

Larger public inputs are used where the data folder (TENSUM_DATA, or ../shared/data) is there.
"""
import gzip
import itertools
import json
import math
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
PUBLIC = pathlib.Path(os.environ.get("TENSUM_DATA", ROOT / ".." / "shared" / "data"))
FILL = 0.5**0.4
TENSUM = ""
CASES = []


def case(function):
    CASES.append(function)
    return function


def run(*arguments, text=None, timeout=120):
    return subprocess.run([TENSUM, *map(str, arguments)], input=text, capture_output=True, text=not isinstance(text, bytes),
                          timeout=timeout)


def must(*arguments, **options):
    done = run(*arguments, **options)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr}"
    return done.stdout


def answer(*arguments, **options):
    return json.loads(must(*arguments, "--json", **options))


def fails(status, words, *arguments, **options):
    """Exit status, and a message on stderr with all the words; nothing on stdout."""
    done = run(*arguments, **options)
    assert done.returncode == status, f"status {done.returncode}, expected {status}: {done.stderr}"
    assert done.stdout in ("", b""), f"prints on stdout: {done.stdout}"
    message = done.stderr if isinstance(done.stderr, str) else done.stderr.decode()
    for word in words:
        assert word in message, f"no '{word}' in: {message}"


def near(value, expected, relative=1e-9):
    assert abs(value - expected) <= relative * max(1.0, abs(expected)), f"{value}, expected {expected}"


class Folder:
    """A folder for the case's files."""

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="tensum-"))
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path)


# ---- files made here ----


def npy(shape, values, descr="<f8", letter="d", fortran=False):
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {tuple(shape)!r}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{letter}", *values)


def read_npy(data):
    length = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + length].decode(), {"__builtins__": {}})  # our own output
    letter = {"<f8": "d", "<f4": "f", "<i8": "q"}[header["descr"]]
    body = data[10 + length:]
    assert (10 + length) % 64 == 0, "the data are not aligned"
    return header["shape"], list(struct.unpack(f"<{len(body) // struct.calcsize(letter)}{letter}", body))


def read_uai(path):
    """Cards, and factors as (scope, table)."""
    tokens = iter(path.read_text().split())
    assert next(tokens) in ("MARKOV", "BAYES")
    cards = [int(next(tokens)) for _ in range(int(next(tokens)))]
    scopes = []
    for _ in range(int(next(tokens))):
        scopes.append([int(next(tokens)) for _ in range(int(next(tokens)))])
    return cards, [(scope, [float(next(tokens)) for _ in range(int(next(tokens)))]) for scope in scopes]


def log10_score(model, assignment):
    cards, factors = model
    total = 0.0
    for scope, table in factors:
        entry = 0
        for variable in scope:
            entry = entry * cards[variable] + assignment[variable]
        if table[entry] == 0:
            return -math.inf
        total += math.log10(table[entry])
    return total


def read_evidence(path):
    tokens = [int(t) for t in path.read_text().split()]
    return dict(zip(tokens[1::2], tokens[2::2]))


# ---- options ----


@case
def choice_of_cutensor():
    base = ["contract", DATA / "network_small.json", "--fill", "0.5", "--semiring", "sum_product"]
    fails(2, ["--cutensor=sometimes", "auto, never or always"], *base, "--device", "cuda", "--cutensor=sometimes")
    fails(2, ["--cutensor=never", "needs --device=cuda"], *base, "--cutensor=never")


# ---- solve ----


@case
def solve_asia():
    base = ["solve", DATA / "asia.uai", "--evidence", DATA / "asia.uai.evid"]
    found = answer(*base, "--task", "map")
    assert found["assignment"] == [1, 1, 0, 1, 0, 1, 1, 0]
    near(found["log10_value"], -0.6965522543651216)
    for key in ("tc", "sc", "rw", "peak_bytes", "order_seconds", "run_seconds", "device"):
        assert key in found, key
    near(answer(*base, "--task", "pr")["log10_value"], -0.36054279671369993)
    found = answer(*base, "--task", "mar")
    expected = [0.010324950810903302, 0.01884530745880571, 0.6339968796061018, 0.1027592227549289, 0.8339673363295599,
                0.12053583429708334, 0.16209832589628753, 1.0]
    for p, q in zip(found["marginals"], expected):
        near(p[0], q)
        near(p[0] + p[1], 1)
    # no evidence: a Bayesian network's partition function is 1
    near(answer("solve", DATA / "asia.uai", "--task", "pr")["log10_value"] + 1, 1)


@case
def solve_agrees_with_brute_force():
    rng = random.Random(1)
    for trial in range(12):
        n = rng.randint(1, 6)
        cards = [rng.randint(1, 3) for _ in range(n)]
        factors = []
        for _ in range(rng.randint(1, 7)):
            scope = rng.sample(range(n), rng.randint(0, min(3, n)))
            size = math.prod(cards[v] for v in scope)
            factors.append((scope, [rng.choice([0.0, rng.random(), 3 * rng.random()]) if trial % 2 else rng.random()
                                    for _ in range(size)]))
        evidence = {v: rng.randrange(cards[v]) for v in range(n) if rng.random() < 0.3}
        text = f"MARKOV\n{n}\n{' '.join(map(str, cards))}\n{len(factors)}\n"
        text += "".join(f"{len(s)} {' '.join(map(str, s))}\n" for s, _ in factors)
        text += "".join(f"{len(t)}\n{' '.join(map(repr, t))}\n" for _, t in factors)
        total, best, marginals = 0.0, -math.inf, [[0.0] * c for c in cards]
        for x in itertools.product(*map(range, cards)):
            if any(x[v] != value for v, value in evidence.items()):
                continue
            score = log10_score((cards, factors), x)
            weight = 10**score
            total += weight
            best = max(best, score)
            for v in range(n):
                marginals[v][x[v]] += weight
        with Folder() as folder:
            (folder / "m.uai").write_text(text)
            (folder / "m.evid").write_text(f"{len(evidence)} " + " ".join(f"{v} {x}" for v, x in evidence.items()))
            base = ["solve", folder / "m.uai", "--evidence", folder / "m.evid", "--json", "--task"]
            if total == 0:
                assert json.loads(must(*base, "pr"))["log10_value_text"] == "-inf"
                assert run(*base, "map").returncode == 1
                assert run(*base, "mar").returncode == 1
                continue
            for semiring in ("log_sum_exp", "sum_product"):
                near(json.loads(must(*base, "pr", "--semiring", semiring))["log10_value"], math.log10(total))
                found = json.loads(must(*base, "mar", "--semiring", semiring))
                for p, q in zip(found["marginals"], marginals):
                    assert len(p) == len(q)
                    for a, b in zip(p, q):
                        near(a, b / total)
            for semiring in ("max_plus", "max_times"):
                found = json.loads(must(*base, "map", "--semiring", semiring))
                near(found["log10_value"], best)
                near(log10_score((cards, factors), found["assignment"]), best)
                assert all(found["assignment"][v] == x for v, x in evidence.items())


@case
def solve_huge_and_tiny_values_in_f32():
    grids = DATA / "Grids_12.uai"  # Z = 10^303 overflows f32, and f64 nearly
    for dtype, tolerance in (("f64", 1e-10), ("f32", 1e-5)):
        near(answer("solve", grids, "--task", "pr", "--dtype", dtype)["log10_value"], 303.0859565859, tolerance)
        found = answer("solve", grids, "--task", "map", "--dtype", dtype)
        near(found["log10_value"], 302.1929016027371, 1e-6)
        near(log10_score(read_uai(grids), found["assignment"]), found["log10_value"])
    with Folder() as folder:  # 10^-300 each, and 10^1312 in all
        (folder / "tiny.uai").write_text("MARKOV 1 2 1 1 0 2 1e-300 3e-300")
        (folder / "huge.uai").write_text("MARKOV 4 1 1 1 1 4 1 0 1 1 1 2 1 3" + " 1 1e300" * 4)
        for dtype in ("f32", "f64"):
            near(answer("solve", folder / "tiny.uai", "--task", "pr", "--dtype", dtype)["log10_value"], math.log10(4) - 300, 1e-6)
            near(answer("solve", folder / "huge.uai", "--task", "pr", "--dtype", dtype)["log10_value"], 1200, 1e-6)
        p = answer("solve", folder / "tiny.uai", "--task", "mar")["marginals"][0]
        near(p[0], 0.25)


@case
def solve_public_models():
    if not (PUBLIC / "uai" / "ANSWERS.json").is_file():
        return f"no {PUBLIC}"
    answers = json.loads((PUBLIC / "uai" / "ANSWERS.json").read_text())
    answers |= {f"../uai-map/{k}": v for k, v in json.loads((PUBLIC / "uai-map" / "ANSWERS.json").read_text()).items()}
    for name in ("Alchemy_11", "CSP_12", "Promedus_24", "Segmentation_12", "../uai-map/Segmentation_13"):
        known, model = answers[name], PUBLIC / "uai" / f"{name}.uai"
        base = ["solve", model, "--evidence", f"{model}.evid"]
        near(answer(*base, "--task", "pr")["log10_value"], known["log10_PR"])
        found = answer(*base, "--task", "map")
        near(found["log10_value"], known["log10_MPE"])
        near(log10_score(read_uai(model), found["assignment"]), known["log10_MPE"])
        evidence = read_evidence(pathlib.Path(f"{model}.evid"))
        assert all(found["assignment"][v] == x for v, x in evidence.items())
    stated = (PUBLIC / "uai" / "Promedus_24.uai.MAR").read_text().split()[1:]
    found = answer("solve", PUBLIC / "uai" / "Promedus_24.uai", "--evidence", PUBLIC / "uai" / "Promedus_24.uai.evid", "--task", "mar")
    position = 1
    for p in found["marginals"]:
        assert int(stated[position]) == len(p)
        for i, value in enumerate(p):
            assert abs(value - float(stated[position + 1 + i])) <= 1e-6
        position += 1 + len(p)
    # 118 factors without variables are zero: Z = 0 as read
    malformed = PUBLIC / "uai" / "sat-grid-pbl-0010.cnf.uai"
    found = answer("solve", malformed, "--task", "pr")
    assert found["log10_value"] is None and found["log10_value_text"] == "-inf"
    fails(1, [], "solve", malformed, "--task", "map")
    return None


@case
def solve_forms_of_input_and_output():
    model = (DATA / "asia.uai").read_text()
    plain = must("solve", DATA / "asia.uai", "--task", "pr")
    with Folder() as folder:
        with gzip.open(folder / "asia.uai.gz", "wt") as file:
            file.write(model)
        assert must("solve", folder / "asia.uai.gz", "--task", "pr") == plain
        assert must("solve", "-", "--task", "pr", text=model) == plain
        assert must("solve", "-", "--task", "pr", text=model.replace("\n", "\r\n").rstrip()) == plain
        for text in ("1 7 0", "1\n1 7 0\n"):  # both forms of evidence
            (folder / "e").write_text(text)
            near(answer("solve", DATA / "asia.uai", "--task", "pr", "--evidence", folder / "e")["log10_value"], -0.36054279671369993)
        (folder / "two").write_text("2\n1 7 1\n1 7 0\n")
        near(answer("solve", DATA / "asia.uai", "--task", "pr", "--evidence", folder / "two", "--set", "sample=1")["log10_value"],
             -0.36054279671369993)
        out = folder / "answer"
        must("solve", DATA / "asia.uai", "--evidence", DATA / "asia.uai.evid", "--task", "mpe", "-o", out)
        assert out.read_text() == "MAP\n8 1 1 0 1 0 1 1 0\n"
        assert must("solve", DATA / "asia.uai", "--evidence", DATA / "asia.uai.evid", "-o", "-") == "MAP\n8 1 1 0 1 0 1 1 0\n"
        must("solve", DATA / "asia.uai", "--task", "mar", "--evidence", DATA / "asia.uai.evid", "-o", out)
        fields = out.read_text().split()
        assert fields[:3] == ["MAR", "8", "2"] and fields[-3:] == ["2", "1", "0"]
        must("solve", DATA / "asia.uai", "--task", "pr", "--evidence", DATA / "asia.uai.evid", "-o", out)
        assert out.read_text().split()[0] == "PR"
        assert sorted(p.name for p in folder.iterdir()) == ["answer", "asia.uai.gz", "e", "two"]  # nothing left over
        must("solve", DATA / "asia.uai", "--task", "pr", "--save-order", folder / "order.json")
        assert must("solve", DATA / "asia.uai", "--task", "pr", "--order", folder / "order.json") == plain


@case
def bad_models():
    cases = {
        "": "1:1: expected MARKOV",
        "MARKOV": "1:7: expected the number of variables",
        "MARKOV -1": "1:8: expected the number of variables",
        "MARKOV 99999999999999999999 2": "1:8: expected",
        "MARKOV 1000000000 2": "1:8: expected",
        "MARKOV\n1\n0": "3:1: expected a cardinality",
        "MARKOV\n1\n2\n1\n1 1\n2 1 1": "5:3: expected a variable of factor 0",
        "MARKOV\n2\n2 2\n1\n2 1 1\n4 1 1 1 1": "5:5: variable 1 occurs twice",
        "MARKOV\n1\n2\n1\n1 0\n3 1 1 1": "6:1: table 0 has 3 entries",
        "MARKOV\n1\n2\n1\n1 0\n2 1": "6:4: expected an entry of table 0",
        "MARKOV\n1\n2\n1\n1 0\n2 1 -1": "6:5: expected an entry of table 0 (not negative)",
        "MARKOV\n1\n2\n1\n1 0\n2 1 nan": "6:5: expected an entry",
        "MARKOV\n1\n2\n1\n1 0\n2 1 1e999": "6:5: expected an entry",
        "MARKOV\n1\n2\n1\n1 0\n2 1 1 1": "6:7: expected the end of the file",
        "MARKOV 1 2147483647 0": "variable 0 has 2147483647 values",
        "MARKOV " + "9" * 1000000: "1:8: expected",
        "MARKOV 1 2 1 1 0 2 " + "1" * 1000000 + " 1": "1:20: expected",
    }
    with Folder() as folder:
        path = folder / "bad.uai"
        for text, message in cases.items():
            path.write_text(text)
            done = run("solve", path, "--task", "pr")
            assert message in done.stderr, f"{text[:60]!r}: {done.stderr[:200]}, expected {message}"
            assert done.returncode in (2, 3) and done.stdout == "", f"{text[:60]!r}: status {done.returncode}"
        evidence = {"1 8 0": "expected a variable from 0 to 7", "1 7 2": "expected a value of variable 7", "2 7 0 7 1": "observed as 0 and as 1",
                    "1 7 x": "1:5: expected", "3 7 0": "expected 3 pairs", "2\n1 7 0\n": "expected 2 samples", "-1": "1:1: expected"}
        for text, message in evidence.items():
            path.write_text(text)
            fails(3, [message, "bad.uai:"], "solve", DATA / "asia.uai", "--evidence", path)
        path.write_bytes(gzip.compress(b"MARKOV 1 2")[:-6])
        fails(3, ["truncated"], "solve", path)
        fails(3, ["cannot be opened"], "solve", folder / "missing.uai")
        fails(3, ["cannot be written"], "solve", DATA / "asia.uai", "-o", folder / "no" / "such" / "folder")
    fails(3, ["<stdin>:1:1"], "solve", "-", "--front-end", "uai", text="x")


# ---- contract and grad ----


@case
def contract_networks():
    for name, tensors, value in (("network_small", 15, 2.0**4), ("network_medium", 75, 2.0**20)):
        path = DATA / f"{name}.json"
        for dtype, tolerance in (("f64", 1e-12), ("f32", 1e-5)):
            near(answer("contract", path, "--fill", FILL, "--dtype", dtype)["value"], value, tolerance)
            near(answer("contract", path, "--fill", FILL, "--dtype", dtype, "--semiring", "max_plus")["value"], tensors * FILL, tolerance)
        orders = ["file", "auto", "greedy"]
        values = [answer("contract", path, "--fill", "random", "--seed", "7", "--order", order)["value"] for order in orders]
        near(values[1] / values[0], 1, 1e-10)
        near(values[2] / values[0], 1, 1e-10)
        tropical = [answer("contract", path, "--fill", "random", "--seed", "7", "--order", order, "--semiring", "max_plus",
                           "--device", device)["value"] for order in orders for device in ("cpu", "reference")]
        assert max(tropical) - min(tropical) < 1e-12 * tensors
    cost = answer("contract", DATA / "network_small.json", "--dry-run")
    near(cost["tc"], 7.29, 2e-3)
    near(cost["sc"], 3)
    near(cost["rw"], 7.98, 2e-3)


@case
def contract_public_networks():
    if not (PUBLIC / "networks").is_dir():
        return f"no {PUBLIC}"
    near(answer("contract", PUBLIC / "networks" / "network_large.json", "--fill", FILL)["value"], 2.0**40, 1e-12)
    known = {"networks/network_3reg_150.json": (34.60, 27, 28.41), "orders/tnbench_tensornetwork.json": (33.18, 28, 32.09)}
    for name, (tc, sc, rw) in known.items():
        cost = answer("plan", PUBLIC / name)
        for key, value in (("tc", tc), ("sc", sc), ("rw", rw)):
            assert abs(cost[key] - value) < 0.006, f"{name}: {key} {cost[key]}, expected {value}"
    done = run("plan", PUBLIC / "orders" / "tnbench_tensornetwork.json", "--dry-run")
    assert "2 is assumed" in done.stderr
    for path in sorted((PUBLIC / "orders").glob("*.json")):
        if path.name.startswith(("ctg", "omeco_rg3", "omeco_DBN", "omeco_surface", "einsum")):
            assert answer("plan", path, "--order", "greedy")["steps"] > 0
    # log10 of the operations as the benchmark's own paths have them, one operation per pair here
    for tree, size in (("opt_size", 25.36), ("opt_flops", 26.94)):
        cost = answer("plan", PUBLIC / "orders" / "einsumbench_gm_queen5_5_3.wcsp.json", "--tree", tree)
        near(cost["sc"], size, 1e-3)
    return None


def product(a, b, n, k, m):
    return [sum(a[i * k + x] * b[x * m + j] for x in range(k)) for i in range(n) for j in range(m)]


@case
def contract_arrays():
    rng = random.Random(2)
    a = [rng.randint(-9, 9) for _ in range(6)]
    b = [rng.randint(-9, 9) for _ in range(12)]
    expected = product(a, b, 2, 3, 4)
    network = '{"inputs": [["a", "b"], ["b", "c"]], "output": ["a", "c"]}'
    transposed = [b[x * 4 + j] for j in range(4) for x in range(3)]  # the same matrix in Fortran order
    with Folder() as folder:
        (folder / "n.json").write_text(network)
        with zipfile.ZipFile(folder / "in.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("arr_1.npy", npy((3, 4), transposed, fortran=True))
            archive.writestr("arr_0.npy", npy((2, 3), a))
        found = answer("contract", folder / "n.json", "--inputs", folder / "in.npz", "-o", folder / "out.npy")
        assert found["value"] == expected and found["shape"] == [2, 4] and found["dtype"] == "f64"
        assert read_npy((folder / "out.npy").read_bytes()) == ((2, 4), [float(x) for x in expected])
        (folder / "in").mkdir()
        (folder / "in" / "t2.npy").write_bytes(npy((2, 3), a, "<i8", "q"))
        (folder / "in" / "t10.npy").write_bytes(npy((3, 4), b, "<i8", "q"))
        found = answer("contract", folder / "n.json", "--inputs", folder / "in")
        assert found["value"] == expected and found["dtype"] == "i64"
        found = answer("contract", folder / "n.json", "--inputs", folder / "in", "--semiring", "max_plus", "--dtype", "f32")
        assert found["value"] == [max(a[i * 3 + x] + b[x * 4 + j] for x in range(3)) for i in range(2) for j in range(4)]
        assert answer("contract", "ab,bc->ca", "--inputs", folder / "in")["value"] == [expected[i * 4 + j] for j in range(4) for i in range(2)]
        fails(2, ["operand"], "contract", "ab,bc,cd->ad", "--inputs", folder / "in")
        # gradients of the sum of all elements under a cotangent g: g b^T and a^T g
        g = [rng.randint(-3, 3) for _ in range(8)]
        (folder / "g.npy").write_bytes(npy((2, 4), g))
        found = answer("grad", folder / "n.json", "--inputs", folder / "in.npz", "--cotangent", folder / "g.npy", "-o", folder / "g.npz")
        da = [sum(g[i * 4 + j] * b[x * 4 + j] for j in range(4)) for i in range(2) for x in range(3)]
        db = [sum(a[i * 3 + x] * g[i * 4 + j] for i in range(2)) for x in range(3) for j in range(4)]
        assert [t["elements"] for t in found["gradients"]] == [da, db]
        with zipfile.ZipFile(folder / "g.npz") as archive:
            assert read_npy(archive.read("gradient_0.npy")) == ((2, 3), [float(x) for x in da])
            assert read_npy(archive.read("gradient_1.npy")) == ((3, 4), [float(x) for x in db])
            assert read_npy(archive.read("value.npy")) == ((2, 4), [float(x) for x in expected])
        # wrong inputs
        (folder / "in" / "t10.npy").write_bytes(npy((2, 4), b[:8], "<i8", "q"))
        fails(3, ["extent"], "contract", folder / "n.json", "--inputs", folder / "in")
        (folder / "in" / "t10.npy").write_bytes(npy((12,), b, "<i8", "q"))
        fails(3, ["'t10' has rank 1"], "contract", folder / "n.json", "--inputs", folder / "in")
        (folder / "in" / "t10.npy").write_bytes(npy((3, 4), b))
        fails(3, ["is f64, but the first one is i64"], "contract", folder / "n.json", "--inputs", folder / "in")
        (folder / "in" / "t11.npy").write_bytes(npy((1,), [1.0]))
        fails(3, ["2 tensors, but 3 arrays"], "contract", folder / "n.json", "--inputs", folder / "in")
        (folder / "in" / "t11.npy").write_bytes(npy((1,), [1.0])[:-1])
        fails(3, ["t11.npy", "found 7 bytes"], "contract", folder / "n.json", "--inputs", folder / "in")
        fails(2, [".npz"], "grad", folder / "n.json", "--fill", "1", "-o", folder / "x.npy")
    fails(2, ["--inputs FILE or --fill X"], "contract", DATA / "network_small.json")
    fails(2, ["needs --inputs"], "contract", "ij,jk", "--fill", "1")
    fails(2, ["exclude"], "contract", DATA / "network_small.json", "--fill", "1", "--inputs", "x")


@case
def tropical_gradient_is_one_hot():
    found = answer("grad", DATA / "network_small.json", "--fill", "random", "--seed", "3", "--semiring", "max_plus")
    for gradient in found["gradients"]:  # a scalar output: each tensor has one element on the best assignment
        assert sorted(gradient["elements"]) == [0, 0, 0, 1]


# ---- plan ----


@case
def plan_saves_orders():
    source = DATA / "ctg_rtree_100_a.json"
    with Folder() as folder:
        costs = []
        for name in ("tensum", "omeinsum", "cotengra"):
            must("plan", source, "--order", "greedy", "-o", folder / name, "--output-format", name)
            shutil.copy(folder / name, folder / f"{name}.json")
            extra = ["--extent", "10"] if name == "omeinsum" else []  # that format has no extents; these are all 10
            costs.append(answer("plan", folder / f"{name}.json", *extra))
        must("plan", source, "--order", "greedy", "--save-order", folder / "own.json")
        costs.append(answer("plan", source, "--order", folder / "own.json"))
        for name in ("path", "ssa"):
            must("plan", source, "--order", "greedy", "-o", folder / name, "--output-format", name)
            costs.append(answer("plan", source, "--order", folder / name))
        for cost in costs:
            for key in ("tc", "sc", "rw", "steps"):
                near(cost[key], costs[0][key])
        first = must("plan", source, "-o", "-", "--seed", "5")
        assert first == must("plan", source, "-o", "-", "--seed", "5"), "the same seed gives another order"
        # the graph of the labels, and a decomposition made from the order, which leads back to one no worse
        graph = must("plan", source, "-o", "-", "--output-format", "gr").splitlines()
        assert graph[0].split()[:2] == ["p", "tw"] and len(graph) == int(graph[0].split()[3]) + 1
        must("plan", source, "--order", "greedy", "-o", folder / "order.td", "--output-format", "td")
        decomposition = [line.split() for line in (folder / "order.td").read_text().splitlines()]
        width = int(decomposition[0][3])
        assert max(len(line) - 2 for line in decomposition if line[0] == "b") == width
        cost = answer("plan", source, "--order", folder / "order.td")
        assert cost["sc"] <= width * math.log2(10) + 1e-9


@case
def plan_draws():
    with Folder() as folder:
        for source, extra in ((DATA / "network_medium.json", []), (DATA / "asia.uai", ["--task", "pr"])):
            path = folder / "tree.svg"
            must("plan", source, "--svg", path, *extra)
            root = xml.etree.ElementTree.parse(path).getroot()
            space = "{http://www.w3.org/2000/svg}"
            cost = answer("plan", source, *extra)
            assert len(root.findall(f".//{space}circle")) == cost["steps"]
            text = " ".join("".join(t.itertext()) for t in root.findall(f".//{space}text"))
            assert source.name in text and "most expensive steps" in text and f"2^{cost['tc']:.2f}" in text


def grid_model(width, cards):
    """A square grid of variables with random pairwise factors, as UAI."""
    generator = random.Random(5)
    place = [[row * width + column for column in range(width)] for row in range(width)]
    pairs = [(place[r][c], place[r][c + 1]) for r in range(width) for c in range(width - 1)]
    pairs += [(place[r][c], place[r + 1][c]) for r in range(width - 1) for c in range(width)]
    lines = ["MARKOV", str(width * width), " ".join([str(cards)] * width * width), str(len(pairs))]
    lines += [f"2 {a} {b}" for a, b in pairs]
    lines += [f"{cards * cards} " + " ".join(f"{generator.uniform(0.5, 1.5):.6f}" for _ in range(cards * cards)) for _ in pairs]
    return "\n".join(lines) + "\n"


@case
def solve_plots():
    asia, petersen, bell = DATA / "asia.uai", ROOT / "examples" / "petersen.col", ROOT / "examples" / "bell.qasm"
    fails(2, [".png, .svg or .pdf"], "solve", petersen, "--plot", "x.gif")
    with Folder() as folder:  # a machine without python3
        done = subprocess.run([TENSUM, "solve", str(petersen), "--plot", str(folder / "x.png")], env={"PATH": str(folder)}, capture_output=True, text=True)
        assert done.returncode == 5 and "needs python3" in done.stderr and done.stdout == "", done
    if subprocess.run(["python3", "-c", "import matplotlib"], capture_output=True).returncode != 0:
        fails(5, ["needs matplotlib"], "solve", petersen, "--plot", "x.png")
        return "the pictures themselves: no matplotlib"
    with Folder() as folder:
        drawings = ((asia, ["--task", "mar"], ["marginals", "variable", "probability"]), (petersen, ["--problem", "max-cut"], ["max-cut, value 12", "side 0", "side 1"]),
                    (petersen, ["--problem", "coloring"], ["colour 3"]), (petersen, ["--problem", "matching"], ["chosen edge", "other edge"]),
                    (petersen, ["--problem", "clique"], ["chosen", "not chosen"]), (petersen, ["--task", "marginals"], ["marginals"]), (bell, ["--set", "bits=??"], ["amplitudes"]))
        for number, (file, arguments, words) in enumerate(drawings):
            path = folder / f"{number}.svg"
            must("solve", file, *arguments, "--plot", path)
            text = path.read_text()
            assert xml.etree.ElementTree.fromstring(text).tag.endswith("svg")
            for word in words:  # matplotlib draws glyphs, and says in comments which text they are
                assert f"<!-- {word}" in text or f"{word} -->" in text, f"no '{word}' in the picture of {file.name} {arguments}"
        must("solve", petersen, "--plot", folder / "x.png")
        assert (folder / "x.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        for status, words, *arguments in ((2, "makes no picture", petersen, "--task", "count"), (2, "makes no picture", asia, "--task", "map")):
            done = run("solve", *arguments, "--plot", folder / "none.png")
            assert done.returncode == status and words in done.stderr and done.stdout != "", done
        done = run("solve", petersen, "--plot", folder / "no" / "x.png")
        assert done.returncode == 3 and "cannot be written" in done.stderr, done
    return None


@case
def memory_limit():
    with Folder() as folder:
        # large enough that packing buffers, which the limit counts too, do not decide
        network = folder / "wide_bonds.json"
        network.write_text((DATA / "network_medium.json").read_text().replace('"bond_dim":2', '"bond_dim":4'))
        free = answer("contract", network, "--fill", FILL, "--order", "greedy")
        limit = free["peak_bytes"] // 3
        tight = answer("contract", network, "--fill", FILL, "--order", "greedy", "--memory-limit", f"{limit}B")
        assert tight["slices"] > 1 and tight["peak_bytes"] <= limit
        near(tight["value"] / free["value"], 1, 1e-12)
        # gradients and decoding keep every intermediate: the limit counts those
        model = folder / "grid.uai"
        model.write_text(grid_model(8, 4))
        for command in (["grad", network, "--fill", "random"], ["solve", model, "--task", "map"],
                        ["solve", model, "--task", "mar"]):
            free = answer(*command, "--order", "greedy")
            limit = free["peak_bytes"] // 2
            tight = answer(*command, "--order", "greedy", "--memory-limit", f"{limit}B")
            assert tight["peak_bytes"] <= limit  # by slices, or by an order that the search for them came upon
            key = "log10_value" if "log10_value" in free else "value"
            near(tight[key] / free[key], 1, 1e-10)
        # an order in the network's own file is kept where it fits, and sliced or replaced where not
        own = folder / "own.json"
        must("plan", network, "--order", "greedy", "--output", own)
        free = answer("contract", own, "--fill", FILL)
        roomy = answer("contract", own, "--fill", FILL, "--memory-limit", f"{2 * free['peak_bytes']}B")
        assert roomy["tc"] == free["tc"] and roomy["slices"] == 1 and roomy["order_seconds"] < 0.1
        tight = answer("contract", own, "--fill", FILL, "--memory-limit", f"{free['peak_bytes'] // 3}B")
        assert tight["peak_bytes"] <= free["peak_bytes"] // 3
        near(tight["value"] / free["value"], 1, 1e-12)
        fails(4, ["bytes", "limit"], "contract", own, "--fill", FILL, "--order", "file", "--memory-limit",
              f"{free['peak_bytes'] // 3}B")
    fails(4, ["bytes", "limit"], "contract", DATA / "network_medium.json", "--fill", FILL, "--memory-limit", "8B")


# ---- use ----


@case
def wrong_use():
    fails(2, ["Usage"],)
    fails(2, ["did you mean 'solve'?"], "slove")
    fails(2, ["did you mean '--task'?"], "solve", "x.uai", "--taks", "pr")
    fails(2, ["did you mean 'max_plus'?"], "contract", "x.json", "--semiring", "max_pls")
    fails(2, ["did you mean 'f32'?"], "contract", "x.json", "--dtype", "f33")
    fails(2, ["map|mpe pr mar"], "solve", DATA / "asia.uai", "--task", "partition")
    fails(2, ["did you mean", "greedy"], "contract", DATA / "network_small.json", "--fill", "1", "--order", "gredy")
    fails(2, ["bytes"], "contract", "x.json", "--memory-limit", "4Gigs")
    fails(2, ["cannot be computed in min_plus"], "solve", DATA / "asia.uai", "--semiring", "min_plus")
    fails(2, ["setting"], "solve", DATA / "asia.uai", "--set", "smple=1")
    fails(2, ["one file only"], "solve", DATA / "asia.uai", DATA / "asia.uai")
    fails(2, ["expected the file"], "solve")
    fails(2, [], "contract", DATA / "network_small.json", "--fill", "1", "--semiring", "sum_product", "--dtype", "bool")
    fails(2, ["expected man, bash or zsh"], "--generate", "fish")
    fails(3, ["1:1"], "contract", DATA / "asia.uai", "--fill", "1")


@case
def help_info_and_generated_texts():
    assert "solve" in must("--help")
    assert must("--version").startswith("tensum ")
    for name in ("solve", "contract", "grad", "plan", "info"):
        assert "Example" in must(name, "--help")
    info = json.loads(must("info", "--json"))
    assert "g" in info["supports"]["log_sum_exp"]["f64"] and "d" in info["supports"]["max_plus"]["f32"]
    assert any(device["kind"] == "cpu" for device in info["devices"])
    assert "max_plus" in must("info")
    man = must("--generate", "man")
    assert man.startswith(".TH TENSUM 1") and "memory\\-limit" in man and "save\\-order" in man
    for shell in ("bash", "zsh"):
        script = must("--generate", shell)
        assert "--evidence" in script and "max_plus" in script
        if shutil.which(shell):
            done = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True)
            assert done.returncode == 0, done.stderr
    if shutil.which("bash"):
        script = must("--generate", "bash") + '\nCOMP_WORDS=(tensum contract --semiring = max_p); COMP_CWORD=4; _tensum; echo "${COMPREPLY[@]}"\n'
        script += 'COMP_WORDS=(tensum solve --problem = max-); COMP_CWORD=4; _tensum; echo "${COMPREPLY[@]}"\n'
        script += 'COMP_WORDS=(tensum solve --set colo); COMP_CWORD=3; _tensum; echo "${COMPREPLY[@]}"\n'
        script += 'COMP_WORDS=(tensum so); COMP_CWORD=1; _tensum; echo "${COMPREPLY[@]}"\n'
        done = subprocess.run(["bash", "-s"], input=script, text=True, capture_output=True)
        assert done.stdout.split("\n")[:4] == ["max_plus max_plus_count", "max-cut", "colors=", "solve"], done.stdout + done.stderr


@case
def interrupt():
    """Ctrl-C during a long run ends it between two steps, with a message."""
    count, extent = 400, 200
    network = json.dumps({"inputs": [[i, i + 1] for i in range(count)], "output": [0, count],
                          "size_dict": {str(i): extent for i in range(count + 1)}})
    with Folder() as folder:
        (folder / "n.json").write_text(network)
        process = subprocess.Popen([TENSUM, "contract", str(folder / "n.json"), "--fill", "random", "--device", "reference", "--order",
                                    "greedy", "--threads", "1", "-o", str(folder / "out.npy")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1.5)
        if process.poll() is not None:
            return "the run was too fast to be interrupted"
        process.send_signal(signal.SIGINT)
        try:
            out, message = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError("still running 60 s after Ctrl-C") from None
        assert process.returncode == 5 and "interrupted" in message and out == "", f"status {process.returncode}: {message}"
        assert not (folder / "out.npy").exists()
    return None


@case
def interrupted_answers():
    """Ctrl-C keeps what is known: samples drawn, the best assignments found, the best order so far."""
    rng, folder = random.Random(3), pathlib.Path(tempfile.mkdtemp(prefix="tensum-"))
    hard = folder / "hard.edges"  # an order for it takes all the time there is
    hard.write_text("".join(f"{u} {v}\n" for u in range(600) for v in rng.sample(range(600), 2) if u != v))
    cases = ((["solve", ROOT / "examples" / "petersen.col", "--task", "sample", "--count", "1000000"], "answers so far", "assignment"),
             (["solve", hard, "--time-limit", "60"], "in stage 'order' after", ""),
             (["plan", hard, "--problem", "mis", "--time-limit", "60"], "best order so far", "tc "))
    for arguments, words, lines in cases:
        process = subprocess.Popen([TENSUM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        try:
            out, message = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError("still running 60 s after Ctrl-C") from None
        assert process.returncode == 5 and words in message, f"{arguments[1]}: status {process.returncode}: {message}"
        assert (lines in out) if lines else out == "", out[:200]
    shutil.rmtree(folder)


def main():
    global TENSUM
    TENSUM = str(pathlib.Path(sys.argv[1]).resolve())
    words = sys.argv[2:]
    passed = failed = skipped = 0
    for function in CASES:
        if words and not any(word in function.__name__ for word in words):
            continue
        start = time.monotonic()
        try:
            reason = function()
        except (AssertionError, subprocess.TimeoutExpired, KeyError, ValueError) as error:
            failed += 1
            print(f"FAIL {function.__name__}: {error!r}")
            continue
        if reason is not None:
            skipped += 1
            print(f"skipped {function.__name__}: {reason}")
        else:
            passed += 1
            print(f"ok {function.__name__} ({time.monotonic() - start:.1f} s)")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
