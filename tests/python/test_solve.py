"""tensum.solve."""

import json

import pytest
import tensum

from conftest import ROOT, data_folder

ASIA, EVIDENCE = ROOT / "examples" / "asia.uai", ROOT / "examples" / "asia.uai.evid"


def test_the_textbook_network():
    # The evidence has probability 10^-0.36054 = 0.4359...; the best explanation 10^-0.69655 (enumerated by hand-written loops).
    answer = tensum.solve(ASIA, evidence=EVIDENCE, task="map")
    assert answer.value_name == "log10_value" and answer.value == pytest.approx(-0.69655225, abs=1e-7)
    assert answer.assignment == (1, 1, 0, 1, 0, 1, 1, 0) and answer.text.startswith("MAP")
    answer = tensum.solve(ASIA, evidence=EVIDENCE, task="pr")
    assert answer.value == pytest.approx(-0.3605427967, abs=1e-9) and answer.assignment is None
    marginals = tensum.solve(str(ASIA), evidence=str(EVIDENCE), task="mar").marginals
    assert len(marginals) == 8 and all(sum(row) == pytest.approx(1.0) for row in marginals)
    assert answer.cost.steps > 0 and answer.run_seconds >= 0


def test_enumerated_tables():
    # The model by its file alone: eight variables, so 256 assignments.
    import itertools

    words = ASIA.read_text().split()
    count = int(words[1])
    cards = [int(word) for word in words[2 : 2 + count]]
    place = 2 + count
    scopes = []
    for _ in range(int(words[place])):
        place += 1
        width = int(words[place])
        scopes.append([int(word) for word in words[place + 1 : place + 1 + width]])
        place += width
    tables = []
    for _ in scopes:
        place += 1
        size = int(words[place])
        tables.append([float(word) for word in words[place + 1 : place + 1 + size]])
        place += size
    evidence = [int(word) for word in EVIDENCE.read_text().split()]
    fixed = dict(zip(evidence[1::2], evidence[2::2]))
    best, total = (0.0, None), 0.0
    for states in itertools.product(*(range(card) for card in cards)):
        if any(states[variable] != state for variable, state in fixed.items()):
            continue
        weight = 1.0
        for scope, table in zip(scopes, tables):
            index = 0
            for variable in scope:
                index = index * cards[variable] + states[variable]
            weight *= table[index]
        total += weight
        best = max(best, (weight, states))
    assert 10 ** tensum.solve(ASIA, evidence=EVIDENCE, task="pr").value == pytest.approx(total, rel=1e-12)
    answer = tensum.solve(ASIA, evidence=EVIDENCE, task="map")
    assert 10**answer.value == pytest.approx(best[0], rel=1e-12) and answer.assignment == best[1]


@pytest.mark.parametrize("name", ["petersen.col", "myciel3.col"])
def test_graphs_with_known_answers(name):
    path = data_folder() / "graph" / name
    if "graph" not in tensum.front_ends() and not any("mis" in found[2] for found in tensum.front_ends().values()):
        pytest.skip("no front end for graphs")
    known = {"petersen.col": 4, "myciel3.col": 5}
    answer = tensum.solve(path, problem="mis")
    assert answer.value == known[name]


def test_files_that_are_not_right(tmp_path):
    with pytest.raises(OSError, match="nothing.uai"):
        tensum.solve(tmp_path / "nothing.uai")
    bad = tmp_path / "bad.uai"
    bad.write_text("MARKOV\n2\n2 x\n")
    with pytest.raises(ValueError, match="bad.uai:3"):
        tensum.solve(bad)
    with pytest.raises(ValueError, match="task"):
        tensum.solve(ASIA, task="no such task")
    with pytest.raises(TypeError):
        tensum.solve(ASIA, unknown=1)


def test_impossible_evidence_is_infeasible(tmp_path):
    model = tmp_path / "model.uai"
    model.write_text("MARKOV\n1\n2\n1\n1 0\n\n2\n0.0 1.0\n")
    evidence = tmp_path / "model.uai.evid"
    evidence.write_text("1 0 0\n")
    with pytest.raises(tensum.InfeasibleError):
        tensum.solve(model, evidence=evidence, task="map")


def test_orders_in_files(tmp_path):
    order = tmp_path / "order.json"
    first = tensum.solve(ASIA, evidence=EVIDENCE, task="map", order="greedy", seed=3, save_order=order)
    again = tensum.solve(ASIA, evidence=EVIDENCE, task="map", order=order)
    assert order.read_text().lstrip().startswith("{")
    assert again.assignment == first.assignment and again.value == first.value
    assert again.cost == first.cost == tensum.solve(ASIA, evidence=EVIDENCE, task="map", order=str(order), dry_run=True)
    with pytest.raises(ValueError, match="greedyy"):
        tensum.solve(ASIA, order="greedyy")
    with pytest.raises(OSError, match="nothing.json"):
        tensum.solve(ASIA, order=tmp_path / "nothing.json")
    network = tmp_path / "network.json"
    network.write_text('{"inputs": [["a", "b"], ["b", "c"]], "output": ["a", "c"], "size_dict": {"a": 2, "b": 2, "c": 2}}')
    with pytest.raises(ValueError, match="no contraction order"):
        tensum.solve(ASIA, order=network)
    with pytest.raises(OSError, match="order.json"):
        tensum.solve(ASIA, save_order=tmp_path / "nowhere" / "order.json")


def test_a_dry_run_computes_nothing(tmp_path):
    impossible = tmp_path / "model.uai"
    impossible.write_text("MARKOV\n1\n2\n1\n1 0\n\n2\n0.0 0.0\n")
    cost = tensum.solve(impossible, task="map", dry_run=True)
    assert isinstance(cost, tensum.Cost) and cost.steps >= 1 and cost.slices == 1
    assert not (tmp_path / "answer").exists()


def test_the_answer_as_a_file(tmp_path):
    answer = tensum.solve(ASIA, evidence=EVIDENCE, task="mar", output=tmp_path / "asia.MAR")
    assert (tmp_path / "asia.MAR").read_text() == answer.text and answer.text.startswith("MAR")


def test_pictures(tmp_path, monkeypatch):
    from tensum import _answer_picture, _solve

    drawn = []
    monkeypatch.setattr(_answer_picture, "draw", lambda answer, path: drawn.append((answer, path)))
    monkeypatch.setattr(_solve, "_need_matplotlib", lambda: None)
    answer = tensum.solve(ASIA, evidence=EVIDENCE, task="mar", plot=tmp_path / "asia.svg")
    assert drawn[-1][1] == str(tmp_path / "asia.svg") and drawn[-1][0]["marginals"] == answer.marginals and drawn[-1][0]["file"] == "asia.uai"
    graph = tmp_path / "square.col"
    graph.write_text("p edge 4 4\ne 1 2\ne 2 3\ne 3 4\ne 4 1\n")
    answer = tensum.solve(graph, problem="mis", task="best", plot=str(tmp_path / "square.png"))
    assert answer.value == 2 and drawn[-1][0]["assignment"] == list(answer.assignment) and drawn[-1][0]["question"] == "mis"
    assert sorted(tuple(sorted(edge[:2])) for edge in drawn[-1][0]["edges"]) == [(0, 1), (0, 3), (1, 2), (2, 3)]
    with pytest.raises(ValueError, match="makes no picture"):
        tensum.solve(ASIA, evidence=EVIDENCE, task="pr", plot=tmp_path / "asia.svg")
    with pytest.raises(ValueError, match="asia.gif.*svg"):
        tensum.solve(ASIA, task="pr", plot=tmp_path / "asia.gif")
    assert len(drawn) == 2


def test_a_picture_is_drawn(tmp_path):
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match="matplotlib"):
            tensum.solve(ASIA, task="mar", plot=tmp_path / "asia.svg")
        return
    tensum.solve(ASIA, evidence=EVIDENCE, task="mar", plot=tmp_path / "asia.svg")
    assert "<svg" in (tmp_path / "asia.svg").read_text()


def test_front_ends_are_listed():
    found = tensum.front_ends()
    assert "uai" in found and any(task.split("|")[0] == "map" for task in found["uai"][1])
    assert json.dumps(found)
