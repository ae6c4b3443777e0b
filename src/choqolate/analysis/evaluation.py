"""Training and measuring on tables of concept scores: which rows are for what, and plain numbers out."""

from __future__ import annotations

import copy
import hashlib
import math
import platform
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from choqolate import metrics
from choqolate._util.checks import check_choice, find_concepts
from choqolate._util.text import listed
from choqolate.data.manifest import SPLITS
from choqolate.data.provenance import section, texts
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.runs import fit_runs
from choqolate.explain.protocols import ConceptModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SAMPLE = 64  # training rows that a model recognises


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What a model does on some rows, as plain numbers.

    Attributes:
        rows: number of rows.
        chosen: which rows these are, in words.
        accuracy: share of correct predictions.
        class_accuracy: the same for the rows of each class (recall), in the model's order; classes with rows only.
        class_rows: number of rows of each class.
        group_accuracy: accuracy for each group, over the rows that have one; empty without groups.
        group_rows: number of rows of each group.
        worst_group: name and accuracy of the group with the lowest accuracy; ``None`` without groups.
        attribution_gini: mean over the nodes, see :func:`choqolate.metrics.attribution_gini`.
        node_coherence: mean over the nodes, with the correlation of the scores on these rows; NaN where not defined.
        confusion: for each class, how many of its rows were predicted as which class; zeros are left out.
    """

    rows: int
    chosen: str
    accuracy: float
    class_accuracy: dict[str, float]
    class_rows: dict[str, int]
    group_accuracy: dict[str, float]
    group_rows: dict[str, int]
    worst_group: tuple[str, float] | None
    attribution_gini: float
    node_coherence: float
    confusion: dict[str, dict[str, int]]

    def __repr__(self) -> str:
        worst = f", worst group {self.worst_group[1]:.3f} ({self.worst_group[0]})" if self.worst_group else ""
        return f"Evaluation({self.rows:,} rows, accuracy {self.accuracy:.3f}{worst})"

    @property
    def mistakes(self) -> list[tuple[int, str, str]]:
        """How many rows of which class were taken for which other one, the most frequent first."""
        found = [
            (number, truth, other)
            for truth, row in self.confusion.items()
            for other, number in row.items()
            if other != truth
        ]
        return sorted(found, key=lambda mistake: -mistake[0])

    def plot_groups(self, ax: Axes | None = None) -> Axes:
        """Draw the accuracy of every group, see :func:`choqolate.plots.group_accuracy`."""
        from choqolate.plots import group_accuracy

        return group_accuracy(self, ax=ax)

    def as_dict(self) -> dict[str, Any]:
        """The numbers as JSON can hold them: what is not defined is ``None``."""
        numbers = asdict(self)
        for name in ("attribution_gini", "node_coherence"):
            numbers[name] = None if math.isnan(numbers[name]) else numbers[name]
        if self.worst_group is not None:
            numbers["worst_group"] = dict(zip(("group", "accuracy"), self.worst_group, strict=True))
        return numbers


def fit_scores(
    table: ConceptScores | str | PathLike[str], *, leave_out: Iterable[str] = (), **parameters: Any
) -> ChoqolateClassifier:
    """Train on the rows for training, and note in ``provenance_`` where they come from.

    A table without a split is split by :meth:`ConceptScores.with_split`, always in the same way, so that
    :func:`held_out` finds the rows that were not trained on.

    Args:
        table: scores with labels, or the file of them.
        leave_out: concepts to train without.
        **parameters: of :class:`ChoqolateClassifier`.

    >>> rng = np.random.default_rng(0)
    >>> labels = np.array(["cat", "dog"] * 50)
    >>> scores = rng.random((100, 3)) + (labels == "cat")[:, None] * [1, -1, 0]
    >>> table = ConceptScores(scores, ["whiskers", "collar", "grass"], labels=labels)
    >>> model = fit_scores(table, n_nodes=4, epochs=20)
    >>> model.provenance_["data"]["split"], model.provenance_["data"]["rows"]
    ('made', 70)
    >>> result = evaluate(model, table)
    >>> result.rows, result.chosen, result.accuracy > 0.8
    (30, 'test rows of the split that was made for training', True)
    """
    rows, provenance = _training_part(table, leave_out)
    model = ChoqolateClassifier(**parameters).fit(rows.frame, rows.labels)
    model.provenance_ = provenance
    return model


def fit_scores_runs(
    table: ConceptScores | str | PathLike[str],
    seeds: Iterable[int],
    *,
    leave_out: Iterable[str] = (),
    **parameters: Any,
) -> list[ChoqolateClassifier]:
    """What :func:`fit_scores` does, once for each seed, side by side; parameters are those of :func:`fit_runs`."""
    rows, provenance = _training_part(table, leave_out)
    runs = fit_runs(rows.frame, rows.labels, seeds, **parameters)
    for run in runs:
        run.provenance_ = copy.deepcopy(provenance)
    return runs


def _training_part(
    table: ConceptScores | str | PathLike[str], leave_out: Iterable[str]
) -> tuple[ConceptScores, dict[str, Any]]:
    """The rows and concepts to train on, and where they come from."""
    if isinstance(table, str | PathLike):
        table = ConceptScores.load(Path(table))
    if not len(table):
        raise ChoqolateError("expected rows to train on, the table is empty")
    left_out = list(dict.fromkeys(leave_out))
    known = table.labelled()
    if len(known) < len(table):
        _warn(f"{len(table) - len(known):,} of {len(table):,} rows have no label: left out")
    rows = table.with_split().part("train").labelled()
    if left_out:
        find_concepts(left_out, table.concepts, known="this table has")
        kept = [name for name in table.concepts if name not in left_out]
        if not kept:
            raise ChoqolateError("expected concepts to train on, all of them are left out")
        rows = rows.select(kept)
    split = "made" if table.split is None else "given"
    sample = _row_keys(rows.take(_spread(len(rows), _SAMPLE)))
    data = {"fingerprint": table.fingerprint, "split": split, "rows": len(rows), "sample": sample}
    provenance = copy.deepcopy(table.provenance)
    provenance.pop("root", None)  # where the images were is of the table, and nobody else's business
    provenance["versions"] = package_versions()
    provenance["data"] = section(provenance, "data") | data | ({"left_out": left_out} if left_out else {})
    if rows.spurious:
        provenance["vocabulary"] = section(provenance, "vocabulary") | {"spurious": list(rows.spurious)}
    return rows, provenance


def package_versions() -> dict[str, str]:
    """Versions of what a model is trained with."""
    from choqolate import __version__

    packages = {"choqolate": __version__, "torch": str(torch.__version__), "numpy": np.__version__}
    return packages | {"Python": platform.python_version()}


def held_out(model: ConceptModel, table: ConceptScores) -> tuple[ConceptScores, str]:
    """The labelled rows to evaluate a model on, and how they were chosen, in words.

    The test rows of the table, else its val rows; without a split the test rows of the split that was made for
    training, if it is the same table; else all.
    """
    if table.split is None:
        if _trained_on(model, table):
            return table.with_split().part("test"), "test rows of the split that was made for training"
        return table.labelled(), "all labelled rows, as the table has no split"
    labelled = table.labelled()
    for split in ("test", "val"):
        if labelled.split is not None and (labelled.split == split).any():
            return labelled.part(split), f"{split} rows of the table"
    return labelled, "all labelled rows, as the table has none for test or val"


def has_held_out(table: ConceptScores) -> bool:
    """Whether a table, split if it has no split, has labelled rows that are not for training."""
    split = table.with_split().labelled().split
    return split is not None and bool(((split == "test") | (split == "val")).any())


def training_rows(model: ConceptModel, table: ConceptScores) -> ConceptScores:
    """The rows of a table for training if it has some, else all. Labels are not needed."""
    if table.split is None and _trained_on(model, table):
        table = table.with_split()
    has_some = table.split is not None and (table.split == "train").any()
    return table.part("train") if has_some else table


def spurious_concepts(model: ConceptModel, *tables: ConceptScores) -> list[str]:
    """Those of the model's concepts that a table or the model's provenance marks as spurious, in the model's order."""
    marked = {name for table in tables for name in table.spurious}
    marked.update(texts(section(model.provenance_, "vocabulary"), "spurious"))
    return [name for name in model.concepts_ if name in marked]


def inputs(model: ConceptModel, table: ConceptScores) -> Any:
    """Scores for the model's methods, the columns found by name.

    Raises:
        ChoqolateError: if the table lacks a concept of the model.
    """
    missing = [name for name in model.concepts_ if name not in set(table.concepts)]
    if missing:
        raise ChoqolateError(
            f"expected scores of all {len(model.concepts_)} concepts of the model, the table has no "
            f"{listed(missing)}: score the images with the model's vocabulary"
        )
    chosen = table.select(model.concepts_)
    return chosen.frame if hasattr(model, "feature_names_in_") else chosen.scores


def evaluate(model: ConceptModel, table: ConceptScores, split: str | None = None) -> Evaluation:
    """Measure a model on a table of scores; columns are matched by name.

    Args:
        model: a fitted classifier, ours or a baseline.
        table: scores with labels.
        split: ``"train"``, ``"val"``, ``"test"`` or ``"all"``; by default as :func:`held_out` chooses.

    Raises:
        ChoqolateError: if the table lacks concepts or labels, or has labels that the model does not know.
    """
    check_is_fitted(model)
    rows, chosen = held_out(model, table) if split is None else _part(model, table, split)
    X = inputs(model, rows)
    _warn_of_another_source(model, rows)
    if split is None:
        _warn_of_training_rows(model, rows)
    assert rows.labels is not None
    truth = rows.labels.tolist()
    names = [str(label) for label in model.classes_.tolist()]
    unknown = sorted(set(truth) - set(names))
    if unknown:
        raise ChoqolateError(
            f"expected labels among the model's classes {listed(names)}, the table has {listed(unknown)}"
        )
    predicted = [str(label) for label in model.predict(X).tolist()]
    pairs = Counter(zip(truth, predicted, strict=True))
    counts = Counter(truth)
    class_rows = {name: counts[name] for name in names if counts[name]}
    group_accuracy, group_rows = _by_group(rows.groups, truth, predicted)
    worst = min(group_accuracy, key=lambda group: group_accuracy[group], default=None)
    return Evaluation(
        rows=len(rows),
        chosen=chosen,
        accuracy=metrics.accuracy(truth, predicted),
        class_accuracy={name: pairs[name, name] / count for name, count in class_rows.items()},
        class_rows=class_rows,
        group_accuracy=group_accuracy,
        group_rows=group_rows,
        worst_group=None if worst is None else (worst, group_accuracy[worst]),
        attribution_gini=metrics.mean_over_nodes(metrics.attribution_gini(model.node_attributions_)).mean,
        node_coherence=_coherence(model, np.asarray(X, dtype=np.float64)),
        confusion={name: {other: pairs[name, other] for other in names if pairs[name, other]} for name in class_rows},
    )


def _part(model: ConceptModel, table: ConceptScores, split: str) -> tuple[ConceptScores, str]:
    check_choice("split", split, (*SPLITS, "all"))
    if split == "all":
        return table.labelled(), "all labelled rows"
    if table.split is not None:
        return table.part(split).labelled(), f"{split} rows of the table"
    if not _trained_on(model, table):
        raise ChoqolateError(
            f"expected a table with a split to take the {split} rows of, this one has none and is not the one that the "
            "model was trained on: take all its rows (all)"
        )
    return table.with_split().part(split), f"{split} rows of the split that was made for training"


def _trained_on(model: ConceptModel, table: ConceptScores) -> bool:
    """Whether the model was trained on this table, with a split made for it."""
    data = section(model.provenance_, "data")
    return data.get("split") == "made" and data.get("fingerprint") == table.fingerprint


def _by_group(
    groups: np.ndarray | None, truth: list[str], predicted: list[str]
) -> tuple[dict[str, float], dict[str, int]]:
    if groups is None:
        return {}, {}
    rows = [row for row in zip(truth, predicted, groups.tolist(), strict=True) if row[2] is not None]
    sizes = Counter(group for _, _, group in rows)
    return metrics.group_accuracies(*zip(*rows, strict=True)), {group: sizes[group] for group in sorted(sizes)}


def _coherence(model: ConceptModel, scores: np.ndarray) -> float:
    if len(scores) < 2:
        return math.nan
    bipolar = getattr(model, "bipolar", False)
    correlation = metrics.concept_correlation(np.hstack([scores, -scores]) if bipolar else scores)
    return metrics.mean_over_nodes(metrics.node_coherence(model.node_attributions_, correlation)).mean


def _warn_of_another_source(model: ConceptModel, table: ConceptScores) -> None:
    """A model reads scores of the backbone and the prompts that it was trained on; others only look alike."""
    sources = (model.provenance_, table.provenance)
    ours, theirs = (section(source, "backbone") for source in sources)
    if _differ(ours.get("identity"), theirs.get("identity")):
        names = f"{ours.get('name')} and {theirs.get('name')}"
        _warn(f"the model was trained on scores of another backbone than these: {names}")
    ours, theirs = (section(source, "vocabulary") for source in sources)
    if _differ(ours.get("templates"), theirs.get("templates")):
        prompts = f"{listed(ours['templates'])} and {listed(theirs['templates'])}"
        _warn(f"the model was trained on scores of other prompts than these: {prompts}")
    if "synonyms" in ours and "synonyms" in theirs:
        mine, others = (section(vocabulary, "synonyms") for vocabulary in (ours, theirs))
        differing = [name for name in model.concepts_ if _differ(mine.get(name, []), others.get(name, []))]
        if differing:
            _warn(f"the model was trained on scores with other synonyms than these of {listed(differing)}")


def _warn_of_training_rows(model: ConceptModel, rows: ConceptScores) -> None:
    """Rows that were trained on say nothing about new images; a sample of them is known by their scores."""
    sample = section(model.provenance_, "data").get("sample")
    if not isinstance(sample, list) or not sample:
        return
    found = len(set(sample) & set(_row_keys(rows.select(model.concepts_))))
    if found:
        _warn(
            f"rows that the model was trained on are among these ({found} of {len(sample)} that were sampled): the "
            "accuracy is not that of new images"
        )


def _row_keys(rows: ConceptScores) -> list[str]:
    """A short hash of each row's scores, whatever the order of the concepts and the precision of the file."""
    order = sorted(range(len(rows.concepts)), key=lambda j: rows.concepts[j])
    scores = np.ascontiguousarray(rows.scores[:, order], dtype=np.float32)
    return [hashlib.sha256(row.tobytes()).hexdigest()[:12] for row in scores]


def _spread(n_rows: int, most: int) -> np.ndarray:
    """Indices of at most so many rows, evenly spread."""
    return np.unique(np.linspace(0, n_rows - 1, min(most, n_rows)).astype(int))


def _differ(ours: Any, theirs: Any) -> bool:
    """Whether both sides say something, and not the same; the order of a list says nothing."""
    ours, theirs = (sorted(map(str, side)) if isinstance(side, list) else side for side in (ours, theirs))
    return ours is not None and theirs is not None and ours != theirs


def _warn(message: str, stacklevel: int = 4) -> None:
    warnings.warn(message, ChoqolateWarning, stacklevel=stacklevel)
