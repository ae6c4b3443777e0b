"""Tables of concept scores that stay in their file: they are read block by block, and may be larger than memory."""

from __future__ import annotations

import hashlib
import itertools
import json
import warnings
from collections.abc import Generator, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

import numpy as np

from choqolate._util.checks import check_finite, find_concepts
from choqolate._util.memory import available_memory, check_memory
from choqolate._util.text import counted
from choqolate.data.column_roles import ROW_COLUMNS, ColumnNames, plain_cell, warn_of_likely_roles
from choqolate.data.parquet_reader import ParquetReader, reading
from choqolate.data.provenance import Provenance
from choqolate.data.row_codes import RowCodes
from choqolate.data.rows import NoLabels
from choqolate.data.sampling import SAMPLE_BYTES, SAMPLE_ROWS, sample_mask, sample_size
from choqolate.data.scores import ConceptScores, update_with_scores
from choqolate.data.source_errors import check_source, naming
from choqolate.data.splits import SPLITS, TEST_SHARE, check_part
from choqolate.errors import ChoqolateError, ChoqolateWarning

_COMPUTED = ("row_groups", "codes", "fingerprint", "_starts")  # from the rows and concepts that are chosen


class ScoreFile:
    """A table of concept scores in a Parquet file, of which one block at a time is in memory.

    It has the names of a :class:`~choqolate.data.scores.ConceptScores`, and methods that choose rows or concepts give
    another ``ScoreFile`` of the same file. Only the footer is read when it is opened. Labels, split and groups are read
    when they are needed first, and kept as a few bytes per row (``codes``); paths and scores are read with each block.

    Args:
        path: of a ``.parquet`` file, our own or one with a column for each concept.
        **columns: as for :meth:`~choqolate.data.scores.ConceptScores.load`.

    Attributes:
        path: of the file.
        header: the same table without rows: names of the concepts and provenance.
        dtype: of the scores, float32 or float64.

    Raises:
        ChoqolateError: if it is no such file, or damaged.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "scores.parquet"
    >>> ConceptScores([[0.2, 0.1], [0.1, 0.3]], ["sea", "forest"], labels=["gull", "wren"]).save(path)
    >>> file = ScoreFile(path)
    >>> file
    ScoreFile(2 rows, 2 concepts in 'scores.parquet')
    >>> [block.labels.tolist() for block in file.with_split().part("train").blocks()]
    [['gull', 'wren']]
    """

    def __init__(self, path: str | Path, **columns: Unpack[ColumnNames]) -> None:
        self.path, self._names = Path(path), columns
        if self.path.suffix.lower() != ".parquet":
            raise ChoqolateError(
                f"expected a .parquet file to read block by block, got {self.path}: load it whole and save it as "
                ".parquet"
            )
        self._all_groups: tuple[int, ...] = ()
        self._all_groups = self._reader.row_groups
        self.dtype = self._reader.dtype
        known = {name: value for name, value in self._reader.about.items() if name != "classes"}
        with reading(self.path):
            empty = np.empty((0, len(self._reader.concepts)), dtype=self.dtype)
            self.header = ConceptScores(empty, self._reader.concepts, **known)
        self._all_codes: list[RowCodes] = []  # of all rows of the file, once they are read
        self._made: dict[float, RowCodes] = {}  # the same with a split, for each share of test rows
        if self._reader.told_roles:
            known_roles = [role for role in ROW_COLUMNS if self._reader.column(role)]
            warn_of_likely_roles(self.path, known_roles, self._reader.numeric)
        self._mask: np.ndarray | None = None  # of these among the rows of the file
        self._columns: list[int] | None = None  # of these among the concepts of the file

    @property
    def concepts(self) -> tuple[str, ...]:
        """Names of the concepts."""
        return self.header.concepts

    @property
    def spurious(self) -> tuple[str, ...]:
        """Those of the concepts that are known to be spurious."""
        return self.header.spurious

    @property
    def provenance(self) -> Provenance:
        """How the scores came about."""
        return self.header.provenance

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the table."""
        return self.codes.classes

    @property
    def has_split(self) -> bool:
        """Whether rows are known to be for training, validation or testing."""
        return self.codes.has_split

    def __len__(self) -> int:
        return sum(self.row_groups)

    def __repr__(self) -> str:
        return f"ScoreFile({counted(len(self), 'row')}, {counted(len(self.concepts), 'concept')} in {self.path.name!r})"

    @cached_property
    def row_groups(self) -> tuple[int, ...]:
        """How many of the rows are in each row group of the file."""
        if self._mask is None:
            return self._all_groups
        return tuple(int(self._mask[start:stop].sum()) for start, stop in self._bounds)

    @property
    def n_bytes(self) -> int:
        """Size of the scores in memory, were they loaded."""
        return len(self) * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """Size of the scores of one row."""
        return len(self.concepts) * self.dtype.itemsize

    @cached_property
    def codes(self) -> RowCodes:
        """Label, split and group of each row, as small numbers."""
        if not self._all_codes:
            with reading(self.path):
                self._all_codes.append(RowCodes.read(self._reader))
        return self._all_codes[0] if self._mask is None else self._all_codes[0].take(self._mask)

    # ------------------------------------------------------------------ which rows and concepts

    def take(self, mask: np.ndarray) -> Self:
        """The rows of a mask ``(n,)``."""
        if mask.dtype != bool or mask.shape != (len(self),):
            raise ChoqolateError(f"expected a mask of {len(self)} rows, got {mask.dtype} of shape {mask.shape}")
        chosen = mask.copy()
        if self._mask is not None:
            chosen = self._mask.copy()
            chosen[self._mask] = mask
        return self._changed(_mask=chosen)

    def part(self, split: str) -> Self:
        """The rows of ``"train"``, ``"val"`` or ``"test"``."""
        found = [name for name in SPLITS if self.has_part(name)]
        name = check_part(split, found if self.codes.has_split else None)
        return self.take(self.codes.split == SPLITS.index(name))

    def has_part(self, split: str) -> bool:
        """Whether some rows are for ``"train"``, ``"val"`` or ``"test"``."""
        return bool((self.codes.split == SPLITS.index(split)).any())

    def labelled(self) -> Self:
        """The rows that have a label."""
        if not self.codes.has_labels:
            raise NoLabels
        mask = self.codes.labels >= 0
        return self if mask.all() else self.take(mask)

    def with_split(self, test_share: float = TEST_SHARE) -> Self:
        """The split of :meth:`ConceptScores.with_split` where there is none and there are labels.

        It reads the paths once, and takes 16 bytes per row while it works.
        """
        if self.codes.has_split or not self.codes.has_labels:
            return self
        if self._mask is not None:
            raise ChoqolateError("expected a whole file to split, got a part of one: split it before you take a part")
        if test_share not in self._made:
            self._made[test_share] = self.codes.with_split(self._reader.cells("path"), test_share)
        return self._changed(_all_codes=[self._made[test_share]])

    def select(self, concepts: str | Iterable[str]) -> Self:
        """The given concepts, in the given order."""
        index = find_concepts(concepts, self.concepts, known="this table has")
        columns = index if self._columns is None else [self._columns[j] for j in index]
        if index == list(range(len(self.concepts))):
            return self
        return self._changed(_columns=columns, header=self.header.select([self.concepts[j] for j in index]))

    # ------------------------------------------------------------------ their content

    def blocks(self, row_groups: Iterable[int] | None = None, *, paths: bool = True) -> Iterator[ConceptScores]:
        """The table in parts of at most 32 MB of scores, in the order of the file; a part without rows is left out.

        A column of a part is ``None`` if nothing is known of any of its rows.

        Args:
            row_groups: numbers of those to read, in this order; by default all.
            paths: read them too.
        """
        for where, scores, names in self._parts(row_groups, paths=paths):
            rows = self.codes.take(where).as_rows(names)
            yield self.header.with_rows(scores, rows)

    def arrays(
        self, row_groups: Iterable[int] | None = None, *, n_bytes: int | None = None
    ) -> Generator[tuple[slice, np.ndarray], None, None]:
        """The same as bare scores ``(n, M)``, each with the slice of ``codes`` that its rows are: faster.

        Args:
            row_groups: numbers of those to read, in this order; by default all.
            n_bytes: size of the scores of a part, at most; by default 32 MB.
        """
        for where, scores, _ in self._parts(row_groups, paths=False, n_bytes=n_bytes):
            yield where, scores

    def load(self) -> ConceptScores:
        """Read all these rows and concepts into memory.

        Raises:
            ChoqolateError: if they do not fit into what is free, before any is taken.
        """
        check_memory(self.path, self.n_bytes, "Read it block by block (--stream, or open_scores in Python).")
        scores = np.empty((len(self), len(self.concepts)), dtype=self.dtype)
        paths: list[Any] = []
        for where, part, names in self._parts(None, paths=True):
            scores[where] = part
            paths += names or ()
        return self.header.with_rows(scores, self.codes.as_rows(paths or None))

    def sample(
        self, n_rows: int = SAMPLE_ROWS, n_bytes: int = SAMPLE_BYTES, *, keep_rare: bool = True
    ) -> ConceptScores:
        """Load at most so many rows, with at most so many bytes of scores.

        They are chosen by a hash of their number in the file, the same on every machine, and rare classes are not left
        out, see :func:`~choqolate.data.sampling.sample_mask`; without ``keep_rare``, classes have the shares that they
        have in the file.
        """
        numbers = np.arange(len(self)) if self._mask is None else np.flatnonzero(self._mask)
        labels = self.codes.labels if keep_rare else np.zeros(len(numbers), dtype=int)
        return self.take(sample_mask(numbers, labels, n_rows, self.row_bytes, n_bytes)).load()

    def sample_size(self, n_rows: int = SAMPLE_ROWS, n_bytes: int = SAMPLE_BYTES) -> int:
        """How many rows :meth:`sample` loads."""
        return min(len(self), sample_size(n_rows, self.row_bytes, n_bytes))

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the loaded table, see :attr:`ConceptScores.fingerprint`; takes one pass over the file."""
        digest = hashlib.sha256(f"[{json.dumps(self.concepts)}, ".encode())
        if self.codes.has_labels:
            names = [*map(json.dumps, self.classes), "null"]
            for start in range(0, len(self), 1 << 16):
                texts = ", ".join(names[code] for code in self.codes.labels[start : start + (1 << 16)].tolist())
                digest.update(f"{', ' if start else '['}{texts}".encode())
            digest.update(b"]]")
        else:
            digest.update(b"null]")
        for _, scores in self.arrays():
            update_with_scores(digest, scores)
        return digest.hexdigest()

    # ------------------------------------------------------------------ inside

    def _changed(self, **changes: Any) -> Self:
        other = object.__new__(type(self))  # a copy would be sent like a pickle, and open the file again
        kept = {name: value for name, value in self.__dict__.items() if name not in _COMPUTED}
        other.__dict__.update(kept | changes)
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Another process opens the file itself, when it first reads from it."""
        state = {name: value for name, value in self.__dict__.items() if name != "_reader"}
        return state | {"path": self.path.resolve()}

    @cached_property
    def _reader(self) -> ParquetReader:
        """The file, opened in this process."""
        check_source(self.path)
        reader = ParquetReader(self.path, **self._names)
        if self._all_groups not in ((), reader.row_groups):
            raise ChoqolateError(
                f"Expected the same table in every process, but {self.path} has other rows here. Use a path that all "
                "machines share, and do not change the file meanwhile."
            )
        return reader

    @cached_property
    def _starts(self) -> list[int]:
        """Number of the first of these rows in each row group, and of the row behind the last."""
        return [0, *itertools.accumulate(self.row_groups)]

    @cached_property
    def _bounds(self) -> list[tuple[int, int]]:
        """First row of each row group of the file, and the row behind its last."""
        return list(itertools.pairwise([0, *itertools.accumulate(self._all_groups)]))

    def _parts(
        self, row_groups: Iterable[int] | None, *, paths: bool, n_bytes: int | None = None
    ) -> Iterator[tuple[slice, np.ndarray, list[Any] | None]]:
        """Rows that are in one block of the file: where they are among these rows, their scores, and paths."""
        for k in range(len(self._bounds)) if row_groups is None else row_groups:
            start, row = self._starts[k], self._bounds[k][0]
            if not self.row_groups[k]:
                continue
            for scores, cells in self._reader.blocks(k, self._columns, paths=paths, n_bytes=n_bytes):
                with naming(self.path):
                    check_finite(scores, self.concepts, first=row)
                names = None if cells is None else [plain_cell(cell) for cell in cells]
                taken = scores
                if self._mask is not None:
                    chosen = self._mask[row : row + len(scores)]
                    taken = scores[chosen]
                    names = names and list(itertools.compress(names, chosen))
                if len(taken):
                    yield slice(start, start + len(taken)), taken, names
                start, row = start + len(taken), row + len(scores)


Table = TypeVar("Table", ConceptScores, ScoreFile)
"""A table in memory or in its file, where something takes either."""


def open_scores(
    path: str | Path, *, stream: bool | None = None, **columns: Unpack[ColumnNames]
) -> ConceptScores | ScoreFile:
    """Load a table, or open it to be read block by block if it is large.

    Args:
        path: of a ``.parquet`` or ``.csv`` file; only the former can be read block by block.
        stream: read it block by block in any case, or in no case; by default if the scores would take more than a
            third of the memory that is available.
        **columns: as for :meth:`ConceptScores.load`.

    Raises:
        ChoqolateError: as :meth:`ConceptScores.load`; also if a CSV file is to be read block by block.
    """
    memory = available_memory()
    if stream is None and Path(path).suffix.lower() != ".parquet":
        if memory is not None and Path(path).is_file() and Path(path).stat().st_size > memory:
            message = f"{path} may not fit into memory: it is read whole. Save it as .parquet where it does."
            warnings.warn(message, ChoqolateWarning, stacklevel=2)
        return ConceptScores.load(path, **columns)
    if stream is False:
        return ConceptScores.load(path, **columns)
    file = ScoreFile(path, **columns)
    return file if stream or (memory is not None and file.n_bytes > memory / 3) else file.load()
