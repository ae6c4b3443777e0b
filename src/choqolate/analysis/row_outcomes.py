"""What a model predicts for the rows of a table, counted block by block."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from choqolate import metrics
from choqolate._util.progress import item_bar
from choqolate.analysis.few_concepts import FewConcepts
from choqolate.data.row_codes import named
from choqolate.data.rows import class_index, class_places
from choqolate.data.score_file import ScoreFile
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.estimators.calibration import uncalibrated
from choqolate.estimators.table_inputs import as_inputs
from choqolate.explain.model_protocols import ConceptModel
from choqolate.metrics.calibration_error import calibration_spreads, chance_calibration_error


@dataclass(frozen=True, eq=False)
class RowOutcomes:
    """Predictions for n labelled rows, counted.

    Attributes:
        hits: which rows are classified correctly ``(n,)``.
        labels: class of each row ``(n,)``.
        groups: group of each row ``(n,)``; ``None`` without groups.
        pairs: number of rows for each pair of true and predicted class.
        class_rows: number of rows of each class.
        group_rows: number of rows of each group.
        group_hits: number of rows of each group that are classified correctly.
        calibration_error: of the model's probabilities; NaN where it has none.
        calibration_error_trained: the same at the temperature of the training.
        calibration_chance: the error that perfectly calibrated probabilities stay below on so many rows, in 95% of
            samples; with ``calibration_chance_trained``, the same at the temperature of the training.
    """

    hits: np.ndarray
    labels: np.ndarray
    groups: np.ndarray | None
    pairs: Counter[tuple[str, str]]
    class_rows: Counter[str]
    group_rows: Counter[str]
    group_hits: Counter[str]
    calibration_error: float
    calibration_error_trained: float
    calibration_chance: float
    calibration_chance_trained: float


def measure_rows(
    model: ConceptModel, rows: ConceptScores | ScoreFile, few: FewConcepts | None = None, *, verbose: bool = False
) -> RowOutcomes:
    """Predict for labelled rows, one block in memory at a time.

    Args:
        model: a fitted classifier, ours or a baseline.
        rows: scores of its concepts, in its order.
        few: counts hits with few concepts per class on the same rows.
        verbose: show progress on stderr for a file that is read block by block.

    Raises:
        ChoqolateError: if there are no rows, or one has a label that the model does not know.
    """
    if not len(rows):
        raise ChoqolateError("Expected rows to evaluate on, got none. Choose another split or table.")
    labels, groups = _labels_and_groups(rows)
    class_places(set(labels.tolist()), model.classes_)  # all labels must be known, before the work
    hits = np.empty(len(rows), dtype=bool)
    pairs: Counter[tuple[str, str]] = Counter()
    calibration = [_Calibration(model), _Calibration(uncalibrated(model))]
    start = 0
    with item_bar(len(rows), "evaluating", items="rows", enabled=verbose and isinstance(rows, ScoreFile)) as advance:
        for block in rows.blocks():
            stop = start + len(block)
            X, truth = as_inputs(model, block), labels[start:stop].tolist()
            scores = _class_scores(model, X)
            found = model.predict(X) if scores is None else model.classes_[scores.argmax(axis=1)]
            predicted = [str(label) for label in found.tolist()]
            pairs.update(zip(truth, predicted, strict=True))
            hits[start:stop] = np.array(truth) == np.array(predicted)
            for one in calibration:
                one.add(X, truth, scores)
            if few is not None:
                few.add(X, truth)
            start = stop
            advance(len(block))
    known = [] if groups is None else groups.tolist()
    return RowOutcomes(
        hits=hits,
        labels=labels,
        groups=groups,
        pairs=pairs,
        class_rows=Counter(labels.tolist()),
        group_rows=Counter(group for group in known if group is not None),
        group_hits=Counter(group for group, hit in zip(known, hits, strict=False) if group is not None and hit),
        calibration_error=calibration[0].error(len(rows)),
        calibration_error_trained=calibration[1].error(len(rows)),
        calibration_chance=calibration[0].chance(len(rows)),
        calibration_chance_trained=calibration[1].chance(len(rows)),
    )


def _labels_and_groups(rows: ConceptScores | ScoreFile) -> tuple[np.ndarray, np.ndarray | None]:
    if isinstance(rows, ConceptScores):
        assert rows.labels is not None
        return rows.labels, rows.groups
    codes = rows.codes
    return named(codes.labels, codes.classes), named(codes.groups, codes.group_names) if codes.has_groups else None


def _class_scores(model: Any, X: Any) -> np.ndarray | None:
    """Class scores ``(n, C)`` of our own classifiers, from which all else follows; ``None`` for other models."""
    return model.class_scores(X) if hasattr(model, "probability_temperature_") else None


class _Calibration:
    """The expected calibration error of a model, summed up block by block."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.names = list(class_index(model.classes_))
        self.gaps: np.ndarray | None = None
        self.spreads = np.zeros(())

    def add(self, X: Any, truth: list[str], scores: np.ndarray | None) -> None:
        if not hasattr(self.model, "predict_proba"):
            return
        if scores is None:
            probabilities = self.model.predict_proba(X)
        else:
            probabilities = softmax(scores / self.model.probability_temperature_, axis=1)
        gaps = metrics.calibration_gaps(truth, probabilities, self.names)
        self.gaps = gaps if self.gaps is None else self.gaps + gaps
        self.spreads = self.spreads + calibration_spreads(probabilities)

    def error(self, n_rows: int) -> float:
        return math.nan if self.gaps is None else float(np.abs(self.gaps).sum() / n_rows)

    def chance(self, n_rows: int) -> float:
        return math.nan if self.gaps is None else chance_calibration_error(self.spreads, n_rows)
