"""Tensors that are kept between calls, and never while a graph is traced or a function transformed.

Under ``torch.export``, ``torch.compile`` or a fake-tensor mode, tensors are symbols without numbers. One of these kept
for an eager call would give wrong numbers without an error, and a kept real one does not belong in a graph. Under
``torch.func``, tensors belong to the transform that makes them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from choqolate.integral.operator_registration import transforms_active

P = ParamSpec("P")
R = TypeVar("R")

_buffers = threading.local()
_MOST_KEPT = 1 << 24  # numbers


def is_tracing() -> bool:
    """Whether tensors made now may be symbols of a graph, or parts of a transform."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or transforms_active():
        return True
    return type(torch.empty(0)) is not Tensor  # a dispatch mode, such as that of fake tensors, makes others


def kept(maxsize: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Remember the results of a function that makes tensors from plain arguments, except while tracing."""

    def decorate(make: Callable[P, R]) -> Callable[P, R]:
        @lru_cache(maxsize)
        @torch.inference_mode(False)  # what is kept must serve training as well
        def remembered(*args: P.args, **kwargs: P.kwargs) -> R:
            return make(*args, **kwargs)

        @wraps(make)
        def get(*args: P.args, **kwargs: P.kwargs) -> R:
            return make(*args, **kwargs) if is_tracing() else remembered(*args, **kwargs)  # type: ignore[arg-type]

        return get

    return decorate


def workspace(size: int, like: Tensor) -> Tensor:
    """A flat buffer, on a CPU kept for the next time: fresh pages from the system cost as much as filling them."""
    if like.device.type != "cpu" or is_tracing() or size > _MOST_KEPT:
        return like.new_empty(size)
    buffers, name = _buffers.__dict__, str(like.dtype)
    if name not in buffers or len(buffers[name]) < size:
        with torch.inference_mode(False):
            buffers[name] = torch.empty(size, dtype=like.dtype, device=like.device)
    buffer: Tensor = buffers[name]
    return buffer
