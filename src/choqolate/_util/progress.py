"""Progress bars: on a terminal only, and only where asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def epoch_bar(total: int, label: str, *, enabled: bool) -> Iterator[Callable[[float, float | None], None] | None]:
    """A bar over epochs that shows the loss; yields the function that takes how many are done, or ``None``.

    Its first argument may be a fraction, so that the bar moves within an epoch; the second is the loss, or ``None`` to
    leave that as it is.
    """
    if not shows_bars(enabled):
        yield None
        return
    with _bar("{task.fields[loss]}") as progress:
        task = progress.add_task(label, total=total, loss="")

        def show(done: float, loss: float | None) -> None:
            progress.update(task, completed=done, **({} if loss is None else {"loss": f"loss {loss:.4f}"}))

        yield show


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
