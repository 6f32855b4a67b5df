"""tensum: tensor networks over any semiring, contracted and differentiated.

>>> import numpy as np, tensum
>>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
>>> tensum.einsum("ij,jk->ik", a, a, semiring="max_plus")
array([[5., 6.],
       [7., 8.]])
"""

import sys as _sys

from . import _core
from ._api import (
    PathInfo,
    asarray,
    contract_path,
    device_stats,
    dtypes,
    einsum,
    info,
    matmul,
    methods,
    semirings,
    set_cutensor,
    set_threads,
    supports,
)
from ._array import Array, from_dlpack
from ._core import CancelledError, InfeasibleError, NotANumberError, cache_clear, cache_info
from ._plan import Cost, Decoded, Plan
from ._solve import Answer, front_ends, solve
from . import _backends

__version__ = _core.version()

__all__ = [
    "Answer",
    "Array",
    "CancelledError",
    "Cost",
    "Decoded",
    "InfeasibleError",
    "NotANumberError",
    "PathInfo",
    "Plan",
    "asarray",
    "cache_clear",
    "cache_info",
    "contract_path",
    "device_stats",
    "dtypes",
    "einsum",
    "from_dlpack",
    "front_ends",
    "info",
    "matmul",
    "methods",
    "semirings",
    "set_cutensor",
    "set_threads",
    "solve",
    "supports",
]

# One module per semiring: tensum.max_plus.einsum, backend="tensum.max_plus" for opt_einsum, and so on.
for _name in _core.semirings():
    globals()[_name] = _backends.module(_name)
del _name

# With PyTorch loaded, torch.compile and torch.export must find the operators; otherwise nothing of PyTorch is touched
# until a tensor comes in (or until `import tensum.torch`).
if "torch" in _sys.modules and hasattr(_sys.modules["torch"], "library"):
    from . import torch  # noqa: F401


def __getattr__(name):
    if name in ("nn", "torch"):
        import importlib

        return importlib.import_module(f"tensum.{name}")
    raise AttributeError(f"module 'tensum' has no attribute {name!r}")
