r"""The pairwise integral as one formula of ordinary PyTorch operations.

.. math:: C(u) = \sum_j \mathrm{Shap}_j\, u_j + \frac12 \sum_{j<l} (c_{jl} - b_{jl})\, |u_j - u_l|

It takes memory for ``B * M^2`` differences, and PyTorch can differentiate it any number of times and in either
direction. So it serves few inputs, derivatives of derivatives, and forward-mode derivatives.
"""

from __future__ import annotations

import torch
from torch import Tensor

from choqolate.integral.precision import without_autocast
from choqolate.integral.tensor_cache import kept


def pairwise_values(u: Tensor, w: Tensor) -> Tensor:
    """Values ``(..., B, N)`` of the integrals with weight matrices ``w (..., N, M, M)`` at ``u (..., B, M)``.

    >>> w = torch.tensor([[[0.5, 0.2], [0.3, 0.0]]])  # a = (0.5, 0), b = 0.2, c = 0.3
    >>> pairwise_values(torch.tensor([[1.0, 0.0]]), w)  # 0.5 * 1 + 0.2 * min + 0.3 * max
    tensor([[0.8000]])
    """
    with without_autocast(u):
        return _combine(u, (u[..., :, None] - u[..., None, :]).abs(), w)


def pairwise_tangent(u: Tensor, w: Tensor, du: Tensor) -> Tensor:
    """Derivative ``(..., B, N)`` of :func:`pairwise_values` at ``u`` in the direction ``du``."""
    with without_autocast(u):
        order = (u[..., :, None] - u[..., None, :]).sign()
        return _combine(du, order * (du[..., :, None] - du[..., None, :]), w)


def softmax_weights(theta: Tensor) -> Tensor:
    """The weights ``(..., N, M, M)``: a softmax over all M^2 parameters of an integral."""
    return _flat(theta).softmax(-1).view(theta.shape)


def pair_mass(w: Tensor) -> Tensor:
    """Weight on pairs ``(..., N)``, of weights that sum to one."""
    return 1 - w.diagonal(dim1=-2, dim2=-1).sum(-1)


def _combine(singles: Tensor, differences: Tensor, w: Tensor) -> Tensor:
    shapley = (w.sum(-1) + w.sum(-2)) * 0.5
    signed = w * _signs(w.shape[-1], w.dtype, w.device)
    return singles @ shapley.transpose(-1, -2) + _flat(differences) @ _flat(signed).transpose(-1, -2)


def _flat(x: Tensor) -> Tensor:
    """``(..., M, M)`` as ``(..., M^2)``; ``flatten`` has no batching rule for forward-mode derivatives."""
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


@kept(maxsize=8)
def _signs(n_inputs: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The factor of ``|u_j - u_l|`` in each cell of w: -1/2 for a minimum, 1/2 for a maximum, 0 on the diagonal."""
    ones = torch.ones(n_inputs, n_inputs, dtype=dtype, device=device)
    return (ones.tril(-1) - ones.triu(1)) * 0.5
