"""Min-max scaling with the range of the training scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
        return cls(X.min(axis=0), X.max(axis=0))

    @property
    def constant(self) -> np.ndarray:
        """Mask of the concepts without a range ``(M,)``."""
        still: np.ndarray = self.low == self.high
        return still

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Scale scores ``X (n, M)`` to [0, 1]."""
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
