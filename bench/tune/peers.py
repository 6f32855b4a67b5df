"""Dense products by PyTorch, beside those of packed.sh: 10^12 pairs per second, median of 9. Usage: peers.py [size ...]"""
import statistics
import sys

import torch

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
for size in [int(x) for x in sys.argv[1:]] or [4096]:
    for dtype in (torch.float32, torch.complex64, torch.float64, torch.float16, torch.bfloat16):
        a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
        out = torch.empty_like(a)
        times = []
        for i in range(12):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            torch.matmul(a, b, out=out)
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1e-3)
        seconds = statistics.median(times[3:])
        print(f"torch {dtype} {size}: {seconds * 1e3:.3f} ms {size ** 3 / seconds * 1e-12:.2f} e12/s")
