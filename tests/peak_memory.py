"""The highest memory of a process of its own, so that nothing of the tests counts."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

PRINT_PEAK = """
def print_peak():
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def peaks_of(script: str, *arguments: str | Path) -> list[int]:
    """Run a script that calls ``print_peak()``, and return what it printed: the highest memory so far, in kB.

    Arrow's own allocator keeps memory that is free for a while, longer on a busy machine, so the system's is used.
    """
    done = subprocess.run(
        [sys.executable, "-c", PRINT_PEAK + textwrap.dedent(script), *map(str, arguments)],
        env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
        check=True,
        capture_output=True,
        text=True,
    )
    return [int(line) for line in done.stdout.split()]
