"""Pairwise capacities: every weight of the paper's integral, M^2 per node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from choqolate.integral.capacity import Capacity, mass_of_touched, pair_indices
from choqolate.integral.formula import pair_mass
from choqolate.integral.operators import integrate_pairs
from choqolate.integral.tensor_cache import kept
from choqolate.integral.terms import Terms

_INVOLVEMENT_VALUES = 1 << 22  # features held at a time
_SHAPLEY_VALUES = 1 << 18  # the same, few enough for the caches of a processor


@dataclass(frozen=True)
class PairwiseCapacity(Capacity):
    r"""``N`` full 2-additive capacities; ``w`` is ``(..., N, M, M)``, leading axes are separate stacks.

    A node has :math:`M + 2 \binom M2 = M^2` weights, which fill a matrix: ``a`` on the diagonal, ``b`` (min, pairs
    j < l) above it, ``c`` (max) below it, at row l and column j. ``free`` marks weights that are not on the simplex;
    removal then sets to zero and does not rescale.

    >>> w = torch.tensor([[[0.5, 0.2], [0.3, 0.0]]])  # a = (0.5, 0), b = 0.2, c = 0.3
    >>> PairwiseCapacity(w).integrate(torch.tensor([[1.0, 0.0]]))  # 0.5 * 1 + 0.2 * min + 0.3 * max
    tensor([[0.8000]])
    >>> PairwiseCapacity(w).shapley()
    tensor([[0.7500, 0.2500]])
    """

    w: Tensor
    free: bool = False

    @classmethod
    def from_weights(cls, a: Tensor, b: Tensor, c: Tensor) -> PairwiseCapacity:
        """From ``a (N, M)``, ``b`` and ``c`` ``(N, M(M-1)/2)``, pairs ordered as ``torch.triu_indices(M, M, 1)``."""
        n_inputs = a.shape[-1]
        cells = _cell_of_weight(n_inputs).to(a.device)
        return cls(torch.cat([a, b, c], dim=-1)[..., cells].unflatten(-1, (n_inputs, n_inputs)))

    @property
    def shape(self) -> tuple[int, int]:
        return self.w.shape[-3], self.w.shape[-1]

    def integrate(self, u: Tensor) -> Tensor:
        return integrate_pairs(u, self.w, softmax=False)[0]

    def shapley(self) -> Tensor:
        return (self.w.sum(-1) + self.w.sum(-2)) * 0.5

    def singles(self) -> Tensor:
        return self.w.diagonal(dim1=-2, dim2=-1)

    def pairs(self, rows: slice | Tensor) -> tuple[Tensor, Tensor]:
        j = torch.arange(self.shape[1], device=self.w.device)
        right_of = j[rows, None] < j  # the pair's first member is the row
        same = j[rows, None] == j
        upright, transposed = self.w[..., rows, :], self.w.mT[..., rows, :]
        b = torch.where(right_of, upright, transposed).masked_fill(same, 0.0)
        c = torch.where(right_of, transposed, upright).masked_fill(same, 0.0)
        return b, c

    def pairs_between(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        low, high = torch.minimum(first, second), torch.maximum(first, second)
        return self.w[..., low, high], self.w[..., high, low]

    def interaction_mass(self) -> Tensor:
        if self.free:
            return self.w.abs().sum((-1, -2)) - self.singles().abs().sum(-1)
        return pair_mass(self.w)

    def involvement(self, u: Tensor, v: Tensor) -> Tensor:
        n_nodes, n_inputs = self.shape
        out = u.new_empty(len(u), n_nodes, n_inputs)
        step = max(1, _INVOLVEMENT_VALUES // max(1, n_inputs * len(u)))
        for start in range(0, n_inputs, step):
            rows = slice(start, start + step)
            b, c = self.pairs(rows)
            at, others = v[:, rows].T[:, :, None], u[None]  # (rows, B, 1) against (1, B, M)
            values = torch.minimum(at, others) @ b.permute(1, 2, 0) + torch.maximum(at, others) @ c.permute(1, 2, 0)
            out[:, :, rows] = values.permute(1, 2, 0)
        return out.add_(self.singles() * v[:, None, :])

    def local_shapley(self, u: Tensor, baseline: Tensor) -> Tensor:
        # a maximum is the sum less the minimum, so that four minima are left of the four involvements:
        # with d = b - c and m the minimum, it is (a_j + sum_l c_jl) (y_j - x_j)
        # + 1/2 sum_l d_jl [m(y_j, y_l) + m(y_j, x_l) - m(x_j, y_l) - m(x_j, x_l)]
        n_nodes, n_inputs = self.shape
        baseline, out = torch.atleast_2d(baseline), u.new_empty(len(u), n_nodes, n_inputs)
        n_rows = max(1, min(len(u), _SHAPLEY_VALUES // n_inputs))
        n_columns = max(1, _SHAPLEY_VALUES // (n_inputs * n_rows))
        for start in range(0, n_inputs, n_columns):
            columns = slice(start, start + n_columns)
            b, c = self.pairs(columns)
            linear, difference = self.singles()[:, columns] + c.sum(-1), (b - c).permute(1, 2, 0).mul_(0.5)
            for first in range(0, len(u), n_rows):
                rows = slice(first, first + n_rows)
                y, x = u[rows], baseline if len(baseline) == 1 else baseline[rows]
                y_own, x_own = y[:, columns], x[:, columns]
                minima = torch.minimum(y_own.T[:, :, None], y)  # (columns, B, M)
                minima.add_(torch.minimum(y_own.T[:, :, None], x)).sub_(torch.minimum(x_own.T[:, :, None], y))
                minima.sub_(torch.minimum(x_own.T[:, :, None], x))
                out[rows, :, columns] = (minima @ difference).permute(1, 2, 0)
                out[rows, :, columns] += linear * (y_own - x_own)[:, None]
        return out

    def without(self, removed: Tensor, *, canonical: bool = False) -> tuple[PairwiseCapacity, Tensor]:
        freed = None
        if canonical:
            upper = self.w.triu(1)
            common = torch.minimum(upper, self.w.tril(-1).mT)  # min(b, c) above the diagonal
            common = common + common.mT
            freed = (common * removed[:, None, :].to(common.dtype)).sum(-1).masked_fill(removed, 0.0)
        return self._multiplied((~removed).to(self.w.dtype), freed)

    def reweighted(self, factors: Tensor) -> tuple[PairwiseCapacity, Tensor]:
        return self._multiplied(factors)

    def _multiplied(self, factors: Tensor, freed: Tensor | None = None) -> tuple[PairwiseCapacity, Tensor]:
        """The weights times the factors of their inputs, rescaled; ``freed (N, M)`` is added to the single weights."""
        kept = self.w * factors[:, :, None] * factors[:, None, :]
        singles = self.singles() * factors
        kept.diagonal(dim1=1, dim2=2).copy_(singles if freed is None else singles + freed)
        if self.free:
            return PairwiseCapacity(kept, free=True), kept.abs().sum((-1, -2)) / self.w.abs().sum((-1, -2))
        retained = mass_of_touched(kept.sum((-1, -2)), factors)
        return PairwiseCapacity(kept / retained[:, None, None]), retained

    def select(self, nodes: Sequence[int] | slice | Tensor) -> PairwiseCapacity:
        return PairwiseCapacity(self.w[nodes], self.free)

    def terms(self, node: int, most: int | None = None, mass: float = math.inf) -> Terms:
        cells = torch.arange(self.shape[1], device=self.w.device)
        row, column = cells[:, None].expand_as(self.w[node]), cells.expand_as(self.w[node])
        cell_terms = torch.minimum(row, column), torch.maximum(row, column), row > column, self.w[node]
        return Terms(*(part.flatten() for part in cell_terms)).heaviest(most, mass)

    def n_terms(self) -> Tensor:
        return torch.count_nonzero(self.w, dim=(-1, -2))


@kept(maxsize=8)
def _cell_of_weight(n_inputs: int) -> Tensor:
    """For each cell of the flattened matrix, the index of its weight in (a, b, c)."""
    j, l = pair_indices(n_inputs)
    n_pairs = len(j)
    cells = torch.empty(n_inputs, n_inputs, dtype=torch.long)
    cells.diagonal().copy_(torch.arange(n_inputs))
    cells[j, l] = n_inputs + torch.arange(n_pairs)
    cells[l, j] = n_inputs + n_pairs + torch.arange(n_pairs)
    return cells.flatten()
