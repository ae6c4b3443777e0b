"""How far a share of rows can be trusted: intervals, and whether a change is more than chance."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from choqolate.errors import ChoqolateError
from choqolate.metrics.arrays import Floats, as_array

TOO_FEW = 10  # rows: of fewer, a share says next to nothing (9 of 9 may be 70%)


class Proportion(NamedTuple):
    """A share of rows, such as those that are classified correctly, with its 95% Wilson interval.

    Attributes:
        hits: rows that count.
        rows: all rows.

    >>> share = Proportion(36, 48)
    >>> share.value, [round(end, 3) for end in share.interval], share.too_few
    (0.75, [0.612, 0.851], False)
    >>> Proportion(3, 4).too_few
    True
    """

    hits: int
    rows: int

    @property
    def value(self) -> float:
        """The share itself; NaN of no rows."""
        return self.hits / self.rows if self.rows else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95% interval, see :func:`wilson_interval`."""
        return wilson_interval(self.hits, self.rows)

    @property
    def too_few(self) -> bool:
        """Whether there are too few rows (under ten) for the share to tell anything."""
        return self.rows < TOO_FEW


class PairedChange(NamedTuple):
    """How many predictions became correct or wrong, on the same rows, through an edit or with another model.

    Attributes:
        gained: rows that are right now and were wrong before.
        lost: rows that are wrong now and were right before.
        rows: all rows.

    >>> change = PairedChange(gained=6, lost=2, rows=48)
    >>> round(change.value, 3), round(change.p_value, 3), change.beyond_chance
    (0.083, 0.289, False)
    """

    gained: int
    lost: int
    rows: int

    @property
    def value(self) -> float:
        """Change of the accuracy; NaN of no rows."""
        return (self.gained - self.lost) / self.rows if self.rows else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        r"""95% interval of the change, an adjusted Wald interval for paired shares (Bonett and Price, 2012).

        With :math:`p = (\mathrm{gained} + 1) / (n + 2)` and :math:`q = (\mathrm{lost} + 1) / (n + 2)`,

        .. math:: p - q \pm 1.96 \sqrt{\frac{p + q - (p - q)^2}{n + 2}}
        """
        if not self.rows:
            return math.nan, math.nan
        p, q = (self.gained + 1) / (self.rows + 2), (self.lost + 1) / (self.rows + 2)
        reach = _quantile(0.95) * math.sqrt((p + q - (p - q) ** 2) / (self.rows + 2))
        return max(p - q - reach, -1.0), min(p - q + reach, 1.0)

    @property
    def p_value(self) -> float:
        """Exact McNemar test: how often chance alone gives a change at least as lopsided. One if nothing changed."""
        from scipy.stats import binomtest

        changed = self.gained + self.lost
        return float(binomtest(self.gained, changed).pvalue) if changed else 1.0

    @property
    def beyond_chance(self) -> bool:
        """Whether the change is significant at 5%."""
        return self.p_value < 0.05

    @property
    def too_few(self) -> bool:
        """Whether there are too few rows (under ten) for the change to tell anything."""
        return self.rows < TOO_FEW


def wilson_interval(hits: float, rows: float, confidence: float = 0.95) -> tuple[float, float]:
    r"""Interval of a share (Wilson, 1927), good for few rows and for shares near 0 or 1 too.

    With :math:`p = \mathrm{hits} / n` and z the quantile of the normal distribution, 1.96 for 95%,

    .. math:: \frac{p + z^2/2n \pm z \sqrt{p(1-p)/n + z^2/4n^2}}{1 + z^2/n}

    Args:
        hits: rows that count.
        rows: n, all rows.
        confidence: how often such intervals hold the true share.
    Returns:
        Lower and upper end; (0, 1) of no rows.
    Raises:
        ChoqolateError: If ``hits`` is not between 0 and ``rows``.

    >>> [round(end, 4) for end in wilson_interval(8, 10)]
    [0.4902, 0.9433]
    """
    if not 0 <= hits <= rows:
        raise ChoqolateError(f"hits: expected a number from 0 to {rows}, got {hits}.")
    low, high = _wilson(np.asarray(float(hits)), np.asarray(float(rows)), _quantile(confidence))
    return float(low), float(high)


def difference_interval(first: Proportion, second: Proportion, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of the difference of two shares of different rows (Newcombe's hybrid score interval, 1998).

    Args:
        first: the share that is subtracted from.
        second: the share that is subtracted.
        confidence: how often such intervals hold the true difference.
    Returns:
        Lower and upper end; (-1, 1) if one of them has no rows.

    >>> [round(end, 4) for end in difference_interval(Proportion(56, 70), Proportion(48, 80))]
    [0.0524, 0.3339]
    """
    counts = [np.asarray(float(count)) for count in (*first, *second)]
    low, high = difference_intervals(counts[0], counts[1], counts[2], counts[3], confidence)
    return float(low), float(high)


def difference_intervals(
    first_hits: Floats, first_rows: Floats, second_hits: Floats, second_rows: Floats, confidence: float = 0.95
) -> tuple[Floats, Floats]:
    """Compute :func:`difference_interval` for arrays of counts: lower and upper ends."""
    z = _quantile(confidence)
    low, high = _wilson(first_hits, first_rows, z)
    other_low, other_high = _wilson(second_hits, second_rows, z)
    share, other = first_hits / np.maximum(first_rows, 1), second_hits / np.maximum(second_rows, 1)
    known = (first_rows > 0) & (second_rows > 0)
    down, up = np.hypot(share - low, other_high - other), np.hypot(high - share, other - other_low)
    return (
        np.where(known, np.maximum(share - other - down, -1.0), -1.0),
        np.where(known, np.minimum(share - other + up, 1.0), 1.0),
    )


def fisher_p_values(first_hits: Floats, first_rows: Floats, second_hits: Floats, second_rows: Floats) -> Floats:
    """Test for arrays of counts whether the second share is lower than the first (Fisher's exact test, one-sided).

    Unlike intervals, the test holds its level for any number of rows, also after a correction for many tests.

    >>> fisher_p_values(np.array([19.0]), np.array([20.0]), np.array([12.0]), np.array([20.0])).round(4)
    array([0.0098])
    """
    from scipy.stats import hypergeom

    all_rows, all_hits = first_rows + second_rows, first_hits + second_hits
    return np.asarray(hypergeom.cdf(second_hits, all_rows, all_hits, second_rows), dtype=np.float64)


def _wilson(hits: Floats, rows: Floats, z: float) -> tuple[Floats, Floats]:
    share, square = hits / np.maximum(rows, 1), z * z / np.maximum(rows, 1)
    center, reach = share + square / 2, np.sqrt(square * (share * (1 - share) + square / 4))
    low = np.where(hits == 0, 0.0, (center - reach) / (1 + square))
    high = np.where(hits == rows, 1.0, (center + reach) / (1 + square))
    return low, high


def _quantile(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ChoqolateError(f"confidence: expected a number above 0 and below 1, got {confidence!r}.")
    return NormalDist().inv_cdf((1 + confidence) / 2)


def mean_interval(shares: Iterable[Proportion]) -> tuple[float, float]:
    r"""95% interval of the mean of shares of different rows, such as the accuracies of the classes.

    Newcombe's way, for a mean in place of a difference: with shares :math:`p_k` and their Wilson intervals
    :math:`(l_k, h_k)`, k = 1 .. K, the interval reaches down by
    :math:`\frac{1}{K} \sqrt{\sum_k (p_k - l_k)^2}` and up by :math:`\frac{1}{K} \sqrt{\sum_k (h_k - p_k)^2}`.

    Args:
        shares: at least one of them.
    Returns:
        Lower and upper end; (0, 1) if one of them has no rows.
    Raises:
        ChoqolateError: If there are no shares.

    >>> [round(end, 4) for end in mean_interval([Proportion(36, 48), Proportion(45, 50)])]
    [0.7357, 0.8828]
    """
    every = list(shares)
    if not every:
        raise ChoqolateError("shares: expected at least one, got none.")
    if not all(share.rows for share in every):
        return 0.0, 1.0
    mean = sum(share.value for share in every) / len(every)
    down = math.hypot(*(share.value - share.interval[0] for share in every)) / len(every)
    up = math.hypot(*(share.interval[1] - share.value for share in every)) / len(every)
    return max(mean - down, 0.0), min(mean + up, 1.0)


def paired_change(before: ArrayLike, after: ArrayLike) -> PairedChange:
    """Compare which rows are right before and after.

    Args:
        before: Whether each prediction was right, shape (n,).
        after: The same of the same rows afterwards.
    Raises:
        ChoqolateError: If the numbers of rows differ.

    >>> paired_change([True, False, False], [True, True, False])
    PairedChange(gained=1, lost=0, rows=3)
    """
    old, new = (np.asarray(side, dtype=bool) for side in (before, after))
    if old.shape != new.shape or old.ndim != 1:
        raise ChoqolateError(f"after: expected the {len(old)} rows of before, got shapes {old.shape} and {new.shape}.")
    return PairedChange(int((new & ~old).sum()), int((old & ~new).sum()), len(old))


def resampled_interval(
    values: ArrayLike, n_train: float, n_test: float, confidence: float = 0.95
) -> tuple[float, float]:
    r"""Interval of a mean over resamplings of one data set (Nadeau and Bengio, 2003).

    Trainings on random splits of the same rows share most of these rows, so their results vary less than those of
    trainings on fresh data, and the usual interval is too narrow. With J resamplings, their mean m and their sample
    variance :math:`S^2`,

    .. math:: m \pm t_{J-1} \sqrt{\left(\frac{1}{J} + \frac{n_\mathrm{test}}{n_\mathrm{train}}\right) S^2}

    where the usual interval has :math:`1/J` alone. However many resamplings there are, the interval does not shrink
    below what the data set itself allows. Differences of two methods on the same splits are values like any other.

    Args:
        values: One result per resampling, shape (J,).
        n_train: Rows trained on in each.
        n_test: Rows tested on in each; 0 for results on independent data, which gives the usual t interval.
        confidence: How often such intervals hold the true mean.
    Returns:
        Lower and upper end.
    Raises:
        ChoqolateError: If there are fewer than two values, one is not finite, or the numbers of rows are not sizes.

    >>> accuracies = [0.81, 0.79, 0.84, 0.80, 0.78]
    >>> [round(end, 3) for end in resampled_interval(accuracies, n_train=700, n_test=300)]
    [0.753, 0.855]
    >>> [round(end, 3) for end in resampled_interval(accuracies, n_train=700, n_test=0)]
    [0.775, 0.833]
    """
    from scipy.stats import t

    results = as_array(values, "values", ndims=(1,), min_rows=2)
    if not n_train > 0 or not n_test >= 0:
        raise ChoqolateError(f"Expected n_train above 0 and n_test of at least 0, but got {n_train!r} and {n_test!r}.")
    _quantile(confidence)
    variance = (1 / len(results) + n_test / n_train) * results.var(ddof=1)
    reach = t.ppf((1 + confidence) / 2, len(results) - 1) * math.sqrt(variance)
    return float(results.mean() - reach), float(results.mean() + reach)
