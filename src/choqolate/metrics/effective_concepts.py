"""Accuracy when each class may use a few concepts only (NEC and ANEC of VLG-CBM)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from choqolate._util.recalibration import match_shares
from choqolate.errors import ChoqolateError
from choqolate.metrics.arrays import Floats, as_array
from choqolate.metrics.node_quality import per_concept

NEC_COUNTS = (5, 10, 15, 20, 25, 30)
"""How many concepts a class may use, as the authors of the metric count."""


class SparseClassifier(NamedTuple):
    """A linear classifier of concept scores in which each class uses a few concepts only.

    Attributes:
        W: weights ``(C, M)``, at most k of each row other than zero.
        shift: added to the class scores ``(C,)``.
    """

    W: Floats
    shift: Floats

    def predict(self, Z: Floats) -> NDArray[np.int64]:
        """Class indices ``(n,)`` of scores ``(n, M)``."""
        found: NDArray[np.int64] = (self.scores(Z) + self.shift).argmax(axis=1)
        return found

    def scores(self, Z: Floats) -> Floats:
        """Class scores ``(n, C)`` before the shift."""
        used = np.flatnonzero(self.W.any(axis=0))
        values: Floats = Z[:, used] @ self.W[:, used].T
        return values


def keep_largest(W: ArrayLike, k: int, n_concepts: int | None = None) -> Floats:
    """Weights of which each row keeps its k largest concepts by size, and the others are zero.

    Rows of weighted means, that is, if no weight is negative, get back their old sum; signed weights stay as they are.

    Args:
        W: weights, shape (C, M) or, for presence followed by absence, (C, 2M), of which a concept keeps both or none.
        k: how many concepts to keep; all if there are fewer. Of equal ones, the first are kept.
        n_concepts: M; by default all columns are concepts.
    Raises:
        ChoqolateError: if ``k`` is not a whole number of at least 1, or ``W`` has other columns.

    >>> keep_largest([[0.5, 0.3, 0.2]], k=2)
    array([[0.625, 0.375, 0.   ]])
    >>> keep_largest([[-2.0, 0.5, 1.0]], k=2)
    array([[-2.,  0.,  1.]])
    """
    _check_count(k)
    weights = np.atleast_2d(as_array(W, "W", ndims=(1, 2)))
    sizes = np.abs(per_concept(weights, n_concepts or weights.shape[1]))
    kept: NDArray[np.bool_] = np.zeros(sizes.shape, dtype=bool)
    np.put_along_axis(kept, np.argsort(-sizes, axis=1, kind="stable")[:, :k], True, axis=1)
    left = np.where(np.tile(kept, weights.shape[1] // kept.shape[1]), weights, 0.0)
    if kept.all() or (weights < 0).any():
        return left
    sums = left.sum(axis=1, keepdims=True)
    return left * np.divide(weights.sum(axis=1, keepdims=True), sums, out=np.ones_like(sums), where=sums > 0)


def sparse_classifier(W: ArrayLike, Z: ArrayLike, y: ArrayLike, k: int) -> SparseClassifier:
    r"""The linear classifier that is left if each class uses its k largest concepts.

    .. math:: \hat y(z) = \arg\max_r \; \textstyle\sum_{j \in K_r} w_{rj} z_j + s_r

    The shift s gives the predicted classes the shares that the classes have among the training rows, as recalibration
    of a network does. It takes the place of intercepts: classes lose unequal parts of their scores with the concepts
    that are cut off, and an intercept would come out of it again.

    Args:
        W: from concepts to classes, shape (C, M), or (C, 2M) for presence followed by absence: class attributions
            multiplied by node attributions, or the weights of a linear classifier.
        Z: what W weighs, for the training rows: scaled concept scores, shape (n, M), n >= C.
        y: class of each training row as a row of ``W``, shape (n,).
        k: concepts per class.
    Raises:
        ChoqolateError: if shapes do not match, something is not finite, ``y`` are no such indices, or there are fewer
            rows than classes.

    >>> Z = np.array([[0.9, 0.2, 0.1], [0.8, 0.1, 0.3], [0.1, 0.9, 0.2], [0.2, 0.7, 0.1]])
    >>> found = sparse_classifier([[0.6, 0.1, 0.3], [0.1, 0.7, 0.2]], Z, [0, 0, 1, 1], k=1)
    >>> found.W, found.predict(Z)
    (array([[1., 0., 0.],
           [0., 1., 0.]]), array([0, 0, 1, 1]))
    """
    scores, n_concepts = _scores(W, Z)
    targets = _indices(y, "y", len(scores), len(np.atleast_2d(W)))
    left = keep_largest(W, k, n_concepts)
    if left.shape[1] > n_concepts:  # an absence is 1 - z; its constant goes into the shift
        left = left[:, :n_concepts] - left[:, n_concepts:]
    unshifted = SparseClassifier(left, np.zeros(len(left)))
    shares = np.bincount(targets, minlength=len(left)) / len(targets)
    return unshifted._replace(shift=match_shares(unshifted.scores(scores), shares))


def accuracy_at_nec(
    W: ArrayLike,
    Z_train: ArrayLike,
    y_train: ArrayLike,
    Z: ArrayLike,
    y: ArrayLike,
    counts: Iterable[int] = NEC_COUNTS,
) -> dict[int, float]:
    """Accuracy when each class may use k concepts only, for several numbers k of effective concepts (NEC).

    After Srivastava, Yan and Weng (VLG-CBM, NeurIPS 2024): with many concepts even random ones classify well, so
    accuracies tell more about concepts where all methods use the same small number of them. Their models use k concepts
    per class on average; here every class keeps exactly its k largest ones, see :func:`sparse_classifier`.

    Of a model that is additive in its concepts with one layer (or linear) this is the model itself where k = M, except
    for the shift. Of one with pairs of concepts or units that are not linear, W is a linear surrogate, which is not the
    model for any k.

    Args:
        W: from concepts to classes, see :func:`sparse_classifier`.
        Z_train: scaled concept scores of training rows, for the shift, shape (n, M).
        y_train: their classes, as rows of ``W``, shape (n,).
        Z: scaled concept scores of the rows to measure on.
        y: their classes.
        counts: the numbers k.
    Returns:
        The accuracy for each k, in their order.
    Raises:
        ChoqolateError: as :func:`sparse_classifier`.

    >>> Z = np.array([[0.9, 0.2, 0.1], [0.8, 0.1, 0.3], [0.1, 0.9, 0.2], [0.2, 0.7, 0.1]])
    >>> y = [0, 0, 1, 1]
    >>> accuracy_at_nec([[0.6, 0.1, 0.3], [0.1, 0.7, 0.2]], Z, y, Z, y, counts=[1, 2])
    {1: 1.0, 2: 1.0}
    """
    scores, _ = _scores(W, Z)
    targets = _indices(y, "y", len(scores), len(np.atleast_2d(W)))
    width = as_array(Z_train, "Z_train", ndims=(2,)).shape[1]
    if width != scores.shape[1]:
        raise ChoqolateError(f"Z: expected the {width} columns of Z_train, got {scores.shape[1]}.")
    found = sparse_classifiers(W, Z_train, y_train, counts)
    return {k: float((one.predict(scores) == targets).mean()) for k, one in found.items()}


def sparse_classifiers(
    W: ArrayLike, Z: ArrayLike, y: ArrayLike, counts: Iterable[int] = NEC_COUNTS
) -> dict[int, SparseClassifier]:
    """A :func:`sparse_classifier` for each of several k; where there are no more concepts, they are the same one."""
    n_concepts = as_array(Z, "Z", ndims=(2,)).shape[1]
    found: dict[int, SparseClassifier] = {}
    made: dict[int, SparseClassifier] = {}
    for k in counts:
        few = min(_check_count(k), n_concepts)
        if few not in made:
            made[few] = sparse_classifier(W, Z, y, few)
        found[k] = made[few]
    return found


def anec(accuracies: Mapping[int, float]) -> float:
    """Average accuracy over numbers of effective concepts (ANEC), from what :func:`accuracy_at_nec` gives.

    Args:
        accuracies: for each number of concepts per class.
    Returns:
        Their mean; NaN if there are none.

    >>> anec({5: 0.5, 10: 0.7})
    0.6
    """
    return float(np.mean(list(accuracies.values()))) if accuracies else float("nan")


def _check_count(k: Any) -> int:
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise ChoqolateError(f"k: expected a whole number of at least 1, got {k!r}.")
    return int(k)


def _scores(W: ArrayLike, Z: ArrayLike) -> tuple[Floats, int]:
    """Scores that are as wide as the weights, or half as wide, and how wide they are."""
    width = np.atleast_2d(as_array(W, "W", ndims=(1, 2))).shape[1]
    scores = as_array(Z, "Z", ndims=(2,))
    n_concepts = scores.shape[1]
    if width not in (n_concepts, 2 * n_concepts):
        raise ChoqolateError(f"Z: expected {width} columns as in W, or half as many, got {n_concepts}.")
    return scores, n_concepts


def _indices(y: ArrayLike, name: str, n_rows: int, n_classes: int) -> NDArray[np.int64]:
    """Class indices, one for each row."""
    found = as_array(y, name, ndims=(1,))
    if len(found) != n_rows or (found % 1 != 0).any() or found.min() < 0 or found.max() >= n_classes:
        raise ChoqolateError(
            f"{name}: expected {n_rows} whole numbers from 0 to {n_classes - 1}, rows of W, got {len(found)} from "
            f"{found.min():g} to {found.max():g}."
        )
    return found.astype(np.int64)
