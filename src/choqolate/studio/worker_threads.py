"""Work that takes a while, in threads beside the one that answers requests, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import HTTPException

from choqolate._util.ignored_warnings import ignored_warnings

P = ParamSpec("P")
R = TypeVar("R")


class WorkerThreads:
    """Runs functions in threads; what they warn of is not for the terminal of the server.

    Args:
        at_a_time: how many run at the same time.
        waiting: how many may wait; further ones are refused.
    """

    def __init__(self, at_a_time: int, waiting: int) -> None:
        self._limiter, self._waiting = CapacityLimiter(at_a_time), waiting

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Wait for the result of a function."""
        if self._limiter.statistics().tasks_waiting >= self._waiting:
            raise HTTPException(503, "The studio's server is busy. Try again in a moment.")
        return await to_thread.run_sync(partial(_run_quietly, function, *args, **kwargs), limiter=self._limiter)


def _run_quietly(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    with ignored_warnings():
        return function(*args, **kwargs)
