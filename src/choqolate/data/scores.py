"""Tables of concept scores: what a classifier is trained on, and where it comes from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from choqolate._util.checks import as_names, check_finite, check_unique, find_concepts
from choqolate._util.text import counted, printable
from choqolate.data.manifest import Manifest
from choqolate.data.provenance import Provenance
from choqolate.data.rows import AS_BEFORE, Rows, class_index, joined_labels_from
from choqolate.data.sampling import SAMPLE_BYTES, SAMPLE_ROWS, sample_mask
from choqolate.data.splits import SPLITS, TEST_SHARE
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from choqolate.data.column_roles import ColumnNames
    from choqolate.data.score_file import ScoreFile

_BLOCK_VALUES = 1 << 22  # scores turned to float64 at a time for the fingerprint: 32 MB


@dataclass(frozen=True, eq=False, init=False)
class ConceptScores:
    """Raw scores of M concepts for n images, with what is known of each image.

    Attributes:
        scores: the scores ``(n, M)``, float32 or float64; of CLIP the cosine similarity of image and concept.
        concepts: names of the M concepts.
        rows: label, split, group and path of each image; also by the names ``labels``, ``split``, ``groups``, ``paths``
            and ``classes``, see :class:`~choqolate.data.rows.Rows`.
        spurious: those of the concepts that are known to be spurious.
        provenance: how the scores came about, see :class:`~choqolate.data.provenance.Provenance`.

    >>> table = ConceptScores([[0.21, 0.18], [0.17, 0.25]], ["sea", "forest"], labels=["gull", "wren"])
    >>> table
    ConceptScores(2 rows, 2 concepts, 2 classes, no split)
    >>> table.select("forest").take([1]).frame
       forest
    0    0.25
    """

    scores: np.ndarray
    concepts: tuple[str, ...]
    rows: Rows
    spurious: tuple[str, ...]
    provenance: Provenance

    def __init__(
        self,
        scores: Any,
        concepts: Iterable[str],
        labels: Any = AS_BEFORE,
        split: Any = AS_BEFORE,
        groups: Any = AS_BEFORE,
        paths: Any = AS_BEFORE,
        classes: Any = AS_BEFORE,
        spurious: Iterable[str] = (),
        provenance: Provenance | Mapping[str, Any] | None = None,
        *,
        rows: Rows | None = None,
    ) -> None:
        matrix = _as_scores(scores)
        columns = {"labels": labels, "split": split, "groups": groups, "paths": paths, "classes": classes}
        if rows is not None and len(rows) != len(matrix):
            columns["n_rows"] = len(matrix)
        about = (Rows(n_rows=len(matrix)) if rows is None else rows).changed(**columns).with_printable_paths()
        fields = {
            "scores": matrix.view(),
            "concepts": as_names(concepts, "concepts"),
            "rows": about,
            "spurious": as_names(spurious, "spurious"),
            "provenance": Provenance.of(provenance),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        self.scores.flags.writeable = False  # the fingerprint is of these numbers
        self._check()

    def _check(self) -> None:
        n_concepts = self.scores.shape[1]
        if len(self.concepts) != n_concepts or not n_concepts:
            raise ChoqolateError(
                f"expected one name for each column of scores, got {len(self.concepts)} concepts and scores of shape "
                f"{self.scores.shape}"
            )
        check_unique(self.concepts)
        if any(not name.strip() for name in self.concepts):
            raise ChoqolateError("expected every concept to have a name, got an empty one: name it or drop the column")
        check_finite(self.scores, self.concepts)
        if self.spurious:
            find_concepts(self.spurious, self.concepts, known="this table has")

    labels = property(lambda self: self.rows.labels)
    split = property(lambda self: self.rows.split)
    groups = property(lambda self: self.rows.groups)
    paths = property(lambda self: self.rows.paths)
    classes = property(lambda self: self.rows.classes)

    @classmethod
    def load(cls, path: str | Path, **columns: Unpack[ColumnNames]) -> ConceptScores:
        """Read a table from a ``.parquet`` or ``.csv`` file.

        Besides the Parquet files of :meth:`save` this takes any table, Parquet or CSV, with a column of numbers for
        each concept. The columns ``path``, ``label``, ``split`` and ``group`` may be there as well, in any case of
        letters; labels are taken as text. CSV files are UTF-8, with cells separated by ``,``, ``;`` or tabs.

        Args:
            path: of the file.
            **columns: names of these columns where they are called otherwise: ``path_column``, ``label_column``,
                ``split_column`` and ``group_column``.

        Raises:
            ChoqolateError: If there is no such file, or it is damaged, or a column is no score; the message names the
                file, the column and the row.
        """
        from choqolate.data import score_files as tables

        return tables.read(Path(path), **columns)

    @staticmethod
    def open(path: str | Path, **columns: Unpack[ColumnNames]) -> ScoreFile:
        """Open a ``.parquet`` file without reading its scores, for tables that are larger than memory.

        Args:
            path: of the file.
            **columns: as for :meth:`load`.

        Raises:
            ChoqolateError: as :meth:`load`; also for a CSV file, which can only be read whole.
        """
        from choqolate.data.score_file import ScoreFile

        return ScoreFile(path, **columns)

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
        return self.take(self.rows.part(split))

    has_split = property(lambda self: self.rows.split is not None)

    def has_part(self, split: str) -> bool:
        """Whether some rows are for ``"train"``, ``"val"`` or ``"test"``."""
        return self.rows.has_part(split)

    def blocks(self) -> Iterator[Self]:
        """The table itself, as the only block: a :class:`~choqolate.data.score_file.ScoreFile` may have many."""
        yield self

    def with_columns(self, **columns: Any) -> Self:
        """Other labels, split, groups, paths or classes in place of those that there are; ``None`` for unknown."""
        known = replace(self.provenance, labels_from=None) if "labels" in columns else self.provenance
        return self._changed(rows=self.rows.changed(**columns).with_printable_paths(), provenance=known)

    def with_rows(self, scores: np.ndarray, rows: Rows) -> Self:
        """Other rows of the same concepts, taken as they are: nothing is checked again.

        Args:
            scores: of these concepts ``(n, M)``, float32 or float64, finite.
            rows: what is known of each of the n rows.
        """
        return self._changed(scores=scores, rows=rows.with_printable_paths())

    def _changed(self, **changes: Any) -> Self:
        """A copy with some fields changed that cannot be wrong, so that nothing is checked again."""
        other = object.__new__(type(self))
        for one in fields(self):
            object.__setattr__(other, one.name, changes.get(one.name, getattr(self, one.name)))
        if "scores" in changes:
            object.__setattr__(other, "scores", changes["scores"].view())
        other.scores.flags.writeable = False  # the fingerprint is of these numbers
        return other

    def take(self, rows: Any) -> Self:
        """The given rows, by index, slice or mask."""
        index = self.rows.index_of(rows)
        return self._changed(scores=self.scores[index], rows=self.rows.take(index))

    def sample(self, n_rows: int = SAMPLE_ROWS, n_bytes: int = SAMPLE_BYTES) -> Self:
        """At most so many rows, with at most so many bytes of scores, chosen by a hash of their number.

        Rare classes are not left out, see :func:`~choqolate.data.sampling.sample_mask`.
        """
        row_bytes = len(self.concepts) * self.scores.itemsize
        place = class_index(self.classes)
        labels = [None] * len(self) if self.rows.labels is None else self.rows.labels
        codes = np.array([-1 if label is None else place[label] for label in labels], dtype=np.int32)
        mask = sample_mask(np.arange(len(self)), codes, n_rows, row_bytes, n_bytes)
        return self if mask.all() else self.take(mask)

    def select(self, concepts: str | Iterable[str]) -> Self:
        """The given concepts, in the given order."""
        index = find_concepts(concepts, self.concepts, known="this table has")
        chosen = tuple(self.concepts[j] for j in index)
        kept = set(chosen)
        spurious = tuple(name for name in self.spurious if name in kept)
        return self._changed(scores=self.scores[:, index], concepts=chosen, spurious=spurious)

    def labelled(self) -> Self:
        """The rows that have a label."""
        mask = self.rows.labelled()
        return self if mask.all() else self.take(mask)

    def grouped(self) -> Self:
        """The rows that have a group; all rows where no group is known."""
        mask = self.rows.grouped()
        return self if mask.all() else self.take(mask)

    def with_split(self, test_share: float = TEST_SHARE) -> Self:
        """A fixed, stratified split into train and test where there is none and there are labels.

        Rows are told apart by their paths, or, where they have none, by number and label: see
        :meth:`~choqolate.data.rows.Rows.with_split`.
        """
        rows = self.rows.with_split(test_share)
        return self if rows is self.rows else self._changed(rows=rows)

    def join(self, manifest: Manifest) -> Self:
        """Labels, split and groups from the rows of a manifest that have the same path: see :meth:`Rows.join`."""
        labels_from = joined_labels_from(self.rows, self.provenance.labels_from, manifest.rows, manifest.labels_from)
        known = replace(self.provenance, labels_from=labels_from)
        return self._changed(rows=self.rows.join(manifest.rows), provenance=known)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of scores (as float64), concepts and labels: equal for tables that hold the same, in any format."""
        labels = None if self.labels is None else [name and printable(name) for name in self.labels.tolist()]
        digest = hashlib.sha256(json.dumps([self.concepts, labels]).encode())
        update_with_scores(digest, self.scores)
        return digest.hexdigest()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Protect the scores of a copy too; its fingerprint is computed when it is asked for."""
        self.__dict__.update({name: value for name, value in state.items() if name != "fingerprint"})
        self.scores.flags.writeable = False

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        found = [name for name in SPLITS if self.rows.has_part(name)]
        split = f"split into {', '.join(found)}" if found else "no split"
        classes = counted(len(self.classes), "class", "classes") if self.labels is not None else "no labels"
        sizes = f"{counted(len(self), 'row')}, {counted(len(self.concepts), 'concept')}"
        return f"ConceptScores({sizes}, {classes}, {split})"


def update_with_scores(digest: Any, scores: np.ndarray) -> None:
    """Add scores ``(n, M)`` to a fingerprint; those of a table may come in several parts."""
    step = max(1, _BLOCK_VALUES // scores.shape[1])
    for start in range(0, len(scores), step):
        block = np.ascontiguousarray(scores[start : start + step], dtype="<f8")
        digest.update(block + 0.0)  # turns -0.0 into 0.0


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
