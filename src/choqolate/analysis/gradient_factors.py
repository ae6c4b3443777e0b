r"""Proposition 1 and Corollary 1: the gradient of one Choquet layer as a product of three factors.

A layer scores class r by :math:`C_r(u) = \langle w_r, \phi(u) \rangle`: :math:`\phi(u)` are the p inputs, the minima of
their pairs and the maxima, p² features in all, and :math:`w_r = \mathrm{softmax}(\theta_r)`. With a temperature T,

.. math:: \frac{\partial L}{\partial \theta_{ri}} = \frac{1}{T} (\hat y_r - y_r) \, w_{ri} \, (\phi_i(u) - C_r(u)),

the error, the weight and the deviation. Below, theta and w are ``(C, p²)`` in the paper's order: singles, minima,
maxima. Over a batch, the mean gradient never needs the deviations of all rows at once: the mean of error times
deviation is a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from choqolate.integral import PairwiseCapacity
from choqolate.integral.capacity import pair_indices
from choqolate.integral.operators import integrate_pairs
from choqolate.network.training import Objective

STEP = 2e-4
"""Of finite differences; their own error is about its square and rounding."""

_SINGLY = 8  # rows whose own gradient is checked
_MOVED = 200  # parameters that are moved for finite differences


class Factors(NamedTuple):
    """What a gradient is made of; the deviations are ``phi - values[:, r]``.

    Attributes:
        error: predicted minus true probabilities ``(n, C)``.
        weights: ``(C, p²)``.
        values: of the integrals ``(n, C)``.
        temperature: T.
    """

    error: Tensor
    weights: Tensor
    values: Tensor
    temperature: float


def features(u: Tensor) -> Tensor:
    """phi(u) ``(n, p²)``: the inputs ``(n, p)``, the minima of all pairs, the maxima of all pairs.

    >>> features(torch.tensor([[0.3, 0.1]]))
    tensor([[0.3000, 0.1000, 0.1000, 0.3000]])
    """
    j, l = pair_indices(u.shape[1])
    return torch.cat([u, torch.minimum(u[:, j], u[:, l]), torch.maximum(u[:, j], u[:, l])], dim=1)


def in_paper_order(matrices: Tensor) -> Tensor:
    """Parameters ``(..., C, p, p)`` as a layer holds them, as ``(..., C, p²)``."""
    return torch.cat(PairwiseCapacity(matrices, free=True).weights(), dim=-1)


def factors(theta: Tensor, phi: Tensor, targets: Tensor, temperature: float = 1.0) -> Factors:
    """The factors of the gradient in theta ``(C, p²)``, from features ``(n, p²)`` and class indices ``(n,)``."""
    weights = theta.softmax(-1)
    values = phi @ weights.T
    predicted = (values / temperature).softmax(-1)
    return Factors(predicted - F.one_hot(targets, len(theta)), weights, values, temperature)


def sample_gradients(parts: Factors, phi: Tensor) -> Tensor:
    """The gradient of the loss of each row ``(n, C, p²)``: the three factors, multiplied."""
    deviation = phi[:, None, :] - parts.values[:, :, None]
    return parts.error[:, :, None] * parts.weights * deviation / parts.temperature


def pull(parts: Factors, phi: Tensor) -> Tensor:
    """Minus the mean of error times deviation over T ``(C, p²)``: where each feature is drawn, whatever its weight.

    A parameter goes up where the pull on its feature is positive.
    """
    total = parts.error.T @ phi - (parts.error * parts.values).sum(0)[:, None]
    return -total / (len(phi) * parts.temperature)


def mean_gradient(parts: Factors, phi: Tensor) -> Tensor:
    """The gradient of the mean loss ``(C, p²)``."""
    return -parts.weights * pull(parts, phi)


def penalty_gradient(weights: Tensor, n_inputs: int, l1: float) -> Tensor:
    r"""The gradient ``(C, p²)`` of the penalty of Eq. (4), which the paper leaves out of its proof.

    .. math:: \lambda w_i (1[i \text{ is an interaction}] - m),

    where m is the weight of all interactions of the class: the indicator takes the place of the feature, m that of the
    integral. It pushes interactions down and single inputs up, in proportion to their weights, and knows no T.
    """
    interaction = (torch.arange(weights.shape[1]) >= n_inputs).to(weights)
    mass = weights @ interaction
    return l1 * weights * (interaction - mass[:, None])


# ---------------------------------------------------------------------- checks


def check_gradients(u: Tensor, targets: Tensor, temperature: float, l1: float = 0.0) -> dict[str, tuple[float, float]]:
    """Compare the formula with three other ways to the same gradient, for parameters drawn at random.

    *Autograd* differentiates softmax, inner product and cross-entropy as plain PyTorch. The *layer* is the library's
    own; its backward pass was written with Proposition 1 in mind and proves nothing about it, but must agree. *Finite
    differences* of the layer's loss know no calculus; they are taken for some parameters.

    Args:
        u: inputs ``(n, p)`` in [0, 1].
        targets: class indices ``(n,)``.
        temperature: T.
        l1: strength of the penalty.

    Returns:
        For each way the largest difference, absolute and relative to the largest gradient.
    """
    n_inputs, n_classes = u.shape[1], int(targets.max()) + 1
    generator = torch.Generator().manual_seed(0)
    matrices = torch.randn(n_classes, n_inputs, n_inputs, dtype=u.dtype, generator=generator)
    theta, phi, objective = in_paper_order(matrices), features(u), Objective(temperature, l1)

    def plain_loss(theta: Tensor, rows: slice = slice(None)) -> Tensor:
        weights = theta.softmax(-1)
        return F.cross_entropy(phi[rows] @ weights.T / temperature, targets[rows]) + l1 * weights[:, n_inputs:].sum()

    def layer_loss(matrices: Tensor) -> Tensor:
        values, mass = integrate_pairs(u, matrices, softmax=True)
        assert mass is not None
        return objective.fit_term(values[None], targets, torch.ones_like(u[:, 0])).sum() + l1 * mass.sum()

    def row_loss(row: int) -> Callable[[Tensor], Tensor]:
        return lambda theta: plain_loss(theta, slice(row, row + 1))

    parts = factors(theta, phi, targets, temperature)
    penalty = penalty_gradient(parts.weights, n_inputs, l1)
    ours, few = mean_gradient(parts, phi) + penalty, slice(_SINGLY)
    singly = sample_gradients(factors(theta, phi[few], targets[few], temperature), phi[few]) + penalty
    each = torch.stack([autograd(row_loss(row), theta) for row in range(len(singly))])
    places = torch.randperm(theta.numel(), generator=generator)[:_MOVED].tolist()
    matrix_of_places = in_paper_order(torch.arange(matrices.numel()).view_as(matrices)).view(-1)[places].tolist()
    return {
        "autograd, single rows": difference(singly, each),
        "autograd, mean of all rows": difference(ours, autograd(plain_loss, theta)),
        "the layer": difference(ours, in_paper_order(autograd(layer_loss, matrices))),
        "finite differences": difference(
            ours.view(-1)[places], finite_differences(layer_loss, matrices, matrix_of_places)
        ),
    }


def difference(ours: Tensor, other: Tensor) -> tuple[float, float]:
    """The largest difference, and the same over the largest of the other's values.

    >>> difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    (2.0, 0.5)
    """
    largest = float((ours - other).abs().max())
    return largest, largest / max(float(other.abs().max()), torch.finfo(other.dtype).tiny)


def autograd(loss: Callable[[Tensor], Tensor], theta: Tensor) -> Tensor:
    """The gradient of a loss as PyTorch finds it."""
    theta = theta.detach().requires_grad_()
    return torch.autograd.grad(loss(theta), theta)[0]


def finite_differences(loss: Callable[[Tensor], Tensor], theta: Tensor, places: Sequence[int]) -> Tensor:
    """Central differences of a loss in some of the parameters, counted through the flattened theta."""
    found = []
    for place in places:
        move = torch.zeros_like(theta).view(-1)
        move[place] = STEP
        found.append((loss(theta + move.view_as(theta)) - loss(theta - move.view_as(theta))) / (2 * STEP))
    return torch.stack(found)
