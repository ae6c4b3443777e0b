"""How much memory there is left."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from choqolate._util.text import as_size
from choqolate.errors import ChoqolateError

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = ("memory.max", "memory.current", "inactive_file")


def available_memory() -> int | None:
    """Bytes that can still be taken without swapping, within all limits of a container or job; ``None`` if unknown."""
    found = [_system_memory(), *(_left_in_group(*group) for group in _control_groups())]
    return min((amount for amount in found if amount is not None), default=None)


def check_memory(path: object, needed: float, otherwise: str = "Use a machine with more memory.") -> None:
    """Find out before memory is taken whether there is enough of it for what a file holds.

    Args:
        path: of the file.
        needed: bytes.
        otherwise: what to do, a sentence.

    Raises:
        ChoqolateError: if there is less, with what is free.
    """
    free = available_memory()
    if free is not None and needed > free:
        raise ChoqolateError(f"{path} needs {as_size(needed)} of memory, but {as_size(free)} are free. {otherwise}")


@contextmanager
def naming_memory(path: object, otherwise: str = "Use a machine with more memory.") -> Iterator[None]:
    """Turn a lack of memory into a sentence that names the file that needs it.

    Args:
        path: of the file.
        otherwise: what to do, a sentence.

    Raises:
        ChoqolateError: if memory runs out.
    """
    try:
        yield
    except (MemoryError, OSError) as error:
        if not is_lack_of_memory(error):
            raise
        raise ChoqolateError(lack_of_memory(error, f" for {path}", otherwise)) from error


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is no memory left: Python, the system and PyTorch each have their own."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "allocate memory" in str(error))


def lack_of_memory(error: BaseException, where: str = "", otherwise: str = "Use a machine with more memory.") -> str:
    """What to say of such an error: what was needed, as far as it tells, and what is free."""
    free, reason = available_memory(), f" ({error})" if str(error) else ""
    left = "" if free is None else f", {as_size(free)} are free"
    return f"There is not enough memory{where}{left}{reason}. {otherwise}"


def _system_memory() -> int | None:
    with suppress(OSError, KeyError, ValueError):
        return _numbers(Path("/proc/meminfo"))["MemAvailable:"] * 1024
    with suppress(AttributeError, OSError, ValueError):  # elsewhere half of all memory is a fair guess
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return None


def _control_groups() -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """The control groups of this process and those above them, each with the names of its files.

    A container may see its own group as the topmost one under another name, so that those between are not there.
    """
    lines = ["0::/"]
    with suppress(OSError):
        lines = _OWN_GROUPS.read_text().splitlines()
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, own = rest.partition(":")
        group = PurePosixPath(own.lstrip("/"))
        for place in (group, *group.parents):
            if number == "0":
                yield _CONTROL_GROUPS / place, _VERSION_2
            elif "memory" in controllers.split(","):
                yield _CONTROL_GROUPS / "memory" / place, _VERSION_1


def _left_in_group(folder: Path, names: tuple[str, str, str]) -> int | None:
    """What the limit of a group leaves, if it has one; file pages that can be dropped at any time count as free."""
    limit, used, droppable = names
    with suppress(OSError, KeyError, ValueError):
        left = int((folder / limit).read_text()) - int((folder / used).read_text())
        return max(0, left + _numbers(folder / "memory.stat")[droppable])
    return None


def _numbers(path: Path) -> dict[str, int]:
    """The first two words of each line of a file: a name and a number."""
    return {words[0]: int(words[1]) for line in path.read_text().splitlines() if len(words := line.split()) > 1}
