r"""Factored capacities: interactions as products of a few distributions, linear in the number of inputs.

Let J and L be drawn independently from distributions p and q over the inputs. Then

.. math:: E[\min(u_J, u_L)] = \sum_{j,l} p_j q_l \min(u_j, u_l) = \sum_k P_k Q_k (u_{(k)} - u_{(k+1)})

is a 2-additive Choquet integral (its diagonal j = l is linear), where u is sorted in descending order, P and Q are the
running sums of p and q in that order, and u is 0 after the last. The maximum follows from min + max = sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from choqolate.integral.capacity import Capacity, mass_of_touched
from choqolate.integral.expected_minimum import SortedInputs, descending, fitting, slices
from choqolate.integral.minimum_operator import expect_minima
from choqolate.integral.precision import HALF, without_autocast
from choqolate.integral.terms import Terms


@dataclass(frozen=True)
class FactoredCapacity(Capacity):
    r"""``N`` capacities whose pairs are products; axes before ``N`` are separate stacks.

    .. math:: C(u) = m_0\, a \cdot u + \sum_{r=1}^R m_r E_r[\min(u_J, u_L)] + m'_r E_r[\max(u_J, u_L)]

    with J and L drawn from ``p[r]`` and ``q[r]``. Every distribution is nonnegative and sums to one.

    Args:
        m: ``(N, 1 + 2R)``, mixture weights :math:`(m_0, m_1 \dots m_R, m'_1 \dots m'_R)`.
        a: ``(N, M)``, the linear part.
        p, q: ``(N, R, M)``, the factors; the r-th minimum and the r-th maximum share them.

    >>> one = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0, 1.0]]])  # J = 0 and L = 1: a single pair
    >>> capacity = FactoredCapacity(torch.tensor([[0.5, 0.2, 0.3]]), torch.tensor([[1.0, 0.0]]), *one)
    >>> capacity.integrate(torch.tensor([[1.0, 0.0]]))  # 0.5 * 1 + 0.2 * min + 0.3 * max
    tensor([[0.8000]])
    >>> capacity.shapley()
    tensor([[0.7500, 0.2500]])
    """

    m: Tensor
    a: Tensor
    p: Tensor
    q: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return self.a.shape[-2], self.a.shape[-1]

    def integrate(self, u: Tensor) -> Tensor:
        if self.a.ndim > 2:
            stack = zip(self.m, self.a, self.p, self.q, strict=True)
            return torch.stack([FactoredCapacity(*parts).integrate(rows) for parts, rows in zip(stack, u, strict=True)])
        return self.integrate_sorted(u, None)

    def integrate_sorted(self, u: Tensor, inputs: SortedInputs | None) -> Tensor:
        """:meth:`integrate` of ``u (B, M)``, given ``inputs = sort_inputs(u)``; without them, sorts as it goes."""
        if u.dtype in HALF:  # numbers of a few digits do not sum up
            single = FactoredCapacity(*(part.float() for part in (self.m, self.a, self.p, self.q)))
            return single.integrate_sorted(u.float(), inputs).to(u.dtype)
        on_linear, on_min, on_max = self._mixture()
        with without_autocast(u):
            linear = on_linear * self.a + _mix(on_max, self.p + self.q)
            minima = expect_minima(u, self.p.flatten(0, 1), self.q.flatten(0, 1), inputs)
            return u @ linear.mT + (minima.unflatten(1, on_min.shape) * (on_min - on_max)).sum(-1)

    def _mixture(self) -> tuple[Tensor, Tensor, Tensor]:
        """``m`` as the weights of the linear part ``(N, 1)``, of the minima ``(N, R)`` and of the maxima ``(N, R)``."""
        rank = self.p.shape[-2]
        return self.m[..., :1], self.m[..., 1 : rank + 1], self.m[..., rank + 1 :]

    def shapley(self) -> Tensor:
        on_linear, on_min, on_max = self._mixture()
        return on_linear * self.a + 0.5 * _mix(on_min + on_max, self.p + self.q)

    def singles(self) -> Tensor:
        on_linear, on_min, on_max = self._mixture()
        return on_linear * self.a + _mix(on_min + on_max, self.p * self.q)

    def pairs(self, rows: slice | Tensor) -> tuple[Tensor, Tensor]:
        inputs = torch.arange(self.shape[1], device=self.a.device)
        same = inputs[rows, None] == inputs
        b, c = self._products(inputs[rows])
        return b.masked_fill(same, 0.0), c.masked_fill(same, 0.0)

    def pairs_between(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        _, on_min, on_max = self._mixture()
        products = self.p[..., first] * self.q[..., second] + self.p[..., second] * self.q[..., first]
        return _mix(on_min, products), _mix(on_max, products)

    def pairs_among(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return self._among(inputs).pairs(slice(None))

    def integrate_pairs_among(self, u: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        # all products first, then the diagonal j = l is taken out: linear in the number of inputs
        part, at = self._among(inputs), u[:, inputs]
        _, on_min, on_max = part._mixture()
        minima = expect_minima(at, part.p.flatten(0, 1), part.q.flatten(0, 1), None).unflatten(1, on_min.shape)
        p_mass, q_mass = part.p.sum(-1), part.q.sum(-1)
        sums = torch.einsum("nrj,bj->bnr", part.p * q_mass[..., None] + part.q * p_mass[..., None], at)
        diagonal = part.p * part.q
        values = (minima * (on_min - on_max) + sums * on_max).sum(-1) - at @ _mix(on_min + on_max, diagonal).mT
        return values, ((on_min + on_max) * (p_mass * q_mass - diagonal.sum(-1))).sum(-1)

    def _products(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """:meth:`pairs` of the inputs listed in ``rows``, the diagonal left as it comes."""
        _, on_min, on_max = self._mixture()
        left, right = torch.cat([self.p, self.q], -2)[..., rows].mT, torch.cat([self.q, self.p], -2)
        b, c = (left * torch.cat([mixture, mixture], -1)[..., None, :] @ right for mixture in (on_min, on_max))
        return b, c

    def interaction_mass(self) -> Tensor:
        _, on_min, on_max = self._mixture()
        return ((on_min + on_max) * (1 - (self.p * self.q).sum(-1))).sum(-1)

    @torch.no_grad()
    def involvement(self, u: Tensor, v: Tensor) -> Tensor:
        n_nodes, n_inputs = self.shape
        size = 8 * self.p.shape[-2] * (n_inputs + 1)  # numbers at work for one node and one row
        node_step = min(n_nodes, fitting(size))
        out = u.new_empty(len(u), n_nodes, n_inputs)
        for nodes in slices(n_nodes, node_step):
            part = self.select(nodes)
            for rows in slices(len(u), fitting(size * node_step)):
                out[rows, nodes] = part._involvement(u[rows], v[rows])
        return out

    def _involvement(self, u: Tensor, v: Tensor) -> Tensor:
        # sums over all l first, then the diagonal l = j is taken out; a maximum is the sum less the minimum
        on_linear, on_min, on_max = self._mixture()
        own, other = torch.cat([self.p, self.q], -2), torch.cat([self.q, self.p], -2)
        minima = _partial_minima(other.flatten(0, 1), u, v).view(*own.shape[:2], *u.shape)
        values = torch.einsum("nr,nrj,nrbj->bnj", (on_min - on_max).repeat(1, 2), own, minima)
        sums = torch.einsum("nrl,bl->bnr", other, u) * on_max.repeat(1, 2)  # first over l: nothing is M by M
        values += torch.einsum("nrj,bnr->bnj", own, sums)
        diagonal_min, diagonal_max = _mix(on_min - on_max, self.p * self.q), _mix(on_max, self.p * self.q)
        values += (on_linear * self.a + _mix(on_max, self.p + self.q) + diagonal_min) * v[:, None]
        return values.sub_(2 * diagonal_max * u[:, None]).sub_(2 * diagonal_min * torch.minimum(u, v)[:, None])

    def without(self, removed: Tensor, *, canonical: bool = False) -> tuple[FactoredCapacity, Tensor]:
        # m_0 (1 - a_J) is left of the linear part, m_r (1 - p_J) (1 - q_J) of a term; p_J: the mass of p on removed J
        return self._multiplied((~removed).to(self.a.dtype), freed=self._freed(removed) if canonical else None)

    def reweighted(self, factors: Tensor) -> tuple[FactoredCapacity, Tensor]:
        # the product form multiplies its diagonal p_j q_j by the square of a factor: the same at 0 and 1
        return self._multiplied(factors)

    def _multiplied(self, factors: Tensor, freed: Tensor | None = None) -> tuple[FactoredCapacity, Tensor]:
        """All distributions times the factors of their inputs; ``freed (N, M)`` is added to the linear part."""
        linear = self.m[:, :1] * (self.a * factors)
        linear = linear if freed is None else linear + freed
        p, q = self.p * factors[:, None], self.q * factors[:, None]
        terms = self.m[:, 1:] * (p.sum(-1) * q.sum(-1)).repeat(1, 2)
        m = torch.cat([linear.sum(-1, keepdim=True), terms], -1)
        retained = mass_of_touched(m.sum(-1), factors)
        allowed = factors > 0
        a, p, q = (
            _normalised(x, mask) for x, mask in ((linear, allowed), (p, allowed[:, None]), (q, allowed[:, None]))
        )
        touched = (factors != 1).any(-1)[:, None]
        m, a = torch.where(touched, m / retained[:, None], self.m), torch.where(touched, a, self.a)
        p, q = (torch.where(touched[:, None], new, old) for new, old in ((p, self.p), (q, self.q)))
        return FactoredCapacity(m, a, p, q), retained

    def _freed(self, removed: Tensor) -> Tensor:
        """What kept inputs get back of their pairs with removed ones, ``(N, M)``: the sum of min(b, c) over these."""
        freed = torch.zeros_like(self.a)
        for node, mask in enumerate(removed):
            alone = self.select([node])
            for members in mask.nonzero().flatten().split(fitting(2 * len(mask))):
                freed[node] += torch.minimum(*alone._products(members))[0].sum(0)
        return freed.masked_fill(removed, 0.0)

    def select(self, nodes: Sequence[int] | slice | Tensor) -> FactoredCapacity:
        return FactoredCapacity(self.m[nodes], self.a[nodes], self.p[nodes], self.q[nodes])

    def _among(self, inputs: Tensor) -> FactoredCapacity:
        """The weights of terms among some inputs alone, which do not sum to one."""
        return FactoredCapacity(self.m, self.a[..., inputs], self.p[..., inputs], self.q[..., inputs])

    @torch.no_grad()
    def terms(self, node: int, most: int | None = None, mass: float = math.inf) -> Terms:
        # Inputs are taken in the order of the most that a pair of theirs can weigh, each with those before it, until no
        # pair to come can be among the heaviest. Weights that differ by rounding alone count as equal.
        alone = self.select([node])
        found = Terms.of_singles(alone.singles()[0]).heaviest(most, mass)
        bounds, ranked = alone._bound_pairs().sort(descending=True, stable=True)
        bounds = bounds * (1 - 64 * torch.finfo(bounds.dtype).eps)
        start = 1
        while start < len(ranked) and (least := _least(found.weight, most, mass)) < float(bounds[start]):
            rows = torch.arange(start, min(start + _block_rows(start), len(ranked)), device=ranked.device)
            seen = ranked[: start + len(rows)]
            for is_max, weights in enumerate(alone._among(seen)._products(rows)):
                row, column = torch.nonzero(weights[0].tril_(start - 1) > least, as_tuple=True)
                one, other = seen[rows[row]], seen[column]
                kind = torch.full_like(one, is_max, dtype=torch.bool)
                new = Terms(torch.minimum(one, other), torch.maximum(one, other), kind, weights[0, row, column])
                found = found.and_also(new.heaviest(most)) if len(row) else found
            found = found.heaviest(most, mass)
            start += len(rows)
        return found

    def _bound_pairs(self) -> Tensor:
        r"""The most that a pair of each input can weigh ``(M,)``, in one integral: the least of three bounds.

        A pair weighs :math:`x_j \cdot y_l`, where x has the columns of p and q times the root of the mixture, and y
        those of q and p. That is at most the weight of all pairs of j, and at most :math:`x_j \cdot \max_l y_l`, which
        is small if a few inputs are heavy. For inputs that are nearly alike the least is :math:`x_j \cdot \bar y +
        \bar x \cdot y_l - \bar x \cdot \bar y + |x_j - \bar x| |y_l - \bar y|`, at its largest over l.
        """
        _, on_min, on_max = self._mixture()
        bound = torch.zeros_like(self.a[0])
        for mixture in (on_min, on_max):
            x = torch.cat([self.p, self.q], 1)[0] * mixture.sqrt().repeat(1, 2).T
            mean, largest = (side.roll(len(x) // 2) for side in (x.mean(1), x.amax(1)))
            on_average, apart = mean @ x, (x - x.mean(1, keepdim=True)).norm(dim=0)
            by_mean = on_average + on_average.max() - mean @ x.mean(1) + apart * apart.max()
            bound = torch.maximum(bound, torch.minimum(by_mean, largest @ x))
        return torch.minimum(bound, (self.involved_mass() - self.singles())[0])

    def n_terms(self) -> Tensor:
        counts = [self.select([node])._count_terms() for node in range(len(self.a))]
        return torch.tensor(counts, device=self.a.device)

    def _count_terms(self) -> int:
        """Number of terms of one integral: inputs alike in where p and q are zero are counted together."""
        patterns, numbers = (torch.cat([self.p, self.q], 1)[0] > 0).to(self.m).T.unique(dim=0, return_counts=True)
        p, q = patterns.T[None].chunk(2, 1)
        count = int(torch.count_nonzero(self.singles()))
        for weights in FactoredCapacity(self.m, self.a[:, :0], p, q)._products(torch.arange(len(patterns))):
            there = (weights[0] > 0).long()
            count += int(numbers @ there @ numbers - there.diagonal() @ numbers) // 2  # each pair once, no diagonal
        return count


def _block_rows(start: int) -> int:
    """How many rows k to take after ``start`` others: few at first, and their k (start + k) pairs fit the workspace."""
    fits = (math.isqrt(start**2 + 4 * fitting(1)) - start) // 2
    return max(1, min(fits, max(start, 64)))


def _least(weights: Tensor, most: int | None, mass: float) -> float:
    """What a term must exceed to be one of the heaviest, given weights of some, in descending order."""
    enough = len(weights) == most or float(weights.sum()) >= mass
    return float(weights[-1]) if enough else 0.0


def _mix(weights: Tensor, terms: Tensor) -> Tensor:
    """Sums over the terms r of ``weights[..., r] * terms[..., r, :]``."""
    return (weights[..., None, :] @ terms).squeeze(-2)


def _normalised(weights: Tensor, allowed: Tensor) -> Tensor:
    """Weights divided by their sum; even over the allowed inputs where the sum is zero."""
    total = weights.sum(-1, keepdim=True)
    even = allowed.to(weights) / allowed.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(total > 0, weights / total, even)


def _partial_minima(w: Tensor, u: Tensor, v: Tensor) -> Tensor:
    r""":math:`G(v_j) = \sum_l w_l \min(v_j, u_l)` for weights ``(T, M)`` at ``u``, ``v`` ``(B, M)``: ``(T, B, M)``."""
    n_rows, n_inputs = u.shape
    order = descending(u)
    values = u.gather(1, order)
    above = torch.searchsorted(-values.contiguous(), -v.contiguous())  # how many u_l are greater than v_j
    cells = (above + torch.arange(n_rows, device=u.device)[:, None] * (n_inputs + 1)).flatten()

    def sums(x: Tensor) -> tuple[Tensor, Tensor]:
        """Over the inputs above v_j, and over all."""
        running = pad(x.cumsum(-1), (1, 0))
        return running.flatten(1).index_select(1, cells).view_as(x), running[..., -1:]

    weights = w.index_select(1, order.flatten()).view(-1, n_rows, n_inputs)
    weight_above, _ = sums(weights)
    value_above, value = sums(weights * values)
    return (weight_above * v).add_(value).sub_(value_above)
