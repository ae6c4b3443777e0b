"""How concepts are removed from nodes (CHOQ-PCR) and reweighted: the modes, exactly and for every concept alone.

Everything here works on scaled inputs ``u (B, M)``, on nodes and on inputs by index; names and the history of edits
belong to :mod:`choqolate.network.fitted`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from choqolate.errors import ChoqolateError
from choqolate.integral import AdditiveCapacity, Capacity, FactoredCapacity, PairwiseCapacity
from choqolate.integral.capacity import as_shares

MODES = ("rescale", "canonical", "impute")
MOST_CANONICAL = 5_000  # inputs of a factored layer, each of which is removed canonically
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


class WithoutEach:
    r"""Removal of each group of inputs alone: of each concept or, with its absence, of two inputs.

    Removal of one input costs the terms that involve it, so from one pass of :meth:`Capacity.involvement`,

    .. math:: h^{-j}(u) = \frac{h(u) - I_j(u; u)}{1 - (2\,\mathrm{Shap}_j - a_j)}.

    What does not depend on the rows is computed once.

    Args:
        nodes: the first layer.
        groups: G groups of inputs, all of one input or all of two.
        mode: of the removal.

    Raises:
        ChoqolateError: for canonical removals from factored capacities of more than 5,000 inputs.
    """

    def __init__(self, nodes: Nodes, groups: Sequence[Sequence[int]], mode: str) -> None:
        if mode == "canonical":
            _check_canonical(nodes.capacity)
        self._nodes, self._mode = nodes, mode
        self._parts = [_Groups.of(capacity, groups, mode) for _, capacity, _ in nodes.groups()]

    def values(self, u: Tensor) -> Tensor:
        """Node values ``(B, N, G)`` without each group, of inputs ``u (B, M)``."""
        out = u.new_empty(len(u), self._nodes.capacity.shape[0], len(self._parts[0].first))
        for (members, _, seen), groups in zip(self._nodes.views(u), self._parts, strict=True):
            out[:, members] = groups.values_without(seen, self._nodes.means, self._mode)
        return out


@dataclass(frozen=True)
class _Groups:
    """Groups of inputs in capacities, and their weights ``(N, G)``.

    Attributes:
        capacity: the capacities.
        first, second: members of each group ``(G,)``; ``second`` is ``None`` if each has one.
        b, c: weights of the pairs that they form, zeros if they form none.
        mass: weight of the terms that are lost with the group.
    """

    capacity: Capacity
    first: Tensor
    second: Tensor | None
    b: Tensor
    c: Tensor
    mass: Tensor

    @classmethod
    def of(cls, capacity: Capacity, groups: Sequence[Sequence[int]], mode: str = "rescale") -> _Groups:
        first, *others = torch.tensor(groups).T
        second = others[0] if others else None
        involved = capacity.involved_mass()
        mass = involved[:, first]
        b = c = torch.zeros_like(mass)
        if second is not None:
            b, c = capacity.pairs_between(first, second)
            mass = mass + involved[:, second] - b - c  # the pair of both members counts once
        found = cls(capacity, first, second, b, c, mass)
        if mode == "canonical":
            freed = found._freed(torch.ones(1, capacity.shape[1], dtype=mass.dtype))[0]
            found = replace(found, mass=mass - freed)
        return found

    def values_without(self, u: Tensor, means: Tensor, mode: str) -> Tensor:
        """Values ``(B, N, G)`` after removing each group alone."""
        before = self.capacity.integrate(u)[:, :, None]
        remaining = before - self._involvement(u, u)
        if mode == "impute":
            return remaining + self._involvement(u, means.expand_as(u))
        if mode == "canonical":
            remaining = remaining + self._freed(u)
        if self.capacity.free:
            return remaining
        out = remaining / (1 - self.mass)
        for node, group in torch.nonzero(1 - self.mass < CANCELLATION).tolist():
            removed = torch.zeros(1, self.capacity.shape[1], dtype=torch.bool)
            removed[0, [int(part[group]) for part in (self.first, self.second) if part is not None]] = True
            alone, _ = self.capacity.select([node]).without(removed, canonical=mode == "canonical")
            out[:, node, group] = alone.integrate(u)[:, 0]
        return out

    def _involvement(self, u: Tensor, v: Tensor) -> Tensor:
        """Terms that involve a member of the group, with the members at ``v`` and all else at ``u``: ``(B, N, G)``."""
        single = self.capacity.involvement(u, v)
        total = single[:, :, self.first]
        if self.second is not None:
            # each member counted the pair once, against the other's value in u; it is there once, with both at v
            total = total + single[:, :, self.second]
            for x, y, sign in ((v, u, -1), (u, v, -1), (v, v, +1)):
                low = torch.minimum(x[:, self.first], y[:, self.second])[:, None]
                high = torch.maximum(x[:, self.first], y[:, self.second])[:, None]
                total = total + sign * (self.b * low + self.c * high)
        return total

    def _freed(self, u: Tensor) -> Tensor:
        """What canonical removal gives to the kept members of broken pairs: values ``(B, N, G)``."""
        single = self.capacity.integrate_common(u)
        if self.second is None:
            return single[:, :, self.first]
        together = torch.minimum(self.b, self.c) * (u[:, self.first] + u[:, self.second])[:, None]
        return single[:, :, self.first] + single[:, :, self.second] - together  # neither is kept


def _check_canonical(capacity: Capacity) -> None:
    """Products of a few distributions do not tell the smaller one of b and c without all pairs being written down."""
    n_inputs = capacity.shape[1]
    if isinstance(capacity, FactoredCapacity) and n_inputs > MOST_CANONICAL:
        raise ChoqolateError(
            f"Expected at most {MOST_CANONICAL:,} inputs to try the canonical removal of each from factored "
            f"interactions, got {n_inputs:,}: each row would take all {n_inputs * (n_inputs - 1) // 2:,} pairs. Use "
            "mode='rescale'; single concepts can still be removed with mode='canonical'."
        )


def mass_of_groups(capacity: Capacity, groups: Sequence[Sequence[int]]) -> Tensor:
    """Weight ``(N, G)`` of the terms that involve a member of each group."""
    return _Groups.of(capacity, groups).mass


def absolute(capacity: Capacity) -> Capacity:
    """Free weights by size and as shares; capacities as they are."""
    if isinstance(capacity, PairwiseCapacity) and capacity.free:
        return PairwiseCapacity(as_shares(capacity.w.abs().flatten(1)).view_as(capacity.w))
    if isinstance(capacity, AdditiveCapacity) and capacity.free:
        return AdditiveCapacity(as_shares(capacity.a.abs()))
    return capacity
