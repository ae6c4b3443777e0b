"""Progress bars: on a terminal only, and only where asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def epoch_bar(total: int, label: str, *, enabled: bool) -> Iterator[Callable[[int, float], None] | None]:
    """A bar over epochs that shows the loss; yields the function to call after each, or ``None``."""
    if not shows_bars(enabled):
        yield None
        return
    with _bar("{task.fields[loss]}") as progress:
        task = progress.add_task(label, total=total, loss="")
        yield lambda epoch, loss: progress.update(task, completed=epoch + 1, loss=f"loss {loss:.4f}")


@contextmanager
def item_bar(total: int, label: str, *, enabled: bool) -> Iterator[Callable[[int], None]]:
    """A bar over items that shows their rate and the time left; yields the function to call with how many more."""
    if not shows_bars(enabled):
        yield lambda items: None
        return
    with _bar("{task.fields[rate]}") as progress:
        task = progress.add_task(label, total=total, rate="")

        def advance(items: int) -> None:
            progress.update(task, advance=items)
            speed = progress.tasks[0].speed
            if speed:
                progress.update(task, rate=f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s")

        yield advance


def shows_bars(enabled: bool = True) -> bool:
    """Whether bars are drawn: lines that are printed meanwhile would run into them."""
    return enabled and sys.stderr.isatty()


def _bar(detail: str) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),  # a sign of life between two steps
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(detail),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
