"""What was tried to make the package lose or falsify something, and what became of it."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

LEDGER, SCALE = "CHOQOLATE_TRUST_LEDGER", "CHOQOLATE_TRUST"
KINDS = ("kills", "flips", "faults", "hostile inputs", "fuzzing")
"""What is tried, in the order of the table."""


class Entry(NamedTuple):
    """Some attempts of one kind.

    Attributes:
        kind: one of ``KINDS``.
        what: they were made at, such as ``"config.json"``.
        tried: how many.
        silent: how many gave a wrong result without a word.
        crashed: how many ended with a traceback, or an error that is not ours.
        hung: how many had to be stopped.
        seconds: that they took; of fuzzing alone.
    """

    kind: str
    what: str
    tried: int
    silent: int = 0
    crashed: int = 0
    hung: int = 0
    seconds: float = 0.0

    @property
    def survived(self) -> int:
        """Attempts after which all was as before or as wanted, or that were refused with a sentence."""
        return self.tried - self.silent - self.crashed - self.hung


def scaled(number: int) -> int:
    """A number of attempts: as it is in the tests, ten times as many with ``make trust``."""
    return number * int(os.environ.get(SCALE, "1"))


def note(
    kind: str, what: str, tried: int, *, silent: int = 0, crashed: int = 0, hung: int = 0, seconds: float = 0.0
) -> None:
    """Put attempts into the ledger of this run, if it has one. What is lost fails the test, not the ledger."""
    assert kind in KINDS, kind
    path = os.environ.get(LEDGER)
    if path is not None:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(Entry(kind, what, tried, silent, crashed, hung, seconds)) + "\n")


def table(path: Path) -> str:
    """The ledger as Markdown."""
    found: defaultdict[tuple[str, str], list[Entry]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = Entry(*json.loads(line))
        found[entry.kind, entry.what].append(entry)
    lines = [
        "| attempts | at | tried | survived | silent | tracebacks | hangs | seconds |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    total = [0] * 5
    for kind, what in sorted(found, key=lambda key: (KINDS.index(key[0]), key[1])):
        entries = found[kind, what]
        numbers = [
            sum(values)
            for values in zip(*((e.tried, e.survived, e.silent, e.crashed, e.hung) for e in entries), strict=True)
        ]
        total = [a + b for a, b in zip(total, numbers, strict=True)]
        seconds = sum(entry.seconds for entry in entries)
        lines.append(
            f"| {kind} | {what} | {' | '.join(f'{n:,}' for n in numbers)} | {f'{seconds:.0f}' if seconds else ''} |"
        )
    return "\n".join([*lines, f"| **all** | | {' | '.join(f'**{n:,}**' for n in total)} | |"])
