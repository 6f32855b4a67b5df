"""Plans: compile once, run many times."""

import math
import threading
from collections import OrderedDict, namedtuple

from . import _core
from ._libraries import Operands, dtype_name, finish, library_of
from ._network import Structure, interleaved

VALUE, WINNERS, GRADIENT, DECODE = _core.VALUE, _core.WINNERS, _core.GRADIENT, _core.DECODE

Cost = namedtuple(
    "Cost",
    "tc sc rw steps slices peak_bytes_value peak_bytes_winners peak_bytes_gradient peak_bytes_decode",
)
Cost.__doc__ = """What a plan costs: log2 of pairs (tc), of the largest tensor (sc), of elements read and written (rw), steps and
slices, and the bytes of the arena per mode."""

Decoded = namedtuple("Decoded", "value assignment")
Decoded.__doc__ = """A value and an assignment of the labels that attains it: label -> index (or an array of indices)."""

_ALIASES = {True: "auto", "greedy": "greedy", "optimal": "exact", "dp": "exact"}


def find_tree(network, optimize, *, semiring, dtype, modulus=0, memory_limit=None, seed=0, work=None, time_limit=None, minimize=None, progress=None):
    """A tree from what `optimize` may be: a method's name, a path, a tree of ours, or False for the order as written."""
    count = network.operand_count
    if isinstance(optimize, _core.Tree):
        return optimize
    if optimize is False:
        return _core.tree_from_steps(count, _as_written(count), True)
    if not isinstance(optimize, (str, bool)) and optimize is not None:
        path = list(optimize)
        if path and isinstance(path[0], str):  # NumPy's ['einsum_path', (0, 1), ...]
            path = path[1:]
        if count > 1 or path:
            return _core.tree_from_steps(count, [tuple(step) for step in path], True)
    method = _ALIASES.get(optimize, optimize)
    if not isinstance(method, str) or method == "":
        method = "auto"
    if method not in _core.order_methods() and method == "exact":
        method = "auto"
    return _core.tree_search(
        network,
        method=method,
        seed=seed,
        work=-1.0 if work is None else work,
        time_limit=time_limit or 0.0,
        minimize=minimize,
        memory_limit=int(memory_limit or 0),
        semiring=semiring,
        dtype=dtype,
        modulus=modulus,
        progress=progress,
    )


def _as_written(count):
    # Left to right: the result goes to the end of the shrinking list, so it is the last but for the first step.
    return [(0, 1) if step == 0 else (0, count - step - 1) for step in range(count - 1)] if count > 1 else [(0,)] * count


class Compiled:
    """One network with extents: its plan, and a program per (modes, device)."""

    def __init__(self, network, names, tree, semiring, dtype, memory_limit=None, modulus=0, check=True, memory_modes=0):
        self.network, self.names = network, names
        self.semiring, self.dtype = semiring, dtype
        self.check = check
        self.plan = _core.plan_build(network, tree, semiring, dtype, modulus, int(memory_limit or 0), memory_modes)
        self.output_shape = network.operand(-1)[1]
        self.gradient_dtype = _core.dtype_info(dtype)[2]
        # What a forward pass keeps for the gradients: the dtype of the winners, "" for none; None where that is not enough,
        # and either its workspace is kept or it has to be rerun.
        self.saves = self.plan.saves(semiring)
        self._programs = {}
        self._lock = threading.Lock()

    def program(self, modes, device, saved=False, winners="i64"):
        key = modes, device, saved, winners
        found = self._programs.get(key)
        if found is None:
            with self._lock:
                found = self._programs.get(key)
                if found is None:
                    found = _core.program_build(self.plan, self.semiring, self.dtype, modes, device, self.check, saved, winners)
                    self._programs[key] = found
        return found

    def value(self, operands, out=None, progress=None, **slices):
        return self._value(VALUE, operands, out, progress, **slices)[0]

    def _value(self, modes, operands, out=None, progress=None, **options):
        """(value, what the run returned)."""
        result, opened = operands.output(out, self.output_shape, self.dtype)
        done = self.program(modes, operands.device).run(
            operands.opened,
            opened,
            stream=operands.stream,
            progress=progress,
            memory=operands.framework.memory(operands.first),
            **options,
        )
        operands.settle()
        return result if out is not None else finish(operands.framework, result), done

    def winners(self, operands, dtype, out=None):
        result, opened = operands.output(out, self.output_shape, self.dtype)
        winners, place = operands.empty(self.output_shape, dtype)
        self.program(VALUE | WINNERS, operands.device, winners=dtype).run(
            operands.opened, opened, place, stream=operands.stream, memory=operands.framework.memory(operands.first)
        )
        operands.settle()
        done = result if out is not None else finish(operands.framework, result)
        return done, finish(operands.framework, winners)

    def forward(self, operands, tape=False):
        """(value, winners or None, tape or None), to be handed to `gradient` as `saved`. A tape keeps the memory of the run."""
        if self.saves:
            return *self.winners(operands, self.saves), None
        if tape and self.saves is None and self.plan.keeps(self.semiring, self.dtype):
            try:
                value, made = self._value(VALUE | GRADIENT, operands, tape=True)
                return value, None, made
            except MemoryError:
                pass  # intermediates as well are more than the limit allows: the backward pass says so if it comes
        return self.value(operands), None, None

    def gradient(self, operands, cotangent=None, wanted=None, value=True, progress=None, saved=None):
        """(value or None, gradients): None where not wanted. With `saved`, what `forward` gave, there is no forward pass."""
        tape = saved[2] if saved is not None else None
        if tape is not None and not tape.usable(operands.stream):
            tape = None
        saved = saved if self.saves is not None or tape is not None else None
        value = value and saved is None
        result, opened = operands.empty(self.output_shape, self.dtype) if value else (None, None)
        winners = None
        if saved is not None:
            opened, winners = saved[:2]
            if opened is not None:
                opened = operands.framework.open(opened, "value", operands.stream)
        seed = None
        if cotangent is not None:
            seed = library_of(cotangent).open(cotangent, "cotangent", operands.stream)
            found, shape, _, device, _ = _core.describe(seed, "cotangent", operands.stream)
            if tuple(shape) != tuple(self.output_shape):
                raise ValueError(f"cotangent has shape {tuple(shape)}, the output has {tuple(self.output_shape)}")
            if found != self.gradient_dtype:
                raise TypeError(f"cotangent is {found}, cotangents of {self.dtype} are {self.gradient_dtype}")
        gradients = [
            operands.empty(shape, self.gradient_dtype)[0] if wanted is None or wanted[index] else None
            for index, shape in enumerate(operands.shapes)
        ]
        if tape is not None:
            program = tape.program
        else:
            program = self.program(GRADIENT | VALUE if value else GRADIENT, operands.device, saved is not None)
        program.run(
            operands.opened,
            opened,
            winners,
            seed,
            gradients,
            stream=operands.stream,
            progress=progress,
            memory=operands.framework.memory(operands.first),
            tape=tape,
        )
        operands.settle()
        done = finish(operands.framework, result) if value else None
        return done, [None if slope is None else finish(operands.framework, slope) for slope in gradients]

    def decode(self, operands, positions=None, tolerate=False, progress=None):
        """(value, assignments [position][label] as a NumPy array, status)."""
        import numpy

        result, opened = operands.empty(self.output_shape, self.dtype)
        total = math.prod(self.output_shape)
        if positions is not None:
            positions = numpy.ascontiguousarray(positions, dtype=numpy.int64).reshape(-1)
            if positions.size and not (0 <= positions.min() and positions.max() < total):
                raise ValueError(f"positions: expected linear indices below {total}")
        count = total if positions is None else positions.size
        assignments = numpy.zeros((count, len(self.network.labels)), numpy.int64)
        status = self.program(VALUE | DECODE, operands.device).run(
            operands.opened,
            opened,
            positions=positions,
            assignments=assignments,
            stream=operands.stream,
            progress=progress,
            tolerate=tolerate,
            memory=operands.framework.memory(operands.first),
        )
        return finish(operands.framework, result), assignments, status


class Cache:
    """The plans of calls that are not on the fast path; the oldest goes."""

    def __init__(self, capacity):
        self.capacity, self.entries, self.lock = capacity, OrderedDict(), threading.Lock()

    def get(self, key, make):
        try:
            with self.lock:
                found = self.entries.get(key)
                if found is not None:
                    self.entries.move_to_end(key)
                    return found
        except TypeError:  # something unhashable, such as a list of lists: not kept
            return make()
        found = make()
        with self.lock:
            self.entries[key] = found
            while len(self.entries) > self.capacity:
                self.entries.popitem(last=False)
        return found


cache = Cache(256)


def compiled(structure, shapes, semiring, dtype, optimize="auto", memory_limit=None, check=True):
    """A plan from the cache."""
    order = optimize if isinstance(optimize, (str, bool, _core.Tree)) else tuple(optimize) if optimize is not None else "auto"

    def make():
        network, names = structure.build(shapes)
        tree = find_tree(network, optimize, semiring=semiring, dtype=dtype, memory_limit=memory_limit)
        return Compiled(network, names, tree, semiring, dtype, memory_limit, check=check)

    return cache.get((structure.key(), shapes, semiring, dtype, order, memory_limit, check), make)


def progress_of(progress):
    """A callback (stage, done) from what `progress` may be: None, a callable, or True for a bar of tqdm's."""
    if progress is None or progress is False or callable(progress):
        return progress or None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise TypeError("progress=True needs tqdm, which is not installed; or give a callable (stage, done)") from None
    bar = tqdm(total=1.0, bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}")

    def show(stage, done):
        bar.set_description(stage, refresh=False)
        bar.n = done
        bar.refresh()
        if done >= 1.0:
            bar.close()

    return show


class Plan:
    """An expression compiled for one order; call it with arrays of any strides, device and library.

    `operands` are arrays or shapes. With other extents a call uses the same tree. With `constants` (positions of operands
    given as arrays) the parts of the tree that depend on them alone are contracted once, here, and a call takes the other
    operands only.
    """

    def __init__(
        self,
        expression,
        *operands,
        semiring="sum_product",
        dtype=None,
        optimize="auto",
        memory_limit=None,
        sizes=None,
        constants=None,
        seed=0,
        work=None,
        time_limit=None,
        minimize=None,
        modulus=0,
        check=True,
        progress=None,
    ):
        structure = expression if isinstance(expression, Structure) else None
        if structure is None:
            if isinstance(expression, str):
                structure = Structure(expression, sizes=sizes)
            else:
                operands, lists, output = interleaved((expression, *operands))
                structure = Structure(operands=lists, output=output, sizes=sizes)
        self.semiring = _core.semiring_info(semiring)[0]
        self.structure = structure
        shapes, arrays = [], {}
        for index, operand in enumerate(operands):
            if isinstance(operand, (tuple, list)) and all(hasattr(extent, "__index__") for extent in operand):
                shapes.append(tuple(int(extent) for extent in operand))
            else:
                arrays[index] = operand
                shapes.append(tuple(int(extent) for extent in operand.shape))
        if dtype is not None:
            self.dtype = dtype_name(dtype)
        elif arrays:
            self.dtype = Operands([next(iter(arrays.values()))]).dtype
        else:
            self.dtype = "f64"
        self.shapes = tuple(shapes)
        self.memory_limit, self.check, self.modulus = memory_limit, check, modulus
        network, names = structure.build(self.shapes)
        self._tree = find_tree(
            network,
            optimize,
            semiring=self.semiring,
            dtype=self.dtype,
            modulus=self.modulus,
            memory_limit=None if constants else memory_limit,
            seed=seed,
            work=work,
            time_limit=time_limit,
            minimize=minimize,
            progress=progress_of(progress),
        )
        self._compiled = {}
        self._lock = threading.Lock()
        self._folded = self._host = None
        main = self._make(self.shapes, network, names)
        if constants:
            missing = [index for index in constants if index not in arrays]
            if missing:
                raise ValueError(f"constants: operand {missing[0]} is not an array")
            from ._fold import Folded

            self._folded = Folded(self, main, {index: arrays[index] for index in constants})

    # ---- making ----

    def _make(self, shapes, network=None, names=None):
        found = self._compiled.get(shapes)
        if found is None:
            with self._lock:
                found = self._compiled.get(shapes)
                if found is None:
                    if network is None:
                        network, names = self.structure.build(shapes)
                    found = Compiled(
                        network, names, self._tree, self.semiring, self.dtype, self.memory_limit, self.modulus, self.check
                    )
                    if len(self._compiled) >= 64:
                        self._compiled.pop(next(iter(self._compiled)))
                    self._compiled[shapes] = found
        return found

    @property
    def _main(self):
        return self._make(self.shapes)

    @classmethod
    def from_cotengra(cls, tree, *, semiring="sum_product", dtype="f64", **options):
        """A plan that follows a cotengra ContractionTree: its order, and its slices, which meet under the semiring's sum."""
        structure = Structure(operands=tuple(tuple(term) for term in tree.inputs), output=tuple(tree.output))
        shapes = tuple(tuple(int(tree.size_dict[label]) for label in term) for term in tree.inputs)
        network, names = structure.build(shapes)
        numbers = {name: number for number, name in names.items()}
        ours = _core.tree_from_steps(len(shapes), [tuple(step) for step in tree.get_ssa_path()], False)
        sliced = [numbers[label] for label in tree.sliced_inds]
        if sliced:
            ours = ours.with_slices(sliced)
        return cls(structure, *shapes, semiring=semiring, dtype=dtype, optimize=ours, **options)

    # ---- running ----

    def _operands(self, arrays):
        operands = Operands(arrays)
        if arrays and operands.dtype != self.dtype:
            raise TypeError(f"operand 0 is {operands.dtype}, the plan was made for {self.dtype}")
        operands.dtype = self.dtype
        return operands, self._make(operands.shapes)

    def __call__(self, *arrays, out=None, strip_exponent=False, progress=None):
        """The contraction's value; with `strip_exponent`, (mantissa, exponent): value = mantissa * 10**exponent."""
        if self._host is not None and out is None and not strip_exponent and progress is None:
            done = _core.call(self._host, *arrays)
            if done is not NotImplemented:
                return done
        if self._folded is not None:
            return self._folded(arrays, out=out, strip_exponent=strip_exponent, progress=progress)
        if strip_exponent:
            from ._strip import strip

            return strip(self, arrays)
        if any(library_of(array).name == "torch" for array in arrays):
            from ._torch import through_plan

            done = through_plan(self, arrays, out)
            if done is not None:
                return done
        operands, made = self._operands(arrays)
        done = made.value(operands, out, progress_of(progress))
        if self._host is None and operands.shapes == self.shapes:
            # From now on plain arrays of these shapes go straight to this program.
            self._host = made.program(VALUE, operands.device)
        return done

    def gradient(self, *arrays, cotangent=None, wanted=None, progress=None):
        """(value, gradients): one gradient per operand, None where `wanted` says so. The default cotangent is ones."""
        if self._folded is not None:
            return self._folded.plan.gradient(*self._folded.merge(arrays), cotangent=cotangent,
                                              wanted=self._folded.wanted(wanted), progress=progress)
        operands, made = self._operands(arrays)
        return made.gradient(operands, cotangent, wanted, progress=progress_of(progress))

    def decode(self, *arrays, positions=None, progress=None):
        """A value and an optimal assignment of the labels: {label: index}.

        For an output with axes the indices are NumPy arrays of the output's shape, or of the shape of `positions` (linear
        row-major indices of output elements). Raises InfeasibleError where an element is the semiring's zero.
        """
        if self._folded is not None:
            raise TypeError("decode needs every operand: make the plan without constants")
        import numpy

        operands, made = self._operands(arrays)
        value, assignments, _ = made.decode(operands, positions, progress=progress_of(progress))
        shape = made.output_shape if positions is None else numpy.shape(positions)
        assignment = {}
        for column, label in enumerate(made.network.labels):
            indices = assignments[:, column].reshape(shape)
            assignment[made.names.get(label, label)] = indices if shape else int(indices)
        return Decoded(value, assignment)

    def winners(self, *arrays, dtype="i64"):
        """(value, winners) of a one-step expression over a selective semiring."""
        operands, made = self._operands(arrays)
        return made.winners(operands, dtype_name(dtype))

    def slices(self, *arrays, first, count, out=None):
        """The value over a range of slices; combine ranges with the semiring's sum."""
        operands, made = self._operands(arrays)
        return made.value(operands, out, slice_first=first, slice_count=count)

    # ---- knowing ----

    @property
    def cost(self):
        return Cost(**self._main.plan.cost())

    @property
    def path(self):
        """The order as a linear path, as opt_einsum and NumPy write it."""
        return [tuple(step) for step in self._tree.path()]

    @property
    def ssa_path(self):
        return [tuple(step) for step in self._tree.ssa()]

    @property
    def sliced(self):
        """Labels that are sliced."""
        main = self._main
        return [main.names.get(label, label) for label in main.plan.tree.slices]

    def steps(self):
        """The steps as they run: (a, b or -1, result, labels, log2 pairs, log2 elements)."""
        main = self._main
        return [main.plan.step(index) for index in range(main.plan.cost()["steps"])]

    def __repr__(self):
        cost = self.cost
        what = self.structure.expression or f"{len(self.shapes)} operands"
        if len(what) > 60:
            what = what[:57] + "..."
        return (
            f"<tensum.Plan {what}: {self.semiring} {self.dtype}, tc {cost.tc:.2f}, sc {cost.sc:.2f}, rw {cost.rw:.2f}, "
            f"{cost.slices} slice{'s' if cost.slices != 1 else ''}>"
        )

    def _repr_html_(self):
        from ._picture import html

        return html(self)

    # ---- keeping ----

    def save(self, path):
        """Write expression, shapes, tree and slices as JSON. Constants are not kept."""
        if self._folded is not None:
            raise TypeError("a plan with constants cannot be saved: save one without, load it and give constants then")
        import json

        document = {
            "format": "tensum-plan",
            "version": 1,
            "expression": self.structure.expression,
            "operands": None if self.structure.operands is None else [_to_json(term) for term in self.structure.operands],
            "output": None if self.structure.output is None else _to_json(self.structure.output),
            "sizes": [[label, extent] for label, extent in self.structure.sizes.items()],
            "shapes": self.shapes,
            "semiring": self.semiring,
            "dtype": self.dtype,
            "modulus": self.modulus,
            "memory_limit": self.memory_limit,
            "ssa_path": self.ssa_path,
            "slices": list(self._tree.slices),
        }
        try:
            text = json.dumps(document)
        except TypeError as error:
            raise TypeError(f"labels must be strings or integers to be saved: {error}") from None
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    @classmethod
    def load(cls, path):
        import json

        with open(path, encoding="utf-8") as file:
            try:
                document = json.load(file)
            except ValueError as error:
                raise ValueError(f"{path}: not a saved plan: {error}") from None
        if not isinstance(document, dict) or document.get("format") != "tensum-plan":
            raise ValueError(f"{path}: not a saved plan")
        if document.get("version") != 1:
            raise ValueError(f"{path}: version {document.get('version')!r} is unknown; this package reads 1")
        try:
            operands, output = document["operands"], document["output"]
            structure = Structure(
                document["expression"],
                None if operands is None else tuple(_from_json(term) for term in operands),
                None if output is None else _from_json(output),
                {label: extent for label, extent in document["sizes"]},
            )
            shapes = [tuple(shape) for shape in document["shapes"]]
            tree = _core.tree_from_steps(len(shapes), document["ssa_path"], False)
            if document["slices"]:
                tree = tree.with_slices(document["slices"])
            return cls(
                structure,
                *shapes,
                semiring=document["semiring"],
                dtype=document["dtype"],
                modulus=document["modulus"],
                memory_limit=document["memory_limit"],
                optimize=tree,
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}: malformed: {error}") from None


def _to_json(labels):
    return ["..." if label is Ellipsis else [label] for label in labels]


def _from_json(labels):
    return tuple(Ellipsis if label == "..." else label[0] for label in labels)
