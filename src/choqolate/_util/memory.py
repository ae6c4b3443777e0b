"""How much memory there is left."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_CONTROL_GROUP = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Bytes that can still be taken without swapping, within the limit of a container; ``None`` if unknown."""
    found = [amount for amount in (_system_memory(), _container_memory()) if amount is not None]
    return min(found, default=None)


def _system_memory() -> int | None:
    with suppress(OSError, KeyError, ValueError):
        return _numbers(Path("/proc/meminfo"))["MemAvailable:"] * 1024
    with suppress(AttributeError, OSError, ValueError):  # elsewhere half of all memory is a fair guess
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return None


def _container_memory() -> int | None:
    """What the limit of a container leaves; file pages that can be dropped at any time count as free."""
    with suppress(OSError, KeyError, ValueError):
        limit, used = (int((_CONTROL_GROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        return max(0, limit - used + _numbers(_CONTROL_GROUP / "memory.stat")["inactive_file"])
    return None


def _numbers(path: Path) -> dict[str, int]:
    """The first two words of each line of a file: a name and a number."""
    return {words[0]: int(words[1]) for line in path.read_text().splitlines() if len(words := line.split()) > 1}
