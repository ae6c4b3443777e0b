"""The manifest: which images there are, and what is known of each. Every reader of data yields one."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from choqolate._util.checks import check_number
from choqolate._util.text import listed, printable
from choqolate.errors import ChoqolateError

SPLITS = ("train", "val", "test")
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training", "trn"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing", "tst"), "test"),
}
TEST_SHARE = 0.3
COLUMN_NAMES = {
    "path": ("path", "image", "file", "filename", "img_filename", "image_path"),
    "label": ("label", "class", "y", "target"),
    "split": ("split",),
    "group": ("group", "groups"),
}
"""What the columns of a table may be called, in small letters or capitals."""


@dataclass(frozen=True)
class Manifest:
    """Images in order, one row each.

    Attributes:
        root: the folder that the paths start from.
        paths: path of each image relative to ``root``, with forward slashes ``(n,)``.
        labels: class of each image ``(n,)``, entries may be ``None``; ``None`` altogether if there are no labels.
        split: ``"train"``, ``"val"`` or ``"test"`` ``(n,)``, or ``None`` likewise.
        groups: group for worst-group accuracy ``(n,)``, or ``None`` likewise.
        classes: the class names in the data set's order.
        source: where the rows come from: the name of a data set, ``"folder"`` or ``"csv"``.
        notes: what the reader left out or made up, one sentence each.

    >>> rows = Manifest(Path("photos"), ["a.jpg", "b.jpg"], labels=["cat", None])
    >>> len(rows), rows.classes, rows.split, rows.files()
    (2, ('cat',), None, ['photos/a.jpg', 'photos/b.jpg'])
    """

    root: Path
    paths: np.ndarray
    labels: np.ndarray | None = None
    split: np.ndarray | None = None
    groups: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    source: str = "folder"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        def keep(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        keep("root", Path(self.root))
        paths = np.empty(len(self.paths), dtype=object)
        paths[:] = [str(path) for path in self.paths]
        keep("paths", paths)
        for name in ("labels", "split", "groups"):
            keep(name, text_column(getattr(self, name), name, len(paths)))
        keep("split", split_names(self.split))
        keep("classes", class_order(self.labels, self.classes))
        repeated = [path for path, count in Counter(paths).items() if count > 1]
        if repeated:
            raise ChoqolateError(f"expected every image once, got {listed(repeated)} more than once: drop the copies")

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        return f"Manifest({len(self)} images in {str(self.root)!r}, {len(self.classes)} classes, from {self.source})"

    def files(self) -> list[str]:
        """Full path of every image."""
        return [os.path.join(self.root, path) for path in self.paths]

    def take(self, rows: np.ndarray) -> Self:
        """The given rows, by index or by mask."""
        parts: dict[str, Any] = {name: getattr(self, name) for name in ("paths", "labels", "split", "groups")}
        taken: dict[str, Any] = {name: None if part is None else part[rows] for name, part in parts.items()}
        return replace(self, **taken)

    def with_split(self, test_share: float = TEST_SHARE) -> Self:
        """A fixed, stratified split into train and test where there is none; see :func:`stratified_split`."""
        if self.split is not None or self.labels is None:
            return self
        note = f"no split was given: {test_share:.0%} of each class, always the same, are for testing"
        split = stratified_split([printable(path) for path in self.paths], self.labels.tolist(), test_share)
        return replace(self, split=np.array(split, dtype=object), notes=(*self.notes, note))

    def join(self, other: Manifest) -> Self:
        """Labels, split and groups from the rows of another manifest that have the same path.

        What the other does not say stays as it was: rows that it does not have, and columns that it leaves empty. Rows
        that only the other has are ignored.

        Raises:
            ChoqolateError: if no path is the same.
        """
        at = {printable(path): row for row, path in enumerate(other.paths)}
        rows = [at.get(printable(path)) for path in self.paths]
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
            joined[name] = np.array(kept, dtype=object)
        matched = sum(row is not None for row in rows)
        note = f"{matched:,} of {len(self):,} images are in the table that was joined"
        left = set(joined["labels"].tolist()) - set(other.classes)
        classes = tuple(name for name in self.classes if name in left or other.labels is None)
        notes = self.notes if matched == len(self) else (*self.notes, note)
        return replace(self, **joined, classes=(*other.classes, *classes), notes=notes)

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


def text_column(values: Iterable[Any] | None, name: str, n_rows: int) -> np.ndarray | None:
    """One text or ``None`` for each row; ``None`` altogether where nothing is known.

    >>> text_column(["a", None], "labels", 2)
    array(['a', None], dtype=object)
    >>> text_column(["", None], "labels", 2)
    """
    if values is None:
        return None
    values = values.tolist() if isinstance(values, np.ndarray) else list(values)
    try:
        known = {value: _text(value) for value in set(values)}  # few are different
    except TypeError:
        raise ChoqolateError(f"expected one text for each row as {name}, got lists or the like") from None
    items = [known[value] for value in values]
    if len(items) != n_rows:
        raise ChoqolateError(f"expected {name} for {n_rows} rows, got {len(items)}")
    if all(item is None for item in items):
        return None
    if any(item is None for item in items):
        column = np.empty(n_rows, dtype=object)
        column[:] = items
        return column
    return np.array(items, dtype=str)


def _text(value: Any) -> str | None:
    if value is None or value != value or str(value).strip() in ("", "<NA>"):
        return None
    whole = isinstance(value, float) and value.is_integer()  # as numpy and pandas write labels 0, 1, 2
    return printable(str(int(value) if whole else value))


def split_names(split: np.ndarray | None) -> np.ndarray | None:
    """Splits by the names of this library: train, val, test.

    >>> split_names(np.array(["Training", "valid"]))
    array(['train', 'val'], dtype='<U5')
    """
    if split is None:
        return None
    found = {name for name in split if name is not None}
    unknown = sorted(name for name in found if name.strip().lower() not in SPLIT_NAMES)
    if unknown:
        raise ChoqolateError(f"expected splits called {', '.join(SPLITS)}, got {listed(unknown)}: rename them")
    names = [None if name is None else SPLIT_NAMES[name.strip().lower()] for name in split]
    return text_column(names, "split", len(split))


def class_order(labels: np.ndarray | None, classes: Sequence[str] = ()) -> tuple[str, ...]:
    """The class names: as given, or as they occur, sorted."""
    found = set() if labels is None else {label for label in labels.tolist() if label is not None}
    order = tuple(dict.fromkeys(map(printable, classes))) or tuple(sorted(found))
    unknown = sorted(found - set(order))
    if unknown:
        raise ChoqolateError(f"expected labels among {listed(order)}, got {listed(unknown)}")
    return order


def stratified_split(
    names: Sequence[str], labels: Sequence[str | None], test_share: float = TEST_SHARE
) -> list[str | None]:
    """``"train"`` or ``"test"`` for each row, the same share of every class in both; ``None`` without a label.

    Rows of a class are ranked by a hash of their name, so the split is the same on every machine, whatever the order
    of the rows, and hardly moves when images are added.

    >>> stratified_split(["a", "b", "c", "d"], ["x", "x", "y", "y"], test_share=0.5)
    ['train', 'test', 'train', 'test']
    """
    check_number("test_share", test_share, minimum=0, strict=True)
    if test_share >= 1:
        raise ChoqolateError(f"expected test_share to be less than 1, got {test_share}")
    ranked: dict[str, list[int]] = {}
    for index in sorted(range(len(names)), key=lambda i: hashlib.sha256(names[i].encode()).digest()):
        label = labels[index]
        if label is not None:
            ranked.setdefault(label, []).append(index)
    split: list[str | None] = [None] * len(names)
    for members in ranked.values():
        n_test = min(max(round(test_share * len(members)), 1), len(members) - 1)
        for rank, index in enumerate(members):
            split[index] = "test" if rank < n_test else "train"
    return split
