"""Recalibration: the shift of the class scores that gives predicted classes the shares that they should have."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from choqolate.errors import ChoqolateError

_NO_ROW = 1e-6  # counts that miss by less are right: wanted ones are rounded


def match_shares(scores: np.ndarray, shares: np.ndarray) -> np.ndarray:
    r"""The shift s of the class scores for which the arg-max shares come nearest to the given ones.

    The shift minimises the convex function :math:`\sum_i \max_r (o_{ir} + s_r) - n \sum_r \pi_r s_r`, whose gradient
    is the difference between predicted and wanted counts. It is minimised with a soft maximum that hardens step by
    step, then class by class.

    Args:
        scores: class scores ``(n, C)``.
        shares: wanted shares ``(C,)``, summing to one.

    Returns:
        The shift ``(C,)``, with mean zero.

    >>> scores = np.array([[0.5, 0.4], [0.6, 0.5], [0.7, 0.5], [0.9, 0.1]])  # class 0 everywhere
    >>> (scores + match_shares(scores, np.array([0.5, 0.5]))).argmax(1)
    array([1, 1, 0, 0])
    """
    n_rows, n_classes = scores.shape
    if n_rows < n_classes:
        raise ChoqolateError(f"expected at least as many rows as classes ({n_classes}) to recalibrate on, got {n_rows}")
    wanted = shares * n_rows
    shift, best, best_error = np.zeros(n_classes), np.zeros(n_classes), np.inf

    def soft_maximum(s: np.ndarray, softness: float) -> tuple[float, np.ndarray]:
        logits = (scores + s) / softness
        level = logits.max(axis=1, keepdims=True)
        np.exp(np.subtract(logits, level, out=logits), out=logits)
        sums = logits.sum(axis=1)
        value = softness * (np.log(sums).sum() + level.sum()) - wanted @ s
        return value / n_rows, (logits.T @ (1 / sums) - wanted) / n_rows

    for softness in max(float(scores.std()), 1e-6) * 4.0 ** -np.arange(8.0):
        options = {"maxiter": 30}
        shift = minimize(soft_maximum, shift, args=(softness,), jac=True, method="L-BFGS-B", options=options).x
    for _ in range(20):
        error = float(np.abs(_counts(scores + shift) - wanted).sum())
        if error >= best_error:
            break
        best, best_error = shift.copy(), error
        if error < _NO_ROW:
            break
        shift = _match_class_by_class(scores, shift, wanted)
    return best - best.mean()


def _counts(scores: np.ndarray) -> np.ndarray:
    return np.bincount(scores.argmax(1), minlength=scores.shape[1])


def _match_class_by_class(scores: np.ndarray, shift: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    shift, shifted = shift.copy(), scores + shift
    for r in range(len(shift)):
        shifted[:, r] = -np.inf
        others = shifted.max(axis=1)
        needed = np.sort(others - scores[:, r])  # the shift from which each row goes to class r
        steps = np.concatenate([[needed[0] - 1.0], needed, [needed[-1] + 1.0]])
        possible = np.flatnonzero(np.diff(steps) > 0)  # counts of rows that some shift gives: ties go together
        count = possible[np.abs(possible - wanted[r]).argmin()]
        shift[r] = (steps[count] + steps[count + 1]) / 2
        shifted[:, r] = scores[:, r] + shift[r]
    return shift
