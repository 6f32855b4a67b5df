"""From what users write (expressions, label lists) to networks of the library."""

import re

from . import _core


class Labels:
    """Hashable labels by number, in order of first sight. Numbers of axes behind an ellipsis are negative."""

    def __init__(self):
        self.numbers = {}

    def number(self, label):
        return self.numbers.setdefault(label, len(self.numbers))


def code_point(label):
    """Label of an expression (one character) or an integer as the library numbers it."""
    if isinstance(label, str) and len(label) == 1:
        return ord(label)
    if isinstance(label, int):
        return label
    raise ValueError(f"sizes: expected one character per label, got {label!r}")


class Structure:
    """A network's structure without extents: what `build` needs besides the operands' shapes.

    Either an expression, or label lists: operands (tuples of hashables, with `...` where there is an ellipsis) and output
    (likewise, or None for NumPy's implicit output).
    """

    def __init__(self, expression=None, operands=None, output=None, sizes=None):
        self.expression = expression
        self.operands = operands
        self.output = output
        self.sizes = dict(sizes or {})

    def key(self):
        if self.expression is not None:
            return self.expression, tuple(self.sizes.items())
        return self.operands, self.output, tuple(self.sizes.items())

    def spell(self):
        """(expression, labels with sizes) that mean the same: a character per label, letters first."""
        if self.expression is not None:
            labels = list(self.sizes)
            return self.expression, "".join(chr(label) if isinstance(label, int) else label for label in labels)
        names = {}

        def name(label):
            if label is Ellipsis:
                return "..."
            if label not in names:
                number = len(names)
                names[label] = chr(97 + number) if number < 26 else chr(39 + number) if number < 52 else chr(0x100 + number)
            return names[label]

        left = ",".join("".join(name(label) for label in term) for term in self.operands)
        if self.output is None:
            counts = {}
            for term in self.operands:
                for label in term:
                    counts[label] = counts.get(label, 0) + 1
            output = ["..."] if Ellipsis in counts else []
            output += [name(label) for label in sorted(label for label in counts if label is not Ellipsis and counts[label] == 1)]
        else:
            output = [name(label) for label in self.output]
        return f"{left}->{''.join(output)}", "".join(name(label) for label in self.sizes)

    def build(self, shapes):
        """(network, names): names maps the network's labels to the user's."""
        if self.expression is not None:
            names = [code_point(label) for label in self.sizes]
            network = _core.network_parse(self.expression, shapes, names, list(self.sizes.values()))
            return network, {label: chr(label) if label >= 0 else label for label in network.labels}
        return self._build_lists(shapes)

    def _build_lists(self, shapes):
        labels = Labels()
        if len(shapes) != len(self.operands):
            raise ValueError(f"expected {len(self.operands)} operands, got {len(shapes)}")
        expanded, widest = [], 0
        for index, (given, shape) in enumerate(zip(self.operands, shapes)):
            if Ellipsis in given:
                if given.count(Ellipsis) > 1:
                    raise ValueError(f"operand {index}: more than one ellipsis")
                hidden = len(shape) - (len(given) - 1)
                if hidden < 0:
                    raise ValueError(f"operand {index}: {len(given) - 1} labels for {len(shape)} axes")
                widest = max(widest, hidden)
                place = given.index(Ellipsis)
                numbers = [labels.number(label) for label in given[:place]]
                numbers += [-(hidden - axis) for axis in range(hidden)]
                numbers += [labels.number(label) for label in given[place + 1 :]]
            else:
                numbers = [labels.number(label) for label in given]
            expanded.append(numbers)
        dots = [-(widest - axis) for axis in range(widest)]
        if self.output is None:
            counts = {}
            for given in self.operands:
                for label in given:
                    if label is not Ellipsis:
                        counts[label] = counts.get(label, 0) + 1
            once = [label for label in labels.numbers if counts[label] == 1]
            try:
                once.sort()
            except TypeError:
                pass  # labels without an order keep that of their first occurrence
            output = dots + [labels.number(label) for label in once]
        else:
            output = []
            for label in self.output:
                output += dots if label is Ellipsis else [labels.number(label)]
        sizes = {labels.number(label): extent for label, extent in self.sizes.items()}
        names = {number: label for label, number in labels.numbers.items()}
        names.update({label: label for label in dots})
        try:
            network = _core.network_build(expanded, shapes, output, list(sizes), list(sizes.values()))
        except ValueError as error:
            # In the caller's terms.
            named = re.sub(r"label (-?\d+)", lambda found: f"label {names.get(int(found[1]), found[1])!r}", str(error))
            raise type(error)(named) from None
        return network, names


def interleaved(arguments):
    """NumPy's second form: operand, labels, operand, labels, ..., [output labels]. Returns (arrays, operands, output)."""
    arrays, operands, output = list(arguments[0:-1:2]), [], None
    if len(arguments) % 2 == 1:
        output = tuple(_label(label) for label in arguments[-1])
    for index in range(len(arrays)):
        labels = arguments[2 * index + 1]
        if isinstance(labels, str) or not hasattr(labels, "__iter__"):
            raise TypeError(f"operand {index}: expected a list of labels after the array, got {labels!r}")
        operands.append(tuple(_label(label) for label in labels))
    return arrays, tuple(operands), output


def _label(label):
    # Integers of other libraries are equal to Python's but print differently.
    return int(label) if hasattr(label, "__index__") and not isinstance(label, bool) else label
