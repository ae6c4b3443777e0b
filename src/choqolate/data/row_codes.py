"""Labels, split and groups of very many rows: small numbers instead of text, a few bytes per row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from choqolate.data.column_roles import check_groups, plain_cell
from choqolate.data.parquet_reader import ParquetReader
from choqolate.data.rows import Rows, class_order, text_of
from choqolate.data.splits import SPLITS, TEST_SHARE, name_keys, ranked_split, row_name, split_names


@dataclass(frozen=True, eq=False)
class RowCodes:
    """What is known of each row, as the place of a name in a list; -1 where nothing is known.

    Attributes:
        labels: places among ``classes`` ``(n,)``.
        split: places among ``choqolate.data.splits.SPLITS`` ``(n,)``.
        groups: places among ``group_names`` ``(n,)``.
        classes: the class names, in the order of the table.
        group_names: the group names, sorted.
    """

    labels: np.ndarray
    split: np.ndarray
    groups: np.ndarray
    classes: tuple[str, ...]
    group_names: tuple[str, ...]

    @classmethod
    def read(cls, reader: ParquetReader) -> Self:
        """Read the columns of a file without its scores."""
        n_rows = sum(reader.row_groups)
        given = tuple(reader.about.get("classes", ()))
        labels, classes = _codes(reader.cells("label"), n_rows, lambda found: class_order(found, given))
        split, _ = _codes(reader.cells("split"), n_rows, lambda found: SPLITS, _split_name)
        groups, group_names = _codes(reader.cells("group"), n_rows, sorted)
        if reader.told_roles:
            check_groups(group_names, int((groups >= 0).sum()), reader.column("group") or "group")
        return cls(labels, split, groups, classes, group_names)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def has_labels(self) -> bool:
        """Whether the label of any row is known."""
        return bool((self.labels >= 0).any())

    @property
    def has_split(self) -> bool:
        """Whether the split of any row is known."""
        return bool((self.split >= 0).any())

    @property
    def has_groups(self) -> bool:
        """Whether the group of any row is known."""
        return bool((self.groups >= 0).any())

    def take(self, rows: Any) -> Self:
        """The given rows, by index, slice or mask."""
        return replace(self, labels=self.labels[rows], split=self.split[rows], groups=self.groups[rows])

    def as_rows(self, paths: Sequence[str | None] | None) -> Rows:
        """The same as text, with the paths of the rows."""
        return Rows(
            labels=named(self.labels, self.classes),
            split=named(self.split, SPLITS),
            groups=named(self.groups, self.group_names),
            paths=paths,
            classes=self.classes,
            n_rows=len(self),
        )

    def with_split(self, paths: Iterable[pa.Array], test_share: float = TEST_SHARE) -> Self:
        """The split that :meth:`~choqolate.data.rows.Rows.with_split` makes, from paths that come piece by piece.

        Takes 16 bytes per row while it works.

        Args:
            paths: of all rows, in their order; nothing where there are none.
            test_share: share of each class for testing.
        """
        keys, start = np.empty(len(self), dtype=np.uint64), 0
        for piece in _or_missing(paths, len(self)):
            labels = named(self.labels[start : start + len(piece)], self.classes)
            rows = range(start, start + len(piece))
            keys[start : start + len(piece)] = name_keys(map(row_name, rows, piece, labels))
            start += len(piece)
        return replace(self, split=ranked_split(keys, self.labels, test_share))


def named(codes: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """The names that codes stand for ``(n,)``, each text in memory once; ``None`` for -1.

    >>> named(np.array([1, -1, 0]), ("gull", "wren")).tolist()
    ['wren', None, 'gull']
    """
    table = np.empty(len(names) + 1, dtype=object)
    table[:-1], table[-1] = names, None
    result: np.ndarray = table[codes]
    return result


def _or_missing(paths: Iterable[pa.Array], n_rows: int) -> Iterable[list[str | None]]:
    empty = True
    for piece in paths:
        empty = False
        yield [text_of(plain_cell(cell)) for cell in piece.to_pylist()]
    if empty:
        for start in range(0, n_rows, 1 << 16):
            yield [None] * min(1 << 16, n_rows - start)


def _codes(
    pieces: Iterable[pa.Array],
    n_rows: int,
    order: Callable[[set[str]], Sequence[str]],
    translate: Callable[[str], str] = str,
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Places ``(n,)`` of the cells of a column in a list of names, and that list."""
    found: dict[str, int] = {}
    columns = []
    for piece in pieces:
        encoded = piece if pa.types.is_dictionary(piece.type) else piece.dictionary_encode()
        texts = [text_of(plain_cell(value)) for value in encoded.dictionary.to_pylist()]
        values = [-1 if text is None else found.setdefault(translate(text), len(found)) for text in texts]
        places = encoded.indices.cast(pa.int32()).fill_null(len(values)).to_numpy()
        columns.append(_smallest(np.array([*values, -1]), len(found))[places])
    names = tuple(order(set(found)))
    place = {name: k for k, name in enumerate(names)}
    renumbered = np.array([*(place[name] for name in found), -1])
    codes = np.concatenate(columns) if columns else np.full(n_rows, -1, dtype=np.int8)
    return _smallest(renumbered, len(names))[codes], names


def _smallest(codes: np.ndarray, n_names: int) -> np.ndarray:
    kind = next(kind for kind in (np.int8, np.int16, np.int32) if n_names <= np.iinfo(kind).max)
    return codes.astype(kind)


def _split_name(text: str) -> str:
    names = split_names(np.array([text], dtype=object))
    assert names is not None
    return str(names[0])
