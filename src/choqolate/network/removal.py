"""How concepts are removed from nodes (CHOQ-PCR) and reweighted: the modes, exactly and for every concept alone.

Everything here works on scaled inputs ``u (B, M)``, on nodes and on inputs by index; names and the history of edits
belong to :mod:`choqolate.network.fitted`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from choqolate.integral import AdditiveCapacity, Capacity, PairwiseCapacity
from choqolate.integral.capacity import as_shares

MODES = ("rescale", "canonical", "impute")
CANCELLATION = 1e-6  # retained mass below which 1 - mass loses too many digits


@dataclass(frozen=True)
class Nodes:
    """The first layer after edits: its capacities, and the inputs that each node sees frozen at their mean.

    Attributes:
        capacity: ``N`` capacities over ``M`` inputs.
        frozen: mask ``(N, M)``.
        means: training means of the inputs ``(M,)``.
    """

    capacity: Capacity
    frozen: Tensor
    means: Tensor

    @classmethod
    def unedited(cls, capacity: Capacity, means: Tensor) -> Nodes:
        return cls(capacity, torch.zeros(capacity.shape, dtype=torch.bool), means)

    def remove(self, removed: Tensor, mode: str) -> tuple[Nodes, Tensor]:
        """The nodes without the inputs in the mask ``(N, M)``, and the mass ``(N,)`` that was not zeroed in each."""
        if mode == "impute":
            return Nodes(self.capacity, self.frozen | removed, self.means), torch.ones(
                len(removed), dtype=self.means.dtype
            )
        capacity, retained = self.capacity.without(removed, canonical=mode == "canonical")
        return Nodes(capacity, self.frozen, self.means), retained

    def reweight(self, factors: Tensor) -> tuple[Nodes, Tensor]:
        """The nodes with inputs that count by the factors ``(N, M)``, and the mass ``(N,)`` before rescaling."""
        capacity, mass = self.capacity.reweighted(factors)
        return Nodes(capacity, self.frozen, self.means), mass

    def values(self, u: Tensor) -> Tensor:
        """Node values ``(B, N)``."""
        out = u.new_empty(len(u), self.capacity.shape[0])
        for nodes, capacity, seen in self.views(u):
            out[:, nodes] = capacity.integrate(seen)
        return out

    def moving_mass(self) -> Tensor:
        """Mass ``(N,)`` of the terms that involve nothing frozen."""
        if not self.frozen.any():
            return torch.ones(len(self.frozen), dtype=self.means.dtype)
        return self.capacity.without(self.frozen)[1]

    def attributions(self) -> Tensor:
        """Shares ``(N, M)``, zero for what is frozen; rows sum to one unless all that has weight is frozen."""
        return as_shares(self.capacity.attributions().masked_fill(self.frozen, 0.0))

    def local_shapley(self, u: Tensor, baseline: Tensor) -> Tensor:
        """Exact attributions ``(B, N, M)`` of each node's change from the baseline ``(B, M)``."""
        out = u.new_empty(len(u), *self.capacity.shape)
        for nodes, capacity, seen in self.views(u):
            start = torch.where(self.frozen[nodes[0]], self.means, baseline)
            out[:, nodes] = capacity.local_shapley(seen, start)
        return out

    def views(self, u: Tensor) -> Iterator[tuple[Tensor, Capacity, Tensor]]:
        """Nodes that see the same inputs frozen: their indices, their capacities, and the inputs as they see them."""
        for nodes, capacity, frozen in self.groups():
            yield nodes, capacity, torch.where(frozen, self.means, u) if frozen.any() else u

    def groups(self) -> Iterator[tuple[Tensor, Capacity, Tensor]]:
        """Nodes that see the same inputs frozen: their indices, their capacities, and the mask ``(M,)`` of these."""
        if not self.frozen.any():
            yield torch.arange(self.capacity.shape[0]), self.capacity, self.frozen[0]
            return
        patterns, member_of = self.frozen.unique(dim=0, return_inverse=True)
        for index, pattern in enumerate(patterns):
            nodes = torch.nonzero(member_of == index)[:, 0]
            yield nodes, self.capacity.select(nodes), pattern


def values_without_each(nodes: Nodes, u: Tensor, groups: Sequence[Sequence[int]], mode: str) -> Tensor:
    r"""Node values ``(B, N, G)`` after removing each group of inputs alone (a concept; with its absence, two inputs).

    Removal of one input costs the terms that involve it, so from one pass of :meth:`Capacity.involvement`,

    .. math:: h^{-j}(u) = \frac{h(u) - I_j(u; u)}{1 - (2\,\mathrm{Shap}_j - a_j)}.
    """
    out = u.new_empty(len(u), nodes.capacity.shape[0], len(groups))
    for members, capacity, seen in nodes.views(u):
        out[:, members] = _values_without_each(capacity, seen, nodes.means, groups, mode)
    return out


def _values_without_each(
    capacity: Capacity, u: Tensor, means: Tensor, groups: Sequence[Sequence[int]], mode: str
) -> Tensor:
    before = capacity.integrate(u)[:, :, None]
    lost = _involvement_of_groups(capacity, u, u, groups)
    if mode == "impute":
        return before - lost + _involvement_of_groups(capacity, u, means.expand_as(u), groups)
    remaining, mass = before - lost, mass_of_groups(capacity, groups)
    if mode == "canonical":
        freed, freed_mass = _freed_by_groups(capacity, u, groups)
        remaining, mass = remaining + freed, mass - freed_mass
    if capacity.free:
        return remaining
    out = remaining / (1 - mass)
    for node, group in torch.nonzero(1 - mass < CANCELLATION).tolist():
        removed = torch.zeros(1, capacity.shape[1], dtype=torch.bool)
        removed[0, list(groups[group])] = True
        alone, _ = capacity.select([node]).without(removed, canonical=mode == "canonical")
        out[:, node, group] = alone.integrate(u)[:, 0]
    return out


def _involvement_of_groups(capacity: Capacity, u: Tensor, v: Tensor, groups: Sequence[Sequence[int]]) -> Tensor:
    """Terms that involve a member of the group, with the members at ``v`` and all else at ``u``: ``(B, N, G)``."""
    single = capacity.involvement(u, v)
    first, second = _members(groups)
    total = single[:, :, first]
    if second is not None:
        b, c = _pair_weights(capacity, first, second)
        # each member counted the pair once, against the other's value in u; it is there once, with both at v
        total = total + single[:, :, second]
        for x, y, sign in ((v, u, -1), (u, v, -1), (v, v, +1)):
            low = torch.minimum(x[:, first], y[:, second])[:, None]
            high = torch.maximum(x[:, first], y[:, second])[:, None]
            total = total + sign * (b * low + c * high)
    return total


def mass_of_groups(capacity: Capacity, groups: Sequence[Sequence[int]]) -> Tensor:
    """Weight ``(N, G)`` of the terms that involve a member of each group."""
    mass = capacity.involved_mass()
    first, second = _members(groups)
    if second is None:
        return mass[:, first]
    b, c = _pair_weights(capacity, first, second)
    return mass[:, first] + mass[:, second] - b - c  # the pair of both members counts once


def absolute(capacity: Capacity) -> Capacity:
    """Free weights by size and as shares; capacities as they are."""
    if isinstance(capacity, PairwiseCapacity) and capacity.free:
        return PairwiseCapacity(as_shares(capacity.w.abs().flatten(1)).view_as(capacity.w))
    if isinstance(capacity, AdditiveCapacity) and capacity.free:
        return AdditiveCapacity(as_shares(capacity.a.abs()))
    return capacity


def _freed_by_groups(capacity: Capacity, u: Tensor, groups: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """What canonical removal gives to the kept members of broken pairs: values ``(B, N, G)`` and mass ``(N, G)``."""
    n_nodes = capacity.shape[0]
    values = u.new_zeros(len(u), n_nodes, len(groups))
    mass = u.new_zeros(n_nodes, len(groups))
    for index, group in enumerate(groups):
        for member in group:
            b, c = capacity.pairs(slice(member, member + 1))
            common = torch.minimum(b, c)[:, 0]
            common[:, list(group)] = 0.0
            values[:, :, index] += u @ common.T
            mass[:, index] += common.sum(1)
    return values, mass


def _members(groups: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor | None]:
    first = torch.tensor([group[0] for group in groups])
    return first, torch.tensor([group[1] for group in groups]) if len(groups[0]) == 2 else None


def _pair_weights(capacity: Capacity, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Weights b and c, each ``(N, G)``, of the pairs (first, second)."""
    columns = []
    for j, l in zip(first.tolist(), second.tolist(), strict=True):
        b, c = capacity.pairs(slice(j, j + 1))
        columns.append((b[:, 0, l], c[:, 0, l]))
    b_columns, c_columns = zip(*columns, strict=True)
    return torch.stack(b_columns, 1), torch.stack(c_columns, 1)
