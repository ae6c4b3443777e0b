"""Vectors by the content they stand for: append-only Parquet shards, each written once and whole."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from choqolate._util.sealed_parquet import read_sealed, write_sealed
from choqolate.concepts.exact_product import ExactProduct
from choqolate.errors import ChoqolateError, ChoqolateWarning

_BLOCK_BYTES = 1 << 27  # vectors in memory at a time: every block reads each shard that has some of them
_LEAST_ROWS = 256  # of a block, even if a vector is very long
_PRODUCT_ROWS = 256  # of the products that are given at a time
DIGEST = pa.binary(32)


class VectorStore:
    """A folder of shards with columns ``digest``, ``embedding`` and whatever else is noted beside them.

    Args:
        folder: of the shards.
        dim: length of a vector.
        notes: type of each further column, in shards that have any.

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

    def __init__(self, folder: Path, dim: int, notes: Mapping[str, pa.DataType] | None = None) -> None:
        self.folder, self.dim, self.notes = folder, dim, notes or {}

    def add(self, digests: Sequence[bytes], vectors: np.ndarray, notes: Mapping[str, pa.Array] | None = None) -> None:
        """Write one shard: vectors ``(n, d)`` by digest, with columns of notes."""
        flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
        columns = {"digest": pa.array(digests, DIGEST), **(notes or {})}
        columns["embedding"] = pa.FixedSizeListArray.from_arrays(flat, self.dim)
        name = hashlib.sha256(b"".join(digests)).hexdigest()[:24]
        # vectors hardly compress
        write_sealed(self.folder / f"{name}.parquet", pa.table(columns), compression="none", use_dictionary=False)

    def shards(self, columns: Sequence[str], *, passed: set[str] | None = None) -> Iterator[pa.Table]:
        """All shards; a damaged one is set aside with a warning.

        Args:
            columns: what to read of them.
            passed: names of shards to leave out; those that are read are added.
        """
        passed = set() if passed is None else passed
        for path in self._paths():
            if path.name in passed:
                continue
            passed.add(path.name)
            table = self.read_shard(path, columns)
            if table is not None:
                yield table

    def read_shard(self, path: Path, columns: Sequence[str]) -> pa.Table | None:
        """One shard; ``None`` if it is damaged, which sets it aside with a warning, or if it is gone."""
        try:
            table = read_sealed(path, columns)
            self._check(table, columns)
        except FileNotFoundError:
            return None  # another process set it aside
        except (pa.ArrowInvalid, OSError, KeyError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk or the system, not the file
            reason = str(error).partition("\n")[0]
            warnings.warn(f"{path} is damaged and set aside: {reason}", ChoqolateWarning, stacklevel=2)
            with suppress(FileNotFoundError):  # another process was faster
                os.replace(path, path.with_suffix(".damaged"))
            return None
        return table

    def _check(self, table: pa.Table, columns: Sequence[str]) -> None:
        """Each row of a shard has a digest, and a vector of so many numbers: else rows would get each other's."""
        kinds = {"digest": DIGEST} | (dict(self.notes) if self.notes.keys() & set(table.column_names) else {})
        check_columns(table, {name: kind for name, kind in kinds.items() if name in columns})
        if "embedding" in columns:
            vectors, kind = table["embedding"], table.schema.field("embedding").type
            whole = pa.types.is_fixed_size_list(kind) and kind.list_size == self.dim
            whole = whole and pa.types.is_float32(kind.value_type) and not vectors.null_count
            if not whole or any(chunk.flatten().null_count for chunk in vectors.chunks):
                raise pa.ArrowInvalid(f"expected a vector of {self.dim} numbers in every row")

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.parquet"))

    def digests(self) -> set[bytes]:
        """Everything there is a vector of."""
        return {digest for table in self.shards(["digest"]) for digest in table["digest"].to_pylist()}

    def get(self, digests: Sequence[bytes]) -> np.ndarray:
        """Vectors ``(n, d)`` of the given digests.

        Raises:
            ChoqolateError: if one is not there.
        """
        return self.find(digests).get()

    def find(self, digests: Sequence[bytes]) -> FoundVectors:
        """Look up where the vectors of the given digests are, without reading them.

        Raises:
            ChoqolateError: if one is not there.
        """
        wanted, places = np.unique(np.array(digests, dtype="S32"), return_inverse=True)
        shards, rows = np.full(len(wanted), -1, dtype=np.int32), np.zeros(len(wanted), dtype=np.int32)
        paths: list[Path] = []
        for path in self._paths() if len(wanted) else ():
            table = self.read_shard(path, ["digest"])
            if table is None:
                continue
            found = np.array(table["digest"].to_pylist(), dtype="S32")
            at = np.minimum(np.searchsorted(wanted, found), len(wanted) - 1)
            known = np.flatnonzero(wanted[at] == found)
            if len(known):
                shards[at[known]], rows[at[known]] = len(paths), known
                paths.append(path)
        if n_missing := int((shards < 0).sum()):
            raise _missing(n_missing, len(wanted), self.folder)
        return FoundVectors(self, paths, shards[places], rows[places])


@dataclass(frozen=True, eq=False)
class FoundVectors:
    """Where the vectors of n images are.

    Attributes:
        store: that holds them.
        paths: of the shards with some of them.
        shards: number of the shard of each ``(n,)``.
        rows: its row in the shard ``(n,)``.
    """

    store: VectorStore
    paths: Sequence[Path]
    shards: np.ndarray
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.shards)

    def get(self, part: slice = slice(None)) -> np.ndarray:
        """Vectors ``(n, d)`` of a part. One shard is in memory at a time.

        Raises:
            ChoqolateError: if a shard is damaged or gone.
        """
        shards, rows = self.shards[part], self.rows[part]
        result = np.empty((len(shards), self.store.dim), dtype=np.float32)
        order = np.argsort(shards, kind="stable")
        numbers, starts = np.unique(shards[order], return_index=True)
        for number, targets in zip(numbers, np.split(order, starts[1:]), strict=False):  # nothing has one part
            table = self.store.read_shard(self.paths[number], ["embedding"])
            if table is None:
                raise _missing(len(targets), len(self), self.store.folder)
            result[targets] = _matrix(table["embedding"], self.store.dim)[rows[targets]]
        return result

    def blocks(self) -> Iterator[np.ndarray]:
        """Vectors ``(n, d)`` in order, in blocks of bounded size.

        Raises:
            ChoqolateError: if a shard is damaged or gone.
        """
        n_rows = max(_LEAST_ROWS, _BLOCK_BYTES // (4 * max(1, self.store.dim)))
        for start in range(0, len(self), n_rows):
            yield self.get(slice(start, start + n_rows))

    def products(self, matrix: np.ndarray, n_rows: int = _PRODUCT_ROWS) -> Iterator[np.ndarray]:
        """Products ``(n, M)`` of the vectors and a matrix ``(d, M)`` in order, in blocks.

        The product of a vector is the same to the last bit wherever the vector stands, see :class:`ExactProduct`.

        Args:
            matrix: what to multiply the vectors by.
            n_rows: of a block, at most.

        Raises:
            ChoqolateError: if a shard is damaged or gone.
        """
        product = ExactProduct(matrix)
        for vectors in self.blocks():
            for start in range(0, len(vectors), n_rows):
                yield product(vectors[start : start + n_rows])


def _missing(n_missing: int, n_wanted: int, folder: Path) -> ChoqolateError:
    return ChoqolateError(
        f"{n_missing:,} of {n_wanted:,} vectors are not in {folder}: run the embedding again, it adds what is missing"
    )


def check_columns(table: pa.Table, kinds: Mapping[str, pa.DataType], *, empty: Collection[str] = ()) -> None:
    """Find out whether a table has the columns that were written to it.

    Args:
        table: as it was read.
        kinds: the type of each column.
        empty: columns that may have cells without a value.

    Raises:
        pa.ArrowInvalid: if one is missing, is there twice, has another type, or has a cell without a value.
    """
    for name, kind in kinds.items():
        places = table.schema.get_all_field_indices(name)
        column = table.column(places[0]) if len(places) == 1 else None
        if column is None or column.type != kind or (column.null_count and name not in empty):
            raise pa.ArrowInvalid(f"expected {kind} in every row of the column {name!r}")


def _matrix(column: pa.ChunkedArray, dim: int) -> np.ndarray:
    values = column.combine_chunks()
    matrix: np.ndarray = np.asarray(values.flatten()).reshape(-1, dim)
    return matrix
