"""Whether the class scores of a model follow concepts that are not the class."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from choqolate._util.checks import find_concepts
from choqolate.analysis.evaluation import held_out
from choqolate.data.rows import class_places
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.estimators.table_inputs import inputs
from choqolate.estimators.table_training import training_rows, was_split_for
from choqolate.metrics import WithinClassAUC, within_class_auc


@dataclass(frozen=True, repr=False)
class Following:
    """How closely the class scores of a model follow some concepts within the classes.

    Attributes:
        concepts: names of the K concepts.
        by_concept: AUC within the classes of each image's class margin, for the concept being high rather than low.
        by_group: the same for the group that is the most frequent one of its class in training, rather than the other
            groups; ``None`` if no class has at least two images of both.
        rows: number of images.
        chosen: which images these are, in words.
    """

    concepts: tuple[str, ...]
    by_concept: WithinClassAUC
    by_group: WithinClassAUC | None
    rows: int
    chosen: str

    def __repr__(self) -> str:
        return f"Following({self.best.value:.3f} by {'concept' if self.by_group is None else 'group'})"

    @property
    def best(self) -> WithinClassAUC:
        """By group if groups are known, else by concept."""
        return self.by_concept if self.by_group is None else self.by_group

    @property
    def per_concept(self) -> dict[str, float]:
        """The AUC of each concept, mean over the classes."""
        return dict(zip(self.concepts, self.by_concept.by_column.tolist(), strict=True))


def measure_following(
    model: Any, table: ConceptScores, concepts: Iterable[str], *, original: ConceptScores | None = None
) -> Following:
    """Measure whether the class scores of a fitted model follow some concepts within the classes.

    The margin of an image is the score of its own class minus the best other score. Within each class, the images are
    split at the median of a concept's score, and the AUC says how often an image on one side has a larger margin than
    one on the other side. The upper side is the one that goes with the class in training: high scores if the class has
    higher scores of the concept than other classes, else low scores. 0.5 means that the margin does not follow the
    concept, 1 that it always does, and below 0.5 that it goes the other way, as after a correction that is too strong.

    Where images have groups, such as class and background, the same is measured for groups: the upper side is the
    group that is the most frequent one of its class in training.

    Measured on held-out images, see :func:`choqolate.analysis.evaluation.held_out`. The model need not have the
    concepts: one that was trained without them can follow them through others.

    Args:
        model: a fitted classifier, ours or a baseline.
        table: scores to measure it on, with labels, at best also with training rows, which say what goes with a class.
        concepts: names of concepts, usually spurious or removed ones.
        original: scores of the concepts for the same images, if ``table`` lacks them or has other scores of them; by
            default ``table``.

    Raises:
        ChoqolateError: if there are no such concepts, the rows differ, or the model has no class scores.

    >>> import choqolate as cq
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(600) < 0.5
    >>> water = np.where(rng.random(600) < 0.9, y, ~y)
    >>> scores = np.stack([y, ~y, water, ~water], axis=1) + rng.normal(0, [0.8, 0.8, 0.2, 0.2], (600, 4))
    >>> labels = np.where(y, "gull", "wren")
    >>> table = cq.ConceptScores(scores, ["webbed feet", "claws", "sea", "forest"], labels=labels)
    >>> model = cq.fit_scores(table, epochs=50)
    >>> measure_following(model, table, ["sea", "forest"]).by_concept.value > 0.6
    True
    """
    source, names = _aligned(model, table, original), tuple(dict.fromkeys(concepts))
    find_concepts(names, source.concepts, known="this table has")
    (rows, chosen), scored = held_out(model, table), held_out(model, source)[0].select(names)
    classes = rows.labels.tolist()
    margins = class_margins(model, rows)
    train = training_rows(model, source).labelled().select(names)
    sides = group_sides(rows, train)
    by_group = None if sides is None else within_class_auc(margins, sides, classes)
    return Following(
        concepts=names,
        by_concept=within_class_auc(margins, _concept_sides(scored, train), classes),
        by_group=None if by_group is None or math.isnan(by_group.value) else by_group,
        rows=len(rows),
        chosen=chosen,
    )


def class_margins(model: Any, rows: ConceptScores) -> np.ndarray:
    """By how much the score of its own class is above the best other one, for each row ``(n,)``.

    Raises:
        ChoqolateError: if the model gives neither class scores nor probabilities.
    """
    X = inputs(model, rows)
    if hasattr(model, "class_scores"):
        scores = np.array(model.class_scores(X), dtype=np.float64)
    elif hasattr(model, "predict_proba"):
        scores = np.log(np.maximum(model.predict_proba(X), np.finfo(np.float64).tiny))
    else:
        raise ChoqolateError(
            f"Expected a model with class scores, but {type(model).__name__} has neither class_scores nor "
            "predict_proba. Add one of them."
        )
    at, own = np.arange(len(scores)), class_places(rows.labels, model.classes_)
    margins = scores[at, own].copy()
    scores[at, own] = -np.inf
    margins -= scores.max(axis=1)
    return margins


def group_sides(rows: ConceptScores, train: ConceptScores) -> np.ndarray | None:
    """For each row 1 if its group is the most frequent one of its class in training, -1 if it is another one.

    Rows without a group, and those of classes of which no group is the most frequent one, have 0. ``None`` if no class
    has rows of both sides.
    """
    if rows.groups is None or train.groups is None:
        return None
    counts: dict[Any, Counter[Any]] = {}
    for label, group in zip(train.labels.tolist(), train.groups.tolist(), strict=True):
        if group is not None:
            counts.setdefault(label, Counter())[group] += 1
    usual = {label: _most_frequent(found) for label, found in counts.items()}
    sides = np.array(
        [
            0.0 if group is None or usual.get(label) is None else 1.0 if group == usual[label] else -1.0
            for label, group in zip(rows.labels.tolist(), rows.groups.tolist(), strict=True)
        ]
    )
    both = set(rows.labels[sides > 0].tolist()) & set(rows.labels[sides < 0].tolist())
    return sides if both else None


def _most_frequent(counts: Counter[Any]) -> Any:
    (name, most), *others = counts.most_common(2)
    return None if others and others[0][1] == most else name


def _concept_sides(rows: ConceptScores, train: ConceptScores) -> np.ndarray:
    """For each row and concept 1 if the score is on the side that goes with the row's class in training, else -1."""
    sides = np.zeros(rows.scores.shape)
    for label in set(rows.labels.tolist()):
        own, here = train.labels == label, rows.labels == label
        if own.all() or not own.any():
            continue  # nothing to compare the class with
        direction = np.sign(train.scores[own].mean(axis=0) - train.scores[~own].mean(axis=0))
        sides[here] = np.where(_upper_half(rows.scores[here]), direction, -direction)
    return sides


def _upper_half(scores: np.ndarray) -> np.ndarray:
    """Which scores of each column are above its median, or, if more than half of them have the highest score, these."""
    median = np.median(scores, axis=0)
    above: np.ndarray = scores > median
    return np.where(above.any(axis=0), above, scores == median)


def _aligned(model: Any, table: ConceptScores, original: ConceptScores | None) -> ConceptScores:
    """The table that the scores of the concepts are taken from, with the labels, split and groups of the other one."""
    if original is None or original is table:
        return table
    if len(original) != len(table):
        raise ChoqolateError(
            f"Expected original scores of the {len(table):,} rows of the table, but got {len(original):,} rows. Give "
            "scores of the same images in the same order."
        )
    known = table.with_split() if not table.has_split and was_split_for(model, table) else table
    columns = {name: getattr(known, name) for name in ("labels", "split", "groups", "classes")}
    return original.with_columns(**columns)
