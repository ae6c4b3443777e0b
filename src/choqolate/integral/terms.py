"""The terms of one integral as lists, and the heaviest of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

_ROUNDING = 1e-12  # of a sum of weights that should be one


class Terms(NamedTuple):
    """Terms of one integral: weighted inputs, and weighted minima or maxima of two inputs.

    Attributes:
        first: the input, or the first of two, ``(T,)``.
        second: the second of two; equal to ``first`` for a single input.
        is_max: whether it is the maximum of two.
        weight: of the term.

    >>> a, b = torch.tensor([0.5, 0.1]), torch.tensor([0.4])
    >>> pair = Terms(torch.tensor([0]), torch.tensor([1]), torch.tensor([False]), b)
    >>> Terms.of_singles(a).and_also(pair).heaviest(2).weight
    tensor([0.5000, 0.4000])
    >>> Terms.of_singles(a).and_also(pair).values(torch.tensor([[0.2, 0.6]]))
    tensor([[0.2000, 0.6000, 0.2000]])
    """

    first: Tensor
    second: Tensor
    is_max: Tensor
    weight: Tensor

    @classmethod
    def of_singles(cls, a: Tensor) -> Terms:
        """The terms of weights ``a (M,)`` of single inputs."""
        inputs = torch.arange(len(a), device=a.device)
        return cls(inputs, inputs, torch.zeros_like(inputs, dtype=torch.bool), a)

    def values(self, u: Tensor) -> Tensor:
        """What the weights are multiplied by, ``(B, T)``, at inputs ``u (B, M)``."""
        return pair_values(u[:, self.first], u[:, self.second], self.is_max)

    def take(self, chosen: Tensor) -> Terms:
        """Some of the terms."""
        return Terms(*(part[chosen] for part in self))

    def and_also(self, others: Terms) -> Terms:
        """These terms, then others."""
        return Terms(*(torch.cat(parts) for parts in zip(self, others, strict=True)))

    def heaviest(self, most: int | None, mass: float = math.inf) -> Terms:
        """The heaviest terms by size, in that order: at most so many, and no more than hold the mass. No zeros."""
        size = self.weight.abs()
        n_left = int(torch.count_nonzero(size))
        n_left = n_left if most is None else min(most, n_left)
        if not n_left:
            return self.take(torch.arange(0, device=size.device))
        least = size.topk(n_left, sorted=False).values.min()
        found = torch.nonzero(size >= least)[:, 0]  # with ties, in the order in which they come
        ranked = found[size[found].sort(descending=True, stable=True).indices][:n_left]
        if mass < math.inf:
            ranked = ranked[: int(torch.searchsorted(size[ranked].cumsum(0), mass - _ROUNDING)) + 1]
        return self.take(ranked)


def pair_values(x: Tensor, y: Tensor, is_max: Tensor) -> Tensor:
    """The minimum or, where ``is_max``, the maximum of two."""
    return torch.where(is_max, torch.maximum(x, y), torch.minimum(x, y))
