"""Parquet files of concept scores, read piece by piece: our own, or any with a column for each concept."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from choqolate._util.json_files import parse_json
from choqolate._util.memory import available_memory
from choqolate._util.sealed_parquet import Seal
from choqolate._util.text import listed
from choqolate.data.column_roles import ROW_COLUMNS, ColumnNames, check_cells, column_roles, told_roles
from choqolate.data.source_errors import AGAIN, naming
from choqolate.errors import ChoqolateError

FORMAT = 1
KEY = b"choqolate"
BLOCK_BYTES = 1 << 25
"""Scores in memory at a time."""

GROUP_BYTES = 1 << 20
"""Scores in one row group of a file that we write."""

_MOST_ROWS = 1 << 16  # of a block, where there are few concepts
_BAND_BYTES = 1 << 28  # scores in memory while the columns of a wide table are read
_FOOTER_FACTOR = 16  # memory for a footer, as a multiple of its size in the file
_COLUMNS_AT_ONCE = 64  # of a wide table: each takes up to some megabytes while it is read
_FEWEST_ROWS = 16  # of a row group, where there are many: each takes 500 bytes at the end of the file


def block_rows(n_concepts: int, dtype: Any, n_bytes: int | None = None) -> int:
    """The number of rows whose scores fill one block, by default of 32 MB.

    >>> block_rows(1_000, np.float32)
    8388
    """
    most = BLOCK_BYTES if n_bytes is None else n_bytes
    return max(1, min(_MOST_ROWS, most // (max(1, n_concepts) * np.dtype(dtype).itemsize)))


def group_rows(n_concepts: int, dtype: Any) -> int:
    """The number of rows in one row group of a file that we write.

    >>> group_rows(1_000, np.float32), group_rows(50_000, np.float32)
    (262, 16)
    """
    return max(_FEWEST_ROWS, block_rows(n_concepts, dtype, GROUP_BYTES))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what goes wrong while a Parquet file is read into errors that name the file and say what to do."""
    try:
        with naming(path):
            yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise ChoqolateError(f"expected a Parquet file, {path} is another or damaged ({reason}): {AGAIN}") from None


class ParquetReader:
    """A Parquet file of scores, of which only the footer is read at first.

    Attributes:
        path: of the file.
        concepts: names of the M concepts.
        about: classes, spurious concepts and provenance, as far as the file says.
        dtype: of the scores in memory, float32 or float64.
        row_groups: number of rows in each row group.
        told_roles: what the columns were taken as; empty for a file of our own.
        numeric: the concepts with a column of numbers; none for a file of our own.
    """

    def __init__(self, path: Path, **columns: Unpack[ColumnNames]) -> None:
        self.path = path
        with reading(path):
            _check_footer(path)
            self._seal = Seal(path)
            metadata = pq.read_metadata(path)
            buffer = max(1 << 12, BLOCK_BYTES // max(1, metadata.num_columns))  # else a whole column chunk is read
            self._file = pq.ParquetFile(
                path,
                metadata=metadata,
                buffer_size=buffer,
                page_checksum_verification=self._seal.checksums is None,  # the seal covers the pages
                pre_buffer=False,
            )
            schema = self._file.schema_arrow
            names = schema.names
            self.row_groups = tuple(metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))
            self._starts = [0, *itertools.accumulate(self.row_groups)]
            document = (schema.metadata or {}).get(KEY)
            kind = schema.field(names.index("scores")).type if "scores" in names else pa.null()
            self.about: dict[str, Any] = {}
            self._is_own, self.told_roles, self.numeric = False, "", list[str]()
            if document is not None and _is_list(kind):
                self._is_own = True
                if any(name is not None for name in columns.values()):
                    raise ChoqolateError(f"Expected no names of columns, because {path} is a table of choqolate.")
                twice = [name for name in ("scores", *ROW_COLUMNS) if names.count(name) > 1]
                if twice:
                    raise ChoqolateError(f"expected each column once in {path}, got {listed(twice)} twice: {AGAIN}")
                self.about = _read_document(document, path)
                self.concepts = tuple(self.about.pop("concepts"))
                self._roles = {role: role for role in ROW_COLUMNS if role in names}
                types = [kind.value_type]
                if not _is_number(types[0]) or pa.types.is_boolean(types[0]):
                    raise ChoqolateError(f"expected lists of numbers as scores in {path}, got {types[0]}: {AGAIN}")
                if pa.types.is_fixed_size_list(kind) and kind.list_size != len(self.concepts):
                    raise self._ragged()
            elif _is_list(kind):
                raise ChoqolateError(
                    f"expected the names of the concepts in the metadata of {path}, they are lost: keep the schema "
                    f"metadata when you rewrite the file, or write a column for each concept"
                )
            else:
                roles, concepts = column_roles(names, **columns)
                self.concepts = tuple(concepts)
                self._roles = {role: names[j] for role, j in roles.items()}
                self.told_roles = told_roles(names, roles, concepts)
                types = [schema.field(j).type for j in concepts.values()]
                self.numeric = [name for name, kind in zip(concepts, types, strict=True) if _is_number(kind)]
        single = all(pa.types.is_float32(kind) or pa.types.is_float16(kind) for kind in types)
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def column(self, role: str) -> str | None:
        """The name of the column of a role; ``None`` without one."""
        return self._roles.get(role)

    def cells(self, role: str) -> Iterator[pa.Array]:
        """The cells of ``"path"``, ``"label"``, ``"split"`` or ``"group"``, piece by piece; none without the column."""
        if role not in self._roles:
            return
        name = self._roles[role]
        with reading(self.path):
            for row_group in range(len(self.row_groups)):
                self._seal.check(self._file.metadata, row_group, [name])
            for batch in self._file.iter_batches(batch_size=_MOST_ROWS, columns=[name]):
                yield batch.column(name)

    def blocks(
        self, row_group: int, columns: Sequence[int] | None = None, *, paths: bool = True, n_bytes: int | None = None
    ) -> Iterator[tuple[np.ndarray, list[Any] | None]]:
        """Scores ``(n, M)`` and paths of the rows of a row group, at most a block of them at a time.

        Args:
            row_group: its number.
            columns: only the scores of these concepts.
            paths: read them too.
            n_bytes: size of the scores of a block, at most; by default 32 MB.
        """
        concepts = self.concepts if columns is None else [self.concepts[j] for j in columns]
        wanted = ["scores"] if self._is_own else list(concepts)
        with_paths = paths and "path" in self._roles
        wanted += [self._roles["path"]] if with_paths else []
        rows = block_rows(len(self.concepts if self._is_own else concepts), self.dtype, n_bytes)
        first = self._starts[row_group]
        if not self._is_own and len(concepts) > _COLUMNS_AT_ONCE:
            yield from self._bands(row_group, concepts, rows, with_paths)
            return
        with reading(self.path):
            self._seal.check(self._file.metadata, row_group, wanted)
            for batch in self._file.iter_batches(batch_size=rows, row_groups=[row_group], columns=wanted):
                if self._is_own:
                    scores = self._own_scores(batch.column("scores"))
                    scores = scores if columns is None else scores[:, list(columns)]
                else:
                    scores = self._wide_scores(batch, concepts, first)
                first += len(batch)
                yield scores, batch.column(self._roles["path"]).to_pylist() if with_paths else None

    def _bands(
        self, row_group: int, concepts: Sequence[str], n_rows: int, with_paths: bool
    ) -> Iterator[tuple[np.ndarray, list[Any] | None]]:
        """Blocks of many columns, of which some are read at a time for as many rows as fit into bounded memory.

        The columns of all concepts at a time would take several times the memory of their scores.
        """
        whole = self.row_groups[row_group]
        most = n_rows * max(1, _BAND_BYTES // (n_rows * len(concepts) * self.dtype.itemsize))
        paths = self._row_paths(row_group)
        buffer = np.empty((min(most, whole), len(concepts)), dtype=self.dtype)
        with reading(self.path):
            for start in range(0, whole, most):
                band = buffer[: whole - start]
                for place in range(0, len(concepts), _COLUMNS_AT_ONCE):
                    columns = slice(place, place + _COLUMNS_AT_ONCE)
                    self._fill(band[:, columns], row_group, concepts[columns], start)
                for row in range(0, len(band), n_rows):
                    block = band[row : row + n_rows].copy()
                    yield block, list(itertools.islice(paths, len(block))) if with_paths else None

    def _fill(self, scores: np.ndarray, row_group: int, concepts: Sequence[str], start: int) -> None:
        """Read the scores of some concepts, from a row of a row group on; the rows before are read over."""
        first, stop = 0, start + len(scores)
        for batch in self._file.iter_batches(batch_size=_MOST_ROWS, row_groups=[row_group], columns=list(concepts)):
            begin, end = max(first, start), min(first + len(batch), stop)
            if begin < end:
                part = batch.slice(begin - first, end - begin)
                scores[begin - start : end - start] = self._wide_scores(part, concepts, self._starts[row_group] + begin)
            first += len(batch)
            if first >= stop:
                break

    def _row_paths(self, row_group: int) -> Iterator[Any]:
        column = [self._roles["path"]]
        for batch in self._file.iter_batches(batch_size=_MOST_ROWS, row_groups=[row_group], columns=column):
            yield from batch.column(0).to_pylist()

    def _own_scores(self, column: pa.Array) -> np.ndarray:
        n_concepts = len(self.concepts)
        if column.null_count or not (pc.list_value_length(column).to_numpy() == n_concepts).all():
            raise self._ragged()
        values = column.flatten()
        if values.null_count:
            raise self._ragged()
        return np.asarray(values.to_numpy(), dtype=self.dtype).reshape(len(column), n_concepts)

    def _wide_scores(self, batch: pa.RecordBatch, concepts: Sequence[str], first: int) -> np.ndarray:
        scores = np.empty((len(batch), len(concepts)), dtype=self.dtype)
        for place, name in enumerate(concepts):
            column = batch.column(name)
            kind = column.type
            if pa.types.is_boolean(kind):
                column, kind = column.cast(pa.int8()), pa.int8()
            if pa.types.is_floating(kind) or pa.types.is_integer(kind):
                scores[:, place] = column.to_numpy(zero_copy_only=False)
            else:
                cells = column.to_pylist()
                check_cells(name, cells, first=first)
                scores[:, place] = np.array(cells, dtype=np.float64)
        return scores

    def _ragged(self) -> ChoqolateError:
        return ChoqolateError(
            f"expected {len(self.concepts)} scores in each row of {self.path}, there are others: {AGAIN}"
        )


def _check_footer(path: Path) -> None:
    """Refuse a file that describes so many columns and row groups that the description alone would fill the memory."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 8))
        size = _FOOTER_FACTOR * int.from_bytes(file.read(4), "little")
    memory = available_memory()
    if memory is not None and memory < size <= _FOOTER_FACTOR * path.stat().st_size:
        raise ChoqolateError(
            f"Expected a table that fits into memory, but the list of columns and row groups of {path} takes about "
            f"{size / 1e9:,.1f} GB, and {memory / 1e9:,.1f} GB are free. Write it with larger row groups or fewer "
            "columns, or with ScoreWriter, which keeps all scores in one column."
        )


def _read_document(text: bytes, path: Path) -> dict[str, Any]:
    """What the metadata of a file of our own say of the whole table."""
    damaged = f"expected readable metadata in {path}, they are damaged: {AGAIN}"
    try:
        document = parse_json(text, "metadata")
        version = int(document["format"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ChoqolateError(damaged) from None
    if version > FORMAT:
        raise ChoqolateError(
            f"{path} was written by a newer choqolate (format {version}, this one reads {FORMAT}): upgrade choqolate, "
            "or save the table as CSV with the newer one"
        )
    try:
        fields: dict[str, Any] = {name: document[name] for name in ("concepts", "classes", "spurious", "provenance")}
    except KeyError:
        raise ChoqolateError(damaged) from None
    if not isinstance(fields["provenance"], dict) or not all(map(_are_texts, list(fields.values())[:3])):
        raise ChoqolateError(damaged)
    return fields


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def _are_texts(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)
