"""Node Coherence on scores that come in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from choqolate.errors import ChoqolateError
from choqolate.metrics.arrays import Floats, as_array, relative_sizes
from choqolate.metrics.node_quality import coherence_of_norms

_SLICE_VALUES = 1 << 20  # scores in float64 at a time


def node_coherence_of_blocks(W: ArrayLike, blocks: Callable[[], Iterable[np.ndarray]]) -> Floats:
    r"""What :func:`node_coherence_on` gives, up to rounding, without all scores in memory.

    The first pass takes mean :math:`m_j` and norm :math:`s_j` of the centered scores of each concept, the second sums

    .. math:: \Bigl\| \sum_j w_j u_j \Bigr\|^2 = \sum_i \Bigl( \sum_j \frac{w_j}{s_j} (x_{ij} - m_j) \Bigr)^2

    Args:
        W: Attributions, shape (N, M), giving shape (N,). Signs are ignored.
        blocks: Gives the concept scores, shapes (n_k, M), with at least two rows in all; called twice.
    Raises:
        ChoqolateError: If shapes do not match, something is not finite, or there are fewer than two rows.

    >>> scores = np.array([[0.0, 1.0, 0.0], [1.0, 3.0, 0.1], [2.0, 2.0, 0.0]])
    >>> node_coherence_of_blocks([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], lambda: [scores[:1], scores[1:]])
    array([0.5, nan])
    """
    weights = np.atleast_2d(relative_sizes(W))
    n_rows, n_concepts = 0, weights.shape[1]
    mean, squares = np.zeros(n_concepts), np.zeros(n_concepts)
    low, high = np.full(n_concepts, np.inf), np.full(n_concepts, -np.inf)
    for X in _slices(blocks(), n_concepts):
        own_mean = X.mean(axis=0)
        step, total = own_mean - mean, n_rows + len(X)
        squares += ((X - own_mean) ** 2).sum(axis=0) + step**2 * (n_rows * len(X) / total)
        mean += step * (len(X) / total)
        low, high, n_rows = np.minimum(low, X.min(axis=0)), np.maximum(high, X.max(axis=0)), total
    if n_rows < 2:
        raise ChoqolateError(f"blocks: expected at least two rows of scores, got {n_rows}.")
    norms = np.where(low < high, np.sqrt(squares), 0.0)
    weights = weights * (norms > 0)  # a constant concept has no correlation
    directions = np.divide(weights, norms, out=np.zeros_like(weights), where=norms > 0).T
    sums = np.zeros(len(weights))
    for X in _slices(blocks(), n_concepts):
        sums += (((X - mean) @ directions) ** 2).sum(axis=0)
    return coherence_of_norms(weights, sums)


def _slices(blocks: Iterable[np.ndarray], n_concepts: int) -> Iterator[Floats]:
    step = max(1, _SLICE_VALUES // n_concepts)
    for block in blocks:
        for start in range(0, len(block), step):
            X = as_array(block[start : start + step], "blocks", ndims=(2,))
            if X.shape[1] != n_concepts:
                raise ChoqolateError(f"blocks: expected {n_concepts} columns as in W, got {X.shape[1]}.")
            yield X
