"""The 2-additive Choquet integral as pure functions of its weights a, b and c.

Throughout, ``a`` is ``(N, p)`` or ``(p,)``; ``b`` (min) and ``c`` (max) are ``(N, p(p-1)/2)`` or ``(p(p-1)/2,)`` with
the pairs in the order of ``torch.triu_indices(p, p, 1)``: (0, 1), (0, 2), ..., (p-2, p-1).
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from choqolate.errors import ChoqolateError
from choqolate.integral.capacity import pair_indices
from choqolate.integral.pairwise import PairwiseCapacity


class Moebius(NamedTuple):
    """Möbius transform of 2-additive capacities: ``singles (N, p)`` and ``pairs (N, p(p-1)/2)``."""

    singles: Tensor
    pairs: Tensor


def choquet(u: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    r"""The 2-additive Choquet integral, Eq. (2).

    .. math:: C(u) = \sum_j a_j u_j + \sum_{j<l} b_{jl} \min(u_j, u_l) + c_{jl} \max(u_j, u_l)

    Args:
        u: inputs ``(..., p)``.
        a, b, c: weights of N integrals, or of one.

    Returns:
        ``(..., N)``, or ``(...)`` for the weights of one integral. Differentiable in all four arguments.

    Raises:
        ChoqolateError: if the numbers of inputs, weights and pairs do not fit.

    >>> u = torch.tensor([0.2, 0.6])
    >>> choquet(u, torch.tensor([0.5, 0.0]), torch.tensor([0.25]), torch.tensor([0.25]))
    tensor(0.3000)
    """
    a, b, c = _check_weights(a, b, c)
    _check_inputs("u", u, a)
    values = _capacity(a, b, c).integrate(u.reshape(-1, u.shape[-1]))
    return values.reshape((*u.shape[:-1], *a.shape[:-1]))


def shapley_values(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    r"""Shapley values, Eq. (3): :math:`\mathrm{Shap}(j) = a_j + \frac12 \sum_{l \ne j} (b_{jl} + c_{jl})`.

    Returns:
        ``(N, p)`` or ``(p,)``; each row sums to the sum of the weights, one for a valid integral.

    >>> shapley_values(torch.tensor([0.5, 0.0]), torch.tensor([0.25]), torch.tensor([0.25]))
    tensor([0.7500, 0.2500])
    """
    a, b, c = _check_weights(a, b, c)
    return _add_to_members(a, 0.5 * (b + c))


def local_shapley_values(u: Tensor, baseline: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    r"""Exact Shapley values of one input's change from a baseline.

    With :math:`x` the baseline and :math:`y` the input, a pair term f gives its member j
    :math:`\frac12 [f(y_j, x_l) - f(x_j, x_l) + f(y_j, y_l) - f(x_j, y_l)]`, the linear term :math:`a_j (y_j - x_j)`.

    Args:
        u: inputs ``(..., p)``.
        baseline: ``(p,)``, or of the shape of u.
        a, b, c: weights of N integrals, or of one.

    Returns:
        ``(..., N, p)``, or ``(..., p)`` for the weights of one integral, summing over p to
        ``choquet(u) - choquet(baseline)``.

    >>> weights = torch.tensor([[0.5, 0.0]]), torch.tensor([[0.25]]), torch.tensor([[0.25]])
    >>> local_shapley_values(torch.tensor([[0.2, 0.6]]), torch.zeros(2), *weights)
    tensor([[[0.1500, 0.1500]]])
    """
    a, b, c = _check_weights(a, b, c)
    _check_inputs("u", u, a)
    _check_inputs("baseline", baseline, a)
    flat, start = (x.reshape(-1, u.shape[-1]) for x in (u, baseline.expand_as(u)))
    values = _capacity(a, b, c).local_shapley(flat, start)
    return values.reshape((*u.shape[:-1], *a.shape))


def moebius_transform(a: Tensor, b: Tensor, c: Tensor) -> Moebius:
    r"""Möbius transform: :math:`m(\{j\}) = a_j + \sum_l c_{jl}`, :math:`m(\{j, l\}) = b_{jl} - c_{jl}`, else 0.

    The capacity of a set S is the sum of m over the subsets of S, and
    :math:`C(u) = \sum_{T} m(T) \min_{j \in T} u_j`.

    >>> moebius_transform(torch.tensor([0.5, 0.0]), torch.tensor([0.2]), torch.tensor([0.3]))
    Moebius(singles=tensor([0.8000, 0.3000]), pairs=tensor([-0.1000]))
    """
    a, b, c = _check_weights(a, b, c)
    return Moebius(_add_to_members(a, c), b - c)


def interaction_indices(b: Tensor, c: Tensor) -> Tensor:
    r"""Interaction index of each pair, :math:`I_{jl} = b_{jl} - c_{jl} \in [-1, 1]`.

    Positive: complementary, the pair counts where both are high. Negative: substitutable, one of them is enough.
    For a 2-additive capacity this is the Shapley interaction index and the Möbius transform of the pair at once.

    >>> interaction_indices(torch.tensor([0.2]), torch.tensor([0.3]))
    tensor([-0.1000])
    """
    if b.shape != c.shape:
        raise ChoqolateError(f"expected b and c of one shape, got {tuple(b.shape)} and {tuple(c.shape)}")
    return b - c


def canonical_form(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""The same integral with :math:`\min(b_{jl}, c_{jl}) = 0` for each pair.

    Since min + max = sum, equal amounts of b and c are no interaction at all; they move to a_j and a_l.
    The integral's values and Shapley values stay the same, and two sets of weights of the same integral
    have the same canonical form.

    >>> canonical_form(torch.tensor([0.5, 0.0]), torch.tensor([0.25]), torch.tensor([0.25]))
    (tensor([0.7500, 0.2500]), tensor([0.]), tensor([0.]))
    """
    a, b, c = _check_weights(a, b, c)
    common = torch.minimum(b, c)
    return _add_to_members(a, common), b - common, c - common


def capacity_table(a: Tensor, b: Tensor, c: Tensor) -> dict[tuple[int, ...], float]:
    r"""The capacity of every subset of the inputs of one integral, for small p (2^p subsets).

    :math:`\mu(S) = \sum_{j \in S} m(\{j\}) + \sum_{\{j,l\} \subseteq S} m(\{j, l\})` with the Möbius transform m.

    >>> table = capacity_table(torch.tensor([0.5, 0.0]), torch.tensor([0.25]), torch.tensor([0.25]))
    >>> {subset: round(value, 4) for subset, value in table.items()}
    {(): 0.0, (0,): 0.75, (1,): 0.25, (0, 1): 1.0}
    """
    a, b, c = _check_weights(a, b, c)
    p = a.shape[-1]
    if a.ndim != 1 or p > 20:
        raise ChoqolateError(f"expected the weights of one integral over at most 20 inputs, got a of {tuple(a.shape)}")
    singles, pairs = moebius_transform(a, b, c)
    pair_mass = dict(zip(combinations(range(p), 2), pairs.tolist(), strict=True))
    mass = singles.tolist()
    return {
        subset: sum((mass[j] for j in subset), 0.0) + sum(pair_mass[pair] for pair in combinations(subset, 2))
        for size in range(p + 1)
        for subset in combinations(range(p), size)
    }


def _add_to_members(a: Tensor, pair_values: Tensor) -> Tensor:
    """``a_j`` plus the values of all pairs that j is a member of."""
    j, l = pair_indices(a.shape[-1], a.device)
    return a.index_add(-1, j, pair_values).index_add(-1, l, pair_values)


def _capacity(a: Tensor, b: Tensor, c: Tensor) -> PairwiseCapacity:
    return PairwiseCapacity.from_weights(*((a[None], b[None], c[None]) if a.ndim == 1 else (a, b, c)))


def _check_inputs(name: str, u: Tensor, a: Tensor) -> None:
    if not isinstance(u, Tensor) or u.dtype != a.dtype:
        came = u.dtype if isinstance(u, Tensor) else type(u).__name__
        raise ChoqolateError(f"expected {name} to be a tensor of {a.dtype} like the weights, got {came}")
    if u.shape[-1:] != a.shape[-1:]:
        raise ChoqolateError(
            f"expected {name} of shape (..., {a.shape[-1]}) to match a of shape {tuple(a.shape)}, got {tuple(u.shape)}"
        )


def _check_weights(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    dtypes = [x.dtype if isinstance(x, Tensor) else type(x).__name__ for x in (a, b, c)]
    if not (dtypes[0] == dtypes[1] == dtypes[2] and isinstance(a, Tensor) and a.is_floating_point()):
        came = ", ".join(map(str, dtypes))
        raise ChoqolateError(f"expected a, b and c to be floating tensors of one type, got {came}: use torch.as_tensor")
    p = a.shape[-1] if a.ndim else 0
    expected = (*a.shape[:-1], p * (p - 1) // 2)
    if a.ndim not in (1, 2) or b.shape != expected or c.shape != expected:
        raise ChoqolateError(
            "expected a of shape (N, p) or (p,), b and c of shape (N, p(p-1)/2) or (p(p-1)/2,); "
            f"got a {tuple(a.shape)}, b {tuple(b.shape)}, c {tuple(c.shape)}: for this a, b and c must be {expected}"
        )
    return a, b, c
