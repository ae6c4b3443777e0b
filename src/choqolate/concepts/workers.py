"""Decoding in worker processes, in order, with a bounded number of pictures in memory."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Collection, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from typing import Any

from choqolate.concepts.images import ImageTransform, Prepared, prepare

_TASK = 8  # pictures handed to a worker at a time
_NICENESS = 5  # decoding gives way to the encoder where both want the same core
_CRASHED = "its decoder crashed, or was stopped for lack of memory"

_Running = deque[tuple[Sequence[str], "Future[list[Prepared]]"]]

_known: Collection[bytes] = frozenset()


def prepare_all(
    paths: Sequence[str],
    transform: ImageTransform,
    known: Collection[bytes],
    *,
    workers: int,
    ahead: int,
) -> Generator[Prepared]:
    """Prepare files in order; ``workers=0`` decodes in this process.

    Args:
        paths: the files.
        transform: what the encoder takes.
        known: digests of contents whose pixels are not wanted.
        workers: number of processes.
        ahead: number of pictures to decode ahead of their use.
    """
    if workers == 0 or len(paths) <= _TASK:
        for path in paths:
            yield from prepare([path], transform, known.__contains__)
        return
    tasks = [paths[start : start + _TASK] for start in range(0, len(paths), _TASK)]
    pool = _Pool(workers, known)
    running: _Running = deque()
    try:
        yield from _in_order(pool, tasks, transform, max(2 * workers, -(-ahead // _TASK)), running)
    finally:
        for _, future in running:
            future.cancel()
        pool.stop()


def _in_order(
    pool: _Pool, tasks: Sequence[Sequence[str]], transform: ImageTransform, window: int, running: _Running
) -> Iterator[Prepared]:
    upcoming = iter(tasks)
    while True:
        while len(running) < window and (task := next(upcoming, None)) is not None:
            running.append((task, pool.submit(task, transform)))
        if not running:
            return
        task, future = running.popleft()
        try:
            yield from future.result()
        except BrokenExecutor:
            # One file brought its process down and all tasks with it: find it among the files of this task, one at a
            # time, then start the other tasks anew.
            pool.restart()
            again = [task for task, _ in running]
            yield from _one_by_one(pool, task, transform)
            running.clear()
            running.extend((task, pool.submit(task, transform)) for task in again)


def _one_by_one(pool: _Pool, task: Sequence[str], transform: ImageTransform) -> Iterator[Prepared]:
    for path in task:
        try:
            yield from pool.submit([path], transform).result()
        except BrokenExecutor:
            pool.restart()
            yield Prepared(error=_CRASHED)


class _Pool:
    """Worker processes that start clean (neither forked nor with the caller's main module) and can be replaced."""

    def __init__(self, workers: int, known: Collection[bytes]) -> None:
        self._workers, self._known = workers, known
        self._executor = self._start()

    def _start(self) -> Any:
        from joblib.externals.loky.process_executor import ProcessPoolExecutor

        return ProcessPoolExecutor(
            self._workers, initializer=_become_worker, initargs=(os.getpid(), self._known), timeout=300
        )

    def submit(self, task: Sequence[str], transform: ImageTransform) -> Future[list[Prepared]]:
        for _ in range(2):
            try:
                future: Future[list[Prepared]] = self._executor.submit(_prepare_task, list(task), transform)
                return future
            except BrokenExecutor:
                self.restart()
        raise RuntimeError("worker processes end as soon as they start: try workers=0")

    def restart(self) -> None:
        self.stop()
        self._executor = self._start()

    def stop(self) -> None:
        self._executor.shutdown(wait=True)


def _become_worker(parent: int, known: Collection[bytes]) -> None:
    global _known
    _known = known
    with suppress(OSError, AttributeError):
        os.nice(_NICENESS)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """Leave no orphan behind when the main process is killed."""
    while os.name != "posix" or os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _prepare_task(paths: Sequence[str], transform: ImageTransform) -> list[Prepared]:
    return prepare(paths, transform, _known.__contains__)
