"""In which precision integrals are computed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

HALF = (torch.float16, torch.bfloat16)


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """A ``with`` block in which operations on tensors like ``x`` keep their precision.

    Autocasting would compute the products in half precision: sums of thousands of small weights.
    """
    if x.device.type == "meta":  # it has no autocasting
        return nullcontext()
    if not torch.compiler.is_compiling() and not torch.is_autocast_enabled(x.device.type):
        return nullcontext()  # a graph may be run under autocasting later; here there is nothing to leave out
    return torch.autocast(x.device.type, enabled=False)


def single_at_least(x: Tensor) -> Tensor:
    """``x`` in single precision where it comes in half: numbers of a few digits do not sum up."""
    return x.float() if x.dtype in HALF else x
