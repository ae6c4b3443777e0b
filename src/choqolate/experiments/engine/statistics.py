"""Is one method better than another over runs, and by how much? The paper's two answers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Comparison(NamedTuple):
    """One method's runs against a baseline's.

    Attributes:
        delta: relative median distance.
        p: of the one-sided Mann-Whitney U test that ours are larger.
        n_ours, n_baseline: how many runs have a value.
    """

    delta: float
    p: float
    n_ours: int
    n_baseline: int


def relative_median_distance(ours: Iterable[float | None], baseline: Iterable[float | None]) -> float:
    r"""How far apart the medians are, in units of the baseline's.

    .. math:: \Delta = \frac{\mathrm{median}_\mathrm{ours} - \mathrm{median}_\mathrm{baseline}}
        {|\mathrm{median}_\mathrm{baseline}|}

    The paper divides by the median itself, which is the same unless that is negative; so the sign always says which is
    larger. NaN where it is not defined: a side without a value, or a baseline whose median is 0.

    Args:
        ours, baseline: one value a run; NaN, infinity and ``None`` are left out.

    >>> round(relative_median_distance([0.6, 0.9, 0.7], [0.4, 0.5, 0.3, math.nan]), 6)
    0.75
    """
    first, second = _defined(ours), _defined(baseline)
    if not (first.size and second.size):
        return math.nan
    middle = float(np.median(second))
    return (float(np.median(first)) - middle) / abs(middle) if middle else math.nan


def mann_whitney(ours: Iterable[float | None], baseline: Iterable[float | None]) -> float:
    r"""p-value of the one-sided Mann-Whitney U test: how likely ours would be so much larger by chance alone.

    .. math:: U = \sum_{i,k} [x_i > y_k] + \tfrac{1}{2} [x_i = y_k], \qquad p = P(U' \ge U \mid H_0)

    Exact, over all ways of sharing out the ranks, where one side has at most 8 values and no two are equal; otherwise
    by the normal approximation with corrections for ties and continuity (``method="auto"`` of
    :func:`scipy.stats.mannwhitneyu`). NaN if a side has no value.

    Args:
        ours, baseline: one value a run; NaN, infinity and ``None`` are left out.

    >>> mann_whitney([0.7, 0.8, 0.9], [0.1, 0.2, 0.3])
    0.05
    """
    from scipy.stats import mannwhitneyu

    first, second = _defined(ours), _defined(baseline)
    if not (first.size and second.size):
        return math.nan
    return float(mannwhitneyu(first, second, alternative="greater", method="auto").pvalue)


def compare(ours: Iterable[float | None], baseline: Iterable[float | None]) -> Comparison:
    """Both answers, and how many runs they rest on.

    >>> compare([0.7, 0.8, 0.9], [0.4, 0.5, 0.3, None])
    Comparison(delta=1.0, p=0.05, n_ours=3, n_baseline=3)
    """
    first, second = _defined(ours).tolist(), _defined(baseline).tolist()
    return Comparison(relative_median_distance(first, second), mann_whitney(first, second), len(first), len(second))


def show_p(p: float) -> str:
    """A p-value as the paper prints it.

    >>> show_p(0.00099), show_p(0.001), show_p(0.2309), show_p(math.nan)
    ('<0.001', '0.001', '0.231', '–')
    """
    if math.isnan(p):
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _defined(values: Iterable[float | None]) -> np.ndarray:
    """The finite values, shape (n,)."""
    array = np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    return array[np.isfinite(array)]
