"""Whether the nodes of a model recur in other runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from choqolate.errors import ChoqolateError
from choqolate.metrics.arrays import Floats, as_array, relative_sizes, unit_rows

RECURS = 0.8  # cosine of the attributions from which a node of another run is the same one


class NodeRecurrence(NamedTuple):
    """How often the nodes of R runs are found again in the other runs.

    Attributes:
        recurrence: share of the other runs in which each node recurs ``(R, N)``; NaN for a node without any weight.
        similarity: mean cosine of each node with its partners in the other runs ``(R, N)``; NaN for the same nodes.
    """

    recurrence: Floats
    similarity: Floats


def node_recurrence(runs: Iterable[ArrayLike], cosine: float = RECURS) -> NodeRecurrence:
    r"""How often each node of each run recurs in the other runs.

    Nodes of two runs are paired one to one such that the sum of cosines is largest, see :func:`match_nodes`. With
    :math:`\pi_{rs}(n)` the partner in run s of node n of run r,

    .. math:: \frac{1}{R - 1} \sum_{s \ne r} \mathbf{1}[\cos(|w^r_n|, |w^s_{\pi_{rs}(n)}|) \ge t]

    Args:
        runs: attributions of the nodes of each run, shape (N, M), the same in all. Signs are ignored.
        cosine: t, from which on two nodes are the same one.
    Returns:
        For each node of each run, in how many of the others it recurs, as a share, and the mean cosine with its
        partners. The mean of ``recurrence`` over the nodes that have weights is the share of nodes that recur in
        another run.
    Raises:
        ChoqolateError: if there are fewer than two runs, their shapes differ, or something is not finite.

    >>> found = node_recurrence([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [3.0, 0.0]], [[1.0, 0.0], [1.0, 1.0]]])
    >>> found.recurrence
    array([[1. , 0.5],
           [0.5, 1. ],
           [1. , 0. ]])
    """
    shares = [as_array(W, "runs", ndims=(2,)) for W in runs]
    if len(shares) < 2:
        raise ChoqolateError(f"runs: expected at least two runs to compare, got {len(shares)}; train more seeds.")
    if len({own.shape for own in shares}) > 1:
        shapes = ", ".join(str(own.shape) for own in shares)
        raise ChoqolateError(f"runs: expected the same number of nodes and concepts in all, got {shapes}.")
    cosines = np.stack(
        [[match_nodes(one, other)[2] for j, other in enumerate(shares) if j != i] for i, one in enumerate(shares)]
    )
    used = np.array([own.any(axis=1) for own in shares])
    return NodeRecurrence(
        np.where(used, (cosines >= cosine).mean(axis=1), np.nan), np.where(used, cosines.mean(axis=1), np.nan)
    )


def match_nodes(one: ArrayLike, other: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Pair the nodes of two models one to one, so that the sum of cosines is the largest (the Hungarian method).

    Args:
        one, other: Attributions, shapes (N, M) and (N', M). Signs are ignored.
    Returns:
        Nodes of the first model, in order, their partners, and their cosines, each of shape (min(N, N'),).
    Raises:
        ChoqolateError: If the numbers of concepts differ, or something is not finite.

    >>> match_nodes([[1.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [3.0, 0.0]])
    (array([0, 1]), array([1, 0]), array([1., 1.]))
    """
    first, second = (unit_rows(np.atleast_2d(relative_sizes(W))) for W in (one, other))
    if first.shape[1] != second.shape[1]:
        raise ChoqolateError(f"other: expected {first.shape[1]} columns as in one, got {second.shape[1]}.")
    cosines = first @ second.T
    rows, columns = linear_sum_assignment(-cosines)
    return rows, columns, cosines[rows, columns]
