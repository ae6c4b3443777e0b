"""Warnings ignored for a while, also by several threads at a time."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_entered: list[warnings.catch_warnings] = []  # by the first block only
_open_blocks = 0


@contextmanager
def ignored_warnings() -> Iterator[None]:
    """Ignore all warnings of the process while a block runs.

    Blocks may overlap in several threads. With ``warnings.catch_warnings`` alone, the one that ends last would restore
    what it found while the others were running, and warnings would be gone for good.

    >>> with ignored_warnings():
    ...     warnings.warn("unheard")
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _open_blocks
    with _lock:
        if not _open_blocks:
            _entered.append(warnings.catch_warnings())
            _entered[0].__enter__()
            warnings.simplefilter("ignore")
        _open_blocks += 1


def _leave() -> None:
    global _open_blocks
    with _lock:
        _open_blocks -= 1
        if not _open_blocks:
            _entered.pop().__exit__(None, None, None)
