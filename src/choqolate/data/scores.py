"""Tables of concept scores: what a classifier is trained on, and where it comes from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from choqolate._util.checks import as_names, check_finite, check_unique, find_concepts
from choqolate._util.text import listed, printable
from choqolate.data.manifest import (
    SPLITS,
    TEST_SHARE,
    Manifest,
    class_order,
    split_names,
    stratified_split,
    text_column,
)
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_BLOCK_ROWS = 8192  # rows turned to float64 at a time for the fingerprint
_COLUMNS = ("labels", "split", "groups", "paths")


@dataclass(frozen=True, eq=False)
class ConceptScores:
    """Raw scores of M concepts for n images, with what is known of each image.

    Attributes:
        scores: the scores ``(n, M)``, float32 or float64; of CLIP the cosine similarity of image and concept.
        concepts: names of the M concepts.
        labels: class of each row ``(n,)``, always text; entries may be ``None``; ``None`` altogether without labels.
        split: ``"train"``, ``"val"`` or ``"test"`` ``(n,)``, or ``None`` likewise.
        groups: group for worst-group accuracy ``(n,)``, or ``None`` likewise.
        paths: path of each image ``(n,)``, or ``None`` likewise.
        classes: the class names in the data set's order; without any, those of the labels, sorted.
        spurious: those of the concepts that are known to be spurious.
        provenance: how the scores came about (backbone, prompts, ...), such as JSON can hold.

    >>> table = ConceptScores([[0.21, 0.18], [0.17, 0.25]], ["sea", "forest"], labels=["gull", "wren"])
    >>> table
    ConceptScores(2 rows, 2 concepts, 2 classes, no split)
    >>> table.select("forest").take([1]).frame
       forest
    0    0.25
    """

    scores: np.ndarray
    concepts: tuple[str, ...]
    labels: np.ndarray | None = None
    split: np.ndarray | None = None
    groups: np.ndarray | None = None
    paths: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    spurious: tuple[str, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def keep(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        scores = _as_scores(self.scores)
        n_rows, n_concepts = scores.shape
        keep("scores", scores.view())
        self.scores.flags.writeable = False  # the fingerprint is of these numbers
        for name in ("concepts", "classes", "spurious"):
            keep(name, as_names(getattr(self, name), name))
        if len(self.concepts) != n_concepts or not n_concepts:
            raise ChoqolateError(
                f"expected one name for each column of scores, got {len(self.concepts)} concepts and scores of shape "
                f"{scores.shape}"
            )
        check_unique(self.concepts)
        if any(not name.strip() for name in self.concepts):
            raise ChoqolateError("expected every concept to have a name, got an empty one: name it or drop the column")
        check_finite(scores, self.concepts)
        if self.spurious:
            find_concepts(self.spurious, self.concepts, known="this table has")
        for name in _COLUMNS:
            keep(name, text_column(getattr(self, name), name, n_rows))
        if self.paths is not None:
            keep("paths", self.paths.astype(object))  # the longest path must not set the memory of all
        keep("split", split_names(self.split))
        keep("classes", tuple(map(str, class_order(self.labels, self.classes))))
        keep("provenance", dict(self.provenance))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a table from a ``.parquet`` or ``.csv`` file.

        Besides the Parquet files of :meth:`save` this takes any table, Parquet or CSV, with a column of numbers for
        each concept. The columns ``path`` (or ``image``, ``file``, ``filename``), ``label`` (or ``class``), ``split``
        and ``group`` may be there as well, in any case of letters; labels are taken as text. CSV files are UTF-8, with
        cells separated by ``,``, ``;`` or tabs.

        Raises:
            ChoqolateError: If there is no such file, or it is damaged, or a column is no score; the message names the
                file, the column and the row.
        """
        from choqolate.data import score_files as tables

        path = Path(path)
        try:
            return cls(**tables.read(path))
        except ChoqolateError as error:
            raise error if str(path) in str(error) else ChoqolateError(f"{path}: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write the table to a ``.parquet`` or ``.csv`` file, in one step.

        Parquet keeps everything. CSV keeps the rows, and every score to the last bit, but neither the order of the
        classes nor which concepts are spurious nor the provenance.

        Raises:
            ChoqolateError: If the suffix is another one, the file cannot be written, or CSV cannot hold a name.
        """
        from choqolate.data import score_files as tables

        tables.write(Path(path), self)

    @property
    def frame(self) -> pd.DataFrame:
        """The scores as a data frame with a column for each concept, fit for ``ChoqolateClassifier.fit``."""
        import pandas as pd

        return pd.DataFrame(self.scores, columns=list(self.concepts), copy=True)

    def plot_scores(self, concepts: Iterable[str], ax: Axes | None = None) -> Axes:
        """Draw the scores of two or three concepts by class, see :func:`choqolate.plots.concept_scores`."""
        from choqolate.plots import concept_scores

        return concept_scores(self, list(concepts), ax=ax)

    def part(self, split: str) -> Self:
        """The rows of ``"train"``, ``"val"`` or ``"test"``."""
        wanted = split_names(np.array([split], dtype=object))
        if self.split is None or wanted is None:
            came = "has no split" if self.split is None else f"was asked for {split!r}"
            raise ChoqolateError(f"expected rows for {listed(SPLITS)}, this table {came}: with_split() makes one")
        rows = self.split == wanted[0]
        if not rows.any():
            found = [name for name in SPLITS if (self.split == name).any()]
            raise ChoqolateError(f"expected rows for {split!r}, this table has rows for {listed(found)} only")
        return self.take(rows)

    def take(self, rows: Any) -> Self:
        """The given rows, by index, slice or mask."""
        try:
            index = np.arange(len(self))[rows if isinstance(rows, slice) else _row_index(rows)]
        except IndexError as error:
            raise ChoqolateError(f"expected row numbers or a mask for {len(self)} rows: {error}") from None
        parts: dict[str, Any] = {name: getattr(self, name) for name in _COLUMNS}
        taken: dict[str, Any] = {name: None if part is None else part[index] for name, part in parts.items()}
        return replace(self, scores=self.scores[index], **taken)

    def select(self, concepts: str | Iterable[str]) -> Self:
        """The given concepts, in the given order."""
        index = find_concepts(concepts, self.concepts, known="this table has")
        chosen = tuple(self.concepts[j] for j in index)
        spurious = tuple(name for name in self.spurious if name in chosen)
        return replace(self, scores=self.scores[:, index], concepts=chosen, spurious=spurious)

    def labelled(self) -> Self:
        """The rows that have a label."""
        if self.labels is None:
            raise ChoqolateError(
                'expected labels, this table has none: add a column "label", or join a manifest that knows the labels'
            )
        rows = np.array([label is not None for label in self.labels], dtype=bool)
        return self if rows.all() else self.take(rows)

    def with_split(self, test_share: float = TEST_SHARE) -> Self:
        """A fixed, stratified split into train and test where there is none and there are labels.

        Rows are told apart by their paths, or, where they have none, by number and label: see
        :func:`choqolate.data.manifest.stratified_split`.
        """
        if self.split is not None or self.labels is None:
            return self
        paths = [None] * len(self) if self.paths is None else self.paths
        names = [
            f"{row} {label}" if path is None else path
            for row, (path, label) in enumerate(zip(paths, self.labels, strict=True))
        ]
        split = stratified_split(list(map(printable, names)), self.labels.tolist(), test_share)
        return replace(self, split=np.array(split, dtype=object))

    def join(self, manifest: Manifest) -> Self:
        """Labels, split and groups from the rows of a manifest that have the same path: see :meth:`Manifest.join`."""
        if self.paths is None or any(path is None for path in self.paths):
            raise ChoqolateError("expected a table with a path in every row to join a manifest by, this one has not")
        rows = Manifest(Path(), self.paths, self.labels, self.split, self.groups, self.classes).join(manifest)
        return replace(self, labels=rows.labels, split=rows.split, groups=rows.groups, classes=rows.classes)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of scores (as float64), concepts and labels: equal for tables that hold the same, in any format."""
        labels = None if self.labels is None else [name and printable(name) for name in self.labels.tolist()]
        digest = hashlib.sha256(json.dumps([self.concepts, labels]).encode())
        for start in range(0, len(self), _BLOCK_ROWS):
            block = self.scores[start : start + _BLOCK_ROWS].astype("<f8") + 0.0  # turns -0.0 into 0.0
            digest.update(block.tobytes())
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        found = [] if self.split is None else [name for name in SPLITS if (self.split == name).any()]
        split = f"split into {', '.join(found)}" if found else "no split"
        classes = f"{len(self.classes)} classes" if self.labels is not None else "no labels"
        return f"ConceptScores({len(self):,} rows, {len(self.concepts):,} concepts, {classes}, {split})"


def _as_scores(value: Any) -> np.ndarray:
    """A matrix of float32 or float64; half precision becomes float32, whole numbers float64."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ChoqolateError(f"expected scores that are numbers, got others: {error}") from None
    if array.ndim != 2:
        raise ChoqolateError(f"expected scores of shape (rows, concepts), got shape {array.shape}: reshape them")
    if array.dtype in (np.float32, np.float64):
        return array
    return array.astype(np.float32 if array.dtype == np.float16 else np.float64)


def _row_index(rows: Any) -> np.ndarray:
    """Row numbers or a mask; an empty list is no rows."""
    index = np.atleast_1d(np.asarray(rows))
    return index if index.size else index.astype(np.intp)
