#!/usr/bin/env python3
"""Pictures of answers: `tensum solve --plot FILE` runs this with the answer as JSON on standard input; the Python package
has it as a module.

    plot.py --check       is there all that is needed?
    plot.py FILE          .png, .svg or .pdf
"""
import importlib.util
import json
import math
import sys


def check():
    if importlib.util.find_spec("matplotlib") is None:  # does not take the seconds that importing may take
        print("tensum: --plot needs matplotlib for python3 (python3 -m pip install matplotlib)", file=sys.stderr)
        sys.exit(5)


def load():
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot
    return matplotlib.pyplot


def title(axes, answer, text):
    axes.set_title(f"{answer['file']}: {text}", fontsize=11, loc="left")
    if answer["note"]:
        axes.figure.text(0.01, -0.03, answer["note"], fontsize=7, color="0.4", wrap=True)


def marginals(plt, answer):
    """A bar per variable, one colour per value; the heights of a bar add up to 1."""
    rows = answer["marginals"]
    most = max(map(len, rows))
    figure, axes = plt.subplots(figsize=(min(40, max(5, 1.5 + 0.28 * len(rows))), 4.2))
    colors = plt.cm.viridis([0.85 - 0.75 * i / max(1, most - 1) for i in range(most)])
    below = [0.0] * len(rows)
    for value in range(most):
        heights = [row[value] if value < len(row) else 0.0 for row in rows]
        axes.bar(range(len(rows)), heights, 0.85, bottom=below, color=colors[value], label=f"{value}" if most <= 12 else None)
        below = [a + b for a, b in zip(below, heights)]
    axes.set_xlabel("variable")
    axes.set_ylabel("probability")
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_ylim(0, 1)
    if len(rows) <= 60:
        axes.set_xticks(range(len(rows)))
        axes.tick_params(axis="x", labelsize=8, rotation=0 if len(rows) <= 30 else 90)
    if most <= 12:
        axes.legend(title="value", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, reverse=True)
    title(axes, answer, "marginals")
    return figure


def amplitudes(plt, answer):
    """A bar per bit string: the probability of measuring it."""
    values = answer["amplitudes"]
    probabilities = [a * a + b * b for a, b in zip(values[::2], values[1::2])]
    width = max(1, (len(probabilities) - 1).bit_length())
    figure, axes = plt.subplots(figsize=(min(40, max(5, 1.5 + 0.3 * len(probabilities))), 4.2))
    axes.bar(range(len(probabilities)), probabilities, 0.85, color="#31688e")
    if len(probabilities) <= 64:
        axes.set_xticks(range(len(probabilities)), [format(i, f"0{width}b") for i in range(len(probabilities))], rotation=90 if width > 2 else 0, fontsize=8)
    axes.set_xlabel("open bits, qubit 0 first")
    axes.set_ylabel("probability |amplitude|²")
    axes.set_ylim(0, max(probabilities) * 1.08 or 1)
    title(axes, answer, "amplitudes")
    return figure


def distances(count, edges):
    """Edges on the shortest way between any two vertices; a little more than the longest where there is none."""
    import numpy
    neighbors = [[] for _ in range(count)]
    for u, v, _ in edges:
        neighbors[u].append(v)
        neighbors[v].append(u)
    table = numpy.full((count, count), -1.0)
    for start in range(count):
        table[start, start] = 0
        reached = [start]
        for v in reached:  # grows while it is read
            for u in neighbors[v]:
                if table[start, u] < 0:
                    table[start, u] = table[start, v] + 1
                    reached.append(u)
    table[table < 0] = table.max() + 2
    return table


def layout(count, edges):
    """Places of vertices: from distances in the graph (classical scaling), then springs along edges and repulsion between
    all (Fruchterman and Reingold 1991)."""
    import numpy
    angle = 2 * math.pi * numpy.arange(count) / max(1, count)
    place = numpy.stack([numpy.cos(angle), numpy.sin(angle)], 1)
    if count < 3 or not edges:
        return place
    square = distances(count, edges) ** 2
    centered = -0.5 * (square - square.mean(0) - square.mean(1)[:, None] + square.mean())
    values, vectors = numpy.linalg.eigh(centered)
    scaled = vectors[:, -2:] * numpy.sqrt(numpy.maximum(values[-2:], 0))
    place = scaled / max(1e-9, numpy.abs(scaled).max()) + 0.05 * numpy.random.default_rng(0).normal(size=place.shape)
    ends = numpy.array([(u, v) for u, v, _ in edges])
    ideal = 1.6 / math.sqrt(count)
    steps = 300 if count <= 150 else 150
    for step in range(steps):
        apart = place[:, None] - place[None]
        distance = numpy.maximum(numpy.sqrt((apart**2).sum(2)), 1e-3)
        force = (apart * (ideal**2 / distance**2)[:, :, None]).sum(1)
        along = place[ends[:, 0]] - place[ends[:, 1]]
        pull = along * (numpy.sqrt((along**2).sum(1)) / ideal)[:, None]
        numpy.add.at(force, ends[:, 0], -pull)
        numpy.add.at(force, ends[:, 1], pull)
        force -= 0.4 * place  # keeps parts together that no edge connects
        length = numpy.maximum(numpy.sqrt((force**2).sum(1)), 1e-9)
        place += force / length[:, None] * numpy.minimum(length, 0.08 * (1 - step / steps) + 1e-3)[:, None]
    return place


def graph(plt, answer):
    edges, x, question = answer["edges"], answer["assignment"], answer["question"]
    on_edges = "matching" in question
    coloring = question == "coloring"
    count = max([len(x) if not on_edges else 0] + [max(u, v) + 1 for u, v, _ in edges])
    place = layout(count, edges)
    weighted = any(w != edges[0][2] for _, _, w in edges)
    figure, axes = plt.subplots(figsize=(7, 6.4) if count <= 60 else (11, 10))
    if on_edges:
        strong = [bool(b) for b in x]
        strong_label, weak_label = "chosen edge", "other edge"
    else:
        strong = [x[u] != x[v] for u, v, _ in edges]
        strong_label, weak_label = "edge between the sides", "edge within a side"
    plain = not on_edges and question not in ("max-cut", "")  # sets of vertices: all edges look the same
    for kind in (False, True):
        drawn = [e for e, s in zip(edges, strong) if (s if not plain else False) == kind]
        label = None if plain else strong_label if kind else weak_label
        for i, (u, v, w) in enumerate(drawn):
            axes.plot(place[[u, v], 0], place[[u, v], 1], color="#d1495b" if kind else "0.65", linewidth=2.2 if kind else 1.0,
                      zorder=1 + kind, label=label if i == 0 else None)
            if weighted and len(edges) <= 60:
                axes.text(*(place[[u, v]].mean(0)), f"{w:g}", fontsize=7, color="0.25", ha="center", va="center",
                          bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8}, zorder=3)
    size = 260 if count <= 40 else 110 if count <= 120 else 30
    classes = sorted(set(x)) if not on_edges else [0]
    colors = plt.cm.tab10.colors if coloring else ["#edae49", "#00798c"]
    names = {"max-cut": "side {}", "coloring": "colour {}", "": "value {}"}
    for value in classes:
        members = [v for v in range(count) if on_edges or x[v] == value]
        label = None if on_edges else names[question].format(value + (question == "coloring")) if question in names else ("chosen" if value else "not chosen")
        color = colors[value % len(colors)] if not on_edges else "white"
        axes.scatter(place[members, 0], place[members, 1], s=size, color=color, edgecolors="0.2", linewidths=0.8, zorder=4, label=label)
    if count <= 120:
        for v in range(count):
            dark = not on_edges and not coloring and x[v] == 1
            axes.text(*place[v], str(v + 1), fontsize=8 if count <= 40 else 6, ha="center", va="center", color="white" if dark else "black", zorder=5)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4, frameon=False, fontsize=9, markerscale=0.6)
    axes.set_aspect("equal")
    axes.axis("off")
    title(axes, answer, f"{question or 'best assignment'}, value {answer['value']}")
    return figure


def draw(answer, path):
    plt = load()
    kind = marginals if "marginals" in answer else graph if "edges" in answer else amplitudes
    figure = kind(plt, answer)
    try:
        figure.savefig(path, dpi=140, bbox_inches="tight")
    finally:
        plt.close(figure)


def main():
    check()
    if sys.argv[1] == "--check":
        return
    try:
        draw(json.load(sys.stdin), sys.argv[1])
    except OSError as error:
        print(f"tensum: --plot={sys.argv[1]}: cannot be written: {error.strerror or error}", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
