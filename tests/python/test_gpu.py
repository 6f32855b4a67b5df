"""On a GPU: nothing visits the host, arrays of every library stay where they are, and what it costs."""

import numpy as np
import pytest
import tensum

from conftest import ALGEBRA

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(tensum._core.device_count("cuda") == 0, reason="no CUDA device"),
]


def transfers():
    stats = tensum.device_stats("cuda:0")
    return stats["uploads"], stats["downloads"]


def host(left, right, seed=1, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return rng.integers(-9, 10, left).astype(dtype), rng.integers(-9, 10, right).astype(dtype)


def expected(semiring, a, b):
    multiply, add = ALGEBRA[semiring][:2]
    return add(multiply(a[..., :, None, :], np.swapaxes(b, -1, -2)[..., None, :, :]))


# ---- PyTorch ----


@pytest.fixture
def torch():
    found = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not found.cuda.is_available():
        pytest.skip("PyTorch sees no CUDA device")
    return found


@pytest.mark.parametrize("semiring", ["max_plus", "sum_product", "log_sum_exp"])
@pytest.mark.parametrize("shapes", [((4, 33, 65), (4, 65, 17)), ((129, 70), (70, 40)), ((3, 1, 300), (3, 300, 1))])
def test_forward_and_backward_never_visit_the_host(torch, semiring, shapes):
    a, b = host(*shapes)
    x, y = (torch.from_numpy(array).cuda().requires_grad_() for array in (a, b))

    def step():
        value = tensum.matmul(x, y, semiring)
        return value, *torch.autograd.grad(value.sum(), (x, y))

    step()
    before = transfers()  # tables of strides travel once
    value, *slopes = step()
    assert transfers() == before
    np.testing.assert_allclose(value.detach().cpu().numpy(), expected(semiring, a, b), rtol=1e-12)
    cx, cy = (torch.from_numpy(array).requires_grad_() for array in (a, b))
    theirs = torch.autograd.grad(tensum.matmul(cx, cy, semiring).sum(), (cx, cy))
    for got, wanted in zip(slopes, theirs):
        np.testing.assert_allclose(got.cpu().numpy(), wanted.numpy(), rtol=1e-12, atol=1e-12)


def test_a_network_of_many_steps_never_visits_the_host(torch):
    rng = np.random.default_rng(2)
    arrays = [rng.integers(-9, 10, shape).astype(np.float32) for shape in ((20, 30), (30, 40), (40, 25), (25, 20))]
    tensors = [torch.from_numpy(array).cuda().requires_grad_() for array in arrays]
    plan = tensum.Plan("ab,bc,cd,de->ae", *tensors, semiring="min_plus")
    for _ in range(2):
        before = transfers()
        value = plan(*tensors)
        slopes = torch.autograd.grad(value.sum(), tensors)
    assert transfers() == before
    host_value, host_slopes = plan.gradient(*arrays)
    np.testing.assert_array_equal(value.detach().cpu().numpy(), host_value)
    for got, wanted in zip(slopes, host_slopes):
        np.testing.assert_array_equal(got.cpu().numpy(), wanted)


@pytest.mark.parametrize("semiring", ["min_plus", "sum_product", "log_sum_exp"])
@pytest.mark.parametrize("expression", ["ab,bc,cd->ad", "ab,bc,cd->"])
def test_live_forward_passes_on_the_device(torch, semiring, expression):
    rng = np.random.default_rng(4)
    hosts = [[rng.integers(-9, 10, shape).astype(np.float64) for shape in ((20, 30), (30, 40), (40, 25))] for _ in range(5)]
    inputs = [[torch.from_numpy(array).cuda().requires_grad_() for array in arrays] for arrays in hosts]
    plan = tensum.Plan(expression, *hosts[0], semiring=semiring)
    for _ in range(2):
        values = [tensum.einsum(expression, *xs, semiring=semiring) for xs in inputs]
        for index in (2, 0, 4, 1, 3):
            first = torch.autograd.grad(values[index].sum(), inputs[index], retain_graph=True)
            again = torch.autograd.grad(2 * values[index].sum(), inputs[index])
            _, wanted = plan.gradient(*hosts[index])
            for one, two, slope in zip(first, again, wanted):
                np.testing.assert_allclose(one.cpu().numpy(), slope, rtol=1e-10, atol=1e-10)
                np.testing.assert_allclose(two.cpu().numpy(), 2 * slope, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "int16"])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_winners_on_the_device(torch, dtype, kind):
    a, b = host((5, 40, 70), (5, 70, 33), dtype=dtype)
    value, winners = tensum.matmul(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda(), "max_plus", winners=kind)
    terms = a[..., :, None, :] + np.swapaxes(b, -1, -2)[..., None, :, :]
    assert winners.is_cuda and str(winners.dtype) == f"torch.{kind}"
    np.testing.assert_array_equal(winners.cpu().numpy(), terms.argmax(-1))
    np.testing.assert_array_equal(value.cpu().numpy(), terms.max(-1))


def test_second_derivatives_on_the_device(torch):
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.rand(3, 4, dtype=torch.float64, generator=generator).cuda().requires_grad_() for _ in range(2))
    for semiring in ("sum_product", "max_times", "log_sum_exp", "max_plus"):
        assert torch.autograd.gradcheck(lambda a, b: tensum.einsum("ij,kj->ik", a, b, semiring=semiring), (x, y))
        assert torch.autograd.gradgradcheck(lambda a, b: tensum.einsum("ij,kj->ik", a, b, semiring=semiring), (x, y))


def test_second_derivatives_of_several_steps_never_visit_the_host(torch):
    generator = torch.Generator().manual_seed(4)
    xs = [torch.rand(shape, dtype=torch.float64, generator=generator).cuda().requires_grad_() for shape in ((3, 4), (4, 3), (3, 2))]

    def function(*operands):
        return tensum.einsum("ab,bc,cd->ad", *operands, semiring="max_times")

    def twice():
        slopes = torch.autograd.grad(function(*xs).sum(), xs, create_graph=True)
        return torch.autograd.grad(sum((slope**2).sum() for slope in slopes), xs)

    assert torch.autograd.gradgradcheck(function, xs)
    before = transfers()
    on_device = twice()
    assert transfers() == before
    on_host = [x.detach().cpu().requires_grad_() for x in xs]
    slopes = torch.autograd.grad(function(*on_host).sum(), on_host, create_graph=True)
    for got, wanted in zip(on_device, torch.autograd.grad(sum((slope**2).sum() for slope in slopes), on_host)):
        torch.testing.assert_close(got.cpu(), wanted)


def test_memory_of_results_waits_for_other_streams(torch):
    x, y = (torch.rand(64, 64, device="cuda") for _ in range(2))
    side = torch.cuda.Stream()
    value = tensum.einsum("ij,jk->ik", x, y, semiring="max_plus")
    place = value.data_ptr()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
    value.record_stream(side)
    del value
    again = tensum.einsum("ij,jk->ik", x, y, semiring="max_plus")
    assert again.data_ptr() != place
    torch.cuda.synchronize()


def test_memory_is_inputs_outputs_and_winners(torch):
    batch, n = 16, 256
    x, y = (torch.rand(batch, n, n, device="cuda", requires_grad=True) for _ in range(2))
    one = x.numel() * 4

    def step():
        tensum.matmul(x, y, "max_plus").sum().backward()

    step()
    torch.cuda.synchronize()
    x.grad = y.grad = None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    own = tensum.device_stats()["held_bytes"]
    step()
    torch.cuda.synchronize()
    # Two inputs, the value, its winners, two gradients; the cotangent of sum() is an expanded scalar.
    assert torch.cuda.max_memory_allocated() <= 1.2 * 6 * one
    assert tensum.device_stats()["held_bytes"] == own


def test_compiled_functions_on_the_device(torch):
    import tensum.torch  # noqa: F401

    x, y = (torch.rand(6, 6, device="cuda", requires_grad=True) for _ in range(2))

    def function(a, b):
        return tensum.einsum("ij,jk->ik", a.sin(), b, semiring="max_plus").cos()

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, y), function(x, y))
    for got, wanted in zip(torch.autograd.grad(compiled(x, y).sum(), (x, y)), torch.autograd.grad(function(x, y).sum(), (x, y))):
        torch.testing.assert_close(got, wanted)


def test_two_devices_are_an_error_that_names_both(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one device")
    with pytest.raises(RuntimeError, match="cuda:1.*cuda:0|cuda:0.*cuda:1"):
        tensum.einsum("ij,jk->ik", torch.eye(3, device="cuda:0"), torch.eye(3, device="cuda:1"))
    assert tensum.einsum("ij,jk->ik", *[torch.eye(3, device="cuda:1")] * 2).device == torch.device("cuda:1")


# ---- CuPy and JAX ----


@pytest.mark.parametrize("semiring", ["max_plus", "sum_product"])
def test_cupy_comes_in_and_goes_out(semiring):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    a, b = host((3, 20, 30), (3, 30, 10))
    x, y = cupy.asarray(a), cupy.asarray(b)
    tensum.matmul(x, y, semiring)
    before = transfers()
    value = tensum.matmul(x, y, semiring)
    assert isinstance(value, cupy.ndarray) and transfers() == before
    np.testing.assert_array_equal(cupy.asnumpy(value), expected(semiring, a, b))
    # Strided views as they are; a stream of one's own; a result into one's own memory.
    side = cupy.cuda.Stream(non_blocking=True)
    with side:
        late = cupy.asarray(a)
        out = cupy.empty((3, 10, 20)).transpose(0, 2, 1)
        assert tensum.matmul(late[:, ::-1, ::2], y[:, ::2], semiring, out=out) is out
    side.synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(out), expected(semiring, a[:, ::-1, ::2], b[:, ::2]))
    if semiring == "max_plus":
        value, winners = tensum.matmul(x, y, semiring, winners="int32")
        assert isinstance(winners, cupy.ndarray) and winners.dtype == np.int32
        terms = a[..., :, None, :] + np.swapaxes(b, -1, -2)[..., None, :, :]
        np.testing.assert_array_equal(cupy.asnumpy(winners), terms.argmax(-1))
    # By the older protocol alone, from a producer that has nothing else.
    class Bare:
        __cuda_array_interface__ = x.__cuda_array_interface__
        keep = x

    again = tensum.matmul(Bare(), Bare.keep.transpose(0, 2, 1), semiring)
    assert isinstance(again, tensum.Array) and again.device == "cuda:0"
    np.testing.assert_array_equal(cupy.asnumpy(cupy.from_dlpack(again)), expected(semiring, a, np.swapaxes(a, -1, -2)))


@pytest.mark.parametrize("semiring", ["max_plus", "sum_product"])
def test_jax_comes_in_and_goes_out(semiring):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    if not any(device.platform in ("gpu", "cuda") for device in jax.devices()):
        pytest.skip("JAX sees no CUDA device")
    a, b = host((3, 20, 30), (3, 30, 10), dtype=np.float32)
    x, y = jax.numpy.asarray(a), jax.numpy.asarray(b)
    tensum.matmul(x, y, semiring)
    before = transfers()
    value = tensum.matmul(x + 0, y, semiring)
    assert transfers() == before
    assert isinstance(value, jax.Array) and value.devices() == x.devices()
    np.testing.assert_array_equal(np.asarray(value + 0), expected(semiring, a, b))
    with pytest.raises(TypeError, match="traced"):
        jax.jit(lambda z: tensum.matmul(z, y, semiring))(x)


def test_libraries_meet_on_one_device(torch):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    a, b = host((20, 30), (30, 10))
    value = tensum.matmul(torch.from_numpy(a).cuda(), cupy.asarray(b), "max_plus")
    assert isinstance(value, torch.Tensor) and value.is_cuda
    np.testing.assert_array_equal(value.cpu().numpy(), expected("max_plus", a, b))
