"""Decoding in worker processes, in order, with a bounded number of images in memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import Any

from choqolate._util.processes import serve
from choqolate.concepts.preprocessing import ImageTransform, Prepared, prepare

_TASK = 8  # images handed to a worker at a time
_NICENESS = 10  # decoding gives way to an encoder that wants the same cores
_CRASHED = "its decoder crashed, or was stopped for lack of memory"

_known: Collection[bytes] = frozenset()


@contextmanager
def preparing(
    paths: Iterable[str],
    transform: ImageTransform,
    known: Collection[bytes],
    *,
    workers: int,
    ahead: int,
    isolated: bool = False,
) -> Iterator[Iterator[Prepared]]:
    """Prepare files in order, from the moment on that the block is entered.

    Args:
        paths: the files; they are asked for shortly before they are read.
        transform: what the encoder takes.
        known: digests of contents whose pixels are not wanted.
        workers: number of processes; 0 decodes in this one.
        ahead: number of images to decode ahead of their use.
        isolated: start processes even for a few files, so that one that crashes its decoder does not end this one.
    """
    remaining = iter(paths)
    first = list(islice(remaining, _TASK + 1)) if workers else []
    if len(first) <= _TASK and not isolated:
        yield (prepare([path], transform, known.__contains__)[0] for path in chain(first, remaining))
        return
    pool = _Pool(chain(first, remaining), transform, known, workers, window=max(2 * workers, -(-ahead // _TASK)))
    try:
        pool.fill()
        yield pool.results()
    finally:
        pool.stop()


@contextmanager
def preparing_in_threads(
    paths: Iterable[str], transform: ImageTransform, n_threads: int, *, ahead: int
) -> Iterator[Iterator[Prepared]]:
    """Prepare files in order as :func:`preparing` does, but in threads; a file that crashes a decoder crashes all."""
    if n_threads == 0:
        yield (_prepare_one(path, transform) for path in paths)
        return
    waiting = iter(paths)
    with ThreadPoolExecutor(n_threads) as executor:
        running = deque(executor.submit(_prepare_one, path, transform) for path in islice(waiting, ahead))

        def results() -> Iterator[Prepared]:
            while running:
                item = running.popleft().result()
                running.extend(executor.submit(_prepare_one, path, transform) for path in islice(waiting, 1))
                yield item

        try:
            yield results()
        finally:
            executor.shutdown(cancel_futures=True)


def _prepare_one(path: str, transform: ImageTransform) -> Prepared:
    return prepare([path], transform, lambda _: False)[0]


class _Pool:
    """Worker processes that start clean, neither forked nor with the caller's main module, and can be replaced."""

    def __init__(
        self, paths: Iterable[str], transform: ImageTransform, known: Collection[bytes], workers: int, window: int
    ) -> None:
        self._tasks = _tasks(paths)
        self._waiting: deque[Sequence[str]] = deque()  # tasks that have to be done again
        self._running: deque[tuple[Sequence[str], Future[list[Prepared]]]] = deque()
        self._transform, self._known = transform, known
        self._workers, self._window = workers, window
        self._executor = self._start()

    def fill(self) -> None:
        """Hand out as many tasks as may be under way."""
        while len(self._running) < self._window:
            task = self._waiting.popleft() if self._waiting else next(self._tasks, None)
            if task is None:
                break
            self._running.append((task, self._submit(task)))

    def results(self) -> Iterator[Prepared]:
        """What became of each file, in order."""
        while self._running:
            task, future = self._running.popleft()
            try:
                yield from future.result()
            except BrokenExecutor:
                # One file brought its process down and all tasks with it: find it among the files of this task, one
                # at a time, and start the other tasks again.
                self._waiting.extendleft(task for task, _ in reversed(self._running))
                self._running.clear()
                yield from self._one_by_one(task)
            self.fill()

    def _one_by_one(self, task: Sequence[str]) -> Iterator[Prepared]:
        self._restart()
        for path in task:
            try:
                yield from self._submit([path]).result()
            except BrokenExecutor:
                self._restart()
                yield Prepared(error=_CRASHED)

    def _submit(self, task: Sequence[str]) -> Future[list[Prepared]]:
        try:
            future: Future[list[Prepared]] = self._executor.submit(_prepare_task, list(task), self._transform)
        except BrokenExecutor as error:  # noticed here rather than with the result
            future = Future()
            future.set_exception(error)
        return future

    def _start(self) -> Any:
        from joblib.externals.loky.process_executor import ProcessPoolExecutor

        return ProcessPoolExecutor(
            self._workers, initializer=_become_worker, initargs=(os.getpid(), self._known), timeout=300
        )

    def _restart(self) -> None:
        self._executor.shutdown(wait=True)
        self._executor = self._start()

    def stop(self) -> None:
        """Let the workers finish what they are at, and end them."""
        for _, future in self._running:
            future.cancel()
        self._executor.shutdown(wait=True)


def _tasks(paths: Iterable[str]) -> Iterator[Sequence[str]]:
    """Paths in portions, each collected when it is asked for."""
    remaining = iter(paths)
    while task := list(islice(remaining, _TASK)):
        yield task


def _become_worker(parent: int, known: Collection[bytes]) -> None:
    global _known
    serve(parent)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)  # decoders in C complain of damaged files there, which are reported anyway
    _known = known
    with suppress(OSError, AttributeError):
        os.nice(_NICENESS)


def _prepare_task(paths: Sequence[str], transform: ImageTransform) -> list[Prepared]:
    return prepare(paths, transform, _known.__contains__)
