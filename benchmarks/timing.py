"""Times side by side, and a row of the table that they make."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from choqolate.integral.native import without_native

Task = Callable[[], object]


class Row(NamedTuple):
    """A row of the table; ``fallback`` is the same task without the native kernel."""

    name: str
    ours: str
    other: str = ""
    ratio: str = ""
    target: str = ""
    fallback: str = ""


def seconds(task: Task, at_least: float = 0.0) -> float:
    """Time of one call, the mean over as many calls in a row as it takes to fill ``at_least`` seconds."""
    calls, start = 0, time.perf_counter()
    while not calls or time.perf_counter() - start < at_least:
        task()
        calls += 1
    return (time.perf_counter() - start) / calls


def side_by_side(*tasks: Task, rounds: int, at_least: float = 0.0) -> tuple[list[float], list[float]]:
    """Median times of all tasks, and how many times as long as the first each takes.

    The tasks take turns. A ratio is the median over the rounds, so that a busy moment of the machine, which both sides
    see, does not count.
    """
    for task in tasks:
        task()
    measured = [[seconds(task, at_least) for task in tasks] for _ in range(rounds)]
    medians = [statistics.median(column) for column in zip(*measured, strict=True)]
    ratios = [statistics.median(row[k] / row[0] for row in measured) for k in range(len(tasks))]
    return medians, ratios


def on_fallback(task: Task) -> Task:
    """The same task with PyTorch operations instead of the native kernel."""

    def run() -> None:
        with without_native():
            task()

    return run


def milliseconds(value: float) -> str:
    """A short time."""
    return f"{1e3 * value:.2f} ms" if value < 0.01 else f"{1e3 * value:.1f} ms"


def times(ratio: float) -> str:
    """A ratio."""
    return f"{ratio:.1f} x" if ratio < 100 else f"{ratio:.0f} x"
