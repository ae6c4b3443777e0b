"""What all estimators share: named columns of raw scores, their scaling, seeds, and the class with the best score."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from choqolate._util.checks import check_columns, check_finite, check_number, check_ranges, check_seed
from choqolate.errors import ChoqolateError


class ConceptEstimator:
    """Raw concept scores in, min-max scaled with the training range and clipped to [0, 1]; labels out.

    Attributes:
        concepts_: names of the M concepts; of the columns if ``X`` had some, else x0, x1, ...
        score_min_, score_max_: range of the training scores ``(M,)``.
    """

    concepts_: list[str]
    classes_: np.ndarray
    score_min_: np.ndarray
    score_max_: np.ndarray
    epochs: int
    batch_size: int
    learning_rate: float
    device: str
    random_state: int | np.random.RandomState | None

    # what the estimator brings along
    def class_scores(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """The class with the highest score, ``(n,)``."""
        scores = self.class_scores(X)
        predicted: np.ndarray = self.classes_[scores.argmax(axis=1)]
        return predicted

    def _check_loop_parameters(self) -> None:
        for name in ("epochs", "batch_size"):
            check_number(name, getattr(self, name), minimum=1, whole=True)
        check_number("learning_rate", self.learning_rate, minimum=0, strict=True)
        if not isinstance(self.device, str):
            raise ChoqolateError(f"expected device to be text such as 'auto', 'cpu' or 'cuda:0', got {self.device!r}")

    def _seed(self) -> int:
        seed = self.random_state
        if seed is None or isinstance(seed, np.random.RandomState):
            seed = check_random_state(seed).randint(2**31 - 1)
        return check_seed(seed)

    def _validate(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Scores ``(n, M)`` in float64 and labels to train on; keeps the names of the concepts."""
        check_columns(X)
        columns = getattr(X, "columns", None)
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite=False)
        check_classification_targets(y)
        self.concepts_ = [f"x{j}" for j in range(X.shape[1])] if columns is None else [str(name) for name in columns]
        check_finite(X, self.concepts_)
        return X, y

    def _fit_range(self, X: np.ndarray) -> list[str]:
        """Keep the range of the training scores; return the concepts that are constant."""
        self.score_min_, self.score_max_ = X.min(axis=0), X.max(axis=0)
        check_ranges(self.score_min_, self.score_max_, self.concepts_)
        constant = self.score_min_ == self.score_max_
        return [name for name, still in zip(self.concepts_, constant, strict=True) if still]

    def _scale(self, X: np.ndarray) -> np.ndarray:
        extent = self.score_max_ - self.score_min_
        scaled = (X - self.score_min_) / np.where(extent > 0, extent, 1.0)
        return np.where(extent > 0, np.clip(scaled, 0.0, 1.0), 0.0)

    def _scaled(self, X: Any) -> np.ndarray:
        """Raw scores of the fitted concepts, checked and scaled, ``(n, M)`` in float64."""
        check_is_fitted(self)
        check_columns(X)
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite=False, reset=False)
        check_finite(X, self.concepts_)
        return self._scale(X)


def check_seeds(seeds: Iterable[int], parameters: Container[str]) -> list[int]:
    """The seeds of several runs, which take the place of the parameter ``random_state``."""
    if not isinstance(seeds, Iterable):
        raise ChoqolateError(f"expected seeds to be several, such as range(20), got {seeds!r}")
    seeds = [check_seed(seed) for seed in seeds]
    if not seeds:
        raise ChoqolateError("expected at least one seed, got none")
    if "random_state" in parameters:
        raise ChoqolateError("expected the random states of the runs as seeds=..., got random_state")
    return seeds
