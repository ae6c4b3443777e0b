"""The pairwise integral and its gradients on plain tensors: by the native kernel, or by blocks of PyTorch operations.

Shapes: inputs ``u (B, M)``; ``weights (N, M, M)`` or, with ``softmax``, the parameters whose softmax they are;
gradients ``g (B, N)`` of the values and ``g_mass (N,)`` of the mass. All tensors may have a leading axis of stacks.
Nothing is checked here.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from choqolate.integral import blocked, native
from choqolate.integral.formula import pair_mass
from choqolate.integral.precision import without_autocast


def empty_outputs(u: Tensor, weights: Tensor, softmax: bool) -> tuple[Tensor, Tensor, Tensor]:
    """What :func:`integrate` returns, not filled; without a softmax, mass and scale have no elements."""
    stacks, nodes = weights.shape[:-3], weights.shape[-3]
    values = u.new_empty(*u.shape[:-1], nodes)
    return values, u.new_empty(*stacks, nodes * softmax), u.new_empty(*stacks, nodes * softmax, 2)


def integrate(u: Tensor, weights: Tensor, softmax: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Values ``(B, N)``; of a softmax also the pairs' mass ``(N,)`` and the scale ``(N, 2)``: maximum and 1 / sum."""
    outputs = empty_outputs(u, weights, softmax)
    if native.serves(u):
        native.integrate(u, weights, softmax, *outputs)
        return outputs
    with without_autocast(u):
        if not softmax:
            return _by_stack(blocked.integrate, u, weights), *outputs[1:]
        largest = weights.amax((-1, -2))
        w = (weights - largest[..., None, None]).exp_()
        factor = 1 / w.sum((-1, -2))
        w *= factor[..., None, None]
        return _by_stack(blocked.integrate, u, w), pair_mass(w), torch.stack([largest, factor], -1)


def input_gradient(u: Tensor, weights: Tensor, softmax: bool, scale: Tensor, g: Tensor) -> Tensor:
    """Gradient ``(B, M)`` of the inputs."""
    if native.serves(u):
        return native.input_gradient(u, weights, softmax, scale, g)
    with without_autocast(u):
        return _by_stack(blocked.input_gradient, u, _rescaled(weights, scale) if softmax else weights, g)


def weight_gradient(
    u: Tensor,
    weights: Tensor,
    softmax: bool,
    scale: Tensor,
    values: Tensor,
    mass: Tensor,
    g: Tensor,
    g_mass: Tensor | None,
) -> Tensor:
    """Gradient ``(N, M, M)`` of the weights, or of the parameters whose softmax they are."""
    if native.serves(u):
        return native.weight_gradient(u, weights, softmax, scale, values, mass, g, g_mass)
    with without_autocast(u):
        if not softmax:
            return _by_stack(blocked.weight_gradient, u, weights, g)
        w = _rescaled(weights, scale)
        # the integral is linear in w, so the mean of its gradient under w is its value; 1 - mass is linear too
        mean = (g * values).sum(-2)
        if g_mass is not None:
            mean -= g_mass * (1 - mass)
        grad = _by_stack(blocked.weight_gradient, u, w, g, mean)
        if g_mass is not None:
            own = w.diagonal(dim1=-2, dim2=-1)
            grad.diagonal(dim1=-2, dim2=-1).addcmul_(own, g_mass[..., None], value=-1)
        return grad


def _by_stack(compute: Callable[..., Tensor], u: Tensor, *others: Tensor) -> Tensor:
    """A function of one stack, called for each of them."""
    if u.ndim == 2:
        return compute(u, *others)
    return torch.stack([compute(*parts) for parts in zip(u, *others, strict=True)])


def _rescaled(theta: Tensor, scale: Tensor) -> Tensor:
    """The softmax again, from its scale."""
    largest, factor = scale.unbind(-1)
    return (theta - largest[..., None, None]).exp_().mul_(factor[..., None, None])
