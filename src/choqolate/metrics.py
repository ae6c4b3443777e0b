"""Metrics: how concentrated and coherent nodes are, how accurate predictions, how much of its input a layer keeps.

Pure functions of numpy arrays, torch tensors, data frames or lists; float64 inside, numpy arrays or floats outside.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from choqolate._util.checks import as_labels, check_same_kind
from choqolate._util.kernel_products import linear_products, masked_hsic, nearest, rbf_products
from choqolate.errors import ChoqolateError

__all__ = ["NodeMean", "attribution_gini", "concept_correlation", "mean_over_nodes", "node_coherence"]
__all__ += ["concept_count", "node_coherence_on", "per_concept"]
__all__ += ["accuracy", "group_accuracies", "reweighted_accuracy", "worst_group_accuracy"]
__all__ += ["cknna", "hsic"]

Floats = NDArray[np.float64]
Labels = ArrayLike | Iterable[Hashable]
_RBF_MAX_ROWS = 50_000  # a minute or two: time grows with the square of the rows, memory does not


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
    weights = _sizes(W)
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
    weights = _sizes(W)
    matrix = _as_array(correlation, "correlation", ndims=(2,), allow_nan=True)
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
    weights = np.atleast_2d(_sizes(W))
    units = _unit_rows(_centred(_as_array(scores, "scores", ndims=(2,), min_rows=2)).T)
    if units.shape[0] != weights.shape[1]:
        raise ChoqolateError(f"scores: expected {weights.shape[1]} columns as in W, got {units.shape[0]}.")
    weights = weights * units.any(axis=1)  # a constant concept has no correlation
    squares = (weights**2).sum(axis=1)
    pairs = weights.sum(axis=1) ** 2 - squares
    alone = (weights > 0).sum(axis=1) < 2
    with np.errstate(invalid="ignore", divide="ignore"):
        coherence = (((weights @ units) ** 2).sum(axis=1) - squares) / pairs
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
    inputs = np.atleast_2d(_as_array(W, "W", ndims=(1, 2)))
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
    sizes = -np.sort(-np.atleast_2d(_sizes(W)), axis=1)
    sums = sizes.cumsum(axis=1)
    enough = share * sums[:, -1:] * (1 - 1e-12)  # sums are rounded
    return np.where(sums[:, -1] > 0, (sums < enough).sum(axis=1) + 1, 0)


def concept_correlation(scores: ArrayLike) -> Floats:
    """Pearson correlation between concepts, shape (M, M); NaN in row and column of a constant concept.

    Args:
        scores: Concept scores, shape (n, M), one row an image, n >= 2.
    Raises:
        ChoqolateError: If ``scores`` is not a matrix of at least two rows, or not finite.

    >>> concept_correlation([[0.0, 1.0], [1.0, 0.0], [2.0, -1.0]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    columns = _unit_rows(_centred(_as_array(scores, "scores", ndims=(2,), min_rows=2)).T)
    result: Floats = np.clip(columns @ columns.T, -1.0, 1.0)
    np.fill_diagonal(result, 1.0)
    constant = ~columns.any(axis=1)
    result[constant, :] = result[:, constant] = np.nan
    return result


def mean_over_nodes(values: ArrayLike) -> NodeMean:
    """Mean of a per-node metric over the nodes where it is defined (NaN if nowhere), and how many nodes it leaves out.

    Args:
        values: One value a node, shape (N,); NaN where the metric is not defined.
    Raises:
        ChoqolateError: If ``values`` is empty, not one-dimensional, or holds infinity.

    >>> mean_over_nodes(attribution_gini([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]))
    NodeMean(mean=0.25, n_undefined=1)
    """
    array = np.atleast_1d(_as_array(values, "values", ndims=(0, 1), allow_nan=True))
    defined = array[~np.isnan(array)]
    return NodeMean(float(defined.mean()) if defined.size else math.nan, array.size - defined.size)


def accuracy(y_true: Labels, y_pred: Labels) -> float:
    r"""Share of correct predictions, :math:`\frac{1}{n} \sum_i \mathbf{1}[\hat{y}_i = y_i]`.

    Args:
        y_true: True labels, shape (n,): numbers or strings.
        y_pred: Predicted labels, shape (n,), of the same kind.
    Raises:
        ChoqolateError: If labels are missing, their numbers differ, or one side is text and the other is not.

    >>> accuracy(["cat", "dog", "dog", "cat"], ["cat", "dog", "cat", "cat"])
    0.75
    """
    return float(np.mean(_correct(y_true, y_pred)))


def group_accuracies(y_true: Labels, y_pred: Labels, groups: Labels) -> dict[Any, float]:
    """Accuracy within each group, in sorted order of the groups; the keys are plain Python values.

    Args:
        y_true: True labels, shape (n,).
        y_pred: Predicted labels, shape (n,).
        groups: Group of each row, shape (n,): any hashable labels, for example numbers, strings or (class, background).
    Raises:
        ChoqolateError: As :func:`accuracy`; also if a row has no group.

    >>> group_accuracies([0, 0, 1, 1], [0, 1, 1, 1], ["land", "water", "land", "land"])
    {'land': 1.0, 'water': 0.0}
    """
    correct = _correct(y_true, y_pred)
    members = as_labels(groups, "groups", len(correct))
    sizes = Counter(members)
    hits = Counter(group for group, hit in zip(members, correct, strict=True) if hit)
    try:
        names = sorted(sizes)
    except TypeError:  # labels of several kinds
        names = sorted(sizes, key=str)
    return {group: hits[group] / sizes[group] for group in names}


def worst_group_accuracy(y_true: Labels, y_pred: Labels, groups: Labels) -> float:
    r"""Lowest accuracy over the groups, :math:`\min_g \frac{1}{|g|} \sum_{i \in g} \mathbf{1}[\hat{y}_i = y_i]`.

    Args:
        y_true: True labels, shape (n,).
        y_pred: Predicted labels, shape (n,).
        groups: Group of each row, shape (n,); usually class and spurious attribute together.
    Raises:
        ChoqolateError: As :func:`group_accuracies`.

    >>> worst_group_accuracy([0, 0, 0, 1], [0, 0, 1, 1], [(0, "land"), (0, "water"), (0, "water"), (1, "water")])
    0.5
    """
    return min(group_accuracies(y_true, y_pred, groups).values())


def reweighted_accuracy(y_true: Labels, y_pred: Labels, groups: Labels, train_groups: Labels) -> float:
    r"""Accuracy with each test group weighted by its share in training, :math:`\sum_g \frac{n_g}{n} \mathrm{Acc}_g`.

    One of the two "average accuracies" on Waterbirds (the other: :func:`accuracy`). Test-only groups have weight 0.

    Args:
        y_true: True labels, shape (n,).
        y_pred: Predicted labels, shape (n,).
        groups: Group of each test row, shape (n,).
        train_groups: Group of each training row, shape (n_train,).
    Raises:
        ChoqolateError: As :func:`group_accuracies`; also if a training group has no test rows.

    >>> reweighted_accuracy([0, 0, 1, 1], [0, 0, 1, 0], ["a", "a", "b", "b"], ["a", "a", "a", "b"])
    0.875
    """
    by_group = group_accuracies(y_true, y_pred, groups)
    sizes = Counter(as_labels(train_groups, "train_groups"))
    absent = ", ".join(repr(group) for group in sizes if group not in by_group)
    if absent:
        raise ChoqolateError(f"groups: expected every training group, got no {absent}; leave it out of train_groups.")
    known = [group for group in by_group if group in sizes]
    return float(np.average([by_group[group] for group in known], weights=[sizes[group] for group in known]))


def hsic(A: ArrayLike, B: ArrayLike, kernel: Literal["linear", "rbf"] = "linear", normalised: bool = True) -> float:
    r"""Dependence between two representations of the same rows: HSIC, by default normalised to [0, 1] (CKA).

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
    first, second = (_centred(x) for x in _as_pair(A, B, min_rows=2))
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
    r"""Alignment of two representations on their common nearest neighbours (CKNNA; Huh et al. 2024).

    Rows are scaled to length 1; K = AA', L = BB'. A kernel's mask marks the k largest entries of each row, the diagonal
    excluded. Both kernels, zero outside the product of their masks, enter the unbiased HSIC (Song et al. 2012)

    .. math:: s(K, L) = \frac{1}{n (n - 3)} \left[ \mathrm{tr}(K L) + \frac{1^\top K 1\; 1^\top L 1}{(n - 1)(n - 2)}
        - \frac{2}{n - 2} 1^\top K L 1 \right], \qquad \mathrm{CKNNA} = \frac{s(K, L)}{\sqrt{s(K, K)\, s(L, L)}}

    1 for equal representations, but not bounded by 1 and, as neighbours need not be mutual, not quite symmetric; 0 if
    all rows of one point the same way; NaN where, with a handful of rows, an estimate under the root is negative.
    Ties go to the lower row number. The authors' code adds 1e-6 to the denominator, this function does not.

    Args:
        A: First representation, shape (n, p), n >= 4. A row of zeros stays zero: similar to nothing.
        B: Second representation, shape (n, q), of the same rows in the same order.
        k: Number of neighbours, 2 <= k < n.
    Raises:
        ChoqolateError: If shapes do not match, values are not finite, or ``k`` does not fit the number of rows.

    >>> A = [[1.0, 0.0], [0.9, 0.1], [0.8, 0.3], [0.0, 1.0], [0.1, 0.9], [0.2, 0.8]]
    >>> round(cknna(A, A, k=2), 6), round(cknna(A, A[1:] + A[:1], k=2), 4)
    (1.0, 0.3977)
    """
    first, second = (_unit_rows(x) for x in _as_pair(A, B, min_rows=4))
    n = len(first)
    if not (isinstance(k, int | np.integer) and 2 <= k < n):
        raise ChoqolateError(f"k: expected an integer, 2 <= k < {n} (the number of rows), got {k!r}; change k.")
    if any((x[0] == x).all() for x in (first, second)):
        return 0.0
    K, L = nearest(first, int(k)), nearest(second, int(k))
    kl, kk, ll = masked_hsic(K, L, n), masked_hsic(K, K, n), masked_hsic(L, L, n)
    squared = kk * ll if min(kk, ll) >= 0 else math.nan
    return kl / math.sqrt(squared) if squared else 0.0


def _sizes(W: ArrayLike) -> Floats:
    """Absolute attributions, each row relative to its largest: sums and products neither vanish nor overflow."""
    weights = np.abs(_as_array(W, "W", ndims=(1, 2)))
    largest = weights.max(axis=-1, keepdims=True)
    return np.divide(weights, largest, out=weights, where=largest > 0)


def _centred(X: Floats) -> Floats:
    """Columns minus their means; a constant column becomes exactly zero."""
    return np.where((X[0] == X).all(axis=0), 0.0, X - X.mean(axis=0))


def _unit_rows(X: Floats) -> Floats:
    """Rows scaled to length 1; zero rows stay zero."""
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.finfo(np.float64).tiny)


def _as_array(value: Any, name: str, *, ndims: tuple[int, ...], min_rows: int = 1, allow_nan: bool = False) -> Floats:
    """A float64 array with one of the given numbers of dimensions, not empty, finite or, if allowed, NaN."""
    try:
        array = np.asarray(value.detach().cpu().double() if hasattr(value, "detach") else value, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ChoqolateError(f"{name}: expected an array of numbers, got {type(value).__name__} ({error}).") from None
    if array.ndim not in ndims or array.size == 0 or (array.ndim and len(array) < min_rows):
        wanted = f"{' or '.join(map(str, ndims))} dimensions and at least {min_rows} rows"
        raise ChoqolateError(f"{name}: expected {wanted}, got shape {array.shape}; reshape it or pass more rows.")
    bad = int(np.isinf(array).sum() + (0 if allow_nan else np.isnan(array).sum()))
    if bad:
        raise ChoqolateError(f"{name}: expected finite numbers, got {bad} NaN or infinite; drop or fill them first.")
    return array


def _as_pair(A: Any, B: Any, min_rows: int) -> tuple[Floats, Floats]:
    """Two matrices with the same rows."""
    first, second = (_as_array(x, name, ndims=(2,), min_rows=min_rows) for x, name in ((A, "A"), (B, "B")))
    if len(first) != len(second):
        raise ChoqolateError(f"B: expected {len(first)} rows as in A, got {len(second)}; pass the same rows in both.")
    return first, second


def _correct(y_true: Any, y_pred: Any) -> list[bool]:
    """Which predictions are right."""
    truth = as_labels(y_true, "y_true")
    predicted = as_labels(y_pred, "y_pred", len(truth))
    check_same_kind(predicted, truth, "y_pred")
    return [bool(t == p) for t, p in zip(truth, predicted, strict=True)]
