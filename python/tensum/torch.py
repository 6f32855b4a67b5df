"""Import this (or torch before tensum) so that torch.compile and torch.export see tensum's operators.

`torch.ops.tensum.einsum` is the operator behind `tensum.einsum` there.
"""

from ._api import einsum, matmul
from ._torch import Contract

__all__ = ["Contract", "einsum", "matmul"]
