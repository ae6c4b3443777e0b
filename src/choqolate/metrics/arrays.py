"""Inputs of the metrics: numpy arrays, torch tensors, data frames or lists, checked and in float64."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from choqolate._util.checks import as_labels, check_same_kind
from choqolate.errors import ChoqolateError

Floats = NDArray[np.float64]
Labels = ArrayLike | Iterable[Hashable]


def relative_sizes(W: ArrayLike) -> Floats:
    """Absolute attributions, each row relative to its largest: sums and products neither vanish nor overflow."""
    weights = np.abs(as_array(W, "W", ndims=(1, 2)))
    largest = weights.max(axis=-1, keepdims=True)
    return np.divide(weights, largest, out=weights, where=largest > 0)


def centered(X: Floats) -> Floats:
    """Columns minus their means; a constant column becomes exactly zero."""
    return np.where((X[0] == X).all(axis=0), 0.0, X - X.mean(axis=0))


def unit_rows(X: Floats) -> Floats:
    """Rows scaled to length 1; zero rows stay zero."""
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.finfo(np.float64).tiny)


def as_array(value: Any, name: str, *, ndims: tuple[int, ...], min_rows: int = 1, allow_nan: bool = False) -> Floats:
    """A float64 array with one of the given numbers of dimensions, not empty, finite or, if allowed, NaN."""
    try:
        array = np.asarray(value.detach().cpu().double() if hasattr(value, "detach") else value, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ChoqolateError(f"{name}: expected an array of numbers, got {type(value).__name__} ({error}).") from None
    if array.ndim not in ndims or array.size == 0 or (array.ndim and len(array) < min_rows):
        wanted = f"{' or '.join(map(str, ndims))} dimensions and at least {min_rows} rows"
        raise ChoqolateError(f"{name}: expected {wanted}, got shape {array.shape}; reshape it or pass more rows.")
    bad = int(np.isinf(array).sum() + (0 if allow_nan else np.isnan(array).sum()))
    if bad:
        raise ChoqolateError(f"{name}: expected finite numbers, got {bad} NaN or infinite; drop or fill them first.")
    return array


def as_pair(A: Any, B: Any, min_rows: int) -> tuple[Floats, Floats]:
    """Two matrices with the same rows."""
    first, second = (as_array(x, name, ndims=(2,), min_rows=min_rows) for x, name in ((A, "A"), (B, "B")))
    if len(first) != len(second):
        raise ChoqolateError(f"B: expected {len(first)} rows as in A, got {len(second)}; pass the same rows in both.")
    return first, second


def correct_predictions(y_true: Any, y_pred: Any) -> list[bool]:
    """Which predictions are right."""
    truth = as_labels(y_true, "y_true")
    predicted = as_labels(y_pred, "y_pred", len(truth))
    check_same_kind(predicted, truth, "y_pred")
    return [bool(t == p) for t, p in zip(truth, predicted, strict=True)]
