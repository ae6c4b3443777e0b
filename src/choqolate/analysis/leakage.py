"""What is left of removed concepts: whether other scores still hold them, and whether the model still follows them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from choqolate import metrics
from choqolate._util.numbers import decimal, known
from choqolate._util.text import counted, listed
from choqolate.analysis.evaluation import held_out
from choqolate.analysis.following import Following, group_sides, measure_following
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.estimators.table_training import training_rows
from choqolate.estimators.validation import stratified_folds
from choqolate.metrics import WithinClassAUC

_FOLDS = 5
MOST_ROWS = 4_000  # that a probe is fitted on
FEWEST_ROWS = 20  # of a class whose groups a probe tells apart
MOSTLY, _HARDLY = 0.5, 0.1  # R² from which, and below which, a concept is in the other scores


@dataclass(frozen=True, repr=False)
class Leakage:
    """What is left of removed concepts.

    Attributes:
        concepts: the removed concepts.
        n_remaining: number of the other concepts.
        probe: for each removed concept, R² of a linear probe that computes its score from the other scores, on rows
            that the probe has not seen, see :func:`choqolate.metrics.probe_r2`.
        group_probe: how well such a probe tells the groups of a class apart, see
            :func:`~choqolate.analysis.following.group_sides`; ``None`` if no class has several groups.
        before, after: whether the class scores follow the removed concepts, before the removal and now.
    """

    concepts: tuple[str, ...]
    n_remaining: int
    probe: dict[str, float]
    group_probe: WithinClassAUC | None
    before: Following
    after: Following

    def __repr__(self) -> str:
        probe, before, after = self.mean_probe, self.before.best.value, self.after.best.value
        removed = counted(len(self.concepts), "concept")
        return f"Leakage({removed} removed; probe R² {probe:.3f}; class scores follow {before:.3f} -> {after:.3f})"

    @property
    def mean_probe(self) -> float:
        """R² of the probe, mean over the removed concepts."""
        values = self._probed()
        return float(np.mean(values)) if values else math.nan

    def lines(self) -> list[str]:
        """What is left, in sentences: first in the scores, then in the model."""
        return [self._in_scores(), self._in_model(), self._verdict()]

    def as_dict(self) -> dict[str, Any]:
        """The numbers as JSON can hold them: what is not defined is ``None``."""
        return {
            "concepts": list(self.concepts),
            "remaining_concepts": self.n_remaining,
            "probe": {name: known(value) for name, value in self.probe.items()},
            "mean_probe": known(self.mean_probe),
            "group_probe": _as_dict(self.group_probe),
            "before": _following_dict(self.before),
            "after": _following_dict(self.after),
            "rows": self.after.rows,
            "chosen": self.after.chosen,
        }

    def _probed(self) -> list[float]:
        return [value for value in self.probe.values() if not math.isnan(value)]

    def _in_scores(self) -> str:
        values = self._probed()
        if not values:
            return (
                "Whether the other scores still hold the removed concepts cannot be measured: there are too few "
                "images, or the scores are constant."
            )
        ends = f" ({decimal(min(values), 2)} to {decimal(max(values), 2)})" if len(values) > 1 else ""
        said = (
            f"A linear probe computes {_several(self.concepts, 'removed concept')} from the other "
            f"{counted(self.n_remaining, 'score')} with an R² of {decimal(self.mean_probe, 2)}{ends}"
        )
        if self.group_probe is not None:
            said += f" and tells the groups within a class apart with an AUC of {_auc(self.group_probe)}"
        if self.mean_probe >= MOSTLY:
            return f"{said}: the scores that are left still hold most of what was removed."
        if self.mean_probe < _HARDLY:
            return f"{said}: the scores that are left hold almost nothing of what was removed."
        return f"{said}: the scores that are left hold part of what was removed."

    def _in_model(self) -> str:
        what = "the removed concept" if len(self.concepts) == 1 else "the removed concepts"
        said = (
            f"Within a class, the score of the class followed {what} with an AUC of {_auc(self.before.by_concept)} "
            f"before the removal and {_auc(self.after.by_concept)} after it"
        )
        if self.before.by_group is not None and self.after.by_group is not None:
            said += f"; for groups: {_auc(self.before.by_group)} and {_auc(self.after.by_group)}"
        return f"{said}. 0.5 means not at all, 1 means always."

    def _verdict(self) -> str:
        before, after = self.before.best, self.after.best
        low, high = after.interval
        if after.too_few or before.too_few:
            return "There are too few images to tell whether the model still follows what was removed."
        if high < 0.5:
            return "The model now leans the other way, by more than chance: the correction may be too strong."
        if low <= 0.5:
            return "On these images, there is no sign that the model still follows what was removed."
        if high < before.interval[0]:
            return (
                "The model follows what was removed less than before, but still more than by chance, through "
                "correlated concepts that may or may not be legitimate."
            )
        if low > before.interval[1]:
            return (
                "The model follows what was removed more than before, through correlated concepts that now contribute "
                "more and that may or may not be legitimate."
            )
        return (
            "The model still follows what was removed, through correlated concepts that may or may not be legitimate. "
            "These images do not show that it does so less than before."
        )


def measure_leakage(
    model: Any, table: ConceptScores, *, trained: Any = None, concepts: Iterable[str] | None = None
) -> Leakage:
    """Measure what is left of the concepts that were removed from a model, on held-out images.

    Args:
        model: a fitted classifier from which concepts were removed; or any model, with ``trained`` and ``concepts``.
        table: scores with labels, those of the removed concepts among them.
        trained: the model before the removal; by default ``model.restore()``.
        concepts: the concepts; by default those that were removed from all nodes of ``model``.

    Returns:
        How well a linear probe finds the removed concepts in the other scores, and how closely class scores follow
        them, see :func:`measure_following`. Probes use at most 4,000 images.

    Raises:
        ChoqolateError: if nothing was removed, no concepts are left, or there are too few rows.

    >>> import choqolate as cq
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(600) < 0.5
    >>> water = np.where(rng.random(600) < 0.9, y, ~y)
    >>> scores = np.stack([y, ~y, water, ~water], axis=1) + rng.normal(0, [0.8, 0.8, 0.2, 0.2], (600, 4))
    >>> labels = np.where(y, "gull", "wren")
    >>> table = cq.ConceptScores(scores, ["webbed feet", "claws", "sea", "forest"], labels=labels)
    >>> model = cq.fit_scores(table, epochs=50).remove_concepts(["sea", "forest"])
    >>> leakage = measure_leakage(model, table)
    >>> leakage.before.best.value > 0.6 > leakage.after.best.value
    True
    """
    names = removed_concepts(model) if concepts is None else tuple(dict.fromkeys(concepts))
    if not names:
        raise ChoqolateError(
            "Expected a model from which concepts were removed, but none was removed from all of its nodes. Remove "
            "some, or give trained=... and concepts=..."
        )
    if trained is None:
        if not hasattr(model, "restore"):
            raise ChoqolateError(
                f"Expected the model before the removal, because a {type(model).__name__} cannot restore concepts. "
                "Give it as trained=..."
            )
        trained = model.restore()
    gone = set(names)
    remaining = [name for name in model.concepts_ if name not in gone]
    if not remaining:
        raise ChoqolateError("Expected concepts that were not removed, but all were. Remove fewer of them.")
    rows = held_out(model, table)[0].sample(MOST_ROWS)
    return Leakage(
        concepts=names,
        n_remaining=len(remaining),
        probe=_probe(rows, remaining, names),
        group_probe=_group_probe(rows, remaining, training_rows(model, table).labelled()),
        before=measure_following(trained, table, names),
        after=measure_following(model, table, names),
    )


def removed_concepts(model: Any) -> tuple[str, ...]:
    """The concepts that were removed from all nodes of a model, ours or a baseline; none of a model as trained."""
    removal = getattr(model, "removal_", None)
    names = getattr(model, "removed_", ()) if removal is None else removal.concepts
    if not len(names):
        return ()
    used = np.abs(model.concept_attributions_).max(axis=0) > 0
    place = {name: at for at, name in enumerate(model.concepts_)}
    return tuple(name for name in names if not used[place[name]])


def _probe(rows: ConceptScores, remaining: list[str], names: tuple[str, ...]) -> dict[str, float]:
    """R² of each concept by the others; NaN with too few rows."""
    if len(rows) < 2 * _FOLDS:
        return dict.fromkeys(names, math.nan)
    found = metrics.probe_r2(rows.select(remaining).scores, rows.select(names).scores, _FOLDS)
    return dict(zip(names, np.atleast_1d(found).tolist(), strict=True))


def _group_probe(rows: ConceptScores, remaining: list[str], train: ConceptScores) -> WithinClassAUC | None:
    """How well a probe of each class tells its most frequent group from the others."""
    sides = group_sides(rows, train)
    if sides is None:
        return None
    scores, predicted = rows.select(remaining).scores, np.zeros(len(rows))
    for label in set(rows.labels.tolist()):
        here = (rows.labels == label) & (sides != 0)
        if here.sum() >= FEWEST_ROWS and len(set(sides[here].tolist())) == 2:
            folds = stratified_folds(sides[here], _FOLDS)
            found = metrics.probe_predictions(scores[here], sides[here], folds)
            predicted[here] = found - _means_elsewhere(sides[here], folds)
        else:
            sides = np.where(here, 0.0, sides)
    area = metrics.within_class_auc(predicted, sides, rows.labels.tolist())
    return None if area.too_few else area


def _means_elsewhere(targets: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """For each row the mean target of the other folds.

    It is a part of the row's prediction that says nothing about the row: the more of the upper side its own fold has,
    the lower it is, which would push an AUC over all folds below 0.5.
    """
    sums, sizes = np.bincount(folds, targets, _FOLDS), np.bincount(folds, minlength=_FOLDS)
    means: np.ndarray = ((targets.sum() - sums) / (len(targets) - sizes))[folds]
    return means


def _several(names: tuple[str, ...], what: str) -> str:
    return f"the {what} {listed(names)}" if len(names) == 1 else f"the {counted(len(names), what)}"


def _auc(found: WithinClassAUC) -> str:
    low, high = found.interval
    return f"{decimal(found.value, 2)} ({decimal(low, 2)} to {decimal(high, 2)})"


def _as_dict(found: WithinClassAUC | None) -> dict[str, Any] | None:
    if found is None:
        return None
    by_class = {str(label): value for label, value in found.by_class.items()}
    return {"auc": known(found.value), "interval": [known(end) for end in found.interval], "by_class": by_class}


def _following_dict(found: Following) -> dict[str, Any]:
    concepts = {name: known(value) for name, value in found.per_concept.items()}
    return {"concepts": _as_dict(found.by_concept), "groups": _as_dict(found.by_group), "per_concept": concepts}
