"""Writing a table of concept scores piece by piece, so that it need not fit into memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from choqolate._util.checks import as_names, check_finite
from choqolate._util.files import check_output, replacing
from choqolate._util.json_files import parse_json
from choqolate._util.sealed_parquet import seal
from choqolate._util.text import printable
from choqolate.data.column_roles import ROW_COLUMNS, text_array
from choqolate.data.parquet_reader import FORMAT, KEY, group_rows
from choqolate.data.provenance import Provenance
from choqolate.data.rows import Rows
from choqolate.data.scores import ConceptScores
from choqolate.data.source_errors import check_name
from choqolate.errors import ChoqolateError


class ScoreWriter:
    """Write a Parquet file of scores block by block, under a temporary name until the last.

    A row group holds about 1 MB of scores, so that the file can be read block by block, and training can mix rows of
    many parts of it. If the writing ends with an error, or is killed, an older file of the same name stays as it was.

    Args:
        path: of the file, ``.parquet``.
        concepts: names of the concepts.
        classes: the class names in the data set's order; without any, those of the labels, sorted, when it is read.
        spurious: those of the concepts that are known to be spurious.
        provenance: how the scores came about.

    Raises:
        ChoqolateError: if the file cannot be written, or a block has other concepts or another precision.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "scores.parquet"
    >>> with ScoreWriter(path, ["sea", "forest"]) as writer:
    ...     for row in range(3):
    ...         writer.add(ConceptScores([[row, 0.5]], ["sea", "forest"], labels=["gull"]))
    >>> ConceptScores.load(path)
    ConceptScores(3 rows, 2 concepts, 1 class, no split)
    """

    def __init__(
        self,
        path: str | Path,
        concepts: Iterable[str],
        *,
        classes: Iterable[str] = (),
        spurious: Iterable[str] = (),
        provenance: Provenance | Mapping[str, Any] | None = None,
    ) -> None:
        self.path, self.concepts = Path(path), as_names(concepts, "concepts")
        if self.path.suffix.lower() != ".parquet":
            raise ChoqolateError(f"expected a file that ends in .parquet, got {self.path}: CSV is written whole")
        check_name(self.path)
        check_output(self.path)
        document = {
            "format": FORMAT,
            "concepts": self.concepts,
            "classes": [printable(name) for name in classes],
            "spurious": as_names(spurious, "spurious"),
            "provenance": Provenance.of(provenance).as_dict(),
        }
        try:
            self._metadata = {KEY: json.dumps(document, allow_nan=False).encode()}
            parse_json(self._metadata[KEY], "it")  # what cannot be read is not written
        except (TypeError, ValueError) as error:
            raise ChoqolateError(f"expected a provenance that JSON can hold: {error}") from None
        self._waiting: list[pa.Table] = []
        self._n_waiting = 0
        self._open = ExitStack()
        self._temporary: Path | None = None
        self._file: pq.ParquetWriter | None = None
        self._dtype: np.dtype[Any] | None = None
        self._n_rows = 0

    def __enter__(self) -> Self:
        self._temporary = self._open.enter_context(replacing(self.path))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._open.__exit__(kind, error, trace)  # the file is removed
            return
        with self._open:  # the file is renamed, or removed if something goes wrong now
            if self._dtype is None:
                self._add(np.empty((0, len(self.concepts)), dtype=np.float32), Rows())
            if self._waiting:
                self._write(self._n_waiting)
            if self._file is not None and self._temporary is not None:
                self._file.close()
                seal(self._temporary)

    def add(self, block: ConceptScores) -> None:
        """Add rows behind those that were added before."""
        if block.concepts != self.concepts:
            raise ChoqolateError("expected blocks with the concepts of the file, got others: select() them in order")
        self._add(block.scores, block.rows)

    def add_scores(self, scores: np.ndarray, rows: Rows) -> None:
        """Add rows by their scores ``(n, M)``, float32 or float64, and what is known of each."""
        check_finite(scores, self.concepts, self._n_rows)
        self._add(scores, rows)

    def _add(self, scores: np.ndarray, rows: Rows) -> None:
        if self._dtype is None:
            self._dtype = scores.dtype
        if scores.dtype != self._dtype or scores.shape != (len(rows), len(self.concepts)):
            raise ChoqolateError(
                f"expected {self._dtype} scores of shape ({len(rows)}, {len(self.concepts)}), got {scores.dtype} of "
                f"shape {scores.shape}"
            )
        self._n_rows += len(scores)
        step = group_rows(len(self.concepts), self._dtype)
        for start in range(0, max(1, len(scores)), step):
            part = slice(start, start + step)
            self._waiting.append(self._as_table(scores[part], rows.take(part)))
            self._n_waiting += len(self._waiting[-1])
            if self._n_waiting >= step:
                self._write(step)

    def _as_table(self, scores: np.ndarray, rows: Rows) -> pa.Table:
        flat = pa.array(scores.flatten())  # a copy: the rows may wait while the caller reuses the memory
        lists = pa.list_(pa.field("element", flat.type, nullable=False), len(self.concepts))
        columns = [text_array(getattr(rows, attribute), len(rows)) for attribute in ROW_COLUMNS.values()]
        columns.append(pa.FixedSizeListArray.from_arrays(flat, type=lists))
        fields = [*(pa.field(name, pa.string()) for name in ROW_COLUMNS), pa.field("scores", lists, nullable=False)]
        return pa.table(columns, schema=pa.schema(fields, metadata=self._metadata))

    def _write(self, n_rows: int) -> None:
        """Write so many of the waiting rows as one row group."""
        waiting = pa.concat_tables(self._waiting)
        group = waiting.slice(0, n_rows)
        self._waiting = [waiting.slice(n_rows)] if n_rows < len(waiting) else []
        self._n_waiting -= n_rows
        if self._file is None:
            self._file = pq.ParquetWriter(
                self._temporary,
                group.schema,
                compression="zstd",
                use_dictionary=["label", "split", "group"],
                use_byte_stream_split=["scores.list.element"],  # a fifth smaller, and no slower
                write_page_checksum=True,
            )
            self._open.callback(self._file.close)
        self._file.write_table(group, row_group_size=max(1, len(group)))
