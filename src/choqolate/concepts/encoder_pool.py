"""Blocks on several encoders at once, with the result of one encoder that takes them in order."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

from choqolate.concepts.blocks import Block, BlockOutcome
from choqolate.concepts.preprocessing import Prepared
from choqolate.errors import ChoqolateError

_ATTEMPTS = 4  # of a block that brings its encoder down every time
_LOOK_SECONDS = 0.2  # how often new encoders are looked for


class EncoderLost(Exception):
    """An encoder is gone, and with it what it was doing."""


class Encoder(Protocol):
    """A :class:`~choqolate.concepts.blocks.BlockEncoder` in another process.

    Futures raise :class:`EncoderLost` if that process is gone.
    """

    def identify(self, files: list[str]) -> Future[list[Prepared]]: ...

    def encode(self, files: list[str], careful: bool) -> Future[BlockOutcome]: ...


class Encoders(Protocol):
    """Encoders that come and go.

    Attributes:
        depth: number of blocks that an encoder may have under way.
    """

    depth: int

    def ready(self) -> Sequence[Encoder]:
        """Those that can be given work now."""

    def replace(self, encoder: Encoder) -> None:
        """See to another one for one that is lost, or raise an error."""


@dataclass(eq=False)
class _Job:
    """A block on its way: identified, then encoded."""

    block: Block
    files: list[Prepared] | None = None  # as they were identified
    wanted: list[int] = field(default_factory=list)  # places in the block to encode
    attempts: int = 0


def encode_in_pool(
    blocks: Iterable[Block], encoders: Encoders, known: Collection[bytes]
) -> Iterator[tuple[Block, BlockOutcome]]:
    """Encode blocks, and yield each with its outcome as they are finished.

    Files are identified before they are encoded. The first file of a content, in the order of the blocks, is the one
    that is encoded; so batches hold the same images as if one process had done all blocks in order, and no content is
    encoded twice. What a lost encoder was doing is done again by another one.

    Args:
        blocks: in order; each is asked for shortly before it is begun.
        encoders: who does it.
        known: contents that have a vector already.
    """
    return _EncoderPool(iter(blocks), encoders, known).run()


class _EncoderPool:
    def __init__(self, blocks: Iterator[Block], encoders: Encoders, known: Collection[bytes]) -> None:
        self._blocks, self._encoders, self._known = blocks, encoders, known
        self._planned: set[bytes] = set()  # contents that have a place in a block of this run
        self._open: deque[_Job] = deque()  # begun and not yet planned, in order
        self._to_identify: deque[_Job] = deque()
        self._to_encode: deque[_Job] = deque()
        self._running: dict[Future[Any], tuple[Encoder, _Job]] = {}
        self._exhausted = False

    def run(self) -> Iterator[tuple[Block, BlockOutcome]]:
        while self._hand_out():
            if not self._running:
                time.sleep(_LOOK_SECONDS)  # nobody is ready yet
            done, _ = wait(self._running, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                encoder, job = self._running.pop(future)
                try:
                    result = future.result()
                except EncoderLost:
                    self._again(encoder, job)
                    continue
                if isinstance(result, BlockOutcome):
                    yield job.block, _merged(job, result)
                else:
                    job.files = result
            yield from self._plan()

    def _hand_out(self) -> bool:
        """Give every encoder something to do; ``False`` if nothing is left."""
        encoders = list(self._encoders.ready())
        load = Counter((id(encoder), job.files is None) for encoder, job in self._running.values())
        for depth in range(self._encoders.depth):
            for encoder in encoders:
                if self._to_encode and load[id(encoder), False] <= depth:
                    job = self._to_encode.popleft()
                    files = [job.block.files[place] for place in job.wanted]
                    self._running[encoder.encode(files, job.attempts > 0)] = encoder, job
                    load[id(encoder), False] += 1
        for encoder in encoders:
            begun = None if load[id(encoder), True] else self._next(2 * len(encoders))
            if begun is not None:
                self._running[encoder.identify(begun.block.files)] = encoder, begun
        return bool(self._running or self._to_encode or self._to_identify or self._open or not self._exhausted)

    def _next(self, ahead: int) -> _Job | None:
        """A block to identify, unless enough wait for an encoder."""
        if self._to_identify:
            return self._to_identify.popleft()
        if len(self._to_encode) >= ahead or self._exhausted:
            return None
        block = next(self._blocks, None)
        if block is None:
            self._exhausted = True
            return None
        self._open.append(_Job(block))
        return self._open[-1]

    def _plan(self) -> Iterator[tuple[Block, BlockOutcome]]:
        """Decide what to encode of the blocks before which all are identified; yield those that need nothing."""
        while self._open and self._open[0].files is not None:
            job = self._open.popleft()
            assert job.files is not None
            for place, item in enumerate(job.files):
                if item.state is not None and item.digest not in self._known and item.digest not in self._planned:
                    self._planned.add(item.digest)
                    job.wanted.append(place)
            if job.wanted:
                self._to_encode.append(job)
            else:
                yield job.block, BlockOutcome(job.files, [])

    def _again(self, encoder: Encoder, job: _Job) -> None:
        self._encoders.replace(encoder)
        job.attempts += 1
        if job.attempts >= _ATTEMPTS:
            raise ChoqolateError(
                f"The images from {job.block.files[0]} on were given to {_ATTEMPTS} processes, and each of them ended. "
                "What is encoded so far is kept. Continue with the local engine, which finds the image that does it."
            )
        (self._to_identify if job.files is None else self._to_encode).appendleft(job)


def _merged(job: _Job, result: BlockOutcome) -> BlockOutcome:
    """The outcome for all files of a block; a content that cannot be decoded is named by its digest."""
    assert job.files is not None
    files = list(job.files)
    for place, item in zip(job.wanted, result.files, strict=True):
        files[place] = item if item.state is not None else item._replace(digest=files[place].digest)
    return BlockOutcome(files, result.encoded)
