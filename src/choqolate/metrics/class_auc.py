"""Areas under the ROC curve within classes: whether a score follows something that is not the class."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from choqolate._util.checks import as_labels
from choqolate.errors import ChoqolateError
from choqolate.metrics.arrays import Floats, Labels, as_array
from choqolate.metrics.intervals import TOO_FEW

_Z = NormalDist().inv_cdf(0.975)
_LEAST = 2  # rows on either side, for a variance


class WithinClassAUC(NamedTuple):
    """Areas under the ROC curve within classes, and their mean.

    Attributes:
        value: mean over classes and columns; NaN if no class has rows of both sides.
        interval: its 95% interval, by DeLong's variance: it covers the sampling of the rows, not a fit that made the
            values. With few rows it is too narrow, see ``rows``.
        by_column: mean over the classes for each column ``(K,)``.
        by_class: mean over the columns for each class that has rows of both sides.
        rows: number of rows on the smaller sides, summed over the classes, of the column that has the most. With fewer
            than ten, ``interval`` says little.

    >>> found = within_class_auc([0.1, 0.4, 0.3, 0.2], [[-1, 1], [1, -1], [1, 1], [-1, -1]], ["gull"] * 4)
    >>> found.value, found.by_column
    (0.625, array([1.  , 0.25]))
    """

    value: float
    interval: tuple[float, float]
    by_column: Floats
    by_class: dict[Any, float]
    rows: int

    @property
    def too_few(self) -> bool:
        """Whether there are too few rows to say anything."""
        return self.rows < TOO_FEW


def within_class_auc(values: ArrayLike, sides: ArrayLike, classes: Labels) -> WithinClassAUC:
    r"""How often, among two rows of one class, the one on the upper side has the larger value.

    For class r and column k, with rows i on the upper and j on the lower side,

    .. math:: \mathrm{AUC}_{rk} = P(v_i > v_j) + \tfrac{1}{2} P(v_i = v_j)

    0.5 means that the values do not tell the sides apart, 1 that they do in every pair. The mean is over all classes
    and columns with at least two rows on both sides.

    Args:
        values: v, such as the margin of each row's class score, shape (n,).
        sides: For each row a number above zero if it is on the upper side, below zero if it is on the lower one, zero
            if it does not count; shape (n,) or (n, K). Of booleans, true is the upper side and false the lower one.
        classes: Class of each row, shape (n,).
    Raises:
        ChoqolateError: If the numbers of rows differ, or something is not finite.

    >>> upper = [False, True, True, False, True]
    >>> found = within_class_auc([0.1, 0.4, 0.3, 0.2, 0.9], upper, ["gull", "gull", "gull", "gull", "wren"])
    >>> found.value, found.by_class
    (1.0, {'gull': 1.0})
    """
    numbers, marks = as_array(values, "values", ndims=(1,)), _signs(sides)
    if len(marks) != len(numbers):
        raise ChoqolateError(f"sides: expected the {len(numbers)} rows of values, got {len(marks)}.")
    columns = marks.reshape(len(marks), -1)
    labels = as_labels(classes, "classes", len(numbers))
    members: dict[Any, list[int]] = {}
    for row, label in enumerate(labels):
        members.setdefault(label, []).append(row)
    areas = np.full((len(members), columns.shape[1]), np.nan)
    smaller = np.zeros(columns.shape[1], dtype=int)  # rows on the smaller sides
    pull = np.zeros(len(numbers))  # of each row on the sum of all areas
    for place, rows in enumerate(members.values()):
        for column, side in enumerate(columns[rows].T):
            counts = side != 0
            upper = side[counts] > 0
            fewer = min(int(upper.sum()), int((~upper).sum()))
            if fewer >= _LEAST:
                smaller[column] += fewer
                chosen = np.asarray(rows)[counts]
                areas[place, column], influence = _area(numbers[chosen], upper)
                pull[chosen] += influence
    known = ~np.isnan(areas)
    if not known.any():
        return WithinClassAUC(math.nan, (math.nan, math.nan), _means(areas, axis=0), {}, 0)
    value, reach = float(areas[known].mean()), float(_Z * np.linalg.norm(pull) / known.sum())
    by_class = {
        label: mean for label, mean in zip(members, _means(areas, axis=1).tolist(), strict=True) if mean == mean
    }
    interval = max(value - reach, 0.0), min(value + reach, 1.0)
    return WithinClassAUC(value, interval, _means(areas, axis=0), by_class, int(smaller.max()))


def _signs(sides: ArrayLike) -> Floats:
    """The sides as numbers: booleans become 1 and -1."""
    numbers = as_array(sides, "sides", ndims=(1, 2))
    of_booleans = np.asarray(sides.detach().cpu() if hasattr(sides, "detach") else sides).dtype == bool
    return 2 * numbers - 1 if of_booleans else numbers


def _area(values: Floats, upper: NDArray[np.bool_]) -> tuple[float, Floats]:
    """The area under the ROC curve, and by how much each row moves it: their squares sum to DeLong's variance."""
    from scipy.stats import rankdata

    n_upper, n_lower, ranks = int(upper.sum()), int((~upper).sum()), rankdata(values)
    wins = np.empty(len(values))  # share of the other side that a row is on the right side of
    wins[upper] = (ranks[upper] - rankdata(values[upper])) / n_lower
    wins[~upper] = 1 - (ranks[~upper] - rankdata(values[~upper])) / n_upper
    area = float(wins[upper].mean())
    scale = np.where(upper, math.sqrt(n_upper * (n_upper - 1)), math.sqrt(n_lower * (n_lower - 1)))
    return area, (wins - area) / scale


def _means(areas: Floats, axis: int) -> Floats:
    """Means over the areas that are known; NaN where none is."""
    known = ~np.isnan(areas)
    sums, counts = np.where(known, areas, 0.0).sum(axis=axis), known.sum(axis=axis)
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
