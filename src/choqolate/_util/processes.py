"""Worker processes: how many, and that they end with the process that they work for."""

from __future__ import annotations

import os
import signal
import threading
import time


def n_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def serve(parent: int) -> None:
    """Make this process a worker of another: it leaves Ctrl-C to that one, and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the main process ends the others
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """Leave no orphan behind when the main process is killed."""
    while os.name != "posix" or os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
