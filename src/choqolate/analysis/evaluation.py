"""Measuring models on tables of concept scores: which rows are for it, and plain numbers out."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from choqolate import metrics
from choqolate._util.checks import check_choice
from choqolate._util.text import counted
from choqolate.analysis.comparison import gap_note
from choqolate.analysis.row_doubts import warn_of_another_source, warn_of_training_rows
from choqolate.data.rows import class_index, class_places
from choqolate.data.scores import ConceptScores
from choqolate.data.splits import SPLITS
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.calibration import uncalibrated
from choqolate.estimators.table_inputs import inputs
from choqolate.estimators.table_training import was_split_for
from choqolate.explain.model_protocols import ConceptModel
from choqolate.metrics import Proportion
from choqolate.network.fitted import FittedNetwork
from choqolate.network.removal import absolute

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BY_ROW = ("hits", "row_labels", "row_groups")


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
        attribution_gini: mean over the nodes, per concept, see :func:`choqolate.metrics.attribution_gini`.
        node_coherence: mean over the nodes, per concept, with the correlation of the scores on these rows; NaN where
            not defined.
        confusion: for each class, how many of its rows were predicted as which class; zeros are left out.
        majority_class: the most frequent class in training; of these rows if the model does not tell.
        hits: which rows are classified correctly ``(n,)``; with ``row_labels`` and ``row_groups``, the class and the
            group of each row, the basis of :func:`choqolate.analysis.comparison.compare_evaluations`.
        concepts_per_class: number of concepts that carry 95% of a class through both layers, mean over the classes;
            NaN where the model does not tell.
        interaction_mass: weight on pairs of concepts, mean over the nodes: Gini does not show it. NaN for baselines.
        calibration_error: expected calibration error of the probabilities; NaN where the model has none.
        calibration_error_trained: the same at the temperature of the training, for a model that was calibrated.
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
    majority_class: str | None = field(default=None, kw_only=True)
    hits: np.ndarray | None = field(default=None, kw_only=True, compare=False)
    row_labels: np.ndarray | None = field(default=None, kw_only=True, compare=False)
    row_groups: np.ndarray | None = field(default=None, kw_only=True, compare=False)
    concepts_per_class: float = math.nan
    interaction_mass: float = math.nan
    calibration_error: float = math.nan
    calibration_error_trained: float = math.nan

    def __repr__(self) -> str:
        said = f"{counted(self.rows, 'row')}, accuracy {_with_interval(self.overall)}"
        if (worst := self.worst_measurable_group) is not None:
            said += f", worst group {_with_interval(worst[1])}, {worst[0]!r}"
        if self.small_groups:
            said += f"; {counted(len(self.small_groups), 'group')} too small to tell"
        return f"Evaluation({said})"

    @property
    def overall(self) -> Proportion:
        """Share of correct predictions, with its interval."""
        return _proportion(self.accuracy, self.rows)

    @property
    def by_class(self) -> dict[str, Proportion]:
        """The same for each class."""
        return {name: _proportion(self.class_accuracy[name], rows) for name, rows in self.class_rows.items()}

    @property
    def by_group(self) -> dict[str, Proportion]:
        """The same for each group."""
        return {name: _proportion(self.group_accuracy[name], rows) for name, rows in self.group_rows.items()}

    @property
    def majority(self) -> Proportion | None:
        """The accuracy of a model that always predicts ``majority_class``: what any model has to beat."""
        if self.majority_class is None:
            return None
        return Proportion(self.class_rows.get(self.majority_class, 0), self.rows)

    @property
    def worst_measurable_group(self) -> tuple[str, Proportion] | None:
        """The group with the lowest accuracy among those with enough rows (ten); ``None`` if there is none."""
        known = {name: share for name, share in self.by_group.items() if not share.too_few}
        worst = min(known, key=lambda name: known[name].value, default=None)
        return None if worst is None else (worst, known[worst])

    @property
    def worst_share(self) -> Proportion | None:
        """Accuracy of the worst measurable group; if none is, that of the largest, which has too few rows as well."""
        if (worst := self.worst_measurable_group) is not None:
            return worst[1]
        return max(self.by_group.values(), key=lambda share: share.rows, default=None)

    @property
    def small_groups(self) -> dict[str, int]:
        """Groups with too few rows (under ten) to tell how good the model is on them, and how many they have."""
        return {name: share.rows for name, share in self.by_group.items() if share.too_few}

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
        """The numbers as JSON can hold them: what is not defined is ``None``.

        Beyond the attributes, ``accuracy_interval``, ``class_intervals`` and ``group_intervals`` are 95% intervals,
        ``majority`` is the baseline (``class``, ``accuracy``, ``interval``), ``worst_measurable_group`` the worst among
        the groups with enough rows (``group``, ``accuracy``, ``interval``), and ``small_groups`` has the others.
        """
        numbers = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _BY_ROW}
        numbers = {name: None if _is_nan(value) else value for name, value in numbers.items()}
        if self.worst_group is not None:
            numbers["worst_group"] = dict(zip(("group", "accuracy"), self.worst_group, strict=True))
        majority, worst = self.majority, self.worst_measurable_group
        return numbers | {
            "accuracy_interval": list(self.overall.interval),
            "class_intervals": {name: list(share.interval) for name, share in self.by_class.items()},
            "group_intervals": {name: list(share.interval) for name, share in self.by_group.items()},
            "majority": majority and {"class": self.majority_class, **_as_dict(majority)},
            "worst_measurable_group": worst and {"group": worst[0], **_as_dict(worst[1])},
            "small_groups": self.small_groups,
        }

    @classmethod
    def from_dict(cls, numbers: Mapping[str, Any]) -> Self:
        """Read what :meth:`as_dict` gave; it does not know single rows any more.

        Raises:
            ChoqolateError: if it is something else.
        """
        try:
            known = {one.name: numbers[one.name] for one in fields(cls) if one.name not in _BY_ROW}
            floats = [one.name for one in fields(cls) if one.type == "float"]
            known |= {name: math.nan if known[name] is None else float(known[name]) for name in floats}
            worst = known["worst_group"]
            known["worst_group"] = worst and (str(worst["group"]), float(worst["accuracy"]))
            made = cls(**known)
            made.as_dict()  # shares and counts fit together
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ChoqolateError(f"Expected the numbers of an evaluation but they are incomplete: {error!r}.") from None
        return made


def held_out(model: ConceptModel, table: ConceptScores) -> tuple[ConceptScores, str]:
    """The labelled rows to evaluate a model on, and how they were chosen, in words.

    The test rows of the table, else its val rows; without a split the test rows of the split that was made for
    training, if it is the same table; else all.
    """
    if table.split is None:
        if was_split_for(model, table):
            return table.with_split().part("test"), "test rows of the split that was made for training"
        return table.labelled(), "all labelled rows, as the table has no split"
    labelled = table.labelled()
    for split in ("test", "val"):
        if labelled.rows.has_part(split):
            return labelled.part(split), f"{split} rows of the table"
    return labelled, "all labelled rows, as the table has none for test or val"


def has_held_out(table: ConceptScores) -> bool:
    """Whether a table, split if it has no split, has labelled rows that are not for training."""
    rows = table.with_split().labelled().rows
    return rows.has_part("test") or rows.has_part("val")


def spurious_concepts(model: ConceptModel, *tables: ConceptScores) -> list[str]:
    """Those of the model's concepts that a table or the model's provenance marks as spurious, in the model's order."""
    marked = {name for table in tables for name in table.spurious}
    marked.update(model.provenance_.vocabulary.spurious or ())
    return [name for name in model.concepts_ if name in marked]


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
    warn_of_another_source(model, rows)
    if split is None:
        warn_of_training_rows(model, rows)
    assert rows.labels is not None
    truth, names = rows.labels.tolist(), list(class_index(model.classes_))
    class_places(truth, model.classes_)  # all labels must be known
    predicted = [str(label) for label in model.predict(X).tolist()]
    pairs = Counter(zip(truth, predicted, strict=True))
    counts = Counter(truth)
    class_rows = {name: counts[name] for name in names if counts[name]}
    group_accuracy, group_rows = _by_group(rows.groups, truth, predicted)
    shares = metrics.per_concept(model.node_attributions_, len(model.concepts_))
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
        attribution_gini=metrics.mean_over_nodes(metrics.attribution_gini(shares)).mean,
        node_coherence=_coherence(shares, np.asarray(X, dtype=np.float64)),
        concepts_per_class=_concepts_per_class(model, shares),
        confusion={name: {other: pairs[name, other] for other in names if pairs[name, other]} for name in class_rows},
        majority_class=_majority_class(model, names, counts),
        hits=np.array(truth) == np.array(predicted),
        row_labels=rows.labels,
        row_groups=rows.groups,
        interaction_mass=_interaction_mass(model),
        calibration_error=_calibration_error(model, X, truth),
        calibration_error_trained=_calibration_error(uncalibrated(model), X, truth),
    )


def evaluate_parts(model: ConceptModel, table: ConceptScores) -> dict[str, Evaluation]:
    """Measure a model on the table that it was trained on: on the rows for training, and on those held out.

    If there are no held-out rows, or the model cannot be measured on them, a warning says so; another one, if the two
    accuracies are far apart.

    Args:
        model: a fitted classifier, ours or a baseline.
        table: scores with labels.

    Returns:
        Evaluations by name: ``"training"`` and, where possible, ``"held out"``.

    >>> from choqolate.estimators.table_training import fit_scores
    >>> scores = np.random.default_rng(0).random((40, 3))
    >>> table = ConceptScores(scores, ["sea", "oak", "crest"], labels=["duck", "owl"] * 20)
    >>> results = evaluate_parts(fit_scores(table, epochs=5), table)
    >>> {name: result.rows for name, result in results.items()}
    {'training': 28, 'held out': 12}
    """
    results = {"training": evaluate(model, table, "train")}
    problem: object = "all rows with a label are for training"
    if has_held_out(table):
        try:
            results["held out"] = evaluate(model, table)
        except ChoqolateError as error:  # the model is fine, what to measure it on is not
            problem = error
    if "held out" not in results:
        warnings.warn(f"not evaluated on held-out rows: {problem}", ChoqolateWarning, stacklevel=2)
    elif (gap := gap_note(results["training"], results["held out"])) is not None:
        warnings.warn(gap, ChoqolateWarning, stacklevel=2)
    return results


def marked_concepts(model: ConceptModel, *tables: ConceptScores) -> list[str]:
    """List the concepts of a model that it or a table marks as spurious, as :func:`spurious_concepts` does.

    Raises:
        ChoqolateError: if there are none.
    """
    marked = spurious_concepts(model, *tables)
    if not marked:
        raise ChoqolateError(
            "expected concepts marked as spurious, neither the model nor the scores given mark any: name them"
        )
    return marked


def _part(model: ConceptModel, table: ConceptScores, split: str) -> tuple[ConceptScores, str]:
    check_choice("split", split, (*SPLITS, "all"))
    if split == "all":
        return table.labelled(), "all labelled rows"
    if table.split is not None:
        return table.part(split).labelled(), f"{split} rows of the table"
    if not was_split_for(model, table):
        raise ChoqolateError(
            f"expected a table with a split to take the {split} rows of, this one has none and is not the one that the "
            "model was trained on: take all its rows (all)"
        )
    return table.with_split().part(split), f"{split} rows of the split that was made for training"


def _by_group(
    groups: np.ndarray | None, truth: list[str], predicted: list[str]
) -> tuple[dict[str, float], dict[str, int]]:
    if groups is None:
        return {}, {}
    rows = [row for row in zip(truth, predicted, groups.tolist(), strict=True) if row[2] is not None]
    sizes = Counter(group for _, _, group in rows)
    return metrics.group_accuracies(*zip(*rows, strict=True)), {group: sizes[group] for group in sorted(sizes)}


def _majority_class(model: ConceptModel, names: list[str], counts: Counter[str]) -> str:
    """The most frequent class in training; baselines do not keep the shares of their labels."""
    shares = getattr(model, "label_shares_", None)
    return max(names, key=counts.__getitem__) if shares is None else names[int(np.argmax(shares))]


def _proportion(accuracy: float, rows: int) -> Proportion:
    return Proportion(round(accuracy * rows), rows)


def _with_interval(share: Proportion) -> str:
    low, high = share.interval
    return f"{share.value:.3f} ({low:.3f} to {high:.3f})"


def _as_dict(share: Proportion) -> dict[str, Any]:
    return {"accuracy": share.value, "interval": list(share.interval)}


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _concepts_per_class(model: ConceptModel, shares: np.ndarray) -> float:
    if model.class_attributions_ is None:  # a method of one's own need not say what its classes are made of
        return math.nan
    return float(metrics.concept_count(model.class_attributions_ @ shares).mean())


def _interaction_mass(model: Any) -> float:
    network: FittedNetwork | None = getattr(model, "network_", None)
    return math.nan if network is None else float(absolute(network.nodes.capacity).interaction_mass().mean())


def _calibration_error(model: Any, X: Any, truth: list[str]) -> float:
    if not hasattr(model, "predict_proba"):
        return math.nan
    return metrics.expected_calibration_error(truth, model.predict_proba(X), list(class_index(model.classes_)))


def _coherence(shares: np.ndarray, scores: np.ndarray) -> float:
    if len(scores) < 2:
        return math.nan
    return metrics.mean_over_nodes(metrics.node_coherence_on(shares, scores)).mean
