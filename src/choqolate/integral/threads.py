"""Threads that each compute on one core.

The operations of an integral are too thin for PyTorch to split well: waking its threads costs more than they bring. Whole
parts of the work side by side are faster than one part on all cores.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

S = TypeVar("S")
T = TypeVar("T")

_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_lock = threading.Lock()
_own = threading.local()


def on_one_core_each(task: Callable[[S], T], shares: Sequence[S]) -> list[T]:
    """The task on every share, each in a thread of its own that runs PyTorch operations on one core.

    The number of intra-operation threads of the calling program stays as it was. Shares are dealt out by the caller, so
    results do not depend on which thread is quick.
    """
    if torch.get_num_threads() == 1 and len(shares) == 1:
        return [task(shares[0])]
    return list(_pool_of(len(shares)).map(task, shares))


def workspace(size: int, like: Tensor) -> Tensor:
    """A flat buffer of this thread's own, kept for the next time: fresh pages would cost as much as filling them."""
    if like.is_cuda:
        return like.new_empty(size)
    buffers = _own.__dict__
    name = str(like.dtype)
    if name not in buffers or len(buffers[name]) < size:
        buffers[name] = torch.empty(size, dtype=like.dtype)
    buffer: Tensor = buffers[name][:size]
    return buffer


def _pool_of(size: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size < size:
            threads = torch.get_num_threads()
            _pool, _pool_size = ThreadPoolExecutor(size, "choquet"), size
            barrier = threading.Barrier(size)

            def settle(_: int) -> None:
                barrier.wait()  # every thread takes one
                torch.set_num_threads(1)

            list(_pool.map(settle, range(size)))
            torch.set_num_threads(threads)  # what threads to come start with was changed along
        return _pool


def _forget() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)  # a child process has no such threads
