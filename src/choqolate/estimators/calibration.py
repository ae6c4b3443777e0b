"""Calibration: a temperature for predicted probabilities, separate from the training temperature."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import warnings
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.utils.validation import check_is_fitted

from choqolate._util.checks import check_number
from choqolate._util.text import counted
from choqolate.data.rows import class_places
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.metrics import Proportion
from choqolate.metrics.calibration_error import binned_error
from choqolate.metrics.intervals import TOO_FEW
from choqolate.network.fitted import FittedNetwork

Model = TypeVar("Model")

STALE = "The probabilities were calibrated before the latest edits or undos and may be off. Calibrate the model again."

_MOST_ROWS = 10_000  # whose confidences are kept
_REACH = math.log(1_000)  # how far the temperature may move, as a factor
_FEW_KEPT = 30  # rows above a threshold, of which an accuracy is not sure


@dataclass(frozen=True, eq=False)
class Calibration:
    """A temperature fitted on labeled rows, with the confidence and correctness of the predictions on them.

    Attributes:
        temperature: of the class probabilities; it minimizes the negative log-likelihood of the rows.
        rows: number of rows.
        source: where they came from, in words.
        error_before: expected calibration error on these rows with the training temperature.
        error_after: the same with this temperature. Both are in-sample; :func:`choqolate.evaluate` measures on others.
        confidences: highest probability of each row, in descending order; an evenly spaced subset if there are many.
        right: whether the predictions of these rows are correct.
        state: of the model that was calibrated, see :func:`model_state`.
    """

    temperature: float
    rows: int
    source: str
    error_before: float
    error_after: float
    confidences: np.ndarray
    right: np.ndarray
    state: str

    def __repr__(self) -> str:
        error = f"calibration error {self.error_before:.3f} -> {self.error_after:.3f}"
        return f"Calibration(temperature {self.temperature:.4g}, {counted(self.rows, 'row')}, {error})"

    @classmethod
    def fit(cls, scores: np.ndarray, targets: np.ndarray, temperature: float, *, source: str, state: str) -> Self:
        """Fit to class scores ``(n, C)`` and class indices ``(n,)``, from the training temperature."""
        right = scores.argmax(axis=1) == targets
        fitted = fit_temperature(scores, targets, temperature)
        before, after = (softmax(scores / t, axis=1).max(axis=1) for t in (temperature, fitted))
        order = np.argsort(-after, kind="stable")
        kept = order[np.unique(np.linspace(0, len(order) - 1, min(_MOST_ROWS, len(order))).astype(int))]
        return cls(
            temperature=fitted,
            rows=len(scores),
            source=source,
            error_before=binned_error(before, right),
            error_after=binned_error(after, right),
            confidences=after[kept],
            right=right[kept],
            state=state,
        )

    def as_dict(self) -> dict[str, Any]:
        """The single values, as JSON can hold them; arrays are :attr:`confidences` and :attr:`right`."""
        return {name: getattr(self, name) for name in _VALUES}

    @classmethod
    def from_parts(cls, values: dict[str, Any], confidences: np.ndarray, right: np.ndarray) -> Self:
        """Put together what a model folder holds.

        Raises:
            ChoqolateError: if the parts are not those of a calibration.
        """
        made = cls(confidences=confidences, right=right.astype(bool), **{name: values[name] for name in _VALUES})
        numbers = [made.temperature, made.rows, made.error_before, made.error_after]
        fine = not any(isinstance(value, bool) for value in numbers)
        fine = fine and all(isinstance(value, int | float) and math.isfinite(value) and value >= 0 for value in numbers)
        fine = fine and made.temperature > 0 and isinstance(made.source, str) and isinstance(made.state, str)
        fine = fine and confidences.ndim == 1 and confidences.shape == right.shape and len(confidences) > 0
        if not (fine and ((confidences > 0) & (confidences <= 1)).all() and (np.diff(confidences) <= 0).all()):
            raise ChoqolateError("expected a calibration with confidences from high to low: incomplete or damaged")
        return made


_VALUES = ("temperature", "rows", "source", "error_before", "error_after", "state")


@dataclass(frozen=True)
class Abstention:
    """The rule for abstaining: a threshold chosen on the calibration rows to reach a target accuracy.

    Attributes:
        wanted: target accuracy of the predictions that are kept.
        threshold: probability below which to abstain; 0 if that is never needed, above 1 if the accuracy cannot be
            reached.
        kept: how many of the calibration rows are at or above it.
        right: how many of those are correct, with an interval.
    """

    wanted: float
    threshold: float
    kept: Proportion
    right: Proportion

    @property
    def reached(self) -> bool:
        """Whether some threshold reaches the accuracy, on at least ten rows."""
        return self.threshold <= 1

    def __str__(self) -> str:
        if not self.reached:
            return (
                f"An accuracy of {self.wanted:.1%} cannot be reached by any threshold that keeps at least {TOO_FEW} of "
                f"the {self.kept.rows:,} calibration rows, so the model abstains on all rows."
            )
        low, high = self.right.interval
        right = f"{self.right.value:.1%} are correct (95% interval {low:.1%} to {high:.1%}, {self.right.rows:,} rows)"
        said = f"To reach an accuracy of {self.wanted:.1%}, the model "
        if self.threshold:
            said += f"abstains below a probability of {self.threshold:.3f}. This keeps {self.kept.value:.1%} of the "
            said += f"calibration rows, of which {right}."
        else:
            said += f"does not have to abstain: of the calibration rows, {right}."
        return f"{said} This is based on few rows." if self.right.rows < _FEW_KEPT else said


def choose_threshold(calibration: Calibration, accuracy: float) -> Abstention:
    """Choose the lowest threshold at which the calibration rows at or above it reach an accuracy, and promise it.

    Both the share of these rows that are correct and their mean probability must reach it. The share alone would be
    too optimistic: the lowest of many thresholds is chosen, where chance makes it high. An accuracy of 1 is reached
    only by probabilities of 1.

    Args:
        calibration: of a model.
        accuracy: wanted, above 0 and at most 1.

    >>> confidences, right = np.linspace(1, 0.51, 50), np.arange(50) < 40
    >>> rows = Calibration(1.0, 50, "example", 0.1, 0.1, confidences, right, "")
    >>> found = choose_threshold(rows, 0.85)
    >>> round(found.threshold, 2), found.kept, found.right
    (0.7, Proportion(hits=31, rows=50), Proportion(hits=31, rows=31))
    """
    check_number("abstain", accuracy, minimum=0, strict=True)
    if accuracy > 1:
        raise ChoqolateError(f"Expected abstain to be an accuracy of at most 1, got {accuracy!r}. Write 0.95 for 95%.")
    confidences, hits = calibration.confidences, np.cumsum(calibration.right)
    counts = np.arange(1, len(confidences) + 1)
    last = np.append(confidences[1:] < confidences[:-1], True)  # of the rows with the same confidence
    reached = np.minimum(hits, np.cumsum(confidences)) >= accuracy * counts - 1e-9
    enough = np.flatnonzero(last & reached & (counts >= TOO_FEW))
    if not len(enough):
        return Abstention(float(accuracy), math.inf, Proportion(0, len(counts)), Proportion(0, 0))
    end = int(enough[-1])
    kept, right = int(counts[end]), int(hits[end])
    threshold = 0.0 if kept == len(counts) else float(confidences[end])  # nothing has to be left out
    return Abstention(float(accuracy), threshold, Proportion(kept, len(counts)), Proportion(right, kept))


def fit_temperature(scores: np.ndarray, targets: np.ndarray, start: float) -> float:
    r"""Fit the temperature that minimizes :math:`-\sum_i \log \mathrm{softmax}(s_i / T)_{y_i}`.

    The sum is convex in 1/T. If every row is right it has no minimum; then the mean confidence is set to the accuracy
    that n right rows of n make likely, (n + 1) / (n + 2).

    Args:
        scores: class scores ``(n, C)``.
        targets: class indices ``(n,)``.
        start: training temperature; the result is within a factor of 1,000 of it.
    """
    rows, center = np.arange(len(scores)), math.log(start)
    bounds = center - _REACH, center + _REACH
    if (scores.argmax(axis=1) == targets).all():
        wanted = (len(scores) + 1) / (len(scores) + 2)

        def gap(log_t: float) -> float:
            return float(softmax(scores / math.exp(log_t), axis=1).max(axis=1).mean()) - wanted

        ends = gap(bounds[0]), gap(bounds[1])
        if not ends[0] > 0 > ends[1]:  # scores that are equal, or hardly differ: there is nothing to fit
            return float(start)
        return math.exp(brentq(gap, *bounds))

    def loss(log_t: float) -> float:
        return -float(log_softmax(scores / math.exp(log_t), axis=1)[rows, targets].mean())

    return math.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6}).x)


def calibrate_on(model: Any, X: Any, y: Any, source: str) -> Calibration:
    """Fit a calibration to rows, as :meth:`~choqolate.ChoqolateClassifier.calibrate` takes them."""
    check_is_fitted(model)
    if y is None and isinstance(X, ConceptScores):
        X = X.labelled()
        y = X.labels
    if y is None:
        raise ChoqolateError("Expected labels to calibrate on, but got none. Pass y, or a table with labels.")
    scores, targets = model.class_scores(X), class_places(list(y), model.classes_)
    if len(targets) != len(scores) or len(scores) < TOO_FEW:
        raise ChoqolateError(
            f"Expected at least {TOO_FEW} labeled rows to calibrate on, but got {len(scores)} rows and "
            f"{len(targets)} labels."
        )
    state = model_state(model.network_)
    return Calibration.fit(scores, targets, model.temperature_, source=source, state=state)


def with_calibration(model: Model, calibration: Calibration | None) -> Model:
    """A copy of a model with another calibration, or with none."""
    other = copy.copy(model)
    other.calibration_ = calibration  # type: ignore[attr-defined]
    return other


def uncalibrated(model: Model) -> Model:
    """Return the model with its training temperature: itself, unless it was calibrated."""
    return model if getattr(model, "calibration_", None) is None else with_calibration(model, None)


def abstain_by(model: Any, accuracy: float) -> Abstention:
    """Choose when a model abstains, see :meth:`~choqolate.ChoqolateClassifier.abstention`."""
    if model.calibration_ is None:
        raise ChoqolateError(
            "Expected a calibrated model to choose a threshold, but this one is not calibrated. Calibrate it on "
            "labeled rows that it was not trained on (calibrate, or --calibrate SCORES)."
        )
    if not model.calibration_is_current_:
        raise ChoqolateError(
            "Expected a model that was calibrated as it is now, but it was edited since, so the threshold would be "
            "wrong. Calibrate it again on labeled rows that it was not trained on (calibrate, or --calibrate SCORES)."
        )
    return choose_threshold(model.calibration_, accuracy)


def warn_if_stale(model: Any, stacklevel: int) -> None:
    """Warn if a model was calibrated before its latest edits."""
    if model.calibration_ is not None and not model.calibration_is_current_:
        warnings.warn(STALE, ChoqolateWarning, stacklevel=stacklevel)


def calibration_text(model: Any) -> str:
    """Say whether and on what a model was calibrated, and whether that was before its latest edits.

    >>> from choqolate.estimators.classifier import ChoqolateClassifier
    >>> calibration_text(ChoqolateClassifier())
    'not calibrated'
    """
    known = model.calibration_
    if known is None:
        return "not calibrated"
    when = "" if model.calibration_is_current_ else " before the latest edits"
    return f"calibrated{when} on {counted(known.rows, 'row')} ({known.source})"


def model_state(network: FittedNetwork) -> str:
    """Hash the trained network and the edits in force: equal where class scores are equal."""
    edits = [
        {name: value for name, value in edit.as_dict().items() if name != "note"} for edit in network.edits_in_force
    ]
    return hashlib.sha256(f"{network.identity} {json.dumps(edits)}".encode()).hexdigest()[:16]
