"""A lock on a folder, for what takes several steps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(folder: Path, *, exclusive: bool = True) -> Iterator[bool]:
    """Wait until no other process or thread holds the lock of a folder, and hold it for the time of a block.

    The system gives it back when a process ends, however it ends, and nothing is written to the folder.

    Args:
        folder: that is there.
        exclusive: whether others may hold it at the same time, if they do not ask for this either.

    Yields:
        Whether it is held: some network disks have no locks.

    >>> import tempfile
    >>> with locked(Path(tempfile.mkdtemp())) as alone:
    ...     alone
    True
    """
    if fcntl is None:
        yield False
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            held = True
        except OSError:
            held = False
        yield held
    finally:
        os.close(handle)
