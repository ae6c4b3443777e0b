"""Work that takes a while, in threads beside the one that answers requests, a bounded number at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

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
        self._pool = ThreadPoolExecutor(at_a_time, thread_name_prefix="choqolate studio")
        self._asked, self._most = 0, at_a_time + waiting

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Wait for the result of a function.

        Raises:
            HTTPException: if too many wait already.
        """
        if self._asked >= self._most:
            raise HTTPException(503, "The studio's server is busy. Try again in a moment.")
        self._asked += 1
        try:
            work = partial(_run_quietly, function, *args, **kwargs)
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._asked -= 1


def _run_quietly(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    with ignored_warnings():
        return function(*args, **kwargs)
