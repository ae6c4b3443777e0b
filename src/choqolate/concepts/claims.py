"""Which process works at which block, so that several that embed the same images share the work."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # a system without such locks: every process does all of the work
    fcntl = None  # type: ignore[assignment]

_DONE = b"1"
_ABANDONED_SECONDS = 3600  # without a block finished


class Claims:
    """One byte per block in one file: locked while a process works at the block, and set when it is done.

    The system gives locks back when a process ends, however it ends. Where the disk has no locks, every process does
    all of the work, and the results are the same.

    >>> import tempfile
    >>> claims = Claims(Path(tempfile.mkdtemp()), ["a.png", "b.png"], 1)
    >>> claims.take(0), claims.take(1)
    (True, True)
    >>> claims.give_back(0, done=True)
    >>> claims.take(0), claims.take(0, again=True)
    (False, True)
    >>> claims.close()
    """

    def __init__(self, folder: Path, files: Sequence[str], block_rows: int) -> None:
        content = "\0".join([str(block_rows), *files]).encode("utf-8", "surrogateescape")
        self._path = folder / f".{hashlib.sha256(content).hexdigest()[:24]}.claims"
        self._file: int | None = None
        if fcntl is not None:
            with suppress(OSError):
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)

    def take(self, number: int, *, again: bool = False) -> bool:
        """Claim a block; ``False`` if another process has it, or has finished it unless it is asked for again."""
        if self._file is None or fcntl is None:
            return True
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            self.close()
            return True
        if not again and os.pread(self._file, 1, number) == _DONE:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, number)
            return False
        return True

    def give_back(self, number: int, *, done: bool) -> None:
        """Let others have a block, and let them know whether there is anything left to do."""
        if self._file is None or fcntl is None:
            return
        with suppress(OSError):
            if done:
                os.pwrite(self._file, _DONE, number)
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, number)

    def remove(self) -> None:
        """Remove the file when all is done; a process that still has it open goes on with it."""
        self.close()
        with suppress(OSError):
            self._path.unlink()

    def close(self) -> None:
        """Give back all blocks."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def remove_abandoned(folder: Path) -> None:
    """Remove the files of processes that were killed: old ones in which nobody has a block."""
    if fcntl is None:
        return
    for path in folder.glob(".*.claims"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime < _ABANDONED_SECONDS:
                continue
            with open(path, "rb+") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error if somebody has a block
                path.unlink()
