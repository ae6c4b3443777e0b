"""One pass over a manifest: what is known of its rows, and how the blocks that are left find an encoder."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from choqolate._util.text import printable
from choqolate.concepts.backbones import Backbone
from choqolate.concepts.blocks import WRITE_SECONDS, Block, BlockOutcome, encode_block
from choqolate.concepts.claims import Claims
from choqolate.concepts.embedding_folder import EmbeddingFolder, Seen
from choqolate.concepts.encoder_pool import Encoders, encode_in_pool
from choqolate.concepts.preprocessing import NO_STATE, FileState, Prepared, Unreadable, file_state, settled
from choqolate.concepts.workers import preparing
from choqolate.data.manifest import Manifest
from choqolate.errors import ChoqolateError

_PATIENCE_SECONDS = 600  # without news from the process that has the last blocks, they are done here too
_LONGEST_PAUSE = 5.0  # seconds between two looks at what other processes have finished

Advance = Callable[[int], None]
Outcomes = Generator[tuple[Block, BlockOutcome], None, None]
Encode = Callable[[Iterable[Block], Advance], Outcomes]


@dataclass(frozen=True)
class Failure:
    """An image that could not be read."""

    path: str
    reason: str


class NothingReadable(ChoqolateError):
    """Not one image could be read; ``failures`` says why of each."""

    def __init__(self, failures: tuple[Failure, ...]) -> None:
        first = f"the first is {printable(failures[0].path)}: {failures[0].reason}"
        super().__init__(f"none of the {len(failures):,} images can be read; {first}")
        self.failures = failures


class EmbeddingRun:
    """What is known so far of each row of a manifest.

    Attributes:
        folder: where the vectors are.
        files: absolute path of each row.
        known: contents that have a vector.
        digests: content of each row, as far as it has a vector.
        failures: rows that cannot be read, with the reasons.
        started: when the run began, in nanoseconds since the epoch.
        n_encoded: how many contents were encoded in this run.
    """

    def __init__(self, manifest: Manifest, folder: EmbeddingFolder, on_error: str, block_rows: int) -> None:
        self.folder = folder
        self.files = [os.path.abspath(file) for file in manifest.files()]
        self.known: set[bytes] = set()
        self.digests: list[bytes | None] = [None] * len(manifest)
        self.failures: dict[int, str] = {}
        self.started = time.time_ns()
        self.n_encoded = 0
        self._paths, self._on_error, self._block_rows = manifest.paths, on_error, block_rows
        self._states: dict[int, FileState] = {}  # of the files that were read in this run
        self._undecodable: dict[bytes, str] = {}  # contents, and why
        self._looked_at: set[str] = set()  # in the folder
        self._recalled = False

    def recall(self, advance: Advance = lambda _: None) -> None:
        """Recognise the files that have not changed since their vectors were written, without reading them.

        Called again, it looks at what other processes have written since.
        """
        known, seen = self.folder.contents(self._looked_at)
        self.known |= known
        if self._recalled and not (known or seen):
            return
        self._recalled = True
        waiting = self.waiting()
        for start in range(0, len(waiting), self._block_rows):
            rows = waiting[start : start + self._block_rows]
            for row in rows:
                self._recall(row, seen)
            advance(len(rows))

    def _recall(self, row: int, seen: Seen) -> None:
        try:
            state = file_state(self.files[row])
        except Unreadable as error:
            self.fail(row, str(error))
            return
        digest = seen.get((printable(self.files[row]), state))
        if digest in self.known:
            self.digests[row] = digest

    def waiting(self) -> list[int]:
        """Rows of which there is neither a vector nor a reason why not."""
        return [row for row, digest in enumerate(self.digests) if digest is None and row not in self.failures]

    def blocks(self) -> list[Block]:
        """What waits, in blocks that cover fixed positions in the manifest."""
        rows: dict[int, list[int]] = {}
        for row in self.waiting():
            rows.setdefault(row // self._block_rows, []).append(row)
        return [Block(number, own, [self.files[row] for row in own]) for number, own in rows.items()]

    def add(self, block: Block, outcome: BlockOutcome) -> None:
        """Note what became of a block."""
        self.known.update(outcome.encoded)
        self.n_encoded += len(outcome.encoded)
        for row, item in zip(block.rows, outcome.files, strict=True):
            if item.state is None:
                self._undecodable[item.digest] = item.error
                self.fail(row, item.error)
            else:
                self.digests[row], self._states[row] = item.digest, item.state

    def settle(self) -> None:
        """See to rows whose content was left to another row that could not be decoded, or has changed meanwhile."""
        for row, digest in enumerate(self.digests):
            if digest is not None and digest not in self.known:
                self.digests[row] = None
                if digest in self._undecodable:
                    self.fail(row, self._undecodable[digest])

    def fail(self, row: int, reason: str) -> None:
        """Note that a file cannot be read.

        Raises:
            ChoqolateError: if that ends the run.
        """
        if self._on_error == "fail":
            raise ChoqolateError(
                f"{self.files[row]} cannot be read: {reason}; fix or remove it, or let such files be skipped"
            )
        self.failures[row] = reason

    def finish(self) -> tuple[np.ndarray, list[bytes], tuple[Failure, ...]]:
        """Note which file holds what, and sum up: which rows have vectors, their digests, and the failures."""
        failures = tuple(Failure(self._paths[row], reason) for row, reason in sorted(self.failures.items()))
        digests = [digest for digest in self.digests if digest is not None]
        if not digests:
            raise NothingReadable(failures)
        self.folder.check_kept(digests if self.n_encoded else ())
        self.folder.note_files({self._noted(row): digest for row in self._states if (digest := self.digests[row])})
        return np.array([digest is not None for digest in self.digests]), digests, failures

    def _noted(self, row: int) -> tuple[str, FileState]:
        """A file in the state in which it was read; in no state if a later change might not show in it."""
        state = self._states[row]
        return printable(self.files[row]), state if settled(state, self.started) else NO_STATE


def encode_here(run: EmbeddingRun, backbone: Backbone, workers: int, batch_size: int) -> Encode:
    """Encode blocks in this process, one after the other, while processes decode ahead."""

    def encode(blocks: Iterable[Block], advance: Advance) -> Outcomes:
        begun: deque[Block] = deque()

        def files() -> Iterator[str]:
            for block in blocks:
                begun.append(block)
                yield from block.files

        def checked(block: Block, prepared: Iterable[Prepared]) -> Iterator[Prepared]:
            for row, item in zip(block.rows, prepared, strict=True):
                if item.state is None:
                    run.fail(row, item.error)
                yield item

        with preparing(files(), backbone.transform, run.known, workers=workers, ahead=2 * batch_size) as prepared:
            for first in prepared:  # whose block has been begun
                block = begun.popleft()
                outcome = encode_block(
                    block.files,
                    checked(block, chain([first], islice(prepared, len(block.files) - 1))),
                    backbone,
                    run.folder,
                    batch_size=batch_size,
                    known=run.known,
                    started=run.started,
                    write_seconds=WRITE_SECONDS,
                    advance=advance,
                )
                yield block, outcome

    return encode


def encode_with(encoders: Encoders, run: EmbeddingRun) -> Encode:
    """Encode blocks in other processes."""

    def encode(blocks: Iterable[Block], advance: Advance) -> Outcomes:
        for block, outcome in encode_in_pool(blocks, encoders, run.known):
            advance(len(block.rows))
            yield block, outcome

    return encode


def encode_shared(run: EmbeddingRun, claims: Claims, encode: Encode, advance: Advance) -> None:
    """Encode the blocks that no other process works at, then what others have left undone."""

    def work(blocks: Iterable[Block]) -> None:
        with closing(encode(blocks, advance)) as outcomes:
            for block, outcome in outcomes:
                run.add(block, outcome)
                claims.give_back(block.number, done=True)
        run.settle()

    work(block for block in run.blocks() if claims.take(block.number))
    pause, news_at = 0.1, time.monotonic()
    while left := {block.number for block in run.blocks()}:
        mine = {number for number in left if claims.take(number, again=True)}
        n_waiting = len(run.waiting())
        run.recall()  # after the claim: whoever had the block has written it by now, or never will
        n_found = n_waiting - len(run.waiting())
        advance(n_found)
        if n_found:
            pause, news_at = 0.1, time.monotonic()
        elif not mine and time.monotonic() - news_at > _PATIENCE_SECONDS:
            mine = left
        work([block for block in run.blocks() if block.number in mine])
        for number in mine:
            claims.give_back(number, done=True)
        if not mine:
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)
    claims.remove()
