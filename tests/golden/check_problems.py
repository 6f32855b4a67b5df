#!/usr/bin/env python3
"""`tensum solve` against brute force: every front end, question and task on small random files, each answer scored
from the file's text by the code here; and published answers where the data folder (TENSUM_DATA, or ../shared/data) is.

    check_problems.py BUILD/tensum [SEED]
"""
import itertools
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLIC = pathlib.Path(os.environ.get("TENSUM_DATA", ROOT / ".." / "shared" / "data"))
TENSUM = sys.argv[1]
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 2026
passed = failed = skipped = 0


def solve(path, *arguments, status=0):
    done = subprocess.run([TENSUM, "solve", str(path), *map(str, arguments), "--json"], capture_output=True, text=True, timeout=300)
    if done.returncode != status:
        raise AssertionError(f"status {done.returncode}, expected {status}: {done.stderr.strip()}")
    if status != 0:
        return done.stderr
    answer = json.loads(done.stdout)
    if "assignment" in answer:  # one alone is not listed again
        answer.setdefault("assignments", [answer["assignment"]])
    return answer


def check(name, function, *arguments):
    global passed, failed
    try:
        function(*arguments)
        passed += 1
    except Exception as error:  # noqa: BLE001: any failure is the case's
        failed += 1
        print(f"FAIL {name}: {type(error).__name__}: {error}")


class Model:
    """A finite problem for brute force: objective(x) is None where x is not allowed."""

    def __init__(self, cards, objective, largest):
        self.cards, self.objective, self.largest = cards, objective, largest
        self.allowed = [(value, x) for x in itertools.product(*map(range, cards)) if (value := objective(x)) is not None]


def near(a, b):
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def every_task(path, arguments, model):
    values = sorted((v for v, _ in model.allowed), reverse=model.largest)
    assert solve(path, *arguments, "--task", "count")["value"] == len(values)
    if not values:
        for task in ("best", "count-best", "best-k", "all-best", "sample", "marginals"):
            assert "no assignment satisfies" in solve(path, *arguments, "--task", task, status=1)
        return
    best = values[0]
    ties = sum(near(v, best) for v in values)
    answer = solve(path, *arguments, "--task", "best")
    assert near(answer["value"], best), (answer["value"], best)
    assert near(model.objective(answer["assignment"]), best)
    answer = solve(path, *arguments, "--task", "count-best")
    assert answer["value"] == ties and near(answer["values"][0], best), (answer, ties)
    answer = solve(path, *arguments, "--task", "best-k", "--count", 5)
    found = [model.objective(x) for x in answer["assignments"]]
    assert None not in found and len({tuple(x) for x in answer["assignments"]}) == min(5, len(values))
    assert all(near(a, b) and near(a, c) for a, b, c in zip(found, values, answer["values"])), (found, values[:5])
    answer = solve(path, *arguments, "--task", "all-best")
    assert len(answer["assignments"]) == ties and len({tuple(x) for x in answer["assignments"]}) == ties
    assert all(near(model.objective(x), best) for x in answer["assignments"])
    answer = solve(path, *arguments, "--task", "marginals")
    assert near(answer["log10_value"], math.log10(len(values)))
    for v, card in enumerate(model.cards):
        for x in range(card):
            share = sum(a[v] == x for _, a in model.allowed) / len(values)
            assert near(answer["marginals"][v][x], share), (v, x, answer["marginals"][v], share)
    answer = solve(path, *arguments, "--task", "sample", "--count", 3)
    assert all(model.objective(x) is not None for x in answer["assignments"]) and len(answer["assignments"]) == 3


def graph_models(n, edges, weights):
    adjacent = {frozenset(e[:2]) for e in edges}
    neighbors = [[u for u in range(n) if frozenset((u, v)) in adjacent] for v in range(n)]
    total = lambda x: sum(w for w, b in zip(weights, x) if b)
    free = lambda x: all(not (x[u] and x[v]) for u, v, _ in edges)
    dominating = lambda x: all(x[v] or any(x[u] for u in neighbors[v]) for v in range(n))
    degrees = lambda x: [sum(b for b, e in zip(x, edges) if v in e[:2]) for v in range(n)]
    chosen = lambda x: sum(e[2] for b, e in zip(x, edges) if b)
    bits = [2] * n
    yield "mis", [], Model(bits, lambda x: total(x) if free(x) else None, True)
    yield "vertex-cover", [], Model(bits, lambda x: total(x) if all(x[u] or x[v] for u, v, _ in edges) else None, False)
    yield "clique", [], Model(bits, lambda x: total(x) if all(frozenset(p) in adjacent for p in itertools.combinations(
        [v for v in range(n) if x[v]], 2)) else None, True)
    yield "max-cut", [], Model(bits, lambda x: sum(w for u, v, w in edges if x[u] != x[v]), True)
    yield "dominating-set", [], Model(bits, lambda x: total(x) if dominating(x) else None, False)
    yield "maximal-is", [], Model(bits, lambda x: total(x) if free(x) and dominating(x) else None, True)
    yield "matching", [], Model([2] * len(edges), lambda x: chosen(x) if max(degrees(x), default=0) <= 1 else None, True)
    yield "perfect-matching", [], Model([2] * len(edges), lambda x: chosen(x) if set(degrees(x)) <= {1} else None, True)
    yield "coloring", ["--set", "colors=3"], Model([3] * n, lambda x: 0 if all(x[u] != x[v] for u, v, _ in edges) else None, True)


def random_graph(generator, n, m, weighted):
    pairs = sorted(generator.sample(list(itertools.combinations(range(n), 2)), m))
    edges = [(u, v, generator.randint(1, 5) if weighted else 1) for u, v in pairs]
    weights = [generator.randint(1, 5) if weighted else 1 for _ in range(n)]
    return edges, weights


def check_graphs(folder, generator):
    for weighted in (False, True):
        edges, weights = random_graph(generator, 6, 9, weighted)
        path = folder / f"graph{weighted}.col"
        lines = ["c a graph", f"p edge 6 {len(edges)}"] + [f"n {v + 1} {w}" for v, w in enumerate(weights) if w != 1]
        lines += [f"e {u + 1} {v + 1}" + (f" {w}" if w != 1 else "") for u, v, w in edges] + [f"e {edges[0][1] + 1} {edges[0][0] + 1}" + (
            f" {edges[0][2]}" if edges[0][2] != 1 else "")]
        path.write_text("\n".join(lines) + "\n")
        for question, more, model in graph_models(6, edges, weights):
            check(f"{path.name} {question}", every_task, path, ["--problem", question, *more], model)
    edges, _ = random_graph(generator, 7, 9, True)
    cut = Model([2] * 7, lambda x: sum(w for u, v, w in edges if x[u] != x[v]), True)
    rudy, listed, pace = folder / "g.rudy", folder / "g.edges", folder / "g.gr"
    rudy.write_text(f"7 {len(edges)}\n" + "".join(f"{u + 1} {v + 1} {w}\n" for u, v, w in edges) + "\n")
    check("rudy", every_task, rudy, ["--problem", "max-cut"], cut)
    listed.write_text("# from 0\n" + "".join(f"{u} {v} {w}\r\n" for u, v, w in edges) + "5 6 0\n0 6 0" * all({5, 6} != set(e[:2]) for e in edges))
    last = max(max(e[:2]) for e in edges) + 1
    if all({5, 6} != set(e[:2]) and {0, 6} != set(e[:2]) for e in edges):
        check("edge list", every_task, listed, ["--problem", "max-cut"], cut)
    pace.write_text(f"c x\np tw 7 {len(edges)}\n" + "".join(f"{u + 1} {v + 1}\n" for u, v, _ in edges))
    check("PACE", every_task, pace, ["--problem", "mis"],
          Model([2] * 7, lambda x: sum(x) if all(not (x[u] and x[v]) for u, v, _ in edges) else None, True))
    assert last <= 7


def check_nothing(folder, _):
    """No vertices, no edges, no variables: one assignment, the empty one, unless it is forbidden."""
    none, isolated, formula, wcsp = (folder / name for name in ("none.col", "isolated.col", "none.cnf", "none.wcsp"))
    none.write_text("p edge 0 0\n")
    isolated.write_text("p edge 3 0\n")
    for question, more, _ in graph_models(0, [], []):
        check(f"no vertices {question}", every_task, none, ["--problem", question, *more], Model([], lambda x: 0, True))
    for question, more, model in graph_models(3, [], [1, 1, 1]):
        if "matching" not in question:
            check(f"no edges {question}", every_task, isolated, ["--problem", question, *more], model)
    check("no edges matching", every_task, isolated, ["--problem", "matching"], Model([], lambda x: 0, True))
    check("no edges perfect-matching", every_task, isolated, ["--problem", "perfect-matching"], Model([], lambda x: None, True))
    for text, model in (("p cnf 0 0\n", Model([], lambda x: 0, True)), ("p cnf 0 1\n0\n", Model([], lambda x: None, True)),
                        ("p cnf 2 1\n0\n", Model([2, 2], lambda x: None, True))):
        formula.write_text(text)
        check(f"empty {text!r}", every_task, formula, [], model)
    for text, model in (("x 0 0 0 5\n", Model([], lambda x: 0, False)), ("x 0 0 1 5\n0 3 0\n", Model([], lambda x: 3, False)),
                        ("x 0 0 1 5\n0 5 0\n", Model([], lambda x: None, False)), ("x 1 2 0 5\n2\n", Model([2], lambda x: 0, False))):
        wcsp.write_text(text)
        check(f"empty {text!r}", every_task, wcsp, [], model)


def check_stars(folder, _):
    """Wide neighborhoods: no dense table over 2^15 entries may appear."""
    n = 15
    path = folder / "star.col"
    path.write_text(f"p edge {n} {n - 1}\n" + "".join(f"e 1 {v}\n" for v in range(2, n + 1)))
    for question, count in (("dominating-set", 2 ** (n - 1) + 1), ("matching", n), ("mis", 2 ** (n - 1) + 1), ("maximal-is", 2)):
        check(f"star {question}", lambda q=question, c=count: assert_equal(solve(path, "--problem", q, "--task", "count")["value"], c))


class Listed(Model):
    """The same with what is allowed given: [(value, assignment), ...]."""

    def __init__(self, cards, allowed, largest):
        values = {x: v for v, x in allowed}
        self.cards, self.allowed, self.largest = cards, allowed, largest
        self.objective = lambda x: values.get(tuple(x))


def check_sparse_cliques(folder, generator):
    """Sparse graphs are solved in parts; also with negative weights, with none at all, and with dense cores of their own."""
    for name, n, m, weights, core in (("plain", 30, 60, [1], 7), ("weighted", 24, 90, [-2, 1, 3], 6), ("loose", 20, 0, [2], 0), ("dense", 40, 330, [1, 2], 12),
                                      ("negative", 18, 30, [-1], 4)):
        pairs = set(generator.sample(list(itertools.combinations(range(n), 2)), m)) | set(itertools.combinations(range(core), 2))
        weight = [generator.choice(weights) for _ in range(n)]
        adjacent = [{u for p in pairs if v in p for u in p if u != v} for v in range(n)]
        cliques = [((), set(range(n)))]
        for members, common in cliques:  # grows while it is read
            cliques += [((*members, v), common & adjacent[v]) for v in sorted(common) if not members or v > members[-1]]
        allowed = [(sum(weight[v] for v in c), tuple(int(v in c) for v in range(n))) for c, _ in cliques]
        names = list(range(n))
        generator.shuffle(names)
        path = folder / f"sparse-{name}.col"
        path.write_text(f"p edge {n} {len(pairs)}\n" + "".join(f"n {names[v] + 1} {w}\n" for v, w in enumerate(weight) if w != 1)
                        + "".join(f"e {names[u] + 1} {names[v] + 1}\n" for u, v in pairs))
        allowed = [(value, tuple(dict(zip(names, x))[v] for v in range(n))) for value, x in allowed]
        check(f"cliques {name}", every_task, path, ["--problem", "clique"], Listed([2] * n, allowed, True))
    path = folder / "large.edges"  # the complement has 2 * 10^10 pairs
    path.write_text("".join(f"{v} {v + 1}\n" for v in range(200000)) + "7 9\n")
    check("large clique", lambda: assert_equal(solve(path, "--problem", "clique")["value"], 3))
    # frequencies of 400 samples of the cliques of a path of 20 vertices: 40 of them, 10 times each
    path.write_text("".join(f"{v} {v + 1}\n" for v in range(19)))
    samples = [tuple(x) for x in solve(path, "--problem", "clique", "--task", "sample", "--count", 400)["assignments"]]
    chi = sum((samples.count(x) - 10) ** 2 / 10 for x in set(samples)) + 10 * (40 - len(set(samples)))
    check("clique samples", lambda: assert_true(chi < 90))  # 39 degrees, 1e-5


def assert_equal(found, expected):
    assert found == expected, f"found {found}, expected {expected}"


def check_quadratic(folder, generator):
    n = 7
    terms = [(i, j, generator.randint(-6, 6)) for i in range(n) for j in range(i, n) if generator.random() < 0.6]
    once = lambda x: sum(w for i, j, w in terms if x[i] and x[j])
    twice = lambda x: sum((w if i == j else 2 * w) for i, j, w in terms if x[i] and x[j])
    spin = lambda x: sum(w * (2 * x[i] - 1) * (1 if i == j else 2 * x[j] - 1) for i, j, w in terms)
    sparse, qbsolv, orlib, ising = (folder / name for name in ("q.sparse", "q.qubo", "orlib.sparse", "q.ising"))
    listed = "".join(f"{i + 1} {j + 1} {w}\n" for i, j, w in terms)
    sparse.write_text(f"# comment\n{n} {len(terms)}\n{listed}")
    orlib.write_text(f"1\n{n} {len(terms)}\n{listed}")
    ising.write_text(f"# comment\n{listed}")
    linear = sum(i == j for i, j, _ in terms)
    qbsolv.write_text(f"c comment\np qubo 0 {n} {linear} {len(terms) - linear}\n" + "".join(f"{i} {j} {w}\n" for i, j, w in terms))
    check("BiqMac", every_task, sparse, [], Model([2] * n, twice, False))
    check("OR-library", every_task, orlib, [], Model([2] * n, twice, True))
    check("qbsolv", every_task, qbsolv, [], Model([2] * n, once, False))
    check("qbsolv max", every_task, qbsolv, ["--set", "sense=max"], Model([2] * n, once, True))
    used = max(j for _, j, _ in terms) + 1
    check("Ising", every_task, ising, [], Model([2] * used, spin, False))


def check_wcsp(folder, generator):
    cards, bound = [2, 3, 2, 3, 2], 12
    functions = []
    for scope in ((0, 1), (3, 1), (2, 3, 4), (4,), ()):
        cells = list(itertools.product(*(range(cards[v]) for v in scope)))
        functions.append((scope, generator.randint(0, 3), {c: generator.choice([0, 2, 5, bound, 40]) for c in cells if generator.random() < 0.6}))
    lines = [f"small {len(cards)} 3 {len(functions)} {bound}", " ".join(map(str, cards))]
    for scope, default, table in functions:
        lines.append(f"{len(scope)} {' '.join(map(str, scope))} {default} {len(table)}")
        lines += [f"{' '.join(map(str, cell))} {cost}" for cell, cost in table.items()]

    def objective(x):
        costs = [table.get(tuple(x[v] for v in scope), default) for scope, default, table in functions]
        return None if max(costs) >= bound else sum(costs)

    path = folder / "small.wcsp"
    path.write_text("\n".join(lines))
    check("wcsp", every_task, path, [], Model(cards, objective, False))


def check_formulas(folder, generator):
    n = 7
    clauses = [generator.sample(range(1, n + 1), generator.choice([2, 3, 3])) for _ in range(12)]
    clauses = [[v * generator.choice([1, -1]) for v in c] for c in clauses]
    clauses.append([1, 2, 3, 4, 5, 6, 7, -1 if generator.random() < 0.2 else 1])  # long, with a repeated literal
    holds = lambda c, x: any((x[abs(l) - 1] == 1) == (l > 0) for l in c)
    text = f"c comment\np cnf {n + 1} {len(clauses)}\n" + "".join(" ".join(map(str, c)) + " 0\n" for c in clauses)
    path = folder / "f.cnf"
    path.write_text(text)  # variable n + 1 is unused: it doubles the count
    check("cnf", every_task, path, [], Model([2] * (n + 1), lambda x: 0 if all(holds(c, x) for c in clauses) else None, True))
    models = [x for x in itertools.product((0, 1), repeat=n + 1) if all(holds(c, x) for c in clauses)]
    shown = [1, 3, 5]
    projected = folder / "p.cnf"
    projected.write_text(text.replace("c comment", f"c t pmc\nc p show {' '.join(map(str, shown))} 0"))
    check("projected", lambda: assert_equal(solve(projected)["value"], len({tuple(x[v - 1] for v in shown) for x in models})))
    weights = {1: 0.25, -1: 0.75, 2: 0.5, 3: 1e-3, -4: 0.125}
    lines = ["c t wmc"] + [f"c p weight {l} {'1/4' if l == 1 else w} 0" for l, w in weights.items()]

    def weight(x):
        product = 1.0
        for v in range(1, n + 2):
            l = v if x[v - 1] else -v
            product *= weights.get(l, 1 - weights[-l] if -l in weights else 1)
        return product

    weighted = folder / "w.cnf"
    weighted.write_text("\n".join(lines) + "\n" + text)
    total = sum(map(weight, models))
    check("weighted", lambda: assert_near(solve(weighted)["log10_value"], math.log10(total)))
    best = max(map(weight, models))
    check("weighted best", lambda: assert_near(weight(solve(weighted, "--task", "best")["assignment"]), best))
    cachet = folder / "cachet.cnf"
    cachet.write_text(text + "w 1 0.25\nw 2 -1\n")
    halves = sum(0.25 if x[0] else 0.75 for x in models)
    check("cachet weights", lambda: assert_near(solve(cachet)["log10_value"], math.log10(halves)))
    soft = [(generator.randint(1, 9), c) for c in clauses]
    hard = [[1, -2], [3, 4, 5]]
    cost = lambda x: sum(w for w, c in soft if not holds(c, x)) if all(holds(c, x) for c in hard) else None
    model = Model([2] * n, cost, False)
    old, new = folder / "old.wcnf", folder / "new.wcnf"
    old.write_text(f"p wcnf {n} {len(soft) + 2} 1000\n" + "".join(f"{w} {' '.join(map(str, c))} 0\n" for w, c in soft)
                   + "".join(f"1000 {' '.join(map(str, c))} 0\n" for c in hard))
    new.write_text("c 2022\nc t pmc\nc p show 1 0\nc p weight 1 0.5 0\n" +  # counters' comments mean nothing here
                    "".join(f"{w} {' '.join(map(str, c))} 0\n" for w, c in soft) + "".join(f"h {' '.join(map(str, c))} 0\n" for c in hard))
    check("wcnf old", every_task, old, [], model)
    check("wcnf new", every_task, new, [], model)
    never = folder / "never.cnf"
    never.write_text("p cnf 2 3\n1 0\n-1 2 0\n-2 0\n")
    check("unsatisfiable", every_task, never, [], Model([2, 2], lambda x: None, True))


def assert_near(found, expected):
    assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9), f"found {found}, expected {expected}"


def check_mixed(folder, generator):
    """Marginal MAP: the largest, over the query variables, of the sum over all others."""
    cards = [2, 3, 2, 2, 3, 2]
    scopes = [(0, 1), (1, 2, 3), (3, 4), (4, 5), (0, 5), (2,)]
    tables = [{c: round(generator.random() + 0.01, 3) for c in itertools.product(*(range(cards[v]) for v in s))} for s in scopes]
    model = folder / "mixed.uai"
    lines = ["MARKOV", str(len(cards)), " ".join(map(str, cards)), str(len(scopes))]
    lines += [f"{len(s)} {' '.join(map(str, s))}" for s in scopes]
    lines += [f"{len(t)}\n{' '.join(map(str, t.values()))}" for t in tables]
    model.write_text("\n".join(lines) + "\n")
    (folder / "mixed.evid").write_text("1 4 2\n")
    for query in ([0, 3], [5, 1, 2], [4, 0]):
        (folder / "mixed.query").write_text(f"{len(query)} {' '.join(map(str, query))}\n")
        sums = {}
        for x in itertools.product(*map(range, cards)):
            if x[4] == 2:
                key = tuple(x[v] for v in query)
                sums[key] = sums.get(key, 0) + math.prod(t[tuple(x[v] for v in s)] for s, t in zip(scopes, tables))
        best = max(sums, key=sums.get)

        def compare(best=best, total=sums[best]):
            answer = solve(model, "--task", "mmap", "--query", folder / "mixed.query", "--evidence", folder / "mixed.evid")
            assert_equal(tuple(answer["assignment"]), best)
            assert_near(answer["log10_value"], math.log10(total))

        check(f"mmap {query}", compare)


def check_soft_evidence(folder, generator):
    """Weights on single variables, against sums over all assignments."""
    p, q = [0.3, 0.7], [[0.9, 0.1], [0.2, 0.8]]
    model, soft = folder / "soft.uai", folder / "soft.evid"
    model.write_text("BAYES 2 2 2 2 1 0 2 0 1\n2 0.3 0.7\n4 0.9 0.1 0.2 0.8\n")
    weights = [round(generator.random(), 3) + 0.01 for _ in range(2)]
    soft.write_text(f"1 1 2 {weights[0]} {weights[1]}\n")
    joint = {(a, b): p[a] * q[a][b] * weights[b] for a in (0, 1) for b in (0, 1)}
    total = sum(joint.values())
    check("soft pr", lambda: assert_near(solve(model, "--task", "pr", "--set", f"soft={soft}")["log10_value"], math.log10(total)))

    def marginals():
        found = solve(model, "--task", "mar", "--set", f"soft={soft}")["marginals"]
        assert_near(found[0][1], (joint[1, 0] + joint[1, 1]) / total)
        assert_near(found[1][0], (joint[0, 0] + joint[1, 0]) / total)

    check("soft mar", marginals)
    check("soft map", lambda: assert_equal(tuple(solve(model, "--set", f"soft={soft}")["assignment"]), max(joint, key=joint.get)))
    soft.write_text("1 1 3 1 1 1\n")
    check("soft message", lambda: assert_true(":1:5:" in solve(model, "--set", f"soft={soft}", status=3)))


def check_circuits(folder, generator):
    """Against a state vector held here, gate by gate."""
    n = 4
    r, i = math.sqrt(0.5), 1j
    e = lambda x: complex(math.cos(x), math.sin(x))
    u3 = lambda t, p, l: [[math.cos(t / 2), -e(l) * math.sin(t / 2)], [e(p) * math.sin(t / 2), e(p + l) * math.cos(t / 2)]]
    one = {"h": [[r, r], [r, -r]], "x": [[0, 1], [1, 0]], "y": [[0, -i], [i, 0]], "z": [[1, 0], [0, -1]], "s": [[1, 0], [0, i]],
           "sdg": [[1, 0], [0, -i]], "t": [[1, 0], [0, e(math.pi / 4)]], "tdg": [[1, 0], [0, e(-math.pi / 4)]], "id": [[1, 0], [0, 1]]}
    with_angle = {"rx": lambda t: [[math.cos(t / 2), -i * math.sin(t / 2)], [-i * math.sin(t / 2), math.cos(t / 2)]],
                  "ry": lambda t: [[math.cos(t / 2), -math.sin(t / 2)], [math.sin(t / 2), math.cos(t / 2)]],
                  "rz": lambda t: [[e(-t / 2), 0], [0, e(t / 2)]], "u1": lambda t: [[1, 0], [0, e(t)]]}
    under = {"cx": "x", "cy": "y", "cz": "z", "ch": "h"}

    def act(state, matrix, qubits):
        k = len(qubits)
        new = dict.fromkeys(state, 0)
        for bits, amplitude in state.items():
            column = sum(bits[q] << (k - 1 - j) for j, q in enumerate(qubits))
            for row in range(1 << k):
                if matrix[row][column]:
                    target = list(bits)
                    for j, q in enumerate(qubits):
                        target[q] = row >> (k - 1 - j) & 1
                    new[tuple(target)] += matrix[row][column] * amplitude
        return new

    def controlled(matrix):
        size = 2 * len(matrix)
        big = [[complex(a == b) for b in range(size)] for a in range(size)]
        for a in range(len(matrix)):
            for b in range(len(matrix)):
                big[size // 2 + a][size // 2 + b] = matrix[a][b]
        return big

    swap = [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    state = {bits: complex(not any(bits)) for bits in itertools.product((0, 1), repeat=n)}
    lines = ["OPENQASM 2.0;", 'include "qelib1.inc";', "gate twice(a) x, y { ry(a) x; cx x, y; ry(a/2) y; }", f"qreg q[{n}];", "creg c[1];"]
    for _ in range(40):
        qubits = generator.sample(range(n), 3)
        angle = round(generator.uniform(-4, 4), 3)
        kind = generator.randrange(8)
        if kind <= 1:
            name = generator.choice(sorted(one))
            lines.append(f"{name} q[{qubits[0]}];")
            state = act(state, one[name], qubits[:1])
        elif kind <= 3:
            name = generator.choice(sorted(with_angle))
            lines.append(f"{name}({angle}) q[{qubits[0]}];")
            state = act(state, with_angle[name](angle), qubits[:1])
        elif kind == 4:
            name = generator.choice(sorted(under))
            lines.append(f"{name} q[{qubits[0]}],q[{qubits[1]}];")
            state = act(state, controlled(one[under[name]]), qubits[:2])
        elif kind == 5:
            lines.append(f"u3({angle},pi/2,-{abs(angle)}^2/2) q[{qubits[0]}]; swap q[{qubits[1]}],q[{qubits[2]}];")
            state = act(state, u3(angle, math.pi / 2, -(abs(angle) ** 2) / 2), qubits[:1])
            state = act(state, swap, qubits[1:])
        elif kind == 6:
            lines.append(f"ccx q[{qubits[0]}],q[{qubits[1]}],q[{qubits[2]}]; crz({angle}) q[{qubits[0]}],q[{qubits[2]}];")
            state = act(state, controlled(controlled(one["x"])), qubits)
            state = act(state, controlled(with_angle["rz"](angle)), [qubits[0], qubits[2]])
        else:
            lines.append(f"twice({angle}) q[{qubits[0]}],q[{qubits[1]}]; h q; barrier q;")
            state = act(state, with_angle["ry"](angle), qubits[:1])
            state = act(state, controlled(one["x"]), qubits[:2])
            state = act(state, with_angle["ry"](angle / 2), qubits[1:2])
            for q in range(n):
                state = act(state, one["h"], [q])
    path = folder / "random.qasm"
    path.write_text("\n".join(lines + ["measure q[0] -> c[0];"]) + "\n")

    def amplitudes(bits):
        answer = solve(path, "--task", "amplitude", "--set", f"bits={bits}")
        keys = [b for b in itertools.product((0, 1), repeat=n) if all(c in ("?", str(x)) for c, x in zip(bits, b))]
        for k, key in enumerate(keys):
            assert abs(complex(*answer["values"][2 * k:2 * k + 2]) - state[key]) < 1e-12, (key, answer["values"][2 * k:2 * k + 2], state[key])

    def expectation(paulis):
        other = state
        for q, letter in enumerate(paulis):
            other = act(other, one[letter.lower()] if letter != "I" else one["id"], [q])
        expected = sum(state[b].conjugate() * other[b] for b in state)
        assert_near(solve(path, "--task", "expectation", "--set", f"observable={paulis}")["value"], expected.real)

    for bits in ("????", "0110", "1?0?"):
        check(f"amplitude {bits}", amplitudes, bits)
    for paulis in ("ZZZZ", "XIYI", "IIIX", "YZXY"):
        check(f"expectation {paulis}", expectation, paulis)
    # the circuit of qsim's documentation: two square roots of X make X, up to nothing at all
    small = folder / "small.qsim"
    small.write_text("2\n0 x_1_2 0\n1 x_1_2 0\n1 h 1\n2 fs 0 1 1.5707963267948966 0\n")
    check("qsim", lambda: assert_true(all(abs(a - b) < 1e-12 for a, b in zip(
        solve(small, "--set", "bits=??")["values"], [0, 0, 0, -r, 0, 0, r, 0]))))
    for text, place, words in (("OPENQASM 2.0;\nqreg q[2];\nfoo q[0];\n", ":3:1:", "qelib1.inc"), ("OPENQASM 2.0;\nqreg q[2];\nreset q[0];\n", ":3:1:", "unitary"),
                               ("OPENQASM 2.0;\nqreg q[2];\ncx q[0],q[5];\n", ":3:11:", "index"), ("OPENQASM 2.0;\nqreg q[1];\nrx(2*) q;\n", ":3:6:", "number"),
                               ("OPENQASM 2.0;\nqreg q[1];\ngate f a { f a; }\nf q[0];\n", ":3:12:", "defined before")):
        bad = folder / "bad.qasm"
        bad.write_text(text)

        def message(text=text, place=place, words=words):
            bad.write_text(text)
            found = solve(bad, status=3)
            assert place in found and words in found, found

        check(f"circuit message {words}", message)


def check_sampling(folder, _):
    """Frequencies of 600 samples of the independent sets of a path of 3 vertices: 5 sets, 120 each."""
    path = folder / "path.col"
    path.write_text("p edge 3 2\ne 1 2\ne 2 3\n")
    samples = solve(path, "--task", "sample", "--count", 600)["assignments"]
    counts = {x: sum(tuple(s) == x for s in samples) for x in itertools.product((0, 1), repeat=3)}
    chi = sum((c - 120) ** 2 / 120 for x, c in counts.items() if not (x[0] and x[1]) and not (x[1] and x[2]))
    check("samples", lambda: assert_true(chi < 23.5 and sum(counts[x] for x in counts if (x[0] and x[1]) or (x[1] and x[2])) == 0))  # 4 degrees, 1e-4
    check("seeds", lambda: assert_true(samples != solve(path, "--task", "sample", "--count", 600, "--set", "seed=7")["assignments"]))


def assert_true(value):
    assert value


def check_messages(folder, _):
    """Malformed and hostile files of every format: where, and what was expected. (UAI and its companions: check_command.py.)"""
    long = "x" * 1000000
    cases = {
        "bad.col": [
            ("", ":1:1:", "an edge"), ("p edge 3 1\ne 1 4\n", ":2:5:", "a vertex"), ("e 1 2\n", ":1:1:", "'p edge"),
            ("p edge -3 1\n", ":1:8:", "number of vertices"), ("p edge 3\n", ":1:9:", "number of edges"), ("p edge 3 -1\n", ":1:10:", "number of edges"),
            ("p edge 100000000 0\n", ":1:8:", "number of vertices"), ("p edge 99999999999999999999 0\n", ":1:8:", "number of vertices"),
            ("p edge 3 1\np edge 3 1\n", ":2:1:", "one line 'p'"), ("p tree 3 1\n", ":1:3:", "'edge'"), ("p edge 3 1 1\n", ":1:12:", "end of the line"),
            ("p edge 3 1\ne 1\n", ":2:4:", "a vertex"), ("p edge 3 1\ne 1 2 x\n", ":2:7:", "a weight"), ("p edge 3 1\ne 1 2 1 1\n", ":2:9:", "end of the line"),
            ("p edge 3 1\nq 1 2\n", ":2:1:", "'e', 'n' or a vertex"), ("p edge 3 1\nn 4 1\n", ":2:3:", "a vertex"), ("p edge 3 1\nn 1 x\n", ":2:5:", "a weight"),
            ("p edge 3 1\ne 1 0\n", ":2:5:", "a vertex"), ("p edge 3 1\ne 1 2 1e999\n", ":2:7:", "a weight"), ("p edge 3 2\ne 1 2 1\ne 2 1 3\n", ":4:1:", "listed with weights"),
            (f"p edge 3 1\ne {long} 2\n", ":2:3:", "a vertex"), (f"p edge 3 1\n{long}\n", ":2:1:", "'e', 'n'"), ("p edge 3 1\ne 1 2\0\n", ":2:5:", "a vertex"),
            ("p edge 3 5\ne 1 2\n", ":3:1:", "expected 5 edges"),
        ],
        "bad.gr": [
            ("p tw 3 1\n1 4\n", ":2:3:", "a vertex"), ("p tw 3 1\n1\n", ":2:2:", "a vertex"), ("1 2\np tw 3 1\n", ":1:1:", "before any other"),
            ("p tw 3 3\n1 2\n", ":3:1:", "expected 3 edges"), (f"p tw 3 1\n1 {'9' * 1000000}\n", ":2:3:", "a vertex"),
        ],
        "bad.rudy": [
            ("3 2\n1 2 1\n", ":3:1:", "a vertex"), ("3 99999999999999\n1 2 1\n", ":1:3:", "number of edges"), ("3 1\n1 2 1\n1 2\n", ":3:1:", "end of the file"),
            ("100000000 1\n1 2 1\n", ":1:1:", "number of vertices"), ("-3 1\n1 2 1\n", ":1:1:", "number of vertices"), ("3 1\n1 4 1\n", ":2:3:", "a vertex"),
            ("3 1\n1 2 w\n", ":2:5:", "a weight"), (f"3 1\n1 2 {long}\n", ":2:5:", "a weight"),
        ],
        "bad.edges": [
            ("0 1\n1 x\n", ":2:3:", "a vertex"), ("0 1\n-1 2\n", ":2:1:", "a vertex"), ("0 1\n1 2 x\n", ":2:5:", "a weight"), ("0 1\n1 2 3 4\n", ":2:7:", "end of the line"),
            ("0 1\n1\n", ":2:2:", "a vertex"), ("0 999999999\n", ":1:3:", "a vertex"), (f"0 1\n{long} 1\n", ":2:1:", "a vertex"),
        ],
        "bad.qubo": [
            ("p qubo 0 3 1 1\n0 0 1\n", ":3:1:", "1 couplers"), ("p qubo 0 3 1 0\n0 3 1\n", ":2:3:", "a variable"), ("p qbo 0 3 1 0\n", ":1:3:", "'p qubo'"),
            ("p qubo 0 -3 1 0\n", ":1:10:", "number of variables"), ("p qubo 0 100000000 0 0\n", ":1:10:", "number of variables"),
            ("p qubo 0 3 -1 0\n", ":1:12:", "number of nodes"), ("p qubo 0 3\n", ":2:1:|:1:11:", "number of nodes"), ("p qubo 0 3 1 0\n0 0\n", ":2:4:", "'i j weight'"),
            ("p qubo 0 3 1 0\n0 0 1 1\n", ":2:7:", "end of the line"), ("p qubo 0 3 1 0\n0 0 inf\n", ":2:5:", "a weight"), (f"p qubo 0 3 1 0\n0 {long} 1\n", ":2:3:", "a variable"),
            ("", ":1:1:", "'p qubo"),
        ],
        "bad.sparse": [
            ("3 1\n1 9 1\n", ":2:3:", "a variable"), ("2\n3 1\n1 1 1\n", ":1:2:", "one problem"), ("1\n", ":2:1:", "'n m'"), ("3 2\n1 1 1\n", ":3:1:", "expected 2 entries"),
            ("-3 1\n", ":1:1:", "number of variables"), ("100000000 1\n", ":1:1:", "number of variables"), ("3 1\n0 1 1\n", ":2:1:", "a variable"), ("3 1\n1 1 x\n", ":2:5:", "a weight"),
            (f"3 1\n1 1 {'1' * 1000000}\n", ":2:5:", "a weight"), ("3 -1\n", ":1:3:", "number of entries"),
        ],
        "bad.ising": [
            ("1 2 x\n", ":1:5:", "a weight"), ("1 2\n1 3 1 1\n", ":2:7:", "end of the line"), ("0 1 1\n", ":1:1:", "a variable"), ("1 999999999 1\n", ":1:3:", "a variable"),
            ("999999999 1\n1 2 1\n", ":1:1:", "number of spins"), ("1 2 1\n1\n", ":2:2:", "'i j weight'"), (f"{long}\n", ":1:1:", "a variable"),
        ],
        "bad.wcsp": [
            ("x 2 2 1 10\n2 2\n2 0 1 -1 0\n", ":3:7:", "global cost functions"), ("x 2 2 1 10\n2 2\n2 0 0 0 0\n", ":3:5:", "does not have yet"), ("", ":1:1:", "name of the problem"),
            ("x 2 2 1\n", ":2:1:|:1:8:", "the upper bound"), ("x -2 2 1 10\n", ":1:3:", "number of variables"), ("x 99999999999 2 1 10\n", ":1:3:", "number of variables"),
            ("x 2 2 99999999999 10\n2 2\n", ":1:7:", "number of cost functions"), ("x 2 2 1 0\n", ":1:9:", "upper bound"), ("x 2 2 1 10\n2 3\n", ":2:3:", "a domain size"),
            ("x 2 2 1 10\n2 0\n", ":2:3:", "a domain size"), ("x 1 999999999 0 10\n999999999\n", ":1:5:", "largest domain"), ("x 2 2 1 10\n2 2\n3 0 1 0 0 0\n", ":3:1:", "an arity"),
            ("x 2 2 1 10\n2 2\n1 2 0 0\n", ":3:3:", "a variable"), ("x 2 2 1 10\n2 2\n1 0 0 99999999\n", ":3:7:", "number of tuples"), ("x 2 2 1 10\n2 2\n1 0 0 1\n2 5\n", ":4:1:", "a value"),
            ("x 2 2 1 10\n2 2\n1 0 0 1\n1 -5\n", ":4:3:", "a cost"), ("x 2 2 1 10\n2 2\n1 0 0 1\n1", ":4:2:", "a cost"), ("x 2 2 1 10\n2 2\n1 0 0 0\nrest\n", ":4:1:", "end of the file"),
            (f"x 2 2 1 10\n2 2\n1 0 {long} 0\n", ":3:5:", "a default cost"), ("x 2 2 1 10\n2 2\n2 0 1 salldiff var 1\n", ":3:7:", "global cost functions"),
        ],
        "bad.cnf": [
            ("p cnf 2 1\n1 3 0\n", ":2:3:", "a literal"), ("p cnf 2 2\n1 0\n", ":3:1:", "expected 2 clauses"), ("p cnf 2 1\n1 2\n", ":3:1:", "end of the file"),
            ("p cnf -2 1\n", ":1:7:", "number of variables"), ("p cnf 50000000 0\n", ":1:7:", "number of variables"), ("p cnf 2 -1\n", ":1:9:", "number of clauses"),
            ("p dnf 2 1\n", ":1:3:", "'cnf' or 'wcnf'"), ("p cnf 2\n", ":1:8:", "number of clauses"), ("p cnf 2 1\n1 x 0\n", ":2:3:", "a literal"),
            ("c p weight 3 1 0\np cnf 2 1\n1 0\n", ":1:12:", "a literal"), ("c p weight 1 x 0\np cnf 2 1\n1 0\n", ":1:14:", "a weight"), ("c p weight 1 -2 0\np cnf 2 1\n1 0\n", "1:", "at least 0"),
            ("c p weight 1 1/0 0\np cnf 2 1\n1 0\n", ":1:14:", "a weight"), ("c p show 3 0\np cnf 2 1\n1 0\n", ":1:10:", "a variable"), ("p cnf 2 1\nw 1\n1 0\n", ":2:4:", "a weight"),
            (f"p cnf 2 1\n{long} 0\n", ":2:1:", "a literal"), (f"p cnf 2 1\n1 {'9' * 1000000} 0\n", ":2:3:", "a literal"),
        ],
        "weight.cnf": [("c p weight 1 3 0\np cnf 2 1\n1 0\n", ":4:1:", "the weight of literal -1 too"), ("c p weight 1 1e300/1e-300 0\np cnf 2 1\n1 0\n", ":1:14:", "a finite weight")],
        "bad.wcnf": [
            ("p wcnf 2 1 10\n-1 1 0\n", ":2:1:", "at least 0"), ("p wcnf 2 1 10\n1 3 0\n", ":2:3:", "a literal"), ("p wcnf 2 2 10\n1 1 0\n", ":3:1:", "expected 2 clauses"),
            ("p wcnf 2 1 x\n1 1 0\n", ":1:12:", "a weight"), ("h 1 2\n", ":2:1:", "end of the file"), ("h 999999999 0\n", ":1:3:", "a literal"), ("x 1 0\n", ":1:1:", "a weight"),
            ("1\n", ":2:1:", "expected literals"), (f"h {long} 0\n", ":1:3:", "a literal"),
        ],
        "bad.qasm": [
            ("", ":1:1:", "OPENQASM"), ("OPENQASM 3.0;\n", ":1:10:", "version 2.0"), ("OPENQASM 2.0;\n", ":2:1:", "a quantum register"), ("OPENQASM 2.0;\nqreg q[0];\n", ":2:8:", "size of the register"),
            ("OPENQASM 2.0;\nqreg q[99999];\n", ":2:8:", "size of the register"), ("OPENQASM 2.0;\nqreg q[-1];\n", ":2:8:", "size of the register"), ("OPENQASM 2.0;\nqreg q[2]", ":2:10:", "';'"),
            ("OPENQASM 2.0;\nqreg q[2];\nh r[0];\n", ":3:3:", "a quantum register"), ("OPENQASM 2.0;\nqreg q[2];\ncx q[0],q[0];\n", ":3:1:", "different qubits"),
            ("OPENQASM 2.0;\nqreg q[2];\nrx q[0];\n", ":3:1:", "takes 1 parameters"), ("OPENQASM 2.0;\ngate f a { x a;\n", ":3:1:", "'}'"), ("OPENQASM 2.0;\nqreg q[2];\nqreg p[3];\ncx q,p;\n", ":4:1:", "one size"),
            ("OPENQASM 2.0;\nqreg q[1];\ncreg c[1];\nif(c==1) x q;\n", ":4:1:", "not supported"), (f"OPENQASM 2.0;\nqreg q[1];\n{long} q;\n", ":3:1:", "a gate"),
            (f"OPENQASM 2.0;\nqreg q[1];\nrx({'(' * 1000000}1) q;\n", ":3:", "nested so deeply"), (f"OPENQASM 2.0;\nqreg q[1];\nrx({'2^' * 1000000}1) q;\n", ":3:", "nested so deeply"),
            ("OPENQASM 2.0;\nqreg q[2];\n" + "gate g0 a { h a; }\n" + "".join(f"gate g{i} a {{ g{i - 1} a; g{i - 1} a; }}\n" for i in range(1, 40)) + "g39 q[0];\n", ":4:19:", "expands to more than"),
        ],
        "bad.qsim": [
            ("", ":1:1:", "number of qubits"), ("x\n", ":1:1:", "number of qubits"), ("-2\n", ":1:1:", "number of qubits"), ("99999999\n", ":1:1:", "number of qubits"), ("2\n0 foo 0\n", ":2:3:", "gate of qsim"),
            ("2\n0 h 2\n", ":2:5:", "a qubit"), ("2\n0 cz 0 0\n", ":2:8:", "another qubit"), ("2\n0 rz 0\n", ":2:7:", "parameters"), ("2\n1 h 0\n0 h 0\n", ":3:1:", "the time"),
            ("2\n0 h 0 1\n", ":2:7:", "end of the line"), ("2\n0 m 0\n", ":2:3:", "measurements"), (f"2\n0 {long} 0\n", ":2:3:", "a gate"),
        ],
        "bad.xyz": [("what is this?\n", ":1:1:", "no kind of problem"), (f"{long}\n", ":1:1:", "no kind of problem"), ("\0\0\0", ":1:1:", "no kind of problem"), ("", ":1:1:", "no kind of problem")],
    }
    for name, list_of_cases in cases.items():
        for number, (text, place, words) in enumerate(list_of_cases):
            path = folder / name
            path.write_text(text)

            def message(path=path, place=place, words=words):
                found = solve(path, status=3)
                assert len(found) < 1000 and found.count("\n") == 1, f"{len(found)} bytes"
                assert any(p in found for p in place.split("|")) and any(w in found for w in words.split("|")), found

            check(f"message {name} {number} {text[:60]!r}", message)
    for path in sorted((ROOT / "tests" / "fuzz" / "corpus").glob("*/*")):  # what may be wrong with them has a place
        def place(path=path):
            found = subprocess.run([TENSUM, "solve", str(path), "--memory-limit", "1MiB"], capture_output=True, text=True, timeout=60)
            assert found.returncode in (0, 1, 3), f"status {found.returncode}: {found.stderr}"
            assert found.returncode != 3 or re.search(rf"{re.escape(str(path))}(:\d+:\d+: |: gzip data is truncated)", found.stderr), found.stderr

        check(f"corpus {path.parent.name}/{path.name}", place)


def check_published():
    global skipped
    if not PUBLIC.is_dir():
        skipped += 1
        print(f"SKIP published answers: no data at {PUBLIC}")
        return
    graph = json.loads((PUBLIC / "graph" / "ANSWERS.json").read_text())
    keys = [("numIS", "mis", "count", []), ("MIS", "mis", "best", []), ("numMIS", "mis", "count-best", []), ("maxcut", "max-cut", "best", []),
            ("numMaxcut", "max-cut", "count-best", []), ("3col", "coloring", "count", ["--set", "colors=3"]),
            ("matchings", "matching", "count", []), ("perfect_matchings", "perfect-matching", "count", [])]
    for name, answers in graph.items():
        for key, question, task, more in keys:
            if key in answers and (PUBLIC / "graph" / name).exists() and not name.startswith("queen"):
                check(f"{name} {key}", lambda n=name, q=question, t=task, m=more, e=answers[key]: assert_equal(
                    solve(PUBLIC / "graph" / n, "--problem", q, "--task", t, *m)["value"], e))
    for name, value in (("bqp50-1.sparse", -2098), ("gka1a.sparse", -3414), ("gka1b.sparse", -133), ("bqp50_1.qubo", -5176)):
        check(name, lambda n=name, v=value: assert_equal(solve(PUBLIC / "qubo" / n)["value"], v))
    for name, value in (("example", 27), ("4queens", 0), ("zebra", 0), ("warehouse", 328)):
        check(name, lambda n=name, v=value: assert_equal(solve(PUBLIC / "wcsp" / f"{n}.wcsp")["value"], v))
    for name, value in (("cubic_vc_50_0", 2802717837), ("mc2022_track1_021", 784637825987894704862177297051569632016580688841015296000),
                        ("mc2022_track1_033", 2**62), ("mc2022_track1_038", 2**63)):
        check(name, lambda n=name, v=value: assert_equal(solve(PUBLIC / "cnf" / f"{n}.cnf")["value"], v))
    def mmap(name, query, log10):
        with tempfile.NamedTemporaryFile("w", suffix=".query") as file:
            file.write(f"{len(query)} {' '.join(map(str, query))}")
            file.flush()
            model = PUBLIC / "uai" / f"{name}.uai"
            answer = solve(model, "--evidence", f"{model}.evid", "--query", file.name, "--task", "mmap")
            assert_near(answer["log10_value"], log10)

    for name, answers in json.loads((PUBLIC / "uai" / "ANSWERS.json").read_text()).items():
        known = answers.get("MMAP") or answers.get("MMAP_own") if isinstance(answers, dict) else None
        if known:
            check(f"{name} mmap", mmap, name, known["query"], known["log10"])
    check("mc2022_track2_042", lambda: assert_near(solve(PUBLIC / "cnf" / "mc2022_track2_042.cnf")["log10_value"], -0.0824289294566))


def main():
    print(f"seed {SEED}")
    generator = random.Random(SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for function in (check_graphs, check_nothing, check_stars, check_sparse_cliques, check_quadratic, check_wcsp, check_formulas, check_mixed, check_soft_evidence, check_circuits, check_sampling, check_messages):
            function(folder, generator)
    check_published()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
