"""What a model does on some rows, as plain numbers with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from choqolate._util.text import counted
from choqolate.errors import ChoqolateError
from choqolate.metrics import Proportion, anec

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
        nec_accuracy: accuracy if each class uses k concepts only, for each k, see
            :func:`choqolate.metrics.accuracy_at_nec`; with the shares of the classes among the training rows of the
            table, and empty where it has none.
        calibration_error_trained: the same at the temperature of the training, for a model that was calibrated.
        labels_from: what the labels are, if they are not annotations.
        calibration_chance: the calibration error that perfectly calibrated probabilities stay below on so many rows, in
            95% of samples; with ``calibration_chance_trained``, the same at the temperature of the training.
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
    nec_accuracy: dict[int, float] = field(default_factory=dict)
    labels_from: str | None = None
    calibration_chance: float = math.nan
    calibration_chance_trained: float = math.nan

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
    def anec(self) -> float:
        """Mean of ``nec_accuracy`` over k (ANEC); NaN where it is empty."""
        return anec(self.nec_accuracy)

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
    def small_classes(self) -> dict[str, int]:
        """The same of classes."""
        return {name: share.rows for name, share in self.by_class.items() if share.too_few}

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
        the groups with enough rows (``group``, ``accuracy``, ``interval``), ``small_groups`` has the others,
        ``small_classes`` the classes with too few rows, ``too_few`` says whether that holds for all rows together, and
        ``anec`` is the mean of ``nec_accuracy``, in which numbers of concepts are text.
        """
        numbers = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _BY_ROW}
        numbers = {name: None if _is_nan(value) else value for name, value in numbers.items()}
        numbers["nec_accuracy"] = {str(k): share for k, share in self.nec_accuracy.items()}
        if self.worst_group is not None:
            name, share = self.worst_group
            numbers["worst_group"] = {"group": name, "accuracy": share, "rows": self.group_rows[name]}
        majority, worst = self.majority, self.worst_measurable_group
        return numbers | {
            "anec": self.anec if self.nec_accuracy else None,
            "accuracy_interval": list(self.overall.interval),
            "class_intervals": {name: list(share.interval) for name, share in self.by_class.items()},
            "group_intervals": {name: list(share.interval) for name, share in self.by_group.items()},
            "majority": majority and {"class": self.majority_class, **_as_dict(majority)},
            "worst_measurable_group": worst and {"group": worst[0], **_as_dict(worst[1])},
            "small_groups": self.small_groups,
            "small_classes": self.small_classes,
            "too_few": self.overall.too_few,
        }

    @classmethod
    def from_dict(cls, numbers: Mapping[str, Any]) -> Self:
        """Read what :meth:`as_dict` gave; it does not know single rows any more.

        Raises:
            ChoqolateError: if it is something else.
        """
        try:
            later = {"labels_from": None, "calibration_chance": None, "calibration_chance_trained": None}
            numbers = {"nec_accuracy": {}, **later, **numbers}  # not known of models measured earlier
            known = {one.name: numbers[one.name] for one in fields(cls) if one.name not in _BY_ROW}
            floats = [one.name for one in fields(cls) if one.type == "float"]
            known |= {name: math.nan if known[name] is None else float(known[name]) for name in floats}
            known["nec_accuracy"] = {int(k): float(share) for k, share in known["nec_accuracy"].items()}
            worst = known["worst_group"]
            known["worst_group"] = worst and (str(worst["group"]), float(worst["accuracy"]))
            if not all(isinstance(known[name], str | None) for name in ("chosen", "majority_class", "labels_from")):
                raise TypeError("chosen, majority_class and labels_from are text")
            made = cls(**known)
            made.as_dict()  # shares and counts fit together
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ChoqolateError(f"Expected the numbers of an evaluation but they are incomplete: {error!r}.") from None
        return made


def _proportion(accuracy: float, rows: int) -> Proportion:
    return Proportion(round(accuracy * rows), rows)


def _with_interval(share: Proportion) -> str:
    if share.too_few:
        return f"too few rows to tell ({share.rows})"
    low, high = share.interval
    return f"{share.value:.3f} ({low:.3f} to {high:.3f})"


def _as_dict(share: Proportion) -> dict[str, Any]:
    return {"accuracy": share.value, "interval": list(share.interval)}


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
