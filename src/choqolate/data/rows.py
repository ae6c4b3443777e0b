"""Rows of a table: what is known of each image, whatever else the table holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from choqolate._util.checks import as_names, find_named
from choqolate._util.text import listed, printable
from choqolate.data.splits import SPLITS, TEST_SHARE, check_part, row_name, split_names, stratified_split
from choqolate.errors import ChoqolateError

COLUMN_NAMES = {
    "path": ("path", "image", "file", "filename", "img_filename", "image_path"),
    "label": ("label", "class", "y", "target"),
    "split": ("split",),
    "group": ("group", "groups"),
}
"""What the columns of a table may be called, in small letters or capitals."""

COLUMNS = ("labels", "split", "groups", "paths")
AS_BEFORE: Any = object()
"""Stands for a column that was not named, where ``None`` would mean that it is not known."""


class NoLabels(ChoqolateError):
    """Labels are needed and the table has none."""

    def __init__(self) -> None:
        super().__init__(
            'expected labels, this table has none: add a column "label", name the one that holds them (label_column=, '
            "on the command line --label-column), or join a manifest that knows the labels"
        )


@dataclass(frozen=True, eq=False)
class Rows:
    """Labels, split, groups and paths of n rows. A column is ``None`` if nothing is known of any row.

    Attributes:
        labels: class of each row ``(n,)``, always text; ``None`` for rows without one.
        split: ``"train"``, ``"val"`` or ``"test"`` ``(n,)``; ``None`` for rows that are outside of all.
        groups: group for worst-group accuracy ``(n,)``; ``None`` for rows without one.
        paths: path of each image ``(n,)``; ``None`` for rows without one.
        classes: the class names in the data set's order; without any, those of the labels, sorted.
        n_rows: number of rows, where no column tells it.

    >>> rows = Rows(labels=["gull", "wren", None], paths=["1.jpg", "2.jpg", "3.jpg"])
    >>> len(rows), rows.classes, rows.split
    (3, ('gull', 'wren'), None)
    >>> rows.take([0, 2]).labels
    array(['gull', None], dtype=object)
    """

    labels: Any = None  # np.ndarray | None, given as anything that is one text per row; as are the next three
    split: Any = None
    groups: Any = None
    paths: Any = None
    classes: tuple[str, ...] = ()
    n_rows: int | None = None

    def __post_init__(self) -> None:
        def keep(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        given = {name: _as_list(getattr(self, name), name) for name in COLUMNS}
        lengths = [len(column) for column in given.values() if column is not None]
        keep("n_rows", self.n_rows if self.n_rows is not None else max(lengths, default=0))
        for name in ("labels", "split", "groups"):
            keep(name, _text_column(given[name], name, len(self)))
        keep("paths", _path_column(given["paths"], len(self)))
        keep("split", split_names(self.split))
        found = set() if self.labels is None else {label for label in self.labels.tolist() if label is not None}
        keep("classes", class_order(found, as_names(self.classes, "classes")))

    def __len__(self) -> int:
        return self.n_rows or 0

    def __repr__(self) -> str:
        known = [name for name in COLUMNS if getattr(self, name) is not None]
        return f"Rows({len(self):,} with {', '.join(known) or 'nothing known'})"

    def changed(self, **columns: Any) -> Self:
        """Other columns in place of some; those that are ``AS_BEFORE`` stay.

        Raises:
            ChoqolateError: if there is no such column.
        """
        for name in columns:
            if name != "n_rows":
                find_named(name, dict.fromkeys((*COLUMNS, "classes")), "a column")
        named = {name: column for name, column in columns.items() if column is not AS_BEFORE}
        return replace(self, **named) if named else self

    # ------------------------------------------------------------------ which rows

    def take(self, rows: Any) -> Self:
        """The given rows, by index, slice or mask."""
        index = self.index_of(rows)
        taken: dict[str, Any] = {
            name: None if (part := getattr(self, name)) is None else part[index] for name in COLUMNS
        }
        return replace(self, **taken, n_rows=len(index))

    def index_of(self, rows: Any) -> np.ndarray:
        """Row numbers from numbers, a slice or a mask.

        Raises:
            ChoqolateError: if there are no such rows.
        """
        if isinstance(rows, slice):
            return np.arange(*rows.indices(len(self)))
        wanted = np.atleast_1d(np.asarray(rows))
        if not wanted.size:
            wanted = wanted.astype(np.intp)  # an empty list is no rows
        try:
            index: np.ndarray = np.arange(len(self))[wanted]
        except IndexError as error:
            raise ChoqolateError(f"expected row numbers or a mask for {len(self)} rows: {error}") from None
        return index

    def labelled(self) -> np.ndarray:
        """Mask of the rows that have a label.

        Raises:
            ChoqolateError: if there are no labels at all.
        """
        if self.labels is None:
            raise NoLabels
        return np.array([label is not None for label in self.labels], dtype=bool)

    def grouped(self) -> np.ndarray:
        """Mask of the rows that have a group; of all rows where no group is known."""
        if self.groups is None:
            return np.ones(len(self), dtype=bool)
        return np.array([group is not None for group in self.groups], dtype=bool)

    def has_part(self, split: str) -> bool:
        """Whether some rows are for ``"train"``, ``"val"`` or ``"test"``."""
        return self.split is not None and bool((self.split == split).any())

    def part(self, split: str) -> np.ndarray:
        """Mask of the rows of ``"train"``, ``"val"`` or ``"test"``.

        Raises:
            ChoqolateError: if there are none.
        """
        found = None if self.split is None else [name for name in SPLITS if self.has_part(name)]
        mask: np.ndarray = self.split == check_part(split, found)
        return mask

    def counts(self) -> Iterator[tuple[str, str, str, int]]:
        """Number of rows for each split, class and group that occurs: (split, class, group, rows)."""
        columns = [
            [""] * len(self) if column is None else [value or "" for value in column.tolist()]
            for column in (self.split, self.labels, self.groups)
        ]
        found = Counter(zip(*columns, strict=True))
        order = {name: index for index, name in enumerate((*SPLITS, *self.classes))}
        for key in sorted(found, key=lambda key: [(order.get(part, len(order)), part) for part in key]):
            yield (*key, found[key])

    # ------------------------------------------------------------------ what is known of them

    def with_split(self, test_share: float = TEST_SHARE) -> Self:
        """A fixed, stratified split into train and test where there is none and there are labels.

        Rows are told apart by their paths, or, where they have none, by number and label: see
        :func:`~choqolate.data.splits.stratified_split`.
        """
        if self.split is not None or self.labels is None:
            return self
        paths = [None] * len(self) if self.paths is None else self.paths
        names = [*map(row_name, range(len(self)), paths, self.labels)]
        split = stratified_split(names, self.labels.tolist(), test_share)
        return replace(self, split=split)

    def find_in(self, other: Rows) -> list[int | None]:
        """The row of another table that has the same path as each of these; ``None`` where there is none."""
        if other.paths is None or self.paths is None:
            return [None] * len(self)
        at = {printable(path): row for row, path in enumerate(other.paths) if path is not None}
        return [None if path is None else at.get(printable(path)) for path in self.paths]

    def join(self, other: Rows) -> Self:
        """Labels, split and groups from the rows of another table that have the same path.

        What the other does not say stays as it was: rows that it does not have, and columns that it leaves empty. Rows
        that only the other has are ignored.

        Raises:
            ChoqolateError: if a row has no path, or no path is the same.
        """
        if self.paths is None or any(path is None for path in self.paths):
            raise ChoqolateError("expected a table with a path in every row to join a manifest by, this one has not")
        rows = self.find_in(other)
        if len(self) and all(row is None for row in rows):
            theirs = repr(str(other.paths[0])) if len(other) else "no rows"
            raise ChoqolateError(
                f"expected paths in common, these rows have {str(self.paths[0])!r} and those to join {theirs}: write "
                "the paths as seen from the same folder"
            )
        joined: dict[str, Any] = {}
        for name in ("labels", "split", "groups"):
            old, new = getattr(self, name), getattr(other, name)
            kept = [None] * len(self) if old is None else old.tolist()
            if new is not None:
                news = [None if row is None else new[row] for row in rows]
                kept = [have if said is None else said for have, said in zip(kept, news, strict=True)]
            joined[name] = kept
        left = set(joined["labels"]) - set(other.classes)
        classes = tuple(name for name in self.classes if name in left or other.labels is None)
        return replace(self, **joined, classes=(*other.classes, *classes))

    def with_printable_paths(self) -> Self:
        """Paths that every file format takes; bytes that are no UTF-8 are spelled out."""
        if self.paths is None:
            return self
        shown = [None if path is None else printable(path) for path in self.paths]
        return self if shown == self.paths.tolist() else replace(self, paths=shown)


def joined_labels_from(rows: Rows, own: str | None, other: Rows, others: str | None) -> str | None:
    """What the labels are after a join, if not annotations: that of each table that gives at least one label."""
    mine = [None] * len(rows) if rows.labels is None else rows.labels.tolist()
    theirs = [None] * len(other) if other.labels is None else other.labels.tolist()
    new = [None if row is None else theirs[row] for row in rows.find_in(other)]
    takes = any(label is not None for label in new)
    keeps = any(label is not None and said is None for label, said in zip(mine, new, strict=True))
    said = [own if keeps else None, others if takes else None]
    return "; ".join(dict.fromkeys(one for one in said if one is not None)) or None


def class_index(classes: Iterable[Any]) -> dict[str, int]:
    """The place of each class among the classes of a model, by its label as text, as tables of scores have it.

    >>> class_index(np.array([3, 5]))
    {'3': 0, '5': 1}
    """
    labels = classes.tolist() if isinstance(classes, np.ndarray) else classes
    return {str(label): place for place, label in enumerate(labels)}


def class_places(labels: Iterable[Any], classes: Iterable[Any]) -> np.ndarray:
    """The place of each row's label among the classes of a model ``(n,)``.

    Raises:
        ChoqolateError: if a label is not among them, or a row has none.

    >>> class_places(["5", "3", "3"], np.array([3, 5]))
    array([1, 0, 0])
    """
    given = list(labels)
    if None in given:
        raise ChoqolateError(
            f"Expected a label for every row, but {given.count(None)} of {len(given)} rows have none. Take those that "
            "have one with labelled()."
        )
    index, texts = class_index(classes), [str(label) for label in given]
    unknown = sorted(set(texts) - set(index))
    if unknown:
        raise ChoqolateError(
            f"expected labels among the model's classes {listed(list(index))}, the table has {listed(unknown)}"
        )
    return np.array([index[label] for label in texts], dtype=np.intp)


def _as_list(column: Any, name: str) -> list[Any] | None:
    """One plain value for each row, whatever holds them: a list, an array, a series or a tensor."""
    if column is None:
        return None
    if getattr(column, "ndim", 1) != 1:
        shape = tuple(column.shape)
        raise ChoqolateError(f"Expected one text for each row as {name}, got an array of shape {shape}. Flatten it.")
    try:
        if isinstance(column, str | bytes | Mapping | set | frozenset):
            raise TypeError("its letters or keys are not meant")
        items = column.tolist() if hasattr(column, "tolist") else list(column)
    except TypeError:
        raise ChoqolateError(f"expected one text for each row as {name}, got {column!r}") from None
    if set(map(type, items)) <= {str, type(None)}:  # nearly always, and quick to find out
        return items
    items = [item.item() if getattr(item, "ndim", None) == 0 else item for item in items]
    if any(isinstance(item, list) or hasattr(item, "ndim") for item in items):
        raise ChoqolateError(f"expected one text for each row as {name}, got lists or the like")
    return items


def _text_column(items: Sequence[Any] | None, name: str, n_rows: int) -> np.ndarray | None:
    """One text or ``None`` for each row; ``None`` altogether where nothing is known."""
    if items is None:
        return None
    try:
        known = {item: text_of(item) for item in set(items)}  # few are different
    except TypeError:
        raise ChoqolateError(f"expected one text for each row as {name}, got lists or the like") from None
    texts = _column([known[item] for item in items], name, n_rows)
    return texts if texts is None or None in texts else texts.astype(str)


def _path_column(items: Sequence[Any] | None, n_rows: int) -> np.ndarray | None:
    """Paths as they are, also such as cannot be printed: the files are opened by them."""
    if items is None:
        return None
    return _column([None if _is_missing(item) else str(item) for item in items], "paths", n_rows)


def _column(texts: list[str | None], name: str, n_rows: int) -> np.ndarray | None:
    if len(texts) != n_rows:
        raise ChoqolateError(f"expected {name} for {n_rows} rows, got {len(texts)}")
    if all(text is None for text in texts):
        return None
    column = np.empty(n_rows, dtype=object)
    column[:] = texts
    return column


def _is_missing(value: Any) -> bool:
    # pandas.NA, as text "<NA>", is neither equal to itself nor not
    return value is None or str(value).strip() in ("", "<NA>") or value != value


def text_of(value: Any) -> str | None:
    """A cell as text; ``None`` if it is empty."""
    if _is_missing(value):
        return None
    whole = isinstance(value, float) and value.is_integer()  # as numpy and pandas write labels 0, 1, 2
    return printable(str(int(value) if whole else value))


def class_order(found: Set[str], classes: Sequence[str] = ()) -> tuple[str, ...]:
    """The class names: as given, or those of the labels found, sorted."""
    order = tuple(dict.fromkeys(classes)) or tuple(sorted(found))
    unknown = sorted(found - set(order))
    if unknown:
        raise ChoqolateError(f"expected labels among {listed(order)}, got {listed(unknown)}")
    return order
