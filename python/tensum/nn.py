"""Layers over a semiring for PyTorch.

A tropical linear layer computes, per output, the largest (or smallest) of `weight + input`: dilation and erosion of
mathematical morphology, the building block of morphological and tropical networks. Gradients go to the winners.
"""

from __future__ import annotations

import math

import torch

from . import _torch  # noqa: F401  (registers the operators)
from ._api import einsum


class TropicalLinear(torch.nn.Module):
    """y[..., o] = (+) over i of weight[o, i] (*) x[..., i], then (+) with bias[o] where there is one.

    `semiring` is "max_plus" or "min_plus"; another is a ValueError. Input [..., in_features] and weight [out_features,
    in_features] have one floating dtype and device; the output is [..., out_features].
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        semiring: str = "max_plus",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if semiring not in ("max_plus", "min_plus"):
            raise ValueError(f"semiring: expected 'max_plus' or 'min_plus', got {semiring!r}")
        self.in_features, self.out_features, self.semiring = in_features, out_features, semiring
        self.weight = torch.nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))
        self.bias = torch.nn.Parameter(torch.empty(out_features, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        # Weights of equal size let every input win at first; the bias starts out of reach, so that it costs no gradient.
        spread = 1.0 / math.sqrt(max(self.in_features, 1))
        torch.nn.init.uniform_(self.weight, -spread, spread)
        if self.bias is not None:
            torch.nn.init.constant_(self.bias, -10.0 if self.semiring == "max_plus" else 10.0)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        output = einsum("...i,oi->...o", input, self.weight, semiring=self.semiring)
        if self.bias is None:
            return output
        return torch.maximum(output, self.bias) if self.semiring == "max_plus" else torch.minimum(output, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}, semiring={self.semiring!r}"


class TropicalConv2d(torch.nn.Module):
    """y[n, o, p, q] = (+) over c, r, s of weight[o, c, r, s] (*) x[n, c, p * stride + r, q * stride + s].

    The windows are a strided view of the input: they are not copied out. Borders are padded with the semiring's zero, which
    never wins. Input [n, in_channels, height, width], weight [out_channels, in_channels, *kernel_size]; sizes, strides and padding
    are one number or (rows, columns). With one input and one output channel this is grey-scale dilation (max_plus) or erosion (min_plus).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        semiring: str = "max_plus",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if semiring not in ("max_plus", "min_plus"):
            raise ValueError(f"semiring: expected 'max_plus' or 'min_plus', got {semiring!r}")
        self.in_channels, self.out_channels, self.semiring = in_channels, out_channels, semiring
        self.kernel_size, self.stride, self.padding = _pair(kernel_size), _pair(stride), _pair(padding)
        self.weight = torch.nn.Parameter(torch.empty(out_channels, in_channels, *self.kernel_size, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        spread = 1.0 / math.sqrt(max(self.in_channels * self.kernel_size[0] * self.kernel_size[1], 1))
        torch.nn.init.uniform_(self.weight, -spread, spread)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        zero = -math.inf if self.semiring == "max_plus" else math.inf
        if any(self.padding):
            rows, columns = self.padding
            input = torch.nn.functional.pad(input, (columns, columns, rows, rows), value=zero)
        windows = input.unfold(-2, self.kernel_size[0], self.stride[0]).unfold(-2, self.kernel_size[1], self.stride[1])
        return einsum("ncpqrs,ocrs->nopq", windows, self.weight, semiring=self.semiring)

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}, semiring={self.semiring!r}"
        )


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    first, second = value
    return first, second
