"""Calibration error: whether, for example, 80% of the rows predicted with a probability of 80% are correct."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from choqolate._util.checks import as_labels, check_number
from choqolate._util.text import listed
from choqolate.errors import ChoqolateError
from choqolate.metrics.arrays import Labels, as_array


def expected_calibration_error(
    y_true: Labels, probabilities: ArrayLike, classes: Sequence[Any] | None = None, bins: int = 15
) -> float:
    r"""Expected calibration error: mean distance between confidence and accuracy (Guo et al., 2017).

    The confidence of a row is its highest probability. Rows are sorted into bins of equal width by confidence, and

    .. math:: \mathrm{ECE} = \sum_k \frac{n_k}{n} \left| \mathrm{accuracy}_k - \mathrm{confidence}_k \right|

    Few rows give an error above zero by chance alone.

    Args:
        y_true: True labels, shape (n,).
        probabilities: Class probabilities, shape (n, C).
        classes: Labels of the columns; by default 0, 1, ...
        bins: Number of bins from 0 to 1. A bin includes its upper end.
    Raises:
        ChoqolateError: If shapes do not match, a label is unknown, or a probability is not between 0 and 1.

    >>> round(expected_calibration_error([0, 1, 1, 0], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.6, 0.4]]), 3)
    0.125
    """
    check_number("bins", bins, minimum=1, whole=True)
    return binned_error(*_confidences(y_true, probabilities, classes), bins)


def calibration_gaps(
    y_true: Labels, probabilities: ArrayLike, classes: Sequence[Any] | None = None, bins: int = 15
) -> np.ndarray:
    """Sum accuracy minus confidence over the rows of each bin, ``(bins,)``.

    The sums of several blocks of rows add up. The expected calibration error is the sum of their absolute values,
    divided by the number of rows. Arguments and errors are those of :func:`expected_calibration_error`.

    >>> calibration_gaps([0, 1], [[0.9, 0.1], [0.6, 0.4]], bins=2)
    array([ 0. , -0.5])
    """
    check_number("bins", bins, minimum=1, whole=True)
    return binned_gaps(*_confidences(y_true, probabilities, classes), bins)


def calibration_spreads(probabilities: ArrayLike, bins: int = 15) -> np.ndarray:
    r"""Variance of the sums of :func:`calibration_gaps` if the probabilities are right, ``(bins,)``.

    Of a row with confidence p it is p (1 - p). The variances of several blocks of rows add up.

    >>> calibration_spreads([[0.9, 0.1], [0.6, 0.4]], bins=2)
    array([0.  , 0.33])
    """
    check_number("bins", bins, minimum=1, whole=True)
    confidence = _shares(probabilities).max(axis=1)
    return np.bincount(_bins(confidence, bins), confidence * (1 - confidence), bins)


def chance_calibration_error(spreads: np.ndarray, n_rows: int) -> float:
    r"""Estimate the calibration error that perfectly calibrated probabilities stay below in 95% of samples.

    With variances :math:`v_k` of the gaps, which are nearly normal, their absolute values have means
    :math:`\sqrt{2 v_k / \pi}` and variances :math:`v_k (1 - 2 / \pi)`. The sum over the bins is nearly normal too:

    .. math:: \frac{1}{n} \left( \sum_k \sqrt{2 v_k / \pi} + 1.645 \sqrt{(1 - 2 / \pi) \sum_k v_k} \right)

    Args:
        spreads: Variances of the gaps, see :func:`calibration_spreads`, shape (bins,).
        n_rows: Number of rows n.

    >>> round(chance_calibration_error(calibration_spreads([[0.8, 0.2]] * 100), 100), 3)
    0.072
    """
    mean = np.sqrt(2 * spreads / np.pi).sum()
    return float((mean + 1.645 * np.sqrt((1 - 2 / np.pi) * spreads.sum())) / n_rows)


def _confidences(
    y_true: Labels, probabilities: ArrayLike, classes: Sequence[Any] | None
) -> tuple[np.ndarray, np.ndarray]:
    """The highest probability of each row (n,), and whether its class is the true one (n,)."""
    shares = _shares(probabilities)
    names = list(range(shares.shape[1])) if classes is None else list(classes)
    if len(names) != shares.shape[1]:
        raise ChoqolateError(f"classes: expected {shares.shape[1]}, one for each column, got {len(names)}.")
    truth = as_labels(y_true, "y_true", len(shares))
    unknown = sorted(map(str, set(truth) - set(names)))
    if unknown:
        raise ChoqolateError(f"y_true: expected labels among {listed(names)}, got {listed(unknown)}.")
    top = shares.argmax(axis=1)
    right = np.array([names[place] == label for place, label in zip(top, truth, strict=True)], dtype=float)
    return shares.max(axis=1), right


def _shares(probabilities: ArrayLike) -> np.ndarray:
    shares = as_array(probabilities, "probabilities", ndims=(2,))
    if shares.min() < 0 or shares.max() > 1:
        raise ChoqolateError("probabilities: expected numbers from 0 to 1, got others; apply a softmax first.")
    return shares


def binned_error(confidence: np.ndarray, right: np.ndarray, bins: int = 15) -> float:
    """Compute the expected calibration error of confidences (n,) and of whether each prediction is right (n,)."""
    return float(np.abs(binned_gaps(confidence, right, bins)).sum() / len(confidence))


def binned_gaps(confidence: np.ndarray, right: np.ndarray, bins: int = 15) -> np.ndarray:
    """Sum over each bin (bins,) of whether a prediction is right (n,) minus its confidence (n,)."""
    return np.bincount(_bins(confidence, bins), right.astype(float) - confidence, bins)


def _bins(confidence: np.ndarray, bins: int) -> np.ndarray:
    """The bin of each confidence (n,); a bin includes its upper end."""
    return np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
