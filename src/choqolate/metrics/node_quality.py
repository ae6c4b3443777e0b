"""How concentrated and coherent nodes are."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from choqolate.errors import ChoqolateError
from choqolate.metrics.arrays import Floats, as_array, centered, relative_sizes, unit_rows

_BLOCK_VALUES = 1 << 22  # scores in float64 at a time: 32 MB
_BLOCK_CONCEPTS = 4_096  # rows of a correlation matrix at a time: some libraries crash on larger products
MOST_CORRELATED = 10_000  # concepts of a correlation matrix: 800 MB


class NodeMean(NamedTuple):
    """A mean over the nodes that have a value, and the number of nodes that have none."""

    mean: float
    n_undefined: int


def attribution_gini(W: ArrayLike) -> Floats:
    r"""Gini index of each node's attributions: 0 when all concepts weigh the same, high when one dominates.

    .. math:: \frac{\sum_{i=1}^{M} (2i - M - 1)\, w_{(i)}}{M \sum_{i=1}^{M} w_{(i)}}, \; w_{(1)} \le \dots \le w_{(M)}

    The maximum, for a node that uses one concept only, is 1 - 1/M, not 1. A node whose weights are all zero: NaN.

    Args:
        W: Attributions, shape (N, M), giving shape (N,); or one node, shape (M,), giving a scalar. Signs are ignored.
    Raises:
        ChoqolateError: If ``W`` is empty, not numeric, not finite, or has more than two dimensions.

    >>> attribution_gini([[0.25, 0.25, 0.25, 0.25], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    array([0.  , 0.75,  nan])
    """
    weights = relative_sizes(W)
    m = weights.shape[-1]
    with np.errstate(invalid="ignore"):
        gini = np.sort(weights) @ (2 * np.arange(1, m + 1) - m - 1) / (m * weights.sum(axis=-1))
    return np.clip(gini, 0.0, 1 - 1 / m)


def node_coherence(W: ArrayLike, correlation: ArrayLike) -> Floats:
    r"""Mean correlation of the concepts that a node uses, weighted by its attributions.

    .. math:: \frac{\sum_{j \neq l} |w_j|\, |w_l|\, R_{jl}}{\sum_{j \neq l} |w_j|\, |w_l|} \in [-1, 1]

    Near 1 the node gathers correlated concepts, near 0 unrelated ones, below 0 opposed ones. A constant concept has no
    correlation: pairs with R = NaN are left out of both sums. A node with no pair left, with one concept say: NaN.

    Args:
        W: Attributions, shape (N, M), giving shape (N,); or one node, shape (M,), giving a scalar. Signs are ignored.
        correlation: R, the correlation matrix of the concept scores, shape (M, M): see :func:`concept_correlation`.
            Attributions of presence and absence, shape (N, 2M), are added first, see :func:`per_concept`.
    Raises:
        ChoqolateError: If shapes do not match, ``W`` is not finite, or ``correlation`` has entries outside [-1, 1].

    >>> R = [[1.0, 0.8, -0.2], [0.8, 1.0, 0.0], [-0.2, 0.0, 1.0]]
    >>> node_coherence([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], R)
    array([ 0.8, -0.2,  nan])
    """
    weights = relative_sizes(W)
    matrix = as_array(correlation, "correlation", ndims=(2,), allow_nan=True)
    m = weights.shape[-1]
    if matrix.shape != (m, m) or (np.abs(matrix) > 1 + 1e-6).any():
        came = f"{matrix.shape} and up to {np.fmax.reduce(np.abs(matrix), axis=None):.4g}; use concept_correlation"
        raise ChoqolateError(f"correlation: expected shape ({m}, {m}) and entries up to 1 in size, got {came}.")
    counted = ~(np.isnan(matrix) | np.eye(m, dtype=bool))
    weighted = ((weights @ np.where(counted, matrix, 0.0)) * weights).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return np.clip(weighted / ((weights @ counted) * weights).sum(axis=-1), -1.0, 1.0)


def node_coherence_on(W: ArrayLike, scores: ArrayLike) -> Floats:
    r"""Node Coherence with the correlations of given scores, without their matrix: O(n M) for each node.

    With unit columns :math:`u_j`, the centered scores of each concept, :math:`R_{jl} = u_j^\top u_l`, so that

    .. math:: \sum_{j \neq l} w_j w_l R_{jl} = \Bigl\| \sum_j w_j u_j \Bigr\|^2 - \sum_j w_j^2

    Args:
        W: Attributions, shape (N, M), giving shape (N,). Signs are ignored.
        scores: Concept scores, shape (n, M), n >= 2.
    Returns:
        What :func:`node_coherence` gives with :func:`concept_correlation` of the scores, up to rounding.
    Raises:
        ChoqolateError: If shapes do not match, or something is not finite.

    >>> scores = [[0.0, 1.0, 0.0], [1.0, 3.0, 0.1], [2.0, 2.0, 0.0]]
    >>> node_coherence_on([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], scores)
    array([0.5, nan])
    """
    weights = np.atleast_2d(relative_sizes(W))
    usable = isinstance(scores, np.ndarray) and scores.ndim == 2
    matrix: np.ndarray = scores if usable else as_array(scores, "scores", ndims=(2,), min_rows=2)  # type: ignore[assignment]
    if matrix.shape[1] != weights.shape[1]:
        raise ChoqolateError(f"scores: expected {weights.shape[1]} columns as in W, got {matrix.shape[1]}.")
    sums = np.zeros((len(weights), len(matrix)))  # of the weighted unit columns
    step = max(2, _BLOCK_VALUES // max(1, len(matrix)))
    for start in range(0, weights.shape[1], step):  # the columns in float64, some at a time
        some = slice(start, start + step)
        units = unit_rows(centered(as_array(np.ascontiguousarray(matrix[:, some]), "scores", ndims=(2,), min_rows=2)).T)
        weights[:, some] *= units.any(axis=1)  # a constant concept has no correlation
        sums += weights[:, some] @ units
    return coherence_of_norms(weights, (sums**2).sum(axis=1))


def coherence_of_norms(weights: Floats, squared_norms: Floats) -> Floats:
    """Node Coherence from weights of concepts that vary (N, M) and the squared norms of their weighted sums (N,)."""
    squares = (weights**2).sum(axis=1)
    pairs = weights.sum(axis=1) ** 2 - squares
    alone = (weights > 0).sum(axis=1) < 2
    with np.errstate(invalid="ignore", divide="ignore"):
        coherence = (squared_norms - squares) / pairs
    return np.where(alone, np.nan, np.clip(coherence, -1.0, 1.0))


def per_concept(W: ArrayLike, n_concepts: int) -> Floats:
    """Attributions per concept: with ``bipolar``, presence and absence of a concept are added.

    Gini, coherence and counts of concepts are to be taken of these: 2M inputs of which half are empty look sparser than
    M concepts.

    Args:
        W: Attributions of inputs, shape (N, M) or, for presence followed by absence, (N, 2M). Signs are dropped.
        n_concepts: M.
    Raises:
        ChoqolateError: If the columns of ``W`` are neither M nor 2M.

    >>> per_concept([[0.5, 0.2, 0.25, 0.05]], n_concepts=2)
    array([[0.75, 0.25]])
    """
    inputs = np.atleast_2d(as_array(W, "W", ndims=(1, 2)))
    if inputs.shape[1] not in (n_concepts, 2 * n_concepts):
        raise ChoqolateError(f"W: expected {n_concepts} or {2 * n_concepts} columns, got {inputs.shape[1]}.")
    return inputs if inputs.shape[1] == n_concepts else np.abs(inputs).reshape(len(inputs), 2, n_concepts).sum(axis=1)


def concept_count(W: ArrayLike, share: float = 0.95) -> NDArray[np.int64]:
    """How many concepts it takes to carry most of each row's attributions.

    Args:
        W: Attributions, shape (N, M): of nodes, or of classes (both layers multiplied). Signs are ignored.
        share: Of the row's sum that the largest attributions must reach.
    Returns:
        The counts, shape (N,); 0 for a row of zeros.
    Raises:
        ChoqolateError: If ``W`` is empty, not numeric or not finite, or ``share`` is not in (0, 1].

    >>> concept_count([[0.6, 0.3, 0.08, 0.02], [1.0, 0.0, 0.0, 0.0]])
    array([3, 1])
    """
    if not 0 < share <= 1:
        raise ChoqolateError(f"share: expected a number above 0, at most 1, got {share!r}.")
    sizes = -np.sort(-np.atleast_2d(relative_sizes(W)), axis=1)
    sums = sizes.cumsum(axis=1)
    enough = share * sums[:, -1:] * (1 - 1e-12)  # sums are rounded
    return np.where(sums[:, -1] > 0, (sums < enough).sum(axis=1) + 1, 0)


def concept_correlation(scores: ArrayLike) -> Floats:
    """Pearson correlation between concepts, shape (M, M); NaN in row and column of a constant concept.

    Args:
        scores: Concept scores, shape (n, M), one row per image, n >= 2, M <= 10,000.
    Raises:
        ChoqolateError: If ``scores`` is not a matrix of at least two rows, not finite, or has too many columns.

    >>> concept_correlation([[0.0, 1.0], [1.0, 0.0], [2.0, -1.0]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    matrix = as_array(scores, "scores", ndims=(2,), min_rows=2)
    n_concepts = matrix.shape[1]
    if n_concepts > MOST_CORRELATED:
        raise ChoqolateError(
            f"scores: expected at most {MOST_CORRELATED:,} columns to correlate all pairs, got {n_concepts:,}. "
            "Use choqolate.check_redundancy, or metrics.node_coherence_on for nodes: they need no matrix of all pairs."
        )
    columns = unit_rows(centered(matrix).T)
    result: Floats = np.empty((n_concepts, n_concepts))
    for start in range(0, n_concepts, _BLOCK_CONCEPTS):
        block = slice(start, start + _BLOCK_CONCEPTS)
        np.clip(columns[block] @ columns.T, -1.0, 1.0, out=result[block])
    np.fill_diagonal(result, 1.0)
    constant = ~columns.any(axis=1)
    result[constant, :] = result[:, constant] = np.nan
    return result


def mean_over_nodes(values: ArrayLike) -> NodeMean:
    """Mean of a per-node metric over the nodes where it is defined (NaN if nowhere), and how many nodes it leaves out.

    Args:
        values: One value per node, shape (N,); NaN where the metric is not defined.
    Raises:
        ChoqolateError: If ``values`` is empty, not one-dimensional, or holds infinity.

    >>> mean_over_nodes(attribution_gini([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]))
    NodeMean(mean=0.25, n_undefined=1)
    """
    array = np.atleast_1d(as_array(values, "values", ndims=(0, 1), allow_nan=True))
    defined = array[~np.isnan(array)]
    return NodeMean(float(defined.mean()) if defined.size else math.nan, array.size - defined.size)
