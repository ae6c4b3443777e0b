"""One block of a manifest: the images of one shard, encoded and written together. Every engine does this."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from choqolate._util.text import printable
from choqolate.concepts.backbones import Backbone
from choqolate.concepts.embedding_folder import EmbeddingFolder
from choqolate.concepts.preprocessing import NO_STATE, FileState, Prepared, prepare, settled
from choqolate.concepts.workers import preparing, preparing_in_threads

WRITE_SECONDS = 60  # a slow encoder writes whole batches after a minute, so that a kill costs no more


class Block(NamedTuple):
    """The rows of a manifest that go to one shard, and their files; its number in the manifest."""

    number: int
    rows: list[int]
    files: list[str]


class BlockOutcome(NamedTuple):
    """What became of each file of a block, without pixels, and which contents were encoded."""

    files: list[Prepared]
    encoded: list[bytes]


def encode_block(
    files: Iterable[str],
    prepared: Iterable[Prepared],
    backbone: Backbone,
    folder: EmbeddingFolder,
    *,
    batch_size: int,
    known: Collection[bytes],
    started: int,
    write_seconds: float | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> BlockOutcome:
    """Encode what is new in a block and write it as one shard.

    Batches never cross the border of a block, and whole batches are written, so an image meets the same others in its
    batch whether the run was interrupted or not, and whoever encodes it: its vector is the same bit for bit.

    Args:
        files: the files, in order.
        prepared: what became of each when it was read.
        backbone: the encoder.
        folder: where the shard is written.
        batch_size: images encoded at a time.
        known: contents that have a vector already.
        started: when the run began, in nanoseconds since the epoch.
        write_seconds: write what there is after this time, before the block is finished; by default never.
        advance: called with the number of files that are done.
    """
    outcome: list[Prepared] = []
    shard = _Shard(folder, started, write_seconds)
    batch: dict[bytes, tuple[str, FileState, np.ndarray]] = {}

    def encode() -> None:
        vectors = backbone.encode_pixels(np.stack([pixels for _, _, pixels in batch.values()]))
        for vector, (digest, (file, state, _)) in zip(vectors, batch.items(), strict=True):
            shard.add(digest, file, state, vector)
        advance(len(batch))
        batch.clear()
        shard.write_if_late()

    try:
        for file, item in zip(files, prepared, strict=True):
            outcome.append(item._replace(pixels=None))
            done = item.digest in known or item.digest in shard.encoded or item.digest in batch
            if item.state is None or item.pixels is None or done:
                advance(1)
                continue
            batch[item.digest] = file, item.state, item.pixels
            if len(batch) == batch_size:
                encode()
        if batch:
            encode()
    finally:
        shard.write()  # also when the run is stopped
    return BlockOutcome(outcome, list(shard.encoded))


class _Shard:
    """Vectors on their way to the folder."""

    def __init__(self, folder: EmbeddingFolder, started: int, write_seconds: float | None) -> None:
        self.encoded: dict[bytes, None] = {}
        self._folder, self._started, self._write_seconds = folder, started, write_seconds
        self._waiting: dict[bytes, tuple[tuple[str, FileState], np.ndarray]] = {}
        self._written_at = time.monotonic()

    def add(self, digest: bytes, file: str, state: FileState, vector: np.ndarray) -> None:
        """Note a vector with its file, in no state if a later change might not show in it."""
        self.encoded[digest] = None
        noted = state if settled(state, self._started) else NO_STATE
        self._waiting[digest] = (printable(file), noted), vector

    def write_if_late(self) -> None:
        if self._write_seconds is not None and time.monotonic() - self._written_at > self._write_seconds:
            self.write()

    def write(self) -> None:
        if self._waiting:
            vectors = np.stack([vector for _, vector in self._waiting.values()])
            self._folder.add_images(list(self._waiting), vectors, [file for file, _ in self._waiting.values()])
            self._waiting = {}
        self._written_at = time.monotonic()


class BlockEncoder:
    """Encodes blocks in a process of its own, on any machine that sees the images and the folder.

    It keeps nothing between two calls, so that another one can take over.

    Args:
        backbone: the encoder; its weights are loaded here.
        folder: path of the folder of embeddings.
        batch_size: images encoded at a time; by default what suits the device.
        started: when the run began, in nanoseconds since the epoch.
        threads: number of threads that encode on a CPU; they are the same in all engines, because they may change
            the last bits.
        decoders: number of threads that decode ahead of the encoder; 0 for none.
    """

    def __init__(
        self, backbone: Backbone, folder: Path, batch_size: int | None, started: int, threads: int, decoders: int
    ) -> None:
        self._backbone, self._path, self._batch_size = backbone, folder, batch_size
        self._started, self._threads, self._decoders = started, threads, decoders

    def load(self) -> None:
        """Check that vectors made here belong into the folder, and load the weights.

        Raises:
            ChoqolateError: if they do not, such as where a machine without GPU would encode in another precision.
        """
        import torch

        torch.set_num_threads(self._threads)
        self._folder = EmbeddingFolder.open(self._path)
        self._folder.check(self._backbone)
        self._backbone.encode_images([Image.new("RGB", (8, 8))])

    def identify(self, files: list[str]) -> list[Prepared]:
        """Digest and state of each file, without pixels."""
        return prepare(files, self._backbone.transform, lambda _: True)

    def encode(self, files: list[str], careful: bool) -> BlockOutcome:
        """Encode the files of a block, of different contents; carefully if they may have crashed a decoder."""
        batch_size = self._batch_size or self._backbone.batch_size
        if careful:
            reading = preparing(
                files, self._backbone.transform, frozenset(), workers=1, ahead=batch_size, isolated=True
            )
        else:
            reading = preparing_in_threads(files, self._backbone.transform, self._decoders, ahead=2 * batch_size)
        with reading as prepared:
            return encode_block(
                files,
                prepared,
                self._backbone,
                self._folder,
                batch_size=batch_size,
                known=(),
                started=self._started,
            )
