"""Images to vectors, once: resumable, cached by content, with a list of what could not be read."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from choqolate._util.checks import check_choice, check_number
from choqolate._util.files import replacing
from choqolate._util.processes import n_cores
from choqolate._util.progress import item_bar
from choqolate._util.ray_cluster import check_engine
from choqolate._util.spreadsheet import as_cell
from choqolate._util.text import counted, printable
from choqolate.concepts.backbones import Backbone
from choqolate.concepts.claims import Claims
from choqolate.concepts.embedding_folder import EmbeddingFolder, cache_folder
from choqolate.concepts.embedding_run import (
    EmbeddingRun,
    Encode,
    Failure,
    NothingReadable,
    encode_here,
    encode_shared,
    encode_with,
)
from choqolate.data.manifest import Manifest
from choqolate.datasets import read_source
from choqolate.errors import ChoqolateError

SHARD_ROWS = 256  # rows per block, which a kill can cost at most


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
        place = f"{counted(len(self), 'image')} by {name} in {str(self.folder.path)!r}"
        return f"Embeddings({place}, {len(self.failures)} unreadable)"

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
    engine: str = "local",
    address: str | None = None,
    devices: Sequence[str] | None = None,
    tell: Callable[[str], None] = lambda _: None,
    verbose: bool = False,
) -> Embeddings:
    """Encode every image of a manifest that is not encoded yet.

    Vectors are kept by the content of the image: a renamed file is found again, a changed one is encoded again. They
    are written in shards. After a kill, the same call continues after the last shard and ends with the same result,
    with either engine. Several processes that embed the same images into the same folder at the same time share the
    work.

    Args:
        manifest: the images; or a folder or CSV file of them.
        backbone: the encoder.
        folder: where the vectors go; by default into a cache that all runs with this backbone share.
        workers: processes that decode; 0 decodes in this one; by default as many as the encoder can use. With the
            engine ``"ray"``, the processes that encode; by default one per GPU, or else as many as there are CPU slots
            for.
        batch_size: images encoded at a time; by default what suits the device.
        on_error: ``"skip"`` goes on without images that cannot be read and lists them as ``failures``; ``"fail"``
            stops at the first.
        quarantine: a CSV file to list these images in, with the reasons; there is none if all could be read.
        engine: ``"local"``, or ``"ray"`` for a Ray cluster. All of its machines have to see the images, the folder
            and the weights at the same paths.
        address: of the cluster, ``"host:port"`` or ``"auto"``; by default Ray is started on this machine alone.
        devices: of this machine, such as ``["cuda:0", "cuda:2"]``, with one process each; by default all CUDA devices
            if the backbone is on CUDA and there are several. Not for the engine ``"ray"``.
        tell: called with a sentence before something slow.
        verbose: show progress on stderr.

    Raises:
        ChoqolateError: if no image can be read, or one cannot with ``on_error="fail"``, or the folder holds vectors
            of another backbone.
    """
    check_choice("on_error", on_error, ("skip", "fail"))
    check_engine(engine, address)
    if batch_size is not None:
        check_number("batch_size", batch_size, minimum=1, whole=True)
    if workers is not None:
        check_number("workers", workers, minimum=0, whole=True)
    if devices is not None and engine == "ray":
        raise ChoqolateError("Expected no devices with engine='ray', because Ray assigns them. Leave them out.")
    manifest = read_source(manifest) if isinstance(manifest, str | os.PathLike) else manifest
    if not len(manifest):
        raise ChoqolateError("expected at least one image, the manifest is empty")
    target = EmbeddingFolder.create(Path(folder) if folder is not None else cache_folder(backbone), backbone)
    run = EmbeddingRun(manifest, target, on_error, SHARD_ROWS)
    with item_bar(len(manifest), "looking for changes", items="images", enabled=verbose) as advance:
        run.recall(advance)
    n_waiting = len(run.waiting())
    if n_waiting:
        with (
            closing(Claims(target.path, run.files, SHARD_ROWS)) as claims,
            _encoding(run, backbone, workers, batch_size, engine, address, devices, tell) as encode,
            item_bar(len(manifest), "embedding", items="images", enabled=verbose) as advance,
        ):
            advance(len(manifest) - n_waiting)
            encode_shared(run, claims, encode, advance)
    try:
        found, digests, failures = run.finish()
    except NothingReadable as error:
        if quarantine is not None:
            write_quarantine(Path(quarantine), error.failures)
            raise ChoqolateError(f"{error}; all are listed in {quarantine}") from error
        raise
    readable = manifest.take(found)
    if folder is not None:
        target.write_rows(readable, digests)
    target.check_kept()
    if quarantine is not None:
        write_quarantine(Path(quarantine), failures)
    return Embeddings(target, readable, digests, failures, run.n_encoded)


@contextmanager
def _encoding(
    run: EmbeddingRun,
    backbone: Backbone,
    workers: int | None,
    batch_size: int | None,
    engine: str,
    address: str | None,
    devices: Sequence[str] | None,
    tell: Callable[[str], None],
) -> Iterator[Encode]:
    """Give a function that encodes blocks: here, in one process per device, or on a Ray cluster."""
    if engine == "ray":
        from choqolate._util.ray_cluster import ray_session
        from choqolate.concepts.ray_encoders import ray_encoders

        with (
            ray_session(address, tell=tell) as ray,
            ray_encoders(
                ray, backbone, run.folder.path, batch_size=batch_size, started=run.started, workers=workers, tell=tell
            ) as actors,
        ):
            yield encode_with(actors, run)
    elif devices := _several_cuda_devices(backbone) if devices is None else devices:
        from choqolate.concepts.device_encoders import device_encoders

        decoders = max(1, n_cores() // len(devices)) if workers is None else workers
        with device_encoders(
            devices, backbone, run.folder.path, batch_size=batch_size, started=run.started, decoders=decoders
        ) as processes:
            yield encode_with(processes, run)
    else:
        workers = _suitable_workers(backbone) if workers is None else workers
        yield encode_here(run, backbone, workers, backbone.batch_size if batch_size is None else batch_size)


def _several_cuda_devices(backbone: Backbone) -> list[str]:
    """All CUDA devices; none if there is only one, or the backbone names one or is somewhere else."""
    import torch

    if backbone.device != torch.device("cuda") or torch.cuda.device_count() < 2:
        return []
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())]


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
        writer.writerows(map(as_cell, (printable(failure.path), failure.reason)) for failure in failures)
