"""Images to vectors, once: resumable, cached by content, with a list of what could not be read."""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from choqolate._util.checks import check_choice, check_number
from choqolate._util.files import replacing
from choqolate._util.processes import n_cores
from choqolate._util.progress import item_bar
from choqolate._util.text import printable
from choqolate.concepts.backbones import Backbone
from choqolate.concepts.embedding_folder import EmbeddingFolder, cache_folder
from choqolate.concepts.preprocessing import NO_STATE, FileState, Prepared, Unreadable, file_state, settled
from choqolate.concepts.workers import preparing
from choqolate.data.manifest import Manifest
from choqolate.datasets import read_source
from choqolate.errors import ChoqolateError

SHARD_ROWS = 256  # what a kill can cost at most,
WRITE_SECONDS = 60  # or, where the encoder is slow, a minute and a batch


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


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Images with their vectors in a folder.

    Attributes:
        folder: where the vectors are.
        manifest: the images that could be read.
        digests: SHA-256 of the content of each, the key of its vector.
        failures: the images that could not.
        n_encoded: how many contents were encoded in this run; the others were there already.
    """

    folder: EmbeddingFolder
    manifest: Manifest
    digests: list[bytes]
    failures: tuple[Failure, ...] = ()
    n_encoded: int = 0

    def __len__(self) -> int:
        return len(self.digests)

    def __repr__(self) -> str:
        name = self.folder.backbone.name
        return f"Embeddings({len(self)} images by {name} in {str(self.folder.path)!r}, {len(self.failures)} unreadable)"

    def vectors(self) -> np.ndarray:
        """Unit vectors ``(n, d)``, float32, in the order of the manifest."""
        return self.folder.images.get(self.digests)

    @staticmethod
    def are_in(path: str | os.PathLike[str]) -> bool:
        """Whether a folder holds embeddings."""
        return EmbeddingFolder.is_one(Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Embeddings:
        """What :func:`embed` left in a folder: no image is needed any more."""
        folder = EmbeddingFolder.open(Path(path))
        manifest, digests = folder.read_rows()
        return cls(folder, manifest, digests)


def embed(
    manifest: Manifest | str | os.PathLike[str],
    backbone: Backbone,
    folder: str | os.PathLike[str] | None = None,
    *,
    workers: int | None = None,
    batch_size: int | None = None,
    on_error: str = "skip",
    quarantine: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> Embeddings:
    """Encode every image of a manifest that is not encoded yet.

    Vectors are kept by the content of the image: a renamed file is found again, a changed one is encoded again. They
    are written in shards; a run that was killed goes on behind the last one and ends with the same result.

    Args:
        manifest: the images; or a folder or CSV file of them.
        backbone: the encoder.
        folder: where the vectors go; by default into a cache that all runs with this backbone share.
        workers: processes that decode; 0 decodes in this one; by default as many as the encoder can use.
        batch_size: images encoded at a time; by default what suits the device.
        on_error: ``"skip"`` goes on without images that cannot be read and lists them as ``failures``; ``"fail"``
            stops at the first.
        quarantine: a CSV file to list these images in, with the reasons; there is none if all could be read.
        verbose: show a progress bar (on a terminal).

    Raises:
        ChoqolateError: if no image can be read, or one cannot with ``on_error="fail"``, or the folder holds vectors
            of another backbone.
    """
    check_choice("on_error", on_error, ("skip", "fail"))
    manifest = read_source(manifest) if isinstance(manifest, str | os.PathLike) else manifest
    batch_size = backbone.batch_size if batch_size is None else batch_size
    check_number("batch_size", batch_size, minimum=1, whole=True)
    workers = _suitable_workers(backbone) if workers is None else workers
    check_number("workers", workers, minimum=0, whole=True)
    if not len(manifest):
        raise ChoqolateError("expected at least one image, the manifest is empty")
    target = EmbeddingFolder.create(Path(folder) if folder is not None else cache_folder(backbone), backbone)
    run = _Run(manifest, target, on_error)
    with item_bar(len(manifest), "looking for changes", enabled=verbose) as advance:
        run.recall(advance)
    waiting = [row for row, digest in enumerate(run.digests) if digest is None and row not in run.failures]
    files = [run.files[row] for row in waiting]
    with (
        preparing(files, backbone.transform, run.known, workers=workers, ahead=2 * batch_size) as prepared,
        item_bar(len(manifest), "embedding", enabled=verbose and bool(waiting)) as advance,
    ):
        advance(len(manifest) - len(waiting))
        try:
            for shard in _by_shard(waiting, prepared):
                run.add(shard, backbone, batch_size, advance)
        finally:
            run.write()
    try:
        encoded = run.finish(keep_rows=folder is not None)
    except NothingReadable as error:
        if quarantine is not None:
            write_quarantine(Path(quarantine), error.failures)
            raise ChoqolateError(f"{error}; all are listed in {quarantine}") from error
        raise
    if quarantine is not None:
        write_quarantine(Path(quarantine), encoded.failures)
    return encoded


class _Run:
    """One pass over a manifest: what is known of each row so far."""

    def __init__(self, manifest: Manifest, folder: EmbeddingFolder, on_error: str) -> None:
        self.manifest, self.folder, self.on_error = manifest, folder, on_error
        self.files = [os.path.abspath(file) for file in manifest.files()]
        self.known = folder.images.digests()
        self.digests: list[bytes | None] = [None] * len(manifest)
        self.states: dict[int, FileState] = {}  # of the files that were read in this run
        self.started = time.time_ns()
        self.failures: dict[int, str] = {}
        self.unwritten: dict[bytes, tuple[int, np.ndarray]] = {}  # row and vector of whole batches
        self.written_at = time.monotonic()
        self.n_encoded = 0

    def recall(self, advance: Callable[[int], None]) -> None:
        """Recognise the files that have not changed since an earlier run without reading them."""
        seen = self.folder.seen_files()
        for row, file in enumerate(self.files):
            if row % SHARD_ROWS == 0:
                advance(min(SHARD_ROWS, len(self.files) - row))
            try:
                state = file_state(file)
            except Unreadable as error:
                self._fail(row, str(error))
                continue
            digest = seen.get((printable(file), state))
            if digest in self.known:
                self.digests[row] = digest

    def add(
        self, shard: Iterable[tuple[int, Prepared]], backbone: Backbone, batch_size: int, advance: Callable[[int], None]
    ) -> None:
        """Encode what is new among the rows of one shard and write it."""
        batch: dict[bytes, tuple[int, np.ndarray]] = {}
        for row, item in shard:
            if item.state is None:
                self._fail(row, item.error)
                advance(1)
                continue
            self.digests[row], self.states[row] = item.digest, item.state
            if item.pixels is None or item.digest in self.known or item.digest in batch:
                advance(1)
                continue
            batch[item.digest] = row, item.pixels
            if len(batch) == batch_size:
                self._encode(batch, backbone, advance)
                batch = {}
        if batch:
            self._encode(batch, backbone, advance)
        self.write()

    def _encode(
        self, batch: dict[bytes, tuple[int, np.ndarray]], backbone: Backbone, advance: Callable[[int], None]
    ) -> None:
        vectors = backbone.encode_pixels(np.stack([pixels for _, pixels in batch.values()]))
        for vector, (digest, (row, _)) in zip(vectors, batch.items(), strict=True):
            self.unwritten[digest] = row, vector
        self.known.update(batch)
        advance(len(batch))
        if time.monotonic() - self.written_at > WRITE_SECONDS:
            self.write()

    def write(self) -> None:
        """Write what is encoded: at the end of a shard, once a minute, and when the run is stopped."""
        if self.unwritten:
            vectors = np.stack([vector for _, vector in self.unwritten.values()])
            files = [self._file(row) for row, _ in self.unwritten.values()]
            self.folder.add_images(list(self.unwritten), vectors, files)
            self.n_encoded += len(self.unwritten)
            self.unwritten = {}
        self.written_at = time.monotonic()

    def finish(self, *, keep_rows: bool) -> Embeddings:
        """Note which file holds what, and sum up."""
        found = np.array([digest is not None for digest in self.digests])
        failures = tuple(Failure(self.manifest.paths[row], reason) for row, reason in sorted(self.failures.items()))
        if not found.any():
            raise NothingReadable(failures)
        self.folder.note_files({self._file(row): digest for row in self.states if (digest := self.digests[row])})
        digests = [digest for digest in self.digests if digest is not None]
        manifest = self.manifest.take(found)
        if keep_rows:
            self.folder.write_rows(manifest, digests)
        return Embeddings(self.folder, manifest, digests, failures, self.n_encoded)

    def _file(self, row: int) -> tuple[str, FileState]:
        """A file in the state in which it was read; in no state if a later change might not show in it."""
        state = self.states[row]
        return printable(self.files[row]), state if settled(state, self.started) else NO_STATE

    def _fail(self, row: int, reason: str) -> None:
        if self.on_error == "fail":
            raise ChoqolateError(
                f"{self.files[row]} cannot be read: {reason}; mend or remove it, or let such files be skipped"
            )
        self.failures[row] = reason


def _by_shard(rows: list[int], prepared: Iterator[Prepared]) -> Iterator[Iterator[tuple[int, Prepared]]]:
    """Rows of each shard, which covers fixed positions in the manifest.

    Batches do not cross its border, and whole batches are written, so an image meets the same others in its batch
    whether the run was interrupted or not, and its vector is the same bit for bit.
    """
    start = 0
    while start < len(rows):
        stop = start
        while stop < len(rows) and rows[stop] // SHARD_ROWS == rows[start] // SHARD_ROWS:
            stop += 1
        yield ((row, next(prepared)) for row in rows[start:stop])
        start = stop


def _suitable_workers(backbone: Backbone) -> int:
    return min(n_cores(), 16) if backbone.device.type == "cuda" else max(1, n_cores() // 4)


def write_quarantine(path: Path, failures: Iterable[Failure]) -> None:
    """List the images that could not be read, with the reasons, as CSV; no list if there are none."""
    failures = list(failures)
    if not failures:
        path.unlink(missing_ok=True)
        return
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "reason"])
        writer.writerows((printable(failure.path), failure.reason) for failure in failures)
