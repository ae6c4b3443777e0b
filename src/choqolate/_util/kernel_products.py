"""Products of kernel matrices that are never held as a whole: what HSIC and CKNNA are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sparse = tuple[NDArray[np.int64], Floats]  # flat positions i * n + j in ascending order, and the entries there
_BLOCK_ENTRIES = 4_000_000  # entries of an (n, n) matrix held at a time: 32 MB


def linear_products(A: Floats, B: Floats) -> list[float]:
    """tr(KL), tr(KK), tr(LL) of the linear kernels of centered A and B, by features or by rows, whichever are fewer."""
    if max(A.shape[1], B.shape[1]) < len(A):
        return [float(np.linalg.norm(x.T @ y)) ** 2 for x, y in ((A, B), (A, A), (B, B))]
    K, L = A @ A.T, B @ B.T
    return [float(np.vdot(x, y)) for x, y in ((K, L), (K, K), (L, L))]


def rbf_products(A: Floats, B: Floats) -> list[float]:
    """tr(KHLH), tr(KHKH), tr(LHLH) of the RBF kernels, a block of rows at a time."""
    n, products, sums = len(A), np.zeros((2, 2)), np.empty((2, len(A)))
    scaled = [x / (math.sqrt(2) * _median_distance(x)) for x in (A, B)]
    norms = [(x * x).sum(axis=1) for x in scaled]
    for rows in _blocks(n):
        squares = [norm[rows, None] + norm - 2 * (x[rows] @ x.T) for x, norm in zip(scaled, norms, strict=True)]
        kernels = np.exp(-np.maximum(squares, 0.0)).reshape(2, -1)
        products += kernels @ kernels.T
        sums[:, rows] = kernels.reshape(2, -1, n).sum(axis=2)
    totals = sums.sum(axis=1)
    products += np.outer(totals, totals) / n**2 - 2 / n * (sums @ sums.T)
    return [float(products[0, 1]), float(products[0, 0]), float(products[1, 1])]


def _median_distance(A: Floats) -> float:
    """Median of the positive distances between rows, at most 1,000 of them."""
    sample = A[np.linspace(0, len(A) - 1, min(len(A), 1_000)).astype(int)]
    squares = np.concatenate([((sample[i + 1 :] - row) ** 2).sum(axis=1) for i, row in enumerate(sample)])
    return float(np.median(np.sqrt(squares[squares > 0]))) if squares.any() else float(np.abs(A).max())


def nearest(X: Floats, k: int) -> Sparse:
    """The similarities of each row to its k nearest others."""
    n, positions, values = len(X), [], []
    for rows in _blocks(n):
        similarity = X[rows] @ X.T
        np.fill_diagonal(similarity[:, rows], -np.inf)
        kth = np.partition(similarity, n - k, axis=1)[:, n - k, None]
        nearer, tied = similarity > kth, similarity == kth
        chosen = nearer | (tied & (tied.cumsum(axis=1) <= k - nearer.sum(axis=1, keepdims=True)))
        positions.append(np.flatnonzero(chosen) + rows.start * n)
        values.append(similarity[chosen])
    return np.concatenate(positions), np.concatenate(values)


def masked_hsic(first: Sparse, second: Sparse, n: int) -> float:
    """Unbiased HSIC of two kernels, both restricted to the positions that they have in common."""
    common, at_first, at_second = np.intersect1d(first[0], second[0], assume_unique=True, return_indices=True)
    K, L = first[1][at_first], second[1][at_second]
    rows, columns = np.divmod(common, n)
    _, at, mirrored = np.intersect1d(common, columns * n + rows, assume_unique=True, return_indices=True)
    trace, through = K[at] @ L[mirrored], np.bincount(columns, K, n) @ np.bincount(rows, L, n)
    total = float(trace + K.sum() * L.sum() / ((n - 1) * (n - 2)) - 2 * through / (n - 2))
    return total / (n * (n - 3)) if abs(total) > 1e-12 * np.abs(K) @ np.abs(L) else 0.0  # below: rounding


def _blocks(n: int) -> Iterator[slice]:
    """Slices of rows such that a block of an (n, n) matrix stays small."""
    step = max(1, _BLOCK_ENTRIES // n)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))
