"""Correlations of some concepts with all others, block by block: time and memory are linear in the vocabulary."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from choqolate.metrics.arrays import Floats, centered, unit_rows

MOST_NEIGHBORS = 10  # of one concept that are kept
MOST_GROUPED = 3_000  # concepts that are clustered at once
_BLOCK = 1 << 22  # numbers at work at a time
_BINS = 4_000  # of the histogram of correlations
_DIRECTIONS = 16  # in which concepts are compared at first


@dataclass(frozen=True, eq=False)
class Neighborhoods:
    """The correlations of some of M concepts, the seeds ``(K,)``, with all others.

    Attributes:
        strongest: the largest correlation of each seed with another concept ``(K,)``, -1 if there is none.
        neighbors: pairs of a seed and a neighbor by index ``(P, 2)``, the strongest first, ten of a seed at most.
        histogram: number of pairs of a seed and another concept in each of 4,000 bins from -1 to 1.
        total: sum of the unit columns of all concepts ``(n,)``.
        constant: mask of the concepts with one score for all rows ``(M,)``.
        projected: unit columns of all concepts in 16 orthogonal directions in which seeds vary much ``(M, 16)``.
    """

    strongest: np.ndarray
    neighbors: np.ndarray
    histogram: np.ndarray
    total: np.ndarray
    constant: np.ndarray
    projected: np.ndarray

    @property
    def mean(self) -> float:
        r"""Mean correlation of all pairs of concepts: :math:`\|\sum_j u_j\|^2 = M + \sum_{j \ne l} R_{jl}`."""
        varying = int((~self.constant).sum())
        return float((self.total @ self.total - varying) / (varying * (varying - 1))) if varying > 1 else math.nan

    def quantile(self, share: float) -> float:
        """A quantile of the correlations of seeds with other concepts, to the middle of its bin (0.00025)."""
        running = np.cumsum(self.histogram)
        if not running[-1]:
            return math.nan
        return float((np.searchsorted(running, share * running[-1]) + 0.5) * 2 / _BINS - 1)


def unit_columns(scores: np.ndarray) -> Floats:
    """Scores ``(n, k)`` with columns centered and of length one, constant ones zero: products are correlations."""
    units: Floats = unit_rows(centered(np.asarray(scores, dtype=np.float64)).T).T
    return units


def find_neighborhoods(scores: np.ndarray, seeds: np.ndarray, at_least: float) -> Neighborhoods:
    """Correlate some concepts with all others: O(n K M) time, and no matrix of all pairs.

    Args:
        scores: concept scores ``(n, M)``.
        seeds: indices of K concepts.
        at_least: correlation from which another concept is a neighbor.
    """
    n_rows, n_concepts = scores.shape
    own = unit_columns(scores[:, seeds])
    directions = _leading_directions(own)
    rows = own.T.astype(np.float32)
    alive = np.any(own, axis=0).reshape(-1, 1)
    strongest, histogram = np.full(len(seeds), -1.0), np.zeros(_BINS, dtype=np.int64)
    total, constant = np.zeros(n_rows), np.zeros(n_concepts, dtype=bool)
    projected = np.zeros((n_concepts, directions.shape[1]))
    found = np.zeros((0, 3))
    for block in _slices(n_concepts, max(n_rows, len(seeds))):
        units = unit_columns(scores[:, block])
        total += units.sum(axis=1)
        constant[block] = ~units.any(axis=0)
        projected[block] = units.T @ directions
        correlation = np.clip(rows @ units.astype(np.float32), -1.0, 1.0)
        indices = np.arange(block.start, block.stop)
        pairs = alive & ~constant[block] & (seeds[:, None] != indices)
        bins = np.minimum((correlation[pairs] + 1) * (_BINS / 2), _BINS - 1).astype(np.int64)
        histogram += np.bincount(bins, minlength=_BINS)
        correlation[~pairs] = -1.0
        strongest = np.maximum(strongest, correlation.max(axis=1))
        seed, other = np.nonzero(pairs & (correlation >= at_least))
        new = np.stack([seeds[seed], indices[other], correlation[seed, other]], axis=1)
        found = _strongest_of_each(np.concatenate([found, new]))
    return Neighborhoods(strongest, found[:, :2].astype(np.int64), histogram, total, constant, projected)


def _leading_directions(units: Floats) -> Floats:
    """A few orthonormal directions ``(n, k)`` in which columns vary much, by one power iteration."""
    start = np.random.default_rng(0).normal(size=(units.shape[1], min(_DIRECTIONS, len(units))))
    directions: Floats = np.linalg.qr(units @ (units.T @ (units @ start)))[0]
    return directions


def _slices(size: int, width: int) -> Iterator[slice]:
    """Parts of ``size`` columns such that ``width`` numbers for each fit the workspace."""
    step = max(1, _BLOCK // width)
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def _strongest_of_each(found: np.ndarray) -> np.ndarray:
    """Of rows seed, concept, correlation, the ten strongest of each seed; the strongest pair first."""
    ranked = found[np.lexsort((found[:, 1], -found[:, 2], found[:, 0]))]
    first = np.searchsorted(ranked[:, 0], ranked[:, 0])
    kept = ranked[np.arange(len(ranked)) - first < MOST_NEIGHBORS]
    return kept[np.lexsort((kept[:, 1], kept[:, 0], -kept[:, 2]))]


def with_neighbors(seeds: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
    """Indices of the seeds and of their strongest neighbors, as many as can be clustered, in ascending order."""
    chosen = dict.fromkeys([*seeds.tolist(), *neighbors[:, 1].tolist()])
    return np.sort(np.array(list(chosen)[:MOST_GROUPED], dtype=np.int64))


def equal_concepts(scores: np.ndarray, found: Neighborhoods, distance: float) -> list[tuple[int, int]]:
    r"""Find the pairs of concepts whose unit columns are closer than ``distance``, each with its ten closest at most.

    A projection shortens distances, so pairs that are far apart in a few directions need not be compared. A pair is
    missed only if each of the two has ten others that are closer in these directions.

    Args:
        scores: concept scores ``(n, M)``.
        found: of the same scores.
        distance: between unit columns; :math:`\sqrt{2 (1 - R)}` for a correlation R.
    """
    from scipy.spatial import KDTree

    varying = np.flatnonzero(~found.constant)
    if len(varying) < 2:
        return []
    points, count = found.projected[varying], min(1 + MOST_NEIGHBORS, len(varying))
    _, near = KDTree(points).query(points, k=count, distance_upper_bound=distance)
    first, rank = np.nonzero(near < len(varying))
    pairs = varying[np.stack([first, near[first, rank]], axis=1)]
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    close: list[tuple[int, int]] = []
    for part in _slices(len(pairs), len(scores)):
        one, other = (unit_columns(scores[:, pairs[part, side]]) for side in (0, 1))
        within = np.linalg.norm(one - other, axis=0) < distance
        close += [(int(j), int(l)) for j, l in pairs[part][within]]
    return close
