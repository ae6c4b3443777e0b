"""The bundle: a model and rows of a table as one blob, all that the page computes with."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate import __version__
from choqolate._util.checks import check_number
from choqolate._util.text import counted
from choqolate.analysis.evaluation import spurious_concepts
from choqolate.analysis.row_doubts import warn_of_another_source, warn_of_training_rows
from choqolate.concepts.new_images import find_images
from choqolate.errors import ChoqolateWarning
from choqolate.estimators.table_inputs import inputs
from choqolate.explain.model_protocols import check_choquet_model
from choqolate.report.image_cards import shown_path
from choqolate.studio.model_arrays import describe_network
from choqolate.studio.row_choice import ROWS, TRAINING, RowChoice, choose_rows
from choqolate.studio.suspect_entries import find_uncovered_suspects, suspect_entries

if TYPE_CHECKING:
    from choqolate.analysis.suspects import Suspects
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier

FORMAT, FORMAT_VERSION = "choqolate-studio", 1
NAMES = ("model", "scores.parquet")
MOST_SCORE_BYTES = 5_000_000  # of the rows that are loaded at first
STEPS = 65535  # of a score in 16 bits


@dataclass(frozen=True, eq=False)
class BundleRows:
    """The rows of a table in the order of the studio, to be taken from anywhere in it.

    Attributes:
        model: a fitted classifier.
        table: scores; its provenance says where the images are.
        choice: the order of the rows and what each is for.
        in_16_bits: whether scores are stored in 16 bits.
    """

    model: ChoqolateClassifier
    table: ConceptScores
    choice: RowChoice
    in_16_bits: bool

    def __len__(self) -> int:
        return len(self.choice)

    def arrays(self, start: int, count: int) -> dict[str, np.ndarray]:
        """The arrays of some rows, see :meth:`Bundle.rows_blob`."""
        numbers = self.choice.order[start : start + count]
        columns = {name: getattr(self.choice, name)[numbers] for name in ("label", "split", "group", "stratum", "role")}
        columns["number"] = numbers.astype(np.int32)
        columns["has_image"] = np.array([file is not None for file in self.files(start, count)], dtype=np.uint8)
        return {"rows.z": self._scores(numbers)} | {f"rows.{name}": column for name, column in columns.items()}

    def _scores(self, numbers: np.ndarray) -> np.ndarray:
        if not len(numbers):
            return np.zeros((0, len(self.model.concepts_)), dtype=np.uint16 if self.in_16_bits else np.float32)
        z = self.model.scale(inputs(self.model, self.table.take(numbers)))
        return np.rint(z * STEPS).astype(np.uint16) if self.in_16_bits else z.astype(np.float32)

    def paths(self, start: int, count: int) -> list[str | None]:
        """The paths of some rows as they may be shown; empty if the table has none."""
        if self.table.paths is None:
            return []
        paths = self.table.paths[self.choice.order[start : start + count]].tolist()
        return [None if path is None else shown_path(path) for path in paths]

    def files(self, start: int, count: int) -> list[Path | None]:
        """The image files of some rows, ``None`` where there is none."""
        return find_images(self.table.take(self.choice.order[start : start + count]))


@dataclass(frozen=True, eq=False)
class Bundle:
    """All that the page holds at first: a JSON document and arrays.

    Attributes:
        document: names, words and numbers, such as JSON can hold.
        arrays: by name; those that begin with ``rows.`` have one entry per row.
        rows: all rows of the table, in the order of the studio; the first ones are in the arrays.
    """

    document: dict[str, Any]
    arrays: dict[str, np.ndarray]
    rows: BundleRows
    parts: _Parts

    @property
    def loaded(self) -> int:
        """How many rows are in the arrays."""
        return self.rows.choice.loaded

    def to_bytes(self) -> bytes:
        """The bundle as one safetensors blob, the document in its metadata."""
        return _blob(self.document, self.arrays)

    def rows_blob(self, start: int, count: int) -> bytes:
        """More rows, as a blob with their arrays, and their paths in its metadata.

        Args:
            start: place of the first one in the order of the studio.
            count: how many at most; there may be fewer left.

        Raises:
            ChoqolateError: if a number is negative.
        """
        check_number("start", start, minimum=0, whole=True)
        check_number("count", count, minimum=0, whole=True)
        return _blob({"paths": self.rows.paths(start, count)}, self.rows.arrays(start, count))

    def with_images(self, shown: Sequence[bool]) -> Bundle:
        """The same bundle with an image for some of its rows only ``(loaded,)``."""
        return replace(self, arrays=self.arrays | {"rows.has_image": np.array(shown, dtype=np.uint8)})

    def shrunk(self, rows: int, why: str) -> Bundle:
        """A bundle with fewer rows, chosen again; nothing else is computed again.

        Args:
            rows: how many to choose at most.
            why: a sentence for the reader.
        """
        return _assemble(self.parts, rows, why)


@dataclass(frozen=True, eq=False)
class _Parts:
    """What does not depend on the number of rows."""

    model: ChoqolateClassifier
    table: ConceptScores
    described: tuple[dict[str, Any], dict[str, np.ndarray]]
    suspects: Suspects | None
    names: tuple[str, str]
    title: str
    server: Mapping[str, Any] | None


def build_bundle(
    model: ChoqolateClassifier,
    table: ConceptScores,
    *,
    rows: int = ROWS,
    images: str | os.PathLike[str] | None = None,
    names: tuple[str, str] = NAMES,
    title: str | None = None,
    server: Mapping[str, Any] | None = None,
    verbose: bool = False,
) -> Bundle:
    """Put a model and rows of a table together for the studio.

    Args:
        model: a fitted classifier.
        table: scores of the model's concepts; labels, split, groups and paths are optional.
        rows: how many to hold at first, see :func:`~choqolate.studio.row_choice.choose_rows`.
        images: the folder that the table's paths start from, if the images have moved.
        names: of the model and of the scores, in the commands that the page proposes.
        title: name of the model; by default, as in ``names``.
        server: what a server can do for the page; ``None`` without one.
        verbose: show progress on stderr.

    Raises:
        ChoqolateError: if the table lacks concepts of the model or has no rows, or no image is in the folder.

    >>> from choqolate.data.scores import ConceptScores
    >>> from choqolate.estimators.table_training import fit_scores
    >>> scores = np.random.default_rng(0).random((40, 3))
    >>> table = ConceptScores(scores, ["sea", "oak", "crest"], labels=["duck", "owl"] * 20)
    >>> bundle = build_bundle(fit_scores(table, epochs=5), table)
    >>> bundle.document["rows"]["covered"], bundle.arrays["rows.z"].shape
    ('the other 6 test rows', (40, 3))
    """
    check_choquet_model(model, "to open the studio")
    everything = choose_rows(model, table, rows)
    inputs(model, table.take(everything.order[:1]))  # all concepts must be there
    if images is not None:
        find_images(table.take(everything.order[: everything.loaded]), images)
        table = replace(table, provenance=replace(table.provenance, root=str(Path(images).absolute())))
    _warn_of_doubtful_rows(model, table, everything)
    suspects = find_uncovered_suspects(model, table, everything, verbose=verbose)
    called = (shown_path(str(names[0])), shown_path(str(names[1])))
    title = Path(called[0]).name if title is None else title
    parts = _Parts(model, table, describe_network(model), suspects, called, title, server)
    bundle = _assemble(parts, rows)
    _warn_of_missing_images(bundle)
    return bundle


def _assemble(parts: _Parts, rows: int, why: str = "") -> Bundle:
    model, table = parts.model, parts.table
    allowed, in_16_bits, note = _affordable(min(rows, len(table)), model)
    choice = choose_rows(model, table, allowed)
    chosen = " ".join(text for text in (choice.chosen, why, note) if text)
    taken = BundleRows(model, table, choice, in_16_bits)
    described, arrays = parts.described
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "choqolate_version": __version__,
        "title": parts.title,
        "names": {"model": parts.names[0], "scores": parts.names[1]},
        "model": described,
        "probability_temperature": float(model.probability_temperature_),
        "rows": {
            "total": len(choice),
            "fingerprint": table.fingerprint[:16],
            "loaded": choice.loaded,
            "chosen": chosen,
            "audit": choice.audit,
            "covered": choice.covered,
            "splits": list(choice.splits),
            "groups": list(choice.groups),
            "strata": [stratum.as_dict() for stratum in choice.strata],
            "paths": taken.paths(0, choice.loaded),
        },
        "spurious": spurious_concepts(model, table),
        "suspects": None if parts.suspects is None else suspect_entries(parts.suspects, choice),
        "server": None if parts.server is None else dict(parts.server),
    }
    return Bundle(document, arrays | taken.arrays(0, choice.loaded), taken, parts)


def _affordable(rows: int, model: ChoqolateClassifier) -> tuple[int, bool, str]:
    """How many rows there is room for, whether their scores are stored in 16 bits, and what to say about it.

    Rounding moves a score by at most 1/131,070. A Choquet integral is 1-Lipschitz in the largest change of an input, so
    node values move by no more than that; only free weights have no such bound.
    """
    n_concepts = len(model.concepts_)
    if 4 * rows * n_concepts <= MOST_SCORE_BYTES:
        return rows, False, ""
    in_16_bits = not model.network_.architecture.free_weights
    allowed = max(1, min(rows, MOST_SCORE_BYTES // ((2 if in_16_bits else 4) * n_concepts)))
    notes = []
    if allowed < rows:
        notes.append(f"Fewer than {counted(rows, 'row')}, as each has scores of {n_concepts:,} concepts.")
    if in_16_bits:
        notes.append("Scores are stored in 16 bits, which moves node values by at most 0.00001.")
    return allowed, in_16_bits, " ".join(notes)


def _blob(document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    from safetensors.numpy import save

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content: bytes = save(contiguous, metadata={"studio": json.dumps(document, allow_nan=False)})
    return content


def _warn_of_doubtful_rows(model: ChoqolateClassifier, table: ConceptScores, choice: RowChoice) -> None:
    warn_of_another_source(model, table)
    judged = np.flatnonzero((choice.role != TRAINING) & (choice.label >= 0))
    if len(judged):
        warn_of_training_rows(model, table.take(judged))


def _warn_of_missing_images(bundle: Bundle) -> None:
    if bundle.rows.table.paths is None:
        return
    missing = bundle.loaded - int(bundle.arrays["rows.has_image"].sum())
    if missing:
        said = f"{missing:,} of {counted(bundle.loaded, 'image')} were not found"
        warnings.warn(f"{said}: tell where they are (--images, images=...)", ChoqolateWarning, stacklevel=3)
