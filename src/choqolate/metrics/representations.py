"""How much two representations of the same rows have in common."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from choqolate._util.kernel_products import linear_products, masked_hsic, nearest, rbf_products
from choqolate.errors import ChoqolateError
from choqolate.metrics.arrays import as_pair, centered, unit_rows

_RBF_MAX_ROWS = 50_000  # a minute or two: time grows with the square of the rows, memory does not


def hsic(A: ArrayLike, B: ArrayLike, kernel: Literal["linear", "rbf"] = "linear", normalised: bool = True) -> float:
    r"""Dependence between two representations of the same rows: HSIC, by default normalized to [0, 1] (CKA).

    For kernel matrices K of A and L of B, and H = I - 11'/n (Gretton et al. 2005; Kornblith et al. 2019),

    .. math:: \mathrm{HSIC}(K, L) = \frac{\mathrm{tr}(K H L H)}{(n - 1)^2}, \qquad
        \mathrm{CKA} = \frac{\mathrm{HSIC}(K, L)}{\sqrt{\mathrm{HSIC}(K, K)\, \mathrm{HSIC}(L, L)}}

    The linear kernel x'y costs O(n p q) when rows outnumber features. The RBF kernel exp(-|x - y|^2 / 2 s^2) costs
    O(n^2); s, one for each representation, is the median of the positive distances between rows (beyond 1,000 rows,
    between 1,000 of them, evenly spaced). A representation that is the same for all rows shares nothing: 0.

    Args:
        A: First representation, shape (n, p), n >= 2.
        B: Second representation, shape (n, q), of the same rows in the same order.
        kernel: "linear" or "rbf".
        normalised: Whether to return CKA, which ignores the scale of both, or the (biased) HSIC itself.
    Raises:
        ChoqolateError: If shapes do not match, values are not finite, or RBF is asked for more than 50,000 rows.

    >>> A = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]]
    >>> round(hsic(A, A), 6), round(hsic(A, [[1.0], [0.0], [0.0], [0.0]]), 4)
    (1.0, 0.5388)
    """
    first, second = (centered(x) for x in as_pair(A, B, min_rows=2))
    n = len(first)
    if kernel not in ("linear", "rbf"):
        raise ChoqolateError(f'kernel: expected "linear" or "rbf", got {kernel!r}; choose one of them.')
    if kernel == "rbf" and n > _RBF_MAX_ROWS:
        raise ChoqolateError(f"A: expected at most {_RBF_MAX_ROWS:,} rows for RBF, got {n:,}; subsample A and B alike.")
    if not (first.any() and second.any()):
        return 0.0
    if normalised:  # which ignores the scale, so that tiny numbers need not vanish when they are squared
        first, second = first / np.abs(first).max(), second / np.abs(second).max()
    kl, kk, ll = (linear_products if kernel == "linear" else rbf_products)(first, second)
    return min(max(kl / math.sqrt(kk) / math.sqrt(ll), 0.0), 1.0) if normalised else kl / (n - 1) ** 2


def cknna(A: ArrayLike, B: ArrayLike, k: int = 10) -> float:
    r"""Alignment of two representations on their common nearest neighbors (CKNNA; Huh et al. 2024).

    Rows are scaled to length 1; K = AA', L = BB'. A kernel's mask marks the k largest entries of each row, the diagonal
    excluded. Both kernels, zero outside the product of their masks, enter the unbiased HSIC (Song et al. 2012)

    .. math:: s(K, L) = \frac{1}{n (n - 3)} \left[ \mathrm{tr}(K L) + \frac{1^\top K 1\; 1^\top L 1}{(n - 1)(n - 2)}
        - \frac{2}{n - 2} 1^\top K L 1 \right], \qquad \mathrm{CKNNA} = \frac{s(K, L)}{\sqrt{s(K, K)\, s(L, L)}}

    1 for equal representations, but not bounded by 1 and, as neighbors need not be mutual, not quite symmetric; 0 if
    all rows of one point the same way; NaN where, with a handful of rows, an estimate under the root is negative.
    Ties go to the lower row number. The authors' code adds 1e-6 to the denominator; this function does not.

    Args:
        A: First representation, shape (n, p), n >= 4. A row of zeros stays zero: similar to nothing.
        B: Second representation, shape (n, q), of the same rows in the same order.
        k: Number of neighbors, 2 <= k < n.
    Raises:
        ChoqolateError: If shapes do not match, values are not finite, or ``k`` does not fit the number of rows.

    >>> A = [[1.0, 0.0], [0.9, 0.1], [0.8, 0.3], [0.0, 1.0], [0.1, 0.9], [0.2, 0.8]]
    >>> round(cknna(A, A, k=2), 6), round(cknna(A, A[1:] + A[:1], k=2), 4)
    (1.0, 0.3977)
    """
    first, second = (unit_rows(x) for x in as_pair(A, B, min_rows=4))
    n = len(first)
    if not (isinstance(k, int | np.integer) and 2 <= k < n):
        raise ChoqolateError(f"k: expected an integer, 2 <= k < {n} (the number of rows), got {k!r}; change k.")
    if any((x[0] == x).all() for x in (first, second)):
        return 0.0
    K, L = nearest(first, int(k)), nearest(second, int(k))
    kl, kk, ll = masked_hsic(K, L, n), masked_hsic(K, K, n), masked_hsic(L, L, n)
    squared = kk * ll if min(kk, ll) >= 0 else math.nan
    return kl / math.sqrt(squared) if squared else 0.0
