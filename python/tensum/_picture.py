"""A plan's tree as HTML with an SVG picture, for notebooks."""

from html import escape

_LEAVES = 128  # a larger tree is a table only


def html(plan):
    cost = plan.cost
    what = plan.structure.expression or f"{len(plan.shapes)} operands"
    rows = [
        ("expression", what if len(what) <= 120 else what[:117] + "..."),
        ("semiring, dtype", f"{plan.semiring}, {plan.dtype}"),
        ("log2 pairs (tc)", f"{cost.tc:.2f}"),
        ("log2 largest (sc)", f"{cost.sc:.2f}"),
        ("log2 read and written (rw)", f"{cost.rw:.2f}"),
        ("slices", f"{cost.slices}" + (f" ({', '.join(str(label) for label in plan.sliced)})" if plan.sliced else "")),
        ("intermediates", f"{cost.peak_bytes_value} bytes"),
    ]
    table = "".join(f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
    return f"<div><table>{table}</table>{_tree(plan)}</div>"


def _tree(plan):
    count, steps = len(plan.shapes), plan.ssa_path
    if not 1 < count <= _LEAVES:
        return ""
    children = {count + number: step for number, step in enumerate(steps)}
    root = count + len(steps) - 1
    # Leaves in the order of a walk from the root, without recursion: chains are deep.
    order, stack = [], [root]
    while stack:
        node = stack.pop()
        if node in children:
            stack.extend(reversed(children[node]))
        else:
            order.append(node)
    place = {leaf: (20.0 + 26.0 * position, 0) for position, leaf in enumerate(order)}
    for node in range(count, root + 1):
        below = [place[child] for child in children[node]]
        place[node] = (sum(x for x, _ in below) / len(below), 1 + max(height for _, height in below))
    top = place[root][1]
    gap = min(36.0, 640.0 / max(top, 1))

    def at(node):
        x, height = place[node]
        return x, 16.0 + gap * (top - height)

    pairs = {result: size for _, _, result, _, size, _ in plan.steps()}
    largest = max(pairs.values(), default=1.0) or 1.0
    parts = []
    for node, below in children.items():
        x, y = at(node)
        for child in below:
            u, v = at(child)
            parts.append(f"<line x1='{x:.1f}' y1='{y:.1f}' x2='{u:.1f}' y2='{v:.1f}' stroke='#888'/>")
    for node in place:
        x, y = at(node)
        if node < count:
            parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='4' fill='#4477aa'><title>operand {node}: {plan.shapes[node]}</title></circle>")
            parts.append(f"<text x='{x:.1f}' y='{y + 16:.1f}' font-size='9' text-anchor='middle'>{node}</text>")
        else:
            size = pairs.get(node, 0.0)
            radius = 3.0 + 6.0 * max(size, 0.0) / largest
            parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius:.1f}' fill='#cc6677'><title>step {node - count}: log2 pairs {size:.1f}</title></circle>")
    width, height = 40.0 + 26.0 * (len(order) - 1), 40.0 + gap * top
    return f"<svg width='{width:.0f}' height='{height:.0f}' xmlns='http://www.w3.org/2000/svg'>{''.join(parts)}</svg>"
