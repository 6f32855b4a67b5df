#!/usr/bin/env python3
"""A network that does not fit into memory, with a known answer: what `tensum contract --memory-limit` promises, shown.

    python3 bench/planted.py --vertices 236 --kind max_plus /tmp/planted
    tensum contract /tmp/planted.json --inputs /tmp/planted.npz --semiring max_plus --memory-limit 2GiB

A random graph of degree 3, a tensor for each vertex and a label of extent 2 for each edge. max_plus (f32): an assignment
is planted, every tensor has 8 there and at most 6 elsewhere, so the value is 8 times the vertices, and the gradient is 1 at
the planted elements and 0 elsewhere. sum_product (f64): tensors are outer products of vectors whose inner product along
every edge is 1, so the value is 1. Writes NAME.json, NAME.npz (needs NumPy) and, for max_plus, NAME.uai, whose MAP
is the planted assignment. --check FILE.npz compares what `tensum grad` wrote.
"""
import argparse
import json
import random

import numpy as np


def graph(vertices, generator):
    while True:
        stubs = [v for v in range(vertices) for _ in range(3)]
        generator.shuffle(stubs)
        edges = [(stubs[2 * i], stubs[2 * i + 1]) for i in range(len(stubs) // 2)]
        for i, (a, b) in enumerate(edges):
            if a == b:
                j = generator.randrange(len(edges))
                edges[i], edges[j] = (a, edges[j][0]), (b, edges[j][1])
        if all(a != b for a, b in edges) and len({frozenset(edge) for edge in edges}) == len(edges):
            return edges


def planted(labels, assignment, generator):
    tensors = []
    for held in labels:
        tensor = np.array([generator.randrange(7) for _ in range(8)], dtype=np.float32).reshape(2, 2, 2)
        tensor[tuple(assignment[label] for label in held)] = 8
        tensors.append(tensor)
    return tensors


def products(labels, edges, generator):
    parts = [generator.choice((0.25, 0.5, 0.75)) for _ in edges]
    tensors, gradients = [], []
    for vertex, held in enumerate(labels):
        own, other = [], []
        for label in held:
            split, ones = np.array([parts[label], 1 - parts[label]]), np.ones(2)
            first = edges[label][0] == vertex
            own.append(split if first else ones)
            other.append(ones if first else split)
        tensors.append(np.einsum("a,b,c->abc", *own))
        gradients.append(np.einsum("a,b,c->abc", *other))
    return tensors, gradients


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name")
    parser.add_argument("--vertices", type=int, default=236)
    parser.add_argument("--kind", choices=("max_plus", "sum_product"), default="max_plus")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", help="value and gradients, as tensum grad wrote them")
    options = parser.parse_args()
    generator = random.Random(options.seed)
    edges = graph(options.vertices, generator)
    labels = [[] for _ in range(options.vertices)]
    for number, edge in enumerate(edges):
        for vertex in edge:
            labels[vertex].append(number)
    if options.kind == "max_plus":
        assignment = [generator.randrange(2) for _ in edges]
        tensors, value = planted(labels, assignment, generator), 8.0 * options.vertices
        gradients = [(tensor == 8).astype(np.float64) for tensor in tensors]
    else:
        (tensors, gradients), value = products(labels, edges, generator), 1.0
    if options.check:
        with np.load(options.check) as found:
            worst = abs(float(found["value"]) - value)
            for number, gradient in enumerate(gradients):
                worst = max(worst, float(np.abs(found[f"gradient_{number}"] - gradient).max()))
        print(f"value and {len(gradients)} gradients differ from the known ones by {worst:.3g} at most")
        raise SystemExit(worst > 1e-9)
    with open(options.name + ".json", "w") as file:
        sizes = {str(number): 2 for number in range(len(edges))}
        json.dump({"einsum": {"ixs": labels, "iy": []}, "size": sizes}, file)
    np.savez(options.name + ".npz", *tensors)
    if options.kind == "max_plus":
        with open(options.name + ".uai", "w") as file:
            file.write(f"MARKOV\n{len(edges)}\n{' '.join(['2'] * len(edges))}\n{len(labels)}\n")
            for held in labels:
                file.write(f"3 {' '.join(map(str, held))}\n")
            for tensor in tensors:
                file.write("8 " + " ".join(f"{2.0 ** float(x):g}" for x in tensor.ravel()) + "\n")
        with open(options.name + ".map", "w") as file:
            file.write(" ".join(map(str, [len(assignment), *assignment])) + "\n")
    print(f"{len(labels)} tensors, {len(edges)} labels; the value is {value:g}")


if __name__ == "__main__":
    main()
