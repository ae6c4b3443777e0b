"""Additive capacities: weighted means, no interactions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from choqolate.integral.capacity import Capacity, mass_of_touched
from choqolate.integral.terms import Terms


@dataclass(frozen=True)
class AdditiveCapacity(Capacity):
    r"""``N`` weighted means :math:`C(u) = \sum_j a_j u_j`; ``a`` is ``(..., N, M)``, leading axes are separate stacks.

    ``free`` marks weights that are not on the simplex; removal then sets to zero and does not rescale.

    >>> import torch
    >>> AdditiveCapacity(torch.tensor([[0.25, 0.75]])).integrate(torch.tensor([[1.0, 0.0]]))
    tensor([[0.2500]])
    """

    a: Tensor
    free: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.a.shape[-2], self.a.shape[-1]

    def integrate(self, u: Tensor) -> Tensor:
        return u @ self.a.mT

    def shapley(self) -> Tensor:
        return self.a

    def singles(self) -> Tensor:
        return self.a

    def pairs(self, rows: slice | Tensor) -> tuple[Tensor, Tensor]:
        n_rows = len(torch.arange(self.shape[1])[rows])
        nothing = self.a.new_zeros(*self.a.shape[:-1], n_rows, self.shape[1])
        return nothing, nothing.clone()

    def pairs_between(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        nothing = self.a.new_zeros(*self.a.shape[:-1], len(first))
        return nothing, nothing.clone()

    def integrate_common(self, u: Tensor) -> Tensor:
        return u.new_zeros(len(u), *self.shape)

    def interaction_mass(self) -> Tensor:
        return self.a.new_zeros(self.a.shape[:-1])

    def involvement(self, u: Tensor, v: Tensor) -> Tensor:
        return self.a * v[:, None, :]

    def without(self, removed: Tensor, *, canonical: bool = False) -> tuple[AdditiveCapacity, Tensor]:
        return self.reweighted((~removed).to(self.a.dtype))

    def reweighted(self, factors: Tensor) -> tuple[AdditiveCapacity, Tensor]:
        kept = self.a * factors
        if self.free:
            return replace(self, a=kept), kept.abs().sum(-1) / self.a.abs().sum(-1)
        retained = mass_of_touched(kept.sum(-1), factors)
        return replace(self, a=kept / retained[:, None]), retained

    def select(self, nodes: Sequence[int] | slice | Tensor) -> AdditiveCapacity:
        return replace(self, a=self.a[nodes])

    def terms(self, node: int, most: int | None = None, mass: float = math.inf) -> Terms:
        return Terms.of_singles(self.a[node]).heaviest(most, mass)

    def n_terms(self) -> Tensor:
        return torch.count_nonzero(self.a, dim=-1)
