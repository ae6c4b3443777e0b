r"""Expected minima by running sums over sorted inputs, in time and memory linear in the number of inputs.

.. math:: E[\min(u_J, u_L)] = \sum_k P_k Q_k (u_{(k)} - u_{(k+1)})

with J and L drawn from p and q, u sorted in descending order, and P and Q the running sums of p and q in that order.
Nothing of the size of rows x terms x inputs is ever held: rows and terms are taken some at a time, and the gradients
compute their running sums again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, pad

from choqolate.integral.precision import single_at_least

_WORKSPACE = 9 << 19  # numbers in the largest buffer: 18 MB in single precision
_CHUNK_ROWS = 2  # that should fit the workspace, else the terms are split
_RUN_LENGTH = 32  # of the runs into which a running sum is cut


@dataclass(frozen=True)
class SortedInputs:
    r"""The order of inputs ``(B, M)``: all that an expected minimum needs to know of them.

    ``order`` (int32) lists the inputs of each row from the largest to the smallest; ``gaps`` is
    :math:`u_{(k)} - u_{(k+1)}` in that order, with :math:`u_{(M+1)} = 0`, in single precision at least. Indexing
    selects rows.
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
    u = single_at_least(u.detach())
    order, gaps = torch.empty_like(u, dtype=torch.int32), torch.empty_like(u)
    for rows in slices(len(u), fitting(8 * u.shape[1])):
        indices = descending(u[rows])
        values = u[rows].gather(1, indices)
        order[rows] = indices
        gaps[rows] = values - pad(values[:, 1:], (0, 1))
    return SortedInputs(order, gaps)


def descending(u: Tensor) -> Tensor:
    """Indices ``(B, M)`` that sort each row from the largest to the smallest, equal inputs as they come."""
    if u.dtype != torch.float32 or u.device.type != "cpu":
        return u.argsort(dim=1, descending=True, stable=True)
    # The bits of a float order like an integer once those of negatives are flipped, and an integer that carries its
    # index along can be sorted in place, for which NumPy has vector instructions: several times as fast as argsort.
    bits = u.contiguous().view(torch.int32)
    keys = (~(bits ^ ((bits >> 31) & 0x7FFFFFFF))).long() << 32
    keys |= torch.arange(u.shape[1])
    keys.numpy().sort(axis=1)
    return keys & 0x7FFFFFFF


def minima(u: Tensor, p: Tensor, q: Tensor, inputs: SortedInputs | None) -> Tensor:
    """Expected minima ``(B, C)`` of ``u (B, M)`` under C pairs of distributions ``p``, ``q`` ``(C, M)``.

    >>> one, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])
    >>> minima(torch.tensor([[1.0, 0.5]]), one, other, None)  # 1 or 0.5, with equal probability
    tensor([[0.7500]])
    """
    out, tables = u.new_empty(len(u), len(p)), _tables(p, q)
    for slabs in _slabs(u, inputs, tables[0]):
        out[slabs.rows] = torch.cat([_chunk_minima(slabs, table) for table in tables], 1)
    return out


def gradients(
    u: Tensor, p: Tensor, q: Tensor, inputs: SortedInputs | None, g: Tensor, for_u: bool, for_weights: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ``u``, ``p`` and ``q``, from that of the values ``g (B, C)``; empty where not asked for."""
    tables = _tables(p, q)
    grad_u = u.new_zeros(u.shape if for_u else 0)
    grad_tables = [torch.zeros_like(table[:-1]) for table in tables] if for_weights else []
    for slabs in _slabs(u, inputs, tables[0]):
        parts = g[slabs.rows].split([table.shape[1] // 2 for table in tables], 1)
        if for_u:
            for table, part in zip(tables, parts, strict=True):
                grad_u[slabs.rows] += _input_gradient(slabs, table, part)
        if for_weights:
            for table, part, grad_table in zip(tables, parts, grad_tables, strict=True):
                grad_table += _weight_gradient(slabs, table, part)
    if not for_weights:
        return grad_u, p.new_empty(0), q.new_empty(0)
    grad_p, grad_q = (torch.cat(halves) for halves in zip(*(t.T.chunk(2) for t in grad_tables), strict=True))
    return grad_u, grad_p, grad_q


def _tables(p: Tensor, q: Tensor) -> list[Tensor]:
    """The terms by input, ``(M + 1, 2c)``: q, then p, and a last row of zeros; c terms as the workspace allows."""
    n_terms, n_inputs = p.shape
    n_tables = -(-n_terms // fitting(_CHUNK_ROWS * 2 * (n_inputs + 1)))
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


def _slabs(u: Tensor, inputs: SortedInputs | None, table: Tensor) -> Iterator[_Slabs]:
    """All rows, in chunks that fit the workspace; ``table`` is the widest that will be gathered."""
    n_inputs, width = u.shape[1], table.shape[1]
    n_runs = -(-n_inputs // _RUN_LENGTH)
    length = -(-n_inputs // n_runs)
    step = min(len(u), fitting(n_inputs * max(16, width)))
    missing = (0, n_runs * length - n_inputs)
    space = table.new_empty(step * n_runs * length * width)  # fresh memory for each chunk would cost page faults
    for rows, chunk in sorted_chunks(u, inputs, step):
        padded = pad(chunk.order, missing, value=n_inputs), pad(chunk.gaps, missing)
        order, gaps = (x.view(-1, n_runs, length).permute(2, 0, 1).contiguous() for x in padded)
        yield _Slabs(rows, n_inputs, order, gaps, space)


def sorted_chunks(u: Tensor, inputs: SortedInputs | None, step: int) -> Iterator[tuple[slice, SortedInputs]]:
    """All rows, ``step`` at a time; sorted here unless they were before."""
    for rows in slices(len(u), step):
        yield rows, sort_inputs(u[rows]) if inputs is None else inputs[rows]


def _chunk_minima(slabs: _Slabs, table: Tensor) -> Tensor:
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


def fitting(size: int) -> int:
    """How many things of ``size`` numbers fit the workspace; at least one."""
    return max(1, _WORKSPACE // size)


def slices(length: int, step: int) -> Iterator[slice]:
    """``range(length)`` in parts of ``step``, at least one at a time.

    >>> list(slices(3, 2)), list(slices(2, 0))
    ([slice(0, 2, None), slice(2, 3, None)], [slice(0, 1, None), slice(1, 2, None)])
    """
    step = max(1, step)
    return (slice(start, min(start + step, length)) for start in range(0, length, step))
