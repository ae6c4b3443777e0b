"""What training images look like in score space, so that others can be recognized: centers, spreads and two limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from choqolate.errors import ChoqolateError
from choqolate.estimators.validation import stratified_folds
from choqolate.network.scaling import ScaledRows

EXPECTED = 0.01  # share of images like the training images that each limit flags
_FEWEST_ROWS = 20  # fewer say nothing about what is usual
_N_FOLDS = 5
_MOST_DIRECTIONS = 256
_ROWS_PER_DIRECTION = 5  # a spread that fewer rows are behind is mostly chance
_SMALLEST_SPREAD = 1e-3  # of the training range: smaller differences may come from rounding in an encoder
_SMALLEST_LIMIT = 1.0  # distances are in spreads: within one of its class center, a row is never unusual
_MOST_ROWS, _WORK = 10_000, 5e9  # rows to fit on, and multiplications for one covariance
_BLOCK_VALUES = 1 << 22
_NUMBERS = ("rest_spread", "limit", "margin", "rows")


@dataclass(frozen=True, eq=False)
class TrainingReference:
    r"""How training rows are spread around the centers of their classes, in min-max scaled scores.

    The distance of a row z is measured to the nearest class center :math:`\mu_c`, along the K directions :math:`v_k` in
    which training rows spread most around their centers, each in units of its spread :math:`\sigma_k`, and in the rest:

    .. math:: d^2 = \min_c \sum_k \frac{(v_k \cdot (z - \mu_c))^2}{\sigma_k^2} + \frac{\lVert r \rVert^2}{\sigma_r^2}

    with r the part of z - μ outside of all directions. No training row is kept. Both limits were measured on training
    rows that were left out of the fit in turn.

    Attributes:
        centers: mean of each class of the rows ``(C, M)``, float32.
        directions: orthonormal rows ``(K, M)``, float32.
        spreads: standard deviation along each of them ``(K,)``.
        rest_spread: standard deviation per concept outside of them; 0 if nothing is.
        limit: distance that 99% of the held-out rows do not exceed; at least 1, one spread.
        margin: how far outside the range of the other rows a held-out row may lie, in units of that range; 99% of the
            held-out rows stay within it.
        rows: number of rows that it was fitted on.
    """

    centers: np.ndarray
    directions: np.ndarray
    spreads: np.ndarray
    rest_spread: float
    limit: float
    margin: float
    rows: int

    @classmethod
    def fit(cls, scaled: np.ndarray | ScaledRows, targets: np.ndarray) -> Self | None:
        """Fit to scaled training scores ``(n, M)`` and class indices ``(n,)``; ``None`` for fewer than 20 rows.

        With many rows, an evenly spaced subset is used that has at least one row of every class.
        """
        chosen = _thinned(targets, scaled.shape[1])
        z, targets = scaled[chosen], targets[chosen]
        if len(z) < _FEWEST_ROWS:
            return None
        n_concepts = z.shape[1]
        coordinates, basis = _without_empty_directions(z)
        folds = stratified_folds(targets, _N_FOLDS)
        distances, excesses = np.empty(len(z)), np.empty(len(z))
        for fold in range(_N_FOLDS):
            others, own = folds != fold, folds == fold
            part = _Spread.fit(coordinates[others], targets[others], n_concepts)
            distances[own] = part.distances(coordinates[own])
            low, high = z[others].min(axis=0), z[others].max(axis=0)
            excesses[own] = _excess(z[own], low, high).max(axis=1)
        whole = _Spread.fit(coordinates, targets, n_concepts)
        made = cls(
            centers=(whole.centers @ basis).astype(np.float32),
            directions=(whole.directions @ basis).astype(np.float32),
            spreads=whole.spreads,
            rest_spread=whole.rest_spread,
            limit=max(_upper(distances), _SMALLEST_LIMIT),
            margin=_upper(excesses),
            rows=len(z),
        )
        return made if made._is_sound else None  # a model can be saved without it

    def distances(self, z: np.ndarray) -> np.ndarray:
        """Distance of each row ``(n,)`` in units of the limit: above 1 it is unlike any training image.

        Args:
            z: scores ``(n, M)``, scaled but not clipped.
        """
        spread = _Spread(
            self.centers.astype(np.float64), self.directions.astype(np.float64), self.spreads, self.rest_spread
        )
        step = max(1, _BLOCK_VALUES // z.shape[1])
        parts = [spread.distances(z[start : start + step]) for start in range(0, len(z), step)]
        return np.concatenate(parts) / self.limit

    def as_dict(self) -> dict[str, Any]:
        """The single numbers, as JSON can hold them; the arrays are not among them."""
        return {name: getattr(self, name) for name in _NUMBERS}

    @classmethod
    def from_parts(cls, numbers: dict[str, Any], arrays: dict[str, np.ndarray], shape: tuple[int, int]) -> Self:
        """Put together what a model folder holds.

        Args:
            numbers: of :meth:`as_dict`.
            arrays: centers, directions and spreads.
            shape: number of classes and of concepts; there may be fewer centers than classes.

        Raises:
            ChoqolateError: if they do not fit together.
        """
        n_classes, n_concepts = shape
        n_centers, n_directions = min(max(1, len(arrays["centers"])), n_classes), len(arrays["spreads"])
        expected = {
            "centers": (n_centers, n_concepts),
            "directions": (n_directions, n_concepts),
            "spreads": (n_directions,),
        }
        for name, size in expected.items():
            if arrays[name].shape != size or not np.isfinite(arrays[name]).all():
                raise ChoqolateError(f"expected finite reference.{name} of shape {size}, found {arrays[name].shape}")
        parts: dict[str, Any] = arrays | {name: numbers[name] for name in _NUMBERS}
        made = cls(**parts)
        if not made._is_sound:
            raise ChoqolateError("expected a reference of the training rows with limits above 0: incomplete or damaged")
        return made

    @property
    def _is_sound(self) -> bool:
        numbers = (getattr(self, name) for name in _NUMBERS)
        fine = all(isinstance(number, int | float) and math.isfinite(number) and number >= 0 for number in numbers)
        return fine and self.limit > 0 and bool((self.spreads > 0).all())


def range_excess(z: np.ndarray) -> np.ndarray:
    """How far each score is outside the training range ``(n, M)``, in units of it, with a sign: below 0 is too low.

    Args:
        z: scores, scaled but not clipped.
    """
    excess: np.ndarray = np.maximum(z - 1, 0) + np.minimum(z, 0)
    return excess


@dataclass(frozen=True, eq=False)
class _Spread:
    """Centers, directions and spreads in any coordinates."""

    centers: np.ndarray
    directions: np.ndarray
    spreads: np.ndarray
    rest_spread: float

    @classmethod
    def fit(cls, z: np.ndarray, targets: np.ndarray, n_concepts: int) -> _Spread:
        classes, places = np.unique(targets, return_inverse=True)
        centers = np.zeros((len(classes), z.shape[1]))
        np.add.at(centers, places, z)
        centers /= np.bincount(places)[:, None]
        around = z - centers[places]
        variances, vectors = np.linalg.eigh(around.T @ around / max(1, len(z) - len(classes)))
        variances, vectors = np.maximum(variances[::-1], 0.0), vectors[:, ::-1]
        n_directions = max(1, min(len(variances), len(z) // _ROWS_PER_DIRECTION, _MOST_DIRECTIONS))
        rest = 0.0
        if n_directions < n_concepts:
            rest = max(math.sqrt(variances[n_directions:].sum() / (n_concepts - n_directions)), _SMALLEST_SPREAD)
        spreads = np.maximum(np.sqrt(variances[:n_directions]), _SMALLEST_SPREAD)
        return cls(centers, vectors[:, :n_directions].T, spreads, rest)

    def distances(self, z: np.ndarray) -> np.ndarray:
        """Distance to the nearest center ``(n,)``."""
        origin = self.centers.mean(axis=0)  # near all of them, so that differences of squares keep their digits
        rows, centers = z - origin, self.centers - origin
        inside, inside_centers = rows @ self.directions.T, centers @ self.directions.T
        squares = _square_distances(inside / self.spreads, inside_centers / self.spreads)
        if self.rest_spread:
            outside = _square_distances(rows, centers) - _square_distances(inside, inside_centers)
            squares += np.maximum(outside, 0.0) / self.rest_spread**2
        return np.sqrt(squares.min(axis=1))


def _square_distances(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Squared Euclidean distances ``(n, C)``."""
    squares = (rows**2).sum(axis=1)[:, None] + (centers**2).sum(axis=1) - 2 * rows @ centers.T
    return np.maximum(squares, 0.0)


def _without_empty_directions(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows ``(n, D)`` in a basis ``(D, M)`` of the space that they span: exact, and small if rows are few."""
    n_rows, n_concepts = z.shape
    if n_rows >= n_concepts:
        return z, np.eye(n_concepts)
    orthonormal, triangle = np.linalg.qr(z.T)
    return triangle.T, orthonormal.T


def _excess(z: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How far scores ``(n, M)`` are outside a range, in units of it; a concept without a range does not count."""
    extent = high - low
    outside = np.maximum(z - high, low - z)
    return np.divide(np.maximum(outside, 0), extent, out=np.zeros_like(z), where=extent > 0)


def _thinned(targets: np.ndarray, n_concepts: int) -> np.ndarray:
    """Indices of the rows to fit on: as many as the work allows, evenly spread, and the first of every class."""
    n_rows = len(targets)
    most = min(_MOST_ROWS, int(max(_WORK / n_concepts**2, math.sqrt(_WORK / n_concepts))))
    evenly = np.linspace(0, n_rows - 1, min(most, n_rows)).astype(int)
    return np.union1d(evenly, np.unique(targets, return_index=True)[1])


def _upper(values: np.ndarray) -> float:
    """Compute the conformal quantile: the value that all but the expected share of new values stay below."""
    place = math.ceil((1 - EXPECTED) * (len(values) + 1))
    return float(np.sort(values)[min(place, len(values)) - 1])
