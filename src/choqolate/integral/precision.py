"""In which precision integrals are computed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """A ``with`` block in which operations on tensors like ``x`` keep their precision.

    Autocasting would compute the products in half precision: sums of thousands of small weights.
    """
    if x.device.type == "meta":  # it has no autocasting
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)
