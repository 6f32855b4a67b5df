"""PyTorch: tensors in and out, gradients, transforms, and the operators that torch.compile and torch.export see."""

import torch
from torch import library as operators

from . import _api, _core
from ._libraries import Operands, NumPy, dtype_name
from ._network import Structure, interleaved
from ._plan import VALUE, WINNERS, compiled, progress_of

_TO_TORCH = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "c64": torch.complex64,
    "c128": torch.complex128,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
}
_transforms = torch._C._functorch.peek_interpreter_stack


def prototype(shape, dtype, kind, index):
    """A tensor without memory, to make others like it."""
    with torch.inference_mode(False):
        made = torch.empty(shape, dtype=_TO_TORCH[dtype], device="cpu" if kind == 1 else f"cuda:{index}")
        made.untyped_storage().resize_(0)
    return made


class Torch(NumPy):
    name = "torch"

    @staticmethod
    def configure():
        _core.einsum_configure(
            "torch",
            torch.Tensor,
            torch.nn.Parameter,
            torch.is_grad_enabled,
            torch.Tensor.is_neg,
            torch.Tensor.is_conj,
            _transforms,
            torch._C._len_torch_dispatch_stack,
            recorder,
            torch.empty_like,
            prototype,
        )

    @staticmethod
    def open(array, what, stream=0, output=False):
        if array.layout is not torch.strided:
            raise TypeError(f"{what}: tensors of layout {array.layout} are not supported; use to_dense()")
        if array.is_quantized or array.is_meta or array.is_nested:
            raise TypeError(f"{what}: quantized, meta and nested tensors are not supported")
        if output:
            if array.is_conj() or array.is_neg():
                raise ValueError(f"{what}: a conjugate or negative view cannot be written to")
            if array.requires_grad and torch.is_grad_enabled():
                raise ValueError(f"{what} requires a gradient: out= does not record one")
        else:
            # Lazy bits are not visible in memory: resolve them into a copy.
            if array.is_conj():
                array = array.resolve_conj()
            if array.is_neg():
                array = array.resolve_neg()
        return array.detach() if array.requires_grad else array

    @staticmethod
    def empty(shape, dtype, like, device, stream=0):
        if dtype not in _TO_TORCH:
            raise TypeError(f"PyTorch has no dtype for {dtype}; use NumPy arrays")
        place = "cpu" if device[0] == 1 else f"cuda:{device[1]}"
        return torch.empty(shape, dtype=_TO_TORCH[dtype], device=place)

    @staticmethod
    def cast(array, dtype):
        return array.to(_TO_TORCH[dtype])

    @staticmethod
    def stream(array):
        return torch.cuda.current_stream(array.device).cuda_stream if array.is_cuda else 0

    @staticmethod
    def memory(array):
        return torch.Tensor if array is not None and array.is_cuda else None


# ---- what a differentiable contraction needs ----


class Expression:
    """A contraction by its structure; plans come from the cache."""

    def __init__(self, structure, semiring, optimize="auto", memory_limit=None, check=True):
        self.structure, self.semiring, self.optimize = structure, semiring, optimize
        self.memory_limit, self.check = memory_limit, check
        self.atomic = False  # not to be taken apart further: a step of another
        # What the fast path in C can do by itself.
        usual = optimize == "auto" and memory_limit is None and check and not structure.sizes
        self.plain = structure.expression if usual else None

    def compiled(self, shapes, dtype):
        return compiled(self.structure, shapes, self.semiring, dtype, self.optimize, self.memory_limit, self.check)

    def made(self, tensors):
        """The plan for tensors that need not have data."""
        shapes = tuple(tuple(tensor.shape) for tensor in tensors)
        return self.compiled(shapes, dtype_name(tensors[0].dtype))


class PlanExpression(Expression):
    """The same through a tensum.Plan."""

    def __init__(self, plan):
        super().__init__(plan.structure, plan.semiring, plan._tree, plan.memory_limit, plan.check)
        self.plan, self.plain = plan, None

    def compiled(self, shapes, dtype):
        if dtype != self.plan.dtype:
            raise TypeError(f"operand 0 is {dtype}, the plan was made for {self.plan.dtype}")
        return self.plan._make(shapes)


def _value(expression, tensors, out=None, progress=None):
    operands = Operands(list(tensors))
    return expression.compiled(operands.shapes, operands.dtype).value(operands, out, progress)


def _forward(expression, tensors):
    """(value, winners): both are kept for the backward pass. Winners without elements: there is nothing to keep."""
    operands = Operands(list(tensors))
    value, winners, _ = expression.compiled(operands.shapes, operands.dtype).forward(operands)
    return value, tensors[0].new_empty(0, dtype=torch.int32) if winners is None else winners


def _engine_gradient(expression, tensors, cotangent, wanted, saved=None):
    """Gradients by the library, without a graph. `saved`: (value, winners, tape) of the forward pass."""
    operands = Operands([tensor.detach() for tensor in tensors])
    made = expression.compiled(operands.shapes, operands.dtype)
    seed = cotangent.detach().to(_TO_TORCH[made.gradient_dtype])
    if saved is not None:
        value, winners, tape = saved
        saved = None if value is None else value.detach(), winners if made.saves else None, tape
    _, slopes = made.gradient(operands, seed, wanted, value=False, saved=saved)
    return [None if slope is None else slope.to(tensor.dtype) for slope, tensor in zip(slopes, tensors)]


class Contract(torch.autograd.Function):
    """(value, winners), for transforms. Where one step is all, its winners are kept; the backward pass of a longer plan runs
    it once more."""

    @staticmethod
    def forward(expression, *tensors):
        return _forward(expression, tensors)

    @staticmethod
    def setup_context(ctx, inputs, output):
        expression, *tensors = inputs
        ctx.expression = expression
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output, *tensors)

    @staticmethod
    def backward(ctx, cotangent, _):
        value, winners, *tensors = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[1:])
        return (None, *_gradient(ctx.expression, tensors, cotangent, wanted, (value, winners, None)))

    @staticmethod
    def vmap(info, in_dims, expression, *tensors):
        batched, moved = _batched(expression, tensors, in_dims[1:])
        value, winners = Contract.apply(batched, *moved)
        if winners.shape != value.shape:
            winners = winners.new_empty(info.batch_size, 0)
        return (value, winners), (0, 0)


# Will the graph be needed after the backward pass that is running?
_keeps_graph = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)


class EagerContract(torch.autograd.Function):
    """Contract without the machinery that transforms need, which costs more than a small contraction. A plan of several steps
    keeps the memory of its run, with intermediates and winners, on a tape; one with slices runs once more."""

    @staticmethod
    def forward(ctx, expression, *tensors):
        ctx.expression = expression
        operands = Operands(list(tensors))
        value, winners, ctx.tape = expression.compiled(operands.shapes, operands.dtype).forward(operands, tape=True)
        # The value is kept where the gradients depend on it; elsewhere it may go.
        ctx.save_for_backward(*tensors, winners, value if expression.semiring == "log_sum_exp" else None)
        return value

    @staticmethod
    def backward(ctx, cotangent):
        *tensors, winners, value = ctx.saved_tensors
        expression, wanted, tape = ctx.expression, ctx.needs_input_grad[1:], ctx.tape
        slopes = NotImplemented
        if (expression.plain is not None or tape is not None) and not torch.is_grad_enabled():
            slopes = _core.backward(expression.plain, expression.semiring, tuple(tensors), value, winners, cotangent, wanted, tape)
        if slopes is NotImplemented:
            slopes = _gradient(expression, tensors, cotangent, list(wanted), (value, winners, tape))
        if tape is not None and not _keeps_graph():
            tape.release()  # as PyTorch does with what it has saved
        return None, *slopes


def recorder(text, semiring):
    """What records calls of the fast path: apply((value, to save), *tensors) -> value. The class stands for the expression,
    its forward function is written in C, and `apply` is that of PyTorch's C++ code: what its Python layer adds is for
    transforms, and for tensors that the fast path does not take."""

    class Recorded(EagerContract):
        forward = staticmethod(_core.record)

    Recorded._backward_cls.expression = Expression(Structure(text), semiring)  # the contexts' class
    Recorded._backward_cls.tape = None
    return super(torch.autograd.Function, Recorded).apply


class Gradient(torch.autograd.Function):
    """The gradients as one function of operands and cotangent, for transforms that batch the backward pass."""

    @staticmethod
    def forward(expression, wanted, cotangent, value, winners, *tensors):
        slopes = _engine_gradient(expression, tensors, cotangent, wanted, (value, winners, None))
        return tuple(slope for slope in slopes if slope is not None)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *unused):
        raise RuntimeError("this gradient was taken without create_graph and cannot be differentiated again")

    @staticmethod
    def vmap(info, in_dims, expression, wanted, cotangent, value, winners, *tensors):
        cotangent, value, winners, *tensors = _mapped(info, in_dims[2:], (cotangent, value, winners, *tensors))
        batched, moved = _batched(expression, tensors, [0] * len(tensors))
        slopes = Gradient.apply(batched, wanted, cotangent, value, winners, *moved)
        return slopes, tuple(0 for _ in slopes)


def _gradient(expression, tensors, cotangent, wanted, saved):
    value, winners, _ = saved
    if torch.is_grad_enabled() and (cotangent.requires_grad or any(tensor.requires_grad for tensor in tensors)):
        return _graph_gradient(expression, tensors, cotangent, wanted, winners)
    if _transforms() is not None:
        slopes = iter(Gradient.apply(expression, tuple(wanted), cotangent, value, winners, *tensors))
        return [next(slopes) if want else None for want in wanted]
    return _engine_gradient(expression, tensors, cotangent, wanted, saved)


def _batched(expression, tensors, dims):
    """(expression, tensors) with one more label: that of the mapped axis."""
    sample = [tensor if dim is None else tensor.select(dim, 0) for tensor, dim in zip(tensors, dims)]
    network = expression.made(sample).network
    fresh = max(network.labels, default=0) + 1
    terms, moved = [], []
    for index, (tensor, dim) in enumerate(zip(tensors, dims)):
        labels = network.operand(index)[0]
        terms.append(labels if dim is None else (fresh, *labels))
        moved.append(tensor if dim is None else tensor.movedim(dim, 0))
    output = network.operand(-1)[0]
    inside = {label for term in terms for label in term}
    sizes = {label: extent for label, extent in zip(network.labels, network.extents) if label in output and label not in inside}
    structure = Structure(operands=tuple(terms), output=(fresh, *output), sizes=sizes)
    optimize = expression.optimize
    if isinstance(optimize, _core.Tree):
        optimize = _core.tree_from_steps(optimize.leaf_count, optimize.ssa(), False)
    return Expression(structure, expression.semiring, optimize, expression.memory_limit, expression.check), moved


# ---- gradients that can be differentiated again ----


def _graph_gradient(expression, tensors, cotangent, wanted, winners=None):
    semiring = expression.semiring
    made = expression.made(tensors)
    if semiring == "sum_product":
        return [
            _adjoint(made.network, tensors, cotangent, index) if want else None for index, want in enumerate(wanted)
        ]
    if semiring == "log_sum_exp":
        return _softmax(expression, made.network, tensors, cotangent, wanted)
    return _routed(expression, made, tensors, cotangent, wanted, winners)


def _adjoint(network, tensors, cotangent, index):
    """Of a sum of products with respect to one operand: the contraction of the cotangent with the other operands."""
    extents = dict(zip(network.labels, network.extents))
    arguments = [cotangent, list(network.operand(-1)[0])]
    for other, tensor in enumerate(tensors):
        if other != index:
            arguments += [tensor.conj() if tensor.is_complex() else tensor, list(network.operand(other)[0])]
    fresh = max(network.labels, default=0)
    term, sizes = [], {}
    present = {label for labels in arguments[1::2] for label in labels}
    for label, extent in zip(*network.operand(index)):
        if extent == 1 and extents[label] != 1:
            # The operand was broadcast along this axis: its gradient sums over the label and keeps the axis.
            fresh += 1
            label, extents[fresh] = fresh, 1
        term.append(label)
        if label not in present:
            sizes[label] = extents[label]
    return _api.einsum(*arguments, term, sizes=sizes)


def _softmax(expression, network, tensors, cotangent, wanted):
    """Of log_sum_exp: exp(x_i) times the adjoint of the other exponentials, all shifted by each operand's maximum."""
    total, exponentials = 0.0, []
    for tensor in tensors:
        top = tensor.detach().amax() if tensor.numel() else tensor.new_zeros(())
        top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
        total = total + top
        exponentials.append(torch.exp(tensor - top))
    value, _ = Contract.apply(expression, *tensors)
    # Where the value is minus infinity there is no term to share the cotangent.
    finite = torch.isfinite(value.detach())
    weight = torch.where(finite, torch.exp(total - torch.where(finite, value, torch.zeros_like(value))), torch.zeros_like(value))
    return [
        exponentials[index] * _adjoint(network, exponentials, cotangent * weight, index) if want else None
        for index, want in enumerate(wanted)
    ]


class Choice(torch.autograd.Function):
    """The optimal assignment of every output element: [element, label], 64-bit integers, no gradient; 0 where every
    assignment is the semiring's zero. Through the host: for plans with slices, whose steps cannot be told apart."""

    @staticmethod
    def forward(expression, *tensors):
        operands = Operands([tensor.detach() for tensor in tensors])
        _, assignments, _ = expression.compiled(operands.shapes, operands.dtype).decode(operands, tolerate=True)
        return torch.from_numpy(assignments).clamp_(min=0).to(tensors[0].device)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx, _):
        return (None,) * len(ctx.needs_input_grad)

    @staticmethod
    def vmap(info, in_dims, expression, *tensors):
        tensors = _mapped(info, in_dims[1:], tensors)
        batched, moved = _batched(expression, tensors, [0] * len(tensors))
        chosen = Choice.apply(batched, *moved)
        # The mapped label is the first of the batched network.
        return chosen.reshape(info.batch_size, -1, chosen.shape[1])[:, :, 1:], 0


def _mapped(info, dims, tensors):
    """All with the mapped axis in front: those without one as views of stride 0."""
    return [
        tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        for tensor, dim in zip(tensors, dims)
    ]


def _routed(expression, made, tensors, cotangent, wanted, winners=None):
    """Of a selective semiring: every output element's cotangent goes to the elements that its optimal assignment names.

    Linear in the cotangent, and (for products) differentiable in the operands.
    """
    if made.saves is None and not expression.atomic and not made.plan.tree.slices:
        return _in_steps(expression, made, tensors, cotangent, wanted)
    network, semiring = made.network, made.semiring
    output, shape = network.operand(-1)
    flat_cotangent = cotangent.reshape(-1)
    # Indices of every label per output element: those of the output's labels are known.
    grid = torch.meshgrid(*(torch.arange(extent, device=cotangent.device) for extent in shape), indexing="ij") if shape else ()
    at = {}
    for label, indices in zip(output, grid):
        if label in at:
            # The output's diagonal alone depends on anything where its labels repeat.
            flat_cotangent = torch.where(at[label] == indices.reshape(-1), flat_cotangent, torch.zeros_like(flat_cotangent))
        else:
            at[label] = indices.reshape(-1)
    summed = [(label, extent) for label, extent in zip(network.labels, network.extents) if label not in at]
    if made.saves is None:
        chosen = Choice.apply(expression, *tensors)
        column = {label: number for number, label in enumerate(network.labels)}
        at.update({label: chosen[:, column[label]] for label, _ in summed})
    elif made.saves:
        # The winner of a step is the position among its summed labels, row-major in the order of their first occurrence.
        if winners is None or winners.shape != cotangent.shape:
            _, winners = Contract.apply(expression, *tensors)
        rest = winners.detach().reshape(-1).long()
        # An empty sum has none, and drops its cotangent.
        flat_cotangent = torch.where(rest < 0, torch.zeros_like(flat_cotangent), flat_cotangent)
        rest = rest.clamp(min=0)
        for label, extent in reversed(summed):
            at[label], rest = rest % max(extent, 1), rest // max(extent, 1)
    places, picked = [], []
    for index, tensor in enumerate(tensors):
        labels, shape = network.operand(index)
        place = torch.zeros(flat_cotangent.shape[0], dtype=torch.int64, device=cotangent.device)
        for label, extent in zip(labels, shape):
            place = place * extent + (at[label] if extent > 1 else 0)
        places.append(place)
        picked.append(tensor.reshape(-1)[place] if tensor.numel() else tensor.new_zeros(place.shape))
    if semiring in ("max_min", "min_max"):
        stacked = torch.stack([value.detach() for value in picked])
        holder = stacked.argmin(0) if semiring == "max_min" else stacked.argmax(0)
    slopes = []
    for index, tensor in enumerate(tensors):
        if not wanted[index]:
            slopes.append(None)
            continue
        share = flat_cotangent
        if semiring in ("max_times", "min_times"):
            for other, factor in enumerate(picked):
                if other != index:
                    share = share * factor
        elif semiring in ("max_min", "min_max"):
            share = torch.where(holder == index, share, torch.zeros_like(share))
        flat = torch.zeros(tensor.numel(), dtype=share.dtype, device=share.device)
        if tensor.numel():
            flat = flat.index_add(0, places[index], share)
        slopes.append(flat.reshape(tensor.shape).to(tensor.dtype))
    return slopes


def _in_steps(expression, made, tensors, cotangent, wanted):
    """The same of a plan of several steps, one after the other, each with the winners of its own. Nothing visits the host."""
    network = made.network
    extents, rank = dict(zip(network.labels, network.extents)), {label: place for place, label in enumerate(network.labels)}
    output = network.operand(-1)[0]
    values, terms, back, records = [], [], [], []
    for index, tensor in enumerate(tensors):
        # Labels in the order of the network, which decides between equal terms; without axes that are broadcast.
        labels, shape = network.operand(index)
        order = sorted(range(len(labels)), key=lambda axis: rank[labels[axis]])
        kept = [axis for axis in order if shape[axis] == extents[labels[axis]]]
        values.append(tensor.permute(order).reshape([shape[axis] for axis in kept]))
        terms.append(tuple(labels[axis] for axis in kept))
        back.append(([shape[axis] for axis in order], [order.index(axis) for axis in range(len(order))]))

    def step(children, kept, sizes=None):
        one = Expression(Structure(operands=tuple(terms[child] for child in children), output=tuple(kept), sizes=sizes),
                         expression.semiring, check=False)
        one.atomic = True
        value, winners = Contract.apply(one, *(values[child] for child in children))
        records.append((one, children, len(values), winners))
        values.append(value)
        terms.append(tuple(kept))
        return len(values) - 1

    def alone(child, needed):
        """Without labels that nothing else needs, and with each label once."""
        kept = sorted(set(terms[child]) & needed, key=rank.get)
        return child if tuple(kept) == terms[child] else step((child,), kept)

    nodes, lowest, live = list(range(len(tensors))), list(range(len(tensors))), set(range(len(tensors)))
    for children in made.plan.tree.ssa():
        # Between operands that tie, the one that holds the lowest-numbered input comes first.
        pending = [nodes[child] for child in sorted(children, key=lowest.__getitem__)]
        lowest.append(min(lowest[child] for child in children))
        live -= set(pending)
        outside = set(output).union(*(terms[other] for other in live))
        while len(pending) > 1:
            left, right, *rest = pending
            needed = outside.union(*(terms[other] for other in rest))
            left = alone(left, needed | set(terms[right]))
            right = alone(right, needed | set(terms[left]))
            kept = sorted((set(terms[left]) | set(terms[right])) & needed, key=rank.get)
            pending = [step((left, right), kept), *rest]
        nodes.append(pending[0])
        live.add(pending[0])
    root = nodes[-1]
    if terms[root] != tuple(output):
        root = step((root,), output, {label: extents[label] for label in output if label not in terms[root]})
    reached = [bool(want) for want in wanted]
    for _, children, _, _ in records:
        reached.append(any(reached[child] for child in children))
    slopes = {root: cotangent}
    for one, children, result, winners in reversed(records):
        found = _graph_gradient(one, [values[child] for child in children], slopes.pop(result), [reached[child] for child in children],
                                winners)
        slopes.update(zip(children, found))
    return [
        slopes[index].reshape(shape).permute(places) if wanted[index] else None for index, (shape, places) in enumerate(back)
    ]


# ---- entries ----


def _recorded(tensors):
    return torch.is_grad_enabled() and any(isinstance(tensor, torch.Tensor) and tensor.requires_grad for tensor in tensors)


def _special(tensors):
    """Fake, functional or otherwise dispatched tensors: only the operator understands them."""
    return torch._C._len_torch_dispatch_stack() > 0 or any(
        isinstance(tensor, torch.Tensor) and type(tensor) not in (torch.Tensor, torch.nn.Parameter)
        and getattr(type(tensor), "__torch_dispatch__", None) is not torch.Tensor.__torch_dispatch__
        for tensor in tensors
    )


def einsum(structure, tensors, semiring, out, optimize, memory_limit, dtype, check, progress):
    """tensum.einsum for tensors."""
    if dtype is not None:
        tensors = [tensor.to(_TO_TORCH[dtype]) if isinstance(tensor, torch.Tensor) else tensor for tensor in tensors]
    if _special(tensors):
        return _operator(structure, tensors, semiring, optimize)
    expression = Expression(structure, semiring, optimize, memory_limit, check)
    return _apply(expression, tensors, out, progress)


def _apply(expression, tensors, out=None, progress=None):
    if _recorded(tensors) or _transforms() is not None:
        if out is not None:
            raise ValueError("out= does not record a gradient: use torch.no_grad() or detach()")
        for index, tensor in enumerate(tensors):
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(f"operand {index}: expected a tensor like the others where gradients are recorded, got "
                                f"{type(tensor).__name__}")
            if tensor.layout is not torch.strided:
                raise TypeError(f"operand {index}: tensors of layout {tensor.layout} are not supported; use to_dense()")
        return EagerContract.apply(expression, *tensors) if _transforms() is None else Contract.apply(expression, *tensors)[0]
    return _value(expression, tensors, out, progress_of(progress))


def through_plan(plan, tensors, out):
    """A plan's call if a gradient is recorded or a transform is active; None otherwise."""
    if not (_recorded(tensors) or _transforms() is not None):
        return None
    return _apply(PlanExpression(plan), tensors, out)


class WithWinners(torch.autograd.Function):
    """(value, winners) of a one-step expression."""

    @staticmethod
    def forward(expression, kind, *tensors):
        operands = Operands(list(tensors))
        return expression.compiled(operands.shapes, operands.dtype).winners(operands, kind)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.expression = inputs[0]
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output, *inputs[2:])

    @staticmethod
    def backward(ctx, cotangent, _):
        value, winners, *tensors = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[2:])
        return (None, None, *_gradient(ctx.expression, tensors, cotangent, wanted, (value, winners, None)))

    @staticmethod
    def vmap(info, in_dims, expression, kind, *tensors):
        batched, moved = _batched(expression, tensors, in_dims[2:])
        return WithWinners.apply(batched, kind, *moved), (0, 0)


def matmul_winners(expression, a, b, semiring, kind, out):
    recent = expression, semiring, kind
    for program in _api._recent.get(recent, ()) if out is None else ():
        done = _core.call(program, a, b)  # not where a gradient is recorded
        if done is not NotImplemented:
            return done
    made = Expression(Structure(expression), _core.semiring_info(semiring)[0])
    if out is None and _transforms() is None and not _recorded((a, b)) and not _special((a, b)):
        operands = Operands([a, b])
        plan = made.compiled(operands.shapes, operands.dtype)
        _api._remember(recent, plan.program(WINNERS | VALUE, operands.device, winners=kind))
        return plan.winners(operands, kind)
    if out is not None:
        operands = Operands([a, b])
        return made.compiled(operands.shapes, operands.dtype).winners(operands, kind, out)
    return WithWinners.apply(made, kind, a, b)


# ---- operators ----

_library = operators.Library("tensum", "DEF")
_library.define(
    "einsum(Tensor[] operands, str expression, str semiring, str optimize, str size_labels, SymInt[] size_extents) -> Tensor"
)
_library.define(
    "einsum_backward(Tensor[] operands, Tensor cotangent, str expression, str semiring, str optimize, str size_labels, "
    "SymInt[] size_extents, bool[] wanted) -> Tensor[]"
)


def _spell_path(optimize):
    if isinstance(optimize, str):
        return optimize
    if optimize is None or isinstance(optimize, bool):
        return "auto" if optimize in (None, True) else "written"
    if isinstance(optimize, _core.Tree):
        optimize = optimize.path()
    return "path:" + ";".join(",".join(str(int(position)) for position in step) for step in optimize)


def _read_path(text):
    if text == "written":
        return False
    if not text.startswith("path:"):
        return text
    return [tuple(int(position) for position in step.split(",")) for step in text[5:].split(";") if step]


def _operator(structure, tensors, semiring, optimize="auto"):
    expression, labels = structure.spell()
    return torch.ops.tensum.einsum(
        list(tensors), expression, semiring, _spell_path(optimize), labels, list(structure.sizes.values())
    )


def _expression(expression, semiring, optimize, size_labels, size_extents):
    structure = Structure(expression, sizes=dict(zip(size_labels, (int(extent) for extent in size_extents))))
    return Expression(structure, semiring, _read_path(optimize))


def _einsum_kernel(operands, expression, semiring, optimize, size_labels, size_extents):
    return _value(_expression(expression, semiring, optimize, size_labels, size_extents), operands)


def _backward_kernel(operands, cotangent, expression, semiring, optimize, size_labels, size_extents, wanted):
    made = _expression(expression, semiring, optimize, size_labels, size_extents)
    return [slope for slope in _engine_gradient(made, operands, cotangent, wanted) if slope is not None]


for _place in ("CPU", "CUDA"):
    _library.impl("einsum", _einsum_kernel, _place)
    _library.impl("einsum_backward", _backward_kernel, _place)


def _symbolic_shape(expression, shapes, sizes):
    """The output's shape, for extents that may be symbols."""
    left, arrow, right = expression.replace(" ", "").partition("->")
    terms = left.split(",") if shapes else []
    if len(terms) != len(shapes):
        raise ValueError(f"expected {len(terms)} operands, got {len(shapes)}")
    extents, dots, counts = dict(sizes), [], {}

    def meet(old, new):
        return new if old is None or (isinstance(old, int) and old == 1) else old

    for index, (term, shape) in enumerate(zip(terms, shapes)):
        before, ellipsis, after = term.partition("...")
        if len(shape) < len(before) + len(after) or (not ellipsis and len(shape) != len(term)):
            raise ValueError(f"operand {index}: {len(before) + len(after)} labels for {len(shape)} axes")
        hidden = list(shape[len(before) : len(shape) - len(after)])
        dots = [None] * (len(hidden) - len(dots)) + dots
        for axis in range(1, len(hidden) + 1):
            dots[-axis] = meet(dots[-axis], hidden[-axis])
        for label, extent in [*zip(before, shape), *zip(after, shape[len(shape) - len(after) :])]:
            extents[label] = meet(extents.get(label), extent)
            counts[label] = counts.get(label, 0) + 1
    if not arrow:
        right = "..." + "".join(sorted(label for label in counts if counts[label] == 1))
    before, ellipsis, after = right.partition("...")
    result = [extents[label] for label in before]
    if ellipsis:
        result += dots
    return result + [extents[label] for label in after]


@operators.register_fake("tensum::einsum", lib=_library)
def _einsum_fake(operands, expression, semiring, optimize, size_labels, size_extents):
    shape = _symbolic_shape(expression, [tensor.shape for tensor in operands], zip(size_labels, size_extents))
    return operands[0].new_empty(shape)


@operators.register_fake("tensum::einsum_backward", lib=_library)
def _backward_fake(operands, cotangent, expression, semiring, optimize, size_labels, size_extents, wanted):
    return [tensor.new_empty(tensor.shape) for tensor, want in zip(operands, wanted) if want]


def _operator_setup(ctx, inputs, output):
    operands, ctx.expression, ctx.semiring, ctx.optimize, ctx.size_labels, ctx.size_extents = inputs
    ctx.wanted = [tensor.requires_grad for tensor in operands]
    ctx.save_for_backward(*operands)


def _operator_backward(ctx, cotangent):
    tensors = ctx.saved_tensors
    if torch.is_grad_enabled() and not _special((*tensors, cotangent)) and cotangent.requires_grad:
        made = _expression(ctx.expression, ctx.semiring, ctx.optimize, ctx.size_labels, ctx.size_extents)
        slopes = _graph_gradient(made, tensors, cotangent, ctx.wanted)
    else:
        found = iter(
            torch.ops.tensum.einsum_backward(
                list(tensors), cotangent, ctx.expression, ctx.semiring, ctx.optimize, ctx.size_labels, ctx.size_extents, ctx.wanted
            )
        )
        slopes = [next(found) if want else None for want in ctx.wanted]
    return slopes, None, None, None, None, [None] * len(ctx.size_extents)


operators.register_autograd("tensum::einsum", _operator_backward, setup_context=_operator_setup, lib=_library)


def _operator_vmap(info, in_dims, operands, expression, semiring, optimize, size_labels, size_extents):
    made = _expression(expression, semiring, optimize, size_labels, size_extents)
    batched, moved = _batched(made, operands, in_dims[0])
    return _operator(batched.structure, moved, semiring, batched.optimize), 0


operators.register_vmap("tensum::einsum", _operator_vmap, lib=_library)


def traced_einsum(*operands, semiring="sum_product", optimize="auto", dtype=None, sizes=None, **others):
    """What tensum.einsum is while torch.compile or torch.export looks at it."""
    if others:
        raise TypeError(f"{', '.join(others)}: not available while PyTorch traces")
    if isinstance(operands[0], str):
        structure, tensors = Structure(operands[0], sizes=sizes), list(operands[1:])
    else:
        tensors, terms, output = interleaved(operands)
        structure = Structure(operands=terms, output=output, sizes=sizes)
    if dtype is not None:
        tensors = [tensor.to(_TO_TORCH[dtype_name(dtype)]) for tensor in tensors]
    return _operator(structure, tensors, semiring, optimize)


_api._traced_einsum = traced_einsum
_api._tracing = torch.compiler.is_compiling
