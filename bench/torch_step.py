"""Forward and backward of a batched max-plus product on PyTorch tensors: time, copies to and from the host, and memory, next to
broadcasting in PyTorch; and the host's time per call. Needs a GPU, PyTorch and the installed package.

    python bench/torch_step.py [BATCH SIDE]
    python bench/torch_step.py host     (the host's time alone; without a GPU that of tensors on the CPU)
"""

import statistics
import sys
import time

import tensum
import torch


def on_device(call, repeats=30, warm=5):
    """Median milliseconds between events around the call."""
    for _ in range(warm):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        call()
        after.record()
        after.synchronize()
        times.append(before.elapsed_time(after))
    return statistics.median(times)


def synchronize():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def on_host(call, count=1000, rounds=5):
    """Median microseconds until a call returns."""
    for _ in range(300):
        call()
    synchronize()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - began) / count * 1e6)
        synchronize()
    return statistics.median(times)


def step(function, x, y):
    x.grad = y.grad = None
    value = function(x, y)
    value.backward(torch.ones_like(value))
    return value.detach()


def product(x, y):
    return tensum.matmul(x, y, "max_plus")


def broadcast(x, y):
    return (x.unsqueeze(-1) + y.unsqueeze(-3)).amax(-2)


def broadcast_with_index(x, y):
    return (x.unsqueeze(-1) + y.unsqueeze(-3)).max(-2).values


def main():
    batch, side = (int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (64, 256)
    x, y = (torch.randint(-(10**6), 10**6, (batch, side, side), device="cuda").float().requires_grad_() for _ in range(2))
    ours = step(product, x, y)
    slopes = x.grad, y.grad
    theirs = step(broadcast_with_index, x, y)
    off = [int((one != other).sum()) for one, other in zip(slopes, (x.grad, y.grad))]
    print(f"values equal: {torch.equal(ours, theirs)}; gradient elements that differ (ties): {off} of {x.numel()}")
    del ours, theirs, slopes

    before = tensum.device_stats()
    step(product, x, y)
    after = tensum.device_stats()
    names = "uploads", "downloads", "allocations", "synchronisations", "launches"
    print("a warm step:", ", ".join(f"{name} {after[name] - before[name]}" for name in names))
    x.grad = y.grad = None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step(product, x, y)
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() / (4 * x.numel())
    print(f"peak: {peak:.2f} tensors (operands 2, value, winners, cotangent, gradients 2)")

    whole = on_device(lambda: step(product, x, y))
    with torch.no_grad():
        values, winners = on_device(lambda: product(x, y)), on_device(lambda: tensum.matmul(x, y, "max_plus", winners="int32"))
        forward = on_device(lambda: broadcast(x, y), 8, 2)
    value = product(x, y)
    ones = torch.ones_like(value)
    backward = on_device(lambda: torch.autograd.grad(value, (x, y), ones, retain_graph=True))
    print(f"step {whole:.3f} ms; forward {values:.3f}, with winners {winners:.3f}; backward {backward:.3f}")
    print(f"broadcasting forward {forward:.2f} ms: x{forward / values:.1f}")
    for name, function in (("amax", broadcast), ("max", broadcast_with_index)):
        taken = on_device(lambda: step(function, x, y), 8, 2)
        print(f"broadcasting and {name}, step {taken:.2f} ms: x{taken / whole:.1f}")


def host():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = torch.randn(8, 8, device=device), torch.randn(8, 8, device=device)
    c, d = a.clone().requires_grad_(), b.clone().requires_grad_()
    ones = torch.ones_like(a)

    def einsum(x, y):
        return tensum.einsum("ij,jk->ik", x, y, semiring="max_plus")

    for name, function in (("einsum", einsum), ("torch.matmul", torch.matmul)):
        value = function(c, d)
        for what, call in (
            ("", lambda: function(a, b)),
            (", result kept", lambda: keep(function(a, b))),
            (" recording a gradient", lambda: function(c, d)),
            (", its backward pass", lambda: torch.autograd.grad(value, (c, d), ones, retain_graph=True)),
        ):
            print(f"host, {device}, 8x8: {name}{what} {on_host(call):.2f} us")
    print(f"host, {device}, 8x8: torch.empty {on_host(lambda: torch.empty(8, 8, device=device)):.2f} us")


_kept = [None] * 16


def keep(value):
    """Memory that is not given back at once: the next result lies elsewhere."""
    _kept.append(value)
    del _kept[0]


def steps():
    """A network of several steps through autograd, whose backward pass runs in a thread of its own, beside a function that does
    nothing; and a run for the value and one for everything in this thread."""

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *operands):
            return operands[0].clone()

        @staticmethod
        def backward(ctx, cotangent):
            return (cotangent,) * 6

    for side in (16, 512):
        xs = [torch.randn(side, side, device="cuda", requires_grad=True) for _ in range(6)]
        for semiring in ("max_plus", "sum_product"):
            plan = tensum.Plan("ab,bc,cd,de,ef,fg->ag", *xs, semiring=semiring)
            ones = torch.ones(side, side, device="cuda")

            def kept():
                return torch.autograd.grad(plan(*xs), xs, ones)

            def twice():
                with torch.no_grad():
                    plan(*xs)
                    return plan.gradient(*xs, cotangent=ones)

            def nothing():
                return torch.autograd.grad(Nothing.apply(*xs), xs, ones)

            print(f"five steps of {side}^3, {semiring}: {on_device(kept):.3f} ms (nothing: {on_device(nothing):.3f}); value, then all of "
                  f"it in one thread {on_device(twice):.3f} ms; host {on_host(kept, 200):.0f} ({on_host(nothing, 200):.0f}), "
                  f"{on_host(twice, 200):.0f} us")


if __name__ == "__main__":
    if sys.argv[1:] != ["host"]:
        main()
        steps()
    host()
