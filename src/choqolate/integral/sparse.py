"""Sparse capacities: a short list of terms per integral."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from choqolate.integral.capacity import Capacity, mass_of_touched
from choqolate.integral.terms import Terms, pair_values

_VALUES = 1 << 22  # values of terms held at a time


@dataclass(frozen=True)
class SparseCapacity(Capacity):
    r"""``N`` capacities over ``M`` inputs as lists of T terms in all; what is not listed has no weight.

    Every operation costs time in proportion to the number of terms. Build one with :meth:`of_terms`.

    Args:
        node: the integral that each term belongs to ``(T,)``, in ascending order.
        first, second: its inputs, ``first <= second``; one input twice is a single.
        is_max: whether it is the maximum of two inputs, else the minimum.
        weight: of the term. Each term is listed once.
        n_nodes, n_inputs: N and M.

    >>> half = torch.tensor([0.5])
    >>> pair = Terms(torch.tensor([0]), torch.tensor([1]), torch.tensor([True]), half)
    >>> capacity = SparseCapacity.of_terms([Terms.of_singles(half).and_also(pair)], n_inputs=2)
    >>> capacity.integrate(torch.tensor([[0.2, 0.6]]))  # 0.5 * 0.2 + 0.5 * max(0.2, 0.6)
    tensor([[0.4000]])
    >>> capacity.shapley()
    tensor([[0.7500, 0.2500]])
    """

    node: Tensor
    first: Tensor
    second: Tensor
    is_max: Tensor
    weight: Tensor
    n_nodes: int
    n_inputs: int

    @classmethod
    def of_terms(cls, terms: Sequence[Terms], n_inputs: int) -> SparseCapacity:
        """From the terms of each integral; equal terms are added. They should sum to one."""
        sizes = torch.tensor([len(some.weight) for some in terms], device=terms[0].weight.device)
        node = torch.arange(len(terms), device=sizes.device).repeat_interleave(sizes)
        whole = Terms(*(torch.cat(parts) for parts in zip(*terms, strict=True)))
        return _gathered(node, whole, len(terms), n_inputs)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_nodes, self.n_inputs

    @property
    def _terms(self) -> Terms:
        return Terms(self.first, self.second, self.is_max, self.weight)

    @property
    def _is_pair(self) -> Tensor:
        return self.first != self.second

    def integrate(self, u: Tensor) -> Tensor:
        parts = [
            rows.new_zeros(len(rows), self.n_nodes).index_add(1, self.node, self._terms.values(rows) * self.weight)
            for rows in u.split(self._rows_at_a_time())
        ]
        return torch.cat(parts)

    def _rows_at_a_time(self) -> int:
        return max(1, _VALUES // max(1, len(self.weight)))

    def shapley(self) -> Tensor:
        half = 0.5 * self.weight
        return self._over_inputs(self.first, half) + self._over_inputs(self.second, half)

    def singles(self) -> Tensor:
        return self._over_inputs(self.first, self.weight.masked_fill(self._is_pair, 0.0))

    def _over_inputs(self, inputs: Tensor, values: Tensor) -> Tensor:
        """Sums ``(N, M)`` of values of the terms, each at its node and one of its inputs."""
        flat = values.new_zeros(self.n_nodes * self.n_inputs)
        return flat.index_add(0, self.node * self.n_inputs + inputs, values).view(self.shape)

    def _over_nodes(self, values: Tensor) -> Tensor:
        """Sums ``(N,)`` of values of the terms."""
        return values.new_zeros(self.n_nodes).index_add(0, self.node, values)

    def pairs(self, rows: slice | Tensor) -> tuple[Tensor, Tensor]:
        chosen, place_of = torch.arange(self.n_inputs, device=self.node.device)[rows].unique(return_inverse=True)
        place = torch.full((self.n_inputs,), -1, device=self.node.device)
        place[chosen] = torch.arange(len(chosen), device=place.device)
        b, c = (self.weight.new_zeros(self.n_nodes, len(chosen), self.n_inputs) for _ in range(2))
        for own, other in ((self.first, self.second), (self.second, self.first)):
            for weights, of_kind in ((b, ~self.is_max), (c, self.is_max)):
                found = self._is_pair & of_kind & (place[own] >= 0)
                weights[self.node[found], place[own[found]], other[found]] = self.weight[found]
        return b[:, place_of], c[:, place_of]

    def pairs_between(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        asked = torch.minimum(first, second) * self.n_inputs + torch.maximum(first, second)
        node, own, weights = self._pairs()
        found, place_of = asked.unique(return_inverse=True)
        place = torch.searchsorted(found, own).clamp(max=len(found) - 1)
        there = found[place] == own
        out = self.weight.new_zeros(2, self.n_nodes, len(found))
        out[:, node[there], place[there]] = weights[:, there]
        b, c = out[..., place_of]
        return b, c

    def integrate_common(self, u: Tensor) -> Tensor:
        node, pair, weights = self._pairs()
        common, (first, second) = weights.amin(0), (pair // self.n_inputs, pair % self.n_inputs)
        out = u.new_zeros(len(u), self.n_nodes * self.n_inputs)
        for removed, kept in ((first, second), (second, first)):
            for rows, values in zip(out.split(self._rows_at_a_time()), u.split(self._rows_at_a_time()), strict=True):
                rows.index_add_(1, node * self.n_inputs + removed, values[:, kept] * common)
        return out.unflatten(1, self.shape)

    def _pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """The pairs that have weight: node, ``first * M + second``, and the weights b and c ``(2, pairs)``."""
        is_pair, size = self._is_pair, self.n_inputs**2
        pair = (self.node * size + self.first * self.n_inputs + self.second)[is_pair]
        found, which = pair.unique(return_inverse=True)
        weights = self.weight.new_zeros(2, len(found))
        weights[self.is_max[is_pair].long(), which] = self.weight[is_pair]
        return found // size, found % size, weights

    def interaction_mass(self) -> Tensor:
        return self._over_nodes(self.weight.masked_fill(~self._is_pair, 0.0))

    def involvement(self, u: Tensor, v: Tensor) -> Tensor:
        out = (self.singles() * v[:, None]).contiguous()  # to be added to in place, whatever the strides of v
        node, first, second, is_max, weight = (part[self._is_pair] for part in (self.node, *self._terms))
        step = self._rows_at_a_time()
        for flat, at, others in zip(out.flatten(1).split(step), v.split(step), u.split(step), strict=True):
            for own, other in ((first, second), (second, first)):
                values = pair_values(at[:, own], others[:, other], is_max) * weight
                flat.index_add_(1, node * self.n_inputs + own, values)
        return out

    def without(self, removed: Tensor, *, canonical: bool = False) -> tuple[SparseCapacity, Tensor]:
        return (self._with_freed(removed) if canonical else self).reweighted((~removed).to(self.weight.dtype))

    def reweighted(self, factors: Tensor) -> tuple[SparseCapacity, Tensor]:
        of_second = torch.where(self._is_pair, factors[self.node, self.second], 1.0)
        weight = self.weight * factors[self.node, self.first] * of_second
        retained = mass_of_touched(self._over_nodes(weight), factors)
        return replace(self, weight=weight / retained[self.node]), retained

    def _with_freed(self, removed: Tensor) -> SparseCapacity:
        """With min(b, c) of each pair that loses one member added to the other one: the mass is not one then."""
        node, pair, weights = self._pairs()
        first, second = pair // self.n_inputs, pair % self.n_inputs
        without_first, without_second = removed[node, first], removed[node, second]
        freed = torch.where(without_first != without_second, weights.amin(0), 0.0)
        kept = torch.where(without_first, second, first)
        singles = Terms(kept, kept, torch.zeros_like(without_first), freed)
        return _gathered(torch.cat([self.node, node]), self._terms.and_also(singles), *self.shape)

    def select(self, nodes: Sequence[int] | slice | Tensor) -> SparseCapacity:
        chosen = torch.arange(self.n_nodes, device=self.node.device)[nodes]
        starts, ends = torch.searchsorted(self.node, chosen), torch.searchsorted(self.node, chosen, right=True)
        spans = [torch.arange(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        index = torch.cat(spans).to(self.node.device) if spans else chosen
        node = torch.arange(len(chosen), device=chosen.device).repeat_interleave(ends - starts)
        return SparseCapacity(node, *self._terms.take(index), len(chosen), self.n_inputs)

    def terms(self, node: int, most: int | None = None, mass: float = math.inf) -> Terms:
        return self.select([node])._terms.heaviest(most, mass)

    def n_terms(self) -> Tensor:
        return self._over_nodes((self.weight != 0).long())


def _gathered(node: Tensor, terms: Terms, n_nodes: int, n_inputs: int) -> SparseCapacity:
    """A capacity of terms in any order, of which some may be equal."""
    key = ((node * n_inputs + terms.first) * n_inputs + terms.second) * 2 + terms.is_max
    found, which = key.unique(return_inverse=True)
    weight = terms.weight.new_zeros(len(found)).index_add(0, which, terms.weight)
    pair = found // 2
    inputs = pair // n_inputs
    parts = inputs // n_inputs, inputs % n_inputs, pair % n_inputs, found % 2 == 1, weight
    return SparseCapacity(*parts, n_nodes, n_inputs)
