"""PyTorch: tensors, gradients, transforms, compilation."""

import math
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import library as operators  # noqa: E402  (after the skip)
import tensum  # noqa: E402
import tensum.torch  # noqa: E402

SEMIRINGS = ["sum_product", "max_plus", "min_plus", "max_times", "min_times", "max_min", "min_max", "log_sum_exp"]
SELECTIVE = SEMIRINGS[1:-1]
TROPICAL = {"max_plus": lambda x: x.amax(-1), "min_plus": lambda x: x.amin(-1)}


def tensors(*shapes, seed=1, dtype=torch.float64, grad=True):
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(shape, dtype=dtype, generator=generator).add_(0.5).requires_grad_(grad) for shape in shapes]


def reference(semiring, x, y):
    """matmul over a semiring by broadcasting."""
    joint = {
        "sum_product": torch.mul, "max_plus": torch.add, "min_plus": torch.add, "max_times": torch.mul, "min_times": torch.mul,
        "max_min": torch.minimum, "min_max": torch.maximum, "log_sum_exp": torch.add,
    }[semiring](x.unsqueeze(-2), y.transpose(-1, -2).unsqueeze(-3))
    if semiring == "sum_product":
        return joint.sum(-1)
    if semiring == "log_sum_exp":
        return joint.logsumexp(-1)
    return joint.amax(-1) if semiring.startswith("max") else joint.amin(-1)


# ---- values ----


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("semiring", ["sum_product", "max_plus", "min_plus"])
def test_values_stay_in_torch(dtype, semiring):
    generator = torch.Generator().manual_seed(2)
    x = torch.randint(-4, 5, (3, 4, 5), generator=generator).to(dtype)
    y = torch.randint(-4, 5, (3, 5, 6), generator=generator).to(dtype)
    for _ in range(2):  # the second time through the fast path
        result = tensum.einsum("bij,bjk->bik", x, y, semiring=semiring)
        assert isinstance(result, torch.Tensor) and result.dtype == dtype and result.is_contiguous()
        assert torch.equal(result, reference(semiring, x.double(), y.double()).to(dtype))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_conjugate_and_negative_bits_are_resolved(dtype):
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.randn(3, 3, dtype=dtype, generator=generator) for _ in range(2))
    assert x.conj().is_conj() and x.conj().imag.is_neg()
    for _ in range(2):
        torch.testing.assert_close(tensum.einsum("ij,jk->ik", x.conj(), y), x.conj() @ y)
        torch.testing.assert_close(tensum.einsum("ij,jk->ik", x.conj().imag, y.real.contiguous()), x.conj().imag @ y.real)


def test_views_are_used_as_they_are():
    x = torch.arange(24.0).reshape(2, 3, 4)
    for a, b in [(x[0].T, x[1]), (x[:, 1], x[1].T[:4, :2]), (x[0, :, ::2], x[1, :2]), (x[0, :1].expand(5, 4), x[1].T)]:
        torch.testing.assert_close(tensum.einsum("ij,jk->ik", a, b), a @ b)


def test_what_is_refused():
    dense = torch.eye(3)
    for bad in (dense.to_sparse(), dense.to_sparse_csr()):
        with pytest.raises(TypeError, match="layout"):
            tensum.einsum("ij->i", bad)
    with pytest.raises(TypeError):
        tensum.einsum("i->", torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(TypeError, match="operand 1"):
        tensum.einsum("ij,jk->ik", dense, dense.double())
    with pytest.raises(TypeError):
        tensum.einsum("ij->i", torch.empty(3, 3, device="meta"))
    leaf = torch.eye(3, requires_grad=True)
    with pytest.raises(ValueError, match="out"):
        tensum.einsum("ij->ij", leaf, out=torch.empty(3, 3))
    with pytest.raises(ValueError, match="j"):
        tensum.einsum("ij,jk->ik", dense, torch.eye(4))


def test_out_without_a_gradient():
    x, out = torch.arange(6.0).reshape(2, 3), torch.empty(3, 2).T
    assert tensum.einsum("ij->ij", x, out=out) is out
    assert torch.equal(out, x)


def test_dtype_casts():
    x = torch.ones(2, 2)
    assert tensum.einsum("ij->", x, dtype=torch.float64).dtype == torch.float64
    leaf = torch.ones(2, 2, requires_grad=True)
    tensum.einsum("ij->", leaf, dtype="f64").backward()
    assert leaf.grad.dtype == torch.float32 and torch.equal(leaf.grad, torch.ones(2, 2))


def test_results_own_their_memory():
    x = torch.arange(6.0).reshape(2, 3)
    result = tensum.einsum("ij->ij", x)
    result.zero_()
    assert x.sum() == 15
    kept = [tensum.einsum("ij->ij", x) for _ in range(3)]
    assert len({tensor.data_ptr() for tensor in kept}) == 3
    assert all(tensor.untyped_storage().resizable() for tensor in kept)  # PyTorch's own, not a foreign block


# ---- gradients ----

EXPRESSIONS = [
    ("ij,jk->ik", [(3, 4), (4, 2)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 2)]),
    ("ij,jk,kl->il", [(2, 3), (3, 3), (3, 2)]),
    ("ij,j,jk->ik", [(2, 3), (3,), (3, 2)]),
    ("ii,ij->j", [(3, 3), (3, 2)]),
    ("ij->", [(2, 3)]),
    ("i,j->ij", [(3,), (2,)]),
    ("ij,ij->i", [(1, 3), (2, 3)]),
    ("...ij,...jk->...ik", [(2, 2, 3), (3, 2)]),
]


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("expression,shapes", EXPRESSIONS, ids=[case[0] for case in EXPRESSIONS])
def test_gradcheck(semiring, expression, shapes):
    inputs = tensors(*shapes)

    def function(*xs):
        return tensum.einsum(expression, *xs, semiring=semiring)

    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("semiring", ["max_plus", "max_times", "min_max"])
@pytest.mark.parametrize("expression,shapes,sizes", [
    ("ba,cb,bda,e->dc", [(3, 2), (2, 3), (3, 2, 2), (2,)], None),
    ("aab,bc,cdd->ba", [(2, 2, 3), (3, 2), (2, 2, 2)], None),
    ("ab,bc,cd->ad", [(2, 3), (1, 2), (2, 1)], None),
    ("a,b,c->abcz", [(2,), (2,), (3,)], {"z": 2}),
])
def test_second_derivatives_of_several_steps(semiring, expression, shapes, sizes):
    def function(*xs):
        return tensum.einsum(expression, *xs, semiring=semiring, sizes=sizes)

    assert torch.autograd.gradgradcheck(function, tensors(*shapes))


def test_gradients_that_can_be_differentiated_are_those_that_cannot():
    # Small integers, so that there are ties: both have to break them alike.
    rng = np.random.default_rng(5)
    for case in range(60):
        labels = "abcdef"[: rng.integers(3, 7)]
        extents = {label: int(rng.integers(1, 4)) for label in labels}
        terms = ["".join(rng.choice(list(labels), rng.integers(1, 4))) for _ in range(rng.integers(3, 6))]
        used = sorted(set("".join(terms)))
        output = "".join(rng.permutation(used)[: rng.integers(0, 4)])
        semiring = SELECTIVE[case % len(SELECTIVE)]
        xs = [torch.from_numpy(rng.integers(1, 4, [extents[label] for label in term]).astype(float)).requires_grad_() for term in terms]
        value = tensum.einsum(",".join(terms) + "->" + output, *xs, semiring=semiring)
        seed = torch.from_numpy(rng.integers(1, 9, value.shape).astype(float))
        plain = torch.autograd.grad(value, xs, seed, retain_graph=True)
        again = torch.autograd.grad(value, xs, seed, create_graph=True)
        for one, other in zip(plain, again):
            assert torch.equal(one, other), (terms, output, semiring)


def test_gradcheck_of_complex_numbers():
    generator = torch.Generator().manual_seed(4)
    x, y = (torch.randn(3, 3, dtype=torch.complex128, generator=generator, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda a, b: tensum.einsum("ij,jk->ik", a, b), (x, y))
    assert torch.autograd.gradgradcheck(lambda a, b: tensum.einsum("ij,jk->ik", a, b), (x, y))


@pytest.mark.parametrize("expression,shapes", [("i->ii", [(3,)]), ("ii->ii", [(3, 3)])])
def test_gradcheck_of_diagonals(expression, shapes):
    assert torch.autograd.gradcheck(lambda x: tensum.einsum(expression, x), tensors(*shapes))
    assert torch.autograd.gradgradcheck(lambda x: tensum.einsum(expression, x), tensors(*shapes))
    # Outside the diagonal the value is the zero, which has no gradient.
    (x,) = tensors(*shapes)
    value = tensum.einsum(expression, x, semiring="max_plus")
    torch.diagonal(value).sum().backward()
    expected = torch.ones(3) if x.dim() == 1 else torch.eye(3)
    assert torch.equal(x.grad, expected.double())


@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_gradients_equal_those_of_broadcasting(semiring):
    x, y = tensors((2, 5, 7), (2, 7, 4), seed=5)
    cotangent = torch.rand(2, 4, 5, dtype=torch.float64).transpose(1, 2)
    assert not cotangent.is_contiguous()
    ours = torch.autograd.grad(tensum.matmul(x, y, semiring), (x, y), cotangent)
    theirs = torch.autograd.grad(reference(semiring, x, y), (x, y), cotangent)
    for got, expected in zip(ours, theirs):
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


def test_gradients_per_input():
    x, y = tensors((3, 4), (4, 2))
    y.requires_grad_(False)
    value = tensum.einsum("ij,jk->ik", x, y, semiring="max_plus")
    value.sum().backward()
    assert y.grad is None and x.grad.sum() == 6


def test_an_expanded_leaf_adds_up():
    x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    tensum.einsum("ij,ij->", x.expand(2, 2), torch.ones(2, 2)).backward()
    assert torch.equal(x.grad, torch.tensor([[2.0, 2.0]]))


def test_no_grad_and_detached_inputs_record_nothing():
    x, y = tensors((3, 4), (4, 2))
    with torch.no_grad():
        assert not tensum.einsum("ij,jk->ik", x, y, semiring="max_plus").requires_grad
    with torch.inference_mode():
        assert not tensum.einsum("ij,jk->ik", x, y, semiring="max_plus").requires_grad
    assert not tensum.einsum("ij,jk->ik", x.detach(), y.detach()).requires_grad
    assert tensum.einsum("ij,jk->ik", x, y.detach()).requires_grad


def test_half_precision_gradients_have_the_inputs_dtype():
    x, y = tensors((3, 4), (4, 2), dtype=torch.float16)
    tensum.einsum("ij,jk->ik", x, y, semiring="max_plus").sum().backward()
    assert x.grad.dtype == torch.float16 and x.grad.sum() == 6


def test_second_derivatives_of_products():
    x, y = tensors((3, 4), (4, 2))
    value = tensum.einsum("ij,jk->", x, y, semiring="max_times")
    (slope,) = torch.autograd.grad(value, x, create_graph=True)
    (cross,) = torch.autograd.grad(slope.sum(), y)
    assert cross.sum() == 1 and (cross != 0).sum() == 1


def test_log_sum_exp_without_finite_terms():
    x = torch.tensor([-math.inf, -math.inf, 0.0], dtype=torch.float64, requires_grad=True)
    tensum.einsum("i->", x, semiring="log_sum_exp").backward()
    assert torch.equal(x.grad, torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64))
    x = torch.full((3,), -math.inf, dtype=torch.float64, requires_grad=True)
    tensum.einsum("i->", x, semiring="log_sum_exp").backward()
    assert torch.equal(x.grad, torch.zeros(3, dtype=torch.float64))


def test_the_same_tensor_twice_has_one_gradient():
    x = torch.tensor([1.0, 3.0, 2.0], requires_grad=True)
    tensum.einsum("si->i", torch.stack([x, x]), semiring="max_plus").sum().backward()
    assert torch.equal(x.grad, torch.ones(3))


def test_winners():
    x, y = tensors((2, 3, 5), (2, 5, 4))
    value, winners = tensum.matmul(x, y, "max_plus", winners="int32")
    joint = x.unsqueeze(-2) + y.transpose(-1, -2).unsqueeze(-3)
    assert winners.dtype == torch.int32 and not winners.requires_grad
    assert torch.equal(winners.long(), joint.argmax(-1))
    value.sum().backward()
    theirs = torch.autograd.grad(reference("max_plus", x, y).sum(), (x, y))
    torch.testing.assert_close(x.grad, theirs[0])
    torch.testing.assert_close(y.grad, theirs[1])
    assert tensum.matmul(x, y, "max_plus", winners=True)[1].dtype == torch.int64


def test_winners_under_vmap():
    x, y = tensors((3, 4, 5), (3, 5, 6), grad=False)
    joint = x.unsqueeze(-2) + y.transpose(-1, -2).unsqueeze(-3)
    value, winners = torch.vmap(lambda a, b: tensum.matmul(a, b, "max_plus", winners="int32"))(x, y)
    assert torch.equal(value, joint.amax(-1)) and torch.equal(winners.long(), joint.argmax(-1))
    _, winners = torch.vmap(lambda a: tensum.matmul(a, y[0], "max_plus", winners=True))(x)
    assert torch.equal(winners, (x.unsqueeze(-2) + y[0].T).argmax(-1))


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_where_no_term_is_finite(create_graph):
    # All terms are the zero: the first one wins. An empty sum has no winner.
    x = torch.full((2, 3), -math.inf, dtype=torch.float64, requires_grad=True)
    y = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    slopes = torch.autograd.grad(tensum.matmul(x, y, "max_plus").sum(), (x, y), create_graph=create_graph)
    assert slopes[0].tolist() == [[2, 0, 0], [2, 0, 0]] and slopes[1].tolist() == [[2, 2], [0, 0], [0, 0]]
    x, y = torch.rand(2, 0, requires_grad=True), torch.rand(0, 2, requires_grad=True)
    value = tensum.matmul(x, y, "max_plus")
    assert value.tolist() == [[-math.inf] * 2] * 2
    slopes = torch.autograd.grad(value.sum(), (x, y), create_graph=create_graph)
    assert [slope.shape for slope in slopes] == [(2, 0), (0, 2)]


def test_what_the_backward_pass_reads_must_not_change():
    x, y = torch.rand(2, 3, requires_grad=True), torch.rand(3, 2)
    value = tensum.matmul(x, y, "max_times")
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.sum().backward()


def test_the_forward_pass_runs_once():
    # The backward pass of one step reads winners: it agrees with them even where the operands would say otherwise now.
    x, y = tensors((4, 5), (5, 3))
    value, winners = tensum.matmul(x, y, "max_plus", winners="int32")
    with torch.no_grad():
        expected = torch.zeros_like(x)
        for i in range(4):
            for k in range(3):
                expected[i, winners[i, k]] += 1
    kept = value.grad_fn.saved_tensors
    assert any(torch.is_tensor(tensor) and tensor.dtype == torch.int32 for tensor in kept)
    value.sum().backward()
    assert torch.equal(x.grad, expected)
    plain = tensum.matmul(x, y, "max_plus")
    assert any(torch.is_tensor(tensor) and tensor.dtype == torch.int32 for tensor in plain.grad_fn.saved_tensors)


def test_plans_are_differentiable():
    inputs = tensors((2, 3), (3, 4), (4, 2))
    plan = tensum.Plan("ij,jk,kl->il", *inputs, semiring="max_plus", optimize=[(1, 2), (0, 1)])
    assert torch.autograd.gradcheck(plan, inputs)
    assert torch.autograd.gradgradcheck(plan, inputs)
    assert torch.equal(plan(*inputs), tensum.einsum("ij,jk,kl->il", *inputs, semiring="max_plus"))


def test_gradients_on_many_threads():
    x, y = tensors((8, 9), (9, 7))
    expected = torch.autograd.grad(reference("max_plus", x, y).sum(), (x, y))
    wrong = []

    def work():
        for _ in range(30):
            got = torch.autograd.grad(tensum.matmul(x, y, "max_plus").sum(), (x, y))
            if not all(torch.equal(one, other) for one, other in zip(got, expected)):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- transforms ----


@pytest.mark.parametrize("semiring", ["sum_product", "max_plus", "log_sum_exp"])
@pytest.mark.parametrize(
    "left,right,dims",
    [((3, 4, 5), (3, 5, 2), (0, 0)), ((3, 4, 5), (5, 2), (0, None)), ((4, 5), (5, 3, 2), (None, 1)), ((4, 5, 3), (5, 3, 2), (2, 1))],
)
def test_vmap(semiring, left, right, dims):
    x, y = tensors(left, right, grad=False)
    ours = torch.vmap(lambda a, b: tensum.einsum("ij,jk->ik", a, b, semiring=semiring), dims)
    theirs = torch.vmap(lambda a, b: reference(semiring, a, b), dims)
    torch.testing.assert_close(ours(x, y), theirs(x, y))


@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_functional_gradients(semiring):
    x, y = tensors((3, 4), (4, 2), grad=False)
    ours = torch.func.grad(lambda a: tensum.einsum("ij,jk->ik", a, y, semiring=semiring).sin().sum())(x)
    theirs = torch.func.grad(lambda a: reference(semiring, a, y).sin().sum())(x)
    torch.testing.assert_close(ours, theirs)
    jacobian = torch.func.jacrev(lambda a: tensum.einsum("ij,jk->ik", a, y, semiring=semiring))(x)
    torch.testing.assert_close(jacobian, torch.func.jacrev(lambda a: reference(semiring, a, y))(x))
    per_sample = torch.vmap(torch.func.grad(lambda a, b: tensum.einsum("j,jk->k", a, b, semiring=semiring).sum()), (0, None))(x, y)
    torch.testing.assert_close(per_sample, torch.vmap(torch.func.grad(lambda a, b: reference(semiring, a[None], b).sum()), (0, None))(x, y))


def test_the_operator_passes_torchs_own_checks():
    x, y = tensors((3, 4), (4, 2))
    arguments = ([x, y], "ij,jk->ik", "max_plus", "auto", "", [])
    operators.opcheck(torch.ops.tensum.einsum.default, arguments)
    plain = ([x.detach(), y.detach()], "ij,jk->ik", "sum_product", "auto", "", [])
    operators.opcheck(torch.ops.tensum.einsum.default, plain)


def test_compilation_has_no_breaks():
    def function(a, b):
        return tensum.einsum("ij,jk->ik", a.sin(), b, semiring="max_plus").relu()

    x, y = tensors((3, 4), (4, 2))
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (3, 5, 6):
        x = torch.rand(rows, 4, dtype=torch.float64, requires_grad=True)
        torch.testing.assert_close(compiled(x, y), function(x, y))
        ours = torch.autograd.grad(compiled(x, y).sum(), (x, y))
        theirs = torch.autograd.grad(function(x, y).sum(), (x, y))
        for got, expected in zip(ours, theirs):
            torch.testing.assert_close(got, expected)


def test_export_with_symbolic_sizes():
    class Module(torch.nn.Module):
        def forward(self, a, b):
            return tensum.einsum("...ij,jk->...ik", a, b, semiring="min_plus")

    x, y = tensors((3, 4), (4, 2), grad=False)
    exported = torch.export.export(Module(), (x, y), dynamic_shapes=({0: torch.export.Dim("rows")}, None))
    wider = torch.rand(7, 4, dtype=torch.float64)
    torch.testing.assert_close(exported.module()(wider, y), reference("min_plus", wider, y))
    assert any("tensum.einsum" in str(node.target) for node in exported.graph.nodes)


def test_fake_tensors_have_the_right_shapes():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x, y = torch.empty(2, 3, 4), torch.empty(4, 5)
        assert tensum.einsum("...ij,jk->k...i", x, y).shape == (5, 2, 3)
        assert tensum.einsum("bij,jk", x, y).shape == (2, 3, 5)
        assert tensum.einsum("ij,ij->i", torch.empty(1, 3), torch.empty(2, 3)).shape == (2,)
        assert tensum.einsum("jk->jkl", y, sizes={"l": 7}).shape == (4, 5, 7)


# ---- layers ----


def test_tropical_linear():
    from tensum.nn import TropicalLinear

    torch.manual_seed(1)
    for semiring in ("max_plus", "min_plus"):
        layer = TropicalLinear(5, 3, semiring=semiring, dtype=torch.float64)
        x = torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True)
        joint = x.unsqueeze(-2) + layer.weight
        expected = TROPICAL[semiring](joint)
        expected = torch.maximum(expected, layer.bias) if semiring == "max_plus" else torch.minimum(expected, layer.bias)
        torch.testing.assert_close(layer(x), expected)
        layer(x).sum().backward()
        assert layer.weight.grad.sum() == 2 * 4 * 3
    with pytest.raises(ValueError):
        TropicalLinear(2, 2, semiring="sum_product")


@pytest.mark.parametrize("semiring", ["max_plus", "min_plus"])
def test_tropical_convolution(semiring):
    from tensum.nn import TropicalConv2d

    torch.manual_seed(2)
    layer = TropicalConv2d(2, 3, 3, stride=2, padding=1, semiring=semiring, dtype=torch.float64)
    x = torch.randn(2, 2, 7, 6, dtype=torch.float64, requires_grad=True)
    got = layer(x)
    zero = -math.inf if semiring == "max_plus" else math.inf
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1), value=zero)
    expected = torch.empty_like(got)
    for row in range(got.shape[2]):
        for column in range(got.shape[3]):
            window = padded[:, :, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
            joint = window[:, None] + layer.weight
            expected[:, :, row, column] = joint.flatten(2).amax(-1) if semiring == "max_plus" else joint.flatten(2).amin(-1)
    torch.testing.assert_close(got, expected)
    ours = torch.autograd.grad(got.sum(), (x, layer.weight))
    theirs = torch.autograd.grad(expected.sum(), (x, layer.weight))
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one, other)


def test_dilation_is_scipys():
    ndimage = pytest.importorskip("scipy.ndimage", reason="SciPy is not installed")
    from tensum.nn import TropicalConv2d

    image = np.random.default_rng(3).random((9, 11))
    structure = np.random.default_rng(4).random((3, 3))
    layer = TropicalConv2d(1, 1, 3, dtype=torch.float64)
    # Dilation reads the structure mirrored, as a convolution does.
    layer.weight.data[0, 0] = torch.from_numpy(structure[::-1, ::-1].copy())
    ours = layer(torch.from_numpy(image)[None, None])[0, 0].detach().numpy()
    np.testing.assert_allclose(ours, ndimage.grey_dilation(image, structure=structure)[1:-1, 1:-1])


# ---- CUDA ----

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available() or tensum._core.device_count("cuda") == 0, reason="no CUDA device")


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_cuda_values_and_gradients(semiring):
    x, y = tensors((4, 33, 65), (4, 65, 17), grad=False)
    gx, gy = x.cuda().requires_grad_(), y.cuda().requires_grad_()
    x.requires_grad_(), y.requires_grad_()
    value = tensum.matmul(gx, gy, semiring)
    assert value.is_cuda
    expected = tensum.matmul(x, y, semiring)
    torch.testing.assert_close(value.cpu(), expected, rtol=1e-12, atol=1e-12)
    ours = torch.autograd.grad(value.sum(), (gx, gy))
    theirs = torch.autograd.grad(expected.sum(), (x, y))
    for got, wanted in zip(ours, theirs):
        torch.testing.assert_close(got.cpu(), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.gpu
@needs_cuda
def test_cuda_runs_on_the_current_stream():
    x = torch.rand(1024, 1024, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        late = x * 1.0
        for _ in range(20):
            late = late * 1.0
        value = tensum.einsum("ij,jk->ik", late, late, semiring="max_plus")
        again = tensum.einsum("ij,jk->ik", late, late, semiring="max_plus")
    torch.cuda.current_stream().wait_stream(side)
    expected = tensum.einsum("ij,jk->ik", x, x, semiring="max_plus")
    assert torch.equal(value, expected) and torch.equal(again, expected)


@pytest.mark.gpu
@needs_cuda
def test_cuda_winners_and_memory():
    x, y = torch.rand(64, 256, 256, device="cuda", requires_grad=True), torch.rand(64, 256, 256, device="cuda", requires_grad=True)
    value, winners = tensum.matmul(x, y, "max_plus", winners="int32")
    assert winners.is_cuda and winners.dtype == torch.int32
    value.sum().backward()
    assert x.grad.is_cuda and float(x.grad.sum()) == value.numel()


@pytest.mark.gpu
@needs_cuda
def test_devices_are_not_mixed():
    with pytest.raises(RuntimeError, match="cuda:0.*cpu|cpu.*cuda:0"):
        tensum.einsum("ij,jk->ik", torch.eye(3), torch.eye(3, device="cuda"))


@pytest.mark.gpu
@needs_cuda
def test_cuda_dlpack_and_interface():
    x = torch.rand(5, 6, device="cuda")
    ours = tensum.from_dlpack(x)
    assert ours.device == "cuda:0" and ours.__dlpack_device__() == (2, 0)
    theirs = torch.from_dlpack(ours)
    assert theirs.data_ptr() == x.data_ptr() and torch.equal(theirs, x)
    result = tensum.einsum("ij->ji", ours)
    assert isinstance(result, tensum.Array) and torch.equal(torch.from_dlpack(result), x.T)
    assert result.__cuda_array_interface__["version"] == 3
    with pytest.raises(ValueError, match="stream"):
        ours.__dlpack__(stream=0)


# ---- plans of several steps keep what their backward pass needs ----

CHAIN = "ab,bc,cd->ad"


def chain(seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((5, 6), (6, 7), (7, 4))
    return [torch.randn(shape, dtype=dtype, generator=generator).requires_grad_() for shape in shapes]


def cube(semiring, a, b, c):
    """The chain by PyTorch alone, from all of its terms."""
    if semiring in ("sum_product", "max_times"):
        terms = a[:, :, None, None] * b[None, :, :, None] * c
    else:
        terms = a[:, :, None, None] + b[None, :, :, None] + c
    if semiring == "sum_product":
        return terms.sum((1, 2))
    return terms.logsumexp((1, 2)) if semiring == "log_sum_exp" else terms.amax((1, 2))


CALLS = {
    "einsum": lambda semiring: lambda *xs: tensum.einsum(CHAIN, *xs, semiring=semiring),
    "a path": lambda semiring: lambda *xs: tensum.einsum(CHAIN, *xs, semiring=semiring, optimize=[(1, 2), (0, 1)]),
    "a plan": lambda semiring: tensum.Plan(CHAIN, (5, 6), (6, 7), (7, 4), semiring=semiring),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("semiring", ["sum_product", "max_plus", "max_times", "log_sum_exp"])
def test_live_forward_passes_of_one_plan_do_not_disturb_each_other(semiring, call):
    function = CALLS[call](semiring)
    inputs = [[x.detach().abs().requires_grad_() for x in chain(seed)] for seed in range(7)]
    values = [function(*xs) for xs in inputs]
    for index in (3, 0, 6, 1, 5, 2, 4):
        seed = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(index))
        slopes = torch.autograd.grad(values[index], inputs[index], seed)
        theirs = torch.autograd.grad(cube(semiring, *inputs[index]), inputs[index], seed)
        for got, wanted in zip(slopes, theirs):
            torch.testing.assert_close(got, wanted)
        # The value itself stays as it was.
        torch.testing.assert_close(values[index], cube(semiring, *inputs[index]))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("semiring", ["sum_product", "max_plus", "log_sum_exp"])
def test_a_kept_graph_serves_again_and_a_released_one_does_not(semiring, call):
    function, xs = CALLS[call](semiring), chain(1)
    value = function(*xs)
    ones, twos = torch.ones_like(value), torch.full_like(value, 2)
    first = torch.autograd.grad(value, xs, ones, retain_graph=True)
    function(*chain(2))  # others come and go
    again = torch.autograd.grad(value, xs, twos)
    for one, two, wanted in zip(first, again, torch.autograd.grad(cube(semiring, *xs), xs, ones)):
        torch.testing.assert_close(one, wanted)
        torch.testing.assert_close(two, 2 * wanted)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(value, xs, ones)


def test_the_backward_pass_of_several_steps_does_not_run_the_forward_pass():
    """What the run has kept decides, not the operands: a saved operand that comes back changed changes nothing."""
    xs = chain(3)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: torch.zeros_like(x)):
        slopes = torch.autograd.grad(tensum.einsum(CHAIN, *xs, semiring="max_plus").sum(), xs)
    for got, wanted in zip(slopes, torch.autograd.grad(cube("max_plus", *xs).sum(), xs)):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_kept_half_precision(dtype):
    xs = [x.detach().to(dtype).requires_grad_() for x in chain(4)]
    value = tensum.einsum(CHAIN, *xs, semiring="max_plus")
    slopes = torch.autograd.grad(value.sum(), xs)
    _, expected = tensum.Plan(CHAIN, *xs, semiring="max_plus").gradient(*xs)
    for got, wanted, x in zip(slopes, expected, xs):
        assert got.dtype == dtype
        torch.testing.assert_close(got, wanted.to(dtype))


def test_what_was_changed_in_place_is_noticed():
    xs = [x * 1 for x in chain(5)]
    value = tensum.einsum(CHAIN, *xs, semiring="max_plus")
    with torch.no_grad():
        xs[1] += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.sum().backward()


def test_plans_with_slices_run_once_more():
    xs = chain(6)
    tree = tensum.Plan(CHAIN, *xs)._tree.with_slices([ord("b")])
    value = tensum.einsum(CHAIN, *xs, semiring="max_plus", optimize=tree)
    slopes = torch.autograd.grad(value.sum(), xs)
    for got, wanted in zip(slopes, torch.autograd.grad(cube("max_plus", *xs).sum(), xs)):
        torch.testing.assert_close(got, wanted)


def test_memory_of_a_forward_pass_goes_with_its_graph():
    import resource

    side = 400
    xs = [torch.randn(side, side).requires_grad_() for _ in range(6)]
    kept = []
    before = None
    for step in range(60):
        value = tensum.einsum("ab,bc,cd,de,ef,fg->ag", *xs, semiring="max_plus")
        torch.autograd.grad(value.sum(), xs)
        kept.append(value)  # the value lives on, what its gradients needed does not
        if step == 9:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < (50 + 15) * side * side * 4, grown / (side * side * 4)
