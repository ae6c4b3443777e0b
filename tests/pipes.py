"""Named pipes that nobody writes to: whoever opens one waits for ever."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SECONDS = 10

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")


@contextmanager
def pipe_at(path: Path) -> Iterator[Path]:
    """A pipe in place of a file; whatever waits for it fails after a while."""

    def fail(*_: object) -> None:
        raise AssertionError(f"{path.name} was opened")

    path.unlink(missing_ok=True)
    os.mkfifo(path)
    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(_SECONDS)
    try:
        yield path
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
