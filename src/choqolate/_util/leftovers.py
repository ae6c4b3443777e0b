"""Names for what is being written, and what killed processes left under such names."""

from __future__ import annotations

import glob
import os
import platform
import re
import secrets
import shutil
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

_STALE_SECONDS = 3600  # nothing is written for so long without a change
_LONGEST = 100  # characters of a name, so that the temporary one is not too long for the disk
_NAME = re.compile(r"\..+\.(?:(?P<machine>[0-9a-f]{8})-)?(?P<process>\d+)-[0-9a-f]+\.tmp", re.DOTALL)


def temporary_name(target: Path) -> Path:
    """A new name beside a target, which says which process writes to it.

    >>> is_leftover(temporary_name(Path("scores.parquet")))
    True
    """
    return target.with_name(f"{_stem(target)}{_machine()}-{os.getpid()}-{secrets.token_hex(4)}.tmp")


def is_leftover(path: Path) -> bool:
    """Whether something has a temporary name of ours: if nobody writes to it any more, it is safe to remove."""
    return _NAME.fullmatch(path.name) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes were writing to a folder."""
    with suppress(FileNotFoundError, NotADirectoryError):
        _remove_dead(folder.iterdir())


def remove_leftovers_of(target: Path) -> None:
    """Remove what killed processes were writing for a file or folder."""
    _remove_dead(target.parent.glob(f"{glob.escape(_stem(target))}*.tmp"))


def _stem(target: Path) -> str:
    return f".{target.name[:_LONGEST]}."


def _remove_dead(paths: Iterable[Path]) -> None:
    for path in paths:
        found = _NAME.fullmatch(path.name)
        if found is None:
            continue
        with suppress(OSError):  # another process was faster, or it is not ours to remove
            if not _is_dead(path, found["machine"], int(found["process"])):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def _is_dead(path: Path, machine: str | None, process: int) -> bool:
    """Whether the process has ended; of those of other machines, what has not changed for long counts as left."""
    if machine == _machine() and not _is_alive(process):
        return True
    return time.time() - path.lstat().st_mtime > _STALE_SECONDS


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass  # it belongs to someone else
    return True


@cache
def _machine() -> str:
    """What tells process numbers apart that several machines, or containers, give."""
    numbers = ""
    with suppress(OSError):
        numbers = os.readlink("/proc/self/ns/pid")
    return f"{zlib.crc32(f'{platform.node()} {numbers}'.encode()):08x}"
