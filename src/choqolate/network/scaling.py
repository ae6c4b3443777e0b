"""Min-max scaling with the range of the training scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_BLOCK_VALUES = 1 << 23  # scores in float64 at a time: 64 MB


@dataclass(frozen=True, eq=False)
class MinMax:
    r"""The range of M concepts, and scores relative to it.

    .. math:: z_j = \mathrm{clip}\left(\frac{x_j - low_j}{high_j - low_j}, 0, 1\right)

    A concept that is constant in training has no range; it is scaled to 0.

    Attributes:
        low, high: smallest and largest score of each concept ``(M,)``, float64.

    >>> scaling = MinMax.fit(np.array([[0.0, 5.0], [2.0, 5.0]]))
    >>> scaling(np.array([[1.0, 5.0], [3.0, 6.0]]))
    array([[0.5, 0. ],
           [1. , 0. ]])
    """

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def fit(cls, X: np.ndarray) -> MinMax:
        """Take the range of the scores ``X (n, M)``."""
        return cls(X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64))

    @property
    def constant(self) -> np.ndarray:
        """Mask of the concepts without a range ``(M,)``."""
        still: np.ndarray = self.low == self.high
        return still

    def take(self, concepts: Any) -> MinMax:
        """The range of some concepts, by a slice, a mask or indices."""
        return MinMax(self.low[concepts], self.high[concepts])

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Scale scores ``X (n, M)`` to [0, 1], in float64."""
        scaled = self.unclipped(X)
        np.clip(scaled, 0.0, 1.0, out=scaled)
        return scaled

    def unclipped(self, X: np.ndarray) -> np.ndarray:
        """Scale scores ``X (n, M)``: those outside the training range are below 0 or above 1."""
        extent = self.high - self.low
        scaled: np.ndarray = X - self.low  # the one copy: there may be little room for another
        scaled /= np.where(extent > 0, extent, 1.0)
        scaled[:, ~(extent > 0)] = 0.0
        return scaled


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Scores that are scaled when they are asked for, so that only the raw ones take memory.

    Attributes:
        scores: raw scores ``(n, M)``, float32 or float64.
        scaling: their range.

    >>> rows = ScaledRows(np.array([[0.0, 5.0], [2.0, 9.0]], dtype=np.float32), MinMax(np.zeros(2), np.full(2, 10.0)))
    >>> rows[[1]]
    array([[0.2, 0.9]])
    """

    scores: np.ndarray
    scaling: MinMax

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, M)``."""
        return self.scores.shape[0], self.scores.shape[1]

    def __getitem__(self, rows: Any) -> np.ndarray:
        """The rows of an index, a slice or a mask, scaled to [0, 1] in float64."""
        return self.scaling(self.scores[rows])

    def columns(self, concepts: Any, rows: Any = slice(None)) -> np.ndarray:
        """The concepts of a slice, a mask or indices, for all rows or some, scaled to [0, 1] in float64."""
        return self.scaling.take(concepts)(self.scores[:, concepts][rows])

    def means(self, weights: np.ndarray) -> np.ndarray:
        """Weighted means of the scaled scores ``(M,)``, some columns at a time."""
        means, step = np.empty(self.scores.shape[1]), max(2, _BLOCK_VALUES // max(1, len(self)))
        for start in range(0, len(means), step):
            some = slice(start, start + step)
            means[some] = np.average(self.columns(some), axis=0, weights=weights)
        return means
