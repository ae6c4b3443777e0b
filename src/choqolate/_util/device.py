"""Where tensors live."""

from __future__ import annotations

import warnings

import torch

from choqolate.errors import ChoqolateError


def pick_device(device: str) -> torch.device:
    """``"auto"`` is CUDA where there is one, the CPU elsewhere."""
    if device == "auto":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a half-installed driver is no reason to speak up
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0][:80]
        raise ChoqolateError(f"device={device!r} is not to be had here ({reason} ...): use 'auto' or 'cpu'") from error
    return chosen
