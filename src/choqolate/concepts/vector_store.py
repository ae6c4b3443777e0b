"""Vectors by the content they stand for: append-only Parquet shards, each written once and whole."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from choqolate._util.files import replacing
from choqolate.errors import ChoqolateError, ChoqolateWarning

_STALE_SECONDS = 60  # a shard is written in a fraction of a second


class VectorStore:
    """A folder of shards with columns ``digest``, ``embedding`` and whatever else is noted beside them.

    A shard is named by its digests, so that two processes may add to a folder at a time, and what is written twice is
    there once.

    >>> import tempfile
    >>> store = VectorStore(Path(tempfile.mkdtemp()), dim=2)
    >>> store.add([b"a" * 32, b"b" * 32], np.eye(2, dtype=np.float32))
    >>> sorted(store.digests()) == [b"a" * 32, b"b" * 32]
    True
    >>> store.get([b"b" * 32])
    array([[0., 1.]], dtype=float32)
    """

    def __init__(self, folder: Path, dim: int) -> None:
        self.folder, self.dim = folder, dim

    def add(self, digests: Sequence[bytes], vectors: np.ndarray, notes: Mapping[str, pa.Array] | None = None) -> None:
        """Write one shard: vectors ``(n, d)`` by digest, with columns of notes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
        columns = {"digest": pa.array(digests, pa.binary(32)), **(notes or {})}
        columns["embedding"] = pa.FixedSizeListArray.from_arrays(flat, self.dim)
        name = hashlib.sha256(b"".join(digests)).hexdigest()[:24]
        with replacing(self.folder / f"{name}.parquet") as temporary:
            # vectors hardly compress; checksums tell a damaged page
            pq.write_table(
                pa.table(columns), temporary, compression="none", use_dictionary=False, write_page_checksum=True
            )

    def shards(
        self, columns: Sequence[str], wanted: Set[bytes] | None = None, *, passed: set[str] | None = None
    ) -> Iterator[pa.Table]:
        """All shards, or those with something wanted; a damaged one is set aside with a warning.

        Args:
            columns: what to read of them.
            wanted: digests; shards with none of them are left out.
            passed: names of shards to leave out; those that are read are added.
        """
        for path in sorted(self.folder.glob("*.parquet")):
            if passed is not None:
                if path.name in passed:
                    continue
                passed.add(path.name)
            try:
                if wanted is not None and wanted.isdisjoint(_read(path, ["digest"])["digest"].to_pylist()):
                    continue
                table = _read(path, columns)
                if "embedding" in columns and table.schema.field("embedding").type.list_size != self.dim:
                    raise pa.ArrowInvalid(f"expected vectors of {self.dim} numbers")
            except FileNotFoundError:
                continue  # another process set it aside
            except (pa.ArrowInvalid, OSError, KeyError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # the disk or the system, not the file
                reason = str(error).partition("\n")[0]
                warnings.warn(f"{path} is damaged and set aside: {reason}", ChoqolateWarning, stacklevel=2)
                os.replace(path, path.with_suffix(".damaged"))
                continue
            yield table

    def digests(self) -> set[bytes]:
        """Everything there is a vector of."""
        return {digest for table in self.shards(["digest"]) for digest in table["digest"].to_pylist()}

    def get(self, digests: Sequence[bytes], through: np.ndarray | None = None) -> np.ndarray:
        """Vectors ``(n, d)`` of the given digests; with a matrix ``(d, M)`` their products ``(n, M)`` instead.

        One shard is in memory at a time.

        Raises:
            ChoqolateError: if one is not there.
        """
        result = np.empty((len(digests), self.dim if through is None else through.shape[1]), dtype=np.float32)
        rows = _positions(digests)
        missing = set(rows)
        for table in self.shards(["digest", "embedding"], wanted=rows.keys()):
            found, vectors = table["digest"].to_pylist(), _matrix(table["embedding"], self.dim)
            block = vectors if through is None else vectors @ through
            pairs = [(row, i) for i, digest in enumerate(found) if digest in rows for row in rows[digest]]
            targets, sources = np.array(pairs).T
            result[targets] = block[sources]
            missing.difference_update(found)
        if missing:
            raise ChoqolateError(
                f"{len(missing):,} of {len(rows):,} vectors are not in {self.folder}: run the embedding again, it adds "
                "what is missing"
            )
        return result


def remove_stale(folder: Path) -> None:
    """Remove what a killed process left half-written: temporary files that nobody writes to any more."""
    for path in folder.glob(".*.tmp"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink()


def _read(path: Path, columns: Sequence[str]) -> pa.Table:
    return pq.read_table(path, columns=list(columns), page_checksum_verification=True, partitioning=None)


def _positions(digests: Sequence[bytes]) -> dict[bytes, list[int]]:
    """Where each digest stands; images of equal content share one."""
    rows: dict[bytes, list[int]] = {}
    for row, digest in enumerate(digests):
        rows.setdefault(digest, []).append(row)
    return rows


def _matrix(column: pa.ChunkedArray, dim: int) -> np.ndarray:
    values = column.combine_chunks()
    matrix: np.ndarray = np.asarray(values.flatten()).reshape(-1, dim)
    return matrix
