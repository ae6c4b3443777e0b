"""Progress on stderr, where it is asked for: a bar on a terminal, and elsewhere a line from time to time."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from choqolate._util.text import duration

LINE_SECONDS = 30.0  # of silence before a line, where there is no terminal: short work stays quiet
_GAP_SECONDS = 5.0  # between two steps of one work


@contextmanager
def epoch_bar(total: int, label: str, *, enabled: bool) -> Iterator[Callable[[float, float | None], None] | None]:
    """Progress over epochs that shows the loss; yields the function that takes how many are done, or ``None``.

    Its first argument may be a fraction, so that a bar moves within an epoch; the second is the loss, or ``None`` to
    leave that as it is.
    """
    if not enabled:
        yield None
    elif not shows_bars():
        with _lines(_Work(total, label, "epochs")) as state:

            def note(done: float, loss: float | None) -> None:
                state.done = done
                if loss is not None:
                    state.detail = f", loss {loss:.4f}"

            yield note
    else:
        with _bar("{task.fields[loss]}") as progress:
            task = progress.add_task(label, total=total, loss="")

            def show(done: float, loss: float | None) -> None:
                progress.update(task, completed=done, **({} if loss is None else {"loss": f"loss {loss:.4f}"}))

            yield show


@contextmanager
def item_bar(total: int, label: str, *, enabled: bool, items: str = "") -> Iterator[Callable[[int], None]]:
    """Progress over items, with the time left; yields the function to call with how many more are done.

    Args:
        total: number of items; 1 for a step that cannot say how far it is.
        label: what is done.
        enabled: whether anything is shown.
        items: what is counted, such as ``"images"``.
    """
    if not enabled:
        yield lambda more: None
    elif not shows_bars():
        with _lines(_Work(total, label, items)) as state:

            def note(more: int) -> None:
                state.done += more

            yield note
    else:
        with _bar("{task.fields[rate]}") as progress:
            task = progress.add_task(label, total=total, rate="")

            def advance(more: int) -> None:
                progress.update(task, advance=more)
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


# ---------------------------------------------------------------------- lines


class _Work:
    """How far a work is, in words."""

    def __init__(self, total: int, label: str, items: str) -> None:
        self.done, self.detail = 0.0, ""
        self._total, self._label, self._items = total, label, f" {items}" if items else ""
        self._started = time.monotonic()
        self._before = (0.0, self._started)  # what was done, and when that was said

    def line(self) -> str:
        now = time.monotonic()
        if self._total <= 1:
            return f"{self._label}: {duration(now - self._started)} so far"
        done, (earlier, then) = self.done, self._before
        self._before = done, now
        left = ""
        if earlier < done < self._total:  # at the latest rate: what was done before may not have cost anything
            left = f", {duration((self._total - done) * (now - then) / (done - earlier))} left"
        return f"{self._label}: {int(done):,} of {self._total:,}{self._items}{self.detail}{left}"


class _Silence:
    """How long nothing was said: steps that follow each other soon, or lie in each other, share a line."""

    def __init__(self) -> None:
        self._lock, self._running = threading.Lock(), 0
        self._since = self._ended = -math.inf

    def begin(self) -> None:
        with self._lock:
            now = time.monotonic()
            if not self._running and now - self._ended > _GAP_SECONDS:
                self._since = now
            self._running += 1

    def end(self) -> None:
        with self._lock:
            self._running -= 1
            self._ended = time.monotonic()

    def left(self) -> float:
        """Seconds until it is time for a line."""
        return max(0.0, self._since + LINE_SECONDS - time.monotonic())

    def breaks(self) -> bool:
        """Whether it is time for a line; if so, the silence begins again."""
        with self._lock:
            is_time = not self.left()
            if is_time:
                self._since = time.monotonic()
            return is_time


_silence = _Silence()


@contextmanager
def _lines(state: _Work) -> Iterator[_Work]:
    """Say from a thread how far a work is, also while one of its steps takes long."""
    over = threading.Event()

    def speak() -> None:
        while not over.wait(_silence.left()):
            if _silence.breaks():
                with suppress(OSError, ValueError):  # nobody listens any more
                    print(state.line(), file=sys.stderr, flush=True)

    speaker = threading.Thread(target=speak, daemon=True)
    _silence.begin()
    speaker.start()
    try:
        yield state
    finally:
        over.set()
        speaker.join()
        _silence.end()
