"""Worker processes: how many, that they end with the process that they work for, and work with one thread."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


def n_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def serve(parent: int) -> None:
    """Make this process a worker of another: it leaves Ctrl-C to that one, and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the main process ends the others
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread inside a ``with`` block, in PyTorch and in the libraries behind numpy and scipy.

    Sums of floats depend in their last bits on how they are split among threads. PyTorch's own limit leaves OpenBLAS
    alone, and that of threadpoolctl leaves PyTorch's MKL alone; so both are set, and restored afterwards. A library
    that is loaded inside the block for the first time is not limited.
    """
    import torch
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _end_with(parent: int) -> None:
    """Leave no orphan behind when the main process is killed."""
    while os.name != "posix" or os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
