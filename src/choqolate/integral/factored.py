r"""Factored capacities: interactions as products of a few distributions, linear in the number of inputs.

Let J and L be drawn independently from distributions p and q over the inputs. Then

.. math:: E[\min(u_J, u_L)] = \sum_{j,l} p_j q_l \min(u_j, u_l) = \sum_k P_k Q_k (u_{(k)} - u_{(k+1)})

is a 2-additive Choquet integral (its diagonal j = l is linear), where u is sorted in descending order, P and Q are the
running sums of p and q in that order, and u is 0 after the last. The maximum follows from min + max = sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding_bag, pad

from choqolate.integral.capacity import Capacity, mass_of_touched

_WORKSPACE = 9 << 19  # numbers in the largest buffer: 18 MB in single precision
_CHUNK_ROWS = 2  # that should fit the workspace, else the terms are split
_RUN_LENGTH = 32  # of the runs into which a running sum is cut


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
        on_linear, on_min, on_max = self._mixture()
        linear = on_linear * self.a + _mix(on_max, self.p + self.q)
        minima: Tensor = _ExpectedMin.apply(u, self.p.flatten(0, 1), self.q.flatten(0, 1), inputs)
        return u @ linear.mT + (minima.view(-1, *on_min.shape) * (on_min - on_max)).sum(-1)

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
        node_step = max(1, min(n_nodes, _WORKSPACE // size))
        out = u.new_empty(len(u), n_nodes, n_inputs)
        for nodes in _slices(n_nodes, node_step):
            part = self.select(nodes)
            for rows in _slices(len(u), _WORKSPACE // (size * node_step)):
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
            for members in mask.nonzero().flatten().split(max(1, _WORKSPACE // (2 * len(mask)))):
                freed[node] += torch.minimum(*alone._products(members))[0].sum(0)
        return freed.masked_fill(removed, 0.0)

    def select(self, nodes: Sequence[int] | slice | Tensor) -> FactoredCapacity:
        return FactoredCapacity(self.m[nodes], self.a[nodes], self.p[nodes], self.q[nodes])


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
    order = _descending(u)
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


@dataclass(frozen=True)
class SortedInputs:
    r"""The order of inputs ``(B, M)``: all that an expected minimum needs to know of them.

    ``order`` (int32) lists the inputs of each row from the largest to the smallest; ``gaps`` is
    :math:`u_{(k)} - u_{(k+1)}` in that order, with :math:`u_{(M+1)} = 0`. Indexing selects rows.
    """

    order: Tensor
    gaps: Tensor

    def __getitem__(self, rows: slice | Tensor) -> SortedInputs:
        return SortedInputs(self.order[rows], self.gaps[rows])


def sort_inputs(u: Tensor) -> SortedInputs:
    """Sort the rows of ``u (B, M)``; worth keeping for data that is integrated more than once.

    >>> inputs = sort_inputs(torch.tensor([[0.25, 1.0], [0.5, 0.0]]))
    >>> inputs.order.tolist(), inputs[:1].gaps.tolist()
    ([[1, 0], [0, 1]], [[0.75, 0.25]])
    """
    u = u.detach()
    order, gaps = torch.empty_like(u, dtype=torch.int32), torch.empty_like(u)
    for rows in _slices(len(u), _WORKSPACE // (8 * u.shape[1])):
        indices = _descending(u[rows])
        values = u[rows].gather(1, indices)
        order[rows] = indices
        gaps[rows] = values - pad(values[:, 1:], (0, 1))
    return SortedInputs(order, gaps)


def _descending(u: Tensor) -> Tensor:
    """Indices ``(B, M)`` that sort each row from the largest to the smallest."""
    if u.dtype != torch.float32 or u.device.type != "cpu":
        return u.argsort(dim=1, descending=True)
    # The bits of a float order like an integer once those of negatives are flipped, and an integer that carries its
    # index along can be sorted in place, for which NumPy has vector instructions: several times as fast as argsort.
    bits = u.contiguous().view(torch.int32)
    keys = (~(bits ^ ((bits >> 31) & 0x7FFFFFFF))).long() << 32
    keys |= torch.arange(u.shape[1])
    keys.numpy().sort(axis=1)
    return keys & 0x7FFFFFFF


class _ExpectedMin(torch.autograd.Function):
    """Expected minima ``(B, C)`` of ``u (B, M)`` under C pairs of distributions ``p``, ``q`` ``(C, M)``.

    Nothing of the size of ``B * C * M`` is ever held: rows and terms are taken some at a time, and the backward pass
    computes its running sums again.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, p: Tensor, q: Tensor, inputs: SortedInputs | None) -> Tensor:
        ctx.save_for_backward(u, p, q)
        ctx.inputs = inputs
        out, tables = u.new_empty(len(u), len(p)), _tables(p, q)
        for slabs in _sorted_chunks(u, inputs, tables[0]):
            out[slabs.rows] = torch.cat([_minima(slabs, table) for table in tables], 1)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        u, p, q = ctx.saved_tensors
        for_u, for_p, for_q, _ = ctx.needs_input_grad
        tables = _tables(p, q)
        grad_tables, grad_u = [torch.zeros_like(table[:-1]) for table in tables], torch.zeros_like(u) if for_u else None
        for slabs in _sorted_chunks(u, ctx.inputs, tables[0]):
            grads = grad[slabs.rows].split([table.shape[1] // 2 for table in tables], 1)
            for table, g, grad_table in zip(tables, grads, grad_tables, strict=True):
                if grad_u is not None:
                    grad_u[slabs.rows] += _input_gradient(slabs, table, g)
                if for_p or for_q:
                    grad_table += _weight_gradient(slabs, table, g)
        grad_p, grad_q = (torch.cat(halves) for halves in zip(*(t.T.chunk(2) for t in grad_tables), strict=True))
        return grad_u, grad_p, grad_q, None


def _tables(p: Tensor, q: Tensor) -> list[Tensor]:
    """The terms by input, ``(M + 1, 2c)``: q, then p, and a last row of zeros; c terms as the workspace allows."""
    n_terms, n_inputs = p.shape
    n_tables = -(-n_terms // max(1, _WORKSPACE // (_CHUNK_ROWS * 2 * (n_inputs + 1))))
    parts = zip(q.chunk(n_tables), p.chunk(n_tables), strict=True)
    return [pad(torch.cat(part).T, (0, 0, 0, 1)).contiguous() for part in parts]


@dataclass(frozen=True)
class _Slabs:
    """Some sorted rows, in a layout that makes running sums cheap.

    Each sorted row is cut into ``S`` runs of ``K`` inputs, filled up with the number M of the tables' empty row; slab k
    holds the k-th inputs of all runs. A running sum is then K additions of whole slabs, once each run knows what the
    runs before it sum to. ``order`` and ``gaps`` are ``(K, B, S)``; ``space`` is memory to gather into.
    """

    rows: slice
    n_inputs: int
    order: Tensor
    gaps: Tensor
    space: Tensor

    def gather(self, table: Tensor) -> Tensor:
        """The rows of ``table (M + 1, W)`` in slab order, ``(K, B, S, W)``, until the next call."""
        rows = self.space[: self.order.numel() * table.shape[1]].view(-1, table.shape[1])
        torch.index_select(table, 0, self.order.flatten(), out=rows)
        return rows.view(*self.order.shape, -1)

    @cached_property
    def places(self) -> Tensor:
        """Where each input of each row stands among the flattened slabs, ``(M, B)``."""
        n_rows, device = self.order.shape[1], self.order.device
        index = (self.order.long() * n_rows).add_(torch.arange(n_rows, device=device)[:, None]).flatten()
        places = self.order.new_empty((self.n_inputs + 1) * n_rows)
        places.scatter_(0, index, torch.arange(len(index), dtype=places.dtype, device=device))
        return places.view(-1, n_rows)[: self.n_inputs]


def _sorted_chunks(u: Tensor, inputs: SortedInputs | None, table: Tensor) -> Iterator[_Slabs]:
    """All rows, in chunks that fit the workspace; ``table`` is the widest that will be gathered."""
    n_inputs, width = u.shape[1], table.shape[1]
    n_runs = -(-n_inputs // _RUN_LENGTH)
    length = -(-n_inputs // n_runs)
    step = max(1, min(len(u), _WORKSPACE // (n_inputs * max(16, width))))
    missing = (0, n_runs * length - n_inputs)
    space = table.new_empty(step * n_runs * length * width)  # fresh memory for each chunk would cost page faults
    for rows in _slices(len(u), step):
        chunk = sort_inputs(u[rows]) if inputs is None else inputs[rows]
        padded = pad(chunk.order, missing, value=n_inputs), pad(chunk.gaps, missing)
        order, gaps = (x.view(-1, n_runs, length).permute(2, 0, 1).contiguous() for x in padded)
        yield _Slabs(rows, n_inputs, order, gaps, space)


def _minima(slabs: _Slabs, table: Tensor) -> Tensor:
    """The expected minima ``(B, c)``: the sum of P_k Q_k gap_k over k."""
    q_sum, p_sum = _running_sums(slabs.gather(table)).chunk(2, -1)
    return q_sum.mul_(p_sum).mul_(slabs.gaps[..., None]).sum(0).sum(1)  # at once, the two sums take four times as long


def _weight_gradient(slabs: _Slabs, table: Tensor, grad: Tensor) -> Tensor:
    """The gradients of p and q, side by side: ``(M, 2c)``.

    The derivative with respect to p at place k is the sum of Q_i gap_i over i >= k.
    """
    sums = _running_sums(slabs.gather(table))
    slopes = _sums_from_the_end(sums, slabs.gaps[..., None], grad.repeat(1, 2)[:, None])
    return _sum_rows(slopes.flatten(0, 2), slabs.places)


def _input_gradient(slabs: _Slabs, table: Tensor, grad: Tensor) -> Tensor:
    """The gradient of u, ``(B, M)``.

    The derivative with respect to u at place k is P_k Q_k - P_k-1 Q_k-1 = q_k (P_k - p_k) + p_k Q_k.
    """
    weights = slabs.gather(table)
    (q, p), (q_sum, p_sum) = weights.chunk(2, -1), _running_sums(weights.clone()).chunk(2, -1)
    slopes = p_sum.sub_(p).mul_(q).addcmul_(q_sum, p) @ grad[..., None]
    return slopes.flatten()[slabs.places].T


def _running_sums(x: Tensor) -> Tensor:
    """Running sums along the sorted inputs, in slab order ``(K, B, S, W)`` and in place."""
    x[0, :, 1:] += x.sum(0).cumsum(1)[:, :-1]
    for before, slab in pairwise(x.unbind()):
        slab += before
    return x


def _sums_from_the_end(x: Tensor, gaps: Tensor, scale: Tensor) -> Tensor:
    """For each sorted input the sum of ``x * gaps * scale`` from there to the last, in slab order and in place."""
    slabs = x.unbind()[::-1]
    slabs[0].mul_(gaps[-1])
    for (after, slab), gap in zip(pairwise(slabs), gaps.unbind()[-2::-1], strict=True):
        torch.addcmul(after, slab, gap, out=slab)
    later_runs = pad((x[0] * scale).flip(1).cumsum(1).flip(1)[:, 1:], (0, 0, 0, 1))
    return torch.addcmul(later_runs, x, scale, out=x)


def _sum_rows(table: Tensor, index: Tensor) -> Tensor:
    """Sums of the rows of ``table (., W)`` that each row of ``index (n, k)`` lists: ``(n, W)``."""
    if table.dtype == torch.float32:
        return embedding_bag(index, table, mode="sum")  # fetches rows ahead; other precisions have no fast path
    return table.index_select(0, index.T.flatten()).view(*index.T.shape, -1).sum(0)


def _slices(length: int, step: int) -> Iterator[slice]:
    """``range(length)`` in parts of ``step``, or of one where that is 0."""
    step = max(1, step)
    return (slice(start, min(start + step, length)) for start in range(0, length, step))
