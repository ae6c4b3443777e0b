"""What this installation computes with."""

from __future__ import annotations

import platform
from typing import Literal, overload

import torch

from choqolate import __version__
from choqolate.errors import ChoqolateError
from choqolate.integral.native import NativeStatus, native_status


@overload
def show_config(mode: Literal["stdout"] = "stdout") -> None: ...
@overload
def show_config(mode: Literal["dict"]) -> dict[str, str]: ...


def show_config(mode: str = "stdout") -> dict[str, str] | None:
    """Show versions, threads, and which kernel computes Choquet integrals on the CPU, and why.

    Args:
        mode: ``"stdout"`` prints, ``"dict"`` returns the same as a dictionary.

    >>> sorted(show_config("dict"))
    ['OpenMP', 'PyTorch', 'Python', 'choqolate', 'kernel', 'threads']
    """
    if mode not in ("stdout", "dict"):
        raise ChoqolateError(f"Expected mode to be 'stdout' or 'dict', got {mode!r}.")
    status = native_status()
    facts = {
        "choqolate": __version__,
        "Python": platform.python_version(),
        "PyTorch": str(torch.__version__),
        "threads": str(torch.get_num_threads()),
        "kernel": _kernel(status),
        "OpenMP": _openmp(status),
    }
    if mode == "dict":
        return facts
    width = max(map(len, facts))
    print("\n".join(f"{name:<{width}}  {fact}" for name, fact in facts.items()))
    return None


def _kernel(status: NativeStatus) -> str:
    if status.in_use:
        return f"native ({status.variant}), {status.reason}"
    return f"PyTorch operations; the native kernel is not in use: {status.reason}"


def _openmp(status: NativeStatus) -> str:
    if not status.in_use:
        return "PyTorch's own"
    if not status.openmp:
        return "none: the native kernel was compiled without it and uses one thread"
    if status.shares_threads is None:
        return "in use; whether its threads are shared with PyTorch is unknown"
    return "shared with PyTorch" if status.shares_threads else "a second copy, which does not share PyTorch's threads"
