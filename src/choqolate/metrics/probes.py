"""Linear probes: how well some scores can be computed from others, on rows that the probe has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from choqolate._util.checks import check_number
from choqolate.errors import ChoqolateError
from choqolate.metrics.arrays import Floats, as_array

PENALTIES = 10.0 ** np.arange(-7, 2)  # per row, of standardized columns


def probe_predictions(X: ArrayLike, Y: ArrayLike, folds: int | ArrayLike = 5) -> Floats:
    r"""Predict each target by ridge regression, every row by a probe that was fitted on the other folds.

    Columns of X are standardized on the rows of the fit, and

    .. math:: \min_{w, b} \sum_i (y_i - w \cdot x_i - b)^2 + n \lambda \lVert w \rVert^2

    with :math:`\lambda` from :math:`10^{-7}` to 10, chosen for each target by the leave-one-out error on the rows of
    the fit.

    Args:
        X: What is known, shape (n, M).
        Y: What is predicted, shape (n,) or (n, K).
        folds: Number of parts, each predicted by a fit on the others; rows are assigned to them at random, always in
            the same way. Or the part of each row, shape (n,): parts with the same shares of two classes are needed
            where predictions tell these apart, because a fit whose part has more of one predicts less of it elsewhere.
    Returns:
        The predictions, of the shape of Y.
    Raises:
        ChoqolateError: If the numbers of rows differ, there are fewer than two rows per fold, or all are in one part.

    >>> X = np.random.default_rng(0).random((40, 3))
    >>> bool(np.allclose(probe_predictions(X, X[:, 0] - 2 * X[:, 1]), X[:, 0] - 2 * X[:, 1], atol=1e-3))
    True
    """
    known, targets = as_array(X, "X", ndims=(2,)), as_array(Y, "Y", ndims=(1, 2))
    if len(known) != len(targets):
        raise ChoqolateError(f"Y: expected the {len(known)} rows of X, got {len(targets)}; pass the same rows in both.")
    parts = _parts(folds, len(known))
    columns = targets.reshape(len(targets), -1)
    predicted = np.empty_like(columns)
    for part in np.unique(parts):
        there = parts == part
        predicted[there] = _ridge(known[~there], columns[~there], known[there])
    return predicted.reshape(targets.shape)


def probe_r2(X: ArrayLike, Y: ArrayLike, folds: int | ArrayLike = 5) -> Floats | float:
    r"""How much of each target a linear probe finds in X.

    .. math:: R^2 = 1 - \frac{\sum_i (y_i - \hat y_i)^2}{\sum_i (y_i - \bar y)^2}

    The predictions :math:`\hat y` are those of :func:`probe_predictions`, for rows that the probe has not seen: 1 if
    the target is a linear function of X, about 0 if X says nothing about it. A constant target gives NaN.

    Args:
        X: What is known, shape (n, M).
        Y: What is predicted, shape (n,) or (n, K).
        folds: As in :func:`probe_predictions`.
    Returns:
        One number for each target: a float for one, shape (K,) for several.
    Raises:
        ChoqolateError: As :func:`probe_predictions`.

    >>> X = np.random.default_rng(0).random((200, 3))
    >>> noise = np.random.default_rng(1).random(200)
    >>> probe_r2(X, np.stack([X[:, 0], noise], axis=1)).round(1) + 0.0
    array([1., 0.])
    """
    targets = as_array(Y, "Y", ndims=(1, 2))
    missed = ((targets - probe_predictions(X, targets, folds)) ** 2).sum(axis=0)
    spread = ((targets - targets.mean(axis=0)) ** 2).sum(axis=0)
    moving = np.ptp(targets, axis=0) > 0
    found = 1 - np.divide(missed, spread, out=np.full_like(spread, np.nan), where=moving)
    return float(found) if targets.ndim == 1 else np.asarray(found)


def _parts(folds: int | ArrayLike, n_rows: int) -> NDArray[Any]:
    """The part of each row."""
    if np.ndim(folds):
        parts = as_array(folds, "folds", ndims=(1,))
        if len(parts) != n_rows or np.ptp(parts) == 0:
            raise ChoqolateError(f"folds: expected {n_rows} numbers, one per row, of at least two parts.")
        return parts
    check_number("folds", folds, minimum=2, whole=True)
    number = int(np.asarray(folds))
    if n_rows < 2 * number:
        raise ChoqolateError(f"X: expected at least {2 * number} rows for {number} folds, got {n_rows}.")
    return np.random.default_rng(0).permutation(n_rows) % number


def _ridge(X: Floats, Y: Floats, X_new: Floats) -> Floats:
    """Predictions for new rows; of the penalties, each target takes the one with the least leave-one-out error.

    With X = U S V' and d = s² / (s² + n λ), the prediction is V diag(s / (s² + n λ)) U' y, the diagonal of the hat
    matrix h = 1/n + Σ_k U_k² d_k, and the leave-one-out residual (y - ŷ) / (1 - h).
    """
    n, center, spread, means = len(X), X.mean(axis=0), X.std(axis=0), Y.mean(axis=0)
    spread[np.ptp(X, axis=0) == 0] = 1.0
    U, s, Vt = np.linalg.svd((X - center) / spread, full_matrices=False)
    projected, squares = U.T @ (Y - means), s**2
    errors = []
    for penalty in n * PENALTIES:
        kept = (squares / (squares + penalty))[:, None]
        residuals = Y - means - U @ (kept * projected)
        left = np.maximum(1 - 1 / n - U**2 @ kept, np.finfo(float).eps)  # 1 - h
        errors.append(((residuals / left) ** 2).sum(axis=0))
    best = n * PENALTIES[np.argmin(errors, axis=0)]
    W = Vt.T @ (projected * s[:, None] / (squares[:, None] + best))
    return (X_new - center) / spread @ W + means
