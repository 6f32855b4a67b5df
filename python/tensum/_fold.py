"""Constants: the parts of a tree that depend on constant operands alone are contracted once."""

from . import _core
from ._libraries import Operands
from ._network import Structure


class Folded:
    """A plan whose constant subtrees have been replaced by their values."""

    def __init__(self, plan, main, constants):
        from ._plan import Compiled, Plan

        network = main.network
        count = network.operand_count
        steps = plan._tree.ssa()
        terms = {index: network.operand(index)[0] for index in range(count)}
        shapes = {index: plan.shapes[index] for index in range(count)}
        output, _ = network.operand(-1)
        extents = dict(zip(network.labels, network.extents))
        self.variable = [index for index in range(count) if index not in constants]
        self.constants = constants

        leaves = {index: (index,) for index in range(count)}
        for number, step in enumerate(steps):
            leaves[count + number] = tuple(leaf for child in step for leaf in leaves[child])
        fixed = {identity: all(leaf in constants for leaf in below) for identity, below in leaves.items()}

        # Maximal constant subtrees: constant themselves, but not part of a larger one.
        parent = {child: count + number for number, step in enumerate(steps) for child in step}
        roots = [i for i in sorted(fixed) if fixed[i] and (i not in parent or not fixed[parent[i]])]
        values, new_terms = {}, {}
        for root in roots:
            inside = leaves[root]
            if root < count:
                values[root], new_terms[root] = constants[root], terms[root]
                continue
            outside = set(output)
            for index in range(count):
                if index not in inside:
                    outside.update(terms[index])
            kept = []
            for leaf in inside:
                # A mode of extent 1 that meets a larger extent elsewhere broadcasts: the label is kept by that operand.
                kept += [label for label in terms[leaf] if label in outside and label not in kept]
            inner_terms, inner_shapes = [terms[leaf] for leaf in inside], [shapes[leaf] for leaf in inside]
            inner = _core.network_build(inner_terms, inner_shapes, kept, [], [])
            local = {leaf: place for place, leaf in enumerate(inside)}
            inner_steps = []
            for number, step in enumerate(steps):
                if leaves[count + number] and set(leaves[count + number]) <= set(inside) and fixed[count + number]:
                    local[count + number] = len(inside) + len(inner_steps)
                    inner_steps.append(tuple(local[child] for child in step))
            tree = _core.tree_from_steps(len(inside), inner_steps, False)
            made = Compiled(inner, {}, tree, plan.semiring, plan.dtype, None, plan.modulus, plan.check)
            values[root] = made.value(Operands([constants[leaf] for leaf in inside]))
            new_terms[root] = tuple(kept)
        # The rest of the tree, over the variable operands and the folded values.
        self.order = []  # per new operand: ("variable", position among them) or ("value", array)
        numbers, new_shapes, operand_terms = {}, [], []
        for index in self.variable:
            numbers[index] = len(operand_terms)
            operand_terms.append(terms[index])
            new_shapes.append(shapes[index])
            self.order.append(None)
        for root in roots:
            numbers[root] = len(operand_terms)
            operand_terms.append(new_terms[root])
            new_shapes.append(tuple(values[root].shape))
            self.order.append(values[root])
        total, new_steps = len(operand_terms), []
        for number, step in enumerate(steps):
            identity = count + number
            if not fixed[identity]:
                numbers[identity] = total + len(new_steps)
                new_steps.append(tuple(numbers[child] for child in step))
        tree = _core.tree_from_steps(total, new_steps, False)
        sizes = {label: extents[label] for label in output if not any(label in term for term in operand_terms)}
        structure = Structure(operands=tuple(operand_terms), output=tuple(output), sizes=sizes)
        self.plan = Plan(
            structure,
            *new_shapes,
            semiring=plan.semiring,
            dtype=plan.dtype,
            optimize=tree,
            memory_limit=plan.memory_limit,
            modulus=plan.modulus,
            check=plan.check,
        )

    def merge(self, arrays):
        if len(arrays) != len(self.variable):
            raise ValueError(
                f"expected {len(self.variable)} operands ({len(self.constants)} of {len(self.variable) + len(self.constants)} are "
                f"constant), got {len(arrays)}"
            )
        return [*arrays, *(value for value in self.order if value is not None)]

    def wanted(self, wanted):
        mine = [True] * len(self.variable) if wanted is None else list(wanted)
        return mine + [False] * (len(self.order) - len(self.variable))

    def __call__(self, arrays, **options):
        return self.plan(*self.merge(arrays), **options)
