"""How much of a node is interaction."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from choqolate.errors import ChoqolateError
from choqolate.metrics.arrays import Floats, as_array


def interaction_mass(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Floats:
    r"""Share of each node's weight that is on pairs of concepts: neither Gini nor Shapley values show it.

    .. math:: \frac{\sum_{j<l} |b_{jl}| + |c_{jl}|}{\sum_j |a_j| + \sum_{j<l} |b_{jl}| + |c_{jl}|} \in [0, 1]

    At 0 a node is a weighted mean of concepts, at 1 it consists of minima and maxima alone. The weights of a capacity
    sum to one, and so does the denominator. A node without any weight: NaN. The share depends on how an integral is
    written down, since the minimum and the maximum of a pair add up to its sum: see :func:`choqolate.canonical_form`.

    Args:
        a: Weights of single concepts, shape (N, M), giving shape (N,); or of one node, shape (M,), giving a scalar.
        b: Weights of minima, shape (N, M(M-1)/2) or (M(M-1)/2,), as ``ChoquetLayer.weights()`` gives them.
        c: Weights of maxima, of the same shape.
    Raises:
        ChoqolateError: If shapes do not match, or something is not finite.

    >>> interaction_mass([[0.5, 0.5], [0.2, 0.3]], [[0.0], [0.1]], [[0.0], [0.4]])
    array([0. , 0.5])
    """
    singles = as_array(a, "a", ndims=(1, 2))
    m = singles.shape[-1]
    shape = (*singles.shape[:-1], m * (m - 1) // 2)
    pairs = np.zeros(shape[:-1])
    for name, weights in (("b", b), ("c", c)):
        given = np.asarray(weights.detach().cpu() if hasattr(weights, "detach") else weights)
        if given.shape != shape:
            raise ChoqolateError(f"{name}: expected shape {shape}, a weight for each pair, got {given.shape}.")
        if given.size:
            pairs = pairs + np.abs(as_array(given, name, ndims=(1, 2))).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        mass: Floats = pairs / (np.abs(singles).sum(axis=-1) + pairs)
    return mass
