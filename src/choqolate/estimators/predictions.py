"""Predictions as a table: one row per image, with reasons, and with flags that say when not to trust them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from choqolate import metrics
from choqolate._util.checks import check_number
from choqolate._util.progress import item_bar
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.calibration import Abstention, abstain_by, warn_if_stale
from choqolate.estimators.training_reference import range_excess
from choqolate.explain.local import LocalExplanation, explain_rows

if TYPE_CHECKING:
    import pandas as pd

    from choqolate.estimators.choquet_estimator import ChoquetEstimator

FLAGS = {
    "unlike_training": "unlike any training image",
    "outside_range": "scores outside the training range",
    "abstain": "probability below the threshold",
}
"""Flags of a prediction, and what each means."""

USED_SHARE = 0.95  # of the weight of a class; the fewest concepts that carry it are those in use
_BLOCK_VALUES = 1 << 22  # attributions held at a time


def predict_table(
    model: ChoquetEstimator, X: Any, *, abstain: float | None = None, reasons: int = 3, verbose: bool = False
) -> pd.DataFrame:
    """Predict with reasons and flags, see :meth:`~choqolate.ChoqolateClassifier.predict_table`."""
    import pandas as pd

    check_is_fitted(model)
    check_number("reasons", reasons, minimum=0, whole=True)
    rule = None if abstain is None else abstain_by(model, abstain)
    warn_if_stale(model, stacklevel=4)
    if model.reference_ is None:
        message = (
            "Flags are not available because the model was trained on fewer than 20 rows or saved by an earlier "
            "version. Train it again on at least 20 rows to get them."
        )
        warnings.warn(message, ChoqolateWarning, stacklevel=3)
    X = X if isinstance(X, ConceptScores) or hasattr(X, "iloc") else np.atleast_1d(X)
    used = used_concepts(model)
    blocks = []
    with item_bar(len(X), "predicting", items="rows", enabled=verbose) as advance:
        for part in _blocks(model, X):
            blocks.append(_predict_block(model, part, used, rule, reasons))
            advance(len(part))
    if not blocks:
        raise ChoqolateError("Expected rows to predict, got none. Give at least one.")
    known = {}
    if isinstance(X, ConceptScores):
        known = {"path": X.paths, "label": X.labels}
    front = pd.DataFrame({name: column for name, column in known.items() if column is not None}, dtype=object)
    table = pd.concat(blocks, ignore_index=True)
    return pd.concat([front, table], axis=1) if len(front.columns) else table


def doubt(model: ChoquetEstimator, X: Any) -> str:
    """Say why a prediction for one row should not be trusted: what its flags say; nothing if there is none."""
    if model.reference_ is None:
        return ""
    raw = model.raw_scores(X)
    flags = _flags(model, novelty(model, raw, used_concepts(model)), np.ones(len(raw)), None)
    return str(flags["why_look"][0])


def used_concepts(model: ChoquetEstimator) -> np.ndarray:
    """Mask ``(M,)`` of the concepts that carry 95% of at least one class."""
    shares = model.class_attributions_ @ model.concept_attributions_
    counts = metrics.concept_count(shares, USED_SHARE)
    used = np.zeros(shares.shape[1], dtype=bool)
    for row, count in zip(shares, counts, strict=True):
        used[np.argsort(-row, kind="stable")[:count]] = True
    return used


@dataclass(frozen=True)
class Novelty:
    """How far rows are from what the model was trained on.

    Attributes:
        distance: to the training rows ``(n,)``, in units of the limit; above 1 a row is unlike any of them.
        excess: how far the concept that is farthest outside its training range is outside ``(n,)``, in units of the
            range, with a sign; only concepts that the model uses count.
        concept: index of that concept ``(n,)``.
        outside: whether it is farther outside than chance explains ``(n,)``.
    """

    distance: np.ndarray
    excess: np.ndarray
    concept: np.ndarray
    outside: np.ndarray

    @property
    def unlike(self) -> np.ndarray:
        """Whether each row is unlike any training row ``(n,)``."""
        return self.distance > 1


def novelty(model: ChoquetEstimator, raw: np.ndarray, used: np.ndarray) -> Novelty | None:
    """Measure how far raw scores ``(n, M)`` are from the training rows; ``None`` if the model does not know.

    Args:
        model: fitted.
        raw: scores as :meth:`raw_scores` gives them.
        used: mask of the concepts whose range counts, as :func:`used_concepts` gives it.
    """
    if model.reference_ is None:
        return None
    z = model.scaling_.unclipped(raw)
    excess = range_excess(z) * used
    concept = np.abs(excess).argmax(axis=1)
    worst = excess[np.arange(len(z)), concept]
    return Novelty(model.reference_.distances(z), worst, concept, np.abs(worst) > model.reference_.margin)


def _blocks(model: ChoquetEstimator, X: Any) -> Iterator[Any]:
    """Parts of the rows, few enough for the attributions of all concepts in all nodes."""
    step = max(1, _BLOCK_VALUES // max(1, model.node_attributions_.size))
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        yield X.take(rows) if isinstance(X, ConceptScores) else X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _predict_block(
    model: ChoquetEstimator, X: Any, used: np.ndarray, rule: Abstention | None, reasons: int
) -> pd.DataFrame:
    import pandas as pd

    raw = model.raw_scores(X)
    z = model.scaling_(raw)
    scores = model.network_.class_scores(model.network_.as_inputs(z))
    probabilities = softmax(scores / model.probability_temperature_, axis=1)
    rows, (first, second) = np.arange(len(raw)), np.argsort(-scores, axis=1, kind="stable")[:, :2].T
    columns: dict[str, Any] = {
        "predicted": model.classes_[first],
        "probability": probabilities[rows, first],
        "runner_up": model.classes_[second],
        "runner_up_probability": probabilities[rows, second],
        "margin": scores[rows, first] - scores[rows, second],
    }
    if reasons:
        why = explain_rows(model.network_, z, model.node_names_, baseline="mean")
        columns |= _reasons(why, reasons)
    columns |= _flags(model, novelty(model, raw, used), columns["probability"], rule)
    return pd.DataFrame(columns)


def _reasons(why: LocalExplanation, most: int) -> dict[str, np.ndarray]:
    """The concepts that contribute most to the lead over the runner-up, their levels and contributions."""
    lead = why.contrast()
    most = min(most, lead.values.shape[1])
    order = np.argsort(-lead.values, axis=1, kind="stable")[:, :most]
    names, rows = np.array(lead.names, dtype=object), np.arange(len(order))
    columns = {}
    for place in range(most):
        chosen = order[:, place]
        value = lead.values[rows, chosen]
        speaks = value > 0  # what speaks against the prediction is no reason for it
        columns[f"reason_{place + 1}"] = np.where(speaks, names[chosen], np.array(None))
        columns[f"level_{place + 1}"] = np.where(speaks, lead.levels[rows, chosen], np.nan)
        columns[f"contribution_{place + 1}"] = np.where(speaks, value, np.nan)
    return columns


def _flags(
    model: ChoquetEstimator, found: Novelty | None, probability: np.ndarray, rule: Abstention | None
) -> dict[str, Any]:
    import pandas as pd

    n_rows = len(probability)
    unknown = pd.array([pd.NA] * n_rows, dtype="boolean")
    below = np.zeros(n_rows, dtype=bool) if rule is None else probability < rule.threshold
    why: list[list[str]] = [[] for _ in range(n_rows)]
    if found is not None:
        for row in np.flatnonzero(found.unlike):
            why[row].append(f"{FLAGS['unlike_training']} ({found.distance[row]:.2f} times the limit)")
        for row in np.flatnonzero(found.outside):
            side = "above" if found.excess[row] > 0 else "below"
            name = model.network_.concepts[found.concept[row]]
            why[row].append(f"{name!r} is {side} its training range by {abs(found.excess[row]):.0%} of the range")
    if rule is not None:
        for row in np.flatnonzero(below):
            limit = f"{rule.threshold:.3f}" if rule.reached else "any threshold"
            why[row].append(f"probability below {limit}")
    return {
        "distance": np.full(n_rows, np.nan) if found is None else found.distance,
        "unlike_training": unknown if found is None else pd.array(found.unlike, dtype="boolean"),
        "outside_range": unknown if found is None else pd.array(found.outside, dtype="boolean"),
        "abstain": unknown if rule is None else pd.array(below, dtype="boolean"),
        "look": [bool(reasons) for reasons in why],
        "why_look": ["; ".join(reasons) for reasons in why],
    }
