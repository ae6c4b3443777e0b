"""Progress bars: on a terminal only, and only where asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def epoch_bar(total: int, label: str, *, enabled: bool) -> Iterator[Callable[[int, float], None] | None]:
    """A bar over epochs that shows the loss; yields the function to call after each, or ``None``."""
    if not (enabled and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total, loss=float("nan"))
        yield lambda epoch, loss: progress.update(task, completed=epoch + 1, loss=loss)
