"""The manifest: which images there are, and what is known of each. Every reader of data yields one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from choqolate._util.text import counted, listed
from choqolate.data.rows import AS_BEFORE, Rows, joined_labels_from
from choqolate.data.splits import TEST_SHARE
from choqolate.errors import ChoqolateError


@dataclass(frozen=True, eq=False, init=False)
class Manifest:
    """Images in order, one row each.

    Attributes:
        root: the folder that the paths start from.
        rows: path, label, split and group of each image; also by the names ``paths`` (relative to ``root``, with
            forward slashes), ``labels``, ``split``, ``groups`` and ``classes``.
        source: where the rows come from: the name of a data set, ``"folder"`` or ``"csv"``.
        notes: what the reader left out or made up, one sentence each.
        labels_from: what the labels are, if they are not annotations: pseudo-labels, and of which classifier.

    >>> images = Manifest(Path("photos"), ["a.jpg", "b.jpg"], labels=["cat", None])
    >>> len(images), images.classes, images.split, images.files()
    (2, ('cat',), None, ['photos/a.jpg', 'photos/b.jpg'])
    """

    root: Path
    rows: Rows
    source: str
    notes: tuple[str, ...]
    labels_from: str | None

    def __init__(
        self,
        root: str | os.PathLike[str],
        paths: Any = AS_BEFORE,
        labels: Any = AS_BEFORE,
        split: Any = AS_BEFORE,
        groups: Any = AS_BEFORE,
        classes: Any = AS_BEFORE,
        source: str = "folder",
        notes: Iterable[str] = (),
        labels_from: str | None = None,
        *,
        rows: Rows | None = None,
    ) -> None:
        columns = {"paths": paths, "labels": labels, "split": split, "groups": groups, "classes": classes}
        known = {name: column for name, column in columns.items() if column is not AS_BEFORE}
        kept = Rows(**known) if rows is None else rows.changed(**known)
        fields = {"root": Path(root), "rows": kept, "source": source, "notes": tuple(notes), "labels_from": labels_from}
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        if any(path is None for path in self.paths) or len(self.paths) < len(kept):
            raise ChoqolateError("expected a path for every image, got none for some: leave these rows out")
        repeated = [path for path, count in Counter(self.paths).items() if count > 1]
        if repeated:
            raise ChoqolateError(f"expected every image once, got {listed(repeated)} more than once: drop the copies")

    paths = property(lambda self: np.empty(0, object) if self.rows.paths is None else self.rows.paths)
    labels = property(lambda self: self.rows.labels)
    split = property(lambda self: self.rows.split)
    groups = property(lambda self: self.rows.groups)
    classes = property(lambda self: self.rows.classes)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        classes = counted(len(self.classes), "class", "classes")
        return f"Manifest({counted(len(self), 'image')} in {str(self.root)!r}, {classes}, from {self.source})"

    def files(self) -> list[str]:
        """Full path of every image."""
        return [os.path.join(self.root, path) for path in self.paths]

    def with_columns(self, **columns: Any) -> Self:
        """Other labels, split, groups, paths or classes in place of those that there are; ``None`` for unknown."""
        labels_from = None if "labels" in columns else self.labels_from
        return replace(self, rows=self.rows.changed(**columns), labels_from=labels_from)

    def take(self, rows: Any) -> Self:
        """The given rows, by index, slice or mask."""
        return replace(self, rows=self.rows.take(rows))

    def with_split(self, test_share: float = TEST_SHARE) -> Self:
        """A fixed, stratified split into train and test where there is none: see :meth:`Rows.with_split`."""
        rows = self.rows.with_split(test_share)
        if rows is self.rows:
            return self
        note = f"no split was given: {test_share:.0%} of each class, always the same, are for testing"
        return replace(self, rows=rows, notes=(*self.notes, note))

    def join(self, other: Manifest) -> Self:
        """Labels, split and groups from the rows of another manifest that have the same path: see :meth:`Rows.join`.

        Raises:
            ChoqolateError: if no path is the same.
        """
        joined = self.rows.join(other.rows)
        matched = sum(row is not None for row in self.rows.find_in(other.rows))
        note = f"{matched:,} of {counted(len(self), 'image')} are in the table that was joined"
        notes = self.notes if matched == len(self) else (*self.notes, note)
        labels_from = joined_labels_from(self.rows, self.labels_from, other.rows, other.labels_from)
        return replace(self, rows=joined, notes=notes, labels_from=labels_from)
