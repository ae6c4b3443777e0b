"""Inner products whose bits depend on the two vectors alone: not on their place, the library or the processor."""

from __future__ import annotations

import numpy as np

_BITS = 26  # of each number of a vector: a product has at most 52, a double 53
_ROWS = 256  # converted at a time


class ExactProduct:
    r"""Inner products with the columns of a matrix, summed without rounding.

    The sum in an inner product depends in its last bits on the order of the terms, which a fast library chooses by
    the place of a row, the number of threads and the processor. So each vector is rounded to a grid of :math:`2^{-26}`
    of its own scale first, a power of two that is at least its norm. Then every product of two numbers and every
    partial sum is a whole multiple of :math:`2^{-52}` below one, which a double holds exactly, and the order does not
    matter. The grid moves a cosine by about :math:`10^{-8}`, as much as sums in single precision do. A product takes
    two to three times as long as in single precision.

    Args:
        matrix: its columns, shape (d, M).

    >>> product = ExactProduct(np.array([[0.6, 1.0], [0.8, 0.0]]))
    >>> product(np.array([[1.0, 0.0], [0.0, 2.0]], dtype=np.float32))
    array([[0.6, 1. ],
           [1.6, 0. ]], dtype=float32)
    """

    def __init__(self, matrix: np.ndarray) -> None:
        self._whole: np.ndarray = np.empty_like(matrix, dtype=np.float64, order="C")
        self._exponents = np.empty(len(matrix.T), dtype=np.int32)
        for start in range(0, len(matrix.T), _ROWS):
            columns = slice(start, start + _ROWS)
            whole, self._exponents[columns] = _on_grid(matrix[:, columns].T)
            self._whole[:, columns] = whole.T

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """The products ``(n, M)`` in float32 of vectors ``(n, d)``."""
        result = np.empty((len(vectors), self._whole.shape[1]), dtype=np.float32)
        for start in range(0, len(vectors), _ROWS):
            rows = slice(start, start + _ROWS)
            whole, exponents = _on_grid(vectors[rows])
            result[rows] = np.ldexp(whole @ self._whole, exponents[:, None] + self._exponents)
        return result


def _on_grid(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers below 2^26 in size, in float64, and the exponents ``(n,)`` of two that give back the vectors."""
    exact = vectors.astype(np.float64)
    # a quarter more than the norm: unit vectors, whose norms are rounded, do not lie at the border of two scales
    exponents = np.frexp(1.25 * np.linalg.norm(exact, axis=1))[1] - _BITS
    return np.rint(np.ldexp(exact, -exponents[:, None])), exponents
